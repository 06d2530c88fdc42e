"""Files are whole or not there, and evidence is kept and found again."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from announcing import announced
from principia.lab.course.catalog import page
from principia.lab.course.fingerprint import of_claims
from principia.lab.evidence import checking, kept
from principia.lab.params import Failure, UsageError
from principia.lab.storage import need_writable, write_text


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    write_text(path, "old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_paths_that_cannot_be_written_are_refused_before_the_work(tmp_path):
    need_writable("tour", tmp_path / "fine.html")
    with pytest.raises(UsageError, match="does not exist"):
        need_writable("tour", tmp_path / "no" / "where.html")
    with pytest.raises(UsageError, match="is a folder"):
        need_writable("tour", tmp_path)
    with pytest.raises(UsageError, match="cannot be written"):
        need_writable("tour", Path("/proc/report.html"))


def test_evidence_is_remembered(monkeypatch, tmp_path):
    monkeypatch.setenv("PRINCIPIA_CACHE", str(tmp_path))
    one = page("connectionism/perceptron")
    assert kept.last_finding(one, "bound_is_attained") is None
    finding = one.claim("bound_is_attained").check([0])
    kept.remember(finding)
    found = kept.last_finding(one, "bound_is_attained")
    assert found.finding == finding
    assert found.stale, "nobody knows what code it was"
    kept.remember(replace(finding, code=of_claims(one)))
    assert kept.fresh_finding(one, "bound_is_attained").passed
    stored = tmp_path / "evidence/connectionism/perceptron/bound_is_attained.json"
    before = stored.read_text()
    stored.write_text(before.replace('"python": "', '"python": "1.'))
    assert kept.last_finding(one, "bound_is_attained").stale, "other versions"
    stored.write_text("{ torn")
    assert kept.last_finding(one, "bound_is_attained") is None


def test_a_killed_worker_is_told(tmp_path, monkeypatch):
    deadly = announced(tmp_path, monkeypatch, "deadly", "import os\nos._exit(9)\n")
    with pytest.raises(Failure, match="a worker process was killed"):
        checking.check_all([(deadly, "any")], seeds=(0, 1), jobs=2)


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="this system does not list open files")
def test_findings_of_workers_open_no_files():
    """Torch sends tensors as open files; those of the whole course were more than are allowed."""
    before = len(os.listdir("/dev/fd"))
    selection = [(page("mathematics/gaussian"), "conditioning")]
    found = checking.check_all(selection, seeds=(0, 1), jobs=2)  # figures of tensors
    assert found[0].passed
    assert len(os.listdir("/dev/fd")) < before + 5


def test_a_page_that_cannot_be_imported_fails_alone(tmp_path, monkeypatch):
    announced(tmp_path, monkeypatch, "broken", "raise RuntimeError('half written')\n")
    found = checking._work(("broken/idea", "anything", 0, {}))
    (measure,), (control,) = found.measures, found.controls
    assert not found.passed
    assert measure.verdict == control.verdict == "error"
    assert measure.error == "broken/idea cannot be imported: RuntimeError: half written"

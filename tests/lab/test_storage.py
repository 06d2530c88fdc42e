"""Files are whole or not there, and evidence is kept and found again."""

import os
from pathlib import Path

import pytest

from principia.lab import checking
from principia.lab.catalog import Page, page
from principia.lab.errors import Failure, UsageError
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
    assert checking.last_finding(one.key, "bound_is_attained") is None
    finding = one.claim("bound_is_attained").check([0])
    checking.remember(finding)
    found = checking.last_finding(one.key, "bound_is_attained")
    assert found["passed"]
    assert found["measures"][0]["measured"] == 1
    stored = tmp_path / "evidence/connectionism/perceptron/bound_is_attained.json"
    stored.write_text("{ torn")
    assert checking.last_finding(one.key, "bound_is_attained") is None


def test_a_killed_worker_is_told(tmp_path, monkeypatch):
    (tmp_path / "deadly_page.py").write_text("import os\nos._exit(9)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    selection = [(Page("lab/deadly_page", "deadly_page", tmp_path / "deadly_page.py"), "any")]
    with pytest.raises(Failure, match="a worker process was killed"):
        checking.check_all(selection, seeds=(0, 1), jobs=2)


def test_a_page_that_cannot_be_imported_fails_alone(tmp_path, monkeypatch):
    (tmp_path / "broken_page.py").write_text("raise RuntimeError('half written')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    measure, control = checking._work(("broken_page", "anything", 0, {}))
    assert measure.verdict == control.verdict == "error"
    assert measure.error == "broken_page cannot be imported: RuntimeError: half written"

"""A run folder that is broken, or only half made, stands in nobody's way."""

import fcntl
import json
import os
import subprocess
import sys
import threading

import pytest

import commands
from principia.lab.params import UsageError
from principia.lab.runs.config import RunConfig
from principia.lab.runs.folders import RunFolder, find_run, list_runs, new_folder

QUICK = ("run", "networks/mlp", "--data", "iris", "--set", "epochs=1", "--set", "hidden=2")
RECORD = {
    "format": 1, "asked": RunConfig("networks/mlp", "hidden_300").to_json(), "command": "",
    "environment": {}, "code": "", "git": "",
}


def principia(folder, *words):
    return commands.principia(*words, cwd=folder)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which one run has ended, and one is as if its process had been killed."""
    place = tmp_path_factory.mktemp("trained")
    for _ in range(2):
        assert principia(place, *QUICK).returncode in (0, 1)
    (place / "runs/networks-mlp-2/result.json").unlink()
    return place


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[" * 100_000, '{"asked": {"page": 5}}'])
def test_the_others_go_on(trained, text):
    broken = trained / "runs/broken-7"
    broken.mkdir(exist_ok=True)
    (broken / "config.json").write_text(text)
    done = principia(trained, "runs")
    assert done.returncode == 0
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    (name, status, sentence, *_), *others = lines
    assert (name, status) == ("broken-7", "broken")
    assert "config.json" in sentence
    assert [line[0] for line in others] == ["networks-mlp-1", "networks-mlp-2"]
    assert find_run(trained / "runs", "last", "run").name == "networks-mlp-2"
    for words in (
        ("predict", "networks-mlp-1", "--data", "iris"), ("report", "networks-mlp-1"),
        ("run", "--resume", "networks-mlp-2"),
    ):
        done = principia(trained, *words)
        assert done.returncode in (0, 1), done.stderr
    (trained / "runs/networks-mlp-2/result.json").unlink()
    for words in (
        ("predict", "broken-7", "--data", "iris"), ("report", "broken-7"),
        ("run", "--resume", "broken-7"),
    ):
        done = principia(trained, *words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def test_a_run_of_a_device_that_is_missing_is_refused(trained):
    file = trained / "runs/networks-mlp-2/config.json"
    before = file.read_text()
    record = json.loads(before)
    record["asked"]["device"] = "meta:abacus"
    file.write_text(json.dumps(record))
    done = principia(trained, "run", "--resume", "networks-mlp-2")
    assert done.returncode == 2
    assert "run: --device must be a device of this machine" in done.stderr
    file.write_text(before)


def test_the_last_run_is_the_last_that_began(tmp_path, monkeypatch):
    first = new_folder(tmp_path, "z", RECORD)
    second = new_folder(tmp_path, "a", RECORD)
    assert first.record["began"][:19] <= second.record["began"][:19]
    assert find_run(tmp_path, "last", "run") == second
    monkeypatch.setattr("time.time_ns", lambda: 0)  # the clock was set back
    third = new_folder(tmp_path, "b", RECORD)
    assert find_run(tmp_path, "last", "run") == third
    assert [one.name for one in list_runs(tmp_path)] == ["z-1", "a-1", "b-1"]


def test_older_records_have_whole_seconds_and_are_ordered_by_their_numbers(tmp_path):
    for name in ("run-10", "run-9", "run-2"):
        (tmp_path / name).mkdir()
        text = json.dumps({**RECORD, "began": "2024-05-05T10:00:00+00:00"})
        (tmp_path / name / "config.json").write_text(text)
    new = new_folder(tmp_path, "run", RECORD)
    assert [one.name for one in list_runs(tmp_path)] == ["run-2", "run-9", "run-10", new.name]
    assert (new.name, new.broken) == ("run-11", "")


def test_what_a_killed_process_was_making_is_cleared_by_the_next(tmp_path):
    for name in (".new-empty", ".new-half"):
        (tmp_path / name).mkdir()
    (tmp_path / ".new-half/config.json").write_text("{")
    assert new_folder(tmp_path, "run", RECORD).name == "run-1"
    assert [one.name for one in tmp_path.iterdir()] == ["run-1"]


def test_what_another_process_makes_right_now_is_left_alone(tmp_path):
    (tmp_path / ".new-now").mkdir()
    handle = os.open(tmp_path, os.O_RDONLY)  # as the process that makes it
    fcntl.flock(handle, fcntl.LOCK_EX)
    other = threading.Thread(target=new_folder, args=(tmp_path, "run", RECORD))
    other.start()
    other.join(0.1)
    assert [one.name for one in tmp_path.iterdir()] == [".new-now"]
    (tmp_path / ".new-now").rename(tmp_path / "run-1")
    os.close(handle)
    other.join()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["run-1", "run-2"]


def test_many_that_begin_at_once_get_their_own_folders(tmp_path):
    threads = [
        threading.Thread(target=new_folder, args=(tmp_path, "run", RECORD)) for _ in range(8)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [one.name for one in list_runs(tmp_path)] == [f"run-{one}" for one in range(1, 9)]


LOOKER = """
import sys
from pathlib import Path
from principia.lab.runs.folders import RunFolder
folder = RunFolder(Path(sys.argv[1]))
print(folder.status, flush=True)
seen = set()
while not (folder.path / "enough").exists():
    seen.add(folder.status)
print(*sorted(seen))
"""


def test_whoever_looks_at_a_run_keeps_nobody_from_beginning_it(tmp_path):
    folder = new_folder(tmp_path, "run", RECORD)
    lookers = [
        subprocess.Popen([sys.executable, "-c", LOOKER, str(folder.path)], stdout=subprocess.PIPE,
                         text=True)
        for _ in range(2)
    ]
    assert [one.stdout.readline() for one in lookers] == ["interrupted\n"] * 2
    for _ in range(300):
        with folder.locked():
            assert folder.status == "running"
            with pytest.raises(UsageError, match="is running in another process"), folder.locked():
                pass
    assert folder.status == "interrupted"
    (folder.path / "enough").touch()
    said = {one.communicate(timeout=60)[0] for one in lookers}
    assert said <= {"interrupted running\n", "running\n", "interrupted\n"}


def test_looking_at_a_run_changes_nothing_in_its_folder(tmp_path):
    folder = new_folder(tmp_path, "run", RECORD)
    assert RunFolder(folder.path).status == "interrupted"
    assert [one.name for one in folder.path.iterdir()] == ["config.json"]

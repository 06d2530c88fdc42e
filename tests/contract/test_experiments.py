"""Every experiment of the course: its quick run beats its floor, and a kill changes nothing.

One uninterrupted run, and one that is killed with SIGKILL at random moments and resumed, must leave
the same bytes: weights, metrics, figures and report.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from principia.lab import catalog

EXPERIMENTS = [
    f"{page.key}:{name}"
    for chapter in catalog.chapters()
    for page in chapter.pages
    for name in page.experiment_names
]
VARYING = {"config.json", ".lock"}  # the time at which a run began; the lock
KILLS = 2
EARLIEST = 0.5  # seconds: before that, nothing but imports happens


def principia(folder, *words):
    return subprocess.Popen(
        [sys.executable, "-m", "principia", "run", *words, "--threads", "1",
         "--save-every", "0.05"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def run_folder(place):
    (found,) = (place / "runs").glob("[!.]*")  # a kill may leave one that has no name yet
    return found


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in VARYING
    }


@pytest.mark.parametrize("key", EXPERIMENTS)
def test_a_killed_run_ends_like_a_whole_one(key, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    began = time.monotonic()
    process = principia(whole, key)
    said, complained = process.communicate()
    took = time.monotonic() - began
    assert process.returncode == 0, said + complained
    result = json.loads((run_folder(whole) / "result.json").read_text())
    assert result["reached"], result

    dice = random.Random(key)
    kills = 0
    while kills < KILLS:
        begun = [*killed.glob("runs/[!.]*/config.json")]
        process = principia(killed, *(["--resume", "last"] if begun else [key]))
        try:
            process.communicate(timeout=dice.uniform(EARLIEST, max(took, 1.0)))
            break  # it was done before it could be killed
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
    if [*killed.glob("runs/[!.]*/config.json")]:
        process = principia(killed, "--resume", "last")
    else:
        process = principia(killed, key)  # every kill came before the run folder
    said, complained = process.communicate()
    assert process.returncode == 0, said + complained
    first, second = contents(run_folder(whole)), contents(run_folder(killed))
    assert first.keys() == second.keys()
    page, _, name = key.partition(":")
    if not catalog.page(page).experiments()[name].timed:
        assert [file for file in first if first[file] != second[file]] == []


def test_every_experiment_is_in_the_ledger():
    """With the goals that it has now, measured at full budget, whether they were reached or not."""
    from principia.lab import ledger

    rows = ledger.read()
    for experiment in ledger.experiments():
        row = rows.get(experiment.key)
        assert row is not None, f"principia ledger {experiment.key} --update"
        goals = {name: goal.goal for name, goal in experiment.reaches.items()}
        assert row["goals"] == goals, f"principia ledger {experiment.key} --update"
        assert set(goals) <= set(row["metrics"])
        assert all(len(values) == len(row["seeds"]) for values in row["metrics"].values())
    assert set(rows) == {experiment.key for experiment in ledger.experiments()}
    assert Path(ledger.FILE).read_text().endswith("}\n")

"""Every experiment of the course: its quick run beats its floor, and a kill changes nothing."""

import json
from pathlib import Path

import pytest

from choosing import in_sample
from killing import contents, killed_run, run_folder, whole_run
from principia.lab.course import catalog
from principia.lab.runs.folders import RunFolder

EXPERIMENTS = [
    f"{page.key}:{name}"
    for chapter in catalog.chapters()
    for page in chapter.pages
    for name in page.experiment_names
]
KILLED = 6  # of them in `make test`, others with every commit; all in `make test-all`


@pytest.mark.parametrize("key", EXPERIMENTS)
@pytest.mark.usefixtures("untouched")
def test_its_quick_run_beats_its_floor_and_a_kill_changes_nothing(key, tmp_path, request):
    took = whole_run(tmp_path / "whole", key)
    whole = run_folder(tmp_path / "whole")
    result = json.loads((whole / "result.json").read_text())
    assert result["reached"], result
    assert set(result["goals"]) <= set(result["metrics"])
    assert result["figures"], "an experiment draws its picture"
    trains = bool(RunFolder(whole).curves())
    assert catalog.experiment(key).trains == trains, "say trains= where it is declared"
    # that a run is exact when it is resumed is a property of the loop: see tests/faults
    if request.config.getoption("--whole") or in_sample(key, EXPERIMENTS, KILLED):
        killed_run(tmp_path / "killed", key, took=took)
        first, second = contents(whole), contents(run_folder(tmp_path / "killed"))
        assert first.keys() == second.keys()
        if not catalog.experiment(key).timed:
            assert [file for file in first if first[file] != second[file]] == []


def test_every_experiment_is_in_the_ledger():
    """With the goals that it has now, measured at full budget, whether they were reached or not."""
    from principia.lab.runs import ledger

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

"""Every experiment of the course: its quick run beats its floor, and a kill changes nothing."""

import contextlib
import itertools
import json
from pathlib import Path

import pytest

import choosing
from killing import contents, killed_run, run_folder, whole_run
from principia.lab.course import catalog
from principia.lab.runs import execution
from principia.lab.runs.folders import RunFolder
from reporting import BEGUN

EXPERIMENTS = [
    f"{page.key}:{name}"
    for chapter in catalog.chapters()
    for page in chapter.pages
    for name in page.experiment_names
]
# in `make test`, others with every commit; all in `make test-all`
ENDED = 20  # of them run to their end; the others begin
KILLED = 6  # of these are killed, too
STEPS = 20  # of an experiment that begins


@pytest.mark.parametrize("key", EXPERIMENTS)
@pytest.mark.usefixtures("untouched")
def test_its_quick_run_beats_its_floor_and_a_kill_changes_nothing(key, tmp_path, request):
    whole_suite = request.config.getoption("--whole")
    concerned = choosing.concerned_since(request.config.getoption("--since"))
    ends = key.split(":")[0] in concerned  # its page has changed, or what that imports
    if not (whole_suite or ends or choosing.in_sample(key, EXPERIMENTS, ENDED)):
        request.config.stash[BEGUN] = request.config.stash.get(BEGUN, 0) + 1
        it_begins(key, tmp_path)
        return
    took = whole_run(tmp_path / "whole", key)
    whole = run_folder(tmp_path / "whole")
    result = json.loads((whole / "result.json").read_text())
    assert result["reached"], result
    assert set(result["goals"]) <= set(result["metrics"])
    assert result["figures"], "an experiment draws its picture"
    trains = bool(RunFolder(whole).curves())
    assert catalog.experiment(key).trains == trains, "say trains= where it is declared"
    # that a run is exact when it is resumed is a property of the loop: see tests/faults
    if whole_suite or choosing.in_sample(key, EXPERIMENTS, KILLED):
        killed_run(tmp_path / "killed", key, took=took)
        first, second = contents(whole), contents(run_folder(tmp_path / "killed"))
        assert first.keys() == second.keys()
        if not catalog.experiment(key).timed:
            assert [file for file in first if first[file] != second[file]] == []


def it_begins(key, folder):
    """Load the data, build the models and take the first steps; a short run comes to its end."""

    @contextlib.contextmanager
    def asking_to_stop():
        asked = itertools.count(1)
        yield lambda: next(asked) > STEPS

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "_asking_to_stop", asking_to_stop)
        whole_run(folder, key, codes=(0, 130))  # as if somebody had pressed Ctrl-C
    found = RunFolder(run_folder(folder))
    assert found.status == "interrupted" or found.result["reached"]


def test_the_ledger_speaks_of_the_experiments_as_they_are():
    """A row has the goals of today, reached or not; what has no row, docs/LEDGER.md says."""
    from principia.lab.runs import ledger

    rows, known = ledger.read(), {one.key: one for one in ledger.experiments()}
    assert set(rows) <= set(known)
    for key, row in rows.items():
        goals = {name: goal.goal for name, goal in known[key].reaches.items()}
        assert row["goals"] == goals, f"principia ledger {key} --update"
        assert set(goals) <= set(row["metrics"])
        assert all(len(values) == len(row["seeds"]) for values in row["metrics"].values())
    lines = Path(__file__).parents[2].joinpath("docs/LEDGER.md").read_text(encoding="utf-8")
    for key in set(known) - set(rows):
        (line,) = [one for one in lines.splitlines() if one.startswith(f"| `{key}` |")]
        assert line.endswith("| not measured |"), "principia ledger --markdown > docs/LEDGER.md"
    assert Path(ledger.FILE).read_text().endswith("}\n")

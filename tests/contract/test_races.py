"""Every race: both sides do the same work, the check of that can fail, and the tables are kept."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import needs
from principia.lab.racing import results
from principia.lab.racing.clock import runners_of
from principia.lab.racing.races import OURS, find, folder_of_races

ROOT = Path(__file__).parents[2]
RACES = {one.key: one for one in find([], folder_of_races())}


def spoiled(result):
    """Give what a side must not pass with: nothing done, a tenth too much, something else."""
    result = np.asarray(result, dtype=np.float64)
    return 0 * result, 1.1 * result, result + 1 + np.abs(result).max(initial=0.0)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("key", RACES)
def test_all_sides_do_the_same_work(key):
    race = RACES[key]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the peers' own
        with needs.data(), runners_of(race, race.sizes[0], threads=1) as runners:
            found = {name: runner.result() for name, runner in runners.items()}
    assert found.keys() == race.sides.keys(), "install the peers"
    ours = found.pop(OURS)
    for name, theirs in found.items():
        evidence = race.agree(ours, theirs)
        assert evidence.verdict == "holds", f"{name}: {evidence.summary}"
        for wrong in spoiled(ours):
            assert race.agree(wrong, theirs).verdict == "refuted", name


@pytest.mark.parametrize("key", RACES)
def test_a_race_says_what_it_is(key):
    race = RACES[key]
    assert re.fullmatch(r"[A-Z].*\.", race.work)
    assert len(race.work) <= 100
    for peer in race.peers.values():
        assert peer.slower == "" or re.fullmatch(r"[A-Z].*\.", peer.slower)


def test_the_packages_of_peers_are_declared():
    """Whoever installs principia[peers] has all that races against us."""
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["peers"]]
    names = {re.split(r"[<>=\[]", one)[0] for one in declared}
    peers = [peer for race in RACES.values() for peer in race.peers.values()]
    used = {peer.package.replace("_", "-") for peer in peers}
    assert used <= names


def test_every_race_is_measured_and_every_loss_has_its_reason():
    rows = results.read()
    assert rows.keys() == RACES.keys(), "run make bench"
    for key, row in rows.items():
        assert row["missing"] == {}, key
        assert len(row["sizes"]) == len(RACES[key].sizes), key
        sides = [side for one in row["sizes"] for side in one["sides"].values()]
        assert all(side.get("agrees", True) for side in sides), key
        for name in results.lost(key, row):
            assert RACES[key].sides[name].slower, f"{key}: why is {name} faster?"
            assert row["slower"][name] == RACES[key].sides[name].slower, "run principia bench again"


def test_the_docs_have_the_kept_results():
    assert (ROOT / "docs/RACES.md").read_text() == results.to_markdown(results.read()), (
        "run principia bench --markdown > docs/RACES.md")


def test_the_readme_has_figures_of_the_kept_results():
    rows = results.read()
    quoted = re.findall(r"^\| `(\w+:\w+)` \| (.+) \| (.+) \| (.+) \|$",
                        (ROOT / "README.md").read_text(), re.MULTILINE)
    assert quoted
    for key, peer, *ends in quoted:
        found = [one for one in results.ratios(key, rows[key]) if one.peer == peer]
        assert ends == [
            f"{results.size_text(one.size, rows[key]['unit'])}: {results.spread_text(one.cpu)}"
            for one in (found[0], found[-1])
        ], key


def test_the_readme_counts_them_rightly():
    verdicts = [one.verdict for key, row in results.read().items()
                for one in results.ratios(key, row)]
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"runs all {len(RACES)} races on two cores" in text
    faster, even, slower = (verdicts.count(one) for one in ("faster", "even", "slower"))
    assert (f"Of {len(verdicts)} ratios, {faster} are above 1, {even} hold 1 in their interval and "
            f"{slower} are below 1") in text

"""A run that is killed right before any change of its files ends like one that was left alone.

Several trainings in one run, saved after every step that takes longer than a moment; then the
figures, the model, the report and the result. Kills come before every opening for writing, every
rename and every removal; after each the run is resumed, and killed once more at another change.
"""

import pytest

from killing import changes_of, contents, run_folder, run_killed_at

# two pairs of trainings; how good the networks become does not matter here
WORDS = ("regularization/early_stopping", "--set", "pairs=2", "--set", "hidden=16", "--set",
         "most=3")
CODES = (0, 1)
SHARES = 60


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What a run leaves that nobody kills, and the number of its changes."""
    place = tmp_path_factory.mktemp("runs") / "whole"
    changes = changes_of(place, *WORDS, codes=CODES)
    assert changes > SHARES, "a run that saves seldom would prove little"
    return contents(run_folder(place)), changes


@pytest.mark.sampled(8)
@pytest.mark.parametrize("share", range(SHARES))
def test_it_ends_like_a_whole_one(whole, tmp_path, share):
    expected, changes = whole
    first = 1 + share * changes // SHARES
    second = 1 + (share * 37 + 11) % changes  # somewhere else
    run_killed_at(tmp_path / "killed", *WORDS, changes=(first, second), codes=CODES)
    found = contents(run_folder(tmp_path / "killed"))
    assert found.keys() == expected.keys()
    assert [file for file in found if found[file] != expected[file]] == []

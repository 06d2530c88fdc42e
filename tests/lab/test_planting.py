"""Planted bugs can name the part of a claim that they refute."""

import pytest

import planting

KEY = "connectionism/hopfield"
BUG = ("@ self.W - self.b", "@ self.W + self.b", "field_rule")


def test_parts_are_read_off_the_tables_of_a_test_file(tmp_path):
    file = tmp_path / "test_page.py"
    file.write_text(
        """
import pytest
OTHER = [1, 2]

@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [("a", "b", "first", ["left", "low"]), ("c", "d", "first", []), ("e", "f", "two", ["x, up"])],
)
def test_parts(old, new, claim, parts): ...

@pytest.mark.parametrize(("old", "claim"), [("a", "third")])
def test_no_parts(old, claim): ...

@pytest.mark.parametrize("claim", OTHER)
def test_no_plain_text(claim): ...
"""
    )
    assert planting.guarded(file) == {("first", "left"), ("first", "low"), ("two", "x, up")}
    assert planting.guarded(tmp_path / "test_nothing.py") == set()


def test_a_bug_must_refute_the_part_that_it_names():
    with planting.claim_with_bug(KEY, *BUG) as broken:
        leaves = dict(broken.observe(0, {}).evidence.leaves)
    refuted = [name for name, leaf in leaves.items() if leaf.refuted]
    others = [name for name in leaves if name not in refuted]
    planting.assert_caught(KEY, *BUG, parts=refuted)
    with pytest.raises(AssertionError, match="has no part 'nothing'"):
        planting.assert_caught(KEY, *BUG, parts=["nothing"])
    for name in others:
        with pytest.raises(AssertionError, match="does not notice"):
            planting.assert_caught(KEY, *BUG, parts=[*refuted, name])

"""Pages are found, taken apart and selected without importing them."""

import ast

import pytest

from principia.lab.course.catalog import Component, Page, chapters, page, select
from principia.lab.course.docstrings import Reference, Text
from principia.lab.params import UsageError

DOC = r"""A thing: what it is.

A story of $x$ in
two lines.

$$ a = b $$

More story.

$$ c
   = d $$

Symbols:
    $a$: first, `a`
    $b$: second,
        and more

References:
    Madry et al. (2018), Towards deep learning models, sec. 2.1. arXiv:1706.06083
    Amit, Gutfreund, Sompolinsky (1985), Storing infinite numbers of patterns in a spin-glass
        model. Physical Review Letters 55. doi:10.1103/PhysRevLett.55.1530
"""


def test_a_docstring_is_taken_apart():
    text = Text.of(DOC)
    assert text.title == "A thing: what it is."
    assert text.story == "A story of $x$ in\ntwo lines.\n\nMore story."
    assert text.formulas == ("a = b", "c\n   = d")
    assert text.symbols == (("$a$", "first, `a`"), ("$b$", "second, and more"))
    assert len(text.references) == 2


def test_one_reference_may_stand_on_the_line_itself():
    text = Text.of("T: t.\n\nStory.\n\nReference: Novikoff (1962), On proofs. Symposium.\n")
    assert [one.text for one in text.references] == ["Novikoff (1962), On proofs. Symposium."]


def test_references_become_bibtex():
    first, second = Text.of(DOC).references
    assert "author = {Madry and others}" in first.bibtex
    assert "title = {Towards deep learning models}" in first.bibtex
    assert "eprint = {1706.06083}" in first.bibtex
    assert "author = {Amit and Gutfreund and Sompolinsky}" in second.bibtex
    assert "doi = {10.1103/PhysRevLett.55.1530}" in second.bibtex
    assert second.bibtex.startswith("@misc{amit1985storing,")
    with pytest.raises(UsageError, match="Authors"):
        _ = Reference("somebody said so").bibtex


def test_chapters_and_pages_have_the_order_of_their_story():
    order = ["neuron", "perceptron", "margin", "cover", "delta_rule", "hopfield", "dense_memory"]
    connectionism = next(one for one in chapters() if one.name == "connectionism")
    names = [one.name for one in connectionism.pages]
    assert names[: len(order)] == order


def test_what_is_read_statically_is_what_is_there():
    one = page("connectionism/perceptron")
    assert tuple(one.claims()) == one.claim_names
    assert tuple(one.experiments()) == one.experiment_names
    assert set(one.misprint_names) == {name for name, each in one.claims().items() if each.misprint}
    assert "mistake_bound" in one.claim_names  # the function is mistake_bound_claim


def test_selection_by_chapter_page_and_claim():
    claims = [f"{one.key}:{name}" for one, name in select(["connectionism/perceptron"])]
    assert claims == [f"connectionism/perceptron:{one}" for one in page(
        "connectionism/perceptron").claim_names]
    again = select(["connectionism/perceptron", "connectionism/perceptron:mistake_bound"])
    assert len(again) == len(claims), "what is named twice is checked once"
    assert {one.key for one, _ in select(["connectionism"])} >= {"connectionism/hopfield"}
    with pytest.raises(UsageError, match="Did you mean 'connectionism/hopfield'"):
        select(["hopfield"])


def test_signatures_are_readable():
    def function(a, b=1, *args, key: int = 2, run=len, **more):
        """Does."""

    assert Component("f", function).signature == "f(a, b=1, *args, key=2, run=len, **more)"
    assert Component("f", function).purpose == "Does."


KINDS = (("claims", "claim"), ("experiments", "experiment"), ("experiments", "callback"))


def told(one):
    """Give all that the catalog reads of a page."""
    decorated = {
        kind: [(name, {word: ast.dump(value) for word, value in words.items()})
               for name, words in one._decorated(room, kind)]
        for room, kind in KINDS
    }
    return one.text, one.exports, decorated


@pytest.mark.parametrize("chapter", chapters(), ids=lambda chapter: chapter.name)
def test_the_outline_of_a_page_says_what_the_whole_page_says(chapter):
    for one in chapter.pages:
        whole = Page(one.key, one.module, one.path)
        whole.__dict__["_tree"] = ast.parse(one.path.read_text())
        whole.__dict__["_room_trees"] = {
            file.parent.name: ast.parse(file.read_text()) for file in one.files[1:]
        }
        assert told(one) == told(whole), one.key


def test_a_text_at_the_margin_of_a_body_misleads_nobody(tmp_path):
    path = tmp_path / "odd.py"
    path.write_text('"""Odd: a page."""\n__all__ = ["f"]\ndef f(): ...\n')
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims/odd.py").write_text('''
def f(
    x,
):
    return """
@claim(control={}, source="nobody")
def no_claim(: it is text
"""
@claim(control={"x": 1}, source="somebody")
def a_claim(seed): ...
''')
    odd = Page("chapter/odd", "chapter.odd", path)
    assert odd.title == "Odd: a page."
    assert odd.exports == ("f",)
    assert odd.claim_names == ("a",)

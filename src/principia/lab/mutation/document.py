r"""The document: what a score means and what it does not, and the scores of all pages."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from principia.lab.course.fingerprint import EARLIER, Sources, roots_of_claims
from principia.lab.mutation.measuring import pages
from principia.lab.mutation.scores import Row, Score, code_of

if TYPE_CHECKING:
    from principia.lab.course.catalog import Page

__all__ = ["to_markdown"]

MEANING = """\
# Planted bugs

What are the claims of a page worth? Bugs are planted in its components, one at a time, and the
claims are checked as if nothing had happened. A bug is noticed if a claim that passes without it
does not pass with it. Written by `principia mutate --markdown`; `make mutate` measures again, and
`principia mutate KEY` a single page.

## What a score means

- **Bugs** are changes of a few letters in the page and in the fast form beside it: another
  operator, sign, number, comparison, boundary, condition, axis, or function (`sum` for `mean`);
  arguments in another order; a term, a call, a transpose, an end of a slice, or a statement that is
  gone. None is planted in docstrings, annotations, imports, `repr`, or in what raises and warns.
- **They are drawn** from all that are possible, 40 a page unless said otherwise, by a seed: the
  same seed and source give the same bugs. Every function gets its share, and no kind or line
  dominates. What compiles to the same program is no bug.
- **By refutation**: a measure does not hold with the bug, or a control is not refuted in a part
  that it names. The claim has said what is wrong.
- **By crash**: a claim raises, ends its process, or takes more than five times its CPU time.
  Whoever runs the claim sees that something is wrong, not what.
- **By tests alone**: with `--tests`, no claim notices, but the tests of the page do. The scores
  below are of the claims, without tests.
- **Equivalent**: the page does the same with the bug. Each stands in `equivalents.json` of its
  chapter with the reason, and does not count. It is no place for bugs that are hard to notice.
- **A survivor is shown, not hidden.** It stands here, on the page in the browser, and in
  `principia show`, with the line before and after: somebody may state the claim that notices it.

## What it does not mean

- It is about the claims on seed 0 with their knobs at rest, not about tests, experiments or the
  pages that use this one.
- The bugs are drawn by chance from small changes, not from the mistakes that people make. A formula
  that is wrong as a whole, or one that is missing, is no such change. 40 of 40 is no proof that a
  page is right.
- It is a sample: with 40 bugs, a share of 0.9 has a standard error of 0.05. Another seed gives
  other bugs. Scores of two pages that differ by less say nothing.
- Some of what survives may be harmless: a guard against bad input, which tests look at; a faster
  way to the same value; a boundary that is never met. A lower score of honest claims is worth more
  than a higher one of claims that were bent towards these very bugs.
"""


def to_markdown(rows: Mapping[str, Row], keys: Sequence[str] = ()) -> str:
    """Write the scores as a Markdown document.

    Args:
        rows: What was measured, by the keys of the pages.
        keys: Chapters or pages; all of them by default.
    """
    chosen = pages(keys, everything=not keys)
    scores = _scores(chosen, rows)
    noticed, real = (sum(getattr(one, name) for one in scores.values())
                     for name in ("noticed", "real"))
    lines = [MEANING, "## The scores", ""]
    lines += [
        f"Together {noticed} of {real} bugs are noticed, in {len(scores)} of {len(chosen)} pages "
        "that state something; the others are not measured yet.",
    ] if len(scores) < len(chosen) else [f"Together {noticed} of {real} bugs are noticed."]
    for chapter, some in itertools.groupby(chosen, key=lambda page: page.key.split("/")[0]):
        found = [scores[page.key] for page in some if page.key in scores]
        if found:
            lines += ["", f"### {chapter}", "", *_table(found)]
            for title, bugs in (
                ("Not noticed", [bug for one in found for bug in one.survivors]),
                ("Equivalent", [bug for one in found for bug in one.equivalent]),
            ):
                lines += ["", f"{title}:", "", *map(_line, bugs)] if bugs else []
    if any(one.stale for one in scores.values()):
        lines += ["", f"† {EARLIER} of the code"]
    return "\n".join(lines) + "\n"


def _scores(chosen: Sequence[Page], rows: Mapping[str, Row]) -> dict[str, Score]:
    sources = Sources()
    sources.needed(module for page in chosen for module in roots_of_claims(page))  # all at once
    return {
        page.key: Score.of(
            page, rows[page.key], stale=rows[page.key]["code"] != code_of(page, sources))
        for page in chosen if page.key in rows
    }


def _table(found: Sequence[Score]) -> Iterator[str]:
    yield "| page | noticed | by refutation | by crash | not noticed | equivalent | possible bugs |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for one in found:
        row = one.row
        share = f" ({100 * one.ratio:.0f} %)" if one.real else ""
        cells = [
            f"`{one.page}`{' †' if one.stale else ''}", f"{one.noticed} of {one.real}{share}",
            row["refutation"], row["crash"], len(one.survivors), len(one.equivalent),
            row["possible"],
        ]
        yield f"| {' | '.join(map(str, cells))} |"


def _line(bug: Mapping[str, Any]) -> str:
    """Write a bug as an entry of a list."""
    file = f"{bug['module'].rpartition('.')[2]}.py:{bug['line']}"
    said = (bug.get("equivalent") or bug.get("how") or "").rstrip(".")
    where = f" in {_code(bug['function'])}" if bug["function"] else ""
    what = f"- {_code(file)}{where}: {_code(bug['text'])} becomes {_code(bug['becomes'])}"
    return f"{what}. {said[:1].upper()}{said[1:]}." if said else f"{what}."


def _code(text: str) -> str:
    """Write code within a line, whatever backticks it has."""
    fence = "``" if "`" in text else "`"
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"

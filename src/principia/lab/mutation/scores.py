r"""Scores: what the claims of pages notice of planted bugs, kept in one file.

A row is one page: how many bugs of how many, by which seed, how many the claims noticed and how,
and each that nobody noticed, with the fingerprint of the code. Once the code has changed, the row
is stale, and whoever shows it says so. What is equivalent is looked up when it is shown.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from principia.lab.course.fingerprint import EARLIER, Sources, fingerprint, roots_of_claims
from principia.lab.mutation.equivalents import equivalents
from principia.lab.mutation.hunt import CRASH, REFUTATION, TESTS
from principia.lab.params import UsageError
from principia.lab.storage import write_text

if TYPE_CHECKING:
    from principia.lab.course.catalog import Page

__all__ = ["FILE", "Row", "Score", "code_of", "kept", "last_score", "read", "store"]

FILE = Path(__file__).with_name("scores.json")
FORMAT = 1
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
PARTS = {"bugs", REFUTATION, CRASH, TESTS, "possible", "seed", "with_tests", "seconds", "code",
         "measured", "environment"}
PLANTED_BY = tuple(
    f"principia.lab.mutation.{name}" for name in ("statements", "choosing", "hunt", "planting")
)

Row = Mapping[str, Any]


def code_of(page: Page, sources: Sources | None = None) -> str:
    """Give the fingerprint of what a score speaks of: the claims, and what plants the bugs."""
    return fingerprint([*roots_of_claims(page), *PLANTED_BY], sources)


@final
@dataclass(frozen=True)
class Score:
    """The score of a page, where equivalent bugs are told apart from those that are real."""

    page: str
    row: Row
    survivors: tuple[Mapping[str, Any], ...]  # real ones
    equivalent: tuple[Mapping[str, Any], ...]  # each with its reason
    stale: bool = False

    @classmethod
    def of(cls, page: Page, row: Row, *, stale: bool = False) -> Score:
        """Read a row, and tell equivalent bugs apart."""
        known = equivalents(page)
        survivors, equal = [], []
        for one in survivors_of(row):
            same = known.get((one["function"], one["text"], one["becomes"]))
            if same is None:
                survivors.append(one)
            else:
                equal.append({**one, "equivalent": same.reason})
        return cls(page.key, row, tuple(survivors), tuple(equal), stale)

    @property
    def noticed(self) -> int:
        """How many bugs the claims noticed, and with `--tests` the tests."""
        return sum(self.row[word] for word in (REFUTATION, CRASH, TESTS))

    @property
    def real(self) -> int:
        """How many bugs there were, without equivalent ones."""
        return self.noticed + len(self.survivors)

    @property
    def ratio(self) -> float:
        """The corrected score: noticed of those that are real; 1 where there is none."""
        return self.noticed / self.real if self.real else 1.0

    @property
    def sentence(self) -> str:
        """Say it: `38 of 40 planted bugs are noticed; these two are not`."""
        if not self.real:
            return "no bug can be planted here"
        verb = "is" if self.real == 1 else "are"
        said = f"{self.noticed} of {self.real} planted bugs {verb} noticed"
        count = len(self.survivors)
        rest = "this one is not" if count == 1 else f"these {_words(count)} are not"
        said = f"{said}; {rest}" if count else said
        return f"{EARLIER}: {said}" if self.stale else said


def survivors_of(row: Row) -> Sequence[Mapping[str, Any]]:
    """List the bugs of a row that nobody noticed."""
    if "survivors" in row:
        return row["survivors"]
    return [one for one in row["verdicts"] if not one["by"]]


def _words(number: int) -> str:
    return WORDS[number] if number < len(WORDS) else str(number)


def kept(row: Row) -> Row:
    """Give what is kept of a row: of its bugs only those that nobody noticed."""
    rest = {name: value for name, value in row.items() if name not in ("verdicts", "survivors")}
    return {**rest, "survivors": [
        {name: value for name, value in one.items() if name not in ("by", "claim")}
        for one in survivors_of(row)
    ]}


def read(file: Path = FILE) -> dict[str, Row]:
    """Read the rows, by the keys of their pages."""
    try:
        stat = file.stat()
    except OSError:
        return {}
    return dict(_read(file, (stat.st_ino, stat.st_mtime_ns, stat.st_size)))


@functools.lru_cache(maxsize=8)
def _read(file: Path, written: Any) -> Mapping[str, Row]:
    """Read a file once for each time that it was written: it is put there whole."""
    try:
        document = json.loads(file.read_bytes())
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']} is not {FORMAT}")
        for key, row in document["pages"].items():
            if not row.keys() >= {*PARTS, "survivors"}:
                missing = {*PARTS, "survivors"} - row.keys()
                raise ValueError(f"{key} lacks {', '.join(sorted(missing))}")
        return document["pages"]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(
            f"mutate: file must be one that principia mutate has written; got {file}, where "
            f"{error}. Name another, and it is written anew."
        ) from error


def store(key: str, row: Row, file: Path = FILE) -> None:
    """Put a row into the file; other processes may do the same at the same time."""
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        rows = {**read(file), key: kept(row)}
        document = {"format": FORMAT, "pages": dict(sorted(rows.items()))}
        write_text(file, f"{json.dumps(document, indent=1, ensure_ascii=False)}\n")
    finally:
        os.close(folder)


def last_score(page: Page, sources: Sources | None = None, file: Path = FILE) -> Score | None:
    """Give the kept score of a page; None if there is none."""
    row = read(file).get(page.key)
    if row is None:
        return None
    return Score.of(page, row, stale=row["code"] != code_of(page, sources))

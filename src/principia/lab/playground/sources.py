"""Where the points of a playground come from: an embedded set, a drawing, or a table as text.

A table passes through the reader and the splitting of the rest of the lab, so that it means the
same here as on the command line; only what a plane cannot show is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, final

import numpy as np

from principia.lab.data.embedded import embedded_table
from principia.lab.data.schema import Examples, examples
from principia.lab.data.table import Table, column, read_csv
from principia.lab.params import (
    Choice,
    Domain,
    Knob,
    Outside,
    Range,
    UsageError,
    knobs_of,
    shown,
    suggestion,
    usage_error,
)
from principia.lab.playground.registry import MOST_FEATURES, choices
from principia.lab.seeds import Seed

__all__ = ["MOST_POINTS", "OWNER", "Data", "Fields", "need_one_of", "read_text"]

OWNER = "Playground"  # who speaks in errors
MOST_POINTS = 2000  # rows that are used
MOST_ROWS = 20_000  # of a table, which is thinned
LONGEST_TEXT = 2_000_000  # characters of a table
FEWEST_POINTS = 10  # some of them are kept for testing
MOST_CLASSES = 8  # colors that can be told apart
NUMBER = Range(-1e30, 1e30)  # what float32 can still square
FARTHEST = 1e9  # standard deviations from the mean of the training rows
TABLE = "your table"


@final
@dataclass(frozen=True)
class _Points(Domain):
    """Rows [x, y, class], or [x, value] for a curve; all alike."""

    @property
    def text(self) -> str:
        """Say what a row is."""
        return (
            f"at most {MOST_POINTS} rows, all [x, y, class] with classes 0 to {MOST_CLASSES - 1}, "
            "or all [x, value]"
        )

    def accept(self, value: Any) -> tuple[tuple[float, ...], ...]:
        """Take rows of finite numbers."""
        if not isinstance(value, (list, tuple)) or len(value) > MOST_POINTS:
            raise Outside
        rows = tuple(_row(row) for row in value)
        if len({len(row) for row in rows}) > 1:
            raise Outside
        return rows

    def hint(self, value: Any) -> str:
        """Name the first row that is wrong."""
        for number, row in enumerate(value if isinstance(value, (list, tuple)) else (), start=1):
            try:
                _row(row)
            except Outside:
                return f"Row {number} is {shown(row)}."
        return ""

    def good(self) -> tuple[tuple[float, ...], ...]:
        """Return two points."""
        return ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

    def bad(self) -> Any:
        """Return a point without a class."""
        return ((0.0, 0.0, 0.5),)


def _row(row: Any) -> tuple[float, ...]:
    if not isinstance(row, (list, tuple)) or len(row) not in (2, 3):
        raise Outside
    cells = tuple(NUMBER.accept(cell) for cell in row)
    if cells[2:] and cells[2] not in range(MOST_CLASSES):  # 1.0 is in it, 0.5 is not
        raise Outside
    return cells


@final
@dataclass(frozen=True)
class _Columns(Domain):
    """Names of columns, few enough for a plane."""

    @property
    def text(self) -> str:
        """Say how many."""
        return f"the names of at most {MOST_FEATURES} different columns"

    def accept(self, value: Any) -> tuple[str, ...]:
        """Take different names."""
        if not isinstance(value, (list, tuple)) or len(value) > MOST_FEATURES:
            raise Outside
        if not all(isinstance(name, str) for name in value) or len(set(value)) < len(value):
            raise Outside
        return tuple(value)

    def good(self) -> tuple[str, ...]:
        """Return two names."""
        return ("x", "y")

    def bad(self) -> Any:
        """Return the same name twice."""
        return ("x", "x")


class Fields:
    """A data class whose fields are checked through the domains of their annotations."""

    def __post_init__(self) -> None:
        for name, knob in knobs_of(type(self).__init__).items():
            object.__setattr__(self, name, knob.accept(OWNER, getattr(self, name)))

    @classmethod
    def taken(cls, what: str, plain: Any) -> dict[str, Any]:
        """Take an object of JSON whose names are all known."""
        if not isinstance(plain, Mapping):
            raise usage_error(OWNER, what, "an object with names and values", plain)
        known = [one.name for one in fields(cls)]  # type: ignore[arg-type]
        for name in plain:
            if name not in known:
                hint = suggestion(name, known)
                raise UsageError(f"{OWNER}: {what} has no field {shown(name)}. {hint}")
        return dict(plain)


@final
@dataclass(frozen=True)
class Data(Fields):
    """Where the points come from.

    Args:
        name: An embedded set, `drawn` for points or `table` for CSV.
        points: Rows [x, y, class], or [x, value].
        csv: A table as text, its first line the names of the columns.
        features: Columns of the table to learn from.
        target: Column of the table to predict.
    """

    name: str = "spirals"
    points: Annotated[tuple[tuple[float, ...], ...], _Points()] = ()
    csv: str = field(default="", repr=False)
    features: Annotated[tuple[str, ...], _Columns()] = ()
    target: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        need_one_of("data", self.name, choices().data)
        if len(self.csv) > LONGEST_TEXT:
            raise usage_error(OWNER, "csv", f"at most {LONGEST_TEXT} characters", len(self.csv))

    @classmethod
    def from_json(cls, plain: Any) -> Data:
        """Take the data from plain data: its fields, or the name alone."""
        return cls(plain) if isinstance(plain, str) else cls(**cls.taken("data", plain))

    def load(self, seed: Seed) -> tuple[Examples, str]:
        """Split into training and test rows, scale, and say what was left out.

        Example:
            >>> ready, note = Data("sine").load(Seed(0))
            >>> ready.schema.task, len(ready.x), note
            ('regression', 320, '')
        """
        note = ""
        if self.name == "drawn":
            table, target = _drawn(self.points)
        elif self.name == "table":
            table, target = self._read(), self.target
            rows = len(table[target])
            if rows > MOST_POINTS:
                few = np.sort(seed.child("thinned").numpy().permutation(rows)[:MOST_POINTS])
                table = {name: cells[few] for name, cells in table.items()}
                note = f"The seed has chosen {MOST_POINTS} of the {rows} rows of the table."
        else:
            table, target = embedded_table(self.name)
        ready = examples(table, target, seed=seed)
        if len(names := ready.schema.features) < len(table) - 1:
            note = f"{note} Only {names[0].name} varies, so that it alone is used.".strip()
        _check(ready)
        return ready, note

    def _read(self) -> Table:
        """Read the columns of the text that are used."""
        for name, value in (("csv", self.csv), ("features", self.features)):
            if not value:
                hint = f"Choose one or {MOST_FEATURES} columns." if name == "features" else ""
                raise usage_error(OWNER, name, "given with data 'table'", value, hint)
        whole = read_text(self.csv)
        if self.target in self.features:
            raise usage_error(OWNER, "target", "another column than the features", self.target)
        table = {name: column(whole, name, OWNER) for name in (*self.features, self.target)}
        rows = len(table[self.target])
        if rows > MOST_ROWS:
            raise usage_error(OWNER, TABLE, f"of at most {MOST_ROWS} rows", rows, "Remove some.")
        if rows < FEWEST_POINTS:
            raise usage_error(OWNER, TABLE, f"of at least {FEWEST_POINTS} rows", rows)
        for name, cells in table.items():
            if cells.dtype.kind != "f" and name != self.target:
                raise usage_error(OWNER, f"column {shown(name)}", "numbers", str(cells[0]))
            if cells.dtype.kind == "f" and not (inside := np.abs(cells) <= NUMBER.high).all():
                far = float(cells[~inside][0])
                hint = "Write it in larger units."
                raise usage_error(OWNER, f"column {shown(name)}", NUMBER.text, far, hint)
        return table


def read_text(csv: str) -> Table:
    """Read a table from a text, which is gone when whoever asked is: no file is made of it."""
    return dict(read_csv(csv.encode("utf-8", "surrogatepass"), TABLE))  # all columns, now


def _drawn(points: tuple[tuple[float, ...], ...]) -> tuple[Table, str]:
    if len(points) < FEWEST_POINTS:
        hint = f"{FEWEST_POINTS - len(points)} more, please: a part of them is kept for testing."
        raise usage_error(OWNER, "points", f"at least {FEWEST_POINTS}", len(points), hint)
    x, *rest = np.asarray(points, float).T
    if len(rest) == 1:
        return {"x": x, "value": rest[0]}, "value"
    classes = rest[1].astype(int).astype(str)  # texts are classes, however few points there are
    if len(set(classes)) < 2:
        hint = "Draw some of another class."
        raise usage_error(OWNER, "points", "of two classes or more", "one class", hint)
    return {"x": x, "y": rest[0], "class": classes}, "class"


def _check(ready: Examples) -> None:
    """Refuse what cannot be shown, or computed in float32."""
    schema = ready.schema
    if schema.task == "classification" and schema.outputs > MOST_CLASSES:
        hint = "Join some of them, or choose another target."
        domain = f"of at most {MOST_CLASSES} classes"
        raise usage_error(OWNER, "the target", domain, schema.outputs, hint)
    for x in (ready.x, ready.x_test):
        if not bool((x.abs() <= FARTHEST).all()):
            raise UsageError(
                f"{OWNER}: the features must lie within {FARTHEST:g} standard deviations of the "
                "training rows; a test row does not. Remove it, or take another seed."
            )


def need_one_of(name: str, value: Any, known: Iterable[str]) -> None:
    """Refuse a name that is not known."""
    Knob(name, Choice(tuple(known))).accept(OWNER, value)

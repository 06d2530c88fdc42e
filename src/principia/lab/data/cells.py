r"""What the cells of a column become: numbers if all of them are, otherwise texts.

Missing and infinite values are refused with their row and column, never filled in silently.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from principia.lab.params import UsageError, shown, usage_error

__all__ = [
    "LARGEST", "NUMBER", "TEXT", "Unread", "as_number", "bad_cell", "need_names", "need_room",
    "read_cells",
]

LARGEST = 1 << 30  # bytes of a file, and of its cells: what is larger does not fit a table
NUMBER, TEXT = 8, 64  # bytes that a number takes, and a short text
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}


@final
@dataclass(frozen=True)
class Unread:
    """Cells that are neither numbers nor texts; they are refused when somebody asks for them."""

    kind: str
    rows: int

    def __len__(self) -> int:
        """Count the cells."""
        return self.rows

    def __iter__(self) -> Iterator[str]:
        """Give them as a table of texts can have them."""
        return itertools.repeat("", self.rows)


def read_cells(file: str, name: str, cells: Sequence[Any] | np.ndarray | Unread) -> np.ndarray:
    """Make a column numbers (float64) if all its cells are, texts (objects) if not.

    Example:
        >>> read_cells("mine.csv", "size", ["1.5", "2"]).tolist()
        [1.5, 2.0]
    """
    if isinstance(cells, Unread):
        hint = f"Leave it out with --drop {name}."
        raise usage_error(
            "data", f"column {shown(name)} of {file}", "numbers or texts", cells.kind, hint
        )
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub":
        with np.errstate(over="ignore"):  # what becomes infinite is refused below
            values = cells.astype(np.float64)
    else:
        texts = ["" if one is None else str(one).strip() for one in cells]
        for row, text in enumerate(texts):
            if text.lower() in MISSING:
                raise bad_cell(file, name, row, "have a value", text)
        numbers = [as_number(text) for text in texts]
        if None in numbers:
            return np.array(texts, object)  # as wide as each is: one long text widens no other
        values = np.array(numbers, np.float64)
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise bad_cell(file, name, row, "be a finite number", float(values[row]))
    return values


def as_number(text: str) -> float | None:
    """Read a number as a table has it; `float` would take `1_000` and any script's digits, too."""
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def bad_cell(file: str, name: str, row: int, must: str, got: object) -> UsageError:
    """Say which cell must be otherwise."""
    return UsageError(
        f"data: row {row + 1}, column {shown(name)} of {file} must {must}; got {shown(got)}. "
        "Mend the cell, or remove the row or the column."
    )


def need_room(file: str, size: int) -> None:
    """Refuse a file that promises more than fits a table, before any of it is read."""
    if size > LARGEST:
        raise usage_error("data", file, f"at most {LARGEST} bytes of data", size)


def need_names(file: str, names: Iterable[str]) -> None:
    """Refuse columns without a name, and two of one name: one would hide the other."""
    counts = Counter(names)
    if not counts or not all(counts):
        raise UsageError(f"data: {file} must name every column; it does not.")
    (name, times), *_ = counts.most_common(1)
    if times > 1:
        raise UsageError(
            f"data: {file} must name its columns differently; got {shown(name)} twice."
        )

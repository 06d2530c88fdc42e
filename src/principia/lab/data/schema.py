r"""How a table becomes numbers: which columns are features, what is predicted, on which scale.

Numbers are standardized by the training rows, categories become one column of 0 and 1 a value. A
target of texts, or of few whole numbers, is a class; any other target is a number to regress on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, final

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import Tensor

from principia.lab.data.cells import bad_cell
from principia.lab.data.table import Table, column, need_column
from principia.lab.params import UsageError, usage_error
from principia.lab.seeds import Seed

__all__ = ["Column", "Examples", "Schema", "examples"]

Task = Literal["classification", "regression"]
MOST_CATEGORIES = 100  # of a column of texts; more look like names
MOST_CLASSES = 20  # of whole numbers that are taken for classes
LARGEST_TARGET, SMALLEST_SPREAD = 1e36, 1e-36  # which float32 can hold


@final
@dataclass(frozen=True)
class Column:
    """A column: its name, and its values if they are categories, or its scale if numbers."""

    name: str
    values: tuple[Any, ...] = ()
    mean: float = 0.0
    scale: float = 1.0

    @property
    def width(self) -> int:
        """How many inputs of a model it becomes."""
        return len(self.values) or 1

    @property
    def is_sound(self) -> bool:
        """Whether it has a name, and either different values or a scale."""
        numbers = (self.mean, self.scale, *(one for one in self.values if not isinstance(one, str)))
        return (
            isinstance(self.name, str) and len(set(self.values)) == len(self.values)
            and all(isinstance(one, (int, float)) and math.isfinite(one) for one in numbers)
            and self.scale > 0
        )

    def encode(self, cells: np.ndarray) -> np.ndarray:
        """Turn cells (N,) into inputs (N, width)."""
        if not self.values:
            if cells.dtype.kind != "f":
                raise usage_error("data", f"column {self.name!r}", "numbers", str(cells[0]))
            with np.errstate(over="ignore", invalid="ignore"):
                inputs = ((cells[:, None] - self.mean) / self.scale).astype(np.float32)
            if not np.isfinite(inputs).all():
                row = int(np.flatnonzero(~np.isfinite(inputs))[0])
                must = "be on the scale of the training data"
                raise bad_cell("the table", self.name, row, must, float(cells[row]))
            return inputs
        return np.eye(len(self.values))[self.places(cells)]

    def places(self, cells: np.ndarray) -> np.ndarray:
        """Turn cells into the places of their values; one that is not known is refused."""
        known = {value: place for place, value in enumerate(self.values)}
        listed = cells.tolist()
        for row, cell in enumerate(listed):
            if cell not in known:
                raise UsageError(
                    f"data: row {row + 1}, column {self.name!r} must be one of the values of the "
                    f"training data; got {cell!r}."
                )
        return np.asarray([known[cell] for cell in listed])


@final
@dataclass(frozen=True)
class Schema:
    """What a model of a table takes and gives."""

    features: tuple[Column, ...]
    target: Column
    task: Task

    @property
    def inputs(self) -> int:
        """How many numbers a model takes."""
        return sum(one.width for one in self.features)

    @property
    def takes(self) -> int:
        """What a model is built for."""
        return self.inputs

    @property
    def outputs(self) -> int:
        """How many numbers a model gives: one a class, or one."""
        return self.target.width

    def encode(self, table: Table) -> Tensor:
        """Turn the features of a table into the inputs of a model (N, inputs)."""
        parts = [one.encode(column(table, one.name, "predict")) for one in self.features]
        return torch.tensor(np.concatenate(parts, 1), dtype=torch.float32)

    def to_json(self) -> dict[str, Any]:
        """Give the schema as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Schema:
        """Take the schema back from plain data; refuse what is none."""
        try:
            *features, target = (
                Column(**{**one, "values": tuple(one["values"])})
                for one in (*plain["features"], plain["target"])
            )
            right = all(one.is_sound for one in (*features, target))
            task: Task = "classification" if target.values else "regression"
            if not right or not features or plain["task"] != task:
                raise ValueError("columns without names, values or scales")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                "data: the schema of the model does not have its form. Was its file changed?"
            ) from error
        return cls(tuple(features), target, task)


@final
@dataclass(frozen=True)
class Examples:
    """A table ready to learn from: inputs and targets of the training rows and of the test rows.

    Targets are the places of classes, or numbers in the units of the table.
    """

    schema: Schema
    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor


def examples(
    table: Table, target: str, *, seed: Seed, drop: Sequence[str] = (), test_share: float = 0.2
) -> Examples:
    """Split a table into training and test rows, and learn its schema from the training rows.

    Example:
        >>> from principia.lab.data.embedded import embedded_table
        >>> ready = examples(*embedded_table("iris"), seed=Seed(0))
        >>> ready.x.shape, ready.schema.task, ready.schema.outputs
        (torch.Size([120, 4]), 'classification', 3)
    """
    for name in drop:
        need_column(table, name, "data")
    left_out = {target, *drop}
    names = [name for name in table if name not in left_out]
    cells = column(table, target, "data")
    if not names:
        raise UsageError("data: the table must have a column beside the target; it has none.")
    classes = _classes(cells)
    _, codes, counts = np.unique(cells, return_inverse=True, return_counts=True)
    rows = np.arange(len(cells))
    if len(rows) < 10:
        raise usage_error("data", "the table", "at least 10 rows", len(rows))
    share = {"test_size": test_share, "random_state": int(seed.child("split"))}
    stratified = classes and counts.min() >= 2 and len(counts) <= test_share * len(rows)
    train, test = train_test_split(rows, stratify=codes if stratified else None, **share)
    known = {name: _feature(name, table[name], train) for name in names}
    constant = {name for name, one in known.items() if one.scale == 0 or len(one.values) == 1}
    if len(constant) == len(names):
        raise UsageError("data: at least one feature must vary; all of them are constant.")
    features = tuple(one for name, one in known.items() if name not in constant)
    task: Task = "classification" if classes else "regression"
    predicted = Column(target, classes) if classes else _number_to_predict(target, cells, train)
    schema = Schema(features, predicted, task)
    x = schema.encode(table)
    y = torch.tensor(schema.target.places(cells) if classes else cells)
    y = y if classes else y.float()
    return Examples(schema, x[train], y[train], x[test], y[test])


def _classes(cells: np.ndarray) -> tuple[Any, ...]:
    """Name the classes of a target; none if it is a number to regress on."""
    values = np.unique(cells)
    if len(values) == 1:
        raise usage_error("data", "the target", "a column that varies", values.tolist()[0])
    if cells.dtype.kind != "f":
        if len(values) > min(MOST_CATEGORIES, len(cells) / 2):
            raise usage_error(
                "data", "the target", "numbers, or few classes", f"{len(values)} texts"
            )
        return tuple(values.tolist())
    whole = bool((values == values.round()).all()) and len(values) <= MOST_CLASSES
    return tuple(values.tolist()) if whole and len(values) <= len(cells) / 5 else ()


def _number_to_predict(name: str, cells: np.ndarray, train: np.ndarray) -> Column:
    """Scale a target by its training rows; float32 must hold its numbers."""
    if (far := float(np.abs(cells).max())) > LARGEST_TARGET:
        domain = f"numbers from {-LARGEST_TARGET:g} to {LARGEST_TARGET:g}"
        raise usage_error("data", "the target", domain, far, "Write it in larger units.")
    found = _feature(name, cells, train)
    if found.scale < SMALLEST_SPREAD:
        domain = f"numbers that spread by {SMALLEST_SPREAD:g} or more in the training rows"
        raise usage_error("data", "the target", domain, found.scale, "Write it in smaller units.")
    return found


def _feature(name: str, cells: np.ndarray, train: np.ndarray) -> Column:
    if cells.dtype.kind == "f":
        far = float(np.abs(cells[train]).max())
        unit = 1.0 if 1e-100 < far < 1e100 or not far else far  # squares must stay numbers
        known = cells[train] / unit
        return Column(name, (), float(known.mean()) * unit, float(known.std()) * unit)
    values = np.unique(cells)  # of all rows: a category must not be new in the test rows
    if len(values) > MOST_CATEGORIES:
        raise UsageError(
            f"data: column {name!r} must have at most {MOST_CATEGORIES} different texts; got "
            f"{len(values)}. If it only names the rows, leave it out with --drop {name}."
        )
    return Column(name, tuple(values.tolist()))

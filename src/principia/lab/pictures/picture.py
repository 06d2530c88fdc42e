r"""Pictures: marks on axes, several such plots side by side, or any of them moving."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from principia.lab.params import UsageError
from principia.lab.pictures.marks import (
    Cloud,
    Image,
    Label,
    Mark,
    Series,
    Surface,
    mark_from_json,
    mark_to_json,
)

__all__ = [
    "Frames", "Panels", "Picture", "Plot", "grid", "picture_from_json", "side_by_side",
]


@final
@dataclass(frozen=True)
class Plot:
    """What a figure needs: marks, axis titles and which axes are logarithmic.

    Args:
        series: The marks, the first below the others.
        x: Title of the horizontal axis.
        y: Title of the vertical axis.
        log: Which axes are logarithmic.
        z: Title of the third axis, in space.
        title: What stands above; wanted where several plots stand side by side.
        x_range: Ends of the horizontal axis, where they should not follow the marks.
        y_range: Ends of the vertical axis.
        square: Whether one unit is as long on both axes.
        bare: Whether the axes are left out.
        generic: Whether it only shows measured beside expected values, for want of a better one.
    """

    series: tuple[Mark, ...]
    x: str = ""
    y: str = ""
    log: Literal["", "x", "y", "xy"] = ""
    z: str = ""
    title: str = ""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    square: bool = False
    bare: bool = False
    generic: bool = False

    def __post_init__(self) -> None:
        """Take the marks for itself; those in space and those on paper do not go together."""
        object.__setattr__(self, "series", tuple(self.series))
        flat = [one for one in self.series if not isinstance(one, (Cloud, Surface))]
        if self.spatial and flat:
            raise UsageError(
                "Plot: series must be all in space or all on paper; got "
                f"{type(flat[0]).__name__} beside a Cloud or a Surface. Draw it as a Cloud."
            )

    @property
    def spatial(self) -> bool:
        """Whether it is in space, not on paper."""
        return any(isinstance(one, (Cloud, Surface)) for one in self.series)

    def to_json(self) -> dict[str, Any]:
        """Give the plot as plain data."""
        described: dict[str, Any] = {
            "x": self.x, "y": self.y, "log": self.log,
            "series": [mark_to_json(one) for one in self.series],
        }
        for name in ("z", "title", "square", "bare", "generic"):
            if value := getattr(self, name):
                described[name] = value
        for name in ("x_range", "y_range"):
            if (ends := getattr(self, name)) is not None:
                described[name] = [float(end) for end in ends]
        return described

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Plot:
        """Take the plot back from plain data."""
        rest = {name: value for name, value in plain.items() if name != "series"}
        for name in ("x_range", "y_range"):
            if name in rest:
                rest[name] = tuple(rest[name])
        return cls(tuple(map(mark_from_json, plain["series"])), **rest)


@final
@dataclass(frozen=True)
class Panels:
    """Plots side by side; on a narrow screen they stand below each other.

    Args:
        plots: The plots, row by row.
        columns: How many stand in a row; by default all.
        legend: Whether a legend stands below; words on the picture are better, where there is room.
    """

    plots: tuple[Plot, ...]
    columns: int = 0
    legend: bool = False

    def __post_init__(self) -> None:
        """Take the plots for itself."""
        object.__setattr__(self, "plots", tuple(self.plots))
        if not self.plots:
            raise UsageError("Panels: plots must be one plot or more; got none.")

    @property
    def width(self) -> int:
        """How many stand in a row."""
        return min(self.columns or len(self.plots), len(self.plots))

    @property
    def height(self) -> int:
        """How many rows there are."""
        return math.ceil(len(self.plots) / self.width)

    def to_json(self) -> dict[str, Any]:
        """Give the panels as plain data."""
        described = {"panels": [one.to_json() for one in self.plots], "columns": self.width}
        return {**described, "legend": True} if self.legend else described


@final
@dataclass(frozen=True)
class Frames:
    """A picture that moves over a parameter, with a slider and a button that plays it.

    All frames have the same marks on the same axes; what is not there yet is an empty mark.

    Args:
        parameter: What changes.
        values: Its value in each frame, a number or words.
        pictures: The frames.
    """

    parameter: str
    values: tuple[Any, ...]
    pictures: tuple[Plot | Panels, ...]

    def __post_init__(self) -> None:
        """Refuse frames that do not fit each other."""
        object.__setattr__(self, "values", tuple(self.values))
        object.__setattr__(self, "pictures", tuple(self.pictures))
        if len(self.values) != len(self.pictures) or not self.pictures:
            raise UsageError(
                "Frames: values and pictures must have one length >= 1; got "
                f"{len(self.values)} and {len(self.pictures)}."
            )
        forms = {
            tuple(tuple(type(mark) for mark in plot.series) for plot in _plots(one))
            for one in self.pictures
        }
        if len(forms) > 1:
            raise UsageError(
                "Frames: pictures must have the same kinds of marks in each frame; got others. "
                "Give an empty mark to the frames that lack one."
            )

    def to_json(self) -> dict[str, Any]:
        """Give the frames as plain data."""
        values = [one if isinstance(one, str) else float(one) for one in self.values]
        frames = [one.to_json() for one in self.pictures]
        return {"parameter": self.parameter, "values": values, "frames": frames}


Picture = Plot | Panels | Frames


def _plots(picture: Plot | Panels) -> tuple[Plot, ...]:
    return picture.plots if isinstance(picture, Panels) else (picture,)


def grid(
    pictures: Sequence[Any], titles: Sequence[str] = (), *, columns: int = 5,
    signed: bool = False, low: float | None = None, high: float | None = None,
) -> Panels:
    """Put images into a grid.

    Args:
        pictures: Arrays (H, W) or (H, W, 3).
        titles: Words above each.
        columns: Images in a row.
        signed: Whether 0 is white, less is blue and more is red.
        low: The value that is black; by default the least of each.
        high: The value that is white; by default the largest of each.
    """
    named = list(titles) or [""] * len(pictures)
    plots = [
        Plot((Image(one, signed=signed, low=low, high=high),), title=title, square=True, bare=True)
        for one, title in zip(pictures, named, strict=True)
    ]
    return Panels(tuple(plots), columns)


def side_by_side(
    arrays: Mapping[str, Any], *, signed: bool = True, one_scale: bool = True
) -> Plot:
    """Show matrices beside each other under their names, 0 white.

    Args:
        arrays: Arrays or tensors by name; of one with more axes, the first half makes the rows.
        signed: Whether less than 0 is blue and more is red.
        one_scale: Whether all have the same colors; else each has its own.
    """
    tables = {name: _table(one) for name, one in arrays.items()}
    sizes = {name: float(np.abs(one).max(initial=0.0)) or 1.0 for name, one in tables.items()}
    left = 0.0
    marks: list[Mark] = []
    for name, values in tables.items():
        most = max(sizes.values()) if one_scale else sizes[name]
        wide = min(max(values.shape[1] / len(values), 0.1), 1.0)
        right, middle = left + max(wide, 0.6), left + max(wide, 0.6) / 2
        place = middle - wide / 2, 0.0, middle + wide / 2, 1.0
        pixels = values if signed else most - values  # 0 is white
        low = -most if signed else 0.0
        frame = [place[side] for side in (0, 2, 2, 0, 0)]
        marks += [
            Image(pixels, name, signed=signed, low=low, high=most, place=place),
            Series("", frame, [0, 0, 1, 1, 0], "gray", "line"),
            Label(name, middle, 1, size=12, side="above"),
        ]
        left = right + 0.1
    return Plot(tuple(marks), bare=True, x_range=(0, left - 0.1), y_range=(0, 1.1))


def _table(values: Any) -> np.ndarray:
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    array = np.asarray(values, dtype=np.float64)
    return array.reshape(math.prod(array.shape[: array.ndim // 2]), -1)


def picture_from_json(plain: Mapping[str, Any]) -> Picture:
    """Take a picture back from plain data."""
    if "frames" in plain:
        frames = tuple(picture_from_json(one) for one in plain["frames"])
        return Frames(plain["parameter"], tuple(plain["values"]), frames)  # type: ignore[arg-type]
    if "panels" in plain:
        plots = tuple(map(Plot.from_json, plain["panels"]))
        return Panels(plots, plain["columns"], plain.get("legend", False))
    return Plot.from_json(plain)

r"""Marks: what can stand on a pair of axes, or in space, as plain data.

A mark has numbers (lists, arrays or tensors), words, and a color by its role: `measured` is blue,
`predicted` dark, a `bound` a dashed red line, `other` the next color that is free; or one by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, final, get_args

import numpy as np

from principia.lab.params import UsageError

__all__ = [
    "Arrows", "Cloud", "Color", "Field", "Graph", "Histogram", "Image", "Label", "Mark", "Matrix",
    "Regions", "Role", "Rule", "Series", "Sound", "Style", "Surface", "Words", "mark_from_json",
    "mark_to_json", "plain_number", "tree",
]

Color = Literal["blue", "green", "orange", "purple", "teal", "pink", "lime", "red", "ink", "gray"]
Role = Literal[
    "measured", "predicted", "bound", "other",
    "blue", "green", "orange", "purple", "teal", "pink", "lime", "red", "ink", "gray",
]
Style = Literal["points", "line", "steps", "bars"]
Numbers = Any  # a number, or lists, an array or a tensor of them: kept as an array of its own
DIGITS = 5  # of the numbers of a picture, which nobody sees more finely


class _Drawn:
    """Cuts numbers off a graph of autograd, and keeps them as arrays that nobody changes."""

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]  # a dataclass below
            value = getattr(self, one.name)
            if one.type == "Numbers" and value is not None:
                object.__setattr__(self, one.name, _array(value))


def _array(value: Any) -> np.ndarray:
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.array(value, dtype=np.float64)


@final
@dataclass(frozen=True)
class Series:
    """One curve or cloud of a plot.

    Args:
        name: What the legend says.
        x: Where: a sequence of numbers or words.
        y: What: a sequence of numbers, an array or a tensor.
        role: Decides the color: measured, predicted, bound or other, or a color.
        style: Points, line, steps or bars; by default points if measured, else a line.
        error: Half-lengths of error bars, if any.
    """

    name: str
    x: Any
    y: Any
    role: Role = "measured"
    style: Style | None = None
    error: Any = None

    def __post_init__(self) -> None:
        """Keep numbers of its own: a few of a large tensor would be kept, and sent, with all."""
        for name in ("x", "y", "error"):
            object.__setattr__(self, name, _own(getattr(self, name)))

    def to_json(self) -> dict[str, Any]:
        """Give the series as plain lists."""
        described: dict[str, Any] = {"name": self.name, "role": self.role}
        described["style"] = self.style or ("points" if self.role == "measured" else "line")
        described["x"] = [one if isinstance(one, str) else _plain(one) for one in self.x]
        described["y"] = _plain_list(self.y)
        if self.error is not None:
            described["error"] = _plain_list(self.error)
        return described

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Series:
        """Take the series back from plain data."""
        numbers = {name: [float(one) for one in plain[name]] for name in ("y", "error")
                   if name in plain}  # words such as nan and inf, too
        x = [one if isinstance(one, str) else float(one) for one in plain["x"]]
        return cls(plain["name"], x, role=plain["role"], style=plain["style"], **numbers)


@final
@dataclass(frozen=True, eq=False)
class Image(_Drawn):
    """A picture of pixels, gray (H, W) or colored (H, W, 3) in [0, 1], its first row above.

    Args:
        pixels: The values.
        name: What the pointer tells.
        signed: Whether 0 is white, less is blue and more is red.
        low: The value that is black (of gray pixels); by default the least.
        high: The value that is white; by default the largest.
        place: Left, bottom, right and top on the axes; by default one unit a pixel, from 0.
    """

    pixels: Numbers
    name: str = ""
    signed: bool = False
    low: float | None = None
    high: float | None = None
    place: Numbers = None

    @property
    def colored(self) -> bool:
        """Whether each pixel has three values."""
        return self.pixels.ndim == 3

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, bottom, right and top on the axes."""
        rows, columns = self.pixels.shape[:2]
        left, bottom, right, top = (0, 0, columns, rows) if self.place is None else self.place
        return float(left), float(bottom), float(right), float(top)


@final
@dataclass(frozen=True, eq=False)
class Field(_Drawn):
    """A function of two variables, as a heat map, as contours, or as a map of few classes.

    Args:
        x: Places along the horizontal axis (W,).
        y: Places along the vertical axis (H,).
        z: Values (H, W); with `classes`, whole numbers from 0.
        style: heat, contours (lines), filled (contours), or classes (each number in its color).
        name: What the values are.
        signed: Whether 0 is white, less is blue and more is red.
        low: The value at one end of the colors; by default the least.
        high: The value at the other end; by default the largest.
        scale: Whether a scale of the colors stands beside it.
    """

    x: Numbers
    y: Numbers
    z: Numbers
    style: Literal["heat", "contours", "filled", "classes"] = "heat"
    name: str = ""
    signed: bool = False
    low: float | None = None
    high: float | None = None
    scale: bool = False


@final
@dataclass(frozen=True, eq=False)
class Matrix(_Drawn):
    """A matrix with names of its rows and columns, the first row above.

    Args:
        values: The entries (rows, columns); NaN leaves a cell empty.
        rows: Names of the rows; by default their numbers.
        columns: Names of the columns.
        name: What the entries are.
        signed: Whether 0 is white, less is blue and more is red.
        low: The value at one end of the colors.
        high: The value at the other end.
        written: Whether the numbers stand in the cells.
    """

    values: Numbers
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    name: str = ""
    signed: bool = False
    low: float | None = None
    high: float | None = None
    written: bool = False


@final
@dataclass(frozen=True, eq=False)
class Regions:
    """Polygons, each in the color of its group.

    Args:
        polygons: Each a sequence of corners (corners, 2).
        groups: A whole number for each, which chooses its color; by default all differ.
        name: What the pointer tells.
    """

    polygons: Sequence[Any]
    groups: Sequence[int] = ()
    name: str = ""

    def __post_init__(self) -> None:
        """Take corners as arrays."""
        object.__setattr__(self, "polygons", tuple(_array(one) for one in self.polygons))
        groups = self.groups or range(len(self.polygons))
        object.__setattr__(self, "groups", tuple(int(one) for one in groups))


@final
@dataclass(frozen=True, eq=False)
class Graph(_Drawn):
    """Nodes at places, and edges between them.

    Args:
        places: Where each node stands (nodes, 2).
        edges: Pairs of nodes (edges, 2).
        labels: Words on the nodes.
        values: A number for each node in [-1, 1], which colors it blue, white or red.
        weights: A number for each edge: its size is the width, its sign the color.
        directed: Whether edges end in arrows.
        size: Diameter of a node in pixels.
    """

    places: Numbers
    edges: Numbers
    labels: Sequence[str] = ()
    values: Numbers = None
    weights: Numbers = None
    directed: bool = False
    size: float = 26.0


@final
@dataclass(frozen=True, eq=False)
class Histogram(_Drawn):
    """How often values fall into bins, as a density, so that a law can be drawn over it.

    Args:
        name: What the legend says.
        values: The values.
        bins: Number of bins, or their edges.
        role: Decides the color.
    """

    name: str
    values: Numbers
    bins: Numbers = 40
    role: Role = "measured"

    def densities(self) -> tuple[np.ndarray, np.ndarray]:
        """Give the edges of the bins and the density in each."""
        finite = self.values[np.isfinite(self.values)]
        bins = self.bins if np.ndim(self.bins) else int(self.bins)
        if not finite.size:
            return np.zeros(2), np.zeros(1)
        counts, edges = np.histogram(finite, bins)
        return edges, counts / (len(finite) * np.diff(edges))


@final
@dataclass(frozen=True, eq=False)
class Cloud(_Drawn):
    """Points in space, or a line through them.

    Args:
        name: What the legend says.
        points: Places (points, 3).
        values: A number for each, which colors it; by default all have the color of the role.
        role: Decides the color.
        style: Points, or a line.
        size: Of a point, in pixels.
    """

    name: str
    points: Numbers
    values: Numbers = None
    role: Role = "measured"
    style: Literal["points", "line"] = "points"
    size: float = 3.0


@final
@dataclass(frozen=True, eq=False)
class Surface(_Drawn):
    """A surface in space.

    Args:
        x: Places along the first axis (W,), or of each corner (H, W).
        y: Places along the second axis (H,), or of each corner (H, W).
        z: Heights (H, W); NaN leaves a hole.
        values: What colors it (H, W); by default the heights.
        opacity: From 0 to 1.
        name: What the pointer tells.
    """

    x: Numbers
    y: Numbers
    z: Numbers
    values: Numbers = None
    opacity: float = 0.8
    name: str = ""


@final
@dataclass(frozen=True, eq=False)
class Arrows(_Drawn):
    """Arrows from places to places.

    Args:
        starts: Where they begin (arrows, 2).
        ends: Where they end (arrows, 2).
        name: What the legend says; nothing there without one.
        role: Decides the color.
        width: Of the line, in pixels.
    """

    starts: Numbers
    ends: Numbers
    name: str = ""
    role: Role = "other"
    width: float = 2.0


@final
@dataclass(frozen=True, eq=False)
class Label(_Drawn):
    """Words on the picture itself.

    Args:
        words: What they say, one or one a place.
        x: Where.
        y: Where.
        role: Decides the color.
        size: Of the letters in pixels, one or one a place.
        side: On which side of the place they stand.
    """

    words: str | Sequence[str]
    x: Numbers
    y: Numbers
    role: Role = "ink"
    size: Numbers = 14.0
    side: Literal["on", "right", "left", "above", "below"] = "on"


@final
@dataclass(frozen=True)
class Rule:
    """A straight line across the whole plot: a threshold, or where a knob stands now.

    Args:
        name: What it is; the words stand at its end.
        x: Where it crosses the horizontal axis; or
        y: where it crosses the vertical axis.
        role: Decides the color.
    """

    name: str
    x: float | None = None
    y: float | None = None
    role: Role = "bound"

    def __post_init__(self) -> None:
        """Refuse a line that is neither upright nor level."""
        if (self.x is None) == (self.y is None):
            raise UsageError(
                f"Rule: one of x and y must be given; got x={self.x} and y={self.y}. "
                "Rule('threshold', y=0.95) is level."
            )


@final
@dataclass(frozen=True, eq=False)
class Words(_Drawn):
    """A text whose words have weights, shown as the color behind each.

    Args:
        words: The words, in their order.
        weights: A number for each.
        signed: Whether 0 is white, less is blue and more is red.
        width: Letters of a line.
        low: The weight at one end of the colors; by default 0, or minus the other end if signed.
        high: The weight at the other end; by default the largest.
    """

    words: Sequence[str]
    weights: Numbers
    signed: bool = False
    width: int = 40
    low: float | None = None
    high: float | None = None

    def lines(self) -> tuple[list[str], np.ndarray]:
        """Give the letters of each line, and the weight behind each letter."""
        lines: list[str] = [""]
        weights: list[list[float]] = [[]]
        for word, weight in zip(self.words, self.weights, strict=True):
            if lines[-1] and len(lines[-1]) + 1 + len(word) > self.width:
                lines.append("")
                weights.append([])
            if lines[-1]:
                lines[-1] += " "
                weights[-1].append(math.nan)
            lines[-1] += word[: self.width]
            weights[-1] += [float(weight)] * len(word[: self.width])
        wide = [line + [math.nan] * (self.width - len(line)) for line in weights]
        return [line.ljust(self.width) for line in lines], np.array(wide)


@final
@dataclass(frozen=True, eq=False)
class Sound(_Drawn):
    """A recording, drawn as its wave and played by a button.

    Args:
        samples: The wave in [-1, 1].
        rate: Samples a second.
        name: What is heard.
        role: Decides the color.
    """

    samples: Numbers
    rate: int = 8000
    name: str = ""
    role: Role = "measured"


Mark = (
    Series | Image | Field | Matrix | Regions | Graph | Histogram | Cloud | Surface | Arrows
    | Label | Rule | Words | Sound
)
_KINDS = {one.__name__.lower(): one for one in get_args(Mark)}


def tree(
    parents: Sequence[int], labels: Sequence[str] = (), *, values: Any = None, weights: Any = None
) -> Graph:
    """Draw a tree: leaves side by side, everybody above the middle of its children.

    Args:
        parents: For each node the number of its parent; -1 for the root.
        labels: Words on the nodes.
        values: A number for each node, which colors it.
        weights: A number for each edge, in the order of the nodes below the roots.

    Example:
        >>> tree([-1, 0, 0]).places.tolist()
        [[0.5, 0.0], [0.0, -1.0], [1.0, -1.0]]
    """
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        if not -1 <= parent < len(parents):
            raise UsageError(
                f"tree: parents must be -1 or the number of a node; got {parent}."
            )
        children.setdefault(parent, []).append(node)
    places, leaves, walk = {}, 0, [(root, 0, False) for root in reversed(children.get(-1, []))]
    while walk:
        node, depth, done = walk.pop()
        below = children.get(node, [])
        if below and not done:
            walk += [(node, depth, True), *((one, depth + 1, False) for one in reversed(below))]
            continue
        x = float(np.mean([places[one][0] for one in below])) if below else float(leaves)
        leaves += not below
        places[node] = (x, float(-depth))
    if len(places) < len(parents):
        raise UsageError("tree: parents must lead to a root; got a circle.")
    edges = [(parent, node) for node, parent in enumerate(parents) if parent >= 0]
    where = [places[node] for node in range(len(parents))]
    return Graph(where, np.reshape(edges, (-1, 2)), labels, values, weights)


def mark_to_json(mark: Mark) -> dict[str, Any]:
    """Give a mark as plain data; what is as by default is left out."""
    if isinstance(mark, Series):
        return mark.to_json()
    described: dict[str, Any] = {"kind": type(mark).__name__.lower()}
    for one in fields(mark):
        value = getattr(mark, one.name)
        default = None if one.default is MISSING else one.default
        if value is None or (np.ndim(value) == 0 and value == default):
            continue
        described[one.name] = _described(value)
    return described


def mark_from_json(plain: Mapping[str, Any]) -> Mark:
    """Take a mark back from plain data."""
    if "kind" not in plain:
        return Series.from_json(plain)
    kind = _KINDS[plain["kind"]]
    given: dict[str, Any] = {}
    for one in fields(kind):  # type: ignore[arg-type]  # all kinds are dataclasses
        if one.name in plain:
            number = one.type == "Numbers" or one.name == "polygons"
            given[one.name] = _back(plain[one.name]) if number else plain[one.name]
    return kind(**given)


def _back(value: Any) -> Any:
    return [_back(one) for one in value] if isinstance(value, list) else float(value)


def _described(value: Any) -> Any:
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, np.ndarray) and value.ndim:
        return [_described(one) for one in value]
    if isinstance(value, (list, tuple)):
        return [_described(one) for one in value]
    number = float(value)
    return _plain(float(f"{number:.{DIGITS}g}"))


def plain_number(value: Any) -> float | int:
    """Write whole numbers as such."""
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _plain(value: Any) -> float | int | str:
    number = plain_number(value)
    return number if math.isfinite(number) else str(number)


def _own(values: Any) -> Any:
    """Cut numbers off their graph, and off the larger tensor or array that they are part of."""
    if isinstance(values, (list, tuple)):
        return [_own(one) for one in values]
    if hasattr(values, "detach"):
        return values.detach().clone()
    return values.copy() if isinstance(values, np.ndarray) else values


def _plain_list(values: Iterable[Any]) -> list[float | int | str]:
    return [_plain(one) for one in np.asarray(values, dtype=np.float64).ravel()]

r"""Marks, drawn: each becomes traces of Plotly, as many in every frame of a moving picture."""

from __future__ import annotations

import base64
import functools
import io
import math
import wave
from collections.abc import Sequence
from typing import Any

import numpy as np

from principia.lab.figures.look import CLASSES, COLORS
from principia.lab.pictures.marks import (
    Arrows,
    Cloud,
    Field,
    Graph,
    Histogram,
    Image,
    Label,
    Matrix,
    Regions,
    Rule,
    Series,
    Sound,
    Surface,
    Words,
)

__all__ = ["Trace", "played", "rule_trace", "traces"]

Trace = dict[str, Any]  # as Plotly's own form has it
Scale = list[list[Any]]  # of colors; named ones look otherwise in a browser than in Python
GRAYS: Scale = [[0.0, "#000000"], [1.0, "#ffffff"]]
BLUES: Scale = [[0.0, "#f1f5f9"], [0.5, "#60a5fa"], [1.0, "#1e3a8a"]]
SIGNED: Scale = [[0.0, "#2563eb"], [0.5, "#fdfdfd"], [1.0, "#dc2626"]]
WIDTHS = (0.75, 1.75, 3.0, 5.0)  # of edges, thin to thick
MOST_POINTS = 2000  # of a wave, which no screen shows more finely
TEXT_SIDES = {
    "on": "middle center", "right": "middle right", "left": "middle left", "above": "top center",
    "below": "bottom center",
}


@functools.singledispatch
def traces(mark: Any, color: str) -> list[Trace]:
    """Draw a mark.

    Args:
        mark: What is to be seen.
        color: The color of its role.
    """
    raise TypeError(f"{type(mark).__name__} is no mark.")


@traces.register
def _(mark: Series, color: str) -> list[Trace]:
    data = mark.to_json()
    bars = data.get("error")
    error = {"type": "data", "array": bars, "thickness": 1} if bars is not None else None
    words = any(isinstance(one, str) for one in mark.x)
    x = data["x"] if words else _drawable(data["x"])
    shared = {"name": mark.name, "x": x, "y": _drawable(data["y"])}
    if data["style"] == "bars":
        bar = {"color": color}
        return [_trace("bar", **shared, marker=bar, error_y=error, opacity=0.85)]
    line = {"color": color, "width": 2, "shape": "hv" if data["style"] == "steps" else "linear"}
    if mark.role == "bound":
        line["dash"] = "dash"
    return [
        _trace(
            "scatter", **shared, mode="markers" if data["style"] == "points" else "lines",
            marker={"color": color, "size": 7, "opacity": 0.8}, line=line, error_y=error,
        )
    ]


def _drawable(numbers: Sequence[Any]) -> list[Any]:
    """Leave a gap where there is no finite number; JSON has words there."""
    return [None if isinstance(one, str) else one for one in numbers]


@traces.register
def _(mark: Image, color: str) -> list[Trace]:
    rows, columns = mark.pixels.shape[:2]
    left, bottom, right, top = mark.box
    wide, tall = (right - left) / columns, (top - bottom) / rows
    where = {"x0": left + wide / 2, "dx": wide, "y0": bottom + tall / 2, "dy": tall}
    upwards = mark.pixels[::-1]
    if mark.colored:
        return [
            _trace("image", source=_png(upwards), name=mark.name, hoverinfo="skip", **where)
        ]
    return [
        _trace("heatmap", z=_small(upwards), name=mark.name, **where, **_colors(mark, GRAYS))
    ]


@traces.register
def _(mark: Field, color: str) -> list[Trace]:
    shared: dict[str, Any] = {"x": mark.x, "y": mark.y, "z": _small(mark.z), "name": mark.name}
    if mark.style == "classes":
        count = len(CLASSES)
        scale = [
            [edge / count, shade] for place, shade in enumerate(CLASSES)
            for edge in (place, place + 1)
        ]
        shared["z"] = _small(np.where(np.isnan(mark.z), np.nan, np.mod(mark.z, count)))
        return [
            _trace(
                "heatmap", **shared, zmin=-0.5, zmax=count - 0.5, colorscale=scale,
                showscale=False, hoverinfo="skip",
            )
        ]
    if mark.style == "heat":
        return [_trace("heatmap", **shared, **_colors(mark, BLUES))]
    if mark.style == "filled":
        return [
            _trace("contour", **shared, ncontours=14, line={"width": 0.5}, **_colors(mark, BLUES))
        ]
    return [
        _trace(
            "contour", **shared, ncontours=14, contours={"coloring": "none"}, showscale=False,
            line={"color": COLORS["gray"], "width": 1}, hoverinfo="skip", showlegend=False,
        )
    ]


@traces.register
def _(mark: Matrix, color: str) -> list[Trace]:
    rows, columns = mark.values.shape
    return [
        _trace(
            "heatmap", z=_small(mark.values[::-1]), name=mark.name, xgap=1, ygap=1,
            x=list(mark.columns) or [str(number) for number in range(columns)],
            y=(list(mark.rows) or [str(number) for number in range(rows)])[::-1],
            texttemplate="%{z:.3~g}" if mark.written else None, **_colors(mark, BLUES),
        )
    ]


@traces.register
def _(mark: Regions, color: str) -> list[Trace]:
    drawn = []
    for place, shade in enumerate(CLASSES):
        own = [
            polygon for polygon, group in zip(mark.polygons, mark.groups, strict=True)
            if group % len(CLASSES) == place and len(polygon)
        ]
        x, y = _broken([np.concatenate([one, one[:1]]) for one in own])
        drawn.append(
            _trace(
                "scatter", x=x, y=y, fill="toself", fillcolor=shade, mode="lines", name=mark.name,
                line={"color": "#ffffff", "width": 1}, hoverinfo="skip", showlegend=False,
            )
        )
    return drawn


@traces.register
def _(mark: Graph, color: str) -> list[Trace]:
    edges = mark.edges.reshape(-1, 2).astype(int)
    weights = np.ones(len(edges)) if mark.weights is None else mark.weights
    largest = float(np.abs(weights).max(initial=0.0)) or 1.0
    wide = np.ceil(np.abs(weights) / largest * len(WIDTHS)).astype(int)  # 0: no edge at all
    drawn, weighed = [], mark.weights is not None
    for sign, name in ((1, "red"), (-1, "blue")):
        shade = COLORS[name if weighed else "gray"]
        for number, width in enumerate(WIDTHS if weighed else (1,) * len(WIDTHS), start=1):
            chosen = edges[(np.sign(weights) == sign) & (wide == number)]
            x, y = _broken([_short_of_the_node(mark, pair) for pair in chosen])
            marker = {"symbol": "arrow", "angleref": "previous", "color": shade,
                      "size": [0, 11, 0] * len(chosen)}
            drawn.append(
                _trace(
                    "scatter", x=x, y=y, mode="lines+markers" if mark.directed else "lines",
                    line={"color": shade, "width": width},
                    marker=marker if mark.directed else None, opacity=0.7, hoverinfo="skip",
                    showlegend=False,
                )
            )
    values = np.zeros(len(mark.places)) if mark.values is None else mark.values
    drawn.append(
        _trace(
            "scatter", x=mark.places[:, 0], y=mark.places[:, 1], mode="markers+text",
            text=list(mark.labels) or None, textfont={"size": 12, "color": "#111827"},
            marker={"size": mark.size, "color": values, "cmin": -1, "cmax": 1,
                    "colorscale": SIGNED, "line": {"color": COLORS["gray"], "width": 1}},
            hoverinfo="skip", showlegend=False, cliponaxis=False,
        )
    )
    return drawn


def _short_of_the_node(mark: Graph, pair: np.ndarray) -> np.ndarray:
    """Let an arrow end a little before the middle of its node, so that its tip is seen."""
    start, end = mark.places[pair]
    return np.stack([start, start + (end - start) * (0.9 if mark.directed else 1.0)])


@traces.register
def _(mark: Histogram, color: str) -> list[Trace]:
    edges, densities = mark.densities()
    middles, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    return [
        _trace("bar", x=middles, y=densities, width=widths, name=mark.name, opacity=0.55,
               marker={"color": color, "line": {"width": 0}})
    ]


@traces.register
def _(mark: Cloud, color: str) -> list[Trace]:
    x, y, z = mark.points.reshape(-1, 3).T
    colored = color if mark.values is None else mark.values
    marker = {"size": mark.size, "color": colored, "colorscale": "Viridis"}
    return [
        _trace(
            "scatter3d", x=x, y=y, z=z, name=mark.name,
            mode="lines" if mark.style == "line" else "markers",
            marker=marker, line={"color": color, "width": 5}, hoverinfo="skip",
        )
    ]


@traces.register
def _(mark: Surface, color: str) -> list[Trace]:
    shown = mark.z if mark.values is None else mark.values
    return [
        _trace(
            "surface", x=_small(mark.x), y=_small(mark.y), z=_small(mark.z),
            surfacecolor=_small(shown), opacity=mark.opacity, showscale=False, name=mark.name,
            colorscale=BLUES, hoverinfo="skip",
        )
    ]


@traces.register
def _(mark: Arrows, color: str) -> list[Trace]:
    pairs = np.stack([mark.starts.reshape(-1, 2), mark.ends.reshape(-1, 2)], axis=1)
    x, y = _broken(list(pairs))
    return [
        _trace(
            "scatter", x=x, y=y, mode="lines+markers", name=mark.name, showlegend=bool(mark.name),
            line={"color": color, "width": mark.width}, hoverinfo="skip",
            marker={"symbol": "arrow", "angleref": "previous", "color": color,
                    "size": [0, 9 + mark.width, 0] * len(pairs)},
        )
    ]


@traces.register
def _(mark: Label, color: str) -> list[Trace]:
    x, y = np.atleast_1d(mark.x), np.atleast_1d(mark.y)
    words = [mark.words] * len(x) if isinstance(mark.words, str) else list(mark.words)
    size = np.broadcast_to(mark.size, len(words)).tolist()
    return [
        _trace(
            "scatter", x=x, y=y, text=words, mode="text", textposition=TEXT_SIDES[mark.side],
            textfont={"color": color, "size": size}, hoverinfo="skip", showlegend=False,
            cliponaxis=False,
        )
    ]


def rule_trace(mark: Rule, color: str, ends: tuple[Any, Any]) -> Trace:
    """Draw a line across a whole plot, which ends there."""
    level = mark.y is not None
    place = mark.y if level else mark.x
    x, y = (list(ends), [place] * 2) if level else ([place] * 2, list(ends))
    return _trace(
        "scatter", x=x, y=y, mode="lines+text", text=["", mark.name], hoverinfo="name",
        name=mark.name,
        textposition="top left" if level else "bottom right", showlegend=False,
        textfont={"color": color}, line={"color": color, "width": 1.5, "dash": "dash"},
    )


@traces.register
def _(mark: Words, color: str) -> list[Trace]:
    lines, weights = mark.lines()
    letters = [list(line) for line in lines][::-1]
    largest = float(np.nanmax(np.abs(weights), initial=0.0)) or 1.0
    high = largest if mark.high is None else mark.high
    low = (-high if mark.signed else 0.0) if mark.low is None else mark.low
    scale = SIGNED if mark.signed else [[0.0, "#fdfdfd"], [1.0, CLASSES[1]]]
    return [
        _trace(
            "heatmap", z=_small(weights[::-1]), text=letters, texttemplate="%{text}", zmin=low,
            zmax=high,
            textfont={"family": "monospace", "size": 13, "color": "#111827"}, colorscale=scale,
            showscale=False, hoverinfo="skip",
        )
    ]


@traces.register
def _(mark: Sound, color: str) -> list[Trace]:
    step = math.ceil(len(mark.samples) / (MOST_POINTS / 2))
    whole = len(mark.samples) // step * step
    blocks = mark.samples[:whole].reshape(-1, step)
    y = np.stack([blocks.min(1), blocks.max(1)], axis=1).ravel()  # what is loud stays loud
    x = np.arange(len(y)) * step / 2 / mark.rate
    return [_trace("scatter", x=_small(x), y=_small(y), mode="lines", name=mark.name,
                       line={"color": color, "width": 1}, showlegend=False)]


def _trace(kind: str, **settings: Any) -> Trace:
    return {"type": kind, **{name: one for name, one in settings.items() if one is not None}}


def played(mark: Sound) -> str:
    """Give a recording as the address of a WAV file that is all in the address."""
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(mark.rate)
        written.writeframes((np.clip(mark.samples, -1, 1) * 32767).astype("<i2").tobytes())
    return "data:audio/wav;base64," + base64.b64encode(file.getvalue()).decode()


def _broken(paths: Sequence[np.ndarray]) -> tuple[list[Any], list[Any]]:
    """Put paths one behind the other, with a gap between each two."""
    x: list[Any] = []
    y: list[Any] = []
    for path in paths:
        x += [*path[:, 0].tolist(), None]
        y += [*path[:, 1].tolist(), None]
    return x, y


def _small(values: np.ndarray) -> np.ndarray:
    """Take half the digits: nobody sees more, and figures travel."""
    return np.asarray(values, dtype=np.float32)


def _colors(mark: Image | Field | Matrix, scale: Scale) -> dict[str, Any]:
    values = mark.values if isinstance(mark, Matrix) else (
        mark.z if isinstance(mark, Field) else mark.pixels)
    finite = values[np.isfinite(values)]
    least, most = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    low = float(least if mark.low is None else mark.low)
    high = float(most if mark.high is None else mark.high)
    beside = bool(getattr(mark, "scale", False))
    if mark.signed:
        reach = max(abs(low), abs(high)) or 1.0
        return {"zmin": -reach, "zmax": reach, "colorscale": SIGNED, "showscale": beside}
    return {"zmin": low, "zmax": high, "colorscale": scale, "showscale": beside}


def _png(pixels: np.ndarray) -> str:
    from PIL import Image as Pillow

    file = io.BytesIO()
    Pillow.fromarray((np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)).save(file, "png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()



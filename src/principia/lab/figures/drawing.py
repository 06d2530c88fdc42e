r"""Draws pictures: plots, panels side by side, and frames that move."""

from __future__ import annotations

import base64
import itertools
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from principia.lab.figures.look import OTHERS, axis_of, color_of, look
from principia.lab.figures.marks import Trace, played, rule_trace, traces
from principia.lab.pictures.marks import Graph, Image, Matrix, Rule, Sound, Words
from principia.lab.pictures.picture import Frames, Panels, Picture, Plot

__all__ = ["draw", "drawn"]

ROW, LOW = {1: 380, 2: 280}, 230  # pixels of a row of panels, by how many there are; of more
FRAME = 90  # milliseconds
SLIDER, LEGEND = 70, 30  # pixels below the axes
BARE = (Image, Matrix, Words, Graph)  # whose axes have no numbers to read, but for names of cells
LISTED = ("scatter", "scatter3d", "bar")  # kinds of traces that a legend names
FLUENT = {"scatter"}  # kinds of traces that move without everything being drawn anew
BEYOND = 0.05  # of the span of an axis that does not move, free on both sides
SHORT = 24  # numbers that are written as such; longer arrays travel packed

Spec = dict[str, Any]  # a figure in Plotly's own form
Made = list[tuple[Any, list[Trace]]]  # marks of a plot with their traces; rules have none yet
Reach = dict[str, np.ndarray]  # the finite numbers that stand on each axis


def draw(picture: Picture) -> go.Figure:
    """Draw a picture.

    Example:
        >>> from principia.lab.pictures import Frames, Plot, Series
        >>> steps = [Plot((Series("ball", [x], [x * x]),), x="x", y="y") for x in (2.0, 1.0, 0.0)]
        >>> len(draw(Frames("step", (0, 1, 2), tuple(steps))).frames)
        3
    """
    return go.Figure(_spec(picture))


def drawn(picture: Picture) -> Spec:
    """Draw a picture as plain JSON, for a browser: many times faster, but not checked by Plotly."""
    return json.loads(json.dumps(_packed(_spec(picture)), allow_nan=False))


def _packed(value: Any) -> Any:
    """Turn arrays into what Plotly's script unpacks; a number that JSON lacks is missing."""
    if isinstance(value, dict):
        return {name: _packed(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_packed(one) for one in value]
    if isinstance(value, np.ndarray):
        if value.size <= SHORT or value.dtype.kind not in "fiu":
            return _packed(value.tolist())
        kind = f"{value.dtype.kind}{value.dtype.itemsize}"
        code = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {"dtype": kind, "bdata": code, "shape": ", ".join(map(str, value.shape))}
    if isinstance(value, np.generic):
        return _packed(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _spec(picture: Picture) -> Spec:
    if isinstance(picture, Frames):
        return _moving(picture)
    panels = picture if isinstance(picture, Panels) else Panels((picture,))
    made = [_made(plot) for plot in panels.plots]
    return _still(panels, made, [_reach([one]) for one in made])


def _made(plot: Plot) -> Made:
    others = itertools.cycle(OTHERS)
    made = []
    for mark in plot.series:
        role = getattr(mark, "role", "")
        color = next(others) if role == "other" else color_of(role)
        rule = isinstance(mark, Rule)
        made.append((mark, [] if rule else traces(mark, color)))
    return made


def _still(
    panels: Panels, made: Sequence[Made], reaches: Sequence[Reach], *, turned: bool = False
) -> Spec:
    """Draw plots side by side.

    Args:
        panels: The plots.
        made: Their traces.
        reaches: The numbers that decide where the axes of each end.
        turned: Whether the axes stand still while what is on them moves.
    """
    height = ROW.get(panels.height, LOW) * panels.height
    layout, domains = look(height), _domains(panels, height)
    data: list[Trace] = []
    told: set[str] = set()  # a name stands in the legend once
    for place, (plot, domain) in enumerate(zip(panels.plots, domains, strict=True)):
        number = str(place + 1) if place else ""
        if plot.spatial:
            layout[f"scene{number}"] = _scene(plot, reaches[place], domain, turned=turned)
            where = {"scene": f"scene{number}"}
        else:
            across, up = _axes(plot, made[place], reaches[place], turned=turned)
            layout[f"xaxis{number}"] = {**across, "domain": domain[0], "anchor": f"y{number}"}
            layout[f"yaxis{number}"] = {**up, "domain": domain[1], "anchor": f"x{number}"}
            if plot.square:
                layout[f"yaxis{number}"]["scaleanchor"] = f"x{number}"
            where = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        if plot.title:
            layout["annotations"].append(_title(plot.title, domain))
        for trace in _with_rules(plot, made[place], reaches[place]):
            name = trace.get("name", "")
            if trace["type"] in LISTED and trace.get("showlegend", True):
                new = bool(name) and name not in told
                trace = {**trace, "showlegend": new, "legendgroup": name}
                told |= {name} - {""}
            data.append({**trace, **where})
    alone = len(panels.plots) == 1
    layout["showlegend"] = len(told) > 1 and (alone or panels.legend)
    if layout["showlegend"] and not alone:  # titles stand above
        layout["legend"] |= {"yref": "container", "y": 0.0, "yanchor": "bottom"}
        layout["margin"]["b"] += LEGEND
    sounds = [mark for plot in panels.plots for mark in plot.series if isinstance(mark, Sound)]
    meta: dict[str, Any] = {"panels": panels.width}
    if sounds:
        meta["sounds"] = [[one.name, played(one)] for one in sounds]
    layout["meta"] = meta
    return {"data": data, "layout": layout}


Domain = tuple[list[float], list[float]]  # shares of the width and of the height


def _domains(panels: Panels, height: int) -> list[Domain]:
    """Share out the room: between two rows stand numbers and title of an axis, and a title."""
    rows, columns = panels.height, panels.width
    gap = (0.1 if all(plot.bare for plot in panels.plots) else 0.2) / columns
    titled = any(plot.title for plot in panels.plots)
    numbered = any(plot.x and not plot.spatial for plot in panels.plots)
    between = (10 + 25 * titled + 50 * numbered) / height if rows > 1 else 0.0
    wide, tall = (1 - gap * (columns - 1)) / columns, (1 - between * (rows - 1)) / rows
    found = []
    for place in range(len(panels.plots)):
        row, column = divmod(place, columns)
        left, top = column * (wide + gap), 1 - row * (tall + between)
        found.append(([left, left + wide], [max(0.0, top - tall), top]))
    return found


def _title(text: str, domain: Domain) -> dict[str, Any]:
    return {
        "text": text, "x": sum(domain[0]) / 2, "y": domain[1][1], "xref": "paper", "yref": "paper",
        "xanchor": "center", "yanchor": "bottom", "showarrow": False, "font": {"size": 13},
    }


def _with_rules(plot: Plot, made: Made, reach: Reach) -> Iterable[Any]:
    """Give the traces of a plot; a line across all of it needs to know where that ends."""
    for mark, drawn in made:
        if not isinstance(mark, Rule):
            yield from drawn
            continue
        letter, ends = ("x", plot.x_range) if mark.x is None else ("y", plot.y_range)
        values = reach[letter]
        words = [trace[letter] for _, all_ in made for trace in all_ if _has_words(trace, letter)]
        if words:
            ends = words[0][0], words[0][-1]
        elif ends is None:
            ends = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
        yield rule_trace(mark, color_of(mark.role), ends)


def _reach(plots: Iterable[Made]) -> Reach:
    """Collect the finite numbers that stand on each axis of plots that share their axes."""
    found: dict[str, list[np.ndarray]] = {"x": [], "y": [], "z": []}
    for mark, drawn in itertools.chain.from_iterable(plots):
        if isinstance(mark, Rule):
            for letter, value in (("x", mark.x), ("y", mark.y)):
                found[letter] += [] if value is None else [np.array([value])]
        if isinstance(mark, Image):
            left, bottom, right, top = mark.box
            found["x"].append(np.array([left, right]))
            found["y"].append(np.array([bottom, top]))
            continue
        for trace in drawn:
            for letter in found:
                found[letter] += _numbers_of(trace, letter)
    return {letter: np.concatenate([np.empty(0), *lists]) for letter, lists in found.items()}


def _numbers_of(trace: Trace, letter: str) -> list[np.ndarray]:
    """Give the finite numbers of a trace on an axis; words have none."""
    kind, given = trace["type"], trace.get(letter)
    flat = kind in ("heatmap", "contour")
    if letter == "z" and kind not in ("scatter3d", "surface"):
        return []
    if given is None and flat:  # evenly spaced cells, from the middle of the first
        count = np.shape(trace["z"])[0 if letter == "y" else 1]
        first, step = trace.get(f"{letter}0", 0.0), trace.get(f"d{letter}", 1.0)
        return [first + step * np.array([-0.5, count - 0.5])]
    listed = [] if given is None else np.ravel(np.asarray(given, dtype=object)).tolist()
    if any(isinstance(one, str) for one in listed):
        return []
    values = np.array([math.nan if one is None else one for one in listed], dtype=np.float64)
    if kind == "bar" and letter == "y":
        values = np.append(values, 0.0)
    half = trace.get("width") if (kind, letter) == ("bar", "x") else None
    if letter == "y" and trace.get("error_y"):
        half = 2 * np.asarray(trace["error_y"]["array"], dtype=np.float64)
    if half is not None and np.size(half) == values.size:
        room = np.asarray(half, dtype=np.float64) / 2
        values = np.concatenate([values - room, values + room])
    return [values[np.isfinite(values)]]


def _scene(plot: Plot, reach: Reach, domain: Domain, *, turned: bool) -> dict[str, Any]:
    axes = {
        f"{letter}axis": {"title": {"text": getattr(plot, letter)}, "visible": not plot.bare,
                          **_fixed(reach[letter], turned)}
        for letter in "xyz"
    }
    where = {"x": domain[0], "y": domain[1]}
    return {**axes, "domain": where, "aspectmode": "cube" if plot.square else "auto"}


def _axes(plot: Plot, made: Made, reach: Reach, *, turned: bool) -> list[dict[str, Any]]:
    """Describe the horizontal and the vertical axis of a plot."""
    cells = any(isinstance(one, (Image, Matrix, Words)) for one in plot.series)
    colored = any(isinstance(one, Image) and one.colored for one in plot.series)
    named = any(isinstance(one, Matrix) and (one.rows or one.columns) for one in plot.series)
    hidden = plot.bare or (
        not (plot.x or plot.y or named) and any(isinstance(one, BARE) for one in plot.series)
    )
    found = []
    for letter, title, ends in (("x", plot.x, plot.x_range), ("y", plot.y, plot.y_range)):
        log = letter in plot.log
        described = axis_of(title, reach[letter], log=log, ends=ends)
        if turned and "range" not in described:
            described |= _fixed(reach[letter], turned, log=log)
        if colored and "range" not in described:  # or Plotly would turn the axis over
            values = reach[letter]
            described |= {"range": [float(values.min()), float(values.max())]}
        if hidden:
            described |= {"visible": False}
        if cells:
            described |= {"showgrid": False, "zeroline": False}
        if any(_has_words(trace, letter) for _, drawn in made for trace in drawn):
            described |= {"type": "category"}  # also where a word looks like a number
        if plot.square:
            described |= {"constrain": "domain"}
        found.append(described)
    return found


def _has_words(trace: Trace, letter: str) -> bool:
    given = trace.get(letter)
    return isinstance(given, list) and any(isinstance(one, str) for one in given)


def _fixed(values: np.ndarray, turned: bool, *, log: bool = False) -> dict[str, Any]:
    """Hold an axis still while what stands on it moves."""
    values = np.log10(values[values > 0]) if log else values
    if not turned or not values.size:
        return {}
    low, high = float(values.min()), float(values.max())
    room = BEYOND * (high - low) or 0.5 * abs(high) or 1.0
    return {"range": [low - room, high + room]}


def _moving(frames: Frames) -> Spec:
    """Draw all frames on axes that stand still, with a slider and a button that plays them."""
    stills = [one if isinstance(one, Panels) else Panels((one,)) for one in frames.pictures]
    made = [[_made(plot) for plot in one.plots] for one in stills]
    reaches = [_reach(plots) for plots in zip(*made, strict=True)]
    specs = [
        _still(panels, plots, reaches, turned=True)
        for panels, plots in zip(stills, made, strict=True)
    ]
    titles = [one["layout"]["annotations"] for one in specs]
    moving = _moving_traces([one["data"] for one in specs])
    kinds = {trace["type"] for trace in specs[0]["data"]}
    retitled = any(one != titles[0] for one in titles)
    redraw = retitled or not kinds <= FLUENT
    layout = specs[0]["layout"]
    layout |= {
        "sliders": [{
            "active": 0, "x": 0.14, "len": 0.86, "y": 0, "yanchor": "top",
            "pad": {"t": 46, "b": 4}, "currentvalue": {"prefix": f"{frames.parameter}: "},
            "steps": [
                {"label": _named(value), "method": "animate",
                 "args": [[str(place)], pace(0, redraw=redraw)]}
                for place, value in enumerate(frames.values)
            ],
        }],
        "updatemenus": [{
            "type": "buttons", "x": 0.0, "xanchor": "left", "y": 0, "yanchor": "top",
            "pad": {"t": 62}, "showactive": False, "direction": "left",
            "buttons": [
                {"label": "▶", "method": "animate",
                 "args": [None, {**pace(FRAME, redraw=redraw), "fromcurrent": True}]},
                {"label": "❚❚", "method": "animate", "args": [[None], pace(0, redraw=redraw)]},
            ],
        }],
        "height": layout["height"] + SLIDER,
        "margin": {**layout["margin"], "b": layout["margin"]["b"] + SLIDER},
        "showlegend": layout["showlegend"] and len(stills[0].plots) == 1,
        "meta": {**layout["meta"], "redraw": redraw},
    }
    return {
        "data": specs[0]["data"], "layout": layout,
        "frames": [
            {
                "name": str(place), "data": [one["data"][number] for number in moving],
                "traces": moving, **({"layout": {"annotations": title}} if retitled else {}),
            }
            for place, (one, title) in enumerate(zip(specs, titles, strict=True))
        ],
    }


def _moving_traces(data: Sequence[Sequence[Trace]]) -> list[int]:
    """Number the traces that are not the same in all frames: only these travel with each."""
    packed = [[json.dumps(_packed(trace)) for trace in one] for one in data]
    found = [number for number, all_ in enumerate(zip(*packed, strict=True)) if len(set(all_)) > 1]
    return found or [0]


def pace(milliseconds: int, *, redraw: bool) -> dict[str, Any]:
    """Say how fast frames follow each other; what is more than lines must be drawn anew."""
    return {"mode": "immediate", "frame": {"duration": milliseconds, "redraw": redraw},
            "transition": {"duration": 0}}


def _named(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if float(value).is_integer() and math.isfinite(value) else f"{value:.3g}"

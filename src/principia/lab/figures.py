r"""Figures: evidence draws itself, measured against predicted, as Plotly objects.

One look for all: measured is blue, predicted is dark, a bound is a dashed red line. Figures are
interactive in notebooks and on pages, and need no network.
"""

import html
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from principia.lab.evidence.claims import Finding, Observation
from principia.lab.evidence.evidence import Evidence, Plot, Series

__all__ = [
    "confusion", "curves", "draw", "finding_figure", "images", "observation_figure", "predicted",
]

COLORS = {"measured": "#2563eb", "predicted": "#111827", "bound": "#dc2626"}
OTHERS = ("#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#65a30d")
VERDICT_COLORS = {"holds": "#059669", "refuted": "#dc2626"}
MOST_LABELS = 12  # of a legend; beyond that, the pointer tells what a curve is
AXES = ("epoch", "step")  # of a curve; the other numbers of an epoch are its values
FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"


def draw(plot: Plot) -> go.Figure:
    """Draw series on axes."""
    figure = go.Figure()
    for trace in _traces(plot):
        figure.add_trace(trace)
    _dress(figure)
    figure.update_xaxes(title=plot.x, **_axis("x", plot))
    figure.update_yaxes(title=plot.y, **_axis("y", plot))
    return figure


def finding_figure(finding: Finding) -> go.Figure:
    """Draw a claim's measure and its control side by side, for the first seed."""
    figure = make_subplots(
        cols=2,
        subplot_titles=[
            _caption("measure", finding.measures[0]),
            _caption("control", finding.controls[0]),
        ],
        horizontal_spacing=0.12,
    )
    for column, observation in enumerate((finding.measures[0], finding.controls[0]), start=1):
        if observation.evidence is None:
            continue
        plot = _plot_of(observation.evidence)
        for trace in _traces(plot):
            trace.showlegend = column == 1
            figure.add_trace(trace, row=1, col=column)
        figure.update_xaxes(title=plot.x, row=1, col=column, **_axis("x", plot))
        figure.update_yaxes(title=plot.y, row=1, col=column, **_axis("y", plot))
    _dress(figure)
    figure.update_annotations(font={"size": 13})
    return figure


def observation_figure(observation: Observation) -> go.Figure:
    """Draw one observation; one that ended in an error has empty axes."""
    evidence = observation.evidence
    return draw(Plot(()) if evidence is None else _plot_of(evidence))


def images(
    pictures: Sequence[Any], titles: Sequence[str] = (), *, columns: int = 5, signed: bool = False
) -> go.Figure:
    """Draw gray pictures in a grid, each an array (H, W); signed ones in blue and red."""
    columns = min(columns, len(pictures))
    rows = math.ceil(len(pictures) / columns)
    figure = make_subplots(
        rows=rows,
        cols=columns,
        subplot_titles=list(titles) or None,
        horizontal_spacing=0.02,
        vertical_spacing=0.25 / rows if titles else 0.05 / rows,
    )
    for place, picture in enumerate(pictures):
        array = np.asarray(picture, dtype=np.float32)
        reach = float(np.abs(array).max()) or 1.0
        scale: dict[str, Any] = {"colorscale": "Greys", "zmin": float(array.min())}
        if signed:
            scale = {"colorscale": "RdBu", "zmin": -reach, "zmax": reach}
        heat = go.Heatmap(z=np.round(array[::-1], 4).tolist(), showscale=False, **scale)
        figure.add_trace(heat, row=place // columns + 1, col=place % columns + 1)
    _dress(figure)
    figure.update_xaxes(visible=False, constrain="domain")
    figure.update_yaxes(visible=False, constrain="domain")
    figure.update_layout(height=40 + rows * 150)
    for place in range(len(pictures)):  # every picture keeps its own proportions
        axis = "" if place == 0 else str(place + 1)
        figure.layout[f"yaxis{axis}"].scaleanchor = f"x{axis}"
    return figure


def confusion(truth: Any, found: Any, names: Sequence[str]) -> go.Figure:
    """Draw how often each class was taken for each other one: right in gray, wrong in red.

    The names may be a user's: they are text.
    """
    shown = [_as_text(name) for name in names]
    counts = np.zeros((len(names), len(names)))
    np.add.at(counts, (np.asarray(truth), np.asarray(found)), 1)
    right = np.eye(len(names), dtype=bool)
    figure = go.Figure()
    for hidden, scale in ((~right, ["#e5e7eb", "#e5e7eb"]), (right | (counts == 0), "Reds")):
        figure.add_trace(
            go.Heatmap(
                z=np.where(hidden, np.nan, counts), x=shown, y=shown, zmin=0,
                zmax=max(3.0, float(counts[~right].max(initial=0))), colorscale=scale,
                showscale=False, xgap=2, ygap=2, texttemplate="%{z}" if len(names) <= 20 else None,
                hovertemplate="%{y} taken for %{x}: %{z}<extra></extra>",
            )
        )
    _dress(figure)
    figure.update_xaxes(title="answer", type="category", constrain="domain")
    figure.update_yaxes(
        title="truth", type="category", autorange="reversed", scaleanchor="x", constrain="domain"
    )
    figure.update_layout(height=520)
    return figure


def _as_text(name: str) -> str:
    """Write a name so that Plotly sees neither HTML nor mathematics in it."""
    return html.escape(name, quote=False).replace("$", "&#36;")


def predicted(truth: Any, found: Any, name: str) -> go.Figure:
    """Draw predictions against the truth; on the line they are right.

    The name may be a user's: it is text.
    """
    name = _as_text(name)
    truth, found = np.asarray(truth, float), np.asarray(found, float)
    ends = [float(min(truth.min(), found.min())), float(max(truth.max(), found.max()))]
    plot = Plot(
        (
            Series("test rows", truth.tolist(), found.tolist(), style="points"),
            Series("right", ends, ends, "predicted", "line"),
        ),
        x=f"{name}, true", y=f"{name}, predicted",
    )
    return draw(plot)


def curves(trainings: Mapping[str, Sequence[Mapping[str, float]]]) -> go.Figure | None:
    """Draw the numbers of trainings over their epochs, dotted where they are of validation data.

    A training of a single epoch has no curve.
    """
    trainings = {name: history for name, history in trainings.items() if len(history) > 1}
    rows = [row for history in trainings.values() for row in history]
    names = list(dict.fromkeys(name for row in rows for name in row if name not in AXES))
    if not names:
        return None
    base = {name: name.removeprefix("validation_") for name in names}
    panels = list(dict.fromkeys(base.values()))
    held_out = {base[name] for name in names if name != base[name]}
    titles = [f"{one}{' (dotted: validation)' if one in held_out else ''}" for one in panels]
    figure = make_subplots(
        cols=len(panels), subplot_titles=[one.replace("_", " ") for one in titles],
        horizontal_spacing=0.1,
    )
    colors = itertools.cycle((COLORS["measured"], *OTHERS))
    for training, history in trainings.items():
        color, label = next(colors), training or "training"
        for place, name in enumerate(names):
            points = [(row["epoch"], row[name]) for row in history if name in row]
            line = {"color": color, "dash": "solid" if name == base[name] else "dot", "width": 2}
            figure.add_trace(
                go.Scatter(
                    x=[one for one, _ in points], y=[value for _, value in points], name=label,
                    legendgroup=label, line=line, showlegend=place == 0,
                    mode="lines+markers" if len(points) < 30 else "lines",
                ),
                row=1, col=panels.index(base[name]) + 1,
            )
    _dress(figure)
    figure.update_xaxes(title="epoch")
    figure.update_annotations(font={"size": 13})
    figure.update_layout(showlegend=1 < len(trainings) <= MOST_LABELS)  # more hide the curves
    return figure


def _plot_of(evidence: Evidence) -> Plot:
    """Take the evidence's own plot, or draw the numbers themselves as bars."""
    if evidence.plot is not None:
        return evidence.plot
    leaves = [leaf for _, leaf in evidence.leaves]
    names = [name or "value" for name, _ in evidence.leaves]
    return Plot(
        (
            Series("measured", names, [leaf.measured for leaf in leaves], style="bars"),
            Series("expected", names, [leaf.expected for leaf in leaves], "predicted", "points"),
        ),
        y="value",
    )


def _traces(plot: Plot) -> list[Any]:
    drawn, others = [], itertools.cycle(OTHERS)
    for series in plot.series:
        data = series.to_json()
        color = COLORS.get(series.role) or next(others)
        bars = data.get("error")
        error = {"type": "data", "array": bars, "thickness": 1} if bars is not None else None
        shared = {"name": series.name, "x": data["x"], "y": data["y"]}
        if data["style"] == "bars":
            drawn.append(go.Bar(**shared, marker_color=color, error_y=error, opacity=0.85))
            continue
        line = {"color": color, "width": 2, "shape": "hv" if data["style"] == "steps" else "linear"}
        if series.role == "bound":
            line["dash"] = "dash"
        points = data["style"] == "points"
        drawn.append(
            go.Scatter(
                **shared,
                mode="markers" if points else "lines",
                marker={"color": color, "size": 7, "opacity": 0.8},
                line=line,
                error_y=error,
            )
        )
    return drawn


def _axis(letter: str, plot: Plot) -> dict[str, Any]:
    if letter not in plot.log:
        return {}
    return {"type": "log", "exponentformat": "power"}


def _caption(what: str, observation: Observation) -> str:
    color = VERDICT_COLORS.get(observation.verdict, "#d97706")
    return f"{what}: <b style='color:{color}'>{observation.verdict}</b>"


def _dress(figure: go.Figure) -> None:
    figure.update_layout(
        template="plotly_white",
        font={"family": FONT, "size": 13},
        margin={"l": 60, "r": 20, "t": 50, "b": 55},
        height=380,
        legend={"orientation": "h", "y": -0.25},
        hovermode="closest",
    )

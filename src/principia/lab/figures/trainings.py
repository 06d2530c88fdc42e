r"""What trainings leave, drawn: learning curves, confusions, predictions, rows of pictures."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from principia.lab.figures.drawing import draw
from principia.lab.figures.look import COLORS, OTHERS, as_text, dress
from principia.lab.pictures.marks import Series
from principia.lab.pictures.picture import Plot, grid

__all__ = ["confusion", "curves", "images", "predicted"]

MOST_LABELS = 12  # of a legend; beyond that, the pointer tells what a curve is
AXES = ("epoch", "step")  # of a curve; the other numbers of an epoch are its values


def images(
    pictures: Sequence[Any], titles: Sequence[str] = (), *, columns: int = 5, signed: bool = False
) -> go.Figure:
    """Draw gray pictures in a grid, each an array (H, W); signed ones in blue and red."""
    return draw(grid(pictures, titles, columns=columns, signed=signed))


def confusion(truth: Any, found: Any, names: Sequence[str]) -> go.Figure:
    """Draw how often each class was taken for each other one: right in gray, wrong in red.

    The names may be a user's: they are text.
    """
    shown = [as_text(name) for name in names]
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
    dress(figure)
    figure.update_xaxes(title="answer", type="category", constrain="domain")
    figure.update_yaxes(
        title="truth", type="category", autorange="reversed", scaleanchor="x", constrain="domain"
    )
    figure.update_layout(height=520)
    return figure


def predicted(truth: Any, found: Any, name: str) -> go.Figure:
    """Draw predictions against the truth; on the line they are right.

    The name may be a user's: it is text.
    """
    name = as_text(name)
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
    dress(figure)
    figure.update_xaxes(title="epoch")
    figure.update_annotations(font={"size": 13})
    figure.update_layout(showlegend=1 < len(trainings) <= MOST_LABELS)  # more hide the curves
    return figure

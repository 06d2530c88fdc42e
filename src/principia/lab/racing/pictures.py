"""Shows what races measured: as a table of ratios, and as curves of cost over size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from principia.lab.evidence.evidence import Plot, Series
from principia.lab.figures import draw
from principia.lab.racing import results
from principia.lab.racing.races import OURS

__all__ = ["ratio_table", "scaling", "standing"]


def ratio_table(
    key: str, row: Mapping[str, Any]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Give the columns and lines of a race's table: every peer at every size."""
    columns = ("against", row["unit"], "ratio of CPU time", "ratio of wall time",
               "CPU seconds, theirs / ours", "memory, theirs / ours", "results agree")
    lines = [
        (one.peer, f"{one.size:,}", results.spread_text(one.cpu), results.spread_text(one.wall),
         f"{one.theirs['cpu']:.3g} / {one.ours['cpu']:.3g}", results.memory_text(one),
         one.theirs["agreement"])
        for one in results.ratios(key, row)
    ]
    return columns, lines


def scaling(row: Mapping[str, Any]) -> go.Figure | None:
    """Draw the CPU time of every side over the size; the fitted exponent stands in the legend.

    A race of a single size has no curve.
    """
    if len(row["sizes"]) < 2:
        return None
    series = []
    for name, exponent in row["growth"].items():
        points = [(one["size"], one["sides"][name]["cpu"]) for one in row["sizes"]
                  if "cpu" in one["sides"].get(name, {})]
        if points:
            sizes, costs = zip(*points, strict=True)
            label = name if exponent is None else f"{name}, exponent {exponent:.2f}"
            role = "measured" if name == OURS else "other"
            series.append(Series(label, sizes, costs, role, "line"))
    figure = draw(Plot(tuple(series), x=row["unit"], y="CPU seconds a call", log="xy"))
    figure.update_traces(mode="lines+markers")
    places = [one["size"] for one in row["sizes"]]
    figure.update_xaxes(tickvals=places, ticktext=[f"{one:,}" for one in places])
    figure.update_layout(legend={"y": -0.3})
    return figure


def standing(key: str, row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Give the worst ratio at the smallest and at the largest size, and how we stand in all."""
    if any(not side.get("agrees", True) for one in row["sizes"] for side in one["sides"].values()):
        return "", "", "other work"
    found = list(results.ratios(key, row))
    if not found:
        return "", "", "not raced"
    ends = []
    for size in (found[0].size, found[-1].size):
        worst = min((one for one in found if one.size == size), key=lambda one: one.cpu["ratio"])
        ends.append(f"{results.spread_text(worst.cpu)} {worst.peer}")
    verdicts = {one.verdict for one in found}
    if {"slower", "faster"} <= verdicts:
        return ends[0], ends[1], "mixed"
    return ends[0], ends[1], next(one for one in ("slower", "even", "faster") if one in verdicts)

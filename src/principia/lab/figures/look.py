r"""The one look of all figures: colors by role, letters, margins, axes that do not lie."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import plotly.graph_objects as go

__all__ = [
    "CLASSES", "COLORS", "OTHERS", "VERDICT_COLORS", "as_text", "axis_of", "color_of", "dress",
    "look",
]

COLORS = {
    "measured": "#2563eb", "predicted": "#111827", "bound": "#dc2626",
    "blue": "#2563eb", "ink": "#111827", "red": "#dc2626", "green": "#059669",
    "orange": "#d97706", "purple": "#7c3aed", "teal": "#0891b2", "pink": "#be185d",
    "lime": "#65a30d", "gray": "#94a3b8",
}
OTHERS = ("#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#65a30d")
CLASSES = (  # of maps and polygons: light enough for points and letters upon them
    "#93c5fd", "#fdba74", "#86efac", "#f9a8d4", "#c4b5fd", "#fde047", "#67e8f9", "#fca5a5",
    "#bef264", "#d6d3d1", "#a5b4fc", "#5eead4",
)
VERDICT_COLORS = {"holds": "#059669", "refuted": "#dc2626"}
FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"
CONSTANT = 1e-9  # an axis that spans less of its values would show rounding


def color_of(role: str) -> str:
    """Give the color of a role, or of a name."""
    return COLORS.get(role, OTHERS[0])


def as_text(name: str) -> str:
    """Write a name so that Plotly sees neither HTML nor mathematics in it."""
    return html.escape(name, quote=False).replace("$", "&#36;")


def axis_of(title: str, values: np.ndarray, *, log: bool, ends: Any = None) -> dict[str, Any]:
    """Describe an axis by the numbers that stand on it: a constant is drawn as a constant.

    Args:
        title: What it shows.
        values: All its finite numbers.
        log: Whether it is logarithmic.
        ends: Where it begins and ends, if that is chosen.
    """
    described: dict[str, Any] = {
        "title": {"text": title, "font": {"size": 13}, "standoff": 8}, "exponentformat": "power",
    }
    if log:
        described["type"] = "log"
        values = values[values > 0]
    if ends is not None:
        described["range"] = [float(one) for one in (np.log10(ends) if log else ends)]
        return described
    if not values.size:
        return described
    low, high = float(values.min()), float(values.max())
    size = max(abs(low), abs(high))
    if high - low <= CONSTANT * size or size < 1e-300:
        room = 0.5 * size or 1.0
        described["range"] = (
            [float(np.log10(size)) - 1, float(np.log10(size)) + 1] if log
            else [low - room, high + room]
        )
        if high > low:
            described["title"]["text"] = f"{title} (constant to {high - low:.1g})"
    return described


def look(height: int = 380) -> dict[str, Any]:
    """Give the layout that all figures have."""
    return {
        "template": "plotly_white", "font": {"family": FONT, "size": 13}, "height": height,
        "margin": {"l": 60, "r": 20, "t": 40, "b": 55}, "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "barmode": "overlay", "annotations": [],
    }


def dress(figure: go.Figure, height: int = 380) -> go.Figure:
    """Give a figure that was made elsewhere the look of the house."""
    own = look(height)
    del own["annotations"], own["barmode"]  # it has its own
    return figure.update_layout(own)

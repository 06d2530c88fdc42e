"""What a figure must fulfil to teach something: no lone dot, no rounding, words on every axis."""

import numpy as np

from principia.lab.figures import drawn
from principia.lab.figures.look import CONSTANT
from principia.lab.pictures import Frames, Graph, Image, Matrix, Panels, Plot, Words

CELLS = (Graph, Image, Matrix, Words)  # whose places are not numbers to read


def plots_of(picture):
    """Give the plots of a picture; of one that moves, those of the last frame."""
    if isinstance(picture, Frames):
        picture = picture.pictures[-1]
    return picture.plots if isinstance(picture, Panels) else (picture,)


def complaints(picture):
    """Tell what is wrong with a picture, in sentences."""
    found = []
    for number, plot in enumerate(plots_of(picture), start=1):
        found += [f"plot {number} {one}" for one in _of_plot(plot)]
    return found


def _of_plot(plot):
    if not plot.series:
        yield "shows nothing"
    if not (plot.bare or plot.spatial or any(isinstance(one, CELLS) for one in plot.series)):
        for letter in "xy":
            words = getattr(plot, letter)
            if not words or words == "value":
                yield f"has no words for its {letter} axis, but {words!r}"
    spec = drawn(Plot(plot.series, plot.x or "x", plot.y or "y", plot.log))
    places = set()
    for trace in spec["data"]:
        if trace["type"] not in ("scatter", "bar"):
            places |= {0, 1}  # a field, a cloud or cells: more than a dot
            continue
        x, y = (unpacked(trace.get(letter)) for letter in "xy")
        places |= {(str(one), str(other)) for one, other in zip(x, y, strict=False)}
        places |= {"up", "down"} if trace["type"] == "bar" else set()
    if len(places) < 2:
        yield f"has one point alone, {places}"
    for name, axis in spec["layout"].items():
        if name[1:].startswith("axis") and "range" in axis and axis.get("type") != "log":
            low, high = axis["range"]
            if high - low <= CONSTANT * max(abs(low), abs(high)):
                yield f"zooms into rounding on its {name[0]} axis"


def unpacked(values):
    """Read the numbers of a trace, packed or not."""
    if isinstance(values, dict):
        import base64

        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"]).tolist()
    return [] if values is None else values

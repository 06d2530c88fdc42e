r"""Evidence draws itself: its own picture, or what was measured beside what was expected."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from principia.lab.course.formula import prose_to_unicode
from principia.lab.figures.drawing import draw
from principia.lab.figures.look import VERDICT_COLORS, as_text
from principia.lab.pictures.marks import Series
from principia.lab.pictures.picture import Frames, Panels, Picture, Plot

if TYPE_CHECKING:
    from principia.lab.evidence.claims import Finding, Observation
    from principia.lab.evidence.evidence import Evidence
    from principia.lab.heroes import Hero

__all__ = [
    "finding_figure", "hero_figure", "observation_figure", "observation_picture",
    "picture_of",
]

LINE = 90  # letters of the sentence above a hero


def finding_figure(finding: Finding) -> go.Figure:
    """Draw a claim's measure and its first control side by side, for the first seed."""
    both = ("measure", finding.measures[0]), ("control", finding.controls[0])
    return draw(_beside([_titled(*one) for one in both]))


def observation_figure(observation: Observation) -> go.Figure:
    """Draw one observation; one that ended in an error has empty axes."""
    return draw(observation_picture(observation))


def observation_picture(observation: Observation) -> Picture:
    """Give what one observation shows."""
    return Plot(()) if observation.evidence is None else picture_of(observation.evidence)


def picture_of(evidence: Evidence) -> Picture:
    """Take the evidence's own picture, or its numbers beside those that were expected."""
    if evidence.plot is not None:
        return evidence.plot
    names = [name or evidence.name or "number" for name, _ in evidence.leaves]
    leaves = [leaf for _, leaf in evidence.leaves]
    return Plot(
        (
            Series("measured", names, [leaf.measured for leaf in leaves], style="bars"),
            Series("expected", names, [leaf.expected for leaf in leaves], "predicted", "points"),
        ),
        x="what was measured", y="number",
    )


def hero_figure(hero: Hero, *, recorded: bool = True, **knobs: Any) -> go.Figure:
    """Draw the hero of a page under its sentence, once or for every value of its moving knob."""
    picture = hero.recording(**knobs) if recorded else hero.picture(**knobs)
    lines = textwrap.wrap(as_text(prose_to_unicode(hero.statement)), LINE)
    figure, room = draw(picture), 20 * len(lines) + 16
    figure.update_layout(
        title={"text": "<br>".join(lines), "font": {"size": 15}, "x": 0, "xref": "container",
               "y": 1, "yref": "container", "yanchor": "top", "pad": {"t": 10, "l": 12},
               "automargin": False},
        margin={"t": figure.layout.margin.t + room}, height=figure.layout.height + room,
    )
    return figure


def _titled(what: str, observation: Observation) -> Picture:
    """Put the verdict above a picture."""
    color = VERDICT_COLORS.get(observation.verdict, "#d97706")
    caption = f"{what}: <b style='color:{color}'>{observation.verdict}</b>"
    picture = observation_picture(observation)
    if isinstance(picture, Frames):
        return replace(picture, pictures=tuple(_headed(one, caption) for one in picture.pictures))
    return _headed(picture, caption)


def _headed(picture: Plot | Panels, caption: str) -> Plot | Panels:
    if isinstance(picture, Plot):
        return replace(picture, title=caption)
    plots = [replace(one, title=f"{caption}, {one.title}".removesuffix(", "))
             for one in picture.plots]
    return replace(picture, plots=tuple(plots))


def _beside(pictures: list[Picture]) -> Picture:
    """Put measure and control beside each other; two that move do so together, if they can."""
    moving = [one for one in pictures if isinstance(one, Frames)]
    if len(moving) == len(pictures) and len({one.values for one in moving}) == 1:
        frames = zip(*(one.pictures for one in moving), strict=True)
        return replace(moving[0], pictures=tuple(_panels(list(each)) for each in frames))
    return _panels([one.pictures[-1] if isinstance(one, Frames) else one for one in pictures])


def _panels(pictures: list[Plot | Panels]) -> Panels:
    rows = [one.plots if isinstance(one, Panels) else (one,) for one in pictures]
    widest = max(len(row) for row in rows)
    plots = tuple(plot for row in rows for plot in row)
    return Panels(plots, columns=2 if widest == 1 else widest, legend=True)

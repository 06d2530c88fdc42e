r"""Heroes: one moving picture a page, which makes its idea understood in ten seconds.

A page declares its hero among its experiments: a function of a seed and bounded knobs that gives a
picture. One of the knobs is time, or what stands for it (`moves=`): turning it from one end to the
other makes the frames, so that a picture that can be drawn can be recorded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from principia.lab.course.rooms import page_key
from principia.lab.params import (
    Choice,
    Knob,
    Range,
    Switch,
    UsageError,
    knobs_of,
    settings,
    text_of,
    usage_error,
)
from principia.lab.pictures.picture import Frames, Panels, Plot
from principia.lab.seeds import Seed

__all__ = ["MOST_FRAMES", "Hero", "hero"]

MOST_FRAMES = 30  # of a recording
LOG_FROM = 50.0  # a knob whose ends differ by this factor moves in equal ratios


@final
@dataclass(frozen=True, repr=False)
class Hero:
    """The picture of a page, the knob that moves it, and how many frames a recording has."""

    function: Callable[..., Plot | Panels]
    moves: str
    frames: int = MOST_FRAMES

    def __post_init__(self) -> None:
        """Let `help` tell what it shows."""
        object.__setattr__(self, "__doc__", inspect.getdoc(self.function))

    def __repr__(self) -> str:
        """Give the key."""
        return f"<Hero {self.key}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Play it in a notebook."""
        from principia.lab.notebooks import hero_bundle

        return hero_bundle(self)

    @property
    def name(self) -> str:
        """The name of the picture."""
        return self.function.__name__.removesuffix("_hero")

    @property
    def page(self) -> str:
        """The key of the page that it opens."""
        return page_key(self.function.__module__)

    @property
    def key(self) -> str:
        """Page and name: `connectionism/hopfield:valleys`."""
        return f"{self.page}:{self.name}"

    @property
    def statement(self) -> str:
        """What one understands when one has seen it: the first paragraph of the docstring."""
        return " ".join((inspect.getdoc(self.function) or "").split("\n\n")[0].split())

    @property
    def knobs(self) -> Mapping[str, Knob]:
        """What can be turned, by name."""
        return knobs_of(self.function)

    def chosen(self, knobs: Mapping[str, Any]) -> dict[str, Any]:
        """Give the value of every knob where some are turned; bad ones are refused."""
        defaults = {name: knob.default for name, knob in self.knobs.items()}
        return {**defaults, **settings(self.key, self.knobs, knobs)}

    def picture(self, seed: int = 0, /, **knobs: Any) -> Plot | Panels:
        """Draw it once."""
        drawn = self.function(Seed(seed), **self.chosen(knobs))
        if not isinstance(drawn, (Plot, Panels)):
            raise usage_error(self.key, "its result", "a Plot or Panels", drawn)
        return drawn

    def path(self) -> tuple[Any, ...]:
        """Give the values through which the moving knob goes."""
        domain = self.knobs[self.moves].domain
        if isinstance(domain, Choice):
            return tuple(domain.options)
        if isinstance(domain, Switch):
            return False, True
        if not isinstance(domain, Range) or not np.isfinite([domain.low, domain.high]).all():
            raise usage_error(self.key, "moves", "a knob with two ends, or with options",
                              self.moves)
        if domain.kind is int:
            count = min(self.frames, int(domain.high) - int(domain.low) + 1)
            return tuple(np.linspace(domain.low, domain.high, count).round().astype(int).tolist())
        ratio = domain.low > 0 and domain.high / domain.low >= LOG_FROM
        spaced = np.geomspace if ratio else np.linspace
        return tuple(float(f"{one:.3g}") for one in spaced(domain.low, domain.high, self.frames))

    def recording(self, seed: int = 0, /, **knobs: Any) -> Frames:
        """Draw it for every value of the moving knob."""
        values = self.path()
        stills = tuple(self.picture(seed, **{**knobs, self.moves: one}) for one in values)
        shown = tuple(text_of(one) for one in values)
        return Frames(self.moves.replace("_", " "), shown, stills)


def hero(
    *, moves: str, frames: int = MOST_FRAMES
) -> Callable[[Callable[..., Plot | Panels]], Hero]:
    """Declare the decorated function as the hero of its page.

    Args:
        moves: The knob that plays by itself, from its least to its largest value.
        frames: How many frames a recording has at most.
    """

    def declare(function: Callable[..., Plot | Panels]) -> Hero:
        if moves not in inspect.signature(function).parameters:
            raise UsageError(
                f"hero: moves must be a knob of {function.__name__}; got {moves!r}."
            )
        return Hero(function, moves, frames)

    return declare

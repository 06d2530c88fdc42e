r"""Parts that pages offer to every training: `principia run PAGE --set max_norm.bound=3`.

A page declares how its part is built with `@part()`; whoever turns one of its knobs, named
`part.knob`, on the command line or in the browser, adds the part to each training of the run.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

from principia.lab import catalog
from principia.lab.domains import Maybe
from principia.lab.errors import UsageError
from principia.lab.experiments import Run
from principia.lab.knobs import REQUIRED, Knob, knobs_of, settings
from principia.lab.rooms import page_key
from principia.lab.training.parts import Part

__all__ = ["Offer", "added_parts", "of_parts", "offers", "part", "settings_with_parts"]

log = logging.getLogger("principia.training")


@final
@dataclass(frozen=True)
class Offer:
    """A function that builds a part for a run, declared on its page."""

    function: Callable[..., Part]

    @property
    def name(self) -> str:
        """The name of the part."""
        return self.function.__name__.removesuffix("_part")

    @property
    def page(self) -> str:
        """The key of the page that declares it."""
        return page_key(self.function.__module__)

    @property
    def statement(self) -> str:
        """What it does, in words: the first paragraph of the docstring."""
        return " ".join((inspect.getdoc(self.function) or "").split("\n\n")[0].split())

    @functools.cached_property
    def knobs(self) -> Mapping[str, Knob]:
        """What can be turned, as `part.knob`; the part is added when one of them is not none."""
        return {
            f"{self.name}.{one.name}": Knob(
                f"{self.name}.{one.name}",
                one.domain if isinstance(one.domain, Maybe) else Maybe(one.domain), None,
                one.help.rstrip(".") + (f"; by default {one.default}" if one.default else "") + ".",
            )
            for one in knobs_of(self.function).values()
        }

    def build(self, run: Run, chosen: Mapping[str, Any]) -> Part:
        """Build the part from those of its knobs that were turned, by their short names."""
        return self.function(run, **chosen)


def part() -> Callable[[Callable[..., Part]], Offer]:
    """Declare the decorated function, `(run, *, knobs) -> Part`, as an offer of its page."""

    def declare(function: Callable[..., Part]) -> Offer:
        offer = Offer(function)
        required = [one.name for one in knobs_of(function).values() if one.default is REQUIRED]
        if required or not offer.statement:
            raise UsageError(
                f"part: {offer.name} must have a docstring and a default for every knob; got "
                f"{', '.join(required) or 'no docstring'}."
            )
        return offer

    return declare


@functools.cache
def offers() -> Mapping[str, Offer]:
    """Find the parts that the pages offer, in the order of the course."""
    found: dict[str, Offer] = {}
    for page in [one for chapter in catalog.chapters() for one in chapter.pages]:
        if not page.part_names:
            continue
        try:
            module = page.load("experiments")
        except Exception as error:  # of somebody else's chapter: `principia doctor` tells it
            log.warning("%s cannot be loaded: %s: %s", page.key, type(error).__name__, error)
            continue
        found |= {one.name: one for one in vars(module).values() if _own(one, page)}
    return found


def _own(thing: Any, page: catalog.Page) -> bool:
    return isinstance(thing, Offer) and thing.page == page.key


def settings_with_parts(
    owner: str, knobs: Mapping[str, Knob], pairs: Mapping[str, Any]
) -> dict[str, Any]:
    """Read `--set` pairs like `settings`; those with a dot in their names are knobs of parts."""
    own = {name: value for name, value in pairs.items() if "." not in name}
    rest = {name: value for name, value in pairs.items() if "." in name}
    chosen = settings(owner, knobs, own)
    if rest:
        offered = {name: one for offer in offers().values() for name, one in offer.knobs.items()}
        chosen |= settings(owner, offered, rest)
    return chosen


def of_parts(knobs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Collect the knobs of parts by part; those of an experiment have no dot in their names.

    Example:
        >>> of_parts({"steps": 10, "max_norm.bound": 3.0, "input_noise.sigma": None})
        {'max_norm': {'bound': 3.0}}
    """
    found: dict[str, dict[str, Any]] = {}
    for name, value in knobs.items():
        owner, dot, knob = name.partition(".")
        if dot and value is not None:
            found.setdefault(owner, {})[knob] = value
    return found


def added_parts(run: Run, knobs: Mapping[str, Any]) -> Callable[[], Iterable[Part]]:
    """Give a function that builds the parts that knobs ask for, new for each training."""
    chosen = of_parts(knobs)
    return lambda: [offers()[name].build(run, its) for name, its in chosen.items()]

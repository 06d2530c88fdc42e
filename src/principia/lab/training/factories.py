r"""Callbacks that pages offer to every training: `principia run PAGE --set max_norm.bound=3`.

A page declares how its callback is built with `@callback()`; whoever turns one of its knobs, named
`callback.knob`, on the command line or in the browser, adds it to each training of the run.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

from principia.lab.course import catalog
from principia.lab.course.rooms import page_key
from principia.lab.params import REQUIRED, Knob, Maybe, UsageError, knobs_of, settings
from principia.lab.runs.experiments import Run
from principia.lab.training.callbacks import Callback

__all__ = [
    "CallbackFactory", "added_callbacks", "callback", "callback_factories", "callback_knobs",
    "settings_with_callbacks",
]

log = logging.getLogger("principia.training")


@final
@dataclass(frozen=True)
class CallbackFactory:
    """A function that builds a callback for a run, declared on its page."""

    function: Callable[..., Callback]

    @property
    def name(self) -> str:
        """The name of the callback."""
        return self.function.__name__.removesuffix("_callback")

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
        """What can be turned, as `callback.knob`; it is added when one of them is not none."""
        return {
            f"{self.name}.{one.name}": Knob(
                f"{self.name}.{one.name}",
                one.domain if isinstance(one.domain, Maybe) else Maybe(one.domain), None,
                one.help.rstrip(".") + (f"; by default {one.default}" if one.default else "") + ".",
            )
            for one in knobs_of(self.function).values()
        }

    def build(self, run: Run, chosen: Mapping[str, Any]) -> Callback:
        """Build the callback from those of its knobs that were turned, by their short names."""
        return self.function(run, **chosen)


def callback() -> Callable[[Callable[..., Callback]], CallbackFactory]:
    """Declare the decorated function, `(run, *, knobs) -> Callback`, as an offer of its page."""

    def declare(function: Callable[..., Callback]) -> CallbackFactory:
        factory = CallbackFactory(function)
        required = [one.name for one in knobs_of(function).values() if one.default is REQUIRED]
        if required or not factory.statement:
            raise UsageError(
                f"callback: {factory.name} must have a docstring and a default for every knob; got "
                f"{', '.join(required) or 'no docstring'}."
            )
        return factory

    return declare


@functools.cache
def callback_factories() -> Mapping[str, CallbackFactory]:
    """Find the callbacks that the pages offer, in the order of the course."""
    found: dict[str, CallbackFactory] = {}
    for page in [one for chapter in catalog.chapters() for one in chapter.pages]:
        if not page.callback_names:
            continue
        try:
            module = page.load("experiments")
        except Exception as error:  # of somebody else's chapter: `principia doctor` tells it
            log.warning("%s cannot be loaded: %s: %s", page.key, type(error).__name__, error)
            continue
        found |= {one.name: one for one in vars(module).values() if _own(one, page)}
    return found


def _own(thing: Any, page: catalog.Page) -> bool:
    return isinstance(thing, CallbackFactory) and thing.page == page.key


def settings_with_callbacks(
    owner: str, knobs: Mapping[str, Knob], pairs: Mapping[str, Any], *, trains: bool = True
) -> dict[str, Any]:
    """Read `--set` pairs like `settings`; a dot in a name means the knob of a callback.

    Args:
        owner: Who is asked, for errors.
        knobs: What can be turned in it.
        pairs: What is turned, as it was typed.
        trains: Whether it uses the training loop; if not, callbacks are refused.
    """
    own = {name: value for name, value in pairs.items() if "." not in name}
    rest = {name: value for name, value in pairs.items() if "." in name}
    chosen = settings(owner, knobs, own)
    if rest:
        offered: dict[str, Knob] = {}
        for factory in callback_factories().values():
            offered |= factory.knobs
        chosen |= settings(owner, offered, rest)
        if not trains:
            raise UsageError(
                f"run: {owner} trains nothing by the training loop, so that callbacks change "
                f"nothing. Leave out {', '.join(rest)}."
            )
    return chosen


def callback_knobs(knobs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Collect the knobs of callbacks by name; those of an experiment have no dot in their names.

    Example:
        >>> callback_knobs({"steps": 10, "max_norm.bound": 3.0, "input_noise.sigma": None})
        {'max_norm': {'bound': 3.0}}
    """
    found: dict[str, dict[str, Any]] = {}
    for name, value in knobs.items():
        owner, dot, knob = name.partition(".")
        if dot and value is not None:
            found.setdefault(owner, {})[knob] = value
    return found


def added_callbacks(run: Run, knobs: Mapping[str, Any]) -> Callable[[], Iterable[Callback]]:
    """Give a function that builds the callbacks that knobs ask for, new for each training."""
    asked = {name: value for name, value in knobs.items() if "." in name}
    chosen = callback_knobs(settings_with_callbacks("run", {}, asked))
    return lambda: [callback_factories()[name].build(run, its) for name, its in chosen.items()]

r"""Experiments: train or run a component on data and reach a figure that somebody published.

At `budget="full"` an experiment must reach `reaches`; at `budget="quick"` it must beat `floor`
within seconds, and that is what the tests run.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, final

from principia.lab.course.rooms import page_key
from principia.lab.params import Knob, Range, UsageError, knobs_of, settings, usage_error
from principia.lab.runs.folders import RunFolder
from principia.lab.seeds import Seed

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from principia.lab.pictures.picture import Picture

__all__ = [
    "Budget", "Experiment", "Outcome", "Run", "at_least_goal", "at_most_goal", "experiment",
]

Budget = Literal["quick", "full"]
Item = TypeVar("Item")


def at_least_goal(value: float) -> Range:
    """Name the goal of an experiment that must reach `value` or more."""
    return Range(value, math.inf)


def at_most_goal(value: float) -> Range:
    """Name the goal of an experiment that must stay at `value` or below."""
    return Range(-math.inf, value)


Advance = Callable[..., None]  # advance(text, by=1): what is done now, and how much more it is


def _unwatched(total: int, what: str) -> AbstractContextManager[Advance]:
    return contextlib.nullcontext(lambda text, by=1: None)


@final
@dataclass
class Run:
    """What an experiment gets: its seed, its budget, and a place for what it finds.

    With a `folder`, whatever it logs, draws and trains is written there as soon as it is known.
    """

    seed: Seed = field(default_factory=lambda: Seed(0))
    budget: Budget = "quick"
    data_dir: Path | None = None
    say: Callable[[str], None] = lambda text: None
    watch: Callable[[int, str], AbstractContextManager[Advance]] = _unwatched
    device: str = "cpu"
    folder: Path | None = None
    save_every: float = 30.0  # seconds between two checkpoints
    asked_to_stop: Callable[[], bool] = lambda: False
    more_callbacks: Callable[[], Iterable[Any]] = tuple  # makes what is added to each training
    metrics: dict[str, float] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)
    curves: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    model: Any = None
    example: Any = None  # an input of the model
    page: str = ""  # whose experiment it is

    @property
    def full(self) -> bool:
        """Whether the published figure must be reached."""
        return self.budget == "full"

    def record(self, **metrics: float) -> None:
        """Keep final numbers under their names, and say them."""
        for name, value in metrics.items():
            self.metrics[name] = float(value)
            self.say(f"{name.replace('_', ' ')}: {float(value):.5g}")

    def steps(self, items: Iterable[Item], what: str) -> Iterator[Item]:
        """Go through the items of a long loop, and let whoever watches see how far it is."""
        listed = list(items)
        with self.watch(len(listed), what) as advance:
            for item in listed:
                if self.asked_to_stop():
                    raise KeyboardInterrupt
                yield item
                advance(str(item))

    def figure(self, name: str, figure: Figure | Picture) -> None:
        """Keep a figure under its name, or a picture, which is drawn, be it still or moving."""
        from principia.lab.pictures.picture import Frames, Panels, Plot

        if isinstance(figure, (Plot, Panels, Frames)):
            from principia.lab.figures import draw

            figure = draw(figure)
        self.figures[name] = figure
        if self.folder is not None:
            RunFolder(self.folder).keep_figure(name, str(figure.to_json()))

    def log(self, training: str, row: Mapping[str, float]) -> None:
        """Keep the numbers of one epoch of a training."""
        self.curves.setdefault(training, []).append(dict(row))
        if self.folder is not None:
            RunFolder(self.folder).log(training, row)

    def training_folder(self, training: str) -> Path | None:
        """Give a training of this run the folder of its checkpoints; no two have the same name."""
        if training in self.curves or not re.fullmatch(r"[\w.-]*", training):
            domain = "new letters, digits, dots and dashes for each training of a run"
            raise usage_error("fit", "name", domain, training)
        self.curves[training] = []
        home = None if self.folder is None else RunFolder(self.folder).checkpoints
        return home / (training or "training") if home else None

    @property
    def origin(self) -> dict[str, Any] | None:
        """What the run was asked, of which code, with which versions, if that is written down."""
        return None if self.folder is None else RunFolder(self.folder).origin

    def keep(self, model: Any, *, example: Any = None) -> None:
        """Keep the trained model that this run is about, to predict with it and to export it.

        Args:
            model: A component of a page; one that would not come back from disk is refused.
            example: An input, such as `x[:1]`, that tells others what the model takes.
        """
        from principia.lab.runs.models import check_keepable

        check_keepable(model, self.page)
        self.model, self.example = model, example


@final
@dataclass(frozen=True)
class Outcome:
    """What an experiment found, beside what it had to reach."""

    page: str
    experiment: str
    budget: Budget
    seed: int
    knobs: Mapping[str, Any]
    metrics: Mapping[str, float]
    goals: Mapping[str, Range]
    figures: Mapping[str, Figure] = field(default_factory=dict, repr=False)

    @property
    def missed(self) -> tuple[str, ...]:
        """Each goal that was not reached, in a sentence."""
        return tuple(
            f"{name.replace('_', ' ')} must be {goal.goal}; got {self.metrics.get(name, math.nan)}."
            for name, goal in self.goals.items()
            if self.metrics.get(name, math.nan) not in goal
        )

    @property
    def reached(self) -> bool:
        """Whether every goal was reached."""
        return not self.missed

    def to_json(self) -> dict[str, Any]:
        """Give the outcome as plain data, without its figures."""
        return {
            "page": self.page,
            "experiment": self.experiment,
            "budget": self.budget,
            "seed": self.seed,
            "knobs": dict(self.knobs),
            "metrics": {
                name: value if math.isfinite(value) else str(value)
                for name, value in self.metrics.items()
            },
            "goals": {name: goal.goal for name, goal in self.goals.items()},
            "reached": self.reached,
        }


@final
@dataclass(frozen=True)
class Experiment:
    """A run of a component on data, with the figure that it must reach."""

    function: Callable[..., None]
    reaches: Mapping[str, Range]
    floor: Mapping[str, Range]
    source: str
    timed: bool = False
    declared_to_train: bool | None = None

    @property
    def name(self) -> str:
        """The name in the course."""
        return self.function.__name__.removesuffix("_experiment")

    @property
    def page(self) -> str:
        """The key of the page that runs it."""
        return page_key(self.function.__module__)

    @property
    def key(self) -> str:
        """Page and name: `connectionism/perceptron:digits`."""
        return f"{self.page}:{self.name}"

    @property
    def statement(self) -> str:
        """What it does, in words: the first paragraph of the docstring."""
        return " ".join((inspect.getdoc(self.function) or "").split("\n\n")[0].split())

    @property
    def knobs(self) -> Mapping[str, Knob]:
        """What can be turned, by name."""
        return knobs_of(self.function)

    @property
    def trains(self) -> bool:
        """Whether it trains by the training loop, so that callbacks can be added to it."""
        from principia.lab.training import fit

        if self.declared_to_train is None:
            return vars(sys.modules[self.function.__module__]).get("fit") is fit
        return self.declared_to_train

    def goals(self, budget: Budget) -> Mapping[str, Range]:
        """Give what must be reached within a budget."""
        return self.reaches if budget == "full" else self.floor

    def __call__(self, run: Run | None = None, /, **knobs: Any) -> Outcome:
        """Run it and compare what it recorded with its goals."""
        run = run or Run(page=self.page)
        chosen = settings(self.key, self.knobs, knobs)
        self.function(run, **chosen)
        goals = self.goals(run.budget)
        return Outcome(
            self.page, self.name, run.budget, int(run.seed), chosen, dict(run.metrics), goals,
            dict(run.figures),
        )


def experiment(
    *, reaches: Mapping[str, Range], floor: Mapping[str, Range], source: str, timed: bool = False,
    trains: bool | None = None,
) -> Callable[[Callable[..., None]], Experiment]:
    """Declare the decorated function as an experiment of its page.

    Args:
        reaches: Metric names and the ranges that they must reach at full budget.
        floor: The same for the quick budget.
        source: Who published the figure, with table or section.
        timed: Whether its numbers are times, so that no two runs have the same.
        trains: Whether it trains by the training loop, so that callbacks can be added to it; by
            default, whether its file imports `fit`.
    """

    def declare(function: Callable[..., None]) -> Experiment:
        if not reaches or not floor or not source:
            raise UsageError(
                f"experiment: {function.__name__} must have reaches, floor and source; "
                "got an empty one. A run without a figure to reach shows nothing."
            )
        return Experiment(function, dict(reaches), dict(floor), source, timed, trains)

    return declare

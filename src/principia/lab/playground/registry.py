"""What can be chosen in the playground: found by walking the catalog and torch, never listed twice.

A model is a page that learns from tables; an optimizer is any class of torch or of the catalog that
trains weights and biases without evaluating the loss itself, which is found by letting it try.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor
from torch.optim import Optimizer

from principia.lab.course import catalog
from principia.lab.data.embedded import TABLES, embedded_table
from principia.lab.data.schema import Column, Schema, Task, examples
from principia.lab.params import REQUIRED, Domain, Each, Knob, Maybe, Outside, Range, knobs_of
from principia.lab.playground.recipes import INITIALIZATIONS, PENALTIES, Initialization, Penalty
from principia.lab.seeds import Seed
from principia.lab.training.generators import seeded_generators
from principia.lab.training.learners import Learner, learner_of

__all__ = ["MOST_FEATURES", "Choices", "Model", "OptimizerChoice", "Way", "choices", "described"]

MOST_FEATURES = 2  # what a plane can show
WIDEST, DEEPEST = 64, 6  # largest whole number and longest list that a module may be built with
LONGEST = 1000  # largest whole number for an estimator: epochs, iterations
MOMENTUM = 0.9  # the usual one, of optimizers that have none by default
OWN_DATA = {
    "drawn": "Points that you draw: their classes, or values over one axis.",
    "table": "Your table as CSV: one or two columns of numbers and a target.",
}


@final
@dataclass(frozen=True)
class DataChoice:
    """Data to learn from; what depends on the points of a request is empty."""

    name: str
    help: str
    task: str = ""
    features: int = 0
    classes: int = 0


@final
@dataclass(frozen=True)
class Way:
    """How a page learns one task: step by step (a module) or at once (an estimator)."""

    stepwise: bool
    knobs: Mapping[str, Knob]

    def to_json(self) -> dict[str, Any]:
        """Give the way as plain data."""
        return {"stepwise": self.stepwise, "knobs": described(self.knobs.values())}


@final
@dataclass(frozen=True)
class Model:
    """A page that learns from tables, and how it learns each task that it can."""

    key: str
    title: str
    tasks: Mapping[Task, Way]

    def to_json(self) -> dict[str, Any]:
        """Give the model as plain data."""
        tasks = {task: way.to_json() for task, way in self.tasks.items()}
        return {"key": self.key, "title": self.title, "tasks": tasks}


@final
@dataclass(frozen=True)
class OptimizerChoice:
    """An optimizer, with the learning rate that its author takes by default."""

    name: str
    help: str
    lr: float
    kind: type[Optimizer]
    options: Mapping[str, float]

    def make(self, parameters: Iterable[Tensor], lr: float) -> Optimizer:
        """Build it for parameters."""
        return self.kind(list(parameters), lr=lr, **self.options)  # type: ignore[call-arg]


@final
@dataclass(frozen=True)
class Choices:
    """Everything that is registered, by name."""

    data: Mapping[str, DataChoice]
    models: Mapping[str, Model]
    optimizers: Mapping[str, OptimizerChoice]
    initializations: Mapping[str, Initialization]
    regularizations: Mapping[str, Penalty | None]

    def to_json(self) -> dict[str, Any]:
        """Give the choices as plain data, in lists that keep their order."""
        return {
            "data": [vars(one) for one in self.data.values()],
            "models": [one.to_json() for one in self.models.values()],
            "optimizers": [
                {"name": one.name, "help": one.help, "lr": one.lr}
                for one in self.optimizers.values()
            ],
            "initializations": [
                {"name": name, "help": one.help} for name, one in self.initializations.items()
            ],
            "regularizations": [
                {"name": name, "help": one.help if one else "No price."}
                for name, one in self.regularizations.items()
            ],
        }


@functools.cache
def choices() -> Choices:
    """Find what can be chosen; this imports every page, once.

    Example:
        >>> sorted(choices().models["networks/mlp"].tasks["classification"].knobs)
        ['activation', 'hidden']
    """
    return Choices(
        {one.name: one for one in _data()},
        {one.key: one for one in _models()},
        {one.name: one for one in _optimizers()},
        INITIALIZATIONS,
        PENALTIES,
    )


def described(knobs: Iterable[Knob]) -> list[dict[str, Any]]:
    """Describe knobs as plain data, each with its JSON schema."""
    return [
        {
            "name": one.name, "help": one.help, "schema": json.loads(json.dumps(one.schema())),
            "default": None if one.default is REQUIRED else json.loads(json.dumps(one.default)),
        }
        for one in knobs
    ]


def _data() -> Iterator[DataChoice]:
    for name in TABLES:
        table, target = embedded_table(name)
        if len(table) - 1 > MOST_FEATURES:
            continue
        schema = examples(table, target, seed=Seed(0)).schema
        classes = len(schema.target.values)
        what = f"{classes} classes" if classes else "a number"
        help = f"{len(table[target])} points, {what} to predict."
        yield DataChoice(name, help, schema.task, len(schema.features), classes)
    yield from (DataChoice(name, help) for name, help in OWN_DATA.items())


def _models() -> Iterator[Model]:
    plane = Column("x1"), Column("x2")
    trials: dict[Task, Column] = {
        "classification": Column("y", (0, 1)), "regression": Column("y"),
    }
    for page in _pages():
        tasks = {}
        for task, target in trials.items():
            # a page that is broken, or learns something else, must not stop the others
            with contextlib.suppress(Exception):
                tasks[task] = _way(page, Schema(plane, target, task))
        if tasks:
            yield Model(page.key, page.title, tasks)


def _way(page: catalog.Page, schema: Schema) -> Way:
    kind = learner_of(page, schema)
    if isinstance(kind, Learner):
        with seeded_generators(Seed(0), torch.device("cpu")):  # softmax regression refuses a number
            kind.function(schema.inputs, schema.outputs, torch.Generator())
        parameters = inspect.signature(kind.function).parameters.values()
        turned = {one.name for one in parameters if one.kind is one.KEYWORD_ONLY}
        knobs = {name: one for name, one in knobs_of(kind.function).items() if name in turned}
        stepwise = not kind.builds_estimator
    else:
        knobs, stepwise = knobs_of(kind.__init__), False
    return Way(stepwise, {
        name: _bounded(one, WIDEST if stepwise else LONGEST)
        for name, one in knobs.items() if one.schema() is not None
    })


def _bounded(knob: Knob, most: int) -> Knob:
    """Keep whole numbers and lists small, but never smaller than the default."""
    default = () if knob.default is REQUIRED or knob.default is None else knob.default
    values = default if isinstance(default, tuple) else (default,)
    whole = [one for one in values if isinstance(one, int)]

    def narrow(domain: Domain) -> Domain:
        if isinstance(domain, Range) and domain.kind is int:
            return replace(domain, high=min(domain.high, max([most, *whole])))
        if isinstance(domain, Maybe):
            return Maybe(narrow(domain.inner))
        if isinstance(domain, Each):
            return _Few(Each(narrow(domain.item)), max(DEEPEST, len(values)))
        return domain

    return replace(knob, domain=narrow(knob.domain))


@final
@dataclass(frozen=True)
class _Few(Domain):
    """Several values, but not many."""

    each: Each
    most: int

    @property
    def text(self) -> str:
        """Say how many, and what each value is."""
        return f"1 to {self.most} values, each {self.each.item.text}"

    def accept(self, value: Any) -> tuple[Any, ...]:
        """Take a sequence that is short enough and whose values all belong."""
        accepted = self.each.accept(value)
        if len(accepted) > self.most:
            raise Outside
        return accepted

    def parse(self, text: str) -> tuple[Any, ...]:
        """Read values apart by commas."""
        return self.accept(self.each.parse(text))

    def good(self) -> tuple[Any, ...]:
        """Return one value inside."""
        return self.each.good()

    def bad(self) -> tuple[Any, ...]:
        """Return too many values."""
        return self.each.good() * (self.most + 1)

    def schema(self) -> dict[str, Any] | None:
        """Describe a list with a largest length."""
        inner = self.each.schema()
        return None if inner is None else {**inner, "maxItems": self.most}


def _optimizers() -> Iterator[OptimizerChoice]:
    found: dict[str, Any] = dict(sorted(vars(torch.optim).items()))
    for page in _pages():
        with contextlib.suppress(Exception):
            found |= {f"{page.key}:{one.name}": one.thing for one in page.components()}
    for name, kind in found.items():
        if not inspect.isclass(kind) or not issubclass(kind, Optimizer):
            continue
        parameters = inspect.signature(kind.__init__).parameters
        lr = parameters["lr"].default if "lr" in parameters else None
        if not isinstance(lr, (int, float)):
            continue
        help = (inspect.getdoc(kind) or "").split("\n", 1)[0]
        plain = OptimizerChoice(name, help, float(lr), kind, {})
        if not _trains(plain):
            continue
        yield plain
        if "momentum" in parameters and parameters["momentum"].default == 0:
            named = f"{name} with momentum"
            help = f"{name} whose steps remember those before, {MOMENTUM:g} of the last one."
            yield replace(plain, name=named, help=help, options={"momentum": MOMENTUM})


def _trains(choice: OptimizerChoice) -> bool:
    """Tell whether it takes a step on dense gradients of a matrix and a bias, without a closure."""
    weights = [torch.ones(2, 2, requires_grad=True), torch.ones(2, requires_grad=True)]
    try:
        with seeded_generators(Seed(0), torch.device("cpu")), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer = choice.make(weights, choice.lr)
            for one in weights:
                # not by backward: a process that has used it cannot fork where there is a GPU
                one.grad = torch.full_like(one, 2.0)
            optimizer.step()
    except Exception:  # whatever it is, it cannot train
        return False
    return True


def _pages() -> Iterator[catalog.Page]:
    return (page for chapter in catalog.chapters() for page in chapter.pages)

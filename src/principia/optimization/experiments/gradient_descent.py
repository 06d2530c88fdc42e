r"""Gradient descent: what it reaches on data."""

import functools
from dataclasses import dataclass
from typing import Annotated, Any, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector
from torch.optim import SGD

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Arrows, Field, Label, Panels, Rule
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import accuracy, evaluate, fit
from principia.networks.mlp import MLP
from principia.optimization.gradient_descent import PredictedChange, descend
from principia.optimization.problems import Quadratic
from principia.optimization.smoothness import hessian_extremes

MOMENTS = 29  # of the moving picture
WIDE = 1.2  # half the width of its map


@hero(moves="time")
def two_directions(
    seed: Seed, *, time: Annotated[int, Range(0, MOMENTS)] = 12,
    step: Annotated[float, Range(0.05, 2.1)] = 1.8,
    condition: Annotated[float, Range(1, 40)] = 25.0,
) -> Panels:
    """The steepest direction caps the step, and then the flattest one crawls.

    Args:
        time: Steps taken so far.
        step: Length of a step, in units of 1/L; beyond 2 the steep direction explodes.
        condition: How many times steeper the one direction is than the other.
    """
    bowl, track = _descent(seed, step, condition)
    bends, factors = bowl.eigenvalues, 1 - step * bowl.eigenvalues
    steep, trail = ("red", "red") if step > 2 else ("purple", "gray")
    here, side = track[time], np.linspace(-WIDE, WIDE, 36).round(3)
    heights = bowl.value(torch.tensor(np.stack(np.meshgrid(side, side), axis=-1)))
    left = track[: time + 1].abs() / track[0].abs()
    along = torch.stack([here, here * torch.tensor([1.0, 0.0])])  # to the axes
    return Panels((
        Plot((
            Field(side, side, heights.sqrt(), "contours"),
            Series("", track[: time + 1, 0], track[: time + 1, 1], trail, "line"),
            Series("", here[:1], here[1:], "ink", "points"),
            Arrows(along[:1], along[1:], role=steep),
            Arrows(along[1:], 0 * along[1:], role="orange"),
        ), x="flat direction", y="steep direction", title="the path", square=True,
            x_range=(-WIDE, WIDE), y_range=(-WIDE, WIDE)),
        Plot((
            Rule("", y=1.0), Rule("", y=-1.0),
            Series("", [0, 1], [1.0, 1 - step], "gray", "line"),
            Series("", bends[:1], factors[:1], "orange", "points"),
            Series("", bends[1:], factors[1:], steep, "points"),
            Label("flat", bends[:1], factors[:1], "orange", side="above"),
            Label("steep", bends[1:], factors[1:], steep, side="left"),
        ), x="curvature, in units of L", y="factor of each step",
            title="within ±1 it shrinks", x_range=(-0.05, 1.1), y_range=(-1.3, 1.3)),
        Plot((
            Series("", range(time + 1), left[:, 0], "orange", "line"),
            Series("", range(time + 1), left[:, 1].clamp(1e-9), steep, "line"),
            Rule("", y=1.0, role="gray"),
        ), x="steps", y="distance that is left", log="y", title="each direction by itself",
            x_range=(0, MOMENTS), y_range=(1e-2, 10)),
    ))


@functools.lru_cache(maxsize=4)  # all frames are moments of one run
def _descent(seed: Seed, step: float, condition: float) -> tuple[Quadratic, Tensor]:
    """Go down a bowl whose largest curvature is 1, from a start at its rim."""
    start = 0.7 + 0.25 * torch.rand(1, 2, generator=seed.torch(), dtype=torch.float64)
    bowl = Quadratic([1 / condition, 1.0]).at(start * torch.tensor([[-1.0, 1.0]]))
    sgd = torch.optim.SGD(bowl.parameters(), lr=step)
    return bowl, descend(bowl, sgd, MOMENTS, record=("theta",))["theta"][:, 0]


@experiment(
    reaches={"test_error": at_most_goal(0.12)},
    floor={"accuracy": at_least_goal(0.90)},
    source="LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document "
    "recognition, fig. 9: linear classifier, 12.0 % test error on MNIST",
)
def linear_classifier(
    run: Run, *, steps: Annotated[int, Range(10, 5000)] = 300,
    l2: Annotated[float, Range(1e-5, 1)] = 1e-3,
    images: Annotated[int, Range(100, 60_000)] = 20_000,
) -> None:
    """Learns softmax regression by full-batch steps of 1/L; L is the curvature at the start."""
    x, y, x_test, y_test = handwriting(run)
    x, y, x_test = x.flatten(1)[:images], y[:images], x_test.flatten(1)
    steps = steps if run.full else min(steps, 200)
    objective, model, best = _Penalized(l2), _linear(x.shape[1]), _linear(x.shape[1])
    weights = dict(model.named_parameters())
    L = float(hessian_extremes(lambda at: objective.at(model, at, (x, y)), weights)[1])
    shared: dict[str, Any] = {"batch_size": len(x), "run": run}
    search = torch.optim.LBFGS(best.parameters(), max_iter=300, line_search_fn="strong_wolfe")
    fit(best, (x, y), objective, search, steps=1, name="minimum", **shared)
    lowest = objective(best, (x, y), run.seed.torch()).item()
    distance = parameters_to_vector(best.parameters()).norm().item()  # the start is 0
    sgd, part = SGD(model.parameters(), lr=1 / L), PredictedChange(objective, every=10)
    trained = fit(
        model, (x, y), objective, sgd, steps=steps, callbacks=[part], name="descent", **shared
    )
    run.keep(model)
    found = evaluate(model, (x_test, y_test), {"accuracy": accuracy})["accuracy"]
    gap = torch.tensor([row["loss"] for row in trained.history], dtype=torch.float64) - lowest
    t = torch.arange(len(gap), dtype=gap.dtype)
    sublinear, linear = 2 * L * distance**2 / (t + 1), gap[0] * (1 - l2 / L) ** t
    run.record(
        accuracy=found, test_error=1 - found, smoothness=L, loss=trained.history[-1]["loss"],
        minimum=lowest, gap_over_bound=float((gap / torch.minimum(sublinear, linear))[1:].max()),
    )
    curves = (
        Series("loss above its minimum", t + 1, gap, style="line"),
        Series("convex: 2L‖θ⁰ − θ*‖²/(t + 1)", t + 1, sublinear, role="bound"),
        Series("strongly convex: (1 − μ/L)ᵗ", t + 1, linear, role="bound"),
    )
    run.figure("log_log", figures.draw(Plot(curves, "t + 1", "gap", log="xy")))
    run.figure("semi_log", figures.draw(Plot(curves, "t + 1", "gap", log="y")))
    looks = [row for row in trained.history if "predicted_change" in row]
    promised, actual = (
        [-row[f"{name}_change"] for row in looks] for name in ("predicted", "actual")
    )
    ends = [min(promised), max(promised)]
    pairs = Series("every tenth step", promised, actual), Series("equal", ends, ends, "predicted")
    names = "predicted decrease", "actual decrease"
    run.figure("prediction", figures.draw(Plot(pairs, *names, log="xy")))


@final
@dataclass(frozen=True)
class _Penalized:
    """The cross-entropy plus half of `l2` times the squares of all weights: strongly convex."""

    l2: float

    def __call__(self, model: nn.Module, batch: tuple[Tensor, ...], rng: torch.Generator) -> Tensor:
        return self.at(model, dict(model.named_parameters()), batch)

    def at(
        self, model: nn.Module, weights: dict[str, Tensor], batch: tuple[Tensor, ...]
    ) -> Tensor:
        x, y = batch
        squares = torch.stack([one.square().sum() for one in weights.values()]).sum()
        return F.cross_entropy(functional_call(model, weights, (x,)), y) + self.l2 / 2 * squares


def _linear(inputs: int) -> MLP:
    """Build a linear classifier of ten classes with weights 0."""
    model = MLP([inputs, 10], rng=torch.Generator())  # not the global one, for nothing
    for one in model.parameters():
        nn.init.zeros_(one)
    return model

r"""Adam: what it reaches on data."""

import functools
import math
from collections.abc import Mapping
from typing import Annotated, Any, cast, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Label, Panels, Role, Rule
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import Callback, Diverged, Supervised, accuracy, evaluate, fit
from principia.networks.mlp import MLP
from principia.optimization.adam import Adam, moments
from principia.optimization.claims.adam import adam_can_fail_to_converge
from principia.optimization.gradient_descent import descend
from principia.optimization.momentum import HeavyBall
from principia.optimization.problems import Quadratic

EDGES = np.linspace(-3, 5, 81)  # of the histograms of learning rates, powers of ten
GRIDS = (("sgd", 0.0, (0.1, 0.3, 1.0)), ("momentum", 0.9, (0.01, 0.03, 0.1)))
CURVATURES = 1.0, 100.0  # of the ravine of the moving picture, along it and across
MOMENTS, EACH = 24, 10  # steps of a moment
ARRIVED = 0.01  # the height below which a path has arrived


@hero(moves="time", frames=MOMENTS + 1)
def turned_ravine(
    seed: Seed, *, angle: Annotated[float, Range(0, 90)] = 40.0,
    lr: Annotated[float, Range(0.05, 0.4)] = 0.1, time: Annotated[int, Range(0, MOMENTS)] = 8,
) -> Panels:
    """Adam rescales axes, not directions: turning a ravine costs it several times the steps.

    Args:
        angle: Degrees by which the ravine is turned away from the axes; 45 is the worst.
        lr: Adam's learning rate, the length of its first step in every coordinate.
        time: Tens of steps that are taken; momentum takes as many at every angle.
    """
    now, (levels, paths, heights) = time * EACH, _walks(angle, lr)
    straight = _walks(0.0, lr)[2]["Adam"]
    slow = _arrival(heights["Adam"]) > 1.5 * _arrival(straight)
    colors: dict[str, Role] = {"momentum": "orange", "Adam": "red" if slow else "blue"}
    tracks, falls, told = [], [], []
    for place, (name, color) in enumerate(colors.items()):
        (x, y), fall, end = paths[name][: now + 1].T, heights[name], _arrival(heights[name])
        tracks += [Series("", x, y, color, "line"), Series("", x[-1:], y[-1:], color, "points")]
        falls.append(Series("", range(now + 1), fall[: now + 1], color, "line"))
        count = f"{end} steps" if now >= end else "..."
        told.append(Label(f"{name}: {count}", MOMENTS * EACH, 30 / 3**place, color, side="left"))
    words = f"Adam, not turned: {_arrival(straight)} steps"
    return Panels((
        Plot((*levels, *tracks, Label("★", 0, 0, size=18)), title="the ravine, from above",
             x_range=(-3, 3), y_range=(-3, 3), square=True, bare=True),
        Plot((
            Series("", range(len(straight)), straight, "gray", "line"), *falls, *told,
            Label(words, MOMENTS * EACH, 30 / 3**2, "gray", side="left"),
            Rule("arrived", y=ARRIVED, role="gray"),
        ), x="step", y="height", log="y", title="height above the minimum",
            x_range=(0, MOMENTS * EACH), y_range=(1e-4, 100)),
    ))


def _arrival(heights: Tensor) -> int:
    """Count the steps until a path is low and stays there."""
    return int((heights > ARRIVED).nonzero().max()) + 1


@functools.lru_cache(maxsize=4)  # all frames are moments of the same walks
def _walks(angle: float, lr: float) -> tuple[list[Series], dict[str, Tensor], dict[str, Tensor]]:
    """Turn a ravine and let two methods descend it; give its level lines, points and heights."""
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    turn = torch.tensor([[c, -s], [s, c]], dtype=torch.float64)
    start = turn @ torch.tensor([-2.6, 0.6], dtype=torch.float64)
    low, high = (one**0.5 for one in CURVATURES)
    ravine, paths, heights = Quadratic(CURVATURES, rotation=turn).at(start[None]), {}, {}
    for name in ("Adam", "momentum"):
        twin = ravine.at(start[None])
        method = Adam(twin.parameters(), lr=lr) if name == "Adam" else HeavyBall(
            twin.parameters(), lr=1 / CURVATURES[1], beta=0.8)
        trace = descend(twin, method, MOMENTS * EACH, record=("value", "theta"))
        paths[name], heights[name] = trace["theta"][:, 0], trace["value"][:, 0]
    around = torch.linspace(0, 2 * math.pi, 49, dtype=torch.float64)
    ring = torch.stack([around.cos() / low, around.sin() / high]) * 1.4
    levels = [Series("", x, y, "gray", "line") for x, y in (k * turn @ ring for k in range(1, 6))]
    return levels, paths, heights


@experiment(
    reaches={"accuracy": at_least_goal(0.975), "loss_over_best": at_most_goal(1.1)},
    floor={"accuracy": at_least_goal(0.94)},
    source="Kingma and Ba (2015), fig. 2: Adam against tuned SGD on MNIST; to beat are momentum "
    "and plain SGD on the same data, each with its best learning rate",
)
def adam_vs_sgd(
    run: Run, *, epochs: Annotated[int, Range(1, 10)] = 3,
    batch_size: Annotated[int, Range(16, 1024)] = 64,
) -> None:
    """Trains one network by Adam as it comes, and by SGD and momentum with tuned rates.

    Training losses are compared after the same number of epochs; Adam then takes as many again.
    """
    x, y, x_test, y_test = handwriting(run)
    x, x_test = x.flatten(1), x_test.flatten(1)
    epochs = epochs if run.full else 5 * epochs

    def trained(
        name: str, epochs: int, kind: Any, *callbacks: Callback, **options: Any
    ) -> tuple[MLP, list[float]]:
        model = MLP([x.shape[1], 300, 100, 10], rng=run.seed.child("init").torch())
        try:
            found = fit(
                model, (x, y), Supervised(F.cross_entropy), kind(model.parameters(), **options),
                epochs=epochs, batch_size=batch_size, callbacks=callbacks,
                seed=run.seed.child("order"),
                validation=(x_test, y_test), metrics={"accuracy": accuracy}, run=run, name=name,
            )
        except Diverged:
            return model, [math.inf] * epochs
        return model, [row["loss"] for row in found.history]

    rates = _Rates()
    model, losses = trained("adam", epochs * (1 + run.full), torch.optim.Adam, rates, lr=1e-3)
    run.keep(model)
    best = {
        name: min(
            trained(f"{name}-{lr:g}", epochs, torch.optim.SGD, lr=lr, momentum=momentum)[1][-1]
            for lr in grid
        )
        for name, momentum, grid in GRIDS
    }
    loss, found = losses[epochs - 1], evaluate(model, (x_test, y_test), {"accuracy": accuracy})
    run.record(loss=loss, loss_over_best=loss / min(best.values()), **found)
    run.record(**{f"{name}_loss": value for name, value in best.items()})
    centers = 10 ** ((EDGES[1:] + EDGES[:-1]) / 2)
    run.figure("effective_rates", figures.draw(Plot(tuple(
        Series(f"step {step}", centers, np.array(counts) / max(sum(counts), 1), "other")
        for step, counts in rates.state_dict()["seen"]
    ), "effective learning rate of a coordinate, η/(√v̂ + ε)", "share of the coordinates", "x")))
    for name, amsgrad in (("adam_goes_up", False), ("amsgrad_goes_down", True)):
        path = adam_can_fail_to_converge(run.seed, steps=2000, amsgrad=amsgrad).plot
        run.figure(name, figures.draw(cast("Plot", path)))


@final
class _Rates(Callback):
    """Counts the effective learning rates of coordinates that ever had a gradient, now and then."""

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        (self._optimizer,), self._step, self._seen = optimizers.values(), 0, []
        self._times = {*(10**k for k in range(7)), steps}

    def after_step(self, model: nn.Module) -> None:
        self._step += 1
        if self._step not in self._times:
            return
        group, counts = self._optimizer.param_groups[0], np.zeros(len(EDGES) - 1, dtype=int)
        for p in group["params"]:
            square = moments(self._optimizer, p)[1]
            rate = group["lr"] / (square[square > 0].sqrt() + group["eps"])
            inside = rate.log10().clamp(EDGES[0], EDGES[-1])
            counts += np.histogram(inside.cpu().numpy(), EDGES)[0]
        self._seen.append((self._step, counts.tolist()))

    def state_dict(self) -> dict[str, Any]:
        return {"step": self._step, "seen": self._seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._step, self._seen = state["step"], list(state["seen"])

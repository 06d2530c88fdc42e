r"""Adam: what it reaches on data."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, cast, final

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import Optimizer

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.training import Callback, Diverged, Supervised, accuracy, evaluate, fit
from principia.networks.mlp import MLP
from principia.optimization.adam import moments
from principia.optimization.claims.adam import adam_can_fail_to_converge

EDGES = np.linspace(-3, 5, 81)  # of the histograms of learning rates, powers of ten
GRIDS = (("sgd", 0.0, (0.1, 0.3, 1.0)), ("momentum", 0.9, (0.01, 0.03, 0.1)))


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

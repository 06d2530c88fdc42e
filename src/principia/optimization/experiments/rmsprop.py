r"""RMSprop: what it reaches on data."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, final

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import Adagrad, Optimizer, RMSprop

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.training import Callback, Supervised, accuracy, fit
from principia.networks.mlp import MLP
from principia.optimization.adagrad import effective_lr


@experiment(
    reaches={"lost_by_rmsprop": at_most_goal(0.005), "adagrad_deficit": at_least_goal(0.0)},
    floor={"rmsprop_accuracy": at_least_goal(0.9)},
    source="Tieleman and Hinton (2012): the average forgets, so that a change of scale is soon "
    "over; to compare with are the same network without the change, and Adagrad",
)
def changing_scale(
    run: Run, *, factor: Annotated[float, Range(1, 1e4)] = 100.0,
    batch_size: Annotated[int, Range(16, 512)] = 64,
) -> None:
    """Trains a network whose loss is multiplied by a large factor during the first epoch."""
    x, y, x_test, y_test = handwriting(run)
    x, x_test, epochs = x.flatten(1), x_test.flatten(1), 4 if run.full else 12
    kinds: dict[str, Any] = {
        "rmsprop": lambda p: RMSprop(p, lr=1e-3, alpha=0.9),
        "adagrad": lambda p: Adagrad(p, lr=1e-2),
    }
    found, watched = {}, {}
    for name, kind in kinds.items():
        for scale in (factor, 1.0):
            label = f"{name}-{scale:g}"
            model = MLP([x.shape[1], 128, 10], rng=run.seed.child("init").torch())
            louder, watch = _Louder(scale, math.ceil(len(x) / batch_size)), _Rates()
            trained = fit(
                model, (x, y), Supervised(F.cross_entropy), kind(model.parameters()),
                epochs=epochs, batch_size=batch_size, callbacks=[louder, watch],
                seed=run.seed.child("order"), validation=(x_test, y_test),
                metrics={"accuracy": accuracy}, run=run, name=label,
            )
            found[name, scale] = trained.history[-1]["validation_accuracy"]
            watched[label] = watch.state_dict()["rates"]
            if (name, scale) == ("rmsprop", factor):
                run.keep(model)
    lost = {name: found[name, 1.0] - found[name, factor] for name in kinds}
    run.record(
        rmsprop_accuracy=found["rmsprop", factor], adagrad_accuracy=found["adagrad", factor],
        rmsprop_unperturbed=found["rmsprop", 1.0], adagrad_unperturbed=found["adagrad", 1.0],
        lost_by_rmsprop=lost["rmsprop"], lost_by_adagrad=lost["adagrad"],
        adagrad_deficit=found["rmsprop", factor] - found["adagrad", factor],
    )
    run.figure("effective_rates", figures.draw(Plot(tuple(
        Series(label, range(1, len(rates) + 1), rates, "other") for label, rates in watched.items()
    ), "step", "median effective learning rate, η/(√v + ε)", "xy")))


@final
class _Louder(Callback):
    """Multiplies the gradients of the first steps, as a factor of the loss would."""

    def __init__(self, factor: float, steps: int) -> None:
        self.factor, self.steps, self._taken = factor, steps, 0

    def before_step(self, model: nn.Module) -> None:
        if self._taken < self.steps:
            gradients = [p.grad for p in model.parameters() if p.grad is not None]
            torch._foreach_mul_(gradients, self.factor)
        self._taken += 1

    def state_dict(self) -> dict[str, Any]:
        return {"taken": self._taken}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._taken = state["taken"]


@final
class _Rates(Callback):
    """Writes down the median effective learning rate of the last layer after every step."""

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        (self._optimizer,), self._rates = optimizers.values(), []

    def after_step(self, model: nn.Module) -> None:
        self._rates.append(float(effective_lr(self._optimizer)[2].median()))

    def state_dict(self) -> dict[str, Any]:
        return {"rates": self._rates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._rates = list(state["rates"])

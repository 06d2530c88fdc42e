r"""Muon: what it reaches on data."""

import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any, final

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.training import Callback, Supervised, accuracy, evaluate, fit
from principia.networks.mlp import MLP
from principia.optimization.muon import Muon, orthogonalize, split_parameters

GRIDS = {"muon": (0.04, 0.02, 0.08, 0.01), "adamw": (0.01, 0.005, 0.02, 0.0025)}  # best ones first
REST_LR = 0.003  # of AdamW for what Muon leaves to it
LOOK = 10  # steps between two looks at the test accuracy


@experiment(
    reaches={"ratio": at_most_goal(1.0)},
    floor={"accuracy": at_least_goal(0.95)},
    source="Jordan et al. (2024) need fewer steps than with AdamW to a given loss; to beat is "
    "AdamW on the same network, both with the best of four learning rates",
)
def muon_vs_adamw(
    run: Run, *, batch_size: Annotated[int, Range(50, 2000)] = 500,
    seeds: Annotated[int, Range(2, 10)] = 3,
) -> None:
    """Counts the steps to 97.5 % test accuracy with Muon and with AdamW, learning rates tuned."""
    x, y, x_test, y_test = handwriting(run)
    x, x_test = x.flatten(1), x_test.flatten(1)
    target, epochs = (0.975, 6) if run.full else (0.95, 10)
    batch_size = batch_size if run.full else 100
    most, models = epochs * math.ceil(len(x) / batch_size), {}

    def reached(kind: str, lr: float, number: int, most: int) -> float:
        """Train until the target is reached; infinite if that takes more steps than these."""
        model = MLP([x.shape[1], 256, 256, 10], rng=run.seed.child(f"init {number}").torch())
        matrices, rest = split_parameters(model)
        optimizer: Optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        if kind == "muon":
            optimizer = _Together(Muon(matrices, lr=lr), torch.optim.AdamW(rest, lr=REST_LR))
        history = fit(
            model, (x, y), Supervised(F.cross_entropy), optimizer, steps=most,
            batch_size=batch_size, callbacks=[_Finish((x_test, y_test), target, stop=run.full)],
            seed=run.seed.child(f"order {number}"), run=run, name=f"{kind}-{lr:g}-{number}",
        ).history
        models[kind, lr, number] = model
        return next((row["reached"] for row in history if "reached" in row), math.inf)

    tuned: dict[str, dict[float, float]] = {kind: {} for kind in GRIDS}
    for kind, grid in GRIDS.items():
        for lr in grid if run.full else grid[-1:]:  # quick takes the calmest
            limit = min([most, *tuned[kind].values()])  # who is behind the best so far may stop
            tuned[kind][lr] = reached(kind, lr, 0, int(limit))
    best = {kind: min(found, key=found.__getitem__) for kind, found in tuned.items()}
    counts = {
        kind: [tuned[kind][lr], *(reached(kind, lr, number, most)
               for number in range(1, seeds if run.full else 1))]
        for kind, lr in best.items()
    }
    run.keep(model := models["muon", best["muon"], 0])
    # one that never arrives takes more than all steps: AdamW is counted too well, never Muon
    logs = np.log(counts["muon"]) - np.log(np.minimum(counts["adamw"], most))
    run.record(
        accuracy=evaluate(model, (x_test, y_test), {"accuracy": accuracy})["accuracy"],
        ratio=math.exp(logs.mean()), muon_lr=best["muon"], adamw_lr=best["adamw"],
        muon_steps=float(np.mean(counts["muon"])), adamw_steps=float(np.mean(counts["adamw"])),
    )
    if len(logs) > 1:
        half = float(stats.t.ppf(0.975, len(logs) - 1)) * logs.std(ddof=1) / math.sqrt(len(logs))
        run.record(ratio_low=math.exp(logs.mean() - half), ratio_high=math.exp(logs.mean() + half))
    words = [f"start {number + 1}" for number in range(len(logs))]
    run.figure("steps", figures.draw(Plot((
        Series("Muon", words, counts["muon"], style="bars"),
        Series("AdamW", words, counts["adamw"], "other", "bars"),
    ), "", f"steps to {target:.1%} test accuracy")))
    run.figure("spectra", _spectra(model, x[:5000], y[:5000], batch_size))


@final
class _Together(Optimizer):
    """Several optimizers, each of its own parameters, that step as one."""

    def __init__(self, *parts: Optimizer) -> None:
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.parts, self.defaults = parts, {"parts": [part.defaults for part in parts]}
        self._share()

    def step(self, closure: Any = None) -> Any:  # type: ignore[override]
        loss = None if closure is None else torch.enable_grad()(closure)()
        for part in self.parts:
            part.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._share()

    def _share(self) -> None:
        groups = iter(self.param_groups)
        for part in self.parts:
            part.state = self.state
            part.param_groups = list(itertools.islice(groups, len(part.param_groups)))


@final
class _Finish(Callback):
    """Looks at the test accuracy every few steps, and notes when it reaches a target."""

    def __init__(self, data: tuple[Tensor, Tensor], target: float, *, stop: bool) -> None:
        self.data, self.target, self.stop = data, target, stop
        self._step = self._reached = 0

    def after_step(self, model: nn.Module) -> None:
        self._step += 1
        if not self._reached and self._step % LOOK == 0:
            found = evaluate(model, self.data, {"accuracy": accuracy})["accuracy"]
            self._reached = self._step if found >= self.target else 0

    def after_epoch(self, model: nn.Module, row: dict[str, float]) -> str:
        if not self._reached:
            return ""
        row["reached"] = self._reached
        return "the target was reached" if self.stop else ""

    def state_dict(self) -> dict[str, Any]:
        return {"step": self._step, "reached": self._reached}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._step, self._reached = state["step"], state["reached"]


def _spectra(model: MLP, x: Tensor, y: Tensor, batch_size: int) -> Any:
    """Draw the singular values of gradient, momentum and step of an inner layer, at its weights."""
    W, momentum, mu = model.layers[1].weight, torch.zeros_like(model.layers[1].weight), 0.95
    gradient = momentum
    for batch in zip(x.split(batch_size), y.split(batch_size), strict=True):
        gradient = torch.autograd.grad(F.cross_entropy(model(batch[0]), batch[1]), W)[0]
        momentum = mu * momentum + gradient
    spectra = {
        "gradient": gradient, "momentum": momentum, "step": orthogonalize(momentum, "quintic")
    }
    curves = []
    for (name, matrix), role in zip(spectra.items(), ("other", "other", "measured"), strict=True):
        sigma = torch.linalg.svdvals(matrix)
        shown = (sigma / sigma[0]).clamp(min=1e-7)  # below is rounding
        curves.append(Series(name, range(1, len(shown) + 1), shown, role, "line"))
    return figures.draw(Plot(
        tuple(curves), "number of the singular value", "singular value, over the largest", "y"
    ))

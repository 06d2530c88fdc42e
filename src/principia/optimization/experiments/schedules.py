r"""Schedules: what it reaches on data."""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, final

import plotly.graph_objects as go
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_, skip_init
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LambdaLR,
    LRScheduler,
    MultiStepLR,
    OneCycleLR,
)

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.evidence import Plot, Series
from principia.lab.params import PositiveFloat, Range
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.training import (
    Callback,
    ClipNorm,
    Diverged,
    Schedule,
    Supervised,
    accuracy,
    callback,
    evaluate,
    fit,
)
from principia.optimization.schedules import base_rates, power_decay, warmup

SEEDS = ("first", "second", "third")  # of the race


@callback()
def clipping(run: Run, *, norm: PositiveFloat = 1.0) -> Callback:
    """Shortens the gradient of all parameters together whenever it is too long.

    Args:
        norm: Largest norm of the gradient.
    """
    return ClipNorm(norm)


Make = Callable[[Optimizer, int], LRScheduler]
RACE: Mapping[str, tuple[Make, tuple[float, ...]]] = {  # and the peaks that each may choose from
    "constant": (lambda one, steps: LambdaLR(one, lambda t: 1.0), (0.003, 0.01, 0.03)),
    "step": (lambda one, steps: MultiStepLR(one, [steps // 2, 3 * steps // 4]), (0.02, 0.06)),
    "power": (lambda one, steps: power_decay(one), (0.1, 0.3)),  # soon far below the first
    "cosine": (CosineAnnealingLR, (0.02, 0.06)),
    "warmup_cosine": (
        lambda one, steps: warmup(one, steps // 10, CosineAnnealingLR(one, steps - steps // 10)),
        (0.02, 0.06),
    ),
    "one_cycle": (
        lambda one, steps: OneCycleLR(one, base_rates(one), total_steps=steps + 1), (0.03, 0.1)
    ),
}


@experiment(
    reaches={"gain_in_errors": at_least_goal(1.0)},
    floor={"worst_accuracy": at_least_goal(0.9)},
    source="Loshchilov and Hutter (2017), sec. 4.1: cosine against other schedules; to beat is the "
    "best constant rate on the same data, by one standard error of the difference of means",
)
def schedule_race(
    run: Run, *, clip: PositiveFloat = 2.0, epochs: Annotated[int, Range(2, 30)] = 6,
    samples: Annotated[int, Range(500, 55_000)] = 6000,
) -> None:
    """Races six schedules on one small convolutional network, each with its best peak rate."""
    if run.full:
        (x, y), test = (fashion(callback, data_dir=run.data_dir) for callback in ("train", "test"))
        parts = (x[:samples], y[:samples]), (x[-5000:], y[-5000:]), test
    else:
        x, y, *test = digits()
        parts = (x[:-300], y[:-300]), (x[-300:], y[-300:]), test
    data, held, test = ((x[:, None], y) for x, y in parts)

    def errors(name: str, peak: float, seed: str) -> tuple[float, float, list[dict[str, float]]]:
        """Train; give the shares of errors on held-out and on test data, and the history."""
        own = run.seed.child(seed)
        model = _network(data[0].shape[-1], own.child("init").torch())
        sgd = SGD(model.parameters(), lr=peak, momentum=0.9)
        try:
            trained = fit(
                model, data, Supervised(F.cross_entropy), sgd, epochs=epochs, batch_size=32,
                callbacks=[_ClipAndLook(clip), Schedule(RACE[name][0])], seed=own, run=run,
                name=f"{name}-{peak:g}-{seed}",
            )
        except Diverged:
            return 1.0, 1.0, []
        scores = [evaluate(model, one, {"accuracy": accuracy}) for one in (held, test)]
        return 1 - scores[0]["accuracy"], 1 - scores[1]["accuracy"], trained.history

    best, histories, found = {}, {}, {}
    for name, (_, peaks) in RACE.items():
        chosen, seeds = (peaks, SEEDS) if run.full else (peaks[-1:], SEEDS[:1])
        tried = {peak: [errors(name, peak, seed) for seed in seeds] for peak in chosen}
        best[name] = min(tried, key=lambda peak: sum(one[0] for one in tried[peak]))
        histories[name] = tried[best[name]][0][2]
        found[name] = torch.tensor([one[1] for one in tried[best[name]]], dtype=torch.float64)
    mean = {name: float(one.mean()) for name, one in found.items()}
    run.record(worst_accuracy=1 - max(mean.values()))
    for name, one in mean.items():
        run.record(**{f"{name}_error": one, f"{name}_peak": best[name]})
    if run.full:
        pair = torch.stack([found["constant"], found["warmup_cosine"]])
        error = float(pair.var(dim=1).sum() / len(SEEDS)) ** 0.5
        gain = mean["constant"] - mean["warmup_cosine"]
        run.record(gain=gain, standard_error=error, gain_in_errors=gain / max(error, 1e-6))
    run.figure("schedules", _rates_figure(best, epochs * math.ceil(len(data[0]) / 32)))
    limit = Series("clipping threshold", [1, epochs], [clip, clip], "bound")
    for name, key, title, more in (
        ("losses", "loss", "training loss", ()),
        ("gradient_norms", "gradient_norm", "norm of the gradient, mean of an epoch", (limit,)),
    ):
        series = [
            Series(name, [row["epoch"] for row in one], [row[key] for row in one], "other")
            for name, one in histories.items()
        ]
        run.figure(name, figures.draw(Plot((*series, *more), "epoch", title, "y")))


def _network(side: int, rng: torch.Generator) -> nn.Sequential:
    """Build two convolutions with stride 2 and a linear layer; all weights are of the generator."""
    model = nn.Sequential(
        skip_init(nn.Conv2d, 1, 8, 5, stride=2, padding=2), nn.ReLU(),
        skip_init(nn.Conv2d, 8, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        skip_init(nn.Linear, 16 * math.ceil(side / 4) ** 2, 10),
    )
    with torch.no_grad():
        for p in model.parameters():
            scale = (2 / p[0].numel()) ** 0.5 if p.ndim > 1 else 0.0
            p.copy_(scale * torch.randn(p.shape, generator=rng))
    return model


@final
class _ClipAndLook(Callback):
    """Clips the norm of the gradient and tells, for every epoch, the mean norm before that."""

    def __init__(self, c: float) -> None:
        self.c = c

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        self._norms: list[float] = []

    def before_step(self, model: nn.Module) -> None:
        self._norms.append(float(clip_grad_norm_(model.parameters(), self.c)))

    def after_epoch(self, model: nn.Module, row: dict[str, float]) -> str:
        row["gradient_norm"] = sum(self._norms) / len(self._norms)
        self._norms = []
        return ""

    def state_dict(self) -> dict[str, Any]:
        return {"norms": self._norms}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._norms = list(state["norms"])


def _rates_figure(peaks: Mapping[str, float], steps: int) -> go.Figure:
    """Draw the rates of all schedules over a training."""
    series = []
    for name, peak in peaks.items():
        sgd = SGD([nn.Parameter(torch.zeros(1))], lr=peak, momentum=0.9)
        schedule, rates = RACE[name][0](sgd, steps), []
        for _ in range(steps):
            rates.append(float(schedule.get_last_lr()[0]))
            sgd.step()
            schedule.step()
        thin = slice(None, None, math.ceil(steps / 300))
        series.append(Series(name, range(1, steps + 1)[thin], rates[thin], "other"))
    return figures.draw(Plot(tuple(series), "step", "learning rate"))

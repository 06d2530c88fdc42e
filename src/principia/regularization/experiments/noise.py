r"""Noise on inputs, weights, targets: what it reaches on data."""

from collections.abc import Mapping
from typing import Annotated

import plotly.graph_objects as go
import torch
from torch.nn import functional as F
from torch.optim import Adam

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.data.synthetic import sine
from principia.lab.evidence import Plot, Series
from principia.lab.params import NonNegativeFloat, Range
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.training import (
    Callback,
    OneCycle,
    Supervised,
    accuracy,
    callback,
    evaluate,
    fit,
    outputs_of,
)
from principia.lab.training.pairs import Paired, paired
from principia.networks.mlp import MLP
from principia.regularization.noise import InputNoise, NoisyWeights

Arm = tuple[str, float]  # of the experiment: what is disturbed, and σ
NONE: Arm = ("none", 0.0)
INPUTS: tuple[Arm, ...] = tuple(("inputs", sigma) for sigma in (0.05, 0.1, 0.2, 0.4))
WEIGHTS: tuple[Arm, ...] = tuple(("weights", sigma) for sigma in (0.003, 0.01, 0.03))

NOISES = {"none": InputNoise, "inputs": InputNoise, "weights": NoisyWeights}


@callback()
def input_noise(run: Run, *, sigma: NonNegativeFloat = 0.1) -> Callback:
    """Adds Gaussian noise to the inputs of every batch.

    Args:
        sigma: Standard deviation of the noise on inputs.
    """
    return InputNoise(sigma)


@callback()
def weight_noise(run: Run, *, sigma: NonNegativeFloat = 0.01) -> Callback:
    """Computes every gradient at randomly perturbed weights.

    Args:
        sigma: Standard deviation of the noise on weights.
    """
    return NoisyWeights(sigma)


@experiment(
    reaches={"gain_in_errors": at_least_goal(2.0)}, floor={"gain": at_least_goal(0.0)},
    source="Bishop (1995): noise is a regularizer; to beat is the same network without noise, by "
    "two standard errors over five pairs; σ is chosen on validation data",
)
def noise_sweep(
    run: Run, *, pairs: Annotated[int, Range(2, 20)] = 5,
    hidden: Annotated[int, Range(8, 1000)] = 128, epochs: Annotated[int, Range(1, 200)] = 30,
) -> None:
    """Trains a network on few pictures with noise of many sizes on its inputs or its weights."""
    if run.full:
        (x, y), test = (fashion(split, data_dir=run.data_dir) for split in ("train", "test"))
        shown, judged, batch, arms = 2000, 5000, 100, (NONE, *INPUTS, *WEIGHTS)
    else:
        x, y, *test = digits()
        shown, judged, batch, arms = 300, 1000, 50, (NONE, *INPUTS[1:3], *WEIGHTS[1:])
        pairs = min(pairs, 3)
    x, test = x.flatten(1), (test[0].flatten(1), test[1])
    models: dict[Arm, list[MLP]] = {arm: [] for arm in arms}
    scores: dict[Arm, list[list[float]]] = {arm: [] for arm in arms}
    for number in range(pairs):
        own = run.seed.child(f"pair {number}")
        order = torch.randperm(len(x), generator=own.child("data").torch())
        train, held = order[:shown], order[shown : shown + judged]
        for kind, sigma in arms:
            model = MLP([x.shape[1], hidden, hidden, 10], rng=own.child("init").torch())
            fit(
                model, (x[train], y[train]), Supervised(F.cross_entropy),
                Adam(model.parameters()), epochs=epochs, batch_size=batch,
                callbacks=[NOISES[kind](sigma), OneCycle(0.01)], seed=own, run=run,
                name=f"{kind}-{sigma}-{number}",
            )
            models[kind, sigma].append(model)
            scores[kind, sigma].append([
                evaluate(model, data, {"accuracy": accuracy})["accuracy"]
                for data in ((x[held], y[held]), test)
            ])
    validated, tested = (
        {arm: torch.tensor(found, dtype=torch.float64)[:, of] for arm, found in scores.items()}
        for of in (0, 1)
    )
    gains = {arm: paired(tested[arm], tested[NONE]) for arm in arms}
    best, best_weights = (
        max((arm for arm in arms if arm[0] == kind), key=lambda arm: float(validated[arm].mean()))
        for kind in ("inputs", "weights")
    )
    run.record(accuracy=float(tested[best].mean()), accuracy_without=float(tested[NONE].mean()))
    run.record(sigma=best[1], **gains[best].metrics("gain"))
    run.record(weight_sigma=best_weights[1], **gains[best_weights].metrics("weight_gain"))
    run.figure("pairs", gains[best].figure("test accuracy", ("without", "with input noise")))
    run.figure("sweep", _sweep(gains))
    run.figure("functions", _functions(run))
    run.keep(models[best][0])


def _sweep(gains: Mapping[Arm, Paired]) -> go.Figure:
    """Draw what noise of each size gains, with 95 % intervals."""
    series = []
    for kind in ("inputs", "weights"):
        found = {arm[1]: one for arm, one in gains.items() if arm[0] == kind}
        means = [one.mean for one in found.values()]
        halves = [one.high - one.mean for one in found.values()]
        series.append(Series(f"noise on {kind}", list(found), means, "other", "line", halves))
    return figures.draw(Plot(tuple(series), "σ", "gain of test accuracy", log="x"))


def _functions(run: Run) -> go.Figure:
    """Fit a function of one variable with ever more noise on it, and draw what is learned."""
    x, y = sine(run.seed.child("sine").torch(), 20, noise=0.3)
    at = torch.linspace(-1, 1, 201)[:, None]
    series, sigma = [Series("data", x[:, 0], y, "measured", "points")], 0.0
    for sigma in (0.0, 0.05, 0.15, 0.4):
        model = MLP([1, 64, 64, 1], activation="tanh", rng=run.seed.child("1-D").torch())
        fit(
            model, (x, y[:, None]), Supervised(F.mse_loss), Adam(model.parameters()),
            steps=2000 if run.full else 300, batch_size=len(x),
            callbacks=[InputNoise(sigma), OneCycle(0.01)], seed=run.seed.child("1-D"), run=run,
            name=f"function-{sigma}",
        )
        curve = outputs_of(model.cpu(), at)[:, 0]
        series.append(Series(f"σ = {sigma:g}", at[:, 0], curve, "other", "line"))
    # of all functions, the mean of the targets near by has the least loss under this noise
    near = torch.softmax(-((at - x[:, 0]) ** 2) / (2 * sigma**2), dim=1)
    series.append(Series(f"least loss at σ = {sigma:g}", at[:, 0], near @ y, "predicted", "line"))
    return figures.draw(Plot(tuple(series), "x", "y"))

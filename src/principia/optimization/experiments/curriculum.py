r"""Curriculum: what it reaches on data."""

import math
from typing import Annotated

import plotly.graph_objects as go
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import Adam

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.training import Supervised, accuracy, fit
from principia.networks.mlp import MLP
from principia.optimization.curriculum import Continuation, Rastrigin, pretrain, transfer

ARMS = (  # of the experiment
    *(("sigmoid", start) for start in ("random", "lecun", "orthogonal", "pretrained")),
    ("relu", "random"), ("relu", "pretrained"),
)


@experiment(
    reaches={"gain": at_least_goal(0.1)}, floor={"gain": at_least_goal(0.2)},
    source="Erhan et al. 2010, Why does unsupervised pre-training help deep learning?: the "
    "random start of the same net, after one epoch on 20,000 digits of MNIST",
)
def deep_sigmoid(
    run: Run, *, layers: Annotated[int, Range(3, 8)] = 6,
    width: Annotated[int, Range(32, 256)] = 64,
) -> None:
    """Starts deep sigmoid nets at random, by LeCun's rule, orthogonally, and from pretraining.

    Args:
        layers: Hidden layers.
        width: Units of each.
    """
    x, y, x_test, y_test = (one[:20_000] for one in handwriting(run))
    x, x_test = x.flatten(1), x_test.flatten(1)
    # epochs of fine-tuning, epochs of pretraining for each layer, step size
    tuning, before, lr = (1, 1, 1e-3) if run.full else (10, 3, 3e-3)
    later = layers * before  # the other starts train for as many steps in all
    reached, curves = {}, []
    for phi, start in ARMS:
        name, rng = f"{phi}-{start}", run.seed.child(phi).torch()
        sizes = [x.shape[1], *[width] * layers]
        encoder = MLP(sizes, activation=phi, rng=rng)
        net = MLP([*sizes, 10], activation=phi, rng=rng)
        if start == "pretrained":
            pretrain(
                encoder, x, steps=before * math.ceil(len(x) / 64),
                lr=0.01 if phi == "sigmoid" else 1e-3, seed=run.seed.child(f"{phi} layers"),
                run=run, name=f"{name}-layer",
            )
        transfer(encoder, net)  # without pretraining, the random start of all
        if start in ("lecun", "orthogonal"):
            _restart(net, start, rng)
        longer = later if phi == "sigmoid" and start != "pretrained" else 0
        history = fit(
            net, (x, y), Supervised(F.cross_entropy), Adam(net.parameters(), lr=lr),
            epochs=tuning + longer, batch_size=64, validation=(x_test, y_test),
            metrics={"accuracy": accuracy}, seed=run.seed.child("batches"), run=run, name=name,
        ).history
        scores = [row["validation_accuracy"] for row in history]
        reached[name] = scores[tuning - 1], scores[-1]
        if phi == "sigmoid":
            epochs = torch.arange(1, len(scores) + 1) + later - longer
            curves.append(Series(start, epochs, scores, "other", "line" if longer else "points"))
        if name == "sigmoid-pretrained":
            run.keep(net)
    (pretrained, _), (early, late) = reached["sigmoid-pretrained"], reached["sigmoid-random"]
    relu = reached["relu-pretrained"][0] - reached["relu-random"][0]
    run.record(gain=pretrained - early, gain_at_equal_steps=pretrained - late, relu_gain=relu)
    run.record(**{f"{name.replace('-', '_')}_accuracy": one for name, (one, _) in reached.items()})
    names = "epoch, those of pretraining counted", "test accuracy"
    run.figure("starts", figures.draw(Plot(tuple(curves), *names)))
    run.figure("continuation", _continuation_figure())


def _restart(net: MLP, start: str, rng: torch.Generator) -> None:
    """Draw weights anew, with outputs of the size of the inputs, and no biases."""
    for layer in net.layers:
        nn.init.zeros_(layer.bias)
        if start == "lecun":
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5, generator=rng)
        else:
            nn.init.orthogonal_(layer.weight, generator=rng)


def _continuation_figure() -> go.Figure:
    """Draw Rastrigin's function, its smoothings, and the minimum that is tracked through them."""
    sigmas = (0.6, 0.45, 0.35, 0.25, 0.15, 0.0)
    start = torch.full((1, 1), 3.3, dtype=torch.float64)
    path = torch.cat([start[None], Continuation(Rastrigin(1), sigmas, steps=200).minimize(start)])
    x = torch.linspace(-4, 4, 401, dtype=torch.float64)
    curves = [
        Series("h" if sigma == 0 else f"σ = {sigma:g}", x,
               Rastrigin(1, sigma=sigma).value(x[:, None]), "predicted" if sigma == 0 else "other")
        for sigma in sigmas
    ]
    heights = [
        float(Rastrigin(1, sigma=sigma).value(one))
        for sigma, one in zip((sigmas[0], *sigmas), path[:, 0], strict=True)
    ]
    tracked = Series("tracked minimum", path.flatten(), heights, style="points")
    return figures.draw(Plot((*curves, tracked), "x", "objective and its smoothings"))

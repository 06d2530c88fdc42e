r"""Initialization: what it reaches on data."""

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Label, Panels, Rule
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Supervised, accuracy, fit
from principia.lab.training.pairs import paired
from principia.networks.mlp import MLP
from principia.regularization.initialization import depth_profile, initialize_, lsuv_

LAYERS = 30  # of the moving picture
DECADES = 10  # that it shows on either side


@hero(moves="variance", frames=29)
def towers(
    seed: Seed, *, variance: Annotated[float, Range(0.5, 4)] = 2.0,
    activation: Literal["relu", "tanh", "identity"] = "relu",
    width: Annotated[int, Range(3, 100)] = 64,
) -> Panels:
    """A small factor per layer compounds to nothing or to infinity; one variance stands upright.

    Args:
        variance: Variance of the weights times the fan-in.
        activation: What stands behind each layer; it decides which variance is right.
        width: Units of a layer; narrow ones sway, even with the right variance.
    """
    rng = seed.torch()
    mlp = MLP([width] * (LAYERS + 1), activation=activation, bias=False, rng=rng)
    initialize_(mlp, "lecun", gain=math.sqrt(variance), rng=rng)
    x = torch.randn(4096 // width + 1, width, generator=rng).requires_grad_()
    signals = mlp.activations(x)
    end = torch.randn(signals[-1].shape, generator=rng)
    gradients = torch.autograd.grad(signals[-1], signals, end)
    return Panels((
        _tower(signals, -1, "blue", "signal, upward from layer 0"),
        _tower(gradients, 0, "orange", "gradient, downward from layer 30"),
    ))


def _tower(values: Sequence[Tensor], last: int, color: Any, title: str) -> Plot:
    """Draw how large the values of each layer are, one histogram above the other."""
    sizes = [one.detach().abs().log10() for one in values]
    edges = torch.linspace(-DECADES, DECADES, 81)
    x, y = [], []
    for layer, size in enumerate(sizes):  # one line to and fro, from each layer to the next
        counts = torch.histogram(size[size.isfinite()].cpu(), edges).hist
        seen = (counts > 0.01 * counts.max()).nonzero()[:, 0]
        near = torch.arange(int(seen[0]) - 1, int(seen[-1]) + 2) if len(seen) else seen
        heights = torch.nn.functional.pad(counts, (1, 1))[near + 1] / counts.max().clamp(min=1)
        places = (edges[:-1] + edges[1:])[near.clamp(0, len(counts) - 1)] / 2
        hill = [(round(a, 2), round(b, 3)) for a, b in zip(places.tolist(), heights.tolist(),
                                                           strict=True)]
        row = [(-DECADES - 1, 0.0), *hill, (DECADES + 1, 0.0)]  # the turns are out of sight
        for place, height in row[:: -1 if layer % 2 else 1]:
            x.append(place)
            y.append(layer + 1.8 * height)
    alive = sizes[last][sizes[last].isfinite()]
    middle, fate = float(alive.median()) if len(alive) else -math.inf, "survives"
    if abs(middle) > 2:
        fate, color = "explodes" if middle > 0 else "dies out", "red"
    at = LAYERS + 3 if last else -2
    return Plot((
        Rule("", x=0.0, role="gray"), Series("layers", x, y, color, "line"),
        Label(fate, max(-7.0, min(7.0, middle)), at, color),
    ), "size of a value, in powers of ten", "layer", title=title,
        x_range=(-DECADES, DECADES), y_range=(-3.5, LAYERS + 4.5))


@experiment(
    reaches={
        "he_accuracy": at_least_goal(0.95), "default_accuracy": at_most_goal(0.2),
        "orthogonal_accuracy": at_least_goal(0.95), "gain_low": at_least_goal(0.5),
    },
    floor={
        "gain": at_least_goal(0.5), "he_accuracy": at_least_goal(0.8),
        "orthogonal_accuracy": at_least_goal(0.8), "default_accuracy": at_most_goal(0.2),
    },
    source="He et al. 2015, fig. 3: 30 layers learn from variance 2/n and stall from Xavier's, "
    "which has no goal here; at full budget the rate rises and falls, for 3 epochs to suffice",
)
def deep_relu(
    run: Run, *, pairs: Annotated[int, Range(2, 10)] | None = None,
    lr: Annotated[float, Range(0.001, 0.1)] = 0.01,
) -> None:
    """Trains a plain ReLU network of 30 layers on MNIST, or of 20 on 8 x 8 digits when quick.

    Quick, it takes 12 epochs of gradient descent at a constant rate. At full budget there are only
    3 epochs, in which the rate rises to twice as much and falls to 0 (one cycle), for all starts;
    Glorot's is among them, as in the paper, and nothing is asked of it.

    Args:
        pairs: How often the starts are compared; by default 3 times at full budget, else twice.
        lr: Learning rate of plain gradient descent.
    """
    x, y, x_test, y_test = handwriting(run)
    # ReLU layers draw inputs together that are not centered, until the last ones cannot tell them
    center, scale = x.mean(), x.std()
    x, x_test = ((one.flatten(1) - center) / scale for one in (x, x_test))
    depth, width, batch_size, epochs = (30, 160, 64, 3) if run.full else (20, 64, 32, 12)
    sizes = [x.shape[1], *[width] * (depth - 1), 10]
    found: dict[str, list[float]] = {"he": [], "default": [], "orthogonal": []}
    if run.full:
        found["glorot"] = []
    for pair, scheme in itertools.product(range(pairs or (3 if run.full else 2)), found):
        seed = run.seed.child(f"pair {pair}")
        mlp = _started(sizes, scheme, x, seed)
        trained = fit(
            mlp, (x, y), Supervised(F.cross_entropy), torch.optim.SGD(mlp.parameters(), lr=lr),
            epochs=epochs, batch_size=batch_size, validation=(x_test, y_test),
            callbacks=[OneCycle(2 * lr, rise=0.1)] if run.full else [],
            metrics={"accuracy": accuracy}, seed=seed, run=run, name=f"{scheme}_{pair}",
        )
        found[scheme].append(trained.history[-1]["validation_accuracy"])
        if scheme == "he":
            run.keep(mlp)
    gain = paired(found["he"], found["default"])
    run.record(**{f"{scheme}_accuracy": sum(one) / len(one) for scheme, one in found.items()})
    run.record(**gain.metrics("gain"))
    run.figure("pairs", gain.figure("test accuracy", ("torch's start", "He's start")))
    profiles = {
        scheme: depth_profile(_started(sizes, scheme, x, run.seed), x[:256], rng=run.seed.torch())
        for scheme in ("default", "lecun", "glorot", "he", "orthogonal", "lsuv")
    }
    for place, name, what in ((1, "forward", "signal"), (2, "backward", "gradient")):
        lines = (Series(one, range(depth + 1), profiles[one][place], "other") for one in profiles)
        picture = Plot(tuple(lines), "layer", f"second moment of the {what}", "y")
        run.figure(name, figures.draw(picture))


def _started(sizes: Sequence[int], scheme: str, x: Tensor, seed: Seed) -> MLP:
    """Build a network with a start; orthogonal weights get the gain of rectifiers."""
    rng = seed.child("start").torch()
    mlp = MLP(sizes, rng=rng)
    if scheme == "lsuv":
        lsuv_(mlp, x[:256], rng=rng)
        return mlp
    gain = math.sqrt(2) if scheme == "orthogonal" else None
    return initialize_(mlp, scheme, gain=gain, rng=rng)  # type: ignore[arg-type]

r"""Residual networks: what it reaches on data."""

import copy
import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Role, Series
from principia.lab.params import PositiveInt, Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.training import Supervised, accuracy, evaluate, fit, learner
from principia.networks.mlp import MLP
from principia.networks.residual import DenseBlock, ResidualMLP, he_init, he_linear

COLORS: Mapping[str, Role] = {"plain": "predicted", "residual": "measured", "dense": "other"}


@learner
def network(
    inputs: PositiveInt, outputs: PositiveInt, rng: torch.Generator, *, width: PositiveInt = 64,
    depth: PositiveInt = 8
) -> nn.Module:
    """Builds a residual network with branches scaled by 1/√depth for any table.

    Args:
        width: Width of the states.
        depth: Number of residual layers.
    """
    return ResidualMLP(inputs, width=width, depth=depth, n_out=outputs, alpha=depth**-0.5, rng=rng)


@experiment(
    reaches={"loss_ratio_at_50": at_most_goal(0.5)},
    floor={"loss_ratio_at_50": at_most_goal(0.1), "loss_factor_at_5": at_most_goal(3)},
    source="He, Zhang, Ren and Sun 2016, CVPR, fig. 1 and 6, in small: with more layers the "
    "training error of plain networks rises, that of residual networks does not",
)
def deep_mlp(
    run: Run, *, width: Annotated[int, Range(8, 128)] = 32,
    seeds: Annotated[int, Range(1, 10)] | None = None,
    lr: Annotated[float, Range(1e-4, 0.1)] = 3e-3,
) -> None:
    """Trains plain, residual and dense networks of up to 50 hidden layers to read digits.

    Args:
        width: Width of the plain and the residual networks.
        seeds: Trainings of each; by default 3 at full budget, else 1.
        lr: Learning rate of Adam.
    """
    x, y = handwriting(run)[:2]
    data, means, models = (x.flatten(1), y), {}, {}
    depths, steps = ((5, 10, 20, 50), 1000) if run.full else ((5, 50), 200)
    repeats = seeds or (3 if run.full else 1)
    for kind, depth in itertools.product(COLORS, depths):
        losses = []
        for number in range(1 if kind == "dense" else repeats):
            seed = run.seed.child(number)
            model = _reader(kind, x[0].numel(), width, depth, seed.child("init").torch())
            fit(
                model, data, Supervised(functional.cross_entropy),
                torch.optim.Adam(model.parameters(), lr=lr, fused=True), steps=steps,
                batch_size=128, seed=seed, run=run, name=f"{kind}-{depth}-{number}",
            )
            losses.append(evaluate(model, data, {"loss": functional.cross_entropy})["loss"])
            models[kind] = model  # in the end one of the deepest
        means.setdefault(kind, {})[depth] = sum(losses) / len(losses)
        run.record(**{f"{kind}_loss_at_{depth}": means[kind][depth]})
    run.keep(models["residual"])
    shallow, deep = (means["residual"][depth] / means["plain"][depth] for depth in (5, 50))
    run.record(loss_ratio_at_50=deep, loss_factor_at_5=max(shallow, 1 / shallow))
    run.figure("depth", _drawn(means, "hidden layers", "training loss", log="xy"))
    places, few = range(1, 50, 1 if run.full else 6), (data[0][:1000], y[:1000])
    lesions = {kind: _lesions(models[kind], few, places) for kind in ("plain", "residual")}
    for kind, found in lesions.items():
        run.record(**{f"{kind}_accuracy_without_a_layer": sum(found.values()) / len(found)})
    run.figure("one_layer_removed", _drawn(lesions, "layer taken out of 50", "training accuracy"))


def _reader(kind: str, n: int, width: int, depth: int, rng: torch.Generator) -> nn.Module:
    """Build a network with so many hidden layers; plain and residual ones have equal weights."""
    if kind == "residual":
        return ResidualMLP(n, width=width, depth=depth - 1, n_out=10, alpha=depth**-0.5, rng=rng)
    if kind == "dense":
        block = DenseBlock(n, growth=max(1, width // 8), depth=depth, rng=rng)
        return nn.Sequential(block, he_linear(block.widths[-1], 10, rng))
    plain = MLP([n, *[width] * depth, 10], rng=rng)
    for layer in plain.layers:
        he_init(layer, rng)
    return plain


def _drawn(curves: dict[str, dict[int, float]], x: str, y: str, log: Any = "") -> Any:
    """Draw one line a kind of network, with its points."""
    series = [
        Series(kind, [*one], [*one.values()], COLORS[kind], "line") for kind, one in curves.items()
    ]
    figure = figures.draw(Plot(tuple(series), x, y, log))
    return figure.update_traces(mode="lines+markers")


def _lesions(
    model: nn.Module, data: tuple[Tensor, Tensor], places: Sequence[int]
) -> dict[int, float]:
    """Take one hidden layer out of a trained network, then another, and measure the accuracy."""
    found = {}
    for place in places:
        rest: Any = copy.deepcopy(model)
        if isinstance(model, MLP):
            del rest.layers[place]  # number 0 maps from the inputs
        else:
            del rest.body.branches[place - 1]
        found[place] = evaluate(rest, data, {"accuracy": accuracy})["accuracy"]
    return found

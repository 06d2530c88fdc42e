r"""The receptive field: what it reaches on data."""

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from principia.convolution.receptive_field import effective_field, path_counts, receptive_field
from principia.lab import figures
from principia.lab.heroes import hero
from principia.lab.params import PositiveInt, Range
from principia.lab.pictures import Panels, Plot, Rule, Series
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import learner
from principia.lab.training.classifiers import learn_classes
from principia.regularization.initialization import initialize_

INPUTS = 32  # of the moving picture
STRIP = 64  # pixels of the experiment
DEPTH = 5
FEW, SWEEP = (5, 31, 32), (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 30, 31, 32, 33, 40, 48, 63)
STACKS = {  # layers (kernel, stride, dilation) with the same weights
    "plain": [(2, 1, 1)] * DEPTH,
    "dilated": [(2, 1, 2**place) for place in range(DEPTH)],
    "strided": [(2, 2, 1)] * DEPTH,
}


@hero(moves="layers", frames=6)
def paths(
    seed: Seed, *, layers: Annotated[int, Range(0, 5)] = 5,
    growth: Annotated[int, Range(1, 3)] = 2, stride: Annotated[int, Range(1, 2)] = 1,
) -> Panels:
    """Doubled dilations reach exponentially far, by one path each; plain layers crowd together.

    Args:
        layers: How many layers the unit stands above the inputs, with kernels of two places.
        growth: Factor from the gap of a layer to that of the next; 1 is a plain stack, and 3 leaves
            holes.
        stride: Steps from a unit to the next in each layer.
    """
    stack = [(2, stride, growth**place) for place in range(layers)]
    jumps = [stride**place for place in range(layers + 1)]
    level, edges = {INPUTS - 1}, []
    for under, (_, _, d) in reversed([*enumerate(stack)]):  # from the unit down to the inputs
        step = d * jumps[under]
        joined = [(one, one - t * step) for one in sorted(level) for t in (0, 1)]
        edges += [((a, under + 1), (b, under)) for a, b in joined if b >= 0]
        level = {b for _, b in joined if b >= 0}
    idle = [
        (INPUTS - 1 - m * jump, floor) for floor, jump in enumerate(jumps) if floor
        for m in range(-(-INPUTS // jump))
    ]
    counts, field = torch.zeros(INPUTS), receptive_field(stack).size
    shown = path_counts(stack).flip(0)[:INPUTS].flip(0).float()
    counts[INPUTS - len(shown):] = shown
    within = torch.arange(INPUTS) >= INPUTS - field
    groups = {
        "gray": ~within, "red": within & (counts == 0), "green": counts == 1, "purple": counts > 1,
    }
    lines = [[one for a, b in edges for one in (a[axis], b[axis], math.nan)] for axis in (0, 1)]
    joints = [[end[axis] for edge in edges for end in edge if end[1]] for axis in (0, 1)]
    holes, most = int(groups["red"].sum()), int(counts.max())
    words = f"{field} inputs, " + (
        f"{holes} of these {min(field, INPUTS)} never reached" if holes else
        "one path to each" if most == 1 else f"up to {most} paths to one")
    colored = [
        Series("", torch.arange(INPUTS)[mask], torch.zeros(int(mask.sum())), role, "points")  # type: ignore[arg-type]
        for role, mask in groups.items()
    ]
    bars = [
        Series("", range(INPUTS), counts * groups[role], role, "bars")  # type: ignore[arg-type]
        for role in ("green", "purple")
    ]
    ends = (-0.8, INPUTS - 0.2)
    return Panels((
        Plot((
            Series("", [one[0] for one in idle], [one[1] for one in idle], "gray", "points"),
            Series("", lines[0], lines[1], "blue", "line"),
            Series("", joints[0], joints[1], "blue", "points"), *colored,
            Series("", [INPUTS - 1], [layers], "orange", "points"),
        ), title=words, bare=True, x_range=ends, y_range=(-0.4, 5.4)),
        Plot(tuple(bars), x="input", y="paths", title="paths from the unit to each input",
             x_range=ends, y_range=(0, 10.5)),
    ), columns=1)


@learner
def network(
    shape: tuple[int, int, int], outputs: PositiveInt, rng: torch.Generator, *,
    channels: PositiveInt = 32, dilations: tuple[PositiveInt, ...] = (1, 2, 4, 8),
) -> nn.Module:
    """Builds a stack of dilated convolutions that keeps the resolution, and averages at the end.

    Args:
        channels: Maps of each layer.
        dilations: Of the layers, from the picture on; the kernels are 3 x 3.
    """
    sizes, layers = [shape[0], *[channels] * len(dilations)], []
    for (n, m), d in zip(itertools.pairwise(sizes), dilations, strict=True):
        conv = skip_init(nn.Conv2d, n, m, 3, padding=d, dilation=d)
        layers += [conv, nn.ReLU()]
    last = skip_init(nn.Linear, channels, outputs)
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), last)
    return initialize_(net, "he", rng=rng)


@experiment(
    reaches={"seen_accuracy": at_least_goal(0.95), "unseen_accuracy": at_most_goal(0.6)},
    trains=True,
    floor={"seen_accuracy": at_least_goal(0.9), "unseen_accuracy": at_most_goal(0.6)},
    source="by the formula: what lies outside of the field cannot be known, so that half of the "
    "answers are right there, and inside all can be",
)
def how_far(
    run: Run, *, channels: Annotated[int, Range(4, 64)] = 16,
    samples: Annotated[int, Range(200, 20_000)] | None = None,
    epochs: Annotated[int, Range(1, 100)] = 12,
) -> None:
    """Asks one unit whether two marks on a strip are equal, farther and farther apart.

    The second mark is where the unit stands, the first one some pixels before; all else is noise.
    Nets with and without dilation have the same weights, and are trained anew for each distance.

    Args:
        channels: Units of each layer at a place.
        samples: Strips to learn from; by default 4,000 at full budget, else 1,000.
        epochs: How often they are gone through.
    """
    samples = samples or (4000 if run.full else 1000)
    kinds = ("plain", "dilated")
    fields = {kind: receptive_field(STACKS[kind]).size for kind in STACKS}
    distances = SWEEP if run.full else FEW
    right: dict[str, list[float]] = {kind: [] for kind in kinds}
    kept = None
    for distance in run.steps(distances, "distances"):
        rng = run.seed.child(distance).torch()
        data, test = _strips(rng, samples, distance), _strips(rng, 2000, distance)
        for kind in kinds:
            net = _net(STACKS[kind], channels, run.seed.child(f"{kind} {distance}").torch())
            right[kind].append(learn_classes(
                run, net, data, test, epochs=epochs, lr=0.01, batch_size=50,
                name=f"{kind}-{distance}",
            ))
            if kind == "dilated" and distance == fields[kind] - 1:
                kept = net, test[0][:1]
    inside, outside = (
        [one for kind in kinds for one, distance in zip(right[kind], distances, strict=True)
         if (distance < fields[kind]) == seen] for seen in (True, False)
    )
    run.record(seen_accuracy=min(inside), unseen_accuracy=max(outside))
    run.record(plain_field=fields["plain"], dilated_field=fields["dilated"])
    if kept is not None:
        run.keep(kept[0], example=kept[1])
    series = [
        Series(kind, distances, right[kind], "measured" if kind == "dilated" else "other", "line")
        for kind in kinds
    ]
    rules = [Rule(f"end of the {kind} field", x=fields[kind] - 0.5) for kind in kinds]
    run.figure("distances", figures.draw(Plot(
        (*series, *rules), "pixels from mark to mark", "test accuracy", y_range=(0.4, 1.02))))
    run.figure("fields", figures.draw(_maps(channels, run.seed.child("maps"))))


def _strips(rng: torch.Generator, count: int, distance: int) -> tuple[Tensor, Tensor]:
    """Draw strips with two marks of either sign, and whether these are equal."""
    x = 0.2 * torch.randn(count, 1, STRIP, generator=rng)
    marks = torch.randint(2, (count, 2), generator=rng)
    x[:, 0, [STRIP - 1 - distance, STRIP - 1]] = 2.0 * marks - 1
    return x, (marks[:, 0] == marks[:, 1]).long()


def _net(
    stack: Sequence[tuple[int, int, int]], channels: int, rng: torch.Generator
) -> nn.Sequential:
    """Build the stack of one unit, above the last pixels of the strip, and two scores."""
    layers = _stack(stack, channels)
    crop = nn.ConstantPad1d((receptive_field(stack).size - STRIP, 0), 0.0)  # less than 0: cuts
    net = nn.Sequential(crop, *layers, nn.Flatten(), skip_init(nn.Linear, channels, 2))
    initialize_(net, "he", rng=rng)
    return net


def _stack(stack: Sequence[tuple[int, int, int]], channels: int) -> list[Any]:
    sizes, layers = [1, *[channels] * len(stack)], []
    for (n, m), (k, s, d) in zip(itertools.pairwise(sizes), stack, strict=True):
        layers += [skip_init(nn.Conv1d, n, m, k, stride=s, dilation=d), nn.ReLU()]
    return layers


def _maps(channels: int, seed: Seed) -> Plot:
    """Draw where the gradient of the unit lies in each kind of stack, for random weights."""
    series = []
    for kind, stack in STACKS.items():
        size = receptive_field(stack).size
        net = nn.Sequential(*_stack(stack, channels))
        shares, _ = effective_field(net, (1, size), (0,), draws=100, rng=seed.child(kind).torch())
        series.append(Series(kind, range(1 - size, 1), shares, "other", "line"))
    return Plot(tuple(series), "place of the input, from the unit", "share of the squared gradient",
                "y")

r"""Modes: what it reaches on data."""

import functools
import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, jacfwd, jacrev, jvp, vmap
from torch.nn import functional as F

from principia.gradients.claims.modes import deep_tanh, loss_of_weights, stored_bytes
from principia.gradients.modes import Mode, checkpointed
from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.forward_mode import warm_up
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.timing import fastest
from principia.networks.mlp import MLP

ENTRIES = 2**12  # of the Jacobians in the race of the modes


@experiment(
    reaches={
        "forward_speedup": at_least_goal(3), "reverse_speedup": at_least_goal(3),
        "crossover": Range(1 / 8, 8), "mnist_speedup": at_least_goal(100),
        "mnist_difference": at_most_goal(1e-4),
    },
    floor={
        "forward_speedup": at_least_goal(3), "reverse_speedup": at_least_goal(3),
        "crossover": Range(1 / 8, 8),
    },
    source="Baydin et al. 2018, sec. 3.2: n passes forward or m in reverse; the times are ours",
    timed=True,
)
def crossover(
    run: Run, *, width: Annotated[int, Range(64, 512)] = 256,
    points: Annotated[int, Range(1, 32)] = 16, repeats: Annotated[int, Range(3, 50)] = 6,
) -> None:
    """Times both modes on Jacobians of 4096 entries, 64 times as tall as wide to the other way."""
    warm_up()
    shapes = [(2**k, ENTRIES // 2**k) for k in range(3, 10)]
    times: dict[Mode, list[float]] = {"forward": [], "reverse": []}
    for n, m in run.steps(shapes, "shapes"):
        net = MLP([n, width, width, m], activation="tanh", rng=run.seed.child(n).torch())
        # several points at once, so that arithmetic and not the start of each operation is timed
        x = torch.randn(points, n, generator=run.seed.child(m).torch())
        jobs = (functools.partial(vmap(transform(net)), x) for transform in (jacfwd, jacrev))
        for mode, seconds in zip(times, fastest(*jobs, repeats=repeats), strict=True):
            times[mode].append(seconds)
    ratio = np.log(np.divide(times["forward"], times["reverse"]))  # of forward to reverse mode
    side = np.log([n / m for n, m in shapes])
    # it rises with n/m; what noise bends is flattened before it is inverted
    meeting = math.exp(float(np.interp(0.0, np.maximum.accumulate(ratio), side)))
    run.record(
        forward_speedup=math.exp(-ratio[0]), reverse_speedup=math.exp(ratio[-1]), crossover=meeting
    )
    run.figure("modes", _mode_figure(np.exp(side), times))
    run.figure("memory", _memory_figure(run.seed, 32))
    if run.full:
        x, y, *_ = handwriting(run)
        speedup, difference = _both_gradients(run.seed, x[:100].flatten(1), y[:100], repeats)
        run.record(mnist_speedup=speedup, mnist_difference=difference)


def _mode_figure(sides: Any, times: Mapping[Mode, list[float]]) -> Any:
    series = [
        Series(f"{mode} mode", sides, 1000 * np.array(seconds), "other", "line")
        for mode, seconds in times.items()
    ]
    return figures.draw(Plot(
        tuple(series), "inputs n / outputs m, at n m = 4096", "milliseconds", log="xy"
    ))


def _memory_figure(seed: Seed, batch: int) -> Any:
    depths, x = [side**2 for side in range(2, 13, 2)], torch.ones(batch, 16, dtype=torch.float64)
    nets = [deep_tanh(seed, 16, depth) for depth in depths]
    kept = {
        "no checkpoints": [stored_bytes(net, x) / 1024 for net in nets],
        "√L checkpoints": [stored_bytes(checkpointed(net), x) / 1024 for net in nets],
    }
    series = [Series(name, depths, sizes, "other", "line") for name, sizes in kept.items()]
    return figures.draw(Plot(tuple(series), "layers L", "KiB stored for the way back"))


def _both_gradients(seed: Seed, x: Tensor, y: Tensor, repeats: int) -> tuple[float, float]:
    """Compare the gradient of a loss by all weights in both modes: time ratio, relative gap."""
    net = MLP([x.shape[1], 8, 10], rng=seed.child("mnist").torch())
    f, theta = loss_of_weights(net, lambda out: F.cross_entropy(out, y), x)

    def forward() -> Tensor:  # as jacfwd does, but in portions that fit into the memory
        return vmap(lambda v: jvp(f, (theta,), (v,))[1], chunk_size=256)(torch.eye(len(theta)))

    reverse = functools.partial(grad(f), theta)
    warm_up()
    slow, fast = fastest(forward, reverse, repeats=repeats)
    return slow / fast, float((forward() - reverse()).norm() / reverse().norm())

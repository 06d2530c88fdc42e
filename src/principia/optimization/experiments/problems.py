r"""Test problems: marbles roll in six small worlds."""

import functools
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from principia.lab.evidence import Role
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Field, Panels, Plot, Series
from principia.lab.seeds import Seed
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import (
    DoubleWell,
    Problem,
    Quadratic,
    Quartic,
    Saddle,
    ScalarNet,
    SineBowl,
)

MARBLES = 40
STEPS = 60
NEAR = 1e-4  # above the minimum: the marble is there
WORLDS: dict[str, tuple[Problem, float, float]] = {  # with half its width, and the height shown
    "ripples: not a bowl": (SineBowl(), 4.0, 18.0),
    "flat bottom: ever slower": (Quartic(), 2.0, 4.4),
    "two wells: the start decides": (DoubleWell(), 1.7, 0.8),
    "ravine: steep across, flat along": (Quadratic([0.1, 2.0]), 3.0, 3.0),
    "valley: many minima": (ScalarNet(), 3.0, 3.0),
    "saddle: flat, but no minimum": (Saddle(), 2.0, 2.0),
}


@hero(moves="time")
def worlds(
    seed: Seed, *, time: Annotated[int, Range(0, STEPS)] = 20,
    step: Annotated[float, Range(0.01, 1.0)] = 0.05,
    momentum: Annotated[float, Range(0, 0.98)] = 0.5,
) -> Panels:
    """Each world breaks one hope about going downhill: green has arrived, red never will.

    Args:
        time: Steps that the marbles have taken.
        step: Length of a step for a slope of 1; beyond 0.25 the ripples throw marbles out.
        momentum: Share of its last move that a marble repeats.
    """
    plots = []
    for (name, (problem, width, height)), track in zip(
        WORLDS.items(), _tracks(seed, step, momentum), strict=True
    ):
        at = track[time]
        above = problem.value(at) - float(problem.minimum or 0)
        gone = ~(at.abs() <= width).all(dim=1)  # a NaN is gone, too
        stuck = (problem.gradient(at).norm(dim=1) < 0.01) & (above > 0.01)
        fates: dict[Role, Tensor] = {
            "blue": above >= NEAR, "green": above < NEAR, "red": gone | stuck,
        }
        fates["blue"] &= ~fates["red"]
        seen = at.nan_to_num(width).clamp(-width, width)  # who left stays at the edge, in red
        flat = seen.shape[1] == 1
        y = problem.value(seen) if flat else seen[:, 1]
        x, y = seen[:, 0].round(decimals=3), y.round(decimals=3)
        plots.append(Plot(
            (_ground(name), *(
                Series("", x[held], y[held], color, "points") for color, held in fates.items()
            )),
            title=name, bare=True, x_range=(-1.05 * width, 1.05 * width),
            y_range=(-0.06 * height, height) if flat else (-1.05 * height, 1.05 * height),
        ))
    return Panels(tuple(plots), columns=3)


@functools.lru_cache(maxsize=4)  # all frames are moments of one run
def _tracks(seed: Seed, step: float, momentum: float) -> list[Tensor]:
    """Let the marbles roll from evenly spread places; a fifth of the last on the ridge."""
    rng, tracks = seed.torch(), []
    for problem, width, _ in WORLDS.values():
        start = torch.rand(MARBLES, problem.theta.shape[1], generator=rng, dtype=torch.float64)
        start[:, 0] = (torch.arange(MARBLES) + start[:, 0]) / MARBLES
        start = 0.95 * width * (2 * start - 1)
        if isinstance(problem, Saddle):
            start[::5, 1] = 0.0
        world = problem.at(start)
        sgd = torch.optim.SGD(world.parameters(), lr=step, momentum=momentum)
        tracks.append(descend(world, sgd, STEPS, record=("theta",))["theta"])
    return tracks


@functools.cache
def _ground(name: str) -> Series | Field:
    """Draw what the marbles roll on: a curve, or a map of heights."""
    problem, width, _ = WORLDS[name]
    flat = problem.theta.shape[1] == 1
    side = np.linspace(-1.05 * width, 1.05 * width, 85 if flat else 29).round(3)
    if flat:
        heights = problem.value(torch.from_numpy(side)[:, None]).round(decimals=3)
        return Series("", side, heights, "gray", "line")
    heights = problem.value(torch.tensor(np.stack(np.meshgrid(side, side), axis=-1)))
    return Field(side, side, (heights - heights.min()).sqrt(), "contours")

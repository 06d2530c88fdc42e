r"""Dense associative memory: what it reaches on data."""

import functools
import math
from typing import Annotated

import torch
from torch import Tensor

from principia.connectionism.dense_memory import ModernHopfield
from principia.connectionism.hopfield import Hopfield
from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import PositiveFloat, PositiveInt, Range
from principia.lab.pictures import Arrows, Field, Label, Panels
from principia.lab.pictures.marks import Color
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed

SHADES: tuple[Color, ...] = ("blue", "orange", "green", "pink", "purple", "teal")  # of memories
GROUNDS = torch.tensor([0, 1, 2, 3, 4, 6, 9])  # their lighter shades in a map, and gray
REACH = 1.5  # of the plane of queries, to each side
STEPS = 40  # of recall, after which it stands still
NEAR = 0.25  # from a memory that is recalled


@hero(moves="beta", frames=24)
def pull(
    seed: Seed, *, beta: Annotated[float, Range(0.4, 25)] = 8.0,
    angle: Annotated[float, Range(0, 300)] = 105.0,
    radius: Annotated[float, Range(0, 1.3)] = 0.6,
) -> Panels:
    """One knob turns the mean of all memories into recall of one, and the step is attention.

    Args:
        beta: How sharply the query chooses; too little, and all end in one blur.
        angle: Where the query points, in degrees.
        radius: How far it is from the middle, where it belongs to no memory.
    """
    memories = _memories(seed)
    net = ModernHopfield(memories, beta=beta)
    turn = math.radians(angle)
    way = [radius * torch.tensor([math.cos(turn), math.sin(turn)], dtype=torch.float64)]
    for _ in range(STEPS):
        way.append(net(way[-1]))
    path, weights = torch.stack(way), (beta * memories @ way[0]).softmax(0)
    winner = int(_winners(memories, path[-1:]))
    color: Color = "red" if winner == len(SHADES) else SHADES[winner]
    names = [chr(ord("A") + number) for number in range(len(SHADES))]
    return Panels((
        Plot((
            Field(*_territories(seed, beta), style="classes"),
            *(Arrows(path[:1][: weight > 0.01], one[None][: weight > 0.01], role=shade,
                     width=0.5 + 8 * weight)
              for one, shade, weight in zip(memories, SHADES, weights.tolist(), strict=True)),
            Label(names, memories[:, 0], memories[:, 1], size=20),
            Series("", path[:, 0], path[:, 1], "ink", "line"),
            Series("", path[:1, 0], path[:1, 1], "ink", "points"),
            Label("query", path[0, 0], path[0, 1], side="below"),
            Label(f"recalled: {[*names, 'a blur'][winner]}", 0, -1.38, color, size=16),
            Label("◉", path[-1, 0], path[-1, 1], color, size=22),
        ), title="where each query ends", square=True, bare=True,
            x_range=(-REACH, REACH), y_range=(-REACH, REACH)),
        Plot((
            *(Series("", [name], [weight], shade, "bars")
              for name, shade, weight in zip(names, SHADES, weights.tolist(), strict=True)),
        ), x="memory", y="attention of the query", title=f"β = {beta:.3g}", y_range=(0, 1.1)),
    ))


@functools.lru_cache(maxsize=4)  # a query that moves changes no territory
def _territories(seed: Seed, beta: float) -> tuple[Tensor, Tensor, Tensor]:
    """Color every place of the plane by the memory that a query from there recalls."""
    across = torch.linspace(-REACH, REACH, 40, dtype=torch.float64)
    places = torch.cartesian_prod(across, across).flip(1)
    memories = _memories(seed)
    ends = ModernHopfield(memories, beta=beta).recall(places, steps=STEPS)
    return across, across, GROUNDS[_winners(memories, ends)].view(40, 40)


def _winners(memories: Tensor, ends: Tensor) -> Tensor:
    """Number the memory in which each query ended; one more is none of them."""
    apart, nearest = torch.cdist(ends, memories).min(dim=1)
    return nearest.where(apart < NEAR, len(memories))


def _memories(seed: Seed) -> Tensor:
    noise = torch.rand(2, len(SHADES), generator=seed.torch(), dtype=torch.float64) - 0.5
    angles = (torch.arange(len(SHADES)) + 0.5 * noise[0]) * 2 * math.pi / len(SHADES)
    return torch.stack([angles.cos(), angles.sin()], dim=1) * (1 + 0.2 * noise[1])[:, None]


@experiment(
    reaches={"exact_retrieval": at_least_goal(0.95), "hopfield_retrieval": at_most_goal(0)},
    floor={"exact_retrieval": at_least_goal(0.70), "hopfield_retrieval": at_most_goal(0)},
    source="Ramsauer et al. (2021), theorems 3 to 5: one update retrieves separated patterns",
)
def complete_digits(run: Run, *, beta: PositiveFloat = 5.0, queries: PositiveInt = 500) -> None:
    """Completes digits whose lower half is missing: 10,000 of MNIST, or 200 of 8 x 8 when quick."""
    rng = run.seed.torch()
    images = handwriting(run)[0]
    images = images[torch.randperm(len(images), generator=rng)[: 10_000 if run.full else 200]]
    side, pixels = images.shape[-1], images.flatten(1)
    mean = pixels.mean(dim=0)
    lengths = (pixels - mean).norm(dim=1, keepdim=True) / side
    stored = (pixels - mean) / lengths
    upper = torch.arange(side * side) < side * side // 2
    query = stored[:queries] * upper  # centered: what is missing is the mean of all images

    tenth, betas = stored[: len(stored) // 10], [10 ** (k / 2) for k in range(-4, 3)]
    run.record(
        exact_retrieval=_hits(stored, query, beta),
        exact_retrieval_of_a_tenth=_hits(tenth, query, beta),
    )
    binary = torch.where(pixels > 0.5, 1.0, -1.0)
    start = torch.where(upper, binary[:queries], -1.0)
    settled = Hopfield(side * side).store(binary).recall(start, rng=rng).states
    run.record(hopfield_retrieval=float((settled == binary[:queries]).all(dim=1).double().mean()))

    curves = tuple(
        Series(f"{len(one)} patterns", betas, [_hits(one, query, b) for b in betas], "other")
        for one in (stored, tenth)
    )
    run.figure("hit_rate", figures.draw(Plot(curves, "β", "exact retrieval", "x")))
    trios = torch.stack([query, ModernHopfield(stored, beta=beta)(query), stored[:queries]], dim=1)
    shown = (trios * lengths[:queries, None] + mean)[:5].reshape(-1, side, side)
    titles = ["query", "retrieved", "truth", *[""] * (len(shown) - 3)]
    run.figure("completed", figures.images(list(shown), titles, columns=3))


def _hits(stored: Tensor, query: Tensor, beta: float) -> float:
    """Share of queries, made of the first patterns, that end within 1 % of theirs."""
    query = query[: len(stored)]
    truth = stored[: len(query)]
    off = (ModernHopfield(stored, beta=beta)(query) - truth).norm(dim=1)
    return float((off <= 0.01 * truth.norm(dim=1)).double().mean())

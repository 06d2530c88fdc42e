r"""The Hopfield network: what it reaches on data."""

import functools
import itertools
from typing import Annotated, Literal

import torch
from torch import Tensor

from principia.connectionism.claims.hopfield import end_overlaps, overlap_curve
from principia.connectionism.hopfield import Hopfield, overlap
from principia.lab import figures
from principia.lab.data.mnist import embedded_mnist
from principia.lab.data.synthetic import random_signs
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import Range, UnitInterval
from principia.lab.pictures import Image, Label, Panels
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed

RULES: tuple[Literal["hebb", "projection"], ...] = ("hebb", "projection")
LETTER = """
................
..##########....
..###########...
..##.......###..
..##........##..
..##........##..
..##.......###..
..###########...
..##########....
..##............
..##............
..##............
..##............
..##............
................
................
"""
MOMENTS = 24  # of the moving picture, in which every unit has two turns
SIDE = 16


@hero(moves="time", frames=MOMENTS + 1)
def valleys(
    seed: Seed, *, damage: UnitInterval = 0.3, stored: Annotated[int, Range(1, 60)] = 12,
    time: Annotated[int, Range(0, MOMENTS)] = 12,
) -> Panels:
    """Recall is rolling downhill; past 0.138 patterns a unit the valleys vanish all at once.

    Args:
        damage: Share of the letter's pixels that are drawn anew.
        stored: Patterns that the net remembers, the letter among them; beyond 35 it breaks.
        time: How many units have had their turn, in twelfths of all.
    """
    n = SIDE**2
    letters, energies, overlaps = _walk(seed, damage, stored)
    color = "green" if overlaps[time] > 0.9 else "red"
    return Panels((
        Plot((Image(letters[time].reshape(SIDE, SIDE), low=-1, high=1),), title="the state",
             square=True, bare=True),
        Plot((
            Series("", range(MOMENTS + 1), energies, "gray", "line"),
            Series("", [time], energies[[time]], color, "points"),
        ), x="time", y="energy", title="it only falls"),
        Plot((
            overlap_curve(60 / n), Series("", [stored / n], overlaps[[time]], color, "points"),
            Label(f"{stored} patterns", stored / n, overlaps[time], color, side="below"),
        ), x="patterns a unit", y="overlap with the letter", title="the cliff",
            x_range=(0, 60 / n), y_range=(-0.05, 1.1)),
    ))


@functools.lru_cache(maxsize=4)  # all frames are moments of one walk
def _walk(seed: Seed, damage: float, stored: int) -> tuple[Tensor, Tensor, Tensor]:
    """Let a damaged letter be recalled; give its states, their energies and overlaps."""
    rng, n = seed.torch(), SIDE**2
    letter = torch.tensor([1.0 if mark == "#" else -1.0 for mark in LETTER if mark in ".#"])
    patterns = torch.cat([letter[None].double(), random_signs(rng, stored - 1, n)])
    net, state = Hopfield(n).store(patterns), patterns[:1].clone()
    hit = torch.rand(n, generator=rng) < damage
    state[:, hit] = random_signs(rng, 1, int(hit.sum()))
    turns = torch.cat([torch.randperm(n, generator=rng) for _ in range(2)]).chunk(MOMENTS)
    walk = [state]
    for units in turns:
        for unit in units.split(1):
            state = net.update(state, unit)
        walk.append(state)
    states = torch.cat(walk)
    return states, net.energy(states), overlap(states, patterns[0])


@experiment(
    reaches={
        "largest_load_recalled": Range(0.138, 0.17), "steepening": at_least_goal(0),
        "hebb_recovered": at_most_goal(0), "projection_recovered": at_least_goal(6),
    },
    floor={
        "overlap_below": at_least_goal(0.97), "overlap_above": at_most_goal(0.75),
        "hebb_recovered": at_most_goal(0), "projection_recovered": at_least_goal(6),
    },
    source="Amit, Gutfreund and Sompolinsky (1985): critical load 0.138",
)
def recall(
    run: Run, *, recalled: Annotated[int, Range(10, 400)] = 100,
    sets: Annotated[int, Range(1, 50)] = 10,
) -> None:
    """Recalls random patterns at growing load, and ten digits of which the lower half is erased."""
    sizes = (500, 1000, 2000, 4000) if run.full else (500,)
    loads = [0.05, 0.08, 0.1, 0.12, 0.13, 0.14, 0.145, 0.15, 0.155, 0.16, 0.17, 0.18, 0.2]
    means, medians = {}, {}
    for n in sizes:
        found = [
            torch.cat([end_overlaps(run.seed.child(net), n, load, recalled) for net in range(2)])
            for load in run.steps(loads, f"n = {n}, load")
        ]
        means[n] = dict(zip(loads, [float(one.mean()) for one in found], strict=True))
        medians[n] = dict(zip(loads, [float(one.median()) for one in found], strict=True))
    run.record(overlap_below=means[500][0.1], overlap_above=means[500][0.18])
    largest = max(load for load, median in medians[sizes[-1]].items() if median > 0.9)
    run.record(largest_load_recalled=largest)
    if run.full:  # the fall across the transition grows with every doubling of n
        falls = [mean[0.13] - mean[0.17] for mean in means.values()]
        run.record(steepening=min(b - a for a, b in itertools.pairwise(falls)))
    curves = [Series(f"n = {n}", loads, list(mean.values()), "other") for n, mean in means.items()]
    picture = Plot((*curves, overlap_curve(loads[-1])), "load α = s/n", "overlap after recall")
    run.figure("transition", figures.draw(picture))

    rng = run.seed.torch()
    pictures, labels = embedded_mnist()
    kinds = torch.stack([(labels == k).nonzero()[:, 0] for k in range(10)], dim=1)  # (500, 10)
    chosen = kinds[torch.randperm(len(kinds), generator=rng)[:sets]]
    stored = torch.where(pictures[chosen].flatten(2) > 0.5, 1, -1)  # (sets, 10, 784)
    cues = stored.clone()
    cues[..., 28 * 14 :] = -1
    ends, right = {}, {}
    for rule in RULES:
        nets = [Hopfield(784).store(digits, rule=rule) for digits in stored]
        found = [net.recall(cue, rng=rng).states for net, cue in zip(nets, cues, strict=True)]
        ends[rule] = torch.stack(found)
        right[rule] = (ends[rule] == stored).all(-1).sum(-1).double()  # of ten, for every set
    run.record(hebb_recovered=float(right["hebb"].max()))
    run.record(projection_recovered=float(right["projection"].mean()))
    rows = {"cue": cues, **ends, "stored": stored}
    tiles = [x[0, k].view(28, 28) for x in rows.values() for k in range(10)]
    titles = [name for name in rows for _ in range(10)]
    run.figure("digits", figures.images(tiles, titles, columns=10))

    net = Hopfield(784).store(stored[0], rule="projection")
    run.keep(net)
    film = [cues[0, :1].double()]
    for units in torch.randperm(784, generator=rng).split(28):
        film.append(net.update(film[-1], units))
    energies = net.energy(torch.cat(film))
    frames = [film[k].view(28, 28) for k in range(0, 29, 4)]
    run.figure("film", figures.images(frames, [f"E = {e:.1f}" for e in energies[::4]], columns=8))
    descent = Series("energy", range(0, 785, 28), energies, style="line")
    run.figure("energy", figures.draw(Plot((descent,), "units updated", "energy")))

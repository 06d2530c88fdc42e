r"""The McCulloch-Pitts neuron: what it reaches on data."""

import itertools
import time

import torch
from torch import Tensor

from principia.connectionism.neuron import Table, corners, decode, threshold_functions
from principia.lab import figures
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment

CENSUS = {1: 4, 2: 14, 3: 104, 4: 1882, 5: 94572}  # OEIS A000609


@experiment(
    reaches={f"functions_{n}": Range(count, count) for n, count in CENSUS.items()}
    | {"seconds": at_most_goal(60)},
    floor={f"functions_{n}": Range(CENSUS[n], CENSUS[n]) for n in range(1, 5)},
    source="Muroga, Tsuboi and Baugh (1970); OEIS A000609: 4, 14, 104, 1882, 94572",
)
def threshold_census(run: Run) -> None:
    """Counts the Boolean functions of n inputs that one threshold unit computes, up to n = 5."""
    sizes, start, counts = range(1, 6 if run.full else 5), time.perf_counter(), []
    for n in sizes:
        counts.append(len(threshold_functions(n)))
        run.record(**{f"functions_{n}": counts[-1]})
    if run.full:  # a time does not follow from the seed, so it is recorded where it is a goal only
        run.record(seconds=time.perf_counter() - start)
    everything = [2.0 ** 2**n for n in sizes]
    series = (
        Series("threshold functions", everything, counts),
        Series("all functions", everything, everything, role="bound"),
    )
    labels = ("Boolean functions of n inputs", "of them computed by one unit")
    run.figure("counts", figures.draw(Plot(series, *labels, log="xy")))
    tables = [tuple(table) for table in decode(torch.arange(16), 2).tolist()]
    names = ["".join(map(str, table)) for table in tables]
    pictures = [_half_plane(table) for table in tables]
    run.figure("two_inputs", figures.images(pictures, names, columns=4, signed=True))


def _half_plane(table: Table) -> Tensor:
    """Paint a function of two inputs: its four values, and a half-plane that has them if any."""
    axis = torch.linspace(-0.5, 1.5, 61)
    x = torch.stack(torch.meshgrid(axis, axis.flip(0), indexing="xy"), dim=-1)  # x2 points up
    picture = torch.zeros(x.shape[:-1])
    for *w, theta in itertools.product((1, -1, 0), (1, -1, 0), (-1.5, -0.5, 0.5, 1.5)):
        weights = torch.tensor(w)
        if tuple((corners(2) @ weights >= theta).long().tolist()) == table:
            picture = (x @ weights.to(x) >= theta).float() - 0.5
    for corner, value in zip(corners(2), table, strict=True):
        picture[(x - corner).norm(dim=-1) < 0.15] = 2.0 * value - 1
    return picture

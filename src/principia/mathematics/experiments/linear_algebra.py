r"""Matrices: what it reaches on data."""

import functools
import math
from typing import Annotated, Literal

import numpy as np
import torch
from torch.nn.functional import avg_pool2d

from principia.lab import figures
from principia.lab.data.photographs import photographs
from principia.lab.draws import randn
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.timing import fastest
from principia.mathematics.linear_algebra import frobenius_norm, woodbury_solve


@experiment(
    reaches={
        "relative_error": at_most_goal(0.104), "psnr": at_least_goal(23.4),
        "tail_difference": at_most_goal(1e-10),
    },
    floor={"relative_error": at_most_goal(0.104), "tail_difference": at_most_goal(1e-10)},
    source="Eckart and Young (1936): the error is the root of the sum of squares of the singular "
    "values that are left out; LAPACK's values for scikit-learn's china.jpg give 0.1028",
)
def photograph_rank(
    run: Run, *, photograph: Literal["china", "flower"] = "china",
    rank: Annotated[int, Range(1, 427)] = 50,
) -> None:
    """Writes a gray photograph as a sum of few products of a column and a row."""
    gray = torch.tensor(photographs()[photograph]).double().mean(dim=-1)
    U, s, Vh = torch.linalg.svd(gray, full_matrices=False)
    tails = s.square().flip(0).cumsum(0).flip(0).sqrt()  # of rank 0, 1, ...
    rest, errors = gray.clone(), [frobenius_norm(gray)]
    for k in range(len(s)):
        rest -= s[k] * torch.outer(U[:, k], Vh[k])
        errors.append(frobenius_norm(rest))
    measured, predicted = torch.stack(errors) / errors[0], torch.cat([tails, s[:1] * 0]) / errors[0]
    missed = float(measured[rank])
    peak = 255**2 * gray.numel() / float(errors[rank] ** 2)
    run.record(relative_error=missed, psnr=10 * math.log10(peak))
    run.record(tail_difference=float((measured - predicted).abs().max()))
    kept = sorted({5, 20, 50, 100, rank})
    shown = [(U[:, :k] * s[:k]) @ Vh[:k] for k in kept] + [gray]
    small = [avg_pool2d(255 - one.clamp(0, 255)[None], 3)[0].round() for one in shown]  # ink
    names = [*(f"rank {k}, error {float(measured[k]):.3f}" for k in kept), "photograph"]
    run.figure("photographs", figures.images(small, names, columns=3).update_layout(height=560))
    ranks = range(1, len(s) + 1)
    run.figure("spectrum", figures.draw(Plot(
        (Series("relative error of rank k", ranks[:-1], measured[1:-1]),
         Series("from the singular values", ranks[:-1], predicted[1:-1], "predicted"),
         Series("singular value k, in those of the norm", ranks, s / errors[0], "other")),
        x="k", y="share of the norm", log="xy",
    )))


@experiment(
    reaches={"speedup": at_least_goal(10), "difference": at_most_goal(1e-9)},
    floor={"speedup": at_least_goal(10), "difference": at_most_goal(1e-9)},
    source="Hager 1989: n k² operations in place of n³ / 3; the times are ours", timed=True,
)
def woodbury_speed(
    run: Run, *, rank: Annotated[int, Range(1, 100)] = 20,
    repeats: Annotated[int, Range(1, 20)] = 3,
) -> None:
    """Times a system of a diagonal and a change of small rank, with and without the formula."""
    sizes = [250, 500, 1000, 2000, 4000][: 5 if run.full else 4]
    times, difference = [], math.inf
    for n in run.steps(sizes, "sizes"):
        rng = run.seed.child(n).torch()
        U, V, b = randn(rng, n, rank) / n**0.5, randn(rng, rank, n), randn(rng, n)
        diagonal, C = 1 + torch.rand(n, generator=rng, dtype=U.dtype), torch.eye(rank).to(U)
        whole = diagonal.diag() + U @ C @ V
        jobs = (functools.partial(torch.linalg.solve, whole, b),
                functools.partial(woodbury_solve, diagonal, U, C, V, b))
        times.append(fastest(*jobs, repeats=repeats))
        slow, fast = (job() for job in jobs)
        difference = float((slow - fast).norm() / slow.norm())
    slow, fast = np.array(times).T
    run.record(speedup=slow[-1] / fast[-1], difference=difference)
    run.figure("times", figures.draw(Plot(
        (Series("torch.linalg.solve", sizes, 1000 * slow, "other"),
         Series("woodbury_solve", sizes, 1000 * fast, "measured", "line")),
        x="unknowns n", y="milliseconds", log="xy",
    )))

r"""Dense associative memory: what it reaches on data."""

import torch
from torch import Tensor

from principia.connectionism.dense_memory import ModernHopfield
from principia.connectionism.hopfield import Hopfield
from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import PositiveFloat, PositiveInt
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment


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

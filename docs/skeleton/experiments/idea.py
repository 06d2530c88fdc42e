r"""The running average: what it reaches on data."""

import torch
from sklearn.datasets import load_diabetes

from chapter.idea import Decay, running_average
from principia.lab import figures
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, experiment


@experiment(
    reaches={"variance_share": Range(0.08, 0.15)},
    floor={"variance_share": Range(0.05, 0.20)},
    source="Brown (1959): (1 - 0.8) / (1 + 0.8) = 0.111",
)
def patients(run: Run, *, decay: Decay = 0.8) -> None:
    """Smooths the diabetes scores of 442 patients, who come in random order."""
    scores = torch.as_tensor(load_diabetes().target)
    shuffles = 200 if run.full else 20
    rng = run.seed.torch()
    orders = torch.stack([torch.randperm(len(scores), generator=rng) for _ in range(shuffles)])
    centered = (scores - scores.mean())[orders]  # (shuffles, T)
    smooth = running_average(centered, decay=decay)[:, 50:]
    run.record(variance_share=float(smooth.var() / scores.var()))
    curves = (
        Series("scores", range(442), centered[0], style="points"),
        Series("running average", range(50, 442), smooth[0], role="predicted"),
    )
    run.figure("smoothing", figures.draw(Plot(curves, "patient", "score above the mean")))

r"""The running average: what it reaches on data."""

from typing import Annotated

import torch
from sklearn.datasets import load_diabetes

from principia.convolution.layer import Decay, running_average
from principia.lab import figures
from principia.lab.draws import randn
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Plot, Series
from principia.lab.runs import Run, experiment
from principia.lab.seeds import Seed


@hero(moves="decay")
def smoothing(
    seed: Seed, *, decay: Annotated[float, Range(0, 0.99)] = 0.9,
    noise: Annotated[float, Range(0, 2)] = 0.5,
) -> Plot:
    """What is kept longer is smoother, and later.

    Args:
        decay: Share of the old average that is kept at each step.
        noise: Size of the noise on the wave.
    """
    times = torch.arange(200.0)
    wave = torch.sin(times / 15)
    seen = wave + noise * randn(seed.torch(), 200)
    return Plot(
        (
            Series("seen", times, seen, "gray", "points"),
            Series("wave", times, wave, "predicted", "line"),
            Series("average", times, running_average(seen, decay=decay), "measured", "line"),
        ),
        x="step t", y="series", y_range=(-3, 3),
    )


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

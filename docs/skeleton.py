r"""The running average: a memory that forgets at a chosen pace.

Copy this file into a chapter under the name of your idea, and it is a page: it appears in `ls`,
`show`, `check` and the tests with no other edit. The story tells the idea in a few sentences, for
somebody who has not seen it. A running average keeps one number, pulls it a little toward every new
one, and so remembers about $1/(1-\beta)$ of them; because it starts at 0, it is too small at first.

$$ m_t = \beta\,m_{t-1} + (1-\beta)\,x_t, \quad m_0 = 0, \quad \hat m_t = \frac{m_t}{1-\beta^t} $$

Symbols:
    $x_t$: the series, `x`
    $\beta$: how much is kept, `decay`
    $\hat m_t$: the average without its pull toward 0, `corrected=True`

References:
    Brown (1959), Statistical forecasting for inventory control. McGraw-Hill.
    Kingma and Ba (2015), Adam: a method for stochastic optimization, sec. 3. arXiv:1412.6980
"""

__all__ = ["running_average"]

from typing import Annotated

import torch
from jaxtyping import Float
from sklearn.datasets import load_diabetes
from torch import Tensor

from principia.lab import figures
from principia.lab.evidence import Evidence, Plot, Series, claim, equal_to_rounding, within_errors
from principia.lab.params import Range, checked
from principia.lab.runs import Run, experiment
from principia.lab.seeds import Seed

Decay = Annotated[float, Range(0, 1, open="high")]  # said once: flag, slider, check and message


@checked
def running_average(
    x: Float[Tensor, "... T"], *, decay: Decay = 0.9, corrected: bool = True
) -> Float[Tensor, "... T"]:
    r"""Averages a series with weights that fall by `decay` at every step back.

    Shapes:
        x: (..., T); returns (..., T)

    Args:
        x: The series, time last.
        decay: How much of the old average is kept.
        corrected: Whether to divide by the sum of the weights, $1-\beta^t$.

    Example:
        >>> running_average(torch.ones(3), decay=0.5).tolist()
        [1.0, 1.0, 1.0]
    """
    steps = x.shape[-1]
    lag = torch.arange(steps)[:, None] - torch.arange(steps)  # (T, T): how long ago
    weights = torch.where(lag >= 0, (1 - decay) * decay ** lag.clamp(min=0).to(x.dtype), 0.0)
    mean = x @ weights.to(x.dtype).T
    return mean / weights.sum(dim=1).to(x.dtype) if corrected else mean


@claim(
    control={"corrected": False},
    source="Kingma and Ba 2015, sec. 3",
    misprint=r"$m_t$ itself as an estimate of the mean, although it starts at 0",
)
def constants_are_kept(
    seed: Seed, *, steps: Annotated[int, Range(2, 1000)] = 50, decay: Decay = 0.9,
    corrected: bool = True,
) -> Evidence:
    r"""The corrected average of a constant series is that constant, from the first step on."""
    level = torch.randn((), generator=seed.torch(), dtype=torch.float64)
    mean = running_average(level.expand(steps), decay=decay, corrected=corrected)
    return equal_to_rounding(mean, level.expand(steps)).drawn(
        Series("average", range(1, steps + 1), mean),
        Series("constant", [1, steps], [float(level)] * 2, role="predicted"),
        x="step t", y="value",
    )


@claim(control={"correlation": 0.5}, source="Brown 1959")
def noise_shrinks(
    seed: Seed, *, series: Annotated[int, Range(100, 20000)] = 4000, decay: Decay = 0.8,
    correlation: Annotated[float, Range(0, 0.9)] = 0.0,
) -> Evidence:
    r"""A long average keeps the share $(1-\beta)/(1+\beta)$ of the variance of white noise."""
    rng = seed.torch()
    noise = torch.randn(series, 100, generator=rng, dtype=torch.float64)
    noise = noise + correlation * noise.roll(1, dims=-1)
    kept = running_average(noise, decay=decay)[:, -1] ** 2
    share = (1 - decay) / (1 + decay)
    return within_errors(
        kept.mean(), share, error=kept.std() / series**0.5, bias=share * decay**200,
        why="the mean of squares over independent series; 100 steps stand for infinitely many",
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

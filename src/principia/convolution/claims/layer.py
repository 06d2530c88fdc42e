r"""The running average: what is true of it, and what would refute it.

Knobs:
    steps: Length of the series.
    series: Independent series that are averaged.
    decay: Share of the old average that is kept at each step.
    corrected: Whether the average is freed of its start at 0, which prints forget.
    correlation: How much of its neighbor is added to each noise; with any, the law does not hold.
"""

from typing import Annotated

import torch

from principia.convolution.layer import Decay, running_average
from principia.lab.evidence import Evidence, Series, claim, equal_to_rounding, within_errors
from principia.lab.params import Range
from principia.lab.pictures import Histogram
from principia.lab.seeds import Seed


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
        x="step t", y="average of a constant",
    ).named("average, once the start is corrected")


@claim(control={"correlation": 0.5}, source="Brown 1959")
def noise_shrinks(
    seed: Seed, *, series: Annotated[int, Range(100, 20000)] = 4000, decay: Decay = 0.8,
    correlation: Annotated[float, Range(0, 0.9)] = 0.0,
) -> Evidence:
    r"""A long average keeps the share $(1-\beta)/(1+\beta)$ of the variance of white noise."""
    rng = seed.torch()
    noise = torch.randn(series, 100, generator=rng, dtype=torch.float64)
    noise = noise + correlation * noise.roll(1, dims=-1)
    averages = running_average(noise, decay=decay)[:, -1]
    kept, share = averages**2, (1 - decay) / (1 + decay)
    law = torch.linspace(-4, 4, 80, dtype=torch.float64) * share**0.5
    density = torch.exp(-(law**2) / (2 * share)) / (2 * torch.pi * share) ** 0.5
    return within_errors(
        kept.mean(), share, error=kept.std() / series**0.5, bias=share * decay**200,
        why="the mean of squares over independent series; 100 steps stand for infinitely many",
    ).named("variance that is left").drawn(
        Histogram("averages", averages), Series("the law", law, density, "predicted"),
        x="last average", y="density",
    )

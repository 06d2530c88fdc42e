r"""Inequalities: what it reaches on data."""

from typing import Annotated, Any

import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.mathematics.inequalities import (
    cantelli_bound,
    chebyshev_bound,
    chernoff_bound,
    markov_bound,
)
from principia.mathematics.probability import EmpiricalDistribution

ROUNDING = 1e-12  # relative to a bound: what float64 may add to a tail
GOALS = {"violations": at_most_goal(0), "normal_violations": at_least_goal(1)}


@experiment(
    reaches=GOALS, floor=GOALS,
    source="theorems for any law, so for that of a sample: no violation at any threshold; the "
    "normal law's Chernoff bound is no theorem here, and must fail somewhere",
)
def tail_bounds(run: Run, *, feature: Annotated[int, Range(0, 29)] = 13) -> None:
    """Compares tails of cell measurements and of sums of pixels with what inequalities allow."""
    data: Any = load_breast_cancer()
    names = [str(name) for name in data.feature_names]
    columns = dict(zip(names, torch.from_numpy(data.data).mT, strict=True))
    columns["ink"] = handwriting(run)[0].double().flatten(1).sum(dim=1)
    broken = {"normal_violations": 0, "violations": 0}
    losses: dict[str, list[float]] = {}
    for name in run.steps(columns, "tails"):
        for bound, (eps, tail, limit) in _tails(columns[name]).items():
            kind = "normal_violations" if "normal" in bound else "violations"
            broken[kind] += int((tail > limit * (1 + ROUNDING)).sum())
            loss = (limit.clamp(max=1) / tail).log10()[eps >= 1].mean()  # Chebyshev begins at 1
            what = f"{'ink' if name == 'ink' else 'cells'}_{bound.split()[0].lower()}_looseness"
            losses.setdefault(what, []).append(float(loss))
    run.record(**broken, **{what: sum(loss) / len(loss) for what, loss in losses.items()})
    for figure, name in (("cells", names[feature]), ("ink", "ink")):
        run.figure(figure, _tail_figure(name, columns[name]))


def _tails(column: Tensor, at: Tensor | None = None) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Give thresholds, by default all at which a standardized sample jumps, tails and bounds."""
    z = (column - column.mean()) / column.std(correction=0)
    far, up = (one[one > 0].unique() if at is None else at for one in (z.abs(), z))
    # a distribution function counts what is at most t: turned around, what is at least t
    both, above = (EmpiricalDistribution(-one).cdf(-eps) for one, eps in ((z.abs(), far), (z, up)))
    variance = float(EmpiricalDistribution(z).variance)
    return {
        "Markov": (far, both, markov_bound(z.abs().mean(), far)),
        "Chebyshev": (far, both, chebyshev_bound(variance, far)),
        "Cantelli": (up, above, cantelli_bound(variance, up)),
        "Chernoff (normal)": (up, above, chernoff_bound(lambda t: t**2 / 2, up)),
    }


def _tail_figure(name: str, column: Tensor) -> Any:
    """Draw the tails of a sample, of both sides and of the upper one, and all bounds."""
    farthest = float((column - column.mean()).abs().max() / column.std(correction=0))
    eps = torch.linspace(0.02, farthest, 300, dtype=column.dtype)
    found = _tails(column, eps)
    series = [
        Series("sample, both sides", eps, found["Chebyshev"][1], style="steps"),
        Series("sample, upper side", eps, found["Cantelli"][1], style="points"),
    ]
    series += [
        Series(bound, eps, limit.clamp(min=1 / len(column), max=1), "other")
        for bound, (_, _, limit) in found.items()
    ]
    picture = Plot(tuple(series), f"{name}: standard deviations from the mean", "tail", "y")
    return figures.draw(picture)

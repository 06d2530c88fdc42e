r"""Nesterov acceleration: what it reaches on data."""

import math
from typing import Annotated, Any, cast

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor
from torch.optim import LBFGS, SGD

from principia.lab import figures
from principia.lab.data.mnist import mnist
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.optimization.nesterov import Nesterov, recorded, run_copy
from principia.optimization.problems import LogisticRisk, Problem

CHUNK = 500  # steps between two looks whether the gap is small enough


@experiment(
    reaches={"share": at_most_goal(0.25)},
    floor={"share": at_most_goal(0.5)},
    source="Nesterov (2018), sec. 2.2: √κ steps instead of κ; to beat is gradient descent with the "
    "same step 1/L on the same data",
)
def acceleration(
    run: Run, *, l2: Annotated[float, Range(1e-4, 0.1)] = 1e-4,
    gap: Annotated[float, Range(1e-8, 1e-3)] = 1e-6,
    images: Annotated[int, Range(200, 5000)] = 1000, patience: Annotated[int, Range(4, 50)] = 6,
) -> None:
    """Counts steps to a gap in logistic regression; descent may take `patience` times as many."""
    problem = LogisticRisk(*(_threes_and_eights(run, images) if run.full else _tumors()), l2=l2)
    smooth, best = cast("float", problem.smoothness), cast("Tensor", problem.minimizer)
    search = {"max_iter": 1000, "history_size": 100, "line_search_fn": "strong_wolfe"}
    found = run_copy(problem, LBFGS, 1, lr=1.0, tolerance_grad=1e-8, tolerance_change=0.0, **search)
    lowest, kappa = float(found["value"][-1]), smooth / l2
    first = problem().item() - lowest + l2 / 2 * float(best.square().sum())
    promised = math.ceil(math.log(first / gap) / -math.log(1 - kappa**-0.5))  # with μ = l2 known
    ways: dict[str, tuple[Any, dict[str, Any]]] = {
        "μ known": (Nesterov, {"beta": ("strong", kappa)}),
        "anew when uphill": (Nesterov, {"beta": "convex", "restart": True}),
        "never anew": (Nesterov, {"beta": "convex"}), "descent": (SGD, {}),
    }
    gaps: dict[str, Tensor] = {}
    times = patience if run.full else min(patience, 4)
    for name in run.steps(ways, "methods"):
        kind, options = ways[name]
        limit = promised if kind is Nesterov else times * (len(gaps["μ known"]) - 1)
        gaps[name] = _gaps_down_to(gap, lowest, problem, kind, limit, lr=1 / smooth, **options)
    needed = {name: len(one) - 1 for name, one in gaps.items()}
    run.record(
        share=needed["μ known"] / needed["descent"], steps=needed["μ known"], promised=promised,
        restart_steps=needed["anew when uphill"], convex_steps=needed["never anew"],
        descent_steps=needed["descent"], descent_gap=float(gaps["descent"][-1]),
        searches_differ=lowest - cast("float", problem.minimum),
    )
    curves = []
    for name, one in gaps.items():
        t = np.unique(np.geomspace(1, len(one), 300).astype(int))
        curves.append(Series(name, t, one[t - 1], "other"))
    reach = 2 * smooth * float(best.square().sum())
    for power in (1, 2):
        t = np.geomspace(1, min(len(gaps["descent"]), (reach / gap) ** (1 / power)), 50)
        curves.append(Series(f"bound of slope −{power}", t, reach / t**power, "bound"))
    run.figure("gaps", figures.draw(Plot((*curves,), "t + 1", "risk above its minimum", "xy")))


def _threes_and_eights(run: Run, images: int) -> tuple[Tensor, Tensor]:
    """Load threes and eights of MNIST: pixels and a constant, and whether it is an eight."""
    x, y = mnist("train", data_dir=run.data_dir)
    chosen = ((y == 3) | (y == 8)).nonzero()[:images, 0]
    return _with_constant(x[chosen].flatten(1).double()), (y[chosen] == 8).long()


def _with_constant(X: Tensor) -> Tensor:
    return torch.cat([X, torch.ones(len(X), 1, dtype=X.dtype)], dim=1)


def _tumors() -> tuple[Tensor, Tensor]:
    """Load the breast cancer data: standardized features and a constant, and classes."""
    X, y = load_breast_cancer(return_X_y=True)
    return _with_constant(torch.from_numpy((X - X.mean(axis=0)) / X.std(axis=0))), torch.tensor(y)


def _gaps_down_to(
    gap: float, lowest: float, problem: Problem, kind: Any, limit: int, **options: Any
) -> Tensor:
    """Run an optimizer until its gap is small enough, or up to a limit; give all gaps till then."""
    twin, gaps = problem.at(problem.theta), problem().detach() - lowest
    optimizer = kind(twin.parameters(), **options)
    while len(gaps) <= limit and gaps.min() > gap:
        found = recorded(twin, optimizer, min(CHUNK, limit + 1 - len(gaps)))["value"][1:, 0]
        gaps = torch.cat([gaps, found - lowest])
    reached = (gaps <= gap).nonzero()
    return gaps[: int(reached[0]) + 1] if len(reached) else gaps

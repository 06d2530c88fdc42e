r"""Lasso: what it reaches on data."""

import itertools
from typing import Annotated

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Lasso, lars_path
from sklearn.metrics import f1_score
from torch import Tensor

from principia.lab import figures
from principia.lab.evidence import Plot, Series
from principia.lab.params import PositiveFloat, PositiveInt, Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.training import learner
from principia.regression.claims.lasso import sparse_data
from principia.regression.lasso import fista, lambda_max

PUBLISHED = (3, 9, 4, 7, 2, 10, 5, 8, 6, 1, -7, 7)  # Efron et al. 2004; -7 is 7 leaving
FOLLOWED = {"order_errors": at_most_goal(0), "knot_error": at_most_goal(1e-6)}


@learner
def estimator(
    inputs: PositiveInt, outputs: PositiveInt, rng: torch.Generator, *, alpha: PositiveFloat = 0.1
) -> Lasso:
    """Builds scikit-learn's lasso for any table with a number to predict.

    Args:
        alpha: Price of the weights, in scikit-learn's convention.
    """
    return Lasso(alpha=alpha, max_iter=10_000)


@experiment(
    reaches={**FOLLOWED, "support_f1": Range(0.8, 1)}, floor=FOLLOWED,
    source="Efron, Hastie, Johnstone, Tibshirani (2004), Least angle regression: diabetes data",
)
def diabetes_path(run: Run, *, grid: Annotated[int, Range(50, 2000)] = 200) -> None:
    """Follows the lasso on the diabetes data as the price falls: who enters, and when."""
    data, target = load_diabetes(return_X_y=True)  # columns are centered, of length 1
    X, y = torch.as_tensor(data), torch.as_tensor(target - target.mean())
    theirs, _, _ = lars_path(data, y.numpy(), method="lasso")
    top = float(lambda_max(X, y))
    alphas = top * torch.logspace(0.001, -4, grid, dtype=torch.float64)
    w = fista(X, y, alphas)
    events, knots = _events(X, y, alphas, w)
    pairs = itertools.zip_longest(events, PUBLISHED)
    run.record(order_errors=sum(ours != published for ours, published in pairs))
    same = len(knots) == len(theirs) - 1  # their last is 0, where the path ends
    run.record(knot_error=np.abs(knots - theirs[:-1]).max() if same else np.inf)
    run.say("order: " + ", ".join(str(one) for one in events))
    sizes = w.abs().sum(-1)
    lines = [Series(f"{j + 1}", sizes, w[:, j], "other") for j in range(10)]
    run.figure("path", figures.draw(Plot(tuple(lines), "sum of |w|", "coefficient")))
    if run.full:
        X, y, truth = sparse_data(run.seed, 200, 1000, 20)
        found = fista(X, y, 0.3)
        run.record(support_f1=f1_score(truth != 0, found != 0), found=int((found != 0).sum()))


def _events(X: Tensor, y: Tensor, alphas: Tensor, w: Tensor) -> tuple[list[int], np.ndarray]:
    """Find who enters (+) or leaves (-) along falling prices, and the price of each event."""
    while True:
        changed = ((w[1:] != 0) != (w[:-1] != 0)).any(-1)
        high, low = alphas[:-1][changed], alphas[1:][changed]
        if float((high - low).max()) < 1e-7:
            break
        parts = torch.linspace(0, 1, 9, dtype=alphas.dtype)
        alphas = (high[:, None] + (low - high)[:, None] * parts).flatten()
        w = fista(X, y, alphas)
    entered = (w[1:] != 0).int() - (w[:-1] != 0).int()
    who = entered[changed].nonzero()
    events = [int((j + 1) * entered[changed][row, j]) for row, j in who]
    return events, ((high + low) / 2)[who[:, 0]].numpy()

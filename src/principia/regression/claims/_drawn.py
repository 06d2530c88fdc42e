r"""Figures of claims on least squares and the lasso, whose rooms are full."""

__all__ = ["conditions", "deviations", "emptied", "paths", "posterior", "projections",
           "tangent", "thresholds", "traces"]

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from principia.lab.evidence import Plot, Series
from principia.lab.pictures import Rule
from principia.regression.lasso import fista, lambda_max


def tangent(loss: Callable[[Tensor], Tensor], w: Tensor, slopes: Tensor) -> Plot:
    """Draw a loss along the first weight, and the line that a gradient promises."""
    t, first = torch.linspace(-1, 1, 41, dtype=w.dtype), torch.eye(len(w), dtype=w.dtype)[0]
    return Plot((
        Series("loss", t, [float(loss(w + step * first)) for step in t], style="line"),
        Series("slope by the formula", t, loss(w) + t * slopes.flatten()[0], "bound"),
    ), "step along the first weight", "loss")


def projections(X: Tensor, y: Tensor, residual: Tensor) -> Plot:
    """Draw how far targets and residual point along the columns."""
    return Plot((
        Series("with the targets", range(X.shape[1]), X.mT @ y, "gray", "points"),
        Series("with the residual", range(X.shape[1]), X.mT @ residual),
    ), "column of X", "scalar product")


def deviations(
    name: str, nll: Callable[..., Tensor], given: tuple[Tensor, Tensor, Tensor], found: float
) -> Plot:
    """Draw how unlikely the targets are at weights and data, by the deviation of the noise."""
    w, X, y = given
    right = float((y - X @ w).square().mean()) ** 0.5
    sizes = right * torch.linspace(0.5, 2, 61, dtype=torch.float64)
    return Plot((
        Series(name, sizes, [float(nll(w, one.log(), X, y)) for one in sizes], style="line"),
        Rule("found", x=found), Rule("√(mean squared residual)", x=right, role="ink"),
    ), "deviation of the noise, at the weights w*", "mean of -log p")


def traces(name: str, found: Any, known: Sequence[Any]) -> Plot:
    """Draw the first weight of the first chain, step by step."""
    return Plot((
        Series("LMS", range(len(found)), found[:, 0, 0]),
        Series(f"the rule, samples {name}", range(len(known)), [one[0, 0] for one in known],
               "predicted"),
    ), "step", "first weight")


def thresholds(least_squares: Tensor, w: Tensor, predicted: Tensor, right: float) -> Plot:
    """Draw weights over those of least squares."""
    order = least_squares.argsort()
    return Plot((
        Series("FISTA", least_squares, w),
        Series("soft threshold", least_squares[order], predicted[order], "predicted"),
        Rule("λ/4", x=right), Rule("", x=-right),
    ), "least squares, Xᵀy", "weight")


def conditions(name: str, X: Tensor, y: Tensor, w: Tensor, alpha: float) -> Plot:
    """Draw how much each column still pulls on its weight, in units of the price."""
    ends = [float(w.min()), 0.0, 0.0, float(w.max())]
    pull = X.mT @ (y - X @ w) / len(y) / alpha
    return Plot((
        Series(name, w, pull), Series("allowed", ends, [-1, -1, 1, 1], "predicted"),
    ), "weight", "pull of the residual / price")


def paths(name: str, alphas: Tensor, found: Tensor, theirs: Tensor) -> Plot:
    """Draw the largest weights by price, those of scikit-learn as lines."""
    shown = theirs.abs().sum(0).argsort(descending=True)[:8].tolist()
    return Plot((
        *(Series("scikit-learn", alphas, theirs[:, j], "predicted") for j in shown),
        *(Series(name, alphas, found[:, j]) for j in shown),
    ), "price α", "weight", log="x")


def emptied(X: Tensor, y: Tensor, factor: float) -> Plot:
    """Draw how many weights are left by the price."""
    limit = lambda_max(X, y)
    shares = torch.linspace(0.5, 1.2, 36, dtype=X.dtype)
    here = X.new_tensor([factor * (1 + 1e-12)])
    return Plot((
        Series("first problem", shares, (fista(X, y, shares * limit) != 0).sum(-1)),
        Series("price asked for", here, (fista(X, y, here * limit) != 0).sum(-1), "orange",
               "points"),
        Rule("the limit", x=1.0),
    ), "price / largest |x'y| / s", "weights that are not 0")


def posterior(surprise: Callable[[Tensor], Tensor], mode: Tensor, w: Tensor) -> Plot:
    """Draw the posterior along the weight that is nearest to 0, through its mode."""
    j, steps = int(mode.abs().argmin()), torch.linspace(-0.5, 0.5, 201, dtype=w.dtype)
    line = mode + steps[:, None] * torch.eye(len(w), dtype=w.dtype)[j]
    heights = (surprise(mode) - surprise(line)).exp()
    return Plot((
        Series("posterior", line[:, j], heights, style="line"), Rule("lasso", x=float(w[j])),
    ), f"weight {j + 1}", "density, as a share of that at the mode")

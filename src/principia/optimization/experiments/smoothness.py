r"""Smoothness: what it reaches on data."""

import math
from collections.abc import Callable
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.draws import randn
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.training import fit
from principia.optimization.smoothness import hessian_extremes, hessian_product, lanczos_ends
from principia.regression.softmax import SoftmaxRegression, softmax_jacobian


@experiment(
    reaches={
        "lanczos_error": at_most_goal(1e-6), "threshold_error": at_most_goal(0.01),
        "bound_over_curvature": at_least_goal(1.0), "growth_above": at_least_goal(1.0),
        "growth_below": Range(0, 1, open="high"),
    },
    floor={
        "lanczos_error": at_most_goal(1e-6), "threshold_error": at_most_goal(0.05),
        "bound_over_curvature": at_least_goal(1.0), "growth_above": at_least_goal(1.0),
        "growth_below": Range(0, 1, open="high"),
    },
    source="LeCun et al. (1998), Efficient BackProp, sec. 5.1: the largest stable step is "
    "2/λmax; to beat is Böhning's (1992) bound of λmax for softmax regression",
)
def stable_step(
    run: Run, *, images: Annotated[int, Range(500, 60_000)] = 10_000,
    steps: Annotated[int, Range(40, 500)] = 100, spread: Annotated[float, Range(0, 0.5)] = 0.1,
) -> None:
    r"""Finds the longest stable step of softmax regression: $2/\lambda_{\max}$ at the start.

    On the quadratic model a longer step diverges. The loss itself is no parabola: its curvature
    falls along the way, and it may survive the same step.

    Args:
        images: Pictures at full budget.
        steps: Steps of each gradient descent.
        spread: Standard deviation of the weights at the start.
    """
    x, y = handwriting(run)[:2]
    x, y = x[:images].flatten(1).double(), y[:images]
    X = F.pad(x, (0, 1), value=1.0)  # the bias is the weight of a 1
    W = spread * randn(run.seed.torch(), 10, X.shape[1])
    logits = X @ W.mT

    def risk(flat: Tensor) -> Tensor:
        return F.cross_entropy(X @ flat.view_as(W).mT, y)

    product, slope = hessian_product(risk, W.flatten()), _slope(risk, W.flatten())
    highest = lanczos_ends(product, W.flatten(), 10, "LA").flip(0)
    top = float(highest[0])
    bound = float(torch.linalg.eigvalsh(X.mT @ X)[-1]) / (2 * len(X))
    part = X[:, X.var(dim=0).argsort(descending=True)[:200]]  # 2,000 weights at most
    exact = float(_softmax_hessian_top(part, logits))
    sliced = hessian_extremes(
        lambda change: F.cross_entropy(logits + part @ change.mT, y), W.new_zeros(10, part.shape[1])
    )[1]
    threshold = _longest_stable(product, slope, 2 / bound, steps)
    run.record(
        curvature=top, lanczos_error=abs(float(sliced[0]) / exact - 1),
        threshold_error=abs(threshold * top / 2 - 1), bound_over_curvature=bound / top,
    )

    height, series = float(risk(W.flatten())), []
    for name, factor in {"below": 0.95, "above": 1.3}.items():
        lr = factor * 2 / top
        model = SoftmaxRegression(x.shape[1], 10).double()
        with torch.no_grad():
            model.weight.copy_(W[:, :-1])
            model.bias.copy_(W[:, -1])
        trained = fit(
            model, (x, y), model.risk, torch.optim.SGD(model.parameters(), lr=lr),
            steps=steps, batch_size=len(x), run=run, name=name,
        )
        losses = [row["loss"] for row in trained.history]
        values, lengths = _quadratic_descent(product, slope, lr, steps)
        run.record(**{f"growth_{name}": lengths[-1] / lengths[-2], f"loss_{name}": losses[-1]})
        label, expected = f"η = {factor} · 2/λmax", [height + value for value in values]
        seen = next((t for t, one in enumerate(expected) if one > 3 * height), steps)
        series += [
            Series(f"{label}: loss", range(steps), losses, "other"),
            Series(f"{label}: quadratic model", range(seen), expected[:seen], "other", "points"),
        ]
        if name == "below":
            run.keep(model.float())
    run.figure("descent", figures.draw(Plot(tuple(series), "step", "loss")))
    ends = [1, len(highest)]
    spectrum = (
        Series("eigenvalues", range(1, len(highest) + 1), highest),
        Series("2/η measured", ends, [2 / threshold] * 2, "predicted"),
        Series("2/η, η 5 % shorter", ends, [top / 0.95] * 2, "other"),
        Series("2/η, η 30 % longer", ends, [top / 1.3] * 2, "other"),
        Series("Böhning's bound", ends, [bound] * 2, "bound"),
    )
    run.figure("spectrum", figures.draw(Plot(spectrum, "number", "eigenvalue of the Hessian")))


def _slope(loss: Callable[[Tensor], Tensor], point: Tensor) -> Tensor:
    at = point.detach().requires_grad_()
    return torch.autograd.grad(loss(at), at)[0]


def _softmax_hessian_top(X: Tensor, logits: Tensor) -> Tensor:
    """Form the Hessian of softmax regression, one block a pair of classes, for its top end."""
    jacobian, classes = softmax_jacobian(logits), range(logits.shape[1])
    rows = [torch.cat([(X * jacobian[:, a, b, None]).mT @ X for b in classes], 1) for a in classes]
    return torch.linalg.eigvalsh(torch.cat(rows) / len(X))[-1]


def _longest_stable(
    product: Callable[[Tensor], Tensor], slope: Tensor, safe: float, steps: int
) -> float:
    """Bisect for the step from which on GD on the quadratic model ends with growing gradients."""

    def unstable(lr: float) -> bool:
        lengths = _quadratic_descent(product, slope, lr, steps)[1]
        return lengths[-1] > lengths[-2]

    low = high = safe
    while not unstable(high):
        low, high = high, 2 * high
    for _ in range(8):  # to 2^(1/256), 0.3 %
        middle = math.sqrt(low * high)
        low, high = (low, middle) if unstable(middle) else (middle, high)
    return math.sqrt(low * high)


def _quadratic_descent(
    product: Callable[[Tensor], Tensor], slope: Tensor, lr: float, steps: int
) -> tuple[list[float], list[float]]:
    """Run GD on g.d + d.Hd/2 from d = 0: its values and the lengths of its gradients g + Hd."""
    d, gradient, values, lengths = torch.zeros_like(slope), slope, [], []
    for _ in range(steps):
        values.append(float(d @ (slope + gradient)) / 2)
        lengths.append(float(gradient.norm()))
        d, gradient = d - lr * gradient, gradient - lr * product(gradient)
    return values, lengths

r"""The lasso written out, one coefficient and one step at a time: what its claims compare with."""

__all__ = ["gap", "iterates", "missed", "stopped"]

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

LOOK, MOST = 5, 10_000  # steps from one look at the gap to the next, and in all


def missed(X: Tensor, y: Tensor, w: Tensor, price: float) -> float:
    """Measure by how much the worst coefficient misses the conditions of optimality."""
    pulls = [float(x @ (y - X @ w)) / len(y) for x in X.T]
    return max(
        abs(p - math.copysign(price, v)) if v else max(0.0, abs(p) - price)
        for p, v in zip(pulls, w.tolist(), strict=True))


def gap(X: Tensor, y: Tensor, w: Tensor, price: float) -> float:
    """Subtract from F what the dual says at the residual, scaled so that it is feasible."""
    residual = y - X @ w
    pull = float((X.T @ residual).abs().max()) / len(y)
    theta = residual * min(1.0, price / pull if pull else 1.0)
    value = residual.square().sum() / 2 + len(y) * price * w.abs().sum()
    return float(value - (y.square().sum() - (y - theta).square().sum()) / 2) / len(y)


def stopped(X: Tensor, y: Tensor, price: float, tol: float, *, momentum: bool) -> Tensor:
    """Step until the gap allows it; with momentum, that of the equations that signs leave, too."""
    allowed = tol * float(y.square().mean()) / 2
    path = _iterated(X, y, X.new_tensor(price), momentum=momentum, restart=momentum)
    for w in itertools.islice(path, LOOK - 1, MOST, LOOK):
        found = [w]
        if momentum and X.shape[1] <= len(X):
            on, solved = w != 0, torch.zeros_like(w)
            pull = (X.T @ y - len(y) * price * w.sign())[on]
            solved[on] = torch.linalg.solve(X[:, on].T @ X[:, on], pull)
            found.append(solved)
        for one in found:
            if gap(X, y, one, price) <= allowed:
                return one
    raise AssertionError(f"{MOST} steps are not enough")


def iterates(X: Tensor, y: Tensor, price: Tensor, steps: int, **how: Any) -> Tensor:
    """Iterate as Beck and Teboulle print it, with the restarts of O'Donoghue and Candès."""
    return torch.stack(list(itertools.islice(_iterated(X, y, price, **how), steps)))


def _iterated(
    X: Tensor, y: Tensor, price: Tensor, *, step: float = 1.0, momentum: bool = False,
    restart: bool = False,
) -> Iterator[Tensor]:
    L = float(torch.linalg.eigvalsh(X.T @ X)[-1]) / len(y) / step
    x, v, t = torch.zeros_like(X[0]), torch.zeros_like(X[0]), 1.0
    while True:
        z = v - X.T @ (X @ v - y) / (len(y) * L)
        new = z.sign() * (z.abs() - price / L).clamp_min(0)
        if restart and float((v - new) @ (new - x)) > 0:
            t = 1.0
        ahead = (1 + math.sqrt(1 + 4 * t * t)) / 2
        v = new + (t - 1) / ahead * (new - x) if momentum else new
        x, t = new, ahead
        yield x

r"""Tall problems made small: what least squares, ridge and lasso do with many rows."""

import math

import torch
from torch import Tensor

__all__ = ["BLOCK", "MILD", "few_rows", "finite"]

TALL = 5  # rows a column from which on a problem is rotated into fewer rows
BLOCK = 4096  # rows at once: few enough for the cache
MILD = 100.0  # condition number whose square leaves 12 of 16 digits


def finite(values: Tensor) -> bool:
    """Tell whether all values are finite; their sum says so at once, unless it overflows."""
    return math.isfinite(values.detach().sum().item()) or bool(values.isfinite().all())


def few_rows(
    X: Tensor, Y: Tensor, *, middle: Tensor | None = None, mild: float = 0.0
) -> tuple[Tensor, Tensor]:
    r"""Rotate a tall problem (s, d) into one of d rows, $R$ and $Q^\top Y$ where $X=QR$.

    It has the same singular values and the same solutions. $R$ is the product of two Cholesky
    factors: that of $X^\top X$ has lost digits, but what it leaves of $X$ is nearly orthonormal,
    and the factor of that restores them (Yamamoto et al. 2015). Where it is not, X is returned.
    Condition numbers below `mild` may be squared: one factor will do. A `middle` is subtracted from
    all rows, a block at a time: a centered copy of X would cost more than the rest.
    """

    def centered(rows: Tensor) -> Tensor:
        return rows if middle is None else rows - middle

    if X.ndim != 2 or len(X) < TALL * X.shape[1]:
        return centered(X), Y
    blocks = list(zip(X.split(BLOCK), Y.split(BLOCK), strict=True))
    gram, shares = X.new_zeros(X.shape[1], X.shape[1]), Y.new_zeros(X.shape[1], Y.shape[1])
    for x, y in blocks:
        x = centered(x)
        gram, shares = gram + _gram(x), torch.addmm(shares, x.mT, y)
    first, failed = torch.linalg.cholesky_ex(gram)
    identity = torch.eye(len(first), dtype=X.dtype, device=X.device)
    if failed:
        return centered(X), Y
    if mild and X.dtype == torch.float64:
        inverse = torch.linalg.solve_triangular(first, identity, upper=False)
        if bool(inverse.norm() * first.norm() < mild):  # at least the condition number
            return first.mT, inverse @ shares
    gram, shares = torch.zeros_like(gram), torch.zeros_like(shares)
    for x, y in blocks:
        q = torch.linalg.solve_triangular(first, centered(x).mT, upper=False)  # (d, rows)
        gram, shares = torch.addmm(gram, q, q.mT), torch.addmm(shares, q, y)
    if not bool(torch.dist(gram, identity) < 0.1):
        return centered(X), Y
    second = torch.linalg.cholesky_ex(gram)[0]
    return (first @ second).mT, torch.linalg.solve_triangular(second, shares, upper=False)


def _gram(X: Tensor) -> Tensor:
    r"""Compute $X^\top X$; NumPy sees that it is symmetric, and does half of the work."""
    try:
        rows = X.numpy()
    except (RuntimeError, TypeError):  # on another device, or with derivatives to follow
        return X.mT @ X
    return torch.from_numpy(rows.T @ rows)

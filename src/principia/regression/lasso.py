r"""Lasso: least squares with an absolute price, which sets coefficients exactly to 0.

A quadratic price shrinks every coefficient and removes none; an absolute one moves each towards 0
by the same amount and stops it there. Without a closed form, the minimum is found by gradient steps
followed by the soft threshold (ISTA); with momentum (FISTA) the error falls like $1/t^2$ instead of
$1/t$. As the price falls, coefficients enter one after another, along straight lines. There is no
intercept: center $X$ and $y$, and give the columns one size, for the price does not know their
units. The objective is scikit-learn's, so that `Lasso(alpha)` has the same minimum.

$$ F(w) = \frac1{2s}\Vert Xw-y\Vert^2 + \alpha\Vert w\Vert_1, \quad
   S_t(z) = \mathrm{sign}(z)\max(0,\lvert z\rvert-t) $$

$$ w \leftarrow S_{\alpha/L}\big(w - \tfrac1{Ls}X^\top(Xw-y)\big), \quad
   L = \lambda_{\max}(X^\top X)/s $$

$$ \lvert x_j^\top(y-Xw)\rvert \le s\alpha, \quad
   x_j^\top(y-Xw) = s\alpha\,\mathrm{sign}(w_j) \quad\text{if}\quad w_j \ne 0 $$

Symbols:
    $X, y$: data (s, d), one row a sample, and targets (s,); $x_j$ is a column
    $w$: coefficients (d,)
    $\alpha$: price of the coefficients, `alpha`
    $S_t$: soft threshold, `soft_threshold`
    $L$: largest curvature of the squared loss; a step has length $1/L$

References:
    Tibshirani (1996), Regression shrinkage and selection via the lasso. Journal of the Royal
        Statistical Society B 58(1). doi:10.1111/j.2517-6161.1996.tb02080.x
    Efron, Hastie, Johnstone and Tibshirani (2004), Least angle regression. Annals of Statistics
        32(2). doi:10.1214/009053604000000067
    Beck and Teboulle (2009), A fast iterative shrinkage-thresholding algorithm for linear inverse
        problems. SIAM Journal on Imaging Sciences 2(1). doi:10.1137/080716542
    O'Donoghue and Candès (2015), Adaptive restart for accelerated gradient schemes. Foundations of
        Computational Mathematics 15(3). doi:10.1007/s10208-013-9150-3
"""

__all__ = [
    "fista", "ista", "soft_threshold", "ProximalSGD", "lambda_max", "lasso_alpha", "kkt_residual",
]

import itertools
import warnings
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from principia.lab.params import (
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Range,
    checked,
    usage_error,
)
from principia.lab.training import GroupOptimizer
from principia.regression._least_squares_fast import MILD, few_rows, finite
from principia.regression.ridge import Loss, Penalty, ridge_alpha

Prices = Float[Tensor, "..."] | float
LOOK = 5  # steps between two looks at the duality gap, which costs as much as a step
UNEVEN = 10.0  # ratio of the largest to the smallest column from which on we warn


@checked
def soft_threshold(z: Float[Tensor, "..."], t: Prices) -> Float[Tensor, "..."]:
    r"""Moves numbers towards 0 by `t`, and those nearer than `t` onto it.

    It is `torch.nn.functional.softshrink` with a threshold for each entry.

    Example:
        >>> soft_threshold(torch.tensor([3.0, -0.5, -2.0]), torch.tensor([1.0, 1.0, 0.5])).tolist()
        [2.0, 0.0, -1.5]
    """
    t = torch.as_tensor(t, dtype=z.dtype, device=z.device)
    if not bool((t >= 0).all()):
        raise usage_error("soft_threshold", "t", "in [0, inf)", float(t.min()))
    return _shrunk(z, t)


def _shrunk(z: Tensor, t: Tensor) -> Tensor:
    return z - z.clamp(-t, t)


def soft_threshold_(z: Tensor | Iterable[Tensor], t: float) -> None:
    """Apply one soft threshold to a tensor, or to each of several, in place.

    It reads and writes the memory of each once, as optimizers want it.
    """
    for values in (z,) if isinstance(z, Tensor) else z:
        torch.ops.aten.softshrink.out(values, t, out=values)


@checked
def ista(
    X: Float[Tensor, "*B s d"], y: Float[Tensor, "*B s"], alpha: Prices, *,
    steps: PositiveInt = 10_000,
    step: Annotated[float, Range(0, 2, open="both")] = 1.0, tol: NonNegativeFloat = 1e-12,
) -> Float[Tensor, "... d"]:
    r"""Minimizes the lasso objective by gradient steps and soft thresholds.

    Shapes:
        X: (..., s, d); y: (..., s); returns (..., d), or (..., A, d) for A prices

    Args:
        alpha: Price, a number, or several (..., A), which are solved together.
        steps: Steps after which it warns and returns.
        step: Length of a step in units of 1/L; from 2 on the steps diverge.
        tol: Duality gap, relative to the loss of w = 0, at which it stops. For a price of 0 there
            is no gap, and all steps are made: use least squares.

    Example:
        >>> ista(torch.eye(2), torch.tensor([3.0, 0.5]), 1.0).tolist()
        [1.0, 0.0]
    """
    return _solve("ista", X, y, alpha, steps, tol, step=step)


def _solve(
    owner: str, X: Tensor, y: Tensor, alpha: Prices, steps: int, tol: float, **how: Any
) -> Tensor:
    """Step until every duality gap is small enough, on a compact problem of the same objective."""
    prices, single = _prices(owner, alpha, X)
    if not (finite(X) and finite(y)):
        hint = "Drop or fill those rows."
        raise usage_error(owner, "X and y", "finite", "NaN or infinity", hint)
    X, y = _compact(X, y)
    s = X.shape[-2]
    sizes = X.square().mean(-2)
    uneven = float((sizes.amax(-1) / sizes.where(sizes > 0, torch.inf).amin(-1)).max()) ** 0.5
    if uneven > UNEVEN:
        warnings.warn(
            f"{owner}: columns of X differ in size by a factor of {uneven:.0f}, and the price "
            "weighs on the small ones. Divide each by its standard deviation.", stacklevel=4,
        )
    tol = max(tol, 8 * torch.finfo(X.dtype).eps)  # the gap itself is rounded
    allowed = tol * y.square().sum(-1)[..., None] / (2 * s)
    finish = how.get("restart", False) and X.shape[-1] <= s  # else the equations may be singular
    w = gap = X.new_tensor(torch.nan)
    for t, w in enumerate(itertools.islice(proximal_iterates(X, y, prices, **how), steps), 1):
        if t % LOOK == 0 or t == steps:
            gap = gap_at(X, y, w, prices) - allowed
            if finish and bool((gap > 0).any()):
                solved = _with_these_signs(X, y, w, prices)
                new = gap_at(X, y, solved, prices) - allowed
                w, gap = solved.where((new < gap)[..., None], w), torch.fmin(new, gap)
            if bool((gap <= 0).all()):
                break
    else:
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"{owner}: the duality gap is {float(gap.max()):.2g} above its tolerance after {steps} "
            "steps. Allow more steps or a larger tol.", ConvergenceWarning, stacklevel=4,
        )
    return w[..., 0, :] if single else w


def _prices(owner: str, alpha: Prices, X: Tensor) -> tuple[Tensor, bool]:
    """Give the prices as (..., A), and whether there was a single number."""
    prices = torch.as_tensor(alpha, dtype=X.dtype, device=X.device)
    if not bool(((prices >= 0) & prices.isfinite()).all()):
        raise usage_error(owner, "alpha", "in [0, inf)", float(prices.min()))
    return torch.atleast_1d(prices), prices.ndim == 0


def _compact(X: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    r"""Give a problem of d + 1 rows with the objective of a tall one, for every w.

    It is $R$ and $Q^\top y$ of $X=QR$, then a row of zeros for what no column of X explains.
    """
    R, shares = few_rows(X, y[..., None], mild=MILD)
    if R is X:
        return X, y
    rest = (y.square().sum() - shares.square().sum()).clamp_min(0).sqrt()
    scale = ((len(R) + 1) / len(X)) ** 0.5  # the mean over rows shall stay
    return scale * F.pad(R, (0, 0, 0, 1)), scale * torch.cat([shares[:, 0], rest[None]])


def _with_these_signs(X: Tensor, y: Tensor, w: Tensor, prices: Tensor) -> Tensor:
    r"""Minimize F over the $w_j\ne0$, as if their signs were right: then its gradient is linear."""
    signs, s = w.sign(), X.shape[-2]
    on = signs.abs()
    gram = (X.mT @ X / s)[..., None, :, :] * on[..., None, :] * on[..., :, None]
    pull = (y[..., None, :] @ X / s - prices[..., None] * signs) * on
    factor, _ = torch.linalg.cholesky_ex(gram + torch.diag_embed(1 - on))
    return torch.cholesky_solve(pull[..., None], factor)[..., 0].nan_to_num()


def proximal_iterates(
    X: Tensor, y: Tensor, prices: Tensor, *, step: float = 1.0, momentum: bool = False,
    restart: bool = False,
) -> Iterator[Tensor]:
    """Yield $w_1, w_2, ...$, each (..., A, d), from $w_0=0$."""
    target, lr = y[..., None, :], step / curvature(X)
    rate, thresholds = lr / X.shape[-2], lr * prices[..., None]
    rows, columns = X.mT, rate * X
    problems = torch.broadcast_shapes(X.shape[:-2], prices.shape[:-1])
    w = X.new_zeros(*problems, prices.shape[-1], X.shape[-1])
    ahead, t = w, torch.ones_like(w[..., :1])
    while True:
        before = w
        w = _shrunk(ahead - (ahead @ rows - target) @ columns, thresholds)
        if restart:
            uphill = ((ahead - w) * (w - before)).sum(-1, keepdim=True) > 0
            t = t.masked_fill(uphill, 1.0)
        ahead = w
        if momentum:
            t, last = 0.5 + (0.25 + t * t).sqrt(), t
            ahead = w + (last - 1) / t * (w - before)
        yield w


def curvature(X: Tensor) -> Tensor:
    """Compute L (..., 1, 1); for X = 0 the smallest number, since any step will do."""
    largest = torch.linalg.matrix_norm(X, 2, keepdim=True) ** 2 / X.shape[-2]
    return largest.clamp_min(torch.finfo(X.dtype).tiny)


def gap_at(X: Tensor, y: Tensor, w: Tensor, prices: Tensor) -> Tensor:
    r"""Bound $F(w)-F^*$ (..., A): how far the dual lags behind at the scaled residual $\theta$.

    Written as sums of terms that are not negative, for differences of F would cancel.
    """
    s, residual = X.shape[-2], y[..., None, :] - w @ X.mT
    pull = residual @ X / s
    inside = (prices / pull.abs().amax(-1)).clamp_max(1.0).nan_to_num(1.0)[..., None]
    lost = ((1 - inside) * residual).square().sum(-1) / (2 * s)
    return lost + (prices[..., None] * w.abs() - w * inside * pull).sum(-1)


@checked
def fista(
    X: Float[Tensor, "*B s d"], y: Float[Tensor, "*B s"], alpha: Prices, *,
    steps: PositiveInt = 10_000, tol: NonNegativeFloat = 1e-12, restart: bool = True,
) -> Float[Tensor, "... d"]:
    r"""Minimizes the lasso objective by soft thresholds with momentum.

    Shapes:
        X: (..., s, d); y: (..., s); returns (..., d), or (..., A, d) for A prices

    Args:
        alpha: Price, a number, or several (..., A), which are solved together.
        steps: Steps after which it warns and returns.
        tol: Duality gap, relative to the loss of w = 0, at which it stops.
        restart: Whether momentum that points uphill is forgotten (O'Donoghue and Candès), and the
            linear equations that signs leave are solved, which ends it once the signs are right.

    Example:
        >>> prices = torch.tensor([1.0, 0.2])
        >>> fista(torch.eye(2), torch.tensor([3.0, 0.5]), prices).tolist()
        [[1.0, 0.0], [2.5999999046325684, 0.09999999403953552]]
    """
    return _solve("fista", X, y, alpha, steps, tol, momentum=True, restart=restart)


@final
class ProximalSGD(GroupOptimizer):
    r"""Trains a network with an l1 penalty: a gradient step, then the soft threshold.

    Weights become exactly 0, which a penalty added to the loss never achieves. Give biases a group
    of their own with `l1=0`.

    Args:
        params: Parameters, or groups of them.
        lr: Length of a step.
        l1: Price of the absolute values of the parameters.

    Example:
        >>> w = torch.nn.Parameter(torch.tensor([1.0, 1.0]))
        >>> optimizer = ProximalSGD([w], lr=0.5, l1=1.0)
        >>> w[0].backward()
        >>> optimizer.step()
        >>> w.tolist()
        [0.0, 0.5]
    """

    @checked
    def __init__(
        self, params: Any, *, lr: PositiveFloat = 1e-3, l1: NonNegativeFloat = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "l1": l1})

    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Take the step and the threshold, one parameter after the other."""
        lr, l1 = group["lr"], group["l1"]
        if not lr * l1 >= 0:
            raise usage_error("ProximalSGD", "l1", "in [0, inf)", l1)
        for p, gradient in zip(params, gradients, strict=True):
            p.add_(gradient, alpha=-lr)
            soft_threshold_(p, lr * l1)  # while the cache still holds it


@checked
def lambda_max(X: Float[Tensor, "*B s d"], y: Float[Tensor, "*B s"]) -> Float[Tensor, "*B"]:
    r"""Computes the smallest price that keeps all coefficients at 0: $\max_j|x_j^\top y|/s$.

    Example:
        >>> lambda_max(torch.eye(2), torch.tensor([3.0, -5.0])).item()
        2.5
    """
    return (y[..., None, :] @ X)[..., 0, :].abs().amax(-1) / X.shape[-2]


@checked
def lasso_alpha(
    lam: NonNegativeFloat, s: PositiveInt, *, loss: Loss = "sum", penalty: Penalty = "full"
) -> float:
    r"""Converts the price of another convention to scikit-learn's.

    Args:
        lam: Price in the other convention.
        s: Number of samples.
        loss: What stands before the price: $\Vert Xw-y\Vert^2$ times 1, 1/2, 1/s or 1/2s.
        penalty: Whether the price is $\lambda\Vert w\Vert_1$ or half of it.

    Example:
        >>> lasso_alpha(8.0, 10, loss="sum", penalty="half")
        0.2
    """
    in_sum = ridge_alpha(lam, s, loss=loss, penalty=penalty)  # the price where the loss is the sum
    return in_sum / (2 * s)


@checked
def kkt_residual(
    X: Float[Tensor, "*B s d"], y: Float[Tensor, "*B s"], w: Float[Tensor, "... d"], alpha: Prices
) -> Float[Tensor, "..."]:
    r"""Measures by how much coefficients miss the conditions of optimality: 0 at the minimum.

    It is the largest gap between $x_j^\top(y-Xw)/s$ and $\alpha\,\mathrm{sign}(w_j)$ where
    $w_j\ne0$, and its excess over $\alpha$ elsewhere.

    Shapes:
        X: (..., s, d); y: (..., s); w: (..., d), or (..., A, d) for A prices

    Example:
        >>> X, y = torch.eye(2), torch.tensor([3.0, 0.5])
        >>> kkt_residual(X, y, torch.tensor([1.0, 0.0]), 1.0).item()
        0.0
        >>> kkt_residual(X, y, torch.tensor([0.0, 0.0]), 1.0).item()
        0.5
    """
    prices, single = _prices("kkt_residual", alpha, X)
    w, prices = w[..., None, :] if single else w, prices[..., None]
    pull = (y[..., None, :] - w @ X.mT) @ X / X.shape[-2]  # (..., A, d)
    active = (pull - prices * w.sign()).abs()
    missed = torch.where(w == 0, (pull.abs() - prices).clamp_min(0), active).amax(-1)
    return missed[..., 0] if single else missed

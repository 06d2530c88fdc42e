r"""Least squares: the best linear prediction, in closed form and one sample at a time.

Half the mean squared error is a parabola in the weights, so its minimum solves linear equations,
the normal equations: the residual is orthogonal to every column of $X$. If the columns depend on
each other, many weights are best; the pseudo-inverse picks the shortest, and so does gradient
descent from 0. The Widrow-Hoff rule (LMS) needs one sample a step; at a constant rate it never
settles but hovers around the minimum. With samples as the columns of $X$, the gradient of
$\frac12\Vert X^\top w-y\Vert^2$ is $XX^\top w-Xy$.

$$ h(w) = \frac1{2s}\Vert Xw-y\Vert^2, \quad \nabla h(w) = \frac1s(X^\top Xw-X^\top y), \quad
w^* = X^+y $$

$$ X^+ = \lim_{\delta\to0}(X^\top X+\delta I)^{-1}X^\top, \quad
X^+ = (X^\top X)^{-1}X^\top \text{ for full column rank} $$

$$ w \leftarrow w+\eta\,(y_i-w^\top x_i)\,x_i, \quad i\sim\mathrm{Unif}\{1,\dots,s\} $$

$$ -\frac1s\log p(y\mid X,w,\sigma) = \frac{h(w)}{\sigma^2}+\log\sigma+\frac12\log 2\pi $$

Symbols:
    $X, y$: samples (s, d), one a row, and targets (s,) or several at once (s, m)
    $w, w^*$: weights (d,) and the shortest best ones, `lstsq(X, y)`
    $h$: half the mean squared error
    $X^+$: pseudo-inverse (d, s)
    $\delta$: ridge that makes the matrix invertible, one of `deltas`
    $\eta$: learning rate, `lr`
    $\sigma$: standard deviation of the noise, `log_sigma.exp()`

References:
    Gauss (1809), Theoria motus corporum coelestium in sectionibus conicis solem ambientium.
        Perthes et Besser.
    Penrose (1955), A generalized inverse for matrices. Mathematical Proceedings of the Cambridge
        Philosophical Society 51(3). doi:10.1017/S0305004100030401
    Widrow and Hoff (1960), Adaptive switching circuits. IRE WESCON Convention Record 4.
    Widrow, McCool, Larimore and Johnson (1976), Stationary and nonstationary learning
        characteristics of the LMS adaptive filter. Proceedings of the IEEE 64(8).
        doi:10.1109/PROC.1976.10286
    Higham (2002), Accuracy and Stability of Numerical Algorithms. SIAM.
        doi:10.1137/1.9780898718027
    Yamamoto, Nakatsukasa, Yanagisawa and Fukaya (2015), Roundoff error analysis of the CholeskyQR2
        algorithm. Electronic Transactions on Numerical Analysis 44.
    Hernández-Lobato and Adams (2015), Probabilistic backpropagation for scalable learning of
        Bayesian neural networks. ICML. arXiv:1502.05336
"""

__all__ = ["LMS", "lstsq", "normal_equations", "pinv_path", "hat_matrix", "gaussian_nll"]

import math
import warnings
from collections.abc import Callable
from typing import Annotated, Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import scale
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.uci import SETS, uci
from principia.lab.domains import Count, Positive, Range
from principia.lab.draws import randn
from principia.lab.errors import refuse
from principia.lab.estimators import fit_quietly
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import check_params, checked
from principia.lab.relations import (
    at_least,
    at_most,
    equal,
    estimates,
    every,
    identical,
    never,
    slope,
)
from principia.lab.seeds import Seed

Array = np.ndarray
TALL = 5  # rows a column from which on a problem is rotated into fewer rows
BLOCK = 4096  # rows at once: few enough for the cache
MILD = 100.0  # condition number whose square leaves 12 of 16 digits


@final
class LMS(RegressorMixin, BaseEstimator):
    r"""Learns by the Widrow-Hoff rule, one random sample a step, in many chains at once.

    All chains start at 0 and draw their own samples; `chains_` (C, D) holds where they are, the
    bias as last column. `coef_` and `intercept_` are the mean of the chains.

    Shapes:
        X: (N, D); y: (N,); predict returns (N,)

    Args:
        lr: Learning rate $\eta$; none means one over the largest squared length of a sample.
        average: Whether to return the mean of the weights over all steps.
        chains: Independent runs.
        epochs: Passes of `fit`, each of as many steps as there are samples.
        fit_intercept: Whether to learn a bias, as the weight of a constant input 1.
        trace: Whether to keep `trace_` (steps, C, D), the weights after every step.
        random_state: Seed of the samples drawn.

    Example:
        >>> model = LMS(random_state=0).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
        >>> model.predict([[3.0]]).round(3).tolist()
        [7.0]
    """

    def __init__(
        self, *, lr: Positive | None = None, average: bool = False, chains: Count = 1,
        epochs: Count = 50, fit_intercept: bool = True, trace: bool = False,
        random_state: Any = None,
    ) -> None:
        self.lr = lr
        self.average = average
        self.chains = chains
        self.epochs = epochs
        self.fit_intercept = fit_intercept
        self.trace = trace
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "LMS":
        """Start at 0 and take `epochs` passes."""
        return self._learn(X, y, True, self.epochs)

    def partial_fit(self, X: Any, y: Any) -> "LMS":
        """Go on with one pass over these samples; one sample is one step."""
        return self._learn(X, y, "chains_" not in vars(self), 1)

    def _learn(self, X: Any, y: Any, fresh: bool, passes: int) -> "LMS":
        check_params(self)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=fresh)
        if self.fit_intercept:
            X = np.column_stack([X, np.ones(len(X))])
        longest = float((X**2).sum(axis=1).max()) or 1.0
        if self.lr and self.lr * longest >= 2:
            warnings.warn(
                f"LMS: lr must be below 2/max|x|^2 = {2 / longest:.4g}; got {self.lr:g}. A step "
                "can lead away from the solution: standardize X, or lower lr.",
                ConvergenceWarning, stacklevel=3,
            )
        if fresh:
            self.chains_ = np.zeros((self.chains, X.shape[1]))
            self.means_, self.n_steps_, self._traced = self.chains_, 0, []
            self._rng = check_random_state(self.random_state)
        with np.errstate(over="ignore", invalid="ignore"):  # told below, in words
            for _ in range(passes):
                self._sweep(X, y, self.lr or 1 / longest)
        if not np.isfinite(self.chains_).all():
            hint = "Standardize X, or lower lr."
            raise refuse("LMS", "lr", "small enough that the weights stay finite", self.lr, hint)
        found = (self.means_ if self.average else self.chains_).mean(axis=0)
        self.coef_ = found[: self.n_features_in_]
        self.intercept_ = float(found[-1]) if self.fit_intercept else 0.0
        if self.trace:
            self.trace_ = np.stack(self._traced)
        return self

    def _sweep(self, X: Array, y: Array, lr: float) -> None:
        """Take as many steps as there are samples."""
        W = self.chains_
        for rows in self._rng.randint(len(y), size=(len(y), len(W))):
            x = X[rows]  # (C, D), a sample for each chain
            W = W + (lr * (y[rows] - np.einsum("cd,cd->c", W, x)))[:, None] * x
            self.n_steps_ += 1
            if self.average:
                self.means_ = self.means_ + (W - self.means_) / self.n_steps_
            if self.trace:
                self._traced.append(W)
        self.chains_ = W

    def predict(self, X: Any) -> Array:
        """Predict the target of each sample."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return X @ self.coef_ + self.intercept_


@checked
def lstsq(
    X: Float[Tensor, "*batch s d"], Y: Float[Tensor, "..."], *, rcond: Positive | None = None
) -> Float[Tensor, "..."]:
    r"""Solves least squares by a singular value decomposition; of all solutions, the shortest.

    Shapes:
        X: (..., s, d); Y: (..., s) or (..., s, m); returns (..., d) or (..., d, m)

    Args:
        X: Samples, one a row.
        Y: Targets.
        rcond: Singular values below this share of the largest count as 0; none means rounding.

    Example:
        >>> lstsq(torch.tensor([[1.0, 1.0]]), torch.tensor([4.0])).round(decimals=3)
        tensor([2., 2.])
    """
    columns = _columns("lstsq", X, Y)
    rcond = rcond or max(X.shape[-2:]) * torch.finfo(X.dtype).eps
    if X.shape[-2] > BLOCK:  # with fewer rows LAPACK is as fast by itself
        X, columns = few_rows(X, columns)
    solution = torch.linalg.lstsq(X, columns, rcond=rcond, driver="gelsd").solution
    return solution[..., 0] if Y.ndim < X.ndim else solution


def normal_equations(X: Float[Tensor, "s d"], y: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    r"""Solves $X^\top Xw=X^\top y$ by Cholesky; for comparison, as it squares the condition number.

    Shapes:
        X: (s, d) of rank d; y: (s,) or (s, m); returns (d,) or (d, m)

    Example:
        >>> X = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
        >>> normal_equations(X, torch.tensor([3.0, 4.0, 5.0]))
        tensor([3., 2.])
    """
    columns = _columns("normal_equations", X, y)
    factor, failed = torch.linalg.cholesky_ex(X.mT @ X)
    d = X.shape[1]  # the smallest share of the largest singular value that survives squaring:
    tolerance = (d * torch.finfo(X.dtype).eps) ** 0.5
    rank = int(torch.linalg.matrix_rank(few_rows(X, columns)[0], rtol=tolerance))
    if rank < d or failed:
        got, hint = f"rank {min(rank, d - 1)}", "Use lstsq: it picks the shortest of all solutions."
        raise refuse("normal_equations", "X", f"of full column rank {d}", got, hint)
    solution = torch.cholesky_solve(X.mT @ columns, factor)
    return solution[:, 0] if y.ndim == 1 else solution


def pinv_path(X: Float[Tensor, "s d"], deltas: Float[Tensor, " A"]) -> Float[Tensor, "A d s"]:
    r"""Computes $(X^\top X+\delta I)^{-1}X^\top$ for many $\delta$ from one decomposition.

    Args:
        X: Samples, one a row.
        deltas: Ridges, 0 or more; 0 gives the limit, $X^+$.

    Example:
        >>> pinv_path(torch.tensor([[2.0]]), torch.tensor([0.0, 1.0])).flatten()
        tensor([0.5000, 0.4000])
    """
    if not bool((deltas >= 0).all()):
        raise refuse("pinv_path", "deltas", "all >= 0", deltas.tolist())
    U, values, V = _thin_svd("pinv_path", X)
    gains = values / (values**2 + deltas[:, None])  # (A, rank)
    return torch.einsum("dr,ar,sr->ads", V, gains, U)


def hat_matrix(X: Float[Tensor, "s d"]) -> Float[Tensor, "s s"]:
    r"""Makes the matrix $XX^+$ that puts the hat on $y$: it projects onto the columns of $X$.

    Example:
        >>> hat_matrix(torch.ones(2, 1))  # the best constant is the mean
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """
    U, _, _ = _thin_svd("hat_matrix", X)
    return U @ U.mT


def gaussian_nll(
    w: Float[Tensor, " d"], log_sigma: Float[Tensor, ""], X: Float[Tensor, "s d"],
    y: Float[Tensor, "..."],
) -> Float[Tensor, ""]:
    r"""Computes the mean of $-\log p(y_i)$ for $y_i$ normal around $w^\top x_i$ with deviation σ.

    Example:
        >>> X, y = torch.eye(2), torch.tensor([1.0, 2.0])
        >>> gaussian_nll(y, torch.tensor(0.0), X, y)  # no residual: half of log 2π
        tensor(0.9189)
    """
    loss = _loss(w[:, None], X, _columns("gaussian_nll", X, y))
    return loss * torch.exp(-2 * log_sigma) + log_sigma + math.log(2 * math.pi) / 2


def _columns(owner: str, X: Tensor, Y: Tensor) -> Tensor:
    """Give the targets as columns (..., s, m); refuse what does not fit X or is not finite."""
    if X.shape[:-1] not in (Y.shape, Y.shape[:-1]):
        domain = f"of shape {tuple(X.shape[:-1])}, or with one more axis"
        raise refuse(owner, "y", domain, tuple(Y.shape), "X and y need one row a sample.")
    for name, values in (("X", X), ("y", Y)):
        if not finite(values):
            raise refuse(owner, name, "finite", "NaN or infinity", "Drop or fill those rows.")
    return Y[..., None] if Y.ndim < X.ndim else Y


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


def _thin_svd(owner: str, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Decompose X = U diag(values) V'; what is 0 up to rounding is left out."""
    _columns(owner, X, X)
    U, values, Vh = torch.linalg.svd(X, full_matrices=False)
    kept = values > values.max() * max(X.shape) * torch.finfo(X.dtype).eps
    return U[:, kept], values[kept], Vh[kept].mT


def _loss(w: Tensor, X: Tensor, y: Tensor) -> Tensor:
    return (X @ w - y).square().mean() / 2


def _gradient(w: Tensor, X: Tensor, y: Tensor) -> Tensor:
    return X.mT @ (X @ w - y) / len(X)


@claim(
    control={"form": "misprint"},
    source="Gauss 1809",
    misprint=r"for $h=\frac1{2s}\Vert Xw-y\Vert^2$: $\nabla h=2X^\top X-2X^\top y$",
)
def gradient(
    seed: Seed, *, samples: Annotated[int, Range(1, 1000)] = 30,
    dim: Annotated[int, Range(1, 100)] = 5, form: Literal["right", "misprint"] = "right",
) -> Evidence:
    r"""The gradient of $\frac1{2s}\Vert Xw-y\Vert^2$ is $\frac1s(X^\top Xw-X^\top y)$."""
    X, y, w = _problem(seed, samples, dim)
    slopes = _differentiated(lambda v: _loss(v, X, y), w)[1]
    if form == "misprint":  # without w it is a matrix; no column of it is the gradient
        return identical(np.tile(slopes[:, None], dim), 2 * X.T @ X - 2 * (X.T @ y)[:, None])
    return every(
        {
            "formula": identical(slopes, (X.T @ X @ w - X.T @ y) / samples),
            "by the residual": identical(slopes, _gradient(w, X, y)),
        }
    )


@claim(
    control={"form": "misprint"},
    source="by construction",
    misprint=r"$X^\top Xw-X^\top y$ with the samples as columns of $X$",
)
def samples_as_columns(
    seed: Seed, *, size: Annotated[int, Range(2, 100)] = 6,
    form: Literal["columns", "misprint"] = "columns",
) -> Evidence:
    r"""Samples as columns: the gradient of $\frac12\Vert X^\top w-y\Vert^2$ is $XX^\top w-Xy$."""
    X, y, w = _problem(seed, size, size)  # d = s, so that both forms have a shape
    slopes = _differentiated(lambda v: (X.T @ v - y).square().sum() / 2, w)[1]
    A = X if form == "columns" else X.T
    return identical(slopes, A @ A.T @ w - A @ y)


@claim(control={"ridge": 1.0}, source="Gauss 1809")
def normal_equations_claim(
    seed: Seed, *, samples: Annotated[int, Range(20, 500)] = 50,
    dim: Annotated[int, Range(1, 10)] = 6, ridge: Annotated[float, Range(0, 100)] = 0.0,
) -> Evidence:
    r"""At $w^*$ the gradient is 0, the residual orthogonal to the columns; $XX^+$ projects."""
    X, y, _ = _problem(seed, samples, dim)
    # ridge regression is least squares with d more samples, sqrt(ridge) I, of target 0
    wider = torch.cat([X, ridge**0.5 * torch.eye(dim, dtype=X.dtype)])
    w = normal_equations(wider, torch.cat([y, y.new_zeros(dim)]))
    H, reference = hat_matrix(X), LinearRegression(fit_intercept=False).fit(X.numpy(), y.numpy())
    residual, near = y - X @ w, "10^-8: three ways to one solution, at condition numbers below 10"
    return every(
        {
            "gradient": identical(_gradient(w, X, y), torch.zeros(dim)),
            "residual": identical(X.T @ residual, torch.zeros(dim)),
            "equals scikit-learn": equal(w, reference.coef_, tol=1e-8, why=near),
            "equals lstsq": equal(w, lstsq(X, y), tol=1e-8, why=near),
            "hat": identical(H, X @ torch.linalg.pinv(X)),
            "symmetric": identical(H, H.T),
            "idempotent": identical(H @ H, H),
            "rank": equal(torch.linalg.matrix_rank(H), dim, tol=0, why="integers"),
            "fitted": identical(X @ w, H @ y),
        }
    )


@claim(control={"delta": 1.0}, source="Penrose 1955")
def pseudo_inverse_limit(
    seed: Seed, *, delta: Annotated[float, Range(1e-7, 100)] = 1e-6,
    rank: Annotated[int, Range(1, 9)] = 6,
) -> Evidence:
    r"""$(X^\top X+\delta I)^{-1}X^\top\to X^+$ at rate $\delta$; $X^+y$ is best at any rank."""
    rng = seed.torch()
    left, right = (torch.linalg.qr(randn(rng, size, rank))[0] for size in (30, 10))
    values = torch.linspace(1, 5, rank, dtype=torch.float64)
    X, y = left * values @ right.T, randn(rng, 30)
    deltas = delta * torch.logspace(0, 3, 7, dtype=torch.float64)
    path, exact = pinv_path(X, deltas), torch.linalg.pinv(X)
    distances = torch.linalg.matrix_norm(path - exact)
    shifted = X.T @ X + deltas[-1] * torch.eye(10, dtype=X.dtype)
    w = pinv_path(X, torch.zeros(1, dtype=X.dtype))[0] @ y
    least = _loss(lstsq(X, y), X, y)
    return every(
        {
            "rate": slope(
                deltas, distances, 1.0, tol=0.01,
                why="exactly δ/(v³ + vδ) for singular values v ≥ 1: a bend of δ ≤ 0.001",
                labels=("δ", "distance to the pseudo-inverse"),
            ),
            "minimum along the path": equal(
                _loss(path[0] @ y, X, y), least, tol=1e-10 * (1 + float(least)),
                why="the loss exceeds the minimum by δ²|y|²/2s < 10^-11 at singular values ≥ 1",
            ),
            "one of the path": equal(
                path[-1], torch.linalg.solve(shifted, X.T),
                tol=1e-8, why="solving with condition number 25/δ = 25000 loses 5 of 16 digits",
            ),
            "minimum at the limit": identical(_loss(w, X, y), least),
            "gradient at the limit": identical(_gradient(w, X, y), torch.zeros(10)),
        }
    )


@claim(control={"outside": 5.0}, source="Penrose 1955", headline=True)
def minimum_norm(
    seed: Seed, *, samples: Annotated[int, Range(3, 16)] = 9,
    waves: Annotated[int, Range(10, 100)] = 20, outside: Annotated[float, Range(0, 20)] = 0.0,
    steps: Annotated[int, Range(0, 50000)] = 5000,
) -> Evidence:
    r"""Of all best weights $X^+y$ are the shortest, and gradient descent from 0 finds them."""
    rng = seed.torch()
    spread = torch.arange(samples) + 0.5 * torch.rand(samples, generator=rng, dtype=torch.float64)
    t, y = 2 * math.pi * spread / samples, randn(rng, samples)
    X = _waves(t, waves)
    shortest = lstsq(X, y)
    away = randn(rng, 1000, X.shape[1])
    away -= lstsq(X, X @ away.T).T  # what X does not see: adding it changes no prediction
    away /= away.norm(dim=1, keepdim=True)
    w = outside * away[0]
    rate = samples / float(torch.linalg.matrix_norm(X, 2)) ** 2  # 1 / largest curvature
    for _ in range(steps):
        w = w - rate * _gradient(w, X, y)
    lengths = torch.logspace(-3, 1, 1000, dtype=torch.float64)
    others = shortest + lengths[:, None] * away
    losses = (X @ others.T - y[:, None]).square().mean(0) / 2
    fine = torch.linspace(0, 2 * math.pi, 361, dtype=torch.float64)
    curve, coarse = _waves(fine, waves), slice(None, None, 3)
    return every(
        {
            "gradient descent": equal(
                w, shortest, tol=1e-6, why="10^-6: the slowest direction has shrunk beyond it"
            ).drawn(
                Series("another minimizer", fine, curve @ (shortest + 5 * away[1]), role="other"),
                Series("shortest weights X⁺y", fine, curve @ shortest, role="predicted"),
                Series("gradient descent", fine[coarse], (curve @ w)[coarse]),
                Series("samples", t, y, role="bound", style="points"),
                x="t", y="prediction, a sum of waves",
            ),
            "others are longer": at_least(
                others.norm(dim=1), float(shortest.norm()), why="a theorem: no slack"
            ),
            "others are as good": identical(losses, torch.zeros(1000)),
        }
    )


@claim(control={"likelihood": "laplace"}, source="Gauss 1809")
def gaussian_likelihood(
    seed: Seed, *, samples: Annotated[int, Range(20, 2000)] = 100,
    dim: Annotated[int, Range(1, 10)] = 4, sigma: Annotated[float, Range(0.1, 10)] = 0.5,
    likelihood: Literal["gaussian", "laplace"] = "gaussian",
) -> Evidence:
    r"""With Gaussian noise $w^*$ is most likely, and $\hat\sigma^2$ the mean squared residual."""
    X, y, w = _problem(seed, samples, dim)
    y = X @ w + sigma * y

    def laplace(w: Tensor, log_scale: Tensor, X: Tensor, y: Tensor) -> Tensor:
        return (y - X @ w).abs().mean() * torch.exp(-log_scale) + log_scale + math.log(2)

    nll = gaussian_nll if likelihood == "gaussian" else laplace
    found = minimize(  # over the weights and, last, the logarithm of the deviation
        lambda v: _differentiated(lambda v: nll(v[:-1], v[-1], X, y), torch.tensor(v)),
        np.zeros(dim + 1), jac=True, method="L-BFGS-B",
        options={"ftol": 0, "gtol": 1e-10, "maxiter": 500},
    ).x
    best, reason = lstsq(X, y), "10^-6: L-BFGS resolves the minimum of a smooth function to 10^-8"
    left = (y - X @ best).square().mean()
    deviation = torch.tensor(sigma, dtype=X.dtype)
    density = torch.distributions.Normal(X @ w, deviation).log_prob(y)
    return every(
        {
            "weights": equal(found[:-1], best, tol=1e-6, why=reason),
            "variance": equal(np.exp(2 * found[-1]) / left, 1.0, tol=1e-6, why=reason),
            "density": identical(nll(w, deviation.log(), X, y), -density.mean()),
        }
    )


@claim(control={"sigma": 0.0}, source="Widrow et al. 1976")
def lms_noise_floor(
    seed: Seed, *, chains: Annotated[int, Range(100, 400)] = 200,
    dim: Annotated[int, Range(2, 4)] = 2, sigma: Annotated[float, Range(0, 10)] = 1.0,
) -> Evidence:
    r"""At a constant rate LMS hovers around $w^*$, at a mean squared radius in proportion to η."""
    X, y, w = (one.numpy() for one in _problem(seed, 50, dim))
    X = X / np.linalg.norm(X, axis=1, keepdims=True) * dim**0.5  # no sample outweighs the others
    y = X @ w + sigma * y
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    calmest = float(np.linalg.eigvalsh(X.T @ X / len(y))[0])
    rates, exact, halves, floors, errors = np.geomspace(0.003, 0.05, 6), [], [], [], []
    for lr in rates:  # as many time constants for each rate, half of them to forget the start
        model = LMS(
            lr=float(lr), chains=chains, epochs=math.ceil(12 / (lr * calmest * len(y))),
            fit_intercept=False, trace=True, random_state=seed.child(lr),
        ).fit(X, y)
        radii = ((model.trace_ - best) ** 2).sum(axis=2)  # (steps, C)
        early, late = np.split(radii[len(radii) % 4 :], 4)[2:]
        halves.append(late.mean() / early.mean())
        settled = (early + late).mean(axis=0) / 2  # one number a chain: independent
        floors.append(settled.mean())
        errors.append(settled.std(ddof=1) / chains**0.5)
        exact.append(_floor(X, y - X @ best, lr))
    return every(
        {
            "no longer nearer": at_least(
                halves, 0.5, why="1 up to noise of 10 %; without a floor it would be e^-6"
            ).drawn(
                Series("LMS", rates, floors, error=errors),
                Series("exact", rates, exact, role="predicted"),
                x="rate η", y="mean squared radius", log="xy",
            ),
            "proportional": slope(
                rates, floors, 1.0, tol=0.1,
                why="the floor is about ησ²d/(2 - ηd): 4 % of bend at d = 4; noise 2 %",
            ),
            "floor": estimates(
                floors, exact, error=errors, bias=math.exp(-12) * (w @ w),
                why="mean over independent chains; e^-12 of the squared start is left",
            ),
        }
    )


@claim(control={"rate": 2.5, "length": "shortest"}, source="by construction")
def lms_step_limit(
    seed: Seed, *, rate: Annotated[float, Range(0.01, 2.5)] = 1.9,
    length: Literal["longest", "shortest"] = "longest",
    dim: Annotated[int, Range(2, 20)] = 5, chains: Annotated[int, Range(1, 200)] = 50,
) -> Evidence:
    r"""On consistent data no LMS step with $\eta<2/\max\Vert x\Vert^2$ leads away from $w^*$."""
    X, _, w = (one.numpy() for one in _problem(seed, 20, dim))
    X *= (np.linspace(1, 2, 20) / np.linalg.norm(X, axis=1))[:, None]  # lengths from 1 to 2
    lr = rate / {"longest": 2.0, "shortest": 1.0}[length] ** 2
    model = LMS(
        lr=lr, chains=chains, epochs=5, fit_intercept=False, trace=True, random_state=seed
    )
    path = fit_quietly(model, X, X @ w).trace_
    start = np.zeros((1, chains, dim))
    distances = np.linalg.norm(np.concatenate([start, path]) - w, axis=2)  # (steps + 1, C)
    rounding = 1e-12 * (1 + np.linalg.norm(w))
    return never(
        distances[1:] > distances[:-1] + rounding, why="a theorem; 10^-12 is left for rounding"
    ).drawn(
        Series("farthest chain", range(len(distances)), distances.max(1), "measured", "line"),
        Series("median chain", range(len(distances)), np.median(distances, axis=1), "other"),
        x="steps", y="distance to w*", log="y",
    )


@claim(control={"design": "orthonormal"}, source="Higham 2002, sec. 20.4")
def conditioning_squared(
    seed: Seed, *, samples: Annotated[int, Range(30, 200)] = 40,
    repeats: Annotated[int, Range(10, 100)] = 30,
    design: Literal["monomial", "orthonormal"] = "monomial",
) -> Evidence:
    r"""Normal equations err like $\kappa^2u$, singular values like $\kappa u$."""
    rng = seed.torch()
    conditions, squared, plain = [], [], []
    for dim in range(4, 11):  # monomials on [0, 1]: condition numbers from 10^2 to 10^7
        t = (torch.arange(samples) + torch.rand(repeats, samples, generator=rng)).double() / samples
        X = t[..., None] ** torch.arange(dim)
        conditions.append(float(torch.linalg.cond(X).log().mean().exp()))
        X = X if design == "monomial" else torch.linalg.qr(X)[0]
        w = randn(rng, repeats, dim, 10)
        Y = X @ w
        gram = torch.stack([normal_equations(*one) for one in zip(X, Y, strict=True)])
        for errors, found in ((squared, gram), (plain, lstsq(X, Y))):
            relative = (found - w).norm(dim=1) / w.norm(dim=1)
            errors.append(float(relative.log().mean().exp()))  # geometric mean: errors spread wide
    reason = "the constants depend on the degree, by less than a decade over five of κ"
    kappa, u = np.array(conditions), np.finfo(np.float64).eps / 2
    return every(
        {
            "normal equations": slope(conditions, squared, 2.0, tol=0.3, why=reason).drawn(
                Series("normal equations", conditions, squared),
                Series("κ²u", conditions, u * kappa**2, role="predicted"),
                Series("lstsq", conditions, plain, "other", "points"),
                Series("κu", conditions, u * kappa, role="predicted"),
                x="condition number κ of the monomials", y="relative error", log="xy",
            ),
            "lstsq": slope(conditions, plain, 1.0, tol=0.3, why=reason),
            "lstsq is stable": at_most(
                plain, 10 * u * kappa, why="the answer to data that differ by 10 u at most"
            ),
        }
    )


GOALS = {"boston": 4.7, "concrete": 10.5, "energy": 3.1, "wine": 0.66, "yacht": 9.1}  # as in SETS


@experiment(
    reaches={
        **{f"{name}_rmse": at_most_goal(goal) for name, goal in GOALS.items()},
        "difference_from_sklearn": at_most_goal(1e-8),
    },
    floor={"r2": Range(0.51765, 0.51775), "difference_from_sklearn": at_most_goal(1e-8)},
    source="least squares by scikit-learn on the 20 splits of Hernández-Lobato and Adams (2015); "
    "R² = 0.5177 on the diabetes data of Efron et al. (2004), Least angle regression",
)
def uci_experiment(run: Run, *, chains: Count = 200) -> None:
    """Predicts five UCI targets on 20 fixed splits; when quick, diabetes on its own sample."""
    X, y = load_diabetes(return_X_y=True)
    tasks = {"diabetes": [(X, y, X, y)]}
    if run.full:
        tables = zip(GOALS, (uci(name, data_dir=run.data_dir) for name in SETS), strict=True)
        tasks = {name: [(one.X[a], one.y[a], one.X[b], one.y[b]) for a, b in one.splits]
                 for name, one in tables}
    gaps, pictured = [], None
    for name, splits in tasks.items():
        errors = []
        for X, y, X_test, truth in splits:
            guess, gap = _predict(X, y, X_test)
            gaps.append(gap)
            errors.append(np.sqrt(np.mean((guess - truth) ** 2)))
            pictured = pictured or (X, y, guess, truth)
        run.record(**{f"{name}_rmse": float(np.mean(errors))})
    run.record(difference_from_sklearn=max(gaps))

    X, y, guess, truth = pictured  # type: ignore[misc]
    run.record(r2=1 - ((truth - guess) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())
    ends = [float(truth.min()), float(truth.max())]
    diagonal = Series("perfect", ends, ends, role="predicted")
    scatter = Picture((Series("samples", truth, guess), diagonal), "true", "predicted")
    run.figure("predicted", figures.draw(scatter))
    # the two features that tell most, alone: their weights fit on a plane
    chosen = np.argsort([-abs(np.corrcoef(column, y)[0, 1]) for column in X.T])[:2]
    Z, target = scale(X[:, chosen]), scale(y)
    best = lstsq(torch.tensor(Z), torch.tensor(target))
    series = [Series("w*", best[:1], best[1:], role="bound", style="points")]
    for lr in (0.005, 0.05):
        model = LMS(lr=lr, chains=chains, epochs=5, fit_intercept=False, random_state=run.seed)
        x, y = fit_quietly(model, Z, target).chains_.T
        series.insert(0, Series(f"LMS, η = {lr}", x, y, role="other", style="points"))
    names = [f"weight of feature {column}" for column in chosen]
    run.figure("lms_cloud", figures.draw(Picture(tuple(series), names[0], names[1])))


def _predict(X: Array, y: Array, X_test: Array) -> tuple[Array, float]:
    """Predict by `lstsq` on centered data; also give the largest difference from scikit-learn."""
    w = lstsq(torch.tensor(X - X.mean(0)), torch.tensor(y - y.mean()))
    guess = (X_test - X.mean(0)) @ w.numpy() + y.mean()
    return guess, float(np.abs(guess - LinearRegression().fit(X, y).predict(X_test)).max())


def _problem(seed: Seed, s: int, d: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw normal samples (s, d), targets (s,) and weights (d,)."""
    rng = seed.torch()
    return randn(rng, s, d), randn(rng, s), randn(rng, d)


def _differentiated(function: Callable[[Tensor], Tensor], at: Tensor) -> tuple[float, Array]:
    """Give value and gradient of a function at a point, by autograd."""
    leaf = at.clone().requires_grad_()
    value = function(leaf)
    return float(value.detach()), torch.autograd.grad(value, leaf)[0].numpy()


def _waves(t: Tensor, waves: int) -> Tensor:
    """Give 1, cos(kt)/k and sin(kt)/k as features: short weights make smooth curves."""
    k = torch.arange(1, waves + 1, dtype=t.dtype)
    angles = t[:, None] * k
    return torch.cat([torch.ones_like(t)[:, None], angles.cos() / k, angles.sin() / k], dim=1)


def _floor(X: Array, residual: Array, lr: float) -> float:
    r"""Compute the exact stationary $E\Vert w-w^*\Vert^2$ of LMS on a finite set of samples.

    With $A=I-\eta xx^\top$ the covariance solves $C = E[ACA]+\eta^2E[r^2xx^\top]$, linear in $C$.
    """
    s, d = X.shape
    A = np.eye(d) - lr * X[:, :, None] * X[:, None, :]
    map_ = np.einsum("sij,skl->ikjl", A, A).reshape(d * d, d * d) / s
    forcing = lr**2 * (X.T * residual**2) @ X / s
    return float(np.trace(np.linalg.solve(np.eye(d * d) - map_, forcing.ravel()).reshape(d, d)))

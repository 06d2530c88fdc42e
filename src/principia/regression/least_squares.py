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
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from principia.lab.params import PositiveFloat, PositiveInt, check_params, checked, usage_error
from principia.regression._least_squares_fast import BLOCK, few_rows, finite

Array = np.ndarray


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
        self, *, lr: PositiveFloat | None = None, average: bool = False, chains: PositiveInt = 1,
        epochs: PositiveInt = 50, fit_intercept: bool = True, trace: bool = False,
        random_state: Any = None,
    ) -> None:
        self.lr, self.average, self.chains, self.epochs = lr, average, chains, epochs
        self.fit_intercept, self.trace, self.random_state = fit_intercept, trace, random_state

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
            raise usage_error(
                "LMS", "lr", "small enough that the weights stay finite", self.lr, hint
            )
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
    X: Float[Tensor, "*batch s d"], Y: Float[Tensor, "..."], *, rcond: PositiveFloat | None = None
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


def _columns(owner: str, X: Tensor, Y: Tensor) -> Tensor:
    """Give the targets as columns (..., s, m); refuse what does not fit X or is not finite."""
    if X.shape[:-1] not in (Y.shape, Y.shape[:-1]):
        domain = f"of shape {tuple(X.shape[:-1])}, or with one more axis"
        raise usage_error(owner, "y", domain, tuple(Y.shape), "X and y need one row a sample.")
    for name, values in (("X", X), ("y", Y)):
        if not finite(values):
            raise usage_error(owner, name, "finite", "NaN or infinity", "Drop or fill those rows.")
    return Y[..., None] if Y.ndim < X.ndim else Y


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
        raise usage_error("normal_equations", "X", f"of full column rank {d}", got, hint)
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
        raise usage_error("pinv_path", "deltas", "all >= 0", deltas.tolist())
    U, values, V = _thin_svd("pinv_path", X)
    gains = values / (values**2 + deltas[:, None])  # (A, rank)
    return torch.einsum("dr,ar,sr->ads", V, gains, U)


def _thin_svd(owner: str, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Decompose X = U diag(values) V'; what is 0 up to rounding is left out."""
    _columns(owner, X, X)
    U, values, Vh = torch.linalg.svd(X, full_matrices=False)
    kept = values > values.max() * max(X.shape) * torch.finfo(X.dtype).eps
    return U[:, kept], values[kept], Vh[kept].mT


def hat_matrix(X: Float[Tensor, "s d"]) -> Float[Tensor, "s s"]:
    r"""Makes the matrix $XX^+$ that puts the hat on $y$: it projects onto the columns of $X$.

    Example:
        >>> hat_matrix(torch.ones(2, 1)) @ torch.tensor([1.0, 3.0])  # the best constant: the mean
        tensor([2.0000, 2.0000])
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
    loss = half_mean_square(w[:, None], X, _columns("gaussian_nll", X, y))
    return loss * torch.exp(-2 * log_sigma) + log_sigma + math.log(2 * math.pi) / 2


def half_mean_square(w: Tensor, X: Tensor, y: Tensor) -> Tensor:
    """Give half the mean of the squared residuals."""
    return (X @ w - y).square().mean() / 2

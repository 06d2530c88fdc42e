r"""Moments: means, variances and covariances, and the function that generates them all.

The variance is the mean of the squares minus the square of the mean: true, and a trap. As numbers
are stored, the difference of two huge terms has no correct digit left; moments of batches that are
centered first and then merged have all of them, in any order. Covariances carry a law through
linear maps: $A\Sigma A^\top$. Independent variables are uncorrelated, but not the other way around.
The moment generating function $M$ keeps all moments at once, as its derivatives at 0: a sum of
independent variables multiplies it, and where it is finite around 0 it determines the law.

$$ \mathrm{Var}X = E[X^2]-E[X]^2, \quad \mathrm{Var}[AX+b] = A\,\mathrm{Var}[X]A^\top, \quad
\mathrm{Var}\Big[\sum_ia_iX_i\Big] = \sum_ia_i^2\mathrm{Var}X_i+2\sum_{i<j}a_ia_j
\mathrm{Cov}(X_i,X_j) = a^\top\Sigma a $$

$$ S = S_a+S_b+\frac{n_an_b}{n_a+n_b}\delta\delta^\top, \quad \delta = \bar x_b-\bar x_a $$

$$ M(t) = E[e^{t^\top X}], \quad
E[X_1^{k_1}\cdots X_n^{k_n}] = \frac{\partial^kM}{\partial t_1^{k_1}\cdots\partial t_n^{k_n}}(0),
\quad M_{\sum_ia_iX_i}(t) = \prod_iM_{X_i}(a_it) $$

Symbols:
    $\Sigma$: covariance matrix, `cov`
    $S, \bar x$: sum of the outer products of centered rows, and mean, in `RunningMoments`
    $a, b$: two batches of $n_a$ and $n_b$ rows; elsewhere `weights` of a sum, and a shift
    $A$: matrix of a linear map, in `affine_cov`
    $M(t)$: moment generating function, `mgf`; its logarithm `log_mgf`; of samples `empirical_mgf`
    $k_1, \ldots, k_n$: `orders` of a moment, `raw_moment`; together $k$

References:
    Isserlis (1918), On a formula for the product-moment coefficient of any order of a normal
        frequency distribution in any number of variables. Biometrika 12.
        doi:10.1093/biomet/12.1-2.134
    Curtiss (1942), A note on the theory of moment generating functions. Annals of Mathematical
        Statistics 13(4). doi:10.1214/aoms/1177731541
    Chan, Golub and LeVeque (1983), Algorithms for computing the sample variance: analysis and
        recommendations. The American Statistician 37(3). doi:10.1080/00031305.1983.10483115
    Billingsley (1995), Probability and measure, sec. 21. Wiley. isbn:9780471007104
    Little and Rubin (2002), Statistical analysis with missing data, sec. 3.4. Wiley.
        doi:10.1002/9781119013563
"""

__all__ = [
    "RunningMoments", "variance_of_sum", "affine_cov", "mgf", "log_mgf", "empirical_mgf",
    "raw_moment",
]

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Num
from torch import Tensor, distributions
from torch.distributions import Bernoulli, Binomial, Gamma, MultivariateNormal, Normal, Poisson

from principia.lab.params import NonNegativeInt, PositiveInt, checked, usage_error


@final
class RunningMoments:
    r"""Follows mean and covariance of rows that come in batches, in any order, from any process.

    Sums are kept in float64 whatever comes; a batch costs one product of matrices.

    Args:
        dim: Entries of a row.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 2.0], [5.0, 8.0]])
        >>> moments = RunningMoments(2).update(x[:2]).merge(RunningMoments(2).update(x[2:]))
        >>> moments.mean.tolist(), moments.var().tolist(), moments.cov(ddof=1)[0].tolist()
        ([3.0, 4.0], [2.6666666666666665, 8.0], [4.0, 6.0])
    """

    @checked
    def __init__(self, dim: PositiveInt) -> None:
        self.dim, self.count = dim, 0
        self._mean = torch.zeros(dim, dtype=torch.float64)
        self._scatter = torch.zeros(dim, dim, dtype=torch.float64)

    def update(self, batch: Num[Tensor, "B D"]) -> "RunningMoments":
        """Take in the rows of a batch."""
        if batch.ndim != 2 or batch.shape[1] != self.dim:
            domain = f"of shape (B, {self.dim})"
            raise usage_error("RunningMoments", "batch", domain, tuple(batch.shape))
        if not len(batch):
            return self
        rows = batch.detach().to(self._mean)
        mean = rows.mean(dim=0)
        if not mean.isfinite().all():  # nothing later would undo it
            raise usage_error("RunningMoments", "batch", "finite", batch, "Drop or fill such rows.")
        centered = rows - mean
        return self._add(len(batch), mean, centered.mT @ centered)

    def merge(self, other: "RunningMoments") -> "RunningMoments":
        """Take in all rows that another one has seen."""
        if other.dim != self.dim:
            raise usage_error("RunningMoments", "other", f"of dim {self.dim}", other.dim)
        return self._add(other.count, other._mean, other._scatter)

    @property
    def mean(self) -> Float[Tensor, " D"]:
        """The mean of all rows."""
        self._need(1, "a mean")
        return self._mean.clone()

    @checked
    def cov(self, *, ddof: NonNegativeInt = 0) -> Float[Tensor, "D D"]:
        """Give the covariance of the columns: sums divided by the number of rows minus ddof."""
        self._need(max(2, ddof + 1), f"a covariance with ddof={ddof}")
        return self._scatter / (self.count - ddof)

    def var(self, *, ddof: NonNegativeInt = 0) -> Float[Tensor, " D"]:
        """Give the variance of each column."""
        return self.cov(ddof=ddof).diagonal().clone()

    def _add(self, count: int, mean: Tensor, scatter: Tensor) -> "RunningMoments":
        if total := self.count + count:
            delta = mean - self._mean
            between = self.count * count / total * torch.outer(delta, delta)
            self._scatter = self._scatter + scatter + between
            self._mean = self._mean + count / total * delta
            self.count = total
        return self

    def _need(self, rows: int, what: str) -> None:
        if self.count < rows:
            domain = f"{rows} or more for {what}"
            raise usage_error("RunningMoments", "rows", domain, self.count, "Update it with more.")


def variance_of_sum(
    weights: Float[Tensor, "... n"], cov: Float[Tensor, "... k k"]
) -> Float[Tensor, "..."]:
    r"""Gives the variance of $\sum_ia_iX_i$, all covariances included: $a^\top\Sigma a$.

    Example:
        >>> cov = torch.tensor([[1.0, 0.5], [0.5, 1.0]])
        >>> variance_of_sum(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), cov)  # of sum and difference
        tensor([3., 1.])
    """
    return _carried("variance_of_sum", weights[..., None, :], cov)[..., 0, 0]


def _carried(owner: str, A: Tensor, cov: Tensor) -> Tensor:
    n = A.shape[-1]
    if cov.shape[-2:] != (n, n):
        raise usage_error(owner, "cov", f"of shape (..., {n}, {n})", tuple(cov.shape))
    return A @ cov @ A.mT


def affine_cov(
    A: Float[Tensor, "... m n"], cov: Float[Tensor, "... k k"]
) -> Float[Tensor, "... m m"]:
    r"""Gives the covariance of $AX+b$, for any shift: $A\Sigma A^\top$.

    Example:
        >>> affine_cov(torch.tensor([[1.0, 1.0], [0.0, 2.0]]), torch.diag(torch.tensor([1.0, 3.0])))
        tensor([[ 4.,  6.],
                [ 6., 12.]])
    """
    return _carried("affine_cov", A, cov)


def mgf(dist: distributions.Distribution) -> Callable[[Tensor], Tensor]:
    r"""Gives the moment generating function $M(t)=E[e^{t^\top X}]$ of a law, in closed form.

    Infinite where the expectation is. For the laws that `log_mgf` knows.

    Example:
        >>> M = mgf(Gamma(2.5, 1 / 0.7))  # torch's rate is 1 / scale
        >>> M(torch.tensor([0.0, 0.9, 1.5]))
        tensor([ 1.0000, 12.0087,     inf])
    """
    log = log_mgf(dist)
    return lambda t: log(t).exp()


@checked
def log_mgf(
    dist: distributions.Distribution, *, strict: bool = False
) -> Callable[[Tensor], Tensor]:
    r"""Gives the logarithm of the moment generating function of a law, which does not overflow.

    Args:
        dist: Bernoulli, Binomial, Normal, MultivariateNormal (t has a last axis), Poisson or Gamma
            of torch, or a subclass such as Chi2.
        strict: Whether to refuse a t where the expectation is infinite.

    Example:
        >>> log_mgf(Poisson(3.0))(torch.tensor([-1.0, 0.0, 1.0]))  # 3 (e^t - 1)
        tensor([-1.8964,  0.0000,  5.1548])
    """
    law: Any = dist
    match law:
        case Bernoulli():
            return lambda t: _log_coin(law.probs, t)
        case Binomial():
            return lambda t: law.total_count * _log_coin(law.probs, t)
        case Normal():
            return lambda t: law.loc * t + (law.scale * t) ** 2 / 2
        case MultivariateNormal():
            return lambda t: (law.loc * t).sum(dim=-1) + (
                (law.scale_tril.mT @ t[..., None])[..., 0].square().sum(dim=-1) / 2
            )
        case Poisson():
            return lambda t: law.rate * t.expm1()
        case Gamma():
            return lambda t: _log_gamma(law, t, strict)
    known = "a Bernoulli, Binomial, Normal, MultivariateNormal, Poisson or Gamma law of torch"
    raise usage_error("log_mgf", "dist", known, dist, "For others, draw and use empirical_mgf.")


def _log_coin(probs: Tensor, t: Tensor) -> Tensor:
    both = torch.broadcast_tensors(probs.log() + t, (-probs).log1p())
    return torch.stack(both).logsumexp(dim=0)


def _log_gamma(law: Gamma, t: Tensor, strict: bool) -> Tensor:
    outside = t >= law.rate
    if strict and outside.any():
        domain = f"below the rate, {float(law.rate.min()):g}, where the expectation is finite"
        raise usage_error("log_mgf", "t", domain, float(t.detach().max()))
    safe = torch.where(outside, 0, t)  # so that no derivative is NaN
    return torch.where(outside, math.inf, -law.concentration * (-safe / law.rate).log1p())


def empirical_mgf(
    samples: Float[Tensor, "n ..."], t: Float[Tensor, "..."]
) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
    r"""Estimates $E[e^{t^\top X}]$ from samples, with the standard error, without overflow inside.

    The standard error is one if $M(2t)$ is finite, and can be trusted if $M(4t)$ is.

    Shapes:
        samples: (n,) and t: any shape, or samples: (n, D) and t: (..., D); returns two of (...)

    Example:
        >>> empirical_mgf(torch.tensor([0.0, 1.0, 1.0, 2.0]), torch.tensor([0.0, 0.5]))
        (tensor([1.0000, 1.7539]), tensor([0.0000, 0.3560]))
    """
    if samples.ndim not in (1, 2) or len(samples) < 2:
        domain = "two or more numbers or vectors, for a standard error"
        raise usage_error("empirical_mgf", "samples", domain, tuple(samples.shape))
    if samples.ndim == 2 and t.shape[-1:] != samples.shape[1:]:
        raise usage_error(
            "empirical_mgf", "t", f"of shape (..., {samples.shape[1]})", tuple(t.shape)
        )
    n = len(samples)
    exponents = t[..., None] * samples if samples.ndim == 1 else t @ samples.mT  # (..., n)
    log_mean = exponents.logsumexp(dim=-1) - math.log(n)
    spread = (exponents - log_mean[..., None]).exp().std(dim=-1)
    return log_mean.exp(), log_mean.exp() * spread / n**0.5


@checked
def raw_moment(
    mgf: Callable[[Tensor], Tensor], orders: tuple[NonNegativeInt, ...]
) -> Float[Tensor, ""]:
    r"""Differentiates a moment generating function at 0: $E[X_1^{k_1}\cdots X_n^{k_n}]$.

    Args:
        mgf: The function, differentiable at 0, of t with as many entries as there are orders.
        orders: How often to differentiate for each entry of t.

    Example:
        >>> raw_moment(mgf(Normal(0.0, 2.0)), (4,))  # 3 sigma^4
        tensor(48., dtype=torch.float64)
    """
    with torch.enable_grad():
        t = torch.zeros(len(orders), dtype=torch.float64, requires_grad=True)
        value = mgf(t)
        if value.numel() != 1:
            hint = "Ask for one law at a time."
            raise usage_error("raw_moment", "mgf", "of one value", tuple(value.shape), hint)
        value = value.sum()
        for axis, order in enumerate(orders):
            for _ in range(order):
                if not value.requires_grad:  # a constant by now
                    return torch.zeros_like(value)
                (slopes,) = torch.autograd.grad(value, t, create_graph=True, materialize_grads=True)
                value = slopes[axis]
    return value.detach()


def isserlis(
    indices: Sequence[int], mean: Sequence[float], cov: Sequence[Sequence[float]]
) -> float:
    r"""Computes $E[x_ix_jx_k\cdots]$ of normal variables, indices repeated for powers.

    Sums over all ways to pair some of the indices, each pair worth its covariance, and to leave
    the others alone, worth their means.

    Example:
        >>> isserlis([0, 0, 0, 0], [0.0], [[4.0]])  # 3 sigma^4
        48.0
    """
    if not indices:
        return 1.0
    first, *rest = indices
    alone = mean[first] * isserlis(rest, mean, cov)
    return alone + sum(
        cov[first][other] * isserlis(rest[:place] + rest[place + 1 :], mean, cov)
        for place, other in enumerate(rest)
    )

r"""Gaussian: the multivariate normal, of which every part, given any other, is normal again.

A mean and a covariance say all there is to say. Affine maps, marginals and conditionals of a normal
vector are normal, with means and covariances that linear algebra gives: to see some coordinates
moves the mean of the others by a linear map and takes from their covariance an amount that does not
depend on what was seen. One Cholesky factor of the covariance holds all of it: its diagonal is the
determinant, its lower right block the factor of the conditional covariance. Exponents without their
constant are read off as $N(Q^{-1}m,Q^{-1})$, which is how posteriors of linear models come about.
The best fit to data is their mean and their covariance with divisor $n$; with fewer samples than
dimensions it is singular, and shrinking it toward a multiple of $I$ makes it usable.

$$ \log N(x;\mu,\Sigma) = -\tfrac12(x-\mu)^\top\Sigma^{-1}(x-\mu)-\tfrac12\log\det\Sigma
-\tfrac D2\log2\pi, \quad \Lambda = \Sigma^{-1} $$

$$ p(z)\propto e^{-\frac12z^\top Qz+z^\top m} \iff z\sim N(Q^{-1}m,\ Q^{-1}), \quad
Ax+b\sim N(A\mu+b,\ A\Sigma A^\top) $$

$$ x_2\mid x_1=z\ \sim\ N\big(\mu_2+\Sigma_{21}\Sigma_{11}^{-1}(z-\mu_1),
\ \Sigma_{22}-\Sigma_{21}\Sigma_{11}^{-1}\Sigma_{12}\big) $$

$$ \hat\mu = \frac1n\sum_ix_i, \quad
\hat\Sigma = \frac1n\sum_i(x_i-\hat\mu)(x_i-\hat\mu)^\top, \quad
\hat\Sigma_\delta = (1-\delta)\hat\Sigma+\delta\bar\lambda I $$

Symbols:
    $\mu, \Sigma, \Lambda, D$: `mean`, `cov`, `precision` and number of coordinates, `log_normal`
    $Q, m$: canonical parameters, for `from_canonical` and `to_canonical`
    $x_1, x_2, z$: the coordinates at `index`, the others, and the `value` seen, for `condition`
    $\mu_1, \Sigma_{11}$: mean and covariance of the coordinates at `index` alone, `marginal`
    $\Sigma_{22}-\Sigma_{21}\Sigma_{11}^{-1}\Sigma_{12}$: Schur complement of $\Sigma_{11}$
    $\hat\mu, \hat\Sigma$: fit to the rows $x_i$ of `X`, `fit_gaussian`
    $\delta, \bar\lambda$: `shrinkage`, and the mean eigenvalue of $\hat\Sigma$
    $A, b$: any matrix and any vector

References:
    Anderson (2003), An introduction to multivariate statistical analysis, third edition. Wiley.
    Lauritzen (1996), Graphical models, app. C. Oxford University Press.
    Zhang (2005), The Schur complement and its applications. Springer. doi:10.1007/b105056
    Rasmussen and Williams (2006), Gaussian processes for machine learning, app. A. MIT Press.
        doi:10.7551/mitpress/3206.001.0001
    Ledoit and Wolf (2004), A well-conditioned estimator for large-dimensional covariance matrices.
        Journal of Multivariate Analysis 88(2). doi:10.1016/S0047-259X(03)00096-4
    Ding (2016), On the conditional distribution of the multivariate t distribution. The American
        Statistician 70(3). doi:10.1080/00031305.2016.1164756
"""

__all__ = [
    "log_normal", "from_canonical", "to_canonical", "marginal", "condition", "fit_gaussian",
]

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import MultivariateNormal
from torch.linalg import eigvalsh, solve_triangular

from principia.lab.params import UsageError, usage_error

LOG_2PI = math.log(2 * math.pi)


def log_normal(
    x: Float[Tensor, "*points D"], mean: Float[Tensor, "*means d"], *,
    cov: Float[Tensor, "..."] | None = None, precision: Float[Tensor, "..."] | None = None,
    scale_tril: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch"]:
    r"""Computes the log density from the covariance, its inverse or its Cholesky factor.

    All leading axes broadcast, and each matrix is factored once, whatever the number of points.

    Args:
        x: Points (..., D).
        mean: Means (..., D).
        cov: Covariances (..., D, D); exactly one of these three is given.
        precision: Their inverses $\Lambda$; the log density is then
            $-\frac12(x-\mu)^\top\Lambda(x-\mu)+\frac12\log\det\Lambda-\frac D2\log2\pi$.
        scale_tril: Lower triangular factors $L$ with $LL^\top=\Sigma$.

    Example:
        >>> cov = torch.diag(torch.tensor([4.0, 1.0]))
        >>> log_normal(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.zeros(2), cov=cov)
        tensor([-3.0310, -3.0310])
    """
    matrices = {"cov": cov, "precision": precision, "scale_tril": scale_tril}
    given = {name: one for name, one in matrices.items() if one is not None}
    if len(given) != 1:
        domain = "exactly one of cov, precision and scale_tril"
        raise usage_error("log_normal", "what gives the spread", domain, list(given))
    ((name, matrix),) = given.items()
    shapes = [tuple(one.shape) for one in (x, mean, matrix)]
    if len({shape[-1:] for shape in shapes} | {matrix.shape[-2:-1]}) != 1:
        domain = "of shapes (..., D), (..., D) and (..., D, D)"
        raise usage_error("log_normal", f"x, mean and {name}", domain, shapes)
    L = matrix if name == "scale_tril" else _factor("log_normal", name, matrix)
    diagonal = L.diagonal(dim1=-2, dim2=-1)
    if not bool((diagonal > 0).all()) or bool(L.triu(1).any()):
        domain = "lower triangular, with a positive diagonal"
        raise usage_error("log_normal", name, domain, matrix.tolist())
    offset = x - mean
    shape = torch.broadcast_shapes(offset.shape[:-1], L.shape[:-2])
    own = shape[len(shape) - L.ndim + 2:]  # axes of the matrices; those before become columns
    columns = offset.expand(*shape, -1).reshape(-1, *own, L.shape[-1]).movedim(0, -1)
    log_det = diagonal.log().sum(dim=-1)
    if name == "precision":
        columns, log_det = L.mT @ columns, -log_det  # |L'(x - mu)|² is the quadratic form
    else:
        columns = solve_triangular(L, columns, upper=False)
    squares = columns.square().sum(dim=-2).movedim(-1, 0).reshape(shape)
    return -squares / 2 - log_det - L.shape[-1] / 2 * LOG_2PI


def _factor(owner: str, name: str, matrix: Tensor) -> Tensor:
    """Factor positive definite matrices; refuse others, and what is singular up to rounding."""
    precise, skew = torch.finfo(matrix.dtype).eps, (matrix - matrix.mT).abs().max().item()
    if not skew <= precise**0.5 * matrix.abs().max().item():
        sentence = f"{owner}: {name} must be symmetric and finite; got a matrix that differs from"
        raise UsageError(f"{sentence} its transpose by {skew:.4g}. Pass (A + A.mT) / 2.")
    L, failed = torch.linalg.cholesky_ex(matrix)
    # what the coordinates before leave of the variance of each; where a factor failed, it is noise
    left = L.diagonal(dim1=-2, dim2=-1) ** 2
    scale = matrix.diagonal(dim1=-2, dim2=-1)
    if bool(failed.any()) or bool((left <= matrix.shape[-1] * precise * scale).any()):
        least = eigvalsh(matrix)[..., 0].min().item()
        sentence = f"{owner}: {name} must be positive definite; got least eigenvalue {least:.4g}."
        raise UsageError(
            f"{sentence} Shrink it toward I, as fit_gaussian(X, shrinkage=0.1) does."
        )
    return L


def from_canonical(Q: Float[Tensor, "*b D D"], m: Float[Tensor, "*c d"]) -> MultivariateNormal:
    r"""Reads the law off an exponent: $e^{-\frac12z^\top Qz+z^\top m}$ is $N(Q^{-1}m,Q^{-1})$.

    Args:
        Q: Positive definite matrices (..., D, D), the precisions.
        m: Vectors (..., D), precision times mean.

    Example:
        >>> law = from_canonical(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([2.0, 2.0]))
        >>> law.mean, law.variance
        (tensor([1.0000, 0.5000]), tensor([0.5000, 0.2500]))
    """
    if Q.shape[-2:] != m.shape[-1:] * 2:
        shapes = [tuple(Q.shape), tuple(m.shape)]
        raise usage_error("from_canonical", "Q and m", "of shapes (..., D, D) and (..., D)", shapes)
    mean = torch.cholesky_solve(m[..., None], _factor("from_canonical", "Q", Q))[..., 0]
    return MultivariateNormal(mean, precision_matrix=Q, validate_args=False)  # Q just passed


def to_canonical(
    mvn: MultivariateNormal,
) -> tuple[Float[Tensor, "*b D D"], Float[Tensor, "*b D"]]:
    r"""Gives the parameters $Q=\Sigma^{-1}$ and $m=\Sigma^{-1}\mu$ of the exponent.

    Those of a product of densities are the sums of those of its factors.

    Example:
        >>> to_canonical(MultivariateNormal(torch.tensor([3.0]), torch.tensor([[0.25]])))
        (tensor([[4.]]), tensor([12.]))
    """
    solved = torch.cholesky_solve(mvn.mean[..., None], mvn.scale_tril)
    return mvn.precision_matrix, solved[..., 0]


def marginal(mvn: MultivariateNormal, index: Sequence[int]) -> MultivariateNormal:
    r"""Keeps some coordinates, in the given order, and integrates the others out.

    Example:
        >>> cov = torch.tensor([[4.0, 1.0], [1.0, 9.0]])
        >>> marginal(MultivariateNormal(torch.tensor([5.0, 6.0]), cov), [1]).covariance_matrix
        tensor([[9.]])
    """
    kept = _coordinates("marginal", index, mvn)
    cov = mvn.covariance_matrix[..., kept, :][..., kept]
    return MultivariateNormal(mvn.mean[..., kept], cov)


def _coordinates(owner: str, index: Sequence[int], mvn: MultivariateNormal) -> list[int]:
    """Take different coordinates of a law, in their order."""
    size, chosen = mvn.event_shape[0], list(index)
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(size)):
        domain = f"one or more different integers in [0, {size - 1}]"
        raise usage_error(owner, "index", domain, chosen)
    return [int(one) for one in chosen]


def condition(
    mvn: MultivariateNormal, index: Sequence[int], value: Float[Tensor, "*points K"]
) -> MultivariateNormal:
    r"""Gives the law of the other coordinates, in their order, once those at `index` are seen.

    One factorization serves all values: the means differ, the covariance is one.

    Args:
        mvn: Law of all coordinates.
        index: Which are seen; some, not all.
        value: What was seen (..., K), in the order of `index`.

    Example:
        >>> law = MultivariateNormal(torch.zeros(2), torch.tensor([[1.0, 0.8], [0.8, 1.0]]))
        >>> given = condition(law, [0], torch.tensor([[-1.0], [2.0]]))
        >>> given.mean, given.variance[0]
        (tensor([[-0.8000],
                [ 1.6000]]), tensor([0.3600]))
    """
    seen = _coordinates("condition", index, mvn)
    rest, k = [i for i in range(mvn.event_shape[0]) if i not in set(seen)], len(seen)
    if not rest:
        domain = f"some of the {k} coordinates, not all"
        raise usage_error("condition", "index", domain, list(index), "Nothing would be left.")
    if value.shape[-1:] != (k,):
        domain = f"of shape (..., {k}), an entry for each of index"
        raise usage_error("condition", "value", domain, tuple(value.shape))
    order = seen + rest
    cov = mvn.covariance_matrix[..., order, :][..., order]
    L = _factor("condition", "the covariance of mvn", cov)  # its blocks: L11; L21, L22
    gain = solve_triangular(L[..., :k, :k], L[..., k:, :k], upper=False, left=False)
    offset = value - mvn.mean[..., seen]
    mean = mvn.mean[..., rest] + torch.einsum("...rk,...k->...r", gain, offset)
    # L22 L22' is the Schur complement; to validate would copy L22 for each value
    return MultivariateNormal(mean, scale_tril=L[..., k:, k:], validate_args=False)


def fit_gaussian(
    X: Float[Tensor, "n D"], shrinkage: float | str = 0.0
) -> MultivariateNormal:
    r"""Fits mean and covariance by maximum likelihood, and shrinks the covariance if asked to.

    Args:
        X: Samples, one a row; more rows than columns, unless there is shrinkage.
        shrinkage: Share $\delta$ in [0, 1] of $\bar\lambda I$ that replaces the covariance, or
            "ledoit-wolf" for the share that the data suggest.

    Example:
        >>> X = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 4.0], [2.0, 4.0]])
        >>> fit_gaussian(X).variance, fit_gaussian(X, shrinkage=0.5).variance
        (tensor([1., 4.]), tensor([1.7500, 3.2500]))
    """
    if not X.numel() or not bool(X.isfinite().all()):
        raise usage_error("fit_gaussian", "X", "one or more rows of finite numbers", tuple(X.shape))
    share = shrinkage
    if share == "ledoit-wolf":
        from sklearn.covariance import ledoit_wolf  # heavy, and wanted only here

        share = float(ledoit_wolf(X.numpy(force=True))[1])
    if isinstance(share, str) or not 0 <= share <= 1:
        raise usage_error("fit_gaussian", "shrinkage", "in [0, 1] or 'ledoit-wolf'", shrinkage)
    n, size = X.shape
    if n <= size and share == 0:
        hint = f"The covariance of {n} rows is singular: pass shrinkage=0.1 or 'ledoit-wolf'."
        raise usage_error("fit_gaussian", "X", f"of {size + 1} rows or more", n, hint)
    centered = X - X.mean(dim=0)
    cov = centered.mT @ centered / n
    cov = (1 - share) * cov + share * cov.trace() / size * torch.eye(size).to(X)
    L = _factor("fit_gaussian", "the covariance of X", cov)
    return MultivariateNormal(X.mean(dim=0), scale_tril=L)

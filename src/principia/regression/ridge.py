r"""Ridge regression: least squares with a price on the squared length of the weights.

The price $\lambda$ shrinks the fit along each singular direction of $X$ by $d_i^2/(d_i^2+\lambda)$:
directions in which the data vary little lose most, none is ever set to 0, and the minimizer is
unique even where the columns are dependent. It is the posterior mode under a Gaussian prior. One
SVD gives the weights, the degrees of freedom and the leave-one-out errors for every $\lambda$. What
$\lambda$ means depends on the loss, a sum or a mean, halved or not, and on whether the price is
halved; formulas from one convention with the $\lambda$ of another are wrong by a factor 2 or $s$.

$$ w_\lambda = \operatorname{argmin}_w \Vert Xw-y\Vert^2+\lambda\Vert w\Vert^2
= (X^\top X+\lambda I)^{-1}X^\top y = X^\top(XX^\top+\lambda I)^{-1}y $$

$$ Xw_\lambda = \sum_i u_i\frac{d_i^2}{d_i^2+\lambda}u_i^\top y, \quad
\mathrm{dof}(\lambda) = \sum_i\frac{d_i^2}{d_i^2+\lambda} $$

$$ y_i-\hat y_i^{(-i)} = \frac{y_i-\hat y_i}{1-H_{ii}}, \quad
w\mid y\sim N\big(w_\lambda,\ (X^\top X/\sigma^2+I/\tau)^{-1}\big), \quad \lambda = \sigma^2/\tau $$

Symbols:
    $X, y$: samples (s, d), one a row, and their targets, `Y` with several outputs
    $\lambda$: price of the squared norm, `alpha` as in scikit-learn; `ridge_alpha` converts
    $w_\lambda$: weights, `ridge_path`
    $d_i, u_i$: singular values of $X$ and its left singular vectors
    $H$: hat matrix, $\hat y=Hy$; its diagonal is the leverage, its trace `effective_dof`
    $\hat y_i^{(-i)}$: prediction of sample $i$ by the fit without it, for `loo_error`
    $\sigma^2, \tau$: variance of the noise, and of each weight before any data: `sigma2`, `tau`

References:
    Hoerl and Kennard (1970), Ridge regression: biased estimation for nonorthogonal problems.
        Technometrics 12(1). doi:10.1080/00401706.1970.10488634
    Allen (1974), The relationship between variable selection and data augmentation and a method
        for prediction. Technometrics 16(1). doi:10.1080/00401706.1974.10489157
    Efron, Hastie, Johnstone and Tibshirani (2004), Least angle regression. Annals of Statistics
        32(2). doi:10.1214/009053604000000067
    Hastie, Tibshirani and Friedman (2009), The elements of statistical learning, sec. 3.4.1.
        Springer. doi:10.1007/978-0-387-84858-7
"""

__all__ = ["ridge_path", "ridge_alpha", "effective_dof", "loo_error", "posterior"]

import warnings
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import MultivariateNormal

from principia.lab.params import NonNegativeFloat, PositiveFloat, PositiveInt, checked, usage_error
from principia.regression._least_squares_fast import MILD, few_rows, finite

Loss = Literal["sum", "half-sum", "mean", "half-mean"]
Penalty = Literal["full", "half"]


@checked
def ridge_alpha(
    lam: NonNegativeFloat, s: PositiveInt, *, loss: Loss = "sum", penalty: Penalty = "full"
) -> float:
    r"""Converts a price to scikit-learn's alpha, for $\Vert Xw-y\Vert^2+\alpha\Vert w\Vert^2$.

    Args:
        lam: The price in its own convention.
        s: Number of samples.
        loss: The sum of squared residuals or their mean, and whether it is halved.
        penalty: Whether $\lambda$ or $\lambda/2$ stands before $\Vert w\Vert^2$.

    Example:
        >>> ridge_alpha(0.5, 40, loss="half-mean", penalty="half"), ridge_alpha(3, 40)
        (20.0, 3.0)
    """
    data = {"sum": 1.0, "half-sum": 0.5, "mean": 1 / s, "half-mean": 0.5 / s}[loss]
    return lam * {"full": 1.0, "half": 0.5}[penalty] / data


@checked
def ridge_path(
    X: Float[Tensor, "s d"], Y: Float[Tensor, " s *m"], alphas: Float[Tensor, " A"], *,
    center: bool = False,
) -> Float[Tensor, "A d *m"]:
    r"""Finds the weights for all prices and all outputs from one singular value decomposition.

    The thin decomposition has min(s, d) factors: it solves the d x d problem or, with fewer samples
    than columns, its s x s dual.

    Args:
        X: Samples.
        Y: Targets, one column an output, or a vector.
        alphas: Prices $\alpha$ of $\Vert Xw-y\Vert^2+\alpha\Vert w\Vert^2$; 0 only if X has full
            column rank.
        center: Whether to subtract means first, which fits an intercept that has no price:
            `Y.mean(0) - X.mean(0) @ w`. A column of ones would have one.

    Example:
        >>> ridge_path(torch.eye(2), torch.tensor([1.0, 3.0]), torch.tensor([0.0, 1.0]))
        tensor([[1.0000, 3.0000],
                [0.5000, 1.5000]])
    """
    U, d, Vh, targets = _decompose("ridge_path", X, Y, alphas, center)
    inverse = d / (d**2 + alphas.to(d)[:, None])  # (A, r), 1/d where the price is 0
    W = Vh.mT @ (inverse[..., None] * (U.mT @ targets))  # (A, d, m)
    return W.reshape(*W.shape[:2], *Y.shape[1:])


def _decompose(
    owner: str, X: Tensor, Y: Tensor | None, alphas: Tensor, center: bool, *,
    every_row: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Give U (s, r), d (r,), Vh (r, d) of X, whose numeric rank is r, and the targets (s, m).

    Unless every row is asked for, a tall problem is first rotated into d rows. Without targets no
    weights are looked for, and a price of 0 is fine at any rank.
    """
    targets = X[:, :0] if Y is None else Y.reshape(len(Y), -1)
    if not alphas.numel() or not bool(((alphas >= 0) & alphas.isfinite()).all()):
        raise usage_error(owner, "alphas", "one or more values, each in [0, inf)", alphas.tolist())
    middle = X.mean(dim=0) if center else X.new_zeros(X.shape[1])
    # a mean is finite only if all of its column is, but it may overflow
    if len(targets) != len(X) or not (
        ((center and finite(middle)) or finite(X)) and finite(targets)
    ):
        got = f"{len(X)} and {len(targets)} rows"
        raise usage_error(owner, "X and Y", "finite, with one number of rows", got)
    alike = (X[0] == X[-1]) & (X[0] != 0)  # no other column can be constant
    if not center and len(X) > 1 and bool((X[:1, alike] == X[:, alike]).all(dim=0).any()):
        warnings.warn(
            f"{owner}: X has a constant column, so that the intercept has a price too. Leave the "
            "column out and pass center=True.", stacklevel=4,
        )
    if center:
        targets = targets - targets.mean(dim=0)
    few, shares = few_rows(X, targets, middle=middle if center else None, mild=MILD)
    U, d, Vh = torch.linalg.svd(few, full_matrices=False)
    size = (d.square().sum() + len(X) * middle.square().sum()).sqrt()  # of X as it was
    rounding = size * max(X.shape) * torch.finfo(X.dtype).eps
    kept = d > rounding  # the inverse of the others would be noise
    rank = int(kept.sum())
    if Y is not None and rank < X.shape[1] and bool((alphas == 0).any()):
        domain = f"in (0, inf) where X has rank {rank} and {X.shape[1]} columns"
        hint = "Many weights fit equally well; principia.regression.lstsq finds the shortest."
        raise usage_error(owner, "alphas", domain, 0, hint)
    U, d, Vh = U[:, kept], d[kept], Vh[kept]
    if every_row:
        return U if len(few) == len(X) else (X - middle) @ (Vh.mT / d), d, Vh, targets
    return U, d, Vh, shares


@checked
def effective_dof(
    X: Float[Tensor, "s d"], alphas: Float[Tensor, " A"], *, center: bool = False
) -> Float[Tensor, " A"]:
    r"""Counts the degrees of freedom, the trace of the hat matrix: $\sum_i d_i^2/(d_i^2+\alpha)$.

    At $\alpha=0$ it is the rank of X. An intercept, with `center`, is not counted.

    Example:
        >>> effective_dof(torch.eye(4), torch.tensor([0.0, 1.0, 3.0]))
        tensor([4., 2., 1.])
    """
    d = _decompose("effective_dof", X, None, alphas, center)[1]
    return (d**2 / (d**2 + alphas.to(d)[:, None])).sum(dim=1)


@checked
def loo_error(
    X: Float[Tensor, "s d"], Y: Float[Tensor, " s *m"], alphas: Float[Tensor, " A"], *,
    center: bool = False,
) -> Float[Tensor, "A s *m"]:
    r"""Predicts each sample by the fit without it and gives the errors, without refitting.

    The arguments are those of `ridge_path`; the intercept, if any, is fitted anew as well.

    Example:
        >>> X, y = torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 4.0])
        >>> loo_error(X, y, torch.zeros(1)).round()
        tensor([[-1.,  2.]])
    """
    U, d, _, targets = _decompose("loo_error", X, Y, alphas, center, every_row=True)
    keep = d**2 / (d**2 + alphas.to(d)[:, None])  # (A, r)
    fitted = U @ (keep[..., None] * (U.mT @ targets))  # (A, s, m)
    rest = 1 - keep @ (U.mT**2) - center / len(X)  # 1 - H_ii, (A, s)
    if (rest < torch.finfo(d.dtype).eps ** 0.5).any():
        hint = "A sample of leverage 1 is fitted whatever its target: raise alphas or add samples."
        raise usage_error(
            "loo_error", "alphas", "so large that no leverage is 1", alphas.tolist(), hint
        )
    return ((targets - fitted) / rest[..., None]).reshape(len(alphas), *Y.shape)


@checked
def posterior(
    X: Float[Tensor, "s d"], y: Float[Tensor, " s"], sigma2: PositiveFloat, tau: PositiveFloat
) -> MultivariateNormal:
    r"""Infers the weights of $y=Xw+\epsilon$: their Gaussian law given the data.

    Args:
        X: Samples.
        y: Targets.
        sigma2: Variance of the noise.
        tau: Variance of each weight under the prior, whose mean is 0.

    Example:
        >>> law = posterior(torch.eye(2), torch.tensor([2.0, 4.0]), sigma2=1.0, tau=1.0)
        >>> law.mean, law.variance
        (tensor([1., 2.]), tensor([0.5000, 0.5000]))
    """
    mean = ridge_path(X, y, X.new_tensor([sigma2 / tau]))[0]
    precision = X.mT @ X / sigma2 + torch.eye(X.shape[1]).to(X) / tau
    return MultivariateNormal(mean, precision_matrix=precision)

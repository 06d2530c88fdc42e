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

import itertools
import warnings
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

import torch
from jaxtyping import Float
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import RepeatedKFold
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.domains import Count, NonNegative, Positive, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.learners import learner
from principia.lab.relations import at_most, equal, every, identical, never, slope
from principia.lab.seeds import Seed
from principia.regression.least_squares import MILD, few_rows, finite

Loss = Literal["sum", "half-sum", "mean", "half-mean"]
Penalty = Literal["full", "half"]
Samples = Annotated[int, Range(10, 1000)]
Dim = Annotated[int, Range(1, 100)]
Price = Annotated[float, Range(0.01, 100)]
FLAT = 1e-11  # gradient at which a numeric minimization ends


@checked
def ridge_alpha(
    lam: NonNegative, s: Count, *, loss: Loss = "sum", penalty: Penalty = "full"
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
        raise refuse("loo_error", "alphas", "so large that no leverage is 1", alphas.tolist(), hint)
    return ((targets - fitted) / rest[..., None]).reshape(len(alphas), *Y.shape)


@checked
def posterior(
    X: Float[Tensor, "s d"], y: Float[Tensor, " s"], sigma2: Positive, tau: Positive
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
        raise refuse(owner, "alphas", "one or more values, each in [0, inf)", alphas.tolist())
    middle = X.mean(dim=0) if center else X.new_zeros(X.shape[1])
    # a mean is finite only if all of its column is, but it may overflow
    if len(targets) != len(X) or not (
        ((center and finite(middle)) or finite(X)) and finite(targets)
    ):
        got = f"{len(X)} and {len(targets)} rows"
        raise refuse(owner, "X and Y", "finite, with one number of rows", got)
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
        raise refuse(owner, "alphas", domain, 0, hint)
    U, d, Vh = U[:, kept], d[kept], Vh[kept]
    if every_row:
        return U if len(few) == len(X) else (X - middle) @ (Vh.mT / d), d, Vh, targets
    return U, d, Vh, shares


@learner
def estimator(
    inputs: Count, outputs: Count, rng: torch.Generator, *, alpha: Positive = 1.0
) -> Ridge:
    """Builds scikit-learn's ridge regression for any table with a number to predict.

    Args:
        alpha: Price of the weights, in scikit-learn's convention.
    """
    return Ridge(alpha=alpha)


@claim(
    control={"price": "lambda"},
    source="Hastie, Tibshirani and Friedman 2009, eq. 3.44, rescaled",
    misprint=r"mean loss, but $w=(X^\top X+\lambda I)^{-1}X^\top y$, without the factor $s$",
)
def mean_loss_convention(
    seed: Seed, *, samples: Samples = 40, dim: Dim = 8, lam: Price = 0.5,
    price: Literal["s lambda", "lambda"] = "s lambda",
) -> Evidence:
    r"""Half the mean loss plus $\frac\lambda2\Vert w\Vert^2$: $(X^\top X+s\lambda I)w=X^\top y$."""
    return _minimizes(seed, samples, dim, lam, "half-mean", misprinted=price == "lambda")


@claim(
    control={"price": "lambda"},
    source="Hastie, Tibshirani and Friedman 2009, eq. 3.44, rescaled",
    misprint=r"price $\frac\lambda2\Vert w\Vert^2$, but $w=(X^\top X+\lambda I)^{-1}X^\top y$",
)
def sum_loss_convention(
    seed: Seed, *, samples: Samples = 40, dim: Dim = 8, lam: Price = 5.0,
    price: Literal["lambda / 2", "lambda"] = "lambda / 2",
) -> Evidence:
    r"""Summed loss plus $\frac\lambda2\Vert w\Vert^2$: $(X^\top X+\frac\lambda2I)w=X^\top y$."""
    return _minimizes(seed, samples, dim, lam, "sum", misprinted=price == "lambda")


@claim(control={"factor": 0.5}, source="Pedregosa et al. 2011, scikit-learn")
def sklearn_convention(
    seed: Seed, *, samples: Samples = 40, dim: Dim = 8, lam: Price = 5.0,
    factor: Annotated[float, Range(0.1, 10)] = 1.0,
) -> Evidence:
    r"""`Ridge(alpha=λ)` is $(X^\top X+\lambda I)^{-1}X^\top y$; `ridge_alpha` leads to it."""
    X, Y = _problem(seed, samples, dim, 2)
    alpha, exact = X.new_tensor([lam]), _solved(X, Y, lam)
    sklearn, free = (
        Ridge(alpha=factor * lam, fit_intercept=intercept).fit(X.numpy(), Y.numpy()).coef_.T
        for intercept in (False, True)
    )
    y, kinds = Y[:, 0], list(itertools.product(get_args(Loss), get_args(Penalty)))
    alphas = [ridge_alpha(lam, samples, loss=loss, penalty=penalty) for loss, penalty in kinds]
    W = ridge_path(X, y, X.new_tensor(alphas)).requires_grad_()
    losses = [_objective(X, y, w, lam, *kind) for w, kind in zip(W, kinds, strict=True)]
    (gradients,) = torch.autograd.grad(torch.stack(losses).sum(), W)
    rounding = 1e-10 * (1 + float((X.mT @ y).norm()))
    return every({
        "scikit-learn": identical(sklearn, exact),
        "ridge_path": identical(ridge_path(X, Y, alpha)[0], exact),
        "ridge_path with an intercept": identical(ridge_path(X, Y, alpha, center=True)[0], free),
        "gradients of the eight conventions": equal(
            gradients, 0, tol=rounding, why="rounding of sums of the size of X'y"
        ),
    })


@claim(control={"factor": "d / (d + lambda)"}, source="Hastie, Tibshirani and Friedman 2009, 3.47")
def svd_shrinkage(
    seed: Seed, *, samples: Samples = 40, dim: Dim = 8, lam: Price = 5.0,
    factor: Literal["d² / (d² + lambda)", "d / (d + lambda)"] = "d² / (d² + lambda)",
) -> Evidence:
    r"""Ridge shrinks the fit along $u_i$ by $d_i^2/(d_i^2+\lambda)$; least squares keeps it."""
    X, Y = _problem(seed, samples, dim, 3)
    U, d, _ = torch.linalg.svd(X, full_matrices=False)
    size = d if factor == "d / (d + lambda)" else d**2
    shrink, alpha = size / (size + lam), X.new_tensor([lam])
    hat = X @ _solved(X, torch.eye(samples, dtype=X.dtype), lam)
    directions = range(1, len(d) + 1)
    return every({
        "hat matrix": identical(hat, (U * shrink) @ U.mT).drawn(
            Series("u'Hu", directions, (U * (hat @ U)).sum(dim=0)),
            Series("factor", directions, shrink, role="predicted"),
            x="singular direction i", y="share that is kept",
        ),
        "ridge_path": identical(X @ ridge_path(X, Y, alpha)[0], U @ (shrink[:, None] * (U.mT @ Y))),
        "effective_dof": identical(effective_dof(X, alpha), shrink.sum()[None]),
        "least squares": identical(
            X @ torch.linalg.lstsq(X, Y, driver="gelsd").solution, U @ (U.mT @ Y)
        ),
    })


@claim(control={"dual_price": "0"}, source="Saunders, Gammerman and Vovk 1998; push-through")
def dual_form(
    seed: Seed, *, few: Annotated[int, Range(2, 100)] = 8,
    many: Annotated[int, Range(101, 400)] = 150, lam: Price = 5.0,
    dual_price: Literal["lambda", "0"] = "lambda",
) -> Evidence:
    r"""$(X^\top X+\lambda I)^{-1}X^\top y=X^\top(XX^\top+\lambda I)^{-1}y$, for $s<d$ and $s>d$."""
    parts = {}
    for name, (s, d) in {"s > d": (many, few), "s < d": (few, many)}.items():
        X, y = _problem(seed.child(name), s, d)
        gram = X @ X.mT + (lam if dual_price == "lambda" else 0) * torch.eye(s, dtype=X.dtype)
        # not solve: of a singular system it makes noise, this the nearest there is to a solution
        dual = torch.linalg.lstsq(gram, y[:, None], driver="gelsd").solution[:, 0]
        path = ridge_path(X, y, X.new_tensor([lam]))[0]
        parts |= {
            f"{name}: the dual has a solution": identical(gram @ dual, y),
            f"{name}: dual and primal": identical(X.mT @ dual, _solved(X, y, lam)),
            f"{name}: ridge_path and dual": identical(path, X.mT @ dual),
        }
    return every(parts)


@claim(control={"price": "tau / sigma2"}, source="Hastie, Tibshirani and Friedman 2009, ex. 3.6")
def map_estimate(
    seed: Seed, *, samples: Samples = 40, dim: Dim = 8,
    sigma2: Annotated[float, Range(0.05, 0.5)] = 0.3, tau: Annotated[float, Range(0.6, 10)] = 2.0,
    price: Literal["sigma2 / tau", "tau / sigma2"] = "sigma2 / tau",
) -> Evidence:
    r"""With prior $N(0,\tau I)$ the posterior mode is ridge at $\lambda=\sigma^2/\tau$."""
    X, y = _problem(seed, samples, dim)

    def surprise(w: Tensor) -> Tensor:
        likelihood = Normal(X @ w, sigma2**0.5).log_prob(y).sum()
        return -likelihood - Normal(torch.zeros_like(w), tau**0.5).log_prob(w).sum()

    lam = sigma2 / tau if price == "sigma2 / tau" else tau / sigma2
    mode, law = _argmin(surprise, dim), posterior(X, y, sigma2, tau)
    curvature: Any = torch.autograd.functional.hessian(surprise, mode)
    lams = sigma2 / torch.logspace(3, -3, 30, dtype=X.dtype)  # ever narrower priors
    norms = ridge_path(X, y, lams).norm(dim=1)
    why = f"the mode is found to a gradient of {FLAT:g}, over a curvature of 1/tau at least"
    return every({
        "mode": equal(ridge_path(X, y, X.new_tensor([lam]))[0], mode, tol=1e-6, why=why),
        "posterior mean": equal(law.mean, mode, tol=1e-6, why=why),
        "posterior covariance": identical(
            law.covariance_matrix @ curvature, torch.eye(dim, dtype=X.dtype)
        ),
        "norm falls": at_most(norms[1:], norms[:-1], why="a theorem: strictly decreasing").drawn(
            Series("‖w‖", lams, norms), x="λ = σ²/τ", y="norm of the weights", log="x"
        ),
    })


@claim(
    control={"rule": "soft threshold"},
    source="Goodfellow, Bengio and Courville 2016, Deep Learning, sec. 7.1.1",
)
def diagonal_scaling(
    seed: Seed, *, dim: Annotated[int, Range(20, 1000)] = 200, lam: Price = 1.0,
    rule: Literal["scaling", "soft threshold"] = "scaling",
) -> Evidence:
    r"""With Hessian diag(h) $\theta_i=\frac{h_i}{h_i+\lambda}\theta_i^*$, which is never 0."""
    rng = seed.torch()
    h = 10 ** (2 * torch.rand(dim, generator=rng, dtype=torch.float64) - 1)
    best = 2 * torch.randn(dim, generator=rng, dtype=torch.float64)
    theta = h / (h + lam) * best
    if rule == "soft threshold":
        theta = best.sign() * (best.abs() - lam / h).clamp(min=0)
    offsets, found = torch.linspace(-1, 1, 201, dtype=h.dtype), torch.zeros(dim, 1, dtype=h.dtype)
    reach = float(best.abs().max())
    for half in (reach, reach / 50, reach / 2500, 1e-4):  # each grid around the best of the last
        grid = found + half * offsets
        heights = h[:, None] * (grid - best[:, None]) ** 2 / 2 + lam * grid**2 / 2
        found = grid.gather(1, heights.argmin(dim=1, keepdim=True))
    root = h.sqrt()  # the same quadratic as a regression
    path = ridge_path(root.diag(), root * best, h.new_tensor([lam]))[0]
    return every({
        "grid": equal(
            found[:, 0], theta, tol=1e-6, why="grid step 1e-6; a convex function of each entry"
        ),
        "ridge_path": identical(path, theta),
        "exact zeros": never(theta == 0, why="a positive share of a nonzero number"),
    })


@claim(
    control={"limit": "normal equations"},
    source="Albert 1972, Regression and the Moore-Penrose pseudoinverse, ch. 3",
)
def limits(
    seed: Seed, *, samples: Annotated[int, Range(20, 500)] = 40,
    dim: Annotated[int, Range(12, 100)] = 12, rank: Annotated[int, Range(1, 10)] = 6,
    limit: Literal["pseudo-inverse", "normal equations"] = "pseudo-inverse",
) -> Evidence:
    r"""$\lambda\to0$ gives $X^+y$, $\lambda\to\infty$ gives 0; the freedom falls from rank to 0."""
    left, y = _problem(seed, samples, rank)
    X = left @ torch.randn(rank, dim, generator=seed.child("columns").torch(), dtype=left.dtype)
    target = torch.linalg.pinv(X) @ y
    if limit == "normal equations":
        target = torch.linalg.solve_ex(X.mT @ X, X.mT @ y).result
    d = torch.linalg.svdvals(X)[:rank]
    far = torch.logspace(-6, -3, 13, dtype=X.dtype)
    small, large = d[-1] ** 2 * far, d[0] ** 2 / far.flip(0)
    lams = torch.cat([X.new_zeros(1), small, d**2, large]).sort().values
    freedom = effective_dof(X, lams)
    why = "λ is 1000 times below every d² or above, which bends the line by 0.001"
    return every({
        "distance to the limit at 0": slope(
            small, (ridge_path(X, y, small) - target).norm(dim=1), 1.0, tol=0.01, why=why,
            labels=("λ", "distance to the limit"),
        ),
        "norm": slope(large, ridge_path(X, y, large).norm(dim=1), -1.0, tol=0.01, why=why),
        "freedom at 0": equal(freedom[0], rank, tol=0, why="an integer: every term is 1"),
        "freedom falls": at_most(freedom[1:], freedom[:-1], why="every term decreases"),
        "freedom at infinity": at_most(freedom[-1], rank * 1e-6, why="λ is 10^6 d² or more"),
    })


@claim(control={"denominator": False}, source="Allen 1974; Golub, Heath and Wahba 1979")
def leave_one_out_shortcut(
    seed: Seed, *, samples: Annotated[int, Range(10, 150)] = 40,
    dim: Annotated[int, Range(1, 60)] = 8, lam: Price = 1.0, denominator: bool = True,
) -> Evidence:
    r"""$(y_i-\hat y_i)/(1-H_{ii})$ is the error at sample $i$ of the fit without it."""
    X, Y = _problem(seed, samples, dim, 2)
    alphas = lam * X.new_tensor([0.1, 1.0, 10.0])
    others = torch.arange(samples).repeat(samples, 1)[~torch.eye(samples, dtype=torch.bool)]
    X_rest, Y_rest = (part[others.reshape(samples, -1)] for part in (X, Y))  # (s, s - 1, .)
    parts = {}
    for center, name in ((False, "through 0"), (True, "with an intercept")):
        x0, y0 = (center * part.mean(dim=1, keepdim=True) for part in (X_rest, Y_rest))
        W = torch.stack([_solved(X_rest - x0, Y_rest - y0, float(alpha)) for alpha in alphas])
        refitted = Y - ((X[:, None] - x0) @ W + y0)[:, :, 0]  # (A, s, m)
        short = loo_error(X, Y, alphas, center=center)
        if not denominator:
            residual = Y - X @ ridge_path(X, Y, alphas, center=center)
            short = residual - center * residual.mean(dim=1, keepdim=True)
        tol = 1e-9 * (1 + float(refitted.abs().max()))
        parts[name] = equal(short, refitted, tol=tol, why="rounding of s systems of equations")
    return every(parts)


@experiment(
    reaches={"rmse_ratio": at_most_goal(0.96)},
    floor={"rmse_ratio": Range(0, 1, open="high")},
    source="Efron et al. (2004), Least angle regression: the quadratic model of the diabetes data; "
    "to beat is least squares on the same folds",
)
def quadratic_diabetes(
    run: Run, *, folds: Annotated[int, Range(2, 50)] = 10,
    prices: Annotated[int, Range(5, 500)] = 61,
) -> None:
    """Predicts diabetes from 64 columns; leave-one-out errors choose the price in each fold."""
    X, y, names = _quadratic_model()
    alphas = torch.logspace(-2, 4, prices, dtype=X.dtype)
    splits = RepeatedKFold(n_splits=folds, n_repeats=5 if run.full else 1, random_state=run.seed)
    squares, chosen = [], []
    for train, test in splits.split(X.numpy()):
        mean, spread = X[train].mean(dim=0), X[train].std(dim=0, correction=0)
        Z, Z_test, target = (X[train] - mean) / spread, (X[test] - mean) / spread, y[train]
        W = ridge_path(Z, target, torch.cat([alphas, alphas.new_zeros(1)]), center=True)
        squares.append((y[test] - target.mean() - W @ Z_test.mT) ** 2)  # (A + 1, tests)
        loo = loo_error(Z, target, alphas, center=True)
        chosen.append(squares[-1][(loo**2).mean(dim=1).argmin()])
    ridge = float(torch.cat(chosen).mean().sqrt())
    *fixed, ols = torch.cat(squares, dim=1).mean(dim=1).sqrt().tolist()
    run.record(ridge_rmse=ridge, ols_rmse=ols, rmse_ratio=ridge / ols)

    Z = (X - X.mean(dim=0)) / X.std(dim=0, correction=0)
    freedom, W = effective_dof(Z, alphas, center=True), ridge_path(Z, y, alphas, center=True)
    shortcut = (loo_error(Z, y, alphas, center=True) ** 2).mean(dim=1).sqrt()
    best = int(shortcut.argmin())
    run.record(chosen_alpha=float(alphas[best]), chosen_dof=float(freedom[best]))
    strongest = W[best].abs().argsort(descending=True)[:12].tolist()
    paths = tuple(Series(names[k], freedom, W[:, k], role="other") for k in strongest)
    run.figure("paths", figures.draw(Picture(paths, "effective degrees of freedom", "weight")))
    curve = (
        Series(f"{folds}-fold", alphas, fixed),
        Series("leave-one-out shortcut", alphas, shortcut, role="predicted"),
        Series("least squares", alphas[[0, -1]], [ols, ols], role="bound"),
    )
    run.figure("validation", figures.draw(Picture(curve, "λ", "RMSE", log="x")))


def _problem(seed: Seed, samples: int, dim: int, *outputs: int) -> tuple[Tensor, Tensor]:
    """Draw samples (s, d) and noisy linear targets (s, *outputs), with means that are not 0."""
    rng, kind = seed.torch(), torch.float64
    X = 0.5 + torch.randn(samples, dim, generator=rng, dtype=kind)
    truth = torch.randn(dim, *outputs, generator=rng, dtype=kind)
    return X, 1 + X @ truth + torch.randn(samples, *outputs, generator=rng, dtype=kind)


def _solved(X: Tensor, Y: Tensor, alpha: float) -> Tensor:
    """Solve the normal equations as they stand: what `ridge_path` is compared with."""
    return torch.linalg.solve(X.mT @ X + alpha * torch.eye(X.shape[-1], dtype=X.dtype), X.mT @ Y)


def _objective(X: Tensor, y: Tensor, w: Tensor, lam: float, loss: Loss, penalty: Penalty) -> Tensor:
    squares = (X @ w - y) ** 2
    data = squares.mean() if loss.endswith("mean") else squares.sum()
    data = data / 2 if loss.startswith("half") else data
    return data + (lam / 2 if penalty == "half" else lam) * (w @ w)


def _argmin(function: Callable[[Tensor], Tensor], dim: int) -> Tensor:
    """Minimize by L-BFGS from 0; values are too coarse near the minimum for a line search."""
    w = torch.zeros(dim, dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([w], max_iter=500, tolerance_grad=FLAT, tolerance_change=0.0)

    def evaluate() -> Tensor:
        solver.zero_grad()
        value = function(w)
        value.backward()
        return value

    solver.step(evaluate)  # type: ignore[arg-type]
    return w.detach()


def _minimizes(
    seed: Seed, samples: int, dim: int, lam: float, loss: Loss, *, misprinted: bool
) -> Evidence:
    """Compare a numeric minimizer, with half the price, with the closed form."""
    X, y = _problem(seed, samples, dim)
    alpha = lam if misprinted else ridge_alpha(lam, samples, loss=loss, penalty="half")
    found = _argmin(lambda w: _objective(X, y, w, lam, loss, "half"), dim)
    why = f"L-BFGS stops at a gradient of {FLAT:g}, over a curvature of λ at least"
    return equal(found, _solved(X, y, alpha), tol=1e-8, why=why)


def _quadratic_model() -> tuple[Tensor, Tensor, list[str]]:
    """Load the diabetes data, 10 features, with 45 products and 9 squares: sex has two values."""
    data: Any = load_diabetes()
    X, features = torch.from_numpy(data.data), list(data.feature_names)
    sex = features.index("sex")
    pairs = [ab for ab in itertools.combinations_with_replacement(range(10), 2) if ab != (sex, sex)]
    columns = torch.stack([X[:, a] * X[:, b] for a, b in pairs], dim=1)
    names = features + [f"{features[a]}·{features[b]}" for a, b in pairs]
    return torch.cat([X, columns], dim=1), torch.from_numpy(data.target), names

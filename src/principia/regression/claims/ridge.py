r"""Ridge regression: what is true of it, and what would refute it.

Knobs:
    samples: Samples, the rows of $X$.
    dim: Features, the columns of $X$, each with its weight.
    lam: The price $\lambda$ on the squared weights.
    price: What multiplies $I$ in the equations; the other form forgets a factor of the loss.
    factor: How many times the price scikit-learn is given.
    few: The smaller side of $X$.
    many: The larger side of $X$.
    dual_price: The price in the dual system; without one it need not have a solution.
    sigma2: The variance of the noise in the targets.
    tau: The variance of the weights in the prior.
    rule: Whether weights are scaled or moved by a threshold, which is what the lasso does.
    rank: Independent columns of $X$; fewer than columns leave weights undecided.
    limit: What weights should tend to as the price vanishes; normal equations have no inverse.
    denominator: Whether residuals are divided by $1-H_{ii}$; without it they are too small.
"""

import itertools
import warnings
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

import torch
from sklearn.linear_model import Ridge
from torch import Tensor
from torch.distributions import Normal

from principia.lab.evidence import (
    Evidence,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    slope,
)
from principia.lab.params import Range
from principia.lab.pictures import Rule
from principia.lab.seeds import Seed
from principia.regression.ridge import (
    Loss,
    Penalty,
    effective_dof,
    loo_error,
    posterior,
    ridge_alpha,
    ridge_path,
)

Samples = Annotated[int, Range(10, 1000)]
Dim = Annotated[int, Range(1, 100)]
Price = Annotated[float, Range(0.01, 100)]
FLAT = 1e-11  # gradient at which a numeric minimization ends


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


def _minimizes(
    seed: Seed, samples: int, dim: int, lam: float, loss: Loss, *, misprinted: bool
) -> Evidence:
    """Compare a numeric minimizer, with half the price, with the closed form."""
    X, y = _problem(seed, samples, dim)
    alpha = lam if misprinted else ridge_alpha(lam, samples, loss=loss, penalty="half")
    found = _argmin(lambda w: _objective(X, y, w, lam, loss, "half"), dim)
    why = f"L-BFGS stops at a gradient of {FLAT:g}, over a curvature of λ at least"
    prices = alpha * torch.logspace(-1.5, 1.5, 41, dtype=X.dtype)
    heights = [_objective(X, y, w, lam, loss, "half") for w in ridge_path(X, y, prices)]
    least = float(_objective(X, y, found, lam, loss, "half"))
    return equal(found, _solved(X, y, alpha), tol=1e-8, why=why).named("best weights").drawn(
        Series("at the weights of α", prices, heights, "predicted"),
        Rule("least of all weights", y=least), Rule(f"α = {alpha:g}", x=alpha, role="blue"),
        x="α in w = (XᵀX + αI)⁻¹Xᵀy", y="objective", log="x")


def _problem(seed: Seed, samples: int, dim: int, *outputs: int) -> tuple[Tensor, Tensor]:
    """Draw samples (s, d) and noisy linear targets (s, *outputs), with means that are not 0."""
    rng, kind = seed.torch(), torch.float64
    X = 0.5 + torch.randn(samples, dim, generator=rng, dtype=kind)
    truth = torch.randn(dim, *outputs, generator=rng, dtype=kind)
    return X, 1 + X @ truth + torch.randn(samples, *outputs, generator=rng, dtype=kind)


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


def _objective(X: Tensor, y: Tensor, w: Tensor, lam: float, loss: Loss, penalty: Penalty) -> Tensor:
    squares = (X @ w - y) ** 2
    data = squares.mean() if loss.endswith("mean") else squares.sum()
    data = data / 2 if loss.startswith("half") else data
    return data + (lam / 2 if penalty == "half" else lam) * (w @ w)


def _solved(X: Tensor, Y: Tensor, alpha: float) -> Tensor:
    """Solve the normal equations as they stand: what `ridge_path` is compared with."""
    return torch.linalg.solve(X.mT @ X + alpha * torch.eye(X.shape[-1], dtype=X.dtype), X.mT @ Y)


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


@claim(
    control={"factor": 0.5},
    refutes=["scikit-learn with an intercept", "scikit-learn without an intercept"],
    source="Pedregosa et al. 2011, scikit-learn",
)
def sklearn_convention(
    seed: Seed, *, samples: Samples = 40, dim: Dim = 8, lam: Price = 5.0,
    factor: Annotated[float, Range(0.1, 10)] = 1.0,
) -> Evidence:
    r"""`Ridge(alpha=λ)` is $(X^\top X+\lambda I)^{-1}X^\top y$; `ridge_alpha` leads to it."""
    X, Y = _problem(seed, samples, dim, 2)
    alpha, exact, paths = X.new_tensor([lam]), _solved(X, Y, lam), {False: [], True: []}
    for (s, d), center in itertools.product(((samples, dim), (6, 15), (200, 4)), (False, True)):
        inputs, targets = _problem(seed.child(f"{s} x {d}"), s, d, 3)
        model = Ridge(fit_intercept=center)
        for Z in (targets, targets[:, 1]):
            how = {"center": True} if center else {}
            path = ridge_path(inputs, Z, X.new_tensor([lam, 3 * lam]), **how)
            for weights, scale in zip(path, (1, 3), strict=True):
                model.set_params(alpha=factor * scale * lam).fit(inputs.numpy(), Z.numpy())
                paths[center].append((weights.flatten(), torch.tensor(model.coef_.T.ravel())))
    y, kinds = Y[:, 0], list(itertools.product(get_args(Loss), get_args(Penalty)))
    alphas = [ridge_alpha(lam, samples, loss=loss, penalty=penalty) for loss, penalty in kinds]
    W = ridge_path(X, y, X.new_tensor(alphas)).requires_grad_()
    losses = [_objective(X, y, w, lam, *kind) for w, kind in zip(W, kinds, strict=True)]
    (gradients,) = torch.autograd.grad(torch.stack(losses).sum(), W)
    rounding = 1e-10 * (1 + float((X.mT @ y).norm()))
    ours, theirs = (torch.cat(one)[: 6 * dim] for one in zip(*paths[True], strict=True))
    return every({
        "ridge_path": equal_to_rounding(ridge_path(X, Y, alpha)[0], exact),
        **{
            f"scikit-learn {'with' if center else 'without'} an intercept": equal_to_rounding(
                *map(torch.cat, zip(*pairs, strict=True))
            )
            for center, pairs in paths.items()
        },
        "gradients of the eight conventions": equal(
            gradients, 0, tol=rounding, why="rounding of sums of the size of X'y"
        ),
        "a constant column is told": _told(X[:10, :1], y[:10]),
    }).drawn(
        Series(f"Ridge(alpha={factor:g} λ)", range(len(theirs)), theirs),
        Series("ridge_path", range(len(ours)), ours, "predicted"),
        x="weight, of three targets and two prices", y="its value")


def _told(X: Tensor, y: Tensor) -> Evidence:
    """Count warnings of a column that would be an intercept with a price, for a column beside X."""
    zero, alpha, found = 0 * X, X.new_tensor([1.0]), []
    bent = torch.cat([zero[:4] + 1, zero[4:-1], zero[-1:] + 1])  # alike at both ends only
    for other in (zero + 3, zero, bent):
        wide = torch.cat([X, other], dim=1)
        for center, rows in ((False, 10), (True, 10), (False, 1)):
            with warnings.catch_warnings(record=True) as noted:
                warnings.simplefilter("always")
                ridge_path(wide[:rows], y[:rows], alpha, center=center)
                effective_dof(wide[:rows], alpha, center=center)
            found.append(len(noted))
    return equal(found, [2, *[0] * 8], tol=0, why="one for each call, and only where there is one")


@claim(
    control={"factor": "d / (d + lambda)"},
    refutes=["hat matrix", "ridge_path", "effective_dof"],
    source="Hastie, Tibshirani and Friedman 2009, 3.47",
)
def svd_shrinkage(
    seed: Seed, *, samples: Samples = 40, dim: Dim = 8, lam: Price = 5.0,
    factor: Literal["d² / (d² + lambda)", "d / (d + lambda)"] = "d² / (d² + lambda)",
) -> Evidence:
    r"""Ridge shrinks the fit along $u_i$ by $d_i^2/(d_i^2+\lambda)$; least squares keeps it.

    Args:
        factor: The share of the fit that is kept, of a singular value $d$; it needs squares.
    """
    X, Y = _problem(seed, samples, dim, 3)
    U, d, _ = torch.linalg.svd(X, full_matrices=False)
    size = d if factor == "d / (d + lambda)" else d**2
    shrink, alpha = size / (size + lam), X.new_tensor([lam])
    hat = X @ _solved(X, torch.eye(samples, dtype=X.dtype), lam)
    directions = range(1, len(d) + 1)
    return every({
        "hat matrix": equal_to_rounding(hat, (U * shrink) @ U.mT).drawn(
            Series("u'Hu", directions, (U * (hat @ U)).sum(dim=0)),
            Series("factor", directions, shrink, role="predicted"),
            x="singular direction i", y="share that is kept",
        ),
        "ridge_path": equal_to_rounding(
            X @ ridge_path(X, Y, alpha)[0], U @ (shrink[:, None] * (U.mT @ Y))
        ),
        "effective_dof": equal_to_rounding(effective_dof(X, alpha), shrink.sum()[None]),
        "least squares": equal_to_rounding(
            X @ ridge_path(X, Y, 0 * alpha)[0], U @ (U.mT @ Y)
        ),
    })


@claim(
    control={"dual_price": "0"},
    refutes=[
        "s > d: the dual has a solution", "s > d: dual and primal", "s > d: ridge_path and dual",
        "s < d: dual and primal", "s < d: ridge_path and dual",
    ],
    source="Saunders, Gammerman and Vovk 1998; push-through",
)
def dual_form(
    seed: Seed, *, few: Annotated[int, Range(2, 100)] = 8,
    many: Annotated[int, Range(101, 400)] = 150, lam: Price = 5.0,
    dual_price: Literal["lambda", "0"] = "lambda",
) -> Evidence:
    r"""$(X^\top X+\lambda I)^{-1}X^\top y=X^\top(XX^\top+\lambda I)^{-1}y$, for $s<d$ and $s>d$."""
    parts, shown = {}, []  # the second: marks of few weights, from many samples
    for name, (s, d) in {"s > d": (many, few), "s < d": (few, many)}.items():
        X, y = _problem(seed.child(name), s, d)
        gram = X @ X.mT + (lam if dual_price == "lambda" else 0) * torch.eye(s, dtype=X.dtype)
        # not solve: of a singular system it makes noise, this the nearest there is to a solution
        dual = torch.linalg.lstsq(gram, y[:, None], driver="gelsd").solution[:, 0]
        path = ridge_path(X, y, X.new_tensor([lam]))[0]
        if s > d:  # else it has one at any price
            parts[f"{name}: the dual has a solution"] = equal_to_rounding(gram @ dual, y)
        parts |= {
            f"{name}: dual and primal": equal_to_rounding(X.mT @ dual, _solved(X, y, lam)),
            f"{name}: ridge_path and dual": equal_to_rounding(path, X.mT @ dual),
        }
        shown += [
            Series("primal", range(d), _solved(X, y, lam), "predicted"),
            Series(f"dual, price {dual_price}", range(d), X.mT @ dual),
        ]
    return every(parts).drawn(*shown[:2], x="feature, of many samples", y="weight")


@claim(
    control={"price": "tau / sigma2"},
    refutes=["mode"],
    source="Hastie, Tibshirani and Friedman 2009, ex. 3.6",
)
def map_estimate(
    seed: Seed, *, samples: Samples = 40, dim: Dim = 8,
    sigma2: Annotated[float, Range(0.05, 0.5)] = 0.3, tau: Annotated[float, Range(0.6, 10)] = 2.0,
    price: Literal["sigma2 / tau", "tau / sigma2"] = "sigma2 / tau",
) -> Evidence:
    r"""With prior $N(0,\tau I)$ the posterior mode is ridge at $\lambda=\sigma^2/\tau$.

    Args:
        price: The price that goes with the prior; its inverse is another one.
    """
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
        "posterior covariance": equal_to_rounding(
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
        ).drawn(
            Series("minimum on a grid", h / lam, found[:, 0] / best),
            Series(rule, h / lam, theta / best, "predicted", "points"),
            x="curvature over price, h / λ", y="share of θ* that is left", log="x",
        ),
        "ridge_path": equal_to_rounding(path, theta),
        "exact zeros": never(theta == 0, why="a positive share of a nonzero number"),
    })


@claim(
    control={"limit": "normal equations"},
    refutes=["distance to the limit at 0"],
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
    # columns far from 0, on both sides, of which the mean leaves no more than rounding
    away = 1e6 * (-1.0) ** torch.arange(dim) + X
    centered = torch.linalg.svdvals(X - X.mean(dim=0))[:rank]
    shifted = effective_dof(away, torch.cat([X.new_zeros(1), centered[:1] ** 2]), center=True)
    known = torch.stack([centered**0, centered**2 / (centered**2 + centered[0] ** 2)]).sum(dim=1)
    ranks = []
    for (s, columns), size in itertools.product(((50, 2), (2, 50)), (1e6, 1e-6)):
        for share in (0.5, 2.0):  # of rounding, which is 50 units of the largest value
            pair = X.new_zeros(s, columns)
            pair[0, 0], pair[1, 1] = size, size * share * 50 * torch.finfo(X.dtype).eps
            ranks.append(effective_dof(pair, X.new_zeros(1))[0])
    why = "λ is 1000 times below every d² or above, which bends the line by 0.001"
    return every({
        "distance to the limit at 0": slope(
            small, (ridge_path(X, y, small) - target).norm(dim=1), 1.0, tol=0.01, why=why,
            labels=("λ", "distance to the limit"),
        ),
        "norm": slope(large, ridge_path(X, y, large).norm(dim=1), -1.0, tol=0.01, why=why),
        "freedom at 0": equal(
            [freedom[0], effective_dof(0 * X, lams)[0], *ranks], [rank, 0, *[1, 2] * 4], tol=0,
            why="every term is 1, of values beyond rounding",
        ),
        "freedom far from 0": equal(
            shifted, known, tol=1e-6, why="float64 keeps 10 digits of columns of size 1e6 around 1"
        ),
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
        how = {"center": True} if center else {}
        short = loo_error(X, Y, alphas, **how)
        if not denominator:
            residual = Y - X @ ridge_path(X, Y, alphas, center=center)
            short = residual - center * residual.mean(dim=1, keepdim=True)
        else:  # a vector of targets is one of them
            short[..., 1] = loo_error(X, Y[:, 1], alphas, **how)
        tol = 1e-9 * (1 + float(refitted.abs().max()))
        parts[name] = equal(short, refitted, tol=tol, why="rounding of s systems of equations")
    middle = X - X.mean(dim=0)  # at the middle price, with an intercept, which takes 1/s of each
    H = middle @ _solved(middle, torch.eye(samples, dtype=X.dtype), lam) + 1 / samples
    residual, h = (Y - H @ Y)[:, 0], H.diag().sort().values
    return every(parts).drawn(
        Series("refitted", H.diag(), refitted[1, :, 0] / residual),
        Series("shortcut", H.diag(), short[1, :, 0] / residual, "orange", "points"),
        Series("1 / (1 - H)", h, 1 / (1 - h), "predicted"),
        x="leverage H of a sample", y="error of the fit without it / its residual")

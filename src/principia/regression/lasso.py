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
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, Ridge, lars_path
from sklearn.metrics import f1_score
from torch import Tensor
from torch.distributions import Laplace, Normal
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.domains import Count, NonNegative, Positive, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.learners import learner
from principia.lab.relations import at_least, at_most, equal, every, identical, never
from principia.lab.seeds import Seed
from principia.regression.least_squares import MILD, few_rows, finite
from principia.regression.ridge import Loss, Penalty, ridge_alpha

Prices = Float[Tensor, "..."] | float
LOOK = 5  # steps between two looks at the duality gap, which costs as much as a step
UNEVEN = 10.0  # ratio of the largest to the smallest column from which on we warn
PUBLISHED = (3, 9, 4, 7, 2, 10, 5, 8, 6, 1, -7, 7)  # Efron et al. 2004; -7 is 7 leaving
FOLLOWED = {"order_errors": at_most_goal(0), "knot_error": at_most_goal(1e-6)}
CONVERGED = "solvers stop at a relative duality gap of 1e-12, or after 1000 steps at a linear rate"


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
        raise refuse("soft_threshold", "t", "in [0, inf)", float(t.min()))
    return _shrunk(z, t)


def _shrunk(z: Tensor, t: Tensor) -> Tensor:
    return z - z.clamp(-t, t)


def soft_threshold_(z: Tensor | Iterable[Tensor], t: float) -> None:
    """Apply one soft threshold to a tensor, or to each of several, in place.

    It reads and writes the memory of each once, as optimizers want it.
    """
    for one in (z,) if isinstance(z, Tensor) else z:
        torch.ops.aten.softshrink.out(one, t, out=one)


@checked
def ista(
    X: Float[Tensor, "*B s d"], y: Float[Tensor, "*B s"], alpha: Prices, *, steps: Count = 10_000,
    step: Annotated[float, Range(0, 2, open="both")] = 1.0, tol: NonNegative = 1e-12,
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


@checked
def fista(
    X: Float[Tensor, "*B s d"], y: Float[Tensor, "*B s"], alpha: Prices, *, steps: Count = 10_000,
    tol: NonNegative = 1e-12, restart: bool = True,
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
class ProximalSGD(torch.optim.Optimizer):
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
    def __init__(self, params: Any, *, lr: Positive = 1e-3, l1: NonNegative = 0.0) -> None:
        super().__init__(params, {"lr": lr, "l1": l1})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Move every parameter that has a gradient; return the loss of `closure`, if any."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            lr, l1 = group["lr"], group["l1"]
            if not lr * l1 >= 0:
                raise refuse("ProximalSGD", "l1", "in [0, inf)", l1)
            for p in group["params"]:
                if p.grad is not None:
                    p.add_(p.grad, alpha=-lr)
                    soft_threshold_(p, lr * l1)  # while the cache still holds it
        return loss


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
    lam: NonNegative, s: Count, *, loss: Loss = "sum", penalty: Penalty = "full"
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


@learner
def estimator(
    inputs: Count, outputs: Count, rng: torch.Generator, *, alpha: Positive = 0.1
) -> Lasso:
    """Builds scikit-learn's lasso for any table with a number to predict.

    Args:
        alpha: Price of the weights, in scikit-learn's convention.
    """
    return Lasso(alpha=alpha, max_iter=10_000)


@claim(control={"inverted": True}, source="Donoho and Johnstone 1994; Tibshirani 1996")
def soft_threshold_claim(
    seed: Seed, *, draws: Annotated[int, Range(20, 20_000)] = 200, inverted: bool = False
) -> Evidence:
    r"""$S_{\lambda/h}(\theta^*)$ minimizes $\frac h2(\theta-\theta^*)^2+\lambda|\theta|$."""
    rng = seed.torch()
    center = torch.randn(draws, generator=rng, dtype=torch.float64)
    h, price = 5 ** (2 * torch.rand(2, draws, generator=rng, dtype=torch.float64) - 1)
    threshold = price * h if inverted else price / h
    predicted = soft_threshold(center, threshold)
    best = _grid_argmin(
        lambda theta: h / 2 * (theta - center) ** 2 + price * theta.abs(), center.abs() + 1
    )
    return every(
        {
            "minimum": equal(best, predicted, tol=1e-6, why="flat to rounding within 1e-7").drawn(
                Series("best of a grid", center, best),
                Series("soft threshold", center, predicted, "predicted", "points"),
                x="θ*", y="θ",
            ),
            "three cases": never(
                (predicted == 0) != (center.abs() <= threshold), why="0 exactly inside, else not"
            ),
        }
    )


@claim(
    control={"threshold": 1.0},
    source="Tibshirani 1996, section 2.2",
    misprint=r"$\Vert Xw-y\Vert^2+\frac\lambda2\Vert w\Vert_1$ thresholds $X^\top y$ at $\lambda$",
)
def threshold_follows_objective(
    seed: Seed, *, lam: Annotated[float, Range(0.01, 4)] = 1.0,
    samples: Annotated[int, Range(20, 200)] = 60,
    threshold: Annotated[float, Range(0.05, 2)] = 0.25,
) -> Evidence:
    r"""$X^\top X=I$: $\Vert Xw-y\Vert^2+\frac\lambda2\Vert w\Vert_1$ thresholds at $\lambda/4$."""
    rng = seed.torch()
    X = torch.linalg.qr(torch.randn(samples, 20, generator=rng, dtype=torch.float64))[0]
    y = X @ torch.randn(20, generator=rng, dtype=torch.float64)
    w = fista(X, y, lasso_alpha(lam, samples, loss="sum", penalty="half"))
    predicted = soft_threshold(X.T @ y, threshold * lam)
    return equal(w, predicted, tol=1e-8, why=CONVERGED)


@claim(control={"penalty": "l2"}, source="Tibshirani 1996")
def exact_zeros(
    seed: Seed, *, alpha: Annotated[float, Range(0.05, 0.5)] = 0.1,
    samples: Annotated[int, Range(200, 2000)] = 400, penalty: Literal["l1", "l2"] = "l1",
) -> Evidence:
    r"""The lasso sets coefficients exactly to 0, ridge none: truth has 20 others among 200."""
    X, y, truth = _sparse_data(seed, samples, 200, 20)
    ridge = _ridge(X, y, alpha)
    sparse = fista(X, y, alpha) if penalty == "l1" else ridge
    theirs = _sklearn(X, y, alpha) if penalty == "l1" else ridge
    place, known = torch.arange(200), truth.abs().argsort(descending=True)
    return every(
        {
            "zeros of the lasso": at_least(
                (sparse == 0).sum(), 101, why="more than half; 180 are 0 in truth"
            ).drawn(
                Series("measured", place, sparse[known]),
                Series("ridge", place, ridge[known], "other", "points"),
                Series("truth", place, truth[known], "predicted"),
                x="coefficient, by its true size", y="value",
            ),
            "scikit-learn has the same": equal(
                sparse == 0, theirs == 0, tol=0, why="one minimum, so one set of zeros"
            ),
            "zeros of ridge": equal((ridge == 0).sum(), 0, tol=0, why="a count"),
        }
    )


@claim(control={"solution": "ridge"}, source="Karush, Kuhn and Tucker; Tibshirani 1996")
def optimality(
    seed: Seed, *, samples: Annotated[int, Range(100, 1000)] = 100,
    features: Annotated[int, Range(2, 50)] = 50, share: Annotated[float, Range(0.05, 0.95)] = 0.2,
    solution: Literal["lasso", "ridge"] = "lasso",
) -> Evidence:
    r"""At the minimum $|x_j^\top(y-Xw)|\le s\alpha$, with equality wherever $w_j\ne0$."""
    X, y, _ = _sparse_data(seed, samples, features, max(1, features // 5))
    alpha = share * float(lambda_max(X, y))
    solvers = {"ISTA": ista, "FISTA": fista, "ProximalSGD": _trained, "scikit-learn": _sklearn}
    parts = {}
    for name, solve in solvers.items() if solution == "lasso" else [("ridge", _ridge)]:
        w = solve(X, y, alpha)
        signs = [w.min(), 0, 0, w.max()], [-alpha, -alpha, alpha, alpha]
        parts[name] = at_most(kkt_residual(X, y, w, alpha), 1e-8, why=CONVERGED).drawn(
            Series("x·(y − Xw)/s", w, X.T @ (y - X @ w) / samples),
            Series("α sign(w)", *signs, role="bound"),
            x="coefficient", y="pull of the loss on it",
        )
    at_zero = kkt_residual(X, y, torch.zeros_like(X[0]), alpha)
    return every({**parts, "excess at w = 0": identical(at_zero, lambda_max(X, y) - alpha)})


@claim(control={"converted": False}, source="Pedregosa et al. 2011, scikit-learn")
def equals_sklearn(
    seed: Seed, *, prices: Annotated[int, Range(2, 50)] = 10, converted: bool = True
) -> Evidence:
    r"""ISTA, FISTA and proximal SGD find the weights of `Lasso(alpha)`, in every convention."""
    parts = {}
    for name, samples, features in (("tall", 100, 40), ("wide", 60, 120)):
        X, y, _ = _sparse_data(seed.child(name), samples, features, 10)
        alphas = float(lambda_max(X, y)) * torch.logspace(-1, 0, prices, dtype=torch.float64)
        theirs = torch.stack([_sklearn(X, y, alpha) for alpha in alphas.tolist()])
        for solver in (fista, ista):
            parts[f"{solver.__name__}, {name}"] = equal(
                solver(X, y, alphas), theirs, tol=1e-9, why=CONVERGED
            )
    X, y, _ = _sparse_data(seed, 100, 20, 5)
    s = len(y)
    trained = _trained(X, y, 0.1)
    parts["ProximalSGD"] = equal(trained, _sklearn(X, y, 0.1), tol=1e-9, why=CONVERGED)
    factors = {"sum": 1.0, "half-sum": 0.5, "mean": 1 / s, "half-mean": 0.5 / s}
    for loss, penalty in itertools.product(factors, ("full", "half")):
        lam = 20.0 * factors[loss]  # a fair price in every convention
        price = lam if penalty == "full" else lam / 2
        alpha = lasso_alpha(lam, s, loss=loss, penalty=penalty) if converted else lam  # type: ignore[arg-type]
        w = _sklearn(X, y, alpha).requires_grad_()
        (gradient,) = torch.autograd.grad(factors[loss] * (X @ w - y).square().sum(), w)
        outside = (gradient.abs() - price).clamp_min(0)
        missed = torch.where(w == 0, outside, (gradient + price * w.sign()).abs())
        parts[f"{loss} loss, {penalty} price"] = at_most(missed / price, 1e-9, why=CONVERGED)
    return every(parts)


@claim(control={"factor": 0.95}, source="Tibshirani 1996; Osborne, Presnell and Turlach 2000")
def empty_above_lambda_max(
    seed: Seed, *, problems: Annotated[int, Range(2, 200)] = 20,
    factor: Annotated[float, Range(0.1, 10)] = 1.0,
) -> Evidence:
    r"""$w=0$ if $\alpha\ge\max_j|x_j^\top y|/s$, and only then."""
    rng = seed.torch()
    X = torch.randn(problems, 40, 30, generator=rng, dtype=torch.float64)
    y = torch.randn(problems, 40, generator=rng, dtype=torch.float64)
    limit = lambda_max(X, y)
    high, low = factor * limit * (1 + 1e-12), limit * (1 - 1e-6)  # beyond rounding of the limit
    ours = fista(X, y, torch.stack([high, low], dim=1))  # (problems, 2, d)
    theirs = torch.stack([_sklearn(*one) for one in zip(X, y, high.tolist(), strict=True)])
    why = "a theorem: coefficients are exactly 0, or not"
    return every(
        {
            "FISTA at the limit": equal((ours[:, 0] != 0).sum(-1), 0, tol=0, why=why),
            "scikit-learn at the limit": equal((theirs != 0).sum(-1), 0, tol=0, why=why),
            "just below": at_least((ours[:, 1] != 0).sum(-1), 1, why=why),
        }
    )


@claim(control={"step": 2.2}, source="Beck and Teboulle 2009, theorem 3.1")
def ista_rate(
    seed: Seed, *, problems: Annotated[int, Range(2, 100)] = 20,
    steps: Annotated[int, Range(50, 1000)] = 1000, step: Annotated[float, Range(0.5, 2.5)] = 1.0,
) -> Evidence:
    r"""ISTA: $F(w_t)-F^*\le L\Vert w_0-w^*\Vert^2/2t$ at every step $t$."""
    return _rate(seed, problems, steps, lambda size, t: size / (2 * t), step=step)


@claim(control={"momentum": False}, source="Beck and Teboulle 2009, theorem 4.4")
def fista_rate(
    seed: Seed, *, problems: Annotated[int, Range(2, 100)] = 20,
    steps: Annotated[int, Range(200, 1000)] = 1000, momentum: bool = True,
) -> Evidence:
    r"""FISTA: $F(w_t)-F^*\le 2L\Vert w_0-w^*\Vert^2/(t+1)^2$ at every step $t$."""
    bound = lambda size, t: 2 * size / (t + 1) ** 2  # noqa: E731
    return _rate(seed, problems, steps, bound, momentum=momentum)


@claim(control={"path": "ridge"}, source="Osborne, Presnell and Turlach 2000; Efron et al. 2004")
def piecewise_linear_path(
    seed: Seed, *, features: Annotated[int, Range(3, 30)] = 10,
    path: Literal["lasso", "ridge"] = "lasso",
) -> Evidence:
    r"""$w(\alpha)$ is linear between the knots, where a coefficient enters or leaves."""
    X, y, _ = _sparse_data(seed, 100, features, features)
    knots = torch.as_tensor(lars_path(X.numpy(), y.numpy(), method="lasso")[0].copy())
    inside = torch.linspace(0.05, 0.95, 3, dtype=torch.float64)  # of each segment
    alphas = (knots[:-1, None] + (knots[1:] - knots[:-1])[:, None] * inside).flatten()
    if path == "lasso":
        w = fista(X, y, alphas)
    else:
        grams = X.T @ X + len(y) * alphas[:, None, None] * torch.eye(features)
        w = torch.linalg.solve(grams, X.T @ y)
    first, middle, last = w.unflatten(0, (-1, 3)).unbind(1)  # (segments, d)
    return equal(first + last, 2 * middle, tol=1e-8, why=CONVERGED).drawn(
        *(Series(f"w{j + 1}", alphas, w[:, j], "other") for j in range(min(features, 6))),
        Series("knots", knots, torch.zeros_like(knots), "predicted", "points"),
        x="α", y="coefficient",
    )


@claim(control={"prior": "Gauss"}, source="Tibshirani 1996, section 5")
def laplace_prior(
    seed: Seed, *, sigma: Annotated[float, Range(0.2, 2)] = 0.5,
    scale: Annotated[float, Range(0.02, 1)] = 0.05, prior: Literal["Laplace", "Gauss"] = "Laplace",
) -> Evidence:
    r"""The mode of the posterior under a Laplace($b$) prior is the lasso, $\alpha=\sigma^2/sb$."""
    X, y, _ = _sparse_data(seed, 40, 5, 3, noise=sigma)
    zero = X.new_zeros(())
    belief = Laplace(zero, scale) if prior == "Laplace" else Normal(zero, 2**0.5 * scale)

    def surprise(w: Tensor) -> Tensor:  # (..., 5) -> (...)
        noise = Normal(zero, sigma).log_prob(y - w @ X.T).sum(-1)
        return -(noise + belief.log_prob(w).sum(-1))

    mode = X.new_zeros(5)
    for j in 15 * list(range(5)):  # the price is a sum over coordinates, so one by one suffices
        unit = torch.eye(5, dtype=X.dtype)[j]
        line = mode - mode * unit
        at = _grid_argmin(lambda v: surprise(line + v[..., None] * unit), X.new_tensor([8.0]))  # noqa: B023
        mode = line + at * unit
    w = fista(X, y, sigma**2 / (len(y) * scale))
    return equal(mode, w, tol=1e-5, why="a log density of 1e2 is flat to rounding within 1e-6")


@experiment(
    reaches={**FOLLOWED, "support_f1": Range(0.8, 1)}, floor=FOLLOWED,
    source="Efron, Hastie, Johnstone, Tibshirani (2004), Least angle regression: diabetes data",
)
def diabetes_path(run: Run, *, grid: Annotated[int, Range(50, 2000)] = 200) -> None:
    """Follows the lasso on the diabetes data as the price falls: who enters, and when."""
    data, target = load_diabetes(return_X_y=True)  # columns are centered, of length 1
    X, y = torch.as_tensor(data), torch.as_tensor(target - target.mean())
    theirs, _, _ = lars_path(data, y.numpy(), method="lasso")
    top = float(lambda_max(X, y))
    alphas = top * torch.logspace(0.001, -4, grid, dtype=torch.float64)
    w = fista(X, y, alphas)
    events, knots = _events(X, y, alphas, w)
    pairs = itertools.zip_longest(events, PUBLISHED)
    run.record(order_errors=sum(ours != published for ours, published in pairs))
    same = len(knots) == len(theirs) - 1  # their last is 0, where the path ends
    run.record(knot_error=np.abs(knots - theirs[:-1]).max() if same else np.inf)
    run.say("order: " + ", ".join(str(one) for one in events))
    sizes = w.abs().sum(-1)
    lines = [Series(f"{j + 1}", sizes, w[:, j], "other") for j in range(10)]
    run.figure("path", figures.draw(Picture(tuple(lines), "sum of |w|", "coefficient")))
    if run.full:
        X, y, truth = _sparse_data(run.seed, 200, 1000, 20)
        found = fista(X, y, 0.3)
        run.record(support_f1=f1_score(truth != 0, found != 0), found=int((found != 0).sum()))


def _solve(
    owner: str, X: Tensor, y: Tensor, alpha: Prices, steps: int, tol: float, **how: Any
) -> Tensor:
    """Step until every duality gap is small enough, on a compact problem of the same objective."""
    prices, single = _prices(owner, alpha, X)
    if not (finite(X) and finite(y)):
        hint = "Drop or fill those rows."
        raise refuse(owner, "X and y", "finite", "NaN or infinity", hint)
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
    for t, w in enumerate(itertools.islice(_iterates(X, y, prices, **how), steps), 1):
        if t % LOOK == 0 or t == steps:
            gap = _gap(X, y, w, prices) - allowed
            if finish and bool((gap > 0).any()):
                solved = _with_these_signs(X, y, w, prices)
                new = _gap(X, y, solved, prices) - allowed
                w, gap = solved.where((new < gap)[..., None], w), torch.fmin(new, gap)
            if bool((gap <= 0).all()):
                break
    else:
        warnings.warn(
            f"{owner}: the duality gap is {float(gap.max()):.2g} above its tolerance after {steps} "
            "steps. Allow more steps or a larger tol.", ConvergenceWarning, stacklevel=4,
        )
    return w[..., 0, :] if single else w


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


def _iterates(
    X: Tensor, y: Tensor, prices: Tensor, *, step: float = 1.0, momentum: bool = False,
    restart: bool = False,
) -> Iterator[Tensor]:
    """Yield $w_1, w_2, ...$, each (..., A, d), from $w_0=0$."""
    target, lr = y[..., None, :], step / _curvature(X)
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


def _curvature(X: Tensor) -> Tensor:
    """Compute L (..., 1, 1); for X = 0 the smallest number, since any step will do."""
    largest = torch.linalg.matrix_norm(X, 2, keepdim=True) ** 2 / X.shape[-2]
    return largest.clamp_min(torch.finfo(X.dtype).tiny)


def _gap(X: Tensor, y: Tensor, w: Tensor, prices: Tensor) -> Tensor:
    r"""Bound $F(w)-F^*$ (..., A): how far the dual lags behind at the scaled residual $\theta$.

    Written as sums of terms that are not negative, for differences of F would cancel.
    """
    s, residual = X.shape[-2], y[..., None, :] - w @ X.mT
    pull = residual @ X / s
    inside = (prices / pull.abs().amax(-1)).clamp_max(1.0).nan_to_num(1.0)[..., None]
    lost = ((1 - inside) * residual).square().sum(-1) / (2 * s)
    return lost + (prices[..., None] * w.abs() - w * inside * pull).sum(-1)


def _with_these_signs(X: Tensor, y: Tensor, w: Tensor, prices: Tensor) -> Tensor:
    r"""Minimize F over the $w_j\ne0$, as if their signs were right: then its gradient is linear."""
    signs, s = w.sign(), X.shape[-2]
    on = signs.abs()
    gram = (X.mT @ X / s)[..., None, :, :] * on[..., None, :] * on[..., :, None]
    pull = (y[..., None, :] @ X / s - prices[..., None] * signs) * on
    factor, _ = torch.linalg.cholesky_ex(gram + torch.diag_embed(1 - on))
    return torch.cholesky_solve(pull[..., None], factor)[..., 0].nan_to_num()


def _prices(owner: str, alpha: Prices, X: Tensor) -> tuple[Tensor, bool]:
    """Give the prices as (..., A), and whether there was a single number."""
    prices = torch.as_tensor(alpha, dtype=X.dtype, device=X.device)
    if not bool(((prices >= 0) & prices.isfinite()).all()):
        raise refuse(owner, "alpha", "in [0, inf)", float(prices.min()))
    return torch.atleast_1d(prices), prices.ndim == 0


def _grid_argmin(f: Callable[[Tensor], Tensor], reach: Tensor) -> Tensor:
    """Minimize convex functions of one number, one an entry of `reach`, by ever finer grids."""
    grid, best = torch.linspace(-1, 1, 41, dtype=reach.dtype)[:, None], torch.zeros_like(reach)
    for zoom in range(8):
        points = best + reach / 20**zoom * grid  # neighbors are as far apart as the next reach
        best = points.gather(0, f(points).argmin(0, keepdim=True))[0]
    return best


def _sparse_data(
    seed: Seed, samples: int, features: int, nonzero: int, *, noise: float = 0.5
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw X, y and the true coefficients, of which `nonzero` are of size 1 to 2."""
    rng = seed.torch()
    X = torch.randn(samples, features, generator=rng, dtype=torch.float64)
    size = 1 + torch.rand(nonzero, generator=rng, dtype=torch.float64)
    sign = 2.0 * torch.randint(2, (nonzero,), generator=rng) - 1
    truth = X.new_zeros(features)
    truth[torch.randperm(features, generator=rng)[:nonzero]] = sign * size
    errors = noise * torch.randn(samples, generator=rng, dtype=torch.float64)
    return X, X @ truth + errors, truth


def _sklearn(X: Tensor, y: Tensor, alpha: float) -> Tensor:
    model = Lasso(alpha=alpha, fit_intercept=False, tol=1e-13, max_iter=100_000, random_state=0)
    return torch.as_tensor(model.fit(X.numpy(), y.numpy()).coef_)


def _ridge(X: Tensor, y: Tensor, alpha: float) -> Tensor:
    model = Ridge(alpha=ridge_alpha(alpha, len(y), loss="half-mean", penalty="half"))
    return torch.as_tensor(model.set_params(fit_intercept=False).fit(X.numpy(), y.numpy()).coef_)


def _trained(X: Tensor, y: Tensor, alpha: float) -> Tensor:
    """Minimize with the optimizer, from gradients of all samples that autograd computes."""
    w = torch.nn.Parameter(X.new_zeros(X.shape[1]))
    optimizer = ProximalSGD([w], lr=1 / float(_curvature(X)), l1=alpha)
    for _ in range(1000):
        optimizer.zero_grad()
        ((X @ w - y).square().mean() / 2).backward()
        optimizer.step()
    return w.detach()


def _rate(
    seed: Seed, problems: int, steps: int, bound: Callable[[Tensor, Tensor], Tensor], **how: Any
) -> Evidence:
    """Compare $F(w_t)-F^*$ with its bound, at every step, on blurred spikes to be sharpened."""
    rng, size = seed.torch(), 50
    width, spikes, noise = torch.randn(3, problems, size, 1, generator=rng, dtype=torch.float64)
    place = torch.arange(size)
    apart = (place - place[:, None]).abs()  # on a circle, so that all columns have one size
    blur = 1 + 0.5 * width[:, :1].sigmoid()
    X = torch.exp(-0.5 * (torch.minimum(apart, size - apart) / blur) ** 2)
    y = (X @ soft_threshold(spikes, 1.3) + 0.01 * noise)[..., 0]  # a fifth of the spikes remain
    prices = 0.01 * lambda_max(X, y)[:, None]

    def objective(w: Tensor) -> Tensor:
        loss = (w @ X.mT - y[:, None]).square().sum(-1) / (2 * size)
        return (loss + prices * w.abs().sum(-1))[..., 0]

    each = zip(X, y, prices[:, 0].tolist(), strict=True)
    best = torch.stack([_sklearn(*one) for one in each])[:, None]
    least = objective(best) - _gap(X, y, best, prices)[:, 0]  # surely not above the minimum
    iterates = torch.stack(list(itertools.islice(_iterates(X, y, prices, **how), steps)))
    error = objective(iterates) - least  # (steps, problems)
    t = torch.arange(1, steps + 1, dtype=torch.float64)[:, None]
    limit = bound(_curvature(X)[:, 0, 0] * best.square().sum((-2, -1)), t)
    why = "a theorem; rounding of F, relative to a bound a million times smaller"
    return at_most(error / limit, 1.0, slack=1e-9, why=why).drawn(
        Series("F − F*", t[:, 0], error[:, 0].clamp_min(1e-16), style="line"),
        Series("bound", t[:, 0], limit[:, 0], role="bound"),
        x="step t (first problem)", y="error", log="xy",
    )


def _events(X: Tensor, y: Tensor, alphas: Tensor, w: Tensor) -> tuple[list[int], np.ndarray]:
    """Find who enters (+) or leaves (-) along falling prices, and the price of each event."""
    while True:
        changed = ((w[1:] != 0) != (w[:-1] != 0)).any(-1)
        high, low = alphas[:-1][changed], alphas[1:][changed]
        if float((high - low).max()) < 1e-7:
            break
        parts = torch.linspace(0, 1, 9, dtype=alphas.dtype)
        alphas = (high[:, None] + (low - high)[:, None] * parts).flatten()
        w = fista(X, y, alphas)
    entered = (w[1:] != 0).int() - (w[:-1] != 0).int()
    who = entered[changed].nonzero()
    events = [int((j + 1) * entered[changed][row, j]) for row, j in who]
    return events, ((high + low) / 2)[who[:, 0]].numpy()

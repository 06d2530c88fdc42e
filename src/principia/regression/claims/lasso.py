r"""Lasso: what is true of it, and what would refute it.

Knobs:
    draws: Functions of one number that are minimized.
    inverted: Whether the threshold is $\lambda h$ instead of $\lambda/h$.
    lam: The price $\lambda$ on the absolute weights.
    samples: Samples, the rows of $X$.
    threshold: The share of $\lambda$ at which weights vanish; 1/4 goes with this objective.
    alpha: The price on the absolute weights, beside half the mean loss.
    exchanged: Whether the weights of the lasso and of ridge change places.
    features: Features, the columns of $X$, each with its weight.
    share: The price as a share of the one at which all weights vanish.
    solution: Whose weights are tested; those of ridge solve another problem.
    prices: Prices at which the weights are compared.
    converted: Whether a price is converted to the convention of scikit-learn.
    restarts: Whether FISTA forgets its momentum when it leads uphill; without it is slow.
    problems: Independent problems that are solved.
    factor: The price in units of the least one that empties the model; below 1 weights appear.
    steps: Steps of the solver, at each of which the bound is tested.
    step: The step in units of $1/L$; beyond 2 it diverges.
    momentum: Whether steps look ahead, as in FISTA; without it they are those of ISTA.
    path: Whose weights are followed; those of ridge bend everywhere.
    sigma: The standard deviation of the noise in the targets.
    scale: The scale $b$ of the prior; narrow ones set weights to 0.
    prior: The law of the weights before any data; that of Gauss leads to ridge instead.
"""

import itertools
import warnings
from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, lars_path
from torch import Tensor
from torch.distributions import Laplace, Normal

import principia.regression.claims._by_hand as by_hand
from principia.lab.draws import randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.regression.claims._drawn import conditions, emptied, paths, posterior, thresholds
from principia.regression.lasso import (
    ProximalSGD,
    curvature,
    fista,
    gap_at,
    ista,
    kkt_residual,
    lambda_max,
    lasso_alpha,
    proximal_iterates,
    soft_threshold,
    soft_threshold_,
)
from principia.regression.ridge import ridge_alpha, ridge_path

CONVERGED = "solvers stop at a relative duality gap of 1e-12, or after 1000 steps at a linear rate"


@claim(
    control={"inverted": True}, refutes=["minimum"],
    source="Donoho and Johnstone 1994; Tibshirani 1996",
)
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
        lambda theta: h / 2 * (theta - center) ** 2 + price * theta.abs(), center.abs() + 1)
    several = [center.clone(), center.view(2, -1).clone()]  # as optimizers have them
    alone = center.clone()
    several.append(center[0].clone())  # a single number
    for one in (alone, iter(several[:2]), several[2]):
        soft_threshold_(one, 0.7)
    in_place = torch.cat([alone, *(one.flatten() for one in several)])
    thresholded = soft_threshold(center.repeat(4)[: 3 * draws + 1], 0.7)
    return every({
        "in place": equal_to_rounding(in_place, thresholded),
        "minimum": equal(best, predicted, tol=1e-6, why="flat to rounding within 1e-7").drawn(
            Series("best of a grid", center, best),
            Series("soft threshold", center, predicted, "predicted", "points"), x="θ*", y="θ"),
        "three cases": never(
            (predicted == 0) != (center.abs() <= threshold), why="0 exactly inside, else not"),
    })


def _grid_argmin(f: Callable[[Tensor], Tensor], reach: Tensor) -> Tensor:
    """Minimize convex functions of one number, one an entry of `reach`, by ever finer grids."""
    grid, best = torch.linspace(-1, 1, 41, dtype=reach.dtype)[:, None], torch.zeros_like(reach)
    for zoom in range(8):
        points = best + reach / 20**zoom * grid  # neighbors are as far apart as the next reach
        best = points.gather(0, f(points).argmin(0, keepdim=True))[0]
    return best


@claim(
    control={"threshold": 1.0}, source="Tibshirani 1996, section 2.2",
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
    found = equal(w, predicted, tol=1e-8, why=CONVERGED)
    return found.named("weights").pictured(thresholds(X.T @ y, w, predicted, lam / 4))


@claim(
    control={"exchanged": True}, refutes=["zeros of the lasso", "zeros of ridge"],
    source="Tibshirani 1996",
)
def exact_zeros(
    seed: Seed, *, alpha: Annotated[float, Range(0.05, 0.5)] = 0.1,
    samples: Annotated[int, Range(200, 2000)] = 400, exchanged: bool = False,
) -> Evidence:
    r"""The lasso sets coefficients exactly to 0, ridge none: truth has 20 others among 200."""
    X, y, truth = sparse_data(seed, samples, 200, 20)
    sparse, ridge = fista(X, y, alpha), _ridge(X, y, alpha)
    if exchanged:
        sparse, ridge = ridge, sparse
    theirs = _sklearn(X, y, alpha)
    place, known = torch.arange(200), truth.abs().argsort(descending=True)
    return every({
        "zeros of the lasso": at_least(
            (sparse == 0).sum(), 101, why="more than half; 180 are 0 in truth"
        ).drawn(
            Series("measured", place, sparse[known]),
            Series("ridge", place, ridge[known], "other", "points"),
            Series("truth", place, truth[known], "predicted"),
            x="coefficient, by its true size", y="its value"),
        "scikit-learn has the same": equal(
            sparse == 0, theirs == 0, tol=0, why="one minimum, so one set of zeros"),
        "zeros of ridge": equal((ridge == 0).sum(), 0, tol=0, why="a count"),
    })


def _ridge(X: Tensor, y: Tensor, alpha: float) -> Tensor:
    price = ridge_alpha(alpha, len(y), loss="half-mean", penalty="half")
    return ridge_path(X, y, X.new_tensor([price]))[0]


def _sklearn(X: Tensor, y: Tensor, alpha: float) -> Tensor:
    model = Lasso(alpha=alpha, fit_intercept=False, tol=1e-13, max_iter=100_000, random_state=0)
    return torch.as_tensor(model.fit(X.numpy(), y.numpy()).coef_)


def sparse_data(
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


@claim(
    control={"solution": "ridge"},
    refutes=["ridge"], source="Karush, Kuhn and Tucker; Tibshirani 1996",
)
def optimality(
    seed: Seed, *, samples: Annotated[int, Range(100, 1000)] = 100,
    features: Annotated[int, Range(2, 50)] = 50, share: Annotated[float, Range(0.05, 0.95)] = 0.2,
    solution: Literal["lasso", "ridge"] = "lasso",
) -> Evidence:
    r"""At the minimum $|x_j^\top(y-Xw)|\le s\alpha$, with equality wherever $w_j\ne0$."""
    X, y, _ = sparse_data(seed, samples, features, max(1, features // 5))
    alpha = share * float(lambda_max(X, y))
    solvers = {"ISTA": ista, "FISTA": fista, "ProximalSGD": _trained, "scikit-learn": _sklearn}
    parts, name, w = {}, "", X[0]
    for name, solve in solvers.items() if solution == "lasso" else [("ridge", _ridge)]:
        w = solve(X, y, alpha)
        parts[name] = at_most(kkt_residual(X, y, w, alpha), 1e-8, why=CONVERGED)
    at_zero = kkt_residual(X, y, torch.zeros_like(X[0]), alpha)
    return every({
        **parts,
        "excess at w = 0": equal_to_rounding(at_zero, lambda_max(X, y) - alpha),
        "of many problems": _unlike_by_hand(seed.child("many").torch()),
    }).pictured(conditions(name, X, y, w, alpha))


def _unlike_by_hand(rng: torch.Generator) -> Evidence:
    """Compare residuals, gaps and largest prices of problems (2, 3, s, d) with those by hand."""
    X, y, w = randn(rng, 2, 3, 7, 4), randn(rng, 2, 3, 7), randn(rng, 2, 3, 5, 4).round()
    w[:, :, 2:4] = 0  # where only the excess counts, of either sign
    prices = torch.rand(2, 3, 5, generator=rng, dtype=X.dtype)
    X[1, 2], prices[1, 2, 0] = 0, 0  # where any price above 0 is the largest, and 0 has no gap
    known, gaps, largest = torch.zeros_like(prices), torch.zeros_like(prices), lambda_max(X, y)
    for a, b, c in itertools.product(range(2), range(3), range(5)):
        one = X[a, b], y[a, b], w[a, b, c], float(prices[a, b, c])
        known[a, b, c], gaps[a, b, c] = by_hand.missed(*one), by_hand.gap(*one)
    one, several = kkt_residual(X, y, w[:, :, 0], 0.5), kkt_residual(X, y, w, prices * 0 + 0.5)
    alone = torch.stack([one, several[..., 0]])
    pairs = zip(X.flatten(0, 1), y.flatten(0, 1), strict=True)
    most = [max(abs(float(x @ target)) for x in Z.T) / 7 for Z, target in pairs]
    return equal_to_rounding(
        [*kkt_residual(X, y, w, prices).flatten(), *gap_at(X, y, w, prices).flatten(),
         *alone[0].flatten(), *largest.flatten()],
        [*known.flatten(), *gaps.flatten(), *alone[1].flatten(), *most])


def _trained(X: Tensor, y: Tensor, alpha: float) -> Tensor:
    """Minimize with the optimizer, from gradients of all samples that autograd computes."""
    w = torch.nn.Parameter(X.new_zeros(X.shape[1]))
    optimizer = ProximalSGD([w], lr=1 / float(curvature(X)), l1=alpha)
    for _ in range(1000):
        optimizer.zero_grad()
        ((X @ w - y).square().mean() / 2).backward()
        optimizer.step()
    return w.detach()


@claim(
    control=[
        Control({"converted": False}, [
            "sum loss, full price", "sum loss, half price", "half-sum loss, full price",
            "half-sum loss, half price", "mean loss, full price", "mean loss, half price",
            "half-mean loss, half price"], "prices of another convention"),
        Control({"restarts": False}, ["in 200 steps, where columns are alike"], "no restarts"),
    ], source="Pedregosa et al. 2011, scikit-learn",
)
def equals_sklearn(
    seed: Seed, *, prices: Annotated[int, Range(2, 50)] = 10, converted: bool = True,
    restarts: bool = True,
) -> Evidence:
    r"""ISTA, FISTA and proximal SGD find the weights of `Lasso(alpha)`, in every convention."""
    parts = {}
    sizes = (("tall", 100, 40), ("wide", 60, 120), ("very tall", 300, 20))
    for name, samples, features in sizes:
        X, y, _ = sparse_data(seed.child(name), samples, features, 10)
        alphas = float(lambda_max(X, y)) * torch.logspace(-1, 0, prices, dtype=torch.float64)
        theirs = torch.stack([_sklearn(X, y, alpha) for alpha in alphas.tolist()])
        for solver in (fista, ista):
            found = equal(w := solver(X, y, alphas), theirs, tol=1e-9, why=CONVERGED)
            found = found.pictured(paths(solver.__name__, alphas, w, theirs))
            parts[f"{solver.__name__}, {name}"] = found
        if name == "tall":
            others = (ista, {"step": 1.5}), (fista, {"restart": False}), (fista, {"tol": 1e-14})
            found = torch.stack([solve(X, y, alphas, **how) for solve, how in others])  # type: ignore[operator]
            parts["other settings"] = equal(
                found, theirs.expand(3, -1, -1), tol=1e-7, why="one minimum; FISTA alone is slow")
            alike = torch.full((40, 40), 0.3) + 0.3 * torch.eye(40)
            mixed = X @ torch.linalg.cholesky(alike.double()).T
            parts["in 200 steps, where columns are alike"] = _soon(mixed, y, restarts)
    (X, y, _), s = sparse_data(seed, 100, 20, 5), 100
    trained, pair = _trained(X, y, 0.1), []
    for optimizer in (ProximalSGD, torch.optim.SGD):  # without a price they are the same
        w = torch.nn.Parameter(torch.ones(3, dtype=X.dtype))
        steps = optimizer([w])
        for _ in range(3):
            w.grad = w.detach() ** 2
            steps.step()
        pair.append(w.detach())
    parts["uneven columns are told"] = _told(X, y)
    parts["stops as soon as the gap allows"] = _stops(seed.child("stops"))
    parts["ProximalSGD by default is SGD"] = equal_to_rounding(*pair)
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


def _soon(X: Tensor, y: Tensor, restarts: bool) -> Evidence:
    """Solve in few steps: after a restart, equations that the signs leave end the way."""
    how = {} if restarts else {"restart": False}
    alphas = float(lambda_max(X, y)) * torch.tensor([0.1, 0.03], dtype=X.dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        w = fista(X, y, alphas, steps=200, **how)
    theirs = torch.stack([_sklearn(X, y, alpha) for alpha in alphas.tolist()])
    return equal(w, theirs, tol=1e-8, why=CONVERGED)


def _told(X: Tensor, y: Tensor) -> Evidence:
    """Count warnings of columns of which the price weighs on the small ones."""
    found = []
    for solve, factor in itertools.product((ista, fista), (1.0, 6.0, 15.0, 0.0)):
        even = X / X.square().mean(dim=0).sqrt()
        even[:, 2] *= factor  # a column of zeros is not small: nothing can weigh on it
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            solve(even, y, 0.1)
            solve(even, 0 * y, 0.1)  # at its minimum from the start
        found.append(len(noted))
    why = "a note from a factor of ten on"
    return equal(found, [0, 0, 2, 0] * 2, tol=0, why=why)


def _stops(seed: Seed) -> Evidence:
    """Compare where solvers stop with steps by hand, of tall, square and wide problems."""
    found, known = [], []
    for samples, features in ((200, 8), (30, 10), (12, 12), (15, 20)):
        X, y, _ = sparse_data(seed.child(samples * features), samples, features, 4, noise=4.0)
        X = X + X[:, :1]  # columns that are alike take many steps
        price = 0.2 * float(lambda_max(X, y))
        for solve, tol in itertools.product((ista, fista), (1e-1, 1e-2, 1e-3)):
            found.append(solve(X, y, price, tol=tol))
            known.append(by_hand.stopped(X, y, price, tol, momentum=solve is fista))
    return equal(torch.cat(found), torch.cat(known), tol=1e-8, why="rounding of some steps")


@claim(
    control={"factor": 0.95}, refutes=["FISTA at the limit", "scikit-learn at the limit"],
    source="Tibshirani 1996; Osborne, Presnell and Turlach 2000",
)
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
    return every({
        "FISTA at the limit": equal((ours[:, 0] != 0).sum(-1), 0, tol=0, why=why),
        "scikit-learn at the limit": equal((theirs != 0).sum(-1), 0, tol=0, why=why),
        "just below": at_least((ours[:, 1] != 0).sum(-1), 1, why=why),
    }).pictured(emptied(X[0], y[0], factor))


@claim(control={"step": 2.2}, refutes=["bound"], source="Beck and Teboulle 2009, theorem 3.1")
def ista_rate(
    seed: Seed, *, problems: Annotated[int, Range(2, 100)] = 20,
    steps: Annotated[int, Range(50, 1000)] = 1000, step: Annotated[float, Range(0.5, 2.5)] = 1.0,
) -> Evidence:
    r"""ISTA: $F(w_t)-F^*\le L\Vert w_0-w^*\Vert^2/2t$ at every step $t$."""
    return _rate(seed, problems, steps, lambda size, t: size / (2 * t), step=step)


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
    least = objective(best) - gap_at(X, y, best, prices)[:, 0]  # surely not above the minimum
    iterates = torch.stack(list(itertools.islice(proximal_iterates(X, y, prices, **how), steps)))
    error = objective(iterates) - least  # (steps, problems)
    t = torch.arange(1, steps + 1, dtype=torch.float64)[:, None]
    limit = bound(curvature(X)[:, 0, 0] * best.square().sum((-2, -1)), t)
    why = "a theorem; rounding of F, relative to a bound a million times smaller"
    ours, theirs = [], []
    for restart in (False, True)[: 1 + how.get("momentum", False)]:
        asked = {"restart": True} if restart else {}  # by default there are none
        path = proximal_iterates(X[0], y[0], 10 * prices[0], **how, **asked)
        ours.append(torch.stack(list(itertools.islice(path, 60)))[:, 0])
        theirs.append(by_hand.iterates(X[0], y[0], 10 * prices[0], 60, **how, restart=restart))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        hasty = ista(X[0], y[0], 10 * prices[0], steps=7)
    seven = by_hand.iterates(X[0], y[0], 10 * prices[0], 7)[-1:]
    return every({
        "ISTA by default": equal_to_rounding(hasty, seven),
        "bound": at_most(error / limit, 1.0, slack=1e-9, why=why).drawn(
            Series("F − F*", t[:, 0], error[:, 0].clamp_min(1e-16), style="line"),
            Series("bound", t[:, 0], limit[:, 0], role="bound"),
            x="step t (first problem)", y="error", log="xy"),
        "iterates": equal(
            torch.stack(ours), torch.stack(theirs), tol=1e-8, why="60 steps of rounding"),
    })


@claim(control={"momentum": False}, refutes=["bound"], source="Beck and Teboulle 2009, th. 4.4")
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
    X, y, _ = sparse_data(seed, 100, features, features)
    knots = torch.as_tensor(lars_path(X.numpy(), y.numpy(), method="lasso")[0].copy())
    inside = torch.linspace(0.05, 0.95, 3, dtype=torch.float64)  # of each segment
    alphas = (knots[:-1, None] + (knots[1:] - knots[:-1])[:, None] * inside).flatten()
    if path == "lasso":
        w = fista(X, y, alphas)
    else:
        grams = X.T @ X + len(y) * alphas[:, None, None] * torch.eye(features)
        w = torch.linalg.solve(grams, X.T @ y)
    first, middle, last = w.unflatten(0, (-1, 3)).unbind(1)  # (segments, d)
    straight = equal(first + last, 2 * middle, tol=1e-8, why=CONVERGED)
    return straight.named("sum of the weights at both ends of a stretch").drawn(
        *(Series(f"w{j + 1}", alphas, w[:, j], "other") for j in range(min(features, 6))),
        Series("knots", knots, torch.zeros_like(knots), "predicted", "points"),
        x="α", y="coefficient")


@claim(control={"prior": "Gauss"}, source="Tibshirani 1996, section 5")
def laplace_prior(
    seed: Seed, *, sigma: Annotated[float, Range(0.2, 2)] = 0.5,
    scale: Annotated[float, Range(0.02, 1)] = 0.05, prior: Literal["Laplace", "Gauss"] = "Laplace",
) -> Evidence:
    r"""The mode of the posterior under a Laplace($b$) prior is the lasso, $\alpha=\sigma^2/sb$."""
    X, y, _ = sparse_data(seed, 40, 5, 3, noise=sigma)
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
    flat = "a log density of 1e2 is flat to rounding within 1e-6"
    figure = posterior(surprise, mode, w)
    return equal(mode, w, tol=1e-5, why=flat).named("mode of the posterior").pictured(figure)

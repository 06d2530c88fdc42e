r"""Least squares: what is true of it, and what would refute it.

Knobs:
    samples: Samples, the rows of $X$.
    dim: Features, the columns of $X$, each with its weight.
    sigma: The standard deviation of the noise in the targets; without any, LMS comes to rest.
    form: Whether the gradient is written as it is or as it is misprinted.
    size: Samples, and as many features, so that the misprint has a shape as well.
    ridge: A price on $\Vert w\Vert^2$; with one the weights are no longer those of least squares.
    delta: The least $\delta$ that is added to $X^\top X$; a large one is far from the limit.
    rank: Independent columns of $X$, of which there are ten.
    waves: Frequencies that the features hold; more of them leave more weights undecided.
    outside: How far descent starts off what the samples see; there it will stay.
    steps: Steps of gradient descent.
    likelihood: The law of the noise that is maximized; Laplace's has another best $w$.
    chains: Runs of LMS with draws of their own.
    sample: Whether each step draws its sample or takes them in turn, as LMS does not.
    rate: The rate of learning times $\max\Vert x\Vert^2$; below 2 no step leads away.
    length: Which sample sets the rate; by the shortest one, steps for the longest are too large.
    repeats: Designs of each degree over which errors are averaged.
    design: Whether features are monomials, ever more alike, or made orthonormal, hence harmless.
"""

import itertools
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LinearRegression
from sklearn.utils import check_random_state
from torch import Tensor

from principia.lab.draws import randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    slope,
    standard_error,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training.estimators import fit_quietly
from principia.regression._least_squares_fast import few_rows
from principia.regression.claims._drawn import deviations, projections, tangent, traces
from principia.regression.least_squares import (
    LMS,
    Array,
    gaussian_nll,
    half_mean_square,
    hat_matrix,
    lstsq,
    normal_equations,
    pinv_path,
)


@claim(
    control={"form": "misprint"}, refutes=["gradient"], source="Gauss 1809",
    misprint=r"for $h=\frac1{2s}\Vert Xw-y\Vert^2$: $\nabla h=2X^\top X-2X^\top y$",
)
def gradient(
    seed: Seed, *, samples: Annotated[int, Range(1, 1000)] = 30,
    dim: Annotated[int, Range(2, 100)] = 5, sigma: Annotated[float, Range(0.1, 10)] = 0.5,
    form: Literal["right", "misprint"] = "right",
) -> Evidence:
    r"""The gradient of $\frac1{2s}\Vert Xw-y\Vert^2$ is $\frac1s(X^\top Xw-X^\top y)$."""
    X, y, w = _problem(seed, samples, dim)
    log = torch.tensor(sigma, dtype=X.dtype).log()
    # the mean of -log p is h / sigma² and what has no w in it
    slopes = sigma**2 * _differentiated(lambda v: gaussian_nll(v, log, X, y), w)[1]
    exact = _gradient(w, X, y)
    if form == "misprint":  # without w it is a matrix; no column of it is the gradient
        slopes, exact = np.tile(slopes[:, None], dim), 2 * X.T @ X - 2 * (X.T @ y)[:, None]
    nudges = 1e-4 * torch.eye(dim, dtype=X.dtype)
    high, low = (torch.stack([half_mean_square(w + one, X, y) for one in side])
                 for side in (nudges, -nudges))
    return every({
        "gradient": equal_to_rounding(slopes, exact),
        "differences of the loss": equal(
            (high - low) / 2e-4, _gradient(w, X, y), tol=1e-8 * (1 + float(high[0])),
            why="exact for a parabola, but for rounding of 1e-16 over 1e-4"),
    }).pictured(tangent(lambda v: half_mean_square(v, X, y), w, exact))


def _problem(seed: Seed, s: int, d: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw normal samples (s, d), targets (s,) and weights (d,)."""
    rng = seed.torch()
    return randn(rng, s, d), randn(rng, s), randn(rng, d)


def _differentiated(function: Callable[[Tensor], Tensor], at: Tensor) -> tuple[float, Array]:
    """Give value and gradient of a function at a point, by autograd."""
    leaf = at.clone().requires_grad_()
    value = function(leaf)
    return float(value.detach()), torch.autograd.grad(value, leaf)[0].numpy()


def _gradient(w: Tensor, X: Tensor, y: Tensor) -> Tensor:
    return X.mT @ (X @ w - y) / len(X)


@claim(
    control={"form": "misprint"}, refutes=["gradient"], source="by construction",
    misprint=r"$X^\top Xw-X^\top y$ with the samples as columns of $X$",
)
def samples_as_columns(
    seed: Seed, *, size: Annotated[int, Range(2, 100)] = 6,
    form: Literal["columns", "misprint"] = "columns",
) -> Evidence:
    r"""Samples as columns: the gradient of $\frac12\Vert X^\top w-y\Vert^2$ is $XX^\top w-Xy$."""
    X, y, w = _problem(seed, size, size)  # d = s, so that both forms have a shape
    zero = torch.zeros((), dtype=X.dtype)
    slopes = size * _differentiated(lambda v: gaussian_nll(v, zero, X.mT, y), w)[1]
    A = X if form == "columns" else X.T
    wide, _, targets = _problem(seed.child("wide"), size, 3 * size)  # three samples a feature
    best = normal_equations(wide.mT, targets)
    return every({
        "gradient": equal_to_rounding(slopes, A @ A.T @ w - A @ y),
        "it is 0 at the best weights": equal_to_rounding(wide @ wide.T @ best, wide @ targets),
    }).pictured(tangent(lambda v: size * half_mean_square(v, X.mT, y), w, A @ A.T @ w - A @ y))


@claim(
    control={"ridge": 1.0}, source="Gauss 1809",
    refutes=["gradient", "residual", "equals scikit-learn", "equals lstsq", "fitted"],
)
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
    return every({
        "gradient": equal_to_rounding(_gradient(w, X, y), torch.zeros(dim)),
        "residual": equal_to_rounding(X.T @ residual, torch.zeros(dim)),
        "equals scikit-learn": equal(w, reference.coef_, tol=1e-8, why=near),
        "equals lstsq": equal(w, lstsq(X, y), tol=1e-8, why=near),
        "of many problems, targets and rows": _unlike_numpy(seed.torch()),
        **_rotated(seed.child("rotated").torch()),
        "hat": equal_to_rounding(H, X @ torch.linalg.pinv(X)),
        "symmetric": equal_to_rounding(H, H.T),
        "idempotent": equal_to_rounding(H @ H, H),
        "rank": equal(torch.linalg.matrix_rank(H), dim, tol=0, why="integers"),
        "fitted": equal_to_rounding(X @ w, H @ y),
    }).pictured(projections(X, y, residual))


def _unlike_numpy(rng: torch.Generator) -> Evidence:
    """Compare with NumPy: one target or several, tall or wide, deficient ranks, batches."""
    found, known = [], []
    for shape in ((9, 4), (4, 9), (2, 3, 7, 5), (5000, 3), (4200, 2)):  # and very tall ones
        X, Y = randn(rng, *shape), randn(rng, *shape[:-1], 3)
        if shape == (9, 4):
            X[:, 3] = X[:, 1] - 2 * X[:, 0]
        inverse = torch.from_numpy(np.linalg.pinv(X.numpy()))
        solvers = [lstsq, normal_equations] if shape[0] > 10 else [lstsq]
        for solve, targets in itertools.product(solvers, (Y, Y[..., 0])):
            columns = targets if targets.ndim == X.ndim else targets[..., None]
            inputs = X.clone().requires_grad_(shape[-1] == 2)
            found.append(solve(inputs, targets).detach().flatten())
            known.append((inverse @ columns).flatten())
    tall, Y = randn(rng, 5000, 3) * torch.tensor([1.0, 9.0, 0.1]) + 2, randn(rng, 5000, 2)
    for middle, mild in itertools.product((None, tall.mean(0)), (0.0, 1e9)):
        R, shares = few_rows(tall, Y, middle=middle, mild=mild)  # Q'X and Q'Y of X = QR
        whole = tall if middle is None else tall - middle
        found += [(R.mT @ R).flatten() / 5000, (R.mT @ shares).flatten() / 5000]
        known += [(whole.mT @ whole).flatten() / 5000, (whole.mT @ Y).flatten() / 5000]
    cut = torch.diag(torch.tensor([1.0, 0.1, 0.01], dtype=torch.float64))
    found.append(lstsq(cut, cut.sum(1), rcond=0.05))
    known.append(torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))
    return equal_to_rounding(torch.cat(found), torch.cat(known))


def _rotated(rng: torch.Generator) -> dict[str, Evidence]:
    """Look at the few rows of tall problems of any size, some of them with columns much alike."""
    rows, shares = [], []
    for size, mild, s in itertools.product((1e-6, 1.0, 1e6), (0.0, 100.0), (50, 5000)):
        for least in (1.0, 1e-6):
            values = size * torch.tensor([1.0, least**0.5, least], dtype=torch.float64)
            X = torch.linalg.qr(randn(rng, s, 3))[0] * values @ torch.linalg.qr(randn(rng, 3, 3))[0]
            R = few_rows(X, X, mild=mild)[0]
            rows.append(len(R))
            shares.append(torch.linalg.svdvals(R) / values)
    why = "rounding times a condition number of 10^6; its square would leave 4 digits"
    return {
        "rows of a tall problem": equal(rows, 3, tol=0, why="as many as columns"),
        "its singular values": equal(torch.cat(shares), 1.0, tol=1e-8, why=why),
    }


@claim(control={"delta": 1.0}, refutes=["rate", "minimum along the path"], source="Penrose 1955")
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
    least = half_mean_square(lstsq(X, y), X, y)
    return every({
        "rate": slope(
            deltas, distances, 1.0, tol=0.01,
            why="exactly δ/(v³ + vδ) for singular values v ≥ 1: a bend of δ ≤ 0.001",
            labels=("δ", "distance to the pseudo-inverse")),
        "minimum along the path": equal(
            half_mean_square(path[0] @ y, X, y), least, tol=1e-10 * (1 + float(least)),
            why="the loss exceeds the minimum by δ²|y|²/2s < 10^-11 at singular values ≥ 1"),
        "one of the path": equal(
            path[-1], torch.linalg.solve(shifted, X.T), tol=1e-8,
            why="solving with condition number 25/δ = 25000 loses 5 of 16 digits"),
        "minimum at the limit": equal_to_rounding(half_mean_square(w, X, y), least),
        "gradient at the limit": equal_to_rounding(_gradient(w, X, y), torch.zeros(10)),
        "what counts as 0": _faint(),
    })


def _faint() -> Evidence:
    """Count values beyond rounding: a unit of the largest for each entry of the longer side."""
    eps, found, known = torch.finfo(torch.float64).eps, [], []
    for (s, d), share in itertools.product(((3, 2), (50, 2), (2, 50)), (0.0, 0.5, 2.0)):
        X = torch.zeros(s, d, dtype=torch.float64)
        X[0, 0], X[1, 1] = min(2.0, 4 * share), 2.0 * share * max(s, d) * eps
        y, many = X.sum(dim=1), X.expand(200, s, d)
        w = [pinv_path(X, X.new_zeros(1))[0] @ y, lstsq(X, y), *lstsq(many, y.expand(200, s))]
        found += [hat_matrix(X).trace(), *(one.sum() for one in w)]
        known += [(share > 0) + (share > 1)] * (1 + len(w))
    return equal_to_rounding(found, known)


@claim(
    control={"outside": 5.0}, refutes=["gradient descent"], source="Penrose 1955", headline=True,
    sees="Gradient descent from 0 ends on the calmest of all curves through the samples.",
)
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
    fine, length = torch.linspace(0, 2 * math.pi, 361, dtype=X.dtype), float(shortest.norm())
    curve, coarse = _waves(fine, waves), slice(None, None, 3)
    return every({
        "gradient descent": equal(
            w, shortest, tol=1e-6, why="10^-6: the slowest direction has shrunk beyond it"
        ).drawn(
            Series("another minimizer", fine, curve @ (shortest + 5 * away[1]), role="other"),
            Series("shortest weights X⁺y", fine, curve @ shortest, role="predicted"),
            Series("gradient descent", fine[coarse], (curve @ w)[coarse]),
            Series("samples", t, y, role="bound", style="points"),
            x="t", y="prediction, a sum of waves"),
        "others are longer": at_least(others.norm(dim=1), length, why="a theorem: no slack"),
        "others are as good": equal_to_rounding(losses, torch.zeros(1000)),
    })


def _waves(t: Tensor, waves: int) -> Tensor:
    """Give 1, cos(kt)/k and sin(kt)/k as features: short weights make smooth curves."""
    k = torch.arange(1, waves + 1, dtype=t.dtype)
    angles = t[:, None] * k
    return torch.cat([torch.ones_like(t)[:, None], angles.cos() / k, angles.sin() / k], dim=1)


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
    density = torch.distributions.Normal(X @ w, deviation := X.new_tensor(sigma)).log_prob(y)
    return every({
        "weights": equal(found[:-1], best, tol=1e-6, why=reason),
        "variance": equal(np.exp(2 * found[-1]) / left, 1.0, tol=1e-6, why=reason),
        "density": equal_to_rounding(nll(w, deviation.log(), X, y), -density.mean()),
    }).pictured(deviations(likelihood, nll, (best, X, y), math.exp(found[-1])))


@claim(control={"sigma": 0.0}, refutes=["no longer nearer"], source="Widrow et al. 1976")
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
            fit_intercept=False, trace=True, random_state=seed.child(lr)).fit(X, y)
        radii = ((model.trace_ - best) ** 2).sum(axis=2)  # (steps, C)
        early, late = np.split(radii[len(radii) % 4 :], 4)[2:]
        halves.append(late.mean() / early.mean())
        settled = (early + late).mean(axis=0) / 2  # one number a chain: independent
        floors.append(settled.mean())
        errors.append(standard_error(settled))
        exact.append(_floor(X, y - X @ best, lr))
    return every({
        "no longer nearer": at_least(
            halves, 0.5, why="1 up to noise of 10 %; without a floor it would be e^-6"
        ).drawn(
            Series("LMS", rates, floors, error=errors),
            Series("exact", rates, exact, role="predicted"),
            x="rate η", y="mean squared radius", log="xy"),
        "proportional": slope(rates, floors, 1.0, tol=0.1,
                              why="about ησ²d/(2 - ηd): 4 % of bend at d = 4; noise 2 %"),
        "floor": within_errors(
            floors, exact, error=errors, bias=math.exp(-12) * (w @ w),
            why="mean over independent chains; e^-12 of the squared start is left"),
    })


def _floor(X: Array, residual: Array, lr: float) -> float:
    r"""Solve $C=E[ACA]+\eta^2E[r^2xx^\top]$, linear in $C$, $A=I-\eta xx^\top$; give tr $C$."""
    s, d = X.shape
    A = np.eye(d) - lr * X[:, :, None] * X[:, None, :]
    map_ = np.einsum("sij,skl->ikjl", A, A).reshape(d * d, d * d) / s
    forcing = lr**2 * (X.T * residual**2) @ X / s
    return float(np.trace(np.linalg.solve(np.eye(d * d) - map_, forcing.ravel()).reshape(d, d)))


@claim(control={"sample": "in turn"}, refutes=["weights", "steps"], source="Widrow and Hoff 1960")
def lms_is_the_rule(
    seed: Seed, *, samples: Annotated[int, Range(5, 200)] = 12,
    dim: Annotated[int, Range(1, 20)] = 3, sample: Literal["drawn", "in turn"] = "drawn",
) -> Evidence:
    r"""Chains move by $\eta(y_i-w^\top x_i)x_i$; weights are their mean, or that of all steps."""
    X, y, _ = (one.numpy() for one in _problem(seed, samples, dim))
    X, model, path, kinds = X + 1, LMS(), [], [
        {}, {"average": True, "chains": 4, "epochs": 3}, {"fit_intercept": False, "epochs": 2},
        {"lr": 0.01, "chains": 2, "epochs": 1, "fit_intercept": False, "average": True},
    ]
    learned, known, steps, answers, more, unasked = [], [], [], [], [], []
    for kind in kinds:
        chosen: dict[str, Any] = {"epochs": 50, "chains": 1, "fit_intercept": True, **kind}
        wide = np.column_stack([X, np.ones(samples)]) if chosen["fit_intercept"] else X
        lr, rng = chosen.get("lr", 1 / (wide**2).sum(axis=1).max()), check_random_state(int(seed))
        W, path = np.zeros((chosen["chains"], wide.shape[1])), []
        for _ in range(chosen["epochs"]):
            rows = rng.randint(samples, size=(samples, len(W)))
            rows = rows if sample == "drawn" else np.arange(samples)[:, None].repeat(len(W), 1)
            for x, target in zip(wide[rows], y[rows], strict=True):
                W = W + lr * (target - (W * x).sum(axis=1))[:, None] * x
                path.append(W)
        model = LMS(random_state=int(seed), trace=True, **kind).fit(X, y)
        mean = np.mean(path if chosen.get("average") else path[-1:], axis=(0, 1))
        known.append(np.append(mean, np.zeros(dim + 1 - len(mean))))
        learned.append(np.append(model.coef_, model.intercept_))
        steps.append((model.trace_ - np.array(path)).ravel())
        answers.append(model.predict(X[:4]) - (X[:4] @ learned[-1][:-1] + learned[-1][-1]))
        parted = LMS(random_state=int(seed), **kind).partial_fit(X, y)
        [parted.partial_fit(X, y) for _ in range(chosen["epochs"] - 1)]
        more.append(np.append(parted.coef_, parted.intercept_) - learned[-1])
        unasked.append("trace_" in vars(parted))
    return every({
        "weights": equal_to_rounding(learned, known),
        "steps": equal_to_rounding(np.concatenate(steps), np.zeros(sum(map(len, steps)))),
        "predictions": equal_to_rounding(np.stack(answers), np.zeros((4, 4))),
        "pass by pass": equal_to_rounding(np.stack(more), np.zeros((4, dim + 1))),
        "traced unasked": never(unasked, why="all steps take a lot of memory"),
    }).pictured(traces(sample, model.trace_, path))


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
    model = LMS(lr=lr, chains=chains, epochs=5, fit_intercept=False, trace=True, random_state=seed)
    path = fit_quietly(model, X, X @ w).trace_
    path = np.concatenate([np.zeros((1, chains, dim)), path])
    distances, rounding = np.linalg.norm(path - w, axis=2), 1e-12 * (1 + np.linalg.norm(w))
    return never(
        distances[1:] > distances[:-1] + rounding, why="a theorem; 10^-12 is left for rounding"
    ).named("steps that lead away").drawn(
        Series("farthest chain", range(len(distances)), distances.max(1), "measured", "line"),
        Series("median chain", range(len(distances)), np.median(distances, axis=1), "other"),
        x="steps", y="distance to w*", log="y")


@claim(control={"design": "orthonormal"}, refutes=["lstsq"], source="Higham 2002, sec. 20.4")
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
    return every({
        "normal equations": slope(conditions, squared, 2.0, tol=0.3, why=reason).drawn(
            Series("normal equations", conditions, squared),
            Series("κ²u", conditions, u * kappa**2, role="predicted"),
            Series("lstsq", conditions, plain, "other", "points"),
            Series("κu", conditions, u * kappa, role="predicted"),
            x="condition number κ of the monomials", y="relative error", log="xy"),
        "lstsq": slope(conditions, plain, 1.0, tol=0.3, why=reason),
        "lstsq is stable": at_most(plain, 10 * u * kappa, why="data that differ by 10 u"),
    })

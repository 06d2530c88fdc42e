r"""Smoothness: three numbers of a function that decide how fast one can go down.

$L$ bounds how fast the gradient turns: below a parabola of curvature $L$ nothing surprises a step,
and steps up to $2/L$ are stable. $\mu$ bounds the function from the other side: strong convexity
puts a parabola of curvature $\mu$ under it, and the Polyak-Łojasiewicz (PL) condition, which asks
for less, only wants the gradient to be long wherever the value is high; the function need not be
convex. $\kappa=L/\mu$ is how many steps gradient descent needs for a constant factor. $L$ is the
largest $\vert\lambda\vert$ of the Hessian, not its largest $\lambda$; it bounds how the gradient
changes, not how long it is. The loss of a wide network has a PL constant along the way that
training takes, and none everywhere: there are saddles. The test problems of the chapter live here.

$$ \Vert\nabla h(w)-\nabla h(v)\Vert\le L\Vert w-v\Vert\ \text{for all}\ v, w
\iff -LI\preceq\nabla^2h\preceq LI $$

$$ h(w)\le h(v)+\nabla h(v)^\top(w-v)+\frac L2\Vert w-v\Vert^2 $$

$$ h(w)\ge h(v)+\nabla h(v)^\top(w-v)+\frac\mu2\Vert w-v\Vert^2
\implies \frac12\Vert\nabla h(w)\Vert^2\ge\mu\,(h(w)-\min h) $$

Symbols:
    $h$: function to minimize, a `Problem`: `value`, `gradient`, `minimum`, `minimizer`
    $v, w$: two points, rows of `a` and `b`; a problem's own points are the rows of `theta`
    $L$: smoothness, `smoothness`; `smoothness_ratio` bounds it from below by pairs of points,
        `spectral_smoothness` by the Hessian at one point
    $\nabla^2h$: Hessian, whose ends `hessian_extremes` finds by Lanczos' method
    $\mu$: curvature of the parabola below, `strong_convexity`, and the PL constant, `pl`: the
        infimum of `pl_ratio`
    $\kappa$: condition number $L/\mu$

References:
    Nesterov (2018), Lectures on convex optimization, sec. 1.2.2 and 2.1. Springer.
        doi:10.1007/978-3-319-91578-4
    Polyak (1963), Gradient methods for the minimisation of functionals. USSR Computational
        Mathematics and Mathematical Physics 3(4). doi:10.1016/0041-5553(63)90382-3
    Karimi, Nutini and Schmidt (2016), Linear convergence of gradient and proximal-gradient methods
        under the Polyak-Łojasiewicz condition. ECML PKDD. arXiv:1608.04636
    Liu, Zhu and Belkin (2022), Loss landscapes and optimization in over-parameterized non-linear
        systems and neural networks. Applied and Computational Harmonic Analysis 59.
        arXiv:2003.00307
    Lessard, Recht and Packard (2016), Analysis and design of optimization algorithms via integral
        quadratic constraints. SIAM Journal on Optimization 26(1). arXiv:1408.3595
    Lanczos (1950), An iteration method for the solution of the eigenvalue problem of linear
        differential and integral operators. Journal of Research of the NBS 45(4).
        doi:10.6028/jres.045.026
    Böhning (1992), Multinomial logistic regression algorithm. Annals of the Institute of
        Statistical Mathematics 44(1). doi:10.1007/BF00048682
    LeCun, Bottou, Orr and Müller (1998), Efficient BackProp. Neural Networks: Tricks of the Trade.
        doi:10.1007/3-540-49430-8_2
"""

__all__ = [
    "smoothness_ratio", "hessian_extremes", "spectral_smoothness", "pl_ratio",
]

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor
from torch.func import functional_call, hessian, vmap
from torch.nn import functional as F

from principia.gradients.modes import hvp
from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Count, Range
from principia.lab.draws import randn
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.forward_mode import warm_up
from principia.lab.knobs import checked
from principia.lab.relations import at_least, at_most, equal, every, identical
from principia.lab.seeds import Seed
from principia.lab.training import fit
from principia.mathematics.convexity import chord_violation, condition_number, strong_convexity
from principia.networks.mlp import MLP
from principia.optimization.problems import (
    DoubleWell,
    Lessard,
    LogisticRisk,
    Problem,
    Quadratic,
    Quartic,
    Saddle,
    ScalarNet,
    SineBowl,
    log_spaced,
)
from principia.regression.softmax import SoftmaxRegression, softmax_jacobian

Form = Literal["correct", "printed"]
Dim = Annotated[int, Range(2, 200)]
Many = Annotated[int, Range(100, 20_000)]
DENSE = 64  # up to so many parameters all eigenvalues cost less than a few of them by Lanczos


def smoothness_ratio(
    problem: Problem, a: Float[Tensor, "N D"], b: Float[Tensor, "N D"]
) -> float:
    r"""Measures $\max\Vert\nabla h(a)-\nabla h(b)\Vert/\Vert a-b\Vert$: a lower bound of $L$.

    Example:
        >>> a, b = torch.eye(2, dtype=torch.float64), torch.zeros(2, 2, dtype=torch.float64)
        >>> smoothness_ratio(Quadratic([1.0, -10.0]), a, b)
        10.0
    """
    distance = (a - b).norm(dim=-1)
    if not (distance > 0).all():
        hint = "A slope needs two points."
        raise refuse("smoothness_ratio", "a and b", "different in every row", "equal rows", hint)
    change = (problem.gradient(a) - problem.gradient(b)).norm(dim=-1)
    return float((change / distance).max())


@checked
def hessian_extremes(
    loss_fn: Callable[..., Tensor], params: Tensor | Mapping[str, Tensor], k: Count = 1
) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
    r"""Finds the k lowest eigenvalues of a Hessian, and the k highest, by products with vectors.

    Lanczos' method asks for $Hv$ alone, so that the Hessian is never formed, except where it is
    small. The extremes come first in both. At worst, amid a cluster such as that of a singular
    Hessian at 0, they are found to 1e-4 of the largest $\vert\lambda\vert$; where they stand apart
    the error is about the square of that.

    Args:
        loss_fn: Computes the loss, one number, from the parameters.
        params: A tensor, or the named parameters of a module (see `torch.func.functional_call`).
        k: How many eigenvalues at either end.

    Example:
        >>> lowest, highest = hessian_extremes(lambda x: x[0] ** 2 - x[1] ** 2, torch.zeros(2))
        >>> lowest.item(), highest.item()
        (-2.0, 2.0)
    """
    flat, rebuild = _flattened(params)
    value = loss_fn(rebuild(flat))
    if value.numel() != 1:
        domain, hint = "a function with one number as value", "Average the losses of the samples."
        raise refuse("hessian_extremes", "loss_fn", domain, f"shape {tuple(value.shape)}", hint)

    def loss(point: Tensor) -> Tensor:
        return loss_fn(rebuild(point)).sum()

    size = len(flat)
    if size <= max(DENSE, 2 * k):
        warm_up()
        found = torch.linalg.eigvalsh(hessian(loss)(flat).detach().double())  # type: ignore[arg-type]
        return found[:k], found.flip(0)[:k]

    found = _lanczos(_hessian_product(loss, flat), flat, 2 * k, "BE")
    return found[:k], found.flip(0)[:k]


def spectral_smoothness(
    loss_fn: Callable[..., Tensor], params: Tensor | Mapping[str, Tensor]
) -> float:
    r"""Measures $\max_i\vert\lambda_i\vert$ of the Hessian at a point.

    Example:
        >>> spectral_smoothness(lambda x: x[0] ** 2 - 5 * x[1] ** 2, torch.zeros(2))
        10.0
    """
    lowest, highest = hessian_extremes(loss_fn, params)
    return max(abs(float(lowest[0])), abs(float(highest[0])))


@checked
def pl_ratio(problem: Problem, *, minimum: float | None = None) -> Float[Tensor, " B"]:
    r"""Measures $\frac12\Vert\nabla h\Vert^2/(h-\min h)$ in every row; its infimum is the constant.

    Example:
        >>> pl_ratio(Quadratic([1.0, 3.0]).at(torch.eye(2)))
        tensor([1., 3.], dtype=torch.float64)
    """
    lowest = problem.minimum if minimum is None else minimum
    if lowest is None:
        raise refuse("pl_ratio", "minimum", "a number", None, "Pass minimum=.")
    theta = problem.theta.detach().requires_grad_()
    with torch.enable_grad():
        values = problem.value(theta)
        (gradient,) = torch.autograd.grad(values.sum(), theta)
    return (gradient**2).sum(dim=-1) / 2 / (values.detach() - lowest)


@claim(
    control={"form": "printed"},
    source="Nesterov 2018, lemma 1.2.2",
    misprint=r"L-smooth iff $\lambda_{\max}(\nabla^2h)\le L$: true for convex h only",
)
def gradient_lipschitz_is_spectral_norm(
    seed: Seed, *, lowest: Annotated[float, Range(-100, -1.5)] = -10.0, dim: Dim = 70,
    pairs: Many = 10_000, form: Form = "correct",
) -> Evidence:
    r"""$h$ is L-smooth iff $-LI\preceq\nabla^2h\preceq LI$: $L=\max_i\vert\lambda_i\vert$."""
    rng = seed.torch()
    between = lowest + (1 - lowest) * torch.rand(dim - 2, generator=rng, dtype=torch.float64)
    lam = torch.cat([torch.tensor([lowest, 1.0], dtype=torch.float64), between])
    saddle = _rotated(lam, rng)
    L = float(lam.max() if form == "printed" else lam.abs().max())
    way, share = _directions(pairs, saddle.rotation[:, 0], rng)  # type: ignore[index]
    a = randn(rng, pairs, dim)
    b = a + torch.logspace(-2, 2, pairs, dtype=a.dtype)[:, None] * way
    slopes = (saddle.gradient(a) - saddle.gradient(b)).norm(dim=1) / (a - b).norm(dim=1)
    ends = torch.cat(hessian_extremes(saddle.value, a[0]))
    measured, exact = _curvatures(rng)
    kinks = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)  # of slope 25x, x+24, 25x-24
    known = SineBowl(), Lessard()
    suprema = [smoothness_ratio(one, kinks - 1e-4, kinks + 1e-4) for one in known]
    lanczos = "Lanczos' method stops at a residual of 1e-4 of the norm; the error is its square"
    return every({
        "steepest pair": identical(smoothness_ratio(saddle, a, b), L).drawn(
            Series("pairs", share[::pairs // 100], slopes[::pairs // 100]),
            Series("L", [0, 1], [L, L], "bound"),
            x="share of the pair along the eigenvector of the lowest eigenvalue",
            y="change of the gradient / distance",
        ),
        "ends of the spectrum": equal(
            ends, lam[:2], tol=-1e-6 * lowest, why=lanczos
        ),
        "max |λ|": equal(
            spectral_smoothness(saddle.value, a[0]), -lowest, tol=-1e-6 * lowest, why=lanczos
        ),
        "curvature of the test problems": identical(measured, exact),
        "L that the test problems state": equal(
            [-lowest, *suprema], [one.smoothness for one in (saddle, *known)], tol=1e-6,
            why="between -1e-4 and 1e-4 the slope of the sine bowl is below 8 by 4e-8",
        ),
    })


@claim(
    control={"form": "printed"},
    source="Nesterov 2018, lemma 1.2.3",
    misprint=r"$\frac L2\Vert w-v\Vert$, without the square",
)
def quadratic_upper_bound(
    seed: Seed, *, dim: Dim = 20, pairs: Many = 10_000,
    farthest: Annotated[float, Range(10, 1000)] = 100.0, form: Form = "correct",
) -> Evidence:
    r"""L-smooth: $h(w)\le h(v)+\nabla h(v)^\top(w-v)+\frac L2\Vert w-v\Vert^2$."""
    rng, risk = seed.torch(), LogisticRisk(*_threes_and_eights())
    lam = torch.linspace(-3, 7, dim, dtype=torch.float64)
    problems = {"quadratic": _rotated(lam, rng), "logistic": risk}
    distance = torch.logspace(-2, math.log10(farthest), pairs, dtype=torch.float64)
    size = distance if form == "printed" else distance**2
    parts, series, shown = {}, [], slice(None, None, pairs // 100)
    for name, problem in problems.items():
        stiffest = torch.linalg.eigh(_hessian_at(problem, problem.theta[:1] * 0)).eigenvectors
        way, _ = _directions(pairs, stiffest[:, -1], rng)
        v = randn(rng, pairs, len(stiffest))
        w, L = v + distance[:, None] * way, float(problem.smoothness or math.nan)
        flat = problem.value(v) + (problem.gradient(v) * (w - v)).sum(dim=1)
        above, bound = problem.value(w) - flat, L / 2 * size
        slack = 1e-12 * (1 + problem.value(w).abs() + flat.abs())
        parts[name] = at_most(above, bound, slack=slack, why="a theorem; rounding of the values")
        series.append(Series(f"{name}, L = {L:.3g}", distance[shown], (above / L)[shown], "other",
                             "points"))
    series.append(Series("bound", distance, size / 2, "bound"))
    first = next(iter(parts))
    parts[first] = parts[first].drawn(
        *series, x="distance", y="height above the tangent / L", log="xy"
    )
    top = spectral_smoothness(risk.value, torch.zeros(risk.theta.shape[1], dtype=torch.float64))
    return every(parts | {"logistic: L is the curvature at 0": identical(top, risk.smoothness)})


@claim(control={"problem": "quartic"}, source="Karimi, Nutini and Schmidt 2016, theorem 2")
def strong_convexity_implies_pl(
    seed: Seed, *, mu: Annotated[float, Range(0.01, 1)] = 0.1, dim: Dim = 10,
    points: Many = 10_000, problem: Literal["strongly convex", "quartic"] = "strongly convex",
) -> Evidence:
    r"""$\mu$-strongly convex implies $\mu$-PL; not conversely: $x^2+3\sin^2x$ is PL, not convex."""
    rng = seed.torch()
    lam = torch.linspace(mu, 10, dim, dtype=torch.float64)
    bowl = _rotated(lam, rng, randn(rng, dim))
    risk = LogisticRisk(*_threes_and_eights(), l2=mu)
    problems: dict[str, Problem] = {"quadratic": bowl, "logistic": risk}
    if problem == "quartic":
        problems = {"quartic": Quartic()}
    distance = torch.logspace(-2 if problem == "strongly convex" else -3, 2, points).double()
    parts, series, shown = {}, [], slice(None, None, points // 100)
    for name, one in problems.items():
        center = torch.as_tensor(one.minimizer)
        flattest = bowl.rotation[:, 0] if one is bowl else randn(rng, len(center))  # type: ignore[index]
        way, _ = _directions(points, flattest, rng)
        ratio = pl_ratio(one.at(center + distance[:, None] * way))
        why = "a theorem; where h is within 1e-7 of its minimum, 1e-9 of the difference is rounding"
        parts[f"{name}: PL"] = at_least(ratio, mu, slack=1e-6 * mu, why=why)
        series.append(Series(name, distance[shown], ratio[shown], "other", "points"))
        if name != "quartic":
            v, w = randn(rng, 2, 20, len(center))
            w[0] = v[0] + flattest
            found = torch.stack(strong_convexity(one.value, v, w))
            parts[f"{name}: strong convexity"] = at_least(
                found, mu, slack=1e-10, why="the same μ by its definition; rounding"
            )
    x = torch.linspace(-10, 10, 200_000, dtype=torch.float64)[:, None]
    ratio, ripples = pl_ratio(SineBowl().at(x)), SineBowl()
    v, w = 3 * randn(rng, 2, 1000, 1)
    series.append(Series("x² + 3 sin² x", x[100_000::200, 0], ratio[100_000::200], "other"))
    first = next(iter(parts))
    parts[first] = parts[first].drawn(
        *series, Series("μ", [float(distance[0]), 100], [mu, mu], "bound"),
        x="distance from the minimum", y="½ |∇h|² / (h − min h)", log="xy",
    )
    return every(parts | {
        "x² + 3 sin² x: PL constant": equal(
            ratio.min(), ripples.pl, tol=1e-6, why="seven digits of the constant; grid of 1e-4"
        ),
        "x² + 3 sin² x: above a chord": at_least(
            chord_violation(ripples.value, v, w, 0.5).max(), 0.1, why="not convex, by far"
        ),
        "κ = L/μ": identical(
            condition_number(_hessian_at(bowl, bowl.theta)), bowl.smoothness / bowl.strong_convexity  # type: ignore[operator]
        ),
    })


@claim(
    control={"form": "printed"},
    source="Nesterov 2018, sec. 1.2.2, with the minimizer as second point",
    misprint=r"L tells how big the gradient can be: $\Vert\nabla h\Vert\le L$",
)
def smoothness_bounds_curvature(
    seed: Seed, *, dim: Dim = 100, points: Annotated[int, Range(100, 5000)] = 1000,
    farthest: Annotated[float, Range(10, 1e6)] = 1e4, form: Form = "correct",
) -> Evidence:
    r"""$\Vert\nabla h(\theta)\Vert\le L\Vert\theta-\theta^*\Vert$: the gradient is unbounded."""
    rng, slowest = seed.torch(), log_spaced(dim)
    problems: dict[str, Problem] = {
        "quadratic": slowest, "x² + 3 sin² x": SineBowl(), "Lessard": Lessard(),
        "logistic, l2 = 0.1": LogisticRisk(*_threes_and_eights(), l2=0.1),
    }
    distance = torch.logspace(0, math.log10(farthest), points, dtype=torch.float64)
    bound = torch.ones_like(distance) if form == "printed" else distance
    parts, series, shown = {}, [], slice(None, None, points // 100)
    for name, problem in problems.items():
        center = torch.as_tensor(problem.minimizer)
        way, _ = _directions(points, F.one_hot(torch.tensor(len(center) - 1)).double(), rng)
        size = _steepness(problem, center + distance[:, None] * way)
        why = "a theorem; 1e-12 of the length is rounding"
        parts[name] = at_most(size / bound, 1, slack=1e-12, why=why)
        series.append(Series(name, distance[shown], size[shown], "other", "points"))
    parts["quadratic"] = parts["quadratic"].drawn(
        *series, Series("bound", distance, bound, "bound"),
        x="distance from the minimizer", y="length of the gradient / L", log="xy",
    )
    stiffest = (slowest, torch.eye(dim)[-1:]), (Lessard(), -torch.ones(1, 1))
    tight = [float(_steepness(problem, at.double())) for problem, at in stiffest]
    return every(parts | {"equality along the stiffest direction": identical(tight, [1.0, 1.0])})


@claim(
    control={"model": "tanh network"},
    source="Boyd and Vandenberghe 2004, sec. 3.1.4",
    misprint="the Hessian is positive semidefinite, so the second term is always positive (said of "
    "network losses)",
)
def curvature_term_sign(
    seed: Seed, *, points: Annotated[int, Range(200, 2000)] = 500,
    units: Annotated[int, Range(2, 32)] = 8,
    model: Literal["logistic regression", "tanh network"] = "logistic regression",
) -> Evidence:
    r"""Convex $h$: $\frac{\eta^2}2g^\top Hg\ge0$ everywhere; otherwise it may be negative."""
    rng = seed.torch()
    problem: Problem = LogisticRisk(*_threes_and_eights())
    if model == "tanh network":
        x, y, _, _ = digits()
        mlp = MLP([64, units, 10], activation="tanh", rng=rng).double()
        problem = _NetworkRisk(mlp, x[:100].flatten(1).double(), y[:100], F.cross_entropy)
    theta = randn(rng, points, problem.theta.shape[1])
    curvature = _along_gradient(problem, theta).sort().values
    # at a random point of the saddle both signs occur, and the exact value is known
    saddle, at = Saddle(3), randn(rng, 50, 3)
    g, bent = saddle.gradient(at), torch.ones_like(at)
    bent[:, -1] = 3 * at[:, -1] ** 2 - 1
    exact = (bent * g * g).sum(dim=1) / (g * g).sum(dim=1)
    share = torch.linspace(0, 1, points)
    return every({
        "curvature along the gradient": at_least(
            curvature, 0, slack=1e-12, why="the Hessian of a convex function; rounding"
        ).drawn(
            Series(model, share, curvature), Series("0", [0, 1], [0, 0], "bound"),
            x="share of the random points", y="gᵀHg / gᵀg, sorted",
        ),
        "products with the Hessian": identical(_along_gradient(saddle, at), exact),
    })


@claim(control={"start": "zero"}, source="Liu, Zhu and Belkin 2022, sec. 3 and 4")
def pl_holds_only_locally(
    seed: Seed, *, width: Annotated[int, Range(128, 512)] = 256,
    steps: Annotated[int, Range(20, 500)] = 300, samples: Annotated[int, Range(50, 300)] = 200,
    start: Literal["random", "zero"] = "random",
) -> Evidence:
    r"""A wide net's PL ratio stays positive along training; globally there is no PL constant."""
    x, y, _, _ = digits()
    x, target = x[:samples].flatten(1).double(), F.one_hot(y[:samples], 10).double()
    mlp = MLP([64, width, 10], activation="tanh", rng=seed.torch()).double()
    problem = _NetworkRisk(mlp, x, target, lambda out, y: (out - y).square().sum(-1).mean() / 2)
    zero = torch.zeros_like(problem.theta.detach())
    zero[:, -10:] = target.mean(dim=0)  # all outputs at the mean: critical, with a positive loss
    theta, ratios, losses = problem.theta.detach() if start == "random" else zero, [], []
    for _ in range(steps + 1):
        here = problem.at(theta)
        losses.append(here())
        losses[-1].sum().backward()
        ratios.append(pl_ratio(here, minimum=0.0))
        theta = theta - 0.1 * here.theta.grad  # type: ignore[operator]
    ratio, step = torch.cat(ratios), range(steps + 1)
    origin = torch.zeros(1, 2)
    saddles = [problem.at(zero), ScalarNet().at(origin), DoubleWell().at(origin[:, :1]),
               Saddle().at(origin)]
    critical = torch.cat([pl_ratio(one, minimum=one.minimum or 0.0) for one in saddles])
    heights = torch.cat([one().detach() - (one.minimum or 0.0) for one in saddles])
    return every({
        "along training": at_least(
            ratio, 1e-4, why="what a PL constant is for: far above 0, which rounding is not"
        ).drawn(
            Series("PL ratio", step, ratio, style="line"),
            Series("loss", step, torch.cat(losses).detach(), "other"),
            Series("1e-4", [0, steps], [1e-4, 1e-4], "bound"),
            x="step of gradient descent", y="PL ratio, loss", log="y",
        ),
        "at critical points with a positive loss": at_most(
            critical, 1e-12, why="the gradient is 0 but for rounding"
        ),
        "their loss above the minimum": equal(
            heights[1:], [0.5, 0.25, 0.25], tol=0, why="exact in binary numbers"
        ),
    })


@experiment(
    reaches={
        "lanczos_error": at_most_goal(1e-6), "threshold_error": at_most_goal(0.01),
        "bound_over_curvature": at_least_goal(1.0), "growth_above": at_least_goal(1.0),
        "growth_below": Range(0, 1, open="high"),
    },
    floor={
        "lanczos_error": at_most_goal(1e-6), "threshold_error": at_most_goal(0.05),
        "bound_over_curvature": at_least_goal(1.0), "growth_above": at_least_goal(1.0),
        "growth_below": Range(0, 1, open="high"),
    },
    source="LeCun et al. (1998), Efficient BackProp, sec. 5.1: the largest stable step is "
    "2/λmax; to beat is Böhning's (1992) bound of λmax for softmax regression",
)
def stable_step(
    run: Run, *, images: Annotated[int, Range(500, 60_000)] = 10_000,
    steps: Annotated[int, Range(40, 500)] = 100, spread: Annotated[float, Range(0, 0.5)] = 0.1,
) -> None:
    r"""Finds the longest stable step of softmax regression: $2/\lambda_{\max}$ at the start.

    On the quadratic model a longer step diverges. The loss itself is no parabola: its curvature
    falls along the way, and it may survive the same step.

    Args:
        images: Pictures at full budget.
        steps: Steps of each gradient descent.
        spread: Standard deviation of the weights at the start.
    """
    x, y = handwriting(run)[:2]
    x, y = x[:images].flatten(1).double(), y[:images]
    X = F.pad(x, (0, 1), value=1.0)  # the bias is the weight of a 1
    W = spread * randn(run.seed.torch(), 10, X.shape[1])
    logits = X @ W.mT

    def risk(flat: Tensor) -> Tensor:
        return F.cross_entropy(X @ flat.view_as(W).mT, y)

    product, slope = _hessian_product(risk, W.flatten()), _slope(risk, W.flatten())
    highest = _lanczos(product, W.flatten(), 10, "LA").flip(0)
    top = float(highest[0])
    bound = float(torch.linalg.eigvalsh(X.mT @ X)[-1]) / (2 * len(X))
    part = X[:, X.var(dim=0).argsort(descending=True)[:200]]  # 2,000 weights at most
    exact = float(_softmax_hessian_top(part, logits))
    sliced = hessian_extremes(
        lambda change: F.cross_entropy(logits + part @ change.mT, y), W.new_zeros(10, part.shape[1])
    )[1]
    threshold = _longest_stable(product, slope, 2 / bound, steps)
    run.record(
        curvature=top, lanczos_error=abs(float(sliced[0]) / exact - 1),
        threshold_error=abs(threshold * top / 2 - 1), bound_over_curvature=bound / top,
    )

    height, series = float(risk(W.flatten())), []
    for name, factor in {"below": 0.95, "above": 1.3}.items():
        lr = factor * 2 / top
        model = SoftmaxRegression(x.shape[1], 10).double()
        with torch.no_grad():
            model.weight.copy_(W[:, :-1])
            model.bias.copy_(W[:, -1])
        trained = fit(
            model, (x, y), model.risk, torch.optim.SGD(model.parameters(), lr=lr),
            steps=steps, batch_size=len(x), run=run, name=name,
        )
        losses = [row["loss"] for row in trained.history]
        values, lengths = _quadratic_descent(product, slope, lr, steps)
        run.record(**{f"growth_{name}": lengths[-1] / lengths[-2], f"loss_{name}": losses[-1]})
        label, expected = f"η = {factor} · 2/λmax", [height + value for value in values]
        seen = next((t for t, one in enumerate(expected) if one > 3 * height), steps)
        series += [
            Series(f"{label}: loss", range(steps), losses, "other"),
            Series(f"{label}: quadratic model", range(seen), expected[:seen], "other", "points"),
        ]
        if name == "below":
            run.keep(model.float())
    run.figure("descent", figures.draw(Picture(tuple(series), "step", "loss")))
    ends = [1, len(highest)]
    spectrum = (
        Series("eigenvalues", range(1, len(highest) + 1), highest),
        Series("2/η measured", ends, [2 / threshold] * 2, "predicted"),
        Series("2/η, η 5 % shorter", ends, [top / 0.95] * 2, "other"),
        Series("2/η, η 30 % longer", ends, [top / 1.3] * 2, "other"),
        Series("Böhning's bound", ends, [bound] * 2, "bound"),
    )
    run.figure("spectrum", figures.draw(Picture(spectrum, "number", "eigenvalue of the Hessian")))


@final
class _NetworkRisk(Problem):
    """The loss of an MLP as a function of all its parameters in one row."""

    def __init__(
        self, mlp: MLP, x: Tensor, y: Tensor, loss: Callable[[Tensor, Tensor], Tensor]
    ) -> None:
        named = dict(mlp.named_parameters())
        flat, rebuild = _flattened(named)
        super().__init__(flat[None])
        # a closure: as an attribute the network's own parameters would be this problem's, too
        self.one = lambda theta: loss(functional_call(mlp, rebuild(theta), (x,)), y)  # type: ignore[arg-type]

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the loss of every row's network."""
        rows = theta.reshape(-1, theta.shape[-1])
        values = self.one(rows[0])[None] if len(rows) == 1 else vmap(self.one)(rows)
        return values.reshape(theta.shape[:-1])


def _rotated(lam: Tensor, rng: torch.Generator, minimizer: float | Tensor = 0.0) -> Quadratic:
    """Build a quadratic with these eigenvalues along random axes."""
    rotation = torch.linalg.qr(randn(rng, len(lam), len(lam)))[0]
    return Quadratic(lam, rotation=rotation, minimizer=minimizer)


def _directions(count: int, axis: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw unit vectors from the axis (first and last) to random ones, with their share of it."""
    axis, others = F.normalize(axis, dim=0), F.normalize(randn(rng, count, len(axis)))
    share = torch.rand(count, 1, generator=rng, dtype=torch.float64)
    share[[0, -1]] = 1.0
    way = F.normalize(share * axis + (1 - share) * others)
    return way, (way @ axis).square()


def _threes_and_eights() -> tuple[Tensor, Tensor]:
    """Load the embedded digits 3 and 8 of the train split (s, 64), labeled 0 and 1."""
    x, y, _, _ = digits()
    chosen = (y == 3) | (y == 8)
    return x[chosen].flatten(1).double(), (y[chosen] == 8).long()


def _steepness(problem: Problem, theta: Tensor) -> Tensor:
    """Measure the length of the gradient, in units of L."""
    return problem.gradient(theta).norm(dim=1) / float(problem.smoothness or math.nan)


def _hessian_at(problem: Problem, point: Tensor) -> Tensor:
    """Form the Hessian (D, D) at one point (1, D), row by row: a product with each axis."""
    axes = torch.eye(point.shape[1], dtype=point.dtype)
    there = point.detach().expand_as(axes)
    return hvp(lambda theta: problem.value(theta).sum(), there, axes)


def _along_gradient(problem: Problem, theta: Tensor) -> Tensor:
    """Measure the curvature along the gradient in every row; rows have Hessians of their own."""
    g = problem.gradient(theta)
    bent = hvp(lambda theta: problem.value(theta).sum(), theta, g)
    return (g * bent).sum(dim=1) / (g * g).sum(dim=1)


def _curvatures(rng: torch.Generator) -> tuple[list[float], list[float]]:
    """Measure the spectral norm of test problems at random points, and give its closed form."""
    x, u, z = randn(rng, 1), 1 + randn(rng, 1) ** 2, randn(rng, 4)
    bent = (3 * z[-1] ** 2 - 1).abs()
    middle = torch.tensor([1.5], dtype=torch.float64)
    cases = [
        (SineBowl(), x, (2 + 6 * (2 * x).cos()).abs()), (Quartic(), x, 3 * x**2),
        (Lessard(), middle, 1.0), (Lessard(), middle - 1, 25.0), (Lessard(), middle + 1, 25.0),
        (ScalarNet(), torch.cat([u, 1 / u]), u**2 + u**-2),
        (DoubleWell(), x, (3 * x**2 - 1).abs()), (Saddle(4), z, bent.clamp(min=1)),
    ]
    measured = [spectral_smoothness(problem.value, point) for problem, point, _ in cases]
    return measured, [float(exact) for *_, exact in cases]


def _softmax_hessian_top(X: Tensor, logits: Tensor) -> Tensor:
    """Form the Hessian of softmax regression, one block a pair of classes, for its top end."""
    jacobian, classes = softmax_jacobian(logits), range(logits.shape[1])
    rows = [torch.cat([(X * jacobian[:, a, b, None]).mT @ X for b in classes], 1) for a in classes]
    return torch.linalg.eigvalsh(torch.cat(rows) / len(X))[-1]


def _slope(loss: Callable[[Tensor], Tensor], point: Tensor) -> Tensor:
    at = point.detach().requires_grad_()
    return torch.autograd.grad(loss(at), at)[0]


def _quadratic_descent(
    product: Callable[[Tensor], Tensor], slope: Tensor, lr: float, steps: int
) -> tuple[list[float], list[float]]:
    """Run GD on g.d + d.Hd/2 from d = 0: its values and the lengths of its gradients g + Hd."""
    d, gradient, values, lengths = torch.zeros_like(slope), slope, [], []
    for _ in range(steps):
        values.append(float(d @ (slope + gradient)) / 2)
        lengths.append(float(gradient.norm()))
        d, gradient = d - lr * gradient, gradient - lr * product(gradient)
    return values, lengths


def _longest_stable(
    product: Callable[[Tensor], Tensor], slope: Tensor, safe: float, steps: int
) -> float:
    """Bisect for the step from which on GD on the quadratic model ends with growing gradients."""

    def unstable(lr: float) -> bool:
        lengths = _quadratic_descent(product, slope, lr, steps)[1]
        return lengths[-1] > lengths[-2]

    low = high = safe
    while not unstable(high):
        low, high = high, 2 * high
    for _ in range(8):  # to 2^(1/256), 0.3 %
        middle = math.sqrt(low * high)
        low, high = (low, middle) if unstable(middle) else (middle, high)
    return math.sqrt(low * high)


def _lanczos(
    product: Callable[[Tensor], Tensor], like: Tensor, wanted: int, which: Literal["BE", "LA"]
) -> Tensor:
    """Find the eigenvalues at both ends, or the highest, in ascending order, by Lanczos' method."""
    size, start = len(like), np.random.default_rng(0).standard_normal(len(like))

    def lifted(v: np.ndarray, by: float) -> np.ndarray:
        v = v.reshape(-1)
        return product(torch.from_numpy(v).to(like)).double().numpy() + by * v

    def find(count: int, by: float = 0.0, **options: Any) -> np.ndarray:
        operator = LinearOperator((size, size), matvec=lambda v: lifted(v, by), dtype=np.float64)  # type: ignore[call-arg]
        return eigsh(operator, count, v0=start, return_eigenvectors=False, **options) - by

    if not lifted(start, 0.0).any():  # no direction to begin with
        return torch.zeros(wanted, dtype=torch.float64)
    norm = abs(float(find(1, which="LM", tol=1e-2)[0]))
    # tolerances are relative to each eigenvalue, so that one at 0 would never be good enough
    basis = min(size, max(100, 4 * wanted))
    return torch.from_numpy(np.sort(find(wanted, 2 * norm, which=which, tol=3e-5, ncv=basis)))


def _hessian_product(
    loss: Callable[[Tensor], Tensor], point: Tensor
) -> Callable[[Tensor], Tensor]:
    """Give the product of vectors with the Hessian; the graph of the gradient is recorded once."""
    at = point.detach().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(loss(at), at, create_graph=True)
    if not gradient.requires_grad:  # of a linear loss
        return torch.zeros_like

    def product(v: Tensor) -> Tensor:
        return torch.autograd.grad(gradient, at, v, retain_graph=True, materialize_grads=True)[0]

    return product


def _flattened(
    params: Tensor | Mapping[str, Tensor]
) -> tuple[Tensor, Callable[[Tensor], Tensor | dict[str, Tensor]]]:
    """Lay parameters out as one vector, and give the way back."""
    if isinstance(params, Tensor):
        shape = params.shape
        return params.detach().flatten(), lambda flat: flat.view(shape)
    pieces = {name: one.detach() for name, one in params.items()}
    sizes = [one.numel() for one in pieces.values()]

    def rebuild(flat: Tensor) -> dict[str, Tensor]:
        parts = zip(pieces.items(), flat.split(sizes), strict=True)
        return {name: part.view(one.shape) for (name, one), part in parts}

    return torch.cat([one.flatten() for one in pieces.values()]), rebuild

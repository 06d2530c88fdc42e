r"""Smoothness: what is true of it, and what would refute it.

Knobs:
    lowest: The lowest eigenvalue of the saddle; the highest is 1.
    dim: Coordinates of a point.
    pairs: Pairs of points that are compared.
    form: Whether the inequality is right, or as it is often misprinted.
    farthest: The largest distance at which the bound is tried.
    mu: The constant μ of strong convexity.
    points: Points that are looked at.
    problems: What is minimized; without strong convexity the slope vanishes faster than the height.
    units: Hidden units of the tanh network.
    model: Whose loss is looked at; that of a network is not convex.
    width: Hidden units of the wide network.
    steps: Steps of gradient descent.
    samples: Samples whose mean loss is minimized.
    start: Where training starts; at weights of zero the gradient is zero, though the loss is not.
    by: How eigenvalues are ordered; by absolute value the ends of the spectrum are mistaken.
"""

import math
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.gradients.modes import hvp
from principia.lab.data.digits import digits
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
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
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
from principia.optimization.smoothness import (
    NetworkRisk,
    hessian_extremes,
    hessian_product,
    pl_ratio,
    products_of,
    risk_of,
    smoothness_ratio,
    spectral_smoothness,
)

Form = Literal["correct", "printed"]
Dim = Annotated[int, Range(2, 200)]
Many = Annotated[int, Range(100, 20_000)]


@claim(
    control={"form": "printed"}, refutes=["steepest pair"], source="Nesterov 2018, lemma 1.2.2",
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
        "steepest pair": equal_to_rounding(smoothness_ratio(saddle, a, b), L).drawn(
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
        "curvature of the test problems": equal_to_rounding(measured, exact),
        "L that the test problems state": equal(
            [-lowest, *suprema], [one.smoothness for one in (saddle, *known)], tol=1e-6,
            why="between -1e-4 and 1e-4 the slope of the sine bowl is below 8 by 4e-8",
        ),
    })


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


@claim(
    control={"form": "printed"}, refutes=["quadratic", "logistic"],
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
    return every(
        parts | {"logistic: L is the curvature at 0": equal_to_rounding(top, risk.smoothness)}
    )


def _threes_and_eights() -> tuple[Tensor, Tensor]:
    """Load the embedded digits 3 and 8 of the train split (s, 64), labeled 0 and 1."""
    x, y, _, _ = digits()
    chosen = (y == 3) | (y == 8)
    return x[chosen].flatten(1).double(), (y[chosen] == 8).long()


def _hessian_at(problem: Problem, point: Tensor) -> Tensor:
    """Form the Hessian (D, D) at one point (1, D), row by row: a product with each axis."""
    axes = torch.eye(point.shape[1], dtype=point.dtype)
    there = point.detach().expand_as(axes)
    return hvp(lambda theta: problem.value(theta).sum(), there, axes)


@claim(
    control={"problems": "strictly convex"},
    refutes=["quadratic", "logistic", "x² + 3 sin² x: above a chord"],
    source="Karimi, Nutini and Schmidt 2016, theorem 2",
)
def strong_convexity_implies_pl(
    seed: Seed, *, mu: Annotated[float, Range(0.01, 1)] = 0.1, dim: Dim = 10,
    points: Many = 10_000,
    problems: Literal["strongly convex", "strictly convex"] = "strongly convex",
) -> Evidence:
    r"""$\mu$-strongly convex implies $\mu$-PL; not conversely: $x^2+3\sin^2x$ is PL, not convex."""
    rng, strong = seed.torch(), problems == "strongly convex"
    lam, data = torch.linspace(mu, 10, dim, dtype=torch.float64), _threes_and_eights()
    bowl = _rotated(lam, rng, randn(rng, dim))
    risk = LogisticRisk(*data, l2=mu if strong else 0.0)
    flattest: Tensor = bowl.rotation[:, 0] if strong else torch.ones(1).double()  # type: ignore[index]
    cases: dict[str, tuple[Problem, Tensor]] = {
        "quadratic": (bowl if strong else Quartic(), flattest),
        "logistic": (risk, randn(rng, risk.theta.shape[1])),
    }
    distance = torch.logspace(-2 if strong else -3, 2, points).double()
    parts, series, shown = {}, [], slice(None, None, points // 100)
    for name, (one, axis) in cases.items():
        center = torch.zeros_like(axis) if one.minimizer is None else one.minimizer
        way, _ = _directions(points, axis, rng)
        ratio = pl_ratio(one.at(center + distance[:, None] * way), minimum=one.minimum or 0.0)
        why = "a theorem; where h is within 1e-7 of its minimum, 1e-9 of the difference is rounding"
        v, w = randn(rng, 2, 20, len(center))
        v[0] = v[0] if strong else 100 * v[0] / v[0].norm()  # where a risk without price is flat
        w[0] = v[0] + axis
        v, w = (v, w) if strong or name == "logistic" else (0.1 * v, 0.1 * w)
        parts[name] = every({
            "PL": at_least(ratio, mu, slack=1e-6 * mu, why=why),
            "strong convexity": at_least(
                torch.stack(strong_convexity(one.value, v, w)), mu, slack=1e-10,
                why="the same μ by its definition; rounding",
            ),
        })
        series.append(Series(name, distance[shown], ratio[shown], "other", "points"))
    x = torch.linspace(-10, 10, 200_000, dtype=torch.float64)[:, None]
    ripples: Problem = SineBowl() if strong else Quartic()
    ratio = pl_ratio(ripples.at(x))
    v, w = 3 * randn(rng, 2, 1000, 1)
    series.append(Series("x² + 3 sin² x", x[100_000::200, 0], ratio[100_000::200], "other"))
    low, high = hessian_extremes(bowl.value, torch.zeros(dim).double(), 1)
    return every(parts | {
        "x² + 3 sin² x: PL constant": equal(
            ratio.min(), ripples.pl or 0.0, tol=1e-6,
            why="seven digits of the constant; grid of 1e-4",
        ),
        "x² + 3 sin² x: above a chord": at_least(
            chord_violation(ripples.value, v, w, 0.5).max(), 0.1, why="not convex, by far"
        ),
        "κ = L/μ": equal_to_rounding(
            [float(condition_number(_hessian_at(bowl, bowl.theta))), float(high / low)],
            [bowl.smoothness / bowl.strong_convexity] * 2,  # type: ignore[operator]
        ),
    }).drawn(
        *series, Series("μ", [float(distance[0]), 100], [mu, mu], "bound"),
        x="distance from the minimum", y="½ |∇h|² / (h − min h)", log="xy",
    )


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
    stiffest = (slowest, torch.eye(dim)[-1:]), (Lessard(), -torch.ones(1, 1))  # times 3: so far
    far = 1 if form == "printed" else 3
    tight = [float(_steepness(problem, 3 * at.double())) / far for problem, at in stiffest]
    return every(
        parts | {"equality along the stiffest direction": equal_to_rounding(tight, [1.0, 1.0])}
    )


def _steepness(problem: Problem, theta: Tensor) -> Tensor:
    """Measure the length of the gradient, in units of L."""
    return problem.gradient(theta).norm(dim=1) / float(problem.smoothness or math.nan)


@claim(
    control={"model": "tanh network"}, refutes=["curvature along the gradient"],
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
        problem = NetworkRisk(mlp, F.cross_entropy, x[:100].flatten(1).double(), y[:100])
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
        "products with the Hessian": equal_to_rounding(_along_gradient(saddle, at), exact),
    })


def _along_gradient(problem: Problem, theta: Tensor) -> Tensor:
    """Measure the curvature along the gradient in every row; rows have Hessians of their own."""
    g = problem.gradient(theta)
    products = hessian_product(lambda at: problem.value(at.view_as(theta)).sum(), theta.flatten())
    bent = products(g.flatten()).view_as(theta)
    return (g * bent).sum(dim=1) / (g * g).sum(dim=1)


@claim(
    control={"start": "zero"}, refutes=["along training"],
    source="Liu, Zhu and Belkin 2022, sec. 3 and 4",
)
def pl_holds_only_locally(
    seed: Seed, *, width: Annotated[int, Range(128, 512)] = 256,
    steps: Annotated[int, Range(20, 500)] = 300, samples: Annotated[int, Range(50, 300)] = 200,
    start: Literal["random", "zero"] = "random",
) -> Evidence:
    r"""A wide net's PL ratio stays positive along training; globally there is no PL constant."""
    x, y, *_ = digits()
    x, target = x[:samples].flatten(1).double(), F.one_hot(y[:samples], 10).double()
    mlp = MLP([64, width, 10], activation="tanh", rng=seed.torch()).double()
    problem = NetworkRisk(mlp, lambda out, y: (out - y).square().sum(-1).mean() / 2, x, target)
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
            critical, 1e-12, why="the gradient is 0 but for rounding; a loss of 0 gives no number"
        ),
    })


@claim(
    control={"by": "absolute value"}, refutes=["networks", "matrices"], source="Lanczos 1950",
    misprint="the power method finds the largest eigenvalue; it is the largest in absolute value",
)
def ends_of_the_spectrum(
    seed: Seed, *, samples: Annotated[int, Range(10, 200)] = 30,
    by: Literal["value", "absolute value"] = "value",
) -> Evidence:
    r"""Products $Hv$ are enough to find the lowest and the highest eigenvalues of a Hessian."""
    rng, found, expected, orders = seed.torch(), {}, {}, {}  # by kind of problem

    def compare(kind: str, loss: Any, params: Any, exact: Tensor, k: int) -> None:
        ordered = exact.flatten().double().sort().values
        if by == "absolute value":
            ordered = ordered[ordered.abs().argsort()]
        largest = float(ordered.abs().max()) or 1.0
        theirs, orders[kind] = torch.stack([ordered[:k], ordered.flip(0)[:k]]), ordered / largest
        found.setdefault(kind, []).append(torch.stack(hessian_extremes(loss, params, k)) / largest)
        expected.setdefault(kind, []).append(theirs / largest)

    x, y, products, exact = randn(rng, samples, 3), torch.arange(samples) % 4, [], []
    for width in (2, 9):  # 20 parameters, and 76: too many for a dense Hessian
        net = MLP([3, width, 4], activation="tanh", rng=rng).double()
        named, risk = dict(net.named_parameters()), NetworkRisk(net, F.cross_entropy, x, y)
        hessian: Any = torch.autograd.functional.hessian(risk.value, risk.theta[0].detach())
        for k in (1, 3):
            loss = risk_of(net, F.cross_entropy, x, y)
            compare("networks", loss, named, torch.linalg.eigvalsh(hessian), k)
        params = [*named.values(), nn.Parameter(torch.zeros(2).double())]  # the last adds a slope
        value = F.cross_entropy(net(x), y) + params[-1].sum()
        slopes = torch.autograd.grad(value, params, create_graph=True)
        for shape in ((), (3,)):
            v = randn(rng, *shape, len(hessian) + 2)
            products.append(products_of(slopes, params)(v))
            exact.append(F.pad(v[..., :-2] @ hessian, (0, 2)))
    # of a weighted sum of squares the weights are the eigenvalues; the smallest ones are tiny
    for shape, k, kind in (((2, 3), 2, torch.float64), ((30, 20), 1, torch.float32),
                           ((7, 10), 35, torch.float64), ((30, 5), 60, torch.float64)):
        A = 1e-6 * torch.randn(shape, generator=rng, dtype=kind)
        compare("matrices", lambda W, A=A: (A * W * W).sum() / 2, torch.ones_like(A), A, k)
    one = F.one_hot(torch.tensor(3), 70)  # curved along one axis, and flat along all others
    compare("matrices", lambda w: (one * w * w).sum() / 2, torch.ones(70), one, 1)
    compare("a linear loss", lambda w: w.sum(), torch.ones(70), torch.zeros(70), 2)
    why = "documented: an error of 1e-4 of the largest |λ| at most"
    points = 3 * randn(rng, 5, risk.theta.shape[1])
    normed, at, values = nn.Sequential(net, nn.BatchNorm1d(4).double()), torch.ones(2), []
    trained, frozen = NetworkRisk(normed, F.cross_entropy, x, y), Quadratic([1.0, 2.0])
    pl_ratio(frozen.requires_grad_(requires_grad=False))
    hessian_product(lambda w: w @ w, at)
    batch_loss = F.cross_entropy(normed(x), y)
    for row in points:
        nn.utils.vector_to_parameters(row, net.parameters())
        values.append(F.cross_entropy(net(x), y))
    size = len(orders["networks"])
    both = ((kind, _flat(found[kind]), _flat(expected[kind])) for kind in found)
    return every({kind: equal(ours, theirs, tol=1e-4, why=why) for kind, ours, theirs in both} | {
        "graphs that are left": equal(
            [float(one.requires_grad) for one in (
                *hessian_extremes(lambda w: (w * w * params[-1]).sum(), torch.ones(2)),
                pl_ratio(risk, minimum=0.0), at, frozen.theta)], 0, tol=0,
            why="numbers are found, not functions, and points stay what they were",
        ),
        "products": equal_to_rounding(_flat(products), _flat(exact)),
        "losses of networks in rows": equal_to_rounding(
            torch.cat([risk.value(points[:, None])[:, 0], risk.value(points[1])[None], trained()]),
            torch.stack([*values, values[1], batch_loss]),  # alone a batch may be normed by itself
        ),
    }).drawn(
        Series("all, of a dense Hessian", range(size), orders["networks"], "gray", "points"),
        Series("from products Hv", [0, 1, 2, size - 1, size - 2, size - 3],
               found["networks"][-1].flatten()),
        x=f"number, ordered by {by}", y="eigenvalue over the largest",
    )


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([one.flatten() for one in tensors])

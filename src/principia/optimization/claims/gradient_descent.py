r"""Gradient descent: what is true of it, and what would refute it."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal, cast

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import SGD

from principia.lab.draws import rand, randn
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
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit
from principia.networks.mlp import MLP
from principia.optimization.gradient_descent import (
    PredictedChange,
    Trace,
    best_fixed_lr,
    critical_budget,
    descend,
    proximal_step,
    taylor_prediction,
)
from principia.optimization.momentum import tuned_heavy_ball
from principia.optimization.problems import LogisticRisk, Problem, Quadratic, SineBowl, log_spaced
from principia.optimization.smoothness import NetworkRisk

Places = dict[str, tuple[Problem, Tensor]]
Form = Literal["correct", "printed"]
Dim = Annotated[int, Range(2, 50)]
Points = Annotated[int, Range(20, 2000)]
Cloud = Annotated[int, Range(20, 5000)]
Kappa = Annotated[float, Range(2, 1000)]
BOWL, STIFFEST = "a bowl", "stiffest direction"
EXACT = "a theorem; rounding of values of this size"


@claim(control={"weight_decay": 0.1}, source="Cauchy 1847")
def torch_sgd_is_gd(
    seed: Seed, *, samples: Annotated[int, Range(20, 500)] = 100, dim: Dim = 5,
    steps: Annotated[int, Range(50, 2000)] = 100, weight_decay: Annotated[float, Range(0, 1)] = 0.0,
) -> Evidence:
    r"""`torch.optim.SGD` without momentum makes exactly the step $\theta-\eta\nabla h(\theta)$."""
    problem = _risk(seed, samples, dim)
    lr = 1 / cast("float", problem.smoothness)
    path = _descent(problem, lr, steps, "theta", weight_decay=weight_decay)["theta"][:, 0]
    margins = path @ problem.signed.mT  # the gradient is written out, not asked of autograd
    formula = path + lr * torch.sigmoid(-margins) @ problem.signed / samples
    tol, why = 1e-15 * (1 + float(path.abs().max())), "sums are rounded in another order"
    return equal(path[1:], formula[:-1], tol=tol, why=why).drawn(
        Series("torch.optim.SGD", path[1:, 0], path[1:, 1]),
        Series("θ − η∇h(θ) from the point before", formula[:-1, 0], formula[:-1, 1], "predicted"),
        x="first coordinate", y="second coordinate",
    )


def _risk(seed: Seed, samples: int, dim: int) -> LogisticRisk:
    """Draw samples whose labels follow a logistic model."""
    rng = seed.child("samples").torch()
    X, direction = randn(rng, samples, dim), randn(rng, dim)
    return LogisticRisk(X, (rand(rng, samples) < torch.sigmoid(X @ direction)).long())


def _descent(problem: Problem, lr: float, steps: int, *record: Any, **options: Any) -> Trace:
    """Go down by torch's optimizer, and record values or what else is named."""
    sgd = SGD(problem.parameters(), lr=lr, **options)
    return descend(problem, sgd, steps, record=record or ("value",))


@claim(
    control={"understated": 4.0},
    refutes=["a bowl"],
    source="Nesterov 2018, lemma 1.2.3 and sec. 1.2.3",
)
def descent_lemma(
    seed: Seed, *, points: Points = 200, dim: Dim = 10, kappa: Kappa = 100.0,
    understated: Annotated[float, Range(1, 10)] = 1.0,
) -> Evidence:
    r"""$h(\theta-\eta\nabla h)-h(\theta)\le-\eta(1-\frac{L\eta}2)\Vert\nabla h\Vert^2$."""
    share, parts = torch.linspace(0.1, 1.9, 19, dtype=torch.float64), {}
    for name, (problem, theta) in _landscapes(seed, points, dim, kappa).items():
        L, g = cast("float", problem.smoothness) / understated, problem.gradient(theta)
        after = problem.value(theta - share[:, None, None] / L * g)  # (steps, points)
        unit = (g * g).sum(dim=-1) / L
        change, bound = after - problem.value(theta), -share * (1 - share / 2)
        slack = 1e-12 * (1 + float(after.abs().max()))
        labels = [STIFFEST if name == BOWL else "point 0", *(f"point {k}" for k in range(1, 4))]
        curves = zip(labels, (change / unit).T, strict=False)
        parts[name] = at_most(change, bound[:, None] * unit, slack=slack, why=EXACT).drawn(
            *(Series(label, share, curve, "other") for label, curve in curves),
            Series("bound", share, bound, role="bound"),
            x="step size times L", y="change of h, in ‖∇h‖²/L",
        )
    return every(parts)


def _landscapes(seed: Seed, points: int, dim: int, kappa: float) -> Places:
    """Give two convex problems with points; the first of the bowl is its stiffest direction."""
    theta = 3 * randn(seed.torch(), points, dim)
    bowl, risk = _bowl(seed, dim, kappa), _risk(seed, 100, dim)
    stiffest = cast("Tensor", bowl.rotation)[:, -1:].mT
    return {BOWL: (bowl, torch.cat([stiffest, theta])), "logistic risk": (risk, theta)}


def _bowl(seed: Seed, dim: int, kappa: float) -> Quadratic:
    """Build a quadratic with curvatures from 1/kappa to 1 along random axes."""
    curvature = torch.logspace(-math.log10(kappa), 0, dim, dtype=torch.float64)
    Q = torch.linalg.qr(randn(seed.child("rotation").torch(), dim, dim)).Q
    return Quadratic(curvature, rotation=Q)


@claim(
    control={"form": "printed"},
    refutes=["along the axes", "a bowl", "logistic risk"],
    source="Nesterov 2018, sec. 1.2.3",
    misprint=r"$h(\theta^{t+1})=h(\theta^t)-\frac1{2L}\Vert h(\theta^t)\Vert^2$",
)
def sufficient_decrease_is_a_bound(
    seed: Seed, *, points: Cloud = 1000, dim: Dim = 10, form: Form = "correct",
) -> Evidence:
    r"""At $\eta=1/L$ it is $h(\theta^+)\le h(\theta)-\Vert\nabla h\Vert^2/2L$, not equality."""
    curvature = torch.linspace(0, 1, 2 * dim + 1, dtype=torch.float64)[1:]  # L = 1; one is 1/2
    bowl, axes, parts = Quadratic(curvature), torch.eye(2 * dim, dtype=torch.float64), {}
    problems = {"along the axes": (bowl, axes), **_landscapes(seed, points, dim, 100.0)}
    for name, (problem, theta) in problems.items():
        L, g = cast("float", problem.smoothness), problem.gradient(theta)
        new = problem.value(theta - g / L)
        promised = problem.value(theta) - (g * g).sum(dim=-1) / (2 * L)
        tol = 1e-12 * (1 + float(promised.abs().max()))
        parts[name] = at_most(new, promised, slack=tol, why=EXACT)
        if form == "printed":
            parts[name] = equal(new, promised, tol=tol, why=EXACT)
        if problem is bowl:
            parts[name] = parts[name].drawn(
                Series("h after the step", curvature, new),
                Series("h − ‖∇h‖²/2L", curvature, promised, role="bound"),
                x="curvature along the step, L = 1", y="value",
            )
            parts["stiffest axis: equality"] = equal_to_rounding(new[-1], promised[-1])
    return every(parts)


@claim(
    control={"form": "printed"},
    refutes=["2/L converges"],
    source="Polyak 1987, Introduction to optimization, sec. 1.4.1",
    misprint=r"the step is $\eta=1/L$ or $2/L$",
)
def stable_iff_below_two_over_smoothness(
    seed: Seed, *, kappa: Annotated[float, Range(1, 30)] = 10.0, dim: Dim = 10,
    steps: Annotated[int, Range(500, 2000)] = 500, form: Form = "correct",
) -> Evidence:
    r"""On a quadratic gradient descent converges if and only if $\eta<2/L$."""
    bowl, times = _bowl(seed, dim, kappa), torch.arange(steps + 1)
    lam, parts, drawn = bowl.eigenvalues, {}, []
    for share in (1.0, 2.0) if form == "printed" else (0.5, 1.0, 1.9, 2.0, 2.02):
        lr = float(share / lam.max())
        left, theory = _largest_left(bowl, lr, steps), (1 - lr * lam).abs().max() ** times
        parts[f"{share:g}/L: the theory"] = equal_to_rounding(left, theory)
        if form == "printed" or share < 2:
            why = "the slowest factor is 1 - 1/60 at most, to the power 500 or more"
            parts[f"{share:g}/L converges"] = at_most(left[-1], 1e-3, why=why)
        else:
            why = "rounding of a factor of size 1 or more"
            parts[f"{share:g}/L does not"] = at_least(left[-1], 1, slack=1e-10, why=why)
        drawn += [Series(f"η = {share:g}/L", times[::10], left[::10], role="other")]
        drawn += [Series(f"theory {share:g}/L", times[::10], theory[::10], "predicted")]
    return every(parts).drawn(*drawn, x="t", y="largest coordinate, 1 at the start", log="y")


def _largest_left(bowl: Quadratic, lr: float, steps: int) -> Tensor:
    """Start with 1 along every eigenvector; after each step, give the largest that is left."""
    basis = cast("Tensor", bowl.rotation)
    path = _descent(bowl.at(basis.sum(dim=1)[None]), lr, steps, "theta")["theta"][:, 0]
    return (path @ basis).abs().amax(dim=1)


@claim(
    control={"form": "printed"}, source="Polyak 1987, Introduction to optimization, sec. 1.4.2",
    misprint=r"a fixed step $\eta\le1/L$ is optimal",
)
def best_fixed_step(
    seed: Seed, *, kappa: Kappa = 10.0, dim: Dim = 10, sizes: Annotated[int, Range(50, 2000)] = 400,
    form: Form = "correct",
) -> Evidence:
    r"""The best fixed step is $2/(L+\mu)$: it contracts by $(\kappa-1)/(\kappa+1)$ a step."""
    bowl = _bowl(seed, dim, kappa)
    axes = cast("Tensor", bowl.rotation).mT  # unit eigenvectors, one a row
    L, mu = cast("float", bowl.smoothness), cast("float", bowl.strong_convexity)
    lr = best_fixed_lr(L, mu) if form == "correct" else 1 / L
    grid = 2 / L * torch.linspace(0, 1, sizes + 1, dtype=torch.float64)
    factor = (axes - grid[:, None, None] * bowl.gradient(axes)).norm(dim=-1).amax(dim=-1)
    theory = (1 - grid[:, None] * bowl.eigenvalues).abs().amax(dim=1)
    promised = ((kappa - 1) / (kappa + 1)) ** torch.arange(31.0, dtype=torch.float64)
    best = grid[factor.argmin()]
    return every({
        "best of the grid": equal(best, lr, tol=2 / L / sizes, why="the spacing of the grid").drawn(
            Series("measured in one step", grid, factor, style="line"),
            Series("max |1 − ηλ|", grid, theory, "predicted"),
            Series("the step that is taken", [lr, lr], [0, 1], role="bound"),
            x="step size η", y="share that is left of the worst direction",
        ),
        "30 steps": equal_to_rounding(_largest_left(bowl, lr, 30), promised),
    })


@claim(control={"lr_scale": 2.0}, refutes=["a bowl"], source="Nesterov 2018, sec. 1.2.3")
def critical_point_within_budget(
    seed: Seed, *, starts: Points = 500, steps: Annotated[int, Range(200, 2000)] = 200,
    lr_scale: Annotated[float, Range(1, 2)] = 1.0,
) -> Evidence:
    r"""$\eta=1/L$ makes $\Vert\nabla h\Vert\le\epsilon$ within $2L(h(\theta^0)-h^*)/\epsilon^2$."""
    spread, parts, tols = rand(seed.torch(), starts, 1), {}, (0.9, 0.3, 0.1)
    slide = LogisticRisk(torch.ones(1, 1), torch.ones(1))  # falls for ever: its infimum is 0
    problems = {
        BOWL: Quadratic([1.0]).at(0.3 + spread), "ripples": SineBowl().at(20 * spread - 10),
        "a slide": slide.at(-20 - 20 * spread),
    }
    for name, problem in problems.items():
        L, gaps = cast("float", problem.smoothness), problem().tolist()  # all have infimum 0
        norms = _descent(problem, lr_scale / L, steps, "gradient_norm")["gradient_norm"]
        short = torch.stack([norms <= tol for tol in tols])  # (tols, steps + 1, starts)
        budget = norms.new_tensor([[critical_budget(gap, L, tol) for gap in gaps] for tol in tols])
        # what has not happened so far may still happen, if the budget is not yet spent
        never_yet = torch.where(budget <= steps, math.inf, math.nan)
        first = short.double().argmax(dim=1).where(short.any(dim=1), never_yet)
        parts[name] = at_most(first, budget, why="a theorem: no slack").drawn(
            *(Series(f"ε = {tol:g}", allowed, found, role="other", style="points")
              for tol, allowed, found in zip(tols, budget, first, strict=True)),
            Series("budget", [1, budget.max()], [1, budget.max()], role="bound"),
            x="budget of steps", y="steps that were needed", log="xy",
        )
    return replace(every(parts), plot=parts["ripples"].plot)


@claim(
    control={"form": "printed"}, source="Polyak 1963; Karimi, Nutini and Schmidt 2016, theorem 1",
    misprint=r"$h(\theta^T)-h^*\le(1-\frac\mu L)(h(\theta^T)-h^*)$, one index on both sides",
)
def pl_linear_rate(
    seed: Seed, *, starts: Points = 200, steps: Annotated[int, Range(20, 1000)] = 200,
    kappa: Kappa = 10.0, dim: Dim = 10, form: Form = "correct",
) -> Evidence:
    r"""$\mu$-PL and $\eta=1/L$: $h(\theta^t)-h^*\le(1-\mu/L)^t(h(\theta^0)-h^*)$, convex or not."""
    curvature = torch.cat([torch.zeros(dim), torch.logspace(-math.log10(kappa), 0, dim)])
    rng, times, parts = seed.torch(), torch.arange(steps + 1), {}
    Q = torch.linalg.qr(randn(seed.child("rotation").torch(), 2 * dim, 2 * dim)).Q
    flat = Quadratic(curvature.double(), rotation=Q)
    for name, problem in {"ripples": SineBowl(), "half the directions flat": flat}.items():
        problem = problem.at(5 * randn(rng, starts, problem.theta.shape[1]))
        L, mu = cast("float", problem.smoothness), cast("float", problem.pl)
        gap, factor = _descent(problem, 1 / L, steps)["value"], 1 - mu / L  # both have minimum 0
        bound = factor * gap if form == "printed" else factor ** times.double()[:, None] * gap[0]
        why = "a theorem; coordinates are rounded to 1e-14 of their size, and then squared"
        parts[name] = at_most(gap, bound, slack=1e-9 * bound + 1e-27 * gap[0], why=why).drawn(
            Series("worst start", times, (gap / gap[0]).amax(dim=1), style="line"),
            Series("bound", times, (bound / gap[0]).amax(dim=1), role="bound"),
            x="t", y="share of the gap that is left", log="y",
        )
    return every(parts)


@claim(
    control={"form": "printed"}, source="Nesterov 2018, corollary 2.1.2",
    misprint=r"the rate $O(1/t)$ is called linear, which is $O(c^t)$ with $c<1$",
)
def convex_rate_is_sublinear(
    seed: Seed, *, steps: Annotated[int, Range(2000, 20_000)] = 10_000,
    dim: Annotated[int, Range(100, 1000)] = 400, form: Form = "correct",
) -> Evidence:
    r"""Convex, $\eta=1/L$: the gap is at most $2L\Vert\theta^0-\theta^*\Vert^2/(t+1)$, slope -1."""
    gap, half = _descent(log_spaced(dim), 1.0, steps)["value"][:, 0], steps // 2
    times = torch.logspace(math.log10(30), math.log10(steps), 40).round().long().clamp(max=steps)
    seen, labels = Series("gap", times, gap[times]), ("t", "h − h*")
    if form == "printed":
        early = torch.arange(1, 101)
        columns = torch.stack([torch.ones(100), early], dim=1).double()
        a, b = torch.linalg.lstsq(columns, gap[early].log()[:, None], driver="gelsd").solution
        linear = Series("linear rate of the first 100 steps", times, (a + b * times).exp(), "bound")
        shrunk, allowed = gap[2 * half] / gap[half], 10 * (b * half).exp()[0]
        why = "a linear rate goes on at the factor of the first 100 steps, up to 10"
        return at_most(shrunk, allowed, why=why).drawn(seen, linear, x="t", y="h − h*", log="xy")
    bound = 2 / torch.arange(1, steps + 2, dtype=torch.float64)  # from a distance of 1
    why = "the sum over a discrete spectrum stands for an integral"
    return every({
        "slope": slope(times, gap[times], -1.0, tol=0.03, why=why, labels=labels),
        "bound": at_most(gap, bound, why="a theorem: no slack").drawn(
            seen, Series("bound", times, bound[times], "bound"), x="t", y="h − h*", log="xy"
        ),
    })


@claim(control={"momentum": True}, source="Nesterov 2018, theorem 2.1.15; Polyak 1964")
def iterations_grow_with_condition_number(
    seed: Seed, *, largest: Annotated[float, Range(300, 10_000)] = 1000.0,
    gap: Annotated[float, Range(1e-12, 1e-6)] = 1e-8, momentum: bool = False,
) -> Evidence:
    r"""Strongly convex: the steps to a given relative gap grow like the condition number."""
    kappas, needed = torch.logspace(1, math.log10(largest), 5, dtype=torch.float64).tolist(), []
    for kappa in kappas:
        bowl = Quadratic(torch.logspace(-math.log10(kappa), 0, 20, dtype=torch.float64))
        plain = {"lr": best_fixed_lr(1.0, 1 / kappa), "beta": 0.0}
        best = tuned_heavy_ball(1.0, 1 / kappa) if momentum else plain
        enough = math.ceil(-math.log(gap) * (3 * kappa**0.5 if momentum else kappa / 4)) + 20
        value = _descent(bowl, best["lr"], enough, momentum=best["beta"])["value"][:, 0]
        needed.append(int((value > gap * value[0]).nonzero().max()) + 1)
    why = "a constant number of steps beside those that grow with the condition number"
    return slope(kappas, needed, 1.0, tol=0.05, why=why, labels=("κ", "steps"))


@claim(control={"half": False}, refutes=["order of the error"], source="Taylor's theorem")
def second_order_prediction(
    seed: Seed, *, hidden: Annotated[int, Range(1, 50)] = 8,
    networks: Annotated[int, Range(20, 500)] = 50, half: bool = True,
) -> Evidence:
    r"""$-\eta\Vert g\Vert^2+\frac{\eta^2}2g^\top Hg$ is the loss's change up to $O(\eta^3)$."""
    rng = seed.torch()
    x, y = randn(rng, 30, 3), randn(rng, 30, 1)
    net = MLP([3, hidden, 1], activation="tanh", rng=rng).double()
    walk = NetworkRisk(net, lambda out, y: (out - y).square().mean(), x, y)
    cloud = randn(rng, networks, walk.theta.shape[1])
    cloud = cloud / (4 + 4 * hidden) ** 0.5  # else 0.1 is no short step for a wide network
    problem = walk.at(cloud)
    g, before = problem.gradient(cloud), problem.value(cloud)
    lrs, errors = torch.logspace(-3, -1, 9, dtype=torch.float64), []
    for lr in lrs.tolist():
        predicted, _ = taylor_prediction(problem, lr)
        if not half:  # the second term once more
            predicted = 2 * predicted + lr * (g * g).sum(dim=-1)
        errors.append((problem.value(cloud - lr * g) - before - predicted).abs().mean())
    why = "the fourth order bends the line at the long steps"
    axes = "step size η", "error of the prediction"
    lr, objective = 0.05, Supervised(F.mse_loss)
    trace = _descent(walk.at(walk.theta.expand(2, -1)), lr, 20, "theta", "value")
    history = fit(
        net, (x, y), objective, SGD(net.parameters(), lr=lr), steps=20, batch_size=30,
        callbacks=[PredictedChange(objective)], seed=seed,
    ).history
    logged = {name: [row[f"{name}_change"] for row in history] for name in ("predicted", "actual")}
    promised, _ = taylor_prediction(problem.at(trace["theta"][:-1, 0]), lr)
    bowl = _bowl(seed, 5, 10.0).at(torch.randn(networks, 5, generator=rng))
    lr = 2.0  # not too long for the flat directions; the prediction is exact
    shift = bowl.value(bowl.theta - lr * bowl.gradient(bowl.theta)) - bowl()
    change, too_long = taylor_prediction(bowl, lr)
    return every({
        "order of the error": slope(lrs, torch.stack(errors), 3.0, tol=0.15, why=why, labels=axes),
        "logged predictions": equal_to_rounding(logged["predicted"], promised),
        "logged changes": equal_to_rounding(logged["actual"], trace["value"].diff(dim=0)[:, 0]),
        "a quadratic": equal_to_rounding(change, shift),
        "too long": never(too_long != (shift >= 0), why="of a parabola the prediction is exact"),
    })


@claim(
    control={"lam": 0.25},
    refutes=["a bowl: no increase"],
    source="Nesterov 2018, sec. 1.2.3 and 2.2.3",
)
def proximal_view(
    seed: Seed, *, points: Cloud = 1000, dim: Dim = 10, kappa: Kappa = 100.0,
    lam: Annotated[float, Range(0.1, 10)] = 0.51,
) -> Evidence:
    r"""$-\nabla h/\lambda$ minimizes $s\cdot\nabla h+\frac\lambda2s^2$; safe if $\lambda>L/2$."""
    parts, prices = {}, torch.linspace(0.2, 2, 37, dtype=torch.float64)
    for name, (problem, theta) in _landscapes(seed, points, dim, kappa).items():
        before, g = problem.value(theta), problem.gradient(theta)
        L, few = cast("float", problem.smoothness), g[:20]
        found = _argmin(lambda s, g=few, c=lam * L: (s * g + c / 2 * s * s).sum(), few)
        tried = [problem.value(theta[0] + proximal_step(g[0], float(c) * L)) for c in prices]
        curve = torch.stack(tried) - before[0]
        step, slack = proximal_step(g, lam * L), 1e-12 * (1 + float(before.abs().max()))
        after = problem.value(theta + step)
        parts[f"{name}: no increase"] = at_most(after, before, slack=slack, why=EXACT).drawn(
            Series(STIFFEST if name == BOWL else "point 0", prices, curve, "other"),
            Series("as before", [0.2, 2], [0, 0], role="bound"),
            x="λ/L", y="change of h by the step −∇h/λ",
        )
        tol = 1e-8 * (1 + float(step.abs().max()))
        why = "L-BFGS stops at a gradient of 1e-10, over a curvature of λ"
        parts[f"{name}: argmin"] = equal(found, step[:20], tol=tol, why=why)
    return every(parts)


def _argmin(function: Callable[[Tensor], Tensor], like: Tensor) -> Tensor:
    """Minimize by L-BFGS from 0."""
    s = torch.zeros_like(like, requires_grad=True)
    search = torch.optim.LBFGS([s], max_iter=200, tolerance_grad=1e-10, tolerance_change=0.0)

    def evaluate() -> Tensor:
        value = function(s)
        (s.grad,) = torch.autograd.grad(value, s)
        return value

    search.step(evaluate)  # type: ignore[arg-type]
    return s.detach()


@claim(control={"stretch": 4.0}, source="implicit function theorem")
def step_is_normal_to_level_set(
    seed: Seed, *, points: Points = 200, stretch: Annotated[float, Range(1, 10)] = 1.0,
) -> Evidence:
    r"""The step is orthogonal to the level set $\{h=c\}$ through its point."""
    rng, parts = seed.torch(), {}
    angle = math.tau * rand(rng, points).sort().values
    p = (1 + 2 * rand(rng, points))[:, None] * _unit(angle)
    for name, problem in {"ripples": SineBowl(), BOWL: _bowl(seed, 2, 4.0)}.items():
        lr = 1 / cast("float", problem.smoothness)
        step = -lr * problem.gradient(p) / torch.tensor([1.0, stretch], dtype=torch.float64)
        near, far = (_chord(problem, p, r) for r in (4e-4, 8e-4))
        tangent = (4 * near - far) / 3  # the error of both, of order r², cancels
        cosine = F.cosine_similarity(tangent, step, dim=-1)
        why = "(4e-4)^4 times higher derivatives, and rounding of h over 4e-4 of its slope"
        parts[name] = equal(cosine, 0, tol=1e-10, why=why).drawn(
            Series("measured", angle.rad2deg(), cosine.acos().rad2deg()),
            Series("a right angle", [0, 360], [90, 90], role="predicted"),
            x="where the point is, degrees", y="angle of step and level set, degrees",
        )
    return every(parts)


def _unit(angle: Tensor) -> Tensor:
    return torch.stack([angle.cos(), angle.sin()], dim=-1)


def _chord(problem: Problem, p: Tensor, r: float) -> Tensor:
    """Find where the level set of each point crosses a circle around it; no gradient is asked."""
    level, compass = problem.value(p), math.tau / 16 * torch.arange(16, dtype=p.dtype)
    up = compass[problem.value(p + r * _unit(compass)[:, None]).argmax(dim=0)]
    turn = up.new_tensor([[math.pi], [-math.pi]])  # downhill, one way round and the other
    low, high = torch.zeros_like(turn * up), torch.ones_like(turn * up)
    for _ in range(60):  # a bracket of float64 has closed by then
        middle = (low + high) / 2
        above = problem.value(p + r * _unit(up + turn * middle)) > level
        low, high = middle.where(above, low), high.where(above, middle)
    one_end, other_end = _unit(up + turn * low)
    return (one_end - other_end) / 2

r"""Momentum: what is true of it, and what would refute it.

Knobs:
    dim: Coordinates of a point.
    beta: The share of the last move that is kept; at 1 nothing slows the ball down.
    dampening: How much of each new gradient torch leaves out; with any, steps are shorter.
    lr: The step size η.
    form: Whether the formula is right, or as it is often misprinted.
    curvature: The curvature of the bowl.
    alpha: The share of the old average that is kept in the new one.
    largest: The largest condition number.
    momentum: Whether the ball keeps its moves; without it the steps grow with κ, not its root.
    steps: Steps of the method.
    problem: What is descended; Lessard's function has the same curvatures, but is no quadratic.
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    slope,
)
from principia.lab.params import Range, UnitInterval
from principia.lab.seeds import Seed
from principia.lab.training.optimizers import steps_along
from principia.optimization.gradient_descent import best_fixed_lr
from principia.optimization.momentum import EMAMomentum, HeavyBall, tuned_heavy_ball
from principia.optimization.nesterov import run_copy
from principia.optimization.problems import Lessard, Problem, Quadratic, noisy_logistic


@claim(control={"dampening": 0.5}, source="Sutskever et al. 2013, sec. 2")
def torch_momentum_is_heavy_ball(
    seed: Seed, *, dim: Annotated[int, Range(1, 50)] = 8,
    beta: Annotated[float, Range(0, 0.99)] = 0.9, dampening: UnitInterval = 0.0,
) -> Evidence:
    r"""For a constant step `torch.optim.SGD(momentum)` is the two-point form of the heavy ball."""
    risk = noisy_logistic(seed.torch(), dim=dim)
    lr = 1 / float(risk.smoothness or 1)
    ours = run_copy(risk, HeavyBall, 200, lr=lr, beta=beta)
    torchs = run_copy(risk, torch.optim.SGD, 200, lr=lr, momentum=beta, dampening=dampening)
    gap = ours["value"] - cast("float", risk.minimum)
    theirs = torchs["value"] - cast("float", risk.minimum)
    g = torch.randn(9, 3, 2, generator=seed.child("gradients").torch(), dtype=gap.dtype)
    usual = {"lr": 0.1, "momentum": 0.9, "dampening": dampening}
    return every({
        "points": equal(
            torchs["theta"], ours["theta"], tol=1e-12,
            why="rounding of 200 steps of numbers below 10",
        ).drawn(
            Series("torch.optim.SGD", torchs.step[::4], theirs[::4, 0].clamp(min=1e-17)),
            Series("HeavyBall", ours.step, gap[:, 0].clamp(min=1e-17), "predicted"),
            x="step t", y="h above its minimum", log="y",
        ),
        "any gradients, as it comes": equal_to_rounding(
            steps_along(torch.optim.SGD, g, **usual), steps_along(HeavyBall, g)
        ),
    })


@claim(
    control={"form": "printed"}, source="Polyak 1964; a geometric sum",
    misprint=r"$-\eta(\sum_{\tau=1}^{t-1}\beta^\tau)\nabla h$; the sum starts at 0",
)
def constant_gradient_step(
    seed: Seed, *, beta: Annotated[float, Range(0.3, 0.95)] = 0.9,
    lr: Annotated[float, Range(0.01, 1)] = 0.1, form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""If the gradient stays, step $t$ is $-\eta\frac{1-\beta^t}{1-\beta}\nabla h$."""
    gradient = torch.randn(5, generator=seed.torch(), dtype=torch.float64)
    x = nn.Parameter(torch.zeros_like(gradient))
    ball, points, steps = HeavyBall([x], lr=lr, beta=beta), [x.detach().clone()], 1000
    for _ in range(steps):
        x.grad = gradient
        ball.step()
        points.append(x.detach().clone())
    t = torch.arange(1, steps + 1, dtype=gradient.dtype)
    factor, missing = torch.stack(points).diff(dim=0) / gradient, int(form == "printed")
    formula = -lr * ((1 - beta**t) / (1 - beta) - missing)
    shown = slice(0, math.ceil(6 / (1 - beta)))
    return every({
        "finite t": equal_to_rounding(factor, formula[:, None].expand_as(factor)).drawn(
            Series("step / gradient", t[shown], factor[shown, 0]),
            Series("formula", t[shown], formula[shown], "predicted"),
            x="step t", y="move, in units of the gradient",
        ),
        "limit": equal(
            factor[-1], -lr * (1 / (1 - beta) - missing), tol=1e-9, why="rounding of a sum; β^1000"
        ),
    })


@claim(
    control={"beta": 1.0},
    refutes=["below the limit"],
    source="Polyak 1964",
    misprint=r"$\beta\in[0,1]$; at 1 nothing is damped",
)
def beta_below_one(
    seed: Seed, *, beta: Annotated[float, Range(0, 1)] = 0.99,
    curvature: Annotated[float, Range(0.1, 100)] = 1.0,
) -> Evidence:
    r"""On a quadratic it converges for every $\beta\in[0,1)$, if $\eta<2(1+\beta)/L$."""
    start = 1 + torch.rand(1, 2, generator=seed.torch(), dtype=torch.float64)
    below, above, curves = {}, {}, []
    for momentum, share in {0.0: "beta", 0.5: "momentum", 0.9: "beta", beta: "beta"}.items():
        steps = min(math.ceil(33 / (1 - momentum + 1e-9)), 3300) + 300
        # two curvatures side by side, such that one lr is 0.95 and 1.05 of their limits
        bowl = Quadratic([0.95 * curvature, 1.05 * curvature])
        lr = 2 * (1 + momentum) / curvature
        torchs = share == "momentum" or momentum == 1  # which ours refuses
        options: Any = {"momentum" if torchs else share: momentum, "lr": lr}
        kind = torch.optim.SGD if torchs else HeavyBall
        trace = run_copy(bowl.at(start), kind, steps, **options)["theta"][:, 0].abs()
        below[momentum] = trace[-100:, 0].max()  # an amplitude, whatever the phase
        above[momentum] = trace[100, 1] / trace[0, 1]
        shown = range(0, steps + 1, math.ceil(steps / 200))
        curves.append(Series(f"β = {momentum:g}", shown, trace[list(shown), 0], "other"))
    return every({
        "below the limit": at_most(
            torch.stack(list(below.values())), 1e-6, why="√β to the power of 33 / (1 - β) is 7e-8"
        ).drawn(*curves, x="step t", y="|θ| at 0.95 of the limit", log="y"),
        "above the limit": at_least(
            torch.stack(list(above.values())), 1e3, why="a root beyond 1.1 to the power of 100"
        ),
    })


@claim(
    control={"form": "printed"},
    source="Kingma and Ba 2015, sec. 3, for the correction",
    misprint=r"$\hat m=m/(1-\alpha)^t$ and $\theta\leftarrow\theta-\eta\hat m$",
)
def ema_momentum_bias_correction(
    seed: Seed, *, alpha: Annotated[float, Range(0.5, 0.92)] = 0.9,
    dim: Annotated[int, Range(1, 50)] = 5, form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""With $\hat m=m/(1-\alpha^t)$ the first step is $-\eta\nabla h$, and the method descends."""
    rng, lr, steps = seed.torch(), 0.5, 200
    bowl = Quadratic(torch.linspace(0.5, 1, dim)).at(torch.randn(1, dim, generator=rng))
    start, gradient = bowl.theta.detach().clone(), bowl.gradient(bowl.theta)
    g, rise = torch.randn(12, dim, generator=rng, dtype=torch.float64), 5
    kinds: list[tuple[Any, float, Any]] = [  # options, rate, and the weight of the past at step t
        ({"lr": lr, "alpha": alpha}, lr, lambda t: alpha), ({}, 0.1, lambda t: 0.9),
        ({"lr": lr, "alpha": (0.5, 0.99), "rise": rise}, lr,
         lambda t: 0.5 + 0.49 * min((t - 1) / rise, 1)),
        ({"alpha": (0.5, 0.99)}, 0.1, lambda t: 0.5 + 0.49 * (t - 1) / 1000),
    ]
    staying, firsts, all_steps = [], [], []
    for options, rate, past in kinds:
        for along in (torch.ones_like(g), g):
            found = steps_along(EMAMomentum, along, **options) / rate
            if form == "printed":
                found = _as_printed(along, past)
            (staying if along is not g else all_steps).append(found)
        firsts.append(all_steps[-1][0])
    if form == "printed":
        points = [start]
        for _ in range(6):
            slopes = torch.cat([bowl.gradient(one) for one in points])
            points.append(start + lr * _as_printed(slopes, lambda t: alpha).sum(dim=0))
        theta = torch.stack(points)
    else:
        theta = run_copy(bowl, EMAMomentum, steps, lr=lr, alpha=alpha)["theta"]
    values, formula = bowl.value(theta)[:, 0], [_averages(g, past) for *_, past in kinds]
    return every({
        "lengths of steps along one gradient": equal_to_rounding(
            torch.stack(staying).abs(), torch.ones(len(kinds), *g.shape)
        ),
        "first step": equal(
            torch.cat([theta[1] - start, torch.stack(firsts)]),
            torch.cat([-lr * gradient, -g[:1].expand(len(kinds), -1)]),
            tol=1e-13, why="rounding of one step",
        ),
        "any gradients": equal_to_rounding(torch.cat(all_steps), -torch.cat(formula)),
        "last value": at_most(
            values[-1], 1e-6, why="the amplitude falls by about √α a step, √0.92^200 = 2e-4"
        ),
    }).drawn(
        Series("EMAMomentum" if form == "correct" else "as printed", range(len(values)), values),
        x="step t", y="h", log="y",
    )


def _as_printed(gradients: Tensor, past: Callable[[int], float]) -> Tensor:
    """Give the steps of the misprint, in units of the rate: another power, and another sign."""
    m, found = torch.zeros_like(gradients[0]), []
    for t, gradient in enumerate(gradients, 1):
        m = past(t) * m - (1 - past(t)) * gradient
        found.append(-m / (1 - past(t)) ** t)
    return torch.stack(found)


def _averages(gradients: Tensor, past: Callable[[int], float]) -> Tensor:
    """Average the gradients so far, each with what is left of its weight, as weights of sum 1."""
    alpha = torch.tensor([past(t + 1) for t in range(len(gradients))], dtype=gradients.dtype)
    weights = [
        (1 - alpha[: t + 1]) * alpha[: t + 1].roll(-1).index_fill(0, torch.tensor(t), 1.0)
        .flip(0).cumprod(0).flip(0) for t in range(len(gradients))
    ]
    return torch.stack([w / w.sum() @ gradients[: len(w)] for w in weights])


@claim(control={"momentum": False}, source="Polyak 1964, thm. 9")
def root_kappa_iterations(
    seed: Seed, *, largest: Annotated[float, Range(300, 3000)] = 1000.0,
    dim: Annotated[int, Range(2, 200)] = 50, momentum: bool = True,
) -> Evidence:
    r"""Tuned, a quadratic shrinks by $\frac{\sqrt\kappa-1}{\sqrt\kappa+1}$: $\sqrt\kappa$ steps."""
    kappas = np.geomspace(10, largest, 5)
    start = 1 + torch.rand(1, dim, generator=seed.torch(), dtype=torch.float64)
    counts, curves, rates, expected, bias = [], [], [], [], []
    for kappa in kappas:
        bowl = Quadratic(4 * torch.logspace(-math.log10(kappa), 0, dim)).at(start)
        L, mu = float(bowl.smoothness or 4), 4 / float(kappa)
        tuned = tuned_heavy_ball(L, mu) if momentum else {"lr": best_fixed_lr(L, mu), "beta": 0.0}
        steps = math.ceil(16 * math.sqrt(kappa) if momentum else 6 * kappa)
        trace = run_copy(bowl, HeavyBall, steps, **tuned)
        relative = trace["value"][:, 0] / trace["value"][0, 0]
        counts.append(int((relative > 1e-8).sum()))
        t, lengths = steps // 2, trace["theta"][:, 0].norm(dim=1)
        rates.append(float((lengths[2 * t] / lengths[t]) ** (1 / t)))
        expected.append((math.sqrt(kappa) - 1) / (math.sqrt(kappa) + 1))
        bias.append(expected[-1] * (2 ** (1 / t) - 1))
        curves.append(Series(f"κ = {kappa:.0f}", range(steps + 1), relative, "other"))
    return every({
        "steps to 1e-8": slope(
            kappas, counts, 0.5, tol=0.1,
            why="1/2 in the limit; a double root adds the logarithm of the number of steps",
            labels=("condition number κ", "steps to a gap of 1e-8"),
        ),
        "contraction": equal(
            rates, expected, tol=np.multiply(bias, 1.5),
            why="double roots at both ends of the spectrum: t ρ^t, which is 2^(1/t) above ρ",
        ).drawn(*curves, x="step t", y="gap, as a share of the first", log="y"),
    })


@claim(
    control={"problem": "Lessard"}, source="Lessard, Recht and Packard 2016, sec. 4.6",
    headline=True,
    sees="From both starts the ball swings onto the minimum within 40 steps; on Lessard's function "
    "it circles around it for ever.",
    misprint="momentum converges best of all first-order methods; that is so on quadratics",
)
def heavy_ball_needs_a_quadratic(
    seed: Seed, *, steps: Annotated[int, Range(200, 5000)] = 1000,
    problem: Literal["quadratic", "Lessard"] = "quadratic",
) -> Evidence:
    r"""Tuned for curvatures in $[1,25]$ it converges on quadratics, but not on all functions."""
    starts = torch.linspace(3.07, 3.46, 20, dtype=torch.float64)[:, None]
    if problem == "Lessard":
        bowl: Problem = Lessard().at(starts)
    else:
        inner = 1 + 24 * torch.rand(3, generator=seed.torch(), dtype=torch.float64)
        ends = torch.tensor([1.0, 25.0], dtype=torch.float64)
        bowl = Quadratic(torch.cat([ends, inner])).at(starts.expand(-1, 5))
    trace = run_copy(bowl, HeavyBall, steps, **tuned_heavy_ball(25.0, 1.0))["theta"]
    return at_most(
        trace[-3:].abs().amax(dim=(0, 2)), 1e-12, why="t (2/3)^t, and then rounding"
    ).named("distance from the minimum at the end").drawn(
        Series("from 3.07", range(41), trace[:41, 0, 0], style="line"),
        Series("from 3.46", range(41), trace[:41, -1, 0], "other"),
        Series("minimum", [0, 40], [0, 0], "predicted"), x="step t", y="θ",
    )

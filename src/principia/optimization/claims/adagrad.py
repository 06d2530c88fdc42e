r"""Adagrad: what is true of it, and what would refute it.

Knobs:
    dim: Coordinates of a point.
    eps: The number δ that keeps the divisor above zero.
    delta: Where δ is added; inside the root it is another formula than torch's.
    steps: Steps of the method.
    gradient: The gradient that stays the same at every step.
    optimizer: Who divides the rate; RMSprop forgets old gradients, so its rate can rise again.
    kappa: How many times steeper the second axis is than the first.
    degrees: By how much the axes are turned; then steepness is no longer one scale a coordinate.
    rounds: Rounds of the game, T.
    lr: The step size η.
    method: Who plays; RMSprop forgets, and can be led away from the best point.
    rows: Independent runs.
    frequencies: How often features occur; if all come equally often, none is rare.
"""

import math
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, RMSprop

from principia.lab.draws import randn
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
    standard_error,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training.optimizers import fed
from principia.optimization.adagrad import effective_lr, online_regret
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Quadratic, noisy_logistic

Dim = Annotated[int, Range(1, 50)]


@claim(control={"delta": "inside the root"}, source="Duchi, Hazan and Singer 2011, eq. 4")
def torch_is_the_formula(
    seed: Seed, *, dim: Dim = 8, eps: Annotated[float, Range(0, 1)] = 0.1,
    delta: Literal["beside the root", "inside the root"] = "beside the root",
) -> Evidence:
    r"""`torch.optim.Adagrad` is the formula, step for step, with $\delta$ beside the root."""
    risk = noisy_logistic(seed.torch(), dim=dim)
    trace = descend(
        risk, Adagrad(risk.parameters(), lr=0.2, eps=eps), 100, record=("theta",)
    )["theta"][:, 0]
    g, moved = risk.gradient(trace[:-1]), trace.diff(dim=0)
    total = (g**2).cumsum(dim=0)

    def divided(total: Tensor) -> Tensor:
        return (total + eps).sqrt() if delta == "inside the root" else total.sqrt() + eps

    formula = -0.2 * g / divided(total)
    # two groups, one of them of two parameters, with rates that fall by themselves as well
    params = [nn.Parameter(torch.zeros(shape, dtype=g.dtype)) for shape in ((3,), (2, 4), ())]
    decaying = Adagrad(
        [{"params": params[:2]}, {"params": params[2:], "lr": 0.7}], lr=0.2, eps=eps, lr_decay=0.3
    )
    squares = [torch.zeros_like(p) for p in params]
    found, rates = [], []
    for t in range(6):
        for p, square in zip(params, squares, strict=True):
            p.grad = torch.randn(p.shape, generator=seed.child(t).torch(), dtype=g.dtype)
            square += p.grad**2
        decaying.step()
        found += effective_lr(decaying)
        for lr, square in zip((0.2, 0.2, 0.7), squares, strict=True):
            rates.append(lr / (1 + 0.3 * t) / divided(square))
    *_, (rms, _) = fed(RMSprop, params[1].detach().expand(2, 2, 4), lr=0.3, alpha=0.5, eps=eps)
    found += effective_lr(rms)
    rates.append(0.3 / (params[1].detach().abs() * 0.75**0.5 + eps))  # it has no decay
    return every({
        "steps": equal(moved, formula, tol=1e-13, why="rounding of one step at a time").drawn(
            Series("torch.optim.Adagrad", range(1, 101), moved[:, 0]),
            Series("formula", range(1, 101), formula[:, 0], "predicted"),
            x="step t", y="step of the first coordinate",
        ),
        "effective_lr": equal_to_rounding(
            torch.cat([one.flatten() for one in found]),
            torch.cat([one.flatten() for one in rates]),
        ),
    })


@claim(control={"optimizer": "RMSprop"}, source="Duchi, Hazan and Singer 2011, sec. 1.1")
def effective_rate_only_falls(
    seed: Seed, *, steps: Annotated[int, Range(50, 2000)] = 500,
    gradient: Annotated[float, Range(0.1, 10)] = 2.0,
    optimizer: Literal["Adagrad", "RMSprop"] = "Adagrad",
) -> Evidence:
    r"""The rate never rises; of a constant gradient $g$ it is $\eta/(\vert g\vert\sqrt t)$."""
    kind = Adagrad if optimizer == "Adagrad" else RMSprop
    g = torch.randn(steps, 20, generator=seed.torch(), dtype=torch.float64)
    g[steps // 2 :] *= 0.01  # gradients shrink
    g[:, 0] = gradient
    rates = torch.stack([effective_lr(one)[0] for one, _ in fed(kind, g, lr=0.1, eps=0.0)])
    t = torch.arange(1, steps + 1, dtype=g.dtype)
    constant = 0.1 / (gradient * t.sqrt())
    return every({
        "falls": never(rates.diff(dim=0) > 0, why="a sum of squares only grows").drawn(
            Series("coordinate whose gradients shrink", t, rates[:, 1], style="line"),
            Series("of a constant gradient", t, rates[:, 0], "other"),
            Series("η / (|g| √t)", t, constant, "predicted"),
            x="step t", y="effective learning rate", log="xy",
        ),
        "constant gradient": equal(
            rates[:, 0] / constant, 1, tol=1e-12, why="rounding of a sum of equal numbers"
        ),
    })


@claim(
    control={"degrees": 30.0}, source="Duchi, Hazan and Singer 2011, sec. 1.1",
    misprint="Adagrad is invariant to the condition number; to diagonal scaling alone",
)
def invariant_to_diagonal_scaling(
    seed: Seed, *, kappa: Annotated[float, Range(10, 1e6)] = 1e4,
    degrees: Annotated[float, Range(0, 90)] = 0.0,
) -> Evidence:
    r"""If each partial derivative is multiplied by a constant, the path stays ($\delta=0$)."""
    angle = math.radians(degrees)
    turn = torch.tensor(
        [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]],
        dtype=torch.float64,
    )
    start = 1 + torch.rand(1, 2, generator=seed.torch(), dtype=turn.dtype)
    paths = []
    for eigenvalues in ([1.0, 1.0], [1.0, kappa]):
        bowl = Quadratic(eigenvalues, rotation=turn).at(start)
        adagrad = Adagrad(bowl.parameters(), lr=0.5, eps=0.0)
        paths.append(descend(bowl, adagrad, 100, record=("theta",))["theta"][:, 0])
    round_bowl, ravine = paths
    found = equal(ravine, round_bowl, tol=1e-13, why="rounding of 100 steps")
    return found.named("coordinate that differs most between the paths").drawn(
        Series(f"κ = {kappa:g}", ravine[:, 0], ravine[:, 1]),
        Series("κ = 1", round_bowl[:, 0], round_bowl[:, 1], "predicted"),
        x="θ₁", y="θ₂",
    )


@claim(
    control={"method": "RMSprop"},
    refutes=["regret / bound", "grows as √T"],
    source="Duchi, Hazan and Singer 2011, thm. 5; Reddi 2018",
)
def regret_bound(
    seed: Seed, *, rounds: Annotated[int, Range(3000, 30_000)] = 5000,
    lr: Annotated[float, Range(0.5, 2)] = 1.0, method: Literal["Adagrad", "RMSprop"] = "Adagrad",
) -> Evidence:
    r"""In a box of width $D$ the regret is at most $(D^2/2\eta+\eta)\sum_i\sqrt{\gamma_i}$."""
    rng = seed.torch()
    random = torch.randn(rounds, 9, generator=rng, dtype=torch.float64)
    random += 0.05 * torch.arange(9)  # from pure noise to a clear direction
    t = torch.arange(rounds)
    alternating = torch.where(t % 3 == 0, 3.0, -1.0).to(random)[:, None]
    slopes = torch.cat([alternating, random], dim=1)
    p = nn.Parameter(torch.zeros(10, dtype=slopes.dtype))
    adagrad = method == "Adagrad"
    kind = Adagrad([p], lr=lr, eps=0.0) if adagrad else RMSprop([p], lr=lr, alpha=0.1, eps=0.0)
    best = -slopes.sum(dim=0).sign()
    regret = online_regret(kind, slopes, best, (-1.0, 1.0))
    bound = (4 / (2 * lr) + lr) * (slopes**2).cumsum(dim=0).sqrt()
    seen = torch.logspace(math.log10(300), math.log10(rounds), 25).long().unique() - 1
    return every({
        "regret / bound": at_most(
            regret[seen] / bound[seen], 1, why="a theorem, in every coordinate: no slack"
        ).drawn(
            Series(f"{method}, slopes 3, −1, −1", seen + 1, regret[seen, 0]),
            Series("bound", seen + 1, bound[seen, 0], "bound"),
            x="rounds T", y="regret", log="xy",
        ),
        "grows as √T": slope(
            seen + 1, regret[seen, 0], 0.5, tol=0.06,
            why="the way to the best point adds a constant, and three rounds make a cycle",
        ),
        "the sum of what is lost": _regret_of_descent(seed.child("descent").torch()),
    })


def _regret_of_descent(rng: torch.Generator) -> Evidence:
    """Compare with the sum over a path that is known: gradient descent, free and in a box."""
    slopes, u = randn(rng, 7, 2, 3), randn(rng, 2, 3)
    start, found, exact = randn(rng, 2, 3), [], []
    for box in (None, (-0.4, 0.6)):
        p, point, total = nn.Parameter(start.clone()), start.numpy(), np.zeros((2, 3))
        found.append(online_regret(SGD([p], lr=0.3), slopes, u, box).numpy())
        for g in slopes.numpy():
            total = total + g * (point - u.numpy())
            exact.append(total)
            point = point - 0.3 * g if box is None else np.clip(point - 0.3 * g, *box)
    return equal_to_rounding(np.concatenate(found), np.stack(exact))


@claim(control={"frequencies": "all 1/2"}, source="Duchi, Hazan and Singer 2011, sec. 1.3")
def rare_features_keep_large_steps(
    seed: Seed, *, rows: Annotated[int, Range(200, 500)] = 200,
    steps: Annotated[int, Range(1500, 3000)] = 2000,
    frequencies: Literal["1 to 1/1000", "all 1/2"] = "1 to 1/1000",
) -> Evidence:
    r"""Features of frequency $p$ keep a rate like $p^{-1/2}$: rare ones are learned sooner."""
    rng, kind = seed.torch(), torch.float64
    rare_ones = frequencies == "1 to 1/1000"
    p = torch.logspace(0, -3, 8, dtype=kind) if rare_ones else torch.full((8,), 0.5, dtype=kind)
    x = (torch.rand(steps, rows, 8, generator=rng, dtype=kind) < p).to(kind)
    truth = torch.randn(rows, 8, generator=rng, dtype=kind)
    errors = {}
    for name, optimizer, lr in (("Adagrad", Adagrad, 0.3), ("SGD", SGD, 0.1)):
        theta = nn.Parameter(torch.zeros_like(truth))
        method = optimizer([theta], lr=lr)
        for features in x:
            residual = (features * (theta.detach() - truth)).sum(dim=1, keepdim=True)
            theta.grad = residual * features
            method.step()
        errors[name] = (theta.detach() - truth).abs()
    rare = {name: one[:, 5:].mean(dim=1) for name, one in errors.items()}  # the three rarest
    excess = rare["Adagrad"] - 0.75 * rare["SGD"]
    # gradients of one size, seen now and then: what the rate depends on is the frequency alone
    often = p * steps >= 20
    sparse = (x * torch.randn(x.shape, generator=rng, dtype=kind))[..., often]
    *_, (last, _) = fed(Adagrad, sparse, lr=1.0)
    parts = {
        "error on rare features, less 3/4 of SGD's": at_most(
            excess.mean() + 3 * standard_error(excess), 0,
            why="three standard errors of the mean over rows are added",
        ).drawn(
            *(Series(name, p, one.mean(dim=0), role, "points")  # type: ignore[arg-type]
              for (name, one), role in zip(errors.items(), ("measured", "other"), strict=True)),
            x="frequency of the feature", y="mean error of its weight", log="x",
        ),
    }
    if rare_ones:
        parts["rate"] = slope(
            p[often], effective_lr(last)[0].mean(dim=0), -0.5, tol=0.05,
            why="1/√γ of 20 visits is 4 % more in the mean than of its mean",
            labels=("frequency of the feature", "effective learning rate"),
        )
    return every(parts)

r"""Test problems: what is true of it, and what would refute it."""

import math
from typing import Annotated, cast

import torch
from torch import Tensor

from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal_to_rounding,
    every,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.optimization.problems import (
    DoubleWell,
    Lessard,
    Problem,
    Quadratic,
    Quartic,
    Saddle,
    ScalarNet,
    SineBowl,
    noisy,
    noisy_logistic,
)

TWO_PI = 2 * math.pi


@claim(
    control={"factor": 0.9},
    refutes=[
        "sine bowl: L", "sine bowl: PL", "Lessard: L", "Lessard: strong convexity", "quadratic: L",
        "quadratic: PL", "quadratic: strong convexity", "logistic: PL",
        "logistic: strong convexity",
    ],
    source="by calculation; Karimi, Nutini and Schmidt 2016, sec. 2.2",
)
def declared_constants(
    seed: Seed, *, pairs: Annotated[int, Range(500, 20_000)] = 4000,
    dim: Annotated[int, Range(2, 30)] = 6, factor: Annotated[float, Range(0.5, 1)] = 1.0,
) -> Evidence:
    r"""What problems declare is so: no pair exceeds $L$, the PL constant is met."""
    rng, parts = seed.torch(), {}
    Q = torch.linalg.qr(torch.randn(dim, dim, generator=rng, dtype=torch.float64)).Q
    lam = torch.logspace(-1, 0.5, dim, dtype=Q.dtype)
    line = 12 * torch.rand(pairs, 1, generator=rng, dtype=Q.dtype) - 6
    plane = 3 * torch.randn(pairs, dim, generator=rng, dtype=Q.dtype)
    axes = Q.mT[torch.randint(dim, (pairs,), generator=rng)]  # each the steepest, or the flattest
    cases: dict[str, tuple[Problem, Tensor, Tensor]] = {
        "sine bowl": (SineBowl(), line, line + 1e-3),
        "Lessard": (Lessard(), line, line + 1e-3),
        "quadratic": (Quadratic(lam, rotation=Q), plane * 0 + axes, plane * 0),
        "logistic": (noisy_logistic(rng, dim=dim), plane, plane + 0.1 * axes),
    }
    for name, (problem, a, b) in cases.items():
        change, gap = problem.gradient(b) - problem.gradient(a), b - a
        steepness = change.norm(dim=1) / gap.norm(dim=1)
        curvature = (change * gap).sum(dim=1) / (gap**2).sum(dim=1)
        above = problem.value(a) - float(problem.minimum or 0)
        ratio = (problem.gradient(a) ** 2).sum(dim=1) / 2 / above
        L, pl = float(problem.smoothness or 0), float(problem.pl or 0)
        why = "a bound for every pair; 1e-6 for rounding of differences"
        parts[f"{name}: L"] = at_most(steepness.max(), factor * L * (1 + 1e-6), why=why)
        parts[f"{name}: PL"] = at_least(ratio.min(), pl / factor * (1 - 1e-6), why=why)
        if problem.strong_convexity is not None:
            mu = problem.strong_convexity / factor * (1 - 1e-6)
            parts[f"{name}: strong convexity"] = at_least(curvature.min(), mu, why=why)
        if name != "logistic":  # whose bounds are reached at one point each
            near = "the points lie so dense that one comes within 2 %"
            parts[f"{name}: L is reached"] = at_least(steepness.max(), 0.98 * L, why=near)
            # Lessard's meets more than it declares: strong convexity is all that theorems ask for
            least = curvature.min() if name == "Lessard" else ratio.min()
            parts[f"{name}: the least is reached"] = at_most(least, 1.02 * pl, why=near)
    x = torch.linspace(-6, 6, 400, dtype=Q.dtype)[:, None]
    bowl = SineBowl()
    ratio = (bowl.gradient(x) ** 2).sum(dim=1) / 2 / bowl.value(x)
    return every(parts).drawn(
        Series("½|∇h|² / (h − min h), sine bowl", x[:, 0], ratio, style="line"),
        Series("PL constant", [-6, 6], [bowl.pl or 0] * 2, "bound"),
        x="x", y="ratio", log="y",
    )


@claim(control={"barrier": 0.5}, refutes=["top between the wells"], source="by calculation")
def known_places(
    seed: Seed, *, u: Annotated[float, Range(0.2, 10)] = 2.0,
    barrier: Annotated[float, Range(0, 1)] = 0.25,
) -> Evidence:
    r"""Wells, saddle, quartic and valley have the heights and curvatures of their formulas."""
    cases: dict[str, tuple[Problem, list[float], float, list[float]]] = {
        "top between the wells": (DoubleWell(), [0.0], barrier, [-1.0]),
        "bottom of a well": (DoubleWell(), [-1.0], 0.0, [2.0]),
        "saddle": (Saddle(3), [0.0, 0.0, 0.0], 0.0, [-1.0, 1.0, 1.0]),
        "beside the saddle": (Saddle(3), [0.0, 0.0, -1.0], -0.25, [1.0, 1.0, 2.0]),
        "quartic": (Quartic(), [u], u**4 / 4, [3 * u**2]),
        "valley": (ScalarNet(), [u, 1 / u], 0.0, [0.0, u**2 + 1 / u**2]),
        "origin of the network": (ScalarNet(), [0.0, 0.0], 0.5, [-1.0, 1.0]),
    }
    parts = {}
    for name, (problem, point, height, curvatures) in cases.items():
        at = torch.tensor(point, dtype=torch.float64)
        found = torch.autograd.functional.hessian(problem.value, at)
        parts[name] = equal_to_rounding(problem.value(at), height)
        parts[f"{name}: curvatures"] = equal_to_rounding(
            torch.linalg.eigvalsh(cast("Tensor", found)), curvatures
        )
        starts = at + 3 * torch.randn(500, len(point), generator=seed.torch(), dtype=at.dtype)
        lowest = float(problem.minimum or 0)
        parts[f"{name}: nothing is below the minimum"] = at_least(
            problem.value(starts), lowest, slack=1e-12, why="a minimum; rounding"
        )
    x = torch.linspace(-1.6, 1.6, 200, dtype=torch.float64)[:, None]
    return every(parts).drawn(
        Series("double well", x[:, 0], DoubleWell().value(x), style="line"),
        Series("barrier", [-1.6, 1.6], [barrier] * 2, "predicted"), x="x", y="height",
    )


@claim(control={"claimed": 2.0}, refutes=["variance"], source="by construction")
def noise_is_added_to_the_gradient(
    seed: Seed, *, sigma: Annotated[float, Range(0.1, 10)] = 1.0,
    rows: Annotated[int, Range(2000, 100_000)] = 20_000,
    claimed: Annotated[float, Range(0.5, 2)] = 1.0,
) -> Evidence:
    r"""A noisy problem has the same values and mean gradients, with a variance of $\sigma^2$."""
    rng = seed.torch()
    bowl = Quadratic([1.0, 3.0]).at(torch.tensor([[2.0, -1.0]]).expand(rows, -1))
    shaken = noisy(bowl, sigma, rng)
    values = shaken()
    values.sum().backward()
    noise = cast("Tensor", shaken.theta.grad) - bowl.gradient(bowl.theta)
    counts, edges = torch.histogram(noise.flatten(), bins=40, density=True)
    middle = (edges[1:] + edges[:-1]) / 2
    law = (-((middle / (claimed * sigma)) ** 2) / 2).exp() / (claimed * sigma * TWO_PI**0.5)
    return every({
        "variance": within_errors(
            (noise**2).mean(dim=0), (claimed * sigma) ** 2, error=sigma**2 * (2 / rows) ** 0.5,
            why="a mean of squares of normal numbers",
        ).drawn(
            Series("noise in the gradient", middle, counts, style="bars"),
            Series("normal density", middle, law, "predicted"), x="noise", y="density",
        ),
        "mean": within_errors(noise.mean(dim=0), 0, error=sigma / rows**0.5, why="a mean"),
        "values": at_most(
            (values.detach() - bowl.value(bowl.theta).detach()).abs(), 0, why="the same function"
        ),
    })

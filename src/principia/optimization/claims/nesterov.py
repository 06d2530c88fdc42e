r"""Nesterov acceleration: what is true of it, and what would refute it.

Knobs:
    beta: The share β of the last move that is added; with any, it is not gradient descent.
    starts: Starting points.
    compared_with: What torch's parameters are compared with; the iterate lags behind them.
    steps: Steps of the method.
    dim: Coordinates of a point.
    largest: The largest condition number.
    rate: Whether the bound falls by its rate, or by the square of it, which is too fast.
    lr: The step size η.
    gradient_at: Where the gradient is taken; at the iterate it is the heavy ball, which circles.
    kappa: The condition number κ of the bowl.
    restart: Whether momentum is dropped when it runs uphill; if not, the method overshoots.
"""

import math
from typing import Annotated, Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD

from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    slope,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training.optimizers import fed, steps_along
from principia.optimization.momentum import HeavyBall, tuned_heavy_ball
from principia.optimization.nesterov import Nesterov, run_copy
from principia.optimization.problems import Lessard, Problem, Quadratic, log_spaced

Starts = Annotated[int, Range(1, 100)]
L, MU = 25.0, 1.0  # of Lessard's function
CAREFUL = 0.5 / L  # a step of 1/L would land on its minimum at once


@claim(
    control={"compared_with": "iterate"},
    refutes=["torch's parameters", "any gradients, as it comes"],
    source="Sutskever et al. 2013, sec. 2",
)
def torch_nesterov_is_lookahead(
    seed: Seed, *, beta: Annotated[float, Range(0.1, 0.99)] = 0.9, starts: Starts = 20,
    compared_with: Literal["lookahead", "iterate"] = "lookahead",
) -> Evidence:
    r"""The parameters of `SGD(nesterov=True)` are $\nu^{t+1}$, not $\theta^t$."""
    problem = _lessard(seed, starts)
    theta = run_copy(problem, Nesterov, 200, lr=CAREFUL, beta=beta)["theta"]
    ahead = torch.cat([theta[:1], theta[1:] + beta * theta.diff(dim=0)])
    torchs = run_copy(problem, SGD, 200, lr=CAREFUL, momentum=beta, nesterov=True)["theta"]
    stepped = torchs - CAREFUL * problem.gradient(torchs)
    why, shown = "rounding of 200 steps of numbers below 100", slice(0, 40)
    g = torch.randn(9, 3, 2, generator=seed.child("gradients").torch(), dtype=theta.dtype)
    return every({
        "torch's parameters": equal(
            torchs, ahead if compared_with == "lookahead" else theta, tol=1e-12, why=why
        ).drawn(
            Series("torch.optim.SGD", range(40), torchs[shown, 0, 0]),
            Series("look-ahead νᵗ⁺¹", range(40), ahead[shown, 0, 0], "predicted"),
            Series("iterate θᵗ", range(40), theta[shown, 0, 0], "other"),
            x="step t", y="x",
        ),
        "a step from there": equal(stepped[:-1], theta[1:], tol=1e-12, why=why),
        "any gradients, as it comes": equal_to_rounding(
            torch.stack([
                (p if compared_with == "lookahead" else one.iterate()[0]).detach().clone()
                for one, p in cast("Any", fed(Nesterov, g))
            ]),
            steps_along(SGD, g, lr=0.1, momentum=0.9, nesterov=True).cumsum(dim=0),
        ),
    })


def _lessard(seed: Seed, starts: int) -> Problem:
    """Give a smooth and strongly convex function that is no quadratic, at random points."""
    return Lessard().at(4 * torch.randn(starts, 1, generator=seed.torch(), dtype=torch.float64))


@claim(control={"beta": 0.1}, refutes=["points"], source="by definition")
def beta_zero_is_gd(
    seed: Seed, *, beta: Annotated[float, Range(0, 0.99)] = 0.0, starts: Starts = 20,
    steps: Annotated[int, Range(10, 500)] = 40,
) -> Evidence:
    r"""With $\beta=0$ it is gradient descent; its first step is that with every $\beta_t$."""
    problem = _lessard(seed, starts)
    plain = run_copy(problem, SGD, steps, lr=CAREFUL)
    ours = run_copy(problem, Nesterov, steps, lr=CAREFUL, beta=beta)
    well = run_copy(problem, Nesterov, steps, lr=CAREFUL, beta=("strong", 1.0))
    shares: tuple[Any, ...] = 0.9, "convex", ("strong", 100.0)
    firsts = [
        run_copy(problem, Nesterov, 1, lr=CAREFUL, beta=share)["theta"][1] for share in shares
    ]
    why = "the same operations, and adding 0 times a move changes no bit"
    return every({
        "points": equal(ours["theta"], plain["theta"], tol=0, why=why).drawn(
            Series(f"Nesterov, β = {beta:g}", ours.step, ours["value"][:, 0].clamp(min=1e-30)),
            Series("descent", plain.step, plain["value"][:, 0].clamp(min=1e-30), "predicted"),
            x="step t", y="h above its minimum", log="y",
        ),
        "κ = 1": equal(well["theta"], plain["theta"], tol=0, why=why),
        "first step": equal(
            torch.stack(firsts), plain["theta"][1].expand(3, -1, -1), tol=0, why=why
        ),
    })


@claim(control={"beta": "zero"}, source="Su, Boyd and Candès 2016, sec. 4, with r = 3")
def convex_rate(
    seed: Seed, *, steps: Annotated[int, Range(1000, 10_000)] = 2000,
    dim: Annotated[int, Range(200, 1000)] = 400, beta: Literal["convex", "zero"] = "convex",
) -> Evidence:
    r"""With $\eta=1/L$ and "convex" the gap is below $2L\Vert\theta^0-\theta^*\Vert^2/(t+1)^2$.

    Args:
        beta: How much of the last move is added; with none it is gradient descent, which is slower.
    """
    at = np.unique(np.geomspace(1, steps, 200).round().astype(int)).tolist()
    share: Any = "convex" if beta == "convex" else 0.0
    trace = run_copy(log_spaced(dim), Nesterov, steps, at=at, lr=1.0, beta=share)
    gap, t = trace["value"][:, 0], trace.step.double() + 1
    bound, late = 2 / t**2, t > 30  # both L and the distance are 1
    early = torch.arange(1.0, 51, dtype=t.dtype)
    labels = "t + 1", "h above its minimum"
    return every({
        "bound": at_most(gap, bound, why="a theorem: no slack").drawn(
            Series("gap", t, gap), Series("2L‖θ⁰ − θ*‖²/(t + 1)²", t, bound, "bound"),
            Series("slope −1", t, gap[0] * t[0] / t, "other"), x=labels[0], y=labels[1], log="xy",
        ),
        "rate": slope(
            t[late], gap[late], -2.0, tol=0.05, labels=labels,
            why="-2 in the limit; where λ is not below 1/t all is damped, felt like 1/√t",
        ),
        "βₜ": equal_to_rounding(_shares(share, len(early)), (early - 1) / (early + 2)),
    })


def _shares(beta: Any, steps: int) -> Tensor:
    """Measure the share of the last move that is added at every step, down a slope of 1."""
    x, shares = nn.Parameter(torch.zeros(1, dtype=torch.float64)), []
    optimizer = Nesterov([x], lr=1.0, beta=beta)
    for _ in range(steps):
        before, x.grad = optimizer.iterate()[0].clone(), torch.ones_like(x)
        optimizer.step()
        after = optimizer.iterate()[0]
        shares.append((x.detach() - after) / (after - before))
    return torch.cat(shares)


@claim(
    control={"rate": "squared"},
    refutes=["quadratics"],
    source="Nesterov 2018, sec. 2.2.1, constant share",
)
def strongly_convex_rate(
    seed: Seed, *, largest: Annotated[float, Range(1000, 30_000)] = 10_000.0,
    dim: Annotated[int, Range(2, 200)] = 50, rate: Literal["root", "squared"] = "root",
) -> Evidence:
    r"""With ("strong", κ) the gap falls by $1-\sqrt{\mu/L}$ a step or more: $\sqrt\kappa$ steps."""
    kappas, power = np.geomspace(30, largest, 6), 1 if rate == "root" else 2
    flattest = torch.eye(1, dim, dtype=torch.float64)
    starts = torch.randn(4, dim, generator=seed.torch(), dtype=torch.float64)
    highest, counts, curves, slowest, formula = [], [], [], [], []
    for kappa in kappas.tolist():
        steps = math.ceil(10 * math.sqrt(kappa))
        bowl = _bowl(kappa, torch.cat([flattest, starts]))
        gap = run_copy(bowl, Nesterov, steps, lr=1.0, beta=("strong", kappa))["value"]
        bound = _bound(bowl, 1.0, steps, power)
        highest.append((gap / bound).max())
        s = torch.arange(steps + 1, dtype=gap.dtype) / math.sqrt(kappa)
        slowest.append(gap[:, 0] / gap[0, 0])
        formula.append(((1 - kappa**-0.5) ** (s * math.sqrt(kappa)) * (1 + s)) ** 2)
        counts.append(int((gap > 1e-6 * gap[0]).any(dim=1).nonzero().max()) + 1)
        shown = np.linspace(0, steps, 40).astype(int)
        ratio = (gap / bound)[shown, 0]
        curves.append(Series(f"κ = {kappa:.0f}", shown / kappa**0.5, ratio, "other"))
    bent, strong = _lessard(seed, 20), ("strong", 1 / (CAREFUL * MU))
    off = run_copy(bent, Nesterov, 200, lr=CAREFUL, beta=strong)["value"]
    off /= _bound(bent, CAREFUL, 200, power)
    why = "a theorem; rounding of h and of a power"
    return every({
        "quadratics": at_most(torch.stack(highest), 1, slack=1e-9, why=why).drawn(
            *curves, Series("bound", [0, 10], [1, 1], "bound"),
            x="step t, in units of √κ", y="gap from the flattest direction / bound", log="y",
        ),
        "flattest direction": equal_to_rounding(
            torch.cat(slowest), torch.cat(formula), why="a double root 1 - 1/√κ; float64 rounding"
        ),
        "off quadratics": at_most(off.max(), 1, slack=1e-9, why=why),
        "steps to 1e-6": slope(
            kappas, counts, 0.5, tol=0.05, why="ln(1 - 1/√κ) is a bit below -1/√κ at small κ",
            labels=("condition number κ", "steps to a gap of 1e-6, from the worst start"),
        ),
    })


def _bowl(kappa: float, starts: Tensor) -> Quadratic:
    """Build a quadratic with curvatures from 1/kappa, first, to 1."""
    curvature = torch.logspace(-math.log10(kappa), 0, starts.shape[1], dtype=torch.float64)
    return Quadratic(curvature).at(starts)


def _bound(problem: Problem, lr: float, steps: int, power: int = 1) -> Tensor:
    """Bound the gap of a strongly convex problem with minimum 0 at 0, after each step."""
    mu, start = cast("float", problem.strong_convexity), problem.theta.detach()
    t = torch.arange(steps + 1, dtype=start.dtype)[:, None]
    first = problem.value(start) + mu / 2 * start.square().sum(dim=-1)
    return first * (1 - math.sqrt(lr * mu)) ** (power * t)


@claim(
    control=[
        Control({"gradient_at": "lookahead, as printed"}, words="the sign that is printed"),
        Control({"gradient_at": "iterate"}, words="the heavy ball: a gradient at the iterate"),
    ],
    source="Lessard, Recht and Packard 2016, sec. 4.5 and 4.6",
    misprint=r"$v\leftarrow\alpha v+\varepsilon\nabla R(\theta+\alpha v)$, with which $\theta$ is "
    r"never moved; by $\theta\leftarrow\theta+v$ it climbs",
)
def gradient_at_the_lookahead(
    seed: Seed, *, steps: Annotated[int, Range(200, 1000)] = 300,
    starts: Annotated[int, Range(2, 200)] = 20, lr: Annotated[float, Range(0.01, 0.04)] = CAREFUL,
    gradient_at: Literal["lookahead", "lookahead, as printed", "iterate"] = "lookahead",
) -> Evidence:
    r"""With the gradient at $\nu$ it converges where the tuned heavy ball runs in a circle."""
    problem = Lessard().at(torch.linspace(3.07, 3.46, starts, dtype=torch.float64)[:, None])
    strong: Any = ("strong", 1 / (lr * MU))
    ahead = run_copy(problem, Nesterov, steps, lr=lr, beta=strong)["theta"]
    behind = run_copy(problem, HeavyBall, steps, **tuned_heavy_ball(L, MU))["theta"]
    found = ahead if gradient_at == "lookahead" else behind
    if gradient_at == "lookahead, as printed":
        kind: Any = {"lr": lr, "momentum": 0.8, "nesterov": True, "maximize": True}
        found = run_copy(problem, SGD, 30, **kind)["theta"]
    return at_most(
        found[-3:].abs(), 1e-12, why="near 0 it is a parabola: √(β(1 - ηL)) a step, 0.8^200 = 4e-20"
    ).named("distance from the minimum at the end").drawn(
        Series(f"gradient at {gradient_at}", range(30), found[:30, 0, 0], style="line"),
        Series("heavy ball", range(30), behind[:30, 0, 0], "other"),
        Series("minimum", [0, 29], [0, 0], "predicted"), x="step t", y="x",
    )


@claim(
    control={"restart": False}, refutes=["gap after 32√κ steps", "anew is like at first"],
    source="O'Donoghue and Candès 2015, sec. 3.2 and 4",
)
def restart_recovers_linear_rate(
    seed: Seed, *, kappa: Annotated[float, Range(30, 10_000)] = 1000.0,
    dim: Annotated[int, Range(10, 60)] = 50, restart: bool = True,
) -> Evidence:
    r"""Started anew when it runs uphill, "convex" has a linear rate, without knowing $\mu$."""
    # isotropic: if all directions start on one side, the first turn uphill can come far too late
    start = torch.randn(1, dim, generator=seed.torch(), dtype=torch.float64)
    bowl, steps = _bowl(kappa, start), math.ceil(1000 * math.sqrt(kappa / 1000))
    convex: dict[str, Any] = {"lr": 1.0, "beta": "convex", "restart": restart}
    trace, bound = run_copy(bowl, Nesterov, steps, **convex), _bound(bowl, 1.0, steps)
    gap, path = trace["value"], trace["theta"]
    known = run_copy(bowl, Nesterov, steps // 2, lr=1.0, beta=("strong", kappa))["value"]
    turn = _first_uphill(bowl, path)
    begun = run_copy(bowl.at(path[turn]), Nesterov, 50, lr=1.0, beta="convex", restart=True)
    fresh = begun["theta"]
    shown, half = (np.linspace(0, end, 200).astype(int) for end in (steps, steps // 2))
    return every({
        "gap after 32√κ steps": at_most(
            gap[-1] / gap[0], 1e-15,
            why="no theorem: of 8000 Gaussian starts (κ = 1000, 50 dimensions) the worst had 9e-17",
        ).drawn(
            Series("anew when uphill" if restart else "never anew", shown, gap[shown]),
            Series("with μ known", half, known[half], "other"),
            Series("bound with μ known", shown, bound[shown], "bound"),
            x="step t", y="h above its minimum", log="y",
        ),
        "anew is like at first": equal_to_rounding(path[turn : turn + 51], fresh),
        "level ground is not uphill": equal(
            _down_then_level(restart=True), _down_then_level(restart=False), tol=0,
            why="of a gradient of 0 the product with any move is 0",
        ),
        "in two tensors, which turn together": equal_to_rounding(
            _in_pieces(bowl, [3, dim - 3], min(2 * turn, steps), **convex),
            path[: min(2 * turn, steps) + 1, 0],
        ),
    })


def _down_then_level(**options: Any) -> Tensor:
    """Take one step down a slope and three on level ground."""
    slopes, path = torch.tensor([[1.0], [0.0], [0.0], [0.0]], dtype=torch.float64), []
    for one, p in cast("Any", fed(Nesterov, slopes, **options)):
        path += [p.detach().clone(), one.iterate()[0].clone()]
    start = Nesterov([nn.Parameter(slopes)], **options).iterate()
    # NumPy takes constants only, which the iterates are before any step, too
    return torch.cat([*path, torch.from_numpy(start[0].numpy())[0]])


def _in_pieces(bowl: Quadratic, sizes: list[int], steps: int, **options: Any) -> Tensor:
    """Run the method on a quadratic along the axes whose coordinates stand in several tensors."""
    pieces = [nn.Parameter(one.clone()) for one in bowl.theta.detach()[0].split(sizes)]
    optimizer, path = Nesterov(pieces, **options), [bowl.theta.detach()[0]]
    for _ in range(steps):
        for p, curvature in zip(pieces, bowl.eigenvalues.split(sizes), strict=True):
            p.grad = curvature * p.detach()
        optimizer.step()
        path.append(torch.cat(optimizer.iterate()))
    return torch.stack(path)


def _first_uphill(problem: Problem, path: Tensor) -> int:
    """Find the first iterate of a path of the "convex" method to which the last move led uphill."""
    moves = path.diff(dim=0)
    t = torch.arange(1, len(moves), dtype=path.dtype)[:, None, None]
    ahead = path[1:-1] + (t - 1) / (t + 2) * moves[:-1]
    uphill = (problem.gradient(ahead) * moves[1:]).sum(dim=(1, 2)) > 0
    return int(uphill.nonzero()[0]) + 2

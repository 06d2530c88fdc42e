r"""Preconditioning: what is true of it, and what would refute it.

Knobs:
    a: The least curvature, where the preconditioner says 1.
    dim: Coordinates of a point, or of an input.
    condition: How many times longer than its shortest axis the preconditioner's longest one is.
    form: Whether the limit of a step is 2 or, as misprinted, $1/a$, which diverges.
    samples: Samples of the data.
    l2: Price of squared weights, which keeps the curvature above 0.
    inner: Steps of conjugate gradients within one of Newton's; too few do not solve its system.
    rows: Length of a row in the parameter that is a matrix.
    damping: What is added to all curvatures, λ; each group of parameters has its own.
    sign: Whether eigenvalues keep their signs in the formula; saddle-free steps drop them.
    start: The least distance from the minimum at the start; beyond 1, whole steps lead away.
    search: Whether a step is halved until it is worth it; without, Newton runs away.
    y: Distance of the start from the ridge; beyond $1/\sqrt5$ plain Newton misses the saddle.
    steps: Steps that are taken.
    mode: Whether the signs of curvatures are dropped; plain Newton keeps them and ends at the
        saddle.
    features: Features of the patients that are used.
    stretch: The unit of the last feature, where that of the first is 1.
    kind: How inputs are whitened: along their principal axes, or turned as little as can be.
    inputs: Whether inputs are whitened; with raw ones a step of size 1 is not enough.
    classes: Classes that the model tells apart.
    link: The model and its loss; under a squared loss on a sigmoid the Hessian is something
        else.
"""

import math
from functools import partial
from typing import Annotated, Any, Literal, cast

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev
from torch.nn import functional as F
from torch.optim import SGD

from principia.lab.draws import randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Plot,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
)
from principia.lab.params import Range
from principia.lab.pictures import Mark, Matrix, Role, Rule
from principia.lab.seeds import Seed
from principia.mathematics.taylor import newton
from principia.networks.linear_dynamics import Whitener
from principia.networks.mlp import MLP
from principia.optimization._fisher_by_hand import expected_squares, surprise
from principia.optimization.gradient_descent import best_fixed_lr, descend
from principia.optimization.preconditioning import (
    RESIDUAL,
    Law,
    Newton,
    PreconditionedGD,
    fisher_information,
    natural_gradient,
    relative_conditioning,
)
from principia.optimization.problems import LogisticRisk, Problem, Quadratic, Saddle
from principia.optimization.sgd import SampledSquares


@claim(
    control={"form": "printed"}, refutes=["η = 9 converges"],
    source="Nocedal and Wright 2006, sec. 3.3 and 5.1, in the norm A",
    misprint=r"$A\succeq\nabla^2f\succeq aA$ allows every $\eta<1/a$",
)
def preconditioned_step_limit(
    seed: Seed, *, a: Annotated[float, Range(0.02, 0.4)] = 0.1,
    dim: Annotated[int, Range(2, 50)] = 10, condition: Annotated[float, Range(1, 10_000)] = 100.0,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""$aA\preceq\nabla^2h\preceq A$: $\eta<2$ converges, the best by $\frac{1-a}{1+a}$ a step."""
    rng, steps = seed.torch(), 30
    Q, R = (torch.linalg.qr(randn(rng, dim, dim)).Q for _ in range(2))
    scales = torch.logspace(0, -math.log10(condition), dim, dtype=Q.dtype)
    inside = a + (1 - a) * torch.rand(dim - 2, generator=rng, dtype=Q.dtype)
    A = (Q * scales) @ Q.mT
    L = torch.linalg.cholesky(A)
    H = L @ (R * torch.cat([Q.new_tensor([a, 1.0]), inside])) @ R.mT @ L.mT
    values, vectors = torch.linalg.eigh((H + H.mT) / 2)
    bowl = Quadratic(values, rotation=vectors)
    longest = 1.9 if form == "correct" else 0.9 / a
    rates = {1.0: 1 - a, 2 / (1 + a): (1 - a) / (1 + a), 2.0: 1.0,
             longest: max(1 - longest * a, longest - 1)}
    worst = {}
    for eta in rates:  # rows start at the axes: together they are the map that a step applies
        theta = _path(bowl.at(torch.eye(dim)), eta, L, steps)
        maps = torch.linalg.solve_triangular(L, theta @ L, upper=False)  # lengths are those of A
        worst[eta] = torch.linalg.matrix_norm(maps, ord=2)
    found = [float(one[-1]) ** (1 / steps) for one in worst.values()]
    t, shown = torch.arange(steps + 1), [eta for eta in rates if eta != 2]
    small = Quadratic(scales).at(randn(rng, 3, dim))
    forms = [_path(small, 0.5, one, 5) for one in (scales, lambda g: g / scales)]
    given = [randn(rng, *shape) for shape in ((2, 3, dim), (dim,), (1, dim))]
    params = [nn.Parameter(torch.zeros_like(g)) for g in given]
    several = PreconditionedGD([{"params": params[:2]}, {"params": params[2:], "lr": 0.7}],
                               preconditioner=L)
    for p, g in zip(params, given, strict=True):
        p.grad = g
    several.step()
    moved = [-p.detach() / eta for p, eta in zip(params, (0.1, 0.1, 0.7), strict=True)]
    exact = [torch.linalg.solve(A, g[..., None])[..., 0] for g in given]
    return every({
        "factor of a step": equal(
            found, [*rates.values()], tol=1e-6, why="rounding, times the condition of A").drawn(
            *(Series(f"η = {eta:.3g}", t, worst[eta], "other", "points") for eta in shown),
            *(Series(f"factor {rates[eta]:.3g}", t, rates[eta] ** t, "predicted") for eta in shown),
            x="step", y="largest error in the norm of A, from 1", log="y",
        ),
        f"η = {longest:.3g} converges": at_most(
            worst[longest][-1], 1, why="what is allowed must not leave errors larger than before"),
        "relative_conditioning": equal(
            relative_conditioning(A, H.clone().requires_grad_()), [a, 1.0], tol=1e-9,
            why="rounding, times the condition"),
        "parameters of several shapes": equal(
            *(torch.cat([one.flatten() for one in some]) for some in (moved, exact)),
            tol=1e-10 * condition, why="rounding, times the condition of A"),
        "diagonal and function": equal_to_rounding(
            torch.stack(forms), torch.stack([_path(small, 0.5, scales.sqrt().diag(), 5)] * 2)),
    })


def _path(problem: Problem, lr: float, preconditioner: Any, steps: int) -> Tensor:
    """Give all points (T, B, D) of preconditioned descent from where the problem is."""
    problem = problem.at(problem.theta)
    optimizer = PreconditionedGD(problem.parameters(), lr, preconditioner)
    return descend(problem, optimizer, steps, record=("theta",))["theta"]


@claim(
    control={"inner": 2}, refutes=["relative difference"],
    source="Hestenes and Stiefel 1952; Nocedal and Wright 2006, sec. 7.1",
)
def newton_cg_is_newton(
    seed: Seed, *, dim: Annotated[int, Range(4, 64)] = 64,
    samples: Annotated[int, Range(200, 1000)] = 300, l2: Annotated[float, Range(0.01, 1)] = 0.01,
    inner: Annotated[int, Range(1, 200)] = 64,
) -> Evidence:
    r"""Conjugate gradients on products with the Hessian give Newton's step, without the Hessian."""
    rng = seed.torch()
    X, noise, x = randn(rng, samples, dim), randn(rng, samples), randn(rng, dim) / dim**0.5
    risk = LogisticRisk(X, (X[:, 0] + noise > 0).long(), l2=l2).at(x[None])
    step, H = _newton_step(risk), jacrev(grad(risk.value))(x)
    by_taylor = x - newton(risk.value, x, 1, 0, False)[1]
    curvatures = torch.linalg.eigvalsh(H)
    root = float((curvatures[-1] / curvatures[0]).sqrt())

    def length(v: Tensor) -> Tensor:
        return (v @ H @ v).sqrt() / (step @ H @ step).sqrt()

    counts = sorted({1, 2, 3, 4, 6, 8, 12, 16, 24, inner})
    short = [_newton_step(risk, dense=0, inner=one) for one in counts]
    errors = [float(length(one - step)) for one in short]
    bounds = [min(1.0, 2 * ((root - 1) / (root + 1)) ** one) for one in counts]
    gap = (short[counts.index(inner)] - step).norm() / step.norm()
    wide = Quadratic(torch.logspace(0, 3, 300))
    longest = [_newton_step(wide, dense=0, **one) for one in ({}, {"inner": 250})]
    bent, flat = Quadratic([4.0, -1.0]), Quadratic([1.0, -1.0])  # on the second way; 0 on the first
    ends = [flat, *(one.at(torch.tensor([[0.1, 0.3]])) for one in (Saddle(2), bent))]
    slopes = torch.stack([one.gradient(one.theta)[0] for one in ends])
    slopes[2] *= slopes[2].square().sum() / (slopes[2].square() * bent.eigenvalues).sum()
    large, uneven = Quadratic(torch.logspace(0, 4, 2000)), Quadratic([1e-20, 1.0])
    solved = [(_newton_step(one), one.theta[0]) for one in (large, uneven)]
    why = f"at a residual of {RESIDUAL:g} it stops, times the condition number"
    return every({
        "relative difference": at_most(gap, 1e-6, why=why).drawn(
            Series("conjugate gradients", counts, [max(one, 1e-17) for one in errors]),
            Series("2((√κ − 1)/(√κ + 1))ᵏ", counts, bounds, "bound"),
            x="inner steps k", y="distance from Newton's step, in the norm of H", log="y",
        ),
        "theory": at_most(errors, bounds, slack=1e-9, why="a theorem, but for its end by rounding"),
        "the step of the Taylor page": equal_to_rounding(step, by_taylor),
        "where the curvature is not positive": equal_to_rounding(
            torch.stack([_newton_step(one, dense=0) for one in ends]), slopes
        ),
        "inner steps by default": equal(*longest, tol=0, why="250, of 300 that it would take"),
        "up to 2,000 in any units": equal_to_rounding(*map(torch.cat, zip(*solved, strict=True))),
    })


def _newton_step(problem: Problem, **options: Any) -> Tensor:
    """Give what one step of Newton's method subtracts."""
    twin = problem.at(problem.theta)
    descend(twin, Newton(twin.parameters(), **options), 1, at=[1])
    return (problem.theta - twin.theta).detach()[0]


@claim(
    control=[
        Control({"damping": "the first group's"}, ["dense", "products"], "one λ for all groups"),
        Control({"sign": "kept"}, ["saddle-free"], "eigenvalues with their signs"),
    ],
    source="Nocedal and Wright 2006, ch. 3; Dauphin et al. 2014, sec. 4",
)
def newton_step_is_the_formula(
    seed: Seed, *, rows: Annotated[int, Range(1, 6)] = 3,
    damping: Literal["each group's", "the first group's"] = "each group's",
    sign: Literal["dropped", "kept"] = "dropped",
) -> Evidence:
    r"""Newton's step is $-\eta(\nabla^2h+\lambda I)^{-1}\nabla h$, or has $\vert\nabla^2h\vert$."""
    rng, size = seed.torch(), 2 * rows + 2
    mix, bend = randn(rng, size, size) / size**0.5, randn(rng, size, size)
    weights, start = torch.rand(size, generator=rng, dtype=mix.dtype), 0.5 * randn(rng, size)

    def first(theta: Tensor) -> Tensor:
        return (mix @ theta).cosh().sum() + 0.3 * theta @ theta

    def second(theta: Tensor, size: float) -> Tensor:  # bends both ways, if it is large
        return size * (bend @ theta).sin()

    def whole(theta: Tensor, size: float) -> Tensor:
        return first(theta) + second(theta, size) @ weights

    parts, split, other = {}, [2 * rows, 2], 0.1 if damping == "each group's" else 0.4
    lr, lam = (torch.tensor([one] * split[0] + [two] * 2) for one, two in ((0.7, 1), (0.4, other)))
    kinds: list[tuple[str, float, dict[str, Any]]] = [
        ("dense", 3.0, {}), ("products", 0.05, {"dense": 0}),
        ("saddle-free", 3.0, {"mode": "saddle_free"}),
    ]
    for name, large, options in kinds:
        a, b = start.split(split)
        params = [nn.Parameter(one.clone()) for one in (a.view(2, -1), b, torch.ones(2).to(b))]
        frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        groups = [{"params": [params[0], frozen, params[2]], "lr": 0.7, "damping": 0.4},
                  {"params": [params[1]], "damping": 0.1}]
        optimizer = Newton(groups, **options)

        def closure(params: Any = params, large: float = large, one: Any = optimizer) -> Tensor:
            theta = torch.cat([params[0].flatten(), params[1]])
            one.zero_grad()
            value = first(theta)
            value.backward(retain_graph=True)
            second(theta, large).backward(gradient=weights)
            return value

        told, here = optimizer.step(closure), partial(whole, size=large)
        g, H = grad(here)(start), jacrev(grad(here))(start)
        if name == "saddle-free" and sign == "dropped":
            values, vectors = np.linalg.eigh(H.numpy())
            H = torch.from_numpy((vectors * abs(values)) @ vectors.T)
        exact = start - lr * torch.linalg.solve(H + lam.diag(), g)
        found = [*params, frozen, told, cast("Tensor", params[1].grad)]
        parts[name] = equal(
            torch.cat([one.detach().flatten() for one in found]),
            torch.cat([exact, torch.ones(4).to(g), first(start)[None], g[-2:]]),
            tol=1e-7, why="rounding, times the condition of the Hessian",
        )
    return every(parts).pictured(_steps_over_curvature(sign == "dropped"))


def _steps_over_curvature(dropped: bool) -> Plot:
    """Draw the steps along directions of many curvatures, in all of which the slope is 1."""
    bends, fine = torch.linspace(-3, 3, 25, dtype=torch.float64), torch.linspace(-3, 3, 300)
    marks: list[Mark] = []
    kinds: list[tuple[Any, Role, Tensor]] = [
        ("plain", "orange", fine), ("saddle_free", "blue", fine.abs() if dropped else fine)]
    for mode, role, size in kinds:
        at = nn.Parameter(torch.zeros_like(bends))
        optimizer = Newton([at], damping=0.4, mode=mode)

        def closure(at: Tensor = at, one: Newton = optimizer) -> Tensor:
            one.zero_grad()
            value = (bends * at**2 / 2 + at).sum()
            value.backward()
            return value

        optimizer.step(closure)
        marks.append(Series(f"Newton, {mode.replace('_', '-')}", bends, at, role, "points"))
        marks += [Series("−1 / (λ + damping), of |λ| if saddle-free", fine[one], law[one],
                         "predicted") for law in [-1 / (size + 0.4)]
                  for one in (fine < -0.4, fine > -0.4)]
    marks.append(Rule("uphill above", y=0))
    return Plot(tuple(marks), "curvature λ along the direction", "step where the slope is 1",
                y_range=(-8, 8))


@claim(control={"search": False}, refutes=["end"], source="Nocedal and Wright 2006, sec. 3.1")
def search_brings_newton_home(
    seed: Seed, *, start: Annotated[float, Range(1.1, 10)] = 2.0, search: bool = True,
) -> Evidence:
    r"""On $\sqrt{1+x^2}$ Newton goes from $x$ to $-x^3$, away if $\vert x\vert>1$; halved, home."""
    def path(x: float, steps: int, rise: float = 0.0) -> tuple[list[float], int]:
        at, calls = nn.Parameter(torch.tensor([x], dtype=torch.float64)), 0
        optimizer, seen = Newton([at], search=search), [x]

        def closure() -> Tensor:
            nonlocal calls
            calls += 1
            optimizer.zero_grad()
            value = (1 + at**2).sqrt().sum() + rise * calls
            value.backward()
            return value

        for _ in range(steps):
            optimizer.step(closure)
            seen.append(at.item())
        return seen, calls

    def by_hand(x: float, steps: int) -> list[float]:
        seen = [x]
        for _ in range(steps):
            here, length, step = math.hypot(1, x), 1.0, -(x + x**3)
            worth, room = 1e-4 * x / here * step, 8 * 2.0**-52 * here
            while math.hypot(1, x + length * step) > here + length * worth + room:
                length /= 2
            x = x + length * step
            seen.append(x)
        return seen

    begin = start + float(torch.rand((), generator=seed.torch()))
    # on both sides of the places where a step, or its half, is worth 1e-4 of what was promised
    edges = [1 - 0.7e-4, 1 - 1.5e-4, 3**0.5 - 0.8e-4, 3**0.5 - 1.7e-4]
    (found, _), (stuck, calls) = path(begin, 12 if search else 3), path(begin, 1, 10.0)
    return every({
        "end": at_most(abs(found[-1]), 1e-8, why="quadratic convergence").drawn(
            Series("Newton", range(len(found)), [min(abs(x), 1e20) for x in found]),
            Series("whole steps: |x|³ each time", range(4), [begin ** 3**k for k in range(4)],
                   "bound"), x="step", y="distance from the minimum", log="y",
        ),
        "the first half that is worth it": equal_to_rounding(
            [*found, *(path(x, 1)[0][-1] for x in edges)], [*by_hand(begin, len(found) - 1), *(
                by_hand(x, 1)[-1] for x in edges)]
        ),
        "none is worth it": equal([stuck[-1], calls], [begin, 42], tol=0, why="40 halves, then 0"),
    })


@claim(
    control=[
        Control({"mode": "plain", "damping": 0.0}, ["ends at a minimum"], "plain Newton"),
        Control({"y": 0.6}, ["plain ends at the saddle"], "a start beyond its basin, 1/√5"),
    ],
    source="Dauphin et al. 2014, sec. 3 and 4",
)
def newton_is_drawn_to_saddles(
    seed: Seed, *, y: Annotated[float, Range(0.01, 0.6)] = 0.1,
    damping: Annotated[float, Range(0, 0.3)] = 0.05, steps: Annotated[int, Range(40, 100)] = 40,
    mode: Literal["saddle_free", "plain"] = "saddle_free",
) -> Evidence:
    r"""Near the saddle of $x^2-y^2+\frac12y^4$ Newton goes there; saddle-free, to a minimum."""
    random = 0.8 * torch.rand(1, 2, generator=seed.torch(), dtype=torch.float64) - 0.4
    starts = torch.cat([torch.tensor([[0.3, y]], dtype=torch.float64), random])

    def path(start: Tensor, steps: int, **options: Any) -> Tensor:
        saddle = Saddle(2).at(start[None])  # half of the function
        optimizer = Newton(saddle.parameters(), **options)
        return descend(saddle, optimizer, steps, record=("theta",))["theta"][:, 0]

    plain = torch.stack([path(one, 10) for one in starts])
    free = torch.stack([path(one, steps, mode=mode, damping=damping) for one in starts])
    (right, up), (x, down) = free[0].mT, plain[0].mT
    return every({
        "ends at a minimum": equal(
            free[:, -1], torch.stack([starts[:, 0] * 0, starts[:, 1].sign()], dim=1), tol=1e-6,
            why="damped, the error falls by λ/(λ + curvature), at most 0.24, a step",
        ).drawn(
            Series(mode.replace("_", "-"), right, up, style="line"),
            Series("plain", x, down, "other"),
            Series("minima", [0, 0], [-1, 1], "predicted", "points"),
            Series("saddle", [0], [0], "other", "points"), x="x", y="y",
        ),
        "plain ends at the saddle": at_most(
            plain[:, -1].abs(), 1e-8, why="quadratic convergence from |y| < 1/√5"
        ),
    })


@claim(
    control={"inputs": "raw"},
    refutes=["gradient after one step of size 1", "ends of the spectrum"],
    source="LeCun, Bottou, Orr and Müller 1998, sec. 4.3 and 5.3",
)
def whitening_is_preconditioning(
    seed: Seed, *, features: Annotated[int, Range(2, 10)] = 10,
    stretch: Annotated[float, Range(0.1, 10)] = 1.0, kind: Literal["pca", "zca"] = "pca",
    inputs: Literal["whitened", "raw"] = "whitened",
) -> Evidence:
    r"""Least squares on whitened inputs has $\kappa=1$: one step of size 1 solves it."""
    data: Any = load_diabetes()
    X, y = torch.from_numpy(data.data[:, :features]), torch.from_numpy(data.target)
    X = (X - X.mean(dim=0)) * torch.linspace(1, stretch, features, dtype=X.dtype)  # other units
    Z = torch.from_numpy(Whitener(kind=kind).fit_transform(X.numpy()))
    start = randn(seed.torch(), 1, features)
    chosen = SampledSquares(Z if inputs == "whitened" else X, y).at(start)
    moment = X.mT @ X / len(X)

    def norms(problem: Problem, lr: float, steps: int) -> Tensor:
        optimizer = SGD(problem.parameters(), lr=lr)
        return descend(problem, optimizer, steps, record=("gradient_norm",))["gradient_norm"][:, 0]

    best = best_fixed_lr(*map(float, torch.linalg.eigvalsh(moment)[[-1, 0]]))
    raw = norms(SampledSquares(X, y).at(start), best, 20)
    one = norms(chosen, 1.0, 3)
    white = _path(SampledSquares(Z, y), 0.5, None, 10)[:, 0] @ Z.mT
    divided = _path(SampledSquares(X, y), 0.5, torch.linalg.cholesky(moment), 10)[:, 0] @ X.mT
    return every({
        "gradient after one step of size 1": at_most(
            one[1], 1e-10, why="rounding of targets up to 346 and their mean products"
        ).drawn(
            Series(f"{inputs}, η = 1", range(4), one.clamp(min=1e-15)),
            Series("raw, best η", range(21), raw.clamp(min=1e-15), "other"),
            x="step", y="length of the gradient", log="y",
        ),
        "predictions with A = E[xx'] on raw inputs": equal_to_rounding(divided, white),
        "ends of the spectrum": equal(
            relative_conditioning(torch.eye(features).to(X), chosen.X.mT @ chosen.X / len(X)),
            [1.0, 1.0], tol=1e-9, why="rounding of a mean",
        ),
    })


@claim(
    control={"link": "squared loss on a sigmoid"},
    refutes=["Fisher information and Hessian", "natural gradient and Newton's step"],
    source="Amari 1998; Martens 2020, sec. 9.2",
)
def natural_gradient_is_newton(
    seed: Seed, *, samples: Annotated[int, Range(100, 1000)] = 200,
    dim: Annotated[int, Range(1, 20)] = 5, classes: Annotated[int, Range(2, 6)] = 3,
    link: Literal["logistic", "squared loss on a sigmoid"] = "logistic",
) -> Evidence:
    r"""Logistic regression: the Fisher information is the Hessian, whatever the labels."""
    rng, cases = seed.torch(), []
    x = F.pad(randn(rng, samples, dim), (0, 1), value=1.0)  # the bias is the weight of a 1
    y: Tensor = torch.randint(classes, (samples,), generator=rng)
    hot, targets = F.one_hot(y, classes).double(), randn(rng, samples, 2)
    kinds: list[tuple[Law, int, Tensor]] = [
        ("classes", 1, y.clamp(max=1)), ("classes", classes, y), ("normal", 2, targets)
    ]
    for law, outputs, target in kinds:  # log-odds of two, logits of several, and two numbers
        line = nn.utils.skip_init(nn.Linear, dim + 1, outputs, bias=False)
        line.weight = nn.Parameter(randn(rng, outputs, dim + 1) / dim**0.5)
        model = line if link == "logistic" else nn.Sequential(line, nn.Sigmoid())
        if link != "logistic":
            law, target = "normal", hot[:, -outputs:]
        ((name, weight),) = model.named_parameters()
        start = weight.detach().clone()

        def risk(weight: Tensor, given: Any = (model, name, law, target)) -> Tensor:
            model, name, law, target = given
            return surprise(functional_call(model, {name: weight}, (x,)), target, law)

        damped: dict[str, Any] = {"damping": 0.01} if law == "classes" else {}  # singular, else
        direction = natural_gradient(model, x, target, law=law, **damped)[name]
        H, fisher = jacrev(grad(risk))(start), fisher_information(model, x, law=law)
        exact = expected_squares(model, x, law)
        Newton([weight], **damped).step(lambda at=weight, risk=risk: risk(at).backward())
        found = fisher, H, exact, torch.from_numpy(direction.numpy()), start - weight.detach()
        cases.append([one.flatten() for one in found])
    fisher, H, exact, direction, step = (torch.cat(one) for one in zip(*cases, strict=True))
    net = MLP([dim + 1, 4, classes], activation="tanh", rng=rng).double()
    left, right = (one.view(classes * (dim + 1), -1) for one in cases[1][:2])  # of all classes
    return every({
        "Fisher information and Hessian": equal(
            fisher, H, tol=1e-12 * float(H.abs().max()), why="rounding, relative to the largest"
        ).drawn(
            Matrix(torch.cat([left, left[:, :1] * math.nan, right], dim=1), signed=True),
            x="weight (left: the Fisher information, right: the Hessian)", y="weight",
        ),
        "its definition": equal_to_rounding(
            torch.cat([fisher, fisher_information(net, x).flatten()]),
            torch.cat([exact, expected_squares(net, x, "classes").flatten()]),
        ),
        "natural gradient and Newton's step": equal_to_rounding(direction, step),
    })

r"""Preconditioning: what is true of it, and what would refute it."""

import math
from typing import Annotated, Any, Literal, cast

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
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.mathematics.taylor import newton
from principia.networks.linear_dynamics import Whitener
from principia.optimization.gradient_descent import best_fixed_lr, descend
from principia.optimization.preconditioning import (
    RESIDUAL,
    Law,
    Newton,
    PreconditionedGD,
    fisher_information,
    logits_of,
    natural_gradient,
    relative_conditioning,
    surprise,
)
from principia.optimization.problems import LogisticRisk, Problem, Quadratic, Saddle
from principia.optimization.sgd import SampledSquares, per_sample_gradients


@claim(
    control={"form": "printed"},
    refutes=["η = 9 converges"],
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
    return every({
        "factor of a step": equal(
            found, list(rates.values()), tol=1e-6, why="rounding, times the condition of A"
        ).drawn(
            *(Series(f"η = {eta:.3g}", t, worst[eta], "other", "points") for eta in shown),
            *(Series(f"factor {rates[eta]:.3g}", t, rates[eta] ** t, "predicted") for eta in shown),
            x="step", y="largest error in the norm of A, from 1", log="y",
        ),
        f"η = {longest:.3g} converges": at_most(
            worst[longest][-1], 1, why="what is allowed must not leave errors larger than before"
        ),
        "relative_conditioning": equal(
            relative_conditioning(A, H), [a, 1.0], tol=1e-9, why="rounding, times the condition"
        ),
        "diagonal and function": equal_to_rounding(
            torch.stack(forms), torch.stack([_path(small, 0.5, scales.sqrt().diag(), 5)] * 2)
        ),
    })


def _path(problem: Problem, lr: float, preconditioner: Any, steps: int) -> Tensor:
    """Give all points (T, B, D) of preconditioned descent from where the problem is."""
    problem = problem.at(problem.theta)
    optimizer = PreconditionedGD(problem.parameters(), lr, preconditioner)
    return descend(problem, optimizer, steps, record=("theta",))["theta"]


@claim(
    control={"inner": 2},
    refutes=["relative difference"],
    source="Hestenes and Stiefel 1952; Nocedal and Wright 2006, sec. 7.1",
)
def newton_cg_is_newton(
    seed: Seed, *, dim: Annotated[int, Range(4, 64)] = 64,
    samples: Annotated[int, Range(200, 1000)] = 300, l2: Annotated[float, Range(0.01, 1)] = 0.01,
    inner: Annotated[int, Range(1, 200)] = 64,
) -> Evidence:
    r"""Conjugate gradients on products with the Hessian give Newton's step, without the Hessian."""
    rng = seed.torch()
    X, noise = randn(rng, samples, dim), randn(rng, samples)
    risk = LogisticRisk(X, (X[:, 0] + noise > 0).long(), l2=l2).at(randn(rng, 1, dim) / dim**0.5)
    x = risk.theta.detach()[0]
    step, H = _newton_step(risk), jacrev(grad(risk.value))(x)
    curvatures = torch.linalg.eigvalsh(H)
    root = float((curvatures[-1] / curvatures[0]).sqrt())

    def length(v: Tensor) -> Tensor:
        return (v @ H @ v).sqrt() / (step @ H @ step).sqrt()

    counts = sorted({1, 2, 3, 4, 6, 8, 12, 16, 24, inner})
    short = [_newton_step(risk, dense=0, inner=one) for one in counts]
    errors = [float(length(one - step)) for one in short]
    bounds = [min(1.0, 2 * ((root - 1) / (root + 1)) ** one) for one in counts]
    gap = (short[counts.index(inner)] - step).norm() / step.norm()
    dented = Saddle(2).at(torch.tensor([[0.1, 0.3]]))  # it bends down along its gradient
    why = f"at a residual of {RESIDUAL:g} it stops, times the condition number"
    return every({
        "relative difference": at_most(gap, 1e-6, why=why).drawn(
            Series("conjugate gradients", counts, [max(one, 1e-17) for one in errors]),
            Series("2((√κ − 1)/(√κ + 1))ᵏ", counts, bounds, "bound"),
            x="inner steps k", y="distance from Newton's step, in the norm of H", log="y",
        ),
        "theory": at_most(errors, bounds, slack=1e-9, why="a theorem, but for its end by rounding"),
        "the step of the Taylor page": equal_to_rounding(
            step, x - newton(risk.value, x, 1, 0, False)[1]
        ),
        "where the curvature is negative": at_most(
            -dented.gradient(dented.theta)[0] @ _newton_step(dented, dense=0), 0, why="downhill"
        ),
    })


def _newton_step(problem: Problem, **options: Any) -> Tensor:
    """Give what one step of Newton's method subtracts."""
    twin = problem.at(problem.theta)
    descend(twin, Newton(twin.parameters(), **options), 1, at=[1])
    return (problem.theta - twin.theta).detach()[0]


@claim(
    controls=[
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
    curvatures = torch.linalg.eigvalsh(moment)

    def norms(problem: Problem, lr: float, steps: int) -> Tensor:
        optimizer = SGD(problem.parameters(), lr=lr)
        return descend(problem, optimizer, steps, record=("gradient_norm",))["gradient_norm"][:, 0]

    best = best_fixed_lr(float(curvatures[-1]), float(curvatures[0]))
    raw = norms(SampledSquares(X, y).at(start), best, 20)
    one = norms(chosen, 1.0, 3)
    white = _path(SampledSquares(Z, y), 0.5, None, 10)[:, 0] @ Z.mT
    divided = _path(SampledSquares(X, y), 0.5, torch.linalg.cholesky(moment), 10)[:, 0] @ X.mT
    floor = 1e-15  # to draw what rounding leaves
    return every({
        "gradient after one step of size 1": at_most(
            one[1], 1e-10, why="rounding of targets up to 346 and their mean products"
        ).drawn(
            Series(f"{inputs}, η = 1", range(4), one.clamp(min=floor)),
            Series("raw, best η", range(21), raw.clamp(min=floor), "other"),
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
    dim: Annotated[int, Range(1, 20)] = 5, classes: Annotated[int, Range(2, 6)] = 2,
    link: Literal["logistic", "squared loss on a sigmoid"] = "logistic",
) -> Evidence:
    r"""Logistic regression: the Fisher information is the Hessian, whatever the labels."""
    rng, outputs = seed.torch(), 1 if classes == 2 else classes
    x = F.pad(randn(rng, samples, dim), (0, 1), value=1.0)  # the bias is the weight of a 1
    y: Tensor = torch.randint(classes, (samples,), generator=rng)
    line, law = nn.utils.skip_init(nn.Linear, dim + 1, outputs, bias=False), cast("Law", "classes")
    line.weight = nn.Parameter(randn(rng, outputs, dim + 1) / dim**0.5)
    model = line if link == "logistic" else nn.Sequential(line, nn.Sigmoid())
    if link != "logistic":
        law, y = "normal", F.one_hot(y, classes)[:, -outputs:].double()
    ((name, weight),), size = model.named_parameters(), line.weight.numel()
    start = weight.detach().clone()

    def risk(weight: Tensor) -> Tensor:
        return surprise(functional_call(model, {name: weight}, (x,)), y, law)

    fisher, H = fisher_information(model, x, law=law), jacrev(grad(risk))(start).view(size, size)
    expected = _expected_squares(model, x, law)
    direction = natural_gradient(model, x, y, law=law, damping=0.01)[name]
    Newton([weight], damping=0.01).step(lambda: risk(weight).backward())
    ends = [float(H.min()), float(H.max())]
    return every({
        "Fisher information and Hessian": equal(
            fisher, H, tol=1e-12 * float(H.abs().max()), why="rounding, relative to the largest"
        ).drawn(
            Series("entries", H.flatten(), fisher.flatten()), Series("equal", ends, ends, "bound"),
            x="entry of the Hessian", y="entry of the Fisher information",
        ),
        "its definition": equal_to_rounding(fisher, expected),
        "natural gradient and Newton's step": equal_to_rounding(direction, start - weight.detach()),
    })


def _expected_squares(model: nn.Module, x: Tensor, law: Law) -> Tensor:
    """Sum the squared scores over all y, weighted as the model predicts: what Fisher defined."""
    z = model(x).detach()
    if law == "normal":  # two values one standard deviation from one mean have the same moments
        cases = [(z + sign * one, z.new_full((len(z),), 0.5))
                 for one in torch.eye(z.shape[1]).to(z) for sign in (-1, 1)]
    else:
        p = logits_of(z).softmax(1)
        cases = [(torch.full((len(z),), k), p[:, k]) for k in range(p.shape[1])]
    total = 0
    for y, weight in cases:
        scores = per_sample_gradients(model, lambda out, y: surprise(out, y, law), x, y)
        total = total + scores.mT @ (weight[:, None] * scores)
    return cast("Tensor", total) / len(x)

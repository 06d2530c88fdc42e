r"""Taylor expansion: what is true of it, and what would refute it.

Knobs:
    order: The last order of the polynomial.
    function: The function that is drawn or tried; $|x-a|^{2.5}$ has too few derivatives at its
        kink.
    a: The point around which the function is expanded.
    first: The order from which the sum begins; from 1 it lacks the value at the point.
    distance: How far from the point the rest is measured.
    kernel: What the derivative is multiplied by in the integral; it needs the power n.
    m: Order of the polynomial whose rest is measured.
    points: Points at which derivatives are compared.
    orders: The orders that are claimed, forward and central; prints say one too many of each.
    eps: The step of a difference; one that is far too small drowns in rounding.
    dim: Numbers that the function takes.
    factor: What stands before the quadratic term; with 1 the curvature counts twice.
    bend: How far the curved path swings aside of the straight one.
    field: What is integrated; with a curl it is no gradient, and paths differ.
    condition: Largest over least eigenvalue of the Hessian; gradient steps are slow where it is
        large.
    rule: How the steps are made; gradient steps neither arrive at once nor are alike in all
        coordinates.
    samples: Samples of the logistic regression whose loss is minimized.
    l2: Weight of the squared norm that is added to the loss.
    hessian: Whether each step has a new Hessian; with the first one errors fall only at a rate.
    stretch: Largest over least factor by which A stretches a vector.
    steps: How many steps are taken.
"""

import functools
import math
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor
from torch.autograd.gradcheck import GradcheckError
from torch.func import grad, vmap
from torch.nn import functional as F

import principia.mathematics._smooth_zoo as zoo
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
)
from principia.lab.params import Range, UsageError
from principia.lab.seeds import Seed
from principia.mathematics.matrix_calculus import jacobian
from principia.mathematics.taylor import (
    Function,
    Method,
    TaylorPolynomial,
    best_step,
    finite_difference,
    gradient_check,
    integral_remainder,
    integrated,
    newton,
    quadratic_model,
    quadrature,
    remainder,
    taylor_coefficients,
)

Dim = Annotated[int, Range(2, 30)]
FunctionName = Literal["exp", "sin", "log(1+x)", "1/(1-x)"]


@claim(
    control={"first": "1"},
    refutes=["sin: polynomial", "exp: polynomial", "log(1+x): polynomial", "1/(1-x): polynomial"],
    source="Taylor 1715",
)
def taylor_coefficients_claim(
    seed: Seed, *, order: Annotated[int, Range(1, 10)] = 8, function: FunctionName = "sin",
    a: Annotated[float, Range(-0.6, 0.6)] = 0.3, first: Literal["0", "1"] = "0",
) -> Evidence:
    r"""exp, sin, log(1+x), 1/(1−x) have known $f^{(k)}(a)/k!$, and $P=\sum_{k\ge0}c_k(x-a)^k$."""
    points = torch.cat([randn(seed.torch(), 5).clamp(-2, 2) * 0.3, torch.tensor([a]).double()])
    parts = {}
    for name in sorted(zoo.KNOWN, key=lambda one: one != function):  # the chosen one is drawn
        f, exact = zoo.KNOWN[name]
        found = taylor_coefficients(f, points, order)
        predicted = torch.stack([exact(points, k) for k in range(order + 1)])
        reach = 3.0 if name in ("exp", "sin") else 0.35  # the others have a pole, at -1 or 1
        x = points + reach * torch.linspace(-1, 1, 41, dtype=points.dtype)[:, None]
        powers = torch.stack([(x - points) ** k for k in range(order + 1)])
        total = (predicted[:, None] * powers)[int(first):].sum(dim=0)
        polynomial, seen = TaylorPolynomial(found, points)(x), x[:, -1]
        low = [Series(f"order {m}", seen, TaylorPolynomial(found[: m + 1, -1], a)(seen), "other")
               for m in (1, 2)]
        parts |= {
            f"{name}: polynomial": equal_to_rounding(polynomial, total).drawn(
                Series(name, seen, f(seen), "predicted"), *low,
                Series(f"sum from k = {first}", seen, total[:, -1], "other"),
                Series(f"order {order}", seen, polynomial[:, -1]),
                x="x", y="f and its polynomials at a",
            ),
            f"{name}: coefficients": equal_to_rounding(found, predicted),
        }
    cube = torch.stack([points**3, 3 * points**2, 3 * points, 0 * points + 1, 0 * points])
    one = torch.eye(5)[:, :1].expand_as(cube)
    w = torch.ones((), requires_grad=True)  # of a function that has parameters
    found = [taylor_coefficients(f, points, 4) for f in (lambda x: w * x * x * x, torch.ones_like)]
    polynomials = equal_to_rounding(torch.stack(found), torch.stack([cube, one]))
    return every({**parts, "of polynomials": polynomials})


@claim(
    control={"kernel": "(x-t)/n!"}, source="Apostol 1967, sec. 7.5",
    misprint=r"$R_n=\int f^{(n+1)}(t)\,(x-t)/n!\,dt$, without the power $n$",
)
def integral_remainder_claim(
    seed: Seed, *, a: Annotated[float, Range(-0.5, 0.3)] = 0.0,
    distance: Annotated[float, Range(0.1, 0.6)] = 0.5, function: FunctionName = "exp",
    kernel: Literal["(x-t)^n/n!", "(x-t)/n!"] = "(x-t)^n/n!",
) -> Evidence:
    r"""$f(x)=P_n(x)+\int_a^xf^{(n+1)}(t)\frac{(x-t)^n}{n!}dt$."""
    begin = torch.tensor([a], dtype=torch.float64) + 0.05 * torch.rand(4, generator=seed.torch())
    x, orders, parts = begin + distance, range(6), {}
    for name in sorted(zoo.KNOWN, key=lambda one: one != function):
        f, _ = zoo.KNOWN[name]
        rest = torch.stack([remainder(f, begin, x, n) for n in orders])
        found = torch.stack([
            integral_remainder(f, begin, x, n) if kernel == "(x-t)^n/n!" else
            integrated(f, begin, x, n, lambda gap, n=n: gap / math.factorial(n)) for n in orders
        ])
        why = "64 nodes integrate functions analytic around the interval to rounding"
        parts[name] = equal(
            found, rest, tol=1e-9 * (1 + float(f(x).abs().max())), why=why
        ).drawn(
            Series("the integral", orders, found[:, 0].abs()),
            Series("f(x) − P(x)", orders, rest[:, 0].abs(), "predicted"),
            x="order n", y="size of the rest", log="y",
        )
    return every(parts)


@claim(
    control={"function": "|x-a|^2.5"}, refutes=["order", "between least and most"],
    source="Apostol 1967, sec. 7.7; Lagrange 1797",
)
def lagrange_remainder(
    seed: Seed, *, m: Annotated[int, Range(1, 3)] = 3, a: Annotated[float, Range(0.2, 0.6)] = 0.4,
    function: Literal["exp", "sin", "log(1+x)", "1/(1-x)", "|x-a|^2.5"] = "exp",
) -> Evidence:
    r"""$R_m=f^{(m+1)}(\xi)\,(x-a)^{m+1}/(m+1)!$ for a $\xi$ in between: of order $(x-a)^{m+1}$."""
    smooth = function in zoo.KNOWN
    f: Function = zoo.KNOWN[function][0] if smooth else lambda x: (x - a).square() ** 1.25
    gaps = torch.logspace(-2.5, -1.7, 9, dtype=torch.float64)
    gaps = gaps * (1 + 0.01 * torch.rand(9, generator=seed.torch()))
    # at its kink only two derivatives exist, and these are 0: so is the polynomial
    rest = remainder(f, a, a + gaps, m) if smooth else f(a + gaps)
    between = torch.linspace(0, 1, 201, dtype=gaps.dtype)[1:, None]  # at a itself it may not exist
    bounds = taylor_coefficients(f, a + gaps * between, m + 1)[-1] * gaps ** (m + 1)
    rounding = 16 * torch.finfo(gaps.dtype).eps * float(f(a + gaps).abs().max())
    outside = torch.maximum(bounds.amin(dim=0) - rest, rest - bounds.amax(dim=0))
    return every({
        "order": slope(
            gaps, rest.abs(), m + 1, tol=0.05, why="the next term bends the line by x - a",
            labels=("x − a", "size of the rest"),
        ),
        "between least and most": at_most(outside, 0.0, slack=rounding, why="rounding of f and P"),
    })


@claim(
    control={"orders": "2 and 3"}, refutes=["forward", "central"],
    source="Nocedal and Wright 2006, sec. 8.1",
    misprint=r"forward differences err by $O(\epsilon^2)$, central ones by $O(\epsilon^3)$",
)
def finite_difference_orders(
    seed: Seed, *, points: Annotated[int, Range(1, 200)] = 20, function: FunctionName = "sin",
    orders: Literal["1 and 2", "2 and 3"] = "1 and 2",
) -> Evidence:
    r"""Forward differences err by $O(\epsilon)$, central ones by $O(\epsilon^2)$."""
    rng = seed.torch()
    x = 0.2 + 0.2 * torch.rand(points, generator=rng, dtype=torch.float64)
    steps = torch.logspace(-1, -3, 13, dtype=x.dtype)
    methods: tuple[Method, ...] = ("forward", "central")
    curves, parts = [], {}
    for method, order in zip(methods, map(int, orders.split(" and ")), strict=True):
        errors = _difference_errors(function, x, steps, method)
        line = errors[0] * (steps / steps[0]) ** order
        why = "the next term bends the line by the step"
        parts[method] = slope(steps, errors, order, tol=0.05, why=why)
        curves += [Series(method, steps, errors), Series(f"ε^{order}", steps, line, "predicted")]
    # of WX², row by row of X, a forward difference errs by εW, a central one not at all
    X, W, same = randn(rng, 2, 150), randn(rng, 3, 150), torch.eye(2).double()
    exact, more = (torch.einsum("kc,rc,rs->krsc", W, one, same) for one in (2 * X, X**0))
    found = functools.partial(finite_difference, lambda X: W @ X.square().mT, X, 0.5)
    some = found(coordinates=torch.tensor([277, 3])) - exact.flatten(2)[..., [277, 3]]
    gaps = [found(method="forward") - exact - 0.5 * more, found() - exact, some]
    # of x² and x³ at 0 they are ε and ε²: what ε is by default, in units of the best
    steps = [finite_difference(torch.square, at, method="forward") for at in zoo.ZEROS]
    steps += [finite_difference(lambda x: x**3, at).sqrt() for at in zoo.ZEROS]
    powers = [torch.finfo(at.dtype).eps ** power for power in (1 / 2, 1 / 3) for at in zoo.ZEROS]
    units = [float(step) / one for step, one in zip(steps, powers, strict=True)]
    return every({
        **parts,
        "of tensors": equal_to_rounding(torch.cat([one.flatten() for one in gaps]), 0.0),
        "steps by default": equal(units, 1.0, tol=1e-6, why="rounding in float32"),
    }).drawn(*curves, x="step ε", y="relative error", log="xy")


def _difference_errors(name: str, x: Tensor, steps: Tensor, method: Method) -> Tensor:
    """Measure the error of differences, a root mean square over points, for every step."""
    f, exact = zoo.KNOWN[name]

    def at_all(eps: float) -> Tensor:
        return vmap(lambda one: finite_difference(f, one, eps, method))(x)

    found = torch.stack([at_all(float(eps)) for eps in steps])
    return (found / exact(x, 1) - 1).square().mean(dim=1).sqrt()


@claim(
    control={"eps": "1e-12"}, refutes=["forward: error", "central: error"],
    source="Nocedal and Wright 2006, sec. 8.1",
)
def finite_difference_floor(
    seed: Seed, *, points: Annotated[int, Range(50, 500)] = 200, function: FunctionName = "sin",
    eps: Literal["best", "1e-12"] = "best",
) -> Evidence:
    r"""Rounding adds $u/\epsilon$: the best step is near $u^{1/2}$ forward, $u^{1/3}$ central."""
    x = 0.2 + 0.4 * torch.rand(points, generator=seed.torch(), dtype=torch.float64)
    steps = torch.logspace(-13, -1, 49, dtype=x.dtype)
    f, parts, curves = zoo.KNOWN[function][0], {}, []
    goals: dict[Method, float] = {"forward": 1e-7, "central": 1e-9}
    inputs = x[:15].view(5, 3)
    *layers, missed = zoo.layers(seed.child("weights").torch(), inputs)
    for method, goal in goals.items():
        errors = _difference_errors(function, x, steps, method)
        best, small = float(steps[errors.argmin()]), steps < 1e-9
        found = gradient_check(f, x, eps=None if eps == "best" else float(eps), method=method)
        curves.append(Series(method, steps, errors, "measured" if method == "central" else "other",
                             "points"))
        modules = [gradient_check(one, inputs, method=method) for one in layers]
        parts |= {
            f"{method}: modules": equal(
                modules, [0, missed], tol=1e-6, why="a few times u^(1/2) or u^(2/3)"
            ),
            f"{method}: error": at_most(found, goal, why="a few times u^(1/2) or u^(2/3)"),
            f"{method}: wrong gradients": equal(
                [gradient_check(wrong, x, method=method) for wrong in zoo.WRONG],
                [0.5, 1 / (1 + 2 * float(x.max()))], tol=1e-6, why="a few times u^(1/2)",
            ),
            f"{method}: distance to the best step": at_most(
                abs(math.log(best / best_step(x, method))), math.log(30),
                why="f'' or f''' moves it by their own size, and so does luck in rounding",
            ),
            f"{method}: rounding": slope(
                steps[small], errors[small], -1, tol=0.2, labels=("step ε", "error"),
                why="a step is rounded alike at all points, which luck does not average",
            ),
        }
        guide = Series(f"best, {method}", [best_step(x, method)] * 2, [1e-12, 1e-2], "predicted")
        curves.append(guide)
    restless = _refused(gradient_check, zoo.Restless(), inputs)
    parts["restless gradients, refused"] = never(not restless, of=1, why="they are no derivatives")
    return every(parts).drawn(*curves, x="step ε", y="relative error", log="xy")


def _refused(component: Callable[..., object], *arguments: object) -> bool:
    """Tell whether a component complains in its words, or in those of gradcheck."""
    try:
        component(*arguments)
    except (UsageError, GradcheckError):
        return True
    return False


@claim(
    control={"factor": "1"}, refutes=["quadratic"], source="Nocedal and Wright 2006, th. 2.1",
    misprint=r"$f(x_0)+g^\top d+d^\top Hd$, without the factor $\frac12$",
)
def second_order_model(
    seed: Seed, *, dim: Dim = 10, factor: Literal["1/2", "1"] = "1/2",
) -> Evidence:
    r"""$f(x_0)+g^\top d+\frac12d^\top Hd$ is exact on quadratics, elsewhere up to order 3."""
    rng = seed.torch()
    A, b, x0, d = (randn(rng, *one) for one in ((dim, dim), (dim,), (dim,), (200, dim)))

    def quadratic(x: Tensor) -> Tensor:
        return 3 + x @ b + x @ A @ x / 2

    def bent(x: Tensor) -> Tensor:
        return (A @ x / dim**0.5).logsumexp(dim=0)

    curvature = torch.einsum("bi,ij,bj->b", d, (A + A.mT) / 2, d)
    term = curvature if factor == "1" else curvature / 2
    model = quadratic_model(quadratic, x0)(d) + (term - curvature / 2)
    truth, lengths = vmap(quadratic)(x0 + d), torch.logspace(-1, -3, 9, dtype=d.dtype)
    near = lengths[:, None, None] * F.normalize(d, dim=1)
    numbers = quadratic_model(quadratic, x0.clone().requires_grad_())(d)
    gaps = (quadratic_model(bent, x0)(near) - vmap(vmap(bent))(x0 + near)).square().mean(1).sqrt()
    return every({
        "quadratic": equal_to_rounding(model, truth).drawn(
            Series("f", curvature, truth - model + term),
            Series(f"{factor} d'Hd", curvature, term, "predicted"), x="d'Hd", y="f minus tangent",
        ),
        "log-sum-exp": slope(
            lengths, gaps, 3, tol=0.05, why="the next term bends the line by the length of d",
            labels=("length of d", "error of the model"),
        ),
        "no graph to x0": never(numbers.requires_grad, of=1, why="a model is built at one point"),
    })


@claim(
    control={"field": "with curl"}, refutes=["straight", "curved", "the rate on the way"],
    source="Apostol 1969, ch. 10",
)
def line_integral(
    seed: Seed, *, dim: Dim = 5, bend: Annotated[float, Range(0.2, 2)] = 1.0,
    field: Literal["gradient", "with curl"] = "gradient",
) -> Evidence:
    r"""$f(y)-f(x)=\int_0^1\nabla f(\gamma(t))^\top\dot\gamma(t)\,dt$ along every path."""
    rng = seed.torch()
    W, x, y, aside = (randn(rng, *one) for one in ((8, dim), (dim,), (dim,), (dim,)))
    curl = torch.zeros(dim, dim, dtype=W.dtype)
    if field == "with curl":
        curl[0, 1], curl[1, 0] = 1.0, -1.0

    def f(x: Tensor) -> Tensor:
        return (x @ W.mT / dim**0.5).sin().logsumexp(dim=-1)

    def path(t: Tensor, size: float) -> Tensor:
        return x + t[..., None] * (y - x) + size * (math.pi * t).sin()[..., None] * aside

    t, weights = quadrature()
    rates, slopes, parts = {}, [], {}
    for name, size in (("straight", 0.0), ("curved", bend)):
        along: Function = lambda t, size=size: f(path(t, size))  # noqa: E731
        velocity = y - x + size * math.pi * (math.pi * t).cos()[:, None] * aside
        vectors = vmap(grad(f))(path(t, size)) + path(t, size) @ curl.mT
        rates[name] = (vectors * velocity).sum(dim=1)
        slopes.append(taylor_coefficients(along, t, 1)[1])  # of f on the way, a function of t
        parts[name] = equal(
            weights @ rates[name], remainder(along, 0.0, 1.0, 0), tol=1e-9,
            why="64 nodes integrate functions analytic around the path to rounding",
        )
    rise = float(f(y) - f(x))
    straight, curved = ((weights * one).cumsum(0) for one in rates.values())
    parts["curved"] = parts["curved"].drawn(
        Series("straight", t, straight, "other", "line"), Series("curved", t, curved, style="line"),
        Series("f(y) − f(x)", [0, 1], [rise, rise], "predicted"), x="t", y="integral up to t",
    )
    rate = equal_to_rounding(torch.stack(list(rates.values())), torch.stack(slopes))
    return every({**dict(reversed(parts.items())), "the rate on the way": rate})


@claim(
    control={"rule": "gradient step 1/L"}, refutes=["one step"],
    source="Nocedal and Wright 2006, sec. 3.3",
)
def newton_on_quadratic(
    seed: Seed, *, dim: Dim = 10, condition: Annotated[float, Range(10, 1000)] = 100.0,
    rule: Literal["newton", "gradient step 1/L"] = "newton",
) -> Evidence:
    r"""On a convex quadratic one step $-(\nabla^2f)^{-1}\nabla f$ reaches the minimum."""
    rng = seed.torch()
    Q = torch.linalg.qr(randn(rng, dim, dim)).Q
    H = Q @ torch.logspace(0, -math.log10(condition), dim, dtype=Q.dtype).diag() @ Q.mT
    best, x0, eye = randn(rng, dim), randn(rng, dim), torch.eye(dim, dtype=Q.dtype)

    def f(x: Tensor) -> Tensor:
        return (x - best) @ H @ (x - best) / 2

    gradients, units = [x0], torch.logspace(-6, 6, dim, dtype=Q.dtype)
    for _ in range(10):
        gradients.append(gradients[-1] - grad(f)(gradients[-1]))  # L = 1
    plain, searched = (newton(f, x0, 3, line_search=one) for one in (False, True))
    scaled = units * newton(lambda z: 1e-40 * f(units * z), x0 / units, 1)[1]  # those of f, too
    singular = [_refused(newton, lambda x, c=c: c * x.sum() ** 2 + x @ best, x0, 1)
                for c in (0.0, 1e-40, 1.0)]
    reached = plain[1] if rule == "newton" else gradients[1]
    heights = [[float(f(x)) + 1e-32 for x in trace] for trace in (gradients, plain)]
    return every({
        "one step": equal_to_rounding(reached, best).drawn(
            Series("gradient steps 1/L", range(11), heights[0], "other"),
            Series("Newton", range(4), heights[1]), x="step", y="f above its minimum", log="y",
        ),
        "with line search": equal_to_rounding(searched[1], best),
        "in other units": equal_to_rounding(scaled, best),
        "damped": equal_to_rounding(
            newton(f, x0, 1, damping=0.5)[1],
            x0 - torch.linalg.solve(H + 0.5 * eye, H @ (x0 - best))),
        "indefinite": equal_to_rounding(  # eigenvalues h − 1 become h − 1 + 2 (1 − 1 / condition)
            newton(lambda x: f(x) - x @ x / 2, x0, 1, line_search=False)[1],
            x0 - torch.linalg.solve(H + (1 - 2 / condition) * eye, H @ (x0 - best) - x0),
        ),
        "singular, refused": never(np.logical_not(singular), why="there is no step to take"),
    })


@claim(
    control={"hessian": "frozen"}, refutes=["exponent"], source="Nocedal and Wright 2006, th. 3.5",
)
def newton_quadratic_convergence(
    seed: Seed, *, samples: Annotated[int, Range(50, 400)] = 100,
    dim: Annotated[int, Range(2, 10)] = 5, l2: Annotated[float, Range(0.01, 1)] = 0.1,
    hessian: Literal["new", "frozen"] = "new",
) -> Evidence:
    r"""Near a minimum $e_{t+1}=O(e_t^2)$: each step doubles the number of right digits."""
    rng = seed.torch()
    f = zoo.logistic(rng, samples, dim, l2)
    best = newton(f, torch.zeros(dim, dtype=torch.float64), 30)[-1]
    befores, afters = [], []
    for x0 in best + F.normalize(randn(rng, 12, dim), dim=1):
        if hessian == "new":
            trace = newton(f, x0, 6, line_search=False)
        else:
            factor, rows = torch.linalg.cholesky(jacobian(grad(f), x0)), [x0]
            for _ in range(6):
                step = torch.cholesky_solve(grad(f)(rows[-1])[:, None], factor)[:, 0]
                rows.append(rows[-1] - step)
            trace = torch.stack(rows)
        errors = (trace - best).norm(dim=1)
        befores, afters = [*befores, *errors[:-1].tolist()], [*afters, *errors[1:].tolist()]
    before, after = np.array(befores), np.array(afters)
    seen = (after > 1e-12) & (before < 0.5)  # beyond is rounding, before another regime
    rate, level = np.polyfit(np.log(before[seen]), np.log(after[seen]), 1)
    ends = np.array([before[seen].min(), before[seen].max()])
    return every({
        "exponent": at_least(rate, 1.8, why="2 in the limit, and far from it a little less").drawn(
            Series("steps", before[seen], after[seen]),
            Series("fitted", ends, np.exp(level) * ends**rate, "other"),
            Series("square", ends, after[seen].max() * (ends / ends[1]) ** 2, "predicted"),
            x="error before a step", y="error behind it", log="xy",
        ),
        "gradient at the minimum": equal(grad(f)(best), 0, tol=1e-12, why="rounding of a mean"),
        "halved until it is worth it": equal_to_rounding(
            torch.stack([newton(zoo.root, x, 1, line_search=halved)[1, 0]
                         for halved in (True, False) for x in zoo.FAR]),
            [*map(zoo.searched, zoo.FAR[:, 0].tolist()), *(-(zoo.FAR[:, 0] ** 3)).tolist()],
        ),
    })


@claim(control={"rule": "gradient descent"}, source="Boyd and Vandenberghe 2004, sec. 9.5.1")
def newton_affine_invariant(
    seed: Seed, *, dim: Annotated[int, Range(2, 10)] = 4,
    stretch: Annotated[float, Range(2, 30)] = 5.0, steps: Annotated[int, Range(1, 8)] = 6,
    rule: Literal["newton", "gradient descent"] = "newton",
) -> Evidence:
    r"""In coordinates $Ax$ the iterates of Newton's method are $A$ times those in $x$."""
    rng = seed.torch()
    f, x0 = zoo.logistic(rng, 100, dim, 0.1), randn(rng, dim)
    (Q, _), (P, _) = (torch.linalg.qr(randn(rng, dim, dim)) for _ in range(2))
    A = Q @ torch.logspace(0, math.log10(stretch), dim, dtype=Q.dtype).diag() @ P

    def descend(f: Function, x0: Tensor) -> Tensor:
        trace = [x0]
        for _ in range(steps):
            trace.append(trace[-1] - 0.5 * grad(f)(trace[-1]))
        return torch.stack(trace)

    def iterates(f: Function, x0: Tensor) -> Tensor:
        return newton(f, x0, steps) if rule == "newton" else descend(f, x0)

    there = iterates(lambda z: f(torch.linalg.solve(A, z)), A @ x0)
    here = iterates(f, x0) @ A.mT
    return equal_to_rounding(there, here).named("coordinate of an iterate").drawn(
        Series("in coordinates Ax", there[:, 0], there[:, 1]),
        Series("A times those in x", here[:, 0], here[:, 1], "predicted"),
        x="first coordinate of Ax", y="second coordinate of Ax",
    )

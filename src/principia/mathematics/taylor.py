r"""Taylor expansion: what the derivatives at one point tell about all points nearby.

The polynomial with the first $m$ derivatives of $f$ at $a$ misses $f(x)$ by a rest of order
$(x-a)^{m+1}$, which is known exactly: an integral of the next derivative, or its value somewhere in
between. Numerical differentiation reads this backwards. A forward difference drops the term with
$f''$ and errs by $O(\epsilon)$; in a central one it cancels, which leaves $O(\epsilon^2)$; and
rounding adds $u/\epsilon$ to both, so that the smallest step is not the best. Newton's method goes
to the minimum of the polynomial of degree 2: at once where $f$ is quadratic, else with twice as
many digits at each step, and in all coordinates alike.

$$ f(x) = \sum_{k=0}^m\frac{f^{(k)}(a)}{k!}(x-a)^k+R_m, \quad
R_m = \int_a^xf^{(m+1)}(t)\frac{(x-t)^m}{m!}dt = \frac{f^{(m+1)}(\xi)}{(m+1)!}(x-a)^{m+1} $$

$$ \frac{f(x+\epsilon)-f(x)}\epsilon = f'(x)+O(\epsilon+u/\epsilon), \quad
\frac{f(x+\epsilon)-f(x-\epsilon)}{2\epsilon} = f'(x)+O(\epsilon^2+u/\epsilon) $$

$$ f(x_0+d) \approx f(x_0)+g^\top d+\frac12d^\top Hd, \quad
x_{t+1} = x_t-(\nabla^2f(x_t))^{-1}\nabla f(x_t) $$

$$ f(y)-f(x) = \int_0^1\nabla f(\gamma(t))^\top\dot\gamma(t)\,dt, \quad
\gamma(0) = x,\ \gamma(1) = y $$

Symbols:
    $f^{(k)}(a)/k!$: coefficient $k$ of $f$ at $a$, `taylor_coefficients`; `TaylorPolynomial` sums
    $R_m$: rest behind order $m$, `remainder`, and as an integral `integral_remainder`
    $\xi$: some point between $a$ and $x$
    $\epsilon, u$: step `eps` of `finite_difference`, and distance of 1 to the next larger float
    $g, H$: gradient and Hessian at $x_0$; the sum, as a function of $d$, is `quadratic_model`
    $x_t$: row $t$ of `newton`
    $\gamma$: path from $x$ to $y$; $\dot\gamma$ is its velocity

References:
    Taylor (1715), Methodus incrementorum directa et inversa. London: William Innys.
    Nocedal and Wright (2006), Numerical optimization, sec. 2.1, 3.3 and 8.1. Springer.
        doi:10.1007/978-0-387-40065-5
    Boyd and Vandenberghe (2004), Convex optimization, sec. 9.5. Cambridge University Press.
        doi:10.1017/CBO9780511804441
    Apostol (1967), Calculus, volume 1, sec. 7.5 to 7.7. Wiley.
    Apostol (1969), Calculus, volume 2, ch. 10. Wiley.
"""

__all__ = [
    "taylor_coefficients", "TaylorPolynomial", "remainder", "integral_remainder",
    "finite_difference", "gradient_check", "quadratic_model", "newton",
]

import functools
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vjp, vmap
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.domains import Count, NonNegative, Positive, Range
from principia.lab.draws import randn
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_least, at_most, equal, every, identical, slope
from principia.lab.seeds import Seed
from principia.mathematics.matrix_calculus import jacobian

Function = Callable[[Tensor], Tensor]
Point = Shaped[Tensor, "..."] | float
Method = Literal["forward", "central"]
Order = Annotated[int, Range(0, 10)]
Dim = Annotated[int, Range(2, 30)]
FunctionName = Literal["exp", "sin", "log(1+x)", "1/(1-x)"]
NODES = 64  # of Gauss-Legendre quadrature, exact for polynomials up to degree 127
IMAGES = 100  # digits whose mean loss is differentiated
CHUNK = 256  # evaluations that finite differences hold in memory at once
ARMIJO, HALVINGS = 1e-4, 60  # share of the promised decrease that a step must keep; most halvings
GOALS = {  # of the experiment, whatever its budget
    "best_central_error": at_most_goal(1e-9), "forward_order": Range(0.9, 1.1),
    "central_order": Range(1.9, 2.1), "forward_rounding_order": Range(-1.15, -0.85),
    "central_rounding_order": Range(-1.15, -0.85),
}
ZOO: dict[str, tuple[Function, Callable[[Tensor, int], Tensor]]] = {  # f and its coefficient k
    "exp": (torch.exp, lambda a, k: a.exp() / math.factorial(k)),
    "sin": (torch.sin, lambda a, k: (a + k * math.pi / 2).sin() / math.factorial(k)),
    "log(1+x)": (torch.log1p, lambda a, k: -((-1 - a) ** -k) / k if k else a.log1p()),
    "1/(1-x)": (lambda x: 1 / (1 - x), lambda a, k: (1 - a) ** -(k + 1)),
}


@checked
def taylor_coefficients(f: Function, a: Point, order: Order) -> Float[Tensor, "orders ..."]:
    r"""Computes $f^{(k)}(a)/k!$ for $k=0$ up to the order, exactly, by repeated backpropagation.

    Each derivative extends the graph of the one before. Nested forward mode would run the function
    three times as often with each order.

    Args:
        f: A function of one number, which is applied to each entry of a tensor.
        a: One point, or a float64 tensor of points.
        order: The last k.

    Example:
        >>> taylor_coefficients(torch.exp, 0.0, 3)
        tensor([1.0000, 1.0000, 0.5000, 0.1667], dtype=torch.float64)
    """
    t = _double("taylor_coefficients", "a", a).detach().clone().requires_grad_()
    with torch.enable_grad():
        derivatives = [f(t)]
        if derivatives[0].shape != t.shape:
            got = f"shape {tuple(derivatives[0].shape)} for {tuple(t.shape)}"
            hint = "It must treat every entry alike: take torch.exp, not torch.sum."
            raise refuse("taylor_coefficients", "f", "a function of each entry", got, hint)
        for _ in range(order):
            last = derivatives[-1]
            if last.requires_grad:
                (last,) = torch.autograd.grad(
                    last.sum(), t, create_graph=True, materialize_grads=True
                )
            else:  # a constant
                last = torch.zeros_like(t)
            derivatives.append(last)
    return torch.stack([one.detach() / math.factorial(k) for k, one in enumerate(derivatives)])


@final
class TaylorPolynomial:
    r"""Evaluates $\sum_kc_k(x-a)^k$ by Horner's rule, with one product for each order.

    Args:
        coefficients: $c_0$ to $c_m$, one a row; rows may hold many polynomials.
        a: The point, or one for each polynomial.

    Example:
        >>> sine = TaylorPolynomial(taylor_coefficients(torch.sin, 0.0, 3), 0.0)
        >>> sine(torch.tensor([0.0, 0.6], dtype=torch.float64))
        tensor([0.0000, 0.5640], dtype=torch.float64)
    """

    def __init__(self, coefficients: Float[Tensor, "orders ..."], a: Point) -> None:
        self.coefficients, self.a = coefficients, _double("TaylorPolynomial", "a", a)

    def __call__(self, x: Point) -> Float[Tensor, "..."]:
        """Sum the powers of x - a, from the highest down."""
        d = _double("TaylorPolynomial", "x", x) - self.a
        terms = self.coefficients.flip(0)
        return functools.reduce(lambda total, c: total * d + c, terms, torch.zeros_like(d))


@checked
def remainder(f: Function, a: Point, x: Point, m: Order) -> Float[Tensor, "..."]:
    r"""Measures what the polynomial of order m at a misses at x: $R_m=f(x)-P_m(x)$.

    Example:
        >>> remainder(torch.exp, 0.0, 1.0, 2)
        tensor(0.2183, dtype=torch.float64)
    """
    a, x = _double("remainder", "a", a), _double("remainder", "x", x)
    return f(x) - TaylorPolynomial(taylor_coefficients(f, a, m), a)(x)


@checked
def integral_remainder(
    f: Function, a: Point, x: Point, m: Annotated[int, Range(0, 9)]
) -> Float[Tensor, "..."]:
    r"""Integrates $R_m=\int_a^xf^{(m+1)}(t)(x-t)^m/m!\,dt$ by Gauss-Legendre quadrature.

    It is exact up to rounding where f is analytic well around the interval. Where $f(x)$ and its
    polynomial almost agree it keeps the digits that their difference loses.

    Example:
        >>> integral_remainder(torch.exp, 0.0, 1.0, 2)
        tensor(0.2183, dtype=torch.float64)
    """
    a, x = (_double("integral_remainder", name, one) for name, one in (("a", a), ("x", x)))
    return _integrated(f, a, x, m, lambda gap: gap**m / math.factorial(m))


@checked
@torch.no_grad()
def finite_difference(
    f: Function, x: Shaped[Tensor, "..."], eps: Positive | None = None, method: Method = "central",
    *, coordinates: Int[Tensor, " k"] | None = None,
) -> Float[Tensor, "..."]:
    r"""Estimates derivatives by differences, one coordinate at a time, all of them batched.

    Args:
        f: A function of x that `torch.func.vmap` can batch.
        x: Where: a tensor of floats.
        eps: The step; by default $u^{1/2}$ forward and $u^{1/3}$ central, with $u$ of the dtype.
        method: One step ahead, or one ahead and one back: an order better for twice the price.
        coordinates: Which entries of the flattened x to move; by default all.

    Returns:
        Derivatives in the shape of the value of f followed by that of x, or by (k,).

    Example:
        >>> finite_difference(lambda x: x.square().sum(), torch.tensor([1.0, 2.0])).round()
        tensor([2., 4.])
    """
    _need_floats("finite_difference", x)
    eps = _best_step(x, method) if eps is None else eps
    flat, places = x.flatten(), torch.arange(x.numel(), device=x.device)
    chosen = places if coordinates is None else coordinates
    if not bool(((chosen >= 0) & (chosen < x.numel())).all()):
        domain = f"each in [0, {x.numel() - 1}], for x has {x.numel()} entries"
        raise refuse("finite_difference", "coordinates", domain, chosen.tolist())

    def moved(place: Tensor, by: float) -> Tensor:
        return f((flat + by * (places == place).to(flat)).view(x.shape))

    try:
        ahead, back = (
            vmap(moved, in_dims=(0, None), chunk_size=CHUNK)(chosen, by)
            for by in (eps, -eps if method == "central" else 0.0)
        )
    except RuntimeError as error:
        if "randomness" not in str(error):
            raise
        hint = "Of a network with dropout, call .eval() first."
        raise refuse("finite_difference", "f", "a function without dice", "random", hint) from error
    columns = (ahead - back).movedim(0, -1) / (2 * eps if method == "central" else eps)
    return columns if coordinates is not None else columns.reshape((*columns.shape[:-1], *x.shape))


@checked
def gradient_check(
    f: Function, x: Shaped[Tensor, "..."], eps: Positive | None = None, method: Method = "central"
) -> float:
    r"""Compares backpropagation with differences: the largest error, in units of the largest entry.

    Of an `nn.Module`, in float64, all outputs are differentiated by the input and all parameters,
    and `torch.autograd.gradcheck` looks at the rest, such as derivatives that differ from call to
    call; its complaint is raised as it is.

    Args:
        f: A function of x, or a module without dice (`.eval()`).
        x: Where: a tensor of floats.
        eps: The step; by default the best for dtype and method.
        method: Which difference.

    Example:
        >>> gradient_check(lambda x: x.sin().prod(), torch.ones(3, dtype=torch.float64)) < 1e-9
        True
    """
    _need_floats("gradient_check", x)
    x, split = x.detach(), None
    if isinstance(f, nn.Module):
        f, x, split = _of_everything(f, x)
    exact, measured = jacrev(f)(x), finite_difference(f, x, eps, method)
    scale = max(float(exact.abs().max()), float(measured.abs().max()))
    error = float((exact - measured).abs().max()) / scale if scale > 0 else 0.0
    if split is not None and math.isfinite(error):
        leaves = [one.clone().requires_grad_() for one in split(x)]
        # not the error again: so wide that only a fault of another kind is refused
        torch.autograd.gradcheck(
            lambda *parts: f(torch.cat([one.flatten() for one in parts])), leaves,
            eps=eps or _best_step(x, "central"), atol=(10 * error + 1e-6) * scale, rtol=0.0,
        )
    return error


def quadratic_model(f: Function, x0: Shaped[Tensor, " n"]) -> Function:
    r"""Builds the model $d\mapsto f(x_0)+g^\top d+\frac12d^\top Hd$; H is never formed.

    The gradient is differentiated once, and pulled back along every row of d: (..., n) to (...).

    Example:
        >>> model = quadratic_model(lambda x: x.exp().sum(), torch.zeros(2))
        >>> model(torch.tensor([[0.0, 0.0], [1.0, -1.0]]))
        tensor([2., 3.])
    """
    _need_floats("quadratic_model", x0, "x0")
    x0 = x0.detach()
    value = _scalar("quadratic_model", f, x0)
    gradient, pull = vjp(grad(f), x0)  # type: ignore[misc]

    def model(d: Float[Tensor, "*B n"]) -> Float[Tensor, "*B"]:
        (products,) = vmap(pull)(d.reshape(-1, len(x0)))  # Hd, for H is symmetric
        return value + d @ gradient + (d * products.view(d.shape)).sum(dim=-1) / 2

    return model


@checked
def newton(
    f: Function, x0: Shaped[Tensor, " n"], steps: Count, damping: NonNegative = 0.0,
    line_search: bool = True,
) -> Float[Tensor, "T n"]:
    r"""Minimizes by $x\leftarrow x-(\nabla^2f+\lambda I)^{-1}\nabla f$ and gives every iterate.

    Where the Hessian is indefinite, twice its lowest eigenvalue is subtracted from all of them, so
    that the step goes down. With a line search the step is halved until the decrease is worth it.

    Args:
        f: A function with one number as value.
        x0: The start, which is the first row of the result.
        steps: How many.
        damping: $\lambda$, added to every eigenvalue; at a singular Hessian it must be positive.
        line_search: Whether a step may be shorter than Newton's.

    Example:
        >>> newton(lambda x: x.exp().sum() - x.sum(), torch.tensor([1.0]), 3).flatten()
        tensor([1.0000, 0.3679, 0.0601, 0.0018])
    """
    _need_floats("newton", x0, "x0")
    x = x0.detach()
    _scalar("newton", f, x)
    trace, gradient, hessian = [x], grad(f), functools.partial(jacobian, grad(f))
    for _ in range(steps):
        g, H = gradient(x).detach(), hessian(x).detach()
        if not bool(g.isfinite().all() & H.isfinite().all()):
            domain = "a function with finite derivatives at every iterate"
            raise refuse("newton", "f", domain, f"x = {x.tolist()}", "Start nearer to the minimum.")
        step = -torch.cholesky_solve(g[:, None], _factor(H, damping))[:, 0]
        x = x + (_length(f, x, step, float(g @ step)) if line_search else 1.0) * step
        trace.append(x)
    return torch.stack(trace)


@claim(control={"first": "1"}, source="Taylor 1715")
def taylor_coefficients_claim(
    seed: Seed, *, order: Annotated[int, Range(1, 10)] = 8, function: FunctionName = "sin",
    a: Annotated[float, Range(-0.6, 0.6)] = 0.3, first: Literal["0", "1"] = "0",
) -> Evidence:
    r"""exp, sin, log(1+x), 1/(1−x) have known $f^{(k)}(a)/k!$, and $P=\sum_{k\ge0}c_k(x-a)^k$."""
    points = torch.cat([randn(seed.torch(), 5).clamp(-2, 2) * 0.3, torch.tensor([a]).double()])
    parts = {}
    for name in sorted(ZOO, key=lambda one: one != function):  # the chosen one is drawn
        f, exact = ZOO[name]
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
            f"{name}: polynomial": identical(polynomial, total).drawn(
                Series(name, seen, f(seen), "predicted"), *low,
                Series(f"sum from k = {first}", seen, total[:, -1], "other"),
                Series(f"order {order}", seen, polynomial[:, -1]),
                x="x", y="f and its polynomials at a",
            ),
            f"{name}: coefficients": identical(found, predicted),
        }
    return every(parts)


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
    x, orders, parts = begin + distance, range(1, 6), {}
    for name in sorted(ZOO, key=lambda one: one != function):
        f, _ = ZOO[name]
        rest = torch.stack([remainder(f, begin, x, n) for n in orders])
        found = torch.stack([
            integral_remainder(f, begin, x, n) if kernel == "(x-t)^n/n!" else
            _integrated(f, begin, x, n, lambda gap, n=n: gap / math.factorial(n)) for n in orders
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


@claim(control={"function": "|x-a|^2.5"}, source="Apostol 1967, sec. 7.7; Lagrange 1797")
def lagrange_remainder(
    seed: Seed, *, m: Annotated[int, Range(1, 3)] = 3, a: Annotated[float, Range(0.2, 0.6)] = 0.4,
    function: Literal["exp", "sin", "log(1+x)", "1/(1-x)", "|x-a|^2.5"] = "exp",
) -> Evidence:
    r"""$R_m=f^{(m+1)}(\xi)\,(x-a)^{m+1}/(m+1)!$ for a $\xi$ in between: of order $(x-a)^{m+1}$."""
    smooth = function in ZOO
    f: Function = ZOO[function][0] if smooth else lambda x: (x - a).square() ** 1.25
    gaps = torch.logspace(-2.5, -1.7, 9, dtype=torch.float64)
    gaps = gaps * (1 + 0.01 * torch.rand(9, generator=seed.torch()))
    # at its kink only two derivatives exist, and these are 0: so is the polynomial
    rest = remainder(f, a, a + gaps, m) if smooth else f(a + gaps)
    between = torch.linspace(0, 1, 201, dtype=gaps.dtype)[1:, None]  # at a itself it may not exist
    bounds = taylor_coefficients(f, a + gaps * between, m + 1)[-1] * gaps ** (m + 1)
    rounding = 16 * torch.finfo(gaps.dtype).eps * float(f(a + gaps).abs().max())
    why = "rounding of f and of its polynomial"
    return every({
        "order": slope(
            gaps, rest.abs(), m + 1, tol=0.05, why="the next term bends the line by x - a",
            labels=("x − a", "size of the rest"),
        ),
        "not below the least": at_least(rest, bounds.min(dim=0).values, slack=rounding, why=why),
        "not above the most": at_most(rest, bounds.max(dim=0).values, slack=rounding, why=why),
    })


@claim(
    control={"orders": "2 and 3"}, source="Nocedal and Wright 2006, sec. 8.1",
    misprint=r"forward differences err by $O(\epsilon^2)$, central ones by $O(\epsilon^3)$",
)
def finite_difference_orders(
    seed: Seed, *, points: Annotated[int, Range(1, 200)] = 20, function: FunctionName = "sin",
    orders: Literal["1 and 2", "2 and 3"] = "1 and 2",
) -> Evidence:
    r"""Forward differences err by $O(\epsilon)$, central ones by $O(\epsilon^2)$."""
    x = 0.2 + 0.2 * torch.rand(points, generator=seed.torch(), dtype=torch.float64)
    steps = torch.logspace(-1, -3, 13, dtype=x.dtype)
    methods: tuple[Method, ...] = ("forward", "central")
    curves, parts = [], {}
    for method, order in zip(methods, map(int, orders.split(" and ")), strict=True):
        errors = _difference_errors(function, x, steps, method)
        line = errors[0] * (steps / steps[0]) ** order
        why = "the next term bends the line by the step"
        parts[method] = slope(steps, errors, order, tol=0.05, why=why)
        curves += [Series(method, steps, errors), Series(f"ε^{order}", steps, line, "predicted")]
    parts["forward"] = parts["forward"].drawn(*curves, x="step ε", y="relative error", log="xy")
    return every(parts)


@claim(control={"eps": "1e-12"}, source="Nocedal and Wright 2006, sec. 8.1")
def finite_difference_floor(
    seed: Seed, *, points: Annotated[int, Range(50, 500)] = 200, function: FunctionName = "sin",
    eps: Literal["best", "1e-12"] = "best",
) -> Evidence:
    r"""Rounding adds $u/\epsilon$: the best step is near $u^{1/2}$ forward, $u^{1/3}$ central."""
    x = 0.2 + 0.4 * torch.rand(points, generator=seed.torch(), dtype=torch.float64)
    steps = torch.logspace(-13, -1, 49, dtype=x.dtype)
    f, parts, curves = ZOO[function][0], {}, []
    goals: dict[Method, float] = {"forward": 1e-7, "central": 1e-9}
    for method, goal in goals.items():
        errors = _difference_errors(function, x, steps, method)
        best, small = float(steps[errors.argmin()]), steps < 1e-9
        found = gradient_check(f, x, eps=None if eps == "best" else float(eps), method=method)
        curves.append(Series(method, steps, errors, "measured" if method == "central" else "other",
                             "points"))
        parts |= {
            f"{method}: error": at_most(found, goal, why="a few times u^(1/2) or u^(2/3)"),
            f"{method}: distance to the best step": at_most(
                abs(math.log(best / _best_step(x, method))), math.log(30),
                why="f'' or f''' moves it by their own size, and so does luck in rounding",
            ),
            f"{method}: rounding": slope(
                steps[small], errors[small], -1, tol=0.2, labels=("step ε", "error"),
                why="a step is rounded alike at all points, which luck does not average",
            ),
        }
    guides = [Series(f"u^(1/{power})", [best] * 2, [1e-12, 1e-2], "predicted") for power, best in
              ((2, _best_step(x, "forward")), (3, _best_step(x, "central")))]
    parts["forward: error"] = parts["forward: error"].drawn(
        *curves, *guides, x="step ε", y="relative error", log="xy"
    )
    return every(parts)


@claim(
    control={"factor": "1"}, source="Nocedal and Wright 2006, th. 2.1",
    misprint=r"$f(x_0)+g^\top d+d^\top Hd$, without the factor $\frac12$",
)
def second_order_model(
    seed: Seed, *, dim: Dim = 10, factor: Literal["1/2", "1"] = "1/2",
) -> Evidence:
    r"""$f(x_0)+g^\top d+\frac12d^\top Hd$ is exact on quadratics, elsewhere up to order 3."""
    rng = seed.torch()
    A, b, x0, d = (randn(rng, *one) for one in ((dim, dim), (dim,), (dim,), (200, dim)))
    missing = 0.5 if factor == "1" else 0.0

    def quadratic(x: Tensor) -> Tensor:
        return 3 + x @ b + x @ A @ x / 2

    def bent(x: Tensor) -> Tensor:
        return (A @ x / dim**0.5).logsumexp(dim=0)

    curvature = torch.einsum("bi,ij,bj->b", d, (A + A.mT) / 2, d)
    model = quadratic_model(quadratic, x0)(d) + missing * curvature
    truth, lengths = vmap(quadratic)(x0 + d), torch.logspace(-1, -3, 9, dtype=d.dtype)
    near = lengths[:, None, None] * F.normalize(d, dim=1)
    gaps = (quadratic_model(bent, x0)(near) - vmap(vmap(bent))(x0 + near)).square().mean(1).sqrt()
    return every({
        "quadratic": identical(model, truth).drawn(
            Series("model", truth, model), Series("exact", truth, truth, "predicted"),
            x="f(x₀ + d), a quadratic", y="its model at d",
        ),
        "log-sum-exp": slope(
            lengths, gaps, 3, tol=0.05, why="the next term bends the line by the length of d",
            labels=("length of d", "error of the model"),
        ),
    })


@claim(control={"field": "with curl"}, source="Apostol 1969, ch. 10")
def line_integral(
    seed: Seed, *, dim: Dim = 5, bend: Annotated[float, Range(0.2, 2)] = 1.0,
    field: Literal["gradient", "with curl"] = "gradient",
) -> Evidence:
    r"""$f(y)-f(x)=\int_0^1\nabla f(\gamma(t))^\top\dot\gamma(t)\,dt$ along every path."""
    rng = seed.torch()
    W, x, y, aside = (randn(rng, *one) for one in ((8, dim), (dim,), (dim,), (dim,)))
    turn = torch.zeros(dim, dim, dtype=W.dtype)
    if field == "with curl":
        turn[0, 1], turn[1, 0] = 1.0, -1.0

    def f(x: Tensor) -> Tensor:
        return (W @ x / dim**0.5).sin().logsumexp(dim=0)

    t, weights = _quadrature()
    bends = {"straight": 0.0, "curved": bend}
    rates, parts, rise = {}, {}, float(f(y) - f(x))
    for name, size in bends.items():
        wave, velocity = (math.pi * t).sin()[:, None], (math.pi * t).cos()[:, None]
        path = x + t[:, None] * (y - x) + size * wave * aside
        vectors = vmap(grad(f))(path) + path @ turn.mT
        rates[name] = (vectors * (y - x + size * math.pi * velocity * aside)).sum(dim=1)
        parts[name] = equal(
            weights @ rates[name], rise, tol=1e-9,
            why="64 nodes integrate functions analytic around the path to rounding",
        )
    totals = [float(weights @ one) for one in rates.values()]
    between = abs(totals[0] - totals[1])
    parts["the two paths"] = at_most(between, 1e-9, why="the quadrature of both").drawn(
        *(Series(name, t, (weights * one).cumsum(0), role, "line")  # type: ignore[arg-type]
          for (name, one), role in zip(rates.items(), ("other", "measured"), strict=True)),
        Series("f(y) − f(x)", [0, 1], [rise, rise], "predicted"), x="t", y="integral up to t",
    )
    return every({name: parts[name] for name in reversed(parts)})


@claim(control={"rule": "gradient step 1/L"}, source="Nocedal and Wright 2006, sec. 3.3")
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

    gradients = [x0]
    for _ in range(10):
        gradients.append(gradients[-1] - grad(f)(gradients[-1]))  # L = 1
    plain, searched = (newton(f, x0, 3, line_search=one) for one in (False, True))
    reached = plain[1] if rule == "newton" else gradients[1]
    heights = [[float(f(x)) + 1e-32 for x in trace] for trace in (gradients, plain)]
    return every({
        "one step": identical(reached, best).drawn(
            Series("gradient steps 1/L", range(11), heights[0], "other"),
            Series("Newton", range(4), heights[1]), x="step", y="f above its minimum", log="y",
        ),
        "with line search": identical(searched[1], best),
        "damped": identical(
            newton(f, x0, 1, damping=0.5)[1],
            x0 - torch.linalg.solve(H + 0.5 * eye, H @ (x0 - best)),
        ),
        "indefinite": identical(  # eigenvalues h − 1 become h − 1 + 2 (1 − 1 / condition)
            newton(lambda x: f(x) - x @ x / 2, x0, 1, line_search=False)[1],
            x0 - torch.linalg.solve(H + (1 - 2 / condition) * eye, H @ (x0 - best) - x0),
        ),
    })


@claim(control={"hessian": "frozen"}, source="Nocedal and Wright 2006, th. 3.5")
def newton_quadratic_convergence(
    seed: Seed, *, samples: Annotated[int, Range(50, 400)] = 100,
    dim: Annotated[int, Range(2, 10)] = 5, l2: Annotated[float, Range(0.01, 1)] = 0.1,
    hessian: Literal["new", "frozen"] = "new",
) -> Evidence:
    r"""Near a minimum $e_{t+1}=O(e_t^2)$: each step doubles the number of right digits."""
    rng = seed.torch()
    f = _logistic(rng, samples, dim, l2)
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
        "exponent": at_least(
            rate, 1.8, why="2 in the limit, and far from it a little less"
        ).drawn(
            Series("steps", before[seen], after[seen]),
            Series("fitted", ends, np.exp(level) * ends**rate, "other"),
            Series("square", ends, after[seen].max() * (ends / ends[1]) ** 2, "predicted"),
            x="error before a step", y="error behind it", log="xy",
        ),
        "gradient at the minimum": equal(grad(f)(best), 0, tol=1e-12, why="rounding of a mean"),
    })


@claim(control={"rule": "gradient descent"}, source="Boyd and Vandenberghe 2004, sec. 9.5.1")
def newton_affine_invariant(
    seed: Seed, *, dim: Annotated[int, Range(2, 10)] = 4,
    stretch: Annotated[float, Range(2, 30)] = 5.0, steps: Annotated[int, Range(1, 8)] = 6,
    rule: Literal["newton", "gradient descent"] = "newton",
) -> Evidence:
    r"""In coordinates $Ax$ the iterates of Newton's method are $A$ times those in $x$."""
    rng = seed.torch()
    f, x0 = _logistic(rng, 100, dim, 0.1), randn(rng, dim)
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
    return identical(there, here).drawn(
        Series("in coordinates Ax", there[:, 0], there[:, 1]),
        Series("A times those in x", here[:, 0], here[:, 1], "predicted"),
        x="first coordinate of Ax", y="second coordinate of Ax",
    )


@experiment(
    reaches=GOALS, floor=GOALS,
    source="Nocedal and Wright 2006, sec. 8.1: orders 1 and 2, and -1 by rounding; errors are ours",
)
def gradient_check_experiment(
    run: Run, *, hidden: Annotated[int, Range(4, 64)] = 32,
    coordinates: Annotated[int, Range(20, 500)] = 200,
) -> None:
    """Checks backpropagation through a tanh network on digits by differences with every step."""
    images, labels, *_ = digits()
    images, labels = (one[:IMAGES] for one in (images.flatten(1), labels))
    rng, sizes = run.seed.torch(), [(hidden, 64), (hidden,), (10, hidden), (10,)]
    counts = [math.prod(one) for one in sizes]
    fans = [64, 64, hidden, hidden]
    weights = torch.cat([
        (2 * torch.rand(count, generator=rng, dtype=torch.float64) - 1) / fan**0.5
        for count, fan in zip(counts, fans, strict=True)
    ])
    chosen = torch.randperm(len(weights), generator=rng)[:coordinates]
    steps, errors = torch.logspace(-14, -1, 53 if run.full else 27, dtype=torch.float64), {}

    def loss(theta: Tensor) -> Tensor:
        W, b, V, c = (p.view(s) for p, s in zip(theta.split(counts), sizes, strict=True))
        return F.cross_entropy((images.to(theta) @ W.mT + b).tanh() @ V.mT + c, labels)

    for dtype in run.steps((torch.float64, torch.float32), "precisions"):
        theta = weights.to(dtype)
        exact = grad(loss)(theta)[chosen]
        methods: tuple[Method, ...] = ("forward", "central")
        for method in methods:
            gaps = [finite_difference(loss, theta, float(eps), method, coordinates=chosen) - exact
                    for eps in steps]
            errors[method, dtype] = np.array([float(gap.norm() / exact.norm()) for gap in gaps])
    run.record(**{
        f"best_{method}_error{'' if dtype == torch.float64 else '_float32'}": float(one.min())
        for (method, dtype), one in errors.items()
    })
    double = {method: errors[method, torch.float64] for method in ("forward", "central")}
    windows = {"forward_order": (1e-5, 1e-2), "central_order": (1e-3, 1e-1),
               "forward_rounding_order": (1e-13, 1e-9), "central_rounding_order": (1e-13, 1e-7)}
    for name, (low, high) in windows.items():
        inside = ((steps > 0.9 * low) & (steps < 1.1 * high)).numpy()
        x, y = (np.log(one[inside]) for one in (steps.numpy(), double[name.split("_")[0]]))
        run.record(**{name: float(np.polyfit(x, y, 1)[0])})
    run.figure("steps", figures.draw(Picture(
        tuple(Series(f"{method}, {str(dtype)[6:]}", steps, one, "other", "line")
              for (method, dtype), one in errors.items()),
        "step ε", "relative error of the gradient", "xy",
    )))


def _double(owner: str, name: str, value: Any) -> Tensor:
    """Take a number or a float64 tensor: high derivatives and rests need all its digits."""
    if isinstance(value, Tensor) and value.dtype == torch.float64:
        return value
    if isinstance(value, int | float):
        return torch.tensor(value, dtype=torch.float64)
    got = value.dtype if isinstance(value, Tensor) else value
    raise refuse(owner, name, "a number or a float64 tensor", got, "Convert it with .double().")


def _need_floats(owner: str, x: Tensor, name: str = "x") -> None:
    if not x.is_floating_point() or not x.numel():
        got, hint = f"{x.dtype} {tuple(x.shape)}", "Convert integers with .double()."
        raise refuse(owner, name, "a tensor of floats, not empty", got, hint)


def _scalar(owner: str, f: Function, x: Tensor) -> Tensor:
    value = f(x).detach()
    if value.shape != ():
        got = f"shape {tuple(value.shape)}"
        raise refuse(owner, "f", "a function with one number as value", got, "Sum it up.")
    return value


def _quadrature() -> tuple[Tensor, Tensor]:
    """Give the nodes and weights of Gauss-Legendre quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return torch.as_tensor((nodes + 1) / 2), torch.as_tensor(weights / 2)


def _integrated(f: Function, a: Tensor, x: Tensor, m: int, kernel: Function) -> Tensor:
    """Integrate derivative m + 1, times a kernel of x - t, from a to x."""
    a, x = torch.broadcast_tensors(a, x)
    nodes, weights = (one.view(-1, *[1] * a.dim()) for one in _quadrature())
    t = a + (x - a) * nodes
    derivative = taylor_coefficients(f, t, m + 1)[-1] * math.factorial(m + 1)
    return (x - a) * (weights * derivative * kernel(x - t)).sum(dim=0)


def _best_step(x: Tensor, method: Method) -> float:
    """Balance rounding u / ε with ε forward, with ε² central."""
    return torch.finfo(x.dtype).eps ** (1 / 2 if method == "forward" else 1 / 3)


def _of_everything(
    module: nn.Module, x: Tensor
) -> tuple[Function, Tensor, Callable[[Tensor], list[Tensor]]]:
    """Give a module as a function of one vector, its input and all parameters, and that vector."""
    named = {name: one.detach() for name, one in module.named_parameters()}
    parts = [x, *named.values()]
    if any(one.dtype != torch.float64 for one in parts):
        got = ", ".join(sorted({str(one.dtype) for one in parts}))
        hint = "Convert both with .double(): in float32 rounding hides a wrong gradient."
        raise refuse("gradient_check", "f and x", "a module and its input in float64", got, hint)

    def split(theta: Tensor) -> list[Tensor]:
        pieces = theta.split([one.numel() for one in parts])
        return [piece.view_as(one) for piece, one in zip(pieces, parts, strict=True)]

    def f(theta: Tensor) -> Tensor:
        first, *rest = split(theta)
        return functional_call(module, dict(zip(named, rest, strict=True)), (first,))

    return f, torch.cat([one.flatten() for one in parts]), split


def _factor(H: Tensor, damping: float) -> Tensor:
    """Factor a Hessian by Cholesky, damped, and made positive definite where it is indefinite."""
    eye, rounding = torch.eye(len(H)).to(H), len(H) * torch.finfo(H.dtype).eps
    H = H + damping * eye
    L, failed = torch.linalg.cholesky_ex(H)
    if bool(failed):
        eigenvalues = torch.linalg.eigvalsh(H)
        if eigenvalues[0] < -rounding * eigenvalues.abs().max():
            return torch.linalg.cholesky(H - 2 * eigenvalues[0] * eye)
    # the share of a diagonal entry that the rows above leave over, whatever the units
    elif bool((L.diagonal() ** 2 > rounding * H.diagonal()).all()):
        return L
    got, hint = "a singular one", "Pass a positive damping, such as damping=1e-3."
    raise refuse("newton", "f", "a function with a nonsingular Hessian", got, hint)


def _length(f: Function, x: Tensor, step: Tensor, decline: float) -> float:
    """Halve a step until it keeps a share of the promised decrease; 0 where rounding hides it."""
    value, length = float(f(x)), 1.0
    rounding = 8 * torch.finfo(x.dtype).eps * abs(value)
    for _ in range(HALVINGS):
        if float(f(x + length * step)) <= value + ARMIJO * length * decline + rounding:
            return length
        length /= 2
    return 0.0


def _difference_errors(name: str, x: Tensor, steps: Tensor, method: Method) -> Tensor:
    """Measure the error of differences, a root mean square over points, for every step."""
    f, exact = ZOO[name]

    def at_all(eps: float) -> Tensor:
        return vmap(lambda one: finite_difference(f, one, eps, method))(x)

    found = torch.stack([at_all(float(eps)) for eps in steps])
    return (found / exact(x, 1) - 1).square().mean(dim=1).sqrt()


def _logistic(rng: torch.Generator, samples: int, dim: int, l2: float) -> Function:
    """Draw a classification problem and give the logistic loss of its weights."""
    X, noise = randn(rng, samples, dim), randn(rng, samples)
    X = X * (X[:, 0] + noise).sign()[:, None]  # times the labels
    return lambda w: F.softplus(-X @ w).mean() + l2 * w @ w / 2

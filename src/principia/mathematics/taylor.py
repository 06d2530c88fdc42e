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

from principia.lab.params import (
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Range,
    checked,
    usage_error,
)
from principia.mathematics.matrix_calculus import jacobian

Function = Callable[[Tensor], Tensor]
Point = Shaped[Tensor, "..."] | float
Method = Literal["forward", "central"]
Order = Annotated[int, Range(0, 10)]
NODES = 64  # of Gauss-Legendre quadrature, exact for polynomials up to degree 127
CHUNK = 256  # evaluations that finite differences hold in memory at once
ARMIJO, HALVINGS = 1e-4, 60  # share of the promised decrease that a step must keep; most halvings


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
            raise usage_error("taylor_coefficients", "f", "a function of each entry", got, hint)
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


def _double(owner: str, name: str, value: Any) -> Tensor:
    """Take a number or a float64 tensor: high derivatives and rests need all its digits."""
    if not isinstance(value, int | float | Tensor) or (
        isinstance(value, Tensor) and value.dtype != torch.float64
    ):
        got = value.dtype if isinstance(value, Tensor) else value
        raise usage_error(
            owner, name, "a number or a float64 tensor", got, "Convert it with .double()."
        )
    return torch.as_tensor(value, dtype=torch.float64)


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
    return integrated(f, a, x, m, lambda gap: gap**m / math.factorial(m))


def integrated(f: Function, a: Tensor, x: Tensor, m: int, kernel: Function) -> Tensor:
    """Integrate derivative m + 1, times a kernel of x - t, from a to x."""
    a, x = torch.broadcast_tensors(a, x)
    nodes, weights = (one.view(-1, *[1] * a.dim()) for one in quadrature())
    t = a + (x - a) * nodes
    derivative = taylor_coefficients(f, t, m + 1)[-1] * math.factorial(m + 1)
    return (x - a) * (weights * derivative * kernel(x - t)).sum(dim=0)


def quadrature() -> tuple[Tensor, Tensor]:
    """Give the nodes and weights of Gauss-Legendre quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return torch.as_tensor((nodes + 1) / 2), torch.as_tensor(weights / 2)


@checked
@torch.no_grad()
def finite_difference(
    f: Function, x: Shaped[Tensor, "..."], eps: PositiveFloat | None = None,
    method: Method = "central", *, coordinates: Int[Tensor, " k"] | None = None,
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
    eps = best_step(x, method) if eps is None else eps
    flat, places = x.flatten(), torch.arange(x.numel(), device=x.device)
    chosen = places if coordinates is None else coordinates
    if not bool(((chosen >= 0) & (chosen < x.numel())).all()):
        domain = f"each in [0, {x.numel() - 1}], for x has {x.numel()} entries"
        raise usage_error("finite_difference", "coordinates", domain, chosen.tolist())

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
        raise usage_error(
            "finite_difference", "f", "a function without dice", "random", hint
        ) from error
    columns = (ahead - back).movedim(0, -1) / (2 * eps if method == "central" else eps)
    return columns if coordinates is not None else columns.reshape((*columns.shape[:-1], *x.shape))


def _need_floats(owner: str, x: Tensor, name: str = "x") -> None:
    if not x.is_floating_point() or not x.numel():
        got, hint = f"{x.dtype} {tuple(x.shape)}", "Convert integers with .double()."
        raise usage_error(owner, name, "a tensor of floats, not empty", got, hint)


def best_step(x: Tensor, method: Method) -> float:
    """Balance rounding u / ε with ε forward, with ε² central."""
    return torch.finfo(x.dtype).eps ** (1 / 2 if method == "forward" else 1 / 3)


@checked
def gradient_check(
    f: Function, x: Shaped[Tensor, "..."], eps: PositiveFloat | None = None,
    method: Method = "central"
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
            eps=eps or best_step(x, "central"), atol=(10 * error + 1e-6) * scale, rtol=0.0,
        )
    return error


def _of_everything(
    module: nn.Module, x: Tensor
) -> tuple[Function, Tensor, Callable[[Tensor], list[Tensor]]]:
    """Give a module as a function of one vector, its input and all parameters, and that vector."""
    named = {name: one.detach() for name, one in module.named_parameters()}
    parts = [x, *named.values()]
    if any(one.dtype != torch.float64 for one in parts):
        got = ", ".join(sorted({str(one.dtype) for one in parts}))
        hint = "Convert both with .double(): in float32 rounding hides a wrong gradient."
        raise usage_error(
            "gradient_check", "f and x", "a module and its input in float64", got, hint
        )

    def split(theta: Tensor) -> list[Tensor]:
        pieces = theta.split([one.numel() for one in parts])
        return [piece.view_as(one) for piece, one in zip(pieces, parts, strict=True)]

    def f(theta: Tensor) -> Tensor:
        first, *rest = split(theta)
        return functional_call(module, dict(zip(named, rest, strict=True)), (first,))

    return f, torch.cat([one.flatten() for one in parts]), split


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
    value = f(x0)
    _need_number("quadratic_model", value)
    gradient, pull = vjp(grad(f), x0)  # type: ignore[misc]

    def model(d: Float[Tensor, "*B n"]) -> Float[Tensor, "*B"]:
        (products,) = vmap(pull)(d.reshape(-1, len(x0)))  # Hd, for H is symmetric
        return value + d @ gradient + (d * products.view(d.shape)).sum(dim=-1) / 2

    return model


def _need_number(owner: str, value: Tensor) -> None:
    if value.shape != ():
        got = f"shape {tuple(value.shape)}"
        raise usage_error(owner, "f", "a function with one number as value", got, "Sum it up.")


@checked
@torch.no_grad()
def newton(
    f: Function, x0: Shaped[Tensor, " n"], steps: PositiveInt, damping: NonNegativeFloat = 0.0,
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
    _need_number("newton", f(x0))
    x, trace, gradient, hessian = x0, [x0], grad(f), functools.partial(jacobian, grad(f))
    for _ in range(steps):
        g, H = gradient(x), hessian(x)
        if not bool(g.isfinite().all() & H.isfinite().all()):
            domain = "a function with finite derivatives at every iterate"
            raise usage_error(
                "newton", "f", domain, f"x = {x.tolist()}", "Start nearer to the minimum."
            )
        step = -torch.cholesky_solve(g[:, None], _factor(H, damping))[:, 0]
        x = x + (_length(f, x, step, float(g @ step)) if line_search else 1.0) * step
        trace.append(x)
    return torch.stack(trace)


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
    raise usage_error("newton", "f", "a function with a nonsingular Hessian", got, hint)


def _length(f: Function, x: Tensor, step: Tensor, decline: float) -> float:
    """Halve a step until it keeps a share of the promised decrease; 0 where rounding hides it."""
    value, length = float(f(x)), 1.0
    rounding = 8 * torch.finfo(x.dtype).eps * abs(value)
    for _ in range(HALVINGS):
        if float(f(x + length * step)) <= value + ARMIJO * length * decline + rounding:
            return length
        length /= 2
    return 0.0

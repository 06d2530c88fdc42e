r"""Convexity: chords above the graph, and no local minimum that is not global.

A set is convex if it holds every segment between its points, a function if the set above its graph
is convex. For smooth functions that is the same as tangents below the graph, and as curvature that
is nowhere negative, so that each test can stand in for the others, if it looks everywhere. What it
buys is that going downhill cannot end in the wrong place. Strict convexity allows at most one
minimizer and promises none; strong convexity, a curvature of at least $\mu$, promises one. The
other end is a Lipschitz constant, the steepest slope: of the gradient it is $L$, and $L/\mu$ says
how hard a problem is. Below 1 it makes a map a contraction, whose iterates find its fixed point.
Under a constraint the gradients line up, and the multiplier is the price of the constraint.

$$ f(\lambda x+(1-\lambda)y) \le \lambda f(x)+(1-\lambda)f(y) \iff
f(y) \ge f(x)+\nabla f(x)^\top(y-x) \iff \nabla^2f \succeq 0 $$

$$ \langle\nabla f(y)-\nabla f(x),y-x\rangle \ge \mu\Vert y-x\Vert^2 \iff \nabla^2f\succeq\mu I,
\quad \Vert f(y)-f(x)\Vert \le L\Vert y-x\Vert, \quad
\kappa = \frac{|\lambda|_{\max}}{|\lambda|_{\min}} = \frac L\mu $$

$$ \Vert x_t-x^*\Vert \le \frac{L^t}{1-L}\Vert x_1-x_0\Vert, \quad
\nabla f(x^*) = \gamma\,\nabla g(x^*),\ g(x^*) = c, \quad
\gamma = \frac d{dc}\min_{g(x)=c}f(x) $$

Symbols:
    $x, y; \lambda$: pairs of points, one a row; weight `lam` of the first
    $f$: function of one point; for `lipschitz` and `fixed_point` a map
    $\mu$: constant of `strong_convexity`; $\nabla^2f\succeq\mu I$ is `hessian_min_eig` $\ge\mu$
    $L$: `lipschitz` constant; of $\nabla f$ for `condition_number`, else that of the map itself
    $\kappa$: `condition_number` of the Hessian with eigenvalues $\lambda$
    $x_t, x^*$: iterates of `fixed_point` and their limit; below, the solution of `lagrange`
    $g, c, \gamma$: constraint, its level and its multiplier

References:
    Banach (1922), Sur les opérations dans les ensembles abstraits et leur application aux équations
        intégrales. Fundamenta Mathematicae 3. doi:10.4064/fm-3-1-133-181
    Rockafellar (1970), Convex analysis. Princeton University Press. doi:10.1515/9781400873173
    Boyd and Vandenberghe (2004), Convex optimization. Cambridge University Press.
        doi:10.1017/CBO9780511804441
    Nesterov (2018), Lectures on convex optimization, sec. 2.1. Springer.
        doi:10.1007/978-3-319-91578-4
    Brea, Simsek, Illing and Gerstner (2019), Weight-space symmetry in deep networks gives rise to
        permutation saddles, connected by equal-loss valleys across the loss landscape.
        arXiv:1907.02911
"""

__all__ = [
    "chord_violation", "tangent_violation", "hessian_min_eig", "is_convex_set", "in_epigraph",
    "strong_convexity", "lipschitz", "condition_number", "fixed_point", "lagrange",
]

import functools
import math
from collections.abc import Callable
from typing import Annotated

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.func import grad, vmap

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
Weight = Float[Tensor, " N"] | float
Level = Float[Tensor, "*M"] | float
CHUNK = 2**18  # coordinates of points that are held in memory at once
HALVINGS = 40  # of a step that does not come nearer


@torch.no_grad()
def chord_violation(
    f: Function, x: Float[Tensor, "N D"], y: Float[Tensor, "N D"], lam: Weight
) -> Float[Tensor, " N"]:
    r"""Measures how far the graph rises above chords: at most 0 if and only if f is convex.

    It is $f(\lambda x+(1-\lambda)y)-\lambda f(x)-(1-\lambda)f(y)$ for every pair.

    Args:
        f: A function of one point (D,) with one number as value; it is batched by `vmap`.
        x: Points, one a row.
        y: As many others.
        lam: The weight of x, one for each pair or one for all, in [0, 1].

    Example:
        >>> x, y = torch.tensor([[0.0], [0.0]]), torch.tensor([[2.0], [4.0]])
        >>> chord_violation(lambda x: x.square().sum(), x, y, 0.5)
        tensor([-1., -4.])
    """
    middle, weight = _mixed_pairs("chord_violation", x, y, lam)
    at_x, at_y, inside = (_values("chord_violation", f, points) for points in (x, y, middle))
    return inside - weight * at_x - (1 - weight) * at_y


def _mixed_pairs(owner: str, x: Tensor, y: Tensor, lam: Tensor | float) -> tuple[Tensor, Tensor]:
    """Mix pairs, and give the weights (N,) or (1,) of the first."""
    _need_pairs(owner, x, y)
    weight = torch.as_tensor(lam, dtype=x.dtype, device=x.device).reshape(-1)
    if len(weight) not in (1, len(x)):
        raise usage_error(
            owner, "lam", f"one number, or {len(x)}: one a pair", f"{len(weight)} numbers"
        )
    if not bool((fine := (weight >= 0) & (weight <= 1)).all()):
        hint = "Beyond, points leave the segment."
        raise usage_error(owner, "lam", "in [0, 1]", float(weight[~fine][0]), hint)
    return weight[:, None] * x + (1 - weight[:, None]) * y, weight


def _need_pairs(owner: str, x: Tensor, y: Tensor, *, apart: bool = False) -> None:
    if x.shape != y.shape or x.ndim != 2 or not x.numel() or not x.is_floating_point():
        got = f"{tuple(x.shape)} and {tuple(y.shape)}, {x.dtype}"
        hint = "A single point is x[None]; integers convert with .double()."
        raise usage_error(owner, "x and y", "floats of one shape (N, D)", got, hint)
    if apart and bool((same := (x == y).all(dim=1)).any()):
        raise usage_error(owner, "y", "another point than x in every row", y[same][0].tolist())


def _values(owner: str, f: Function, points: Tensor) -> Tensor:
    values = _batched(f, points)
    _need_numbers(owner, values, points)
    return values


def _need_numbers(owner: str, values: Tensor, points: Tensor) -> None:
    _need_finite(owner, values, points)
    if values.shape != points.shape[:1]:
        got = f"shape {tuple(values.shape[1:])}"
        raise usage_error(owner, "f", "a function with one number as value", got, "Sum it up.")


def _need_finite(owner: str, values: Tensor, points: Tensor, what: str = "f") -> None:
    """Refuse values that are not finite, and name the point."""
    good = values.isfinite().reshape(len(points), -1).all(dim=1)
    if not bool(good.all()):
        got = f"{what} not finite at {points[~good][0].tolist()}"
        raise usage_error(owner, "x and y", "inside the domain of f, segments included", got)


def _finite(owner: str, f: Function, points: Tensor, what: str = "f") -> Tensor:
    values = _batched(f, points)
    _need_finite(owner, values, points, what)
    return values


def _batched(f: Function, points: Tensor) -> Tensor:
    return vmap(f, chunk_size=max(1, CHUNK // points.shape[1]))(points)


@torch.no_grad()
def tangent_violation(
    f: Function, x: Float[Tensor, "N D"], y: Float[Tensor, "N D"]
) -> Float[Tensor, " N"]:
    r"""Measures how far the tangent at x rises above f at y: $f(x)+\nabla f(x)^\top(y-x)-f(y)$.

    At most 0 for all pairs if and only if f, once differentiable, is convex. The arguments are
    those of `chord_violation`.

    Example:
        >>> x, y = torch.tensor([[0.0], [1.0]]), torch.tensor([[2.0], [4.0]])
        >>> tangent_violation(lambda x: x.square().sum(), x, y)
        tensor([-4., -9.])
    """
    _need_pairs("tangent_violation", x, y)
    at_x, at_y = (_values("tangent_violation", f, points) for points in (x, y))
    slopes = _finite("tangent_violation", grad(f), x, "its gradient")
    return at_x + (slopes * (y - x)).sum(dim=1) - at_y


@torch.no_grad()
def hessian_min_eig(f: Function, x: Float[Tensor, "N D"]) -> Float[Tensor, " N"]:
    r"""Finds the least eigenvalue of the Hessian at every point.

    At least 0 everywhere if and only if f, twice differentiable, is convex.

    Example:
        >>> hessian_min_eig(lambda x: (x**3).sum(), torch.tensor([[1.0, 2.0], [-1.0, 1.0]]))
        tensor([ 6., -6.])
    """
    _need_pairs("hessian_min_eig", x, x)
    _need_numbers("hessian_min_eig", _batched(f, x), x)
    hessian = functools.partial(jacobian, grad(f))
    return torch.linalg.eigvalsh(_finite("hessian_min_eig", hessian, x, "its Hessian"))[:, 0]


@torch.no_grad()
def is_convex_set(
    member: Function, x: Float[Tensor, "N D"], y: Float[Tensor, "N D"], lam: Weight
) -> Bool[Tensor, " N"]:
    r"""Tells of each pair of members whether $\lambda x+(1-\lambda)y$ is a member, too.

    One False refutes convexity; no number of pairs can prove it.

    Args:
        member: Tells of one point (D,), as a Boolean tensor, whether it belongs to the set.
        x: Members, one a row.
        y: As many others.
        lam: The weight of x, one for each pair or one for all, in [0, 1].

    Example:
        >>> x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[-1.0, 0.0]])
        >>> is_convex_set(lambda x: x.norm() <= 1, x, y, 0.3)
        tensor([True])
        >>> is_convex_set(lambda x: x.norm() >= 1, x, y, 0.3)
        tensor([False])
    """
    middle, _ = _mixed_pairs("is_convex_set", x, y, lam)
    for name, points in (("x", x), ("y", y)):
        if not bool((belongs := _batched(member, points)).all()):
            outside = points[~belongs][0].tolist()
            raise usage_error("is_convex_set", name, "members of the set, in every row", outside)
    return _batched(member, middle)


@checked
@torch.no_grad()
def in_epigraph(
    f: Function, x: Float[Tensor, "*N D"], t: Float[Tensor, "*N"], *, tol: NonNegativeFloat = 0.0
) -> Bool[Tensor, "*N"]:
    r"""Tells whether points $(x,t)$ lie on or above the graph of f: $t\ge f(x)$.

    Args:
        f: A function of one point (D,).
        x: One point, or one a row.
        t: Their heights.
        tol: How far below the graph still counts, relative to 1 + |t|: rounding of f.

    Example:
        >>> x, heights = torch.tensor([[1.0], [2.0]]), torch.tensor([1.5, 3.5])
        >>> in_epigraph(lambda x: x.square().sum(), x, heights)
        tensor([ True, False])
    """
    values = _batched(f, x.reshape(-1, x.shape[-1])).reshape(x.shape[:-1])
    return values <= t + tol * (1 + t.abs())


def strong_convexity(
    f: Function, x: Float[Tensor, "N D"], y: Float[Tensor, "N D"]
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    r"""Estimates $\mu$ twice: by how gradients grow apart, and by the curvature at the points.

    Both are upper bounds of the constant, and reach it where pairs lie along the flattest direction
    at the flattest place.

    Args:
        f: A function of one point (D,) with one number as value.
        x: Points, one a row.
        y: As many others, none equal to its partner.

    Returns:
        The least $\langle\nabla f(y)-\nabla f(x),y-x\rangle/\Vert y-x\Vert^2$ and the least
        eigenvalue of the Hessian at any x or y.

    Example:
        >>> x, y = torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 1.0]])
        >>> strong_convexity(lambda x: x[0] ** 2 + 2 * x[1] ** 2, x, y)
        (tensor(3.), tensor(2.))
    """
    quotients = growth_quotients(f, x, y)
    return quotients.min(), hessian_min_eig(f, torch.cat([x, y])).min()


@torch.no_grad()
def growth_quotients(
    f: Function, x: Float[Tensor, "N D"], y: Float[Tensor, "N D"]
) -> Float[Tensor, " N"]:
    """Give the growth of the gradient along each pair, in units of its length squared."""
    _need_pairs("strong_convexity", x, y, apart=True)
    slopes = functools.partial(_finite, "strong_convexity", grad(f), what="its gradient")
    before, after = slopes(x), slopes(y)
    return ((after - before) * (y - x)).sum(dim=1) / (y - x).square().sum(dim=1)


@torch.no_grad()
def lipschitz(
    f: Function, x: Float[Tensor, "N D"], y: Float[Tensor, "N D"], *,
    norm: Function = torch.linalg.vector_norm,
) -> Float[Tensor, ""]:
    r"""Finds the steepest slope between pairs, $\max\Vert f(y)-f(x)\Vert/\Vert y-x\Vert$.

    It is a lower bound of the Lipschitz constant, which pairs that lie close together along the
    steepest direction reach. Of a gradient field, `torch.func.grad(f)`, it is the smoothness of f.

    Args:
        f: A function of one point (D,) with a number or a tensor as value.
        x: Points, one a row.
        y: As many others, none equal to its partner.
        norm: The norm of one vector, for inputs and outputs alike; by default the Euclidean.

    Example:
        >>> x, y = torch.tensor([[0.0], [0.0]]), torch.tensor([[1.0], [-3.0]])
        >>> lipschitz(torch.square, x, y)
        tensor(3.)
        >>> lipschitz(lambda x: torch.cat([x, 2 * x]), x, y, norm=lambda v: v.abs().sum())
        tensor(3.)
    """
    _need_pairs("lipschitz", x, y, apart=True)
    ends = [_finite("lipschitz", f, points) for points in (x, y)]
    size = vmap(norm)
    return (size((ends[1] - ends[0]).reshape(len(x), -1)) / size(y - x)).max()


def condition_number(H: Float[Tensor, "... m n"]) -> Float[Tensor, "..."]:
    r"""Divides the largest by the least $|\lambda|$; if H is not symmetric, $\sigma$.

    Infinite where the least is 0 up to rounding.

    Example:
        >>> condition_number(torch.stack([torch.eye(2), torch.diag(torch.tensor([-6.0, 2.0]))]))
        tensor([1., 3.])
    """
    if not H.numel() or not bool(H.isfinite().all()):
        raise usage_error(
            "condition_number", "H", "finite and not empty", f"shape {tuple(H.shape)}"
        )
    values = torch.linalg.svdvals(H)
    large, small = values[..., 0], values[..., -1]
    rounding = max(H.shape[-2:]) * torch.finfo(values.dtype).eps
    return torch.where(small > rounding * large, large / small, math.inf)


@checked
@torch.no_grad()
def fixed_point(
    f: Function, x0: Float[Tensor, " D"], tol: PositiveFloat = 1e-8, *,
    rate: Annotated[float, Range(0, 1, open="high")] | None = None, steps: PositiveInt = 10_000,
) -> tuple[Float[Tensor, "T D"], Float[Tensor, " T"]]:
    r"""Iterates $x\leftarrow f(x)$ until the limit is near, and bounds the error of each iterate.

    Args:
        f: A contraction: a map of one point to one.
        x0: The start.
        tol: Distance from the fixed point at which to stop, guaranteed where the rate is.
        rate: A Lipschitz constant of f below 1. By default the largest quotient of two steps seen,
            which is a lower bound of it, so that the bounds are estimates.
        steps: The most to take.

    Returns:
        Iterates, one a row, and their bounds $L^t\Vert x_1-x_0\Vert/(1-L)$.

    Example:
        >>> trace, bounds = fixed_point(torch.cos, torch.tensor([1.0]), 1e-3, rate=math.sin(1))
        >>> trace[-1], bool(bounds[-1] >= (trace[-1] - 0.739085).abs())
        (tensor([0.7390]), True)
    """
    trace, sizes, seen = [x0, f(x0)], [], 0.0
    for _ in range(steps):
        before, last = trace[-2:]
        sizes.append(float((last - before).norm()))
        noise = 8 * torch.finfo(x0.dtype).eps * (1 + float(last.norm()))
        if len(sizes) > 1:
            _need_shrinking(sizes, rate, noise)
            seen = max(seen, sizes[-1] / sizes[-2])
        factor = rate if rate is not None else seen
        known = rate is not None or len(sizes) > 1
        if sizes[-1] <= noise or (known and factor * sizes[-1] <= tol * (1 - factor)):
            powers, room = torch.arange(len(trace)).to(x0), 1 - factor
            first = sizes[0] / room if room > 0 else math.inf  # rounding may have let steps grow
            return torch.stack(trace), factor**powers * first
        trace.append(f(last))
    hint = "A factor near 1 takes long: raise steps or tol."
    raise usage_error("fixed_point", "steps", f"enough to come within {tol:g}", steps, hint)


def _need_shrinking(sizes: list[float], rate: float | None, noise: float) -> None:
    """Refuse a map whose last step shows that it is no contraction, or not with this rate."""
    before, last = sizes[-2:]
    if not last <= (1.0 if rate is None else rate) * before + noise:
        domain = "a contraction" if rate is None else f"a contraction with rate {rate:g}"
        got = f"a step {last / before:.4g} times as long as the one before"
        raise usage_error(
            "fixed_point", "f", domain, got, "Start nearer, or raise the rate below 1."
        )


@checked
@torch.no_grad()
def lagrange(
    f: Function, g: Function, c: Level, x0: Float[Tensor, " D"], *, steps: PositiveInt = 100
) -> tuple[Float[Tensor, " D"], Float[Tensor, "*M"]]:
    r"""Finds a stationary point of $f(x)-\gamma(g(x)-c)$ by Newton's method: x and $\gamma$.

    Steps are halved until all equations together come nearer. Minimum or not, it is the stationary
    point that the start leads to.

    Args:
        f: What is to be minimized: a function of one point with one number as value.
        g: The constraint, with one number or several as value.
        c: What g must be.
        x0: The start, where the gradient of g is not 0.
        steps: The most to take.

    Example:
        >>> x, price = lagrange(lambda x: x @ x, lambda x: x.sum(), 3.0, torch.ones(2))
        >>> x, price
        (tensor([1.5000, 1.5000]), tensor(3.))
    """
    value, slopes, count = g(x0), jacobian(g, x0).reshape(-1, len(x0)), len(x0)
    level = torch.as_tensor(c, dtype=x0.dtype, device=x0.device).expand_as(value).flatten()

    def lagrangian(z: Tensor) -> Tensor:
        return f(z[:count]) - z[count:] @ (g(z[:count]).flatten() - level)

    field = grad(lagrangian)
    prices = torch.linalg.lstsq(slopes.mT, grad(f)(x0)[:, None], driver="gelsd")
    z = torch.cat([x0, prices.solution[:, 0]])
    for _ in range(steps):
        rest, K = field(z), jacobian(field, z)
        if not bool(K.isfinite().all() & rest.isfinite().all()):
            got, hint = f"x = {z[:count].tolist()}", "Start nearer to the solution."
            raise usage_error(
                "lagrange", "f and g", "finite, with derivatives, on the way", got, hint
            )
        if math.isinf(condition_number(K)):
            got = f"a singular one at x = {z[:count].tolist()}"
            hint = "Drop repeated constraints, and start where the gradient of g is not 0."
            raise usage_error("lagrange", "f, g and x0", "with a nonsingular KKT matrix", got, hint)
        step, gap = torch.linalg.solve(K, -rest), float(rest.norm())
        near = gap <= torch.finfo(x0.dtype).eps ** 0.5 * (1 + float(z.norm() + level.norm()))
        lengths = (0.5**k for k in range(1 if near else HALVINGS))
        ahead = next((z + a * step for a in lengths if field(z + a * step).norm() < gap), None)
        if ahead is not None:
            z = ahead
        elif near:  # rounding lets it come no nearer
            return z[:count], z[count:].reshape(value.shape)
        else:
            break
    hint = "Start elsewhere, or raise steps."
    raise usage_error(
        "lagrange", "x0", "a start that leads to a stationary point", x0.tolist(), hint
    )

r"""A zoo of sets, functions and problems whose convexity, constants and solutions are known.

The claims of `convexity` are statements about its members: tables of functions, and functions that
draw a family of members from a generator. A few of them are not convex, for the controls.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import grad
from torch.nn import functional as F

from principia.lab.draws import rand, randn
from principia.mathematics.convexity import Function

ROUNDING = 1e-12  # of a difference of a few numbers, relative to 1 + their size
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 400)  # of a descent that are drawn, and the last
DOTTIE = 0.7390851332151607  # the fixed point of cos
CONVEX: Mapping[str, Function] = {  # functions of the last axis
    "|x|^2": lambda x: x.square().sum(-1), "sum x^4": lambda x: (x**4).sum(-1),
    "sum exp x": lambda x: x.exp().sum(-1), "log sum exp x": lambda x: x.logsumexp(-1),
    "sqrt(1+|x|^2)": lambda x: (1 + x.square().sum(-1)).sqrt(),
    "-sum log x": lambda x: -x.log().sum(-1), "sum x log x": lambda x: (x * x.log()).sum(-1),
}
FUNCTIONS: Mapping[str, Function] = {  # and such as are not convex
    **CONVEX,
    "x^2-x^4": lambda x: (x**2 - x**4).sum(-1), "sum sin x": lambda x: x.sin().sum(-1),
    "sum tanh x": lambda x: x.tanh().sum(-1), "x1 x2": lambda x: x[..., 0] * x[..., 1],
    "(|x|^2-1)^2": lambda x: (x.square().sum(-1) - 1).square(),
}
POSITIVE = ("-sum log x", "sum x log x")  # those whose logarithms need x > 0
STRICT: Mapping[str, Function] = {  # strictly convex functions of one number
    "x^2": torch.square, "e^x": torch.exp, "x^4": lambda x: x**4, "cosh x": torch.cosh,
    "log(1+e^x)": F.softplus, "sqrt(1+x^2)": lambda x: (1 + x * x).sqrt(),
}
EVEN = ("x^2", "x^4", "cosh x", "sqrt(1+x^2)")  # those with a minimizer, which is 0
FLAT: Mapping[str, Function] = {"flat": lambda x: (x.abs() - 1).relu().square()}  # not strictly
RISING: Mapping[str, Function] = {  # non-decreasing functions; tanh is not convex
    "exp": torch.exp, "relu squared": lambda u: u.relu().square(), "tanh": torch.tanh,
}
# from -1 to 1, and from 3 to 2, where powers are steeper
TWO_PAIRS = torch.tensor([[[1], [3]], [[-1], [2]]], dtype=torch.float64)
NORMS: Mapping[float, Function] = {
    1: lambda v: v.abs().sum(), 2: torch.linalg.vector_norm, math.inf: lambda v: v.abs().max(),
}


def spread(rng: torch.Generator, count: int, dim: int, reach: float) -> Tensor:
    """Draw points in all directions, with radii that are uniform up to a reach."""
    return reach * rand(rng, count, 1) * F.normalize(randn(rng, count, dim), dim=1)


def spd(rng: torch.Generator, dim: int, condition: float) -> tuple[Tensor, Tensor]:
    """Draw a matrix with eigenvalues from 1 / condition to 1, and its eigenvectors (columns)."""
    Q = torch.linalg.qr(randn(rng, dim, dim)).Q
    H = (Q * torch.logspace(-math.log10(condition), 0, dim, dtype=Q.dtype)) @ Q.mT
    return (H + H.mT) / 2, Q


def steepest_ways(W: Tensor) -> Tensor:
    """Give ways (rows) along which a map W is steepest in each of the norms, and some others."""
    # axes in the 1-norm, signs of rows in the maximum norm, else the first singular vector
    return torch.cat([torch.eye(W.shape[1]).to(W), W.sign(), torch.linalg.svd(W).Vh[:1]])


def on_a_line(name: str, dim: int, local: bool) -> dict[str, tuple[Tensor, Tensor]]:
    """Show a function on a line, a chord, a tangent, and where its Hessian is tested."""
    positive = name in POSITIVE
    ray = torch.ones(dim) if positive else torch.tensor([1.0, -0.5, *[0.0] * (dim - 2)])
    low, left, at, right, high = (0.1, 0.2, 1.0, 3, 3.5) if positive else (-1.4, -1.2, 0.7, 1, 1.4)

    def f(t: Tensor) -> Tensor:
        return FUNCTIONS[name](t[..., None] * ray)

    t, ends, point = torch.linspace(low, high, 141), torch.tensor([left, right]), torch.tensor(at)
    tested = torch.zeros(1) if local and not positive else t[::14]
    return {
        f"f = {name}": (t, f(t)), "chord": (ends, f(ends)),
        "tangent": (t, f(point) + grad(f)(point) * (t - point)),
        "Hessian tested here": (tested, f(tested)),
    }


def misjudged_at_a_graph(
    rng: torch.Generator, in_epigraph: Callable[..., Tensor], tol: float = 0.1
) -> Tensor:
    """Ask for heights on a graph, and below by more or less than a share of 1 + |height|."""
    heights, shares = 3 * randn(rng, 40, 3), torch.tensor([0, 0.9, 1.1], dtype=torch.float64)
    heights[0] = 0
    x = (heights + tol * shares * (1 + heights.abs()))[..., None]  # the function is x itself
    tolerant, exact = (in_epigraph(torch.sum, x, heights, **asked) for asked in ({"tol": tol}, {}))
    return torch.stack([tolerant != (shares <= 1), exact != (shares == 0)])


class Region(NamedTuple):
    """A set: who belongs to it, and how to draw members, a third of them on the boundary."""

    member: Function
    draw: Callable[[int], Tensor]


def regions(rng: torch.Generator, dim: int, hollow: bool) -> dict[str, Region]:
    """Give a ball, a polytope with random faces and the PSD cone, or only their boundaries."""
    faces = F.normalize(randn(rng, 4 * dim, dim), dim=1)
    faces = torch.cat([faces, -faces])  # so that every ray meets one
    low = 1 - ROUNDING if hollow else -math.inf

    def polar(count: int) -> tuple[Tensor, Tensor]:
        share = (1.5 * rand(rng, count, 1)).clamp(max=1.0)
        return share.clamp(min=float(hollow)), F.normalize(randn(rng, count, dim), dim=1)

    def in_ball(count: int) -> Tensor:
        share, rays = polar(count)
        return share * rays

    def in_polytope(count: int) -> Tensor:
        share, rays = polar(count)
        return share * rays / (rays @ faces.mT).amax(dim=1, keepdim=True)

    def in_cone(count: int) -> Tensor:  # matrices of every rank, those below dim on the boundary
        share = (1.5 * rand(rng, count, 1, 1)).clamp(max=1.0).clamp(min=1.01 / (dim - 1) * hollow)
        A = randn(rng, count, dim, dim) * (torch.arange(dim) * share < 1)
        return (A @ A.mT).flatten(1)

    def is_psd(x: Tensor) -> Tensor:
        least = torch.linalg.eigvalsh(x.view(dim, dim))[0] / x.norm()
        return (least >= -ROUNDING) & (least <= (ROUNDING if hollow else math.inf))

    return {
        "ball": Region(lambda x: (x.norm() <= 1 + ROUNDING) & (x.norm() >= low), in_ball),
        "polytope": Region(
            lambda x: ((faces @ x).max() <= 1 + ROUNDING) & ((faces @ x).max() >= low), in_polytope
        ),
        "PSD cone": Region(is_psd, in_cone),
    }


def in_two_pieces(t: Tensor) -> Tensor:
    """Tell whether a number is below 0.305 or above 0.995: a set with a gap."""
    return ((t < 0.305) | (t > 0.995)).all()


class Descent(NamedTuple):
    """A function of rows to go down, and a bound of its curvature on the way."""

    f: Function
    curvature: float


def descents(
    rng: torch.Generator, dim: int, starts: int, tilt: float
) -> tuple[dict[str, Descent], Tensor]:
    """Give three convex losses of random data and a double well that is not; and where to start."""
    rows = 20 * dim
    X, noise, start = (randn(rng, *shape) for shape in ((rows, dim), (rows,), (starts, dim)))
    Z, A, start = X * (X[:, 0] + 2 * noise).sign()[:, None], torch.cat([X, -X]), 2 * start
    top = float(torch.linalg.eigvalsh(X.mT @ X)[-1]) / rows

    def huber(x: Tensor) -> Tensor:
        found = x @ X.mT
        return F.huber_loss(found, (noise**3).expand_as(found), reduction="none").mean(-1)

    def well(x: Tensor) -> Tensor:
        return (x[:, 0] ** 2 - 1) ** 2 + tilt * x[:, 0] + x[:, 1:].square().sum(-1)

    return {
        "logistic loss": Descent(lambda x: F.softplus(-x @ Z.mT).mean(-1), top / 4),
        "log-sum-exp": Descent(
            lambda x: (x @ A.mT).logsumexp(-1), float(X.square().sum(dim=1).max())
        ),
        "Huber": Descent(huber, top),
        "two wells": Descent(well, 12 * float(start.abs().max()) ** 2),
    }, start


def descended(
    f: Function, x: Tensor, lr: float, steps: int
) -> tuple[Tensor, list[int], list[Tensor], Tensor]:
    """Take gradient steps with every row of x; give the ends, some values, and the last slopes.

    The values have numbers, from 1 for the start, so that they can be drawn on a logarithmic axis.
    """
    slopes, numbers, values = grad(lambda x: f(x).sum()), [1], [f(x)]
    for step in range(1, steps + 1):
        x = x - lr * slopes(x)
        if step in STEPS or step == steps:
            numbers.append(1 + step)
            values.append(f(x))
    return x, numbers, values, slopes(x)


def operations(
    rng: torch.Generator, dim: int, h: Function, kept: bool
) -> dict[str, Function]:
    """Give what each operation makes of convex functions of one point, if its hypotheses are kept.

    Else a weight is negative, the maximum is a minimum, and what goes into f is not affine.
    """
    A, B, b, p, w = (randn(rng, *shape) for shape in ((5, dim), (dim, dim), (5,), (dim,), (3,)))
    w, bent = w.abs(), (lambda x: x) if kept else torch.sin
    convex: list[Function] = [
        lambda x: (A @ x + b).logsumexp(0), lambda x: (x - p).abs().sum(),
        lambda x: (B @ x) @ (B @ x),
    ]
    smooth, kinked, square = convex
    sign, most = (1, torch.amax) if kept else (-1, torch.amin)
    return {
        "h of f": lambda x: h(x @ x),
        "sum": lambda x: w[0] * smooth(x) + w[1] * kinked(x) + sign * w[2] * square(x),
        "maximum": lambda x: most(torch.stack([f(x) for f in convex]), 0),
        "f(Ax + b)": lambda x: smooth(bent(B @ x) + p) + kinked(bent(B @ x) + p),
        "on a line": lambda x: smooth(p + bent(x[0]) * w[0] * p) + kinked(bent(x[0]) * w[0] * p),
    }


class Contraction(NamedTuple):
    """A map of rows, where to start, its Lipschitz constant there and its fixed point."""

    f: Function
    start: Tensor
    rate: float
    limit: Tensor


def contractions(
    rng: torch.Generator, dim: int, starts: int, factor: float
) -> dict[str, Contraction]:
    """Give an affine map with a given Lipschitz constant, be it too large, and the cosine."""
    Q, b, x = (randn(rng, *shape) for shape in ((dim, dim), (dim,), (starts, dim)))
    Q, scales = torch.linalg.qr(Q).Q, factor * torch.linspace(1, -0.8, dim, dtype=b.dtype)
    M = (Q * scales) @ Q.mT
    limit = torch.linalg.lstsq(torch.eye(dim) - M, b[:, None], driver="gelsd").solution[:, 0]
    return {
        "affine": Contraction(lambda x: x @ M.mT + b, 3 * x, factor, limit),
        # cos maps [0, 1] into itself, and is nowhere there steeper than sin 1
        "cos": Contraction(torch.cos, rand(rng, starts, 1), math.sin(1), b.new_tensor([DOTTIE])),
    }


def iterates(f: Function, x: Tensor, steps: int) -> Tensor:
    """Apply a map again and again, to all rows at once."""
    return torch.stack(list(itertools.accumulate(range(steps), lambda x, _: f(x), initial=x)))


def stopped(trace: Tensor, rate: float | None, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """Judge by Banach's theorem where an iteration ends that is said to be near its limit.

    Without a rate it is the largest quotient of two steps so far. Gives the sizes of steps, of each
    iterate whether it is wrong to stop there or to go on, and the bounds.
    """
    sizes = trace.diff(dim=0).norm(dim=1)
    seen = F.pad((sizes[1:] / sizes[:-1]).cummax(dim=0).values, (1, 0), value=math.nan)
    used = seen if rate is None else torch.full_like(sizes, rate)
    near = used / (1 - used) * sizes <= tol
    wrong = near != F.pad(torch.zeros_like(near[1:]), (0, 1), value=True)
    powers = used[-1] ** torch.arange(len(trace)).to(trace)
    return sizes, wrong, powers / (1 - used[-1]) * sizes[0]


class Constrained(NamedTuple):
    """The least f where g = c: a start, and x*, the multiplier and the minimum, all of c."""

    f: Function
    g: Function
    start: Function
    solution: Function
    price: Function
    lowest: Function


def constrained(rng: torch.Generator, dim: int) -> dict[str, Constrained]:
    """Give problems whose solutions have a closed form: on a simplex, a plane and a sphere."""
    a, p = F.normalize(randn(rng, dim), dim=0), F.softmax(randn(rng, dim), dim=0)
    ones = torch.ones_like(a)
    return {
        "relative entropy": Constrained(
            lambda x: (x * (x / p).log()).sum(), torch.sum, start=lambda c: c * ones / dim,
            solution=lambda c: c * p, price=lambda c: c.log() + 1, lowest=lambda c: c * c.log(),
        ),
        "nearest point of a plane": Constrained(
            lambda x: x @ x, lambda x: a @ x, start=lambda c: c * ones,
            solution=lambda c: c * a, price=lambda c: 2 * c, lowest=lambda c: c**2,
        ),
        "lowest point of a sphere": Constrained(
            lambda x: a @ x, lambda x: x @ x, start=lambda c: 0.1 - c.sqrt() * a,
            solution=lambda c: -c.sqrt() * a, price=lambda c: -1 / (2 * c.sqrt()),
            lowest=lambda c: -c.sqrt(),
        ),
    }


def two_planes(
    rng: torch.Generator, dim: int, c: float
) -> tuple[Function, Function, Tensor, Tensor, Tensor, Tensor]:
    """Ask for the shortest x on two planes: f, g, the levels, a start, x* and both multipliers."""
    A, levels = randn(rng, 2, dim), torch.tensor([c, -1.0], dtype=torch.float64)
    weights = torch.linalg.solve(A @ A.mT, levels)
    return lambda x: x @ x, lambda x: A @ x, levels, randn(rng, dim), A.mT @ weights, 2 * weights

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
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import plotly.graph_objects as go
import torch
from jaxtyping import Bool, Float
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.mnist import mnist
from principia.lab.domains import Count, NonNegative, Positive, Range
from principia.lab.draws import rand, randn
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_most, equal, every, identical, never, slope, tends_to
from principia.lab.seeds import Seed
from principia.lab.training import fit
from principia.mathematics.matrix_calculus import jacobian

Function = Callable[[Tensor], Tensor]
Weight = Float[Tensor, " N"] | float
Level = Float[Tensor, "*M"] | float
Dim = Annotated[int, Range(2, 10)]
Pairs = Annotated[int, Range(1000, 200_000)]
ZooName = Literal[
    "|x|^2", "sum x^4", "sum exp x", "log sum exp x", "sqrt(1+|x|^2)", "-sum log x", "sum x log x",
    "x^2-x^4", "sum sin x", "sum tanh x", "x1 x2", "(|x|^2-1)^2",
]
CHUNK = 2**18  # coordinates of points that are held in memory at once
HALVINGS = 40  # of a step that does not come nearer
DOTTIE = 0.7390851332151607  # the fixed point of cos
STEPS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 400, 800)  # of a descent that are drawn, and the last
IMAGES = 1000  # of MNIST whose mean loss is looked at
ROUNDING = 1e-12  # of a difference of a few numbers, relative to 1 + their size
ZOO: Mapping[str, tuple[Function, bool]] = {  # functions of the last axis; whether they are convex
    "|x|^2": (lambda x: x.square().sum(-1), True),
    "sum x^4": (lambda x: (x**4).sum(-1), True),
    "sum exp x": (lambda x: x.exp().sum(-1), True),
    "log sum exp x": (lambda x: x.logsumexp(-1), True),
    "sqrt(1+|x|^2)": (lambda x: (1 + x.square().sum(-1)).sqrt(), True),
    "-sum log x": (lambda x: -x.log().sum(-1), True),
    "sum x log x": (lambda x: (x * x.log()).sum(-1), True),
    "x^2-x^4": (lambda x: (x**2 - x**4).sum(-1), False),
    "sum sin x": (lambda x: x.sin().sum(-1), False),
    "sum tanh x": (lambda x: x.tanh().sum(-1), False),
    "x1 x2": (lambda x: x[..., 0] * x[..., 1], False),
    "(|x|^2-1)^2": (lambda x: (x.square().sum(-1) - 1).square(), False),
}
LINE_ZOO: Mapping[str, Function] = {  # strictly convex functions of one number
    "x^2": torch.square, "e^x": torch.exp, "x^4": lambda x: x**4, "cosh x": torch.cosh,
    "log(1+e^x)": F.softplus, "sqrt(1+x^2)": lambda x: (1 + x * x).sqrt(),
}
OUTER: Mapping[str, Function] = {
    "exp": torch.exp, "relu squared": lambda u: u.relu().square(), "tanh": torch.tanh,
}
EVERYWHERE = {"logistic_violations": Range(0, 0), "midpoints_higher_share": Range(1, 1)}
# on MNIST the share is recorded, not required: it depends on the scale of the random parameters
GOALS = {**EVERYWHERE, "network_violation_share": at_least_goal(0.1)}


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
    middle, weight = _between("chord_violation", x, y, lam)
    at_x, at_y, inside = (_values("chord_violation", f, one) for one in (x, y, middle))
    return inside - weight * at_x - (1 - weight) * at_y


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
    at_x, at_y = (_values("tangent_violation", f, one) for one in (x, y))
    slopes = _finite("tangent_violation", _batched(grad(f), x), x, "its gradient")
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
    _values("hessian_min_eig", f, x)
    H = _batched(lambda point: jacobian(grad(f), point), x)
    return torch.linalg.eigvalsh(_finite("hessian_min_eig", H, x, "its Hessian"))[:, 0]


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
    middle, _ = _between("is_convex_set", x, y, lam)
    for name, points in (("x", x), ("y", y)):
        if not bool((belongs := _batched(member, points)).all()):
            outside = points[~belongs][0].tolist()
            raise refuse("is_convex_set", name, "members of the set, in every row", outside)
    return _batched(member, middle)


@checked
@torch.no_grad()
def in_epigraph(
    f: Function, x: Float[Tensor, "*N D"], t: Float[Tensor, "*N"], *, tol: NonNegative = 0.0
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
    quotients = _quotients("strong_convexity", f, x, y)
    return quotients.min(), hessian_min_eig(f, torch.cat([x, y])).min()


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
    ends = [_finite("lipschitz", _batched(f, one), one) for one in (x, y)]
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
        raise refuse("condition_number", "H", "finite and not empty", f"shape {tuple(H.shape)}")
    values = torch.linalg.svdvals(H)
    large, small = values[..., 0], values[..., -1]
    rounding = max(H.shape[-2:]) * torch.finfo(values.dtype).eps
    return torch.where(small > rounding * large, large / small, math.inf)


@checked
@torch.no_grad()
def fixed_point(
    f: Function, x0: Float[Tensor, " D"], tol: Positive = 1e-8, *,
    rate: Annotated[float, Range(0, 1, open="high")] | None = None, steps: Count = 10_000,
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
        if sizes[-1] <= noise or (known and factor / (1 - factor) * sizes[-1] <= tol):
            powers = torch.arange(len(trace)).to(x0)
            return torch.stack(trace), factor**powers / (1 - factor) * sizes[0]
        trace.append(f(last))
    hint = "A factor near 1 takes long: raise steps or tol."
    raise refuse("fixed_point", "steps", f"enough to come within {tol:g}", steps, hint)


@checked
def lagrange(
    f: Function, g: Function, c: Level, x0: Float[Tensor, " D"], *, steps: Count = 100
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
    start, count = x0.detach(), len(x0)
    value, slopes = g(start).detach(), jacobian(g, start).detach().reshape(-1, count)
    level = torch.as_tensor(c, dtype=x0.dtype, device=x0.device).expand_as(value).flatten()

    def lagrangian(z: Tensor) -> Tensor:
        return f(z[:count]) - z[count:] @ (g(z[:count]).flatten() - level)

    field = grad(lagrangian)
    prices = torch.linalg.lstsq(slopes.mT, grad(f)(start).detach()[:, None], driver="gelsd")
    z = torch.cat([start, prices.solution[:, 0]])
    for _ in range(steps):
        rest, K = field(z).detach(), jacobian(field, z).detach()
        if not bool(K.isfinite().all() & rest.isfinite().all()):
            got, hint = f"x = {z[:count].tolist()}", "Start nearer to the solution."
            raise refuse("lagrange", "f and g", "finite, with derivatives, on the way", got, hint)
        if math.isinf(condition_number(K)):
            got = f"a singular one at x = {z[:count].tolist()}"
            hint = "Drop repeated constraints, and start where the gradient of g is not 0."
            raise refuse("lagrange", "f, g and x0", "with a nonsingular KKT matrix", got, hint)
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
    raise refuse("lagrange", "x0", "a start that leads to a stationary point", start.tolist(), hint)


@claim(control={"region": "annulus"}, source="Boyd and Vandenberghe 2004, sec. 2.1 and 2.2")
def convex_set(
    seed: Seed, *, pairs: Pairs = 100_000, dim: Annotated[int, Range(2, 5)] = 2,
    region: Literal["ball", "polytope", "PSD cone", "annulus"] = "ball",
) -> Evidence:
    r"""Balls, polytopes and the PSD cone hold the segment between any two of their points."""
    rng = seed.torch()
    faces = F.normalize(randn(rng, 4 * dim, dim), dim=1)
    members: dict[str, Function] = {
        "ball": lambda x: x.norm() <= 1 + ROUNDING,
        "polytope": lambda x: (faces @ x).max() <= 1 + ROUNDING,
        "PSD cone": lambda x: torch.linalg.eigvalsh(x.view(dim, dim))[0] >= -ROUNDING * x.norm(),
        "annulus": lambda x: (x.norm() <= 1 + ROUNDING) & (x.norm() >= 0.5 - ROUNDING),
    }

    def draw(name: str) -> Tensor:
        share = (1.5 * rand(rng, pairs, 1)).clamp(max=1.0)  # a third lies on the boundary
        if name == "PSD cone":
            A = randn(rng, pairs, dim, dim) * (torch.arange(dim) * share[..., None] < 1)
            return (A @ A.mT).flatten(1)
        rays = F.normalize(randn(rng, pairs, dim), dim=1)
        if name == "polytope":  # some rays may never meet a face
            return share * rays / (rays @ faces.mT).amax(dim=1, keepdim=True).clamp(min=0.1)
        return rays * (share if name == "ball" else (1 + share) / 2)

    parts = {}
    for name in dict.fromkeys([region, "ball", "polytope", "PSD cone"]):
        x, y, lam = draw(name), draw(name), rand(rng, pairs)
        inside, middle = is_convex_set(members[name], x, y, lam), _between("", x, y, lam)[0]
        kept, lost = (middle[which][:400] for which in (inside, ~inside))
        parts[name] = never(~inside, why="a theorem: no exception").drawn(
            Series("ends of segments", x[:400, 0], x[:400, 1], "other", "points"),
            Series("between them, inside", kept[:, 0], kept[:, 1]),
            Series("between them, outside", lost[:, 0], lost[:, 1], "bound", "points"),
            x="first coordinate", y="second coordinate",
        )
    return every(parts)


@claim(control={"hessian_at": "the minimum"}, source="Boyd and Vandenberghe 2004, sec. 3.1")
def convex_function(
    seed: Seed, *, dim: Dim = 3, pairs: Annotated[int, Range(500, 5000)] = 1000,
    function: ZooName = "x^2-x^4", hessian_at: Literal["all points", "the minimum"] = "all points",
) -> Evidence:
    r"""Chords above, a convex epigraph, tangents below and $\nabla^2f\succeq0$ say the same."""
    rng, verdicts = seed.torch(), []
    plane, lam = [_spread(rng, pairs, dim, 2.0) for _ in range(2)], rand(rng, pairs)
    for name, (f, _) in ZOO.items():
        x, y = (one.exp() if "log x" in name else one for one in plane)  # logarithms need x > 0
        rounding = 1e-10 * (1 + float(f(torch.cat([x, y])).abs().max()))
        on_x, on_y = (torch.cat([one, f(one)[:, None]], dim=1) for one in (x, y))  # on the graph
        above = is_convex_set(
            lambda p, f=f: in_epigraph(f, p[:-1], p[-1], tol=1e-10), on_x, on_y, lam
        )
        local = hessian_at == "the minimum" and name == "x^2-x^4"
        violations = [
            chord_violation(f, x, y, lam), torch.where(above, 0.0, math.inf),
            tangent_violation(f, x, y), -hessian_min_eig(f, 0 * x[:1] if local else x),
        ]
        verdicts.append([bool((one <= rounding).all()) for one in violations])
    truth = [[convex] * 4 for _, convex in ZOO.values()]
    drawn = _on_a_line(function, dim, hessian_at == "the minimum")
    return equal(verdicts, truth, tol=0, why="yes or no").drawn(*drawn, x="t", y="f on a line")


@claim(control={"function": "tilted double well"}, source="Boyd and Vandenberghe 2004, sec. 4.2.2")
def local_is_global(
    seed: Seed, *, starts: Annotated[int, Range(20, 300)] = 100,
    dim: Annotated[int, Range(2, 6)] = 3, tilt: Annotated[float, Range(0.05, 0.8)] = 0.3,
    function: Literal["logistic loss", "log-sum-exp", "Huber", "tilted double well"] = "Huber",
) -> Evidence:
    r"""Every local minimum of a convex function is global: descent from anywhere ends as low."""
    rng, rows = seed.torch(), 20 * dim
    X, noise, start = (randn(rng, *one) for one in ((rows, dim), (rows,), (starts, dim)))
    Z, A, start = X * (X[:, 0] + 2 * noise).sign()[:, None], torch.cat([X, -X]), 2 * start
    top, targets = float(torch.linalg.eigvalsh(X.mT @ X)[-1]) / rows, (noise**3).expand(starts, -1)
    problems: dict[str, tuple[Function, float]] = {  # and a bound of its curvature on the way
        "logistic loss": (lambda x: F.softplus(-x @ Z.mT).mean(-1), top / 4),
        "log-sum-exp": (lambda x: (x @ A.mT).logsumexp(-1), float(X.square().sum(dim=1).max())),
        "Huber": (lambda x: F.huber_loss(x @ X.mT, targets, reduction="none").mean(-1), top),
        "tilted double well": (
            lambda x: (x[:, 0] ** 2 - 1) ** 2 + tilt * x[:, 0] + x[:, 1:].square().sum(-1),
            12 * float(start.abs().max()) ** 2,
        ),
    }
    parts = {}
    convex = [function, *(one for one in problems if one != "tilted double well")]
    for name in convex if function in convex[1:] else [function]:
        f, curvature = problems[name]
        values, slopes = _descend(f, start, 1 / curvature)  # (STEPS, starts) and (starts, dim)
        end, times = values[-1], [1 + k for k in STEPS]
        parts |= {
            name: equal(end, end.min(), tol=1e-6, why="800 steps end nearer to a minimum").drawn(
                *(Series(f"start {k + 1}", times, values[:, k], "other") for k in range(12)),
                Series("ends of all starts", times[-1:] * starts, end),
                Series("lowest", [1, times[-1]], [end.min()] * 2, "predicted"),
                x="step of gradient descent", y=name, log="x",
            ),
            f"{name}: ends are stationary": at_most(
                slopes.norm(dim=1), 1e-3, why="f above a minimum is about the gradient squared"
            ),
        }
    return every(parts)


@claim(
    control={"weights": "[0, 1]"}, source="Boyd and Vandenberghe 2004, sec. 3.1.1",
    misprint=r"$f(\lambda x+(1-\lambda)y)<\lambda f(x)+(1-\lambda)f(y)$ for $\lambda\in[0,1]$",
)
def strict_inequality(
    seed: Seed, *, pairs: Annotated[int, Range(10, 5000)] = 500,
    grid: Annotated[int, Range(3, 99)] = 39, weights: Literal["(0, 1)", "[0, 1]"] = "(0, 1)",
) -> Evidence:
    r"""Strictly convex functions lie strictly below their chords for $\lambda\in(0,1)$."""
    rng = seed.torch()
    x, lam = _spread(rng, pairs, 1, 3.0), torch.linspace(0, 1, grid + 2, dtype=torch.float64)
    y, lam = -x.sign() * rand(rng, pairs, 1), lam if weights == "[0, 1]" else lam[1:-1]
    gaps = {
        name: -torch.stack([chord_violation(lambda x, f=f: f(x[0]), x, y, float(k)) for k in lam])
        for name, f in LINE_ZOO.items()
    }
    mean = [Series(name, lam, gap.mean(dim=1), "other", "points") for name, gap in gaps.items()]
    return every({
        name: never(gap <= 0, why="a strict inequality").drawn(
            *mean, Series("equality", [0, 1], [0, 0], "bound"),
            x="weight λ", y="mean height of chords above f",
        ) for name, gap in gaps.items()
    })


@claim(
    control={"says": "exactly one"}, source="Boyd and Vandenberghe 2004, sec. 4.2",
    misprint="strict convexity guarantees a unique global minimum",
)
def at_most_one_minimizer(
    seed: Seed, *, boxes: Annotated[int, Range(10, 200)] = 40,
    widest: Annotated[float, Range(8, 64)] = 32.0,
    says: Literal["at most one", "exactly one"] = "at most one",
) -> Evidence:
    r"""A strictly convex function has at most one minimizer; $e^x$, strictly convex, has none."""
    rng = seed.torch()
    shift, scale = 2 * float(rand(rng, 1)) - 1, 0.5 + float(rand(rng, 1))
    half = torch.logspace(1, math.log2(widest), boxes, base=2.0, dtype=torch.float64)
    center = half * (rand(rng, boxes) - 0.5) / 2
    counts, lowest = {}, {}
    for name, f in LINE_ZOO.items():
        slopes = vmap(grad(lambda x, f=f: f(scale * (x - shift))))
        left, right = center - half, center + half
        inside = (slopes(left) < 0) & (slopes(right) > 0)
        for _ in range(100):  # f' grows: halving closes in on its change of sign, or on an end
            middle = (left + right) / 2
            rising = slopes(middle) > 0
            left, right = torch.where(rising, left, middle), torch.where(rising, middle, right)
        lowest[name] = (left + right) / 2
        found = lowest[name][inside].sort().values
        counts[name] = int(len(found) > 0) + int((found.diff() > 1e-9).sum())
    found = list(counts.values())
    counted = at_most(found, 1, why="a theorem: no exception") if says == "at most one" else equal(
        found, 1, tol=0, why="a count"
    )
    return every({
        "minimizers": counted.drawn(
            *(Series(name, half, one, "other", "points") for name, one in lowest.items()),
            Series("lower edge of the box", half, center - half, "bound"),
            x="half the width of the box", y="lowest point in the box", log="x",
        ),
        "x^2": identical(lowest["x^2"], torch.full_like(half, shift)),
        "e^x is lowest at the edge": identical(lowest["e^x"], center - half),
    })


@claim(
    control={"outer": "tanh"}, source="Boyd and Vandenberghe 2004, sec. 3.2",
    misprint=r"$h\circ f$ is convex for convex $f$ and any non-decreasing $h$",
)
def preserving_operations(
    seed: Seed, *, pairs: Pairs = 100_000, dim: Dim = 3,
    outer: Literal["exp", "relu squared", "tanh"] = "exp",
) -> Evidence:
    r"""Sums, maxima, $f(Ax+b)$, lines, and $h\circ f$ with $h$ convex and rising keep convexity."""
    rng, h = seed.torch(), OUTER[outer]
    A, B, b, p, w = (randn(rng, *one) for one in ((5, dim), (dim, dim), (5,), (dim,), (3,)))
    x, y, lam = randn(rng, pairs, dim), randn(rng, pairs, dim), rand(rng, pairs)

    def smooth(x: Tensor) -> Tensor:
        return (A @ x + b).logsumexp(0)

    def kinked(x: Tensor) -> Tensor:
        return (x - p).abs().sum()

    def square(x: Tensor) -> Tensor:
        return (B @ x) @ (B @ x)

    def above(f: Function) -> Tensor:
        size = 1 + lam * vmap(f)(x).abs() + (1 - lam) * vmap(f)(y).abs()
        return chord_violation(f, x, y, lam) / size

    made: dict[str, Function] = {
        "h of f": lambda x: h(x @ x),
        "sum": lambda x: w[0].abs() * smooth(x) + w[1].abs() * kinked(x) + w[2].abs() * square(x),
        "maximum": lambda x: torch.stack([smooth(x), kinked(x), square(x)]).amax(0),
        "f(Ax + b)": lambda x: smooth(B @ x + p) + kinked(B @ x + p),
        "on a line": lambda x: smooth(p + x[0] * w[0] * p) + kinked(x[0] * w[0] * p),
    }
    why = "a theorem; rounding stays below 1e-12 of the values"
    parts = {name: never(above(one) > ROUNDING, why=why) for name, one in made.items()}
    for name, f in {"log-sum-exp": smooth, "1-norm": kinked, "square": square}.items():
        parts[f"−{name} is concave"] = never(above(lambda x, f=f: -f(x)) < -ROUNDING, why=why)
    t, ends = (torch.linspace(*one, dtype=x.dtype) for one in ((0, 2.2, 111), (1, 2, 2)))
    parts["h of f"] = parts["h of f"].drawn(
        Series(f"h = {outer}", t, h(t * t), "measured", "line"),
        Series("chord", ends, h(ends * ends), "bound"), x="x", y="h(x²)",
    )
    return every(parts)


@claim(control={"factor": 1.1}, source="Nesterov 2018, sec. 2.1.3")
def strong_convexity_claim(
    seed: Seed, *, dim: Dim = 5, condition: Annotated[float, Range(2, 1000)] = 20.0,
    pairs: Annotated[int, Range(50, 2000)] = 200, factor: Annotated[float, Range(0.5, 2)] = 1.0,
) -> Evidence:
    r"""On quadratics gradients grow apart, and curve, by at least $\mu=\lambda_{\min}$ exactly."""
    rng, mu = seed.torch(), factor / condition
    H, Q = _spd(rng, dim, condition)
    b, x = randn(rng, dim), randn(rng, pairs, dim)
    mix = torch.linspace(0, 1, pairs, dtype=x.dtype)[:, None]  # from the flattest way to random
    way = F.normalize((1 - mix) * Q[:, 0] + mix * F.normalize(randn(rng, pairs, dim), dim=1))
    y = x + 2 * way

    def f(x: Tensor) -> Tensor:
        return x @ H @ x / 2 + b @ x

    quotient, eigenvalue = strong_convexity(f, x, y)
    why = "1e-6 of the least curvature: far above rounding"
    gap = tangent_violation(f, x, y) + mu / 2 * (y - x).square().sum(dim=1)
    size = 1 + vmap(f)(x).abs() + vmap(f)(y).abs()
    return every({
        "monotonicity": equal(quotient, mu, tol=1e-6 * mu, why=why).drawn(
            Series("pairs", (way @ Q[:, 0]) ** 2, _quotients("", f, x, y)),
            Series("μ", [0, 1], [mu, mu], "bound"),
            x="share of the pair along the flattest direction", y="growth of the gradient",
        ),
        "least eigenvalue": equal(eigenvalue, mu, tol=1e-6 * mu, why=why),
        "f above tangent + μ/2 |y − x|²": never(
            gap > ROUNDING * size, why="equivalent; rounding stays below 1e-12 of the values"
        ),
    })


@claim(control={"plus": "x^2"}, source="Nesterov 2018, sec. 2.1.3")
def strict_not_strong(
    seed: Seed, *, power: Literal[4, 6, 8] = 4,
    widest: Annotated[float, Range(0.1, 1)] = 0.3, plus: Literal["nothing", "x^2"] = "nothing",
) -> Evidence:
    r"""$x^4$ is strictly, not strongly convex: from $-r$ to $r$ its gradient grows by $4r^2$."""
    x, y = (_spread(seed.child(k).torch(), 500, 1, 2.0) for k in range(2))
    radii = torch.logspace(math.log10(widest), math.log10(widest) - 2, 13, dtype=x.dtype)

    def f(x: Tensor) -> Tensor:
        return (x**power + (x**2 if plus == "x^2" else 0)).sum()

    found = [strong_convexity(f, r.view(1, 1), -r.view(1, 1)) for r in radii]
    quotients, curvatures = (torch.stack(one) for one in zip(*found, strict=True))
    limit = power * (0.02 * widest) ** (power - 2)
    return every({
        "order": slope(
            radii, quotients, power - 2, tol=0.05, why="a power of r: rounding only",
            labels=("r", "growth of the gradient from −r to r"),
        ),
        "no μ is left": tends_to(
            radii, quotients, 0.0, tol=limit, why="what the power is at twice the least r"
        ),
        "curvature at ±r": identical(curvatures, power * (power - 1) * radii ** (power - 2)),
        "strictly convex": never(chord_violation(f, x, y, 0.5) >= 0, why="a strict inequality"),
    })


@claim(control={"constant": "one for all b"}, source="Rockafellar 1970; mean value theorem")
def lipschitz_is_sup_slope(
    seed: Seed, *, pairs: Annotated[int, Range(100, 20_000)] = 2000,
    highest: Annotated[float, Range(1, 20)] = 4.0, dim: Dim = 4,
    constant: Literal["e^b", "one for all b"] = "e^b",
) -> Evidence:
    r"""$L=\sup|f'|$: that of $e^x$ on $(-\infty,b]$ is $e^b$, so that none serves all $b$."""
    rng = seed.torch()
    below = torch.cat([torch.zeros(1, 1), 5 * rand(rng, pairs, 1)])  # one point lies at b

    def steepest(b: Tensor, gap: Tensor) -> Tensor:
        return lipschitz(torch.exp, b - below, b - below - gap)

    ends, gaps = torch.linspace(-1, highest, 11).double(), torch.logspace(0, -5, 11).double()
    found = torch.stack([steepest(b, gaps[-1]) for b in ends])
    expected = (ends if constant == "e^b" else ends[5].expand(11)).exp()
    ratios = torch.stack([steepest(ends[-1], gap) / ends[-1].exp() for gap in gaps])
    W, x = randn(rng, dim, dim), randn(rng, 2 * dim + 1, dim)
    # the steepest ways in each norm: axes, signs of rows, and the first singular vector
    ways = torch.cat([torch.eye(dim, dtype=x.dtype), W.sign(), torch.linalg.svd(W).Vh[:1]])
    norms: dict[float, Function] = {
        1: lambda v: v.abs().sum(), 2: torch.linalg.vector_norm, math.inf: lambda v: v.abs().max(),
    }
    return every({
        "e^x up to b": equal(
            found / expected, 1.0, tol=1e-4, why="pairs 1e-5 apart are flatter by half of that"
        ).drawn(
            Series("steepest pair", ends, found), Series(constant, ends, expected, "predicted"),
            x="b", y="slope of eˣ on (−∞, b]", log="y",
        ),
        "closer pairs": tends_to(
            gaps, ratios, 1.0, tol=1e-4, why="half the distance of the last pair, and rounding"
        ),
        **{f"x ↦ Wx in the {order}-norm": identical(
            lipschitz(lambda x: W @ x, x, x + ways, norm=norm), torch.linalg.matrix_norm(W, order)
        ) for order, norm in norms.items()},
    })


@claim(control={"factor": 1.05}, source="Banach 1922, th. 6")
def contraction(
    seed: Seed, *, factor: Annotated[float, Range(0.1, 1.05)] = 0.8, dim: Dim = 3,
    starts: Annotated[int, Range(1, 200)] = 20, steps: Annotated[int, Range(5, 500)] = 60,
) -> Evidence:
    r"""If $L<1$, the error after $t$ steps is at most $\frac{L^t}{1-L}\Vert x_1-x_0\Vert$."""
    rng = seed.torch()
    Q, b, x0 = (randn(rng, *one) for one in ((dim, dim), (dim,), (starts, dim)))
    Q, scales = torch.linalg.qr(Q).Q, factor * torch.linspace(1, -0.8, dim, dtype=b.dtype)
    M = (Q * scales) @ Q.mT
    limit = torch.linalg.lstsq(torch.eye(dim) - M, b[:, None], driver="gelsd").solution[:, 0]
    maps: dict[str, tuple[Function, Tensor, float, Tensor]] = {
        "affine": (lambda x: x @ M.mT + b, 3 * x0, factor, limit),
        # cos maps [0, 1] into itself, and is nowhere there steeper than sin 1
        "cos": (torch.cos, rand(rng, starts, 1), math.sin(1), b.new_tensor([DOTTIE])),
    }
    parts, times = {}, torch.arange(steps + 1, dtype=b.dtype)[:, None]
    for name, (f, x, L, at) in maps.items():
        trace = x[None]
        for _ in range(steps):
            trace = torch.cat([trace, f(trace[-1:])])
        errors, first = (trace - at).norm(dim=2), (trace[1] - x).norm(dim=1)
        bounds = L**times / (1 - L) * first if L != 1 else first + math.inf * (times + 1)
        slack = 1e-12 * (1 + float(errors.max()))
        parts |= {
            f"{name}: no farther than at first": at_most(
                errors[-1], errors[0], slack=slack, why="rounding"
            ).drawn(
                Series("error", times[:, 0], errors[:, 0] + 1e-17),
                Series("bound", times[:, 0], bounds[:, 0].clamp(min=1e-17), "bound"),
                x="step t", y="distance from the fixed point", log="y",
            ),
            f"{name}: bound": at_most(errors, bounds, slack=slack, why="a theorem; rounding"),
        }
        if L < 0.995:  # nearer to 1, ten thousand steps may not be enough
            (found, claimed), (guessed, _) = (
                fixed_point(f, x[0], 1e-6, rate=rate) for rate in (L, None)
            )
            ends = torch.stack([found[-1] - at, guessed[-1] - at]).norm(dim=1)
            powers = L ** torch.arange(len(found), dtype=b.dtype)
            parts |= {
                f"{name}: fixed_point": at_most(
                    ends, torch.tensor([1e-6, 1e-4]), why="rates it guesses are a little too low"
                ),
                f"{name}: its bounds": identical(claimed, powers / (1 - L) * first[0]),
            }
    return every(parts)


@claim(control={"scaling": "D H D"}, source="Boyd and Vandenberghe 2004, sec. 9.1.2")
def condition_number_claim(
    seed: Seed, *, dim: Dim = 5, condition: Annotated[float, Range(2, 1000)] = 50.0,
    scaling: Literal["c H", "D H D"] = "c H",
) -> Evidence:
    r"""$\kappa\ge1$, $\kappa(cH)=\kappa(H)$, $\kappa(A^\top A)=\kappa(A)^2$, and $\kappa=L/\mu$."""
    rng, sizes = seed.torch(), torch.logspace(-3, 3, 13, dtype=torch.float64)
    H, Q = _spd(rng, dim, condition)
    A, x, D = randn(rng, dim + 2, dim), randn(rng, 2 * dim, dim), torch.ones(13, dim).double()
    y = x + torch.cat([Q.mT, randn(rng, dim, dim)])  # along every eigenvector, and at random
    D[:, 0] = sizes

    def f(x: Tensor) -> Tensor:
        return x @ H @ x / 2

    scaled = sizes[:, None, None] * H if scaling == "c H" else D[:, :, None] * H * D[:, None]
    kappas, many = condition_number(scaled), condition_number(randn(rng, 50, dim, dim))
    mirror = Q @ ((-1.0) ** torch.arange(dim, dtype=x.dtype)).diag() @ Q.mT
    found = torch.stack([
        condition_number(H), condition_number(H @ mirror), condition_number(H @ H).sqrt(),
        lipschitz(grad(f), x, y) / strong_convexity(f, x, y)[0],
    ])
    why = "1e-8 of κ: rounding"
    return every({
        "rescaled": equal(kappas, condition, tol=1e-8 * condition, why=why).drawn(
            Series(f"κ({scaling})", sizes, kappas),
            Series("κ(H)", sizes, [condition] * 13, "predicted"),
            x="c" if scaling == "c H" else "first entry of D, the others being 1",
            y="condition number", log="xy",
        ),
        "H, with other signs, H², L/μ": equal(found, condition, tol=1e-8 * condition, why=why),
        "A'A": equal(
            condition_number(A.mT @ A) / condition_number(A) ** 2, 1.0, tol=1e-8, why=why
        ),
        "at least 1": never(many < 1, why="the largest is no less than the least"),
        "singular": equal(condition_number(A @ A.mT), math.inf, tol=0, why="a rank below its size"),
    })


@claim(control={"form": "f + γ(g − c)"}, source="Boyd and Vandenberghe 2004, sec. 5.5.3 and 5.6.3")
def lagrangian(
    seed: Seed, *, dim: Dim = 4, c: Annotated[float, Range(0.5, 4)] = 2.0,
    form: Literal["f − γ(g − c)", "f + γ(g − c)"] = "f − γ(g − c)",
) -> Evidence:
    r"""Stationary points of $f-\gamma(g-c)$ solve $\min f$ s.t. $g=c$, and $\gamma=df^*/dc$."""
    rng, sign, h, parts = seed.torch(), 1 if form == "f − γ(g − c)" else -1, 1e-4, {}
    a, p = F.normalize(randn(rng, dim), dim=0), F.softmax(randn(rng, dim), dim=0)
    # f, g, and a start; then x*, γ and min f in closed form
    problems: dict[str, tuple[Function, ...]] = {
        "relative entropy": (
            lambda x: (x * (x / p).log()).sum(), torch.sum, lambda c: c * torch.ones_like(a) / dim,
            lambda c: c * p, lambda c: c.log() + 1, lambda c: c * c.log(),
        ),
        "nearest point of a plane": (
            lambda x: x @ x, lambda x: a @ x, torch.ones_like(a).mul,
            lambda c: c * a, lambda c: 2 * c, lambda c: c**2,
        ),
        "lowest point of a sphere": (
            lambda x: a @ x, lambda x: x @ x, lambda c: 0.1 - c.sqrt() * a,
            lambda c: -c.sqrt() * a, lambda c: -1 / (2 * c.sqrt()), lambda c: -c.sqrt(),
        ),
    }
    at = a.new_tensor([c, c - h, c + h, 0.5, 1.0, 2.0, 3.0, 4.0])
    reach = a.new_tensor([-0.3, 0.3])
    for name, (f, g, start, solution, price, lowest) in problems.items():
        found = [lagrange(f, g, float(one), start(one)) for one in at]
        x, prices = (torch.stack(one) for one in zip(*found, strict=True))
        values, prices = vmap(f)(x), sign * prices  # the multiplier of the other form is −γ
        parts |= {
            f"{name}: γ = df*/dc": equal(
                prices[0], (values[2] - values[1]) / (2 * h), tol=1e-6,
                why="a central difference errs by its step squared, 1e-8, times f*'''",
            ).drawn(
                *(Series("slope γ", one + reach, value + price * reach, "other")
                  for one, value, price in zip(at[3:], values[3:], prices[3:], strict=True)),
                Series("f(x*)", at[3:], values[3:]),
                Series("in closed form", at[3:], lowest(at[3:]), "predicted"),
                x="level c of the constraint", y="least f",
            ),
            f"{name}: x*": identical(x[0], solution(at[0])),
            f"{name}: γ": identical(sign * prices[0], price(at[0])),
        }
    return every(parts)


@experiment(
    reaches={**GOALS, **{f"mnist_{name}": goal for name, goal in EVERYWHERE.items()}}, floor=GOALS,
    source="Brea et al. 2019: permuting hidden units leads over a barrier; the shares are ours",
)
def loss_slices(
    run: Run, *, hidden: Annotated[int, Range(3, 16)] = 8,
    networks: Annotated[int, Range(10, 40)] = 20,
    pairs: Annotated[int, Range(100, 20_000)] = 10_000,
    scale: Annotated[float, Range(0.05, 4)] = 1.0,
) -> None:
    """Tests chords of a logistic and a network loss, and the way between permuted minima.

    Chords between random parameters need not show that a loss is not convex: how many do depends on
    the scale of the parameters, and on MNIST it may be none. Between permuted minima it rises.

    Args:
        hidden: Hidden units of a network; on MNIST twice as many.
        networks: How many are trained.
        pairs: Chords to test at full budget; a quarter when quick, a tenth on MNIST.
        scale: Standard deviation of the random parameters at the ends of chords.
    """
    raw: Any = load_breast_cancer()
    X, y = torch.tensor(raw.data), torch.tensor(raw.target)
    X = (X - X.mean(dim=0)) / X.std(dim=0)
    _slices(run, "", X, y, hidden, networks, pairs if run.full else pairs // 4, scale)
    if run.full:
        X, y = (one[:IMAGES] for one in mnist("train", data_dir=run.data_dir))
        X = X.flatten(1).double()
        _slices(run, "mnist_", X, y, 2 * hidden, networks, pairs // 10, scale)


def _slices(
    run: Run, prefix: str, X: Tensor, y: Tensor, hidden: int, networks: int, pairs: int,
    scale: float,
) -> None:
    """Run both tests on one set of data, and draw the losses on lines and on a plane."""
    rng, ends = run.seed.child(prefix).torch(), (X.shape[1], int(y.max()) + 1)
    linear, sizes = ends, (ends[0], hidden, ends[1])
    loss, shares = functools.partial(_loss, X, y), []
    for layers in run.steps((linear, sizes), f"{prefix}chords"):
        one, two = (scale * randn(rng, pairs, _count(layers)) for _ in range(2))
        gaps = chord_violation(functools.partial(loss, layers), one, two, rand(rng, pairs))
        shares.append(float((gaps > 1e-10).double().mean()))
    scales = [torch.full(((n + 1) * m,), n**-0.5) for n, m in itertools.pairwise(sizes)]
    theta = randn(rng, networks, _count(sizes)) * torch.cat(scales)  # one network a row
    model = nn.ParameterList([theta])
    fit(
        model, (X, y), lambda model, batch, rng: _loss(batch[0], batch[1], sizes, model[0]).sum(),
        torch.optim.Adam(model.parameters(), lr=0.02), steps=200, batch_size=len(X), run=run,
        name=f"{prefix}networks", seed=run.seed.child(f"{prefix}fit"),
    )
    minima, t = model[0].detach(), torch.linspace(-0.25, 1.25, 41, dtype=X.dtype)
    u, v = (_rolled(minima, sizes, by) - minima for by in (1, 2))
    lines = torch.stack([loss(sizes, minima + one * u) for one in (0.0, 0.5, 1.0, *t)])
    higher = lines[1] > torch.maximum(lines[0], lines[2])
    found = {
        "logistic_violations": shares[0] * pairs, "network_violation_share": shares[1],
        "midpoints_higher_share": higher.double().mean(), "loss_at_minima": lines[0].mean(),
        "loss_at_midpoints": lines[1].mean(),
    }
    run.record(**{f"{prefix}{name}": float(value) for name, value in found.items()})
    begin, way = 0.1 * randn(rng, 2, _count(linear))
    straight = loss(linear, begin + t[:, None] * way)
    run.figure(f"{prefix}slices", figures.draw(Picture((
        *(Series(f"network {k + 1}", t, line, "measured", "line")
          for k, line in enumerate(lines[3:].mT[:10])),
        Series("logistic loss on a random line", t, straight, "predicted"),
    ), "way from a trained network to itself with its hidden units permuted", "loss")))
    plane = torch.stack([loss(sizes, minima[0] + k * u[0] + t[:, None] * v[0]) for k in t], dim=1)
    run.figure(f"{prefix}surface", _surface(t, plane))


def _count(sizes: Sequence[int]) -> int:
    return sum((n + 1) * m for n, m in itertools.pairwise(sizes))


def _layers(sizes: Sequence[int], theta: Tensor) -> list[Tensor]:
    """Cut parameters (..., D) into matrices (..., m, n + 1), whose last column holds the biases."""
    shapes = [(m, n + 1) for n, m in itertools.pairwise(sizes)]
    pieces = theta.split([m * n for m, n in shapes], dim=-1)
    return [one.unflatten(-1, shape) for one, shape in zip(pieces, shapes, strict=True)]


def _loss(X: Tensor, y: Tensor, sizes: Sequence[int], theta: Tensor) -> Tensor:
    """Give the mean cross-entropy (...) of a tanh network, or of a linear model."""
    first, *rest = _layers(sizes, theta)
    out = X @ first[..., :-1].mT + first[..., None, :, -1]
    for W in rest:
        out = out.tanh() @ W[..., :-1].mT + W[..., None, :, -1]
    return -out.log_softmax(dim=-1)[..., torch.arange(len(y)), y].mean(dim=-1)


def _rolled(theta: Tensor, sizes: Sequence[int], by: int) -> Tensor:
    """Permute the hidden units in a circle, which changes no output."""
    W, V = _layers(sizes, theta)
    V = torch.cat([V[..., :-1].roll(by, dims=-1), V[..., -1:]], dim=-1)
    return torch.cat([W.roll(by, dims=-2).flatten(-2), V.flatten(-2)], dim=-1)


def _surface(t: Tensor, plane: Tensor) -> Any:
    """Draw the loss on the plane through three permutations of one network."""
    figure = go.Figure([
        go.Contour(x=t.tolist(), y=t.tolist(), z=plane.log10().tolist(), colorscale="Blues",
                   reversescale=True, ncontours=25, colorbar={"title": "log₁₀ loss"}),
        go.Scatter(x=[0, 1, 0], y=[0, 0, 1], mode="markers", marker_color="#dc2626", marker_size=10,
                   name="one network, three orders of its hidden units", showlegend=True),
    ])
    return figure.update_layout(
        template="plotly_white", height=520, xaxis_title="towards the first permutation",
        yaxis_title="towards the second", legend={"orientation": "h", "y": -0.2},
    )


def _on_a_line(name: str, dim: int, at_the_minimum: bool) -> list[Series]:
    """Draw a function of the zoo on a line, with a chord, a tangent and where it was tested."""
    positive = "log x" in name
    ray = torch.ones(dim) if positive else torch.tensor([1.0, -0.5, *[0.0] * (dim - 2)])
    low, left, at, right, high = (0.1, 0.2, 1, 3, 3.5) if positive else (-1.4, -1.2, 0.7, 1, 1.4)
    t, ends = torch.linspace(low, high, 141), torch.tensor([left, right])
    tested = torch.zeros(1) if at_the_minimum and not positive else t[::14]

    def along(t: Tensor) -> Tensor:
        return ZOO[name][0](t[..., None] * ray)

    touch = torch.tensor(float(at))
    return [
        Series(f"f = {name}", t, along(t), "predicted"),
        Series("chord", ends, along(ends), "other"),
        Series("tangent", t, along(touch) + grad(along)(touch) * (t - touch), "other"),
        Series("Hessian tested here", tested, along(tested)),
    ]


def _batched(f: Function, points: Tensor) -> Tensor:
    return vmap(f, chunk_size=max(1, CHUNK // points.shape[1]))(points)


def _between(owner: str, x: Tensor, y: Tensor, lam: Tensor | float) -> tuple[Tensor, Tensor]:
    """Mix pairs, and give the weights (N,) or (1,) of the first."""
    _need_pairs(owner, x, y)
    weight = torch.as_tensor(lam, dtype=x.dtype, device=x.device).reshape(-1)
    if len(weight) not in (1, len(x)):
        raise refuse(owner, "lam", f"one number, or {len(x)}: one a pair", f"{len(weight)} numbers")
    if not bool((fine := (weight >= 0) & (weight <= 1)).all()):
        hint = "Beyond, points leave the segment."
        raise refuse(owner, "lam", "in [0, 1]", float(weight[~fine][0]), hint)
    return weight[:, None] * x + (1 - weight[:, None]) * y, weight


def _need_pairs(owner: str, x: Tensor, y: Tensor, *, apart: bool = False) -> None:
    if x.shape != y.shape or x.ndim != 2 or not x.numel() or not x.is_floating_point():
        got = f"{tuple(x.shape)} and {tuple(y.shape)}, {x.dtype}"
        hint = "A single point is x[None]; integers convert with .double()."
        raise refuse(owner, "x and y", "floats of one shape (N, D)", got, hint)
    if apart and bool((same := (x == y).all(dim=1)).any()):
        raise refuse(owner, "y", "another point than x in every row", y[same][0].tolist())


def _finite(owner: str, values: Tensor, points: Tensor, what: str = "f") -> Tensor:
    """Refuse values that are not finite, and name the point."""
    good = values.isfinite().reshape(len(points), -1).all(dim=1)
    if not bool(good.all()):
        got = f"{what} not finite at {points[~good][0].tolist()}"
        raise refuse(owner, "x and y", "inside the domain of f, segments included", got)
    return values


def _values(owner: str, f: Function, points: Tensor) -> Tensor:
    values = _batched(f, points)
    if values.shape != points.shape[:1]:
        got = f"shape {tuple(values.shape[1:])}"
        raise refuse(owner, "f", "a function with one number as value", got, "Sum it up.")
    return _finite(owner, values, points)


@torch.no_grad()
def _quotients(owner: str, f: Function, x: Tensor, y: Tensor) -> Tensor:
    """Give the growth of the gradient along each pair, in units of its length squared."""
    _need_pairs(owner, x, y, apart=True)
    slopes = [_finite(owner, _batched(grad(f), one), one, "its gradient") for one in (x, y)]
    return ((slopes[1] - slopes[0]) * (y - x)).sum(dim=1) / (y - x).square().sum(dim=1)


def _need_shrinking(sizes: list[float], rate: float | None, noise: float) -> None:
    """Refuse a map whose last step shows that it is no contraction, or not with this rate."""
    before, last = sizes[-2:]
    if not last <= (1.0 if rate is None else rate) * before + noise:
        domain = "a contraction" if rate is None else f"a contraction with rate {rate:g}"
        got = f"a step {last / before:.4g} times as long as the one before"
        raise refuse("fixed_point", "f", domain, got, "Start nearer, or raise the rate below 1.")


def _descend(f: Function, x: Tensor, lr: float) -> tuple[Tensor, Tensor]:
    """Take gradient steps with every row of x; give values at some of them, and the last slopes."""
    values, slopes = [], torch.zeros_like(x)
    for k in range(STEPS[-1] + 1):
        x = (x - lr * slopes).requires_grad_()
        value = f(x)
        (slopes,) = torch.autograd.grad(value.sum(), x)
        x = x.detach()
        if k in STEPS:
            values.append(value.detach())
    return torch.stack(values), slopes


def _spd(rng: torch.Generator, dim: int, condition: float) -> tuple[Tensor, Tensor]:
    """Draw a matrix with eigenvalues from 1 / condition to 1, and its eigenvectors (columns)."""
    Q = torch.linalg.qr(randn(rng, dim, dim)).Q
    H = (Q * torch.logspace(-math.log10(condition), 0, dim, dtype=Q.dtype)) @ Q.mT
    return (H + H.mT) / 2, Q


def _spread(rng: torch.Generator, count: int, dim: int, reach: float) -> Tensor:
    """Draw points in all directions, with radii that are uniform up to a reach."""
    return reach * rand(rng, count, 1) * F.normalize(randn(rng, count, dim), dim=1)

r"""Hinges and maxout: what is true of it, and what would refute it.

Knobs:
    n: Variables of the functions.
    points: Random places at which the functions are compared.
    left: What is doubled on the left; the smaller of the two is wrong.
    pieces: Affine pieces of a maximum; where many maxima are tried, the most.
    chords: Random pairs of points between which the function is looked at.
    function: What is said to be convex; a difference of hinges is not.
    size: The most pieces that a term may have; the logarithm is too few.
    inputs: Inputs of the network.
    width: Units of a hidden layer.
    depth: Hidden layers of the network.
    second: Whether the second maximum is subtracted; one alone is convex.
    frequency: How fast the sine swings; its bend grows with the square.
    units: Maxout units of the network; one alone is convex.
    k: The most numbers of which the largest is found.
    missing: Levels that the tree of absolute values lacks.
    terms: How deep absolute values are nested in the sum; only depth 1 is additive.
    zero_set: Where the ReLU is said to be 0; the hyperplane itself belongs to it.
    factor: How far off $v$ lies, in distances of the hyperplane from 0; 2 makes the symmetry.
    image: Which image is taken; $v-x$ reflects at a point, not at the plane.
"""

import math
from collections.abc import Callable
from itertools import combinations
from typing import Annotated, Any, Literal

import numpy as np
import torch
from scipy import stats
from scipy.optimize import linprog
from torch import Tensor
from torch.nn import functional as F

from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    follows,
    never,
)
from principia.lab.params import Range
from principia.lab.pictures import Arrows, Rule
from principia.lab.seeds import Seed
from principia.lab.training import seeded_generators
from principia.networks.maxout import (
    Array,
    KHinge,
    Maxout,
    MaxoutMLP,
    Terms,
    avu_max,
    difference_of_maxes,
    half_spaces,
    hinge_decomposition,
    mirror,
    point_reflection,
    upper_simplices,
)
from principia.networks.mlp import MLP

Dim = Annotated[int, Range(1, 50)]
Points = Annotated[int, Range(100, 100_000)]


@claim(
    control={"left": "2 min"}, refutes=["twice the larger"],
    source="Breiman 1993; Goodfellow et al. 2013",
)
def two_max_identity(
    seed: Seed, *, n: Dim = 5, points: Points = 1000, left: Literal["2 max", "2 min"] = "2 max"
) -> Evidence:
    r"""$2\max(f,g)=f+g+\vert f-g\vert$; a 2-hinge with one piece 0 is a ReLU."""
    (W, b), x = _pieces(seed, 2, n), _points(seed, points, n)
    f, g = (x @ W.mT + b).unbind(dim=1)
    hinge = KHinge(W, b)(x) if left == "2 max" else -KHinge(-W, -b)(x)
    first = torch.tensor([1.0, 0.0], dtype=W.dtype)
    rectifier = KHinge(first[:, None] * W, first * b)
    net = MLP((n, 6, 4, 3), rng=seed.child("net").torch()).double()
    asked: list[dict[str, Any]] = [{}, {"dropout": 0.3}]  # of two pieces, without a word
    twins = [MaxoutMLP((n, 6, 4, 3), rng=seed.torch(), **one).double() for one in asked]
    layers: Any = [Maxout(n, 6, rng=seed.torch()).double(), *twins[0].hidden]
    for twin in twins:
        twin.out = net.layers[-1]
    for place, layer in zip((0, 0, 1), layers, strict=True):
        rows = [torch.stack([one, 0 * one], dim=1).flatten(0, 1).detach()
                for one in net.layers[place].parameters()]
        layer.rows.load_state_dict(dict(zip(("weight", "bias"), rows, strict=True)))
    twins[1].hidden = twins[0].hidden
    blocks = x[:100].view(2, 50, n)
    with seeded_generators(seed, x.device):
        dropped = twins[1](x)
    with seeded_generators(seed, x.device):
        h = x
        for layer in net.layers[:-1]:
            h = F.dropout(layer(h).relu(), 0.3)
    return every({
        "twice the larger": equal_to_rounding(2 * hinge, f + g + (f - g).abs()),
        "a piece 0 makes a ReLU": equal_to_rounding(rectifier(x), F.relu(f)),
        "a network of such units is the ReLU network": equal_to_rounding(twins[0](x), net(x)),
        "a layer of them, of blocks": equal_to_rounding(
            layers[0](blocks), net.activations(blocks)[1]),
        "dropout": equal_to_rounding(dropped, net.layers[-1](h)),
        "as drawn": _as_drawn(seed.child("drawn")),
    })


def _as_drawn(seed: Seed) -> Evidence:
    """Look at a network as it is made: what it computes, and its weights."""
    net, x = MaxoutMLP((9, 40, 50, 30), pieces=3, rng=seed.torch()).double(), _points(seed, 20, 9)
    layers: Any = [*(one.rows for one in net.hidden), net.out]
    h = x
    for rows, (m, k) in zip(layers, ((40, 3), (50, 3), (30, 1)), strict=True):
        h = (h @ rows.weight.mT + rows.bias).view(20, m, k).amax(dim=2)
    weights = [torch.cat([one.weight.flatten(), one.bias]) * one.in_features**0.5 for one in layers]
    return every({
        "formula": equal_to_rounding(net(x), h),
        "weights": follows(torch.cat(weights), stats.uniform(-1, 2), why="independent draws"),
    })


def _pieces(seed: Seed, k: int, n: int) -> tuple[Tensor, Tensor]:
    """Draw k affine functions of n variables, of about the same size near the origin."""
    rng = seed.torch()
    W = torch.randn(k, n, generator=rng, dtype=torch.float64)
    return W, torch.randn(k, generator=rng, dtype=torch.float64)


def _points(seed: Seed, count: int, n: int) -> Tensor:
    return 2 * torch.randn(count, n, generator=seed.child("points").torch(), dtype=torch.float64)


@claim(
    control={"function": "difference"}, refutes=["chords below the function"],
    source="Boyd and Vandenberghe 2004, sec. 3.2.3",
)
def hinge_is_convex(
    seed: Seed, *, n: Dim = 3, pieces: Annotated[int, Range(3, 50)] = 6,
    chords: Annotated[int, Range(1000, 100_000)] = 100_000,
    function: Literal["hinge", "difference"] = "hinge",
) -> Evidence:
    r"""A $k$-hinge is convex, and its gradient is constant where one piece is the largest."""
    hinge, other = (KHinge(*_pieces(seed.child(name), pieces, n)) for name in ("f", "g"))
    factor = 0.0 if function == "hinge" else 1.0

    def f(x: Tensor) -> Tensor:
        return hinge(x) - factor * other(x)

    x, y = _points(seed, 2 * chords, n).chunk(2)
    t = torch.rand(chords, 1, generator=seed.child("t").torch(), dtype=x.dtype)
    with torch.no_grad():
        inner, chord = f((1 - t) * x + t * y), (1 - t[:, 0]) * f(x) + t[:, 0] * f(y)
    widest = int((inner - chord).abs().argmax())
    a, z, shares = x[widest], y[widest], torch.linspace(0, 1, 60, dtype=x.dtype)
    start = x[:10_000].requires_grad_()
    (gradient,) = torch.autograd.grad(f(start).sum(), start)
    return every({
        "chords below the function": never(
            inner > chord + 1e-12 * (1 + chord.abs()), why="a theorem, up to float64 rounding"
        ).drawn(
            Series(function, shares, f(torch.lerp(a, z, shares[:, None])), style="line"),
            Series("chord", [0, 1], f(torch.stack([a, z])), "bound"), x="t", y="height"),
        "gradient is the slope of the largest piece": equal_to_rounding(
            gradient, hinge.w[hinge.cell(start)] - factor * other.w[other.cell(start)]),
    })


@claim(
    control={"size": "ceil(log2(n + 1))"}, refutes=["least squares over hinges"],
    source="Wang and Sun 2005; Koutschan et al. 2023",
    misprint=r"a $\pm1$ sum of $k$-hinges with $k\le\lceil\log_2(n+1)\rceil$",
)
def hinge_decomposition_claim(
    seed: Seed, *, n: Annotated[int, Range(1, 4)] = 3, pieces: Annotated[int, Range(2, 8)] = 7,
    points: Annotated[int, Range(500, 5000)] = 1000,
    size: Literal["n + 1", "ceil(log2(n + 1))"] = "n + 1",
) -> Evidence:
    r"""Every continuous piecewise-linear function on $R^n$ is a $\pm1$ sum of $(n+1)$-hinges."""
    grid = torch.linspace(-1, 1, 2001, dtype=torch.float64)[:, None]
    cases = {"|x|": (grid[[0, -1]], grid.new_zeros(2), grid)}
    for dim, K in ((1, 3), (1, 4), (2, 4), (2, 5), (3, 5), (n, pieces)):
        drawn = _pieces(seed.child((dim, K)), K, dim)
        cases[f"n = {dim}, K = {K}"] = (*drawn, _points(seed.child(dim), points, dim))
    fitted, summed, exact, misses = [], [], [], []
    for W, b, x in cases.values():
        values, dim = x @ W.mT + b, W.shape[1]
        most = dim + 1 if size == "n + 1" else math.ceil(math.log2(dim + 1))
        sets = [s for k in range(1, most + 1) for s in combinations(range(len(W)), k)]
        hinges = torch.stack([values[:, s].amax(dim=1) for s in sets], dim=1)
        hinges = torch.cat([hinges, x, torch.ones_like(x[:, :1])], dim=1)  # all affine ones too
        best = torch.linalg.lstsq(hinges, values.amax(dim=1, keepdim=True), driver="gelsd").solution
        terms = hinge_decomposition(W, b)
        fitted.append(hinges @ best[:, 0])
        summed.append(_signed_sum(values, terms))
        exact.append(values.amax(dim=1))
        misses += [abs(sign) != 1 or len(rows) > dim + 1 for sign, rows in terms]
    place, order = cases["n = 1, K = 3"][2][:, 0].sort()
    net = MLP((2, 3, 3, 1), rng=seed.child("net").torch()).double()
    x, total = _points(seed.child("net"), points, 2), torch.zeros(points, dtype=torch.float64)
    for sign, hinge in zip((1, -1), difference_of_maxes(net), strict=True):
        values = (x @ hinge.w.mT + hinge.b).detach()
        total += sign * _signed_sum(values, hinge_decomposition(hinge.w, hinge.b))
    return every({
        "least squares over hinges": equal_to_rounding(torch.cat(fitted), torch.cat(exact)).drawn(
            Series(f"best sum, sizes {size}", place, fitted[1][order]),
            Series("maximum of 3", place, exact[1][order], "predicted"), x="x", y="height"),
        "decomposition": equal_to_rounding(torch.cat(summed), torch.cat(exact)),
        "signs, and pieces beyond n + 1": never(
            misses, why="a theorem: inner faces of a triangulated polytope"),
        "a ReLU network": equal_to_rounding(total, net(x)[:, 0]),
        "special positions": _in_special_position(seed.child("special")),
    })


def _in_special_position(seed: Seed) -> Evidence:
    """Decompose maxima of pieces that lie in a plane, on a line, or in one point, and of sizes."""
    (W, b), x = _pieces(seed, 6, 3), _points(seed, 200, 3)
    cases = {
        "one slope": (W[:1].expand(6, -1), b), "slopes on a line": (W[:, :1] * W[0], b),
        "slopes in a plane": (W[:, :2] @ W[:2], b), "biases of a plane": (W, W @ W[0] + 1),
        "twice each": (W[:3].repeat(2, 1), b[:3].repeat(2)), "one piece": (W[:1], b[:1]),
        "large": (1e5 * W, 1e5 * b), "small": (1e-5 * W, 1e-5 * b), "far": (W + 9, b - 1e3),
    }
    found, exact = [], []
    for one, other in cases.values():
        values = x @ one.mT + other
        size = values.abs().max()
        found.append(_signed_sum(values, hinge_decomposition(one, other)) / size)
        exact.append(values.amax(dim=1) / size)
    return equal_to_rounding(torch.cat(found), torch.cat(exact))


def _signed_sum(values: Tensor, terms: Terms) -> Tensor:
    """Add up the terms of a decomposition from the values (N, K) of the pieces."""
    return torch.stack([sign * values[:, rows].amax(dim=1) for sign, rows in terms]).sum(dim=0)


@claim(
    control={"second": False}, refutes=["2-3-3-1", "3-4-1", "1-4-4-1", "4-3-2-1", "5-3-1"],
    source="Wang 2004, as quoted by Goodfellow et al. 2013, proposition 4.1",
)
def difference_of_maxes_claim(
    seed: Seed, *, inputs: Annotated[int, Range(1, 3)] = 2,
    width: Annotated[int, Range(2, 4)] = 3, depth: Annotated[int, Range(1, 2)] = 2,
    points: Points = 10_000, second: bool = True,
) -> Evidence:
    r"""Every ReLU network is $\max_{A_+}(w^\top x+b)-\max_{A_-}(w^\top x+b)$."""
    parts, idle = {}, []
    shapes = ((inputs, *depth * [width], 1), (2, 3, 3, 1), (3, 4, 1), (1, 4, 4, 1), (4, 3, 2, 1),
              (5, 3, 1))
    for sizes in dict.fromkeys(shapes):
        name = "-".join(map(str, sizes))
        net = MLP(sizes, bias=sizes[0] != 3, rng=seed.child(name).torch()).double()
        x = _points(seed.child(name), points, sizes[0])
        plus, minus = difference_of_maxes(net)
        with torch.no_grad():
            ends = plus(x), minus(x), plus(x) - second * minus(x), net(x)[:, 0]
            parts[name] = equal_to_rounding(*ends[2:])
            if sizes[0] == 1:
                names, order = ("first", "second", "compared", "network"), x[:, 0].argsort()[::40]
                parts[name] = parts[name].drawn(*(
                    Series(one, x[order, 0], y[order], "other", "line")
                    for one, y in zip(names, ends, strict=True)), x="input", y="height")
        if sizes[0] in (1, 4):
            idle += [room < -1e-6 for hinge in (plus, minus) for room in _rooms(hinge)]
    return every({**parts, "pieces nowhere the largest": never(
        idle, why="they are dropped, but for those that tie; the tolerance of a linear program")})


def _rooms(hinge: KHinge) -> list[float]:
    """Ask a linear program by how much each piece, somewhere, is larger than all the others."""
    w, b = hinge.w.detach().numpy(), hinge.b.detach().numpy()
    found, objective = [], [*[0.0] * w.shape[1], -1.0]
    for j in range(len(w)) if len(w) > 1 else ():
        rest = np.arange(len(w)) != j
        above = np.column_stack([w[rest] - w[j], np.ones(len(w) - 1)])  # t + (w - w_j)x <= b_j - b
        limits = [(-1e6, 1e6)] * w.shape[1] + [(None, 1.0)]
        best = linprog(objective, above, b[j] - b[rest], bounds=limits)
        found.append(-best.fun)
    return found


@claim(control={"units": 1}, source="Goodfellow et al. 2013, theorem 4.3")
def maxout_universal(
    seed: Seed, *, pieces: Annotated[int, Range(16, 1024)] = 256,
    frequency: Annotated[float, Range(4, 20)] = 6.0, units: Literal[2, 1] = 2,
) -> Evidence:
    r"""Two maxout units of $m$ pieces, subtracted, err by $\max\vert f''\vert/8m^2$ at most."""
    x = torch.linspace(0, 1, 4001, dtype=torch.float64)[:, None]
    target = (frequency * x[:, 0]).sin()
    sizes = [m for m in (4, 8, 16, 32, 64, 128, 256, 512) if m < pieces] + [pieces]
    errors = []
    for m in sizes:
        knots = np.linspace(0, 1, m + 1)
        rows = _convex_parts if units == 2 else _best_convex
        slopes, biases = map(torch.from_numpy, rows(knots, np.sin(frequency * knots)))
        with torch.no_grad():
            values = Maxout.from_rows(slopes[:, None], biases, pieces=m)(x)
        found = values[:, 0] - values[:, 1] if units == 2 else values[:, 0]
        errors.append(float((found - target).abs().max()))
    bounds = frequency**2 / (8 * np.array(sizes) ** 2)
    rounding = "a theorem; rounding of m slopes"
    return at_most(errors, bounds, slack=1e-12, why=rounding).named("largest error").drawn(
        Series("largest error", sizes, errors), Series("max|f''| / 8m²", sizes, bounds, "bound"),
        x="pieces m of a unit", y="largest error on [0, 1]", log="xy",
    )


def _convex_parts(knots: Array, values: Array) -> tuple[Array, Array]:
    """Write a polyline as the difference of two convex ones: slopes and biases of 2m pieces."""
    turns = np.diff(np.diff(values) / np.diff(knots), prepend=0.0)  # of the slope, at each knot
    turns = np.stack([turns, -turns]).clip(min=0)
    biases = -(turns * knots[:-1]).cumsum(axis=1)
    biases[0] += values[0]
    return turns.cumsum(axis=1).ravel(), biases.ravel()


def _best_convex(knots: Array, values: Array) -> tuple[Array, Array]:
    """Find the convex polyline nearest to the values: their envelope, raised by half its gap."""
    edges = np.sort(upper_simplices(knots[:, None], -values), axis=1)
    left, right = edges.T
    slope = (values[right] - values[left]) / (knots[right] - knots[left])
    bias = values[left] - slope * knots[left]
    gap = (values - (knots[:, None] * slope + bias).max(axis=1)).max()
    fill = np.arange(len(knots) - 1) % len(slope)  # a unit has one piece for each interval
    return slope[fill], bias[fill] + gap / 2


@claim(
    control=[
        Control({"missing": 1}, ["maximum"], "a tree that lacks its last level"),
        Control({"terms": "of depth 2"}, ["odd part of depth 1 is additive"],
                "sums of absolute values of absolute values"),
    ],
    source="Arora et al. 2018, theorem 2.1; Mukherjee and Basu 2017",
)
def nesting_depth(
    seed: Seed, *, k: Annotated[int, Range(2, 40)] = 16,
    points: Annotated[int, Range(100, 10_000)] = 1000, missing: Annotated[int, Range(0, 1)] = 0,
    terms: Literal["of depth 1", "of depth 2"] = "of depth 1",
) -> Evidence:
    r"""A maximum of $k$: $\lceil\log_2k\rceil$ nested absolute values; max(x, y, 0) needs 2."""
    found, largest, depths = [], [], []
    counts = range(2, k + 1)
    for count in counts:
        x = _points(seed.child(count), points, count).requires_grad_()
        tree = avu_max(count)
        found.append(tree[: len(tree) - missing](x).mean(dim=-1))  # cut short: of what is left
        largest.append(x.amax(dim=-1))
        depths.append(_nested(found[-1].grad_fn))
    (A, a), c = _pieces(seed, 9000, 2), _points(seed, 1000, 9)
    inner = torch.abs if terms == "of depth 1" else lambda z: (z.abs() - z.flip(0)).abs()
    flat = _defect(lambda z: (c * inner(A @ z).reshape(1000, 9)).sum(dim=1) + a[:2] @ z)
    triple = avu_max(3)
    expected = [math.ceil(math.log2(count)) - missing for count in counts]
    return every({
        "maximum": equal_to_rounding(torch.stack(found), torch.stack(largest)),
        "depth": equal(depths, expected, tol=0, why="an integer").drawn(
            Series("nested absolute values", counts, depths),
            Series("⌈log₂k⌉", counts, expected, "predicted", "steps"), x="k", y="depth",
        ),
        # f(z) - f(-z) is linear for every sum of |w'z| and a linear function, but here it is not
        "odd part of depth 1 is additive": equal(
            flat, 0, tol=1e-12, why="a theorem; rounding of sums of 9 terms"),
        "odd part of max(x, y, 0) is not": equal(
            _defect(lambda z: triple(F.pad(z, (0, 1)))), -1, tol=0, why="halves of small integers"),
    })


def _nested(node: Any) -> int:
    """Count the absolute values along the deepest path of a graph of gradients."""
    if node is None:
        return 0
    inner = max((_nested(one) for one, _ in node.next_functions), default=0)
    return inner + (type(node).__name__ == "AbsBackward0")


def _defect(f: Callable[[Tensor], Tensor]) -> Tensor:
    """Measure by how much the odd part f(z) - f(-z) of a function of the plane is not additive."""
    one, two = torch.eye(2, dtype=torch.float64)
    odd = [f(z) - f(-z) for z in (one + two, one, two)]
    return odd[0] - odd[1] - odd[2]


@claim(control={"zero_set": "H⁻"}, refutes=["zeros of the ReLU"], source="by definition")
def half_space_partition(
    seed: Seed, *, n: Dim = 3, points: Points = 10_000,
    zero_set: Literal["H⁻ ∪ H⁰", "H⁻"] = "H⁻ ∪ H⁰",
) -> Evidence:
    r"""$\mathrm{ReLU}(w^\top x+b)$ is 0 exactly on $H^-\cup H^0$, and $w^\top x+b$ on $H^0$."""
    rng = seed.numpy()
    w, x = rng.integers(1, 4, size=n) * rng.choice([-1, 1], n), rng.integers(-3, 4, (points, n))
    b = -int(w @ x[0])  # small integers are exact, and the first point is on the hyperplane
    normal, places = torch.from_numpy(w).double(), torch.from_numpy(x).double()
    plus, zero, minus = half_spaces(normal, float(b), places)
    vanishes = F.relu(places @ normal + b) == 0
    exact = torch.from_numpy(x @ w + b)  # integers
    inside = minus | zero if zero_set == "H⁻ ∪ H⁰" else minus
    why = "a definition, and exact arithmetic"
    return every({
        "zeros of the ReLU": never(vanishes != inside, why=why),
        "zeros of the form": never((exact == 0) != zero, why=why),
        "sides": never(((exact > 0) != plus) | ((exact < 0) != minus), why=why),
        "one part for each point": never(plus.int() + zero.int() + minus.int() != 1, why=why),
    })


@claim(control={"factor": 1.0}, refutes=["g(v - x) = g(x)"], source="by construction")
def avu_point_symmetry(
    seed: Seed, *, n: Dim = 5, points: Points = 1000,
    factor: Annotated[float, Range(0, 4)] = 2.0,
) -> Evidence:
    r"""$g(x)=\vert w^\top x+b\vert$ has $g(x)=g(v-x)$, $v=-2bw/\Vert w\Vert^2$."""
    w, b, x, g = _absolute_value(seed, n, points)
    v = -factor * b * w / (w @ w)
    image, unit = point_reflection(x, w, b), w / w.norm()
    line = torch.linspace(-10, 10, 201, dtype=x.dtype)
    return every({
        "g(v - x) = g(x)": equal_to_rounding(g(v - x), g(x)).drawn(
            Series("g", line, (line * w.norm() + b).abs(), "predicted"),
            Series("g(x) at x", x[:60] @ unit, g(x[:60])),
            Series("g(x) at v - x", (v - x[:60]) @ unit, g(x[:60]), "other", "points"),
            Rule("v / 2", x=float(v @ unit / 2)), x="place along w", y="height"),
        "point_reflection keeps g": equal_to_rounding(g(image), g(x)),
        "all midpoints are one point": equal_to_rounding(
            (x + image) / 2, (-b * w / (w @ w)).expand_as(x)),
    })


def _absolute_value(seed: Seed, n: int, points: int) -> tuple[Tensor, float, Tensor, Any]:
    """Draw w, b and points, and give g(x) = |w.x + b| with them."""
    W, b = _pieces(seed, 1, n)
    w, shift = W[0], float(b[0]) + 1.0  # a hyperplane through the origin would hide v
    return w, shift, _points(seed, points, n), lambda x: (x @ w + shift).abs()


@claim(
    control={"image": "v - x"}, refutes=["displacement parallel to w"],
    source="Hesse normal form; Householder 1958",
    misprint=r"$x\mapsto v-x$ called the mirroring at the hyperplane $w$",
)
def avu_mirror(
    seed: Seed, *, n: Annotated[int, Range(2, 50)] = 5, points: Points = 1000,
    image: Literal["mirror", "v - x"] = "mirror",
) -> Evidence:
    r"""The mirror image at $w^\top x+b=0$ is $x-2(w^\top x+b)w/\Vert w\Vert^2$, not $v-x$."""
    w, b, x, g = _absolute_value(seed, n, points)
    images = mirror(x, w, b) if image == "mirror" else point_reflection(x, w, b)
    along = (images - x) @ w / (w @ w)
    tangent = x - (x @ w)[:, None] * w / (w @ w)
    axes = torch.stack([w / w.norm(), tangent[0] / tangent[0].norm()], dim=1)
    return every({
        "displacement parallel to w": equal_to_rounding(images - x, along[:, None] * w).drawn(
            Arrows(x[:12] @ axes, images[:12] @ axes, "from x to its image"),
            Rule("w'x + b = 0", x=-b / float(w.norm())), x="along w", y="along the plane"),
        "midpoint on the hyperplane": equal_to_rounding(
            (images + x) @ w / 2, torch.full_like(along, -b)),
        "g keeps its value": equal_to_rounding(g(images), g(x)),
        "the two maps differ along the plane": equal_to_rounding(
            mirror(x, w, b) - point_reflection(x, w, b), 2 * tangent),
        "whatever the length of w": equal_to_rounding(
            torch.stack([mirror(x, size * w.abs(), size * b) for size in (-1e-250, -1.0, 1e250)]),
            mirror(x, w.abs(), b).expand(3, -1, -1),
        ),
    })

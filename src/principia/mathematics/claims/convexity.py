r"""Convexity: what is true of it, and what would refute it.

Knobs:
    pairs: Pairs of points that are compared.
    dim: Coordinates of a point; of the PSD cone, rows of a matrix.
    region: The set that is drawn; all are tested.
    members: Which points belong to a set; a boundary alone does not hold its segments.
    function: The function that is drawn; one with two wells has a minimum that is not the lowest.
    hessian_at: Where curvature is tested; at the minimum alone it says nothing of the rest.
    starts: Points from which minimization or iteration starts.
    tilt: How much deeper one of the two wells is.
    steps: Steps from every start; after too few of them descent is not at its end.
    grid: Weights between 0 and 1 that are tried.
    weights: Whether the weights 0 and 1 count; at the ends a chord meets every function.
    widest: How far out points lie, to either side.
    convex: Whether f is strictly convex; one with a flat bottom has many minimizers.
    says: How many minimizers are claimed; $e^x$ has none, so that it is not exactly one.
    outer: What is applied to a convex f; h has to rise and to be convex, and tanh is not.
    kept: Whether the hypotheses are kept; one broken in each is enough to lose convexity.
    condition: Largest over least eigenvalue of the Hessian.
    factor: Of $\mu$, how many times the least eigenvalue is claimed, which has to be 1; of a
        contraction, its Lipschitz constant, which has to be below 1.
    power: The power of x; all of these are flat at 0.
    plus: What is added to the power; $x^2$ makes it strongly convex.
    highest: The largest b up to which the slope of $e^x$ is sought.
    constant: The constant that is claimed; none serves all b.
    scaling: How H is rescaled; by one number it keeps its condition, row by row it does not.
    c: Level of the constraint.
    form: The sign before the multiplier; with a plus, minus the price comes out.
"""

import functools
import math
from typing import Annotated, Literal

import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.nn import functional as F

import principia.mathematics._convex_zoo as zoo
from principia.lab.draws import rand, randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    slope,
    tends_to,
)
from principia.lab.params import Choice, Range
from principia.lab.seeds import Seed
from principia.mathematics.convexity import (
    chord_violation,
    condition_number,
    fixed_point,
    growth_quotients,
    hessian_min_eig,
    in_epigraph,
    is_convex_set,
    lagrange,
    lipschitz,
    strong_convexity,
    tangent_violation,
)
from principia.mathematics.taylor import newton

Dim = Annotated[int, Range(2, 10)]
Pairs = Annotated[int, Range(1000, 200_000)]
EXACT = "a theorem: no exception"
BROKEN = "a negative weight, a minimum, and sin(Ax) in place of Ax"


@claim(
    control={"members": "on the boundary"}, refutes=["ball", "polytope", "PSD cone"],
    source="Boyd and Vandenberghe 2004, sec. 2.1 and 2.2",
)
def convex_set(
    seed: Seed, *, pairs: Pairs = 50_000, dim: Annotated[int, Range(2, 5)] = 2,
    region: Literal["ball", "polytope", "PSD cone"] = "ball",
    members: Literal["all", "on the boundary"] = "all",
) -> Evidence:
    r"""Balls, polytopes and the PSD cone hold the segment between any two of their points."""
    rng, parts = seed.torch(), {}
    regions = zoo.regions(rng, dim, hollow=members != "all")
    for name in dict.fromkeys([region, *regions]):
        member, draw = regions[name]
        x, y, lam = draw(pairs), draw(pairs), rand(rng, pairs)
        inside = is_convex_set(member, x, y, lam)
        middle = lam[:, None] * x + (1 - lam[:, None]) * y
        kept, lost = (middle[which][:400] for which in (inside, ~inside))
        parts[name] = never(~inside, why=EXACT).drawn(
            Series("ends of segments", x[:400, 0], x[:400, 1], "other", "points"),
            Series("between them, inside", kept[:, 0], kept[:, 1]),
            Series("between them, outside", lost[:, 0], lost[:, 1], "bound", "points"),
            x="first coordinate", y="second coordinate",
        )
    parts["epigraph"] = never(zoo.misjudged_at_a_graph(rng, in_epigraph), why="by definition")
    lam = torch.arange(1, 100).double()[:, None] / 100  # from 0 with weight λ to 1 it is 1 - λ
    found = is_convex_set(zoo.in_two_pieces, 0 * lam, 0 * lam + 1, lam[:, 0])
    return every({**parts, "gap": equal(found, 1 - lam[:, 0] < 0.305, tol=0, why="yes or no")})


@claim(control={"hessian_at": "the minimum"}, source="Boyd and Vandenberghe 2004, sec. 3.1")
def convex_function(
    seed: Seed, *, dim: Dim = 3, pairs: Annotated[int, Range(500, 5000)] = 1000,
    function: Annotated[str, Choice(tuple(zoo.FUNCTIONS))] = "x^2-x^4",
    hessian_at: Literal["all points", "the minimum"] = "all points",
) -> Evidence:
    r"""Chords above, a convex epigraph, tangents below and $\nabla^2f\succeq0$ say the same."""
    rng, verdicts = seed.torch(), []
    plane, lam = [zoo.spread(rng, pairs, dim, 2.0) for _ in range(2)], rand(rng, pairs)
    for name, f in zoo.FUNCTIONS.items():
        x, y = (end.exp() if name in zoo.POSITIVE else end for end in plane)
        rounding = 1e-10 * (1 + float(f(torch.cat([x, y])).abs().max()))
        height, middle = lam * f(x) + (1 - lam) * f(y), lam[:, None] * x + (1 - lam)[:, None] * y
        above = in_epigraph(f, middle.view(2, -1, dim), height.view(2, -1), tol=1e-10).flatten()
        local = hessian_at == "the minimum" and name == "x^2-x^4"
        violations = [
            chord_violation(f, x, y, lam), torch.where(above, 0.0, math.inf),
            tangent_violation(f, x, y), -hessian_min_eig(f, 0 * x[:1] if local else x),
        ]
        verdicts.append([bool((gap <= rounding).all()) for gap in violations])
    truth = [[name in zoo.CONVEX] * 4 for name in zoo.FUNCTIONS]
    lines = zoo.on_a_line(function, dim, hessian_at == "the minimum")
    kinds = ("predicted", "other", "other", "measured")
    return equal(verdicts, truth, tol=0, why="yes or no").named("verdict of a test").drawn(
        *(Series(key, *lines[key], kind) for key, kind in zip(lines, kinds, strict=True)),
        x="t", y="f on a line",
    )


@claim(
    control=[
        Control({"function": "two wells"}, ["heights", "tangents at the ends"], "two wells"),
        Control({"steps": 3}, ["heights", "ends are stationary"], "descents that stop early"),
    ],
    source="Boyd and Vandenberghe 2004, sec. 4.2.2",
)
def local_is_global(
    seed: Seed, *, starts: Annotated[int, Range(20, 300)] = 100,
    dim: Annotated[int, Range(2, 6)] = 3, tilt: Annotated[float, Range(0.05, 0.8)] = 0.3,
    steps: Annotated[int, Range(3, 2000)] = 800,
    function: Literal["logistic loss", "log-sum-exp", "Huber", "two wells"] = "Huber",
) -> Evidence:
    r"""Every local minimum of a convex function is global: descent from anywhere ends as low."""
    problems, start = zoo.descents(seed.torch(), dim, starts, tilt)
    well, above, slopes, rises, drawn = function == "two wells", [], [], [], ()
    for name in [function] if well else dict.fromkeys([function, *list(problems)[:3]]):
        f, curvature = problems[name]
        x, times, values, slope = zoo.descended(f, start, 1 / curvature, steps)
        end, lowest = f(x), x[f(x).argmin()]
        above.append(end - end.min())
        slopes.append(slope.norm(dim=1))
        for others in (start, lowest.expand_as(x)):  # a flat tangent has all of f above it
            rises.append(tangent_violation(lambda x, f=f: f(x[None])[0], x, others))
        drawn = drawn or (
            *(Series("a start", times, line, "other") for line in torch.stack(values, dim=1)[:12]),
            Series("ends of all starts", times[-1:] * starts, end),
            Series("lowest", [1, times[-1]], [end.min()] * 2, "predicted"),
        )
    return every({
        "heights": equal(torch.cat(above), 0, tol=1e-6, why="800 steps end nearer to a minimum"),
        "ends are stationary": at_most(torch.cat(slopes), 1e-3, why="the root of what f has left"),
        "tangents at the ends": at_most(torch.cat(rises), 0, slack=1e-12, why="rounding"),
    }).drawn(*drawn, x="step of gradient descent", y=function, log="x")


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
    x, lam = zoo.spread(rng, pairs, 1, 3.0), torch.linspace(0, 1, grid + 2, dtype=torch.float64)
    y, lam = -x.sign() * rand(rng, pairs, 1), lam if weights == "[0, 1]" else lam[1:-1]
    gaps = {
        name: -torch.stack([chord_violation(lambda x, f=f: f(x[0]), x, y, float(k)) for k in lam])
        for name, f in zoo.STRICT.items()
    }
    mean = [Series(name, lam, gap.mean(dim=1), "other", "points") for name, gap in gaps.items()]
    below = never(torch.cat(list(gaps.values())) <= 0, why="a strict inequality")
    return below.named("chords that do not lie above the function").drawn(
        *mean, Series("equality", [0, 1], [0, 0], "bound"),
        x="weight λ", y="mean height of chords above f",
    )


@claim(
    control=[
        Control({"says": "exactly one"}, ["minimizers"], "exactly one"),
        Control({"convex": "not strictly"}, words="a flat bottom"),
    ],
    source="Boyd and Vandenberghe 2004, sec. 4.2",
    misprint="strict convexity guarantees a unique global minimum",
)
def at_most_one_minimizer(
    seed: Seed, *, starts: Annotated[int, Range(5, 60)] = 8,
    widest: Annotated[float, Range(2, 10)] = 4.0,
    convex: Literal["strictly", "not strictly"] = "strictly",
    says: Literal["at most one", "exactly one"] = "at most one",
) -> Evidence:
    r"""A strictly convex function has at most one minimizer; $e^x$, strictly convex, has none."""
    rng, strict = seed.torch(), convex == "strictly"
    shift, scale = 2 * rand(rng, 1) - 1, 0.5 + rand(rng, 1)
    begin = shift + widest * torch.linspace(-1, 1, starts, dtype=shift.dtype)
    half = widest * (0.01 + rand(rng, 100, 1))
    counts, middles, drawn = [], [], []
    for name, f in (zoo.STRICT if strict else zoo.FLAT).items():
        moved = functools.partial(lambda f, x: f(scale * (x - shift)).sum(), f)
        trace = newton(moved, begin, 45, damping=0.0 if strict else 1e-3)
        found = trace[-1][(trace[-1] - trace[-2]).abs() < 1e-6].sort().values  # others go on
        counts.append(int(len(found) > 0) + int((found.diff() > 1e-4).sum()))
        drawn.append(Series(name, begin, trace[-1].clamp(-20, 20), "other", "points"))
        if name in zoo.EVEN or not strict:  # two points of one height: were these minimizers ...
            middles.append(chord_violation(moved, shift - half, shift + half, 0.5))
    counted = at_most(counts, 1, why=EXACT) if says == "at most one" else equal(
        counts, 1, tol=0, why=EXACT)
    return every({
        "minimizers": counted,
        "lower in between": never(torch.cat(middles) >= 0, why="a strict inequality"),
    }).drawn(*drawn, x="where Newton's method starts", y="where it ends, from -20 to 20")


@claim(
    control=[
        Control({"outer": "tanh"}, ["h of f"], "h = tanh, which is not convex"),
        Control({"kept": False}, ["sum", "maximum", "f(Ax + b)", "on a line"], BROKEN),
    ],
    source="Boyd and Vandenberghe 2004, sec. 3.2",
    misprint=r"$h\circ f$ is convex for convex $f$ and any non-decreasing $h$",
)
def preserving_operations(
    seed: Seed, *, pairs: Pairs = 50_000, dim: Dim = 3,
    outer: Literal["exp", "relu squared", "tanh"] = "exp", kept: bool = True,
) -> Evidence:
    r"""Sums, maxima, $f(Ax+b)$, lines, and $h\circ f$ with $h$ convex and rising keep convexity."""
    rng, h = seed.torch(), zoo.RISING[outer]
    made = zoo.operations(rng, dim, h, kept)
    x, y, lam = randn(rng, pairs, dim), randn(rng, pairs, dim), rand(rng, pairs)
    parts = {}
    for name, f in made.items():
        size = 1 + lam * vmap(f)(x).abs() + (1 - lam) * vmap(f)(y).abs()
        parts[name] = never(chord_violation(f, x, y, lam) > zoo.ROUNDING * size, why=EXACT)
    t, ends = (torch.linspace(*ends, dtype=x.dtype) for ends in ((0, 2.2, 111), (1, 2, 2)))
    parts["h of f"] = parts["h of f"].drawn(
        Series(f"h = {outer}", t, h(t * t), "measured", "line"),
        Series("chord", ends, h(ends * ends), "bound"), x="x", y="h(x²)",
    )
    return every(parts)


@claim(
    control={"factor": 1.1},
    refutes=["monotonicity", "least eigenvalue", "f above tangent + μ/2 |y − x|²"],
    source="Nesterov 2018, sec. 2.1.3",
)
def strong_convexity_claim(
    seed: Seed, *, dim: Dim = 5, condition: Annotated[float, Range(2, 1000)] = 20.0,
    pairs: Annotated[int, Range(50, 2000)] = 200, factor: Annotated[float, Range(0.5, 2)] = 1.0,
) -> Evidence:
    r"""On quadratics gradients grow apart, and curve, by at least $\mu=\lambda_{\min}$ exactly."""
    rng, mu = seed.torch(), factor / condition
    H, Q = zoo.spd(rng, dim, condition)
    b, x = randn(rng, dim), randn(rng, pairs, dim)
    mix = torch.linspace(0, 1, pairs, dtype=x.dtype)[:, None]  # from the flattest way to random
    way = F.normalize((1 - mix) * Q[:, 0] + mix * F.normalize(randn(rng, pairs, dim), dim=1))
    y = x + 2 * way

    def f(x: Tensor) -> Tensor:
        return x @ H @ x / 2 + b @ x

    quotient, eigenvalue = strong_convexity(f, x, y)
    why, lam = "1e-6 of the least curvature: far above rounding", rand(rng, pairs)
    bend = torch.einsum("bi,ij,bj->b", y - x, H, y - x) / 2  # of f from x to y
    gap = tangent_violation(f, x, y) + mu / 2 * (y - x).square().sum(dim=1)
    room = zoo.ROUNDING * (1 + vmap(f)(x).abs() + vmap(f)(y).abs())
    return every({
        "monotonicity": equal(quotient, mu, tol=1e-6 * mu, why=why).drawn(
            Series("pairs", (way @ Q[:, 0]) ** 2, growth_quotients(f, x, y)),
            Series("μ", [0, 1], [mu, mu], "bound"),
            x="share of the pair along the flattest direction", y="growth of the gradient",
        ),
        "least eigenvalue": equal(eigenvalue, mu, tol=1e-6 * mu, why=why),
        "f above tangent + μ/2 |y − x|²": never(gap > room, why=EXACT),
        "tangents": equal_to_rounding(tangent_violation(f, x, y), -bend),
        "chords": equal_to_rounding(chord_violation(f, x, y, lam), -lam * (1 - lam) * bend),
    })


@claim(
    control={"plus": "x^2"}, refutes=["order", "no μ is left", "curvature at ±r"],
    source="Nesterov 2018, sec. 2.1.3",
)
def strict_not_strong(
    seed: Seed, *, power: Literal[4, 6, 8] = 4,
    widest: Annotated[float, Range(0.1, 1)] = 0.3, plus: Literal["nothing", "x^2"] = "nothing",
) -> Evidence:
    r"""$x^4$ is strictly, not strongly convex: from $-r$ to $r$ its gradient grows by $4r^2$."""
    x, y = (zoo.spread(seed.child(k).torch(), 500, 1, 2.0) for k in range(2))
    radii = torch.logspace(math.log10(widest), math.log10(widest) - 2, 13, dtype=x.dtype)

    def f(x: Tensor) -> Tensor:
        return (x**power + (x**2 if plus == "x^2" else 0)).sum()

    found = [strong_convexity(f, *(r * zoo.TWO_PAIRS)) for r in radii]
    quotients, curvatures = map(torch.stack, zip(*found, strict=True))
    rate, limit = power - 2, power * (0.02 * widest) ** (power - 2)
    return every({
        "order": slope(
            radii, quotients, rate, tol=0.05, why="a power of r: rounding only",
            labels=("r", "growth of the gradient from −r to r"),
        ),
        "no μ is left": tends_to(radii, quotients, 0.0, tol=limit, why="its value at twice the r"),
        "curvature at ±r": equal_to_rounding(curvatures, (power - 1) * power * radii ** rate),
        "strictly convex": never(chord_violation(f, x, y, 0.5) >= 0, why="a strict inequality"),
    })


@claim(
    control={"constant": "one for all b"}, refutes=["e^x up to b"],
    source="Rockafellar 1970; mean value theorem",
)
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
    y = x + zoo.steepest_ways(W)
    return every({
        "e^x up to b": equal(
            found / expected, 1.0, tol=1e-4, why="pairs 1e-5 apart are flatter by half of that"
        ).drawn(
            Series("steepest pair", ends, found), Series(constant, ends, expected, "predicted"),
            x="b", y="slope of eˣ on (−∞, b]", log="y",
        ),
        "closer pairs": tends_to(gaps, ratios, 1.0, tol=1e-4, why="half the least gap; rounding"),
        **{f"x ↦ Wx in the {order}-norm": equal_to_rounding(
            lipschitz(lambda x: W @ x, x, y, norm=norm), torch.linalg.matrix_norm(W, order)
        ) for order, norm in zoo.NORMS.items()},
    })


@claim(control={"factor": 1.05}, refutes=["not farther", "bound"], source="Banach 1922")
def contraction(
    seed: Seed, *, factor: Annotated[float, Range(0.1, 1.05)] = 0.8, dim: Dim = 3,
    starts: Annotated[int, Range(1, 200)] = 20, steps: Annotated[int, Range(5, 500)] = 60,
) -> Evidence:
    r"""If $L<1$, the error after $t$ steps is at most $\frac{L^t}{1-L}\Vert x_1-x_0\Vert$."""
    times, ends, far, early, claims, drawn = torch.arange(steps + 1.0), [], [], [], [], ()
    for f, x, L, at in zoo.contractions(seed.torch(), dim, starts, factor).values():
        trace = zoo.iterates(f, x, steps)
        errors, first = (trace - at).norm(dim=2), (trace[1] - x).norm(dim=1)
        bounds = L ** times[:, None] / (1 - L) * first if L != 1 else first + math.inf * errors
        slack = 1e-12 * (1 + float(errors.max()))
        ends.append(errors[-1] - errors[0] - slack)
        far.append((errors - bounds - slack).flatten())
        drawn = drawn or (
            Series("error", times, errors[:, 0] + 1e-17),
            Series("bound", times, bounds[:, 0].clamp(min=1e-17), "bound"),
        )
        cases = (x[0], L), (at + 1e-7, L), (x[0], None)
        for start, rate in cases if L < 0.995 else ():  # nearer to 1 it takes too long
            found, claimed = fixed_point(f, start, 1e-6, rate=L) if rate else fixed_point(f, start)
            sizes, wrong, bounds = zoo.stopped(found, rate, 1e-6 if rate else 1e-8)
            early.append(wrong)
            claims += [claimed - bounds, found[1:] - f(found[:-1])]
            # what is left is at most L / (1 - L) times the last step
            far.append((found[-1:] - at).norm(dim=1) - L / (1 - L) * sizes[-1] - slack)
    halved, _ = fixed_point(lambda x: x / 2, torch.ones(1).double(), 1e-300)  # as near as can be
    return every({
        "not farther": at_most(torch.cat(ends), 0, why="rounding is taken off"),
        "bound": at_most(torch.cat(far), 0, why="a theorem, when rounding is taken off"),
        "stops as soon as it may": never(torch.cat(early), why="the rule for what is left"),
        "its bounds": equal_to_rounding(torch.cat([one.flatten() for one in claims]), 0.0),
        "ends at rounding": equal(len(halved), 50, tol=0, why="a step of 2^-49 is 8 roundings"),
    }).drawn(*drawn, x="step t", y="distance from the fixed point", log="y")


@claim(
    control={"scaling": "D H D"}, refutes=["rescaled"],
    source="Boyd and Vandenberghe 2004, sec. 9.1.2",
)
def condition_number_claim(
    seed: Seed, *, dim: Dim = 5, condition: Annotated[float, Range(2, 1000)] = 50.0,
    scaling: Literal["c H", "D H D"] = "c H",
) -> Evidence:
    r"""$\kappa\ge1$, $\kappa(cH)=\kappa(H)$, $\kappa(A^\top A)=\kappa(A)^2$, and $\kappa=L/\mu$."""
    rng, sizes = seed.torch(), torch.logspace(-30, 30, 13, dtype=torch.float64)
    H, Q = zoo.spd(rng, dim, condition)
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
    singular, squared = (condition_number(M) for M in (sizes[:, None, None] * (A @ A.mT), A.mT @ A))
    eps, thin = torch.finfo(A.dtype).eps, torch.eye(50, 2).to(A)  # of 50 rows, 20 eps are nothing
    thin[1, 1] = 20 * eps
    near = [*condition_number(thin[:2].expand(50, 2, 2)), *map(condition_number, (thin, 0 * thin))]
    why = "1e-8 of κ: rounding"
    return every({
        "rescaled": equal(kappas, condition, tol=1e-8 * condition, why=why).drawn(
            Series(f"κ({scaling})", sizes, kappas),
            Series("κ(H)", sizes, [condition] * 13, "predicted"),
            x="c" if scaling == "c H" else "first entry of D, the others being 1",
            y="condition number", log="xy",
        ),
        "H, with other signs, H², L/μ": equal(found, condition, tol=1e-8 * condition, why=why),
        "A'A": equal(squared.sqrt() / condition_number(A), 1.0, tol=1e-8, why=why),
        "at least 1": never(many < 1, why="the largest is no less than the least"),
        "singular, of any size": equal(singular, math.inf, tol=0, why="a rank below its size"),
        "where rounding begins": equal(near, [1 / eps / 20] * 50 + [math.inf] * 2, tol=1, why=why),
    })


@claim(
    control={"form": "f + γ(g − c)"}, refutes=["γ = df*/dc"],
    source="Boyd and Vandenberghe 2004, sec. 5.5.3 and 5.6.3",
)
def lagrangian(
    seed: Seed, *, dim: Dim = 4, c: Annotated[float, Range(0.5, 4)] = 2.0,
    form: Literal["f − γ(g − c)", "f + γ(g − c)"] = "f − γ(g − c)",
) -> Evidence:
    r"""Stationary points of $f-\gamma(g-c)$ solve $\min f$ s.t. $g=c$, and $\gamma=df^*/dc$."""
    rng, sign, h, pairs, drawn = seed.torch(), 1 if form == "f − γ(g − c)" else -1, 1e-4, [], ()
    at = torch.tensor([c, c - h, c + h, 0.5, 1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    reach = torch.tensor([-0.3, 0.3], dtype=torch.float64)
    for f, g, start, solution, price, lowest in zoo.constrained(rng, dim).values():
        found = [lagrange(f, g, float(level), start(level)) for level in at]
        x, prices = map(torch.stack, zip(*found, strict=True))
        values, slopes = vmap(f)(x), sign * prices  # the multiplier of the other form is −γ
        rises = values[2:3] - values[1:2]
        pairs.append(
            [slopes[:1], rises / (2 * h), x[0], solution(at[0]), prices[:1], price(at[:1])]
        )
        drawn = drawn or (
            *(Series("slope γ", level + reach, value + slope * reach, "other")
              for level, value, slope in zip(at[3:], values[3:], slopes[3:], strict=True)),
            Series("f(x*)", at[3:], values[3:]),
            Series("in closed form", at[3:], lowest(at[3:]), "predicted"),
        )
    f, g, levels, start, *exact = zoo.two_planes(rng, dim, c)
    x, prices = lagrange(f, g, levels, start)
    pairs.append([x[:0], x[:0], x, exact[0], prices, exact[1]])
    slopes, rises, points, solutions, prices, exact = map(torch.cat, zip(*pairs, strict=True))
    why = "a central difference errs by its step squared, 1e-8, times a third derivative"
    return every({
        "γ = df*/dc": equal(slopes, rises, tol=1e-6, why=why),
        "x*": equal_to_rounding(points, solutions), "γ": equal_to_rounding(prices, exact),
    }).drawn(*drawn, x="level c of the constraint", y="least f")

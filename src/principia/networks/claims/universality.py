r"""Universal approximation: what is true of it, and what would refute it.

Knobs:
    degree: The lowest degree of the polynomials; further ones double it.
    target: The function to approximate; no polynomial comes close to a step.
    half_degree: Half the lowest degree of the polynomials; further ones double it.
    family: Whether the degree grows; if not, the error stays.
    width: Ridge functions of the largest span, or units of the widest layer.
    scale: How steep the ridges are.
    phi: The shape of the ridges; whether it is a polynomial decides.
    criterion: Which shapes are called universal; that they are bounded is the misprint.
    layers: Hidden layers of the deepest network.
    directions: Whether ridges run in all directions; along one axis they are not enough.
    terms: Ridge functions in the sum that is lifted.
    stretch: How far beyond the interval of the fit the lifted function is asked.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import norm
from torch import Tensor

from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    follows,
    never,
    slope,
    tends_to,
)
from principia.lab.params import Choice, Range
from principia.lab.seeds import Seed
from principia.networks.universality import (
    REFINED,
    SHAPES,
    Function,
    RidgeSpan,
    bernstein,
    chebyshev,
    chebyshev_fit,
    cube_grid,
    distance_to_span,
    lift,
    minimax_fit,
    sup_distance,
)

NON_POLYNOMIAL = ("tanh", "sigmoid", "softplus", "relu", "gaussian")
BERNSTEIN_CONSTANT = 0.2801694990238691  # Varga and Carpenter
CLOSE = 0.03  # to |x|, where cubic polynomials stay 0.125 away, and 0.07 in the root mean square


@claim(
    control={"target": "step"},
    refutes=["error times √d"],
    source="Weierstrass 1885; Bernstein 1912",
)
def weierstrass(
    seed: Seed, *, degree: Annotated[int, Range(40, 200)] = 40,
    target: Literal["kink", "step"] = "kink",
) -> Evidence:
    r"""Polynomials are dense: Bernstein's miss $\vert x-\frac12\vert$ by $1/\sqrt{2\pi d}$."""
    f: Function = (lambda x: (x - 0.5).abs()) if target == "kink" else (lambda x: (x > 0.5).to(x))
    degrees, limit = degree * 2 ** np.arange(5), 1 / math.sqrt(2 * math.pi)
    errors = [sup_distance(bernstein(f, d), f, [(0, 1)], points=401) for d in degrees.tolist()]
    x, d = torch.rand(200, generator=seed.torch(), dtype=torch.float64), degree
    moment = (x + 3 * (d - 1) * x**2 + (d - 1) * (d - 2) * x**3) / d**2
    return every({
        "error times √d": equal(
            np.sqrt(degrees) * errors, limit, tol=0.03 * limit,
            why="the next term of Stirling's series is 1/(4d), up to 1 % on the grid",
        ).drawn(
            Series("Bernstein", degrees, errors),
            Series("1/√(2πd)", degrees, limit / np.sqrt(degrees), role="predicted"),
            x="degree d", y="sup error", log="xy",
        ),
        "x³ becomes a binomial moment": equal_to_rounding(bernstein(lambda t: t**3, d)(x), moment),
    })


@claim(
    control={"family": "fixed degree"},
    refutes=["d times the error"],
    source="Bernstein 1914; Varga and Carpenter 1985",
)
def best_polynomial_rate(
    seed: Seed, *, half_degree: Annotated[int, Range(4, 16)] = 4,
    family: Literal["growing degree", "fixed degree"] = "growing degree",
) -> Evidence:
    r"""The best polynomial of degree $d$ misses $\vert x\vert$ on $[-1,1]$ by about $0.2802/d$."""
    x = _kink_grid(1001)[:, 0]
    degrees = 2 * half_degree * np.array([1, 2, 4])
    used = degrees if family == "growing degree" else np.full(3, degrees[0])
    best = np.array([minimax_fit(x.abs(), chebyshev(x, d))[1] for d in used.tolist()])
    near = [sup_distance(chebyshev_fit(torch.abs, d), torch.abs, [(-1, 1)]) for d in used.tolist()]
    return every({
        "d times the error": equal(
            degrees * best, BERNSTEIN_CONSTANT, tol=0.03 * BERNSTEIN_CONSTANT,
            why="the next term is 1 % at d = 8 and falls like 1/d²; the grid adds 0.1 %",
        ).drawn(
            Series("best polynomial", degrees, best),
            Series("Chebyshev interpolation", degrees, near, role="other"),
            Series("0.2802/d", degrees, BERNSTEIN_CONSTANT / degrees, role="predicted"),
            x="degree d", y="sup error", log="xy",
        ),
        "interpolation is no better": at_least(near, best, why="the best is a minimum"),
        "and nearly as good": at_most(
            near, (2 + 2 / math.pi * np.log(used + 1)) * best, slack=1e-3 * best,
            why="1 + Lebesgue constant; the grid of the best errs by 0.1 %",
        ),
        **_by_others(),
    })


def _by_others() -> dict[str, Evidence]:
    """Compare with NumPy's polynomials, and with best ones that are known."""
    def bent(x: Tensor) -> Tensor:
        return x.exp() + (x - 0.3).abs()

    def values(x: Any) -> Any:
        return bent(torch.tensor(x)).numpy()

    x = torch.linspace(-1, 1, 200, dtype=torch.float64)
    theirs = np.polynomial.chebyshev.chebinterpolate(values, 7)
    powers = x[:, None] ** torch.arange(3)
    weights, distance = minimax_fit(x**3, powers)
    unused, most = minimax_fit(bent(x), torch.zeros_like(powers))
    twice = torch.cat([powers, powers * (1 + 1e-7)], dim=1).float()  # all but dependent
    both, near = minimax_fit((x**3).float(), twice)
    missed = ((x**3).float() - twice @ both).abs().max()
    return {
        "Chebyshev's polynomials": equal_to_rounding(
            chebyshev(x, 7), np.polynomial.chebyshev.chebvander(x.numpy(), 7)),
        "interpolation by NumPy": equal_to_rounding(
            chebyshev_fit(bent, 7)(x), np.polynomial.chebyshev.chebval(x.numpy(), theirs)),
        "x³ by a parabola": equal(
            [*weights, distance], [0, 0.75, 0, 0.25], tol=1e-4,
            why="Chebyshev's polynomial has its ends ±1/4 at ±1, ±1/2, beside points of the grid"),
        "without functions, and with them twice": equal(
            [*unused, most, missed, near], [0, 0, 0, float(bent(x).max()), 0.25, 0.25], tol=1e-4,
            why="dependent columns in float32, and the grid"),
    }


def _kink_grid(points: int) -> Float[Tensor, "N 1"]:
    """Give an odd number of points, dense at the ends of [-1, 1], with 0 among them."""
    x = torch.linspace(0, math.pi, points, dtype=torch.float64).cos()
    x[points // 2] = 0.0  # cos(pi/2) is 6e-17
    return x[:, None]


@claim(
    control={"phi": "cube"},
    refutes=["sup error at the largest width"],
    source="Leshno, Lin, Pinkus and Schocken 1993, theorem 1",
)
def nonpolynomial_is_universal(
    seed: Seed, *, width: Annotated[int, Range(512, 768)] = 512,
    scale: Annotated[float, Range(20, 100)] = 50.0,
    phi: Annotated[str, Choice(("all five", *NON_POLYNOMIAL, "cube"))] = "all five",
) -> Evidence:
    r"""Ridges of any shape that is not a polynomial come close to every continuous function."""
    def targets(x: Tensor) -> Tensor:
        return torch.cat([x.abs(), (6 * x).sin(), (20 * x).tanh()], dim=1)

    names = NON_POLYNOMIAL if phi == "all five" else (phi,)
    x, test, widths = cube_grid(1201, 1), cube_grid(4001, 1), [width // 64, width // 8, width]
    return _come_close(widths, {
        name: [_sup_errors(seed, name, m, scale, targets, x, test) for m in widths]
        for name in names
    })


def _come_close(widths: list[int], errors: Mapping[str, list[Tensor]]) -> Evidence:
    """State that sup errors, one for each target function, fall with the width to 0.02."""
    table = torch.stack([torch.stack(each) for each in errors.values()])  # (shape, width, target)
    curves = [
        Series(f"{shape}, function {k + 1}", widths, one, "other", "line")
        for shape, each in zip(errors, table, strict=True) for k, one in enumerate(each.T)
    ]
    why = "the goal, 2 % of the largest value; the theorem names no figure at any width"
    return every({
        "sup error at the largest width": at_most(table[:, -1], 0.02, why=why).drawn(
            *curves, x="width", y="sup error", log="xy"
        ),
        "falls with the width": at_most(
            table[:, 1:], table[:, :-1], slack=1e-6, why="below, the cut singular values decide"
        ),
    })


def _sup_errors(
    seed: Seed, phi: str, width: int, scale: float, targets: Function, x: Tensor, test: Tensor,
    one_axis: bool = False,
) -> Float[Tensor, " m"]:
    """Fit all target functions on x by the same ridges; give their sup errors on test points."""
    y = targets(x)
    rng = seed.child((phi, width)).torch()
    span = RidgeSpan(x.shape[1], phi=phi, width=width, scale=scale, n_out=y.shape[1], rng=rng)
    if one_axis:
        span.directions[:, 1:] = 0
    return (span.fit(x, y)(test) - targets(test)).abs().amax(dim=0)


@claim(
    control={"criterion": "bounded"},
    refutes=["criterion"],
    source="Leshno, Lin, Pinkus and Schocken 1993, theorem 1",
    misprint=r"universal for bounded activation functions, e.g. sigmoid, ReLU",
)
def boundedness_not_needed(
    seed: Seed, *, width: Annotated[int, Range(256, 512)] = 256,
    criterion: Literal["not a polynomial", "bounded"] = "not a polynomial",
) -> Evidence:
    r"""Universal means not a polynomial, bounded or not: unbounded ReLU and softplus qualify."""
    x, radii = cube_grid(801, 1), torch.tensor([10.0, 30, 100, 300, 1000], dtype=torch.float64)
    z = 5 * cube_grid(21, 1)  # where a polynomial of degree 8 or less has no differences of order 9
    widths, errors, reach, wrong = [width // 16, width // 4, width], {}, {}, []
    for name, shape in SHAPES.items():
        rng = seed.child(name).torch()
        spans = [RidgeSpan(1, phi=name, width=m, scale=20.0, rng=rng) for m in widths]
        bounds = np.array([distance_to_span(x[:, 0].abs(), one.features(x)) for one in spans])
        errors[name], reach[name] = bounds[:, 1], shape(radii * x).abs().amax(dim=0)
        accepted = shape(z).diff(n=9, dim=0).abs().max() > 1e-8
        if criterion == "bounded":
            accepted = reach[name][-1] < 2 * reach[name][0]
        below, above = bounds[-1]
        wrong.append(bool(above > CLOSE if accepted else below <= CLOSE))
    return every({
        "criterion": never(wrong, why="the theorem knows no exception").drawn(
            *(Series(name, widths, one, "other") for name, one in errors.items()),
            x="width", y="sup distance from |x|", log="xy",
        ),
        "error of ReLU and softplus": tends_to(
            widths, np.maximum(errors["relu"], errors["softplus"]), 0.0, tol=CLOSE,
            why="kinks are at most 4/256 apart, and a gap h costs a ReLU some h/4",
        ),
        "neither is bounded": slope(
            radii, reach["relu"] + reach["softplus"], 1.0, tol=1e-4, why="R, and R + exp(-R)"
        ),
    })


@claim(
    control={"phi": "tanh"},
    refutes=[
        "L = 1, error", "L = 1, differences of order 3", "L = 1, floor is reached", "L = 2, error",
        "L = 2, differences of order 5", "L = 2, floor is reached",
    ],
    source="Leshno, Lin, Pinkus and Schocken 1993, theorem 1",
)
def polynomial_activation_fails(
    seed: Seed, *, layers: Annotated[int, Range(1, 3)] = 2,
    width: Annotated[int, Range(32, 128)] = 64, phi: Literal["square", "cube", "tanh"] = "square",
) -> Evidence:
    r"""With $\varphi$ of degree $k$, $L$ layers stop at the best polynomial of degree $k^L$."""
    x, widths = _kink_grid(801), [width // 2, width * 3 // 4, width]
    f, parts = x[:, 0].abs(), {}
    for depth in range(1, layers + 1):
        degree = (3 if phi == "cube" else 2) ** depth
        floor = minimax_fit(f, chebyshev(x[:, 0], degree))[1]
        layer = [_hidden(x, phi, m, depth, seed.child((depth, m)).torch()) for m in widths]
        errors = np.array([minimax_fit(f, one)[1] for one in layer])
        below, above = np.array([distance_to_span(f, one) for one in layer]).T
        even = _hidden(cube_grid(2 * degree + 4, 1), phi, width, depth, seed.child(depth).torch())
        bends = np.diff(even.sum(dim=1).numpy(), n=degree + 1) / 2 ** (degree + 1)
        parts |= {
            f"L = {depth}, error": at_least(
                errors, floor, slack=1e-6, why="a theorem; the linear program stops at 1e-7"
            ).drawn(
                Series("network", widths, errors),
                Series(f"best polynomial of degree {degree}", widths, [floor] * 3, "bound"),
                x="width", y="sup distance from |x|",
            ),
            f"L = {depth}, least squares is above": at_least(
                above, errors, slack=1e-6, why="not below a minimum, found to 1e-7"
            ),
            f"L = {depth}, and its mean below": at_most(below, errors, why="a mean is below a sup"),
            f"L = {depth}, differences of order {degree + 1}": equal(
                bends / float(even.abs().sum(dim=1).max()), 0.0, tol=1e-13,
                why="those of a polynomial are 0; rounding of values doubles with every order",
            ),
        }
        if degree < 10:  # above, float64 does not tell all powers of x in a layer apart
            parts[f"L = {depth}, floor is reached"] = equal(
                errors, floor, tol=1e-5, why="linear programs stop at 1e-7, powers at rounding"
            )
    return every(parts)


def _hidden(x: Tensor, phi: str, width: int, depth: int, rng: torch.Generator) -> Tensor:
    """Evaluate the last hidden layer of a random network; layers are scaled to stay within 1."""
    for _ in range(depth):
        scale = x.shape[1] ** -0.5
        x = RidgeSpan(x.shape[1], phi=phi, width=width, scale=scale, rng=rng).features(x)
        x = x / x.abs().amax(dim=0)
    return x


@claim(
    control={"directions": "one axis"},
    refutes=["sup error at the largest width"],
    source="Vostrecov and Kreines 1961; Pinkus 1999, sec. 3",
)
def ridge_functions_dense(
    seed: Seed, *, width: Annotated[int, Range(800, 1000)] = 800,
    scale: Annotated[float, Range(4, 8)] = 5.0,
    directions: Literal["all", "one axis"] = "all",
) -> Evidence:
    r"""Sums of continuous ridge functions are dense in $C(\mathbb R^n)$: more come closer."""
    def targets(x: Tensor) -> Tensor:
        wave, bump = (3 * x[:, 0]).sin() * (3 * x[:, 1]).cos(), (-4 * x.square().sum(dim=1)).exp()
        return torch.stack([wave, bump, x.amax(dim=1)], dim=1)

    x, test, widths = cube_grid(45, 2), cube_grid(61, 2), [width // 16, width // 4, width]
    axis = directions == "one axis"
    close = _come_close(widths, {
        "tanh": [_sup_errors(seed, "tanh", m, scale, targets, x, test, axis) for m in widths]
    })
    return every({**dict(close.parts), "ridges": _ridges(seed.child("ridges"), scale)})


def _ridges(seed: Seed, scale: float) -> Evidence:
    """Look at the ridges that are drawn, and at a span that takes those of another one over."""
    x = 2 * torch.rand(50, 3, generator=seed.torch(), dtype=torch.float64) - 1
    wide = RidgeSpan(3, phi="tanh", width=600, scale=scale, rng=seed.torch())
    cells = ((wide.centers + 1) * 300).floor().sort(dim=0).values
    plain, small = RidgeSpan(3, rng=seed.torch()), RidgeSpan(3, width=5, n_out=2, rng=seed.torch())
    empty = small(x)
    other = RidgeSpan(3, width=5, n_out=2, rng=seed.child(1).torch())
    other.load_state_dict(small.fit(x, x[:, :2].exp()).state_dict())
    formulas = {"gaussian": lambda z: 1 / (z * z).exp(), "square": lambda z: z * z,
                "cube": lambda z: z * z * z, "constant": lambda z: z / z}
    others = [RidgeSpan(3, phi=name, width=8, rng=seed.torch()) for name in formulas]
    formula, relu, *fields = (
        torch.einsum("Nmn,mn->Nm", x[:, None] - one.centers, one.directions)
        for one in (wide, plain, *others))
    return every({
        "formula": equal_to_rounding(wide.features(x), formula.tanh()),
        "other shapes": equal_to_rounding(
            torch.stack([one.features(x) for one in others]),
            torch.stack([f(z) for f, z in zip(formulas.values(), fields, strict=True)])),
        "64 rectifiers by default": equal_to_rounding(
            plain.features(x), relu.relu().expand(50, 64)),
        "directions": follows(wide.directions / scale, norm(), why="independent normal numbers"),
        "and by default": follows(plain.directions, norm(), why="independent normal numbers"),
        "centers": equal(
            cells, torch.arange(600)[:, None].expand(-1, 3), tol=0,
            why="a Latin hypercube: one in each of 600 slices, along every axis"),
        "taken over": equal_to_rounding(
            torch.stack([other(x), empty]), torch.stack([small(x), 0 * x[:, :2]])),
    })


@claim(
    control={"stretch": 2.0},
    refutes=["error"],
    source="Leshno et al. 1993; Pinkus 1999, sec. 3",
)
def lifting(
    seed: Seed, *, terms: Annotated[int, Range(1, 20)] = 6,
    width: Annotated[int, Range(16, 64)] = 32, stretch: Annotated[float, Range(0.1, 4)] = 1.0,
) -> Evidence:
    r"""A fit of $g$ to $\epsilon$ gives $\sum_jc_jg(w_j\cdot x)$ to $\epsilon\Vert c\Vert_1$."""
    t = 2 * cube_grid(2001, 1)
    span = RidgeSpan(1, width=width, rng=seed.child("ridges").torch()).fit(t / 2, t.exp())

    def fit(t: Tensor) -> Tensor:  # of exp on [-2, 2]
        return span(t / 2)

    eps, dims = sup_distance(fit, torch.exp, [(-2, 2)], points=4001), (2, 3, 5)
    gaps, bounds, lifted, sums = [], [], [], []
    for n in dims:
        rng = seed.child(n).torch()
        W, c = torch.randn(terms, n + 1, generator=rng, dtype=t.dtype).split([n, 1], dim=1)
        W = 2 * W / W.abs().sum(dim=1, keepdim=True)  # so that |w.x| <= 2 on the cube
        x = 2 * torch.rand(10_000, n, generator=rng, dtype=t.dtype) - 1
        x[0] = W[0].sign()  # a corner, where the first of them is 2
        sums.append(((stretch * x @ W.mT).exp() @ c)[:, 0])
        lifted.append(lift(torch.exp, W, c[:, 0])(stretch * x))
        gaps.append(float((lift(fit, W, c[:, 0])(stretch * x) - sums[-1]).abs().max()))
        bounds.append(eps * float(c.abs().sum()))
    return every({
        "error": at_most(
            gaps, bounds, slack=(REFINED - 1) * np.array(bounds),
            why="a theorem; a grid that is twice as fine raises the sup by 5 % at most",
        ).drawn(
            Series("largest of 10,000 points", dims, gaps),
            Series("ε ‖c‖₁", dims, bounds, "bound"), x="dimension n", y="error of the sum", log="y",
        ),
        "lift of exp itself": equal_to_rounding(torch.stack(lifted), torch.stack(sums)),
        "sup on a box": _on_boxes(),
    })


def _on_boxes() -> Evidence:
    """Measure distances that are known, and note at which points."""
    box, seen = [(-3.0, 1.0), (0.5, 0.75), (2.0, 4.0), (-1.0, 0.0)], []

    def f(x: Tensor) -> Tensor:  # largest where all are at their lower ends, or one of them at 1
        seen.append(x)
        return (x * x.new_tensor([1.0, -2.0, -0.5, 1.0])[: x.shape[1]]).sum(dim=1)

    found = [sup_distance(f, lambda x: x[:, :1], box[:n]) for n in (1, 2, 3, 4)]
    many = [len(one) for one in seen]
    low, high = torch.tensor(box, dtype=torch.float64).T
    outside = [((x < low[: x.shape[1]]) | (x > high[: x.shape[1]])).any() for x in seen]
    ends = [max(abs(float((x.amin(dim=0) - low[: x.shape[1]]).max())),
                abs(float((high[: x.shape[1]] - x.amax(dim=0)).max()))) for x in seen]
    return every({
        "distances": equal(
            found, [0, 1.5, 3.5, 4.5], tol=[0, 0, 0.05, 0.3], why="Sobol points miss the corners"),
        "points": equal(
            many, [1025, 2049, 33**2, 65**2, 1025, 2050, 1025, 2050], tol=0,
            why="1025, or the next square; then twice as many, a side or in all"),
        "outside of it": never(outside, why="of the box"),
        "from end to end": at_most(ends, 0.01, why="more than 1000 points along an axis"),
    })

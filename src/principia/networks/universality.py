r"""Universal approximation: what one hidden layer can come close to, and what it never can.

How far a function is from a set of functions is its smallest sup distance to a member, over a
compact set $K$. Polynomials come arbitrarily close to every continuous function, and so do sums of
ridges, functions that vary along one direction only. One hidden layer is a sum of ridges of one
shape $\varphi$, and comes arbitrarily close exactly if $\varphi$ is not a polynomial: it need not
be bounded, monotone or smooth. With a polynomial, a network of any width is a polynomial of a fixed
degree, and stops at the best of those. What one variable can do, many can: a sum over directions of
functions of one variable inherits their error.

$$ d_K(f,G) = \inf_{g\in G}\sup_{x\in K}\vert f(x)-g(x)\vert, \quad
F\subseteq\overline G \iff d_K(f,G)=0\ \text{for all}\ f\in F $$

$$ G_m = \operatorname{span}\{\varphi(w_j\cdot(x-c_j)) : j\le m\}, \quad
B_df(x) = \sum_{k=0}^d f(k/d)\binom dk x^k(1-x)^{d-k} $$

$$ \vert\sum_jc_jg(w_j\cdot x)-\sum_jc_j\tilde g(w_j\cdot x)\vert
\le \sup_t\vert g(t)-\tilde g(t)\vert\sum_j\vert c_j\vert $$

Symbols:
    $d_K$: distance to a set: `minimax_fit` for a finite span, `sup_distance` to one function
    $K$: box of one interval a coordinate, a grid or Sobol points in computations
    $\varphi$: shape of the ridges, `phi`, a name in `SHAPES`
    $w_j, c_j$: direction and center of ridge $j$ of a `RidgeSpan`; $w_j$ in `lift` too
    $B_d$: Bernstein polynomial of degree $d$, `bernstein`
    $g, \tilde g$: function of one variable and its fit, which `lift` carries to n variables

References:
    Bernstein (1914), Sur la meilleure approximation de |x| par des polynomes de degres donnes. Acta
        Mathematica 37. doi:10.1007/BF02401828
    Varga and Carpenter (1985), On the Bernstein conjecture in approximation theory. Constructive
        Approximation 1. doi:10.1007/BF01890040
    Cybenko (1989), Approximation by superpositions of a sigmoidal function. Mathematics of Control,
        Signals and Systems 2. doi:10.1007/BF02551274
    Leshno, Lin, Pinkus and Schocken (1993), Multilayer feedforward networks with a nonpolynomial
        activation function can approximate any function. Neural Networks 6(6).
        doi:10.1016/S0893-6080(05)80131-5
    Pinkus (1999), Approximation theory of the MLP model in neural networks. Acta Numerica 8.
        doi:10.1017/S0962492900002919
"""

__all__ = [
    "RidgeSpan", "sup_distance", "distance_to_span", "minimax_fit", "bernstein", "chebyshev_fit",
    "lift",
]

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import linprog
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.photographs import photographs
from principia.lab.domains import Choice, Count, Positive, Range
from principia.lab.errors import Failure, refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import (
    at_least,
    at_most,
    equal,
    every,
    identical,
    never,
    slope,
    tends_to,
)
from principia.lab.seeds import Seed
from principia.networks.activations import ACTIVATIONS

Function = Callable[[Tensor], Tensor]
SHAPES: Mapping[str, Function] = {
    **{name: one.module() for name, one in ACTIVATIONS.items()},
    "gaussian": lambda z: (-z.square()).exp(), "square": torch.square, "cube": lambda z: z**3,
    "constant": torch.ones_like,
}
Shape = Annotated[str, Choice(tuple(SHAPES))]
NON_POLYNOMIAL = ("tanh", "sigmoid", "softplus", "relu", "gaussian")
RCOND = 1e-12  # singular values below this share of the largest are rounding, and are left out
BERNSTEIN_CONSTANT = 0.2801694990238691  # Varga and Carpenter
CLOSE = 0.03  # to |x|, where cubic polynomials stay 0.125 away, and 0.07 in the root mean square
IMAGE_GOALS = {
    "relu_ratio": at_most_goal(0.8), "tanh_ratio": at_most_goal(0.8),
    "idle_doublings": at_most_goal(0), "square_drift": at_most_goal(1e-6),
}
REFINED = 1.05  # a finer grid that raises a distance by more shows that the first was too coarse


@checked
def sup_distance(
    f: Function, g: Function, K: Sequence[tuple[float, float]], *, points: Count = 1025
) -> float:
    r"""Measures $\sup_{x\in K}\vert f(x)-g(x)\vert$ on a grid, or on Sobol points from n = 3 on.

    Measures again with twice the points a side (twice the Sobol points), and warns if that raises
    the distance by more than 5 %.

    Args:
        f: Takes points (N, n), returns one number for each, (N,) or (N, 1).
        g: The same.
        K: An interval (low, high) for each of the n coordinates.
        points: How many points the first of the two grids has.

    Example:
        >>> sup_distance(torch.abs, torch.square, [(-1, 1)])
        0.25
    """
    if not K or not all(-math.inf < low < high < math.inf for low, high in K):
        raise refuse("sup_distance", "K", "one or more intervals (low, high), low < high", K)
    low, high = torch.tensor(K, dtype=torch.float64).T
    coarse, fine = (
        float((f(x).reshape(-1) - g(x).reshape(-1)).abs().max())
        for x in (low + (high - low) * unit for unit in _unit_cubes(len(K), points))
    )
    if fine > REFINED * coarse + torch.finfo(torch.float64).eps:
        warnings.warn(
            f"sup_distance: {points} points are too few for these functions: a finer grid raises "
            f"their distance from {coarse:.4g} to {fine:.4g}. Raise points.", stacklevel=3,
        )
    return max(coarse, fine)


@checked
def distance_to_span(
    f: Float[Tensor, " N"], features: Float[Tensor, "N m"]
) -> tuple[float, float]:
    r"""Bounds $d_K(f,G)$ for a finite span, from below and above, by one least-squares fit.

    No member is nearer in the sup norm than the nearest in the root mean square; that one is a
    member. Arguments are those of `minimax_fit`, which finds the number between by more work.

    Example:
        >>> x = torch.linspace(-1, 1, 201)
        >>> [round(one, 3) for one in distance_to_span(x.abs(), x[:, None] ** torch.arange(3))]
        [0.073, 0.188]
    """
    cut = _rounding("distance_to_span", f, features)
    weights = torch.linalg.lstsq(features, f[:, None], driver="gelsd", rcond=cut).solution
    residual = f - (features @ weights)[:, 0]
    return float(residual.square().mean().sqrt()), float(residual.abs().max())


@checked
def minimax_fit(
    f: Float[Tensor, " N"], features: Float[Tensor, "N m"]
) -> tuple[Float[Tensor, " m"], float]:
    r"""Finds the member of a finite span that is nearest in the sup norm, by a linear program.

    Args:
        f: Values of the function at N points of K.
        features: Values of the functions that span G, one a column.

    Returns:
        The weights of the columns, and the distance $d_K(f,G)$ on these points.

    Example:
        >>> x = torch.linspace(-1, 1, 201, dtype=torch.float64)
        >>> weights, distance = minimax_fit(x.abs(), x[:, None] ** torch.arange(3))
        >>> weights[::2].round(decimals=3).tolist(), round(distance, 3)
        ([0.125, 1.0], 0.125)
    """
    cut = _rounding("minimax_fit", f, features)
    U, d, Vh = torch.linalg.svd(features, full_matrices=False)
    kept = d > cut * d[0]
    basis, target = (len(f) ** 0.5 * U[:, kept]).double().numpy(), f.double().numpy()
    height = np.ones((len(f), 1))
    found = linprog(  # least t with basis v - t <= f and f - t <= basis v
        np.append(np.zeros(basis.shape[1]), 1.0), bounds=(None, None),
        A_ub=np.block([[basis, -height], [-basis, -height]]), b_ub=np.append(target, -target),
    )
    if found.x is None:
        raise Failure(f"minimax_fit: the linear program was not solved. {found.message}")
    v = torch.from_numpy(found.x[:-1])
    weights = Vh[kept].mT @ (v.to(f) * len(f) ** 0.5 / d[kept])
    return weights, float(np.abs(basis @ v.numpy() - target).max())


@final
class RidgeSpan(nn.Module):
    r"""Spans functions by random ridges $\varphi(w\cdot(x-c))$ and combines them by least squares.

    Directions are normal, times `scale`; centers are a Latin hypercube sample of $[-1,1]^n$, where
    x should lie, so that no gap between them is wide: they are uniform along each axis. Weights are
    solved for, not trained; in float64, because ridges are nearly dependent.

    Shapes:
        x: (N, n_in); returns (N, n_out)

    Args:
        n_in: Number of variables.
        phi: Name of the shape: an activation, "gaussian", "square", "cube" or "constant".
        width: Number of ridges.
        scale: How steep the ridges are.
        n_out: Number of functions that are combined from the same ridges.
        rng: Draws directions and centers; by default torch's global generator.

    Example:
        >>> x = torch.linspace(-1, 1, 400, dtype=torch.float64)[:, None]
        >>> span = RidgeSpan(1, phi="tanh", scale=10.0, rng=torch.Generator().manual_seed(0))
        >>> bool((span.fit(x, x.sin())(x) - x.sin()).abs().max() < 1e-6)
        True
    """

    directions: Tensor
    centers: Tensor
    weights: Tensor

    @checked
    def __init__(
        self, n_in: Count, *, phi: Shape = "relu", width: Count = 64, scale: Positive = 1.0,
        n_out: Count = 1, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_in, self.n_out, self.phi, self.width, self.scale = n_in, n_out, phi, width, scale
        directions = torch.randn(width, n_in, generator=rng, dtype=torch.float64)
        places, inside = torch.rand(2, width, n_in, generator=rng, dtype=torch.float64)
        self.register_buffer("directions", scale * directions)
        self.register_buffer("centers", 2 * (places.argsort(dim=0) + inside) / width - 1)
        self.register_buffer("weights", torch.zeros(width, n_out, dtype=torch.float64))

    def features(self, x: Float[Tensor, "N n"]) -> Float[Tensor, "N width"]:
        """Evaluate every ridge at every point."""
        if x.shape[-1] != self.n_in:
            domain = f"of shape (N, {self.n_in})"
            raise refuse("RidgeSpan", "x", domain, tuple(x.shape), "Each point is a row.")
        bias = (self.directions * self.centers).sum(dim=1)
        return SHAPES[self.phi](x @ self.directions.mT - bias)

    def forward(self, x: Float[Tensor, "N n"]) -> Float[Tensor, "N m"]:
        """Combine the ridges with the weights that `fit` found."""
        return self.features(x) @ self.weights

    def fit(self, x: Float[Tensor, "N n"], y: Float[Tensor, "N m"]) -> "RidgeSpan":
        """Find the shortest weights among those with the least squared error."""
        if y.shape != (len(x), self.n_out):
            raise refuse("RidgeSpan", "y", f"of shape ({len(x)}, {self.n_out})", tuple(y.shape))
        # of the drivers only that by SVD stays accurate when most ridges depend on the others
        self.weights = torch.linalg.lstsq(
            self.features(x), y, driver="gelsd", rcond=RCOND
        ).solution
        return self


@checked
def bernstein(f: Function, degree: Count) -> Function:
    r"""Averages f over k/d for binomial k: a polynomial on [0, 1] near a continuous f.

    Args:
        f: A function of one variable, entry by entry.
        degree: The degree d.

    Example:
        >>> bernstein(torch.square, 4)(torch.tensor([0.0, 0.5, 1.0]))  # x² + x(1 - x)/d
        tensor([0.0000, 0.3125, 1.0000])
    """
    k = torch.arange(degree + 1, dtype=torch.float64)
    count = math.lgamma(degree + 1) - (k + 1).lgamma() - (degree - k + 1).lgamma()  # log binomial
    values = f(k / degree)

    def polynomial(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        t = x.double()[..., None]
        chance = (count + torch.xlogy(k, t) + torch.xlogy(degree - k, 1 - t)).exp()
        return (chance @ values.double()).to(x)

    return polynomial


@checked
def chebyshev_fit(f: Function, degree: Count) -> Function:
    r"""Interpolates f in the Chebyshev nodes of [-1, 1]: nearly the best polynomial there.

    Its sup error is at most $2+\frac2\pi\ln(d+1)$ times that of the best one.

    Args:
        f: A function of one variable, entry by entry.
        degree: The degree d.

    Example:
        >>> cubic = chebyshev_fit(lambda x: 4 * x**3 - x, 3)
        >>> cubic(torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)).round(decimals=6) + 0.0
        tensor([0., 0., 3.], dtype=torch.float64)
    """
    angles = math.pi * (torch.arange(degree + 1, dtype=torch.float64) + 0.5) / (degree + 1)
    weights = 2 / (degree + 1) * _chebyshev(angles.cos(), degree).mT @ f(angles.cos()).double()
    weights[0] /= 2
    return lambda x: (_chebyshev(x.double(), degree) @ weights).to(x)


@checked
def lift(
    fit_1d: Function, directions: Float[Tensor, "J n"], coeffs: Float[Tensor, " J"]
) -> Function:
    r"""Carries a function of one variable to n: $x\mapsto\sum_jc_jg(w_j\cdot x)$.

    Args:
        fit_1d: The function g, or a network that fits it; takes (N, 1), returns (N,) or (N, 1).
        directions: The $w_j$, one a row.
        coeffs: The $c_j$.

    Example:
        >>> product = lift(torch.square, torch.tensor([[1.0, 1.0], [1.0, -1.0]]),
        ...                torch.tensor([0.25, -0.25]))  # x₁x₂ by two squares
        >>> product(torch.tensor([[3.0, 5.0]]))
        tensor([15.])
    """
    if len(directions) != len(coeffs):
        got = f"{len(directions)} and {len(coeffs)}"
        raise refuse("lift", "directions and coeffs", "of one length", got)

    def lifted(x: Float[Tensor, "N n"]) -> Float[Tensor, " N"]:
        along = x @ directions.mT  # (N, J)
        return fit_1d(along.reshape(-1, 1)).reshape(along.shape) @ coeffs

    return lifted


def _rounding(owner: str, f: Tensor, features: Tensor) -> float:
    """Check values at the same points; give the share of the largest singular value to cut at."""
    if len(f) != len(features) or not bool(f.isfinite().all() & features.isfinite().all()):
        got = f"{len(f)} and {len(features)} rows"
        raise refuse(owner, "f and features", "finite, with one number of rows", got)
    return max(RCOND, torch.finfo(features.dtype).eps * max(features.shape))


@claim(control={"target": "step"}, source="Weierstrass 1885; Bernstein 1912")
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
        "x³ becomes a binomial moment": identical(bernstein(lambda t: t**3, d)(x), moment),
    })


@claim(control={"family": "fixed degree"}, source="Bernstein 1914; Varga and Carpenter 1985")
def best_polynomial_rate(
    seed: Seed, *, half_degree: Annotated[int, Range(4, 16)] = 4,
    family: Literal["growing degree", "fixed degree"] = "growing degree",
) -> Evidence:
    r"""The best polynomial of degree $d$ misses $\vert x\vert$ on $[-1,1]$ by about $0.2802/d$."""
    x = _kink_grid(1001)[:, 0]
    degrees = 2 * half_degree * np.array([1, 2, 4])
    used = degrees if family == "growing degree" else np.full(3, degrees[0])
    best = np.array([minimax_fit(x.abs(), _chebyshev(x, d))[1] for d in used.tolist()])
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
    })


@claim(control={"phi": "cube"}, source="Leshno, Lin, Pinkus and Schocken 1993, theorem 1")
def nonpolynomial_is_universal(
    seed: Seed, *, width: Annotated[int, Range(512, 768)] = 512,
    scale: Annotated[float, Range(20, 100)] = 50.0,
    phi: Annotated[str, Choice(("all five", *NON_POLYNOMIAL, "cube"))] = "all five",
) -> Evidence:
    r"""Ridges of any shape that is not a polynomial come close to every continuous function."""
    def targets(x: Tensor) -> Tensor:
        return torch.cat([x.abs(), (6 * x).sin(), (20 * x).tanh()], dim=1)

    names = NON_POLYNOMIAL if phi == "all five" else (phi,)
    x, test, widths = _grid(1201, 1), _grid(4001, 1), [width // 64, width // 8, width]
    return _come_close(widths, {
        name: [_sup_errors(seed, name, m, scale, targets, x, test) for m in widths]
        for name in names
    })


@claim(
    control={"criterion": "bounded"}, source="Leshno, Lin, Pinkus and Schocken 1993, theorem 1",
    misprint=r"universal for bounded activation functions, e.g. sigmoid, ReLU",
)
def boundedness_not_needed(
    seed: Seed, *, width: Annotated[int, Range(256, 512)] = 256,
    criterion: Literal["not a polynomial", "bounded"] = "not a polynomial",
) -> Evidence:
    r"""Universal means not a polynomial, bounded or not: unbounded ReLU and softplus qualify."""
    x, radii = _grid(801, 1), torch.tensor([10.0, 30, 100, 300, 1000], dtype=torch.float64)
    z = 5 * _grid(21, 1)  # where a polynomial of degree 8 or less has no differences of order 9
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
        "ReLU is not bounded": slope(radii, reach["relu"], 1.0, tol=1e-4, why="its sup is R"),
        "nor is softplus": slope(radii, reach["softplus"], 1.0, tol=1e-4, why="R + exp(-R)"),
    })


@claim(control={"phi": "tanh"}, source="Leshno, Lin, Pinkus and Schocken 1993, theorem 1")
def polynomial_activation_fails(
    seed: Seed, *, layers: Annotated[int, Range(1, 3)] = 2,
    width: Annotated[int, Range(32, 128)] = 64, phi: Literal["square", "cube", "tanh"] = "square",
) -> Evidence:
    r"""With $\varphi$ of degree $k$, $L$ layers stop at the best polynomial of degree $k^L$."""
    x, widths = _kink_grid(801), [width // 2, width * 3 // 4, width]
    f, parts = x[:, 0].abs(), {}
    for depth in range(1, layers + 1):
        degree = (3 if phi == "cube" else 2) ** depth
        floor = minimax_fit(f, _chebyshev(x[:, 0], degree))[1]
        layer = [_hidden(x, phi, m, depth, seed.child((depth, m)).torch()) for m in widths]
        errors = np.array([minimax_fit(f, one)[1] for one in layer])
        below, above = np.array([distance_to_span(f, one) for one in layer]).T
        even = _hidden(_grid(2 * degree + 4, 1), phi, width, depth, seed.child(depth).torch())
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


@claim(control={"directions": "one axis"}, source="Vostrecov and Kreines 1961; Pinkus 1999, sec. 3")
def ridge_functions_dense(
    seed: Seed, *, width: Annotated[int, Range(800, 1000)] = 800,
    scale: Annotated[float, Range(4, 8)] = 5.0,
    directions: Literal["all", "one axis"] = "all",
) -> Evidence:
    r"""Sums of continuous ridge functions are dense in $C(\mathbb R^n)$: more come closer."""
    def targets(x: Tensor) -> Tensor:
        wave, bump = (3 * x[:, 0]).sin() * (3 * x[:, 1]).cos(), (-4 * x.square().sum(dim=1)).exp()
        return torch.stack([wave, bump, x.amax(dim=1)], dim=1)

    x, test, widths = _grid(45, 2), _grid(61, 2), [width // 16, width // 4, width]
    axis = directions == "one axis"
    return _come_close(widths, {
        "tanh": [_sup_errors(seed, "tanh", m, scale, targets, x, test, axis) for m in widths]
    })


@claim(control={"stretch": 2.0}, source="Leshno et al. 1993; Pinkus 1999, sec. 3")
def lifting(
    seed: Seed, *, terms: Annotated[int, Range(1, 20)] = 6,
    width: Annotated[int, Range(16, 64)] = 32, stretch: Annotated[float, Range(0.1, 4)] = 1.0,
) -> Evidence:
    r"""A fit of $g$ to $\epsilon$ gives $\sum_jc_jg(w_j\cdot x)$ to $\epsilon\Vert c\Vert_1$."""
    t = 2 * _grid(2001, 1)
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
        "lift of exp itself": identical(torch.stack(lifted), torch.stack(sums)),
    })


@experiment(
    reaches=IMAGE_GOALS, floor={"relu_rmse": at_most_goal(0.087), **IMAGE_GOALS},
    source="Leshno et al. (1993), theorem 1: with ridges that are no polynomials the error falls "
    "with every doubling; squares stay where their six monomials are",
)
def fit_image(run: Run, *, scale: Annotated[float, Range(3, 10)] = 5.0) -> None:
    """Fits a photograph as a function of two variables by ever more ridges of each shape."""
    side, widths = (64, 2 ** np.arange(4, 12)) if run.full else (32, 2 ** np.arange(4, 10))
    photo = torch.tensor(photographs()["china"]).double().mean(dim=2) / 255
    left = (photo.shape[1] - len(photo)) // 2
    crop = photo[:, left : left + len(photo)]
    y, x = F.adaptive_avg_pool2d(crop[None], side).reshape(-1, 1), _grid(side, 2)
    pictures = {"photograph": y}

    def rmse(shape: str, width: int) -> float:
        rng = run.seed.child((shape, width)).torch()
        span = RidgeSpan(2, phi=shape, width=width, scale=scale, rng=rng).fit(x, y)
        if shape in ("relu", "square") and width in (16, 128, widths[-1]):
            pictures[f"{shape}, {width}"] = span(x)
        if shape == "relu" and width == widths[-1]:
            run.keep(span)
        return float((span(x) - y).square().mean().sqrt())

    errors = {
        shape: np.array([rmse(shape, int(width)) for width in widths])
        for shape in run.steps(("relu", "tanh", "softplus", "gaussian", "square"), "shapes")
    }
    for shape in ("relu", "tanh"):
        ratio = errors[shape][-1] / errors[shape][widths == 128].item()
        run.record(**{f"{shape}_rmse": errors[shape][-1], f"{shape}_ratio": ratio})
    run.record(
        square_rmse=errors["square"][-1],
        square_drift=np.abs(errors["square"] - rmse("square", 6)).max(),  # from the six monomials
        idle_doublings=float((np.diff([errors["relu"], errors["tanh"]]) >= 0).sum()),
    )
    shown = [one.reshape(side, side).clamp(0, 1) for one in pictures.values()]
    run.figure("reconstructions", figures.images(shown, list(pictures), columns=4))
    curves = tuple(Series(shape, widths, one, "other") for shape, one in errors.items())
    run.figure("errors", figures.draw(Picture(curves, "ridges", "RMSE", log="xy")))


def _unit_cubes(n: int, points: int) -> tuple[Tensor, Tensor]:
    """Give points of [0, 1]^n, and a finer set that includes them."""
    if n < 3:
        side = max(2, math.ceil(points ** (1 / n)))
        return (1 + _grid(side, n)) / 2, (1 + _grid(2 * side - 1, n)) / 2
    sobol = torch.quasirandom.SobolEngine(n).draw(2 * points, dtype=torch.float64)
    return sobol[:points], sobol


def _grid(side: int, n: int) -> Float[Tensor, "N n"]:
    """Give a grid of side^n points in the cube [-1, 1]^n."""
    line = torch.linspace(-1, 1, side, dtype=torch.float64)
    return torch.cartesian_prod(*[line] * n).reshape(-1, n)


def _kink_grid(points: int) -> Float[Tensor, "N 1"]:
    """Give an odd number of points, dense at the ends of [-1, 1], with 0 among them."""
    x = torch.linspace(0, math.pi, points, dtype=torch.float64).cos()
    x[points // 2] = 0.0  # cos(pi/2) is 6e-17
    return x[:, None]


def _chebyshev(x: Float[Tensor, "*shape"], degree: int) -> Float[Tensor, "*shape d1"]:
    """Evaluate the Chebyshev polynomials up to a degree, at points of [-1, 1]."""
    return (torch.arange(degree + 1).to(x) * x.acos()[..., None]).cos()


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


def _hidden(x: Tensor, phi: str, width: int, depth: int, rng: torch.Generator) -> Tensor:
    """Evaluate the last hidden layer of a random network; layers are scaled to stay within 1."""
    for _ in range(depth):
        scale = x.shape[1] ** -0.5
        x = RidgeSpan(x.shape[1], phi=phi, width=width, scale=scale, rng=rng).features(x)
        x = x / x.abs().amax(dim=0)
    return x

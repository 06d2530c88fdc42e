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
from typing import Annotated, final

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import linprog
from torch import Tensor, nn

from principia.lab.params import Choice, Failure, PositiveFloat, PositiveInt, checked, usage_error
from principia.networks.activations import ACTIVATIONS

Function = Callable[[Tensor], Tensor]
SHAPES: Mapping[str, Function] = {
    **{name: one.module() for name, one in ACTIVATIONS.items()},
    "gaussian": lambda z: (-z.square()).exp(), "square": torch.square, "cube": lambda z: z**3,
    "constant": torch.ones_like,
}
Shape = Annotated[str, Choice(tuple(SHAPES))]
RCOND = 1e-12  # singular values below this share of the largest are rounding, and are left out
REFINED = 1.05  # a finer grid that raises a distance by more shows that the first was too coarse


@checked
def sup_distance(
    f: Function, g: Function, K: Sequence[tuple[float, float]], *, points: PositiveInt = 1025
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
        raise usage_error("sup_distance", "K", "one or more intervals (low, high), low < high", K)
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


def _unit_cubes(n: int, points: int) -> tuple[Tensor, Tensor]:
    """Give points of [0, 1]^n, and a finer set that includes them."""
    if n < 3:
        side = max(2, math.ceil(points ** (1 / n)))
        return (1 + cube_grid(side, n)) / 2, (1 + cube_grid(2 * side - 1, n)) / 2
    sobol = torch.quasirandom.SobolEngine(n).draw(2 * points, dtype=torch.float64)
    return sobol[:points], sobol


def cube_grid(side: int, n: int) -> Float[Tensor, "N n"]:
    """Give a grid of side^n points in the cube [-1, 1]^n."""
    line = torch.linspace(-1, 1, side, dtype=torch.float64)
    return torch.cartesian_prod(*[line] * n).reshape(-1, n)


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


def _rounding(owner: str, f: Tensor, features: Tensor) -> float:
    """Check values at the same points; give the share of the largest singular value to cut at."""
    if len(f) != len(features) or not bool(f.isfinite().all() & features.isfinite().all()):
        got = f"{len(f)} and {len(features)} rows"
        raise usage_error(owner, "f and features", "finite, with one number of rows", got)
    return max(RCOND, torch.finfo(features.dtype).eps * max(features.shape))


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
        self, n_in: PositiveInt, *, phi: Shape = "relu", width: PositiveInt = 64,
        scale: PositiveFloat = 1.0, n_out: PositiveInt = 1, rng: torch.Generator | None = None,
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
            raise usage_error("RidgeSpan", "x", domain, tuple(x.shape), "Each point is a row.")
        bias = (self.directions * self.centers).sum(dim=1)
        return SHAPES[self.phi](x @ self.directions.mT - bias)

    def forward(self, x: Float[Tensor, "N n"]) -> Float[Tensor, "N m"]:
        """Combine the ridges with the weights that `fit` found."""
        return self.features(x) @ self.weights

    def fit(self, x: Float[Tensor, "N n"], y: Float[Tensor, "N m"]) -> "RidgeSpan":
        """Find the shortest weights among those with the least squared error."""
        if y.shape != (len(x), self.n_out):
            raise usage_error(
                "RidgeSpan", "y", f"of shape ({len(x)}, {self.n_out})", tuple(y.shape)
            )
        # of the drivers only that by SVD stays accurate when most ridges depend on the others
        self.weights = torch.linalg.lstsq(
            self.features(x), y, driver="gelsd", rcond=RCOND
        ).solution
        return self


@checked
def bernstein(f: Function, degree: PositiveInt) -> Function:
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
def chebyshev_fit(f: Function, degree: PositiveInt) -> Function:
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
    weights = 2 / (degree + 1) * chebyshev(angles.cos(), degree).mT @ f(angles.cos()).double()
    weights[0] /= 2
    return lambda x: (chebyshev(x.double(), degree) @ weights).to(x)


def chebyshev(x: Float[Tensor, "*shape"], degree: int) -> Float[Tensor, "*shape d1"]:
    """Evaluate the Chebyshev polynomials up to a degree, at points of [-1, 1]."""
    return (torch.arange(degree + 1).to(x) * x.acos()[..., None]).cos()


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
        raise usage_error("lift", "directions and coeffs", "of one length", got)

    def lifted(x: Float[Tensor, "N n"]) -> Float[Tensor, " N"]:
        along = x @ directions.mT  # (N, J)
        return fit_1d(along.reshape(-1, 1)).reshape(along.shape) @ coeffs

    return lifted

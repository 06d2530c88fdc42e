r"""Polylines: piecewise-linear functions of one number, and the one-layer networks that they are.

A polyline follows straight lines between its knots and goes on straight beyond the ends. Walking
from left to right, it changes its slope at every inner knot, and a rectifier that wakes up there is
exactly such a change: a polyline is an affine function plus one rectifier an inner knot, or one
absolute value with half its weight. Polylines come as close to a continuous function as one likes,
with an error that falls like $1/m^2$ in the number of pieces where the function is smooth; so do
networks with one hidden layer, by weights that are written down, not learned. Where the signal is
rough, what counts is the place of the knots, and dynamic programming finds the best ones.

$$ g(x) = ax+b+\sum_{i=1}^{m-1}c_i(x-x_i)_+ = a'x+b'+\sum_{i=1}^{m-1}c_i'|x-x_i| $$

$$ a = s_1, \quad b = g(x_0)-ax_0, \quad c_i = s_{i+1}-s_i, \quad
c_i' = \tfrac12c_i, \quad a' = a+\tfrac12\sum_ic_i, \quad b' = b-\tfrac12\sum_ic_ix_i $$

$$ \sup_{[x_0,x_m]}|f-g| \le \frac{(x_m-x_0)^2}{8m^2}\sup|f''| \quad
\text{for } g(x_i)=f(x_i) \text{ at equal distances} $$

Symbols:
    $x_0, \dots, x_m$: knots in increasing order, `Polyline.knots`; the inner ones are the kinks
    $g$: polyline of $m$ pieces, `Polyline`; $g(x_i)$ are its `values`
    $s_i$: slope of piece $i$, `Polyline.slopes`
    $a, b, c_i$: rectifier form, `Polyline.to_relu`; with a prime the other, `Polyline.to_avu`
    $f$: function that is approximated, `interpolate`

References:
    Lebesgue (1898), Sur l'approximation des fonctions. Bulletin des Sciences Mathématiques 22.
    Bellman and Roth (1969), Curve fitting by segmented straight lines. Journal of the American
        Statistical Association 64(327). doi:10.1080/01621459.1969.10501038
    de Boor (1978), A practical guide to splines, ch. 3. Springer. doi:10.1007/978-1-4612-6333-3
"""

__all__ = ["Polyline", "PolylineNetwork", "interpolate", "fit_values", "best_knots"]

from collections.abc import Callable
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from principia.lab.params import NonNegativeInt, PositiveInt, checked, usage_error
from principia.networks.activations import ACTIVATIONS

Kind = Literal["relu", "avu"]
Form = tuple[Float[Tensor, ""], Float[Tensor, ""], Float[Tensor, " kinks"]]
LONGEST = 2000  # samples: the dynamic program keeps a few n x n matrices, 32 megabytes each


@final
class PolylineNetwork(nn.Module):
    r"""Computes $ax+b+\sum_ic_i\varphi(w_ix+b_i)$: an affine map beside one hidden layer.

    Shapes:
        x: (..., 1); returns (..., 1)

    Args:
        units: Number of hidden units; each makes one kink.
        kind: Whether the units are rectifiers or absolute values.
        rng: Draws the weights, uniform in $\pm1/\sqrt n$ over $n$ terms of a sum like those of
            `nn.Linear`; by default torch's global generator.

    Example:
        >>> network = PolylineNetwork(5, rng=torch.Generator().manual_seed(0))
        >>> output = network(torch.zeros(7, 1))
        >>> output.shape, sum(one.numel() for one in network.parameters())
        (torch.Size([7, 1]), 17)
    """

    @checked
    def __init__(
        self, units: NonNegativeInt, *, kind: Kind = "relu", rng: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.phi = ACTIVATIONS[kind].module()

        def drawn(size: int, bound: float = 1.0) -> nn.Parameter:
            return nn.Parameter(torch.empty(size).uniform_(-bound, bound, generator=rng))

        self.a, self.b = drawn(1), drawn(1)
        self.w, self.biases = drawn(units), drawn(units)
        self.c = drawn(units, max(units, 1) ** -0.5)

    def forward(self, x: Float[Tensor, "*B 1"]) -> Float[Tensor, "*B 1"]:
        """Compute the output of every input."""
        return self.a * x + self.b + (self.phi(self.w * x + self.biases) @ self.c)[..., None]


@final
class Polyline:
    r"""Follows straight lines through the points (knot, value), and beyond the ends goes on.

    Shapes:
        knots, values: (m + 1,) for m pieces; x: any shape, kept

    Args:
        knots: Where the points are, in increasing order.
        values: How high they are.

    Example:
        >>> hat = Polyline(torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.0, 1.0, 0.0]))
        >>> hat(torch.tensor([-1.0, 0.5, 3.0])), hat.to_relu()[2], hat.to_avu()[2]
        (tensor([-1.0000,  0.5000, -1.0000]), tensor([-2.]), tensor([-1.]))
        >>> hat.module("avu")(torch.tensor([[0.5]])).item()
        0.5
    """

    def __init__(self, knots: Float[Tensor, " points"], values: Float[Tensor, " points"]) -> None:
        self.knots, self.values = _increasing("Polyline", "knots", knots), values
        if values.shape != knots.shape or not bool(values.isfinite().all()):
            domain = f"{len(knots)} finite numbers, one a knot"
            raise usage_error("Polyline", "values", domain, values.tolist())

    @property
    def slopes(self) -> Float[Tensor, " pieces"]:
        """The slope of each piece."""
        return self.values.diff() / self.knots.diff()

    def __call__(self, x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
        """Evaluate the polyline."""
        piece = torch.searchsorted(self.knots[1:-1].contiguous(), x.contiguous(), right=True)
        return self.values[piece] + self.slopes[piece] * (x - self.knots[piece])

    def to_relu(self) -> Form:
        r"""Give $a$, $b$ and $c$ of $ax+b+\sum_ic_i(x-x_i)_+$ over the inner knots."""
        a = self.slopes[0]
        return a, self.values[0] - a * self.knots[0], self.slopes.diff()

    def to_avu(self) -> Form:
        r"""Give $a'$, $b'$ and $c'$ of $a'x+b'+\sum_ic_i'|x-x_i|$ over the inner knots."""
        a, b, c = self.to_relu()
        return a + c.sum() / 2, b - c @ self.knots[1:-1] / 2, c / 2

    @checked
    def module(self, kind: Kind = "relu") -> PolylineNetwork:
        """Build the network with one hidden unit an inner knot that computes the polyline."""
        a, b, c = self.to_relu() if kind == "relu" else self.to_avu()
        unused = torch.Generator()  # every weight is set below; the global generator stays
        network = PolylineNetwork(len(c), kind=kind, rng=unused).to(self.knots)
        weights = {"a": a[None], "b": b[None], "w": torch.ones_like(c), "c": c}
        network.load_state_dict({**weights, "biases": -self.knots[1:-1]})
        return network

    def __repr__(self) -> str:
        start, end = float(self.knots[0]), float(self.knots[-1])
        return f"Polyline({len(self.knots) - 1} pieces from {start:g} to {end:g})"


def _increasing(owner: str, name: str, x: Tensor) -> Tensor:
    """Refuse what are no two or more finite numbers in strictly increasing order."""
    listed = x.ndim == 1 and len(x) >= 2 and x.is_floating_point()
    if not listed or not bool(x.isfinite().all() & (x.diff() > 0).all()):
        domain = "two or more finite numbers, each larger than the one before"
        raise usage_error(owner, name, domain, x.tolist(), f"torch.unique({name}) sorts them.")
    return x


def interpolate(f: Callable[[Tensor], Tensor], knots: Float[Tensor, " points"]) -> Polyline:
    """Builds the polyline that agrees with a function at its knots.

    Example:
        >>> interpolate(torch.sin, torch.linspace(0, 3, 7))
        Polyline(6 pieces from 0 to 3)
    """
    return Polyline(knots, f(_increasing("interpolate", "knots", knots)))


def fit_values(
    x: Float[Tensor, " n"], y: Float[Tensor, " n"], knots: Float[Tensor, " points"]
) -> Polyline:
    """Finds the polyline with given knots that is nearest to samples, by least squares.

    Args:
        x: Where the samples are, in any order.
        y: The samples.
        knots: Knots; where no sample tells a value, the smallest values fit.

    Example:
        >>> x = torch.tensor([0.0, 1.0, 2.0, 3.0])
        >>> fit_values(x, torch.tensor([0.0, 2.0, 0.0, 2.0]), x[[0, -1]]).slopes
        tensor([0.4000])
    """
    if x.shape != y.shape or not bool(x.isfinite().all() & y.isfinite().all()):
        raise usage_error(
            "fit_values", "x and y", "finite, of one length", f"{len(x)} and {len(y)}"
        )
    hats = hat_functions(_increasing("fit_values", "knots", knots), x)
    return Polyline(knots, torch.linalg.lstsq(hats, y[:, None], driver="gelsd").solution[:, 0])


def hat_functions(knots: Tensor, x: Tensor) -> Tensor:
    """Evaluate at x the polylines whose value is 1 at one knot and 0 at the others: (n, m + 1)."""
    return torch.stack([Polyline(knots, unit)(x) for unit in torch.eye(len(knots)).to(knots)], 1)


@checked
def best_knots(
    x: Float[Tensor, " n"], y: Float[Tensor, " n"], m: PositiveInt
) -> Float[Tensor, " points"]:
    r"""Chooses the m + 1 samples whose polyline is nearest to all of them, by dynamic programming.

    The first and the last sample are knots. With the cost of every possible piece in a matrix,
    each further piece takes one minimum over its start: $O(n^2m)$ in all.

    Args:
        x: Where the samples are, in increasing order; at most 2000.
        y: The samples.
        m: Number of pieces.

    Example:
        >>> x = torch.arange(6.0)
        >>> best_knots(x, torch.tensor([0.0, 1.0, 2.0, 3.0, 1.0, -1.0]), 2)
        tensor([0., 3., 5.])
    """
    _increasing("best_knots", "x", x)
    if y.shape != x.shape or not bool(y.isfinite().all()):
        raise usage_error("best_knots", "y", f"{len(x)} finite numbers, one a place", y.tolist())
    if len(x) > LONGEST:
        hint = "Keep every k-th sample, or cut the signal into parts."
        raise usage_error("best_knots", "x", f"of at most {LONGEST} samples", len(x), hint)
    if m >= len(x):
        hint = "Every piece needs a sample of its own."
        raise usage_error("best_knots", "m", f"in [1, {len(x) - 1}] for {len(x)} samples", m, hint)
    cost = _piece_costs(x.double(), y.double())
    best, starts = cost[0], []  # least cost of a polyline that ends at each sample
    for _ in range(m - 1):
        best, start = (best[:, None] + cost).min(dim=0)
        starts.append(start)
    chosen = [len(x) - 1]
    for start in reversed(starts):
        chosen.append(int(start[chosen[-1]]))
    return x[[0, *reversed(chosen)]]


def _piece_costs(x: Tensor, y: Tensor) -> Tensor:
    """Sum the squared errors (n, n) of the line from each sample to each later one; else inf."""
    x, y = x - x.mean(), y - y.mean()  # sums of squares then lose no digits
    x0, y0 = x[:, None], y[:, None]
    totals = torch.stack([torch.ones_like(x), x, y, x * x, x * y, y * y]).cumsum(dim=1)
    count, sx, sy, sxx, sxy, syy = totals[:, None] - totals[:, :, None]  # over start < k <= end
    xx = sxx - 2 * x0 * sx + count * x0**2
    xy = sxy - x0 * sy - y0 * sx + count * x0 * y0
    yy = syy - 2 * y0 * sy + count * y0**2
    tilt = (y - y0) / (x - x0)  # 0 / 0 where start = end, which the mask removes
    return (yy - 2 * tilt * xy + tilt**2 * xx).clamp(min=0).masked_fill(count <= 0, torch.inf)

r"""Hinges and maxout: units that take the largest of several affine functions.

A maximum of $k$ affine functions, a $k$-hinge, is convex; a ReLU is the 2-hinge with one piece 0.
Differences of two such maxima are all continuous piecewise-linear functions: two maxout units and a
subtraction approximate every continuous function, and every ReLU network can be rewritten so. In
$n$ variables sums of hinges need $n+1$ pieces each and never more: the pieces that are the largest
somewhere triangulate their slopes, and the maximum is the sum over the inner faces, with
alternating signs. ($\lceil\log_2(n+1)\rceil$ is how deep a tree of pairs nests absolute values, not
how many pieces a hinge has; nor is that the least: two hidden layers find the largest of five.) One
absolute value has two symmetries that are easily confused: a mirror at its hyperplane, and a
reflection in a point of it.

$$ G_j(x) = \max_{i\in A_j}(w_i^\top x+b_i), \quad
\max_{i\le K}(w_i^\top x+b_i) = \sum_{F\ \text{inner}}(-1)^{n+1-\vert F\vert}
\max_{i\in F}(w_i^\top x+b_i), \quad \vert F\vert\le n+1 $$

$$ \max(a,b) = \tfrac12(a+b+\vert a-b\vert), \quad
f = \max_{i\in A_+}(w_i^\top x+b_i)-\max_{i\in A_-}(w_i^\top x+b_i) $$

$$ \text{mirror: } x-2(w^\top x+b)\frac{w}{\Vert w\Vert^2}, \quad
\text{point reflection: } v-x,\ v = -2b\frac{w}{\Vert w\Vert^2} $$

Symbols:
    $w_i, b_i$: slopes and biases of the affine pieces, rows of `w` (k, n) and `b` (k)
    $G_j$: unit $j$ of a layer, `Maxout`; $A_j$ are its pieces
    $F$: a face of the triangulated slopes: pieces that one hinge compares, `hinge_decomposition`
    $A_+, A_-$: pieces of the two maxima, `difference_of_maxes`
    $v$: twice the point of the hyperplane $w^\top x+b=0$ next to the origin

References:
    Goodfellow, Warde-Farley, Mirza, Courville and Bengio (2013), Maxout networks. International
        Conference on Machine Learning. arXiv:1302.4389
    Wang and Sun (2005), Generalization of hinging hyperplanes. IEEE Transactions on Information
        Theory 51(12). doi:10.1109/TIT.2005.859246
    Koutschan, Moser, Ponomarchuk and Schicho (2023), Representing piecewise linear functions by
        functions with small arity. arXiv:2305.16933
    Breiman (1993), Hinging hyperplanes for regression, classification, and function approximation.
        IEEE Transactions on Information Theory 39(3). doi:10.1109/18.256506
    Arora, Basu, Mianjy and Mukherjee (2018), Understanding deep neural networks with rectified
        linear units. International Conference on Learning Representations. arXiv:1611.01491
    Bakaev, Brunck, Hertrich, Stade and Yehudayoff (2025), Better neural network expressivity:
        subdividing the simplex. arXiv:2505.14338
"""

__all__ = [
    "Maxout", "MaxoutMLP", "KHinge", "hinge_decomposition", "difference_of_maxes", "avu_max",
    "mirror", "point_reflection", "half_spaces",
]

import math
from collections import Counter
from itertools import combinations, pairwise
from typing import Annotated, Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.spatial import ConvexHull
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.params import PositiveInt, Range, checked, usage_error
from principia.networks.mlp import MLP, need_plain_units

Array = np.ndarray
Terms = list[tuple[int, tuple[int, ...]]]
LIMIT = 100_000  # pieces of one maximum, or simplices of one triangulation
PRUNED_DIM = 4  # with more inputs a hull costs much, and nearly every piece is on it
TIE = 1e-11  # share of their spread by which heights are moved, so that ties break one way


@final
class KHinge(nn.Module):
    r"""Takes the largest of k affine functions, $\max_j(w_j^\top x+b_j)$.

    Shapes:
        w: (k, n); b: (k,); x: (..., n); returns (...)

    Example:
        >>> hinge = KHinge(torch.tensor([[1.0], [-1.0]]), torch.tensor([0.0, 0.0]))
        >>> y = hinge(torch.tensor([[-3.0], [2.0]]))
        >>> y.tolist(), hinge.cell(torch.tensor([[-3.0], [2.0]])).tolist()
        ([3.0, 2.0], [1, 0])
    """

    @checked
    def __init__(self, w: Float[Tensor, "k n"], b: Float[Tensor, " k"]) -> None:
        super().__init__()
        if w.ndim != 2 or not len(w) or b.shape != w.shape[:1]:
            got = f"{tuple(w.shape)} and {tuple(b.shape)}"
            raise usage_error("KHinge", "w and b", "of shapes (k, n) and (k,), k >= 1", got)
        self.w, self.b = nn.Parameter(w), nn.Parameter(b)

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*B"]:
        """Compute the maximum."""
        return F.linear(x, self.w, self.b).amax(dim=-1)

    def cell(self, x: Float[Tensor, "*B n"]) -> Any:
        """Tell which piece is the largest, the first of several: integers of shape (...)."""
        return F.linear(x, self.w, self.b).argmax(dim=-1)


@final
class Maxout(nn.Module):
    r"""Computes m units, each the largest of its own affine functions: one product, one maximum.

    Shapes:
        x: (..., n); returns (..., m)

    Args:
        n: Number of inputs.
        m: Number of units.
        pieces: Affine functions of each unit.
        rng: Draws weights and biases, uniform in $\pm1/\sqrt n$; torch's global generator if none.

    Example:
        >>> layer = Maxout(784, 128, pieces=3, rng=torch.Generator().manual_seed(0))
        >>> y = layer(torch.zeros(64, 784))
        >>> y.shape, layer.rows
        (torch.Size([64, 128]), Linear(in_features=784, out_features=384, bias=True))
    """

    @checked
    def __init__(
        self, n: PositiveInt, m: PositiveInt, *, pieces: PositiveInt = 2,
        rng: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.pieces = pieces
        self.rows = MLP((n, m * pieces), rng=rng).layers[0]  # a unit's pieces follow each other

    @classmethod
    @checked
    def from_rows(
        cls, weight: Float[Tensor, "rows n"], bias: Float[Tensor, " rows"], *, pieces: PositiveInt
    ) -> "Maxout":
        """Build a layer of given affine functions: each unit takes the next `pieces` rows."""
        width, n = weight.shape
        if not width or width % pieces:
            raise usage_error(
                "Maxout", "pieces", f"a divisor of the {width} rows of weight", pieces
            )
        layer = cls(n, width // pieces, pieces=pieces, rng=torch.Generator()).to(weight)
        layer.load_state_dict({"rows.weight": weight, "rows.bias": bias})
        return layer

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*B m"]:
        """Compute every unit."""
        return self.rows(x).unflatten(-1, (-1, self.pieces)).amax(dim=-1)


@final
class MaxoutMLP(nn.Module):
    r"""Composes maxout layers and ends with an affine one, whose outputs are logits.

    Shapes:
        x: (..., sizes[0]); returns (..., sizes[-1])

    Args:
        sizes: Width of the input, of each maxout layer, of the output.
        pieces: Affine functions of each unit.
        dropout: Chance that training drops a unit.
        rng: Draws weights and biases as in `Maxout`.

    Example:
        >>> net = MaxoutMLP([64, 24, 10], pieces=4, rng=torch.Generator().manual_seed(0))
        >>> logits = net(torch.zeros(5, 64))
        >>> logits.shape, sum(one.numel() for one in net.parameters())
        (torch.Size([5, 10]), 6490)
    """

    @checked
    def __init__(
        self, sizes: tuple[PositiveInt, ...], *, pieces: PositiveInt = 2,
        dropout: Annotated[float, Range(0, 1, open="high")] = 0.0,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if len(sizes) < 2:
            hint = "Name the width of the input and of the output."
            raise usage_error("MaxoutMLP", "sizes", "two or more values", sizes, hint)
        hidden = [Maxout(n, m, pieces=pieces, rng=rng) for n, m in pairwise(sizes[:-1])]
        self.hidden, self.dropout = nn.ModuleList(hidden), nn.Dropout(dropout)
        self.out = MLP(sizes[-2:], rng=rng).layers[0]

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*B m"]:
        """Compute the logits."""
        for layer in self.hidden:
            x = self.dropout(layer(x))
        return self.out(x)


def hinge_decomposition(W: Float[Tensor, "K n"], b: Float[Tensor, " K"]) -> Terms:
    r"""Writes the maximum of K affine functions as a $\pm1$ sum of maxima of at most n + 1 of them.

    The pieces are points (slope, bias); those on the upper side of their convex hull triangulate
    the slopes. A face counts as much as makes all faces around any point add up to 1.

    Shapes:
        W: (K, n); b: (K,); returns pairs of a sign and the rows whose maximum it multiplies

    Example:
        >>> W, b = torch.tensor([[-1.0], [0.0], [1.0]]), torch.tensor([0.0, 1.0, 0.0])
        >>> hinge_decomposition(W, b)  # max(-x, 1, x) = max(-x, 1) + max(1, x) - 1
        [(1, (0, 1)), (1, (1, 2)), (-1, (1,))]
    """
    K, d = len(W), W.shape[1] + 1
    # no hull of K points in d dimensions has more facets (McMullen)
    most = sum(math.comb(K - (d + side) // 2, K - d) for side in (1, 2)) if d < K else 1
    if not K or most > LIMIT:
        hint = "Maxima of fewer pieces, or of fewer variables, can be decomposed."
        domain = f"of 1 piece or more whose triangulation has at most {LIMIT} simplices"
        raise usage_error("hinge_decomposition", "W", domain, f"{K} pieces, up to {most}", hint)
    simplices = upper_simplices(W.detach().double().numpy(), b.detach().double().numpy())
    tops = [tuple(sorted(map(int, one))) for one in simplices]
    faces = {face for top in tops for k in range(1, len(top) + 1) for face in combinations(top, k)}
    around: Counter[tuple[int, ...]] = Counter()  # what the larger faces around a face add up to
    terms = []
    for face in sorted(faces, key=lambda face: (-len(face), face)):
        if sign := 1 - around[face]:
            terms.append((sign, face))
            for k in range(1, len(face)):
                around.update(dict.fromkeys(combinations(face, k), sign))
    return terms


def upper_simplices(W: Array, b: Array) -> Array:
    """Triangulate the slopes by the upper hull of (slope, bias): rows of indices, one a simplex."""
    K = len(W)
    U, d, _ = np.linalg.svd(W - W.mean(axis=0), full_matrices=False)
    r = int((d > 1e-12 * K * (1e-300 + np.abs(W).max())).sum())  # slopes may lie in a subspace
    if r == 0:
        return np.array([[b.argmax()]])
    if r + 1 == K:
        return np.arange(K)[None]
    # affine maps and added affine functions keep the upper side: make all of size 1 for Qhull
    base = np.column_stack([U[:, :r] * K**0.5, np.ones(K)])
    height = b - base @ np.linalg.lstsq(base, b, rcond=None)[0]
    spread, noise = np.abs(height).max(), np.random.default_rng(0).uniform(-1, 1, size=K)
    flat = spread <= 1e-12 * np.abs(b).max()  # then any triangulation does
    lifted = noise if flat else height / spread + TIE * noise
    hull = ConvexHull(np.column_stack([base[:, :r], lifted]))
    return hull.simplices[hull.equations[:, -2] > 1e-10]  # not the lower and the vertical sides


def difference_of_maxes(net: MLP) -> tuple[KHinge, KHinge]:
    r"""Converts a small ReLU network with one output into a maximum minus a maximum, in float64.

    Sums of maxima are maxima of sums, and $\max(p-q,0)=\max(p,q)-q$. Repeated pieces are dropped
    and, with up to 4 inputs, those that are nowhere the largest.

    Example:
        >>> net = MLP([2, 3, 1], rng=torch.Generator().manual_seed(0)).double()
        >>> plus, minus = difference_of_maxes(net)
        >>> x = torch.tensor([[0.5, -2.0]], dtype=torch.float64)
        >>> torch.allclose(plus(x) - minus(x), net(x)[:, 0])
        True
    """
    need_plain_units("difference_of_maxes", "net", net)
    if (net.activation, net.out_activation, net.sizes[-1]) != ("relu", None, 1):
        got = f"activations {net.activation!r} and {net.out_activation!r}, {net.sizes[-1]} outputs"
        raise usage_error(
            "difference_of_maxes", "net", "a ReLU network with one affine output", got
        )
    n = net.sizes[0]
    zero = np.zeros((1, n + 1))  # a piece is a row of slopes and bias
    units = [(np.eye(n + 1)[[i]], zero) for i in range(n)]
    layers: Any = net.layers
    for number, layer in enumerate(layers, start=1):
        weight = layer.weight.detach().double().numpy()
        bias = np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().double().numpy()
        units = [_combined(units, *row) for row in zip(weight, bias, strict=True)]
        if number < len(layers):
            units = [(_pruned(np.vstack([plus, minus])), minus) for plus, minus in units]
    plus, minus = (torch.from_numpy(rows) for rows in units[0])
    return KHinge(plus[:, :-1], plus[:, -1]), KHinge(minus[:, :-1], minus[:, -1])


def _combined(units: list[tuple[Array, Array]], weights: Array, bias: float) -> tuple[Array, Array]:
    """Add up differences of maxima; a negative weight exchanges the two maxima of its unit."""
    plus, minus = np.zeros((2, 1, units[0][0].shape[1]))
    plus[0, -1] = bias
    for weight, pair in zip(weights, units, strict=True):
        up, down = (abs(weight) * rows for rows in (pair if weight > 0 else pair[::-1]))
        plus, minus = _sum_of_maxes(plus, up), _sum_of_maxes(minus, down)
    return plus, minus


def _sum_of_maxes(one: Array, two: Array) -> Array:
    """Give the pieces of the sum of two maxima: all sums of two pieces (Minkowski)."""
    count = len(one) * len(two)
    if count > LIMIT:
        hint = "Only small networks can be converted."
        raise usage_error("difference_of_maxes", "net", f"of at most {LIMIT} pieces", count, hint)
    return _pruned((one[:, None] + two).reshape(count, -1))


def _pruned(rows: Array) -> Array:
    """Drop repeated pieces and, in few dimensions, those that are nowhere the largest."""
    _, first = np.unique(rows.round(12), axis=0, return_index=True)
    rows = rows[np.sort(first)]
    if rows.shape[1] - 1 > PRUNED_DIM:
        return rows
    return rows[np.unique(upper_simplices(rows[:, :-1], rows[:, -1]))]


@checked
def avu_max(k: PositiveInt) -> nn.Sequential:
    r"""Builds the maximum of k numbers from absolute values, nested $\lceil\log_2k\rceil$ deep.

    A binary tree: each level replaces pairs by $\frac12(a+b+\vert a-b\vert)$.

    Shapes:
        the module maps (..., k) to (..., 1)

    Example:
        >>> tree = avu_max(5)
        >>> tree(torch.tensor([3.0, -1.0, 7.0, 2.0, 5.0])), len(tree)
        (tensor([7.]), 3)
    """
    widths = [k]
    while widths[-1] > 1:
        widths.append((widths[-1] + 1) // 2)
    return nn.Sequential(*map(_PairMax, widths[:-1]))


@final
class _PairMax(nn.Module):
    """One level of the tree: neighbors become their maximum, an odd one out is carried over."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Float[Tensor, "*B k"]) -> Float[Tensor, "*B half"]:
        if x.shape[-1] != self.width:
            raise usage_error("avu_max", "x", f"of width {self.width}", tuple(x.shape))
        paired = self.width // 2 * 2
        a, b = x[..., 0:paired:2], x[..., 1:paired:2]
        return torch.cat([(a + b + (a - b).abs()) / 2, x[..., paired:]], dim=-1)


@checked
def mirror(x: Float[Tensor, "*B n"], w: Float[Tensor, " n"], b: float) -> Float[Tensor, "*B n"]:
    r"""Mirrors points at the hyperplane $w^\top x+b=0$: $x-2(w^\top x+b)w/\Vert w\Vert^2$.

    Example:
        >>> mirror(torch.tensor([[3.0, 1.0]]), torch.tensor([2.0, 0.0]), -2.0)
        tensor([[-1.,  1.]])
    """
    largest = w.abs().max()
    if not 0 < largest < math.inf:
        raise usage_error("mirror", "w", "a finite vector other than 0", w)
    norm = largest * (w / largest).square().sum().sqrt()  # neither overflows nor underflows
    distance = (x @ w + b) / norm
    return x - 2 * distance[..., None] * w / norm


@checked
def point_reflection(
    x: Float[Tensor, "*B n"], w: Float[Tensor, " n"], b: float
) -> Float[Tensor, "*B n"]:
    r"""Reflects points in the point of $w^\top x+b=0$ next to the origin: $v-x$.

    Example:
        >>> point_reflection(torch.tensor([[3.0, 1.0]]), torch.tensor([2.0, 0.0]), -2.0)
        tensor([[-1., -1.]])
    """
    return mirror(torch.zeros_like(w), w, b) - x  # v is the mirror image of the origin


@checked
def half_spaces(
    w: Float[Tensor, " n"], b: float, x: Float[Tensor, "*B n"]
) -> tuple[Bool[Tensor, "*B"], Bool[Tensor, "*B"], Bool[Tensor, "*B"]]:
    r"""Tells which points lie in $H^+$, $H^0$ and $H^-$, where $w^\top x+b$ is >, = and < 0.

    Example:
        >>> plus, zero, minus = half_spaces(torch.ones(1), -1.0, torch.tensor([[0.0], [1.0]]))
        >>> plus.tolist(), zero.tolist(), minus.tolist()
        ([False, False], [False, True], [True, False])
    """
    form = x @ w + b
    return form > 0, form == 0, form < 0

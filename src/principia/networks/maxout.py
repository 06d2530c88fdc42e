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

import itertools
import math
from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Annotated, Any, Literal, final

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.spatial import ConvexHull
from sklearn.datasets import make_moons
from torch import Tensor, nn
from torch.nn import functional as F

from principia.connectionism.margin import signed_distance
from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Count, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.learners import learner
from principia.lab.relations import at_most, equal, every, identical, never
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Supervised, accuracy, fit
from principia.networks.mlp import MLP

Array = np.ndarray
Terms = list[tuple[int, tuple[int, ...]]]
Dim = Annotated[int, Range(1, 50)]
Points = Annotated[int, Range(100, 100_000)]
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

    def __init__(self, w: Float[Tensor, "k n"], b: Float[Tensor, " k"]) -> None:
        super().__init__()
        if w.ndim != 2 or not len(w) or b.shape != w.shape[:1]:
            got = f"{tuple(w.shape)} and {tuple(b.shape)}"
            raise refuse("KHinge", "w and b", "of shapes (k, n) and (k,), k >= 1", got)
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
        self, n: Count, m: Count, *, pieces: Count = 2, rng: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.pieces = pieces
        self.rows = MLP((n, m * pieces), rng=rng).layers[0]  # a unit's pieces follow each other

    @classmethod
    @checked
    def from_rows(
        cls, weight: Float[Tensor, "rows n"], bias: Float[Tensor, " rows"], *, pieces: Count
    ) -> "Maxout":
        """Build a layer of given affine functions: each unit takes the next `pieces` rows."""
        width, n = weight.shape
        if not width or width % pieces:
            raise refuse("Maxout", "pieces", f"a divisor of the {width} rows of weight", pieces)
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
        self, sizes: tuple[Count, ...], *, pieces: Count = 2,
        dropout: Annotated[float, Range(0, 1, open="high")] = 0.0,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if len(sizes) < 2:
            hint = "Name the width of the input and of the output."
            raise refuse("MaxoutMLP", "sizes", "two or more values", sizes, hint)
        hidden = [Maxout(n, m, pieces=pieces, rng=rng) for n, m in pairwise(sizes[:-1])]
        self.hidden, self.dropout = nn.ModuleList(hidden), nn.Dropout(dropout)
        self.out = MLP(sizes[-2:], rng=rng).layers[0]

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*B m"]:
        """Compute the logits."""
        for layer in self.hidden:
            x = self.dropout(layer(x))
        return self.out(x)


@learner
def network(
    inputs: Count, outputs: Count, rng: torch.Generator, *, hidden: tuple[Count, ...] = (32,),
    pieces: Count = 3, dropout: Annotated[float, Range(0, 1, open="high")] = 0.0,
) -> nn.Module:
    """Builds a network of maxout layers for any table.

    Args:
        hidden: Widths of the maxout layers.
        pieces: Affine functions of each unit.
        dropout: Chance that training drops a unit.
    """
    return MaxoutMLP((inputs, *hidden, outputs), pieces=pieces, dropout=dropout, rng=rng)


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
        raise refuse("hinge_decomposition", "W", domain, f"{K} pieces, up to {most}", hint)
    simplices = _upper_simplices(W.detach().double().numpy(), b.detach().double().numpy())
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
    if (net.activation, net.out_activation, net.sizes[-1]) != ("relu", None, 1):
        got = f"activations {net.activation!r} and {net.out_activation!r}, {net.sizes[-1]} outputs"
        raise refuse("difference_of_maxes", "net", "a ReLU network with one affine output", got)
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


@checked
def avu_max(k: Count) -> nn.Sequential:
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


@checked
def mirror(x: Float[Tensor, "*B n"], w: Float[Tensor, " n"], b: float) -> Float[Tensor, "*B n"]:
    r"""Mirrors points at the hyperplane $w^\top x+b=0$: $x-2(w^\top x+b)w/\Vert w\Vert^2$.

    Example:
        >>> mirror(torch.tensor([[3.0, 1.0]]), torch.tensor([2.0, 0.0]), -2.0)
        tensor([[-1.,  1.]])
    """
    distance: Any = signed_distance(x, w, b)
    return x - 2 * distance[..., None] * w / w.norm()


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


@final
class _PairMax(nn.Module):
    """One level of the tree: neighbors become their maximum, an odd one out is carried over."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Float[Tensor, "*B k"]) -> Float[Tensor, "*B half"]:
        if x.shape[-1] != self.width:
            raise refuse("avu_max", "x", f"of width {self.width}", tuple(x.shape))
        paired = self.width // 2 * 2
        a, b = x[..., 0:paired:2], x[..., 1:paired:2]
        return torch.cat([(a + b + (a - b).abs()) / 2, x[..., paired:]], dim=-1)


def _upper_simplices(W: Array, b: Array) -> Array:
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


def _pruned(rows: Array) -> Array:
    """Drop repeated pieces and, in few dimensions, those that are nowhere the largest."""
    _, first = np.unique(rows.round(12), axis=0, return_index=True)
    rows = rows[np.sort(first)]
    if rows.shape[1] - 1 > PRUNED_DIM:
        return rows
    return rows[np.unique(_upper_simplices(rows[:, :-1], rows[:, -1]))]


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
        raise refuse("difference_of_maxes", "net", f"of at most {LIMIT} pieces", count, hint)
    return _pruned((one[:, None] + two).reshape(count, -1))


@claim(control={"left": "2 min"}, source="Breiman 1993; Goodfellow et al. 2013")
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
    twin = MaxoutMLP((n, 6, 4, 3), rng=seed.torch()).double()
    for place, layer in enumerate(net.layers[:-1]):
        rows = [torch.stack([one, 0 * one], dim=1).flatten(0, 1) for one in layer.parameters()]
        twin.hidden[place] = Maxout.from_rows(*rows, pieces=2)
    twin.out = net.layers[-1]
    return every({
        "twice the larger": identical(2 * hinge, f + g + (f - g).abs()),
        "a piece 0 makes a ReLU": identical(rectifier(x), F.relu(f)),
        "a network of such units is the ReLU network": identical(twin(x), net(x)),
    })


@claim(control={"function": "difference"}, source="Boyd and Vandenberghe 2004, sec. 3.2.3")
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
    start = x[:10_000].requires_grad_()
    (gradient,) = torch.autograd.grad(f(start).sum(), start)
    return every({
        "chords below the function": never(
            inner > chord + 1e-12 * (1 + chord.abs()), why="a theorem, up to float64 rounding"
        ),
        "gradient is the slope of the largest piece": identical(
            gradient, hinge.w[hinge.cell(start)] - factor * other.w[other.cell(start)]
        ),
    })


@claim(
    control={"size": "ceil(log2(n + 1))"}, source="Wang and Sun 2005; Koutschan et al. 2023",
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
    parts = {}
    for name, (W, b, x) in cases.items():
        values, dim = x @ W.mT + b, W.shape[1]
        most = dim + 1 if size == "n + 1" else math.ceil(math.log2(dim + 1))
        sets = [s for k in range(1, most + 1) for s in combinations(range(len(W)), k)]
        hinges = torch.stack([values[:, s].amax(dim=1) for s in sets], dim=1)
        hinges = torch.cat([hinges, x, torch.ones_like(x[:, :1])], dim=1)  # all affine ones too
        best = torch.linalg.lstsq(hinges, values.amax(dim=1, keepdim=True), driver="gelsd").solution
        terms = hinge_decomposition(W, b)
        parts |= {
            f"{name}: least squares over hinges of {most}": identical(
                hinges @ best[:, 0], values.amax(dim=1)
            ),
            f"{name}: decomposition": identical(_signed_sum(values, terms), values.amax(dim=1)),
            f"{name}: signs, and pieces beyond n + 1": never(
                [abs(sign) != 1 or len(rows) > dim + 1 for sign, rows in terms], of=len(terms),
                why="a theorem: inner faces of a triangulated polytope",
            ),
        }
    net = MLP((2, 3, 3, 1), rng=seed.child("net").torch()).double()
    x, total = _points(seed.child("net"), points, 2), torch.zeros(points, dtype=torch.float64)
    for sign, hinge in zip((1, -1), difference_of_maxes(net), strict=True):
        W, b = hinge.w.detach(), hinge.b.detach()
        total += sign * _signed_sum(x @ W.mT + b, hinge_decomposition(W, b))
    return every({**parts, "a ReLU network": identical(total, net(x)[:, 0])})


@claim(
    control={"second": False},
    source="Wang 2004, as quoted by Goodfellow et al. 2013, proposition 4.1",
)
def difference_of_maxes_claim(
    seed: Seed, *, inputs: Annotated[int, Range(1, 3)] = 2,
    width: Annotated[int, Range(2, 4)] = 3, depth: Annotated[int, Range(1, 2)] = 2,
    points: Points = 10_000, second: bool = True,
) -> Evidence:
    r"""Every ReLU network is $\max_{A_+}(w^\top x+b)-\max_{A_-}(w^\top x+b)$."""
    parts = {}
    for sizes in {(inputs, *depth * [width], 1): 0, (2, 3, 3, 1): 0, (3, 4, 1): 0, (1, 4, 4, 1): 0}:
        name = "-".join(map(str, sizes))
        net = MLP(sizes, rng=seed.child(name).torch()).double()
        x = _points(seed.child(name), points, sizes[0])
        plus, minus = difference_of_maxes(net)
        with torch.no_grad():
            parts[f"{name}: {len(plus.b)} and {len(minus.b)} pieces"] = identical(
                plus(x) - second * minus(x), net(x)[:, 0]
            )
    return every(parts)


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
    return at_most(errors, bounds, slack=1e-12, why="a theorem; rounding of m slopes").drawn(
        Series("largest error", sizes, errors), Series("max|f''| / 8m²", sizes, bounds, "bound"),
        x="pieces m of a unit", y="largest error on [0, 1]", log="xy",
    )


@claim(control={"missing": 1}, source="Arora et al. 2018, theorem 2.1; Mukherjee and Basu 2017")
def nesting_depth(
    seed: Seed, *, k: Annotated[int, Range(2, 40)] = 16,
    points: Annotated[int, Range(100, 10_000)] = 1000, missing: Annotated[int, Range(0, 1)] = 0,
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
    flat = _defect(lambda z: (c * (A @ z).abs().reshape(1000, 9)).sum(dim=1) + a[:2] @ z)
    triple = avu_max(3)
    expected = [math.ceil(math.log2(count)) - missing for count in counts]
    return every({
        "maximum": identical(torch.stack(found), torch.stack(largest)),
        "depth": equal(depths, expected, tol=0, why="an integer").drawn(
            Series("nested absolute values", counts, depths),
            Series("⌈log₂k⌉", counts, expected, "predicted", "steps"), x="k", y="depth",
        ),
        # f(z) - f(-z) is linear for every sum of |w'z| and a linear function, but here it is not
        "odd part of depth 1 is additive": equal(
            flat, 0, tol=1e-12, why="a theorem; rounding of sums of 9 terms"
        ),
        "odd part of max(x, y, 0) is not": equal(
            _defect(lambda z: triple(F.pad(z, (0, 1)))), -1, tol=0, why="halves of small integers"
        ),
    })


@claim(control={"zero_set": "H⁻"}, source="by definition")
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


@claim(control={"factor": 1.0}, source="by construction")
def avu_point_symmetry(
    seed: Seed, *, n: Dim = 5, points: Points = 1000,
    factor: Annotated[float, Range(0, 4)] = 2.0,
) -> Evidence:
    r"""$g(x)=\vert w^\top x+b\vert$ has $g(x)=g(v-x)$, $v=-2bw/\Vert w\Vert^2$."""
    w, b, x, g = _absolute_value(seed, n, points)
    v = -factor * b * w / (w @ w)
    image = point_reflection(x, w, b)
    return every({
        "g(v - x) = g(x)": identical(g(v - x), g(x)),
        "point_reflection keeps g": identical(g(image), g(x)),
        "all midpoints are one point": identical((x + image) / 2, (-b * w / (w @ w)).expand_as(x)),
    })


@claim(
    control={"image": "v - x"}, source="Hesse normal form; Householder 1958",
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
    return every({
        "displacement parallel to w": identical(images - x, along[:, None] * w),
        "midpoint on the hyperplane": identical((images + x) @ w / 2, torch.full_like(along, -b)),
        "g keeps its value": identical(g(images), g(x)),
        "the two maps differ along the plane": identical(
            mirror(x, w, b) - point_reflection(x, w, b), 2 * tangent
        ),
    })


@experiment(
    reaches={"maxout_error": at_most_goal(0.022), "excess_error": at_most_goal(0.003)},
    floor={
        "maxout_error": at_most_goal(0.07), "relu_error": at_most_goal(0.07),
        "excess_error": at_most_goal(0.01),
    },
    source="to match is a ReLU network of as many parameters, by the same training; Goodfellow et "
    "al. (2013), Table 1, report 0.94 % with dropout and a far longer schedule",
)
def maxout_vs_relu(run: Run, *, dropout: Annotated[float, Range(0, 0.9)] = 0.2) -> None:
    """Trains maxout and ReLU networks of one size on MNIST, or on 8 x 8 digits when quick."""
    x, y, x_test, y_test = handwriting(run)
    x, x_test = x.flatten(1), x_test.flatten(1)
    # widths that give both about as many parameters: 352 thousand, or 7 thousand when quick
    sizes, pieces, other = ((784, 128, 128, 10), 3, (784, 317, 317, 10)) if run.full else (
        (64, 24, 10), 4, (64, 96, 10)
    )
    errors: dict[str, list[float]] = {"maxout": [], "relu": []}
    for name, number in itertools.product(errors, (1, 2, 3)):
        rng = run.seed.child(f"init {number}").torch()
        model = (MaxoutMLP(sizes, pieces=pieces, dropout=dropout, rng=rng) if name == "maxout"
                 else _relu_net(other, dropout, rng))
        history = _train(
            run, f"{name}-{number}", model, (x, y), F.cross_entropy, lr=4e-3 if run.full else 1e-2,
            epochs=10, batch_size=128 if run.full else 64,
            validation=(x_test, y_test), metrics={"accuracy": accuracy},
        )
        errors[name].append(1 - history[-1]["validation_accuracy"])
        if (name, number) == ("maxout", 1):
            run.keep(model)
    maxout, relu = (sum(found) / len(found) for found in errors.values())
    run.record(maxout_error=maxout, relu_error=relu, excess_error=maxout - relu)
    run.figure("units", _units_figure(run))
    run.figure("moons", _moons_figure(run))


def _pieces(seed: Seed, k: int, n: int) -> tuple[Tensor, Tensor]:
    """Draw k affine functions of n variables, of about the same size near the origin."""
    rng = seed.torch()
    W = torch.randn(k, n, generator=rng, dtype=torch.float64)
    return W, torch.randn(k, generator=rng, dtype=torch.float64)


def _points(seed: Seed, count: int, n: int) -> Tensor:
    return 2 * torch.randn(count, n, generator=seed.child("points").torch(), dtype=torch.float64)


def _signed_sum(values: Tensor, terms: Terms) -> Tensor:
    """Add up the terms of a decomposition from the values (N, K) of the pieces."""
    return torch.stack([sign * values[:, rows].amax(dim=1) for sign, rows in terms]).sum(dim=0)


def _convex_parts(knots: Array, values: Array) -> tuple[Array, Array]:
    """Write a polyline as the difference of two convex ones: slopes and biases of 2m pieces."""
    turns = np.diff(np.diff(values) / np.diff(knots), prepend=0.0)  # of the slope, at each knot
    turns = np.stack([turns, -turns]).clip(min=0)
    biases = -(turns * knots[:-1]).cumsum(axis=1)
    biases[0] += values[0]
    return turns.cumsum(axis=1).ravel(), biases.ravel()


def _best_convex(knots: Array, values: Array) -> tuple[Array, Array]:
    """Find the convex polyline nearest to the values: their envelope, raised by half its gap."""
    edges = np.sort(_upper_simplices(knots[:, None], -values), axis=1)
    left, right = edges.T
    slope = (values[right] - values[left]) / (knots[right] - knots[left])
    bias = values[left] - slope * knots[left]
    gap = (values - (knots[:, None] * slope + bias).max(axis=1)).max()
    fill = np.arange(len(knots) - 1) % len(slope)  # a unit has one piece for each interval
    return slope[fill], bias[fill] + gap / 2


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


def _absolute_value(seed: Seed, n: int, points: int) -> tuple[Tensor, float, Tensor, Any]:
    """Draw w, b and points, and give g(x) = |w.x + b| with them."""
    W, b = _pieces(seed, 1, n)
    w, shift = W[0], float(b[0]) + 1.0  # a hyperplane through the origin would hide v
    return w, shift, _points(seed, points, n), lambda x: (x @ w + shift).abs()


def _relu_net(sizes: tuple[int, ...], dropout: float, rng: torch.Generator) -> nn.Module:
    """Make a ReLU network with dropout behind every hidden layer."""
    *hidden, last = MLP(sizes, rng=rng).layers
    blocks = [nn.Sequential(layer, nn.ReLU(), nn.Dropout(dropout)) for layer in hidden]
    return nn.Sequential(*blocks, last)


def _train(
    run: Run, name: str, model: nn.Module, data: tuple[Tensor, Tensor], loss: Any, *, lr: float,
    **options: Any,
) -> list[dict[str, float]]:
    return fit(
        model, data, Supervised(loss), torch.optim.Adam(model.parameters()), parts=[OneCycle(lr)],
        seed=run.seed.child(name), run=run, name=name, **options,
    ).history


def _units_figure(run: Run) -> Any:
    """Let one-dimensional units learn three convex functions, and draw both."""
    x = torch.linspace(-2, 2, 256)[:, None]
    targets = {"ReLU": F.relu(x), "|x|": x.abs(), "x²": x**2}
    layer = Maxout(1, 3, pieces=5, rng=run.seed.child("units init").torch())
    y = torch.cat(list(targets.values()), dim=1)
    _train(run, "units", layer, (x, y), F.mse_loss, lr=5e-2, steps=200, batch_size=256)
    with torch.no_grad():
        learned = layer(x).T
    series = [Series(name, x[:, 0], target, "predicted") for name, target in targets.items()]
    series += [Series(f"learned {name}", x[:, 0], one, "other")
               for name, one in zip(targets, learned, strict=True)]
    return figures.draw(Picture(tuple(series), "x", "unit of 5 pieces"))


def _moons_figure(run: Run) -> Any:
    """Train on two moons, and draw where the network decides for which."""
    points, labels = make_moons(300, noise=0.2, random_state=int(run.seed.child("points")))
    x, y = torch.from_numpy(points).float(), torch.from_numpy(labels)
    net = MaxoutMLP((2, 8, 2), pieces=3, rng=run.seed.child("moons init").torch())
    _train(run, "moons", net, (x, y), F.cross_entropy, lr=5e-2, steps=150, batch_size=300)
    across, up = torch.linspace(-2, 3, 120), torch.linspace(-1.5, 2, 120)
    with torch.no_grad():
        shares = net(torch.cartesian_prod(across, up)).softmax(dim=1)[:, 1].reshape(120, 120).T
    clouds = [
        Series(f"moon {k}", x[y == k, 0], x[y == k, 1], "other", "points") for k in (0, 1)
    ]
    figure = figures.draw(Picture(tuple(clouds), "x₁", "x₂"))
    return figure.add_contour(
        x=across.tolist(), y=up.tolist(), z=shares.numpy().round(4).tolist(), opacity=0.4,
        colorscale="RdBu", showscale=False, contours={"start": 0, "end": 1, "size": 0.25},
    )

r"""Linear regions: the cells on which a ReLU network is affine, counted and drawn.

The units that are on at $x$ are its pattern $\kappa$, and where the pattern is constant the network
is an affine map. One layer of $m$ units cuts $\mathbb R^n$ by $m$ hyperplanes into at most $R(m)$
cells: all $2^m$ patterns up to $m=n$, and beyond only a polynomial number. A layer can also fold
its input, so that all later cuts appear in every fold: weights exist for which the number grows
exponentially in the depth. Random weights are far from it, they make about one piece a unit along
a line. And since there are finitely many cells, the outer ones reach infinity, where the network is
affine and its softmax ever more certain.

$$ \kappa(x) = 1\{Wx+b>0\}\in\{0,1\}^m, \quad R(m) = \sum_{i=0}^{\min(m,n)}\binom mi $$

$$ \max_{W,b}\#\mathrm{regions} \ge R(m)\,\lfloor m/n\rfloor^{n(L-1)} $$

$$ g(x) = (px)_+ + 2\sum_{j=1}^{p-1}(-1)^j(px-j)_+, \quad x\in[0,1] $$

Symbols:
    $\kappa$: pattern of the units that are on, `activation_pattern`
    $n, m, L$: inputs, units of a layer, and hidden layers
    $R(m)$: largest number of cells of $m$ hyperplanes, `zaslavsky`; `arrangement_cells` lists them
    $g$: zigzag of $p$ units, $p$ times up or down between 0 and 1; `folding_network` applies one to
        each coordinate, layer by layer
    $\#\mathrm{regions}$: cells of constant pattern, `regions_1d` and `regions_2d`

References:
    Zaslavsky (1975), Facing up to arrangements: face-count formulas for partitions of space by
        hyperplanes. Memoirs of the AMS 154. doi:10.1090/memo/0154
    Montúfar, Pascanu, Cho and Bengio (2014), On the number of linear regions of deep neural
        networks. NIPS 27. arXiv:1402.1869
    Serra, Tjandraatmadja and Ramalingam (2018), Bounding and counting linear regions of deep neural
        networks. ICML. arXiv:1711.02114
    Hanin and Rolnick (2019), Complexity of linear regions in deep networks. ICML. arXiv:1901.09021
    Hanin and Rolnick (2019), Deep ReLU networks have surprisingly few activation patterns. NeurIPS.
        arXiv:1906.00904
    Hein, Andriushchenko and Bitterwolf (2019), Why ReLU networks yield high-confidence predictions
        far away from the training data and how to mitigate the problem. CVPR. arXiv:1812.05720
"""

__all__ = [
    "regions_2d", "regions_1d", "activation_pattern", "count_patterns", "arrangement_cells",
    "zaslavsky", "montufar_bound", "folding_network",
]

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

import numpy as np
import plotly.graph_objects as go
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from principia.connectionism.cover import MOST_SIGNS, cover_count, dichotomies
from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.data.synthetic import moons
from principia.lab.domains import Count, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_least, at_most, equal, every, identical, never, tends_to
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Supervised, accuracy, fit
from principia.networks.activations import AVU
from principia.networks.mlp import MLP

Layer = tuple[Tensor, Tensor, float]  # weight, bias, and slope of the activation below 0
Weights = Literal["folding", "random"]
AFFINE = (nn.Linear, nn.Identity, nn.Flatten, nn.Conv1d, nn.Conv2d)
BENT = (nn.ReLU, nn.LeakyReLU, AVU)  # affine on both sides of 0
MOST_CELLS = 1_000_000
TOUCHING = 1e-10  # a field below this part of its terms is 0 up to rounding
INTEGERS = "integers, compared exactly"
GOALS = {
    "over_the_bound": at_most_goal(0), "moons_ratio": Range(0.25, 1.5),
    "digits_ratio": Range(0.1, 1.5), "deepest_to_shallow": Range(0.25, 1.5),
    "far_certain": at_least_goal(0.95),
}


@checked
def zaslavsky(m: Count, n: Count) -> int:
    r"""Counts the cells of m hyperplanes of $\mathbb R^n$ in general position, exactly.

    Example:
        >>> zaslavsky(3, 2), zaslavsky(6, 3), zaslavsky(4, 10)
        (7, 42, 16)
    """
    return sum(math.comb(m, i) for i in range(min(m, n) + 1))


@checked
def montufar_bound(n: Count, m: Count, L: Count) -> int:
    r"""Computes $R(m)\lfloor m/n\rfloor^{n(L-1)}$, which some ReLU network reaches.

    Args:
        n: Inputs.
        m: Units of each hidden layer, at least n.
        L: Hidden layers.

    Example:
        >>> montufar_bound(1, 6, 4), montufar_bound(2, 4, 2)
        (1512, 44)
    """
    _need_units("montufar_bound", n, m)
    return zaslavsky(m, n) * (m // n) ** (n * (L - 1))


@checked
def folding_network(n: Count, m: Count, L: Count) -> MLP:
    r"""Builds a ReLU network that has at least as many regions as `montufar_bound`.

    All hidden layers but the last fold each coordinate of the unit cube, with m/n units each; the
    last has hyperplanes $\sum_jx_jt_k^j+t_k^n=0$ whose crossings all lie inside the cube: no point
    is on more than n of them, because a polynomial has no more roots. The arguments are those of
    `montufar_bound`.

    Example:
        >>> net = folding_network(1, 3, 2)
        >>> len(regions_1d(net, -1, 2)) - 1, montufar_bound(1, 3, 2)
        (13, 12)
    """
    _need_units("folding_network", n, m)
    spread, join = torch.zeros(m, n).double(), torch.zeros(n, m).double()
    shift = torch.zeros(m).double()
    for i, units in enumerate(torch.arange(m).tensor_split(n)):
        j = torch.arange(len(units)).double()
        gain = 1 + (j > 0).double()
        spread[units, i], shift[units], join[i, units] = gain * len(units), -gain * j, (-1) ** j
    return _folded((spread, shift), (join, torch.zeros(n).double()), _crossing(n, m), L)


@checked
def arrangement_cells(
    W: Float[Tensor, "m n"], b: Float[Tensor, " m"], *, most: Count = MOST_CELLS
) -> Bool[Tensor, "cells m"]:
    r"""Lists the patterns $1\{Wx+b>0\}$ of all cells of the hyperplanes $Wx+b=0$, exactly.

    The cells are those of the hyperplanes through 0 with normals (w, b) on one side of one more,
    whose normal is the last axis.

    Args:
        W: Normals, one a row.
        b: Offsets.
        most: Largest number of cells to expect, by the formula for general position.

    Example:
        >>> arrangement_cells(torch.eye(2), torch.zeros(2)).int().tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    planes = torch.cat([W, b[:, None]], dim=1).double()
    m, n = W.shape
    cells = zaslavsky(m, n)
    if cells > most or 2 * cells * (m + 1) > MOST_SIGNS:
        got = f"{m} hyperplanes in {n} dimensions: {cells} cells"
        hint = "Take fewer hyperplanes, or count_patterns on samples."
        raise refuse("arrangement_cells", "W", f"of at most {most} cells expected", got, hint)
    if not bool(planes.isfinite().all() & (planes != 0).any(dim=1).all()):
        raise refuse("arrangement_cells", "W, b", "finite, with no row of zeros", planes.tolist())
    upward = F.one_hot(torch.tensor([n]), n + 1).double()
    signs = dichotomies(torch.cat([planes, upward]).numpy(), most=2 * cells)
    return torch.from_numpy(signs[signs[:, -1] > 0, :-1] > 0)


@torch.no_grad()
def activation_pattern(
    net: nn.Module, x: Float[Tensor, "B ..."]
) -> list[UInt8[Tensor, "B bytes"]]:
    r"""Finds which units are on, $1\{Wx+b>0\}$, one tensor a layer, eight units a byte.

    The network may be any module whose nonlinearities are ReLU, leaky ReLU or AVU modules; what
    they get is seen by hooks. `np.unpackbits` gives the units.

    Example:
        >>> net = folding_network(1, 2, 1)  # its units begin at 0.9 and end at 0.1
        >>> activation_pattern(net, torch.tensor([[0.0], [0.5], [1.0]]).double())[0].tolist()
        [[0], [64], [192]]
    """
    seen = _watched("activation_pattern", net, x)
    fields = [field for module, field, _ in seen if isinstance(module, BENT)]
    return [torch.from_numpy(np.packbits((z > 0).flatten(1).cpu().numpy(), axis=1)) for z in fields]


def count_patterns(net: nn.Module, x: Float[Tensor, "B ..."]) -> int:
    r"""Counts the different patterns at samples: a lower bound of the number of regions.

    Example:
        >>> net = folding_network(1, 3, 2)
        >>> count_patterns(net, torch.linspace(-1, 2, 1000)[:, None].double())
        13
    """
    return len(torch.cat(activation_pattern(net, x), dim=1).unique(dim=0))


@torch.no_grad()
@checked
def regions_1d(
    net: nn.Module, a: float | int | Float[Tensor, " n"], b: float | int | Float[Tensor, " n"], *,
    most: Count = MOST_CELLS,
) -> Float[Tensor, "K n"]:
    r"""Finds where the pattern changes on the way from a to b, exactly, layer by layer.

    Between two corners a layer's field is affine, so that each unit has at most one more there. The
    network must be a chain of linear layers and ReLU, leaky ReLU or AVU modules.

    Args:
        net: The network.
        a: Where to begin, a number or a point.
        b: Where to end.
        most: Largest number of regions.

    Returns:
        The corners in their order, a and b included: one more than there are regions.

    Example:
        >>> net = nn.Sequential(nn.Linear(1, 1), AVU())
        >>> _ = net.load_state_dict({"0.weight": torch.ones(1, 1), "0.bias": -torch.ones(1)})
        >>> regions_1d(net, 0, 4)[:, 0].tolist()
        [0.0, 1.0, 4.0]
    """
    ends = [torch.as_tensor(end, dtype=torch.float64).reshape(-1) for end in (a, b)]
    layers = _layers("regions_1d", net, len(ends[0]))
    if len(ends[0]) != len(ends[1]) or not bool(torch.cat(ends).isfinite().all()):
        raise refuse("regions_1d", "a and b", "finite points of one dimension", (a, b))
    along, t = ends[1] - ends[0], torch.tensor([0.0, 1.0], dtype=torch.float64)
    for depth, (weight, bias, bend) in enumerate(layers):
        if bend == 1:
            continue
        x = ends[0] + t[:, None] * along
        for earlier in layers[:depth]:
            x = _bent(x @ earlier[0].mT + earlier[1], earlier[2])
        z = _clean(x @ weight.mT + bias, x.abs() @ weight.abs().mT + bias.abs())  # (K, m)
        cuts, units = (z[1:] * z[:-1] < 0).nonzero(as_tuple=True)
        if len(cuts):
            left, right = z[cuts, units], z[cuts + 1, units]
            t = torch.cat([t, t[cuts] + (t[cuts + 1] - t[cuts]) * left / (left - right)]).sort()[0]
            t = t[F.pad(t.diff() > 1e-14, (1, 0), value=True)]  # two units may meet in one corner
        _need_room("regions_1d", len(t) - 1, most)
    return ends[0] + t[:, None] * along


@final
@dataclass(frozen=True)
class Regions:
    """Polygons of a plane with their patterns, and the affine map of the network on each."""

    corners: Float[Tensor, "P K 2"]  # the last one repeated where a polygon has fewer than K
    weight: Float[Tensor, "P outputs 2"]
    bias: Float[Tensor, "P outputs"]
    pattern: Bool[Tensor, "P units"]  # all layers, one after the other

    def __len__(self) -> int:
        return len(self.corners)

    @property
    def areas(self) -> Float[Tensor, " P"]:
        """The areas of the polygons."""
        (x, y), (u, v) = self.corners.unbind(-1), self.corners.roll(-1, 1).unbind(-1)
        return (x * v - u * y).sum(dim=1) / 2

    @property
    def centers(self) -> Float[Tensor, "P 2"]:
        """A point inside each polygon: the mean of its corners, in which some may count twice."""
        return self.corners.mean(dim=1)


@torch.no_grad()
@checked
def regions_2d(
    net: nn.Module, box: tuple[float, ...] = (-1.0, 1.0, -1.0, 1.0), *,
    plane: Float[Tensor, "3 n"] | None = None, most: Count = MOST_CELLS,
) -> Regions:
    r"""Cuts a rectangle into the polygons on which a network is affine, exactly.

    Unit by unit, each polygon that the unit's line crosses becomes two; a polygon keeps the affine
    map of its layer, so that deeper units have straight lines in it too.

    Args:
        net: A chain of linear layers and ReLU, leaky ReLU or AVU modules.
        box: Left, right, bottom and top.
        plane: Points p, q, r of the input space: (s, t) stands for p + s (q - p) + t (r - p). By
            default the network has two inputs and they are (s, t).
        most: Largest number of polygons.

    Example:
        >>> net = folding_network(2, 4, 2)
        >>> found = regions_2d(net, (-1, 2, -1, 2))
        >>> len(found) >= montufar_bound(2, 4, 2), round(float(found.areas.sum()), 9)
        (True, 9.0)
    """
    if len(box) != 4 or not (box[0] < box[1] and box[2] < box[3]):
        raise refuse("regions_2d", "box", "left < right and bottom < top", box)
    places = [[box[i], box[j]] for i, j in ((0, 2), (1, 2), (1, 3), (0, 3))]
    corners = torch.tensor([places], dtype=torch.float64)
    points = torch.eye(3, 2).roll(1, 0) if plane is None else plane
    origin = points[:1].double()
    frame = (points[1:].double() - origin).mT[None]  # (1, n, 2)
    reach, pattern = corners.abs().amax(dim=(0, 1)), torch.empty(1, 0, dtype=torch.bool)
    for weight, bias, bend in _layers("regions_2d", net, len(frame[0])):
        terms = weight.abs() @ (frame.abs() @ reach + origin.abs())[..., None] + bias.abs()[:, None]
        frame, origin = weight @ frame, origin @ weight.mT + bias  # of the fields, (P, m, 2)
        if bend == 1:
            continue
        home, known = torch.arange(len(corners)), pattern.shape[1]
        for unit in range(len(weight)):
            z = (corners @ frame[home, unit, :, None])[..., 0] + origin[home, unit, None]
            corners, parent, on = _cut(corners, _clean(z, terms[home, unit]))
            home, pattern = home[parent], torch.cat([pattern[parent], on[:, None]], dim=1)
            _need_room("regions_2d", len(corners), most)
        slopes = torch.ones(len(home), len(weight)).double().where(pattern[:, known:], bend)
        frame, origin = slopes[..., None] * frame[home], slopes * origin[home]
    return Regions(corners, frame, origin, pattern)


@claim(
    control={"cells": "all off, all on"},
    source="Montúfar, Pascanu, Cho and Bengio 2014",
    misprint=r"only two cells, $X_0$ where all units are off and $X_1$ where all are on",
)
def affine_on_cells(
    seed: Seed, *, units: Annotated[int, Range(2, 9)] = 4, width: Annotated[int, Range(2, 12)] = 6,
    cells: Literal["one a pattern", "all off, all on"] = "one a pattern",
) -> Evidence:
    r"""A ReLU net is affine on each cell $1\{Wx+b>0\}=\kappa$, and there are up to $2^m$."""
    net, rng = _random_network(seed, (units, units, 1)), seed.child("points").torch()
    layer = net.layers[0]
    wanted = torch.cartesian_prod(*[torch.tensor([False, True])] * units).repeat_interleave(5, 0)
    fields = torch.rand(wanted.shape, generator=rng, dtype=torch.float64) + 0.1
    x = torch.linalg.solve(layer.weight, (fields.where(wanted, -fields) - layer.bias).mT).mT
    x = x.detach().requires_grad_()
    y = net(x)[:, 0]
    (slopes,) = torch.autograd.grad(y.sum(), x)
    first = slopes[::5].repeat_interleave(5, 0)  # of the first of five points in a cell
    rises = (first * (x - x[::5].repeat_interleave(5, 0))).sum(dim=1)
    deep = _random_network(seed.child("deep"), (2, width, width, 2))
    found = regions_2d(deep, (-3, 3, -3, 3))
    weights = torch.rand(found.corners.shape[:2], generator=rng, dtype=torch.float64)
    inside = (weights[..., None] * found.corners).sum(dim=1) / weights.sum(dim=1, keepdim=True)
    affine = (found.weight @ inside[..., None])[..., 0] + found.bias
    packed = torch.cat(activation_pattern(deep, found.centers), dim=1).numpy()
    seen = np.unpackbits(packed.reshape(len(found), 2, -1), axis=2, count=width)
    return every({
        "patterns": equal(
            count_patterns(net, x), 2**units if cells == "one a pattern" else 2, tol=0, why=INTEGERS
        ),
        "gradient within a cell": identical(slopes, first),
        "differences within a cell": identical(y, y[::5].repeat_interleave(5) + rises),
        "two layers are affine on polygons": identical(deep(inside), affine),
        "patterns of the polygons": never(
            seen.reshape(len(found), -1) != found.pattern.numpy(), why="a definition"
        ),
        "one polygon a pattern": equal(
            len(found.pattern.unique(dim=0)), len(found), tol=0, why="cells are convex: integers"
        ),
        "the polygons fill the box": identical(found.areas.sum(), 36.0),
    })


@claim(control={"first": 1}, source="Zaslavsky 1975; Schläfli 1852")
def zaslavsky_claim(
    seed: Seed, *, units: Annotated[int, Range(1, 12)] = 8, inputs: Annotated[int, Range(1, 4)] = 2,
    first: Annotated[int, Range(0, 1)] = 0,
) -> Evidence:
    r"""$m$ generic hyperplanes of $\mathbb R^n$ have $\sum_{i=0}^{\min(n,m)}\binom mi$ cells."""
    cases = [(3, 2), (4, 2), (5, 2), (6, 3), (units, inputs)]
    planes = [_planes(seed.child(case), *case) for case in cases]
    formula = [sum(math.comb(m, i) for i in range(first, min(m, n) + 1)) for m, n in cases]
    shallow = []
    for W, b in planes[:3]:
        net = MLP((2, len(W), 1), rng=seed.torch()).double()
        net.layers[0].load_state_dict({"weight": W, "bias": b})
        pairs = torch.combinations(torch.arange(len(W)))
        far = 2 * float(torch.linalg.solve(W[pairs], -b[pairs]).abs().max())  # beyond all crossings
        shallow.append(len(regions_2d(net, (-far, far, -far, far))))
    return every({
        "cells": equal([len(arrangement_cells(*one)) for one in planes], formula, tol=0,
                       why=INTEGERS),
        "zaslavsky": equal([zaslavsky(*case) for case in cases], formula, tol=0, why=INTEGERS),
        "polygons": equal(shallow, formula[:3], tol=0, why=INTEGERS),
    })


@claim(control={"exponent": "m"}, source="Zaslavsky 1975")
def shallow_growth(
    seed: Seed, *, inputs: Annotated[int, Range(1, 6)] = 3, exponent: Literal["n", "m"] = "n"
) -> Evidence:
    r"""One layer has all $2^m$ cells up to $m=n$ units, then only $O(m^n)$."""
    few = range(1, inputs + 1)
    found = [len(arrangement_cells(*_planes(seed.child(m), m, inputs))) for m in few]
    many = [2**k for k in range(2 + inputs, 20)]
    exponents = [math.log2(zaslavsky(2 * m, inputs) / zaslavsky(m, inputs)) for m in many]
    return every({
        "growth": tends_to(
            many, exponents, inputs if exponent == "n" else many[-1], tol=1e-3,
            why="R(m) = m^n / n! (1 + O(n² / m)), and m is half a million at last",
            labels=("units m", "exponent between m and 2m"),
        ),
        "up to m = n": equal(found, [2**m for m in few], tol=0, why=INTEGERS),
        "at m = n + 1": equal(
            len(arrangement_cells(*_planes(seed, inputs + 1, inputs))), 2 ** (inputs + 1) - 1,
            tol=0, why=INTEGERS,
        ),
    })


@claim(control={"position": "two parallel"}, source="Zaslavsky 1975")
def general_position(
    seed: Seed, *, units: Annotated[int, Range(5, 9)] = 6, inputs: Annotated[int, Range(2, 4)] = 3,
    position: Literal["generic", "two parallel", "concurrent"] = "generic",
) -> Evidence:
    r"""Generic hyperplanes have $R(m)$ cells, parallel or concurrent ones have fewer."""
    m, n = units, inputs
    expected = {
        "generic": zaslavsky(m, n),
        "two parallel": zaslavsky(m - 1, n) + zaslavsky(m - 2, n - 1),  # the last meets m - 2
        "concurrent": zaslavsky(m, n) - 1,  # n + 1 through a point: their simplex is gone
        "all through 0": cover_count(m, n),
    }
    counts = {}
    for name in expected:
        W, b = _planes(seed.child(name), m, n)
        kind = position if name == "generic" else name
        if kind == "two parallel":
            W[1] = -2 * W[0]
        elif kind == "concurrent":
            b[: n + 1] = -W[: n + 1].sum(dim=1)  # through (1, ..., 1)
        elif kind == "all through 0":
            b = torch.zeros_like(b)
        counts[name] = len(arrangement_cells(W, b))
    fewer = list(counts.values())[1:]
    return every({
        **{one: equal(counts[one], expected[one], tol=0, why=INTEGERS) for one in expected},
        "fewer": at_most(fewer, expected["generic"] - 1, why=INTEGERS),
    })


@claim(
    control={"weights": "random"},
    source="Montúfar, Pascanu, Cho and Bengio 2014",
    misprint=r"every network has at least $R(m)\lfloor m/n\rfloor^{n(L-1)}$ regions",
)
def montufar(
    seed: Seed, *, units: Annotated[int, Range(2, 8)] = 6, depth: Annotated[int, Range(2, 5)] = 5,
    weights: Weights = "folding",
) -> Evidence:
    r"""Some weights of depth $L$ give $R(m)\lfloor m/n\rfloor^{n(L-1)}$ regions or more."""
    cases = [(m, L) for m in (2, 3, units) for L in range(2, depth + 1)]
    nets = [_network(seed.child((m, L)), weights, 1, m, L) for m, L in cases]
    counts, bounds = [_pieces(net) for net in nets], [montufar_bound(1, m, L) for m, L in cases]
    flat = [(4, 2), (6, 3)]
    polygons = [regions_2d(_network(seed.child(one), weights, 2, *one), (-1, 2, -1, 2))
                for one in flat]
    # of an even number of folds the last one leads below 0, which later layers see once
    exact = [m ** (L - 1) * (m + 1) + 1 + (m % 2 == 0 and L > 2) for m, L in cases]
    deep = range(2, depth + 1)
    return every({
        "one input": at_least(counts, bounds, why=INTEGERS).drawn(
            Series(f"{units} units a layer", deep, counts[-len(deep):]),
            Series("bound", deep, bounds[-len(deep):], role="bound"),
            x="hidden layers L", y="regions", log="y",
        ),
        "two inputs": at_least(
            [len(one) for one in polygons], [montufar_bound(2, *one) for one in flat], why=INTEGERS
        ),
        "smallest area": at_least(
            [float(one.areas.min()) for one in polygons], 1e-6,
            why="the cells of 3-fold folds have 6e-5 or more; what is smaller is rounding",
        ),
        "folds counted by hand": equal(counts, exact, tol=0, why=INTEGERS),
    })


@claim(
    control={"reading": "at most"},
    source="Serra, Tjandraatmadja and Ramalingam 2018: for n = 1 the maximum is (m + 1)^L, m >= 3",
    misprint=r"the number of regions is at most $O((m/n)^{n(L-1)}m^n)$",
)
def lower_not_upper(
    seed: Seed, *, depth: Annotated[int, Range(3, 8)] = 6,
    reading: Literal["at least", "at most"] = "at least",
) -> Evidence:
    r"""$(m/n)^{n(L-1)}m^n$ bounds the maximum from below only: $m=2$, $n=1$ has 7 > 4, 14 > 8."""
    deep = range(2, depth + 1)
    counts = [_pieces(folding_network(1, 2, L)) for L in deep]
    powers = [2**L for L in deep]
    exceeded = (at_most(counts, powers, why=INTEGERS) if reading == "at most" else
                at_least(counts, [one + 1 for one in powers], why=INTEGERS))
    # three units fold four times: slopes 3.5, -3.5, 3.5, -7, two of the units look to the left
    t = torch.tensor([2.0, 4.0, 6.0], dtype=torch.float64) / 7
    cut = t.new_tensor([[1.0], [-1.0], [-1.0]]), t * t.new_tensor([-1.0, 1.0, 1.0])
    join = t.new_tensor([[-7.0, 7.0, -10.5]]), t.new_tensor([5.0])
    most = [_pieces(_folded(cut, join, _crossing(1, 3), L)) for L in deep]
    return every({
        "two units": exceeded.drawn(
            Series("folding network", deep, counts),
            Series("expression", deep, powers, role="bound"),
            x="hidden layers L", y="regions", log="y",
        ),
        "three units have 4^L, no constant times 3^L": equal(
            most, [4**L for L in deep], tol=0, why=INTEGERS
        ),
    })


@claim(control={"weights": "random"}, source="Montúfar, Pascanu, Cho and Bengio 2014")
def depth_vs_width(
    seed: Seed, *, units: Annotated[int, Range(2, 4)] = 2, depth: Annotated[int, Range(4, 8)] = 6,
    weights: Weights = "folding",
) -> Evidence:
    r"""At equal parameters depth has exponentially more regions: $L=5$ has 50, $L=1$ only 11."""
    deep = range(1, depth + 1)
    nets = [_network(seed.child(L), weights, 1, units, L) for L in deep]
    wide = [(sum(one.numel() for one in net.parameters()) - 1) // 3 for net in nets]
    shallow = [_pieces(folding_network(1, m, 1)) for m in wide]
    counts = [_pieces(net) for net in nets]
    ratio = [a / b for a, b in zip(counts, shallow, strict=True)]
    return every({
        "deep": at_least(counts, [montufar_bound(1, units, L) for L in deep], why=INTEGERS).drawn(
            Series("deep", deep, counts), Series("one layer", deep, shallow, role="predicted"),
            x="hidden layers L", y="regions with equal parameters", log="y",
        ),
        "one layer": equal(shallow, [m + 1 for m in wide], tol=0, why="m points on a line"),
        "the ratio grows": at_least(ratio[2:], ratio[1:-1], why="exponential over linear"),
        "growth a layer": at_least(
            counts[-1] / counts[-2], units - 0.5, why="m folds a layer, up to the last piece"
        ),
    })


@claim(control={"weights": "folding"}, source="Hanin and Rolnick 2019, Complexity")
def random_nets(
    seed: Seed, *, nets: Annotated[int, Range(30, 100)] = 30,
    weights: Literal["random", "folding"] = "random",
) -> Evidence:
    r"""With random weights the pieces along a line are about as many as the units, at any depth."""
    widths = (6, 16, 32) if weights == "random" else (6,)  # 32 units would fold a million times
    cases = [(m, L) for m in widths for L in range(1, 5)]
    counts = []
    for m, L in cases:
        net, rng = _network(seed, weights, 1, m, L), seed.child((m, L)).torch()
        draws = range(nets if weights == "random" else 0)
        counts.append(np.mean([_pieces(_redrawn(net, rng)) for _ in draws] or [_pieces(net)]))
    neurons = [m * L for m, L in cases]
    return equal(
        np.log2(np.array(counts) / neurons), 0, tol=1, why="a factor of 2, for what `about` means"
    ).drawn(
        Series("regions", neurons, counts),
        Series("as many as units", [6, max(neurons)], [6, max(neurons)], role="predicted"),
        x="units of all layers", y="regions on a line", log="xy",
    )


@claim(
    control={"activation": "tanh"},
    source="Hein, Andriushchenko and Bitterwolf 2019, theorem 3.1",
)
def affine_at_infinity(
    seed: Seed, *, inputs: Annotated[int, Range(2, 20)] = 2,
    width: Annotated[int, Range(16, 64)] = 32, classes: Annotated[int, Range(2, 5)] = 3,
    activation: Literal["relu", "leaky_relu", "tanh"] = "relu",
) -> Evidence:
    r"""Along a ray a ReLU net is affine from some point on, and its softmax tends to certainty."""
    rng, straight, certain = seed.child("rays").torch(), [], []
    net = _random_network(seed, (inputs, width, width, classes), activation)
    for _ in range(40):
        _redrawn(net, rng)
        rays = 1e4 * torch.randn(5, inputs, generator=rng, dtype=torch.float64)
        certain.append(net(rays).softmax(dim=1).amax(dim=1).detach() >= 0.999)
        for ray in rays if activation != "tanh" else ():
            last = float(regions_1d(net, 0 * ray, ray)[-2].norm() / ray.norm())
            steps = torch.linspace(last, 1, 5, dtype=torch.float64)[:, None]
            rises = net(steps * ray).diff(dim=0)
            straight.append((rises.diff(dim=0).abs().max() / (1 + rises.abs().max())).detach())
    confident = at_least(
        torch.cat(certain).double().mean(), 0.95,
        why="all but the rays along which two classes rise equally fast",
    )
    if activation == "tanh":
        return confident
    return every({
        "confidence at 10^4": confident,
        "beyond the last corner": equal(straight, 0, tol=1e-9, why="rounding of four differences"),
    })


@experiment(
    reaches={**GOALS, "moons_accuracy": at_least_goal(0.99), "digits_accuracy": at_least_goal(0.9)},
    floor={**GOALS, "moons_accuracy": at_least_goal(0.97), "digits_accuracy": at_least_goal(0.8)},
    source="Hanin and Rolnick (2019), Deep ReLU networks have surprisingly few activation "
    "patterns: on a plane of the order of N²/2 regions for N units, at any depth, trained or not",
)
def picture_of_regions(
    run: Run, *, units: Annotated[int, Range(12, 96)] = 48, layers: Annotated[int, Range(2, 6)] = 4
) -> None:
    """Counts and draws the regions of networks of one size and more and more layers.

    On two moons, for five seeds, and on a plane through three handwritten digits.
    """
    depths, (x, y, x_test, y_test) = range(1, layers + 1), handwriting(run)
    train, test = (x.flatten(1), y), (x_test.flatten(1), y_test)
    three = train[0][torch.randperm(len(x), generator=run.seed.torch())[:3]]
    table: dict[str, list[Any]] = {"digits": [
        [_trained(run, f"digits-{d}", units, d, train, test, (-1, 2, -1, 2), three) for d in depths]
    ], "moons": []}
    for k in range(5):
        train, test = (moons(run.seed.child((k, part)).torch(), 400) for part in "ab")
        table["moons"].append([
            _trained(run, f"moons-{k}-{d}", units, d, train, test, (-3, 3, -3, 3)) for d in depths
        ])
    over, series = 0, []
    for name, rows in table.items():
        counts = np.array([[(before, len(after)) for _, before, after, _ in row] for row in rows])
        over += int((counts.max(axis=2) > [zaslavsky(units // d, 2) ** d for d in depths]).sum())
        run.record(**{
            f"{name}_accuracy": min(one[3] for row in rows for one in row),
            f"{name}_ratio": float(counts[..., 1].mean()) / (units**2 / 2),
        })
        for when, means in zip(("before", "after"), counts.mean(axis=0).T, strict=True):
            run.record(**{f"{name}_{when}_{d}": float(means[d - 1]) for d in depths})
            series.append(Series(f"{name}, {when} training", depths, means, "other", "points"))
        run.figure(f"{name}_regions", _partition_figure([after for _, _, after, _ in rows[0]]))
    deepest, shallow = (np.array([len(row[d][2]) for row in table["moons"]]) for d in (-1, 0))
    run.record(
        over_the_bound=float(over), deepest_to_shallow=float((deepest / shallow).mean()),
        deepest_has_as_many=float((deepest >= shallow).sum()),
    )
    nets = [one[0] for row in table["moons"] for one in row]
    far = [net(1e4 * F.normalize(test[0])).softmax(dim=1).amax(dim=1) >= 0.999 for net in nets]
    run.record(far_certain=float(torch.cat(far).double().mean()))
    run.figure("counts", figures.draw(Picture(tuple(series), "hidden layers", "regions")))
    run.figure("confidence", _confidence_figure(nets[layers - 1]))
    run.keep(nets[layers - 1])


def _need_units(owner: str, n: int, m: int) -> None:
    if m < n:
        hint = "Each coordinate needs a unit that folds it."
        raise refuse(owner, "m", f"at least n = {n}", m, hint)


def _need_room(owner: str, found: int, most: int) -> None:
    if found > most:
        hint = "Take a smaller part of the input, or raise most."
        raise refuse(owner, "net", f"of at most {most} regions", f"{found} or more", hint)


def _folded(
    cut: tuple[Tensor, Tensor], join: tuple[Tensor, Tensor], last: tuple[Tensor, Tensor], L: int
) -> MLP:
    """Chain L - 1 folds, each a layer `cut` and an affine map `join`, and a layer `last`."""
    n, m = join[0].shape
    first, *rest = [cut] * (L - 1) + [last]
    pairs = [first, *((W @ join[0], W @ join[1] + b) for W, b in rest)]
    pairs.append((torch.ones(1, m), torch.zeros(1)))
    net = MLP((n, *[m] * L, 1), rng=torch.Generator()).double()
    for layer, (W, b) in zip(net.layers, pairs, strict=True):
        layer.load_state_dict({"weight": W, "bias": b})
    return net


def _crossing(n: int, m: int) -> tuple[Tensor, Tensor]:
    """Make m generic hyperplanes with all crossings, symmetric functions of t, in the unit cube."""
    t, j = torch.linspace(-1, 1, m).double()[:, None], torch.arange(n)
    W = t**j * torch.tensor([2.5 * math.comb(n, i) for i in range(n)]).double()
    return W, t[:, 0] ** n - W.sum(dim=1) / 2


def _watched(owner: str, net: nn.Module, x: Tensor) -> list[tuple[nn.Module, Tensor, Tensor]]:
    """List the modules in the order in which they are called, with what they get and give."""
    seen: list[tuple[nn.Module, Tensor, Tensor]] = []

    def note(module: nn.Module, given: Any, out: Any) -> None:
        seen.append((module, given[0], out))

    hooks = [
        one.register_forward_hook(note) for one in net.modules() if not list(one.children())
    ]
    try:
        out = net(x)
    finally:
        for hook in hooks:
            hook.remove()
    strange = [type(one).__name__ for one, _, _ in seen if not isinstance(one, AFFINE + BENT)]
    if strange or not any(isinstance(one, BENT) for one, _, _ in seen):
        hint = "Other activations have no finite number of linear regions, or no pattern of signs."
        domain = "of linear layers and ReLU, leaky ReLU or AVU modules"
        raise refuse(owner, "net", domain, strange[0] if strange else "no such activation", hint)
    return [*seen, (nn.Identity(), out, out)]


def _layers(owner: str, net: nn.Module, n: int) -> list[Layer]:
    """Read weights, biases and slopes below 0 off a chain of modules; without a bend it is 1."""
    x = torch.zeros(1, n, dtype=next(net.parameters()).dtype)
    layers: list[Layer] = []
    for module, field, out in _watched(owner, net, x):
        if field is not x or not isinstance(module, (nn.Linear, nn.Identity, *BENT)):
            got = f"a step before or in {type(module).__name__} that is none"
            raise refuse(owner, "net", "a chain of linear layers and activations", got)
        x, width = out, out.shape[1]
        if isinstance(module, nn.Linear):
            bias = torch.zeros(width) if module.bias is None else module.bias
            layers.append((module.weight.double(), bias.double(), 1.0))
        elif isinstance(module, BENT):
            # where no linear layer is before it, an identity is
            bent = not layers or layers[-1][2] != 1
            eye = torch.eye(width).double(), torch.zeros(width).double(), 1.0
            W, b, _ = eye if bent else layers.pop()
            layers.append((W, b, -float(module(torch.tensor([-1.0])))))
    return layers


def _bent(z: Tensor, bend: float) -> Tensor:
    return z.where(z > 0, bend * z)


def _clean(z: Tensor, terms: Tensor) -> Tensor:
    """Set fields to 0 that are nothing but the rounding of their terms."""
    return z.where(z.abs() > TOUCHING * terms, 0)


def _cut(
    corners: Float[Tensor, "P K 2"], z: Float[Tensor, "P K"]
) -> tuple[Float[Tensor, "Q J 2"], Any, Bool[Tensor, " Q"]]:
    """Cut polygons along z = 0; give the pieces, whose piece each is, and whether z > 0 on it."""
    above, below = z.amax(dim=1) > 0, z.amin(dim=1) < 0
    split, whole = (above & below).nonzero()[:, 0], (~(above & below)).nonzero()[:, 0]
    here, z = corners[split], z[split]
    ahead, z_ahead = here.roll(-1, 1), z.roll(-1, 1)
    crossed = z * z_ahead < 0
    share = (z / (z - z_ahead)).where(crossed, 0)
    places = torch.stack([here, here + share[..., None] * (ahead - here)], dim=2).flatten(1, 2)
    fresh = F.pad((here.diff(dim=1) != 0).any(dim=-1), (1, 0), value=True)  # no repeated corner
    pieces = [corners[whole]]
    for side in (1, -1):
        kept = torch.stack([fresh & (side * z >= 0), crossed], dim=2).flatten(1)
        number = kept.sum(dim=1, keepdim=True)
        order = kept.int().argsort(dim=1, descending=True, stable=True)
        width = int(number.max()) if len(split) else 1
        order = order.gather(1, torch.arange(width).minimum(number - 1))
        pieces.append(places.gather(1, order[..., None].expand(-1, -1, 2)))
    width = max(piece.shape[1] for piece in pieces if len(piece))
    corners = torch.cat([
        torch.cat([piece, piece[:, -1:].expand(-1, max(0, width - piece.shape[1]), -1)], dim=1)
        for piece in pieces if len(piece)
    ])
    on = torch.cat([above[whole], torch.ones_like(split).bool(), torch.zeros_like(split).bool()])
    return corners, torch.cat([whole, split, split]), on


def _planes(seed: Seed, m: int, n: int) -> tuple[Tensor, Tensor]:
    """Draw m Gaussian hyperplanes of n dimensions."""
    drawn = torch.randn(m, n + 1, generator=seed.torch(), dtype=torch.float64)
    return drawn[:, :-1], drawn[:, -1]


def _random_network(seed: Seed, sizes: tuple[int, ...], activation: str = "relu") -> MLP:
    rng = seed.torch()
    return _redrawn(MLP(sizes, activation=activation, rng=rng).double(), rng)


def _redrawn(net: MLP, rng: torch.Generator) -> MLP:
    """Give a network He's weights, and biases of variance 1."""
    for layer in net.layers:
        nn.init.normal_(layer.weight, 0, (2 / layer.in_features) ** 0.5, generator=rng)
        nn.init.normal_(layer.bias, 0, 1, generator=rng)
    return net


def _network(seed: Seed, weights: Weights, n: int, m: int, L: int) -> MLP:
    if weights == "folding":
        return folding_network(n, m, L)
    return _random_network(seed, (n, *[m] * L, 1))


def _pieces(net: MLP) -> int:
    """Count regions on the line, but for corners beyond 1000."""
    return len(regions_1d(net, -1000, 1000)) - 1


def _trained(
    run: Run, name: str, units: int, depth: int, train: Any, test: Any, box: tuple[float, ...],
    plane: Tensor | None = None,
) -> tuple[MLP, int, Regions, float]:
    """Train a network; give it with its regions before, how many, and after, and its accuracy."""
    seed, (x, y) = run.seed.child(name), train
    net = MLP((x.shape[1], *[units // depth] * depth, int(y.max()) + 1), rng=seed.torch())
    before, steps = len(regions_2d(net, box, plane=plane)), 600 if plane is None else 1800
    trained = fit(
        net, train, Supervised(F.cross_entropy), torch.optim.Adam(net.parameters(), lr=1e-2),
        steps=steps if run.full else 150, batch_size=100, parts=[OneCycle(2e-2)],
        validation=test, metrics={"accuracy": accuracy}, seed=seed, run=run, name=name,
    )
    after = regions_2d(net, box, plane=plane)
    return net, before, after, trained.history[-1]["validation_accuracy"]


def _partition_figure(partitions: list[Regions]) -> go.Figure:
    """Draw polygons, colored by the class that wins in them, with a slider for the depth."""
    figure, owners = go.Figure(), []
    for depth, found in enumerate(partitions, start=1):
        scores = (found.weight @ found.centers[..., None])[..., 0] + found.bias
        groups = 3 * scores.argmax(dim=1) + torch.arange(len(found)) % 3  # three shades a class
        for group in groups.unique().tolist():
            rings = F.pad(found.corners[groups == group], (0, 0, 0, 1), value=math.nan)
            x, y = rings.flatten(0, 1).round(decimals=3).T.tolist()
            color = figures.OTHERS[group // 3 % len(figures.OTHERS)]
            figure.add_scatter(
                x=x, y=y, fill="toself", fillcolor=color, opacity=0.3 + 0.2 * (group % 3),
                mode="lines", line={"color": "white", "width": 0.5}, visible=depth == 1,
                hoverinfo="skip", showlegend=False,
            )
            owners.append(depth)
    steps = [
        {"method": "update", "label": f"{depth}: {len(found)} regions",
         "args": [{"visible": [owner == depth for owner in owners]}]}
        for depth, found in enumerate(partitions, start=1)
    ]
    slider = {"steps": steps, "currentvalue": {"prefix": "hidden layers "}}
    figure.update_layout(sliders=[slider], template="plotly_white", height=560)
    return figure.update_yaxes(scaleanchor="x")


def _confidence_figure(net: MLP) -> go.Figure:
    """Draw the softmax probability of the class that wins, far beyond the data."""
    axis = torch.linspace(-30, 30, 121)
    grid = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), dim=-1)
    with torch.no_grad():
        sure = net(grid).softmax(dim=-1).amax(dim=-1)
    heat = go.Heatmap(x=axis.tolist(), y=axis.tolist(), z=sure.numpy().round(4).tolist(), zmin=0.5)
    return go.Figure(heat).update_yaxes(scaleanchor="x").update_layout(template="plotly_white")

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
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from principia.connectionism.cover import MOST_SIGNS, dichotomies
from principia.lab.params import PositiveInt, checked, usage_error
from principia.networks.activations import AVU
from principia.networks.mlp import MLP

Layer = tuple[Tensor, Tensor, float]  # weight, bias, and slope of the activation below 0
AFFINE = (nn.Linear, nn.Identity, nn.Flatten, nn.Conv1d, nn.Conv2d)
BENT = (nn.ReLU, nn.LeakyReLU, AVU)  # affine on both sides of 0
MOST_CELLS = 1_000_000
TOUCHING = 1e-10  # a field below this part of its terms is 0 up to rounding


@checked
def zaslavsky(m: PositiveInt, n: PositiveInt) -> int:
    r"""Counts the cells of m hyperplanes of $\mathbb R^n$ in general position, exactly.

    Example:
        >>> zaslavsky(3, 2), zaslavsky(6, 3), zaslavsky(4, 10)
        (7, 42, 16)
    """
    return sum(math.comb(m, i) for i in range(min(m, n) + 1))


@checked
def montufar_bound(n: PositiveInt, m: PositiveInt, L: PositiveInt) -> int:
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


def _need_units(owner: str, n: int, m: int) -> None:
    if m < n:
        hint = "Each coordinate needs a unit that folds it."
        raise usage_error(owner, "m", f"at least n = {n}", m, hint)


@checked
def folding_network(n: PositiveInt, m: PositiveInt, L: PositiveInt) -> MLP:
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
    return folded((spread, shift), (join, torch.zeros(n).double()), crossing_planes(n, m), L)


def folded(
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


def crossing_planes(n: int, m: int) -> tuple[Tensor, Tensor]:
    """Make m generic hyperplanes with all crossings, symmetric functions of t, in the unit cube."""
    t, j = torch.linspace(-1, 1, m).double()[:, None], torch.arange(n)
    W = t**j * torch.tensor([2.5 * math.comb(n, i) for i in range(n)]).double()
    return W, t[:, 0] ** n - W.sum(dim=1) / 2


@checked
def arrangement_cells(
    W: Float[Tensor, "m n"], b: Float[Tensor, " m"], *, most: PositiveInt = MOST_CELLS
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
        raise usage_error("arrangement_cells", "W", f"of at most {most} cells expected", got, hint)
    if not bool(planes.isfinite().all() & (planes != 0).any(dim=1).all()):
        raise usage_error(
            "arrangement_cells", "W, b", "finite, with no row of zeros", planes.tolist()
        )
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
        raise usage_error(
            owner, "net", domain, strange[0] if strange else "no such activation", hint
        )
    return [*seen, (nn.Identity(), out, out)]


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
    most: PositiveInt = MOST_CELLS,
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
        raise usage_error("regions_1d", "a and b", "finite points of one dimension", (a, b))
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


def _layers(owner: str, net: nn.Module, n: int) -> list[Layer]:
    """Read weights, biases and slopes below 0 off a chain of modules; without a bend it is 1."""
    x = torch.zeros(1, n, dtype=next(net.parameters()).dtype)
    layers: list[Layer] = []
    for module, field, out in _watched(owner, net, x):
        if field is not x or not isinstance(module, (nn.Linear, nn.Identity, *BENT)):
            got = f"a step before or in {type(module).__name__} that is none"
            raise usage_error(owner, "net", "a chain of linear layers and activations", got)
        x, width = out, out.shape[1]
        if isinstance(module, nn.Linear):
            bias = torch.zeros(width) if module.bias is None else module.bias
            layers.append((module.weight.double(), bias.double(), 1.0))
        elif isinstance(module, BENT):
            # where no linear layer is before it, an identity is
            bent = not layers or layers[-1][2] != 1
            eye = torch.eye(width).double(), torch.zeros(width).double(), 1.0
            W, b, _ = eye if bent else layers.pop()
            layers.append((W, b, -float(module(-torch.ones(1).double()))))
    return layers


def _bent(z: Tensor, bend: float) -> Tensor:
    return z.where(z > 0, bend * z)


def _clean(z: Tensor, terms: Tensor) -> Tensor:
    """Set fields to 0 that are nothing but the rounding of their terms."""
    return z.where(z.abs() > TOUCHING * terms, 0)


def _need_room(owner: str, found: int, most: int) -> None:
    if found > most:
        hint = "Take a smaller part of the input, or raise most."
        raise usage_error(owner, "net", f"of at most {most} regions", f"{found} or more", hint)


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
    plane: Float[Tensor, "3 n"] | None = None, most: PositiveInt = MOST_CELLS,
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
        raise usage_error("regions_2d", "box", "left < right and bottom < top", box)
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

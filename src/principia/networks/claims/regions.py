r"""Linear regions: what is true of it, and what would refute it.

Knobs:
    units: Units of a layer, each with its hyperplane.
    width: Units of a hidden layer.
    cells: How many cells are counted; two is the misprint.
    activation: The function of the units; tanh bends everywhere and has no cells.
    inputs: Inputs of the network, the dimension of the space that is cut.
    first: Where the sum of binomials begins; from 1 on it lacks a cell.
    layers: Hidden layers; two fold the space and grow faster.
    position: How the hyperplanes lie; parallel or concurrent ones have fewer cells.
    depth: The most hidden layers that a network has.
    weights: Whether weights fold the space, which makes many regions, or are drawn at random.
    reading: Whether the expression bounds the maximum from below, or wrongly from above.
    nets: Random networks over which regions are averaged.
    classes: Outputs of the network, one a class.
"""

import functools
import math
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor, nn

from principia.connectionism.cover import cover_count
from principia.lab.draws import drawn_anew, randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    tends_to,
)
from principia.lab.params import Range
from principia.lab.pictures import Regions as Polygons
from principia.lab.pictures import Rule
from principia.lab.seeds import Seed
from principia.networks.activations import AVU
from principia.networks.mlp import MLP
from principia.networks.regions import (
    Regions,
    activation_pattern,
    arrangement_cells,
    count_patterns,
    crossing_planes,
    folded,
    folding_network,
    montufar_bound,
    regions_1d,
    regions_2d,
    zaslavsky,
)

Weights = Literal["folding", "random"]
INTEGERS = "integers, compared exactly"
SHAPES = ((1, 6, 4), (2, 5, 1), (2, 7, 3), (3, 3, 2), (3, 8, 2))  # inputs, units, hidden layers


@claim(
    control=[
        Control({"cells": "all off, all on"}, ["patterns"], "two cells"),
        Control({"activation": "tanh"}, ["gradient within a cell", "differences within a cell"],
                "units that bend everywhere"),
    ],
    source="Montúfar, Pascanu, Cho and Bengio 2014",
    misprint=r"only two cells, $X_0$ where all units are off and $X_1$ where all are on",
)
def affine_on_cells(
    seed: Seed, *, units: Annotated[int, Range(2, 9)] = 4, width: Annotated[int, Range(2, 12)] = 6,
    cells: Literal["one a pattern", "all off, all on"] = "one a pattern",
    activation: Literal["relu", "tanh"] = "relu",
) -> Evidence:
    r"""A ReLU net is affine on each cell $1\{Wx+b>0\}=\kappa$, and there are up to $2^m$."""
    net, rng = _random_network(seed, (units, units, 1)), seed.child("points").torch()
    layer = net.layers[0]
    wanted = torch.cartesian_prod(*[torch.tensor([False, True])] * units).repeat_interleave(5, 0)
    fields = torch.rand(wanted.shape, generator=rng, dtype=torch.float64) + 0.1
    x = torch.linalg.solve(layer.weight, (fields.where(wanted, -fields) - layer.bias).mT).mT
    x = x.detach().requires_grad_()
    y = _random_network(seed, (units, units, 1), activation)(x)[:, 0]
    (slopes,) = torch.autograd.grad(y.sum(), x)
    first = slopes[::5].repeat_interleave(5, 0)  # of the first of five points in a cell
    rises = (first * (x - x[::5].repeat_interleave(5, 0))).sum(dim=1)
    deep, side = _random_network(seed.child("deep"), (2, width, width, 2)), torch.eye(3, 2)
    chain, plane = drawn_anew(_chain(width), rng), randn(rng, 3, 3)
    found = regions_2d(deep, (-3, 3, -3, 1))
    boxes = [
        _within(deep, found, [width] * 2, rng, side.roll(1, 0)),
        _within(chain, regions_2d(chain, plane=plane), [3, width, width, width + 1], rng, plane),
    ]
    affine, outputs, wrong, areas, repeats = zip(*boxes, strict=True)
    ends = torch.stack([plane[0] - 4 * plane[1], 5 * plane[1]])
    corners = regions_1d(chain, *ends)
    shares = torch.linspace(0, 1, 4, dtype=torch.float64)[:, None, None]
    along = corners[:-1] + shares * corners.diff(dim=0)  # four places of each piece, with its ends
    within = [torch.cat(activation_pattern(chain, one), dim=1) for one in along[1:3]]
    return every({
        "patterns": equal(
            count_patterns(net, x), 2**units if cells == "one a pattern" else 2, tol=0, why=INTEGERS
        ),
        "gradient within a cell": equal_to_rounding(slopes, first),
        "differences within a cell": equal_to_rounding(y, y[::5].repeat_interleave(5) + rises),
        "layers are affine on polygons": equal_to_rounding(
            torch.cat(outputs), torch.cat(affine)
        ).drawn(Polygons([*found.corners], found.pattern.sum(dim=1).tolist()), x="x₁", y="x₂"),
        "patterns of the polygons": never(np.concatenate(wrong), why="a definition"),
        "one polygon a pattern": never(repeats, why="cells are convex: integers"),
        "the polygons fill the box": equal_to_rounding(areas, [24.0, 4.0]),
        "the network is left as it was": never(
            [bool(one._forward_hooks) for one in chain.modules()], why="no hook stays behind"),
        "on a hyperplane a unit is off": equal(
            activation_pattern(nn.ReLU(), torch.tensor([[-1.0, 0.0, 1.0]]))[0], 0b00100000, tol=0,
            why="a definition"),
        "pieces of a line": every({
            "affine": equal_to_rounding(chain(along).diff(n=2, dim=0), 0),
            "ends": equal_to_rounding(corners[[0, -1]], ends),
            "one pattern": equal(within[0], within[1], tol=0, why="a definition"),
            "another one behind a corner": never(
                (within[0][1:] == within[0][:-1]).all(dim=1), why="a definition"),
        }),
    })


def _chain(width: int) -> nn.Module:
    """Make a chain of all layers that a cell can be cut by: some without bias, two in a row."""
    linear = functools.partial(nn.utils.skip_init, nn.Linear)
    return nn.Sequential(
        AVU(), linear(3, width), nn.LeakyReLU(0.2), AVU(), nn.Identity(),
        linear(width, 4, bias=False), linear(4, width + 1), nn.ReLU(), linear(width + 1, 2),
    )


def _within(
    net: nn.Module, found: Regions, widths: list[int], rng: torch.Generator, plane: Tensor
) -> tuple[Tensor, Tensor, np.ndarray, float, bool]:
    """Draw a point in each polygon: outputs there, twice, wrong units, the area, and repeats."""
    weights = torch.rand(found.corners.shape[:2], generator=rng, dtype=torch.float64)
    inside = (weights[..., None] * found.corners).sum(dim=1) / weights.sum(dim=1, keepdim=True)
    affine = (found.weight @ inside[..., None])[..., 0] + found.bias
    x, center = (plane[0].double() + one @ (plane[1:] - plane[0]).double()
                 for one in (inside, found.centers))
    seen = [np.unpackbits(one.numpy(), axis=1, count=width)
            for one, width in zip(activation_pattern(net, center), widths, strict=True)]
    wrong = np.concatenate(seen, axis=1) != found.pattern.numpy()
    repeats = len(found.pattern.unique(dim=0)) != len(found)
    return affine, net(x).detach(), wrong.ravel(), float(found.areas.sum()), repeats


def _random_network(seed: Seed, sizes: tuple[int, ...], activation: str = "relu") -> MLP:
    rng = seed.torch()
    return _redrawn(MLP(sizes, activation=activation, rng=rng).double(), rng)


def _redrawn(net: MLP, rng: torch.Generator) -> MLP:
    """Give a network He's weights, and biases of variance 1."""
    for layer in net.layers:
        nn.init.normal_(layer.weight, 0, (2 / layer.in_features) ** 0.5, generator=rng)
        nn.init.normal_(layer.bias, 0, 1, generator=rng)
    return net


@claim(control={"first": 1}, source="Zaslavsky 1975; Schläfli 1852")
def zaslavsky_claim(
    seed: Seed, *, units: Annotated[int, Range(1, 12)] = 8, inputs: Annotated[int, Range(1, 4)] = 2,
    first: Annotated[int, Range(0, 1)] = 0,
) -> Evidence:
    r"""$m$ generic hyperplanes of $\mathbb R^n$ have $\sum_{i=0}^{\min(n,m)}\binom mi$ cells."""
    cases = [(3, 2), (4, 2), (5, 2), (6, 3), (units, inputs)]
    planes = [_planes(seed.child(case), *case) for case in cases]
    formula = [sum(math.comb(m, i) for i in range(first, min(m, n) + 1)) for m, n in cases]
    shallow = [len(_polygons(*one)[0]) for one in planes[:3]]
    cells = [len(arrangement_cells(*one)) for one in planes]
    names = [f"m = {m}, n = {n}" for m, n in cases]
    return every({
        "cells": equal(cells, formula, tol=0, why=INTEGERS).drawn(
            Series("cells", names, cells, style="bars"),
            Series(f"sum from i = {first}", names, formula, "predicted", "points"),
            x="hyperplanes", y="cells",
        ),
        "zaslavsky": equal([zaslavsky(*case) for case in cases], formula, tol=0, why=INTEGERS),
        "polygons": equal(shallow, formula[:3], tol=0, why=INTEGERS),
    })


def _planes(seed: Seed, m: int, n: int) -> tuple[Tensor, Tensor]:
    """Draw m Gaussian hyperplanes of n dimensions."""
    drawn = torch.randn(m, n + 1, generator=seed.torch(), dtype=torch.float64)
    return drawn[:, :-1], drawn[:, -1]


def _polygons(W: Tensor, b: Tensor) -> tuple[Regions, float]:
    """Cut a square beyond all crossings by lines, none of them parallel; give its area, too."""
    net = MLP((2, len(W), 1), rng=torch.Generator()).double()
    net.layers[0].load_state_dict({"weight": W, "bias": b})
    pairs = torch.combinations(torch.arange(len(W)))
    far = 1 + 2 * float(torch.linalg.solve(W[pairs], -b[pairs]).abs().max())
    return regions_2d(net, (-far, far, -far, far)), 4 * far**2


@claim(
    control=[Control({"layers": 2}, ["growth"], "two layers, of which the first folds")],
    source="Zaslavsky 1975",
)
def shallow_growth(
    seed: Seed, *, inputs: Annotated[int, Range(1, 6)] = 3, layers: Annotated[int, Range(1, 3)] = 1
) -> Evidence:
    r"""One layer has all $2^m$ cells up to $m=n$ units, then only $O(m^n)$."""
    few = range(1, inputs + 1)
    found = [len(arrangement_cells(*_planes(seed.child(m), m, inputs))) for m in few]
    many = [2**k for k in range(2 + inputs, 20)]
    counts = [[montufar_bound(inputs, k * m, layers) for k in (1, 2)] for m in many]
    exponents = [math.log2(two / one) for one, two in counts]
    return every({
        "growth": tends_to(
            many, exponents, inputs, tol=1e-3,
            why="R(m) = m^n / n! (1 + O(n² / m)), and m is half a million at last",
            labels=("units m", "exponent between m and 2m"),
        ),
        "up to m = n": equal(found, [2**m for m in few], tol=0, why=INTEGERS),
        "at m = n + 1": equal(
            len(arrangement_cells(*_planes(seed, inputs + 1, inputs))), 2 ** (inputs + 1) - 1,
            tol=0, why=INTEGERS),
    })


@claim(control={"position": "two parallel"}, refutes=["generic"], source="Zaslavsky 1975")
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
    W, b = _planes(seed.child("lines"), m, 2)
    b[:3] = -W[:3].sum(dim=1)
    found, area = _polygons(W, b)
    either = torch.cat([arrangement_cells(W, b), found.pattern]).unique(dim=0)
    return every({
        **{one: equal(counts[one], expected[one], tol=0, why=INTEGERS).drawn(
            Series("cells", list(counts), list(counts.values()), style="bars"),
            Series("formula", list(counts), list(expected.values()), "predicted", "points"),
            Series("R(m)", list(counts), [zaslavsky(m, n)] * 4, "bound"),
            x="how hyperplanes lie", y="cells") for one in expected},
        "fewer": at_most(fewer, expected["generic"] - 1, why=INTEGERS),
        "polygons": equal(len(found), zaslavsky(m, 2) - 1, tol=0, why=INTEGERS),
        "polygons fill the box": equal_to_rounding(found.areas.sum(), area),
        "polygons or cells": equal(
            len(either), zaslavsky(m, 2) - 1, tol=0, why="the same patterns"),
    })


@claim(
    control={"weights": "random"},
    refutes=["one input", "two inputs", "folds counted by hand"], source="Montúfar et al. 2014",
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
    flat, polygons, large = [(4, 2), (5, 2), (6, 3)], [], []
    for m, L in flat:
        net = _network(seed.child((2, m, L)), weights, 2, m, L)
        large += [montufar_bound(2, m, L)] * 2
        polygons.append(regions_2d(net, (-1, 2, -1, 2)))
        for one, factor in zip(net.parameters(), (-1e5, 1e5, 1e-5), strict=False):
            one.data *= factor
        polygons.append(regions_2d(net, (-2, 1, -2, 1)))  # its mirror image, with other scales
    formula = [zaslavsky(m, n) * (m // n) ** (n * (L - 1)) for n, m, L in SHAPES]
    # of an even number of folds the last one leads below 0, which later layers see once
    exact = [m ** (L - 1) * (m + 1) + 1 + (m % 2 == 0 and L > 2) for m, L in cases]
    deep, (line, bias) = range(2, depth + 1), crossing_planes(1, 5)
    return every({
        "one input": at_least(counts, bounds, why=INTEGERS).drawn(
            Series(f"{units} units a layer", deep, counts[-len(deep):]),
            Series("bound", deep, bounds[-len(deep):], role="bound"),
            x="hidden layers L", y="regions", log="y",
        ),
        "two inputs": at_least([len(one) for one in polygons], large, why=INTEGERS),
        "montufar_bound": equal(
            [montufar_bound(*one) for one in SHAPES], formula, tol=0, why=INTEGERS),
        "the polygons fill the box": equal_to_rounding([one.areas.sum() for one in polygons], 9),
        "crossings on a line": equal_to_rounding(
            -bias / line[:, 0], torch.linspace(0.9, 0.1, 5, dtype=torch.float64)),
        "zigzag": _folded_outputs(seed.child("x")),
        "smallest area": at_least(
            [float(one.areas.min()) for one in polygons], 1e-6,
            why="the cells of 3-fold folds have 6e-5 or more; what is smaller is rounding",
        ),
        "folds counted by hand": equal(counts, exact, tol=0, why=INTEGERS),
    })


def _folded_outputs(seed: Seed) -> Evidence:
    """Compare folding networks with zigzags, and hyperplanes behind them."""
    found, exact = [], []
    for n, m in ((1, 3), (2, 5), (3, 4)):
        net = folding_network(n, m, 2)
        x = torch.rand(100, n, generator=seed.torch(), dtype=torch.float64)
        t = x * torch.tensor([len(one) for one in torch.arange(m).tensor_split(n)])
        W, b = crossing_planes(n, m)
        found.append(net(x)[:, 0])
        exact.append(((1 - (t % 2 - 1).abs()) @ W.mT + b).relu().sum(dim=1))  # up, down, up, ...
    return equal_to_rounding(torch.cat(found), torch.cat(exact))


def _network(seed: Seed, weights: Weights, n: int, m: int, L: int) -> MLP:
    if weights == "folding":
        return folding_network(n, m, L)
    return _random_network(seed, (n, *[m] * L, 1))


def _pieces(net: MLP) -> int:
    """Count regions on the line, but for corners beyond 1000."""
    return len(regions_1d(net, -1000, 1000)) - 1


@claim(
    control={"reading": "at most"},
    refutes=["two units"],
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
    most = [_pieces(folded(cut, join, crossing_planes(1, 3), L)) for L in deep]
    return every({
        "two units": exceeded.drawn(
            Series("folding network", deep, counts),
            Series("expression", deep, powers, role="bound"),
            x="hidden layers L", y="regions", log="y",
        ),
        "three units have 4^L, no constant times 3^L": equal(
            most, [4**L for L in deep], tol=0, why=INTEGERS),
    })


@claim(
    control={"weights": "random"},
    refutes=["deep", "the ratio grows"],
    source="Montúfar, Pascanu, Cho and Bengio 2014",
)
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
            counts[-1] / counts[-2], units - 0.5, why="m folds a layer, up to the last piece"),
    })


@claim(control={"weights": "folding"}, source="Hanin and Rolnick 2019, Complexity")
def random_nets(
    seed: Seed, *, nets: Annotated[int, Range(30, 100)] = 30,
    weights: Literal["random", "folding"] = "random",
) -> Evidence:
    r"""With random weights the pieces along a line are about as many as the units, at any depth."""
    widths = (6, 16, 32) if weights == "random" else (6,)  # 32 units would fold a million times
    cases = [(m, L) for m in widths for L in range(1, 5)]
    counts, noise = [], []
    for m, L in cases:
        net, rng = _network(seed, weights, 1, m, L), seed.child((m, L)).torch()
        draws = range(nets if weights == "random" else 0)
        each = [_pieces(_redrawn(net, rng)) for _ in draws] or [_pieces(net)]
        counts.append(np.mean(each))
        noise.append(np.std(each) / (len(each) ** 0.5 * m * L))
    neurons = [m * L for m, L in cases]
    return equal(
        (np.array(counts) - 1) / neurons, 1, tol=0.1 + 5 * np.array(noise),
        why="a tenth, for what `about` means, and 5 standard errors of a mean over networks",
    ).named("corners for each unit").drawn(
        Series("regions", neurons, counts),
        Series("as many as units", [6, max(neurons)], [6, max(neurons)], role="predicted"),
        x="units of all layers", y="regions on a line", log="xy")


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
    sizes = torch.logspace(-3, 4, 40, dtype=torch.float64)
    beams = randn(rng, 5, 1, inputs) * sizes[:, None]  # (5, 40, inputs)
    sure = net(beams).softmax(dim=-1).amax(dim=-1)
    why = "all but the rays along which two classes rise equally fast"
    confident = at_least(torch.cat(certain).double().mean(), 0.95, why=why).drawn(
        *(Series(f"ray {k}", sizes, one, "other") for k, one in enumerate(sure, start=1)),
        Rule("certain", y=0.999), x="distance from 0", y="probability of the class that wins",
        log="x",
    )
    if activation == "tanh":
        return every({"confidence at 10^4": confident})
    return every({
        "confidence at 10^4": confident,
        "beyond the last corner": equal(straight, 0, tol=1e-9, why="rounding of four differences"),
    })

r"""Multilayer perceptron: what is true of it, and what would refute it.

Knobs:
    networks: Random networks whose parameters are counted.
    depth: Layers of weights of a network.
    widest: The largest width that a layer may have.
    bias_in: Whether biases are counted by outputs, or wrongly by inputs.
    width: Units of a hidden layer.
    activation: The function of the hidden units.
    order: Which part comes first; in the other order it is another function.
    p: The chance that a unit is dropped.
    dim: Inputs of the function.
    bias: Whether layers have biases; with them the function is not linear.
    perturbations: Points that are looked at, each with a step away from it.
    level: The value $c$ whose level set is looked for.
    tilt: Degrees by which steps leave the plane across $w$; then the value changes.
    angle: Degrees by which steps leave the tangent; then the change is of first order.
    few: Hidden units of a small network, of which all orders are tried.
    outgoing: Whether outgoing weights move with their units; if not, the function changes.
    c: The factor by which a unit's field is scaled.
    odd: The function whose units change sign; ReLU is not odd and breaks it.
    homogeneous: The function whose units are scaled.
    alpha: The share of its outgoing weights that a split unit keeps.
    shift: By how much a unit without weights moves the outputs: half of $\nu$ behind a sigmoid.
    batch: Inputs that a layer sees at once.
    largest: The largest width that is counted.
    inputs: Whether a layer has many inputs; with one the product no longer dominates.
"""

import itertools
import math
from typing import Annotated, Any, Literal

import torch
from scipy import stats
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from principia.lab.draws import drawn_anew, randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    follows,
    never,
    slope,
)
from principia.lab.params import MADE_WITH, Range
from principia.lab.pictures import side_by_side
from principia.lab.seeds import Seed
from principia.lab.training import seeded_generators
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import (
    MLP,
    ActivationName,
    as_linear_functional,
    flip_signs,
    hidden_weights,
    level_set_points,
    permute_hidden,
    rebuilt_with,
    rescale_unit,
    ridge,
    widen,
    with_scaled_units,
)

Dim = Annotated[int, Range(2, 50)]
Width = Annotated[int, Range(2, 200)]
Depth = Annotated[int, Range(2, 8)]


@claim(
    control={"bias_in": "R^n"}, refutes=["numbers of a layer"], source="by definition",
    misprint=r"$b\in\mathbb R^n$, as many biases as inputs",
)
def parameter_count(
    seed: Seed, *, networks: Annotated[int, Range(1, 200)] = 30, depth: Depth = 3,
    widest: Annotated[int, Range(10, 300)] = 60, bias_in: Literal["R^m", "R^n"] = "R^m",
) -> Evidence:
    r"""A layer from width $n$ to $m$ has $m(n+1)$ parameters, for its bias is in $\mathbb R^m$."""
    rng, layers = seed.torch(), []
    for _ in range(networks):
        sizes = torch.randperm(widest, generator=rng)[: depth + 1] + 1  # no two are equal
        layers += MLP(sizes.tolist(), rng=rng).layers
    # in front of batch normalization a bias would have no effect
    others = {"without bias": {"bias": False}, "layer norm": {"norm": nn.LayerNorm},
              "batch norm": {"norm": nn.BatchNorm1d},
              "batch norm, no bias": {"norm": nn.BatchNorm1d, "bias": False}}
    has = {name: [one.bias is not None for one in MLP((5, 4, 3, 2), rng=rng, **options).layers]
           for name, options in others.items()}
    widths = torch.tensor([[one.in_features, one.out_features] for one in layers])
    counts = [sum(part.numel() for part in one.parameters()) for one in layers]
    biases = widths[:, 1] if bias_in == "R^m" else widths[:, 0]
    return every({
        "numbers of a layer": equal(
            counts, widths.prod(dim=1) + biases, tol=0, why="a count",
            detail=f"{len(layers)} layers",
        ).drawn(
            Series("parameters but for m n", widths[:, 1], torch.tensor(counts) - widths.prod(1)),
            Series(f"bias in {bias_in}", widths[:, 1], biases, "predicted", "points"),
            x="outputs m of a layer", y="parameters that are no weights",
        ),
        "layers with a bias": equal(
            [*has.values()], [[0, 0, 0], [1, 1, 1], [0, 0, 1], [0, 0, 0]], tol=0, why="a count"),
    })


@claim(
    control={"order": "last first"}, refutes=["network", "hooks", "activations"],
    source="by definition",
)
def composition(
    seed: Seed, *, depth: Depth = 3, width: Width = 20, activation: ActivationName = "tanh",
    order: Literal["first first", "last first"] = "first first",
) -> Evidence:
    r"""The network is $F^L\circ\dots\circ F^1$, and hooks on its parts see every $x^l$."""
    rng, seen = seed.torch(), []
    mlp = MLP([width] * (depth + 1), activation=activation, out_activation="sigmoid", rng=rng)
    mlp, x = mlp.double(), randn(rng, 3, 50, width)
    functions = [ACTIVATIONS[activation].module()] * (depth - 1) + [torch.sigmoid]
    pairs = list(zip(mlp.layers, functions, strict=True))
    explicit = [x]
    for layer, phi in pairs if order == "first first" else pairs[::-1]:
        W, b = layer.weight, layer.bias
        explicit.append(phi(torch.einsum("mn,...n->...m", W, explicit[-1]) + b))
    for part in (mlp.phi, mlp.out_phi):
        part.register_forward_hook(lambda module, inputs, output: seen.append(output))
    output, hooked = mlp(x), torch.stack(seen)
    return every({
        "network": equal_to_rounding(output, explicit[-1]),
        "hooks": equal_to_rounding(hooked, torch.stack(explicit[1:])),
        "activations": equal_to_rounding(torch.stack(mlp.activations(x)), torch.stack(explicit)),
        **_as_made(rng),
    })


def _as_made(rng: torch.Generator) -> dict[str, Evidence]:
    """Compare a network of which only the widths were said with torch's, and look at its draws."""
    plain = MLP((3, 7, 5, 2), rng=rng).double()
    linear = [nn.utils.skip_init(nn.Linear, *pair) for pair in ((3, 7), (7, 5), (5, 2))]
    chain = nn.Sequential(linear[0], nn.ReLU(), linear[1], nn.ReLU(), linear[2])
    chain.double().load_state_dict(
        dict(zip(chain.state_dict(), plain.state_dict().values(), strict=True)))
    x, wide = randn(rng, 4, 6, 3), MLP((30, 200, 2), rng=rng)
    drawn = [torch.cat([one.weight.flatten(), one.bias]) for one in wide.layers]
    return {
        "torch's chain": equal_to_rounding(plain(x), chain(x)),
        "weights as drawn": follows(
            torch.cat([drawn[0] * 30**0.5, drawn[1] * 200**0.5]), stats.uniform(-1, 2),
            why="uniform between ±1/√n, independent"),
        "widths": equal(wide.sizes, [30, 200, 2], tol=0, why="as they were given"),
    }


@claim(
    control={"order": "norm behind φ"},
    refutes=["layer norm, training", "batch norm, training"],
    source="Ioffe and Szegedy 2015, sec. 3.2; Srivastava et al. 2014, sec. 4",
)
def parts_in_order(
    seed: Seed, *, depth: Depth = 3, width: Width = 20, activation: ActivationName = "tanh",
    p: Annotated[float, Range(0.05, 0.9)] = 0.5,
    order: Literal["norm before φ", "norm behind φ"] = "norm before φ",
) -> Evidence:
    r"""A hidden layer is $\mathrm{drop}(\varphi(\mathrm{norm}(Wx+b)))$, with the parts it has."""
    rng, phi, parts = seed.torch(), ACTIVATIONS[activation].module(), {}
    x = randn(rng, 3, 50, width)  # all axes but the last are samples
    for name, norm, axes in (("layer", nn.LayerNorm, -1), ("batch", nn.BatchNorm1d, (0, 1))):
        sizes = [width] * depth + [4]
        mlp = drawn_anew(MLP(sizes, activation=activation, norm=norm, dropout=p, rng=rng), rng)
        with seeded_generators(seed, x.device):  # the masks of a training step
            output = mlp(x)
        *hidden, last = mlp.layers
        with seeded_generators(seed, x.device):
            h = x
            its: Any
            for layer, its in zip(hidden, mlp.norms, strict=True):
                z = layer(h) if order == "norm before φ" else phi(layer(h))
                variance, mean = torch.var_mean(z, axes, correction=0, keepdim=True)
                z = (z - mean) / (its.eps + variance).sqrt() * its.weight + its.bias
                h = functional.dropout(phi(z) if order == "norm before φ" else z, p)
            told = last(h)
            parts[f"{name} norm, training"] = equal_to_rounding(output, told).drawn(
                Series("network", range(1, 51), output[0, :, 0]),
                Series(f"by hand, {order}", range(1, 51), told[0, :, 0], "predicted"),
                x="input of a batch", y="first output",
            )
    plain = MLP(sizes, activation=activation, dropout=p, rng=rng).double()
    h = x
    for layer in plain.layers[:-1]:
        h = phi(layer(h))
    parts["dropout, evaluation"] = equal_to_rounding(plain.eval()(x), plain.layers[-1](h))
    module = nn.Dropout1d(p)  # drops whole rows, and each layer has a copy of its own
    others = [MLP(sizes, activation=activation, dropout=module, rng=rng) for _ in range(2)]
    drops = [part for one in others for part in one.drops]
    kinds = [isinstance(one, nn.Dropout1d) and one is not module for one in drops]
    same = len(set(map(id, drops))) == len(drops) == 2 * (depth - 1)
    parts["modules that drop"] = never([not one for one in [*kinds, same]], why="copies")
    return every(parts)


@claim(control={"bias": True}, source="Riesz 1907, in finite dimension by the basis")
def linear_functional(
    seed: Seed, *, dim: Dim = 10, width: Width = 30, depth: Depth = 3, bias: bool = False
) -> Evidence:
    r"""$f$ is linear exactly if $f(x)=w^\top x$, with $w_i=f(e_i)$ read off the basis vectors."""
    rng = seed.torch()
    sizes = [dim, *[width] * (depth - 1), 1]
    mlp = MLP(sizes, activation="identity", bias=bias, rng=rng).double()
    w = as_linear_functional(lambda x: mlp(x)[:, 0], dim)
    x, y, a, b = *randn(rng, 2, 1000, dim), *randn(rng, 2, 1000, 1)
    mixed, apart = mlp(a * x + b * y), a * mlp(x) + b * mlp(y)
    t = torch.linspace(-2, 2, 41, dtype=x.dtype)
    ray = t[:, None] * x[0]
    return every({
        "f(x) = w'x": equal_to_rounding(mlp(x)[:, 0], x @ w).drawn(
            Series("f(tx)", t, mlp(ray)[:, 0]), Series("t w'x", t, ray @ w, "predicted"),
            x="t, of inputs t x along a ray", y="output",
        ),
        "f(ax + by) = af(x) + bf(y)": equal_to_rounding(mixed, apart),
    })


@claim(control={"tilt": 30.0}, refutes=["across w"], source="Logan and Shepp 1975")
def ridge_invariance(
    seed: Seed, *, dim: Dim = 10, perturbations: Annotated[int, Range(100, 100_000)] = 10_000,
    level: Annotated[float, Range(-0.95, 0.95)] = 0.5, tilt: Annotated[float, Range(0, 90)] = 0.0,
) -> Evidence:
    r"""$f(x+\delta)=f(x)$ if $\delta\perp w$; $\nabla f\parallel w$; $\{f=c\}$ are hyperplanes."""
    rng = seed.torch()
    w, b = 4 * functional.normalize(randn(rng, dim), dim=0), float(randn(rng, 1))
    x, steps = randn(rng, 2, perturbations, dim)
    unit, tilted = w / w.norm(), math.radians(tilt)
    steps = functional.normalize(steps - (steps @ unit)[:, None] * unit, dim=1)
    moved = x + math.cos(tilted) * steps + math.sin(tilted) * unit
    value, gradient = ridge(x.requires_grad_(), w, b, torch.sin)
    (slopes,) = torch.autograd.grad(value.sum(), x)
    first = math.asin(level)
    turns = 2 * math.pi * torch.arange(-3, 4, dtype=torch.float64)
    fields = torch.cat([first + turns, math.pi - first + turns])  # all z near 0 with sin z = level
    some = moved[:100]
    onto = some + ((fields[:, None] - (some @ w + b)) / (w @ w))[..., None] * w  # (14, 100, dim)
    plane = w.new_tensor([3.0, 4.0])
    found = level_set_points(lambda x: ridge(x, plane, b, torch.sin)[0], level, cells=40)
    circle = level_set_points(lambda x: x.norm(dim=1), 0.505)
    exact = level_set_points(lambda x: x.sum(dim=1), 0.0, low=-2.0, high=2.5, cells=9)
    z = found @ plane + b
    nearest = fields[(z[:, None] - fields).abs().argmin(dim=1)]
    return every({
        "across w": equal_to_rounding(ridge(moved, w, b, torch.sin)[0], value),
        "gradient": equal_to_rounding(gradient, slopes),
        "gradient along w": equal_to_rounding((slopes @ unit)[:, None] * unit, slopes),
        "value on all hyperplanes": equal_to_rounding(ridge(onto, w, b, torch.sin)[0], level),
        "level set in the plane": equal_to_rounding(z, nearest).drawn(
            Series("points of the level set", found[:, 0], found[:, 1]), x="x₁", y="x₂",
        ),
        "radius of a circle": equal_to_rounding(circle.norm(dim=1), 0.505),
        "points of a circle": equal(
            len(circle), 4 * 51, tol=0, why="51 of the 101 lines an axis meet it, twice each"),
        "corners of the grid": equal_to_rounding(exact.sum(dim=1), 0),
        "points of corners": equal(
            len(exact), 2 * 9, tol=0, why="from each of 9 corners two edges lead above the level"),
    })


@claim(control={"angle": 60.0}, refutes=["along tangents"], source="by the chain rule")
def gradient_normal_to_level_set(
    seed: Seed, *, dim: Dim = 5, width: Width = 30, depth: Annotated[int, Range(2, 5)] = 3,
    angle: Annotated[float, Range(0, 90)] = 0.0,
) -> Evidence:
    r"""$\nabla f=0$ or $\nabla f\perp\{f=c\}$: along tangents $f$ changes by $O(\epsilon^2)$."""
    rng, turn = seed.torch(), math.radians(angle)
    mlp = MLP([dim, *[width] * (depth - 1), 1], activation="tanh", rng=rng).double()
    x, v = randn(rng, 2, 500, dim)
    (gradient,) = torch.autograd.grad(mlp(x.requires_grad_()).sum(), x)
    normal = functional.normalize(gradient, dim=1)
    tangent = functional.normalize(v - (v * normal).sum(dim=1, keepdim=True) * normal, dim=1)
    eps = torch.logspace(-3.5, -1.5, 9, dtype=torch.float64)
    steps = eps[:, None, None] * (math.cos(turn) * tangent + math.sin(turn) * normal)
    free = eps[:, None, None] * v
    changes = {
        "along tangents": mlp(x + steps) - mlp(x),
        # f(x) + f(-x) has no gradient at 0: all directions are alike
        "where the gradient is 0": mlp(free) + mlp(-free) - 2 * mlp(0 * v),
    }
    return every({
        name: slope(
            eps, one.square().mean(dim=(1, 2)).sqrt(), 2, tol=0.1,
            why="the terms beyond the square are a share ε of it or less",
            labels=("length ε of the step", "root mean square of the change of f"),
        )
        for name, one in changes.items()
    })


@claim(
    control={"outgoing": "kept"},
    refutes=["function, layer 1", "function, layer 2"],
    source="Hecht-Nielsen 1990",
)
def permutation_symmetry(
    seed: Seed, *, width: Width = 20, depth: Depth = 3, few: Annotated[int, Range(2, 6)] = 4,
    activation: ActivationName = "gelu", outgoing: Literal["permuted", "kept"] = "permuted",
) -> Evidence:
    r"""$F[W,b]=P^{-1}F[PW,Pb]$: $m$ hidden units have $m!$ parameter vectors for one function."""
    rng = seed.torch()
    mlp = MLP([5, *[width] * (depth - 1), 3], activation=activation, rng=rng).double()
    x, cycle, parts = randn(rng, 100, 5), torch.randperm(width, generator=rng), {}
    perm = cycle[cycle.argsort().add(1) % width]  # one long cycle: every unit moves
    for layer in range(1, depth):
        other = permute_hidden(mlp, layer, perm)
        if outgoing == "kept":
            other.layers[layer].weight = mlp.layers[layer].weight
        units = mlp.activations(x)[layer][:, perm]
        parts[f"units of layer {layer}"] = equal_to_rounding(other.activations(x)[layer], units)
        parts[f"function, layer {layer}"] = equal_to_rounding(other(x), mlp(x))
    small = MLP([5, few, 3], activation=activation, rng=rng).double()
    copies = [permute_hidden(small, 1, one) for one in itertools.permutations(range(few))]
    vectors = {tuple(nn.utils.parameters_to_vector(one.parameters()).tolist()) for one in copies}
    outputs = torch.stack([one(x) for one in copies])
    parts["m! parameter vectors"] = equal(len(vectors), math.factorial(few), tol=0, why="a count")
    tables = {"W": small, "PW, the same function": copies[-1]}
    parts["one function"] = equal_to_rounding(outputs, small(x).expand_as(outputs)).pictured(
        side_by_side({name: one.layers[0].weight.detach() for name, one in tables.items()}))
    bare = MLP([5, width, 3], activation=activation, bias=False, rng=rng).double()
    parts["without biases"] = equal_to_rounding(permute_hidden(bare, 1, perm)(x), bare(x))
    return every(parts)


@claim(
    control={"odd": "relu"},
    refutes=["signs, layer 1", "signs, layer 2"],
    source="Sussmann 1992; Neyshabur, Salakhutdinov and Srebro 2015",
)
def sign_and_scale_symmetry(
    seed: Seed, *, width: Width = 20, depth: Depth = 3, c: Annotated[float, Range(0.01, 100)] = 7.0,
    odd: Literal["tanh", "hardtanh", "identity", "relu"] = "tanh",
    homogeneous: Literal["relu", "leaky_relu", "avu", "identity"] = "relu",
) -> Evidence:
    r"""Odd $\varphi$: flip $(w,b,\nu)$; ReLU: $(cw,cb,\nu/c)$, $c>0$; the function is the same."""
    rng, parts, sizes = seed.torch(), {}, [5, *[width] * (depth - 1), 3]
    flipping, scaling = (MLP(sizes, activation=one, rng=rng).double() for one in (odd, homogeneous))
    x, signs = randn(rng, 100, 5), 1 - 2.0 * (torch.arange(width) % 2).roll(1)
    t = torch.linspace(-3, 3, 61, dtype=x.dtype)
    ray = t[:, None] * x[0]
    for layer in range(1, depth):
        # the control is what flip_signs refuses
        flip = flip_signs if odd != "relu" else lambda *given: with_scaled_units("control", *given)
        parts[f"signs, layer {layer}"] = equal_to_rounding(
            flip(flipping, layer, signs)(x), flipping(x)
        )
        scaled = rescale_unit(scaling, layer, width - 1, c)
        seen = {"unit": scaling.activations(ray)[layer][:, -1],
                f"unit, weights times {c:g}": scaled.activations(ray)[layer][:, -1],
                "network": scaling(ray)[:, 0]}
        parts[f"scale, layer {layer}"] = equal_to_rounding(scaled(x), scaling(x)).drawn(
            *(Series(one, t, values, "other") for one, values in seen.items()),
            Series("network with the scaled unit", t, scaled(ray)[:, 0], style="points"),
            x="t, of inputs t x along a ray", y="output",
        )
        before, after = (one.activations(x)[layer][:, -1] for one in (scaling, scaled))
        parts[f"unit, layer {layer}"] = equal_to_rounding(after, c * before)
    return every(parts)


@claim(
    control={"shift": "0"},
    refutes=["sigmoid, w = b = 0"],
    source="Fukumizu and Amari 2000",
    misprint=r"an extra unit with $w=b=0$ leaves the map unchanged, for any $\varphi$",
)
def nesting(
    seed: Seed, *, width: Width = 20, depth: Depth = 3,
    alpha: Annotated[float, Range(-2, 3)] = 0.3, shift: Literal["ν / 2", "0"] = "ν / 2",
) -> Evidence:
    r"""Width $m$ lives in $m+1$: $\nu=0$, a split unit, or $w=b=0$, the last if $\varphi(0)=0$."""
    rng, last = seed.torch(), depth - 1
    sizes, x, parts = [5, *[width] * last, 3], randn(rng, 100, 5), {}
    for name in ("tanh", "relu", "sigmoid"):
        mlp = MLP(sizes, activation=name, rng=rng).double()
        for how in ("zero", "split", "dead")[: 2 if name == "sigmoid" else 3]:
            wider = widen(mlp, last, how, i=width - 1, alpha=alpha, rng=rng)
            parts[f"{name}, {how}"] = equal_to_rounding(wider(x), mlp(x))
            grown = [*sizes[:last], width + 1, 3]
            kept = vars(wider)[MADE_WITH]["sizes"]  # what a kept model is made again with
            parts[f"widths, {name}, {how}"] = equal(
                [wider.sizes, kept], [grown, grown], tol=0, why="a count")
    incoming, outgoing = hidden_weights("nesting", mlp, last)  # of the sigmoid, which is 1/2 at 0
    nu = randn(rng, 3, 1)
    silent = functional.pad(incoming, (0, 0, 0, 1))
    dead = rebuilt_with(mlp, last, silent, torch.hstack([outgoing, nu]))
    predicted = mlp(x) + (nu[:, 0] / 2 if shift == "ν / 2" else 0)
    return every({
        **parts, "sigmoid, w = b = 0": equal_to_rounding(dead(x), predicted),
        "new weights": _new_weights(seed.child("new")),
    })


def _new_weights(seed: Seed) -> Evidence:
    """Look at the weights of units that are added, most of them without a word."""
    rng, mlp = seed.torch(), MLP((4, 9, 16), rng=seed.torch())
    added = [hidden_weights("nesting", widen(mlp, 1, rng=rng), 1) for _ in range(60)]
    dead = [hidden_weights("nesting", widen(mlp, 1, "dead", rng=rng), 1) for _ in range(40)]
    halves = hidden_weights("nesting", widen(mlp, 1, "split"), 1)
    incoming, outgoing = hidden_weights("nesting", mlp, 1)
    new, old = torch.cat([halves[0][[0, -1]], halves[1].mT[[0, -1]]], dim=1), torch.cat(
        [incoming[0], outgoing[:, 0] / 2])
    why = "independent draws, uniform between ±1/√n"
    return every({
        "into it": follows(
            torch.stack([one[0][-1] for one in added]) * 4**0.5, stats.uniform(-1, 2), why=why),
        "out of it": follows(
            torch.stack([one[1][:, -1] for one in dead]) * 9**0.5, stats.uniform(-1, 2), why=why),
        "zeros": equal(
            torch.cat([*(one[1][:, -1] for one in added), *(one[0][-1] for one in dead)]), 0,
            tol=0, why="what is not drawn"),
        "halves of the first": equal(new, old.expand(2, -1), tol=1e-7, why="float32"),
    })


@claim(control={"inputs": "1"}, refutes=["activations for each multiply-add"], source="by counting")
def layer_cost(
    seed: Seed, *, batch: Annotated[int, Range(1, 64)] = 8,
    largest: Annotated[int, Range(512, 2048)] = 1024, inputs: Literal["n", "1"] = "n",
) -> Evidence:
    r"""A layer costs $mn$ multiply-adds and only $m$ activations: the product dominates."""
    rng, products, units = seed.torch(), [], []
    widths = torch.linspace(256, largest, 6).long().tolist()
    shapes = [(m, n if inputs == "n" else 1) for m, n in zip(widths, widths[::-1], strict=True)]
    shapes += [(one, one if inputs == "n" else 1) for one in widths]
    for m, n in shapes:
        layer = MLP([n, m], out_activation="relu", rng=rng)
        layer.out_phi.register_forward_hook(lambda *seen: units.append(seen[-1].numel()))
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            layer(torch.ones(batch, n))
        products.append(counter.get_total_flops())
    (m, n), flops, applied = torch.tensor(shapes).T, torch.tensor(products), torch.tensor(units)
    return every({
        "counts": equal(
            torch.cat([flops, applied]), torch.cat([2 * batch * m * n, batch * m]), tol=0,
            why="of operations, and of activations",
        ).drawn(
            Series("multiply-adds", m * n, flops / 2),
            Series("activations", m * n, applied, "other", "points"),
            Series("B m n", m * n, batch * m * n, "predicted"), x="m n", y="operations", log="xy",
        ),
        "activations for each multiply-add": at_most(
            applied / (flops / 2), 1 / 256, why="1/n, and n is 256 or more"
        ),
    })

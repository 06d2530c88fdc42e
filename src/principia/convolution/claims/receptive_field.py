r"""The receptive field: what is true of it, and what would refute it.

Knobs:
    stacks: Random stacks of layers that are tried.
    strides: Whether the reach of a layer is multiplied by the strides below it.
    kernel: Width of the kernels; one place wide, they add nothing.
    depth: Layers of the deepest stack.
    zeros: How many zeros stand between two taps; one more is another dilation.
    form: The formula as it is, or as it is misprinted.
    dilations: How the gaps grow from layer to layer.
    growth: Which power of the depth the width of the effective field should follow.
    draws: Random weights over which the squared gradient is averaged, in each of 20 groups.
"""

import itertools
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import skip_init

from principia.convolution.receptive_field import (
    dilate,
    effective_field,
    gradient_mask,
    path_counts,
    receptive_field,
)
from principia.lab.draws import drawn_anew, randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    claim,
    equal,
    equal_to_rounding,
    every,
    mean_is,
    slope,
)
from principia.lab.params import Range
from principia.lab.pictures import Panels, Plot
from principia.lab.seeds import Seed

EXACT = "whole numbers"


@claim(control={"strides": "ignored"}, refutes=["ends"], source="Araujo, Norris and Sim 2019")
def gradient_support_is_the_formula(
    seed: Seed, *, stacks: Annotated[int, Range(10, 100)] = 50,
    strides: Literal["multiplied", "ignored"] = "multiplied",
) -> Evidence:
    r"""A unit depends on $1+\sum_l(k_l-1)d_l\prod_{i<l}s_i$ places, from one end to the other."""
    rng, ends, formula, same, drawn = seed.torch(), [], [], [], []
    for _ in range(stacks):
        count = int(torch.randint(1, 5, (), generator=rng))
        layers = [_drawn(rng, place == 0) for place in range(count)]
        net = nn.Sequential(*itertools.chain(*((one, nn.ReLU()) for one in layers)))
        size, jump, first = receptive_field(net)
        if strides == "ignored":
            size = 1 + sum((k - 1) * d for k, _, d, _ in map(_numbers, layers))
        unit = -(first // jump) + 1  # far enough from the left that all of its field is there
        length = first + unit * jump + receptive_field(net).size + 40
        mask = gradient_mask(net, (2, length), (unit,))
        seen = mask.nonzero()[:, 0]
        start = first + unit * jump
        ends.append([int(seen[0]), int(seen[-1])])
        formula.append([start, start + size - 1])
        whole = torch.zeros_like(mask)
        counts = path_counts([_numbers(one) for one in layers])
        whole[start : start + len(counts)] = counts > 0
        same.append(bool((whole == mask).all()))
        drawn.append((len(seen), size))
    width = [b - a + 1 for a, b in ends]
    return every({
        "ends": equal(ends, formula, tol=0, why=EXACT).drawn(
            Series("of the gradient", range(stacks), width),
            Series("formula", range(stacks), [b - a + 1 for a, b in formula], "predicted",
                   "points"),
            x="random stack", y="places from end to end", log="y"),
        "the places themselves": equal(
            [float(one) for one in same], 1.0, tol=0, why="paths of positive weights"),
        "in two dimensions": _of_pictures(),
    })


def _drawn(rng: torch.Generator, first: bool) -> Any:
    """Draw a convolution, or a pooling."""
    k, s, d, p, pooled = (int(torch.randint(*ends, (), generator=rng)) for ends in (
        (1, 6), (1, 4), (1, 4), (0, 3), (0, 4)))
    if pooled == 3 and not first:
        kind = (nn.MaxPool1d, nn.AvgPool1d)[s % 2]
        return kind(k + 1, s, padding=min(p, (k + 1) // 2))
    return skip_init(nn.Conv1d, 2, 2, k, stride=s, dilation=d, padding=p)


def _numbers(layer: Any) -> tuple[int, int, int, int]:
    """Read kernel, stride, dilation and padding off a layer of one dimension."""
    names = ("kernel_size", "stride", "dilation", "padding")
    found = [getattr(layer, name, 1) for name in names]
    k, s, d, p = (one if isinstance(one, int) else one[0] for one in found)
    return k, s, d, p


def _of_pictures() -> Evidence:
    """Compare along both axes of a picture, where they differ."""
    net = nn.Sequential(
        skip_init(nn.Conv2d, 1, 2, (3, 2), stride=(1, 2), padding="valid"),
        nn.Sequential(nn.BatchNorm2d(2), nn.Dropout(0.5), nn.MaxPool2d((2, 3), (2, 1), (1, 0))),
        skip_init(nn.Conv2d, 2, 1, 3, dilation=(2, 1), padding="same"),
    )
    mask, found, expected = gradient_mask(net, (1, 30, 30), (6, 4)), [], []
    for axis, unit in ((-2, 6), (-1, 4)):
        seen = mask.any(dim=-1 if axis == -2 else 0).nonzero()[:, 0]
        size, jump, first = receptive_field(net, axis=axis)
        found.append([int(seen[0]), int(seen[-1])])
        expected.append([first + unit * jump, first + unit * jump + size - 1])
    found.append([len(path_counts(net, axis=-2)), len(path_counts(net))])
    expected.append([receptive_field(net, axis=axis).size for axis in (-2, -1)])
    return equal(found, expected, tol=0, why=EXACT)


@claim(control={"kernel": 1}, refutes=["grows"], source="Araujo, Norris and Sim 2019")
def field_grows_with_depth(
    seed: Seed, *, kernel: Annotated[int, Range(1, 5)] = 3, depth: Annotated[int, Range(3, 8)] = 7,
) -> Evidence:
    r"""With stride 1 a field has $1+L(k-1)$ places, with stride 2 it has $1+(k-1)(2^L-1)$."""
    depths, parts, fields = range(1, depth + 1), {}, {}
    for stride in (1, 2):
        fields[stride] = [receptive_field([(kernel, stride, 1)] * L).size for L in depths]
        by_hand = [1 + (kernel - 1) * (L if stride == 1 else 2**L - 1) for L in depths]
        seen = [_seen(kernel, stride, L) for L in depths]
        parts[f"stride {stride}"] = equal(
            [fields[stride], seen], [by_hand, by_hand], tol=0, why=EXACT)
    grown = torch.tensor([*fields.values()]).diff(dim=1)
    parts["grows"] = at_least(grown, 1, why="every layer adds what its kernel reaches")
    return every(parts).drawn(
        *(Series(f"stride {s}", depths, fields[s], "measured" if s == 1 else "other", "points")
          for s in fields),
        Series("1 + L (k - 1)", depths, [1 + L * (kernel - 1) for L in depths], "predicted"),
        Series("1 + (k - 1)(2^L - 1)", depths, [1 + (kernel - 1) * (2**L - 1) for L in depths],
               "predicted"),
        x="layers", y="receptive field", log="y")


def _seen(kernel: int, stride: int, depth: int) -> int:
    """Count the places on which the first unit depends."""
    net = nn.Sequential(*(
        skip_init(nn.Conv1d, 1, 1, kernel, stride=stride) for _ in range(depth)))
    size = 2 + (kernel - 1) * (depth if stride == 1 else 2**depth - 1) + 2**depth
    return int(gradient_mask(net, (1, size), (0,)).sum())


@claim(control={"zeros": "d"}, source="Yu and Koltun 2016, sec. 2")
def dilated_is_zero_stuffed(
    seed: Seed, *, zeros: Literal["d - 1", "d"] = "d - 1"
) -> Evidence:
    """A convolution with dilation d has the kernel with d - 1 zeros between its taps."""
    rng, parts, more = seed.torch(), {}, int(zeros == "d")
    for d in (2, 3, 4):
        x, w = randn(rng, 2, 3, 17, 21), randn(rng, 4, 3, 3, 2)
        found, expected = F.conv2d(x, dilate(w, d + more)), F.conv2d(x, w, dilation=d)
        found = F.pad(found, (0, expected.shape[3] - found.shape[3],
                              0, expected.shape[2] - found.shape[2]))
        row = range(expected.shape[-1])
        parts[f"pictures, d = {d}"] = equal_to_rounding(found, expected).drawn(
            Series("with zeros between", row, found[0, 0, 0]),
            Series(f"dilation {d}", row, expected[0, 0, 0], "predicted"),
            x="place along a row", y="map")
        row_x, taps = randn(rng, 1, 1, 30), randn(rng, 5)
        short = F.conv1d(row_x, dilate(taps, d + more)[None, None])
        long = F.conv1d(row_x, taps[None, None], dilation=d)
        parts[f"one row of taps, d = {d}"] = equal_to_rounding(
            F.pad(short, (0, long.shape[2] - short.shape[2])), long)
    w = randn(rng, 2, 3, 4, 5)
    along = dilate(w, 2 + more, axes=1)
    expected = torch.zeros(2, 3, 4, 9 + 4 * more).double()
    expected[..., ::2] = F.pad(w, (0, (9 + 4 * more + 1) // 2 - 5))
    return every({
        **parts,
        "along the last axis": equal(along, expected, tol=0, why="copies"),
        "which axes, by default": equal(
            [dilate(w[0, 0, 0], 2 + more).shape[0], *dilate(w[0, 0], 2 + more).shape,
             *dilate(w[0], 2 + more).shape], [9, 7, 9, 3, 4, 9], tol=0, why=EXACT),
        "d = 1": equal(_cut(dilate(w, 1 + more), w), w, tol=0, why="copies"),
    })


def _cut(wide: Tensor, w: Tensor) -> Tensor:
    return wide[..., : w.shape[-2], : w.shape[-1]]


@claim(
    control={"form": "printed"}, refutes=["one layer"], source="Yu and Koltun 2016, sec. 3",
    misprint="the receptive field grows exponentially with the dilation factor",
)
def doubling_dilations_grow_exponentially_in_depth(
    seed: Seed, *, kernel: Annotated[int, Range(2, 5)] = 3,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""Doubled dilations give a field of $2^L$ for k = 2; one layer only $1+(k-1)d$."""
    depths, ds = range(1, 11), range(1, 17)
    deep = [receptive_field([(2, 1, 2**place) for place in range(L)]).size for L in depths]
    single = [receptive_field([(kernel, 1, d)]).size for d in ds]
    ratio = single[1] / single[0]
    predicted = [single[0] * ratio ** (d - 1) for d in ds]
    if form == "correct":
        predicted = [float(1 + (kernel - 1) * d) for d in ds]
    dilated = [int(gradient_mask(skip_init(nn.Conv1d, 1, 1, kernel, dilation=d), (1, 80), (0,))
                   .nonzero().max()) + 1 for d in ds]
    log2 = torch.tensor(deep).double().log2()
    picture = Panels((
        Plot((Series("doubled dilations", depths, deep),
              Series("2^L", depths, [2**L for L in depths], "predicted")),
             x="layers", y="receptive field", log="y", title="many layers"),
        Plot((Series("one layer", ds, single), Series(form, ds, predicted, "predicted")),
             x="dilation d", y="receptive field", title="one layer",
             y_range=(0, 2 + 17 * (kernel - 1))),
    ), legend=True)
    return every({
        "field of L layers": equal(deep, [2**L for L in depths], tol=0, why=EXACT),
        "log₂ of the field over L": slope(
            list(depths), log2, 1, tol=1e-9, why="an identity", log=""),
        "one layer": equal(single, predicted, tol=1e-9, why="an identity"),
        "of its gradient": equal(dilated, single, tol=0, why=EXACT),
        "one layer: slope": slope(list(ds), single, kernel - 1, tol=1e-9, why="exact", log=""),
    }).pictured(picture)


@claim(control={"dilations": "1, 2, 2, 4"}, source="van den Oord et al. 2016, sec. 2.1")
def no_gaps_no_overlap(
    seed: Seed, *, dilations: Literal["doubled", "1, 2, 2, 4"] = "doubled"
) -> Evidence:
    """With k = 2 and doubled dilations exactly one path leads to each input of the field."""
    parts = {}
    for depth in (4, 6):
        ds = [2**place for place in range(depth)] if dilations == "doubled" else [1, 2, 2, 4]
        counts, net = path_counts([(2, 1, d) for d in ds]), nn.Sequential()
        for d in ds:
            net.append(skip_init(nn.Conv1d, 1, 1, 2, dilation=d, bias=False).double())
            nn.init.ones_(net[-1].weight)  # type: ignore[arg-type]
        x = torch.zeros(1, 1, 2**depth).double().requires_grad_()
        through = torch.autograd.grad(net(x)[0, 0, 0], x)[0][0, 0]
        parts[f"paths, {depth} layers"] = equal(
            F.pad(counts, (0, 2**depth - len(counts))), 1, tol=0, why=EXACT).drawn(
            Series("paths", range(len(counts)), counts, style="bars"),
            Series("one each", [0, 2**depth - 1], [1, 1], "predicted"),
            x="place of the input", y="paths to the unit")
        parts[f"gradient, {depth} layers"] = equal(
            through, 1, tol=0, why="all weights are 1, so that it counts the paths")
    return every(parts)


@claim(
    control={"growth": 1.0}, refutes=["identical kernels", "random weights"],
    source="Luo, Li, Urtasun and Zemel 2016, sec. 2",
)
def effective_field_grows_like_root_depth(
    seed: Seed, *, growth: Annotated[float, Range(0.5, 1)] = 0.5,
    draws: Annotated[int, Range(50, 400)] = 100,
) -> Evidence:
    r"""Variances of kernels add: the effective field is $\sqrt L$ times as wide as one kernel."""
    taps, depths, spreads, shares = randn(seed.torch(), 4).softmax(dim=0), (1, 5, 20), [], []
    for L in depths:
        net = nn.Sequential(*(skip_init(nn.Conv1d, 1, 1, 4, bias=False) for _ in range(L)))
        net = net.double()
        for parameter in net.parameters():
            parameter.data[:] = taps
        share, spread = effective_field(net, (1, 3 * L + 1), (0,), of="size", rng=seed.torch())
        spreads.append(spread)
        shares.append(share)
    places, places_2d = torch.arange(4).double(), torch.arange(3).double()
    one = (taps @ (places - taps @ places).square()).sqrt()
    ratios = torch.cat(spreads) / one
    rng, groups = seed.child("weights").torch(), []
    wide = nn.Sequential(*(skip_init(nn.Conv2d, n, m, (3, 2)) for n, m in ((1, 4), (4, 4), (4, 1))))
    for _ in range(20):
        groups.append(effective_field(wide, (1, 7, 5), (0, 1), draws=draws // 5, rng=rng)[1])
    variances = torch.stack([places_2d.var(correction=0), places_2d[:2].var(correction=0)])
    expected = (variances * 3 ** (2 * growth)).sqrt()
    signed = drawn_anew(skip_init(nn.Conv1d, 1, 1, 4, bias=False), rng)
    w = next(signed.parameters()).detach()[0, 0]
    x = torch.arange(len(shares[-1])) - 20 * (taps @ places)
    width = float(one) * 20**growth
    law = (-0.5 * (x / width) ** 2).exp() / (width * (2 * torch.pi) ** 0.5)
    return every({
        "identical kernels": equal(
            ratios[1:] ** 2, [5.0 ** (2 * growth), 20.0 ** (2 * growth)], tol=1e-4,
            why="an identity; float64 leaves far less",
        ).drawn(
            Series("share of the gradient, L = 20", x, shares[-1]),
            Series("normal law of this width", x, law, "predicted", "line"),
            x="place from the middle", y="share"),
        "random weights": mean_is(
            torch.stack(groups), expected, bias=0.04,
            why="groups of random weights; the root of a few draws is biased by a few percent"),
        "one kernel": equal_to_rounding(ratios[0], 1.0),
        "sizes and squares": equal_to_rounding(
            torch.stack([effective_field(signed, (1, 4), (0,), of="size", rng=rng)[0],
                         effective_field(signed, (1, 4), (0,), rng=rng)[0]]),
            torch.stack([one / one.sum() for one in (w.abs(), w.square())])),
        "sum": equal_to_rounding(torch.stack([share.sum() for share in shares]), [1.0] * 3),
    })

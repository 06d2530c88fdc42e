r"""LeNet: what is true of it, and what would refute it.

Knobs:
    links: Which of the six maps below each map of C3 sees: those of the paper's table, or all.
    biases: Whether each unit of H1 and H2 has a bias of its own, or each map one.
    channels: Of the pictures.
    form: The original network as it is, or as it is often told, with maxima instead of averages.
    height: Of the large picture in pixels.
    width: Of the large picture in pixels.
    step: Pixels between two windows of the large picture, as they are cut out.
    stride: Step between two windows of a pooling.
    counted: What is counted; the work is done where maps are large.
    batch: Pictures that are computed.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.convolution.layer import multiply_adds
from principia.convolution.lenet import LeNet5, LeNet1989, SparseConv2d, Subsample
from principia.lab.draws import drawn_anew, randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    claim,
    equal,
    equal_to_rounding,
    every,
)
from principia.lab.params import Range, UsageError
from principia.lab.seeds import Seed

Batch = Annotated[int, Range(2, 20)]
Side = Annotated[int, Range(36, 80)]
# table I of LeCun et al. 1998: a row for each map of S2, a column for each of C3
TABLE = (
    "X...XXX..XXXX.XX", "XX...XXX..XXXX.X", "XXX...XXX..X.XXX",
    ".XXX..XXXX..X.XX", "..XXX..XXXX.XX.X", "...XXX..XXXX.XXX",
)
LAYERS_1998 = {"C1": 156, "S2": 12, "C3": 1516, "S4": 32, "C5": 48_120, "F6": 10_164}
UNITS_1998 = {"C1": 4704, "S2": 1176, "C3": 1600, "S4": 400, "C5": 120, "F6": 84}
OUTPUT = 840  # connections of the ten fixed codes
LAYERS_1989 = {"H1": 1068, "H2": 2592, "H3": 5790, "output": 310}
TUTORIAL = {"C1": 456, "C3": 2416, "C5": 48_120, "F6": 10_164, "output": 850}
A_COUNT = "a count"
REFUSED = (
    (2, 1, 28, 28), (2, 1, 32, 36), (2, 1, 36, 32), (2, 3, 32, 32), (2, 1, 36, 36), (2, 1, 31, 32)
)
TAKEN = ((2, 1, 32, 32), (1, 1, 32, 32))


def _counts(net: nn.Module, names: Mapping[str, Any]) -> list[int]:
    """Count the parameters of some layers."""
    layers = [net.get_submodule(name.lower()) for name in names]
    return [sum(one.numel() for one in layer.parameters()) for layer in layers]


@claim(
    control={"links": "all"}, refutes=["each layer", "together", "connections", "links of C3"],
    source="LeCun et al. 1998, sec. II B, table I",
)
def lenet5_has_60000_parameters(
    seed: Seed, *, links: Literal["of the table", "all"] = "of the table"
) -> Evidence:
    r"""$156+12+1516+32+48120+10164=60000$ weights, for 340,908 connections."""
    rng = seed.torch()
    net: Any = LeNet5(original=True, rng=rng)
    wide = net.c5.weight.detach().clone()
    if links == "all":
        net.c3 = SparseConv2d([list(range(6))] * 16, 5, rng=rng)
    conv: Any = drawn_anew(net.c3, rng)
    maps = randn(rng, 2, 6, 9, 7)
    seen = [[bool(one) for one in row] for row in _support(conv).T]
    expected = [[mark == "X" for mark in row] for row in TABLE]
    counts, wanted = _counts(net, LAYERS_1998), list(LAYERS_1998.values())
    ends = itertools.pairwise((32, 28, 14, 10, 5, 1))
    wires = [_connections(net.get_submodule(name.lower()), before, after)
             for name, (before, after) in zip(LAYERS_1998, ends, strict=False)]
    wires.append(UNITS_1998["F6"] * (UNITS_1998["C5"] + 1))
    sums = torch.stack([  # of plain correlations of single maps
        sum(F.conv2d(maps[:, [start]], conv.weight[place][None, None])[:, 0]
            for place, (to, start) in enumerate(conv.links.T.tolist()) if to == number)
        + conv.bias[number] for number in range(16)
    ], dim=1)
    names = list(LAYERS_1998)
    return every({
        "each layer": equal(counts, wanted, tol=0, why=A_COUNT).drawn(
            Series("weights", names, counts, style="bars"),
            Series("connections", names, wires, "other", "points"),
            Series("weights, in the paper", names, wanted, "predicted", "points"),
            x="layer", y="number", log="y",
        ),
        "together": equal(
            sum(one.numel() for one in net.parameters()), 60_000, tol=0, why=A_COUNT
        ),
        "connections": equal(sum(wires) + OUTPUT, 340_908, tol=0, why=A_COUNT),
        "links of C3": equal(torch.tensor(seen).int(), torch.tensor(expected).int(), tol=0,
                             why="the table of the paper"),
        "sums of maps": equal_to_rounding(conv(maps), sums),
        "variance": _variance(seed, wide),
        "drawn where it is said": _drawn(lambda rng: LeNet5(original=True, rng=rng), seed),
    })


def _support(conv: SparseConv2d) -> Tensor:
    """Find which input maps move which output maps: (out, in)."""
    inputs, _ = conv.maps
    moved = conv(torch.eye(inputs).to(conv.weight)[:, :, None, None].expand(-1, -1, 5, 5))
    still = conv(moved.new_zeros(1, inputs, 5, 5))
    return (moved - still)[:, :, 0, 0].T.abs() > 1e-12


def _connections(layer: nn.Module, before: int, after: int) -> int:
    """Count, for the one unit of a map at a time, the inputs that move it, and its bias."""
    maps = {28: 1, 14: 6, 10: 6, 5: 16, 1: 16}[after]
    x = torch.ones(1, maps, before, before, dtype=torch.float64, requires_grad=True)
    y = layer.double()(x)[0]
    row, column = y.shape[1] // 2, y.shape[2] // 2
    wires = 0
    for unit in y[:, row, column]:
        (slope,) = torch.autograd.grad(unit, x, retain_graph=True)
        wires += int((slope != 0).sum()) + 1
    return wires * y[0].numel()


def _variance(seed: Seed, c5: Tensor) -> Evidence:
    """Draw a wide sparse convolution: units with n inputs have weights of variance 1/n."""
    table = [[0, 2], [0, 1, 2, 3, 4, 5]] * 400
    conv: Any = SparseConv2d(table, 3, rng=seed.child("wide").torch())
    few, weight = conv.links[0] % 2 == 0, conv.weight.detach()
    found = [18 * weight[few].var(), 54 * weight[~few].var(), 400 * c5.var()]
    return equal(
        torch.stack(found), [1.0] * 3, tol=0.1,
        why="five standard errors of a variance of 7,200 weights or more, and some",
    )


def _drawn(make: Callable[[torch.Generator], nn.Module], seed: Seed) -> Evidence:
    """Make a network three times: the generator decides on all its tensors, and nothing else."""
    first, again, other = (
        make(seed.child(name).torch()).state_dict().values() for name in ("one", "one", "other")
    )
    same = [torch.equal(*both) for both in zip(first, again, strict=True)]
    weights = [(one, it) for one, it in zip(first, other, strict=True) if one.std() > 0]
    differ = [not torch.equal(*both) for both in weights]
    return equal([*same, *differ], 1, tol=0, why="one state of the generator, and another")


@claim(
    control={"biases": "a map"}, refutes=["each layer", "together", "connections"],
    source="LeCun et al. 1989, p. 548",
)
def lenet1989_has_9760_parameters(
    seed: Seed, *, biases: Literal["a unit", "a map"] = "a unit", batch: Batch = 3
) -> Evidence:
    r"""$1068+2592+5790+310=9760$ weights, for 64,660 connections: each unit has its own bias.

    Args:
        biases: Whether there is a bias for each unit or for each map.
    """
    rng = seed.torch()
    net: Any = LeNet1989(rng=rng)
    if biases == "a map":
        for name in ("h1", "h2"):
            links = net.get_submodule(name).links.T.tolist()
            table = [[start for to, start in links if to == k] for k in range(12)]
            setattr(net, name, SparseConv2d(
                table, 5, stride=2, padding=2, background=-1.0, rng=rng))
    counts, wanted = _counts(net, LAYERS_1989), list(LAYERS_1989.values())
    wires = {"H1": net.h1.weight.numel() * 64, "H2": net.h2.weight.numel() * 16}
    dense = multiply_adds(net, (1, 16, 16))
    own = sum(one.numel() for name, one in net.named_parameters() if name.endswith("bias"))
    x = randn(rng, batch, 1, 16, 16)
    spread = net.h3.weight.detach().var() * 192
    drawn_anew(net, rng)
    for weight in (net.h3.weight, net.output.weight, net.h2.weight):
        weight.data /= 10  # not all saturated
    with torch.no_grad():
        found, expected = net(x), _by_hand_1989(net, x)
    names = list(LAYERS_1989)
    return every({
        "each layer": equal(counts, wanted, tol=0, why=A_COUNT).drawn(
            Series("weights", names, counts, style="bars"),
            Series("in the paper", names, wanted, "predicted", "points"),
            x="layer", y="weights and biases",
        ),
        "together": equal(
            sum(one.numel() for one in net.parameters()), 9760, tol=0, why=A_COUNT
        ),
        "connections": equal(
            sum(wires.values()) + sum(dense.values()) + own, 64_660, tol=0, why=A_COUNT
        ),
        "by hand": equal_to_rounding(found, expected),
        "variance, times n": equal(
            spread, 1.0, tol=0.1, why="five standard errors of a variance of 5,760 weights"
        ),
        "drawn where it is said": _drawn(lambda rng: LeNet1989(rng=rng), seed),
    })


def _by_hand_1989(net: Any, x: Tensor) -> Tensor:
    """Compute the network of 1989 unit by unit: windows of the maps that it sees, and its bias."""
    for layer, row, side in ((net.h1, 1, 8), (net.h2, 8, 4)):
        x = F.pad(x, (2, 2, 2, 2), value=-1.0)
        bias = layer.bias if layer.bias.ndim == 3 else layer.bias[:, None, None]
        y = bias.expand(12, side, side).expand(len(x), -1, -1, -1).clone()
        for k, i, j in itertools.product(range(12), range(side), range(side)):
            seen = [0] if row == 1 else sorted((k + one) % 12 for one in range(row))
            window = x[:, seen, 2 * i : 2 * i + 5, 2 * j : 2 * j + 5]
            y[:, k, i, j] += (window * layer.weight[row * k : row * (k + 1)]).sum(dim=(1, 2, 3))
        x = _squashed(y)
    h = _squashed(x.flatten(1) @ net.h3.weight.mT + net.h3.bias)
    return _squashed(h @ net.output.weight.mT + net.output.bias)


def _squashed(a: Tensor) -> Tensor:
    r"""$1.7159\tanh\frac23a$ in exponentials."""
    return 1.7159 * (1 - 2 / ((4 * a / 3).exp() + 1))


@claim(
    control={"channels": 1}, refutes=["each layer", "together"],
    source="PyTorch, Training a classifier",
)
def cifar_net_has_62006_parameters(
    seed: Seed, *, channels: Annotated[int, Range(1, 4)] = 3, batch: Batch = 3
) -> Evidence:
    r"""PyTorch's tutorial network, $456+2416+48120+10164+850=62006$, is `LeNet5(channels=3)`."""
    rng = seed.torch()
    net: Any = LeNet5(channels=channels, rng=rng)
    starts = torch.cat([one.weight.detach().flatten() * (one.weight[0].numel() / 2) ** 0.5
                        for one in (net.c3, net.c5, net.f6)])
    counts, wanted = _counts(net, TUTORIAL), list(TUTORIAL.values())
    double = drawn_anew(net, rng)
    x = randn(rng, batch, channels, 32, 32)
    with torch.no_grad():
        h = F.relu(F.max_pool2d(F.conv2d(x, double.c1.weight, double.c1.bias), 2))
        h = F.relu(F.max_pool2d(F.conv2d(h, double.c3.weight, double.c3.bias), 2)).flatten(1)
        for layer in (double.c5, double.f6):
            h = F.relu(h @ layer.weight.flatten(1).mT + layer.bias)
        scores = h @ double.output.weight.flatten(1).mT + double.output.bias
        found = double(x)
    names = list(TUTORIAL)
    return every({
        "each layer": equal(counts, wanted, tol=0, why=A_COUNT).drawn(
            Series("weights and biases", names, counts, style="bars"),
            Series("of the tutorial", names, wanted, "predicted", "points"),
            x="layer", y="number", log="y",
        ),
        "together": equal(
            sum(one.numel() for one in double.parameters()), 62_006, tol=0, why=A_COUNT
        ),
        "the tutorial's function": equal(
            found / scores.abs().max(), scores / scores.abs().max(), tol=1e-12,
            why="an identity: float64 rounding of the largest score",
        ),
        "variance, times n/2": equal(
            starts.var(), 1.0, tol=0.03, why="five standard errors of a variance of 60,480 weights"
        ),
        "drawn where it is said": _drawn(lambda rng: LeNet5(rng=rng), seed),
    })


@claim(
    control=[
        Control({"form": "printed"}, ["sub-sampling", "the whole network"], "with maxima"),
        Control({"step": 2}, ["windows", "windows, rectifiers and maxima"],
                "windows two pixels apart"),
    ],
    source="LeCun et al. 1998, sec. II B",
    misprint="three convolutions and a fully connected layer, with max-pooling; or two "
    "convolutions, average pooling and three dense layers",
)
def c5_is_a_convolution(
    seed: Seed, *, form: Literal["correct", "printed"] = "correct", height: Side = 48,
    width: Side = 56, step: Annotated[int, Range(2, 4)] = 4,
) -> Evidence:
    r"""C5 is a dense layer at 32 x 32 and gives a map of larger pictures; S2 and S4 average."""
    rng = seed.torch()
    net: Any = drawn_anew(LeNet5(original=True, rng=rng), rng)
    for layer in (net.c3, net.c5, net.f6):
        layer.weight.data /= layer.weight[0].numel() ** 0.5
    large = randn(rng, 2, 1, height, width)
    rows, columns = ((side - 32) // 4 + 1 for side in (height, width))
    offsets = [(step * i, step * j) for i in range(rows) for j in range(columns)]
    windows = torch.stack([large[:, :, i : i + 32, j : j + 32] for i, j in offsets], dim=1)
    pool = F.max_pool2d if form == "printed" else F.avg_pool2d
    with torch.no_grad():
        single, scanned = net(windows.flatten(0, 1)).unflatten(0, (2, -1)), net.scan(large)
        scores = _by_hand_1998(net, windows.flatten(0, 1), pool).unflatten(0, (2, -1))
        maps = randn(rng, 2, 6, 8, 6)
        halved = net.s2(maps)
        plain = pool(_squashed(maps), 2).movedim(1, -1) * net.s2[1].weight + net.s2[1].bias
        modern: Any = drawn_anew(LeNet5(rng=rng), rng)
        start = Subsample(3).double()(maps[:, :3])
        answers = modern.scan(large).flatten(2).movedim(-1, 1)
        alone = modern(windows.flatten(0, 1)).unflatten(0, (2, -1))
    shown = range(rows * columns)
    size = float(answers.abs().max())
    return every({
        "sub-sampling": equal_to_rounding(halved, plain.movedim(-1, 1)),
        "coefficient 1 and bias 0 at first": equal_to_rounding(
            start, F.avg_pool2d(maps[:, :3], 2)
        ),
        "the whole network": equal_to_rounding(single, scores),
        "windows": equal_to_rounding(
            scanned.flatten(2).movedim(-1, 1), single
        ).drawn(
            Series("one pass over the large picture", shown, scanned[0, 3].flatten()),
            Series("windows of 32 x 32, dense C5", shown, single[0, :, 3], "predicted", "line"),
            x="window, row after row", y="score of class 3",
        ),
        "windows, rectifiers and maxima": equal(
            answers / size, alone / size, tol=1e-12,
            why="an identity: float64 rounding of the largest score",
        ),
    })


def _by_hand_1998(net: Any, x: Tensor, pool: Any) -> Tensor:
    """Compute the original network with C5 and F6 as dense layers, and distances to codes."""
    for layer, after in ((net.c1, net.s2[1]), (net.c3, net.s4[1])):
        means = pool(_squashed(layer(x)), 2)
        x = _squashed(after.weight[:, None, None] * means + after.bias[:, None, None])
    h = x.flatten(1)  # 400
    for layer in (net.c5, net.f6):
        h = _squashed(h @ layer.weight.flatten(1).mT + layer.bias)
    return -(h[:, None] - net.output.codes).square().sum(dim=-1)


@claim(
    control=[
        Control({"stride": 1}, ["rectifiers and maxima", "original"], "nothing is left out"),
        Control({"counted": "multiplications"}, ["share of what comes after C3"], "work instead"),
    ],
    source="LeCun et al. 1998, sec. II B",
)
def spatial_shrinks_channels_grow(
    seed: Seed, *, stride: Annotated[int, Range(1, 2)] = 2,
    counted: Literal["weights", "multiplications"] = "weights",
) -> Evidence:
    r"""Maps shrink, 32, 28, 14, 10, 5, 1, as they multiply; over 90 % of the weights follow C3."""
    modern, original = (_maps(original, stride, seed) for original in (False, True))
    layers, wanted = ["input", "C1", "S2", "C3", "S4", "C5"], [[32, 28, 14, 10, 5, 1],
                                                               [1, 6, 6, 16, 16, 120]]
    net = LeNet5(rng=seed.torch())
    uses = multiply_adds(net, (1, 32, 32)) if counted == "multiplications" else {
        name: sum(one.numel() for one in layer.parameters())
        for name, layer in net.named_children()
    }
    return every({
        "rectifiers and maxima": equal(modern, wanted, tol=0, why="sizes").drawn(
            Series("side of a map", layers, modern[0], style="line"),
            Series("number of maps", layers, modern[1], "orange", "line"),
            Series("in the paper", [*layers, *layers], [*wanted[0], *wanted[1]], "predicted",
                   "points"),
            x="layer", y="pixels, and maps", log="y",
        ),
        "original": equal(original, wanted, tol=0, why="sizes"),
        "share of what comes after C3": at_least(
            sum(uses[name] for name in ("c5", "f6", "output")) / sum(uses.values()), 0.9,
            why="0.96, a count; of the multiplications it is 0.14",
        ),
        "what is refused": equal(
            [_refuses(net, shape) for shape in REFUSED] + [_refuses(net, shape) for shape in TAKEN]
            + [_refuses(net.scan, (2, 1, *sides)) for sides in ((32, 31), (31, 32), (32, 33))],
            [*[1] * len(REFUSED), *[0] * len(TAKEN), 1, 1, 0], tol=0,
            why="whether there is an error for each shape of pictures",
        ),
    })


def _refuses(net: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> bool:
    try:
        with torch.no_grad():
            net(torch.zeros(shape))
    except UsageError:
        return True
    return False


def _maps(original: bool, stride: int, seed: Seed) -> list[list[int]]:
    """List heights, and numbers, of the maps of each layer for a picture of 32 x 32."""
    net: Any = LeNet5(original=original, rng=seed.torch())
    if stride != 2:
        net.s2, net.s4 = nn.MaxPool2d(2, stride), nn.MaxPool2d(2, stride)
    found = [torch.Size([1, 1, 32, 32])]
    for name in ("c1", "s2", "c3", "s4", "c5"):
        net.get_submodule(name).register_forward_hook(
            lambda layer, inputs, y: found.append(y.shape))
    with torch.no_grad():
        net.scan(torch.zeros(found[0]))
    return [[shape[axis] for shape in found] for axis in (2, 1)]

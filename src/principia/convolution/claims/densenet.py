r"""DenseNet: what is true of it, and what would refute it.

Knobs:
    join: How a layer's maps are joined to the others; adding them keeps the channels.
    cin: Channels that enter the block.
    growth: Channels that each layer adds.
    layers: Layers of the block.
    reading: What a layer reads; in a chain it is the layer before.
    theta: Share of the channels that a transition keeps.
    bottleneck: Whether the network of depth 40 has bottlenecks as well.
    stem: Stem of the network for photographs.
    output: What the block gives away; a plain stack gives its last maps alone.
    order: Which maps come first; the weights of torchvision know the oldest first.
    classes: Classes of the network.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.convolution.densenet import IMAGENET, DenseBlock2d, DenseNet, Transition
from principia.convolution.resnet import ConvLayer, Stem
from principia.lab.draws import drawn_anew, randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
)
from principia.lab.params import Range
from principia.lab.pictures import Graph, Label, Plot
from principia.lab.seeds import Seed

Few = Annotated[int, Range(1, 10)]
PUBLISHED = {
    "depth 40": 1_019_722, "BC, depth 100": 769_162, "photographs, depth 121": 7_978_856,
    "photographs, depth 161": 28_681_000, "photographs, depth 169": 14_149_480,
    "photographs, depth 201": 20_013_928,
}


@claim(
    control={"join": "add"}, refutes=["channels that layers read", "channels of depth 40"],
    source="Huang, Liu, van der Maaten and Weinberger 2017, sec. 3",
)
def channels_grow_linearly(
    seed: Seed, *, cin: Few = 3, growth: Few = 2, layers: Few = 5,
    join: Literal["concatenate", "add"] = "concatenate",
) -> Evidence:
    r"""Behind $l$ layers there are $k_0+kl$ channels: 448 in the network of depth 40."""
    rng, found, expected, read = seed.torch(), [], [], []
    tanh = partial(ConvLayer, norm=nn.Identity, activation=nn.Tanh)
    for convolutions, layer in ((1, ConvLayer), (2, ConvLayer), (2, tanh)):
        parts: Any = {"bottleneck": True} if convolutions == 2 else {}
        block: Any = DenseBlock2d(cin, growth, layers, layer=layer, rng=rng, **parts)
        x = randn(rng, 4, cin, 5, 7)
        drawn_anew(block, rng)
        seen, y = _what_is_read(block, x)
        channels = [len(one[0]) for one in seen]
        read.append([*channels, y.shape[1], block.channels, len(block.layers[-1])])
        found.append(y.flatten())
        expected.append(_by_hand(block, x, plain=layer is tanh).flatten())
    with torch.device("meta"):
        net = DenseNet(40, 12)
        widths = [len(one[0]) for one in _what_is_read(net, torch.zeros(1, 3, 8, 8))[0]]
    if join == "add":  # a layer could only add what has as many channels
        read, widths = [[cin] * (layers + 3)] * 3, [16] * 36
    rule = [cin + growth * number for number in range(layers + 1)]
    behind = [16 + 12 * number for number in range(36)]
    transition: Any = drawn_anew(Transition(5, 0.5, rng=rng), rng)  # 2.5 channels are 2
    x = randn(rng, 4, 5, 6, 9)
    mixed = F.conv2d(_normed(x, transition.layer.norm).relu(), transition.layer.conv.weight)
    halves = [mixed[:, :, i:6:2, j:8:2] for i in (0, 1) for j in (0, 1)]
    return every({
        "channels that layers read": equal(
            read, [[*rule, rule[-1], one] for one in (1, 2, 2)], tol=0,
            why="counts, and the convolutions of a layer",
        ),
        "channels of depth 40": equal(
            [*widths, net.head.in_features, transition.channels], [*behind, 448, 2], tol=0,
            why="counts",
        ).drawn(
            Series(join, range(36), widths),
            Series("16 + 12 l", range(36), behind, "predicted"),
            x="layers l before", y="channels that a layer reads",
        ),
        "block by hand": equal_to_rounding(torch.cat(found), torch.cat(expected)),
        "transition by hand": equal_to_rounding(transition(x), sum(halves) / 4),
        "network by hand": equal_to_rounding(*_whole(rng)),
    })


def _whole(rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Give the scores of a network, and what torch's functions make of its weights."""
    net: Any = DenseNet((2, 3, 1), 3, theta=0.6, channels=2, classes=4, rng=rng).double()
    x = randn(rng, 5, 2, 9, 12)
    y = F.conv2d(x, net.stem.layer.conv.weight, padding=1)
    for place, block in enumerate(net.blocks):
        if place:
            layer = net.transitions[place - 1].layer
            y = F.avg_pool2d(F.conv2d(_normed(y, layer.norm).relu(), layer.conv.weight), 2)
        y = _by_hand(block, y)
    y = _normed(y, net.last.norm).relu().mean(dim=(2, 3))
    return net(x), F.linear(y, net.head.weight, net.head.bias)


def _what_is_read(net: nn.Module, x: Tensor) -> tuple[list[Tensor], Tensor]:
    """Give what enters each layer of each block, and what leaves the network."""
    seen: list[Tensor] = []
    blocks = [one for one in net.modules() if isinstance(one, DenseBlock2d)]
    handles = [
        layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        for block in blocks for layer in block.layers
    ]
    y = net(x)
    for handle in handles:
        handle.remove()
    return seen, y


def _normed(x: Tensor, norm: Any) -> Tensor:
    """Normalize by mean and variance of the batch."""
    var, mean = torch.var_mean(x, (0, 2, 3), keepdim=True, correction=0)
    scale, level = norm.weight[:, None, None], norm.bias[:, None, None]
    return scale * (x - mean) / (var + 1e-5).sqrt() + level


def _by_hand(block: DenseBlock2d, x: Tensor, *, plain: bool = False) -> Tensor:
    """Compute a block by torch's functions; plain layers have tanh and no normalization."""
    layers: Any = block.layers
    for layer in layers:
        y = x
        for one in layer:
            y = y.tanh() if plain else _normed(y, one.norm).relu()
            y = F.conv2d(y, one.conv.weight, padding=one.conv.weight.shape[2] // 2)
        x = torch.cat([x, y], dim=1)
    return x


@claim(
    control={"reading": "the layer before"},
    source="Huang, Liu, van der Maaten and Weinberger 2017, sec. 1",
)
def connection_count(
    seed: Seed, *, layers: Annotated[int, Range(2, 12)] = 6, growth: Few = 3,
    reading: Literal["all layers", "the layer before"] = "all layers",
) -> Evidence:
    r"""A dense block of $L$ layers has $L(L+1)/2$ direct connections; a chain has $L$."""
    rng, counts, edges = seed.torch(), [], []
    numbers = range(1, layers + 1)
    for L in numbers:
        x = randn(rng, 2, growth, 4, 5)
        block: Any = DenseBlock2d(growth, growth, L, rng=rng).double()
        chain = nn.Sequential(*(ConvLayer(growth, growth, rng=rng) for _ in range(L))).double()
        edges = _connections(*(
            (block, list(block.layers)) if reading == "all layers" else (chain, list(chain))
        ), x)
        counts.append(len(edges))
    expected = [L * (L + 1) // 2 for L in numbers]
    places = [(float(k), 0.0) for k in range(layers + 1)]
    arcs = [
        Series("", [a + (b - a) * t / 16 for t in range(17)],
               [(b - a) * (1 - (t / 8 - 1) ** 2) / 2 for t in range(17)], "measured", "line")
        for a, b in edges
    ]
    return equal(
        counts, expected, tol=0, why="a count of maps found again in what a layer reads"
    ).named("connections of 1, 2, ... layers").pictured(Plot(
        (
            *arcs, Graph(places, [], ["x", *map(str, numbers)]),
            Label(f"{counts[-1]} connections of {layers} layers", layers / 2, layers * 0.55,
                  side="above"),
        ),
        bare=True, y_range=(-0.6, layers * 0.65),
    ))


def _connections(
    net: nn.Module, layers: Sequence[nn.Module], x: Tensor
) -> list[tuple[int, int]]:
    """List which maps, 0 the input, are found unchanged in what a layer reads."""
    made, edges = [x], []

    def look(layer: nn.Module, inputs: tuple[Tensor, ...], y: Tensor) -> None:
        width = x.shape[1]
        parts = inputs[0].split(width, dim=1)
        edges.extend(
            (source, len(made)) for source, one in enumerate(made)
            if any(torch.equal(part, one) for part in parts)
        )
        made.append(y)

    handles = [layer.register_forward_hook(look) for layer in layers]
    net(x)
    for handle in handles:
        handle.remove()
    return edges


@claim(
    control=[
        Control({"theta": 1.0}, ["BC, depth 100"], "transitions that keep all channels"),
        Control({"bottleneck": True}, ["depth 40"], "bottlenecks"),
        Control({"stem": "3 x 3"}, [f"photographs, depth {one}" for one in IMAGENET],
                "the stem of small pictures"),
    ],
    source="Huang, Liu, van der Maaten and Weinberger 2017, table 2; torchvision's densenet121",
)
def parameter_counts(
    seed: Seed, *, theta: Annotated[float, Range(0.1, 1)] = 0.5, bottleneck: bool = False,
    stem: Literal["7 x 7", "3 x 3"] = "7 x 7",
) -> Evidence:
    r"""Depth 40 has 1.0 million parameters; with bottlenecks and $\theta=\frac12$ depth 100 0.8."""
    with torch.device("meta"):  # where tensors have a shape, and no memory
        plain = DenseNet(40, 12, bottleneck=bottleneck)
        small = DenseNet(100, 12, bottleneck=True, theta=theta)
        nets = {"depth 40": plain, "BC, depth 100": small}
        known: Mapping[Any, Any] = IMAGENET
        for depth, (growth, counts) in known.items():
            nets[f"photographs, depth {depth}"] = DenseNet.imagenet(depth) if stem == "7 x 7" else (
                DenseNet(counts, growth, bottleneck=True, theta=0.5, channels=Stem(3, 2 * growth),
                         classes=1000)
            )
    found = {name: sum(one.numel() for one in net.parameters()) for name, net in nets.items()}
    return every({
        name: equal([found[name]], [count], tol=0, why="a count")
        for name, count in PUBLISHED.items()
    }).drawn(
        Series("published", [*PUBLISHED], [*PUBLISHED.values()], "predicted", "points"),
        Series("counted", [*found], [*found.values()], style="bars"), x="network", y="parameters",
    )


@claim(
    control={"output": "the last maps"}, refutes=["difference", "checkpointed"],
    source="Huang, Liu, van der Maaten and Weinberger 2017, sec. 3",
)
def every_layer_sees_the_loss(
    seed: Seed, *, layers: Annotated[int, Range(2, 10)] = 5, growth: Few = 3,
    output: Literal["all maps", "the last maps"] = "all maps",
) -> Evidence:
    r"""What leaves the block holds the maps of each layer: their gradient is 1, and the rest."""
    x = randn(seed.torch(), 4, 2, 6, 5)
    kept, anew = (
        _ways_back(seed.child("block"), x, growth, layers, checkpoint, output)
        for checkpoint in (False, True)
    )
    direct, one = range(1, layers), torch.ones((), dtype=x.dtype)
    return every({
        "difference": equal_to_rounding(kept.direct, one).drawn(
            Series(output, direct, kept.direct.mean(dim=(1, 2, 3, 4))),
            Series("identity part", direct, [1.0] * len(direct), "predicted", "line"),
            x="layer", y="direct gradient / that of the output",
        ),
        "checkpointed": equal_to_rounding(anew.direct, one),
        "gradients and statistics with checkpoints": equal_to_rounding(anew.learned, kept.learned),
        "memory": at_most(
            anew.memory / kept.memory, 0.5, why="what is inside of the layers is not kept"
        ).named("share of the memory"),
    })


class _Ways(NamedTuple):
    """The direct gradients, all that is learned from, and the numbers that wait for it."""

    direct: Tensor
    learned: Tensor
    memory: int


def _ways_back(
    seed: Seed, x: Tensor, growth: int, layers: int, checkpoint: bool, output: str
) -> _Ways:
    """Look at what comes back to each layer with and without its maps in the output."""
    rng, made, sizes = seed.torch(), [], []
    more: Any = {"checkpoint": True} if checkpoint else {}
    block = DenseBlock2d(2, growth, layers, bottleneck=True, rng=rng, **more)
    drawn_anew(block, rng)
    handles = [
        layer.register_forward_hook(lambda *given: made.append(given[2]))
        for layer in block.layers
    ]
    with torch.autograd.graph.saved_tensors_hooks(
        lambda one: sizes.append(one.numel()) or one, lambda one: one
    ):
        y = block(x)
    for handle in handles:
        handle.remove()
    weights = randn(rng, *y.shape)
    seen = torch.ones_like(y)
    if output == "the last maps":
        seen[:, :-growth] = 0
    maps = made[: layers - 1]  # the last one has no other way
    full = torch.autograd.grad((weights * seen * y).sum(), maps, retain_graph=True)
    direct = []
    for number, gradient in enumerate(full):
        at = slice(2 + growth * number, 2 + growth * (number + 1))
        rest = seen.clone()
        rest[:, at] = 0
        (around,) = torch.autograd.grad(
            (weights * rest * y).sum(), maps[number], retain_graph=True
        )
        direct.append((gradient - around) / weights[:, at])
    learned = torch.autograd.grad((weights * y).sum(), [*block.parameters()])
    state = [one.double() for one in block.buffers()]
    everything = torch.cat([one.flatten() for one in (*learned, *state)])
    return _Ways(torch.stack(direct), everything, sum(sizes) + y.numel())


@claim(control={"order": "newest first"}, source="torchvision's densenet121")
def torchvision_weights_fit(
    seed: Seed, *, classes: Annotated[int, Range(2, 1000)] = 7,
    order: Literal["oldest first", "newest first"] = "oldest first",
) -> Evidence:
    r"""Weights under torchvision's names give the network that its formulas say."""
    rng = seed.torch()
    weights = _torchvision(classes, rng)
    net = DenseNet.from_torchvision(weights, depth=121).eval()
    x = torch.randn(3, 2, 45, 70, generator=rng)
    with torch.no_grad():
        found, expected = net(x), _by_their_names(weights, x, order)
    shown = range(min(classes, 50))
    return equal(
        found, expected, tol=1e-3 * float(expected.abs().max()),
        why="float32 through 121 layers, summed in another order",
    ).named("scores").drawn(
        Series("by their names", shown, expected[0][: len(shown)], "predicted", "points"),
        Series("DenseNet.from_torchvision", shown, found[0][: len(shown)]),
        x="class", y="score of the first picture",
    )


def _torchvision(classes: int, rng: torch.Generator) -> dict[str, Tensor]:
    """Draw weights of torchvision's DenseNet-121 for two channels, under its names."""
    found: dict[str, Tensor] = {}

    def conv(name: str, *shape: int) -> None:
        fan = shape[1] * shape[2] * shape[3]
        found[f"{name}.weight"] = torch.randn(shape, generator=rng) * (2 / fan) ** 0.5

    def norm(name: str, channels: int) -> None:
        level, mean = torch.randn(2, channels, generator=rng) / 10
        scale, var = 0.5 + torch.rand(2, channels, generator=rng)
        state = {"weight": scale, "bias": level, "running_mean": mean, "running_var": var}
        found.update({f"{name}.{which}": one for which, one in state.items()})

    conv("features.conv0", 64, 2, 7, 7)
    norm("features.norm0", 64)
    channels = 64
    for block, layers in enumerate((6, 12, 24, 16), start=1):
        for layer in range(1, layers + 1):
            at = f"features.denseblock{block}.denselayer{layer}"
            norm(f"{at}.norm1", channels)
            conv(f"{at}.conv1", 128, channels, 1, 1)
            norm(f"{at}.norm2", 128)
            conv(f"{at}.conv2", 32, 128, 3, 3)
            channels += 32
        if block < 4:
            norm(f"features.transition{block}.norm", channels)
            conv(f"features.transition{block}.conv", channels // 2, channels, 1, 1)
            channels //= 2
    norm("features.norm5", channels)
    found["classifier.weight"] = torch.randn(classes, channels, generator=rng)
    found["classifier.bias"] = torch.randn(classes, generator=rng)
    return found


def _by_their_names(weights: Mapping[str, Tensor], x: Tensor, order: str) -> Tensor:
    """Compute torchvision's DenseNet-121 by formulas of torch."""
    def conv(name: str, x: Tensor, stride: int = 1) -> Tensor:
        kernel = weights[f"{name}.weight"]
        return F.conv2d(x, kernel, stride=stride, padding=kernel.shape[2] // 2)

    def norm(name: str, x: Tensor) -> Tensor:
        names = ("running_mean", "running_var", "weight", "bias")
        mean, var, scale, level = (weights[f"{name}.{one}"] for one in names)
        return F.batch_norm(x, mean, var, scale, level).relu()

    x = F.max_pool2d(norm("features.norm0", conv("features.conv0", x, 2)), 3, 2, 1)
    for block, layers in enumerate((6, 12, 24, 16), start=1):
        for layer in range(1, layers + 1):
            at = f"features.denseblock{block}.denselayer{layer}"
            y = conv(f"{at}.conv1", norm(f"{at}.norm1", x))
            y = conv(f"{at}.conv2", norm(f"{at}.norm2", y))
            x = torch.cat([x, y] if order == "oldest first" else [y, x], dim=1)
        if block < 4:
            at = f"features.transition{block}"
            x = F.avg_pool2d(conv(f"{at}.conv", norm(f"{at}.norm", x)), 2)
    x = norm("features.norm5", x).mean(dim=(2, 3))
    return x @ weights["classifier.weight"].T + weights["classifier.bias"]

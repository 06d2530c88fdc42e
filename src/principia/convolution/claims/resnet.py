r"""Residual networks: what is true of it, and what would refute it.

Knobs:
    channels: Channels that enter a block.
    zero_init: Whether the last normalization of the branch has weights 0.
    alpha: Factor of the branch.
    identity: Whether the state is added to what a branch makes of it.
    n: Blocks behind each other.
    dim: Numbers of a state.
    draws: Independent stacks of blocks.
    cin: Channels that come in.
    cout: Channels that go out.
    stride: Distance of the pixels that are kept.
    shortcut: What is added to the branch; B has parameters.
    blocks: Which blocks the networks for photographs have.
    stride_in: Which convolution of a bottleneck has the stride; torchvision moved it.
    classes: Classes of the network.
    shortcuts: In which of the two networks there are shortcuts.
    width: Channels of the first group.
    steps: Steps of each training.
    images: Digits that are learned.
"""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.convolution.layer import multiply_adds
from principia.convolution.resnet import (
    IMAGENET,
    BottleneckBlock,
    ConvLayer,
    PlainNet,
    ResidualBlock,
    ResNet,
    Stem,
)
from principia.lab.data.digits import digits
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
    mean_is,
    standard_error,
)
from principia.lab.params import Range
from principia.lab.pictures import Plot, Rule
from principia.lab.seeds import Seed
from principia.networks.residual import SkipNetwork

TABLE_6 = {20: 269_722, 32: 464_154, 44: 658_586, 56: 853_018, 110: 1_727_962}
PHOTOGRAPHS = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032, 101: 44_549_160, 152: 60_192_808}
BILLIONS = {50: 4.089}  # of multiplications of a photograph of 224 x 224 pixels
EXACT = "exact: a branch of 0, or times 0"


@claim(
    control=[
        Control(
            {"zero_init": False},
            ["two convolutions", "bottleneck", "no normalization", "shortcut B", "gradient",
             "network"],
            "branches as He draws them",
        ),
        Control({"alpha": 0.5}, ["α = 0", "α = 0, plain"], "half of each branch"),
    ],
    source="Goyal et al. 2017, sec. 5.1; He, Zhang, Ren and Sun 2016, CVPR, sec. 3.1",
)
def zero_branch_is_identity(
    seed: Seed, *, channels: Annotated[int, Range(2, 20)] = 3, zero_init: bool = True,
    alpha: Annotated[float, Range(0, 1)] = 0.0,
) -> Evidence:
    r"""With a branch of 0, or $\alpha=0$, a block is what its shortcut path is."""
    rng, C = seed.torch(), channels
    smooth = partial(ConvLayer, norm=nn.Identity, activation=nn.Tanh)
    zero: Any = {"zero_init": True} if zero_init else {}
    made: dict[str, Any] = {
        "two convolutions": ResidualBlock(C, C, rng=rng, **zero),
        "bottleneck": BottleneckBlock(4 * C, C, rng=rng, **zero),
        "no normalization": ResidualBlock(C, C, layer=smooth, rng=rng, **zero),
        "shortcut B": ResidualBlock(C, 2 * C, 3, shortcut="B", rng=rng, **zero),
        "α = 0": ResidualBlock(C, C, shortcut="B", alpha=alpha, rng=rng),
        "α = 0, plain": ResidualBlock(C, C, shortcut="none", alpha=alpha, rng=rng),
    }
    found, expected, pictures = {}, {}, {}
    for name, block in made.items():
        pictures[name] = x = randn(rng, 4, 4 * C if name == "bottleneck" else C, 5, 7)
        found[name] = block.double()(x.requires_grad_())
        expected[name] = x.tanh() if name == "no normalization" else x.relu()
    expected["α = 0, plain"] = torch.zeros(()).double()
    projection = drawn_anew(made["shortcut B"].shortcut, rng)
    found["shortcut B"], x = made["shortcut B"](pictures["shortcut B"]), pictures["shortcut B"]
    linear = F.conv2d(x, projection.conv.weight, stride=3)
    normed = F.batch_norm(linear, None, None, *projection.norm.parameters(), training=True)
    parts = {
        name: equal(
            y, expected[name], tol=0, why=EXACT
        ) if name != "shortcut B" else equal_to_rounding(y, normed.relu())
        for name, y in found.items()
    }
    x, y = pictures["two convolutions"], found["two convolutions"]
    slope, cotangent = expected["two convolutions"].detach() > 0, randn(rng, *y.shape)
    (gradient,) = torch.autograd.grad(y, x, cotangent)
    parts["gradient"] = equal(gradient, slope * cotangent, tol=0, why=EXACT)
    parts |= _whole(rng, C, zero_init)
    line = torch.linspace(-2, 2, 41)
    other = ResidualBlock(C, C, rng=rng).double()(x)
    return every(parts).drawn(
        Series("branch as drawn by He", x[0].flatten(), other[0].flatten(), "gray", "points"),
        Series("two convolutions", x[0].flatten(), y[0].flatten()),
        Series("φ(x)", line, line.relu(), "predicted"), x="pixel of the input",
        y="pixel of the output",
    )


def _whole(rng: torch.Generator, channels: int, zero_init: bool) -> dict[str, Evidence]:
    """Compare a network of such blocks, and a layer, with what torch's functions say."""
    def normed(x: Tensor, norm: Any) -> Tensor:
        return F.batch_norm(x, None, None, *norm.parameters(), training=True)

    block = partial(ResidualBlock, zero_init=zero_init)
    net: Any = ResNet(2, channels=channels, width=3, classes=4, block=block, rng=rng).double()
    layer: Any = drawn_anew(ConvLayer(channels, 4, pre=True, rng=rng), rng)
    x = randn(rng, 5, channels, 9, 14)
    stem = normed(F.conv2d(x, net.stem.layer.conv.weight, padding=1), net.stem.layer.norm).relu()
    kept = F.pad(stem[:, :, ::4, ::4].mean(dim=(2, 3)), (0, 9))  # of 12 channels
    before = F.conv2d(normed(x, layer.norm).relu(), layer.conv.weight, padding=1)
    scores = F.linear(kept, net.head.weight, net.head.bias).flatten()
    last = net.groups[0][0].branch[1]
    found = torch.cat([net(x).flatten(), last.norm.weight, (last.conv.weight == 0).sum()[None]])
    return {
        "network": equal_to_rounding(found, F.pad(scores, (0, 4))),  # a norm of 3 zeros, no more
        "a layer, normalized before": equal_to_rounding(layer(x), before),
    }


@claim(
    control={"identity": False},
    source="an identity of Gaussian matrices; compare He et al. 2016, ECCV, sec. 2",
)
def skip_growth_law(
    seed: Seed, *, alpha: Annotated[float, Range(0.05, 0.5)] = 0.2,
    n: Annotated[int, Range(1, 40)] = 20, dim: Annotated[int, Range(8, 64)] = 32,
    draws: Annotated[int, Range(200, 4000)] = 1500, identity: bool = True,
) -> Evidence:
    r"""$\mathrm E\Vert\prod(I+\alpha J_j)v\Vert^2=(1+\alpha^2)^n$ for independent random $J_j$."""
    rng = seed.torch()
    v = F.normalize(randn(rng, draws, dim), dim=1)
    branch = _RandomLinear(rng)
    states = SkipNetwork([branch] * n, alpha=alpha).states(v) if identity else [v]
    while len(states) <= n:
        states.append(alpha * branch(states[-1]))
    squares = torch.stack(states[1:]).square().sum(dim=2).T  # (draws, n)
    blocks = torch.arange(1, n + 1)
    law = (1 + alpha**2) ** blocks.double()
    return mean_is(
        squares, law, why="over independent stacks of matrices"
    ).named("squared length").drawn(
        Series("mean", blocks, squares.mean(dim=0), error=standard_error(squares)),
        Series("(1 + α²)ⁿ", blocks, law, "predicted"),
        x="blocks n", y="mean squared length", log="y",
    )


class _RandomLinear(nn.Module):
    """Multiplies each row by a random matrix of its own, with entries of variance 1 / dim."""

    def __init__(self, rng: torch.Generator) -> None:
        super().__init__()
        self.rng = rng

    def forward(self, y: Tensor) -> Tensor:
        dim = y.shape[1]
        J = torch.randn(len(y), dim, dim, generator=self.rng, dtype=y.dtype)
        return (J @ y[:, :, None])[:, :, 0] / dim**0.5


@claim(
    control={"shortcut": "B"}, source="He, Zhang, Ren and Sun 2016, CVPR, sec. 3.3, option A"
)
def shortcut_a_is_free(
    seed: Seed, *, cin: Annotated[int, Range(1, 20)] = 3, cout: Annotated[int, Range(1, 40)] = 8,
    stride: Annotated[int, Range(2, 4)] = 2, shortcut: Literal["A", "B"] = "A",
) -> Evidence:
    r"""Option A has no parameters: every pixel of a stride, and channels of zeros."""
    rng, found, expected, counts = seed.torch(), [], [], []
    cout = max(cin, cout)
    for channels, step in ((cout, stride), (cin, stride), (cout, 1)):
        block = ResidualBlock(cin, channels, step, shortcut=shortcut, zero_init=True, rng=rng)
        x = randn(rng, 4, cin, 7, 10)
        found.append(block.double()(x).flatten())
        target = x.new_zeros(4, channels, -(-7 // step), -(-10 // step))
        target[:, :cin] = x[:, :, ::step, ::step].relu()
        expected.append(target.flatten())
        plain = ResidualBlock(cin, channels, step, shortcut="none", rng=rng)
        weights = 9 * (cin + channels) * channels + 4 * channels  # and two normalizations
        counts.append((_count(block), _count(plain), weights))
    block = partial(ResidualBlock, shortcut=shortcut)
    nets = [make(2, channels=cin, block=block, rng=rng) for make in (ResNet, PlainNet)]
    counts.append((*map(_count, nets), 172_074 + 144 * cin))
    ours, without, formula = zip(*counts, strict=True)
    seen = slice(0, 300)
    return every({
        "output on a zero branch": equal(
            torch.cat(found), torch.cat(expected), tol=0, why=EXACT
        ).drawn(
            Series("x[:, :, ::s, ::s] and zeros", expected[0][seen], expected[0][seen],
                   "predicted"),
            Series(f"block with shortcut {shortcut}", expected[0][seen], found[0][seen]),
            x="every s-th pixel, rectified, then zeros", y="output of the block",
        ),
        "parameters": equal([*ours, *ours], [*without, *formula], tol=0, why="counts"),
    })


def _count(net: nn.Module) -> int:
    return sum(one.numel() for one in net.parameters())


@claim(
    control=[
        Control({"shortcut": "B"}, ["five depths", "one channel"], "shortcuts with parameters"),
        Control({"blocks": "two convolutions"}, ["photographs", "their depths",
                                                 "billions of multiplications"],
                "no bottlenecks"),
    ],
    source="He, Zhang, Ren and Sun 2016, CVPR, tables 1 and 6; torchvision's table of models",
)
def parameter_counts(
    seed: Seed, *, shortcut: Literal["A", "B"] = "A",
    blocks: Literal["as published", "two convolutions"] = "as published",
) -> Evidence:
    r"""Depth 20, 32, 44, 56, 110: 0.27, 0.46, 0.66, 0.85 and 1.7 million parameters."""
    block = partial(ResidualBlock, shortcut=shortcut)
    with torch.device("meta"):  # where tensors have a shape, and no memory
        nets = [ResNet((depth - 2) // 6, block=block) for depth in TABLE_6]
        small = [ResNet(1, channels=1, block=block), ResNet((1, 1, 1), channels=1, block=block)]
        large = {depth: _for_photographs(depth, blocks) for depth in PHOTOGRAPHS}
        work = [sum(multiply_adds(large[one], (3, 224, 224)).values()) / 1e9 for one in BILLIONS]
    counts, depths = [_count(net) for net in nets], [net.depth for net in nets]
    why = "a count"
    return every({
        "five depths": equal(
            [*counts, *depths], [*TABLE_6.values(), *TABLE_6], tol=0, why=why
        ).drawn(
            Series(f"shortcut {shortcut}", [*TABLE_6], counts),
            Series("paper", [*TABLE_6], [0.27e6, 0.46e6, 0.66e6, 0.85e6, 1.7e6], "predicted",
                   "points"),
            x="depth 6n + 2", y="parameters",
        ),
        "one channel": equal([_count(net) for net in small], 75_002, tol=0, why=why),
        "photographs": equal(
            [_count(net) for net in large.values()], [*PHOTOGRAPHS.values()], tol=0, why=why
        ),
        "their depths": equal(
            [net.depth for net in large.values()], [*large], tol=0, why="their names"
        ),
        "billions of multiplications": equal(
            work, [*BILLIONS.values()], tol=5e-4, why="as rounded in the table"
        ),
    })


def _for_photographs(depth: Any, blocks: str) -> ResNet:
    if blocks == "as published":
        return ResNet.imagenet(depth)
    return ResNet(
        IMAGENET[depth][1], width=64, classes=1000, block=partial(ResidualBlock, shortcut="B"),
        stem=partial(Stem, kernel=7, stride=2, pool=True),
    )


@claim(
    control={"stride_in": "1 x 1"},  # where the paper's bottleneck has it
    source="torchvision's resnet50; He, Zhang, Ren and Sun 2016, CVPR, table 1",
)
def torchvision_weights_fit(
    seed: Seed, *, classes: Annotated[int, Range(2, 1000)] = 7,
    stride_in: Literal["3 x 3", "1 x 1"] = "3 x 3",
) -> Evidence:
    r"""Weights under torchvision's names give the network that its formulas say."""
    rng = seed.torch()
    weights = _torchvision(classes, rng)
    net = ResNet.from_torchvision(weights, depth=50).eval()
    x = torch.randn(3, 2, 45, 70, generator=rng)
    with torch.no_grad():
        found, expected = net(x), _by_their_names(weights, x, stride_in)
    shown = range(min(classes, 50))
    return equal(
        found, expected, tol=1e-3 * float(expected.abs().max()),
        why="float32 through 50 layers, summed in another order",
    ).named("scores").drawn(
        Series("by their names", shown, expected[0][: len(shown)], "predicted", "points"),
        Series("ResNet.from_torchvision", shown, found[0][: len(shown)]),
        x="class", y="score of the first picture",
    )


def _torchvision(classes: int, rng: torch.Generator) -> dict[str, Tensor]:
    """Draw weights of torchvision's ResNet-50 for two channels, under its names."""
    found: dict[str, Tensor] = {}

    def add(conv: str, norm: str, cout: int, cin: int, kernel: int) -> None:
        drawn = torch.randn(cout, cin, kernel, kernel, generator=rng)
        found[f"{conv}.weight"] = drawn / (cin * kernel**2) ** 0.5
        low, high = torch.randn(2, cout, generator=rng) / 10
        scale, var = 0.5 + torch.rand(2, cout, generator=rng)
        state = {"weight": scale, "bias": low, "running_mean": high, "running_var": var}
        found.update({f"{norm}.{name}": one for name, one in state.items()})

    add("conv1", "bn1", 64, 2, 7)
    cin = 64
    for group, count in enumerate(IMAGENET[50][1], start=1):
        width = 32 * 2**group
        for place in range(count):
            at = f"layer{group}.{place}"
            sizes = ((width, cin, 1), (width, width, 3), (4 * width, width, 1))
            for number, size in enumerate(sizes, start=1):
                add(f"{at}.conv{number}", f"{at}.bn{number}", *size)
            if not place:
                add(f"{at}.downsample.0", f"{at}.downsample.1", 4 * width, cin, 1)
            cin = 4 * width
    found["fc.weight"] = torch.randn(classes, cin, generator=rng)
    found["fc.bias"] = torch.randn(classes, generator=rng)
    return found


def _by_their_names(weights: Mapping[str, Tensor], x: Tensor, stride_in: str) -> Tensor:
    """Compute torchvision's ResNet-50 by formulas of torch."""
    def layer(conv: str, norm: str, x: Tensor, stride: int = 1) -> Tensor:
        kernel = weights[f"{conv}.weight"]
        y = F.conv2d(x, kernel, stride=stride, padding=kernel.shape[2] // 2)
        names = ("running_mean", "running_var", "weight", "bias")
        mean, var, scale, level = (weights[f"{norm}.{one}"] for one in names)
        return F.batch_norm(y, mean, var, scale, level)

    x = F.max_pool2d(layer("conv1", "bn1", x, 2).relu(), 3, 2, 1)
    for group, count in enumerate(IMAGENET[50][1], start=1):
        for place in range(count):
            at, s = f"layer{group}.{place}", 2 if group > 1 and not place else 1
            strides = (1, s, 1) if stride_in == "3 x 3" else (s, 1, 1)
            y = x
            for number, stride in enumerate(strides, start=1):
                y = layer(f"{at}.conv{number}", f"{at}.bn{number}", y, stride)
                y = y.relu() if number < 3 else y
            if not place:
                x = layer(f"{at}.downsample.0", f"{at}.downsample.1", x, s)
            x = (x + y).relu()
    return x.mean(dim=(2, 3)) @ weights["fc.weight"].T + weights["fc.bias"]


@claim(
    control={"shortcuts": "in both"},
    source="He, Zhang, Ren and Sun 2016, CVPR, fig. 1 and 6, in small",
)
def depth_degrades_plain_nets(
    seed: Seed, *, width: Annotated[int, Range(4, 16)] = 8,
    steps: Annotated[int, Range(30, 300)] = 50, images: Annotated[int, Range(64, 1400)] = 256,
    shortcuts: Literal["in one", "in both"] = "in one",
) -> Evidence:
    r"""Of 22 layers, plain ones have a higher training loss than those with shortcuts."""
    x, y = digits()[:2]
    curves = []
    for make in (ResNet, PlainNet if shortcuts == "in one" else ResNet):
        net = make((4, 3, 3), channels=1, width=width, rng=seed.child("init").torch())
        sgd = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
        rng, losses = seed.child("batches").torch(), []  # the same ones for both
        for _ in range(steps):
            rows = torch.randint(images, (64,), generator=rng)
            sgd.zero_grad()
            loss = F.cross_entropy(net(x[rows, None]), y[rows])
            loss.backward()
            sgd.step()
            losses.append(loss.item())
        curves.append(losses)
    last = [sum(one[-10:]) / 10 for one in curves]
    second = "plain" if shortcuts == "in one" else "with shortcuts, too"
    return at_least(
        last[1] / last[0], 3.0, why="ten and more in trials; small nets and few steps vary"
    ).named("ratio of the training losses").pictured(Plot(
        (
            Series(second, range(steps), curves[1], "orange", "line"),
            Series("with shortcuts", range(steps), curves[0], "measured", "line"),
            Rule("a third", y=last[1] / 3),
        ),
        x="step", y="training loss, 22 layers", log="y",
    ))

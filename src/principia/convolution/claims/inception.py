r"""1x1 convolutions and Inception: what is true of it, and what would refute it.

Knobs:
    kernel: Side of the kernels; from 3 on a layer sees neighbors, too.
    reductions: Whether there are compressions in front of large kernels and behind the pooling.
    settings: Layers with random numbers of channels, kernels and pictures.
    share: Of the channels that the compression keeps.
    large: Sides of the kernels behind the compression; behind one with 1 x 1 it is all cost.
    weight: Of the loss of an auxiliary head; 0 leaves it out.
    layers: Convolutions of the stack; a head stands on the fourth.
    draws: Independent networks.
    kernels: Whether kernels are products of a column and a row, or drawn at random.
    order: What stands behind a convolution first.
"""

import functools
import math
from collections.abc import Sequence
from typing import Annotated, Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.convolution.inception import (
    AuxiliaryHead,
    BasicConv2d,
    FactorizedConv,
    InceptionModule,
    InceptionNet,
    auxiliary_loss,
    separable,
)
from principia.convolution.layer import multiply_adds
from principia.gradients.depth import gradient_profile
from principia.lab.draws import drawn_anew, rand, randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    standard_error,
)
from principia.lab.params import Range, UsageError
from principia.lab.pictures import Rule
from principia.lab.seeds import Seed
from principia.regularization.initialization import initialize_

EXACT = "whole numbers"
PUBLISHED = {  # modules of Szegedy et al. 2015, table 1: channels that come in, and the six widths
    "3a": (192, (64, 96, 128, 16, 32, 32)), "3b": (256, (128, 128, 192, 32, 96, 64)),
    "4a": (480, (192, 96, 208, 16, 48, 64)), "4b": (512, (160, 112, 224, 24, 64, 64)),
    "4c": (512, (128, 128, 256, 24, 64, 64)), "4d": (512, (112, 144, 288, 32, 64, 64)),
    "4e": (528, (256, 160, 320, 32, 128, 128)), "5a": (832, (256, 160, 320, 32, 128, 128)),
    "5b": (832, (384, 192, 384, 48, 128, 128)),
}
plain = functools.partial(BasicConv2d, norm=None)


@claim(control={"kernel": 3}, source="Lin, Chen and Yan 2014, sec. 3")
def conv1x1_is_a_pixel_layer(seed: Seed, *, kernel: Literal[1, 3] = 1) -> Evidence:
    r"""A 1 x 1 convolution is $\sigma(Wx_{ij}+b)$, the same at every pixel, and sees only it."""
    rng = seed.torch()
    layer = drawn_anew(plain(5, 3, kernel, rng=rng), rng)
    smooth = drawn_anew(plain(5, 3, kernel, activation=nn.Tanh, rng=rng), rng)
    x = randn(rng, 2, 5, 6, 4).requires_grad_()
    middle = kernel // 2
    W, b = layer.conv.weight[:, :, middle, middle], layer.conv.bias
    pixels = (F.linear(x.movedim(1, -1), W) + b).relu().movedim(-1, 1)
    found = layer(x)
    (slope,) = torch.autograd.grad(smooth(x)[1, :, 3, 2].sum(), x)
    seen = slope.abs().sum(dim=1) > 0
    places = pixels.detach().flatten()
    return every({
        "outputs": equal_to_rounding(found, pixels),
        "pixels seen": equal(
            [int(seen.sum()), int(seen[1, 3, 2])], [1, 1], tol=0,
            why="pixels with a gradient, and the one at the same place",
        ),
    }).drawn(
        Series(f"convolution, {kernel} x {kernel}", places, found.flatten()),
        Series("one matrix for all pixels", [0.0, places.max()], [0.0, places.max()], "predicted"),
        x="matrix times the channels of a pixel, rectified", y="output of the convolution",
    )


@claim(
    control={"reductions": "none"},
    refutes=["weights", "multiplications", "channels"],
    source="Szegedy et al. 2015, table 1",
)
def module_counts(
    seed: Seed, *, reductions: Literal["as published", "none"] = "as published"
) -> Evidence:
    """Module 3a has 163,328 weights, 128 million multiplications at 28 x 28, and 256 channels."""
    with torch.device("meta"):  # counted without memory
        modules = {name: InceptionModule(*one, block=plain) for name, one in PUBLISHED.items()}
        naive = {name: InceptionModule(inputs, (one, 0, three, 0, five, 0), block=plain)
                 for name, (inputs, (one, _, three, _, five, _)) in PUBLISHED.items()}
        first = (modules if reductions == "as published" else naive)["3a"]
        channels = first(torch.zeros(1, 192, 28, 28)).shape[1]
        parts = {name: one.numel() for name, one in InceptionNet(kernel=3).named_parameters()}
    heads = sum(count for name, count in parts.items() if name.startswith("aux"))
    names = list(PUBLISHED)
    work = sum(multiply_adds(first, (192, 28, 28)).values())
    return every({
        "weights": equal(_weights(first), 163_328, tol=0, why="159.5 times 1024"),
        "multiplications": equal(work / 1e6, 128, tol=0.5, why="three digits, in millions"),
        "channels": equal([channels, first.outputs], [256, 256], tol=0, why=EXACT),
        "torchvision's GoogLeNet": equal(
            [sum(parts.values()), sum(parts.values()) - heads], [13_004_888, 6_624_904], tol=0,
            why="whole numbers, with its heads and without",
        ),
    }).drawn(
        Series("without compressions", names, [_weights(one) / 1e6 for one in naive.values()],
               "red", "bars"),
        Series("as published", names, [_weights(one) / 1e6 for one in modules.values()],
               "measured", "bars"),
        x="module of GoogLeNet", y="weights, in millions",
    )


def _weights(module: nn.Module) -> int:
    return sum(one.numel() for one in module.parameters() if one.ndim == 4)


@claim(
    control={"share": 1.0, "large": "1 x 1"}, refutes=["saving"],
    source="Szegedy et al. 2015, sec. 4",
)
def bottleneck_saves(
    seed: Seed, *, settings: Annotated[int, Range(2, 100)] = 20,
    share: Annotated[float, Range(0.02, 1)] = 0.25, large: Literal["drawn", "1 x 1"] = "drawn",
) -> Evidence:
    r"""Through $r$ channels a layer costs $(cr+q^2ro)/(q^2co)$ of what it costs directly."""
    rng, found, formula = seed.torch(), [], []
    for number in range(settings):
        c, more, H, W = (int(one) for one in torch.randint(3, 40, (4,), generator=rng))
        q = 1 if large == "1 x 1" else 3 + 2 * (number % 3)
        o, r = c + more, max(1, int(share * c))
        found.append(_left(c, r, o, q, (H, W)))
        formula.append((c * r + q**2 * r * o) / (q**2 * c * o))
    side = 1 if large == "1 x 1" else 5
    numbers = [16, 32, 64, 128, 192]
    through = [_left(192, r, 32, side, (3, 2)) for r in numbers]
    exact = [(192 * r + side**2 * r * 32) / (side**2 * 192 * 32) for r in numbers]
    return every({
        "formula": equal([*found, *through], [*formula, *exact], tol=1e-12, why="float64 rounding"),
        "saving": at_most(found, 1.0, why="less than without it"),
    }).drawn(
        Series("multiplications, counted", numbers, through),
        Series("formula", numbers, exact, "predicted"), Rule("as without it", y=1.0),
        x=f"channels r between 192 and 32, {side} x {side}", y="share of the cost that is left",
    )


def _left(c: int, r: int, o: int, q: int, sides: tuple[int, int]) -> float:
    """Count the multiplications of both branches with large kernels, with and without r."""
    costs = []
    with torch.device("meta"):
        for between in (r, 0):
            module = InceptionModule(c, (1, between, o, between, o, 1), kernel=q, block=plain)
            work = multiply_adds(module, (c, *sides))
            branch = "branch2" if q == 3 else "branch3"
            costs.append(sum(one for name, one in work.items() if name.startswith(branch)))
    return costs[0] / costs[1]


@claim(control={"weight": 0.0}, refutes=["ratio"], source="Szegedy et al. 2015, sec. 5")
def auxiliary_heads_feed_early_layers(
    seed: Seed, *, weight: Annotated[float, Range(0, 2)] = 0.3,
    layers: Annotated[int, Range(6, 20)] = 12, draws: Annotated[int, Range(3, 50)] = 10,
) -> Evidence:
    """At the start a head in the middle of a deep stack at least doubles the first gradient."""
    rng, curves = seed.torch(), []
    x, y = rand(rng, 16, 3, 8, 6), torch.arange(16) % 5
    for _ in range(draws):
        net = _Stack(layers, rng).double()
        norms = []
        for its in (weight, 0.0):
            loss = functools.partial(auxiliary_loss, weight=its)
            profile = gradient_profile(net, x, y, loss)
            norms.append([profile[f"layers.{number}.conv"] for number in range(layers)])
        curves.append(norms)
    levels = torch.tensor(curves, dtype=torch.float64)  # (draws, with and without, layers)
    ratios = (levels[:, 0, 0] / levels[:, 1, 0]).log()
    scores = randn(rng, 3, 16, 5)
    by_hand = -scores.log_softmax(dim=2)[:, torch.arange(16), y].mean(dim=1)
    losses = auxiliary_loss((scores[0], [*scores[1:]]), y), auxiliary_loss(scores[0], y)
    with_head, without = levels.log().mean(dim=0).exp()
    numbers = range(1, layers + 1)
    return every({
        "ratio": at_least(
            (ratios.mean() - 3 * standard_error(ratios)).exp(), 2.0,
            why="three standard errors below the geometric mean",
        ),
        "loss": equal_to_rounding(
            torch.stack(losses),
            torch.stack([by_hand[0] + 0.3 * by_hand[1] + 0.3 * by_hand[2], by_hand[0]]),
        ),
    }).drawn(
        Series(f"with a head, weight {weight:g}", numbers, with_head, "measured", "line"),
        Series("without", numbers, without, "other", "line"),
        Rule("the head", x=4.0, role="gray"),
        x="layer", y="gradient of its weights, geometric mean", log="y",
    )


@final
class _Stack(nn.Module):
    """Convolutions with tanh, with a head on the fourth, from torch's own start."""

    def __init__(self, layers: int, rng: torch.Generator) -> None:
        super().__init__()
        bent = functools.partial(plain, activation=nn.Tanh, rng=rng)
        self.layers = nn.ModuleList(bent(3 if n == 0 else 8, 8, 3) for n in range(layers))
        self.head = AuxiliaryHead(8, 5, width=4, hidden=16, block=bent, rng=rng)
        self.last = nn.utils.skip_init(nn.Linear, 8, 5)
        initialize_(self, "default", rng=rng)
        self.head.dropout.eval()  # what it leaves out is no matter of the start

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        others = []
        for number, layer in enumerate(self.layers, start=1):
            x = layer(x)
            if number == 4:
                others.append(self.head(x))
        return self.last(x.mean(dim=(2, 3))), others


@claim(control={"kernels": "random"}, refutes=["layers"], source="Szegedy et al. 2016, sec. 3.2")
def rank_one_kernels_factor(
    seed: Seed, *, kernels: Literal["rank one", "random"] = "rank one"
) -> Evidence:
    r"""A kernel is a column and then a row, 2n weights for n², if and only if its rank is 1."""
    rng = seed.torch()
    bells = [(-torch.linspace(-2, 2, n).double().square() / width).exp()
             for n, width in ((5, 1.3), (5, 4.0))]
    known = {"Sobel": torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]]).double(),
             "Gaussian": torch.outer(*bells)}
    drawn = {"random": randn(rng, 5, 5)}
    found, expected, counts = [], [], []
    x = randn(rng, 2, 1, 9, 7)
    for kernel in (known if kernels == "rank one" else drawn).values():
        layer = drawn_anew(FactorizedConv(1, 1, len(kernel), rng=rng), rng)
        column, row = separable(kernel)
        layer.column.weight.data = column[None, None, :, None]
        layer.row.weight.data = row[None, None, None]
        found.append(layer(x).flatten())
        direct = F.conv2d(x, kernel[None, None], layer.row.bias, padding=len(kernel) // 2)
        expected.append(direct.flatten())
    for n in (3, 5, 7):
        counts.append([_weights(FactorizedConv(4, 4, n, rng=rng)), 2 * n * 16])
    several = randn(rng, 2, 3, 5, 4)
    columns, rows = separable(several)
    miss = (several - columns[..., None] * rows[..., None, :]).square().sum(dim=(2, 3))
    smaller = torch.linalg.svdvals(several)[..., 1:].square().sum(dim=2)
    steps = range(1, 6)
    shares = {name: (lambda s: s / s[0])(torch.linalg.svdvals(one))
              for name, one in {**known, **drawn}.items()}
    return every({
        "layers": equal_to_rounding(torch.cat(found), torch.cat(expected)),
        "residual": equal_to_rounding(miss, smaller, why="Eckart and Young: float64 rounding"),
        "equally long": equal_to_rounding(columns.norm(dim=-1), rows.norm(dim=-1)),
        "weights": equal(*zip(*counts, strict=True), tol=0, why=EXACT),
    }).drawn(
        *(Series(name, steps[: len(s)], s, role, "line") for (name, s), role in
          zip(shares.items(), ("blue", "green", "red"), strict=True)),
        x="number of the singular value", y="singular value, the first is 1",
    )


@claim(
    control={"order": "ReLU"}, refutes=["scores", "auxiliary scores", "small"],
    source="torchvision 0.3, models/googlenet.py",
)
def torchvision_weights_fit(
    seed: Seed, *, order: Literal["normalization", "ReLU"] = "normalization"
) -> Evidence:
    """Weights under torchvision's names are taken, and give what layers by these names give."""
    x, little = rand(seed.torch(), 1, 3, 64, 48), rand(seed.torch(), 2, 1, 12, 16)
    reference = _Reference(seed.torch(), order == "ReLU")
    expected = reference.googlenet(x)
    net = InceptionNet.from_torchvision(reference.weights).double().eval()
    scores = net(x)
    net.training = True  # of the whole alone: no dropout, and no statistics of the batch
    again, others = net(x)
    reference = _Reference(seed.torch(), order == "ReLU")
    small = reference.small(little)
    tiny = InceptionNet(small=True, channels=1, classes=7, rng=seed.torch()).double()
    tiny.load_state_dict(reference.weights, strict=False)
    tiny.eval().training = True
    both = tiny(little)
    sizes = {
        (1, 7, 4): "refused", (1, 8, 4): "taken", (1, 4, 8): "taken", (2, 4, 4): "taken",
        (2, 3, 4): "refused", (2, 4, 3): "refused",
    }
    with torch.random.fork_rng([]):  # dropout draws
        wrong = [_taken(tiny.train(), torch.zeros(B, 1, *sides).double()) != (answer == "taken")
                 for (B, *sides), answer in sizes.items()]
        with torch.device("meta"):
            whole = InceptionNet()
            wrong += [_taken(whole, torch.zeros(B, 3, *sides)) != answer for B, sides, answer in (
                (1, (46, 15), False), (1, (15, 47), True), (2, (15, 15), True),
                (2, (14, 47), False),
            )]
    ends = [float(expected[0].min()), float(expected[0].max())]
    return every({
        "scores": equal_to_rounding(torch.stack([scores, again]), expected[0].expand(2, 1, 7)),
        "auxiliary scores": equal_to_rounding(torch.stack(others), torch.stack(expected[1:])),
        "small": equal_to_rounding(torch.stack([both[0], *both[1]]), torch.stack(small)),
        "sizes": never(wrong, why="one place is left, and two values are needed in training"),
    }).drawn(
        Series("scores", expected[0].flatten(), scores.flatten()),
        Series("auxiliary scores", torch.cat(expected[1:]).flatten(), torch.cat(others).flatten(),
               "other", "points"),
        Series("layer by layer", ends, ends, "predicted"),
        x="scores, layer by layer", y="InceptionNet",
    )


def _taken(net: nn.Module, x: Tensor) -> bool:
    try:
        net(x)
    except UsageError:
        return False
    return True


@final
class _Reference:
    """Computes layer by layer, and draws the weights of each under its name in torchvision."""

    def __init__(self, rng: torch.Generator, relu_first: bool) -> None:
        self.rng, self.relu_first, self.weights = rng, relu_first, dict[str, Tensor]()

    def drawn(self, name: str, *shape: int) -> Tensor:
        one = torch.randn(shape, generator=self.rng) / math.prod(shape[1:]) ** 0.5
        one = one.abs() + 0.5 if name.endswith("var") else one
        self.weights[name] = one
        return one.double()

    def conv(
        self, name: str, x: Tensor, outputs: int, kernel: int = 1, stride: int = 1
    ) -> Tensor:
        W = self.drawn(f"{name}.conv.weight", outputs, x.shape[1], kernel, kernel)
        x = F.conv2d(x, W, None, stride, kernel // 2)
        x = x.relu() if self.relu_first else x
        mean, var, scale, level = (
            self.drawn(f"{name}.bn.{what}", outputs)
            for what in ("running_mean", "running_var", "weight", "bias")
        )
        return F.batch_norm(x, mean, var, scale, level, eps=0.001).relu()

    def module(self, name: str, x: Tensor, widths: Sequence[int], kernel: int) -> Tensor:
        one, before3, three, before, large, pool = widths
        return torch.cat([
            self.conv(f"{name}.branch1", x, one),
            self.pair(f"{name}.branch2", x, before3, three, 3),
            self.pair(f"{name}.branch3", x, before, large, kernel),
            self.conv(f"{name}.branch4.1", F.max_pool2d(x, 3, 1, 1), pool),
        ], dim=1)

    def pair(self, name: str, x: Tensor, before: int, outputs: int, kernel: int) -> Tensor:
        return self.conv(f"{name}.1", self.conv(f"{name}.0", x, before), outputs, kernel)

    def linear(self, name: str, x: Tensor, outputs: int) -> Tensor:
        W = self.drawn(f"{name}.weight", outputs, x.shape[1])
        return F.linear(x, W, self.drawn(f"{name}.bias", outputs))

    def head(self, name: str, x: Tensor, width: int, hidden: int) -> Tensor:
        x = self.conv(f"{name}.conv", F.adaptive_avg_pool2d(x, (4, 4)), width)
        x = self.linear(f"{name}.fc1", x.flatten(1), hidden).relu()
        return self.linear(f"{name}.fc2", x, 7)

    def googlenet(self, x: Tensor) -> list[Tensor]:
        x = F.max_pool2d(self.conv("conv1", x, 64, 7, 2), 3, 2, ceil_mode=True)
        x = self.conv("conv3", self.conv("conv2", x, 64), 192, 3)
        x = F.max_pool2d(x, 3, 2, ceil_mode=True)
        heads = []
        for name, (_, widths) in PUBLISHED.items():
            x = self.module(f"inception{name}", x, widths, 3)
            if name in ("4a", "4d"):
                heads.append(self.head(f"aux{1 + len(heads)}", x, 128, 1024))
            if name in ("3b", "4e"):
                x = F.max_pool2d(x, 3 if name == "3b" else 2, 2, ceil_mode=True)
        return [self.linear("fc", x.mean(dim=(2, 3)), 7), *heads]

    def small(self, x: Tensor) -> list[Tensor]:
        x = F.max_pool2d(self.conv("conv1", x, 32, 3), 3, 2, ceil_mode=True)
        x = self.module("inception3a", x, (16, 16, 24, 8, 12, 12), 5)
        head = self.head("aux1", x, 16, 64)
        x = F.max_pool2d(x, 3, 2, ceil_mode=True)
        x = self.module("inception3b", x, (64, 48, 96, 16, 32, 32), 5)
        return [self.linear("fc", x.mean(dim=(2, 3)), 7), head]

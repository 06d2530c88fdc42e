r"""VGG: what is true of it, and what would refute it.

Knobs:
    channels: Channels of the pictures and of every layer.
    deepest: Layers of the deepest stack.
    stride: Of the first layer; with 2 the second one looks at places farther apart.
    between: What stands between both layers; with a nonlinearity no single kernel does the same.
    kind: Whether kernels are drawn, or composed of two that were drawn, which do factor.
    kernels: Kernels 5 x 5 that are to be factored.
    starts: Random starts of each search, of which the best counts.
    rounds: How often each of both factors is fitted to the other.
    config: Which of the published networks.
    pooling: What halves the sides: the largest of four pixels, or their mean.
"""

import warnings
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.convolution.layer import multiply_adds
from principia.convolution.vgg import VGG, compose_kernels
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
)
from principia.lab.params import Range, UsageError
from principia.lab.pictures import Rule
from principia.lab.seeds import Seed

EXACT = "whole numbers"
TOTALS = {
    "vgg11": 132_863_336, "vgg13": 133_047_848, "vgg16": 138_357_544, "vgg19": 143_667_240,
}


@claim(control={"stride": 2}, refutes=["field"], source="Simonyan and Zisserman 2015, sec. 2.3")
def two_threes_see_five(
    seed: Seed, *, channels: Annotated[int, Range(1, 32)] = 16,
    deepest: Annotated[int, Range(3, 5)] = 3, stride: Literal[1, 2] = 1,
) -> Evidence:
    r"""L layers of 3 x 3 see (2L + 1)² pixels, with $9LC^2$ weights and not $(2L+1)^2C^2$."""
    rng, fields, single, counts, larger = seed.torch(), [], [], [], []
    layers = range(2, deepest + 1)
    for number in layers:
        stack, one = (
            VGG(config, channels=channels, kernel=side, dense=0, rng=rng).features
            for config, side in (((channels,) * number, 3), ((channels,), 2 * number + 1))
        )
        counts.append(_weights(stack))
        larger.append(_weights(one))
        stack[0].stride = (stride, stride)  # type: ignore[assignment]
        fields.append(_field(stack, channels, rng))
        single.append(_field(one, channels, rng))
    expected = [[10 - number, 10 + number, 12 - number, 12 + number] for number in layers]
    sides = [2 * number + 1 for number in layers]
    pairs = channels**2
    return every({
        "field": equal(fields, expected, tol=0, why="the first and last pixel that has a gradient"),
        "field of one kernel": equal(single, expected, tol=0, why="the same pixels"),
        "weights": equal(counts, [9 * number * pairs for number in layers], tol=0, why=EXACT),
        "weights of one kernel": equal(
            larger, [side**2 * pairs for side in sides], tol=0, why=EXACT
        ),
        "fewer": at_most(
            counts, [one - 1 for one in larger], why="a theorem: 9L < (2L + 1)² from L = 2 on",
        ),
    }).drawn(
        Series("one kernel", [3, *sides], [9, *(one / pairs for one in larger)], "other"),
        Series("3 x 3 layers", [3, *(last - first + 1 for first, last, *_ in fields)],
               [9, *(one / pairs for one in counts)], "measured", "line"),
        Series("9 (r - 1) / 2", [3, sides[-1]], [9, 9 * layers[-1]], "predicted", "points"),
        x="side r of the field, in pixels", y="weights for a pair of channels",
    )


def _weights(layers: nn.Module) -> int:
    return sum(one.numel() for one in layers.parameters() if one.ndim == 4)


def _field(layers: nn.Module, channels: int, rng: torch.Generator) -> list[int]:
    """Find the first and last row and column of pixels that the middle of the outputs sees."""
    for one in layers.parameters():
        one.data.abs_()  # so that nothing cancels, and no unit is off
    x = rand(rng, 1, channels, 21, 25).requires_grad_()
    y = layers.double()(x)
    (slope,) = torch.autograd.grad(y[0, 0, y.shape[2] // 2, y.shape[3] // 2], x)
    seen = slope[0].abs().sum(dim=0) > 0
    rows, columns = (seen.any(dim=axis).nonzero()[:, 0].tolist() for axis in (1, 0))
    return [rows[0], rows[-1], columns[0], columns[-1]]


@claim(control={"between": "ReLU"}, source="by construction")
def linear_stack_is_one_kernel(
    seed: Seed, *, between: Literal["nothing", "ReLU"] = "nothing"
) -> Evidence:
    r"""Two layers with nothing between them are one kernel, $k_{oc}=\sum_ma_{mc}*b_{om}$."""
    rng, activation = seed.torch(), nn.Identity if between == "nothing" else nn.ReLU
    net = drawn_anew(VGG((4, 5), channels=3, activation=activation, dense=0, rng=rng), rng)
    weights = dict(net.features.named_parameters())
    first, a, second, b = (weights[name] for name in ("0.weight", "0.bias", "2.weight", "2.bias"))
    x = randn(rng, 2, 3, 11, 9)
    level = b + second.sum(dim=(2, 3)) @ a
    stack = net.features[:3](x)[:, :, 2:-2, 2:-2]  # nearer to the edge zeros were seen between
    one = F.conv2d(x, compose_kernels(first, second), level)
    tall, wide = randn(rng, 4, 3, 3, 2), randn(rng, 5, 4, 2, 4)
    apart = F.conv2d(activation()(F.conv2d(x, tall)), wide)
    places = one.detach().flatten()[:300]
    return every({
        "layers of VGG": equal_to_rounding(stack, one),
        "kernels of any sides": equal_to_rounding(apart, F.conv2d(x, compose_kernels(tall, wide))),
    }).drawn(
        Series(f"two layers, {between} between", places, stack.flatten()[:300]),
        Series("one kernel", [places.min(), places.max()], [places.min(), places.max()],
               "predicted"),
        x="output of one 5 x 5 kernel", y="output of two 3 x 3 kernels",
    )


@claim(
    control={"kind": "composed"}, refutes=["random kernels"],
    source="counting: 25 numbers against 17",
)
def not_every_five_factors(
    seed: Seed, *, kind: Literal["random", "composed"] = "random",
    kernels: Annotated[int, Range(2, 50)] = 20, starts: Annotated[int, Range(1, 20)] = 10,
    rounds: Annotated[int, Range(20, 300)] = 60,
) -> Evidence:
    """The converse fails: the best product of two 3 x 3 kernels misses a random 5 x 5 kernel."""
    rng = seed.torch()
    small = randn(rng, 2, kernels, 1, 1, 3, 3)
    composed = torch.vmap(compose_kernels)(*small)
    drawn = randn(rng, kernels, 1, 1, 5, 5) if kind == "random" else composed
    found = [_residuals(one, starts, rounds, rng) for one in (drawn, composed)]
    numbers = range(1, rounds + 1)
    return every({
        "random kernels": at_least(
            found[0][-1], 0.05, why="17 free numbers reach no neighborhood of a draw of 25",
        ),
        "composed kernels": at_most(
            found[1][-1].median(), 0.01, why="the search finds factors where there are some",
        ),
    }).drawn(
        Series(f"{kind} kernels", numbers, found[0].median(dim=1).values, "measured", "line"),
        Series("composed kernels", numbers, found[1].median(dim=1).values, "predicted", "points"),
        Rule("5 %", y=0.05),
        x="rounds of the search", y="relative residual, median", log="y",
    )


def _residuals(kernels: Tensor, starts: int, rounds: int, rng: torch.Generator) -> Tensor:
    """Fit both factors in turns by least squares; give the best residuals after each round."""
    goal = kernels.repeat_interleave(starts, dim=0).flatten(1)[:, :, None]  # (problems, 25, 1)
    units = torch.eye(9, dtype=torch.float64).view(9, 3, 3)
    b, best = randn(rng, len(goal), 1, 1, 3, 3), list[Tensor]()
    for _ in range(rounds):
        maps = torch.vmap(lambda one: compose_kernels(units[None], one))(b)  # (problems, 1, 9, ..)
        a = _solved(maps.flatten(-2)[:, 0].mT, goal)
        maps = torch.vmap(lambda one: compose_kernels(one, units[:, None]))(a)  # (problems, 9, 1,..
        rows = maps.flatten(-2)[:, :, 0].mT
        b = _solved(rows, goal)
        miss = (rows @ b.flatten(1)[:, :, None] - goal).norm(dim=(1, 2)) / goal.norm(dim=(1, 2))
        best.append(miss.view(-1, starts).min(dim=1).values)
        b = b / b.norm(dim=(3, 4), keepdim=True)  # a product has no scales of its factors
    return torch.stack(best)


def _solved(rows: Tensor, goal: Tensor) -> Tensor:
    return torch.linalg.lstsq(rows, goal).solution.view(-1, 1, 1, 3, 3)


@claim(
    control={"config": "vgg11"},
    refutes=["parameters", "with batch normalization", "share in dense layers", "work",
             "work in dense layers"],
    source="Simonyan and Zisserman 2015, table 2",
)
def vgg16_count(seed: Seed, *, config: Literal["vgg16", "vgg11"] = "vgg16") -> Evidence:
    """VGG-16 has 138,357,544 parameters, 89 % of them in dense layers, which do 1 % of the work."""
    with torch.device("meta"):  # counted without memory
        net, normed = VGG(config), VGG(config, batch_norm=True)
        others = [sum(one.numel() for one in VGG(name).parameters()) for name in TOTALS]
    total, more = (sum(one.numel() for one in each.parameters()) for each in (net, normed))
    work = multiply_adds(net, (3, 224, 224))
    sizes = {name: sum(one.numel() for one in net.get_submodule(name).parameters())
             for name in work}
    dense = [name for name in work if name.startswith("classifier")]
    spent = sum(work.values())
    numbers = range(1, 1 + len(work))
    return every({
        "parameters": equal(total, TOTALS["vgg16"], tol=0, why=EXACT),
        "all four": equal(others, [*TOTALS.values()], tol=0, why=EXACT),
        "with batch normalization": equal(
            more, TOTALS["vgg16"] + 2 * 4224, tol=0, why="two for each of 4224 maps",
        ),
        "share in dense layers": equal(
            sum(sizes[name] for name in dense) / total, 0.89, tol=0.005, why="two digits",
        ),
        "work": equal(spent / 1e9, 15.5, tol=0.05, why="three digits, in billions"),
        "work in dense layers": at_most(
            sum(work[name] for name in dense) / spent, 0.01, why="each weight is used once",
        ),
    }).drawn(
        Series("parameters", numbers, [sizes[name] / total for name in work], "measured", "bars"),
        Series("multiplications", numbers, [work[name] / spent for name in work], "other", "bars"),
        Rule("the dense layers", x=len(work) - 2.5, role="gray"),
        x="layer", y="share of the whole network",
    )


@claim(
    control={"pooling": "average"}, refutes=["plain", "with batch normalization", "small"],
    source="torchvision 0.3, models/vgg.py",
)
def torchvision_weights_fit(
    seed: Seed, *, pooling: Literal["largest", "average"] = "largest"
) -> Evidence:
    """Weights under torchvision's names are taken, and do what convolutions, ReLU and pools do."""
    rng, parts, shown = seed.torch(), {}, []
    thin, small = (4, "M", 6, 5, "M"), (32, 32, "M", 64, 64, "M", 128, 128, "M")
    cases: tuple[tuple[str, tuple[int | str, ...], bool, int, Tensor], ...] = (
        ("plain", thin, False, 12, rand(rng, 3, 3, 44, 36)),
        ("with batch normalization", thin, True, 12, rand(rng, 3, 3, 44, 36)),
        ("small", small, True, 0, rand(rng, 2, 1, 16, 24)),
    )
    for name, config, normed, hidden, x in cases:
        weights, expected = _reference(config, normed, hidden, x, pooling, rng)
        net = VGG.from_torchvision(weights)
        if name == "small":  # under its own name
            net = VGG("small", channels=1, classes=7, batch_norm=True, rng=rng)
            net.load_state_dict(weights, strict=False)
        found = net.double().eval()(x)
        parts[name] = equal_to_rounding(found, expected)
        shown.append((expected.flatten(), found.detach().flatten()))
    net = VGG("small", channels=1, batch_norm=True, rng=rng)
    ends = [min(one.min() for one, _ in shown), max(one.max() for one, _ in shown)]
    sizes = {  # in training with batch normalization
        (1, 8, 8): "refused", (2, 8, 8): "taken", (1, 8, 16): "taken", (1, 16, 8): "taken",
        (2, 7, 8): "refused", (2, 8, 7): "refused", (2, 12, 8): "warned", (2, 8, 20): "warned",
    }
    answers = [_answer(net, torch.zeros(B, 1, *sides)) for B, *sides in sizes]
    wrong = [one != other for one, other in zip(answers, sizes.values(), strict=True)]
    parts["sizes"] = never(wrong, why="three halvings leave whole maps, of two values or more")
    return every(parts).drawn(
        *(Series(name, expected, found, "other", "points")
          for name, (expected, found) in zip(parts, shown, strict=False)),
        Series("layer by layer", ends, ends, "predicted"), x="scores, layer by layer", y="VGG",
    )


def _answer(net: nn.Module, x: Tensor) -> str:
    """Tell whether pictures are taken, taken with a warning, or refused."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            net(x)
        except UsageError:
            return "refused"
    return "warned" if said else "taken"


def _reference(
    config: tuple[int | str, ...], normed: bool, hidden: int, x: Tensor, pooling: str,
    rng: torch.Generator,
) -> tuple[dict[str, Tensor], Tensor]:
    """Draw weights layer by layer, under torchvision's names, and compute what they do."""
    weights, place = dict[str, Tensor](), 0

    def drawn(name: str, *shape: int, positive: bool = False) -> Tensor:
        one = rand(rng, *shape) + 0.5 if positive else randn(rng, *shape)
        weights[name] = one = (one / max(1, one[0].numel()) ** 0.5).float()
        return one.double()

    for one in config:
        if isinstance(one, str):
            x = F.max_pool2d(x, 2) if pooling == "largest" else F.avg_pool2d(x, 2)
            place += 1
            continue
        name = f"features.{place}"
        x = F.conv2d(
            x, drawn(f"{name}.weight", one, x.shape[1], 3, 3), drawn(f"{name}.bias", one),
            padding=1,
        )
        if normed:
            name = f"features.{place + 1}"
            mean, scale, level = (
                drawn(f"{name}.{what}", one) for what in ("running_mean", "weight", "bias")
            )
            var = drawn(f"{name}.running_var", one, positive=True)
            x = F.batch_norm(x, mean, var, weight=scale, bias=level)
        x = x.relu()
        place += 3 if normed else 2
    places = 7 if hidden else 1
    x = F.adaptive_avg_pool2d(x, places).flatten(1)
    widths = (hidden, hidden, 7) if hidden else (7,)
    for number, width in enumerate(widths):
        name = f"classifier.{3 * number}"
        x = F.linear(x, drawn(f"{name}.weight", width, x.shape[1]), drawn(f"{name}.bias", width))
        x = x if number + 1 == len(widths) else x.relu()
    return weights, x

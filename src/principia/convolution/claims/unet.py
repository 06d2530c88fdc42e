r"""U-Net: what is true of it, and what would refute it.

Knobs:
    padding: What the convolutions see beyond the rim.
    depth: Number of poolings.
    shift: By what the pictures are moved; a shift that splits the blocks is another network.
    skip: Whether maps from the way down are laid beside those on the way up.
    formula: Dice's coefficient from the overlap, or the overlap itself.
    classes: Classes of the pixels, of which one is nowhere.
"""

import itertools
from collections import Counter
from typing import Annotated, Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.convolution.unet import UNet, faded, iou, soft_dice
from principia.lab.draws import randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    claim,
    equal,
    equal_to_rounding,
    every,
    within_errors,
)
from principia.lab.params import Range, UsageError
from principia.lab.pictures import Image, Panels, Plot
from principia.lab.seeds import Seed
from principia.regularization.augmentation import equivariance_error

PAPER = 572, 388  # sides of the picture and of the outputs, figure 1


@claim(
    control={"padding": "same"}, refutes=["paper", "sides", "which sides fit"],
    source="Ronneberger, Fischer and Brox 2015, fig. 1",
)
def valid_size(
    seed: Seed, *, padding: Literal["valid", "same"] = "valid",
    depth: Annotated[int, Range(2, 5)] = 4,
) -> Evidence:
    r"""Without padding 572 pixels give 388: $n_{out}=n-(12\cdot2^d-8)$, $n\equiv-4$ mod $2^d$."""
    with torch.device("meta"):
        net = UNet(1, 2, padding=padding)
        try:
            paper = net(torch.empty(3, 1, PAPER[0], PAPER[0] + 128)).shape
        except UsageError:
            paper = torch.Size([0, 0, 0, 0])
        small = UNet(1, 2, width=1, depth=depth, padding=padding)
        kept = UNet(1, 2, width=1, depth=depth)
        two = UNet(1, 2, width=1, depth=2, padding=padding)
        block, lost = 2**depth, 12 * 2**depth - 8
        sides = range(1, 20 * block)
        fit = [n for n in sides if (n + 4) % block == 0 and n > lost]
        accepted = {n: side for n in sides if (side := _output_side(small, n))}
        found = [small(torch.empty(1, 1, n, fit[0])).shape[2] if n in accepted else 0 for n in fit]
    same = {n: _output_side(kept, n) for n in sides}
    messages = [str(_refusal(one, n)) for one, n in ((small, fit[0] + 1), (kept, 2 * block + 1))]
    near = [
        f"even sides before all {depth} poolings; got {fit[0] + 1}. The nearest that fits is "
        f"{fit[0]} or {fit[1]}.",
        f"divisible by {block}; got {2 * block + 1}. The nearest that fits is "
        f"{2 * block} or {3 * block}.",
    ]
    of_two = [_refusal(two, n) is None for n in range(1, 99)]
    return every({
        "paper": equal(
            [*paper], [3, 2, PAPER[1], PAPER[1] + 128], tol=0, why="sides of a tensor"
        ),
        "sides": equal(
            [*found, *accepted.values()], [n - lost for n in (*fit, *accepted)], tol=0,
            why="sides of a tensor",
        ).drawn(
            Series(f"outputs, {padding}", [*accepted], [*accepted.values()]),
            Series("n − (12·2ᵈ − 8)", fit, [n - lost for n in fit], "predicted"),
            Series("as large as the picture", [1, sides[-1]], [1, sides[-1]], "gray", "line"),
            x="side n of the picture", y="side of the outputs",
        ),
        "which sides fit": equal(
            [*(n in accepted for n in sides), *of_two],
            [*(n in fit for n in sides), *(n % 4 == 0 and n > 40 for n in range(1, 99))], tol=0,
            why="yes or no",
        ),
        "same": equal(
            [*same.values()], [n if n % block == 0 else 0 for n in sides], tol=0,
            why="sides of a tensor",
        ),
        "a picture that does not fit": equal(
            str(_refusal(kept, 2 * block + 1, block)) == messages[1], True, tol=0, why="one refusal"
        ),
        "the nearest that fit": equal(
            [one.endswith(two) for one, two in zip(messages, near, strict=True)], [True, True],
            tol=0, why="words of the refusal",
        ),
    })


def _output_side(net: UNet, n: int) -> int:
    """Give the side of the outputs, or 0 where the side does not fit."""
    return 0 if _refusal(net, n) else net.output_side(n)


def _refusal(net: UNet, n: int, high: int = 0) -> UsageError | None:
    """Give the refusal of a side; with `high`, of a picture that is so high and so wide."""
    try:
        if high:
            net(torch.empty(1, 1, high, n, device="meta"))
        else:
            net.output_side(n)
    except UsageError as error:
        return error
    return None


@claim(
    control={"depth": 3}, refutes=["layers", "channels"],
    source="Ronneberger, Fischer and Brox 2015, sec. 2",
)
def twenty_three_convolutions(seed: Seed, *, depth: Annotated[int, Range(2, 5)] = 4) -> Evidence:
    """The network of the paper: 18 convolutions of 3 x 3, 4 that double, one of 1 x 1."""
    with torch.device("meta"):
        net = UNet(1, 2, depth=depth, padding="valid")
        other = UNet(1, 2, depth=depth, up="bilinear")
        default = UNet(1, 2)
    layers = _convolutions(net)
    sizes = Counter((type(one).__name__, one.kernel_size) for one in layers)
    counts = [
        sizes[kind] for kind in (
            ("Conv2d", (3, 3)), ("ConvTranspose2d", (2, 2)), ("Conv2d", (1, 1)))
    ]
    down = [64, 64, 128, 128, 256, 256, 512, 512, 1024, 1024]
    up = [512, 512, 512, 256, 256, 256, 128, 128, 128, 64, 64, 64, 2]
    found = [one.out_channels for one in layers]
    drawn = UNet(5, 3, depth=2, width=32, rng=seed.torch())
    scales = [(one.weight.detach() * _gain(one)).square() for one in _convolutions(drawn)]
    return every({
        "layers": equal(counts, [18, 4, 1], tol=0, why="a count"),
        "channels": equal(
            _padded(found, 23), [*down, *up], tol=0, why="figure 1, from the left to the right"
        ).drawn(
            Series(f"depth {depth}", range(1, len(found) + 1), found, style="bars"),
            Series("paper", range(1, 24), [*down, *up], "predicted", "points"),
            x="convolution, in the order of the computation", y="channels of its outputs", log="y",
        ),
        "by default": equal(
            [one.out_channels for one in _convolutions(default)], [*down, *up], tol=0,
            why="figure 1",
        ),
        "interpolated": equal(
            [one.out_channels for one in _convolutions(other)], found, tol=0,
            why="1 x 1 convolutions instead, as wide",
        ),
        "first weights": within_errors(
            torch.stack([one.mean() for one in scales]), 1.0,
            error=torch.tensor([(2 / one.numel()) ** 0.5 for one in scales]),
            why="a mean of squares of normal numbers, in units of He's variance",
        ),
        "first biases": equal(
            sum(float(one.bias.detach().abs().sum()) for one in _convolutions(drawn)), 0, tol=0,
            why="by construction",
        ),
    })


def _convolutions(net: UNet) -> list[Any]:
    """List the convolutions in the order of the computation."""
    ways = [*net.down, net.bottom]
    for pair in zip(net.up, net.merge, strict=True):
        ways += pair
    kinds = nn.Conv2d | nn.ConvTranspose2d
    return [one for way in (*ways, net.head) for one in way.modules() if isinstance(one, kinds)]


def _gain(layer: Any) -> float:
    """Give the factor after which the weights should have variance 1."""
    if isinstance(layer, nn.ConvTranspose2d):
        return layer.in_channels**0.5
    return (layer.weight[0].numel() / 2) ** 0.5


def _padded(values: list[int], length: int) -> list[int]:
    return (values + [0] * length)[:length]


@claim(
    control=[
        Control({"shift": "a pixel"}, "all", "a shift that splits the blocks"),
        Control({"padding": "same"}, "all", "zeros at the rim"),
    ],
    source="by construction; Ronneberger, Fischer and Brox 2015, sec. 2",
)
def shift_equivariance_by_blocks(
    seed: Seed, *, depth: Annotated[int, Range(1, 3)] = 2,
    shift: Literal["a block", "a pixel"] = "a block",
    padding: Literal["circular", "same"] = "circular",
) -> Evidence:
    r"""With circular padding outputs move with pictures that move by $2^d$ pixels, and no fewer."""
    block, rng = 2**depth, seed.torch()
    by = block if shift == "a block" else 1
    x = randn(rng, 2, 3, 3 * block, 5 * block)
    parts, curves = {}, []
    for up in ("transposed", "bilinear"):
        net = _random_net(rng, 3, depth=depth, padding=padding, up=up)
        ways = [(by, 0), (0, by), (-by, 2 * by)]
        with torch.no_grad():
            errors = [_shifted(net, x, way) for way in ways]
            moved = [_shifted(net, x, (0, one)) for one in range(2 * block + 1)]
        parts[f"{up}: with blocks"] = equal(
            errors, 0, tol=1e-10, why="an identity: float64 rounding"
        )
        role = "measured" if up == "transposed" else "orange"
        curves.append(
            Series(up, range(2 * block + 1), [one + 1e-17 for one in moved], role, "points")
        )
    return every(parts).drawn(
        *curves, x="shift of the pictures, in pixels", y="relative change of the outputs", log="y"
    )


def _random_net(rng: torch.Generator, cin: int, **how: Any) -> UNet:
    """Make a small network in float64 that has biases, too."""
    net = UNet(cin, 2, width=4, rng=rng, **how).double()
    for layer in _convolutions(net):
        layer.bias.data = 0.3 * randn(rng, *layer.bias.shape)
    return net


def _shifted(net: UNet, x: Tensor, way: tuple[int, int]) -> float:
    return float(equivariance_error(net, x, lambda one: one.roll(way, (-2, -1))))


@claim(
    control={"skip": False}, refutes=["outputs vary", "gradient of the first map"],
    source="Ronneberger, Fischer and Brox 2015, sec. 2",
)
def skips_carry_detail(
    seed: Seed, *, skip: bool = True, depth: Annotated[int, Range(1, 3)] = 2,
) -> Evidence:
    """With its bottom silenced the network still draws every edge; without bridges, nothing."""
    rng, side = seed.torch(), 6 * 2**depth
    how: dict[str, Any] = {"padding": "circular", "up": "bilinear"}  # 2 x 2 kernels leave a grid
    net = _random_net(rng, 1, depth=depth, skip=skip, **how)
    x = randn(rng, 2, 1, side, side + 2**depth)
    rows, columns = (torch.arange(one)[:, None] for one in x.shape[2:])
    x[0, 0] = ((rows - 9) ** 2 + (columns.mT - 12) ** 2 < 36).double()  # a disc, which is shown
    maps: list[Any] = []
    hook = net.down[0].register_forward_hook(lambda _, seen, y: maps.append(y))
    with faded(net, bottom=0):
        y = net(x)
    hook.remove()
    (gradient,) = torch.autograd.grad(y.square().sum(), maps, allow_unused=True)
    slope = torch.zeros(1) if gradient is None else gradient
    with torch.no_grad():
        silent = net(x) if skip else y
        with faded(net, [0] * depth, bottom=0):
            nothing = net(x)
        with faded(net, [0.5, *[0] * (depth - 1)], bottom=0):
            fine = net(x)
        touched = x.clone()
        touched[..., side // 2, side // 2] += 1
        with faded(net, [0.5, *[0] * (depth - 1)], bottom=0):
            reach = (net(touched) - fine).abs().sum(dim=(0, 1)) > 1e-12
    wide = _random_net(rng, 3, depth=depth, padding="valid")
    round_ = _random_net(rng, 1, depth=depth, **how)
    flat = _random_net(rng, 1, depth=depth, up="bilinear")
    pictures = randn(rng, 2, 3, 12 * 2**depth - 4, 13 * 2**depth - 4)
    return every({
        "outputs vary": at_least(
            y.std(dim=(2, 3)), 0.01, why="more than a hundredth; a constant has 0"
        ),
        "gradient of the first map": at_least(
            float(slope.norm()), 0.01, why="more than a hundredth; without a path it is 0"
        ),
        "all silent: a constant": equal(
            nothing.std(dim=(2, 3)), 0, tol=1e-12, why="circular padding has no rim"
        ),
        "the fine bridge sees 9 x 9 pixels": equal(
            [int(reach.any(dim=one).sum()) for one in (0, 1)], [9, 9] if skip else [0, 0], tol=0,
            why="four convolutions of 3 x 3 and no pooling",
        ),
        "what it computes": equal_to_rounding(wide(pictures), _by_hand(wide, pictures)),
        "with a circular rim": equal_to_rounding(round_(x), _by_hand(round_, x)),
        "with zeros at the rim": equal_to_rounding(flat(x), _by_hand(flat, x)),
    }).pictured(Panels(tuple(
        Plot((Image(one[0, 0]),), title=title, square=True, bare=True) for title, one in (
            ("picture", x), ("class 0, all ways open", silent), ("bottom silenced", y))
    )))


def _by_hand(net: UNet, x: Tensor) -> Tensor:
    """Compute figure 1 of the paper: convolve, pool, convolve, double, crop, join, convolve."""
    layers = iter(_convolutions(net))
    circular, rim, seen = net.padding == "circular", int(net.padding != "valid"), []

    def twice(x: Tensor) -> Tensor:
        for layer in itertools.islice(layers, 2):
            x = F.pad(x, (rim,) * 4, mode="circular") if circular else F.pad(x, (rim,) * 4)
            x = F.conv2d(x, layer.weight, layer.bias).clamp(min=0)
        return x

    for _ in net.down:
        seen.append(twice(x))
        x = seen[-1].unfold(2, 2, 2).unfold(3, 2, 2).flatten(4).amax(dim=-1)
    x = twice(x)
    for before in reversed(seen):
        layer = next(layers)
        if isinstance(layer, nn.ConvTranspose2d):
            x = torch.einsum("bchw,cdij->bdhiwj", x, layer.weight).flatten(4).flatten(2, 3)
            x = x + cast(Tensor, layer.bias)[:, None, None]
        else:  # of three copies a side, the middle one sees no rim
            h, w = x.shape[2:]
            many = F.interpolate(x.repeat(1, 1, 3, 3), scale_factor=2, mode="bilinear")
            middle = many[..., 2 * h : 4 * h, 2 * w : 4 * w]
            alone = F.interpolate(x, scale_factor=2, mode="bilinear")
            x = _mixed(layer, middle if circular else alone)
        (a, b), (h, w) = before.shape[2:], x.shape[2:]
        middle = before[..., (a - h) // 2 : (a + h) // 2, (b - w) // 2 : (b + w) // 2]
        x = twice(torch.cat([middle, x], dim=1))
    return _mixed(next(layers), x)


def _mixed(layer: Any, x: Tensor) -> Tensor:
    """Compute a convolution of 1 x 1: one matrix at every pixel."""
    y = torch.einsum("bchw,kc->bkhw", x, layer.weight[..., 0, 0])
    return y + layer.bias[:, None, None]


@claim(
    control={"formula": "J"}, refutes=["D = 2J/(1 + J)"],
    source="Dice 1945; Milletari, Navab and Ahmadi 2016, sec. 3",
)
def dice_is_the_overlap(
    seed: Seed, *, classes: Annotated[int, Range(3, 8)] = 4,
    formula: Literal["2J/(1 + J)", "J"] = "2J/(1 + J)",
) -> Evidence:
    """For sure answers Dice's coefficient is 2J/(1 + J), at least as large as the overlap J."""
    rng = seed.torch()
    target = torch.randint(classes - 1, (40, 5, 7), generator=rng)  # the last class is nowhere
    chances = torch.linspace(0, 1, 40)[:, None, None]
    said = torch.where(torch.rand((40, 5, 7), generator=rng) < chances, target.roll(1, 2), target)
    hard = F.one_hot(said, classes).movedim(-1, 1).double()
    pairs = [*zip(hard.split(1), said.split(1), target.split(1), strict=True)]
    dice = torch.stack([soft_dice(p, g) for p, _, g in pairs])
    overlap = torch.stack([iou(s, g, classes=classes) for _, s, g in pairs])
    predicted = 2 * overlap / (1 + overlap) if formula == "2J/(1 + J)" else overlap
    sets = [
        [{*(s == k).flatten().nonzero()[:, 0].tolist()},
         {*(g == k).flatten().nonzero()[:, 0].tolist()}]
        for _, s, g in pairs for k in range(classes)
    ]
    counted = [len(P & G) / len(P | G) if P | G else 1.0 for P, G in sets]
    p = randn(rng, 3, classes, 5, 7).softmax(dim=1)
    masks = [(target[:3] == k).double() for k in range(classes)]
    soft = [2 * (p[:, k] * g).sum() / (p[:, k].sum() + g.sum()) for k, g in enumerate(masks)]
    bare = torch.zeros(1, 3, 4, dtype=torch.float64, requires_grad=True)
    soft_dice(bare, torch.zeros(1, 4).long()).sum().backward()
    p32, empty = p.float(), torch.zeros(2, 3, 4, dtype=torch.float64)
    return every({
        "D = 2J/(1 + J)": equal_to_rounding(dice, predicted).drawn(
            Series("Dice's coefficient", overlap[:, 0], dice[:, 0]),
            Series(formula, overlap[:, 0].sort().values,
                   predicted[:, 0].sort().values, "predicted"),
            Series("J", [0, 1], [0, 1], "gray", "line"),
            x="intersection over union J", y="Dice's coefficient D",
        ),
        "J of sets": equal_to_rounding(overlap.flatten(), counted),
        "D of probabilities": equal_to_rounding(soft_dice(p, target[:3]), torch.stack(soft)),
        "nowhere": equal(
            [*soft_dice(empty, torch.zeros(2, 4).long())[1:], iou(target, target, classes=9)[-1]],
            1, tol=0, why="by convention",
        ),
        "its gradient": equal(
            cast(Tensor, bare.grad).nan_to_num(9.0)[0], [[0.5] * 4, [0.0] * 4, [0.0] * 4],
            tol=1e-12, why="2/(p + g) where the class is, and nothing where it is not",
        ),
        "two classes by default": equal(
            len(iou(said.clamp(max=1), target.clamp(max=1))), 2, tol=0, why="a count"
        ),
        "kept type": equal(
            soft_dice(p32, target[:3]).dtype == p32.dtype, True, tol=0, why="by construction"
        ),
    })

r"""AlexNet: what is true of it, and what would refute it.

Knobs:
    columns: Into how many columns the second, fourth and fifth convolution fall apart.
    counted: What is counted: weights, or the multiplications of one picture.
    size: Height and width of the pictures; the paper names 224, which does not fit its maps.
    alpha: Whether torch is told the constant times the number of maps, or as the paper has it.
    window: Side of the windows of a pooling; those of 2 do not overlap.
    largest: Side of the largest map that is pooled.
    batch: Pictures that are computed.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.convolution.alexnet import (
    PAPER,
    TORCHVISION,
    AlexNet,
    alexnet_features,
    response_norm,
    small_alexnet,
)
from principia.convolution.layer import multiply_adds
from principia.convolution.lenet import LeNet5
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
)
from principia.lab.params import Range, UsageError
from principia.lab.seeds import Seed

LAYERS = ("conv1", "conv2", "conv3", "conv4", "conv5", "fc6", "fc7", "fc8")
SEEN = (3, 48, 256, 192, 192)  # input maps of a unit of each convolution, in two columns
WINDOWS = (11, 5, 3, 3, 3)
MAPS = (55, 27, 13, 13, 13, 6)  # sides: of the convolutions' maps, and of the last pooling's
VGG16 = (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)
HALVED = (1, 3, 6, 9, 12)  # places in VGG16 that are followed by a pooling
A_COUNT = "a count"


def _two_columns(columns: int = 2, size: int = 227) -> AlexNet:
    with torch.device("meta"):
        return AlexNet(alexnet_features(columns=columns), size=size)


def _torchvision() -> nn.Sequential:
    return alexnet_features(widths=TORCHVISION, columns=1, padding=2, normalize=False)


def _per_layer(net: nn.Module) -> list[int]:
    """Count weights and biases of each layer, in order."""
    own = [[*one.parameters(recurse=False)] for one in net.modules()]
    return [sum(one.numel() for one in these) for these in own if these]


@claim(
    control={"columns": 1}, refutes=["two columns", "each layer"],
    source="Krizhevsky et al. 2012, sec. 3.5: 60 million; torchvision",
)
def parameter_count(
    seed: Seed, *, columns: Annotated[int, Range(1, 2)] = 2,
    batch: Annotated[int, Range(2, 10)] = 2,
) -> Evidence:
    r"""Two columns have 60,965,224 parameters, torchvision's single one has 61,100,840."""
    convolutions = [
        maps * (seen * window**2 + 1)
        for maps, seen, window in zip(PAPER, SEEN, WINDOWS, strict=True)
    ]
    dense = [4096 * (9216 + 1), 4096 * (4096 + 1), 1000 * (4096 + 1)]
    counts, wanted = _per_layer(_two_columns(columns)), [*convolutions, *dense]
    with torch.device("meta"):
        theirs = AlexNet(_torchvision(), size=224)
        usual = AlexNet()
        published = _torchvision_layout()
        seven = {name: torch.empty((7, *shape[1:]) if "classifier.6" in name else shape)
                 for name, shape in published.items()}
        taken = AlexNet.from_torchvision(seven)
    layout = {name: tuple(one.shape) for name, one in theirs.state_dict().items()}
    same = [layout.get(name) == shape for name, shape in published.items()]
    return every({
        "two columns": equal(sum(counts), 60_965_224, tol=0, why=A_COUNT),
        "each layer": equal(counts, wanted, tol=0, why=A_COUNT).drawn(
            Series("parameters", LAYERS, counts, style="bars"),
            Series("by the sizes in the paper", LAYERS, wanted, "predicted", "points"),
            x="layer", y="number", log="y",
        ),
        "by default": equal(sum(_per_layer(usual)), 60_965_224, tol=0, why=A_COUNT),
        "one column": equal(sum(_per_layer(theirs)), 61_100_840, tol=0, why=A_COUNT),
        "names and shapes of torchvision": equal(
            [len(layout), sum(same)], [len(published)] * 2, tol=0, why="16 names with their shapes"
        ),
        "taken from torchvision, with 7 classes": equal(
            [sum(_per_layer(taken)), *taken.shape], [61_100_840 - 993 * 4097, 3, 224, 224], tol=0,
            why=A_COUNT,
        ),
        "small pictures": equal(
            _per_layer(small_alexnet(rng=seed.torch()))
            + _per_layer(small_alexnet(rng=seed.torch(), shrink=4, channels=3, classes=5)),
            [*_small_counts(1, 1, 10), *_small_counts(2, 3, 5)], tol=0, why=A_COUNT,
        ),
        "normalizations": equal(
            [sum(isinstance(one, nn.LocalResponseNorm) for one in net.modules())
             for net in (usual, theirs, small_alexnet(rng=seed.torch()))], [2, 0, 0], tol=0,
            why=A_COUNT,
        ),
        **_computed(seed, batch),
    })


def _torchvision_layout() -> dict[str, tuple[int, ...]]:
    """Write down the names and shapes of torchvision's weights."""
    found: dict[str, tuple[int, ...]] = {}
    ends = zip((0, 3, 6, 8, 10), (3, *TORCHVISION[:4]), TORCHVISION, WINDOWS, strict=True)
    for place, before, after, window in ends:
        found[f"features.{place}.weight"] = (after, before, window, window)
        found[f"features.{place}.bias"] = (after,)
    for place, before, after in ((1, 9216, 4096), (4, 4096, 4096), (6, 4096, 1000)):
        found[f"classifier.{place}.weight"] = (after, before)
        found[f"classifier.{place}.bias"] = (after,)
    return found


def _small_counts(times: int, channels: int, classes: int) -> list[int]:
    """Count what a network should have, so many eighths of the paper's, on pictures of 28 x 28."""
    sizes = zip((12, 32, 48, 48, 32), (0, 6, 32, 24, 24), (5, 5, 3, 3, 3), strict=True)
    hidden = 512 * times
    dense = [  # maps of 28, 13, 6 and 2
        hidden * (times * 32 * 2**2 + 1), hidden * (hidden + 1), classes * (hidden + 1)
    ]
    return [*(times * maps * ((times * seen or channels) * window**2 + 1)
              for maps, seen, window in sizes), *dense]


def _computed(seed: Seed, batch: int) -> dict[str, Evidence]:
    """Compute a narrow network by torch's functions, look at its dropout and at its start."""
    rng = seed.torch()
    features = alexnet_features(2, (4, 8, 12, 8, 4), kernel=7, stride=3, padding=1)
    net: Any = AlexNet(features, size=90, classes=5, hidden=400, dropout=0.25, rng=rng)
    spread = torch.stack([
        net.classifier[place].weight.detach().var() * net.classifier[place].in_features
        for place in (1, 4)
    ])
    drops = [one.p for one in net.modules() if isinstance(one, nn.Dropout)]
    drawn_anew(net.eval(), rng)
    for one in net.parameters():
        one.data /= max(one[0].numel(), 1) ** 0.5
    x = 20 * randn(rng, batch, 2, 90, 90)
    with torch.no_grad():
        found = net(x)
        for number, (place, step, padding, columns) in enumerate(
            ((0, 3, 1, 1), (4, 1, 2, 2), (8, 1, 1, 1), (10, 1, 1, 2), (12, 1, 1, 2))
        ):
            one, convolved = net.features[place], []
            parts = zip(*(each.chunk(columns, dim=axis) for each, axis in (
                (x, 1), (one.weight, 0), (one.bias, 0))), strict=True)
            for maps, weight, bias in parts:
                convolved.append(F.conv2d(maps, weight, bias, step, padding))
            x = F.relu(torch.cat(convolved, dim=1))
            if number < 2:
                x = _normalized(x)
            if number in (0, 1, 4):
                x = F.max_pool2d(x, 3, 2)
        h = x.flatten(1)
        for place in (1, 4):
            h = F.relu(F.linear(h, net.classifier[place].weight, net.classifier[place].bias))
        scores = F.linear(h, net.classifier[6].weight, net.classifier[6].bias)
    size = float(scores.abs().max())
    nets = _two_columns(), small_alexnet(rng=rng), small_alexnet(rng=rng, dropout=0.1)
    usual = [one.p for other in nets for one in other.modules() if isinstance(one, nn.Dropout)]
    return {
        "column by column": equal(
            found / size, scores / size, tol=1e-12,
            why="an identity: float64 rounding of the largest score",
        ),
        "dropout": equal(
            [*drops, *usual], [0.25, 0.25, 0.5, 0.5, 0.5, 0.5, 0.1, 0.1], tol=0, why="settings"
        ),
        "drawn where it is said": equal(
            [torch.equal(*both) for name in ("other", "one") for both in zip(
                *(small_alexnet(rng=seed.child(one).torch()).features[0].parameters()
                  for one in ("one", name)), strict=True)],
            [0, 1, 1, 1], tol=0, why="one state of the generator, and another; biases are 0",
        ),
        "variance of the start": equal(
            spread, [2.0, 2.0], tol=0.1,
            why="five standard errors of a variance of 25,600 weights, twice 0.044",
        ),
    }


def _normalized(a: Tensor) -> Tensor:
    """Compute the formula of the paper, map by map."""
    count = a.shape[1]
    sums = [a[:, max(0, i - 2) : min(count - 1, i + 2) + 1].square().sum(dim=1)
            for i in range(count)]
    return a / (2 + 1e-4 * torch.stack(sums, dim=1)) ** 0.75


@claim(
    control=[
        Control({"counted": "multiplications"}, ["AlexNet", "LeNet-5", "VGG-16"], "work instead"),
        Control({"counted": "weights, as work"}, ["work of AlexNet"], "weights for the work"),
    ],
    source="Krizhevsky 2014, sec. 1: 90-95 % of the work, 5 % of the parameters in convolutions",
)
def dense_layers_dominate(
    seed: Seed, *,
    counted: Literal["weights", "multiplications", "weights, as work"] = "weights",
) -> Evidence:
    r"""Dense layers have 96 % of the weights of AlexNet, and less than a tenth of its work."""
    nets = {"AlexNet": _two_columns(), "LeNet-5": LeNet5(rng=seed.torch()), "VGG-16": _vgg16()}
    shapes = {"AlexNet": (3, 227, 227), "LeNet-5": (1, 32, 32), "VGG-16": (3, 224, 224)}
    convolutions = {"AlexNet": 5, "LeNet-5": 2, "VGG-16": 13}  # C5 of LeNet-5 counts as dense
    shares, works, parts = {}, {}, {}
    for name, net in nets.items():
        uses = [*multiply_adds(net, shapes[name]).values()]
        weights, work = (
            sum(some[convolutions[name]:]) / sum(some) for some in (_per_layer(net), uses)
        )
        shares[name] = work if counted == "multiplications" else weights
        works[name] = weights if counted == "weights, as work" else work
    bounds = {"AlexNet": 0.96, "LeNet-5": 0.95, "VGG-16": 0.89}
    for name, bound in bounds.items():
        parts[name] = at_least(shares[name], bound, why="a count")
    parts["AlexNet"] = parts["AlexNet"].drawn(
        Series("of the weights", list(nets), list(shares.values()), style="bars"),
        Series("of the multiplications", list(nets), list(works.values()), "other", "bars"),
        Series("at least", list(bounds), list(bounds.values()), "bound", "points"),
        x="network", y="share of the dense layers",
    )
    parts["work of AlexNet"] = at_most(works["AlexNet"], 0.1, why="a count")
    return every(parts)


def _vgg16() -> nn.Sequential:
    """Write VGG-16 down, without its rectifiers."""
    with torch.device("meta"):
        layers: list[nn.Module] = []
        for place, (before, after) in enumerate(zip((3, *VGG16[:-1]), VGG16, strict=True)):
            layers.append(nn.Conv2d(before, after, 3, padding=1))
            layers += [nn.MaxPool2d(2)] if place in HALVED else []
        sizes = (512 * 7**2, 4096, 4096, 1000)
        dense = [nn.Linear(*ends) for ends in itertools.pairwise(sizes)]
        return nn.Sequential(*layers, nn.Flatten(), *dense)


@claim(
    control={"size": 224}, refutes=["maps", "first windows fit"],
    source="Krizhevsky et al. 2012, fig. 2; the maps of the paper need 227 pixels",
    misprint="pictures of 224 x 224",
)
def first_map_needs_227(
    seed: Seed, *, size: Annotated[int, Range(67, 300)] = 227
) -> Evidence:
    r"""$(m-11)/4+1=55$ needs $m=227$: maps of 55, 27, 13, 13, 13 and 6 places a side."""
    sides = _sides(_two_columns(size=size), size)
    with torch.device("meta"):
        theirs = AlexNet(_torchvision(), size=224)
        usual, least = AlexNet(), AlexNet(size=67)
    layers = ["conv1", "conv2", "conv3", "conv4", "conv5", "last pooling"]
    return every({
        "maps": equal(sides, MAPS, tol=0, why="sizes").drawn(
            Series(f"pictures of {size} x {size}", layers, sides, style="bars"),
            Series("in the paper", layers, MAPS, "predicted", "points"),
            x="layer", y="side of its maps",
        ),
        "first windows fit": equal(
            (size - 11) / 4 + 1, sides[0], tol=0, why="no pixel is left over"
        ),
        "by default": equal(
            [*usual.shape, *small_alexnet(rng=seed.torch()).shape], (3, 227, 227, 1, 28, 28),
            tol=0, why="sizes",
        ),
        "torchvision, padded by 2": equal(_sides(theirs, 224), MAPS, tol=0, why="sizes"),
        "smallest pictures": equal(_sides(least, 67)[-1], 1, tol=0, why="one place is left"),
        "what is refused": equal(
            [_refuses(make) for make in (
                lambda: AlexNet(size=66), lambda: AlexNet(_torchvision(), size=62),
                lambda: AlexNet(_torchvision(), size=63), lambda: small_alexnet(size=15),
                lambda: AlexNet.from_torchvision({}),
                lambda: least(torch.empty(1, 3, 67, 68, device="meta")),
            )], [1, 1, 0, 0, 1, 1], tol=0, why="whether there is an error",
        ),
    })


def _refuses(make: Callable[[], object]) -> bool:
    try:
        with torch.device("meta"):
            make()
    except UsageError:
        return True
    return False


def _sides(net: AlexNet, size: int) -> list[int]:
    """List the sides of the maps of the convolutions, and of the last pooling."""
    sides: list[int] = []
    watched = [one for one in net.features if isinstance(one, nn.Conv2d)]
    for layer in (*watched, net.features[-1]):
        layer.register_forward_hook(lambda layer, inputs, y: sides.append(y.shape[2]))
    net(torch.empty(1, 3, size, size, device="meta"))
    return sides


@claim(
    control={"alpha": "as in the paper"}, refutes=["torch's layer"],
    source="Krizhevsky et al. 2012, sec. 3.3; PyTorch",
)
def lrn_is_the_formula(
    seed: Seed, *, alpha: Literal["times the maps", "as in the paper"] = "times the maps"
) -> Evidence:
    r"""Torch's layer with $n\alpha$ is the formula of the paper, whose sum torch averages."""
    rng = seed.torch()
    a = 100 * randn(rng, 2, 9, 3, 4)
    layer = response_norm() if alpha == "times the maps" else nn.LocalResponseNorm(
        5, 1e-4, 0.75, 2.0)
    found, expected = layer(a), _normalized(a)
    few = response_norm(3, alpha=0.1, beta=0.6, k=1.5)(a[:, :4])
    near = [a[:, max(0, i - 1) : min(3, i + 1) + 1].square().sum(dim=1) for i in range(4)]
    own = a[:, :4] / (1.5 + 0.1 * torch.stack(near, dim=1)) ** 0.6
    ramp = torch.linspace(-400, 400, 81, dtype=a.dtype)
    row = ramp.expand(1, 5, 81)[..., None]
    ramped, by_formula = layer(row)[0, 2, :, 0], _normalized(row)[0, 2, :, 0]
    return every({
        "torch's layer": equal_to_rounding(found, expected).drawn(
            Series("torch's layer", ramp, ramped), Series("formula", ramp, by_formula, "predicted"),
            x="a, of the unit and of its four neighbors", y="b",
        ),
        "other constants": equal_to_rounding(few, own),
    })


@claim(control={"window": 2}, refutes=["sides", "largest of three"],
       source="Krizhevsky et al. 2012, sec. 3.4")
def overlapping_pool_size(
    seed: Seed, *, window: Annotated[int, Range(2, 3)] = 3,
    largest: Annotated[int, Range(10, 100)] = 60,
) -> Evidence:
    r"""Windows of 3 at every second place give $\lfloor(m-3)/2\rfloor+1$ places a side."""
    pools = [one for one in alexnet_features(1, (2,) * 5) if isinstance(one, nn.MaxPool2d)]
    pools = pools if window == 3 else [nn.MaxPool2d(window, 2)]
    x = randn(seed.torch(), 2, 1, largest, largest - 3)
    sides = range(3, largest + 1)
    found = [[pool(x[:, :, :side, :3]).shape[2] for side in sides] for pool in pools]
    wanted = [(side - 3) // 2 + 1 for side in sides]
    centers = range(1, largest - 4, 2)  # of windows
    rows = torch.stack([x[:, :, i - 1 : i + 2].amax(dim=2) for i in centers], dim=2)
    both = torch.stack([rows[..., i - 1 : i + 2].amax(dim=3) for i in centers], dim=3)
    cut = slice(0, len(centers))
    return every({
        "sides": equal(found, [wanted] * len(pools), tol=0, why="sizes").drawn(
            Series("torch's pooling", sides, found[0]), Series("formula", sides, wanted,
                                                               "predicted"),
            x="side of the map, m", y="places a side",
        ),
        "largest of three": equal(
            torch.stack([pool(x)[:, :, cut, cut] for pool in pools]),
            torch.stack([both] * len(pools)), tol=0, why="the same numbers",
        ),
    })


def shares(net: nn.Module, uses: Mapping[str, int]) -> tuple[list[int], list[int]]:
    """List how many weights each layer has, and how often each of them is used."""
    weights = [net.get_submodule(name).weight.numel() for name in uses]  # type: ignore[union-attr]
    return weights, [used // own for used, own in zip(uses.values(), weights, strict=True)]

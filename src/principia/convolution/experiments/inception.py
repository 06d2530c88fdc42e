r"""1x1 convolutions and Inception: what it reaches on data."""

import functools
import math
from collections.abc import Mapping
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.convolution.inception import BasicConv2d, InceptionNet, auxiliary_loss
from principia.convolution.layer import multiply_adds
from principia.convolution.vgg import VGG
from principia.gradients.depth import gradient_profile
from principia.lab.data.clothing import clothing
from principia.lab.data.photographs import photographs
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import PositiveInt, Range
from principia.lab.pictures import Cloud, Color, Image, Matrix, Panels
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, learner, seeded_generators
from principia.lab.training.classifiers import learn_classes

SHRINK = 6  # of the photograph a side
EVERY = 7  # which of its pixels are drawn as points
LOST = 0.05  # share of the variance from which on the loss is seen
PAINTS: dict[Color, tuple[float, float, float]] = {
    "red": (0.75, 0.2, 0.1), "orange": (0.85, 0.55, 0.3), "pink": (0.9, 0.8, 0.65),
    "lime": (0.45, 0.5, 0.2), "green": (0.1, 0.3, 0.25), "ink": (0.03, 0.08, 0.08),
}
WHITE = torch.ones(3).double() / 3**0.5  # the direction from black to white
GRAYS = torch.tensor([[0.0] * 3, [1.0] * 3])
CORNERS = torch.tensor([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]])
FAR = 0.6  # how far the picture of the space of colors reaches from the grays
WIDTH = 76  # of the plain stack, which gives it as many parameters


@hero(moves="turn", frames=19)
def flattened(
    seed: Seed, *, turn: Annotated[float, Range(0, 360)] = 70.0,
    tilt: Annotated[float, Range(0, 90)] = 90.0, kept: Annotated[int, Range(1, 3)] = 2,
) -> Panels:
    """A 1 x 1 convolution is one small matrix for all pixels: it mixes colors and never places.

    Args:
        turn: Which hue is lost, as an angle about the axis from black to white.
        tilt: How far the lost direction leans away from that axis; at 0 brightness is lost.
        kept: Channels that the convolution keeps of three; a second one gives colors again.
    """
    x, paint = _photograph()
    basis = _basis(math.radians(turn), math.radians(tilt))[:kept]
    mean = x.mean(dim=(2, 3))[0]
    make = functools.partial(
        BasicConv2d, norm=None, activation=nn.Identity, rng=torch.Generator()
    )
    compress, spread = make(3, kept).double(), make(kept, 3).double()
    for layer, weight, bias in (
        (compress, basis, -basis @ mean), (spread, basis.mT, mean),
    ):
        layer.conv.weight, layer.conv.bias = (
            nn.Parameter(one) for one in (weight[:, :, None, None], bias)
        )
    with torch.no_grad():
        y = spread(compress(x))
    lost = float((y - x).square().sum() / (x - mean[:, None, None]).square().sum())
    points, before = (_placed(one[0].flatten(1).mT[::EVERY]) for one in (y, x))
    edge: Color = "red" if lost > LOST else "green"
    words = f"{lost:.0%} of the colors lost" if lost > 5e-4 else "nothing lost"
    clouds = [
        Cloud(name, points[paint[::EVERY] == number], role=name, size=3.5)
        for number, name in enumerate(PAINTS)
    ]
    return Panels((
        Plot((Image(x[0].movedim(0, 2)),), title="3 channels", bare=True, square=True),
        Plot((
            Cloud("", _placed(_outline(basis, mean)), role=edge, style="line"),
            Cloud("", _placed(GRAYS), role="gray", style="line"),
            Cloud("", FAR * CORNERS, role="gray", size=1.0),
            Cloud("", before, role="gray", size=1.5), *clouds,
        ), title="its pixels as points: up is bright, around is hue", bare=True, square=True),
        Plot((
            Image(_framed(y[0].movedim(0, 2).clamp(0, 1), lost > LOST)),
        ), title=f"through {kept}: {words}", bare=True, square=True),
    ))


@functools.cache
def _photograph() -> tuple[Tensor, Tensor]:
    """Shrink the flower; also tell which paint is nearest to each pixel."""
    pixels = torch.tensor(photographs()["flower"][:, 90:550]).double() / 255
    x = F.avg_pool2d(pixels.movedim(2, 0)[None], SHRINK)
    colors = torch.tensor(list(PAINTS.values())).double()
    return x, torch.cdist(x[0].flatten(1).mT, colors).argmin(dim=1)


def _basis(turn: float, tilt: float) -> Tensor:
    """Give three orthogonal colors, of which the last one is lost first."""
    red = torch.tensor([2.0, -1.0, -1.0]).double() / 6**0.5
    third = torch.linalg.cross(WHITE, red)
    across = math.cos(turn) * red + math.sin(turn) * third
    lost = math.cos(tilt) * WHITE + math.sin(tilt) * across
    first = math.sin(tilt) * WHITE - math.cos(tilt) * across
    return torch.stack([first, torch.linalg.cross(lost, first), lost])


def _outline(basis: Tensor, mean: Tensor) -> Tensor:
    """Draw the plane or the line that is kept, or nothing new where all is."""
    first = 0.45 * basis[0]
    second = 0.45 * basis[1] if len(basis) == 2 else 0 * first
    ends = [first + second, first - second, -first - second, second - first, first + second]
    return mean + torch.stack(ends) * (len(basis) < 3)


def _placed(colors: Tensor) -> Tensor:
    """Turn the space of colors so that black is below and white above."""
    return (colors.double() - 0.5) @ torch.stack([*_basis(0.0, math.pi / 2)[1:], WHITE]).mT


def _framed(pixels: Tensor, bad: bool) -> Tensor:
    """Put a frame around a picture, red where it lost much."""
    color = torch.tensor([0.86, 0.15, 0.15] if bad else [0.1, 0.6, 0.3]).double()
    rows, columns = pixels.shape[:2]
    framed = color.expand(rows + 4, columns + 4, 3).clone()
    framed[2:-2, 2:-2] = pixels
    return framed


@learner
def network(
    shape: tuple[int, int, int], outputs: PositiveInt, rng: torch.Generator, *,
    dropout: Annotated[float, Range(0, 1, open="high")] = 0.2,
) -> nn.Module:
    """Builds two Inception modules behind a convolution, for small pictures of any size.

    Args:
        dropout: Share of the channels that is dropped in front of the last layer.
    """
    return InceptionNet(
        small=True, channels=shape[0], classes=outputs, auxiliary=False, dropout=dropout, rng=rng
    )


@experiment(
    reaches={
        "accuracy": at_least_goal(0.916), "gain": at_least_goal(-0.002), "work": at_most_goal(0.7),
    },
    floor={"accuracy": at_least_goal(0.95), "work": at_most_goal(0.7)},
    source="table of submitted benchmarks of Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): two "
    "convolutions with pooling, 0.916; to be matched besides is a plain stack with as many "
    "parameters, at 0.7 of its multiplications", trains=True,
)
def fashion_inception(
    run: Run, *, epochs: Annotated[int, Range(1, 30)] = 6,
    limit: Annotated[int, Range(100, 60_000)] = 60_000,
) -> None:
    """Reads clothes with two Inception modules, and compares with a plain stack of 3 x 3 layers.

    At full budget the same modules also learn without their auxiliary head.

    Args:
        epochs: How often the pictures are gone through.
        limit: Pictures to learn from.
    """
    x, y, *test = clothing(run)
    rate = 3e-3 if run.full else 6e-3
    nets: dict[str, nn.Module] = {
        "inception": InceptionNet(
            small=True, channels=1, classes=10, dropout=0.0, rng=run.seed.child("init").torch()),
        "headless": InceptionNet(
            small=True, channels=1, classes=10, auxiliary=False, dropout=0.0,
            rng=run.seed.child("init").torch()),
        "plain": VGG(
            (32, "M", WIDTH, "M", WIDTH), channels=1, classes=10, batch_norm=True, dense=0,
            rng=run.seed.child("plain").torch()),
    }
    run.figure("gradients", _gradients(nets["inception"], x[:64], y[:64], run.seed))
    work = {name: multiply_adds(net, tuple(x.shape[1:])) for name, net in nets.items()}
    right = {}
    trained = nets if run.full else ("inception", "plain")
    for name in run.steps(trained, "networks"):
        right[name] = learn_classes(
            run, nets[name], (x[:limit], y[:limit]), (test[0], test[1]), epochs=epochs, name=name,
            lr=rate, objective=Supervised(auxiliary_loss),
        )
    run.keep(nets["inception"], example=x[:1])
    run.record(
        accuracy=right["inception"], plain_accuracy=right["plain"],
        gain=right["inception"] - right["plain"],
        work=sum(work["inception"].values()) / sum(work["plain"].values()),
        parameters=_size(nets["headless"]), plain_parameters=_size(nets["plain"]),
    )
    if run.full:
        run.record(gain_by_head=right["inception"] - right["headless"])
    run.figure("costs", _costs(nets, work))


def _size(net: nn.Module) -> int:
    return sum(one.numel() for one in net.parameters())


def _gradients(net: nn.Module, x: Tensor, y: Tensor, seed: Seed) -> Plot:
    """Measure the gradient of each part at the start, with the loss of the head and without."""
    parts = ("conv1", "inception3a", "inception3b", "fc")
    series = []
    for name, weight in (("with the head", 0.3), ("without", 0.0)):
        with seeded_generators(seed.child("gradients"), x.device):  # dropout draws the same
            profile = gradient_profile(net, x, y, functools.partial(auxiliary_loss, weight=weight))
        squares = [sum(one**2 for key, one in profile.items() if key.split(".")[0] == part)
                   for part in parts]
        role = "measured" if weight else "other"
        series.append(Series(name, parts, [one**0.5 for one in squares], role, "bars"))
    return Plot(tuple(series), "part of the network", "gradient of its weights, at the start")


def _costs(nets: Mapping[str, nn.Module], work: Mapping[str, Mapping[str, int]]) -> Plot:
    """List weights and multiplications of the parts of Inception and of the plain stack."""
    rows: dict[str, list[float]] = {}
    for name in ("inception", "plain"):
        for layer, count in work[name].items():
            part = layer.split(".")[0] if name == "inception" else layer
            weights = nets[name].get_parameter(f"{layer}.weight").numel()
            for row in (f"{name}: {part}", f"{name}: all"):
                so_far = rows.setdefault(row, [0.0, 0.0])
                rows[row] = [so_far[0] + weights / 1e3, so_far[1] + count / 1e3]
    order = sorted(rows, key=lambda row: (row.split(":")[0], row.endswith("all")))
    return Plot((Matrix(
        [[round(one, 1) for one in rows[row]] for row in order], order,
        ("thousands of weights", "thousands of multiplications"), written=True,
    ),), title="what a picture costs")

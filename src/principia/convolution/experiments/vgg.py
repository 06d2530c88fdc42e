r"""VGG: what it reaches on data."""

import functools
import math
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.convolution.layer import multiply_adds
from principia.convolution.vgg import VGG, compose_kernels
from principia.lab.data.clothing import clothing
from principia.lab.data.photographs import photographs
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import PositiveInt, Range
from principia.lab.pictures import Color, Image, Label, Mark, Panels
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import learner
from principia.lab.training.classifiers import learn_classes

Angle = Annotated[float, Range(0, 180)]
SHRINK = 5  # of the photograph a side
SLOPES = torch.tensor([[1.0, 2.0, 1.0]]).double() / 8, torch.tensor([[-1.0, 0.0, 1.0]]).double()
ARMS = {  # layers of a group and their kernels; two and two see equally far
    "one 5 x 5": (1, 5), "two 3 x 3": (2, 3), "one 7 x 7": (1, 7), "three 3 x 3": (3, 3),
}


@hero(moves="relu", frames=17)
def composed(
    seed: Seed, *, relu: Annotated[float, Range(0, 1)] = 1.0, first: Angle = 30.0,
    second: Angle = 120.0,
) -> Panels:
    """Two small kernels are one large one and cheaper; with a ReLU between them they are more.

    Args:
        relu: How much of what is below 0 the ReLU between the layers takes away.
        first: Angle of the slope that the first kernel measures, in degrees.
        second: Angle of that of the second kernel.
    """
    x = _photograph()
    bent = functools.partial(nn.LeakyReLU, 1 - relu)
    net = VGG((1, 1), channels=1, activation=bent, dense=0, rng=torch.Generator())
    a, b = (_slope(angle) for angle in (first, second))
    net.features[0].weight, net.features[2].weight = nn.Parameter(a), nn.Parameter(b)
    with torch.no_grad():
        y = net.double().features[:3](x)[0, 0, 2:-2, 2:-2]
    rows = F.unfold(x, 5)[0].mT
    rows = torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)
    square, target = rows.mT @ rows, rows.mT @ y.flatten()
    fitted = torch.linalg.solve(square + 1e-9 * square.diagonal().mean() * torch.eye(26), target)
    best = (rows @ fitted).view_as(y)
    miss = float(((y - best).square().mean() / y.var(correction=0)).sqrt())
    whole = compose_kernels(a, b) if relu < 1e-6 else fitted[:25].view(1, 1, 5, 5)
    words = "nothing" if miss < 5e-4 else f"{miss:.0%}"
    return Panels((
        Plot(tuple(_kernels(a, b, whole, miss < 5e-4)), title="two 3 x 3, and the best 5 x 5",
             bare=True, square=True, x_range=(-0.5, 8.5), y_range=(-6.5, 5.0)),
        Plot((Image(_gray(y)),), title="after both layers", bare=True, square=True),
        Plot((Image(_reddened(y, best)),), title=f"one 5 x 5 misses {words}", bare=True,
             square=True),
    ))


@functools.cache
def _photograph() -> Tensor:
    """Shrink the temple to a gray picture."""
    pixels = torch.tensor(photographs()["china"][20:400, 90:610]).double().mean(dim=2) / 255
    return F.avg_pool2d(pixels[None, None], SHRINK)


def _slope(angle: float) -> Tensor:
    """Make the 3 x 3 kernel that measures the slope along an angle."""
    smooth, step = SLOPES
    right, up = smooth.mT @ step, -step.mT @ smooth
    turn = math.radians(angle)
    return (math.cos(turn) * right + math.sin(turn) * up)[None, None]


def _kernels(a: Tensor, b: Tensor, whole: Tensor, same: bool) -> list[Mark]:
    """Draw both kernels above the one that is fitted to what they do."""
    places = ((a, 0.0, 1.5), (b, 5.0, 1.5), (whole, 1.5, -6.0))
    marks: list[Mark] = []
    for kernel, left, low in places:
        side = kernel.shape[-1]
        scale = float(kernel.abs().max()) or 1.0
        marks.append(Image(
            kernel[0, 0] / scale, signed=True, low=-1.0, high=1.0,
            place=(left, low, left + side, low + side),
        ))
    sign: tuple[str, Color] = ("=", "green") if same else ("≠", "red")
    return [*marks, Label("then", 4.0, 3.0, "gray"), Label(sign[0], 4.0, 0.2, sign[1], size=26.0)]


def _gray(y: Tensor) -> Tensor:
    """Paint outputs, 0 in the middle of the grays."""
    shade = (0.5 + y / (2 * y.abs().quantile(0.995) + 1e-12)).clamp(0, 1)
    return shade[..., None].expand(*shade.shape, 3)


def _reddened(y: Tensor, best: Tensor) -> Tensor:
    """Paint outputs pale, and red where one kernel gives something else."""
    pale = 0.55 + 0.45 * _gray(best)
    wrong = ((y - best).abs() / (0.5 * y.abs().quantile(0.995) + 1e-12)).clamp(0, 1)[..., None]
    return pale * (1 - wrong) + wrong * torch.tensor([0.86, 0.1, 0.1]).double()


@learner
def network(
    shape: tuple[int, int, int], outputs: PositiveInt, rng: torch.Generator, *,
    width: PositiveInt = 32, batch_norm: bool = True,
) -> nn.Module:
    """Builds a VGG of six layers for pictures of any size.

    Args:
        width: Channels of the first two layers; they double with each halving of the sides.
        batch_norm: Whether layers are normalized over the batch.
    """
    config = tuple(
        one for stage in range(3) for one in (width << stage, width << stage, "M")
    )
    net = VGG(config, channels=shape[0], classes=outputs, batch_norm=batch_norm, dense=0, rng=rng)
    down, right = (-side % 8 for side in shape[1:])
    return nn.Sequential(nn.ZeroPad2d((0, right, 0, down)), net) if down or right else net


@experiment(
    reaches={"accuracy": at_least_goal(0.925)}, floor={"accuracy": at_least_goal(0.96)},
    source="table of submitted benchmarks of Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): two "
    "convolutions with fewer than 100,000 parameters, 0.925", trains=True,
)
def fashion_vgg(
    run: Run, *, epochs: Annotated[int, Range(1, 30)] = 6,
    limit: Annotated[int, Range(100, 60_000)] = 60_000,
    few: Annotated[int, Range(100, 60_000)] = 5000, width: Annotated[int, Range(4, 64)] = 16,
) -> None:
    """Reads clothes with a small VGG, and compares stacks of 3 x 3 layers with large kernels.

    Args:
        epochs: How often the pictures are gone through; a quick run does so half as often.
        limit: Pictures to learn from.
        few: Pictures from which each of the compared networks learns, for twice the epochs.
        width: Channels of all layers of the compared networks.
    """
    x, y, x_test, y_test = clothing(run)
    if run.full:  # so that three halvings leave nothing out
        x, x_test = (F.pad(one, (2, 2, 2, 2)) for one in (x, x_test))
    passes, rate = (epochs, 3e-3) if run.full else (-(-epochs // 2), 1e-2)
    net = VGG(
        "small", channels=1, classes=10, batch_norm=True, rng=run.seed.child("init").torch()
    )
    run.record(parameters=sum(one.numel() for one in net.parameters()))
    run.record(accuracy=learn_classes(
        run, net, (x[:limit], y[:limit]), (x_test, y_test), epochs=passes, lr=rate, name="vgg"
    ))
    run.keep(net, example=x[:1])
    found: dict[str, tuple[int, int, float]] = {}
    for arm in run.steps(ARMS, "kernels"):
        layers, kernel = ARMS[arm]
        group = [width] * layers
        config = (*group, *group, "M", *group, "M")
        other = VGG(config, channels=1, classes=10, batch_norm=True, kernel=kernel, dense=0,
                    rng=run.seed.child(arm).torch())
        right = learn_classes(
            run, other, (x[:few], y[:few]), (x_test, y_test), epochs=2 * passes, lr=rate,
            name=arm.replace(" ", "-"),
        )
        work = sum(multiply_adds(other, tuple(x.shape[1:])).values())
        found[arm] = sum(one.numel() for one in other.parameters()), work, right
        run.record(**{f"accuracy_{arm}".replace(" ", "_"): right})
    run.figure("kernels", Panels(tuple(
        Plot(_compared(found, place), words, "test accuracy", log="x")
        for place, words in enumerate(("parameters", "multiplications of a picture"))
    )))


def _compared(found: dict[str, tuple[int, int, float]], place: int) -> tuple[Mark, ...]:
    """Join nets that see equally far by a line, from the large kernel to the stack."""
    marks: list[Mark] = []
    for role, (large, stack) in zip(
        ("blue", "orange"), (("one 5 x 5", "two 3 x 3"), ("one 7 x 7", "three 3 x 3")),
        strict=True,
    ):
        pair = [found[name] for name in (large, stack)]
        sizes, right = [one[place] for one in pair], [one[2] for one in pair]
        marks.append(Series(f"{large} to {stack}", sizes, right, role, "line"))  # type: ignore[arg-type]
        marks += [
            Label(name, size, height, role, side="above")  # type: ignore[arg-type]
            for name, size, height in zip((large, stack), sizes, right, strict=True)
        ]
    return tuple(marks)

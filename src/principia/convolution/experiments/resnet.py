r"""Residual networks: what it reaches on data."""

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.convolution.resnet import ConvLayer, PlainNet, ResidualBlock, ResNet
from principia.gradients.depth import gradient_profile
from principia.lab import figures
from principia.lab.data.clothing import clothing
from principia.lab.evidence import Plot, Role, Series
from principia.lab.heroes import hero
from principia.lab.params import PositiveInt, Range
from principia.lab.pictures import Cloud, Label, Panels, Rule
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit, learner
from principia.lab.training.classifiers import learn_classes
from principia.regularization.augmentation import Augment, Mirror, Shift

DEEPEST = 28  # blocks of the moving picture
LOST, TOO_MUCH = 0.1, 10.0  # lengths of a gradient that is red
EDGE = 1.6  # rings beyond are drawn here
COLORS: Mapping[str, Role] = {"plain": "orange", "residual": "measured"}


@hero(moves="skip", frames=21)
def rings(
    seed: Seed, *, skip: Annotated[float, Range(0, 1)] = 1.0,
    depth: Annotated[int, Range(4, DEEPEST)] = 20,
    branch: Annotated[float, Range(0.05, 0.8)] = 0.25,
) -> Panels:
    """The gradient of a deep network lives on the identity: without it, it is gone in ten layers.

    Args:
        skip: Strength of the shortcuts; at 0 there are none.
        depth: Blocks that a ring of gradients is carried back through, from above to below.
        branch: Scale of the branches, whose weights are random.
    """
    axes = _carried(seed, depth, skip, branch)  # (depth + 1, 2, 2), the last ring first
    turn = torch.linspace(0, 2 * math.pi, 37, dtype=axes.dtype)
    circle = torch.stack([turn.cos(), turn.sin()])
    shapes, lengths = (axes @ circle).mT, torch.linalg.svdvals(axes)
    longest = lengths[:, 0]
    drawn = shapes * (EDGE / longest.clamp(min=EDGE))[:, None, None]
    heights = torch.linspace(1, 0, DEEPEST + 1, dtype=axes.dtype)[: depth + 1]
    rest: list[Any] = [
        _ring("", drawn[k], float(heights[k]), _color(float(longest[k]))) for k in range(depth + 1)
    ]
    rest += [_ring("", torch.zeros(2, 2).to(axes), 1.0, "gray")] * (DEEPEST - depth)
    corners = torch.tensor([[-EDGE, -EDGE, 0.0], [EDGE, EDGE, 1.0]])
    frame = [
        Cloud("", corners, role="gray", size=0.01),
        *(_ring("", circle.mT, height, "gray") for height in (1.0, float(heights[-1]))),
    ]
    left, color = float(longest[-1]), _color(float(longest[-1]))
    word = {"green": "arrives", "orange": "fades"}.get(color, "lost" if left < 1 else "explodes")
    places = range(depth + 1)
    return Panels((
        Plot((*frame, *rest), title=f"gradients, carried back: {word}", bare=True, square=True),
        Plot((
            Series("", places, longest, color, "line"),
            Series("", places, lengths[:, 1], color, "line"),
            Series("", [depth], longest[-1:], color, "points"),
            Rule("", y=1.0, role="gray"), Rule("a tenth is left", y=LOST),
            Label(f" {left:.1g}", depth, max(left, 1e-8), color, side="right"),
        ), x="blocks passed, from the loss", y="length of the gradient", log="y",
            title=f"after {depth} blocks: {left:.1g} of it",
            x_range=(0, DEEPEST + 6), y_range=(1e-9, 1e3)),
    ))


def _ring(name: str, points: Tensor, height: float, role: Any) -> Cloud:
    """Draw a closed line in space."""
    level = points.new_full((len(points), 1), height)
    return Cloud(name, torch.cat([points, level], dim=1), role=role, style="line")


def _color(length: float) -> Role:
    if LOST < length < TOO_MUCH:
        return "orange" if length < 0.4 or length > 4 else "green"
    return "red"


@functools.lru_cache(maxsize=64)
def _carried(seed: Seed, depth: int, skip: float, branch: float) -> Tensor:
    """Carry a circle of gradients back, and give the axes of its image behind each block.

    The blocks have two linear convolutions, whose gain is 2 in the middle of the maps. What two
    gradients u, v become is told by their products: the root of that matrix maps the circle.
    """
    x, gradients, blocks = _stack(seed)
    axes = [torch.eye(2, dtype=x.dtype)]
    for block in blocks[:depth]:
        (back,) = torch.autograd.grad(block(x), x, gradients)
        gradients = skip * gradients + branch / 2 * (back - gradients)
        flat = gradients.flatten(1)
        values, vectors = torch.linalg.eigh(flat @ flat.T)
        axes.append(vectors * values.clamp(min=0).sqrt() @ vectors.T)
    return torch.stack(axes)


@functools.lru_cache(maxsize=4)
def _stack(seed: Seed) -> tuple[Tensor, Tensor, list[ResidualBlock]]:
    """Draw the blocks, and two gradients of length 1 at a right angle."""
    rng = seed.torch()
    linear = functools.partial(ConvLayer, norm=nn.Identity, activation=nn.Identity)
    blocks = [ResidualBlock(8, 8, layer=linear, rng=rng).double() for _ in range(DEEPEST)]
    gradients = torch.randn(8 * 6 * 6, 2, generator=rng, dtype=torch.float64)
    gradients = torch.linalg.qr(gradients).Q.T.reshape(2, 8, 6, 6)
    return torch.zeros_like(gradients, requires_grad=True), gradients, blocks


@learner
def network(
    shape: tuple[int, int, int], outputs: PositiveInt, rng: torch.Generator, *,
    n: Annotated[int, Range(1, 18)] = 1, width: Annotated[int, Range(4, 128)] = 16,
) -> nn.Module:
    """Builds a residual network of depth 6n + 2 for pictures of any size.

    Args:
        n: Blocks in each of three groups.
        width: Channels of the first group; the others have twice and four times as many.
    """
    return ResNet(n, channels=shape[0], width=width, classes=outputs, rng=rng)


@experiment(
    reaches={"accuracy": at_least_goal(0.925)}, floor={"accuracy": at_least_goal(0.96)},
    source="table of submitted benchmarks of Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): two "
    "convolutions with fewer than 100,000 parameters, 0.925",
)
def fashion_resnet8(
    run: Run, *, n: Annotated[int, Range(1, 9)] = 1, width: Annotated[int, Range(4, 64)] = 16,
    epochs: Annotated[int, Range(1, 100)] | None = None,
    limit: Annotated[int, Range(100, 60_000)] = 60_000,
    lr: Annotated[float, Range(1e-4, 0.1)] = 5e-3,
) -> None:
    """Tells clothes apart with a residual network of 75,002 parameters, and deepens plain ones.

    Clothes are shifted by up to two pixels, and some are mirrored.

    Args:
        n: Blocks in each of three groups, which make 6n + 2 layers.
        width: Channels of the first group.
        epochs: How often the pictures are shown; by default 10 times.
        limit: How many pictures at most are learned.
        lr: Largest learning rate of the cycle.
    """
    x, y, *test = clothing(run)
    x, y = x[:limit], y[:limit]
    model = ResNet(n, channels=1, width=width, rng=run.seed.child("init").torch())
    augment = [Augment(Shift(-2, 2), Mirror())] if run.full else []
    found = learn_classes(
        run, model, (x, y), (test[0], test[1]), epochs=epochs or 10, lr=lr, callbacks=augment,
    )
    parameters = sum(one.numel() for one in model.parameters())
    run.record(accuracy=found, parameters=parameters)
    run.keep(model, example=x[:1])
    many, rounds, blocks = (4096, 6, (1, 3, 7)) if run.full else (512, 4, (1, 3))
    curves = _deepened(run, x[:many], y[:many], blocks, rounds)
    ends = min(min(one) for one in curves.values()) / 1.5, max(max(one) for one in curves.values())
    run.figure("depth", Panels(tuple(
        Plot(tuple(
            Series(kind, range(1, rounds + 1), curves[kind, k], role, "line")
            for kind, role in COLORS.items()
        ), "epoch", "training loss", log="y", title=f"{6 * k + 2} layers", y_range=ends)
        for k in blocks
    ), legend=True))
    for kind in COLORS:
        run.record(**{f"{kind}_loss": curves[kind, blocks[-1]][-1]})
    depths = (1, 2, 3, 5, 7, 9) if run.full else (1, 2, 3)
    norms = _first_gradients(run, (x[:128], y[:128]), depths)
    run.figure("gradients", figures.draw(Plot(tuple(
        Series(kind, [6 * k + 2 for k in depths], ones, COLORS[kind], "line")
        for kind, ones in norms.items()
    ), "layers", "gradient of the first layer / of the last", log="y")))


def _deepened(
    run: Run, x: Tensor, y: Tensor, blocks: tuple[int, ...], epochs: int
) -> dict[tuple[str, int], list[float]]:
    """Train plain and residual networks of growing depth, and give the losses of each epoch."""
    curves = {}
    for k, kind in itertools.product(blocks, COLORS):
        own = run.seed.child(k)
        make = PlainNet if kind == "plain" else ResNet
        net = make(k, channels=1, rng=own.child("init").torch())
        sgd = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
        trained = fit(
            net, (x, y), Supervised(F.cross_entropy), sgd, epochs=epochs, seed=own, run=run,
            name=f"{kind}-{6 * k + 2}",
        )
        curves[kind, k] = [row["loss"] for row in trained.history]
    return curves


def _first_gradients(
    run: Run, few: tuple[Tensor, Tensor], depths: tuple[int, ...]
) -> dict[str, list[float]]:
    """Measure the gradient of the first layer beside that of the last, before any training."""
    found: dict[str, list[float]] = {kind: [] for kind in COLORS}
    for k, kind in itertools.product(depths, COLORS):
        make = PlainNet if kind == "plain" else ResNet
        net = make(k, channels=1, rng=run.seed.child(f"start {k}").torch())
        norms = [*gradient_profile(net, *few).values()]
        found[kind].append(norms[0] / norms[-1])
    return found

r"""DenseNet: what it reaches on data."""

import bisect
import functools
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.convolution.densenet import DenseNet
from principia.convolution.resnet import ConvLayer, ResNet, Stem
from principia.lab import figures
from principia.lab.data.clothing import clothing
from principia.lab.data.digits import digits
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import PositiveInt, Range
from principia.lab.pictures import Graph, Label, Matrix, Panels, Regions
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import accuracy, learner
from principia.lab.training.classifiers import learn_classes
from principia.regularization.augmentation import Augment, Mirror, Shift

MOST = 8  # layers of the moving picture
STEPS = 40  # of its training
SLICE = 0.34  # height of the maps of one ancestor


@hero(moves="cut", frames=MOST + 1)
def arcs(
    seed: Seed, *, cut: Annotated[int, Range(0, MOST)] = 3,
    layers: Annotated[int, Range(3, MOST)] = 6, growth: Annotated[int, Range(2, 6)] = 4,
    dense: bool = True,
) -> Panels:
    """Maps are kept and read again by all: cutting a layer costs one slice, in a chain everything.

    The scores are fitted anew to what is left, so that they tell what can still be read.

    Args:
        cut: The layer whose maps are lost; 0 cuts none, and beyond the last one it is the last.
        layers: Layers between the input and the scores.
        growth: Channels that each layer adds.
        dense: Whether layers read all maps, or, as in a chain, those of the layer before.
    """
    net, widths = _trained(seed, layers, growth, dense)
    lost = min(cut, layers)
    found = [_right(net, 0), _right(net, lost)]
    # without its maps, a layer of a chain has nothing to pass on
    gone = ({lost} if dense else set(range(lost, layers + 1))) if lost else set()
    turn = torch.linspace(0, 1, 13)
    places, edges, weights = [], [], []
    for (source, reader), width in widths.items():
        first, reach = len(places), reader - source
        places += [(source + reach * float(t), 2.2 * reach / (layers + 1) * float(4 * t * (1 - t)))
                   for t in turn]
        edges += [(k, k + 1) for k in range(first, first + len(turn) - 1)]
        weights += [width if source in gone else -width] * (len(turn) - 1)
    tiles, groups, holes = [], [], []
    for source, reader in widths:
        level = -0.45 - SLICE * (source if dense else 0)
        box = [(reader - 0.3, level), (reader + 0.3, level), (reader + 0.3, level - SLICE),
               (reader - 0.3, level - SLICE)]
        if source in gone:
            corners = [*box, box[0]]
            x, y = ([one[k] for one in corners] for k in (0, 1))
            holes.append(Series("", x, y, "red", "line"))
        else:
            tiles.append(box)
            groups.append(source)
    holes += [Series("", [], [], "red", "line")] * (layers + 1 - len(holes))  # in every frame
    names = ["x", *map(str, range(1, layers + 1)), "scores"]
    nodes = Graph(
        [(k, 0) for k in range(layers + 2)], [], names,
        [0.9 * (k in gone) for k in range(layers + 2)],
    )
    title = "every layer reads all maps" if dense else "every layer reads the one before"
    color = "red" if found[1] < found[0] / 2 else "green"
    return Panels((
        Plot((
            Graph(places, edges, [], weights=weights, size=0.01), nodes, Regions(tiles, groups),
            *holes, Label("reads:", 0, -0.45 - SLICE / 2, "gray", 13),
        ), bare=True, title=title, x_range=(-0.6, MOST + 1.6), y_range=(-3.6, 2.4)),
        Plot((
            Series("", ["whole"], found[:1], "green", "bars"),
            Series("", [f"without {lost}" if lost else "none cut"], found[1:], color, "bars"),
        ), y="digits that can be told from what is left", y_range=(0, 1),
            title=f"cut layer {lost}: {found[0]:.0%} to {found[1]:.0%}" if lost else "nothing cut"),
    ))


@functools.lru_cache(maxsize=32)
def _trained(
    seed: Seed, layers: int, growth: int, dense: bool
) -> tuple[nn.Module, dict[tuple[int, int], float]]:
    """Learn digits for a moment; give the mean weight from each source to each reader."""
    rng = seed.torch()
    stem = Stem(1, growth, stride=2, rng=rng)
    if dense:
        net: Any = DenseNet((layers,), growth, channels=stem, rng=rng)
        readers: list[Any] = [layer[0].conv.weight for layer in net.blocks[0].layers]
        readers.append(net.head.weight)
        sources = [range(k + 1) for k in range(layers + 1)]
    else:
        chain = [ConvLayer(growth, growth, pre=True, rng=rng) for _ in range(layers)]
        head = ConvLayer(growth, 10, 1, pre=True, rng=rng)
        mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        net = nn.Sequential(stem, nn.Sequential(*chain), head, mean)
        readers = [layer.conv.weight for layer in (*chain, head)]
        sources = [range(k, k + 1) for k in range(layers + 1)]
    x, y = digits()[:2]
    adam = torch.optim.Adam(net.parameters(), 0.02)
    for rows in torch.randint(len(x), (STEPS, 64), generator=rng):
        adam.zero_grad()
        F.cross_entropy(net(x[rows, None]), y[rows]).backward()
        adam.step()
    return net.eval(), {
        (source, reader): float(part.detach().abs().mean())
        for reader, (weight, own) in enumerate(zip(readers, sources, strict=True), start=1)
        for source, part in zip(own, weight.split(growth, dim=1), strict=True)
    }


def _right(net: Any, lost: int) -> float:
    """Silence a layer, fit the scores anew to what is left, and measure the test accuracy."""
    dense = isinstance(net, DenseNet)
    body: Any = nn.Sequential(net.stem, net.blocks[0]) if dense else net[:2]
    layers = body[1].layers if dense else body[1]
    handles = [layer.register_forward_hook(_silenced) for layer in layers[lost - 1:lost]]
    x, y, x_test, y_test = digits()
    with torch.no_grad():
        maps = body(torch.cat([x, x_test])[:, None]).relu()
    for handle in handles:
        handle.remove()
    features = F.adaptive_avg_pool2d(maps, 2).flatten(1).double()
    features = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
    known, new = features.split([len(x), len(x_test)])
    ridge = 1e-3 * len(x) * torch.eye(known.shape[1], dtype=known.dtype)
    weights = torch.linalg.solve(known.T @ known + ridge, known.T @ F.one_hot(y).double())
    return float(accuracy(new @ weights, y_test))


def _silenced(layer: nn.Module, inputs: Any, maps: Tensor) -> Tensor:
    """Let maps tell nothing: each is its mean."""
    return maps.mean(dim=(0, 2, 3), keepdim=True).expand_as(maps)


@learner
def network(
    shape: tuple[int, int, int], outputs: PositiveInt, rng: torch.Generator, *,
    layers: Annotated[int, Range(1, 16)] = 4, growth: Annotated[int, Range(2, 48)] = 12,
    bottleneck: bool = False,
) -> nn.Module:
    """Builds a DenseNet of three blocks for pictures of 4 x 4 pixels or more.

    Args:
        layers: Layers of each block.
        growth: Channels that each layer adds.
        bottleneck: Whether layers first mix what they read, and transitions keep half of it.
    """
    return DenseNet(
        (layers,) * 3, growth, bottleneck=bottleneck, theta=0.5 if bottleneck else 1.0,
        channels=shape[0], classes=outputs, rng=rng,
    )


@experiment(
    reaches={"gap": at_least_goal(-0.005)}, floor={"accuracy": at_least_goal(0.95)}, trains=True,
    source="Huang, Liu, van der Maaten and Weinberger (2017), fig. 4: of equal accuracy, a "
    "DenseNet has fewer parameters than a ResNet; to reach is a residual network of as many "
    "parameters on 20,000 clothes, but for half a point",
)
def fashion_densenet(
    run: Run, *, layers: Annotated[int, Range(1, 12)] = 4,
    growth: Annotated[int, Range(2, 32)] = 12,
    epochs: Annotated[int, Range(1, 100)] | None = None,
    limit: Annotated[int, Range(100, 60_000)] = 20_000,
    lr: Annotated[float, Range(1e-4, 0.1)] = 5e-3,
) -> None:
    """Tells clothes apart with a DenseNet, beside a residual network of as many parameters.

    Args:
        layers: Layers of each of three blocks.
        growth: Channels that each layer adds.
        epochs: How often the pictures are shown; by default 5 times at full budget, else 4 times.
        limit: How many pictures at most are learned.
        lr: Largest learning rate of the cycle.
    """
    x, y, *test = clothing(run)
    x, y = x[:limit], y[:limit]
    model = DenseNet(3 * layers + 4, growth, channels=1, rng=run.seed.child("init").torch())
    size = _count(model)
    with torch.device("meta"):
        width = bisect.bisect_left(
            range(128), size, lo=1, key=lambda one: _count(ResNet(1, channels=1, width=one))
        )
    rival = ResNet(1, channels=1, width=width, rng=run.seed.child("rival").torch())
    augment = [Augment(Shift(-2, 2), Mirror())] if run.full else []
    found = {
        name: learn_classes(
            run, net, (x, y), (test[0], test[1]), epochs=epochs or (5 if run.full else 4), lr=lr,
            callbacks=augment, name=name,
        ) for name, net in (("densenet", model), ("resnet", rival))
    }
    run.record(
        accuracy=found["densenet"], resnet_accuracy=found["resnet"],
        gap=found["densenet"] - found["resnet"], parameters=size, resnet_parameters=_count(rival),
    )
    run.keep(model, example=x[:1])
    run.figure("weights", _weights(model, layers, growth))


def _count(net: nn.Module) -> int:
    return sum(one.numel() for one in net.parameters())


def _weights(model: DenseNet, layers: int, growth: int) -> Any:
    """Draw how large the weights are with which each layer reads each source, block by block.

    The largest of each layer is 1: later layers read more channels, and have smaller weights.
    """
    blocks: Any = model.blocks
    plots = []
    for number, block in enumerate(blocks, start=1):
        table = torch.full((layers, layers), torch.nan)
        for reader, layer in enumerate(block.layers):
            weight: Tensor = layer[0].conv.weight.detach().abs().mean(dim=(0, 2, 3))
            enters = len(weight) - reader * growth
            parts = [weight[:enters], *weight[enters:].split(growth)]
            for source, part in enumerate(parts):
                table[source, reader] = part.mean()
        rows, columns = ["x", *map(str, range(1, layers))], [str(k + 1) for k in range(layers)]
        table = table / table.nan_to_num().amax(dim=0)
        plots.append(Plot(
            (Matrix(table, rows, columns, low=0, high=1, written=layers < 8),),
            x="layer that reads", y="layer that is read", title=f"block {number}",
        ))
    return figures.draw(Panels(tuple(plots)))

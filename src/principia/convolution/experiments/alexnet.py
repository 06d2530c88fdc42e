r"""AlexNet: what it reaches on data."""

from typing import Annotated, Any, Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.convolution.alexnet import AlexNet, alexnet_features, small_alexnet
from principia.convolution.claims.alexnet import shares
from principia.convolution.layer import multiply_adds
from principia.lab import figures
from principia.lab.data.clothing import clothing
from principia.lab.heroes import hero
from principia.lab.params import PositiveFloat, Range, UnitInterval
from principia.lab.pictures import Label, Panels, Plot, Regions, Series, grid
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import Callback, evaluate, learner
from principia.lab.training.classifiers import learn_classes
from principia.regularization.augmentation import Augment, Mirror, Shift

LARGEST = 259  # side of the pictures of the moving picture


@hero(moves="size")
def areas(
    seed: Seed, *, size: Annotated[int, Range(99, LARGEST)] = 227,
    hidden: Annotated[int, Range(64, 4096)] = 4096, columns: Literal[2, 1] = 2,
) -> Panels:
    """Nearly all weights are in flat dense slabs; nearly all work is in needle-thin convolutions.

    Each layer is a rectangle: as wide as it has weights, as high as each of them is used often, so
    that its area is the work.

    Args:
        size: Height and width of the pictures: larger ones have more places to use a weight at.
        hidden: Units of the two hidden dense layers; with few of them they own little.
        columns: Columns of the network.
    """
    with torch.device("meta"):
        net = AlexNet(alexnet_features(columns=columns), size=size, hidden=hidden)
    uses = multiply_adds(net, (3, size, size))
    weights, times = shares(net, uses)
    works = [*uses.values()]
    owned, worked = (sum(one[5:]) / sum(one) for one in (weights, works))
    broken = owned < 0.5
    left, boxes, middles = 0.0, [], []
    for own, often in zip(weights, times, strict=True):
        right = left + own / 1e6
        boxes.append([(left, 0), (right, 0), (right, often), (left, often)])
        middles.append((left + right) / 2)
        left = right
    dense = "red" if broken else "orange"
    slabs = [boxes[5][0][0], boxes[7][1][0]]
    return Panels((
        Plot((
            Regions(boxes, [0, 0, 0, 0, 0, 1, 1, 1], "width: weights, height: uses of each"),
            *(Series("", [x for x, _ in box] + [box[0][0]], [y for _, y in box] + [0], "blue",
                     "line") for box in boxes[:5]),
            Series("", [*slabs, slabs[1], slabs[0], slabs[0]], [0, 0, 25, 25, 0], dense, "line"),
            Label("five convolutions", boxes[4][1][0] + 1, times[0], "blue", side="right"),
            Label("three dense layers: each weight is used once", slabs[0] + 2, 330, dense,
                  side="right"),
        ), x="millions of weights", y="how often each is used", x_range=(-1, 84),
            y_range=(0, 4200),
            title=f"{sum(weights) / 1e6:.1f} million weights"),
        Plot((
            Series("convolutions", ["weights", "work"], [1 - owned, 1 - worked], "blue", "bars"),
            Series("dense layers", ["weights ", "work "], [owned, worked], dense, "bars"),
        ), y="share of all", y_range=(0, 1),
            title=f"dense: {owned:.0%} of the weights, {worked:.0%} of the work"),
    ), legend=True)


@learner
def pictures(
    shape: tuple[int, int, int], outputs: int, rng: torch.Generator, *,
    shrink: Literal[2, 4, 8, 16] = 8, dropout: UnitInterval = 0.3,
) -> nn.Module:
    """Builds a narrow AlexNet for pictures of any size.

    Pictures smaller than 28 x 28 are enlarged to that first, others brought to 32 x 32.

    Args:
        shrink: How many times narrower it is than that of the paper.
        dropout: Probability of dropping what enters a hidden dense layer.
    """
    channels, *sides = shape
    size = 28 if max(sides) <= 28 else 32
    resize: nn.Module = (
        nn.Upsample((size, size), mode="bilinear") if max(sides) < size
        else nn.AdaptiveAvgPool2d(size)
    )
    net = small_alexnet(
        size=size, channels=channels, classes=outputs, shrink=shrink, dropout=dropout, rng=rng
    )
    return nn.Sequential(resize, net)


@experiment(
    reaches={"test_accuracy": at_least_goal(0.916)},
    floor={"test_accuracy": at_least_goal(0.95)},
    source="table of submitted benchmarks of Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): two "
    "convolutions with pooling, 0.916 after more than 300 epochs",
    trains=True,
)
def fashion_alexnet(
    run: Run, *, epochs: Annotated[int, Range(1, 60)] | None = None,
    dropout: UnitInterval = 0.3, lr: PositiveFloat = 3e-3,
    beside: Annotated[int, Range(0, 20)] | None = None,
    shrink: Literal[2, 4, 8, 16] | None = None,
    limit: Annotated[int, Range(100, 60_000)] = 60_000,
) -> None:
    """Tells clothes apart with a small AlexNet; beside it one that squashes, one without dropout.

    The networks that are compared see the same pictures for fewer epochs, moved by up to two
    pixels and mirrored; digits are not mirrored.

    Args:
        epochs: How often the pictures are gone through; by default 12 times, of digits 20 times.
        dropout: Probability of dropping what enters a hidden dense layer.
        lr: Largest learning rate.
        beside: Epochs of each of the networks that are compared, by default 3, of digits 2; with 0
            they are left out.
        shrink: How many times narrower it is than that of the paper, by default 4, for digits 8.
        limit: At most so many pictures to learn from.
    """
    epochs = epochs or (12 if run.full else 20)
    beside = (3 if run.full else 2) if beside is None else beside
    narrow = shrink or (4 if run.full else 8)
    x, y, x_test, y_test = clothing(run)
    x, y = _fitted(x[:limit]), y[:limit]
    test = _fitted(x_test), y_test
    moved = Augment(Shift(-2, 2), *([Mirror(0.5)] if run.full else []))

    def learned(name: str, epochs: int, rate: float, phi: type[nn.Module] = nn.ReLU) -> AlexNet:
        net = small_alexnet(
            size=x.shape[-1], shrink=narrow, dropout=rate, rng=run.seed.child("init").torch()
        )
        for part in (net.features, net.classifier):
            for place, layer in enumerate(part):
                if isinstance(layer, nn.ReLU) and phi is not nn.ReLU:
                    part[place] = phi()
        right = learn_classes(
            run, net, (x, y), test, epochs=epochs, lr=lr, name=name,
            callbacks=[moved, _Tested(*(one[:1000] for one in test))],
        )
        run.record(**{"test_accuracy" if name == "alexnet" else f"{name}_accuracy": right})
        return net

    net = learned("alexnet", epochs, dropout)
    run.keep(net, example=test[0][:1])
    if beside:
        for name, rate, phi in (("relu", dropout, nn.ReLU), ("tanh", dropout, nn.Tanh),
                                ("without_dropout", 0.0, nn.ReLU)):
            learned(name, beside, rate, phi)
        run.figure("compared", _curves({name: run.curves[name] for name in
                                        ("relu", "tanh", "without_dropout")}))
    first: Any = net.features[0]
    run.figure("kernels", grid(list(first.weight.detach()[:, 0].cpu()), signed=True, columns=6))


def _fitted(x: Tensor) -> Tensor:
    """Enlarge pictures of 8 x 8 pixels to 16 x 16; others stay as they are."""
    return F.interpolate(x, scale_factor=2, mode="bilinear") if x.shape[-1] < 15 else x


@final
class _Tested(Callback):
    """Measures the loss of some test pictures after each epoch, which chooses nothing."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.data = x, y

    def after_epoch(self, model: nn.Module, row: dict[str, float]) -> str:
        """Measure the model as it is shown: the average of its weights."""
        row["test_loss"] = evaluate(model, self.data, {"loss": F.cross_entropy})["loss"]
        return ""


def _curves(curves: dict[str, list[dict[str, float]]]) -> object:
    """Draw the losses of the trainings that are compared, of training and of test pictures."""
    names = {"relu": "rectifiers, dropout", "tanh": "squashing, dropout",
             "without_dropout": "rectifiers, no dropout"}
    colors = {"relu": "blue", "tanh": "orange", "without_dropout": "green"}
    return figures.draw(Panels(tuple(
        Plot(tuple(
            Series(names[name], [row["epoch"] for row in rows], [row[what] for row in rows],
                   colors[name], "line") for name, rows in curves.items()  # type: ignore[arg-type]
        ), "epoch", "cross entropy", log="y", title=title)
        for what, title in (("loss", "in training"), ("test_loss", "test pictures"))
    ), legend=True))

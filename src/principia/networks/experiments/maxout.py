r"""Hinges and maxout: what it reaches on data."""

import itertools
from typing import Annotated, Any

import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import PositiveInt, Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.training import OneCycle, Supervised, accuracy, fit, learner
from principia.networks.maxout import Maxout, MaxoutMLP
from principia.networks.mlp import MLP


@learner
def network(
    inputs: PositiveInt, outputs: PositiveInt, rng: torch.Generator, *,
    hidden: tuple[PositiveInt, ...] = (32,),
    pieces: PositiveInt = 3, dropout: Annotated[float, Range(0, 1, open="high")] = 0.0,
) -> nn.Module:
    """Builds a network of maxout layers for any table.

    Args:
        hidden: Widths of the maxout layers.
        pieces: Affine functions of each unit.
        dropout: Chance that training drops a unit.
    """
    return MaxoutMLP((inputs, *hidden, outputs), pieces=pieces, dropout=dropout, rng=rng)


@experiment(
    reaches={"maxout_error": at_most_goal(0.022), "excess_error": at_most_goal(0.003)},
    floor={
        "maxout_error": at_most_goal(0.07), "relu_error": at_most_goal(0.07),
        "excess_error": at_most_goal(0.01),
    },
    source="to match is a ReLU network of as many parameters, by the same training; Goodfellow et "
    "al. (2013), Table 1, report 0.94 % with dropout and a far longer schedule",
)
def maxout_vs_relu(run: Run, *, dropout: Annotated[float, Range(0, 0.9)] = 0.2) -> None:
    """Trains maxout and ReLU networks of one size on MNIST, or on 8 x 8 digits when quick."""
    x, y, x_test, y_test = handwriting(run)
    x, x_test = x.flatten(1), x_test.flatten(1)
    # widths that give both about as many parameters: 352 thousand, or 7 thousand when quick
    sizes, pieces, other = ((784, 128, 128, 10), 3, (784, 317, 317, 10)) if run.full else (
        (64, 24, 10), 4, (64, 96, 10)
    )
    errors: dict[str, list[float]] = {"maxout": [], "relu": []}
    for name, number in itertools.product(errors, (1, 2, 3)):
        rng = run.seed.child(f"init {number}").torch()
        model = (MaxoutMLP(sizes, pieces=pieces, dropout=dropout, rng=rng) if name == "maxout"
                 else _relu_net(other, dropout, rng))
        history = _train(
            run, f"{name}-{number}", model, (x, y), F.cross_entropy, lr=4e-3 if run.full else 1e-2,
            epochs=10, batch_size=128 if run.full else 64,
            validation=(x_test, y_test), metrics={"accuracy": accuracy},
        )
        errors[name].append(1 - history[-1]["validation_accuracy"])
        if (name, number) == ("maxout", 1):
            run.keep(model)
    maxout, relu = (sum(found) / len(found) for found in errors.values())
    run.record(maxout_error=maxout, relu_error=relu, excess_error=maxout - relu)
    run.figure("units", _units_figure(run))
    run.figure("moons", _moons_figure(run))


def _relu_net(sizes: tuple[int, ...], dropout: float, rng: torch.Generator) -> nn.Module:
    """Make a ReLU network with dropout behind every hidden layer."""
    *hidden, last = MLP(sizes, rng=rng).layers
    blocks = [nn.Sequential(layer, nn.ReLU(), nn.Dropout(dropout)) for layer in hidden]
    return nn.Sequential(*blocks, last)


def _train(
    run: Run, name: str, model: nn.Module, data: tuple[Tensor, Tensor], loss: Any, *, lr: float,
    **options: Any,
) -> list[dict[str, float]]:
    return fit(
        model, data, Supervised(loss), torch.optim.Adam(model.parameters()),
        callbacks=[OneCycle(lr)], seed=run.seed.child(name), run=run, name=name, **options,
    ).history


def _units_figure(run: Run) -> Any:
    """Let one-dimensional units learn three convex functions, and draw both."""
    x = torch.linspace(-2, 2, 256)[:, None]
    targets = {"ReLU": F.relu(x), "|x|": x.abs(), "x²": x**2}
    layer = Maxout(1, 3, pieces=5, rng=run.seed.child("units init").torch())
    y = torch.cat(list(targets.values()), dim=1)
    _train(run, "units", layer, (x, y), F.mse_loss, lr=5e-2, steps=200, batch_size=256)
    with torch.no_grad():
        learned = layer(x).T
    series = [Series(name, x[:, 0], target, "predicted") for name, target in targets.items()]
    series += [Series(f"learned {name}", x[:, 0], one, "other")
               for name, one in zip(targets, learned, strict=True)]
    return figures.draw(Plot(tuple(series), "x", "unit of 5 pieces"))


def _moons_figure(run: Run) -> Any:
    """Train on two moons, and draw where the network decides for which."""
    points, labels = make_moons(300, noise=0.2, random_state=int(run.seed.child("points")))
    x, y = torch.from_numpy(points).float(), torch.from_numpy(labels)
    net = MaxoutMLP((2, 8, 2), pieces=3, rng=run.seed.child("moons init").torch())
    _train(run, "moons", net, (x, y), F.cross_entropy, lr=5e-2, steps=150, batch_size=300)
    across, up = torch.linspace(-2, 3, 120), torch.linspace(-1.5, 2, 120)
    with torch.no_grad():
        shares = net(torch.cartesian_prod(across, up)).softmax(dim=1)[:, 1].reshape(120, 120).T
    clouds = [
        Series(f"moon {k}", x[y == k, 0], x[y == k, 1], "other", "points") for k in (0, 1)
    ]
    figure = figures.draw(Plot(tuple(clouds), "x₁", "x₂"))
    return figure.add_contour(
        x=across.tolist(), y=up.tolist(), z=shares.numpy().round(4).tolist(), opacity=0.4,
        colorscale="RdBu", showscale=False, contours={"start": 0, "end": 1, "size": 0.25},
    )

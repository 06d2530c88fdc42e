r"""Multilayer perceptron: what it reaches on data."""

import math
from typing import Annotated, Any

import plotly.graph_objects as go
import torch
from sklearn.datasets import make_moons
from torch import Tensor, nn
from torch.nn import functional

from principia.lab import figures
from principia.lab.data.fashion import fashion
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot
from principia.lab.params import PositiveInt, Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.training import OneCycle, Supervised, accuracy, fit, learner, outputs_of
from principia.networks.mlp import MLP, ActivationName, level_set_points


@learner
def network(
    inputs: PositiveInt, outputs: PositiveInt, rng: torch.Generator, *,
    hidden: tuple[PositiveInt, ...] = (64, 64), activation: ActivationName = "relu",
) -> nn.Module:
    """Builds an MLP for any table.

    Args:
        hidden: Widths of the hidden layers.
        activation: What stands behind each of them.
    """
    return MLP([inputs, *hidden, outputs], activation=activation, rng=rng)


@experiment(
    reaches={"mnist_error": at_most_goal(0.047), "fashion_accuracy": at_least_goal(0.8833)},
    floor={"digits_accuracy": at_least_goal(0.95)},
    source="LeCun et al. 1998, fig. 9, two layers with 300 hidden units: 4.7 % on MNIST; list of "
    "benchmarks of the Fashion-MNIST repository, MLP 256-128-100: 0.8833",
)
def hidden_300(
    run: Run, *, units: Annotated[int, Range(10, 1000)] = 300,
    epochs: Annotated[int, Range(1, 50)] = 8,
) -> None:
    """Reads digits with 300 hidden units and clothes with three hidden layers (full budget)."""
    digits = clothes = handwriting(run)
    if run.full:
        clothes = *fashion("train", data_dir=run.data_dir), *fashion("test", data_dir=run.data_dir)
    side = digits[0].shape[-1]
    kinds = {
        "relu": ([units], "relu", None, digits, functional.cross_entropy),
        "deep": ([256, 128, 100], "relu", None, clothes, functional.cross_entropy),
        "sigmoid": ([units], "sigmoid", "sigmoid", digits, _squared_error),
    }
    models, histories = {}, {}
    for name, (hidden, phi, out, (x, y, x_test, y_test), loss) in kinds.items():
        rng = run.seed.child(name).torch()
        models[name] = MLP([side**2, *hidden, 10], activation=phi, out_activation=out, rng=rng)
        histories[name] = fit(
            models[name], (x.flatten(1), y), Supervised(loss),
            torch.optim.Adam(models[name].parameters()), epochs=epochs,
            batch_size=128 if run.full else 32, callbacks=[OneCycle(0.005)],
            validation=(x_test.flatten(1), y_test), metrics={"accuracy": accuracy},
            seed=run.seed.child(f"{name} batches"), run=run, name=name,
        ).history
    run.keep(models["relu"])
    relu, deep, sigmoid = (one[-1]["validation_accuracy"] for one in histories.values())
    if run.full:
        run.record(mnist_error=1 - relu, fashion_accuracy=deep, sigmoid_mnist_error=1 - sigmoid)
    else:
        run.record(digits_accuracy=relu, deep_digits_accuracy=deep, sigmoid_digits_accuracy=sigmoid)
    run.figure("first_layer", _first_layer(models["relu"], side))
    answers = outputs_of(models["relu"], digits[2].flatten(1)).argmax(dim=1)
    run.figure("confusion", figures.confusion(digits[3], answers, [str(k) for k in range(10)]))
    run.figure("level_sets", _moons(run))


def _squared_error(outputs: Tensor, y: Tensor) -> Tensor:
    targets = y if y.is_floating_point() else functional.one_hot(y, outputs.shape[1])
    return (outputs - targets).square().sum(dim=1).mean()


def _first_layer(mlp: MLP, side: int) -> Any:
    """Draw the weights of the units that matter most, blue where they are positive."""
    first, second = (one.weight.detach().cpu() for one in mlp.layers)
    most = (first.norm(dim=1) * second.norm(dim=0)).argsort(descending=True)[:40]
    figure = figures.images(list(first[most].view(-1, side, side)), columns=10, signed=True)
    return figure.update_layout(height=420, margin={"l": 10, "r": 10, "t": 20, "b": 10})


def _moons(run: Run) -> Any:
    """Train a network in the plane and draw its level sets, with its gradient across one."""
    X, labels = make_moons(400, noise=0.15, random_state=int(run.seed.child("moons")))
    x, y = torch.tensor(X, dtype=torch.float32), torch.tensor(labels)
    mlp = MLP([2, 32, 32, 2], activation="tanh", rng=run.seed.child("plane").torch())
    fit(
        mlp, (x, y), Supervised(functional.cross_entropy), torch.optim.Adam(mlp.parameters()),
        steps=800, batch_size=50, callbacks=[OneCycle(0.02)], seed=run.seed.child("moons batches"),
        run=run, name="moons",
    )
    mlp = mlp.cpu().double().requires_grad_(False)

    def logit(x: Tensor) -> Tensor:
        return mlp(x).diff(dim=-1)[..., 0]

    ticks = torch.linspace(-2, 3, 151, dtype=torch.float64)
    heights = logit(torch.cartesian_prod(ticks, ticks)).view(151, 151).mT.clamp(-15, 15)
    figure = figures.draw(Plot((), "x₁", "x₂"))
    figure.add_trace(go.Contour(
        x=ticks.numpy(), y=ticks.numpy(), z=heights.numpy(), name="logit", opacity=0.7,
        colorscale="RdBu", contours={"start": -15, "end": 15, "size": 3},
        line={"width": 0.7, "color": "white"}, colorbar={"title": "logit", "thickness": 12},
    ))
    border = level_set_points(logit, 0.0, low=-2, high=3, cells=300)
    feet = border[:: max(1, len(border) // 40)].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(logit(feet).sum(), feet)
    ends = [feet.detach(), feet.detach() + 0.25 * functional.normalize(gradient, dim=1)]
    arrows = torch.stack([*ends, torch.full_like(gradient, math.nan)], dim=1).flatten(0, 1)
    white = {"color": "white", "width": 0.8}
    heads = {"symbol": "arrow", "angleref": "previous", "size": [0, 10, 0] * len(feet)}
    for name, points, mode, marker in (
        ("class 0", x[y == 0], "markers", {"color": "#991b1b", "size": 6, "line": white}),
        ("class 1", x[y == 1], "markers", {"color": "#1e3a8a", "size": 6, "line": white}),
        ("level set 0", border, "markers", {"color": "#111827", "size": 2.5}),
        ("gradient", arrows, "lines+markers", {"color": "#111827", **heads}),
    ):
        across, up = points.numpy().T
        line = {"color": "#111827", "width": 1.2}
        figure.add_trace(go.Scatter(x=across, y=up, mode=mode, name=name, marker=marker, line=line))
    figure.update_xaxes(range=[-1.8, 2.8], constrain="domain", zeroline=False)
    figure.update_yaxes(range=[-1.6, 2.0], scaleanchor="x", constrain="domain", zeroline=False)
    return figure.update_layout(height=560)

r"""Backpropagation: what it reaches on data."""

import copy
import functools
import itertools
from collections.abc import Iterable
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector
from torch.optim.lr_scheduler import CosineAnnealingLR

from principia.gradients.backprop import (
    BackpropTrainer,
    backward_pass,
    error_signals,
    forward_pass,
    loss_and_delta,
    weight_gradients,
)
from principia.gradients.claims.backprop import gap
from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.draws import randn
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Graph, Label, Panels
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import Schedule, Supervised, accuracy, fit
from principia.networks.mlp import MLP

PULSE = 5  # moments in which a signal crosses a layer
PLACES = [[(0.0, 1.0), (0.0, -1.0)], [(1.0, 2.0), (1.0, 0.0), (1.0, -2.0)], [(2.0, 0.0)]]
EDGES = [(0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4), (2, 5), (3, 5), (4, 5)]
FLAT = 0.05  # a slope below which next to nothing comes back through a unit
Written = tuple[float, float, Tensor]  # a number and its place


@hero(moves="time", frames=4 * PULSE + 2)
def two_walks(
    seed: Seed, *, weights: Annotated[float, Range(0.5, 8)] = 1.0,
    target: Annotated[float, Range(-2, 2)] = 1.5,
    time: Annotated[int, Range(0, 4 * PULSE + 1)] = 4 * PULSE + 1,
) -> Panels:
    """A walk forward and a walk back give each weight its gradient: value times error signal.

    Args:
        weights: Scale of the first weights; large ones drive the units where tanh is flat.
        target: What the output should be.
        time: How far the walk has come, first forward and then back.
    """
    outputs, slopes, signals, gradients = _walks(seed, weights, target)
    back = time > 2 * PULSE
    at = (4 * PULSE + 1 - time if back else time) / PULSE  # in layers from the input
    values = [
        (*place, number) for layer in range(3) if back or layer <= at
        for place, number in zip(PLACES[layer], outputs[layer], strict=True)
    ]
    errors = [
        (x, y - 0.62, number) for layer in (1, 2) if back and layer >= at
        for (x, y), number in zip(PLACES[layer], signals[layer - 1], strict=True)
    ]
    alive, lost = [], []
    for layer in [one for one in (0, 1) if back and one >= at]:
        for tail, (x, y) in enumerate(PLACES[layer]):
            for head, (to_x, to_y) in enumerate(PLACES[layer + 1]):
                steep = abs(to_y - y) > 2
                part = 0.5 if layer else 0.65 if steep else 0.28  # of the way, beside crossings
                where = alive if slopes[layer][head] >= FLAT else lost
                written = gradients[layer][head, tail]
                where.append((x + part * (to_x - x), y + part * (to_y - y), written))
    layer = min(int(at), 1)
    pulse = [
        (x + (at - layer) * (to_x - x), y + (at - layer) * (to_y - y))
        for (x, y), (to_x, to_y) in itertools.product(PLACES[layer], PLACES[layer + 1])
    ]
    fields, grid = torch.atanh(outputs[1].clamp(-1 + 1e-9, 1 - 1e-9)), torch.linspace(-6, 6, 97)
    seen = torch.full((3,), torch.nan) if at < 1 and not back else fields.clamp(-6, 6)
    net = Plot((
        Series("", [x for x, _ in pulse], [y for _, y in pulse], "orange" if back else "blue",
               "points"),
        Graph([*itertools.chain.from_iterable(PLACES)], EDGES, size=42.0),
        _written(values, "blue"), _written(errors, "orange"), _written(alive, "purple"),
        _written(lost, "red"), Label(f"target {target:.2g}", 2, 0.9, "gray"),
        Label("value", 0.15, -3.1, "blue"), Label("× error signal", 0.85, -3.1, "orange"),
        Label("= gradient", 1.65, -3.1, "purple"),
    ), title="back: error signals" if back else "forward: values", bare=True,
        x_range=(-0.3, 2.3), y_range=(-3.3, 2.6))
    flat = slopes[0] < FLAT
    return Panels((net, Plot((
        Series("tanh", grid, grid.tanh(), "gray", "line"),
        Series("", seen[~flat], seen[~flat].tanh(), "blue", "points"),
        Series("", seen[flat], seen[flat].tanh(), "red", "points"),
        Label("flat: no signal comes back" if flat.any() else "", 0, 1.15, "red"),
    ), x="field of a hidden unit", y="its output", title="the slope multiplies what comes back",
        x_range=(-6.3, 6.3), y_range=(-1.3, 1.3))))


@functools.lru_cache(maxsize=4)  # all frames are moments of one walk
def _walks(seed: Seed, weights: float, target: float) -> tuple[list[Tensor], ...]:
    """Walk through a small network; give outputs, slopes, signals and gradients by layer."""
    rng = seed.torch()
    net = MLP([2, 3, 1], activation="tanh", bias=False, rng=rng).double()
    with torch.no_grad():
        net.layers[0].weight.copy_(weights * randn(rng, 3, 2))
        net.layers[1].weight.copy_(0.7 * randn(rng, 1, 3))
        x = torch.tensor([[1.0, -0.5]], dtype=torch.float64)
        outputs, slopes = forward_pass("two_walks", net, x)
        goal = torch.full_like(outputs[-1], target)
        _, delta = loss_and_delta("two_walks", F.mse_loss, outputs[-1], goal)
        _, signals = backward_pass(net, slopes, delta)
        gradients = list(weight_gradients(net, outputs, signals).values())
    return [one[0] for one in outputs], [one[0] for one in slopes], [
        one[0] for one in signals], gradients


def _written(numbers: Iterable[Written], role: Any) -> Label:
    """Write numbers at their places; the large ones in larger letters."""
    found = [(x, y, float(number)) for x, y, number in numbers]
    sizes = [11 + 5 * min(abs(number), 1.0) for _, _, number in found]
    words = [f"{number:.2f}".replace("-0.00", "0.00") for _, _, number in found]
    return Label(words, [x for x, _, _ in found], [y for _, y, _ in found], role, sizes)


@experiment(
    reaches={"mnist_accuracy": at_least_goal(0.97), "trajectory_difference": at_most_goal(1e-5)},
    floor={"digits_accuracy": at_least_goal(0.93), "trajectory_difference": at_most_goal(1e-5)},
    source="LeCun, Bottou, Bengio and Haffner 1998, fig. 9: 4.7 % error with 300 hidden units; the "
    "goal here is 3 % with 128",
)
def train_digits(
    run: Run, *, epochs: Annotated[int, Range(1, 100)] | None = None,
    lr: Annotated[float, Range(0.001, 2)] = 0.5,
) -> None:
    """Reads digits with one hidden layer that backpropagation trained, without autograd."""
    x, y, x_test, y_test = handwriting(run)
    x, x_test, side = x.flatten(1), x_test.flatten(1), x.shape[-1]
    hidden, epochs, batch_size = (128, epochs or 3, 64) if run.full else (32, epochs or 20, 32)
    mlp = MLP([side**2, hidden, 10], rng=run.seed.child("init").torch())
    run.figure("error_signals_at_first", _signal_figure(mlp, x_test, y_test, side))
    ends = []
    for name in ("backprop", "autograd"):  # the same 100 steps, in float64
        twin = BackpropTrainer(copy.deepcopy(mlp).double(), lr=lr)
        fit(
            twin.mlp, (x[: 100 * batch_size].double(), y[: 100 * batch_size]),
            twin if name == "backprop" else Supervised(F.cross_entropy), twin.optimizer,
            steps=100, batch_size=batch_size, seed=run.seed.child("steps"), run=run, name=name,
        )
        ends.append(parameters_to_vector(twin.mlp.parameters()).detach())
    trainer = BackpropTrainer(mlp, lr=lr)
    history = fit(
        mlp, (x, y), trainer, trainer.optimizer, epochs=epochs, batch_size=batch_size,
        callbacks=[Schedule(CosineAnnealingLR)], validation=(x_test, y_test),
        metrics={"accuracy": accuracy}, seed=run.seed.child("batches"), run=run, name="digits",
    ).history
    run.keep(mlp)
    reached = "mnist_accuracy" if run.full else "digits_accuracy"
    run.record(**{reached: history[-1]["validation_accuracy"]}, trajectory_difference=gap(*ends))
    run.figure("error_signals", _signal_figure(mlp.cpu(), x_test, y_test, side))


def _signal_figure(mlp: MLP, x: Tensor, y: Tensor, side: int) -> Any:
    """Draw the mean error signal of each class in a column, from the output down to the pixels."""
    pictures, titles = [], []
    for place, one in reversed(list(enumerate(error_signals(mlp, x, y)))):
        rows = {0: side, len(mlp.layers): 2}.get(place, 4)
        for digit in range(10):
            mean = len(y) * one[y == digit].mean(dim=0)  # of the samples' own losses
            pictures.append(mean.view(rows, -1).numpy())
            titles.append(f"δ{'⁰¹²'[place]} of {digit}")
    return figures.images(pictures, titles, columns=10, signed=True)

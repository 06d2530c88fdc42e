r"""Distillation: what it reaches on data."""

import math
from typing import Annotated

import plotly.graph_objects as go
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Adam

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.params import PositiveFloat, PositiveInt, Range, UnitInterval, usage_error
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import (
    Callback,
    OneCycle,
    Supervised,
    accuracy,
    callback,
    evaluate,
    fit,
    outputs_of,
)
from principia.lab.training.pairs import paired
from principia.lab.training.teachers import teacher_of
from principia.networks.mlp import MLP
from principia.regularization.batch_norm import ConvNet
from principia.regularization.distillation import (
    Batch,
    Distillation,
    distill,
    soft_targets,
    teacher_answers,
)

LEFT_OUT = 3  # the class that a student is never shown
FEW = 300  # pictures that students see when quick


@callback()
def distillation(
    run: Run, *, teacher: str = "", temperature: PositiveFloat = 4.0, alpha: UnitInterval = 0.9
) -> Callback:
    """Lets the training learn from the network that an earlier run has trained, too.

    Args:
        teacher: Name of the run whose network teaches.
        temperature: Temperature of the soft answers.
        alpha: Weight of the teacher against the loss of the training itself.
    """
    return Distillation(teacher_of(run, teacher), temperature=temperature, alpha=alpha)


@experiment(
    reaches={
        "teacher_accuracy": at_least_goal(0.988), "errors_in_10000": at_most_goal(146),
        "saved": at_least_goal(1),
    },
    floor={"saved": at_least_goal(30)},
    source="Hinton, Vinyals and Dean (2015), sec. 3: a net with two layers of 800 units makes 146 "
    "errors by itself and 74 after distillation; its teacher makes 67",
)
def mnist_distill(
    run: Run, *, teacher: str = "", temperature: PositiveFloat | None = None,
    alpha: UnitInterval = 0.9, pairs: Annotated[int, Range(2, 20)] | None = None,
    epochs: PositiveInt | None = None,
) -> None:
    """Teaches a small network with a large one's answers, and beside it one with labels alone.

    Quick, the teacher learns from all 8 x 8 digits and its students see 300 of them: where labels
    are few, answers tell more.

    Args:
        teacher: Name of a run whose network teaches; by default a convolutional net is trained.
        temperature: Temperature of the soft answers; by default 20 at full budget, as published,
            and 4 for the student of 16 units, since small ones want lower temperatures.
        alpha: Weight of the teacher against the labels.
        pairs: How many students of each kind; by default 3 at full budget, else 2.
        epochs: How often a student goes through its pictures; by default 7 times at full budget,
            else 40 times.
    """
    x, y, x_test, y_test = handwriting(run)
    x, x_test, classes = x.flatten(1), x_test.flatten(1), 10
    test = x_test, y_test
    hidden, usual = ([800, 800], 20.0) if run.full else ([16], 4.0)
    temperature = usual if temperature is None else temperature
    pairs, epochs = pairs or (3 if run.full else 2), epochs or (7 if run.full else 40)
    batch_size = 128 if run.full else 32
    master = teacher_of(run, teacher) if teacher else _teacher(run, (x, y), test)
    answers = teacher_answers(master, x_test[:1])  # a teacher of something else is told early
    if answers.shape[1] != classes:
        raise usage_error("mnist_distill", "teacher", f"of {classes} classes", answers.shape[1])
    run.record(teacher_accuracy=evaluate(master, test, {"accuracy": accuracy})["accuracy"])

    def student(own: Seed, name: str, data: tuple[Tensor, Tensor], weight: float) -> MLP:
        net = MLP([x.shape[1], *hidden, classes], rng=own.child("init").torch())
        distill(
            master, net, data, Adam(net.parameters(), lr=1e-3), temperature=temperature,
            alpha=weight, epochs=epochs, batch_size=batch_size,
            callbacks=[OneCycle(2e-3 if run.full else 1e-2)], validation=test,
            metrics={"accuracy": accuracy}, seed=own, run=run, name=name,
        )
        return net.cpu()

    wrong: dict[str, list[float]] = {"distilled": [], "alone": []}
    for number in range(pairs):
        own = run.seed.child(f"pair {number}")
        shown = torch.randperm(len(x), generator=own.child("shown").torch())[:FEW]
        seen = (x, y) if run.full else (x[shown], y[shown])
        for name, weight in (("distilled", alpha), ("alone", 0.0)):
            net = student(own, f"{name}-{number}", seen, weight)
            wrong[name].append(float((outputs_of(net, x_test).argmax(1) != y_test).sum()))
            if (name, number) == ("distilled", 0):
                run.keep(net)
    errors = {name: torch.tensor(one) * 10_000 / len(y_test) for name, one in wrong.items()}
    saved = paired(errors["alone"], errors["distilled"])
    run.record(
        errors_in_10000=float(errors["distilled"].mean()),
        errors_alone=float(errors["alone"].mean()),
        **saved.metrics("saved"),
    )
    figure = paired(errors["distilled"], errors["alone"]).figure(
        "test errors in 10,000", ("labels alone", "distilled")
    )
    run.figure("pairs", figure)
    run.figure("soft_targets", _confusable(master, test, temperature))

    # a student that is never shown a 3 knows them from the teacher's doubts about other digits
    unseen = student(run.seed.child("unseen"), "without-3", _without(x, y, LEFT_OUT), 1.0)
    before, after = _corrected(unseen, (x, y), test, run.seed.child("bias").torch())
    run.record(right_3s_unseen=before, right_3s_unseen_corrected=after)


def _teacher(run: Run, data: Batch, test: Batch) -> nn.Module:
    """Train a small convolutional net, which sees the flat pictures as pictures."""
    side = math.isqrt(data[0].shape[1])
    net = nn.Sequential(
        nn.Unflatten(1, (1, side, side)),
        ConvNet([1, 16, 32], side=side, rng=run.seed.child("teacher").torch()),
    )
    fit(
        net, data, Supervised(F.cross_entropy), Adam(net.parameters(), lr=1e-3),
        epochs=6 if run.full else 12, batch_size=128 if run.full else 64,
        callbacks=[OneCycle(5e-3)],
        validation=test, metrics={"accuracy": accuracy}, seed=run.seed.child("teacher"), run=run,
        name="teacher",
    )
    return net.cpu().eval()


def _confusable(teacher: nn.Module, test: Batch, temperature: float) -> go.Figure:
    """Draw the answers of a teacher about the digits that it doubts most."""
    x, y = test
    logits = outputs_of(teacher, x)
    doubt = logits.topk(2, dim=1).values.diff(dim=1)[:, 0]
    rows = doubt.argsort(descending=True)[:12]
    side = math.isqrt(x.shape[1])
    answers = soft_targets(logits[rows], temperature)
    titles = []
    for row, answer in zip(rows.tolist(), answers, strict=True):
        best = answer.topk(3)
        said = ", ".join(f"{i}: {p:.2f}" for p, i in zip(*map(Tensor.tolist, best), strict=True))
        titles.append(f"{int(y[row])}<br><sub>{said}</sub>")
    return figures.images(list(x[rows].view(-1, side, side)), titles, columns=4)


def _without(x: Tensor, y: Tensor, left_out: int) -> tuple[Tensor, Tensor]:
    kept = y != left_out
    return x[kept], y[kept]


def _corrected(
    net: MLP, data: Batch, test: Batch, rng: torch.Generator
) -> tuple[float, float]:
    """Give the share of unseen digits that are known before and after their bias is corrected.

    The bias is the one that is best on 2000 training pictures, not on the test pictures.
    """
    some = torch.randperm(len(data[0]), generator=rng)[:2000]
    held, truth = outputs_of(net, data[0][some]), data[1][some]
    logits, y = outputs_of(net, test[0]), test[1]
    scale = held.std()  # of the logits, which depends on the temperature

    def share(logits: Tensor, y: Tensor, bias: Tensor, of: Tensor) -> Tensor:
        moved = logits.clone()
        moved[:, LEFT_OUT] += bias
        return (moved.argmax(1) == y)[of].double().mean()

    tried = scale * torch.linspace(0, 5, 101)
    best = max(tried, key=lambda bias: float(share(held, truth, bias, truth >= 0)))
    unseen = y == LEFT_OUT
    return float(share(logits, y, tried[0], unseen)), float(share(logits, y, best, unseen))

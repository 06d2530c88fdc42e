r"""Softmax regression: what it reaches on data."""

from typing import Annotated

import torch
from torch import nn

from principia.lab import figures
from principia.lab.data.fashion import CLOTHES, fashion
from principia.lab.data.handwriting import handwriting
from principia.lab.params import PositiveInt, Range, usage_error
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.training import accuracy, learner, outputs_of
from principia.regression.softmax import SoftmaxRegression


@learner
def network(inputs: PositiveInt, outputs: PositiveInt, rng: torch.Generator) -> nn.Module:
    """Builds softmax regression for any table with a class to predict."""
    if outputs < 2:
        raise usage_error(
            "SoftmaxRegression", "target", "classes", "a number", "Try regression/ridge."
        )
    return SoftmaxRegression(inputs, outputs)


@experiment(
    reaches={"fashion_accuracy": at_least_goal(0.842), "mnist_accuracy": at_least_goal(0.917)},
    floor={"digits_accuracy": at_least_goal(0.93)},
    source="Xiao, Rasul, Vollgraf (2017), Fashion-MNIST, Table 3: LogisticRegression 0.842 on "
    "Fashion-MNIST, 0.917 on MNIST",
    trains=True,
)
def images(
    run: Run, *, epochs: PositiveInt = 10, lr: Annotated[float, Range(1e-4, 0.1)] = 0.005
) -> None:
    """Reads pictures pixel by pixel: Fashion-MNIST and MNIST, or 8 x 8 digits when quick."""
    sets = {"mnist" if run.full else "digits": (handwriting(run), [str(k) for k in range(10)])}
    if run.full:
        clothes = fashion("train", data_dir=run.data_dir), fashion("test", data_dir=run.data_dir)
        sets["fashion"] = ((*clothes[0], *clothes[1]), list(CLOTHES))
    for name, ((x, y, x_test, y_test), classes) in sets.items():
        side = x.shape[-1]
        x, x_test = x.flatten(1), x_test.flatten(1)
        model = SoftmaxRegression(x.shape[1], 10, solver="adam" if run.full else "lbfgs", l2=1e-4)
        model.fit(x, y, epochs=epochs, lr=lr, run=run, name=name, validation=(x_test, y_test))
        found = outputs_of(model, x_test)
        run.record(**{f"{name}_accuracy": float(accuracy(found, y_test))})
        run.keep(model)
        templates = [row.reshape(side, side) for row in model.weight.detach()]
        run.figure(f"{name}_templates", figures.images(templates, classes, signed=True))
        run.figure(f"{name}_confusion", figures.confusion(y_test, found.argmax(-1), classes))

r"""Activation functions: what it reaches on data."""

import itertools
from typing import Any

import torch
from plotly.subplots import make_subplots
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.fashion import fashion
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import PositiveFloat, PositiveInt
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.training import OneCycle, Supervised, accuracy, fit
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import MLP


@experiment(
    reaches={"relu_accuracy": at_least_goal(0.871), "tanh_accuracy": at_least_goal(0.868)},
    floor={f"{name}_accuracy": at_least_goal(0.93) for name in ACTIVATIONS if name != "identity"},
    source="Xiao, Rasul and Vollgraf (2017), Table 3: MLPClassifier, 100 hidden units",
)
def activation_table(
    run: Run, *, epochs: PositiveInt = 10, width: PositiveInt = 100, batch: PositiveInt = 64,
    lr: PositiveFloat = 0.003
) -> None:
    """Trains one hidden layer with each activation: Fashion-MNIST, or 8 x 8 digits when quick."""
    clothes = (fashion(split, data_dir=run.data_dir) for split in ("train", "test"))
    x, y, x_test, y_test = itertools.chain(*clothes) if run.full else handwriting(run)
    sizes, scores = (x[0].numel(), width, 10), {}
    peak = lr if run.full else 3 * lr  # the digits are 40 times fewer: fewer steps, longer ones
    for name in ACTIVATIONS:
        model = MLP(sizes, activation=name, rng=run.seed.child("init").torch())
        adam = torch.optim.Adam(model.parameters())
        trained = fit(
            model, (x.flatten(1), y), Supervised(F.cross_entropy), adam, epochs=epochs,
            batch_size=batch, callbacks=[OneCycle(peak)], validation=(x_test.flatten(1), y_test),
            metrics={"accuracy": accuracy}, seed=run.seed.child("fit"), run=run, name=name,
        )
        scores[name] = trained.history[-1]["validation_accuracy"]
        run.record(**{f"{name}_accuracy": scores[name]})
        if name == "relu":
            run.keep(model)
    bars = Series("test accuracy", list(scores), list(scores.values()), style="bars")
    figure = figures.draw(Plot((bars,), "activation", "test accuracy"))
    figure.update_yaxes(range=[min(scores.values()) - 0.01, max(scores.values()) + 0.01])
    run.figure("accuracy", figure)
    run.figure("functions", _gallery())


def _gallery() -> Any:
    """Draw every activation with its derivative."""
    x, figure = torch.linspace(-3, 3, 301), make_subplots(3, 3, subplot_titles=list(ACTIVATIONS))
    for place, row in enumerate(ACTIVATIONS.values()):
        value = Series("function", x, row.module()(x), style="line")
        picture = Plot((value, Series("derivative", x, row.derivative(x), "bound")))
        for trace in figures.draw(picture).data:
            trace.showlegend = place == 0
            figure.add_trace(trace, row=place // 3 + 1, col=place % 3 + 1)
    return figure.update_layout(template="plotly_white", height=640)

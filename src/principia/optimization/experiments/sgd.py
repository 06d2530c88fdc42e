r"""Stochastic gradient descent: what it reaches on data."""

import math
from typing import Annotated

import plotly.graph_objects as go
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import Callback, Supervised, Trained, accuracy, fit
from principia.networks.mlp import MLP
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Quadratic, noisy
from principia.optimization.sgd import (
    empirical_risk,
    gradient_variance,
    per_sample_gradients,
    zero_one_risk,
)

MEASURED = 100  # samples on which a training measures the variance of its gradients


@experiment(
    reaches={"mnist_error": at_most_goal(0.047)}, floor={"digits_accuracy": at_least_goal(0.93)},
    source="LeCun et al. 1998, fig. 9, two layers with 300 hidden units: 4.7 % on MNIST",
)
def mnist_sgd(
    run: Run, *, lr: Annotated[float, Range(0.01, 1)] = 0.2,
    epochs: Annotated[int, Range(1, 30)] = 10, batch: Annotated[int, Range(1, 256)] = 32,
) -> None:
    """Reads digits by plain minibatch steps, and shows what their number of samples does."""
    x, y, x_test, y_test = handwriting(run)
    x, x_test = x.flatten(1), x_test.flatten(1)

    def trained(
        name: str, size: int, lr: float, epochs: int, rows: int, callbacks: list[Callback]
    ) -> Trained:
        model = MLP([x.shape[1], 300, 10], rng=run.seed.child("init").torch())
        return fit(
            model, (x[:rows], y[:rows]), Supervised(F.cross_entropy),
            SGD(model.parameters(), lr=lr), epochs=epochs, batch_size=size, callbacks=callbacks,
            validation=(x_test, y_test), metrics={"accuracy": accuracy},
            seed=run.seed.child(name), run=run, name=name,
        )

    variance = _Variance(x[:MEASURED], y[:MEASURED])
    model = trained("main", batch, lr, epochs, len(x), [variance]).model.cpu()
    run.keep(model)
    halves = (x, y), (x_test, y_test)
    train, test = (empirical_risk(model, data, F.cross_entropy) for data in halves)
    wrong, wrong_test = (zero_one_risk(model, data) for data in halves)
    run.record(**{"mnist_error": wrong_test} if run.full else {"digits_accuracy": 1 - wrong_test})
    run.record(
        train_error=wrong, train_loss=train, test_loss=test, sample_gap_of_the_loss=test - train,
        sample_gap_of_the_error=wrong_test - wrong,
        surrogate_gap=test / math.log(2) - wrong_test,  # in bits no loss is below its error
    )
    few, series = (2000 if run.full else 700), []
    for size in (1, 16, 256, few):
        history = trained(f"K{size}", size, lr / 8, 5, few, []).history  # one sample bears no more
        seen, losses = ([row[key] for row in history] for key in ("epoch", "validation_loss"))
        name = f"K = {size}" if size < few else "all samples"
        series.append(Series(name, [few * one for one in seen], losses, "other"))
    run.figure("batch_sizes", figures.draw(Plot(tuple(series), "samples seen", "test loss")))
    run.figure("noise_ball", _noise_ball(run.seed.child("ball")))


class _Variance(Callback):
    """Adds the variance of the gradients of a few samples to the numbers of every epoch."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def after_epoch(self, model: nn.Module, row: dict[str, float]) -> str:
        device = next(model.parameters()).device
        x, y = self.x.to(device), self.y.to(device)
        gradients = per_sample_gradients(model, F.cross_entropy, x, y)
        row["gradient_variance"] = float(gradient_variance(gradients))
        return ""


def _noise_ball(seed: Seed) -> go.Figure:
    """Draw a run with constant steps on its contours, where many runs end, and the prediction."""
    lam, lr, sigma = torch.tensor([0.5, 2.0], dtype=torch.float64), 0.2, 0.5
    start = torch.tensor([[-3.0, 1.5]], dtype=torch.float64).expand(300, 2)
    bowl = noisy(Quadratic(lam).at(start), sigma, seed.torch())
    path = descend(bowl, SGD(bowl.parameters(), lr=lr), 150, record=("theta",))["theta"]
    angle, ticks = torch.linspace(0, 2 * math.pi, 100), torch.linspace(-3.5, 2, 111).double()
    ball = torch.stack([angle.cos(), angle.sin()]) * (
        2 * (lr * sigma**2 / (lam * (2 - lr * lam))).sqrt()[:, None]
    )
    heights = bowl.value(torch.cartesian_prod(ticks, ticks)).view(111, 111).mT
    figure = figures.draw(Plot((
        Series("one run", path[:, 0, 0], path[:, 0, 1], style="line"),
        Series("300 runs after 150 steps", path[-1, :, 0], path[-1, :, 1], "other", "points"),
        Series("predicted: two standard deviations", ball[0], ball[1], "predicted"),
    ), "θ₁", "θ₂"))
    contours = go.Contour(
        x=ticks.numpy(), y=ticks.numpy(), z=heights.sqrt().numpy(), colorscale="Greys",
        contours={"coloring": "lines"}, showscale=False, name="√h", hoverinfo="skip",
    )
    figure.add_trace(contours)
    return figure.update_layout(height=480)

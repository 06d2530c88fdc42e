r"""Gradient flow: what it reaches on data."""

import math
from typing import Annotated, final

import numpy as np
import plotly.graph_objects as go
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.optimization.gradient_descent import descend
from principia.optimization.gradient_flow import GradientFlow, last_point
from principia.optimization.problems import Problem, Quadratic


@experiment(
    reaches={"worst_ratio_error": at_most_goal(0.05), "accuracy_gap": at_most_goal(0.005)},
    floor={"worst_ratio_error": at_most_goal(0.05), "accuracy_gap": at_most_goal(0.005)},
    source="Hairer, Norsett and Wanner 1993: Euler's method has order 1, so that half the step "
    "is half the distance",
)
def flow_vs_descent(run: Run, *, time: Annotated[float, Range(5, 200)] = 40.0) -> None:
    """Compares gradient descent with the flow on handwritten digits, at equal times.

    Args:
        time: When they are compared, in units of the longest step 1/L.
    """
    x, y, x_test, y_test = (one for one in digits())
    risk = _SoftmaxRisk(x.flatten(1).double(), y)
    L = float(risk.smoothness or 1)
    steps = 2.0 ** -np.arange(7 if run.full else 3) / L
    flow = GradientFlow(risk).solve([time / L])[0]
    distances, accuracies = [], []
    for step in run.steps(list(steps), "steps"):
        theta = last_point(risk, step, round(time / L / step), "GD")
        distances.append(float((theta - flow).norm()))
        accuracies.append(risk.accuracy(theta, x_test.flatten(1).double(), y_test))
    ratios = np.divide(distances[:-1], distances[1:])
    reached = risk.accuracy(flow, x_test.flatten(1).double(), y_test)
    run.record(
        worst_ratio_error=float(np.abs(ratios / 2 - 1).max()),
        accuracy_gap=float(np.abs(np.subtract(accuracies, reached)).max()),
        flow_accuracy=reached, largest_distance=distances[0],
    )
    run.figure("distances", figures.draw(Plot((
        Series("gradient descent", steps * L, distances),
        Series("half the step, half the distance", steps * L, distances[-1] * steps / steps[-1],
               "predicted"),
    ), "step η, in units of 1/L", "distance from the flow", "xy")))
    run.figure("polygons", _polygons())


@final
class _SoftmaxRisk(Problem):
    """Mean cross-entropy of a linear classifier of ten classes; theta holds its weights."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        super().__init__(torch.zeros(1, 10 * x.shape[1]))
        self.x, self.y = x, y
        # softmax has a Hessian of at most 1/2
        self.smoothness = float(torch.linalg.matrix_norm(x, ord=2)) ** 2 / (2 * len(x))

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the loss, one row after the other."""
        flat = theta.reshape(-1, theta.shape[-1])
        losses = [F.cross_entropy(self.x @ one.view(-1, 10), self.y) for one in flat]
        return torch.stack(losses).view(theta.shape[:-1])

    def accuracy(self, theta: Tensor, x: Tensor, y: Tensor) -> float:
        """Count the share of test digits that the weights classify correctly."""
        return float((((x @ theta.view(-1, 10)).argmax(dim=1)) == y).double().mean())


def _polygons() -> go.Figure:
    """Draw the flow on the contours of a quadratic, and descent with three steps."""
    bowl = Quadratic([1.0, 6.0]).at(torch.tensor([[-3.0, 1.6]]))
    x, y = np.linspace(-3.4, 1, 80), np.linspace(-1.8, 1.9, 70)
    heights = bowl.value(torch.tensor(np.stack(np.meshgrid(x, y), axis=-1)))
    figure = figures.draw(Plot((), "θ₁", "θ₂"))
    figure.add_trace(go.Contour(
        x=x, y=y, z=heights.sqrt().numpy(), showscale=False, colorscale="Greys", opacity=0.4,
        contours={"coloring": "lines"}, name="√h", hoverinfo="skip",
    ))
    path = GradientFlow(bowl).solve(torch.linspace(0, 4, 200))[:, 0]
    figure.add_scatter(x=path[:, 0].tolist(), y=path[:, 1].tolist(), mode="lines", name="flow")
    for step in (0.3, 0.15, 0.05):
        twin = bowl.at(bowl.theta)
        sgd = torch.optim.SGD(twin.parameters(), lr=step)
        path = descend(twin, sgd, math.ceil(4 / step), record=("theta",))["theta"][:, 0]
        figure.add_scatter(
            x=path[:, 0].tolist(), y=path[:, 1].tolist(), mode="lines+markers", name=f"η = {step:g}"
        )
    return figure

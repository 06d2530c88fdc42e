r"""Momentum: what it reaches on data."""

import math
from typing import Annotated

import numpy as np
import plotly.graph_objects as go
import torch
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.data.mnist import mnist
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.training import Diverged, Supervised, Trained, fit
from principia.networks.mlp import MLP
from principia.optimization.momentum import HeavyBall, tuned_heavy_ball
from principia.optimization.nesterov import run_copy
from principia.optimization.problems import Quadratic

STEPS = 1000  # of gradient descent in the experiment
GRID = 0.03 * 3.0 ** np.arange(5)  # learning rates of momentum; descent has 3 times as much


@experiment(
    reaches={"steps": at_most_goal(400)},
    floor={"share": at_most_goal(0.6)},
    source="Sutskever et al. (2013) find momentum decisive; to beat are 1000 steps of gradient "
    "descent on the same data, each with its best learning rate",
)
def ravine(
    run: Run, *, beta: Annotated[float, Range(0, 0.99)] = 0.9,
    samples: Annotated[int, Range(200, 60_000)] = 1000,
) -> None:
    """Counts the steps in which momentum reaches the training loss of gradient descent."""
    if run.full:
        x, y = mnist("train", data_dir=run.data_dir)
        x, y, sizes = x[:samples].flatten(1), y[:samples], [784, 128, 10]
    else:
        x, y, *_ = digits()
        x, sizes = x.flatten(1), [64, 10]
        x = x * torch.logspace(0, -3, 64)  # features over three decades: a ravine
    # a linear model of small features has less curvature than a network
    steps, gentle = (STEPS, 1.0) if run.full else (200, 10.0)

    def trained(name: str, lr: float, momentum: float) -> list[float]:
        model = MLP(sizes, rng=run.seed.child("init").torch())
        sgd = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
        try:
            found: Trained = fit(
                model, (x, y), Supervised(F.cross_entropy), sgd, steps=steps, batch_size=len(x),
                seed=run.seed.child("order"), run=run, name=f"{name}-{lr:.3g}",
            )
        except Diverged:
            return [math.inf] * steps
        return [row["loss"] for row in found.history]

    plain, heavy = (
        {lr: trained(name, lr, momentum) for lr in GRID * scale}
        for name, momentum, scale in (("descent", 0.0, 3 * gentle), ("momentum", beta, gentle))
    )
    target = min(losses[-1] for losses in plain.values())
    first = {
        lr: next((t for t, loss in enumerate(losses) if loss <= target), steps)
        for lr, losses in heavy.items()
    }
    best = min(first, key=first.__getitem__)
    run.record(steps=first[best], share=first[best] / steps, target_loss=target, lr=best)
    descent = min(plain, key=lambda lr: plain[lr][-1])
    run.record(descent_lr=descent)
    run.figure("losses", figures.draw(Plot((
        Series(f"descent, lr {descent:.2g}", range(1, steps + 1), plain[descent], "other"),
        Series(f"momentum, lr {best:.2g}", range(1, steps + 1), heavy[best], style="line"),
        Series("where descent ends", [1, steps], [target] * 2, "bound"),
    ), "step", "training loss", "xy")))
    run.figure("ravine", _ravine_figure())


def _ravine_figure() -> go.Figure:
    """Draw the paths of both methods in two dimensions, over the contours of a quadratic."""
    bowl = Quadratic([0.05, 1.0]).at(torch.tensor([[-9.0, 1.5]]))
    paths = {
        "gradient descent": run_copy(bowl, torch.optim.SGD, 40, lr=1.8),
        "heavy ball": run_copy(bowl, HeavyBall, 40, **tuned_heavy_ball(1.0, 0.05)),
    }
    x, y = np.linspace(-10, 3, 80), np.linspace(-2, 2, 60)
    heights = bowl.value(torch.tensor(np.stack(np.meshgrid(x, y), axis=-1)))
    figure = figures.draw(Plot((), "θ₁", "θ₂"))
    figure.add_trace(go.Contour(
        x=x, y=y, z=heights.sqrt().numpy(), showscale=False, colorscale="Greys", opacity=0.4,
        contours={"coloring": "lines"}, name="√h", hoverinfo="skip",
    ))
    for name, trace in paths.items():
        first, second = trace["theta"][:, 0].mT.tolist()
        figure.add_scatter(x=first, y=second, mode="lines+markers", name=name)
    return figure

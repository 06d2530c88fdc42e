r"""Momentum: what it reaches on data."""

import functools
import math
from typing import Annotated, Any

import numpy as np
import plotly.graph_objects as go
import torch
from torch import Tensor
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.data.mnist import mnist
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Field, Label, Panels
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import Diverged, Supervised, Trained, fit
from principia.networks.mlp import MLP
from principia.optimization.gradient_descent import best_fixed_lr
from principia.optimization.momentum import HeavyBall, tuned_heavy_ball
from principia.optimization.nesterov import run_copy
from principia.optimization.problems import Quadratic

STEPS = 1000  # of gradient descent in the experiment
GRID = 0.03 * 3.0 ** np.arange(5)  # learning rates of momentum; descent has 3 times as much
MOMENTS = 29  # of the moving picture
WIDE = 1.2  # half the width of its map


@hero(moves="time")
def narrow_spot(
    seed: Seed, *, time: Annotated[int, Range(0, MOMENTS)] = 15,
    step: Annotated[float, Range(0.05, 4)] = 2.0,
    momentum: Annotated[float, Range(0, 0.98)] = 0.55,
    condition: Annotated[float, Range(2, 100)] = 30.0,
) -> Panels:
    """One narrow spot turns κ steps into their root; above it the ball rings.

    Args:
        time: Steps taken so far.
        step: Length of a step, in units of 1/L; beyond 2 + 2β the ball flies off.
        momentum: β, the share of the last move that is repeated; above its spot the ball rings.
        condition: How many times steeper the ravine is across than along.
    """
    bowl, tracks = _rolls(seed, step, momentum, condition)
    side, best = np.linspace(-WIDE, WIDE, 36).round(3), tuned_heavy_ball(1.0, 1 / condition)
    heights = bowl.value(torch.tensor(np.stack(np.meshgrid(side, side), axis=-1)))
    steps, shares = np.linspace(0.05, 4, 40), np.linspace(0, 0.98, 40)
    rate = _shrinking(steps[:, None], shares, 1 / condition)
    color = "red" if step >= 2 + 2 * momentum else "green"
    plain, ball = tracks[: time + 1].round(decimals=4).unbind(1)
    left = torch.stack([plain, ball]).norm(dim=-1) / tracks[0].norm(dim=-1)[:, None]
    return Panels((
        Plot((
            Field(side, side, heights.sqrt(), "contours"),
            Series("", plain[:, 0], plain[:, 1], "gray", "line"),
            Series("", plain[-1:, 0], plain[-1:, 1], "gray", "points"),
            Series("", ball[:, 0], ball[:, 1], color, "line"),
            Series("", ball[-1:, 0], ball[-1:, 1], color, "points"),
        ), x="along the ravine", y="across", title="the ball; in gray, without momentum",
            square=True, x_range=(-WIDE, WIDE), y_range=(-WIDE, WIDE)),
        Plot((
            Field(steps, shares, np.where(rate < 1, rate, np.nan).T, "heat", low=0.6, high=1),
            Label("best ×", best["lr"] + 0.1, best["beta"], side="left"),
            Label("flies off", 3.2, 0.15, "red"),
            Series("", [step], [momentum], color, "points"),
        ), x="step, in units of 1/L", y="momentum", title="light: shrinks fast",
            x_range=(0, 4), y_range=(0, 1)),
        Plot((
            Series("", range(time + 1), left[0], "gray", "line"),
            Series("", range(time + 1), left[1], color, "line"),
        ), x="steps", y="distance that is left", log="y", title="how far it still is",
            x_range=(0, MOMENTS), y_range=(1e-3, 10)),
    ))


@functools.lru_cache(maxsize=4)  # all frames are moments of one run
def _rolls(seed: Seed, step: float, momentum: float, condition: float) -> tuple[Quadratic, Tensor]:
    """Go down a ravine by the best plain steps and with momentum; give both (T, 2, 2)."""
    start = 0.7 + 0.25 * torch.rand(1, 2, generator=seed.torch(), dtype=torch.float64)
    bowl = Quadratic([1 / condition, 1.0]).at(start * torch.tensor([[-1.0, 1.0]]))
    kinds = (best_fixed_lr(1.0, 1 / condition), 0.0), (step, momentum)
    runs = [run_copy(bowl, HeavyBall, MOMENTS, lr=lr, beta=beta) for lr, beta in kinds]
    return bowl, torch.cat([run["theta"] for run in runs], dim=1)


def _shrinking(lr: Any, beta: Any, mu: float) -> np.ndarray:
    """Give the largest root of z² = (1 + β - ηλ) z - β, which each step multiplies with."""
    found = []
    for bend in (mu, 1.0):
        half = (1 + beta - lr * bend) / 2
        found.append(np.abs(half) + np.sqrt(np.maximum(half**2 - beta, 0)))
        found[-1] = np.where(half**2 < beta, np.sqrt(beta), found[-1])
    return np.maximum(*found)


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

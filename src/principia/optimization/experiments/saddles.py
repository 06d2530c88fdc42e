r"""Saddle points: what it reaches on data."""

import functools
import math
from typing import Annotated, Literal, final

import plotly.graph_objects as go
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Cloud, Label, Panels, Role, Surface
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.networks.linear_dynamics import Whitener
from principia.networks.linear_network import LinearNetwork
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Problem, Saddle
from principia.optimization.saddles import NoisyGD, exit_times, hessian_index

LAYERS = (16, 20), (16, 16), (10, 16)  # shapes of the weights of the experiment's net
METHODS = {"gd": "gradient descent", "noisy": "with noise", "sgd": "minibatches"}
LEVELS = ("none", "1e-12", "1e-10", "1e-8", "1e-6", "1e-4", "1e-2")  # of noise
BALLS, MOMENTS, EACH = 30, 24, 15  # balls of each level, and steps of a moment
ASIDE = 0.5  # how far off the ridge a ball has left


@hero(moves="time", frames=MOMENTS + 1)
def parting(
    seed: Seed, *,
    noise: Literal["none", "1e-12", "1e-10", "1e-8", "1e-6", "1e-4", "1e-2"] = "1e-6",
    step: Annotated[float, Range(0.08, 0.3)] = 0.1, time: Annotated[int, Range(0, MOMENTS)] = 10,
) -> Panels:
    """Any noise gets off a saddle: a hundredfold weaker one only waits some more steps.

    Args:
        noise: Size of the noise of a step; without any, the balls stay on the ridge for ever.
        step: The step size.
        time: How many steps are taken, in fifteens.
    """
    now, (surface, paths, heights) = time * EACH, _ways(seed, step)
    powers = range(-2 * len(LEVELS), 0, 2)
    row, y = LEVELS.index(noise), paths[..., 1]  # (T, levels, balls)
    points = torch.cat([paths, heights[..., None] + 0.04], dim=-1)[now, row]
    sides: dict[Role, Tensor] = {
        "red" if noise == "none" else "ink": y[now, row].abs() < ASIDE,
        "purple": y[now, row] <= -ASIDE, "orange": y[now, row] >= ASIDE,
    }
    clouds = [Cloud("", points[one], role=role, size=5) for role, one in sides.items()]
    left = y[: now + 1].abs().median(dim=-1).values >= ASIDE  # half of the balls, or more
    waits, gone = (~left).sum(dim=0).clamp(max=now), left[-1]
    bars: dict[Role, Tensor] = {"green": gone, "gray": ~gone, "red": ~gone}
    bars["gray"][0], bars["red"][1:] = False, False
    shown = ["still on the ridge", f"off after {int(waits[row])}"][int(gone[row])]
    return Panels((
        Plot((surface, *clouds), x="x", y="y", z="h", title=f"noise {noise}: {shown}"),
        Plot((
            *(Series("", powers, waits * one, role, "bars") for role, one in bars.items()),
            Label("shown", powers[row], waits[row], side="above"),
            Label("none", powers[0], 12, "ink"),
        ), x="noise, as a power of ten", y="steps", title="how long each noise waits",
            x_range=(-15.2, -0.8), y_range=(0, MOMENTS * EACH + 20)),
    ))


@functools.lru_cache(maxsize=4)  # all frames are moments of the same paths
def _ways(seed: Seed, step: float) -> tuple[Surface, Tensor, Tensor]:
    """Let balls of all levels roll off the ridge; give the saddle, places and heights."""
    axis = torch.linspace(-1.4, 1.4, 25, dtype=torch.float64)
    plane = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), dim=-1)
    ridge = torch.stack([torch.linspace(-1.3, 1.3, BALLS), torch.zeros(BALLS)], dim=1)
    sizes = torch.tensor([0.0, *map(float, LEVELS[1:])], dtype=torch.float64)
    saddle = Saddle(2).at(ridge.repeat(len(LEVELS), 1))
    optimizer = NoisyGD(
        saddle.parameters(), step, sizes.repeat_interleave(BALLS)[:, None], rng=seed.torch()
    )
    trace = descend(saddle, optimizer, MOMENTS * EACH, record=("theta", "value"))
    paths, heights = (trace[name].unflatten(1, (len(LEVELS), BALLS)) for name in trace.recorded)
    surface = Surface(axis, axis, saddle.value(plane), opacity=0.7)
    return surface, paths, heights


@experiment(
    reaches={"noisy_over_gd": at_most_goal(0.7)},
    floor={"noisy_over_gd": Range(0, 1, open="high")},
    source="gradient descent from the same starts; the staircase of Saxe, McClelland and Ganguli "
    "(2014), Exact solutions to the nonlinear dynamics of learning in deep linear neural networks",
)
def escape(
    run: Run, *, starts: Annotated[int, Range(3, 50)] = 15,
    scale: Annotated[float, Range(0.005, 0.05)] = 0.01, lr: Annotated[float, Range(0.1, 0.7)] = 0.5,
    sigma: Annotated[float, Range(1e-4, 3e-3)] = 2e-3, batch: Annotated[int, Range(32, 500)] = 128,
) -> None:
    """Learns whitened digits by a deep linear net, plateau by plateau, with noise and without.

    Args:
        starts: Near-zero starts at full budget.
        scale: Standard deviation of the weights at the start.
        lr: Step size of all methods.
        sigma: Noise of a step of `NoisyGD`.
        batch: Samples of a step of `SGD`.
    """
    X, Y = _whitened_digits()
    start, full = run.seed.torch(), _DeepLinear(X, Y)
    levels, shape = full.halfway(), (starts if run.full else 3, full.theta.shape[1])
    near = scale * torch.randn(*shape, generator=start, dtype=torch.float64)
    limit, total, paths, curves, plateaus = math.ceil(15 / (lr * scale)), {}, {}, [], []
    for name, label in run.steps(METHODS.items(), "method"):
        rng, noise = run.seed.child(name).torch(), sigma if name == "noisy" else 0.0
        problem = _DeepLinear(X, Y, batch if name == "sgd" else None, rng).at(near)
        optimizer = NoisyGD(problem.parameters(), lr, noise, rng=rng)
        total[name], losses, paths[name] = _learn(problem, optimizer, float(levels[-1]), limit)
        crossed = (losses[:, :, None] >= levels).sum(dim=0).double()  # steps above each level
        waits = crossed.diff(dim=1, prepend=torch.zeros_like(crossed[:, :1])).median(dim=0).values
        plateaus.append(Series(label, range(1, len(levels) + 1), waits, "other", "bars"))
        curves.append(Series(label, range(len(losses)), losses[:, 0], "other"))
        found = {"steps": total[name].median(), "first": waits[0]}
        run.record(**{f"{name}_{key}": float(value) for key, value in found.items()})
    gd = total["gd"].clamp(max=limit)  # who never arrives counts as arriving at the end
    for name in ("noisy", "sgd"):
        run.record(**{f"{name}_over_gd": float(total[name].median() / gd.median())})

    path = paths["gd"]
    at = torch.linspace(0, int(gd[0]), 24 if run.full else 6).long().tolist()
    index = [hessian_index(full.value, path[t], tol=0.01) for t in run.steps(at, "Hessian index")]
    run.record(index_at_start=index[0], index_at_end=index[-1])
    staircase = figures.draw(Plot(tuple(curves), "step", "loss above its minimum"))
    staircase.add_trace(go.Scatter(
        x=at, y=[float(full.value(path[t])) for t in at], text=[str(one) for one in index],
        mode="markers+text", textposition="top right", name="number of negative curvatures",
        marker={"color": "#111827"},
    ))
    run.figure("staircase", staircase)
    names = "plateau", "steps on it, median of the starts"
    run.figure("plateaus", figures.draw(Plot(tuple(plateaus), *names)))
    run.figure("saddle", _saddle_figure(run.seed.child("paths").torch()))
    net = LinearNetwork((*(columns for _, columns in LAYERS), LAYERS[-1][0]), rng=start)
    with torch.no_grad():
        for layer, weight in zip(net.layers, _layers(paths["noisy"][-1]), strict=True):
            layer.weight.copy_(weight)
    run.keep(net)


def _whitened_digits() -> tuple[Tensor, Tensor]:
    """Load the embedded digits in their first 20 principal directions, and centered classes."""
    x, y, x_more, y_more = digits()
    pixels = torch.cat([x, x_more]).flatten(1).double().numpy()
    classes = F.one_hot(torch.cat([y, y_more]), LAYERS[-1][0]).double()
    white = torch.from_numpy(Whitener().fit(pixels).transform(pixels)[:, :LAYERS[0][1]])
    return white, classes - classes.mean(dim=0)


@final
class _DeepLinear(Problem):
    """The squared error of a deep linear net on whitened inputs, above its minimum."""

    minimum = 0.0

    def __init__(
        self, X: Tensor, Y: Tensor, batch: int | None = None, rng: torch.Generator | None = None
    ) -> None:
        super().__init__(torch.zeros(1, sum(rows * columns for rows, columns in LAYERS)))
        self.X, self.Y, self.batch, self.rng = X, Y, batch, rng
        self.best = Y.mT @ X / len(X)  # of white inputs the regression is the cross moment

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute half the squared distance of the product of the layers to the regression."""
        first, second, third = _layers(theta)
        return (third @ second @ first - self.best).square().sum(dim=(-2, -1)) / 2

    def forward(self) -> Float[Tensor, " B"]:
        """Compute the loss; with a batch, the error of fresh samples in every row."""
        if self.batch is None:
            return self.value(self.theta)
        drawn = torch.randint(len(self.X), (len(self.theta), self.batch), generator=self.rng)
        first, second, third = _layers(self.theta)
        missed = self.X[drawn] @ (third @ second @ first).mT - self.Y[drawn]  # (B, batch, 10)
        return missed.square().sum(dim=-1).mean(dim=-1) / 2

    def halfway(self) -> Tensor:
        """Give the losses in the middle between one plateau and the next, falling."""
        modes = torch.linalg.svdvals(self.best).square() / 2
        modes = modes[modes > 1e-12 * modes[0]]  # classes are centered: one has no mode
        return modes.flip(0).cumsum(0).flip(0) - modes / 2


def _layers(theta: Tensor) -> list[Tensor]:
    """Cut weights (..., D) into the matrices of the layers."""
    pieces = theta.split([rows * columns for rows, columns in LAYERS], dim=-1)
    return [one.unflatten(-1, shape) for one, shape in zip(pieces, LAYERS, strict=True)]


def _learn(
    problem: Problem, optimizer: Optimizer, level: float, limit: int
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Count steps until the loss is below a level; keep all losses (T, B) and the first path."""
    losses, path = [], []

    def learned(theta: Tensor) -> Tensor:
        losses.append(problem.value(theta))
        path.append(theta[0].clone())
        return losses[-1] < level

    times, _ = exit_times(problem, optimizer, learned, limit)
    return times, torch.stack(losses), path


def _saddle_figure(rng: torch.Generator) -> go.Figure:
    """Draw paths of `NoisyGD` from the ridge on the contours of the saddle."""
    axis = torch.linspace(-1.5, 1.5, 61, dtype=torch.float64)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    heights = Saddle(2).value(torch.stack([x, y], dim=-1))
    saddle = Saddle(2).at(torch.tensor([[1.4, 0.0], [-1.4, 0.0]]).repeat(3, 1))
    optimizer = NoisyGD(saddle.parameters(), 0.1, 0.01, rng=rng)
    paths = descend(saddle, optimizer, 120, record=("theta",))["theta"]
    series = tuple(
        Series(f"path {k + 1}", paths[:, k, 0], paths[:, k, 1], "other") for k in range(6)
    )
    figure = figures.draw(Plot(series, "x", "y"))
    figure.add_trace(go.Contour(
        x=axis.tolist(), y=axis.tolist(), z=heights.tolist(), ncontours=25, showscale=False,
        contours={"coloring": "lines"}, line={"width": 1}, colorscale="Greys", hoverinfo="skip",
    ))
    return figure

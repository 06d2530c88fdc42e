r"""Convexity: what it reaches on data."""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any

import plotly.graph_objects as go
import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn

from principia.lab import figures
from principia.lab.data.mnist import mnist
from principia.lab.draws import rand, randn
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Field, Label, Panels, Regions, Rule
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import fit
from principia.mathematics.convexity import Function, chord_violation, in_epigraph

IMAGES = 1000  # of MNIST whose mean loss is looked at
EVERYWHERE = {"logistic_violations": Range(0, 0), "midpoints_higher_share": Range(1, 1)}
# on MNIST the share is recorded, not required: it depends on the scale of the random parameters
GOALS = {**EVERYWHERE, "network_violation_share": at_least_goal(0.1)}
REACH, SIDE = 1.5, 31  # of the moving picture: its window, and the pixels of its square
CUTS = torch.linspace(0, 1, 41, dtype=torch.float64)  # of a chord


@hero(moves="dent", frames=25)
def chords(
    seed: Seed, *, dent: Annotated[float, Range(0, 1.2)] = 0.9,
    left: Annotated[float, Range(-1.4, -0.1)] = -1.0,
    right: Annotated[float, Range(0, 1.4)] = 0.5,
) -> Panels:
    """Convex means that every chord stays above the curve; one dent betrays itself in many.

    Args:
        dent: How far the bottom of the bowl is pushed up.
        left: Where the chord begins.
        right: Where it ends.
    """
    bowl = functools.partial(_dented, dent)
    x = torch.linspace(-REACH, REACH, 121, dtype=torch.float64)
    y = bowl(x[:, None])
    above = torch.stack([x[[*range(121), -1, 0]], torch.cat([y, y.new_full((2,), 9)])], dim=1)
    ends = torch.tensor([left, right], dtype=torch.float64)
    heights, way = bowl(ends[:, None]), left + CUTS * (right - left)
    line = heights[0] + CUTS * (heights[1] - heights[0])
    outside = ~in_epigraph(bowl, way[:, None], line, tol=1e-9)
    places = torch.linspace(-REACH, REACH, SIDE, dtype=torch.float64)
    worst = _worst(bowl, places)
    share = float((worst > 1e-9).sum() / worst.isfinite().sum())
    color, verdict = ("red", "leaves") if outside.any() else ("green", "stays inside")
    return Panels((
        Plot((
            Regions([above], [9]), Series("", x, y, "ink", "line"),
            Series("", way, line, "green", "line"),
            Series("", way, line.where(outside, math.nan), "red", "line"),
            Series("", ends, heights, color, "points"),
            Label(f"the chord {verdict}", 0, 2.2, color),
        ), x="x", y="f(x)", title="one chord", x_range=(-REACH, REACH), y_range=(0, 2.5)),
        Plot((
            Field(places, places, worst, name="how far it is below the curve", signed=True,
                  low=-0.5, high=0.5),
            Series("", [-REACH, REACH], [-REACH, REACH], "gray", "line"),
            Rule("", x=left, role="gray"), Rule("", y=right, role="gray"),
            Series("", [left], [right], color, "points"),
            Label(f"{share:.0%} of them leave", 0.6, -0.9, "red" if share else "green"),
        ), x="left end", y="right end", title="all chords", square=True,
            x_range=(-REACH, REACH), y_range=(-REACH, REACH)),
    ))


def _dented(dent: float, x: Tensor) -> Tensor:
    """Give a bowl whose bottom is pushed up, at x (..., 1)."""
    return (x.square() + dent * (-(x / 0.4).square()).exp()).sum(dim=-1)


def _worst(f: Function, places: Tensor) -> Tensor:
    """Find how far f rises above each chord from left to right: (right ends, left ends)."""
    right, left = (one.flatten() for one in torch.meshgrid(places, places, indexing="ij"))
    x, y = (one.repeat_interleave(len(CUTS))[:, None] for one in (right, left))
    gaps = chord_violation(f, x, y, CUTS.repeat(len(left))).view(-1, len(CUTS))
    worst = gaps.amax(dim=1).clamp(min=0).where(left < right, math.nan)
    return worst.view(len(places), len(places))


@experiment(
    reaches={**GOALS, **{f"mnist_{name}": goal for name, goal in EVERYWHERE.items()}}, floor=GOALS,
    source="Brea et al. 2019: permuting hidden units leads over a barrier; the shares are ours",
)
def loss_slices(
    run: Run, *, hidden: Annotated[int, Range(3, 16)] = 8,
    networks: Annotated[int, Range(10, 40)] = 20,
    pairs: Annotated[int, Range(100, 20_000)] = 10_000,
    scale: Annotated[float, Range(0.05, 4)] = 1.0,
) -> None:
    """Tests chords of a logistic and a network loss, and the way between permuted minima.

    Chords between random parameters need not show that a loss is not convex: how many do depends on
    the scale of the parameters, and on MNIST it may be none. Between permuted minima it rises.

    Args:
        hidden: Hidden units of a network; on MNIST twice as many.
        networks: How many are trained.
        pairs: Chords to test at full budget; a quarter when quick, a tenth on MNIST.
        scale: Standard deviation of the random parameters at the ends of chords.
    """
    raw: Any = load_breast_cancer()
    X, y = torch.tensor(raw.data), torch.tensor(raw.target)
    X = (X - X.mean(dim=0)) / X.std(dim=0)
    _slices(run, "", X, y, hidden, networks, pairs if run.full else pairs // 4, scale)
    if run.full:
        X, y = (one[:IMAGES] for one in mnist("train", data_dir=run.data_dir))
        X = X.flatten(1).double()
        _slices(run, "mnist_", X, y, 2 * hidden, networks, pairs // 10, scale)


def _slices(
    run: Run, prefix: str, X: Tensor, y: Tensor, hidden: int, networks: int, pairs: int,
    scale: float,
) -> None:
    """Run both tests on one set of data, and draw the losses on lines and on a plane."""
    rng, ends = run.seed.child(prefix).torch(), (X.shape[1], int(y.max()) + 1)
    linear, sizes = ends, (ends[0], hidden, ends[1])
    loss, shares = functools.partial(_loss, X, y), []
    for layers in run.steps((linear, sizes), f"{prefix}chords"):
        one, two = (scale * randn(rng, pairs, _count(layers)) for _ in range(2))
        gaps = chord_violation(functools.partial(loss, layers), one, two, rand(rng, pairs))
        shares.append(float((gaps > 1e-10).double().mean()))
    scales = [torch.full(((n + 1) * m,), n**-0.5) for n, m in itertools.pairwise(sizes)]
    theta = randn(rng, networks, _count(sizes)) * torch.cat(scales)  # one network a row
    model = nn.ParameterList([theta])
    fit(
        model, (X, y), lambda model, batch, rng: _loss(batch[0], batch[1], sizes, model[0]).sum(),
        torch.optim.Adam(model.parameters(), lr=0.02), steps=200, batch_size=len(X), run=run,
        name=f"{prefix}networks", seed=run.seed.child(f"{prefix}fit"),
    )
    minima, t = model[0].detach(), torch.linspace(-0.25, 1.25, 41, dtype=X.dtype)
    u, v = (_rolled(minima, sizes, by) - minima for by in (1, 2))
    lines = torch.stack([loss(sizes, minima + one * u) for one in (0.0, 0.5, 1.0, *t)])
    higher = lines[1] > torch.maximum(lines[0], lines[2])
    found = {
        "logistic_violations": shares[0] * pairs, "network_violation_share": shares[1],
        "midpoints_higher_share": higher.double().mean(), "loss_at_minima": lines[0].mean(),
        "loss_at_midpoints": lines[1].mean(),
    }
    run.record(**{f"{prefix}{name}": float(value) for name, value in found.items()})
    begin, way = 0.1 * randn(rng, 2, _count(linear))
    straight = loss(linear, begin + t[:, None] * way)
    run.figure(f"{prefix}slices", figures.draw(Plot((
        *(Series(f"network {k + 1}", t, line, "measured", "line")
          for k, line in enumerate(lines[3:].mT[:10])),
        Series("logistic loss on a random line", t, straight, "predicted"),
    ), "way from a trained network to itself with its hidden units permuted", "loss")))
    plane = torch.stack([loss(sizes, minima[0] + k * u[0] + t[:, None] * v[0]) for k in t], dim=1)
    run.figure(f"{prefix}surface", _surface(t, plane))


def _loss(X: Tensor, y: Tensor, sizes: Sequence[int], theta: Tensor) -> Tensor:
    """Give the mean cross-entropy (...) of a tanh network, or of a linear model."""
    first, *rest = _layers(sizes, theta)
    out = X @ first[..., :-1].mT + first[..., None, :, -1]
    for W in rest:
        out = out.tanh() @ W[..., :-1].mT + W[..., None, :, -1]
    return -out.log_softmax(dim=-1)[..., torch.arange(len(y)), y].mean(dim=-1)


def _layers(sizes: Sequence[int], theta: Tensor) -> list[Tensor]:
    """Cut parameters (..., D) into matrices (..., m, n + 1), whose last column holds the biases."""
    shapes = [(m, n + 1) for n, m in itertools.pairwise(sizes)]
    pieces = theta.split([m * n for m, n in shapes], dim=-1)
    return [one.unflatten(-1, shape) for one, shape in zip(pieces, shapes, strict=True)]


def _count(sizes: Sequence[int]) -> int:
    return sum((n + 1) * m for n, m in itertools.pairwise(sizes))


def _rolled(theta: Tensor, sizes: Sequence[int], by: int) -> Tensor:
    """Permute the hidden units in a circle, which changes no output."""
    W, V = _layers(sizes, theta)
    V = torch.cat([V[..., :-1].roll(by, dims=-1), V[..., -1:]], dim=-1)
    return torch.cat([W.roll(by, dims=-2).flatten(-2), V.flatten(-2)], dim=-1)


def _surface(t: Tensor, plane: Tensor) -> Any:
    """Draw the loss on the plane through three permutations of one network."""
    figure = go.Figure([
        go.Contour(x=t.tolist(), y=t.tolist(), z=plane.log10().tolist(), colorscale="Blues",
                   reversescale=True, ncontours=25, colorbar={"title": "log₁₀ loss"}),
        go.Scatter(x=[0, 1, 0], y=[0, 0, 1], mode="markers", marker_color="#dc2626", marker_size=10,
                   name="one network, three orders of its hidden units", showlegend=True),
    ])
    return figure.update_layout(
        template="plotly_white", height=520, xaxis_title="towards the first permutation",
        yaxis_title="towards the second", legend={"orientation": "h", "y": -0.2},
    )

r"""Linear regions: what it reaches on data."""

import functools
import math
from typing import Annotated, Any

import numpy as np
import plotly.graph_objects as go
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.data.synthetic import moons
from principia.lab.evidence import Plot, Series
from principia.lab.figures.look import OTHERS
from principia.lab.heroes import hero
from principia.lab.params import Range, UnitInterval
from principia.lab.pictures import Label, Panels
from principia.lab.pictures import Regions as Polygons
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Supervised, accuracy, fit
from principia.networks.activations import AVU
from principia.networks.mlp import MLP
from principia.networks.regions import Regions, regions_2d, zaslavsky

GOALS = {
    "over_the_bound": at_most_goal(0), "moons_ratio": Range(0.25, 1.5),
    "digits_ratio": Range(0.1, 1.5), "deepest_to_shallow": Range(0.25, 1.5),
    "far_certain": at_least_goal(0.95),
}
MOST_UNITS = 12  # of the moving picture
SHADES = (0, 1, 2, 3, 4, 5, 6)  # without the one that looks red


@hero(moves="units")
def folded_paper(
    seed: Seed, *, folds: Annotated[int, Range(0, 3)] = 2, noise: UnitInterval = 0.0,
    units: Annotated[int, Range(0, MOST_UNITS)] = 8,
) -> Panels:
    """Layers fold the paper, so that one straight cut of a later unit is made in every fold.

    Args:
        folds: Layers of two units, each of which folds the paper in four; the last layer cuts it.
        noise: Share of chance in the weights; it crumples the paper, and the gain is lost.
        units: Units so far, in both networks.
    """
    sheets = {name: [_sheet(seed, deep, noise, count) for count in range(MOST_UNITS + 1)]
              for name, deep in (("one layer", 0), (f"folded {folds} times", folds))}
    plots, counts = [], []
    for name, cut in sheets.items():
        polygons, groups, lines = cut[units]
        counts.append([len(one[0]) for one in cut])
        plots.append(Plot(
            (Polygons(polygons, groups), Series("", lines[0], lines[1], "ink", "line")),
            title=f"{name}: {len(polygons)} cells", x_range=(-1, 1), y_range=(-1, 1),
            square=True, bare=True,
        ))
    most = [zaslavsky(one, 2) if one else 1 for one in range(MOST_UNITS + 1)]
    color = "green" if counts[1][-1] > most[-1] else "red"
    so_far = range(units + 1)
    return Panels((*plots, Plot((
        Series("", range(MOST_UNITS + 1), most, "ink", "line"),
        Series("", so_far, counts[0][: units + 1], "gray", "line"),
        Series("", so_far, counts[1][: units + 1], color, "line"),
        Series("", [units] * 2, [one[units] for one in counts], "ink", "points"),
        Label("most of one layer", 12, 130, side="left"),
        Label("one layer", 12, 20, "gray", side="left"),
        Label(f"folded {folds} times", 12, 2000 if color == "green" else 8, color, side="left"),
    ), "units", "cells", log="y", title="counted", x_range=(0, MOST_UNITS), y_range=(0.8, 4000))))


@functools.lru_cache(maxsize=4 * MOST_UNITS)  # all frames show the same sheets, further on
def _sheet(
    seed: Seed, folds: int, noise: float, units: int
) -> tuple[list[Tensor], list[int], Tensor]:
    """Cut a square by the units so far; give its cells, their colors and the newest cuts."""
    if not units:
        return [torch.tensor([[-1, -1], [1, -1], [1, 1], [-1, 1]])], [0], torch.empty(2, 0)
    angles, shifts = torch.rand(2, MOST_UNITS, generator=seed.child("cuts").torch()).double()
    angles = math.pi * (angles + torch.arange(MOST_UNITS) * 0.618)
    lines = torch.stack([angles.cos(), angles.sin(), shifts - 0.5], dim=1)  # the last is the shift
    chain: list[nn.Module] = []
    rng, left, last = seed.child("noise").torch(), units, min(units, 2)
    crumpled = torch.randn(folds, 2, 2, 3, generator=rng).double()
    for random in crumpled[: (units + 1) // 2]:
        crease = (1 - noise) * torch.eye(2, 3).double() + noise * random[0]
        chain += [_affine(crease[:left]), AVU()]
        last, left = min(left, 2), left - 2
        if left > 0:  # what |t| leaves of [-1, 1], spread over it again
            spread = torch.tensor([[2.0, 0, -1], [0, 2.0, -1]]).double()
            chain.append(_affine((1 - noise) * spread + noise * random[1]))
    if left > 0:
        last = left
        chain += [_affine(lines[:left]), AVU()]
    found = regions_2d(nn.Sequential(*chain))
    groups = found.pattern[:, -last:].sum(dim=1) % len(SHADES)
    corners, ahead = found.corners, found.corners.roll(-1, 1)
    fields = (corners @ found.weight[:, -1, :, None])[..., 0] + found.bias[:, -1:]
    on_cut = (fields.abs() < 1e-9) & (fields.roll(-1, 1).abs() < 1e-9) & found.pattern[:, -1:]
    ends = ahead[on_cut]
    cuts = torch.stack([corners[on_cut], ends, torch.full_like(ends, math.nan)], dim=1)
    cells = [one.unique_consecutive(dim=0) for one in corners]
    return cells, groups.tolist(), cuts.flatten(0, 1).mT


def _affine(rows: Tensor) -> nn.Module:
    """Make a layer of rows (weights, bias)."""
    layer = nn.utils.skip_init(nn.Linear, 2, len(rows), dtype=torch.float64)
    layer.load_state_dict({"weight": rows[:, :2], "bias": rows[:, 2]})
    return layer


@experiment(
    reaches={**GOALS, "moons_accuracy": at_least_goal(0.99), "digits_accuracy": at_least_goal(0.9)},
    floor={**GOALS, "moons_accuracy": at_least_goal(0.97), "digits_accuracy": at_least_goal(0.8)},
    source="Hanin and Rolnick (2019), Deep ReLU networks have surprisingly few activation "
    "patterns: on a plane of the order of N²/2 regions for N units, at any depth, trained or not",
)
def picture_of_regions(
    run: Run, *, units: Annotated[int, Range(12, 96)] = 48, layers: Annotated[int, Range(2, 6)] = 4
) -> None:
    """Counts and draws the regions of networks of one size and more and more layers.

    On two moons, for five seeds (quick: three), and on a plane through three handwritten digits.
    """
    depths, (x, y, x_test, y_test) = range(1, layers + 1), handwriting(run)
    train, test = (x.flatten(1), y), (x_test.flatten(1), y_test)
    three = train[0][torch.randperm(len(x), generator=run.seed.torch())[:3]]
    table: dict[str, list[Any]] = {"digits": [
        [_trained(run, f"digits-{d}", units, d, train, test, (-1, 2, -1, 2), three) for d in depths]
    ], "moons": []}
    for k in range(5 if run.full else 3):
        train, test = (moons(run.seed.child((k, part)).torch(), 400) for part in "ab")
        table["moons"].append([
            _trained(run, f"moons-{k}-{d}", units, d, train, test, (-3, 3, -3, 3)) for d in depths
        ])
    over, series = 0, []
    for name, rows in table.items():
        counts = np.array([[(before, len(after)) for _, before, after, _ in row] for row in rows])
        over += int((counts.max(axis=2) > [zaslavsky(units // d, 2) ** d for d in depths]).sum())
        run.record(**{
            f"{name}_accuracy": min(one[3] for row in rows for one in row),
            f"{name}_ratio": float(counts[..., 1].mean()) / (units**2 / 2),
        })
        for when, means in zip(("before", "after"), counts.mean(axis=0).T, strict=True):
            run.record(**{f"{name}_{when}_{d}": float(means[d - 1]) for d in depths})
            series.append(Series(f"{name}, {when} training", depths, means, "other", "points"))
        run.figure(f"{name}_regions", _partition_figure([after for _, _, after, _ in rows[0]]))
    deepest, shallow = (np.array([len(row[d][2]) for row in table["moons"]]) for d in (-1, 0))
    run.record(
        over_the_bound=float(over), deepest_to_shallow=float((deepest / shallow).mean()),
        deepest_has_as_many=float((deepest >= shallow).sum()),
    )
    nets = [one[0] for row in table["moons"] for one in row]
    far = [net(1e4 * F.normalize(test[0])).softmax(dim=1).amax(dim=1) >= 0.999 for net in nets]
    run.record(far_certain=float(torch.cat(far).double().mean()))
    run.figure("counts", figures.draw(Plot(tuple(series), "hidden layers", "regions")))
    run.figure("confidence", _confidence_figure(nets[layers - 1]))
    run.keep(nets[layers - 1])


def _trained(
    run: Run, name: str, units: int, depth: int, train: Any, test: Any, box: tuple[float, ...],
    plane: Tensor | None = None,
) -> tuple[MLP, int, Regions, float]:
    """Train a network; give it with its regions before, how many, and after, and its accuracy."""
    seed, (x, y) = run.seed.child(name), train
    net = MLP((x.shape[1], *[units // depth] * depth, int(y.max()) + 1), rng=seed.torch())
    before, steps = len(regions_2d(net, box, plane=plane)), 600 if plane is None else 1800
    trained = fit(
        net, train, Supervised(F.cross_entropy), torch.optim.Adam(net.parameters(), lr=1e-2),
        steps=steps if run.full else 150, batch_size=100, callbacks=[OneCycle(2e-2)],
        validation=test, metrics={"accuracy": accuracy}, seed=seed, run=run, name=name,
    )
    after = regions_2d(net, box, plane=plane)
    return net, before, after, trained.history[-1]["validation_accuracy"]


def _partition_figure(partitions: list[Regions]) -> go.Figure:
    """Draw polygons, colored by the class that wins in them, with a slider for the depth."""
    figure, owners = go.Figure(), []
    for depth, found in enumerate(partitions, start=1):
        scores = (found.weight @ found.centers[..., None])[..., 0] + found.bias
        groups = 3 * scores.argmax(dim=1) + torch.arange(len(found)) % 3  # three shades a class
        for group in groups.unique().tolist():
            rings = F.pad(found.corners[groups == group], (0, 0, 0, 1), value=math.nan)
            x, y = rings.flatten(0, 1).round(decimals=3).T.tolist()
            color = OTHERS[group // 3 % len(OTHERS)]
            figure.add_scatter(
                x=x, y=y, fill="toself", fillcolor=color, opacity=0.3 + 0.2 * (group % 3),
                mode="lines", line={"color": "white", "width": 0.5}, visible=depth == 1,
                hoverinfo="skip", showlegend=False,
            )
            owners.append(depth)
    steps = [
        {"method": "update", "label": f"{depth}: {len(found)} regions",
         "args": [{"visible": [owner == depth for owner in owners]}]}
        for depth, found in enumerate(partitions, start=1)
    ]
    slider = {"steps": steps, "currentvalue": {"prefix": "hidden layers "}}
    figure.update_layout(sliders=[slider], template="plotly_white", height=560)
    return figure.update_yaxes(scaleanchor="x")


def _confidence_figure(net: MLP) -> go.Figure:
    """Draw the softmax probability of the class that wins, far beyond the data."""
    axis = torch.linspace(-30, 30, 121)
    grid = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), dim=-1)
    with torch.no_grad():
        sure = net(grid).softmax(dim=-1).amax(dim=-1)
    heat = go.Heatmap(x=axis.tolist(), y=axis.tolist(), z=sure.numpy().round(4).tolist(), zmin=0.5)
    return go.Figure(heat).update_yaxes(scaleanchor="x").update_layout(template="plotly_white")

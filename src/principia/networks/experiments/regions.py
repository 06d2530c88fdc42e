r"""Linear regions: what it reaches on data."""

import math
from typing import Annotated, Any

import numpy as np
import plotly.graph_objects as go
import torch
from torch import Tensor
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.data.synthetic import moons
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.training import OneCycle, Supervised, accuracy, fit
from principia.networks.mlp import MLP
from principia.networks.regions import Regions, regions_2d, zaslavsky

GOALS = {
    "over_the_bound": at_most_goal(0), "moons_ratio": Range(0.25, 1.5),
    "digits_ratio": Range(0.1, 1.5), "deepest_to_shallow": Range(0.25, 1.5),
    "far_certain": at_least_goal(0.95),
}


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
            color = figures.OTHERS[group // 3 % len(figures.OTHERS)]
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

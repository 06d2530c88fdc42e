r"""Norm constraints: what it reaches on data."""

import collections
import contextlib
import itertools
import math
import statistics
from typing import Annotated

import plotly.graph_objects as go
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold
from torch import Tensor
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.data.mnist import mnist
from principia.lab.evidence import Plot, Series
from principia.lab.params import PositiveFloat, Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.training import (
    Callback,
    Diverged,
    Schedule,
    Supervised,
    accuracy,
    callback,
    evaluate,
    fit,
)
from principia.lab.training.pairs import paired
from principia.optimization.problems import LogisticRisk
from principia.regularization.dropout import with_dropout
from principia.regularization.norm_constraint import MaxNorm, in_balls, penalized_at

LOOSEST = {"full": 1e-5, "quick": 1e-4}  # prices for no bound, at which there is no minimum


@callback()
def max_norm(run: Run, *, bound: PositiveFloat = 3.0) -> Callback:
    """Keeps the incoming weights of every unit at most so long.

    Args:
        bound: Largest norm of the incoming weights of a unit.
    """
    return MaxNorm(bound)


@experiment(
    reaches={
        "path_difference": at_most_goal(1e-4), "best_is_interior": at_least_goal(1),
        "cancer_saved_in_errors": at_least_goal(1.0), "digits_saved_in_errors": at_least_goal(1.0),
    },
    floor={"path_difference": at_most_goal(1e-4)},
    source="to beat is the loosest fit, in the ball of the price 1e-5, on the same five folds: a "
    "hyperplane separates their classes, so that without any bound there is no minimum",
    trains=False,
)
def radius_path(
    run: Run, *, images: Annotated[int, Range(200, 12_000)] = 4000,
    prices: Annotated[int, Range(5, 30)] = 10,
) -> None:
    r"""Solves logistic regression along radii and along the matching prices: one path.

    The best radius is compared with a ball so large that it hardly holds back, that of the price
    1e-5 (1e-4 when quick), instead of none: a hyperplane separates the classes, so that the risk
    falls forever along it, and what descent without a bound finds depends on when it ends. All fits
    are solved until their steps vanish.

    Args:
        images: Threes and eights of MNIST at full budget. There are 11,982; the default takes a few
            minutes, all of them take four times as long.
        prices: How many prices $\mu$, from 1 down to 0.001.
    """
    cancer = load_breast_cancer()
    sets = {"cancer": (torch.from_numpy(cancer.data), torch.from_numpy(cancer.target))}
    if run.full:
        x, y = mnist("train", data_dir=run.data_dir)
        chosen = ((y == 3) | (y == 8)).nonzero()[:images, 0]
        x = x[chosen].flatten(1).double()
        sets["digits"] = x[:, x.amax(dim=0) > 0], (y[chosen] == 8).long()  # pixels of any ink
    mus, apart, inside = torch.logspace(0, -3, prices, dtype=torch.float64), [], []
    for name, (X, y) in sets.items():
        risk = LogisticRisk(_standardized(X, X), y)
        penalized = penalized_at(risk, mus, tol=1e-10)
        radii = penalized.norm(dim=1)
        apart.append(float((penalized - in_balls(risk, radii, tol=1e-10)).abs().max()))
        loosest = penalized_at(risk, mus.new_tensor([LOOSEST[run.budget]]), tol=1e-8).norm(dim=1)
        folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
        balls, losses = torch.cat([radii, loosest]), []
        for train, test in run.steps(folds, f"folds of {name}"):
            callback = LogisticRisk(_standardized(X[train], X[train]), y[train])
            held = LogisticRisk(_standardized(X[test], X[train]), y[test])
            losses.append(held.value(in_balls(callback, balls, tol=1e-8)))
        loss = torch.stack(losses)  # (5, prices + 1); the loosest comes last
        # each fold is judged at the radius that is best for the other four
        best = ((loss.sum(dim=0) - loss)[:, :-1]).argmin(dim=1)
        saved = paired(loss[:, -1], loss[torch.arange(5), best])
        run.record(**{f"{name}_loss": float(loss[torch.arange(5), best].mean())})
        place = int(loss[:, :-1].mean(dim=0).argmin())  # 0 is the smallest radius
        run.record(**saved.metrics(f"{name}_saved"), **{f"{name}_radius": float(radii[place])})
        inside.append(0 < place < prices - 1)
        error = loss.std(dim=0) / 5**0.5
        run.figure(f"{name}-radii", figures.draw(Plot((
            Series("five folds", balls, loss.mean(dim=0), error=error),
            Series("the loosest", balls[[0, -1]], loss[:, -1].mean().expand(2), "bound"),
        ), "radius", "validation log-loss", "xy")))
    run.record(path_difference=max(apart), best_is_interior=all(inside))
    X, y = sets["cancer"]
    run.figure("contours", _contours(_standardized(X[:, :2], X[:, :2])[:, :2], y))


def _standardized(X: Tensor, like: Tensor) -> Tensor:
    """Center features and scale them by their spread in other data; a constant comes last."""
    # pixels share one scale: those at the rim hardly vary
    scale = like.std(dim=0) if like.shape[1] < 100 else like.std()
    return F.pad((X - like.mean(dim=0)) / scale, (0, 1), value=1.0)


def _contours(X: Tensor, y: Tensor) -> go.Figure:
    """Draw the risk of two weights, a ball, the path of all prices and the solution in the ball."""
    risk, radius = LogisticRisk(X, y), torch.tensor([1.5], dtype=torch.float64)
    path = penalized_at(risk, F.pad(torch.logspace(1, -4, 60, dtype=torch.float64), (0, 1)))
    solution, free = in_balls(risk, radius)[0], path[-1]
    ticks = free[:, None] / 2 + 1.1 * free.norm() * torch.linspace(-1, 1, 81, dtype=free.dtype)
    heights = risk.value(torch.stack(torch.meshgrid(*ticks, indexing="xy"), dim=-1))
    heights = (heights - risk.value(free)).clamp(min=0).sqrt()  # even rings around the minimum
    figure = figures.draw(Plot((), "θ₁", "θ₂"))
    figure.add_trace(go.Contour(
        x=ticks[0].tolist(), y=ticks[1].tolist(), z=heights.tolist(), showscale=False, ncontours=20,
        contours={"coloring": "none"}, line={"color": "#9ca3af", "width": 1}, hoverinfo="skip",
        name="risk", showlegend=False,
    ))
    turn = torch.linspace(0, 2 * math.pi, 121)
    figure.add_scatter(x=(radius * turn.cos()).tolist(), y=(radius * turn.sin()).tolist(),
                       mode="lines", name="ball", line={"color": "#dc2626", "dash": "dash"})
    figure.add_scatter(x=path[:, 0].tolist(), y=path[:, 1].tolist(), mode="lines",
                       name="penalized, all μ", line={"color": "#111827"})
    for name, point in {"in the ball": solution, "free": free}.items():
        figure.add_scatter(x=[float(point[0])], y=[float(point[1])], mode="markers", name=name,
                           marker={"size": 11})
    figure.update_yaxes(scaleanchor="x")
    return figure


@experiment(
    reaches={"gain_in_errors": at_least_goal(2.0)},
    floor={"gain": at_least_goal(0.0)},
    source="Srivastava et al. (2014), sec. 5.1: with a bound on the norms, large learning rates "
    "become possible; to beat is the same training without it",
)
def maxnorm_mlp(
    run: Run, *, bound: PositiveFloat = 1.0, lr: Annotated[float, Range(0.01, 10)] = 0.3,
    pairs: Annotated[int, Range(2, 20)] = 3, images: Annotated[int, Range(1000, 60_000)] = 10_000,
) -> None:
    """Trains a dropout network at large learning rates, with and without bounded rows.

    Args:
        bound: Largest norm of the incoming weights of a unit.
        lr: First learning rate, which falls to 0 along a cosine; the gain is told at this one.
        pairs: Trainings with equal starts and batches.
        images: Training pictures at full budget.
    """
    x, y, x_test, y_test = handwriting(run)
    x, y, x_test = x[:images].flatten(1), y[:images], x_test.flatten(1)
    sizes = [784, 256, 256, 10] if run.full else [64, 128, 128, 10]
    rates = sorted({0.03, 0.1, 0.3, 1.0, lr}) if run.full else [lr / 3, lr]
    arms, found = ("without", "with"), collections.defaultdict(list)  # by arm and rate
    for pair, rate, arm in itertools.product(range(pairs), rates, arms):
        seed = run.seed.child(f"pair {pair}")
        model = with_dropout(sizes, rng=seed.child("init").torch())
        sgd = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        with contextlib.suppress(Diverged):  # the model holds its last finite weights
            fit(
                model, (x, y), Supervised(F.cross_entropy), sgd, epochs=5 if run.full else 10,
                batch_size=100, seed=seed.child("order"), run=run, name=f"{arm}-{rate:.3g}-{pair}",
                callbacks=[
                    Schedule(CosineAnnealingLR), *([MaxNorm(bound)] if arm == "with" else [])
                ],
            )
        right = evaluate(model, (x_test, y_test), {"accuracy": accuracy})["accuracy"]
        found[arm, rate].append(right)
        if (arm, rate, pair) == ("with", lr, 0):
            run.keep(model)
    gain = paired(found["with", lr], found["without", lr])
    means = {key: statistics.fmean(values) for key, values in found.items()}
    run.record(accuracy=means["with", lr], **gain.metrics("gain"))
    run.record(**{f"best_{arm}": max(means[arm, one] for one in rates) for arm in arms})
    run.figure("pairs", gain.figure("test accuracy", ("without bound", "with bound")))
    errors = {key: statistics.stdev(values) / pairs**0.5 for key, values in found.items()}
    run.figure("rates", figures.draw(Plot(tuple(
        Series(f"{arm} bound", rates, [means[arm, one] for one in rates], "other", "line",
               error=[errors[arm, one] for one in rates]) for arm in arms
    ), "first learning rate", "test accuracy", "x")))

r"""Least squares: what it reaches on data."""

from typing import Annotated

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import scale

from principia.lab import figures
from principia.lab.data.uci import SETS, uci
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import PositiveInt, Range
from principia.lab.pictures import Cloud, Label, Panels, Surface
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training.estimators import fit_quietly
from principia.regression.least_squares import LMS, Array, hat_matrix, lstsq

GOALS = {"boston": 4.7, "concrete": 10.5, "energy": 3.1, "wine": 0.66, "yacht": 9.1}  # as in SETS
BEST = 0.5  # slope of the best line of the moving picture


@hero(moves="slope", frames=25)
def upright(
    seed: Seed, *, slope: Annotated[float, Range(-1, 2)] = BEST,
    lift: Annotated[float, Range(-0.5, 0.5)] = 0.0, noise: Annotated[float, Range(0, 1.5)] = 1.2,
) -> Panels:
    """The best line is the foot of a perpendicular: its errors stand upright on all lines.

    Args:
        slope: Slope of the line.
        lift: How much higher the line stands than the mean of the points.
        noise: Length of what no line explains.
    """
    x = torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)
    X = torch.stack([torch.ones_like(x), x], dim=1)
    level = 0.4 + 0.4 * float(torch.rand((), generator=seed.torch()))
    y = level + BEST * x + noise * torch.tensor([1.0, -2.0, 1.0]) / 6**0.5
    best, foot = lstsq(X, y), hat_matrix(X) @ y
    line = X @ torch.tensor([float(best[0]) + lift, slope], dtype=x.dtype)
    errors = y - line
    standing = bool((X.mT @ errors).abs().max() < 1e-6)
    color = "green" if standing else "red"
    sticks = torch.stack([line, y, torch.full_like(y, torch.nan)], dim=1).flatten()
    ends = torch.tensor([-1.3, 1.3])
    # the same space, turned so that the plane is level: the third axis stands upright on it
    turned = torch.stack([x.new_ones(3) / 3**0.5, -x / 2**0.5, x.new_tensor([1, -2, 1]) / 6**0.5])
    y_at, line_at, foot_at, nothing = turned @ y, turned @ line, turned @ foot, x.new_zeros(3)
    pole = torch.stack([foot_at, foot_at + x.new_tensor([0, 0, 1.6])])
    along, across = torch.linspace(-0.3, 2.3, 9), torch.linspace(-2.9, 1.5, 9)
    return Panels((
        Plot((
            Series("", x.repeat_interleave(3), sticks, color, "line"),
            Series("", ends, ends * slope + best[0] + lift, "blue", "line"),
            Series("", x, line, "blue", "points"), Series("", x, y, "ink", "points"),
            Label(f"squared errors {float(errors.square().sum()):.2f}", 0, -2, color),
            Label(("targets", "line"), (1.05, 1.05), (y[2], line[2]), side="right"),
        ), x="input", y="target", title="three points and a line", x_range=(-1.4, 1.7),
            y_range=(-2.4, 3.2)),
        Plot((
            Surface(along, across, torch.zeros(9, 9), opacity=0.25),
            Cloud("", pole, role="gray", style="line"),
            Cloud("", torch.stack([nothing, y_at]), role="ink", style="line"),
            Cloud("", torch.stack([nothing, line_at]), role="blue", style="line"),
            Cloud("", torch.stack([line_at, y_at]), role=color, style="line"),
            Cloud("", y_at[None], role="ink", size=5.0),
            Cloud("", line_at[None], role="blue", size=5.0),
        ), bare=True, title="targets over the plane of all lines: errors "
            + ("upright" if standing else "slanted")),
    ))


@experiment(
    reaches={
        **{f"{name}_rmse": at_most_goal(goal) for name, goal in GOALS.items()},
        "difference_from_sklearn": at_most_goal(1e-8),
    },
    floor={"r2": Range(0.51765, 0.51775), "difference_from_sklearn": at_most_goal(1e-8)},
    source="least squares by scikit-learn on the 20 splits of Hernández-Lobato and Adams (2015); "
    "R² = 0.5177 on the diabetes data of Efron et al. (2004), Least angle regression",
)
def uci_experiment(run: Run, *, chains: PositiveInt = 200) -> None:
    """Predicts five UCI targets on 20 fixed splits; when quick, diabetes on its own sample."""
    X, y = load_diabetes(return_X_y=True)
    tasks = {"diabetes": [(X, y, X, y)]}
    if run.full:
        tables = zip(GOALS, (uci(name, data_dir=run.data_dir) for name in SETS), strict=True)
        tasks = {name: [(one.X[a], one.y[a], one.X[b], one.y[b]) for a, b in one.splits]
                 for name, one in tables}
    gaps, pictured = [], None
    for name, splits in tasks.items():
        errors = []
        for X, y, X_test, truth in splits:
            guess, gap = _predict(X, y, X_test)
            gaps.append(gap)
            errors.append(np.sqrt(np.mean((guess - truth) ** 2)))
            pictured = pictured or (X, y, guess, truth)
        run.record(**{f"{name}_rmse": float(np.mean(errors))})
    run.record(difference_from_sklearn=max(gaps))

    X, y, guess, truth = pictured  # type: ignore[misc]
    run.record(r2=1 - ((truth - guess) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())
    ends = [float(truth.min()), float(truth.max())]
    diagonal = Series("perfect", ends, ends, role="predicted")
    scatter = Plot((Series("samples", truth, guess), diagonal), "true", "predicted")
    run.figure("predicted", figures.draw(scatter))
    # the two features that tell most, alone: their weights fit on a plane
    chosen = np.argsort([-abs(np.corrcoef(column, y)[0, 1]) for column in X.T])[:2]
    Z, target = scale(X[:, chosen]), scale(y)
    best = lstsq(torch.tensor(Z), torch.tensor(target))
    series = [Series("w*", best[:1], best[1:], role="bound", style="points")]
    for lr in (0.005, 0.05):
        model = LMS(lr=lr, chains=chains, epochs=5, fit_intercept=False, random_state=run.seed)
        x, y = fit_quietly(model, Z, target).chains_.T
        series.insert(0, Series(f"LMS, η = {lr}", x, y, role="other", style="points"))
    names = [f"weight of feature {column}" for column in chosen]
    run.figure("lms_cloud", figures.draw(Plot(tuple(series), names[0], names[1])))


def _predict(X: Array, y: Array, X_test: Array) -> tuple[Array, float]:
    """Predict by `lstsq` on centered data; also give the largest difference from scikit-learn."""
    w = lstsq(torch.tensor(X - X.mean(0)), torch.tensor(y - y.mean()))
    guess = (X_test - X.mean(0)) @ w.numpy() + y.mean()
    return guess, float(np.abs(guess - LinearRegression().fit(X, y).predict(X_test)).max())

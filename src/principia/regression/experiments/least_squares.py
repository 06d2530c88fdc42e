r"""Least squares: what it reaches on data."""

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import scale

from principia.lab import figures
from principia.lab.data.uci import SETS, uci
from principia.lab.evidence import Plot, Series
from principia.lab.params import PositiveInt, Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.training.estimators import fit_quietly
from principia.regression.least_squares import LMS, Array, lstsq

GOALS = {"boston": 4.7, "concrete": 10.5, "energy": 3.1, "wine": 0.66, "yacht": 9.1}  # as in SETS


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

r"""Logistic regression: what it reaches on data."""

from typing import Annotated, Any

import numpy as np
import torch
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.preprocessing import StandardScaler
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.regression.claims.logistic import descended
from principia.regression.logistic import IRLS


@experiment(
    reaches={"accuracy": at_least_goal(0.975), "difference_from_sklearn": at_most_goal(1e-6)},
    floor={"accuracy": at_least_goal(0.96), "difference_from_sklearn": at_most_goal(1e-6)},
    source="Wolberg, Street and Mangasarian (1995): 97.5 % by repeated 10-fold cross-validation",
)
def breast_cancer(run: Run, *, C: Annotated[float, Range(1e-4, 1e4)] = 1.0) -> None:
    """Diagnoses breast cancer from 30 features of cell nuclei, cross-validated."""
    data: Any = load_breast_cancer()
    X, y = data.data, data.target
    folds, repeats = (10, 5) if run.full else (5, 1)
    splits = RepeatedStratifiedKFold(
        n_splits=folds, n_repeats=repeats, random_state=int(run.seed)
    ).split(X, y)
    chances, truths, gaps = [], [], []
    for train, test in splits:
        scaler = StandardScaler().fit(X[train])
        seen, unseen = scaler.transform(X[train]), scaler.transform(X[test])
        model = IRLS(l2=1 / (C * len(train))).fit(seen, y[train])
        theirs = LogisticRegression(C=C, tol=1e-10, solver="newton-cholesky").fit(seen, y[train])
        chances.append(model.predict_proba(unseen)[:, 1])
        truths.append(y[test])
        gaps.append(np.abs(chances[-1] - theirs.predict_proba(unseen)[:, 1]).max())
    chance, truth = np.concatenate(chances), np.concatenate(truths)
    run.record(accuracy=np.mean((chance >= 0.5) == truth), difference_from_sklearn=max(gaps))

    happened, said = calibration_curve(truth, chance, n_bins=10)
    curve = Series("share of benign", said, happened)
    ideal = Series("ideal", [0, 1], [0, 1], role="predicted")
    run.figure("reliability", figures.draw(Plot((curve, ideal), "predicted chance", "share")))
    scaled, price = StandardScaler().fit_transform(X), 1 / (C * len(X))
    model = IRLS(l2=price).fit(scaled, y)
    run.keep(model)
    bars = Series("weight", data.feature_names.tolist(), model.coef_[0], style="bars")
    run.figure("coefficients", figures.draw(Plot((bars,), "", "weight for benign")))
    inputs = np.column_stack([scaled, np.ones(len(X))])  # here the bias has its price, too
    newton = np.array(IRLS(l2=price, fit_intercept=False).fit(inputs, y).losses_)
    rows = torch.from_numpy(np.where(y, 1.0, -1.0)[:, None] * inputs)
    path = descended(rows[None], 1000, price)[:, 0]
    descent = F.softplus(-path @ rows.T).mean(dim=1) + price / 2 * path.square().sum(dim=1)
    least, steps = newton.min() - 1e-16, np.arange(1, 1001)
    first = Series("IRLS", steps[: len(newton) - 1], newton[1:] - least, style="line")
    second = Series("gradient descent", steps, descent - least, role="other")
    run.figure("race", figures.draw(Plot((first, second), "step", "loss above least", "xy")))

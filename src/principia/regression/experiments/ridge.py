r"""Ridge regression: what it reaches on data."""

import itertools
from typing import Annotated, Any

import torch
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import RepeatedKFold
from torch import Tensor

from principia.lab import figures
from principia.lab.evidence import Plot, Series
from principia.lab.params import PositiveFloat, PositiveInt, Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.training import learner
from principia.regression.ridge import effective_dof, loo_error, ridge_path


@learner
def estimator(
    inputs: PositiveInt, outputs: PositiveInt, rng: torch.Generator, *, alpha: PositiveFloat = 1.0
) -> Ridge:
    """Builds scikit-learn's ridge regression for any table with a number to predict.

    Args:
        alpha: Price of the weights, in scikit-learn's convention.
    """
    return Ridge(alpha=alpha)


@experiment(
    reaches={"rmse_ratio": at_most_goal(0.96)},
    floor={"rmse_ratio": Range(0, 1, open="high")},
    source="Efron et al. (2004), Least angle regression: the quadratic model of the diabetes data; "
    "to beat is least squares on the same folds",
)
def quadratic_diabetes(
    run: Run, *, folds: Annotated[int, Range(2, 50)] = 10,
    prices: Annotated[int, Range(5, 500)] = 61,
) -> None:
    """Predicts diabetes from 64 columns; leave-one-out errors choose the price in each fold."""
    X, y, names = _quadratic_model()
    alphas = torch.logspace(-2, 4, prices, dtype=X.dtype)
    splits = RepeatedKFold(n_splits=folds, n_repeats=5 if run.full else 1, random_state=run.seed)
    squares, chosen = [], []
    for train, test in splits.split(X.numpy()):
        mean, spread = X[train].mean(dim=0), X[train].std(dim=0, correction=0)
        Z, Z_test, target = (X[train] - mean) / spread, (X[test] - mean) / spread, y[train]
        W = ridge_path(Z, target, torch.cat([alphas, alphas.new_zeros(1)]), center=True)
        squares.append((y[test] - target.mean() - W @ Z_test.mT) ** 2)  # (A + 1, tests)
        loo = loo_error(Z, target, alphas, center=True)
        chosen.append(squares[-1][(loo**2).mean(dim=1).argmin()])
    ridge = float(torch.cat(chosen).mean().sqrt())
    *fixed, ols = torch.cat(squares, dim=1).mean(dim=1).sqrt().tolist()
    run.record(ridge_rmse=ridge, ols_rmse=ols, rmse_ratio=ridge / ols)

    Z = (X - X.mean(dim=0)) / X.std(dim=0, correction=0)
    freedom, W = effective_dof(Z, alphas, center=True), ridge_path(Z, y, alphas, center=True)
    shortcut = (loo_error(Z, y, alphas, center=True) ** 2).mean(dim=1).sqrt()
    best = int(shortcut.argmin())
    run.record(chosen_alpha=float(alphas[best]), chosen_dof=float(freedom[best]))
    strongest = W[best].abs().argsort(descending=True)[:12].tolist()
    paths = tuple(Series(names[k], freedom, W[:, k], role="other") for k in strongest)
    run.figure("paths", figures.draw(Plot(paths, "effective degrees of freedom", "weight")))
    curve = (
        Series(f"{folds}-fold", alphas, fixed),
        Series("leave-one-out shortcut", alphas, shortcut, role="predicted"),
        Series("least squares", alphas[[0, -1]], [ols, ols], role="bound"),
    )
    run.figure("validation", figures.draw(Plot(curve, "λ", "RMSE", log="x")))


def _quadratic_model() -> tuple[Tensor, Tensor, list[str]]:
    """Load the diabetes data, 10 features, with 45 products and 9 squares: sex has two values."""
    data: Any = load_diabetes()
    X, features = torch.from_numpy(data.data), list(data.feature_names)
    sex = features.index("sex")
    pairs = [ab for ab in itertools.combinations_with_replacement(range(10), 2) if ab != (sex, sex)]
    columns = torch.stack([X[:, a] * X[:, b] for a, b in pairs], dim=1)
    names = features + [f"{features[a]}·{features[b]}" for a, b in pairs]
    return torch.cat([X, columns], dim=1), torch.from_numpy(data.target), names

"""Races of the regression chapter: 20 columns that depend on each other a little, in float64."""

import numpy as np
import torch

from principia.lab.racing import race, within
from principia.regression import IRLS, SoftmaxRegression, fista, loo_error, lstsq, ridge_path

COLUMNS, CLASSES = 20, 3
ROWS = (1_000, 10_000, 100_000, 1_000_000)
ALPHAS = np.logspace(-1, 3, 5)  # prices of ridge regression among which to choose
PRICE = 0.3  # of the lasso: about half of the weights are 0
GAP = 1e-10  # duality gap, relative to the loss of w = 0
L2 = 1e-3  # price of the classifiers, beside the mean loss; scikit-learn's C is 1/(rows L2)


def samples(rows: int) -> tuple[np.ndarray, np.random.Generator]:
    """Draw correlated normal columns, whose means are not 0."""
    rng = np.random.default_rng(0)
    mix = np.eye(COLUMNS) + 0.5 * rng.normal(size=(COLUMNS, COLUMNS)) / COLUMNS**0.5
    return rng.normal(size=(rows, COLUMNS)) @ mix + 0.5, rng


def targets(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw samples and a linear target with noise; every second weight is 0."""
    X, rng = samples(rows)
    weights = rng.normal(size=COLUMNS) * (np.arange(COLUMNS) % 2)
    return X, X @ weights + rng.normal(size=rows)


@race(rows=ROWS, agree=within(1e-9, why="decompositions in float64, condition number about 4"))
def least_squares(rows):
    """Solve least squares without intercept, by singular values."""
    X, y = targets(rows)
    return X, np.asfortranarray(X), y, torch.from_numpy(X), torch.from_numpy(y)


@least_squares.ours
def _(X, X_by_column, y, X_tensor, y_tensor):
    return lstsq(X_tensor, y_tensor)


@least_squares.peer("sklearn.linear_model.LinearRegression", package="scikit-learn")
def _(X, X_by_column, y, X_tensor, y_tensor):
    from sklearn.linear_model import LinearRegression

    return LinearRegression(fit_intercept=False, copy_X=False).fit(X_by_column, y).coef_


@least_squares.peer(
    "numpy.linalg.lstsq", package="numpy",
    slower="With few rows its single compiled call costs less than our checks and a dozen calls, "
    "which rotate the rows away.",
)
def _(X, X_by_column, y, X_tensor, y_tensor):
    return np.linalg.lstsq(X, y, rcond=None)[0]


@race(rows=ROWS, agree=within(1e-9, why="one linear system in float64"))
def ridge(rows):
    """Fit ridge regression with an intercept at one price."""
    X, y = targets(rows)
    price = torch.ones(1, dtype=torch.float64)
    return X, np.asfortranarray(X), y, torch.from_numpy(X), torch.from_numpy(y), price


@ridge.ours
def _(X, X_by_column, y, X_tensor, y_tensor, price):
    weights = ridge_path(X_tensor, y_tensor, price, center=True)[0]
    return torch.cat([weights, (y_tensor.mean() - X_tensor.mean(dim=0) @ weights)[None]])


@ridge.peer("sklearn.linear_model.Ridge", package="scikit-learn")
def _(X, X_by_column, y, X_tensor, y_tensor, price):
    from sklearn.linear_model import Ridge

    # without its copy it would center X in place, and the next round would get another X
    model = Ridge(alpha=1.0, solver="cholesky").fit(X_by_column, y)
    return np.append(model.coef_, model.intercept_)


@race(rows=(1_000, 10_000, 100_000), agree=within(1e-8, why="squares of errors in float64"))
def leave_one_out(rows):
    """Give the mean squared leave-one-out error of ridge regression at 5 prices."""
    X, y = targets(rows)
    return X, y, torch.from_numpy(X), torch.from_numpy(y), torch.from_numpy(ALPHAS)


@leave_one_out.ours
def _(X, y, X_tensor, y_tensor, alphas):
    return loo_error(X_tensor, y_tensor, alphas, center=True).square().mean(dim=1)


@leave_one_out.peer("sklearn.linear_model.RidgeCV", package="scikit-learn")
def _(X, y, X_tensor, y_tensor, alphas):
    from sklearn.linear_model import RidgeCV

    model = RidgeCV(alphas=ALPHAS, store_cv_results=True).fit(X, y)
    return model.cv_results_.mean(axis=0)


@race(rows=ROWS, agree=within(1e-4, why="both stop at a relative duality gap of 1e-10"))
def lasso(rows):
    """Fit the lasso to centered data, to a relative duality gap of 1e-10."""
    return centered(rows)


def centered(rows):
    """Give centered samples in both layouts, and prices from the largest that matters down."""
    X, y = targets(rows)
    X, y = X - X.mean(axis=0), y - y.mean()
    prices = np.abs(X.T @ y).max() / rows * np.geomspace(1, 0.01, 50)
    tensors = (torch.from_numpy(one) for one in (X, y, prices))
    return np.asfortranarray(X), y, prices, *tensors


@lasso.ours
def _(X_by_column, y, prices, X_tensor, y_tensor, price_tensor):
    return fista(X_tensor, y_tensor, PRICE, tol=GAP)


@lasso.peer(
    "sklearn.linear_model.Lasso", package="scikit-learn",
    slower="Its coordinate descent is compiled; ours is a chain of 278 torch calls, steps and "
    "checks, which is most of our time where rows are few; where they are many, both wait for X'X.",
)
def _(X_by_column, y, prices, X_tensor, y_tensor, price_tensor):
    from sklearn.linear_model import Lasso

    model = Lasso(
        alpha=PRICE, fit_intercept=False, precompute=True, copy_X=False, tol=GAP / 2
    )
    return model.fit(X_by_column, y).coef_


@race(rows=ROWS, agree=within(1e-4, why="both stop at a relative duality gap of 1e-10"))
def lasso_path(rows):
    """Fit the lasso at 50 prices to centered data, to relative duality gaps of 1e-10."""
    return centered(rows)


@lasso_path.ours
def _(X_by_column, y, prices, X_tensor, y_tensor, price_tensor):
    return fista(X_tensor, y_tensor, price_tensor, tol=GAP)


@lasso_path.peer("sklearn.linear_model.lasso_path", package="scikit-learn")
def _(X_by_column, y, prices, X_tensor, y_tensor, price_tensor):
    from sklearn.linear_model import lasso_path

    path = lasso_path(X_by_column, y, alphas=prices, precompute=True, copy_X=False, tol=GAP / 2)
    return path[1].T


@race(rows=ROWS, agree=within(1e-4, why="every solver stops within 1e-5 of the minimum"))
def logistic(rows):
    """Fit logistic regression with an intercept, to weights within 0.00001 of the best."""
    X, rng = samples(rows)
    scores = X @ (rng.normal(size=COLUMNS) / 2)
    return X, (rng.random(rows) < 1 / (1 + np.exp(-scores))).astype(np.int64)


@logistic.ours
def _(X, y):
    model = IRLS(l2=L2, tol=1e-3).fit(X, y)  # a Newton step later the square of that is left
    return np.append(model.coef_, model.intercept_)


@logistic.peer("sklearn LogisticRegression, lbfgs", package="scikit-learn")
def _(X, y):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1 / (len(X) * L2), tol=1e-6, max_iter=1000).fit(X, y)
    return np.append(model.coef_, model.intercept_)


@logistic.peer("sklearn LogisticRegression, newton-cholesky", package="scikit-learn")
def _(X, y):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1 / (len(X) * L2), tol=1e-6, solver="newton-cholesky").fit(X, y)
    return np.append(model.coef_, model.intercept_)


@race(rows=ROWS,
      agree=within(1e-5, why="a largest gradient of 1e-9, over curvatures of 0.001 and more"))
def softmax(rows):
    """Fit softmax regression of 10 columns and 3 classes, to a largest gradient of 0.000000001."""
    X, rng = samples(rows)
    X = X[:, : COLUMNS // 2].copy()
    scores = X @ rng.normal(size=(X.shape[1], CLASSES)) / 2 + rng.gumbel(size=(rows, CLASSES))
    y = scores.argmax(axis=1)
    return X, y, torch.from_numpy(X), torch.from_numpy(y)


@softmax.ours
def _(X, y, X_tensor, y_tensor):
    model = SoftmaxRegression(X.shape[1], CLASSES, l2=L2).double()
    model.fit(X_tensor, y_tensor)
    return model.weight.detach()


@softmax.peer(
    "sklearn LogisticRegression, lbfgs", package="scikit-learn", up_to=100_000,
    slower="With few rows our time is overhead: each of 16 gradients goes through autograd and the "
    "training loop; theirs are one compiled pass.",
)
def _(X, y, X_tensor, y_tensor):
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1 / (len(X) * L2), tol=1e-9, max_iter=1000).fit(X, y).coef_


@softmax.peer(
    "sklearn LogisticRegression, newton-cholesky", package="scikit-learn",
    slower="With few rows a Hessian of 33 weights is cheap: they take 6 Newton steps, while each "
    "of our 16 gradients goes through autograd and the training loop.",
)
def _(X, y, X_tensor, y_tensor):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1 / (len(X) * L2), tol=1e-9, solver="newton-cholesky")
    return model.fit(X, y).coef_

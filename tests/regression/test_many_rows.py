"""Tall problems are rotated into few rows, and summed block by block: against other libraries."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine
from sklearn.linear_model import Lasso, LogisticRegression, Ridge

from principia.regression import IRLS, SoftmaxRegression, fista, lstsq, ridge_path
from principia.regression._least_squares_fast import BLOCK, few_rows

ROWS, COLUMNS = 2 * BLOCK + 100, 7  # two whole blocks and a part of one
UNIT = 2.0**-53


def tall(condition=1.0):
    """Draw X with this condition number, and y = X w + noise."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(ROWS, COLUMNS)))[0]
    V = np.linalg.qr(rng.normal(size=(COLUMNS, COLUMNS)))[0]
    X = U * np.geomspace(1, 1 / condition, COLUMNS) @ V.T * ROWS**0.5
    return X, X @ rng.normal(size=COLUMNS) + rng.normal(size=ROWS)


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6, 1e9])
def test_the_few_rows_have_the_singular_values_and_the_solution_of_all(condition):
    X, y = tall(condition)
    few, shares = few_rows(torch.from_numpy(X), torch.from_numpy(y)[:, None])
    if condition < 1e8:  # beyond that the factor of X'X has no digits left, and X is kept
        assert few.shape == (COLUMNS, COLUMNS)
        assert shares.shape == (COLUMNS, 1)
    found = torch.linalg.svdvals(few).numpy()
    rounding = 100 * UNIT * np.linalg.norm(X)  # of sums over thousands of rows
    np.testing.assert_allclose(found, np.linalg.svd(X, compute_uv=False), atol=rounding, rtol=0)
    ours = lstsq(torch.from_numpy(X), torch.from_numpy(y)).numpy()
    theirs = np.linalg.lstsq(X, y, rcond=None)[0]
    # a residual of the size of y makes the error grow with the square (Higham 2002, sec. 20.1)
    slack = 100 * UNIT * condition * (1 + condition) * np.linalg.norm(theirs)
    np.testing.assert_allclose(ours, theirs, atol=slack, rtol=0)


def test_dependent_columns_have_the_shortest_solution():
    X, y = tall()
    X = np.column_stack([X, X[:, 0] - X[:, 1]])
    ours = lstsq(torch.from_numpy(X), torch.from_numpy(y)).numpy()
    np.testing.assert_allclose(ours, np.linalg.lstsq(X, y, rcond=None)[0], atol=1e-10)


@pytest.mark.parametrize("condition", [2.0, 1e4])
def test_ridge_and_lasso_are_those_of_scikit_learn(condition):
    X, y = tall(condition)
    tensors = torch.from_numpy(X), torch.from_numpy(y)
    ours = ridge_path(*tensors, torch.tensor([3.0], dtype=torch.float64))[0]
    theirs = Ridge(3.0, fit_intercept=False, solver="svd").fit(X, y).coef_
    np.testing.assert_allclose(ours, theirs, rtol=1e-7)
    ours = fista(*tensors, 0.1, tol=1e-12, steps=100_000)
    theirs = Lasso(0.1, fit_intercept=False, tol=1e-13, max_iter=100_000).fit(X, y).coef_

    def objective(w):
        return ((X @ w - y) ** 2).mean() / 2 + 0.1 * np.abs(w).sum()

    assert objective(ours.numpy()) == pytest.approx(objective(theirs), rel=1e-10)


@pytest.mark.parametrize("condition", [2.0, 1e4])
def test_columns_far_from_0_are_centered_block_by_block_without_losing_digits(condition):
    X, y = tall(condition)
    X = X + 1e4 * np.arange(COLUMNS)  # the sum of their squares would hide all that matters
    ours = ridge_path(*map(torch.from_numpy, (X, y, np.array([3.0]))), center=True)[0]
    theirs = Ridge(3.0, solver="svd").fit(X, y).coef_
    # rounding of the means, which the condition number magnifies
    slack = 100 * UNIT * 1e4 * COLUMNS * condition * np.linalg.norm(theirs)
    np.testing.assert_allclose(ours, theirs, atol=slack, rtol=0)


@pytest.mark.parametrize("condition", [2.0, 45.0])
def test_single_precision_loses_no_more_digits_than_it_has(condition):
    """Squaring the condition number would cost float32 half of them."""
    X, y = tall(condition)
    tensors = torch.from_numpy(X).float(), torch.from_numpy(y).float()
    ours = ridge_path(*tensors, torch.tensor([3.0]))[0].double().numpy()
    theirs = Ridge(3.0, fit_intercept=False, solver="svd").fit(X, y).coef_
    slack = 10 * torch.finfo(torch.float32).eps * condition * np.linalg.norm(theirs)
    np.testing.assert_allclose(ours, theirs, atol=slack, rtol=0)


def test_derivatives_pass_through_few_rows():
    X, y = (torch.from_numpy(one[:60]) for one in tall(3.0))
    X, y = X.requires_grad_(), y.requires_grad_()
    assert torch.autograd.gradcheck(lstsq, (X, y))


def test_logistic_regression_is_that_of_scikit_learn():
    X, y = tall(10.0)
    labels = (y > 0.3).astype(int)
    ours = IRLS(l2=1e-3).fit(X, labels)
    theirs = LogisticRegression(C=1 / (1e-3 * ROWS), tol=1e-12, solver="newton-cholesky")
    theirs.fit(X, labels)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6)


@pytest.mark.parametrize("l2", [0.0, 1e-6, 1e-2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_softmax_regression_ends_on_columns_of_all_sizes(l2, dtype):
    """Wine as it is: columns from 0.1 to 1,000, and classes that can be separated."""
    x, y = (torch.tensor(one) for one in load_wine(return_X_y=True))
    model = SoftmaxRegression(x.shape[1], 3, l2=l2).to(dtype)
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    model.fit(x.to(dtype), y)
    assert len(calls) < 1000
    theirs = LogisticRegression(
        C=1 / (max(l2, 1e-9) * len(x)), tol=1e-10, max_iter=1000, solver="newton-cholesky")
    theirs.fit(x.numpy(), y.numpy())

    def objective(scores, weights):
        loss = torch.nn.functional.cross_entropy(scores, y)
        return float(loss + l2 / 2 * weights.square().sum())

    with torch.no_grad():
        ours = objective(model(x.to(dtype)).double(), model.weight.double())
    best = objective(torch.from_numpy(theirs.decision_function(x.numpy())),
                     torch.from_numpy(theirs.coef_))
    assert ours <= best + 100 * torch.finfo(dtype).eps

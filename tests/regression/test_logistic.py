import math

import numpy as np
import pytest
import torch
from scipy import special
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch.nn import functional as F

from planting import assert_caught
from principia.connectionism import separable
from principia.lab.params import UsageError
from principia.regression import IRLS, logistic_loss, logit, zero_one_bound

KEY = "regression/logistic"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("-F.logsigmoid((2 * y.to(z) - 1) * z)", "-F.logsigmoid((1 - 2 * y.to(z)) * z)",
         "gradient"),
        ("np.sqrt(expit(near) * expit(-near))", "np.sqrt(expit(near))", "mean_matching"),
        ("-price * w]", "price * w]", "mean_matching"),
        ("np.append(np.ones(d), np.zeros(bias))", "np.ones(d + bias)", "mean_matching"),
        ("math.sqrt(s * self.l2)", "math.sqrt(self.l2)", "irls_is_scikit_learns"),
        ("np.stack([-scores, scores], axis=1)", "np.stack([scores, -scores], axis=1)",
         "mean_matching"),
        ("bool(margins.min() > 0)", "bool(margins.max() > 0)", "mean_matching"),
        ("bool(margins.min() > 0)", "bool(margins.min() >= 0)", "irls_is_scikit_learns"),
        ("self.separable_ or _weakly_separable(rows)", "False", "separable_data_diverges"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("(y == -1)).all() and", "(y == -1)).any() and", "two_forms", ["of which a note tells"]),
        ("rows / np.where(scale > 0, scale, 1.0)", "rows", "separability_is_told", ["told"]),
        ("-F.logsigmoid((2 * y.to(z) - 1) * z)", "F.softplus(-z) * y + F.softplus(z)", "two_forms",
         ["far away", "two formulas", "torch"]),
        ("-F.logsigmoid((2 * y.to(z) - 1) * z)", "((2 * y.to(z) - 1) * z).sigmoid()",
         "log_sigmoid", ["first derivative", "second derivative"]),
        ("-F.logsigmoid((2 * y.to(z) - 1) * z)", "(z.sigmoid() - y) ** 2", "convex_and_smooth",
         ["Hessian", "not negative", "L at 0"]),
        ("p.log() - (-p).log1p()", "p.log() + (-p).log1p()", "logistic_function",
         ["logit inverts"]),
        ("-F.logsigmoid(z) / math.log(base)", "-F.logsigmoid(z) * math.log(base)",
         "surrogate_bound", ["log 2 at 0"]),
        ("np.sqrt(expit(near) * expit(-near))", "np.sqrt(1.6 * expit(near) * expit(-near))",
         "mean_matching", ["steps, free", "steps, with a price"]),
        ("(2 * y.to(z) - 1) * z)", "(2 * y.to(z) - 1) * z - 1)", "logistic_function",
         ["torch.sigmoid", "odd", "convex, then concave"]),
        ("(2 * y.to(z) - 1) * z)", "(4 * y.to(z) - 2) * z)", "logistic_function",
         ["slope", "slope below 1/4"]),
        ("(2 * y.to(z) - 1) * z)", "(4 * y.to(z) - 2) * z)", "convex_and_smooth", ["at most L"]),
        ("-F.logsigmoid(z) / math.log(base)", "-F.logsigmoid(z) * math.log(base)",
         "surrogate_bound", ["minus the logarithm"]),
        ("np.stack([-scores, scores], axis=1)", "np.stack([scores, -scores], axis=1)",
         "irls_is_scikit_learns", ["probabilities"]),
        ("self.classes_[(scores >= 0)", "self.classes_[(scores < 0)", "irls_is_scikit_learns",
         ["classes"]),
        ("y = y > 0\n", "y = y <= 0\n", "two_forms", ["labels -1 and +1"]),
        ("(y == -1)).all() and (y == -1).any()", "(y == -1)).all() and (y == y).any()", "two_forms",
         ["of which a note tells"]),
        ("            if self.separable_:\n", "            if True:\n", "separability_is_told",
         ["in words"]),
        ("self.losses_.append(value)", "pass", "irls_is_scikit_learns",
         ["converged, and not separable"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_functions_are_those_of_scipy():
    p = torch.linspace(0, 1, 101, dtype=torch.float64)
    np.testing.assert_allclose(logit(p), special.logit(p.numpy()), atol=1e-14)
    z = torch.linspace(-800, 800, 1601, dtype=torch.float64)
    ones, logs, mirrored = torch.ones_like(z), *map(special.log_expit, (z.numpy(), -z.numpy()))
    near = {"rtol": 1e-12, "atol": 1e-300}  # below, float64 has fewer digits
    np.testing.assert_allclose(zero_one_bound(z, 10), -logs / np.log(10), **near)
    np.testing.assert_allclose(logistic_loss(ones, z), -logs, **near)
    np.testing.assert_allclose(logistic_loss(0 * ones, z), -mirrored, **near)
    few = torch.linspace(-5, 5, 9, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda u: logistic_loss(ones[:9], u), few)


@pytest.mark.parametrize("l2", [1e-4, 0.1])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_equals_sklearns_own_logistic_regression_on_badly_scaled_data(l2, fit_intercept):
    X, y = load_breast_cancer(return_X_y=True)
    ours = IRLS(l2=l2, fit_intercept=fit_intercept).fit(X, y)
    theirs = LogisticRegression(
        C=1 / (l2 * len(X)), fit_intercept=fit_intercept, solver="newton-cholesky", tol=1e-12
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert (ours.predict(X) == theirs.predict(X)).all()


def diverging_problem():
    """Give heavy-tailed points on which Newton's method without a line search runs away."""
    rng = np.random.default_rng(940)
    s, d = int(rng.integers(6, 60)), int(rng.integers(1, 4))
    X = rng.normal(size=(s, d)) * np.exp(2 * rng.normal(size=(s, 1)))
    odds = X[:, 0].clip(-300, 300) + 4 * rng.normal()
    return X, (rng.random(s) < special.expit(odds)).astype(int)


def test_line_search_holds_newton_where_it_would_run_away():
    X, y = diverging_problem()
    rows = np.where(y == 1, 1, -1)[:, None] * np.column_stack([X, np.ones(len(X))])

    def loss(w):
        return np.logaddexp(0, -rows @ w).mean()

    w = np.zeros(rows.shape[1])
    for _ in range(7):
        miss = special.expit(-rows @ w)
        w += np.linalg.solve(rows.T @ ((miss * (1 - miss))[:, None] * rows), rows.T @ miss)
    assert loss(w) > 1000
    model = IRLS().fit(X, y)
    assert model.converged_
    assert (np.diff(model.losses_) <= 1e-15).all()
    best = minimize(loss, 0 * w, method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(model.losses_[-1], best.fun, rtol=1e-9)


def test_redundant_columns_change_no_prediction():
    X, y = diverging_problem()
    plain, doubled = (IRLS().fit(columns, y) for columns in (X, np.hstack([X, X])))
    np.testing.assert_allclose(
        plain.predict_proba(X), doubled.predict_proba(np.hstack([X, X])), atol=1e-9
    )


def test_separable_is_said_exactly_when_a_linear_program_says_so():
    rng, verdicts = np.random.default_rng(0), []
    for _ in range(60):
        X, y = rng.normal(size=(8, 3)), rng.permutation([0, 1] * 4)
        expected = separable(X, y)[0]
        verdicts.append(expected)
        if not expected:
            assert IRLS().fit(X, y).converged_
            continue
        with pytest.warns(ConvergenceWarning, match="No minimizer exists"):
            model = IRLS().fit(X, y)
        assert model.separable_
        assert not model.converged_
        assert model.score(X, y) == 1
    assert 5 < sum(verdicts) < 55


def test_points_on_the_separating_hyperplane_are_no_minimum_either():
    with pytest.warns(ConvergenceWarning, match="No minimizer exists"):
        model = IRLS().fit([[0], [1], [1], [2]], [0, 0, 1, 1])
    assert model.separable_
    assert np.isfinite(model.coef_).all()
    assert IRLS(l2=1e-3).fit([[0], [1], [1], [2]], [0, 0, 1, 1]).converged_


def test_a_rest_far_away_is_no_minimum_if_points_touch_the_hyperplane():
    rng = np.random.default_rng(0)
    apart, both = rng.normal(size=(8, 3)), rng.normal(size=(8, 3)) * [0.0, 1.0, 1.0]
    labels = np.append(apart[:, 0] > 0, np.arange(2).repeat(8) == 1)
    apart[:, 0] += np.sign(apart[:, 0])
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    for scales in ([1.0, 1.0, 1.0], [0.01, 1.0, 100.0], [100.0, 0.01, 1.0]):
        X = np.vstack([apart, both, both]) @ turn * scales
        with pytest.warns(ConvergenceWarning, match="No minimizer exists"):
            model = IRLS().fit(X, labels)
        assert model.separable_
        assert not model.converged_
    outlier = np.append(rng.normal(size=(40, 1)), [[500.0]], axis=0)  # far, yet there is a minimum
    assert IRLS().fit(outlier, np.append(np.arange(40) % 2, 1)).converged_


def test_too_few_steps_are_told():
    X, y = diverging_problem()
    with pytest.warns(ConvergenceWarning, match="still moving after 3 steps. Raise max_iter"):
        assert not IRLS(max_iter=3).fit(X, y).separable_


def test_signs_are_converted_with_a_note():
    z = torch.tensor([0.5, -2.0, 3.0])
    with pytest.warns(UserWarning, match=r"labels -1 and \+1, which are taken for 0 and 1"):
        converted = logistic_loss(torch.tensor([-1, 1, 1]), z)
    assert torch.equal(converted, logistic_loss(torch.tensor([False, True, True]), z))


def test_bad_input_is_told_in_one_sentence():
    z = torch.zeros(3)
    with pytest.raises(UsageError, match=r"y must be an array of 0 and 1 only; got tensor\(\[0, 1"):
        logistic_loss(torch.tensor([0, 1, 2]), z)
    with pytest.raises(UsageError, match=r"y must be of the shape of z, \(3,\); got \(3, 1\)"):
        logistic_loss(torch.zeros(3, 1), z)
    with pytest.raises(UsageError, match=r"p must be of probabilities in \[0, 1\]"):
        logit(torch.tensor([0.5, 1.5]))
    with pytest.raises(UsageError, match=r"base must be in \(1, inf\); got 1"):
        zero_one_bound(z, 1.0)
    with pytest.raises(UsageError, match="y must be of two classes or more; got 'one class'"):
        IRLS().fit(np.eye(3), [1, 1, 1])
    with pytest.raises(UsageError, match="y must have two classes; got 3"):
        IRLS().fit(np.eye(3), [0, 1, 2])
    with pytest.raises(UsageError, match=r"IRLS: l2 must be in \[0, inf\); got -1"):
        IRLS(l2=-1.0).fit(np.eye(2), [0, 1])


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_losses_are_those_of_the_stated_objective_and_fall(fit_intercept):
    X, y = make_classification(200, 6, flip_y=0.2, random_state=3)
    model = IRLS(l2=0.3, fit_intercept=fit_intercept).fit(X, y)
    scores = torch.tensor(model.decision_function(X))
    loss = F.binary_cross_entropy_with_logits(scores, torch.tensor(y).double())
    assert math.isclose(model.losses_[-1], float(loss) + 0.15 * (model.coef_**2).sum())
    assert math.isclose(model.losses_[0], math.log(2))
    assert (np.diff(model.losses_) <= 1e-15).all()

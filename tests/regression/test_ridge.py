import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import BayesianRidge, Ridge, RidgeCV

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.regression import effective_dof, loo_error, posterior, ridge_alpha, ridge_path

KEY = "regression/ridge"
ALPHAS = torch.logspace(-2, 3, 7, dtype=torch.float64)


def problem(s, d, *outputs, seed=0):
    rng = torch.Generator().manual_seed(seed)
    X = 2 + torch.randn(s, d, generator=rng, dtype=torch.float64)
    return X, torch.randn(s, *outputs, generator=rng, dtype=torch.float64)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ('"half-mean": 0.5 / s}', '"half-mean": 0.5}', "mean_loss_convention"),
        ('"half": 0.5}[penalty]', '"half": 1.0}[penalty]', "sum_loss_convention"),
        ("inverse = d / (d**2", "inverse = d / (d", "dual_form"),
        ("(d**2 + alphas.to(d)[:, None])).sum(dim=1)", "(d**2 + alphas.to(d)[:, None])).sum(dim=1)"
         ".sqrt()", "svd_shrinkage"),
        ("middle=middle if center else None", "middle=None", "sklearn_convention"),
        ("- center / len(X)", "", "leave_one_out_shortcut"),
        ("rest = 1 - keep", "rest = 1 + keep", "leave_one_out_shortcut"),
        ("W = Vh.mT @", "W = -Vh.mT @", "diagonal_scaling"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ('"mean": 1 / s,', '"mean": 2 / s,', "sklearn_convention",
         ["gradients of the eight conventions"]),
        ("inverse = d / (d**2", "inverse = d / (2 * d**2", "sklearn_convention", ["ridge_path"]),
        ("inverse = d / (d**2", "inverse = d / (2 * d**2", "svd_shrinkage", ["least squares"]),
        ("inverse = d / (d**2", "inverse = d * (d**2", "map_estimate", ["norm falls"]),
        ("d / (d**2 + alphas.to(d)", "d / (d**2 + alphas.sqrt().to(d)", "limits", ["norm"]),
        ("return (d**2 / (d**2 +", "return (alphas.to(d)[:, None] / (d**2 +", "limits",
         ["freedom falls", "freedom at infinity"]),
        ("+ len(X) * middle.square().sum()", "", "limits", ["freedom far from 0"]),
        ("kept = d > rounding", "kept = d > 0 * rounding", "limits", ["freedom at 0"]),
        ("& (X[0] != 0)", "", "sklearn_convention", ["a constant column is told"]),
        ("(d.square().sum() + len(X)", "(d.sum() + len(X)", "limits", ["freedom at 0"]),
        ("X.new_tensor([sigma2 / tau])", "X.new_tensor([tau / sigma2])", "map_estimate",
         ["posterior mean"]),
        ("torch.eye(X.shape[1]).to(X) / tau", "torch.eye(X.shape[1]).to(X) * tau", "map_estimate",
         ["posterior covariance"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(("s", "d"), [(30, 5), (5, 30), (12, 12)])
@pytest.mark.parametrize("center", [False, True])
def test_path_is_scikit_learns_ridge_at_every_price(s, d, center):
    X, Y = problem(s, d, 3)
    path = ridge_path(X, Y, ALPHAS, center=center)
    assert path.shape == (7, d, 3)
    for alpha, weights in zip(ALPHAS, path, strict=True):
        model = Ridge(alpha=float(alpha), fit_intercept=center).fit(X.numpy(), Y.numpy())
        np.testing.assert_allclose(weights, model.coef_.T, atol=1e-9)
        intercept = center * (Y.mean(dim=0) - X.mean(dim=0) @ weights)
        np.testing.assert_allclose(intercept, model.intercept_, atol=1e-9)
    torch.testing.assert_close(ridge_path(X, Y[:, 1], ALPHAS, center=center), path[..., 1])


@pytest.mark.parametrize("loss", ["sum", "half-sum", "mean", "half-mean"])
@pytest.mark.parametrize("penalty", ["full", "half"])
def test_every_convention_is_minimized_where_ridge_alpha_says(loss, penalty):
    X, y = (part.numpy() for part in problem(25, 4))
    risk = {"sum": np.sum, "mean": np.mean}[loss.removeprefix("half-")]

    def objective(w):
        data = risk((X @ w - y) ** 2) * (0.5 if "half-" in loss else 1)
        return data + 0.7 * (0.5 if penalty == "half" else 1) * np.sum(w**2)

    found = minimize(objective, np.zeros(4), method="Nelder-Mead",
                     options={"xatol": 1e-7, "fatol": 1e-13, "maxiter": 10_000}).x
    alpha = ridge_alpha(0.7, 25, loss=loss, penalty=penalty)
    model = Ridge(alpha=alpha, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(found, model.coef_, atol=1e-5)


@pytest.mark.parametrize("center", [False, True])
def test_leave_one_out_errors_are_those_of_ridgecv(center):
    X, Y = problem(30, 6, 2)
    model = RidgeCV(alphas=ALPHAS.numpy(), fit_intercept=center, store_cv_results=True)
    theirs = model.fit(X.numpy(), Y.numpy()).cv_results_  # (s, m, A), squared
    ours = loo_error(X, Y, ALPHAS, center=center)
    np.testing.assert_allclose(ours.permute(1, 2, 0) ** 2, theirs, rtol=1e-8)
    best = (ours**2).mean(dim=(1, 2)).argmin()
    assert float(ALPHAS[best]) == pytest.approx(float(model.alpha_))


def test_degrees_of_freedom_are_the_response_of_the_fit_to_its_targets():
    X, _ = problem(20, 6)
    hat = X @ ridge_path(X, torch.eye(20, dtype=X.dtype), ALPHAS)  # fit of each unit vector
    trace = hat.diagonal(dim1=1, dim2=2).sum(dim=1)
    torch.testing.assert_close(effective_dof(X, ALPHAS), trace)


def test_posterior_is_bayesian_ridge_and_what_samples_say():
    X, y = problem(40, 3)
    model = BayesianRidge(fit_intercept=False, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0)
    model.fit(X.numpy(), y.numpy())
    law = posterior(X, y, 1 / model.alpha_, 1 / model.lambda_)
    np.testing.assert_allclose(law.mean, model.coef_, rtol=1e-2)  # it stops at a loose tolerance
    # rejection from the prior: draws of (w, y) whose y is near the one that was seen
    rng, one = torch.Generator().manual_seed(1), torch.tensor([[1.0]], dtype=torch.float64)
    law = posterior(one, 2 * one[0], sigma2=0.5, tau=2.0)
    w = 2**0.5 * torch.randn(4_000_000, generator=rng, dtype=torch.float64)
    seen = w + 0.5**0.5 * torch.randn(len(w), generator=rng, dtype=torch.float64)
    w = w[(seen - 2).abs() < 0.02]
    assert float(w.mean()) == pytest.approx(float(law.mean), abs=5 * float(w.std()) / len(w) ** 0.5)
    assert float(w.var()) == pytest.approx(float(law.variance), rel=5 * (2 / len(w)) ** 0.5)


def test_dependent_columns_share_the_weight():
    X, y = problem(20, 2)
    twice = torch.cat([X, X], dim=1)
    halves = ridge_path(twice, y, torch.tensor([1e-9], dtype=X.dtype))[0].reshape(2, 2)
    best = torch.linalg.lstsq(X, y[:, None]).solution[:, 0]
    torch.testing.assert_close(halves, torch.stack([best, best]) / 2, atol=1e-9, rtol=0)
    assert effective_dof(twice, torch.zeros(1)).tolist() == [2]


def test_centering_removes_constant_columns_of_any_size():
    X, y = problem(20, 3)
    wide = torch.cat([X, torch.full((20, 1), 1e8 / 3, dtype=X.dtype)], dim=1)
    path = ridge_path(wide, y, ALPHAS, center=True)
    torch.testing.assert_close(path[:, :3], ridge_path(X, y, ALPHAS, center=True))
    assert (path[:, 3] == 0).all()


def test_single_precision_and_gradients():
    X, y = problem(20, 3)
    single = ridge_path(X.float(), y.float(), ALPHAS)
    torch.testing.assert_close(single, ridge_path(X, y, ALPHAS).float(), rtol=1e-4, atol=1e-5)
    X.requires_grad_()
    assert torch.autograd.gradcheck(lambda X: ridge_path(X, y, ALPHAS[2:4]), X)


def test_quick_experiment_beats_least_squares_and_draws():
    outcome = page(KEY).experiments()["quadratic_diabetes"]()
    assert outcome.reached, outcome.missed
    assert set(outcome.figures) == {"paths", "validation"}
    assert len(page(KEY).load("experiments")._quadratic_model()[2]) == 64


def test_bad_input_is_told_in_one_sentence():
    X, y = problem(10, 3)
    zero = torch.zeros(1, dtype=X.dtype)
    for path, bad in itertools.product((ridge_path, loo_error), (-1.0, float("nan"))):
        with pytest.raises(UsageError, match=r"alphas must be one or more values, each in \[0"):
            path(X, y, torch.tensor([1.0, bad]))
    with pytest.raises(UsageError, match=r"effective_dof: alphas must be .* got \[-1.0\]"):
        effective_dof(X, zero - 1)
    with pytest.raises(UsageError, match=r"lam must be in \[0, inf\); got -1"):
        ridge_alpha(-1, 10)
    rank = r"alphas must be in \(0, inf\) where X has rank 3 and 6 columns; got 0\. .*lstsq finds"
    for path in (ridge_path, loo_error):
        with pytest.raises(UsageError, match=rank):
            path(torch.cat([X, X], dim=1), y, zero)
    with pytest.raises(UsageError, match=r"so large that no leverage is 1; .* raise alphas"):
        loo_error(X[:3], y[:3], zero)
    with pytest.raises(UsageError, match="X and Y must be finite"):
        ridge_path(X / 0, y, zero)
    with pytest.raises(UsageError, match=r"posterior: tau must be in \(0, inf\); got 0"):
        posterior(X, y, 1.0, 0)


def test_an_intercept_with_a_price_gives_a_warning():
    X, y = problem(10, 3)
    X[:, 1] = 1
    for call in (lambda: ridge_path(X, y, ALPHAS), lambda: effective_dof(X, ALPHAS)):
        with pytest.warns(UserWarning, match="constant column.*out and pass center=True"):
            call()
    ridge_path(X, y, ALPHAS, center=True)

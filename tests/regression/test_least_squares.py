import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge, SGDRegressor
from sklearn.utils.estimator_checks import check_estimator
from torch.nn import functional as F

from planting import assert_caught
from principia.connectionism import delta_step
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.regression import LMS, gaussian_nll, hat_matrix, lstsq, normal_equations, pinv_path

KEY = "regression/least_squares"


def problem(s, d, *more, seed=0):
    rng = torch.Generator().manual_seed(seed)
    shapes = [(s, d), (s, *more)]
    return [torch.randn(shape, generator=rng, dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("cholesky_ex(X.mT @ X)", "cholesky_ex(2 * X.mT @ X)", "normal_equations"),
        ("y[rows] - np.einsum", "y[rows] + np.einsum", "lms_step_limit"),
        ("size=(len(y), len(W))", "size=(len(y), 1)", "lms_noise_floor"),
        ("(X.mT @ columns, factor)", "(X.mT @ columns, factor.mT)", "normal_equations"),
        ("torch.exp(-2 * log_sigma)", "torch.exp(-log_sigma)", "gaussian_likelihood"),
        ("+ math.log(2 * math.pi) / 2", "+ math.log(2 * math.pi)", "gaussian_likelihood"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("(X @ w - y).square().mean() / 2", "(X @ w - y).square().mean()", "gradient",
         ["differences of the loss"]),
        ("(X.mT @ columns, factor)", "(X.mT @ columns, factor.mT)", "samples_as_columns",
         ["it is 0 at the best weights"]),
        ("X, columns, rcond=rcond", "X, columns, rcond=0.5", "normal_equations",
         ["of many problems, targets and rows"]),
        ("return U @ U.mT", "return (U @ U.mT).triu()", "normal_equations", ["symmetric", "rank"]),
        ("X.ndim else solution", "X.ndim else solution / 2", "minimum_norm",
         ["others are longer"]),
        ("torch.cholesky_solve(X.mT @ columns, factor)", "lstsq(X, columns)",
         "conditioning_squared", ["normal equations"]),
        ("self.lr or 1 / longest", "0.02", "lms_noise_floor", ["proportional"]),
        ("X @ self.coef_ + self.intercept_", "X @ self.coef_ - 1", "lms_is_the_rule",
         ["predictions"]),
        ('"chains_" not in vars(self), 1)', '"chains_" not in vars(self), 2)', "lms_is_the_rule",
         ["pass by pass"]),
        ("W + (lr * (", "W + (2 * lr * (", "lms_noise_floor", ["floor"]),
        ("X, columns, rcond=rcond", "X, columns, rcond=0.5", "minimum_norm",
         ["others are as good"]),
        ("values / (values**2 + deltas", "1 / (values + deltas", "pseudo_inverse_limit",
         ["one of the path"]),
        ("max(X.shape) * torch.finfo(X.dtype).eps", "0", "pseudo_inverse_limit",
         ["minimum at the limit", "gradient at the limit"]),
        ("max(X.shape) * torch.finfo(X.dtype).eps", "min(X.shape) * torch.finfo(X.dtype).eps",
         "pseudo_inverse_limit", ["what counts as 0"]),
        ("trace: bool = False", "trace: bool = True", "lms_is_the_rule", ["traced unasked"]),
        ("return U @ U.mT", "return 2 * U @ U.mT", "normal_equations", ["hat", "idempotent"]),
        ("torch.linalg.lstsq(X, columns", "torch.linalg.lstsq(X.float().double(), columns",
         "conditioning_squared", ["lstsq is stable"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("identity) < 0.1", "identity) < 0", "normal_equations", ["rows of a tall problem"]),
        ("inverse.norm() * first.norm() < mild", "inverse.norm() < mild", "normal_equations",
         ["its singular values"]),
    ],
)
def test_parts_catch_planted_bugs_of_tall_problems(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, fast=True, parts=parts)


def test_averaged_chains_without_bias_are_a_scikit_learn_citizen():
    check_estimator(LMS(average=True, chains=3, fit_intercept=False), on_skip=None)


@pytest.mark.parametrize("shape", [(20, 5), (5, 20), (3, 20, 5), (2, 3, 5, 20)])
def test_lstsq_is_the_pseudo_inverse_for_every_batch(shape):
    rng = torch.Generator().manual_seed(1)
    X = torch.randn(shape, generator=rng, dtype=torch.float64)
    X[..., 1] = X[..., 0]  # deficient rank
    inverse = torch.linalg.pinv(X)
    for Y in (X[..., :3] + 1, X[..., 2] + 1):
        expected = inverse @ (Y if Y.ndim == X.ndim else Y[..., None])
        expected = expected if Y.ndim == X.ndim else expected[..., 0]
        torch.testing.assert_close(lstsq(X, Y), expected)
    assert lstsq(X.float(), X[..., 0].float()).dtype == torch.float32


def test_rcond_drops_small_singular_values():
    X = torch.diag(torch.tensor([1.0, 0.1]))
    assert lstsq(X, torch.ones(2), rcond=0.2).tolist() == [1, 0]


def test_normal_equations_solve_several_targets_at_once():
    X, Y = problem(30, 4, 3)
    torch.testing.assert_close(normal_equations(X, Y), lstsq(X, Y))
    torch.testing.assert_close(normal_equations(X, Y[:, 1]), lstsq(X, Y)[:, 1])


@pytest.mark.parametrize(("s", "d"), [(30, 4), (4, 30)])
def test_pinv_path_is_ridge_regression(s, d):
    X, y = problem(s, d)
    deltas = torch.tensor([0.01, 1.0, 100.0], dtype=torch.float64)
    for delta, w in zip(deltas, pinv_path(X, deltas) @ y, strict=True):
        ridge = Ridge(alpha=float(delta), fit_intercept=False).fit(X.numpy(), y.numpy())
        np.testing.assert_allclose(w, ridge.coef_, atol=1e-8)


@pytest.mark.parametrize(("s", "d", "rank"), [(30, 4, 4), (4, 30, 4), (30, 6, 5)])
def test_hat_matrix_projects_onto_the_columns(s, d, rank):
    X, y = problem(s, d)
    X[:, -1] = X[:, 0] if rank < min(s, d) else X[:, -1]
    H = hat_matrix(X)
    torch.testing.assert_close(H @ X, X)
    torch.testing.assert_close(H @ y, X @ lstsq(X, y))
    assert round(float(H.trace()), 9) == rank


def test_gaussian_nll_is_torchs_and_its_gradient_is_right():
    X, y = problem(20, 3)
    w, log_sigma = y[:3].clone().requires_grad_(), torch.tensor(0.3).double().requires_grad_()
    variance = torch.exp(2 * log_sigma).expand(20)
    torch.testing.assert_close(
        gaussian_nll(w, log_sigma, X, y), F.gaussian_nll_loss(X @ w, y, variance, full=True)
    )
    assert torch.autograd.gradcheck(lambda *two: gaussian_nll(*two, X, y), (w, log_sigma))
    both = gaussian_nll(w, log_sigma, X, torch.stack([y, -y], dim=1))  # two draws of one model
    parts = gaussian_nll(w, log_sigma, X, y) + gaussian_nll(w, log_sigma, X, -y)
    torch.testing.assert_close(both, parts / 2)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_one_sample_at_a_time_is_sklearns_sgd_and_the_delta_rule(fit_intercept):
    X, y = (one.numpy() for one in problem(50, 4))
    ours = LMS(lr=0.05, fit_intercept=fit_intercept)
    theirs = SGDRegressor(
        penalty=None, learning_rate="constant", eta0=0.05, fit_intercept=fit_intercept
    )
    W, b = torch.zeros(1, 4).double(), torch.zeros(1).double() if fit_intercept else None
    for row in range(50):
        one = X[row : row + 1], y[row : row + 1]
        ours.partial_fit(*one)
        theirs.partial_fit(*one)
        x, target = (torch.tensor(part) for part in one)
        W, b = delta_step(W, b, x, target[:, None], "identity", 0.05)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-10)
    np.testing.assert_allclose(ours.coef_, W[0], rtol=1e-10)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-10)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-10)
    assert ours.n_steps_ == 50


def test_the_mean_of_the_chains_decays_like_gradient_descent():
    X, y = (one.numpy() for one in problem(20, 3))
    model = LMS(lr=0.02, chains=4000, epochs=1, fit_intercept=False, random_state=0).fit(X, y)
    hessian, best = X.T @ X / 20, np.linalg.lstsq(X, y, rcond=None)[0]
    expected = best - np.linalg.matrix_power(np.eye(3) - 0.02 * hessian, 20) @ best
    errors = model.chains_.std(axis=0) / 4000**0.5
    assert (np.abs(model.coef_ - expected) < 5 * errors).all()  # five standard errors of the mean


def test_averaging_is_the_mean_of_all_steps_and_goes_below_the_floor():
    X, y = (one.numpy() for one in problem(40, 3))
    settings = {"lr": 0.02, "chains": 5, "epochs": 100, "random_state": 0}
    model = LMS(average=True, trace=True, **settings).fit(X, y)
    assert model.trace_.shape == (4000, 5, 4)
    np.testing.assert_array_equal(model.trace_[-1], model.chains_)
    mean = model.trace_.mean(axis=(0, 1))
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), mean, rtol=1e-9)
    best = np.linalg.lstsq(np.column_stack([X, np.ones(40)]), y, rcond=None)[0]
    assert np.linalg.norm(mean - best) < np.linalg.norm(model.chains_ - best, axis=1).min()


def test_partial_fit_goes_on_where_fit_stopped():
    X, y = (one.numpy() for one in problem(30, 2))
    whole = LMS(lr=0.1, epochs=3, random_state=4).fit(X, y)
    parts = LMS(lr=0.1, epochs=2, random_state=4).fit(X, y).partial_fit(X, y)
    np.testing.assert_array_equal(whole.coef_, parts.coef_)


def test_the_chapter_shows_this_page_on_the_tour():
    assert page(KEY).headline_names == ("minimum_norm",)


@pytest.mark.parametrize("solve", [lstsq, normal_equations])
def test_bad_samples_are_told_in_one_sentence(solve):
    X, y = problem(6, 2)
    with pytest.raises(UsageError, match=r"y must be of shape \(6,\).*got \(5,\). X and y need"):
        solve(X, y[:5])
    with pytest.raises(UsageError, match=r"y must be of shape \(6,\).*got \(1, 6\)"):
        solve(X, y[None])
    with pytest.raises(UsageError, match="X must be finite; got 'NaN or infinity'"):
        solve(X / 0, y)
    with pytest.raises(UsageError, match="y must be finite; got 'NaN or infinity'"):
        solve(X, y * torch.nan)


def test_deficient_rank_is_told_with_the_way_out():
    X, y = problem(6, 3)
    X[:, 2] = X[:, 0] + X[:, 1]
    with pytest.raises(UsageError, match=r"of full column rank 3; got 'rank 2'. Use lstsq"):
        normal_equations(X, y)
    with pytest.raises(UsageError, match="X must be of full column rank 6; got 'rank 2'"):
        normal_equations(X.T, y[:3])
    X[:, 2] += 1e-9 * y  # the rank is 3 again, but not that of X'X in float64
    with pytest.raises(UsageError, match="X must be of full column rank 3; got 'rank 2'"):
        normal_equations(X, y)


def test_other_bad_input_is_told_in_one_sentence():
    X, y = problem(6, 2)
    with pytest.raises(UsageError, match=r"pinv_path: deltas must be all >= 0; got \[-1.0\]"):
        pinv_path(X, torch.tensor([-1.0]))
    with pytest.raises(UsageError, match="hat_matrix: X must be finite"):
        hat_matrix(X / 0)
    with pytest.raises(UsageError, match=r"gaussian_nll: y must be of shape \(6,\)"):
        gaussian_nll(y[:2], y[0], X, y[:5])
    with pytest.raises(UsageError, match=r"lstsq: rcond must be in \(0, inf\), or none; got -1"):
        lstsq(X, y, rcond=-1)
    with pytest.raises(UsageError, match=r"LMS: lr must be in \(0, inf\), or none; got 0"):
        LMS(lr=0).fit(X.numpy(), y.numpy())


def test_rates_beyond_the_limit_give_a_warning_and_then_an_error():
    X, y = np.eye(2), np.ones(2)
    message = r"lr must be below 2/max\|x\|\^2 = 1; got 1. A step can lead away"
    with pytest.warns(ConvergenceWarning, match=message):
        LMS(lr=1, epochs=1).fit(X, y)
    LMS(lr=0.99, epochs=1).fit(X, y)
    with (
        pytest.warns(ConvergenceWarning),
        pytest.raises(UsageError, match="lr must be small enough that the weights stay finite"),
    ):
        LMS(lr=50, epochs=500, random_state=0).fit(X, y)

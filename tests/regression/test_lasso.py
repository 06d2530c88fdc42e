import contextlib

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, lars_path, lasso_path
from sklearn.preprocessing import scale

from planting import assert_caught
from principia.lab.params import UsageError
from principia.regression import (
    ProximalSGD,
    fista,
    ista,
    kkt_residual,
    lambda_max,
    lasso_alpha,
    soft_threshold,
)

KEY = "regression/lasso"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("return z - z.clamp(-t, t)", "return z.where(z.abs() > t, 0.0)", "soft_threshold"),
        ("return in_sum / (2 * s)", "return in_sum / s", "threshold_follows_objective"),
        ("lr / X.shape[-2], lr * prices", "lr / X.shape[-2], lr / 2 * prices",
         "threshold_follows_objective"),
        ("@ X)[..., 0, :].abs()", "@ X)[..., 0, :]", "empty_above_lambda_max"),
        ("p.add_(gradient, alpha=-lr)", "p.add_(gradient, alpha=lr)", "optimality"),
        ("return lost + (prices", "return lost - (prices", "optimality"),
        ("X, 2, keepdim=True) ** 2 /", "X, 2, keepdim=True) ** 2 / 3 /", "ista_rate"),
        ("(last - 1) / t * (w - before)", "(last - 1) / t * (before - w)", "fista_rate"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("return z - z.clamp(-t, t)", "return z - z.clamp(-t, t / 2)", "soft_threshold",
         ["three cases"]),
        ("(pull - prices * w.sign())", "(pull + prices * w.sign())", "optimality",
         ["ISTA", "FISTA", "ProximalSGD", "scikit-learn"]),
        ("(pull.abs() - prices).clamp_min(0)", "0 * pull", "optimality", ["excess at w = 0"]),
        ("soft_threshold_(p, lr * l1)", "soft_threshold_(p, l1)", "equals_sklearn",
         ["ProximalSGD"]),
        ("softshrink.out(values, t, out", "softshrink.out(values, t / 2, out", "soft_threshold",
         ["in place"]),
        ("lr / X.shape[-2], lr * prices", "lr / X.shape[-2], 2 * lr * prices", "ista_rate",
         ["iterates"]),
        ("t, last = 0.5 + (0.25", "t, last = 0.5 + (0.5", "fista_rate", ["iterates"]),
        ("prices = torch.as_tensor(alpha, dtype", "prices = 2 * torch.as_tensor(alpha, dtype",
         "equals_sklearn",
         ["fista, tall", "ista, tall", "fista, wide", "ista, wide", "fista, very tall",
          "ista, very tall", "other settings"]),
        ("lr: PositiveFloat = 1e-3", "lr: PositiveFloat = 2e-3", "equals_sklearn",
         ["ProximalSGD by default is SGD"]),
        ("return in_sum / (2 * s)", "return in_sum / s", "equals_sklearn",
         ["half-mean loss, full price"]),
        ("prices = torch.as_tensor(alpha, dtype", "prices = 0.1 * torch.as_tensor(alpha, dtype",
         "exact_zeros", ["scikit-learn has the same"]),
        (".abs().amax(-1) / X.shape[-2]", ".abs().amax(-1) / (X.shape[-2] - 1)",
         "empty_above_lambda_max", ["just below"]),
        ("active = (pull - prices", "active = (pull + prices", "optimality", ["of many problems"]),
        ("(pull.abs() - prices)", "(pull - prices)", "optimality", ["of many problems"]),
        ('open="both")] = 1.0', 'open="both")] = 2.0', "ista_rate", ["ISTA by default"]),
        ('open="both")] = 1.0', 'open="both")] = 2.0', "fista_rate", ["ISTA by default"]),
        ("sizes.where(sizes > 0", "sizes.where(sizes >= 0", "equals_sklearn",
         ["uneven columns are told"]),
        ("- w * inside * pull).sum(-1)", "- w * inside * pull).mean(-1)", "optimality",
         ["of many problems"]),
        ("y.square().sum() - shares", "y.square().mean() - shares", "equals_sklearn",
         ["stops as soon as the gap allows"]),
        ("gap_at(X, y, solved, prices) - allowed", "gap_at(X, y, solved, prices)",
         "equals_sklearn", ["stops as soon as the gap allows"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def problem(s, d, seed=0):
    rng = np.random.default_rng(seed)
    X = scale(rng.normal(size=(s, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)) / d**0.5))
    y = X[:, :5] @ np.array([3.0, -2.0, 1.5, 1.0, -0.5]) + rng.normal(size=s)
    return X, y - y.mean()


@pytest.mark.parametrize(("s", "d"), [(200, 10), (80, 60), (40, 100)])
@pytest.mark.parametrize("solve", [ista, fista])
def test_equals_sklearns_lasso_along_the_whole_path(solve, s, d):
    X, y = problem(s, d)
    x, target = torch.as_tensor(X), torch.as_tensor(y)
    alphas = float(lambda_max(x, target)) * np.geomspace(0.99, 0.05, 12)
    _, theirs, _ = lasso_path(X, y, alphas=alphas, tol=1e-13, max_iter=100_000)
    ours = solve(x, target, torch.as_tensor(alphas), steps=50_000)
    np.testing.assert_allclose(ours.numpy(), theirs.T, atol=1e-9)
    np.testing.assert_array_equal(ours.numpy() != 0, theirs.T != 0)


def test_centered_data_give_sklearns_lasso_with_intercept():
    X, y = problem(100, 8)
    X, y = X + np.arange(8), y + 7
    theirs = Lasso(alpha=0.2, tol=1e-13, max_iter=100_000).fit(X, y)
    x, target = torch.as_tensor(X - X.mean(0)), torch.as_tensor(y - y.mean())
    w = fista(x, target, 0.2)
    np.testing.assert_allclose(w.numpy(), theirs.coef_, atol=1e-8)
    assert y.mean() - X.mean(0) @ w.numpy() == pytest.approx(theirs.intercept_, abs=1e-7)


def test_knots_of_lars_path_are_solutions():
    X, y = problem(60, 12)
    alphas, _, path = lars_path(X, y, method="lasso")
    x, target = torch.as_tensor(X), torch.as_tensor(y)
    assert float(lambda_max(x, target)) == pytest.approx(alphas[0], rel=1e-12)
    ours = fista(x, target, torch.as_tensor(alphas[:-1].copy()))
    np.testing.assert_allclose(ours.numpy(), path.T[:-1], atol=1e-7)


def test_equals_a_bounded_smooth_solver():
    X, y = problem(50, 6)

    def split(u):  # w is the difference of two vectors that are not negative
        residual = X @ (u[:6] - u[6:]) - y
        gradient = X.T @ residual / 50
        value = residual @ residual / 100 + 0.3 * u.sum()
        return value, np.concatenate([gradient, -gradient]) + 0.3

    options = {"ftol": 1e-15, "gtol": 1e-11, "maxiter": 10_000}
    best = minimize(split, np.zeros(12), jac=True, bounds=[(0, None)] * 12, options=options).x
    w = fista(torch.as_tensor(X), torch.as_tensor(y), 0.3)
    np.testing.assert_allclose(w.numpy(), best[:6] - best[6:], atol=1e-6)


def test_batches_of_problems_equal_single_ones():
    def nine(seed):
        return problem(40, 9, seed)

    X, y = (torch.as_tensor(np.stack(p)) for p in zip(*map(nine, range(3)), strict=True))
    alphas = torch.tensor([[0.1, 0.5], [0.2, 0.3], [1.0, 0.4]], dtype=torch.float64)
    together = fista(X, y, alphas)
    assert together.shape == (3, 2, 9)
    for k in range(3):
        for a in range(2):
            alone = fista(X[k], y[k], float(alphas[k, a]))
            torch.testing.assert_close(together[k, a], alone, atol=1e-9, rtol=0)
    assert float(kkt_residual(X, y, together, alphas).max()) < 1e-9


def test_soft_threshold_is_softshrink_and_its_gradient_is_right():
    z = torch.randn(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = torch.nn.functional.softshrink(z, 0.7)
    torch.testing.assert_close(soft_threshold(z, 0.7), expected, atol=0, rtol=0)
    t = torch.rand(20, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    inputs = z[:20].requires_grad_(), t.requires_grad_()
    assert torch.autograd.gradcheck(soft_threshold, inputs)


def test_restarts_need_half_the_steps_or_less():
    X, y = problem(80, 60)
    x, target = torch.as_tensor(X), torch.as_tensor(y)

    def needed(solve, **how):
        for steps in np.geomspace(50, 20_000, 20).astype(int):  # a factor of 1.4 apart
            with contextlib.suppress(ConvergenceWarning):  # warnings are errors here
                solve(x, target, 0.05, steps=int(steps), **how)
                return steps
        return 20_000

    plain, restarted = needed(fista, restart=False), needed(fista)
    assert 2 * restarted <= min(plain, needed(ista))


def test_proximal_sgd_without_a_price_is_sgd_and_with_one_empties_a_network():
    def network():
        linear = torch.nn.utils.skip_init(torch.nn.Linear, 6, 1, dtype=torch.float64)
        torch.nn.init.constant_(linear.weight, 0.3)
        torch.nn.init.zeros_(linear.bias)
        return linear

    X, y = (torch.as_tensor(one) for one in problem(100, 6))
    ours, theirs, sparse = network(), network(), network()
    groups = [{"params": [sparse.weight]}, {"params": [sparse.bias], "l1": 0.0}]
    pairs = (
        (ours, ProximalSGD(ours.parameters(), lr=0.3)),
        (theirs, torch.optim.SGD(theirs.parameters(), lr=0.3)),
        (sparse, ProximalSGD(groups, lr=0.3, l1=1.0)),
    )
    for model, optimizer in pairs:
        for _ in range(400):
            def loss(model=model, optimizer=optimizer):
                optimizer.zero_grad()
                value = ((model(X)[:, 0] - y - 5) ** 2).mean() / 2
                value.backward()
                return value

            assert optimizer.step(loss) >= 0
    torch.testing.assert_close(ours.weight, theirs.weight, atol=1e-12, rtol=0)
    reference = Lasso(alpha=1.0, tol=1e-13).fit(X.numpy(), y.numpy() + 5)
    np.testing.assert_allclose(sparse.weight[0].detach(), reference.coef_, atol=1e-8)
    assert sparse.bias.item() == pytest.approx(reference.intercept_, abs=1e-8)
    assert int((sparse.weight == 0).sum()) == int((reference.coef_ == 0).sum()) > 0


def test_float32_and_data_of_zeros_converge_without_a_warning():
    X, y = (torch.as_tensor(one, dtype=torch.float32) for one in problem(60, 8))
    w = fista(X, y, 0.2)
    assert w.dtype == torch.float32
    torch.testing.assert_close(w.double(), fista(X.double(), y.double(), 0.2), atol=1e-4, rtol=0)
    assert not fista(torch.zeros(3, 2), torch.ones(3), 0.1).any()
    assert not ista(torch.ones(3, 2), torch.zeros(3), 0.1).any()
    assert not fista(torch.ones(3, 2), torch.zeros(3), 0.0).any()
    assert not fista(torch.zeros(3, 2), torch.ones(3), 0.0).any()


def test_columns_of_uneven_size_are_told_but_not_rows():
    X, y = torch.ones(5, 3) + torch.eye(5)[:, :3], torch.ones(5)
    fista(X * torch.tensor([1.0, 1.0, 1.0, 1.0, 99.0])[:, None], y, 0.1, tol=1e-3)
    fista(X * torch.tensor([1.0, 1.0, 9.0]), y, 0.1, tol=1e-3)
    with pytest.warns(UserWarning, match="differ in size by a factor of 15"):
        fista(X * torch.tensor([1.0, 1.0, 15.0]), y, 0.1, tol=1e-3)


def test_bad_input_is_told_in_one_sentence():
    X, y = torch.eye(3), torch.ones(3)
    for solve in (ista, fista):
        with pytest.raises(UsageError, match=r"alpha must be in \[0, inf\); got -1.0"):
            solve(X, y, -1.0)
        with pytest.raises(UsageError, match=r"alpha must be in \[0, inf\); got -2.0"):
            solve(X, y, torch.tensor([1.0, -2.0]))
        with pytest.warns(UserWarning, match=r"differ in size by a factor of 100.*standard dev"):
            solve(X * torch.tensor([1.0, 1.0, 100.0]), y, 0.1, tol=1.0)
        with pytest.warns(ConvergenceWarning, match="after 1 steps. Allow more steps"):
            solve(torch.ones(3, 2) + X[:, :2], X[0], 0.1, steps=1)
    with pytest.raises(UsageError, match=r"kkt_residual: alpha must be in \[0, inf\); got nan"):
        kkt_residual(X, y, y, torch.nan)
    with pytest.raises(UsageError, match=r"ista: step must be in \(0, 2\); got 2.2"):
        ista(X, y, 0.1, step=2.2)
    with pytest.raises(UsageError, match=r"soft_threshold: t must be in \[0, inf\); got -1.0"):
        soft_threshold(y, -1.0)
    with pytest.raises(UsageError, match=r"ProximalSGD: l1 must be in \[0, inf\); got -1"):
        ProximalSGD([y], l1=-1)
    with pytest.raises(UsageError, match=r"lasso_alpha: loss must be one of 'sum'.*Did you mean"):
        lasso_alpha(1.0, 10, loss="half_mean")

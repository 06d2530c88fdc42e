import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from planting import assert_caught
from principia.lab.errors import UsageError
from principia.lab.experiments import Run
from principia.lab.training import EarlyStopping
from principia.regularization import equivalent_decay, stopped_shrinkage
from principia.regularization.early_stopping import early_stopping_part

KEY = "regularization/early_stopping"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("return 1 - left**t", "return left**t", "gd_path_in_eigenbasis"),
        ("left = 1 - lr * lam", "left = 1 - lam", "gd_path_in_eigenbasis"),
        ("return 1 / (lr * t)", "return lr / t", "stopping_is_decay"),
        ("spectra / (spectra + 1 / times)", "spectra / (spectra + 2 / times)",
         "stopping_risk_inflation"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value < self._best - self.min_delta", "value <= self._best - self.min_delta"),
        ("self._waited < self.patience", "self._waited <= self.patience"),
        ("copy.deepcopy(dict(model.state_dict()))", "dict(model.state_dict())"),
    ],
)
def test_the_claim_catches_bugs_of_the_part_itself(old, new, monkeypatch):
    import inspect

    from principia.lab.catalog import page
    from principia.lab.training import parts

    source = inspect.getsource(parts)
    assert source.count(old) == 1
    changed = {"__name__": "planted_parts"}
    exec(compile(source.replace(old, new), "planted", "exec"), changed)
    module = page(KEY).load()
    monkeypatch.setattr(module, "EarlyStopping", changed["EarlyStopping"])
    assert not page(KEY).claim("patience_semantics").check([0]).passed


def test_the_share_is_that_of_descent_step_by_step():
    lam = torch.tensor([0.0, 1e-3, 0.3, 1.0, 1.9], dtype=torch.float64)
    theta = torch.zeros_like(lam)
    for t in range(40):
        torch.testing.assert_close(stopped_shrinkage(lam, 1.0, t), theta, atol=1e-14, rtol=1e-12)
        theta = theta - lam * (theta - 1)
    half = stopped_shrinkage(lam[:4], 0.5, 2.5)
    torch.testing.assert_close(half, 1 - (1 - 0.5 * lam[:4]) ** 2.5)


def test_stopping_is_near_ridge_on_weak_directions():
    rng = np.random.default_rng(0)
    X = 0.05 * rng.standard_normal((200, 5))
    y = X @ rng.standard_normal(5)
    lr, t = 0.01, 100
    theta = np.zeros(5)
    for _ in range(t):
        theta -= lr * X.T @ (X @ theta - y) / len(X)
    ridge = Ridge(alpha=len(X) * equivalent_decay(lr, t), fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(theta, ridge.coef_, rtol=0.01)


def test_small_shares_keep_their_digits():
    share = stopped_shrinkage(torch.tensor([1e-18], dtype=torch.float64), 1.0, 0.5)
    assert share.item() == pytest.approx(0.0, abs=1e-17)
    assert math.isclose(
        stopped_shrinkage(torch.tensor([1e-9], dtype=torch.float64), 1.0, 10.5).item(), 1.05e-8,
        rel_tol=1e-6,
    )


@pytest.mark.parametrize("lam", [-0.1, 2.0])
def test_eigenvalues_at_which_descent_diverges(lam):
    with pytest.raises(UsageError, match=r"lam must be in \[0, 2\); got .* lower lr"):
        stopped_shrinkage(torch.tensor([lam]), 1.0, 3)


def test_no_share_between_two_steps_that_change_the_sign():
    with pytest.raises(UsageError, match=r"t must be an integer where lr \* lam > 1; got 2.5"):
        stopped_shrinkage(torch.tensor([1.5]), 1.0, 2.5)


def test_bad_patience():
    with pytest.raises(UsageError, match=r"patience must be an integer in \[1, inf\)"):
        EarlyStopping(patience=0)


def test_the_offer_knows_which_way_is_better():
    built = [early_stopping_part.build(Run(), {"metric": f"validation_{one}"})
             for one in ("loss", "accuracy")]
    assert [one.better for one in built] == ["lower", "higher"]

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.seeds import Seed
from principia.lab.training import EarlyStopping, Trained
from principia.regularization import equivalent_decay, stopped_shrinkage
from principia.regularization.experiments.early_stopping import _curves, early_stopping_callback

KEY = "regularization/early_stopping"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("1 - (1 - step) ** t, share", "(1 - step) ** t, share", "gd_path_in_eigenbasis"),
        ("1 - (1 - step) ** t, share", "1 - (1 - step) ** t, 1 - share", "gd_path_in_eigenbasis"),
        ("step = lr * lam", "step = lam", "gd_path_in_eigenbasis"),
        ("return 1 / (lr * t)", "return lr / t", "stopping_is_decay"),
        ("return 1 / (lr * t)", "return 1 / (lr * (t + 1))", "stopping_is_decay"),
        ("return 1 / (lr * t)", "return 2 / (lr * t)", "stopping_risk_inflation"),
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

    from principia.lab.training import callbacks

    source = inspect.getsource(callbacks)
    assert source.count(old) == 1
    changed = {"__name__": "planted_parts"}
    exec(compile(source.replace(old, new), "planted", "exec"), changed)
    module = page(KEY).load("claims")
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


@pytest.mark.parametrize(
    ("lam", "lr", "t", "share", "dtype"),
    [
        (1e-18, 1.0, 10**12, -math.expm1(-1e-6), torch.float64),
        (1e-18, 1.0, 0.5, 5e-19, torch.float64),
        (1e-9, 1.0, 10.5, -math.expm1(10.5 * math.log1p(-1e-9)), torch.float64),
        (1e-8, 1.0, 10**6, -math.expm1(-0.01), torch.float32),
    ],
)
def test_small_shares_keep_their_digits(lam, lr, t, share, dtype):
    exact = pytest.approx(share, rel=1e-6 if dtype == torch.float32 else 1e-9, abs=0)
    alone = stopped_shrinkage(torch.tensor([lam], dtype=dtype), lr, t)
    assert alone.item() == exact
    if float(t).is_integer():  # also beside a direction of long steps
        both = stopped_shrinkage(torch.tensor([lam, 1.5], dtype=dtype), lr, t)
        assert both[0].item() == exact
        assert both[1].item() == 1.0


def test_nothing_is_learned_in_no_step_and_all_in_a_step_of_the_right_length():
    lam = torch.tensor([0.0, 0.5, 1.0, 1.5], dtype=torch.float64)
    assert stopped_shrinkage(lam, 1.0, 0).tolist() == [0.0, 0.0, 0.0, 0.0]
    assert stopped_shrinkage(lam, 1.0, 1).tolist() == pytest.approx([0.0, 0.5, 1.0, 1.5])
    assert stopped_shrinkage(lam[:3], 1.0, 0.5)[2].item() == 1.0


def test_long_steps_exceed_the_bound_that_the_flow_keeps():
    lam = torch.tensor([1.0], dtype=torch.float64)
    ridge = float(lam / (lam + equivalent_decay(1.0, 1.0)))
    # of variance alone: the squared ratio of the shares
    assert (stopped_shrinkage(lam, 1.0, 1).item() / ridge) ** 2 == pytest.approx(4.0)
    assert (stopped_shrinkage(lam, 1e-6, 10**6).item() / ridge) ** 2 < 1.6862


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
    built = [early_stopping_callback.build(Run(), {"metric": f"validation_{one}"})
             for one in ("loss", "accuracy")]
    assert [one.better for one in built] == ["lower", "higher"]


def test_the_experiment_needs_trainings_that_stop_and_marks_their_best_epoch():
    experiment = page(KEY).experiments()["stop_the_mlp"]
    outcome = experiment(Run(Seed(0), "quick"), pairs=2, hidden=16, most=2)  # patience is 3
    assert (outcome.metrics["stopped_share"], outcome.metrics["epochs_until_the_stop"]) == (0, 2)
    assert any("stopped" in one for one in outcome.missed)
    history = [{"epoch": n, "loss": 1.0, "validation_loss": loss}
               for n, loss in enumerate([3.0, 1.0, 2.0, 2.5], start=1)]
    stopped = Trained(torch.nn.Identity(), history, 4, "")  # at the last epoch, not by patience
    marked = _curves(stopped, stopped).data[-1]
    assert (list(marked.x), list(marked.y)) == ([2], [1.0])

import copy
from functools import partial

import pytest
import torch
from torch import nn

from planting import assert_caught, passes, passes_on_sound_page
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.optimization import EMAMomentum, HeavyBall, Quadratic, tuned_heavy_ball

KEY = "optimization/momentum"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("_foreach_lerp_(params, last, -group", "_foreach_lerp_(params, last, group",
         "torch_momentum_is_heavy_ball"),
        ('last, -group["beta"]', "last, -1.0", "torch_momentum_is_heavy_ball"),
        ('self.remember(params, "last", map(torch.clone, params))', "pass",
         "constant_gradient_step"),
        ('/ (1 - group["start"])', "", "ema_momentum_bias_correction"),
        ('"beta": ((root - 1) / (root + 1)) ** 2', '"beta": (root - 1) / (root + 1)',
         "root_kappa_iterations"),
        ('"lr": 4 / (', '"lr": 2 / (', "root_kappa_iterations"),
        ('"lr": 4 / (', '"lr": 6 / (', "heavy_ball_needs_a_quadratic"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ('gradients, alpha=-group["lr"])', 'gradients, alpha=-group["lr"] / 2)', "beta_below_one",
         ["above the limit"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_a_claim_about_torch_catches_friction_in_its_momentum(monkeypatch):
    assert passes_on_sound_page(KEY, "beta_below_one")
    monkeypatch.setattr(torch.optim, "SGD", partial(torch.optim.SGD, dampening=0.5))
    assert not passes(page(KEY).claim("beta_below_one"))


@pytest.mark.parametrize("kind", [HeavyBall, EMAMomentum])
def test_a_resumed_run_is_the_same_to_the_bit(kind):
    def steps(bowl, optimizer, count):
        for _ in range(count):
            optimizer.step(lambda: (optimizer.zero_grad(), bowl().sum().backward()))

    whole = Quadratic([1.0, 3.0])
    optimizer = kind(whole.parameters(), lr=0.1)
    steps(whole, optimizer, 5)
    half, state = whole.at(whole.theta), copy.deepcopy(optimizer.state_dict())
    steps(whole, optimizer, 5)
    resumed = kind(half.parameters(), lr=0.7)
    resumed.load_state_dict(state)
    steps(half, resumed, 5)
    assert torch.equal(half.theta, whole.theta)


@pytest.mark.parametrize("kind", [HeavyBall, EMAMomentum])
def test_groups_have_their_own_settings_and_missing_gradients_are_skipped(kind):
    moved, still, slow = (nn.Parameter(torch.ones(3)) for _ in range(3))
    optimizer = kind([{"params": [moved, still]}, {"params": [slow], "lr": 0.01}], lr=0.1)
    moved.grad, slow.grad = torch.ones(3), torch.ones(3)
    assert optimizer.step() is None
    torch.testing.assert_close(moved.detach(), torch.full((3,), 0.9))
    torch.testing.assert_close(slow.detach(), torch.full((3,), 0.99))
    assert torch.equal(still.detach(), torch.ones(3))


def test_the_two_point_form_is_right_while_the_rate_changes():
    rates, x, last = [0.1, 0.3, 0.05, 0.2], 2.0, 2.0
    p = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    ball = HeavyBall([p], lr=1.0, beta=0.5)
    for rate in rates:
        x, last = x - rate * 3 * x + 0.5 * (x - last), x
        ball.param_groups[0]["lr"] = rate
        p.grad = 3 * p.detach()
        ball.step()
    assert p.item() == pytest.approx(x, abs=1e-14)


def test_a_rising_weight_keeps_the_average_unbiased():
    p = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = EMAMomentum([p], lr=1.0, alpha=(0.5, 0.99), rise=10)
    for t in range(1, 30):  # of a constant gradient every corrected average is that gradient
        p.grad = torch.full_like(p, 2.0)
        optimizer.step()
        assert p.item() == pytest.approx(-2.0 * t, abs=1e-12)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda p: HeavyBall([p], beta=1.0), r"HeavyBall: beta must be in \[0, 1\); got 1.0"),
        (lambda p: HeavyBall([p], lr=0.0), "HeavyBall: lr must be"),
        (lambda p: EMAMomentum([p], alpha=(0.5, 1.0)), "EMAMomentum: alpha must be in"),
        (lambda p: tuned_heavy_ball(1.0, 2.0), "tuned_heavy_ball: mu must be at most L = 1"),
    ],
)
def test_bad_input_gets_a_sentence(wrong, sentence):
    with pytest.raises(UsageError, match=sentence):
        wrong(nn.Parameter(torch.ones(1)))

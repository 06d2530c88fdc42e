import copy
import math

import pytest
import torch
from torch import nn

from planting import assert_caught
from principia.lab.params import UsageError
from principia.optimization import Lessard, Nesterov, Quadratic, descend

KEY = "optimization/nesterov"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ('self.remember(params, "iterate", map(torch.clone, params))', "pass",
         "torch_nesterov_is_lookahead"),
        ("params, iterates, -beta)", "params, iterates, -beta / 2)",
         "torch_nesterov_is_lookahead"),
        ('.get("iterate", p.detach())', '.get("other", p.detach())', "torch_nesterov_is_lookahead"),
        ("(math.sqrt(kappa) - 1) /", "(math.sqrt(kappa) - 0.9) /", "beta_zero_is_gd"),
        ("return (t - 1) / (t + 2)", "return (t - 1) / (t + 3)", "convex_rate"),
        ('group["taken"] = 0', "pass", "restart_recovers_linear_rate"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("_foreach_lerp_(params, iterates, -beta)", "_foreach_lerp_(params, iterates, beta)",
         "torch_nesterov_is_lookahead", ["a step from there"]),
        ('gradients, alpha=-group["lr"])', "gradients, alpha=-0.01)", "beta_zero_is_gd",
         ["κ = 1", "first step"]),
        (" = False", " = True", "strongly_convex_rate", ["flattest direction"]),
        ("params, iterates)) > 0:", "params, iterates)) >= 0:", "restart_recovers_linear_rate",
         ["level ground is not uphill"]),
        ("[one.sum() for one in", "[one.mean() for one in", "restart_recovers_linear_rate",
         ["in two tensors, which turn together"]),
        ('-group["lr"]', 'group["lr"]', "strongly_convex_rate", ["off quadratics"]),
        (") - 1) /", ") - 1) *", "strongly_convex_rate", ["steps to 1e-6"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_the_formula_is_right_while_the_rate_changes():
    def slope(x):
        return math.sinh(x)

    rates, theta, last = [0.1, 0.3, 0.05, 0.2], 2.0, 2.0
    p = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    optimizer = Nesterov([p], lr=1.0, beta="convex")
    for t, rate in enumerate(rates):
        ahead = theta + (t - 1) / (t + 2) * (theta - last)
        theta, last = ahead - rate * slope(ahead), theta
        optimizer.param_groups[0]["lr"] = rate
        p.grad = p.detach().sinh()
        optimizer.step()
        assert optimizer.iterate()[0].item() == pytest.approx(theta, abs=1e-14)


def test_a_known_condition_number_is_torchs_method_with_its_share():
    starts = torch.linspace(-3, 3, 6, dtype=torch.float64)[:, None]
    ours, torchs = Lessard().at(starts), Lessard().at(starts)
    descend(ours, Nesterov(ours.parameters(), lr=0.02, beta=("strong", 49.0)), 30)
    shared = {"lr": 0.02, "momentum": 6 / 8, "nesterov": True}
    descend(torchs, torch.optim.SGD(torchs.parameters(), **shared), 30)
    torch.testing.assert_close(ours.theta, torchs.theta, rtol=0, atol=1e-14)


def test_a_restart_is_a_first_step_from_the_iterate():
    p = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer, restarts = Nesterov([p], lr=0.1, beta=0.99, restart=True), 0
    for _ in range(200):
        before = optimizer.iterate()[0].clone()
        p.grad = p.detach().clone()
        optimizer.step()
        after = optimizer.iterate()[0]
        if float(p.grad * (after - before)) > 0:
            restarts += 1
            assert torch.equal(p.detach(), after)
        else:
            assert p.item() == pytest.approx((after + 0.99 * (after - before)).item(), abs=1e-14)
    assert restarts > 3
    assert abs(p.item()) < 1e-12


def test_the_parameters_hold_the_look_ahead_and_descend_records_the_iterate():
    problem = Lessard()
    optimizer = Nesterov(problem.parameters(), lr=0.02, beta=0.5)
    assert torch.equal(optimizer.iterate()[0], problem.theta)
    trace = descend(
        problem, optimizer, 3, record=("theta", "value"), iterate=lambda: optimizer.iterate()[0]
    )
    last, before = trace["theta"][-1], trace["theta"][-2]
    torch.testing.assert_close(problem.theta.detach(), last + 0.5 * (last - before))
    torch.testing.assert_close(trace["value"], problem.value(trace["theta"]))


@pytest.mark.parametrize(
    "options", [{}, {"beta": "convex", "restart": True}, {"beta": ("strong", 9.0)}]
)
def test_a_resumed_run_is_the_same_to_the_bit(options):
    def steps(bowl, optimizer, count):
        for _ in range(count):
            optimizer.step(lambda: (optimizer.zero_grad(), bowl().sum().backward()))

    whole = Quadratic([1.0, 3.0])
    optimizer = Nesterov(whole.parameters(), lr=0.1, **options)
    steps(whole, optimizer, 15)
    half, state = whole.at(whole.theta), copy.deepcopy(optimizer.state_dict())
    steps(whole, optimizer, 15)
    resumed = Nesterov(half.parameters(), lr=0.7)
    resumed.load_state_dict(state)
    steps(half, resumed, 15)
    assert torch.equal(half.theta, whole.theta)
    assert torch.equal(resumed.iterate()[0], optimizer.iterate()[0])


def test_groups_have_their_own_settings_and_missing_gradients_are_skipped():
    moved, still, slow = (nn.Parameter(torch.ones(3)) for _ in range(3))
    groups = [{"params": [moved, still]}, {"params": [slow], "lr": 0.01, "beta": 0.0}]
    optimizer = Nesterov(groups, lr=0.1, beta=0.5)
    moved.grad, slow.grad = torch.ones(3), torch.ones(3)
    assert optimizer.step() is None
    first, second, third = optimizer.iterate()
    torch.testing.assert_close(first, torch.full((3,), 0.9))
    torch.testing.assert_close(moved.detach(), torch.full((3,), 0.85))
    torch.testing.assert_close(third, torch.full((3,), 0.99))
    torch.testing.assert_close(slow.detach(), third)
    assert torch.equal(second, torch.ones(3))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"beta": 1.0}, r"Nesterov: beta must be in \[0, 1\), .* got 1.0\."),
        ({"beta": -0.1}, r"Nesterov: beta must be in \[0, 1\), .* got -0.1\."),
        ({"beta": "concave"}, "Nesterov: beta must be .* got 'concave'"),
        ({"beta": ("strong", 0.5)}, r"Nesterov: beta must be .* κ in \[1, inf\); got"),
        ({"beta": ("strong", math.inf)}, "Nesterov: beta must be"),
        ({"beta": ("weak", 5.0)}, "Nesterov: beta must be"),
        ({"lr": 0.0}, "Nesterov: lr must be in"),
    ],
)
def test_bad_input_gets_a_sentence(wrong, sentence):
    with pytest.raises(UsageError, match=sentence):
        Nesterov([nn.Parameter(torch.ones(1))], **wrong)

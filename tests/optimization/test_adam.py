import copy

import pytest
import torch
from torch import nn

from planting import assert_caught
from principia.lab.params import UsageError
from principia.optimization import Adam, Quadratic, alternating_losses

KEY = "optimization/adam"
KINDS = [{}, {"bias_correction": False}, {"bias_correction": False, "start": "gradient"}]


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("1 - beta**t if", "1 - beta if", "torch_is_the_formula"),
        ("zip(roots, weights(beta1)", "zip(roots, weights(beta2)", "first_step_is_lr"),
        ("lambda p: +first[p]", "torch.zeros_like", "first_step_is_lr"),
        ('[-group["lr"] * root', '[group["lr"] * root', "first_step_is_lr"),
        ("_foreach_lerp_(mean, gradients, 1 - beta1)", "_foreach_lerp_(mean, gradients, beta1)",
         "corrected_moments_are_unbiased"),
        ("gradients, gradients, 1 - beta2)", "gradients, gradients, 1.0)",
         "second_moment_is_uncentered"),
        ("_foreach_add_(steps, 1)", "_foreach_add_(steps, 2)", "second_moment_is_uncentered"),
        ("self.C if self.t % 3 == 1 else -1.0", "self.C if self.t % 3 == 1 else -2.0",
         "adam_can_fail_to_converge"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("lambda p: first[p].square()", "lambda p: first[p].abs()", "first_step_is_lr",
         ["start at the gradient"]),
        ("lr: PositiveFloat = 1e-3", "lr: PositiveFloat = 1e-2", "torch_is_the_formula",
         ["defaults, groups and gradients that come late"]),
        ("-(C - 2) / 3", "-(C - 1) / 3", "adam_can_fail_to_converge",
         ["losses", "default losses"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def stepped(optimizer, params, gradients):
    for row in gradients:
        for p, g in zip(params, row, strict=True):
            p.grad = None if g is None else g.clone()
        optimizer.step()
    return [p.detach().clone() for p in params]


def test_it_is_torchs_with_groups_schedules_and_gradients_that_come_late():
    rng = torch.Generator().manual_seed(0)
    gradients = [[torch.randn(3, generator=rng), torch.randn(2, 2, generator=rng),
                  torch.randn((), generator=rng) if t > 4 else None] for t in range(12)]
    found = []
    for kind in (Adam, torch.optim.Adam):
        params = [nn.Parameter(torch.ones(shape)) for shape in ((3,), (2, 2), ())]
        groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.3, "betas": (0.5, 0.9)}]
        optimizer = kind(groups, lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        for row in gradients:
            last = stepped(optimizer, params, [row])
            schedule.step()
        found.append(last)
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", KINDS)
def test_every_beginning_is_its_recurrence_in_plain_numbers(options):
    betas, corrected = (0.8, 0.95), options.get("bias_correction", True)
    gradients, x = [3.0, -1.0, 0.5, 2.0, 2.0], 0.0
    m, v = (gradients[0], gradients[0] ** 2) if "start" in options else (0.0, 0.0)
    for t, g in enumerate(gradients, start=1):
        m, v = 0.8 * m + 0.2 * g, 0.95 * v + 0.05 * g * g
        one, two = (1 - beta**t if corrected else 1.0 for beta in betas)
        x -= 0.1 * (m / one) / ((v / two) ** 0.5 + 1e-3)
    p = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    rows = [[torch.full_like(p, g)] for g in gradients]
    stepped(Adam([p], 0.1, betas, 1e-3, **options), [p], rows)
    assert p.item() == pytest.approx(x, abs=1e-14)


@pytest.mark.parametrize("options", KINDS)
def test_a_resumed_run_is_the_same_to_the_bit(options):
    def steps(bowl, optimizer, count):
        for _ in range(count):
            optimizer.step(lambda: (optimizer.zero_grad(), bowl().sum().backward()))

    whole = Quadratic([1.0, 3.0])
    optimizer = Adam(whole.parameters(), lr=0.1, **options)
    steps(whole, optimizer, 5)
    half, state = whole.at(whole.theta), copy.deepcopy(optimizer.state_dict())
    steps(whole, optimizer, 5)
    resumed = Adam(half.parameters(), lr=0.7)
    resumed.load_state_dict(state)
    steps(half, resumed, 5)
    assert torch.equal(half.theta, whole.theta)


def test_a_closure_gives_its_loss_and_the_gradient_stays_as_it_is():
    p = nn.Parameter(torch.ones(2))
    optimizer = Adam([p], bias_correction=False, start="gradient")

    def closure():
        optimizer.zero_grad()
        loss = (p**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2.0
    assert torch.equal(p.grad, torch.full((2,), 2.0))


def test_time_of_the_alternating_losses_goes_on_with_gradients_alone():
    problem = alternating_losses(4.0).at(torch.tensor([[0.5], [-1.0]]))
    for t in range(1, 8):
        expected = (4.0 if t % 3 == 1 else -1.0) * problem.theta.detach()[:, 0]
        for _ in range(3):  # a look costs no time
            assert torch.equal(problem().detach(), expected)
        problem().sum().backward()
    mean = (4 * problem.theta - 2 * problem.theta).detach()[:, 0] / 3
    torch.testing.assert_close(problem.value(problem.theta).detach(), mean)
    assert problem.value(problem.minimizer[None]).item() == pytest.approx(problem.minimum)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda p: Adam([p], betas=(0.9, 1.0)), r"Adam: betas must be two numbers in \[0, 1\)"),
        (lambda p: Adam([p], betas=(-0.1, 0.9)), r"Adam: betas must be two numbers in \[0, 1\)"),
        (lambda p: Adam([p], start="gradient"), "bias_correction must be False with start='gradi"),
        (lambda p: Adam([p], lr=0.0), r"Adam: lr must be in \(0, inf\); got 0"),
        (lambda p: alternating_losses(2.0), r"alternating_losses: C must be in \(2, inf\); got 2"),
    ],
)
def test_bad_input_gets_a_sentence(wrong, sentence):
    with pytest.raises(UsageError, match=sentence):
        wrong(nn.Parameter(torch.ones(1)))

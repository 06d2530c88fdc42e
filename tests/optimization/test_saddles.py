import copy
import math

import numpy as np
import pytest
import torch
from scipy.stats import kstest, norm
from torch import nn

from planting import assert_caught
from principia.lab.params import UsageError
from principia.lab.training import Supervised, fit
from principia.optimization import (
    NoisyGD,
    Quadratic,
    Saddle,
    exit_times,
    goe,
    hessian_index,
    langevin_scale,
)

KEY = "optimization/saddles"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ('gradients, alpha=-group["lr"])', 'gradients, alpha=group["lr"])', "sgd_noise_can_vanish"),
        ('p.add_(noise, alpha=group["sigma"])', 'p.add_(noise, alpha=group["lr"])',
         "gd_stalls_on_the_stable_manifold"),
        ('generator=self.rng, dtype=p.dtype, device=p.device)', 'dtype=p.dtype).abs().mul_(0)',
         "sgd_noise_can_vanish"),
        ("math.sqrt(2 * lr * temperature)", "math.sqrt(lr * temperature)",
         "shallow_minimum_exit_time"),
        ("times[predicate(kept) & ~left] = taken", "pass", "sgd_noise_escapes"),
        ("lowest < -slack", "lowest > -slack", "minima_are_rare"),
        ("(A + A.mT) / 2", "A @ A.mT", "minima_are_rare"),
        ("torch.where(left[:, None], kept, theta)", "kept", "sgd_noise_escapes"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("taken += 1", "taken += 0", "escape_time_is_logarithmic", ["steps against noise"]),
        ("return (A + A.mT) / 2", "return (A + A.mT) / 4", "minima_are_rare", ["entries"]),
        ("return (A + A.mT) / 2", "return A", "minima_are_rare", ["symmetry"]),
        ("return times, int(times.isinf().sum())", "return times, int(times.isfinite().sum())",
         "exit_times_count_steps", ["how many stayed"]),
        ("torch.where(left[:, None], kept, theta)", "theta", "exit_times_count_steps",
         ["where they are"]),
        ("min(AT_ONCE, limit - taken)", "min(AT_ONCE, limit)", "exit_times_count_steps",
         ["counts"]),
        ("self.rng.set_state(state_dict", "(lambda state: None)(state_dict",
         "noise_of_a_temperature", ["a resumed run"]),
        ('p.add_(group["sigma"] * noise)', 'p.add_(group["sigma"].mean() * noise)',
         "noise_of_a_temperature", ["the row without noise"]),
        ("lr: PositiveFloat = 0.1, sigma: float | Tensor = 0.01",
         "lr: PositiveFloat = 0.2, sigma: float | Tensor = 0.1", "noise_of_a_temperature",
         ["as it comes: a step of 0.1 and noise of 0.01"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


def _steps(problem, optimizer, count):
    for _ in range(count):
        optimizer.step(lambda: (optimizer.zero_grad(), problem().sum().backward()))


def test_a_resumed_run_is_the_same_to_the_bit():
    whole = Quadratic([1.0, 3.0])
    optimizer = NoisyGD(whole.parameters(), lr=0.1, sigma=0.3, rng=_generator())
    _steps(whole, optimizer, 5)
    half, state = whole.at(whole.theta), copy.deepcopy(optimizer.state_dict())
    _steps(whole, optimizer, 5)
    resumed = NoisyGD(half.parameters(), lr=0.7, rng=_generator(1))
    resumed.load_state_dict(state)
    _steps(half, resumed, 5)
    assert torch.equal(half.theta, whole.theta)


def test_groups_have_their_own_settings_and_missing_gradients_are_skipped():
    moved, still, slow = (nn.Parameter(torch.ones(3)) for _ in range(3))
    groups = [{"params": [moved, still]}, {"params": [slow], "lr": 0.01}]
    optimizer = NoisyGD(groups, lr=0.1, sigma=0.0)
    moved.grad, slow.grad = torch.ones(3), torch.ones(3)
    assert optimizer.step() is None
    torch.testing.assert_close(moved.detach(), torch.full((3,), 0.9))
    torch.testing.assert_close(slow.detach(), torch.full((3,), 0.99))
    assert torch.equal(still.detach(), torch.ones(3))


def test_the_noise_is_gaussian_and_has_the_size_of_its_row():
    sizes = torch.tensor([[0.5], [2.0], [0.0]])
    p = nn.Parameter(torch.zeros(3, 4000))
    p.grad = torch.ones_like(p)
    NoisyGD([p], lr=0.1, sigma=sizes, rng=_generator()).step()
    noise = p.detach() + 0.1
    for row, size in ((0, 0.5), (1, 2.0)):
        assert kstest(noise[row].numpy(), norm(scale=size).cdf).pvalue > 1e-6
    assert torch.allclose(noise[2], torch.zeros(4000), atol=1e-7)


def test_at_a_temperature_a_bowl_is_visited_like_its_boltzmann_law():
    lr, temperature, curvature = 0.01, 0.7, 2.0
    bowl = Quadratic([curvature]).at(torch.zeros(4000, 1))
    sigma = langevin_scale(lr, temperature)
    _steps(bowl, NoisyGD(bowl.parameters(), lr, sigma, rng=_generator()), 300)
    spread = math.sqrt(temperature / curvature)  # of exp(-h/T), up to lr * curvature / 4
    assert kstest(bowl.theta.detach()[:, 0].numpy(), norm(scale=spread).cdf).pvalue > 1e-4


def test_exit_times_are_those_of_a_plain_loop():
    start = torch.linspace(-0.4, 0.4, 9, dtype=torch.float64)[:, None]
    hill = Quadratic([-1.0]).at(start)
    times, stayed = exit_times(
        hill, torch.optim.SGD(hill.parameters(), lr=0.1), lambda theta: theta[:, 0].abs() >= 0.3, 20
    )
    expected = []
    for x in start[:, 0].tolist():
        t = 0
        while abs(x) < 0.3 and t < 20:
            x, t = 1.1 * x, t + 1
        expected.append(t if abs(x) >= 0.3 else math.inf)
    assert times.tolist() == expected
    assert stayed == expected.count(math.inf) == 1
    gone = start[:, 0] * 1.1 ** times.clamp(max=20)  # rows that have left do not move on
    torch.testing.assert_close(hill.theta.detach()[:, 0], gone)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_the_index_is_the_number_of_negative_eigenvalues(kind):
    H = goe(30, 1, _generator())[0].to(kind)
    negative = int((np.linalg.eigvalsh(H.numpy()) < 0).sum())
    assert hessian_index(lambda x: x @ H @ x, torch.zeros(30, dtype=kind)) == negative


def test_the_index_of_many_parameters_comes_from_lanczos():
    curvature = torch.ones(2100, dtype=torch.float64)
    curvature[:11] = -torch.linspace(0.2, 1, 11, dtype=torch.float64)
    named = {"a": torch.zeros(2000).double(), "b": torch.zeros(100).double()}

    def loss(params):
        return (curvature * torch.cat([params["a"], params["b"]]).square()).sum()

    assert hessian_index(loss, named) == 11
    assert hessian_index(loss, named, tol=0.5) == 7  # those from -0.52 to -1


def test_random_matrices_have_the_moments_of_the_ensemble():
    H = goe(4, 50_000, _generator())
    assert torch.equal(H, H.mT)
    expected = 0.5 + 0.5 * torch.eye(4, dtype=torch.float64)  # twice on the diagonal
    torch.testing.assert_close(H.var(dim=0), expected, atol=0.03, rtol=0)


def test_it_trains_through_fit_and_draws_from_the_forked_dice():
    x, ends = torch.linspace(-1, 1, 32)[:, None], []
    for _ in range(2):
        model = nn.utils.skip_init(nn.Linear, 1, 1)
        nn.init.zeros_(model.weight)
        nn.init.zeros_(model.bias)
        optimizer = NoisyGD(model.parameters(), lr=0.3, sigma=1e-3)
        fit(model, (x, 3 * x), Supervised(nn.functional.mse_loss), optimizer, steps=40)
        ends.append(model.weight.item())
    assert ends[0] == ends[1] == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda p: NoisyGD([p], sigma=-0.1), r"NoisyGD: sigma must be in \[0, inf\), .*got -0.1"),
        (lambda p: NoisyGD([p], sigma=math.nan), "NoisyGD: sigma must be in"),
        (lambda p: NoisyGD([p], lr=0.0), "NoisyGD: lr must be"),
        (lambda p: langevin_scale(0.1, -1.0), "langevin_scale: temperature must be in"),
        (lambda p: goe(0, 1, _generator()), "goe: n must be"),
        (lambda p: hessian_index(lambda x: x, p), "one number as value"),
        (lambda p: _exit(lambda theta: theta[:, 0] > 1, 0), "exit_times: limit must be"),
        (lambda p: _exit(lambda theta: theta > 1, 5), "exit_times: predicate must be a function"),
    ],
)
def test_bad_input_gets_a_sentence(wrong, sentence):
    with pytest.raises(UsageError, match=sentence):
        wrong(nn.Parameter(torch.ones(2)))


def _exit(predicate, limit):
    saddle = Saddle()
    return exit_times(saddle, NoisyGD(saddle.parameters()), predicate, limit)

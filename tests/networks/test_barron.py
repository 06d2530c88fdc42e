import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.networks import (
    barron_constant,
    cosine_constant,
    fixed_fourier_error,
    gaussian_constant,
    greedy_network,
)

KEY = "networks/barron"


def bell(s):
    return lambda x: (-x.square().sum(dim=-1) / (2 * s**2)).exp()


def samples(N, n, seed=0):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(N, n, generator=rng, dtype=torch.float64)
    return x, torch.sin(2 * x[:, 0]) + x.square().sum(dim=1) / n


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("abs() * step**n", "abs() * step", "barron_constant"),
        ("math.lgamma((n + 1) / 2)", "math.lgamma(n / 2 + 1)", "barron_constant"),
        ("float(omega.norm())", "2.5 * float(omega.norm())", "barron_constant"),
        ('"layers.1.bias": outer[:1]', '"layers.1.bias": outer[1:2]', "barron_bound"),
        ("R[:k, k] + shares", "shares", "barron_bound"),
        ("unit - Q[:, :k] @ shares", "unit - Q[:, :1] @ shares[:1]", "barron_bound"),
        ("(left @ features).abs() / spread", "-(left @ features).abs() / spread",
         "rate_free_of_dimension"),
        ("2 * ways[: -j * j]", "ways[: -j * j]", "fixed_basis_curse"),
        ("int((waves > m).nonzero()[0])) ** -0.5", "int((waves > m).nonzero()[0])) ** -1",
         "fixed_basis_curse"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("= torch.fft.fftfreq(points,", "= 6.3 * torch.fft.fftfreq(points,", "barron_constant",
         ["transform on a grid", "wave under a Gaussian"]),
        ("left = left - Q[:, k] * (Q[:, k] @ left)",
         "left = left - 2 * Q[:, k] * (Q[:, k] @ left)", "barron_bound",
         ["n = 1: the network itself", "n = 2: the network itself", "n = 5: the network itself"]),
        ("lgamma(n / 2)", "lgamma((n + 2) / 2)", "barron_constant",
         ["closed form", "Barron's own constant"]),
        ("W = F.normalize(torch.randn(", "W = F.normalize(torch.rand(", "barron_bound",
         ["units on offer, directions"]),
        ("(0.5, 5.0)", "(0.4, 5.0)", "barron_bound", ["units on offer, sharpness"]),
        ("return W, -(W * x", "return W, (W * x", "barron_bound",
         ["units on offer, each bends at a sample"]),
        ("torch.randint(len(x),", "torch.randint(len(x) // 2,", "barron_bound",
         ["units on offer, at many of them"]),
        ("features.mean(dim=0)).norm", "features.sum(dim=0)).norm", "barron_bound",
         ["units on offer, the most like what is left"]),
        ("= 400", "= 300", "barron_bound", ["units on offer, by default 400"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("n", [1, 2, 7, 50])
def test_the_constant_of_a_gaussian_is_the_mean_length_of_a_gaussian_frequency(n):
    # the spectrum of a bell is a normal density with standard deviation 1 / (2 pi s)
    exact = stats.chi(n).mean() / (2 * math.pi * 0.3)
    assert gaussian_constant(n, s=0.3) == pytest.approx(exact, rel=1e-12)


def test_the_transform_on_a_grid_is_what_quadrature_gives():
    # f = 1 / cosh(pi x) is its own transform
    exact = 2 * integrate.quad(lambda w: w / np.cosh(np.pi * w), 0, 20)[0]
    found = barron_constant(lambda x: 1 / torch.cosh(torch.pi * x[..., 0]), 1, half=16, points=512)
    assert found == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_constant_scales_with_frequency_and_height(n):
    narrow, wide = (barron_constant(bell(s), n, half=12 * s, points=48) for s in (0.5, 2.0))
    assert narrow == pytest.approx(4 * wide)
    doubled = barron_constant(lambda x: 2 * bell(2.0)(x), n, half=24, points=48)
    assert doubled == pytest.approx(2 * wide)


def test_a_wave_has_its_frequency_as_constant():
    omega = torch.tensor([0.3, -0.4], dtype=torch.float64)
    found = barron_constant(
        lambda x: bell(8.0)(x) * torch.cos(2 * torch.pi * x @ omega), 2, half=60, points=256
    )
    assert found == pytest.approx(cosine_constant(omega), rel=2e-3)


def test_greedy_outer_weights_are_least_squares_and_errors_never_rise():
    x, y = samples(300, 3)
    network, errors = greedy_network(x, y, 20, rng=torch.Generator().manual_seed(0))
    hidden = network.activations(x)[1].detach()
    columns = np.column_stack([np.ones(300), hidden])
    _, squares, *_ = np.linalg.lstsq(columns, y.numpy(), rcond=None)
    assert float(errors[-1]) == pytest.approx(squares[0] / 300, rel=1e-8)
    assert (errors[1:] <= errors[:-1]).all()
    assert float(errors[0]) == pytest.approx(float(y.var(correction=0)))
    residual = y - network(x)[:, 0].detach()
    np.testing.assert_allclose(columns.T @ residual.numpy(), 0, atol=1e-8)
    torch.testing.assert_close(residual.square().mean(), errors[-1])


def test_the_first_unit_is_the_one_most_correlated_with_the_target():
    x, y = samples(200, 2)
    first, errors = greedy_network(x, y, 1, candidates=300, rng=torch.Generator().manual_seed(4))
    W, b = page(KEY).load().sigmoid_pool(x, 300, torch.Generator().manual_seed(4))
    pool = torch.sigmoid(x @ W.mT + b)
    scores = [abs(np.corrcoef(one, y)[0, 1]) for one in pool.mT.numpy()]
    best = int(np.argmax(scores))
    torch.testing.assert_close(first.layers[0].weight.detach()[0], W[best])
    explained = (1 - scores[best] ** 2) * float(errors[0])
    assert float(errors[1]) == pytest.approx(explained, rel=1e-9)


def test_a_prefix_of_a_greedy_network_is_the_shorter_greedy_network():
    x, y = samples(200, 2)
    long, short = (
        greedy_network(x, y, k, rng=torch.Generator().manual_seed(1))[1] for k in (12, 5)
    )
    torch.testing.assert_close(long[:6], short)


def test_greedy_survives_units_that_depend_on_each_other():
    x = torch.linspace(-1, 1, 100, dtype=torch.float64)[:, None].round()  # three places only
    y = x[:, 0].abs()
    network, errors = greedy_network(x, y, 10, rng=torch.Generator().manual_seed(0))
    assert float(errors[-1]) < 1e-20
    torch.testing.assert_close(network(x)[:, 0].detach(), y)
    single = greedy_network(x.float(), y.float(), 10, rng=torch.Generator().manual_seed(0))[1]
    assert float(single[-1]) < 1e-8


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_fixed_waves_are_counted_like_a_list_of_all_of_them(n):
    vectors = itertools.product(range(-6, 7), repeat=n)
    half = sorted(sum(k * k for k in one) for one in vectors if one > (0,) * n)
    for m in (1, 2, 5):
        assert fixed_fourier_error(n, m) == pytest.approx((2 * half[m]) ** -0.5)
    inside = [square for square in half if square <= 36]  # beyond, the box cuts off
    m = len(inside) - 1
    assert fixed_fourier_error(n, m) == pytest.approx((2 * inside[m]) ** -0.5)


def test_the_norm_of_a_wave_is_what_sampling_says():
    rng = torch.Generator().manual_seed(0)
    x = torch.rand(200_000, 2, generator=rng, dtype=torch.float64)
    k = torch.tensor([2.0, 0.0], dtype=torch.float64)  # the fifth of the waves in two variables
    squares = (torch.cos(2 * torch.pi * x @ k) / 2).square()
    error = 5 * float(squares.std()) / len(x) ** 0.5
    assert fixed_fourier_error(2, 4) ** 2 == pytest.approx(float(squares.mean()), abs=error)


def test_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    greedy_network(*samples(50, 2), 3, rng=torch.Generator().manual_seed(0))
    assert torch.equal(before, torch.get_rng_state())


def test_bad_input_is_told_in_one_sentence():
    wide = r"barron_constant: half must be so large that the grid holds f; got 2\.0\. Raise it: f"
    with pytest.raises(UsageError, match=wide):
        barron_constant(bell(1.0), 1, half=2.0, points=64)
    coarse = r"points must be so large that the grid holds f; got 8\. Raise it: the spectrum"
    with pytest.raises(UsageError, match=coarse):
        barron_constant(bell(1.0), 2, half=12.0, points=8)
    with pytest.raises(UsageError, match="half must be so large"):
        barron_constant(lambda x: x[..., 0] / 0, 1, half=1.0, points=8)
    for open_ended in (lambda x: -bell(8.0)(x), lambda x: bell(8.0)(x[..., :1]),
                       lambda x: bell(1.0)(x[..., 1:])):
        with pytest.raises(UsageError, match=r"half must be so large"):
            barron_constant(open_ended, 2, half=12.0, points=64)
    with pytest.raises(UsageError, match=r"half must be so large"):
        barron_constant(bell(1.0), 1, half=3.6, points=64)  # 1.5e-3 are left at the border
    assert barron_constant(bell(1.0), 1, half=3.8, points=64) == pytest.approx(0.12, abs=0.02)
    with pytest.raises(UsageError, match=r"n must be an integer in \[1, 3\]; got 4"):
        barron_constant(bell(1.0), 4, half=12.0, points=8)
    with pytest.raises(UsageError, match=r"gaussian_constant: s must be in \(0, inf\); got 0"):
        gaussian_constant(3, s=0)
    x, y = samples(10, 2)
    rows = r"x and y must be finite .* with more than 10 rows for 10 units; got '10 and 10 rows'"
    with pytest.raises(UsageError, match=rows):
        greedy_network(x, y, 10, rng=torch.Generator())
    for bad in (x / 0, torch.ones_like(x)):
        with pytest.raises(UsageError, match="greedy_network: x and y must be finite"):
            greedy_network(bad, y, 3, rng=torch.Generator())
    with pytest.raises(UsageError, match="units must be an integer in"):
        greedy_network(x, y, 0, rng=torch.Generator())
    with pytest.raises(UsageError, match="fixed_fourier_error: m must be an integer in"):
        fixed_fourier_error(2, 0)

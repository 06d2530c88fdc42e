import copy
import math
import pickle

import numpy as np
import pytest
import torch
from scipy import special
from scipy.differentiate import derivative
from scipy.optimize import minimize_scalar
from torch import nn

from planting import assert_caught
from principia.lab.params import UsageError
from principia.networks.activations import (
    ACTIVATIONS,
    AVU,
    GELUAlpha,
    inverse_sigmoid,
    tanh_to_sigmoid,
)
from principia.networks.mlp import MLP

KEY = "networks/activations"
NAMES = sorted(ACTIVATIONS)
NUMPY = {
    "identity": lambda z: z,
    "sigmoid": special.expit,
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0),
    "leaky_relu": lambda z: np.where(z > 0, z, 0.01 * z),
    "hardtanh": lambda z: np.clip(z, -1, 1),
    "gelu": lambda z: z * special.ndtr(z),
    "softplus": lambda z: np.logaddexp(z, 0),
    "avu": np.abs,
}


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("return z * (-z.square() / 2).exp()", "return (-z.square() / 2).exp()", "gelu_derivative"),
        ("W, b = 2 * W, b - W.sum(dim=1)", "W, b = 2 * W, b + W.sum(dim=1)", "network_conversion"),
        ("W, b = 2 * W, 2 * b", "W, b = 2 * W, b", "network_conversion"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("return z.abs()", "return -z.abs()", "relu_and_absolute_value",
         ["two rectifiers", "rectifier"]),
        ("return x * torch.special.ndtr(self.alpha * x)", "return x * torch.special.ndtr(x)",
         "gelu_derivative", ["torch's, rescaled"]),
        ("nn.Sigmoid, UNITS", "nn.Hardsigmoid, UNITS", "derivatives", ["table"]),
        ('UNITS["sigmoid"].slope, 0.25', 'UNITS["sigmoid"].slope, 0.3', "sensitivity_bound",
         ["steepest"]),
        ("torch.ones_like(z).where(z > 0, LEAK)", "torch.ones_like(z).where(z >= 0, LEAK)",
         "kinks", ["torch's choices"]),
        ("(z.abs() < 1).to(z)", "(z < 1).to(z)", "kinks", ["slopes on either side"]),
        ("kinks={0.0: (-1.0, 1.0)}", "kinks={0.0: (0.0, 1.0)}", "kinks", ["avu"]),
        ("LEAK, 1.0", "LEAK, 2.0", "kinks", ["leaky_relu"]),
        ("y.log() - (-y).log1p()", "(-y).log1p() - y.log()", "derivatives",
         ["σ(σ⁻¹(y)) = y", "σ⁻¹(σ(x)) = x"]),
        ("(y > 0) & (y < 1)", "(y > 0) & (y <= 1)", "derivatives",
         ["no field gives 0, 1 or what lies beyond"]),
        ('mlp.sizes, activation="sigmoid"', 'mlp.sizes, activation="tanh"', "network_conversion",
         ["2 layers: hidden outputs", "3 layers: hidden outputs"]),
        ("(self.alpha *", "(self.alpha /", "gelu_derivative", ["torch's, α = 1"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_table_is_complete_and_numpys():
    assert set(ACTIVATIONS) == set(NUMPY)
    z = np.linspace(-50, 50, 2001)
    for name, row in ACTIVATIONS.items():
        np.testing.assert_allclose(row.module()(torch.tensor(z)), NUMPY[name](z), atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_numeric_ones(name):
    row = ACTIVATIONS[name]
    z = np.linspace(-7, 7, 58)  # hits no kink, and stays 0.05 from them
    assert all(abs(z - at).min() > 0.05 for at in row.kinks)
    found = derivative(NUMPY[name], z, initial_step=0.02)
    np.testing.assert_allclose(row.derivative(torch.tensor(z)), found.df, atol=1e-9)
    single = row.derivative(torch.tensor(z, dtype=torch.float32))
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single, found.df, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_suprema_are_where_a_search_finds_them(name):
    row = ACTIVATIONS[name]

    def height(z):
        return -abs(float(row.derivative(torch.tensor(float(z), dtype=torch.float64))))

    starts = np.linspace(-39, 39, 79)
    found = min(
        (minimize_scalar(height, bounds=(at - 1, at + 1), method="bounded") for at in starts),
        key=lambda one: one.fun,
    )
    assert row.sup == pytest.approx(-found.fun, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_kinks_are_all_the_jumps_there_are(name):
    row, step = ACTIVATIONS[name], 0.001
    z = torch.arange(-5000, 5000).double() * step + step / 2
    below, above = (NUMPY[name](z.numpy() + h) for h in (-1e-7, 1e-7))
    slopes = torch.tensor((above - below) / 2e-7)
    jumps = (slopes.diff().abs() > 0.1).nonzero()[:, 0]
    found = [(float(z[at : at + 2].mean()), *sorted(slopes[at : at + 2].tolist())) for at in jumps]
    listed = [(at, *ends) for at, ends in sorted(row.kinks.items())]
    assert len(found) == len(listed)
    np.testing.assert_allclose(np.reshape(found, (-1, 3)), np.reshape(listed, (-1, 3)), atol=1e-6)


def test_gelu_tends_to_the_rectifier_and_to_half_its_field():
    x = torch.linspace(-3, 3, 101, dtype=torch.float64)
    torch.testing.assert_close(GELUAlpha(alpha=1e6)(x), x.relu(), atol=1e-6, rtol=0)
    torch.testing.assert_close(GELUAlpha(alpha=1e-9)(x), x / 2, atol=1e-8, rtol=0)
    x.requires_grad_()
    assert torch.autograd.gradcheck(GELUAlpha(alpha=0.7), x)
    # a coin that shows heads when a normal number is below alpha x keeps x: on the average
    rng = torch.Generator().manual_seed(0)
    kept = 0.8 * (torch.randn(1_000_000, generator=rng) < 1.5 * 0.8)
    error = 5 * float(kept.std()) / 1000
    value = float(GELUAlpha(alpha=1.5)(torch.tensor(0.8)))
    assert value == pytest.approx(float(kept.mean()), abs=error)


@pytest.mark.parametrize("sizes", [(4, 1), (4, 3, 2), (4, 6, 5, 7, 2)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("out", [None, "tanh", "sigmoid"])
def test_conversion_keeps_outputs_and_touches_nothing(sizes, bias, out):
    rng = torch.Generator().manual_seed(0)
    net = MLP(sizes, activation="tanh", out_activation=out, bias=bias, rng=rng).double()
    before, dice = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    other = tanh_to_sigmoid(net)
    assert torch.equal(torch.get_rng_state(), dice)
    assert all(torch.equal(net.state_dict()[key], value) for key, value in before.items())
    x = 3 * torch.randn(100, 4, generator=rng, dtype=torch.float64)
    torch.testing.assert_close(other(x), net(x), atol=1e-13, rtol=0)
    assert isinstance(other.phi, nn.Sigmoid)
    assert all(one.requires_grad for one in other.parameters())
    assert other.layers[0].weight.dtype == torch.float64


def test_conversion_follows_the_printed_formula():
    net = MLP((3, 5, 2), activation="tanh", rng=torch.Generator().manual_seed(1))
    other = tanh_to_sigmoid(net)
    (W1, b1), (W2, b2) = ((one.weight, one.bias) for one in net.layers)
    expected = (2 * W1, 2 * b1), (2 * W2, b2 - W2 @ torch.ones(5))
    for layer, (W, b) in zip(other.layers, expected, strict=True):
        torch.testing.assert_close(layer.weight, W)
        torch.testing.assert_close(layer.bias, b)


def test_inverse_sigmoid_is_scipys_logit_to_the_edge():
    y = np.array([1e-300, 1e-20, 0.2, 0.5, 0.999, 1 - 1e-16])
    np.testing.assert_allclose(inverse_sigmoid(torch.tensor(y)), special.logit(y), atol=1e-15)
    assert math.isclose(float(inverse_sigmoid(torch.tensor(0.75))), math.log(3), rel_tol=1e-6)


def test_modules_pickle_and_compile_to_the_same():
    x = torch.linspace(-2, 2, 9)
    for module in (AVU(), GELUAlpha(alpha=2.0)):
        again = pickle.loads(pickle.dumps(module))
        assert torch.equal(again(x), module(x))
        assert torch.equal(torch.func.vmap(module)(x), module(x))


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(UsageError, match=r"name must be one of 'identity', .*'avu'; got 'rleu'"):
        ACTIVATIONS["rleu"]
    assert "rleu" not in ACTIVATIONS
    for bad in (0.0, 1.0, math.nan, -0.5):
        with pytest.raises(UsageError, match=rf"y must be in \(0, 1\); got {bad}\. No finite"):
            inverse_sigmoid(torch.tensor([0.5, bad]))
    domain = r"mlp must be an MLP with activation='tanh'; got"
    with pytest.raises(UsageError, match=rf"{domain} 'relu'\. Only tanh is a sigmoid"):
        tanh_to_sigmoid(MLP((2, 3, 1), rng=torch.Generator()))
    with pytest.raises(UsageError, match=rf"{domain} 'Sequential'"):
        tanh_to_sigmoid(nn.Sequential(nn.Linear(2, 1)))
    with pytest.raises(UsageError, match=r"GELUAlpha: alpha must be in \(0, inf\); got 0"):
        GELUAlpha(alpha=0)

import copy
import math

import numpy as np
import pytest
import torch
from scipy.special import digamma
from torch import nn
from torch.nn import functional as F

from planting import assert_caught
from principia.gradients.depth import (
    deep_linear_gradient,
    deep_linear_gradients,
    gradient_profile,
    jacobian_spectrum,
)
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.networks.mlp import MLP
from principia.networks.residual import ResidualMLP

KEY = "gradients/depth"


def drawn(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=rng, dtype=torch.float64)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("(Ws, Sigma, Gamma)[l - 1]", "(Ws, Sigma, Gamma)[-l]", "deep_linear_gradient"),
        ("@ Sigma - Gamma.mT, []", "@ Sigma.abs() - Gamma.mT, []", "deep_linear_gradient"),
        ("error = W.mT @ error", "error = W.mT @ error / 2", "deep_linear_gradient"),
        ("gradients.append(error @ product.mT)", "gradients.append(2 * error @ product.mT)",
         "sufficient_statistics"),
        ("return (X @ A.mT - Y).square()", "return (X @ A.mT - Y - 1).square()", "saddle_at_zero"),
        ("squares[name] += gradient", "squares[name] = gradient.numel() * gradient",
         "gain_to_the_depth"),
        ("tensor.register_hook(functools.partial(note, name))",
         "tensor.register_hook(functools.partial(note, '0'))", "gain_to_the_depth"),
        ("square**0.5 for", "square for", "gain_to_the_depth"),
        ("svdvals(rows.movedim(0, -2))", "svdvals(rows.movedim(0, -2)) ** 2", "gain_to_the_depth"),
        ("svdvals(rows.movedim(0, -2))", "svdvals(rows.movedim(0, -2).tril())",
         "spectrum_spreads"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("gradients.append(error @ product.mT)", "gradients.append(2 * error @ product.mT)",
         "deep_linear_gradient", ["deep_linear_gradient"]),
        ("return (X @ A.mT - Y).square()", "return (X @ A.mT - Y - 1).square()", "saddle_at_zero",
         ["curvatures ±σ(Γ), 2 layers"]),
        ("return (X @ A.mT - Y).square()", "return (X @ A.mT - Y - 1).square()", "saddle_at_zero",
         ["down and up"]),
        ("svdvals(rows.movedim(0, -2))", "svdvals(rows.movedim(0, -2).tril())",
         "spectrum_spreads", ["smallest value, from both sides"]),
        ("svdvals(rows.movedim(0, -2))", "svdvals(rows.movedim(0, -2).tril())",
         "gain_to_the_depth", ["spectra of a batch"]),
        ("squares[name] += gradient", "squares[name] += 2 * gradient", "gain_to_the_depth",
         ["layers frozen or unused"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_gradients_are_those_of_finite_differences_of_the_expected_loss():
    X, Y = drawn(30, 4), drawn(30, 2, seed=1)
    Ws = [drawn(3, 4, seed=2), drawn(5, 3, seed=3), drawn(2, 5, seed=4)]

    def loss(weights):
        return float((X @ torch.linalg.multi_dot(weights[::-1]).mT - Y).square().sum(1).mean() / 2)

    found = deep_linear_gradients(Ws, X.mT @ X / 30, X.mT @ Y / 30)
    for number, gradient in enumerate(found, start=1):
        single = deep_linear_gradient(Ws, X.mT @ X / 30, X.mT @ Y / 30, number)
        assert torch.equal(single, gradient)
        direction = drawn(*gradient.shape, seed=number + 10)
        ends = []
        for step in (1e-5, -1e-5):
            moved = list(Ws)
            moved[number - 1] = Ws[number - 1] + step * direction
            ends.append(loss(moved))
        slope = (ends[0] - ends[1]) / 2e-5
        assert slope == pytest.approx(float((gradient * direction).sum()), rel=1e-6)


@pytest.mark.parametrize("kind", ["relu", "residual", "convolution"])
def test_profile_of_weights_is_what_backward_leaves(kind):
    x, y = drawn(20, 8).float(), torch.arange(20) % 3
    net = {
        "relu": lambda: MLP([8, 16, 16, 3], rng=generator()),
        "residual": lambda: ResidualMLP(8, width=16, depth=5, n_out=3, rng=generator()),
        "convolution": lambda: nn.Sequential(
            nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 4, 3), nn.ReLU(inplace=True), nn.Flatten(),
            nn.Linear(24, 3),
        ),
    }[kind]()
    found = gradient_profile(net, x, y)
    assert all(one.grad is None for one in net.parameters())
    F.cross_entropy(net(x), y).backward()
    norms = {}
    for name, layer in net.named_modules():
        if own := [one.grad.flatten() for one in layer.parameters(recurse=False)]:
            norms[name] = float(torch.cat(own).norm())
    assert list(found) == list(norms)
    assert found == pytest.approx(norms, rel=1e-5)


def test_profile_of_outputs_is_the_gradient_of_each_layers_outputs():
    net, x = MLP([4, 6, 5, 3], activation="tanh", rng=generator()).double(), drawn(7, 4)
    h, y, kept = x, torch.arange(7) % 3, []
    for number, layer in enumerate(net.layers):
        h = layer(h if number == 0 else torch.tanh(h))
        h.retain_grad()
        kept.append(h)
    F.cross_entropy(h, y).backward()
    found = gradient_profile(net, x, y, of="outputs")
    assert [*found.values()] == pytest.approx([float(one.grad.norm()) for one in kept], rel=1e-12)


def test_profile_sees_outputs_before_they_are_changed_in_place():
    nets = [
        nn.Sequential(nn.Linear(4, 9), nn.ReLU(inplace=flag), nn.Linear(9, 2)).double()
        for flag in (False, True)
    ]
    nets[1].load_state_dict(nets[0].state_dict())
    x, y = drawn(11, 4), torch.arange(11) % 2
    plain, changed = (gradient_profile(net, x, y, of="outputs") for net in nets)
    assert plain == changed


def test_profile_leaves_the_network_as_it_was():
    net, x, y = MLP([4, 6, 3], rng=generator()), drawn(5, 4).float(), torch.arange(5) % 3
    F.cross_entropy(net(x), y).backward()
    before = copy.deepcopy([one.grad for one in net.parameters()])
    with torch.no_grad():  # a caller's mode does not matter
        for of in ("weights", "outputs"):
            gradient_profile(net, x, y, of=of)
    assert all(torch.equal(a, b.grad) for a, b in zip(before, net.parameters(), strict=True))
    assert not any(one._backward_hooks for one in net.parameters())
    assert not any(one._forward_hooks for one in net.modules())
    net.layers[0].requires_grad_(False)
    assert gradient_profile(net, x, y)["layers.0"] == 0


def test_a_layer_that_is_used_twice_counts_once():
    layer = nn.Linear(3, 3).double()
    net, x, y = nn.Sequential(layer, nn.Tanh(), layer), drawn(6, 3), torch.arange(6) % 3
    found = gradient_profile(net, x, y)
    F.cross_entropy(net(x), y).backward()
    total = torch.cat([one.grad.flatten() for one in layer.parameters()]).norm()
    assert found == {"0": pytest.approx(float(total))}


@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 3, 5)])
def test_spectrum_is_that_of_numpy_on_the_jacobian(shape):
    net, x = MLP([5, 8, 3], activation="tanh", rng=generator()).double(), drawn(*shape)
    found = jacobian_spectrum(net, x)
    assert found.shape == (*shape[:-1], 3)
    for row, values in zip(x.reshape(-1, 5), found.reshape(-1, 3), strict=True):
        jacobian = torch.autograd.functional.jacobian(net, row).numpy()
        theirs = np.linalg.svd(jacobian, compute_uv=False)
        np.testing.assert_allclose(values.detach(), theirs, rtol=1e-10)


def test_largest_and_smallest_rates_are_those_of_random_vectors_and_heights():
    # a vector grows by a chi variable of n degrees; the distance of a column from the span of the
    # others is one of 1: their mean logarithms are the rates that the claim predicts
    W = drawn(200_000, 6) / 6**0.5
    logs = W.norm(dim=1).log(), W[:, 0].abs().log()
    error = (sum(one.var() for one in logs) / len(W)) ** 0.5
    rate = (digamma(3) - digamma(0.5)) / 2
    assert abs(float(logs[0].mean() - logs[1].mean()) - rate) < 5 * float(error)


def test_quick_experiment_shows_vanishing_and_draws():
    outcome = page(KEY).experiments()["profiles"]()
    assert outcome.reached, outcome.missed
    assert set(outcome.figures) == {"initial", "trained", "gains", "ratios"}
    assert outcome.metrics["sigmoid_accuracy"] < 0.3 < 0.8 < outcome.metrics["residual_accuracy"]
    gains, kinds = outcome.figures["gains"].layout.sliders
    assert len(gains.steps) == 7
    assert [one.label for one in kinds.steps][:2] == ["all", "sigmoid"]
    depths = outcome.figures["initial"].layout.sliders[0].steps
    deepest = depths[-1].args[0]["y"][0]
    assert len(deepest) == 65
    assert 0 < deepest[0] < torch.finfo(torch.float32).tiny * 4**4  # no float32 would hold it


def test_experiment_survives_networks_that_die():
    run = Run()
    page(KEY).experiments()["profiles"](run, width=8)  # so narrow that a layer of rectifiers dies
    assert run.metrics["relu_ratio_after_training"] == math.inf
    assert all(isinstance(one.to_json(), str) for one in run.figures.values())


def test_bad_input_is_told_in_one_sentence():
    Ws, Sigma, Gamma = [torch.eye(3), torch.ones(2, 3)], torch.eye(3), torch.ones(3, 2)
    with pytest.raises(UsageError, match=r"l must be one of the 2 layers, from 1; got 3\."):
        deep_linear_gradient(Ws, Sigma, Gamma, 3)
    with pytest.raises(UsageError, match=r"l must be an integer in \[1, inf\); got 0"):
        deep_linear_gradient(Ws, Sigma, Gamma, 0)
    with pytest.raises(UsageError, match=r"Sigma must be of shape \(3, 3\); got \(2, 2\)"):
        deep_linear_gradient(Ws, torch.eye(2), Gamma, 1)
    with pytest.raises(UsageError, match=r"Gamma must be of shape \(3, 2\); got .*an input a row"):
        deep_linear_gradients(Ws, Sigma, Gamma.mT)
    with pytest.raises(UsageError, match=r"Ws must be of width 2 at layer 2.*List the first"):
        deep_linear_gradients(Ws[::-1], Sigma, Gamma)
    with pytest.raises(UsageError, match=r"Ws must be one matrix or more; got \[\]"):
        deep_linear_gradients([], Sigma, Gamma)
    net, x, y = MLP([3, 2], rng=generator()), torch.eye(3), torch.tensor([0, 1, 1])
    with pytest.raises(UsageError, match=r"loss must be reduced to a scalar; got 'shape \(3,\)'"):
        gradient_profile(net, x, y, lambda a, b: F.cross_entropy(a, b, reduction="none"))
    with pytest.raises(UsageError, match=r"net must be a network with parameters that learn"):
        gradient_profile(nn.ReLU(), x, y)
    with pytest.raises(UsageError, match=r"of must be one of 'weights', 'outputs'"):
        gradient_profile(net, x, y, of="biases")
    with pytest.raises(UsageError, match=r"net must be one whose outputs for x have shape \(3, 'm"):
        jacobian_spectrum(lambda x: x.sum(dim=0), x)

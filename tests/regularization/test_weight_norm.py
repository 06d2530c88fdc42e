import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

from planting import assert_caught
from principia.lab.params import UsageError
from principia.regularization import (
    data_dependent_init,
    merge,
    normalize_weights,
    weight_norm_gradient,
)
from principia.regularization.experiments.weight_norm import _epochs_to, _Lengths
from principia.regularization.initialization import he_mlp

KEY = "regularization/weight_norm"


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(shape, generator=rng(seed), dtype=torch.float64)


def plain(sizes=(5, 7, 6, 3), seed=0):
    return he_mlp(sizes, rng=rng(seed)).double()


def convolutions():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 3, 3), nn.Flatten(),
                            nn.Linear(12, 5))
    return net.double()


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("        parametrizations.weight_norm(layer)\n",
         "        parametrizations.weight_norm(layer, dim=1)\n", "torch_is_the_formula"),
        ("slope - along * direction ", "slope - along * v.flatten(1) ", "gradient_formulas"),
        ("(gamma[:, None] / length * across)", "(gamma[:, None] * across)", "gradient_formulas"),
        ("layer.bias.sub_(mean).div_(sigma)", "layer.bias.sub_(mean)", "data_dependent_start"),
        ("gamma.div_(sigma.view_as(gamma))", "gamma.div_(variance.view_as(gamma))",
         "data_dependent_start"),
        ("return layer.forward(*inputs)", "return sums", "data_dependent_start"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("            if _is_split(layer):", "            if not _is_split(layer):",
         "zero_has_no_direction", ["the layer and what it lacks"]),
        ("        parametrizations.weight_norm(layer)\n",
         "        parametrizations.weight_norm(layer)\n        halves(layer)[1].data.mul_(2)\n",
         "torch_is_the_formula", ["in place"]),
        ("        parametrizations.weight_norm(layer)\n",
         "        parametrizations.weight_norm(layer)\n        halves(layer)[0].data.mul_(2)\n",
         "torch_is_the_formula", ["the start changes nothing"]),
        ('"weight", leave_parametrized=True)',
         '"weight", leave_parametrized=True)\n        layer.weight.data.renorm_(2, 0, 1.0)',
         "torch_is_the_formula", ["merged"]),
        ("return along[:, 0], (", "return along[:, 0] * gamma, (", "gradient_formulas",
         ["γ, linear", "γ, convolution"]),
        ("sums.movedim(axis, 0).flatten(1), 1, correction=0)",
         "sums.movedim(axis, 0).flatten(1), 1, correction=1)", "data_dependent_start", ["γ", "b"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_a_network_of_torchs_normalized_layers_is_the_same():
    ours, theirs = plain(), plain()
    normalize_weights(ours)
    for layer in theirs.layers:
        parametrizations.weight_norm(layer)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    torch.testing.assert_close(ours(randn(4, 5)), theirs(randn(4, 5)), rtol=0, atol=0)


def test_gradients_are_those_of_finite_differences():
    grad_w, gamma, v = randn(3, 4), randn(3, seed=1), randn(3, 4, seed=2)

    def loss(gamma, v):  # its gradient with respect to w is grad_w
        return (grad_w * gamma[:, None] * v / v.norm(dim=1, keepdim=True)).sum().item()

    of_gamma, of_v = weight_norm_gradient(grad_w, gamma, v)
    step = 1e-6
    for row in range(3):
        moved = gamma.clone()
        moved[row] += step
        slope = (loss(moved, v) - loss(gamma, v)) / step
        assert slope == pytest.approx(of_gamma[row].item(), abs=1e-5)
        for column in range(4):
            moved = v.clone()
            moved[row, column] += step
            slope = (loss(gamma, moved) - loss(gamma, v)) / step
            assert slope == pytest.approx(of_v[row, column].item(), abs=1e-4)


def test_the_gradient_also_exists_where_the_length_is_zero():
    of_gamma, of_v = weight_norm_gradient(randn(2, 3), torch.zeros(2).double(), randn(2, 3, seed=1))
    assert of_gamma.isfinite().all()
    assert not of_v.any()


def test_the_start_gives_every_channel_of_a_convolution_variance_1():
    net, x = normalize_weights(convolutions()), 2 + randn(20, 2, 6, 6)
    before = [layer.parametrizations.weight.original1.clone() for layer in (net[0], net[2])]
    assert data_dependent_init(net, x) is net
    for stage, directions in zip((0, 2), before, strict=True):
        sums = net[: stage + 1](x)
        torch.testing.assert_close(sums.mean(dim=(0, 2, 3)), torch.zeros(sums.shape[1]).double())
        variance = sums.var(dim=(0, 2, 3), correction=0)
        torch.testing.assert_close(variance, torch.ones(sums.shape[1]).double())
        assert torch.equal(net[stage].parametrizations.weight.original1, directions)
    assert all(not layer._forward_hooks for layer in net)


def test_the_start_is_the_same_whatever_was_there_before():
    x, nets = randn(50, 5), [normalize_weights(plain()) for _ in range(2)]
    with torch.no_grad():
        for layer in nets[1].layers:
            layer.parametrizations.weight.original0.mul_(3)
            layer.bias.add_(1)
    first, second = (data_dependent_init(net, x)(x) for net in nets)
    torch.testing.assert_close(first, second)


def test_merging_gives_the_plain_network_back():
    net, x = normalize_weights(convolutions()), randn(4, 2, 6, 6)
    data_dependent_init(net, x)
    outputs, fresh = net(x), convolutions()
    fresh.load_state_dict(merge(net).state_dict())
    torch.testing.assert_close(fresh(x), outputs)
    assert type(net[0]) is nn.Conv2d
    assert all(one.requires_grad and one.is_leaf for one in net.parameters())
    normalize_weights(net)  # and it can be split again
    torch.testing.assert_close(net(x), outputs)


def test_other_parametrizations_are_left_alone():
    net = nn.Sequential(nn.Linear(3, 3), parametrizations.orthogonal(nn.Linear(3, 3)))
    parametrizations.weight_norm(net[0])
    merge(net)
    assert [parametrize.is_parametrized(layer) for layer in net] == [False, True]


def test_lengths_are_seen_and_remembered():
    part, net = _Lengths(looks=2), normalize_weights(plain((2, 3, 1)))
    part.begin(net, {}, steps=4)
    with torch.no_grad():
        net.layers[0].parametrizations.weight.original1.mul_(2)
    part.after_step(net)
    part.after_step(net)
    ratio = part.seen[1] / part.seen[0]
    assert part.seen[:, 0].tolist() == [0.0, 2.0]
    assert ratio[1:].tolist() == pytest.approx([2.0, 1.0])
    other = _Lengths(looks=2)
    other.begin(net, {}, steps=4)
    other.load_state_dict(copy.deepcopy(part.state_dict()))
    assert torch.equal(other.seen, part.seen)


def test_epochs_to_a_loss_are_interpolated():
    assert _epochs_to(0.1, [1.0, 0.1, 0.01]) == pytest.approx(2)
    assert _epochs_to(0.1**1.5, [1.0, 0.1, 0.01]) == pytest.approx(2.5)
    assert _epochs_to(2.0, [1.0, 0.1]) == 1
    assert _epochs_to(0.001, [1.0, 0.1]) == 3
    assert _epochs_to(math.inf, [1.0, 0.1]) == 2


def test_bad_input_is_told_in_one_sentence():
    x = randn(10, 5)
    with pytest.raises(UsageError, match=r"normalize_weights: model must be one with Linear or"):
        normalize_weights(nn.ReLU())
    net = normalize_weights(plain())
    with pytest.raises(UsageError, match=r"one with plain weights; got 'ParametrizedLinear'\. The "
                       r"weights of layers\.0 are split already: merge"):
        normalize_weights(net)
    with pytest.raises(UsageError, match=r"have another parametrization: remove it first"):
        normalize_weights(parametrizations.orthogonal(nn.Linear(3, 3)))
    dead = plain()
    dead.layers[1].weight.data[2] = 0
    with pytest.raises(UsageError, match=r"one without zero weight vectors; got 0\. Unit 3 of "
                       r"layers\.1 has none, and no direction"):
        normalize_weights(dead)
    assert not parametrize.is_parametrized(dead.layers[0])  # all or nothing
    for function in (merge, lambda model: data_dependent_init(model, x)):
        with pytest.raises(UsageError, match=r"one with normalized weights; got 'MLP'\. Call"):
            function(plain())
    bare = normalize_weights(nn.Sequential(nn.Linear(5, 2, bias=False)).double())
    with pytest.raises(UsageError, match=r"one with biases; got '0 without'\. Only a bias"):
        data_dependent_init(bare, x)
    with pytest.raises(UsageError, match=r"x must be a batch on which every unit varies; got "
                       r"\(1, 5\)\. Unit 1 of layers\.0 gives one sum for all: take a larger"):
        data_dependent_init(net, x[:1])
    layer = nn.Linear(5, 5).double()
    with pytest.raises(UsageError, match="one that uses each layer once"):
        data_dependent_init(normalize_weights(nn.Sequential(layer, nn.ReLU(), layer)), x)
    assert not layer._forward_hooks
    with pytest.raises(UsageError, match=r"weight_norm_gradient: v must be rows other than 0; got "
                       r"0\. Unit 2 has no direction"):
        weight_norm_gradient(randn(2, 3), randn(2), torch.tensor([[1.0, 0, 0], [0, 0, 0]]).double())

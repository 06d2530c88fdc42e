import itertools
import math

import pytest
import torch
from torch import nn

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.seeds import Seed
from principia.lab.training.generators import seeded_generators
from principia.regularization import (
    ClassicDropout,
    arithmetic_ensemble,
    enumerate_subnets,
    geometric_ensemble,
    mc_dropout,
    scale_weights,
    with_dropout,
)

KEY = "regularization/dropout"
CPU = torch.device("cpu")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=1):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def double(module):
    """Take weights from a generator, biases too, in float64."""
    rng = generator(2)
    for one in module.parameters():
        one.data = torch.randn(one.shape, generator=rng, dtype=torch.float64)
    return module


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("bernoulli_(self.keep) if", "bernoulli_(1 - self.keep) if", "torch_dropout_is_inverted"),
        ("dropout=1 - keep_hidden", "dropout=keep_hidden", "mask_law"),
        ("torch.where(masks == 1, pi, 1 - pi)", "torch.where(masks == 0, pi, 1 - pi)", "mask_law"),
        ("            one.train()", "            one.eval()", "mask_law"),
        ("variance, mean = torch.var_mean", "mean, variance = torch.var_mean", "mask_law"),
        ("parts[place] = nn.Dropout(1 - drop.keep)", "parts[place] = nn.Dropout(drop.keep / 2)",
         "scaling_is_exact_for_linear"),
        ("dims=1).softmax(dim=-1)", "dims=1).exp()", "scaling_is_geometric_mean"),
        ("factors[:, chosen] = masks / pi", "factors[:, chosen] = masks",
         "dropout_is_adaptive_ridge"),
        ("activation=activation", 'activation="identity"', "scaling_is_approximate_for_deep"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("if self.training else self.keep", "if self.training else 1.0",
         "torch_dropout_is_inverted", ["classic: evaluation"]),
        ("return x * (torch", "return 2 * x * (torch", "torch_dropout_is_inverted",
         ["classic: what is kept"]),
        ("1 - pi).prod(dim=1)", "1 - pi).prod(dim=1) / 2", "mask_law",
         ["their sum"]),
        ("pi[chosen]\n        factors", "pi[sorted(chosen)]\n        factors", "mask_law",
         ["some units"]),
        ("in torch.arange(samples).split", "in torch.arange(samples + 1).split", "mask_law",
         ["masks for each input"]),
        ("if rng is not None:\n        drawn", "if rng is None:\n        drawn", "mask_law",
         ["drawn where it is said"]),
        ("if rng is not None:\n        drawn", "if True:\n        drawn", "mask_law",
         ["torch's generator, by default"]),
        ("factors[:, chosen] = masks / pi", "factors[:, chosen] = masks",
         "scaling_is_exact_for_linear", ["ClassicDropout", "MLP", "all units"]),
        ("nn.Dropout(1 - keep_input)", "nn.Dropout(keep_input)", "mask_law", ["probabilities"]),
        ("torch.arange(2 ** len(chosen))[:, None]", "torch.arange(1, 2 ** len(chosen))[:, None]",
         "subnet_count", ["of each size"]),
        ("mul_(drop.keep)", "mul_(1 - drop.keep)", "scaling_is_exact_for_linear",
         ["scale_weights", "scale_weights, each subnetwork"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_enumeration_is_what_a_loop_over_masks_gives():
    net = double(with_dropout([3, 4, 2, 2], keep_input=0.9, keep_hidden=0.6))
    x, mlp = normal(5, 3), net[1]
    outputs, weights = enumerate_subnets(net, x)
    keeps = [0.9] * 3 + [0.6] * 6
    for number, bits in enumerate(itertools.product((0, 1), repeat=9)):
        mask = torch.tensor(bits[::-1], dtype=torch.float64)  # the last bit runs fastest
        chance = math.prod(p if b else 1 - p for p, b in zip(keeps, mask.tolist(), strict=True))
        first, second, third = (mask / torch.tensor(keeps)).split([3, 4, 2])
        h = torch.relu(mlp.layers[0](x * first))
        h = torch.relu(mlp.layers[1](h * second))
        torch.testing.assert_close(outputs[number], mlp.layers[2](h * third))
        assert float(weights[number]) == pytest.approx(chance)


def test_chosen_units_are_dropped_and_the_others_never():
    net, x = double(with_dropout([3, 4, 2])), normal(5, 3)
    mlp = net[1]
    outputs, weights = enumerate_subnets(net, x, [6, 1])  # the last hidden unit, then an input
    torch.testing.assert_close(weights, torch.tensor([0.1, 0.1, 0.4, 0.4], dtype=weights.dtype))
    for number, (hidden, given) in enumerate([(0, 0), (2, 0), (0, 1 / 0.8), (2, 1 / 0.8)]):
        h = torch.relu(mlp.layers[0](x * torch.tensor([1, given, 1])))
        expected = mlp.layers[1](h * torch.tensor([1, 1, 1, hidden]))
        torch.testing.assert_close(outputs[number], expected)


def test_enumeration_does_not_touch_the_mode_or_the_hooks():
    net, x = double(with_dropout([3, 4, 2])), normal(5, 3)
    net[1].drops[0].eval()
    enumerate_subnets(net, x, [0])
    mc_dropout(net, x, 3, rng=generator())
    assert [net[0].training, net[1].drops[0].training] == [True, False]
    assert not any(one._forward_hooks for one in net.modules())
    torch.testing.assert_close(net.eval()(x), net.eval()(x))


def test_ensembles_are_torchs_mixture_and_the_mean_of_logits():
    logits, weights = 30 * normal(6, 4, 3), normal(6, seed=3).softmax(dim=0)
    p = torch.distributions.Categorical(logits=logits).probs
    mixture = (weights[:, None, None] * p).sum(dim=0)
    torch.testing.assert_close(arithmetic_ensemble(logits, weights), mixture)
    mean = torch.einsum("m,mbk->bk", weights, logits)
    torch.testing.assert_close(geometric_ensemble(logits, weights), mean.softmax(dim=-1))
    sure = torch.tensor([[0.0, 2000.0], [2000.0, 0.0]])  # probabilities of 0 in any precision
    assert geometric_ensemble(sure, torch.tensor([0.5, 0.5])).tolist() == [0.5, 0.5]


def test_training_is_torchs_own_dropout_mask_by_mask():
    net, x = double(with_dropout([3, 6, 2], keep_input=0.7, keep_hidden=0.6)), normal(50, 3)
    first, last = net[1].layers
    theirs = nn.Sequential(nn.Dropout(0.3), first, nn.ReLU(), nn.Dropout(0.4), last)
    with seeded_generators(Seed(3), CPU):
        ours = net(x)
    with seeded_generators(Seed(3), CPU):
        torch.testing.assert_close(ours, theirs(x))
    torch.testing.assert_close(net.eval()(x), theirs.eval()(x))


def test_scaled_weights_compute_the_same_function_in_both_modes():
    classic = double(nn.Sequential(
        ClassicDropout(0.8), nn.Linear(4, 6), nn.Tanh(), ClassicDropout(0.5), nn.Linear(6, 2)
    ))
    before, x = classic[1].weight.clone(), normal(5, 4)
    inverted = scale_weights(classic)
    assert [one.p for one in inverted if isinstance(one, nn.Dropout)] == pytest.approx([0.2, 0.5])
    assert inverted.training
    for ours, theirs in zip(
        enumerate_subnets(classic, x), enumerate_subnets(inverted, x), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(inverted.eval()(x), classic.eval()(x))
    assert not scale_weights(classic).training
    torch.testing.assert_close(classic[1].weight, before)


def test_monte_carlo_is_seeded_and_leaves_other_layers_in_evaluation():
    net = double(nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2), nn.Dropout(0.5)))
    net.double()
    x = normal(7, 3)
    before = torch.get_rng_state()
    first, second = (mc_dropout(net, x, 40_000, rng=generator(5)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert int(net[0].num_batches_tracked) == 0
    assert net.training
    clean = net.eval()(x).detach()
    mean, variance = first
    assert ((mean - clean).abs() < 5 * (variance / 40_000).sqrt()).all()
    # a Bernoulli number over π has variance (1 - π) / π, here 1
    torch.testing.assert_close(variance, clean**2, rtol=0.05, atol=0)


def test_more_inputs_than_are_computed_at_once_are_no_matter():
    net = nn.Sequential(nn.Dropout(0.5), double(nn.Linear(1, 1)))
    mean, variance = mc_dropout(net, torch.ones(40_000, 1, dtype=torch.float64), 2)
    assert mean.shape == variance.shape == (40_000, 1)


def test_gradients_reach_every_parameter_and_he_start():
    net = with_dropout([500, 400, 300, 3], rng=generator())
    net(torch.ones(8, 500)).sum().backward()
    assert all(one.grad is not None and one.grad.any() for one in net.parameters())
    for layer in net[1].layers[:2]:
        n = layer.in_features
        assert float(layer.weight.detach().var()) == pytest.approx(2 / n, rel=0.02)
        assert not layer.bias.any()
    again = with_dropout([500, 400, 300, 3], rng=generator())
    assert torch.equal(net[1].layers[2].weight, again[1].layers[2].weight)


def test_few_pictures_are_for_the_pairs_only():
    run, names = Run(), {"dropout-1", "plain-1", "dropout-2", "plain-2"}
    outcome = page(KEY).experiments()["mnist_dropout"](run, epochs=2, pairs=2, few=300, units=64)
    assert set(run.curves) == {"all", *names}
    assert {run.curves[one][0]["step"] for one in names} == {7}  # of 48 pictures each
    assert run.model[0].p == pytest.approx(0.2)
    assert set(outcome.figures) == {"pairs", "errors", "cuts"}
    run = Run()
    page(KEY).experiments()["mnist_dropout"](run, epochs=1, pairs=2, units=64)
    assert set(run.curves) == names


def test_bad_input_is_told_in_one_sentence():
    x = torch.ones(2, 64)
    for bad in (0.0, 1.5, -0.2, float("nan")):
        with pytest.raises(UsageError, match=r"ClassicDropout: keep must be in \(0, 1\]; got"):
            ClassicDropout(bad)
        with pytest.raises(UsageError, match=r"keep_hidden must be in \(0, 1\]; got"):
            with_dropout([2, 2], keep_hidden=bad)
    with pytest.raises(UsageError, match="MLP: sizes must be two or more values"):
        with_dropout([2])
    with pytest.raises(UsageError, match=(
        r"^dropout: at most 14 units can be enumerated; got 64\. Use mc_dropout\.$"
    )):
        enumerate_subnets(with_dropout([64, 3]), x)
    with pytest.raises(UsageError, match="units must be different, from 0 to 63; got"):
        enumerate_subnets(with_dropout([64, 3]), x, [3, 3])
    with pytest.raises(UsageError, match="units must be different, from 0 to 63; got"):
        enumerate_subnets(with_dropout([64, 3]), x, [64])
    with pytest.raises(UsageError, match="model must be a module with a layer that drops units"):
        enumerate_subnets(with_dropout([64, 3], keep_input=1.0), x)
    with pytest.raises(UsageError, match="and none that drops all of them"):
        enumerate_subnets(nn.Sequential(nn.Dropout(1.0), nn.Linear(64, 3)), x)
    narrow = with_dropout([3, 4, 2])
    with pytest.raises(UsageError, match=r"MLP: x must have width 3 at layer 1; got width 64"):
        enumerate_subnets(narrow, x)
    assert not any(one._forward_hooks for one in narrow.modules())
    with pytest.raises(UsageError, match="model must be a module with a dropout layer"):
        mc_dropout(nn.Linear(64, 2), x)
    with pytest.raises(UsageError, match=r"samples must be an integer in \[2, inf\); got 1"):
        mc_dropout(with_dropout([64, 3]), x, 1)
    for after in ([], [nn.ReLU()]):
        with pytest.raises(UsageError, match=r"nn\.Linear of its own follows every Classic.*; got"):
            scale_weights(nn.Sequential(nn.Linear(2, 2), ClassicDropout(), *after))
    twice = nn.Linear(2, 2)
    with pytest.raises(UsageError, match=r"nn\.Linear of its own follows every ClassicDropout"):
        scale_weights(nn.Sequential(ClassicDropout(), twice, nn.Tanh(), twice))
    with pytest.raises(UsageError, match=r"not in a module of its own.* Flatten it into one"):
        scale_weights(nn.Sequential(nn.Sequential(ClassicDropout()), nn.Linear(2, 2)))

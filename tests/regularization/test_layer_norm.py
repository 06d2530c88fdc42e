import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from planting import assert_caught
from principia.lab.params import UsageError
from principia.regularization import invariance_table, normalize
from principia.regularization.claims.layer_norm import NORMS
from principia.regularization.initialization import he_mlp

KEY = "regularization/layer_norm"


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def randn(*shape, seed=0):
    return torch.randn(shape, generator=rng(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("(eps + variance).sqrt()", "(eps + variance.sqrt())", "torch_is_the_formula"),
        ("return (x - mean) / (eps", "return x / (eps", "lives_on_a_sphere"),
        ("(x, first_row * W)", "(x, factor * W)", "invariances"),
        ("(x, W + v)", "(x, W + first_row)", "invariances"),
        ("(first_sample * x, W)", "(x, W)", "invariances"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("(norm(x @ W.mT) - before).abs().max()", "(norm(x @ W.mT) - before).max().clamp(max=0)",
         "invariances", ["batch norm, all rows shifted", "batch norm, one sample scaled"]),
        ("(norm(x @ W.mT) - before).abs().max()", "(norm(x @ W.mT) - before).abs().mean()",
         "invariances", ["what it writes down"]),
        ("(x, first_row * W)", "(x, first_row**2 * W)", "invariances", ["what the table changes"]),
        ("inputs: PositiveInt = 20,", "inputs: PositiveInt = 21,", "invariances",
         ["20 features, by default"]),
        ("(torch.randn(one, generator=rng,", "(torch.rand(one, generator=rng,", "invariances",
         ["mean of the sums"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("dims", [0, -1, (1, 2), (0, -1), (2, 1, 0)])
def test_normalizing_is_the_z_score_of_scipy(dims):
    x = 5 + 3 * randn(4, 5, 6)
    theirs = stats.zscore(x.numpy(), axis=dims)
    np.testing.assert_allclose(normalize(x, dims, eps=0.0), theirs, atol=1e-12)


@pytest.mark.parametrize(
    ("layer", "dims"),
    [
        (nn.LayerNorm((4, 4), elementwise_affine=False), (2, 3)),
        (nn.GroupNorm(1, 6, affine=False), (1, 2, 3)),
        (nn.InstanceNorm2d(6), (2, 3)),
        (nn.BatchNorm2d(6, affine=False), (0, 2, 3)),
    ],
    ids=str,
)
def test_torchs_norms_differ_only_in_their_axes(layer, dims):
    x = 2 + randn(8, 6, 4, 4)
    torch.testing.assert_close(normalize(x, dims), layer.double()(x))


def test_gradients_of_normalize_are_right():
    x = randn(3, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: normalize(x, -1), x)
    assert torch.autograd.gradcheck(lambda x: normalize(x, 0), x)


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.BatchNorm1d, nn.RMSNorm])
def test_network_is_the_sequence_of_its_modules(norm):
    net = he_mlp([5, 7, 6, 3], norm=norm, activation="tanh", rng=rng()).double()
    first, second, last = net.layers
    sequence = nn.Sequential(
        first, net.norms[0], nn.Tanh(), second, net.norms[1], nn.Tanh(), last
    )
    x = randn(9, 5)
    torch.testing.assert_close(net(x), sequence(x))
    torch.testing.assert_close(net.eval()(x), sequence.eval()(x))
    # more axes in front: all of them are samples
    torch.testing.assert_close(net(x.view(3, 3, 5)), net(x).view(3, 3, 3))
    torch.testing.assert_close(net(x[0]), net(x)[0])


def test_every_norm_has_the_same_start_by_hes_rule():
    norms = [NORMS[name] for name in ("none", "layer", "batch")]
    nets = [he_mlp([400, 300, 300, 10], norm=norm, rng=rng(3)) for norm in norms]
    for layers in zip(*(net.layers for net in nets), strict=True):
        assert all(torch.equal(layers[0].weight, one.weight) for one in layers)
        n = layers[0].in_features
        # the standard deviation of N normal draws has a relative error of 1 / sqrt(2 N)
        error = 5 / math.sqrt(2 * layers[0].weight.numel())
        assert layers[0].weight.std().item() == pytest.approx(math.sqrt(2 / n), rel=error)
        assert all(one.bias is None or not one.bias.any() for one in layers)
    assert [layer.bias is None for layer in nets[2].layers] == [True, True, False]


def test_batch_norm_with_two_samples_is_little_more_than_a_sign():
    x = randn(2, 50)
    alike = normalize(x, 0, eps=0.0)
    torch.testing.assert_close(alike, torch.stack([(x[0] - x[1]).sign(), (x[1] - x[0]).sign()]))


def test_invariance_table_of_the_paper():
    kept = {
        # Ba, Kiros and Hinton 2016, table 1; without centering, shifts of all rows are seen
        name: [one < 1e-8 for one in invariance_table(norm, 30, rng=rng()).values()]
        for name, norm in {
            "layer": nn.LayerNorm(30, eps=1e-12), "batch": nn.BatchNorm1d(30, eps=1e-12),
            "rms": nn.RMSNorm(30, eps=1e-12), "none": nn.Identity(),
        }.items()
    }
    # weights scaled, rows shifted, row scaled, samples scaled, samples shifted, sample scaled
    assert kept == {
        "layer": [True, True, False, True, False, True],
        "batch": [True, False, True, True, True, False],
        "rms": [True, False, False, True, False, True],
        "none": [False] * 6,
    }


def test_invariance_table_leaves_the_layer_alone():
    layer = nn.BatchNorm1d(6)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    tables = [invariance_table(layer, 6, rng=rng(1)) for _ in range(2)]
    assert tables[0] == tables[1]
    assert all(torch.equal(layer.state_dict()[name], value) for name, value in before.items())
    assert layer.weight.dtype == torch.float32
    fixed = invariance_table(nn.BatchNorm1d(6).eval(), 6, rng=rng(1))
    assert min(fixed.values()) > 0.1  # with fixed statistics it is an affine map


def test_bad_input_is_told_in_one_sentence():
    x = randn(4, 3)
    with pytest.raises(UsageError, match=r"normalize: dims must be different axes of .*; got 2"):
        normalize(x, 2)
    for dims in ((0, 0), (1, -1), ()):
        with pytest.raises(UsageError, match="dims must be different axes of the 2 of x"):
            normalize(x, dims)
    with pytest.raises(UsageError, match=r"2 or more entries together; got -1\. .* single entry"):
        normalize(x[:, :1], -1)
    with pytest.raises(UsageError, match=r"normalize: eps must be in \[0, inf\); got -1"):
        normalize(x, 0, eps=-1)
    with pytest.raises(UsageError, match=r"norm must be a function of tensors of shape \(32, 6\); "
                       r"got LayerNorm\(\(5,\).*It said: .*normalized_shape"):
        invariance_table(nn.LayerNorm(5), 6)

import warnings

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import update_bn

from planting import assert_caught
from principia.lab.params import UsageError
from principia.lab.training import Supervised, fit
from principia.regularization.batch_norm import (
    ConvNet,
    batch_norm_reference,
    fold_batch_norm,
    invert,
    population_statistics,
)
from principia.regularization.experiments.batch_norm import _Along

KEY = "regularization/batch_norm"
RUNNING = "running_statistics_converge"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def draw(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def trained(*layers):
    """Give a network of double precision some running statistics, scales and levels."""
    net = nn.Sequential(*layers).double()
    for number, one in enumerate(net.parameters()):
        one.data = 0.5 + torch.rand(one.shape, generator=generator(number), dtype=one.dtype)
    return net


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("if axis != 1]\n    return", "if axis == 0]\n    return", "torch_is_the_formula"),
        ("normalize(x, over, eps=eps)", "normalize(x, over, eps=2 * eps)", "torch_is_the_formula"),
        ("+ along(beta, x)\n", "- along(beta, x)\n", "torch_is_the_formula"),
        ("sum(dim=0) / sum(counts)", "mean(dim=0) / counts[0]", RUNNING),
        ("loader, around=mean))", "loader, around=0 * mean))", RUNNING),
        ("return fold(copy.deepcopy(layer).eval(), bn)", "return copy.deepcopy(layer)",
         "bn_is_reparametrization"),
        ("layer.running_var.copy_(", "layer.running_var.mul_(", "removes_constant_shift"),
        ("along(sigma, y) * y", "along(sigma, y) ** 2 * y", "activations_are_recoverable"),
        ("y = (y - along(bn.bias, y))", "y = (y + along(bn.bias, y))",
         "activations_are_recoverable"),
        ("nn.BatchNorm2d(m) if batch_norm else", "nn.Identity() if batch_norm else",
         "invariant_to_weight_scale"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("+ along(beta, x)\n", "- along(beta, x)\n", "torch_is_the_formula",
         ["rows, gradient of beta", "sequences, gradient of beta", "pictures, gradient of beta"]),
        ("return fold(copy.deepcopy(layer).eval(), bn)", "return copy.deepcopy(layer)",
         "running_statistics_converge", ["folded"]),
        ("for layer in dict.fromkeys(order):", "for layer in reversed(order):",
         "running_statistics_converge", ["two layers"]),
        ("hooks.enter_context(layer.register_forward_pre_hook(look))",
         "layer.register_forward_pre_hook(look)",
         "running_statistics_converge", ["nothing else of the model"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_reference_is_scikit_learns_scaler_and_has_right_gradients():
    x = 5 + 3 * draw(40, 4)
    ours = batch_norm_reference(x, torch.ones(4).double(), torch.zeros(4).double(), eps=1e-14)
    np.testing.assert_allclose(ours, StandardScaler().fit_transform(x.numpy()), atol=1e-10)
    leaves = [x[:5].clone().requires_grad_(), draw(4).requires_grad_(), draw(4).requires_grad_()]
    assert torch.autograd.gradcheck(batch_norm_reference, leaves)


def test_population_statistics_are_those_of_numpy_whatever_the_batches():
    x = 3 + draw(103, 4)
    for size in (1, 10, 103):
        bn = population_statistics(nn.BatchNorm1d(4).double(), x.split(size))
        np.testing.assert_allclose(bn.running_mean, x.numpy().mean(axis=0), atol=1e-13)
        np.testing.assert_allclose(bn.running_var, x.numpy().var(axis=0), atol=1e-13)
        assert bn.training
    pictures = 3 + draw(20, 2, 5, 5)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(pictures, torch.zeros(20)), batch_size=7
    )
    bn = population_statistics(nn.BatchNorm2d(2).double(), loader)
    np.testing.assert_allclose(bn.running_var, pictures.numpy().var(axis=(0, 2, 3)), atol=1e-13)


def test_population_statistics_are_what_torch_finds_in_a_single_batch():
    """One batch of all data is exact for torch too, but for its unbiased variance."""
    x = draw(50, 3)
    ours, theirs = (trained(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 4),
                            nn.BatchNorm1d(4)) for _ in range(2))
    population_statistics(ours, x.split(8))
    update_bn([x], theirs)
    for k in (1, 4):
        torch.testing.assert_close(ours[k].running_mean, theirs[k].running_mean)
        torch.testing.assert_close(ours[k].running_var, theirs[k].running_var * 49 / 50)


def test_order_of_layers_is_that_of_their_use_and_modes_are_kept():
    class Crossed(nn.Module):
        def __init__(self):
            super().__init__()
            self.second, self.first = nn.BatchNorm1d(3), nn.BatchNorm1d(3).eval()
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            return self.second(self.drop(torch.relu(self.first(x))))

    x, net = 3 + draw(30, 3), Crossed().double()
    population_statistics(net, [x[:20], x[20:]])
    assert net.second.training
    assert not net.first.training
    net.first.train()
    net.drop.eval()
    whole = net(x)
    torch.testing.assert_close(population_statistics(net, [x]).eval()(x), whole)


def test_looking_at_a_model_leaves_no_hook():
    net = trained(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.BatchNorm1d(4))
    population_statistics(net, draw(20, 3).split(7))
    with pytest.raises(RuntimeError, match="mat1"):  # not even where the data do not fit
        population_statistics(net, [draw(20, 5)])
    hooks = [(one._forward_pre_hooks, one._forward_hooks) for one in net.modules()]
    assert not any(map(any, hooks))


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layer", [
    lambda bias: nn.Linear(3, 4, bias=bias), lambda bias: nn.Conv1d(3, 4, 2, bias=bias),
    lambda bias: nn.Conv2d(3, 4, 2, stride=2, bias=bias),
    lambda bias: nn.Conv3d(3, 4, 2, bias=bias),
])
def test_folded_layers_compute_the_same(layer, bias, affine):
    layer = layer(bias)
    places = layer.weight.ndim - 2
    norm = {0: nn.BatchNorm1d, 1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[places]
    net = trained(layer, norm(4, affine=affine))
    net(3 + draw(20, 3, *(4,) * places))
    net.eval()
    before = {name: one.clone() for name, one in net.state_dict().items()}
    x = draw(5, 3, *(4,) * places, seed=1)
    torch.testing.assert_close(fold_batch_norm(net[0], net[1])(x), net(x))
    assert all(torch.equal(one, before[name]) for name, one in net.state_dict().items())


def test_inverse_of_pictures_and_without_scale():
    x = 3 + draw(6, 2, 4, 4)
    var, mu = torch.var_mean(x, (0, 2, 3), correction=0)
    for affine in (True, False):
        bn = trained(nn.BatchNorm2d(2, affine=affine))[0]
        torch.testing.assert_close(invert(bn, bn(x), mu, (bn.eps + var).sqrt()), x)


def test_convolutional_network_starts_alike_and_is_torchs_layers():
    x = draw(4, 3, 9, 9).float()
    ours, plain = (ConvNet([3, 5, 6], side=9, classes=7, batch_norm=one, rng=generator())
                   for one in (True, False))
    weights = dict(ours.named_parameters())
    for name, one in plain.named_parameters():
        assert name.endswith("bias") or torch.equal(one, weights[name])
    assert "blocks.0.0.bias" not in weights
    out = x
    for block in plain.blocks:
        out = F.relu(F.max_pool2d(F.conv2d(out, block[0].weight, block[0].bias, padding=1), 2))
    expected = out.flatten(1) @ plain.head.weight.T + plain.head.bias
    torch.testing.assert_close(plain(x), expected)
    assert ours(x).shape == (4, 7)


def test_a_single_picture_is_enough_unless_a_feature_has_one_value():
    x = torch.rand(1, 1, 4, 4, generator=generator())
    assert ConvNet([1, 2], side=4)(x).shape == (1, 10)  # four places of each feature
    assert ConvNet([1, 2, 2], side=4, batch_norm=False)(x).shape == (1, 10)
    deep = ConvNet([1, 2, 2], side=4)
    assert deep(x.expand(2, -1, -1, -1)).shape == (2, 10)
    assert deep.eval()(x).shape == (1, 10)
    assert deep.train().training  # by default


def test_looking_along_the_gradient_changes_nothing():
    x, y = draw(64, 1, 8, 8).float(), torch.arange(64) % 10

    def train(*callbacks):
        net = ConvNet([1, 4, 4], side=8, rng=generator())
        fit(net, (x, y), Supervised(F.cross_entropy), torch.optim.SGD(net.parameters(), 0.1),
            epochs=2, batch_size=16, callbacks=callbacks)
        return net.state_dict()

    along = _Along(every=2)
    looked, alone = train(along), train()
    assert all(torch.equal(one, alone[name]) for name, one in looked.items())
    assert along.seen[:, 0].tolist() == [0, 2, 4, 6]
    again = _Along(every=2)
    again.load_state_dict(along.state_dict())
    assert torch.equal(again.seen, along.seen)


def test_bad_input_is_told_in_one_sentence():
    one, bn = torch.ones(3), nn.BatchNorm1d(3)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        bn(one[None])  # what torch says
    with pytest.raises(UsageError, match=r"x must be a batch with 2 or more .* \(1, 3\)\."):
        batch_norm_reference(one[None], one, one)
    with pytest.raises(UsageError, match=r"eps must be in \(0, inf\); got 0"):
        batch_norm_reference(torch.ones(2, 3), one, one, eps=0.0)
    with pytest.raises(UsageError, match=r"loader must be open to several passes.* Pass a list"):
        population_statistics(bn, iter([torch.ones(2, 3)]))
    with pytest.raises(UsageError, match="model must be one with running statistics"):
        population_statistics(nn.BatchNorm1d(3, track_running_stats=False), [torch.ones(2, 3)])
    with pytest.raises(UsageError, match=r"loader must be one or more batches; got \[\]"):
        population_statistics(bn, [])
    with pytest.raises(UsageError, match=r"bn must be in evaluation mode.*Call bn.eval\(\)"):
        fold_batch_norm(nn.Linear(2, 3), bn)
    with pytest.raises(UsageError, match=r"bn must be a layer with running statistics; got"):
        fold_batch_norm(nn.Linear(2, 3), nn.BatchNorm1d(3, track_running_stats=False).eval())
    with pytest.raises(UsageError, match=r"ConvNet: x must be a batch with 2 or more .* \(1, 1, 4"):
        ConvNet([1, 2, 2], side=4)(torch.ones(1, 1, 4, 4))
    with pytest.raises(UsageError, match=r"layer must be .* with 3 outputs; got Linear"):
        fold_batch_norm(nn.Linear(2, 4), bn.eval())
    with pytest.raises(UsageError, match="bn must be a layer without a weight of 0"):
        invert(nn.BatchNorm1d(1).requires_grad_(False).apply(lambda bn: bn.weight.zero_()),
               torch.ones(2, 1), one[:1], one[:1])
    with pytest.raises(UsageError, match="channels must be two or more values"):
        ConvNet([3], side=8)
    with pytest.raises(UsageError, match="side must be 4 or more for 2 halvings; got 3"):
        ConvNet([1, 2, 2], side=3)
    with pytest.raises(UsageError, match=r"x must be of shape \(B, 1, 8, 8\); got \(2, 1, 9, 9\)"):
        ConvNet([1, 2], side=8)(torch.ones(2, 1, 9, 9))


def test_statistics_that_saw_no_batch_give_a_warning():
    layer, bn, net = nn.Linear(2, 3), nn.BatchNorm1d(3), ConvNet([1, 2], side=4, rng=generator())
    for call in (lambda: fold_batch_norm(layer, bn.eval()), net.eval):
        with pytest.warns(UserWarning, match=r"has seen no training batch.*Train first, or"):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ConvNet([1, 2], side=4, batch_norm=False, rng=generator()).eval()
        population_statistics(net, [torch.rand(5, 1, 4, 4, generator=generator())]).eval()
        bn.train()(torch.randn(5, 3, generator=generator()))
        fold_batch_norm(layer, bn.eval())
        for name, value in ("running_mean", 1.0), ("running_var", 2.0):  # one of the two is enough
            seen = nn.BatchNorm1d(3).eval()
            getattr(seen, name).fill_(value)
            fold_batch_norm(layer, seen)
        net.train()

import functools

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from planting import assert_caught
from principia.convolution.inception import (
    AuxiliaryHead,
    BasicConv2d,
    FactorizedConv,
    InceptionModule,
    InceptionNet,
    auxiliary_loss,
    separable,
)
from principia.convolution.layer import multiply_adds
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs.models import check_keepable

KEY = "convolution/inception"
MODULES = {  # channels that come in, and the widths of the branches
    "3a": (192, 64, 96, 128, 16, 32, 32), "3b": (256, 128, 128, 192, 32, 96, 64),
    "4a": (480, 192, 96, 208, 16, 48, 64), "4b": (512, 160, 112, 224, 24, 64, 64),
    "4c": (512, 128, 128, 256, 24, 64, 64), "4d": (512, 112, 144, 288, 32, 64, 64),
    "4e": (528, 256, 160, 320, 32, 128, 128), "5a": (832, 256, 160, 320, 32, 128, 128),
    "5b": (832, 384, 192, 384, 48, 128, 128),
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ('"4a": (192, 96, 208, 16, 48, 64)', '"4a": (192, 96, 208, 16, 48, 65)', "module_counts",
         ["torchvision's GoogLeNet"]),
        ("front = [make(inputs, reduced, 1)]", "front = [make(inputs, reduced, 3)]",
         "bottleneck_saves", ["formula"]),
        ("+ weight * sum(", "- weight * sum(", "auxiliary_heads_feed_early_layers", ["loss"]),
        ("root * vt[..., 0, :]", "s[..., :1] * vt[..., 0, :]", "rank_one_kernels_factor",
         ["residual", "equally long"]),
        ("tall, wide = (kernel, 1), (1, kernel)", "tall, wide = (kernel, kernel), (1, kernel)",
         "rank_one_kernels_factor", ["weights"]),
        ("else (15, 47)", "else (16, 47)", "torchvision_weights_fit", ["sizes"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("nn.BatchNorm2d, eps=0.001", "nn.BatchNorm2d", "torchvision_weights_fit"),
        ("self.activation(self.bn(self.conv(x)))", "self.bn(self.activation(self.conv(x)))",
         "torchvision_weights_fit"),
        ("nn.MaxPool2d(3, stride=1, padding=1)", "nn.AvgPool2d(3, stride=1, padding=1)",
         "torchvision_weights_fit"),
        ("stride=2, ceil_mode=True", "stride=2", "torchvision_weights_fit"),
        ("bias=norm is None", "bias=False", "conv1x1_is_a_pixel_layer"),
        ("+ (pooled or inputs)", "+ pooled + inputs", "module_counts"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize("auxiliary", [True, False])
def test_names_shapes_and_totals_are_those_of_torchvision(auxiliary):
    shapes = {}

    def basic(name, n, m, kernel):
        shapes[f"{name}.conv.weight"] = m, n, kernel, kernel
        for what in ("weight", "bias", "running_mean", "running_var"):
            shapes[f"{name}.bn.{what}"] = (m,)
        shapes[f"{name}.bn.num_batches_tracked"] = ()

    def linear(name, n, m):
        shapes.update({f"{name}.weight": (m, n), f"{name}.bias": (m,)})

    basic("conv1", 3, 64, 7)
    basic("conv2", 64, 64, 1)
    basic("conv3", 64, 192, 3)
    for short, (n, one, before, three, reduced, large, pool) in MODULES.items():
        name = f"inception{short}"
        basic(f"{name}.branch1", n, one, 1)
        basic(f"{name}.branch2.0", n, before, 1)
        basic(f"{name}.branch2.1", before, three, 3)
        basic(f"{name}.branch3.0", n, reduced, 1)
        basic(f"{name}.branch3.1", reduced, large, 3)
        basic(f"{name}.branch4.1", n, pool, 1)
    for name, n in (("aux1", 512), ("aux2", 528)) if auxiliary else ():
        basic(f"{name}.conv", n, 128, 1)
        linear(f"{name}.fc1", 2048, 1024)
        linear(f"{name}.fc2", 1024, 1000)
    linear("fc", 1024, 1000)
    with torch.device("meta"):
        net = InceptionNet(kernel=3, auxiliary=auxiliary)
    assert {name: tuple(one.shape) for name, one in net.state_dict().items()} == shapes
    count = sum(one.numel() for one in net.parameters())
    assert count == (13_004_888 if auxiliary else 6_624_904)


def test_weights_come_back_through_a_file_without_heads(tmp_path):
    net = InceptionNet(kernel=3, auxiliary=False, channels=1, classes=2, rng=generator())
    save_file(net.state_dict(), tmp_path / "weights.safetensors")
    back = InceptionNet.from_torchvision(tmp_path / "weights.safetensors")
    x = torch.rand(1, 1, 40, 33, generator=generator())
    assert torch.equal(back.eval()(x), net.eval()(x))
    assert not any(name.startswith("aux") for name in back.state_dict())


def test_module_joins_what_torchs_layers_see():
    module = InceptionModule(3, (2, 0, 4, 2, 5, 0), kernel=7,
                             block=functools.partial(BasicConv2d, norm=None), rng=generator())
    x = torch.rand(2, 3, 9, 6, generator=generator(1))
    one, three = module.branch1.conv, module.branch2[0].conv
    narrow, wide = (layer.conv for layer in module.branch3)
    expected = [
        F.conv2d(x, one.weight, one.bias).relu(),
        F.conv2d(x, three.weight, three.bias, padding=1).relu(),
        F.conv2d(F.conv2d(x, narrow.weight, narrow.bias).relu(), wide.weight, wide.bias,
                 padding=3).relu(),
        F.max_pool2d(x, 3, stride=1, padding=1),
    ]
    torch.testing.assert_close(module(x), torch.cat(expected, dim=1))
    assert module.outputs == 14


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_stride_keeps_every_so_manyth_place(stride):
    every, some = (BasicConv2d(2, 3, 5, stride=one, norm=None, rng=generator())
                   for one in (1, stride))
    x = torch.rand(2, 2, 11, 8)
    torch.testing.assert_close(some(x), every(x)[:, :, ::stride, ::stride])


def test_parts_are_passed_in_and_kept():
    block = functools.partial(BasicConv2d, norm=functools.partial(nn.GroupNorm, 4),
                              activation=nn.SiLU)
    net = InceptionNet(small=True, channels=2, classes=3, block=block, rng=generator())
    kinds = {type(one) for one in net.modules()}
    assert {nn.GroupNorm, nn.SiLU} <= kinds
    assert nn.BatchNorm2d not in kinds
    assert sum(isinstance(one, nn.GroupNorm) for one in net.modules()) == 14
    check_keepable(net, KEY)


def test_heads_answer_in_training_alone_and_gradients_reach_all():
    net = InceptionNet(small=True, channels=1, classes=4, rng=generator())
    x, y = torch.rand(6, 1, 8, 10, generator=generator()), torch.arange(6) % 4
    logits, others = net(x)
    auxiliary_loss((logits, others), y).backward()
    assert all(one.grad is not None for one in net.parameters())
    assert net.eval()(x).shape == (6, 4)
    headless = InceptionNet(small=True, auxiliary=False, channels=1, classes=4)
    assert headless(x).shape == (6, 4)
    with torch.device("meta"):
        outputs = InceptionNet()(torch.zeros(2, 3, 64, 64))
    assert [len(outputs[1]), *(tuple(one.shape) for one in outputs[1])] == [2, (2, 1000), (2, 1000)]


def test_loss_weighs_the_heads():
    logits, first, second = drawn(3, 5, 4)
    y = torch.tensor([0, 3, 1, 1, 2])
    whole = [float(F.cross_entropy(one, y)) for one in (logits, first, second)]
    assert float(auxiliary_loss(logits, y)) == pytest.approx(whole[0])
    assert float(auxiliary_loss((logits, [first, second]), y, weight=0.7)) == pytest.approx(
        whole[0] + 0.7 * (whole[1] + whole[2]))


def test_drops_are_those_of_the_paper():
    with torch.device("meta"):
        net = InceptionNet()
    assert (net.dropout.p, net.aux1.dropout.p, net.aux2.dropout.p) == (0.2, 0.7, 0.7)
    head = AuxiliaryHead(4, 3, width=2, hidden=1000, dropout=0.5, rng=generator())
    seen = []
    head.fc2.register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0]))
    x = torch.rand(64, 4, 5, 5)
    head(x), head.eval()(x)
    zeros = [float((one == 0).double().mean()) for one in seen]
    assert zeros[0] == pytest.approx((1 + zeros[1]) / 2, abs=0.02)


def test_weights_are_drawn_by_he_from_the_generator_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    nets = [InceptionNet(small=True, rng=generator()) for _ in range(2)]
    assert torch.equal(before, torch.get_rng_state())
    for one, other in zip(*(net.parameters() for net in nets), strict=True):
        assert torch.equal(one, other)
    kernels = nets[0].get_parameter("inception3b.branch2.1.conv.weight")
    assert float(kernels.detach().std()) == pytest.approx((2 / (48 * 9)) ** 0.5, rel=0.02)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 5, 3), (6, 2)])
def test_separable_is_numpys_best_product(shape):
    kernel = drawn(*shape)
    column, row = separable(kernel)
    u, s, vt = np.linalg.svd(kernel.numpy(), full_matrices=False)
    best = s[..., :1, None] * u[..., :1] @ vt[..., :1, :]
    np.testing.assert_allclose(column[..., None] * row[..., None, :], best, atol=1e-12)


def test_factorized_layer_is_a_column_and_then_a_row():
    layer = FactorizedConv(2, 3, 5, rng=generator())
    x = torch.rand(2, 2, 8, 6, generator=generator(1))
    assert layer.column.weight.shape == (3, 2, 5, 1)
    assert layer.row.weight.shape == (3, 3, 1, 5)
    kernel = torch.einsum("mcp,omq->ocpq", layer.column.weight[..., 0], layer.row.weight[:, :, 0])
    torch.testing.assert_close(layer(x), F.conv2d(x, kernel, layer.row.bias, padding=2))


def test_work_of_the_small_net_is_below_a_plain_stacks():
    net = InceptionNet(small=True, channels=1, classes=10, rng=generator())
    work = multiply_adds(net, (1, 28, 28))
    assert work["conv1.conv"] == 9 * 32 * 784
    assert work["inception3a.branch3.1.conv"] == 25 * 8 * 12 * 196
    assert work["inception3b.branch2.0.conv"] == 64 * 48 * 49
    assert sum(work.values()) < 0.7 * (9 * 32 * 784 + 9 * 32 * 76 * 196 + 9 * 76 * 76 * 49)


def test_reductions_that_widen_are_warned_of():
    with pytest.warns(UserWarning, match=r"9 channels of 8 are no compression"):
        InceptionModule(8, (2, 9, 4, 3, 4, 2))
    with pytest.warns(UserWarning, match=r"InceptionModule: 10 channels of 8 are no compression"):
        InceptionModule(8, (2, 8, 4, 10, 4, 2))


def test_bad_input_is_told_in_one_sentence():
    for widths in ((1, 2, 3), (0, 1, 1, 1, 1, 1), (1, 1, 0, 1, 1, 1), (1, 1, 1, 1, 0, 1)):
        with pytest.raises(UsageError, match=r"widths must be six numbers, of which only the 2nd"):
            InceptionModule(4, widths)
    with pytest.raises(UsageError, match=r"InceptionModule: kernel must be odd; got 4\. An even"):
        InceptionModule(4, (1, 1, 1, 1, 1, 1), kernel=4)
    with pytest.raises(UsageError, match=r"BasicConv2d: kernel must be odd; got 2\."):
        BasicConv2d(2, 2, 2)
    with pytest.raises(UsageError, match=r"FactorizedConv: kernel must be odd; got 2\."):
        FactorizedConv(2, 2, 2)
    net = InceptionNet(small=True, channels=1, classes=3, rng=generator())
    with pytest.raises(UsageError, match=r"x must be of shape \(B, 1, H, W\) with sides of 4 or m"):
        net(torch.rand(2, 3, 8, 8))
    with pytest.raises(UsageError, match=r"sides of 4 or more; got \(2, 1, 8, 3\)"):
        net(torch.rand(2, 1, 8, 3))
    with pytest.raises(UsageError, match=r"2 or more values of each feature; got \(1, 1, 7, 4\)"):
        net(torch.rand(1, 1, 7, 4))
    assert net(torch.rand(1, 1, 4, 8))[0].shape == (1, 3)
    assert net.eval()(torch.rand(1, 1, 4, 4)).shape == (1, 3)
    with torch.device("meta"):
        whole = InceptionNet()
        with pytest.raises(UsageError, match=r"sides of 15 or more; got \(2, 3, 14, 15\)"):
            whole(torch.zeros(2, 3, 14, 15))
        with pytest.raises(UsageError, match=r"2 or more values of each feature"):
            whole(torch.zeros(1, 3, 46, 15))
        assert whole(torch.zeros(1, 3, 15, 47))[0].shape == (1, 1000)
    with pytest.raises(UsageError, match=r"those of a GoogLeNet: conv1\.conv\.weight, \.\.\., fc"):
        InceptionNet.from_torchvision({"features.0.weight": torch.ones(1)})
    with pytest.raises(UsageError, match=r"auxiliary_loss: weight must be in \[0, inf\); got -1"):
        auxiliary_loss(torch.zeros(2, 3), torch.zeros(2).long(), weight=-1)


def test_quick_experiment_compares_with_a_plain_stack():
    outcome = page(KEY).experiments()["fashion_inception"](None, epochs=1, limit=300)
    assert set(outcome.figures) == {"gradients", "costs"}
    assert outcome.metrics["work"] < 0.7
    ratio = outcome.metrics["parameters"] / outcome.metrics["plain_parameters"]
    assert ratio == pytest.approx(1, abs=0.03)

import re
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from planting import assert_caught
from principia.convolution.densenet import DenseBlock2d, DenseNet, Transition
from principia.convolution.experiments import densenet as shown
from principia.convolution.layer import multiply_adds
from principia.convolution.resnet import ConvLayer, Stem
from principia.lab.params import UsageError
from principia.lab.runs.models import load_model, save_model
from principia.lab.seeds import Seed

KEY = "convolution/densenet"


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def draw(*shape, seed=0):
    return torch.randn(shape, generator=rng(seed), dtype=torch.float64)


def count(net):
    return sum(one.numel() for one in net.parameters())


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("            self.channels += growth", "            self.channels += growth + 1",
         "channels_grow_linearly"),
        ("maps.append(new)", "maps.insert(0, new)",
         "torchvision_weights_fit"),
        ("maps.append(new)", "maps = [maps[-1], new]", "connection_count"),
        ("return torch.cat(maps, dim=1)\n\n\ndef", "return maps[-1]\n\n\ndef",
         "every_layer_sees_the_loss"),
        ("self.last(x).mean(", "x.mean(",
         "torchvision_weights_fit"),
        ("block(self.transitions[place - 1](x) if place else x)",
         "block(self.transitions[-place](x) if place else x)",
         "torchvision_weights_fit"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("return layer(torch.cat(maps, dim=1))", "return layer(torch.cat(maps, dim=1).abs())",
         "channels_grow_linearly", ["block by hand"]),
        ("nn.functional.avg_pool2d(self.layer(x), 2)", "nn.functional.max_pool2d(self.layer(x), 2)",
         "channels_grow_linearly", ["transition by hand"]),
        ("norm=nn.Identity, activation=nn.Identity)", "norm=nn.Identity)", "channels_grow_linearly",
         ["network by hand"]),
        ("            one.copy_(value)", "            pass", "every_layer_sees_the_loss",
         ["gradients and statistics with checkpoints"]),
        ("if self.checkpoint and torch.is_grad_enabled():", "if False:",
         "every_layer_sees_the_loss", ["memory"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def layout(growth, counts, classes=1000):
    """The names and shapes of torchvision's networks, by rule."""
    found = {}

    def norm(name, channels):
        found.update({f"{name}.{one}": (channels,) for one in (
            "weight", "bias", "running_mean", "running_var")})
        found[f"{name}.num_batches_tracked"] = ()

    channels = 2 * growth
    found["features.conv0.weight"] = (channels, 3, 7, 7)
    norm("features.norm0", channels)
    for block, layers in enumerate(counts, start=1):
        for layer in range(1, layers + 1):
            at = f"features.denseblock{block}.denselayer{layer}"
            norm(f"{at}.norm1", channels)
            found[f"{at}.conv1.weight"] = (4 * growth, channels, 1, 1)
            norm(f"{at}.norm2", 4 * growth)
            found[f"{at}.conv2.weight"] = (growth, 4 * growth, 3, 3)
            channels += growth
        if block < len(counts):
            norm(f"features.transition{block}.norm", channels)
            found[f"features.transition{block}.conv.weight"] = (channels // 2, channels, 1, 1)
            channels //= 2
    norm("features.norm5", channels)
    return found | {"classifier.weight": (classes, channels), "classifier.bias": (classes,)}


@pytest.mark.parametrize(
    ("depth", "growth", "counts", "parameters"),
    [(121, 32, (6, 12, 24, 16), 7_978_856), (161, 48, (6, 12, 36, 24), 28_681_000)],
)
def test_layout_and_counts_are_those_of_torchvision(depth, growth, counts, parameters):
    theirs = {name: torch.empty(size, device="meta")
              for name, size in layout(growth, counts).items()}
    with torch.device("meta"):
        net = DenseNet.from_torchvision(theirs, depth=depth)
    assert count(net) == parameters
    assert len(theirs) == len(net.state_dict())
    if depth == 121:
        work = sum(multiply_adds(net, (3, 224, 224)).values())
        assert work / 1e9 == pytest.approx(2.834, abs=5e-4)  # torchvision's table of models


def test_names_of_the_oldest_files_are_known_too():
    with torch.device("meta"):
        old = {re.sub(r"(denselayer\d+\.\w+)([12])\.", r"\1.\2.", name): torch.empty(size)
               for name, size in layout(32, (6, 12, 24, 16), classes=3).items()}
        assert "features.denseblock1.denselayer1.norm.1.weight" in old
        net = DenseNet.from_torchvision(old)  # which names what does not fit
    assert net.head.out_features == 3


def test_wrong_weights_are_refused():
    with torch.device("meta"):
        theirs = {name: torch.empty(size) for name, size in layout(32, (6, 12, 24, 16)).items()}
        with pytest.raises(UsageError, match=r"DenseNet: weights must be the \d+ tensors"):
            DenseNet.from_torchvision(theirs, depth=169)
    with pytest.raises(UsageError, match=r"DenseNet: weights must be a \.safetensors file"):
        DenseNet.from_torchvision("a.pth")


@pytest.mark.parametrize("bottleneck", [False, True])
def test_block_with_checkpoints_is_the_block_without(bottleneck):
    x, blocks = draw(4, 3, 6, 5).requires_grad_(), []
    for checkpoint in (False, True):
        block = DenseBlock2d(3, 2, 3, bottleneck=bottleneck, checkpoint=checkpoint, rng=rng(1))
        block = block.double()
        y = block(x)
        found = torch.autograd.grad(y.square().sum(), [x, *block.parameters()])
        blocks.append([y, *found, *block.buffers()])
        with torch.no_grad():
            blocks[-1].append(block(x))
    for one, other in zip(*blocks, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_gradients_are_right_and_pass_the_checkpoint_twice():
    layer = partial(ConvLayer, norm=nn.Identity, activation=nn.Tanh)
    block = DenseBlock2d(2, 2, 2, bottleneck=True, checkpoint=True, layer=layer, rng=rng()).double()
    assert torch.autograd.gradcheck(block, draw(2, 2, 3, 4).requires_grad_())


def test_network_is_its_parts_in_order():
    net = DenseNet((2, 1), 3, theta=0.7, channels=2, classes=4, rng=rng()).double().eval()
    assert [one.channels for one in net.blocks] == [22, 18]
    assert net.transitions[0].channels == 15  # of 22 the whole part of 15.4
    x = draw(3, 2, 6, 7)
    y = F.conv2d(x, net.stem.layer.conv.weight, padding=1)

    def normed(one, x):
        return (x / (1 + one.norm.eps) ** 0.5).relu()

    for place, block in enumerate(net.blocks):
        if place:
            mixed = net.transitions[0].layer
            y = F.avg_pool2d(F.conv2d(normed(mixed, y), mixed.conv.weight), 2)
        for (one,) in block.layers:
            y = torch.cat([y, F.conv2d(normed(one, y), one.conv.weight, padding=1)], dim=1)
    scores = F.linear(normed(net.last, y).mean(dim=(2, 3)), net.head.weight, net.head.bias)
    torch.testing.assert_close(net(x), scores)


def test_parts_are_passed_in_and_survive_the_disk(tmp_path):
    layer = partial(ConvLayer, norm=partial(nn.GroupNorm, 1), activation=nn.GELU)
    net = DenseNet(
        (1, 2), 4, bottleneck=True, theta=0.5, layer=layer, rng=rng(), classes=3,
        channels=Stem(1, 6, kernel=5, stride=2, layer=layer, rng=rng(1)),
    )
    kinds = {type(one) for one in net.modules()}
    assert not kinds & {nn.BatchNorm2d, nn.ReLU}
    x = torch.rand(2, 1, 12, 9, generator=rng())
    save_model(tmp_path, net, {})
    assert torch.equal(load_model(tmp_path)[0](x), net(x))


def test_weights_have_hes_variance_and_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    net, again = (DenseNet(16, 24, rng=rng(3)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    for one, other in zip(net.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
        if one.ndim > 1:
            spread = float(one.detach().var()) * one[0].numel() / 2
            assert spread == pytest.approx(1, abs=5 * (2 / one.numel()) ** 0.5)


def test_weights_of_a_block_are_drawn_by_their_sources():
    net = DenseNet((3,), 2, channels=1, rng=rng())
    figure = shown._weights(net, 3, 2)
    table = figure.data[0].z[::-1]  # drawn from below
    sizes = [layer[0].conv.weight.detach().abs() for layer in net.blocks[0].layers]
    parts = slice(16), slice(16, 18), slice(18, 20)
    means = [float(sizes[2][:, part].mean()) for part in parts]
    for source, mean in enumerate(means):
        assert table[source][2] == pytest.approx(mean / max(means), rel=1e-3)
    assert table[0][0] == 1


def test_a_cut_chain_tells_nothing():
    net, widths = shown._trained(Seed(0), 3, 2, False)
    assert list(widths) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert shown._right(net, 2) < 0.2 < shown._right(net, 0)
    assert not any(one._forward_hooks for one in net.modules())


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(UsageError, match=r"DenseNet: depth must be 3n \+ 4 without bottlenecks; "
                       r"got 41\. The nearest are 40 and 43\."):
        DenseNet(41)
    with pytest.raises(UsageError, match=r"depth must be 6n \+ 4 with bottlenecks; got 41\. The "
                       r"nearest are 40 and 46\."):
        DenseNet(41, bottleneck=True)
    with pytest.raises(UsageError, match=r"depth must be 3n \+ 4 without .*; got 4\. The least"):
        DenseNet(4)
    for bad in ((), (2, 0), (1.5,)):
        with pytest.raises(UsageError, match="DenseNet: depth must be a count of 1 or more layers"):
            DenseNet(bad)
    with pytest.raises(UsageError, match=r"Transition: theta must be in \(0, 1\]; got 0"):
        Transition(3, 0)
    with pytest.raises(UsageError, match=r"Transition: x must be maps of 2 x 2 or more; got \(1,"):
        DenseNet((1, 1), 2, channels=1)(torch.zeros(1, 1, 1, 9))
    with pytest.raises(UsageError, match=r"DenseNet: x must be of shape \(B, 1, H, W\); got \(2,"):
        DenseNet((1,), 2, channels=1)(torch.zeros(2, 3, 8, 8))
    with pytest.raises(UsageError, match=r"channels must be an integer in \[1, inf\), or a M"):
        DenseNet(16, channels=0)

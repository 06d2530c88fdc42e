from functools import partial

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from planting import assert_caught
from principia.convolution.experiments import resnet as shown
from principia.convolution.layer import multiply_adds
from principia.convolution.resnet import (
    BottleneckBlock,
    ConvLayer,
    PlainNet,
    ResidualBlock,
    ResNet,
    Stem,
)
from principia.lab.params import UsageError
from principia.lab.runs.models import load_model, save_model
from principia.lab.seeds import Seed
from principia.regularization.batch_norm import population_statistics

KEY = "convolution/resnet"


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def draw(*shape, seed=0):
    return torch.randn(shape, generator=rng(seed), dtype=torch.float64)


def count(net):
    return sum(one.numel() for one in net.parameters())


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("nn.init.zeros_(last.conv.weight if weight is None else weight)", "pass",
         "zero_branch_is_identity"),
        ("torch.add(self.shortcut(x), y, alpha=self.alpha)", "torch.add(self.shortcut(x), y)",
         "zero_branch_is_identity"),
        ("x[:, :, ::self.stride, ::self.stride]", "F.avg_pool2d(x, self.stride, ceil_mode=True)",
         "shortcut_a_is_free"),
        ("F.pad(kept, (0, 0, 0, 0, 0, self.more))", "F.pad(kept, (0, 0, 0, 0, self.more, 0))",
         "shortcut_a_is_free"),
        ("layer(cin, cout, 1, stride=stride, activation=nn.Identity, rng=rng)",
         "layer(cin, cout, 3, stride=stride, activation=nn.Identity, rng=rng)",
         "zero_branch_is_identity"),
        ("layer(cin, width, 1, rng=rng), layer(width, width, 3, stride=stride, rng=rng)",
         "layer(cin, width, 1, stride=stride, rng=rng), layer(width, width, 3, rng=rng)",
         "torchvision_weights_fit"),
        ("stride = 2 if group and not place else 1", "stride = 2 if not place else 1",
         "torchvision_weights_fit"),
        ("nn.MaxPool2d(3, stride=2, padding=1)", "nn.AvgPool2d(3, stride=2, padding=1)",
         "torchvision_weights_fit"),
        ("self.activation(self.norm(self.conv(x)))", "self.norm(self.activation(self.conv(x)))",
         "torchvision_weights_fit"),
        ('block=partial(block, shortcut="none")', 'block=partial(block, shortcut="B")',
         "shortcut_a_is_free"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("self.conv(self.activation(self.norm(x)))", "self.conv(self.norm(self.activation(x)))",
         "zero_branch_is_identity", ["a layer, normalized before"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("shortcut", ["A", "B", "none"])
@pytest.mark.parametrize("stride", [1, 2])
def test_block_is_its_formula_written_with_torch(shortcut, stride):
    block = ResidualBlock(3, 5, stride, shortcut=shortcut, alpha=0.7, rng=rng()).double().eval()
    x, y = draw(4, 3, 7, 6), draw(4, 3, 7, 6)
    for place, layer in enumerate(block.branch):
        y = F.conv2d(x if not place else y, layer.conv.weight, stride=1 if place else stride,
                     padding=1)
        y = y / (1 + layer.norm.eps) ** 0.5  # fresh running statistics
        y = y if place else y.relu()
    over = torch.zeros_like(y)
    if shortcut == "A":
        over[:, :3] = x[:, :, ::stride, ::stride]
    elif shortcut == "B":
        over = F.conv2d(x, block.shortcut.conv.weight, stride=stride)
        over = over / (1 + block.shortcut.norm.eps) ** 0.5
    torch.testing.assert_close(block(x), (over + 0.7 * y).relu(), rtol=0, atol=1e-12)
    assert block.channels == 5


def test_plain_network_is_the_residual_one_without_its_sums():
    nets = [make(2, channels=2, width=4, classes=3, rng=rng(1)) for make in (ResNet, PlainNet)]
    for one, other in zip(*(net.parameters() for net in nets), strict=True):
        assert torch.equal(one, other)
    x = torch.rand(5, 2, 9, 12, generator=rng())
    plain = nets[1].eval()
    layers = [plain.stem.layer, *(one for group in plain.groups for b in group for one in b.branch)]
    y = x
    for layer in layers:
        y = F.conv2d(y, layer.conv.weight, stride=layer.conv.stride, padding=1)
        y = (y / (1 + layer.norm.eps) ** 0.5).relu()
    torch.testing.assert_close(plain(x), plain.head(y.mean(dim=(2, 3))))
    assert not torch.allclose(nets[0].eval()(x), plain(x))
    assert [layer.conv.stride[0] for layer in layers] == [1] * 5 + [2, 1, 1, 1] * 2


def layout(counts, bottleneck, classes=1000):
    """The names and shapes of torchvision's networks, by rule."""
    found = {}

    def norm(name, channels):
        found.update({f"{name}.{one}": (channels,) for one in (
            "weight", "bias", "running_mean", "running_var")})
        found[f"{name}.num_batches_tracked"] = ()

    found["conv1.weight"] = (64, 3, 7, 7)
    norm("bn1", 64)
    cin = 64
    for group, blocks in enumerate(counts, start=1):
        width = 64 * 2 ** (group - 1)
        cout = 4 * width if bottleneck else width
        for place in range(blocks):
            sizes = [(width, cin, 3, 3), (width, width, 3, 3)]
            if bottleneck:
                sizes = [(width, cin, 1, 1), (width, width, 3, 3), (cout, width, 1, 1)]
            for number, size in enumerate(sizes, start=1):
                found[f"layer{group}.{place}.conv{number}.weight"] = size
                norm(f"layer{group}.{place}.bn{number}", size[0])
            if not place and (group > 1 or bottleneck):
                found[f"layer{group}.0.downsample.0.weight"] = (cout, cin, 1, 1)
                norm(f"layer{group}.0.downsample.1", cout)
            cin = cout
    return found | {"fc.weight": (classes, cin), "fc.bias": (classes,)}


@pytest.mark.parametrize(
    ("depth", "counts", "parameters", "billions"),
    [(34, (3, 4, 6, 3), 21_797_672, 3.664), (101, (3, 4, 23, 3), 44_549_160, 7.801)],
)
def test_layout_counts_and_work_are_those_of_torchvision(depth, counts, parameters, billions):
    theirs = {name: torch.empty(size, device="meta")
              for name, size in layout(counts, depth > 34).items()}
    with torch.device("meta"):
        net = ResNet.from_torchvision(theirs, depth=depth)
    assert all(one.is_meta for one in net.parameters())
    assert count(net) == parameters
    assert len(theirs) == len(net.state_dict())
    assert sum(one.numel() for one in theirs.values()) == sum(
        one.numel() for one in net.state_dict().values())
    if depth == 34:
        work = sum(multiply_adds(net, (3, 224, 224)).values())
        assert work / 1e9 == pytest.approx(billions, abs=5e-4)


def test_weights_of_torchvisions_resnet_18_give_its_scores(tmp_path):
    weights = {}
    for number, (name, size) in enumerate(layout((2, 2, 2, 2), False, classes=4).items()):
        one = torch.randn(size, generator=rng(number))
        if len(size) == 4:
            one = one / one[0].numel() ** 0.5
        elif len(size) == 1:
            one = one.abs() + 0.5 if "var" in name or "weight" in name else one / 10
        weights[name] = one.contiguous()
    path = tmp_path / "resnet18.safetensors"
    save_file(weights, path)
    net = ResNet.from_torchvision(path, depth=18).eval()

    def layer(at, x, conv, bn, stride=1):
        w = weights[f"{at}{conv}.weight"]
        x = F.conv2d(x, w, stride=stride, padding=w.shape[2] // 2)
        return F.batch_norm(x, *(weights[f"{at}{bn}.{one}"] for one in (
            "running_mean", "running_var", "weight", "bias")))

    pictures = torch.rand(2, 3, 40, 65, generator=rng())
    x = F.max_pool2d(layer("", pictures, "conv1", "bn1", 2).relu(), 3, 2, 1)
    for group in (1, 2, 3, 4):
        for place in (0, 1):
            at, stride = f"layer{group}.{place}.", 2 if group > 1 and place == 0 else 1
            y = layer(at, x, "conv1", "bn1", stride).relu()
            y = layer(at, y, "conv2", "bn2")
            if stride == 2:
                x = layer(at, x, "downsample.0", "downsample.1", 2)
            x = (x + y).relu()
    scores = F.linear(x.mean(dim=(2, 3)), weights["fc.weight"], weights["fc.bias"])
    torch.testing.assert_close(net(pictures), scores, rtol=1e-3, atol=1e-3)


def test_other_weights_are_refused_and_named(tmp_path):
    theirs = {name: torch.empty(size, device="meta")
              for name, size in layout((2, 2, 2, 2), False).items()}
    with torch.device("meta"):
        with pytest.raises(UsageError, match=r"ResNet: weights must be the \d+ tensors of the mod"):
            ResNet.from_torchvision({**theirs, "extra": torch.empty(1)}, depth=18)
        with pytest.raises(UsageError, match=r"got .1 missing, first head\.bias"):
            ResNet.from_torchvision({k: v for k, v in theirs.items() if k != "fc.bias"}, depth=18)
        with pytest.raises(UsageError, match=r"must be of shape \(64, 64, 3, 3\); got \(64, 64, 1"):
            ResNet.from_torchvision(
                {**theirs, "layer1.0.conv1.weight": torch.empty(64, 64, 1, 1)}, depth=18)
    with pytest.raises(UsageError, match=r"must be a \.safetensors file; got 'net\.pth'"):
        ResNet.from_torchvision(tmp_path / "net.pth", depth=18)
    with pytest.raises(UsageError, match=r"from_torchvision: depth must be one of 18, 34, 50"):
        ResNet.from_torchvision(theirs, depth=20)


def test_parts_are_passed_in_and_survive_the_disk(tmp_path):
    layer = partial(ConvLayer, norm=partial(nn.GroupNorm, 2), activation=nn.GELU)
    net = ResNet(
        (1, 2), channels=2, width=4, classes=3, layer=layer, rng=rng(),
        block=partial(BottleneckBlock, alpha=0.5, zero_init=True),
        stem=partial(Stem, kernel=5, stride=2, pool=True),
    )
    kinds = [type(one) for one in net.modules()]
    assert nn.BatchNorm2d not in kinds
    assert nn.ReLU not in kinds
    assert kinds.count(nn.GELU) > 6
    assert net.depth == 2 + 3 * 3
    x = torch.rand(3, 2, 17, 20, generator=rng())
    save_model(tmp_path, net, {})
    assert torch.equal(load_model(tmp_path)[0](x), net(x))


def test_weights_have_hes_variance_and_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    net, again = (ResNet(2, width=32, rng=rng(3)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    for one, other in zip(net.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)
        if one.ndim > 1:
            spread = float(one.detach().var()) * one[0].numel() / 2
            assert spread == pytest.approx(1, abs=5 * (2 / one.numel()) ** 0.5)
    assert not net.head.bias.any()


def test_fresh_network_of_zero_branches_is_its_shortcuts_only():
    block = partial(ResidualBlock, zero_init=True)
    net = ResNet(3, channels=1, width=4, block=block, rng=rng()).double()
    x = draw(6, 1, 12, 12)
    maps = net.stem(x)[:, :, ::4, ::4].mean(dim=(2, 3))
    expected = F.pad(maps, (0, 12)) @ net.head.weight.T + net.head.bias
    torch.testing.assert_close(net(x), expected)


def test_normalization_folds_and_statistics_are_found_like_in_any_network():
    net = ResNet(1, channels=1, width=4, rng=rng()).double()
    x = draw(30, 1, 8, 8)
    together = net(x)
    population_statistics(net, x.split(7))
    torch.testing.assert_close(net.eval()(x), together)


def test_ring_of_gradients_is_that_of_the_whole_stack():
    seed = Seed(1)
    x, gradients, blocks = shown._stack(seed)
    axes = shown._carried(seed, 4, 0.9, 0.3)
    assert axes.shape == (5, 2, 2)

    def stack(x):
        for block in reversed(blocks[:4]):  # the ring comes from the last one, the first listed
            x = 0.9 * x + 0.15 * (block(x) - x)
        return x

    (back,) = torch.autograd.grad(stack(x), x, gradients)
    flat = back.flatten(1)
    torch.testing.assert_close(axes[-1] @ axes[-1].T, flat @ flat.T)


def test_first_gradients_of_plain_networks_grow_with_their_depth():
    """Batch normalization without sums multiplies gradients on their way back."""
    pictures = torch.rand(32, 1, 8, 8, generator=rng()), torch.arange(32) % 10
    found = shown._first_gradients(shown.Run(seed=Seed(0)), pictures, (1, 4))
    growth = {kind: ones[1] / ones[0] for kind, ones in found.items()}
    assert growth["plain"] > 1.5 * growth["residual"]


def test_bad_input_is_told_in_one_sentence():
    shrink = r"shortcut must be 'B' or 'none' from 8 to 4 channels; got 'A'\. Zeros are added"
    with pytest.raises(UsageError, match=f"ResidualBlock: {shrink}"):
        ResidualBlock(8, 4)
    with pytest.raises(UsageError, match=r"BottleneckBlock: shortcut must be 'B' or 'none'"):
        BottleneckBlock(9, 2, shortcut="A")
    with pytest.raises(UsageError, match=r"ResNet: n must be an integer in \[1, inf\), or a "):
        ResNet(0)
    for bad in ((), (1, 0), (1, 2.5)):
        with pytest.raises(UsageError, match="ResNet: n must be a count of 1 or more blocks"):
            ResNet(bad)
    with pytest.raises(UsageError, match=r"ConvLayer: kernel must be odd, or 0 for no convol"):
        ConvLayer(1, 1, 4)
    net = ResNet(1, channels=1, width=2)
    with pytest.raises(UsageError, match=r"x must be of shape \(B, 1, H, W\); got \(2, 3, 8, 8\)"):
        net(torch.zeros(2, 3, 8, 8))
    with pytest.raises(UsageError, match=r"ResidualBlock: alpha must be in \[0, inf\); got -1"):
        ResidualBlock(1, 1, alpha=-1)
    with pytest.raises(UsageError, match=r"PlainNet: width must be an integer in \[1, inf\)"):
        PlainNet(1, width=0)

import pytest
import torch
from safetensors.torch import save_file
from scipy.signal import convolve2d
from torch import nn
from torch.nn import functional as F

from planting import assert_caught
from principia.convolution.layer import multiply_adds
from principia.convolution.vgg import VGG, compose_kernels
from principia.lab.course.catalog import page
from principia.lab.params import UsageError

KEY = "convolution/vgg"
PUBLISHED = {  # layers of the five stages, and parameters without and with batch normalization
    "vgg11": ((1, 1, 2, 2, 2), 132_863_336, 132_868_840),
    "vgg13": ((2, 2, 2, 2, 2), 133_047_848, 133_053_736),
    "vgg16": ((2, 2, 3, 3, 3), 138_357_544, 138_365_992),
    "vgg19": ((2, 2, 4, 4, 4), 143_667_240, 143_678_248),
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


def thin(**settings):
    """Give a net of the published form with few channels."""
    return VGG((4, "M", 6, 5, "M"), classes=7, dense=8, rng=generator(), **settings)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("width, one, kernel, padding=kernel // 2", "width, one, 3, padding=1",
         "two_threes_see_five", ["field of one kernel", "weights of one kernel", "fewer"]),
        ("width, one, kernel, padding=kernel // 2",
         "width, one, kernel + 2, padding=kernel // 2 + 1", "two_threes_see_five", ["weights"]),
        ("second.flip(2, 3)", "second.flip(2)", "linear_stack_is_one_kernel",
         ["layers of VGG", "kernels of any sides"]),
        ("padding=around).transpose(0, 1)", "padding=around).transpose(0, 1).square()",
         "not_every_five_factors", ["composed kernels"]),
        ('"vgg19": (2, 2, 4, 4, 4)', '"vgg19": (2, 3, 4, 4, 4)', "vgg16_count", ["all four"]),
        ("(x.shape[3] // step) < 2", "(x.shape[3] // step) <= 2", "torchvision_weights_fit",
         ["sizes"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("return F.conv2d(first.transpose(0, 1)", "return F.conv2d(first.transpose(2, 3)",
         "linear_stack_is_one_kernel"),
        ("padding=around", "padding=around[::-1]", "linear_stack_is_one_kernel"),
        ("step = 2**self.halvings", "step = 2 * self.halvings", "torchvision_weights_fit"),
        ("GRID = 7", "GRID = 6", "vgg16_count"),
        ('"vgg16": (2, 2, 3, 3, 3)', '"vgg16": (2, 2, 3, 3, 4)', "vgg16_count"),
        ("layers.append(activation())", "layers.append(nn.ReLU())", "linear_stack_is_one_kernel"),
        ("nn.MaxPool2d(2)", "nn.AvgPool2d(2)", "torchvision_weights_fit"),
        ("(row, activation(), nn.Dropout(DROPPED))", "(row, nn.Dropout(DROPPED), nn.Identity())",
         "torchvision_weights_fit"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("config", PUBLISHED)
def test_names_shapes_and_totals_are_those_of_torchvision(config, normed):
    stages, *totals = PUBLISHED[config]
    shapes, place, width = {}, 0, 3
    for count, wide in zip(stages, (64, 128, 256, 512, 512), strict=True):
        for _ in range(count):
            shapes[f"features.{place}.weight"] = wide, width, 3, 3
            shapes[f"features.{place}.bias"] = (wide,)
            if normed:
                place += 1
                shapes |= {f"features.{place}.{what}": (wide,) for what in (
                    "weight", "bias", "running_mean", "running_var")}
                shapes[f"features.{place}.num_batches_tracked"] = ()
            place, width = place + 2, wide
        place += 1
    for row, (n, m) in zip((0, 3, 6), ((25088, 4096), (4096, 4096), (4096, 1000)), strict=True):
        shapes |= {f"classifier.{row}.weight": (m, n), f"classifier.{row}.bias": (m,)}
    with torch.device("meta"):
        net = VGG(config, batch_norm=normed)
    assert {name: tuple(one.shape) for name, one in net.state_dict().items()} == shapes
    assert sum(one.numel() for one in net.parameters()) == totals[normed]


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("config", ["small", (4, 5), ("M", 4), (4, "M", "M", 5, 6)])
def test_weights_come_back_through_a_file_into_a_net_of_their_form(config, normed, tmp_path):
    dense = 0 if config == "small" else 8
    net = VGG(config, channels=2, classes=3, batch_norm=normed, dense=dense, rng=generator())
    for number, one in enumerate(net.buffers()):
        if one.is_floating_point():
            one.copy_(0.5 + torch.rand(one.shape, generator=generator(number)))
    save_file(net.state_dict(), tmp_path / "weights.safetensors")
    if config[0] == "M":  # a halving in front of all leaves the same places in the names
        with pytest.raises(UsageError, match=r"missing|left over"):
            VGG.from_torchvision(tmp_path / "weights.safetensors")
        return
    back = VGG.from_torchvision(tmp_path / "weights.safetensors").eval()
    if config in ((4, 5), (4, "M", "M", 5, 6)):  # a last halving has no name: there is one
        back.features.pop(-1)
    x = torch.rand(2, 2, 16, 24, generator=generator())
    torch.testing.assert_close(back(x), net.eval()(x), rtol=0, atol=0)


def test_composed_kernels_are_sums_of_scipys_convolutions():
    first, second = drawn(4, 3, 3, 2), drawn(5, 4, 2, 4, seed=1)
    found = compose_kernels(first, second)
    assert found.shape == (5, 3, 4, 5)
    for out, channel in ((0, 0), (4, 2), (2, 1)):
        pairs = zip(first[:, channel], second[out], strict=True)
        expected = sum(convolve2d(a.numpy(), b.numpy()) for a, b in pairs)
        torch.testing.assert_close(found[out, channel], torch.as_tensor(expected))


def test_composition_is_associative_and_has_right_gradients():
    a, b, c = drawn(2, 3, 3, 2), drawn(4, 2, 1, 3, seed=1), drawn(2, 4, 2, 2, seed=2)
    torch.testing.assert_close(
        compose_kernels(compose_kernels(a, b), c), compose_kernels(a, compose_kernels(b, c)))
    leaves = [a.requires_grad_(), b.requires_grad_()]
    assert torch.autograd.gradcheck(compose_kernels, leaves)


def test_weights_are_drawn_by_he_from_the_generator_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    nets = [VGG("small", channels=3, rng=generator()) for _ in range(2)]
    assert torch.equal(before, torch.get_rng_state())
    for one, other in zip(*(net.parameters() for net in nets), strict=True):
        assert torch.equal(one, other)
    kernels = nets[0].features[-3].weight
    assert float(kernels.detach().std()) == pytest.approx((2 / (128 * 9)) ** 0.5, rel=0.01)


def test_half_of_the_hidden_units_are_dropped_in_training():
    net = VGG((4,), channels=1, dense=2000)
    rates = [layer.p for layer in net.classifier if isinstance(layer, nn.Dropout)]
    assert rates == [0.5, 0.5]
    assert [type(one).__name__ for one in net.classifier] == [
        "Linear", "ReLU", "Dropout", "Linear", "ReLU", "Dropout", "Linear"]


def test_gradients_reach_every_parameter_and_the_work_is_counted():
    net = VGG("small", channels=1, classes=10, batch_norm=True, rng=generator())
    F.cross_entropy(net(torch.rand(4, 1, 8, 16)), torch.arange(4)).backward()
    assert all(one.grad is not None for one in net.parameters())
    places = {0: 1024, 3: 1024, 7: 256, 10: 256, 14: 64, 17: 64}
    work = multiply_adds(net, (1, 32, 32))
    assert work == {
        **{f"features.{at}": net.features[at].weight.numel() * uses for at, uses in places.items()},
        "classifier.0": 1280,
    }


@pytest.mark.parametrize("shape", [(2, 3, 9, 8), (2, 3, 8, 10)])
def test_sides_that_lose_a_row_are_warned_of(shape):
    net = thin()
    with pytest.warns(UserWarning, match=rf"{shape[2]} x {shape[3]} are no multiples of 4: halv"):
        assert net(torch.rand(shape)).shape == (2, 7)


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(UsageError, match=r"x must be of shape \(B, 3, H, W\) with sides of 4 or m"):
        thin()(torch.rand(2, 1, 8, 8))
    with pytest.raises(UsageError, match=r"sides of 4 or more; got \(2, 3, 8, 3\)"):
        thin()(torch.rand(2, 3, 8, 3))
    with pytest.raises(UsageError, match=r"2 or more values of each feature; got \(1, 3, 4, 4\)"):
        thin(batch_norm=True)(torch.rand(1, 3, 4, 4))
    assert thin(batch_norm=True)(torch.rand(1, 3, 4, 8)).shape == (1, 7)
    assert thin(batch_norm=True).eval()(torch.rand(1, 3, 4, 4)).shape == (1, 7)
    with pytest.raises(UsageError, match=r"config must be one of 'small', .*, or a tuple; got 'vg"):
        VGG("vgg12")
    for config in ((), (4, 0), (4, "N"), (4, 2.0), (True,)):
        with pytest.raises(UsageError, match=r"config must be channels of each layer and 'M' for"):
            VGG(config)
    with pytest.raises(UsageError, match=r"VGG: kernel must be odd; got 4\. An even one"):
        VGG((4,), kernel=4)
    with pytest.raises(UsageError, match=r"second must be kernels of 2 input channels; got 3"):
        compose_kernels(torch.ones(2, 1, 3, 3), torch.ones(1, 3, 3, 3))
    with pytest.raises(UsageError, match=r"weights must be those of a VGG: features\.0\.weight"):
        VGG.from_torchvision({"conv1.weight": torch.ones(1)})
    weights = thin().state_dict()
    weights.pop("classifier.3.bias")
    with pytest.raises(UsageError, match=r"weights must be the 12 tensors .*1 missing, first"):
        VGG.from_torchvision(weights)


def test_quick_experiment_reads_digits_and_compares_kernels():
    outcome = page(KEY).experiments()["fashion_vgg"](None, epochs=2, few=300)
    assert set(outcome.figures) == {"kernels"}
    assert outcome.metrics["parameters"] == 288_618
    assert len([name for name in outcome.metrics if name.startswith("accuracy_")]) == 4

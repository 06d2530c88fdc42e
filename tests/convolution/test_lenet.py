import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from planting import assert_caught
from principia.convolution.experiments.lenet import reader, strip
from principia.convolution.lenet import (
    CodeDistance,
    LeNet5,
    LeNet1989,
    ScaledTanh,
    SparseConv2d,
    Subsample,
)
from principia.lab.course.catalog import page
from principia.lab.draws import drawn_anew, randn
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.runs.models import load_model, save_model
from principia.lab.seeds import Seed

KEY = "convolution/lenet"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("1.7159 * torch.tanh(2 / 3 * a)", "1.7159 * torch.tanh(a)", "c5_is_a_convolution"),
        ("means = F.avg_pool2d(x, 2)", "means = F.max_pool2d(x, 2)", "c5_is_a_convolution"),
        ("(0, 1, 3, 4)", "(0, 1, 2, 4)", "lenet5_has_60000_parameters"),
        ("6, 16, 5)\n        self.s4", "6, 15, 5)\n        self.s4",
         "cifar_net_has_62006_parameters"),
        ("(k + i) % 12", "(k + i + 1) % 12", "lenet1989_has_9760_parameters"),
        ("stride=2, padding=2, background=-1.0, places=(8, 8)",
         "stride=2, padding=2, background=0.0, places=(8, 8)", "lenet1989_has_9760_parameters"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("dense[self.links[0], self.links[1]]", "dense[self.links[0], self.links[1].flip(0)]",
         "lenet5_has_60000_parameters", ["sums of maps"]),
        ("return F.conv2d(x, dense, self.bias, self.stride)",
         "return F.conv2d(x, dense, None, self.stride)", "lenet5_has_60000_parameters",
         ["sums of maps"]),
        ("[:, None, None].sqrt()", "[:, None, None]", "lenet5_has_60000_parameters",
         ["variance"]),
        ("F.pad(x, [self.padding] * 4, value=self.background)", "F.pad(x, [self.padding] * 4)",
         "lenet1989_has_9760_parameters", ["by hand"]),
        ("return self.phi(self.output(self.phi(self.h3(h.flatten(1)))))",
         "return self.output(self.phi(self.h3(h.flatten(1))))", "lenet1989_has_9760_parameters",
         ["by hand"]),
        ("h = self.phi(self.c5(h))", "h = self.c5(h)", "cifar_net_has_62006_parameters",
         ["the tutorial's function"]),
        ('"lecun" if original else "he"', '"lecun"', "cifar_net_has_62006_parameters",
         ["variance, times n/2"]),
        ("nn.Parameter(torch.ones(maps))", "nn.Parameter(torch.full((maps,), 0.25))",
         "c5_is_a_convolution", ["coefficient 1 and bias 0 at first"]),
        ("nn.Parameter(torch.zeros(maps))", "nn.Parameter(torch.ones(maps))",
         "c5_is_a_convolution", ["coefficient 1 and bias 0 at first"]),
        ("- h.square().sum(dim=1, keepdim=True)", "- h.square().sum(dim=1, keepdim=True) / 2",
         "c5_is_a_convolution", ["the whole network"]),
        ("self.c3 = SparseConv2d(C3, 5, rng=rng)", "self.c3 = SparseConv2d(C3, 5)",
         "lenet5_has_60000_parameters", ["drawn where it is said"]),
        ('initialize_(self, "lecun", rng=rng)', 'initialize_(self, "he", rng=rng)',
         "lenet1989_has_9760_parameters", ["variance, times n"]),
        ('initialize_(self, "lecun", rng=rng)', 'initialize_(self, "lecun")',
         "lenet1989_has_9760_parameters", ["drawn where it is said"]),
        ('"he", rng=rng)', '"he")', "cifar_net_has_62006_parameters",
         ["drawn where it is said"]),
        ("if (height, width) != (side, side):", "if height != side:",
         "spatial_shrinks_channels_grow", ["what is refused"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_squashing_is_that_of_the_paper():
    squash = ScaledTanh()
    a = torch.tensor([-1.0, 1.0, 40.0], dtype=torch.float64)
    torch.testing.assert_close(squash(a), a.new_tensor([-1, 1, 1.7159]), atol=1e-5, rtol=0)
    bend = torch.linspace(0.5, 1.5, 101, dtype=torch.float64)
    second = torch.func.vmap(torch.func.grad(torch.func.grad(squash)))(bend)
    assert abs(float(bend[second.abs().argmax()]) - 1) < 0.02  # it bends most at 1


def test_a_full_table_is_torchs_convolution():
    rng = generator()
    conv = drawn_anew(SparseConv2d([[0, 1, 2]] * 4, 3, stride=2, padding=1), rng)
    theirs = nn.Conv2d(3, 4, 3, stride=2, padding=1, dtype=torch.float64)
    theirs.weight.data = conv.weight.data.view(4, 3, 3, 3)
    theirs.bias.data = conv.bias.data
    x = randn(rng, 2, 3, 9, 8)
    torch.testing.assert_close(conv(x), theirs(x))


def test_the_order_in_a_row_of_the_table_is_that_of_its_kernels():
    rng = generator()
    one, other = (drawn_anew(SparseConv2d(table, 3), rng) for table in ([[2, 0]], [[0, 2]]))
    other.weight.data, other.bias.data = one.weight.data.flip(0), one.bias.data
    x = randn(rng, 2, 3, 5, 6)
    torch.testing.assert_close(one(x), other(x))


def test_codes_are_fair_coins_and_distances_are_those_of_cdist():
    nearest = CodeDistance(2000, 5, rng=generator()).double()
    assert set(nearest.codes.unique().tolist()) == {-1, 1}
    assert nearest.codes.mean(dim=1).abs().max() < 5 / 2000**0.5
    h = randn(generator(), 3, 2000, 1, 2)
    expected = -torch.cdist(h.movedim(1, -1), nearest.codes) ** 2
    torch.testing.assert_close(nearest(h).movedim(1, -1), expected)
    assert not list(nearest.parameters())


@pytest.mark.parametrize("original", [False, True])
def test_gradients_reach_every_parameter_and_one_generator_draws_all(original):
    net, again = (LeNet5(original=original, channels=2, rng=generator(3)) for _ in range(2))
    assert all(map(torch.equal, net.state_dict().values(), again.state_dict().values()))
    before = torch.get_rng_state()
    LeNet5(original=original, rng=generator())
    assert torch.equal(torch.get_rng_state(), before)
    F.cross_entropy(net(torch.rand(4, 2, 32, 32)), torch.arange(4)).backward()
    assert all(one.grad is not None and one.grad.any() for one in net.parameters())


def test_the_network_of_1989_learns_every_bias_of_every_unit():
    net = LeNet1989(rng=generator())
    assert [tuple(one.bias.shape) for one in (net.h1, net.h2)] == [(12, 8, 8), (12, 4, 4)]
    net(2 * torch.rand(4, 1, 16, 16) - 1).square().sum().backward()
    assert all(one.grad is not None and one.grad.any() for one in net.parameters())
    blank = torch.full((2, 1, 16, 16), -1.0)  # nothing but background: all units of a map agree
    maps = net.h1(blank)
    torch.testing.assert_close(maps, maps[:, :, :1, :1].expand_as(maps))


def test_a_shift_by_four_pixels_moves_the_scores_by_one_place():
    net = LeNet5(rng=generator()).double()
    x = randn(generator(), 1, 1, 40, 72)
    torch.testing.assert_close(net.scan(x[:, :, 4:, 8:]), net.scan(x)[:, :, 1:, 2:])


@pytest.mark.parametrize("original", [False, True])
def test_models_come_back_from_disk(tmp_path, original):
    net = LeNet5(original=original, rng=generator())
    x = torch.rand(3, 1, 32, 32)
    save_model(tmp_path, net, {}, KEY, x[:1])
    again, _ = load_model(tmp_path)
    assert torch.equal(again(x), net(x))


def test_hero_finds_the_digits_and_loses_them_where_it_should():
    def right(**knobs):
        return int(strip.function(Seed(0), **knobs).title.split(": ")[1][0])

    assert right() == right(scroll=28.0) == 4
    assert right(shift=-12.0) <= 1
    assert right(spacing=12.0) <= 2


def test_learner_takes_pictures_of_any_size():
    for shape, original in itertools.product([(1, 8, 8), (3, 40, 50), (1, 28, 28)], (True, False)):
        model = reader.function(shape, 7, generator(), original=original)
        assert model(torch.rand(2, *shape)).shape == (2, 7)


def test_experiment_can_leave_the_original_out():
    outcome = page(KEY).experiments()["mnist_lenet"](Run(), epochs=1, original_epochs=0, limit=300)
    assert set(outcome.metrics) == {"test_error"}
    assert set(outcome.figures) == {"errors", "maps"}


@pytest.mark.parametrize(
    ("made", "shape", "sentence"),
    [
        (LeNet5, (1, 1, 28, 28), "LeNet5: images must be 32x32; got 28x28. Pad by 2."),
        (LeNet5, (1, 1, 64, 64), "LeNet5: images must be 32x32; got 64x64. Resize them to 32x32. "
         "Or call scan, for a map of scores."),
        (LeNet5, (1, 1, 32, 31), "LeNet5: images must be 32x32; got 32x31. Resize them to 32x32."),
        (LeNet5, (1, 3, 32, 32),
         "LeNet5: images must be of shape (B, 1, 32, 32); got (1, 3, 32, 32)."),
        (LeNet1989, (1, 1, 15, 15),
         "LeNet1989: images must be 16x16; got 15x15. Resize them to 16x16."),
        (LeNet1989, (1, 16, 16), "LeNet1989: images must be of shape (B, 1, 16, 16); got "
         "(1, 16, 16)."),
    ],
)
def test_wrong_pictures_are_told_in_one_sentence(made, shape, sentence):
    with pytest.raises(UsageError) as refused:
        made(rng=generator())(torch.zeros(shape))
    assert str(refused.value) == sentence


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(UsageError, match=r"^LeNet5: images must be of shape \(B, 1, H, W\), H and "
                       r"W at least 32; got \(1, 1, 32, 20\)\.$"):
        LeNet5().scan(torch.zeros(1, 1, 32, 20))
    with pytest.raises(UsageError, match=r"SparseConv2d: table must be of different maps in each"):
        SparseConv2d([[0, 0]], 3)
    with pytest.raises(UsageError, match=r"SparseConv2d: places must be two numbers, height and"):
        SparseConv2d([[0]], 3, places=(3,))
    with pytest.raises(UsageError, match=r"^SparseConv2d: x must be of 2 maps; got \(1, 3, 5, 5\)"):
        SparseConv2d([[0, 1]], 3)(torch.zeros(1, 3, 5, 5))
    with pytest.raises(UsageError, match=r"^SparseConv2d: x must be such that maps are 8x7; got "
                       r"3x3\.$"):
        SparseConv2d([[0]], 3, places=(8, 7))(torch.zeros(1, 1, 5, 5))
    with pytest.raises(UsageError, match=r"maps must be an integer in \[1, inf\); got 0"):
        Subsample(0)

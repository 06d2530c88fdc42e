import copy
import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from planting import assert_caught
from principia.convolution import (
    LocallyConnected2d,
    MinPool2d,
    SoftmaxPool2d,
    aliased_share,
    input_gradient,
    kernel_gradient,
    multiply_adds,
    output_size,
    padding_for,
    parameter_counts,
)
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run

KEY = "convolution/layer"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=1):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("return room // stride + 1", "return room // stride", "output_sizes", ["torch"]),
        ('"same": reach // 2', '"same": reach', "output_sizes", ["valid, same and full"]),
        ('"full": reach}', '"full": kernel - 1}', "output_sizes", ["valid, same and full"]),
        ("x.permute(2, 3, 0, 1, 4, 5)", "x.permute(2, 3, 0, 1, 5, 4)", "channels_are_summed",
         ["locally connected"]),
        ("return room // stride + 1", "return room // stride + (room != 4)", "channels_are_summed",
         ["7 x 7 x 3"]),
        ("x, delta = x.flip(-2, -1), delta.flip(-2, -1)", "x = x.flip(-2, -1)",
         "kernel_gradient_of_convolution", ["kernel"]),
        ("delta.transpose(0, 1)).transpose(0, 1)",
         "delta.transpose(0, 1)).transpose(0, 1).flip(-1)",
         "kernel_gradient_of_convolution", ["kernel of a correlation"]),
        ('if op == "convolution":', 'if op == "correlation":', "kernel_gradient_index",
         ["kernel_gradient"]),
        ("local.weight.copy_(layer.weight)", "local.weight[1:].copy_(layer.weight)",
         "shared_gradient_is_a_sum", ["weights"]),
        ("p - 1, p - 1 + left[0]", "p - 1 + left[0], p - 1",
         "input_gradient_is_transposed_convolution", ["stride 3: autograd"]),
        ("spread[..., ::stride, ::stride] = delta", "spread[..., ::stride, ::stride] = 2 * delta",
         "input_gradient_is_transposed_convolution", ["stride 2: autograd"]),
        ("zip((2, 3), kernel, self.stride", "zip((2, 3), kernel, self.stride[::-1]",
         "stride_is_decimation", ["locally connected"]),
        ("-F.max_pool2d(-x, self.r, self.stride)", "F.max_pool2d(x, self.r, self.stride)",
         "max_pool_is_the_formula", ["min"]),
        ("(windows / self.T).softmax", "(windows * self.T).softmax", "softmax_pool_limits",
         ["T → 0", "T → ∞", "formula"]),
        ("T: PositiveFloat = 1.0", "T: PositiveFloat = 2.0", "softmax_pool_limits",
         ["T = 1 by default"]),
        ("m * n * c + 1 ", "m * n * c", "dense_parameter_count", ["layers"]),
        ('"shared": K * window', '"shared": units * window', "local_parameter_count",
         ["convolution"]),
        ("F.pad(x, (right, right, down, down))", "F.pad(x, (right, right, down, down), value=1.0)",
         "tied_local_is_conv", ["tied, stride and padding"]),
        ("(2 * stride * cycles.abs() < 1)", "(2 * stride * cycles.abs() <= 1)",
         "decimation_loses_the_high_band", ["at the limit"]),
        ("for axis in space:", "for axis in space[:1]:", "decimation_loses_the_high_band",
         ["smoothed before, a picture"]),
        ("return 1 - kept.sum(dim=space)", "return 0.5 - kept.sum(dim=space)",
         "decimation_loses_the_high_band", ["the error is the loss and its aliases"]),
        ("found.get(name, 0) +", "0 *", "weights_are_used_at_every_place", ["used twice"]),
        ("places = x if isinstance(layer, Transposed) else y", "places = y",
         "weights_are_used_at_every_place", ["transposed"]),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_locally_connected_is_a_loop_over_places():
    layer = LocallyConnected2d(2, 3, (2, 3), (6, 8), stride=(2, 1), padding=(1, 2), rng=generator())
    layer = layer.double()
    layer.bias.data = normal(*layer.bias.shape, seed=2)
    x = normal(4, 2, 6, 8)
    y, padded = layer(x), F.pad(x, (2, 2, 1, 1))
    assert y.shape == (4, 3, 4, 10)
    for i in range(4):
        for j in range(10):
            window = padded[:, :, 2 * i : 2 * i + 2, j : j + 3].flatten(1)
            own = window @ layer.weight[i, j].flatten(1).T + layer.bias[i, j]
            torch.testing.assert_close(y[..., i, j], own)


def test_locally_connected_starts_by_he_and_its_gradients_are_right():
    layer = LocallyConnected2d(8, 16, 5, 20, rng=generator())
    assert float(layer.weight.detach().var()) == pytest.approx(2 / 200, rel=0.02)
    assert not layer.bias.any()
    again = LocallyConnected2d(8, 16, 5, 20, rng=generator())
    assert torch.equal(layer.weight, again.weight)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    LocallyConnected2d(1, 1, 2, 4, rng=generator())
    LocallyConnected2d.from_convolution(nn.utils.skip_init(nn.Conv2d, 1, 1, 2), 4)
    assert torch.equal(torch.get_rng_state(), before)
    LocallyConnected2d(1, 1, 2, 4)
    assert not torch.equal(torch.get_rng_state(), before)
    small = LocallyConnected2d(2, 2, 2, (3, 4), padding=1, rng=generator()).double()
    x = normal(2, 2, 3, 4).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, w, b: torch.func.functional_call(small, {"weight": w, "bias": b}, x),
        (x, small.weight, small.bias),
    )


def test_locally_connected_goes_on_from_a_convolution():
    conv = nn.Conv2d(2, 3, 3, stride=2, padding=1, bias=False).double()
    local = LocallyConnected2d.from_convolution(conv, (7, 8))
    assert local.bias is None
    assert local.weight.dtype == torch.float64
    local.weight.data[0, 0] += 1
    assert not torch.equal(local.weight[0, 0], conv.weight), "the copies are its own"
    again = copy.deepcopy(local)
    torch.testing.assert_close(again(normal(1, 2, 7, 8)), local(normal(1, 2, 7, 8)))
    words = "2, 3, kernel=(3, 3), size=(7, 8), stride=(2, 2), padding=(1, 1), bias=False"
    assert words in repr(local)


def test_output_sizes_are_those_of_numpy():
    x = np.ones(11)
    for kernel in (1, 2, 5):
        for kind in ("valid", "full"):
            padding = padding_for(kind, kernel)
            found = output_size(11, kernel, padding=padding)
            assert found == len(np.convolve(x, np.ones(kernel), mode=kind))
    assert output_size(3, 3) == 1
    assert output_size(224, 7, stride=2, padding=3) == 112  # the first layer of a ResNet


def test_gradients_have_the_shapes_of_their_parts():
    x, w = normal(5, 3, 9, 7), normal(4, 3, 2, 3, seed=2)
    delta = normal(5, 4, 8, 5, seed=3)
    assert kernel_gradient(x, delta).shape == w.shape
    assert input_gradient(delta, w).shape == x.shape
    # both are adjoint to the layer: <δ, x ⋆ w> = <∇x, x> = <∇w, w>
    whole = (delta * F.conv2d(x, w)).sum()
    torch.testing.assert_close((input_gradient(delta, w) * x).sum(), whole)
    torch.testing.assert_close((kernel_gradient(x, delta) * w).sum(), whole)


def test_softmax_pooling_is_safe_and_ordered():
    x = normal(2, 3, 8, 9)
    pools = [SoftmaxPool2d(3, T, stride=2)(x) for T in (0.01, 0.1, 1.0, 10.0)]
    for colder, warmer in itertools.pairwise(pools):
        assert (colder >= warmer - 1e-12).all(), "the derivative by 1/T is a variance"
    assert (pools[0] <= F.max_pool2d(x, 3, 2) + 1e-12).all()
    assert (pools[-1] >= F.avg_pool2d(x, 3, 2) - 1e-12).all()
    huge = torch.tensor([[[[1e4, -1e4], [0.0, 1e4]]]])
    assert SoftmaxPool2d(2)(huge).item() == 1e4
    assert torch.autograd.gradcheck(SoftmaxPool2d(2, 0.5), normal(1, 1, 4, 5).requires_grad_())
    torch.testing.assert_close(MinPool2d(2)(x), x.unfold(2, 2, 2).unfold(3, 2, 2).amin((-2, -1)))


def test_shares_of_waves():
    n = torch.arange(24.0)
    for cycles, share in [(1, 0), (5, 0), (6, 1), (7, 1), (12, 1)]:  # six a half of Nyquist
        wave = torch.cos(2 * torch.pi * cycles * n / 24 + 0.3)
        torch.testing.assert_close(
            aliased_share(wave, axes=1), torch.tensor(float(share)), atol=1e-5, rtol=0)
    rows = torch.cos(2 * torch.pi * 7 * n / 24)[:, None].expand(24, 10)
    torch.testing.assert_close(aliased_share(rows), torch.tensor(1.0))
    assert float(aliased_share(rows.mT.contiguous(), axes=1, stride=2).mean()) > 0.99
    assert float(aliased_share(rows, axes=1).mean()) < 1e-5, "level along the last axis"
    noise = normal(1000, 16, 16)
    assert float(aliased_share(noise).mean()) == pytest.approx(1 - (7 / 16) ** 2, abs=0.01)


def test_multiplications_are_counted_without_a_trace():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5),
        nn.ConvTranspose2d(8, 2, 2), nn.Flatten(), nn.Linear(2 * 6 * 6, 5),
    )
    before = int(net[1].num_batches_tracked)
    found = multiply_adds(net, (3, 11, 11))
    assert list(found) == ["0", "4", "6"]
    assert net.training
    assert int(net[1].num_batches_tracked) == before
    assert not any(one._forward_hooks for one in net.modules())
    with FlopCounterMode(display=False) as counter:
        net.eval()(torch.zeros(1, 3, 11, 11))
    assert 2 * sum(found.values()) == counter.get_total_flops()
    with torch.device("meta"):
        large = nn.Sequential(nn.Conv2d(3, 512, 7, padding=3), nn.Conv2d(512, 512, 3, groups=512))
    counts = multiply_adds(large, (3, 224, 224))
    assert counts == {"0": 147 * 512 * 224**2, "1": 9 * 512 * 222**2}
    assert multiply_adds(nn.Conv1d(2, 4, 3).double(), (2, 10)) == {"": 24 * 8}


def test_layers_have_the_parameters_that_are_counted():
    counts = parameter_counts(9, 6, 2, 4, 3, 7)
    layers = {
        "shared": nn.Conv2d(2, 7, (4, 3)), "local": LocallyConnected2d(2, 7, (4, 3), (9, 6)),
        "dense": nn.Linear(2 * 9 * 6, 7 * 6 * 4),
    }
    for kind, layer in layers.items():
        assert counts[kind] == sum(one.numel() for one in layer.parameters())


def test_the_experiment_has_three_nets_of_the_same_units():
    run = Run()
    outcome = page(KEY).experiments()["weight_sharing"](run, draws=2, epochs=1, headline=50)
    assert set(run.curves) == {f"{k}-50-{d}" for k in ("shared", "local", "dense") for d in (0, 1)}
    assert isinstance(run.model[0], nn.Conv2d)
    assert {"sizes", "kernels", "pairs with local", "pairs with dense"} <= set(outcome.figures)


def test_bad_input_is_told_in_one_sentence():
    local = LocallyConnected2d(3, 2, 3, (8, 7))
    with pytest.raises(UsageError, match=(
        r"^LocallyConnected2d: x must be of shape \(B, 3, 8, 7\); got \(5, 4, 8, 7\)\.$"
    )):
        local(torch.ones(5, 4, 8, 7))
    for bad in (0, (3, 0), (3, 3, 3), 2.0, "same", (1, True)):
        with pytest.raises(UsageError, match=(
            r"^LocallyConnected2d: kernel must be an integer of 1 or more, or two of them; got "
        )):
            LocallyConnected2d(1, 1, bad, 5)
    with pytest.raises(UsageError, match="padding must be an integer of 0 or more, or two of"):
        LocallyConnected2d(1, 1, 3, 5, padding=-1)
    with pytest.raises(UsageError, match=(
        r"^output_size: n \+ 2 padding must be at least 9 for such a window; got 7\. Take a"
    )):
        output_size(5, 5, padding=1, dilation=2)
    for kernel, options in ((4, {}), (2, {"dilation": 3})):
        with pytest.raises(UsageError, match=(
            r"^padding_for: kernel must be odd for 'same', so that both sides get as many zeros; "
            rf"got {kernel}\. nn\.Conv2d\(\.\.\., padding='same'\) puts one more on the right"
        )):
            padding_for("same", kernel, **options)
    for pool in (SoftmaxPool2d(3), MinPool2d(3)):
        with pytest.raises(UsageError, match=(
            r"2d: x must be 3 or more pixels high and wide; got \(1, 1, 2, 5\)\. The window must"
        )):
            pool(torch.ones(1, 1, 2, 5))
    mirrored = {"padding_mode": "reflect"}
    for options in ({"groups": 2}, {"dilation": 2}, {"padding": "same"}, mirrored):
        with pytest.raises(UsageError, match="layer must be without groups and dilation, padded"):
            LocallyConnected2d.from_convolution(nn.Conv2d(2, 2, 3, **options), 8)
    with pytest.raises(UsageError, match="delta must be maps of 2 pictures, no larger than these"):
        kernel_gradient(torch.ones(2, 3, 6, 5), torch.ones(3, 4, 4, 4))
    with pytest.raises(UsageError, match="delta must be maps of 2 pictures, no larger than these"):
        kernel_gradient(torch.ones(2, 3, 6, 5), torch.ones(2, 4, 4, 6))
    with pytest.raises(UsageError, match=r"input_gradient: delta must be 4 maps; got \(2, 3, 4"):
        input_gradient(torch.ones(2, 3, 4, 4), torch.ones(4, 1, 2, 2))
    for bad in ((6, 9), (9, 7), (9, 8, 1)):
        with pytest.raises((UsageError, ValueError)):
            input_gradient(torch.ones(2, 4, 4, 4), torch.ones(4, 1, 2, 2), stride=2, size=bad)
    with pytest.raises(UsageError, match=r"size must be from \[8, 8\] to less than 2 more"):
        input_gradient(torch.ones(2, 4, 4, 4), torch.ones(4, 1, 2, 2), stride=2, size=(8, 10))
    with pytest.raises(UsageError, match="aliased_share: axes must be at most 1 for such x; got 2"):
        aliased_share(torch.ones(8))

import numpy as np
import pytest
import torch
from torch import nn

from planting import assert_caught
from principia.convolution.receptive_field import (
    dilate,
    effective_field,
    gradient_mask,
    path_counts,
    receptive_field,
)
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run

KEY = "convolution/receptive_field"


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("counts[None, None], taps[None, None], stride=stride)",
         "counts[None, None], taps[None, None], stride=1)", "gradient_support_is_the_formula",
         ["the places themselves"]),
        ("else value[axis]", "else value[0]", "gradient_support_is_the_formula",
         ["in two dimensions"]),
        ("size += (kernel - 1) * dilation * jump", "size += kernel * dilation * jump",
         "field_grows_with_depth", ["stride 1", "stride 2"]),
        ("jump *= stride", "jump *= 1", "field_grows_with_depth", ["stride 2"]),
        ("* axes)] = kernel", "* axes)] = 2 * kernel", "dilated_is_zero_stuffed",
         ["d = 1", "along the last axis"]),
        ("kernel.ndim > 2 else", "kernel.ndim > 1 else", "dilated_is_zero_stuffed",
         ["which axes, by default"]),
        ("size += (kernel - 1) * dilation * jump", "size += (kernel - 1) * jump",
         "doubling_dilations_grow_exponentially_in_depth",
         ["field of L layers", "log₂ of the field over L", "one layer: slope", "of its gradient"]),
        ("shares = total / total.sum()", "shares = total / total.max()",
         "effective_field_grows_like_root_depth", ["sum"]),
        ("gradient.abs() if of", "gradient.square() if of",
         "effective_field_grows_like_root_depth", ["one kernel", "sizes and squares"]),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_published_fields():
    alexnet = [(11, 4, 1), (3, 2, 1), (5, 1, 1), (3, 2, 1), *[(3, 1, 1)] * 3, (3, 2, 1)]
    assert receptive_field(alexnet).size == 195  # Araujo, Norris and Sim (2019), table 1
    block = [*[(3, 1, 1)] * 2, (2, 2, 1)]
    deep = [*[(3, 1, 1)] * 3, (2, 2, 1)]
    assert receptive_field([*block * 2, *deep * 3]).size == 212  # VGG-16, ibid.
    wavenet = [(2, 1, 2**place) for place in range(10)]
    assert receptive_field(wavenet).size == 1024  # van den Oord et al. (2016), sec. 2.1


def test_a_net_and_its_triples_have_one_field():
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
        nn.Sequential(nn.MaxPool2d(3, 2, padding=1), nn.Dropout2d(), nn.GELU()),
        nn.Conv2d(4, 4, 3, padding="same", dilation=2), nn.AvgPool2d(2), nn.Identity(),
        nn.Conv2d(4, 2, 3, padding="valid"), nn.PReLU(), nn.Hardswish(),
    )
    triples = [(3, 1, 1, 1), (3, 2, 1, 1), (3, 1, 2, 2), (2, 2, 1, 0), (3, 1, 1)]
    assert receptive_field(net) == receptive_field(triples) == (23, 4, -6)
    assert receptive_field([]) == (1, 1, 0)


def test_paths_are_products_of_polynomials():
    found = path_counts([(3, 2, 1), (2, 1, 3), (4, 1, 1)])
    expected = np.ones(1)
    for taps, dilation, jump in ((3, 1, 1), (2, 3, 2), (4, 1, 2)):
        stuffed = np.zeros((taps - 1) * dilation * jump + 1)
        stuffed[:: dilation * jump] = 1
        expected = np.convolve(expected, stuffed)
    np.testing.assert_array_equal(found, expected)
    assert found.sum() == 3 * 2 * 4
    assert path_counts([]).tolist() == [1.0]


def test_the_mask_leaves_the_model_alone_and_opens_what_is_shut():
    net = nn.Sequential(nn.Conv1d(1, 3, 3), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(3, 1, 1))
    nn.init.constant_(net[0].weight, -1.0)  # all units are silent for positive inputs
    before = {name: one.clone() for name, one in net.state_dict().items()}
    torch.manual_seed(1)
    state = torch.get_rng_state()
    mask = gradient_mask(net, (1, 12), (2,))
    assert torch.equal(torch.get_rng_state(), state)
    assert mask.tolist() == [place in range(4, 8) for place in range(12)]
    assert all(torch.equal(before[name], one) for name, one in net.state_dict().items())
    assert net.training
    assert isinstance(net[2], nn.MaxPool1d)
    with torch.no_grad():
        assert torch.equal(gradient_mask(net, (1, 12), (2,)), mask)
    flat = nn.Sequential(nn.Conv2d(2, 1, (3, 1), padding=(1, 0)))
    seen = gradient_mask(flat, (2, 5, 4), (0, 2)).nonzero().tolist()
    assert seen == [[0, 2], [1, 2]], "beyond the edge there is nothing to see"


def test_kernels_are_dilated_as_numpy_pads_them():
    w = torch.arange(1.0, 7.0).view(2, 3)
    wide = dilate(w, 3)
    assert wide.shape == (4, 7)
    np.testing.assert_array_equal(wide[::3, ::3], w)
    assert wide.sum() == w.sum()
    assert dilate(w.view(1, 2, 3), 2).shape == (1, 2, 5)
    assert dilate(w.view(1, 2, 3), 2, axes=2).shape == (1, 3, 5)
    grad = torch.ones(3, requires_grad=True)
    dilate(grad, 2).sum().backward()
    assert grad.grad.tolist() == [1.0] * 3


def test_effective_fields_are_seeded_and_centered():
    net = nn.Sequential(*(nn.Conv2d(n, m, 3, padding=1) for n, m in ((1, 4), (4, 4), (4, 2))))
    net.eval()
    first, again = (
        effective_field(net, (1, 9, 7), (4, 3), draws=3, rng=torch.Generator().manual_seed(2))
        for _ in range(2)
    )
    assert torch.equal(first[0], again[0])
    shares, spread = effective_field(
        net, (1, 9, 7), (4, 3), draws=400, rng=torch.Generator().manual_seed(3))
    assert shares.shape == (9, 7)
    assert float(shares.sum()) == pytest.approx(1)
    rows = shares.sum(dim=1) @ torch.arange(9.0).double()
    assert float(rows) == pytest.approx(4, abs=0.1)
    assert spread.tolist() == pytest.approx([2**0.5, 2**0.5], rel=0.04)  # 3 kernels of 2/3
    own, _ = effective_field(nn.Conv1d(1, 1, 2, bias=False).double(), (1, 2), (0,), of="size")
    assert own.shape == (2,)
    weight = torch.tensor([[[3.0, -1.0]]])
    one = nn.Conv1d(1, 1, 2, bias=False)
    one.weight.data = weight
    assert effective_field(one, (1, 2), (0,))[0].tolist() == pytest.approx([0.9, 0.1])
    assert effective_field(one, (1, 2), (0,), of="size")[0].tolist() == pytest.approx([0.75, 0.25])


def test_the_experiment_asks_inside_and_outside_of_the_field():
    run = Run()
    outcome = page(KEY).experiments()["how_far"](run, samples=200, epochs=1, channels=4)
    assert {one.rpartition("-")[0] for one in run.curves} == {"plain", "dilated"}
    assert set(outcome.figures) == {"distances", "fields"}
    x = torch.randn(2, 1, 64)
    changed = x.clone()
    changed[:, :, :32] += 1  # outside of the dilated field
    torch.testing.assert_close(run.model(changed), run.model(x))


def test_bad_input_is_told_in_one_sentence():
    for layer in (nn.Flatten(), nn.MultiheadAttention(4, 2), nn.Linear(2, 2), nn.Softmax(dim=-1),
                  nn.ConvTranspose2d(1, 1, 2)):
        with pytest.raises(UsageError, match=(
            r"^receptive_field: layers must be convolutions, pooling and layers that act on each "
            rf"place alone, in nn\.Sequential; got {type(layer).__name__}\("
        )):
            receptive_field(nn.Sequential(nn.Conv2d(1, 1, 3), nn.Sequential(layer)))
    for bad in ((3, 1), (0, 1, 1), (3, 0, 1), (3, 1, 0), (3, 1, 1, -1), (3, 1, 1, 1, 1)):
        with pytest.raises(UsageError, match=(
            r"layers must be \(kernel, stride, dilation\) of 1 or more, perhaps with a padding; got"
        )):
            receptive_field([(3, 1, 1), bad])
    net = nn.Conv1d(1, 2, 3)
    with pytest.raises(UsageError, match=r"unit must be in a map of \(8,\); got \(8,\)"):
        gradient_mask(net, (1, 10), (8,))
    with pytest.raises(UsageError, match=r"unit must be 1 numbers; got \(0, 0\)\. Name a place in"):
        gradient_mask(net, (1, 10), (0, 0))
    with pytest.raises(UsageError, match="model must be one of plain pooling; got MaxPool1d"):
        gradient_mask(nn.Sequential(net, nn.MaxPool1d(2, dilation=2)), (1, 10), (0,))
    with pytest.raises(UsageError, match="dilate: axes must be at most 1 for such a kernel; got 2"):
        dilate(torch.ones(3), 2, axes=2)

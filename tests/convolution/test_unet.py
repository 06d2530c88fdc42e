import numpy as np
import pytest
import torch
from scipy.spatial.distance import dice as dissimilarity
from sklearn.metrics import jaccard_score
from torch import nn

from planting import assert_caught
from principia.convolution.experiments.unet import hidden
from principia.convolution.unet import UNet, faded, iou, soft_dice
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.runs.models import load_model, save_model

KEY = "convolution/unet"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("rim = 4 if", "rim = 2 if", "valid_size"),
        ("[width << level for", "[width + level for", "twenty_three_convolutions"),
        ('mode="circular")\n', 'mode="replicate")\n', "shift_equivariance_by_blocks"),
        ("[..., 2:-2, 2:-2]", "[..., 1:-3, 2:-2]", "skips_carry_detail"),
        ("self.bridge[level](before, x), x]", "x, self.bridge[level](before, x)]",
         "skips_carry_detail"),
        ("F.max_pool2d(seen[-1], 2)", "F.avg_pool2d(seen[-1], 2)", "skips_carry_detail"),
        ("2 * both / total.clamp", "both / total.clamp", "dice_is_the_overlap"),
        ("either = first + second - both", "either = first + second", "dice_is_the_overlap"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("if n % 2 or n < 2", "if n < 2", "valid_size", ["same"]),
        ("near[: 1 + (near[0] < n)]", "near[: 1]", "valid_size", ["the nearest that fit"]),
        ("width: PositiveInt = 64", "width: PositiveInt = 32", "twenty_three_convolutions",
         ["by default"]),
        ("nn.Sequential(undrawn(nn.Conv2d, n, m, 1)", "nn.Sequential(undrawn(nn.Conv2d, n, n, 1)",
         "twenty_three_convolutions", ["interpolated"]),
        ("layer.in_channels**-0.5", "layer.in_channels**-1.0", "twenty_three_convolutions",
         ["first weights"]),
        ("nn.init.zeros_(layer.bias)", "nn.init.ones_(layer.bias)", "twenty_three_convolutions",
         ["first biases"]),
        ("return by * y", "return by * y + y[..., :1]", "skips_carry_detail",
         ["all silent: a constant"]),
        ("[*model.bridge][::-1]", "[*model.bridge]", "skips_carry_detail",
         ["the fine bridge sees 9 x 9 pixels"]),
        ("(whole - part) // 2", "(whole - part) // 4", "skips_carry_detail", ["what it computes"]),
        ("[..., 2:-2, 2:-2]", "[..., 1:-3, 2:-2]", "skips_carry_detail", ["with a circular rim"]),
        ("if not self.circular:", "if False:", "skips_carry_detail", ["with zeros at the rim"]),
        ("            self.output_side(side)\n", "            pass\n", "valid_size",
         ["a picture that does not fit"]),
        ("either = first + second - both", "either = first + second", "dice_is_the_overlap",
         ["J of sets"]),
        ("(p + g).sum", "(p * p + g).sum", "dice_is_the_overlap", ["D of probabilities"]),
        ("both / either, 1.0)", "both / either, 0.0)", "dice_is_the_overlap", ["nowhere"]),
        (".clamp(min=torch.finfo(p.dtype).tiny)", "", "dice_is_the_overlap", ["its gradient"]),
        ("classes: PositiveInt = 2", "classes: PositiveInt = 3", "dice_is_the_overlap",
         ["two classes by default"]),
        ("movedim(-1, 1).to(p)", "movedim(-1, 1).double()", "dice_is_the_overlap", ["kept type"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_the_network_of_the_paper_has_its_parameters():
    # 9 n m + m of each 3 x 3 convolution, 4 n m + m of each that doubles, 65 a class of the last
    down = [(1, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 512),
            (512, 512), (512, 1024), (1024, 1024)]
    up = [pair for m in (512, 256, 128, 64) for pair in ((2 * m, m), (m, m))]
    total = sum(9 * n * m + m for n, m in (*down, *up))
    total += sum(4 * 2 * m * m + m for m in (512, 256, 128, 64)) + 65 * 2
    with torch.device("meta"):
        net = UNet(1, 2)
    assert sum(one.numel() for one in net.parameters()) == total


@pytest.mark.parametrize("padding", ["same", "valid", "circular"])
@pytest.mark.parametrize("up", ["transposed", "bilinear"])
@pytest.mark.parametrize("skip", [False, True])
def test_gradients_reach_every_parameter(padding, up, skip):
    net = UNet(2, 3, depth=2, width=3, padding=padding, up=up, skip=skip, rng=generator())
    side = 44 if padding == "valid" else 12
    scores = net(torch.rand(2, 2, side, side + 8, generator=generator(1)))
    assert scores.shape[2:] == ((4, 12) if padding == "valid" else (12, 20))
    scores.square().sum().backward()
    assert all(one.grad is not None and one.grad.any() for one in net.parameters())


def test_inside_the_rim_padding_does_not_matter():
    # the network without padding computes the middle of what the one with zeros computes
    nets = [UNet(1, 2, depth=1, width=4, padding=one) for one in ("same", "valid")]
    nets[1].load_state_dict(nets[0].state_dict())
    x = torch.randn(1, 1, 24, 30, generator=generator())
    with torch.no_grad():
        whole, middle = (net.double()(x.double()) for net in nets)
    torch.testing.assert_close(middle, whole[..., 8:-8, 8:-8])


def test_interpolation_is_torchs_away_from_the_rim():
    double = UNet(1, 1, depth=1, width=2, padding="circular", up="bilinear").up[0][1]
    x = torch.randn(2, 3, 5, 6, generator=generator())
    ours, theirs = double(x), nn.Upsample(scale_factor=2, mode="bilinear")(x)
    torch.testing.assert_close(ours[..., 1:-1, 1:-1], theirs[..., 1:-1, 1:-1])
    rolled = double(x.roll((2, 3), (-2, -1)))
    torch.testing.assert_close(rolled, ours.roll((4, 6), (-2, -1)))


def test_fading_is_undone_and_by_default_changes_nothing():
    net = UNet(1, 2, depth=2, width=4, rng=generator())
    x = torch.randn(1, 1, 16, 16, generator=generator(1))
    before = net(x)
    with faded(net):
        assert torch.equal(net(x), before)
    with faded(net, (0.0, 1.0), 0.5):
        assert not torch.equal(net(x), before)
    assert torch.equal(net(x), before)


def test_the_rng_draws_everything_and_the_global_generator_is_left_alone():
    state = torch.get_rng_state()
    one, two = (UNet(2, 3, depth=2, width=4, rng=generator(5)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    pairs = zip(one.parameters(), two.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)


def test_it_comes_back_from_disk(tmp_path):
    net = UNet(2, 3, depth=2, width=4, up="bilinear", padding="circular", rng=generator())
    save_model(tmp_path, net, {})
    back, _ = load_model(tmp_path)
    x = torch.rand(1, 2, 8, 12)
    assert torch.equal(back(x), net(x))


def test_overlap_is_that_of_scikit_learn_and_dice_that_of_scipy():
    said, true = (torch.randint(4, (6, 5, 7), generator=generator(one)) for one in (1, 2))
    theirs = jaccard_score(true.flatten(), said.flatten(), average=None)
    np.testing.assert_allclose(iou(said, true, classes=4), theirs)
    hard = torch.nn.functional.one_hot(said, 4).movedim(-1, 1).double()
    theirs = [
        1 - dissimilarity((true == k).flatten(), (said == k).flatten()) for k in range(4)
    ]
    np.testing.assert_allclose(soft_dice(hard, true), theirs)


def test_dice_can_be_learned_from():
    scores = torch.randn(2, 3, 4, 4, generator=generator(), dtype=torch.float64)
    target = torch.randint(3, (2, 4, 4), generator=generator(1))
    scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda s: soft_dice(s.softmax(dim=1), target), [scores])


def test_hidden_digits_are_where_the_mask_says():
    strokes = torch.zeros(50, 6, 6)
    strokes[:, 1:4, 2] = 1
    x, mask = hidden(strokes, 16, slice(None, 320), generator(), ink=1.0, white=True)
    assert x.shape == (50, 3, 16, 16)
    assert mask.sum(dim=(1, 2)).tolist() == [3] * 50
    assert (x.movedim(1, -1)[mask == 1] == 1).all()
    rows, columns = mask.any(dim=2).float().argmax(dim=1), mask.any(dim=1).float().argmax(dim=1)
    assert (int(rows.min()), int(rows.max())) == (1, 11)
    assert (int(columns.min()), int(columns.max())) == (2, 12)


def test_quick_experiment_draws_and_takes_pairs():
    run = Run()
    page(KEY).experiments()["segment_digits"](run, epochs=1, pairs=2, pictures=100, depth=1)
    assert set(run.curves) == {"with-0", "without-0", "with-1", "without-1"}
    assert set(run.figures) == {"pairs", "answers", "edges"}
    assert run.metrics["gain_in_errors"] == run.metrics["gain_in_errors"]


def test_bad_input_is_told_in_one_sentence():
    net = UNet(3, 2, width=1)
    with pytest.raises(UsageError, match=r"^UNet: x must be of shape \(B, 3, H, W\); got \(2, 1"):
        net(torch.zeros(2, 1, 16, 16))
    with pytest.raises(UsageError, match=(
        r"^UNet: x must be a picture with sides divisible by 16; got 40\. The nearest that fits "
        r"is 32 or 48\.$"
    )):
        net(torch.zeros(1, 3, 32, 40))
    with pytest.raises(UsageError, match=r"got 5\. The nearest that fits is 16\.$"):
        net.output_side(5)
    with pytest.raises(UsageError, match=(
        r"^UNet: x must be a picture whose maps have even sides before all 4 poolings; got "
        r"570\. The nearest that fits is 556 or 572\.$"
    )):
        UNet(3, 2, width=1, padding="valid")(torch.zeros(1, 3, 570, 572))
    with pytest.raises(UsageError, match=r"got 20\. The nearest that fits is 188\.$"):
        UNet(3, 2, width=1, padding="valid").output_side(20)
    with pytest.raises(UsageError, match=r"depth must be an integer in \[1, inf\); got 0"):
        UNet(3, 2, depth=0)
    with pytest.raises(UsageError, match=r"padding must be one of 'same', 'valid', 'circular'"):
        UNet(3, 2, padding="zeros")
    with pytest.raises(UsageError, match=r"^soft_dice: target must be of shape \(2, 5\); got \(2"):
        soft_dice(torch.ones(2, 3, 5), torch.zeros(2, 4).long())
    with pytest.raises(UsageError, match=r"^iou: prediction must be of shape \(4,\), one class a"):
        iou(torch.zeros(4, 2).long(), torch.zeros(4).long())
    with pytest.raises(UsageError, match=(
        r"^iou: target must be of values from 0 to 1; got 'values from 0 to 7'"
    )):
        iou(torch.zeros(3).long(), torch.tensor([0, 7, 1]))

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import ndimage, stats
from torch import nn

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit
from principia.networks.mlp import MLP
from principia.regularization.augmentation import (
    Augment,
    Brightness,
    Mirror,
    Pick,
    Rotate,
    Scale,
    Shear,
    Shift,
    equivariance_error,
    invariance_error,
    orbit,
    orbit_average,
)
from principia.regularization.experiments.augmentation import augmentation

KEY = "regularization/augmentation"
ALL = (Shift(-2, 2), Rotate(-20, 20), Scale(0.8, 1.2), Shear(-0.2, 0.2), Mirror(), Brightness(0, 2),
       Pick("square"))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(*shape, seed=0):
    return torch.rand(shape, generator=generator(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("[[1, 0, right], [0, 1, down]]", "[[1, 0, right], [0, 1, -down]]",
         "resampled_at_the_inverse"),
        ("[[c, s, 0], [-s, c, 0]]", "[[c, -s, 0], [s, c, 0]]", "resampled_at_the_inverse"),
        ("[0, factors, 0]]", "[0, 1 / factors, 0]]", "resampled_at_the_inverse"),
        ("_between(self, count, rng), 0], [0, 1, 0]]", "0, 0], [_between(self, count, rng), 1, 0]]",
         "resampled_at_the_inverse"),
        ("rng) < self.chance, -1.0, 1.0)", "rng) < self.chance, 1.0, -1.0)",
         "resampled_at_the_inverse"),
        ("return x * _between(", "return x + _between(", "resampled_at_the_inverse"),
        ("after @ before", "before @ after", "resampled_at_the_inverse"),
        ("* half / half[:, None]", "", "resampled_at_the_inverse"),
        ("return guises[chosen, torch", "return guises[0 * chosen, torch", "online_is_unbiased"),
        ("shifts=k, dims=-1)", "shifts=min(k, 2), dims=-1)", "full_orbit_fit_is_invariant"),
        ("return self(batch[0], rng), *batch[1:]", "return batch", "online_is_unbiased"),
        ("guises.shape[:2]).mean(dim=0)", "guises.shape[:2])[0]", "orbit_average_is_exact"),
        ("guises.shape[:2]).mean(dim=0)", "guises.shape[:2]).mean(dim=0).neg()",
         "orbit_average_is_exact"),
        ("ends.low + (ends.high - ends.low) *", "ends.low + ends.high *",
         "each_picture_has_its_own_draw"),
        ("pictures = _resampled(", "_resampled(", "augmentation_buys_invariance"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("tau(outputs)).norm()", "outputs).norm()", "conv_is_equivariant_not_invariant",
         ["commutes"]),
        ("(f(tau(x)) - outputs).norm()", "(f(x) - outputs).norm()",
         "conv_is_equivariant_not_invariant", ["shifts are seen"]),
        ("- outputs).norm() / outputs", "- outputs).norm() / -outputs",
         "conv_is_equivariant_not_invariant", ["errors by hand"]),
        ("rng) < self.chance, -1.0, 1.0)", "rng) < self.chance, -1.0, 2.0)",
         "each_picture_has_its_own_draw", ["or left as they are"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_the_least_training_buys_invariance_too():
    """The corner of the knobs where nets learn least: the longest shifts, few units and steps."""
    claim = page(KEY).claim("augmentation_buys_invariance")
    least = {name: claim.knobs[name].domain.low for name in ("hidden", "steps")}
    evidence = claim.function(Seed(0), reach=3, **least)
    assert evidence.verdict == "holds"
    lower = dict(evidence.parts)["invariance error lower, in standard errors"]
    assert lower.expected == 3
    assert claim.function(Seed(0), reach=3, **least, transforms="none").verdict == "refuted"


# Affine maps, against SciPy and torch


@pytest.mark.parametrize("seed", range(3))
def test_a_composed_warp_is_scipys_affine_transform(seed):
    rng = np.random.default_rng(seed)
    shift, turn, factor, lean = rng.uniform([-2, -40, 0.8, -0.4], [2, 40, 1.3, 0.4])
    x = pictures(1, 15, 11, seed=seed)
    ours = Augment(
        Shear(lean, lean), Rotate(turn, turn), Shift(shift, shift), Scale(factor, factor)
    )(x[None])[0, 0]
    c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    # SciPy wants rows before columns, and where a pixel comes from
    A = factor * np.array([[c, -s], [s, c]]) @ np.array([[1, 0], [lean, 1]])
    back, center = np.linalg.inv(A), (np.array(x.shape[1:]) - 1) / 2
    offset = center - back @ (center + factor * shift)
    theirs = ndimage.affine_transform(
        x[0].numpy(), back, offset, order=1, mode="grid-constant", cval=0.0
    )
    np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-10)


def test_right_angles_mirrors_and_whole_shifts_are_exact():
    x = pictures(3, 2, 7, 7)
    for quarter in range(-4, 5):
        found = Augment(Rotate(90 * quarter, 90 * quarter))(x)
        torch.testing.assert_close(found, x.rot90(quarter, (2, 3)))
    torch.testing.assert_close(Augment(Mirror(1.0))(x), x.flip(3))
    torch.testing.assert_close(Augment(Mirror(0.0))(x), x)
    torch.testing.assert_close(Augment(Shift(2, 2))(x), F.pad(x, (2, -2, 2, -2)))
    border = Augment(Shift(2, 2), outside="border")(x)
    torch.testing.assert_close(border, F.pad(x, (2, 0, 2, 0), mode="replicate")[..., :7, :7])
    mirrored = Augment(Shift(2, 2), outside="reflection")(x)
    torch.testing.assert_close(mirrored[..., :2, 2:], x[..., :2, :5].flip(2))


def test_order_is_kept_between_maps_and_other_functions():
    x = pictures(1, 1, 6, 6)

    def spot(x, rng):  # a function of the user's own
        return x.index_fill(-1, torch.tensor([0]), 5.0)

    torch.testing.assert_close(Augment(spot, Mirror(1.0))(x), spot(x, None).flip(3))
    torch.testing.assert_close(Augment(Mirror(1.0), spot)(x), spot(x.flip(3), None))
    torch.testing.assert_close(
        Augment(Rotate(90, 90), Pick("square", chances=(0,) * 4 + (1, 0, 0, 0)))(x),
        x.rot90(1, (2, 3)).flip(3),
    )


# Draws


def test_draws_are_uniform_and_apart():
    rng, count = generator(), 4000
    matrices = Shift(-1, 3).matrices(count, rng)
    right, down = matrices[:, 0, 2], matrices[:, 1, 2]
    for one in (right, down):
        assert stats.kstest(one.numpy(), stats.uniform(-1, 4).cdf).pvalue > 1e-6
    assert abs(float(torch.corrcoef(torch.stack([right, down]))[0, 1])) < 5 / count**0.5
    turned = Rotate(-30, 60).matrices(count, rng)
    angles = torch.rad2deg(torch.atan2(turned[:, 0, 1], turned[:, 0, 0]))
    assert stats.kstest(angles.numpy(), stats.uniform(-30, 90).cdf).pvalue > 1e-6
    share = (Mirror(0.3).matrices(count, rng)[:, 0, 0] < 0).double().mean()
    assert abs(float(share) - 0.3) < 5 * (0.21 / count) ** 0.5
    bright = Brightness(0.5, 2)(torch.ones(count, 1, 1, 1), rng).flatten()
    assert stats.kstest(bright.numpy(), stats.uniform(0.5, 1.5).cdf).pvalue > 1e-6


def test_elements_are_picked_by_their_chances():
    x = torch.arange(8.0).expand(6000, 1, 1, 8)
    chances = (1, 2, 0, 0, 3, 0, 0, 0)
    first = Pick("shifts", chances=chances)(x, generator())[:, 0, 0, 0]  # element k: 8 - k
    counts = torch.bincount((-first.long()) % 8, minlength=8)
    assert not counts[[2, 3, 5, 6, 7]].any()
    expected = np.array([1000, 2000, 3000])
    assert stats.chisquare(counts[[0, 1, 4]].numpy(), expected).pvalue > 1e-6


@pytest.mark.parametrize("one", ALL, ids=lambda one: type(one).__name__)
def test_each_picture_has_its_own_draw_and_its_channels_share_it(one):
    x = pictures(1, 1, 9, 9).repeat(40, 3, 1, 1)
    found = Augment(one)(x, generator())
    torch.testing.assert_close(found[:, :1].expand_as(found), found)
    assert len(found[:, 0].flatten(1).round(decimals=6).unique(dim=0)) > 1
    assert torch.equal(found, Augment(one)(x, generator()))
    assert not torch.equal(found, Augment(one)(x, generator(1)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_flat_pictures_of_a_known_side_are_the_same_pictures(dtype):
    x = pictures(5, 1, 6, 6).to(dtype)
    augment = Augment(*ALL, side=6)
    found = augment(x, generator())
    assert found.dtype == dtype
    assert torch.equal(found, Augment(*ALL)(x, generator()))
    rows = x.flatten(1)
    for other in (rows, rows.mT.contiguous().mT):
        again = augment(other, generator())
        assert again.shape == other.shape
        assert torch.equal(again.view_as(found), found)
    assert torch.equal(Augment()(x), x)
    colored = pictures(2, 3, 9, 9).to(dtype)  # a side is for rows alone
    assert torch.equal(augment(colored, generator()), Augment(*ALL)(colored, generator()))


def test_gradients_pass_through():
    x = pictures(2, 1, 5, 5).requires_grad_()
    augment = Augment(Shift(-1, 1), Rotate(-20, 20), Brightness(0.5, 2))
    assert torch.autograd.gradcheck(lambda x: augment(x, generator()), x)


# Orbits


@pytest.mark.parametrize(("group", "order"), [("rotations", 4), ("square", 8), ("shifts", 5)])
def test_orbits_are_those_of_groups(group, order):
    x = pictures(1, 5, 5)
    guises = orbit(x, group)
    assert guises.shape == (order, 1, 5, 5)
    assert torch.equal(guises[0], x)
    assert len(guises.flatten(1).unique(dim=0)) == order  # all different
    for guise in guises:  # and closed: the orbit of each is the same set
        both = torch.cat([guises, orbit(guise, group)])
        assert len(both.flatten(1).unique(dim=0)) == order


def test_orbit_average_is_the_mean_and_trains_its_network():
    net = nn.Sequential(nn.Flatten(), nn.Linear(9, 2)).double()
    average, x = orbit_average(net, "rotations"), pictures(4, 3, 3)
    expected = sum(net(x.rot90(k, (1, 2))) for k in range(4)) / 4
    torch.testing.assert_close(average(x), expected)
    assert {id(one) for one in average.parameters()} == {id(one) for one in net.parameters()}
    own = orbit_average(net, [lambda x: x, lambda x: x.flip(2)])
    with torch.no_grad():
        assert float(invariance_error(own, x, lambda x: x.flip(2))) < 1e-12
        assert float(invariance_error(own, x, lambda x: x.rot90(1, (1, 2)))) > 1e-3


def test_errors_are_relative_norms():
    x = pictures(3, 4)
    assert float(invariance_error(lambda x: x, x, lambda x: 3 * x)) == pytest.approx(2.0)
    assert float(equivariance_error(lambda x: x**2, x, lambda x: 3 * x)) == pytest.approx(6.0)


# In the loop


def test_every_batch_is_transformed_anew_and_validation_is_not():
    seen = []

    class Look(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = MLP([16, 3], rng=generator())

        def forward(self, x):
            seen.append((self.training, x.detach().clone()))
            return self.inner(x)

    model, x = Look(), pictures(1, 16).float().repeat(6, 1)
    y = torch.arange(6) % 3
    fit(model, (x, y), Supervised(F.cross_entropy), torch.optim.SGD(model.parameters(), lr=0.1),
        epochs=3, callbacks=[Augment(Shift(-1, 1), side=4)], validation=(x, y))
    shown = torch.cat([one for training, one in seen if training])
    assert len(shown.unique(dim=0)) == 18
    assert all(torch.equal(one, x) for training, one in seen if not training)


@pytest.mark.parametrize("stop_after", [1, 4, 7])
def test_a_resumed_training_is_the_same_to_the_bit(tmp_path, stop_after):
    def go(folder, stop_after=math.inf):
        model, taken = MLP([36, 8, 3], rng=generator()), itertools.count(1)
        run = Run(Seed(1), folder=folder, save_every=0.0)
        run.asked_to_stop = lambda: next(taken) >= stop_after
        x = pictures(24, 36).float()
        fit(model, (x, torch.arange(24) % 3), Supervised(F.cross_entropy),
            torch.optim.Adam(model.parameters()), epochs=3, batch_size=8,
            callbacks=[Augment(*ALL, side=6)], run=run, name="model")
        return torch.cat([one.detach().flatten() for one in model.parameters()])

    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, stop_after)
    assert torch.equal(go(tmp_path), go(None))


def test_other_transforms_are_another_training(tmp_path):
    def go(*transforms):
        model = MLP([4, 2], rng=generator())
        fit(model, (pictures(4, 4).float(), torch.arange(4) % 2), Supervised(F.cross_entropy),
            torch.optim.SGD(model.parameters(), lr=0.1), steps=2,
            callbacks=[Augment(*transforms, side=2)], run=Run(Seed(1), folder=tmp_path))

    go(Shift(-1, 1))
    with pytest.raises(UsageError, match="must be of the same training"):
        go(Shift(-1, 2))


def test_it_is_offered_to_every_run():
    default = augmentation.build(Run(), {})
    assert [type(one) for one in default.transforms] == [Shift]
    chosen = {"shift": 0.0, "rotate": 10.0, "scale": 0.1, "shear": 0.2, "mirror": 0.5,
              "brightness": 0.3}
    built = augmentation.build(Run(), chosen).transforms
    assert [type(one) for one in built] == [Rotate, Scale, Shear, Mirror, Brightness]
    assert (built[1].low, built[1].high) == (0.9, 1.1)
    assert set(augmentation.knobs) == {f"augmentation.{name}" for name in chosen}


def test_what_is_offered_takes_flat_squares_for_pictures():
    """Its user has asked for pictures; it says so, and draws what `Augment` draws."""
    x, y = pictures(5, 1, 6, 6), torch.arange(5)
    offered, chosen = augmentation.build(Run(), {"rotate": 20.0}), (Shift(-1, 1), Rotate(-20, 20))
    expected = Augment(*chosen)(x, generator())
    for shown in (x, x.flatten(1)):
        found, labels = offered.prepare((shown, y), generator())
        assert torch.equal(found.view_as(expected), expected)
        assert torch.equal(labels, y)
    assert "flat rows is taken for one on gray squares" in augmentation.function.__doc__
    with pytest.raises(UsageError, match=r"\(B, 49\) of side 7; got \(2, 50\)"):
        offered.prepare((torch.zeros(2, 50),), generator())
    with pytest.raises(UsageError, match="Add a channel axis"):
        offered.prepare((torch.zeros(2, 7, 7),), generator())


SHAPES = "Augment: x must be pictures (B, C, H, W); got "
AXIS = "Add a channel axis: x[:, None]; to a single picture a batch axis: x[None]."
SIDE = "If the rows are gray squares, give their side, as in side=28."


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Shift(2, -1), "Shift: low must be at most high, -1; got 2.0. Exchange the two."),
        (lambda: Rotate(9, 8), "Rotate: low must be at most high, 8; got 9.0."),
        (lambda: Shear(1, 0), "Shear: low must be at most high, 0; got 1.0."),
        (lambda: Scale(1.1, 0.9), "Scale: low must be at most high, 0.9; got 1.1."),
        (lambda: Scale(0, 1), "Scale: low must be in (0, inf); got 0."),
        (lambda: Brightness(1, 0.5), "Brightness: low must be at most high, 0.5; got 1.0."),
        (lambda: Brightness(-1, 1), "Brightness: low must be in [0, inf); got -1."),
        (lambda: Mirror(1.5), "Mirror: chance must be in [0, 1]; got 1.5."),
        (lambda: Shift(math.nan, 1), "Shift: low must be a finite number; got nan."),
        (lambda: Augment(outside="blue"), "Augment: outside must be one of 'zeros', "),
        (lambda: Augment()(torch.zeros(3, 8, 8)), f"{SHAPES}(3, 8, 8). {AXIS}"),  # three, or RGB
        (lambda: Augment()(torch.zeros(3, 9)), f"{SHAPES}(3, 9). {SIDE}"),  # a table, or squares
        (lambda: Augment(side=2)(torch.zeros(3, 9)),
         "Augment: x must be pictures (B, C, H, W) or rows (B, 4) of side 2; got (3, 9)."),
        (lambda: Augment(side=8)(torch.zeros(3, 8, 8)),
         "Augment: x must be pictures (B, C, H, W) or rows (B, 64) of side 8; got (3, 8, 8). Add"),
        (lambda: Augment(side=0), "Augment: side must be "),
        (lambda: Augment()(torch.zeros(4)), f"{SHAPES}(4,)."),
        (lambda: Augment()(torch.zeros(1, 1, 1, 2, 2)), f"{SHAPES}(1, 1, 1, 2, 2)."),
        (lambda: Augment(Shift(0, 1)).prepare((torch.zeros(2, 5),), generator()), SHAPES),
        (lambda: Augment(side=2)(torch.zeros(3, 4, dtype=torch.uint8)),
         "Augment: x must be floating point; got 'torch.uint8'."),
        (lambda: orbit(torch.zeros(2, 2), "circle"),
         "orbit: group must be one of 'rotations', 'square', 'shifts', or functions; got 'circle'"),
        (lambda: orbit(torch.zeros(2, 3), "square"),
         "orbit: x must be pictures as high as they are wide; got (2, 3)."),
        (lambda: Pick("rotations", chances=(1, 1))(torch.zeros(1, 1, 2, 2)),
         "Pick: chances must be 4 numbers, one for each element, and not all 0; got (1.0, 1.0)."),
        (lambda: Pick("rotations", chances=(-1, 1, 1, 1)), "Pick: chances must be one or more"),
    ],
)
def test_bad_input_gives_its_sentence(call, sentence):
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value).startswith(sentence)

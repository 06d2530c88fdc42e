import math

import pytest
import torch
from torch import nn
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    ExponentialLR,
    LinearLR,
    ReduceLROnPlateau,
    SequentialLR,
)

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.seeds import Seed
from principia.optimization import (
    Quadratic,
    clip_gradients,
    descend,
    floor_decay,
    power_decay,
    robbins_monro,
    warmup,
)

KEY = "optimization/schedules"


def optimizer(*rates):
    groups = [{"params": [nn.Parameter(torch.ones(2))], "lr": rate} for rate in rates or (0.5,)]
    return SGD(groups)


def rates(schedule, steps, group=0):
    found = []
    for _ in range(steps):
        found.append(schedule.optimizer.param_groups[group]["lr"])
        schedule.optimizer.step()
        schedule.step()
    return found


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("lambda t: max(floor, 1 / t)", "lambda t: floor + 1 / t", "floor_stops_the_descent"),
        ("scale * shape(t + 1)", "shape(t + 1)", "decay_shrinks_the_ball"),
        ("lambda t: t / steps", "lambda t: 1.0", "warmup_passes_a_sharp_start"),
        ('clip = clip_grad_norm_ if self.by == "norm"', 'clip = clip_grad_norm_ if self.by == ""',
         "clipping_keeps_direction"),
        ("clip(params, self.c)\n            return None", "return None",
         "clipping_keeps_direction"),
        ("clip(params, self.c)\n            return loss", "return loss",
         "clipping_survives_the_cliff"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("lambda t: t**-alpha", "lambda t: t ** (-alpha / 2)", "decay_shrinks_the_ball",
         ["no ball under 1/λt"]),
        ("return alpha <= 1, alpha > 0.5", "return alpha <= 1, alpha >= 0.5",
         "decay_shrinks_the_ball", ["who comes to rest"]),
        ("alpha: Exponent = 0.5", "alpha: Exponent = 0.6", "decay_shrinks_the_ball",
         ["rates of two groups"]),
        ('by: Literal["norm", "value"] = "norm"', 'by: Literal["norm", "value"] = "value"',
         "clipping_keeps_direction", ["at the right time"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_every_network_explodes_without_clipping_and_none_with_it():
    recurrent = page(KEY).load("claims")._recurrent_losses
    for number in range(2):
        free = recurrent(Seed(number), 50, 60, 3, None).amax(dim=0)
        assert (free > 1e3).all()
        assert (recurrent(Seed(number), 50, 60, 3, 1.0) < 5).all()


def test_power_decay_is_its_formula_in_every_group():
    for group, first in enumerate((0.5, 0.1)):
        found = rates(power_decay(optimizer(0.5, 0.1), 0.75), 20, group)
        assert found == pytest.approx([first * t**-0.75 for t in range(1, 21)], rel=1e-14)
    absolute = rates(power_decay(optimizer(0.5), 1.0, C=3.0), 5)
    assert absolute == pytest.approx([3 / t for t in range(1, 6)], rel=1e-14)


def test_the_rate_of_a_step_is_that_of_its_number():
    bowl = Quadratic([1.0])
    sgd = SGD(bowl.parameters(), lr=9.0)
    theta = descend(bowl, sgd, 6, schedule=floor_decay(sgd, 0.4), record=("theta",))["theta"]
    expected = [1.0]
    for t in range(1, 7):
        expected.append(expected[-1] * (1 - max(0.4, 1 / t)))
    assert theta.flatten().tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda one: CosineAnnealingLR(one, 10),
        lambda one: ExponentialLR(one, 0.8),
        lambda one: power_decay(one, 0.5),
        lambda one: power_decay(one, 0.5, C=4.0),
    ],
)
def test_after_the_warmup_comes_exactly_the_other_schedule(make):
    alone = rates(make(optimizer()), 10)
    both = optimizer()
    found = rates(warmup(both, 5, make(both)), 15)
    assert found[:5] == pytest.approx([alone[0] * k / 5 for k in range(1, 6)])
    assert found[5:] == pytest.approx(alone)
    none = optimizer()
    assert rates(warmup(none, 0, make(none)), 10) == pytest.approx(alone)


def test_warmup_is_torchs_linear_schedule():
    theirs = rates(LinearLR(optimizer(), 1 / 8, total_iters=7), 12)
    assert rates(warmup(optimizer(), 8), 12) == pytest.approx(theirs)
    assert rates(warmup(optimizer(), 0), 3) == [0.5] * 3


def test_a_schedule_resumes_from_its_state():
    def make():
        one = optimizer()
        return warmup(one, 3, CosineAnnealingLR(one, 9))

    whole, half, resumed = make(), make(), make()
    expected = rates(whole, 10)
    first = rates(half, 5)
    resumed.optimizer.load_state_dict(half.optimizer.state_dict())
    resumed.load_state_dict(half.state_dict())
    assert first + rates(resumed, 5) == expected


@pytest.mark.parametrize("by", ["norm", "value"])
def test_clipping_is_torchs_between_backward_and_step(by):
    torchs = {"norm": nn.utils.clip_grad_norm_, "value": nn.utils.clip_grad_value_}[by]
    rng = torch.Generator().manual_seed(0)
    start, data = torch.randn(3, 4, generator=rng), 50 * torch.randn(5, 4, generator=rng)
    ends = []
    for how in ("by hand", "at once", "closure"):
        p = nn.Parameter(start.clone())
        adam = AdamW([p], lr=0.1)
        if how != "by hand":
            clip_gradients(adam, 0.5, by=by)
        for row in data:
            def loss(p=p, row=row):
                p.grad = None
                value = (p @ row).square().sum()
                value.backward()
                return value

            if how == "closure":
                assert adam.step(loss) > 0
                continue
            loss()
            if how == "by hand":
                torchs([p], 0.5)
            adam.step()
        ends.append(p.detach())
    assert torch.equal(ends[0], ends[1])
    assert torch.equal(ends[0], ends[2])


def test_clipping_ends_with_its_handle():
    p = nn.Parameter(torch.zeros(1))
    sgd = SGD([p], lr=1.0)
    handle = clip_gradients(sgd, 1.0)
    handle.remove()
    p.grad = torch.full((1,), -7.0)
    sgd.step()
    assert p.item() == 7.0
    clip_gradients(sgd, 1.0)  # and may begin again


@pytest.mark.parametrize(("alpha", "expected"), [(0.5, False), (0.51, True), (1.0, True)])
def test_the_window_of_robbins_and_monro(alpha, expected):
    assert robbins_monro(alpha) == (True, expected)
    zeta = sum(t ** (-2 * alpha) for t in range(1, 10_000))  # the rest is below its integral
    rest = 9999 ** (1 - 2 * alpha) / (2 * alpha - 1) if expected else math.inf
    assert math.isfinite(zeta + rest) is expected


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda one: power_decay(one, 1.5), r"power_decay: alpha must be in \(0, 1\]; got 1.5"),
        (lambda one: power_decay(one, 0.0), r"power_decay: alpha must be in \(0, 1\]; got 0"),
        (lambda one: floor_decay(one, -1.0), r"floor_decay: floor must be in \[0, inf\); got -1"),
        (lambda one: warmup(one, -1), r"warmup: steps must be an integer in \[0, inf\); got -1"),
        (lambda one: clip_gradients(one, 0.0), r"clip_gradients: c must be in \(0, inf\); got 0"),
        (lambda one: robbins_monro(-1.0), r"robbins_monro: alpha must be in \(0, inf\); got -1"),
        (lambda one: warmup(one, 3, power_decay(optimizer())), "warmup: then must be a single"),
        (lambda one: warmup(one, 3, ReduceLROnPlateau(one)), "got 'ReduceLROnPlateau at step 0'"),
        (lambda one: warmup(one, 3, SequentialLR(one, [power_decay(one)], [])), "then must be"),
    ],
)
def test_bad_input_gets_a_sentence(wrong, sentence):
    with pytest.raises(UsageError, match=sentence):
        wrong(optimizer())


def test_clipping_in_the_loop_after_the_step_is_refused():
    one = optimizer()
    clip_gradients(one, 2.0)
    one.step()
    with pytest.raises(UsageError, match=r"clip yet; got 'SGD clipped at 2'.*not after it"):
        clip_gradients(one, 2.0)
    moved = power_decay(one)
    one.step()
    moved.step()
    with pytest.raises(UsageError, match=r"then must be .* got 'LambdaLR at step 1'"):
        warmup(one, 3, moved)

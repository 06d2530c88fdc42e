"""Paired differences: equal to SciPy's paired t test, and honest about their size."""

import math

import pytest
import torch
from scipy import stats

from principia.lab.params import UsageError
from principia.lab.training.pairs import paired


@pytest.mark.parametrize("pairs", [2, 3, 10])
def test_it_is_the_paired_t_test(pairs):
    rng = torch.Generator().manual_seed(pairs)
    ours, theirs = torch.randn(2, pairs, generator=rng, dtype=torch.float64)
    effect, peer = paired(ours, theirs), stats.ttest_rel(ours, theirs)
    low, high = peer.confidence_interval(0.95)
    assert effect.in_errors == pytest.approx(float(peer.statistic), rel=1e-12)
    assert (effect.low, effect.high) == pytest.approx((float(low), float(high)), rel=1e-12)


def test_what_is_recorded_and_drawn():
    effect = paired([3.0, 4.0], [1.0, 1.0])
    assert effect.metrics("gain")["gain"] == 2.5
    assert set(effect.metrics("gain")) == {"gain", "gain_low", "gain_high", "gain_in_errors"}
    figure = effect.figure("accuracy", ("plain", "dropout"))
    assert [list(one.y) for one in figure.data] == [[1, 3], [1, 4], [1, 3.5]]
    assert list(figure.data[0].x) == ["plain", "dropout"]


def test_no_spread_at_all():
    assert paired([2.0, 2.0], [1.0, 1.0]).in_errors == math.inf
    assert paired([1.0, 1.0], [1.0, 1.0]).in_errors == 0


@pytest.mark.parametrize("arms", [([1.0], [2.0]), ([1.0, 2.0], [1.0, 2.0, 3.0])])
def test_arms_that_do_not_match(arms):
    with pytest.raises(UsageError, match="paired: with_method and without must be two lists"):
        paired(*arms)

"""The relations hold when they should, are refuted when they should, and never guess."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from principia.lab.evidence import (
    Series,
    at_least,
    at_most,
    equal,
    equal_to_rounding,
    every,
    follows,
    never,
    slope,
    tends_to,
    within_errors,
)
from principia.lab.figures import draw
from principia.lab.params import UsageError

WHY = "for the test"
finite = st.floats(-1e6, 1e6)


@given(finite, finite, st.floats(0, 1e3))
def test_relations_decide_as_arithmetic_does(a, b, slack):
    assert equal(a, b, tol=slack, why=WHY).holds == (abs(a - b) <= slack)
    assert at_most(a, b, slack=slack, why=WHY).holds == (a - b <= slack)
    assert at_least(a, b, slack=slack, why=WHY).holds == (b - a <= slack)


def test_the_worst_entry_speaks():
    evidence = at_most(torch.tensor([1.0, 9.0, 2.0]), torch.tensor([2.0, 5.0, 3.0]), why=WHY)
    assert (evidence.measured, evidence.expected, evidence.verdict) == (9.0, 5.0, "refuted")
    assert evidence.summary == "9 > 5 (worst of 3)"


@pytest.mark.parametrize(
    "evidence",
    [
        equal(math.nan, 1, tol=1, why=WHY),
        at_most([0, math.nan], 1, why=WHY),
        never(math.nan, of=3, why=WHY),
        never(0, of=0, why=WHY),
        slope([1, 2, 3], [1, -1, 2], 1, tol=9, why=WHY),
        tends_to([1, 2, 3], [1, math.nan, 0], 0, tol=1, why=WHY),
        follows([math.nan] * 9, stats.norm(), why=WHY),
    ],
)
def test_what_is_not_a_number_neither_holds_nor_is_refuted(evidence):
    assert evidence.verdict == "undecided"
    json.dumps(evidence.to_json(), allow_nan=False)


def test_infinities():
    assert equal(math.inf, math.inf, tol=0, why=WHY).holds
    assert at_most(math.inf, 1, why=WHY).refuted
    assert equal([math.inf], [1.0], tol=1, why=WHY).to_json()["measured"] == "inf"


def test_a_tolerance_needs_a_reason_and_a_shape():
    with pytest.raises(UsageError, match="why must be the reason"):
        equal(1, 1, tol=0, why=" ")
    with pytest.raises(UsageError, match="one shape"):
        equal([1, 2], [1, 2, 3], tol=0, why=WHY)
    with pytest.raises(UsageError, match="one shape"):
        equal(np.zeros((2, 1)), np.zeros(2), tol=0, why=WHY)
    with pytest.raises(UsageError, match="at least one entry"):
        at_most([], 1, why=WHY)
    with pytest.raises(UsageError, match=">= 0"):
        equal(1, 1, tol=-1, why=WHY)
    with pytest.raises(UsageError, match="number of cases"):
        never(0, why=WHY)


def test_identical_allows_rounding_only():
    values = np.linspace(0, 100, 7)
    assert equal_to_rounding(values * (1 + 1e-13), values).holds
    assert equal_to_rounding(values * (1 + 1e-8), values).refuted


def test_estimates_scale_with_the_standard_error():
    assert within_errors(1.04, 1.0, error=0.01, why=WHY).holds
    assert within_errors(1.06, 1.0, error=0.01, why=WHY).refuted
    assert within_errors(1.06, 1.0, error=0.01, bias=0.02, why=WHY).holds


def test_slope_finds_the_exponent_and_knows_when_it_does_not():
    x = np.logspace(0, 3, 12)
    clean = 3 * x**-0.5
    assert slope(x, clean, -0.5, tol=0.01, why=WHY).holds
    assert slope(x, clean, -1.0, tol=0.01, why=WHY).refuted
    noisy = clean * np.exp(np.random.default_rng(0).normal(size=12))
    assert slope(x, noisy, -0.5, tol=0.01, why=WHY).verdict == "undecided"
    evidence = slope(x, noisy, -0.5, tol=0.01, why=WHY)
    low, high = evidence.interval
    assert low < evidence.measured < high
    flat = slope(x, np.full(12, 7.0), -0.5, tol=0.01, why=WHY)
    assert (flat.verdict, flat.measured) == ("refuted", 0.0), "a constant has a slope: 0"


def test_slope_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(1)
    x = np.linspace(0, 1, 10)
    hits = 0
    for _ in range(2000):
        fit = slope(x, 2 * x + rng.normal(size=10), 2, tol=1, why=WHY, log="", level=0.9)
        hits += fit.interval[0] <= 2 <= fit.interval[1]
    assert abs(hits / 2000 - 0.9) < 5 * math.sqrt(0.9 * 0.1 / 2000)  # five standard errors


def test_limits_must_be_approached():
    n = np.arange(1, 30)
    assert tends_to(n, 1 + 1 / n**2, 1, tol=0.01, why=WHY).holds
    assert tends_to(n, 1 + 1 / n**2, 0, tol=0.01, why=WHY).refuted
    assert tends_to(n, 1 - 1 / n[::-1], 1, tol=0.01, why=WHY).refuted  # it goes away from 1


def test_laws_are_tested():
    draws = np.random.default_rng(2).normal(size=4000)
    assert follows(draws, stats.norm(), why=WHY).holds
    assert follows(draws, stats.norm(scale=1.3), why=WHY).refuted
    assert follows(draws, np.random.default_rng(3).normal(size=4000), why=WHY).holds
    assert follows(draws, np.random.default_rng(3).uniform(size=4000), why=WHY).refuted


def test_every_part_counts():
    good, bad = at_most(1, 2, why=WHY), at_most(3, 2, why=WHY)
    unknown = at_most(math.nan, 2, why=WHY)
    assert every({"a": good, "b": good}).holds
    assert every({"a": good, "b": bad, "c": unknown}).refuted
    assert every({"a": good, "c": unknown}).verdict == "undecided"
    nested = every({"outer": every({"inner": bad}), "a": good})
    assert nested.decisive[0] == "outer, inner"
    assert [part["name"] for part in nested.to_json()["parts"]] == ["outer", "a"]


def test_evidence_survives_json_and_draws_itself():
    evidence = equal(np.arange(1000.0), np.arange(1000.0), tol=0, why=WHY)
    described = json.loads(json.dumps(evidence.to_json(), allow_nan=False))
    assert described["relation"] == "="
    assert len(described["picture"]["series"][0]["x"]) <= 400
    drawn = evidence.drawn(
        Series("curve", [1, 2, 3], [1.0, math.nan, 3.0], error=np.array([0.1, 0.1, 0.1])),
        Series("words", ["a", "b"], [1, 2], style="bars", role="other"),
        x="step", y="value", log="y",
    )
    figure = draw(drawn.plot)
    assert figure.layout.yaxis.type == "log"
    assert [trace.name for trace in figure.data] == ["curve", "words"]

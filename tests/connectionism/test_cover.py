import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from planting import assert_caught
from principia.connectionism import (
    cover_count,
    cover_fraction,
    dichotomies,
    in_general_position,
    log_cover_fraction,
    separable,
)
from principia.connectionism.claims.cover import one_sided
from principia.lab.params import UsageError

KEY = "connectionism/cover"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("math.comb(s - 1, i)", "math.comb(s, i)", "recursion"),
        ("range(min(n + bias, s))", "range(min(n, s))", "counting_with_bias"),
        ("binom.cdf(n + bias - 1,", "binom.cdf(n + bias,", "capacity_in_practice"),
        ("np.arange(split) if lower", "np.arange(split + 1) if lower", "half_at_twice_dimension"),
        ("lower != complement", "lower == complement", "fraction_rate"),
        ("split + reach / 2 * x, split", "split + reach * 2 * x, split", "counting"),
        ("lines[..., 1]) <= tol", "lines[..., 1]) < 0", "general_position_needed"),
        ("wide = gaps > tol", "wide = gaps > 0", "general_position_needed"),
        ("side * reach * unit", "4 * side * reach * unit", "counting"),
        ("values[:, -1].min()", "values[:, 0].min()", "general_position_needed"),
        ("return X / np.where(", "return abs(X) / np.where(", "capacity_in_practice"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("return np.empty((0, n))", "return np.ones((1, n))", "general_position_needed",
         ["a point at 0"]),
        ("append=angles[0] + np.pi", "append=angles[-1]", "counting", ["by LP"]),
        ("rank = int((np.abs(np.diag(triangle)) > tol)", "rank = int((np.diag(triangle) > tol)",
         "shattering", ["by LP"]),
        ("logpmf(tail, s - 1, 0.5)", "logpmf(tail, s - 1, 0.4)", "fraction_rate", ["rate near 2"]),
        ("np.column_stack([X, np.ones(len(X))]) if", "np.column_stack([X, np.zeros(len(X))]) if",
         "counting_with_bias", ["by LP"]),
        ("return 2 * sum(", "return 4 * sum(", "general_position_needed",
         ["two points on a line", "n points in a hyperplane", "many points",
          "points in a subspace"]),
        ("bias: bool = False, tol: PositiveFloat = 1e-9", "bias: bool = False, tol: PositiveFloat "
         "= 2e-9", "general_position_needed", ["sines up to 1e-9 are 0"]),
        ("values[:, -1].min()", "values[:, 0].min()", "general_position_needed",
         ["and finds the smallest singular value"]),
        ("return 2 * sum(", "return sum(", "shattering", ["formula"]),
        ("binom.cdf(n + bias - 1,", "binom.cdf(n + bias,", "half_at_twice_dimension",
         ["binomial law"]),
        ("logpmf(tail, s - 1, 0.5)", "logpmf(tail, s - 1, 0.4)", "half_at_twice_dimension",
         ["logarithm"]),
        ("if len(tail) else -math.inf", "if len(tail) else -1.0", "half_at_twice_dimension",
         ["nothing is missing up to s = n"]),
        ("return 2 * sum(", "return 2 ** (1 + s // 20 * s) * sum(", "number_still_grows",
         ["the share falls"]),
        ("return 2 * sum(", "return 3**-s * sum(", "number_still_grows", ["the number grows"]),
        ("wide = gaps > tol", "wide = gaps > 1", "number_still_grows",
         ["counted in three dimensions it grows"]),
        ("math.comb(s - 1, i)", "math.comb(s, i)", "binomial_sum", ["dichotomies"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("bias", [False, True])
def test_labelings_in_any_position_are_those_that_linear_programs_find(bias):
    rng = np.random.default_rng(1)
    for dim in (1, 2, 3, 4):
        X = rng.integers(-1, 2, size=(6, dim)).astype(float)  # repeated, opposite, dependent, zero
        found = {tuple(row) for row in dichotomies(X, bias=bias).tolist()}
        labelings = np.array(list(itertools.product([-1.0, 1.0], repeat=6)))
        assert found == {tuple(y) for y in labelings if separable(X, y, bias=bias)[0]}


@pytest.mark.parametrize(("inputs", "functions"), [(1, 4), (2, 14), (3, 104), (4, 1882)])
def test_corners_of_the_cube_give_the_number_of_threshold_functions(inputs, functions):
    corners = np.array(list(itertools.product([0, 1], repeat=inputs)))
    assert len(dichotomies(corners, bias=True)) == functions  # OEIS A000609


@pytest.mark.parametrize(("s", "n"), [(1, 1), (3, 6), (200, 2), (40, 3), (16, 5), (11, 8)])
def test_rows_are_sorted_symmetric_and_cover_what_random_weights_realize(s, n):
    rng = np.random.default_rng(s)
    X = rng.normal(size=(s, n))
    signs = dichotomies(X)
    assert len(signs) == cover_count(s, n)
    assert np.array_equal(signs, np.unique(signs, axis=0))
    assert np.array_equal(signs, -signs[::-1])
    drawn = np.where(rng.normal(size=(2000, n)) @ X.T > 0, 1, -1)
    assert {tuple(row) for row in drawn.tolist()} <= {tuple(row) for row in signs.tolist()}


def test_scale_and_order_of_the_points_do_not_matter():
    rng = np.random.default_rng(2)
    X, order = rng.normal(size=(9, 4)), rng.permutation(9)
    moved = dichotomies((X * 10.0 ** rng.uniform(-90, 90, size=(9, 1)))[order])
    assert np.array_equal(np.unique(moved[:, np.argsort(order)], axis=0), dichotomies(X))


def test_a_point_at_the_origin_is_on_every_hyperplane():
    X = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    assert dichotomies(X).shape == (0, 2)
    assert len(dichotomies(X, bias=True)) == 4


@pytest.mark.parametrize(("s", "n"), [(6, 3), (20, 10), (44, 20)])
def test_least_squares_decide_as_linear_programs_do(s, n):
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(60, s, n)), rng.choice([-1.0, 1.0], size=(60, s))
    by_lp = [separable(*problem, bias=False)[0] for problem in zip(X, y, strict=True)]
    assert one_sided(y[..., None] * X).tolist() == by_lp
    assert len(set(by_lp)) == 2


def test_fractions_agree_with_exact_integers_where_floats_underflow():
    for s, n, bias in [(1, 1, False), (30, 7, True), (31, 25, False), (300, 150, True)]:
        exact = Fraction(cover_count(s, n, bias=bias), 2**s)
        assert cover_fraction(s, n, bias=bias) == pytest.approx(float(exact), rel=1e-12)
    for s, n in [(5000, 100), (5000, 2000), (100_000, 7)]:
        exact = math.log(cover_count(s, n)) - s * math.log(2)
        assert log_cover_fraction(s, n) == pytest.approx(exact, rel=1e-10)
    missing = math.log(2**3000 - cover_count(3000, 2500)) - 3000 * math.log(2)
    assert log_cover_fraction(3000, 2500, complement=True) == pytest.approx(missing, rel=1e-10)
    assert log_cover_fraction(3000, 2500) == -math.exp(missing)
    assert log_cover_fraction(4, 4, complement=True) == -math.inf
    assert math.isfinite(log_cover_fraction(10**6, 10**5))


def test_many_subsets_are_sampled_and_the_result_says_so():
    rng = np.random.default_rng(3)
    few = in_general_position(rng.normal(size=(8, 3)))
    assert few
    assert (few.subsets, few.exhaustive) == (56, True)
    many = in_general_position(rng.normal(size=(40, 10)))
    assert many
    assert (many.subsets, many.exhaustive) == (2000, False)
    square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    assert in_general_position(square, bias=True)
    assert not in_general_position(square)  # one of them is 0
    assert not in_general_position(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), bias=True)


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(UsageError, match=r"cover_count: s must be an integer in \[1, inf\); got 0"):
        cover_count(0, 3)
    with pytest.raises(UsageError, match=r"n must be an integer in \[1, inf\); got 0"):
        cover_fraction(3, 0)
    with pytest.raises(UsageError, match=r"X must be of shape .*; got \(0, 3\)"):
        dichotomies(np.empty((0, 3)))
    with pytest.raises(UsageError, match=r"X must be of shape .*; got \(4, 0\)"):
        in_general_position(np.empty((4, 0)))
    with pytest.raises(UsageError, match="X must be finite"):
        dichotomies(np.array([[1.0, np.nan]]))
    with pytest.raises(UsageError, match=r"at most 100000 .*C\(s, n\) = 978812.*raise most"):
        dichotomies(np.ones((60, 5)))
    with pytest.raises(UsageError, match=r"resolved by tol=0\.3; got 'points that are nearly"):
        dichotomies(np.random.default_rng(0).normal(size=(12, 4)), tol=0.3)

r"""Counting dichotomies: what is true of it, and what would refute it.

Knobs:
    dim: Dimension of the points.
    largest: Up to how many points, or dimensions, is counted.
    formula: Which formula foretells the number; the other one is wrong.
    points: Points of a set.
    on_a_line: How many points lie on one line through 0; more than one are not in general position.
    on_the_line: How many dichotomies points on a line have; with 1 the recursion starts wrong.
    extra: Points beyond those that the theorem names; with them it does not hold.
    below: Points a dimension, less than 2: nearly all labelings are realized.
    above: Points a dimension, more than 2: hardly any labeling is realized.
    rate: The rate of decay: from the Kullback-Leibler divergence, or the misprinted 1.
    trend: What the number of dichotomies does as points are added; it never falls.
    problems: Random sets of points for each number of points.
    labels: Where labels come from; those of a teacher, another hyperplane, can always be separated.
    first: Where the sum begins; from 1 on it lacks a term.
"""

import itertools
import math
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from scipy.optimize import nnls

from principia.connectionism.cover import (
    Array,
    cover_count,
    cover_fraction,
    dichotomies,
    in_general_position,
    labelings,
    log_cover_fraction,
    unit_rows,
)
from principia.connectionism.margin import separable
from principia.lab.evidence import (
    Evidence,
    Series,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    slope,
    tends_to,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.pictures import Rule
from principia.lab.seeds import Seed

INTEGERS = "integers, compared exactly"


@claim(
    control={"formula": "misprint"},
    refutes=["number"],
    source="Schläfli 1852; Cover 1965, function-counting theorem",
    misprint=r"$C(s+1,n)=2\sum_{i=0}^{n}\binom{n}{i}$",
)
def counting(
    seed: Seed, *, dim: Annotated[int, Range(1, 4)] = 2, largest: Annotated[int, Range(4, 8)] = 6,
    formula: Literal["Cover", "misprint"] = "Cover",
) -> Evidence:
    r"""Gaussian points have $2\sum_{i=0}^{n-1}\binom{s-1}{i}$ dichotomies; 5 of them in 3-D, 22."""
    rng = seed.numpy()
    cases = [*((s, dim) for s in range(4, largest + 1)), (5, 3), (7, 4)]
    predicted = [cover_count(s, n) for s, n in cases]
    if formula == "misprint":
        predicted = [2 * sum(math.comb(n, i) for i in range(n + 1)) for _, n in cases]
    return every(_counted([rng.normal(size=case) for case in cases], predicted))


def _counted(sets: list[Array], predicted: list[int], *, bias: bool = False) -> dict[str, Evidence]:
    """State how many dichotomies there are, and that linear programs find the same labelings."""
    counts, wrong, total = [], 0, 0
    for X in sets:
        rows = dichotomies(X, bias=bias).tolist()
        found = {tuple(row) for row in rows}
        counts.append(len(found))
        wrong += rows != sorted(rows)
        for y in labelings(len(X))[::2]:  # a labeling and its negative go together
            feasible = separable(X, y, bias=bias)[0]
            wrong += (feasible != (tuple(y) in found)) + (feasible != (tuple(-y) in found))
            total += 2
    sizes = [len(X) for X in sets]
    number = equal(counts, predicted, tol=0, why=INTEGERS).drawn(
        Series("dichotomies", sizes, counts),
        Series("predicted", sizes, predicted, role="predicted", style="points"),
        x="points s", y="dichotomies",
    )
    return {"number": number, "by LP": never(wrong, of=total, why="a labeling is feasible or not")}


@claim(
    control={"formula": "homogeneous"},
    refutes=["number", "share", "log"],
    source="Cover 1965, for the points (x, 1)",
)
def counting_with_bias(
    seed: Seed, *, dim: Annotated[int, Range(1, 3)] = 2, largest: Annotated[int, Range(4, 8)] = 6,
    formula: Literal["affine", "homogeneous"] = "affine",
) -> Evidence:
    r"""With a bias the sum goes up to $n$: 4, 5, 6 points in the plane have 14, 22, 32."""
    rng, sizes = seed.numpy(), range(4, largest + 1)
    predicted = [cover_count(s, dim, bias=formula == "affine") for s in sizes]
    counted = _counted([rng.normal(size=(s, dim)) for s in sizes], predicted, bias=True)
    shares = [count / 2**s for count, s in zip(predicted, sizes, strict=True)]
    logs = [log_cover_fraction(s, dim, bias=True) for s in sizes]
    fractions = [cover_fraction(s, dim, bias=True) for s in sizes]
    return every({
        **counted, "share": equal_to_rounding(fractions, shares),
        "log": equal_to_rounding(np.exp(logs), shares),
    })


@claim(
    control={"on_a_line": 3},
    refutes=["general position", "the test tells them apart"],
    source="Cover 1965; Zaslavsky 1975",
)
def general_position_needed(
    seed: Seed, *, points: Annotated[int, Range(6, 12)] = 8,
    dim: Annotated[int, Range(2, 5)] = 3, on_a_line: Annotated[int, Range(1, 6)] = 1,
) -> Evidence:
    r"""Points in general position have $C(s,n)$ dichotomies; one dependent $n$-set costs two."""
    rng = seed.numpy()
    general, flat, twice = rng.normal(size=(3, 20, points, dim))
    general[:, 1:on_a_line] = general[:, :1] * rng.normal(size=(20, on_a_line - 1, 1))
    # n of the points in a hyperplane through 0, and two of them on a line through 0
    flat[:, dim - 1] = (rng.normal(size=(20, dim - 1, 1)) * flat[:, : dim - 1]).sum(axis=1)
    twice[:, 1] = twice[:, 0] * rng.normal(size=(20, 1))
    expected = {
        "general position": (general, cover_count(points, dim)),
        # the two rays where the n hyperplanes meet each lose one cell
        "n points in a hyperplane": (flat, cover_count(points, dim) - 2),
        "two points on a line": (twice, cover_count(points - 1, dim)),
    }
    found = {name: [len(dichotomies(X)) for X in sets] for name, (sets, _) in expected.items()}
    parts = {
        name: equal(found[name], count, tol=0, why=INTEGERS)
        for name, (_, count) in expected.items()
    }
    many = ((60, 3), (300, 2), (14, 5))
    parts["many points"] = equal(
        [len(dichotomies(rng.normal(size=size))) for size in many],
        [cover_count(*size) for size in many], tol=0, why=INTEGERS,
    )
    lower = ((6, 1, 3), (7, 2, 4), (8, 3, 5), (7, 4, 6), (3, 2, 8))  # points, of their span, of all
    flats = [rng.normal(size=(s, r)) @ rng.normal(size=(r, n)) for s, r, n in lower]
    parts["points in a subspace"] = equal(
        [len(dichotomies(X)) for X in flats], [cover_count(s, r) for s, r, _ in lower],
        tol=0, why=INTEGERS,
    )
    flats = [rng.normal(size=(6, n)) * (np.arange(6) != 3)[:, None] for n in range(1, 6)]
    parts["a point at 0"] = equal(
        [dichotomies(X).shape for X in flats], [[0, 6]] * 5, tol=0, why="every plane holds it",
    )
    near = [np.array([[1.0, 0.0], [1.0, sine]]) for sine in (0.5e-9, 1.5e-9)]
    parts["sines up to 1e-9 are 0"] = equal(
        [len(dichotomies(X)) for X in near]  # two unit vectors: a singular value of sine / sqrt(2)
        + [bool(in_general_position(X * [1.0, 2**0.5])) for X in near],
        [2, 4, False, True], tol=0, why="integers, and yes or no",
    )
    told = [bool(in_general_position(X)) for sets in (general, flat, twice) for X in sets]
    wrong = np.array(told) != np.repeat([True, False, False], 20)
    names = [*expected]
    return every({
        **parts,
        "the test tells them apart": never(wrong, why="yes or no"),
        "and finds the smallest singular value": _smallest_values(rng),
    }).drawn(
        Series("formula", names, [count for _, count in expected.values()], "gray", "bars"),
        Series("counted", np.repeat(names, 20).tolist(),
               np.concatenate([found[name] for name in names])),
        x="how the points lie", y="dichotomies",
    )


def _smallest_values(rng: np.random.Generator) -> Evidence:
    """Compare with singular values of all subsets; of 5 of 40 points, random ones are looked at."""
    found, known = [], []
    for s, n, bias in ((7, 3, False), (6, 2, True), (2, 4, False), (9, 1, True), (200, 2, False)):
        X = rng.normal(size=(s, n)) * rng.uniform(0.1, 10, size=(s, 1))
        one = in_general_position(X, bias=bias)
        wider = np.column_stack([X, np.ones(s)]) if bias else X
        rows = (wider / np.linalg.norm(wider, axis=1, keepdims=True)).tolist()
        subsets = list(itertools.combinations(rows, min(s, n + bias)))
        found += [one.smallest, one.subsets, one.exhaustive]
        known += [np.linalg.svd(subsets, compute_uv=False)[:, -1].min(), len(subsets), True]
    sampled = in_general_position(rng.normal(size=(40, 5)), rng=rng)
    twins = in_general_position(np.repeat(rng.normal(size=(20, 5)), 2, axis=0))
    more = in_general_position(rng.normal(size=(201, 2)))  # 20100 subsets: too many for all
    found += [sampled.holds, sampled.subsets, sampled.exhaustive, twins.holds, more.exhaustive]
    return equal_to_rounding(found, [*known, True, 2000, False, False, False])


@claim(control={"on_the_line": 1}, source="Cover 1965, proof of the function-counting theorem")
def recursion(
    seed: Seed, *, largest: Annotated[int, Range(5, 150)] = 60,
    on_the_line: Annotated[int, Range(1, 4)] = 2,
) -> Evidence:
    r"""$C(s+1,n)=C(s,n)+C(s,n-1)$ with $C(1,n)=C(s,1)=2$ gives the closed form."""
    row, wrong = [on_the_line] + [2] * (largest - 1), 0  # C(1, n) for n = 1, 2, ...
    for s in range(1, largest + 1):
        wrong += sum(count != cover_count(s, n) for n, count in enumerate(row, start=1))
        row = [on_the_line, *(here + lower for lower, here in itertools.pairwise(row))]
    return never(wrong, of=largest**2, why=INTEGERS).named("counts unlike the closed form")


@claim(control={"extra": 1}, refutes=["number"], source="Cover 1965")
def shattering(
    seed: Seed, *, dim: Annotated[int, Range(1, 7)] = 5, extra: Annotated[int, Range(0, 3)] = 0
) -> Evidence:
    r"""$C(s,n)=2^s$, so that every labeling is realized, if and only if $s\le n$."""
    rng = seed.numpy()
    sets = [rng.normal(size=(s, dim)) for s in range(1, dim + extra + 1)]
    grid = itertools.product(range(1, 61), repeat=2)
    wrong = sum((cover_count(s, n) == 2**s) != (s <= n) for s, n in grid)
    counted = _counted(sets, [2 ** len(X) for X in sets])
    return every({**counted, "formula": never(wrong, of=3600, why=INTEGERS)})


@claim(control={"extra": 2}, refutes=["rational"], source="Cover 1965")
def half_at_twice_dimension(
    seed: Seed, *, largest: Annotated[int, Range(2, 400)] = 200,
    extra: Annotated[int, Range(0, 10)] = 0,
) -> Evidence:
    r"""Exactly half of all labelings of $2n$ points are dichotomies: $C(2n,n)/2^{2n}=\frac12$."""
    dims = range(1, largest + 1)
    exact = [Fraction(cover_count(2 * n + extra, n), 2 ** (2 * n + extra)) for n in dims]
    floats = [cover_fraction(2 * n + extra, n) for n in dims]
    logs = [log_cover_fraction(2 * n + extra, n, complement=bool(n % 2)) for n in dims]
    wanted = [float(1 - one if n % 2 else one) for n, one in zip(dims, exact, strict=True)]
    grid = {n: range(n, 4 * n, max(1, n // 10)) for n in (2, 10, 100)}
    curves = [
        Series(f"n = {n}", [s / n for s in sizes], [cover_fraction(s, n) for s in sizes], "other")
        for n, sizes in grid.items()
    ]
    return every(
        {
            "rational": never(
                sum(one != Fraction(1, 2) for one in exact), of=largest, why=INTEGERS
            ),
            "binomial law": equal_to_rounding(floats, [float(one) for one in exact]),
            "logarithm": equal_to_rounding(np.exp(logs), wanted),
            "nothing is missing up to s = n": equal(
                [log_cover_fraction(n, n, complement=missing) for n in (1, 2, 7)
                 for missing in (False, True)], [0, -math.inf] * 3, tol=0, why="ln 1 and ln 0",
            ),
        }
    ).drawn(
        *curves, Series("measured", [2 + extra / n for n in dims], floats), Rule("half", y=0.5),
        x="points a dimension s/n", y="share of labelings that are dichotomies",
    )


@claim(
    control={"rate": "1"},
    refutes=["s = 1.5 n", "s = 3 n"],
    source="Chernoff 1952, whose bound on a binomial tail has the right exponent",
    misprint=r"$1-O(e^{-n})$ below and $O(e^{-n})$ above, for every ratio $s/n$",
)
def fraction_rate(
    seed: Seed, *, below: Annotated[float, Range(1.05, 1.6)] = 1.5,
    above: Annotated[float, Range(2.5, 6)] = 3.0, rate: Literal["KL", "1"] = "KL",
) -> Evidence:
    r"""At $s=\alpha n$ the small side decays as $e^{-c(\alpha)n}$, and $c\to0$ as $\alpha\to2$."""
    sizes = np.arange(200, 3201, 200)
    parts = {}
    for alpha in (below, above):
        expected = _rate(alpha) if rate == "KL" else 1.0
        decay = [_small_side(alpha, n) for n in sizes.tolist()]
        parts[f"s = {alpha:g} n"] = slope(
            sizes, decay, expected, tol=0.02 * expected, log="",
            why="2 %: the factor 1/sqrt(n) of the tail adds log(n)/2, at most 1 % of the slope",
            labels=("dimension n", "-log of the small side"),
        )
    gaps, n = np.array([0.5, 0.2, 0.1, 0.05, 0.02, 0.01]), 20_000
    slopes = [(_small_side(2 - gap, 2 * n) - _small_side(2 - gap, n)) / n for gap in gaps]
    parts["rate near 2"] = tends_to(
        gaps, slopes, 0.0, tol=1e-4, labels=("2 - s/n", "rate"), log="xy",
        why="c = (2 - s/n)²/4 = 2.5e-5 at the last, and log(2)/2n = 1.7e-5 of the factor 1/sqrt(n)",
    )
    return every(parts)


def _rate(alpha: float) -> float:
    """Give the rate of decay at s = alpha n, in nats per dimension."""
    p = 1 / alpha
    return alpha * (p * math.log(2 * p) + (1 - p) * math.log(2 * (1 - p)))


def _small_side(alpha: float, n: int) -> float:
    """Give -log of the share of dichotomies above s = 2n, of the missing ones below."""
    return -log_cover_fraction(round(alpha * n), n, complement=alpha < 2)


@claim(
    control={"trend": "falls"},
    refutes=["the number falls", "counted in three dimensions it falls"],
    source="Cover 1965",
    misprint="past twice the dimension a steep decrease in the number of classifications",
)
def number_still_grows(
    seed: Seed, *, dim: Annotated[int, Range(2, 50)] = 10,
    trend: Literal["grows", "falls"] = "grows",
) -> Evidence:
    r"""Past $s=2n$ the share of labelings falls, but the number of dichotomies keeps growing."""
    sizes = range(2 * dim, 4 * dim + 1)
    numbers = [cover_count(s, dim) for s in sizes]
    points = seed.numpy().normal(size=(12, 3))
    counted = [len(dichotomies(points[:s])) for s in range(6, 13)]
    up = trend == "grows"
    return every(
        {
            f"the number {trend}": never(
                sum((a < b) != up for a, b in itertools.pairwise(numbers)), of=2 * dim, why=INTEGERS
            ).drawn(
                Series("number C(s, n)", sizes, [float(one) for one in numbers]),
                x="points s", y=f"dichotomies in {dim} dimensions", log="y",
            ),
            f"counted in three dimensions it {trend}": never(
                sum((a < b) != up for a, b in itertools.pairwise(counted)), of=6, why=INTEGERS
            ),
            "the share falls": never(  # C(s + 1) / 2^(s + 1) < C(s) / 2^s
                sum(b >= 2 * a for a, b in itertools.pairwise(numbers)), of=2 * dim, why=INTEGERS
            ),
        }
    )


@claim(control={"labels": "teacher"}, source="Cover 1965, for random labels")
def capacity_in_practice(
    seed: Seed, *, dim: Annotated[int, Range(2, 20)] = 10,
    problems: Annotated[int, Range(100, 2000)] = 200,
    labels: Literal["random", "teacher"] = "random",
) -> Evidence:
    r"""Random labels on random points are separable with probability $C(s,n)/2^s$."""
    rng = seed.numpy()
    sizes = [round(ratio * dim) for ratio in (1.4, 1.8, 2.0, 2.2, 2.6)]
    shares = []
    for s in sizes:
        X = rng.normal(size=(problems, s, dim))
        y = rng.choice([-1.0, 1.0], size=(problems, s))
        if labels == "teacher":
            y = np.sign(X @ rng.normal(size=dim))
        shares.append(one_sided(y[..., None] * X).mean())
    chance = np.array([cover_fraction(s, dim) for s in sizes])
    error = np.sqrt(chance * (1 - chance) / problems)
    return within_errors(
        shares, chance, error=error, why=f"a share of {problems} independent problems"
    ).named("share of labelings that are separable").drawn(
        Series("separable", sizes, shares, error=5 * error),
        Series("C(s, n) / 2^s", sizes, chance, role="predicted"),
        x="points s", y="probability",
    )


def one_sided(labeled: Array) -> Array:
    """Tell which of many sets of points yx (k, s, n) lie on one side of a hyperplane through 0.

    Gordan: they do unless 0 is a convex combination of them, and nonnegative least squares finds
    the one nearest to 0, fifty times faster than a linear program of this size.
    """
    k, s, n = labeled.shape
    columns = np.concatenate([unit_rows(labeled), np.ones((k, s, 1))], axis=2).transpose(0, 2, 1)
    target = np.append(np.zeros(n), 1.0)
    return np.array([nnls(one, target, maxiter=30 * s)[1] > 1e-8 for one in columns])


@claim(control={"first": 1}, refutes=["sum"], source="the binomial theorem at 1 + 1")
def binomial_sum(
    seed: Seed, *, largest: Annotated[int, Range(1, 400)] = 200,
    first: Annotated[int, Range(0, 1)] = 0,
) -> Evidence:
    r"""$\sum_{i=0}^n\binom{n}{i}=2^n$, which makes $C(n+1,n+1)=2^{n+1}$."""
    dims = range(largest + 1)
    sums = [sum(math.comb(n, i) for i in range(first, n + 1)) for n in dims]
    return every(
        {
            "sum": never(sum(sums[n] != 2**n for n in dims), of=largest + 1, why=INTEGERS),
            "dichotomies": never(
                sum(cover_count(n + 1, n + 1) != 2 * 2**n for n in dims), of=largest + 1,
                why=INTEGERS,
            ),
        }
    )

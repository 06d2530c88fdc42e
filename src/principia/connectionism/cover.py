r"""Counting dichotomies: how many labelings of s points one threshold unit can realize.

Of the $2^s$ ways to label $s$ points of $\mathbb R^n$ the hyperplanes through 0 realize exactly
$C(s,n)$, wherever the points are, as long as they are in general position. Up to $s=n$ that is all
of them, at $s=2n$ half of them, and beyond a vanishing share, though the number itself keeps
growing: a unit with $n$ weights has room for $2n$ random labels. A labeling is a cell of the
arrangement of the hyperplanes $x_i\cdot w=0$ in the space of the weights, and a new point splits as
many cells as its own hyperplane has in it: this is the proof, and here also the algorithm.

$$ C(s,n) = 2\sum_{i=0}^{n-1}\binom{s-1}{i}, \quad C(s+1,n) = C(s,n) + C(s,n-1) $$

$$ \frac{C(s,n)}{2^s} = P\big(\mathrm{Bin}(s-1,\tfrac12)\le n-1\big) $$

$$ c(\alpha) = \alpha\,\mathrm{KL}\big(\tfrac1\alpha\,\Vert\,\tfrac12\big), \quad s = \alpha n $$

Symbols:
    $s, n$: number of points and their dimension; `X` is (s, n)
    $C(s,n)$: number of dichotomies, `cover_count`; with a bias it is $C(s,n+1)$
    $w$: weights; those that give one labeling form a cell
    $c(\alpha)$: rate per dimension at which the smaller share decays

References:
    Cover (1965), Geometrical and statistical properties of systems of linear inequalities with
        applications in pattern recognition. IEEE Transactions on Electronic Computers EC-14(3).
        doi:10.1109/PGEC.1965.264137
    Zaslavsky (1975), Facing up to arrangements: face-count formulas for partitions of space by
        hyperplanes. Memoirs of the AMS 154. doi:10.1090/memo/0154
    Gordan (1873), Über die Auflösung linearer Gleichungen mit reellen Coefficienten. Mathematische
        Annalen 6. doi:10.1007/BF01442864
"""

__all__ = [
    "dichotomies", "cover_count", "cover_fraction", "log_cover_fraction", "in_general_position",
]

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal, final

import numpy as np
from jaxtyping import Int8, Num
from scipy.linalg import qr, solve_triangular
from scipy.optimize import nnls
from scipy.special import logsumexp
from scipy.stats import binom, norm
from sklearn.decomposition import PCA

from principia.connectionism.margin import separable
from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Count, Positive, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import equal, estimates, every, identical, never, slope, tends_to
from principia.lab.seeds import Seed

Array = np.ndarray
ALL_SUBSETS, SOME_SUBSETS = 20_000, 2_000  # looked at one by one; else so many random ones
MOST_SIGNS = 10**8  # entries of the sign matrix: 100 MB
BLOCK = 2**22  # numbers in one batch of small matrices: 32 MB
CACHED = 2**16  # numbers of a table that is worked on in several steps: 512 KB
INTEGERS = "integers, compared exactly"


@checked
def cover_count(s: Count, n: Count, *, bias: bool = False) -> int:
    r"""Counts the dichotomies of s points of $\mathbb R^n$ in general position, exactly.

    Args:
        s: Number of points.
        n: Dimension.
        bias: Whether the hyperplanes may miss 0, which is worth one dimension.

    Example:
        >>> cover_count(4, 2), cover_count(4, 2, bias=True)
        (8, 14)
    """
    return 2 * sum(math.comb(s - 1, i) for i in range(min(n + bias, s)))


@checked
def cover_fraction(s: Count, n: Count, *, bias: bool = False) -> float:
    r"""Gives the share $C(s,n)/2^s$ of all labelings that hyperplanes realize.

    Args:
        s: Number of points.
        n: Dimension.
        bias: Whether the hyperplanes may miss 0.

    Example:
        >>> cover_fraction(10, 5), cover_fraction(5, 5)
        (0.5, 1.0)
    """
    return float(binom.cdf(n + bias - 1, s - 1, 0.5))


@checked
def log_cover_fraction(
    s: Count, n: Count, *, bias: bool = False, complement: bool = False
) -> float:
    r"""Gives the logarithm of the share, or of the share that is missing, however small.

    SciPy's `binom.logcdf` is the logarithm of a number that underflows; here the smaller tail is
    summed in logarithms, and the larger one is what it leaves.

    Args:
        s: Number of points.
        n: Dimension.
        bias: Whether the hyperplanes may miss 0.
        complement: Whether to take the labelings that no hyperplane realizes.

    Example:
        >>> round(log_cover_fraction(10**6, 10), 3)
        -693034.95
    """
    split = min(n + bias, s)  # successes below it: realized; from it on: not
    lower = 2 * split <= s
    tail = np.arange(split) if lower else np.arange(split, s)
    small = float(logsumexp(binom.logpmf(tail, s - 1, 0.5))) if len(tail) else -math.inf
    return small if lower != complement else math.log1p(-math.exp(small))


@checked
def dichotomies(
    X: Num[Array, "s n"], *, bias: bool = False, tol: Positive = 1e-9, most: Count = 100_000
) -> Int8[Array, "cells s"]:
    r"""Finds all labelings that hyperplanes realize, with no point on the hyperplane.

    Points are added one by one. Each cell of weights is kept as one point inside it; the cells that
    a new hyperplane splits are those of the arrangement within that hyperplane, one dimension
    lower, down to three, where the faces of all cells are found at once by sorting angles. So no
    labeling is tried in vain, and every one that is returned is $\mathrm{sign}(Xw)$ of a $w$ at
    hand. Points may be in any position.

    Args:
        X: Points (s, n), the normals of a central arrangement.
        bias: Whether the hyperplanes may miss 0; else they pass through it.
        tol: Sines up to this count as 0: points are then dependent.
        most: Largest number of cells to expect, by the formula for general position.

    Returns:
        Labels +1 and -1, one labeling a row, in lexicographic order.

    Example:
        >>> dichotomies(np.array([[1, 0], [0, 1], [-1, 0]])).tolist()
        [[-1, -1, 1], [-1, 1, 1], [1, -1, -1], [1, 1, -1]]
    """
    X = _unit(_points("dichotomies", X, bias))
    s, n = X.shape
    expected = cover_count(s, n)
    if expected > most or expected * s > MOST_SIGNS:
        domain = f"of at most {most} dichotomies and {MOST_SIGNS} signs"
        got = f"{s} points in {n} dimensions: C(s, n) = {expected}"
        raise refuse("dichotomies", "X", domain, got, "Take fewer points, or raise most.")
    codes = np.random.default_rng(0).integers(2**63, size=s)  # a cell's key: the sum of its + codes
    inside = _cells(X, codes, tol)
    packed = np.packbits(inside @ X.T > 0, axis=1)
    half = np.unique(packed.view(f"S{packed.shape[1]}"))  # as strings: sorted ten times faster
    if len(half) != len(inside):
        raise _unresolved(tol)
    plus = np.unpackbits(half.view(np.uint8).reshape(packed.shape), axis=1, count=s)
    signs = 2 * plus.view(np.int8) - 1
    return np.concatenate([-signs[::-1], signs])


@final
@dataclass(frozen=True)
class GeneralPosition:
    """What `in_general_position` found; it is true if no dependent subset was seen."""

    holds: bool
    smallest: float  # singular value of a subset of unit vectors
    subsets: int
    exhaustive: bool

    def __bool__(self) -> bool:
        return self.holds


@checked
def in_general_position(
    X: Num[Array, "s n"], tol: Positive = 1e-9, *, bias: bool = False,
    rng: np.random.Generator | None = None,
) -> GeneralPosition:
    r"""Tests whether every n points are linearly independent, or all of them if there are fewer.

    Up to 20000 subsets are all looked at, else 2000 random ones; `subsets` and `exhaustive` of the
    result say what was done.

    Args:
        X: Points (s, n).
        tol: Smallest singular value of the n unit vectors up to which they count as dependent.
        bias: Whether to ask for affine independence of every n + 1 points instead.
        rng: Generator that chooses the random subsets.

    Example:
        >>> bool(in_general_position(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])))
        True
        >>> in_general_position(np.array([[1, 2], [0, 1], [2, 4]])).holds
        False
    """
    X = _points("in_general_position", X, bias)
    s, n = X.shape
    size, unit = min(s, n), _unit(X)
    total = math.comb(s, size)
    exhaustive, rng = total <= ALL_SUBSETS, rng or np.random.default_rng(0)
    subsets = total if exhaustive else SOME_SUBSETS
    chosen, smallest = itertools.combinations(range(s), size), math.inf
    step = max(1, BLOCK // max(s, size * n))
    for start in range(0, subsets, step):
        some = min(step, subsets - start)
        if exhaustive:
            rows = np.array(list(itertools.islice(chosen, some)))
        else:
            rows = np.argpartition(rng.random((some, s)), size - 1, axis=1)[:, :size]
        values = np.linalg.svd(unit[rows], compute_uv=False)  # (some, size), decreasing
        smallest = min(smallest, float(values[:, -1].min()))
    return GeneralPosition(smallest > tol, smallest, subsets, exhaustive)


@claim(
    control={"formula": "misprint"},
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


@claim(control={"formula": "homogeneous"}, source="Cover 1965, for the points (x, 1)")
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
    return every(
        {**counted, "share": identical(fractions, shares), "log": identical(np.exp(logs), shares)}
    )


@claim(control={"on_a_line": 3}, source="Cover 1965; Zaslavsky 1975")
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
    parts = {
        name: equal([len(dichotomies(X)) for X in sets], count, tol=0, why=INTEGERS)
        for name, (sets, count) in expected.items()
    }
    told = [bool(in_general_position(X)) for sets in (general, flat, twice) for X in sets]
    wrong = np.array(told) != np.repeat([True, False, False], 20)
    return every({**parts, "the test tells them apart": never(wrong, why="yes or no")})


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
    return never(wrong, of=largest**2, why=INTEGERS)


@claim(control={"extra": 1}, source="Cover 1965")
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


@claim(control={"extra": 2}, source="Cover 1965")
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
    return every(
        {
            "rational": never(
                sum(one != Fraction(1, 2) for one in exact), of=largest, why=INTEGERS
            ),
            "binomial law": identical(floats, [float(one) for one in exact]),
            "logarithm": identical(np.exp(logs), wanted),
        }
    )


@claim(
    control={"rate": "1"},
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


@claim(
    control={"trend": "falls"},
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
        shares.append(_separable(y[..., None] * X).mean())
    chance = np.array([cover_fraction(s, dim) for s in sizes])
    error = np.sqrt(chance * (1 - chance) / problems)
    return estimates(
        shares, chance, error=error, why=f"a share of {problems} independent problems"
    ).drawn(
        Series("separable", sizes, shares, error=5 * error),
        Series("C(s, n) / 2^s", sizes, chance, role="predicted"),
        x="points s", y="probability",
    )


@claim(control={"first": 1}, source="the binomial theorem at 1 + 1")
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


@experiment(
    reaches={"gaussian_worst_error": at_most_goal(5), "images_crossing": Range(1.9, 2.1)},
    floor={"gaussian_worst_error": at_most_goal(5), "images_crossing": Range(1.9, 2.1)},
    source="Cover (1965): the capacity of a threshold unit is two random patterns per weight",
)
def capacity_curve(run: Run, *, problems: Annotated[int, Range(100, 2000)] = 400) -> None:
    """Separates random labels on Gaussian points and on images: a step at twice the dimension."""
    rng, dims = run.seed.numpy(), (5, 20, 60) if run.full else (5, 20)
    x = handwriting(run)[0]
    pictures = x.flatten(1).double().numpy()
    scores = PCA(dims[-1], whiten=True, svd_solver="covariance_eigh").fit_transform(pictures)
    for cloud in ("gaussian", "images"):
        series, errors, crossing = [], [], math.nan
        for n in dims:
            sizes = np.arange(round(1.2 * n), round(2.8 * n) + 1, max(1, n // 10))
            solved = []
            for s in run.steps(sizes, f"{cloud}, n = {n}, points"):
                if cloud == "gaussian":
                    X = rng.normal(size=(problems, s, n))
                else:
                    rows = [rng.choice(len(scores), s, replace=False) for _ in range(problems)]
                    X = scores[np.stack(rows), :n]
                y = rng.choice([-1.0, 1.0], size=(problems, s))
                solved.append(int(_separable(y[..., None] * X).sum()))
            chance = np.array([cover_fraction(int(s), n) for s in sizes])
            share, crossing = np.array(solved) / problems, _crossing(sizes / n, solved, problems)
            errors.append(_standard_errors(solved, problems, chance).max())
            run.record(**{f"{cloud}_crossing_{n}": crossing})
            series += [
                Series(f"n = {n}", sizes / n, share, role="other", style="points"),
                Series(f"exact, n = {n}", sizes / n, chance, role="predicted"),
            ]
        run.record(**{f"{cloud}_worst_error": max(errors), f"{cloud}_crossing": crossing})
        picture = Picture(tuple(series), "points per dimension s / n", "share separable")
        run.figure(cloud, figures.draw(picture))


def _points(owner: str, X: Any, bias: bool) -> Array:
    """Take points as float64, with a last coordinate 1 for the bias."""
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or 0 in X.shape:
        raise refuse(owner, "X", "of shape (s, n) with s >= 1 and n >= 1", X.shape)
    if not np.isfinite(X).all():
        raise refuse(owner, "X", "finite", "infinity or NaN")
    return np.column_stack([X, np.ones(len(X))]) if bias else X


def _unit(X: Array) -> Array:
    """Scale rows to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(X, axis=-1, keepdims=True)
    return X / np.where(lengths > 0, lengths, 1.0)


def _cells(X: Array, codes: Array, tol: float) -> Array:
    """Find a point in each cell of the arrangement with normals X (s, n), on X[0]'s side of 0.

    The cells on the other side are their mirror images. A normal 0 leaves no cell.
    """
    n = X.shape[1]
    if (np.linalg.norm(X, axis=1) <= tol).any():
        return np.empty((0, n))
    unit = _unit(X)
    if n == 1:
        inside = np.ones((1, 1))
    elif n == 2:
        inside = _sectors(unit, tol)
    else:
        basis, triangle, _ = qr(unit.T, mode="economic", pivoting=True)
        rank = int((np.abs(np.diag(triangle)) > tol).sum())
        normals = triangle[:rank].T  # the points in a basis of their span, the first independent
        search = _grown if rank > 3 else _wedges if rank == 3 else _cells
        inside = search(normals, codes, tol) @ basis[:, :rank].T
    return inside * np.sign(inside @ X[0])[:, None]


def _sectors(unit: Array, tol: float) -> Array:
    """Find the middle of each sector between lines through 0, by sorting the lines' angles."""
    angles = np.sort(np.arctan2(unit[:, 1], unit[:, 0]) % np.pi)
    gaps = np.diff(angles, append=angles[0] + np.pi)
    middles = (angles + gaps / 2)[gaps > tol]
    return np.stack([-np.sin(middles), np.cos(middles)], axis=1)


def _wedges(normals: Array, codes: Array, tol: float) -> Array:
    """Find the cells of planes through 0 in space from their faces, for all planes at once.

    A face is a sector of one plane between the lines in which the others cross it, and on its two
    sides are two cells. From one sector to the next, the key changes by the code of the line
    between them; so a cell that is found at several of its faces is known by its key.
    """
    unit = _unit(normals)
    bases = np.linalg.qr(unit[:, :, None], mode="complete")[0][:, :, 1:]  # (s, 3, 2), orthonormal
    lines = unit @ bases  # (s, s, 2): in each plane the normals of its lines
    parallel = np.hypot(lines[..., 0], lines[..., 1]) <= tol
    new = ~np.tril(parallel, -1).any(axis=1)  # the first of those that are one plane
    unit, bases, lines = unit[new], bases[new], lines[new][:, new]
    codes = codes[: len(normals)][new]
    s = len(unit)
    others = np.nonzero(~np.eye(s, dtype=bool))[1].reshape(s, s - 1)
    full = np.take_along_axis(np.arctan2(lines[..., 1], lines[..., 0]), others, axis=1)
    order = (full % np.pi).argsort(axis=1)
    full, others = (np.take_along_axis(one, order, axis=1) for one in (full, others))
    angles, positive = full % np.pi, (full >= 0) & (full < np.pi)
    gaps = np.diff(angles, axis=1, append=angles[:, :1] + np.pi)
    wide = gaps > tol
    above = positive != (np.arange(s - 1) == 0)  # at the first sector, which is behind line 0
    turns = np.where(above, -codes[others], codes[others])
    turns[:, 0] = (codes[others] * above).sum(axis=1)
    below = turns.cumsum(axis=1)  # keys of the cells below each sector, (s, s - 1)
    keys = np.stack([below, below + codes[:, None]], axis=2)[wide]
    _, found = np.unique(np.minimum(keys, codes.sum() - keys), return_index=True)  # up to mirroring
    plane, sector = (one[found // 2] for one in np.nonzero(wide))
    middles = (angles + gaps / 2)[plane, sector]
    flat = np.stack([-np.sin(middles), np.cos(middles)], axis=1)
    on_face = (bases[plane] @ flat[:, :, None])[..., 0]
    inside = []
    rows, gram = 1 + CACHED // s, unit @ unit.T
    for start in range(0, len(found), rows):
        point, normal = on_face[start : start + rows], plane[start : start + rows]
        ratios = point @ unit.T
        ratios[np.arange(len(point)), normal] = np.inf  # its own plane
        with np.errstate(divide="ignore"):  # half way to the nearest other plane
            ratios /= gram[normal]
        reach = np.abs(ratios, out=ratios).min(axis=1, initial=2.0, keepdims=True)
        side = np.where(found[start : start + rows] % 2, 0.5, -0.5)[:, None]
        inside.append(point + side * reach * unit[normal])
    return np.concatenate(inside)


def _grown(normals: Array, codes: Array, tol: float) -> Array:
    """Add hyperplanes one by one to those of the first independent normals, which are shattered."""
    rank = normals.shape[1]
    corners = _labelings(rank)[::2]
    inside = solve_triangular(normals[:rank], corners.T, lower=True).T
    keys = (corners > 0) @ codes[:rank]
    for k in range(rank, len(normals)):
        x, known = normals[k], normals[:k]
        plane = np.linalg.qr(x[:, None], mode="complete")[0][:, 1:]  # orthonormal basis of x.w = 0
        split = _cells(known @ plane, codes, tol) @ plane.T
        scores = split @ known.T
        split_keys = (scores > 0) @ codes[:k]
        whole = ~np.isin(keys, split_keys)
        if whole.sum() != len(inside) - len(split):  # every split cell is one of those known
            raise _unresolved(tol)
        with np.errstate(divide="ignore"):  # half way to the nearest hyperplane, both ways
            reach = (np.abs(scores) / np.abs(known @ x)).min(axis=1, initial=2.0, keepdims=True)
        inside = np.concatenate([inside[whole], split + reach / 2 * x, split - reach / 2 * x])
        keys = np.concatenate([keys[whole], split_keys, split_keys]) + codes[k] * (inside @ x > 0)
    return inside


def _unresolved(tol: float) -> Exception:
    got = "points that are nearly dependent"
    return refuse("dichotomies", "X", f"resolved by tol={tol:g}", got, "Try another tol.")


def _labelings(s: int) -> Array:
    """List all labelings (2^s, s); the even rows begin with +1."""
    return 1.0 - 2.0 * ((np.arange(2**s)[:, None] >> np.arange(s)) & 1)


def _counted(sets: list[Array], predicted: list[int], *, bias: bool = False) -> dict[str, Evidence]:
    """State how many dichotomies there are, and that linear programs find the same labelings."""
    counts, wrong, total = [], 0, 0
    for X in sets:
        found = {tuple(row) for row in dichotomies(X, bias=bias).tolist()}
        counts.append(len(found))
        for y in _labelings(len(X))[::2]:  # a labeling and its negative go together
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


def _separable(labeled: Array) -> Array:
    """Tell which of many sets of points yx (k, s, n) lie on one side of a hyperplane through 0.

    Gordan: they do unless 0 is a convex combination of them, and nonnegative least squares finds
    the one nearest to 0, fifty times faster than a linear program of this size.
    """
    k, s, n = labeled.shape
    columns = np.concatenate([_unit(labeled), np.ones((k, s, 1))], axis=2).transpose(0, 2, 1)
    target = np.append(np.zeros(n), 1.0)
    return np.array([nnls(one, target, maxiter=30 * s)[1] > 1e-8 for one in columns])


def _rate(alpha: float) -> float:
    """Give the rate of decay at s = alpha n, in nats per dimension."""
    p = 1 / alpha
    return alpha * (p * math.log(2 * p) + (1 - p) * math.log(2 * (1 - p)))


def _small_side(alpha: float, n: int) -> float:
    """Give -log of the share of dichotomies above s = 2n, of the missing ones below."""
    return -log_cover_fraction(round(alpha * n), n, complement=alpha < 2)


def _standard_errors(solved: list[int], problems: int, chance: Array) -> Array:
    """Give how unlikely the counts are, from exact binomial tails, in normal standard errors."""
    law = binom(problems, chance)
    return norm.isf(np.minimum(law.cdf(solved), law.sf(np.array(solved) - 1)))


def _crossing(ratios: Array, solved: list[int], problems: int) -> float:
    """Find where the share crosses 1/2: by the CLT sqrt(s) times its probit is a line in s."""
    share = (np.array(solved) + 0.5) / (problems + 1)  # never 0 or 1
    probit, root = norm.ppf(share), np.sqrt(ratios)
    weight = norm.pdf(probit) / np.sqrt(share * (1 - share)) / root  # one over its standard error
    line, offset = np.polyfit(ratios, root * probit, 1, w=weight)
    return float(-offset / line)

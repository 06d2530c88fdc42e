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
from typing import Any, final

import numpy as np
from jaxtyping import Int8, Num
from scipy.linalg import qr, solve_triangular
from scipy.special import logsumexp
from scipy.stats import binom

from principia.lab.params import PositiveFloat, PositiveInt, checked, usage_error

Array = np.ndarray
ALL_SUBSETS, SOME_SUBSETS = 20_000, 2_000  # looked at one by one; else so many random ones
MOST_SIGNS = 10**8  # entries of the sign matrix: 100 MB
BLOCK = 2**22  # numbers in one batch of small matrices: 32 MB
CACHED = 2**16  # numbers of a table that is worked on in several steps: 512 KB


@checked
def cover_count(s: PositiveInt, n: PositiveInt, *, bias: bool = False) -> int:
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
def cover_fraction(s: PositiveInt, n: PositiveInt, *, bias: bool = False) -> float:
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
    s: PositiveInt, n: PositiveInt, *, bias: bool = False, complement: bool = False
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
    X: Num[Array, "s n"], *, bias: bool = False, tol: PositiveFloat = 1e-9,
    most: PositiveInt = 100_000
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
    X = unit_rows(_points("dichotomies", X, bias))
    s, n = X.shape
    _need_few(s, n, most)
    codes = np.random.default_rng(0).integers(2**63, size=s)  # a cell's key: the sum of its + codes
    inside = _cells(X, codes, tol)
    packed = np.packbits(inside @ X.T > 0, axis=1)
    half = np.unique(packed.view(f"S{packed.shape[1]}"))  # as strings: sorted ten times faster
    if len(half) != len(inside):
        raise _unresolved(tol)
    plus = np.unpackbits(half.view(np.uint8).reshape(packed.shape), axis=1, count=s)
    signs = 2 * plus.view(np.int8) - 1
    return np.concatenate([-signs[::-1], signs])


def _need_few(s: int, n: int, most: int) -> None:
    expected = cover_count(s, n)
    if expected > most or expected * s > MOST_SIGNS:
        domain = f"of at most {most} dichotomies and {MOST_SIGNS} signs"
        got = f"{s} points in {n} dimensions: C(s, n) = {expected}"
        raise usage_error("dichotomies", "X", domain, got, "Take fewer points, or raise most.")


def _points(owner: str, X: Any, bias: bool) -> Array:
    """Take points as float64, with a last coordinate 1 for the bias."""
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or 0 in X.shape:
        raise usage_error(owner, "X", "of shape (s, n) with s >= 1 and n >= 1", X.shape)
    if not np.isfinite(X).all():
        raise usage_error(owner, "X", "finite", "infinity or NaN")
    return np.column_stack([X, np.ones(len(X))]) if bias else X


def _cells(X: Array, codes: Array, tol: float) -> Array:
    """Find a point in each cell of the arrangement with normals X (s, n), on X[0]'s side of 0.

    The cells on the other side are their mirror images. A normal 0 leaves no cell.
    """
    n = X.shape[1]
    if (np.linalg.norm(X, axis=1) <= tol).any():
        return np.empty((0, n))
    unit = unit_rows(X)
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
    unit = unit_rows(normals)
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
    corners = labelings(rank)[::2]
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
    return usage_error("dichotomies", "X", f"resolved by tol={tol:g}", got, "Try another tol.")


def unit_rows(X: Array) -> Array:
    """Scale rows to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(X, axis=-1, keepdims=True)
    return X / np.where(lengths > 0, lengths, 1.0)


def labelings(s: int) -> Array:
    """List all labelings (2^s, s); the even rows begin with +1."""
    return 1.0 - 2.0 * ((np.arange(2**s)[:, None] >> np.arange(s)) & 1)


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
    X: Num[Array, "s n"], tol: PositiveFloat = 1e-9, *, bias: bool = False,
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
    size, unit = min(s, n), unit_rows(X)
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

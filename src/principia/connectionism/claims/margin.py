r"""Margin and version space: what is true of it, and what would refute it.

Knobs:
    dim: Dimension of the points.
    points: Points that are measured or separated.
    normalized: Whether the score is divided by the length of $w$; else it is no distance.
    sign_of_zero: The class of a point on the hyperplane; with one of its own the rule has
        exceptions.
    scales: Factors by which a hyperplane's numbers are multiplied.
    kind: Whether the margin is a distance, or the bare score, which grows with the factor.
    problems: Separable sets of points.
    model: Who finds the hyperplane; a perceptron's depends on the order of the points.
    samples: Random hyperplanes that separate the points.
    champion: Whose margin shall be the largest; the averaged perceptron's is not.
    drop: Which points are left out; without a support vector the solution moves.
    directions: Random hyperplanes by which the volume of the version space is measured.
    change: Whether a new point is added, or replaces an old one, which lets hyperplanes come back.
    sets: Sets of points, half of which cannot be separated.
    product: Whether XOR gets the product of its inputs as a third, which makes it separable.
    scale: How many times the true margin is asked for; above 1 no point at the margin has it.
"""

import contextlib
import itertools
import math
import warnings
from typing import Annotated, Any, Literal

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import nnls
from scipy.stats import uniform
from sklearn.svm import SVC

from principia.connectionism.margin import (
    SOLVED,
    Array,
    MaxMargin,
    VersionSpace,
    geometric_margin,
    separable,
    separates,
    signed_distance,
)
from principia.connectionism.perceptron import Perceptron, mistake_bound
from principia.lab.data.synthetic import separable_points
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    follows,
    never,
    within_errors,
)
from principia.lab.params import Range, UsageError
from principia.lab.pictures import Mark, Rule
from principia.lab.seeds import Seed
from principia.lab.training.estimators import fit_quietly

NEAR_MARGIN = "w with a margin of (1 - d) times the largest has a cosine above 1 - d with the best"


@claim(control={"normalized": False}, source="Hesse normal form")
def hesse_distance(
    seed: Seed, *, dim: Annotated[int, Range(2, 100)] = 5,
    points: Annotated[int, Range(10, 5000)] = 500, normalized: bool = True,
) -> Evidence:
    r"""$(w\cdot x+b)/\Vert w\Vert$ is the signed length of the shortest way to the hyperplane."""
    rng = seed.numpy()
    w, b = 3 * rng.normal(size=dim), float(rng.normal())
    X = rng.normal(size=(points, dim))
    X[0] = 0  # the origin, at b / |w|
    foot, largest = rng.normal(size=dim), np.abs(w).argmax()
    foot[largest] -= (w @ foot + b) / w[largest]  # some point of the hyperplane
    basis = null_space(w[None])  # (dim, dim - 1)
    measured, known, fields = [], [], []
    for bias, start in (([b], foot), ([], 0 * foot)):  # by default the hyperplane goes through 0
        inside = np.linalg.lstsq(basis, (X - start).T, rcond=None)[0]
        lengths = np.linalg.norm((X - start).T - basis @ inside, axis=0)
        scores = X @ w + sum(bias)
        measured.append(signed_distance(X, w, *bias) if normalized else scores)
        known.append(np.sign(scores) * lengths)
        fields.append(scores)
    ends = np.array([fields[0].min(), fields[0].max()])
    return equal_to_rounding(np.stack(measured), np.stack(known)).named("signed distance").drawn(
        Series("signed_distance", fields[0], measured[0]),
        Series("shortest way", fields[0], known[0], "orange", "points"),
        Series("slope 1/|w|", ends, ends / np.linalg.norm(w), role="predicted"),
        x="score w·x + b", y="signed distance from the hyperplane",
    )


@claim(control={"sign_of_zero": 1}, source="by definition of the margin")
def margin_sign(
    seed: Seed, *, points: Annotated[int, Range(1000, 1_000_000)] = 100_000,
    dim: Annotated[int, Range(1, 20)] = 3, sign_of_zero: Annotated[int, Range(-1, 1)] = 0,
) -> Evidence:
    r"""A point is classified right, $f(x)=y$, exactly if $\gamma(x,y)>0$, with sign(0) = 0."""
    rng = seed.numpy()
    # small integers are exact in float64, so that many points lie exactly on the hyperplane
    X, y = rng.integers(-5, 6, size=(points, dim)), rng.choice([-1, 1], size=points)
    w, b = rng.integers(-3, 4, size=dim), int(rng.integers(-2, 3))
    w[0] = 1  # so that there always are some
    scores = X @ w + b
    f = np.where(scores == 0, sign_of_zero, np.sign(scores))
    wrong = (f == y) != (y * signed_distance(X, w, b) > 0)
    reason = "a definition: no exception"
    return never(wrong, why=reason).named("points whose margin has the wrong sign")


@claim(control={"kind": "functional"}, source="by construction")
def margin_scale_free(
    seed: Seed, *, scales: Annotated[int, Range(3, 500)] = 50,
    dim: Annotated[int, Range(1, 100)] = 10,
    kind: Literal["geometric", "functional"] = "geometric",
) -> Evidence:
    r"""The margin of $(cw,cb)$ is that of $(w,b)$ for every $c>0$."""
    rng = seed.numpy()
    X, y, _ = separable_points(rng, 100, dim, 0.1)
    w, b = rng.normal(size=dim), float(rng.normal())
    factors = np.logspace(-200, 200, scales)  # whose squares leave float64
    if kind == "geometric":
        margins = [geometric_margin(c * w, c * b, X, y) for c in factors]
    else:
        margins = [float((y * (X @ (c * w) + c * b)).min()) for c in factors]
    return equal_to_rounding(margins, np.full(scales, geometric_margin(w, b, X, y))).named(
        "margin at any scale"
    ).drawn(
        Series(f"{kind} margin", factors, margins), x="scale c", y="margin", log="x",
    )


@claim(control={"model": "perceptron"}, source="Boser, Guyon and Vapnik 1992")
def max_margin_unique(
    seed: Seed, *, problems: Annotated[int, Range(1, 25)] = 8,
    points: Annotated[int, Range(10, 500)] = 60, dim: Annotated[int, Range(2, 30)] = 5,
    model: Literal["max margin", "perceptron"] = "max margin",
) -> Evidence:
    r"""The hyperplane of largest margin is unique: two solvers, any order, one answer."""
    rng = seed.numpy()
    cosines = []
    for _ in range(problems):
        X, y, target = separable_points(rng, points, dim, 0.1)
        scale = 10 ** rng.uniform(-4, 4) if model == "max margin" else 1.0
        away = 10 ** rng.uniform(0, 4) if model == "max margin" else 1.0
        shift = away * rng.normal() * target
        X = scale * (X + shift)
        if model == "perceptron":
            fits = [Perceptron(shuffle=True, random_state=k).fit(X, y) for k in range(6)]
        else:
            orders = [np.arange(points), rng.permutation(points), rng.permutation(points)]
            fits = [
                model.fit(X[order], y[order])
                for order in orders for model in (MaxMargin(), MaxMargin(solver="slsqp"))
            ]
        planes = np.array([np.append(one.coef_, one.intercept_ / scale) for one in fits])
        planes[:, -1] += planes[:, :-1] @ shift  # as if nothing had been moved
        planes /= np.linalg.norm(planes, axis=1, keepdims=True)
        cosines.append(planes[1:] @ planes[0])
    return at_least(
        np.ravel(cosines), 1.0, slack=SOLVED, why=f"a theorem; {NEAR_MARGIN}"
    ).named("cosine between two solutions").drawn(*_unlike(cosines), x="problem", y="1 - cosine",
                                                  log="y")


def _unlike(cosines: list[Any]) -> list[Mark]:
    """Draw how far cosines are below 1, on a logarithmic axis, which ends where float64 does."""
    numbers = np.repeat(np.arange(1, len(cosines) + 1), np.size(cosines[0]))
    gaps = np.maximum(1 - np.ravel(cosines), 1e-17)
    return [Series("two solutions", numbers, gaps), Rule("slack of the solver", y=SOLVED)]


@claim(
    control={"champion": "averaged perceptron"}, refutes=["largest margin"],
    source="by definition of the maximum",
)
def max_margin_best(
    seed: Seed, *, problems: Annotated[int, Range(1, 50)] = 6,
    samples: Annotated[int, Range(10, 1000)] = 100, dim: Annotated[int, Range(1, 10)] = 3,
    champion: Literal["max margin", "averaged perceptron"] = "max margin",
) -> Evidence:
    r"""No separator has a larger margin than $\gamma_{MM}$: no perceptron, LP or random one."""
    rng = seed.numpy()
    names = ("max margin", "averaged perceptron", "perceptron", "linear program")
    margins, found, known, wrong = [], [], [], []
    for _ in range(problems):
        X, y, target = separable_points(rng, 40, dim, 0.1)
        X += rng.normal() * target
        fits = [one.fit(X, y) for one in (MaxMargin(), Perceptron(average=True), Perceptron())]
        _, w, b = separable(X, y)
        members = VersionSpace(X, y).sample(samples, rng)
        W = np.vstack([*(one.coef_ for one in fits), w, members[0]])
        B = np.concatenate([*(one.intercept_ for one in fits), [b], members[1]])
        margins.append([geometric_margin(W[k], float(B[k]), X, y) for k in range(len(B))])
        svm = SVC(kernel="linear", C=1e8, tol=1e-6, random_state=0).fit(X, y)
        scores, length = svm.decision_function(members[0]), np.linalg.norm(svm.coef_)
        found += [fits[0].margin_, *fits[0].decision_function(members[0])]
        known += [1 / length, *scores / length]
        named = MaxMargin().fit(X, np.where(y > 0, "up", "down"))
        wrong.append(named.predict(members[0]) != np.where(scores >= 0, "up", "down"))
    plain = MaxMargin().fit([[-1.0], [1.0]], [0, 1])
    with contextlib.suppress(ValueError):  # points of another dimension change nothing
        plain.predict([[0.0, 0.0]])
    wrong.append((plain.n_features_in_ != 1) | (plain.predict([[0.0]]) != 1))  # on the plane
    table = np.array(margins)  # (problems, 4 + samples)
    best = np.broadcast_to(table[:, [names.index(champion)]], table.shape)
    ranks, some = np.arange(1, problems + 1), table[:, 4:44]
    by_name = [Series(one, ranks, table[:, k], "other", "points") for k, one in enumerate(names)]
    return every(
        {
            "largest margin": at_least(
                best, table, slack=SOLVED * table.max(),
                why="a maximum, which the solver may miss by 1e-6",
            ).drawn(
                Series("random separators", np.repeat(ranks, some.shape[1]), some.ravel()),
                *by_name, x="problem", y="margin",
            ),
            "perceptron, program and samples separate": never(
                table[:, 2:] <= 0, why="members of the version space have a margin above 0"),
            "margin and distances of scikit-learn's": equal(
                found, known, tol=1e-4, why="its solver stops at a slack of 1e-6 of margins 0.1"),
            "of a grid, where many points touch": equal(
                _margins_of_a_grid(), 12**-0.5, tol=1e-6, why="sums 0 and 1 are 1/√3 apart"),
            "a thin margin is found or refused": never(
                _short_of(rng), why="who has not converged must not answer"),
            "classes of scikit-learn's": never(
                np.concatenate(wrong), why="no random point is within 1e-4 of the hyperplane"
            ),
        }
    )


def _margins_of_a_grid() -> list[float]:
    """Fit 343 points of whole numbers: those with a sum above 0, and the others."""
    X = np.array(list(itertools.product(range(-3, 4), repeat=3)), dtype=float)
    y = X.sum(axis=1) > 0
    return [model.fit(X, y).margin_ for model in (MaxMargin(), MaxMargin(solver="slsqp"))]


def _short_of(rng: np.random.Generator) -> list[bool]:
    """Tell whether one solver finds less than the other, or warns, where margins are thin."""
    short = []
    for gap in (0.01, 0.003, 0.003):
        found = math.inf
        X, y, normal = separable_points(rng, 60, 3, 0.0)
        X += (y * gap * rng.uniform(1, 2, size=60) - X @ normal)[:, None] * normal
        best = MaxMargin(solver="slsqp").fit(X, y).margin_
        with warnings.catch_warnings(record=True) as noted, contextlib.suppress(UsageError):
            found = MaxMargin().fit(X, y).margin_
        short += [found < (1 - 2 * SOLVED) * best, len(noted) > 0]
    return short


@claim(control={"drop": "one support vector"}, source="Boser, Guyon and Vapnik 1992")
def support_vectors_decide(
    seed: Seed, *, problems: Annotated[int, Range(2, 50)] = 10,
    points: Annotated[int, Range(20, 500)] = 100, dim: Annotated[int, Range(1, 30)] = 5,
    drop: Literal["all others", "one support vector"] = "all others",
) -> Evidence:
    r"""The points that touch the margin decide: without all others the solution is the same."""
    rng = seed.numpy()
    cosines = []
    for _ in range(problems):
        X, y, target = separable_points(rng, points, dim, 0.1)
        X += rng.normal() * target
        whole = MaxMargin().fit(X, y)
        kept = whole.support_
        if drop == "one support vector":
            kept = np.delete(np.arange(points), rng.choice(whole.support_))
        part = MaxMargin().fit(X[kept], y[kept])
        one, two = (np.append(model.coef_, model.intercept_) for model in (whole, part))
        cosines.append(one @ two / np.linalg.norm(one) / np.linalg.norm(two))
    return at_least(cosines, 1.0, slack=SOLVED, why=f"a theorem; {NEAR_MARGIN}").named(
        "cosine with the solution of all points"
    ).drawn(*_unlike(cosines), x="problem", y="1 - cosine", log="y")


@claim(
    control={"change": "replace"},
    refutes=["nothing enters", "volume never grows"],
    source="Mitchell 1982",
)
def version_space_shrinks(
    seed: Seed, *, points: Annotated[int, Range(8, 60)] = 12,
    dim: Annotated[int, Range(1, 8)] = 2, directions: Annotated[int, Range(1000, 200_000)] = 50_000,
    change: Literal["add", "replace"] = "add",
) -> Evidence:
    r"""Adding a point never enlarges the version space: $V(S\cup\{(x,y)\})\subseteq V(S)$."""
    rng = seed.numpy()
    X, y, _ = separable_points(rng, points, dim, 0.1)
    # replacing keeps two points: the newest takes the place of the oldest
    oldest = [0 if change == "add" else max(0, k - 2) for k in range(1, points + 1)]
    spaces = [VersionSpace(X[a : k + 1], y[a : k + 1]) for k, a in enumerate(oldest)]
    planes = rng.normal(size=(directions, dim + 1))
    members = np.array([one.contains(planes[:, :-1], planes[:, -1]) for one in spaces])
    volumes = np.array([one.volume(directions, seed.child("volume")) for one in spaces])
    # exact: half of all for one point, a wedge for two
    first, second = (one / np.linalg.norm(one) for one in spaces[1].normals)
    exact = np.array([0.5, 0.5 - np.arccos(first @ second) / (2 * np.pi)])
    # hit-and-run against rejection, with three points: along each axis one law
    drawn = np.column_stack(spaces[2].sample(4000, rng))
    inside = planes[members[2]] / np.linalg.norm(planes[members[2]], axis=1, keepdims=True)
    axes = rng.normal(size=(3, dim + 1))
    return every(
        {
            "nothing enters": never(
                members[1:] & ~members[:-1], why="a theorem, direction by direction"
            ),
            "volume never grows": at_most(
                np.diff(volumes), 0.0, why="the same directions for every set: no noise"
            ).drawn(
                Series("share of directions", range(1, points + 1), volumes, style="line"),
                x="points seen", y="volume of the version space",
            ),
            "one and two points": within_errors(
                volumes[:2], exact, error=np.sqrt(exact * (1 - exact) / directions),
                why="of a share of independent directions",
            ),
            "hit-and-run is uniform": every({
                f"axis {k}": follows(
                    drawn @ axis, inside @ axis,
                    why="chains that have forgotten their start, and random directions",
                )
                for k, axis in enumerate(axes)
            }),
            "samples have length 1": equal(
                np.linalg.norm(drawn, axis=1), 1.0, tol=1e-15, why="rounding does not add up"),
            "a step ends anywhere on its half circle": every({f"{n}-D": follows(
                _places(rng, n), uniform(), why="one point leaves half of every great circle",
            ) for n in (1, 3)}),
            "members have a margin above 0": never(
                _misplaced(rng, dim), why="a definition, for points of any two classes, or of one"
            ),
            "how much is drawn by default": equal_to_rounding(
                [spaces[2].volume(rng=7), len(spaces[2].sample(rng=7, steps=1)[1]),
                 *spaces[2].sample(20, 7)[1]],
                [spaces[2].volume(100_000, 7), 1000, *spaces[2].sample(20, 7, steps=200)[1]],
            ),
        }
    )


def _places(rng: np.random.Generator, dim: int) -> Array:
    """Measure how far along its half circle each chain is after a step, from 0 to 1."""
    X = 1 + rng.random((1, dim))
    at, normal = np.append(*separable(X, [1])[1:]), np.append(X, 1.0)
    at /= np.linalg.norm(at)
    ends = np.column_stack(VersionSpace(X, [1]).sample(2000, rng, steps=1))
    aside = ends - np.outer(ends @ at, at)
    aside *= np.sign(aside @ normal)[:, None]  # the way on which it is farther to the border
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    angles = np.arctan2((ends * aside).sum(axis=1), ends @ at)
    return (angles + np.arctan2(at @ normal, aside @ normal)) / np.pi


def _misplaced(rng: np.random.Generator, dim: int) -> Array:
    """Tell which hyperplanes, of whole numbers so that some go through points, are misjudged."""
    X, wrong = rng.integers(-2, 3, size=(3, dim)), []
    W, B = rng.integers(-2, 3, size=(5, 40, dim)), rng.integers(-2, 3, size=(5, 40))
    for y, signs in (
        ([1, 1, 1], [1, 1, 1]), ([-1, -1, -1], [-1, -1, -1]), ([0, 1, 0], [-1, 1, -1]),
        (["up", "up", "down"], [1, 1, -1]), ([-1, 1, 1], [-1, 1, 1]), ([-1, 3, -1], [-1, 1, -1]),
    ):
        space = VersionSpace(X, y)
        for biases in ([B], [2.0], []):
            scores = W @ X.T + sum(np.expand_dims(one, -1) for one in biases)
            margins = (np.array(signs) * scores).min(axis=-1)
            wrong.append(space.contains(W, *biases).ravel() != (margins > 0).ravel())
        wrong.append(space.y != signs)
    return np.concatenate(wrong)


@claim(
    control={"product": True},
    refutes=["XOR is empty"],
    source="Novikoff 1962; Minsky and Papert 1969",
)
def separable_iff_nonempty(
    seed: Seed, *, sets: Annotated[int, Range(10, 500)] = 100,
    points: Annotated[int, Range(10, 100)] = 12, product: bool = False,
) -> Evidence:
    r"""LP feasible $\Leftrightarrow V(S)\ne\emptyset\Leftrightarrow$ the perceptron converges."""
    rng = seed.numpy()
    truths, verdicts = [], []
    for one in range(sets):
        dim, gap, shift = int(rng.integers(1, 6)), float(rng.uniform(0.4, 1)), float(rng.normal())
        X, y, target = separable_points(rng, points, dim, gap)
        X += shift * target
        epochs = mistake_bound(X, y, target, -shift) + 1  # every epoch but the last has a mistake
        if one % 2:  # the middle of two points of a class, with the other label: never separable
            inner = X[y == 1][:2].mean(axis=0)
            X, y = np.vstack([X, inner]), np.append(y, -1.0)
        truths.append(one % 2 == 0)
        verdicts.append(_verdicts(X, y, epochs))
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    if product:
        corners = np.column_stack([corners, corners.prod(axis=1)])
    xor = _verdicts(corners, np.array([-1.0, 1.0, 1.0, -1.0]), 200)
    return every(
        {
            "with a bias or without": never(
                _unlike_gordan(rng, sets // 2), why="a theorem of the alternative: no exception"
            ),
            "all agree": never(
                np.array(verdicts) != np.array(truths)[:, None], why="a theorem: no exception"
            ),
            "XOR is empty": never(np.array(xor), why="a theorem: no exception"),
        }
    )


def _verdicts(X: Array, y: Array, epochs: int) -> list[bool]:
    """Ask linear program, version space and perceptron for separability, and check their proofs."""
    space = VersionSpace(X, y)
    found, w, b = separable(X, y)
    model = fit_quietly(Perceptron(max_epochs=epochs, trace=True), X, y)
    shown = bool(space.contains(model.coef_[0], float(model.intercept_[0])))
    proved = found and bool(space.contains(w, b))
    return [found, proved, not space.is_empty(), model.converged_, shown]


def _unlike_gordan(rng: np.random.Generator, sets: int) -> list[bool]:
    """Compare with Gordan: none separates iff 0 is a convex combination of the points y (x, 1)."""
    differ = []
    for one in range(sets):
        X, y, bias = rng.normal(size=(8, 4)), rng.choice([-1.0, 1.0], size=8), bool(one % 2)
        X[:, 0] = 7.0 if bias else X[:, 0]  # a column that tells nothing
        normals = y[:, None] * np.column_stack([X, np.ones(8)])[:, : 4 + bias]
        rest = nnls(np.vstack([normals.T, np.ones(8)]), np.append(np.zeros(4 + bias), 1.0))[1]
        X += 1e9 * bias  # where a bias may be, nothing changes far from 0
        answer, w, b = separable(X, y, bias=bias)
        proved = bool((y * (X @ w + b)).min() > 0) and (bias or b == 0)
        empty = w.shape == (4,) and bool(np.isnan([*w, b]).all())  # what is told if there is none
        differ.append(answer != (rest > 1e-8) or not (proved if answer else empty))
    return differ


@claim(control={"scale": 1.01}, refutes=["at the margin"], source="by definition")
def gamma_separation(
    seed: Seed, *, points: Annotated[int, Range(2, 5000)] = 200,
    dim: Annotated[int, Range(1, 100)] = 5, scale: Annotated[float, Range(0.1, 2)] = 1.0,
) -> Evidence:
    r"""A hyperplane $\gamma$-separates $S$ exactly if the smallest margin is $\gamma$ or more."""
    rng = seed.numpy()
    w, b = rng.normal(size=dim), float(rng.normal())
    normal = w / np.linalg.norm(w)
    y, distances = rng.choice([-1.0, 1.0], size=points), rng.uniform(0.5, 3, size=points)
    X = rng.normal(size=(points, dim))
    X += (y * distances - signed_distance(X, w, b))[:, None] * normal  # at known distances
    factors = np.array([0.01, 0.5, 0.9, 0.99, 1 - 1e-9, 1 + 1e-9, 1.01, 1.1, 2, 100])
    answers = [separates(w, b, X, y, float(c * distances.min())) for c in factors]
    margin = geometric_margin(w, b, X, y)
    return every(
        {
            "around the margin": equal(answers, factors <= 1, tol=0, why="yes or no").drawn(
                Series("separates", factors, np.array(answers, dtype=float)),
                Rule("the smallest margin", x=1.0), Rule("asked", x=scale, role="green"),
                x="margin that is asked for, in smallest margins", y="1: it separates", log="x",
            ),
            "margin is the smallest distance": equal_to_rounding(margin, distances.min()),
            "at the margin": never(
                not separates(w, b, X, y, scale * margin), of=1, why="a definition: no exception"
            ),
        }
    )

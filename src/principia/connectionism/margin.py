r"""Margin and version space: of all hyperplanes that separate two classes, the safest one.

The distance of a point from a hyperplane, positive on the side of its label, is its margin, and a
hyperplane is as safe as its worst point. All hyperplanes that separate the points form the version
space, a cone that every new point can only cut; it is empty exactly if the classes cannot be
separated, and a linear program tells. Among its members one alone has the largest margin, and the
few points that touch its margin decide it.

$$ \gamma(x,y) = \frac{y\,(w\cdot x+b)}{\Vert w\Vert}, \quad
   \gamma[w,b](S) = \min_{(x,y)\in S} \gamma(x,y) $$

$$ V(S) = \{(w,b) : \gamma[w,b](S) > 0\}, \quad
   (w,b)_{MM} = \arg\max_{w,b} \gamma[w,b](S) $$

Symbols:
    $w$: normal of a hyperplane, of any length but 0
    $b$: bias; the hyperplane lies at $-b/\Vert w\Vert$ from the origin, along the normal
    $x, y$: a point and its label +1 or -1; together they form $S$
    $\gamma$: geometric margin, `geometric_margin`
    $V$: version space, `VersionSpace`

References:
    Boser, Guyon and Vapnik (1992), A training algorithm for optimal margin classifiers. Workshop on
        Computational Learning Theory. doi:10.1145/130385.130401
    Mitchell (1982), Generalization as search. Artificial Intelligence 18(2).
        doi:10.1016/0004-3702(82)90040-6
    Smith (1984), Efficient Monte Carlo procedures for generating points uniformly distributed over
        bounded regions. Operations Research 32(6). doi:10.1287/opre.32.6.1296
"""

__all__ = [
    "MaxMargin", "VersionSpace", "separable", "signed_distance", "geometric_margin", "separates",
]

import math
import warnings
from typing import Annotated, Any, Literal, final

import numpy as np
from jaxtyping import Bool, Float, Num
from scipy.linalg import lstsq, null_space
from scipy.optimize import linprog, minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from sklearn.utils import check_random_state, check_X_y
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from principia.connectionism.perceptron import Perceptron, mistake_bound
from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.data.synthetic import separable_points
from principia.lab.domains import Count, Positive, Range, Signs
from principia.lab.errors import UsageError, refuse
from principia.lab.estimators import fit_quietly, two_classes
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, experiment
from principia.lab.knobs import check_params, checked
from principia.lab.relations import at_least, at_most, equal, estimates, every, identical, never
from principia.lab.seeds import Seed

Array = np.ndarray
NEAR_MARGIN = "w with a margin of (1 - d) times the largest has a cosine above 1 - d with the best"
BLOCK = 2**24  # numbers in one matrix product: 128 megabytes
PROOF_EPOCHS = 20  # a perceptron that converges proves separability faster than a linear program
SOLVED = 1e-6  # relative difference from the largest margin at which a solver may stop
TOUCHING = 1e-5  # relative distance from the margin at which a point counts as touching it


@checked
def signed_distance(
    x: Num[Array | Tensor, "... n"], w: Num[Array | Tensor, " n"], b: float = 0.0
) -> Num[Array | Tensor, "..."] | np.floating:
    r"""Measures how far points lie from the hyperplane $w\cdot x+b=0$, along its normal.

    Example:
        >>> signed_distance(np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([3.0, 4.0]), -5.0).tolist()
        [4.0, -1.0]
    """
    largest = abs(w).max()
    if not 0 < largest < math.inf:
        raise refuse("signed_distance", "w", "a finite vector other than 0", w)
    norm = largest * ((w / largest) ** 2).sum() ** 0.5  # neither overflows nor underflows
    return (x @ w + b) / norm


@checked
def geometric_margin(
    w: Num[Array | Tensor, " n"], b: float, X: Num[Array | Tensor, "N n"],
    y: Annotated[Num[Array | Tensor, " N"], Signs],
) -> float:
    r"""Measures the margin of a hyperplane: its distance from the worst point, negative if wrong.

    Example:
        >>> X, y = np.array([[3.0, 1.0], [-2.0, 0.0]]), np.array([1, -1])
        >>> geometric_margin(np.array([2.0, 0.0]), 0.0, X, y)
        2.0
    """
    distances: Any = signed_distance(X, w, b)
    return float((y * distances).min())


@checked
def separates(
    w: Num[Array | Tensor, " n"], b: float, X: Num[Array | Tensor, "N n"],
    y: Annotated[Num[Array | Tensor, " N"], Signs], gamma: Positive,
) -> bool:
    r"""Tells whether a hyperplane keeps every point at distance `gamma` or more on its side.

    Example:
        >>> X, y = np.array([[3.0], [-2.0]]), np.array([1, -1])
        >>> [separates(np.array([1.0]), 0.0, X, y, gamma) for gamma in (2.0, 2.1)]
        [True, False]
    """
    distances: Any = signed_distance(X, w, b)
    return bool((y * distances >= gamma).all())


@checked
def separable(X: Any, y: Any, *, bias: bool = True) -> tuple[bool, Float[Array, " D"], float]:
    r"""Decides whether a hyperplane separates two classes, and finds one.

    Asks HiGHS for a point of the polyhedron $y_i(w\cdot x_i+b)\ge1$; a gap under $10^{-11}$ of the
    spread of the points is beyond float64, and counts as none.

    Shapes:
        X: (N, D); y: (N,); returns the answer, w (D,) and b, both NaN if there is none

    Args:
        X: Points.
        y: Labels +1 and -1, or of any two classes: the second is the positive one.
        bias: Whether the hyperplane may miss the origin; if not, b = 0.

    Example:
        >>> corners = [[0, 0], [0, 1], [1, 0], [1, 1]]
        >>> separable(corners, [0, 0, 0, 1])[0], separable(corners, [0, 1, 1, 0])[0]
        (True, False)
    """
    X, signs = _labeled("separable", X, y)
    # separability outlives a shift and a scale of every column, and float64 likes them near 1
    shift = X.mean(axis=0) if bias else np.zeros(X.shape[1])
    scale = np.abs(X - shift).max(axis=0)
    scale[scale == 0] = 1.0
    rows = _normals((X - shift) / scale, signs)[:, : X.shape[1] + bias]
    found = linprog(
        np.zeros(rows.shape[1]), A_ub=-rows, b_ub=-np.ones(len(rows)), bounds=(None, None)
    )
    if found.status == 2:
        return False, np.full(X.shape[1], np.nan), math.nan
    w = np.zeros(X.shape[1]) if found.x is None else found.x[: X.shape[1]] / scale
    b = float(found.x[-1] - w @ shift) if bias and found.x is not None else 0.0
    if not (signs * (X @ w + b)).min() > 0:
        raise UsageError(f"separable: X, y could not be decided in float64. {found.message}")
    return True, w, b


@final
class MaxMargin(ClassifierMixin, BaseEstimator):
    r"""Learns the hyperplane with the largest margin; the classes must be separable.

    `coef_` has length 1, so that scores are signed distances. `margin_` is the margin, `support_`
    the points that touch it.

    Shapes:
        X: (N, D); y: (N,) of two classes; predict returns (N,)

    Args:
        solver: "smo" wraps libsvm and takes many points; "slsqp", for up to some 100 dimensions and
            1000 points, also finds margins under a thousandth of the points' spread.
        random_state: Seed of the order of the points (smo) or of the start (slsqp), none for the
            given order and 0. The solution does not depend on it.

    Example:
        >>> model = MaxMargin().fit([[0, 0], [0, 3], [4, 0], [5, 9]], [0, 0, 1, 1])
        >>> round(model.margin_, 6), model.support_.tolist(), model.predict([[3, 3]]).tolist()
        (2.0, [0, 1, 2], [1])
    """

    # these checks fit random labels or overlapping blobs, which a hard margin must refuse
    excused_checks = dict.fromkeys(
        (
            "check_classifier_data_not_an_array", "check_classifiers_train", "check_dtype_object",
            "check_estimators_dtypes", "check_estimators_nan_inf", "check_fit_check_is_fitted",
            "check_fit_idempotent", "check_fit_score_takes_y", "check_n_features_in",
            "check_n_features_in_after_fitting", "check_supervised_y_2d",
        ),
        "its data cannot be separated",
    )

    def __init__(
        self, *, solver: Literal["smo", "slsqp"] = "smo", random_state: Any = None
    ) -> None:
        self.solver = solver
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> "MaxMargin":
        """Maximize the margin, or refuse what no hyperplane separates."""
        check_params(self)
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, signs = two_classes("MaxMargin", y)
        # the problem moves and grows with the points: solve it for points around 0, of length <= 1
        center = X.mean(axis=0)
        spread = float(np.linalg.norm(X - center, axis=1).max()) or 1.0
        scaled = (X - center) / spread
        gap = _some_gap(scaled, signs)
        if self.solver == "smo":
            w, converged = _smo(scaled, signs, self.random_state)
        else:
            w, converged = _slsqp(scaled, signs, self.random_state, gap)
        if not converged or _half_gap(scaled, signs, w) < gap * (1 - SOLVED):
            hint = "For thin margins there is 'slsqp'." if self.solver == "smo" else ""
            domain = "one that converges on these points"
            raise refuse("MaxMargin", "solver", domain, self.solver, hint)
        w = w / np.linalg.norm(w)
        along = X @ w
        middle = (along[signs > 0].min() + along[signs < 0].max()) / 2
        self.coef_, self.intercept_ = w[None], np.array([-middle])
        distances = signs * (along - middle)
        self.margin_ = float(distances.min())
        self.support_ = np.flatnonzero(distances <= self.margin_ * (1 + TOUCHING))
        return self

    def decision_function(self, X: Any) -> Array:
        """Measure signed distances (N,) from the hyperplane."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return signed_distance(X, self.coef_[0], float(self.intercept_[0]))  # type: ignore[return-value]

    def predict(self, X: Any) -> Array:
        """Name the class of each point; a point on the hyperplane is of the second class."""
        scores = self.decision_function(X)
        return self.classes_[(scores >= 0).astype(int)]


@final
class VersionSpace:
    r"""Holds all hyperplanes (w, b) that separate labeled points: a cone in D + 1 dimensions.

    Shapes:
        X: (N, D); y: (N,) of +1 and -1, or of any two classes

    Example:
        >>> space = VersionSpace([[1.0, 0.0], [0.0, 1.0]], [1, -1])
        >>> space.contains(np.array([1.0, -1.0]), 0.0).tolist(), space.is_empty()
        (True, False)
    """

    def __init__(self, X: Any, y: Any) -> None:
        self.X, self.y = _labeled("VersionSpace", X, y)
        self.normals = _normals(self.X, self.y)  # (N, D + 1): the cone is where all are positive

    def contains(
        self, w: Num[Array, "*batch D"], b: Num[Array, "*batch"] | float = 0.0
    ) -> Bool[Array, "*batch"]:
        """Tell which hyperplanes separate the points."""
        planes = np.concatenate([w, np.broadcast_to(b, w.shape[:-1])[..., None]], axis=-1)
        flat = planes.reshape(-1, planes.shape[-1])
        blocks = np.array_split(flat, 1 + len(flat) * len(self.normals) // BLOCK)
        inside = [(block @ self.normals.T).min(axis=1) > 0 for block in blocks]
        return np.concatenate(inside).reshape(w.shape[:-1])

    def is_empty(self) -> bool:
        """Tell whether no hyperplane separates the points, by linear programming."""
        return not separable(self.X, self.y)[0]

    @checked
    def volume(self, n: Count = 100_000, rng: np.random.Generator | int | None = None) -> float:
        """Estimate the share of all directions (w, b) in it, from `n` uniform ones."""
        dim = self.X.shape[1]
        if dim > 12:
            hint = "The share is too small to be seen: ask is_empty()."
            raise refuse("VersionSpace", "X", "of at most 12 columns for a volume", dim, hint)
        directions = np.random.default_rng(rng).normal(size=(n, dim + 1))
        return float(self.contains(directions[:, :-1], directions[:, -1]).mean())

    @checked
    def sample(
        self, n: Count = 1000, rng: np.random.Generator | int | None = None, *, steps: Count = 200
    ) -> tuple[Float[Array, "n D"], Float[Array, " n"]]:
        r"""Draw hyperplanes, uniform among the directions, with $\Vert w\Vert^2+b^2=1$.

        Each comes from its own chain of hit-and-run: turn along a random great circle to a uniform
        place of its arc inside the cone. Thin cones and many dimensions need more `steps`.
        """
        found, w, b = separable(self.X, self.y)
        if not found:
            raise refuse("VersionSpace", "X, y", "separable for a sample", "an empty version space")
        rng, member = np.random.default_rng(rng), np.append(w, b)
        at = np.tile(member / np.linalg.norm(member), (n, 1))
        for _ in range(steps):
            toward = rng.normal(size=at.shape)
            toward -= (toward * at).sum(axis=1, keepdims=True) * at
            toward /= np.linalg.norm(toward, axis=1, keepdims=True)
            # normal.(at cos t + toward sin t) > 0 for t within a right angle of arctan(ratio)
            ratio = (toward @ self.normals.T) / (at @ self.normals.T)  # (n, N)
            low, high = np.arctan(ratio.max(axis=1)), np.arctan(ratio.min(axis=1))
            turn = rng.uniform(low - np.pi / 2, high + np.pi / 2)[:, None]
            at = at * np.cos(turn) + toward * np.sin(turn)
            at /= np.linalg.norm(at, axis=1, keepdims=True)  # else rounding adds up
        return at[:, :-1], at[:, -1]


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
    inside = np.linalg.lstsq(basis, (X - foot).T, rcond=None)[0]
    lengths = np.linalg.norm((X - foot).T - basis @ inside, axis=0)
    measured = signed_distance(X, w, b) if normalized else X @ w + b
    return identical(measured, np.sign(X @ w + b) * lengths)


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
    return never((f == y) != (y * signed_distance(X, w, b) > 0), why="a definition: no exception")


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
    factors = np.logspace(-6, 6, scales)
    if kind == "geometric":
        margins = [geometric_margin(c * w, c * b, X, y) for c in factors]
    else:
        margins = [float((y * (X @ (c * w) + c * b)).min()) for c in factors]
    return identical(margins, np.full(scales, geometric_margin(w, b, X, y))).drawn(
        Series(f"{kind} margin", factors, margins), x="scale c", y="margin", log="x",
    )


@claim(control={"model": "perceptron"}, source="Boser, Guyon and Vapnik 1992")
def max_margin_unique(
    seed: Seed, *, problems: Annotated[int, Range(1, 25)] = 8,
    points: Annotated[int, Range(10, 500)] = 60, dim: Annotated[int, Range(2, 30)] = 5,
    model: Literal["max margin", "perceptron"] = "max margin",
) -> Evidence:
    r"""The hyperplane of largest margin is unique: two solvers, any order and start, one answer."""
    rng = seed.numpy()
    cosines = []
    for _ in range(problems):
        X, y, target = separable_points(rng, points, dim, 0.1)
        X += rng.normal() * target
        if model == "perceptron":
            fits = [Perceptron(shuffle=True, random_state=k).fit(X, y) for k in range(6)]
        else:
            fits = [MaxMargin(random_state=k).fit(X, y) for k in range(3)]
            fits += [MaxMargin(solver="slsqp", random_state=k).fit(X, y) for k in range(3)]
        planes = np.array([np.append(one.coef_, one.intercept_) for one in fits])
        planes /= np.linalg.norm(planes, axis=1, keepdims=True)
        cosines.append(planes[1:] @ planes[0])
    return at_least(np.ravel(cosines), 1.0, slack=SOLVED, why=f"a theorem; {NEAR_MARGIN}")


@claim(control={"champion": "averaged perceptron"}, source="by definition of the maximum")
def max_margin_best(
    seed: Seed, *, problems: Annotated[int, Range(1, 50)] = 6,
    samples: Annotated[int, Range(10, 1000)] = 100, dim: Annotated[int, Range(1, 10)] = 3,
    champion: Literal["max margin", "averaged perceptron"] = "max margin",
) -> Evidence:
    r"""No separator has a larger margin than $\gamma_{MM}$: no perceptron, LP or random one."""
    rng = seed.numpy()
    names = ("max margin", "averaged perceptron", "perceptron", "linear program")
    margins = []
    for _ in range(problems):
        X, y, target = separable_points(rng, 40, dim, 0.1)
        X += rng.normal() * target
        fits = [one.fit(X, y) for one in (MaxMargin(), Perceptron(average=True), Perceptron())]
        _, w, b = separable(X, y)
        members = VersionSpace(X, y).sample(samples, rng)
        W = np.vstack([*(one.coef_ for one in fits), w, members[0]])
        B = np.concatenate([*(one.intercept_ for one in fits), [b], members[1]])
        margins.append([geometric_margin(W[k], float(B[k]), X, y) for k in range(len(B))])
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
                table[:, 2:] <= 0, why="members of the version space have a margin above 0"
            ),
        }
    )


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
    return at_least(cosines, 1.0, slack=SOLVED, why=f"a theorem; {NEAR_MARGIN}")


@claim(control={"change": "replace"}, source="Mitchell 1982")
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
    # a third point leaves the same share of the directions and of a uniform sample
    sampled = spaces[2].contains(*spaces[1].sample(2000, rng))
    hits, left = members[1].sum(), (members[1] & members[2]).sum()
    share = (left + 1) / (hits + 2)  # never 0 or 1: their standard error would be 0
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
            "one and two points": estimates(
                volumes[:2], exact, error=np.sqrt(exact * (1 - exact) / directions),
                why="of a share of independent directions",
            ),
            "hit-and-run is uniform": estimates(
                sampled.mean(), left / hits,
                error=np.sqrt(share * (1 - share) * (1 / len(sampled) + 1 / hits)),
                why="of two shares, of chains that have forgotten their start and of directions",
            ),
        }
    )


@claim(control={"product": True}, source="Novikoff 1962; Minsky and Papert 1969")
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
            "all agree": never(
                np.array(verdicts) != np.array(truths)[:, None], why="a theorem: no exception"
            ),
            "XOR is empty": never(np.array(xor), why="a theorem: no exception"),
        }
    )


@claim(control={"scale": 1.01}, source="by definition")
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
            "around the margin": equal(answers, factors <= 1, tol=0, why="yes or no"),
            "margin is the smallest distance": identical(margin, distances.min()),
            "at the margin": never(
                not separates(w, b, X, y, scale * margin), of=1, why="a definition: no exception"
            ),
        }
    )


@experiment(
    reaches={"margin": at_least_goal(0.42), "test_accuracy": at_least_goal(0.998)},
    floor={"margin": at_least_goal(0.60), "test_accuracy": at_least_goal(0.98)},
    source="scikit-learn, SVC(kernel='linear', C=1e8): margin 0.4245 with 84 support vectors",
)
def zero_one(run: Run, *, toy_points: Annotated[int, Range(2, 40)] = 12) -> None:
    """Tells 0 from 1 with the widest margin: MNIST, or 8 x 8 digits when quick."""
    parts = handwriting(run)
    (X, y), (X_test, y_test) = (
        (x[labels < 2].flatten(1).double().numpy(), np.where(labels[labels < 2] == 1, 1.0, -1.0))
        for x, labels in (parts[:2], parts[2:])
    )
    best = MaxMargin().fit(X, y)
    run.keep(best)
    run.record(margin=best.margin_, support_vectors=len(best.support_))
    run.record(test_accuracy=best.score(X_test, y_test))
    for name, average in (("perceptron", False), ("averaged_perceptron", True)):
        other = Perceptron(average=average).fit(X, y)
        margin = geometric_margin(other.coef_[0], float(other.intercept_[0]), X, y)
        accuracy = other.score(X_test, y_test)
        run.record(**{f"{name}_margin": margin, f"{name}_test_accuracy": accuracy})
    run.figure("margin_band", _band_figure(best, X, y))
    run.figure("version_space", _disc_figure(run.seed, toy_points))


def _labeled(owner: str, X: Any, y: Any) -> tuple[Float[Array, "N D"], Float[Array, " N"]]:
    """Give points as float64 and labels as +1 and -1, the second of two classes being +1."""
    X, y = check_X_y(X, y, dtype=np.float64)
    classes = np.unique(y)
    if len(classes) == 1 and classes[0] in (-1, 1):  # one class is a labeling too
        return X, y.astype(np.float64)
    if len(classes) != 2:
        got = f"{len(classes)} classes"
        raise refuse(owner, "y", "of two classes", got, "Take one pair of classes at a time.")
    return X, np.where(y == classes[1], 1.0, -1.0)


def _normals(X: Float[Array, "N D"], y: Float[Array, " N"]) -> Float[Array, "N D1"]:
    """Give the vectors y (x, 1), with which a separating (w, b) has positive products."""
    return y[:, None] * np.column_stack([X, np.ones(len(X))])


def _some_gap(X: Array, y: Array) -> float:
    """Find the margin of some separator: a perceptron is fast, a linear program is sure."""
    quick = fit_quietly(Perceptron(max_epochs=PROOF_EPOCHS), X, y)
    found, w = quick.converged_, quick.coef_[0]
    if not found:
        found, w, _ = separable(X, y)
    if not found:
        hint = "A soft margin, as in sklearn.svm.SVC, allows for exceptions."
        raise refuse("MaxMargin", "X, y", "linearly separable", "no separating hyperplane", hint)
    return _half_gap(X, y, w)


def _half_gap(X: Array, y: Array, w: Array) -> float:
    """Measure the margin of the best hyperplane with this normal."""
    along = X @ w
    return float(along[y > 0].min() - along[y < 0].max()) / (2 * float(np.linalg.norm(w)))


def _smo(X: Array, y: Array, random_state: Any) -> tuple[Array, bool]:
    """Maximize the margin by libsvm, which steps from pair to pair of points."""
    order = np.arange(len(y))
    if random_state is not None:
        order = check_random_state(random_state).permutation(len(y))
    # without its own seed it would draw from the global generator, though it needs no draw
    model = SVC(kernel="linear", C=1e8, tol=1e-6, max_iter=1_000_000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[order], y[order])
    # libsvm keeps its kernel in float32: solve y(w.x + b) = 1 on the support vectors in float64
    points, signs = X[order[model.support_]], y[order[model.support_]]
    gram = np.pad(points @ points.T, (0, 1), constant_values=1.0)
    gram[-1, -1] = 0.0
    dual = lstsq(gram, np.append(signs, 0.0), lapack_driver="gelsy")[0][:-1]  # type: ignore[index]
    w = max(model.coef_[0], dual @ points, key=lambda w: _half_gap(X, y, w))
    # no margin exceeds half the distance between points of the two hulls: a proof of the maximum
    shares = np.maximum(dual * signs, 1e-30)
    one, two = (np.average(points[signs == k], 0, shares[signs == k]) for k in (1, -1))
    proved = _half_gap(X, y, w) > (1 - SOLVED) * float(np.linalg.norm(one - two)) / 2
    return w, proved or model.fit_status_ == 0


def _slsqp(X: Array, y: Array, random_state: Any, gap: float) -> tuple[Array, bool]:
    """Minimize the length of w subject to y(w.x + b) >= gap; a gap within reach keeps |w| <= 1."""
    normals = _normals(X, y)
    first = np.zeros(normals.shape[1])
    if random_state is not None:
        first = check_random_state(random_state).normal(size=len(first))
    found = minimize(
        lambda v: (v[:-1] @ v[:-1] / 2, np.append(v[:-1], 0.0)), first, jac=True, method="SLSQP",
        constraints={"type": "ineq", "fun": lambda v: normals @ v - gap, "jac": lambda v: normals},
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    return found.x[:-1], found.status in (0, 8)  # 8: rounding lets it descend no further


def _verdicts(X: Array, y: Array, epochs: int) -> list[bool]:
    """Ask linear program, version space and perceptron for separability, and check their proofs."""
    space = VersionSpace(X, y)
    found, w, b = separable(X, y)
    model = fit_quietly(Perceptron(max_epochs=epochs, trace=True), X, y)
    shown = bool(space.contains(model.coef_[0], float(model.intercept_[0])))
    proved = found and bool(space.contains(w, b))
    return [found, proved, not space.is_empty(), model.converged_, shown]


def _band_figure(model: MaxMargin, X: Array, y: Array) -> Any:
    """Draw distances against the main direction inside the hyperplane, with the margin."""
    normal, seen = model.coef_[0], np.linspace(0, len(y) - 1, min(len(y), 1000)).astype(int)
    inside = X - X.mean(axis=0) - ((X - X.mean(axis=0)) @ normal)[:, None] * normal
    main = np.linalg.svd(inside[seen], full_matrices=False)[2][0]
    distances, height = model.decision_function(X), inside @ main
    ends = [float(height.min()), float(height.max())]
    clouds = [("0", seen[y[seen] < 0]), ("1", seen[y[seen] > 0]), ("touching", model.support_)]
    lines = [("margin", -model.margin_), ("hyperplane", 0.0), ("margin", model.margin_)]
    series = [Series(name, distances[k], height[k], "other", "points") for name, k in clouds]
    series += [Series(name, [at, at], ends, "bound") for name, at in lines]
    return figures.draw(Picture(tuple(series), "distance from the hyperplane", "main direction"))


def _disc_figure(seed: Seed, points: int) -> Any:
    """Draw samples of the version space of ever more points on an equal-area map of all (w, b)."""
    X, y, target = separable_points(seed.numpy(), points, 2, 0.1)
    axes = np.array([[*target, 0.0], [-target[1], target[0], 0.0], [0.0, 0.0, 1.0]])
    series = []
    for seen in sorted({1, 2, 4, 8, 16, 32, points} & set(range(1, points + 1))):
        planes = np.column_stack(VersionSpace(X[:seen], y[:seen]).sample(400, seed.child(seen)))
        series.append(Series(f"{seen} points", *_equal_area(planes @ axes.T), "other", "points"))
    best = MaxMargin().fit(X, y)
    plane = np.column_stack([best.coef_, best.intercept_]) @ axes.T
    series.append(Series("widest margin", *_equal_area(plane / np.linalg.norm(plane))))
    angle = np.linspace(0, 2 * np.pi, 200)
    series.append(Series("all directions", 2 * np.cos(angle), 2 * np.sin(angle), "bound"))
    figure = figures.draw(Picture(tuple(series), "w across the true normal", "bias b"))
    return figure.update_yaxes(scaleanchor="x").update_layout(height=520)


def _equal_area(directions: Array) -> tuple[Array, Array]:
    """Map unit vectors (N, 3) onto a disc of radius 2 by Lambert's azimuthal projection."""
    stretch = np.sqrt(2 / (1 + directions[:, 0]))
    return directions[:, 1] * stretch, directions[:, 2] * stretch

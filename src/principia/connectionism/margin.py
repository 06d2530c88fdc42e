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
from scipy.linalg import lstsq
from scipy.optimize import linprog, minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from sklearn.utils import check_X_y
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from principia.connectionism.perceptron import Perceptron
from principia.lab.params import (
    PositiveFloat,
    PositiveInt,
    Signs,
    UsageError,
    check_params,
    checked,
    usage_error,
)
from principia.lab.training.estimators import fit_quietly, two_classes

Array = np.ndarray
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
        raise usage_error("signed_distance", "w", "a finite vector other than 0", w)
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
    y: Annotated[Num[Array | Tensor, " N"], Signs], gamma: PositiveFloat,
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
    told = f"separable: X, y could not be decided in float64. {found.message}"
    if found.x is None:
        raise UsageError(told)
    w = found.x[: X.shape[1]] / scale
    b = float(found.x[-1] - w @ shift) if bias else 0.0
    if not (signs * (X @ w + b)).min() > 0:
        raise UsageError(told)
    return True, w, b


def _labeled(owner: str, X: Any, y: Any) -> tuple[Float[Array, "N D"], Float[Array, " N"]]:
    """Give points as float64 and labels as +1 and -1, the second of two classes being +1."""
    X, y = check_X_y(X, y, dtype=np.float64)
    classes = np.unique(y)
    if len(classes) == 1 and classes[0] in (-1, 1):  # one class is a labeling too
        return X, y.astype(np.float64)
    if len(classes) != 2:
        got = f"{len(classes)} classes"
        raise usage_error(owner, "y", "of two classes", got, "Take one pair of classes at a time.")
    return X, np.where(y == classes[1], 1.0, -1.0)


def _normals(X: Float[Array, "N D"], y: Float[Array, " N"]) -> Float[Array, "N D1"]:
    """Give the vectors y (x, 1), with which a separating (w, b) has positive products."""
    return y[:, None] * np.column_stack([X, np.ones(len(X))])


@final
class MaxMargin(ClassifierMixin, BaseEstimator):
    r"""Learns the hyperplane with the largest margin; the classes must be separable.

    `coef_` has length 1, so that scores are signed distances. `margin_` is the margin, `support_`
    the points that touch it.

    Shapes:
        X: (N, D); y: (N,) of two classes; predict returns (N,)

    Args:
        solver: "smo" wraps libsvm and takes many points; "slsqp", for up to some 100 dimensions and
            1000 points, also finds margins under a thousandth of the points' spread. Nothing is
            drawn, and one that does not converge is refused.

    Example:
        >>> model = MaxMargin().fit([[0, 0], [0, 3], [4, 0], [5, 9]], [0, 0, 1, 1])
        >>> round(model.margin_, 6), model.support_.tolist(), model.predict([[3, 3]]).tolist()
        (2.0, [0, 1, 2], [1])
    """

    # these checks fit random labels or overlapping blobs, which a hard margin must refuse
    excused_checks = {
        name: f"the data of {name} cannot be separated" for name in (
            "check_classifier_data_not_an_array", "check_classifiers_train", "check_dtype_object",
            "check_estimators_dtypes", "check_estimators_nan_inf", "check_fit_check_is_fitted",
            "check_fit_idempotent", "check_fit_score_takes_y", "check_n_features_in",
            "check_n_features_in_after_fitting", "check_supervised_y_2d",
        )
    }

    def __init__(self, *, solver: Literal["smo", "slsqp"] = "smo") -> None:
        self.solver = solver

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> "MaxMargin":
        """Maximize the margin, or refuse what no hyperplane separates."""
        check_params(self)
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, signs = two_classes("MaxMargin", y)
        # the problem moves and grows with the points: solve it around 0, for coordinates up to 1
        center = X.mean(axis=0)
        spread = float(np.abs(X - center).max()) or 1.0
        scaled = (X - center) / spread
        gap = _some_gap(scaled, signs)
        if self.solver == "smo":
            w, converged = _smo(scaled, signs)
        else:
            w, converged = _slsqp(scaled, signs, gap)
        if not converged or _half_gap(scaled, signs, w) < gap * (1 - SOLVED):
            hint = "For thin margins there is 'slsqp'." if self.solver == "smo" else ""
            domain = "one that converges on these points"
            raise usage_error("MaxMargin", "solver", domain, self.solver, hint)
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


def _some_gap(X: Array, y: Array) -> float:
    """Find the margin of some separator: a perceptron is fast, a linear program is sure."""
    quick = fit_quietly(Perceptron(max_epochs=PROOF_EPOCHS), X, y)
    found, w = quick.converged_, quick.coef_[0]
    if not found:
        found, w, _ = separable(X, y)
    if not found:
        hint = "A soft margin, as in sklearn.svm.SVC, allows for exceptions."
        raise usage_error(
            "MaxMargin", "X, y", "linearly separable", "no separating hyperplane", hint
        )
    return _half_gap(X, y, w)


def _half_gap(X: Array, y: Array, w: Array) -> float:
    """Measure the margin of the best hyperplane with this normal."""
    along = X @ w
    return float(along[y > 0].min() - along[y < 0].max()) / (2 * float(np.linalg.norm(w)))


def _smo(X: Array, y: Array) -> tuple[Array, bool]:
    """Maximize the margin by libsvm, which steps from pair to pair of points."""
    # without its own seed it would draw from the global generator, though it needs no draw
    model = SVC(kernel="linear", C=1e8, tol=1e-6, max_iter=1_000_000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    # libsvm keeps its kernel in float32: solve y(w.x + b) = 1 on the support vectors in float64
    points, signs = X[model.support_], y[model.support_]
    gram = np.pad(points @ points.T, (0, 1), constant_values=1.0)
    gram[-1, -1] = 0.0
    dual = lstsq(gram, np.append(signs, 0.0), lapack_driver="gelsy")[0][:-1]  # type: ignore[index]
    w = max(model.coef_[0], dual @ points, key=lambda w: _half_gap(X, y, w))
    # no margin exceeds half the distance between points of the two hulls: a proof of the maximum
    shares = np.maximum(dual * signs, 1e-30)
    one, two = (np.average(points[signs == k], 0, shares[signs == k]) for k in (1, -1))
    proved = _half_gap(X, y, w) > (1 - SOLVED) * float(np.linalg.norm(one - two)) / 2
    return w, proved or model.fit_status_ == 0


def _slsqp(X: Array, y: Array, gap: float) -> tuple[Array, bool]:
    """Minimize the length of w subject to y(w.x + b) >= gap; a gap within reach keeps |w| <= 1."""
    normals = _normals(X, y)
    found = minimize(
        lambda v: (v[:-1] @ v[:-1] / 2, np.append(v[:-1], 0.0)), np.zeros(normals.shape[1]),
        jac=True, method="SLSQP",
        constraints={"type": "ineq", "fun": lambda v: normals @ v - gap, "jac": lambda v: normals},
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    return found.x[:-1], found.status in (0, 8)  # 8: rounding lets it descend no further


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
    def volume(
        self, n: PositiveInt = 100_000, rng: np.random.Generator | int | None = None
    ) -> float:
        """Estimate the share of all directions (w, b) in it, from `n` uniform ones."""
        dim = self.X.shape[1]
        if dim > 12:
            hint = "The share is too small to be seen: ask is_empty()."
            raise usage_error("VersionSpace", "X", "of at most 12 columns for a volume", dim, hint)
        directions = np.random.default_rng(rng).normal(size=(n, dim + 1))
        return float(self.contains(directions[:, :-1], directions[:, -1]).mean())

    @checked
    def sample(
        self, n: PositiveInt = 1000, rng: np.random.Generator | int | None = None, *,
        steps: PositiveInt = 200
    ) -> tuple[Float[Array, "n D"], Float[Array, " n"]]:
        r"""Draw hyperplanes, uniform among the directions, with $\Vert w\Vert^2+b^2=1$.

        Each comes from its own chain of hit-and-run: turn along a random great circle to a uniform
        place of its arc inside the cone. Thin cones and many dimensions need more `steps`.
        """
        found, w, b = separable(self.X, self.y)
        if not found:
            raise usage_error(
                "VersionSpace", "X, y", "separable for a sample", "an empty version space"
            )
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

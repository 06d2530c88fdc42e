r"""The perceptron: a threshold unit that learns from its mistakes, and makes only so many.

Whenever the unit errs on a point, the point is added to its weights, with the sign of its label. If
some hyperplane separates the classes with margin $\gamma$, the rule errs at most $R^2/\gamma^2$
times, whatever the dimension and the order of the points; if none does, it errs for ever, though
its weights stay bounded. A score of exactly 0 is a mistake in training and +1 in prediction.

$$ w \leftarrow w + y x, \quad b \leftarrow b + y \quad\text{whenever}\quad y(w\cdot x+b)\le 0 $$

$$ \text{mistakes} \le \lfloor R^2/\gamma^2 \rfloor, \quad R = \max_i \Vert x_i\Vert $$

Symbols:
    $w$: weights, `coef_`
    $b$: bias, `intercept_`
    $x, y$: a point and its label +1 or -1
    $\gamma$: margin of a separating hyperplane with $\Vert w\Vert = 1$

References:
    Rosenblatt (1958), The perceptron: a probabilistic model for information storage and
        organization in the brain. Psychological Review 65(6). doi:10.1037/h0042519
    Novikoff (1962), On convergence proofs on perceptrons. Symposium on the Mathematical Theory of
        Automata 12.
    Freund and Schapire (1999), Large margin classification using the perceptron algorithm. Machine
        Learning 37(3). doi:10.1023/A:1007662407062
"""

__all__ = ["Perceptron", "KernelPerceptron", "mistake_bound"]

import functools
import itertools
import math
import warnings
from collections.abc import Callable
from typing import Annotated, Any, Literal, final

import numpy as np
from jaxtyping import Float
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.data.synthetic import separable_points
from principia.lab.domains import Count, Fraction, Positive, Range
from principia.lab.errors import refuse
from principia.lab.estimators import class_codes, fit_quietly, two_classes
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, experiment
from principia.lab.knobs import check_params, checked
from principia.lab.relations import at_least, at_most, equal, every, identical
from principia.lab.seeds import Seed

Array = np.ndarray
COUNTER = 1e-200  # its square is 0 in float64
BLOCKS = 2**12, 2**17  # fewest and most numbers that one matrix product reads: 32 KB and 1 MB
FEW, NUMBERS_A_MISTAKE = 256, 2**13  # up to so many mistakes, jumping is faster than compiled code


@final
class Perceptron(ClassifierMixin, BaseEstimator):
    r"""Learns a separating hyperplane by adding the points it gets wrong.

    Blocks of points are scored by one matrix product up to the next mistake, so that the cost is
    per mistake. Where they are many, and without `trace`, the epochs run in scikit-learn's compiled
    `SGDClassifier`.

    Shapes:
        X: (N, D); y: (N,); predict returns (N,)

    Args:
        fit_intercept: Whether to learn a bias.
        max_epochs: Passes over the data before giving up.
        average: Whether to return the mean of the weights over all steps (Freund & Schapire).
        shuffle: Whether to visit the points in a new order every epoch.
        trace: Whether to keep `mistakes_` (indices) and `weights_`, `biases_` after each of them.
        strategy: More than two classes: one unit a class, or one unit a pair of classes.
        random_state: Seed of the shuffling.

    Example:
        >>> model = Perceptron().fit([[0, 1], [1, 0]], [1, -1])
        >>> model.predict([[0, 2]]).tolist(), model.n_mistakes_
        ([1], 2)
    """

    def __init__(
        self, *, fit_intercept: bool = True, max_epochs: Count = 1000, average: bool = False,
        shuffle: bool = False, trace: bool = False, strategy: Literal["ovr", "ovo"] = "ovr",
        random_state: Any = None,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.max_epochs = max_epochs
        self.average = average
        self.shuffle = shuffle
        self.trace = trace
        self.strategy = strategy
        self.random_state = random_state

    def fit(self, X: Any, y: Any, coef_init: Any = None) -> "Perceptron":
        """Learn from mistakes until an epoch has none; weights start at `coef_init` or 0."""
        check_params(self)
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, codes = class_codes("Perceptron", y)
        if self.trace and len(self.classes_) > 2:
            hint = "Trace one pair of classes at a time."
            got = f"{len(self.classes_)} classes"
            raise refuse("Perceptron", "y", "of two classes when trace=True", got, hint)
        start = np.zeros(X.shape[1]) if coef_init is None else np.asarray(coef_init, dtype=float)
        if start.shape != (X.shape[1],):
            raise refuse("Perceptron", "coef_init", f"of shape ({X.shape[1]},)", start.shape)

        # one more column, in which `_sweep` counts mistakes; it needs a copy, and may not be needed
        wider = functools.cache(lambda: np.column_stack([X, np.zeros(len(X))]))
        problems = self._problems(codes)
        fits = [self._learn(X, wider, rows, signs, start) for rows, signs in problems]
        weights, biases, mistakes = zip(*fits, strict=True)
        self.coef_, self.intercept_ = np.stack(weights), np.array(biases)
        totals = itertools.zip_longest(*mistakes, fillvalue=0)
        self.epoch_mistakes_ = np.array([sum(epoch) for epoch in totals])
        self.n_epochs_ = len(self.epoch_mistakes_)
        self.n_mistakes_ = int(self.epoch_mistakes_.sum())
        self.converged_ = all(made[-1] == 0 for made in mistakes)
        if not self.converged_ and self.max_epochs > 1:
            warnings.warn(
                f"Perceptron: still making mistakes after {self.n_epochs_} epochs. Ask "
                "principia.connectionism.separable(X, y) whether the classes can be separated.",
                ConvergenceWarning, stacklevel=2,
            )
        return self

    def _problems(self, codes: Array) -> list[tuple[Array | slice, Array]]:
        """Split into two-class problems: which rows, and their labels +1 or -1."""
        kinds, everything = range(len(self.classes_)), slice(None)
        if len(kinds) == 2:
            return [(everything, np.where(codes == 1, 1.0, -1.0))]
        if self.strategy == "ovr":
            return [(everything, np.where(codes == kind, 1.0, -1.0)) for kind in kinds]
        pairs = itertools.combinations(kinds, 2)
        rows = [(np.flatnonzero((codes == a) | (codes == b)), b) for a, b in pairs]
        return [(chosen, np.where(codes[chosen] == b, 1.0, -1.0)) for chosen, b in rows]

    def _learn(
        self, X: Array, wider: Callable[[], Array], rows: Array | slice, y: Array, w: Array
    ) -> tuple[Array, float, list[int]]:
        """Run epochs until one has no mistakes; return weights, bias and the mistakes of each."""
        rng, order = check_random_state(self.random_state), np.arange(len(y))
        state, mistakes, means = np.append(w, 0.0), [], []  # the last entry is the bias
        traced: list[Array] = []
        indices: list[int] = []
        points, signs = X[rows], y
        ordered = np.empty_like(points) if self.shuffle else points
        rare = math.inf if self.trace else len(w) / NUMBERS_A_MISTAKE  # mistakes a point
        for _ in range(self.max_epochs):
            if self.shuffle:
                order = rng.permutation(len(y))
                np.take(points, order, axis=0, out=ordered, mode="clip")  # "raise" makes a copy
                signs = y[order]
            passed = None
            if not mistakes or mistakes[-1] <= FEW + rare * len(y):
                # only in the first epoch it is not known yet whether mistakes are rare
                passed = self._jump(ordered, signs, state, math.inf if mistakes else rare)
            if passed is None:
                if points.shape[1] == len(w):
                    points = wider()[rows]
                    points[:, -1] = COUNTER * y
                    ordered = points[order] if self.shuffle else points
                state, mean, made = self._sweep(ordered, signs, state)
                mistakes.append(made)
                means.append(mean)
            else:
                state, wrong, states = passed
                if self.average:
                    seen = np.diff([0, *wrong, len(y)])  # points that each state is for
                    means.append(seen @ states / len(y))
                if self.trace:
                    traced += states[1:]
                    indices += order[wrong].tolist()
                mistakes.append(len(wrong))
            if not mistakes[-1]:
                break
        if self.trace:
            history = np.array(traced).reshape(-1, len(state))
            self.weights_, self.biases_ = history[:, :-1], history[:, -1]
            self.mistakes_ = np.array(indices, dtype=int)
        final = np.mean(means, axis=0) if self.average else state
        return final[:-1], float(final[-1]), mistakes

    def _sweep(self, counted: Array, y: Array, state: Array) -> tuple[Array, Array, int]:
        """Run one epoch in SGDClassifier, which has the same update but does not count it.

        The last column, $10^{-200}y$, counts: each mistake adds $10^{-200}$ to its weight, while
        its share of a score, at most $10^{-400}$ times the count, is exactly 0 in float64.
        """
        ends = []
        for average in (False, True)[: 1 + self.average]:
            model = SGDClassifier(
                loss="perceptron", learning_rate="constant", eta0=1.0, penalty=None, max_iter=1,
                tol=None, shuffle=False, fit_intercept=self.fit_intercept, average=average,
                random_state=0,  # unused, but none would draw from the global generator
            )
            start = np.append(state[:-1], 0.0)[None]
            with config_context(assume_finite=True):  # `fit` has looked already
                model.fit(counted, y, coef_init=start, intercept_init=state[-1:].copy())
            ends.append(np.append(model.coef_[0], model.intercept_))
        made = round(ends[0][-2] / COUNTER)
        return np.delete(ends[0], -2), np.delete(ends[-1], -2), made

    def _jump(
        self, X: Array, y: Array, state: Array, rare: float
    ) -> tuple[Array, list[int], list[Array]] | None:
        """Run one epoch from mistake to mistake; give the last state, them, and all states.

        Where they are too many give up. A block is as long as the way between the last mistakes,
        and grows while the unit is right; the states are kept for `trace` and `average` only.
        """
        least, largest = (max(16, numbers // X.shape[1]) for numbers in BLOCKS)
        D, bias = len(state) - 1, float(self.fit_intercept)
        w, b = np.zeros(X.shape[1]), float(state[-1])  # a column that counts weighs nothing
        w[:D] = state[:-1]
        wrong: list[int] = []
        states = [state]
        position, past, size = 0, 0, least
        while position < len(y):
            block = slice(position, position + size)
            errs = y[block] * (np.dot(X[block], w) + b) <= 0  # @ takes longer to begin
            right = int(errs.argmax())  # points before the first mistake, if there is one
            if not errs[right]:
                position, size = position + size, min(4 * size, largest)
                continue
            position += right
            w += y[position] * X[position]
            b += float(y[position]) * bias
            wrong.append(position)
            if self.trace or self.average:
                states.append(np.append(w[:D], b))
            position += 1
            if len(wrong) > FEW + rare * position:
                return None
            size = min(max(position - past, least), largest)
            past = position
        return np.append(w[:D], b), wrong, states

    def decision_function(self, X: Any) -> Array:
        """Score points: (N,) for two classes, else (N, K); pairs of classes vote."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        scores = X @ self.coef_.T + self.intercept_
        kinds = len(self.classes_)
        if kinds == 2:
            return scores[:, 0]
        if len(self.coef_) == kinds and self.strategy == "ovr":
            return scores
        ballot = np.zeros((len(self.coef_), kinds))  # +1 for the second class of a pair
        for row, (a, b) in enumerate(itertools.combinations(range(kinds), 2)):
            ballot[row, [a, b]] = -1, 1
        confidence = scores @ ballot
        votes = np.where(scores >= 0, 1, -1) @ ballot
        return votes + confidence / (3 * (np.abs(confidence) + 1))  # breaks ties, never a majority

    def predict(self, X: Any) -> Array:
        """Name the class of each point; a score of 0 is the second class."""
        scores = self.decision_function(X)
        best = (scores >= 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]


@final
class KernelPerceptron(ClassifierMixin, BaseEstimator):
    r"""Learns in the feature space of a kernel: it only counts how often it erred on each point.

    The weights $\sum_i\alpha_iy_i\phi(x_i)$ are never formed; a mistake adds one Gram column to the
    scores of all points.

    Shapes:
        X: (N, D); y: (N,) of two classes

    Args:
        kernel: Name of the kernel, as in scikit-learn.
        gamma: Width of the kernel; none means 1 / D.
        degree: Degree of the polynomial kernel.
        max_epochs: Passes over the data before giving up.

    Example:
        >>> xor = KernelPerceptron(kernel="rbf").fit([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0])
        >>> xor.predict([[0, 1], [1, 1]]).tolist()
        [1, 0]
    """

    def __init__(
        self, *, kernel: Literal["linear", "polynomial", "rbf"] = "rbf",
        gamma: Positive | None = None, degree: Count = 3, max_epochs: Count = 100,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.max_epochs = max_epochs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> "KernelPerceptron":
        """Count mistakes until an epoch has none."""
        check_params(self)
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, signs = two_classes("KernelPerceptron", y)
        counts, scores = np.zeros(len(y)), np.zeros(len(y))
        self.n_mistakes_, self.converged_ = 0, False
        for epoch in range(1, self.max_epochs + 1):
            self.n_epochs_, position, before = epoch, 0, self.n_mistakes_
            while len(wrong := np.flatnonzero(signs[position:] * scores[position:] <= 0)):
                point = position + int(wrong[0])
                counts[point] += 1
                scores += signs[point] * self._gram(X, X[point : point + 1])[:, 0]
                self.n_mistakes_ += 1
                position = point + 1
            if self.n_mistakes_ == before:
                self.converged_ = True
                break
        self.support_ = np.flatnonzero(counts)
        self.dual_coef_ = (counts * signs)[self.support_]
        self.support_vectors_ = X[self.support_]
        return self

    def _gram(self, X: Array, points: Array) -> Array:
        extra: dict[str, Any] = {"gamma": self.gamma, "degree": self.degree}
        return pairwise_kernels(X, points, metric=self.kernel, filter_params=True, **extra)

    def decision_function(self, X: Any) -> Array:
        """Score points (N,) by the points that were mistakes."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self._gram(X, self.support_vectors_) @ self.dual_coef_

    def predict(self, X: Any) -> Array:
        """Name the class of each point; a score of 0 is the second class."""
        scores = self.decision_function(X)
        return self.classes_[(scores >= 0).astype(int)]


@checked
def mistake_bound(
    X: Float[Array, "N D"], y: Float[Array, " N"], w: Float[Array, " D"], b: float | None = None
) -> int:
    r"""Bounds the number of mistakes of a perceptron on separable points.

    It is $\lfloor R^2/\gamma^2\rfloor$; with a bias the points are augmented by a
    coordinate 1, and so are radius and margin.

    Args:
        X: Points (N, D).
        y: Labels +1 and -1.
        w: Normal of a separating hyperplane, of any length.
        b: Its bias; none means a hyperplane through 0 and a perceptron without bias.

    Example:
        >>> mistake_bound(np.array([[3.0, 4.0]]), np.array([1.0]), np.array([3.0, 4.0]))
        1
    """
    if b is not None:
        X, w = np.column_stack([X, np.ones(len(X))]), np.append(w, b)
    margin = float((y * (X @ w)).min()) / float(np.linalg.norm(w))
    if not margin > 0:
        hint = "Ask separable(X, y) for a separating one."
        raise refuse("mistake_bound", "w", "the normal of a separating hyperplane", w, hint)
    ratio = float((X**2).sum(axis=1).max()) / margin**2
    return int(np.floor(ratio * (1 + 1e-12)))  # R = gamma must give 1, not 0.99999 rounded down


@claim(control={"margin_scale": 4.0}, source="Novikoff 1962")
def mistake_bound_claim(
    seed: Seed, *, problems: Annotated[int, Range(50, 500)] = 200,
    points: Annotated[int, Range(20, 2000)] = 100, margin_scale: Positive = 1.0,
) -> Evidence:
    r"""Without bias at most $\lfloor R^2/\gamma^2\rfloor$ mistakes are made on separable data."""
    rng = seed.numpy()
    mistakes, bounds = [], []
    for _ in range(problems):
        dim, gap = int(rng.integers(2, 51)), float(10 ** rng.uniform(-2, 0))
        X, y, target = separable_points(rng, points, dim, gap)
        model = Perceptron(fit_intercept=False).fit(X, y)
        mistakes.append(model.n_mistakes_)
        bounds.append(mistake_bound(X, y, target) // margin_scale**2)
    return at_most(mistakes, bounds, why="a theorem: no slack").drawn(
        Series("problems", bounds, mistakes),
        Series("bound", sorted(bounds), sorted(bounds), role="bound"),
        x="bound R²/γ²", y="mistakes", log="xy",
    )


@claim(
    control={"strict": True},
    source="Novikoff 1962",
    misprint=r"converges in less than $\lfloor R^2/\gamma^2\rfloor$ steps",
)
def bound_is_attained(
    seed: Seed, *, dim: Annotated[int, Range(1, 1000)] = 10, strict: bool = False
) -> Evidence:
    r"""The bound on the mistakes can be attained: one point up to sign, $R=\gamma$, one mistake."""
    point = seed.numpy().normal(size=dim)
    X, y = np.stack([point, -point]), np.array([1.0, -1.0])
    made = Perceptron(fit_intercept=False, trace=True).fit(X, y).n_mistakes_
    bound = mistake_bound(X, y, point)
    if strict:
        return at_most(made, bound - 1, why="less than the bound, in integers")
    return equal(made, bound, tol=0, why="integers")


@claim(control={"augmented": False}, source="Novikoff 1962, for the points (x, 1)")
def bias_needs_augmented_radius(
    seed: Seed, *, problems: Annotated[int, Range(10, 500)] = 200, augmented: bool = True
) -> Evidence:
    r"""With a learned bias the bound is the one of the points $(x,1)$, not of the raw points."""
    rng = seed.numpy()
    sets = [(np.array([[0.1], [-0.1]]), np.array([1.0, -1.0]), np.ones(1), 0.0)]  # R = gamma = 0.1
    for _ in range(problems - 1):
        dim, gap, shift = int(rng.integers(2, 51)), float(rng.uniform(0.05, 1)), rng.normal()
        X, y, target = separable_points(rng, 100, dim, gap)
        sets.append((X + shift * target, y, target, -shift))  # target.(x + shift target) - shift
    mistakes, bounds = [], []
    for X, y, target, bias in sets:
        mistakes.append(Perceptron().fit(X, y).n_mistakes_)
        if augmented:
            bounds.append(mistake_bound(X, y, target, bias))
        else:
            margin = float((y * (X @ target + bias)).min())
            radius = float(np.linalg.norm(X, axis=1).max())
            bounds.append(np.floor((radius / margin) ** 2 * (1 + 1e-12)))
    return at_most(mistakes, bounds, why="a theorem: no slack")


@claim(control={"flip": 0.2}, source="Novikoff 1962, first lemma")
def weights_grow_along_target(
    seed: Seed, *, runs: Annotated[int, Range(5, 100)] = 50, flip: Fraction = 0.0
) -> Evidence:
    r"""After $t$ mistakes $w_t\cdot w^*\ge t\gamma$ for every separator with $\Vert w^*\Vert=1$."""
    rng = seed.numpy()
    progress, least = [], []
    for _ in range(runs):
        X, y, target = separable_points(rng, 100, int(rng.integers(2, 51)), 0.1)
        gamma = float((y * (X @ target)).min())
        labels = np.where(rng.random(len(y)) < flip, -y, y)
        model = _fit_traced(X, labels)
        progress.append(model.weights_ @ target)
        least.append(gamma * np.arange(1, model.n_mistakes_ + 1))
    return at_least(
        np.concatenate(progress),
        np.concatenate(least),
        slack=1e-9,
        why="a theorem; sums of up to 10^4 floats of size 10 round by 1e-9 at most",
    ).drawn(
        Series("w·w*", range(1, len(progress[0]) + 1), progress[0].tolist()),
        Series("tγ", range(1, len(progress[0]) + 1), least[0].tolist(), role="bound"),
        x="mistakes t (first run)", y="progress along the target",
    )


@claim(control={"update": "always"}, source="Novikoff 1962, second lemma")
def weights_grow_slowly(
    seed: Seed, *, runs: Annotated[int, Range(5, 200)] = 50,
    update: Literal["mistake", "always"] = "mistake",
) -> Evidence:
    r"""$\Vert w_t\Vert^2\le\sum\Vert x_t\Vert^2\le R^2t$ over mistakes; equality at margin 0."""
    rng = seed.numpy()
    norms, sums, radii = [], [], []
    for _ in range(runs):
        X, y, _ = separable_points(rng, 100, int(rng.integers(2, 51)), 0.1)
        if update == "mistake":
            model = _fit_traced(X, y)
            used, weights = model.mistakes_, model.weights_
        else:
            used, weights = np.arange(len(y)), np.cumsum(y[:, None] * X, axis=0)
        squares = (X**2).sum(axis=1)
        norms.append((weights**2).sum(axis=1))
        sums.append(np.cumsum(squares[used]))
        radii.append(squares.max() * np.arange(1, len(used) + 1))
    # orthogonal points of different lengths: every one is a mistake of margin 0, once
    basis = np.linalg.qr(rng.normal(size=(20, 20)))[0] * rng.uniform(1, 2, size=(20, 1))
    orthogonal = _fit_traced(basis, rng.permutation(np.repeat([1.0, -1.0], 10)))
    attained = (orthogonal.weights_**2).sum(axis=1)
    together = [np.concatenate(one) for one in (norms, sums, radii)]
    rounding = 1e-9 * together[2]
    reason = "a theorem; rounding of sums of squares, relative to R²t"
    return every(
        {
            "squared norm below the sum": at_most(*together[:2], slack=rounding, why=reason).drawn(
                Series("‖w‖²", range(1, len(norms[0]) + 1), norms[0].tolist()),
                Series("Σ‖x‖²", range(1, len(norms[0]) + 1), sums[0].tolist(), role="bound"),
                Series("R²t", range(1, len(norms[0]) + 1), radii[0].tolist(), role="other"),
                x="mistakes t (first run)", y="squared norm",
            ),
            "sum below R²t": at_most(*together[1:], slack=rounding, why=reason),
            "orthogonal points attain it": identical(
                attained, np.cumsum((basis**2).sum(axis=1)[orthogonal.mistakes_])
            ),
        }
    )


@claim(control={"outside": 1.0}, source="by construction")
def weights_in_span(
    seed: Seed, *, dim: Annotated[int, Range(20, 500)] = 60,
    points: Annotated[int, Range(5, 15)] = 15, outside: Annotated[float, Range(0, 10)] = 0.0,
) -> Evidence:
    r"""Weights that start in the span of the points stay there: mistakes add nothing but points."""
    rng = seed.numpy()
    X, y, _ = separable_points(rng, points, dim, 0.1)
    basis = np.linalg.qr(X.T)[0]  # (dim, points), orthonormal
    away = rng.normal(size=dim)
    away -= basis @ (basis.T @ away)
    start = X.T @ rng.normal(size=points) + outside * away / np.linalg.norm(away)
    model = Perceptron(fit_intercept=False, trace=True).fit(X, y, coef_init=start)
    weights = np.vstack([start, model.weights_, model.coef_])
    left = np.linalg.norm(weights - weights @ basis @ basis.T, axis=1)
    return at_most(
        left / np.linalg.norm(weights, axis=1), 1e-12, why="rounding of an orthonormal projection"
    )


@claim(control={"labels": "and"}, source="Minsky and Papert 1969; Block and Levin 1970")
def xor_never_converges(
    seed: Seed, *, epochs: Annotated[int, Range(20, 5000)] = 500,
    labels: Literal["xor", "and"] = "xor",
) -> Evidence:
    r"""On XOR the mistakes never end, epoch after epoch, while the weights stay bounded."""
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = {"xor": np.array([-1.0, 1.0, 1.0, -1.0]), "and": np.array([-1.0, -1.0, -1.0, 1.0])}[labels]
    model = _fit_traced(
        X, y, max_epochs=epochs, fit_intercept=True, shuffle=True, random_state=int(seed)
    )
    made = np.zeros(epochs)
    made[: model.n_epochs_] = model.epoch_mistakes_
    norms = np.hypot(np.linalg.norm(model.weights_, axis=1), model.biases_)
    return every(
        {
            "mistakes in every epoch": at_least(
                made, 1.0, why="integers: an epoch without a mistake would end the learning"
            ).drawn(
                Series("mistakes", range(1, epochs + 1), made.tolist(), style="line"),
                x="epoch", y="mistakes in the epoch",
            ),
            "weights stay bounded": at_most(
                norms, 10.0, why="the cycling theorem bounds them; 80,000 epochs have reached 3"
            ),
        }
    )


@claim(
    control={"zero": "no class"},
    source="by construction",
    misprint=r"the update maps 0 to +1, but accuracy is mean(sign($X\theta$) == y)",
)
def scoring_rule(
    seed: Seed, *, points: Annotated[int, Range(10, 10000)] = 200,
    zero: Literal["+1", "no class"] = "+1",
) -> Evidence:
    r"""Training and scoring share one rule at 0: at $\theta=0$ accuracy is the share of +1."""
    X, y, _ = separable_points(seed.numpy(), points, 5, 0.1)
    kept = (y == -1) | (np.arange(points) % 3 == 0)  # unequal classes: else 1 - share = share
    X, y = X[kept], y[kept]
    model = Perceptron(fit_intercept=False).fit(X, y)
    model.coef_ = np.zeros_like(model.coef_)
    reported = model.score(X, y) if zero == "+1" else np.mean(np.sign(X @ model.coef_[0]) == y)
    return identical(reported, np.mean(y == 1))


@claim(control={"average": True}, source="Pedregosa et al. 2011, scikit-learn")
def equals_sklearn(
    seed: Seed, *, points: Annotated[int, Range(50, 5000)] = 500, average: bool = False
) -> Evidence:
    r"""The weights, traced or not, are those of `SGDClassifier(loss="perceptron")`."""
    rng = seed.numpy()
    X, y, _ = separable_points(rng, points, 10, 0.02)
    labels = rng.choice([-1.0, 1.0], size=1000)  # of no pattern: most points are mistakes
    sets = {"separable": (X, y, 1000), "random": (rng.normal(size=(1000, 10)), labels, 5)}
    parts = {}
    for name, (inputs, signs, epochs) in sets.items():
        traced, plain = (
            fit_quietly(Perceptron(trace=trace, max_epochs=epochs), inputs, signs)
            for trace in (True, False)
        )
        reference = SGDClassifier(
            loss="perceptron", learning_rate="constant", eta0=1.0, penalty=None, shuffle=False,
            average=average, max_iter=traced.n_epochs_, tol=None, random_state=0,
        ).fit(inputs, signs)
        expected = np.append(reference.coef_, reference.intercept_)
        parts |= {
            f"{name}, {kind}": identical(np.append(model.coef_, model.intercept_), expected)
            for kind, model in (("traced", traced), ("not traced", plain))
        }
        parts[f"{name}, mistakes counted"] = equal(
            plain.n_mistakes_, len(traced.mistakes_), tol=0, why="integers"
        )
    return every(parts)


@experiment(
    reaches={"ovr_test_accuracy": at_least_goal(0.887), "ovo_test_accuracy": at_least_goal(0.94)},
    floor={"ovr_test_accuracy": at_least_goal(0.90), "bound_minus_mistakes": at_least_goal(0)},
    source="Xiao, Rasul, Vollgraf (2017), Fashion-MNIST, Table 3: best Perceptron on MNIST 0.887; "
    "the 0.94 of one unit a pair is a floor of our own",
)
def digits(run: Run, *, epochs: Count = 5, pair_epochs: Count = 10) -> None:
    """Reads handwritten digits with averaged perceptrons: MNIST, or 8 x 8 digits when quick."""
    x, y, x_test, y_test = handwriting(run)
    side = x.shape[-1]
    X, X_test = (part.flatten(1).double().numpy() for part in (x, x_test))
    labels, labels_test = y.numpy(), y_test.numpy()

    settings: dict[str, Any] = {"shuffle": True, "random_state": int(run.seed)}
    per_class = fit_quietly(Perceptron(max_epochs=epochs, average=True, **settings), X, labels)
    run.record(ovr_test_accuracy=per_class.score(X_test, labels_test))
    run.keep(per_class)
    plain = fit_quietly(Perceptron(max_epochs=epochs, **settings), X, labels)
    run.record(ovr_without_averaging=plain.score(X_test, labels_test))
    pairwise = Perceptron(max_epochs=pair_epochs, average=True, strategy="ovo", **settings)
    run.record(ovo_test_accuracy=fit_quietly(pairwise, X, labels).score(X_test, labels_test))

    pair = labels < 2
    X_pair, y_pair = X[pair], np.where(labels[pair] == 1, 1.0, -1.0)
    model = Perceptron().fit(X_pair, y_pair)
    bound = mistake_bound(X_pair, y_pair, model.coef_[0], float(model.intercept_[0]))
    run.record(zero_one_mistakes=model.n_mistakes_, bound_minus_mistakes=bound - model.n_mistakes_)

    weights = [row.reshape(side, side) for row in per_class.coef_]
    run.figure("weights", figures.images(weights, [str(k) for k in range(10)], signed=True))
    margins = y_pair * model.decision_function(X_pair) / np.linalg.norm(model.coef_)
    counts, edges = np.histogram(margins, bins=40)
    middles = ((edges[1:] + edges[:-1]) / 2).tolist()
    histogram = Series("points", middles, counts.tolist(), style="bars")
    run.figure("margins", figures.draw(Picture((histogram,), "margin, 0 against 1", "points")))
    series = Series("mistakes", range(1, len(plain.epoch_mistakes_) + 1), plain.epoch_mistakes_)
    run.figure("mistakes", figures.draw(Picture((series,), "epoch", "mistakes of ten units")))


def _fit_traced(X: Array, y: Array, **settings: Any) -> Perceptron:
    """Trace a perceptron without bias, unless told otherwise, whether it converges or not."""
    chosen = {"fit_intercept": False, "max_epochs": 100, **settings}
    return fit_quietly(Perceptron(trace=True, **chosen), X, y)

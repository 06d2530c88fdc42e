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
from typing import Any, Literal, final

import numpy as np
from jaxtyping import Float
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from principia.lab.params import PositiveFloat, PositiveInt, check_params, checked, usage_error
from principia.lab.training.estimators import class_codes, two_classes

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
        self, *, fit_intercept: bool = True, max_epochs: PositiveInt = 1000, average: bool = False,
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
            raise usage_error("Perceptron", "y", "of two classes when trace=True", got, hint)
        start = np.zeros(X.shape[1]) if coef_init is None else np.asarray(coef_init, dtype=float)
        if start.shape != (X.shape[1],):
            raise usage_error("Perceptron", "coef_init", f"of shape ({X.shape[1]},)", start.shape)

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
        gamma: PositiveFloat | None = None, degree: PositiveInt = 3, max_epochs: PositiveInt = 100,
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
        raise usage_error("mistake_bound", "w", "the normal of a separating hyperplane", w, hint)
    ratio = float((X**2).sum(axis=1).max()) / margin**2
    return int(np.floor(ratio * (1 + 1e-12)))  # R = gamma must give 1, not 0.99999 rounded down

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

__all__ = ["Perceptron", "KernelPerceptron", "mistake_bound", "perceptron_epoch"]

import itertools
import warnings
from functools import lru_cache
from typing import Any, Literal, final

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from principia.connectionism._perceptron_fast import Epochs
from principia.lab.params import PositiveFloat, PositiveInt, check_params, checked, usage_error
from principia.lab.training.estimators import class_codes, two_classes

Array = np.ndarray
COLUMNS = 1 << 23  # numbers of Gram columns that are kept: 64 MB


@checked
def perceptron_epoch(
    X: Float[Array, "N D"], y: Float[Array, " N"], w: Float[Array, " D"], b: float = 0.0, *,
    fit_intercept: bool = True,
) -> tuple[Float[Array, " D"], float, list[int]]:
    r"""Visits every point once, in order, and adds those that the unit gets wrong to its weights.

    Returns the new weights, the new bias and the numbers of the points that were mistakes.

    Args:
        X: Points (N, D).
        y: Labels +1 and -1.
        w: Weights before; they are not changed.
        b: Bias before.
        fit_intercept: Whether to learn the bias.

    Example:
        >>> perceptron_epoch(np.eye(2), np.array([1.0, -1.0]), np.zeros(2))
        (array([ 1., -1.]), 0.0, [0, 1])
    """
    w, mistakes = w.copy(), []
    for index, (point, label) in enumerate(zip(X, y.tolist(), strict=True)):
        if label * (w @ point + b) <= 0:
            w += label * point
            b += label * fit_intercept
            mistakes.append(index)
    return w, b, mistakes


@final
class Perceptron(ClassifierMixin, BaseEstimator):
    r"""Learns a separating hyperplane by adding the points it gets wrong.

    Epochs of the rule follow each other until one has no mistakes. They run in a fast form of
    `perceptron_epoch`, which jumps from mistake to mistake or, where they are many, is compiled.

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

        epochs = Epochs(X, bias=self.fit_intercept, average=self.average, trace=self.trace)
        fits = [self._learn(epochs, rows, signs, start) for rows, signs in self._problems(codes)]
        weights, biases, mistakes = zip(*fits, strict=True)
        self.coef_, self.intercept_ = np.stack(weights), np.array(biases)
        self.epoch_mistakes_ = np.array([*map(sum, itertools.zip_longest(*mistakes, fillvalue=0))])
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
        self, epochs: Epochs, rows: Array | slice, y: Array, w: Array
    ) -> tuple[Array, float, list[int]]:
        """Run epochs until one has no mistakes; return weights, bias and the mistakes of each."""
        rng, passes = check_random_state(self.random_state), range(self.max_epochs)
        orders = (rng.permutation(len(y)) if self.shuffle else None for _ in passes)
        state, mistakes, means, wrong, traced = np.append(w, 0.0), [], [], [], []
        for epoch in epochs.run(rows, y, w, orders):
            state = epoch.state  # the last entry is the bias
            mistakes.append(epoch.mistakes)
            means.append(epoch.mean)
            wrong += epoch.wrong
            traced += epoch.states
            if not epoch.mistakes:
                break
        if self.trace:
            history = np.array(traced).reshape(-1, len(state))
            self.weights_, self.biases_ = history[:, :-1], history[:, -1]
            self.mistakes_ = np.array(wrong, dtype=int)
        learned = np.mean(means, axis=0) if self.average else state
        return learned[:-1], float(learned[-1]), mistakes

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
    scores of all points. Columns of points that err again and again are kept.

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

        @lru_cache(maxsize=1 + COLUMNS // len(y))
        def column(point: int) -> Array:
            return self._gram(X, X[point : point + 1])[:, 0]

        self.n_mistakes_, self.converged_ = 0, False
        for epoch in range(1, self.max_epochs + 1):
            self.n_epochs_, position, before = epoch, 0, self.n_mistakes_
            while len(wrong := np.flatnonzero(signs[position:] * scores[position:] <= 0)):
                point = position + int(wrong[0])
                counts[point] += 1
                scores += signs[point] * column(point)
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

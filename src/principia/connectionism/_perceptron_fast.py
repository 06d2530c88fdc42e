r"""The perceptron's rule, fast: what `Perceptron` runs in place of `perceptron_epoch`.

Where mistakes are rare, `jump` scores blocks of points by one matrix product up to the next one, so
that the cost is per mistake. Where they are many, `sweep` runs the epoch in scikit-learn's compiled
`SGDClassifier`. `Epochs` takes the faster of the two. The claim `fast_form_is_the_rule` of the page
holds all of them equal to the rule.
"""

import functools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple, final

import numpy as np
from sklearn import config_context
from sklearn.linear_model import SGDClassifier

__all__ = ["Epoch", "Epochs", "counted", "jump", "sweep"]

Array = np.ndarray
COUNTER = 1e-200  # its square is 0 in float64
BLOCKS = 2**12, 2**17  # fewest and most numbers that one matrix product reads: 32 KB and 1 MB
FEW, NUMBERS_A_MISTAKE = 256, 2**13  # up to so many mistakes, jumping is faster than compiled code


@final
class Epoch(NamedTuple):
    """What one epoch leaves: weights and bias in one row, the bias last.

    `mean` is the mean of the states over the points, if it is wanted. `wrong` are the mistakes and
    `states` the state after each of them, if they are traced.
    """

    state: Array  # (D + 1,)
    mistakes: int
    mean: Array | None = None  # (D + 1,)
    wrong: tuple[int, ...] = ()
    states: tuple[Array, ...] = ()


@final
class Epochs:
    """Runs epochs over points, or some of them, each in the way that is faster.

    Args:
        X: Points (N, D).
        bias: Whether to learn a bias.
        average: Whether the mean of the states is wanted.
        trace: Whether the mistakes and the states are wanted; then no epoch is compiled.
    """

    def __init__(
        self, X: Array, *, bias: bool, average: bool = False, trace: bool = False
    ) -> None:
        self.X, self.bias, self.average, self.trace = X, bias, average, trace

    @functools.cached_property
    def _wider(self) -> Array:
        return np.column_stack([self.X, np.zeros(len(self.X))])  # a copy that may not be needed

    def run(
        self, rows: Array | slice, y: Array, w: Array, orders: Iterable[Array | None]
    ) -> Iterator[Epoch]:
        """Give one epoch for each order of the chosen rows, from weights w; none is as they are."""
        points, state, made = self.X[rows], np.append(w, 0.0), None
        ordered, signs = points, y
        rare = math.inf if self.trace else len(w) / NUMBERS_A_MISTAKE  # mistakes a point
        for order in orders:
            if order is not None:
                ordered = np.empty_like(points) if ordered is points else ordered
                np.take(points, order, axis=0, out=ordered, mode="clip")  # "raise" makes a copy
                signs = y[order]
            passed = None
            if made is None or made <= FEW + rare * len(y):
                # only in the first epoch it is not known yet whether mistakes are rare
                limit = rare if made is None else math.inf
                keep = self.trace or self.average
                passed = jump(ordered, signs, state, bias=self.bias, keep=keep, rare=limit)
            if passed is None:
                if points.shape[1] == len(w):
                    points = counted(self._wider[rows], y)
                    ordered = points if order is None else points[order]
                state, mean, made = sweep(
                    ordered, signs, state, bias=self.bias, average=self.average
                )
                yield Epoch(state, made, mean if self.average else None)
                continue
            state, wrong, states = passed
            made, mean = len(wrong), None
            if self.average:
                seen = np.diff([0, *wrong, len(y)])  # points that each state is for
                mean = seen @ states / len(y)
            if self.trace:
                indices = wrong if order is None else order[wrong].tolist()
                yield Epoch(state, made, mean, tuple(indices), tuple(states[1:]))
            else:
                yield Epoch(state, made, mean)


def jump(
    X: Array, y: Array, state: Array, *, bias: bool, keep: bool = False, rare: float = math.inf
) -> tuple[Array, list[int], list[Array]] | None:
    """Run one epoch from mistake to mistake; give the last state, them, and all states.

    Where there are more than FEW and `rare` a point, give up. A block is as long as the way between
    the last mistakes, and grows while the unit is right; states are kept only if that is wanted.
    """
    least, largest = (max(16, numbers // X.shape[1]) for numbers in BLOCKS)
    D, step = len(state) - 1, float(bias)
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
        b += float(y[position]) * step
        wrong.append(position)
        if keep:
            states.append(np.append(w[:D], b))
        position += 1
        if len(wrong) > FEW + rare * position:
            return None
        size = min(max(position - past, least), largest)
        past = position
    return np.append(w[:D], b), wrong, states


def counted(wider: Array, y: Array) -> Array:
    """Fill the last column, in place, with what `sweep` counts by."""
    wider[:, -1] = COUNTER * y
    return wider


def sweep(
    points: Array, y: Array, state: Array, *, bias: bool, average: bool = False
) -> tuple[Array, Array, int]:
    """Run one epoch in SGDClassifier, which has the same update but does not count it.

    The last column, $10^{-200}y$, counts: each mistake adds $10^{-200}$ to its weight, while its
    share of a score, at most $10^{-400}$ times the count, is exactly 0 in float64.
    """
    ends = []
    for averaging in (False, True)[: 1 + average]:
        model = SGDClassifier(
            loss="perceptron", learning_rate="constant", eta0=1.0, penalty=None, max_iter=1,
            tol=None, shuffle=False, fit_intercept=bias, average=averaging,
            random_state=0,  # unused, but none would draw from the global generator
        )
        start = np.append(state[:-1], 0.0)[None]
        with config_context(assume_finite=True):  # the estimator has looked already
            model.fit(points, y, coef_init=start, intercept_init=state[-1:].copy())
        ends.append(np.append(model.coef_[0], model.intercept_))
    made = round(ends[0][-2] / COUNTER)
    return np.delete(ends[0], -2), np.delete(ends[-1], -2), made

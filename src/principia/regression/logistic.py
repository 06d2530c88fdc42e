r"""Logistic regression: the probability of a class, from a straight line through the log-odds.

The score $z=w\cdot x+b$ is the logarithm of the odds of class 1, and the logistic function turns it
into a probability. Its negative log-likelihood is convex and smooth, so that Newton's method finds
the minimum by a few weighted least squares; with an intercept the mean prediction is then the share
of class 1. Measured in bits the loss lies above the 0/1 error; in nats it does not. If a hyperplane
separates the classes there is no minimum: the weights grow for ever, like the logarithm of the
number of gradient steps, and turn toward the largest margin.

$$ \sigma(z) = \frac{1}{1+e^{-z}}, \quad \sigma' = \sigma(1-\sigma), \quad
\mathrm{logit}(p) = \ln\frac{p}{1-p} $$

$$ \ell(y,z) = -y\ln\sigma(z)-(1-y)\ln(1-\sigma(z)) = -\ln\sigma((2y-1)z) $$

$$ h(w) = \frac{1}{s}\sum_i\ell(y_i,w\cdot x_i)+\frac{\lambda}{2}\Vert w\Vert^2, \quad
\nabla\ell_i = (\sigma(w\cdot x_i)-y_i)\,x_i, \quad
\nabla^2h = \frac{1}{s}X^\top\mathrm{diag}(\sigma(1-\sigma))X+\lambda I $$

Symbols:
    $\sigma$: logistic function, `torch.sigmoid`; its inverse is `logit`
    $z$: score $w\cdot x+b$; $(2y-1)z$ is the margin of a point
    $\ell$: loss of one point in nats, `logistic_loss`; $y$ is 0 or 1
    $h$: what `IRLS` minimizes over $s$ points; the bias $b$ costs nothing
    $\lambda$: price of large weights, `l2`; scikit-learn's `C` is $1/(s\lambda)$

References:
    Cox (1958), The regression analysis of binary sequences. Journal of the Royal Statistical
        Society B 20(2). doi:10.1111/j.2517-6161.1958.tb00292.x
    Green (1984), Iteratively reweighted least squares for maximum likelihood estimation, and some
        robust and resistant alternatives. Journal of the Royal Statistical Society B 46(2).
        doi:10.1111/j.2517-6161.1984.tb01288.x
    Albert and Anderson (1984), On the existence of maximum likelihood estimates in logistic
        regression models. Biometrika 71(1). doi:10.1093/biomet/71.1.1
    Soudry, Hoffer, Nacson, Gunasekar and Srebro (2018), The implicit bias of gradient descent on
        separable data. Journal of Machine Learning Research 19(70). arXiv:1710.10345
    Nacson, Lee, Gunasekar, Savarese, Srebro and Soudry (2019), Convergence of gradient descent on
        separable data. Artificial Intelligence and Statistics. arXiv:1803.01905
    Wolberg, Street and Mangasarian (1995), Image analysis and machine learning applied to breast
        cancer diagnosis and prognosis. Analytical and Quantitative Cytology and Histology 17(2).
"""

__all__ = ["IRLS", "logistic_loss", "logit", "zero_one_bound"]

import math
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, final

import numpy as np
from jaxtyping import Float, Shaped
from scipy.optimize import linprog
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from torch.nn import functional as F

from principia.lab.params import (
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Range,
    check_params,
    checked,
    usage_error,
)
from principia.lab.training.estimators import two_classes
from principia.regression._least_squares_fast import BLOCK

Array = np.ndarray
TINY = np.finfo(np.float64).tiny
UNIT = 2.0**-53  # float64 rounds by this much, relatively
FAR = 60.0  # a point with so large a score weighs 1e-26: as good as nothing, but not 0
SUFFICIENT = 1e-4  # share of the predicted decrease that a step must bring (Armijo)


def logistic_loss(
    y: Shaped[Tensor, "..."], z: Float[Tensor, "*batch"]
) -> Float[Tensor, "*batch"]:
    r"""Measures how surprised a score is by its label, in nats: $-\ln\sigma((2y-1)z)$.

    Args:
        y: Labels 0 and 1, of the shape of z; -1 and +1 are converted, with a note.
        z: Scores: logarithms of the odds of label 1.

    Example:
        >>> import torch
        >>> logistic_loss(torch.tensor([1, 0]), torch.tensor([0.0, 2.0]))
        tensor([0.6931, 2.1269])
    """
    if y.shape != z.shape:
        raise usage_error(
            "logistic_loss", "y", f"of the shape of z, {tuple(z.shape)}", tuple(y.shape)
        )
    if ((y == 1) | (y == -1)).all() and (y == -1).any():
        note = "logistic_loss: y has labels -1 and +1, which are taken for 0 and 1."
        warnings.warn(note, stacklevel=2)
        y = y > 0
    if not ((y == 0) | (y == 1)).all():
        raise usage_error("logistic_loss", "y", "an array of 0 and 1 only", y)
    return -F.logsigmoid((2 * y.to(z) - 1) * z)


def logit(p: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    r"""Turns probabilities into log-odds, $\ln\frac{p}{1-p}$: the inverse of $\sigma$.

    Example:
        >>> import torch
        >>> logit(torch.tensor([0.5, 0.75, 1.0]))
        tensor([0.0000, 1.0986,    inf])
    """
    if not ((p >= 0) & (p <= 1)).all():
        raise usage_error("logit", "p", "of probabilities in [0, 1]", p)
    return p.log() - (-p).log1p()


@checked
def zero_one_bound(
    z: Float[Tensor, "*batch"], base: Annotated[float, Range(1, math.inf, open="low")] = 2.0
) -> Float[Tensor, "*batch"]:
    r"""Bounds the 0/1 error of a margin z by $-\log\sigma(z)$, for bases of at most 2.

    Example:
        >>> import torch
        >>> zero_one_bound(torch.tensor([0.0, -1.0, 1.0]))
        tensor([1.0000, 1.8946, 0.4519])
    """
    return -F.logsigmoid(z) / math.log(base)


@final
class IRLS(ClassifierMixin, BaseEstimator):
    r"""Learns a logistic regression by Newton's method: least squares, reweighted every time.

    A step minimizes $\Vert\sqrt{W}(X\Delta-W^{-1}(y-\sigma))\Vert^2$ plus the price of the weights,
    $W=\mathrm{diag}(\sigma(1-\sigma))$, and is halved until the loss falls enough. `losses_` has
    the loss before each step and after the last. Where classes are separated and nothing holds
    the weights back, it stops with a warning, finite weights and `separable_` true.

    Shapes:
        X: (N, D); y: (N,) of two classes; predict_proba returns (N, 2)

    Args:
        l2: Price $\lambda$ of half the squared weights, beside the mean loss.
        max_iter: Newton steps before giving up.
        tol: Stops when a step moves no score by more, relative to 1 + the largest score.
        fit_intercept: Whether to learn a bias, which has no price.

    Example:
        >>> model = IRLS().fit([[0], [1], [2], [3]], [0, 1, 0, 1])
        >>> model.predict([[4]]).tolist(), model.converged_, model.separable_
        ([1], True, False)
    """

    def __init__(
        self, *, l2: NonNegativeFloat = 0.0, max_iter: PositiveInt = 50, tol: PositiveFloat = 1e-8,
        fit_intercept: bool = True,
    ) -> None:
        self.l2 = l2
        self.max_iter = max_iter
        self.tol = tol
        self.fit_intercept = fit_intercept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> "IRLS":
        """Minimize the mean loss and the price of the weights, or tell that there is no minimum."""
        check_params(self)
        X, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, signs = two_classes("IRLS", y)
        (s, d), bias = X.shape, int(self.fit_intercept)
        rows = np.empty((s, d + bias))
        np.multiply(signs[:, None], X, out=rows[:, :d])
        rows[:, d:] = signs[:, None]
        price = math.sqrt(s * self.l2) * np.append(np.ones(d), np.zeros(bias))

        def loss(margins: Array, w: Array) -> float:
            surprise = np.log1p(np.exp(-np.abs(margins))) - np.minimum(margins, 0)
            return float(surprise.mean() + ((price * w) ** 2).sum() / (2 * s))

        w, margins = np.zeros(d + bias), np.zeros(s)
        self.losses_, self.converged_, self.separable_ = [loss(margins, w)], False, False
        for iteration in range(1, self.max_iter + 1):
            self.n_iter_ = iteration
            step, gain = _newton_step(rows, margins, [np.diag(price), -price * w])
            moves = rows @ step
            change = np.abs(moves).max()
            self.converged_ = bool(change <= self.tol * (1 + np.abs(margins).max()))
            ends, rate = self.losses_[-1] * (1 + 16 * UNIT), 1.0  # rounding must not stop a step
            value = loss(margins + moves, w + step)
            while not self.converged_ and value > ends - SUFFICIENT * rate * gain / s:
                rate /= 2
                value = loss(margins + rate * moves, w + rate * step)
            w, margins = w + rate * step, margins + rate * moves
            self.losses_.append(value)
            # weights that separate prove it: twice as long, they have a smaller loss
            self.separable_ = self.l2 == 0 and bool(margins.min() > 0)
            if self.converged_ or self.separable_:
                break
        # far away steps get lost in rounding: who seems to rest there may still be on the way
        if self.l2 == 0 and not (self.converged_ and margins.max() < FAR / 2):
            self.separable_ = self.separable_ or _weakly_separable(rows)
        self.converged_ = self.converged_ and not self.separable_
        self.coef_ = w[None, :d]
        self.intercept_ = w[d:] if bias else np.zeros(1)
        if not self.converged_:
            message = f"IRLS: still moving after {self.n_iter_} steps. Raise max_iter."
            if self.separable_:
                message = (
                    "IRLS: y must not be separable by X when l2=0; got classes with a hyperplane "
                    "between them. No minimizer exists: longer weights always have a smaller loss. "
                    "Set l2 > 0, or take principia.connectionism.MaxMargin."
                )
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        return self

    def decision_function(self, X: Any) -> Array:
        """Score points (N,) by the log-odds of the second class."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return X @ self.coef_[0] + self.intercept_[0]

    def predict_proba(self, X: Any) -> Array:
        """Give the probabilities of both classes, (N, 2)."""
        scores = self.decision_function(X)
        return expit(np.stack([-scores, scores], axis=1))

    def predict(self, X: Any) -> Array:
        """Name the class of each point; a score of 0 is the second class."""
        scores = self.decision_function(X)
        return self.classes_[(scores >= 0).astype(int)]


def _newton_step(rows: Array, margins: Array, held: Sequence[Array]) -> tuple[Array, float]:
    """Give the step and the squared Newton decrement; `held` are the rows that hold it back."""

    def weighted(rows: Array, margins: Array) -> tuple[Array, Array]:
        near = margins.clip(-FAR, FAR)
        root = np.sqrt(expit(near) * expit(-near))
        return root[:, None] * rows, expit(-margins) / root

    design, target = held
    gram, pull = design.T @ design, design.T @ target
    for first in range(0, len(rows), BLOCK):
        design, target = weighted(*(one[first : first + BLOCK] for one in (rows, margins)))
        gram, pull = gram + design.T @ design, pull + target @ design
    try:
        sizes = np.sqrt(gram.diagonal().clip(TINY))
        factor = np.linalg.cholesky(gram / sizes / sizes[:, None])
        sound = factor.diagonal().min() > 1e-4
    except np.linalg.LinAlgError:
        sound = False
    if sound:
        step = np.linalg.solve(gram, pull)
    else:  # the square of so large a condition number leaves no digits
        weights = weighted(rows, margins)
        design, target = (np.concatenate(two) for two in zip(weights, held, strict=True))
        step = np.linalg.lstsq(design, target, rcond=None)[0]
    return step, step @ gram @ step


def _weakly_separable(rows: Array) -> bool:
    """Tell whether some w has no negative margin but a positive one (Albert and Anderson 1984)."""
    scale = np.abs(rows).max(axis=0)
    rows = rows / np.where(scale > 0, scale, 1.0)
    found = linprog(-rows.mean(axis=0), A_ub=-rows, b_ub=np.zeros(len(rows)), bounds=(-1, 1))
    return found.status == 0 and -found.fun > 1e-6  # HiGHS may break a constraint by 1e-7

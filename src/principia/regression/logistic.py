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
from typing import Annotated, Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float, Shaped
from scipy.optimize import linprog
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor
from torch.nn import functional as F

from principia.connectionism.margin import MaxMargin
from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.synthetic import separable_points
from principia.lab.domains import Count, NonNegative, Positive, Range
from principia.lab.errors import refuse
from principia.lab.estimators import fit_quietly, two_classes
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import check_params, checked
from principia.lab.relations import at_least, at_most, equal, every, identical, never
from principia.lab.seeds import Seed
from principia.regression.least_squares import BLOCK

Array = np.ndarray
Points = Annotated[int, Range(10, 20_000)]
Width = Annotated[float, Range(1, 30)]
TINY = np.finfo(np.float64).tiny
UNIT = 2.0**-53  # float64 rounds by this much, relatively
FAR = 60.0  # a point with so large a score weighs 1e-26: as good as nothing, but not 0
ROUNDED = "1-σ is rounded by 2^-53, which is e^|z| as large a share of it"
SUFFICIENT = 1e-4  # share of the predicted decrease that a step must bring (Armijo)


def logistic_loss(
    y: Shaped[Tensor, "..."], z: Float[Tensor, "*batch"]
) -> Float[Tensor, "*batch"]:
    r"""Measures how surprised a score is by its label, in nats: $-\ln\sigma((2y-1)z)$.

    Args:
        y: Labels 0 and 1, of the shape of z; -1 and +1 are converted, with a note.
        z: Scores: logarithms of the odds of label 1.

    Example:
        >>> logistic_loss(torch.tensor([1, 0]), torch.tensor([0.0, 2.0]))
        tensor([0.6931, 2.1269])
    """
    if y.shape != z.shape:
        raise refuse("logistic_loss", "y", f"of the shape of z, {tuple(z.shape)}", tuple(y.shape))
    if ((y == 1) | (y == -1)).all() and (y == -1).any():
        note = "logistic_loss: y has labels -1 and +1, which are taken for 0 and 1."
        warnings.warn(note, stacklevel=2)
        y = y > 0
    if not ((y == 0) | (y == 1)).all():
        raise refuse("logistic_loss", "y", "an array of 0 and 1 only", y)
    return -F.logsigmoid((2 * y.to(z) - 1) * z)


def logit(p: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    r"""Turns probabilities into log-odds, $\ln\frac{p}{1-p}$: the inverse of $\sigma$.

    Example:
        >>> logit(torch.tensor([0.5, 0.75, 1.0]))
        tensor([0.0000, 1.0986,    inf])
    """
    if not ((p >= 0) & (p <= 1)).all():
        raise refuse("logit", "p", "of probabilities in [0, 1]", p)
    return p.log() - (-p).log1p()


@checked
def zero_one_bound(
    z: Float[Tensor, "*batch"], base: Annotated[float, Range(1, math.inf, open="low")] = 2.0
) -> Float[Tensor, "*batch"]:
    r"""Bounds the 0/1 error of a margin z by $-\log\sigma(z)$, for bases of at most 2.

    Example:
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
        self, *, l2: NonNegative = 0.0, max_iter: Count = 50, tol: Positive = 1e-8,
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
        if self.l2 == 0 and not self.converged_:
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


@claim(control={"second": "s(1-s)(1+2s)"}, source="Verhulst 1845")
def logistic_function(
    seed: Seed, *, points: Points = 2000, width: Width = 20.0,
    second: Literal["s(1-s)(1-2s)", "s(1-s)(1+2s)"] = "s(1-s)(1-2s)",
) -> Evidence:
    r"""$\sigma-\frac12$ is odd; $\sigma'=\sigma(1-\sigma)\le\frac14$; convex, then concave."""
    z = _scores(seed, points, width)
    s, slope, bend = _with_derivatives(lambda u: 1 / (1 + (-u).exp()), z)
    expected = s * (1 - s) * (1 + 2 * s if second == "s(1-s)(1+2s)" else 1 - 2 * s)
    return every(
        {
            "second derivative": identical(bend, expected).drawn(
                Series("autograd", z, bend), Series(second, z, expected, role="predicted"),
                x="z", y="second derivative of σ",
            ),
            "torch.sigmoid": identical(z.sigmoid(), s),
            "logit inverts": equal(
                logit(s), z, tol=8 * UNIT * (1 + z.abs().exp()), why=f"near 1 {ROUNDED}"
            ),
            "odd": identical(s - 0.5, 0.5 - (-z).sigmoid()),
            "slope": identical(slope, s * (1 - s)),
            "slope below 1/4": at_most(slope, 0.25, slack=UNIT, why="rounding of 1/4"),
            "convex, then concave": at_least(
                -z.sign() * bend, 0.0, slack=UNIT, why="rounding of a difference of two slopes"
            ),
        }
    )


@claim(control={"function": "sigmoid"}, source="by differentiation")
def log_sigmoid(
    seed: Seed, *, points: Points = 2000, width: Width = 20.0,
    function: Literal["-log sigmoid", "sigmoid"] = "-log sigmoid",
) -> Evidence:
    r"""$(\ln\sigma)'=1-\sigma$, $(\ln\sigma)''=-\sigma(1-\sigma)<0$: $-\ln\sigma$ is convex."""
    z = _scores(seed, points, width)
    s, loss = z.sigmoid(), _with_derivatives(lambda u: logistic_loss(torch.ones_like(u), u), z)
    curve = loss if function == "-log sigmoid" else _with_derivatives(torch.sigmoid, z)
    return every(
        {
            "strictly convex": never(curve[2] <= 0, why="a theorem").drawn(
                Series(function, z, curve[0], style="line"), x="z", y="function"
            ),
            "first derivative": identical(-loss[1], 1 - s),
            "second derivative": identical(-loss[2], -s * (1 - s)),
        }
    )


@claim(
    control={"base": math.e},
    source="Bartlett, Jordan and McAuliffe 2006",
    misprint=r"the natural $-\ln\sigma$ as upper bound of the 0/1 error: it is 0.693 at 0",
)
def surrogate_bound(
    seed: Seed, *, points: Points = 2000, width: Width = 20.0,
    base: Annotated[float, Range(1.1, 10)] = 2.0,
) -> Evidence:
    r"""$-\log_2\sigma(z)\ge1\{z\le0\}$: as an upper bound of the 0/1 error, the loss is in bits."""
    z = _scores(seed, points, width)
    bound, error = zero_one_bound(z, base), (z <= 0).double()
    return every(
        {
            "above the error": at_least(bound, error, slack=4 * UNIT, why="rounding at 0").drawn(
                Series(f"-log σ, base {base:.3g}", z, bound, style="line"),
                Series("0/1 error", z, error, role="bound", style="steps"), x="margin z", y="loss",
            ),
            "log 2 at 0": identical(bound[z == 0], [math.log(2, base)]),
        }
    )


@claim(control={"form": "naive"}, source="by construction")
def two_forms(
    seed: Seed, *, points: Points = 2000, width: Width = 30.0,
    form: Literal["stable", "naive"] = "stable",
) -> Evidence:
    r"""Both formulas of the loss agree; the one with $\ln\sigma((2y-1)z)$ is finite everywhere."""
    z = _scores(seed, points, width)
    y = torch.randint(0, 2, z.shape, generator=seed.child("labels").torch()).double()
    far = torch.tensor([200.0, -200.0, 1e4, -1e4]).repeat(2)  # float32
    labels = torch.arange(8) // 4
    loss = logistic_loss(labels, far) if form == "stable" else _naive_loss(labels, far)
    return every(
        {
            "finite": never(~loss.isfinite(), why="the loss of 1e4 is 1e4 or 0"),
            "far away": equal(
                loss, F.relu((1 - 2 * labels) * far), tol=math.exp(-200), why="ln(1+e^-200)"
            ),
            "two formulas": equal(
                logistic_loss(y, z), _naive_loss(y, z), tol=4 * UNIT * (40 + z.abs().exp()),
                why=f"{ROUNDED}; the loss is below 40",
            ),
            "torch": identical(
                logistic_loss(y, z), F.binary_cross_entropy_with_logits(z, y, reduction="none")
            ),
        }
    )


@claim(control={"residual": "y - sigma"}, source="Cox 1958")
def gradient(
    seed: Seed, *, points: Annotated[int, Range(5, 2000)] = 200,
    dim: Annotated[int, Range(1, 100)] = 5,
    residual: Literal["sigma - y", "y - sigma"] = "sigma - y",
) -> Evidence:
    r"""The loss of one point has the gradient $\nabla\ell_i=(\sigma(w\cdot x_i)-y_i)\,x_i$."""
    X, y, w = _noisy_labels(seed, points, dim)
    copies = w.repeat(points, 1).requires_grad_()  # one w a point, so that gradients stay apart
    logistic_loss(y, (X * copies).sum(dim=1)).sum().backward()
    sign = 1 if residual == "sigma - y" else -1
    return identical(copies.grad, sign * ((X @ w).sigmoid() - y)[:, None] * X)


@claim(control={"rule": "adam"}, source="by construction")
def iterates_in_span(
    seed: Seed, *, dim: Annotated[int, Range(30, 500)] = 50,
    points: Annotated[int, Range(2, 20)] = 20, steps: Annotated[int, Range(10, 2000)] = 200,
    rule: Literal["gradient", "adam"] = "gradient",
) -> Evidence:
    r"""Gradient descent, full or stochastic, never leaves the span of its start and the points."""
    X, y, start = _noisy_labels(seed, points, dim)
    basis = torch.linalg.qr(torch.vstack([start, X]).T)[0]  # (dim, points + 1)
    drawn = torch.randint(0, points, (steps, 1), generator=seed.child("order").torch())
    make = {"gradient": torch.optim.SGD, "adam": torch.optim.Adam}[rule]
    left = {}
    for name, batches in (("full", [slice(None)] * steps), ("stochastic", drawn)):
        w, iterates = start.clone().requires_grad_(), []
        optimizer = make([w], lr=0.1)
        for rows in batches:
            optimizer.zero_grad()
            logistic_loss(y[rows], X[rows] @ w).mean().backward()
            optimizer.step()
            iterates.append(w.detach().clone())
        path = torch.stack(iterates)
        left[name] = (path - path @ basis @ basis.T).norm(dim=1) / path.norm(dim=1)
    why = "rounding of an orthonormal projection"
    return every({name: at_most(part, 1e-10, why=why) for name, part in left.items()})


@claim(control={"loss": "squared"}, source="Boehning and Lindsay 1988")
def convex_and_smooth(
    seed: Seed, *, points: Annotated[int, Range(5, 200)] = 50,
    dim: Annotated[int, Range(1, 20)] = 5, chords: Annotated[int, Range(1000, 20_000)] = 10_000,
    loss: Literal["logistic", "squared"] = "logistic",
) -> Evidence:
    r"""$\nabla^2h=X^\top\mathrm{diag}(\sigma(1-\sigma))X/s$ lies between 0 and $X^\top X/4s$."""
    X, y, _ = _noisy_labels(seed, points, dim)
    rng = seed.child("chords").torch()

    def risk(w: Tensor, kind: str = "logistic") -> Tensor:  # (B, dim) to (B,)
        z = w @ X.T
        each = (z.sigmoid() - y) ** 2 if kind == "squared" else logistic_loss(y.expand_as(z), z)
        return each.mean(dim=1)

    a, b = 3 * torch.randn(2, chords, dim, generator=rng, dtype=torch.float64)
    t = torch.rand(chords, 1, generator=rng, dtype=torch.float64)
    chord = t[:, 0] * risk(a, loss) + (1 - t[:, 0]) * risk(b, loss)
    places = torch.cat([torch.zeros(1, dim), a[:100]]).requires_grad_()  # L is attained at 0
    (slopes,) = torch.autograd.grad(risk(places).sum(), places, create_graph=True)
    columns = [torch.autograd.grad(one.sum(), places, retain_graph=True)[0] for one in slopes.T]
    z = places.detach() @ X.T
    weights = z.sigmoid() * (-z).sigmoid() / points
    measured = torch.stack(columns, dim=-1)  # (places, dim, dim)
    curvature, norms = torch.linalg.eigvalsh(measured), places.detach().norm(dim=1)
    smooth = float(torch.linalg.eigvalsh(X.T @ X)[-1]) / (4 * points)
    slack, why = 1e-13 * smooth, "a theorem; rounding of eigenvalues, relative to L"
    return every(
        {
            "chords": never(
                risk(t * a + (1 - t) * b, loss) > chord * (1 + 1e-12), why="a theorem; 1e-12 rounds"
            ),
            "Hessian": identical(measured, torch.einsum("ps,si,sj->pij", weights, X, X)),
            "not negative": at_least(curvature, 0.0, slack=slack, why=why),
            "at most L": at_most(curvature, smooth, slack=slack, why=why).drawn(
                Series("largest curvature", norms, curvature[:, -1]),
                Series("L", [0.0, float(norms.max())], [smooth] * 2, role="bound"),
                x="‖w‖", y="eigenvalue of the Hessian",
            ),
            "L at 0": identical(curvature[0, -1], smooth),
        }
    )


@claim(control={"intercept": False}, source="the bias's normal equation")
def mean_matching(
    seed: Seed, *, points: Annotated[int, Range(200, 5000)] = 300,
    dim: Annotated[int, Range(1, 8)] = 5, l2: Annotated[float, Range(0.001, 10)] = 0.1,
    intercept: bool = True,
) -> Evidence:
    r"""At the optimum of a model with intercept the mean prediction is the share of class 1."""
    X, y = (part.numpy() for part in _noisy_labels(seed, points, dim)[:2])
    parts = {}
    for name, price in (("free", 0.0), ("with a price", l2)):
        model = IRLS(l2=price, fit_intercept=intercept).fit(X, y)
        reference = LogisticRegression(
            C=1 / (points * price) if price else math.inf, fit_intercept=intercept, tol=1e-12,
            solver="newton-cholesky",
        ).fit(X, y)
        parts[name] = equal(
            model.predict_proba(X)[:, 1].mean(), y.mean(), tol=1e-8, why="Newton stops at 1e-8"
        )
        parts[f"{name}, scikit-learn"] = equal(
            np.append(model.coef_, model.intercept_),
            np.append(reference.coef_, reference.intercept_), tol=1e-7,
            why="both solvers end with a quadratically small gradient",
        )
        parts[f"{name}, steps"] = at_most(
            model.n_iter_, 12, why="near the minimum every Newton step doubles the digits"
        )
    return every(parts)


@claim(control={"l2": 0.01}, source="Soudry et al. 2018; Nacson et al. 2019 for scaled steps")
def separable_data_diverges(
    seed: Seed, *, problems: Annotated[int, Range(1, 20)] = 5,
    points: Annotated[int, Range(20, 200)] = 50, gap: Annotated[float, Range(0.4, 2)] = 0.5,
    steps: Annotated[int, Range(10_000, 50_000)] = 20_000,
    l2: Annotated[float, Range(0, 1)] = 0.0,
) -> Evidence:
    r"""On separable data $\Vert w_t\Vert$ grows like $\log t$ and w turns to the largest margin."""
    rng, rows, best, told = seed.numpy(), [], [], []
    for _ in range(problems):
        X, y, _ = separable_points(rng, points, 2, gap)
        rows.append(y[:, None] * X)
        # points and their mirror images: the hyperplane of largest margin goes through 0
        mirrored = np.vstack([rows[-1], -rows[-1]]), np.repeat([1, -1], points)
        best.append(MaxMargin().fit(*mirrored).coef_[0])
        told.append(fit_quietly(IRLS(l2=l2, fit_intercept=False), *mirrored).separable_)
    signed = torch.from_numpy(np.stack(rows))
    times = np.unique(np.geomspace(100, steps, 60).astype(int))
    norms = _descend(signed, steps, l2)[times - 1].norm(dim=-1).numpy()  # (times, problems)
    u, v = np.log(times) - np.log(times).mean(), norms - norms.mean(axis=0)
    straight = u @ v / np.sqrt((u @ u) * (v**2).sum(axis=0) + 1e-300)  # correlation; 0 if constant
    line = norms[:, 0].mean() + u * (u @ v[:, 0]) / (u @ u)
    turned = F.normalize(_descend_scaled(signed, 5000, l2), dim=-1)
    cosines = (turned.numpy() * np.stack(best)).sum(axis=1)
    return every(
        {
            "linear in log t": at_least(
                straight, 0.99**0.5, why="R² of 0.99: what is bounded bends the line at its start"
            ).drawn(
                Series("‖w‖", times, norms[:, 0]), Series("line", times, line, role="predicted"),
                x="step t (first problem)", y="‖w‖", log="x",
            ),
            "toward the largest margin": at_least(
                cosines, 0.999, why="the angle falls like one over the norm: 5000 steps reach 2°"
            ),
            "IRLS tells": at_least(told, 1.0, why="Booleans"),
        }
    )


@experiment(
    reaches={"accuracy": at_least_goal(0.975), "difference_from_sklearn": at_most_goal(1e-6)},
    floor={"accuracy": at_least_goal(0.96), "difference_from_sklearn": at_most_goal(1e-6)},
    source="Wolberg, Street and Mangasarian (1995): 97.5 % by repeated 10-fold cross-validation",
)
def breast_cancer(run: Run, *, C: Annotated[float, Range(1e-4, 1e4)] = 1.0) -> None:
    """Diagnoses breast cancer from 30 features of cell nuclei, cross-validated."""
    data: Any = load_breast_cancer()
    X, y = data.data, data.target
    folds, repeats = (10, 5) if run.full else (5, 1)
    splits = RepeatedStratifiedKFold(
        n_splits=folds, n_repeats=repeats, random_state=int(run.seed)
    ).split(X, y)
    chances, truths, gaps = [], [], []
    for train, test in splits:
        scaler = StandardScaler().fit(X[train])
        seen, unseen = scaler.transform(X[train]), scaler.transform(X[test])
        model = IRLS(l2=1 / (C * len(train))).fit(seen, y[train])
        theirs = LogisticRegression(C=C, tol=1e-10, solver="newton-cholesky").fit(seen, y[train])
        chances.append(model.predict_proba(unseen)[:, 1])
        truths.append(y[test])
        gaps.append(np.abs(chances[-1] - theirs.predict_proba(unseen)[:, 1]).max())
    chance, truth = np.concatenate(chances), np.concatenate(truths)
    run.record(accuracy=np.mean((chance >= 0.5) == truth), difference_from_sklearn=max(gaps))

    happened, said = calibration_curve(truth, chance, n_bins=10)
    curve = Series("share of benign", said, happened)
    ideal = Series("ideal", [0, 1], [0, 1], role="predicted")
    run.figure("reliability", figures.draw(Picture((curve, ideal), "predicted chance", "share")))
    scaled, price = StandardScaler().fit_transform(X), 1 / (C * len(X))
    model = IRLS(l2=price).fit(scaled, y)
    run.keep(model)
    bars = Series("weight", data.feature_names.tolist(), model.coef_[0], style="bars")
    run.figure("coefficients", figures.draw(Picture((bars,), "", "weight for benign")))
    inputs = np.column_stack([scaled, np.ones(len(X))])  # here the bias has its price, too
    newton = np.array(IRLS(l2=price, fit_intercept=False).fit(inputs, y).losses_)
    rows = torch.from_numpy(np.where(y, 1.0, -1.0)[:, None] * inputs)
    path = _descend(rows[None], 1000, price)[:, 0]
    descent = F.softplus(-path @ rows.T).mean(dim=1) + price / 2 * path.square().sum(dim=1)
    least, steps = newton.min() - 1e-16, np.arange(1, 1001)
    first = Series("IRLS", steps[: len(newton) - 1], newton[1:] - least, style="line")
    second = Series("gradient descent", steps, descent - least, role="other")
    run.figure("race", figures.draw(Picture((first, second), "step", "loss above least", "xy")))


def _scores(seed: Seed, points: int, width: float) -> Tensor:
    """Draw scores within +-width, sorted, with both ends and 0 among them."""
    drawn = width * (2 * torch.rand(points - 3, generator=seed.torch(), dtype=torch.float64) - 1)
    return torch.cat([drawn, torch.tensor([-width, 0.0, width])]).sort().values


def _with_derivatives(function: Any, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Give a function of single numbers with its first and second derivative, by autograd."""
    z = z.clone().requires_grad_()
    value = function(z)
    (slope,) = torch.autograd.grad(value.sum(), z, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), z)
    return value.detach(), slope.detach(), bend


def _naive_loss(y: Tensor, z: Tensor) -> Tensor:
    """Compute the first formula of the loss as it is printed."""
    s = 1 / (1 + (-z).exp())
    return -y * s.log() - (1 - y) * (1 - s).log()


def _noisy_labels(seed: Seed, points: int, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw Gaussian points, labels 0 and 1 with log-odds w.x - 1, and w."""
    rng = seed.torch()
    X = torch.randn(points, dim, generator=rng, dtype=torch.float64)
    w = torch.randn(dim, generator=rng, dtype=torch.float64)
    return X, (X @ w - 1).sigmoid().bernoulli(generator=rng), w


def _descend(rows: Tensor, steps: int, l2: float) -> Tensor:
    """Descend by steps 1/L from 0, on problems (P, s, d) of rows ±x; give all (steps, P, d)."""
    s = rows.shape[1]
    rate = 1 / (torch.linalg.matrix_norm(rows, 2) ** 2 / 4 + s * l2)[:, None, None]
    away, pull, kept = -rows, (rate * rows.mT).contiguous(), 1 - rate * s * l2
    w, path = torch.zeros_like(rows[:, :1].mT), []
    for _ in range(steps):
        w = torch.baddbmm(kept * w, pull, (away @ w).sigmoid_())
        path.append(w)
    return torch.stack(path)[..., 0]


def _descend_scaled(rows: Tensor, steps: int, l2: float) -> Tensor:
    r"""Descend by steps $100/(R^2\ell\sqrt t)$; give the last weights (P, d).

    The loss $\ell$ shrinks as fast as the gradient; logarithms keep their ratio from 0/0.
    """
    rate = 100 / rows.square().sum(dim=-1).amax(dim=-1)[:, None, None]
    w, price = torch.zeros_like(rows[:, :1].mT), rows.new_tensor(rows.shape[1] * l2).log()
    for t in range(1, steps + 1):
        margins = rows @ w  # (P, s, 1)
        logs = torch.where(margins > 30, -margins, F.softplus(-margins).log())
        paid = price + (w.square().sum(dim=1, keepdim=True) / 2).log()
        total = torch.logaddexp(logs.logsumexp(dim=1, keepdim=True), paid) + math.log(t) / 2
        pull = rows.mT @ (F.logsigmoid(-margins) - total).exp()
        w = w + rate * (pull - (price - total).exp() * w)
    return w[..., 0]

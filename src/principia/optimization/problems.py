r"""Test problems: functions to minimize of which every constant is known.

A rate is measured on a function whose smoothness, convexity and minimum are exact numbers, not
estimates: quadratics with any spectrum; a bowl with ripples that is not convex and still has a PL
constant; a quartic that is too flat at its minimum; the function on which the heavy ball runs in
circles; the smallest network, with a valley of minima; two wells, a saddle, and a logistic
regression on any data. All hold many points at once, one a row, so that many runs cost as much as
one. What they declare is measured here.

$$ \frac12(\theta-\theta^*)^\top Q\Lambda Q^\top(\theta-\theta^*), \quad x^2+3\sin^2x, \quad
\frac14x^4, \quad \frac12(uv-y)^2, \quad \frac14(x^2-1)^2, \quad
\frac12\Vert x\Vert^2-\frac12y^2+\frac14y^4 $$

$$ h(\theta) = \frac1s\sum_i\ell(y_i,\theta\cdot x_i)+\frac\lambda2\Vert\theta\Vert^2, \quad
L = \frac{\lambda_{\max}(X^\top X)}{4s}+\lambda $$

Symbols:
    $\theta^*, Q, \Lambda$: minimizer, eigenvectors and eigenvalues of `Quadratic`
    $x, y, u, v$: coordinates of `SineBowl`, `Quartic`, `ScalarNet`, `DoubleWell` and `Saddle`
    $\ell$: logistic loss of one of $s$ points; `LogisticRisk` has their inputs $X$ and labels $y_i$
    $\lambda$: its price of large weights, `l2`
    $L$: largest curvature, `smoothness`; the others are `pl`, `strong_convexity` and `minimum`

References:
    Karimi, Nutini and Schmidt (2016), Linear convergence of gradient and proximal-gradient methods
        under the Polyak-Łojasiewicz condition. ECML PKDD. arXiv:1608.04636
    Lessard, Recht and Packard (2016), Analysis and design of optimization algorithms via integral
        quadratic constraints. SIAM Journal on Optimization 26(1). arXiv:1408.3595
"""

__all__ = [
    "Quadratic", "log_spaced", "SineBowl", "Quartic", "Lessard", "ScalarNet", "DoubleWell",
    "Saddle", "LogisticRisk", "noisy_logistic", "noisy", "Problem",
]

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeVar, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.params import NonNegativeFloat, PositiveFloat, PositiveInt, checked, usage_error

P = TypeVar("P", bound="Problem")


class Problem(nn.Module, ABC):
    r"""A function to minimize, at B points at once: rows of `theta` are independent runs.

    The loss that is differentiated is the sum over the rows, so that every row has its own gradient
    and coordinate-wise optimizers run B times in one tensor.

    Shapes:
        theta: (B, D), float64; calling the problem returns the B values

    Example:
        >>> problem = Quadratic([1.0, 10.0]).at(torch.eye(2))
        >>> values = problem()
        >>> values.tolist(), problem.gradient(problem.theta).tolist()
        ([0.5, 5.0], [[1.0, 0.0], [0.0, 10.0]])
    """

    smoothness: float | None = None
    """$L$: the gradient changes by at most $L$ times the distance; None if nothing bounds it."""
    pl: float | None = None
    r"""$\mu$ of $\frac12\Vert\nabla h\Vert^2\ge\mu(h-\min h)$; None if there is none above 0."""
    strong_convexity: float | None = None
    """The smallest curvature anywhere; None if it is not above 0."""
    minimum: float | None = None
    """The smallest value; None if it is not known or there is none."""
    minimizer: Float[Tensor, " D"] | None = None
    """Where the smallest value is; None if it is not known or there are several."""

    def __init__(self, start: Shaped[Tensor, "B D"]) -> None:
        super().__init__()
        self.theta = nn.Parameter(start.to(torch.float64, copy=True))

    @abstractmethod
    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the value at any points."""

    def forward(self) -> Float[Tensor, " B"]:
        """Compute the value in every row of `theta`."""
        return self.value(self.theta)

    def gradient(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Compute the gradient at any points."""
        at = theta.detach().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(self.value(at).sum(), at)[0]

    def at(self: P, start: Shaped[Tensor, "B D"]) -> P:
        """Give the same problem with other points in `theta`; data and generators are shared."""
        if start.shape[1] != self.theta.shape[1]:
            domain = f"of shape (B, {self.theta.shape[1]})"
            raise usage_error(type(self).__name__, "start", domain, tuple(start.shape))
        twin = copy.copy(self)
        twin._parameters = {}  # a shallow copy shares it
        twin.theta = nn.Parameter(start.to(torch.float64, copy=True))
        return twin


@final
class Quadratic(Problem):
    r"""Measures $\frac12(\theta-\theta^*)^\top Q\Lambda Q^\top(\theta-\theta^*)$.

    Args:
        eigenvalues: The diagonal of $\Lambda$, of any sign; below 0 there is no minimum.
        rotation: $Q$, orthogonal, with eigenvectors as columns; by default the axes.
        minimizer: $\theta^*$: one number for all coordinates, or D of them.

    Example:
        >>> bowl = Quadratic([1.0, 10.0]).at(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        >>> values = bowl()
        >>> values.tolist()
        [0.5, 5.0]
    """

    eigenvalues: Tensor
    rotation: Tensor | None
    center: Tensor

    @checked
    def __init__(
        self, eigenvalues: Sequence[float] | Shaped[Tensor, " D"], *,
        rotation: Float[Tensor, "D D"] | None = None,
        minimizer: float | Shaped[Tensor, " D"] = 0.0,
    ) -> None:
        lam = torch.as_tensor(eigenvalues, dtype=torch.float64)
        if lam.ndim != 1 or not len(lam) or not lam.isfinite().all():
            raise usage_error("Quadratic", "eigenvalues", "a list of finite numbers", eigenvalues)
        super().__init__(torch.ones(1, len(lam)))
        self.register_buffer("eigenvalues", lam)
        self.register_buffer("rotation", rotation)
        center = torch.as_tensor(minimizer, dtype=torch.float64).expand(len(lam)).clone()
        self.register_buffer("center", center)
        if rotation is not None:
            excess = rotation.mT @ rotation - torch.eye(len(lam), dtype=rotation.dtype)
            if excess.abs().max() > 1e-9:
                hint = "Take the first factor of torch.linalg.qr."
                raise usage_error("Quadratic", "rotation", "an orthogonal matrix", rotation, hint)
        self.smoothness = float(lam.abs().max())
        if float(lam.min()) >= 0:
            self.minimum = 0.0
            self.pl = float(lam[lam > 0].min()) if bool((lam > 0).any()) else None
        if float(lam.min()) > 0:
            self.strong_convexity, self.minimizer = float(lam.min()), center

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute half the weighted squares of the coordinates along the eigenvectors."""
        z = theta - self.center
        z = z if self.rotation is None else z @ self.rotation
        return (self.eigenvalues * z * z).sum(dim=-1) / 2


@checked
def log_spaced(D: PositiveInt = 400, low: PositiveFloat = 1e-8) -> Quadratic:
    r"""Builds the quadratic on which gradient descent is exactly $O(1/t)$, Nesterov $O(1/t^2)$.

    Its eigenvalues are evenly spaced on a logarithmic axis from `low` to 1, and the start has the
    same share of its length along each: however many steps, some direction is just being learned.

    Example:
        >>> log_spaced(3, low=0.01).eigenvalues
        tensor([0.0100, 0.1000, 1.0000], dtype=torch.float64)
    """
    problem = Quadratic(torch.logspace(math.log10(low), 0, D, dtype=torch.float64))
    return problem.at(torch.full((1, D), D**-0.5))


@final
class SineBowl(Problem):
    r"""Measures $x^2+3\sin^2x$: not convex, but with a PL constant above 0.

    Example:
        >>> bowl = SineBowl().at(torch.tensor([[0.0], [math.pi]], dtype=torch.float64))
        >>> values = bowl()
        >>> values.tolist()
        [0.0, 9.869604401089358]
    """

    smoothness = 8.0  # the second derivative is 2 + 6 cos 2x
    pl = 0.1755309  # the infimum, rounded down; it is attained at |x| = 2.2017
    minimum = 0.0

    def __init__(self) -> None:
        super().__init__(torch.ones(1, 1))
        self.minimizer = torch.zeros(1, dtype=torch.float64)

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the bowl with its ripples."""
        return (theta**2 + 3 * theta.sin() ** 2).sum(dim=-1)


@final
class Quartic(Problem):
    r"""Measures $x^4/4$: strictly convex, not strongly, and without a PL constant.

    Example:
        >>> quartic = Quartic().at(torch.tensor([[2.0]]))
        >>> value = quartic()
        >>> value.item()
        4.0
    """

    minimum = 0.0

    def __init__(self) -> None:
        super().__init__(torch.ones(1, 1))
        self.minimizer = torch.zeros(1, dtype=torch.float64)

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute a quarter of the fourth power."""
        return (theta**4).sum(dim=-1) / 4


@final
class Lessard(Problem):
    r"""Measures a convex function of slope $25x$, then $x+24$ from 1, then $25x-24$ from 2.

    Smooth and strongly convex, but not quadratic: the tuned heavy ball runs in circles on it.

    Example:
        >>> lessard = Lessard().at(torch.tensor([[0.5], [1.5], [3.0]]))
        >>> values = lessard()
        >>> lessard.gradient(lessard.theta).flatten().tolist()
        [12.5, 25.5, 51.0]
    """

    smoothness, pl, strong_convexity, minimum = 25.0, 1.0, 1.0, 0.0

    def __init__(self) -> None:
        super().__init__(torch.full((1, 1), 3.3))
        self.minimizer = torch.zeros(1, dtype=torch.float64)

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the three parabolas, joined so that value and slope agree."""
        x = theta
        middle, right = x**2 / 2 + 24 * x - 12, 12.5 * x**2 - 24 * x + 36
        return torch.where(x < 1, 12.5 * x**2, torch.where(x < 2, middle, right)).sum(dim=-1)


@final
class ScalarNet(Problem):
    r"""Measures $\frac12(uv-y)^2$, $y=1$: the smallest network with a valley of minima.

    At a minimum $uv=1$ the largest curvature is $u^2+v^2\ge2$.

    Args:
        label_noise: Standard deviation of the label $y$, drawn anew at every call.
        rng: Generator of the labels; needed with label noise.

    Example:
        >>> net = ScalarNet().at(torch.tensor([[3.0, 1.0]]))
        >>> value = net()
        >>> value.item()
        2.0
    """

    minimum = 0.0

    @checked
    def __init__(
        self, *, label_noise: NonNegativeFloat = 0.0, rng: torch.Generator | None = None
    ) -> None:
        super().__init__(torch.full((1, 2), 0.5))
        if label_noise and rng is None:
            raise usage_error("ScalarNet", "rng", "a generator with label noise", rng)
        self.label_noise, self.rng = label_noise, rng

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the squared error of the mean label."""
        return (theta.prod(dim=-1) - 1) ** 2 / 2

    def forward(self) -> Float[Tensor, " B"]:
        """Compute the squared error of a noisy label in every row."""
        if not self.label_noise:
            return self.value(self.theta)
        noise = torch.randn(len(self.theta), generator=self.rng, dtype=self.theta.dtype)
        return (self.theta.prod(dim=-1) - 1 - self.label_noise * noise) ** 2 / 2


@final
class DoubleWell(Problem):
    r"""Measures $\frac14(x^2-1)^2$: minima at -1 and 1, a barrier of 1/4 between them.

    Example:
        >>> wells = DoubleWell().at(torch.tensor([[0.0], [1.0]]))
        >>> values = wells()
        >>> values.tolist()
        [0.25, 0.0]
    """

    minimum = 0.0

    def __init__(self) -> None:
        super().__init__(torch.full((1, 1), 0.5))

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the height in the two wells."""
        return ((theta**2 - 1) ** 2).sum(dim=-1) / 4


@final
class Saddle(Problem):
    r"""Measures $\frac12\Vert x\Vert^2-\frac12y^2+\frac14y^4$; y is the last coordinate.

    A saddle at 0 between minima at $y=\pm1$, which GD from $y=0$ never finds.

    Example:
        >>> saddle = Saddle(2).at(torch.tensor([[0.0, 0.0], [0.0, 1.0]]))
        >>> values = saddle()
        >>> values.tolist()
        [0.0, -0.25]
    """

    minimum = -0.25

    @checked
    def __init__(self, D: PositiveInt = 2) -> None:
        super().__init__(torch.ones(1, D))

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the bowl in x with the double well in y."""
        y = theta[..., -1]
        return (theta[..., :-1] ** 2).sum(dim=-1) / 2 - y**2 / 2 + y**4 / 4


@final
class LogisticRisk(Problem):
    r"""Measures $\frac1s\sum_i\ell(y_i,\theta\cdot x_i)+\frac{l2}2\Vert\theta\Vert^2$, logistic.

    It is convex, and $L=\lambda_{\max}(X^\top X)/4s+l2$. With a price the minimum is found by
    Newton's method (`IRLS`).

    Args:
        X: Inputs (s, D).
        y: Labels 0 and 1.
        l2: Price of the squared weights.

    Example:
        >>> risk = LogisticRisk(torch.eye(2), torch.tensor([0, 1]))
        >>> value = risk()
        >>> value.item()
        0.6931471805599453
    """

    signed: Tensor

    @checked
    def __init__(
        self, X: Shaped[Tensor, "s D"], y: Shaped[Tensor, " s"], *, l2: NonNegativeFloat = 0.0
    ) -> None:
        super().__init__(torch.zeros(1, X.shape[1]))
        if not ((y == 0) | (y == 1)).all():
            raise usage_error("LogisticRisk", "y", "an array of 0 and 1 only", y)
        X = X.to(torch.float64)
        self.register_buffer("signed", (2 * y.to(X) - 1)[:, None] * X)  # rows turned toward class 1
        self.l2 = l2
        self.smoothness = float(torch.linalg.matrix_norm(X, ord=2)) ** 2 / (4 * len(X)) + l2
        if l2:
            from principia.regression.logistic import IRLS  # an estimator: it loads scikit-learn

            self.strong_convexity = self.pl = l2
            fitted = IRLS(l2=l2, fit_intercept=False, tol=1e-12).fit(X.numpy(), y.numpy())
            self.minimizer = torch.from_numpy(fitted.coef_).flatten()
            self.minimum = float(self.value(self.minimizer))

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the mean loss of the samples plus the price of the weights."""
        loss = -F.logsigmoid(theta @ self.signed.mT).mean(dim=-1)
        return loss + self.l2 / 2 * (theta**2).sum(dim=-1) if self.l2 else loss


@checked
def noisy_logistic(
    rng: torch.Generator, *, samples: PositiveInt = 100, dim: PositiveInt = 8,
    l2: NonNegativeFloat = 0.1
) -> LogisticRisk:
    r"""Draws a logistic regression with normal inputs, whose labels no line separates.

    Example:
        >>> risk = noisy_logistic(torch.Generator().manual_seed(0), dim=3)
        >>> risk.theta.shape, risk.strong_convexity
        (torch.Size([1, 3]), 0.1)
    """
    X = torch.randn(samples, dim, generator=rng, dtype=torch.float64)
    noise = torch.randn(samples, generator=rng, dtype=torch.float64)
    return LogisticRisk(X, (X[:, 0] + noise > 0).long(), l2=l2)


@checked
def noisy(problem: P, sigma: NonNegativeFloat, rng: torch.Generator) -> P:
    r"""Gives the problem with $N(0,\sigma^2I)$ added to its gradient in every backward pass.

    Values, and `problem.gradient`, stay as they are.

    Example:
        >>> bowl = noisy(Quadratic([1.0]), 0.1, torch.Generator().manual_seed(0))
        >>> bowl().sum().backward()
        >>> bowl.theta.grad
        tensor([[1.1541]], dtype=torch.float64)
    """
    twin = problem.at(problem.theta)

    def add_noise(gradient: Tensor) -> Tensor:
        noise = torch.randn(gradient.shape, generator=rng, dtype=gradient.dtype)
        return gradient + sigma * noise

    twin.theta.register_hook(add_noise)
    return twin

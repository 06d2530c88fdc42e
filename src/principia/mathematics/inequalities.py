r"""Inequalities: how far a mean, a variance or convexity alone can tell what will happen.

Markov's inequality needs one mean: what is large on average cannot be large often. Everything else
about tails is Markov with another $\varphi$. The square of the distance from the mean gives
Chebyshev's inequality, and centering is not optional in it; a shifted square gives Cantelli's for
one side, and it is not half of Chebyshev's; the best exponential gives Chernoff's, from which
follow those of Hoeffding and Bernstein for means of bounded variables. Each is attained or nearly
so by some law, and loose for most. Cauchy and Schwarz bound products, and what they lose is the
squared sine of an angle; Jensen bounds means of a convex function, and what he loses is half the
curvature times the variance, as long as the variance is small.

$$ P(X\ge\epsilon)\le\frac{E[\varphi(X)]}{\varphi(\epsilon)}, \quad
P(|X-\mu|\ge\epsilon)\le\frac{\sigma^2}{\epsilon^2}, \quad
P(X-\mu\ge\epsilon)\le\frac{\sigma^2}{\sigma^2+\epsilon^2} $$

$$ P(X\ge\epsilon)\le\inf_{t\ge0}e^{\psi(t)-t\epsilon}, \quad
P(\bar X-\mu\ge\epsilon)\le e^{-2n\epsilon^2/r^2}, \quad
P(\bar X-\mu\ge\epsilon)\le\exp\Big(-\frac{n\epsilon^2}{2(\sigma^2+M\epsilon/3)}\Big) $$

$$ \langle x,y\rangle^2\le\langle x,x\rangle\langle y,y\rangle, \quad
f\Big(\sum_i\lambda_ix_i\Big)\le\sum_i\lambda_if(x_i), \quad
E[f(X)]-f(E[X])\approx\frac12f''(\mu)\sigma^2 $$

Symbols:
    $\epsilon$: threshold, `eps`; the variable may reach it exactly
    $\varphi$: a function $\ge0$ that never decreases, with $\varphi(\epsilon)>0$: `phi_eps`
    $\mu, \sigma^2$: mean and variance, `var`
    $\psi$: logarithm of the moment generating function, $\log E[e^{tX}]$: `log_mgf`
    $\bar X, n$: mean of $n$ independent variables
    $r, M$: width of the interval they lie in, `range`, and most that one exceeds its mean, `bound`
    $f, \lambda_i$: a convex function, and `weights` that sum to 1, in `jensen_gap`

References:
    Chebyshev (1867), Des valeurs moyennes. Journal de Mathématiques Pures et Appliquées 12.
    Jensen (1906), Sur les fonctions convexes et les inégalités entre les valeurs moyennes. Acta
        Mathematica 30. doi:10.1007/BF02418571
    Chernoff (1952), A measure of asymptotic efficiency for tests of a hypothesis based on the sum
        of observations. Annals of Mathematical Statistics 23(4). doi:10.1214/aoms/1177729330
    Bennett (1962), Probability inequalities for the sum of independent random variables. Journal
        of the American Statistical Association 57(297). doi:10.1080/01621459.1962.10482149
    Hoeffding (1963), Probability inequalities for sums of bounded random variables. Journal of the
        American Statistical Association 58(301). doi:10.1080/01621459.1963.10500830
    Steele (2004), The Cauchy-Schwarz master class. Cambridge University Press.
        doi:10.1017/CBO9780511817106
"""

__all__ = [
    "markov_bound", "chebyshev_bound", "cantelli_bound", "chernoff_bound", "hoeffding_bound",
    "bernstein_bound", "cauchy_schwarz_gap", "jensen_gap",
]

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.func import vmap

from principia.lab.params import Range, usage_error

Function = Callable[[Tensor], Tensor]
Number = Shaped[Tensor, "..."] | float
ANY, NONNEGATIVE, POSITIVE = Range(), Range(0), Range(0, open="low")
GRID, ZOOMS = 65, 6  # each zoom keeps 2 of 64 cells: log t to 60 / 32^6 = 6e-8 in the end


def markov_bound(mean_phi: Number, phi_eps: Number) -> Float[Tensor, "..."]:
    r"""Bounds $P(X\ge\epsilon)$ by $E[\varphi(X)]/\varphi(\epsilon)$; above 1 it says nothing.

    Args:
        mean_phi: $E[\varphi(X)]$ of a function that is $\ge0$ and never decreases.
        phi_eps: $\varphi(\epsilon)$, positive.

    Example:
        >>> markov_bound(2.0, torch.tensor([1.0, 4.0, 10.0]))  # mean 2, three thresholds
        tensor([2.0000, 0.5000, 0.2000])
    """
    mean = _numbers("markov_bound", "mean_phi", mean_phi, NONNEGATIVE)
    hint = "Raise eps, or take a phi that is positive there."
    return mean / _numbers("markov_bound", "phi_eps", phi_eps, POSITIVE, hint)


def _numbers(owner: str, name: str, value: Number, domain: Range, hint: str = "") -> Tensor:
    """Take numbers as a tensor of floats, all of them in a domain that ends at infinity."""
    numbers = value if isinstance(value, Tensor) else torch.tensor(value, dtype=torch.float64)
    numbers = numbers if numbers.is_floating_point() else numbers.double()
    inside = numbers > domain.low if domain.open else numbers >= domain.low
    if not bool((inside & numbers.isfinite()).all()):
        raise usage_error(owner, name, domain.text, value, hint)
    return numbers


def chebyshev_bound(var: Number, eps: Number) -> Float[Tensor, "..."]:
    r"""Bounds $P(|X-\mu|\ge\epsilon)$ by $\sigma^2/\epsilon^2$, whatever the law.

    Example:
        >>> chebyshev_bound(1.0, torch.tensor([1.0, 2.0, 10.0]))
        tensor([1.0000, 0.2500, 0.0100])
    """
    variance = _numbers("chebyshev_bound", "var", var, NONNEGATIVE)
    return variance / _numbers("chebyshev_bound", "eps", eps, POSITIVE) ** 2


def cantelli_bound(var: Number, eps: Number) -> Float[Tensor, "..."]:
    r"""Bounds one side, $P(X-\mu\ge\epsilon)$, by $\sigma^2/(\sigma^2+\epsilon^2)$.

    Example:
        >>> cantelli_bound(1.0, torch.tensor([1.0, 2.0, 3.0]))
        tensor([0.5000, 0.2000, 0.1000])
    """
    variance = _numbers("cantelli_bound", "var", var, NONNEGATIVE)
    return variance / (variance + _numbers("cantelli_bound", "eps", eps, POSITIVE) ** 2)


def chernoff_bound(log_mgf: Function, eps: Number) -> Float[Tensor, "..."]:
    r"""Bounds $P(X\ge\epsilon)$ by the least $e^{\psi(t)-t\epsilon}$ over $t\ge0$, all eps at once.

    The exponent is convex in t, so that ever finer grids around the best of log t find its minimum.
    Any t gives a true bound: a search that is not exact makes it no less true.

    Args:
        log_mgf: $\psi(t)=\log E[e^{tX}]$, entry by entry; infinite or NaN where there is no mean.
        eps: Thresholds, any numbers; up to the mean of X the bound is 1.

    Example:
        >>> chernoff_bound(lambda t: t**2 / 2, torch.tensor([-1.0, 1.0, 2.0]))  # a standard normal
        tensor([1.0000, 0.6065, 0.1353])
    """
    thresholds = _numbers("chernoff_bound", "eps", eps, ANY)[..., None]
    low, high = torch.full_like(thresholds, -30), torch.full_like(thresholds, 30)
    steps = torch.linspace(0, 1, GRID).to(thresholds)
    exponents = thresholds
    for _ in range(ZOOMS):
        logs = low + (high - low) * steps  # (..., GRID)
        t = logs.exp()
        exponents = torch.nan_to_num(log_mgf(t) - t * thresholds, nan=math.inf)
        best = exponents.argmin(dim=-1, keepdim=True)
        low, high = (logs.gather(-1, (best + by).clamp(0, GRID - 1)) for by in (-1, 1))
    return exponents.amin(dim=-1).clamp(max=0).exp()


def hoeffding_bound(n: Number, eps: Number, range: Number = 1.0) -> Float[Tensor, "..."]:
    r"""Bounds $P(\bar X-\mu\ge\epsilon)$ for a mean of n independent variables by their range.

    Both sides together, $P(|\bar X-\mu|\ge\epsilon)$, have at most twice that.

    Args:
        n: How many variables.
        eps: Deviation of their mean.
        range: Width $b-a$ of the interval in which each of them lies.

    Example:
        >>> hoeffding_bound(100, torch.tensor([0.05, 0.1]))
        tensor([0.6065, 0.1353])
    """
    count, deviation, width = (
        _numbers("hoeffding_bound", name, value, POSITIVE)
        for name, value in (("n", n), ("eps", eps), ("range", range))
    )
    return (-2 * count * (deviation / width) ** 2).exp()


def bernstein_bound(
    n: Number, eps: Number, var: Number, bound: Number = 1.0
) -> Float[Tensor, "..."]:
    r"""Bounds $P(\bar X-\mu\ge\epsilon)$ for a mean of n independent variables by their variance.

    Args:
        n: How many variables.
        eps: Deviation of their mean.
        var: Mean of their variances.
        bound: Most that one of them exceeds its own mean.

    Example:
        >>> bernstein_bound(100, torch.tensor([0.05, 0.1]), 0.05)  # by the range: 0.6, 0.1
        tensor([0.1534, 0.0025])
    """
    count, deviation, most = (
        _numbers("bernstein_bound", name, value, POSITIVE)
        for name, value in (("n", n), ("eps", eps), ("bound", bound))
    )
    variance = _numbers("bernstein_bound", "var", var, NONNEGATIVE)
    return (-count * deviation**2 / (2 * (variance + most * deviation / 3))).exp()


def cauchy_schwarz_gap(
    x: Float[Tensor, "*X n"], y: Float[Tensor, "*Y n"]
) -> Float[Tensor, "*B"]:
    r"""Measures $\Vert x\Vert^2\Vert y\Vert^2-\langle x,y\rangle^2$ along the last axis.

    For expectations, $E[X^2]E[Y^2]-E[XY]^2$, multiply the values by the roots of their
    probabilities.

    Example:
        >>> cauchy_schwarz_gap(torch.tensor([1.0, 2.0]), torch.tensor([[3.0, 1.0], [2.0, 4.0]]))
        tensor([25.,  0.])
    """
    return (x * x).sum(dim=-1) * (y * y).sum(dim=-1) - (x * y).sum(dim=-1) ** 2


def jensen_gap(
    f: Function, x: Float[Tensor, "..."], weights: Float[Tensor, "*B n"]
) -> Float[Tensor, "*B"]:
    r"""Measures $\sum_i\lambda_if(x_i)-f(\sum_i\lambda_ix_i)$, which no convex f makes negative.

    Args:
        f: A number from one point, batched by `torch.func.vmap`.
        x: Points $x_i$, in the shape of the weights followed by that of one point.
        weights: $\lambda_i\ge0$, with sum 1 along the last axis.

    Example:
        >>> jensen_gap(torch.square, torch.tensor([-1.0, 1.0]), torch.tensor([0.5, 0.5]))
        tensor(1.)
    """
    axes = weights.ndim
    if x.shape[:axes] != weights.shape:
        domain = f"points in the shape of the weights, {tuple(weights.shape)}, and of one point"
        hint = "Weights that many sets share must be expanded."
        raise usage_error("jensen_gap", "x", domain, f"shape {tuple(x.shape)}", hint)
    sums = weights.sum(dim=-1)
    if not bool(((sums - 1).abs() <= 1e-6).all()) or not bool((weights >= 0).all()):
        raise usage_error(
            "jensen_gap", "weights", ">= 0 with sum 1 along the last axis",
            f"sums from {sums.min().item():.7g} to {sums.max().item():.7g}, "
            f"smallest entry {weights.min().item():.7g}", "Divide what is >= 0 by its sum.",
        )
    point = x.shape[axes:]
    center = (weights.reshape(*weights.shape, *[1] * len(point)) * x).sum(dim=axes - 1)
    values = vmap(f)(x.reshape(-1, *point)).reshape(weights.shape)
    return (weights * values).sum(dim=-1) - vmap(f)(center.reshape(-1, *point)).reshape(sums.shape)

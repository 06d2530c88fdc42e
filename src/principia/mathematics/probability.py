r"""Probability: two rules for tables, three for densities, and what a sample knows of its law.

Summing a variable out and multiplying a conditional by what it is conditioned on are the only rules
of a joint table; Bayes' rule is both at once, and turns a model of how classes make data into a
belief about the class. A density is the slope of the distribution function: stretching a variable
by $a$ divides it by $|a|$, not by $a$, and adding independent variables convolves it. A sample is a
law itself, with mass $\frac1n$ on each of its points; its distribution function is within
$\sqrt{\ln(2/\delta)/2n}$ of the true one everywhere at once, with chance $1-\delta$, whatever the
law. And a gradient of an expectation is an expectation: of the score times the integrand.

$$ P(x) = \sum_yP(x,y), \quad P(x,y) = P(y\mid x)P(x), \quad
P(c\mid x) = \frac{P(x\mid c)P(c)}{\sum_kP(x\mid k)P(k)} $$

$$ \frac d{dt}P(X\le t) = f_X(t), \quad
f_{aY+b}(z) = \frac1{|a|}f_Y\Big(\frac{z-b}a\Big), \quad
f_{X+Y}(z) = \int f_X(t)f_Y(z-t)\,dt $$

$$ \hat F_n(t) = \frac1n\sum_{i=1}^n1\{x_i\le t\}, \quad
P\Big(\sup_t|\hat F_n(t)-F(t)|>\epsilon\Big)\le2e^{-2n\epsilon^2}, \quad
\nabla_\theta E_{p_\theta}[f] = E_{p_\theta}[f\,\nabla_\theta\log p_\theta] $$

Symbols:
    $P(x,y)$: joint probabilities, `JointTable`, with `marginal` $P(x)$, `conditional` $P(y\mid x)$
    $P(c\mid x)$: posterior of class $c$, `bayes`, from prior $P(c)$ and likelihood $P(x\mid c)$
    $f_X, f_Y$: densities of $X$ and $Y$; for their sum, on a grid, `density_of_sum`
    $a, b$: stretch and shift of `affine`
    $\hat F_n, x_i$: `EmpiricalDistribution.cdf` and the atoms of its $n$ `samples`
    $\nabla_\theta\log p_\theta$: score of a law with parameters $\theta$, in `score_gradient`

References:
    Bayes (1763), An essay towards solving a problem in the doctrine of chances. Philosophical
        Transactions 53. doi:10.1098/rstl.1763.0053
    Kolmogorov (1933), Grundbegriffe der Wahrscheinlichkeitsrechnung. Springer.
        doi:10.1007/978-3-642-49888-6
    Dawid (1979), Conditional independence in statistical theory. Journal of the Royal Statistical
        Society B 41(1). doi:10.1111/j.2517-6161.1979.tb01052.x
    Massart (1990), The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality. Annals of
        Probability 18(3). doi:10.1214/aop/1176990746
    Williams (1992), Simple statistical gradient-following algorithms for connectionist
        reinforcement learning. Machine Learning 8. doi:10.1007/BF00992696
    Domingos and Pazzani (1997), On the optimality of the simple Bayesian classifier under zero-one
        loss. Machine Learning 29. doi:10.1023/A:1007413511361
"""

__all__ = [
    "JointTable", "bayes", "EmpiricalDistribution", "affine", "density_of_sum", "score_gradient",
    "dkw_radius",
]

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float, Int, Num, Shaped
from scipy.signal import fftconvolve
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.transformed_distribution import TransformedDistribution
from torch.distributions.transforms import AffineTransform
from torch.func import grad, vmap
from torch.nn import functional as F

from principia.lab.params import PositiveFloat, PositiveInt, Range, UsageError, checked, usage_error

Baseline = Literal["none", "leave-one-out"]
RARE = 1e-6  # chance with which a bound that holds with high probability may fail
DKW = "Dvoretzky, Kiefer, Wolfowitz and Massart: a larger distance has a chance of 1e-6"


@final
class JointTable:
    r"""Holds the joint probabilities of discrete variables, one axis for each.

    Args:
        probs: Probabilities, axis k for variable k; with `normalize`, counts or weights.
        names: The variables, in the order of the axes.
        normalize: Whether to divide by the sum.

    Example:
        >>> table = JointTable(torch.tensor([[0.1, 0.3], [0.2, 0.4]]), ("rain", "wind"))
        >>> table.marginal("wind").probs, table.conditional("rain", given="wind")[:, 0]
        (tensor([0.3000, 0.7000]), tensor([0.3333, 0.6667]))
        >>> table.condition(rain=0).probs
        tensor([0.2500, 0.7500])
    """

    @checked
    def __init__(
        self, probs: Num[Tensor, "..."], names: tuple[str, ...], *, normalize: bool = False
    ) -> None:
        probs = probs if probs.is_floating_point() else probs.double()
        if len(set(names)) != len(names) or len(names) != probs.ndim:
            domain = f"{probs.ndim} different names, one for each axis of probs"
            raise usage_error("JointTable", "names", domain, names)
        total, negative = probs.sum().item(), bool((probs < 0).any())
        right = 0 < total < math.inf if normalize else abs(total - 1) <= 1e-6
        if negative or not right:
            domain = ">= 0 and have a finite sum > 0" if normalize else ">= 0 and sum to 1"
            got = f"an entry {probs.min().item():.7g}" if negative else f"sum {total:.7g}"
            hint = "" if normalize or negative else " Pass normalize=True."
            raise UsageError(f"JointTable: probs must be {domain}; got {got}.{hint}")
        self.probs, self.names = probs / probs.sum(), names

    def marginal(self, *names: str) -> "JointTable":
        """Sum out all variables but these, which become the axes in this order."""
        axes = [self._axis(name) for name in names]
        if len(set(axes)) != len(axes) or not axes:
            raise usage_error("JointTable", "names", "one or more different variables", names)
        return JointTable(torch.einsum(self.probs, list(range(self.probs.ndim)), axes), names)

    def conditional(self, *names: str, given: str | Sequence[str]) -> Float[Tensor, "..."]:
        """Give P(names | given), axes in this order; 0 where what is given has probability 0."""
        given = (given,) if isinstance(given, str) else tuple(given)
        joint = self.marginal(*names, *given).probs
        total = joint.sum(dim=tuple(range(len(names))))
        return joint / torch.where(total > 0, total, 1)

    def condition(self, **values: int) -> "JointTable":
        """Give the joint probabilities of all other variables once these are known."""
        where: list[Any] = [slice(None)] * self.probs.ndim
        for name, value in values.items():
            axis = self._axis(name)
            if value not in range(self.probs.shape[axis]):
                domain = f"an integer in [0, {self.probs.shape[axis] - 1}]"
                raise usage_error("JointTable", name, domain, value)
            where[axis] = int(value)
        rest = tuple(name for name in self.names if name not in values)
        if not rest:
            raise usage_error("JointTable", "values", "of some variables, not of all", values)
        part = self.probs[tuple(where)]
        if not part.sum() > 0:
            hint = "Nothing follows from what cannot happen."
            raise usage_error(
                "JointTable", "values", "an event of positive probability", values, hint
            )
        return JointTable(part, rest, normalize=True)

    @checked
    def sample(self, n: PositiveInt, rng: torch.Generator | None = None) -> Int[Tensor, "n axes"]:
        """Draw n independent outcomes, one a row, a column for each variable."""
        flat = torch.multinomial(self.probs.flatten(), n, replacement=True, generator=rng)
        return torch.stack(torch.unravel_index(flat, self.probs.shape), dim=-1)

    def _axis(self, name: str) -> int:
        if name not in self.names:
            raise usage_error("JointTable", "name", f"one of {', '.join(self.names)}", name)
        return self.names.index(name)


def mutual_nats(table: JointTable, a: str, b: str, *given: str) -> float:
    """Measure the mutual information of two variables, in nats, averaged over what is given.

    Example:
        >>> table = JointTable(torch.eye(2)[..., None] / 2, ("a", "b", "c"))
        >>> round(mutual_nats(table, "a", "b", "c"), 4)  # each tells all of the other: log 2
        0.6931
    """
    both = table.conditional(a, b, given=given)
    product = table.conditional(a, given=given)[:, None] * table.conditional(b, given=given)
    surprise = torch.xlogy(both, both) - torch.xlogy(both, product)
    return float((table.marginal(*given).probs * surprise).sum())


def bayes(
    log_prior: Float[Tensor, " K"], log_likelihood: Float[Tensor, "*batch classes"]
) -> Float[Tensor, "*batch classes"]:
    r"""Turns log prior and log likelihoods into log posteriors, without leaving the logarithm.

    Classes may as well be models, and what is seen a whole data set. The prior need not sum to 1.

    Example:
        >>> prior, likelihood = torch.tensor([0.01, 0.99]), torch.tensor([0.9, 0.1])  # ill, well
        >>> bayes(prior.log(), likelihood.log()).exp()  # after a positive test
        tensor([0.0833, 0.9167])
    """
    if log_likelihood.shape[-1:] != log_prior.shape:
        domain = f"of shape (..., {len(log_prior)}), a column for each entry of log_prior"
        raise usage_error("bayes", "log_likelihood", domain, tuple(log_likelihood.shape))
    joint = log_prior + log_likelihood
    if not (best := joint.amax(dim=-1)).isfinite().all():
        domain = "finite for some class of positive prior"
        hint = "What has probability 0 in every class leads to no posterior: smooth the model."
        raise usage_error("bayes", "log_likelihood", domain, float(best.detach().min()), hint)
    return F.log_softmax(joint, dim=-1)


@final
class EmpiricalDistribution(Distribution):
    r"""Puts mass 1/n on each of n observations; those that coincide add theirs.

    Args:
        samples: Observations (n, ...), one an entry of the first axis, each a number or a tensor.

    Example:
        >>> law = EmpiricalDistribution(torch.tensor([3, 1, 1, 2]))
        >>> law.cdf(torch.tensor([0, 1, 2.5])).tolist(), law.log_prob(torch.tensor(1)).exp().item()
        ([0.0, 0.5, 0.75], 0.5)
        >>> law.mean.item(), law.expectation(lambda x: x**2).item()
        (1.75, 3.75)
    """

    arg_constraints = {}  # type: ignore[assignment]

    def __init__(self, samples: Num[Tensor, "n ..."]) -> None:
        if not samples.ndim or not samples.numel() or bool(samples.isnan().any()):
            domain = "one or more observations without NaN, along the first axis"
            raise usage_error("EmpiricalDistribution", "samples", domain, samples)
        self.samples = samples
        self._numbers = samples if samples.is_floating_point() else samples.double()
        self._sorted = self._numbers.sort(dim=0).values
        super().__init__(event_shape=samples.shape[1:], validate_args=False)

    @property
    def support(self) -> Any:  # type: ignore[override]
        """All numbers: outside the atoms the probability is 0, which is no mistake."""
        return constraints.independent(constraints.real, len(self.event_shape))

    @property
    def mean(self) -> Float[Tensor, "..."]:
        """The mean of the observations."""
        return self._numbers.mean(dim=0)

    @property
    def variance(self) -> Float[Tensor, "..."]:
        """The variance of the law, entry by entry: squares divided by n, not n - 1."""
        return self._numbers.var(dim=0, correction=0)

    def expectation(self, fn: Callable[[Tensor], Tensor]) -> Float[Tensor, "..."]:
        """Average a function, which gets all observations at once and keeps the first axis."""
        return fn(self._numbers).mean(dim=0)

    def sample(
        self, sample_shape: Sequence[int] = (), rng: torch.Generator | None = None
    ) -> Num[Tensor, "..."]:
        """Draw observations with replacement: the bootstrap."""
        return self.samples[torch.randint(len(self.samples), tuple(sample_shape), generator=rng)]

    def cdf(self, value: Num[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
        """Count the share of observations up to each value."""
        if self.event_shape:
            domain = "numbers, of shape (n,), for a distribution function"
            raise usage_error("EmpiricalDistribution", "samples", domain, tuple(self.samples.shape))
        kind = torch.promote_types(value.dtype, self._sorted.dtype)
        atoms = self._sorted.to(kind)
        below = torch.searchsorted(atoms, value.to(kind).contiguous(), right=True)
        return below.to(self._sorted) / len(self.samples)

    def log_prob(self, value: Num[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Give the logarithm of the share of observations that equal each value."""
        self._validate_sample(value)
        points, n = value.reshape(-1, *self.event_shape), len(self.samples)
        kind = torch.promote_types(value.dtype, self.samples.dtype)
        both = torch.cat([self.samples.to(kind), points.to(kind)])
        group = torch.unique(both, dim=0, return_inverse=True)[1]
        counts = group[:n].bincount(minlength=len(both)).to(self._sorted)
        return (counts[group[n:]] / n).log().reshape(value.shape[: value.ndim - points.ndim + 1])


@checked
def dkw_radius(n: PositiveInt, delta: Annotated[float, Range(0, 1, open="low")]) -> float:
    r"""Bounds $\sup|\hat F_n-F|$ with chance $1-\delta$, by $\sqrt{\ln(2/\delta)/2n}$.

    Example:
        >>> round(dkw_radius(200, 0.05), 3)
        0.096
    """
    return math.sqrt(math.log(2 / delta) / (2 * n))


@checked
def affine(dist: Distribution, a: float, b: float = 0.0) -> TransformedDistribution:
    r"""Gives the law of $aY+b$, with all that torch's distributions can do.

    Args:
        dist: Law of $Y$.
        a: Stretch, any number but 0; a negative one turns the law around.
        b: Shift.

    Example:
        >>> Y = torch.distributions.Normal(1.0, 1.0)
        >>> affine(Y, -2.0, 3.0).log_prob(torch.tensor(1.0)).exp()  # N(1, 4)
        tensor(0.1995)
    """
    if a == 0:
        raise usage_error(
            "affine", "a", "a finite number other than 0", a, "A constant has no density."
        )
    return TransformedDistribution(dist, AffineTransform(b, a))


@checked
def density_of_sum(
    f: Float[Tensor, " n"], g: Float[Tensor, " m"], step: PositiveFloat
) -> Float[Tensor, " n+m-1"]:
    r"""Convolves the densities of two independent variables, on grids with the same step.

    By the fast Fourier transform, in $O(n\log n)$. Entry k belongs to `x[0] + y[0] + k * step`.
    Grids of the middles of cells, also at the ends, lose least where a density jumps.

    Args:
        f: Density of the first variable on its grid x, which leaves out no mass.
        g: Density of the second on its grid y.
        step: Distance of neighbors on both grids.

    Example:
        >>> density_of_sum(torch.ones(2), torch.ones(2), 0.5)  # two uniform variables: a triangle
        tensor([0.5000, 1.0000, 0.5000])
    """
    for name, density in (("f", f), ("g", g)):
        if not (density.numel() and bool((density >= 0).all()) and bool(density.isfinite().all())):
            raise usage_error("density_of_sum", name, "a density, finite and >= 0", density)
    total = fftconvolve(f.numpy(force=True), g.numpy(force=True))
    return torch.from_numpy(step * total).to(f).clamp(min=0)  # the transform rounds around 0


@checked
def score_gradient(
    log_prob_fn: Callable[[Tensor, Tensor], Tensor], f: Callable[[Tensor], Tensor],
    theta: Float[Tensor, "*shape"], samples: Shaped[Tensor, "n ..."], *,
    baseline: Baseline = "none",
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    r"""Estimates $\nabla_\theta E_{p_\theta}[f]$ from values of $f$ alone, with its standard error.

    Unbiased if the support of the law does not depend on $\theta$; $f$ needs no derivative.

    Args:
        log_prob_fn: Logarithm of the density of one sample, from `theta` and the sample. Laws of
            torch must not validate here: `Normal(..., validate_args=False)`.
        f: A number from one sample.
        theta: Parameters.
        samples: Draws from the law with these parameters, one an entry of the first axis.
        baseline: What to subtract from each value of f: nothing, or the mean of all others.

    Example:
        >>> log_prob = lambda p, x: x * p.log() + (1 - x) * (1 - p).log()
        >>> flips = torch.tensor([1.0, 0.0, 0.0, 1.0])
        >>> score_gradient(log_prob, lambda x: 3 * x, torch.tensor(0.5), flips)[0]
        tensor(3.)
    """
    n = len(samples)
    if n < 2:
        raise usage_error("score_gradient", "samples", "two or more, for a standard error", n)
    values = vmap(f)(samples)
    scores = vmap(grad(log_prob_fn), in_dims=(None, 0))(theta, samples)  # (n, *shape)
    if baseline == "leave-one-out":
        values = values - (values.sum() - values) / (n - 1)
    terms = values.reshape(n, *[1] * theta.ndim) * scores
    return terms.mean(dim=0), terms.std(dim=0) / n**0.5

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

import numpy as np
import torch
from jaxtyping import Float, Int, Num, Shaped
from scipy import stats
from scipy.signal import fftconvolve, lfilter
from scipy.special import gammaincinv, ndtr
from sklearn.naive_bayes import BernoulliNB
from torch import Tensor
from torch.distributions import Bernoulli, Beta, Distribution, Gamma, Normal, constraints
from torch.distributions.transformed_distribution import TransformedDistribution
from torch.distributions.transforms import AffineTransform
from torch.func import grad, vmap
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Count, Positive, Range
from principia.lab.errors import UsageError, refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_least, at_most, equal, estimates, every, identical, slope
from principia.lab.seeds import Seed

Size = Annotated[int, Range(2, 12)]
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
            raise refuse("JointTable", "names", domain, names)
        total = float(probs.detach().sum())
        lowest = float(probs.detach().min()) if probs.numel() else 0.0
        right = 0 < total < math.inf if normalize else abs(total - 1) <= 1e-6
        if not (right and lowest >= 0):
            domain = ">= 0 and have a finite sum > 0" if normalize else ">= 0 and sum to 1"
            got = f"an entry {lowest:.7g}" if lowest < 0 else f"sum {total:.7g}"
            hint = "" if normalize or lowest < 0 else " Pass normalize=True."
            raise UsageError(f"JointTable: probs must be {domain}; got {got}.{hint}")
        self.probs, self.names = probs / probs.sum(), names

    def marginal(self, *names: str) -> "JointTable":
        """Sum out all variables but these, which become the axes in this order."""
        axes = [self._axis(name) for name in names]
        if len(set(axes)) != len(axes) or not axes:
            raise refuse("JointTable", "names", "one or more different variables", names)
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
                raise refuse("JointTable", name, domain, value)
            where[axis] = int(value)
        rest = tuple(name for name in self.names if name not in values)
        if not rest:
            raise refuse("JointTable", "values", "of some variables, not of all", values)
        part = self.probs[tuple(where)]
        if not part.sum() > 0:
            hint = "Nothing follows from what cannot happen."
            raise refuse("JointTable", "values", "an event of positive probability", values, hint)
        return JointTable(part, rest, normalize=True)

    @checked
    def sample(self, n: Count, rng: torch.Generator | None = None) -> Int[Tensor, "n axes"]:
        """Draw n independent outcomes, one a row, a column for each variable."""
        flat = torch.multinomial(self.probs.flatten(), n, replacement=True, generator=rng)
        return torch.stack(torch.unravel_index(flat, self.probs.shape), dim=-1)

    def _axis(self, name: str) -> int:
        if name not in self.names:
            raise refuse("JointTable", "name", f"one of {', '.join(self.names)}", name)
        return self.names.index(name)


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
        raise refuse("bayes", "log_likelihood", domain, tuple(log_likelihood.shape))
    joint = log_prior + log_likelihood
    if not (best := joint.amax(dim=-1)).isfinite().all():
        domain = "finite for some class of positive prior"
        hint = "What has probability 0 in every class leads to no posterior: smooth the model."
        raise refuse("bayes", "log_likelihood", domain, float(best.detach().min()), hint)
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
            raise refuse("EmpiricalDistribution", "samples", domain, samples)
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
            raise refuse("EmpiricalDistribution", "samples", domain, tuple(self.samples.shape))
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
def dkw_radius(n: Count, delta: Annotated[float, Range(0, 1, open="low")]) -> float:
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
        >>> affine(Normal(1.0, 1.0), -2.0, 3.0).log_prob(torch.tensor(1.0)).exp()  # N(1, 4)
        tensor(0.1995)
    """
    if a == 0:
        raise refuse("affine", "a", "a finite number other than 0", a, "A constant has no density.")
    return TransformedDistribution(dist, AffineTransform(b, a))


@checked
def density_of_sum(
    f: Float[Tensor, " n"], g: Float[Tensor, " m"], step: Positive
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
            raise refuse("density_of_sum", name, "a density, finite and >= 0", density)
    total = fftconvolve(f.detach().cpu().numpy(), g.detach().cpu().numpy())
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
        raise refuse("score_gradient", "samples", "two or more, for a standard error", n)
    values = vmap(f)(samples)
    scores = vmap(grad(log_prob_fn), in_dims=(None, 0))(theta, samples)  # (n, *shape)
    if baseline == "leave-one-out":
        values = values - (values.sum() - values) / (n - 1)
    terms = values.reshape(n, *[1] * theta.ndim) * scores
    return terms.mean(dim=0), terms.std(dim=0) / n**0.5


@claim(control={"independent": True}, source="Kolmogorov 1933")
def sum_and_product_rules(
    seed: Seed, *, rows: Size = 6, columns: Size = 5, layers: Size = 4, independent: bool = False,
) -> Evidence:
    r"""$\sum_yP(x,y)=P(x)$ and $P(y\mid x)P(x)=P(x,y)$, also where some $x$ never happens."""
    probs = _dirichlet(seed.numpy(), rows * columns * layers).reshape(rows, columns, layers)
    probs[0] = 0
    table = JointTable(probs, ("x", "y", "z"), normalize=True)
    x, joint = table.marginal("x").probs, table.probs
    y_given_x = table.conditional("y", given="x")
    z_given_xy = table.conditional("z", given=("x", "y"))
    if independent:
        y_given_x = table.marginal("y").probs[:, None].expand(-1, rows)
        z_given_xy = table.marginal("z").probs[:, None, None].expand(-1, rows, columns)
    rebuilt = (z_given_xy * y_given_x.mT * x[:, None]).permute(1, 2, 0)
    known = table.condition(y=1)
    return every({
        "product rule": identical(rebuilt, joint).drawn(
            Series("cells of the table", joint.flatten(), rebuilt.flatten()),
            Series("equal", [0, joint.max()], [0, joint.max()], role="predicted"),
            x="P(x, y, z)", y="P(z | x, y) P(y | x) P(x)",
        ),
        "sum rule": identical(table.marginal("z", "x").probs, probs.sum(dim=1).mT / probs.sum()),
        "a variable that is known": identical(
            known.probs, table.conditional("x", "z", given="y")[..., 1]
        ),
    })


@claim(control={"use_prior": False}, source="Bayes 1763")
def bayes_rule(
    seed: Seed, *, prior: Annotated[float, Range(0.6, 0.95)] = 0.9,
    outcomes: Annotated[int, Range(2, 20)] = 6,
    samples: Annotated[int, Range(100_000, 2_000_000)] = 1_000_000, use_prior: bool = True,
) -> Evidence:
    r"""The posterior is likelihood times prior over evidence; counts of samples agree."""
    weights = torch.tensor([prior, 1 - prior], dtype=torch.float64)
    # an even likelihood keeps every posterior away from 0, where counts are no longer normal
    likelihood = _dirichlet(seed.numpy(), 2, outcomes, concentration=5.0).clamp(min=0.2 / outcomes)
    likelihood = likelihood / likelihood.sum(dim=1, keepdim=True)
    table = JointTable(weights[:, None] * likelihood, ("class", "x"))
    used = weights.log() if use_prior else torch.zeros(2, dtype=torch.float64)
    posterior = bayes(used, likelihood.mT.log()).exp()  # (outcomes, 2)
    classes, x = table.sample(samples, seed.child("samples").torch()).unbind(dim=1)
    seen = torch.bincount(x * 2 + classes, minlength=2 * outcomes).reshape(outcomes, 2).double()
    shares = seen / seen.sum(dim=1, keepdim=True)
    error = (posterior.prod(dim=1) / seen.sum(dim=1)).sqrt()
    return every({
        "share of the first class among samples": estimates(
            shares[:, 0], posterior[:, 0], error=error, why="binomial shares, given x"
        ).drawn(
            Series("share among samples", range(outcomes), shares[:, 0], error=5 * error),
            Series("bayes", range(outcomes), posterior[:, 0], "predicted", "points"),
            x="outcome x", y="P(first class | x)",
        ),
        "column of the joint table": identical(posterior, table.conditional("class", given="x").mT),
    })


@claim(control={"coupling": 0.3}, source="Dawid 1979")
def conditional_independence(
    seed: Seed, *, nets: Annotated[int, Range(20, 500)] = 100, states: Size = 4, causes: Size = 3,
    coupling: Annotated[float, Range(0, 1)] = 0.0,
) -> Evidence:
    r"""$X\leftarrow Z\to Y$: $P(x,y\mid z)=P(x\mid z)P(y\mid z)$, though X and Y are dependent."""
    rng = seed.numpy()
    z, x_given_z = _dirichlet(rng, nets, causes), _dirichlet(rng, nets, causes, states)
    by_z, by_xz = (_dirichlet(rng, nets, causes, rows, states) for rows in (1, states))
    y_given_xz = (1 - coupling) * by_z + coupling * by_xz
    probs = z[..., None, None] * x_given_z[..., None] * y_given_xz / nets
    table = JointTable(probs, ("net", "z", "x", "y"))  # all nets at once: which one is a variable
    given = ("net", "z")
    both, x, y = (table.conditional(*names, given=given) for names in ("xy", "x", "y"))
    product, seen = x[:, None] * y, slice(0, None, 1 + both.numel() // 400)
    why = "rounding of sums of a few hundred numbers below 1"
    return every({
        "P(x, y | z)": equal(both, product, tol=1e-12, why=why).drawn(
            Series("all nets", product.flatten()[seen], both.flatten()[seen]),
            Series("equal", [0, product.max()], [0, product.max()], role="predicted"),
            x="P(x | z) P(y | z)", y="P(x, y | z)",
        ),
        "P(x | y, z)": equal(
            table.conditional("x", given=("y", *given)), x[:, None].expand_as(both), tol=1e-12,
            why=why,
        ),
        "mean information between X and Y": at_least(
            _information(table, "x", "y", "net"), 1e-6,
            why="independent variables have none, and rounding makes some 1e-15",
        ),
    })


@claim(control={"atom": True}, source="Kolmogorov 1933")
def density_is_cdf_slope(
    seed: Seed, *, h: Annotated[float, Range(0.002, 0.05)] = 0.02,
    points: Annotated[int, Range(10, 2000)] = 200, atom: bool = False,
) -> Evidence:
    r"""$\frac d{dt}P(X\le t)=f_X(t)$; the central difference is off by $h^2\max|f''|/6$ at most."""
    rng, one = seed.numpy(), torch.ones((), dtype=torch.float64)
    laws: dict[str, tuple[Any, Distribution]] = {
        "normal": (stats.norm(), Normal(0 * one, one)),
        "gamma": (stats.gamma(3), Gamma(3 * one, one)),
        "beta": (stats.beta(3, 4), Beta(3 * one, 4 * one)),
    }
    cases = [(name, law.cdf, law.ppf([0.01, 0.99]), f) for name, (law, f) in laws.items()]
    if atom:  # half the mass sits on 0
        cases = [("max(0, normal)", lambda t: (t >= 0) * ndtr(t), (0.0, 0.0), laws["normal"][1])]
    steps, series, errors, bounds = h / 2.0 ** np.arange(5), [], [], []
    for name, cdf, (low, high), law in cases:
        t = rng.uniform(low, high, points)
        around = torch.linspace(low - h, high + h, 2001, dtype=one.dtype, requires_grad=True)
        (first,) = torch.autograd.grad(law.log_prob(around).exp().sum(), around, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), around)
        quotient = (cdf(t + steps[:, None]) - cdf(t - steps[:, None])) / (2 * steps[:, None])
        density = law.log_prob(torch.from_numpy(t)).exp().numpy()
        errors.append(np.abs(quotient - density).max(axis=1))
        bounds.append(steps**2 * float(second.abs().max()) / 6 + 1e-14 / steps)
        series.append(Series(name, steps, errors[-1]))
        series.append(Series(f"{name}: h² max|f''| / 6", steps, bounds[-1], role="bound"))
    why = "Taylor's formula, and rounding of the distribution functions, 1e-14, over h"
    return at_most(np.array(errors), np.array(bounds), why=why).drawn(
        *series, x="h", y="largest error of the difference quotient", log="xy"
    )


@claim(
    control={"formula": "1 / a"}, source="change of variables",
    misprint=r"$f_{aY}(z)=\frac1af_Y(z/a)$ for every $a\ne0$; it is $\frac1{|a|}$",
)
def affine_density(
    seed: Seed, *, shape: Annotated[float, Range(2, 9)] = 3.0,
    scale: Annotated[float, Range(0.2, 3)] = 1.0, shift: Annotated[float, Range(-5, 5)] = 0.0,
    formula: Literal["1 / |a|", "1 / a"] = "1 / |a|",
) -> Evidence:
    r"""$aY+b$ has the density $f_Y((z-b)/a)/|a|$, for positive and for negative $a$."""
    base = Gamma(torch.tensor(shape, dtype=torch.float64), 1.0)
    draws = torch.from_numpy(seed.numpy().gamma(shape, size=100_000))
    top = float(gammaincinv(shape, 1 - 1e-12))
    t = torch.linspace(1e-6, top, 50_001, dtype=torch.float64)
    integrals, densities, by_torch, distances, pictures = [], [], [], [], {}
    for a in (-3 * scale, -2 * scale, -scale, scale, 2 * scale, 3 * scale):
        z, law = (a * t + shift).sort().values, affine(base, a, shift)
        factor = 1 / a if formula == "1 / a" else 1 / abs(a)
        density = factor * torch.from_numpy(stats.gamma.pdf(((z - shift) / a).numpy(), shape))
        integrals.append(torch.trapezoid(density, z))
        densities.append(density)
        by_torch.append(law.log_prob(z).exp())
        sample = EmpiricalDistribution(a * draws + shift)
        distances.append((sample.cdf(z[::50]) - law.cdf(z[::50])).abs().max())
        pictures[a] = (
            _histogram("draws of aY + b", sample.samples),
            Series("formula", z[::250], density[::250], role="predicted"),
        )
    return every({
        "integral": equal(
            torch.stack(integrals), 1, tol=1e-6, why="trapezoids, 50,000 steps: h²/12 at most"
        ).drawn(*pictures[-2 * scale], x="z", y=f"density, a = {-2 * scale:g}"),
        "log_prob": identical(torch.stack(by_torch), torch.stack(densities)),
        "distance of the distribution functions": at_most(
            torch.stack(distances), dkw_radius(len(draws), RARE), why=DKW
        ),
    })


@claim(control={"dependent": True}, source="Feller 1971, An introduction to probability, vol. 2")
def sum_is_convolution(
    seed: Seed, *, width: Annotated[float, Range(0.5, 5)] = 2.0,
    shape: Annotated[float, Range(1, 9)] = 2.0,
    samples: Annotated[int, Range(50_000, 500_000)] = 200_000, dependent: bool = False,
) -> Evidence:
    r"""The density of $X+Y$ is the convolution $f_X*f_Y$ if X and Y are independent."""
    rng, step = seed.numpy(), 5e-4
    levels = rng.random(samples)
    x = width * (levels if dependent else rng.random(samples))
    draws = torch.from_numpy(x + gammaincinv(shape, levels))
    top = float(gammaincinv(shape, 1 - 1e-12))
    middles = torch.arange(step / 2, max(top, width), step, dtype=torch.float64)
    uniform = (middles < width).double() / width
    gamma = torch.from_numpy(stats.gamma.pdf(middles.numpy(), shape))
    density = density_of_sum(uniform, gamma, step)
    z = step * (1 + torch.arange(len(density), dtype=torch.float64))
    law = density.cumsum(dim=0) * step
    distance = (EmpiricalDistribution(draws).cdf(z) - law).abs().max()
    # X and Y move within their cells, and a sum over cells misses a unimodal mass by step * max f
    grid = 2 * step * float(uniform.max() + gamma.max())
    why = f"{DKW}; and 2 step (max f + max g) for the grid"
    return at_most(distance, dkw_radius(samples, RARE) + grid, why=why).drawn(
        _histogram("draws of X + Y", draws),
        Series("convolution", z[::100], density[::100], role="predicted"),
        x="z", y="density",
    )


@claim(control={"rho": 0.95}, source="Massart 1990")
def empirical_cdf_rate(
    seed: Seed, *, samples: Annotated[int, Range(20, 1000)] = 200,
    repetitions: Annotated[int, Range(500, 5000)] = 2000,
    rho: Annotated[float, Range(0, 0.99)] = 0.0,
) -> Evidence:
    r"""$P(\sup|\hat F_n-F|>\epsilon)\le2e^{-2n\epsilon^2}$: the error falls as $n^{-1/2}$."""
    delta, sizes = 0.05, np.geomspace(100, 100_000, 19).astype(int)
    draws = _chains(seed.numpy(), (repetitions, samples), rho)
    exceeded = (_distances(draws) > dkw_radius(samples, delta)).mean()
    means = [
        _distances(_chains(seed.child(n).numpy(), (40, n), rho)).mean()
        for n in map(int, sizes)
    ]
    first = torch.from_numpy(draws[0]).sort().values
    return every({
        "rate": slope(
            sizes, means, -0.5, tol=0.03, why="five standard errors of 40 repetitions each",
            labels=("observations n", "mean of the largest |F̂ - F|"),
        ),
        "how often the bound for 0.05 is exceeded": at_most(
            exceeded, delta, slack=5 * (delta * (1 - delta) / repetitions) ** 0.5,
            why="five standard errors of a frequency",
        ),
        "EmpiricalDistribution": identical(
            EmpiricalDistribution(torch.from_numpy(draws[0])).cdf(first),
            stats.ecdf(draws[0]).cdf.evaluate(first.numpy()),
        ),
    })


@claim(control={"mass": "equal for distinct values"}, source="by definition")
def empirical_expectation(
    seed: Seed, *, samples: Annotated[int, Range(50, 20_000)] = 1000,
    rate: Annotated[float, Range(1, 20)] = 3.0,
    mass: Literal["1 / n each", "equal for distinct values"] = "1 / n each",
) -> Evidence:
    r"""$E_{\hat p_n}[g]=\frac1n\sum_ig(x_i)$ and $\hat p_n(t)=\#\{x_i=t\}/n$, with repeats."""
    x = torch.from_numpy(np.sort(seed.numpy().poisson(rate, size=samples)))
    law = EmpiricalDistribution(x)
    atoms, counts = torch.unique(x, return_counts=True)
    shares = counts.double() / samples
    probs = law.log_prob(atoms).exp()
    if mass != "1 / n each":
        probs = torch.full_like(probs, 1 / len(atoms))
    means = torch.stack([probs @ g(atoms.double()) for g in (torch.sin, torch.square)])
    center = float(probs @ atoms.double())
    again = law.sample((50_000,), seed.child("bootstrap").torch()).double()
    return every({
        "probabilities": identical(probs, shares).drawn(
            Series("share of the samples", atoms, shares, style="bars"),
            Series("p̂(t)", atoms, probs, "predicted", "points"), x="value t", y="probability",
        ),
        "expectations": identical(
            means, torch.stack([law.expectation(g) for g in (torch.sin, torch.square)])
        ),
        "mean and variance": identical(
            torch.stack([law.mean, law.variance]),
            [center, float(probs @ (atoms.double() - center) ** 2)],
        ),
        "distribution function": identical(law.cdf(atoms), probs.cumsum(dim=0)),
        "mean of a bootstrap sample": estimates(
            again.mean(), center, error=float(law.stddev) / len(again) ** 0.5, why="a mean"
        ),
    })


@claim(control={"support": "moves with theta"}, source="Williams 1992")
def log_derivative_trick(
    seed: Seed, *, samples: Annotated[int, Range(20_000, 200_000)] = 100_000,
    size: Annotated[float, Range(0.5, 2)] = 1.0,
    support: Literal["fixed", "moves with theta"] = "fixed",
) -> Evidence:
    r"""$\nabla p_\theta=p_\theta\nabla\log p_\theta$: the score estimates $\nabla E[x^2]$."""
    laws, moving = _laws(seed.numpy(), samples, size), support != "fixed"
    names, truths, direct, by_score, small, covariances = [], [], [], [], [], []
    found: dict[Baseline, list[Any]] = {"none": [], "leave-one-out": []}
    for name, (density, log_prob, theta, draws, truth) in laws.items():
        if moving != (name == "uniform"):
            continue
        x, at = torch.from_numpy(draws), torch.tensor(theta, dtype=torch.float64)
        few = x[:200]
        direct.append(vmap(grad(density), in_dims=(None, 0))(at, few).flatten())
        score = vmap(grad(log_prob), in_dims=(None, 0))(at, few)
        by_score.append((vmap(density, in_dims=(None, 0))(at, few)[:, None] * score).flatten())
        small.append(score_gradient(log_prob, torch.square, at, few, baseline="leave-one-out")[0])
        covariances.append((few**2 - (few**2).mean()) @ score / (len(few) - 1))
        for baseline, estimate in found.items():
            estimate.append(score_gradient(log_prob, torch.square, at, x, baseline=baseline))
        names += [f"{name} {k + 1}" for k in range(len(theta))]
        truths += truth
    parts = {}
    for baseline, pairs in found.items():
        value, error = (torch.cat(part) for part in zip(*pairs, strict=True))
        parts[f"estimate, baseline {baseline}"] = estimates(
            value, truths, error=error, why="a mean of score times x² over the samples"
        ).drawn(
            Series("estimate", names, value, error=5 * error),
            Series("gradient of E[x²]", names, truths, "predicted", "points"),
            x="parameter of the law", y="derivative of E[x²]",
        )
    return every({
        **parts,
        "at single points": identical(torch.cat(by_score), torch.cat(direct)),
        "leave-one-out is a covariance": identical(torch.cat(small), torch.cat(covariances)),
    })


@experiment(
    reaches={
        "accuracy": at_least_goal(0.84), "agreement": at_least_goal(1.0),
        "neighbor_information": at_least_goal(0.01),
    },
    floor={
        "accuracy": at_least_goal(0.80), "agreement": at_least_goal(1.0),
        "neighbor_information": at_least_goal(0.01),  # 1437 pictures of independent pixels: 0.0035
    },
    source="scikit-learn's BernoulliNB on the same pixels: 0.843 on the MNIST test set",
)
def naive_bayes(run: Run, *, smoothing: Annotated[float, Range(0.01, 100)] = 1.0) -> None:
    """Reads digits by Bayes' rule, as if pixels were independent given the class; they are not."""
    x, y, x_test, y_test = handwriting(run)
    pixels, tests = ((part > 0.5).float() for part in (x, x_test))  # which counts exactly to 2^24
    members, flat = F.one_hot(y).float().mT, tests.flatten(1).double()  # (10, N)
    sizes, lit = members.sum(dim=1).double(), (members @ pixels.flatten(1)).double()
    on = (lit + smoothing) / (sizes[:, None] + 2 * smoothing)
    log_likelihood = flat @ on.log().mT + (1 - flat) @ (1 - on).log().mT
    confidence, answer = bayes((sizes / len(y)).log(), log_likelihood).exp().max(dim=1)
    right = (answer == y_test).double()
    baseline = BernoulliNB(alpha=smoothing, binarize=None).fit(pixels.flatten(1).numpy(), y.numpy())
    theirs = torch.from_numpy(baseline.predict(flat.numpy()))
    run.record(
        accuracy=float(right.mean()), agreement=float((answer == theirs).double().mean()),
        overconfidence=float(confidence.mean() - right.mean()),
        neighbor_information=_information(_neighbors(pixels, members), "a", "b", "place", "class"),
    )
    run.figure("pixels", figures.images(
        list(on.reshape(-1, *x.shape[1:])), [f"P(pixel on | {c})" for c in range(len(on))]
    ))
    bins = confidence.argsort(stable=True).tensor_split(10)
    stated, reached = ([float(of[part].mean()) for part in bins] for of in (confidence, right))
    run.figure("reliability", figures.draw(Picture(
        (Series("tenths of the test digits", stated, reached),
         Series("calibrated", [0, 1], [0, 1], role="predicted")),
        "mean confidence", "share that is right",
    )))


def _dirichlet(rng: np.random.Generator, *shape: int, concentration: float = 1.0) -> Tensor:
    """Draw probabilities that sum to 1 along the last axis."""
    return torch.from_numpy(rng.dirichlet([concentration] * shape[-1], size=shape[:-1]))


def _information(table: JointTable, a: str, b: str, *given: str) -> float:
    """Measure the mutual information of two variables, in nats, averaged over what is given."""
    both = table.conditional(a, b, given=given)
    product = table.conditional(a, given=given)[:, None] * table.conditional(b, given=given)
    surprise = torch.xlogy(both, both) - torch.xlogy(both, product)
    return float((table.marginal(*given).probs * surprise).sum())


def _distances(levels: np.ndarray) -> np.ndarray:
    """Measure sup|F̂ - F| of each row of F(x_i), just before and at each jump."""
    n, ranked = levels.shape[1], np.sort(levels, axis=1)
    ranks = np.arange(n) / n
    return np.maximum(ranked - ranks, ranks + 1 / n - ranked).max(axis=1)


def _chains(rng: np.random.Generator, shape: tuple[int, int], rho: float) -> np.ndarray:
    """Draw rows of uniform numbers: independent, or levels of the chain x' = rho x + e."""
    if rho == 0:
        return rng.random(shape)
    noise = math.sqrt(1 - rho**2) * rng.standard_normal(shape)
    noise[:, 0] /= math.sqrt(1 - rho**2)  # starts in its stationary law
    return ndtr(lfilter([1.0], [1.0, -rho], noise, axis=1))


def _histogram(name: str, draws: Tensor) -> Series:
    heights, edges = np.histogram(draws.numpy(), bins=60, density=True)
    return Series(name, (edges[1:] + edges[:-1]) / 2, heights, style="bars")


def _laws(rng: np.random.Generator, n: int, size: float) -> dict[str, tuple[Any, ...]]:
    """Give density, log density, parameters, draws and the gradient of E[x²] of four laws."""
    k = 2.0  # shape of the gamma
    return {
        "normal": (
            lambda t, x: (-(((x - t[0]) / t[1]) ** 2) / 2).exp() / (t[1] * math.sqrt(2 * math.pi)),
            lambda t, x: Normal(t[0], t[1], validate_args=False).log_prob(x),
            [1.0, size], rng.normal(1.0, size, n), [2.0, 2 * size],
        ),
        "Bernoulli": (
            lambda t, x: t[0] ** x * (1 - t[0]) ** (1 - x),
            lambda t, x: Bernoulli(t[0], validate_args=False).log_prob(x),
            [0.3], rng.binomial(1, 0.3, n).astype(float), [1.0],
        ),
        "gamma": (
            lambda t, x: t[1] ** t[0] * x ** (t[0] - 1) * (-t[1] * x).exp() / t[0].lgamma().exp(),
            lambda t, x: Gamma(t[0], t[1], validate_args=False).log_prob(x),
            [k, 1 / size], rng.gamma(k, size, n),
            [(2 * k + 1) * size**2, -2 * k * (k + 1) * size**3],
        ),
        "uniform": (  # on (0, theta): draws lie inside, where the density is 1 / theta
            lambda t, x: 1 / t[0] + 0 * x, lambda t, x: -t[0].log() + 0 * x,
            [size], rng.uniform(0, size, n), [2 * size / 3],
        ),
    }


def _neighbors(pixels: Tensor, members: Tensor) -> JointTable:
    """Count the values of all pairs of neighboring pixels in each class; members are (10, N)."""
    tables = []
    for a, b in ((pixels[:, 1:], pixels[:, :-1]), (pixels[..., 1:], pixels[..., :-1])):
        count_a, count_b, both = (members @ part.flatten(1) for part in (a, b, a * b))
        neither = members.sum(dim=1, keepdim=True) - count_a - count_b + both
        tables.append(torch.stack([neither, count_b - both, count_a - both, both]))
    table = torch.cat(tables, dim=-1).reshape(2, 2, len(members), -1)
    return JointTable(table.double(), ("a", "b", "class", "place"), normalize=True)

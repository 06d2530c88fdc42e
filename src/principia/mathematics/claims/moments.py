r"""Moments: what is true of it, and what would refute it.

Knobs:
    mean: The mean of the normal law.
    size: The standard deviation of the normal law, and the scale of others.
    samples: Draws that are averaged.
    center: What deviations are measured from; the median makes them too large.
    rows: Rows of data.
    batches: Batches that the rows come in.
    offset: How far the data may lie from 0, in their standard deviations.
    formula: The formula that is checked; the other one is a mistake, or loses all its digits.
    draws: Random data sets.
    dim: Variables, the columns of the data.
    missing: The share of missing entries; covariances by pairs then cannot be trusted together.
    rho: The correlation of each two variables, which are independent at 0.
    law: The law that is tried; the second one is not symmetric, or has other moments.
    variables: Variables that are added up.
    sums: Sums with random weights.
    ignore_cov: Whether covariances are left out, as if the variables were independent.
    p: The chance of 1 in the Bernoulli law.
    flips: Flips that the binomial law counts.
    rate: The mean of the Poisson law.
    shape: The shape $\alpha$ of the gamma law.
    scale: The scale $\beta$ of the gamma law.
    gamma: What torch gets as the rate, which is 1 over the scale; the scale itself is a mistake.
    t: Where the function is evaluated, in units of $1/\beta$; at 1 it becomes infinite.
    order: The largest number of variables that are multiplied.
    at: Where derivatives are taken; only at 0 they are moments.
    reach: The largest $t$, on both sides of 0.
    copy: Whether the second variable is the first once more, which is not independent of it.
    k: Squares that are added up, the degrees of freedom.
"""

import itertools
import math
from typing import Annotated, Any, Literal

import numpy as np
import torch
from scipy import integrate, stats
from scipy.special import ndtr
from torch import Tensor, distributions
from torch.distributions import Bernoulli, Binomial, Gamma, MultivariateNormal, Normal, Poisson

from principia.lab.draws import rand, randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    follows,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.pictures import Matrix
from principia.lab.seeds import Seed
from principia.mathematics.moments import (
    RunningMoments,
    affine_cov,
    empirical_mgf,
    isserlis,
    log_mgf,
    mgf,
    raw_moment,
    variance_of_sum,
)

Samples = Annotated[int, Range(20_000, 500_000)]
Rows = Annotated[int, Range(10, 5000)]
Shape = Annotated[float, Range(1, 6)]
QUADRATURE = "quadrature, asked for ten digits"
PRODUCTS = "a mean of products of deviations"
ONE = torch.ones((), dtype=torch.float64)


@claim(
    control={"center": "median"}, source="by linearity of the expectation",
    refutes=["E[X²] minus the square", "integral of (t - μ)² f(t)"],
)
def variance_identity(
    seed: Seed, *, mean: Annotated[float, Range(-2, 2)] = 0.0,
    size: Annotated[float, Range(0.5, 3)] = 1.0, samples: Samples = 100_000,
    center: Literal["mean", "median"] = "mean",
) -> Evidence:
    r"""$\mathrm{Var}X=E[X^2]-E[X]^2=\int(t-\mu)^2f(t)\,dt$, for five laws with a density."""
    rng, inf = seed.numpy(), math.inf
    laws: dict[str, tuple[Any, float, float, np.ndarray]] = {
        "normal": (Normal(mean * ONE, size), -inf, inf, rng.normal(mean, size, samples)),
        "gamma": (Gamma(3 * ONE, 1 / size), 0, inf, rng.gamma(3, size, samples)),
        "beta": (distributions.Beta(2 * ONE, 3 * ONE), 0, 1, rng.beta(2, 3, samples)),
        "uniform": (distributions.Uniform(-size * ONE, 2 * size), -size, 2 * size,
                    rng.uniform(-size, 2 * size, samples)),
        "Laplace": (distributions.Laplace(ONE, size), -inf, inf, rng.laplace(1, size, samples)),
    }
    places = [float(law.mean) if center == "mean" else np.median(x) for law, *_, x in laws.values()]
    cases = zip(laws.values(), places, strict=True)
    first, second, by_integral = np.array([_integrals(*one[:3], place) for one, place in cases]).T
    by_moments = second - (first if center == "mean" else np.array(places)) ** 2
    exact = np.array([float(law.variance) for law, *_ in laws.values()])
    draws = torch.from_numpy(np.stack([drawn for *_, drawn in laws.values()], axis=1))
    found, error = _covariances(draws, range(len(laws)), range(len(laws)))
    return every({
        "E[X²] minus the square": equal(by_moments / exact, 1, tol=1e-8, why=QUADRATURE).drawn(
            Series(f"E[X²] minus the {center}, squared", list(laws), by_moments, style="bars"),
            Series("variance", list(laws), exact, "predicted", "points"), x="law", y="variance",
        ),
        "integral of (t - μ)² f(t)": equal(by_integral / exact, 1, tol=1e-8, why=QUADRATURE),
        "draws": within_errors(found, exact, error=error, why="a mean of squared deviations"),
    })


def _integrals(law: Any, low: float, high: float, center: float) -> np.ndarray:
    """Integrate x, x² and (x - center)² times a density, which may have a kink at its mean."""
    def terms(x: float) -> np.ndarray:
        return float(law.log_prob(ONE * x).exp()) * np.array([x, x * x, (x - center) ** 2])

    kinks = [place for place in (0.0, float(law.mean)) if low < place < high]
    return integrate.quad_vec(terms, low, high, epsrel=1e-10, norm="max", points=kinks)[0]


def _covariances(x: Tensor, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Give sample covariances of columns a with columns b, and their standard errors."""
    moments = RunningMoments(x.shape[1]).update(x)
    centered = x - moments.mean
    return moments.cov()[a, b], (centered[:, a] * centered[:, b]).std(dim=0) / len(x) ** 0.5


@claim(
    control={"formula": "E[x²] - E[x]²"}, refutes=["relative error of the variance"],
    source="Chan, Golub and LeVeque 1983", headline=True,
    sees="Far from 0 the difference of squares loses every digit; merged batches keep theirs.",
)
def streaming_moments(
    seed: Seed, *, rows: Annotated[int, Range(1000, 200_000)] = 100_000,
    batches: Annotated[int, Range(2, 200)] = 37, offset: Annotated[float, Range(10, 1e8)] = 1e8,
    formula: Literal["merged", "E[x²] - E[x]²"] = "merged",
) -> Evidence:
    r"""Moments merged from batches in any order are those of all rows, however far from 0."""
    rng = seed.torch()
    z = randn(rng, rows, 3)
    z[:, 1] += z[:, 0]
    cuts = torch.randint(rows, (batches - 1,), generator=rng).sort().values
    order = torch.randperm(batches, generator=rng).tolist()

    def merged(x: Tensor) -> RunningMoments:
        parts, halves = x.tensor_split(cuts), (RunningMoments(3), RunningMoments(3))
        for place in order:
            halves[place % 2].update(parts[place])
        return halves[0].update(x[:0]).merge(halves[1])  # no rows at all change nothing

    offsets = torch.logspace(0, math.log10(offset), 9, dtype=z.dtype)
    errors: dict[str, list[float]] = {"merged": [], "E[x²] - E[x]²": []}
    for far in offsets:
        x = z + far
        exact = (x - far).var(dim=0, correction=0)  # far from 0 this difference is exact
        naive = x.square().mean(dim=0) - x.mean(dim=0) ** 2
        for name, found in zip(errors, (merged(x).var(), naive), strict=True):
            errors[name].append(float((found / exact - 1).abs().max()))
    near, single = merged(z), (100 + z).float().requires_grad_()  # as rows in a training do
    return every({
        "relative error of the variance": at_most(
            errors[formula], 1e-7, why="offset times rounding unit times the number of batches"
        ).drawn(
            *(Series(name, offsets, np.maximum(err, 1e-17), role)  # 0 has no place on a log axis
              for (name, err), role in zip(errors.items(), ("measured", "other"), strict=True)),
            Series("bound", [1, offset], [1e-7, 1e-7], "bound"),
            x="offset of the data", y="relative error of the variance", log="xy",
        ),
        "mean": equal_to_rounding(near.mean, z.mean(dim=0)),
        "covariance": equal_to_rounding(near.cov(ddof=1), np.cov(z.numpy(), rowvar=False)),
        "covariance of float32 rows": equal_to_rounding(
            merged(single).cov().numpy(),
            np.cov(single.double().numpy(force=True), rowvar=False, ddof=0),
        ),
    })


@claim(control={"missing": 0.6}, source="by construction; Little and Rubin 2002, sec. 3.4")
def covariance_psd(
    seed: Seed, *, draws: Annotated[int, Range(20, 500)] = 200,
    dim: Annotated[int, Range(3, 30)] = 10, missing: Annotated[float, Range(0, 0.9)] = 0.0,
) -> Evidence:
    r"""A sample covariance has no negative eigenvalue, even with fewer rows than columns."""
    rng, covs = seed.torch(), []
    for _ in range(draws):
        n = int(torch.randint(2, 4 * dim, (), generator=rng))
        x, there = 3 + randn(rng, n, dim), rand(rng, n, dim) >= missing
        complete = RunningMoments(dim).update(x[: n // 2]).update(x[n // 2 :]).cov()
        covs.append(complete if missing == 0 else _pairwise(x, there.to(x)))
    values = torch.linalg.eigvalsh(torch.stack(covs))
    largest = values.abs().amax(dim=1).clamp(min=1e-300)  # 0 if all were seen once
    smallest = (values[:, 0] / largest).sort().values
    return at_least(smallest, -1e-12, why="relative rounding").named("least eigenvalue").drawn(
        Series("smallest / largest eigenvalue", range(1, draws + 1), smallest),
        Series("0", [1, draws], [0, 0], "bound"),
        x="data set, sorted", y="smallest over largest eigenvalue",
    )


def _pairwise(x: Tensor, there: Tensor) -> Tensor:
    """Give each covariance from the rows that have both entries; 0 where none has."""
    shared, seen = (there.mT @ there).clamp(min=1), x * there
    means = seen.mT @ there / shared
    return seen.mT @ seen / shared - means * means.mT


@claim(control={"rho": 0.2}, source="Billingsley 1995, sec. 21")
def independent_is_uncorrelated(
    seed: Seed, *, samples: Samples = 100_000, rho: Annotated[float, Range(0, 0.9)] = 0.0,
) -> Evidence:
    r"""Independent variables have covariance 0: normal, exponential, uniform, sign."""
    z = seed.numpy().standard_normal((samples, 5))
    z = math.sqrt(1 - rho) * z[:, :4] + math.sqrt(rho) * z[:, 4:]  # pairs with correlation rho
    columns = {
        "normal": z[:, 0], "exponential": -np.log(ndtr(-z[:, 1])), "uniform": ndtr(z[:, 2]),
        "sign": np.sign(z[:, 3]),
    }
    x = torch.from_numpy(np.stack(list(columns.values()), axis=1))
    a, b = torch.triu_indices(4, 4, offset=1)
    found, error = _covariances(x, a, b)
    names = [f"{one}, {two}" for one, two in itertools.combinations(columns, 2)]
    return within_errors(found, 0, error=error, why=PRODUCTS).named("covariance").drawn(
        Series("sample covariance", names, found, error=5 * error),
        Series("independent", names, [0] * len(names), role="predicted"),
        x="pair of variables", y="covariance, ± 5 standard errors",
    )


@claim(control={"law": "exponential"}, source="Billingsley 1995, sec. 21")
def uncorrelated_not_independent(
    seed: Seed, *, samples: Samples = 100_000, size: Annotated[float, Range(0.5, 3)] = 1.0,
    law: Literal["normal", "exponential"] = "normal",
) -> Evidence:
    r"""$X\sim N(0,\sigma^2)$ and $Y=X^2$ have covariance 0, yet $\mathrm{Cov}(X^2,Y)=2\sigma^4$."""
    rng = seed.torch()
    x = size * (randn(rng, samples) if law == "normal" else -(-rand(rng, samples)).log1p())
    found, error = _covariances(torch.stack([x, x**2], dim=1), [0, 1], [1, 1])
    ends = torch.stack([x.min(), x.max()])
    line = (x**2).mean() + found[0] / x.var() * (ends - x.mean())
    return every({
        "Cov(X, Y)": within_errors(found[0], 0, error=error[0], why=PRODUCTS).drawn(
            Series("draws of (X, Y)", x[:400], x[:400] ** 2),
            Series("best line of the draws", ends, line, "other"),
            Series("uncorrelated", ends, [size**2] * 2, "predicted"), x="X", y="Y = X²",
        ),
        "Cov(X², Y)": within_errors(found[1], 2 * size**4, error=error[1], why=PRODUCTS),
    })


@claim(
    control={"formula": "A Σ A"}, refutes=["square matrices"],
    source="by linearity of the expectation",
)
def affine_variance(
    seed: Seed, *, rows: Rows = 200, dim: Annotated[int, Range(2, 20)] = 4,
    formula: Literal["A Σ Aᵀ", "A Σ A"] = "A Σ Aᵀ",
) -> Evidence:
    r"""$\mathrm{Var}[AX+b]=A\,\mathrm{Var}[X]A^\top$, for square and for other matrices."""
    rng, x = seed.torch(), _correlated(seed.child("x").torch(), rows, dim)
    cov, space = RunningMoments(dim).update(x).cov(), torch.full((dim, 1), math.nan)
    square, wide, shift = randn(rng, 5, dim, dim), randn(rng, 2 * dim, dim), randn(rng, dim)
    twice = RunningMoments(2 * dim).update(x @ wide.mT).cov()
    measured = torch.stack([RunningMoments(dim).update(x @ A.mT + shift).cov() for A in square])
    predicted = affine_cov(square, cov) if formula == "A Σ Aᵀ" else square @ cov @ square
    return every({
        "square matrices": equal_to_rounding(measured, predicted).drawn(
            Matrix(torch.cat([cov, space, measured[0], space, predicted[0]], dim=1), signed=True),
            x=f"covariance of X, covariance of AX + b, {formula}", y="row",
        ),
        "twice as many rows": equal_to_rounding(twice, affine_cov(wide, cov)),
    })


def _correlated(rng: torch.Generator, rows: int, dim: int) -> Tensor:
    """Draw rows with correlated entries that are not centered."""
    return 1 + randn(rng, rows, dim) @ randn(rng, dim, dim)


@claim(control={"ignore_cov": True}, source="by linearity of the expectation")
def variance_of_a_sum(
    seed: Seed, *, rows: Rows = 200, variables: Annotated[int, Range(2, 30)] = 6,
    sums: Annotated[int, Range(5, 200)] = 30, ignore_cov: bool = False,
) -> Evidence:
    r"""$\mathrm{Var}\sum a_iX_i=\sum a_i^2\Sigma_{ii}+2\sum_{i<j}a_ia_j\Sigma_{ij}$."""
    x = _correlated(seed.child("x").torch(), rows, variables)
    weights = randn(seed.torch(), sums, variables)
    cov = RunningMoments(variables).update(x).cov()
    predicted = variance_of_sum(weights, cov.diagonal().diag() if ignore_cov else cov)
    measured = (x @ weights.mT).var(dim=0, correction=0)
    alone, ends = weights**2 @ cov.diagonal(), [0, measured.max()]
    return equal_to_rounding(measured, predicted).named("variance of the sum").drawn(
        Series("formula", alone, predicted, "predicted", "points"),
        Series("if there were no covariances", ends, ends, "other"),
        Series("draws", alone, measured), x="Σ aᵢ²Σᵢᵢ alone", y="variance of Σ aᵢXᵢ",
    )


@claim(control={"gamma": "scale as rate"}, refutes=["gamma"], source="Billingsley 1995, sec. 21")
def mgf_closed_forms(
    seed: Seed, *, p: Annotated[float, Range(0.05, 0.95)] = 0.3,
    flips: Annotated[int, Range(1, 50)] = 8, mean: Annotated[float, Range(-2, 2)] = 0.5,
    rate: Annotated[float, Range(0.1, 9)] = 3.0, shape: Shape = 2.5,
    scale: Annotated[float, Range(0.2, 3)] = 0.7,
    gamma: Literal["scale", "scale as rate"] = "scale",
) -> Evidence:
    r"""$E[e^{tX}]$ in closed form: Bernoulli, binomial, Poisson, gamma, one or several normal."""
    t = np.sort(seed.numpy().uniform(-1, 0.8, 12))
    x, counts = np.linspace(mean - 15, mean + 15, 301), np.arange(400)
    at_counts, at_x = np.exp(np.outer(t, counts)), np.exp(np.outer(t, x))
    plane = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    pairs = np.stack([t, t[::-1]], axis=1)
    means, cov = np.array([mean, mean - 1]), np.array([[1.0, 0.5], [0.5, 0.8]])
    weights = stats.multivariate_normal(means, cov).pdf(plane) * (x[1] - x[0]) ** 2
    laws = {  # each with its t, and the expectation as a series or an integral
        "Bernoulli": (Bernoulli(p * ONE), t, at_counts[:, :2] @ [1 - p, p]),
        "binomial": (Binomial(flips, p * ONE), t, at_counts @ stats.binom(flips, p).pmf(counts)),
        "Poisson": (Poisson(rate * ONE), t, at_counts @ stats.poisson(rate).pmf(counts)),
        "normal": (Normal(mean * ONE, 1.3), t, at_x @ stats.norm(mean, 1.3).pdf(x) * (x[1] - x[0])),
        "gamma": (Gamma(shape * ONE, 1 / scale if gamma == "scale" else scale), t / scale,
                  np.array([_gamma_integral(shape, scale, at) for at in t / scale])),
        "two normal variables": (
            MultivariateNormal(torch.from_numpy(means), torch.from_numpy(cov)), pairs,
            np.exp(pairs @ plane.T) @ weights,
        ),
    }
    parts, why = {}, f"the whole series, or {QUADRATURE}"
    for name, (law, at, exact) in laws.items():
        found = mgf(law)(torch.from_numpy(at))
        there = found.isfinite()  # not so with a wrong parameter
        parts[name] = equal(found, exact, tol=1e-8 * exact, why=why).drawn(
            Series("series or integral", t, exact),
            Series("closed form", t[there], found[there], role="predicted"),
            x="t (gamma: βt; two normal variables: t of the first)", y=f"M(t), {name}", log="y",
        )
    return every(parts)


def _gamma_integral(shape: float, scale: float, t: float) -> float:
    """Integrate e^(tx) times the density of a gamma law."""
    constant = math.lgamma(shape) + shape * math.log(scale)

    def integrand(x: float) -> float:
        return math.exp((shape - 1) * math.log(x) - (1 / scale - t) * x - constant)

    return integrate.quad(integrand, 0, math.inf, epsabs=0, epsrel=1e-10, limit=500)[0]


@claim(
    control={"formula": "α / (1 - βt)"}, source="Billingsley 1995, sec. 21",
    refutes=["M(0.9)", "every t below 1/β", "draws"],
    misprint=r"$M(t)=\alpha/(1-\beta t)$, the exponent as a factor; it is $(1-\beta t)^{-\alpha}$",
)
def gamma_mgf(
    seed: Seed, *, shape: Shape = 2.5, scale: Annotated[float, Range(0.1, 1)] = 0.7,
    t: Annotated[float, Range(-3, 0.9)] = 0.9,
    formula: Literal["(1 - βt)^-α", "α / (1 - βt)"] = "(1 - βt)^-α",
) -> Evidence:
    r"""The gamma law has $M(t)=(1-\beta t)^{-\alpha}$ for $t<1/\beta$, and none from there on."""
    law = Gamma(shape * ONE, 1 / scale)
    M = mgf(law) if formula == "(1 - βt)^-α" else lambda at: shape / (1 - scale * at)
    at = torch.cat([law.rate.new_tensor([t]), torch.linspace(-2, 0.9, 30).to(law.rate) / scale])
    exact = at.new_tensor([_gamma_integral(shape, scale, float(place)) for place in at])
    found, few = M(at), 0.2 / scale * law.rate.new_tensor([-2, -1, 0.5, 1])
    draws = torch.from_numpy(seed.numpy().gamma(shape, scale, 100_000))
    value, error = empirical_mgf(draws, few)
    terms, tol = np.exp(np.outer(few, draws[:10])), 1e-6 * max(1, float(exact[0]))
    ten = [terms.mean(axis=1), stats.sem(terms, axis=1)]
    ends = torch.tensor([[1, 1.5], [1, 1]], dtype=ONE.dtype, requires_grad=True)  # t, and rates
    beyond = mgf(Gamma(shape * ONE, ends[1]))(ends[0])
    (slopes,) = torch.autograd.grad(beyond.sum(), ends)
    return every({
        f"M({t:g})": equal(found[0], exact[0], tol=tol, why=QUADRATURE).drawn(
            Series("E[exp(tX)], integrated", at[1:], exact[1:]),
            Series(f"M(t) = {formula}", at[1:], found[1:], role="predicted"),
            Series("1/β", [1 / scale] * 2, [exact.min(), exact.max()], role="bound"),
            x="t", y="M(t)", log="y",
        ),
        "every t below 1/β": equal(found / exact, 1, tol=1e-6, why=QUADRATURE),
        "draws": within_errors(value, M(few), error=error, why="a mean of exp(tX)"),
        "ten draws": equal_to_rounding(torch.stack(empirical_mgf(draws[:10], few)), ten),
        "from 1/β on": equal(beyond, math.inf, tol=0, why="the integrand does not fall"),
        "slopes from 1/β on": equal(slopes, 0, tol=0, why="NaN would spoil a sum with others"),
    })


@claim(control={"at": 0.3}, source="Curtiss 1942; Isserlis 1918")
def mgf_moments(
    seed: Seed, *, dim: Annotated[int, Range(1, 4)] = 3, order: Annotated[int, Range(1, 5)] = 4,
    at: Annotated[float, Range(0, 0.5)] = 0.0,
) -> Evidence:
    r"""$E[x_1^{k_1}\cdots x_n^{k_n}]$ is the derivative of $M$ at 0, of order $k_i$ in $t_i$."""
    rng = seed.torch()
    mean, root = randn(rng, dim), randn(rng, dim, dim)
    cov = root @ root.mT / dim + 0.1 * torch.eye(dim, dtype=root.dtype)
    products = [
        indices for degree in range(1, order + 1)
        for indices in itertools.combinations_with_replacement(range(dim), degree)
    ]

    def moment(law: distributions.Distribution, *orders: int, of: Any = mgf) -> np.ndarray:
        return raw_moment(lambda t: of(law)(t + at), orders).numpy()

    normal = MultivariateNormal(mean, cov)
    found = [moment(normal, *map(indices.count, range(dim))) for indices in products]
    exact = [isserlis(indices, mean.tolist(), cov.tolist()) for indices in products]
    single = {  # law and the same in SciPy, which sums or integrates
        Bernoulli(0.3 * ONE): stats.bernoulli(0.3), Binomial(5, 0.4 * ONE): stats.binom(5, 0.4),
        Poisson(2 * ONE): stats.poisson(2), Gamma(2.5 * ONE, 2): stats.gamma(2.5, scale=0.5),
        Normal(1 * ONE, 0.5): stats.norm(1, 0.5),
    }
    degrees, names = range(order + 1), ["".join(f"x{k + 1}" for k in one) for one in products]
    learned = Normal(1 * ONE, (0.5 * ONE).requires_grad_())
    return every({
        "products of normal variables": _nearly(found, exact).drawn(
            Series("derivative of M", names, found, style="bars"),
            Series("sum over pairings", names, exact, "predicted", "points"),
            x="product", y="its expectation",
        ),
        "powers of one variable": _nearly(
            [*[[moment(law, k) for k in degrees] for law in single],
             [raw_moment(torch.ones_like, (k,)) for k in degrees],  # of what is always 0
             [moment(learned, k, of=log_mgf) for k in degrees]],  # cumulants, the third 0
            [*[[float(law.moment(k)) if k else 1.0 for k in degrees] for law in single.values()],
             [1.0, *[0.0] * order], [0, 1, 0.25, 0, 0, 0][: order + 1]],
        ),
    })


def _nearly(found: Any, exact: Any) -> Evidence:
    tol = 1e-8 * (1 + float(np.abs(exact).max()))
    return equal(found, exact, tol=tol, why="1e-8 of the largest: rounding of nested derivatives")


@claim(control={"copy": True}, source="Curtiss 1942")
def mgf_of_a_sum(
    seed: Seed, *, samples: Annotated[int, Range(100_000, 1_000_000)] = 1_000_000,
    reach: Annotated[float, Range(0.05, 0.3)] = 0.2, copy: bool = False,
) -> Evidence:
    r"""$M_{\sum a_iX_i}(t)=\prod M_{X_i}(a_it)$ for independent normal, gamma and Poisson $X_i$."""
    rng = seed.numpy()
    laws = [Normal(0.5 * ONE, 1), Gamma(2 * ONE, 2), Poisson(1.5 * ONE)]
    draws = [rng.normal(0.5, 1, samples), rng.gamma(2, 0.5, samples), rng.poisson(1.5, samples)]
    if copy:  # the second variable has the law of the first because it is the first
        laws[1], draws[1] = laws[0], draws[0]
    a = (1.0, 1.5, -0.5)  # M(4t) is finite: 4 * 0.3 * 1.5 is below 2, the rate of the gamma law
    t = torch.linspace(-reach, reach, 8, dtype=torch.float64)
    value, error = empirical_mgf(
        torch.from_numpy(np.stack(draws, axis=1)), t[:, None] * t.new_tensor(a)
    )
    logs = [log_mgf(law, strict=True)(weight * t) for weight, law in zip(a, laws, strict=True)]
    product = torch.stack(logs).sum(dim=0).exp()
    return within_errors(
        value, product, error=error, why="a mean of exp(tX); M(4t) is finite"
    ).named("M of the sum").drawn(
        Series("E[exp(tS)] over draws", t, value, error=5 * error),
        Series("product of three", t, product, role="predicted"),
        *(Series(f"M of X{k}", t, log.exp(), "other") for k, log in enumerate(logs, start=1)),
        x="t", y="moment generating function",
    )


@claim(control={"law": "normal"}, source="Curtiss 1942")
def mgf_uniqueness(
    seed: Seed, *, k: Annotated[int, Range(1, 30)] = 3, samples: Samples = 100_000,
    law: Literal["gamma", "normal"] = "gamma",
) -> Evidence:
    r"""$\sum_{i\le k}Z_i^2$ has the MGF of Gamma(k/2, scale 2), so it has that law."""
    ours, theirs = Gamma(k / 2 * ONE, 0.5), stats.gamma(k / 2, scale=2)
    if law == "normal":  # with the same mean and variance
        ours, theirs = Normal(k * ONE, math.sqrt(2 * k)), stats.norm(k, math.sqrt(2 * k))
    z, t = torch.linspace(-40, 40, 801, dtype=ONE.dtype), torch.linspace(-1, 0.4, 29).to(ONE)
    terms = (Normal(0 * ONE, ONE).log_prob(z) + t[:, None] * z**2).exp()
    squared = torch.trapezoid(terms, z, dim=1)  # spectrally accurate: all derivatives end at 0
    draws = randn(seed.torch(), k, samples).square().sum(dim=0)
    return every({
        "draws": follows(draws, theirs, why="independent sums of squares of normal numbers"),
        "logarithm of the MGF": equal_to_rounding(k * squared.log(), log_mgf(ours)(t)),
    })

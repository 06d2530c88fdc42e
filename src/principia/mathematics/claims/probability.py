r"""Probability: what is true of it, and what would refute it."""

import math
from typing import Annotated, Any, Literal

import numpy as np
import torch
from scipy import stats
from scipy.signal import lfilter
from scipy.special import gammaincinv, ndtr
from torch import Tensor
from torch.distributions import Bernoulli, Beta, Distribution, Gamma, Normal
from torch.func import grad, vmap

from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    slope,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.mathematics.probability import (
    DKW,
    RARE,
    Baseline,
    EmpiricalDistribution,
    JointTable,
    affine,
    bayes,
    density_of_sum,
    dkw_radius,
    mutual_nats,
    score_gradient,
)

Size = Annotated[int, Range(2, 12)]


@claim(control={"independent": True}, refutes=["product rule"], source="Kolmogorov 1933")
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
        "product rule": equal_to_rounding(rebuilt, joint).drawn(
            Series("cells of the table", joint.flatten(), rebuilt.flatten()),
            Series("equal", [0, joint.max()], [0, joint.max()], role="predicted"),
            x="P(x, y, z)", y="P(z | x, y) P(y | x) P(x)",
        ),
        "sum rule": equal_to_rounding(
            table.marginal("z", "x").probs, probs.sum(dim=1).mT / probs.sum()
        ),
        "a variable that is known": equal_to_rounding(
            known.probs, table.conditional("x", "z", given="y")[..., 1]
        ),
    })


def _dirichlet(rng: np.random.Generator, *shape: int, concentration: float = 1.0) -> Tensor:
    """Draw probabilities that sum to 1 along the last axis."""
    return torch.from_numpy(rng.dirichlet([concentration] * shape[-1], size=shape[:-1]))


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
        "share of the first class among samples": within_errors(
            shares[:, 0], posterior[:, 0], error=error, why="binomial shares, given x"
        ).drawn(
            Series("share among samples", range(outcomes), shares[:, 0], error=5 * error),
            Series("bayes", range(outcomes), posterior[:, 0], "predicted", "points"),
            x="outcome x", y="P(first class | x)",
        ),
        "column of the joint table": equal_to_rounding(
            posterior, table.conditional("class", given="x").mT
        ),
    })


@claim(control={"coupling": 0.3}, refutes=["P(x, y | z)", "P(x | y, z)"], source="Dawid 1979")
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
            mutual_nats(table, "x", "y", "net"), 1e-6,
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
    control={"formula": "1 / a"},
    refutes=["integral", "log_prob"],
    source="change of variables",
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
        "log_prob": equal_to_rounding(torch.stack(by_torch), torch.stack(densities)),
        "distance of the distribution functions": at_most(
            torch.stack(distances), dkw_radius(len(draws), RARE), why=DKW
        ),
    })


def _histogram(name: str, draws: Tensor) -> Series:
    heights, edges = np.histogram(draws.numpy(), bins=60, density=True)
    return Series(name, (edges[1:] + edges[:-1]) / 2, heights, style="bars")


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


@claim(
    control={"rho": 0.95},
    refutes=["how often the bound for 0.05 is exceeded"],
    source="Massart 1990",
)
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
        "EmpiricalDistribution": equal_to_rounding(
            EmpiricalDistribution(torch.from_numpy(draws[0])).cdf(first),
            stats.ecdf(draws[0]).cdf.evaluate(first.numpy()),
        ),
    })


def _chains(rng: np.random.Generator, shape: tuple[int, int], rho: float) -> np.ndarray:
    """Draw rows of uniform numbers: independent, or levels of the chain x' = rho x + e."""
    if rho == 0:
        return rng.random(shape)
    noise = math.sqrt(1 - rho**2) * rng.standard_normal(shape)
    noise[:, 0] /= math.sqrt(1 - rho**2)  # starts in its stationary law
    return ndtr(lfilter([1.0], [1.0, -rho], noise, axis=1))


def _distances(levels: np.ndarray) -> np.ndarray:
    """Measure sup|F̂ - F| of each row of F(x_i), just before and at each jump."""
    n, ranked = levels.shape[1], np.sort(levels, axis=1)
    ranks = np.arange(n) / n
    return np.maximum(ranked - ranks, ranks + 1 / n - ranked).max(axis=1)


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
        "probabilities": equal_to_rounding(probs, shares).drawn(
            Series("share of the samples", atoms, shares, style="bars"),
            Series("p̂(t)", atoms, probs, "predicted", "points"), x="value t", y="probability",
        ),
        "expectations": equal_to_rounding(
            means, torch.stack([law.expectation(g) for g in (torch.sin, torch.square)])
        ),
        "mean and variance": equal_to_rounding(
            torch.stack([law.mean, law.variance]),
            [center, float(probs @ (atoms.double() - center) ** 2)],
        ),
        "distribution function": equal_to_rounding(law.cdf(atoms), probs.cumsum(dim=0)),
        "mean of a bootstrap sample": within_errors(
            again.mean(), center, error=float(law.stddev) / len(again) ** 0.5, why="a mean"
        ),
    })


@claim(
    control={"support": "moves with theta"},
    refutes=["estimate, baseline none", "estimate, baseline leave-one-out"],
    source="Williams 1992",
)
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
        parts[f"estimate, baseline {baseline}"] = within_errors(
            value, truths, error=error, why="a mean of score times x² over the samples"
        ).drawn(
            Series("estimate", names, value, error=5 * error),
            Series("gradient of E[x²]", names, truths, "predicted", "points"),
            x="parameter of the law", y="derivative of E[x²]",
        )
    return every({
        **parts,
        "at single points": equal_to_rounding(torch.cat(by_score), torch.cat(direct)),
        "leave-one-out is a covariance": equal_to_rounding(
            torch.cat(small), torch.cat(covariances)
        ),
    })


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

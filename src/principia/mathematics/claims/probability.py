r"""Probability: what is true of it, and what would refute it.

Knobs:
    rows: Values of the first variable of the table.
    columns: Values of the second variable.
    layers: Values of the third variable.
    independent: Whether the variables are taken as independent, which this table denies.
    prior: The probability of the first class before anything is seen.
    outcomes: Values that may be seen.
    samples: Observations that are drawn.
    use_prior: Whether the posterior uses the prior; without, the rare class is overrated.
    nets: Random tables that are looked at, all at once.
    states: Values of X, and of Y.
    causes: Values of their common cause Z.
    coupling: How much X acts on Y directly; any amount makes them dependent given Z.
    common: Whether Z acts on X; if not, X and Y have nothing in common.
    h: The largest step of the difference quotients.
    points: Random points at which the slope is measured.
    atom: Whether half of the mass sits on one point, where no density can be.
    shape: The shape of the gamma law.
    scale: The least stretch $|a|$ of the variable.
    shift: The number $b$ that is added to it.
    formula: What the density is divided by; without the bars it is negative for a negative stretch.
    width: The width of the interval on which X is uniform.
    dependent: Whether Y is made of the same random number as X; a sum is then no convolution.
    repetitions: How many times such a sample is drawn, to count how often the bound fails.
    copies: How often each observation is repeated, as a power of their number; 0 is never.
    rate: The mean of the Poisson law that is drawn from.
    mass: Whether each draw counts, or each value once, however often it was drawn.
    size: The standard deviation of the normal law, and the scale of others.
    support: Whether the parameter also moves where the law ends, which the score cannot see.
"""

import functools
import math
from typing import Annotated, Any, Literal

import numpy as np
import torch
from scipy import stats
from scipy.special import gammaincinv, ndtr, rel_entr
from torch import Tensor
from torch.distributions import Bernoulli, Beta, Distribution, Gamma, Normal
from torch.func import grad, vmap

from principia.lab.evidence import (
    Control,
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
from principia.lab.pictures import Matrix
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
    counts = torch.from_numpy(seed.numpy().integers(1, 1000, (rows, columns, layers)))
    counts[0] = 0
    table = JointTable(counts, ("rain", "wind", "sun"), normalize=True)
    joint, probs = table.probs, counts / counts.sum().double()
    x, y_given_x = table.marginal("rain").probs, table.conditional("wind", given="rain")
    z_given_xy = table.conditional("sun", given=("rain", "wind"))
    if independent:
        y_given_x = table.marginal("wind").probs[:, None].expand(-1, rows)
        z_given_xy = table.marginal("sun").probs[:, None, None].expand(-1, rows, columns)
    rebuilt = (z_given_xy * y_given_x.mT * x[:, None]).permute(1, 2, 0)
    known, pair = table.condition(wind=1).marginal("sun", "rain"), table.condition(sun=1, rain=2)
    single = JointTable(counts.float(), table.names, normalize=True)
    return every({
        "product rule": equal_to_rounding(rebuilt, joint).drawn(
            Matrix(torch.cat([joint.flatten(1), rebuilt.flatten(1)])),
            x="pairs of y and z", y="x, of P(x, y, z) and of P(z | x, y) P(y | x) P(x)",
        ),
        "sum rule": equal_to_rounding(table.marginal("sun", "rain").probs, probs.sum(dim=1).mT),
        "variables that are known": equal_to_rounding(
            torch.cat([known.probs.flatten(), pair.probs]),
            torch.cat([table.conditional("sun", "rain", given="wind")[..., 1].flatten(),
                       probs[2, :, 1] / probs[2, :, 1].sum()]),
        ),
        "what never happens": equal(
            torch.cat([y_given_x[:, 0], joint[0].flatten()]), 0, tol=0,
            why="0 by convention, where a quotient would be 0/0",
        ),
        "bytes of a number": equal([single.probs.itemsize, joint.itemsize], [4, 8], tol=0,
                                   why="floats stay as they are"),
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


@claim(
    control=[
        Control({"coupling": 0.3}, ["P(x, y | z)", "P(x | y, z)"], "an arrow from X to Y"),
        Control({"common": False}, ["mean information between X and Y"], "no arrow from Z to X"),
    ],
    source="Dawid 1979",
)
def conditional_independence(
    seed: Seed, *, nets: Annotated[int, Range(20, 500)] = 100, states: Size = 4, causes: Size = 3,
    coupling: Annotated[float, Range(0, 1)] = 0.0, common: bool = True,
) -> Evidence:
    r"""$X\leftarrow Z\to Y$: $P(x,y\mid z)=P(x\mid z)P(y\mid z)$, though X and Y are dependent."""
    rng = seed.numpy()
    z, x_given_z = _dirichlet(rng, nets, causes), _dirichlet(rng, nets, causes, states)
    x_given_z = x_given_z if common else x_given_z[:, :1].expand_as(x_given_z)
    by_z, by_xz = (_dirichlet(rng, nets, causes, rows, states) for rows in (1, states))
    y_given_xz = (1 - coupling) * by_z + coupling * by_xz
    probs = z[..., None, None] * x_given_z[..., None] * y_given_xz / nets
    table = JointTable(probs, ("net", "cause", "x", "y"))  # all nets at once: which is a variable
    given = ("net", "cause")
    both, x, y = (table.conditional(*names, given=given) for names in ("xy", "x", "y"))
    product = x[:, None] * y
    nats, pairs = mutual_nats(table, "x", "y", "net"), nets * probs.sum(dim=1)  # (nets, x, y)
    apart = pairs.sum(dim=2, keepdim=True) * pairs.sum(dim=1, keepdim=True)
    left, space = (both - product)[:, :, 0], torch.full((states, 1), math.nan)
    gaps = torch.cat([pairs[0] - apart[0], space, left[..., 0], space, left[..., 1]], dim=1)
    return every({
        "P(x, y | z)": equal_to_rounding(both, product).drawn(
            Matrix(gaps.round(decimals=3), signed=True, high=0.03, written=True), y="x",
            x="y: P(x, y) − P(x) P(y), then the same given z = 0, and given z = 1",
        ),
        "P(x | y, z)": equal_to_rounding(
            table.conditional("x", given=("y", *given)), x[:, None].expand_as(both)
        ),
        "mean information between X and Y": at_least(
            nats, 1e-6, why="independent variables have none, and rounding makes some 1e-15"
        ),
        "by SciPy": equal_to_rounding(nats, rel_entr(pairs.numpy(), apart.numpy()).sum() / nets),
    })


@claim(control={"atom": True}, source="Kolmogorov 1933")
def density_is_cdf_slope(
    seed: Seed, *, h: Annotated[float, Range(0.002, 0.05)] = 0.02,
    points: Annotated[int, Range(10, 2000)] = 200, atom: bool = False,
) -> Evidence:
    r"""$\frac d{dt}P(X\le t)=f_X(t)$; the central difference is off by $h^2\max|f''|/6$ at most."""
    rng, one, (a, b) = seed.numpy(), torch.ones((), dtype=torch.float64), (-2.0, 1.5)
    laws: dict[str, tuple[Any, Distribution]] = {  # of aY + b, whose distribution SciPy knows
        "normal": (stats.norm(), Normal(0 * one, one)),
        "gamma": (stats.gamma(3), Gamma(3 * one, one)),
        "beta": (stats.beta(3, 4), Beta(3 * one, 4 * one)),
    }
    cases = [
        (name, lambda t, law=law: law.sf((t - b) / a), sorted(a * law.ppf([0.01, 0.99]) + b),
         affine(f, a, b))
        for name, (law, f) in laws.items()
    ]
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
        series += [Series(name, steps, errors[-1]),
                   Series(f"{name}: h² max|f''| / 6", steps, bounds[-1], role="bound")]
    why = "Taylor's formula, and rounding of the distribution functions, 1e-14, over h"
    return at_most(np.array(errors), np.array(bounds), why=why).named("error of a slope").drawn(
        *series, x="h", y="largest error of the difference quotient", log="xy"
    )


@claim(
    control={"formula": "1 / a"}, refutes=["integral", "log_prob"], source="change of variables",
    misprint=r"$f_{aY}(z)=\frac1af_Y(z/a)$ for every $a\ne0$; it is $\frac1{|a|}$",
)
def affine_density(
    seed: Seed, *, shape: Annotated[float, Range(2, 9)] = 3.0,
    scale: Annotated[float, Range(0.2, 3)] = 1.0, shift: Annotated[float, Range(-5, 5)] = 1.5,
    formula: Literal["1 / |a|", "1 / a"] = "1 / |a|",
) -> Evidence:
    r"""$aY+b$ has the density $f_Y((z-b)/a)/|a|$, for positive and for negative $a$."""
    base = Gamma(torch.tensor(shape, dtype=torch.float64), 1.0)
    draws = torch.from_numpy(seed.numpy().gamma(shape, size=100_000))
    top = float(gammaincinv(shape, 1 - 1e-12))
    t = torch.linspace(1e-6, top, 50_001, dtype=torch.float64)
    integrals, densities, by_torch, distances = [], [], [], []
    for a in (3 * scale, 2 * scale, scale, -scale, -3 * scale, -2 * scale):
        b = 0.0 if a == scale else shift
        z, law = (a * t + b).sort().values, affine(base, a, b) if b else affine(base, a)
        factor = 1 / a if formula == "1 / a" else 1 / abs(a)
        density = factor * torch.from_numpy(stats.gamma.pdf(((z - b) / a).numpy(), shape))
        integrals.append(torch.trapezoid(density, z))
        densities.append(density)
        by_torch.append(law.log_prob(z).exp())
        sample = EmpiricalDistribution(a * draws + b)
        distances.append((sample.cdf(z[::50]) - law.cdf(z[::50])).abs().max())
    return every({
        "integral": equal(
            torch.stack(integrals), 1, tol=1e-6, why="trapezoids, 50,000 steps: h²/12 at most"
        ).drawn(
            _histogram("draws of aY + b", sample.samples),
            Series("formula", z[::250], density[::250], role="predicted"),
            x="z", y=f"density, a = {a:g}",
        ),
        "log_prob": equal_to_rounding(torch.stack(by_torch), torch.stack(densities)),
        "distance of the distribution functions": at_most(
            torch.stack(distances), dkw_radius(len(draws), RARE), why=DKW
        ),
    })


def _histogram(name: str, draws: Tensor) -> Series:
    heights, edges = np.histogram(draws.numpy(), bins=60, density=True)
    return Series(name, (edges[1:] + edges[:-1]) / 2, heights, style="bars")


@claim(
    control={"dependent": True}, refutes=["distance of the distribution functions"],
    source="Feller 1971, An introduction to probability, vol. 2",
)
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
    middles = torch.arange(step / 2, top, step, dtype=torch.float64)
    uniform = torch.arange(step / 2, 2 * width, step, dtype=torch.float64).lt(width) / width
    gamma = torch.from_numpy(stats.gamma.pdf(middles.numpy(), shape))
    density = density_of_sum(uniform.clone().requires_grad_(), gamma.clone().requires_grad_(), step)
    z = step * (1 + torch.arange(len(density), dtype=torch.float64))
    distance = (EmpiricalDistribution(draws).cdf(z) - density.cumsum(dim=0) * step).abs().max()
    exact = (stats.gamma.cdf(z, shape) - stats.gamma.cdf(z - width, shape)) / width
    # X and Y move within their cells, and a sum over cells misses a unimodal mass by step * max f
    grid = 2 * step * float(uniform.max() + gamma.max())
    return every({
        "distance of the distribution functions": at_most(
            distance, dkw_radius(samples, RARE) + grid, why=f"{DKW}; and the grid"
        ).drawn(
            _histogram("draws of X + Y", draws),
            Series("convolution", z[::100], density[::100], role="predicted"),
            x="z", y="density",
        ),
        "closed form": equal(
            density, exact, tol=grid / width, why="a cell more or less at the end of the width"
        ),
        "no negative density": at_least(density.min(), 0, why="exact: the transform only rounds"),
    })


@claim(
    control={"copies": 0.5}, refutes=["rate", "how often the bound for 0.05 is exceeded"],
    source="Massart 1990",
)
def empirical_cdf_rate(
    seed: Seed, *, samples: Annotated[int, Range(20, 1000)] = 200,
    repetitions: Annotated[int, Range(500, 5000)] = 2000,
    copies: Annotated[float, Range(0, 0.9)] = 0.0,
) -> Evidence:
    r"""$P(\sup|\hat F_n-F|>\epsilon)\le2e^{-2n\epsilon^2}$: the error falls as $n^{-1/2}$."""
    delta, sizes = 0.05, np.geomspace(100, 100_000, 19).astype(int)
    draws = _uniform(seed.numpy(), (repetitions, samples), copies)
    exceeded = (_distances(draws) > dkw_radius(samples, delta)).mean()
    means = [_distances(_uniform(seed.child(n).numpy(), (40, n), copies)).mean()
             for n in map(int, sizes)]
    law = EmpiricalDistribution(torch.from_numpy(draws[0]))
    counts, chances = np.meshgrid([1, 7, samples], [RARE, delta, 1.0])
    radii = [dkw_radius(int(n), p) for n, p in zip(counts.flat, chances.flat, strict=True)]
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
            law.cdf(law.samples), stats.ecdf(draws[0]).cdf.evaluate(draws[0])
        ),
        "dkw_radius": equal_to_rounding(
            2 * np.exp(-2 * counts.ravel() * np.square(radii)), chances.ravel()
        ),
    })


def _uniform(rng: np.random.Generator, shape: tuple[int, int], copies: float) -> np.ndarray:
    """Draw rows of n uniform numbers, each of which stands there n^copies times."""
    rows, n = shape
    each = round(n**copies)
    return rng.random((rows, -(-n // each))).repeat(each, axis=1)[:, :n]


def _distances(levels: np.ndarray) -> np.ndarray:
    """Measure sup|F̂ - F| of each row of F(x_i), just before and at each jump."""
    n, ranked = levels.shape[1], np.sort(levels, axis=1)
    ranks = np.arange(n) / n
    return np.maximum(ranked - ranks, ranks + 1 / n - ranked).max(axis=1)


@claim(
    control={"mass": "equal for distinct values"}, source="by definition",
    refutes=["probabilities", "expectations", "distribution function", "mean of a bootstrap"],
)
def empirical_expectation(
    seed: Seed, *, samples: Annotated[int, Range(50, 20_000)] = 1000,
    rate: Annotated[float, Range(1, 20)] = 3.0,
    mass: Literal["1 / n each", "equal for distinct values"] = "1 / n each",
) -> Evidence:
    r"""$E_{\hat p_n}[g]=\frac1n\sum_ig(x_i)$ and $\hat p_n(t)=\#\{x_i=t\}/n$, with repeats."""
    draws = torch.from_numpy(np.sort(seed.numpy().poisson(rate, size=samples)))
    law, (atoms, counts) = EmpiricalDistribution(draws), torch.unique(draws, return_counts=True)
    shares, probs, x = counts.double() / samples, law.log_prob(atoms).exp(), atoms.double()
    if mass != "1 / n each":
        probs = torch.full_like(probs, 1 / len(atoms))
    center, again = probs @ x, law.sample((100, 500), seed.child("bootstrap").torch()).double()
    pairs = torch.stack([draws, draws % 3], dim=1)
    both, grid = EmpiricalDistribution(pairs.float()), torch.cartesian_prod(atoms, atoms[:3])
    hits = (grid[:, None] == pairs).all(dim=-1).double().mean(dim=1)
    found = [both.log_prob(grid.reshape(-1, 3, 2)).exp(), both.mean, both.variance,
             both.expectation(torch.cos)]
    rows = pairs.double().numpy()
    theirs = np.concatenate([hits, rows.mean(axis=0), rows.var(axis=0), np.cos(rows).mean(axis=0)])
    return every({
        "probabilities": equal_to_rounding(probs, shares).drawn(
            Series("share of the samples", atoms, shares, style="bars"),
            Series("p̂(t)", atoms, probs, "predicted", "points"), x="value t", y="probability",
        ),
        "expectations": equal_to_rounding(
            torch.stack([law.expectation(torch.sin), law.mean, law.variance]),
            torch.stack([probs @ x.sin(), center, probs @ (x - center) ** 2]),
        ),
        "distribution function": equal_to_rounding(law.cdf(atoms), probs.cumsum(dim=0)),
        "mean of a bootstrap": within_errors(
            again.mean(), center, error=law.stddev / again.numel() ** 0.5, why="a mean"
        ),
        "pairs in single precision": equal(
            torch.cat([one.flatten() for one in found]), theirs, tol=1e-4 * rate,
            why="float32: sums of a thousand numbers of the size of the rate",
        ),
        "bytes of a number": equal(
            [one.itemsize for one in (*found, both.sample((2,), seed.torch()), law.mean)],
            [4] * 5 + [8], tol=0, why="floats stay as they are",
        ),
    })


@claim(
    control={"support": "moves with theta"}, refutes=["estimate"], source="Williams 1992",
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
        slopes = vmap(grad(density), in_dims=(None, 0))(at, few)
        direct += [slopes.mean(dim=0), slopes.std(dim=0) / len(few) ** 0.5]
        by_score += score_gradient(log_prob, functools.partial(density, at), at, few)
        score = vmap(grad(log_prob), in_dims=(None, 0))(at, few)
        column = score_gradient(lambda t, x, log=log_prob: log(t[:, 0], x), torch.square,
                                at[:, None], few, baseline="leave-one-out")[0]  # as a matrix
        small.append(column[:, 0])
        covariances.append((few**2 - (few**2).mean()) @ score / (len(few) - 1))
        for baseline, estimate in found.items():
            estimate.append(score_gradient(log_prob, torch.square, at, x, baseline=baseline))
        names += [f"{name} {k + 1}" for k in range(len(theta))]
        truths += truth
    parts = {}
    for baseline, pairs in found.items():
        value, error = (torch.cat(part) for part in zip(*pairs, strict=True))
        parts[f"baseline {baseline}"] = within_errors(
            value, truths, error=error, why="a mean of score times x² over the samples"
        ).drawn(
            Series("estimate", names, value, error=5 * error),
            Series("gradient of E[x²]", names, truths, "predicted", "points"),
            x="parameter of the law", y="derivative of E[x²]",
        )
    return every({
        "estimate": every(parts),
        "the density as f": equal_to_rounding(torch.cat(by_score), torch.cat(direct)),
        "leave-one-out is a covariance": equal_to_rounding(*map(torch.cat, (small, covariances))),
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

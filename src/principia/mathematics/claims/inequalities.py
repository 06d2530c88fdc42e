r"""Inequalities: what is true of it, and what would refute it.

Knobs:
    thresholds: Thresholds at which tails and bounds are compared.
    mean: The mean of the exponential law.
    sigma: The standard deviation of the logarithm of the lognormal law.
    p: The chance of 1 in the Bernoulli law, or of a bit.
    phi: Whether the function in Markov's inequality increases; with a decreasing one it is false.
    draws: Random cases that are tried.
    longest: The largest threshold.
    law: The law whose tail is measured; only that on two points attains the bound.
    skew: The chance of the upper of two points; near 1 the law is far from symmetric.
    bound: The bound that is checked; the second one is a mistake, which some laws show.
    pairs: Random pairs of vectors.
    dim: Entries of a vector.
    right: The right side of the inequality; to square the sum of y is a mistake.
    angles: Angles between two vectors, from 0 to 180 degrees.
    tilt: How many degrees vectors that are called parallel are apart.
    points: Points that are averaged.
    f: Whether the functions are convex; the sine is not.
    mu: The mean of the normal law.
    largest: The largest standard deviation; each next one is half of it.
    shrinks: Whether the standard deviation shrinks; if not, the curvature does not tell the gap.
    n: Bits that a mean is taken of.
    laws: Further, random chances of a bit.
    copies: Whether all bits are copies of one, so that their mean has the tail of one bit.
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import torch
from scipy import stats
from scipy.special import rel_entr
from torch import Tensor

from principia.lab.draws import rand, randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    slope,
    tends_to,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.mathematics.inequalities import (
    Function,
    bernstein_bound,
    cantelli_bound,
    cauchy_schwarz_gap,
    chebyshev_bound,
    chernoff_bound,
    hoeffding_bound,
    jensen_gap,
    markov_bound,
)

Thresholds = Annotated[int, Range(20, 500)]
Draws = Annotated[int, Range(1000, 100_000)]
ROUNDING = 1e-12  # relative to the two sides: what float64 may add to an inequality
SKEWED = "two points"
FLOOR = 1e-4  # of the pictures: a normal tail would leave the others no room
NO_SLACK = "a theorem: 1e-12 for rounding"
PHIS = {  # never decreasing where X >= 0, and one that decreases; quadrature goes far out
    "x": lambda x: x, "x²": np.square, "e^(x/4)": lambda x: np.exp(np.minimum(x, 2800) / 4),
    "e^(-x)": lambda x: np.exp(-x),
}
CURVES: dict[str, tuple[Function, Callable[[Any, Any], Any]]] = {  # f, and E f of a gamma law
    "x²": (torch.square, lambda k, s: k * (k + 1) * s**2),
    "exp": (torch.exp, lambda k, s: (1 - s) ** -k),
    "|x|": (torch.abs, lambda k, s: k * s),
    "-log": (lambda x: -x.log(), lambda k, s: -(k.digamma() + s.log())),
    "sin": (torch.sin, lambda k, s: ((1 - 1j * s) ** -k).imag),
}


@claim(control={"phi": "decreasing"}, source="Chebyshev 1867; Markov 1884")
def markov(
    seed: Seed, *, thresholds: Thresholds = 50, mean: Annotated[float, Range(0.2, 3.5)] = 1.0,
    sigma: Annotated[float, Range(0.2, 1.5)] = 1.0, p: Annotated[float, Range(0.05, 0.95)] = 0.3,
    phi: Literal["increasing", "decreasing"] = "increasing",
) -> Evidence:
    r"""$P(X\ge\epsilon)\le E[\varphi(X)]/\varphi(\epsilon)$, $\varphi\ge0$ never decreasing."""
    eps = np.sort(np.append(_spread(seed, thresholds - 1, 0.1, 20), 1.0))  # where Bernoulli jumps
    laws: dict[str, Any] = {
        "exponential": stats.expon(scale=mean), "Bernoulli": stats.bernoulli(p),
        "lognormal": stats.lognorm(sigma), "Pareto(3)": stats.pareto(3),
    }
    names = ["x", "x²", "e^(x/4)"] if phi == "increasing" else ["e^(-x)"]
    pairs = [
        (law, name) for law in laws for name in names
        if name != "e^(x/4)" or law in ("exponential", "Bernoulli")  # the others have no such mean
    ]
    tails, bounds = {}, {}
    for law, name in pairs:
        order = names.index(name) + 1
        # powers by closed forms: quadrature of a heavy tail has few digits
        moment = laws[law].moment(order) if name in ("x", "x²") else laws[law].expect(PHIS[name])
        tails[law, name] = _tail(laws[law], eps)
        bounds[law, name] = markov_bound(float(moment), torch.from_numpy(PHIS[name](eps))).numpy()
    ratios = np.array([tails[pair] / bounds[pair] for pair in pairs])
    return at_most(ratios, 1, slack=ROUNDING, why=NO_SLACK).named("tail over its bound").drawn(
        Series("P(X >= eps), exponential", eps, tails[pairs[0]], style="line"),
        *[Series(f"bound, phi = {name}", eps, np.minimum(bounds["exponential", name], 10), "other")
          for name in names],
        x="threshold eps", y="tail, and E[phi(X)] / phi(eps)", log="xy",
    )


def _spread(seed: Seed, n: int, low: float, high: float) -> np.ndarray:
    """Draw one number from each of n cells, all as wide on a logarithmic scale."""
    levels = (np.arange(n) + seed.numpy().random(n)) / n
    return low * (high / low) ** levels


def _tail(law: Any, at: np.ndarray) -> np.ndarray:
    """Give P(X >= at) of a law of scipy, whose sf is P(X > at)."""
    return law.sf(np.nextafter(at, -np.inf))


@claim(control={"law": "exponential"}, source="Boucheron, Lugosi and Massart 2013, sec. 2.1")
def markov_tight(
    seed: Seed, *, draws: Annotated[int, Range(2, 2000)] = 200,
    longest: Annotated[float, Range(0.5, 4)] = 3.0,
    law: Literal["two points", "exponential"] = "two points",
) -> Evidence:
    r"""Markov's bound is attained by the law on $\{0,\epsilon\}$, for any $\varphi(0)=0$."""
    rng = seed.numpy()
    eps, p = rng.uniform(0.1, longest, draws), rng.uniform(0.02, 0.98, draws)
    atoms, mass = np.stack([0 * eps, eps]), np.stack([1 - p, p])
    tails, mean = (mass * (atoms >= eps)).sum(axis=0), (mass * atoms).sum(axis=0)
    if law == "exponential":  # of the same mean
        tails = stats.expon.sf(eps, scale=mean)
    phis = {  # with their means under the exponential law
        "x": (PHIS["x"], mean), "x²": (PHIS["x²"], 2 * mean**2),
        "e^(x/4) - 1": (lambda x: np.expm1(x / 4), mean / (4 - mean)),
    }
    bounds = []
    for phi, exponential in phis.values():
        means = exponential if law == "exponential" else (mass * phi(atoms)).sum(axis=0)
        bounds.append(markov_bound(torch.from_numpy(means), torch.from_numpy(phi(eps))).numpy())
    return equal_to_rounding(tails / np.array(bounds), 1).named("tail over its bound").drawn(
        *[Series(f"phi = {name}", bound, tails, "other", "points")
          for name, bound in zip(phis, bounds, strict=True)],
        Series("attained", [0, 1], [0, 1], role="bound"),
        x="E[phi(X)] / phi(eps)", y="P(X >= eps)",
    )


@claim(
    control={"bound": "E[phi(X - mu)] / phi(eps)"}, source="Chebyshev 1867",
    misprint=r"$P(f(X)\ge\epsilon)\le E[\varphi(f(X))]/\varphi(\epsilon)$ as Chebyshev's: it is "
    r"Markov's again, not centered, and without the condition $\varphi(\epsilon)>0$",
)
def chebyshev(
    seed: Seed, *, thresholds: Thresholds = 50, skew: Annotated[float, Range(0.7, 0.99)] = 0.9,
    bound: Literal["sigma² / eps²", "E[phi(X - mu)] / phi(eps)"] = "sigma² / eps²",
) -> Evidence:
    r"""$P(|X-\mu|\ge\epsilon)\le\sigma^2/\epsilon^2$: Markov for $|X-\mu|$ with $\varphi=x^2$."""

    def limit(variance: Any, upper: Any, eps: np.ndarray) -> np.ndarray:
        """Bound as asked; phi(x) = max(x, 0)² never decreases, and sees the upper side alone."""
        if bound == "sigma² / eps²":
            return chebyshev_bound(variance, torch.from_numpy(eps)).numpy()
        return markov_bound(upper, torch.from_numpy(eps**2)).numpy()

    units = _spread(seed, thresholds, 0.2, 12)  # in standard deviations
    tails, limits, by_markov = {}, {}, []
    for name, law in _laws(skew).items():
        mu, eps = float(law.mean()), units * law.std()
        lower, upper = (
            float(law.expect(lambda x, mu=mu, part=part: part(x - mu, 0) ** 2))
            for part in (np.minimum, np.maximum)
        )
        tails[name] = law.cdf(mu - eps) + _tail(law, mu + eps)
        limits[name] = limit(float(law.var()), upper, eps)
        by_markov.append(markov_bound(lower + upper, torch.from_numpy(eps**2)).numpy())
    k = _spread(seed.child("k"), thresholds, 1, 20)
    atoms, mass = np.stack([-k, 0 * k, k]), np.stack([k**-2 / 2, 1 - k**-2, k**-2 / 2])
    variance, upper = (
        torch.from_numpy((mass * part**2).sum(axis=0)) for part in (atoms, np.maximum(atoms, 0))
    )
    attained = (mass * (np.abs(atoms) >= k)).sum(axis=0) / limit(variance, upper, k)
    every_tail, every_limit = np.array(list(tails.values())), np.array(list(limits.values()))
    return every({
        "six laws": at_most(every_tail / every_limit, 1, slack=ROUNDING, why=NO_SLACK).drawn(
            *[Series(name, units, np.maximum(tail, FLOOR), "other")
              for name, tail in tails.items()],
            Series(f"bound for {SKEWED}", units, limits[SKEWED], role="bound"),
            x="eps / sigma", y="P(|X - mu| >= eps)", log="xy",
        ),
        "law on -k, 0, k": equal_to_rounding(attained, 1),
        "Markov's bound": equal(
            every_limit, np.array(by_markov), tol=1e-6 * every_limit,
            why="quadrature of the variances, 1e-6 of them",
        ),
    })


def _laws(skew: float) -> dict[str, Any]:
    """Give six laws, the last on two points, of which the rare one is the lower."""
    return {
        "normal": stats.norm(1, 2), "uniform": stats.uniform(), "exponential": stats.expon(),
        "lognormal": stats.lognorm(0.8), "Pareto(3)": stats.pareto(3),
        SKEWED: stats.bernoulli(skew),
    }


@claim(control={"right": "sum x² (sum y)²"}, source="Cauchy 1821; Schwarz 1888; Steele 2004")
def cauchy_schwarz(
    seed: Seed, *, pairs: Draws = 100_000, dim: Annotated[int, Range(2, 50)] = 8,
    right: Literal["sum x² sum y²", "sum x² (sum y)²"] = "sum x² sum y²",
) -> Evidence:
    r"""$\langle x,y\rangle^2\le\langle x,x\rangle\langle y,y\rangle$: sums, products, means."""
    rng = seed.torch()
    x, noise, root = (randn(rng, *shape) for shape in ((pairs, dim), (pairs, dim), (dim, dim)))
    # from independent to parallel up to rounding, where the two sides meet
    y = randn(rng, pairs, 1) * x + 10 ** (-12 * rand(rng, pairs, 1) ** 3) * noise
    x[0], y[0] = 0, 0
    x[0, :2] = y[0, :2] = torch.tensor([1.0, -1.0])
    unit, p = torch.eye(dim, dtype=x.dtype), _weights(rng, dim)
    gram = unit + root @ root.mT / dim
    forms = {  # the matrix of an inner product, and a root of it
        "sums": (unit, unit), "inner product": (gram, torch.linalg.cholesky(gram)),
        "expectations": (p.diag(), p.sqrt().diag()),
    }
    parts = {}
    for name, (matrix, root) in forms.items():
        xx, yy, xy = ((a @ matrix * b).sum(dim=-1) for a, b in ((x, x), (y, y), (x, y)))
        larger = xx * (yy if right == "sum x² sum y²" else (y @ matrix).sum(dim=-1) ** 2)
        gap, least, seen = cauchy_schwarz_gap(x @ root, y @ root), -ROUNDING * xx * yy, slice(400)
        parts[name] = never((larger - xy**2 < least) | (gap < least), why=NO_SLACK).drawn(
            Series("pairs", larger[seen], xy[seen] ** 2),
            Series("equal", larger[seen].sort().values, larger[seen].sort().values, role="bound"),
            x="right side", y="<x, y>²", log="xy",
        )
    return every(parts)


def _weights(rng: torch.Generator, *shape: int) -> Tensor:
    """Draw points of the simplex, uniformly, along the last axis."""
    draws = torch.empty(*shape, dtype=torch.float64).exponential_(generator=rng)
    return draws / draws.sum(dim=-1, keepdim=True)


@claim(control={"tilt": 30.0}, refutes=["parallel"], source="Lagrange 1773; Steele 2004, chap. 3")
def cauchy_schwarz_equality(
    seed: Seed, *, dim: Annotated[int, Range(2, 200)] = 8,
    angles: Annotated[int, Range(10, 1000)] = 91, tilt: Annotated[float, Range(0, 90)] = 0.0,
) -> Evidence:
    r"""The gap is $\Vert x\Vert^2\Vert y\Vert^2\sin^2\theta$: 0 exactly where they are parallel."""
    rng = seed.torch()
    (u, v), lengths = torch.linalg.qr(randn(rng, dim, 2)).Q.mT, 0.5 + 2 * rand(rng, 2)
    degrees = torch.linspace(0, 180, angles, dtype=torch.float64)
    x, area = lengths[0] * u, float(lengths.prod()) ** 2

    def gap(degrees: Tensor) -> Tensor:
        theta = degrees.deg2rad()[:, None]
        y = lengths[1] * (theta.cos() * u + theta.sin() * v)
        return cauchy_schwarz_gap(x.expand_as(y), y)

    measured, predicted = gap(degrees), area * degrees.deg2rad().sin() ** 2
    parallel = gap(torch.tensor([tilt, 180 - tilt], dtype=torch.float64))
    return every({
        "squared sine": equal_to_rounding(measured, predicted).drawn(
            Series("gap", degrees, measured), Series("sin²", degrees, predicted, role="predicted"),
            Series("called parallel", [tilt, 180 - tilt], parallel, "other", "points"),
            x="angle in degrees", y="|x|² |y|² - <x, y>²",
        ),
        "parallel": equal(parallel, 0, tol=ROUNDING * area, why="rounding, 1e-12 of both sides"),
    })


@claim(
    control={"f": "sin"}, refutes=["sums", "means of gamma laws", "sums of vectors"],
    source="Jensen 1906",
)
def jensen(
    seed: Seed, *, draws: Draws = 100_000, points: Annotated[int, Range(2, 10)] = 5,
    f: Literal["convex", "sin"] = "convex",
) -> Evidence:
    r"""Convex f: $f(\sum\lambda_ix_i)\le\sum\lambda_if(x_i)$ and $f(E[X])\le E[f(X)]$."""
    rng = seed.torch()
    weights, x = _weights(rng, draws, points), 2 * randn(rng, draws, points)
    weights[::10, 0] = 0  # a point that does not count
    weights = weights / weights.sum(dim=-1, keepdim=True)
    shape, scale = 0.5 + 4 * rand(rng, draws), 0.05 + 0.75 * rand(rng, draws)
    sums, means, gaps, losses, picture = [], [], [], [], []
    for name, (curve, gamma_mean) in CURVES.items():
        if (name == "sin") != (f == "sin"):
            continue
        at = x.exp() if name == "-log" else x
        center, values = (weights * at).sum(dim=-1), (weights * curve(at)).sum(dim=-1)
        size = 1 + (weights * curve(at).abs()).sum(dim=-1)
        gaps.append(jensen_gap(curve, at, weights))
        losses.append(values - curve(center))
        sums.append(gaps[-1] < -ROUNDING * size)
        seen = center[:300].argsort()
        picture = picture or [
            Series("sum of values", center[seen], values[seen]),
            Series("value of the sum", center[seen], (values - gaps[-1])[seen], role="bound"),
        ]
        above, below = gamma_mean(shape, scale), curve(shape * scale)
        means.append(below - above > ROUNDING * (1 + above.abs() + below.abs()))
    corners = 2 * randn(rng, draws // 4, 4, points, 3)
    shares = weights[: len(corners) * 4].reshape(-1, 4, points)
    vector = torch.logsumexp if f == "convex" else lambda one, axis: one.sum(axis).sin()
    gaps.append(jensen_gap(lambda one: vector(one, -1), corners, shares))
    inner = vector((shares[..., None] * corners).sum(dim=-2), -1)
    losses.append((shares * vector(corners, -1)).sum(dim=-1) - inner)
    return every({
        "sums": never(torch.cat(sums), why=NO_SLACK).drawn(*picture, x="sum of w x", y="f"),
        "means of gamma laws": never(torch.cat(means), why=NO_SLACK),
        "sums of vectors": never(
            gaps[-1] < -ROUNDING * (1 + corners.abs().amax(dim=(-1, -2))), why=NO_SLACK
        ),
        "jensen_gap": equal_to_rounding(
            torch.cat([one.flatten() for one in gaps]), torch.cat([one.flatten() for one in losses])
        ),
    })


@claim(
    control={"shrinks": False}, refutes=["order of the error", "ratio"],
    source="Taylor's formula, second order",
)
def jensen_gap_claim(
    seed: Seed, *, mu: Annotated[float, Range(-3, 3)] = 0.5,
    largest: Annotated[float, Range(0.1, 0.4)] = 0.3, shrinks: bool = True,
) -> Evidence:
    r"""As $\sigma\to0$, $E[f(X)]-f(\mu)$ is $\frac12f''(\mu)\sigma^2(1+O(\sigma^2))$; f is exp."""
    steps = largest / 2 ** torch.arange(7, dtype=torch.float64)
    sigmas = steps if shrinks else torch.full_like(steps, 2)
    nodes, weights = map(torch.from_numpy, np.polynomial.hermite_e.hermegauss(60))
    mass = (weights / weights.sum()).expand(len(steps), -1)
    gap = jensen_gap(torch.exp, mu + sigmas[:, None] * nodes, mass)
    ratio = gap / (math.exp(mu) * sigmas**2 / 2)  # exp is its own second derivative
    labels = ("sigma", "gap / (f''(mu) sigma² / 2) - 1")
    return every({
        "order of the error": slope(
            steps, ratio - 1, 2, tol=0.05, labels=labels,
            why="the next term adds sigma²/3 at the largest sigma, and ever less below it",
        ),
        "ratio": tends_to(
            steps, ratio, 1, tol=0.3 * float(steps[-1]) ** 2,
            why="the first term that is left out, sigma²/4, and a fifth of it for the rest",
            labels=("sigma", "gap / (f''(mu) sigma² / 2)"),
        ),
        "mean of a lognormal law": equal_to_rounding(
            gap, math.exp(mu) * torch.expm1(sigmas**2 / 2)
        ),
    })


@claim(
    control={"bound": "sigma² / (2 eps²)"}, source="Cantelli 1929",
    refutes=["six laws, both sides", "law on eps and -v / eps"],
)
def cantelli(
    seed: Seed, *, thresholds: Thresholds = 50, skew: Annotated[float, Range(0.7, 0.99)] = 0.9,
    bound: Literal["sigma² / (sigma² + eps²)", "sigma² / (2 eps²)"] = "sigma² / (sigma² + eps²)",
) -> Evidence:
    r"""$P(X-\mu\ge\epsilon)\le\sigma^2/(\sigma^2+\epsilon^2)$, attained: not half of Chebyshev."""

    def limit(variance: Any, eps: np.ndarray) -> np.ndarray:
        if bound == "sigma² / (2 eps²)":
            return chebyshev_bound(variance, torch.from_numpy(eps)).numpy() / 2
        return cantelli_bound(variance, torch.from_numpy(eps)).numpy()

    units = _spread(seed, thresholds, 0.2, 12)
    sides, limits, tails = [], [], {}
    for name, law in _laws(skew).items():
        mu, eps = law.mean(), units * law.std()
        tails[name] = [_tail(law, mu + eps), law.cdf(mu - eps)]
        sides += tails[name]
        limits += [limit(float(law.var()), eps)] * 2
    # the law of mean 0 and variance v that has its upper point at the threshold
    eps, v = units, seed.child("v").numpy().uniform(0.2, 3, thresholds)
    mass = v / (v + eps**2)
    k, j, none = torch.arange(1, 6), torch.arange(1, 6).double(), torch.zeros(5)
    plain = torch.stack([f(one, k) for f in (markov_bound, chebyshev_bound, cantelli_bound)
                         for one in (0, 1)])
    exact = torch.stack([none, 1 / j, none, 1 / j**2, none, 1 / (1 + j**2)])
    return every({
        "six laws, both sides": at_most(
            np.array(sides) / np.array(limits), 1, slack=ROUNDING, why=NO_SLACK
        ).drawn(
            *[Series(name, units, np.maximum(lower, FLOOR), "other")
              for name, (_, lower) in tails.items()],
            Series("bound", units, limits[0], role="bound"),
            x="eps / sigma", y="P(mu - X >= eps)", log="xy",
        ),
        "law on eps and -v / eps": equal_to_rounding(
            mass / limit(torch.from_numpy(mass * eps**2 + (1 - mass) * (v / eps) ** 2), eps), 1
        ),
        "whole numbers, and a constant": equal_to_rounding(plain, exact),
        "bytes of a number": equal(
            [cantelli_bound(1, k.float()).itemsize, plain.itemsize], [4, 8], tol=0,
            why="floats stay as they are",
        ),
    })


@claim(
    control={"copies": True}, refutes=["tail <= Chernoff"],
    source="Chernoff 1952; Bennett 1962; Hoeffding 1963",
)
def bounded_means(
    seed: Seed, *, n: Annotated[int, Range(5, 500)] = 60,
    p: Annotated[float, Range(0.01, 0.9)] = 0.1, laws: Annotated[int, Range(1, 100)] = 20,
    copies: bool = False,
) -> Evidence:
    r"""Means of bits: tail $\le$ Chernoff's $\le$ Hoeffding's, Bernstein's (sharp constants)."""
    chances = np.append(p, seed.numpy().uniform(0.01, 0.9, laws))
    rows = []
    for q in chances:
        k = np.arange(math.floor(n * q) + 1, n + 1)  # counts above the mean
        eps = torch.from_numpy(k / n - q)
        tail = np.full(len(k), q) if copies else stats.binom.sf(k - 1, n, q)
        chernoff = chernoff_bound(
            lambda t, q=q: n * torch.log1p(q * torch.expm1(t)), torch.from_numpy(k)
        )
        exponent = n * (rel_entr(k / n, q) + rel_entr(1 - k / n, 1 - q))
        others = hoeffding_bound(n, eps), bernstein_bound(n, eps, q * (1 - q), 1 - q)
        seen = exponent < 600  # smaller numbers than e^-600 have no logarithm soon
        rows.append(np.stack([eps.numpy(), tail, chernoff, *others, np.exp(-exponent)])[:, seen])
    _, tail, chernoff, hoeffding, bernstein, exact = np.concatenate(rows, axis=1)
    first, why = rows[0], "theorems: 1e-9 of the logarithm of a tail for rounding"
    slack = 1e-9 * (1 + np.abs(np.log(chernoff)))
    small = torch.linspace(0.02, 0.2, 10, dtype=torch.float64)
    # means of 5 variables: +1 or -1, 1/2 or -1/2, many rare bits, and the same times 2, centered
    logs = [torch.Tensor.cosh, lambda t: (t / 2).cosh(), lambda t: (t.expm1() - t).exp(),
            lambda t: ((2 * t).expm1() - 2 * t).exp()]
    places = [small, small / 2, small, 2 * small]
    nearly = [chernoff_bound(lambda t, M=M: 5 * M(t / 5).log(), at)
              for M, at in zip(logs, places, strict=True)]
    limits = [hoeffding_bound(5, small, 2), hoeffding_bound(5, small / 2),
              bernstein_bound(5, small, 1), bernstein_bound(5, 2 * small, 4, 2)]
    shares = torch.stack(nearly).log() / torch.stack(limits).log()
    eps = torch.arange(-4, 20, dtype=torch.float64).reshape(3, 8)
    sizes = (2e-12, 1e-8, 1.0, 1e8, 1e13)  # the best t is eps / size, up to both ends of the search
    found = [chernoff_bound(lambda t, s=s: (s * t).square() / 2, s * eps) for s in sizes]
    found.append(chernoff_bound(lambda t: -(-t).log1p(), eps))  # NaN from t = 1 on
    above = eps.clamp(min=1)
    theirs = [-(eps.clamp(min=0) ** 2) / 2] * len(sizes) + [above.log() + 1 - above]
    return every({
        "tail <= Chernoff": at_most(
            np.log(np.maximum(tail, 1e-300)), np.log(chernoff), slack=slack, why=why
        ).drawn(
            Series("P(mean - p >= eps)", first[0], first[1]),
            Series("Chernoff", first[0], first[2], role="bound"),
            Series("Hoeffding", first[0], first[3], role="other"),
            Series("Bernstein", first[0], first[4], role="other"),
            x="eps", y="tail and bounds", log="y",
        ),
        "Chernoff <= Hoeffding": at_most(np.log(chernoff), np.log(hoeffding), slack=slack, why=why),
        "Chernoff <= Bernstein": at_most(np.log(chernoff), np.log(bernstein), slack=slack, why=why),
        "Chernoff's exponent is a divergence": equal(
            np.log(chernoff), np.log(exact), tol=slack, why="a search up to 6e-8 of log t"
        ),
        "exponents of a coin over Hoeffding's, of a Poisson law over Bernstein's": equal(
            shares, 1, tol=small.numpy() ** 2 / 5,
            why="no better constants: the next terms of the exponents, eps²/6 and eps²/18",
        ),
        "normal laws of all sizes, an exponential one": equal(
            torch.stack(found).log(), torch.stack(theirs), tol=1e-11,
            why="a search up to 6e-8 of log t, whose square counts; and 1 below the mean",
        ),
    })

r"""Gaussian: what is true of it, and what would refute it.

Knobs:
    largest: The largest number of coordinates; all smaller ones are tried, too.
    dim: Coordinates of the normal vector.
    correlation: The correlation of the two coordinates whose density is summed over a plane.
    determinant: Whether the density is divided by the root of the determinant.
    sign: The sign of the quadratic form; with a plus the density grows without end.
    points: Random points at which two exponents are compared.
    mean: What is read as the mean of the exponent; $m$ alone is not.
    samples: Draws from the law.
    shrinkage: The share of the covariance that a multiple of the identity replaces.
    divisor: What sums of squares are divided by; only $n$ makes the likelihood largest.
    splits: Random ways to split the coordinates into a and b.
    covariance: The formula of the conditional covariance; with a plus, seeing would add doubt.
    tails: The law that is drawn from; with heavy tails the spread of b depends on a.
    size: Coordinates of each of the two halves.
    draws: Random covariance matrices.
    positive: Which blocks have no negative eigenvalue; to ask it of the cross blocks is wrong.
    noise: How much of the second half is its own; at 0 it would be a copy of the first.
    outputs: Coordinates of $AX+b$.
    law: The law of X; of a uniform one, linear maps are not normal.
"""

import math
from typing import Annotated, Any, Literal

import torch
from scipy import stats
from sklearn.covariance import EmpiricalCovariance, ledoit_wolf, shrunk_covariance
from torch import Tensor
from torch.distributions import MultivariateNormal
from torch.linalg import eigvalsh, solve_triangular

from principia.lab.draws import randn
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
    tends_to,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.mathematics.gaussian import (
    LOG_2PI,
    condition,
    fit_gaussian,
    from_canonical,
    log_normal,
    marginal,
    to_canonical,
)
from principia.mathematics.probability import DKW, RARE, dkw_radius

Dim = Annotated[int, Range(1, 40)]
Correlation = Annotated[float, Range(-0.95, 0.95)]


@claim(
    control={"determinant": "dropped"},
    refutes=["integral", "log_prob"],
    source="Anderson 2003, sec. 2.3",
)
def density(
    seed: Seed, *, largest: Dim = 20, correlation: Correlation = 0.6,
    determinant: Literal["kept", "dropped"] = "kept",
) -> Evidence:
    r"""The density is $e^{-\frac12(x-\mu)^\top\Sigma^{-1}(x-\mu)}/\sqrt{(2\pi)^D\det\Sigma}$."""
    rng, ours, by_factor, torchs = seed.torch(), [], [], []
    kept = determinant == "kept"
    for dim in range(1, largest + 1):
        law = _random_law(rng, dim)
        x, cov = 2 * _draw(rng, law, 50), law.covariance_matrix
        torchs.append(law.log_prob(x))
        ours.append(log_normal(x, law.mean, cov=cov) + (0 if kept else cov.logdet() / 2))
        by_factor.append(log_normal(x, law.mean, scale_tril=law.scale_tril))
    W, points, means = randn(rng, 3, 4, 6, 9), randn(rng, 5, 1, 1, 6), randn(rng, 4, 6)
    covs = W @ W.mT
    few = points[0], covs.expand(2, 1, 1, 3, 4, 6, 6)  # matrices with more axes than points
    pairs = [(at, MultivariateNormal(means, one)) for at, one in ((points, covs), few)]
    none = log_normal(points[:0], means, cov=covs).flatten()  # torch refuses to have no points
    powers = torch.linspace(-30, 30, 13, dtype=W.dtype)  # the same length in nm or in light years
    x, units = points[0, 0, 0], 10 ** powers[:, None]
    scaled = log_normal(units * x, units * means[0], cov=units[..., None] ** 2 * covs[0, 0])
    law, grid, area = _plane(rng, correlation)
    heights = log_normal(grid, law.mean, cov=law.covariance_matrix)
    heights = (heights + (0 if kept else law.covariance_matrix.logdet() / 2)).exp()
    along, sums = grid[:, 0, 0], heights.sum(dim=1)
    step = float(along[1] - along[0])
    one = stats.norm(float(law.mean[0]), float(law.stddev[0]))
    return every({
        "integral": equal(
            area * sums.sum(), 1, tol=1e-8,
            why="mass beyond 9 standard deviations, 1e-18, and rounding of 32,400 cells",
        ).drawn(
            Series("density summed over x₂", along, area / step * sums),
            Series("normal density of x₁", along, one.pdf(along.numpy()), role="predicted"),
            x="x₁", y="density",
        ),
        "log_prob": equal_to_rounding(torch.cat(ours), torch.cat(torchs)),
        "from the Cholesky factor": equal_to_rounding(torch.cat(by_factor), torch.cat(torchs)),
        "broadcast": equal_to_rounding(
            torch.cat([none, *[log_normal(at, law.mean, cov=law.covariance_matrix).flatten()
                               for at, law in pairs]]),
            torch.cat([law.log_prob(at).flatten() for at, law in pairs]),
        ),
        "in other units": equal_to_rounding(
            scaled + 6 * math.log(10) * powers,
            log_normal(x, means[0], cov=covs[0, 0]).expand(len(powers)),
        ),
    })


def _random_law(rng: torch.Generator, dim: int) -> MultivariateNormal:
    """Draw a mean, and a covariance whose condition number stays near 30."""
    W = randn(rng, dim, 2 * dim + 2)
    return MultivariateNormal(randn(rng, dim), W @ W.mT / W.shape[1])


def _draw(rng: torch.Generator, law: MultivariateNormal, n: int) -> Tensor:
    """Draw n rows; torch's own sample would draw from the global generator."""
    return law.mean + randn(rng, n, *law.event_shape) @ law.scale_tril.mT


def _plane(rng: torch.Generator, correlation: float) -> tuple[MultivariateNormal, Tensor, float]:
    """Draw a law in the plane; give middles of cells up to 9 standard deviations, and their area.

    On such a grid a sum misses the integral of a smooth peak by less than rounding.
    """
    mean, scales = randn(rng, 2), 0.5 + torch.rand(2, generator=rng, dtype=torch.float64)
    shape = torch.tensor([[1, correlation], [correlation, 1]], dtype=torch.float64)
    middles = torch.linspace(-8.95, 8.95, 180, dtype=torch.float64)
    grid = mean + scales * torch.cartesian_prod(middles, middles).reshape(180, 180, 2)
    law = MultivariateNormal(mean, scales[:, None] * shape * scales)
    return law, grid, float(scales.prod()) * 0.1**2


@claim(
    control={"sign": "+"},
    refutes=["integral over a box", "formula"],
    source="Rasmussen and Williams 2006, app. A",
)
def precision_form(
    seed: Seed, *, dim: Dim = 6, correlation: Correlation = 0.6,
    sign: Literal["-", "+"] = "-",
) -> Evidence:
    r"""With $\Lambda=\Sigma^{-1}$ the exponent is $-\frac12(x-\mu)^\top\Lambda(x-\mu)$."""
    rng, factor = seed.torch(), -0.5 if sign == "-" else 0.5

    def formula(law: MultivariateNormal, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Give the printed formula, and the log density from either matrix."""
        precision, offset = law.covariance_matrix.inverse(), x - law.mean
        quadratic = torch.einsum("...i,ij,...j->...", offset, precision, offset)
        printed = factor * quadratic + precision.logdet() / 2 - len(precision) / 2 * LOG_2PI
        from_cov = log_normal(x, law.mean, cov=law.covariance_matrix)
        return printed, log_normal(x, law.mean, precision=precision), from_cov

    law = _random_law(rng, dim)
    printed, from_precision, from_cov = formula(law, 2 * _draw(rng, law, 200))
    law, grid, area = _plane(rng, correlation)
    reach = ((grid - law.mean) / law.stddev).abs().amax(dim=-1)  # (180, 180)
    cells, boxes = formula(law, grid)[0].exp() * area, range(1, 10)
    masses = torch.stack([cells[reach < half].sum() for half in boxes])
    return every({
        "integral over a box": tends_to(
            list(boxes), masses, 1.0, tol=1e-8, log="y",
            why="mass beyond 9 standard deviations, 1e-18, and rounding of 32,400 cells",
            labels=("half the width of the box, in standard deviations", "mass inside"),
        ),
        "formula": equal_to_rounding(printed, from_cov),
        "log_normal": equal_to_rounding(from_precision, from_cov),
    })


@claim(
    control={"mean": "m"},
    refutes=["spread of the difference", "the constant"],
    source="Lauritzen 1996, app. C",
)
def canonical_form(
    seed: Seed, *, dim: Dim = 5, points: Annotated[int, Range(10, 5000)] = 1000,
    mean: Literal["Q⁻¹m", "m"] = "Q⁻¹m",
) -> Evidence:
    r"""$e^{-\frac12z^\top Qz+z^\top m}$ is the density of $N(Q^{-1}m,Q^{-1})$ up to a constant."""
    rng = seed.torch()
    Q = _random_law(rng, dim).covariance_matrix
    m, z = randn(rng, dim), 2 * randn(rng, points, dim)
    law = from_canonical(Q, m)
    read = law if mean == "Q⁻¹m" else MultivariateNormal(m, precision_matrix=Q)
    exponent = z @ m - torch.einsum("ni,ij,nj->n", z, Q, z) / 2
    log_density = log_normal(z, read.mean, cov=read.covariance_matrix)
    constant = m @ torch.linalg.solve(Q, m) / 2 - Q.logdet() / 2 + dim / 2 * LOG_2PI
    again, shift = to_canonical(law)
    seen = slice(None, 400)
    ends = torch.stack([log_density.min(), log_density.max()])
    return every({
        "spread of the difference": at_most(
            (exponent - log_density).std(), 0, slack=1e-9, why="a constant: rounding of the terms"
        ).drawn(
            Series("random points", log_density[seen], exponent[seen]),
            Series("plus the constant", ends, ends + constant, role="predicted"),
            x="log density of the normal law", y="−½z'Qz + z'm",
        ),
        "the constant": equal_to_rounding(exponent, log_density + constant),
        "to_canonical": equal_to_rounding(torch.cat([again, shift[:, None]], 1),
                                  torch.cat([Q, m[:, None]], 1)),
    })


@claim(
    control={"divisor": "n - 1"},
    refutes=["gradient", "scikit-learn's covariance"],
    source="Anderson 2003, thm. 3.2.1",
)
def maximum_likelihood(
    seed: Seed, *, samples: Annotated[int, Range(20, 1000)] = 60,
    dim: Annotated[int, Range(1, 15)] = 5, shrinkage: Annotated[float, Range(0, 1)] = 0.3,
    divisor: Literal["n", "n - 1"] = "n",
) -> Evidence:
    r"""The likelihood is stationary at the mean and the covariance with divisor $n$."""
    rng = seed.torch()
    X = _draw(rng, _random_law(rng, dim), samples)
    law, rows = fit_gaussian(X), X.numpy()
    cov = law.covariance_matrix * (1 if divisor == "n" else samples / (samples - 1))
    mean, L = law.mean.clone().requires_grad_(), torch.linalg.cholesky(cov).requires_grad_()
    likelihood = log_normal(X, mean, scale_tril=L.tril()).mean()
    gradients = torch.autograd.grad(likelihood, (mean, L))
    best = torch.from_numpy(EmpiricalCovariance().fit(rows).covariance_)
    scales = torch.logspace(-0.4, 0.4, 41, dtype=X.dtype)
    curve = log_normal(X[:, None], X.mean(dim=0), cov=scales[:, None, None] * best).mean(dim=0)
    predicted = -(dim * (LOG_2PI + scales.log() + 1 / scales) + best.logdet()) / 2
    return every({
        "gradient": equal(
            torch.cat([one.flatten() for one in gradients]), 0, tol=1e-9,
            why="rounding of a mean of terms, each divided by the least variance",
        ).drawn(
            Series("log_normal", scales, curve),
            Series("closed form", scales, predicted, role="predicted"),
            Series("the estimate", [float(cov.trace() / best.trace())], [likelihood.item()],
                   "other", "points"),
            x="covariance, in multiples of that with divisor n", y="mean log-likelihood", log="x",
        ),
        "scikit-learn's covariance": equal_to_rounding(cov, best),
        "likelihood of multiples": equal_to_rounding(curve, predicted),
        "shrinkage": equal_to_rounding(
            fit_gaussian(X, shrinkage).covariance_matrix, shrunk_covariance(best, shrinkage)
        ),
        "Ledoit and Wolf": equal_to_rounding(
            fit_gaussian(X.clone().requires_grad_(), "ledoit-wolf").covariance_matrix,
            ledoit_wolf(rows)[0],
        ),
    })


@claim(
    control={"covariance": "Σ22 + Σ21 Σ11⁻¹ Σ12"},
    refutes=["log p(a) + log p(b | a)"],
    source="Anderson 2003, thm. 2.5.1",
)
def conditioning(
    seed: Seed, *, dim: Annotated[int, Range(2, 20)] = 8,
    splits: Annotated[int, Range(1, 50)] = 10,
    samples: Annotated[int, Range(5_000, 200_000)] = 50_000,
    covariance: Literal["Σ22 - Σ21 Σ11⁻¹ Σ12", "Σ22 + Σ21 Σ11⁻¹ Σ12"] = "Σ22 - Σ21 Σ11⁻¹ Σ12",
) -> Evidence:
    r"""$p(a,b)=p(a)\,p(b\mid a)$ with a conditional law whose mean is linear in $a$."""
    rng, minus, whole, product = seed.torch(), covariance.startswith("Σ22 -"), [], []
    law = _random_law(rng, dim)
    draws = _draw(rng, law, samples)
    x, a, b = 2 * draws[:50], [0], [1]

    def given(law: MultivariateNormal, a: list[int], b: list[int], value: Tensor) -> Any:
        right, before = condition(law, a, value), marginal(law, b).covariance_matrix
        if minus:
            return right
        return MultivariateNormal(right.mean, 2 * before - right.covariance_matrix)

    for _ in range(splits):
        order = torch.randperm(dim, generator=rng).tolist()
        size = int(torch.randint(1, dim, (), generator=rng))
        a, b = order[:size], sorted(order[size:])
        first = marginal(law, a)
        whole.append(law.log_prob(x))
        product.append(log_normal(x[:, a], first.mean, cov=first.covariance_matrix)
                       + given(law, a, b, x[:, a]).log_prob(x[:, b]))
    gains = condition(law, a, torch.eye(len(a)).to(x)).mean  # (K, rest)
    gains = gains - condition(law, a, torch.zeros_like(x[0, a])).mean
    design = torch.cat([torch.ones_like(draws[:, :1]), draws[:, a]], dim=1)
    slopes = torch.linalg.lstsq(design, draws[:, b], driver="gelsd").solution[1:]
    spread = (design.mT @ design).inverse().diagonal()[1:]
    error = (spread[:, None] * condition(law, a, x[0, a]).variance).sqrt()
    pair, reach = marginal(law, [0, 1]), float(law.stddev[0])
    line = law.mean[0] + reach * torch.linspace(-3, 3, 61, dtype=x.dtype)
    band = given(pair, [0], [1], line[:, None])
    center, width = band.mean[:, 0], 2 * band.stddev[:, 0]
    return every({
        "log p(a) + log p(b | a)": equal_to_rounding(
            torch.stack(product), torch.stack(whole)
        ).drawn(
            Series("draws", draws[:400, 0], draws[:400, 1]),
            Series("mean of b given a", line, center, role="predicted"),
            Series("two standard deviations above", line, center + width, role="bound"),
            Series("and below", line, center - width, role="bound"),
            x="a, seen", y="b",
        ),
        "slopes of a regression": within_errors(
            slopes, gains, error=error, why="least squares of b on a, over all draws"
        ),
    })


@claim(control={"tails": "t, 4 degrees of freedom"}, source="Ding 2016; Anderson 2003, sec. 2.5")
def conditional_covariance_constant(
    seed: Seed, *, dim: Annotated[int, Range(1, 6)] = 2,
    samples: Annotated[int, Range(50_000, 500_000)] = 200_000,
    tails: Literal["normal", "t, 4 degrees of freedom"] = "normal",
) -> Evidence:
    r"""The covariance of $b$ given $a$ does not depend on which $a$ was seen.

    Args:
        dim: Coordinates of b; a is one number.
    """
    rng = seed.torch()
    law = _random_law(rng, dim + 1)
    x = _draw(rng, law, samples)
    if tails != "normal":  # the same covariance, since E[1 / chi2] is 1 / (4 - 2)
        chi2 = randn(rng, samples, 4).square().sum(dim=1, keepdim=True)
        x = law.mean + (x - law.mean) * (2 / chi2).sqrt()
    given = condition(law, [0], x[:, :1])
    rest, (i, j) = x[:, 1:] - given.mean, torch.triu_indices(dim, dim)
    products, slabs = rest[:, i] * rest[:, j], x[:, 0].argsort().tensor_split(5)
    found = torch.stack([products[slab].mean(dim=0) for slab in slabs])
    error = torch.stack([products[slab].std(dim=0) / len(slab) ** 0.5 for slab in slabs])
    expected = condition(law, [0], x[0, :1]).covariance_matrix[i, j].expand_as(found)
    places = torch.stack([x[slab, 0].mean() for slab in slabs])
    why = "a mean of products of residuals, in slabs of a fifth of the draws each"
    return within_errors(found, expected, error=error, why=why).named("covariance given a").drawn(
        Series("draws in a slab", places, found[:, 0], error=5 * error[:, 0]),
        Series("Schur complement", places, expected[:, 0], role="predicted"),
        x="a, mean of the slab", y="variance of the first b given a",
    )


@claim(
    control=[
        Control({"positive": "cross blocks too"}, ["least eigenvalues"], "the misprint"),
        Control({"noise": 0.01}, ["a cross block below 0"], "a second half that is the first"),
    ],
    source="Zhang 2005, thm. 1.12",
    misprint=r"$\Sigma_{12}$ and $\Sigma_{21}$ positive semidefinite, like the diagonal blocks",
)
def blocks(
    seed: Seed, *, size: Annotated[int, Range(1, 20)] = 4,
    draws: Annotated[int, Range(25, 1000)] = 200,
    positive: Literal["diagonal and Schur", "cross blocks too"] = "diagonal and Schur",
    noise: Annotated[float, Range(0.001, 1)] = 1.0,
) -> Evidence:
    r"""$\Sigma_{11},\Sigma_{22}$ and the Schur complement are p.s.d.; $\Sigma_{12}$ need not be."""
    X = randn(seed.torch(), draws, 4 * size, 2 * size)
    X[..., size:] = (1 - noise) * X[..., :size] + noise * X[..., size:]
    first, second = (X - X.mean(dim=1, keepdim=True)).split(size, dim=-1)
    (s11, s12), (s21, s22) = (
        [left.mT @ right / X.shape[1] for right in (first, second)] for left in (first, second)
    )
    law = MultivariateNormal(
        X.mean(dim=1), torch.cat([torch.cat([s11, s12], -1), torch.cat([s21, s22], -1)], -2)
    )
    schur = s22 - s21 @ torch.linalg.solve(s11, s12)
    given = condition(law, range(size), first[:, 0])
    least = {"Σ11": s11, "Σ22": s22, "Schur complement": schur, "symmetric part of Σ12": s12}
    least = {name: eigvalsh((one + one.mT) / 2)[:, 0].sort().values for name, one in least.items()}
    cross, ranks = least["symmetric part of Σ12"], range(1, draws + 1)
    kept = list(least)[: 4 if positive == "cross blocks too" else 3]
    last = to_canonical(law)[0][:, size:, size:]
    return every({
        "least eigenvalues": at_least(
            torch.stack([least[name] for name in kept]), 0, slack=1e-12,
            why="rounding of entries of size 1",
        ).drawn(
            *(Series(name, ranks, values, "other") for name, values in least.items()),
            Series("0", [1, draws], [0, 0], role="bound"), x="draw, sorted", y="least eigenvalue",
        ),
        "a cross block below 0": at_most(cross.min(), 0, why="one counterexample is enough"),
        "condition": equal_to_rounding(given.covariance_matrix, schur),
        "block of the precision": equal_to_rounding(
            last @ schur, torch.eye(size).to(X).expand_as(last)
        ),
    })


@claim(
    control={"law": "uniform"},
    refutes=["distance of the distribution functions"],
    source="Anderson 2003, thm. 2.4.4",
)
def affine_closure(
    seed: Seed, *, dim: Annotated[int, Range(1, 8)] = 3,
    outputs: Annotated[int, Range(1, 8)] = 2,
    samples: Annotated[int, Range(100_000, 400_000)] = 200_000,
    law: Literal["normal", "uniform"] = "normal",
) -> Evidence:
    r"""$AX+b\sim N(A\mu+b,A\Sigma A^\top)$ if X is normal: so every marginal is."""
    rng = seed.torch()
    normal = _random_law(rng, dim)
    A, b = randn(rng, outputs, dim), randn(rng, outputs)
    mean, cov = A @ normal.mean + b, A @ normal.covariance_matrix @ A.mT
    s = randn(rng, 50, outputs)
    (Q, m), tilt = to_canonical(normal), s @ A  # A's
    # E exp(t'X) completes the square: a ratio of the integrals of two canonical exponents
    log_mgf = ((m + tilt) * from_canonical(Q, m + tilt).mean).sum(dim=1) / 2 - m @ normal.mean / 2
    x = _draw(rng, normal, samples)
    if law == "uniform":  # in an ellipsoid, with the same mean and covariance
        white = solve_triangular(normal.scale_tril, (x - normal.mean).mT, upper=False)
        radii = torch.rand(samples, generator=rng, dtype=x.dtype) ** (1 / dim)
        ball = (dim + 2) ** 0.5 * radii * white / white.norm(dim=0)
        x = normal.mean + (normal.scale_tril @ ball).mT
    directions = randn(rng, 5, outputs)
    spread = torch.einsum("pi,ij,pj->p", directions, cov, directions).sqrt()
    scores = ((x @ A.mT + b - mean) @ directions.mT / spread).mT.sort(dim=1).values  # (5, samples)
    shares = torch.arange(1, samples + 1, dtype=x.dtype) / samples
    above = shares - torch.special.ndtr(scores)  # at each jump
    distances = torch.maximum(above, 1 / samples - above).amax(dim=1)  # and just before it
    radius, seen = dkw_radius(samples, RARE), slice(None, None, samples // 300)
    index = torch.arange(dim).flip(0)[:outputs].tolist()  # in an order of their own
    choose, part = torch.eye(dim, dtype=x.dtype)[index], marginal(normal, index)
    return every({
        "distance of the distribution functions": at_most(distances, radius, why=DKW).drawn(
            Series("draws of u'(AX + b)", scores[0, seen], above[0, seen], style="line"),
            Series("radius", [-4, 4], [radius] * 2, "bound"),
            Series("of a chance of 1e-6", [-4, 4], [-radius] * 2, "bound"),
            x="standard deviations from the mean", y="share below, minus that of the normal law",
        ),
        "log E exp(s'(AX + b))": equal_to_rounding(
            s @ b + log_mgf, s @ mean + torch.einsum("pi,ij,pj->p", s, cov, s) / 2
        ),
        "mean of a marginal": equal_to_rounding(part.mean, choose @ normal.mean),
        "covariance of a marginal": equal_to_rounding(
            part.covariance_matrix, choose @ normal.covariance_matrix @ choose.mT
        ),
    })

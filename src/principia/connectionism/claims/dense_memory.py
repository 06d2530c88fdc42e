r"""Dense associative memory: what is true of it, and what would refute it.

Knobs:
    units: Units of a network.
    patterns: Patterns that are stored.
    steps: Updates of every state.
    degree: The power of the energy; only 2 is the Hopfield network.
    form: Whether a unit compares the energies of its two values; their slope is not the same.
    load: How many times its usual number of patterns a network stores.
    formula: Whose formula foretells errors: that of the own power, or the one of the square.
    error: The share of unstable bits at which a memory counts as full.
    nets: Networks of the largest size that are measured; of smaller ones there are more.
    claimed_degree: The power of which the theory is asked; 3 is the power of the networks.
    alpha: The logarithm of the number of patterns, divided by the number of units.
    flips: The share of bits that are turned before recall.
    interaction: The energy's function; the square stores far fewer patterns than the exponential.
    states: Random states from which the descent begins.
    dim: Dimension of patterns and states.
    beta: How sharply the softmax chooses among the patterns.
    normalized: Whether the weights of the patterns sum to 1, as in softmax; else energy may rise.
    scale: What multiplies the scores; attention's usual $1/\sqrt d$ is another memory.
    noise: Length of the random vector that is added to a pattern before recall.
    tied: Whether two patterns are equally near, so that no sharpness tells them apart.
"""

import math
from typing import Annotated, Literal

import torch
from scipy.special import ndtri
from torch import Tensor
from torch.nn import functional

from principia.connectionism.dense_memory import (
    DenseMemory,
    ModernHopfield,
    capacity,
    error_probability,
)
from principia.connectionism.hopfield import Hopfield, flip_probability
from principia.lab.data.synthetic import random_signs
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    slope,
    standard_error,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed


@claim(control={"degree": 3}, source="Krotov and Hopfield 2016, sec. 2")
def quadratic_is_hopfield(
    seed: Seed, *, units: Annotated[int, Range(2, 400)] = 100,
    patterns: Annotated[int, Range(1, 200)] = 12, steps: Annotated[int, Range(1, 50)] = 10,
    degree: Annotated[int, Range(2, 5)] = 2,
) -> Evidence:
    r"""With $F(z)=z^2$ every update is the Hopfield network's, ties included, and so is $E$."""
    rng = seed.torch()
    stored = random_signs(rng, patterns, units)
    dense, classic = DenseMemory(stored, degree=degree), Hopfield(units).store(stored)
    x = y = torch.cat([stored, random_signs(rng, 200, units)])
    differ, energies, expected = [], [], []
    for _ in range(steps):
        energies.append(dense.energy(x))
        expected.append(2 * units * classic.energy(x) - patterns * units)  # the diagonal's share
        x, y = dense(x), classic.recall(y, order="sync", max_sweeps=1).states
        differ.append(x != y)
    more = {"degree": degree} if degree != 2 else {}  # the default
    foretold = [error_probability(units, patterns, **more), capacity(units, **more)]
    known = [flip_probability(units, patterns, exact=False), units / (2 * math.log(units))]
    return every(
        {
            "units that differ": never(torch.stack(differ), why="an identity between signs"),
            "energy": equal_to_rounding(torch.stack(energies), torch.stack(expected)).drawn(
                *(Series(f"state {k}", range(steps), torch.stack(energies)[:, -k], "other",
                         "points") for k in range(1, 5)),
                *(Series("Hopfield", range(steps), torch.stack(expected)[:, -k], "predicted")
                  for k in range(1, 5)), x="updates of all units", y="energy",
            ),
            "errors and capacity": equal_to_rounding(foretold, known),
        }
    )


@claim(
    control={"form": "derivative"}, refutes=["polynomials", "exponential"],
    source="Krotov and Hopfield 2016, eq. 4; Demircigil et al. 2017",
)
def field_is_energy_difference(
    seed: Seed, *, units: Annotated[int, Range(3, 50)] = 9,
    patterns: Annotated[int, Range(1, 100)] = 13,
    form: Literal["difference", "derivative"] = "difference",
) -> Evidence:
    r"""A unit compares the energies of its two values, and takes that of the lower one."""
    rng = seed.torch()
    stored, x = random_signs(rng, patterns, units), random_signs(rng, 4, 5, units)
    memories = [DenseMemory(stored), *(DenseMemory(stored, degree=k) for k in (2, 4, 5))]
    memories.append(DenseMemory(stored, interaction="exp"))
    up = x.expand(units, *x.shape).clone()  # (units, 4, 5, units): one unit is set
    up[torch.arange(units), ..., torch.arange(units)] = 1.0
    down = up.clone()
    down[torch.arange(units), ..., torch.arange(units)] = -1.0
    fields, costs, wrong, energies = [], [], [], []
    for memory, degree in zip(memories, (3, 2, 4, 5, 0), strict=True):
        sums = [-_powers(z @ stored.T, degree).sum(-1) for z in (x, down, up)]
        cost = (sums[1] - sums[2]).movedim(0, -1)
        if form == "derivative":
            cost = 2 * _powers(x @ stored.T, degree - 1 if degree else 0) @ stored * max(degree, 1)
        scale = (x @ stored.T).amax(-1, keepdim=True).exp() if degree == 0 else 1.0
        fields.append(memory.field(x))
        costs.append(cost / scale)
        energies.append((memory.energy(x) - sums[0]) / sums[0].abs().max())
        states = x.to(torch.int8)
        for _ in range(3):  # and of states whose units are integers
            states = torch.where(memory.field(states) >= 0, 1, -1).to(torch.int8)
        wrong.append(memory.recall(x.to(torch.int8), steps=3) != states)
        wrong.append(memory.recall(x) != torch.where(memory.field(x) >= 0, 1.0, -1.0))
    return every(
        {
            "polynomials": equal_to_rounding(
                torch.stack(fields[:-1]), torch.stack(costs[:-1])
            ).drawn(
                *(Series(f"field, k = {k}", range(units), fields[at][0, 0] / units ** (k - 1),
                         "other", "points") for at, k in enumerate((3, 2, 4))),
                *(Series("energies", range(units), costs[at][0, 0] / units ** (k - 1), "predicted")
                  for at, k in enumerate((3, 2, 4))),
                x="unit, from 0", y="energy at -1 less that at +1, over nᵏ⁻¹",
            ),
            "exponential": equal_to_rounding(fields[-1], costs[-1]),
            "energies": equal_to_rounding(torch.stack(energies), torch.zeros(5, 4, 5)),
            "recall updates again and again": never(
                torch.stack(wrong), why="the sign of the field, +1 at 0"
            ),
        }
    )


def _powers(z: Tensor, degree: int) -> Tensor:
    return z**degree if degree else z.exp()


@claim(control={"formula": "quadratic"}, source="Krotov and Hopfield 2016, sec. 2")
def polynomial_error(
    seed: Seed, *, patterns: Annotated[int, Range(20_000, 500_000)] = 50_000,
    load: Annotated[float, Range(0.75, 2)] = 1.0,
    formula: Literal["own degree", "quadratic"] = "own degree",
) -> Evidence:
    r"""A stored bit is unstable with probability $\Phi(-\sqrt{n^{k-1}/(K(2k-3)!!)})$.

    Args:
        patterns: Patterns that all networks of a size store together.
    """
    rng = seed.torch()
    cases, rates, errors, predicted = [], [], [], []
    for degree, n, unloaded in ((3, 100, 1000), (3, 60, 300), (4, 40, 4000)):
        K = round(load * unloaded)
        nets = math.ceil(patterns / K)  # small nets scatter more, and cost less
        each = torch.tensor(
            [_unstable(random_signs(rng, K, n), degree) for _ in range(nets)], dtype=torch.float64
        )
        cases.append(f"k={degree}, n={n}, K={K}")
        rates.append(float(each.mean()))
        errors.append(float(standard_error(each)))
        predicted.append(error_probability(n, K, degree if formula == "own degree" else 2))
    bias = [0.1 * rate for rate in predicted]
    why = "mean over nets; the formula's next order, 2/n and 1/n, adds up to 8 % at n = 60"
    return within_errors(rates, predicted, error=errors, bias=bias, why=why).named(
        "share of unstable bits"
    ).drawn(
        Series("measured", cases, rates, style="bars", error=[5 * error for error in errors]),
        Series("predicted", cases, predicted, role="predicted", style="points"),
        x="degree, units, patterns", y="share of unstable bits",
    )


def _unstable(stored: Tensor, degree: int) -> float:
    """Share of bits, of up to 64 stored patterns, that one update flips."""
    states = stored[:64]
    return float((DenseMemory(stored, degree=degree)(states) != states).double().mean())


@claim(control={"claimed_degree": 2}, source="Krotov and Hopfield 2016, sec. 2")
def polynomial_capacity(
    seed: Seed, *, error: Annotated[float, Range(0.005, 0.1)] = 0.01,
    nets: Annotated[int, Range(4, 20)] = 6, claimed_degree: Annotated[int, Range(2, 5)] = 3,
) -> Evidence:
    r"""How many patterns leave 1 % of the bits unstable grows like $n^{k-1}$, here $k=3$."""
    rng = seed.torch()
    sizes, stored = (40, 50, 63, 80, 100, 127, 160), []
    for n in sizes:
        low, high = 1.0, n**2 / 4
        # small nets scatter more, and cost less
        pools = [random_signs(rng, int(high), n) for _ in range(nets * sizes[-1] // n)]
        while high > 1.02 * low:  # bisection, as fine as the noise
            middle = math.sqrt(low * high)
            rate = sum(_unstable(pool[: round(middle)], 3) for pool in pools) / len(pools)
            low, high = (middle, high) if rate < error else (low, middle)
        stored.append(math.sqrt(low * high))
    # K is inverse to the squared quantile of the error, and `capacity` allows sqrt(2 ln n)
    ratio = [2 * math.log(n) / float(ndtri(error)) ** 2 for n in sizes]
    scaled = [capacity(n, claimed_degree) * one for n, one in zip(sizes, ratio, strict=True)]
    return every(
        {
            "exponent": slope(
                sizes, stored, claimed_degree - 1, tol=0.2,
                why="terms of order 1/n add 0.03 between n = 40 and 160, the noise up to 0.1",
                labels=("units n", "patterns K at this share of unstable bits"),
            ),
            "prefactor": equal(
                stored, scaled, tol=[0.15 * one for one in scaled],
                why="terms of order 1/n: 4 % at n = 40; and 5 standard errors of 2 %",
            ),
        }
    )


@claim(
    control={"interaction": "quadratic", "alpha": 0.05},
    source="Demircigil et al. 2017, sec. 2",
)
def exponential_capacity(
    seed: Seed, *, alpha: Annotated[float, Range(0.05, 0.2)] = 0.15,
    flips: Annotated[float, Range(0, 0.4)] = 0.1,
    interaction: Literal["exp", "quadratic"] = "exp",
) -> Evidence:
    r"""$F=e^z$ stores $e^{0.15n}$ patterns in $n$ units and mends 10 % of the bits in one step."""
    rng = seed.torch()
    sizes, queries, success = (20, 30, 40, 50, 60), 400, []
    kind = "exp" if interaction == "exp" else "poly"
    for n in sizes:
        K, hits = math.ceil(math.exp(alpha * n)), []
        for _ in range(math.ceil(queries / K)):
            stored = random_signs(rng, K, n)
            truth = stored[:queries]
            chosen = torch.rand(truth.shape, generator=rng).argsort(dim=1)[:, : round(flips * n)]
            broken = truth.scatter(1, chosen, -truth.gather(1, chosen))
            mended = DenseMemory(stored, interaction=kind, degree=2)(broken)
            hits.append((mended == truth).all(dim=1).double())
        success.append(float(torch.cat(hits).mean()))
    return every(
        {
            "mended at n=60": at_least(
                success[-1], 0.99, why="the limit is 1: one failure in 100 is room enough"
            ).drawn(
                Series("measured", sizes, success),
                Series("0.99", (sizes[0], sizes[-1]), (0.99, 0.99), role="bound"),
                x="units n", y="patterns mended in one step",
            ),
            "rising with n": at_least(
                success[1:], success[:-1], slack=5 * math.sqrt(0.01 * 0.99 / queries),
                why=f"5 standard errors of a share of 0.99 among {queries}",
            ),
        }
    )


@claim(control={"normalized": False, "steps": 1}, source="Ramsauer et al. 2021, theorem 1")
def energy_descends(
    seed: Seed, *, states: Annotated[int, Range(10, 10000)] = 1000,
    patterns: Annotated[int, Range(2, 500)] = 50, dim: Annotated[int, Range(2, 64)] = 16,
    beta: Annotated[float, Range(0.05, 4)] = 0.5, steps: Annotated[int, Range(1, 30)] = 10,
    normalized: bool = True,
) -> Evidence:
    r"""The update $\xi\leftarrow X^\top\mathrm{softmax}(\beta X\xi)$ never raises the energy."""
    rng = seed.torch()
    stored = torch.randn(patterns, dim, dtype=torch.float64, generator=rng)
    memory = ModernHopfield(stored, beta=beta)
    query = 2 * torch.randn(states, dim, dtype=torch.float64, generator=rng)
    energies = [memory.energy(query)]
    for _ in range(steps):
        query = memory.recall(query) if normalized else (beta * query @ stored.T).exp() @ stored
        energies.append(memory.energy(query))
    path = torch.stack(energies)  # (steps + 1, states)
    return at_most(
        path[1:], path[:-1], slack=1e-12 * (1 + path[:-1].abs()),
        why="a theorem; rounding of sums of squares and of a logarithm",
    ).named("energy after an update").drawn(
        *(Series(f"state {k}", range(steps + 1), path[:, k], role="other") for k in range(6)),
        x="updates", y="energy",
    )


@claim(
    control={"scale": "1/sqrt(d)", "beta": 1.0}, refutes=["one update"],
    source="Ramsauer et al. 2021, sec. 2",
)
def update_is_attention(
    seed: Seed, *, patterns: Annotated[int, Range(2, 2000)] = 100,
    dim: Annotated[int, Range(2, 512)] = 64, beta: Annotated[float, Range(0.01, 8)] = 4.0,
    scale: Literal["beta", "1/sqrt(d)"] = "beta",
) -> Evidence:
    r"""One update is softmax attention: query $\xi$, keys and values $x_\mu$, scale $\beta$."""
    rng = seed.torch()
    stored, query = (
        functional.normalize(torch.randn(many, dim, generator=rng), dim=1)
        for many in (patterns, 50)
    )
    scores = (beta if scale == "beta" else dim**-0.5) * query.double() @ stored.double().T
    weights = scores.exp() / scores.exp().sum(dim=1, keepdim=True)
    memory = ModernHopfield(stored, beta=beta) if beta != 1 else ModernHopfield(stored)
    expected = weights @ stored.double()
    again = expected
    for _ in range(2):
        again = (again @ stored.double().T * beta).softmax(dim=1) @ stored.double()
    energy = query.double().square().sum(1) / 2 - (
        torch.logsumexp(beta * query.double() @ stored.double().T, 1) / beta
    )
    why = "float32: unit vectors and scores up to 8, each rounded by 6e-8 of itself"
    batch, given = query.view(2, 25, dim), stored.clone().requires_grad_()
    plain, signs = ModernHopfield(given), DenseMemory(given.sign())
    with torch.no_grad():
        given.zero_()  # which the memories do not see
    simple = (query.double() @ stored.double().T).softmax(dim=1) @ stored.double()
    followed = [one.patterns.requires_grad for one in (plain, signs)]
    return every(
        {
            "one update": equal(
                memory.recall(batch).flatten(0, 1), expected, tol=1e-6, why=why
            ).drawn(
                Series("query", range(dim), query[0], "gray"),
                Series("updated", range(dim), memory(query)[0]),
                Series("attention", range(dim), expected[0], "predicted"),
                x="coordinate", y="its value",
            ),
            "three updates": equal(memory.recall(query, steps=3), again, tol=1e-5, why=why),
            "energy": equal(memory.energy(batch).flatten(), energy, tol=1e-5, why=why),
            "by default beta is 1": equal(plain(query).detach(), simple, tol=1e-6, why=why),
            "gradients to what is stored": never(followed, why="memories keep copies of their own"),
        }
    )


@claim(
    control={"tied": True},
    refutes=["sharp: the nearest"],
    source="Ramsauer et al. 2021, theorem 5",
)
def retrieval_sharpens(
    seed: Seed, *, patterns: Annotated[int, Range(3, 12)] = 10,
    dim: Annotated[int, Range(32, 256)] = 64, noise: Annotated[float, Range(0, 0.5)] = 0.3,
    tied: bool = False,
) -> Evidence:
    r"""$\beta\to0$ gives the mean, $\beta\to\infty$ the nearest, off by some $e^{-\beta\Delta}$."""
    rng = seed.torch()
    stored, away = (
        functional.normalize(torch.randn(many, dim, dtype=torch.float64, generator=rng), dim=1)
        for many in (patterns, 20)
    )
    near = torch.arange(len(away)) % patterns
    query = stored[near] + noise * away
    if tied:  # into the plane between two patterns: one inner product for both, a gap of 0
        across = stored[near] - stored[near - 1]
        along = (query * across).sum(dim=1) / across.square().sum(dim=1)
        query = query - along[:, None] * across
    best = (query @ stored.T).topk(2).values
    gaps = best[:, 0] - best[:, 1]
    nearest = stored[torch.cdist(query, stored).argmin(dim=1)]

    betas = torch.linspace(16, 28, 5)[:, None] / gaps.clamp(min=0.1)  # (5, queries)
    errors = torch.stack([_recalled(stored, query, row) - nearest for row in betas]).norm(dim=2)
    rates = (errors[-1] / errors[0]).log() / (betas[-1] - betas[0])
    line = errors[0, 0] * (-gaps[0] * (betas[:, 0] - betas[0, 0])).exp()
    return every(
        {
            "sharp: the nearest": equal(
                ModernHopfield(stored, beta=1e6)(query), nearest, tol=1e-6,
                why="float64 rounding, unless the gap is below 1e-5",
            ),
            "blunt: the mean": equal(
                ModernHopfield(stored, beta=1e-7)(query), stored.mean(dim=0).expand_as(query),
                tol=1e-6, why="the first order in beta: beta times inner products below 2",
            ),
            "log error falls at the gap": equal(
                rates, -gaps, tol=0.05 * gaps + 1e-9,
                why="ten patterns right behind the second add 5 % at most; rounding",
            ).drawn(
                Series("measured", betas[:, 0], errors[:, 0]),
                Series("predicted", betas[:, 0], line, role="predicted"),
                x="β (first query)", y="distance to the nearest pattern", log="y",
            ),
        }
    )


def _recalled(stored: Tensor, query: Tensor, betas: Tensor) -> Tensor:
    """Update every query at its own sharpness."""
    pairs = zip(query, betas.tolist(), strict=True)
    return torch.stack([ModernHopfield(stored, beta=beta)(one) for one, beta in pairs])

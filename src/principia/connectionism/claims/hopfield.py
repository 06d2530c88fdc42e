r"""The Hopfield network: what is true of it, and what would refute it.

Knobs:
    n: Units of a network.
    s: Patterns that it stores.
    nets: Independent networks that are measured.
    order: Whether units take turns or all move at once; at once, energy may rise.
    states: Random states that are looked at.
    diagonal: Whether a unit keeps a coupling to itself, which the theory forbids.
    chance: The chance of +1 in a pattern; at 1/2 patterns are unlike each other.
    factor: Whether the integral has its factor, which prints forget.
    rule: How patterns are stored; of stable bits, which rule foretells them.
    recalled: Patterns from which recall begins.
    excess: How many times the load that theory is asked about is stored.
    feedback: How much of the noise of turned bits turns further ones; 1 in truth.
    load: Patterns a unit that are stored, below the critical 0.138.
    beyond: Patterns a unit that are stored, above the critical 0.138.
    longest: The largest network, as the logarithm of its units.
    share: How many times the patterns of the theorem are stored.
    logarithm: The logarithm in the capacity; only the natural one is right.
    bias: The threshold of every unit; with one, a pattern and its negative differ.
"""

import itertools
import math
from typing import Annotated, Literal

import numpy as np
import torch
from scipy import integrate, special, stats
from torch import Tensor

from principia.connectionism.hopfield import (
    Hopfield,
    crosstalk,
    flip_probability,
    is_memorized,
    mean_field_overlap,
    overlap,
)
from principia.lab.data.synthetic import random_signs
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
    follows,
    never,
    standard_error,
    within_errors,
)
from principia.lab.params import Range, UnitInterval
from principia.lab.pictures import Matrix, Plot, Rule
from principia.lab.seeds import Seed


@claim(
    control={"order": "sync"}, refutes=["no update raises the energy", "every run ends"],
    source="Hopfield 1982",
    misprint="updated synchronously or asynchronously, the net reaches a fixed point",
)
def energy_never_rises(
    seed: Seed, *, n: Annotated[int, Range(2, 60)] = 30, nets: Annotated[int, Range(1, 20)] = 5,
    order: Literal["async", "sync"] = "async",
) -> Evidence:
    r"""No asynchronous update raises the energy, so that every run ends in a fixed point."""
    rng, limit = seed.torch(), 100
    paths, runs, gaps = [], [], []
    for number in range(nets):
        net = Hopfield(n)
        net.W, net.b = _random_couplings(rng, n), torch.randn(n, generator=rng)
        states = random_signs(rng, 20, n)
        orders = [seed.child(number).torch() for _ in range(2)]  # the same for both ways
        run = net.recall(states, order=order, max_sweeps=limit, rng=orders[0])
        path = run.energies.T  # (updates + 1, states)
        if order == "async":  # watch every single update on the way
            walk = [states]
            for _ in range(int(run.sweeps.max())):
                for unit in torch.randperm(n, generator=orders[1]).split(1):
                    walk.append(net.update(walk[-1], unit))
            path = net.energy(torch.stack(walk))
        paths.append(path)
        runs.append(run.sweeps)
        gaps += [path[-1] - net.energy(run.states), run.energies[:, -1] - path[-1]]
    pair = Hopfield(2)
    pair.W = torch.tensor([[0.0, -1.0], [-1.0, 0.0]])
    runs.append(pair.recall(torch.ones(1, 2), order=order, max_sweeps=limit).sweeps)
    rises = torch.cat([path.diff(dim=0).flatten() for path in paths])
    first = [Series(f"state {k}", range(len(paths[0])), paths[0][:, k], "other") for k in range(5)]
    same = torch.cat([*gaps, *_unlike_a_loop(rng, order)])
    return every({
        "no update raises the energy": at_most(
            rises, 0, slack=1e-10, why="a theorem; rounding of sums of n² terms"
        ).drawn(*first, x="updates (first net)", y="energy"),
        "every run ends": never(torch.cat(runs) == limit, why="energies fall, finitely many"),
        "recall takes the same way": equal_to_rounding(same, torch.zeros_like(same)),
    })


def _unlike_a_loop(rng: torch.Generator, order: Literal["async", "sync"]) -> list[Tensor]:
    """Subtract what a loop over units, first to last, gives from a recall in a large net."""
    net, x = Hopfield(300), random_signs(rng, 4, 300)
    net.W, net.b = _random_couplings(rng, 300), torch.randn(300, generator=rng)
    run, walk = net.recall(x, order=order, max_sweeps=2), x.clone()
    for unit in 2 * [*range(300)] if order == "async" else []:
        walk[:, unit] = torch.where(walk @ net.W[unit] >= net.b[unit], 1.0, -1.0).to(walk)
    whole, cycled = net.recall(x), net.recall(x, order="sync")  # which goes on for 50 sweeps
    lengths = [whole.energies.shape[1] - 2 - whole.sweeps.max(), cycled.sweeps.max() - 50]
    return [(run.states - walk).flatten(), torch.tensor(lengths).double()]


def _random_couplings(rng: torch.Generator, n: int) -> Tensor:
    square = randn(rng, n, n)
    return (square + square.T).fill_diagonal_(0)


@claim(control={"diagonal": True}, refutes=["sign of the field"], source="Hopfield 1982")
def field_rule(
    seed: Seed, *, n: Annotated[int, Range(5, 150)] = 60, s: Annotated[int, Range(2, 100)] = 20,
    states: Annotated[int, Range(10, 500)] = 200, diagonal: bool = False,
) -> Evidence:
    r"""$\mathrm{sgn}(H_i)$ is the $X_i$ of least energy when $w_{ii}=0$: n terms instead of n²."""
    rng = seed.torch()
    net = Hopfield(n).store(random_signs(rng, s, n), zero_diagonal=not diagonal)
    net.b = 0.1 * torch.randn(n, generator=rng)
    x = random_signs(rng, states, n)
    up = x.repeat(n, 1, 1)  # (n, states, n): unit i of the i-th copy is set to +1
    up[torch.arange(n), :, torch.arange(n)] = 1
    down = up.clone()
    down[torch.arange(n), :, torch.arange(n)] = -1
    gain = (net.energy(down) - net.energy(up)).T  # (states, n)
    wrong = torch.sign(gain) != net.recall(x, order="sync", max_sweeps=1).states
    pairs = -torch.einsum("bi,ij,bj->b", x, net.W.triu(1), x) + x @ net.b
    whole = Hopfield(n).store(x[:s], zero_diagonal=False)  # whose diagonal has no energy
    pairs = torch.cat([pairs, -torch.einsum("bi,ij,bj->b", x, whole.W.triu(1), x)])
    energies = torch.cat([net.energy(x), whole.energy(x)])
    return every({
        "sign of the field": never(wrong[gain.abs() > 1e-9], why="a theorem, ties aside"),
        "energy, pair by pair": equal_to_rounding(energies, pairs),
    }).drawn(
        Series("units", net.field(x).flatten()[:400], gain.flatten()[:400]), Rule("", y=0.0),
        Rule("", x=0.0), x="field of a unit", y="energy with the unit at -1, less that at +1")


@claim(
    control={"diagonal": True}, source="Hertz, Krogh and Palmer 1991, ch. 2",
    misprint=r"$W=\frac1n\sum_tx^tx^{t\top}$, although $w_{ii}=0$ is required",
)
def hebb_zero_diagonal(
    seed: Seed, *, n: Annotated[int, Range(50, 600)] = 400, s: Annotated[int, Range(5, 100)] = 40,
    nets: Annotated[int, Range(50, 500)] = 100, diagonal: bool = False,
) -> Evidence:
    r"""With $w_{ii}=0$ the mean of $x_iC_i$ is 0 and bits flip as often as theory says."""
    rng, means, rates = seed.torch(), [], []
    for _ in range(nets):
        x = random_signs(rng, s, n)
        net = Hopfield(n).store(x, zero_diagonal=not diagonal)
        own = 1 if diagonal else (n - 1) / n  # what the pattern itself adds to its field
        means.append((x * net.field(x) - own).mean())
        rates.append((net.recall(x, order="sync", max_sweeps=1).states != x).double().mean())
    mean, rate, each = torch.stack(means), torch.stack(rates), "over independent nets"
    return every({
        "mean crosstalk": _estimated(mean, 0.0, f"mean {each}"),
        "flips": _estimated(rate, flip_probability(n, s), f"rate {each}", s * n),
    })


def _estimated(values: Tensor, expected: float, why: str, cases: int = 0) -> Evidence:
    """State a mean; rates of rare events among `cases` have the error of the expected count."""
    rare = math.sqrt(expected / (len(values) * cases)) if cases else 0.0
    error = max(float(standard_error(values)), rare)
    return within_errors(values.mean(), expected, error=error, why=why)


@claim(control={"chance": 0.7}, source="Hertz, Krogh and Palmer 1991, ch. 2")
def crosstalk_gaussian(
    seed: Seed, *, n: Annotated[int, Range(50, 300)] = 200, s: Annotated[int, Range(5, 40)] = 20,
    nets: Annotated[int, Range(200, 1500)] = 1000, chance: Annotated[float, Range(0, 1)] = 0.5,
) -> Evidence:
    r"""For random patterns $C\approx N(0,s/n)$; its exact variance is $(s-1)(n-1)/n^2$."""
    drawn = torch.rand(nets, s, n, generator=seed.torch()) < chance
    x = torch.where(drawn, 1.0, -1.0).double()
    talk = crosstalk(x)
    variance = (s - 1) * (n - 1) / n**2
    return every({
        "law": follows(
            talk[:, 0, 0] / math.sqrt(variance), stats.norm(),
            why="one bit a net: independent draws of a sum of (s-1)(n-1) signs",
        ),
        "mean": _estimated((x * talk).mean(dim=(1, 2)), 0.0, "mean over nets"),
        "variance": _estimated(talk.square().mean(dim=(1, 2)), variance, "mean over nets"),
    })


@claim(
    control={"factor": False}, refutes=["integral"],
    source="Hertz, Krogh and Palmer 1991, ch. 2",
    misprint=r"$\int_1^\infty e^{-nz^2/2s}dz$ without the factor $\sqrt{n/2\pi s}$",
)
def flip_probability_claim(
    seed: Seed, *, n: Annotated[int, Range(50, 500)] = 200, s: Annotated[int, Range(5, 50)] = 20,
    nets: Annotated[int, Range(50, 600)] = 400, factor: bool = True,
) -> Evidence:
    r"""$P(-x_iC_i\ge1)=\sqrt{\frac n{2\pi s}}\int_1^\infty e^{-nz^2/2s}dz$, an error function."""
    tail = integrate.quad(lambda z: math.exp(-n * z * z / 2 / s), 1, math.inf, epsabs=0)
    integral = tail[0] * (math.sqrt(n / (2 * math.pi * s)) if factor else 1)
    x = random_signs(seed.torch(), nets, s, n)
    wrong = torch.where(x * (n - 1) + (n * crosstalk(x)).round() >= 0, 1, -1) != x  # integers
    return every({
        "integral": equal(
            integral / flip_probability(n, s, exact=False), 1.0, tol=1e-7,
            why="a ratio, as both may be tiny; the quadrature's relative error is 1e-8",
        ),
        "measured": _estimated(
            wrong.double().mean(dim=(1, 2)), flip_probability(n, s), "rate over nets", s * n
        ),
        "a pattern alone": equal(flip_probability(n, 1), 0, tol=0, why="nothing disturbs it"),
        "memorized": never(
            is_memorized(x) != ~wrong.any(-1), why="a pattern is fixed iff no bit is wrong"
        ),
    })


@claim(
    control={"rule": "two-sided"}, refutes=["stable bits"], source="by construction",
    misprint=r"we require $\vert C_i\vert<1$",
)
def stability_is_one_sided(
    seed: Seed, *, n: Annotated[int, Range(10, 200)] = 100,
    s: Annotated[int, Range(20, 500)] = 60, rule: Literal["one-sided", "two-sided"] = "one-sided",
) -> Evidence:
    r"""A stored bit is stable iff $x_iC_i\ge-(n-1)/n$ (at equality iff it is +1)."""
    rng = seed.torch()
    x, ties = random_signs(rng, s, n), []
    talk = crosstalk(x)
    against = -(n * x * talk).round()  # integers: equality is exact
    predicted = (against < n - 1) | ((against == n - 1) & (x > 0))
    if rule == "two-sided":
        predicted = talk.abs() < 1
    net = Hopfield(n).store(x)
    stable = net.recall(x, order="sync", max_sweeps=1).states == x
    reason, field = "integers; sgn(0) = +1 decides at equality", (n - 1) / n * x + talk
    for units in range(3, 60):  # fields that are 0, but for rounding; and without any coupling
        alone, empty = random_signs(rng, 1, units), Hopfield(units)
        tied = Hopfield(units).store(alone)
        tied.b = (1 - units) / units * alone[0]
        ties += [one.recall(-alone, order="sync", max_sweeps=1).states for one in (tied, empty)]
    talks, places = (x * talk).flatten().unique(return_inverse=True)
    shares = torch.stack([stable.flatten()[places == k].double().mean() for k in range(len(talks))])
    return every({
        "stable bits": never(predicted != stable, why=reason),
        "field = own share + crosstalk": equal_to_rounding(net.field(x), field),
        "a field of 0 gives +1": never(torch.cat(ties, 1) < 0, why="rounding does not decide"),
    }).drawn(Series("bits", talks, shares), Rule("-(n - 1)/n", x=(1 - n) / n),
             x="crosstalk along the bit, xᵢCᵢ", y="share of such bits that are stable")


@claim(control={"excess": 1.5}, source="Amit, Gutfreund and Sompolinsky 1985")
def retrieval_overlap(
    seed: Seed, *, n: Annotated[int, Range(1000, 3000)] = 2000,
    recalled: Annotated[int, Range(20, 100)] = 60, excess: Annotated[float, Range(0.1, 2)] = 1.0,
) -> Evidence:
    r"""The overlap after recall follows the mean-field $m(\alpha)$ below the critical load."""
    loads = np.array([0.05, 0.10, 0.12])
    found = [end_overlaps(seed, n, excess * load, recalled) for load in loads.tolist()]
    shares = [float((ends > 0.8).double().mean()) for ends in found]
    # a finite net may lose a pattern altogether: it is left out, unless most are lost
    kept = [ends[ends > 0.8] if p > 0.5 else ends for ends, p in zip(found, shares, strict=True)]
    means = [float(ends.mean()) for ends in kept]
    errors = [float(standard_error(ends)) for ends in kept]
    predicted, picture = [*map(mean_field_overlap, loads.tolist())], overlap_curve(0.15)
    return every({
        "overlap": within_errors(
            means, predicted, error=errors, bias=2 / n,
            why="mean over the patterns kept; a finite net is not finer than one bit, 2/n",
        ).drawn(Series("recalled", excess * loads, means), picture, x="load α", y="overlap m"),
        "patterns kept": at_least(shares, 0.9, why="all of them as n grows; n is finite"),
    })


def end_overlaps(seed: Seed, n: int, load: float, count: int) -> Tensor:
    """Fill a net, start it at some of its patterns and measure the overlaps where it ends."""
    rng = seed.child(f"{n} units, load {load}").torch()
    patterns = random_signs(rng, round(load * n), n)
    net = Hopfield(n, dtype=torch.float32).store(patterns)  # the same signs, faster
    states = net.recall(patterns[:count], rng=rng).states
    return overlap(states, patterns[:count])


def overlap_curve(largest: float) -> Series:
    """Draw the mean-field overlap up to a load, with the jump between two close loads."""
    loads = sorted([largest * k / 50 for k in range(2, 51)] + [0.1379, 0.13791])
    return Series("mean field", loads, [mean_field_overlap(load) for load in loads], "predicted")


@claim(control={"feedback": 0.0}, source="Amit, Gutfreund and Sompolinsky 1985")
def critical_load(seed: Seed, *, feedback: UnitInterval = 1.0) -> Evidence:
    r"""The mean-field equations lose retrieval at $\alpha_c=0.138$, where still $m=0.967$."""
    low, high = 0.01, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if _iterated(middle, feedback)[0] > 0.5 else (low, middle)
    loads = np.array([0.01, 0.03, 0.05, 0.08, 0.1, 0.12, 0.13, 0.137, 0.139, 0.2, 0.5])
    m, r = np.array([_iterated(load, feedback) for load in loads]).T
    C = np.sqrt(2 / (np.pi * loads * r)) * np.exp(-(m**2) / (2 * loads * r))
    sides = np.concatenate([special.erf(m / np.sqrt(2 * loads * r)), (1 - C) ** -2.0])
    solved = [mean_field_overlap(float(load)) for load in loads]
    root = "m has a square root at the critical load: 1e-6 of load move it by 1e-3"
    return every({
        "load": equal(low, 0.138, tol=5e-4, why="half a unit of the last published digit"),
        "overlap": equal(_iterated(low, feedback)[0], 0.967, tol=3e-3, why=root),
        "equations": equal_to_rounding(np.concatenate([m, r]), sides),
        "solver": equal_to_rounding(solved, m),
    }).drawn(overlap_curve(0.5), Series("iterated equations", loads, m), Rule("0.138", x=0.138),
             x="load α", y="overlap after recall")


def _iterated(load: float, feedback: float) -> tuple[float, float]:
    r"""Iterate them from m = 1, as $\sqrt{\alpha r}=\sqrt\alpha+C\sqrt{\alpha r}$; give m and r."""
    m, width = 1.0, math.sqrt(load)
    for _ in range(100_000):  # at a critical point it would crawl for ever
        before, amplified = m, math.sqrt(2 / math.pi) * math.exp(-m * m / (2 * width**2))
        m = math.erf(m / (math.sqrt(2) * width))
        width = math.sqrt(load) + feedback * amplified
        if abs(m - before) < 1e-15:
            break
    return m, width**2 / load


@claim(
    control=[
        Control({"load": 0.18}, ["below", "the fall between"], "a load beyond the critical one"),
        Control({"beyond": 0.12}, ["above", "the fall between"], "a load below the critical one"),
    ],
    source="Amit, Gutfreund and Sompolinsky 1985", headline=True,
    sees="Recalled patterns lie on the mean-field curve, near 1, and fall off its cliff at 0.138.",
)
def phase_transition(
    seed: Seed, *, load: Annotated[float, Range(0.02, 0.25)] = 0.12,
    beyond: Annotated[float, Range(0.1, 0.3)] = 0.18,
    n: Annotated[int, Range(500, 3000)] = 1500, recalled: Annotated[int, Range(10, 50)] = 30,
) -> Evidence:
    r"""Memory survives up to a load of 0.138 patterns a unit; above, it collapses at once."""
    loads = [0.75 * load, load, beyond, 7 / 6 * beyond]
    found = [end_overlaps(seed, n, alpha, recalled) for alpha in loads]
    means = np.array([float(ends.mean()) for ends in found])
    slow = float(np.abs(np.diff(means)[::2]).max())
    return every({
        "below": at_least(
            means[:2], 0.95, why="mean field: 0.967 or more; less finite size"
        ).drawn(
            Series("recalled", loads, means, error=[float(standard_error(m)) for m in found]),
            overlap_curve(loads[-1]), x="load α = s/n", y="overlap after recall",
        ),
        "above": at_most(
            means[2:], 0.55, why="mean field: 0; a trace of the start is left, 0.35 of it"
        ),
        "the fall between": at_least(means[1] - means[2], 3 * slow, why="elsewhere it is slow"),
    })


@claim(
    control=[
        Control({"logarithm": "binary"}, ["one pattern", "all patterns"], "a binary logarithm"),
        Control({"share": 1.2}, ["at the constants"], "a fifth more patterns"),
    ],
    source="McEliece, Posner, Rodemich and Venkatesh 1987",
    misprint=r"$s\le n/(2\log_2n)$ as the capacity",
)
def capacity_constant(
    seed: Seed, *, longest: Annotated[int, Range(100, 190)] = 180,
    nets: Annotated[int, Range(10, 100)] = 20, share: Annotated[float, Range(0.5, 2)] = 1.0,
    logarithm: Literal["natural", "binary"] = "natural",
) -> Evidence:
    r"""$s=cn/\ln n$: wrong bits of a pattern vanish iff $c\le\frac12$, of all iff $c\le\frac14$."""
    lengths = np.linspace(50, longest, 24)  # ln n
    unit = share * (math.log(2) if logarithm == "binary" else 1.0)  # n/log2(n) = ln(2) n/ln(n)

    def expected(c: float, patterns: bool) -> np.ndarray:  # logarithm of how many bits are wrong
        units = [int(math.exp(length)) for length in lengths]
        counts = [int(unit * c * n / length) for n, length in zip(units, lengths, strict=True)]
        wrong = [flip_probability(n, s) for n, s in zip(units, counts, strict=True)]
        return lengths + np.log(wrong) + patterns * np.log(np.array(counts, dtype=float))

    exponents, curves, n = {}, [], 1000
    reason = "the Gaussian tail's next term, c/ln n, has slope c/2500 at most"
    for name, critical, powers in (("one pattern", 0.5, 0.5), ("all patterns", 0.25, 1.5)):
        shares = critical * np.array([0.8, 1.0, 1.2])
        logs = [expected(c, powers > 1) + powers * np.log(lengths) for c in shares]
        slopes = np.polyfit(lengths, np.transpose(logs), 1)[0]
        curves += [Series(f"{name}, c = {c:.2g}", lengths, one, "other")
                   for c, one in zip(shares, logs, strict=True)]
        exponents[name] = equal(slopes, (1 / critical - 1 / shares) / 2, tol=0.01, why=reason)
    edges = np.concatenate([np.diff(expected(0.5, False)), np.diff(expected(0.25, True))])
    s, rng = round(n / (2 * math.log(n))), seed.torch()
    stored = random_signs(rng, nets, s, n)
    ends = [Hopfield(n).store(x).recall(x, order="sync", max_sweeps=1).states for x in stored]
    rates = (torch.stack(ends) != stored).double().mean(dim=(1, 2))
    return every({
        **exponents,
        "at the constants": at_most(edges, 0.0, why="powers of ln n decide: it falls with n"),
        "in nets": _estimated(rates, flip_probability(n, s), "rate over nets", s * n),
    }).drawn(*curves, x="ln n", y="ln of the wrong bits, times √ln n or (ln n)^1.5")


@claim(
    control={"rule": "hebb"}, refutes=["couplings", "patterns are fixed"],
    source="Personnaz, Guyon and Dreyfus 1985",
)
def projection_rule(
    seed: Seed, *, n: Annotated[int, Range(20, 300)] = 60, s: Annotated[int, Range(3, 12)] = 10,
    rule: Literal["projection", "hebb"] = "projection",
) -> Evidence:
    r"""$X^+X$ projects on the span of the patterns, which stay fixed even if they are alike."""
    rng = seed.torch()
    flips = torch.rand(s, n, generator=rng) < 0.2  # each differs from the first in a fifth
    x = torch.where(flips, -1.0, 1.0) * random_signs(rng, 1, n)
    x[-1] = -x[0]  # dependent, too
    net, whole = Hopfield(n).store(x, rule=rule), Hopfield(n)
    whole.store(x, rule=rule, zero_diagonal=False)
    projection = torch.linalg.pinv(x) @ x
    both = projection - projection.diagonal().diag(), projection
    return every({
        "couplings": equal_to_rounding(torch.stack([net.W, whole.W]), torch.stack(both)),
        "patterns are fixed": never(net.recall(x).sweeps > 0, why="W x = x, less a share of x"),
        "no asymmetry": never(whole.W != whole.W.T, why="a projection, to the last bit"),
    }).drawn(
        Series("of the couplings", range(n), torch.linalg.eigvalsh(whole.W)), Rule("kept", y=1.0),
        Rule("forgotten", y=0.0), x="direction, from 0", y="eigenvalue of the couplings")


@claim(
    control={"bias": 1.5}, refutes=["patterns are fixed", "their negatives are",
                                    "every fixed point's negative is", "mixtures are fixed"],
    source="Hertz, Krogh and Palmer 1991, ch. 2",
)
def inverse_and_mixtures(
    seed: Seed, *, n: Annotated[int, Range(500, 2000)] = 1000,
    s: Annotated[int, Range(3, 8)] = 5, bias: Annotated[float, Range(0, 2)] = 0.0,
) -> Evidence:
    r"""If $b=0$, $-x$ is fixed with $x$, and so is the spurious $\mathrm{sgn}(x^1+x^2+x^3)$."""
    rng = seed.torch()
    x = random_signs(rng, s, n)
    net = Hopfield(n).store(x)
    net.b = torch.full((n,), bias)
    triples = torch.tensor(list(itertools.combinations(range(s), 3)))
    mixtures = torch.sign(x[triples].sum(1))
    starts = torch.cat([x, mixtures, random_signs(rng, 50, n)])
    ends = net.recall(starts, rng=rng).states

    def moves(states: Tensor) -> Tensor:
        return (states * net.field(states) < -1e-9).any(1)  # ties aside

    small, fixed = "crosstalk of sd sqrt(s/n) beside fields of size 1", 1 - moves(mixtures).double()
    shared, error = overlap(mixtures[:, None], x[triples]).flatten(), (3 / 4 / n) ** 0.5
    half = "a majority of three agrees with each in 3/4 of the bits"
    return every({
        "patterns are fixed": never(net.recall(x).sweeps, of=s, why=small),
        "their negatives are": never(moves(-x), why="a symmetry, H(-x) = -H(x)"),
        "every fixed point's negative is": never(moves(-ends), why="the same symmetry"),
        "and have half of each pattern": within_errors(shared, 0.5, error=error, why=half),
        "mixtures are fixed": at_least(fixed.mean(), 0.95, why=f"{small}, the weakest 1/2"),
    }).pictured(Plot((Matrix(
        overlap(mixtures[:, None], x), ["+".join(map(str, one)) for one in (triples + 1).tolist()],
        [f"pattern {k + 1}" for k in range(s)], written=True, signed=True, low=-1, high=1,
    ),), "", "sign of a sum of patterns", title="overlaps: one half with each of the three"))

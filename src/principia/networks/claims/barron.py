r"""Barron's rate: what is true of it, and what would refute it.

Knobs:
    s: The width of the bell that is approximated.
    factor: The factor between $C_f$ and Barron's own constant, which measures by angle.
    units: The most sigmoids that a network has.
    r: The radius of the ball on which errors are measured.
    values: What is approximated; random signs are noise of all frequencies.
    basis: Whether units are chosen for the function, or fixed before it is known.
    dims: The largest number of variables.
"""

import math
from typing import Annotated, Literal

import numpy as np
import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor

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
    slope,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.networks.barron import (
    barron_constant,
    cosine_constant,
    fixed_fourier_error,
    gaussian_constant,
    greedy_network,
    sigmoid_pool,
)
from principia.networks.mlp import MLP

Units = Annotated[int, Range(32, 128)]
Width = Annotated[float, Range(0.8, 2.0)]
DIMS = (1, 2, 5)  # numbers of variables that the claims try
SAMPLES = 400  # that stand for the probability on the ball
FIRST = 4  # unit from which rates are read: before, a few units cannot do much about a bell


@claim(control={"factor": "1"}, refutes=["Barron's own constant"], source="Barron 1993, sec. 9")
def barron_constant_claim(
    seed: Seed, *, s: Annotated[float, Range(0.1, 10)] = 0.7,
    factor: Literal["2π", "1"] = "2π",
) -> Evidence:
    r"""A Gaussian has $2\pi C_f=\sqrt2\,\Gamma(\frac{n+1}2)/(s\,\Gamma(\frac n2))$."""
    def bell(x: Tensor) -> Tensor:
        return (-x.square().sum(dim=-1) / (2 * s**2)).exp()

    dims, spread = np.arange(1, 4), 1 / (2 * math.pi * s)  # of the spectrum, a normal density
    exact, step = spread * stats.chi(dims).mean(), 1 / (24 * s)  # between frequencies
    closed = [gaussian_constant(int(n), s=s) for n in dims]
    found = [barron_constant(bell, int(n), half=12 * s, points=64) for n in dims]
    omega = torch.randn(2, generator=seed.torch(), dtype=torch.float64)
    omega = omega / (2 * s * omega.norm())
    wave = barron_constant(
        lambda x: bell(x) * torch.cos(2 * torch.pi * x @ omega), 2, half=12 * s, points=64
    )
    x = torch.linspace(-12, 12, 1001, dtype=torch.float64)[:, None] * s
    w = torch.linspace(0, 8, 801, dtype=torch.float64) / s  # angular, the other half mirrors it
    transform = torch.trapezoid(bell(x)[:, None] * torch.cos(x * w), x, dim=0) / (2 * torch.pi)
    own = 2 * torch.trapezoid(w * transform.abs(), w)
    scale = 2 * math.pi if factor == "2π" else 1.0
    return every({
        "Barron's own constant": equal(
            own, scale * closed[0], tol=1e-4 / s, why="trapezoids 0.01/s wide over a kink at 0"
        ),
        "closed form": equal_to_rounding(closed, exact),
        "transform on a grid": equal(
            found, exact, tol=0.3 * step ** (dims + 1) * (2 * math.pi * s**2) ** (dims / 2),
            why="a sum over steps h in frequency misses the kink of |ω| at 0 by h^(n+1)/6 (n = 1), "
            "0.23 and 0.27 h^(n+1) (n = 2, 3), times the spectrum there",
        ).drawn(
            Series("grid", dims, found), Series("closed form", dims, exact, "predicted"),
            x="variables n", y="C_f",
        ),
        "wave under a Gaussian": equal(
            wave, stats.rice(cosine_constant(omega) / spread, scale=spread).mean(), tol=1e-5 / s,
            why="the mean length of a normal frequency around ω; the kink is in its tail",
        ),
    })


@claim(
    control=[Control({"values": "signs drawn anew"}, ["n = 1", "n = 2", "n = 5"],
                      "noise, whose spectrum ends nowhere")],
    source="Barron 1993, theorem 1",
)
def barron_bound(
    seed: Seed, *, units: Units = 64, s: Width = 0.8, r: Annotated[float, Range(0.5, 1)] = 1.0,
    values: Literal["of f", "signs drawn anew"] = "of f",
) -> Evidence:
    r"""Some $m$ sigmoids have $\int_{rB}(f-g_m)^2d\mu\le(2r\cdot2\pi C_f)^2/m$ in any dimension."""
    m, parts = torch.arange(1, units + 1, dtype=torch.float64), {}
    for n in DIMS:
        x, y, network, errors = _greedy(seed, n, units, s, r, noise=values != "of f")
        bound = (2 * r * 2 * math.pi * gaussian_constant(n, s=s)) ** 2 / m
        parts[f"n = {n}"] = at_most(errors[1:], bound, why="a theorem: no slack").drawn(
            Series("greedy network", m, errors[1:]), Series("bound", m, bound, role="bound"),
            x="units m", y="mean squared error", log="xy",
        )
        outputs = network(x)[:, 0].detach()
        parts[f"n = {n}: the network itself"] = equal_to_rounding(
            torch.stack([(outputs - y).square().mean(), y.var(correction=0)]) / errors[0],
            torch.stack([errors[-1], errors[0]]) / errors[0],
        )
    return every({**parts, "units on offer": _pool(seed.child("pool"), r)})


def _greedy(
    seed: Seed, n: int, units: int, s: float, r: float = 1.0, *, noise: bool = False
) -> tuple[Tensor, Tensor, MLP, Tensor]:
    """Approximate a Gaussian on samples of the ball: samples, values, network, squared errors."""
    rng = seed.child(n).torch()
    directions = F.normalize(torch.randn(SAMPLES, n, generator=rng, dtype=torch.float64), dim=1)
    x = r * directions * torch.rand(SAMPLES, 1, generator=rng, dtype=torch.float64) ** (1 / n)
    y = (-x.square().sum(dim=1) / (2 * s**2)).exp()
    if noise:
        y = 1.0 - 2.0 * torch.randint(2, y.shape, generator=rng).to(y)
    return x, y, *greedy_network(x, y, units, rng=rng)


def _pool(seed: Seed, r: float) -> Evidence:
    """Look at what a choice is made from: directions, sharpness, place and number of units."""
    rng = seed.torch()
    x = r * torch.randn(300, 3, generator=rng, dtype=torch.float64) * torch.tensor([1.0, 2.0, 3.0])
    W, b = sigmoid_pool(x, 3000, rng)
    sharp, fields = W.norm(dim=1), W @ x.mT + b[:, None]
    first = [greedy_network(x, x[:, 0] * x[:, 1], 1, **options, rng=seed.torch())[1]
             for options in ({}, {"candidates": 400})]
    return every({
        "directions": follows(
            W[:, 2] / sharp, stats.uniform(-1, 2), why="a height on a sphere in R³ is uniform"
        ),
        "sharpness": follows(
            sharp.log(), stats.uniform(math.log(0.5 / x.std()), math.log(10)),
            why="half to five for each standard deviation of the inputs, in proportion",
        ),
        "each bends at a sample": equal_to_rounding(fields.abs().amin(dim=1), 0),
        "at many of them": at_least(
            fields.abs().argmin(dim=1).unique().numel(), 290, why="e^-10 of 300 are never drawn"
        ),
        "by default 400": equal(*first, tol=0, why="the same draws"),
        "the most like what is left": equal_to_rounding(
            greedy_network(x, x[:, 0] * x[:, 1], 5, candidates=30, rng=seed.torch())[1],
            _chosen_by_correlation(x, x[:, 0] * x[:, 1], 5, 30, seed.torch())),
    })


def _chosen_by_correlation(
    x: Tensor, y: Tensor, units: int, candidates: int, rng: torch.Generator
) -> Tensor:
    """Choose units as the definition says, each time with a new fit; give the squared errors."""
    columns, errors = torch.ones(len(x), 1, dtype=x.dtype), []
    for _ in range(units + 1):
        left = y - columns @ torch.linalg.lstsq(columns, y[:, None]).solution[:, 0]
        errors.append(left.square().mean())
        W, b = sigmoid_pool(x, candidates, rng)
        offered = torch.sigmoid(x @ W.mT + b)
        best = torch.corrcoef(torch.cat([left[None], offered.mT]))[0, 1:].abs().argmax()
        columns = torch.cat([columns, offered[:, best, None]], dim=1)
    return torch.stack(errors)


@claim(control={"basis": "fixed"}, source="Barron 1993, theorem 1; Jones 1992")
def rate_free_of_dimension(
    seed: Seed, *, units: Units = 64, s: Width = 1.0,
    basis: Literal["chosen", "fixed"] = "chosen",
) -> Evidence:
    r"""With chosen units the squared error falls at least like $1/m$, whatever the dimension."""
    m = np.arange(FIRST, units + 1)
    errors = {
        n: _greedy(seed, n, units, s)[-1][FIRST:] if basis == "chosen"
        else torch.tensor([fixed_fourier_error(n, int(one)) ** 2 for one in m])
        for n in DIMS
    }
    slopes = [np.polyfit(np.log(m), np.log(one.numpy()), 1)[0] for one in errors.values()]
    why = "at least as steep as -1; a tenth for the choice among 400 random units, not all"
    found = at_most(slopes, -0.9, why=why, detail=f"slopes for n = {DIMS}")
    return found.named("slope of the log error over the log of units").drawn(
        *(Series(f"n = {n}", m, one, "other", "points") for n, one in errors.items()),
        Series("1/m", m, 1 / m, role="predicted"), x="units m", y="mean squared error", log="xy",
    )


@claim(
    control={"basis": "chosen"},
    refutes=["n = 1", "n = 2", "n = 3", "n = 4", "any m functions", "waves counted one by one"],
    source="Barron 1993, theorem 6",
)
def fixed_basis_curse(
    seed: Seed, *, dims: Annotated[int, Range(2, 6)] = 4,
    basis: Literal["fixed", "chosen"] = "fixed",
) -> Evidence:
    r"""Over all $f$ with $C_f\le1$, $m$ fixed functions leave a squared error like $m^{-2/n}$."""
    parts = {}
    for n in range(1, dims + 1):
        m = 2 ** torch.arange(6, 17)
        errors = torch.tensor([fixed_fourier_error(n, one) ** 2 for one in m.tolist()])
        if basis == "chosen":
            m = torch.arange(FIRST, 65)
            errors = _greedy(seed, n, 64, 1.0)[-1][FIRST:]
        parts[f"n = {n}"] = slope(
            m, errors, -2 / n, tol=0.03, labels=("functions m", "worst squared error"),
            why="the waves of one frequency come together, so that the count moves in jumps",
        )
    # of 2m orthonormal waves, m functions hold m units of squared length: some wave keeps half
    rng, m = seed.torch(), 16
    one = torch.eye(m, dtype=torch.float64)
    spaces = torch.linalg.qr(torch.randn(200, 2 * m, m, generator=rng, dtype=torch.float64)).Q
    spaces = torch.cat([spaces, torch.cat([one, one])[None] / 2**0.5])  # all waves alike, at last
    kept = 1 - spaces.square().sum(dim=2).min(dim=1).values
    if basis == "chosen":  # for each wave, m of the waves, it first
        waves = torch.eye(2 * m, dtype=torch.float64)
        kept = torch.stack([1 - waves[wave].roll(-wave)[:m].square().sum() for wave in range(m)])
    why = "a theorem on traces, with equality where all waves lose alike; rounding"
    return every({
        **parts, "waves counted one by one": _counted(dims, basis),
        "any m functions": equal(kept.min(), 0.5, tol=1e-12, why=why),
    })


def _counted(dims: int, basis: str) -> Evidence:
    """Compare with a list of all waves: the worst one of those that are not among m."""
    found, exact = [], []
    for n in range(1, dims + 1):
        reach = (60, 12, 6, 4, 3, 3)[n - 1]
        k = torch.cartesian_prod(*[torch.arange(-reach, reach + 1)] * n).view(-1, n)
        squares = k.square().sum(dim=1).sort().values[1::2]  # k and -k are one wave, 0 is none
        squares = squares[squares <= reach**2][:60].double()  # complete up to here
        # a cosine over whole periods has the mean square 1/2
        left = (0.5 / squares).sqrt() if basis == "fixed" else torch.zeros_like(squares)
        for m, error in enumerate(left[1:].tolist(), start=1):
            found.append(fixed_fourier_error(n, m))
            exact.append(error)
    return equal_to_rounding(found, exact)

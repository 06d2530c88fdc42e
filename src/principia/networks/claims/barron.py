r"""Barron's rate: what is true of it, and what would refute it."""

import math
from typing import Annotated, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

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
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.networks.barron import (
    barron_constant,
    cosine_constant,
    fixed_fourier_error,
    gaussian_constant,
    greedy_network,
)
from principia.networks.mlp import MLP

Units = Annotated[int, Range(32, 128)]
Width = Annotated[float, Range(0.8, 2.0)]
DIMS = (1, 2, 5)  # numbers of variables that the claims try
SAMPLES = 400  # that stand for the probability on the ball
FIRST = 4  # unit from which rates are read: before, a few units cannot do much about a bell


@claim(control={"factor": "1"}, refutes=["Barron's own constant"], source="Barron 1993, sec. 9")
def barron_constant_claim(
    seed: Seed, *, s: Annotated[float, Range(0.1, 10)] = 1.0,
    factor: Literal["2π", "1"] = "2π",
) -> Evidence:
    r"""A Gaussian has $2\pi C_f=\sqrt2\,\Gamma(\frac{n+1}2)/(s\,\Gamma(\frac n2))$."""
    def bell(x: Tensor) -> Tensor:
        return (-x.square().sum(dim=-1) / (2 * s**2)).exp()

    exact = [gaussian_constant(n, s=s) for n in (1, 2, 3)]
    found = [barron_constant(bell, n, half=12 * s, points=64) for n in (1, 2, 3)]
    omega = torch.randn(2, generator=seed.torch(), dtype=torch.float64)
    omega = omega / (2 * s * omega.norm())
    wave = barron_constant(
        lambda x: bell(x) * torch.cos(2 * torch.pi * x @ omega), 2, half=12 * s, points=96
    )
    x = torch.linspace(-12, 12, 1001, dtype=torch.float64)[:, None] * s
    w = torch.linspace(0, 8, 801, dtype=torch.float64) / s  # angular, the other half mirrors it
    transform = torch.trapezoid(bell(x)[:, None] * torch.cos(x * w), x, dim=0) / (2 * torch.pi)
    own = 2 * torch.trapezoid(w * transform.abs(), w)
    scale = 2 * math.pi if factor == "2π" else 1.0
    return every({
        "Barron's own constant": equal(
            own, scale * exact[0], tol=1e-4 / s, why="trapezoids 0.01/s wide over a kink at 0"
        ),
        "transform on a grid": equal(
            found, exact, tol=[0.01 * one for one in exact],
            why="the sum over frequencies 1/(24s) apart misses the kink of |ω| at 0 by 0.6 %",
        ).drawn(
            Series("grid", [1, 2, 3], found), Series("closed form", [1, 2, 3], exact, "predicted"),
            x="variables n", y="C_f",
        ),
        "wave under a Gaussian": equal(
            wave, cosine_constant(omega), tol=exact[1],
            why="the Gaussian spreads the frequency by its own C_f at most",
        ),
    })


@claim(
    control={"scale": 0.003},
    refutes=["n = 1", "n = 2", "n = 5"],
    source="Barron 1993, theorem 1",
)
def barron_bound(
    seed: Seed, *, units: Units = 64, s: Width = 1.0, r: Annotated[float, Range(0.5, 1)] = 1.0,
    scale: Annotated[float, Range(0.001, 1)] = 1.0,
) -> Evidence:
    r"""Some $m$ sigmoids have $\int_{rB}(f-g_m)^2d\mu\le(2r\cdot2\pi C_f)^2/m$ in any dimension."""
    m, parts = torch.arange(1, units + 1, dtype=torch.float64), {}
    for n in DIMS:
        x, y, network, errors = _greedy(seed, n, units, s, r)
        bound = (2 * r * 2 * math.pi * scale * gaussian_constant(n, s=s)) ** 2 / m
        parts[f"n = {n}"] = at_most(errors[1:], bound, why="a theorem: no slack").drawn(
            Series("greedy network", m, errors[1:]), Series("bound", m, bound, role="bound"),
            x="units m", y="mean squared error", log="xy",
        )
        outputs = network(x)[:, 0].detach()
        parts[f"n = {n}: the network itself"] = equal_to_rounding(
            (outputs - y).square().mean() / errors[0], errors[-1] / errors[0]
        )
    return every(parts)


def _greedy(
    seed: Seed, n: int, units: int, s: float, r: float = 1.0
) -> tuple[Tensor, Tensor, MLP, Tensor]:
    """Approximate a Gaussian on samples of the ball: samples, values, network, squared errors."""
    rng = seed.child(n).torch()
    directions = F.normalize(torch.randn(SAMPLES, n, generator=rng, dtype=torch.float64), dim=1)
    x = r * directions * torch.rand(SAMPLES, 1, generator=rng, dtype=torch.float64) ** (1 / n)
    y = (-x.square().sum(dim=1) / (2 * s**2)).exp()
    return x, y, *greedy_network(x, y, units, rng=rng)


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
    return at_most(slopes, -0.9, why=why, detail=f"slopes for n = {DIMS}").drawn(
        *(Series(f"n = {n}", m, one, "other", "points") for n, one in errors.items()),
        Series("1/m", m, 1 / m, role="predicted"), x="units m", y="mean squared error", log="xy",
    )


@claim(
    control={"basis": "chosen"},
    refutes=["n = 1", "n = 2", "n = 3", "n = 4", "any m functions"],
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
    spaces = torch.linalg.qr(torch.randn(200, 2 * m, m, generator=rng, dtype=torch.float64)).Q
    kept = 1 - spaces.square().sum(dim=2).min(dim=1).values
    if basis == "chosen":  # for each wave, m of the waves, it first
        waves = torch.eye(2 * m, dtype=torch.float64)
        kept = torch.stack([1 - waves[wave].roll(-wave)[:m].square().sum() for wave in range(m)])
    why = "a theorem on traces; rounding"
    return every({**parts, "any m functions": at_least(kept, 0.5, slack=1e-12, why=why)})

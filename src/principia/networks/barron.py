r"""Barron's rate: what one hidden layer gains by choosing its units, whatever the dimension.

To approximate a smooth function of $n$ variables by $m$ functions that were fixed beforehand, one
needs exponentially many of them in $n$: among $2m$ waves of low frequency, some wave is far from
all $m$. A network may choose its units after it has seen the function. If $C_f$, the mean frequency
of $f$ weighed by its spectrum, is finite, then $f$ is an average of sigmoids, some $m$ of them come
as close as $m$ random draws would, and the squared error falls like $1/m$ with no $n$ in the
exponent; greedy choice, one unit after the other, finds them. The dimension can hide in $C_f$, and
$C_f$ depends on where the Fourier transform puts its $2\pi$.

$$ \hat f(\omega) = \int e^{-2\pi i\omega\cdot x}f(x)\,dx, \quad
C_f = \int\Vert\omega\Vert\,|\hat f(\omega)|\,d\omega $$

$$ \min_{g_m}\int_{rB}(f-g_m)^2\,d\mu \le \frac{(2r\cdot2\pi C_f)^2}{m}, \quad
g_m(x) = c_0+\sum_{k=1}^mc_k\,\sigma(w_k\cdot x+b_k) $$

$$ f = e^{-\Vert x\Vert^2/2s^2}: \ C_f = \frac1{2\pi s}
\frac{\sqrt2\,\Gamma(\frac{n+1}2)}{\Gamma(\frac n2)},
\quad f = \cos(2\pi\omega\cdot x): \ C_f = \Vert\omega\Vert $$

$$ \sup_{k\ne0}\min_{g\in G_m}\Vert\frac{\cos(2\pi k\cdot x)}{\Vert k\Vert}-g\Vert^2
\sim m^{-2/n} \quad \text{for the best fixed } G_m \text{ of dimension } m $$

Symbols:
    $f, n$: function to approximate, and its number of variables
    $C_f$: Barron's constant, `barron_constant`; with the kernel $e^{i\omega x}$ it is $2\pi C_f$
    $g_m$: network of $m$ sigmoids, `greedy_network`
    $rB, \mu$: ball of radius $r$ around 0, and any probability on it; here that of the samples
    $s$: width of a Gaussian, `gaussian_constant`
    $k, G_m$: wave vector with integer entries; a space of functions, here of the waves of lowest
        frequency, `fixed_fourier_error`

References:
    Barron (1993), Universal approximation bounds for superpositions of a sigmoidal function. IEEE
        Transactions on Information Theory 39(3). doi:10.1109/18.256500
    Jones (1992), A simple lemma on greedy approximation in Hilbert space and convergence rates for
        projection pursuit regression and neural network training. Annals of Statistics 20(1).
        doi:10.1214/aos/1176348546
    Tsanas and Xifara (2012), Accurate quantitative estimation of energy performance of residential
        buildings using statistical machine learning tools. Energy and Buildings 49.
        doi:10.1016/j.enbuild.2012.03.003
"""

__all__ = [
    "barron_constant", "gaussian_constant", "cosine_constant", "greedy_network",
    "fixed_fourier_error",
]

import math
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.uci import uci
from principia.lab.domains import Count, Positive, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_least, at_most, equal, every, identical, slope
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Supervised, fit
from principia.networks.mlp import MLP

FFTDim = Annotated[int, Range(1, 3)]
Units = Annotated[int, Range(32, 128)]
Width = Annotated[float, Range(0.8, 2.0)]
DIMS = (1, 2, 5)  # numbers of variables that the claims try
SAMPLES = 400  # that stand for the probability on the ball
FIRST = 4  # unit from which rates are read: before, a few units cannot do much about a bell
CLIPPED = 1e-3  # share of the largest value that may be left at the border of a grid
SHARPNESS = (0.5, 5.0)  # of the sigmoids that a pool offers, per standard deviation of the inputs


@checked
def barron_constant(
    f: Callable[[Tensor], Tensor], n: FFTDim, *, half: Positive, points: Count
) -> float:
    r"""Integrates $\Vert\omega\Vert|\hat f(\omega)|$ by a fast Fourier transform on a grid.

    Args:
        f: The function, from (..., n) to (...).
        n: Number of variables.
        half: Half the side of the cube $[-h,h]^n$ outside which f is negligible.
        points: Points of the grid along each axis.

    Example:
        >>> bell = lambda x: (-x.square().sum(dim=-1) / 2).exp()
        >>> found = barron_constant(bell, 2, half=16.0, points=96)
        >>> round(found, 3), round(gaussian_constant(2, s=1.0), 3)
        (0.199, 0.199)
    """
    step = 2 * half / points
    axis = step * torch.arange(points, dtype=torch.float64) - half
    values = f(torch.stack(torch.meshgrid(*[axis] * n, indexing="ij"), dim=-1))
    spectrum = torch.fft.fftn(values).abs() * step**n
    frequency = torch.fft.fftfreq(points, step, dtype=torch.float64)  # in steps of 1 / (2 half)
    for name, grid, edge, got, hint in (
        ("half", values, 0, half, "Raise it: f does not vanish at the border."),
        ("points", spectrum, points // 2, points, "Raise it: the spectrum is cut off."),
    ):
        outside = max(float(grid.select(axis, edge).abs().max()) for axis in range(n))
        if not outside <= CLIPPED * float(grid.abs().max()):
            raise refuse("barron_constant", name, "so large that the grid holds f", got, hint)
    norms = torch.stack(torch.meshgrid(*[frequency] * n, indexing="ij")).norm(dim=0)
    return float((norms * spectrum).sum() / (2 * half) ** n)


@checked
def gaussian_constant(n: Count, *, s: Positive) -> float:
    r"""Gives $C_f$ of the Gaussian $e^{-\Vert x\Vert^2/2s^2}$, which grows like $\sqrt n$.

    Args:
        n: Number of variables.
        s: Width.

    Example:
        >>> [round(gaussian_constant(n, s=1.0), 3) for n in (1, 10, 100)]
        [0.127, 0.491, 1.588]
    """
    growth = math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))
    return math.sqrt(2) * growth / (2 * math.pi * s)


def cosine_constant(omega: Float[Tensor, " n"]) -> float:
    r"""Gives $C_f$ of the wave $\cos(2\pi\omega\cdot x)$: its frequency, whatever its direction.

    Example:
        >>> cosine_constant(torch.tensor([3.0, 4.0]))
        5.0
    """
    return float(omega.norm())


@checked
def greedy_network(
    x: Float[Tensor, "N n"], y: Float[Tensor, " N"], units: Count, *, candidates: Count = 400,
    rng: torch.Generator,
) -> tuple[MLP, Float[Tensor, " m"]]:
    r"""Builds a network unit by unit: each time the sigmoid that says most about what is left.

    A new pool of random sigmoids is drawn for every unit, and after each choice all outer weights
    are fitted anew by least squares, which one more column of a QR decomposition does.

    Args:
        x: Samples; they stand for $\mu$.
        y: Values of the function at the samples.
        units: How many sigmoids to choose.
        candidates: Size of each pool.
        rng: Draws the pools.

    Returns:
        The network, and the mean squared error with 0, 1, ..., `units` of its units.

    Example:
        >>> x = torch.linspace(-1, 1, 100)[:, None]
        >>> rng = torch.Generator().manual_seed(0)
        >>> network, errors = greedy_network(x, x[:, 0] ** 2, 8, rng=rng)
        >>> network.sizes, bool(errors[-1] < 1e-3 * errors[0])
        ((1, 8, 1), True)
    """
    usable = bool(x.isfinite().all() & y.isfinite().all()) and bool((x != x.mean()).any())
    if len(x) != len(y) or len(x) <= units or not usable:
        domain = f"finite and not constant, with more than {units} rows for {units} units"
        raise refuse("greedy_network", "x and y", domain, f"{len(x)} and {len(y)} rows")
    tiny = torch.finfo(y.dtype).eps ** 0.5  # a unit so near to the span of the others is rounding
    Q, R = y.new_zeros(len(y), units + 1), torch.eye(units + 1).to(y)
    Q[:, 0], R[0, 0] = len(y) ** -0.5, len(y) ** 0.5  # the constant comes first
    left, chosen, errors = y - y.mean(), [], [y.var(correction=0)]
    for k in range(1, units + 1):
        W, b = _pool(x, candidates, rng)
        features = torch.sigmoid(x @ W.mT + b)
        spread = (features - features.mean(dim=0)).norm(dim=0)
        best = int(((left @ features).abs() / spread.clamp(min=tiny)).argmax())
        unit = features[:, best]
        for _ in range(2):  # twice, or rounding spoils the right angles
            shares = Q[:, :k].mT @ unit
            unit, R[:k, k] = unit - Q[:, :k] @ shares, R[:k, k] + shares
        if unit.norm() > tiny * features[:, best].norm():
            R[k, k] = unit.norm()
            Q[:, k] = unit / R[k, k]
        left = left - Q[:, k] * (Q[:, k] @ left)
        chosen.append((W[best], b[best]))
        errors.append(left.square().mean())
    outer = torch.linalg.solve_triangular(R, (Q.mT @ y)[:, None], upper=True)[:, 0]
    W, b = (torch.stack(part) for part in zip(*chosen, strict=True))
    return _network(W, b, outer), torch.stack(errors)


def _pool(x: Tensor, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw weights (count, n) and biases of sigmoids that bend at a sample, in any direction."""
    W = F.normalize(torch.randn(count, x.shape[1], generator=rng, dtype=x.dtype), dim=1)
    low, high = SHARPNESS
    W = W * low * (high / low) ** torch.rand(count, 1, generator=rng, dtype=x.dtype) / x.std()
    return W, -(W * x[torch.randint(len(x), (count,), generator=rng)]).sum(dim=1)


def _network(W: Tensor, b: Tensor, outer: Tensor) -> MLP:
    """Build the network with given units; outer weights have the constant first."""
    network = MLP((W.shape[1], len(W), 1), activation="sigmoid", rng=torch.Generator()).to(W)
    network.load_state_dict({
        "layers.0.weight": W, "layers.0.bias": b,
        "layers.1.weight": outer[None, 1:], "layers.1.bias": outer[:1],
    })
    return network


@checked
def fixed_fourier_error(n: Count, m: Count) -> float:
    r"""Finds the worst error of the m lowest waves over all $\cos(2\pi k\cdot x)/\Vert k\Vert$.

    It is measured in $L_2$ on $[0,1]^n$. Each of these waves has $C_f=1$ and the squared norm
    $1/(2\Vert k\Vert^2)$, and any two are orthogonal: the worst one is the first that was left
    out. Wave vectors are counted exactly, a vector and its negative as one, by the number of ways
    to write $\Vert k\Vert^2$ as a sum of n squares.

    Args:
        n: Number of variables.
        m: Number of waves of lowest frequency.

    Example:
        >>> [round(fixed_fourier_error(n, 100), 3) for n in (1, 2, 5)]
        [0.007, 0.088, 0.354]
    """
    if n == 1:
        return 2**-0.5 / (m + 1)
    largest = 4
    while True:  # twice as far as long as there are too few
        ways = torch.eye(1, largest + 1, dtype=torch.float64)[0]  # 0 is the sum of no squares
        for _ in range(n):
            more = ways.clone()
            for j in range(1, math.isqrt(largest) + 1):
                more[j * j :] += 2 * ways[: -j * j]
            ways = more
        waves = (ways.cumsum(dim=0) - 1) / 2  # of a squared frequency up to 0, 1, 2, ...
        if waves[-1] > m:
            return (2 * int((waves > m).nonzero()[0])) ** -0.5
        largest *= 2


@claim(control={"factor": "1"}, source="Barron 1993, sec. 9")
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


@claim(control={"scale": 0.003}, source="Barron 1993, theorem 1")
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
        parts[f"n = {n}, the network itself"] = identical(
            (outputs - y).square().mean() / errors[0], errors[-1] / errors[0]
        )
    return every(parts)


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


@claim(control={"basis": "chosen"}, source="Barron 1993, theorem 6")
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
    why = "a theorem on traces; rounding"
    return every({**parts, "any m functions": at_least(kept, 0.5, slack=1e-12, why=why)})


@experiment(
    reaches={
        "ratio_5": at_most_goal(0.1), "ratio_10": at_most_goal(0.1),
        "energy_ratio": Range(0, 1, open="high"),
    },
    floor={"ratio_5": at_most_goal(0.2)},
    source="Barron (1993), Universal approximation bounds, sec. 1: adaptive units against a fixed "
    "basis; to beat are the best of ten draws of random features",
)
def adaptive_vs_fixed(
    run: Run, *, frequency: Annotated[float, Range(0.1, 1)] = 0.5,
    units: Annotated[int, Range(4, 256)] | None = None,
) -> None:
    """Learns a wave along an unknown direction, with trained, chosen and fixed units."""
    m, series = units or (64 if run.full else 16), []
    for n in (2, 5, 10) if run.full else (5,):
        rng = run.seed.child(n).torch()
        omega = frequency * F.normalize(torch.randn(n, generator=rng), dim=0)
        x = 2 * torch.rand(8000 if run.full else 4000, n, generator=rng) - 1
        y = torch.cos(2 * torch.pi * x @ omega)
        train, test = (x[::2], y[::2]), (x[1::2], y[1::2])
        network = MLP((n, m, 1), activation="tanh", rng=run.seed.child("init").torch())
        fit(
            network, (train[0], train[1][:, None]), Supervised(F.mse_loss),
            torch.optim.Adam(network.parameters()), steps=3000 if run.full else 600,
            batch_size=256, parts=[OneCycle(2e-2)], seed=run.seed.child("net"), run=run,
            name=f"n{n}",
        )
        trained = _mse(network, *test)
        few = sorted({min(m, 2**k) for k in range(2, 9)})
        fixed = [_fixed_mse(train, test, k, run.seed.child(k)) for k in few]
        run.record(**{f"trained_{n}": trained, f"fixed_{n}": fixed[-1]})
        run.record(**{f"ratio_{n}": trained / fixed[-1]})
        errors = greedy_network(train[0].double(), train[1].double(), m, rng=rng)[1]
        series += [
            Series(f"n = {n}, greedy", range(1, m + 1), errors[1:], role="other"),
            Series(f"n = {n}, fixed", few, fixed, role="other"),
            Series(f"n = {n}, trained", [m], [trained], role="other", style="points"),
        ]
        if n == 5:
            run.keep(network)
    picture = Picture(tuple(series), "units m", "mean squared error", log="xy")
    run.figure("error", figures.draw(picture))
    if run.full:
        run.record(**_energy(run, 32))


def _greedy(
    seed: Seed, n: int, units: int, s: float, r: float = 1.0
) -> tuple[Tensor, Tensor, MLP, Tensor]:
    """Approximate a Gaussian on samples of the ball: samples, values, network, squared errors."""
    rng = seed.child(n).torch()
    directions = F.normalize(torch.randn(SAMPLES, n, generator=rng, dtype=torch.float64), dim=1)
    x = r * directions * torch.rand(SAMPLES, 1, generator=rng, dtype=torch.float64) ** (1 / n)
    y = (-x.square().sum(dim=1) / (2 * s**2)).exp()
    return x, y, *greedy_network(x, y, units, rng=rng)


def _mse(network: MLP, x: Tensor, y: Tensor) -> float:
    return float((network(x)[:, 0].detach() - y).square().mean())


def _fixed_mse(
    train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], units: int, seed: Seed
) -> float:
    """Fit outer weights of random units, ten times, and give the least error on the test."""
    errors, rng = [], seed.torch()
    for _ in range(10):
        W, b = _pool(train[0], units, rng)
        features = torch.sigmoid(train[0] @ W.mT + b)
        columns = torch.cat([torch.ones_like(features[:, :1]), features], dim=1).double()
        outer = torch.linalg.lstsq(columns, train[1].double()[:, None], driver="gelsd").solution
        errors.append(_mse(_network(W.double(), b.double(), outer[:, 0]), *(
            part.double() for part in test
        )))
    return min(errors)


def _energy(run: Run, units: int) -> dict[str, float]:
    """Predict heating loads of buildings with chosen and with fixed units, over all splits."""
    table, chosen, fixed = uci("energy", data_dir=run.data_dir), [], []
    X, y = torch.from_numpy(table.X), torch.from_numpy(table.y)
    for number, (rows, others) in enumerate(run.steps(table.splits, "energy splits")):
        mean, spread = X[rows].mean(dim=0), X[rows].std(dim=0)
        train, test = (((X[k] - mean) / spread, y[k]) for k in (rows, others))
        seed = run.seed.child(f"energy {number}")
        chosen.append(_mse(greedy_network(*train, units, rng=seed.torch())[0], *test))
        fixed.append(_fixed_mse(train, test, units, seed.child("fixed")))
    errors = [float(np.mean(one)) ** 0.5 for one in (chosen, fixed)]
    return {
        "energy_greedy_rmse": errors[0], "energy_fixed_rmse": errors[1],
        "energy_ratio": errors[0] / errors[1],
    }

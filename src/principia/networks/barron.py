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
from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from principia.lab.params import PositiveFloat, PositiveInt, Range, checked, usage_error
from principia.networks.mlp import MLP

FFTDim = Annotated[int, Range(1, 3)]
SHARPNESS = (0.5, 5.0)  # of the sigmoids that a pool offers, per standard deviation of the inputs


@checked
def barron_constant(
    f: Callable[[Tensor], Tensor], n: FFTDim, *, half: PositiveFloat, points: PositiveInt
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
    _need_inside("half", half, values, 0, "Raise it: f does not vanish at the border.")
    _need_inside("points", points, spectrum, points // 2, "Raise it: the spectrum is cut off.")
    norms = torch.stack(torch.meshgrid(*[frequency] * n, indexing="ij")).norm(dim=0)
    return float((norms * spectrum).sum() / (2 * half) ** n)


def _need_inside(name: str, got: float, grid: Tensor, edge: int, hint: str) -> None:
    """Refuse a grid at whose border more than a thousandth of the largest value is left."""
    outside = max(float(grid.select(axis, edge).abs().max()) for axis in range(grid.ndim))
    if not outside <= 1e-3 * float(grid.abs().max()):
        raise usage_error("barron_constant", name, "so large that the grid holds f", got, hint)


@checked
def gaussian_constant(n: PositiveInt, *, s: PositiveFloat) -> float:
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
    x: Float[Tensor, "N n"], y: Float[Tensor, " N"], units: PositiveInt, *,
    candidates: PositiveInt = 400, rng: torch.Generator,
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
    _need_samples(x, y, units)
    tiny = torch.finfo(y.dtype).eps ** 0.5  # a unit so near to the span of the others is rounding
    Q, R = y.new_zeros(len(y), units + 1), torch.eye(units + 1).to(y)
    Q[:, 0], R[0, 0] = len(y) ** -0.5, len(y) ** 0.5  # the constant comes first
    left, chosen, errors = y - y.mean(), [], [y.var(correction=0)]
    for k in range(1, units + 1):
        W, b = sigmoid_pool(x, candidates, rng)
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
    return sigmoid_network(W, b, outer), torch.stack(errors)


def _need_samples(x: Tensor, y: Tensor, units: int) -> None:
    usable = bool(x.isfinite().all() & y.isfinite().all()) and bool((x != x.mean()).any())
    if len(x) != len(y) or len(x) <= units or not usable:
        domain = f"finite and not constant, with more than {units} rows for {units} units"
        raise usage_error("greedy_network", "x and y", domain, f"{len(x)} and {len(y)} rows")


def sigmoid_pool(x: Tensor, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw weights (count, n) and biases of sigmoids that bend at a sample, in any direction."""
    W = F.normalize(torch.randn(count, x.shape[1], generator=rng, dtype=x.dtype), dim=1)
    low, high = SHARPNESS
    W = W * low * (high / low) ** torch.rand(count, 1, generator=rng, dtype=x.dtype) / x.std()
    return W, -(W * x[torch.randint(len(x), (count,), generator=rng)]).sum(dim=1)


def sigmoid_network(W: Tensor, b: Tensor, outer: Tensor) -> MLP:
    """Build the network with given units; outer weights have the constant first."""
    network = MLP((W.shape[1], len(W), 1), activation="sigmoid", rng=torch.Generator()).to(W)
    network.load_state_dict({
        "layers.0.weight": W, "layers.0.bias": b,
        "layers.1.weight": outer[None, 1:], "layers.1.bias": outer[:1],
    })
    return network


@checked
def fixed_fourier_error(n: PositiveInt, m: PositiveInt) -> float:
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

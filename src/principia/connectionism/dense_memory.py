r"""Dense associative memory: a sharper energy remembers far more, and ends at attention.

The Hopfield energy sums the squares of the overlaps with the stored patterns. A steeper function
$F$ lets the nearest pattern drown the crosstalk of all others: $z^k$ stores about $n^{k-1}$
patterns in $n$ units, $e^z$ exponentially many. With continuous states and a quadratic confinement
the descent on such an energy is softmax attention, whose keys and values are the memory.

$$ E = -\sum_\mu F(\xi^\mu\cdot x), \quad F(z) = z^k \text{ or } e^z $$

$$ x_i \leftarrow \mathrm{sgn}\sum_\mu\Big[F\big(\xi_i^\mu+\sum_{j\ne i}\xi_j^\mu x_j\big)
   - F\big(-\xi_i^\mu+\sum_{j\ne i}\xi_j^\mu x_j\big)\Big] $$

$$ \xi \leftarrow X^\top\mathrm{softmax}(\beta X\xi), \quad
   E = -\frac1\beta\log\sum_\mu e^{\beta x_\mu\cdot\xi}+\frac12\Vert\xi\Vert^2 $$

Symbols:
    $\xi^\mu$: one of `K` patterns of `n` signs, a row of `DenseMemory.patterns`
    $x$: state of `n` signs; where the update ties, sgn(0) = +1
    $k$: `degree` of the polynomial $F$
    $X, x_\mu$: `ModernHopfield.patterns`, `K` rows of `d` numbers
    $\xi$: a continuous state, `query`
    $\beta$: `beta`, how sharply the softmax chooses

References:
    Krotov and Hopfield (2016), Dense associative memory for pattern recognition. NeurIPS.
        arXiv:1606.01164
    Demircigil, Heusel, Loewe, Upgang and Vermet (2017), On a model of associative memory with huge
        storage capacity. Journal of Statistical Physics 168. arXiv:1702.01929
    Ramsauer et al. (2021), Hopfield networks is all you need. ICLR. arXiv:2008.02217
"""

__all__ = ["DenseMemory", "ModernHopfield", "error_probability", "capacity"]

import functools
import math
from typing import Annotated, Literal, final

import torch
from jaxtyping import Float, Num
from scipy.special import ndtr
from torch import Tensor, nn
from torch.nn import functional

from principia.lab.params import PositiveFloat, PositiveInt, Range, Signs, checked, usage_error

Degree = Annotated[int, Range(2, 60)]  # beyond, sums of powers would overflow
CACHED = 1 << 16  # overlaps worked on at once: 512 KB, three times faster than all of them


@final
class DenseMemory(nn.Module):
    r"""Stores patterns of signs in an energy steeper than the Hopfield network's.

    All units and states are updated by two matrix products: flipping unit $i$ moves the overlap
    $m_\mu=\xi^\mu\cdot x$ by 2, so that with $A=\frac12[F(m+2)-F(m-2)]$ and
    $B=F(m)-\frac12[F(m+2)+F(m-2)]$ the field is $\sum_\mu\xi_i^\mu A_\mu+x_i\sum_\mu B_\mu$.
    In float64 it is exact for polynomials while it stays below $2^{53}$.

    Shapes:
        patterns: (K, n); x: (..., n)

    Args:
        patterns: What to remember, signs +1 and -1.
        interaction: Whether $F(z)=z^k$ or $F(z)=e^z$.
        degree: The power $k$; unused with the exponential.

    Example:
        >>> memory = DenseMemory(torch.tensor([[1, 1, 1, 1, 1, 1], [1, -1, 1, -1, 1, -1]]))
        >>> memory(torch.tensor([[1, 1, 1, 1, 1, -1], [1, -1, 1, -1, -1, -1]])).tolist()
        [[1, 1, 1, 1, 1, 1], [1, -1, 1, -1, 1, -1]]
    """

    patterns: Tensor

    @checked
    def __init__(
        self, patterns: Annotated[Num[Tensor, "K n"], Signs], *,
        interaction: Literal["poly", "exp"] = "poly", degree: Degree = 3,
    ) -> None:
        super().__init__()
        self.interaction, self.degree = interaction, degree
        patterns = _matrix("DenseMemory", patterns)
        self.register_buffer("patterns", patterns.to(torch.float64, copy=True))

    @checked
    def energy(self, x: Annotated[Num[Tensor, "*batch n"], Signs]) -> Float[Tensor, "*batch"]:
        r"""Sum $-F$ over the overlaps; the exponential overflows beyond 709 units."""
        overlaps = self._states(x) @ self.patterns.T
        values = overlaps.exp() if self.interaction == "exp" else _power(overlaps, self.degree)
        return -values.sum(dim=-1)

    @checked
    def field(self, x: Annotated[Num[Tensor, "*batch n"], Signs]) -> Float[Tensor, "*batch n"]:
        r"""Compare the two values of every unit: $E(x_i=-1)-E(x_i=+1)$, others unchanged.

        With the exponential it is divided by $e^{\max_\mu m_\mu}$, which leaves its sign alone.
        """
        states = self._states(x).reshape(-1, x.shape[-1])
        rows = max(16, CACHED // len(self.patterns))
        return torch.cat([self._field(some) for some in states.split(rows)]).view(x.shape)

    def _field(self, x: Tensor) -> Tensor:
        overlaps = x @ self.patterns.T  # (B, K)
        if self.interaction == "exp":
            weights = (overlaps - overlaps.amax(dim=1, keepdim=True)).exp_()
            turn, bend = math.sinh(2) * weights, (1 - math.cosh(2)) * weights.sum(dim=1)
        else:
            below, here, above = (_power(overlaps + step, self.degree) for step in (-2, 0, 2))
            turn, bend = (above - below) / 2, (here - (above + below) / 2).sum(dim=1)
        return turn @ self.patterns + x * bend[:, None]

    def forward(self, x: Num[Tensor, "*batch n"]) -> Num[Tensor, "*batch n"]:
        """Update all units at once."""
        return torch.where(self.field(x) >= 0, 1, -1).to(x.dtype)

    @checked
    def recall(self, x: Num[Tensor, "*batch n"], *, steps: PositiveInt = 1) -> Num[
        Tensor, "*batch n"
    ]:
        """Update all units several times."""
        for _ in range(steps):
            x = self(x)
        return x

    def _states(self, x: Tensor) -> Tensor:
        return _matching("DenseMemory", "x", x, self.patterns).to(self.patterns.dtype)


def _matrix(owner: str, patterns: Tensor) -> Tensor:
    if patterns.ndim != 2 or not len(patterns):
        shape = tuple(patterns.shape)
        raise usage_error(owner, "patterns", "a matrix of one row or more, one a pattern", shape)
    return patterns.detach()


def _power(z: Tensor, degree: int) -> Tensor:
    """Multiply integers exactly; `pow` would be slower, and free to round."""
    return functools.reduce(torch.mul, [z] * degree)


def _matching(owner: str, name: str, x: Tensor, patterns: Tensor) -> Tensor:
    if x.ndim < 1 or x.shape[-1] != patterns.shape[1]:
        raise usage_error(owner, name, f"of shape (..., {patterns.shape[1]})", tuple(x.shape))
    return x


@final
class ModernHopfield(nn.Module):
    r"""Retrieves continuous patterns by attending to them.

    Shapes:
        patterns: (K, d); query: (..., d)

    Args:
        patterns: What to remember: the keys, and the values.
        beta: How sharply the softmax chooses, the scale of the attention.

    Example:
        >>> memory = ModernHopfield(torch.tensor([[4.0, 0.0], [0.0, 4.0]]), beta=2.0)
        >>> memory.recall(torch.tensor([2.0, 1.0])).round(decimals=2).tolist()
        [4.0, 0.0]
    """

    patterns: Tensor

    @checked
    def __init__(self, patterns: Float[Tensor, "K d"], *, beta: PositiveFloat = 1.0) -> None:
        super().__init__()
        self.beta = beta
        self.register_buffer("patterns", _matrix("ModernHopfield", patterns).clone())

    def energy(self, query: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch"]:
        """Soften the largest overlap and confine the state."""
        scores = self.beta * _matching("ModernHopfield", "query", query, self.patterns)
        softened = torch.logsumexp(scores @ self.patterns.T, dim=-1) / self.beta
        return 0.5 * query.square().sum(dim=-1) - softened

    def forward(self, query: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """Update once: attend from the state to the patterns."""
        _matching("ModernHopfield", "query", query, self.patterns)
        memory = self.patterns[None, None]  # (1, 1, K, d): one batch, one head
        states = query.reshape(1, 1, -1, query.shape[-1])
        attended = functional.scaled_dot_product_attention(states, memory, memory, scale=self.beta)
        return attended.view(query.shape)

    @checked
    def recall(self, query: Float[Tensor, "*b d"], *, steps: PositiveInt = 1) -> Float[
        Tensor, "*b d"
    ]:
        """Update several times; well separated patterns need one."""
        for _ in range(steps):
            query = self(query)
        return query


@checked
def error_probability(n: PositiveInt, K: PositiveInt, degree: Degree = 2) -> float:
    r"""Predicts how often a bit of a stored pattern is unstable: $F=z^k$, $K$ random patterns.

    It is $\Phi(-\sqrt{n^{k-1}/(K(2k-3)!!)})$, to leading order in $n$.

    Example:
        >>> round(error_probability(100, 1000, degree=3), 3)
        0.034
    """
    return float(ndtr(-math.sqrt(n ** (degree - 1) / (K * _odd_factorial(degree)))))


def _odd_factorial(degree: int) -> int:
    """Compute (2k-3)!! = 1 * 3 * ... * (2k-3), the moment of order 2k-2 of a standard normal."""
    return math.prod(range(1, 2 * degree - 2, 2))


@checked
def capacity(n: Annotated[int, Range(2, math.inf)], degree: Degree = 2) -> float:
    r"""Predicts how many random patterns $n$ units store without any error when $F=z^k$.

    It is $n^{k-1}/(2(2k-3)!!\ln n)$: as $n$ grows, a given pattern has no unstable bit.

    Example:
        >>> round(capacity(1000, degree=2)), round(capacity(1000, degree=3))
        (72, 24127)
    """
    return n ** (degree - 1) / (2 * _odd_factorial(degree) * math.log(n))

r"""The Hopfield network: a recurrent net of threshold units that remembers, until it is too full.

Every unit takes the sign of the field that the others exert on it. With symmetric couplings and no
self-coupling each such step lowers an energy, so that the net runs downhill into a fixed point. The
Hebbian rule digs a valley at every stored pattern; the patterns disturb each other, though (the
crosstalk), and above 0.138 patterns a unit the valleys disappear all at once; what then is left of
a pattern is a faint trace of where the run began. Beside the patterns there are valleys that nobody
asked for: their negatives, and mixtures of three. A field of exactly 0 gives +1.

$$ E(X) = -\tfrac12\sum_{i\ne j} w_{ij}X_iX_j + \sum_i b_iX_i, \quad
   X_i \leftarrow \mathrm{sgn}(H_i), \quad H_i = \sum_j w_{ij}X_j - b_i $$

$$ w_{ij} = \frac1n\sum_{t=1}^s x_i^tx_j^t \quad (i\ne j), \quad w_{ii} = 0 $$

$$ x_i^tH_i = \frac{n-1}n + x_i^tC_i^t, \quad
   C_i^t = \frac1n\sum_{j\ne i}\sum_{r\ne t} x_i^rx_j^rx_j^t \approx N(0, s/n) $$

$$ m = \mathrm{erf}\Big(\frac m{\sqrt{2\alpha r}}\Big), \quad r = (1-C)^{-2}, \quad
   C = \sqrt{\frac2{\pi\alpha r}}\,e^{-m^2/2\alpha r} $$

Symbols:
    $X$: state of the units, +1 or -1, `x`
    $w, b$: couplings and thresholds, `W` and `b`
    $x^t$: the stored patterns, `patterns`
    $n, s$: number of units and of patterns
    $\alpha$: the load $s/n$, `load`
    $m$: overlap of a recalled state with its pattern
    $C_i^t$: field of the other patterns at bit $i$ of pattern $t$, `crosstalk`
    $r$: strength of that noise after recall, amplified by the bits it turned
    $C$: share of a turned bit that turns further ones; $r$ diverges at 1

References:
    Hopfield (1982), Neural networks and physical systems with emergent collective computational
        abilities. PNAS 79(8). doi:10.1073/pnas.79.8.2554
    Amit, Gutfreund and Sompolinsky (1985), Storing infinite numbers of patterns in a spin-glass
        model of neural networks. Physical Review Letters 55(14). doi:10.1103/PhysRevLett.55.1530
    Personnaz, Guyon and Dreyfus (1985), Information storage and retrieval in spin-glass like neural
        networks. Journal de Physique Lettres 46(8). doi:10.1051/jphyslet:01985004608035900
    McEliece, Posner, Rodemich and Venkatesh (1987), The capacity of the Hopfield associative
        memory. IEEE Transactions on Information Theory 33(4). doi:10.1109/TIT.1987.1057328
    Hertz, Krogh and Palmer (1991), Introduction to the theory of neural computation. Addison-Wesley
"""

__all__ = [
    "Hopfield", "crosstalk", "is_memorized", "flip_probability", "overlap", "mean_field_overlap",
]

import math
from typing import Annotated, Any, Literal, NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int, Num
from scipy import optimize, special
from torch import Tensor, nn

from principia.lab.params import PositiveFloat, PositiveInt, Signs, checked, usage_error

BLOCK = 128  # units whose fields are settled together in an asynchronous sweep


class Recall(NamedTuple):
    """What a recall gives: the last states, how long it took, and the way down.

    Shapes:
        states: (B, n); sweeps: (B,); energies: (B, 1 + longest run), the first before any update

    `sweeps` counts the sweeps that changed something: fewer than `max_sweeps` means that the state
    is a fixed point.
    """

    states: Float[Tensor, "B n"]
    sweeps: Int[Tensor, " B"]
    energies: Float[Tensor, "B T"]


@final
class Hopfield(nn.Module):
    r"""Remembers patterns as the fixed points of a net of threshold units.

    Shapes:
        W: (n, n), symmetric with zero diagonal; b: (n,)

    Args:
        n: Number of units.
        dtype: Floating point type of couplings and states.

    Example:
        >>> patterns = torch.tensor([[1, 1, 1, 1, 1, 1], [1, -1, 1, -1, 1, -1]])
        >>> net = Hopfield(6).store(patterns)
        >>> net.recall(torch.tensor([[1, 1, 1, 1, 1, -1]])).states.tolist()
        [[1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]
    """

    W: Tensor
    b: Tensor

    @checked
    def __init__(self, n: PositiveInt, *, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.n = n
        self.register_buffer("W", torch.zeros(n, n, dtype=dtype))
        self.register_buffer("b", torch.zeros(n, dtype=dtype))

    def __setattr__(self, name: str, value: Any) -> None:
        """Take couplings and thresholds by hand, if the energy exists for them."""
        if name in ("W", "b"):
            value = torch.as_tensor(value).to(self.W)
            shape = (self.n, self.n) if name == "W" else (self.n,)
            if tuple(value.shape) != shape:
                raise usage_error("Hopfield", name, f"of shape {shape}", tuple(value.shape))
            if name == "W" and (value.diagonal().any() or not torch.allclose(value, value.mT)):
                hint = "Take (W + W.T) / 2, then W.fill_diagonal_(0): else no energy descends."
                raise usage_error("Hopfield", "W", "symmetric with zero diagonal", value, hint)
        super().__setattr__(name, value)

    @checked
    def store(
        self, patterns: Annotated[Num[Tensor, "s n"], Signs], *,
        rule: Literal["hebb", "projection"] = "hebb", zero_diagonal: bool = True,
    ) -> "Hopfield":
        r"""Set the couplings so that the patterns become fixed points, and return the net.

        Args:
            patterns: What to remember, (s, n), entries +1 and -1.
            rule: Hebb's $\frac1nX^\top X$; or the projection $X^+X$ on the span of the patterns,
                which also holds correlated ones.
            zero_diagonal: Whether to cut the self-couplings. With them no energy descends.

        Example:
            >>> Hopfield(2).store(torch.tensor([[1, -1]])).W.tolist()
            [[0.0, -0.5], [-0.5, 0.0]]
        """
        X = self._fitting("store", "patterns", patterns)
        if rule == "hebb":
            X = X.float()  # sums of signs are integers: exact in float32, and twice as fast
            W = (X.T @ X).to(self.W.dtype).div_(self.n)
        else:
            W = X.T @ torch.linalg.pinv(X @ X.T, hermitian=True) @ X
            W = (W + W.T) / 2  # symmetric to the last bit
        if zero_diagonal:
            W.fill_diagonal_(0)
        self.register_buffer("W", W)  # past the check by hand: the diagonal may be wanted
        return self

    def field(self, x: Num[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        r"""Compute the field $H=Wx-b$ that decides on every unit."""
        return x.to(self.W) @ self.W - self.b

    def energy(self, x: Num[Tensor, "... n"]) -> Float[Tensor, "..."]:
        r"""Compute $E(x)=-\frac12\sum_{i\ne j}w_{ij}x_ix_j+\sum_ib_ix_i$."""
        return self._energy(x.to(self.W), self.field(x))

    def _energy(self, x: Tensor, field: Tensor) -> Tensor:
        """Compute the energy from the field; a diagonal does not count, whether it is 0 or not."""
        return (x * (self.b - field)).sum(-1) / 2 + self.W.diagonal().sum() / 2

    @checked
    def update(
        self, x: Annotated[Num[Tensor, "B n"], Signs], units: Int[Tensor, " k"]
    ) -> Float[Tensor, "B n"]:
        """Update the given units, each once, one after the other in this order, for every state.

        Example:
            >>> net = Hopfield(3).store(torch.tensor([[1, 1, -1]]))
            >>> net.update(torch.tensor([[-1, 1, -1]]), torch.tensor([0])).tolist()
            [[1.0, 1.0, -1.0]]
        """
        if len(units.unique()) < len(units):
            hint = "Update a unit again in another call."
            raise usage_error("Hopfield.update", "units", "different from each other", units, hint)
        states = self._fitting("update", "x", x).clone()
        self._sweep(states, self.field(states), units, self._tie())
        return states

    @checked
    def recall(
        self, x: Annotated[Num[Tensor, "B n"], Signs], *,
        order: Literal["async", "sync"] = "async", max_sweeps: PositiveInt = 50,
        rng: torch.Generator | None = None,
    ) -> Recall:
        """Let every state run until nothing changes.

        Args:
            x: Where to start, (B, n), entries +1 and -1.
            order: One unit after the other, or all at once (which may cycle for ever).
            max_sweeps: Updates of every unit before giving up.
            rng: Draws a new order of the units for every sweep; none means first to last.

        Example:
            >>> net = Hopfield(2)
            >>> net.W = torch.tensor([[0.0, -1.0], [-1.0, 0.0]])
            >>> [int(net.recall(torch.ones(1, 2), order=o).sweeps) for o in ("async", "sync")]
            [1, 50]
        """
        states = self._fitting("recall", "x", x).clone()
        sweeps = torch.zeros(len(states), dtype=torch.long, device=states.device)
        moving = torch.arange(len(states), device=states.device)  # rows that are not fixed yet
        now, field, tie = states.clone(), self.field(states), self._tie()
        energies = [self._energy(now, field)]
        for _ in range(max_sweeps):
            if order == "async":
                drawn = torch.randperm(self.n, generator=rng) if rng else torch.arange(self.n)
                self._sweep(now, field, drawn.to(states.device), tie)
            else:
                now = _sign(field, tie)
                field = self.field(now)
            changed = (now != states[moving]).any(1)
            states[moving] = now
            sweeps[moving] += changed
            energies.append(energies[-1].index_copy(0, moving, self._energy(now, field)))
            moving, now, field = moving[changed], now[changed], field[changed]
            if not len(moving):
                break
        return Recall(states, sweeps, torch.stack(energies, dim=1))

    def _sweep(self, x: Tensor, field: Tensor, units: Tensor, tie: Tensor) -> None:
        """Update units one after the other; change the states and their fields in place.

        A block of units is a triangular system, new_u = sgn(H_u + sum_{v<u} w_uv (new_v - old_v)):
        iterating it settles at least one more unit a round, most of them in two or three, so that
        matrix products do what a loop over units would, to the same end. What changed in a block
        then reaches all fields by one product.
        """
        for block in units.split(BLOCK):
            old, pull, slack = x[:, block], field[:, block], tie[block]
            new = _sign(pull, slack)
            if torch.equal(new, old):
                continue
            earlier = self.W[block[:, None], block].triu(1)  # from unit v (row) to later units u
            while not torch.equal(new, again := _sign(pull + (new - old) @ earlier, slack)):
                new = again
            flipped = (new != old).any(0)
            x[:, block] = new
            field += (new - old)[:, flipped] @ self.W[block[flipped]]

    def _tie(self) -> Tensor:
        """Bound the rounding of each unit's field: some units in the last place of its terms."""
        terms = torch.linalg.vector_norm(self.W, ord=1, dim=1) + self.b.abs()
        return 16 * torch.finfo(self.W.dtype).eps * terms

    def _fitting(self, method: str, name: str, x: Tensor) -> Tensor:
        if x.ndim != 2 or x.shape[1] != self.n:
            owner = f"Hopfield.{method}"
            raise usage_error(owner, name, f"of shape (any, {self.n})", tuple(x.shape))
        return x.to(self.W)


def _sign(field: Tensor, tie: Tensor) -> Tensor:
    """Take signs; a field that is 0 up to rounding gives +1, not the sign of the rounding."""
    return (field >= -tie).to(field.dtype).mul_(2).sub_(1)


@checked
def crosstalk(patterns: Annotated[Num[Tensor, "... s n"], Signs]) -> Float[Tensor, "... s n"]:
    r"""Computes what the other patterns add to the field of each bit of each pattern.

    It is $C_i^t=\frac1n\sum_{j\ne i}\sum_{r\ne t}x_i^rx_j^rx_j^t$; with Hebbian couplings
    $H_i=\frac{n-1}nx_i^t+C_i^t$ when the net is in the state $x^t$.

    Example:
        >>> crosstalk(torch.tensor([[1, 1, 1, 1], [1, 1, 1, -1]]))[0].tolist()
        [0.25, 0.25, 0.25, -0.75]
    """
    X = patterns.double()
    s, n = X.shape[-2:]
    others = X @ X.mT
    others.diagonal(dim1=-2, dim2=-1).zero_()  # x^t.x^r for r != t
    return (others @ X - (s - 1) * X) / n  # the last term takes j = i out


@checked
def is_memorized(patterns: Annotated[Num[Tensor, "... s n"], Signs]) -> Bool[Tensor, "... s"]:
    """Tells which patterns are fixed points of the Hebbian net that stores them all.

    Example:
        >>> is_memorized(torch.tensor([[1, 1, 1, 1], [1, 1, -1, -1], [1, 1, 1, -1]])).tolist()
        [False, False, True]
    """
    X, n = patterns.double(), patterns.shape[-1]
    field = (n - 1) * X + (n * crosstalk(X)).round()  # n times the field: integers, exact
    return (torch.where(field >= 0, 1.0, -1.0) == X).all(-1)


@checked
def flip_probability(n: PositiveInt, s: PositiveInt, *, exact: bool = True) -> float:
    r"""Gives the chance that a bit of a random stored pattern is not stable.

    The crosstalk is a sum of $(n-1)(s-1)$ random signs over $n$, so that the chance is
    $\Phi(-\sqrt{(n-1)/(s-1)})$, which tends to $\frac12[1-\mathrm{erf}\sqrt{n/2s}]$.

    Args:
        n: Number of units.
        s: Number of patterns.
        exact: Whether to count the terms exactly, or to take the limit of large n and s.

    Example:
        >>> f"{flip_probability(400, 40):.2e}", f"{flip_probability(400, 40, exact=False):.2e}"
        ('6.91e-04', '7.83e-04')
    """
    if not exact:
        return float(special.erfc(math.sqrt(n / s / 2)) / 2)
    return float(special.ndtr(-math.sqrt((n - 1) / (s - 1)))) if s > 1 else 0.0


def overlap(x: Num[Tensor, "... n"], pattern: Num[Tensor, "... n"]) -> Float[Tensor, "..."]:
    r"""Measures the agreement $m=\frac1n\sum_ix_ip_i$: 1 for equal, -1 for opposite states.

    Example:
        >>> overlap(torch.tensor([1, 1, -1, -1]), torch.tensor([1, 1, -1, 1])).item()
        0.5
    """
    return (x.double() * pattern.double()).mean(-1)


@checked
def mean_field_overlap(load: PositiveFloat) -> float:
    r"""Solves the mean-field equations for the overlap after recall; 0 where nothing is recalled.

    With $y=m/\sqrt{2\alpha r}$ the three equations become one,
    $\sqrt{\alpha}=\mathrm{erf}(y)/(\sqrt2y)-\sqrt{2/\pi}\,e^{-y^2}$. Its right side rises from 0 to
    a peak, whose square is the critical load, and falls; retrieval is the root behind the peak.

    Args:
        load: Patterns a unit, $\alpha=s/n$, as both grow.

    Example:
        >>> round(mean_field_overlap(0.1), 4), mean_field_overlap(0.15)
        (0.998, 0.0)
    """
    def excess(y: float) -> float:
        noise = math.sqrt(2 / math.pi) * math.exp(-y * y)
        return special.erf(y) / (math.sqrt(2) * y) - noise - math.sqrt(load)

    peak = optimize.minimize_scalar(lambda y: -excess(y), bounds=(1, 2), method="bounded").x
    if excess(peak) < 0:
        return 0.0
    beyond = math.sqrt(2 / load)  # there 1 / (sqrt(2) y) is half of sqrt(load)
    return float(special.erf(optimize.brentq(excess, peak, beyond)))

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

import itertools
import math
from typing import Annotated, Any, Literal, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Num
from scipy import integrate, optimize, special, stats
from torch import Tensor, nn

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.mnist import embedded_mnist
from principia.lab.data.synthetic import random_signs
from principia.lab.domains import Count, Fraction, Positive, Range, Signs
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import (
    at_least,
    at_most,
    equal,
    estimates,
    every,
    follows,
    identical,
    never,
    slope,
)
from principia.lab.seeds import Seed

RULES: tuple[Literal["hebb", "projection"], ...] = ("hebb", "projection")
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
    def __init__(self, n: Count, *, dtype: torch.dtype = torch.float64) -> None:
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
                raise refuse("Hopfield", name, f"of shape {shape}", tuple(value.shape))
            if name == "W" and (value.diagonal().any() or not torch.allclose(value, value.mT)):
                hint = "Take (W + W.T) / 2, then W.fill_diagonal_(0): else no energy descends."
                raise refuse("Hopfield", "W", "symmetric with zero diagonal", value, hint)
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
            raise refuse("Hopfield.update", "units", "different from each other", units, hint)
        states = self._fitting("update", "x", x).clone()
        self._sweep(states, self.field(states), units, self._tie())
        return states

    @checked
    def recall(
        self, x: Annotated[Num[Tensor, "B n"], Signs], *,
        order: Literal["async", "sync"] = "async", max_sweeps: Count = 50,
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
            raise refuse(owner, name, f"of shape (any, {self.n})", tuple(x.shape))
        return x.to(self.W)


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
def flip_probability(n: Count, s: Count, *, exact: bool = True) -> float:
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
def mean_field_overlap(load: Positive) -> float:
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


@claim(
    control={"order": "sync"},
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
    return every(
        {
            "no update raises the energy": at_most(
                rises, 0, slack=1e-10, why="a theorem; rounding of sums of n² terms"
            ).drawn(*first, x="updates (first net)", y="energy"),
            "every run ends": never(torch.cat(runs) == limit, why="energies fall, finitely many"),
            "recall takes the same way": identical(torch.cat(gaps), torch.zeros(40 * nets)),
        }
    )


@claim(control={"diagonal": True}, source="Hopfield 1982")
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
    chosen = net.recall(x, order="sync", max_sweeps=1).states
    pairs = -torch.einsum("bi,ij,bj->b", x, net.W.triu(1), x) + x @ net.b
    return every(
        {
            "sign of the field": never(
                (torch.sign(gain) != chosen)[gain.abs() > 1e-9], why="a theorem, ties aside"
            ),
            "energy, pair by pair": identical(net.energy(x), pairs),
        }
    )


@claim(
    control={"diagonal": True},
    source="Hertz, Krogh and Palmer 1991, ch. 2",
    misprint=r"$W=\frac1n\sum_tx^tx^{t\top}$, although $w_{ii}=0$ is required",
)
def hebb_zero_diagonal(
    seed: Seed, *, n: Annotated[int, Range(50, 600)] = 400, s: Annotated[int, Range(5, 100)] = 40,
    nets: Annotated[int, Range(50, 500)] = 100, diagonal: bool = False,
) -> Evidence:
    r"""With $w_{ii}=0$ the mean of $x_iC_i$ is 0 and bits flip as often as theory says."""
    rng = seed.torch()
    means, rates = [], []
    for _ in range(nets):
        x = random_signs(rng, s, n)
        net = Hopfield(n).store(x, zero_diagonal=not diagonal)
        own = 1 if diagonal else (n - 1) / n  # what the pattern itself adds to its field
        means.append((x * net.field(x) - own).mean())
        rates.append((net.recall(x, order="sync", max_sweeps=1).states != x).double().mean())
    return every(
        {
            "mean crosstalk": _estimated(torch.stack(means), 0.0, "mean over independent nets"),
            "flips": _estimated(
                torch.stack(rates), flip_probability(n, s), "rate over independent nets", s * n
            ),
        }
    )


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
    return every(
        {
            "law": follows(
                talk[:, 0, 0] / math.sqrt(variance), stats.norm(),
                why="one bit a net: independent draws of a sum of (s-1)(n-1) signs",
            ),
            "mean": _estimated((x * talk).mean(dim=(1, 2)), 0.0, "mean over independent nets"),
            "variance": _estimated(
                talk.square().mean(dim=(1, 2)), variance, "mean square over independent nets"
            ),
        }
    )


@claim(
    control={"factor": False},
    source="Hertz, Krogh and Palmer 1991, ch. 2",
    misprint=r"$\int_1^\infty e^{-nz^2/2s}dz$ without the factor $\sqrt{n/2\pi s}$",
)
def flip_probability_claim(
    seed: Seed, *, n: Annotated[int, Range(50, 500)] = 200, s: Annotated[int, Range(5, 50)] = 20,
    nets: Annotated[int, Range(50, 600)] = 400, factor: bool = True,
) -> Evidence:
    r"""$P(-x_iC_i\ge1)=\sqrt{\frac n{2\pi s}}\int_1^\infty e^{-nz^2/2s}dz$, an error function."""
    tail = integrate.quad(lambda z: math.exp(-n * z * z / 2 / s), 1, math.inf, epsabs=0)
    integral = tail[0]
    if factor:
        integral *= math.sqrt(n / (2 * math.pi * s))
    x = random_signs(seed.torch(), nets, s, n)
    field = x * (n - 1) + (n * crosstalk(x)).round()  # n times the field, in integers
    wrong = torch.where(field >= 0, 1, -1) != x
    rates = wrong.double().mean(dim=(1, 2))
    return every(
        {
            "integral": equal(
                integral / flip_probability(n, s, exact=False), 1.0, tol=1e-7,
                why="a ratio, as both may be tiny; the quadrature's relative error is 1e-8",
            ),
            "measured": _estimated(
                rates, flip_probability(n, s), "rate over independent nets", s * n
            ),
            "memorized": never(
                is_memorized(x) != ~wrong.any(-1), why="a pattern is fixed iff no bit is wrong"
            ),
        }
    )


@claim(
    control={"rule": "two-sided"},
    source="by construction",
    misprint=r"we require $\vert C_i\vert<1$",
)
def stability_is_one_sided(
    seed: Seed, *, n: Annotated[int, Range(10, 200)] = 100,
    s: Annotated[int, Range(20, 500)] = 60, rule: Literal["one-sided", "two-sided"] = "one-sided",
) -> Evidence:
    r"""A stored bit is stable iff $x_iC_i\ge-(n-1)/n$ (at equality iff it is +1)."""
    x = random_signs(seed.torch(), s, n)
    talk = crosstalk(x)
    against = -(n * x * talk).round()  # integers: equality is exact
    predicted = (against < n - 1) | ((against == n - 1) & (x > 0))
    if rule == "two-sided":
        predicted = talk.abs() < 1
    net = Hopfield(n).store(x)
    stable = net.recall(x, order="sync", max_sweeps=1).states == x
    reason = "an identity in integers; sgn(0) = +1 decides at equality"
    return every(
        {
            "stable bits": never(predicted != stable, why=reason).drawn(
                Series("stable", (x * talk)[0], stable[0]),
                Series("predicted", (x * talk)[0], predicted[0], "predicted", "points"),
                x="xᵢCᵢ (first pattern)", y="stable: 1, not: 0",
            ),
            "field = own share + crosstalk": identical(net.field(x), (n - 1) / n * x + talk),
        }
    )


@claim(control={"excess": 1.5}, source="Amit, Gutfreund and Sompolinsky 1985")
def retrieval_overlap(
    seed: Seed, *, n: Annotated[int, Range(1000, 3000)] = 2000,
    recalled: Annotated[int, Range(20, 100)] = 60,
    excess: Annotated[float, Range(0.1, 2)] = 1.0,
) -> Evidence:
    r"""The overlap after recall follows the mean-field $m(\alpha)$ below the critical load."""
    loads = (0.05, 0.10, 0.12)
    found = [_recalled(seed, n, excess * load, recalled) for load in loads]
    shares = [float((one > 0.8).double().mean()) for one in found]
    # a finite net may lose a pattern altogether: it is left out, unless most are lost
    kept = [one[one > 0.8] if p > 0.5 else one for one, p in zip(found, shares, strict=True)]
    means = [float(one.mean()) for one in kept]
    errors = [_error(one) for one in kept]
    return every(
        {
            "overlap": estimates(
                means, [mean_field_overlap(load) for load in loads], error=errors, bias=2 / n,
                why="mean over the patterns kept; a finite net is not finer than one bit, 2/n",
            ).drawn(
                Series("recalled", [excess * load for load in loads], means, error=errors),
                _theory(0.15), x="load α = s/n", y="overlap m",
            ),
            "patterns kept": at_least(shares, 0.9, why="all of them as n grows; n is finite"),
        }
    )


@claim(control={"feedback": 0.0}, source="Amit, Gutfreund and Sompolinsky 1985")
def critical_load(seed: Seed, *, feedback: Fraction = 1.0) -> Evidence:
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
    half = "half a unit of the last published digit"
    root = "m has a square root at the critical load: 1e-6 of load move it by 1e-3"
    return every(
        {
            "load": equal(low, 0.138, tol=5e-4, why=half),
            "overlap": equal(_iterated(low, feedback)[0], 0.967, tol=3e-3, why=root),
            "equations": identical(np.concatenate([m, r]), sides),
            "solver": identical(solved, m).drawn(
                Series("iterated", loads, m), Series("solved", loads, solved, "predicted"),
                x="load α", y="overlap m",
            ),
        }
    )


@claim(control={"load": 0.18}, source="Amit, Gutfreund and Sompolinsky 1985", headline=True)
def phase_transition(
    seed: Seed, *, load: Annotated[float, Range(0.02, 0.25)] = 0.12,
    n: Annotated[int, Range(500, 3000)] = 1500, recalled: Annotated[int, Range(10, 50)] = 30,
) -> Evidence:
    r"""Memory survives up to a load of 0.138 patterns a unit; above, it collapses at once."""
    loads = [load * ratio for ratio in (0.5, 0.75, 1.0, 1.25, 1.5, 1.75)]
    found = [_recalled(seed, n, one, recalled) for one in loads]
    means = [float(one.mean()) for one in found]
    return at_least(
        means[2], 0.95, why="mean field: 0.967 or more below the critical load; less finite size"
    ).drawn(
        Series("recalled", loads, means, error=[_error(one) for one in found]),
        _theory(loads[-1]), x="load α = s/n", y="overlap after recall",
    )


@claim(
    control={"logarithm": "binary"},
    source="McEliece, Posner, Rodemich and Venkatesh 1987",
    misprint=r"$s\le n/(2\log_2n)$ as the capacity",
)
def capacity_constant(
    seed: Seed, *, longest: Annotated[int, Range(100, 5000)] = 600,
    logarithm: Literal["natural", "binary"] = "natural",
) -> Evidence:
    r"""$s=cn/\ln n$ patterns: wrong bits of one vanish iff $c<\frac12$, of all iff $c<\frac14$."""
    lengths = np.linspace(50, longest, 24)  # ln n
    unit = math.log(2) if logarithm == "binary" else 1.0  # n / log2(n) = ln(2) n / ln(n)
    # wrong bits are n P(flip), or n s P(flip); the Gaussian tail exp(-z²/2)/z gives a root of ln n
    one = lengths + special.log_ndtr(-np.sqrt(lengths / (unit / 2))) + np.log(lengths) / 2
    many = 2 * lengths + special.log_ndtr(-np.sqrt(lengths / (unit / 4))) + np.log(lengths) / 2
    n, s = 10**6, round(unit * 10**6 / (2 * math.log(10**6)))
    reason = "the Gaussian tail's next term, c/ln n, has slope c/2500 at most"
    labels = ("ln n", "ln of expected wrong bits, less powers of ln n")
    return every(
        {
            "one pattern": slope(lengths, one, 0.0, tol=0.01, why=reason, log="", labels=labels),
            "all patterns": slope(lengths, many, 0.0, tol=0.01, why=reason, log=""),
            "its logarithm": identical(
                math.log(flip_probability(n, s, exact=False)), special.log_ndtr(-math.sqrt(n / s))
            ),
        }
    )


@claim(control={"bias": 0.5}, source="Hertz, Krogh and Palmer 1991, ch. 2")
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

    small = "crosstalk of sd sqrt(s/n) beside fields of size 1"
    return every(
        {
            "patterns are fixed": never(net.recall(x).sweeps, of=s, why=small),
            "their negatives are": never(moves(-x), why="a symmetry, H(-x) = -H(x)"),
            "every fixed point's negative is": never(moves(-ends), why="the same symmetry"),
            "mixtures are fixed": at_least(
                1 - moves(mixtures).double().mean(), 0.95, why=f"{small}, the weakest 1/2"
            ),
        }
    )


@experiment(
    reaches={
        "largest_load_recalled": Range(0.138, 0.17), "steepening": at_least_goal(0),
        "hebb_recovered": at_most_goal(0), "projection_recovered": at_least_goal(6),
    },
    floor={
        "overlap_below": at_least_goal(0.97), "overlap_above": at_most_goal(0.75),
        "hebb_recovered": at_most_goal(0), "projection_recovered": at_least_goal(6),
    },
    source="Amit, Gutfreund and Sompolinsky (1985): critical load 0.138",
)
def recall(
    run: Run, *, recalled: Annotated[int, Range(10, 400)] = 100,
    sets: Annotated[int, Range(1, 50)] = 10,
) -> None:
    """Recalls random patterns at growing load, and ten digits of which the lower half is erased."""
    sizes = (500, 1000, 2000, 4000) if run.full else (500,)
    loads = [0.05, 0.08, 0.1, 0.12, 0.13, 0.14, 0.145, 0.15, 0.155, 0.16, 0.17, 0.18, 0.2]
    means, medians = {}, {}
    for n in sizes:
        found = [
            torch.cat([_recalled(run.seed.child(net), n, load, recalled) for net in range(2)])
            for load in run.steps(loads, f"n = {n}, load")
        ]
        means[n] = dict(zip(loads, [float(one.mean()) for one in found], strict=True))
        medians[n] = dict(zip(loads, [float(one.median()) for one in found], strict=True))
    run.record(overlap_below=means[500][0.1], overlap_above=means[500][0.18])
    largest = max(load for load, median in medians[sizes[-1]].items() if median > 0.9)
    run.record(largest_load_recalled=largest)
    if run.full:  # the fall across the transition grows with every doubling of n
        falls = [mean[0.13] - mean[0.17] for mean in means.values()]
        run.record(steepening=min(b - a for a, b in itertools.pairwise(falls)))
    curves = [Series(f"n = {n}", loads, list(mean.values()), "other") for n, mean in means.items()]
    picture = Picture((*curves, _theory(loads[-1])), "load α = s/n", "overlap after recall")
    run.figure("transition", figures.draw(picture))

    rng = run.seed.torch()
    pictures, labels = embedded_mnist()
    kinds = torch.stack([(labels == k).nonzero()[:, 0] for k in range(10)], dim=1)  # (500, 10)
    chosen = kinds[torch.randperm(len(kinds), generator=rng)[:sets]]
    stored = torch.where(pictures[chosen].flatten(2) > 0.5, 1, -1)  # (sets, 10, 784)
    cues = stored.clone()
    cues[..., 28 * 14 :] = -1
    ends, right = {}, {}
    for rule in RULES:
        nets = [Hopfield(784).store(digits, rule=rule) for digits in stored]
        found = [net.recall(cue, rng=rng).states for net, cue in zip(nets, cues, strict=True)]
        ends[rule] = torch.stack(found)
        right[rule] = (ends[rule] == stored).all(-1).sum(-1).double()  # of ten, for every set
    run.record(hebb_recovered=float(right["hebb"].max()))
    run.record(projection_recovered=float(right["projection"].mean()))
    rows = {"cue": cues, **ends, "stored": stored}
    tiles = [x[0, k].view(28, 28) for x in rows.values() for k in range(10)]
    titles = [name for name in rows for _ in range(10)]
    run.figure("digits", figures.images(tiles, titles, columns=10))

    net = Hopfield(784).store(stored[0], rule="projection")
    run.keep(net)
    film = [cues[0, :1].double()]
    for units in torch.randperm(784, generator=rng).split(28):
        film.append(net.update(film[-1], units))
    energies = net.energy(torch.cat(film))
    frames = [film[k].view(28, 28) for k in range(0, 29, 4)]
    run.figure("film", figures.images(frames, [f"E = {e:.1f}" for e in energies[::4]], columns=8))
    descent = Series("energy", range(0, 785, 28), energies, style="line")
    run.figure("energy", figures.draw(Picture((descent,), "units updated", "energy")))


def _sign(field: Tensor, tie: Tensor) -> Tensor:
    """Take signs; a field that is 0 up to rounding gives +1, not the sign of the rounding."""
    return (field >= -tie).to(field.dtype).mul_(2).sub_(1)


def _random_couplings(rng: torch.Generator, n: int) -> Tensor:
    square = torch.randn(n, n, generator=rng, dtype=torch.float64)
    return (square + square.T).fill_diagonal_(0)


def _recalled(seed: Seed, n: int, load: float, count: int) -> Tensor:
    """Fill a net, start it at some of its patterns and measure the overlaps where it ends."""
    rng = seed.child(f"{n} units, load {load}").torch()
    patterns = random_signs(rng, round(load * n), n)
    net = Hopfield(n, dtype=torch.float32).store(patterns)  # the same signs, faster
    states = net.recall(patterns[:count], rng=rng).states
    return overlap(states, patterns[:count])


def _theory(largest: float) -> Series:
    """Draw the mean-field overlap up to a load, with the jump between two close loads."""
    loads = sorted([largest * k / 50 for k in range(2, 51)] + [0.1379, 0.13791])
    return Series("mean field", loads, [mean_field_overlap(load) for load in loads], "predicted")


def _estimated(values: Tensor, expected: float, why: str, cases: int = 0) -> Evidence:
    """State that the mean of independent values estimates what is expected.

    If they are rates of rare events among `cases`, none may have happened: the error is then that
    of the expected count, which no sample shows.
    """
    rare = math.sqrt(expected / (len(values) * cases)) if cases else 0.0
    return estimates(values.mean(), expected, error=max(_error(values), rare), why=why)


def _error(values: Tensor) -> float:
    """Estimate the standard error of the mean."""
    return float(values.std()) / math.sqrt(len(values))


def _iterated(load: float, feedback: float) -> tuple[float, float]:
    r"""Iterate the mean-field equations from a perfect overlap until nothing changes: m and r.

    The one for r is iterated as $\sqrt{\alpha r}=\sqrt\alpha+C\sqrt{\alpha r}$, which never jumps.
    """
    m, width = 1.0, math.sqrt(load)
    for _ in range(100_000):  # at a critical point it would crawl for ever
        before, amplified = m, math.sqrt(2 / math.pi) * math.exp(-m * m / (2 * width**2))
        m = math.erf(m / (math.sqrt(2) * width))
        width = math.sqrt(load) + feedback * amplified
        if abs(m - before) < 1e-15:
            break
    return m, width**2 / load

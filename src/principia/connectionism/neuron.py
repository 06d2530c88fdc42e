r"""The McCulloch-Pitts neuron: logic from units that add up their inputs and compare.

Inputs are 0 or 1, each excites (+1) or inhibits (-1), and the unit fires when the sum reaches its
threshold. (In 1943 one inhibitory input vetoed the firing; here it counts -1.) One unit computes
AND, OR, NOT and majority, but only $n2^n+2$ functions in all; with any weights it still computes no
XOR, for no line separates opposite corners of a square. Two layers compute every function. Its
heirs, from the perceptron to the Hopfield network, share a frame of seven parts (parallel
distributed processing) and differ in how they fill it in: most of all in the function of the net
input that stands in the place of the step.

$$ f(x) = \mathbf 1\{\sigma\cdot x\ge\theta\}, \quad x\in\{0,1\}^n, \quad \sigma\in\{-1,1\}^n $$

$$ a' = F(a, W o), \quad o = g(a), \quad \Delta W = L(W, o, a', \delta), \quad
   \delta = -\partial\ell/\partial a' $$

Symbols:
    $\sigma, \theta$: `signs` and `threshold` of a neuron
    $a, a'$: states of the units before and after a step; the first is `units`
    $g, o$: `output` function, and what the units send
    $W$: `connectivity`, entry $ij$ from unit $j$ to unit $i$; `propagation` computes $Wo$
    $F, L$: `activation` function, of the net input alone in `ACTIVATIONS`, and `learning` rule
    $\ell, \delta$: loss of the `environment`, and the teaching signal that follows from it

References:
    McCulloch and Pitts (1943), A logical calculus of the ideas immanent in nervous activity.
        Bulletin of Mathematical Biophysics 5(4). doi:10.1007/BF02478259
    Minsky and Papert (1969), Perceptrons. MIT Press.
    Muroga, Tsuboi and Baugh (1970), Enumeration of threshold functions of eight variables. IEEE
        Transactions on Computers C-19(9). doi:10.1109/T-C.1970.223046
    Rumelhart, Hinton and McClelland (1986), A general framework for parallel distributed
        processing. Parallel Distributed Processing 1, chapter 2, MIT Press.
"""

__all__ = [
    "McCullochPitts", "AND", "OR", "NOR", "NOT", "MAJORITY", "truth_table", "threshold_functions",
    "mcculloch_pitts_functions", "two_layer_from_table", "PDPNetwork",
]

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple, final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.params import Bits, PositiveInt, Range, Signs, checked, usage_error

Table = tuple[int, ...]
Batch = tuple[Tensor, Tensor]
EXACT = 40  # where torch takes softplus for the identity: e^-40 is below rounding
LARGEST_WEIGHT = (0, 1, 1, 2, 3, 5)  # by n: integers up to it give all threshold functions


@final
class McCullochPitts(nn.Module):
    r"""Fires when its excitatory minus its inhibitory inputs reach the threshold.

    Several rows of signs make a layer: every row is a neuron, with a threshold of its own.

    Shapes:
        x: (..., n) of bool, integers or floats; signs (n,) return (...), signs (m, n) return
        (..., m), of the dtype of x

    Args:
        signs: +1 for an excitatory input, -1 for an inhibitory one.
        threshold: Least sum that fires: one for all neurons, or one for each.

    Example:
        >>> not_both = McCullochPitts(torch.tensor([-1, -1]), threshold=-1)
        >>> truth_table(not_both, 2).tolist()
        [1, 1, 1, 0]
    """

    signs: Tensor
    threshold: Tensor

    @checked
    def __init__(
        self, signs: Annotated[Shaped[Tensor, "*m n"], Signs],
        threshold: int | float | Shaped[Tensor, "..."],
    ) -> None:
        super().__init__()
        if signs.ndim not in (1, 2):
            raise usage_error(
                "McCullochPitts", "signs", "of shape (n,) or (m, n)", tuple(signs.shape)
            )
        least, shape = torch.as_tensor(threshold, dtype=torch.float64), signs.shape[:-1]
        if least.shape not in ((), shape) or least.isnan().any():
            domain = f"one number, or an array of shape {tuple(shape)}"
            raise usage_error("McCullochPitts", "threshold", domain, threshold)
        self.register_buffer("signs", signs.double())
        self.register_buffer("threshold", least.expand(shape).clone())

    @checked
    def forward(self, x: Annotated[Shaped[Tensor, "*B n"], Bits]) -> Shaped[Tensor, "..."]:
        """Say 1 where the sum reaches the threshold, else 0."""
        if x.shape[-1:] != self.signs.shape[-1:]:
            n = self.signs.shape[-1]
            raise usage_error("McCullochPitts", "x", f"of shape (..., {n})", tuple(x.shape))
        return (F.linear(x.to(self.signs), self.signs) >= self.threshold).to(x.dtype)


@checked
def AND(n: PositiveInt) -> McCullochPitts:
    """Makes the neuron that fires when all of its n inputs do.

    Example:
        >>> truth_table(AND(2), 2).tolist()
        [0, 0, 0, 1]
    """
    return McCullochPitts(torch.ones(n), n)


@checked
def OR(n: PositiveInt) -> McCullochPitts:
    """Makes the neuron that fires when one of its n inputs does, or more.

    Example:
        >>> truth_table(OR(2), 2).tolist()
        [0, 1, 1, 1]
    """
    return McCullochPitts(torch.ones(n), 1)


@checked
def NOR(n: PositiveInt) -> McCullochPitts:
    """Makes the neuron that fires when none of its n inputs does.

    Example:
        >>> truth_table(NOR(2), 2).tolist()
        [1, 0, 0, 0]
    """
    return McCullochPitts(-torch.ones(n), 0)


def NOT() -> McCullochPitts:
    """Makes the neuron that fires when its only input does not.

    Example:
        >>> truth_table(NOT(), 1).tolist()
        [1, 0]
    """
    return NOR(1)


@checked
def MAJORITY(n: PositiveInt) -> McCullochPitts:
    """Makes the neuron that fires when more than half of its n inputs do.

    Example:
        >>> truth_table(MAJORITY(3), 3).tolist()
        [0, 0, 0, 1, 0, 1, 1, 1]
    """
    return McCullochPitts(torch.ones(n), n // 2 + 1)


@checked
def truth_table(
    f: Callable[[Tensor], Tensor], n: Annotated[int, Range(1, 20)]
) -> Int[Tensor, " T"]:
    """Lists what a Boolean function says to all 2^n inputs, in binary order: 00, 01, 10, 11.

    Args:
        f: A function of (..., n) zeros and ones with one answer each, (...) or (..., 1).
        n: How many inputs it has.

    Example:
        >>> truth_table(lambda x: x.sum(-1) == 1, 2).tolist()
        [0, 1, 1, 0]
    """
    answers = f(corners(n))
    if answers.numel() != 2**n:
        got = tuple(answers.shape)
        raise usage_error(
            "truth_table", "f", f"a function with {2**n} answers to {2**n} inputs", got
        )
    return answers.reshape(-1).long()


def corners(n: int) -> Tensor:
    """List all inputs of n bits (2^n, n) in binary order, the first bit the highest."""
    return (torch.arange(2**n)[:, None] >> torch.arange(n - 1, -1, -1)) & 1


@checked
def threshold_functions(n: Annotated[int, Range(1, 5)]) -> frozenset[Table]:
    r"""Collects the truth tables of all functions $\mathbf 1\{w\cdot x\ge\theta\}$ of n inputs.

    Integer weights up to 1, 1, 2, 3, 5 (n = 1 to 5) are enough. Only sorted weights $w\ge0$ are
    tried, with every threshold; permuting and negating inputs gives the rest.

    Example:
        >>> len(threshold_functions(2)), (0, 1, 1, 0) in threshold_functions(2)
        (14, False)
    """
    ascending = itertools.combinations_with_replacement(range(LARGEST_WEIGHT[n] + 1), n)
    tables = decode(_codes(torch.tensor(list(ascending))), n)
    orders = torch.tensor(list(itertools.permutations(range(n))))
    places = (corners(n)[:, orders] << torch.arange(n)).sum(-1)  # (2^n, n!): where an entry goes
    moves = (places[..., None] ^ torch.arange(2**n)).flatten(1)  # flips of inputs as well
    codes = torch.zeros(len(tables), moves.shape[1], dtype=torch.long)
    for row, move in enumerate(moves):
        codes |= tables[:, move] << row
    return _as_set(codes.unique(), n)


def _codes(weights: Tensor) -> Tensor:
    """Give the tables of weights (V, n) with every threshold, each as one integer, once."""
    sums = weights @ corners(weights.shape[1]).T  # (V, 2^n)
    thresholds = torch.arange(int(sums.min()), int(sums.max()) + 2)
    tables = (sums[:, None] >= thresholds[:, None]).long()
    return (tables << torch.arange(sums.shape[1])).sum(-1).unique()


def _as_set(codes: Tensor, n: int) -> frozenset[Table]:
    return frozenset(map(tuple, decode(codes, n).tolist()))


def decode(codes: Tensor, n: int) -> Tensor:
    """Turn integers back into tables (F, 2^n); entry k is bit k."""
    return (codes[:, None] >> torch.arange(2**n)) & 1


@checked
def mcculloch_pitts_functions(
    n: Annotated[int, Range(1, 5)], *, unconnected: bool = False
) -> frozenset[Table]:
    r"""Collects the truth tables of all McCulloch-Pitts neurons with n inputs: $n2^n+2$ of them.

    Args:
        n: How many inputs.
        unconnected: Whether inputs may be ignored ($\sigma_i=0$), which makes more functions.

    Example:
        >>> len(mcculloch_pitts_functions(2)), len(mcculloch_pitts_functions(2, unconnected=True))
        (10, 14)
    """
    values = (-1, 0, 1) if unconnected else (-1, 1)
    return _as_set(_codes(torch.tensor(list(itertools.product(values, repeat=n)))), n)


@checked
def two_layer_from_table(table: Annotated[Shaped[Tensor, " T"], Bits]) -> nn.Sequential:
    """Builds a net for any Boolean function: an OR of neurons that each know one input.

    The disjunctive normal form: the neuron of an input a excites where a is 1, inhibits where it
    is 0, and fires at a alone.

    Args:
        table: Truth table, 2^n zeros and ones in the order of `truth_table`.

    Example:
        >>> xor = two_layer_from_table(torch.tensor([0, 1, 1, 0]))
        >>> xor(torch.tensor([[1, 0], [1, 1]])).tolist()
        [1, 0]
    """
    n = len(table).bit_length() - 1
    if table.ndim != 1 or n < 1 or len(table) != 2**n:
        raise usage_error(
            "two_layer_from_table", "table", "of 2, 4, 8, ... entries", tuple(table.shape)
        )
    known = corners(n)[table == 1]
    if not len(known):  # nothing to know: a neuron whose threshold is out of reach
        return nn.Sequential(McCullochPitts(torch.ones(1, n), n + 1), OR(1))
    return nn.Sequential(McCullochPitts(2 * known - 1, known.sum(-1)), OR(len(known)))


class Activation(NamedTuple):
    """A function of the field of a unit, its derivative (none: nothing to learn by), its range."""

    value: Callable[[Tensor], Tensor]
    slope: Any = None
    low: float = -math.inf
    high: float = math.inf


ACTIVATIONS = {  # what the heirs of the neuron put in the place of its step
    "identity": Activation(lambda z: z, torch.ones_like),
    "sigmoid": Activation(torch.sigmoid, lambda z: z.sigmoid() * (-z).sigmoid(), 0, 1),
    "tanh": Activation(torch.tanh, lambda z: z.cosh() ** -2, -1, 1),
    "relu": Activation(torch.relu, lambda z: z.sign().clamp(min=0), low=0),
    "softplus": Activation(functools.partial(F.softplus, threshold=EXACT), torch.sigmoid, low=0),
    "sign": Activation(lambda z: 2 * (z >= 0).to(z) - 1, low=-1, high=1),  # 0 counts as +1
}


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class PDPNetwork:
    r"""Describes a network by the seven parts of parallel distributed processing.

    Nothing changes in place: a step returns the new state, learning returns the new network.

    Shapes:
        units, states: (..., n); connectivity: (n, n)

    Args:
        units: State of the units at the beginning.
        output: What a unit sends, given its state.
        connectivity: Weights: entry (i, j) leads from unit j to unit i.
        propagation: Net input of the units, given the connectivity and what they send.
        activation: New state, given the old state and the net input.
        learning: New connectivity, given the old, what was sent, the new state and the signal.
        environment: The data, batches of states and targets, and the loss of a state and a target.

    Example:
        >>> echo = PDPNetwork(
        ...     units=torch.tensor([1.0, -1.0]), output=torch.tanh, connectivity=torch.eye(2),
        ...     propagation=torch.mv, activation=lambda a, net: net.sign(),
        ...     learning=lambda W, o, a, signal: W + torch.outer(signal, o),
        ...     environment=([], F.mse_loss),
        ... )
        >>> echo.step().tolist()
        [1.0, -1.0]
    """

    units: Float[Tensor, "*B n"]
    output: Callable[[Tensor], Tensor]
    connectivity: Float[Tensor, "n n"]
    propagation: Callable[[Tensor, Tensor], Tensor]
    activation: Callable[[Tensor, Tensor], Tensor]
    learning: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
    environment: tuple[Iterable[Batch], Callable[[Tensor, Tensor], Tensor]]

    def __post_init__(self) -> None:
        n = self.units.shape[-1]
        if self.connectivity.shape != (n, n):
            got = tuple(self.connectivity.shape)
            raise usage_error("PDPNetwork", "connectivity", f"of shape ({n}, {n}), as units", got)

    def step(self, state: Float[Tensor, "..."] | None = None) -> Float[Tensor, "..."]:
        """Update all units at once, from a state or from that of the beginning."""
        before = self.units if state is None else state
        return self.activation(before, self.propagation(self.connectivity, self.output(before)))

    def learn(self, batch: Batch) -> "PDPNetwork":
        """Answer a batch (states, target); the signal of the loss changes the connectivity."""
        states, target = batch
        after = self.step(states).detach().requires_grad_()
        (slope,) = torch.autograd.grad(self.environment[1](after, target), after)
        with torch.no_grad():
            learned = self.learning(self.connectivity, self.output(states), after, -slope)
        return replace(self, connectivity=learned)

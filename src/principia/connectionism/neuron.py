r"""The McCulloch-Pitts neuron: logic from units that add up their inputs and compare.

Inputs are 0 or 1, each excites (+1) or inhibits (-1), and the unit fires when the sum reaches its
threshold. (In 1943 one inhibitory input vetoed the firing; here it counts -1.) One unit computes
AND, OR, NOT and majority, but only $n2^n+2$ functions in all; with any weights it still computes no
XOR, for no line separates opposite corners of a square. Two layers compute every function. Its
heirs, from the perceptron to the Hopfield network, share a frame of seven parts (parallel
distributed processing) and differ in how they fill it in.

$$ f(x) = \mathbf 1\{\sigma\cdot x\ge\theta\}, \quad x\in\{0,1\}^n, \quad \sigma\in\{-1,1\}^n $$

$$ a' = F(a, W o), \quad o = g(a), \quad \Delta W = L(W, o, a', \delta), \quad
   \delta = -\partial\ell/\partial a' $$

Symbols:
    $\sigma, \theta$: `signs` and `threshold` of a neuron
    $a, a'$: states of the units before and after a step; the first is `units`
    $g, o$: `output` function, and what the units send
    $W$: `connectivity`, entry $ij$ from unit $j$ to unit $i$; `propagation` computes $Wo$
    $F, L$: `activation` function and `learning` rule
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

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.synthetic import random_signs
from principia.lab.domains import Bits, Count, Range, Signs
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import equal, every, identical, never
from principia.lab.seeds import Seed

Table = tuple[int, ...]
Batch = tuple[Tensor, Tensor]
Rule = Callable[[Tensor], Tensor]
LARGEST_WEIGHT = (0, 1, 1, 2, 3, 5)  # by n: integers up to it give all threshold functions
CENSUS = {1: 4, 2: 14, 3: 104, 4: 1882, 5: 94572}  # OEIS A000609


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
            raise refuse("McCullochPitts", "signs", "of shape (n,) or (m, n)", tuple(signs.shape))
        least, shape = torch.as_tensor(threshold, dtype=torch.float64), signs.shape[:-1]
        if least.shape not in ((), shape) or least.isnan().any():
            domain = f"one number, or an array of shape {tuple(shape)}"
            raise refuse("McCullochPitts", "threshold", domain, threshold)
        self.register_buffer("signs", signs.double())
        self.register_buffer("threshold", least.expand(shape).clone())

    @checked
    def forward(self, x: Annotated[Shaped[Tensor, "*B n"], Bits]) -> Shaped[Tensor, "..."]:
        """Say 1 where the sum reaches the threshold, else 0."""
        if x.shape[-1:] != self.signs.shape[-1:]:
            n = self.signs.shape[-1]
            raise refuse("McCullochPitts", "x", f"of shape (..., {n})", tuple(x.shape))
        return (F.linear(x.to(self.signs), self.signs) >= self.threshold).to(x.dtype)


@checked
def AND(n: Count) -> McCullochPitts:
    """Makes the neuron that fires when all of its n inputs do.

    Example:
        >>> truth_table(AND(2), 2).tolist()
        [0, 0, 0, 1]
    """
    return McCullochPitts(torch.ones(n), n)


@checked
def OR(n: Count) -> McCullochPitts:
    """Makes the neuron that fires when one of its n inputs does, or more.

    Example:
        >>> truth_table(OR(2), 2).tolist()
        [0, 1, 1, 1]
    """
    return McCullochPitts(torch.ones(n), 1)


@checked
def NOR(n: Count) -> McCullochPitts:
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
def MAJORITY(n: Count) -> McCullochPitts:
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
    answers = f(_corners(n))
    if answers.numel() != 2**n:
        got = tuple(answers.shape)
        raise refuse("truth_table", "f", f"a function with {2**n} answers to {2**n} inputs", got)
    return answers.reshape(-1).long()


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
    tables = _decode(_codes(torch.tensor(list(ascending))), n)
    orders = torch.tensor(list(itertools.permutations(range(n))))
    places = (_corners(n)[:, orders] << torch.arange(n)).sum(-1)  # (2^n, n!): where an entry goes
    moves = (places[..., None] ^ torch.arange(2**n)).flatten(1)  # flips of inputs as well
    codes = torch.zeros(len(tables), moves.shape[1], dtype=torch.long)
    for row, move in enumerate(moves):
        codes |= tables[:, move] << row
    return _as_set(codes.unique(), n)


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
        raise refuse("two_layer_from_table", "table", "of 2, 4, 8, ... entries", tuple(table.shape))
    known = _corners(n)[table == 1]
    if not len(known):  # nothing to know: a neuron whose threshold is out of reach
        return nn.Sequential(McCullochPitts(torch.ones(1, n), n + 1), OR(1))
    return nn.Sequential(McCullochPitts(2 * known - 1, known.sum(-1)), OR(len(known)))


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
            raise refuse("PDPNetwork", "connectivity", f"of shape ({n}, {n}), as units", got)

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


@claim(control={"off_by": 1}, source="McCulloch and Pitts 1943")
def logic_gates(
    seed: Seed, *, inputs: Annotated[int, Range(1, 12)] = 6,
    off_by: Annotated[int, Range(-2, 2)] = 0,
) -> Evidence:
    r"""AND, OR, NOR, NOT and majority of up to $n$ inputs are single neurons, set by hand."""
    wrong = []
    for n in range(1, inputs + 1):
        x = _corners(n).bool()
        gates = [
            (AND(n), x.all(-1)), (OR(n), x.any(-1)), (NOR(n), ~x.any(-1)),
            (MAJORITY(n), x.double().mean(-1) > 0.5),
        ] + [(NOT(), ~x[:, 0])] * (n == 1)
        for gate, logic in gates:
            neuron = McCullochPitts(gate.signs, gate.threshold + off_by)
            wrong.append(truth_table(neuron, n) != logic)
    return never(torch.cat(wrong), why="logic: not one entry of a truth table may be wrong")


@claim(control={"unconnected": True}, source="by counting thresholds between neighboring sums")
def neuron_census(
    seed: Seed, *, inputs: Annotated[int, Range(2, 5)] = 4, unconnected: bool = False
) -> Evidence:
    r"""Neurons with signs $\pm1$ on $n$ inputs compute exactly $n2^n+2$ different functions."""
    n = np.arange(1, inputs + 1)
    counts = [len(mcculloch_pitts_functions(int(k), unconnected=unconnected)) for k in n]
    formula = n * 2**n + 2
    return equal(counts, formula, tol=0, why="integers").drawn(
        Series("enumerated", n, counts), Series("n·2ⁿ + 2", n, formula, role="predicted"),
        Series("all functions", n, 2.0 ** (2**n), role="other"),
        x="inputs n", y="functions", log="y",
    )


@claim(control={"target": "and"}, source="Minsky and Papert 1969")
def xor_needs_two_layers(
    seed: Seed, *, inputs: Annotated[int, Range(2, 8)] = 2, target: Literal["xor", "and"] = "xor"
) -> Evidence:
    r"""No threshold unit computes XOR (parity of $n\ge2$ inputs), but a two-layer net does."""
    from principia.connectionism.margin import separable

    x = _corners(inputs)
    table = x.sum(-1) % 2 if target == "xor" else x.prod(-1)
    possible, *_ = separable(x.double().numpy(), 2.0 * table.double().numpy() - 1)
    square = _corners(2).double().numpy()
    planes: set[Table] = {(0, 0, 0, 0), (1, 1, 1, 1)}  # constants need no line
    for labels in set(itertools.product((0, 1), repeat=4)) - planes:
        if separable(square, 2.0 * np.array(labels) - 1)[0]:
            planes.add(labels)
    built = truth_table(two_layer_from_table(table), inputs)
    exact = "a theorem: the linear program has no solution"
    return every(
        {
            "one unit": never(int(possible), of=1, why=exact),
            "the program and the census differ on two inputs": never(
                len(planes ^ threshold_functions(2)), of=16, why="both decide exactly"
            ),
            "two layers": never(built != table, why="logic: every entry must be right"),
        }
    )


@claim(control={"layers": 1}, source="McCulloch and Pitts 1943: disjunctive normal form")
def two_layers_suffice(
    seed: Seed, *, inputs: Annotated[int, Range(2, 3)] = 3,
    layers: Annotated[int, Range(1, 2)] = 2,
) -> Evidence:
    r"""Every Boolean function of $n\le3$ inputs is a two-layer McCulloch-Pitts net."""
    computed: list[frozenset[Table]] = []
    for n in range(1, inputs + 1):
        if layers == 1:
            computed.append(mcculloch_pitts_functions(n))
            continue
        tables = torch.tensor(list(itertools.product((0, 1), repeat=2**n)))
        built = [truth_table(two_layer_from_table(table), n) for table in tables]
        hits = (torch.stack(built) == tables).all(-1)
        computed.append(frozenset(map(tuple, tables[hits].tolist())))
    counts = [len(functions) for functions in computed]
    return equal(counts, [2 ** 2**n for n in range(1, inputs + 1)], tol=0, why="integers")


@claim(control={"activation": "identity"}, source="Rumelhart, Hinton and McClelland 1986")
def pdp_frame(
    seed: Seed, *, steps: Annotated[int, Range(10, 1000)] = 100,
    units: Annotated[int, Range(5, 200)] = 20, activation: Literal["own", "identity"] = "own",
) -> Evidence:
    r"""Seven parts describe neuron, perceptron, delta rule and Hopfield net, step by step."""
    from principia.connectionism.delta_rule import delta_step
    from principia.connectionism.hopfield import Hopfield
    from principia.connectionism.perceptron import Perceptron

    rng, lr = seed.torch(), 0.5

    def own(phi: Rule) -> Rule:
        return phi if activation == "own" else torch.clone

    def walk(step: Rule, state: Tensor) -> Tensor:
        return torch.stack([state := step(state) for _ in range(steps)])

    def study(network: PDPNetwork) -> Tensor:
        batches = network.environment[0]
        return torch.stack([(network := network.learn(one)).connectivity for one in batches])

    # neurons that all listen to all; the first unit is always active and carries the thresholds
    thresholds = torch.randint(-2, 3, (units,), generator=rng)
    layer = McCullochPitts(random_signs(rng, units, units), thresholds)
    wires = F.pad(torch.column_stack([-layer.threshold, layer.signs]), (0, 0, 1, 0))
    neurons = _pdp(own(lambda z: (z >= 0).double()), wires, held=1)
    start = (random_signs(rng, units) + 1) / 2
    fired = walk(neurons.step, F.pad(start, (1, 0), value=1.0))[:, 1:]

    # one threshold unit, and labels that have nothing to do with the points, so that mistakes go on
    X = torch.randn(steps, 1, units, generator=rng, dtype=torch.float64)
    y = (-1.0) ** torch.arange(steps, dtype=torch.float64).reshape(-1, 1, 1)
    unit = _pdp(
        own(torch.sign), _unwired(units + 2), held=1 + units,
        learning=lambda W, o, a, signal: W + signal.mT @ o,
        # its signal is y after a mistake (sign(0) = 0 is one), else 0
        environment=(_lessons(X, y), lambda a, y: (y - a[..., -1:]).abs().sum()),
    )
    model = Perceptron(max_epochs=1, trace=True).fit(X[:, 0].numpy(), y.flatten().numpy())
    after_mistakes = np.column_stack([model.biases_, model.weights_])
    made = np.searchsorted(model.mistakes_, np.arange(steps), side="right")  # mistakes by then
    history = np.vstack([np.zeros(units + 1), after_mistakes])[made]

    # a layer of three sigmoid units
    X = torch.randn(steps, 8, units, generator=rng, dtype=torch.float64)
    y = torch.rand(steps, 8, 3, generator=rng, dtype=torch.float64)
    smooth = _pdp(
        own(torch.sigmoid), _unwired(units + 4), held=1 + units,
        learning=lambda W, o, a, signal: W + lr * (signal * a * (1 - a)).mT @ o,
        environment=(_lessons(X, y), lambda a, y: (y - a[..., -3:]).square().sum() / 2 / len(y)),
    )
    taught, moves = study(smooth)[:, -3:, :-3], []
    W, b = torch.zeros(3, units).double(), torch.zeros(3).double()
    for inputs, targets in zip(X, y, strict=True):
        W, b = delta_step(W, b, inputs, targets, "sigmoid", lr)
        moves.append(torch.column_stack([b, W]))  # type: ignore[list-item]

    # couplings learned once, then states that move; even n and odd s, so that no field is 0
    n, s = 2 * units, units // 2 * 2 + 1
    patterns, cue = random_signs(rng, s, n), random_signs(rng, 10, n)
    memory = _pdp(
        own(lambda z: torch.where(z >= 0, 1.0, -1.0).double()), _unwired(n), held=0,
        learning=lambda W, o, a, signal: W + (o.mT @ o / n).fill_diagonal_(0),
        environment=([(patterns, patterns)], F.mse_loss),
    ).learn((patterns, patterns))
    hopfield = Hopfield(n).store(patterns)
    recalled = walk(lambda x: hopfield.recall(x, order="sync", max_sweeps=1).states, cue)
    t, moved = range(1, steps + 1), torch.stack(moves)
    return every(
        {
            "delta rule": identical(taught, moved).drawn(
                Series("PDPNetwork", t, taught[:, 0, 1]),
                Series("delta_step", t, moved[:, 0, 1], role="predicted"),
                x="step", y="one weight, learned by the delta rule",
            ),
            "perceptron": identical(study(unit)[:, -1, :-1], history),
            "McCulloch-Pitts net": identical(fired, walk(layer, start)),
            "Hopfield learning": identical(memory.connectivity, hopfield.W),
            "Hopfield recall": identical(walk(memory.step, cue), recalled),
        }
    )


def _pdp(
    phi: Rule, connectivity: Tensor, *, held: int, learning: Any = lambda W, o, a, signal: W,
    environment: Any = ((), F.mse_loss),
) -> PDPNetwork:
    """Fill in what the four models share; the environment holds the first units as they are."""
    return PDPNetwork(
        units=torch.zeros(len(connectivity)).double(), output=lambda a: a,
        connectivity=connectivity, propagation=lambda W, o: o @ W.mT,
        activation=lambda a, net: torch.cat([a[..., :held], phi(net[..., held:])], dim=-1),
        learning=learning, environment=environment,
    )


def _lessons(X: Tensor, y: Tensor) -> list[Batch]:
    """Set the units of a layer for batches: one always active, the inputs, the outputs at 0."""
    states = torch.cat([torch.ones_like(X[..., :1]), X, torch.zeros_like(y)], dim=-1)
    return list(zip(states, y, strict=True))


def _unwired(n: int) -> Tensor:
    return torch.zeros(n, n, dtype=torch.float64)


@experiment(
    reaches={f"functions_{n}": Range(count, count) for n, count in CENSUS.items()}
    | {"seconds": at_most_goal(60)},
    floor={f"functions_{n}": Range(CENSUS[n], CENSUS[n]) for n in range(1, 5)},
    source="Muroga, Tsuboi and Baugh (1970); OEIS A000609: 4, 14, 104, 1882, 94572",
)
def threshold_census(run: Run) -> None:
    """Counts the Boolean functions of n inputs that one threshold unit computes, up to n = 5."""
    sizes, start, counts = range(1, 6 if run.full else 5), time.perf_counter(), []
    for n in sizes:
        counts.append(len(threshold_functions(n)))
        run.record(**{f"functions_{n}": counts[-1]})
    if run.full:  # a time does not follow from the seed, so it is recorded where it is a goal only
        run.record(seconds=time.perf_counter() - start)
    everything = [2.0 ** 2**n for n in sizes]
    series = (
        Series("threshold functions", everything, counts),
        Series("all functions", everything, everything, role="bound"),
    )
    labels = ("Boolean functions of n inputs", "of them computed by one unit")
    run.figure("counts", figures.draw(Picture(series, *labels, log="xy")))
    tables = [tuple(table) for table in _decode(torch.arange(16), 2).tolist()]
    names = ["".join(map(str, table)) for table in tables]
    pictures = [_half_plane(table) for table in tables]
    run.figure("two_inputs", figures.images(pictures, names, columns=4, signed=True))


def _half_plane(table: Table) -> Tensor:
    """Paint a function of two inputs: its four values, and a half-plane that has them if any."""
    axis = torch.linspace(-0.5, 1.5, 61)
    x = torch.stack(torch.meshgrid(axis, axis.flip(0), indexing="xy"), dim=-1)  # x2 points up
    picture = torch.zeros(x.shape[:-1])
    for *w, theta in itertools.product((1, -1, 0), (1, -1, 0), (-1.5, -0.5, 0.5, 1.5)):
        weights = torch.tensor(w)
        if tuple((_corners(2) @ weights >= theta).long().tolist()) == table:
            picture = (x @ weights.to(x) >= theta).float() - 0.5
    for corner, value in zip(_corners(2), table, strict=True):
        picture[(x - corner).norm(dim=-1) < 0.15] = 2.0 * value - 1
    return picture


def _corners(n: int) -> Tensor:
    """List all inputs of n bits (2^n, n) in binary order, the first bit the highest."""
    return (torch.arange(2**n)[:, None] >> torch.arange(n - 1, -1, -1)) & 1


def _codes(weights: Tensor) -> Tensor:
    """Give the tables of weights (V, n) with every threshold, each as one integer, once."""
    sums = weights @ _corners(weights.shape[1]).T  # (V, 2^n)
    thresholds = torch.arange(int(sums.min()), int(sums.max()) + 2)
    tables = (sums[:, None] >= thresholds[:, None]).long()
    return (tables << torch.arange(sums.shape[1])).sum(-1).unique()


def _decode(codes: Tensor, n: int) -> Tensor:
    """Turn integers back into tables (F, 2^n); entry k is bit k."""
    return (codes[:, None] >> torch.arange(2**n)) & 1


def _as_set(codes: Tensor, n: int) -> frozenset[Table]:
    return frozenset(map(tuple, _decode(codes, n).tolist()))

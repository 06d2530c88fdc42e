r"""The McCulloch-Pitts neuron: what is true of it, and what would refute it.

Knobs:
    inputs: Inputs of a unit, or the most of them.
    off_by: How much is added to every threshold; a gate holds with its own threshold only.
    unconnected: Whether a unit may ignore inputs, which makes more functions than the count
        foretells.
    target: The function that is asked for; one unit computes AND, but never XOR.
    layers: Layers of the net; one alone leaves functions out.
    fields: Fields, the sums that a unit compares, at which the functions are evaluated.
    width: The standard deviation of the fields.
    at: Where slopes are taken; at the output, and not at the field, they are wrong.
    steps: Updates of every model.
    units: Units of a network, or inputs of a layer.
    activation: Whether each model has its own function; with the identity none is what it was.
"""

import itertools
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from principia.connectionism.delta_rule import delta_step, layer_transfer
from principia.connectionism.hopfield import Hopfield
from principia.connectionism.margin import separable
from principia.connectionism.neuron import (
    ACTIVATIONS,
    AND,
    MAJORITY,
    NOR,
    NOT,
    OR,
    Batch,
    McCullochPitts,
    PDPNetwork,
    Table,
    corners,
    mcculloch_pitts_functions,
    threshold_functions,
    truth_table,
    two_layer_from_table,
)
from principia.connectionism.perceptron import Perceptron
from principia.lab.data.synthetic import random_signs
from principia.lab.evidence import Evidence, Series, claim, equal, equal_to_rounding, every, never
from principia.lab.params import Range
from principia.lab.seeds import Seed

Rule = Callable[[Tensor], Tensor]


@claim(control={"off_by": 1}, source="McCulloch and Pitts 1943")
def logic_gates(
    seed: Seed, *, inputs: Annotated[int, Range(1, 12)] = 6,
    off_by: Annotated[int, Range(-2, 2)] = 0,
) -> Evidence:
    r"""AND, OR, NOR, NOT and majority of up to $n$ inputs are single neurons, set by hand."""
    wrong = []
    for n in range(1, inputs + 1):
        x = corners(n).bool()
        gates = [
            (AND(n), x.all(-1)), (OR(n), x.any(-1)), (NOR(n), ~x.any(-1)),
            (MAJORITY(n), x.double().mean(-1) > 0.5),
        ] + [(NOT(), ~x[:, 0])] * (n == 1)
        for gate, logic in gates:
            neuron = McCullochPitts(gate.signs, gate.threshold + off_by)
            wrong.append(truth_table(neuron, n) != logic)
    return never(torch.cat(wrong), why="logic: not one may be wrong").named(
        "wrong entries of truth tables"
    )


@claim(control={"unconnected": True}, source="by counting thresholds between neighboring sums")
def neuron_census(
    seed: Seed, *, inputs: Annotated[int, Range(2, 5)] = 4, unconnected: bool = False
) -> Evidence:
    r"""Neurons with signs $\pm1$ on $n$ inputs compute exactly $n2^n+2$ different functions."""
    n, more = np.arange(1, inputs + 1), {"unconnected": True} if unconnected else {}
    counts = [len(mcculloch_pitts_functions(int(k), **more)) for k in n]
    formula = n * 2**n + 2
    return equal(counts, formula, tol=0, why="integers").named("number of functions").drawn(
        Series("enumerated", n, counts), Series("n·2ⁿ + 2", n, formula, role="predicted"),
        Series("all functions", n, 2.0 ** (2**n), role="other"),
        x="inputs n", y="functions", log="y",
    )


@claim(control={"target": "and"}, refutes=["one unit"], source="Minsky and Papert 1969")
def xor_needs_two_layers(
    seed: Seed, *, inputs: Annotated[int, Range(2, 8)] = 2, target: Literal["xor", "and"] = "xor"
) -> Evidence:
    r"""No threshold unit computes XOR (parity of $n\ge2$ inputs), but a two-layer net does."""
    x = corners(inputs)
    table = x.sum(-1) % 2 if target == "xor" else x.prod(-1)
    possible, *_ = separable(x.double().numpy(), 2.0 * table.double().numpy() - 1)
    square = corners(2).double().numpy()
    planes: set[Table] = {(0, 0, 0, 0), (1, 1, 1, 1)}  # constants need no line
    for labels in set(itertools.product((0, 1), repeat=4)) - planes:
        if separable(square, 2.0 * np.array(labels) - 1)[0]:
            planes.add(labels)
    built = truth_table(two_layer_from_table(table), inputs)
    exact = "a theorem: the linear program has no solution"
    counts, more = [len(threshold_functions(n)) for n in (3, 4)], np.arange(2, 5)
    return every(
        {
            "one unit": never(int(possible), of=1, why=exact),
            "the program and the census differ on two inputs": never(
                len(planes ^ threshold_functions(2)), of=16, why="both decide exactly"
            ),
            "two layers": never(built != table, why="logic: every entry must be right"),
            "functions of three and four inputs": equal(
                counts, [104, 1882], tol=0,
                why="integers, published by Muroga, Tsuboi and Baugh 1970",
            ),
        }
    ).drawn(
        Series("of one threshold unit", more, [len(planes), *counts]),
        Series("all functions, of two layers", more, 2.0 ** (2**more), role="other"),
        x="inputs n", y="functions", log="y",
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
    every_one = [2 ** 2**n for n in range(1, inputs + 1)]
    return equal(counts, every_one, tol=0, why="integers").named("number of functions").drawn(
        Series(f"computed by {layers} layers", range(1, inputs + 1), counts),
        Series("all functions", range(1, inputs + 1), every_one, role="predicted"),
        x="inputs n", y="functions", log="y",
    )


@claim(
    control={"at": "output"},
    refutes=["slopes"],
    source="Rumelhart, Hinton and McClelland 1986",
)
def activation_functions(
    seed: Seed, *, fields: Annotated[int, Range(10, 10_000)] = 200,
    width: Annotated[float, Range(1, 30)] = 5.0, at: Literal["field", "output"] = "field",
) -> Evidence:
    r"""In the place of the step: functions $\varphi$ of the field, their slopes and limits."""
    rng = seed.torch()
    z = width * torch.randn(fields, generator=rng, dtype=torch.float64)
    z[:3] = torch.tensor([0.0, 1.0, -1.0])  # a field of exactly 0 is a case of its own
    torchs = {
        "identity": torch.clone, "sigmoid": torch.special.expit, "tanh": torch.tanh,
        "relu": F.relu, "softplus": lambda z: torch.logaddexp(z, torch.zeros_like(z)),
        "sign": lambda z: torch.where(z >= 0, 1.0, -1.0).to(z),
    }
    values, slopes = {}, {}
    for name, phi in ACTIVATIONS.items():
        kind: Any = name
        sent = layer_transfer(torch.ones(1, 1).double(), None, z[:, None], kind)
        values[name] = torch.stack([sent[:, 0], phi.value(z)]), torchs[name](z).expand(2, -1)
        if phi.slope:
            leaf = z.clone().requires_grad_()
            (slope,) = torch.autograd.grad(torchs[name](leaf).sum(), leaf)
            slopes[name] = phi.slope(z if at == "field" else phi.value(z)), slope
    ends = torch.tensor([-math.inf, math.inf], dtype=torch.float64)
    reached = [phi.value(ends) for phi in ACTIVATIONS.values()]
    ours, theirs = (torch.cat(one) for one in zip(*slopes.values(), strict=True))
    return every(
        {
            "slopes": equal_to_rounding(ours, theirs).drawn(
                Series("slope", z, slopes["tanh"][0]),
                Series("autograd", z, slopes["tanh"][1], role="predicted", style="points"),
                x="field z", y="slope of tanh",
            ),
            "values": equal_to_rounding(
                *(torch.cat(one) for one in zip(*values.values(), strict=True))
            ),
            "limits": equal(
                torch.stack(reached), [[phi.low, phi.high] for phi in ACTIVATIONS.values()],
                tol=0, why="at infinite fields each function is at the end of its range",
            ),
        }
    )


@claim(
    control={"activation": "identity"},
    refutes=["delta rule", "perceptron", "McCulloch-Pitts net", "Hopfield recall"],
    source="Rumelhart, Hinton and McClelland 1986",
)
def pdp_frame(
    seed: Seed, *, steps: Annotated[int, Range(10, 1000)] = 100,
    units: Annotated[int, Range(5, 200)] = 20, activation: Literal["own", "identity"] = "own",
) -> Evidence:
    r"""Seven parts describe neuron, perceptron, delta rule and Hopfield net, step by step."""
    rng, lr = seed.torch(), 0.5

    def own(phi: Rule) -> Rule:
        return phi if activation == "own" else torch.clone

    def walk(step: Rule, state: Tensor) -> Tensor:
        return torch.stack([state := step(state) for _ in range(steps)])

    def study(network: PDPNetwork) -> Tensor:
        batches = network.environment[0]
        return torch.stack([(network := network.learn(batch)).connectivity for batch in batches])

    # neurons that all listen to all; the first unit is always active and carries the thresholds
    thresholds = torch.randint(-2, 3, (units,), generator=rng)
    layer = McCullochPitts(random_signs(rng, units, units), thresholds)
    wires = F.pad(torch.column_stack([-layer.threshold, layer.signs]), (0, 0, 1, 0))
    start = (random_signs(rng, units) + 1) / 2
    neurons = _pdp(
        own(lambda z: (z >= 0).double()), wires, held=1, units=F.pad(start, (1, 0), value=1.0)
    )
    first = neurons.step()  # from the units as they are
    fired = torch.cat([first[None], walk(neurons.step, first)[:-1]])[:, 1:]

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
        own(ACTIVATIONS["sigmoid"].value), _unwired(units + 4), held=1 + units,
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
        own(ACTIVATIONS["sign"].value), _unwired(n), held=0,
        learning=lambda W, o, a, signal: W + (o.mT @ o / n).fill_diagonal_(0),
        environment=([(patterns, patterns)], F.mse_loss),
    ).learn((patterns, patterns))
    hopfield = Hopfield(n).store(patterns)
    recalled = walk(lambda x: hopfield.recall(x, order="sync", max_sweeps=1).states, cue)
    t, moved = range(1, steps + 1), torch.stack(moves)
    return every(
        {
            "delta rule": equal_to_rounding(taught, moved).drawn(
                Series("PDPNetwork", t, taught[:, 0, 1]),
                Series("delta_step", t, moved[:, 0, 1], role="predicted"),
                x="step", y="one weight, learned by the delta rule",
            ),
            "perceptron": equal_to_rounding(study(unit)[:, -1, :-1], history),
            "McCulloch-Pitts net": equal_to_rounding(fired, walk(layer, start)),
            "Hopfield learning": equal_to_rounding(memory.connectivity, hopfield.W),
            "Hopfield recall": equal_to_rounding(walk(memory.step, cue), recalled),
        }
    )


def _pdp(
    phi: Rule, connectivity: Tensor, *, held: int, learning: Any = lambda W, o, a, signal: W,
    environment: Any = ((), F.mse_loss), units: Tensor | None = None,
) -> PDPNetwork:
    """Fill in what the four models share; the environment holds the first units as they are."""
    return PDPNetwork(
        units=connectivity.new_zeros(len(connectivity)) if units is None else units,
        output=lambda a: a,
        connectivity=connectivity, propagation=lambda W, o: o @ W.mT,
        activation=lambda a, net: torch.cat([a[..., :held], phi(net[..., held:])], dim=-1),
        learning=learning, environment=environment,
    )


def _unwired(n: int) -> Tensor:
    return torch.zeros(n, n, dtype=torch.float64)


def _lessons(X: Tensor, y: Tensor) -> list[Batch]:
    """Set the units of a layer for batches: one always active, the inputs, the outputs at 0."""
    states = torch.cat([torch.ones_like(X[..., :1]), X, torch.zeros_like(y)], dim=-1)
    return list(zip(states, y, strict=True))

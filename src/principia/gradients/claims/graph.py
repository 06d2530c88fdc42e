r"""Reverse mode on any graph: what is true of it, and what would refute it.

Knobs:
    graphs: Random graphs that are differentiated.
    nodes: Variables of a graph, about.
    at_fan_outs: Whether a variable adds what its uses send back, or keeps only the last.
    rungs: Rungs of the ladder; each doubles the paths.
    points: Ladders side by side, each with numbers of its own.
    paths: Whether all paths are summed up or only the longest.
    depth: Layers of the largest network.
    width: Units of a layer.
    method: Whether each edge is taken once or each path is walked, of which there are $2^k$.
    order: The order of visits; the others leave a variable before all its uses have reported.
"""

import functools
import itertools
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor

from principia.gradients.graph import (
    Tape,
    Var,
    backward,
    concat,
    grad,
    sent_back,
    to_networkx,
    users_first,
)
from principia.lab.evidence import (
    Evidence,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
)
from principia.lab.params import Range
from principia.lab.pictures import Rule
from principia.lab.seeds import Seed
from principia.networks.mlp import MLP

Graphs = Annotated[int, Range(10, 200)]
Nodes = Annotated[int, Range(20, 100)]
LEAVES, SIDE = 4, 3  # of a random graph: its inputs, and their rows and columns
WALKED = 12  # rungs of a ladder whose paths can be walked one by one


@claim(control={"at_fan_outs": "overwrite"}, source="Linnainmaa 1976")
def any_graph(
    seed: Seed, *, graphs: Graphs = 200, nodes: Nodes = 50,
    at_fan_outs: Literal["add", "overwrite"] = "add",
) -> Evidence:
    r"""Reverse mode is exact on every graph without cycles, where contributions are added."""
    pairs = [_at_corners(seed)]
    for out, leaves, exact in _random_graphs(seed, graphs, nodes):
        if at_fan_outs == "add":
            totals = backward(out)
        else:
            totals = sent_back(out, users_first(out), overwrite=True)
        pairs.append(_scaled(totals, leaves, exact))
    found = equal_to_rounding(*torch.stack(pairs, dim=1)).named("gradients by the leaves")
    return found.drawn(*_gaps(at_fan_outs, pairs[1:]), **GAPS)


GAPS: Mapping[str, Any] = {"x": "random graph", "y": "largest difference from torch", "log": "y"}


def _gaps(name: str, pairs: Sequence[Tensor]) -> tuple[Series, Series]:
    """Draw the largest difference of each graph, beside the rounding of numbers of size 1."""
    largest = [float((found - exact).abs().max()) + 1e-17 for found, exact in pairs]
    few = Series("a few roundings", [0, len(pairs)], [1e-15] * 2, "bound")
    return Series(name, range(len(pairs)), largest), few


def _at_corners(seed: Seed) -> Tensor:
    """Put gradients beside those of torch: on a kink, of sums of all, and of what is not used."""
    def loss(a: Any, b: Any, c: Any, unused: Any) -> Any:
        return (a.relu() + a * b.sum() + a * c.sum(1) + c * c.max()).sum()

    values = torch.randn(LEAVES, SIDE, SIDE, generator=seed.child("corners").torch()).double()
    values[0, 0] = 0.0
    inputs = values.clone().requires_grad_()
    (exact,) = torch.autograd.grad(loss(*inputs), inputs)
    found = torch.stack(grad(loss)(*inputs))  # of a tape that keeps no graph of torch's
    return torch.from_numpy(np.stack([found.numpy(), exact.numpy()]))


def _random_graphs(
    seed: Seed, graphs: int, nodes: int
) -> Iterator[tuple[Var, list[Var], Tensor]]:
    """Draw graphs of all operations: the output, the leaves, and their gradients by torch."""
    rng, steps = seed.torch(), (nodes - LEAVES) // 4  # each takes about four nodes
    made_before = LEAVES + torch.arange(steps)[:, None]
    for _ in range(graphs):
        values = torch.randn(LEAVES, SIDE, SIDE, generator=rng, dtype=torch.float64)
        kinds = torch.randint(len(OPERATIONS), (steps,), generator=rng).tolist()
        sources = (torch.rand(steps, 2, generator=rng) * made_before).long()
        inputs, tape = values.clone().requires_grad_(), Tape()
        (exact,) = torch.autograd.grad(_built(list(inputs), kinds, sources), inputs)
        leaves = [Var(tape, one) for one in values]
        yield _built(leaves, kinds, sources), leaves, exact


def _built(made: Sequence[Any], kinds: Sequence[int], sources: Tensor) -> Any:
    """Run operations on variables or on tensors alike; average what none of them has used."""
    made = list(made)
    for kind, (a, b) in zip(kinds, sources.tolist(), strict=True):
        made.append(OPERATIONS[kind](made[a], made[b]))
    ends = set(range(len(made))) - set(sources.flatten().tolist())
    return functools.reduce(operator.add, [made[end] for end in sorted(ends)]).mean()


def _scaled(totals: Mapping[Var, Tensor], leaves: Sequence[Var], exact: Tensor) -> Tensor:
    """Put gradients beside those of torch, both relative to the largest of this graph."""
    found = [totals.get(leaf, torch.zeros_like(leaf.value)) for leaf in leaves]
    return torch.stack([torch.stack(found), exact]) / (1 + exact.abs().max())


@claim(control={"paths": "longest"}, refutes=["sum over paths"], source="Bauer 1974")
def sums_over_paths(
    seed: Seed, *, rungs: Annotated[int, Range(1, WALKED)] = 10,
    points: Annotated[int, Range(1, 1000)] = 20, paths: Literal["all", "longest"] = "all",
) -> Evidence:
    r"""A derivative is the sum, over all paths to the output, of products of local derivatives."""
    import networkx as nx

    values = torch.randn(2 + 2 * rungs, points, generator=seed.torch(), dtype=torch.float64)
    tape = Tape()
    leaves = [Var(tape, one) for one in values]
    products = _products(_ladder(leaves))
    sums = []
    for leaf in leaves:
        longest = max(length for length, _ in products[leaf])
        sums.append(sum(
            product for length, product in products[leaf] if paths == "all" or length == longest
        ))
    inputs = values.clone().requires_grad_()
    (exact,) = torch.autograd.grad(_ladder(list(inputs)).sum(), inputs)
    reverse = grad(lambda *leaves: _ladder(list(leaves)).sum())(*values)
    totals = backward(tape.nodes[-1].sum())
    graph, ways = to_networkx(tape, totals), Counter({0: 1})  # from the first leaf to each node
    for node in nx.topological_sort(graph):
        for _, after in graph.out_edges(node):
            ways[after] += ways[node]
    counts = [len(products[leaves[0]]), ways[len(graph) - 1]]
    carried = [node["value"] for _, node in graph.nodes(data=True)][: len(leaves)]
    carried += [node["gradient"] for _, node in graph.nodes(data=True)][: len(leaves)]
    numbers = range(len(leaves))
    return every({
        "sum over paths": equal_to_rounding(torch.stack(sums), exact).drawn(
            Series(f"sum over {paths} paths", numbers, [float(one[0]) for one in sums]),
            Series("torch", numbers, exact[:, 0], "predicted"),
            Rule(f"from here {len(products[leaves[0]])} paths", x=0, role="gray"),
            x="leaf of the ladder", y="derivative of the output"),
        "reverse mode": equal_to_rounding(torch.stack(reverse), exact),
        "paths": equal(counts, 2.0**rungs, tol=0, why="a count: two ways on at every rung"),
        "nodes": equal_to_rounding(torch.stack(carried), torch.cat([values, exact])),
    })


def _products(out: Var) -> dict[Var, list[tuple[int, Tensor]]]:
    """Walk every path back to every leaf: its length, and its product of local derivatives."""
    found, paths = defaultdict(list), [(out, 0, torch.ones_like(out.value))]
    while paths:
        node, length, product = paths.pop()
        if not node.edges:
            found[node].append((length, product))
        for source, pull, work in node.edges:
            out.tape.ops["backward"] += work
            paths.append((source, length + 1, pull(product)))
    return found


def _ladder(leaves: Sequence[Any], *, products: bool = False) -> Any:
    """Climb two rails that meet at every rung: 2^k paths lead from either foot to the top."""
    (u, v), weights = leaves[:2], leaves[2:]
    for p, q in zip(weights[::2], weights[1::2], strict=True):
        u, v = (u * v, v * u) if products else (u + (p * v).tanh(), v + (q * u).tanh())
    return u + v


@claim(
    control={"method": "path by path"},
    refutes=["ladders", "ladders of products", "multiply-adds an edge"],
    source="Baur and Strassen 1983",
)
def linear_cost(
    seed: Seed, *, rungs: Annotated[int, Range(8, 40)] = 40,
    depth: Annotated[int, Range(1, 8)] = 4, width: Annotated[int, Range(1, 200)] = 32,
    method: Literal["reverse mode", "path by path"] = "reverse mode",
) -> Evidence:
    r"""Reverse mode takes each edge once: $\le4$ times the forward cost, despite $2^k$ paths."""
    rng, why = seed.torch(), "pulls cost 3 times an operation at most, sums at fan-outs once"
    most = rungs if method == "reverse mode" else min(rungs, WALKED)
    sizes = [most * k // 4 for k in range(1, 5)]
    counts = []  # multiply-adds forward and backward, and edges, of each ladder
    for size, products in itertools.product(sizes, (False, True)):
        tape = Tape()
        leaves = [Var(tape, one) for one in torch.rand(2 + 2 * size, generator=rng)]
        out = _ladder(leaves, products=products)
        _ = backward(out) if method == "reverse mode" else _products(out)
        counts.append([*map(tape.ops.get, ("forward", "backward")), to_networkx(tape).size()])
    table = torch.tensor(counts, dtype=torch.float64)
    forward, back, edges = table[::2].T
    networks = []
    for layers in range(1, depth + 1):
        mlp = MLP([width] * (layers + 1), activation="tanh", rng=rng).double()
        x, y = torch.rand(50, width, generator=rng), torch.arange(50) % width
        loss = recorded_loss(mlp, x, y)[0]
        backward(loss)
        networks.append(loss.tape.ops["backward"] / loss.tape.ops["forward"])
    return every({
        "ladders": at_most(back / forward, 4, why=why).drawn(
            Series(method, sizes, back), Series("4 times forward", sizes, 4 * forward, "bound"),
            Series("paths", sizes, [2.0**size for size in sizes], "other"),
            x="rungs", y="multiply-adds", log="y",
        ),
        "ladders of products": at_most(table[1::2, 1] / table[1::2, 0], 4, why=why),
        "multiply-adds an edge": at_most(
            back / edges, 3, why="2 for the pull of a tanh, and 1 where contributions are added"
        ),
        "networks": at_most(networks, 4, why=why),
        "counted by hand": _by_hand(),
    })


def _by_hand() -> Evidence:
    """Compare the counters of the tape with counts by hand, an operation at a time."""
    found = []
    for operation, *_ in COUNTED:
        tape = Tape()
        x, y = Var(tape, torch.ones(3, 4)), Var(tape, torch.ones(3, 4))
        out = operation(x, y)
        before = tape.ops["forward"]
        backward(out.sum())  # whose own pull costs nothing
        found += [before, tape.ops["backward"]]
    exact = [count for _, forward, back in COUNTED for count in (forward, back)]
    return equal(found, exact, tol=0, why="counts, of 3 x 4 entries")


def recorded_loss(mlp: MLP, x: Tensor, y: Tensor) -> tuple[Var, list[Var]]:
    """Record the mean cross entropy of a network: the loss, and the parameters as variables."""
    tape = Tape()
    parameters = [Var(tape, one) for one in mlp.parameters()]
    h: Any = x.mT  # one column a sample
    for W, b in zip(parameters[::2], parameters[1::2], strict=True):
        z = W @ h + b.reshape(-1, 1)
        h = getattr(z, mlp.activation)() if W is not parameters[-2] else z
    shifted = h - h.max(0)  # no exponential is above 1
    of_class = shifted[y, torch.arange(len(y), device=y.device)]
    return (shifted.exp().sum(0).log() - of_class).mean(), parameters


@claim(control={"order": "depth first"}, source="Griewank and Walther 2008, sec. 3.2")
def order_matters(
    seed: Seed, *, graphs: Graphs = 50, nodes: Nodes = 50,
    order: Literal["users first", "depth first", "listed backward"] = "users first",
) -> Evidence:
    r"""A variable may pass its derivative on only after all its uses were visited."""
    orders = {
        "users first": users_first, "depth first": _depth_first,
        "listed backward": lambda out: out.tape.nodes[::-1],
    }
    shuffle, pairs, early = seed.child("list").torch(), [], []
    for out, leaves, exact in _random_graphs(seed, graphs, nodes):
        # a list of operations need not be in the order in which they were made
        nodes_made = out.tape.nodes
        mixed = torch.randperm(len(nodes_made), generator=shuffle)
        out.tape.nodes = [nodes_made[k] for k in mixed.tolist()]
        visits = orders[order](out)
        pairs.append(_scaled(sent_back(out, visits), leaves, exact))
        turn = {node: k for k, node in enumerate(visits)}
        early += [turn[edge.source] < turn[node] for node in visits for edge in node.edges]
    return every({
        "gradients": equal_to_rounding(*torch.stack(pairs, dim=1)).drawn(
            *_gaps(order, pairs), **GAPS),
        "edges to a variable visited before": never(early, why="that is what the order is for"),
    })


def _depth_first(out: Var) -> list[Var]:
    """List variables as a walk meets them, whether all their uses were met or not."""
    order, paths = {}, [out]
    while paths:
        node = paths.pop()
        if node not in order:
            order[node] = True
            paths += [edge.source for edge in node.edges]
    return list(order)


def _largest(a: Any) -> Any:
    return a.max(1) if isinstance(a, Var) else a.max(1).values


def _joined(*parts: Any) -> Any:
    return concat(parts, dim=1) if isinstance(parts[0], Var) else torch.cat(parts, dim=1)


OPERATIONS: tuple[Callable[[Any, Any], Any], ...] = (  # of square matrices, for random graphs
    lambda a, b: a + b.sum(1, keepdim=True) / SIDE,
    lambda a, b: a - b.mean(1),
    lambda a, b: a * b.tanh(),
    lambda a, b: a / (b * b + 1),
    lambda a, b: a @ b.tanh() / SIDE,
    lambda a, b: 0.3 - a,
    lambda a, b: -a.tanh().exp(),
    lambda a, b: (a * a + 1).log(),
    lambda a, b: a.relu() + b,
    lambda a, b: _largest(a) - b.tanh(),
    lambda a, b: a.reshape(SIDE**2)[[8, 0, 0, 1, 2, 7, 3, 3, 3]].reshape(SIDE, SIDE),
    lambda a, b: _joined(a[:, 1:], b[:, :1]),
    lambda a, b: 0.7 / (a * a + 1.1),
    lambda a, b: torch.eye(SIDE, dtype=torch.float64) @ a - b,
)
COUNTED: tuple[tuple[Callable[[Var, Var], Var], int, int], ...] = (  # multiply-adds there and back
    (lambda x, y: x + y, 12, 0),
    (lambda x, y: x + y[0], 12, 16),  # the sum over three rows, and the row put in its place
    (lambda x, y: x - y, 12, 12),
    (lambda x, y: x * y, 12, 24),
    (lambda x, y: x * x, 12, 36),  # the two contributions are added
    (lambda x, y: x / y, 12, 36),
    (lambda x, y: x @ y.reshape(4, 3), 36, 72),
    (lambda x, y: x.exp(), 12, 12),
    (lambda x, y: x.log(), 12, 12),
    (lambda x, y: x.tanh(), 12, 24),
    (lambda x, y: x.relu(), 12, 12),
    (lambda x, y: x.sum(0), 12, 0),
    (lambda x, y: x.mean(1), 15, 3),
    (lambda x, y: x.max(0), 12, 0),
    (lambda x, y: x[1:], 0, 8),
    (lambda x, y: concat([x, y]), 0, 0),
)

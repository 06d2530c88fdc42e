r"""Reverse mode on any graph: one walk back through a computation gives all derivatives.

A computation is a graph without cycles: every value is made from earlier ones. Its output changes
with an inner value along every path between the two, and there may be exponentially many. Walking
back from the output, a value collects one contribution from each place where it was used; once it
has them all, their sum is its derivative, and it can be passed on. So every edge is taken once,
whatever the number of paths, and the gradient costs a few times what the function did. Layers,
skips and shared weights are special cases. The tape here does what torch.autograd does.

$$ v_j = f_j(v_i: i\in P_j), \quad \bar v_i = \frac{\partial v_n}{\partial v_i}
= \sum_{j:\,i\in P_j}\bar v_j\frac{\partial f_j}{\partial v_i}, \quad \bar v_n = 1 $$

$$ \frac{\partial v_n}{\partial v_i} = \sum_{i=k_0\to k_1\to\dots\to k_m=n}
\prod_{t=1}^m\frac{\partial f_{k_t}}{\partial v_{k_{t-1}}} $$

Symbols:
    $v_i$: a value with the operation $f_i$ that made it, `Var`; $v_n$ is the output, a number
    $P_j$: what $v_j$ was made from, the first entries of `Var.edges`; a leaf has none
    $\bar v_i$: derivative of the output, shaped like $v_i$, entry `v` of what `backward` returns
    $\bar v_j\,\partial f_j/\partial v_i$: contribution of one use, the pull of an edge
    $k_0\to\dots\to k_m$: a path of uses from $v_i$ to the output

References:
    Bauer (1974), Computational graphs and rounding error. SIAM Journal on Numerical Analysis
        11(1). doi:10.1137/0711010
    Linnainmaa (1976), Taylor expansion of the accumulated rounding error. BIT 16(2).
        doi:10.1007/BF01931367
    Baur and Strassen (1983), The complexity of partial derivatives. Theoretical Computer Science
        22(3). doi:10.1016/0304-3975(83)90110-X
    Rumelhart, Hinton and Williams (1986), Learning representations by back-propagating errors.
        Nature 323. doi:10.1038/323533a0
    Griewank and Walther (2008), Evaluating derivatives, ch. 3. SIAM. doi:10.1137/1.9780898717761
"""

__all__ = ["Tape", "Var", "backward", "concat", "grad", "to_networkx"]

import functools
import itertools
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, final

import numpy as np
import plotly.graph_objects as go
import torch
from jaxtyping import Float64
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Positive, Range
from principia.lab.errors import UsageError, refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_most, equal, every, identical, never, slope
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, accuracy, fit
from principia.lab.training.parts import Part
from principia.networks.mlp import MLP

Value = Float64[Tensor, "..."]
Pull = Callable[[Tensor], Tensor]
Graphs = Annotated[int, Range(10, 200)]
Nodes = Annotated[int, Range(20, 100)]
LEAVES, SIDE = 4, 3  # of a random graph: its inputs, and their rows and columns
WALKED = 12  # rungs of a ladder whose paths can be walked one by one
GOALS = {"xor_solved": at_least_goal(8), "gradient_gap": at_most_goal(1e-10)}


@final
class Tape:
    r"""Remembers all variables of a computation, and counts what it cost.

    `nodes` lists them in the order of their making. `ops` counts multiply-adds, `forward` and
    `backward`; a value of exp, log, tanh, relu or max counts as one, a change of shape as none.

    Example:
        >>> tape = Tape()
        >>> x = Var(tape, [1.0, 2.0])
        >>> backward((x * x).sum())[x]
        tensor([2., 4.], dtype=torch.float64)
        >>> tape.ops["forward"], tape.ops["backward"]
        (4, 6)
    """

    def __init__(self) -> None:
        self.nodes: list[Var] = []
        self.ops: Counter[str] = Counter()


class Edge(NamedTuple):
    """A use of a variable: what to add to its derivative, and in how many multiply-adds."""

    source: "Var"
    pull: Pull
    work: int


@final
class Var:
    r"""Holds a value on a tape, and how to send a derivative back to what it was made from.

    Operations are those of tensors and broadcast like them; numbers and tensors that meet a
    variable are constants. `value` shares the memory of a float64 tensor, else it is a copy.

    Args:
        tape: Where to record it.
        value: A number or a tensor of real numbers; computed with in float64.

    Example:
        >>> x = Var(Tape(), 3.0)
        >>> y = x * x + (2 * x).exp().log()
        >>> y.value, backward(y)[x]
        (tensor(15., dtype=torch.float64), tensor(8., dtype=torch.float64))
    """

    __slots__ = ("constant", "edges", "op", "tape", "value", "version")

    def __init__(self, tape: Tape, value: Any) -> None:
        if not isinstance(value, Tensor):
            try:  # NumPy first: torch would round Python's numbers to float32, and share arrays
                value = torch.tensor(np.asarray(value))
            except (TypeError, ValueError, RuntimeError):
                raise refuse("Var", "value", "a number or a tensor", value) from None
        if value.is_complex():
            raise refuse("Var", "value", "real", value, "Record its real and imaginary parts.")
        self.tape, self.value, self.op = tape, value.detach().to(torch.float64), "leaf"
        self.edges: tuple[Edge, ...] = ()
        self.constant, self.version = False, _version(self.value)
        tape.nodes.append(self)

    def __repr__(self) -> str:
        return f"Var({self.op}, shape {self.shape})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(self.value.shape)

    def __add__(self, other: Any) -> "Var":
        b, same = self._beside(other), lambda g: g
        return self._made("+", self.value + b.value, 1, (self, same, 0), (b, same, 0))

    def __sub__(self, other: Any) -> "Var":
        b = self._beside(other)
        return self._made("-", self.value - b.value, 1, (self, lambda g: g, 0), (b, torch.neg, 1))

    def __mul__(self, other: Any) -> "Var":
        b = self._beside(other)
        x, y = self.value, b.value
        return self._made("*", x * y, 1, (self, lambda g: g * y, 1), (b, lambda g: g * x, 1))

    def __truediv__(self, other: Any) -> "Var":
        b = self._beside(other)
        y, quotient = b.value, self.value / b.value
        right = (b, lambda g: -g * quotient / y, 2)
        return self._made("/", quotient, 1, (self, lambda g: g / y, 1), right)

    def __matmul__(self, other: Any) -> "Var":
        b = self._beside(other)
        x, y = self.value, b.value
        if min(x.ndim, y.ndim) < 2:
            hint = "Reshape a vector to (n, 1) or (1, n)."
            raise refuse("Var", "both sides of @", "matrices", [self.shape, b.shape], hint)
        n = x.shape[-1]  # multiply-adds of one entry; all three products have as many in all
        left, right = (self, lambda g: g @ y.mT, n), (b, lambda g: x.mT @ g, n)
        return self._made("@", x @ y, n, left, right)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> "Var":
        return 0 - self

    def __rsub__(self, other: Any) -> "Var":
        return self._beside(other) - self

    def __rtruediv__(self, other: Any) -> "Var":
        return self._beside(other) / self

    def __rmatmul__(self, other: Any) -> "Var":
        return self._beside(other) @ self

    def exp(self) -> "Var":
        """Raise e to each entry."""
        y = self.value.exp()
        return self._made("exp", y, 1, (self, lambda g: g * y, 1))

    def log(self) -> "Var":
        """Take the natural logarithm of each entry."""
        x = self.value
        return self._made("log", x.log(), 1, (self, lambda g: g / x, 1))

    def tanh(self) -> "Var":
        """Take the hyperbolic tangent of each entry."""
        y = self.value.tanh()
        return self._made("tanh", y, 1, (self, lambda g: g * (1 - y * y), 2))

    def relu(self) -> "Var":
        """Replace negative entries by 0, where the derivative is 0 too, as at 0 itself."""
        x = self.value
        return self._made("relu", x.relu(), 1, (self, lambda g: g * (x > 0), 1))

    def sum(self, dim: int | None = None, keepdim: bool = False) -> "Var":
        """Add the entries along an axis, or all of them."""
        x = self.value
        y = x.sum() if dim is None else x.sum(dim, keepdim=keepdim)
        pull = (self, lambda g: _along(g, dim, keepdim).expand_as(x), 0)
        return self._made("sum", y, x.numel() // max(y.numel(), 1), pull)

    def mean(self, dim: int | None = None, keepdim: bool = False) -> "Var":
        """Average the entries along an axis, or all of them."""
        return self.sum(dim, keepdim) / (self.value.numel() if dim is None else self.shape[dim])

    def max(self, dim: int | None = None, keepdim: bool = False) -> "Var":
        """Take the largest entry along an axis, or of all; of equal ones, torch's choice."""
        if dim is None:
            return self.reshape(-1).max(0)
        x = self.value
        y, place = x.max(dim, keepdim=True)

        def pull(g: Tensor) -> Tensor:
            return torch.zeros_like(x).scatter(dim, place, _along(g, dim, keepdim))

        return self._made("max", y if keepdim else y.squeeze(dim), x.shape[dim], (self, pull, 0))

    def reshape(self, *shape: int) -> "Var":
        """Read the entries, row by row, into another shape."""
        x = self.value
        return self._made("reshape", x.reshape(shape), 0, (self, lambda g: g.reshape(x.shape), 0))

    def __getitem__(self, key: Any) -> "Var":
        x = self.value
        places = torch.arange(x.numel(), device=x.device).reshape(x.shape)[key].reshape(-1)

        def pull(g: Tensor) -> Tensor:  # an entry that was taken twice gets both
            return x.new_zeros(x.numel()).index_add(0, places, g.reshape(-1)).reshape(x.shape)

        return self._made("index", x[key], 0, (self, pull, 1))

    def _beside(self, other: Any) -> "Var":
        """Take the other side of an operation as it is, or record it as a constant."""
        if not isinstance(other, Var):
            other = Var(self.tape, other)
            other.constant, other.op = True, "constant"
        elif other.tape is not self.tape:
            hint = "Record both on one tape, or use the value of one."
            raise refuse("Var", "the other side", "on the same tape", other, hint)
        return other

    def _made(self, op: str, value: Tensor, work: int, *edges: tuple["Var", Pull, int]) -> "Var":
        """Record the result of an operation; work is in multiply-adds for each entry of it."""
        made, size = Var(self.tape, value), value.numel()
        made.op = op
        made.edges = tuple(Edge(source, pull, each * size) for source, pull, each in edges)
        made.constant = all(edge.source.constant for edge in made.edges)
        self.tape.ops["forward"] += work * size
        return made


@checked
def concat(parts: Sequence[Any], dim: int = 0) -> Var:
    r"""Joins variables along an axis; tensors among them are constants.

    Example:
        >>> x = Var(Tape(), [1.0, 2.0])
        >>> concat([x, torch.zeros(1), x[:1]]).value
        tensor([1., 2., 0., 1.], dtype=torch.float64)
    """
    home = next((one for one in parts if isinstance(one, Var)), None)
    if home is None:
        raise refuse("concat", "parts", "one or more, with a Var among them", parts)
    nodes = [home._beside(one) for one in parts]
    ends = itertools.accumulate((one.shape[dim] for one in nodes), initial=0)

    def pull(start: int, end: int) -> Pull:
        return lambda g: g.narrow(dim, start, end - start)

    spans = itertools.pairwise(ends)
    edges = [(one, pull(*span), 0) for one, span in zip(nodes, spans, strict=True)]
    return home._made("concat", torch.cat([one.value for one in nodes], dim), 0, *edges)


def backward(out: Var) -> dict[Var, Value]:
    r"""Differentiates an output of one entry with respect to all that it was made from.

    Every variable is visited once, after all its uses, however deep the graph; constants are left
    out. The tensors are the caller's own.

    Example:
        >>> x = Var(Tape(), 2.0)
        >>> y = x * x
        >>> found = backward(y + y)  # y is used twice
        >>> found[y].item(), found[x].item()
        (2.0, 8.0)
    """
    if not isinstance(out, Var) or out.value.numel() != 1:
        hint = "Only a number has a gradient: reduce it, for example with sum()."
        raise refuse("backward", "out", "a Var with one entry", out, hint)
    return {node: total.clone() for node, total in _sent_back(out, _users_first(out)).items()}


def grad(f: Callable[..., Var]) -> Callable[..., tuple[Value, ...]]:
    r"""Turns a function of variables into one that gives a gradient for each argument.

    Example:
        >>> slopes = grad(lambda x, y: (x * y).sum())
        >>> slopes(torch.tensor([1.0, 2.0]), 3.0)
        (tensor([3., 3.], dtype=torch.float64), tensor(3., dtype=torch.float64))
    """

    def gradients(*values: Any) -> tuple[Value, ...]:
        tape = Tape()
        inputs = [Var(tape, one) for one in values]
        found = backward(f(*inputs))
        return tuple(found.get(one, torch.zeros_like(one.value)) for one in inputs)

    return gradients


def to_networkx(tape: Tape, gradients: Mapping[Var, Tensor] | None = None) -> Any:
    r"""Makes a networkx graph: nodes numbered as on the tape, an edge for every use.

    A node has `op`, `value` and `gradient`, which is None without gradients.

    Example:
        >>> x = Var(Tape(), 2.0)
        >>> graph = to_networkx(x.tape, backward(x * x))
        >>> graph.number_of_edges(0, 1), graph.nodes[0]["gradient"].item()
        (2, 4.0)
    """
    import networkx as nx

    graph, numbers = nx.MultiDiGraph(), {node: k for k, node in enumerate(tape.nodes)}
    for node, k in numbers.items():
        graph.add_node(k, op=node.op, value=node.value, gradient=(gradients or {}).get(node))
        graph.add_edges_from((numbers[edge.source], k) for edge in node.edges)
    return graph


def _users_first(out: Var) -> list[Var]:
    """List what the output was made from, each variable behind all its uses."""
    uses: Counter[Var] = Counter()
    found, order = [out], []
    while found:
        for edge in found.pop().edges:
            if edge.source not in uses:
                found.append(edge.source)
            uses[edge.source] += 1
    ready = [out]
    while ready:
        order.append(ready.pop())
        for edge in order[-1].edges:
            uses[edge.source] -= 1
            if not uses[edge.source]:
                ready.append(edge.source)
    return order


def _sent_back(out: Var, order: Sequence[Var], *, overwrite: bool = False) -> dict[Var, Tensor]:
    """Visit variables in an order; each passes on what it has collected until then."""
    ops, totals = out.tape.ops, {out: torch.ones_like(out.value)}
    for node in order:
        if _version(node.value) != node.version:
            raise UsageError(
                f"backward: the value of {node} must be as it was recorded; it was changed in "
                "place since. Change it after backward, or record a clone."
            )
        for source, pull, work in node.edges if node in totals else ():
            if source.constant:
                continue
            given = pull(totals[node])
            ops["backward"] += work + given.numel() * (given.shape != source.value.shape)
            given = given.sum_to_size(source.value.shape)  # a value that was broadcast
            if source in totals and not overwrite:
                ops["backward"] += given.numel()
                given = totals[source] + given
            totals[source] = given
    return totals


def _version(value: Tensor) -> int:
    """Ask torch how often a tensor was changed in place; in inference mode nobody counts."""
    return 0 if value.is_inference() else value._version


def _along(g: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    """Give back the axis that a reduction has taken away."""
    return g if keepdim or dim is None else g.unsqueeze(dim)


@claim(control={"at_fan_outs": "overwrite"}, source="Linnainmaa 1976")
def any_graph(
    seed: Seed, *, graphs: Graphs = 200, nodes: Nodes = 50,
    at_fan_outs: Literal["add", "overwrite"] = "add",
) -> Evidence:
    r"""Reverse mode is exact on every graph without cycles, where contributions are added."""
    pairs = []
    for out, leaves, exact in _random_graphs(seed, graphs, nodes):
        if at_fan_outs == "add":
            totals = backward(out)
        else:
            totals = _sent_back(out, _users_first(out), overwrite=True)
        pairs.append(_scaled(totals, leaves, exact))
    return identical(*torch.stack(pairs, dim=1))


@claim(control={"paths": "longest"}, source="Bauer 1974")
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
    graph, ways = to_networkx(tape), Counter({0: 1})  # from the first leaf to each node
    for node in nx.topological_sort(graph):
        for _, after in graph.out_edges(node):
            ways[after] += ways[node]
    counts = [len(products[leaves[0]]), ways[len(graph) - 1]]
    return every({
        "sum over paths": identical(torch.stack(sums), exact),
        "reverse mode": identical(torch.stack(reverse), exact),
        "paths": equal(counts, 2.0**rungs, tol=0, why="a count: two ways on at every rung"),
    })


@claim(control={"method": "path by path"}, source="Baur and Strassen 1983")
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
        loss = _recorded(mlp, x, y)[0]
        backward(loss)
        networks.append(loss.tape.ops["backward"] / loss.tape.ops["forward"])
    return every({
        "ladders": at_most(back / forward, 4, why=why).drawn(
            Series(method, sizes, back), Series("4 times forward", sizes, 4 * forward, "bound"),
            Series("paths", sizes, [2.0**size for size in sizes], "other"),
            x="rungs", y="multiply-adds", log="y",
        ),
        "ladders of products": at_most(table[1::2, 1] / table[1::2, 0], 4, why=why),
        "power of the number of edges": slope(
            edges, back, 1, tol=0.1, why="a ladder has two edges more than its rungs need",
            labels=("edges", "multiply-adds"),
        ),
        "networks": at_most(networks, 4, why=why),
    })


@claim(control={"order": "depth first"}, source="Griewank and Walther 2008, sec. 3.2")
def order_matters(
    seed: Seed, *, graphs: Graphs = 50, nodes: Nodes = 50,
    order: Literal["users first", "depth first", "listed backward"] = "users first",
) -> Evidence:
    r"""A variable may pass its derivative on only after all its uses were visited."""
    orders = {
        "users first": _users_first, "depth first": _depth_first,
        "listed backward": lambda out: out.tape.nodes[::-1],
    }
    shuffle, pairs, early = seed.child("list").torch(), [], []
    for out, leaves, exact in _random_graphs(seed, graphs, nodes):
        # a list of operations need not be in the order in which they were made
        nodes_made = out.tape.nodes
        mixed = torch.randperm(len(nodes_made), generator=shuffle)
        out.tape.nodes = [nodes_made[k] for k in mixed.tolist()]
        visits = orders[order](out)
        pairs.append(_scaled(_sent_back(out, visits), leaves, exact))
        turn = {node: k for k, node in enumerate(visits)}
        early += [turn[edge.source] < turn[node] for node in visits for edge in node.edges]
    return every({
        "gradients": identical(*torch.stack(pairs, dim=1)),
        "edges to a variable visited before": never(early, why="that is what the order is for"),
    })


@experiment(
    reaches={"mnist_accuracy": at_least_goal(0.93), **GOALS},
    floor={"digits_accuracy": at_least_goal(0.90), **GOALS},
    source="torch.autograd, whose gradients are to be matched; XOR as in Rumelhart, Hinton and "
    "Williams 1986; the accuracies are floors of our own",
)
def micro_autograd(
    run: Run, *, epochs: Annotated[int, Range(1, 50)] | None = None, lr: Positive = 0.01,
    xor_units: Annotated[int, Range(1, 50)] = 8,
) -> None:
    """Trains networks on the tape alone: XOR from ten seeds, and handwritten digits."""
    corners = torch.cartesian_prod(torch.arange(2.0), torch.arange(2.0)).double()
    answers = torch.tensor([0, 1, 1, 0])
    many = corners.repeat(125, 1), answers.repeat(125)  # 25 batches of 20
    solved, gaps = 0, []
    for k in range(10):
        mlp, last = _trained(
            run, f"xor-{k}", [2, xor_units, 2], "tanh", many, (corners, answers),
            epochs=6, batch_size=20, peak=0.1,
        )
        solved += last["validation_accuracy"] == 1
        gaps.append(last["validation_gradient_gap"])
        if k == 0:
            run.figure("graph", _film(mlp.cpu(), corners, answers))
    x, y, x_test, y_test = handwriting(run)
    sizes = [x[0].numel(), 64 if run.full else 32, 10]
    mlp, last = _trained(
        run, "digits", sizes, "relu", (x.flatten(1), y), (x_test.flatten(1).double(), y_test),
        epochs=epochs or (2 if run.full else 10), batch_size=64 if run.full else 32, peak=lr,
    )
    run.record(**{f"{'mnist' if run.full else 'digits'}_accuracy": last["validation_accuracy"]})
    run.record(xor_solved=solved, gradient_gap=max(*gaps, last["validation_gradient_gap"]))
    run.keep(mlp)


def _trained(
    run: Run, name: str, sizes: Sequence[int], activation: str, data: tuple[Tensor, Tensor],
    held: tuple[Tensor, Tensor], *, epochs: int, batch_size: int, peak: float,
) -> tuple[MLP, dict[str, float]]:
    """Train a network with gradients from the tape; give it with the numbers of its last epoch."""
    seed, matched = run.seed.child(name), _Matched(50)
    mlp = MLP(sizes, activation=activation, rng=seed.child("init").torch()).double()
    trained = fit(
        mlp, data, _on_tape, torch.optim.Adam(mlp.parameters(), fused=True), epochs=epochs,
        batch_size=batch_size, parts=[OneCycle(peak), matched], validation=held,
        metrics={"accuracy": accuracy, "gradient_gap": matched.gap}, seed=seed, run=run, name=name,
    )
    return mlp, trained.history[-1]


def _on_tape(model: MLP, batch: tuple[Tensor, ...], rng: torch.Generator) -> Tensor:
    """Compute the loss on a tape, and set the gradients while the model is trained."""
    loss, parameters = _recorded(model, *batch)
    if model.training:
        gradients = backward(loss)
        for parameter, var in zip(model.parameters(), parameters, strict=True):
            parameter.grad = gradients[var]
    return loss.value


def _recorded(mlp: MLP, x: Tensor, y: Tensor) -> tuple[Var, list[Var]]:
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


class _Matched(Part):
    """Compares gradients with those of torch every so many steps, and remembers the worst."""

    def __init__(self, steps: int) -> None:
        self.steps, self._step, self._gap = steps, 0, 0.0
        self._batch: tuple[Tensor, ...] = ()

    def prepare(self, batch: tuple[Tensor, ...], rng: torch.Generator) -> tuple[Tensor, ...]:
        self._batch = batch
        return batch

    def before_step(self, model: nn.Module) -> None:
        if self._step % self.steps == 0:
            x, y = self._batch
            parameters = list(model.parameters())
            exact = torch.autograd.grad(F.cross_entropy(model(x.double()), y), parameters)
            for parameter, truth in zip(parameters, exact, strict=True):
                difference = torch.as_tensor(parameter.grad) - truth
                self._gap = max(self._gap, float(difference.abs().max() / (1 + truth.abs().max())))
        self._step += 1

    def gap(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Give the worst difference as a metric, so that it outlives the process with the curve."""
        return torch.tensor(self._gap, dtype=torch.float64)

    def state_dict(self) -> dict[str, Any]:
        return {"step": self._step, "gap": self._gap}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._step, self._gap = state["step"], state["gap"]


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


def _largest(a: Any) -> Any:
    return a.max(1) if isinstance(a, Var) else a.max(1).values


def _joined(*parts: Any) -> Any:
    return concat(parts, dim=1) if isinstance(parts[0], Var) else torch.cat(parts, dim=1)


OPERATIONS: tuple[Callable[[Any, Any], Any], ...] = (  # of square matrices, for random graphs
    lambda a, b: a + b.sum(1, keepdim=True) / SIDE,
    lambda a, b: a - b.mean(0),
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


def _ladder(leaves: Sequence[Any], *, products: bool = False) -> Any:
    """Climb two rails that meet at every rung: 2^k paths lead from either foot to the top."""
    (u, v), weights = leaves[:2], leaves[2:]
    for p, q in zip(weights[::2], weights[1::2], strict=True):
        u, v = (u * v, v * u) if products else (u + (p * v).tanh(), v + (q * u).tanh())
    return u + v


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


def _depth_first(out: Var) -> list[Var]:
    """List variables as a walk meets them, whether all their uses were met or not."""
    order, paths = {}, [out]
    while paths:
        node = paths.pop()
        if node not in order:
            order[node] = True
            paths += [edge.source for edge in node.edges]
    return list(order)


def _film(mlp: MLP, x: Tensor, y: Tensor) -> go.Figure:
    """Draw the tape of a loss: a slider lets values appear one by one, and then derivatives."""
    import networkx as nx

    loss = _recorded(mlp, x, y)[0]
    gradients, numbers = backward(loss), {node: k for k, node in enumerate(loss.tape.nodes)}
    visits = [numbers[node] for node in _users_first(loss) if node in gradients]
    graph = to_networkx(loss.tape, gradients)
    spots = {
        node: (-column, row - len(layer) / 2 + 0.15 * (column % 2))
        for column, layer in enumerate(nx.topological_generations(graph.reverse()))
        for row, node in enumerate(sorted(layer))
    }

    def look(step: int) -> tuple[list[str], list[str]]:
        known = visits[: max(step - len(graph), 0)]
        text = [
            f"<b>{one['op']}</b><br>{_size(one['value']) if k < step else ''}"
            f"<br>{_size(one['gradient']) if k in known else ''}"
            for k, one in graph.nodes(data=True)
        ]
        roles = ["bound" if k in known else "measured" if k < step else "" for k in graph]
        return text, [figures.COLORS.get(role, "#d1d5db") for role in roles]

    labels = [f"value {k + 1}" for k in range(len(graph))]
    labels += [f"derivative {k + 1}" for k in range(len(visits))]
    looks = [look(step) for step in range(1, len(labels) + 1)]
    moves = [
        {"method": "restyle", "label": label,
         "args": [{"text": [text], "marker.color": [colors]}, [1]]}
        for label, (text, colors) in zip(labels, looks, strict=True)
    ]
    figure = figures.draw(Picture(()))
    ends = [(*spots[a], *spots[b]) for a, b in graph.edges()]
    figure.add_scatter(
        x=[at for ax, _, bx, _ in ends for at in (ax, bx, None)],
        y=[at for _, ay, _, by in ends for at in (ay, by, None)], line={"color": "#9ca3af"},
    )
    (across, up), (text, colors) = zip(*(spots[k] for k in graph), strict=True), looks[-1]
    figure.add_scatter(
        x=across, y=up, mode="markers+text", text=text, textposition="bottom center",
        textfont={"size": 10}, marker={"size": 15, "color": colors, "opacity": 1},
    )
    figure.update_traces(hoverinfo="skip", showlegend=False)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False, range=[min(up) - 1, max(up) + 0.5])
    slider = {"steps": moves, "active": len(moves) - 1, "currentvalue": {"prefix": "up to "}}
    title = {"text": "operation, value, derivative of the loss; |.| is a norm", "font_size": 13}
    return figure.update_layout(height=560, sliders=[slider], title=title)


def _size(tensor: Tensor) -> str:
    """Show a number, or the shape and the norm of a tensor."""
    if tensor.numel() == 1:
        return f"{tensor.item():.3g}"
    return f"{'×'.join(map(str, tensor.shape))}: |{tensor.norm():.2g}|"

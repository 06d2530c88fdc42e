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

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from principia.lab.params import UsageError, checked, usage_error

Value = Float64[Tensor, "..."]
Pull = Callable[[Tensor], Tensor]


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
                raise usage_error("Var", "value", "a number or a tensor", value) from None
        if value.is_complex():
            raise usage_error("Var", "value", "real", value, "Record its real and imaginary parts.")
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
            raise usage_error("Var", "both sides of @", "matrices", [self.shape, b.shape], hint)
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
            raise usage_error("Var", "the other side", "on the same tape", other, hint)
        return other

    def _made(self, op: str, value: Tensor, work: int, *edges: tuple["Var", Pull, int]) -> "Var":
        """Record the result of an operation; work is in multiply-adds for each entry of it."""
        made, size = Var(self.tape, value), value.numel()
        made.op = op
        made.edges = tuple(Edge(source, pull, each * size) for source, pull, each in edges)
        made.constant = all(edge.source.constant for edge in made.edges)
        self.tape.ops["forward"] += work * size
        return made


def _version(value: Tensor) -> int:
    """Ask torch how often a tensor was changed in place; in inference mode nobody counts."""
    return 0 if value.is_inference() else value._version


def _along(g: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    """Give back the axis that a reduction has taken away."""
    return g if keepdim or dim is None else g.unsqueeze(dim)


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
        raise usage_error("concat", "parts", "one or more, with a Var among them", parts)
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
        raise usage_error("backward", "out", "a Var with one entry", out, hint)
    return {node: total.clone() for node, total in sent_back(out, users_first(out)).items()}


def sent_back(out: Var, order: Sequence[Var], *, overwrite: bool = False) -> dict[Var, Tensor]:
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


def users_first(out: Var) -> list[Var]:
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

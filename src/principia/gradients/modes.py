r"""Modes: derivatives pushed forward from the inputs or pulled back from the output, and the price.

The Jacobian of a composition is a product of Jacobians, and nobody needs to multiply them all out.
Forward mode pushes one direction of the inputs through it, together with the value, as a dual
number does: a pass gives one column. Reverse mode pulls one direction of the outputs back: a pass
gives one row. So a Jacobian with $n$ columns and $m$ rows costs $n$ passes or $m$, and the gradient
of a scalar, $m=1$, a small constant times the scalar itself, whatever $n$: this is why networks are
trained in reverse. Forward over reverse gives a product with the Hessian for the price of three
gradients. What reverse mode pays with is memory, for it needs the activations of all layers; who
keeps only $\sqrt L$ of them computes the others again, in less than one more forward pass.

$$ \frac{\partial f}{\partial x}\,v = J_L\big(\cdots(J_2(J_1v))\big), \quad
u^\top\frac{\partial f}{\partial x} = \big((u^\top J_L)J_{L-1}\cdots\big)J_1, \quad
f = F^L\circ\cdots\circ F^1 $$

$$ f(a+\dot a\,\epsilon) = f(a)+f'(a)\,\dot a\,\epsilon, \quad
(a+\dot a\,\epsilon)(b+\dot b\,\epsilon) = ab+(\dot a\,b+a\,\dot b)\,\epsilon, \quad
\epsilon^2 = 0 $$

$$ Hv = \frac{d}{d\epsilon}\nabla f(x+\epsilon v)\Big|_{\epsilon=0}, \quad
\mathrm{memory}\ \propto\ S+\frac LS \ \ge\ 2\sqrt L $$

Symbols:
    $f$: any function from $n$ numbers to $m$; $F^l$ is layer $l$ of $L$, and $J_l$ its Jacobian
    $x, n, m$: its input, `x`, and the numbers of inputs and outputs of `best_mode`
    $v, u$: directions among the inputs and the outputs; a pass of `jacobian_cost` for each
    $a+\dot a\,\epsilon$: `DualNumber` with `value` $a$ and `tangent` $\dot a$
    $Hv$: Hessian of a scalar $f$ times a vector, `hvp`
    $S$: number of `segments` of a `checkpointed` network

References:
    Wengert (1964), A simple automatic derivative evaluation program. Communications of the ACM
        7(8). doi:10.1145/355586.364791
    Baur and Strassen (1983), The complexity of partial derivatives. Theoretical Computer Science
        22(3). doi:10.1016/0304-3975(83)90110-X
    Pearlmutter (1994), Fast exact multiplication by the Hessian. Neural Computation 6(1).
        doi:10.1162/neco.1994.6.1.147
    Griewank and Walther (2008), Evaluating derivatives: principles and techniques of algorithmic
        differentiation. SIAM. doi:10.1137/1.9780898717761
    Chen, Xu, Zhang and Guestrin (2016), Training deep nets with sublinear memory cost.
        arXiv:1604.06174
    Baydin, Pearlmutter, Radul and Siskind (2018), Automatic differentiation in machine learning: a
        survey. Journal of Machine Learning Research 18(153). arXiv:1502.05767
"""

__all__ = ["jacobian_cost", "best_mode", "hvp", "DualNumber", "checkpointed"]

import functools
import math
import operator
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.func import functional_call, grad, jacfwd, jacrev, jvp, vmap
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint_sequential
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.module_tracker import ModuleTracker

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Count, Range
from principia.lab.draws import randn
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.forward_mode import warm_up
from principia.lab.knobs import checked
from principia.lab.relations import at_least, at_most, equal, every, identical, slope
from principia.lab.seeds import Seed
from principia.lab.timing import fastest
from principia.networks.mlp import MLP, ActivationName

Mode = Literal["forward", "reverse"]
Function = Callable[[Tensor], Tensor]
Inputs = Annotated[int, Range(8, 40)]
Width = Annotated[int, Range(2, 64)]
Depth = Annotated[int, Range(2, 8)]
STEP = 1e-5  # of the finite differences
DIFFERENCES = "central differences, step 1e-5: rounding and curvature both stay far below 1e-6"
ENTRIES = 2**12  # of the Jacobians in the race of the modes
STATELESS = "Keep state out of it: call net.eval(), or pass the state in and out."


@checked
def jacobian_cost(f: Function, x: Shaped[Tensor, "..."], mode: Mode) -> tuple[int, int]:
    r"""Counts what the Jacobian of `f` at `x` costs: passes of derivatives, and operations.

    It runs `torch.func.jacfwd` or `jacrev`, which send all passes through the function at once. On
    the device "meta" nothing is computed, but the counts are the same, at any size.

    Args:
        f: A function without state, from one tensor to one.
        x: Where; all its entries are inputs.
        mode: Forward takes a pass for each input, reverse one for each output.

    Returns:
        The passes, and the floating-point operations, two for each multiply-add, of all products
        of matrices that torch's `FlopCounterMode` sees, those of the function itself included. It
        overlooks a matrix times a vector that has one axis only.

    Example:
        >>> W = torch.ones(3, 50)
        >>> jacobian_cost(lambda x: W @ x, torch.ones(50), "reverse")[0]
        3
        >>> jacobian_cost(lambda x: W @ x, torch.ones(50), "forward")[0]
        50
    """
    _need_floats("jacobian_cost", x)
    seen: list[int] = []
    with _stateless("jacobian_cost"):
        flops, _ = _counted(_jacobian, lambda x: f(_Probe.apply(x, seen.append)), x, mode)
    return sum(seen), flops


@checked
def best_mode(n: Count, m: Count) -> Mode:
    r"""Names the mode with fewer passes for a function from `n` numbers to `m`.

    With as many inputs as outputs it is forward mode, which stores nothing.

    Example:
        >>> best_mode(784, 1), best_mode(1, 784)
        ('reverse', 'forward')
    """
    return "reverse" if m < n else "forward"


def hvp(
    f: Function, x: Shaped[Tensor, "*shape"], v: Shaped[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    r"""Multiplies the Hessian of a scalar function by a vector, forward over reverse.

    The Hessian is never formed: the gradient, itself a function, is pushed along `v`.

    Example:
        >>> hvp(lambda x: x.prod(), torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, 0.0]))
        tensor([0., 3., 2.])
    """
    _need_floats("hvp", x)
    warm_up()
    with _stateless("hvp"):
        return jvp(grad(f), (x.clone(),), (v.to(x),))[1]


@final
@dataclass(frozen=True, eq=False)
class DualNumber:
    r"""Carries a value and its derivative along one direction: forward mode, to be read.

    Any function written with these operations gives both at once. Dual numbers of dual numbers give
    second derivatives. A value of shape (n, 1) with tangents (n, k) has k directions.

    Args:
        value: $a$, a tensor of floats, or a dual number.
        tangent: $\dot a$, the same.

    Example:
        >>> x = DualNumber(torch.tensor(3.0), torch.tensor(1.0))
        >>> (x * x + 1 / x).tangent
        tensor(5.8889)
    """

    value: Any
    tangent: Any

    def __post_init__(self) -> None:
        if isinstance(self.value, Tensor):
            _need_floats("DualNumber", self.value, "value")

    def __add__(self, other: Any) -> "DualNumber":
        other = _dual(other)
        return DualNumber(self.value + other.value, self.tangent + other.tangent)

    def __mul__(self, other: Any) -> "DualNumber":
        a, b = self, _dual(other)
        return DualNumber(a.value * b.value, a.tangent * b.value + a.value * b.tangent)

    def __truediv__(self, other: Any) -> "DualNumber":
        b = _dual(other)
        ratio = self.value / b.value
        return DualNumber(ratio, (self.tangent - ratio * b.tangent) / b.value)

    def __sub__(self, other: Any) -> "DualNumber":
        return self + -1.0 * _dual(other)

    def __rsub__(self, other: Any) -> "DualNumber":
        return _dual(other) - self

    def __rtruediv__(self, other: Any) -> "DualNumber":
        return _dual(other) / self

    def __rmatmul__(self, matrix: Any) -> "DualNumber":
        return DualNumber(matrix @ self.value, matrix @ self.tangent)

    __radd__, __rmul__ = __add__, __mul__

    def chain(self, f: Callable[[Any], Any], derivative: Callable[[Any], Any]) -> "DualNumber":
        """Apply a function coordinate by coordinate, by its value and its derivative."""
        return DualNumber(f(self.value), derivative(self.value) * self.tangent)

    def exp(self) -> "DualNumber":
        """Take the exponential."""
        return self.chain(lambda a: a.exp(), lambda a: a.exp())

    def log(self) -> "DualNumber":
        """Take the natural logarithm."""
        return self.chain(lambda a: a.log(), lambda a: 1.0 / a)

    def tanh(self) -> "DualNumber":
        """Take the hyperbolic tangent."""
        return self.chain(lambda a: a.tanh(), lambda a: 1.0 - a.tanh() * a.tanh())


@checked
def checkpointed(net: nn.Module, segments: Count | None = None) -> nn.Sequential:
    r"""Wraps a network so that it stores few activations and computes the others again.

    Only the inputs of the segments are stored, and all activations of the last one. The wrapper has
    the layers and parameters of the network, under the same names.

    Args:
        net: An `nn.Sequential` of the layers, which may have no state that a pass changes.
        segments: How many; by default the square root of the number of layers.

    Example:
        >>> net = nn.Sequential(*(nn.Tanh() for _ in range(16)))
        >>> x = torch.ones(2, requires_grad=True)
        >>> checkpointed(net)(x).sum().backward()
    """
    if not isinstance(net, nn.Sequential) or not len(net):
        hint = "Between other layers there is no cut that it could find."
        raise refuse("checkpointed", "net", "an nn.Sequential of layers", type(net).__name__, hint)
    segments = segments or round(math.sqrt(len(net)))
    if segments > len(net):
        raise refuse("checkpointed", "segments", f"at most the {len(net)} layers", segments)
    return _Checkpointed(net, segments)


class _Checkpointed(nn.Sequential):
    def __init__(self, net: nn.Sequential, segments: int) -> None:
        super().__init__(OrderedDict(net._modules))
        self.segments, self.training = segments, net.training

    def forward(self, input: Tensor) -> Tensor:
        before = [one._version for one in self.buffers()]
        # a list: of an nn.Sequential torch would leave out layers that occur twice
        out = checkpoint_sequential(list(self), self.segments, input, use_reentrant=False)
        if torch.is_grad_enabled() and before != [one._version for one in self.buffers()]:
            domain = "free of state that a pass changes, for some passes run twice"
            raise refuse("checkpointed", "net", domain, "a buffer that changed", STATELESS)
        return out


class _Probe(torch.autograd.Function):
    """Hands on a tensor unchanged, and tells how many derivatives go through it at once."""

    @staticmethod
    def forward(x: Tensor, tell: Callable[[int], None]) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.tell = inputs[1]

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Tensor:
        return _Probe.apply(grad_inputs[0], ctx.tell)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, None]:
        return _Probe.apply(grad_outputs[0], ctx.tell), None

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> tuple[Tensor, int]:
        x, tell = args
        tell(info.batch_size)
        return x.clone(), in_dims[0]


class _NoModules(ModuleTracker):
    """Watches no module: the hooks of the counter's own break in derivatives of derivatives."""

    def __enter__(self) -> "_NoModules":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _counted(job: Callable[..., Any], *given: Any) -> tuple[int, Any]:
    """Count the operations of all matrix products in a job, and give its result."""
    counter = FlopCounterMode(display=False)
    counter.mod_tracker = _NoModules()
    warm_up()
    with counter:
        result = job(*given)
    return counter.get_total_flops(), result


def _dual(number: Any) -> DualNumber:
    """Take a constant as a dual number: its derivative is 0."""
    return number if isinstance(number, DualNumber) else DualNumber(number, 0.0 * number)


def _jacobian(f: Function, x: Tensor, mode: Mode) -> Tensor:
    warm_up()
    return {"forward": jacfwd, "reverse": jacrev}[mode](f)(x.clone())


@contextmanager
def _stateless(owner: str) -> Iterator[None]:
    """Tell in one sentence that a function changes tensors in place."""
    try:
        yield
    except RuntimeError as error:
        if not any(words in str(error) for words in ("in-place", "inplace", "in place")):
            raise
        domain = "a function that changes no tensor of others in place"
        raise refuse(owner, "f", domain, "one that does", STATELESS) from error


def _need_floats(owner: str, x: Tensor, name: str = "x") -> None:
    if not x.is_floating_point() or not x.numel():
        hint = "Integers have no derivatives: convert with .double()." if x.numel() else ""
        raise refuse(owner, name, "a tensor of floats, not empty", f"{x.dtype} {x.shape}", hint)


@claim(control={"product": "first term only"}, source="Wengert 1964; Griewank and Walther 2008")
def same_numbers(
    seed: Seed, *, inputs: Inputs = 8, outputs: Annotated[int, Range(1, 40)] = 5, width: Width = 16,
    product: Literal["both terms", "first term only"] = "both terms",
) -> Evidence:
    r"""Forward mode, reverse mode, dual numbers and finite differences give one Jacobian."""
    rng = seed.torch()
    A, B = randn(rng, 2, width, inputs) / inputs**0.5
    C, x = randn(rng, outputs, width) / width**0.5, randn(rng, inputs)
    times = operator.mul if product == "both terms" else _half_product

    def f(x: Any) -> Any:
        a, b = A @ x, B @ x
        return C @ (times(a.tanh(), b.exp()) / (2 + b * b) - (3 - a.tanh()).log() + 1 / (4 + a * a))

    eye = torch.eye(inputs, dtype=torch.float64)
    forward, reverse = (_jacobian(f, x, mode) for mode in ("forward", "reverse"))
    dual = f(DualNumber(x[:, None], eye))  # all columns at once
    ends = [vmap(f)(x + step * eye) for step in (STEP, -STEP)]
    differences = (ends[0] - ends[1]).mT / (2 * STEP)
    return every({
        "forward and reverse": identical(forward, reverse),
        "dual numbers and reverse": identical(dual.tangent, reverse),
        "values of the dual numbers": identical(dual.value[:, 0], f(x)),
        "differences and reverse": equal(
            differences, reverse, tol=1e-6 * (1 + float(reverse.abs().max())), why=DIFFERENCES
        ),
    })


@claim(control={"chosen": "reverse"}, source="Baydin et al. 2018, sec. 3.2")
def forward_needs_inputs(
    seed: Seed, *, width: Annotated[int, Range(120, 400)] = 128,
    few: Annotated[int, Range(2, 6)] = 4, activation: ActivationName = "tanh",
    chosen: Literal["best_mode", "reverse"] = "best_mode",
) -> Evidence:
    r"""A Jacobian costs $n$ forward passes, one an input, or $m$ reverse ones, one an output."""
    net = MLP([width] * 4, activation=activation, rng=seed.torch()).double()
    x = randn(seed.child("x").torch(), width)
    once, _ = _counted(net, x)

    def cost(n: int, m: int, mode: Mode) -> tuple[int, float]:
        # the first n inputs are free and the first m outputs are wanted: f costs the same for all
        passes, flops = jacobian_cost(lambda free: net(torch.cat([free, x[n:]]))[:m], x[:n], mode)
        return passes, flops / once

    counts = [few * times for times in (1, 2, 5, 10, 20)]
    forward = np.array([cost(n, m, "forward") for n, m in zip(counts, counts[::-1], strict=True)])
    reverse = np.array([cost(n, m, "reverse") for n, m in zip(counts[::-1], counts, strict=True)])
    ratios = []
    for n, m in ((few, 20 * few), (20 * few, few)):
        mine: Mode = best_mode(n, m) if chosen == "best_mode" else "reverse"
        other: Mode = "forward" if mine == "reverse" else "reverse"
        ratios.append(cost(n, m, mine)[1] / cost(n, m, other)[1])
    why = "the value itself, and products with zero tangents, are paid once and not for each pass"
    labels = ("passes: inputs n or outputs m", "cost of the Jacobian / cost of f")
    return every({
        "flops for an input": slope(
            counts, forward[:, 1], 1, tol=0.02, why=why, log="", labels=labels
        ),
        "flops for an output": slope(
            counts, reverse[:, 1], 1, tol=0.02, why=why, log="", labels=labels
        ),
        "forward passes": equal(forward[:, 0], counts, tol=0, why="a count"),
        "reverse passes": equal(reverse[:, 0], counts, tol=0, why="a count"),
        "cost of the better mode / of the other": at_most(
            ratios, (few + 2) / (20 * few + 1), why="a count: one evaluation, at most two, besides"
        ),
    })


@claim(control={"mode": "forward"}, source="Baur and Strassen 1983")
def gradient_is_cheap(
    seed: Seed, *, depth: Depth = 3, batch: Annotated[int, Range(1, 64)] = 8,
    mode: Mode = "reverse",
) -> Evidence:
    r"""The gradient of a scalar by $n$ weights costs one to two evaluations more, whatever $n$."""
    weights, ratios, shares = [], [], []
    for goal in (1e3, 1e4, 1e5, 1e6):
        width = round(math.sqrt(goal / (depth - 1)))
        # forward mode would take a day: on "meta" the products are counted, not computed
        device = "cpu" if mode == "reverse" else "meta"
        net = MLP([width] * depth + [1], rng=seed.torch()).to(device)
        x = torch.ones(batch, width, device=device)
        f, theta = _of_weights(net, lambda out: out.square().mean(), x)
        ratios.append(jacobian_cost(f, theta, mode)[1] / _counted(f, theta)[0] - 1)
        weights.append(theta.numel())
        shares.append(width**2 / sum(one.weight.numel() for one in net.layers))
    expected = 2 - np.array(shares)
    return every({
        "at most two": at_most(
            ratios, 2.0, why="a product for the weights and one for the inputs of a layer"
        ).drawn(
            Series("measured", weights, ratios), Series("two", weights, [2.0] * 4, "bound"),
            x="weights n", y="cost of the gradient / cost of f", log="xy",
        ),
        "at least one": at_least(ratios, 1.0, why="every layer has a product for its weights"),
        "count": equal(
            ratios, expected, tol=1e-9, why="only the first layer needs no gradient of its inputs"
        ),
    })


@claim(control={"how": "full Hessian"}, source="Pearlmutter 1994")
def hessian_vector(
    seed: Seed, *, inputs: Inputs = 10, width: Annotated[int, Range(2, 24)] = 12,
    depth: Annotated[int, Range(2, 5)] = 3,
    how: Literal["hvp", "full Hessian"] = "hvp",
) -> Evidence:
    r"""$Hv=\frac{d}{d\epsilon}\nabla f(x+\epsilon v)$, for three gradients, whatever $n$."""
    rng = seed.torch()
    net = MLP([inputs, *[width] * (depth - 1), 1], activation="tanh", rng=rng).double()
    net.requires_grad_(False)
    batch = randn(rng, 6, inputs)
    # functions of the inputs, all weights fixed, and of the weights
    cases: dict[str, tuple[Function, Tensor]] = {
        "inputs": (lambda x: net(x)[0], randn(rng, inputs)),
        "weights": _of_weights(net, lambda out: out.square().mean(), batch),
    }
    parts = {}
    for name, (f, x) in cases.items():
        v = randn(rng, len(x))
        find = hvp if how == "hvp" else lambda f, x, v: _jacobian(grad(f), x, "forward") @ v
        gradient = grad(f)
        differences = (gradient(x + STEP * v) - gradient(x - STEP * v)) / (2 * STEP)
        (flops, found), price = _counted(find, f, x, v), _counted(gradient, x)[0]
        parts |= {
            f"{name}: Hv": identical(found, grad(lambda x: gradient(x) @ v)(x)),  # noqa: B023
            f"{name}: differences of gradients": equal(
                differences, found, tol=1e-6 * (1 + float(found.abs().max())), why=DIFFERENCES
            ),
            f"{name}: flops / flops of a gradient": at_most(
                flops / price, 3.0, why="each product AB becomes AB, dA B and A dB"
            ),
        }
        if name == "inputs":
            why = "three gradients of two evaluations each, and one to spare"
            parts["inputs: flops / flops of f"] = at_most(flops / _counted(f, x)[0], 7.0, why=why)
    return every(parts)


@claim(control={"segments": "1"}, source="Chen, Xu, Zhang and Guestrin 2016, sec. 4.1")
def memory_for_time(
    seed: Seed, *, width: Annotated[int, Range(2, 64)] = 16,
    batch: Annotated[int, Range(1, 64)] = 8, segments: Literal["√L", "1"] = "√L",
) -> Evidence:
    r"""Stored activations grow as $L$, or as $\sqrt L$ for at most one more forward pass."""
    depths, stored, extra, parts = [16, 36, 64, 144], [], [], {}
    for depth in depths:
        net, x = _deep(seed, width, depth), randn(seed.child(depth).torch(), batch, width)
        thrifty = checkpointed(net, segments=None if segments == "√L" else 1)
        stored.append((_stored(net, x), _stored(thrifty, x)))
        (flops, exact), (more, found) = (_counted(_gradient, one, x) for one in (net, thrifty))
        extra.append((more / flops, (more - flops) / _counted(net, x)[0]))
        parts[f"gradient, {depth} layers"] = equal(  # relative, for it vanishes in early layers
            found, exact, tol=1e-12 * exact.abs(), why="the same products, computed again"
        )
    (plain, thrifty), (ratio, passes) = np.array(stored).T, np.array(extra).T
    labels, why = ("layers L", "bytes stored"), "the input, or the last segment, is stored besides"
    return every({
        "√L checkpoints": slope(depths, thrifty, 0.5, tol=0.1, why=why, labels=labels),
        "no checkpoints": slope(depths, plain, 1, tol=0.1, why=why, labels=labels),
        "operations, in those without": at_most(
            ratio, 1.4, why="1 forward pass more than 1 forward and almost 2 back: less than 4/3"
        ),
        "forward passes more": at_most(passes, 1.0, why="no layer is computed three times"),
        **parts,
    })


@experiment(
    reaches={
        "forward_speedup": at_least_goal(3), "reverse_speedup": at_least_goal(3),
        "crossover": Range(1 / 8, 8), "mnist_speedup": at_least_goal(100),
        "mnist_difference": at_most_goal(1e-4),
    },
    floor={
        "forward_speedup": at_least_goal(3), "reverse_speedup": at_least_goal(3),
        "crossover": Range(1 / 8, 8),
    },
    source="Baydin et al. 2018, sec. 3.2: n passes forward or m in reverse; the times are ours",
    timed=True,
)
def crossover(
    run: Run, *, width: Annotated[int, Range(64, 512)] = 256,
    points: Annotated[int, Range(1, 32)] = 16, repeats: Annotated[int, Range(3, 50)] = 6,
) -> None:
    """Times both modes on Jacobians of 4096 entries, 64 times as tall as wide to the other way."""
    warm_up()
    shapes = [(2**k, ENTRIES // 2**k) for k in range(3, 10)]
    times: dict[Mode, list[float]] = {"forward": [], "reverse": []}
    for n, m in run.steps(shapes, "shapes"):
        net = MLP([n, width, width, m], activation="tanh", rng=run.seed.child(n).torch())
        # several points at once, so that arithmetic and not the start of each operation is timed
        x = torch.randn(points, n, generator=run.seed.child(m).torch())
        jobs = (functools.partial(vmap(transform(net)), x) for transform in (jacfwd, jacrev))
        for mode, seconds in zip(times, fastest(*jobs, repeats=repeats), strict=True):
            times[mode].append(seconds)
    ratio = np.log(np.divide(times["forward"], times["reverse"]))  # of forward to reverse mode
    side = np.log([n / m for n, m in shapes])
    # it rises with n/m; what noise bends is flattened before it is inverted
    meeting = math.exp(float(np.interp(0.0, np.maximum.accumulate(ratio), side)))
    run.record(
        forward_speedup=math.exp(-ratio[0]), reverse_speedup=math.exp(ratio[-1]), crossover=meeting
    )
    run.figure("modes", _mode_figure(np.exp(side), times))
    run.figure("memory", _memory_figure(run.seed, 32))
    if run.full:
        x, y, *_ = handwriting(run)
        speedup, difference = _both_gradients(run.seed, x[:100].flatten(1), y[:100], repeats)
        run.record(mnist_speedup=speedup, mnist_difference=difference)


def _half_product(a: Any, b: Any) -> Any:
    """Forget the second term of the product rule."""
    dual = isinstance(a, DualNumber)
    return DualNumber(a.value * b.value, a.tangent * b.value) if dual else a * b


def _of_weights(net: nn.Module, loss: Function, x: Tensor) -> tuple[Function, Tensor]:
    """Give the loss of a batch as a function of all weights in one vector, and that vector."""
    named = {name: one.detach() for name, one in net.named_parameters()}

    def f(theta: Tensor) -> Tensor:
        parts = theta.split([one.numel() for one in named.values()])
        weights = {name: part.view_as(named[name]) for name, part in zip(named, parts, strict=True)}
        return loss(functional_call(net, weights, x))

    return f, torch.cat([one.flatten() for one in named.values()])


def _deep(seed: Seed, width: int, depth: int) -> nn.Sequential:
    mlp = MLP([width] * (depth + 1), activation="tanh", rng=seed.torch()).double()
    return nn.Sequential(*(nn.Sequential(layer, nn.Tanh()) for layer in mlp.layers))


def _gradient(net: nn.Module, x: Tensor) -> Tensor:
    gradients = torch.autograd.grad(net(x).square().mean(), list(net.parameters()))
    return torch.cat([one.flatten() for one in gradients])


def _stored(net: nn.Module, x: Tensor) -> int:
    """Sum the bytes that a forward pass keeps for the way back, beside the weights."""
    kept = {one.untyped_storage().data_ptr(): 0 for one in net.parameters()}

    def pack(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        kept.setdefault(storage.data_ptr(), storage.nbytes())
        return saved.detach()  # the tensor itself would keep its own graph alive

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        out = net(x)  # held until the sum is made, so that no address is used twice
    return sum(kept.values()) if out.requires_grad else 0


def _both_gradients(seed: Seed, x: Tensor, y: Tensor, repeats: int) -> tuple[float, float]:
    """Compare the gradient of a loss by all weights in both modes: time ratio, relative gap."""
    net = MLP([x.shape[1], 8, 10], rng=seed.child("mnist").torch())
    f, theta = _of_weights(net, lambda out: F.cross_entropy(out, y), x)

    def forward() -> Tensor:  # as jacfwd does, but in portions that fit into the memory
        return vmap(lambda v: jvp(f, (theta,), (v,))[1], chunk_size=256)(torch.eye(len(theta)))

    reverse = functools.partial(grad(f), theta)
    warm_up()
    slow, fast = fastest(forward, reverse, repeats=repeats)
    return slow / fast, float((forward() - reverse()).norm() / reverse().norm())


def _mode_figure(sides: Any, times: Mapping[Mode, list[float]]) -> Any:
    series = [
        Series(f"{mode} mode", sides, 1000 * np.array(seconds), "other", "line")
        for mode, seconds in times.items()
    ]
    return figures.draw(Picture(
        tuple(series), "inputs n / outputs m, at n m = 4096", "milliseconds", log="xy"
    ))


def _memory_figure(seed: Seed, batch: int) -> Any:
    depths, x = [side**2 for side in range(2, 13, 2)], torch.ones(batch, 16, dtype=torch.float64)
    nets = [_deep(seed, 16, depth) for depth in depths]
    kept = {
        "no checkpoints": [_stored(net, x) / 1024 for net in nets],
        "√L checkpoints": [_stored(checkpointed(net), x) / 1024 for net in nets],
    }
    series = [Series(name, depths, sizes, "other", "line") for name, sizes in kept.items()]
    return figures.draw(Picture(tuple(series), "layers L", "KiB stored for the way back"))

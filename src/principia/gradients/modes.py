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

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.func import grad, jacfwd, jacrev, jvp
from torch.utils.checkpoint import checkpoint_sequential
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.module_tracker import ModuleTracker

from principia.lab.forward_mode import warm_up
from principia.lab.params import PositiveInt, checked, usage_error

Mode = Literal["forward", "reverse"]
Function = Callable[[Tensor], Tensor]
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
        flops, _ = count_flops(plain_jacobian, lambda x: f(_Probe.apply(x, seen.append)), x, mode)
    return sum(seen), flops


def _need_floats(owner: str, x: Tensor, name: str = "x") -> None:
    if not x.is_floating_point() or not x.numel():
        hint = "Integers have no derivatives: convert with .double()." if x.numel() else ""
        raise usage_error(
            owner, name, "a tensor of floats, not empty", f"{x.dtype} {x.shape}", hint
        )


@contextmanager
def _stateless(owner: str) -> Iterator[None]:
    """Tell in one sentence that a function changes tensors in place."""
    try:
        yield
    except RuntimeError as error:
        if not any(words in str(error) for words in ("in-place", "inplace", "in place")):
            raise
        domain = "a function that changes no tensor of others in place"
        raise usage_error(owner, "f", domain, "one that does", STATELESS) from error


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


def count_flops(job: Callable[..., Any], *given: Any) -> tuple[int, Any]:
    """Count the operations of all matrix products in a job, and give its result."""
    counter = FlopCounterMode(display=False)
    counter.mod_tracker = _NoModules()
    warm_up()
    with counter:
        result = job(*given)
    return counter.get_total_flops(), result


class _NoModules(ModuleTracker):
    """Watches no module: the hooks of the counter's own break in derivatives of derivatives."""

    def __enter__(self) -> "_NoModules":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def plain_jacobian(f: Function, x: Tensor, mode: Mode) -> Tensor:
    warm_up()
    return {"forward": jacfwd, "reverse": jacrev}[mode](f)(x.clone())


@checked
def best_mode(n: PositiveInt, m: PositiveInt) -> Mode:
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


def _dual(number: Any) -> DualNumber:
    """Take a constant as a dual number: its derivative is 0."""
    return number if isinstance(number, DualNumber) else DualNumber(number, 0.0 * number)


@checked
def checkpointed(net: nn.Module, segments: PositiveInt | None = None) -> nn.Sequential:
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
        raise usage_error(
            "checkpointed", "net", "an nn.Sequential of layers", type(net).__name__, hint
        )
    segments = segments or round(math.sqrt(len(net)))
    if segments > len(net):
        raise usage_error("checkpointed", "segments", f"at most the {len(net)} layers", segments)
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
            raise usage_error("checkpointed", "net", domain, "a buffer that changed", STATELESS)
        return out

r"""Local gradients of layers: each layer needs to know only its own derivative.

A layer gets $\delta=\partial L/\partial z$, the gradient by what it gave out, and owes the gradient
by each thing that it took in: $\delta$ times its own Jacobian, and nothing of the rest of the
network. So a rule for each kind of layer is enough for all networks, and the rules are short: a
product with the transposed weights, a mask, a difference, a sum. Seldom is a Jacobian written down:
that of an elementwise function is diagonal, that of a maximum picks one entry, and those of
softmax and logarithm cancel to $p-e_y$, which stays exact in float32 where $p_y$ itself has
vanished. Where a function has a kink, any slope between the two sides serves; torch takes 0.

$$ z = Wx+b:\quad \frac{\partial L}{\partial W} = \sum_b\delta_bx_b^\top, \quad
\frac{\partial L}{\partial x} = W^\top\delta, \quad
\frac{\partial L}{\partial b} = \sum_b\delta_b $$

$$ h = f(z):\quad \frac{\partial L}{\partial z} = \frac{\partial L}{\partial h}\odot f'(z), \quad
h = \max_iz_i:\quad \frac{\partial L}{\partial z} = \frac{\partial L}{\partial h}\,e_{\arg\max z} $$

$$ \ell = -\ln p_y,\ p = \mathrm{softmax}(z):\quad \frac{\partial\ell}{\partial z} = p-e_y, \quad
\ell = \tfrac12\Vert\hat y-y\Vert^2:\quad \frac{\partial\ell}{\partial\hat y} = \hat y-y $$

$$ y = x+F(x):\quad \frac{\partial L}{\partial x} = \delta+
\Big[\frac{\partial F}{\partial x}\Big]^\top\delta, \quad
z_{bi} = x_{bi}+a_i:\quad \frac{\partial L}{\partial a_i} = \sum_b\delta_{bi} $$

Symbols:
    $L$: a scalar that depends on everything
    $\delta$: gradient of $L$ by the output of a layer, the argument of its `backward`
    $x, W, b$: inputs (a sample $x_b$ in each row), weights and bias of `LinearFn`
    $f, f'$: a row of `ACTIVATIONS` and its derivative, for `ElementwiseFn`
    $p, e_y$: probabilities and the unit vector of the true class, for `SoftmaxCrossEntropyFn`
    $\hat y, y$: outputs and targets of `SquaredLossFn`
    $F$: branch beside the identity, whose output is the `h` of `ResidualFn`
    $a$: operand that is repeated along the axes that it lacks, for `BroadcastAddFn`

References:
    Rockafellar (1970), Convex analysis. Princeton University Press. doi:10.1515/9781400873173
    Rumelhart, Hinton and Williams (1986), Learning representations by back-propagating errors.
        Nature 323. doi:10.1038/323533a0
    Bridle (1990), Probabilistic interpretation of feedforward classification network outputs, with
        relationships to statistical pattern recognition. Neurocomputing, NATO ASI Series 68.
        doi:10.1007/978-3-642-76153-9_28
    LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document
        recognition. Proceedings of the IEEE 86(11). doi:10.1109/5.726791
    Griewank and Walther (2008), Evaluating derivatives: principles and techniques of algorithmic
        differentiation. SIAM. doi:10.1137/1.9780898717761
    Goodfellow, Bengio and Courville (2016), Deep learning, sec. 6.5. MIT Press.
        https://www.deeplearningbook.org
"""

__all__ = [
    "BroadcastAddFn", "ElementwiseFn", "HardtanhFn", "Layer", "LayeredClassifier", "LinearFn",
    "MaxFn", "ResidualFn", "SoftmaxCrossEntropyFn", "SquaredLossFn", "check",
]

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from principia.lab.draws import rand, randn
from principia.lab.params import PositiveInt, SeedNumber, checked, knobs_of, usage_error
from principia.lab.seeds import Seed
from principia.networks.activations import ACTIVATIONS, Activation, Table

Shapes = tuple[tuple[PositiveInt, ...], ...]
CHECKED = 1e-6  # step and tolerance of gradcheck: curvature and rounding both stay far below
CLEAR = 1e-3  # distance from a kink that such a step does not cross


class _Rule(Function):
    """A layer that keeps its operands for the way back, and that torch.func may map over."""

    generate_vmap_rule = True
    backward: Any  # a gradient for each operand, from that of the output

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*(given for given in inputs if isinstance(given, Tensor)))
        ctx.others = [given for given in inputs if not isinstance(given, Tensor)]


def _sends(formula: Callable[..., Any]) -> Any:
    """Make a backward of what a layer sends, given the gradient and the operands that it kept."""
    return staticmethod(lambda ctx, delta: formula(delta, *ctx.saved_tensors, *ctx.others))


@final
class LinearFn(_Rule):
    r"""Multiplies by weights and adds a bias: $\sum_b\delta_bx_b^\top$, $W^\top\delta$, $\delta$.

    Shapes:
        x: (B, n); W: (m, n); b: (m,) or None; returns (B, m)

    Example:
        >>> x, W, b = torch.tensor([[1.0, 2.0]]), torch.ones(1, 2), torch.zeros(1)
        >>> torch.func.grad(lambda W: LinearFn.apply(x, W, b).sum())(W)
        tensor([[1., 2.]])
    """

    @staticmethod
    def forward(
        x: Shaped[Tensor, "B _"], W: Shaped[Tensor, "m _"], b: Shaped[Tensor, "..."] | None = None
    ) -> Float[Tensor, "B m"]:
        """Compute $Wx+b$ for each row."""
        _need_floats("LinearFn", x=x, W=W, b=b)
        if x.shape[1] != W.shape[1]:
            raise usage_error("LinearFn", "x", f"of width {W.shape[1]}, like W", tuple(x.shape))
        if b is not None and b.shape != W.shape[:1]:
            hint = "Any other shape would be broadcast over the wrong axis."
            raise usage_error("LinearFn", "b", f"of shape ({len(W)},)", tuple(b.shape), hint)
        return x @ W.mT if b is None else x @ W.mT + b

    backward = _sends(lambda delta, x, W, b: (  # to each factor the other one, times the gradient
        delta @ W, delta.mT @ x, None if b is None else delta.sum(dim=0)
    ))


def _need_floats(owner: str, **operands: Tensor | None) -> None:
    domain = "a tensor of floating-point numbers"
    for name, operand in operands.items():
        if operand is not None and not operand.is_floating_point():
            hint = f"Integers have no derivative: convert it with {name}.double()."
            raise usage_error(owner, name, domain, operand.dtype, hint)


@final
class ElementwiseFn(_Rule):
    r"""Applies a function to each entry; the gradient is multiplied by $f'(z)$, entry by entry.

    Example:
        >>> total = lambda z: ElementwiseFn.apply(z, ACTIVATIONS["relu"]).sum()
        >>> torch.func.grad(total)(torch.tensor([-1.0, 2.0]))
        tensor([0., 1.])
    """

    @staticmethod
    def forward(z: Shaped[Tensor, "*shape"], f: Any) -> Float[Tensor, "*shape"]:
        """Compute $f(z)$; f is a row of `ACTIVATIONS`, or any other `Activation`."""
        _need_floats("ElementwiseFn", z=z)
        if not isinstance(f, Activation):
            hint = "Take a row of ACTIVATIONS, such as ACTIVATIONS['tanh']."
            raise usage_error("ElementwiseFn", "f", "an Activation", f, hint)
        return f.module()(z.view_as(z))  # a view: z itself may not be what comes out

    backward = _sends(lambda delta, z, f: (delta * f.derivative(z), None))  # at z, not at f(z)


@final
class HardtanhFn(_Rule):
    r"""Clips each entry to $[-1,1]$; the gradient passes where nothing was clipped.

    Example:
        >>> torch.func.grad(lambda z: HardtanhFn.apply(z).sum())(torch.tensor([-3.0, 0.5]))
        tensor([0., 1.])
    """

    @staticmethod
    def forward(z: Shaped[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Clip."""
        _need_floats("HardtanhFn", z=z)
        return z.clamp(-1, 1)

    backward = _sends(lambda delta, z: delta * (z.abs() < 1))


@final
class MaxFn(_Rule):
    r"""Takes the largest entry of the last axis; the whole gradient goes to it, $e_{\arg\max}$.

    Example:
        >>> torch.func.grad(MaxFn.apply)(torch.tensor([1.0, 5.0, 2.0]))
        tensor([0., 1., 0.])
    """

    @staticmethod
    def forward(z: Shaped[Tensor, "*shape k"]) -> Float[Tensor, "*shape"]:
        """Find the maximum."""
        _need_floats("MaxFn", z=z)
        return z.amax(dim=-1)

    backward = _sends(lambda delta, z: (  # to one entry, also where several are the largest
        torch.zeros_like(z).scatter(-1, z.argmax(dim=-1, keepdim=True), delta[..., None])
    ))


@final
class SoftmaxCrossEntropyFn(_Rule):
    r"""Computes $-\ln p_y$ of each sample from its logits, in one step; the gradient is $p-e_y$.

    Shapes:
        z: (B, K); y: (B,) integers; returns (B,)

    Example:
        >>> total = lambda z: SoftmaxCrossEntropyFn.apply(z, torch.tensor([1])).sum()
        >>> torch.func.grad(total)(torch.zeros(1, 2))
        tensor([[ 0.5000, -0.5000]])
    """

    @staticmethod
    def forward(z: Shaped[Tensor, "B K"], y: Int[Tensor, "..."]) -> Float[Tensor, " B"]:
        """Subtract the logit of the true class from the logarithm of the sum."""
        _need_floats("SoftmaxCrossEntropyFn", z=z)
        if y.shape != z.shape[:1]:
            domain = f"one class a sample, of shape ({len(z)},)"
            raise usage_error("SoftmaxCrossEntropyFn", "y", domain, tuple(y.shape))
        return z.logsumexp(dim=1) - z.gather(1, y[:, None])[:, 0]

    backward = _sends(lambda delta, z, y: (  # of z, for kept probabilities have no derivative
        delta[:, None] * (
            z.softmax(dim=1) - (torch.arange(z.shape[1], device=z.device) == y[:, None]).to(z)
        ), None
    ))


@final
class SquaredLossFn(_Rule):
    r"""Computes $\frac12\Vert\hat y-y\Vert^2$ of each sample; the gradient is $\hat y-y$.

    Example:
        >>> torch.func.grad(lambda z: SquaredLossFn.apply(z, torch.ones(1, 2))[0])(torch.eye(1, 2))
        tensor([[ 0., -1.]])
    """

    @staticmethod
    def forward(outputs: Shaped[Tensor, "B K"], y: Shaped[Tensor, "..."]) -> Float[Tensor, " B"]:
        """Halve the squared distances."""
        _need_floats("SquaredLossFn", outputs=outputs, y=y)
        _need_shape("SquaredLossFn", "y", y, outputs.shape)
        return (outputs - y).square().sum(dim=1) / 2

    backward = _sends(lambda delta, outputs, y: (
        delta[:, None] * (outputs - y), delta[:, None] * (y - outputs)
    ))


def _need_shape(owner: str, name: str, operand: Tensor, shape: torch.Size) -> None:
    if operand.shape != shape:
        hint = "A broadcast would pair every sample with all others."
        raise usage_error(owner, name, f"of shape {tuple(shape)}", tuple(operand.shape), hint)


@final
class ResidualFn(_Rule):
    r"""Adds a branch to its input, $x+h$; both get the gradient, so that with $h=F(x)$ they add.

    Example:
        >>> torch.func.grad(lambda x: ResidualFn.apply(x, 3 * x).sum())(torch.tensor([1.0, 2.0]))
        tensor([4., 4.])
    """

    @staticmethod
    def forward(x: Shaped[Tensor, "*shape"], h: Shaped[Tensor, "..."]) -> Float[Tensor, "*shape"]:
        """Add."""
        _need_floats("ResidualFn", x=x, h=h)
        _need_shape("ResidualFn", "h", h, x.shape)
        return x + h

    setup_context = staticmethod(lambda ctx, inputs, output: None)  # there is nothing to keep
    backward = staticmethod(lambda ctx, delta: (delta, delta))


@final
class BroadcastAddFn(_Rule):
    r"""Adds an operand that is repeated along some axes; its gradient is the sum over them.

    Shapes:
        x: any; a: its last axes, or 1 instead of some of them; returns the shape of x

    Example:
        >>> torch.func.grad(lambda a: BroadcastAddFn.apply(torch.ones(5), a).sum())(torch.ones(1))
        tensor([5.])
    """

    @staticmethod
    def forward(x: Shaped[Tensor, "*shape"], a: Shaped[Tensor, "..."]) -> Float[Tensor, "*shape"]:
        """Add, and keep the shape of x."""
        _need_floats("BroadcastAddFn", x=x, a=a)
        pairs = zip(reversed(a.shape), reversed(x.shape), strict=False)
        if a.ndim > x.ndim or any(size not in (1, whole) for size, whole in pairs):
            domain = f"repeatable to the shape {tuple(x.shape)} of x"
            hint = "A larger result than x would be a silent mistake, such as a bias of length B."
            raise usage_error("BroadcastAddFn", "a", domain, tuple(a.shape), hint)
        return x + a

    setup_context = staticmethod(lambda ctx, inputs, output: setattr(ctx, "shape", inputs[1].shape))
    # sum_to_size sums over the axes along which an operand of that shape is repeated
    backward = staticmethod(lambda ctx, delta: (delta, delta.sum_to_size(ctx.shape)))


@final
@dataclass(frozen=True)
class Layer:
    """Describes a layer with its rule: a row of the table `LAYERS`.

    Args:
        apply: Computes it with the hand-written backward.
        reference: Computes the same by torch's own functions, whose derivatives torch knows.
        forward: What it computes, in a formula.
        backward: What it does to the gradient, in a formula.
        shapes: Gives shapes of operands that fit, for so many samples, inputs and outputs.
        draw: Draws operands of given shapes away from kinks; by default normal numbers.

    Example:
        >>> LAYERS["max"].apply(torch.tensor([1.0, 3.0])), LAYERS["max"].backward
        (tensor(3.), '∂L/∂z = δ e_argmax')
    """

    apply: Callable[..., Tensor]
    reference: Callable[..., Tensor]
    forward: str
    backward: str
    shapes: Callable[[int, int, int], tuple[tuple[int, ...], ...]]
    draw: Callable[[torch.Generator, Shapes], Sequence[Tensor]] | None = None

    def __post_init__(self) -> None:
        for name, knob in knobs_of(type(self).__init__).items():
            knob.accept("Layer", getattr(self, name))


LAYERS: Mapping[str, Layer] = Table(
    "LAYERS",
    linear=Layer(
        LinearFn.apply, F.linear, "z = Wx + b", "∂L/∂W = δxᵀ, ∂L/∂x = Wᵀδ, ∂L/∂b = δ",
        lambda B, n, m: ((B, n), (m, n), (m,)),
    ),
    elementwise=Layer(
        lambda z: ElementwiseFn.apply(z, ACTIVATIONS["tanh"]), torch.tanh, "h = f(z), f = tanh",
        "∂L/∂z = δ ⊙ f′(z)", lambda B, n, m: ((B, n),),
    ),
    hardtanh=Layer(
        HardtanhFn.apply, F.hardtanh, "h = min(max(z, −1), 1)", "∂L/∂z = δ ⊙ [|z| < 1]",
        lambda B, n, m: ((B, n),), lambda rng, shapes: [_clear(randn(rng, *shapes[0]))],
    ),
    max=Layer(
        MaxFn.apply, lambda z: z.amax(dim=-1), "h = max z", "∂L/∂z = δ e_argmax",
        lambda B, n, m: ((B, n, m),),  # no two entries of a row near to each other
        lambda rng, shapes: [randn(rng, *shapes[0]).argsort(dim=-1) + rand(rng, 1)],
    ),
    residual=Layer(
        ResidualFn.apply, torch.add, "y = x + h, h = F(x)", "∂L/∂x = δ + [∂F/∂x]ᵀδ",
        lambda B, n, m: ((B, n), (B, n)),
    ),
    broadcast_add=Layer(
        BroadcastAddFn.apply, torch.add, "z = x + a, a repeated", "∂L/∂a = Σ δ over the repeats",
        lambda B, n, m: ((B, m, n), (m, 1)),
    ),
    squared_loss=Layer(
        SquaredLossFn.apply, lambda outputs, y: F.mse_loss(outputs, y, reduction="none").sum(1) / 2,
        "ℓ = ½‖ŷ − y‖²", "∂ℓ/∂ŷ = ŷ − y", lambda B, n, m: ((B, n), (B, n)),
    ),
    softmax_cross_entropy=Layer(
        SoftmaxCrossEntropyFn.apply, lambda z, y: F.cross_entropy(z, y, reduction="none"),
        "ℓ = −ln softmax(z)_y", "∂ℓ/∂z = p − e_y", lambda B, n, m: ((B, n), (B,)),
        lambda rng, shapes: [
            randn(rng, *shapes[0]), torch.randint(shapes[0][1], shapes[1], generator=rng)
        ],
    ),
)


def _clear(z: Tensor) -> Tensor:
    """Move numbers that are too near to -1 or 1."""
    return torch.where((z.abs() - 1).abs() < CLEAR, z + 2 * CLEAR, z)


@checked
def check(layer: Layer, shapes: Shapes, seed: SeedNumber = 0) -> bool:
    r"""Decides whether backward is the derivative of forward, and its own backward that of it.

    Args:
        layer: A row of `LAYERS`, or one of your own.
        shapes: Shape of each operand.
        seed: Draws the operands.

    Example:
        >>> check(LAYERS["linear"], ((4, 3), (2, 3), (2,)))
        True
    """
    if len(shapes) != (number := len(layer.shapes(1, 1, 1))):
        raise usage_error("check", "shapes", f"one for each of the {number} operands", shapes)
    rng = Seed(seed).torch()
    operands = drawn_operands(layer, rng, shapes)
    sent = torch.randn(layer.apply(*operands).shape, generator=rng, dtype=torch.float64)
    step: Any = {"eps": CHECKED, "atol": CHECKED, "rtol": CHECKED, "raise_exception": False}
    return bool(
        torch.autograd.gradcheck(layer.apply, operands, **step)
        and torch.autograd.gradgradcheck(layer.apply, operands, sent.requires_grad_(), **step)
    )


def drawn_operands(layer: Layer, rng: torch.Generator, shapes: Any) -> tuple[Tensor, ...]:
    """Draw what a layer computes with; floating-point tensors ask for gradients."""
    drawn = layer.draw(rng, shapes) if layer.draw else [randn(rng, *shape) for shape in shapes]
    return tuple(given.requires_grad_() if given.is_floating_point() else given for given in drawn)


@final
class LayeredClassifier(nn.Module):
    r"""Classifies with three layers that are rows of `LAYERS` and nothing else.

    A tanh layer, a residual layer whose branch is a hard tanh, and for each class the largest of a
    few linear pieces.

    Shapes:
        x: (B, n_in); returns (B, n_out) logits

    Args:
        n_in: Width of the input.
        width: Units of the two hidden layers.
        n_out: Number of classes.
        pieces: Linear functions of which each class takes the largest.
        rng: Draws weights and biases, uniform in $\pm1/\sqrt n$ like those of `nn.Linear`; by
            default torch's global generator.

    Example:
        >>> net = LayeredClassifier(64, rng=torch.Generator().manual_seed(0))
        >>> logits = net(torch.ones(5, 64))
        >>> torch.allclose(logits, net(torch.ones(5, 64), by="reference"))
        True
    """

    @checked
    def __init__(
        self, n_in: PositiveInt, *, width: PositiveInt = 64, n_out: PositiveInt = 10,
        pieces: PositiveInt = 2, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.pieces = pieces
        widths = itertools.pairwise((n_in, width, width, n_out * pieces))
        for number, (n, m) in enumerate(widths, start=1):
            for name, shape in ((f"W{number}", (m, n)), (f"b{number}", (m,))):
                drawn = torch.empty(shape).uniform_(-(n**-0.5), n**-0.5, generator=rng)
                self.register_parameter(name, nn.Parameter(drawn))

    def forward(
        self, x: Float[Tensor, "B n"], by: Literal["apply", "reference"] = "apply"
    ) -> Float[Tensor, "B K"]:
        """Compute logits by the hand-written rules, or by torch's own functions."""
        layer = {name: getattr(row, by) for name, row in LAYERS.items()}
        h = layer["elementwise"](layer["linear"](x, self.W1, self.b1))
        z = layer["broadcast_add"](layer["linear"](h, self.W2), self.b2)
        h = layer["residual"](h, layer["hardtanh"](z))
        z = layer["linear"](h, self.W3, self.b3)
        return layer["max"](z.unflatten(1, (-1, self.pieces)))

r"""Activation functions: what a unit makes of its field, and how much gradient it lets through.

Between linear layers stands a function of one number, $z=w^\top x+b$. The sigmoid and the
hyperbolic tangent are one function up to scale and shift, so that a network of one kind is a
network of the other with other weights; but the sigmoid's derivative never exceeds $\frac14$, and
$L$ such layers shrink a gradient at least $4^L$ times where no weight makes up for it. The
rectifier and the absolute value are linear on either side of a kink, where any slope between the
two one-sided ones is a subgradient; torch takes 0. GELU weighs its input by a Gaussian probability.

$$ \tanh x = 2\sigma(2x)-1, \quad \sigma' = \sigma(1-\sigma) = \tfrac14\big(1-\tanh^2\tfrac x2\big),
\quad \tanh' = 1-\tanh^2 = 4\sigma(2x)\big(1-\sigma(2x)\big), \quad
\sigma^{-1}(y) = \ln\frac y{1-y} $$

$$ W_1' = 2W_1, \quad b_1' = 2b_1, \quad W_2' = 2W_2, \quad b_2' = b_2-W_2\mathbf 1 $$

$$ (z)_+ = \tfrac12(z+|z|), \quad \partial(z)_+\big|_0 = [0,1], \quad \partial|z|\big|_0 = [-1,1],
\quad \frac d{dx}x\Phi(\alpha x) = \frac{\alpha x}{\sqrt{2\pi}}e^{-(\alpha x)^2/2}+\Phi(\alpha x) $$

Symbols:
    $z, x$: field of a unit, which its activation gets
    $\sigma, \sigma^{-1}$: logistic function, `nn.Sigmoid`, and its inverse, `inverse_sigmoid`
    $\varphi'$: derivative of an activation, `ACTIVATIONS[name].derivative`
    $W_l, b_l; W_l', b_l'$: weights of a tanh network and of the sigmoid one, `tanh_to_sigmoid`
    $(z)_+, |z|$: `nn.ReLU` and `AVU`
    $\partial$: subdifferential, the slopes of all lines that stay below, in `Activation.kinks`
    $\Phi, \alpha$: standard normal distribution function and its sharpness in `GELUAlpha`

References:
    Rockafellar (1970), Convex analysis. Princeton University Press. doi:10.1515/9781400873173
    Bengio, Simard and Frasconi (1994), Learning long-term dependencies with gradient descent is
        difficult. IEEE Transactions on Neural Networks 5(2). doi:10.1109/72.279181
    Maas, Hannun and Ng (2013), Rectifier nonlinearities improve neural network acoustic models.
        ICML workshop on deep learning for audio, speech and language processing.
    Hendrycks and Gimpel (2016), Gaussian error linear units (GELUs). arXiv:1606.08415
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine
        learning algorithms. arXiv:1708.07747
"""

__all__ = ["AVU", "Activation", "GELUAlpha", "inverse_sigmoid", "tanh_to_sigmoid"]

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from principia.connectionism.neuron import ACTIVATIONS as UNITS
from principia.connectionism.neuron import EXACT
from principia.lab.params import PositiveFloat, checked, knobs_of, usage_error

Row = TypeVar("Row")
LEAK = 0.01  # slope of torch's leaky ReLU where the field is negative


@final
class AVU(nn.Module):
    r"""Takes the absolute value of its field, $|z|$: two rectifiers back to back.

    Example:
        >>> avu = AVU()
        >>> avu(torch.tensor([-2.0, 0.0, 3.0]))
        tensor([2., 0., 3.])
    """

    def forward(self, z: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Compute the absolute values."""
        return z.abs()


@final
class GELUAlpha(nn.Module):
    r"""Weighs its field by a Gaussian probability, $x\Phi(\alpha x)$; at $\alpha=1$ torch's GELU.

    Args:
        alpha: Sharpness: towards 0 it is $x/2$, towards infinity the rectifier.

    Example:
        >>> gelu = GELUAlpha(alpha=1.0)
        >>> gelu(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])
    """

    @checked
    def __init__(self, *, alpha: PositiveFloat = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Compute the weighted fields."""
        return x * torch.special.ndtr(self.alpha * x)

    def derivative(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        r"""Compute $\alpha x\,\varphi(\alpha x)+\Phi(\alpha x)$, $\varphi$ the normal density."""
        z = self.alpha * x
        return z * (-z.square() / 2).exp() / math.sqrt(2 * math.pi) + torch.special.ndtr(z)


@final
@dataclass(frozen=True)
class Activation:
    """Describes an activation function: a row of the table `ACTIVATIONS`.

    Args:
        module: Makes the torch module, without arguments.
        derivative: Its derivative in closed form; at a kink the one that torch takes.
        sup: Supremum of the absolute value of the derivative.
        kinks: Where the slope jumps, each with the interval between the one-sided slopes.

    Example:
        >>> relu = ACTIVATIONS["relu"]
        >>> relu.module(), relu.derivative(torch.tensor([-1.0, 2.0])), relu.sup, relu.kinks
        (ReLU(), tensor([0., 1.]), 1.0, {0.0: (0.0, 1.0)})
    """

    module: Callable[[], nn.Module]
    derivative: Callable[[Tensor], Tensor]
    sup: PositiveFloat = 1.0
    kinks: Mapping[float, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        knobs_of(type(self).__init__)["sup"].accept("Activation", self.sup)


class Table(dict[str, Row]):
    """A table that names all its rows when it is asked for one that it does not have."""

    def __init__(self, owner: str, **rows: Row) -> None:
        super().__init__(rows)
        self.owner = owner

    def __missing__(self, name: Any) -> Row:
        raise usage_error(self.owner, "name", f"one of {', '.join(map(repr, self))}", name)


ACTIVATIONS: Mapping[str, Activation] = Table(
    "ACTIVATIONS",
    identity=Activation(nn.Identity, UNITS["identity"].slope),
    sigmoid=Activation(nn.Sigmoid, UNITS["sigmoid"].slope, 0.25),
    tanh=Activation(nn.Tanh, UNITS["tanh"].slope),
    relu=Activation(nn.ReLU, UNITS["relu"].slope, kinks={0.0: (0.0, 1.0)}),
    leaky_relu=Activation(
        functools.partial(nn.LeakyReLU, LEAK), lambda z: torch.ones_like(z).where(z > 0, LEAK),
        kinks={0.0: (LEAK, 1.0)},
    ),
    hardtanh=Activation(
        nn.Hardtanh, lambda z: (z.abs() < 1).to(z), kinks={-1.0: (0.0, 1.0), 1.0: (0.0, 1.0)}
    ),
    gelu=Activation(
        nn.GELU, GELUAlpha().derivative,
        float(GELUAlpha().derivative(torch.tensor(2.0, dtype=torch.float64).sqrt())),
    ),
    softplus=Activation(functools.partial(nn.Softplus, threshold=EXACT), UNITS["softplus"].slope),
    avu=Activation(AVU, torch.sign, kinks={0.0: (-1.0, 1.0)}),
)


def inverse_sigmoid(y: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Finds the field behind the output of a sigmoid unit, $\ln\frac y{1-y}$.

    Example:
        >>> inverse_sigmoid(torch.tensor([0.5, 0.75]))
        tensor([0.0000, 1.0986])
    """
    outside = ~((y > 0) & (y < 1))
    if outside.any():
        hint = "No finite field gives it: clamp y, or keep the field."
        raise usage_error("inverse_sigmoid", "y", "in (0, 1)", float(y[outside][0]), hint)
    return y.log() - (-y).log1p()


@torch.no_grad()
def tanh_to_sigmoid(mlp: nn.Module) -> nn.Module:
    r"""Converts a tanh `MLP` into a sigmoid `MLP` with the same outputs, layer by layer.

    As $\tanh z=2\sigma(2z)-1$, a layer that hears hidden units gets the weights $2W$ and the bias
    $b-W\mathbf 1$, and a layer of hidden units is doubled as a whole. What stands behind the last
    layer stays.

    Example:
        >>> from principia.networks.mlp import MLP
        >>> net = MLP([2, 5, 5, 1], activation="tanh", rng=torch.Generator().manual_seed(0))
        >>> other, x = tanh_to_sigmoid(net), torch.tensor([[0.3, -0.7]])
        >>> other.activation, torch.allclose(other(x), net(x), atol=1e-6)
        ('sigmoid', True)
    """
    named = vars(mlp)  # an MLP knows the names of its activations
    if named.get("activation") != "tanh" or "out_activation" not in named:
        got = named.get("activation", type(mlp).__name__)
        hint = "Only tanh is a sigmoid up to scale and shift."
        raise usage_error("tanh_to_sigmoid", "mlp", "an MLP with activation='tanh'", got, hint)
    layers: Any = mlp.layers
    for part in (*mlp.norms, *mlp.drops):  # type: ignore[misc]
        domain = "an MLP without norm and dropout"
        hint = "A norm would see doubled sums, and a sigmoid that is dropped stands for tanh = -1."
        raise usage_error("tanh_to_sigmoid", "mlp", domain, part, hint)
    kept = {"out_activation": named["out_activation"], "rng": torch.Generator()}
    made: Any = type(mlp)(mlp.sizes, activation="sigmoid", **kept).to(next(mlp.parameters()))
    for number, (old, new) in enumerate(zip(layers, made.layers, strict=True), start=1):
        W, b = old.weight, 0 if old.bias is None else old.bias
        if number > 1:
            W, b = 2 * W, b - W.sum(dim=1)  # it hears 2s - 1 no more, but s
        if number < len(layers):
            W, b = 2 * W, 2 * b
        new.weight.copy_(W)
        new.bias.copy_(torch.as_tensor(b))
    return made

r"""Weight normalization: every unit learns the length and the direction of its weights apart.

A weight vector is written as a length times a direction, and both are learned. The direction is
kept as a vector of any length, of which the output knows nothing: so its gradient stands at right
angles to it, every step makes it longer, never shorter, and the longer it is, the less a step turns
it. A learning rate that is too large thus lowers itself. Batch normalization divides by the spread
of the sums over a batch; where the inputs are white that spread is the length of the weights, and
the two are one. But weight normalization needs no batch: a sample's output does not depend on its
company, workers need not tell each other statistics, and in use the two factors are multiplied
once and for all. What it lacks is the right scale of the data; one batch at the start gives that.

$$ w = \gamma\,\frac v{\Vert v\Vert}, \quad
\frac{\partial\ell}{\partial\gamma} = \frac{v^\top}{\Vert v\Vert}\frac{\partial\ell}{\partial w},
\quad \frac{\partial\ell}{\partial v} = \frac\gamma{\Vert v\Vert}
\Big(I-\frac{ww^\top}{\Vert w\Vert^2}\Big)\frac{\partial\ell}{\partial w} $$

$$ v^\top\ell_v = 0, \quad v^+ = v-\eta\,\ell_v, \quad
\Vert v^+\Vert^2 = \Vert v\Vert^2+\eta^2\Vert\ell_v\Vert^2, \quad
\ell_v = \frac{\partial\ell}{\partial v} $$

$$ \mathrm E\,x = 0,\ \mathrm{Cov}(x) = I: \quad
\gamma\,\frac{v^\top x}{\Vert v\Vert}+b = \mathrm{BN}(v^\top x); \quad
\gamma_0 = \frac1\sigma,\ b_0 = -\frac\mu\sigma $$

Symbols:
    $w, b$: weights of one unit, a row of `layer.weight`, and its bias
    $\gamma, v$: length and direction, torch's `original0` and `original1` of `normalize_weights`
    $\ell_\gamma, \ell_v, \ell_w$: gradients of the loss with respect to each of them; the first two
        come from the third by `weight_norm_gradient`
    $\eta$: learning rate; what turns the direction is $\eta/\Vert v\Vert^2$
    $\mathrm{BN}$: batch normalization with scale $\gamma$ and level $b$
    $\gamma_0, b_0$: where `data_dependent_init` starts; $\mu, \sigma$ are mean and standard
        deviation of $v^\top x/\Vert v\Vert$ over a batch

References:
    Ioffe and Szegedy (2015), Batch normalization: accelerating deep network training by reducing
        internal covariate shift. ICML. arXiv:1502.03167
    Salimans and Kingma (2016), Weight normalization: a simple reparameterization to accelerate
        training of deep neural networks. NeurIPS. arXiv:1602.07868
    van Laarhoven (2017), L2 regularization versus batch and weight normalization. arXiv:1706.05350
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine
        learning algorithms. arXiv:1708.07747
"""

__all__ = ["normalize_weights", "data_dependent_init", "merge", "weight_norm_gradient"]

from contextlib import ExitStack
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from principia.lab.params import usage_error
from principia.regularization.norm_constraint import UNITS

Model = TypeVar("Model", bound=nn.Module)


def normalize_weights(model: Model) -> Model:
    r"""Splits the weights of all Linear and Conv layers, in place, into length and direction.

    The function stays what it is: $\gamma=\Vert v\Vert$ at first. The optimizer must be made
    afterwards, since the parameters are new ones. For a single layer this is torch's own
    `weight_norm`, with one length for each unit.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, 4.0]]))
        >>> sorted(name for name, _ in normalize_weights(layer).named_parameters())[1:]
        ['parametrizations.weight.original0', 'parametrizations.weight.original1']
        >>> layer.parametrizations.weight.original0.data
        tensor([[5.]])
    """
    layers = {name: one for name, one in model.named_modules() if isinstance(one, UNITS)}
    owner = "normalize_weights"
    if not layers:
        raise usage_error(owner, "model", "one with Linear or Conv layers", type(model).__name__)
    for name, layer in layers.items():
        where = name or type(layer).__name__
        if parametrize.is_parametrized(layer, "weight"):
            hint = f"Those of {where} have another parametrization: remove it first."
            if _is_split(layer):
                hint = f"The weights of {where} are split already: merge(model) first."
            raise usage_error(owner, "model", "one with plain weights", type(layer).__name__, hint)
        if unit := _first(~layer.weight.detach().flatten(1).any(dim=1)):
            hint = f"Unit {unit} of {where} has none, and no direction: start it at random."
            raise usage_error(owner, "model", "one without zero weight vectors", 0, hint)
    for layer in layers.values():
        parametrizations.weight_norm(layer)
    return model


def _is_split(layer: Any) -> bool:
    return parametrize.is_parametrized(layer, "weight") and isinstance(
        layer.parametrizations["weight"][0], parametrizations._WeightNorm
    )


def _first(wrong: Tensor) -> int:
    """Count from 1 to the first unit with which something is wrong; 0 where there is none."""
    return int(wrong.int().argmax()) + 1 if bool(wrong.any()) else 0


@torch.no_grad()
def data_dependent_init(model: Model, x: Float[Tensor, "B ..."]) -> Model:
    r"""Gives every unit sums of mean 0 and variance 1 on a batch.

    That is $\gamma=1/\sigma$ and $b=-\mu/\sigma$, set in place and in one pass, layer after layer:
    each sees what those before it now give. The directions stay as they are.

    Args:
        model: Network whose weights are normalized, with biases; no layer is used twice.
        x: Batch of inputs.

    Example:
        >>> net = normalize_weights(nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 3)))
        >>> x = torch.rand(100, 20)
        >>> variances = data_dependent_init(net, x)(x).detach().var(dim=0, correction=0)
        >>> torch.allclose(variances, torch.ones(3), atol=1e-4)
        True
    """
    owner, layers = "data_dependent_init", normalized_layers("data_dependent_init", model)
    if bare := [name for name, layer in layers.items() if layer.bias is None]:
        hint = "Only a bias can give a unit mean 0."
        raise usage_error(
            owner, "model", "one with biases", f"{bare[0] or 'a layer'} without", hint
        )
    unseen = {layer: name or type(layer).__name__ for name, layer in layers.items()}

    def start(layer: Any, inputs: tuple[Tensor, ...], sums: Tensor) -> Tensor:
        name = unseen.pop(layer, "")
        if not name:
            hint = "The second use would undo what the first has set."
            raise usage_error(
                owner, "model", "one that uses each layer once", "one used twice", hint
            )
        axis = -1 if isinstance(layer, nn.Linear) else 1
        variance, mean = torch.var_mean(sums.movedim(axis, 0).flatten(1), 1, correction=0)
        sigma = variance.sqrt()
        if unit := _first(sigma <= 1e-6 * mean.abs()):  # what rounding leaves of a constant
            hint = f"Unit {unit} of {name} gives one sum for all: take a larger batch."
            raise usage_error(
                owner, "x", "a batch on which every unit varies", tuple(x.shape), hint
            )
        gamma, _ = halves(layer)
        gamma.div_(sigma.view_as(gamma))
        layer.bias.sub_(mean).div_(sigma)
        return layer.forward(*inputs)

    with ExitStack() as hooks:
        for layer in layers.values():
            hooks.enter_context(layer.register_forward_hook(start))
        model(x)
    return model


def normalized_layers(owner: str, model: nn.Module) -> dict[str, Any]:
    """Find the layers with normalized weights; a model without is refused."""
    layers = {
        name: layer for name, layer in model.named_modules()
        if isinstance(layer, UNITS) and _is_split(layer)
    }
    if not layers:
        hint, domain = "Call normalize_weights(model) first.", "one with normalized weights"
        raise usage_error(owner, "model", domain, type(model).__name__, hint)
    return layers


def halves(layer: Any) -> tuple[Tensor, Tensor]:
    """Give the parameters of a normalized layer: the lengths (m, 1, ...) and the directions."""
    weight = layer.parametrizations.weight
    return weight.original0, weight.original1


def merge(model: Model) -> Model:
    r"""Multiplies lengths and directions, in place, into the plain weights that are used later.

    Example:
        >>> net = normalize_weights(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))
        >>> [name for name, _ in merge(net).named_parameters()]
        ['0.bias', '0.weight', '2.bias', '2.weight']
    """
    for layer in normalized_layers("merge", model).values():
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
    return model


def weight_norm_gradient(
    grad_w: Float[Tensor, " m *n"], gamma: Float[Tensor, " m"], v: Float[Tensor, " m *n"]
) -> tuple[Float[Tensor, " m"], Float[Tensor, " m *n"]]:
    r"""Turns the gradient of the weights into those of lengths and directions, unit by unit.

    Args:
        grad_w: Gradient of the loss with respect to $w=\gamma v/\Vert v\Vert$, one row a unit.
        gamma: Lengths.
        v: Directions, of any length but 0.

    Returns:
        Gradient with respect to $\gamma$, and that with respect to $v$.

    Example:
        >>> grad_w, v = torch.tensor([[1.0, 1.0]]), torch.tensor([[0.0, 2.0]])
        >>> weight_norm_gradient(grad_w, torch.tensor([6.0]), v)
        (tensor([1.]), tensor([[3., 0.]]))
    """
    owner, shapes = "weight_norm_gradient", (grad_w.shape, gamma.shape, v.shape)
    if grad_w.shape != v.shape or gamma.shape != v.shape[:1]:
        got, domain = tuple(map(tuple, shapes)), "of shapes (m, ...), (m,) and (m, ...)"
        raise usage_error(owner, "grad_w, gamma, v", domain, got)
    length = v.flatten(1).norm(dim=1, keepdim=True)
    if unit := _first(length == 0):
        raise usage_error(owner, "v", "rows other than 0", 0, f"Unit {unit} has no direction.")
    direction, slope = v.flatten(1) / length, grad_w.flatten(1)
    along = (direction * slope).sum(dim=1, keepdim=True)
    across = slope - along * direction  # (I - ww^T / |w|^2) grad_w, also where gamma is 0
    return along[:, 0], (gamma[:, None] / length * across).view_as(v)

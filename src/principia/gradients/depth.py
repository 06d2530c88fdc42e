r"""Gradients through many layers: a product of Jacobians shrinks, explodes or loses directions.

What a layer learns comes through the transposed Jacobians of all the layers above it. Linear
networks show it without disguise: the gradient of one factor is the error between the product above
and the product below, and of the data it sees second moments only. With all weights 0 nothing
moves, and from three layers on nothing even bends. A factor $g$ a layer is a factor $g^{L-1}$ at
the first one; and if no factor shrinks on average, the product still does along most directions:
its condition number grows exponentially, unless the layers are orthogonal. Sigmoid units, whose
slope is $\frac14$ at most, shrink signals further. Residual layers add to the identity and keep
their gradients.

$$ \ell = \tfrac12\mathrm E\Vert Ax-y\Vert^2, \quad A = W^L\cdots W^1, \quad
\frac{\partial\ell}{\partial W^l} =
[W^L\cdots W^{l+1}]^\top(A\Sigma-\Gamma^\top)[W^{l-1}\cdots W^1]^\top $$

$$ \Sigma = \mathrm E[xx^\top], \quad \Gamma = \mathrm E[xy^\top], \quad
\text{for one sample}\quad A\Sigma-\Gamma^\top = (Ax-y)x^\top $$

$$ \frac1L\ln\frac{\sigma_1(A)}{\sigma_n(A)} \to
\frac12\big(\psi(\tfrac n2)-\psi(\tfrac12)\big) \quad\text{for}\quad
W^l_{ij}\sim N(0,\tfrac1n)\ \text{independent} $$

Symbols:
    $W^l$: weights (m_l, m_{l-1}) of layer $l$ of $L$, entry `l - 1` of `Ws`
    $A$: the product of all layers, what the network computes
    $\Sigma, \Gamma$: second moments (n, n) of the inputs, `Sigma`, and (n, m) with the targets
    $\partial\ell/\partial W^l$: `deep_linear_gradient`, for all layers `deep_linear_gradients`
    $\sigma_1, \sigma_n$: largest and smallest singular value, ends of `jacobian_spectrum`
    $\psi$: digamma function, the derivative of $\ln\Gamma$ (there the gamma function)
    $g$: factor by which a layer stretches every direction, `gain`

References:
    Newman (1986), The distribution of Lyapunov exponents: exact results for random matrices.
        Communications in Mathematical Physics 103(1). doi:10.1007/BF01464284
    Baldi and Hornik (1989), Neural networks and principal component analysis: learning from
        examples without local minima. Neural Networks 2(1). doi:10.1016/0893-6080(89)90014-2
    Bengio, Simard and Frasconi (1994), Learning long-term dependencies with gradient descent is
        difficult. IEEE Transactions on Neural Networks 5(2). doi:10.1109/72.279181
    Glorot and Bengio (2010), Understanding the difficulty of training deep feedforward neural
        networks. AISTATS. https://proceedings.mlr.press/v9/glorot10a.html
    Saxe, McClelland and Ganguli (2014), Exact solutions to the nonlinear dynamics of learning in
        deep linear neural networks. ICLR. arXiv:1312.6120
    Kawaguchi (2016), Deep learning without poor local minima. NeurIPS. arXiv:1605.07110
"""

__all__ = [
    "deep_linear_gradient", "deep_linear_gradients", "gradient_profile", "jacobian_spectrum",
]

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.params import PositiveInt, checked, usage_error

Matrix = Float[Tensor, "_ _"]


@checked
def deep_linear_gradient(
    Ws: Sequence[Matrix], Sigma: Matrix, Gamma: Matrix, l: PositiveInt  # noqa: E741
) -> Matrix:
    r"""Computes the gradient of $\frac12\mathrm E\Vert W^L\cdots W^1x-y\Vert^2$ by one layer.

    Args:
        Ws: The weights $W^1, \dots, W^L$, the first layer first.
        Sigma: Second moments of the inputs, $\mathrm E[xx^\top]$; of one sample $xx^\top$.
        Gamma: Second moments with the targets, $\mathrm E[xy^\top]$, an input a row.
        l: Which layer, from 1 to $L$.

    Example:
        >>> Ws = [torch.tensor([[3.0]]), torch.tensor([[2.0]])]  # (6x - y)x times 2 for x, y = 1, 5
        >>> deep_linear_gradient(Ws, torch.tensor([[1.0]]), torch.tensor([[5.0]]), 1)
        tensor([[2.]])
    """
    if l > len(Ws) > 0:
        raise usage_error("deep_linear_gradient", "l", f"one of the {len(Ws)} layers, from 1", l)
    return deep_linear_gradients(Ws, Sigma, Gamma)[l - 1]


def deep_linear_gradients(Ws: Sequence[Matrix], Sigma: Matrix, Gamma: Matrix) -> list[Matrix]:
    r"""Computes the gradients of all layers, with $3L$ matrix products instead of some $L^2$.

    The arguments are those of `deep_linear_gradient`. The products below come from one pass
    forward, and one pass back pulls the error through the products above.

    Example:
        >>> Ws = [torch.eye(2), 2 * torch.eye(2), torch.ones(1, 2)]
        >>> gradients = deep_linear_gradients(Ws, torch.eye(2), torch.ones(2, 1))
        >>> [tuple(one.shape) for one in gradients], gradients[2]
        ([(2, 2), (2, 2), (1, 2)], tensor([[2., 2.]]))
    """
    _need_sizes(Ws, Sigma, Gamma)
    below = [torch.eye(len(Sigma)).to(Sigma)]  # W^{l-1} ... W^1
    for W in Ws:
        below.append(W @ below[-1])
    error, gradients = below.pop() @ Sigma - Gamma.mT, []
    for W, product in zip(reversed(Ws), reversed(below), strict=True):
        gradients.append(error @ product.mT)
        error = W.mT @ error
    return gradients[::-1]


def _need_sizes(Ws: Sequence[Tensor], Sigma: Tensor, Gamma: Tensor) -> None:
    """Refuse layers that do not fit each other, and statistics that do not fit the layers."""
    owner = "deep_linear_gradient"
    if not Ws:
        raise usage_error(owner, "Ws", "one matrix or more", list(Ws))
    for number, (W, above) in enumerate(itertools.pairwise(Ws), start=2):
        if above.shape[1] != len(W):
            domain = f"of width {len(W)} at layer {number}, the outputs of the layer before"
            hint = "List the first layer first."
            raise usage_error(owner, "Ws", domain, f"shape {tuple(above.shape)}", hint)
    n, m = Ws[0].shape[1], len(Ws[-1])
    for name, found, shape in (("Sigma", Sigma, (n, n)), ("Gamma", Gamma, (n, m))):
        if found.shape != shape:
            hint = "Gamma has an input a row: X.T @ Y / len(X)." if name == "Gamma" else ""
            raise usage_error(owner, name, f"of shape {shape}", tuple(found.shape), hint)


def deep_linear_loss(Ws: Sequence[Matrix], X: Matrix, Y: Matrix) -> Float[Tensor, ""]:
    r"""Give $\frac12\mathrm E\Vert W^L\cdots W^1x-y\Vert^2$ over samples, rows of X and Y."""
    A = functools.reduce(lambda A, W: W @ A, Ws, torch.eye(X.shape[1]).to(X))
    return (X @ A.mT - Y).square().sum() / (2 * len(X))


@checked
def gradient_profile(
    net: nn.Module, x: Float[Tensor, "..."], y: Shaped[Tensor, "..."],
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy, *,
    of: Literal["weights", "outputs"] = "weights",
) -> dict[str, float]:
    r"""Measures the norm of the gradient of a loss at every layer of a network, by hooks.

    A layer is a module with parameters of its own. The gradients that the network may hold are left
    as they are.

    Args:
        net: Any network.
        x: Inputs, one a row.
        y: Targets, as the loss takes them.
        loss: Gives a scalar for outputs and targets.
        of: Gradient with respect to the weights of a layer, its bias among them, or with respect to
            its outputs, which is the signal that goes back.

    Returns:
        The norm for each layer under its name, in the order of `net.named_modules()`.

    Example:
        >>> net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
        >>> _ = nn.init.constant_(net[0].weight, 3), nn.init.constant_(net[1].weight, 2)
        >>> gradient_profile(net, torch.ones(1, 1), torch.zeros(1, 1), F.mse_loss)
        {'0': 24.0, '1': 36.0}
    """
    owners = {name: [*one.parameters(recurse=False)] for name, one in net.named_modules()}
    layers = {name: net.get_submodule(name) for name, own in owners.items() if own}
    learned = [one for one in net.parameters() if one.requires_grad]
    if not learned:
        raise usage_error("gradient_profile", "net", "a network with parameters that learn", net)
    squares, handles = dict.fromkeys(layers, 0.0), []

    def note(name: str, gradient: Tensor) -> None:
        squares[name] += gradient.double().square().sum().item()

    def watch(name: str, tensor: Tensor) -> None:
        if tensor.requires_grad:
            handles.append(tensor.register_hook(functools.partial(note, name)))

    for name, layer in layers.items():
        if of == "outputs":
            handles.append(layer.register_forward_hook(lambda *seen, at=name: watch(at, seen[-1])))
        for parameter in owners[name] if of == "weights" else []:
            watch(name, parameter)
    try:
        with torch.enable_grad():
            value = loss(net(x), y)
        if value.ndim:
            got = f"shape {tuple(value.shape)}"
            raise usage_error(
                "gradient_profile", "loss", "reduced to a scalar", got, "Take its mean."
            )
        torch.autograd.grad(value, learned, allow_unused=True)  # the hooks see it pass
    finally:
        for handle in handles:
            handle.remove()
    return {name: square**0.5 for name, square in squares.items()}


def jacobian_spectrum(
    net: Callable[[Tensor], Tensor], x: Float[Tensor, "*B n"]
) -> Float[Tensor, "*B k"]:
    r"""Finds the singular values of the Jacobian of the outputs by the inputs, the largest first.

    Each output is pulled back through the network, all outputs and all samples in one batch.

    Args:
        net: A network, or any function that maps every row by itself.
        x: Inputs (..., n).

    Example:
        >>> jacobian_spectrum(lambda x: x * torch.tensor([1.0, -3.0]), torch.zeros(2, 2))
        tensor([[3., 1.],
                [3., 1.]])
    """
    outputs, pull_back = torch.func.vjp(net, x)[:2]
    if outputs.shape[:-1] != x.shape[:-1]:
        domain = f"one whose outputs for x have shape {(*x.shape[:-1], 'm')}"
        raise usage_error("jacobian_spectrum", "net", domain, tuple(outputs.shape))
    m = outputs.shape[-1]
    units = torch.eye(m).to(outputs).view(m, *[1] * (x.ndim - 1), m).expand(m, *outputs.shape)
    (rows,) = torch.vmap(pull_back)(units)  # (m, *B, n)
    return torch.linalg.svdvals(rows.movedim(0, -2))

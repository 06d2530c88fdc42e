r"""Backpropagation: the gradient of a layered network in one pass forward and one pass back.

The derivative of a composition is a product of Jacobians. Multiplied from the side of the loss it
is a matrix times a vector at every layer: the error signal $\delta^l$, the gradient with respect to
the outputs of layer $l$, goes back through the transposed Jacobian of the layer above. What the
forward pass stored then gives the gradient of the weights as an outer product of the signal and the
inputs; a batch in rows sums these by one matrix product a layer. The way back costs about two
passes forward, whatever the number of weights. The transposition belongs to Jacobians whose rows
are the outputs; where columns are, there is none, and who mixes both layouts gets another vector.

$$ z^l = W^lx^{l-1}+b^l, \quad x^l = F^l(x^{l-1}) = \varphi(z^l), \quad
\frac{\partial F^l}{\partial x^{l-1}} = \mathrm{diag}(\dot\varphi^l)\,W^l, \quad
\dot\varphi^l = \varphi'(z^l) $$

$$ \delta^L = \frac{\partial\ell}{\partial x^L}, \quad
\delta^l = \Big[\frac{\partial F^{l+1}}{\partial x^l}\Big]^\top\delta^{l+1}
= W^{l+1\top}(\delta^{l+1}\odot\dot\varphi^{l+1}) $$

$$ \frac{\partial\ell}{\partial\theta^l} =
\Big[\frac{\partial F^l}{\partial\theta^l}\Big]^\top\delta^l, \quad
\frac{\partial\ell}{\partial W^l} = (\delta^l\odot\dot\varphi^l)\,x^{l-1\top}, \quad
\frac{\partial\ell}{\partial b^l} = \delta^l\odot\dot\varphi^l $$

Symbols:
    $x^l, z^l$: outputs of layer $l$ and the fields inside it; $x^0$ is the input
    $W^l, b^l, \theta^l$: weight and bias of `mlp.layers[l - 1]`; any parameters of a layer
    $\varphi, \dot\varphi^l$: activation of `ACTIVATIONS`, and its derivative at the fields
    $F^l$: layer $l$ of $L$; its Jacobian, a row for each output, is `layer_jacobian`
    $\ell$: a loss of the outputs and targets of a batch, reduced to a scalar
    $\delta^l$: error signal, entry `l` of `error_signals`
    $\odot$: product coordinate by coordinate

References:
    Linnainmaa (1976), Taylor expansion of the accumulated rounding error. BIT Numerical Mathematics
        16(2). doi:10.1007/BF01931367
    Rumelhart, Hinton and Williams (1986), Learning representations by back-propagating errors.
        Nature 323. doi:10.1038/323533a0
    LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document
        recognition. Proceedings of the IEEE 86(11). doi:10.1109/5.726791
    Griewank and Walther (2008), Evaluating derivatives: principles and techniques of algorithmic
        differentiation. SIAM. doi:10.1137/1.9780898717761
    Magnus and Neudecker (2019), Matrix differential calculus with applications in statistics and
        econometrics, ch. 9. Wiley. doi:10.1002/9781119541219
"""

__all__ = ["backprop", "BackpropTrainer", "error_signals", "layer_jacobian"]

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.params import PositiveFloat, checked, usage_error
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import MLP, ActivationName

Loss = Callable[[Tensor, Tensor], Tensor]
GRAPH = "The page gradients/graph differentiates any acyclic graph."
# by kind and settings: the name alone would not tell LeakyReLU(0.2) from the one in the table
DERIVATIVES = {
    (type(module), repr(module)): row.derivative
    for row in ACTIVATIONS.values() for module in [row.module()]
}


@torch.no_grad()
def backprop(
    mlp: nn.Module, x: Float[Tensor, "B n"], y: Shaped[Tensor, "B ..."],
    loss: Loss = F.cross_entropy,
) -> tuple[Float[Tensor, ""], dict[str, Float[Tensor, "..."]]]:
    r"""Computes a loss and its gradient by the recursion, on plain tensors and without a graph.

    Args:
        mlp: An `MLP` without norm and dropout.
        x: Inputs, one a row.
        y: Targets, as the loss takes them.
        loss: Gives a scalar for outputs and targets. The derivatives of `F.cross_entropy` and
            `F.mse_loss` are known here; any other loss, but not the network, is asked of autograd.

    Returns:
        The loss, and the gradient of each parameter under its name in `mlp.named_parameters()`.

    Example:
        >>> mlp = MLP([3, 5, 2], rng=torch.Generator().manual_seed(0))
        >>> value, grads = backprop(mlp, torch.eye(3), torch.tensor([0, 1, 1]))
        >>> {name: tuple(one.shape) for name, one in grads.items()}["layers.0.weight"]
        (5, 3)
    """
    outputs, slopes = forward_pass("backprop", mlp, x)
    value, delta = loss_and_delta("backprop", loss, outputs[-1], y)
    return value, weight_gradients(mlp, outputs, backward_pass(mlp, slopes, delta)[1])


def forward_pass(owner: str, mlp: Any, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    r"""List $x^0, ..., x^L$ and the derivatives $\dot\varphi^1, ..., \dot\varphi^L$."""
    layers = list(mlp.layers) if type(mlp) is MLP else []
    if not layers or any(type(one) is not nn.Linear for one in layers):
        raise usage_error(owner, "mlp", "an MLP whose layers are nn.Linear", mlp, GRAPH)
    if mlp.norms or mlp.drops:
        domain = "an MLP of linear layers and activations alone"
        raise usage_error(owner, "mlp", domain, [*mlp.norms, *mlp.drops][0], GRAPH)
    if x.shape[1] != layers[0].in_features:
        raise usage_error(owner, "x", f"of width {layers[0].in_features}", tuple(x.shape))
    outputs, slopes = [x], []
    phis = [mlp.phi] * (len(layers) - 1) + [mlp.out_phi]
    derivatives = {phi: _derivative(owner, phi) for phi in dict.fromkeys(phis)}
    for layer, phi in zip(layers, phis, strict=True):
        z = F.linear(outputs[-1], layer.weight, layer.bias)
        outputs.append(phi(z))
        slopes.append(derivatives[phi](z))
    return outputs, slopes


def _derivative(owner: str, phi: nn.Module) -> Callable[[Tensor], Tensor]:
    """Look up the derivative of an activation."""
    derivative = DERIVATIVES.get((type(phi), repr(phi)))
    if derivative is None:
        domain = f"one with a derivative in ACTIVATIONS ({', '.join(ACTIVATIONS)})"
        raise usage_error(owner, "the activation", domain, phi, GRAPH)
    return derivative


def loss_and_delta(owner: str, loss: Loss, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    r"""Give the loss and $\delta^L$, its gradient with respect to the outputs."""
    if loss is F.mse_loss and y.shape != outputs.shape:
        domain = f"of the shape of the outputs, {tuple(outputs.shape)}"
        raise usage_error(owner, "y", domain, tuple(y.shape), "A broadcast would mix the samples.")
    if loss in LOSSES:
        return LOSSES[loss](outputs, y)
    value = loss(outputs, y)
    if value.ndim:
        hint = "Take the mean over the batch, or the sum."
        raise usage_error(
            owner, "loss", "reduced to a scalar, of shape ()", tuple(value.shape), hint
        )
    return value, torch.func.grad(loss)(outputs, y)


def weight_gradients(mlp: Any, outputs: list[Tensor], fields: list[Tensor]) -> dict[str, Tensor]:
    r"""Sum $(\delta\odot\dot\varphi)x^\top$ over the batch, one product a layer."""
    grads = {}
    for place, (layer, x, signal) in enumerate(zip(mlp.layers, outputs[:-1], fields, strict=True)):
        grads[f"layers.{place}.weight"] = signal.mT @ x
        if layer.bias is not None:
            grads[f"layers.{place}.bias"] = signal.sum(dim=0)
    return grads


def backward_pass(
    mlp: Any, slopes: Sequence[Tensor], delta: Tensor, *, last: int = 1
) -> tuple[list[Tensor], list[Tensor]]:
    r"""List $\delta^l$ from layer `last` on, and $\delta^l\odot\dot\varphi^l$ from the first on."""
    deltas, fields = [delta], []
    for number in range(len(slopes), 0, -1):
        fields.append(deltas[-1] * slopes[number - 1])
        if number > last:
            deltas.append(fields[-1] @ mlp.layers[number - 1].weight)  # W'v, samples in rows
    return deltas[::-1], fields[::-1]


@torch.no_grad()
def error_signals(
    mlp: nn.Module, x: Float[Tensor, "B n"], y: Shaped[Tensor, "B ..."],
    loss: Loss = F.cross_entropy,
) -> list[Float[Tensor, "B _"]]:
    r"""Lists every $\delta^l$ from the input to the output: entry `l` has the shape of $x^l$.

    The arguments are those of `backprop`. With a mean loss, row $b$ is the gradient of the loss of
    sample $b$, divided by the number of samples.

    Example:
        >>> mlp, x = MLP([3, 5, 2], rng=torch.Generator().manual_seed(0)), torch.eye(3)
        >>> [tuple(one.shape) for one in error_signals(mlp, x, torch.tensor([0, 1, 1]))]
        [(3, 3), (3, 5), (3, 2)]
    """
    outputs, slopes = forward_pass("error_signals", mlp, x)
    delta = loss_and_delta("error_signals", loss, outputs[-1], y)[1]
    return backward_pass(mlp, slopes, delta, last=0)[0]


@checked
def layer_jacobian(
    W: Float[Tensor, "m n"], b: Float[Tensor, " m"], x: Float[Tensor, "*B n"], phi: ActivationName
) -> Float[Tensor, "*B m n"]:
    r"""Computes the Jacobian $\mathrm{diag}(\dot\varphi(Wx+b))\,W$ of a layer, a row an output.

    Example:
        >>> W, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.zeros(2)
        >>> layer_jacobian(W, b, torch.tensor([1.0, -0.7]), "relu")
        tensor([[0., 0.],
                [3., 4.]])
    """
    return ACTIVATIONS[phi].derivative(F.linear(x, W, b))[..., None] * W


@final
class BackpropTrainer:
    r"""Trains an `MLP` by stochastic gradient descent on the gradients of `backprop`.

    By itself it takes steps. It also is an objective of the lab's `fit`: called, it adds the
    gradients to those of the parameters, as `backward` would, and returns a loss without a graph.

    Args:
        mlp: The network; it is changed in place.
        lr: Learning rate of `optimizer`, which is torch's SGD without momentum.
        loss: As for `backprop`.

    Example:
        >>> x, y = torch.eye(3), torch.tensor([0, 1, 1])
        >>> mlp = MLP([3, 8, 2], rng=torch.Generator().manual_seed(0))
        >>> trainer = BackpropTrainer(mlp, lr=0.5)
        >>> losses = [float(trainer.step(x, y)) for _ in range(100)]
        >>> losses[-1] < 0.1 < losses[0]
        True
        >>> from principia.lab.training import fit
        >>> trained = fit(mlp, (x, y), trainer, trainer.optimizer, epochs=1)
    """

    @checked
    def __init__(
        self, mlp: nn.Module, *, lr: PositiveFloat = 0.1, loss: Loss = F.cross_entropy
    ) -> None:
        self.mlp, self.loss = mlp, loss
        self.optimizer = torch.optim.SGD(mlp.parameters(), lr=lr)

    def __call__(
        self, model: nn.Module, batch: tuple[Tensor, ...], rng: torch.Generator | None = None, /
    ) -> Float[Tensor, ""]:
        """Give the loss of a batch; add its gradients, unless gradients are switched off."""
        if model is not self.mlp:
            hint = "It would set the gradients of one network and leave the other as it is."
            raise usage_error("BackpropTrainer", "model", "the one it was made for", model, hint)
        x, y = batch
        if not torch.is_grad_enabled():
            return self.loss(self.mlp(x), y)
        value, grads = backprop(self.mlp, x, y, self.loss)
        for name, parameter in self.mlp.named_parameters(remove_duplicate=False):
            if parameter.requires_grad:
                before = parameter.grad
                parameter.grad = grads[name] if before is None else before + grads[name]
        return value

    @torch.enable_grad()
    def step(self, x: Float[Tensor, "B n"], y: Shaped[Tensor, "B ..."]) -> Float[Tensor, ""]:
        r"""Move all weights against their gradients on one batch; give the loss before that."""
        self.optimizer.zero_grad()
        value = self(self.mlp, (x, y))
        self.optimizer.step()
        return value


def _cross_entropy(outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    log_p = outputs.log_softmax(dim=1)
    p = log_p.exp()
    if y.is_floating_point():  # a distribution for each sample
        return F.cross_entropy(outputs, y), (p * y.sum(dim=1, keepdim=True) - y) / len(y)
    hit = torch.arange(p.shape[1], device=y.device) == y[:, None]  # (B, K), one-hot
    counted = hit.any(dim=1, keepdim=True)  # torch leaves out targets of -100
    return F.nll_loss(log_p, y), (p - hit.to(p)) * counted / counted.sum()


LOSSES: Mapping[Loss, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    F.cross_entropy: _cross_entropy,
    F.mse_loss: lambda outputs, y: (F.mse_loss(outputs, y), 2 * (outputs - y) / y.numel()),
}  # each with its derivative with respect to the outputs

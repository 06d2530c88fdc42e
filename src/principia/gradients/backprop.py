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

import copy
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.optim.lr_scheduler import CosineAnnealingLR

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Choice, Positive, Range
from principia.lab.draws import randn
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_most, equal, every, identical
from principia.lab.seeds import Seed
from principia.lab.training import Schedule, Supervised, accuracy, fit
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import MLP, ActivationName

Loss = Callable[[Tensor, Tensor], Tensor]
Batch = Annotated[int, Range(8, 64)]
Width = Annotated[int, Range(2, 32)]
Depth = Annotated[int, Range(2, 8)]
Smooth = Literal["tanh", "sigmoid", "gelu", "softplus", "identity"]
BENT = tuple(name for name in ACTIVATIONS if name != "identity")
STEP = 1e-6  # of the finite differences: rounding and curvature both stay far below 1e-6
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
        mlp: An `MLP`.
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
    outputs, slopes = _forward("backprop", mlp, x)
    value, delta = _top("backprop", loss, outputs[-1], y)
    return value, _gradients(mlp, outputs, _backward(mlp, slopes, delta)[1])


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
    outputs, slopes = _forward("error_signals", mlp, x)
    delta = _top("error_signals", loss, outputs[-1], y)[1]
    return _backward(mlp, slopes, delta, last=0)[0]


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
        >>> trained = fit(mlp, (x, y), trainer, trainer.optimizer, epochs=1)
    """

    @checked
    def __init__(self, mlp: nn.Module, *, lr: Positive = 0.1, loss: Loss = F.cross_entropy) -> None:
        self.mlp, self.loss = mlp, loss
        self.optimizer = torch.optim.SGD(mlp.parameters(), lr=lr)

    def __call__(
        self, model: nn.Module, batch: tuple[Tensor, ...], rng: torch.Generator | None = None, /
    ) -> Float[Tensor, ""]:
        """Give the loss of a batch; add its gradients, unless gradients are switched off."""
        if model is not self.mlp:
            hint = "It would set the gradients of one network and leave the other as it is."
            raise refuse("BackpropTrainer", "model", "the one it was made for", model, hint)
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


def _forward(owner: str, mlp: Any, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    r"""List $x^0, ..., x^L$ and the derivatives $\dot\varphi^1, ..., \dot\varphi^L$."""
    layers = list(mlp.layers) if type(mlp) is MLP else []
    if not layers or any(type(one) is not nn.Linear for one in layers):
        raise refuse(owner, "mlp", "an MLP whose layers are nn.Linear", mlp, GRAPH)
    if x.shape[1] != layers[0].in_features:
        raise refuse(owner, "x", f"of width {layers[0].in_features}", tuple(x.shape))
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
        raise refuse(owner, "the activation", domain, phi, GRAPH)
    return derivative


def _top(owner: str, loss: Loss, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    r"""Give the loss and $\delta^L$, its gradient with respect to the outputs."""
    if loss is F.mse_loss and y.shape != outputs.shape:
        domain = f"of the shape of the outputs, {tuple(outputs.shape)}"
        raise refuse(owner, "y", domain, tuple(y.shape), "A broadcast would mix the samples.")
    if loss in LOSSES:
        return LOSSES[loss](outputs, y)
    value = loss(outputs, y)
    if value.ndim:
        hint = "Take the mean over the batch, or the sum."
        raise refuse(owner, "loss", "reduced to a scalar, of shape ()", tuple(value.shape), hint)
    return value, torch.func.grad(loss)(outputs, y)


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


def _backward(
    mlp: Any, slopes: Sequence[Tensor], delta: Tensor, *, last: int = 1
) -> tuple[list[Tensor], list[Tensor]]:
    r"""List $\delta^l$ from layer `last` on, and $\delta^l\odot\dot\varphi^l$ from the first on."""
    deltas, fields = [delta], []
    for number in range(len(slopes), 0, -1):
        fields.append(deltas[-1] * slopes[number - 1])
        if number > last:
            deltas.append(fields[-1] @ mlp.layers[number - 1].weight)  # W'v, samples in rows
    return deltas[::-1], fields[::-1]


def _gradients(mlp: Any, outputs: list[Tensor], fields: list[Tensor]) -> dict[str, Tensor]:
    r"""Sum $(\delta\odot\dot\varphi)x^\top$ over the batch, one product a layer."""
    grads = {}
    for place, (layer, x, signal) in enumerate(zip(mlp.layers, outputs[:-1], fields, strict=True)):
        grads[f"layers.{place}.weight"] = signal.mT @ x
        if layer.bias is not None:
            grads[f"layers.{place}.bias"] = signal.sum(dim=0)
    return grads


@claim(control={"slope": "left out of δ"}, source="Rumelhart, Hinton and Williams 1986")
def equals_autograd(
    seed: Seed, *, depth: Annotated[int, Range(2, 10)] = 6,
    width: Annotated[int, Range(2, 64)] = 10, batch: Batch = 16,
    slope: Literal["kept", "left out of δ"] = "kept",
) -> Evidence:
    r"""The recursion gives the gradient, by $W^l$ and $b^l$, and at every layer, $\delta^l$."""
    rng, depths, gaps, signals, quotients, bounds = seed.torch(), [], [], [], [], []
    kinds = itertools.product(range(1, depth + 1), ("sigmoid", "tanh", "relu", "gelu"), LOSSES)
    for layers, activation, loss in kinds:
        sizes, out = [5, *[width] * (layers - 1), 3], activation if loss is F.mse_loss else None
        mlp = MLP(sizes, activation=activation, out_activation=out, rng=rng).double()
        x, y = randn(rng, batch, 5), _targets(rng, batch, loss)
        value, found = (backprop if slope == "kept" else _slopeless)(mlp, x, y, loss)
        exact, deltas = _by_autograd(mlp, x, y, loss)
        depths.append(layers)
        gaps.append(max(_gap(found[name], exact[name]) for name in exact))
        signals += map(_gap, error_signals(mlp, x, y, loss), deltas)

        here, ends, signs = parameters_to_vector(mlp.parameters()).detach(), [], []
        along = randn(rng, len(here)) / width**0.5
        for step in (STEP, -STEP):
            vector_to_parameters(here + step * along, mlp.parameters())
            outputs = mlp.activations(x)
            ends.append(loss(outputs[-1], y).detach())
            signs.append(torch.cat(outputs, dim=1) > 0)
        if torch.equal(*signs):  # no unit crossed its kink
            slopes = [parameters_to_vector(one.values()) for one in (found, exact)]
            quotients.append((ends[0] - ends[1]) / (2 * STEP) - slopes[0] @ along)
            bounds.append(1e-6 * slopes[1].norm() / width**0.5 + 2**-50 * value / STEP)
    rounding = "float64 rounding of sums over a batch and a width, relative to the largest entry"
    return every({
        "gradients": at_most(gaps, 1e-12, why=rounding).drawn(
            Series("relative difference", depths, gaps),
            Series("rounding", [1, depth], [1e-12] * 2, "bound"),
            x="layers", y="largest relative difference from autograd", log="y",
        ),
        "error signals": at_most(signals, 1e-12, why=rounding),
        "finite differences": equal(
            quotients, 0, tol=bounds, why="1e-6 of the gradient's length, and rounding of the loss"
        ),
        "BackpropTrainer": _same_descent(seed.child("steps"), width, depth, batch),
    })


@claim(control={"order": "W diag(φ̇)"}, source="the chain rule")
def layer_jacobian_claim(
    seed: Seed, *, n: Annotated[int, Range(2, 64)] = 8, batch: Batch = 16,
    activation: Annotated[str, Choice(("all", *BENT))] = "all",
    order: Literal["diag(φ̇) W", "W diag(φ̇)"] = "diag(φ̇) W",
) -> Evidence:
    r"""A layer's Jacobian is $\partial F/\partial x=\mathrm{diag}(\dot\varphi(Wx+b))\,W$."""
    rng, parts = seed.torch(), {}
    x = randn(rng, batch, n)
    for name in BENT if activation == "all" else (activation,):
        for m in (n, n + 3):
            W, b = randn(rng, m, n) / n**0.5, randn(rng, m) / 2
            found = layer_jacobian(W, b, x, name)
            if m == n and order == "W diag(φ̇)":
                found = W * ACTIVATIONS[name].derivative(F.linear(x, W, b))[:, None]
            layer = functools.partial(_layer, ACTIVATIONS[name].module(), b, W)
            exact = torch.func.vmap(torch.func.jacrev(layer))(x)
            parts[f"{name}, {m} x {n}"] = identical(found, exact)
    return every(parts)


@claim(
    control={"product": "untransposed"}, source="Griewank and Walther 2008, sec. 3.2",
    misprint=r"$\partial\ell/\partial\theta^l=\delta^l\,\partial h/\partial\theta^l$, and a ratio "
    r"$[h^{l+1}/h^l]^\top$ in place of a Jacobian",
)
def transpose_needed(
    seed: Seed, *, width: Width = 8, depth: Depth = 4, batch: Batch = 8,
    activation: Smooth = "tanh", product: Literal["transposed", "untransposed"] = "transposed",
) -> Evidence:
    r"""Numerator Jacobians pull back transposed: $\delta^l=[\partial F/\partial x]^\top\delta$."""
    mlp, x, y, layers = _square_network(seed, width, depth, batch, activation)
    exact, deltas = _by_autograd(mlp, x, y, F.mse_loss)
    turn = torch.adjoint if product == "transposed" else torch.clone
    gain = torch.ones(width, dtype=x.dtype, requires_grad=True)  # parameters of a layer's inputs
    jacobians, by_weight, by_gain, gain_exact = [], [], [], []
    for (W, b, h), delta in zip(layers, deltas[1:], strict=True):
        layer = functools.partial(_layer, mlp.phi, b)
        of_parameters = torch.func.jacrev(layer, argnums=(0, 2))  # for each sample, (n, p)
        of_W, of_gain = torch.func.vmap(of_parameters, in_dims=(None, 0, None))(W, h, gain.detach())
        jacobians.append(turn(layer_jacobian(W, b, h, activation)))
        by_weight.append(torch.einsum("bpi,bi->p", of_W.flatten(2).mT, delta).view_as(W))
        by_gain.append(torch.einsum("bpi,bi->p", turn(of_gain), delta))
        gain_exact += torch.autograd.grad(layer(W, h, gain), gain, delta)
    return every({
        "δ through the layers": _same_layers(_chain(jacobians, deltas[-1]), deltas),
        "[∂F/∂θ]ᵀδ, a gain of each input": _same_layers(by_gain, gain_exact),
        "[∂F/∂θ]ᵀδ, weights": _same_layers(by_weight, [*exact.values()][::2]),
        "error_signals": _same_layers(error_signals(mlp, x, y, F.mse_loss), deltas),
    })


@claim(
    control={"recursion": "transposed"}, source="Magnus and Neudecker 2019, ch. 9",
    misprint=r"announces the denominator layout, then uses $(\partial F_i/\partial x_j)_{ij}$ and "
    r"transposes",
)
def one_layout(
    seed: Seed, *, width: Width = 8, depth: Depth = 4, batch: Batch = 8,
    activation: Smooth = "tanh", recursion: Literal["plain", "transposed"] = "plain",
) -> Evidence:
    r"""With Jacobians $n\times m$, untransposed: $\delta^l=(\partial F/\partial x)\delta^{l+1}$."""
    mlp, x, y, layers = _square_network(seed, width, depth, batch, activation)
    deltas, numerator, denominator = _by_autograd(mlp, x, y, F.mse_loss)[1], [], []
    for W, b, h in layers:
        numerator.append(layer_jacobian(W, b, h, activation))
        gradient = torch.func.vjp(functools.partial(_layer, mlp.phi, b, W), h)[1]
        outputs = torch.eye(width, dtype=x.dtype)[:, None].expand(-1, len(h), -1)
        denominator.append(torch.stack([gradient(one)[0] for one in outputs], dim=2))  # by columns
    by_rows = _chain([J.mT for J in numerator], deltas[-1])
    turn = torch.adjoint if recursion == "transposed" else torch.clone
    by_columns = _chain([turn(D) for D in denominator], deltas[-1])
    return every({
        "both layouts": _same_layers(by_columns, by_rows),
        "numerator layout and autograd": _same_layers(by_rows, deltas),
        "one is the other transposed": _same_layers([D.mT for D in denominator], numerator),
    })


@claim(control={"over_batch": "sum"}, source="linearity of the derivative")
def batch_gradient_is_mean(
    seed: Seed, *, batch: Annotated[int, Range(2, 256)] = 30,
    width: Annotated[int, Range(2, 64)] = 16, activation: ActivationName = "relu",
    over_batch: Literal["mean", "sum"] = "mean",
) -> Evidence:
    r"""The gradient of the mean loss is the mean of the gradients of the samples."""
    rng, parts = seed.torch(), {}
    mlp = MLP([5, width, width, 3], activation=activation, rng=rng).double()
    x, weights = randn(rng, batch, 5), {k: one.detach() for k, one in mlp.named_parameters()}
    for loss in LOSSES:

        def of_one(weights: Any, x: Tensor, y: Tensor, loss: Loss = loss) -> Tensor:
            return loss(torch.func.functional_call(mlp, weights, x[None]), y[None])

        y = _targets(rng, batch, loss)
        each = torch.func.vmap(torch.func.grad(of_one), in_dims=(None, 0, 0))(weights, x, y)
        samples = torch.cat([one.flatten(1) for one in each.values()], dim=1)  # (B, parameters)
        joined = samples.mean(dim=0) if over_batch == "mean" else samples.sum(dim=0)
        whole = parameters_to_vector(backprop(mlp, x, y, loss)[1].values())
        parts[loss.__name__] = identical(whole, joined)
    return every(parts)


@experiment(
    reaches={"mnist_accuracy": at_least_goal(0.97), "trajectory_difference": at_most_goal(1e-5)},
    floor={"digits_accuracy": at_least_goal(0.93), "trajectory_difference": at_most_goal(1e-5)},
    source="LeCun, Bottou, Bengio and Haffner 1998, fig. 9: 4.7 % error with 300 hidden units; the "
    "goal here is 3 % with 128",
)
def train_digits(
    run: Run, *, epochs: Annotated[int, Range(1, 100)] | None = None,
    lr: Annotated[float, Range(0.001, 2)] = 0.5,
) -> None:
    """Reads digits with one hidden layer that backpropagation trained, without autograd."""
    x, y, x_test, y_test = handwriting(run)
    x, x_test, side = x.flatten(1), x_test.flatten(1), x.shape[-1]
    hidden, epochs, batch_size = (128, epochs or 3, 64) if run.full else (32, epochs or 20, 32)
    mlp = MLP([side**2, hidden, 10], rng=run.seed.child("init").torch())
    run.figure("error_signals_at_first", _signal_figure(mlp, x_test, y_test, side))
    ends = []
    for name in ("backprop", "autograd"):  # the same 100 steps, in float64
        twin = BackpropTrainer(copy.deepcopy(mlp).double(), lr=lr)
        fit(
            twin.mlp, (x[: 100 * batch_size].double(), y[: 100 * batch_size]),
            twin if name == "backprop" else Supervised(F.cross_entropy), twin.optimizer,
            steps=100, batch_size=batch_size, seed=run.seed.child("steps"), run=run, name=name,
        )
        ends.append(parameters_to_vector(twin.mlp.parameters()).detach())
    trainer = BackpropTrainer(mlp, lr=lr)
    history = fit(
        mlp, (x, y), trainer, trainer.optimizer, epochs=epochs, batch_size=batch_size,
        parts=[Schedule(CosineAnnealingLR)], validation=(x_test, y_test),
        metrics={"accuracy": accuracy}, seed=run.seed.child("batches"), run=run, name="digits",
    ).history
    run.keep(mlp)
    reached = "mnist_accuracy" if run.full else "digits_accuracy"
    run.record(**{reached: history[-1]["validation_accuracy"]}, trajectory_difference=_gap(*ends))
    run.figure("error_signals", _signal_figure(mlp.cpu(), x_test, y_test, side))


def _targets(rng: torch.Generator, rows: int, loss: Loss) -> Tensor:
    """Draw what a loss compares three outputs with: numbers, or classes."""
    if loss is F.mse_loss:
        return randn(rng, rows, 3)
    return torch.randint(3, (rows,), generator=rng)


def _by_autograd(
    mlp: MLP, x: Tensor, y: Tensor, loss: Loss
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Ask torch for the gradients by name and for every error signal."""
    outputs, parameters = mlp.activations(x.clone().requires_grad_()), dict(mlp.named_parameters())
    found = torch.autograd.grad(loss(outputs[-1], y), [*parameters.values(), *outputs])
    return dict(zip(parameters, found, strict=False)), [*found[len(parameters) :]]


@torch.no_grad()
def _slopeless(mlp: MLP, x: Tensor, y: Tensor, loss: Loss) -> tuple[Tensor, dict[str, Tensor]]:
    """Backpropagate without the derivatives of the activations in the error signals."""
    outputs, slopes = _forward("control", mlp, x)
    value, delta = _top("control", loss, outputs[-1], y)
    deltas = _backward(mlp, [torch.ones_like(one) for one in slopes], delta)[0]
    return value, _gradients(mlp, outputs, [d * s for d, s in zip(deltas, slopes, strict=True)])


def _gap(found: Tensor, exact: Tensor) -> float:
    """Measure the largest difference relative to the largest entry, or itself where all is 0."""
    return float((found - exact).abs().max()) / (float(exact.abs().max()) or 1.0)


def _same_descent(seed: Seed, width: int, depth: int, batch: int) -> Evidence:
    """Compare a few steps with those of autograd, on a loss whose derivative is not known here."""
    rng, loss = seed.torch(), functools.partial(F.cross_entropy, label_smoothing=0.1)
    ours = MLP([5, *[width] * (depth - 1), 3], activation="tanh", rng=rng).double()
    theirs, x, y = copy.deepcopy(ours), randn(rng, batch, 5), _targets(rng, batch, loss)
    trainer = BackpropTrainer(ours, lr=0.3, loss=loss)
    sgd = torch.optim.SGD(theirs.parameters(), 0.3)
    for _ in range(5):
        trainer.step(x, y)
        sgd.zero_grad()
        loss(theirs(x), y).backward()
        sgd.step()
    return identical(*(parameters_to_vector(one.parameters()) for one in (ours, theirs)))


def _square_network(
    seed: Seed, width: int, depth: int, batch: int, activation: str
) -> tuple[MLP, Tensor, Tensor, list[tuple[Tensor, Tensor, Tensor]]]:
    """Make layers from n to n units, where a wrong product still runs; list W, b, x of each."""
    rng, sizes = seed.torch(), [width] * (depth + 1)
    mlp = MLP(sizes, activation=activation, out_activation=activation, rng=rng).double()
    x, y = randn(rng, 2, batch, width)
    triples = zip(mlp.layers, mlp.activations(x), strict=False)
    return mlp, x, y, [(one.weight.detach(), one.bias.detach(), h.detach()) for one, h in triples]


def _layer(phi: nn.Module, b: Tensor, W: Tensor, x: Tensor, gain: Tensor | float = 1.0) -> Tensor:
    return phi(F.linear(gain * x, W, b))


def _chain(matrices: Sequence[Tensor], delta: Tensor) -> list[Tensor]:
    r"""Multiply $\delta^L$ by one matrix a layer, and list the products, the last one first."""
    signals = [delta]
    for one in reversed(matrices):
        signals.append(torch.einsum("bij,bj->bi", one, signals[-1]))
    return signals[::-1]


def _same_layers(found: Sequence[Tensor], exact: Sequence[Tensor]) -> Evidence:
    """Compare layer by layer, each at its own scale: signals may shrink on their way."""
    scales = [one.abs().max() for one in exact]
    return identical(*(
        torch.cat([(one / scale).flatten() for one, scale in zip(side, scales, strict=True)])
        for side in (found, exact)
    ))


def _signal_figure(mlp: MLP, x: Tensor, y: Tensor, side: int) -> Any:
    """Draw the mean error signal of each class in a column, from the output down to the pixels."""
    pictures, titles = [], []
    for place, one in reversed(list(enumerate(error_signals(mlp, x, y)))):
        rows = {0: side, len(mlp.layers): 2}.get(place, 4)
        for digit in range(10):
            mean = len(y) * one[y == digit].mean(dim=0)  # of the samples' own losses
            pictures.append(mean.view(rows, -1).numpy())
            titles.append(f"δ{'⁰¹²'[place]} of {digit}")
    return figures.images(pictures, titles, columns=10, signed=True)

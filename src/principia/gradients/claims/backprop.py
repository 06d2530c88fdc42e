r"""Backpropagation: what is true of it, and what would refute it.

Knobs:
    depth: Layers of the network.
    width: Units of a hidden layer.
    batch: Samples in a batch.
    slope: Whether error signals keep the derivative of the activation.
    n: Inputs of a layer.
    activation: The activation $\varphi$ of the layers.
    order: On which side of $W$ the slopes stand; on the right they scale inputs, not outputs.
    product: Whether signals go through transposed Jacobians; untransposed ones lead forward.
    recursion: Whether Jacobians in the denominator layout are transposed once more, which is wrong.
    over_batch: How gradients of samples are joined; the mean loss needs their mean.
"""

import copy
import functools
import itertools
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from principia.gradients.backprop import (
    LOSSES,
    BackpropTrainer,
    Loss,
    backprop,
    backward_pass,
    error_signals,
    forward_pass,
    layer_jacobian,
    loss_and_delta,
    weight_gradients,
)
from principia.lab.draws import randn
from principia.lab.evidence import Evidence, Series, at_most, claim, equal, equal_to_rounding, every
from principia.lab.params import Choice, Range
from principia.lab.pictures import Image, Label, Plot
from principia.lab.seeds import Seed
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import MLP, ActivationName

Batch = Annotated[int, Range(8, 64)]
Width = Annotated[int, Range(2, 32)]
Depth = Annotated[int, Range(2, 8)]
Smooth = Literal["tanh", "sigmoid", "gelu", "softplus", "identity"]
BENT = tuple(name for name in ACTIVATIONS if name != "identity")
STEP = 1e-6  # of the finite differences: rounding and curvature both stay far below 1e-6


@claim(
    control={"slope": "left out of δ"},
    refutes=["gradients", "error signals", "finite differences"],
    source="Rumelhart, Hinton and Williams 1986",
)
def equals_autograd(
    seed: Seed, *, depth: Annotated[int, Range(2, 10)] = 6,
    width: Annotated[int, Range(2, 64)] = 10, batch: Batch = 16,
    slope: Literal["kept", "left out of δ"] = "kept",
) -> Evidence:
    r"""The recursion gives the gradient, by $W^l$ and $b^l$, and at every layer, $\delta^l$."""
    rng, depths, gaps, signals, quotients, bounds = seed.torch(), [], [], [], [], []
    losses: list[list[Tensor]] = [[], []]
    kinds = itertools.product(range(1, depth + 1), ("sigmoid", "tanh", "relu", "gelu"), (0, 1))
    for place, (layers, activation, other) in enumerate(kinds):
        draw = (_numbers, _classes, _shares, _holes)[(place // 2 + 2 * other + layers) % 4]
        loss = F.mse_loss if draw is _numbers else F.cross_entropy
        sizes, out = [5, *[width] * (layers - 1), 3], activation if loss is F.mse_loss else None
        mlp = MLP(sizes, activation=activation, out_activation=out, rng=rng).double()
        x, y = randn(rng, batch, 5), draw(rng, batch)
        value, found = (backprop if slope == "kept" else _slopeless)(mlp, x, y, loss)
        of_layers = (error_signals if slope == "kept" else _slopeless_signals)(mlp, x, y, loss)
        exact, deltas = _by_autograd(mlp, x, y, loss)
        for side, one in zip(losses, (value, loss(mlp(x), y)), strict=True):
            side.append(one.detach())
        depths.append(layers)
        gaps.append(max(gap(found[name], exact[name]) for name in exact))
        signals += map(gap, of_layers, deltas)

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
        "losses": equal_to_rounding(*map(torch.stack, losses)),
        "BackpropTrainer": _same_descent(seed.child("steps"), width, depth, batch),
    })


def _numbers(rng: torch.Generator, rows: int) -> Tensor:
    return randn(rng, rows, 3)


def _classes(rng: torch.Generator, rows: int) -> Tensor:
    return torch.randint(3, (rows,), generator=rng)


def _shares(rng: torch.Generator, rows: int) -> Tensor:
    """Draw what torch takes for a distribution over the classes, whatever its sum."""
    return torch.rand(rows, 3, generator=rng, dtype=torch.float64)


def _holes(rng: torch.Generator, rows: int) -> Tensor:
    """Draw classes of which torch leaves out each third."""
    return _classes(rng, rows).index_fill(0, torch.arange(0, rows, 3), -100)


@torch.no_grad()
def _slopeless(mlp: MLP, x: Tensor, y: Tensor, loss: Loss) -> tuple[Tensor, dict[str, Tensor]]:
    """Backpropagate without the derivatives of the activations in the error signals."""
    outputs, slopes = forward_pass("control", mlp, x)
    value = loss_and_delta("control", loss, outputs[-1], y)[0]
    deltas = _slopeless_signals(mlp, x, y, loss)[1:]
    pulls = [d * s for d, s in zip(deltas, slopes, strict=True)]
    return value, weight_gradients(mlp, outputs, pulls)


@torch.no_grad()
def _slopeless_signals(mlp: MLP, x: Tensor, y: Tensor, loss: Loss) -> list[Tensor]:
    outputs, slopes = forward_pass("control", mlp, x)
    delta = loss_and_delta("control", loss, outputs[-1], y)[1]
    return backward_pass(mlp, [torch.ones_like(one) for one in slopes], delta, last=0)[0]


def _by_autograd(
    mlp: MLP, x: Tensor, y: Tensor, loss: Loss
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Ask torch for the gradients by name and for every error signal."""
    outputs, parameters = mlp.activations(x.clone().requires_grad_()), dict(mlp.named_parameters())
    found = torch.autograd.grad(loss(outputs[-1], y), [*parameters.values(), *outputs])
    return dict(zip(parameters, found, strict=False)), [*found[len(parameters) :]]


def _same_descent(seed: Seed, width: int, depth: int, batch: int) -> Evidence:
    """Compare a few steps with those of autograd, on a loss whose derivative is not known here."""
    rng, loss = seed.torch(), functools.partial(F.cross_entropy, label_smoothing=0.1)
    ours = MLP([5, *[width] * (depth - 1), 3], activation="tanh", rng=rng).double()
    if depth > 3:
        layers: nn.ModuleList = ours.layers  # type: ignore[assignment]
        layers[2] = layers[1]  # one layer in two places gets the gradients of both
    theirs, x, y = copy.deepcopy(ours), randn(rng, batch, 5), _classes(rng, batch)
    seen: list[list[Tensor]] = [[], []]
    for rates in ({}, {"lr": 0.3}):
        trainer = BackpropTrainer(ours, loss=loss, **rates)
        sgd = torch.optim.SGD(theirs.parameters(), lr=rates.get("lr", 0.1))
        for _ in range(3):
            sgd.zero_grad()
            value = loss(theirs(x), y)
            for side, one in zip(seen, (trainer.step(x, y), value), strict=True):
                side.append(one.detach())
            value.backward()
            sgd.step()
        with torch.no_grad():
            seen[0].append(trainer(ours, (x, y)))
            seen[1].append(loss(theirs(x), y))
    trainer(ours, (x, y))  # adds to what the last step has left, as `backward` does
    loss(theirs(x), y).backward()
    for side, net in zip(seen, (ours, theirs), strict=True):
        slopes: list[Any] = [one.grad for one in net.parameters()]
        side += [parameters_to_vector(net.parameters()).detach(), parameters_to_vector(slopes)]
    return equal_to_rounding(*(torch.cat([one.flatten() for one in side]) for side in seen))


def gap(found: Tensor, exact: Tensor) -> float:
    """Measure the largest difference relative to the largest entry, or itself where all is 0."""
    return float((found - exact).abs().max()) / (float(exact.abs().max()) or 1.0)


@claim(control={"order": "W diag(φ̇)"}, source="the chain rule")
def layer_jacobian_claim(
    seed: Seed, *, n: Annotated[int, Range(2, 64)] = 8, batch: Batch = 16,
    activation: Annotated[str, Choice(("all", *BENT))] = "all",
    order: Literal["diag(φ̇) W", "W diag(φ̇)"] = "diag(φ̇) W",
) -> Evidence:
    r"""A layer's Jacobian is $\partial F/\partial x=\mathrm{diag}(\dot\varphi(Wx+b))\,W$."""
    rng, parts, shown = seed.torch(), {}, {}
    x = randn(rng, batch, n)
    for name in BENT if activation == "all" else (activation,):
        sides: list[list[Tensor]] = [[], []]
        for m in (n, n + 3):
            W, b = randn(rng, m, n) / n**0.5, randn(rng, m) / 2
            found = layer_jacobian(W, b, x, name)
            if m == n and order == "W diag(φ̇)":
                found = W * ACTIVATIONS[name].derivative(F.linear(x, W, b))[:, None]
            layer = functools.partial(_layer, ACTIVATIONS[name].module(), b, W)
            exact = torch.func.vmap(torch.func.jacrev(layer))(x)
            shown.setdefault(name, (found[0], exact[0]))
            for side, one in zip(sides, (found, exact), strict=True):
                side.append(one.flatten())
        parts[name] = equal_to_rounding(*map(torch.cat, sides))
    places = [(left, 0, left + n, n) for left in (0, n + 1)]
    # the zeros of rectifiers show best on which side the slopes stand
    pair = shown.get("relu") or next(iter(shown.values()))
    images = [Image(J, signed=True, low=-1, high=1, place=place)
              for J, place in zip(pair, places, strict=True)]
    titles = Label((order, "by autograd"), (n / 2, 1.5 * n + 1), (n, n), side="above")
    return every(parts).pictured(Plot((*images, titles), bare=True, square=True))


def _layer(phi: nn.Module, b: Tensor, W: Tensor, x: Tensor, gain: Tensor | float = 1.0) -> Tensor:
    return phi(F.linear(gain * x, W, b))


@claim(
    control={"product": "untransposed"},
    refutes=["[∂F/∂θ]ᵀδ, a gain of each input", "δ through the layers"],
    source="Griewank and Walther 2008, sec. 3.2",
    misprint=r"$\partial\ell/\partial\theta^l=\delta^l\,\partial h/\partial\theta^l$, and a ratio "
    r"$[h^{l+1}/h^l]^\top$ in place of a Jacobian",
)
def transpose_needed(
    seed: Seed, *, width: Width = 8, depth: Depth = 4, batch: Batch = 8,
    activation: Smooth = "tanh", product: Literal["transposed", "untransposed"] = "transposed",
) -> Evidence:
    r"""Numerator Jacobians pull back transposed: $\delta^l=[\partial F/\partial x]^\top\delta$."""
    mlp, x, y, layers = _square_network(seed, width, depth, batch, activation)
    deltas = _by_autograd(mlp, x, y, F.mse_loss)[1]
    by_rule = [*backprop(mlp, x, y, F.mse_loss)[1].values()][::2]
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
        "δ through the layers": _same_layers(_chain(jacobians, deltas[-1]), deltas, product),
        "[∂F/∂θ]ᵀδ, a gain of each input": _same_layers(by_gain, gain_exact),
        "[∂F/∂θ]ᵀδ, weights": _same_layers(by_weight, by_rule),
        "error_signals": _same_layers(error_signals(mlp, x, y, F.mse_loss), deltas),
    })


def _square_network(
    seed: Seed, width: int, depth: int, batch: int, activation: str
) -> tuple[MLP, Tensor, Tensor, list[tuple[Tensor, Tensor, Tensor]]]:
    """Make layers from n to n units, where a wrong product still runs; list W, b, x of each."""
    rng, sizes = seed.torch(), [width] * (depth + 1)
    mlp = MLP(sizes, activation=activation, out_activation=activation, rng=rng).double()
    x, y = randn(rng, 2, batch, width)
    triples = zip(mlp.layers, mlp.activations(x), strict=False)
    return mlp, x, y, [(one.weight.detach(), one.bias.detach(), h.detach()) for one, h in triples]


def _same_layers(found: Sequence[Tensor], exact: Sequence[Tensor], name: str = "") -> Evidence:
    """Compare layer by layer, each at its own scale: signals may shrink on their way."""
    scales = [one.abs().max() for one in exact]
    same = equal_to_rounding(*(
        torch.cat([(one / scale).flatten() for one, scale in zip(side, scales, strict=True)])
        for side in (found, exact)
    ))
    angles = [F.cosine_similarity(one.flatten(), other.flatten(), dim=0)
              for one, other in zip(found, exact, strict=True)]
    layers = range(len(found))
    return same if not name else same.pictured(Plot((
        Series(name, layers, angles), Series("the same", layers, [1] * len(layers), "predicted"),
    ), "layer", "cosine between error signal and autograd's", y_range=(-1.1, 1.1)))


def _chain(matrices: Sequence[Tensor], delta: Tensor) -> list[Tensor]:
    r"""Multiply $\delta^L$ by one matrix a layer, and list the products, the last one first."""
    signals = [delta]
    for one in reversed(matrices):
        signals.append(torch.einsum("bij,bj->bi", one, signals[-1]))
    return signals[::-1]


@claim(
    control={"recursion": "transposed"},
    refutes=["both layouts"],
    source="Magnus and Neudecker 2019, ch. 9",
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
        "both layouts": _same_layers(by_columns, by_rows, recursion),
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

        y = (_numbers if loss is F.mse_loss else _classes)(rng, batch)
        each = torch.func.vmap(torch.func.grad(of_one), in_dims=(None, 0, 0))(weights, x, y)
        samples = torch.cat([one.flatten(1) for one in each.values()], dim=1)  # (B, parameters)
        joined = samples.mean(dim=0) if over_batch == "mean" else samples.sum(dim=0)
        whole = parameters_to_vector(backprop(mlp, x, y, loss)[1].values())
        few = range(min(40, len(whole)))
        parts[loss.__name__] = equal_to_rounding(whole, joined).drawn(
            Series("of each sample", [*few] * batch, samples[:, few].flatten(), "gray", "points"),
            Series("of the mean loss", few, whole[few]),
            Series(f"{over_batch} over the samples", few, joined[few], "predicted"),
            x="weight", y="gradient",
        )
    return every(parts)

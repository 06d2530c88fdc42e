r"""Modes: what is true of it, and what would refute it.

Knobs:
    inputs: Inputs $n$ of the function.
    outputs: Outputs $m$ of the function.
    width: Units of a hidden layer.
    product: Whether dual numbers multiply by both terms of the product rule.
    few: The smaller number of inputs or outputs; the larger is twenty times as many.
    activation: The activation of the network.
    chosen: Who chooses the mode; always reverse is costly where outputs are many.
    depth: Layers of the network.
    batch: Samples in a batch.
    mode: How the gradient is made; forward mode pays one pass for each weight.
    how: Whether $Hv$ is made alone or $H$ as a whole, which costs a pass for each input.
    segments: How many parts are computed again on the way back; one alone saves nothing.
"""

import math
import operator
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from principia.gradients.modes import (
    DualNumber,
    Function,
    Mode,
    best_mode,
    checkpointed,
    count_flops,
    hvp,
    jacobian_cost,
    plain_jacobian,
)
from principia.lab.draws import randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    slope,
)
from principia.lab.params import Range
from principia.lab.pictures import Image, Label, Plot
from principia.lab.seeds import Seed
from principia.networks.mlp import MLP, ActivationName

Inputs = Annotated[int, Range(8, 40)]
Width = Annotated[int, Range(2, 64)]
Depth = Annotated[int, Range(2, 8)]
STEP = 1e-5  # of the finite differences
DIFFERENCES = "central differences, step 1e-5: rounding and curvature both stay far below 1e-6"


@claim(
    control={"product": "first term only"},
    refutes=["dual numbers, forward and reverse"],
    source="Wengert 1964; Griewank and Walther 2008",
)
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
    forward, reverse = (plain_jacobian(f, x, mode) for mode in ("forward", "reverse"))
    dual = f(DualNumber(x[:, None], eye))  # all columns at once
    ends = [vmap(f)(x + step * eye) for step in (STEP, -STEP)]
    differences = (ends[0] - ends[1]).mT / (2 * STEP)
    n, top = inputs, len(reverse)
    images = [Image(J, signed=True, low=-1, high=1, place=(k * (n + 1), 0, k * (n + 1) + n, top))
              for k, J in enumerate((dual.tangent, forward, reverse))]
    titles = Label(("dual numbers", "forward", "reverse"), [n * k + n / 2 + k for k in range(3)],
                   [top] * 3, side="above")
    return every({
        "dual numbers, forward and reverse": equal_to_rounding(
            torch.stack([dual.tangent, forward]), torch.stack([reverse, reverse])
        ).pictured(Plot((*images, titles), bare=True, square=True)),
        "values of the dual numbers": equal_to_rounding(dual.value[:, 0], f(x)),
        "differences and reverse": equal(
            differences, reverse, tol=1e-6 * (1 + float(reverse.abs().max())), why=DIFFERENCES
        ),
    })


def _half_product(a: Any, b: Any) -> Any:
    """Forget the second term of the product rule."""
    dual = isinstance(a, DualNumber)
    return DualNumber(a.value * b.value, a.tangent * b.value) if dual else a * b


@claim(
    control={"chosen": "reverse"},
    refutes=["cost of the better mode / of the other"],
    source="Baydin et al. 2018, sec. 3.2",
)
def forward_needs_inputs(
    seed: Seed, *, width: Annotated[int, Range(120, 400)] = 128,
    few: Annotated[int, Range(2, 6)] = 4, activation: ActivationName = "tanh",
    chosen: Literal["best_mode", "reverse"] = "best_mode",
) -> Evidence:
    r"""A Jacobian costs $n$ forward passes, one an input, or $m$ reverse ones, one an output."""
    net = MLP([width] * 4, activation=activation, rng=seed.torch()).double()
    x = randn(seed.child("x").torch(), width)
    once, _ = count_flops(net, x)

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
    sizes = [(n, m) for n in range(1, 5) for m in range(1, 5)]
    least = [{"forward": n, "reverse": m}[best_mode(n, m)] for n, m in sizes]
    ties = [best_mode(n, n) == "forward" for n in range(1, 5)]
    constant = jacobian_cost(torch.ones_like, x, "reverse")[0]
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
        "fewer passes, and forward ones at a tie": equal(
            [*least, *ties, constant], [*map(min, sizes), *[1] * 4, 0], tol=0,
            why="counts; what does not depend on the inputs has nothing to send back"),
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
        f, theta = loss_of_weights(net, lambda out: out.square().mean(), x)
        ratios.append(jacobian_cost(f, theta, mode)[1] / count_flops(f, theta)[0] - 1)
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
        "count": equal(
            ratios, expected, tol=1e-9, why="only the first layer needs no gradient of its inputs"
        ),
    })


def loss_of_weights(net: nn.Module, loss: Function, x: Tensor) -> tuple[Function, Tensor]:
    """Give the loss of a batch as a function of all weights in one vector, and that vector."""
    named = {name: one.detach() for name, one in net.named_parameters()}

    def f(theta: Tensor) -> Tensor:
        parts = theta.split([one.numel() for one in named.values()])
        weights = {name: part.view_as(named[name]) for name, part in zip(named, parts, strict=True)}
        return loss(functional_call(net, weights, x))

    return f, torch.cat([one.flatten() for one in named.values()])


@claim(
    control={"how": "full Hessian"},
    refutes=[
        "inputs: flops / flops of a gradient", "inputs: flops / flops of f",
        "weights: flops / flops of a gradient",
    ],
    source="Pearlmutter 1994",
)
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
        "weights": loss_of_weights(net, lambda out: out.square().mean(), batch),
    }
    parts, exact, found_all, quotients, costs = {}, [], [], [], []
    for name, (f, x) in cases.items():
        v = randn(rng, len(x))
        find = hvp if how == "hvp" else lambda f, x, v: plain_jacobian(grad(f), x, "forward") @ v
        gradient = grad(f)
        differences = (gradient(x + STEP * v) - gradient(x - STEP * v)) / (2 * STEP)
        (flops, found), price = count_flops(find, f, x, v), count_flops(gradient, x)[0]
        costs.append(flops / price)
        found_all.append(found)
        exact.append(grad(lambda x: gradient(x) @ v)(x))  # noqa: B023
        quotients.append(differences)
        parts[f"{name}: flops / flops of a gradient"] = at_most(
            flops / price, 3.0, why="each product AB becomes AB, dA B and A dB"
        )
        if name == "inputs":
            why = "three gradients of two evaluations each, and one to spare"
            once = count_flops(f, x)[0]
            parts["inputs: flops / flops of f"] = at_most(flops / once, 7.0, why=why)
    kinds = [f"{len(x)} {name}" for name, (_, x) in cases.items()]
    whole, by_differences = torch.cat(found_all), torch.cat(quotients)
    return every({
        "Hv": equal_to_rounding(whole, torch.cat(exact)).drawn(
            Series(how, kinds, costs, style="bars"),
            Series("three gradients", kinds, [3, 3], "bound"),
            x="derivatives by", y="flops / flops of a gradient"),
        "differences of gradients": equal(
            by_differences, whole, tol=1e-6 * (1 + float(whole.abs().max())), why=DIFFERENCES
        ),
        **parts,
    })


@claim(
    control={"segments": "1"},
    refutes=["√L checkpoints", "bytes without, over bytes with"],
    source="Chen, Xu, Zhang and Guestrin 2016, sec. 4.1",
)
def memory_for_time(
    seed: Seed, *, width: Annotated[int, Range(2, 64)] = 16,
    batch: Annotated[int, Range(1, 64)] = 8, segments: Literal["√L", "1"] = "√L",
) -> Evidence:
    r"""Stored activations grow as $L$, or as $\sqrt L$ for at most one more forward pass."""
    depths, stored, extra, gaps = [16, 36, 64, 144], [], [], []
    for depth in depths:
        net, x = deep_tanh(seed, width, depth), randn(seed.child(depth).torch(), batch, width)
        thrifty = checkpointed(net, segments=None if segments == "√L" else 1)
        stored.append((stored_bytes(net, x), stored_bytes(thrifty, x)))
        (flops, exact), (more, found) = (count_flops(_gradient, one, x) for one in (net, thrifty))
        extra.append((more / flops, (more - flops) / count_flops(net, x)[0]))
        gaps.append(float((found / exact - 1).abs().max()))  # it vanishes in early layers
    (plain, thrifty), (ratio, passes) = np.array(stored).T, np.array(extra).T
    labels, why = ("layers L", "bytes stored"), "the input, or the last segment, is stored besides"
    return every({
        "√L checkpoints": slope(depths, thrifty, 0.5, tol=0.1, why=why, labels=labels),
        "bytes without, over bytes with": slope(
            depths, plain / thrifty, 0.5, tol=0.1, why=why, labels=labels
        ),
        "operations, in those without": at_most(
            ratio, 1.4, why="1 forward pass more than 1 forward and almost 2 back: less than 4/3"
        ),
        "forward passes more": at_most(passes, 1.0, why="no layer is computed three times"),
        "gradient": at_most(gaps, 1e-12, why="relative: the same products, computed again"),
    })


def _gradient(net: nn.Module, x: Tensor) -> Tensor:
    gradients = torch.autograd.grad(net(x).square().mean(), list(net.parameters()))
    return torch.cat([one.flatten() for one in gradients])


def deep_tanh(seed: Seed, width: int, depth: int) -> nn.Sequential:
    """Build a deep tanh network whose layers are modules."""
    mlp = MLP([width] * (depth + 1), activation="tanh", rng=seed.torch()).double()
    return nn.Sequential(*(nn.Sequential(layer, nn.Tanh()) for layer in mlp.layers))


def stored_bytes(net: nn.Module, x: Tensor) -> int:
    """Sum the bytes that a forward pass keeps for the way back, beside the weights."""
    kept = {one.untyped_storage().data_ptr(): 0 for one in net.parameters()}

    def pack(saved: Tensor) -> Tensor:
        storage = saved.untyped_storage()
        kept.setdefault(storage.data_ptr(), storage.nbytes())
        return saved.detach()  # the tensor itself would keep its own graph alive

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
        out = net(x)  # held until the sum is made, so that no address is used twice
    return sum(kept.values()) if out.requires_grad else 0

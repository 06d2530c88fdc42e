r"""Residual networks: what is true of it, and what would refute it.

Knobs:
    dim: Inputs of a layer, and its outputs.
    points: Random inputs that are sent through the layers.
    offset: Whether $\varphi(0)$ is subtracted; if not, a layer of zeros is no identity.
    n: Inputs of the network.
    m: Outputs of the layer that changes the width.
    depth: Layers of the network.
    activation: The function of the units; anything bent breaks the sum over paths.
    alpha: The factor of every branch.
    order: The order in which the factors are multiplied; matrices do not commute.
    width: Units of a layer.
    gain: How large the weights are; below 1 a layer without a skip shrinks gradients.
    networks: Random networks over which rates are measured.
    skips: Which of the two networks has skips; the statement is that one of them does.
    growth: Features that each layer of the block adds.
    join: How a layer joins its features to the others; adding them keeps the width.
"""

import math
from typing import Annotated, Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from principia.lab.draws import randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    mean_is,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.networks.activations import ACTIVATIONS
from principia.networks.residual import (
    Branch,
    DenseBlock,
    ResidualLayer,
    ResidualMLP,
    SkipNetwork,
    path_expansion,
    skip_jacobian,
)

Dim = Annotated[int, Range(2, 50)]
Points = Annotated[int, Range(10, 10_000)]
SIGMOID_FIRST = sorted(ACTIVATIONS, key=lambda name: name != "sigmoid")  # its φ(0) is not 0


@claim(
    control={"offset": "none"},
    refutes=[
        "sigmoid, x", "sigmoid, Vx, 0 more outputs", "sigmoid, Vx, 3 more outputs", "softplus, x",
        "softplus, Vx, 0 more outputs", "softplus, Vx, 3 more outputs",
    ],
    source="He, Zhang, Ren and Sun 2016, CVPR, sec. 3.1",
)
def identity_at_zero(
    seed: Seed, *, dim: Dim = 10, points: Points = 100, offset: Literal["φ(0)", "none"] = "φ(0)"
) -> Evidence:
    r"""With $W=0$ and $b=0$ a residual layer is the identity, exactly, for every $\varphi$."""
    rng, parts = seed.torch(), {}
    x = randn(rng, points, dim)
    for name in SIGMOID_FIRST:
        kept = ACTIVATIONS[name].module()(x.new_zeros(1)) if offset == "none" else 0
        for extra in (None, 0, 3):
            layer = ResidualLayer(
                dim, m=dim + (extra or 0), activation=name, project=extra is not None, zero=True,
                rng=rng,
            ).double()
            shortcut = "x" if extra is None else f"Vx, {extra} more outputs"
            y = layer(x) + kept
            parts[f"{name}, {shortcut}"] = equal(
                y, functional.pad(x, (0, extra or 0)), tol=0, why="exact: φ(0) - φ(0) is 0"
            ).drawn(
                Series(f"{name} layer", x[:, 0], y[:, 0]),
                Series("identity", x[:, 0].sort()[0], x[:, 0].sort()[0], "predicted"),
                x="first input", y="first output",
            )
    net = ResidualMLP(dim, width=dim, depth=5, n_out=dim, alpha=0.0, rng=rng).double()
    affine = net.leave(net.enter(x))
    return every({**parts, "branches times α = 0": equal(net(x), affine, tol=0, why="exact")})


@claim(
    control={"offset": "none"},
    refutes=[
        "sigmoid, V = I", "sigmoid, from 10 to 6", "softplus, V = I", "softplus, from 10 to 6",
    ],
    source="He, Zhang, Ren and Sun 2016, CVPR, eq. 2",
    misprint=r"$\varphi(Wx+b)+Vx$, residual for $V=I$: $\frac12$ off for $\sigma$",
)
def projected_residual(
    seed: Seed, *, n: Dim = 10, m: Dim = 6, points: Points = 100,
    offset: Literal["φ(0)", "none"] = "φ(0)",
) -> Evidence:
    r"""$Vx+[\varphi(Wx+b)-\varphi(0)]$ changes the width; $V=I$ recovers the residual layer."""
    rng, parts, shares = seed.torch(), {}, torch.linspace(0, 1, 21)
    x = randn(rng, points, n)
    for name in SIGMOID_FIRST:
        phi = ACTIVATIONS[name].module()
        rest = phi(x.new_zeros(1)) if offset == "φ(0)" else 0
        layers = {
            "V = I": ResidualLayer(n, activation=name, rng=rng),
            f"from {n} to {m}": ResidualLayer(n, m=m, activation=name, project=True, rng=rng),
        }
        for kind, layer in layers.items():
            for parameter in layer.double().parameters():
                _set(parameter, randn(rng, *parameter.shape))
            linear = layer.branch.linear
            V = torch.eye(n).to(x) if layer.shortcut is None else layer.shortcut.weight
            field = torch.einsum("mn,bn->bm", linear.weight, x) + linear.bias
            added = [(phi(t * field) - rest).norm(dim=1).mean() for t in shares]
            without = [phi(t * field).norm(dim=1).mean() for t in shares]
            parts[f"{name}, {kind}"] = equal_to_rounding(
                torch.einsum("mn,bn->bm", V, x) + phi(field) - rest, layer(x)
            ).drawn(
                Series(f"{name}, less {offset}", shares, added, style="line"),
                Series("as printed, φ(0) left in", shares, without, "bound"),
                x="size of W and b", y="distance of the layer from Vx",
            )
    return every({**parts, **_with_defaults(seed.child("defaults"), m)})


def _with_defaults(seed: Seed, m: int) -> dict[str, Evidence]:
    """Look at layers and a network as they are made when nobody says more than the widths."""
    rng = seed.torch()
    plain = ResidualLayer(m, rng=rng).double()
    drawn = ResidualLayer(60, m=90, project=True, rng=rng).branch.linear
    net, halved = (ResidualMLP(5, width=m, depth=3, n_out=4, rng=rng, **options).double()
                   for options in ({}, {"alpha": 0.5, "activation": "softplus"}))
    x, found, exact = randn(rng, 2, 7, 5), [], []
    for one, phi, alpha in ((net, torch.relu, 1.0), (halved, functional.softplus, 0.5)):
        enter, *hidden, leave = one.layers
        h = enter(x)
        for layer in hidden:
            h = h + alpha * (phi(layer(h)) - phi(x.new_zeros(())))
        found.append(one(x))
        exact.append(leave(h))
    h = randn(rng, 2, 7, m)
    found.append(plain(h))
    exact.append(h + torch.relu(plain.branch.linear(h)))
    return {
        "networks, and defaults": equal_to_rounding(
            *(torch.cat([one.flatten() for one in side]) for side in (found, exact))),
        "variance of the weights": mean_is(
            drawn.weight.detach().square() * 60 / 2, 1.0, why="of a mean of squares"),
        "biases, and parameters": equal(
            [*drawn.bias.tolist(), len([*plain.parameters()])], [0.0] * 90 + [2], tol=0,
            why="zeros; a layer that keeps the width has weights and biases alone",
        ),
    }


def _set(parameter: Tensor, value: Tensor) -> None:
    with torch.no_grad():
        parameter.copy_(value)


@claim(
    control={"activation": "tanh"},
    refutes=["network = sum over paths", "each path"],
    source="Veit, Wilber and Belongie 2016, sec. 3",
    misprint=r"$x+\varphi(W_1x)+\varphi(W_2x)+\varphi(W_2\varphi(W_1x))$ for nonlinear $\varphi$",
)
def path_count(
    seed: Seed, *, depth: Annotated[int, Range(2, 10)] = 8, dim: Annotated[int, Range(2, 30)] = 8,
    activation: Literal["identity", "tanh", "relu"] = "identity",
) -> Evidence:
    r"""$L$ linear layers are a sum over $2^L$ paths, $\binom Lk$ of them through $k$ branches."""
    rng, phi = seed.torch(), ACTIVATIONS[activation].module()
    net, x = _bent_network(rng, dim, depth, activation, gain=1.0), randn(rng, 50, dim)
    Ws = torch.stack([one.detach() for one in net.parameters() if one.ndim == 2])
    walked = x[None]
    for W in Ws:
        walked = torch.cat([walked, phi(walked @ W.mT)])  # around the layer, and through it
    paths = path_expansion(Ws)
    lengths = path_expansion(x.new_full((depth, 1, 1), 2)).flatten().log2().long()
    counts, steps = torch.bincount(lengths), range(depth + 1)
    binomial = [math.comb(depth, k) for k in steps]
    return every({
        "paths of each length": equal(
            [*counts, len(paths)], [*binomial, 2**depth], tol=0, why="counts, and their sum"
        ).drawn(
            Series("paths", steps, counts, style="bars"),
            Series("L over k", steps, binomial, "predicted", "points"),
            x="branches k on the path", y="number of paths",
        ),
        "network = sum over paths": equal_to_rounding(walked.sum(dim=0), net(x)),
        "product = sum of products": equal_to_rounding(
            paths.sum(dim=0), torch.linalg.multi_dot([*(Ws + torch.eye(dim).to(Ws)).flip(0)])
        ),
        "each path": equal_to_rounding(x @ paths.mT, walked),
    })


def _bent_network(
    rng: torch.Generator, dim: int, depth: int, activation: str, gain: float, **options: float
) -> SkipNetwork:
    """Build layers y + α φ(Wy) with weights of variance gain²/n; without a word α is 1."""
    branches = [Branch(dim, dim, activation, rng) for _ in range(depth)]
    net = SkipNetwork(branches, **options).double()
    for parameter in net.parameters():
        _set(parameter, gain / 2**0.5 * parameter)
    return net


@claim(
    control={"order": "increasing j"},
    refutes=["gradients of all Θ", "skip_jacobian since k"],
    source="the chain rule; He et al. 2016, ECCV, eq. 5",
)
def skip_gradient_product(
    seed: Seed, *, depth: Annotated[int, Range(3, 20)] = 6, dim: Annotated[int, Range(2, 30)] = 8,
    alpha: Annotated[float, Range(0.05, 1)] = 0.7,
    order: Literal["decreasing j", "increasing j"] = "decreasing j",
) -> Evidence:
    r"""$\partial\ell/\partial\Theta_k$ has the factors $I+\alpha\,\partial f/\partial y_{j-1}$."""
    rng = seed.torch()
    net = _bent_network(rng, dim, depth, "tanh", gain=1.0, alpha=alpha)
    for bias in [*net.parameters()][1::2]:
        _set(bias, randn(rng, dim))
    (x, target), one = randn(rng, 2, dim), torch.eye(dim, dtype=torch.float64)
    states = net.states(x)
    exact = torch.autograd.grad((states[-1] - target).square().sum() / 2, [*net.parameters()])
    weights = [parameter.detach() for parameter in net.parameters()]
    W, b, y = torch.stack(weights[::2]), torch.stack(weights[1::2]), torch.stack(states).detach()
    slope = ACTIVATIONS["tanh"].derivative(torch.einsum("kmn,kn->km", W, y[:-1]) + b)
    factors, formula, products = one + alpha * slope[..., None] * W, [], []  # factors (L, n, n)
    for k in range(1, depth + 1):
        product = one
        for factor in factors[k:]:
            product = factor @ product if order == "decreasing j" else product @ factor
        down = (y[-1] - target) @ product * alpha * slope[k - 1]
        formula += [torch.outer(down, y[k - 1]), down]
        products.append(product)
    found = [skip_jacobian(net, x, since=k) for k in range(1, depth + 1)]
    layers = range(1, depth + 1)
    flat = [torch.cat([part.flatten() for part in all_parts]) for all_parts in (exact, formula)]
    batch = randn(rng, 2, 3, dim).requires_grad_()
    jacobians = torch.func.vmap(torch.func.vmap(torch.func.jacrev(net)))(batch)
    return every({
        "gradients of all Θ": equal_to_rounding(*flat).drawn(
            Series("autograd", layers, [one.norm() for one in exact[::2]]),
            Series(f"product, {order}", layers, [one.norm() for one in formula[::2]], "predicted"),
            x="layer k", y="norm of the gradient by its weights",
        ),
        "skip_jacobian since k": equal_to_rounding(torch.stack(found), torch.stack(products)),
        "skip_jacobian since the input": equal_to_rounding(
            skip_jacobian(net, batch), jacobians
        ),
    })


@claim(
    control=[
        Control({"skips": "in neither"}, ["decay with skips"], "no skips"),
        Control({"skips": "in both"}, ["decay without"], "skips in both networks"),
    ],
    source="He, Zhang, Ren and Sun 2016, ECCV, sec. 2",
)
def gradient_survives_depth(
    seed: Seed, *, width: Annotated[int, Range(32, 128)] = 32,
    gain: Annotated[float, Range(0.3, 0.9)] = 0.8, networks: Annotated[int, Range(2, 10)] = 5,
    skips: Literal["in one", "in neither", "in both"] = "in one",
) -> Evidence:
    r"""With skips the gradient at the input does not decay with depth; without, exponentially."""
    depths, kept, lost = torch.tensor([5, 10, 20, 40, 60, 80, 100]), [], []
    for number in range(networks):
        rng = seed.child(number).torch()
        net = _bent_network(rng, width, int(depths[-1]), "tanh", gain)
        x, readout = randn(rng, 20, width).requires_grad_(), randn(rng, width)
        plain = [x]
        for branch in net.branches:
            plain.append(branch(plain[-1]))
        states = plain if skips == "in neither" else net.states(x)
        kept.append(_gradient_norms(states, readout, depths))
        lost.append(_gradient_norms(states if skips == "in both" else plain, readout, depths))
    rates = [_rates(depths, torch.stack(one)) for one in (kept, lost)]  # a layer, of each network
    noise = (6 / 5 / (2 * width) / float(depths[-1] - depths[0])) ** 0.5
    return every({
        "decay with skips": at_least(
            rates[0], -0.01, why="chance may take 1/e in 100 layers; on average the norm grows"
        ).drawn(
            Series(f"skips {skips}", depths, torch.stack(kept).mean(dim=0).exp()),
            Series("without", depths, torch.stack(lost).mean(dim=0).exp(), "other", "points"),
            Series("√n gain to the depth", depths, width**0.5 * gain ** depths.double(), "bound"),
            x="layers", y="norm of the gradient at the input", log="y",
        ),
        "decay without": at_most(
            rates[1], math.log(gain), slack=5 * noise,
            why="5 standard errors of a line through a random walk: a layer changes the log of the "
            "norm by ln(gain) or less on average, with a spread of 1/√(2n)",
        ),
    })


def _gradient_norms(states: list[Tensor], readout: Tensor, depths: Tensor) -> Tensor:
    """Give the mean log norm of the gradient at the input for outputs behind several depths."""
    gradients = [
        torch.autograd.grad((states[depth] @ readout).sum(), states[0], retain_graph=True)[0]
        for depth in depths
    ]
    return torch.stack(gradients).norm(dim=2).log().mean(dim=1)


def _rates(x: Tensor, y: Tensor) -> Tensor:
    """Fit a line through each row of y and give its slope."""
    centered = x.double() - x.double().mean()
    return y @ centered / centered.square().sum()


@claim(
    control={"join": "add"},
    refutes=["block ∂x/∂x", "widths"],
    source="Huang, Liu, van der Maaten and Weinberger 2017, sec. 3",
)
def dense_width(
    seed: Seed, *, n: Dim = 6, growth: Annotated[int, Range(1, 20)] = 4,
    depth: Annotated[int, Range(1, 20)] = 5, join: Literal["concatenate", "add"] = "concatenate",
) -> Evidence:
    r"""A dense block of growth $g$ has width $n+lg$ behind layer $l$; its Jacobian contains $I$."""
    rng = seed.torch()
    x = randn(rng, n)
    block: Any = DenseBlock(n, growth=growth, depth=depth, activation="tanh", rng=rng).double()
    made, widths = [x], [n]
    for layer in block.layers:
        _set(layer.bias, randn(rng, growth))
        made.insert(0, torch.tanh(layer.weight @ torch.cat(made) + layer.bias))
        widths.append(sum(len(one) for one in made))
    joined, joined_widths = block, block.widths
    if join == "add":
        joined, joined_widths = _bent_network(rng, n, depth, "tanh", 1.0), [n] * (depth + 1)
    jacobian: Any = torch.autograd.functional.jacobian(joined, x)
    behind = range(depth + 1)
    rows = [block, DenseBlock(n, growth=growth, depth=depth, rng=rng).double()]
    batch = randn(rng, 2, 3, n)
    alone = [torch.stack([one(row) for row in batch.flatten(0, 1)]) for one in rows]
    h = batch
    for layer in rows[1].layers:  # rectifiers, where nobody says more
        h = torch.cat([layer(h).relu(), h], dim=2)
    return every({
        "block ∂x/∂x": equal_to_rounding(jacobian[-n:], torch.eye(n)),
        "widths": equal(
            [*joined_widths, *widths], 2 * [n + layer * growth for layer in range(depth + 1)],
            tol=0, why="a count, by the block and of what its layers have made",
        ).drawn(
            Series(join, behind, joined_widths),
            Series("n + l g", behind, [n + layer * growth for layer in behind], "predicted"),
            x="layers l", y="width",
        ),
        "recursion": equal_to_rounding(block(x), torch.cat(made)),
        "a batch": equal_to_rounding(
            torch.cat([*(one(batch) for one in rows), h]).flatten(0, 1),
            torch.cat([*alone, alone[1]]),
        ),
    })

r"""Gradients through many layers: what is true of it, and what would refute it.

Knobs:
    depth: Layers of the deepest network.
    width: Units of a hidden layer.
    samples: Samples in the data.
    sides: On which side the later layers stand; exchanged, the chain rule is broken.
    inputs: Inputs of the network.
    outputs: Outputs of the network.
    between: The activation; a bent one sees more of the data than their moments.
    flat_from: From how many layers on the Hessian should vanish; with two it does not.
    gain: The factor $g$ by which each layer scales lengths.
    skip: Whether each layer adds to its input, which changes the gain.
    networks: Independent networks that are averaged.
    layers: What layers are drawn; orthogonal ones keep all lengths and spread nothing.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import torch
from scipy.special import digamma
from torch import Tensor, nn

from principia.gradients.depth import (
    deep_linear_gradient,
    deep_linear_gradients,
    deep_linear_loss,
    gradient_profile,
    jacobian_spectrum,
)
from principia.lab.draws import randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    claim,
    equal,
    equal_to_rounding,
    every,
    mean_is,
    slope,
    standard_error,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.networks.mlp import MLP
from principia.networks.residual import SkipNetwork

Dim = Annotated[int, Range(2, 20)]
Depth = Annotated[int, Range(2, 6)]


@claim(
    control={"sides": "exchanged"}, refutes=["formula"],
    source="Baldi and Hornik 1989; Saxe et al. 2014, sec. 2",
)
def deep_linear_gradient_claim(
    seed: Seed, *, depth: Depth = 6, width: Dim = 6, samples: Annotated[int, Range(2, 500)] = 20,
    sides: Literal["outputs on the left", "exchanged"] = "outputs on the left",
) -> Evidence:
    r"""$\partial\ell/\partial W^l=[W^L\cdots W^{l+1}]^\top(Ax-y)x^\top[W^{l-1}\cdots W^1]^\top$."""
    rng, by_formula, by_function = seed.torch(), [], []  # pairs with what autograd says
    for layers in range(depth, 0, -1):
        numbers = range(1, layers + 1)
        net, X, Y = _problem(rng, [width] * (layers + 1), 1)
        Ws, formula = _weights(net), []
        for number in numbers:
            above, below = _product(Ws[number:], width), _product(Ws[: number - 1], width)
            if sides == "exchanged":
                above, below = below, above
            formula.append(above.mT @ (X @ _product(Ws, width).mT - Y).mT @ X @ below.mT)
        by_formula.append((_flat(formula), _autograd(net, X, Y)))
        sizes = torch.randint(1, width + 1, (layers + 1,), generator=rng).tolist()
        net, X, Y = _problem(rng, sizes, samples)
        Ws, moments = _weights(net), (X.mT @ X / samples, X.mT @ Y / samples)
        found = _flat([deep_linear_gradient(Ws, *moments, number) for number in numbers])
        by_function.append((found, _autograd(net, X, Y)))
    errors = [
        [float((one - exact).abs().max() / exact.abs().max()) + 1e-17 for one, exact in pairs]
        for pairs in (by_formula, by_function)
    ]
    depths = [*range(depth, 0, -1)]
    return every({
        "formula": equal_to_rounding(*map(_flat, zip(*by_formula, strict=True))).drawn(
            Series(f"formula, {sides}", depths, errors[0]),
            Series("deep_linear_gradient", depths, errors[1], "green", "points"),
            x="layers", y="largest relative difference from autograd", log="y",
        ),
        "deep_linear_gradient": equal_to_rounding(*map(_flat, zip(*by_function, strict=True))),
    })


def _problem(
    rng: torch.Generator, sizes: Sequence[int], samples: int, activation: str = "identity"
) -> tuple[MLP, Tensor, Tensor]:
    """Draw a network that keeps the size of what goes through it, inputs and targets."""
    net = MLP(sizes, activation=activation, bias=False, rng=rng).double()
    for layer in net.layers:
        _set(layer.weight, randn(rng, *layer.weight.shape) / layer.in_features**0.5)
    X = randn(rng, samples, sizes[0])
    return net, X, X[:, :1] + randn(rng, samples, sizes[-1])


def _set(parameter: Tensor, value: Tensor) -> None:
    with torch.no_grad():
        parameter.copy_(value)


def _weights(net: MLP) -> list[Tensor]:
    return [layer.weight.detach() for layer in net.layers]


def _product(Ws: Sequence[Tensor], n: int) -> Tensor:
    """Multiply layers, the first one on the right; no layer is the identity."""
    return functools.reduce(lambda A, W: W @ A, Ws, torch.eye(n, dtype=torch.float64))


def _flat(gradients: Sequence[Tensor]) -> Tensor:
    return torch.cat([one.flatten() for one in gradients])


def _autograd(net: nn.Module, X: Tensor, Y: Tensor) -> Tensor:
    """Ask torch for the gradient of half the mean squared error by all weights, in a row."""
    loss = (net(X) - Y).square().sum() / (2 * len(X))
    return _flat(torch.autograd.grad(loss, [*net.parameters()]))


@claim(control={"between": "tanh"}, source="Baldi and Hornik 1989; Saxe et al. 2014, sec. 1")
def sufficient_statistics(
    seed: Seed, *, depth: Depth = 4, inputs: Dim = 6, outputs: Dim = 3, width: Dim = 8,
    samples: Annotated[int, Range(50, 500)] = 200,
    between: Literal["identity", "tanh", "relu"] = "identity",
) -> Evidence:
    r"""Of the data, the gradient of a linear network sees $\Sigma$ and $\Gamma$ only."""
    rng = seed.torch()
    net, X, Y = _problem(rng, [inputs, *[width] * (depth - 1), outputs], samples, between)
    mix = torch.linalg.qr(randn(rng, samples, samples)).Q
    # as many samples as coordinates are enough for any moments
    few = ((inputs + outputs) / samples) ** 0.5 * torch.linalg.qr(torch.cat([X, Y], dim=1)).R
    gradient, mixed = _autograd(net, X, Y), _autograd(net, mix @ X, mix @ Y)
    compressed = _autograd(net, few[:, :inputs], few[:, inputs:])
    moments = deep_linear_gradients(_weights(net), X.mT @ X / samples, X.mT @ Y / samples)
    shown = range(min(50, len(gradient)))
    return every({
        "samples mixed by an orthogonal matrix": equal_to_rounding(mixed, gradient).drawn(
            Series(f"from all {samples} samples", shown, gradient[shown], "predicted"),
            Series("samples mixed", shown, mixed[shown]),
            Series(f"from {len(few)} samples", shown, compressed[shown], "orange", "points"),
            x="weight", y="gradient",
        ),
        f"{len(few)} samples instead of {samples}": equal_to_rounding(compressed, gradient),
        "from the moments": equal_to_rounding(_flat(moments), gradient),
    })


@claim(
    control=[
        Control({"depth": 1}, ["gradient"], "a single layer, whose loss is convex"),
        Control({"flat_from": 2}, ["Hessian"], "two layers, whose saddle is curved"),
    ],
    source="Kawaguchi 2016, sec. 2",
)
def saddle_at_zero(
    seed: Seed, *, depth: Annotated[int, Range(1, 6)] = 4,
    inputs: Annotated[int, Range(2, 6)] = 4, outputs: Annotated[int, Range(2, 6)] = 3,
    width: Annotated[int, Range(1, 6)] = 3, flat_from: Annotated[int, Range(2, 3)] = 3,
) -> Evidence:
    r"""All weights 0 is a saddle for $L\ge2$, where for $L\ge3$ the Hessian vanishes as well.

    Args:
        depth: Layers of the deepest network; one alone has a convex loss and no saddle.
    """
    X, Y = _problem(seed.torch(), [inputs, outputs], 50)[1:]
    U, sigma, Vh = torch.linalg.svd(Y.mT @ X / len(X), full_matrices=False)  # of Γ transposed
    steps, parts, curves = torch.linspace(-1, 1, 81, dtype=X.dtype), {}, []
    gradients, hessians, rises = [], [], []
    for layers in range(min(depth, 2), depth + 1):
        sizes = [inputs, *[width] * (layers - 1), outputs]
        loss = functools.partial(_loss_of_vector, sizes, X, Y)
        zero = X.new_zeros(sum(n * m for n, m in itertools.pairwise(sizes)))
        gradient = torch.func.grad(loss)
        hessian: Any = torch.func.jacrev(gradient)(zero)
        gradients.append(gradient(zero))
        if layers >= flat_from:
            hessians.append(hessian.flatten())
        if layers == 2:  # the only curvature is that of -tr(W²W¹Γ)
            bends = sigma.repeat_interleave(width)
            expected = torch.cat([-bends, X.new_zeros(len(zero) - 2 * len(bends)), bends])
            parts["curvatures ±σ(Γ), 2 layers"] = equal_to_rounding(
                torch.linalg.eigvalsh(hessian), expected.sort().values
            )
        # one unit of each layer carries the strongest pair u, v: the product is ±|t|^L uv'
        ends = [Vh[0], *[torch.eye(width).to(X)[0]] * (layers - 1), U[:, 0]]
        pairs = [torch.outer(above, below) for below, above in itertools.pairwise(ends)]
        rays = [pair.flatten() * steps.abs()[:, None] for pair in pairs]
        rays[-1] = rays[-1] * steps.sign()[:, None]
        losses, t = torch.vmap(loss)(torch.cat(rays, dim=1)), steps.sign() * steps.abs() ** layers
        rise = t.square() * (X @ Vh[0]).square().mean() / 2 - t * sigma[0]
        rises.append((losses - loss(zero), rise))
        curves.append(Series(f"{layers} layers", steps, losses, "other"))
    exact = functools.partial(equal, expected=0, tol=0, why="exact: each term has a factor 0")
    of_gradients = exact(_flat(gradients)).drawn(
        *curves, x="step of all layers along a ray", y="loss"
    )
    if hessians:
        parts["Hessian"] = exact(_flat(hessians))
    return every({"gradient": of_gradients, **parts,
                  "down and up": equal_to_rounding(*map(_flat, zip(*rises, strict=True)))})


def _loss_of_vector(sizes: Sequence[int], X: Tensor, Y: Tensor, theta: Tensor) -> Tensor:
    """Give half the mean squared error of the linear network whose weights stand in a row."""
    shapes = [(m, n) for n, m in itertools.pairwise(sizes)]
    blocks = zip(theta.split([m * n for m, n in shapes]), shapes, strict=True)
    return deep_linear_loss([block.view(shape) for block, shape in blocks], X, Y)


@claim(
    control={"skip": True},
    refutes=["gradient at the first layer", "all layers", "signals", "singular values"],
    source="Saxe, McClelland and Ganguli 2014, sec. 3",
    headline=True,
    sees="From layer to layer the gradient at the first one changes by one factor, the gain.",
)
def gain_to_the_depth(
    seed: Seed, *, gain: Annotated[float, Range(0.3, 2)] = 0.8,
    depth: Annotated[int, Range(8, 40)] = 20, width: Annotated[int, Range(16, 64)] = 32,
    skip: bool = False,
) -> Evidence:
    r"""Layers $g$ times orthogonal: the gradient at the first one scales as $g^{L-1}$.

    Args:
        width: Units of every layer.
    """
    rng, layers = seed.torch(), []
    for Q in _orthogonal(rng, depth, width, width):
        layers.append(nn.utils.skip_init(nn.Linear, width, width, bias=False).double())
        _set(layers[-1].weight, gain * Q)
    x, readout = randn(rng, 1, width), randn(rng, width)

    def built(many: int) -> nn.Module:
        if not skip:
            return nn.Sequential(*layers[:many])
        return SkipNetwork(layers[:many])

    def profile(many: int, of: Any = "weights") -> Tensor:
        norms = gradient_profile(built(many), x, readout, lambda out, v: (out @ v).sum(), of=of)
        return x.new_tensor([*norms.values()]) / readout.norm()

    depths, ones = torch.arange(1, depth + 1, dtype=x.dtype), torch.ones(depth)
    return every({
        "gradient at the first layer": slope(
            depths, [profile(int(many))[0] for many in depths], math.log(gain), log="y",
            tol=1e-3, why="orthogonal layers keep norms: exact up to rounding",
            labels=("layers", "norm of the gradient"),
        ),
        "all layers": equal_to_rounding(profile(depth) / x.norm() / gain ** (depth - 1), ones),
        "signals": equal_to_rounding(profile(depth, "outputs") / gain ** (depth - depths), ones),
        "singular values": equal_to_rounding(
            jacobian_spectrum(built(depth), x[0]) / gain**depth, torch.ones(width)
        ),
        **_of_any_network(seed.child("any")),
    })


def _of_any_network(seed: Seed) -> dict[str, Evidence]:
    """Compare with torch where layers are frozen or unused, and with Jacobians of a batch."""
    rng = seed.torch()
    net = MLP([5, 7, 6, 3], activation="tanh", rng=rng).double()
    net.layers[1].requires_grad_(False)
    x, y = randn(rng, 8, 5), torch.arange(8) % 3
    whole = nn.ModuleDict({"net": net, "unused": nn.utils.skip_init(nn.Linear, 2, 2)})
    whole.forward = net.forward  # type: ignore[method-assign]
    weights = gradient_profile(whole, x, y)
    signals = gradient_profile(whole, x, y, of="outputs")
    seen: list[Tensor] = []
    for layer in net.layers:
        layer.register_forward_hook(lambda *given: seen.append(given[-1]))
    loss = nn.functional.cross_entropy(net(x), y)
    learned = [one for one in net.parameters() if one.requires_grad]
    found = torch.autograd.grad(loss, [*learned, *seen])
    pairs = [torch.cat([found[k].flatten(), found[k + 1]]).norm() for k in (0, 2)]
    exact = [pairs[0], 0.0, pairs[1], 0.0, *(one.norm() for one in found[4:]), 0.0]
    batch = randn(rng, 2, 4, 5)
    jacobians = torch.func.vmap(torch.func.vmap(torch.func.jacrev(net)))(batch)
    return {
        "layers frozen or unused": equal_to_rounding(
            [*weights.values(), *signals.values()], [float(one) for one in exact]),
        "spectra of a batch": equal_to_rounding(
            jacobian_spectrum(net, batch), torch.linalg.svdvals(jacobians)),
    }


def _orthogonal(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.linalg.qr(randn(rng, *shape)).Q


@claim(
    control=[
        Control(
            {"layers": "orthogonal"}, ["rate in the second half", "every layer adds"],
            "layers that keep all lengths",
        ),
        Control(
            {"layers": "two Gaussian ones, then orthogonal"}, ["R² of a line"],
            "layers that soon stop spreading",
        ),
    ],
    source="Newman 1986; Saxe et al. 2014, sec. 3",
)
def spectrum_spreads(
    seed: Seed, *, width: Annotated[int, Range(4, 64)] = 32,
    depth: Annotated[int, Range(6, 24)] = 12, networks: Annotated[int, Range(40, 100)] = 50,
    layers: Literal["Gaussian", "orthogonal", "two Gaussian ones, then orthogonal"] = "Gaussian",
) -> Evidence:
    r"""The log condition number of a product of $L$ Gaussian layers grows linearly with $L$."""
    Ws = randn(seed.torch(), depth, networks, width, width) / width**0.5
    first = {"Gaussian": depth, "orthogonal": 0}.get(layers, 2)  # that are as they were drawn
    Ws = torch.cat([Ws[:first], torch.linalg.qr(Ws[first:]).Q])
    # below 1e-16 of the largest, values drown in rounding: the inverse network has the smallest
    inverses, numbers = torch.linalg.inv(Ws), torch.arange(1, depth + 1)
    ways = [factors for many in numbers for factors in (Ws[:many], inverses[:many].flip(0))]
    spectra = torch.stack([torch.vmap(_linear_spectrum, in_dims=1)(factors) for factors in ways])
    spread = spectra[..., 0].log().view(depth, 2, networks).sum(dim=1)
    mean, half = spread.mean(dim=1), depth // 2
    rate = float(digamma(width / 2) - digamma(0.5)) / 2
    late = (spread[-1] - spread[half - 1]) / (depth - half)
    rises = torch.cat([spread[:1], spread.diff(dim=0)])
    line = torch.corrcoef(torch.stack([numbers.to(mean), mean]))[0, 1].square()
    return every({
        "rate in the second half": mean_is(
            late, rate, bias=math.log(2) / depth,
            why="of a mean over networks; the bias is that of the largest value, which grows like "
            "√L before its rate is reached: ½ ln 2 over half the depth",
        ).drawn(
            Series("measured", numbers, mean, error=standard_error(spread, 1)),
            Series("predicted rate", numbers, mean[0] + rate * (numbers - 1), "predicted"),
            x="layers", y="mean log condition number",
        ),
        "every layer adds": at_least(
            rises.mean(dim=1), rate, slack=5 * standard_error(rises, 1),
            why="5 standard errors of the mean: the image of the most stretched direction grows by "
            "the largest rate on average, so that the maximum grows by no less",
        ),
        "smallest value, from both sides": equal(
            spectra[0, :, -1] * spectra[1, :, 0], torch.ones(networks),
            tol=1e-14 * spread[0].exp(), why="rounding, times the condition number of one layer",
        ),
        "R² of a line": at_least(line, 0.95, why="noise, and the head start of the first layer"),
    })


def _linear_spectrum(Ws: Tensor) -> Tensor:
    """Give the singular values of the linear network with the layers Ws (L, n, n)."""
    def net(x: Tensor) -> Tensor:
        return functools.reduce(lambda x, W: W @ x, Ws, x)

    return jacobian_spectrum(net, Ws.new_zeros(Ws.shape[-1]))

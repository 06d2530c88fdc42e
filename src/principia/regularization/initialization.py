r"""Initialization: how large the weights start, so that signals survive many layers.

A layer multiplies the second moment of what passes it by $n\sigma^2$, fan-in times variance, and of
what comes back by $m\sigma^2$; a rectifier halves both. A factor of 1/2 a layer is one of a million
after twenty layers, so the variance follows from what should be kept: LeCun's $1/n$ keeps the
signal in linear layers, He's $2/n$ in rectified ones, Glorot's $2/(n+m)$ is the compromise between
forward and back. torch's own start has the variance $1/(3n)$ and loses two thirds of the signal a
layer. A random matrix keeps lengths only on average, an orthogonal one keeps each of them. And
weights that all start equal stay equal.

$$ z = Wx, \quad \mathrm E[z_i^2] = n\sigma^2\,\mathrm E[x_j^2], \quad
\mathrm E\Big[\Big(\frac{\partial\ell}{\partial x_j}\Big)^2\Big] =
m\sigma^2\,\mathrm E\Big[\Big(\frac{\partial\ell}{\partial z_i}\Big)^2\Big] $$

$$ \sigma^2 = \frac1n\ \text{(LeCun)}, \quad \frac2{n+m}\ \text{(Glorot)}, \quad
\frac2n\ \text{(He)}, \quad \frac1{3n}\ \text{(torch)}; \quad
W_{ij}\sim N(0,\sigma^2)\ \text{or}\ U[-\sqrt3\sigma,\sqrt3\sigma] $$

$$ W\sim\mathrm{Unif}(O(m)): \quad W^\top W = I, \quad \Vert Wx\Vert = \Vert x\Vert; \qquad
Z = \prod_{i\le D}U_i: \quad p(z) = \frac{(-\log z)^{D-1}}{(D-1)!} $$

Symbols:
    $W$: weights (m, n) of a layer, of a convolution (m, channels, ...), drawn by `initialize_`
    $n, m$: fan-in and fan-out: products that enter a sum, times the places of a kernel
    $\sigma^2$: variance of the weights; `gain` multiplies $\sigma$
    $x, z$: what enters a layer and what leaves it, before the activation function
    $\ell$: the loss, or any scalar at the end of the network; `depth_profile` measures all moments
    $U_i, D$: independent numbers, uniform in [0, 1], and how many of them are multiplied

References:
    LeCun, Bottou, Orr and Mueller (1998), Efficient backprop. Neural Networks: Tricks of the Trade.
        doi:10.1007/3-540-49430-8_2
    Glorot and Bengio (2010), Understanding the difficulty of training deep feedforward neural
        networks. AISTATS. https://proceedings.mlr.press/v9/glorot10a.html
    Saxe, McClelland and Ganguli (2014), Exact solutions to the nonlinear dynamics of learning in
        deep linear neural networks. ICLR. arXiv:1312.6120
    He, Zhang, Ren and Sun (2015), Delving deep into rectifiers: surpassing human-level performance
        on ImageNet classification. ICCV. arXiv:1502.01852
    Mishkin and Matas (2016), All you need is a good init. ICLR. arXiv:1511.06422
    Pennington, Schoenholz and Ganguli (2017), Resurrecting the sigmoid in deep learning through
        dynamical isometry: theory and practice. NeurIPS. arXiv:1711.04735
"""

__all__ = ["initialize_", "lsuv_", "depth_profile", "product_uniform_logpdf"]

import math
from contextlib import ExitStack
from typing import Any, Literal, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from principia.lab.params import PositiveFloat, PositiveInt, checked, usage_error
from principia.networks.mlp import MLP, Sizes

Scheme = Literal["default", "lecun", "glorot", "he", "orthogonal"]
Law = Literal["normal", "uniform"]
Model = TypeVar("Model", nn.Module, Tensor)
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


@checked
def initialize_(
    model: Model, scheme: Scheme, *, law: Law = "normal", gain: PositiveFloat | None = None,
    rng: torch.Generator | None = None,
) -> Model:
    r"""Draws the weights of all linear and convolution layers anew, in place.

    Args:
        model: A network, or one weight; layers of other kinds keep what they have.
        scheme: Variance $1/n$ (lecun), $2/(n+m)$ (glorot), $2/n$ (he) with biases 0; orthonormal
            rows or columns (orthogonal), biases 0; or torch's own start, weights and biases uniform
            in $\pm1/\sqrt n$ (default).
        law: Normal or uniform of the same variance, for lecun, glorot and he.
        gain: Factor of all weights; none is $\sqrt2$ for he and 1 for the others. For other
            activation functions `torch.nn.init.calculate_gain` knows it.
        rng: Draws the weights; by default torch's global generator.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(3, 64, 5), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10))
        >>> net = initialize_(net, "he", rng=torch.Generator().manual_seed(0))
        >>> 75 * net[0].weight.var().item(), net[0].bias.abs().max().item()  # fan-in 3 x 5 x 5
        (1.9..., 0.0)
    """
    gain = gain or (math.sqrt(2) if scheme == "he" else 1.0)
    if isinstance(model, Tensor):
        _draw(model, scheme, law, gain, rng)
        return model
    for layer in _layers("initialize_", model):
        if not isinstance(layer.weight, nn.Parameter):  # what is written to it would be lost
            hint = "Initialize before weight normalization and its like."
            raise usage_error(
                "initialize_", "model", "one whose weights are parameters", layer, hint
            )
        _draw(layer.weight, scheme, law, gain, rng)
        if layer.bias is not None and scheme == "default":
            reach = layer.weight[0].numel() ** -0.5
            nn.init.uniform_(layer.bias, -reach, reach, generator=rng)
        elif layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return model


@torch.no_grad()
def _draw(
    weight: Tensor, scheme: Scheme, law: Law, gain: float, rng: torch.Generator | None
) -> None:
    if weight.ndim < 2:
        domain = f"weights of 2 or more dimensions with the scheme {scheme!r}"
        hint = "A vector has no fan-in: leave it at 0, or reshape it."
        raise usage_error("initialize_", "model", domain, f"shape {tuple(weight.shape)}", hint)
    if scheme == "orthogonal":
        nn.init.orthogonal_(weight, gain, generator=rng)
        return
    n, m = weight[0].numel(), weight[:, 0].numel()
    sigma = gain / math.sqrt({"default": 3 * n, "glorot": (n + m) / 2}.get(scheme, n))
    if law == "normal" and scheme != "default":
        weight.normal_(0, sigma, generator=rng)
    else:
        weight.uniform_(-math.sqrt(3) * sigma, math.sqrt(3) * sigma, generator=rng)


def _layers(owner: str, model: nn.Module) -> list[Any]:
    """List the layers with weights."""
    found = [one for one in model.modules() if isinstance(one, LAYERS)]
    if not found:
        raise usage_error(owner, "model", "a network with a linear or convolution layer", model)
    return found


def he_mlp(sizes: Sizes, *, rng: torch.Generator | None = None, **parts: Any) -> MLP:
    """Make an `MLP` with its parts, and start it by He's rule."""
    mlp = MLP(sizes, rng=torch.Generator(), **parts)  # of weights that are drawn anew
    initialize_(mlp, "he", rng=rng)
    return mlp


@checked
def lsuv_(model: nn.Module, x: Tensor, *, rng: torch.Generator | None = None) -> nn.Module:
    r"""Starts layers orthogonal and rescales each, so that its outputs have variance 1 on a batch.

    It fits any activation function, for it measures instead of assuming (layer-sequential unit
    variance). One pass is enough: a layer is rescaled before the next one sees its outputs.

    Args:
        model: The network; it is changed in place.
        x: A batch of its inputs.
        rng: Draws the weights; by default torch's global generator.

    Example:
        >>> net = nn.Sequential(nn.Linear(20, 50), nn.GELU(), nn.Linear(50, 30))
        >>> outputs = lsuv_(net, torch.randn(100, 20))(torch.randn(100, 20))
        >>> 0.5 < outputs.var().item() < 1.5
        True
    """
    initialize_(model, "orthogonal", rng=rng)
    done = set()

    def rescale(layer: Any, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        if layer in done:  # a shared layer keeps the scale of its first use
            return output
        done.add(layer)
        spread = output.std(correction=0)
        if not spread > 0:
            hint = "Take more samples, or inputs that differ."
            raise usage_error("lsuv_", "x", f"a batch that varies at {layer}", float(spread), hint)
        layer.weight.div_(spread)
        return output / spread

    with ExitStack() as hooks, torch.no_grad():
        for layer in _layers("lsuv_", model):
            hooks.enter_context(layer.register_forward_hook(rescale))
        model(x)
    return model


@checked
def depth_profile(
    model: nn.Module, x: Tensor, *, rng: torch.Generator | None = None
) -> tuple[Float[Tensor, " L1"], Float[Tensor, " L1"], Float[Tensor, " L1"]]:
    r"""Measures how signals and gradients change from layer to layer.

    Entry `l` belongs to $x^l$: 0 is what enters the first linear or convolution layer, `l` what
    the next one gets, behind the activation function, and the last one the output.

    Args:
        model: The network.
        x: A batch of its inputs.
        rng: Draws the gradient at the output, standard normal; by default torch's global generator.

    Returns:
        Mean and second moment of $x^l$, and second moment of the gradient there.

    Example:
        >>> net = initialize_(nn.Sequential(nn.Linear(500, 500), nn.Linear(500, 500)), "lecun")
        >>> mean, forward, backward = depth_profile(net, torch.randn(100, 500))
        >>> bool((forward.log().abs() < 0.2).all()), backward.shape
        (True, torch.Size([3]))
    """
    seen: list[Tensor] = []

    def look(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.append(inputs[0])

    with ExitStack() as hooks, torch.enable_grad():
        for layer in _layers("depth_profile", model):
            hooks.enter_context(layer.register_forward_pre_hook(look))
        seen.append(model(x.detach().requires_grad_()))
    output = seen[-1]
    cotangent = torch.randn(output.shape, generator=rng, dtype=output.dtype).to(output.device)
    gradients = torch.autograd.grad(output, seen, cotangent)
    seen = [one.detach() for one in seen]
    mean = torch.stack([one.mean() for one in seen])
    forward, backward = (
        torch.stack([one.square().mean() for one in ones]) for ones in (seen, gradients)
    )
    return mean, forward, backward


@checked
def product_uniform_logpdf(z: Float[Tensor, "*B"], D: PositiveInt) -> Float[Tensor, "*B"]:
    r"""Evaluates $\log\frac{(-\log z)^{D-1}}{(D-1)!}$, the law of a product of D uniform numbers.

    Its mass sits near 0 for many factors: signals that are multiplied layer by layer collapse.

    Args:
        z: Where; outside of (0, 1) the density is 0.
        D: Number of factors.

    Example:
        >>> product_uniform_logpdf(torch.tensor([0.5, 0.1, 2.0]), 2).exp()
        tensor([0.6931, 2.3026, 0.0000])
    """
    inside = (z > 0) & (z < 1)
    t = -torch.where(inside, z, 0.5).log()
    density = torch.special.xlogy(t.new_tensor(D - 1), t) - math.lgamma(D)
    return torch.where(inside, density, -math.inf)

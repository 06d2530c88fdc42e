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

import copy
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float, Shaped
from scipy.special import digamma
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Count, Range
from principia.lab.draws import randn
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_least, equal, estimates, every, identical, slope
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, accuracy, fit
from principia.networks.linear_network import LinearNetwork
from principia.networks.mlp import MLP
from principia.networks.residual import ResidualMLP, SkipNetwork

Matrix = Float[Tensor, "_ _"]
Dim = Annotated[int, Range(2, 20)]
Depth = Annotated[int, Range(2, 6)]
KINDS = ("sigmoid", "tanh", "relu", "linear", "residual")
DEPTHS = (2, 5, 10, 20, 40, 64)
GAINS = (0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0)
HEADLINE = 20  # the depth that is trained even when there is little time
SHOWN = 256  # samples whose gradient is taken


@checked
def deep_linear_gradient(Ws: Sequence[Matrix], Sigma: Matrix, Gamma: Matrix, l: Count) -> Matrix:  # noqa: E741
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
        raise refuse("deep_linear_gradient", "l", f"one of the {len(Ws)} layers, from 1", l)
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
        raise refuse("gradient_profile", "net", "a network with parameters that learn", net)
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
            raise refuse("gradient_profile", "loss", "reduced to a scalar", got, "Take its mean.")
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
        raise refuse("jacobian_spectrum", "net", domain, tuple(outputs.shape))
    m = outputs.shape[-1]
    units = torch.eye(m).to(outputs).view(m, *[1] * (x.ndim - 1), m).expand(m, *outputs.shape)
    (rows,) = torch.vmap(pull_back)(units)  # (m, *B, n)
    return torch.linalg.svdvals(rows.movedim(0, -2))


def _need_sizes(Ws: Sequence[Tensor], Sigma: Tensor, Gamma: Tensor) -> None:
    """Refuse layers that do not fit each other, and statistics that do not fit the layers."""
    owner = "deep_linear_gradient"
    if not Ws:
        raise refuse(owner, "Ws", "one matrix or more", list(Ws))
    for number, (W, above) in enumerate(itertools.pairwise(Ws), start=2):
        if above.shape[1] != len(W):
            domain = f"of width {len(W)} at layer {number}, the outputs of the layer before"
            hint = "List the first layer first."
            raise refuse(owner, "Ws", domain, f"shape {tuple(above.shape)}", hint)
    n, m = Ws[0].shape[1], len(Ws[-1])
    for name, found, shape in (("Sigma", Sigma, (n, n)), ("Gamma", Gamma, (n, m))):
        if found.shape != shape:
            hint = "Gamma has an input a row: X.T @ Y / len(X)." if name == "Gamma" else ""
            raise refuse(owner, name, f"of shape {shape}", tuple(found.shape), hint)


@claim(control={"sides": "exchanged"}, source="Baldi and Hornik 1989; Saxe et al. 2014, sec. 2")
def deep_linear_gradient_claim(
    seed: Seed, *, depth: Depth = 6, width: Dim = 6, samples: Annotated[int, Range(2, 500)] = 20,
    sides: Literal["outputs on the left", "exchanged"] = "outputs on the left",
) -> Evidence:
    r"""$\partial\ell/\partial W^l=[W^L\cdots W^{l+1}]^\top(Ax-y)x^\top[W^{l-1}\cdots W^1]^\top$."""
    rng, parts = seed.torch(), {}
    for layers in range(depth, 0, -1):
        numbers = range(1, layers + 1)
        net, X, Y = _problem(rng, [width] * (layers + 1), 1)
        Ws, formula = _weights(net), []
        for number in numbers:
            above, below = _product(Ws[number:], width), _product(Ws[: number - 1], width)
            if sides == "exchanged":
                above, below = below, above
            formula.append(above.mT @ (X @ _product(Ws, width).mT - Y).mT @ X @ below.mT)
        parts[f"formula, {layers} layers"] = identical(_flat(formula), _autograd(net, X, Y))
        sizes = torch.randint(1, width + 1, (layers + 1,), generator=rng).tolist()
        net, X, Y = _problem(rng, sizes, samples)
        Ws, moments = _weights(net), (X.mT @ X / samples, X.mT @ Y / samples)
        found = _flat([deep_linear_gradient(Ws, *moments, number) for number in numbers])
        parts[f"deep_linear_gradient, {layers} layers"] = identical(found, _autograd(net, X, Y))
    return every(parts)


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
    return every({
        "samples mixed by an orthogonal matrix": identical(mixed, gradient),
        f"{len(few)} samples instead of {samples}": identical(compressed, gradient),
        "from the moments": identical(_flat(moments), gradient),
    })


@claim(control={"depth": 1}, source="Kawaguchi 2016, sec. 2")
def saddle_at_zero(
    seed: Seed, *, depth: Annotated[int, Range(1, 6)] = 4,
    inputs: Annotated[int, Range(2, 6)] = 4, outputs: Annotated[int, Range(2, 6)] = 3,
    width: Annotated[int, Range(1, 6)] = 3,
) -> Evidence:
    r"""All weights 0 is a saddle for $L\ge2$, where for $L\ge3$ the Hessian vanishes as well."""
    X, Y = _problem(seed.torch(), [inputs, outputs], 50)[1:]
    U, sigma, Vh = torch.linalg.svd(Y.mT @ X / len(X), full_matrices=False)  # of Γ transposed
    steps, parts, curves = torch.linspace(-1, 1, 81, dtype=X.dtype), {}, []
    for layers in range(min(depth, 2), depth + 1):
        sizes = [inputs, *[width] * (layers - 1), outputs]
        loss = functools.partial(_loss_of_vector, sizes, X, Y)
        zero = X.new_zeros(sum(n * m for n, m in itertools.pairwise(sizes)))
        gradient = torch.func.grad(loss)
        hessian: Any = torch.func.jacrev(gradient)(zero)
        exact = functools.partial(equal, expected=0, tol=0, why="exact: each term has a factor 0")
        parts[f"gradient, {layers} layers"] = exact(gradient(zero))
        if layers == 2:  # the only curvature is that of -tr(W²W¹Γ)
            bends = sigma.repeat_interleave(width)
            expected = torch.cat([-bends, X.new_zeros(len(zero) - 2 * len(bends)), bends])
            parts["curvatures ±σ(Γ), 2 layers"] = identical(
                torch.linalg.eigvalsh(hessian), expected.sort().values
            )
        elif layers > 2:
            parts[f"Hessian, {layers} layers"] = exact(hessian)
        # one unit of each layer carries the strongest pair u, v: the product is ±|t|^L uv'
        ends = [Vh[0], *[torch.eye(width).to(X)[0]] * (layers - 1), U[:, 0]]
        pairs = [torch.outer(above, below) for below, above in itertools.pairwise(ends)]
        rays = [pair.flatten() * steps.abs()[:, None] for pair in pairs]
        rays[-1] = rays[-1] * steps.sign()[:, None]
        losses, t = torch.vmap(loss)(torch.cat(rays, dim=1)), steps.sign() * steps.abs() ** layers
        rise = t.square() * (X @ Vh[0]).square().mean() / 2 - t * sigma[0]
        parts[f"down and up, {layers} layers"] = identical(losses, loss(zero) + rise)
        curves.append(Series(f"{layers} layers", steps, losses, "other"))
    first = next(iter(parts))
    parts[first] = parts[first].drawn(*curves, x="step of all layers along a ray", y="loss")
    return every(parts)


@claim(control={"skip": True}, source="Saxe, McClelland and Ganguli 2014, sec. 3", headline=True)
def gain_to_the_depth(
    seed: Seed, *, gain: Annotated[float, Range(0.3, 2)] = 0.8,
    depth: Annotated[int, Range(8, 40)] = 20, width: Annotated[int, Range(16, 64)] = 32,
    skip: bool = False,
) -> Evidence:
    r"""Layers $g$ times orthogonal: the gradient at the first one scales as $g^{L-1}$."""
    rng, layers = seed.torch(), []
    for Q in _orthogonal(rng, depth, width, width):
        layers.append(nn.utils.skip_init(nn.Linear, width, width, bias=False).double())
        _set(layers[-1].weight, gain * Q)
    x, readout = randn(rng, 1, width), randn(rng, width)

    def built(many: int) -> nn.Module:
        if not skip:
            return nn.Sequential(*layers[:many])
        return SkipNetwork(functools.partial(next, iter(layers)), depth=many)

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
        "all layers": identical(profile(depth) / x.norm() / gain ** (depth - 1), ones),
        "signals": identical(profile(depth, "outputs") / gain ** (depth - depths), ones),
        "singular values": identical(
            jacobian_spectrum(built(depth), x[0]) / gain**depth, torch.ones(width)
        ),
    })


@claim(control={"layers": "orthogonal"}, source="Newman 1986; Saxe et al. 2014, sec. 3")
def spectrum_spreads(
    seed: Seed, *, width: Annotated[int, Range(4, 64)] = 32,
    depth: Annotated[int, Range(6, 24)] = 12, networks: Annotated[int, Range(40, 100)] = 50,
    layers: Literal["Gaussian", "orthogonal"] = "Gaussian",
) -> Evidence:
    r"""The log condition number of a product of $L$ Gaussian layers grows linearly with $L$."""
    draw = _orthogonal if layers == "orthogonal" else randn
    Ws = draw(seed.torch(), depth, networks, width, width) / (width**0.5 if draw is randn else 1)
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
        "rate in the second half": estimates(
            late.mean(), rate, error=late.std() / networks**0.5, bias=math.log(2) / depth,
            why="of a mean over networks; the bias is that of the largest value, which grows like "
            "√L before its rate is reached: ½ ln 2 over half the depth",
        ).drawn(
            Series("measured", numbers, mean, error=spread.std(dim=1) / networks**0.5),
            Series("predicted rate", numbers, mean[0] + rate * (numbers - 1), "predicted"),
            x="layers", y="mean log condition number",
        ),
        "every layer adds": at_least(
            rises.mean(dim=1), rate, slack=5 * rises.std(dim=1) / networks**0.5,
            why="5 standard errors of the mean: the image of the most stretched direction grows by "
            "the largest rate on average, so that the maximum grows by no less",
        ),
        "smallest value, from both sides": equal(
            spectra[0, :, -1] * spectra[1, :, 0], torch.ones(networks),
            tol=1e-14 * spread[0].exp(), why="rounding, times the condition number of one layer",
        ),
        "R² of a line": at_least(line, 0.95, why="noise, and the head start of the first layer"),
    })


@experiment(
    reaches={"sigmoid_ratio": at_least_goal(1e6), "residual_ratio": at_most_goal(1e2)},
    floor={"sigmoid_ratio": at_least_goal(1e6), "residual_ratio": at_most_goal(1e2)},
    source="Glorot and Bengio (2010), sec. 4, and He, Zhang, Ren and Sun (2016), ECCV, sec. 2, on "
    "handwritten digits: gradients vanish in deep sigmoid networks and survive in residual ones",
)
def profiles(
    run: Run, *, width: Annotated[int, Range(8, 128)] = 32,
    gain: Annotated[float, Range(0.5, 2)] = 1.0, lr: Annotated[float, Range(1e-4, 0.1)] = 1e-3,
) -> None:
    """Measures the gradient at each layer of deep networks, before and after 200 steps."""
    x, y, x_test, y_test = handwriting(run)
    data, held = (x.flatten(1), y), (x_test.flatten(1), y_test)
    few, n = (data[0][:SHOWN].double(), y[:SHOWN]), data[0].shape[1]
    found: dict[str, dict[float, Any]] = {"initial": {}, "trained": {}}
    for depth in run.steps(DEPTHS, "depths"):
        nets = _deep_nets(n, width, depth, gain, run.seed.child(depth).torch())
        found["initial"][depth] = _profiles(nets, few)
        if depth != HEADLINE and not run.full:
            continue
        for kind, net in nets.items():
            trained = fit(
                net, data, Supervised(F.cross_entropy),
                torch.optim.Adam(net.parameters(), lr=lr, fused=True), steps=200,
                validation=held, metrics={"accuracy": accuracy}, seed=run.seed.child(kind), run=run,
                name=f"{kind}-{depth}",
            )
            if depth == HEADLINE:
                run.record(**{f"{kind}_accuracy": trained.history[-1]["validation_accuracy"]})
        found["trained"][depth] = _profiles(nets, few)
        if depth == HEADLINE:
            run.keep(nets["residual"])
    for kind in KINDS:
        before, after = (_ratio(found[when][HEADLINE][kind]) for when in found)
        run.record(**{f"{kind}_ratio": before, f"{kind}_ratio_after_training": after})
    by_gain = {}
    for factor in GAINS:  # the same draws at every gain
        rng = run.seed.child(HEADLINE).torch()
        by_gain[factor] = _profiles(_deep_nets(n, width, HEADLINE, factor, rng), few)
    run.figure("initial", _sliding("hidden layers: ", found["initial"]))
    run.figure("trained", _sliding("hidden layers: ", found["trained"]))
    run.figure("gains", _sliding(f"{HEADLINE} hidden layers, gain: ", by_gain))
    series = (
        Series(kind, DEPTHS, [_ratio(one[kind]) for one in found["initial"].values()], "other")
        for kind in KINDS
    )
    axes = "hidden layers", "gradient of the last layer / of the first"
    run.figure("ratios", figures.draw(Picture(tuple(series), *axes, "xy")))


def _deep_nets(n: int, width: int, depth: int, gain: float, rng: torch.Generator) -> dict[str, Any]:
    """Build a network of each kind with so many hidden layers and Xavier Glorot's weights."""
    sizes, nets = (n, *[width] * depth, 10), {}
    for kind in KINDS:
        if kind == "residual":
            alpha = depth**-0.5  # all branches together weigh like one
            net = ResidualMLP(n, width=width, depth=depth - 1, n_out=10, alpha=alpha, rng=rng)
        elif kind == "linear":
            net = LinearNetwork(sizes, bias=True, rng=rng)
        else:
            net = MLP(sizes, activation=kind, rng=rng)
        for layer in net.layers:
            nn.init.xavier_normal_(layer.weight, gain, generator=rng)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        nets[kind] = net
    return nets


def _profiles(nets: Mapping[str, nn.Module], data: tuple[Tensor, Tensor]) -> dict[str, list[float]]:
    """List the norms in float64: those of 64 sigmoid layers are no numbers of float32."""
    copies = {kind: copy.deepcopy(net).double() for kind, net in nets.items()}
    return {kind: [*gradient_profile(net, *data).values()] for kind, net in copies.items()}


def _ratio(profile: Sequence[float]) -> float:
    """Divide the last norm by the first, which is 0 where a layer of rectifiers is dead."""
    return profile[-1] / profile[0] if profile[0] else math.inf


def _sliding(prefix: str, states: Mapping[float, Mapping[str, list[float]]]) -> Any:
    """Draw a profile for each kind; one slider moves through the states, one picks a kind."""
    series = tuple(
        Series(kind, range(1, len(norms) + 1), norms, "other")
        for kind, norms in [*states.values()][-1].items()
    )
    figure = figures.draw(Picture(series, "layer", "norm of the gradient", "y"))
    picks = {"all": True, **{kind: [kind == other for other in KINDS] for kind in KINDS}}
    turns: dict[str, Any] = {}
    for state, by_kind in states.items():
        norms = [[float(f"{one:.4g}") for one in by_kind[kind]] for kind in KINDS]
        turns[f"{state:g}"] = {"x": [[*range(1, len(one) + 1)] for one in norms], "y": norms}
    sliders = [
        {
            "steps": [
                {"method": "restyle", "label": label, "args": [change]}
                for label, change in changes.items()
            ],
            "active": active, "currentvalue": {"prefix": before}, "x": x, "len": 0.45, "y": -0.2,
        }
        for before, changes, active, x in (
            (prefix, turns, len(turns) - 1, 0),
            ("network: ", {kind: {"visible": seen} for kind, seen in picks.items()}, 0, 0.55),
        )
    ]
    legend = {"orientation": "h", "y": 1.12}
    return figure.update_layout(sliders=sliders, legend=legend, height=480)


def _orthogonal(rng: torch.Generator, *shape: int) -> Tensor:
    return torch.linalg.qr(randn(rng, *shape)).Q


def _set(parameter: Tensor, value: Tensor) -> None:
    with torch.no_grad():
        parameter.copy_(value)


def _problem(
    rng: torch.Generator, sizes: Sequence[int], samples: int, activation: str = "identity"
) -> tuple[MLP, Tensor, Tensor]:
    """Draw a network that keeps the size of what goes through it, inputs and targets."""
    net = MLP(sizes, activation=activation, bias=False, rng=rng).double()
    for layer in net.layers:
        _set(layer.weight, randn(rng, *layer.weight.shape) / layer.in_features**0.5)
    X = randn(rng, samples, sizes[0])
    return net, X, X[:, :1] + randn(rng, samples, sizes[-1])


def _weights(net: MLP) -> list[Tensor]:
    return [layer.weight.detach() for layer in net.layers]


def _product(Ws: Sequence[Tensor], n: int) -> Tensor:
    """Multiply layers, the first one on the right; no layer is the identity."""
    return functools.reduce(lambda A, W: W @ A, Ws, torch.eye(n, dtype=torch.float64))


def _flat(gradients: Sequence[Tensor]) -> Tensor:
    return torch.cat([one.flatten() for one in gradients])


def _loss_of_vector(sizes: Sequence[int], X: Tensor, Y: Tensor, theta: Tensor) -> Tensor:
    """Give half the mean squared error of the linear network whose weights stand in a row."""
    shapes = [(m, n) for n, m in itertools.pairwise(sizes)]
    blocks = zip(theta.split([m * n for m, n in shapes]), shapes, strict=True)
    A = _product([block.view(shape) for block, shape in blocks], sizes[0])
    return (X @ A.mT - Y).square().sum() / (2 * len(X))


def _autograd(net: nn.Module, X: Tensor, Y: Tensor) -> Tensor:
    """Ask torch for the gradient of half the mean squared error by all weights, in a row."""
    loss = (net(X) - Y).square().sum() / (2 * len(X))
    return _flat(torch.autograd.grad(loss, [*net.parameters()]))


def _linear_spectrum(Ws: Tensor) -> Tensor:
    """Give the singular values of the linear network with the layers Ws (L, n, n)."""
    def net(x: Tensor) -> Tensor:
        return functools.reduce(lambda x, W: W @ x, Ws, x)

    return jacobian_spectrum(net, Ws.new_zeros(Ws.shape[-1]))

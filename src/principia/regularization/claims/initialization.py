r"""Initialization: what is true of it, and what would refute it.

Knobs:
    n: Inputs of the layer.
    m: Outputs of the layer.
    reach: Half the width of the uniform law; of width σ its variance would be a third of σ².
    depth: Layers of the network, one after the other.
    width: Units of each layer.
    draws: Independent draws, of all that is random, that are averaged.
    form: The statement as it is, or as it is misprinted.
    variance: What is claimed of the weights torch starts with; 1/n is three times too much.
    sd: Standard deviation of the inputs.
    largest: Most uniform factors in a product.
    same: Inputs and outputs of the square layer, which has as many of both.
    scheme: How weights are drawn; any other rule has another variance.
    activation: What bends the sums of each layer; the logistic function has no mean of 0.
    half: Half the rows of a matrix; its size is even.
    matrices: Random matrices that are looked at.
    value: What all weights and biases start with.
    steps: Steps of gradient descent.
    start: Whether hidden units start alike; from random weights they differ at once.
    rescale: Whether the layers are rescaled at all; without it they start as they are drawn.
"""

import copy
import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import gammaincinv
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector

from principia.gradients.depth import jacobian_spectrum
from principia.lab.draws import rand, randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    standard_error,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import MLP, ActivationName
from principia.regularization.initialization import (
    Law,
    depth_profile,
    he_mlp,
    initialize_,
    lsuv_,
    product_uniform_logpdf,
)

Form = Literal["correct", "printed"]
Wide = Annotated[int, Range(128, 512)]
Draws = Annotated[int, Range(50, 100)]
INPUTS = 16  # of a batch whose moments are measured; more add little, they share the weights
CELLS = 20  # of equal probability, for the test of a law
# by Student's t chance exceeds 5 standard errors of 50 draws once in 100,000, and less with more
DRAWN = "of the mean over 50 or more independent draws of weights and inputs"
# a plain mean of log-normal draws, which products of layers are, hangs on rare large ones
LOGS = "of the log of the mean, by mean and variance of the logarithms of 50 or more draws"


@claim(
    control={"reach": "σ"}, refutes=["variance / σ², uniform"],
    source="the second moments of the two laws",
)
def uniform_and_gaussian_agree(
    seed: Seed, *, n: Annotated[int, Range(10, 2000)] = 800,
    m: Annotated[int, Range(500, 2000)] = 1250, reach: Literal["√3 σ", "σ"] = "√3 σ",
) -> Evidence:
    r"""$U[-\sqrt3\sigma,\sqrt3\sigma]$ has the variance $\sigma^2$ of $N(0,\sigma^2)$."""
    rng, parts, edges = seed.torch(), {}, torch.linspace(-3.5, 3.5, 71, dtype=torch.float64)
    w = (edges[1:] + edges[:-1]) / 2
    normal, seen = (-(w**2) / 2).exp() / math.sqrt(2 * math.pi), []
    laws: tuple[tuple[Law, float], ...] = ("uniform", 1.8), ("normal", 3.0)  # E[w^4] / σ^4
    for law, fourth in laws:
        gain = 3**-0.5 if (law, reach) == ("uniform", "σ") else 1.0
        weight = initialize_(torch.empty(m, n).double(), "lecun", law=law, gain=gain, rng=rng)
        drawn = weight.flatten() * n**0.5
        seen.append(torch.histogram(drawn, edges, density=True).hist)
        parts[f"variance / σ², {law}"] = within_errors(
            drawn.square().mean(), 1, error=math.sqrt((fourth - 1) / len(drawn)),
            why="of the mean square of independent draws of a known law",
        )
    parts["all schemes are torch's"] = equal_to_rounding(*_schemes_by_torch(rng))
    return every(parts).drawn(
        Series("uniform", w, seen[0], style="steps"), Series("normal", w, seen[1]),
        Series("N(0, σ²)", w, normal, "predicted"), x="w / σ", y="density",
    )


def _schemes_by_torch(rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw weights of many shapes by every scheme and law, and by torch's own functions."""
    state, ours, theirs = rng.get_state(), [], []
    ways: Any = ("lecun", "kaiming", "linear"), ("he", "kaiming", "relu"), ("glorot", "xavier", "")
    laws: tuple[Law, ...] = "normal", "uniform"
    shapes = (7, 20), (20, 1), (8, 4, 3), (1, 4, 3, 5), (4, 3, 2, 2, 2)
    for (scheme, name, phi), law, shape in itertools.product(ways, laws, shapes):
        ours.append(initialize_(torch.empty(shape).double(), scheme, law=law, rng=rng).flatten())
        draw: Any = partial(getattr(nn.init, f"{name}_{law}_"), generator=rng.set_state(state))
        theirs.append(draw(torch.empty(shape).double(), **{"nonlinearity": phi} if phi else {}))
        rng.set_state(state)
    ours.append(parameters_to_vector(he_mlp([5, 7, 2], rng=rng).parameters()))
    rng.set_state(state)
    for m, n in (7, 5), (2, 7):
        theirs += [nn.init.kaiming_normal_(torch.empty(m, n), generator=rng), torch.zeros(m)]
    return torch.cat(ours), parameters_to_vector(theirs)


@claim(
    control={"form": "printed"}, source="LeCun, Bottou, Orr and Mueller 1998, sec. 4.6",
    misprint=r"$w\sim U[-\frac1{\sqrt n},\frac1{\sqrt n}]$ stabilizes the variance",
)
def lecun_preserves_variance(
    seed: Seed, *, depth: Annotated[int, Range(2, 8)] = 6, width: Wide = 512,
    draws: Draws = 50, form: Form = "correct",
) -> Evidence:
    r"""$w\sim U[-\sqrt{3/n},\sqrt{3/n}]$, of variance $1/n$: linear layers keep $E[z^2]$."""
    gain = 1.0 if form == "correct" else 3**-0.5
    return _multiplied(seed.torch(), [width] * (depth + 1), draws, scheme="lecun", gain=gain)


def _multiplied(
    rng: torch.Generator, sizes: Sequence[int], draws: int,
    factors: tuple[float, float] = (1.0, 1.0), **start: Any,
) -> Evidence:
    """State by which factors layers multiply second moments, of signals and of gradients."""
    _, forward, backward = _profiles(rng, sizes, draws, **start)
    layers, back, parts = torch.arange(len(sizes)), backward.flip(1), {}
    for name, moments, factor in ("forward", forward, factors[0]), ("back", back, factors[1]):
        logs, error = _log_averaged(moments / moments[:, :1])
        predicted = math.log(factor) * layers.double()
        parts[f"{name}, logarithm"] = within_errors(
            logs[-1], predicted[-1], error=error[-1], why=LOGS
        ).drawn(
            Series("measured", layers, logs.exp(), error=5 * error * logs.exp()),
            Series("predicted", layers, predicted.exp(), "predicted"),
            x="layers passed", y=f"second moment, {name}", log="y",
        )
        # sharper: what a layer does, whatever the layers before it made of the signal
        ratio = (moments[:, 1:] / moments[:, :-1]).mean(dim=1)
        mean, error = ratio.mean(), standard_error(ratio)
        parts[f"{name}, a layer"] = within_errors(mean, factor, error=error, why=DRAWN)
    return every(parts)


def _profiles(
    rng: torch.Generator, sizes: Sequence[int], draws: int, activation: str = "identity",
    **start: Any,
) -> Float[Tensor, "3 R L1"]:
    """Profile as many draws of all weights, uniform ones, each with new inputs."""
    net, profiles = _stack(sizes, activation), []
    for _ in range(draws):
        x = randn(rng, INPUTS, sizes[0])
        initialize_(net, law="uniform", rng=rng, **start)
        profiles.append(torch.stack(depth_profile(net, x, rng=rng)))
    return torch.stack(profiles, dim=1)


def _stack(sizes: Sequence[int], activation: str) -> nn.Sequential:
    """Stack layers without biases, in float64, whose weights nobody has drawn yet."""
    layers: list[nn.Module] = []
    for n, m in itertools.pairwise(sizes):
        layers.append(nn.utils.skip_init(nn.Linear, n, m, bias=False, dtype=torch.float64))
        layers.append(ACTIVATIONS[activation].module())
    return nn.Sequential(*layers)


def _log_averaged(samples: Float[Tensor, "R K"]) -> tuple[Tensor, Tensor]:
    """Estimate the logarithms of the means of log-normal samples, and their standard errors."""
    logs, count = samples.log(), len(samples)
    spread = logs.var(dim=0)
    error = (spread / count + spread**2 / (2 * (count - 1))).sqrt()
    return logs.mean(dim=0) + spread / 2, error


@claim(
    control={"variance": "1/n"}, refutes=["layers", "variance"],
    source="Paszke et al. 2019, nn.Linear.reset_parameters",
)
def torch_default_variance(
    seed: Seed, *, n: Annotated[int, Range(10, 2000)] = 800,
    m: Annotated[int, Range(500, 2000)] = 1250, depth: Annotated[int, Range(2, 8)] = 6,
    draws: Draws = 50, variance: Literal["1/(3n)", "1/n"] = "1/(3n)",
) -> Evidence:
    r"""`nn.Linear` starts with variance $1/(3n)$: after $L$ linear layers $3^{-L}$ is left."""
    factor, own = 1.0 if variance == "1/n" else 1 / 3, seed.child("own")
    with torch.random.fork_rng(devices=[]):  # torch's own start takes no generator
        torch.manual_seed(int(own))
        theirs = nn.Sequential(nn.Linear(n, m), nn.Conv2d(6, 40, 5))
    ours = initialize_(copy.deepcopy(theirs), "default", rng=own.torch())
    first, again = (parameters_to_vector(one.parameters()) for one in (theirs, ours))
    squares = first[: n * m].double().square()  # the weights of nn.Linear come first
    return every({
        "layers": _multiplied(
            seed.torch(), [256] * (depth + 1), draws, (factor, factor), scheme="default"
        ),
        "variance": within_errors(
            n * squares.mean(), factor, error=factor * math.sqrt(0.8 / len(squares)),
            why="of the mean square of independent uniform draws",
        ),
        "initialize_ is torch's start": equal(
            again, first, tol=1e-7, why="float32 rounding of the ends of the interval"
        ),
    })


@claim(
    control={"form": "printed"}, source="the variance of a sum of independent products",
    misprint=r"inputs of standard deviation $\gamma$ give $\mathrm{Var}[(Wx)_i]=\gamma$",
)
def output_variance_is_input_variance(
    seed: Seed, *, sd: Annotated[float, Range(1.5, 10)] = 3.0,
    n: Annotated[int, Range(16, 512)] = 256, draws: Annotated[int, Range(50, 500)] = 200,
    form: Form = "correct",
) -> Evidence:
    r"""Weights of variance $1/n$: outputs have the VARIANCE $\gamma$ of inputs with mean 0."""
    rng, weight = seed.torch(), torch.empty(50, n, dtype=torch.float64)
    spreads = sd * torch.linspace(0.25, 1, 7, dtype=torch.float64)
    squares = torch.empty(draws, 7, dtype=torch.float64)
    for draw in range(draws):
        x = math.sqrt(12) * (rand(rng, 7, n) - 0.5)  # of variance 1
        z = (spreads[:, None] * x) @ initialize_(weight, "lecun", law="uniform", rng=rng).mT
        squares[draw] = z.square().mean(dim=1)
    measured, error = squares.mean(dim=0), standard_error(squares)
    claimed = spreads**2 if form == "correct" else spreads
    outputs = within_errors(measured[-1], claimed[-1], error=error[-1], why=DRAWN)
    return outputs.named("variance of the outputs").drawn(
        Series("measured", spreads, measured, error=5 * error),
        Series("γ = sd²" if form == "correct" else "γ = sd", spreads, claimed, "predicted"),
        x="standard deviation of the inputs", y="variance of the outputs",
    )


@claim(
    control={"form": "printed"}, refutes=["density", "cells", "draws"],
    source="by induction; minus the logarithm is gamma distributed",
    misprint=r"the density $-\log(z)^{D-1}/(D-1)!$, which is negative for odd $D$",
)
def product_of_uniforms(
    seed: Seed, *, largest: Annotated[int, Range(4, 12)] = 5,
    draws: Annotated[int, Range(10_000, 2_000_000)] = 1_000_000, form: Form = "correct",
) -> Evidence:
    r"""$Z=\prod_{i\le D}U_i$ has the density $(-\log z)^{D-1}/(D-1)!$, most of it near 0."""
    rng, found, pictures = seed.torch(), {}, []
    nodes, weights = map(torch.as_tensor, np.polynomial.legendre.leggauss(30))
    z = torch.linspace(0.02, 0.98, 49, dtype=torch.float64)  # the middles of bins, for the figure
    for D in (3, 2, largest):
        sign = -1 if form == "printed" and D % 2 else 1  # -log(z)^(D-1) as it stands
        # cells of equal probability of t = -log z, the last one endless
        t = torch.as_tensor(gammaincinv(D, np.linspace(0, 1, CELLS + 1)))
        half = t[:-1].diff()[:, None] / 2
        within = (-(t[:-2, None] + half * (1 + nodes))).exp()  # (CELLS - 1, 30), as z
        shares = (half * sign * product_uniform_logpdf(within, D).exp() * within) @ weights
        Z, density = rand(rng, D, draws).prod(dim=0), sign * product_uniform_logpdf(z, D).exp()
        counts = torch.bucketize(-Z.log(), t[1:-1]).bincount(minlength=CELLS)
        found[D] = density, shares, counts[:-1] / draws
        seen = torch.histogram(Z, 49, range=(0.01, 0.99)).hist / (draws * 0.02)
        pictures += [Series(f"{D} factors", z, seen), Series(f"D = {D}", z, density, "predicted")]
    densities, shares, counted = (torch.cat(ones) for ones in zip(*found.values(), strict=True))
    beyond = [product_uniform_logpdf(torch.tensor([-1.0, 0.0, 1.0, 2.0]), D) for D in (1, 2, 3)]
    return every({
        "density": at_least(densities, 0.0, why="a density is never negative"),
        "cells": equal_to_rounding(shares, torch.full_like(shares, 1 / CELLS)),
        "draws": within_errors(
            counted, shares, error=(1 / CELLS / draws) ** 0.5, k=6, why="shares of many draws"
        ),
        "nothing beyond": equal(torch.stack(beyond).exp(), 0, tol=0, why="not in (0, 1)"),
    }).drawn(*pictures, x="z", y="density")


@claim(control={"scheme": "he"}, source="Glorot and Bengio 2010, eq. 12")
def glorot_compromise(
    seed: Seed, *, n: Annotated[int, Range(20, 300)] = 200,
    m: Annotated[int, Range(400, 1000)] = 800, same: Annotated[int, Range(20, 500)] = 500,
    draws: Annotated[int, Range(50, 400)] = 200, scheme: Literal["glorot", "he"] = "glorot",
) -> Evidence:
    r"""Variance $2/(n+m)$: factors $2n/(n+m)$ forward and $2m/(n+m)$ back; 1 only if $n=m$."""
    return every({
        name: _multiplied(
            seed.child(b).torch(), [a, b], draws, (2 * a / (a + b), 2 * b / (a + b)), scheme=scheme
        )
        for name, a, b in (("wide", n, m), ("square", same, same))
    })


@claim(control={"scheme": "lecun"}, source="He, Zhang, Ren and Sun 2015, sec. 2.2")
def he_keeps_second_moment(
    seed: Seed, *, depth: Annotated[int, Range(2, 20)] = 20, width: Wide = 256,
    draws: Draws = 50, scheme: Literal["he", "lecun"] = "he",
) -> Evidence:
    r"""ReLU layers with variance $2/n$ keep $E[h^2]$: half of each symmetric $z$ survives."""
    return _multiplied(seed.torch(), [width] * (depth + 1), draws, activation="relu", scheme=scheme)


@claim(
    control={"activation": "sigmoid"}, refutes=["means"], source="LeCun et al. 1998, sec. 4.4",
)
def tanh_fits_the_assumption(
    seed: Seed, *, depth: Annotated[int, Range(2, 20)] = 8,
    width: Annotated[int, Range(32, 128)] = 64, draws: Annotated[int, Range(50, 500)] = 100,
    activation: Literal["tanh", "sigmoid"] = "tanh",
) -> Evidence:
    r"""Activations that start with mean 0 keep it with tanh; the logistic function breaks it."""
    rng = seed.torch()
    means, *_ = _profiles(rng, [width] * (depth + 1), draws, activation, scheme="lecun")
    measured, error = means.mean(dim=0), standard_error(means)
    mlp, x = MLP([6, 9, 7, 4], activation="tanh", rng=rng).double(), randn(rng, 11, 6)
    found = depth_profile(mlp, x, rng=seed.child("output").torch())
    states = mlp.activations(x.clone().requires_grad_())
    slopes = torch.autograd.grad(states[-1], states, randn(seed.child("output").torch(), 11, 4))
    by_hand = [torch.stack([one.mean() for one in states]), *(
        torch.stack([one.square().mean() for one in ones]) for ones in (states, slopes))]
    return every({
        "means": within_errors(measured, 0, error=error, why=DRAWN).drawn(
            Series("measured", range(depth + 1), measured, error=5 * error),
            Series("assumed", [0, depth], [0, 0], "predicted"), x="layer", y="mean activation",
        ),
        "profile, by autograd": equal_to_rounding(torch.stack(found), torch.stack(by_hand)),
        "it only looks": never([one.requires_grad for one in (x, *found)], why="no graph is left"),
    })


@claim(
    control={"form": "printed"}, refutes=["eigenvalues"], source="W'W = I; uniform: Mezzadri 2007",
    misprint=r"orthogonal matrices have eigenvalues $\pm1$",
)
def orthogonal_spectrum(
    seed: Seed, *, half: Annotated[int, Range(2, 30)] = 6,
    matrices: Annotated[int, Range(50, 500)] = 100, form: Form = "correct",
) -> Evidence:
    r"""Orthogonal matrices: singular values 1, eigenvalues ON the unit circle, rarely real."""
    rng, W = seed.torch(), torch.empty(matrices, 2 * half, 2 * half, dtype=torch.float64)
    for matrix in W:
        initialize_(matrix, "orthogonal", rng=rng)
    values = torch.linalg.eigvals(W)
    nearest = values.real.sign() if form == "printed" else values / values.abs()
    real = (values.imag.abs() < 1e-8).double().sum(dim=1)
    turn, shown = torch.linspace(0, 2 * math.pi, 100), values[:40].flatten()
    return every({
        "eigenvalues": equal(
            (values - nearest).abs(), 0, tol=1e-10, why="rounding of the eigenvalue solver"
        ).drawn(
            Series("eigenvalues", shown.real, shown.imag),
            Series("unit circle", turn.cos(), turn.sin(), "predicted"), x="real", y="imaginary",
        ),
        "singular values": equal(torch.linalg.svdvals(W), 1, tol=1e-10, why="rounding of the SVD"),
        # of an even size: none if the determinant is 1, both +1 and -1 if it is -1
        "real ones of a matrix": within_errors(
            real.mean(), 1, error=matrices**-0.5,
            why="of the mean of 0 or 2, for determinants 1 and -1 are equally likely",
        ),
    })


@claim(
    control={"form": "printed"}, source="W'W = I",
    misprint=r"$W/\sqrt m\sim\mathrm{Unif}(O(m))$, so that $W^\top W=mI$",
)
def orthogonal_preserves_norm(
    seed: Seed, *, depth: Annotated[int, Range(2, 100)] = 30,
    width: Annotated[int, Range(2, 200)] = 6, form: Form = "correct",
) -> Evidence:
    r"""$W^\top W=I$ gives $\Vert Wx\Vert=\Vert x\Vert$ through any depth, forward and back."""
    rng, gain = seed.torch(), 1.0 if form == "correct" else math.sqrt(width)
    net = nn.Sequential(*list(_stack([width] * (depth + 1), "identity"))[::2])  # no activations
    initialize_(net, "orthogonal", gain=gain, rng=rng)
    states = [randn(rng, INPUTS, width).requires_grad_()]
    for layer in net:
        states.append(layer(states[-1]))
    gradients = torch.autograd.grad(states[-1], states, randn(rng, INPUTS, width))
    # (depth + 1, INPUTS): of every input by itself
    there, back = (torch.stack([*of]).detach().norm(dim=2) for of in (states, gradients))
    there, back = there / there[0], back / back[-1]
    number, why = range(depth + 1), "float64 rounding, layer by layer"
    return every({
        "forward": equal(there, 1, tol=1e-10, why=why).drawn(
            Series("longest", number, there.amax(dim=1)),
            Series("shortest", number, there.amin(dim=1)),
            Series("kept", [0, depth], [1, 1], "predicted"),
            x="layer", y="length, of the input = 1", log="y",
        ),
        "back": equal(back, 1, tol=1e-10, why=why),
    })


@claim(control={"scheme": "lecun"}, source="Saxe, McClelland and Ganguli 2014, sec. 3")
def dynamical_isometry(
    seed: Seed, *, depth: Annotated[int, Range(10, 100)] = 30,
    width: Annotated[int, Range(16, 128)] = 64,
    scheme: Literal["orthogonal", "lecun"] = "orthogonal",
) -> Evidence:
    r"""From orthogonal starts all singular values of a deep linear net's Jacobian are 1."""
    rng, net = seed.torch(), _stack([width] * (depth + 1), "identity")
    values, gaussian = (
        jacobian_spectrum(initialize_(net, name, rng=rng), randn(rng, width)).detach()
        for name in (scheme, "lecun")
    )
    number, why = range(1, width + 1), "float64 rounding, layer by layer"
    return equal(values, 1, tol=1e-8, why=why).named("singular values of the Jacobian").drawn(
        Series("measured", number, values), Series("isometry", number, values**0, "predicted"),
        Series("normal weights of the same variance", number, gaussian, "other"),
        x="number of the singular value", y="singular value", log="y",
    )


@claim(control={"start": "random"}, source="by symmetry; Rumelhart, Hinton and Williams 1986")
def equal_start_stays_equal(
    seed: Seed, *, width: Annotated[int, Range(2, 100)] = 16,
    value: Annotated[float, Range(0.01, 0.5)] = 0.1, steps: Annotated[int, Range(10, 500)] = 100,
    start: Literal["constant", "random"] = "constant",
) -> Evidence:
    r"""Hidden units that start with equal weights have equal gradients: they never differ."""
    rng, spreads = seed.torch(), []
    mlp = MLP([5, width, width, 3], activation="tanh", rng=rng).double()
    for parameter in mlp.parameters() if start == "constant" else ():
        nn.init.constant_(parameter, value)
    x, y = randn(rng, 50, 5), randn(rng, 50, 3)
    sgd = torch.optim.SGD(mlp.parameters(), lr=0.8 / width)  # equal units add up in the curvature
    for _ in range(steps):
        sgd.zero_grad()
        F.mse_loss(mlp(x), y).backward()
        sgd.step()
        units = [mlp.layers[0].weight, mlp.layers[1].weight, mlp.layers[2].weight.mT]
        spreads.append(max(float((one - one[0]).detach().abs().max()) for one in units))
    why = "the same sums; a matrix product may add those of its last rows in another order"
    return equal(spreads, 0, tol=1e-10, why=why).named("differences of units").drawn(
        Series("measured", range(1, steps + 1), spreads, style="line"),
        Series("equal", [1, steps], [0, 0], "predicted"),
        x="step", y="largest difference between hidden units",
    )


@claim(control={"rescale": False}, refutes=["variance"], source="Mishkin and Matas 2016, alg. 1")
def lsuv_unit_variance(
    seed: Seed, *, depth: Annotated[int, Range(2, 30)] = 10,
    width: Annotated[int, Range(16, 256)] = 64, activation: ActivationName = "gelu",
    rescale: bool = True,
) -> Evidence:
    r"""Rescaled one after the other, layers have outputs of variance 1, whatever is between."""
    rng, shared = seed.torch(), nn.utils.skip_init(nn.Conv1d, width, width, 1).double()
    mlp = MLP([width] * (depth + 1), activation=activation, rng=rng).double()
    x = 3 * randn(rng, 200, width) + 1
    several = nn.Sequential(nn.Unflatten(1, (width, 1)), shared, nn.ReLU(), shared)
    for net in (mlp, several):
        lsuv_(net, x, rng=rng) if rescale else initialize_(net, "orthogonal", rng=rng)
    pairs = zip(mlp.layers, mlp.activations(x), strict=False)  # no layer takes the last output
    outputs = [*(layer(one) for layer, one in pairs), several[:2](x)]  # its first use: see `lsuv_`
    variances = torch.stack([one.detach().var(correction=0) for one in outputs])
    condition = torch.stack([torch.linalg.cond(one.weight.detach()) for one in mlp.layers])
    return every({
        "variance": equal_to_rounding(variances, variances**0).drawn(
            Series("measured", range(1, depth + 1), variances[:-1]),
            Series("rescaled", [1, depth], [1, 1], "predicted"),
            x="layer", y="variance of its outputs", log="y",
        ),
        "singular values are alike": equal_to_rounding(condition, condition**0),
    })

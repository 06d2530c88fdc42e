r"""Multilayer perceptron: affine maps with a nonlinearity between them, one after the other.

A layer multiplies by a matrix, adds a bias and bends every coordinate by the same function
$\varphi$. One unit is a ridge: it sees its input along one direction and is constant across it; its
gradient points along that direction, as every gradient points across the level sets. The weights
are not unique: hidden units may be permuted, flipped where $\varphi$ is odd, rescaled where it is a
rectifier, and each network lives inside a wider one in several ways. Nearly all of the cost is in
the matrix products: a unit takes $n$ multiply-adds and one $\varphi$.

$$ F = F^L\circ\dots\circ F^1, \quad x^l = F^l(x^{l-1}) = \varphi(W^lx^{l-1}+b^l), \quad
W^l\in\mathbb R^{m\times n},\ b^l\in\mathbb R^m $$

$$ W^{l+1}\varphi(W^lx+b^l) = (W^{l+1}M^{-1})\,\varphi(MW^lx+Mb^l) \quad\text{where}\quad
\varphi(Mz) = M\varphi(z) $$

$$ f(x) = \sigma(w^\top x+b), \quad \nabla f(x) = \sigma'(w^\top x+b)\,w, \quad
\{f=c\} = \bigcup_{\sigma(z)=c}\{x: w^\top x+b=z\} $$

Symbols:
    $F$: network, `MLP`, of $L$ layers $F^l$, each from width $n$ to $m$ with $m(n+1)$ parameters
    $x^l$: output of layer $l$, entry `l` of `MLP.activations`; $x^0$ is the input
    $W^l, b^l$: weight and bias of `MLP.layers[l - 1]`, an `nn.Linear`
    $\varphi$: activation function, `MLP.phi`; the last layer has `out_activation`, or none
    $M$: permutation (`permute_hidden`), signs (`flip_signs`) or a positive factor (`rescale_unit`)
    $f$: a ridge function, `ridge`, of $w$, $b$ and $\sigma$; $\{f=c\}$ is its level set
    $\nu$: outgoing weights of a hidden unit, a column of $W^{l+1}$

References:
    Hecht-Nielsen (1990), On the algebraic structure of feedforward network weight spaces.
        Advanced Neural Computers. doi:10.1016/B978-0-444-88400-8.50019-4
    Sussmann (1992), Uniqueness of the weights for minimal feedforward nets with a given
        input-output map. Neural Networks 5(4). doi:10.1016/S0893-6080(05)80037-1
    LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document
        recognition. Proceedings of the IEEE 86(11). doi:10.1109/5.726791
    Fukumizu and Amari (2000), Local minima and plateaus in hierarchical structures of multilayer
        perceptrons. Neural Networks 13(3). doi:10.1016/S0893-6080(00)00009-5
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine
        learning algorithms. arXiv:1708.07747
"""

__all__ = [
    "MLP", "permute_hidden", "flip_signs", "rescale_unit", "widen", "ridge", "level_set_points",
    "as_linear_functional",
]

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, final

import plotly.graph_objects as go
import torch
from jaxtyping import Float, Int
from sklearn.datasets import make_moons
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.fashion import fashion
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Choice, Count, Each, Natural, Positive, Range, Signs
from principia.lab.draws import randn
from principia.lab.errors import UsageError, refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.learners import learner
from principia.lab.relations import at_most, equal, every, identical, slope
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Supervised, accuracy, fit
from principia.lab.training.metrics import outputs_of
from principia.networks.activations import ACTIVATIONS

ActivationName = Annotated[str, Choice(tuple(ACTIVATIONS))]
Sizes = Annotated[Sequence[int], Each(Range(1, math.inf, kind=int))]
Dim = Annotated[int, Range(2, 50)]
Width = Annotated[int, Range(2, 200)]
Depth = Annotated[int, Range(2, 8)]
HALVINGS = 60  # a bracket of float64 has closed by then


@final
class MLP(nn.Module):
    r"""Composes layers $x\mapsto\varphi(Wx+b)$; the last one is affine unless told otherwise.

    Shapes:
        x: (..., sizes[0]); returns (..., sizes[-1])

    Args:
        sizes: Width of the input, of each hidden layer, of the output.
        activation: Name of $\varphi$ in `ACTIVATIONS`, behind every layer but the last.
        out_activation: Name of the function behind the last layer; none for logits.
        bias: Whether layers add a bias.
        rng: Draws weights and biases, uniform in $\pm1/\sqrt n$ like those of `nn.Linear`; by
            default torch's global generator.

    Example:
        >>> mlp = MLP([784, 300, 10], rng=torch.Generator().manual_seed(0))
        >>> logits = mlp(torch.zeros(64, 784))
        >>> logits.shape, sum(one.numel() for one in mlp.parameters())
        (torch.Size([64, 10]), 238510)
    """

    @checked
    def __init__(
        self, sizes: Sizes, *, activation: ActivationName = "relu",
        out_activation: ActivationName | None = None, bias: bool = True,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if len(sizes) < 2:
            hint = "Name the width of the input and that of the output."
            raise refuse("MLP", "sizes", "two or more values", sizes, hint)
        self.activation, self.out_activation = activation, out_activation
        self.phi = ACTIVATIONS[activation].module()
        self.out_phi = ACTIVATIONS[out_activation or "identity"].module()
        # what a list of modules gives back, its type does not tell
        self.layers: Sequence[nn.Linear] = nn.ModuleList(  # type: ignore[assignment]
            nn.utils.skip_init(nn.Linear, n, m, bias=bias) for n, m in itertools.pairwise(sizes)
        )
        for layer in self.layers:
            for parameter in layer.parameters():
                _draw(parameter, layer.in_features, rng)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The widths of input, hidden layers and output."""
        return (self.layers[0].in_features, *(one.out_features for one in self.layers))

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*B m"]:
        """Compute the output of the last layer."""
        return self.activations(x)[-1]

    def activations(self, x: Float[Tensor, "*B n"]) -> list[Float[Tensor, "*B _"]]:
        r"""List every $x^l$ from the input $x^0$ to the output $x^L$: entry `l` is $x^l$."""
        outputs = [x]
        for number, layer in enumerate(self.layers, start=1):
            if x.shape[-1:] != (layer.in_features,):
                raise _wrong_width(number, layer.in_features, x)
            x = (self.phi if number < len(self.layers) else self.out_phi)(layer(x))
            outputs.append(x)
        return outputs


@learner
def network(
    inputs: Count, outputs: Count, rng: torch.Generator, *, hidden: tuple[Count, ...] = (64, 64),
    activation: ActivationName = "relu",
) -> nn.Module:
    """Builds an MLP for any table.

    Args:
        hidden: Widths of the hidden layers.
        activation: What stands behind each of them.
    """
    return MLP([inputs, *hidden, outputs], activation=activation, rng=rng)


@checked
def permute_hidden(mlp: MLP, layer: Count, perm: Int[Tensor, " m"] | Sequence[int]) -> MLP:
    r"""Renames the units of a hidden layer with their outgoing weights: the function stays.

    Args:
        mlp: The network; it is left as it is.
        layer: Which hidden layer, from 1 to $L-1$.
        perm: A permutation of 0 to $m-1$; the new unit `i` is the old unit `perm[i]`.

    Example:
        >>> mlp, x = MLP([2, 3, 1]), torch.randn(5, 2)
        >>> torch.allclose(permute_hidden(mlp, 1, [2, 0, 1])(x), mlp(x), atol=1e-6)
        True
    """
    incoming, outgoing = _weights_of("permute_hidden", mlp, layer)
    order, m = torch.as_tensor(perm, device=incoming.device), len(incoming)
    if order.shape != (m,) or not torch.equal(order.sort().values, torch.arange(m).to(order)):
        domain = f"a permutation of the {m} units of layer {layer}, 0 to {m - 1}"
        raise refuse("permute_hidden", "perm", domain, order.tolist())
    return _rebuilt(mlp, layer, incoming[order], outgoing[:, order])


@checked
def flip_signs(mlp: MLP, layer: Count, signs: Annotated[Tensor, Signs]) -> MLP:
    r"""Changes the sign of hidden units and of their outgoing weights; $\varphi$ must be odd.

    Args:
        mlp: The network; it is left as it is.
        layer: Which hidden layer, from 1 to $L-1$.
        signs: A sign for each unit of the layer.

    Example:
        >>> mlp, x = MLP([2, 3, 1], activation="tanh"), torch.randn(5, 2)
        >>> flipped = flip_signs(mlp, 1, torch.tensor([1.0, -1.0, -1.0]))
        >>> torch.allclose(flipped(x), mlp(x), atol=1e-6)
        True
    """
    _need_law("flip_signs", mlp, -1.0, "odd")
    return _scaled("flip_signs", mlp, layer, signs)


@checked
def rescale_unit(mlp: MLP, layer: Count, i: Natural, c: Positive) -> MLP:
    r"""Multiplies what enters a hidden unit and divides what leaves it, as rectifiers allow.

    Args:
        mlp: The network, with $\varphi(cz)=c\varphi(z)$ for $c>0$; it is left as it is.
        layer: Which hidden layer, from 1 to $L-1$.
        i: Which of its units, from 0.
        c: The factor.

    Example:
        >>> mlp, x = MLP([2, 3, 1]), torch.randn(5, 2)
        >>> torch.allclose(rescale_unit(mlp, 1, 0, 10.0)(x), mlp(x), atol=1e-5)
        True
    """
    _need_law("rescale_unit", mlp, 2.0, "positively homogeneous")
    factors = torch.ones_like(_weights_of("rescale_unit", mlp, layer, i)[1][0])
    factors[i] = c
    return _scaled("rescale_unit", mlp, layer, factors)


@checked
def widen(
    mlp: MLP, layer: Count, how: Literal["zero", "split", "dead"] = "zero", *, i: Natural = 0,
    alpha: float = 0.5, rng: torch.Generator | None = None,
) -> MLP:
    r"""Adds a unit to a hidden layer without changing the function.

    Args:
        mlp: The network; it is left as it is.
        layer: Which hidden layer, from 1 to $L-1$.
        how: Weights $w,b$ from `rng` with $\nu=0$ (zero); a copy of unit `i` with $(1-\alpha)\nu$,
            while the original keeps $\alpha\nu$ (split); or $w=b=0$ with $\nu$ from `rng`, where
            $\varphi(0)=0$ (dead).
        i: The unit that is split.
        alpha: The share that it keeps; any number.
        rng: Draws the free weights; by default torch's global generator.

    Example:
        >>> mlp, x = MLP([2, 3, 1]), torch.randn(5, 2)
        >>> wider = widen(mlp, 1, "split", alpha=0.3)
        >>> wider.sizes, torch.allclose(wider(x), mlp(x), atol=1e-6)
        ((2, 4, 1), True)
    """
    incoming, outgoing = _weights_of("widen", mlp, layer, i)
    row, column = torch.zeros_like(incoming[0]), torch.zeros_like(outgoing[:, 0])
    if how == "zero":
        _draw(row, mlp.sizes[layer - 1], rng)
    elif how == "split":
        row, column = incoming[i], (1 - alpha) * outgoing[:, i]
        outgoing[:, i] *= alpha
    elif float(mlp.phi(row.new_zeros(1))) != 0:
        hint = f"A dead unit would add {mlp.activation}(0) times its outgoing weights."
        raise refuse("widen", "how", f"'zero' or 'split' with {mlp.activation}", how, hint)
    else:
        _draw(column, len(incoming), rng)
    wider = torch.cat([incoming, row[None]]), torch.cat([outgoing, column[:, None]], dim=1)
    return _rebuilt(mlp, layer, *wider)


@checked
def ridge(
    x: Float[Tensor, "*B n"], w: Float[Tensor, " n"], b: float, sigma: Callable[[Tensor], Tensor]
) -> tuple[Float[Tensor, "*B"], Float[Tensor, "*B n"]]:
    r"""Evaluates one unit, $\sigma(w^\top x+b)$, and its gradient $\sigma'(w^\top x+b)\,w$.

    Example:
        >>> value, gradient = ridge(torch.eye(2), torch.tensor([1.0, -2.0]), 0.0, torch.square)
        >>> value.tolist(), gradient.tolist()
        ([1.0, 4.0], [[2.0, -4.0], [-4.0, 8.0]])
    """
    value, pull_back = torch.func.vjp(sigma, x @ w + b)[:2]
    (derivative,) = pull_back(torch.ones_like(value))
    return value, derivative[..., None] * w


@checked
def level_set_points(
    f: Callable[[Tensor], Tensor], c: float, *, low: float = -1.0, high: float = 1.0,
    cells: Count = 100,
) -> Float[Tensor, "K 2"]:
    r"""Finds points of $\{f=c\}$ in a square: where the lines of a grid cross it, by bisection.

    Args:
        f: A continuous function of points (B, 2) in float64, with values (B,).
        c: The level.
        low: Lower end of both coordinates.
        high: Their upper end.
        cells: Cells of the grid a side; what is smaller than a cell may be missed.

    Example:
        >>> circle = level_set_points(lambda x: x.norm(dim=-1), 0.5, cells=10)
        >>> bool(((circle.norm(dim=-1) - 0.5).abs() < 1e-15).all())
        True
    """
    if low >= high:
        raise refuse("level_set_points", "low", f"below high, which is {high:g}", low)
    ticks = torch.linspace(low, high, cells + 1, dtype=torch.float64)
    grid = torch.cartesian_prod(ticks, ticks).view(cells + 1, cells + 1, 2)
    above = (f(grid.flatten(0, 1)) > c).view(cells + 1, cells + 1)
    rows, columns = above[1:] != above[:-1], above[:, 1:] != above[:, :-1]
    start = torch.cat([grid[:-1][rows], grid[:, :-1][columns]])  # (K, 2)
    end = torch.cat([grid[1:][rows], grid[:, 1:][columns]])
    side = f(start) > c
    for _ in range(HALVINGS):
        middle = (start + end) / 2
        same = ((f(middle) > c) == side)[:, None]
        start, end = torch.where(same, middle, start), torch.where(same, end, middle)
    return (start + end) / 2


@checked
def as_linear_functional(f: Callable[[Tensor], Tensor], n: Count) -> Float[Tensor, " n"]:
    r"""Reads the weights of a linear $f(x)=w^\top x$ off the basis vectors: $w_i=f(e_i)$.

    Args:
        f: A linear function of points (B, n) in float64, with values (B,).
        n: Dimension of the points.

    Example:
        >>> as_linear_functional(lambda x: 2 * x[:, 0] - x[:, 2], 3).tolist()
        [2.0, 0.0, -1.0]
    """
    return f(torch.eye(n, dtype=torch.float64))


def _wrong_width(number: int, n: int, x: Tensor) -> UsageError:
    """Say which layer got which width; pictures that nobody flattened are the usual reason."""
    width, shape = x.shape[-1] if x.ndim else 0, tuple(x.shape)
    hint = " Flatten pictures with x.flatten(1)." if math.prod(shape[1:]) == n else ""
    return UsageError(
        f"MLP: x must have width {n} at layer {number}; got width {width}, shape {shape}.{hint}"
    )


def _draw(parameter: Tensor, n: int, rng: torch.Generator | None) -> None:
    nn.init.uniform_(parameter, -(n**-0.5), n**-0.5, generator=rng)


def _need_law(owner: str, mlp: MLP, factor: float, word: str) -> None:
    """Refuse an activation that does not commute with a factor."""
    z = torch.linspace(-4, 4, 33, dtype=torch.float64)
    if not torch.allclose(mlp.phi(factor * z), factor * mlp.phi(z), rtol=1e-12, atol=0):
        raise refuse(owner, "the activation", word, mlp.activation)


def _weights_of(owner: str, mlp: MLP, layer: int, i: int = 0) -> tuple[Tensor, Tensor]:
    """Copy what enters a hidden layer, one row [w b] a unit, and what leaves it, one column."""
    hidden = len(mlp.layers) - 1
    if layer > hidden:
        raise refuse(owner, "layer", f"one of the {hidden} hidden layers, from 1", layer)
    before, after = mlp.layers[layer - 1 : layer + 1]
    parts = [one.detach() for one in (before.weight, before.bias) if one is not None]
    incoming = torch.cat([one.reshape(len(one), -1) for one in parts], dim=1)
    if i >= len(incoming):
        raise refuse(owner, "i", f"an integer in [0, {len(incoming) - 1}]", i)
    return incoming, after.weight.detach().clone()


def _scaled(owner: str, mlp: MLP, layer: int, factors: Tensor) -> MLP:
    """Multiply what enters each unit of a hidden layer, and divide what leaves it."""
    incoming, outgoing = _weights_of(owner, mlp, layer)
    if factors.shape != (len(incoming),):
        domain = f"one for each of the {len(incoming)} units of layer {layer}"
        raise refuse(owner, "signs", domain, tuple(factors.shape))
    factors = factors.to(incoming)
    return _rebuilt(mlp, layer, factors[:, None] * incoming, outgoing / factors)


def _rebuilt(mlp: MLP, layer: int, incoming: Tensor, outgoing: Tensor) -> MLP:
    """Copy a network with other weights into and out of a hidden layer, which may be wider."""
    rebuilt, n = copy.deepcopy(mlp), mlp.sizes[layer - 1]
    before, after = rebuilt.layers[layer - 1 : layer + 1]
    before.weight, after.weight = nn.Parameter(incoming[:, :n].clone()), nn.Parameter(outgoing)
    if before.bias is not None:
        before.bias = nn.Parameter(incoming[:, n].clone())
    before.out_features = after.in_features = len(incoming)
    return rebuilt


@claim(
    control={"bias_in": "R^n"}, source="by definition",
    misprint=r"$b\in\mathbb R^n$, as many biases as inputs",
)
def parameter_count(
    seed: Seed, *, networks: Annotated[int, Range(1, 200)] = 30, depth: Depth = 3,
    widest: Annotated[int, Range(10, 300)] = 60, bias_in: Literal["R^m", "R^n"] = "R^m",
) -> Evidence:
    r"""A layer from width $n$ to $m$ has $m(n+1)$ parameters, for its bias is in $\mathbb R^m$."""
    rng, layers = seed.torch(), []
    for _ in range(networks):
        sizes = torch.randperm(widest, generator=rng)[: depth + 1] + 1  # no two are equal
        layers += MLP(sizes.tolist(), rng=rng).layers
    widths = torch.tensor([[one.in_features, one.out_features] for one in layers])
    counts = [sum(part.numel() for part in one.parameters()) for one in layers]
    biases = widths[:, 1] if bias_in == "R^m" else widths[:, 0]
    return equal(
        counts, widths.prod(dim=1) + biases, tol=0, why="a count", detail=f"{len(layers)} layers"
    )


@claim(control={"order": "last first"}, source="by definition")
def composition(
    seed: Seed, *, depth: Depth = 3, width: Width = 20, activation: ActivationName = "tanh",
    order: Literal["first first", "last first"] = "first first",
) -> Evidence:
    r"""The network is $F^L\circ\dots\circ F^1$, and hooks on its parts see every $x^l$."""
    rng, seen = seed.torch(), []
    mlp = MLP([width] * (depth + 1), activation=activation, out_activation="sigmoid", rng=rng)
    mlp, x = mlp.double(), randn(rng, 3, 50, width)
    functions = [ACTIVATIONS[activation].module()] * (depth - 1) + [torch.sigmoid]
    pairs = list(zip(mlp.layers, functions, strict=True))
    explicit = [x]
    for layer, phi in pairs if order == "first first" else pairs[::-1]:
        W, b = layer.weight, layer.bias
        explicit.append(phi(torch.einsum("mn,...n->...m", W, explicit[-1]) + b))
    for part in (mlp.phi, mlp.out_phi):
        part.register_forward_hook(lambda module, inputs, output: seen.append(output))
    output, hooked = mlp(x), torch.stack(seen)
    return every({
        "network": identical(output, explicit[-1]),
        "hooks": identical(hooked, torch.stack(explicit[1:])),
        "activations": identical(torch.stack(mlp.activations(x)), torch.stack(explicit)),
    })


@claim(control={"bias": True}, source="Riesz 1907, in finite dimension by the basis")
def linear_functional(
    seed: Seed, *, dim: Dim = 10, width: Width = 30, depth: Depth = 3, bias: bool = False
) -> Evidence:
    r"""$f$ is linear exactly if $f(x)=w^\top x$, with $w_i=f(e_i)$ read off the basis vectors."""
    rng = seed.torch()
    sizes = [dim, *[width] * (depth - 1), 1]
    mlp = MLP(sizes, activation="identity", bias=bias, rng=rng).double()
    w = as_linear_functional(lambda x: mlp(x)[:, 0], dim)
    x, y, a, b = *randn(rng, 2, 1000, dim), *randn(rng, 2, 1000, 1)
    mixed, apart = mlp(a * x + b * y), a * mlp(x) + b * mlp(y)
    return every({
        "f(x) = w'x": identical(mlp(x)[:, 0], x @ w),
        "f(ax + by) = af(x) + bf(y)": identical(mixed, apart),
    })


@claim(control={"tilt": 30.0}, source="Logan and Shepp 1975")
def ridge_invariance(
    seed: Seed, *, dim: Dim = 10, perturbations: Annotated[int, Range(100, 100_000)] = 10_000,
    level: Annotated[float, Range(-0.95, 0.95)] = 0.5, tilt: Annotated[float, Range(0, 90)] = 0.0,
) -> Evidence:
    r"""$f(x+\delta)=f(x)$ if $\delta\perp w$; $\nabla f\parallel w$; $\{f=c\}$ are hyperplanes."""
    rng = seed.torch()
    w, b = 4 * functional.normalize(randn(rng, dim), dim=0), float(randn(rng, 1))
    x, steps = randn(rng, 2, perturbations, dim)
    unit, tilted = w / w.norm(), math.radians(tilt)
    steps = functional.normalize(steps - (steps @ unit)[:, None] * unit, dim=1)
    moved = x + math.cos(tilted) * steps + math.sin(tilted) * unit
    value, gradient = ridge(x.requires_grad_(), w, b, torch.sin)
    (slopes,) = torch.autograd.grad(value.sum(), x)
    first = math.asin(level)
    turns = 2 * math.pi * torch.arange(-3, 4, dtype=torch.float64)
    fields = torch.cat([first + turns, math.pi - first + turns])  # all z near 0 with sin z = level
    some = moved[:100]
    onto = some + ((fields[:, None] - (some @ w + b)) / (w @ w))[..., None] * w  # (14, 100, dim)
    plane = w.new_tensor([3.0, 4.0])
    found = level_set_points(lambda x: ridge(x, plane, b, torch.sin)[0], level, cells=40)
    z = found @ plane + b
    nearest = fields[(z[:, None] - fields).abs().argmin(dim=1)]
    return every({
        "across w": identical(ridge(moved, w, b, torch.sin)[0], value),
        "gradient": identical(gradient, slopes),
        "gradient along w": identical((slopes @ unit)[:, None] * unit, slopes),
        "value on all hyperplanes": identical(ridge(onto, w, b, torch.sin)[0], level),
        "level set in the plane": identical(z, nearest).drawn(
            Series("points of the level set", found[:, 0], found[:, 1]), x="x₁", y="x₂",
        ),
    })


@claim(control={"angle": 60.0}, source="by the chain rule")
def gradient_normal_to_level_set(
    seed: Seed, *, dim: Dim = 5, width: Width = 30, depth: Annotated[int, Range(2, 5)] = 3,
    angle: Annotated[float, Range(0, 90)] = 0.0,
) -> Evidence:
    r"""$\nabla f=0$ or $\nabla f\perp\{f=c\}$: along tangents $f$ changes by $O(\epsilon^2)$."""
    rng, turn = seed.torch(), math.radians(angle)
    mlp = MLP([dim, *[width] * (depth - 1), 1], activation="tanh", rng=rng).double()
    x, v = randn(rng, 2, 500, dim)
    (gradient,) = torch.autograd.grad(mlp(x.requires_grad_()).sum(), x)
    normal = functional.normalize(gradient, dim=1)
    tangent = functional.normalize(v - (v * normal).sum(dim=1, keepdim=True) * normal, dim=1)
    eps = torch.logspace(-3.5, -1.5, 9, dtype=torch.float64)
    steps = eps[:, None, None] * (math.cos(turn) * tangent + math.sin(turn) * normal)
    free = eps[:, None, None] * v
    changes = {
        "along tangents": mlp(x + steps) - mlp(x),
        # f(x) + f(-x) has no gradient at 0: all directions are alike
        "where the gradient is 0": mlp(free) + mlp(-free) - 2 * mlp(0 * v),
    }
    return every({
        name: slope(
            eps, one.square().mean(dim=(1, 2)).sqrt(), 2, tol=0.1,
            why="the terms beyond the square are a share ε of it or less",
            labels=("length ε of the step", "root mean square of the change of f"),
        )
        for name, one in changes.items()
    })


@claim(control={"outgoing": "kept"}, source="Hecht-Nielsen 1990")
def permutation_symmetry(
    seed: Seed, *, width: Width = 20, depth: Depth = 3, few: Annotated[int, Range(2, 6)] = 4,
    activation: ActivationName = "gelu", outgoing: Literal["permuted", "kept"] = "permuted",
) -> Evidence:
    r"""$F[W,b]=P^{-1}F[PW,Pb]$: $m$ hidden units have $m!$ parameter vectors for one function."""
    rng = seed.torch()
    mlp = MLP([5, *[width] * (depth - 1), 3], activation=activation, rng=rng).double()
    x, cycle, parts = randn(rng, 100, 5), torch.randperm(width, generator=rng), {}
    perm = cycle[cycle.argsort().add(1) % width]  # one long cycle: every unit moves
    for layer in range(1, depth):
        other = permute_hidden(mlp, layer, perm)
        if outgoing == "kept":
            other.layers[layer].weight = mlp.layers[layer].weight
        units = mlp.activations(x)[layer][:, perm]
        parts[f"units of layer {layer}"] = identical(other.activations(x)[layer], units)
        parts[f"function, layer {layer}"] = identical(other(x), mlp(x))
    small = MLP([5, few, 3], activation=activation, rng=rng).double()
    copies = [permute_hidden(small, 1, one) for one in itertools.permutations(range(few))]
    vectors = {tuple(nn.utils.parameters_to_vector(one.parameters()).tolist()) for one in copies}
    outputs = torch.stack([one(x) for one in copies])
    parts["m! parameter vectors"] = equal(len(vectors), math.factorial(few), tol=0, why="a count")
    parts["one function"] = identical(outputs, small(x).expand_as(outputs))
    return every(parts)


@claim(control={"odd": "relu"}, source="Sussmann 1992; Neyshabur, Salakhutdinov and Srebro 2015")
def sign_and_scale_symmetry(
    seed: Seed, *, width: Width = 20, depth: Depth = 3, c: Annotated[float, Range(0.01, 100)] = 7.0,
    odd: Literal["tanh", "hardtanh", "identity", "relu"] = "tanh",
    homogeneous: Literal["relu", "leaky_relu", "avu", "identity"] = "relu",
) -> Evidence:
    r"""Odd $\varphi$: flip $(w,b,\nu)$; ReLU: $(cw,cb,\nu/c)$, $c>0$; the function is the same."""
    rng, parts, sizes = seed.torch(), {}, [5, *[width] * (depth - 1), 3]
    flipping, scaling = (MLP(sizes, activation=one, rng=rng).double() for one in (odd, homogeneous))
    x, signs = randn(rng, 100, 5), 1 - 2.0 * (torch.arange(width) % 2).roll(1)
    for layer in range(1, depth):
        # the control is what flip_signs refuses
        flip = flip_signs if odd != "relu" else lambda *given: _scaled("control", *given)
        parts[f"signs, layer {layer}"] = identical(flip(flipping, layer, signs)(x), flipping(x))
        scaled = rescale_unit(scaling, layer, width - 1, c)
        parts[f"scale, layer {layer}"] = identical(scaled(x), scaling(x))
        before, after = (one.activations(x)[layer][:, -1] for one in (scaling, scaled))
        parts[f"unit, layer {layer}"] = identical(after, c * before)
    return every(parts)


@claim(
    control={"shift": "0"}, source="Fukumizu and Amari 2000",
    misprint=r"an extra unit with $w=b=0$ leaves the map unchanged, for any $\varphi$",
)
def nesting(
    seed: Seed, *, width: Width = 20, depth: Depth = 3,
    alpha: Annotated[float, Range(-2, 3)] = 0.3, shift: Literal["ν / 2", "0"] = "ν / 2",
) -> Evidence:
    r"""Width $m$ lives in $m+1$: $\nu=0$, a split unit, or $w=b=0$, the last if $\varphi(0)=0$."""
    rng, last = seed.torch(), depth - 1
    sizes, x, parts = [5, *[width] * last, 3], randn(rng, 100, 5), {}
    for name in ("tanh", "relu", "sigmoid"):
        mlp = MLP(sizes, activation=name, rng=rng).double()
        for how in ("zero", "split", "dead")[: 2 if name == "sigmoid" else 3]:
            wider = widen(mlp, last, how, i=width - 1, alpha=alpha, rng=rng)
            parts[f"{name}, {how}"] = identical(wider(x), mlp(x))
            grown = [*sizes[:last], width + 1, 3]
            parts[f"widths, {name}, {how}"] = equal(wider.sizes, grown, tol=0, why="a count")
    incoming, outgoing = _weights_of("nesting", mlp, last)  # of the sigmoid, which is 1/2 at 0
    nu = randn(rng, 3, 1)
    dead = _rebuilt(mlp, last, functional.pad(incoming, (0, 0, 0, 1)), torch.hstack([outgoing, nu]))
    predicted = mlp(x) + (nu[:, 0] / 2 if shift == "ν / 2" else 0)
    return every({**parts, "sigmoid, w = b = 0": identical(dead(x), predicted)})


@claim(control={"inputs": "1"}, source="by counting")
def layer_cost(
    seed: Seed, *, batch: Annotated[int, Range(1, 64)] = 8,
    largest: Annotated[int, Range(512, 2048)] = 1024, inputs: Literal["n", "1"] = "n",
) -> Evidence:
    r"""A layer costs $mn$ multiply-adds and only $m$ activations: the product dominates."""
    rng, products, units = seed.torch(), [], []
    widths = torch.linspace(256, largest, 6).long().tolist()
    shapes = [(m, n if inputs == "n" else 1) for m, n in zip(widths, widths[::-1], strict=True)]
    shapes += [(one, one if inputs == "n" else 1) for one in widths]
    for m, n in shapes:
        layer = MLP([n, m], out_activation="relu", rng=rng)
        layer.out_phi.register_forward_hook(lambda *seen: units.append(seen[-1].numel()))
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            layer(torch.ones(batch, n))
        products.append(counter.get_total_flops())
    (m, n), flops, applied = torch.tensor(shapes).T, torch.tensor(products), torch.tensor(units)
    return every({
        "flops": equal(flops, 2 * batch * m * n, tol=0, why="a count").drawn(
            Series("multiply-adds", m * n, flops / 2),
            Series("activations", m * n, applied, "other", "points"),
            Series("B m n", m * n, batch * m * n, "predicted"), x="m n", y="operations", log="xy",
        ),
        "activations": equal(applied, batch * m, tol=0, why="a count"),
        "activations for each multiply-add": at_most(
            applied / (flops / 2), 1 / 256, why="1/n, and n is 256 or more"
        ),
    })


@experiment(
    reaches={"mnist_error": at_most_goal(0.047), "fashion_accuracy": at_least_goal(0.8833)},
    floor={"digits_accuracy": at_least_goal(0.95)},
    source="LeCun et al. 1998, fig. 9, two layers with 300 hidden units: 4.7 % on MNIST; list of "
    "benchmarks of the Fashion-MNIST repository, MLP 256-128-100: 0.8833",
)
def hidden_300(
    run: Run, *, units: Annotated[int, Range(10, 1000)] = 300,
    epochs: Annotated[int, Range(1, 50)] = 8,
) -> None:
    """Reads digits with 300 hidden units and clothes with three hidden layers (full budget)."""
    digits = clothes = handwriting(run)
    if run.full:
        clothes = *fashion("train", data_dir=run.data_dir), *fashion("test", data_dir=run.data_dir)
    side = digits[0].shape[-1]
    kinds = {
        "relu": ([units], "relu", None, digits, functional.cross_entropy),
        "deep": ([256, 128, 100], "relu", None, clothes, functional.cross_entropy),
        "sigmoid": ([units], "sigmoid", "sigmoid", digits, _squared_error),
    }
    models, histories = {}, {}
    for name, (hidden, phi, out, (x, y, x_test, y_test), loss) in kinds.items():
        rng = run.seed.child(name).torch()
        models[name] = MLP([side**2, *hidden, 10], activation=phi, out_activation=out, rng=rng)
        histories[name] = fit(
            models[name], (x.flatten(1), y), Supervised(loss),
            torch.optim.Adam(models[name].parameters()), epochs=epochs,
            batch_size=128 if run.full else 32, parts=[OneCycle(0.005)],
            validation=(x_test.flatten(1), y_test), metrics={"accuracy": accuracy},
            seed=run.seed.child(f"{name} batches"), run=run, name=name,
        ).history
    run.keep(models["relu"])
    relu, deep, sigmoid = (one[-1]["validation_accuracy"] for one in histories.values())
    if run.full:
        run.record(mnist_error=1 - relu, fashion_accuracy=deep, sigmoid_mnist_error=1 - sigmoid)
    else:
        run.record(digits_accuracy=relu, deep_digits_accuracy=deep, sigmoid_digits_accuracy=sigmoid)
    run.figure("first_layer", _first_layer(models["relu"], side))
    answers = outputs_of(models["relu"], digits[2].flatten(1)).argmax(dim=1)
    run.figure("confusion", figures.confusion(digits[3], answers, [str(k) for k in range(10)]))
    run.figure("level_sets", _moons(run))


def _squared_error(outputs: Tensor, y: Tensor) -> Tensor:
    targets = y if y.is_floating_point() else functional.one_hot(y, outputs.shape[1])
    return (outputs - targets).square().sum(dim=1).mean()


def _first_layer(mlp: MLP, side: int) -> Any:
    """Draw the weights of the units that matter most, blue where they are positive."""
    first, second = (one.weight.detach().cpu() for one in mlp.layers)
    most = (first.norm(dim=1) * second.norm(dim=0)).argsort(descending=True)[:40]
    figure = figures.images(list(first[most].view(-1, side, side)), columns=10, signed=True)
    return figure.update_layout(height=420, margin={"l": 10, "r": 10, "t": 20, "b": 10})


def _moons(run: Run) -> Any:
    """Train a network in the plane and draw its level sets, with its gradient across one."""
    X, labels = make_moons(400, noise=0.15, random_state=int(run.seed.child("moons")))
    x, y = torch.tensor(X, dtype=torch.float32), torch.tensor(labels)
    mlp = MLP([2, 32, 32, 2], activation="tanh", rng=run.seed.child("plane").torch())
    fit(
        mlp, (x, y), Supervised(functional.cross_entropy), torch.optim.Adam(mlp.parameters()),
        steps=800, batch_size=50, parts=[OneCycle(0.02)], seed=run.seed.child("moons batches"),
        run=run, name="moons",
    )
    mlp = mlp.cpu().double().requires_grad_(False)

    def logit(x: Tensor) -> Tensor:
        return mlp(x).diff(dim=-1)[..., 0]

    ticks = torch.linspace(-2, 3, 151, dtype=torch.float64)
    heights = logit(torch.cartesian_prod(ticks, ticks)).view(151, 151).mT.clamp(-15, 15)
    figure = figures.draw(Picture((), "x₁", "x₂"))
    figure.add_trace(go.Contour(
        x=ticks.numpy(), y=ticks.numpy(), z=heights.numpy(), name="logit", opacity=0.7,
        colorscale="RdBu", contours={"start": -15, "end": 15, "size": 3},
        line={"width": 0.7, "color": "white"}, colorbar={"title": "logit", "thickness": 12},
    ))
    border = level_set_points(logit, 0.0, low=-2, high=3, cells=300)
    feet = border[:: max(1, len(border) // 40)].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(logit(feet).sum(), feet)
    ends = [feet.detach(), feet.detach() + 0.25 * functional.normalize(gradient, dim=1)]
    arrows = torch.stack([*ends, torch.full_like(gradient, math.nan)], dim=1).flatten(0, 1)
    white = {"color": "white", "width": 0.8}
    heads = {"symbol": "arrow", "angleref": "previous", "size": [0, 10, 0] * len(feet)}
    for name, points, mode, marker in (
        ("class 0", x[y == 0], "markers", {"color": "#991b1b", "size": 6, "line": white}),
        ("class 1", x[y == 1], "markers", {"color": "#1e3a8a", "size": 6, "line": white}),
        ("level set 0", border, "markers", {"color": "#111827", "size": 2.5}),
        ("gradient", arrows, "lines+markers", {"color": "#111827", **heads}),
    ):
        across, up = points.numpy().T
        line = {"color": "#111827", "width": 1.2}
        figure.add_trace(go.Scatter(x=across, y=up, mode=mode, name=name, marker=marker, line=line))
    figure.update_xaxes(range=[-1.8, 2.8], constrain="domain", zeroline=False)
    figure.update_yaxes(range=[-1.6, 2.0], scaleanchor="x", constrain="domain", zeroline=False)
    return figure.update_layout(height=560)

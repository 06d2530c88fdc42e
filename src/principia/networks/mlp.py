r"""Multilayer perceptron: affine maps with a nonlinearity between them, one after the other.

A layer multiplies by a matrix, adds a bias and bends every coordinate by the same function
$\varphi$. One unit is a ridge: it sees its input along one direction and is constant across it; its
gradient points along that direction, as every gradient points across the level sets. The weights
are not unique: hidden units may be permuted, flipped where $\varphi$ is odd, rescaled where it is a
rectifier, and each network lives inside a wider one in several ways. Nearly all of the cost is in
the matrix products: a unit takes $n$ multiply-adds and one $\varphi$. What other pages put between
two layers is passed in as a part: a norm in front of $\varphi$, dropout behind it.

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
    $\varphi$: activation function, `MLP.phi`; the last layer has `out_activation`, or none. With
        parts a hidden layer is $x\mapsto\mathrm{drop}(\varphi(\mathrm{norm}(Wx+b)))$, with those of
        `MLP.norms` and `MLP.drops`
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

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from principia.lab.params import (
    MADE_WITH,
    Choice,
    Each,
    NonNegativeInt,
    OrPart,
    PositiveFloat,
    PositiveInt,
    Range,
    Signs,
    UsageError,
    checked,
    usage_error,
)
from principia.networks.activations import ACTIVATIONS

ActivationName = Annotated[str, Choice(tuple(ACTIVATIONS))]
Sizes = Annotated[Sequence[int], Each(Range(1, math.inf, kind=int))]
Dropping = Annotated[float | nn.Module, OrPart(Range(0, 1, open="high"), nn.Module)]
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
        bias: Whether layers add a bias; in front of batch normalization, where it would have no
            effect, they never do.
        norm: Makes what stands between a hidden layer and its $\varphi$ for a width, such as
            `nn.LayerNorm` or `functools.partial(nn.GroupNorm, 4)`; it sees one sample a row.
        dropout: Probability of dropping a hidden unit behind its $\varphi$, or a module that does,
            of which each hidden layer gets a copy. Inputs are dropped by a module in front.
        rng: Draws weights and biases, uniform in $\pm1/\sqrt n$ like those of `nn.Linear`; by
            default torch's global generator.

    Example:
        >>> mlp = MLP([784, 300, 10], rng=torch.Generator().manual_seed(0))
        >>> logits = mlp(torch.zeros(64, 784))
        >>> logits.shape, sum(one.numel() for one in mlp.parameters())
        (torch.Size([64, 10]), 238510)
        >>> with_parts = MLP([784, 300, 10], norm=nn.LayerNorm, dropout=0.2)
        >>> scores = with_parts(torch.rand(64, 784))
        >>> with_parts.norms[0].normalized_shape, with_parts.drops[0].p
        ((300,), 0.2)
    """

    @checked
    def __init__(
        self, sizes: Sizes, *, activation: ActivationName = "relu",
        out_activation: ActivationName | None = None, bias: bool = True,
        norm: Callable[[int], nn.Module] | None = None, dropout: Dropping = 0.0,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if len(sizes) < 2:
            hint = "Name the width of the input and that of the output."
            raise usage_error("MLP", "sizes", "two or more values", sizes, hint)
        self.activation, self.out_activation = activation, out_activation
        self.phi = ACTIVATIONS[activation].module()
        self.out_phi = ACTIVATIONS[out_activation or "identity"].module()
        widths, hidden = list(itertools.pairwise(sizes)), sizes[1:-1]
        norms = [_norm(norm, m) for m in hidden if norm is not None]
        biased = [bias and not isinstance(one, _BatchNorm) for one in norms]
        biased += [bias] * (len(widths) - len(biased))
        # what a list of modules gives back, its type does not tell
        self.layers: Sequence[nn.Linear] = nn.ModuleList(  # type: ignore[assignment]
            nn.utils.skip_init(nn.Linear, n, m, bias=its)
            for (n, m), its in zip(widths, biased, strict=True)
        )
        self.norms = nn.ModuleList(norms)
        self.drops = nn.ModuleList(_dropout(dropout) for _ in hidden if dropout != 0)
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
            z, hidden = layer(x), number < len(self.layers)
            if hidden and self.norms:
                z = _normalized(self.norms[number - 1], z)
            x = self.phi(z) if hidden else self.out_phi(z)
            if hidden and self.drops:
                x = self.drops[number - 1](x)
            outputs.append(x)
        return outputs


def _norm(norm: Any, m: int) -> nn.Module:
    """Make the norm of a hidden layer, or say why there is none."""
    made, hint = None, "Pass a class such as nn.LayerNorm."
    if callable(norm) and not isinstance(norm, nn.Module):
        try:
            made = norm(m)
        except (TypeError, ValueError, RuntimeError) as error:
            hint = f"For width {m} it said: {error}"
    if not isinstance(made, nn.Module):
        domain = "a class or function that makes a module for a width"
        raise usage_error("MLP", "norm", domain, norm, hint)
    if isinstance(made, nn.LayerNorm) and made.normalized_shape == (1,):
        hint = "Layer normalization makes 0 of a single feature, whose variance is 0."
        raise usage_error("MLP", "sizes", "2 or more for every hidden layer", m, hint)
    return made


def _dropout(dropout: float | nn.Module) -> nn.Module:
    """Make the dropout of a hidden layer: one of its own, if it learns something."""
    return copy.deepcopy(dropout) if isinstance(dropout, nn.Module) else nn.Dropout(dropout)


def _normalized(norm: nn.Module, z: Tensor) -> Tensor:
    """Normalize sums (..., m) as rows (B, m): batch norm would take a second axis for features."""
    rows = z.reshape(-1, z.shape[-1])
    if isinstance(norm, _BatchNorm) and norm.training and len(rows) == 1:
        hint = "A batch of one has variance 0: choose another batch size, or norm=nn.LayerNorm."
        raise usage_error("MLP", "x", "2 or more rows while batch norm is trained", 1, hint)
    return norm(rows).view_as(z)


def _draw(parameter: Tensor, n: int, rng: torch.Generator | None) -> None:
    nn.init.uniform_(parameter, -(n**-0.5), n**-0.5, generator=rng)


def _wrong_width(number: int, n: int, x: Tensor) -> UsageError:
    """Say which layer got which width; pictures that nobody flattened are the usual reason."""
    width, shape = x.shape[-1] if x.ndim else 0, tuple(x.shape)
    hint = " Flatten pictures with x.flatten(1)." if math.prod(shape[1:]) == n else ""
    return UsageError(
        f"MLP: x must have width {n} at layer {number}; got width {width}, shape {shape}.{hint}"
    )


@checked
def permute_hidden(mlp: MLP, layer: PositiveInt, perm: Int[Tensor, " m"] | Sequence[int]) -> MLP:
    r"""Renames the units of a hidden layer with their outgoing weights: the function stays.

    Args:
        mlp: The network, without norms; it is left as it is.
        layer: Which hidden layer, from 1 to $L-1$.
        perm: A permutation of 0 to $m-1$; the new unit `i` is the old unit `perm[i]`.

    Example:
        >>> mlp, x = MLP([2, 3, 1]), torch.randn(5, 2)
        >>> torch.allclose(permute_hidden(mlp, 1, [2, 0, 1])(x), mlp(x), atol=1e-6)
        True
    """
    incoming, outgoing = hidden_weights("permute_hidden", mlp, layer)
    order, m = torch.as_tensor(perm, device=incoming.device), len(incoming)
    if order.shape != (m,) or not torch.equal(order.sort().values, torch.arange(m).to(order)):
        domain = f"a permutation of the {m} units of layer {layer}, 0 to {m - 1}"
        raise usage_error("permute_hidden", "perm", domain, order.tolist())
    return rebuilt_with(mlp, layer, incoming[order], outgoing[:, order])


def hidden_weights(owner: str, mlp: MLP, layer: int, i: int = 0) -> tuple[Tensor, Tensor]:
    """Copy what enters a hidden layer, one row [w b] a unit, and what leaves it, one column."""
    need_plain_units(owner, "mlp", mlp)
    hidden = len(mlp.layers) - 1
    if layer > hidden:
        raise usage_error(owner, "layer", f"one of the {hidden} hidden layers, from 1", layer)
    before, after = mlp.layers[layer - 1 : layer + 1]
    parts = [one.detach() for one in (before.weight, before.bias) if one is not None]
    incoming = torch.cat([one.reshape(len(one), -1) for one in parts], dim=1)
    if i >= len(incoming):
        raise usage_error(owner, "i", f"an integer in [0, {len(incoming) - 1}]", i)
    return incoming, after.weight.detach().clone()


def need_plain_units(owner: str, name: str, mlp: MLP) -> None:
    """Refuse a network in which more than an activation stands between two layers.

    Dropout of torch may, since in evaluation it does nothing; other modules may do anything.
    """
    for one in (*mlp.norms, *mlp.drops):
        if not isinstance(one, _DropoutNd):
            domain, hint = "an MLP whose hidden units hear their own sum alone", ""
            if one in list(mlp.norms):
                hint = "A norm sees all units of a layer at once."
            raise usage_error(owner, name, domain, one, hint)


def rebuilt_with(mlp: MLP, layer: int, incoming: Tensor, outgoing: Tensor) -> MLP:
    """Copy a network with other weights into and out of a hidden layer, which may be wider."""
    rebuilt, n = copy.deepcopy(mlp), mlp.sizes[layer - 1]
    before, after = rebuilt.layers[layer - 1 : layer + 1]
    before.weight, after.weight = nn.Parameter(incoming[:, :n].clone()), nn.Parameter(outgoing)
    if before.bias is not None:
        before.bias = nn.Parameter(incoming[:, n].clone())
    before.out_features = after.in_features = len(incoming)
    # what keeps a model asks what it was made with
    vars(rebuilt)[MADE_WITH] = {**vars(rebuilt)[MADE_WITH], "sizes": rebuilt.sizes}
    return rebuilt


@checked
def flip_signs(mlp: MLP, layer: PositiveInt, signs: Annotated[Tensor, Signs]) -> MLP:
    r"""Changes the sign of hidden units and of their outgoing weights; $\varphi$ must be odd.

    Args:
        mlp: The network, without norms; it is left as it is.
        layer: Which hidden layer, from 1 to $L-1$.
        signs: A sign for each unit of the layer.

    Example:
        >>> mlp, x = MLP([2, 3, 1], activation="tanh"), torch.randn(5, 2)
        >>> flipped = flip_signs(mlp, 1, torch.tensor([1.0, -1.0, -1.0]))
        >>> torch.allclose(flipped(x), mlp(x), atol=1e-6)
        True
    """
    _need_law("flip_signs", mlp, -1.0, "odd")
    return with_scaled_units("flip_signs", mlp, layer, signs)


def _need_law(owner: str, mlp: MLP, factor: float, word: str) -> None:
    """Refuse an activation that does not commute with a factor."""
    z = torch.linspace(-4, 4, 33, dtype=torch.float64)
    if not torch.allclose(mlp.phi(factor * z), factor * mlp.phi(z), rtol=1e-12, atol=0):
        raise usage_error(owner, "the activation", word, mlp.activation)


def with_scaled_units(owner: str, mlp: MLP, layer: int, factors: Tensor) -> MLP:
    """Multiply what enters each unit of a hidden layer, and divide what leaves it."""
    incoming, outgoing = hidden_weights(owner, mlp, layer)
    if factors.shape != (len(incoming),):
        domain = f"one for each of the {len(incoming)} units of layer {layer}"
        raise usage_error(owner, "signs", domain, tuple(factors.shape))
    factors = factors.to(incoming)
    return rebuilt_with(mlp, layer, factors[:, None] * incoming, outgoing / factors)


@checked
def rescale_unit(mlp: MLP, layer: PositiveInt, i: NonNegativeInt, c: PositiveFloat) -> MLP:
    r"""Multiplies what enters a hidden unit and divides what leaves it, as rectifiers allow.

    Args:
        mlp: The network, without norms and with $\varphi(cz)=c\varphi(z)$ for $c>0$; it is left as
            it is.
        layer: Which hidden layer, from 1 to $L-1$.
        i: Which of its units, from 0.
        c: The factor.

    Example:
        >>> mlp, x = MLP([2, 3, 1]), torch.randn(5, 2)
        >>> torch.allclose(rescale_unit(mlp, 1, 0, 10.0)(x), mlp(x), atol=1e-5)
        True
    """
    _need_law("rescale_unit", mlp, 2.0, "positively homogeneous")
    factors = torch.ones_like(hidden_weights("rescale_unit", mlp, layer, i)[1][0])
    factors[i] = c
    return with_scaled_units("rescale_unit", mlp, layer, factors)


@checked
def widen(
    mlp: MLP, layer: PositiveInt, how: Literal["zero", "split", "dead"] = "zero", *,
    i: NonNegativeInt = 0, alpha: float = 0.5, rng: torch.Generator | None = None,
) -> MLP:
    r"""Adds a unit to a hidden layer without changing the function, with dropout in evaluation.

    Args:
        mlp: The network, without norms; it is left as it is.
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
    incoming, outgoing = hidden_weights("widen", mlp, layer, i)
    row, column = torch.zeros_like(incoming[0]), torch.zeros_like(outgoing[:, 0])
    if how == "zero":
        _draw(row, mlp.sizes[layer - 1], rng)
    elif how == "split":
        row, column = incoming[i], (1 - alpha) * outgoing[:, i]
        outgoing[:, i] *= alpha
    elif float(mlp.phi(row.new_zeros(1))) != 0:
        hint = f"A dead unit would add {mlp.activation}(0) times its outgoing weights."
        raise usage_error("widen", "how", f"'zero' or 'split' with {mlp.activation}", how, hint)
    else:
        _draw(column, len(incoming), rng)
    wider = torch.cat([incoming, row[None]]), torch.cat([outgoing, column[:, None]], dim=1)
    return rebuilt_with(mlp, layer, *wider)


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
    cells: PositiveInt = 100,
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
        raise usage_error("level_set_points", "low", f"below high, which is {high:g}", low)
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
def as_linear_functional(f: Callable[[Tensor], Tensor], n: PositiveInt) -> Float[Tensor, " n"]:
    r"""Reads the weights of a linear $f(x)=w^\top x$ off the basis vectors: $w_i=f(e_i)$.

    Args:
        f: A linear function of points (B, n) in float64, with values (B,).
        n: Dimension of the points.

    Example:
        >>> as_linear_functional(lambda x: 2 * x[:, 0] - x[:, 2], 3).tolist()
        [2.0, 0.0, -1.0]
    """
    return f(torch.eye(n, dtype=torch.float64))

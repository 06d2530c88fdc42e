r"""The receptive field: how far a unit sees, and how dilation lets it see farther.

A unit of a convolutional layer sees a few neighbors; each of them sees a few of the layer below; so
a unit far above sees a whole region of the input, and nothing beyond it. No training changes that:
where there is no path, the derivative is 0, and nothing outside of the field can be known. With
kernels of width k every layer adds $k-1$ places. A stride multiplies the reach of all layers above
it, at the price of resolution. Dilation keeps the resolution: a kernel with gaps reaches
$(k-1)d$ places far with no more weights. One such layer reaches farther only in proportion to $d$;
it is layers with doubled dilations whose field grows exponentially with their number, and with
kernels of width 2 they reach every input by exactly one path. Where layers are all alike, most
paths lead to the middle: a unit sees its border much less than its center, and what it effectively
sees grows only like the root of the depth.

$$ I_i^l = \{j: W_{ij}^l\ne0\}, \quad \frac{\partial x_i^l}{\partial x_j^{l-1}} = 0
\ \text{for}\ j\notin I_i^l $$

$$ r = 1+\sum_{l=1}^L(k_l-1)\,d_l\prod_{i<l}s_i; \quad
1+L(k-1)\ \text{(all strides 1)}, \quad 1+(k-1)(2^L-1)\ \text{(all strides 2, or}\ d_l=2^{l-1}) $$

$$ g = k_1*\cdots*k_L, \quad \mathrm{Var}(g) = \sum_l\mathrm{Var}(k_l) $$

Symbols:
    $r$: places of the input that a unit sees from one end to the other, `receptive_field(...).size`
    $k_l, s_l, d_l$: kernel, stride and dilation of layer $l$, counted from the input
    $I_i^l$: inputs of unit $i$, the columns in which its row of the layer's Toeplitz matrix
        $W^l$ is not 0; through all layers it is `gradient_mask`
    $g$: gradient of a unit, for kernels that are not negative; as a distribution, `effective_field`
    $L$: number of layers

References:
    Yu and Koltun (2016), Multi-scale context aggregation by dilated convolutions. ICLR.
        arXiv:1511.07122
    van den Oord, Dieleman, Zen, Simonyan, Vinyals, Graves, Kalchbrenner, Senior and Kavukcuoglu
        (2016), WaveNet: a generative model for raw audio. arXiv:1609.03499
    Luo, Li, Urtasun and Zemel (2016), Understanding the effective receptive field in deep
        convolutional neural networks. NeurIPS. arXiv:1701.04128
    Araujo, Norris and Sim (2019), Computing receptive fields of convolutional neural networks.
        Distill. doi:10.23915/distill.00021
"""

__all__ = [
    "receptive_field", "path_counts", "gradient_mask", "effective_field", "dilate",
]

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from principia.lab.params import PositiveInt, checked, usage_error
from principia.lab.training import evaluated
from principia.regularization.initialization import initialize_

Layers = nn.Module | Sequence[tuple[int, ...]]
WINDOWS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d,
           nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
POINTWISE = (nn.Identity, _BatchNorm, _DropoutNd)  # and all of torch's activation functions
AVERAGES = {nn.MaxPool1d: nn.AvgPool1d, nn.MaxPool2d: nn.AvgPool2d, nn.MaxPool3d: nn.AvgPool3d}


@final
class Field(NamedTuple):
    """What unit 0 sees: `size` places from `first` on; the next unit begins `jump` places later."""

    size: int
    jump: int
    first: int


@checked
def receptive_field(layers: Layers, *, axis: int = -1) -> Field:
    r"""Computes how many places a unit sees, by $1+\sum_l(k_l-1)d_l\prod_{i<l}s_i$.

    Unit i sees the places from `first + i * jump` on, `size` of them; with padding `first` is
    negative.

    Args:
        layers: Triples (kernel, stride, dilation) from the input on, or with the padding as a
            fourth number; or a sequence of convolutions, pooling and layers that act on each place
            alone, also nested.
        axis: Along which axis of a picture, counted from the last.

    Example:
        >>> receptive_field([(3, 1, 1), (3, 2, 1), (3, 1, 4)])
        Field(size=21, jump=2, first=0)
        >>> net = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
        >>> receptive_field(net)
        Field(size=6, jump=2, first=-2)
    """
    size, jump, first = 1, 1, 0
    for kernel, stride, dilation, padding in _geometry(layers, axis):
        size += (kernel - 1) * dilation * jump
        first -= padding * jump
        jump *= stride
    return Field(size, jump, first)


def _geometry(layers: Any, axis: int) -> Iterator[tuple[int, int, int, int]]:
    """List (kernel, stride, dilation, padding) of each layer along an axis."""
    if not isinstance(layers, nn.Module):
        for one in layers:
            numbers = (*one, 0) if len(one) == 3 else tuple(one)
            if len(numbers) != 4 or min(numbers[:3]) < 1 or numbers[3] < 0:
                domain = "(kernel, stride, dilation) of 1 or more, perhaps with a padding"
                raise usage_error("receptive_field", "layers", domain, one)
            yield numbers  # type: ignore[misc]
    elif isinstance(layers, nn.Sequential):
        for one in layers:
            yield from _geometry(one, axis)
    elif isinstance(layers, WINDOWS):
        settings: Any = layers
        kernel, stride = _along(settings.kernel_size, axis), _along(settings.stride, axis)
        dilation = _along(getattr(settings, "dilation", 1), axis)
        padding = settings.padding
        if isinstance(padding, str):
            padding = dilation * (kernel - 1) // 2 if padding == "same" else 0
        yield kernel, stride, dilation, _along(padding, axis)
    elif not isinstance(layers, POINTWISE) and not _is_activation(layers):
        domain = "convolutions, pooling and layers that act on each place alone, in nn.Sequential"
        hint = "Leave out what mixes all places, or ask gradient_mask."
        raise usage_error("receptive_field", "layers", domain, layers, hint)


def _along(value: int | tuple[int, ...], axis: int) -> int:
    return value if isinstance(value, int) else value[axis]


def _is_activation(layer: nn.Module) -> bool:
    """Whether a layer is one of torch's functions of single numbers, unlike softmax."""
    kind = type(layer)
    others = (nn.MultiheadAttention, nn.Softmax, nn.Softmin, nn.Softmax2d, nn.LogSoftmax, nn.GLU)
    return kind.__module__ == "torch.nn.modules.activation" and kind not in others


@checked
def path_counts(layers: Layers, *, axis: int = -1) -> Float[Tensor, " r"]:
    """Counts the paths that lead from a unit to each of the places that it sees.

    Args:
        layers: As in `receptive_field`.
        axis: Along which axis of a picture, counted from the last.

    Example:
        >>> path_counts([(3, 1, 1), (3, 1, 1)])
        tensor([1., 2., 3., 2., 1.], dtype=torch.float64)
        >>> path_counts([(2, 1, 1), (2, 1, 2), (2, 1, 4)]).tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    counts = torch.ones(1, dtype=torch.float64)
    for kernel, stride, dilation, _ in reversed([*_geometry(layers, axis)]):
        taps = dilate(torch.ones(kernel, dtype=torch.float64), dilation)
        counts = F.conv_transpose1d(counts[None, None], taps[None, None], stride=stride)[0, 0]
    return counts


@checked
def dilate(
    kernel: Float[Tensor, "..."], d: PositiveInt, *, axes: PositiveInt | None = None
) -> Float[Tensor, "..."]:
    r"""Puts $d-1$ zeros between the taps of a kernel, so that it reaches $(k-1)d+1$ places.

    Args:
        kernel: The kernel; weights of a convolution (K, C, ...) are dilated along all but the
            first two axes.
        d: Dilation: how many steps a tap is from the next.
        axes: How many of the last axes are dilated; by default all, or all but two of weights with
            three axes or more.

    Example:
        >>> dilate(torch.tensor([1.0, 2.0, 3.0]), 2)
        tensor([1., 0., 2., 0., 3.])
    """
    axes = axes or (kernel.ndim - 2 if kernel.ndim > 2 else kernel.ndim)
    if axes > kernel.ndim:
        raise usage_error("dilate", "axes", f"at most {kernel.ndim} for such a kernel", axes)
    still = kernel.ndim - axes
    sizes = [(n - 1) * d + 1 for n in kernel.shape[still:]]
    wide = kernel.new_zeros(*kernel.shape[:still], *sizes)
    wide[(..., *[slice(None, None, d)] * axes)] = kernel
    return wide


@checked
def gradient_mask(
    model: nn.Module, shape: tuple[int, ...], unit: tuple[int, ...]
) -> Bool[Tensor, "*space"]:
    """Finds the inputs that a unit depends on: where its gradient is not 0, in one backward pass.

    A copy of the model gets positive weights, and averages instead of maxima, so that no path is
    shut or cancels another one.

    Args:
        model: Any network of convolutions; it stays as it is.
        shape: Of one sample, (C, T) or (C, H, W).
        unit: Its place in the map that the model puts out, (t,) or (i, j).

    Example:
        >>> net = nn.Sequential(nn.Conv1d(1, 4, 3, dilation=2), nn.ReLU(), nn.MaxPool1d(2))
        >>> gradient_mask(net, (1, 9), (1,)).int()
        tensor([0, 0, 1, 1, 1, 1, 1, 1, 0], dtype=torch.int32)
    """
    open_model = _opened(model)
    for parameter in open_model.parameters():  # so large that sums stay where they are
        nn.init.constant_(parameter, 1 / parameter[0].numel())
    x = torch.ones(1, *shape, dtype=torch.float64)
    return _gradient(open_model, x, unit).sum(dim=0) > 0


def _opened(model: nn.Module) -> nn.Module:
    """Copy a model in float64 and in evaluation, with averages in the place of maxima."""
    whole = nn.Sequential(copy.deepcopy(model)).double().eval()
    for name, layer in [*whole.named_modules()]:
        kind: Any = AVERAGES.get(type(layer))  # type: ignore[arg-type]
        if kind is not None:
            settings: Any = layer
            if _along(settings.dilation, 0) > 1:
                hint = "Its places have gaps."
                raise usage_error("gradient_mask", "model", "one of plain pooling", layer, hint)
            mean = kind(settings.kernel_size, settings.stride, settings.padding, settings.ceil_mode)
            whole.set_submodule(name, mean)
    return whole


def _gradient(model: nn.Module, x: Tensor, unit: tuple[int, ...]) -> Tensor:
    """Differentiate a unit, summed over its channels, by the input (C, *space)."""
    x = x.requires_grad_()
    with torch.enable_grad():
        y = model(x)[0]
        if y.ndim != 1 + len(unit):
            hint = "Name a place in the map, without the channel."
            raise usage_error("gradient_mask", "unit", f"{y.ndim - 1} numbers", unit, hint)
        places = y.shape[1:]
        if not all(0 <= one < n for one, n in zip(unit, places, strict=True)):
            raise usage_error("gradient_mask", "unit", f"in a map of {tuple(places)}", unit)
        return torch.autograd.grad(y[(slice(None), *unit)].sum(), x)[0][0]


@checked
def effective_field(
    model: nn.Module, shape: tuple[int, ...], unit: tuple[int, ...], *,
    draws: PositiveInt | None = None, of: Literal["square", "size"] = "square",
    rng: torch.Generator | None = None,
) -> tuple[Float[Tensor, "*space"], Float[Tensor, " axes"]]:
    """Measures how much of a unit's gradient lies at each input, and how far it spreads.

    Args:
        model: A network of convolutions; it stays as it is.
        shape: Of one sample, (C, T) or (C, H, W).
        unit: Its place in the map that the model puts out.
        draws: Over how many random weights the mean is taken, normal ones of variance 1 / fan-in
            without biases; by default the weights are those of the model.
        of: What is averaged, the square of the gradient or its size.
        rng: Draws weights and inputs, which are normal; by default torch's global generator.

    Returns:
        Shares that sum to 1, and their standard deviation along each axis, in places.

    Example:
        >>> net = nn.Sequential(*(nn.Conv1d(1, 1, 3) for _ in range(4)))
        >>> shares, spread = effective_field(net, (1, 9), (0,), draws=20)
        >>> shares.shape, spread.shape
        (torch.Size([9]), torch.Size([1]))
    """
    drawn = copy.deepcopy(model).double()
    total = torch.zeros(shape[1:], dtype=torch.float64)
    with evaluated(drawn):
        for _ in range(draws or 1):
            if draws is not None:
                initialize_(drawn, "lecun", rng=rng)
            x = torch.randn(1, *shape, generator=rng, dtype=torch.float64)
            gradient = _gradient(drawn, x, unit)
            total += (gradient.abs() if of == "size" else gradient.square()).sum(dim=0)
    shares = total / total.sum()
    spreads = []
    for axis, n in enumerate(shares.shape):
        along = shares.movedim(axis, 0).reshape(n, -1).sum(dim=1)
        places = torch.arange(n, dtype=torch.float64)
        spreads.append((along @ (places - along @ places).square()).sqrt())
    return shares, torch.stack(spreads)

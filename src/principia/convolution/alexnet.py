r"""AlexNet: the network whose victory of 2012 made everybody train deep networks.

It is LeNet with more of everything: five convolutions instead of two, three dense layers, 60
million weights, for photographs of a thousand kinds of things. What made it trainable were
rectifiers instead of squashing functions, dropout in the dense layers, mirrored and shifted copies
of the photographs, and two graphics cards: the network stands in two columns that meet in the third
convolution only. Windows of its poolings overlap, and a unit is divided by what its neighbors in
other maps say at the same place. Where the weights are and where the work is are different things:
the dense layers own 96 % of the weights, and the convolutions, whose few weights are used at
thousands of places, do more than 90 % of the multiplications.

$$ b_{i,u,v} = a_{i,u,v}\Big(k+\alpha\sum_{j=\max(0,\,i-n/2)}^{\min(N-1,\,i+n/2)}
a_{j,u,v}^2\Big)^{-\beta} $$

$$ m' = \lfloor(m+2p-q)/s\rfloor+1, \qquad
(227-11)/4+1 = 55, \quad \lfloor(55-3)/2\rfloor+1 = 27 $$

Symbols:
    $a, b$: a unit of map $i$ of $N$ at place $(u,v)$, before and after `response_norm`
    $n$: maps that take part, `maps`, 5; $n/2$ is rounded down
    $\alpha, \beta, k$: `alpha`, `beta` and `k` of the paper; torch's `alpha` is $n\alpha$
    $m, m'$: sides of the maps in front of a layer and behind it
    $q, s, p$: side of the window, step between two windows, padding; `kernel`, `stride`, `padding`

References:
    Krizhevsky, Sutskever and Hinton (2012), ImageNet classification with deep convolutional neural
        networks. Advances in Neural Information Processing Systems 25.
    Krizhevsky (2014), One weird trick for parallelizing convolutional neural networks.
        arXiv:1404.5997
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine
        learning algorithms. arXiv:1708.07747
    TorchVision maintainers and contributors (2016), TorchVision: PyTorch's computer vision library.
        https://docs.pytorch.org/vision/stable/models/alexnet.html
"""

__all__ = ["AlexNet", "alexnet_features", "small_alexnet", "response_norm"]

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from principia.lab.draws import undrawn
from principia.lab.params import (
    Each,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Range,
    UnitInterval,
    checked,
    usage_error,
)
from principia.lab.weights import read_weights, take_weights
from principia.regularization.initialization import initialize_

Widths = Annotated[Sequence[int], Each(Range(1, math.inf, kind=int))]
PAPER = (96, 256, 384, 384, 256)  # maps of the five convolutions, in both columns together
TORCHVISION = (64, 192, 384, 256, 256)


@checked
def response_norm(
    maps: PositiveInt = 5, *, alpha: PositiveFloat = 1e-4, beta: PositiveFloat = 0.75,
    k: PositiveFloat = 2.0,
) -> nn.LocalResponseNorm:
    r"""Makes torch's local response normalization with the constants as the paper writes them.

    Torch takes the mean over the window where the paper takes the sum, so that its `alpha` is that
    of the paper times the number of maps.

    Args:
        maps: How many neighbors take part, $n$, an odd number.
        alpha: Weight of their squares.
        beta: Power of the sum.
        k: What is added to it.

    Example:
        >>> response_norm()
        LocalResponseNorm(5, alpha=0.0005, beta=0.75, k=2.0)
        >>> response_norm(1, alpha=1.0, beta=0.5, k=16.0)(torch.tensor([[[3.0]]]))
        tensor([[[0.6000]]])
    """
    if maps % 2 == 0:
        raise usage_error("response_norm", "maps", "odd, with as many on each side", maps)
    return nn.LocalResponseNorm(maps, alpha=maps * alpha, beta=beta, k=k)


@checked
def alexnet_features(
    channels: PositiveInt = 3, widths: Widths = PAPER, *, columns: Annotated[int, Range(1, 8)] = 2,
    kernel: PositiveInt = 11, stride: PositiveInt = 4, padding: NonNegativeInt = 0,
    normalize: bool = True,
) -> nn.Sequential:
    r"""Builds the five convolutions, with their rectifiers and poolings; weights are not drawn.

    Args:
        channels: Of the pictures.
        widths: Maps of each convolution, in all columns together.
        columns: Into how many columns the second, fourth and fifth convolution fall apart; the
            first and the third see all that is below.
        kernel: Side of the windows of the first convolution.
        stride: Step between two of them.
        padding: Of the first convolution.
        normalize: Whether the first two convolutions are followed by `response_norm`.

    Example:
        >>> with torch.device("meta"):  # counts, and takes no memory
        ...     features = alexnet_features()
        >>> features(torch.empty(1, 3, 227, 227, device="meta")).shape
        torch.Size([1, 256, 6, 6])
    """
    if len(widths) != 5 or any(width % columns for width in widths):
        domain = f"five numbers of maps, each a multiple of the {columns} columns"
        raise usage_error("alexnet_features", "widths", domain, widths)
    first, second, third, fourth, fifth = widths
    norms = [[response_norm()] if normalize else [] for _ in range(2)]
    return nn.Sequential(
        undrawn(nn.Conv2d, channels, first, kernel, stride=stride, padding=padding),
        nn.ReLU(), *norms[0], nn.MaxPool2d(3, 2),
        undrawn(nn.Conv2d, first, second, 5, padding=2, groups=columns),
        nn.ReLU(), *norms[1], nn.MaxPool2d(3, 2),
        undrawn(nn.Conv2d, second, third, 3, padding=1), nn.ReLU(),
        undrawn(nn.Conv2d, third, fourth, 3, padding=1, groups=columns), nn.ReLU(),
        undrawn(nn.Conv2d, fourth, fifth, 3, padding=1, groups=columns), nn.ReLU(),
        nn.MaxPool2d(3, 2),
    )


@final
class AlexNet(nn.Module):
    r"""Classifies photographs: convolutions, then three dense layers with dropout in front of two.

    By default that of the paper, 60,965,224 parameters. With one column, other widths and no
    normalization it is torchvision's, whose names of layers are the names here.

    Shapes:
        x: (B, C, size, size), C as the first layer has it; returns (B, classes)

    Args:
        features: The convolutions, by default `alexnet_features()`; their weights are drawn anew.
        size: Height and width of the pictures. With 224, which the paper names, the first map would
            have 54 places a side and not 55.
        classes: Number of outputs.
        hidden: Width of the two hidden dense layers.
        dropout: Probability of dropping what enters each of them.
        rng: Draws the weights by He's rule; by default torch's global generator.

    Example:
        >>> with torch.device("meta"):
        ...     net = AlexNet()
        >>> sum(one.numel() for one in net.parameters())
        60965224
        >>> net = AlexNet(alexnet_features(1, (8, 16, 16, 16, 8)), size=99, hidden=32, classes=10)
        >>> logits = net(torch.rand(2, 1, 99, 99))
        >>> logits.shape
        torch.Size([2, 10])
    """

    @checked
    def __init__(
        self, features: nn.Sequential | None = None, *, size: PositiveInt = 227,
        classes: PositiveInt = 1000, hidden: PositiveInt = 4096, dropout: UnitInterval = 0.5,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        features = alexnet_features() if features is None else features
        smallest = _smallest(features)
        if size < smallest:
            hint = "For small pictures there is small_alexnet."
            raise usage_error("AlexNet", "size", f"at least {smallest}", size, hint)
        convolutions = [one for one in features if isinstance(one, nn.Conv2d)]
        self.shape = (convolutions[0].in_channels, size, size)
        inputs = convolutions[-1].out_channels * _side(features, size) ** 2
        self.features = features
        self.classifier = nn.Sequential(
            nn.Dropout(dropout), undrawn(nn.Linear, inputs, hidden), nn.ReLU(),
            nn.Dropout(dropout), undrawn(nn.Linear, hidden, hidden), nn.ReLU(),
            undrawn(nn.Linear, hidden, classes),
        )
        if not self.classifier[1].weight.is_meta:
            initialize_(self, "he", rng=rng)

    def forward(self, x: Float[Tensor, "B c H W"]) -> Float[Tensor, "B classes"]:
        """Compute the scores of the classes."""
        if x.shape[1:] != self.shape:
            domain = f"of shape (B, {', '.join(map(str, self.shape))})"
            hint = "Resize or crop them, or build the network for their size."
            raise usage_error("AlexNet", "images", domain, tuple(x.shape), hint)
        x = x.to(memory_format=torch.channels_last)  # faster on a CPU
        return self.classifier(self.features(x).flatten(1))

    @classmethod
    def from_torchvision(cls, weights: Mapping[str, Tensor] | Path | str) -> "AlexNet":
        """Builds torchvision's network, for pictures of 224 x 224, and gives it their weights.

        Args:
            weights: A `state_dict`, or a .safetensors file.

        Example:
            >>> with torch.device("meta"):
            ...     theirs = AlexNet(alexnet_features(widths=TORCHVISION, columns=1, padding=2,
            ...                                       normalize=False), size=224)
            >>> len(theirs.state_dict()), sum(one.numel() for one in theirs.parameters())
            (16, 61100840)
        """
        owner = "AlexNet.from_torchvision"
        given = read_weights(owner, weights)
        bias, where = given.get("classifier.6.bias"), torch.get_default_device()
        with torch.device("meta"):  # nothing is drawn that would be overwritten
            features = alexnet_features(
                widths=TORCHVISION, columns=1, padding=2, normalize=False
            )
            net = cls(features, size=224, classes=1000 if bias is None else len(bias))
        return take_weights(owner, net.to_empty(device=where), given)


def _windows(features: nn.Sequential) -> list[tuple[int, int, int]]:
    """List side, step and padding of the windows of each layer that has any."""
    found = []
    for layer in features:
        if isinstance(layer, nn.Conv2d | nn.MaxPool2d):
            sizes = (layer.kernel_size, layer.stride, layer.padding)
            found.append(tuple(one[0] if isinstance(one, tuple) else one for one in sizes))
    return found  # type: ignore[return-value]


def _smallest(features: nn.Sequential) -> int:
    """Find the least side of pictures of which a place is left at the end."""
    side = 1
    for window, step, padding in reversed(_windows(features)):
        side = (side - 1) * step + window - 2 * padding
    return side


def _side(features: nn.Sequential, side: int) -> int:
    """Find the side of the last map."""
    for window, step, padding in _windows(features):
        side = (side + 2 * padding - window) // step + 1
    return side


@checked
def small_alexnet(
    *, size: Annotated[int, Range(15)] = 28, channels: PositiveInt = 1, classes: PositiveInt = 10,
    shrink: Literal[2, 4, 8, 16] = 8, dropout: UnitInterval = 0.5,
    rng: torch.Generator | None = None,
) -> AlexNet:
    r"""Builds a narrow `AlexNet` for small pictures.

    Its first windows are 5 x 5, at every place. It does without `response_norm`, as torchvision's
    does: that would take two thirds of the time.

    Args:
        size: Height and width of the pictures.
        channels: Of the pictures.
        classes: Number of outputs.
        shrink: How many times fewer maps and dense units it has than the network of the paper.
        dropout: Probability of dropping what enters a hidden dense layer.
        rng: Draws the weights; by default torch's global generator.

    Example:
        >>> net = small_alexnet(rng=torch.Generator().manual_seed(0))
        >>> net(torch.rand(4, 1, 28, 28)).shape, net.features[0].weight.shape
        (torch.Size([4, 10]), torch.Size([12, 1, 5, 5]))
    """
    features = alexnet_features(
        channels, [width // shrink for width in PAPER], kernel=5, stride=1, padding=2,
        normalize=False,
    )
    return AlexNet(
        features, size=size, classes=classes, hidden=4096 // shrink, dropout=dropout, rng=rng
    )

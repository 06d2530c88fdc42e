r"""DenseNet: every layer reads all the maps that there are, and adds a few of its own.

In a chain a layer reads what the last one left over of everything before. Here nothing is left
over, for nothing is lost: the maps of all layers stand side by side, and each new layer reads them
all. So it needs to add only a few, a dozen channels where other networks have hundreds, and the
loss speaks to every layer directly, with no other layer between. Since a layer reads ever more
channels, a bottleneck first mixes them down with a kernel of one pixel; between two blocks a
transition does the same, keeps a share of the channels and halves the maps.

$$ x^{l+1} = F^{l+1}\big([x,x^1,\dots,x^l]\big), \quad
F(x) = W*\varphi(\mathrm{BN}(x)), \quad C_l = C_0+kl $$

$$ \#\text{connections} = \sum_{l=1}^Ll = \frac{L(L+1)}2, \qquad
\frac{\partial\,[x,x^1,\dots,x^L]}{\partial x^l} = \begin{pmatrix}0\\ I\\ \vdots\end{pmatrix}
\ \text{with an identity at}\ x^l $$

Symbols:
    $x, x^l$: maps that enter a block, and those that layer $l$ of $L$ adds; the order of
        torchvision, while `principia.networks.DenseBlock` puts the newest first
    $[\cdot]$: maps side by side; all of them leave a `DenseBlock2d`
    $F^l$: normalization, activation and convolution, `block.layers[l - 1]`; a bottleneck is two
    $k, C_0, C_l$: channels that a layer adds, `growth`, that enter, and behind layer $l$
    $\theta$: share of the channels that a `Transition` keeps, `theta`

References:
    Huang, Liu, van der Maaten and Weinberger (2017), Densely connected convolutional networks.
        CVPR. doi:10.1109/CVPR.2017.243
    Pleiss, Chen, Huang, Li, van der Maaten and Weinberger (2017), Memory-efficient implementation
        of DenseNets. arXiv:1707.06990
"""

__all__ = ["DenseNet", "DenseBlock2d", "Transition"]

import math
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as recomputed

from principia.convolution.inception import drawn
from principia.convolution.resnet import (
    ConvLayer,
    Maps,
    NewMaps,
    Part,
    Several,
    Stem,
    Weights,
    need_channels,
)
from principia.lab.params import PositiveInt, Range, checked, usage_error
from principia.lab.params.domains import OrPart
from principia.lab.weights import read_weights, sizes_in, take_weights

Share = Annotated[float, Range(0, 1, open="low")]
First = Annotated[int | nn.Module, OrPart(Range(1, math.inf, kind=int), nn.Module)]


@final
class DenseBlock2d(nn.Module):
    """Lets every layer read the maps of all earlier ones, and adds its own to them.

    Shapes:
        x: (B, cin, H, W); returns (B, cin + layers * growth, H, W), the input first

    Args:
        cin: Channels that enter.
        growth: Channels that each layer adds.
        layers: Number of layers.
        bottleneck: Whether a layer first mixes what it reads down to 4 growth channels.
        checkpoint: Whether to forget what is inside the layers, and compute it anew for the
            gradient: slower, and with much less memory.
        layer: The convolutions with their normalizations and activations.
        rng: Draws the weights by He's rule; by default torch's global generator.

    Example:
        >>> block = DenseBlock2d(3, growth=2, layers=4)
        >>> x = torch.rand(5, 3, 8, 8)
        >>> y = block(x)
        >>> y.shape, torch.equal(y[:, :3], x)
        (torch.Size([5, 11, 8, 8]), True)
    """

    @checked
    def __init__(
        self, cin: PositiveInt, growth: PositiveInt, layers: PositiveInt, *,
        bottleneck: bool = False, checkpoint: bool = False, layer: Part = ConvLayer,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        made, self.checkpoint = partial(layer, pre=True, rng=rng), checkpoint
        self.channels, inner = cin, 4 * growth
        self.layers = nn.ModuleList()
        for _ in range(layers):
            self.layers.append(nn.Sequential(
                *([made(self.channels, inner, 1)] if bottleneck else []),
                made(inner if bottleneck else self.channels, growth, 3),
            ))
            self.channels += growth

    def forward(self, x: Maps) -> NewMaps:
        """Put all maps side by side."""
        maps = [x]
        for layer in self.layers:
            if self.checkpoint and torch.is_grad_enabled():
                new: Any = recomputed(
                    _read, layer, *maps, use_reentrant=False,
                    context_fn=lambda layer=layer: (nullcontext(), _Unmoved(layer)),
                )
            else:
                new = _read(layer, *maps)
            maps.append(new)
        return torch.cat(maps, dim=1)


def _read(layer: nn.Module, *maps: Tensor) -> Tensor:
    return layer(torch.cat(maps, dim=1))


@final
class _Unmoved(AbstractContextManager[None]):
    """Keeps running statistics as they are, for the same batch comes once more."""

    def __init__(self, layer: nn.Module) -> None:
        self.buffers = [*layer.buffers()]

    def __enter__(self) -> None:
        self.values = [one.clone() for one in self.buffers]

    def __exit__(self, *error: object) -> None:
        for one, value in zip(self.buffers, self.values, strict=True):
            one.copy_(value)


@final
class Transition(nn.Module):
    """Keeps a share of the channels, mixed with a kernel of one pixel, and halves the maps.

    Shapes:
        x: (B, cin, H, W); returns (B, theta * cin, H / 2, W / 2), all rounded down

    Args:
        cin: Channels that enter.
        theta: Share of them that leaves.
        layer: The convolution with its normalization and activation.
        rng: Draws the weights; by default torch's global generator.

    Example:
        >>> transition = Transition(9, theta=0.5)
        >>> y = transition(torch.rand(2, 9, 6, 6))
        >>> y.shape
        torch.Size([2, 4, 3, 3])
    """

    @checked
    def __init__(
        self, cin: PositiveInt, theta: Share = 1.0, *, layer: Part = ConvLayer,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.channels = math.floor(theta * cin)
        self.layer = layer(cin, self.channels, 1, pre=True, rng=rng)

    def forward(self, x: Maps) -> NewMaps:
        """Mix the channels and average 2 x 2 pixels."""
        if min(x.shape[2:]) < 2:
            hint = "Larger pictures, or fewer blocks."
            raise usage_error("Transition", "x", "maps of 2 x 2 or more", tuple(x.shape), hint)
        return nn.functional.avg_pool2d(self.layer(x), 2)


IMAGENET: Mapping[int, tuple[int, tuple[int, ...]]] = {
    121: (32, (6, 12, 24, 16)), 161: (48, (6, 12, 36, 24)), 169: (32, (6, 12, 32, 32)),
    201: (32, (6, 12, 48, 32)),
}
Depth = Literal[121, 161, 169, 201]


@final
class DenseNet(nn.Module):
    r"""Classifies pictures by dense blocks with transitions between, and the mean over all places.

    Shapes:
        x: (B, channels, H, W); returns (B, classes)

    Args:
        depth: Layers of a network with three equal blocks, $3n+4$, or $6n+4$ with bottlenecks; or a
            tuple with the layers of each block.
        growth: Channels that each layer adds.
        bottleneck: Whether layers first mix what they read down to 4 growth channels.
        theta: Share of the channels that a transition keeps.
        channels: Of the pictures, which a 3 x 3 convolution reads; or a module that makes the first
            maps, such as `Stem(3, 64, kernel=7, stride=2, pool=True)`.
        classes: Number of outputs.
        layer: The convolutions everywhere, such as `partial(ConvLayer, activation=nn.GELU)`.
        rng: Draws the weights by He's rule; by default torch's global generator.

    Example:
        >>> net = DenseNet(16, 12, channels=1)  # three blocks of four layers
        >>> logits = net(torch.rand(5, 1, 28, 28))
        >>> logits.shape, [block.channels for block in net.blocks]
        (torch.Size([5, 10]), [64, 112, 160])
    """

    @checked
    def __init__(
        self, depth: Several, growth: PositiveInt = 12, *, bottleneck: bool = False,
        theta: Share = 1.0, channels: First = 3, classes: PositiveInt = 10,
        layer: Part = ConvLayer, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        counts = depth if isinstance(depth, tuple) else _equal_blocks(depth, bottleneck)
        if not counts or not all(isinstance(one, int) and one > 0 for one in counts):
            domain = "a count of 1 or more layers for each block"
            raise usage_error("DenseNet", "depth", domain, depth)
        self.stem: Any = channels
        if isinstance(channels, int):
            bare = partial(ConvLayer, norm=nn.Identity, activation=nn.Identity)
            self.stem = Stem(channels, 2 * growth if bottleneck else 16, layer=bare, rng=rng)
        self.blocks, self.transitions = nn.ModuleList(), nn.ModuleList()
        cin = self.stem.channels
        for place, count in enumerate(counts):
            if place:
                transition = Transition(cin, theta, layer=layer, rng=rng)
                self.transitions.append(transition)
                cin = transition.channels
            block = DenseBlock2d(cin, growth, count, bottleneck=bottleneck, layer=layer, rng=rng)
            self.blocks.append(block)
            cin = block.channels
        self.last = layer(cin, cin, 0, pre=True)  # without a convolution
        self.head = drawn(nn.Linear, cin, classes, rng=rng)

    def forward(self, x: Maps) -> Float[Tensor, "B classes"]:
        """Compute the scores of the classes."""
        conv = next(one for one in self.stem.modules() if isinstance(one, nn.Conv2d))
        need_channels("DenseNet", conv.in_channels, x)
        x = self.stem(x.to(memory_format=torch.channels_last))  # faster on a CPU
        for place, block in enumerate(self.blocks):
            x = block(self.transitions[place - 1](x) if place else x)
        return self.head(self.last(x).mean(dim=(2, 3)))

    @classmethod
    @checked
    def imagenet(
        cls, depth: Depth = 121, *, channels: PositiveInt = 3, classes: PositiveInt = 1000,
        rng: torch.Generator | None = None,
    ) -> "DenseNet":
        """Make a network for photographs, as published: four blocks, and a larger stem."""
        growth, counts = IMAGENET[depth]
        stem = Stem(channels, 2 * growth, kernel=7, stride=2, pool=True, rng=rng)
        return cls(
            counts, growth, bottleneck=True, theta=0.5, channels=stem, classes=classes, rng=rng
        )

    @classmethod
    @checked
    def from_torchvision(cls, weights: Weights, *, depth: Depth = 121) -> "DenseNet":
        """Make such a network with the weights of torchvision's network of that depth.

        Args:
            weights: A `state_dict` or a .safetensors file; as many channels and classes as it has.
            depth: Of the network.
        """
        given = read_weights("DenseNet", weights)
        sizes = sizes_in(
            given, channels=("features.conv0.weight", 1), classes=("classifier.weight", 0)
        )
        net = cls.imagenet(depth, rng=torch.Generator(), **sizes)  # of weights that are replaced
        return take_weights("DenseNet", net, given, _our_name)


def _equal_blocks(depth: int, bottleneck: bool) -> tuple[int, ...]:
    """Count the layers of three equal blocks between a stem, two transitions and the scores."""
    each = 6 if bottleneck else 3
    n, rest = divmod(depth - 4, each)
    if rest or n < 1:
        near = [4 + each * max(1, one) for one in (n, n + 1)]
        hint = f"The nearest are {near[0]} and {near[1]}." if n > 0 else f"The least is {near[0]}."
        domain = f"{each}n + 4 {'with' if bottleneck else 'without'} bottlenecks"
        raise usage_error("DenseNet", "depth", domain, depth, hint)
    return n, n, n


def _our_name(name: str) -> str:
    """Rename a tensor of torchvision: `features.denseblock1.denselayer2.conv1` is one of a layer.

    The oldest files write `conv.1` instead of `conv1`.
    """
    name = re.sub(r"^features\.(conv|norm)0\.", r"stem.layer.\1.", name)
    name = re.sub(
        r"^features\.denseblock(\d+)\.denselayer(\d+)\.(conv|norm)\.?(\d)\.",
        lambda found: "blocks.{}.layers.{}.{}.".format(*(int(found[k]) - 1 for k in (1, 2, 4)))
        + f"{found[3]}.", name,
    )
    name = re.sub(
        r"^features\.transition(\d)\.",
        lambda found: f"transitions.{int(found[1]) - 1}.layer.", name,
    )
    return re.sub(r"^classifier\.", "head.", name.replace("features.norm5.", "last.norm."))

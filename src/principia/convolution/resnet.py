r"""Residual networks: convolutions that correct what they pass on, so that depth only helps.

Twenty plain layers read pictures worse than eight, and not because they remember too much: even
their training error is higher. What eight layers do, twenty could do as well, if the others learned
to do nothing; but doing nothing is what a stack of convolutions finds hard. A residual block makes
it the easy thing: it adds a branch of two convolutions to its input, and where the branch is 0 it
is the identity. The gradient passes along the same way, so that a hundred layers learn. Where the
maps are halved and the channels doubled, the shortcut takes every second pixel and adds channels of
zeros (option A), or is a convolution with a kernel of one pixel (option B). A bottleneck first
shrinks the channels, so that the costly 3 x 3 convolution has few of them.

$$ y_k = \varphi\big(\alpha f(y_{k-1},\Theta_k)+Py_{k-1}\big), \quad
f(y) = \mathrm{BN}\big(W_2*\varphi(\mathrm{BN}(W_1*y))\big) $$

$$ (Py)_{c,i,j} = \begin{cases}y_{c,si,sj} & c\le C\\ 0 & c>C\end{cases}\ \text{(A)}, \qquad
Py = \mathrm{BN}(W_s*y)\ \text{(B)} $$

$$ \mathrm{E}\Vert\prod_{j\le n}(I+\alpha J_j)v\Vert^2 = (1+\alpha^2)^n\Vert v\Vert^2
\quad\text{for independent}\quad (J_j)_{ab}\sim N(0,\tfrac1d) $$

Symbols:
    $y_k$: maps (B, C, H, W) behind block $k$, `ResidualBlock`
    $f, \Theta_k$: the branch, `block.branch`, and its weights
    $P$: the shortcut, `block.shortcut`; the identity where neither size nor channels change
    $\alpha$: factor of the branch, `alpha`
    $W*y$: convolution, as torch means it; $W_s$ has a kernel of one pixel
    $\varphi, \mathrm{BN}$: activation and normalization, parts of a `ConvLayer`
    $C, s$: channels that enter a block, and its stride
    $n$: blocks in each of three groups of a `ResNet` of depth $6n+2$
    $J_j, d$: Jacobians of branches with a state of $d$ numbers, which multiply a vector $v$

References:
    He, Zhang, Ren and Sun (2016), Deep residual learning for image recognition. CVPR.
        doi:10.1109/CVPR.2016.90
    He, Zhang, Ren and Sun (2016), Identity mappings in deep residual networks. ECCV.
        doi:10.1007/978-3-319-46493-0_38
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine
        learning algorithms. arXiv:1708.07747
    Goyal, Dollar, Girshick, Noordhuis, Wesolowski, Kyrola, Tulloch, Jia and He (2017), Accurate,
        large minibatch SGD: training ImageNet in 1 hour. arXiv:1706.02677
"""

__all__ = ["ResNet", "PlainNet", "ResidualBlock", "BottleneckBlock", "Stem", "ConvLayer"]

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from principia.convolution.inception import drawn
from principia.lab.params import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Range,
    checked,
    usage_error,
)
from principia.lab.params.domains import OrPart
from principia.lab.weights import read_weights, sizes_in, take_weights

Part = Callable[..., Any]  # a class of modules, or a partial of one
Weights = Mapping[str, Tensor] | Path | str
Shortcut = Literal["A", "B", "none"]
Several = Annotated[int | tuple[int, ...], OrPart(Range(1, math.inf, kind=int), tuple)]
Maps = Float[Tensor, "B C H W"]
NewMaps = Float[Tensor, "B K h w"]


@final
class ConvLayer(nn.Module):
    r"""Convolves, normalizes and activates: the part of which the networks are made.

    The convolution has no bias, since the normalization has one, and keeps the size of the maps but
    for its stride.

    Args:
        cin: Channels that come in.
        cout: Channels that go out.
        kernel: Side of the kernel, odd; 0 leaves the convolution out.
        stride: Distance of the places of the kernel.
        norm: Makes the normalization for a number of channels, such as `nn.BatchNorm2d`,
            `partial(nn.GroupNorm, 4)`, or `nn.Identity` for none.
        activation: Makes $\varphi$, such as `nn.ReLU`.
        pre: Whether normalization and activation come before the convolution.
        rng: Draws the weights by He's rule; by default torch's global generator.

    Example:
        >>> layer = ConvLayer(3, 8, stride=2)
        >>> y = layer(torch.rand(5, 3, 9, 9))
        >>> y.shape, bool((y >= 0).all())
        (torch.Size([5, 8, 5, 5]), True)
    """

    @checked
    def __init__(
        self, cin: PositiveInt, cout: PositiveInt, kernel: NonNegativeInt = 3, *,
        stride: PositiveInt = 1, norm: Part = nn.BatchNorm2d, activation: Part = nn.ReLU,
        pre: bool = False, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if kernel and not kernel % 2:
            hint = "The middle of an even one lies between pixels."
            raise usage_error("ConvLayer", "kernel", "odd, or 0 for no convolution", kernel, hint)
        self.pre, self.conv = pre, nn.Identity()
        if kernel:
            options = {"stride": stride, "padding": kernel // 2, "bias": False}
            self.conv = drawn(nn.Conv2d, cin, cout, kernel, rng=rng, **options)
        self.norm, self.activation = norm(cin if pre else cout), activation()

    def forward(self, x: Maps) -> NewMaps:
        """Compute the maps."""
        if self.pre:
            return self.conv(self.activation(self.norm(x)))
        return self.activation(self.norm(self.conv(x)))


@final
class Stem(nn.Module):
    """Makes the first maps of a picture.

    Args:
        channels: Of the pictures.
        width: Channels of the maps.
        kernel: Side of the kernel.
        stride: Of the convolution.
        pool: Whether the maps are halved once more, by the maxima of 3 x 3 pixels.
        layer: The convolution with its normalization and activation.
        rng: Draws the weights; by default torch's global generator.

    Example:
        >>> stem = Stem(3, 64, kernel=7, stride=2, pool=True)  # for photographs
        >>> maps = stem(torch.rand(2, 3, 32, 32))
        >>> maps.shape
        torch.Size([2, 64, 8, 8])
    """

    @checked
    def __init__(
        self, channels: PositiveInt, width: PositiveInt, *, kernel: PositiveInt = 3,
        stride: PositiveInt = 1, pool: bool = False, layer: Part = ConvLayer,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.channels = width  # that come out, as of a block
        self.layer = layer(channels, width, kernel, stride=stride, rng=rng)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1) if pool else nn.Identity()

    def forward(self, x: Maps) -> NewMaps:
        """Compute the maps."""
        return self.pool(self.layer(x))


class _Block(nn.Module):
    """Adds a branch to a shortcut, and activates the sum."""

    def __init__(
        self, branch: Sequence[nn.Module], sizes: tuple[int, int, int], shortcut: Shortcut,
        layer: Part, options: tuple[float, bool], rng: torch.Generator | None,
    ) -> None:
        super().__init__()
        (cin, cout, stride), (self.alpha, zero_init) = sizes, options
        if shortcut == "A" and cout < cin:
            hint = "Zeros are added to channels, and none is taken away."
            raise usage_error(
                type(self).__name__, "shortcut", f"'B' or 'none' from {cin} to {cout} channels",
                shortcut, hint,
            )
        self.channels, self.branch = cout, nn.Sequential(*branch)
        self.shortcut: nn.Module | None = None
        if shortcut != "none" and stride == 1 and cin == cout:
            self.shortcut = nn.Identity()
        elif shortcut == "A":
            self.shortcut = _Padded(stride, cout - cin)
        elif shortcut == "B":
            self.shortcut = layer(cin, cout, 1, stride=stride, activation=nn.Identity, rng=rng)
        self.activation = layer(cout, cout, 0, norm=nn.Identity).activation
        if zero_init:
            last: Any = branch[-1]
            weight = getattr(last.norm, "weight", None)
            nn.init.zeros_(last.conv.weight if weight is None else weight)

    def forward(self, x: Maps) -> NewMaps:
        """Compute the maps."""
        y = self.branch(x)
        if self.shortcut is None:
            return self.activation(self.alpha * y)
        return self.activation(torch.add(self.shortcut(x), y, alpha=self.alpha))


@final
class _Padded(nn.Module):
    """Takes every pixel of a stride, and adds channels of zeros."""

    def __init__(self, stride: int, more: int) -> None:
        super().__init__()
        self.stride, self.more = stride, more

    def forward(self, x: Maps) -> NewMaps:
        """Compute the maps."""
        kept = x[:, :, ::self.stride, ::self.stride]
        return F.pad(kept, (0, 0, 0, 0, 0, self.more))


@final
class ResidualBlock(_Block):
    r"""Adds two 3 x 3 convolutions to its input: $\varphi(\alpha f(x)+Px)$.

    Shapes:
        x: (B, cin, H, W); returns (B, cout, H / stride, W / stride), rounded up

    Args:
        cin: Channels that come in.
        cout: Channels that go out.
        stride: Of the first convolution, and of the shortcut.
        shortcut: A takes every pixel of the stride and adds channels of zeros, without parameters;
            B is a 1 x 1 convolution wherever size or channels change; none makes a plain block.
        alpha: Factor of the branch.
        zero_init: Whether the branch is 0 to begin with: its last normalization has weights 0.
        layer: The convolutions with their normalizations and activations.
        rng: Draws the weights; by default torch's global generator.

    Example:
        >>> block = ResidualBlock(1, 2, stride=2, zero_init=True)
        >>> y = block(torch.tensor([[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]]))
        >>> y.tolist()
        [[[[1.0, 3.0]], [[0.0, 0.0]]]]
    """

    @checked
    def __init__(
        self, cin: PositiveInt, cout: PositiveInt, stride: PositiveInt = 1, *,
        shortcut: Shortcut = "A", alpha: NonNegativeFloat = 1.0, zero_init: bool = False,
        layer: Part = ConvLayer, rng: torch.Generator | None = None,
    ) -> None:
        branch = (
            layer(cin, cout, 3, stride=stride, rng=rng),
            layer(cout, cout, 3, activation=nn.Identity, rng=rng),
        )
        super().__init__(branch, (cin, cout, stride), shortcut, layer, (alpha, zero_init), rng)


@final
class BottleneckBlock(_Block):
    r"""Adds three convolutions to its input: 1 x 1 to few channels, 3 x 3, and 1 x 1 to many.

    The stride is that of the 3 x 3 convolution, as in the networks of torchvision; in the paper it
    is that of the first one, which skips three pixels of four.

    Shapes:
        x: (B, cin, H, W); returns (B, 4 width, H / stride, W / stride), rounded up

    Args:
        cin: Channels that come in.
        width: Channels of the 3 x 3 convolution; four times as many go out.
        stride: Of the 3 x 3 convolution, and of the shortcut.
        shortcut: As in `ResidualBlock`, like the others.
        alpha: Factor of the branch.
        zero_init: Whether the branch is 0 to begin with.
        layer: The convolutions with their normalizations and activations.
        rng: Draws the weights; by default torch's global generator.

    Example:
        >>> block = BottleneckBlock(64, 16)
        >>> y = block(torch.rand(2, 64, 5, 5))
        >>> y.shape, block.branch[1].conv.weight.shape
        (torch.Size([2, 64, 5, 5]), torch.Size([16, 16, 3, 3]))
    """

    @checked
    def __init__(
        self, cin: PositiveInt, width: PositiveInt, stride: PositiveInt = 1, *,
        shortcut: Shortcut = "B", alpha: NonNegativeFloat = 1.0, zero_init: bool = False,
        layer: Part = ConvLayer, rng: torch.Generator | None = None,
    ) -> None:
        branch = (
            layer(cin, width, 1, rng=rng), layer(width, width, 3, stride=stride, rng=rng),
            layer(width, 4 * width, 1, activation=nn.Identity, rng=rng),
        )
        sizes = (cin, 4 * width, stride)
        super().__init__(branch, sizes, shortcut, layer, (alpha, zero_init), rng)


IMAGENET: Mapping[int, tuple[Part, tuple[int, ...]]] = {
    18: (ResidualBlock, (2, 2, 2, 2)), 34: (ResidualBlock, (3, 4, 6, 3)),
    50: (BottleneckBlock, (3, 4, 6, 3)), 101: (BottleneckBlock, (3, 4, 23, 3)),
    152: (BottleneckBlock, (3, 8, 36, 3)),
}
Depth = Literal[18, 34, 50, 101, 152]


@final
class ResNet(nn.Module):
    r"""Classifies pictures by a stem, groups of residual blocks, and the mean over all places.

    Each group after the first halves the maps and doubles the channels.

    Shapes:
        x: (B, channels, H, W), any H and W; returns (B, classes)

    Args:
        n: Blocks in each of three groups, which make $6n+2$ layers of two-layer blocks; or a
            tuple with the blocks of each group.
        channels: Of the pictures.
        width: Channels of the first group.
        classes: Number of outputs.
        block: Makes a block of channels in, width and stride, such as
            `partial(ResidualBlock, shortcut="B")` or `BottleneckBlock`.
        stem: Makes the first maps, such as `partial(Stem, kernel=7, stride=2, pool=True)`.
        layer: The convolutions everywhere, such as `partial(ConvLayer, activation=nn.GELU)`.
        rng: Draws the weights by He's rule; by default torch's global generator.

    Example:
        >>> net = ResNet(3, channels=1)
        >>> logits = net(torch.rand(5, 1, 28, 28))
        >>> logits.shape, net.depth
        (torch.Size([5, 10]), 20)
    """

    @checked
    def __init__(
        self, n: Several, *, channels: PositiveInt = 3, width: PositiveInt = 16,
        classes: PositiveInt = 10, block: Part = ResidualBlock, stem: Part = Stem,
        layer: Part = ConvLayer, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        counts = n if isinstance(n, tuple) else (n, n, n)
        if not counts or not all(isinstance(one, int) and one > 0 for one in counts):
            raise usage_error("ResNet", "n", "a count of 1 or more blocks for each group", n)
        self.channels, cin, groups = channels, width, []
        self.stem = stem(channels, width, layer=layer, rng=rng)
        for group, count in enumerate(counts):
            blocks: list[Any] = []
            for place in range(count):
                stride = 2 if group and not place else 1
                blocks.append(block(cin, width * 2**group, stride, layer=layer, rng=rng))
                cin = blocks[-1].channels
            groups.append(nn.Sequential(*blocks))
        self.groups = nn.Sequential(*groups)
        self.head = drawn(nn.Linear, cin, classes, rng=rng)

    @property
    def depth(self) -> int:
        """Layers with weights from the picture to the scores, without those of shortcuts."""
        blocks: list[Any] = [one for one in self.modules() if isinstance(one, _Block)]
        return 2 + sum(len(one.branch) for one in blocks)

    def forward(self, x: Maps) -> Float[Tensor, "B classes"]:
        """Compute the scores of the classes."""
        need_channels("ResNet", self.channels, x)
        x = x.to(memory_format=torch.channels_last)  # faster on a CPU
        return self.head(self.groups(self.stem(x)).mean(dim=(2, 3)))

    @classmethod
    @checked
    def imagenet(
        cls, depth: Depth = 50, *, channels: PositiveInt = 3, classes: PositiveInt = 1000,
        rng: torch.Generator | None = None,
    ) -> "ResNet":
        """Make a network for photographs, as published: four groups, shortcuts B, a larger stem."""
        block, counts = IMAGENET[depth]
        return cls(
            counts, channels=channels, width=64, classes=classes, rng=rng,
            block=partial(block, shortcut="B"), stem=partial(Stem, kernel=7, stride=2, pool=True),
        )

    @classmethod
    @checked
    def from_torchvision(cls, weights: Weights, *, depth: Depth = 50) -> "ResNet":
        """Make such a network with the weights of torchvision's network of that depth.

        Args:
            weights: A `state_dict` or a .safetensors file; as many channels and classes as it has.
            depth: Of the network.
        """
        given = read_weights("ResNet", weights)
        sizes = sizes_in(given, channels=("conv1.weight", 1), classes=("fc.weight", 0))
        net = cls.imagenet(depth, rng=torch.Generator(), **sizes)  # of weights that are replaced
        return take_weights("ResNet", net, given, _our_name)


def _our_name(name: str) -> str:
    """Rename a tensor of torchvision: `layer1.0.bn2` is `groups.0.0.branch.1.norm`."""
    name = re.sub(r"^(conv|bn)1\.", r"stem.layer.\1.", name)
    name = re.sub(r"^layer(\d)\.", lambda found: f"groups.{int(found[1]) - 1}.", name)
    name = re.sub(
        r"\.(conv|bn)(\d)\.", lambda found: f".branch.{int(found[2]) - 1}.{found[1]}.", name
    )
    name = name.replace(".downsample.0.", ".shortcut.conv.")
    name = name.replace(".downsample.1.", ".shortcut.bn.")
    return re.sub(r"^fc\.", "head.", name.replace(".bn.", ".norm."))


def need_channels(owner: str, channels: int, x: Tensor) -> None:
    """Refuse what is no batch of pictures with so many channels."""
    if x.ndim != 4 or x.shape[1] != channels:
        hint = "Gray pictures need a channel: x[:, None]." if x.ndim == 3 else ""
        raise usage_error(owner, "x", f"of shape (B, {channels}, H, W)", tuple(x.shape), hint)


@checked
def PlainNet(
    n: Several, *, channels: PositiveInt = 3, width: PositiveInt = 16, classes: PositiveInt = 10,
    block: Part = ResidualBlock, layer: Part = ConvLayer, rng: torch.Generator | None = None,
) -> ResNet:
    r"""Makes the network that `ResNet` is without its shortcuts, with the same weights.

    The arguments are those of `ResNet`.

    Example:
        >>> nets = ResNet(3), PlainNet(3)
        >>> [sum(one.numel() for one in net.parameters()) for net in nets]
        [269722, 269722]
    """
    return ResNet(
        n, channels=channels, width=width, classes=classes, layer=layer, rng=rng,
        block=partial(block, shortcut="none"),
    )

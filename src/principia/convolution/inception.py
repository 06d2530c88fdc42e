r"""1x1 convolutions and Inception: kernels of all sizes side by side, behind cheap compressions.

A convolution with a 1 x 1 kernel sees a single pixel. It is a small matrix that is used at every
place: it mixes channels and no places, and with fewer outputs than inputs it compresses. That pays
in front of a large kernel, whose cost is a product of both numbers of channels. An Inception module
then does not choose a size of the kernel: 1 x 1, 3 x 3, 5 x 5 and a pooling stand side by side,
each behind a compression, and their channels are joined; the next layer takes what it needs. Since
gradients grow thin on their way down a deep stack, two small classifiers stand on layers in the
middle while it trains; their losses count 0.3 each, and afterwards they are thrown away. A kernel
may also be split: one of rank 1 is a column times a row, two short convolutions.

$$ x^+_{ij} = \sigma(Wx_{ij}), \quad W\in\mathbb R^{k\times m}, \qquad
\frac{c\,r+q^2r\,o}{q^2c\,o} \ \text{of the cost is left behind a compression to } r $$

$$ x^+ = \big[\,W_1x,\ W_3\star\sigma(R_3x),\ W_5\star\sigma(R_5x),\ P\,\mathrm{pool}(x)\,\big],
\qquad L = \ell(f(x),y)+0.3\sum_a\ell(f_a(x),y) $$

$$ K = \sum_i\sigma_iu_iv_i^\top \approx \sigma_1u_1v_1^\top, \qquad
\min_{c,d}\Vert K-cd^\top\Vert^2 = \sum_{i>1}\sigma_i^2 $$

Symbols:
    $x_{ij}$: the $m$ channels of a pixel; $W$: a `BasicConv2d` with a 1 x 1 kernel
    $c, r, o$: channels that come in, compressed ones, and channels that go out; $q$: kernel's side
    $W_1, W_3, W_5$: kernels of the branches, $R_3, R_5, P$: compressions, of `InceptionModule`
    $f, f_a$: classifier at the end, `InceptionNet.fc`, and in the middle, `AuxiliaryHead`
    $L$: `auxiliary_loss`, of the cross-entropy $\ell$
    $K$: kernel $n\times n$ with singular values $\sigma_i$; its column and row: `separable`

References:
    Lin, Chen and Yan (2014), Network in network. ICLR. arXiv:1312.4400
    Arora, Bhaskara, Ge and Ma (2014), Provable bounds for learning some deep representations.
        ICML. arXiv:1310.6343
    Szegedy, Liu, Jia, Sermanet, Reed, Anguelov, Erhan, Vanhoucke and Rabinovich (2015), Going
        deeper with convolutions. CVPR. arXiv:1409.4842
    Szegedy, Vanhoucke, Ioffe, Shlens and Wojna (2016), Rethinking the Inception architecture for
        computer vision. CVPR. arXiv:1512.00567
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine
        learning algorithms. arXiv:1708.07747
"""

__all__ = [
    "InceptionNet", "InceptionModule", "BasicConv2d", "AuxiliaryHead", "FactorizedConv",
    "auxiliary_loss", "separable",
]

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.draws import undrawn
from principia.lab.params import Each, NonNegativeFloat, PositiveInt, Range, checked, usage_error
from principia.lab.weights import read_weights, take_weights
from principia.regularization.batch_norm import LARGER, SEVERAL
from principia.regularization.initialization import initialize_

Part = Callable[..., nn.Module]
Norm = Callable[[int], nn.Module] | None
Rng = torch.Generator | None
Widths = Annotated[Sequence[int], Each(Range(0, float("inf"), kind=int))]
Answers = Tensor | tuple[Tensor, list[Tensor]]
batch_norm = functools.partial(nn.BatchNorm2d, eps=0.001)


def drawn(kind: type[nn.Module], *sizes: Any, rng: Rng, **settings: Any) -> Any:
    """Make a layer with weights by He's rule, drawn once."""
    return initialize_(undrawn(kind, *sizes, **settings), "he", rng=rng)


@final
class BasicConv2d(nn.Module):
    r"""Convolves, normalizes and bends; with a 1 x 1 kernel it mixes channels and no places.

    Shapes:
        x: (B, inputs, H, W); returns (B, outputs, ⌈H / stride⌉, ⌈W / stride⌉)

    Args:
        inputs: Channels that come in.
        outputs: Channels that go out.
        kernel: Side of the kernels, an odd number.
        stride: Every how many-th place is kept.
        norm: Makes the normalization of so many channels; without one there is a bias.
        activation: Makes what stands behind it.
        rng: Draws the weights by He's rule; by default torch's global generator.

    Example:
        >>> compress = BasicConv2d(192, 16)
        >>> maps = compress(torch.rand(2, 192, 14, 10))
        >>> maps.shape
        torch.Size([2, 16, 14, 10])
    """

    @checked
    def __init__(
        self, inputs: PositiveInt, outputs: PositiveInt, kernel: PositiveInt = 1, *,
        stride: PositiveInt = 1, norm: Norm = batch_norm,
        activation: Callable[[], nn.Module] = nn.ReLU, rng: Rng = None,
    ) -> None:
        super().__init__()
        _need_odd("BasicConv2d", kernel)
        self.conv = drawn(
            nn.Conv2d, inputs, outputs, kernel, stride=stride, padding=kernel // 2,
            bias=norm is None, rng=rng,
        )
        self.bn = nn.Identity() if norm is None else norm(outputs)
        self.activation = activation()

    def forward(self, x: Float[Tensor, "B c h w"]) -> Float[Tensor, "B o _ _"]:
        """Compute the maps."""
        return self.activation(self.bn(self.conv(x)))


def _need_odd(owner: str, kernel: int) -> None:
    if kernel % 2 == 0:
        hint = "An even one has no middle: maps would shrink."
        raise usage_error(owner, "kernel", "odd", kernel, hint)


@final
class InceptionModule(nn.Module):
    r"""Looks with kernels of three sizes and a pooling at once, and joins their channels.

    The branches have the names of torchvision: `branch1` to `branch4`.

    Shapes:
        x: (B, inputs, H, W); returns (B, outputs, H, W)

    Args:
        inputs: Channels that come in.
        widths: Channels of the 1 x 1 branch; in front of the 3 x 3 kernels and behind them; the
            same of the large kernels; behind the pooling. In front of kernels 0 stands for no
            compression, behind the pooling for all of its channels.
        kernel: Side of the large kernels, an odd number.
        block: Makes the convolutions: `block(inputs, outputs, kernel, rng=rng)`.
        rng: Draws the weights; by default torch's global generator.

    Example:
        >>> module = InceptionModule(192, (64, 96, 128, 16, 32, 32))
        >>> maps = module(torch.rand(2, 192, 14, 10))
        >>> maps.shape, module.outputs
        (torch.Size([2, 256, 14, 10]), 256)
    """

    @checked
    def __init__(
        self, inputs: PositiveInt, widths: Widths, *, kernel: PositiveInt = 5,
        block: Part = BasicConv2d, rng: Rng = None,
    ) -> None:
        super().__init__()
        _need_odd("InceptionModule", kernel)
        if len(widths) != 6 or not all(widths[place] for place in (0, 2, 4)):
            domain = "six numbers, of which only the 2nd, 4th and 6th may be 0"
            raise usage_error("InceptionModule", "widths", domain, tuple(widths))
        first, reduced3, wide3, reduced, wide, pooled = widths
        if max(reduced3, reduced) > inputs:
            got = max(reduced3, reduced)
            warnings.warn(
                f"InceptionModule: {got} channels of {inputs} are no compression: the convolution "
                "behind them costs more than without. Take fewer, or 0.", stacklevel=3,
            )
        make = functools.partial(block, rng=rng)
        self.outputs = first + wide3 + wide + (pooled or inputs)
        self.branch1 = make(inputs, first, 1)
        self.branch2 = _compressed(make, inputs, reduced3, wide3, 3)
        self.branch3 = _compressed(make, inputs, reduced, wide, kernel)
        project = [make(inputs, pooled, 1)] if pooled else []
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), *project)

    def forward(self, x: Float[Tensor, "B c h w"]) -> Float[Tensor, "B o h w"]:
        """Join what the branches see."""
        seen = [self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)]
        return torch.cat(seen, dim=1)


def _compressed(make: Part, inputs: int, reduced: int, outputs: int, kernel: int) -> nn.Sequential:
    """Make a convolution behind a compression, or without one."""
    front = [make(inputs, reduced, 1)] if reduced else []
    return nn.Sequential(*front, make(reduced or inputs, outputs, kernel))


@final
class AuxiliaryHead(nn.Module):
    r"""Classifies maps in the middle of a network, so that gradients reach the layers below.

    Shapes:
        x: (B, inputs, H, W); returns (B, classes)

    Args:
        inputs: Channels of the maps.
        classes: Number of outputs.
        width: Channels that the maps, averaged to 4 x 4 places, are compressed to.
        hidden: Width of its hidden dense layer.
        dropout: Share of the hidden units that is dropped.
        block: Makes the compression.
        rng: Draws the weights; by default torch's global generator.

    Example:
        >>> head = AuxiliaryHead(64, 10, width=16, hidden=32)
        >>> logits = head(torch.rand(2, 64, 14, 14))
        >>> logits.shape
        torch.Size([2, 10])
    """

    @checked
    def __init__(
        self, inputs: PositiveInt, classes: PositiveInt, *, width: PositiveInt = 128,
        hidden: PositiveInt = 1024, dropout: Annotated[float, Range(0, 1, open="high")] = 0.7,
        block: Part = BasicConv2d, rng: Rng = None,
    ) -> None:
        super().__init__()
        self.conv = block(inputs, width, 1, rng=rng)
        self.fc1 = drawn(nn.Linear, 16 * width, hidden, rng=rng)
        self.fc2 = drawn(nn.Linear, hidden, classes, rng=rng)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B c h w"]) -> Float[Tensor, "B classes"]:
        """Compute the scores of the classes."""
        x = self.conv(F.adaptive_avg_pool2d(x, 4)).flatten(1)
        return self.fc2(self.dropout(self.fc1(x).relu()))


MODULES = {  # of GoogLeNet, as published
    "3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64), "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64), "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128), "5b": (384, 192, 384, 48, 128, 128),
}
HALVED = {"3b": 3, "4e": 2}  # behind these, by poolings of so many places a side
SMALL = {"3a": (16, 16, 24, 8, 12, 12), "3b": (64, 48, 96, 16, 32, 32)}
SMALL_HALVED = {"3a": 3}


@final
class InceptionNet(nn.Module):
    r"""Classifies pictures by Inception modules: GoogLeNet, or two modules for small pictures.

    While it trains it also gives the scores of its auxiliary heads, for `auxiliary_loss`. Its parts
    have the names of torchvision.

    Shapes:
        x: (B, channels, H, W); returns (B, classes), in training (B, classes) and a list of more

    Args:
        small: Whether it is the one for pictures of 8 to 64 pixels.
        channels: Of the pictures.
        classes: Number of outputs.
        auxiliary: Whether it has auxiliary heads.
        kernel: Side of the large kernels: 5 as published, 3 in torchvision.
        block: Makes the convolutions, as `BasicConv2d` does.
        dropout: Share of the channels that is dropped in front of the last layer.
        rng: Draws the weights by He's rule; by default torch's global generator.

    Example:
        >>> net = InceptionNet(small=True, channels=1, classes=10)
        >>> logits, others = net(torch.rand(5, 1, 28, 28))
        >>> logits.shape, [one.shape for one in others]
        (torch.Size([5, 10]), [torch.Size([5, 10])])
        >>> loss = auxiliary_loss((logits, others), torch.arange(5))
        >>> with torch.device("meta"):  # counted without memory
        ...     sum(one.numel() for one in InceptionNet(kernel=3).parameters())
        13004888
    """

    @checked
    def __init__(
        self, *, small: bool = False, channels: PositiveInt = 3, classes: PositiveInt = 1000,
        auxiliary: bool = True, kernel: PositiveInt = 5, block: Part = BasicConv2d,
        dropout: Annotated[float, Range(0, 1, open="high")] = 0.2, rng: Rng = None,
    ) -> None:
        super().__init__()
        make = functools.partial(block, rng=rng)
        self.channels, self.small = channels, small
        self.heads = {"3a": "aux1"} if small else {"4a": "aux1", "4d": "aux2"}
        sizes = {"width": 16, "hidden": 64} if small else {}
        width = 32 if small else 192
        self.conv1 = make(channels, 32, 3) if small else make(channels, 64, 7, stride=2)
        if not small:
            self.conv2, self.conv3 = make(64, 64, 1), make(64, width, 3)
        for name, widths in (SMALL if small else MODULES).items():
            module = InceptionModule(width, widths, kernel=kernel, block=block, rng=rng)
            self.add_module(f"inception{name}", module)
            width = module.outputs
            if auxiliary and name in self.heads:
                head = AuxiliaryHead(width, classes, block=block, rng=rng, **sizes)
                self.add_module(self.heads[name], head)
        self.dropout = nn.Dropout(dropout)
        self.fc = drawn(nn.Linear, width, classes, rng=rng)
        self.heads = self.heads if auxiliary else {}

    def forward(self, x: Float[Tensor, "B c h w"]) -> Answers:
        """Compute the scores of the classes, in training also those of the auxiliary heads."""
        least, two = (4, 8) if self.small else (15, 47)  # sides that leave one place, and two
        if x.shape[1] != self.channels or min(x.shape[2:]) < least:
            domain = f"of shape (B, {self.channels}, H, W) with sides of {least} or more"
            raise usage_error("InceptionNet", "x", domain, tuple(x.shape))
        if self.training and len(x) == 1 and max(x.shape[2:]) < two:
            raise usage_error("InceptionNet", "x", SEVERAL, tuple(x.shape), LARGER)
        x = _halved(self.conv1(x.to(memory_format=torch.channels_last)))  # faster on a CPU
        if not self.small:
            x = _halved(self.conv3(self.conv2(x)))
        others: list[Tensor] = []
        halved = SMALL_HALVED if self.small else HALVED
        for name in SMALL if self.small else MODULES:
            x = self.get_submodule(f"inception{name}")(x)
            if self.training and name in self.heads:
                others.append(self.get_submodule(self.heads[name])(x))
            if name in halved:
                x = _halved(x, halved[name])
        logits = self.fc(self.dropout(x.mean(dim=(2, 3))))
        return (logits, others) if others else logits

    @classmethod
    def from_torchvision(cls, weights: Mapping[str, Tensor] | Path | str) -> "InceptionNet":
        """Makes the GoogLeNet whose weights torchvision has, with auxiliary heads or without.

        Its 5 x 5 kernels are 3 x 3 there. The published weights expect channels in [-1, 1]:
        twice the picture, minus 1. Its auxiliary heads were not trained.

        Args:
            weights: A .safetensors file, or a `state_dict`.

        Example:
            >>> published = InceptionNet(kernel=3).state_dict()  # in place of a file
            >>> InceptionNet.from_torchvision(published).fc.out_features
            1000
        """
        owner = "InceptionNet.from_torchvision"
        given = read_weights(owner, weights)
        if not {"conv1.conv.weight", "fc.weight"} <= given.keys():
            domain = "those of a GoogLeNet: conv1.conv.weight, ..., fc.bias"
            raise usage_error(owner, "weights", domain, sorted(given)[:3])
        auxiliary = any(name.startswith("aux") for name in given)
        channels, classes = given["conv1.conv.weight"].shape[1], len(given["fc.weight"])
        net = cls(
            channels=channels, classes=classes, auxiliary=auxiliary, kernel=3, rng=torch.Generator()
        )
        return take_weights(owner, net, given)


def _halved(x: Tensor, kernel: int = 3) -> Tensor:
    """Take the largest of each window, every second place; one that hangs over the edge counts."""
    return F.max_pool2d(x, kernel, stride=2, ceil_mode=True)


@checked
def auxiliary_loss(
    outputs: Answers, y: Int[Tensor, " B"], *, weight: NonNegativeFloat = 0.3
) -> Float[Tensor, ""]:
    """Adds the cross-entropies of auxiliary heads, with a weight, to that of the last layer.

    Args:
        outputs: Scores (B, K), or these and a list of those of auxiliary heads.
        y: Labels.
        weight: Of each auxiliary head.

    Example:
        >>> even, y = torch.zeros(4, 10), torch.arange(4)  # log 10 each
        >>> auxiliary_loss(even, y), auxiliary_loss((even, [even, even]), y)
        (tensor(2.3026), tensor(3.6841))
    """
    logits, others = (outputs, []) if isinstance(outputs, Tensor) else outputs
    return F.cross_entropy(logits, y) + weight * sum(F.cross_entropy(one, y) for one in others)


@checked
def separable(
    kernel: Float[Tensor, "*K n m"],
) -> tuple[Float[Tensor, "*K n"], Float[Tensor, "*K m"]]:
    r"""Finds the column and the row whose product is nearest to a kernel, by its singular vectors.

    Args:
        kernel: One kernel or several.

    Example:
        >>> column, row = separable(torch.tensor([[1.0, 0, -1], [2, 0, -2], [1, 0, -1]]))
        >>> torch.allclose(column.outer(row)[1], torch.tensor([2.0, 0, -2]), atol=1e-5)
        True
    """
    u, s, vt = torch.linalg.svd(kernel, full_matrices=False)
    root = s[..., :1].sqrt()  # both are equally long
    return root * u[..., 0], root * vt[..., 0, :]


@final
class FactorizedConv(nn.Module):
    r"""Convolves with n x 1 and then 1 x n kernels: 2n weights for a pair of channels, not n².

    Shapes:
        x: (B, inputs, H, W); returns (B, outputs, H, W)

    Args:
        inputs: Channels that come in.
        outputs: Channels that go out, and those between.
        kernel: n, an odd number.
        rng: Draws the weights by He's rule; by default torch's global generator.

    Example:
        >>> layer = FactorizedConv(8, 16, 7)
        >>> maps = layer(torch.rand(2, 8, 14, 10))
        >>> maps.shape
        torch.Size([2, 16, 14, 10])
    """

    @checked
    def __init__(
        self, inputs: PositiveInt, outputs: PositiveInt, kernel: PositiveInt = 3, *,
        rng: Rng = None,
    ) -> None:
        super().__init__()
        _need_odd("FactorizedConv", kernel)
        tall, wide = (kernel, 1), (1, kernel)
        self.column = drawn(
            nn.Conv2d, inputs, outputs, tall, padding=(kernel // 2, 0), bias=False, rng=rng
        )
        self.row = drawn(nn.Conv2d, outputs, outputs, wide, padding=(0, kernel // 2), rng=rng)

    def forward(self, x: Float[Tensor, "B c h w"]) -> Float[Tensor, "B o h w"]:
        """Compute the maps."""
        return self.row(self.column(x))

r"""VGG: stacks of small kernels see as far as one large kernel, with fewer weights.

A layer of 5 x 5 kernels looks at 25 pixels at once. Two layers of 3 x 3 kernels look just as far:
each unit of the second sees nine units of the first, which together see 5 x 5 pixels. They need
18 weights for a pair of channels in place of 25, and three of them 27 in place of the 49 of a 7 x 7
kernel. Without anything between them they would be the larger kernel, though not any: a 5 x 5
kernel has 25 free numbers, and few are products of two small ones. With a nonlinearity between
them they compute what no single kernel does, which is the other reason to stack. VGG is nothing but
such stacks: 3 x 3 layers, now and then a halving of the sides, and more channels where pictures are
smaller. Nine tenths of the weights of the published networks stand in their three dense layers,
while nearly all multiplications are in the convolutions.

$$ y = b\star\varphi(a\star x), \qquad
\varphi=\mathrm{id}:\quad y = k\star x, \quad k_{oc} = \sum_m a_{mc}*b_{om} $$

$$ r = 1+L(q-1), \qquad LC^2q^2 \ \text{weights for}\ L \text{ layers of kernels}\ q\times q,
\qquad L\,3^2 < (2L+1)^2 \quad\text{for}\quad L\ge2 $$

Symbols:
    $x, y$: pictures that come in and go out, with channels $c$ and $o$; $m$ counts those between
    $a, b$: kernels of the first and second layer, `first` and `second`
    $k$: the one kernel that does the same, `compose_kernels`
    $\star, *$: correlation, which torch calls convolution, and convolution
    $\varphi$: what stands between the layers, `activation`
    $r$: side of the square of pixels that a unit sees, its receptive field
    $L, q, C$: number of layers, side of their kernels (`kernel`), and channels of each

References:
    Simonyan and Zisserman (2015), Very deep convolutional networks for large-scale image
        recognition. ICLR. arXiv:1409.1556
    Ioffe and Szegedy (2015), Batch normalization: accelerating deep network training by reducing
        internal covariate shift. ICML. arXiv:1502.03167
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine
        learning algorithms. arXiv:1708.07747
"""

__all__ = ["VGG", "compose_kernels"]

import itertools
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.draws import undrawn
from principia.lab.params import Choice, NonNegativeInt, OrPart, PositiveInt, checked, usage_error
from principia.lab.weights import read_weights, take_weights
from principia.regularization.batch_norm import LARGER, SEVERAL, norm_layers
from principia.regularization.initialization import initialize_

Layer = int | str
HALVING = "M"  # so the paper writes a pooling
WIDTHS = 64, 128, 256, 512, 512  # of the stages as published
STAGES = {  # layers of each; the dense ones count in the names
    "vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3),
    "vgg19": (2, 2, 4, 4, 4),
}
CONFIGS: dict[str, tuple[Layer, ...]] = {
    "small": (32, 32, HALVING, 64, 64, HALVING, 128, 128, HALVING),
    **{name: tuple(itertools.chain.from_iterable(
        (*[width] * count, HALVING) for width, count in zip(WIDTHS, counts, strict=True)
    )) for name, counts in STAGES.items()},
}
Config = Annotated[str | tuple[Layer, ...], OrPart(Choice(tuple(CONFIGS)), tuple)]
GRID = 7  # places a side that the hidden dense layers see, whatever the picture
DROPPED = 0.5  # share of their units


@final
class VGG(nn.Module):
    r"""Classifies pictures by stacks of small kernels with halvings between them.

    The parts have the names of torchvision: `features`, `avgpool` and `classifier`.

    Shapes:
        x: (B, channels, H, W); returns (B, classes)

    Args:
        config: "vgg11" to "vgg19" as published, "small" for pictures of 16 to 64 pixels, or the
            channels of each convolution with an "M" for each halving of the sides.
        channels: Of the pictures.
        classes: Number of outputs.
        batch_norm: Whether each convolution is normalized over the batch.
        activation: Makes what stands behind each layer but the last.
        kernel: Side of the kernels, an odd number: maps keep their size.
        dense: Width of two hidden dense layers with dropout, which see 7 x 7 places; 0 for none,
            then the mean over all places is classified. By default 4096, and 0 if small.
        rng: Draws the weights by He's rule; by default torch's global generator.

    Example:
        >>> net = VGG("small", channels=1, classes=10, batch_norm=True)
        >>> logits = net(torch.rand(5, 1, 32, 32))
        >>> logits.shape
        torch.Size([5, 10])
        >>> with torch.device("meta"):  # counted without memory
        ...     sum(one.numel() for one in VGG("vgg16").parameters())
        138357544
    """

    @checked
    def __init__(
        self, config: Config = "vgg16", *, channels: PositiveInt = 3, classes: PositiveInt = 1000,
        batch_norm: bool = False, activation: Callable[[], nn.Module] = nn.ReLU,
        kernel: PositiveInt = 3, dense: NonNegativeInt | None = None,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if kernel % 2 == 0:
            hint = "An even one has no middle: maps would shrink."
            raise usage_error("VGG", "kernel", "odd", kernel, hint)
        plan = CONFIGS[config] if isinstance(config, str) else config
        if not plan or not all(one == HALVING or (type(one) is int and one > 0) for one in plan):
            raise usage_error("VGG", "config", "channels of each layer and 'M' for halvings", plan)
        layers: list[nn.Module] = []
        width = channels
        for one in plan:
            if isinstance(one, str):
                layers.append(nn.MaxPool2d(2))
                continue
            layers.append(undrawn(nn.Conv2d, width, one, kernel, padding=kernel // 2))
            layers += [nn.BatchNorm2d(one)] if batch_norm else []
            layers.append(activation())
            width = one
        hidden = (0 if config == "small" else 4096) if dense is None else dense
        places = GRID if hidden else 1
        sizes = [places**2 * width, *([hidden] * 2 if hidden else []), classes]
        rows = [undrawn(nn.Linear, n, m) for n, m in itertools.pairwise(sizes)]
        self.channels, self.halvings = channels, plan.count(HALVING)
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(places)
        self.classifier = nn.Sequential(*itertools.chain.from_iterable(
            (row, activation(), nn.Dropout(DROPPED)) for row in rows[:-1]
        ), rows[-1])
        initialize_(self, "he", rng=rng)

    def forward(self, x: Float[Tensor, "B c h w"]) -> Float[Tensor, "B classes"]:
        """Compute the scores of the classes."""
        step = 2**self.halvings
        if x.shape[1] != self.channels or min(x.shape[2:]) < step:
            domain = f"of shape (B, {self.channels}, H, W) with sides of {step} or more"
            raise usage_error("VGG", "x", domain, tuple(x.shape))
        if any(side % step for side in x.shape[2:]):
            warnings.warn(
                f"VGG: sides of {x.shape[2]} x {x.shape[3]} are no multiples of {step}: halvings "
                "leave out the last row or column. Pad the pictures.", stacklevel=2,
            )
        normed = self.training and norm_layers(self)  # asked first: exports take any number of rows
        if normed and len(x) * (x.shape[2] // step) * (x.shape[3] // step) < 2:
            raise usage_error("VGG", "x", SEVERAL, tuple(x.shape), LARGER)
        x = x.to(memory_format=torch.channels_last)  # twice as fast on a CPU
        return self.classifier(self.avgpool(self.features(x)).flatten(1))

    @classmethod
    def from_torchvision(cls, weights: Mapping[str, Tensor] | Path | str) -> "VGG":
        """Makes the network whose weights torchvision has, with batch normalization or without.

        Its form is read off the names and shapes. The published weights expect pictures whose
        channels have mean 0 and variance 1 over ImageNet.

        Args:
            weights: A .safetensors file, or a `state_dict`.

        Example:
            >>> published = VGG((8, "M"), classes=5, dense=4).state_dict()  # a file in their place
            >>> VGG.from_torchvision(published).classifier[6].out_features
            5
        """
        owner, given = "VGG.from_torchvision", read_weights("VGG.from_torchvision", weights)
        kernels = {int(name.split(".")[1]): one.shape for name, one in given.items()
                   if name.startswith("features.") and one.ndim == 4}
        rows = [one.shape for name, one in given.items()
                if name.startswith("classifier.") and one.ndim == 2]
        if not kernels or not rows:
            domain = "those of a VGG: features.0.weight, ..., classifier.6.bias"
            raise usage_error(owner, "weights", domain, sorted(given)[:3])
        normed = any(name.endswith("running_mean") for name in given)
        ends = [*sorted(kernels), max(kernels) + 4 + normed]  # a halving comes last
        config: list[Layer] = []
        for here, there in itertools.pairwise(ends):
            config += [kernels[here][0], *[HALVING] * (there - here - 2 - normed)]
        first = kernels[min(kernels)]
        model = cls(
            tuple(config[:-1]), channels=first[1], classes=rows[-1][0], batch_norm=normed,
            kernel=first[2], dense=rows[0][0] if len(rows) > 1 else 0, rng=torch.Generator(),
        )
        return take_weights(owner, model, given)


@checked
def compose_kernels(
    first: Float[Tensor, "M C p q"], second: Float[Tensor, "K _ r s"]
) -> Float[Tensor, "K C pr qs"]:
    r"""Finds the one kernel that does what two layers do, one behind the other.

    Each pair of channels is a full convolution, summed over the channels between; its sides are
    $p+r-1$ and $q+s-1$. Kernels are those of `nn.Conv2d`.

    Args:
        first: Kernels of the layer that sees the pictures.
        second: Kernels of the layer behind it.

    Example:
        >>> blur = torch.tensor([[[[1.0, 2.0, 1.0]]]])
        >>> compose_kernels(blur, blur)
        tensor([[[[1., 4., 6., 4., 1.]]]])
    """
    if second.shape[1] != len(first):
        hint = "The second layer takes the channels that the first one makes."
        domain = f"kernels of {len(first)} input channels"
        raise usage_error("compose_kernels", "second", domain, second.shape[1], hint)
    around = second.shape[2] - 1, second.shape[3] - 1
    return F.conv2d(first.transpose(0, 1), second.flip(2, 3), padding=around).transpose(0, 1)

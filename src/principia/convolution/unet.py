r"""U-Net: down to learn what is there, up again to say where, with a bridge at every level.

Whoever must answer at every pixel needs both: a wide view, which pooling gives, and sharp edges,
which pooling destroys. The network goes down a path of convolutions and poolings until one unit
sees much of the picture, and up a second path that doubles the sides again. At every level the map
from the way down is laid beside the one on the way up: the bottom knows that something is there,
the bridge knows exactly where its edge runs. Take the bridges away, and outlines blur; silence the
bottom, and the network still sees every edge but not what it belongs to. Without padding each
convolution loses its rim, and maps from the way down are cropped to fit. With circular padding the
whole network commutes with shifts by $2^d$ pixels, the block that one unit of the bottom stands
for, and with no smaller one.

$$ x^l = f_l\big(\mathrm{pool}(x^{l-1})\big), \quad
u^l = g_l\big(\big[\mathrm{crop}(x^l),\ \mathrm{up}(u^{l+1})\big]\big), \quad u^d = x^d, \quad
y = W u^0 $$

$$ n_{out} = n-(12\cdot2^d-8), \quad n\equiv-4\ (\mathrm{mod}\ 2^d) \quad\text{without padding} $$

$$ J = \frac{\vert P\cap G\vert}{\vert P\cup G\vert}, \quad
D = \frac{2\sum_ip_ig_i}{\sum_ip_i+\sum_ig_i} = \frac{2J}{1+J} \quad\text{where}\ p\in\{0,1\} $$

Symbols:
    $x^l$: map of level $l$ on the way down, behind two convolutions $f_l$, `down[l]` or `bottom`
    $u^l$: map of level $l$ on the way up, behind two convolutions $g_l$, `merge`
    $d$: number of poolings, `depth`
    $W$: the last convolution, 1 x 1, `head`
    $y$: scores of the classes at every pixel
    $n, n_{out}$: side of the picture and of the outputs, `output_side`
    $P, G$: pixels that are predicted and that are truly of a class; $p, g$ are 1 there
    $J, D$: intersection over union, `iou`, and Dice's coefficient, `soft_dice`

References:
    Dice (1945), Measures of the amount of ecologic association between species. Ecology 26(3).
        doi:10.2307/1932409
    Long, Shelhamer and Darrell (2015), Fully convolutional networks for semantic segmentation.
        CVPR. arXiv:1411.4038
    Ronneberger, Fischer and Brox (2015), U-Net: convolutional networks for biomedical image
        segmentation. MICCAI. arXiv:1505.04597
    Milletari, Navab and Ahmadi (2016), V-Net: fully convolutional neural networks for volumetric
        medical image segmentation. 3DV. arXiv:1606.04797
"""

__all__ = ["UNet", "soft_dice", "iou"]

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.draws import undrawn
from principia.lab.params import PositiveInt, checked, usage_error
from principia.regularization.initialization import initialize_

Padding = Literal["same", "valid", "circular"]


@final
class UNet(nn.Module):
    r"""Gives scores of the classes at every pixel, from a wide view and from sharp edges.

    Every level has two 3 x 3 convolutions with ReLU on the way down and two on the way up; a level
    deeper has twice the channels. With depth 4, width 64 and "valid" it is the network of the
    paper.

    Shapes:
        x: (B, cin, H, W); returns (B, classes, H, W), with "valid" (B, classes, h, w) for smaller
            sides h and w: `output_side` tells them

    Args:
        cin: Channels of the pictures.
        classes: Channels of the outputs.
        depth: Number of poolings.
        width: Channels of the first level.
        skip: Whether maps from the way down are laid beside those on the way up.
        padding: Zeros at the rim, nothing, or the opposite rim.
        up: How sides are doubled: by a transposed convolution of 2 x 2 with stride 2, or by
            interpolation and a 1 x 1 convolution; both halve the channels.
        rng: Draws the weights by He's rule; by default torch's global generator.

    Example:
        >>> net = UNet(3, 2, depth=2, width=8)
        >>> scores = net(torch.rand(5, 3, 44, 48))
        >>> scores.shape, UNet(1, 2, depth=4, width=2, padding="valid").output_side(572)
        (torch.Size([5, 2, 44, 48]), 388)
    """

    @checked
    def __init__(
        self, cin: PositiveInt, classes: PositiveInt, *, depth: PositiveInt = 4,
        width: PositiveInt = 64, skip: bool = True, padding: Padding = "same",
        up: Literal["transposed", "bilinear"] = "transposed", rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.cin, self.padding = cin, padding
        self.widths = [width << level for level in range(depth + 1)]  # width, 2 width, 4 width, ...
        *downs, bottom = itertools.pairwise([cin, *self.widths])
        ups = [*itertools.pairwise(self.widths[::-1])]  # of the deepest level first
        self.down = nn.ModuleList(_twice(n, m, padding) for n, m in downs)
        self.bottom = _twice(*bottom, padding)
        self.up = nn.ModuleList(_doubling(n, m, up, padding) for n, m in ups)
        self.bridge = nn.ModuleList(_Crop() for _ in ups) if skip else None
        self.merge = nn.ModuleList(_twice(2 * m if skip else m, m, padding) for _, m in ups)
        self.head = undrawn(nn.Conv2d, width, classes, 1)
        initialize_(self, "he", rng=rng)
        for layer in self.modules():
            if isinstance(layer, nn.ConvTranspose2d):  # each output has one input a channel
                nn.init.normal_(layer.weight, 0, layer.in_channels**-0.5, generator=rng)
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, x: Float[Tensor, "B c H W"]) -> Float[Tensor, "B K h w"]:
        """Compute the scores of the classes."""
        if x.ndim != 4 or x.shape[1] != self.cin:
            raise usage_error("UNet", "x", f"of shape (B, {self.cin}, H, W)", tuple(x.shape))
        for side in x.shape[2:]:
            self.output_side(side)
        x = x.to(memory_format=torch.channels_last)
        seen = []
        for block in self.down:
            seen.append(block(x))
            x = F.max_pool2d(seen[-1], 2)
        x = self.bottom(x)
        for level, (double, merge) in enumerate(zip(self.up, self.merge, strict=True)):
            x, before = double(x), seen.pop()
            if self.bridge is not None:
                x = torch.cat([self.bridge[level](before, x), x], dim=1)
            x = merge(x)
        return self.head(x)

    def output_side(self, n: int) -> int:
        """Tell the side of the outputs for that of a picture; refuse one that does not fit."""
        if (side := self._outputs(n)) is not None:
            return side
        step = 1 << len(self.down)
        near = [one for one in range(n - step, n + 1 + 16 * step) if self._outputs(one) is not None]
        sides = near[: 1 + (near[0] < n)]  # one below, if there is one, and one above
        domain = f"a picture with sides divisible by {step}"
        if self.padding == "valid":
            domain = f"a picture whose maps have even sides before all {len(self.down)} poolings"
        hint = f"The nearest that fits is {' or '.join(map(str, sides))}."
        raise usage_error("UNet", "x", domain, n, hint)

    def _outputs(self, n: int) -> int | None:
        """Follow the side of a picture through the network, as long as nothing is lost."""
        rim = 4 if self.padding == "valid" else 0  # of two convolutions
        for _ in self.down:
            n -= rim
            if n % 2 or n < 2:
                return None
            n //= 2
        n -= rim
        for _ in self.up:
            n = 2 * n - rim
        return n if n > 0 else None


def _twice(n: int, m: int, padding: Padding) -> nn.Sequential:
    """Make two convolutions of 3 x 3, each with ReLU."""
    rim: Any = {
        "padding": int(padding != "valid"),
        "padding_mode": "circular" if padding == "circular" else "zeros",
    }
    first, second = undrawn(nn.Conv2d, n, m, 3, **rim), undrawn(nn.Conv2d, m, m, 3, **rim)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())


def _doubling(n: int, m: int, up: str, padding: Padding) -> nn.Module:
    """Make what doubles the sides, with n channels before and m behind."""
    if up == "transposed":
        return undrawn(nn.ConvTranspose2d, n, m, 2, stride=2)
    # the two commute; before the sides are doubled, a mixture of channels is a quarter of the work
    return nn.Sequential(undrawn(nn.Conv2d, n, m, 1), _Bilinear(circular=padding == "circular"))


@final
class _Bilinear(nn.Module):
    """Doubles the sides by interpolation, where it is said across the rim."""

    def __init__(self, *, circular: bool) -> None:
        super().__init__()
        self.circular = circular

    def forward(self, x: Tensor) -> Tensor:
        if not self.circular:
            return F.interpolate(x, scale_factor=2, mode="bilinear")
        x = F.pad(x, (1, 1, 1, 1), mode="circular")
        return F.interpolate(x, scale_factor=2, mode="bilinear")[..., 2:-2, 2:-2]


@final
class _Crop(nn.Module):
    """Cuts the middle out of a map, as large as another one."""

    def forward(self, x: Tensor, like: Tensor) -> Tensor:
        top, left = ((whole - part) // 2 for whole, part in zip(
            x.shape[2:], like.shape[2:], strict=True))
        return x[..., top : top + like.shape[2], left : left + like.shape[3]]


@contextmanager
def faded(model: UNet, bridges: Sequence[float] = (), bottom: float = 1.0) -> Iterator[None]:
    """Multiply what the bridges carry, the finest one first, and what comes from the bottom."""
    own = [] if model.bridge is None else [*model.bridge][::-1]
    with ExitStack() as hooks:
        for layer, factor in [(model.bottom, bottom), *zip(own, bridges, strict=False)]:

            def fade(layer: nn.Module, inputs: Any, y: Tensor, by: float = factor) -> Tensor:
                return by * y

            hooks.enter_context(layer.register_forward_hook(fade))
        yield


def soft_dice(
    p: Float[Tensor, " B K *S"], target: Int[Tensor, "..."]
) -> Float[Tensor, " K"]:
    r"""Computes Dice's coefficient of each class, $2\sum pg/(\sum p+\sum g)$ over all pixels.

    One minus its mean is a loss that does not care how large the background is. A class that is
    nowhere, neither predicted nor true, has 1.

    Args:
        p: Probabilities of the classes at every pixel.
        target: The true class of every pixel.

    Example:
        >>> p = torch.tensor([[[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]]])
        >>> soft_dice(p, torch.tensor([[0, 0, 1]]))
        tensor([0.8571, 0.8000])
    """
    if p.ndim < 2 or target.shape != (p.shape[0], *p.shape[2:]):
        domain = f"of shape {(p.shape[0], *p.shape[2:])}"
        raise usage_error("soft_dice", "target", domain, tuple(target.shape))
    g = F.one_hot(target, p.shape[1]).movedim(-1, 1).to(p)
    over = [0, *range(2, p.ndim)]
    both, total = (p * g).sum(dim=over), (p + g).sum(dim=over)
    return torch.where(total > 0, 2 * both / total.clamp(min=torch.finfo(p.dtype).tiny), 1.0)


@checked
def iou(
    prediction: Int[Tensor, "..."], target: Int[Tensor, "..."], *, classes: PositiveInt = 2
) -> Float[Tensor, " K"]:
    r"""Computes for each class $\vert P\cap G\vert/\vert P\cup G\vert$ over all pixels.

    A class that is nowhere, neither predicted nor true, has 1.

    Args:
        prediction: The predicted class of every pixel.
        target: The true class of every pixel.
        classes: Number of classes.

    Example:
        >>> iou(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 0, 1, 1]))
        tensor([0.5000, 0.6667], dtype=torch.float64)
    """
    if prediction.shape != target.shape:
        domain = f"of shape {tuple(target.shape)}, one class a pixel"
        got, hint = tuple(prediction.shape), "Take the argmax of the scores over the classes."
        raise usage_error("iou", "prediction", domain, got, hint)
    for name, one in (("prediction", prediction), ("target", target)):
        if one.numel() and not 0 <= int(one.min()) <= int(one.max()) < classes:
            ends = f"values from {int(one.min())} to {int(one.max())}"
            raise usage_error("iou", name, f"of values from 0 to {classes - 1}", ends)
    both, first, second = (
        one.flatten().bincount(minlength=classes).double()
        for one in (target[prediction == target], prediction, target)
    )
    either = first + second - both
    return torch.where(either > 0, both / either, 1.0)

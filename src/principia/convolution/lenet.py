r"""LeNet: the first convolutional networks, which read the digits of envelopes and checks.

A picture becomes many small maps, and the maps become classes. Convolutions look for strokes
everywhere with the same few weights, sub-sampling forgets where exactly they were, and the next
convolution puts them together over a wider field. So the maps shrink while their number grows: from
one map of 32 x 32 pixels to 120 maps of a single unit. In 1989 each unit still had a bias of its
own and a picture had 16 x 16 pixels; LeNet-5 of 1998 has 60,000 weights for 340,908 connections.
What looks like its first dense layer, C5, is a convolution whose kernel happens to be as large as
the map below it. On a wider picture it gives a row of answers: a network that was trained on single
digits reads a whole line in one pass, and computes what the windows share only once.

$$ y_{k,i,j} = b_k+\sum_{c\in T_k}\sum_{p,q}w_{k,c,p,q}\,x_{c,\,si+p,\,sj+q}, \quad
\varphi(a) = 1.7159\tanh\tfrac23a $$

$$ s_{k,i,j} = \beta_k\cdot\tfrac14\sum_{p,q\in\{0,1\}}y_{k,\,2i+p,\,2j+q}+b_k, \quad
z_k = -\Vert h-c_k\Vert^2 $$

Symbols:
    $x, y$: maps that come in and go out; $w, b$ their kernels and biases
    $T_k$: input maps that the output map $k$ sees, a row of `table` in `SparseConv2d`
    $s$: step between two windows, `stride`; also what `Subsample` gives, halved maps
    $\beta_k$: trainable coefficient of a map, `weight` of `Subsample`
    $\varphi$: squashing function with $\varphi(\pm1)=\pm1$, `ScaledTanh`
    $h$: the 84 units of F6; $c_k$ the fixed code of class $k$, entries +1 and -1, `CodeDistance`
    $z_k$: score of class $k$, the largest for the nearest code

References:
    LeCun, Boser, Denker, Henderson, Howard, Hubbard and Jackel (1989), Backpropagation applied to
        handwritten zip code recognition. Neural Computation 1(4). doi:10.1162/neco.1989.1.4.541
    Matan, Burges, LeCun and Denker (1991), Multi-digit recognition using a space displacement
        neural network. Advances in Neural Information Processing Systems 4.
    LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document
        recognition. Proceedings of the IEEE 86(11). doi:10.1109/5.726791
    PyTorch contributors (2017), Training a classifier. PyTorch tutorials.
        https://docs.pytorch.org/tutorials/beginner/blitz/cifar10_tutorial.html
"""

__all__ = ["LeNet5", "LeNet1989", "SparseConv2d", "Subsample", "ScaledTanh", "CodeDistance"]

import math
from collections.abc import Sequence
from typing import Annotated, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.draws import undrawn
from principia.lab.params import Each, NonNegativeInt, PositiveInt, Range, checked, usage_error
from principia.regularization.initialization import initialize_

Table = Annotated[Sequence[Sequence[int]], Each(Each(Range(0, math.inf, kind=int)))]
SIDE = 32  # of the pictures of LeNet-5
CODE = 84  # units of F6: a bitmap of 7 x 12
# each map of C3 sees 3 neighbors of the 6 below, 4 neighbors, two pairs, or all: by no means do all
# maps see all, so that they have to become different
C3 = (
    *(tuple(sorted((k + i) % 6 for i in range(3))) for k in range(6)),
    *(tuple(sorted((k + i) % 6 for i in range(4))) for k in range(6)),
    *(tuple(sorted((k + i) % 6 for i in (0, 1, 3, 4))) for k in range(3)),
    tuple(range(6)),
)
# which 8 of the 12 maps below each map of H2 sees is not told in the paper; here they are neighbors
H2 = tuple(tuple(sorted((k + i) % 12 for i in range(8))) for k in range(12))


@final
class LeNet5(nn.Module):
    r"""Reads pictures of 32 x 32 pixels: two convolutions with pooling, then C5, F6, classes.

    By default with rectifiers, maxima and all links, as it is built today; with three channels it
    is the network of PyTorch's tutorial for CIFAR-10. `original=True` is the network of 1998:
    squashing functions, averages with a coefficient and a bias, a C3 whose maps see some of those
    below, and distances to fixed codes instead of a last layer.

    Shapes:
        x: (B, channels, 32, 32); returns (B, classes)

    Args:
        original: Whether it is that of 1998.
        channels: Of the pictures.
        classes: Number of outputs.
        rng: Draws the weights, of variance $2/n$ before rectifiers and $1/n$ before squashing
            functions, and the codes; by default torch's global generator.

    Example:
        >>> net = LeNet5(rng=torch.Generator().manual_seed(0))
        >>> scores, line = net(torch.rand(5, 1, 32, 32)), net.scan(torch.rand(5, 1, 32, 80))
        >>> scores.shape, line.shape
        (torch.Size([5, 10]), torch.Size([5, 10, 1, 13]))
        >>> sum(one.numel() for one in LeNet5(original=True).parameters())
        60000
    """

    @checked
    def __init__(
        self, *, original: bool = False, channels: PositiveInt = 1, classes: PositiveInt = 10,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.channels = channels
        self.phi = ScaledTanh() if original else nn.ReLU()
        self.c1 = undrawn(nn.Conv2d, channels, 6, 5)
        self.s2 = _pool(6, original)
        self.c3 = SparseConv2d(C3, 5, rng=rng) if original else undrawn(nn.Conv2d, 6, 16, 5)
        self.s4 = _pool(16, original)
        self.c5 = undrawn(nn.Conv2d, 16, 120, 5)
        self.f6 = undrawn(nn.Conv2d, 120, CODE, 1)
        self.output = (
            CodeDistance(CODE, classes, rng=rng) if original
            else undrawn(nn.Conv2d, CODE, classes, 1)
        )
        initialize_(self, "lecun" if original else "he", rng=rng)

    def forward(self, x: Float[Tensor, " B *picture"]) -> Float[Tensor, "B classes"]:
        """Compute the scores of the classes."""
        _need_pictures("LeNet5", x, self.channels, SIDE, "Or call scan, for a map of scores.")
        return self.scan(x).flatten(1)

    def scan(self, x: Float[Tensor, "B c H W"]) -> Float[Tensor, "B classes h w"]:
        """Compute the scores of every window of 32 x 32 pixels, four pixels apart."""
        if x.ndim != 4 or min(x.shape[2:]) < SIDE or x.shape[1] != self.channels:
            domain = f"of shape (B, {self.channels}, H, W), H and W at least {SIDE}"
            raise usage_error("LeNet5", "images", domain, tuple(x.shape))
        x = x.to(memory_format=torch.channels_last)  # faster on a CPU
        h = self.phi(self.s2(self.c1(x)))  # (B, 6, 14, 14); a maximum commutes with ReLU
        h = self.phi(self.s4(self.c3(h)))  # (B, 16, 5, 5)
        h = self.phi(self.c5(h))  # (B, 120, 1, 1)
        return self.output(self.phi(self.f6(h)))


def _pool(maps: int, original: bool) -> nn.Module:
    """Halve maps: by maxima, or squashed and averaged, with a weight and a bias for each."""
    return nn.Sequential(ScaledTanh(), Subsample(maps)) if original else nn.MaxPool2d(2)


class _Size:
    """Words such as 28x28, which an error shows without quotes."""

    def __init__(self, *sides: int) -> None:
        self.sides = sides

    def __repr__(self) -> str:
        return "x".join(map(str, self.sides))


def _need_pictures(owner: str, x: Tensor, channels: int, side: int, larger: str = "") -> None:
    """Refuse anything but pictures of one size, and say by how much to pad smaller ones."""
    if x.ndim != 4 or x.shape[1] != channels:
        domain = f"of shape (B, {channels}, {side}, {side})"
        raise usage_error(owner, "images", domain, tuple(x.shape))
    height, width = x.shape[2:]
    if (height, width) != (side, side):
        missing = side - height
        hint = f"Resize them to {side}x{side}."
        if height == width and missing > 0 and missing % 2 == 0:
            hint = f"Pad by {missing // 2}."
        elif min(height, width) >= side:
            hint = f"{hint} {larger}".rstrip()
        raise usage_error(owner, "images", repr(_Size(side, side)), _Size(height, width), hint)


@final
class ScaledTanh(nn.Module):
    r"""Squashes to $1.7159\tanh\frac23a$, which is $\pm1$ at $\pm1$, where it bends most.

    Example:
        >>> squash = ScaledTanh()
        >>> squash(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-1.0000,  0.0000,  1.0000])
    """

    def forward(self, a: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Squash every entry."""
        return 1.7159 * torch.tanh(2 / 3 * a)


@final
class Subsample(nn.Module):
    r"""Averages windows of 2 x 2, times a coefficient and plus a bias that each map learns.

    Shapes:
        x: (B, maps, H, W); returns (B, maps, H // 2, W // 2)

    Args:
        maps: How many; the coefficients start at 1, the biases at 0.

    Example:
        >>> subsample = Subsample(1)
        >>> halved = subsample(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]))
        >>> halved.item()
        2.5
    """

    @checked
    def __init__(self, maps: PositiveInt) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(maps)), nn.Parameter(torch.zeros(maps))

    def forward(self, x: Float[Tensor, "B maps H W"]) -> Float[Tensor, "B maps h w"]:
        """Average and weigh."""
        means = F.avg_pool2d(x, 2)
        return means * self.weight[:, None, None] + self.bias[:, None, None]


@final
class SparseConv2d(nn.Module):
    r"""A convolution whose output maps see some of the input maps each, those of a table.

    Shapes:
        x: (B, 1 + the largest number in the table, H, W); returns (B, len(table), h, w)

    Args:
        table: For each output map the numbers of the input maps that it sees.
        kernel: Height and width of a kernel.
        stride: Step between two windows.
        padding: How many rows and columns are added at each edge.
        background: What stands there.
        places: Height and width of the output maps, if each of their units has a bias of its own;
            by default the units of a map share one.
        rng: Draws the weights, of variance $1/n$ for units with $n$ inputs; biases are 0.

    Example:
        >>> conv = SparseConv2d([[0, 1], [1, 2], [0, 2]], 5, rng=torch.Generator())
        >>> maps = conv(torch.ones(4, 3, 9, 8))
        >>> conv.weight.shape, maps.shape
        (torch.Size([6, 5, 5]), torch.Size([4, 3, 5, 4]))
    """

    @checked
    def __init__(
        self, table: Table, kernel: PositiveInt, *, stride: PositiveInt = 1,
        padding: NonNegativeInt = 0, background: float = 0.0,
        places: tuple[PositiveInt, ...] | None = None, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if any(len(set(row)) < len(row) for row in table):
            raise usage_error("SparseConv2d", "table", "of different maps in each row", table)
        if places is not None and len(places) != 2:
            raise usage_error("SparseConv2d", "places", "two numbers, height and width", places)
        self.kernel, self.stride, self.padding = kernel, stride, padding
        self.background, self.places = background, places
        self.maps = 1 + max(map(max, table)), len(table)  # in and out
        links = [(to, start) for to, row in enumerate(table) for start in row]
        fan_in = [len(table[to]) * kernel**2 for to, _ in links]
        self.register_buffer("links", torch.tensor(links).T.contiguous(), persistent=False)
        weight = torch.empty(len(links), kernel, kernel).normal_(generator=rng)
        self.weight = nn.Parameter(weight / torch.tensor(fan_in)[:, None, None].sqrt())
        self.bias = nn.Parameter(torch.zeros(len(table), *(places or ())))

    def forward(self, x: Float[Tensor, "B c H W"]) -> Float[Tensor, "B maps h w"]:
        """Sum the correlations of the maps that each output map sees."""
        inputs, outputs = self.maps
        if x.ndim != 4 or x.shape[1] != inputs:
            raise usage_error("SparseConv2d", "x", f"of {inputs} maps", tuple(x.shape))
        dense = self.weight.new_zeros(outputs, inputs, self.kernel, self.kernel)
        dense[self.links[0], self.links[1]] = self.weight  # type: ignore[index]
        if self.padding:
            x = F.pad(x, [self.padding] * 4, value=self.background)
        if self.places is None:
            return F.conv2d(x, dense, self.bias, self.stride)
        y = F.conv2d(x, dense, None, self.stride)
        if y.shape[2:] != self.places:
            domain = f"such that maps are {_Size(*self.places)!r}"
            raise usage_error("SparseConv2d", "x", domain, _Size(*y.shape[2:]))
        return y + self.bias


@final
class CodeDistance(nn.Module):
    r"""Scores classes by the squared distance of a place's units to their fixed codes of +1 and -1.

    LeNet-5 has stylized characters as codes, so that what looks alike has codes alike; here they
    are fair coins, which its authors name as another choice.

    Shapes:
        h: (B, units, h, w); returns (B, classes, h, w)

    Args:
        units: Entries of a code.
        classes: Number of codes.
        rng: Draws them.

    Example:
        >>> nearest = CodeDistance(84, 10, rng=torch.Generator().manual_seed(0))
        >>> nearest(nearest.codes[:, :, None, None]).argmax(dim=1).flatten().tolist()
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    @checked
    def __init__(
        self, units: PositiveInt, classes: PositiveInt, *, rng: torch.Generator | None = None
    ) -> None:
        super().__init__()
        coins = torch.randint(2, (classes, units), generator=rng)
        self.register_buffer("codes", 2.0 * coins - 1)

    def forward(self, h: Float[Tensor, "B units h w"]) -> Float[Tensor, "B classes h w"]:
        r"""Compute $-\Vert h-c_k\Vert^2=2h^\top c_k-\Vert h\Vert^2-\Vert c_k\Vert^2$."""
        likeness = F.conv2d(h, self.codes[:, :, None, None])  # type: ignore[index]
        return 2 * likeness - h.square().sum(dim=1, keepdim=True) - h.shape[1]


@final
class LeNet1989(nn.Module):
    r"""Reads pictures of 16 x 16 pixels in [-1, 1], the background -1, with 9,760 weights.

    H1 and H2 are 12 maps each, of kernels 5 x 5 at every second place, and every unit has its own
    bias; beyond the edges is background. Each map of H2 sees eight of those below; which ones, the
    paper does not tell: here a map sees eight neighbors in a circle. H3 has 30 units.

    Shapes:
        x: (B, 1, 16, 16); returns (B, classes), squashed; targets are +1 and -1

    Args:
        classes: Number of outputs.
        rng: Draws the weights, of variance $1/n$; by default torch's global generator.

    Example:
        >>> net = LeNet1989(rng=torch.Generator().manual_seed(0))
        >>> answers = net(torch.full((5, 1, 16, 16), -1.0))
        >>> answers.shape, sum(one.numel() for one in net.parameters())
        (torch.Size([5, 10]), 9760)
    """

    @checked
    def __init__(
        self, *, classes: PositiveInt = 10, rng: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.phi = ScaledTanh()
        self.h1 = SparseConv2d(
            ((0,),) * 12, 5, stride=2, padding=2, background=-1.0, places=(8, 8), rng=rng
        )
        self.h2 = SparseConv2d(
            H2, 5, stride=2, padding=2, background=-1.0, places=(4, 4), rng=rng
        )
        self.h3 = undrawn(nn.Linear, math.prod(self.h2.bias.shape), 30)
        self.output = undrawn(nn.Linear, 30, classes)
        initialize_(self, "lecun", rng=rng)

    def forward(self, x: Float[Tensor, " B *picture"]) -> Float[Tensor, "B classes"]:
        """Compute the squashed scores of the classes."""
        _need_pictures("LeNet1989", x, 1, 16)
        h = self.phi(self.h2(self.phi(self.h1(x))))  # (B, 12, 4, 4)
        return self.phi(self.output(self.phi(self.h3(h.flatten(1)))))

r"""Data augmentation: invariance that is learned from transformed samples.

A digit moved by a pixel is the same digit. Whoever knows such transformations can show each sample
in all its transformed guises, drawn anew whenever it is shown: in the mean, that is training on the
set expanded by all of them. A linear model that has seen the whole orbit of a group is invariant,
exactly; half an orbit is not enough. A network only comes closer to invariance, and only near its
data. Averaging its outputs over the orbit makes any network invariant. A convolution is not:
it is equivariant, its outputs move along with the picture. That a transformation keeps the
label is the word of whoever chooses it: a 6 turned by 180 degrees is a 9.

$$ \{(x_i,y_i)\} \mapsto \bigcup_k\{(\tau_k(x_i),y_i)\}, \quad
E_k\nabla\ell\big(f(\tau_kx_i),y_i\big) = \frac1K\sum_{k=1}^K\nabla\ell\big(f(\tau_kx_i),y_i\big) $$

$$ \hat w = \arg\min_w\sum_{g\in G}\sum_i(w^\top gx_i-y_i)^2 \implies g^\top\hat w = \hat w, \quad
\bar f(x) = \frac1{\lvert G\rvert}\sum_{g\in G}f(gx) = \bar f(hx) $$

$$ \frac{\Vert f(\tau x)-f(x)\Vert}{\Vert f(x)\Vert}\ \text{(invariance)}, \quad
\frac{\Vert f(\tau x)-\tau f(x)\Vert}{\Vert f(x)\Vert}\ \text{(equivariance)}, \quad
(\tau x)(p) = x\big(A^{-1}(p-t)\big) $$

Symbols:
    $\tau_k$: transformations that keep the label, drawn by `Augment`; $K$ their number
    $G, g, h$: finite group and its elements, `group`; $\{gx: g\in G\}$ is the `orbit` of $x$
    $\bar f$: average over the orbit, `orbit_average`
    $A, t$: matrix and shift of an affine map of the plane, about the center of the picture
    $p$: place in the picture, in pixels to the right and down

References:
    Simard, Steinkraus and Platt (2003), Best practices for convolutional neural networks applied to
        visual document analysis. International Conference on Document Analysis and Recognition.
        doi:10.1109/ICDAR.2003.1227801
    Jaderberg, Simonyan, Zisserman and Kavukcuoglu (2015), Spatial transformer networks. Advances in
        Neural Information Processing Systems. arXiv:1506.02025
    Cohen and Welling (2016), Group equivariant convolutional networks. International Conference on
        Machine Learning. arXiv:1602.07576
    Azulay and Weiss (2019), Why do deep convolutional networks generalize so poorly to small image
        transformations? Journal of Machine Learning Research 20. arXiv:1805.12177
    Chen, Dobriban and Lee (2020), A group-theoretic framework for data augmentation. Journal of
        Machine Learning Research 21. arXiv:1907.10905
"""

__all__ = [
    "Augment", "Shift", "Rotate", "Scale", "Shear", "Mirror", "Brightness", "Pick", "orbit",
    "orbit_average", "invariance_error", "equivariance_error",
]

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.params import (
    Choice,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    UnitInterval,
    checked,
    usage_error,
)
from principia.lab.training import Callback

Batch = tuple[Tensor, ...]
Map = Callable[[Tensor], Tensor]
Rng = torch.Generator | None
Chances = tuple[NonNegativeFloat, ...]
GROUPS = Choice(("rotations", "square", "shifts"))


class _Warp(ABC):
    """An affine map of the plane, drawn for each picture."""

    @abstractmethod
    def matrices(self, count: int, rng: Rng) -> Float[Tensor, "count 3 3"]:
        """Draw maps of (right, down, 1), in pixels from the center: where a point goes."""


Transform = _Warp | Callable[[Tensor, Rng], Tensor]


@final
class Shift(_Warp):
    """Moves pictures to the right and down, by numbers drawn apart; negative: left and up.

    Args:
        low: Least shift, in pixels.
        high: Largest shift.

    Example:
        >>> Augment(Shift(1, 1))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).tolist()
        [[[[0.0, 0.0], [0.0, 1.0]]]]
    """

    @checked
    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = _ordered("Shift", low, high)

    def matrices(self, count: int, rng: Rng) -> Float[Tensor, "count 3 3"]:
        """Draw the two shifts of each picture."""
        right, down = _between(self, 2 * count, rng).view(2, count)
        return _affine([[1, 0, right], [0, 1, down]])


def _ordered(owner: str, low: float, high: float) -> tuple[float, float]:
    if low > high:
        raise usage_error(owner, "low", f"at most high, {high:g}", low, "Exchange the two.")
    return low, high


def _between(ends: "Shift | Rotate | Scale | Shear | Brightness", count: int, rng: Rng) -> Tensor:
    return ends.low + (ends.high - ends.low) * _uniform(count, rng)


def _uniform(count: int, rng: Rng) -> Tensor:
    where = "cpu" if rng is None else rng.device
    return torch.rand(count, generator=rng, device=where, dtype=torch.float64)


def _affine(rows: list[list[Tensor | float]]) -> Tensor:
    """Stack the entries of two rows, some of them drawn, to matrices (count, 3, 3)."""
    drawn = next(entry for row in rows for entry in row if isinstance(entry, Tensor)).double()
    entries = [drawn.new_zeros(()) + entry for row in [*rows, [0, 0, 1]] for entry in row]
    return torch.stack(torch.broadcast_tensors(*entries), dim=-1).unflatten(-1, (3, 3))


@final
class Rotate(_Warp):
    """Turns pictures about their centers, counterclockwise.

    Args:
        low: Least angle, in degrees.
        high: Largest angle.

    Example:
        >>> Augment(Rotate(90, 90))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).round().tolist()
        [[[[2.0, 4.0], [1.0, 3.0]]]]
    """

    @checked
    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = _ordered("Rotate", low, high)

    def matrices(self, count: int, rng: Rng) -> Float[Tensor, "count 3 3"]:
        """Draw the angle of each picture."""
        angles = torch.deg2rad(_between(self, count, rng))
        c, s = angles.cos(), angles.sin()
        return _affine([[c, s, 0], [-s, c, 0]])  # down is positive


@final
class Scale(_Warp):
    """Enlarges pictures about their centers, or makes them smaller.

    Args:
        low: Least factor.
        high: Largest factor.

    Example:
        >>> Augment(Scale(0.5, 0.5))(torch.ones(1, 1, 4, 4)).sum()
        tensor(4.)
    """

    @checked
    def __init__(self, low: PositiveFloat, high: PositiveFloat) -> None:
        self.low, self.high = _ordered("Scale", low, high)

    def matrices(self, count: int, rng: Rng) -> Float[Tensor, "count 3 3"]:
        """Draw the factor of each picture."""
        factors = _between(self, count, rng)
        return _affine([[factors, 0, 0], [0, factors, 0]])


@final
class Shear(_Warp):
    """Lets pictures lean: a point goes to the right by a share of its distance below the center.

    Args:
        low: Least share.
        high: Largest share.

    Example:
        >>> stroke = torch.tensor([[[[0.0, 1, 0], [0, 1, 0], [0, 1, 0]]]])
        >>> Augment(Shear(1, 1))(stroke).round().int().tolist()
        [[[[1, 0, 0], [0, 1, 0], [0, 0, 1]]]]
    """

    @checked
    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = _ordered("Shear", low, high)

    def matrices(self, count: int, rng: Rng) -> Float[Tensor, "count 3 3"]:
        """Draw the share of each picture."""
        return _affine([[1, _between(self, count, rng), 0], [0, 1, 0]])


@final
class Mirror(_Warp):
    """Exchanges left and right in some pictures. It spoils the labels of digits and letters.

    Args:
        chance: Probability that a picture is mirrored.

    Example:
        >>> Augment(Mirror(1.0))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).tolist()
        [[[[2.0, 1.0], [4.0, 3.0]]]]
    """

    @checked
    def __init__(self, chance: UnitInterval = 0.5) -> None:
        self.chance = chance

    def matrices(self, count: int, rng: Rng) -> Float[Tensor, "count 3 3"]:
        """Draw which pictures are mirrored."""
        signs = torch.where(_uniform(count, rng) < self.chance, -1.0, 1.0)
        return _affine([[signs, 0, 0], [0, 1, 0]])


@final
class Brightness:
    """Multiplies all pixels of a picture by one number. Nothing is clipped.

    Args:
        low: Least factor.
        high: Largest factor.

    Example:
        >>> Brightness(0.5, 0.5)(torch.tensor([[[[1.0, 2.0]]]]))
        tensor([[[[0.5000, 1.0000]]]])
    """

    @checked
    def __init__(self, low: NonNegativeFloat, high: NonNegativeFloat) -> None:
        self.low, self.high = _ordered("Brightness", low, high)

    def __call__(self, x: Float[Tensor, "B C H W"], rng: Rng = None) -> Float[Tensor, "B C H W"]:
        """Draw the factor of each picture."""
        return x * _between(self, len(x), rng).to(x)[:, None, None, None]


@final
class Pick:
    """Applies an element of a finite group to each picture, drawn for it.

    Args:
        group: As in `orbit`.
        chances: Of the elements, in their order; equal by default.

    Example:
        >>> Pick("rotations", chances=(0, 1, 0, 0))(torch.tensor([[[[1, 2], [3, 4]]]])).tolist()
        [[[[2, 4], [1, 3]]]]
    """

    @checked
    def __init__(self, group: str | Sequence[Map], *, chances: Chances | None = None) -> None:
        self.group, self.chances = group, chances

    def __call__(self, x: Shaped[Tensor, "B C H W"], rng: Rng = None) -> Shaped[Tensor, "B C H W"]:
        """Draw the element of each picture."""
        guises = orbit(x, self.group)  # (G, B, C, H, W)
        chances = (1.0,) * len(guises) if self.chances is None else self.chances
        if len(chances) != len(guises) or not sum(chances):
            domain = f"{len(guises)} numbers, one for each element, and not all 0"
            raise usage_error("Pick", "chances", domain, chances)
        where = "cpu" if rng is None else rng.device
        weights = torch.tensor(chances, dtype=torch.float64, device=where)
        chosen = torch.multinomial(weights, len(x), replacement=True, generator=rng).to(x.device)
        return guises[chosen, torch.arange(len(x), device=x.device)]


@final
class Augment(Callback):
    """Transforms every picture of a batch at random, each in its own way, anew each time.

    Affine maps that follow each other are composed, and the picture is resampled (bilinearly) once.

    Shapes:
        x: (B, C, H, W), or (B, side²) if a side is given; returns the same

    Args:
        transforms: In the order in which they are applied: `Shift`, `Rotate`, `Scale`, `Shear`,
            `Mirror`, `Brightness`, `Pick`, or any function of pictures (B, C, H, W) and a generator
            that keeps their shape. That they keep the labels is your word.
        outside: What is seen beyond the edges: 0, the pixel at the edge, or the mirrored picture.
        side: Height and width of gray squares that come as flat rows; without it rows are refused,
            since most tables hold no pictures.

    Example:
        >>> augment, rng = Augment(Shift(-2, 2), Rotate(-15, 15), side=28), torch.Generator()
        >>> moved, flat = augment(torch.rand(5, 3, 32, 32), rng), augment(torch.rand(5, 784), rng)
        >>> from principia.lab.training import Supervised, fit
        >>> model, x, y = nn.Linear(784, 10), torch.rand(8, 784), torch.arange(8)
        >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> trained = fit(model, (x, y), Supervised(F.cross_entropy), sgd, callbacks=[augment])
    """

    @checked
    def __init__(
        self, *transforms: Transform, outside: Literal["zeros", "border", "reflection"] = "zeros",
        side: PositiveInt | None = None,
    ) -> None:
        for transform in transforms:
            if not (isinstance(transform, _Warp) or callable(transform)):
                domain = "transforms such as Shift(-2, 2), one after the other"
                raise usage_error("Augment", "transforms", domain, transform)
        self.transforms, self.outside, self.side = transforms, outside, side

    def __call__(self, x: Shaped[Tensor, "*shape"], rng: Rng = None) -> Float[Tensor, "*shape"]:
        """Transform each picture."""
        pictures = _pictures(x, self.side)
        for warps, group in itertools.groupby(self.transforms, lambda one: isinstance(one, _Warp)):
            if warps:
                drawn = [warp.matrices(len(x), rng) for warp in group]  # type: ignore[union-attr]
                affine = functools.reduce(lambda before, after: after @ before, drawn)
                pictures = _resampled(pictures, affine, self.outside)
            else:
                for transform in group:
                    pictures = transform(pictures, rng)  # type: ignore[operator]
        return pictures.reshape(x.shape)

    def prepare(self, batch: Batch, rng: torch.Generator) -> Batch:
        """Transform the first tensor of the batch."""
        return self(batch[0], rng), *batch[1:]


def _pictures(x: Tensor, side: int | None) -> Tensor:
    """Give flat pictures of a known side their four axes (B, C, H, W)."""
    if x.ndim == 2 and side is not None and x.shape[1] == side**2:
        x = x.reshape(len(x), 1, side, side)
    if x.ndim != 4:
        rows = "" if side is None else f" or rows (B, {side**2}) of side {side}"
        hint = ""
        if x.ndim == 3:  # it could be one picture with channels, or gray ones
            hint = "Add a channel axis: x[:, None]; to a single picture a batch axis: x[None]."
        elif x.ndim == 2 and side is None:
            hint = "If the rows are gray squares, give their side, as in side=28."
        raise usage_error("Augment", "x", f"pictures (B, C, H, W){rows}", tuple(x.shape), hint)
    if not x.is_floating_point():
        raise usage_error(
            "Augment", "x", "floating point", str(x.dtype), "Divide gray values by 255."
        )
    return x


def _resampled(x: Tensor, affine: Tensor, outside: str) -> Tensor:
    """Move the points of each picture by a map: look up each pixel where it came from."""
    height, width = x.shape[-2:]
    half = affine.new_tensor([width / 2, height / 2, 1.0])  # torch's pictures end at -1 and 1
    back = torch.linalg.inv(affine) * half / half[:, None]
    grid = F.affine_grid(back[:, :2].to(x), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode=outside, align_corners=False)


def orbit(x: Shaped[Tensor, "*shape"], group: str | Sequence[Map]) -> Shaped[Tensor, "G ..."]:
    """Lists what the elements of a finite group make of x, itself first.

    Args:
        x: Pictures, along the last two axes; rows, along the last one, for shifts.
        group: The four "rotations" by 90 degrees; all eight of the "square", with mirror images;
            the cyclic "shifts" of rows; or functions, one for each element.

    Example:
        >>> orbit(torch.tensor([1, 2, 3]), "shifts").tolist()
        [[1, 2, 3], [3, 1, 2], [2, 3, 1]]
    """
    elements = group_elements(x, group) if isinstance(group, str) else group
    return torch.stack([element(x) for element in elements])


def group_elements(x: Tensor, group: str) -> list[Map]:
    """Give the elements of a named group, as functions."""
    if group not in GROUPS.options:
        raise usage_error(
            "orbit", "group", f"{GROUPS.text}, or functions", group, GROUPS.hint(group)
        )
    if group == "shifts":
        return [functools.partial(torch.roll, shifts=k, dims=-1) for k in range(x.shape[-1])]
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise usage_error("orbit", "x", "pictures as high as they are wide", tuple(x.shape))
    turns = [functools.partial(torch.rot90, k=k, dims=(-2, -1)) for k in range(4)]
    mirrored = [lambda x, turn=turn: turn(x.flip(-1)) for turn in turns]
    return turns if group == "rotations" else [*turns, *mirrored]


def orbit_average(f: Map, group: str | Sequence[Map]) -> nn.Module:
    """Averages the outputs of a function over orbits, which makes it exactly invariant.

    Args:
        f: Any function or network of pictures, rows of the input to rows of the output.
        group: As in `orbit`.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(9, 2))
        >>> invariant, x = orbit_average(net, "rotations"), torch.rand(1, 3, 3)
        >>> bool((invariant(x) - invariant(x.rot90(1, (1, 2)))).abs().max() < 1e-6)
        True
    """
    return _OrbitAverage(f, group)


@final
class _OrbitAverage(nn.Module):
    """A function averaged over orbits; the parameters of a network are its parameters."""

    def __init__(self, f: Map, group: str | Sequence[Map]) -> None:
        super().__init__()
        self.f, self.group = f, group

    def forward(self, x: Shaped[Tensor, "B ..."]) -> Float[Tensor, "B ..."]:
        guises = orbit(x, self.group)
        return self.f(guises.flatten(0, 1)).unflatten(0, guises.shape[:2]).mean(dim=0)


def invariance_error(f: Map, x: Shaped[Tensor, "*shape"], tau: Map) -> Float[Tensor, ""]:
    r"""Measures $\Vert f(\tau x)-f(x)\Vert/\Vert f(x)\Vert$: 0 where f does not see $\tau$.

    Example:
        >>> x, flip = torch.tensor([[3.0, 4.0]]), lambda x: x.flip(-1)
        >>> invariance_error(torch.sum, x, flip), invariance_error(lambda x: x, x, flip)
        (tensor(0.), tensor(0.2828))
    """
    outputs = f(x)
    return (f(tau(x)) - outputs).norm() / outputs.norm()


def equivariance_error(f: Map, x: Shaped[Tensor, "*shape"], tau: Map) -> Float[Tensor, ""]:
    r"""Measures $\Vert f(\tau x)-\tau f(x)\Vert/\Vert f(x)\Vert$: 0 where outputs move with inputs.

    Example:
        >>> x, flip = torch.tensor([[3.0, 4.0]]), lambda x: x.flip(-1)
        >>> equivariance_error(lambda x: 2 * x, x, flip), equivariance_error(flip, x, lambda x: -x)
        (tensor(0.), tensor(0.))
    """
    outputs = f(x)
    return (f(tau(x)) - tau(outputs)).norm() / outputs.norm()

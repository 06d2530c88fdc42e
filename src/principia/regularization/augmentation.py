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

import copy
import functools
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal, final

import plotly.graph_objects as go
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.nn import functional as F
from torch.optim import Adam

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Choice, Count, Fraction, NonNegative, Positive, Range
from principia.lab.draws import rand, randn
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, experiment
from principia.lab.knobs import checked
from principia.lab.pairs import paired
from principia.lab.relations import at_least, at_most, equal, estimates, every, identical
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Part, Supervised, accuracy, evaluate, fit, part
from principia.lab.training.metrics import outputs_of
from principia.networks.mlp import MLP
from principia.optimization.curriculum import ParallelMLP
from principia.regularization.batch_norm import ConvNet

Batch = tuple[Tensor, ...]
Map = Callable[[Tensor], Tensor]
Rng = torch.Generator | None
Chances = tuple[NonNegative, ...]
GROUPS = Choice(("rotations", "square", "shifts"))
COPIES = 4000  # of a batch, each transformed anew
HELD = 200  # test pictures that are turned


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
        >>> Augment(Shift(1, 1))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).int()
        tensor([[[[0, 0],
                  [0, 1]]]], dtype=torch.int32)
    """

    @checked
    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = _ordered("Shift", low, high)

    def matrices(self, count: int, rng: Rng) -> Float[Tensor, "count 3 3"]:
        """Draw the two shifts of each picture."""
        right, down = _between(self, 2 * count, rng).view(2, count)
        return _affine([[1, 0, right], [0, 1, down]])


@final
class Rotate(_Warp):
    """Turns pictures about their centers, counterclockwise.

    Args:
        low: Least angle, in degrees.
        high: Largest angle.

    Example:
        >>> Augment(Rotate(90, 90))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).round().int()
        tensor([[[[2, 4],
                  [1, 3]]]], dtype=torch.int32)
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
    def __init__(self, low: Positive, high: Positive) -> None:
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
        >>> Augment(Shear(1, 1))(stroke).round().int()
        tensor([[[[1, 0, 0],
                  [0, 1, 0],
                  [0, 0, 1]]]], dtype=torch.int32)
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
        >>> Augment(Mirror(1.0))(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).int()
        tensor([[[[2, 1],
                  [4, 3]]]], dtype=torch.int32)
    """

    @checked
    def __init__(self, chance: Fraction = 0.5) -> None:
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
    def __init__(self, low: NonNegative, high: NonNegative) -> None:
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
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> Pick("rotations", chances=(0, 1, 0, 0))(x)
        tensor([[[[2., 4.],
                  [1., 3.]]]])
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
            raise refuse("Pick", "chances", domain, chances)
        where = "cpu" if rng is None else rng.device
        weights = torch.tensor(chances, dtype=torch.float64, device=where)
        chosen = torch.multinomial(weights, len(x), replacement=True, generator=rng).to(x.device)
        return guises[chosen, torch.arange(len(x), device=x.device)]


@final
class Augment(Part):
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
        >>> model, x, y = nn.Linear(784, 10), torch.rand(8, 784), torch.arange(8)
        >>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> trained = fit(model, (x, y), Supervised(F.cross_entropy), sgd, parts=[augment])
    """

    @checked
    def __init__(
        self, *transforms: Transform, outside: Literal["zeros", "border", "reflection"] = "zeros",
        side: Count | None = None,
    ) -> None:
        for one in transforms:
            if not (isinstance(one, _Warp) or callable(one)):
                domain = "transforms such as Shift(-2, 2), one after the other"
                raise refuse("Augment", "transforms", domain, one)
        self.transforms, self.outside, self.side = transforms, outside, side

    def __call__(self, x: Shaped[Tensor, "*shape"], rng: Rng = None) -> Float[Tensor, "*shape"]:
        """Transform each picture."""
        pictures = _pictures(x, self.side)
        for warps, group in itertools.groupby(self.transforms, lambda one: isinstance(one, _Warp)):
            if warps:
                drawn = [one.matrices(len(x), rng) for one in group]  # type: ignore[union-attr]
                affine = functools.reduce(lambda before, after: after @ before, drawn)
                pictures = _resampled(pictures, affine, self.outside)
            else:
                for one in group:
                    pictures = one(pictures, rng)  # type: ignore[operator]
        return pictures.reshape(x.shape)

    def prepare(self, batch: Batch, rng: torch.Generator) -> Batch:
        """Transform the first tensor of the batch."""
        return self(batch[0], rng), *batch[1:]


def orbit(x: Shaped[Tensor, "*shape"], group: str | Sequence[Map]) -> Shaped[Tensor, "G ..."]:
    """Lists what the elements of a finite group make of x, itself first.

    Args:
        x: Pictures, along the last two axes; rows, along the last one, for shifts.
        group: The four "rotations" by 90 degrees; all eight of the "square", with mirror images;
            the cyclic "shifts" of rows; or functions, one for each element.

    Example:
        >>> orbit(torch.tensor([1, 2, 3]), "shifts")
        tensor([[1, 2, 3],
                [3, 1, 2],
                [2, 3, 1]])
    """
    elements = _elements(x, group) if isinstance(group, str) else group
    return torch.stack([one(x) for one in elements])


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


@part()
def augmentation(
    run: Run, *, shift: NonNegative = 1.0, rotate: Annotated[float, Range(0, 180)] = 0.0,
    scale: Annotated[float, Range(0, 1, open="high")] = 0.0, shear: NonNegative = 0.0,
    mirror: Fraction = 0.0, brightness: Fraction = 0.0,
) -> Part:
    """Transforms the pictures of every batch at random; they must keep their labels.

    A training on flat rows is taken for one on gray squares, as high as the root of their length.

    Args:
        shift: Largest shift, in pixels.
        rotate: Largest angle, in degrees.
        scale: Largest change of size, as a share of it.
        shear: Largest lean, in pixels a pixel of height.
        mirror: Probability of exchanging left and right; not for digits and letters.
        brightness: Largest change of brightness, as a share of it.
    """
    return _OfAnyPictures(*(
        one for size, one in (
            (shift, Shift(-shift, shift)), (rotate, Rotate(-rotate, rotate)),
            (scale, Scale(1 - scale, 1 + scale)), (shear, Shear(-shear, shear)),
            (mirror, Mirror(mirror)), (brightness, Brightness(1 - brightness, 1 + brightness)),
        ) if size
    ))


@final
class _OfAnyPictures(Part):
    """Transforms pictures, also flat ones: whoever asks for it says that rows are pictures."""

    def __init__(self, *transforms: Transform) -> None:
        self.transforms = transforms

    def prepare(self, batch: Batch, rng: torch.Generator) -> Batch:
        """Transform the first tensor of the batch; a row of n² numbers is a square."""
        side = math.isqrt(batch[0].shape[1]) if batch[0].ndim == 2 else None
        return Augment(*self.transforms, side=side).prepare(batch, rng)


@claim(control={"drawn": "unequally"}, source="linearity of the mean; Chen, Dobriban and Lee 2020")
def online_is_unbiased(
    seed: Seed, *, pixels: Annotated[int, Range(3, 8)] = 8, rows: Annotated[int, Range(1, 3)] = 3,
    drawn: Literal["equally", "unequally"] = "equally",
) -> Evidence:
    r"""Transforms drawn on the fly: the mean gradient is that of the expanded set."""
    rng = seed.torch()
    x, w = randn(rng, rows, 1, pixels), randn(rng, pixels)
    y = torch.where(rand(rng, rows) < 0.5, -1.0, 1.0).double()

    def loss(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return F.softplus(-y * (x.flatten(1) @ w)).mean()

    guises = orbit(x, "shifts")
    expanded = grad(loss)(w, guises.flatten(0, 1), y.repeat(pixels))
    weights = torch.arange(1.0, pixels + 1, dtype=w.dtype)
    weights = weights**0 if drawn == "equally" else weights
    chances = weights / weights.sum()
    slopes = vmap(grad(loss), in_dims=(None, 0, None))
    all_draws = torch.cartesian_prod(*[torch.arange(pixels)] * rows).view(-1, rows)
    each = slopes(w, guises[all_draws, torch.arange(rows)], y)  # (pixels ** rows, pixels)
    mean = chances[all_draws].prod(dim=1) @ each

    augment = Augment(Pick("shifts", chances=tuple(chances.tolist())))
    copies = x[:, None].repeat(COPIES, 1, 1, 1)  # one channel, and pictures of one row
    batches = augment.prepare((copies,), rng)[0].view(COPIES, rows, 1, pixels)
    found = slopes(w, batches, y)
    error = found.std(dim=0) / COPIES**0.5
    axis = range(1, pixels + 1)
    return every({
        "mean over all draws": equal(mean, expanded, tol=1e-12, why="float64 rounding").drawn(
            Series("mean of augmented batches", axis, found.mean(dim=0), error=5 * error,
                   style="points"),
            Series("expanded set", axis, expanded, "predicted", "points"),
            Series("without augmentation", axis, grad(loss)(w, x, y), "other", "points"),
            x="coordinate", y="gradient",
        ),
        "mean of batches": estimates(
            found.mean(dim=0), expanded, error=error, why="mean over independent batches"
        ),
    })


@claim(control={"shown": "half the orbit"}, source="Chen, Dobriban and Lee 2020")
def full_orbit_fit_is_invariant(
    seed: Seed, *, pixels: Annotated[int, Range(2, 16)] = 8,
    rows: Annotated[int, Range(4, 100)] = 20,
    shown: Literal["the orbit", "half the orbit"] = "the orbit",
) -> Evidence:
    r"""Least squares on a full orbit is invariant, $g^\top\hat w=\hat w$: the fit of invariants."""
    rng = seed.torch()
    x = randn(rng, rows, pixels) + 0.5
    y = x @ randn(rng, pixels) + 0.3 * randn(rng, rows)

    def fitted(guises: Tensor) -> Tensor:
        targets = y.repeat(len(guises))[:, None]
        return torch.linalg.lstsq(guises.flatten(0, 1), targets, driver="gelsd").solution[:, 0]

    guises = orbit(x, "shifts")
    some = fitted(guises[: pixels // 2])
    w = fitted(guises) if shown == "the orbit" else some
    sums = x.sum(dim=1)  # all that a linear function can know without seeing shifts
    invariant = torch.full_like(w, float(sums @ y / (sums @ sums)))
    axis = range(1, pixels + 1)
    return every({
        "moved": equal(
            orbit(w, "shifts"), w.expand(pixels, -1), tol=1e-10, why="float64 rounding"
        ).drawn(
            Series(f"fit to {shown}", axis, w, style="points"),
            Series("fit to the sum of the pixels", axis, invariant, "predicted"),
            Series("fit to half the orbit", axis, some, "other", "points"),
            x="pixel", y="weight",
        ),
        "fit of invariants": equal(w, invariant, tol=1e-10, why="float64 rounding"),
    })


@claim(
    control={"form": "printed"}, source="Cohen and Welling 2016; Azulay and Weiss 2019",
    misprint="networks whose first layer is a convolution are translation invariant",
)
def conv_is_equivariant_not_invariant(
    seed: Seed, *, side: Annotated[int, Range(6, 24)] = 12,
    kernel: Annotated[int, Range(2, 5)] = 3, channels: Annotated[int, Range(1, 8)] = 4,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    """A circular convolution commutes with shifts and sees them; the mean of it does not."""
    rng = seed.torch()
    x, weight = randn(rng, 5, 1, side, side), randn(rng, channels, 1, kernel, kernel)

    def layer(x: Tensor) -> Tensor:
        return F.conv2d(F.pad(x, (0, kernel - 1) * 2, mode="circular"), weight).relu()

    shifts = range(1, side)
    taus = [functools.partial(torch.roll, shifts=(k, 2 * k), dims=(-1, -2)) for k in shifts]
    moved = torch.stack([equivariance_error(layer, x, tau) for tau in taus])
    changed = torch.stack([invariance_error(layer, x, tau) for tau in taus])
    pooled = [invariance_error(lambda x: layer(x).mean(dim=(2, 3)), x, tau) for tau in taus]
    rounding = "float64 rounding"
    picture = (
        Series("invariance error", shifts, changed, "other", "line"),
        Series("equivariance error", shifts, moved, style="line"),
        Series("invariance error of the mean", shifts, pooled, "other", "line"),
    )
    if form == "printed":
        return at_most(changed, 1e-12, why=rounding).drawn(*picture, x="shift", y="relative error")
    return every({
        "commutes": at_most(moved, 1e-12, why=rounding).drawn(
            *picture, x="shift", y="relative error"
        ),
        "sees shifts": at_least(changed, 0.1, why="the statement: far from 0, for any shift"),
        "mean": at_most(pooled, 1e-12, why=rounding),
    })


@claim(control={"transforms": "none"}, source="Simard, Steinkraus and Platt 2003")
def augmentation_buys_invariance(
    seed: Seed, *, reach: Annotated[int, Range(1, 3)] = 2,
    hidden: Annotated[int, Range(48, 256)] = 64, steps: Annotated[int, Range(250, 800)] = 300,
    pairs: Annotated[int, Range(3, 6)] = 3, transforms: Literal["shifts", "none"] = "shifts",
) -> Evidence:
    r"""Digits: training on shifted ones gains 5 points on them, and invariance, beyond 3 SE."""
    x, y, x_test, y_test = digits()
    x, x_test = (F.pad(one, (reach,) * 4) for one in (x, x_test))
    net = ParallelMLP([x[0].numel(), hidden, 10], copies=pairs, rng=seed.child("init").torch())
    nets = {"without": copy.deepcopy(net), "with": net}
    chosen = [Shift(-reach, reach)] if transforms == "shifts" else []
    augments = {"without": Augment(), "with": Augment(*chosen)}
    steps_rng, rng = seed.child("batches").torch(), seed.child("shifts").torch()
    adams = {arm: Adam(one.parameters(), lr=3e-3) for arm, one in nets.items()}
    for _ in range(steps):
        rows = torch.randint(len(x), (pairs * 50,), generator=steps_rng)
        for arm, adam in adams.items():
            inputs = augments[arm](x[rows, None], rng).view(pairs, 50, -1)
            adam.zero_grad()
            F.cross_entropy(nets[arm](inputs).flatten(0, 1), y[rows]).backward()
            adam.step()

    offsets = range(-reach, reach + 1)
    taus = [
        functools.partial(torch.roll, shifts=by, dims=(-2, -1))
        for by in itertools.product(offsets, offsets)
    ]
    right, seen = {}, {}
    for arm, one in nets.items():
        still = _flat_outputs(one, x_test)  # (pairs, rows, 10)
        moved = torch.stack([_flat_outputs(one, tau(x_test)) for tau in taus])
        right[arm] = (moved.argmax(dim=-1) == y_test).double().mean(dim=2)  # (shifts, pairs)
        # the invariance error of each net by itself
        errors = (moved - still).flatten(2).norm(dim=2) / still.flatten(1).norm(dim=1)
        seen[arm] = errors.mean(dim=0)  # (pairs,)
    gain = paired(right["with"].mean(dim=0), right["without"].mean(dim=0))
    drop = paired(seen["without"], seen["with"])
    sideways = {
        arm: found.view(len(offsets), -1, pairs)[reach].mean(dim=1) for arm, found in right.items()
    }
    return every({
        "points gained": at_least(100 * gain.mean, 5, why="the statement").drawn(
            Series("trained with augmentation", offsets, sideways["with"], style="line"),
            Series("trained without", offsets, sideways["without"], "other", "line"),
            x="shift of the test digits to the right, in pixels", y="accuracy",
        ),
        "in standard errors": at_least(
            gain.in_errors, 3, why="the statement, over pairs of one start and one order"
        ),
        "invariance error lower, in standard errors": at_least(
            drop.in_errors, 3, why="the statement: lower, and not by the luck of the draw",
            detail=f"{float(seen['with'].mean()):.3f} against {float(seen['without'].mean()):.3f}",
        ),
    })


@claim(control={"elements": "three in four"}, source="Cohen and Welling 2016")
def orbit_average_is_exact(
    seed: Seed, *, group: Literal["rotations", "square"] = "rotations",
    side: Annotated[int, Range(3, 28)] = 8, hidden: Annotated[int, Range(8, 256)] = 64,
    elements: Literal["all", "three in four"] = "all",
) -> Evidence:
    r"""The mean over the orbit, $\frac1{\lvert G\rvert}\sum_gf(gx)$, is invariant for any net."""
    rng = seed.torch()
    net = nn.Sequential(nn.Flatten(), MLP([side**2, hidden, hidden, 5], rng=rng))
    x = torch.randn(20, 1, side, side, generator=rng)
    whole = _elements(x, group)
    kept = torch.randperm(len(whole), generator=rng)
    kept = kept if elements == "all" else kept[: 3 * len(whole) // 4]
    average = orbit_average(net, [whole[k] for k in kept.tolist()])
    with torch.no_grad():
        plain, averaged = (orbit(x, [lambda x, g=g, f=f: f(g(x)) for g in whole])
                           for f in (net, average))
        changed = torch.stack([invariance_error(average, x, g) for g in whole])
    axis = range(len(whole))
    return at_most(changed, 1e-6, why="float32 rounding of sums in another order").drawn(
        Series("average over the orbit", axis, averaged[:, 0, 0], style="line"),
        Series("network", axis, plain[:, 0, 0], "other", "line"),
        Series("mean of the network", axis, plain[:, 0, 0].mean().expand(len(axis)), "predicted",
               "points"),
        x="element of the group", y="first output for one picture",
    )


@claim(control={"sampled": "forwards"}, source="Jaderberg et al. 2015, sec. 3.2")
def resampled_at_the_inverse(
    seed: Seed, *, height: Annotated[int, Range(8, 40)] = 16,
    width: Annotated[int, Range(8, 40)] = 24,
    sampled: Literal["backwards", "forwards"] = "backwards",
) -> Evidence:
    r"""All maps in one resampling: $(\tau x)(p)=x(A^{-1}(p-t))$, exact where $x$ is linear."""
    rng = seed.torch()
    shift, turn, lean = (rand(rng, 3) * torch.tensor([1.0, 20.0, 0.3])).add(0.3).tolist()
    factor, bright = (1.1 + 0.4 * rand(rng, 2)).tolist()
    level, slopes = randn(rng), randn(rng, 2)
    v, u = torch.meshgrid(
        torch.arange(height).double() - (height - 1) / 2,
        torch.arange(width).double() - (width - 1) / 2, indexing="ij",
    )
    p = torch.stack([u, v], dim=-1)
    x = level + p @ slopes  # a plane: interpolation is exact
    found = Augment(
        Shift(shift, shift), Rotate(turn, turn), Scale(factor, factor), Shear(lean, lean),
        Mirror(1.0), Brightness(bright, bright),
    )(x[None, None], rng)[0, 0]
    c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    mirrored = p.new_tensor([[-factor, -factor * lean], [0, factor]])  # and leaning, and larger
    A = mirrored @ p.new_tensor([[c, s], [-s, c]])
    t = A.sum(dim=1) * shift
    places = (p - t) @ A.inverse().T if sampled == "backwards" else p @ A.T + t
    expected = bright * (level + places @ slopes)
    inside = (places.abs() <= p.new_tensor([width - 1, height - 1]) / 2).all(dim=-1)
    middle, seen = height // 2, inside[height // 2]
    return identical(found[inside], expected[inside]).drawn(
        Series("transformed picture", u[middle], found[middle], style="points"),
        Series("the plane at the mapped places", u[middle, seen], expected[middle, seen],
               "predicted"),
        Series("before", u[middle], x[middle], "other", "line"),
        x="place along the middle row, in pixels from the center", y="gray value",
    )


@experiment(
    reaches={
        "gain": at_least_goal(0.03), "gain_in_errors": at_least_goal(2.0),
        "mlp_gain": at_least_goal(0.03), "mlp_gain_in_errors": at_least_goal(2.0),
    },
    floor={"gain": at_least_goal(0.0)},
    source="Simard, Steinkraus and Platt (2003), table 1: affine distortions lower the errors of a "
    "plain network by a third; to beat are the same networks without, by 3 points with 300 labels",
)
def small_data(
    run: Run, *, pairs: Annotated[int, Range(2, 20)] = 5,
    labels: Annotated[int, Range(50, 1400)] = 300, epochs: Annotated[int, Range(1, 500)] = 120,
) -> None:
    """Trains a convolutional and a plain network on few digits, with shifts and turns and without.

    Args:
        pairs: Trainings with and without, each pair with its own digits and weights.
        labels: Digits to learn from.
        epochs: How often they are shown.
    """
    x, y, x_test, y_test = handwriting(run)
    side = x.shape[-1]
    if not run.full:
        pairs, epochs = min(pairs, 3), min(epochs, 50)
    augment = Augment(Shift(-side / 14, side / 14), Rotate(-15, 15), side=side)
    models: dict[str, nn.Module] = {}
    scores: dict[str, list[float]] = {}
    for number, kind, arm in itertools.product(
        range(pairs), ("network", "convolution"), ("without", "with")
    ):
        own = run.seed.child(f"pair {number}")
        rows = torch.randperm(len(x), generator=own.child("data").torch())[:labels]
        rng = own.child("init").torch()
        model = (
            MLP([side**2, 128, 128, 10], rng=rng) if kind == "network"
            else ConvNet([1, 16, 32], side=side, batch_norm=False, rng=rng)
        )
        fit(
            model, (_fed(model, x[rows]), y[rows]), Supervised(F.cross_entropy),
            Adam(model.parameters()), epochs=epochs, batch_size=50,
            parts=[OneCycle(0.01), *([augment] if arm == "with" else [])], seed=own, run=run,
            name=f"{kind}-{arm}-{number}",
        )
        found = evaluate(model, (_fed(model, x_test), y_test), {"accuracy": accuracy})
        scores.setdefault(f"{kind} {arm}", []).append(found["accuracy"])
        models.setdefault(f"{kind} {arm}", model)
    plain, gain = (
        paired(scores[f"{kind} with"], scores[f"{kind} without"])
        for kind in ("network", "convolution")
    )
    run.record(accuracy=float(gain.with_method.mean()), **gain.metrics("gain"))
    run.record(mlp_accuracy=float(plain.with_method.mean()), **plain.metrics("mlp_gain"))
    run.figure("pairs", gain.figure("test accuracy", ("without", "with augmentation")))
    run.figure("orbit", _along_the_orbit(models, x_test[:HELD], y_test[:HELD]))
    draws = augment(x_test[:1, None].repeat(9, 1, 1, 1), run.seed.child("shown").torch())
    run.figure("draws", figures.images([x_test[0], *draws[:, 0]], ["digit", *["drawn"] * 9]))
    run.keep(models["convolution with"])


def _fed(model: nn.Module, x: Tensor) -> Tensor:
    """Give pictures (N, side, side) the shape that a model takes."""
    return x[:, None] if isinstance(model, ConvNet) else x.flatten(1)


def _along_the_orbit(models: Mapping[str, nn.Module], x: Tensor, y: Tensor) -> go.Figure:
    """Turn pictures, and draw how probable their classes are to each model."""
    angles, rng, series = list(range(-90, 91, 10)), torch.Generator(), []
    guises = [Augment(Rotate(angle, angle))(x[:, None], rng)[:, 0] for angle in angles]
    for name, model in models.items():
        model.cpu()
        found = [
            outputs_of(model, _fed(model, turned)).softmax(dim=1).gather(1, y[:, None]).mean()
            for turned in guises
        ]
        series.append(Series(name, angles, found, "other", "line"))
    return figures.draw(Picture(tuple(series), "angle of the test digits, in degrees",
                                "mean probability of the class"))


@torch.no_grad()
def _flat_outputs(model: nn.Module, x: Tensor) -> Tensor:
    return model(x.flatten(1))


@final
class _OrbitAverage(nn.Module):
    """A function averaged over orbits; the parameters of a network are its parameters."""

    def __init__(self, f: Map, group: str | Sequence[Map]) -> None:
        super().__init__()
        self.f, self.group = f, group

    def forward(self, x: Shaped[Tensor, "B ..."]) -> Float[Tensor, "B ..."]:
        guises = orbit(x, self.group)
        return self.f(guises.flatten(0, 1)).unflatten(0, guises.shape[:2]).mean(dim=0)


def _elements(x: Tensor, group: str) -> list[Map]:
    """Give the elements of a named group, as functions."""
    if group not in GROUPS.options:
        raise refuse("orbit", "group", f"{GROUPS.text}, or functions", group, GROUPS.hint(group))
    if group == "shifts":
        return [functools.partial(torch.roll, shifts=k, dims=-1) for k in range(x.shape[-1])]
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise refuse("orbit", "x", "pictures as high as they are wide", tuple(x.shape))
    turns = [functools.partial(torch.rot90, k=k, dims=(-2, -1)) for k in range(4)]
    mirrored = [lambda x, turn=turn: turn(x.flip(-1)) for turn in turns]
    return turns if group == "rotations" else [*turns, *mirrored]


def _pictures(x: Tensor, side: int | None) -> Tensor:
    """Give flat pictures of a known side their four axes (B, C, H, W)."""
    pictures = x
    if x.ndim == 2 and side is not None and x.shape[1] == side**2:
        pictures = x.reshape(len(x), 1, side, side)
    if pictures.ndim != 4:
        domain, hint = "pictures (B, C, H, W)", ""
        if side is not None:
            domain += f" or rows (B, {side**2}) of side {side}"
        if x.ndim == 3:  # it could be one picture with channels, or gray ones
            hint = "Add a channel axis: x[:, None]; to a single picture a batch axis: x[None]."
        elif x.ndim == 2 and side is None:
            hint = "If the rows are gray squares, give their side, as in side=28."
        raise refuse("Augment", "x", domain, tuple(x.shape), hint)
    if not x.is_floating_point():
        raise refuse("Augment", "x", "floating point", str(x.dtype), "Divide gray values by 255.")
    return pictures


def _resampled(x: Tensor, affine: Tensor, outside: str) -> Tensor:
    """Move the points of each picture by a map: look up each pixel where it came from."""
    height, width = x.shape[-2:]
    half = affine.new_tensor([width / 2, height / 2, 1.0])  # torch's pictures end at -1 and 1
    back = torch.linalg.inv(affine) * half / half[:, None]
    grid = F.affine_grid(back[:, :2].to(x), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode=outside, align_corners=False)


def _ordered(owner: str, low: float, high: float) -> tuple[float, float]:
    if low > high:
        raise refuse(owner, "low", f"at most high, {high:g}", low, "Exchange the two.")
    return low, high


def _uniform(count: int, rng: Rng) -> Tensor:
    where = "cpu" if rng is None else rng.device
    return torch.rand(count, generator=rng, device=where, dtype=torch.float64)


def _between(ends: Shift | Rotate | Scale | Shear | Brightness, count: int, rng: Rng) -> Tensor:
    return ends.low + (ends.high - ends.low) * _uniform(count, rng)


def _affine(rows: list[list[Tensor | float]]) -> Tensor:
    """Stack the entries of two rows, some of them drawn, to matrices (count, 3, 3)."""
    drawn = next(one for row in rows for one in row if isinstance(one, Tensor)).double()
    entries = [drawn.new_zeros(()) + one for row in [*rows, [0, 0, 1]] for one in row]
    return torch.stack(torch.broadcast_tensors(*entries), dim=-1).unflatten(-1, (3, 3))

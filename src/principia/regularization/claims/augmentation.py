r"""Data augmentation: what is true of it, and what would refute it.

Knobs:
    pixels: Pixels of a picture, which is a row.
    rows: Pictures.
    drawn: With which chances shifts are drawn; unequal ones have another mean.
    shown: What is fit; half of the orbit lets the fit prefer some pixels.
    side: Pixels along a side of the picture.
    kernel: Pixels along a side of the filter.
    channels: Filters of the convolution.
    beyond: What the filter sees beyond the edge; zeros there do not move with the picture.
    form: The statement as it is, or as it is misprinted.
    reach: How far digits are shifted, in pixels.
    hidden: Units of each hidden layer.
    steps: Steps of training.
    pairs: Pairs of networks, with and without augmentation, from one start each.
    transforms: What training pictures are changed by; by nothing, both networks are alike.
    group: The group that is drawn in the figure.
    elements: How many elements of the group are averaged; a part of them is no group.
    height: Pixels from top to bottom.
    width: Pixels from left to right.
    sampled: Where a pixel is looked up: backwards by the inverse map, or forwards by the map.
    pictures: Pictures of a batch.
"""

import copy
import functools
import itertools
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.nn import functional as F
from torch.optim import Adam

from principia.lab.data.digits import digits
from principia.lab.draws import rand, randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    claim,
    equal,
    equal_to_rounding,
    every,
    follows,
    mean_is,
    standard_error,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training.pairs import paired
from principia.networks.mlp import MLP
from principia.optimization.sgd import ParallelMLP
from principia.regularization.augmentation import (
    Augment,
    Brightness,
    Mirror,
    Pick,
    Rotate,
    Scale,
    Shear,
    Shift,
    equivariance_error,
    invariance_error,
    orbit,
    orbit_average,
)

COPIES = 4000  # of a batch, each transformed anew


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

    augment = Augment(
        Pick("shifts") if drawn == "equally" else Pick("shifts", chances=tuple(chances.tolist()))
    )
    copies = x[:, None].repeat(COPIES, 1, 1, 1)  # one channel, and pictures of one row
    shown, *labels = augment.prepare((copies, y.repeat(COPIES, 1)), rng)
    batches = shown.view(COPIES, rows, 1, pixels)
    found = vmap(grad(loss), in_dims=(None, 0, 0))(w, batches, *labels)
    axis = range(1, pixels + 1)
    return every({
        "mean over all draws": equal(mean, expanded, tol=1e-12, why="float64 rounding").drawn(
            Series("mean of augmented batches", axis, found.mean(dim=0),
                   error=5 * standard_error(found), style="points"),
            Series("expanded set", axis, expanded, "predicted", "points"),
            Series("without augmentation", axis, grad(loss)(w, x, y), "other", "points"),
            x="coordinate", y="gradient",
        ),
        "mean of batches": mean_is(found, expanded, why="mean over independent batches"),
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
    control=[
        Control({"form": "printed"}, ["shifts are seen"], "the misprint"),
        Control({"beyond": "zeros"}, ["commutes", "mean"], "zeros around the picture"),
    ],
    source="Cohen and Welling 2016; Azulay and Weiss 2019",
    misprint="networks whose first layer is a convolution are translation invariant",
)
def conv_is_equivariant_not_invariant(
    seed: Seed, *, side: Annotated[int, Range(6, 24)] = 12,
    kernel: Annotated[int, Range(2, 5)] = 3, channels: Annotated[int, Range(1, 8)] = 4,
    beyond: Literal["the other edge", "zeros"] = "the other edge",
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    """A circular convolution commutes with shifts and sees them; the mean of it does not."""
    rng = seed.torch()
    x, weight = randn(rng, 5, 1, side, side), randn(rng, channels, 1, kernel, kernel)

    mode = "circular" if beyond == "the other edge" else "constant"

    def layer(x: Tensor) -> Tensor:
        return F.conv2d(F.pad(x, (0, kernel - 1) * 2, mode=mode), weight).relu()

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
    none = functools.partial(equal, expected=0, tol=1e-12, why=rounding)
    # the same errors by NumPy, and those of a cube: c³ - 1 and c³ - c where x is multiplied by c
    outputs = layer(x).numpy()
    by_hand = [np.linalg.norm(np.roll(outputs, (k, 2 * k), (-1, -2)) - outputs) for k in shifts]
    cubes = [error(lambda x: x**3, x, functools.partial(torch.mul, other=c))
             for error in (invariance_error, equivariance_error) for c in (2, 3)]
    return every({
        "commutes": none(moved).drawn(*picture, x="shift", y="relative error"),
        "shifts are seen": none(changed) if form == "printed" else at_least(
            changed, 0.1, why="the statement: far from 0, for any shift"
        ),
        "mean": none(pooled),
        "errors by hand": equal_to_rounding(
            [*changed, *cubes], [*(np.array(by_hand) / np.linalg.norm(outputs)), 7, 26, 6, 24]
        ),
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


@torch.no_grad()
def _flat_outputs(model: nn.Module, x: Tensor) -> Tensor:
    return model(x.flatten(1))


@claim(control={"elements": "three in four"}, source="Cohen and Welling 2016")
def orbit_average_is_exact(
    seed: Seed, *, group: Literal["rotations", "square"] = "rotations",
    side: Annotated[int, Range(3, 28)] = 8, hidden: Annotated[int, Range(8, 256)] = 64,
    elements: Literal["all", "three in four"] = "all",
) -> Evidence:
    r"""The mean over the orbit, $\frac1{\lvert G\rvert}\sum_gf(gx)$, is invariant for any net."""
    rng, parts, drawn = seed.torch(), {}, ()
    net = nn.Sequential(nn.Flatten(), MLP([2 * side**2, hidden, hidden, 5], rng=rng)).double()
    x = randn(rng, 20, 2, side, side)
    for name in ("rotations", "square"):
        whole = _turned_by_hand(name)
        if elements == "all":
            average = orbit_average(net, name)
        else:
            kept = torch.randperm(len(whole), generator=rng)[: 3 * len(whole) // 4]
            average = orbit_average(net, [whole[k] for k in kept.tolist()])
        with torch.no_grad():
            plain, averaged = (torch.stack([f(g(x)) for g in whole]) for f in (net, average))
            changed = torch.stack([invariance_error(average, x, g) for g in whole[1:]])
        parts[f"invariant, {name}"] = equal(changed, 0, tol=1e-12, why="float64 rounding of sums")
        parts[f"mean, {name}"] = equal_to_rounding(averaged[0], plain.mean(dim=0))
        if name == group:
            axis = range(len(whole))
            drawn = (
                Series("average over the orbit", axis, averaged[:, 0, 0], style="line"),
                Series("network", axis, plain[:, 0, 0], "other", "line"),
                Series("mean of the network", axis, plain[:, 0, 0].mean().expand(len(axis)),
                       "predicted", "points"),
            )
    return every(parts).drawn(
        *drawn, x="element of the group", y="first output for one picture"
    )


def _turned_by_hand(group: str) -> list[Callable[[Tensor], Tensor]]:
    """List the symmetries of the square as transposes and reversals, itself first."""
    found: list[Callable[[Tensor], Tensor]] = []
    for transposed, *flips in itertools.product((False, True), repeat=3):
        if group == "square" or (sum(flips) + transposed) % 2 == 0:  # else it has a mirror image
            axes = [axis for axis, flipped in zip((-2, -1), flips, strict=True) if flipped]
            found.append(lambda x, t=transposed, axes=axes: (x.mT if t else x).flip(axes))
    return found


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
    places, sign = (p - t) @ A.inverse().T, 1
    if sampled == "forwards":
        places, sign = p @ A.T + t, -1
    expected = bright * (level + places @ slopes)
    inside = (places.abs() <= p.new_tensor([width - 1, height - 1]) / 2).all(dim=-1)
    middle, seen = height // 2, inside[height // 2]
    return every({
        "one of each": equal_to_rounding(found[inside], expected[inside]).drawn(
            Series("transformed picture", u[middle], found[middle], style="points"),
            Series("the plane at the mapped places", u[middle, seen], expected[middle, seen],
                   "predicted"),
            Series("before", u[middle], x[middle], "other", "line"),
            x="place along the middle row, in pixels from the center", y="gray value",
        ),
        "beyond the edges": equal_to_rounding(*_moved(randn(rng, 3, 1, 6, 6), 2 * sign)),
    })


def _moved(x: Tensor, shift: int) -> tuple[Tensor, Tensor]:
    """Move squares right and down, with what is seen beyond each kind of edge; then by NumPy."""
    found, rows, side = [], x.flatten(1), x.shape[-1]
    forms: list[tuple[Tensor, dict[str, Any]]] = [(x, {}), (rows, {"side": side})]
    for settings in {}, {"outside": "border"}, {"outside": "reflection"}:
        for shown, given in forms:
            same = Pick("rotations", chances=(1, 0, 0, 0))
            augment = Augment(Brightness(0.5, 0.5), same, Shift(shift, shift), **settings, **given)
            with torch.random.fork_rng([]):  # the global generator, on which nothing depends here
                found.append(augment(shown).view_as(x))
    wide = (0, 0), (0, 0), (2, 0), (2, 0)
    expected = [np.pad(x.numpy() / 2, wide, mode)[..., :side, :side]
                for mode in ("constant", "edge", "symmetric") for _ in range(2)]
    return torch.stack(found), torch.as_tensor(np.stack(expected))


@claim(
    control={"drawn": "once a batch"}, source="Simard, Steinkraus and Platt 2003, sec. 2",
    refutes=[
        "right", "down", "angle", "size", "lean", "brightness", "right and down apart", "mirrored",
    ],
)
def each_picture_has_its_own_draw(
    seed: Seed, *, pictures: Annotated[int, Range(500, 5000)] = 2000,
    drawn: Literal["for each picture", "once a batch"] = "for each picture",
) -> Evidence:
    """Each picture is changed by numbers of its own, uniform between the two ends.

    Args:
        drawn: How often numbers are drawn; once a batch changes all its pictures alike.
    """
    rng, parts, cdfs = seed.torch(), {}, []
    shift, turn, size = Shift(-1, 3), Rotate(-30, 60), Scale(0.5, 2)
    lean, bright = Shear(-0.5, 1), Brightness(0.5, 2)

    def matrices(warp: Shift | Rotate | Scale | Shear | Mirror) -> Tensor:
        return own(warp.matrices(pictures, rng))

    def own(values: Tensor) -> Tensor:
        return values if drawn == "for each picture" else values[:1].expand_as(values)

    moved, turned, scaled = map(matrices, (shift, turn, size))
    grown = own(bright(torch.ones(pictures, 2, 3, 4, dtype=torch.float64), rng))
    for name, one, values in [
        ("right", shift, moved[:, 0, 2]), ("down", shift, moved[:, 1, 2]),
        ("angle", turn, torch.atan2(turned[:, 0, 1], turned[:, 0, 0]).rad2deg()),
        ("size", size, scaled[:, 0, 0]), ("lean", lean, matrices(lean)[:, 0, 1]),
        ("brightness", bright, grown[:, 1, 2, 3]),
    ]:
        low, high = one.low, one.high
        parts[name] = follows(values, stats.uniform(low, high - low), why="independent draws")
        cdfs.append((values - low) / (high - low))
    right, down = (2 * one - 1 for one in cdfs[:2])
    mirrors = matrices(Mirror())
    mirrored = (mirrors[:, 0, 0] < 0).double()
    return every({
        **parts,
        "right and down apart": mean_is(right * down, 0, why="of a product of two draws"),
        "mirrored": mean_is(mirrored, 0.5, why="a half, by default"),
        "or left as they are": equal(
            mirrors.abs(), torch.eye(3).expand_as(mirrors), tol=0, why="lengths are kept"
        ),
    })

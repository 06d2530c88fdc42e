r"""Data augmentation: what is true of it, and what would refute it."""

import copy
import functools
import itertools
import math
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.nn import functional as F
from torch.optim import Adam

from principia.lab.data.digits import digits
from principia.lab.draws import rand, randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
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
    group_elements,
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

    augment = Augment(Pick("shifts", chances=tuple(chances.tolist())))
    copies = x[:, None].repeat(COPIES, 1, 1, 1)  # one channel, and pictures of one row
    batches = augment.prepare((copies,), rng)[0].view(COPIES, rows, 1, pixels)
    found = slopes(w, batches, y)
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
    rng = seed.torch()
    net = nn.Sequential(nn.Flatten(), MLP([side**2, hidden, hidden, 5], rng=rng))
    x = torch.randn(20, 1, side, side, generator=rng)
    whole = group_elements(x, group)
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
    return equal_to_rounding(found[inside], expected[inside]).drawn(
        Series("transformed picture", u[middle], found[middle], style="points"),
        Series("the plane at the mapped places", u[middle, seen], expected[middle, seen],
               "predicted"),
        Series("before", u[middle], x[middle], "other", "line"),
        x="place along the middle row, in pixels from the center", y="gray value",
    )

r"""Layer normalization: what is true of it, and what would refute it.

Knobs:
    samples: Samples of a batch.
    dim: Features of a sample.
    eps: The small δ beside the variance.
    over: What mean and variance are taken over; over samples it is batch norm.
    units: Units of each layer.
    others: Samples that share the batch.
    norm: The norm of which all this is said; others have other invariances.
    factor: By how much weights, rows and samples are scaled.
    statistics: Whether batch norm takes those of the batch, or constants, which forgive no change.
    largest_mean: The largest mean of the features of a sample.
    center: Whether samples are centered before RMS norm, which does not do so itself.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from principia.lab.draws import drawn_anew, randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.regularization.initialization import he_mlp
from principia.regularization.layer_norm import invariance_table, normalize

Samples = Annotated[int, Range(2, 200)]
Dim = Annotated[int, Range(2, 300)]
Several = Annotated[int, Range(8, 300)]  # enough that neither few units nor few samples hide it
TINY = 1e-12  # torch's batch norm refuses 0
NormName = Literal["none", "batch", "layer"]
NORMS: Mapping[NormName, type[nn.Module] | None] = {
    "none": None, "batch": nn.BatchNorm1d, "layer": nn.LayerNorm,
}
INVARIANT: Mapping[str, set[str]] = {  # Ba, Kiros and Hinton 2016, table 1
    "layer": {
        "all weights scaled", "all rows shifted", "all samples scaled", "one sample scaled",
    },
    "batch": {
        "all weights scaled", "one row scaled", "all samples scaled", "all samples shifted",
    },
}


@claim(
    control={"over": "samples"}, source="Ba, Kiros and Hinton 2016, eqs. 3 and 4; PyTorch",
)
def torch_is_the_formula(
    seed: Seed, *, samples: Samples = 16, dim: Dim = 32,
    eps: Annotated[float, Range(1e-6, 1)] = 0.1, over: Literal["features", "samples"] = "features",
) -> Evidence:
    r"""`nn.LayerNorm` is $\beta+\gamma\,(x-m)/\sqrt{\delta+s^2}$, with $m,s^2$ of each sample."""
    rng, axis = seed.torch(), -1 if over == "features" else 0
    x, weights = (3 + 2 * randn(rng, samples, dim)).requires_grad_(), randn(rng, samples, dim)
    layer = drawn_anew(nn.LayerNorm(dim, eps=eps), rng)
    plain = normalize(x, axis, eps=eps)

    def with_gradients(y: Tensor) -> tuple[Tensor, ...]:
        return y, *torch.autograd.grad((weights * y).sum(), (x, layer.weight))

    theirs, ours = map(with_gradients, (layer(x), layer.bias + layer.weight * plain))
    net = drawn_anew(he_mlp([dim, 8, 7, 3], norm=nn.LayerNorm, rng=rng), rng)
    pictures = randn(rng, 5, 6, 4, 3)
    groups = {
        "one group": (functional.group_norm(pictures, 1), (1, 2, 3)),
        "instances": (functional.instance_norm(pictures), (-2, -1)),
        "channels": (functional.batch_norm(pictures, None, None, training=True), [-4, -2, 3]),
    }
    plain, variance = plain.detach(), x.detach().var(dim=-1, correction=0)
    bare, order = (theirs[0] - layer.bias) / layer.weight, x.argsort(dim=-1)
    drawn = [
        mark for k in range(min(3, samples)) for mark in (
            Series(f"nn.LayerNorm, sample {k}", x[k], bare[k], "other", "points"),
            Series("formula", x[k, order[k]], plain[k, order[k]], "predicted", "line"),
        )
    ]
    return every({
        **{
            name: equal_to_rounding(*pair) for name, *pair in
            zip(("values", "gradient of x", "of γ"), theirs, ours, strict=True)
        },
        "mean": equal(plain.mean(dim=-1), 0, tol=1e-12, why="rounding of sums of numbers around 1"),
        "variance": equal(
            plain.var(dim=-1, correction=0), variance / (eps + variance), tol=1e-12,
            why="s²/(δ+s²), 1 but for δ; rounding of sums of numbers around 1",
        ),
        "network": equal_to_rounding(net(x), _by_hand(net, x, axis)),
        **{
            name: equal_to_rounding(normalize(pictures, 0 if over == "samples" else axes), theirs)
            for name, (theirs, axes) in groups.items()
        },
    }).drawn(*drawn, x="feature before", y="feature after, without β and γ")


def _by_hand(net: Any, x: Tensor, axis: int) -> Tensor:
    """Compute a network with the formula instead of its norms, over an axis of choice."""
    for layer, norm in zip(net.layers, net.norms, strict=False):
        x = (norm.bias + norm.weight * normalize(layer(x), axis)).relu()
    return net.layers[-1](x)


@claim(control={"norm": "batch"}, source="Ba, Kiros and Hinton 2016, sec. 3")
def independent_of_batch(
    seed: Seed, *, dim: Dim = 16, units: Several = 32, others: Several = 63,
    norm: Literal["layer", "batch"] = "layer",
) -> Evidence:
    r"""Layer norm gives a sample the same output alone, in any batch, in training and in use."""
    rng = seed.torch()
    net = drawn_anew(he_mlp([dim, units, units, 4], norm=NORMS[norm], rng=rng), rng)
    net.requires_grad_(False)
    x, axis = randn(rng, others + 1, dim), -1 if norm == "layer" else 0
    alone = net.eval()(x[:1])
    fewest = 2 if norm == "batch" else 1  # a batch of one has no variance
    sizes = sorted({fewest, 2, 3, 5, 7, (others + 1) // 2, others + 1})
    trained = torch.stack([net.train()(x[:size])[0] for size in sizes])
    return every({
        "among others": equal_to_rounding(trained[1:], trained[:1].expand_as(trained[1:])),
        "in training": equal_to_rounding(trained, alone.expand_as(trained)).drawn(
            Series("in a batch, training mode", sizes, trained[:, 0]),
            Series("alone, evaluation mode", [1, others + 1], alone[0, :1].repeat(2), "predicted"),
            x="samples in the batch", y="first output of the first sample", log="x",
        ),
        "by the formula": equal_to_rounding(_by_hand(net, x, axis)[:1], alone),
    })


@claim(
    control=[
        Control(
            {"norm": "batch"},
            [
                "layer norm, all rows shifted", "layer norm, one row scaled",
                "layer norm, all samples shifted", "layer norm, one sample scaled",
            ],
            "batch norm instead",
        ),
        Control(
            {"norm": "none", "statistics": "constants"},
            [
                "layer norm, all weights scaled", "layer norm, all rows shifted",
                "layer norm, all samples scaled", "layer norm, one sample scaled",
                "batch norm, all weights scaled", "batch norm, one row scaled",
                "batch norm, all samples scaled", "batch norm, all samples shifted",
            ],
            "no norm, and a batch norm whose statistics are constants",
        ),
    ],
    source="Ba, Kiros and Hinton 2016, table 1",
)
def invariances(
    seed: Seed, *, units: Several = 40, samples: Several = 32,
    factor: Annotated[float, Range(2, 10)] = 3.0, norm: Literal["layer", "batch", "none"] = "layer",
    statistics: Literal["of the batch", "constants"] = "of the batch",
) -> Evidence:
    r"""Layer norm ignores scales of $x$ and $W$ and shifts of $W$, not scales of rows; BN does."""
    layers = {"layer": nn.LayerNorm(units, eps=TINY), "batch": nn.BatchNorm1d(units, eps=TINY),
              "none": nn.Identity()}
    layers["batch"].train(statistics == "of the batch")
    tables = {
        name: invariance_table(
            layer, units, inputs=20, rows=samples, factor=factor, rng=seed.child("draw").torch()
        )
        for name, layer in layers.items()
    }
    parts = {
        f"{expected} norm, {change}": (
            at_most(residual, 1e-8, why="δ = 1e-12 against variances around 20, and rounding")
            if change in INVARIANT[expected] else
            at_least(residual, 0.1, why="a change that is seen, of outputs around 1")
        )
        for expected, measured in (("layer", norm), ("batch", "batch"))
        for change, residual in tables[measured].items()
    }
    parts |= _changes(seed.child("defaults").torch(), units)
    floor = 1e-17  # so that no change at all has a place on a logarithmic axis
    across, up = tables["batch"], tables[norm]
    return every(parts).drawn(
        *(
            Series(name, [max(across[name], floor)], [max(up[name], floor)], "other", "points")
            for name in up
        ),
        Series("unchanged: below", [floor, 100], [1e-8, 1e-8], "bound"),
        Series("unchanged: left", [1e-8, 1e-8], [floor, 100], "bound"),
        x="change with batch norm", y=f"change with {norm} norm", log="xy",
    )


def _changes(rng: torch.Generator, units: int) -> dict[str, Evidence]:
    """Look over the shoulder of the table: which sums it asks about, and what it writes down."""
    asked = []

    def spy(sums: Tensor) -> Tensor:
        asked.append(sums)
        return sums**3

    found = invariance_table(spy, units, rng=rng)
    before, *after = asked
    scaled = torch.ones(4, 32, units, dtype=torch.float64)
    scaled[0], scaled[1, :, 0], scaled[2], scaled[3, 0] = 3, 3, 3, 3
    rows, samples = after[1] - before, after[4] - before  # each shifted by one vector
    changed = torch.cat([
        torch.stack([after[number] / before for number in (0, 2, 3, 5)]),
        torch.stack([rows / rows[:, :1], samples / samples[:1]]),
    ])
    size = (before**3).square().mean().sqrt()
    largest = [(one**3 - before**3).abs().max() / size for one in after]
    return {
        "what the table changes": equal_to_rounding(
            changed, torch.cat([scaled, torch.ones(2, 32, units)])
        ),
        "what it writes down": equal_to_rounding([*found.values()], torch.stack(largest)),
        "20 features, by default": equal(
            float(torch.linalg.matrix_rank(before)), min(20, units), tol=0, why="a rank"
        ),
        "mean of the sums": equal(
            before.mean(), 0, tol=5 * (20 / (32 * units)) ** 0.5,
            why="5 standard errors of x̄'w̄, the product of two normal means over 20 features",
        ),
    }


@claim(
    control=[
        Control({"norm": "rms"}, ["sum", "LayerNorm"], "not centered"),
        Control({"eps": 0.5}, ["norm"], "a large δ"),
    ],
    source="Ba, Kiros and Hinton 2016, eq. 4: norm and sum of it",
)
def lives_on_a_sphere(
    seed: Seed, *, samples: Annotated[int, Range(10, 1000)] = 200, dim: Dim = 16,
    norm: Literal["layer", "rms"] = "layer", eps: Annotated[float, Range(0, 1)] = 0.0,
) -> Evidence:
    r"""A layer-normalized sample has $\Vert y\Vert=\sqrt d$ and $\sum_iy_i=0$.

    Args:
        eps: The small δ beside the variance; a large one pulls samples inside the sphere.
        norm: The norm that is applied; RMS norm does not center.
    """
    x = 1 + 2 * randn(seed.torch(), samples, dim)
    plain = [made(dim, eps=eps, elementwise_affine=False)(x) for made in (nn.LayerNorm, nn.RMSNorm)]
    y = normalize(x, -1, eps=eps) if norm == "layer" else plain[1]
    radius, rounding = dim**0.5, "rounding, of d numbers around 1; δ = 0"
    angles = torch.linspace(0, torch.pi, 100, dtype=torch.float64)
    return every({
        "norm": equal(y.norm(dim=1), radius, tol=1e-8, why=rounding).drawn(
            Series("before", *_along_and_across(x), "other", "points"),
            Series("after", *_along_and_across(y), "measured", "points"),
            Series("radius √d", radius * angles.cos(), radius * angles.sin(), "predicted", "line"),
            x="sum of the features / √d", y="length of what is left",
        ),
        "sum": equal(y.sum(dim=1), 0, tol=1e-8, why=rounding),
        "LayerNorm": equal_to_rounding(y, plain[0]),
    })


def _along_and_across(x: Tensor) -> tuple[Tensor, Tensor]:
    """Give the component along (1, ..., 1) and the length of the rest."""
    return x.mean(dim=1) * x.shape[1] ** 0.5, (x - x.mean(dim=1, keepdim=True)).norm(dim=1)


@claim(control={"center": False}, source="Zhang and Sennrich 2019, sec. 3")
def rms_norm_is_ln_on_centered(
    seed: Seed, *, samples: Samples = 32, dim: Dim = 16,
    largest_mean: Annotated[float, Range(0.1, 100)] = 3.0, center: bool = True,
) -> Evidence:
    r"""Layer norm is RMS norm of the centered sample: $\mathrm{LN}(x)=\mathrm{RMS}(x-m)$."""
    means = torch.linspace(0, largest_mean, 13, dtype=torch.float64)
    x = means[:, None, None] + randn(seed.torch(), samples, dim)
    layer_norm, rms_norm = (
        made(dim, eps=1e-5, elementwise_affine=False) for made in (nn.LayerNorm, nn.RMSNorm)
    )
    layer, plain = layer_norm(x), rms_norm(x)
    rms = rms_norm(x - x.mean(dim=-1, keepdim=True)) if center else plain
    ours = normalize(x, -1)  # torch's δ by default
    gaps, plain_gaps = ((one - layer).square().mean(dim=(1, 2)).sqrt() for one in (rms, plain))
    return every({
        "LayerNorm": equal_to_rounding(rms, layer).drawn(
            Series("RMSNorm, centered" if center else "RMSNorm", means, gaps),
            Series("RMSNorm, not centered", means, plain_gaps, "other", "line"),
            x="mean of the features, whose variance is 1", y="root mean square gap to LayerNorm",
        ),
        "normalize": equal_to_rounding(rms, ours),
    })

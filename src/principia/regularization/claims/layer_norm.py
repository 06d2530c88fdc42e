r"""Layer normalization: what is true of it, and what would refute it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from principia.lab.draws import drawn_anew, randn
from principia.lab.evidence import (
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
    control={"over": "samples"},
    refutes=["values", "gradient of x", "of γ", "mean", "variance", "network"],
    source="Ba, Kiros and Hinton 2016, eqs. 3 and 4; PyTorch",
)
def torch_is_the_formula(
    seed: Seed, *, samples: Samples = 16, dim: Dim = 32,
    eps: Annotated[float, Range(1e-6, 1)] = 1e-5, over: Literal["features", "samples"] = "features",
) -> Evidence:
    r"""`nn.LayerNorm` is $\beta+\gamma\,(x-m)/\sqrt{\delta+s^2}$, with $m,s^2$ of each sample."""
    rng, axis = seed.torch(), -1 if over == "features" else 0
    x, weights = (3 + 2 * randn(rng, samples, dim)).requires_grad_(), randn(rng, samples, dim)
    layer = drawn_anew(nn.LayerNorm(dim, eps=eps), rng)
    plain = normalize(x, axis, eps=eps)

    def with_gradients(y: Tensor) -> tuple[Tensor, ...]:
        return y, *torch.autograd.grad((weights * y).sum(), (x, layer.weight, layer.bias))

    theirs, ours = map(with_gradients, (layer(x), layer.bias + layer.weight * plain))
    net, batch_net = (
        drawn_anew(he_mlp([dim, 8, 8, 3], norm=norm, rng=rng), rng)
        for norm in (nn.LayerNorm, nn.BatchNorm1d)
    )
    pictures = randn(rng, samples, 6, 4, 4)
    plain, variance = plain.detach(), x.detach().var(dim=-1, correction=0)
    return every({
        **{
            name: equal_to_rounding(*pair) for name, *pair in
            zip(("values", "gradient of x", "of γ", "of β"), theirs, ours, strict=True)
        },
        "mean": equal(plain.mean(dim=-1), 0, tol=1e-12, why="rounding of sums of numbers around 1"),
        "variance": equal(
            plain.var(dim=-1, correction=0), variance / (eps + variance), tol=1e-12,
            why="s²/(δ+s²), 1 but for δ; rounding of sums of numbers around 1",
        ),
        "network": equal_to_rounding(net(x), _by_hand(net, x, axis)),
        "network with batch norm": equal_to_rounding(batch_net(x), _by_hand(batch_net, x, 0)),
        "one group": equal_to_rounding(
            functional.group_norm(pictures, 1), normalize(pictures, (1, 2, 3))
        ),
        "instances": equal_to_rounding(
            functional.instance_norm(pictures), normalize(pictures, (-2, -1))
        ),
    })


def _by_hand(net: Any, x: Tensor, axis: int) -> Tensor:
    """Compute a network with the formula instead of its norms, over an axis of choice."""
    for layer, norm in zip(net.layers, net.norms, strict=False):
        x = (norm.bias + norm.weight * normalize(layer(x), axis)).relu()
    return net.layers[-1](x)


@claim(
    control={"norm": "batch"},
    refutes=["among others", "in training"],
    source="Ba, Kiros and Hinton 2016, sec. 3",
)
def independent_of_batch(
    seed: Seed, *, dim: Dim = 16, units: Several = 32, others: Several = 63,
    norm: Literal["layer", "batch"] = "layer",
) -> Evidence:
    r"""Layer norm gives a sample the same output alone, in any batch, in training and in use."""
    rng = seed.torch()
    net = he_mlp([dim, units, units, 4], norm=NORMS[norm], rng=rng).double().requires_grad_(False)
    x = randn(rng, others + 1, dim)
    alone, among = net.eval()(x[:1]), net(x)[:1]
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
        "in evaluation": equal_to_rounding(among, alone),
    })


@claim(
    control={"norm": "batch"},
    refutes=[
        "layer norm, all rows shifted", "layer norm, one row scaled",
        "layer norm, all samples shifted", "layer norm, one sample scaled",
    ],
    source="Ba, Kiros and Hinton 2016, table 1",
)
def invariances(
    seed: Seed, *, units: Several = 40, samples: Several = 32,
    factor: Annotated[float, Range(2, 10)] = 3.0, norm: Literal["layer", "batch"] = "layer",
) -> Evidence:
    r"""Layer norm ignores scales of $x$ and $W$ and shifts of $W$, not scales of rows; BN does."""
    layers = {"layer": nn.LayerNorm(units, eps=TINY), "batch": nn.BatchNorm1d(units, eps=TINY)}
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


@claim(
    control={"norm": "rms"},
    refutes=["sum", "normalize"],
    source="Ba, Kiros and Hinton 2016, eq. 4: norm and sum of it",
)
def lives_on_a_sphere(
    seed: Seed, *, samples: Annotated[int, Range(10, 1000)] = 200, dim: Dim = 16,
    norm: Literal["layer", "rms"] = "layer",
) -> Evidence:
    r"""A layer-normalized sample has $\Vert y\Vert=\sqrt d$ and $\sum_iy_i=0$."""
    x = 1 + 2 * randn(seed.torch(), samples, dim)
    made = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}[norm]
    y = made(dim, eps=0.0, elementwise_affine=False)(x)
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
        "normalize": equal_to_rounding(normalize(x, -1, eps=0.0), y),
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
    gaps, plain_gaps = ((one - layer).square().mean(dim=(1, 2)).sqrt() for one in (rms, plain))
    return equal_to_rounding(rms, layer).drawn(
        Series("RMSNorm, centered" if center else "RMSNorm", means, gaps),
        Series("RMSNorm, not centered", means, plain_gaps, "other", "line"),
        x="mean of the features, whose variance is 1", y="root mean square gap to LayerNorm",
    )

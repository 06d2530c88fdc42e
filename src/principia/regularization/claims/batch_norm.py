r"""Batch normalization: what is true of it, and what would refute it."""

from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import skip_init

from principia.lab.data.digits import digits
from principia.lab.draws import rand, randn
from principia.lab.evidence import (
    Evidence,
    Series,
    claim,
    equal,
    equal_to_rounding,
    every,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training import accuracy
from principia.regularization.batch_norm import (
    ConvNet,
    along,
    batch_norm_reference,
    fold_batch_norm,
    invert,
    norm_layers,
    population_statistics,
)
from principia.regularization.initialization import initialize_
from principia.regularization.layer_norm import normalize

Batch = Annotated[int, Range(4, 1000)]
Features = Annotated[int, Range(1, 50)]
TINY = 1e-12  # δ of claims that hold for δ = 0; torch wants it above 0


@claim(
    control={"variance": "unbiased"},
    refutes=[
        "BatchNorm1d, outputs", "BatchNorm1d, gradient of x", "BatchNorm1d, gradient of alpha",
        "BatchNorm2d, outputs", "BatchNorm2d, gradient of x", "BatchNorm2d, gradient of alpha",
    ],
    source="Ioffe and Szegedy 2015, algorithm 1",
)
def torch_is_the_formula(
    seed: Seed, *, batch: Batch = 8, features: Features = 5,
    variance: Literal["biased", "unbiased"] = "biased",
) -> Evidence:
    r"""`nn.BatchNorm1d` and `2d` are $\alpha(x-\mu)/\sigma+\beta$, forward and backward."""
    rng, parts = seed.torch(), {}
    for bn, places in (nn.BatchNorm1d(features), ()), (nn.BatchNorm2d(features), (3, 2)):
        x = 3 + 2 * randn(rng, batch, features, *places)
        _draw_affine(bn, rng)
        leaves = [x.requires_grad_(), bn.weight, bn.bias]
        ours = batch_norm_reference(*leaves)
        if variance == "unbiased":
            var, mean = torch.var_mean(x, [axis for axis in range(x.ndim) if axis != 1],
                                       keepdim=True)
            ours = along(bn.weight, x) * (x - mean) / (bn.eps + var).sqrt() + along(bn.bias, x)
        theirs, g = bn(x), randn(rng, *x.shape)
        parts[f"{type(bn).__name__}, outputs"] = equal_to_rounding(ours, theirs)
        slopes = [torch.autograd.grad(one, leaves, g) for one in (ours, theirs)]
        for name, *both in zip(("x", "alpha", "beta"), *slopes, strict=True):
            parts[f"{type(bn).__name__}, gradient of {name}"] = equal_to_rounding(*both)
    return every(parts)


def _draw_affine(bn: _BatchNorm, rng: torch.Generator) -> None:
    """Make a layer double, with scales in [1/2, 3/2] and normal levels."""
    bn.double()
    with torch.no_grad():
        bn.weight.copy_(0.5 + rand(rng, bn.num_features))
        bn.bias.copy_(randn(rng, bn.num_features))


@claim(
    control={"statistics": "running", "momentum": 1.0, "batch": 4},
    refutes=["alone and in a batch"],
    source="Ioffe and Szegedy 2015, algorithm 2",
)
def running_statistics_converge(
    seed: Seed, *, samples: Annotated[int, Range(10_000, 200_000)] = 100_000,
    batch: Annotated[int, Range(2, 100)] = 50, momentum: Annotated[float, Range(0.01, 1)] = 0.1,
    statistics: Literal["population", "running"] = "population",
) -> Evidence:
    """A sample alone, by the statistics of all data, gets what it gets in a huge training batch."""
    rng, n, updates = seed.torch(), 3, 100
    mix = randn(rng, n, n)
    data, others = 3 + randn(rng, 2, samples, n) @ mix
    layer: Any = initialize_(skip_init(nn.Linear, n, n), "he", rng=rng)
    bn = nn.BatchNorm1d(n, momentum=momentum)
    net = nn.Sequential(layer, bn).double()
    _draw_affine(bn, rng)
    with torch.no_grad():
        expected = net(torch.cat([data[:1], others]))[0]
        bn.reset_running_stats()
        average, alone = torch.zeros(n).double(), []
        for rows in data[:updates * batch].split(batch):
            average = (1 - momentum) * average + momentum * layer(rows).mean(dim=0)
            net.train()(rows)
            alone.append(net.eval()(data[:1])[0])
        running = bn.running_mean.clone()  # type: ignore[union-attr]
        if statistics == "population":
            population_statistics(net, data.split(3000))
        found = net.eval()(data[:1])[0]
        folded = fold_batch_norm(layer, bn)(data[:1])[0]
        pictures = rand(rng, 100, 1, 4, 4)
        deep = ConvNet([1, 3, 4], side=4, rng=rng).double()
        single, whole = (
            population_statistics(deep, pictures.split(size)).eval()(pictures) for size in (30, 7)
        )
        together = deep.train()(pictures)
    spread = ((expected - bn.bias) / bn.weight).square()  # a Gaussian's sigma is known to 1/√(2N)
    error = bn.weight.abs() * ((2 + spread) / samples).sqrt()
    return every({
        "alone and in a batch": within_errors(
            found, expected, error=error, k=4, why="means and variances of two sets of Gaussians",
        ).drawn(
            Series("alone, running statistics", range(1, updates + 1), torch.stack(alone)[:, 0]),
            Series(f"alone, {statistics} statistics", [1, updates], found[:1].expand(2), "other"),
            Series("in a huge batch", [1, updates], expected[:1].expand(2), "predicted"),
            x="updates of the running statistics", y="output of one sample",
        ),
        "running mean": equal(
            running, average, tol=1e-12 * (1 + float(average.abs().max())),
            why="an identity of averages: float64 rounding",
        ),
        "folded": equal_to_rounding(folded, found),
        "two layers, all data": equal_to_rounding(single, together),
        "two layers, in other batches": equal_to_rounding(whole, together),
    })


@claim(control={"mode": "eval"}, source="Ioffe and Szegedy 2015, sec. 3.2")
def bias_before_bn_is_dead(
    seed: Seed, *, batch: Batch = 32, features: Features = 5,
    bias: Annotated[float, Range(0.1, 100)] = 2.0, mode: Literal["train", "eval"] = "train",
) -> Evidence:
    r"""A bias in front of batch normalization has no effect, and its gradient is 0."""
    rng = seed.torch()
    bn, x, g = nn.BatchNorm1d(features), randn(rng, batch, features), randn(rng, batch, features)
    _draw_affine(bn, rng)
    population_statistics(bn, [x]).train(mode == "train")
    b = torch.zeros(features).double().requires_grad_()
    (slope,) = torch.autograd.grad(bn(x + b), b, g)
    why = "sums of a batch that cancel: float64 rounding"
    biases = torch.linspace(-bias, bias, 21).double()
    with torch.no_grad():
        before, after = bn(x), bn(x + bias)
        first = torch.stack([bn(x + one)[0, 0] for one in biases])
    return every({
        "output": equal(after - before, 0, tol=1e-12 * (1 + bias), why=why).drawn(
            Series(f"{mode} mode", biases, first),
            Series("no bias", biases, before[0, 0].expand(21), "predicted"),
            x="bias", y="output of the first sample",
        ),
        "gradient": equal(slope, 0, tol=1e-12 * batch, why=why),
    })


@claim(control={"norm": "none"}, source="Ioffe and Szegedy 2015, sec. 3.3")
def invariant_to_weight_scale(
    seed: Seed, *, batch: Batch = 32, dim: Annotated[int, Range(2, 50)] = 6,
    c: Annotated[float, Range(2, 100)] = 5.0, norm: Literal["batch", "none"] = "batch",
) -> Evidence:
    r"""$w\to cw$, $c>0$: the same output, and a gradient orthogonal to $w$ and $1/c$ as long."""
    rng = seed.torch()
    bn = nn.BatchNorm1d(1, eps=TINY) if norm == "batch" else nn.Identity()
    x, target, w = randn(rng, batch, dim), randn(rng, batch, 1), randn(rng, dim, 1)
    bn.double()

    def at(scale: float) -> tuple[Tensor, Tensor]:
        v = (scale * w).requires_grad_()
        outputs = bn(x @ v)
        return outputs.detach(), torch.autograd.grad(F.mse_loss(outputs, target), v)[0]

    (outputs, slope), (scaled, flat) = at(1.0), at(c)
    net = ConvNet([1, 2, 3], side=8, batch_norm=norm == "batch", rng=rng).double()
    pictures = rand(rng, 20, 1, 8, 8)
    for one in norm_layers(net):
        one.eps = TINY
    with torch.no_grad():
        logits = net(pictures)
        for name, weight in net.blocks.named_parameters():
            if name.endswith("0.weight"):
                weight *= c
        larger = net(pictures)
    scales = torch.logspace(0, 2, 13).double()
    lengths = torch.stack([at(float(one))[1].norm() for one in scales])
    return every({
        "output": equal_to_rounding(scaled, outputs),
        "gradient": equal_to_rounding(c * flat, slope).drawn(
            Series("gradient", scales, lengths),
            Series("1 / c", scales, slope.norm() / scales, "predicted"),
            x="factor c of the weights", y="length of the gradient", log="xy",
        ),
        "along the weights": equal_to_rounding((slope * w).sum(), 0.0),
        "all convolutions of a network": equal_to_rounding(larger, logits),
    })


@claim(control={"mode": "eval"}, source="Ioffe and Szegedy 2015, algorithm 1")
def removes_constant_shift(
    seed: Seed, *, shift: Annotated[float, Range(0.1, 10)] = 1.0,
    hidden: Annotated[int, Range(8, 64)] = 32, mode: Literal["train", "eval"] = "train",
) -> Evidence:
    """A constant that is added to all inputs of a batch changes neither scores nor accuracy."""
    x, y, x_test, y_test = digits()
    x, x_test = x.flatten(1).double(), x_test.flatten(1).double()
    layers = skip_init(nn.Linear, 64, hidden), skip_init(nn.Linear, hidden, 10)
    net = nn.Sequential(layers[0], nn.BatchNorm1d(hidden), nn.ReLU(), layers[1])
    initialize_(net, "he", rng=seed.torch()).double()
    adam = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(40):
        adam.zero_grad()
        F.cross_entropy(net(x), y).backward()
        adam.step()
    net.train(mode == "train")
    shifts = torch.linspace(0, shift, 9).double()
    with torch.no_grad():
        scores = torch.stack([net(x_test + one) for one in shifts])
    right = [float(accuracy(one, y_test)) for one in scores]
    return every({
        "accuracy": equal(right[-1], right[0], tol=0, why="no score moves but by rounding").drawn(
            Series(f"{mode} mode", shifts, right),
            Series("without a shift", shifts, right[:1] * 9, "predicted"),
            x="shift of all pixels", y="test accuracy, digits",
        ),
        "scores": equal_to_rounding(scores[-1], scores[0]),
    })


@claim(
    control={"form": "printed"},
    refutes=["scale of w'x", "outputs", "length and direction"],
    source="Kohler et al. 2019, sec. 2",
    misprint=r"$\Vert w\Vert_\Sigma$, $\Sigma=\mathrm E[xx^\top]$, for inputs not centered",
)
def bn_is_reparametrization(
    seed: Seed, *, batch: Annotated[int, Range(100, 10_000)] = 2000,
    dim: Annotated[int, Range(2, 50)] = 5, mean: Annotated[float, Range(0.5, 10)] = 3.0,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""$\mathrm{BN}(w^\top x)=\beta+\alpha\,w^\top(x-\mathrm Ex)/\Vert w\Vert_S$, $S$ centered."""
    rng, bn = seed.torch(), nn.BatchNorm1d(1, eps=TINY)
    _draw_affine(bn, rng)
    x, w = mean + randn(rng, batch, dim) @ randn(rng, dim, dim) / dim**0.5, randn(rng, dim)
    alpha, beta = bn.weight.detach(), bn.bias.detach()
    centered = x - x.mean(dim=0)
    S = (centered if form == "correct" else x).mT @ (centered if form == "correct" else x) / batch
    length = (w @ S @ w).sqrt()
    measured = bn((x @ w)[:, None])[:, 0].detach()
    line = beta + alpha * (centered @ w) / length
    # length times direction: α is the length, w only a direction, measured by S instead of I
    decoupled = beta + alpha * centered @ (w / w.norm()) * (w.norm() / length)
    some = (x @ w).argsort()[:: max(1, batch // 100)]
    return every({
        "scale of w'x": equal_to_rounding((x @ w).std(correction=0), length),
        "outputs": equal_to_rounding(measured, line).drawn(
            Series("batch normalization", (x @ w)[some], measured[some]),
            Series("formula", (x @ w)[some], line[some], "predicted"), x="w'x", y="output",
        ),
        "length and direction": equal_to_rounding(measured, decoupled),
        "centered inputs": equal_to_rounding(bn((centered @ w)[:, None])[:, 0], measured),
    })


@claim(control={"statistics": "constants"}, source="Santurkar et al. 2018, theorem 4.1")
def gradient_is_projected(
    seed: Seed, *, batch: Batch = 16, batches: Annotated[int, Range(2, 500)] = 50,
    statistics: Literal["functions", "constants"] = "functions",
) -> Evidence:
    r"""$\frac{\sigma^2}{\alpha^2}|\nabla_xL|^2=|g|^2-\frac{(1^\top g)^2+(\tilde x^\top g)^2}m$."""
    rng, bn = seed.torch(), nn.BatchNorm1d(batches, eps=TINY)  # a batch is a column
    _draw_affine(bn, rng)
    spreads = 0.5 + 2 * rand(rng, batches)
    x = (3 + spreads * randn(rng, batch, batches)).requires_grad_()
    sigma = x.detach().std(dim=0, correction=0)
    if statistics == "constants":
        population_statistics(bn, [x.detach()]).eval()
    y = bn(x)
    (g,) = torch.autograd.grad(F.softplus(y + randn(rng, *x.shape)).sum(), y, retain_graph=True)
    (slope,) = torch.autograd.grad(y, x, g)
    normal = normalize(x.detach(), 0, eps=TINY)
    scale = (bn.weight.detach() / sigma).square()
    whole = g.square().sum(dim=0)
    lost = g.sum(dim=0).square() / batch, (normal * g).sum(dim=0).square() / batch
    number = range(1, batches + 1)
    order = whole.argsort()
    return equal_to_rounding(slope.square().sum(dim=0), scale * (whole - sum(lost))).drawn(
        Series("measured", number, (slope.square().sum(dim=0) / scale)[order]),
        Series("projected", number, (whole - sum(lost))[order], "predicted"),
        Series("gradient behind it", number, whole[order], "bound"),
        x="batch, sorted", y="squared length of the gradient, times σ²/α²", log="y",
    )


@claim(
    control={"feature": "constant", "precision": "float32"}, source="Ioffe and Szegedy 2015, sec. 3"
)
def activations_are_recoverable(
    seed: Seed, *, batch: Batch = 64, features: Features = 5,
    feature: Literal["varying", "constant"] = "varying",
    precision: Literal["float64", "float32"] = "float64",
) -> Evidence:
    r"""Given $\mu$ and $\sigma$ the map is invertible: nothing is lost of features that vary."""
    rng, dtype = seed.torch(), getattr(torch, precision)
    bn = nn.BatchNorm1d(features)
    _draw_affine(bn, rng)
    spread = 1.0 if feature == "varying" else 1e-10  # far below √δ: σ is √δ, and all outputs β
    x = (spread * (3 + randn(rng, batch, features))).to(dtype)
    bn.to(dtype)
    var, mu = torch.var_mean(x, 0, correction=0)
    again = invert(bn, bn(x), mu, (bn.eps + var).sqrt()).detach()
    before, after = ((one - mu).double() / spread for one in (x, again))
    unit = torch.finfo(dtype).eps
    return equal(
        after, before, tol=100 * unit,
        why="rounding of y, whose level is below 5, divided by α ≥ 1/2, in units of the spread",
    ).drawn(
        Series("recovered", before[:, 0], after[:, 0]),
        Series("what was there", before[:, 0], before[:, 0], "predicted"),
        x="value - mean, in units of the spread", y="recovered",
    )


@claim(
    control={"form": "printed"}, source="Goodfellow, Bengio and Courville 2016, sec. 8.7.1",
    misprint=r"the sum over all subsets $S\in\mathcal P(W)$, added to $y$, which counts $y$ twice",
)
def chain_update_has_all_orders(
    seed: Seed, *, depth: Annotated[int, Range(2, 10)] = 4,
    lr: Annotated[float, Range(0.001, 1)] = 0.1, chains: Annotated[int, Range(1, 200)] = 50,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""One step on $y=\prod_lw_lx$ adds a term for each set $S\subsetneq W$ of weights kept."""
    rng = seed.torch()
    w = (0.5 + rand(rng, chains, depth)).requires_grad_()
    x, target = 0.5 + rand(rng, chains), randn(rng, chains)
    y = w.prod(dim=1) * x
    (slope,) = torch.autograd.grad((y - target).square().sum() / 2, w)
    subsets = torch.cartesian_prod(*[torch.tensor([0.0, 1.0]).double()] * depth)  # 1: in S
    factors = subsets * w.detach()[:, None] - (1 - subsets) * lr * slope[:, None]
    terms = factors.prod(dim=2) * x[:, None]  # (chains, 2^depth), the last S is W
    orders = depth - subsets.sum(dim=1)
    y, new = y.detach(), ((w - lr * slope).prod(dim=1) * x).detach()
    added = terms if form == "printed" else terms[:, :-1]
    by_order = torch.stack([terms[0, orders == k].sum() for k in range(1, depth + 1)])
    size = 1 + terms.abs().sum(dim=1)
    return equal(
        y + added.sum(dim=1), new, tol=1e-12 * size, why="an identity: rounding of the sum's terms"
    ).drawn(
        Series("terms up to this order", range(1, depth + 1),
               by_order.cumsum(dim=0) + (y[0] if form == "printed" else 0)),
        Series("change of y", [1, depth], (new - y)[0].expand(2), "predicted"),
        x="layers that change together, at most", y="change of the output, first chain",
    )

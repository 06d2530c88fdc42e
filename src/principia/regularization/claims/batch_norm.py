r"""Batch normalization: what is true of it, and what would refute it.

Knobs:
    batch: Samples of a batch; very few tell little about all data.
    features: Features that are normalized, each by itself.
    variance: Whether the variance is divided by m, as torch does, or by m - 1.
    samples: Samples of the whole data.
    momentum: Share of the new batch in the running statistics; 1 forgets all others.
    momentum_weighs: What the momentum is the share of; other libraries mean the average so far.
    statistics: Which mean and variance normalize; running ones lag, constants project nothing.
    bias: The bias in front of the layer.
    mode: Statistics of the batch in training; fixed ones in evaluation, which see a shift.
    dim: Number of inputs.
    c: Factor of the weights.
    norm: Whether there is batch normalization at all; without it scales are seen.
    shift: The constant that is added to all pixels.
    hidden: Hidden units.
    mean: Mean of all inputs, which makes both lengths of the weights differ.
    form: The formula as it is, or as it is misprinted.
    batches: Independent batches that are looked at.
    feature: Whether features vary; of constant ones only rounding is left.
    precision: Precision of the arithmetic.
    depth: Layers of the chain, each of a single weight.
    lr: Step size.
    chains: Random chains that are looked at.
"""

from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import skip_init

from principia.gradients.depth import deep_linear_gradients
from principia.lab.data.digits import digits
from principia.lab.draws import drawn_anew, rand, randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training import accuracy
from principia.optimization.sgd import ParallelMLP
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
    refutes=["network", *(f"{kind}, {what}" for kind in ("rows", "sequences", "pictures")
                          for what in ("outputs", "gradient of x", "gradient of alpha"))],
    source="Ioffe and Szegedy 2015, algorithm 1",
)
def torch_is_the_formula(
    seed: Seed, *, batch: Batch = 8, features: Features = 5,
    variance: Literal["biased", "unbiased"] = "biased",
) -> Evidence:
    r"""`nn.BatchNorm1d` and `2d` are $\alpha(x-\mu)/\sigma+\beta$, forward and backward."""
    rng, parts, seen, found, expected = seed.torch(), {}, [], [], []
    formula = batch_norm_reference if variance == "biased" else _unbiased
    for kind, bn, places in [
        ("rows", nn.BatchNorm1d(features), ()),
        ("sequences", nn.BatchNorm1d(features, eps=0.3), (4,)),
        ("pictures", nn.BatchNorm2d(features), (3, 2)),
    ]:
        x = 3 + 2 * randn(rng, batch, features, *places)
        leaves = [x.requires_grad_(), *_draw_affine(bn, rng).parameters()]
        ours = formula(*leaves, eps=0.3) if bn.eps == 0.3 else formula(*leaves)  # torch's default
        theirs, g = bn(x), randn(rng, *x.shape)
        seen.append((x, theirs, ours))
        parts[f"{kind}, outputs"] = equal_to_rounding(ours, theirs)
        slopes = [torch.autograd.grad(one, leaves, g) for one in (ours, theirs)]
        for name, *both in zip(("x", "alpha", "beta"), *slopes, strict=True):
            parts[f"{kind}, gradient of {name}"] = equal_to_rounding(*both)
    for normed in (True, False):  # 9 pixels are halved to 4, then 2
        net = ConvNet([2, 3, 4], side=9, batch_norm=normed, rng=seed.child("net").torch())
        convs = (skip_init(nn.Conv2d, n, n + 1, 3, padding=1, bias=not normed) for n in (2, 3))
        layers = nn.Sequential(*convs, skip_init(nn.Linear, 16, 10))
        initialize_(layers, "he", rng=seed.child("net").torch()).double()
        for norm in norm_layers(net.double()):
            _draw_affine(norm, rng)
        its = [one for layer in net.modules() if isinstance(layer, nn.Conv2d | nn.Linear)
               for one in layer.parameters()]
        for one, other in zip(its, layers.parameters(), strict=True):
            if one.ndim == 1:  # the biases, which are 0
                one.data = other.data = randn(rng, len(one))
        x = h = randn(rng, 5, 2, 9, 9)
        for conv, block in zip(layers[:2], net.blocks, strict=True):  # type: ignore[arg-type]
            h = F.max_pool2d(conv(h), 2)
            h = (formula(h, *block[2].parameters()) if normed else h).relu()
        found.append(net(x))
        expected.append(layers[2](h.flatten(1)))
    parts["network"] = equal_to_rounding(torch.stack(found), torch.stack(expected))
    before, after, predicted = (one[:, 0] for one in seen[0])
    return every(parts).drawn(
        Series("nn.BatchNorm1d", before, after), Series("formula", before, predicted, "predicted"),
        x="value of a feature before", y="value after",
    )


def _unbiased(x: Tensor, alpha: Tensor, beta: Tensor, eps: float = 1e-5) -> Tensor:
    """Normalize by the variance that divides by m - 1."""
    var, mean = torch.var_mean(x, [axis for axis in range(x.ndim) if axis != 1], keepdim=True)
    return along(alpha, x) * (x - mean) / (eps + var).sqrt() + along(beta, x)


def _draw_affine(bn: _BatchNorm, rng: torch.Generator) -> _BatchNorm:
    """Make a layer double, with scales in [1/2, 3/2] and normal levels."""
    bn.double()
    if bn.affine:
        with torch.no_grad():
            bn.weight.copy_(0.5 + rand(rng, bn.num_features))
            bn.bias.copy_(randn(rng, bn.num_features))
    return bn


@claim(
    control=[
        Control(
            {"statistics": "running", "momentum": 1.0, "batch": 4}, ["alone and in a batch"],
            "the statistics of the last four samples",
        ),
        Control(
            {"momentum_weighs": "the average so far"}, ["running mean"],
            "the momentum of other libraries, 1 minus that of torch",
        ),
    ],
    source="Ioffe and Szegedy 2015, algorithm 2",
)
def running_statistics_converge(
    seed: Seed, *, samples: Annotated[int, Range(10_000, 200_000)] = 100_000,
    batch: Annotated[int, Range(2, 100)] = 50, momentum: Annotated[float, Range(0.01, 1)] = 0.1,
    momentum_weighs: Literal["the new batch", "the average so far"] = "the new batch",
    statistics: Literal["population", "running"] = "population",
) -> Evidence:
    """A sample alone, by the statistics of all data, gets what it gets in a huge training batch."""
    rng, n, updates = seed.torch(), 3, 100
    mix = randn(rng, n, n)
    data, others = 3 + randn(rng, 2, samples, n) @ mix
    layer: Any = initialize_(skip_init(nn.Linear, n, n), "he", rng=rng)
    bn = _draw_affine(nn.BatchNorm1d(n, momentum=momentum), rng)
    net = nn.Sequential(layer, bn).double()
    new = momentum if momentum_weighs == "the new batch" else 1 - momentum
    with torch.no_grad():
        expected = net(torch.cat([data[:1], others]))[0]
        bn.reset_running_stats()
        average, alone = torch.zeros(n).double(), []
        for rows in data[:updates * batch].split(batch):
            average = (1 - new) * average + new * layer(rows).mean(dim=0)
            net.train()(rows)
            alone.append(net.eval()(data[:1])[0])
        running = bn.running_mean.clone()  # type: ignore[union-attr]
        if statistics == "population":
            population_statistics(net, data.split(3000))
        found = net.eval()(data[:1])[0]
        pictures = rand(rng, 100, 1, 4, 4)
        deep = ConvNet([1, 3, 4], side=4, rng=rng).double()
        state = [one.clone() for one in deep.parameters()]
        deep.blocks[1].eval()
        batches = list(zip(pictures.split(30), torch.arange(100).split(30), strict=True))
        population_statistics(deep, batches)  # of inputs and labels
        modes = [one.training for one in norm_layers(deep)]
        apart = [deep.eval()(pictures)]
        apart.append(population_statistics(deep, pictures.split(7)).eval()(pictures))
        together = deep.train()(pictures)
    changed = [
        modes != [True, False], not deep.training,
        *(bool(one._forward_pre_hooks or one._forward_hooks) for one in deep.modules()),
        *(not torch.equal(*pair) for pair in zip(state, deep.parameters(), strict=True)),
    ]
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
        "folded": equal_to_rounding(*_folded(rng)),
        "two layers": equal_to_rounding(torch.stack(apart), together.expand(2, -1, -1)),
        "nothing else of the model": never(changed, why="its modes, parameters and hooks are kept"),
    })


@torch.no_grad()
def _folded(rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Join layers of several kinds with the normalization behind them; give outputs of both."""
    joined, apart, several = [], [], (nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d)
    for kind, places, its in [(nn.Linear, (), ()), (nn.Conv1d, (7,), (2,)),
                              (nn.Conv2d, (6, 5), ((3, 2),))]:
        for bias, affine in (True, True), (False, True), (True, False):
            layer: Any = drawn_anew(skip_init(kind, 2, 3, *its, bias=bias), rng)
            bn = _draw_affine(several[len(places)](3, affine=affine), rng)
            x = 1 + randn(rng, 9, 2, *places)
            bn(layer(x))  # running statistics that differ from those of the batch
            joined.append(fold_batch_norm(layer, bn.eval())(x).flatten())
            apart.append(bn(layer(x)).flatten())
    net, x = ConvNet([1, 2, 3], side=8, rng=rng).double(), rand(rng, 9, 1, 8, 8)
    population_statistics(net, [x]).eval()
    for block in list[Any](net.blocks):  # a positive scale commutes with the pooling between
        joined.append(block[1](fold_batch_norm(block[0], block[2])(x)).relu().flatten())
        x = block(x)
        apart.append(x.flatten())
    return torch.cat(joined), torch.cat(apart)


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
    """A constant added to all inputs changes no score, with statistics of the same inputs."""
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
    shifts = torch.linspace(0, shift, 9).double()
    with torch.no_grad():
        in_training = net.train()(x_test)
        population_statistics(net, x.split(300))
        scores = torch.stack([net.train(mode == "train")(x_test + one) for one in shifts])
        if mode == "train":  # in use, statistics can be taken anew
            population_statistics(net, (x_test + shift).split(50))
        renewed = net.eval()(x_test + shift)
    right = [float(accuracy(one, y_test)) for one in scores]
    return every({
        "accuracy": equal(right[-1], right[0], tol=0, why="no score moves but by rounding").drawn(
            Series(f"{mode} mode", shifts, right),
            Series("without a shift", shifts, right[:1] * 9, "predicted"),
            x="shift of all pixels", y="test accuracy, digits",
        ),
        "scores": equal_to_rounding(scores[-1], in_training),
        "in use, new statistics": equal_to_rounding(renewed, in_training),
    })


@claim(
    control={"form": "printed"}, source="Kohler et al. 2019, sec. 2",
    misprint=r"$\Vert w\Vert_\Sigma$, $\Sigma=\mathrm E[xx^\top]$, for inputs not centered",
)
def bn_is_reparametrization(
    seed: Seed, *, batch: Annotated[int, Range(100, 10_000)] = 2000,
    dim: Annotated[int, Range(2, 50)] = 5, mean: Annotated[float, Range(0.5, 10)] = 3.0,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""$\mathrm{BN}(w^\top x)=\beta+\alpha\,w^\top(x-\mathrm Ex)/\Vert w\Vert_S$, $S$ centered."""
    rng, units = seed.torch(), 3
    layer: nn.Linear = drawn_anew(skip_init(nn.Linear, dim, units), rng)  # type: ignore[assignment]
    bn = _draw_affine(nn.BatchNorm1d(units, eps=TINY), rng)
    alpha, beta, W = (one.detach() for one in (bn.weight, bn.bias, layer.weight))
    x = mean + randn(rng, batch, dim) @ randn(rng, dim, dim) / dim**0.5
    centered = x - x.mean(dim=0)
    of = centered if form == "correct" else x
    length = (W @ (of.mT @ of / batch) * W).sum(dim=1).sqrt()
    slopes = W * (alpha / length)[:, None]  # α is their length, w only their direction
    line, sums = beta + centered @ slopes.mT, layer(x).detach()  # whose bias has no effect
    measured = batch_norm_reference(sums, alpha, beta, eps=TINY)
    population_statistics(bn, sums.split(30))
    joined = fold_batch_norm(layer, bn.eval())
    some = sums[:, 0].argsort()[:: max(1, batch // 100)]
    return every({
        "outputs": equal_to_rounding(measured, line).drawn(
            Series("batch normalization", sums[some, 0], measured[some, 0]),
            Series("formula", sums[some, 0], line[some, 0], "predicted"), x="w'x", y="output",
        ),
        "weights of a single layer": equal_to_rounding(joined.weight, slopes),
        "its bias": equal_to_rounding(joined.bias, beta - slopes @ x.mean(dim=0)),
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
    y = batch_norm_reference(x, bn.weight, bn.bias, eps=TINY)
    if statistics == "constants":
        y = population_statistics(bn, [x.detach()]).eval()(x)
    (g,) = torch.autograd.grad(F.softplus(y + randn(rng, *x.shape)).sum(), y, retain_graph=True)
    (slope,) = torch.autograd.grad(y, x, g)
    normal, scale = normalize(x.detach(), 0, eps=TINY), (bn.weight.detach() / sigma).square()
    whole = g.square().sum(dim=0)
    lost = g.sum(dim=0).square() / batch, (normal * g).sum(dim=0).square() / batch
    number, order = range(1, batches + 1), whole.argsort()
    square, left = slope.square().sum(dim=0), whole - sum(lost)
    return equal_to_rounding(square, scale * left).named("squared gradient").drawn(
        Series("measured", number, (square / scale)[order]),
        Series("projected", number, left[order], "predicted"),
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
    spread = 1.0 if feature == "varying" else 1e-10  # far below √δ: σ is √δ, and all outputs β
    pairs = []
    for bn, places in [
        (nn.BatchNorm1d(features), ()), (nn.BatchNorm1d(features, affine=False), ()),
        (nn.BatchNorm2d(features, eps=0.01), (2, 3)),
    ]:
        _draw_affine(bn, rng).to(dtype)
        x = (spread * (3 + randn(rng, batch, features, *places))).to(dtype)
        var, mu = torch.var_mean(x, [0, *range(2, x.ndim)], correction=0)
        again = invert(bn, bn(x), mu, (bn.eps + var).sqrt()).detach()
        pairs.append([((one - along(mu, x)).double() / spread).flatten() for one in (x, again)])
    before, after = (torch.cat(one) for one in zip(*pairs, strict=True))
    unit, few = torch.finfo(dtype).eps, slice(0, 1000)
    return equal(
        after, before, tol=100 * unit,
        why="rounding of y, whose level is below 5, divided by α ≥ 1/2, in units of the spread",
    ).named("recovered activations").drawn(
        Series("recovered", before[few], after[few]),
        Series("what was there", before[few], before[few], "predicted"),
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
    nets = ParallelMLP([1] * (depth + 1), copies=chains, activation="identity", rng=rng).double()
    for layer in nets.layers:
        layer.weight.data, layer.bias.data = 0.5 + rand(rng, chains, 1, 1), 0 * layer.bias.data
    x, target = 0.5 + rand(rng, chains, 1, 1), randn(rng, chains, 1, 1)
    weights: list[Tensor] = [layer.weight for layer in nets.layers]
    w = torch.cat(weights, dim=-1)[:, 0].detach()  # (chains, depth)
    slope = torch.stack([
        torch.cat(deep_linear_gradients([*one.view(depth, 1, 1)], its * its, its * goal))[:, 0]
        for one, its, goal in zip(w, x, target, strict=True)
    ])
    sgd, y = torch.optim.SGD(weights, lr), nets(x)
    ((y - target).square().sum() / 2).backward()
    sgd.step()
    x, y, new = (one.detach().flatten() for one in (x, y, nets(x)))
    subsets = torch.cartesian_prod(*[torch.tensor([0.0, 1.0]).double()] * depth)  # 1: in S
    factors = subsets * w[:, None] - (1 - subsets) * lr * slope[:, None]
    terms = factors.prod(dim=2) * x[:, None]  # (chains, 2^depth), the last S is W
    orders = depth - subsets.sum(dim=1)
    added = terms if form == "printed" else terms[:, :-1]
    by_order = torch.stack([terms[0, orders == k].sum() for k in range(1, depth + 1)])
    size = 1 + terms.abs().sum(dim=1)
    return equal(
        new, y + added.sum(dim=1), tol=1e-12 * size, why="an identity: rounding of the sum's terms"
    ).named("output after the step").drawn(
        Series("terms up to this order", range(1, depth + 1),
               by_order.cumsum(dim=0) + (y[0] if form == "printed" else 0)),
        Series("change of y", [1, depth], (new - y)[0].expand(2), "predicted"),
        x="layers that change together, at most", y="change of the output, first chain",
    )

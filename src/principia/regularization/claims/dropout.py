r"""Dropout: what is true of it, and what would refute it.

Knobs:
    keep: Probability π that a unit is kept.
    masks: Random masks that are drawn.
    layer: What drops units; torch wants to be told the share that is dropped, not kept.
    units: Units that may be dropped, over all of which masks are counted.
    average: How subnetworks are averaged; without their probabilities it is another mean.
    form: The formula as it is, or as it is misprinted.
    hidden: Hidden units.
    depth: Hidden layers; with none the network is linear, and scaling is exact.
    width: Units of each hidden layer.
    factor: By what the scaled network is louder than it should be; 1 in truth.
    dim: Number of inputs.
    classes: Classes of the softmax.
    samples: Rows of the data.
    penalty: The price of a weight; its square alone forgets how large its inputs are.
    cut: Share of hidden units that is cut after training.
    epochs: Passes through the training data.
    training: Whether the first network is trained with dropout; if not, it gains nothing.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.data.digits import digits
from principia.lab.draws import randn
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
    mean_is,
    standard_error,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Supervised, evaluated, fit, seeded_generators
from principia.networks.mlp import MLP
from principia.regularization.dropout import (
    MOST_UNITS,
    ClassicDropout,
    arithmetic_ensemble,
    enumerate_subnets,
    geometric_ensemble,
    mc_dropout,
    multiplied,
    scale_weights,
    with_dropout,
)

Often = Annotated[float, Range(0.6, 0.95)]  # kept, for claims: at 1/2 the controls would be right
COURSE, PLAIN = (0.8, 0.5), (1.0, 1.0)  # inputs and hidden units: with dropout and without
CPU = torch.device("cpu")


@claim(
    control=[
        Control({"layer": "nn.Dropout(π)"}, ["what is kept", "share that is kept"],
                "told the probability of keeping"),
        Control({"layer": "ClassicDropout(π)"}, ["mean", "what is kept", "evaluation"],
                "not divided by π"),
    ],
    source="Srivastava et al. 2014, sec. 10; PyTorch",
)
def torch_dropout_is_inverted(
    seed: Seed, *, keep: Often = 0.8, masks: Annotated[int, Range(1000, 200_000)] = 100_000,
    layer: Literal["nn.Dropout(1 - π)", "nn.Dropout(π)", "ClassicDropout(π)"] = "nn.Dropout(1 - π)",
) -> Evidence:
    r"""`nn.Dropout` of $1-\pi$ gives $b\odot x/\pi$, of mean $x$, and leaves $x$ in evaluation."""
    rng = seed.torch()
    x, classic = randn(rng, 8), ClassicDropout(keep)
    inverted = {"nn.Dropout(π)": nn.Dropout(keep), "ClassicDropout(π)": classic}.get(
        layer, with_dropout([8, 2], keep_input=keep, rng=rng)[0])
    usual, mlp = with_dropout([8, 8, 2], rng=rng)  # where nobody says how many are kept
    layers = [inverted, classic, usual, cast(MLP, mlp).drops[0], ClassicDropout()]
    with seeded_generators(seed, CPU):
        theirs, ours, *others = (one(x.expand(masks, 8)) for one in layers)
    shares = torch.stack([(one != 0).double().mean(dim=0) for one in (theirs, ours, *others)])
    keeps = shares.new_tensor([keep, keep, *COURSE, 0.5])[:, None].expand_as(shares)
    units = range(1, 9)
    return every({
        "mean": mean_is(theirs, x, k=4, why="mean over masks").drawn(
            Series("mean over masks", units, theirs.mean(dim=0), error=4 * standard_error(theirs)),
            Series("x", units, x, "predicted", "points"),
            Series("what is kept", units, theirs.sum(dim=0) / (theirs != 0).sum(dim=0), "other",
                   "points"),
            x="unit", y="what the next layer gets",
        ),
        "what is kept": equal_to_rounding(theirs, (theirs != 0) * x / keep),
        "share that is kept": within_errors(
            shares, keeps, error=(keeps * (1 - keeps) / masks).sqrt(), why="share of the masks"
        ),
        "evaluation": equal(inverted.eval()(x), x, tol=0, why="nothing is done"),
        "classic: what is kept": equal_to_rounding(ours, (ours != 0) * x),
        "classic: evaluation": equal_to_rounding(classic.eval()(x), keep * x),
    })


@claim(
    control={"average": "unweighted"},
    refutes=["mixture", "variance"],
    source="Srivastava et al. 2014, sec. 4",
)
def mask_law(
    seed: Seed, *, units: Annotated[int, Range(6, 12)] = 10, keep: Often = 0.8,
    average: Literal["by p(b)", "unweighted"] = "by p(b)",
) -> Evidence:
    r"""$p(b)=\prod_i\pi_i^{b_i}(1-\pi_i)^{1-b_i}$ sums to 1; $p(y\mid x)=\sum_bp(b)p(y|x,b)$."""
    rng, samples = seed.torch(), 100_000
    sizes = [3, units - 3, 4]
    net = with_dropout(sizes, keep_input=0.9, keep_hidden=keep, activation="tanh", rng=rng).double()
    x, seen = 2 * randn(rng, 2, 3), []
    logits, weights = enumerate_subnets(net, x)
    keeps = [keep] * (units - 3) + [0.9] * 3  # the last bit runs fastest: the first input
    law = [
        math.prod(pi if bit else 1 - pi for pi, bit in zip(keeps, bits, strict=True))
        for bits in itertools.product((0, 1), repeat=units)
    ]
    share = weights if average == "by p(b)" else torch.full_like(weights, 1 / len(weights))
    mixture = arithmetic_ensemble(logits, share)
    moments = [torch.tensordot(share, (logits.softmax(-1) - mixture) ** k, 1) for k in (2, 4)]

    def head(rows: Tensor) -> Tensor:
        seen.append(len(rows))
        return rows.softmax(dim=-1)

    mc_dropout(net, x, head=head, rng=rng)
    usual, start = sum(seen), rng.get_state()
    mean, variance = mc_dropout(net, x, samples, head=head, rng=rng)
    few = [mc_dropout(net, x, 50, rng=rng.set_state(one))[0]
           for one in (start, start, rng.get_state())]
    with seeded_generators(seed, CPU):
        usual_draws = mc_dropout(net, x, 50)
    with seeded_generators(seed, CPU), torch.no_grad():  # one batch of 50 copies, in training mode
        rows = net.train()(x.repeat(50, 1)).view(50, 2, 4)
    errors = (variance / samples).sqrt()
    unsure = ((moments[1] - moments[0] ** 2) / samples).sqrt()
    return every({
        "mixture": within_errors(mixture, mean, error=errors, k=4, why="mean over masks").drawn(
            Series(f"all {len(weights):,} masks, {average}", range(4), mixture[0]),
            Series(f"{samples:,} random masks", range(4), mean[0], "predicted", "points"),
            Series("one subnetwork: all units", range(4), logits[-1, 0].softmax(0), "other",
                   "points"),
            x="class", y="probability",
        ),
        "variance": within_errors(
            variance, moments[0], error=unsure, k=4, why="variance over masks"
        ),
        "probabilities": equal_to_rounding(weights, law),
        "their sum": equal(weights.sum(), 1, tol=1e-14, why="rounding of a sum of positive terms"),
        "some units": equal_to_rounding(*_some_units(net, x, 0.9, keep)),
        "masks for each input": equal(
            [usual / 2, sum(seen) / 2], [100, samples + 100], tol=0, why="a count"
        ),
        "drawn where it is said": equal(
            [torch.equal(few[0], few[1]), torch.equal(few[0], few[2])], [True, False], tol=0,
            why="one state of the generator, and another",
        ),
        "torch's generator, by default": equal_to_rounding(
            torch.stack(usual_draws), torch.stack([rows.mean(dim=0), rows.var(dim=0)])
        ),
    })


@torch.no_grad()
def _some_units(
    net: nn.Sequential, x: Tensor, keep_input: float, keep: float
) -> tuple[Tensor, Tensor]:
    """Enumerate the last hidden unit and the second input, and compute the same by hand."""
    mlp, by_hand = cast(MLP, net[1]), []
    hidden = mlp.sizes[1]
    outputs, weights = enumerate_subnets(net, x, [2 + hidden, 1])
    for first, second in itertools.product((0, 1), repeat=2):  # the last one runs fastest
        h, seen = x.new_ones(hidden), x.new_ones(3)
        h[-1], seen[1] = second / keep, first / keep_input
        by_hand.append(mlp.layers[1](torch.tanh(mlp.layers[0](x * seen)) * h))
    law = [a * b for a in (1 - keep_input, keep_input) for b in (1 - keep, keep)]
    return (torch.cat([outputs.flatten(), weights]),
            torch.cat([torch.stack(by_hand).flatten(), weights.new_tensor(law)]))


@claim(
    control={"form": "printed"},
    refutes=["subnetworks", "2^R", "different functions"],
    source="binomial theorem; Srivastava et al. 2014, sec. 1",
    misprint=r"$\sum_{i=1}^n\binom ni=2^n$",
)
def subnet_count(
    seed: Seed, *, units: Annotated[int, Range(1, MOST_UNITS)] = 5,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""$R$ units give $2^R=\sum_{i=0}^R\binom Ri$ subnetworks, one of which has no unit at all."""
    rng = seed.torch()
    counter, any_net = (
        with_dropout([1, units, 1], keep_input=1.0, activation=name, rng=rng).double()
        for name in ("identity", "tanh")
    )
    for layer in cast(MLP, counter[1]).layers:
        nn.init.ones_(layer.weight)
    kept = enumerate_subnets(counter, torch.full((1, 1), 0.5).double())[0]  # each counts 0.5 / π
    of_size = kept.flatten().round().long().bincount(minlength=units + 1)
    binomials = [math.comb(units, i) for i in range(units + 1)]
    functions = enumerate_subnets(any_net, randn(rng, 1, 1))[0].unique()
    total = sum(binomials[form == "printed":])
    return every({
        "subnetworks": equal(len(kept), total, tol=0, why="a count").drawn(
            Series("subnetworks", range(units + 1), of_size, style="bars"),
            Series("binomial coefficient", range(units + 1), binomials, "predicted", "points"),
            x="units that are kept", y="subnetworks",
        ),
        "2^R": equal(total, 2**units, tol=0, why="the binomial theorem"),
        "of each size": equal(of_size, binomials, tol=0, why="a count"),
        "different functions": equal(len(functions), total, tol=0, why="a count"),
    })


@claim(
    control={"form": "printed"},
    refutes=["scaled weights"],
    source="Srivastava et al. 2014, sec. 1, fig. 2; Baldi and Sadowski 2013",
    misprint="drop with probability $\\pi$, then scale by the dropout probability",
)
def scaling_is_exact_for_linear(
    seed: Seed, *, keep: Often = 0.8, hidden: Annotated[int, Range(1, 8)] = 6,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""Linear: $\tilde w_{ij}=\pi_jw_{ij}$, $\pi$ of keeping, is the mean over all subnetworks.

    Args:
        keep: Probability π that an input is kept.
        form: Scaled by the probability of keeping, or, as misprinted, by that of dropping.
    """
    rng = seed.torch()
    first, second, x = randn(rng, hidden, 4), randn(rng, 3, hidden), randn(rng, 50, 4)
    classic = nn.Sequential(
        ClassicDropout(keep), _linear(first), ClassicDropout(0.5), _linear(second)
    )
    scaled = scale_weights(classic).eval()
    outputs, weights = enumerate_subnets(classic, x)
    mean = torch.tensordot(weights, outputs, dims=1)
    factor = keep if form == "correct" else 1 - keep
    by_hand = x @ (factor * first).mT @ (0.5 * second).mT
    net = with_dropout([4, hidden, 3], keep_input=keep, activation="identity", rng=rng).double()
    subnets = torch.tensordot(weights, enumerate_subnets(net, x)[0], dims=1)
    tol = 1e-13 * (1 + float(outputs.abs().max()))
    return every({
        name: equal(*both, tol=tol, why="an identity: float64 rounding of sums of outputs")
        for name, *both in (
            ("scaled weights", by_hand, mean), ("scale_weights", scaled(x), mean),
            ("scale_weights, each subnetwork", enumerate_subnets(scaled, x)[0], outputs),
            ("ClassicDropout", classic.eval()(x), mean), ("MLP", net.eval()(x), subnets),
            ("all units", outputs[-1], x @ first.mT @ second.mT),
        )
    }).drawn(
        Series("the ten likeliest subnetworks", *_spread(outputs, weights), "gray", "points"),
        Series("mean of all", range(10), mean[:10, 0], "measured", "points"),
        Series("scaled weights", range(10), by_hand[:10, 0], "predicted", "line"),
        Series("all units, unscaled", range(10), outputs[-1, :10, 0], "bound", "line"),
        x="sample", y="output",
    )


def _spread(outputs: Tensor, weights: Tensor) -> tuple[list[int], Tensor]:
    """Give the samples and outputs of the ten likeliest subnetworks, for ten samples."""
    likely = weights.topk(10).indices
    return [*range(10)] * 10, outputs[likely, :10, 0].flatten()


def _linear(weight: Tensor) -> nn.Linear:
    layer: Any = nn.utils.skip_init(nn.Linear, weight.shape[1], len(weight), bias=False)
    layer.weight = nn.Parameter(weight, requires_grad=False)
    return layer


@claim(
    control=[
        Control({"depth": 0}, ["off"], "a linear network"),
        Control({"factor": "1/π"}, ["less than the spread"], "no scaling"),
        Control({"factor": "(1 - π)/π"}, ["less than the spread"], "by the share that is dropped"),
    ],
    source="Srivastava et al. 2014, sec. 7.5; Baldi and Sadowski 2013",
)
def scaling_is_approximate_for_deep(
    seed: Seed, *, depth: Annotated[int, Range(0, 4)] = 2,
    width: Annotated[int, Range(32, 128)] = 64, units: Annotated[int, Range(6, 12)] = 10,
    factor: Literal["1", "1/π", "(1 - π)/π"] = "1",
) -> Evidence:
    """ReLU: the scaled net is not the mean over masks, but off by a third of one mask's spread."""
    net = _digits_net(seed, [64, *[width] * depth, 10], epochs=10).double()
    x = digits()[2].flatten(1)[:20].double()
    some = torch.randperm(64 + width * depth, generator=seed.torch())[:units].tolist()
    outputs, weights = enumerate_subnets(net, x, some)
    mean = torch.tensordot(weights, outputs, dims=1)
    spread = torch.tensordot(weights, (outputs - mean) ** 2, dims=1).mean().sqrt()
    times = {"1": lambda pi: 1, "1/π": lambda pi: 1 / pi, "(1 - π)/π": lambda pi: (1 - pi) / pi}
    drops = [one for one in net.modules() if isinstance(one, nn.Dropout)]
    louder = [torch.full((1, 1), times[factor](1 - one.p)).to(x) for one in drops]
    with evaluated(net), torch.no_grad(), multiplied(drops, louder):
        scaled = net(x[None])[0]
    average, variance = mc_dropout(net, x, 1000, rng=seed.child("masks").torch())
    gaps = torch.stack([(scaled - one).square().mean().sqrt() for one in (mean, average)])
    gaps = gaps / torch.stack([spread, variance.mean().sqrt()])
    ends = [float(scaled.min()), float(scaled.max())]
    return every({
        "off": at_least(gaps[0], 0.01, why="a hundredth of the spread: far above rounding").drawn(
            Series("mean over masks, ± spread", scaled[:4].flatten(), average[:4].flatten(),
                   error=variance[:4].sqrt().flatten()),
            Series("equal", ends, ends, "predicted"),
            x="logit of the scaled network", y="logit of subnetworks",
        ),
        "less than the spread": at_most(
            gaps, 1 / 3, why="the statement: a third of one mask's standard deviation"
        ),
    })


def _digits_net(
    seed: Seed, sizes: Sequence[int], *, epochs: int, keeps: tuple[float, float] = COURSE
) -> nn.Sequential:
    """Train a network on the embedded digits; `keeps` are for inputs and hidden units."""
    x, y, *_ = digits()
    rng = seed.child("init").torch()
    net = with_dropout(sizes, keep_input=keeps[0], keep_hidden=keeps[1], rng=rng)
    fit(
        net, (x.flatten(1), y), Supervised(F.cross_entropy),
        torch.optim.Adam(net.parameters(), fused=True), epochs=epochs, batch_size=128,
        callbacks=[OneCycle(0.01)], seed=seed,
    )
    return net


@claim(
    control={"form": "printed"}, source="Goodfellow, Bengio and Courville 2016, sec. 7.12",
    misprint=r"$\sqrt[d]{\prod_\mu P(\mu)P(y\mid x,\mu)}$, with $d$ units", headline=True,
    sees="Bars of the geometric mean end at the scaled network, not at the arithmetic mean.",
)
def scaling_is_geometric_mean(
    seed: Seed, *, dim: Annotated[int, Range(2, 12)] = 8,
    classes: Annotated[int, Range(2, 10)] = 4, keep: Often = 0.8,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""Softmax regression: the scaled network is $\prod_bp(y\mid x,b)^{p(b)}$, renormalized."""
    rng = seed.torch()
    net, x = with_dropout([dim, classes], keep_input=keep, rng=rng).double(), randn(rng, 20, dim)
    logits, weights = enumerate_subnets(net, x)
    scaled = net.eval()(x).softmax(dim=-1)
    geometric = geometric_ensemble(logits, weights)
    if form == "printed":  # the factors P(μ) are the same for all classes
        geometric = (logits.log_softmax(dim=-1).sum(dim=0) / dim).softmax(dim=-1)
    rows = range(1, classes + 1)
    return equal(
        geometric, scaled, tol=1e-13, why="an identity: float64 rounding of sums of logits"
    ).named("probabilities of the geometric mean").drawn(
        Series("geometric mean", rows, geometric[0], style="bars"),
        Series("scaled weights", rows, scaled[0], "predicted", "points"),
        Series("arithmetic mean", rows, arithmetic_ensemble(logits, weights)[0], "other", "points"),
        x="class", y="probability",
    )


@claim(control={"penalty": "w²"}, source="Srivastava et al. 2014, sec. 9.1; Wager et al. 2013")
def dropout_is_adaptive_ridge(
    seed: Seed, *, dim: Annotated[int, Range(1, 10)] = 4,
    samples: Annotated[int, Range(2, 100)] = 20,
    penalty: Literal["(X'X) w²", "w²"] = "(X'X) w²",
) -> Evidence:
    r"""$E\Vert y-(X\odot B)w\Vert^2=\Vert y-\pi Xw\Vert^2+\pi(1-\pi)\sum_j(X^\top X)_{jj}w_j^2$."""
    rng = seed.torch()
    X, w, y = randn(rng, samples, dim), randn(rng, 1, dim), randn(rng, samples)
    prices = X.square().sum(dim=0) if penalty == "(X'X) w²" else torch.ones(dim)
    keeps = torch.linspace(0.1, 0.9, 9, dtype=torch.float64)
    risks, shares = [], []
    for keep in keeps.tolist():
        masked, weights = enumerate_subnets(nn.Sequential(ClassicDropout(keep), _linear(w)), X)
        risks.append(weights @ (y - masked[..., 0]).square().sum(dim=1))
        fit_term = (y - keep * X @ w[0]).square().sum()
        shares.append((fit_term, keep * (1 - keep) * (prices * w[0] ** 2).sum()))
    risk, (square, price) = torch.stack(risks), torch.tensor(shares, dtype=torch.float64).T
    return equal(
        risk, square + price, tol=1e-12 * (1 + float(risk.abs().max())),
        why="an identity: float64 rounding",
    ).named("squared error, mean over all masks").drawn(
        Series("mean over all masks", keeps, risk),
        Series("residual + penalty", keeps, square + price, "predicted"),
        Series("residual", keeps, square, "other"), Series("penalty", keeps, price, "other"),
        x="probability π of keeping an input", y="squared error",
    )


@claim(control={"training": "plain"}, source="Hinton et al. 2012; Srivastava et al. 2014, sec. 7.1")
def dropout_breaks_coadaptation(
    seed: Seed, *, cut: Annotated[float, Range(0.3, 0.7)] = 0.5,
    width: Annotated[int, Range(64, 192)] = 128, epochs: Annotated[int, Range(20, 60)] = 40,
    training: Literal["dropout", "plain"] = "dropout",
) -> Evidence:
    """A network trained with dropout loses less when half of its hidden units are cut."""
    sizes, cuts = [64, width, width, 10], 20
    arms = COURSE if training == "dropout" else PLAIN, PLAIN
    nets = {keeps: _digits_net(seed, sizes, epochs=epochs, keeps=keeps) for keeps in arms}
    *_, x, y = digits()
    shares = torch.tensor([*(k / 10 for k in range(10)), cut])
    with_dropout, without = (
        torch.stack([
            cut_accuracy(nets[keeps], x.flatten(1), y, share, cuts, seed.child("cuts").torch())
            for share in shares.tolist()
        ])
        for keeps in arms
    )  # (shares, cuts), the same cuts in both
    gain = with_dropout[-1] - without[-1]
    return at_least(
        gain.mean() - 3 * standard_error(gain), 1 / len(y),
        why="3 standard errors over cuts below the mean gain; less than one digit is no gain",
        detail=f"{with_dropout[-1].mean():.3f} against {without[-1].mean():.3f}",
    ).named("gain in accuracy, less 3 standard errors").drawn(
        Series(f"trained with {training}", shares[:-1], with_dropout[:-1].mean(dim=1),
               error=with_dropout[:-1].std(dim=1)),
        Series("trained plainly", shares[:-1], without[:-1].mean(dim=1), "other", "points",
               error=without[:-1].std(dim=1)),
        x="share of hidden units that is cut", y="test accuracy",
    )


@torch.no_grad()
def cut_accuracy(
    net: nn.Sequential, x: Tensor, y: Tensor, share: float, cuts: int, rng: torch.Generator
) -> Tensor:
    """Measure the accuracy, for several random cuts, without a share of each hidden layer.

    What is left speaks louder, so that the sums stay as large as they were.
    """
    masks, mlp = [], cast(MLP, net[1])
    for n in mlp.sizes[1:-1]:
        order = torch.rand(cuts, n, generator=rng).argsort(dim=1).argsort(dim=1)
        kept = (order >= round(share * n)).float()
        masks.append(kept / kept.mean(dim=1, keepdim=True))
    with evaluated(net), multiplied([mlp.phi], masks):
        return (net(x.expand(cuts, *x.shape)).argmax(dim=-1) == y).double().mean(dim=1)

r"""Stochastic gradient descent: what is true of it, and what would refute it.

Knobs:
    samples: Samples in the training set, N.
    batch: Samples that a step averages over, K.
    dim: Inputs of the linear model, each with a weight.
    reduction: How the losses of a batch are joined; the sum is K times too large.
    size: Samples in a batch.
    draws: Batches that are drawn.
    shifted: The share of samples from another population than that of the risk.
    factor: What V/K is multiplied by without replacement; 1 forgets that samples run out.
    alpha: How fast steps fall, as t to the power -α; only between 1/2 and 1 both sums behave.
    sigma: Standard deviation of the noise in a gradient or a target.
    curvature: The largest curvature of the bowl.
    runs: Independent runs that are averaged.
    steps: Steps of a run.
    step: How step sizes fall; constant ones never settle.
    longest: Steps of the longest run.
    instance: What is minimized; a quadratic is easier than the worst case, which is linear.
    lr: The step size η.
    formula: The variance that is foretold; without its second factor it fits small steps only.
    label_noise: Standard deviation of noise in the targets; with any, no weights fit every sample.
    epochs: Passes over the samples.
    order: The order in which samples come; sorted is class by class, replacement may repeat one.
    networks: Networks trained in each order.
    of: Whose gradients are compared; those of the mean loss are smaller by the number of samples.
    theta: Whether weights are fitted to the samples; fixed ones do as well on fresh samples.
"""

import itertools
import math
from typing import Annotated, Any, Literal

import numpy as np
import torch
from scipy.stats import uniform
from torch import Tensor, nn
from torch.func import grad_and_value, vmap
from torch.nn import functional as F
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from principia.lab.data.digits import digits
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
    follows,
    mean_is,
    never,
    slope,
    standard_error,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.pictures import Matrix
from principia.lab.seeds import Seed
from principia.networks.mlp import MLP
from principia.optimization.claims.problems import cloud
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import LogisticRisk, Problem, Quadratic, noisy
from principia.optimization.sgd import (
    Order,
    ParallelMLP,
    SampledSquares,
    Slopes,
    batches,
    empirical_risk,
    gradient_variance,
    per_sample_gradients,
    zero_one_risk,
)

Dim = Annotated[int, Range(2, 10)]
Draws = Annotated[int, Range(20_000, 50_000)]
Size = Annotated[float, Range(0.1, 10)]


@claim(
    control={"reduction": "sum"}, source="Robbins and Monro 1951; Cochran 1977, theorem 2.1",
    refutes=["gradient", "value", "rows that draw their own", "their variance, with noisy targets"],
)
def minibatch_gradient_is_unbiased(
    seed: Seed, *, samples: Annotated[int, Range(6, 13)] = 9,
    batch: Annotated[int, Range(2, 5)] = 4, dim: Dim = 3, reduction: Literal["mean", "sum"] = "mean"
) -> Evidence:
    r"""$E_{S_K}[\nabla h(S_K)]=\nabla h(S_N)$ and $E[h(S_K)]=h(S_N)$, for any number $K$."""
    model, x, y = _logistic(seed, samples, dim)
    (w,), sets = model.weight.detach(), _subsets(samples, batch)

    def batch_loss(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(x @ w, y, reduction=reduction)

    gradients, values = vmap(grad_and_value(batch_loss), in_dims=(None, 0, 0))(w, x[sets], y[sets])
    risk = LogisticRisk(x, y)
    exact, alone = risk.gradient(w), per_sample_gradients(model, _log_loss, x, y)
    why = "a mean over all subsets, nothing is drawn: float64 rounding"
    squares = SampledSquares(x, y, batch, label_noise=0.5, rng=seed.child("rows").torch())
    squares, hill = squares.at(w.expand(20_000, -1)), Slopes(w)
    squares().sum().backward()
    slopes = squares.theta.grad * (batch if reduction == "sum" else 1)  # type: ignore[operator]
    per, why_drawn = (x @ w - y)[:, None] * x, "a mean over the rows"
    noisy_by = (0.25 * x.square().sum(dim=1).mean() + gradient_variance(per)) / batch
    apart = (slopes - per.mean(dim=0)).square().sum(dim=1)
    return every({
        "gradient": equal(gradients.mean(dim=0), exact, tol=1e-14, why=why),
        "value": equal(values.mean(), risk.value(w), tol=1e-14, why=why),
        "batches of one": equal(alone.mean(dim=0), exact, tol=1e-14, why=why),
        "rows that draw their own": mean_is(slopes, per.mean(dim=0), why=why_drawn),
        "their variance, with noisy targets": mean_is(apart, noisy_by, why=why_drawn),
        "all samples at once": equal_to_rounding(
            torch.cat([SampledSquares(x, y)(), squares.value(w)[None], hill(), hill.value(x)]),
            torch.cat([(torch.stack([y, x @ w - y]) ** 2).mean(dim=1) / 2, 0 * w[:1], x @ w])),
    }).drawn(*cloud(gradients, exact), x="first slope", y="second slope")


def _logistic(seed: Seed, samples: int, dim: int) -> tuple[nn.Linear, Tensor, Tensor]:
    rng = seed.torch()
    return _line(randn(rng, dim)), randn(rng, samples, dim), torch.arange(samples).double() % 2


def _line(weights: Tensor) -> nn.Linear:
    line = nn.Linear(len(weights), 1, bias=False, device="meta")
    line.weight = nn.Parameter(weights.detach()[None])
    return line


def _subsets(n: int, size: int) -> Tensor:
    return torch.tensor(list(itertools.combinations(range(n), size)))


def _log_loss(outputs: Tensor, y: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(outputs[:, 0], y)


@claim(control={"shifted": 0.5}, source="Bottou, Curtis and Nocedal 2018, sec. 2.2")
def risk_gradient_is_expectation(
    seed: Seed, *, size: Annotated[int, Range(1, 64)] = 8, dim: Dim = 3, draws: Draws = 20_000,
    shifted: Annotated[float, Range(0, 1)] = 0.0,
) -> Evidence:
    r"""$\nabla R=E_S[\nabla R(S)]$ if the samples $S$ are of the population of the risk $R$."""
    rng = seed.torch()
    (truth, theta), spread = randn(rng, 2, dim), 0.5 + torch.rand(dim, generator=rng)
    moved = torch.rand(draws, size, 1, generator=rng) < shifted
    x = spread * randn(rng, draws, size, dim) + 1.5 * moved
    y = x @ truth + randn(rng, draws, size)
    rows = per_sample_gradients(_line(theta), F.mse_loss, x.flatten(0, 1), y.view(-1, 1))
    gradients = rows.view(*x.shape).mean(dim=1) / 2  # of half the mean of a set
    exact = spread**2 * (theta - truth)
    found = mean_is(gradients, exact, k=4, why="mean over the sets of samples")
    found = found.drawn(*cloud(gradients, exact), x="first slope", y="second slope")
    return found.named("mean gradient of a batch")


@claim(control={"factor": "1"}, refutes=["without replacement"], source="Cochran 1977, theorem 2.2")
def variance_falls_as_one_over_batch(
    seed: Seed, *, samples: Annotated[int, Range(4, 12)] = 9, dim: Dim = 3, draws: Draws = 20_000,
    factor: Literal["(N - K) / (N - 1)", "1"] = "(N - K) / (N - 1)",
) -> Evidence:
    r"""Batches vary by $V/K$ with replacement, by $\frac VK\frac{N-K}{N-1}$ without it."""
    model, x, y = _logistic(seed, samples, dim)
    gradients = per_sample_gradients(model, _log_loss, x, y)
    V, center = gradient_variance(gradients), gradients.mean(dim=0)

    def spread(sets: Tensor) -> Tensor:
        return (gradients[sets].mean(dim=1) - center).square().sum(dim=1)

    K = torch.arange(1, samples + 1, dtype=torch.float64)
    without = torch.stack([spread(_subsets(samples, int(size))).mean() for size in K])
    predicted = V / K * (1 if factor == "1" else (samples - K) / (samples - 1))
    rng, sizes = seed.child("draws").torch(), 2 ** torch.arange(7)
    drawn = torch.stack([
        spread(torch.randint(samples, (draws, k), generator=rng)) for k in sizes.tolist()], dim=1)
    why = "a mean over all subsets: float64 rounding"
    return every({
        "without replacement": equal(without, predicted, tol=1e-12, why=why),
        "with replacement": mean_is(drawn, V / sizes, why="a mean over the batches"),
    }).drawn(Series("without replacement", K, without), Series("law", K, predicted, "predicted"),
             Series("with replacement", sizes, drawn.mean(dim=0), "orange", "points"),
             Series("V / K", sizes, V / sizes, "orange"), x="batch size K", y="variance", log="x")


@claim(
    control=[
        Control({"alpha": 0.5}, ["noise, one decade to the next"], "steps that fall too slowly"),
        Control({"alpha": 1.5}, ["way of a decade"], "steps that fall too fast"),
    ], source="Robbins and Monro 1951",
    misprint=r"$\eta_t=1/\sqrt t$ satisfies both conditions of Robbins and Monro",
)
def robbins_monro_window(
    seed: Seed, *, alpha: Annotated[float, Range(0.5, 1.5)] = 0.75, sigma: Size = 1.5,
) -> Evidence:
    r"""Steps $t^{-\alpha}$ go any distance, and their noise settles, iff $1/2<\alpha\le1$."""
    walk = noisy(Slopes(torch.ones(1).double()).at(torch.zeros(4000, 1)), sigma, seed.torch())
    sgd, at = SGD(walk.parameters(), lr=1.0), [10, 100, 1000]
    falling = LambdaLR(sgd, lambda t: (t + 1) ** -alpha)
    points = descend(walk, sgd, 1000, schedule=falling, at=at, record=("theta",))["theta"]
    moves = points[..., 0].diff(dim=0)  # (decades, runs)
    steps = torch.arange(101, 1001, dtype=moves.dtype) ** -alpha  # of the last decade
    spread = moves.var(dim=1)
    return every({
        "way of a decade": at_least(
            -moves.mean(dim=1), math.log(10), slack=5 * standard_error(moves, 1) + 0.1,
            why="the integral of 1/t over a decade, without end; noise, and half a term at 10"),
        "noise, one decade to the next": at_most(
            spread[1:] / spread[:-1], 0.9, why="a geometric series bounds the rest; 2 % of noise"),
        "way, and its noise": mean_is(
            torch.stack([-moves[-1], (moves[-1] + steps.sum()) ** 2], dim=1),
            torch.stack([steps.sum(), sigma**2 * (steps**2).sum()]), why="a mean over the runs"),
    }).drawn(Series("way", at[1:], -moves.mean(dim=1)), Series("noise", at[1:], spread, "orange"),
             Series("least way for ever", at[1:], [math.log(10)] * 2, "bound"),
             x="end of a decade of steps", y="way of the decade, and its variance", log="xy")


@claim(control={"step": "constant"}, source="Bottou, Curtis and Nocedal 2018, theorem 4.7")
def rate_strongly_convex(
    seed: Seed, *, curvature: Size = 2.0, sigma: Size = 1.5,
    runs: Annotated[int, Range(4000, 8000)] = 4000,
    steps: Annotated[int, Range(1000, 10_000)] = 1000,
    step: Literal["1 / μt", "constant"] = "1 / μt",
) -> Evidence:
    r"""Strongly convex, $\eta_t=1/\mu t$: $E[h-h^*]=O(1/t)$; on a parabola $\sigma^2/2\mu t$."""
    bowl = noisy(Quadratic([curvature]).at(torch.ones(runs, 1)), sigma, seed.torch())
    optimizer = SGD(bowl.parameters(), lr=(0.5 if step == "constant" else 1) / curvature)
    falling = LambdaLR(optimizer, lambda t: 1.0 if step == "constant" else 1 / (t + 1))
    at = torch.logspace(math.log10(steps / 100), math.log10(steps), 21).round().long()
    gaps = descend(bowl, optimizer, steps, schedule=falling, at=at)["value"]
    exact = sigma**2 / (2 * curvature * steps)
    return every({
        "rate": slope(at.double(), gaps.mean(dim=1), -1, tol=0.04, labels=("t", "mean of h - h*"),
                      why="each mean of the runs is known to 1 or 2 %, over two decades"),
        "factor": mean_is(gaps[-1], exact, why="mean over the runs"),
    })


@claim(control={"instance": "quadratic"}, source="Agarwal et al. 2012; Nemirovski and Yudin 1983")
def rate_convex(
    seed: Seed, *, longest: Annotated[int, Range(1000, 10_000)] = 2000,
    runs: Annotated[int, Range(400, 1000)] = 400,
    instance: Literal["linear", "quadratic"] = "linear",
) -> Evidence:
    r"""Convex: on $x/\sqrt T$ over $[-1,1]$ a mean of $T$ steps is off by about $1/\sqrt T$."""
    T = torch.logspace(math.log10(longest / 100), math.log10(longest), 10).round().double()
    # column by column another horizon T, in u = x √T: steps of T^(-1/2) in x are steps of 1 in u
    problem: Problem = Quadratic(T**-0.5) if instance == "quadratic" else Slopes(T**-0.5)
    walk = noisy(problem.at(T.sqrt().expand(runs, -1)), 1.0, seed.torch())  # from x = 1
    total, average, count = torch.zeros_like(walk.theta), torch.zeros_like(walk.theta), 0

    def project_and_average() -> None:
        nonlocal count
        count += 1
        torch.clamp(walk.theta, -T.sqrt(), T.sqrt(), out=walk.theta.data)
        total.add_(walk.theta)
        average[:, count == T] = total[:, count == T] / count

    descend(walk, SGD(walk.parameters(), lr=1.0), longest, at=[0], after=project_and_average)
    x = average / T.sqrt()
    gaps = x**2 / 2 if instance == "quadratic" else (x + 1) / T.sqrt()
    return slope(
        T, gaps.mean(dim=0), -0.5, tol=0.03, labels=("steps T", "mean of h - h* of the average"),
        why="each mean of the runs is known to 2 or 3 %, and the wall is met at whole steps only",
    ).named("power of T in the mean gap")


@claim(control={"formula": "ησ² / λ"}, source="Bottou, Curtis and Nocedal 2018, sec. 4.2")
def constant_step_ball(
    seed: Seed, *, lr: Annotated[float, Range(0.1, 0.6)] = 0.3,
    curvature: Annotated[float, Range(1, 3)] = 2.0, sigma: Size = 1.5,
    batch: Annotated[int, Range(1, 256)] = 1,
    formula: Literal["ησ² / λ(2 - ηλ)", "ησ² / λ"] = "ησ² / λ(2 - ηλ)",
) -> Evidence:
    r"""A fixed $\eta$ ends in a ball of variance $\eta\sigma^2/K\lambda(2-\eta\lambda)$."""
    eigenvalues, runs = torch.tensor([curvature, curvature / 2], dtype=torch.float64), 20_000
    turn = torch.linalg.qr(randn(seed.child("axes").torch(), 2, 2)).Q
    bowl = Quadratic(eigenvalues, rotation=turn).at(torch.zeros(runs, 2))
    cloud = noisy(bowl, sigma / batch**0.5, seed.torch())
    at = [*range(10), *range(10, 60, 5), 100, 200, 300]
    trace = descend(cloud, SGD(cloud.parameters(), lr=lr), 300, at=at, record=("theta",))
    variance = (trace["theta"] @ turn).square().mean(dim=1)  # (times, directions); the mean is 0
    share = 1 if formula == "ησ² / λ" else 2 - lr * eigenvalues
    size = lr * sigma**2 / batch / eigenvalues / share
    return every({
        f"λ = {float(lam):g}": within_errors(
            variance[-1, i], size[i], error=(2 / runs) ** 0.5 * variance[-1, i], k=4,
            why="variance of independent Gaussian runs",
        ).drawn(
            Series("variance of the runs", at, variance[:, i]),
            x="step t", y=f"variance of θ where the curvature is {float(lam):g}")
        for i, lam in enumerate(eigenvalues)
    })


@claim(control={"label_noise": 0.1}, source="Strohmer and Vershynin 2009, theorem 2")
def interpolation_removes_the_ball(
    seed: Seed, *, samples: Annotated[int, Range(2, 10)] = 10,
    dim: Annotated[int, Range(50, 200)] = 50, batch: Annotated[int, Range(1, 10)] = 1,
    label_noise: Annotated[float, Range(0, 1)] = 0.0,
) -> Evidence:
    r"""If $\theta^*$ fits every sample, $V[\theta^*]=0$: constant steps converge linearly."""
    rng, runs = seed.torch(), 32
    X = F.normalize(randn(rng, samples, dim), dim=1)
    y = X @ randn(rng, dim)
    noise = {"label_noise": label_noise} if label_noise else {}
    problem = SampledSquares(X, y, batch, rng=rng, **noise).at(torch.zeros(runs, dim))
    at, sgd = range(0, 2001, 20), SGD(problem.parameters(), lr=1.0)
    gaps = descend(problem, sgd, 2000, at=list(at), iterate=lambda: problem.theta)["value"]
    eigenvalues = torch.linalg.eigvalsh(X @ X.mT) / samples
    nearest = torch.linalg.pinv(X) @ y  # the solution that steps from 0 lead to
    shrunk = (1 - eigenvalues[0]) ** torch.tensor(at)
    bound = eigenvalues[-1] / 2 * nearest.square().sum() * shrunk
    labels = y + label_noise * randn(rng, samples)
    mean, end = gaps.mean(dim=1), _line(problem.theta[0])
    left = gradient_variance(per_sample_gradients(end, F.mse_loss, X, labels[:, None]))
    return every({
        "gap after 2000 steps": at_most(gaps[-1], 1e-10, why="slower rates would leave more"),
        "linear rate": at_most(mean, bound, slack=1e-25, why="rounding of squares"),
        "variance of the gradients at the end": at_most(left, 1e-10, why="that of a gap of 1e-11"),
    }).drawn(Series("mean of the runs", at, mean), Series("bound", at, bound, "bound"),
             x="step t", y="h above its minimum", log="y")


@claim(
    control={"order": "replacement"}, refutes=["how often each is seen"],
    source="by construction; a coupon collector's count",
)
def permutation_sees_each_once(
    seed: Seed, *, samples: Annotated[int, Range(10, 2000)] = 100,
    size: Annotated[int, Range(1, 10)] = 8, epochs: Annotated[int, Range(20, 200)] = 100,
    order: Literal["permutation", "replacement"] = "permutation",
) -> Evidence:
    r"""An epoch is a partition, fresh each time; $N$ free draws see $1-(1-1/N)^N$ of it."""
    def dealt(order: Order, rng: torch.Generator) -> list[list[Tensor]]:
        return [list(batches(samples, size, order=order, rng=rng)) for _ in range(epochs)]

    ours, free = dealt(order, seed.torch()), dealt("replacement", seed.child("loose").torch())
    sizes = torch.tensor([[len(batch) for batch in epoch] for epoch in ours])
    whole = [size] * (samples // size) + [samples % size] * (samples % size > 0)
    rows, drawn = (torch.stack([torch.cat(epoch) for epoch in deal]) for deal in (ours, free))
    seen, expected = (_counts(drawn, samples) > 0).double(), 1 - (1 - 1 / samples) ** samples
    labels = torch.randint(3, (samples,), generator=seed.child("labels").torch())
    fixed, by_class = (torch.cat(list(batches(samples, size, order=one, labels=labels)))
                       for one in ("fixed", "sorted"))
    return every({
        "how often each is seen": equal(_counts(rows, samples), 1, tol=0, why="a count"),
        "sizes": equal(sizes, [whole] * epochs, tol=0, why="a count"),
        "an order comes again": never(
            (rows[1:] == rows[:-1]).all(dim=1), why="10! orders or more: chance 3e-7 at most"),
        "seen by free draws": mean_is(seen.mean(dim=1), expected, why="mean over the epochs"),
        "fixed, and class by class": equal(
            torch.cat([fixed, by_class]),
            np.append(np.arange(samples), np.argsort(labels.numpy(), kind="stable")), tol=0,
            why="NumPy's stable order"),
    }).drawn(Matrix(_counts(rows, samples)[:9, :24], low=0, high=4, written=True),
             x="sample", y="epoch; in it, how often the sample is seen")


def _counts(rows: Tensor, n: int) -> Tensor:
    return torch.zeros(len(rows), n, dtype=torch.long).scatter_add_(1, rows, torch.ones_like(rows))


@claim(control={"order": "permutation"}, refutes=["accuracy"], source="McCloskey and Cohen 1989")
def sorted_order_unlearns(
    seed: Seed, *, networks: Annotated[int, Range(1, 8)] = 3,
    epochs: Annotated[int, Range(4, 8)] = 5, lr: Annotated[float, Range(0.04, 0.1)] = 0.05,
    order: Order = "sorted",
) -> Evidence:
    """Class by class, the last class wipes out the others: 0.3 below a random order, or worse."""
    x, y, x_test, y_test = digits()
    x, x_test = x.flatten(1), x_test.flatten(1)
    orders: Any = [order] * networks + ["permutation"] * networks
    nets = ParallelMLP([64, 64, 64, 10], copies=len(orders), rng=seed.torch())
    first = torch.cat([one.detach().flatten() * layer.weight.shape[2] ** 0.5
                       for layer in nets.layers for one in layer.parameters()])
    rngs = [seed.child(f"batches {number}").torch() for number in range(len(orders))]
    optimizer = SGD(nets.parameters(), lr=lr)
    for _ in range(epochs):
        dealt = (batches(len(x), 16, order=chosen, rng=rng, labels=y)
                 for chosen, rng in zip(orders, rngs, strict=True))
        for rows in map(torch.stack, zip(*dealt, strict=True)):  # (networks, 16)
            optimizer.zero_grad()
            losses = F.cross_entropy(nets(x[rows]).mT, y[rows], reduction="none")
            losses.mean(dim=1).sum().backward()
            optimizer.step()
    tests = [(x_test[y_test == digit], y_test[y_test == digit]) for digit in range(10)]
    nets_alone = [_alone(nets, number) for number in range(len(orders))]
    right = [[1 - zero_one_risk(net, test) for test in tests] for net in nets_alone]
    by_order, mixed = torch.tensor(right).view(2, networks, 10)  # the classes are of one size
    outputs = torch.cat([nets(x[:7]), nets(x[:7].expand(len(orders), 7, 64))]).detach()
    alone = torch.stack([net(x[:7]) for net in nets_alone] * 2)
    return every({
        "accuracy": at_most(by_order.mean(), mixed.mean() - 0.3, why="0.1, against 0.8").drawn(
            Series(f"order: {order}", range(10), by_order.mean(dim=0), style="bars"),
            Series("permutation", range(10), mixed.mean(dim=0), "other", "bars"),
            x="digit", y="accuracy on test digits"),
        "networks side by side, and alone": equal(outputs, alone, tol=1e-4, why="float32"),
        "first weights": follows(first, uniform(-1, 2), why="drawn one by one, between ±1/√n"),
    })


def _alone(nets: ParallelMLP, number: int) -> MLP:
    sizes = [nets.layers[0].weight.shape[2], *(layer.weight.shape[1] for layer in nets.layers)]
    net = MLP(sizes, activation=nets.activation, rng=torch.Generator())
    for one, many in zip(net.layers, nets.layers, strict=True):
        one.weight.data, one.bias.data = many.weight.data[number], many.bias.data[number, 0]
    return net


@claim(control={"of": "the mean loss"}, refutes=["one by one"], source="by definition",
       no_figure="gradients asked for one by one are the same numbers, to rounding")
def per_sample_gradients_are_autograds(
    seed: Seed, *, samples: Annotated[int, Range(3, 50)] = 6,
    of: Literal["each loss", "the mean loss"] = "each loss",
) -> Evidence:
    r"""Each row is the gradient of one sample's loss, and a risk is the mean of these losses."""
    rng, found, alone = seed.torch(), [], []
    ends = nn.utils.skip_init(nn.Conv2d, 1, 2, 3), nn.utils.skip_init(nn.Linear, 8, 3)
    images = nn.Sequential(ends[0], nn.BatchNorm2d(2), nn.Flatten(), ends[1])
    images = drawn_anew(images, rng).eval()
    net = MLP([4, 7, 3], activation="tanh", rng=rng).double()
    x, y = randn(rng, samples, 4), torch.arange(samples) % 3
    rough = nn.Sequential(net, nn.Dropout())
    for model, loss, inputs, target in (
        (images, F.cross_entropy, randn(rng, samples, 1, 4, 4), y), (net, F.cross_entropy, x, y),
        (net, lambda out, y: (out - y).exp(), x, randn(rng, samples, 3)),  # three losses a sample
    ):
        found.append(per_sample_gradients(model, loss, inputs, target))
        for k in range(samples):
            value = loss(model(inputs[k : k + 1]), target[k : k + 1]).sum()
            alone += [one.flatten() for one in torch.autograd.grad(value, [*model.parameters()])]
    share, outputs = 1 if of == "each loss" else samples, net(x).detach()
    risks = [empirical_risk(rough, (x, y), F.cross_entropy), zero_one_risk(rough, (x, y))]
    means = [F.cross_entropy(outputs, y), (outputs.argmax(dim=1) != y).double().mean()]
    rows, many = torch.cat([one.flatten() for one in found]), randn(rng, 2, 5, 3)
    return every({
        "one by one": equal_to_rounding(rows, torch.cat(alone) / share),
        "risks, and the mode of the model": equal_to_rounding(
            [*risks, rough.training, rows.requires_grad], [*map(float, means), True, False]),
        "variance": equal_to_rounding(gradient_variance(many), many.numpy().var(1).sum(1)),
    })


@claim(control={"theta": "fixed"}, refutes=["train", "test"], source="Breiman and Freedman 1983")
def empirical_risk_is_optimistic(
    seed: Seed, *, samples: Annotated[int, Range(50, 100)] = 60,
    dim: Annotated[int, Range(4, 30)] = 20, sigma: Size = 1.0,
    theta: Literal["fitted", "fixed"] = "fitted",
) -> Evidence:
    r"""Of a fit: $E[train]=\sigma^2(1-\frac dN)$, $E[test]=\sigma^2(1+\frac d{N-d-1})$."""
    rng, sets, risks, weights = seed.torch(), 4000, [], torch.zeros(())
    X = randn(rng, 2, sets, samples, dim)  # to train with, and fresh ones
    truth = torch.eye(dim, dtype=X.dtype)[0]  # of the first column, so that every fit can have it
    y = torch.stack([inputs @ truth + sigma * randn(rng, sets, samples) for inputs in X])
    d = torch.linspace(1, dim, 4, dtype=torch.float64).round()
    for used in d.int().tolist():
        A, weights = X[0, ..., :used], torch.zeros(sets, used, 1, dtype=X.dtype)
        if theta == "fitted":
            weights = torch.linalg.solve(A.mT @ A, A.mT @ y[0, ..., None])
        risks.append((y - (X[..., :used] @ weights)[..., 0]).square().mean(dim=-1))
    found = torch.stack(risks, dim=1)  # (train or test, dims, sets)
    exact = sigma**2 * torch.stack([1 - d / samples, 1 + d / (samples - d - 1)])
    line = _line(weights[0, :, 0])
    alone = [empirical_risk(line, (X[k, 0], y[k, 0, :, None]), F.mse_loss) for k in (0, 1)]
    why = "mean over the sets of samples"
    return every({
        "train": mean_is(found[0], exact[0], axis=1, k=4, why=why),
        "test": mean_is(found[1], exact[1], axis=1, k=4, why=why),
        "one set alone": equal(alone, found[:, -1, 0], tol=1e-10, why="float64 rounding"),
    }).drawn(Series("train", d, found[0].mean(dim=1)), Series("E[train]", d, exact[0], "blue"),
             Series("test", d, found[1].mean(dim=1), "orange", "points"),
             Series("E[test]", d, exact[1], "orange"), x="inputs d", y="mean squared error")

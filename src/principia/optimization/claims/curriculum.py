r"""Curriculum: what is true of it, and what would refute it.

Knobs:
    sigma: Width of the Gaussian cloud over which a function is averaged; narrow ones leave
        dents.
    dim: Coordinates of a point.
    samples: Points of the cloud, or samples of the data.
    exponent: The exponent of the closed form; without the square of the width it is wrong.
    grid: Points of half a period at which the curvature is measured.
    starts: Random starts.
    sigmas: Widths of the cloud, one after the other; 0 alone is plain descent, which gets
        stuck.
    draws: How many samples are drawn.
    start: Share of the samples that is shown at first.
    reached: How far the lessons get; short of 1, hard samples are left out or rare.
    pairs: Pairs of networks, one taught by difficulty and one at random.
    noise: Noise of the noisiest digit.
    target: Accuracy that is to be reached.
    difficulty: What samples are ordered by; at random, both networks of a pair learn alike.
    depth: Hidden layers of the network.
    pretrain_steps: Steps in which each layer is pretrained; without, all networks start at
        random.
    steps: Steps of training with labels.
    copies: Networks that learn side by side.
"""

import copy
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

import numpy as np
import torch
from scipy.stats import chisquare
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Adam, Optimizer

from principia.lab.data.digits import digits
from principia.lab.draws import randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
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
from principia.networks.mlp import MLP
from principia.optimization.curriculum import (
    SIGMAS,
    WAVE,
    Ackley,
    Continuation,
    Curriculum,
    DenoisingAutoencoder,
    Rastrigin,
    pretrain,
    ramp,
    smoothed,
    transfer,
)
from principia.optimization.sgd import ParallelMLP

Sigmas = tuple[Annotated[float, Range(0, 10)], ...]
CONVEX = math.sqrt(math.log(WAVE / 2) / (2 * math.pi**2))  # where the smoothing of Rastrigin is


@claim(
    control={"exponent": "2π²σ"}, refutes=["mean over the cloud"],
    source="Mobahi and Fisher 2015; characteristic function",
)
def smoothing_closed_form(
    seed: Seed, *, sigma: Annotated[float, Range(0.05, 0.9)] = 0.3,
    dim: Annotated[int, Range(1, 4)] = 2, samples: Annotated[int, Range(1000, 200_000)] = 100_000,
    exponent: Literal["2π²σ²", "2π²σ"] = "2π²σ²",
) -> Evidence:
    r"""$E[h(x+\sigma\xi)]=\sum x_i^2+\sigma^2-10e^{-2\pi^2\sigma^2}\cos2\pi x_i+10$, Rastrigin."""
    rng = seed.torch()
    x = 5 * (2 * torch.rand(50, dim, generator=rng, dtype=torch.float64) - 1)
    cloud = smoothed(Rastrigin(dim), sigma, samples + samples % 2, rng)
    exact = smoothed(Rastrigin(dim), sigma)
    if exponent == "2π²σ":
        exact.fading = math.exp(-2 * math.pi**2 * sigma)  # type: ignore[assignment]
    pairs = torch.cat([cloud.pairs(some) for some in x.split(5)])  # type: ignore[operator]
    line = torch.linspace(-2, 2, 161, dtype=torch.float64)
    along = torch.cat([line[:, None], torch.zeros(len(line), dim - 1)], dim=1)
    few = smoothed(Rastrigin(dim), sigma, 2000, seed.child("picture").torch())
    return every({
        "mean over the cloud": mean_is(
            pairs, exact.value(x), axis=1, k=4, why="independent pairs of opposite points",
        ).drawn(
            Series("h", line, Rastrigin(dim).value(along), "other"),
            Series("mean over 2,000 points", line[::4], few.value(along[::4])),
            Series("closed form", line, exact.value(along), "predicted"),
            x="x₁, the others 0", y="objective and its smoothing",
        ),
        "sampled value": equal_to_rounding(cloud.value(x[:5]), pairs[:5].mean(dim=1)),
        "smoothing twice": equal_to_rounding(
            smoothed(smoothed(Rastrigin(dim), 0.6 * sigma), 0.8 * sigma).value(x),
            smoothed(Rastrigin(dim), sigma).value(x),
        ),
    })


@claim(
    control={"sigma": 0.4}, refutes=["smallest second derivative"],
    source="Mobahi and Fisher 2015, by the second derivative",
)
def smoothing_convexifies(
    seed: Seed, *, sigma: Annotated[float, Range(0.3, 2)] = 0.52,
    grid: Annotated[int, Range(100, 10_000)] = 1000,
) -> Evidence:
    r"""Rastrigin's $h_\sigma$ is convex iff $\sigma\ge\sqrt{\ln(20\pi^2)/2\pi^2}\approx0.517$."""
    x = torch.linspace(0, 1, 2 * grid + 1, dtype=torch.float64)  # a period, with its middle
    low, high = 0.1, 2.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if float(_curvature(middle, x).min()) >= 0 else (middle, high)
    here = _curvature(sigma, x)
    drawn = [Series(f"σ = {one:g}", x, _curvature(one, x), "other", "line")
             for one in (0.4, 0.45, 0.5, 0.6)]
    return every({
        "smallest second derivative": at_least(
            here.min(), 0, slack=1e-9, why="float64 rounding of derivatives of size 400"
        ).drawn(
            *drawn, Series(f"σ = {sigma:g}, by autograd", x[:: max(1, grid // 25)],
                           here[:: max(1, grid // 25)]),
            Series("convex above", [0, 1], [0, 0], "bound"), x="x", y="second derivative of h_σ",
        ),
        "where it becomes convex": equal(
            high, CONVEX, tol=1e-3, why="bisection to 1e-6; the grid holds the least convex point"
        ),
        "strong convexity": equal_to_rounding(
            here.min(), 2 - WAVE * math.exp(-2 * math.pi**2 * sigma**2)
        ),
        "what the problems say of themselves": _as_declared(seed.torch()),
    })


def _as_declared(rng: torch.Generator) -> Evidence:
    """Compare constants, starts and values with curvatures, and with the formulas in NumPy."""
    found, expected = [], []
    grid, points = torch.linspace(0, 1, 201, dtype=torch.float64), 3 * randn(rng, 40, 3)
    x = points.numpy()
    for sigma in (0.0, 0.3, 0.6):
        bends = _curvature(sigma, grid)
        fading, lowest = np.exp(-2 * np.pi**2 * sigma**2), float(bends.min())
        waves = 10 * fading * np.cos(2 * np.pi * x)
        for bowl in (Rastrigin(3, sigma=sigma), smoothed(Rastrigin(3), sigma, rng=rng)):
            found += [bowl.smoothness, bowl.strong_convexity or 0.0, bowl.pl or 0.0, bowl.minimum]
            expected += [float(bends.abs().max()), max(lowest, 0.0), max(lowest, 0.0)]
            expected.append(3 * (sigma**2 - 10 * fading + 10))
            found += bowl.value(points).tolist()
            expected += (x**2 + sigma**2 - waves + 10).sum(axis=1).tolist()
    r, dents = np.sqrt((x**2).mean(axis=1)), np.exp(np.cos(2 * np.pi * x).mean(axis=1))
    for funnel in (Ackley(3), smoothed(Ackley(3), 0.0)):
        found += [*funnel.value(points).tolist(), funnel.minimum]
        expected += [*(20 - 20 * np.exp(-r / 5) + math.e - dents), 0.0]
    for problem, dim in ((Rastrigin(3), 3), (Ackley(3), 3), (Rastrigin(), 2), (Ackley(), 2)):
        found += [*problem.theta.detach()[0].tolist(), *cast("Tensor", problem.minimizer).tolist()]
        expected += [2.5] * dim + [0.0] * dim
    twin = torch.Generator()
    twin.set_state(rng.get_state())
    cloud, steps = smoothed(Ackley(3).at(points), 0.5, 8, rng), 0.5 * randn(twin, 4, 3)
    around = points + torch.cat([steps, -steps])[:, None]  # (8, 40, 3)
    found += [*cloud.theta.detach().flatten().tolist(), *cloud().tolist()]
    expected += [*x.flatten(), *Ackley(3).value(around).mean(dim=0).tolist()]
    return equal_to_rounding(found, expected)


def _curvature(sigma: float, x: Tensor) -> Tensor:
    """Differentiate the smoothing of Rastrigin's function of one variable twice."""
    at = x[:, None].clone().requires_grad_()
    value = Rastrigin(1, sigma=sigma).value(at).sum()
    (slopes,) = torch.autograd.grad(value, at, create_graph=True)
    return torch.autograd.grad(slopes.sum(), at)[0][:, 0]


@claim(
    control={"sigmas": (0.0,)}, refutes=["Rastrigin", "Ackley"], source="Mobahi and Fisher 2015"
)
def continuation_finds_the_global_minimum(
    seed: Seed, *, starts: Annotated[int, Range(100, 1000)] = 500,
    samples: Annotated[int, Range(200, 400)] = 256, sigmas: Sigmas = SIGMAS,
) -> Evidence:
    r"""Falling $\sigma$: the tracked minimum ends as the global one (of Rastrigin and Ackley)."""
    rng = seed.torch()
    start = 5 * (2 * torch.rand(starts, 2, generator=rng, dtype=torch.float64) - 1)
    exact = Continuation(Rastrigin(), sigmas)
    sampled = Continuation(
        Ackley(), sigmas, lr=lambda sigma: max(sigma, 0.02) / 2, steps=8,
        samples=samples + samples % 2, rng=rng,
    )
    parts = {}
    for name, method, share in (("Rastrigin", exact, 0.95), ("Ackley", sampled, 0.9)):
        path = torch.cat([start[None], method.minimize(start)])
        found = np.abs(path[-1].numpy()).max(axis=1) < 0.05
        some = path[:, :12].norm(dim=2)
        parts[name] = at_least(
            found.mean(), share, why="almost every start; plain descent has 1 or 2 in 100",
            detail=f"share of {starts} starts",
        ).drawn(
            *(Series(f"start {k + 1}", range(len(path)), some[:, k], "other", "line")
              for k in range(some.shape[1])),
            x="stage: 0 is the start, then the widths σ in their order",
            y="distance from the global minimum",
        )
    parts["by hand"] = _followed(seed.child("by hand"), start[:5])
    return every(parts)


def _followed(seed: Seed, start: Tensor) -> Evidence:
    """Follow the minima by gradient descent, written out; the widths of the default are six."""
    two, widths = (0.5, 0.45), (1.0, 0.6, 0.4, 0.25, 0.1, 0.0)
    found = [
        Continuation(Rastrigin(), two, steps=2).minimize(start),
        Continuation(Rastrigin(), two, lr=lambda width: 1e-3).minimize(start),  # 50 steps
        Continuation(Ackley(), lr=lambda width: 0.01 + width / 50, steps=7, samples=6,
                     rng=seed.torch()).minimize(start),
    ]
    rng, expected = seed.torch(), []
    for steps in (2, 50):
        x = start
        for sigma in two:
            fading = math.exp(-2 * math.pi**2 * sigma**2)
            lr = 1e-3 if steps == 50 else 1 / (2 + 40 * math.pi**2 * fading)
            for _ in range(steps):
                x = x - lr * (2 * x + 20 * math.pi * fading * (2 * math.pi * x).sin())
            expected.append(x)
    x, clouds = start, [smoothed(Ackley(), sigma, 6, rng) for sigma in widths]
    for sigma, cloud in zip(widths, clouds, strict=True):
        for _ in range(7):
            x = x - (0.01 + sigma / 50) * cloud.gradient(x)
        expected.append(x)
    return equal(torch.cat(found), torch.stack(expected), tol=1e-8, why="rounding of 50 steps")


@claim(
    control={"reached": 0.8},
    refutes=["easiest, chi-square", "easiest, minimizer", "soft, chi-square", "soft, minimizer"],
    source="Bengio, Louradour, Collobert and Weston 2009, sec. 3",
)
def curriculum_ends_uniform(
    seed: Seed, *, samples: Annotated[int, Range(20, 2000)] = 500,
    draws: Annotated[int, Range(50_000, 200_000)] = 100_000,
    start: Annotated[float, Range(0.05, 0.5)] = 0.15,
    reached: Annotated[float, Range(0.5, 1)] = 1.0,
) -> Evidence:
    r"""At full pace all samples are equally likely, so that the minimizer is that of the whole."""
    rng = seed.torch()
    X, d, y = (torch.randn(samples, n, generator=rng, dtype=torch.float64) for n in (3, 1, 1))
    y = y + d * X[:, :1]  # hard samples have another slope
    whole = torch.linalg.lstsq(X, y, driver="gelsd").solution
    kinds: dict[Literal["easiest", "soft"], Callable[[float], float]] = {
        "easiest": ramp(start), "soft": lambda p: 2 * start / (1 - p) if p < 1 else math.inf,
    }
    parts = {}
    for kind, pace in kinds.items():
        lesson = Curriculum(d[:, 0], pace, kind=kind)
        p = (reached - start) / (1 - start) if kind == "easiest" else reached
        counts = lesson.sample(draws, p, rng).bincount(minlength=samples)
        root = lesson.probabilities(p).sqrt()[:, None]
        ranks = torch.linspace(0, 1, 20, dtype=torch.float64)
        binned = torch.stack([one.double().mean() for one in counts[d[:, 0].argsort()].chunk(20)])
        parts[f"{kind}, chi-square"] = at_least(
            chisquare(counts.numpy()).pvalue, 1e-6, why="a correct sampler fails once in a million",
            detail=f"p-value of {draws} draws",
        ).drawn(
            Series("drawn", ranks[: len(binned)], binned * samples / draws, style="bars"),
            Series("uniform", [0, 1], [1, 1], "predicted"),
            x="difficulty, from the easiest twentieth to the hardest",
            y="draws over those of a uniform sampler",
        )
        parts[f"{kind}, minimizer"] = equal_to_rounding(
            torch.linalg.lstsq(root * X, root * y, driver="gelsd").solution, whole
        )
    return every(parts | _on_the_way(rng))


def _on_the_way(rng: torch.Generator) -> dict[str, Evidence]:
    """Compare probabilities with ranks and softmax before the end, and draws with them."""
    d, count, rows = 3 * randn(rng, 2, 3, 20), 20_000, []
    kinds: dict[Literal["easiest", "soft"], Callable[[float], float]] = {
        "easiest": ramp(), "soft": lambda p: 0.5 / (1 - p) if p < 1 else math.inf,
    }
    found, expected = [ramp(0.5, until=0.4)(p) for p in (0, 0.2, 0.4, 1)], [0.5, 0.75, 1, 1]
    for kind, pace in kinds.items():
        lesson = Curriculum(d, pace, kind=kind) if kind == "soft" else Curriculum(d, pace)
        for p in (0.0, 0.3, 0.61, 1.0):
            shown = np.ceil(np.round(20 * (0.15 + 0.85 * p), 9))  # 3 at first
            ranks = d.argsort(dim=-1).argsort(dim=-1)
            by_rank, soft = (ranks < shown).double() / shown, (-d * (1 - p) / 0.5).softmax(dim=-1)
            exact = by_rank if kind == "easiest" else soft
            found += lesson.probabilities(p).flatten().tolist()
            expected += exact.flatten().tolist()
            drawn = lesson.sample(count, p, rng)
            shares = F.one_hot(drawn, 20).double().mean(dim=-2)
            error = (exact * (1 - exact) / count).sqrt()
            rows.append(torch.stack([shares, exact, error]).flatten(1))
    shares, exact, error = torch.cat(rows, dim=1)
    return {
        "probabilities on the way": equal_to_rounding(found, expected),
        "draws on the way": within_errors(
            shares, exact, error=error, bias=5 / count * (exact > 0),
            why="of shares of draws, the rare ones of which are like a Poisson variable",
        ),
    }


@claim(control={"difficulty": "random"}, source="Bengio et al. 2009; Wu, Dyer and Neyshabur 2021")
def curriculum_speeds_noisy_digits(
    seed: Seed, *, pairs: Annotated[int, Range(20, 40)] = 20,
    noise: Annotated[float, Range(1.2, 1.8)] = 1.5,
    target: Annotated[float, Range(0.8, 0.87)] = 0.85,
    difficulty: Literal["noise", "random"] = "noise",
) -> Evidence:
    r"""At one pacing, clean digits before noisy ones learn faster than random before random."""
    rng, (x, y, x_test, y_test) = seed.torch(), digits()
    levels = noise * torch.rand(pairs, len(x), generator=rng)
    shown = x.flatten(1) + levels[..., None] * torch.randn(pairs, len(x), 64, generator=rng)
    first, second = torch.rand(2, pairs, len(x), generator=rng)
    hard = torch.cat([levels if difficulty == "noise" else first, second])  # (2 pairs, N)
    arms = [Curriculum(one, ramp(0.15)) for one in hard.chunk(2)]
    generators = [seed.child("batches").torch() for _ in arms]  # samples of the same ranks for both
    net = ParallelMLP([64, 64, 64, 10], copies=pairs, rng=rng)
    nets = _joined(net, net)  # one start for both arms of a pair
    sgd = SGD(nets.parameters(), lr=0.1)
    row, steps, seen = torch.arange(pairs)[:, None], 750, []
    for step in range(steps):
        drawn = [arm.sample(32, step / steps, rng)
                 for arm, rng in zip(arms, generators, strict=True)]
        inputs, labels = torch.cat([shown[row, one] for one in drawn]), y[torch.cat(drawn)]
        _learn(nets, sgd, inputs, labels)
        if (step + 1) % 10 == 0:
            seen.append(_accuracies(nets, x_test.flatten(1), y_test))
            if (torch.stack(seen).amax(dim=0) >= target).all():
                break
    curves, at = torch.stack(seen), 10 * torch.arange(1, len(seen) + 1)
    times = torch.where(curves.cummax(dim=0).values >= target, 0, 10).sum(dim=0) + 10.0
    ordered, random = times.view(2, pairs)
    gain = (random - ordered).double()
    both = curves.view(len(seen), 2, pairs).mean(dim=2)
    return at_least(
        gain.mean(), 3 * standard_error(gain),
        why="three standard errors of the mean of paired differences",
        detail=f"steps gained: {float(ordered.mean()):.0f} against {float(random.mean()):.0f}",
    ).named("mean number of steps gained").drawn(
        Series(f"by {difficulty}", at, both[:, 0]), Series("random", at, both[:, 1], "other"),
        Series("target", [0, int(at[-1])], [target] * 2, "bound"),
        x="step", y="accuracy on clean digits, mean of the nets",
    )


def _joined(first: nn.Module, second: nn.Module) -> nn.Module:
    """Put parallel nets beside parallel nets."""
    both = copy.deepcopy(first)
    for one, other in zip(both.parameters(), second.parameters(), strict=True):
        one.data = torch.cat([one.data, other.data])
    return both


def _learn(nets: nn.Module, optimizer: Optimizer, x: Tensor, labels: Tensor) -> None:
    """Take a step of all the parallel nets."""
    optimizer.zero_grad()
    F.cross_entropy(nets(x).mT, labels, reduction="none").mean(dim=1).sum().backward()
    optimizer.step()


@torch.no_grad()
def _accuracies(nets: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Measure the accuracy of each of the parallel nets."""
    return (nets(x).argmax(dim=-1) == y).double().mean(dim=-1)


@claim(
    control={"pretrain_steps": 0},
    refutes=["gap"], source="Hinton, Osindero and Teh 2006; Vincent et al. 2010; Erhan et al. 2010",
)
def pretraining_opens_deep_sigmoid_nets(
    seed: Seed, *, depth: Annotated[int, Range(5, 8)] = 5,
    pretrain_steps: Annotated[int, Range(0, 200)] = 100,
    steps: Annotated[int, Range(200, 400)] = 400, copies: Annotated[int, Range(3, 6)] = 3,
) -> Evidence:
    r"""Greedy pretraining makes a deep sigmoid net learn where its random start stalls."""
    rng, (x, y, x_test, y_test) = seed.torch(), digits()
    encoder = ParallelMLP([64] * (depth + 1), copies=copies, activation="sigmoid", rng=rng)
    net = ParallelMLP([64] * (depth + 1) + [10], copies=copies, activation="sigmoid", rng=rng)
    plain = transfer(encoder, copy.deepcopy(net))
    if pretrain_steps:
        pretrain(encoder, x.flatten(1), steps=pretrain_steps, seed=seed.child("pretraining"))
    both = _joined(transfer(encoder, net), plain)
    adam, seen = Adam(both.parameters(), lr=3e-3), []
    for step in range(steps + 1):
        if step % 50 == 0:
            seen.append(_accuracies(both, x_test.flatten(1), y_test))
        rows = torch.randint(len(x), (64,), generator=rng)
        _learn(both, adam, x[rows].flatten(1), y[rows].expand(2 * copies, -1))
    pretrained, random = torch.stack(seen).view(-1, 2, copies).mean(dim=2).unbind(dim=1)
    at = 50 * torch.arange(len(seen))
    return every({
        "gap": at_least(
            pretrained[-1] - random[-1], 0.2, why="a gap, far beyond the spread of nets, 0.1",
            detail=f"mean accuracy {float(pretrained[-1]):.3f} against {float(random[-1]):.3f}",
        ).drawn(
            Series("pretrained", at, pretrained),
            Series("random start", at, random, "other", "line"),
            x="step of supervised training", y="test accuracy, mean of the nets",
        ),
        "layer by layer, by hand": _layer_by_layer(seed.child("by hand").torch()),
        "holes and defaults": _holes(seed.child("holes")),
    })


def _layer_by_layer(rng: torch.Generator) -> Evidence:
    """Train layers by Adam, written out, to give back whole inputs: a batch is all there is."""
    found, expected, two = [], [], {"copies": 2}
    x = torch.rand(64, 5, generator=rng)
    for activation, options, steps in (("sigmoid", {}, 100), ("tanh", {}, 9), ("sigmoid", two, 9)):
        kind: Any = ParallelMLP if options else MLP
        net = kind([5, 4, 3], activation=activation, rng=rng, **options)
        last = kind([5, 4, 3, 2], activation=activation, rng=rng, **options)
        start, top = copy.deepcopy(net), copy.deepcopy(last.layers[2])
        asked: dict[str, Any] = {} if steps == 100 else {"steps": steps}
        trained = pretrain(net, x, corruption=0.0, **asked)
        found.append(torch.tensor([float(len(one.history)) for one in trained]))
        expected.append(torch.full((2,), float(steps)))
        phi, codes = getattr(torch, activation), x
        for layer in start.layers:
            W, b = (p.detach().clone().requires_grad_() for p in (layer.weight, layer.bias))
            c = torch.zeros(*W.shape[:-2], *([1] * (W.ndim - 2)), W.shape[-1], requires_grad=True)
            adam = Adam([W, b, c], lr=0.01)
            for _ in range(steps):
                out = phi(codes @ W.mT + b) @ W + c
                loss = F.binary_cross_entropy_with_logits if activation == "sigmoid" else F.mse_loss
                adam.zero_grad()
                (loss(out, codes.expand_as(out)) * out.shape[:-2].numel()).backward()
                adam.step()
            codes = phi(codes @ W.mT + b).detach()
            expected += [W.flatten(), b.flatten()]
        given: Any = transfer(net, last).layers
        found += [p.flatten() for one in given[:2] for p in (one.weight, one.bias)]
        found += [p.flatten() for p in given[2].parameters()]
        expected += [p.flatten() for p in top.parameters()]
    return equal(
        torch.cat(found).detach(), torch.cat(expected).detach(), tol=1e-3,
        why="100 steps of Adam in float32, a tenth of the length of one")


def _holes(seed: Seed) -> Evidence:
    """Look what an autoencoder is shown, by one that copies it; and at what is said of defaults."""
    rng, x = seed.torch(), 1 + torch.rand(400, 50, generator=seed.torch())
    identity = nn.utils.skip_init(nn.Linear, 50, 50)
    identity.weight.data, identity.bias.data = torch.eye(50), torch.zeros(50)
    copiers = [DenoisingAutoencoder(identity, activation="relu", **options)
               for options in ({}, {"corruption": 0.6})]
    parallel = ParallelMLP([50, 50], copies=3, rng=seed.torch()).layers[0]
    parallel.weight.data, parallel.bias.data = torch.eye(50).repeat(3, 1, 1), 0 * parallel.bias
    copiers.append(DenoisingAutoencoder(parallel, activation="relu"))
    lost = [one.loss(torch.ones_like(x), rng).item() for one in copiers]  # 1 for each that misses
    nets = [MLP([50, 4], activation="sigmoid", rng=seed.torch()) for _ in range(2)]
    pretrain(nets[0], x - 1, steps=5)
    pretrain(nets[1], x - 1, steps=5, corruption=0.2, lr=0.01, seed=Seed(0))
    same = [(p - q).abs().max().item() for p, q in zip(
        nets[0].parameters(), nets[1].parameters(), strict=True)]
    same.append(float(copiers[0](x[0]).shape != (50,)))  # one alone comes back as one
    return equal(
        [*lost, *same], [0.2, 0.6, 3 * 0.2, *[0.0] * 3], tol=[0.02, 0.02, 0.06, *[0.0] * 3],
        why="five standard errors of a share of 20,000 entries")

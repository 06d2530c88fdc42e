r"""Landscape: what is true of it, and what would refute it.

Knobs:
    width: Units of a hidden layer; three are too few for all starts to end alike.
    starts: Random starts.
    steps: Steps of training.
    scale: What the random weights of the start are multiplied by.
    lr: The learning rate; long steps climb, and short ones reach the edge too late.
    hidden: Hidden layers; without one the loss is convex, and its gradient only gets shorter.
    train_steps: Steps in which the curve is trained; without, it is the straight line.
    alpha: What a layer is multiplied by and the next one divided by; 1 changes nothing.
    layer: Number of the hidden layer that is scaled.
    u: The first of two weights at the start; the other is $1/u$.
    noise: Size of the noise of the labels; without, nothing moves along the valley.
    rows: Independent runs.
    spread: Whether the law knows that long steps widen the residuals; else it falls behind.
    networks: Networks that are pruned.
    rounds: Rounds of training and pruning.
    rewind: Where the weights that are left begin again; a winning ticket has its own start.
    share: Share of the weights that a round takes away.
"""

import copy
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import torch
from scipy.stats import uniform
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
    follows,
    never,
    standard_error,
)
from principia.lab.params import Range
from principia.lab.pictures import Rule
from principia.lab.seeds import Seed
from principia.lab.training import accuracy
from principia.networks.mlp import MLP
from principia.optimization.gradient_descent import descend
from principia.optimization.landscape import (
    BezierPath,
    LotteryTicket,
    Ticket,
    barrier,
    perturbation_sharpness,
    rescale_relu,
    sharpness,
)
from principia.optimization.problems import ScalarNet
from principia.optimization.smoothness import Loss, hessian_extremes, risk_of


@claim(control={"width": 3}, source="Choromanska et al. 2015, sec. 5")
def wide_nets_end_alike(
    seed: Seed, *, width: Annotated[int, Range(3, 100)] = 64,
    starts: Annotated[int, Range(4, 12)] = 8, steps: Annotated[int, Range(300, 600)] = 400,
) -> Evidence:
    r"""From every start a network 64 wide ends within 0.002 of one loss; one 3 wide does not."""
    x, y, _, _ = _digits(400)
    rngs = [seed.child(number).torch() for number in range(starts)]
    nets = [MLP([64, width, 10], activation="tanh", rng=rng) for rng in rngs]
    _train(nets, x, y, steps, seed.child("batches"), lr=0.02)
    losses = torch.stack([F.cross_entropy(net(x), y) for net in nets]).detach().double()
    why = "measured 2e-4 or less, from ln 10 at the start; of networks 3 wide it is 0.1 and more"
    far = (losses - losses.mean()).abs()
    return at_most(far, 0.002, why=why).named("distances from the mean final loss").drawn(
        Series(f"width {width}", range(1, starts + 1), losses),
        Series("mean", [1, starts], [losses.mean()] * 2, "predicted"),
        Rule("nothing learned: ln 10", y=math.log(10)), x="start", y="final loss", log="y",
    )


def _digits(count: int | None = None, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """Load the first so many digits to train with, flat, and all to test with."""
    x, y, x_test, y_test = digits()
    return x[:count].flatten(1).to(dtype), y[:count], x_test.flatten(1).to(dtype), y_test


def _train(
    nets: Sequence[Any], x: Tensor, y: Tensor, steps: int, seed: Seed, *, lr: float = 0.01,
) -> None:
    """Train MLPs of one shape side by side, in place, by Adam on the same batches of digits."""
    alike, rng = list(zip(*(one.layers for one in nets), strict=True)), seed.torch()
    names = "weight_orig" if hasattr(alike[0][0], "weight_orig") else "weight", "bias"
    weights, biases = (
        [torch.stack([getattr(one, name).detach() for one in same]).requires_grad_()
         for same in alike] for name in names
    )
    masks = [torch.stack([getattr(one, "weight_mask", torch.ones(())) for one in same])
             for same in alike]
    adam = torch.optim.Adam([*weights, *biases], lr)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,), generator=rng)
        out = x[rows].expand(len(nets), -1, -1)
        for k, (W, b, mask) in enumerate(zip(weights, biases, masks, strict=True)):
            W = W * mask if mask.ndim > 1 else W
            out = torch.baddbmm(b[:, None], out if k == 0 else nets[0].phi(out), W.mT)
        adam.zero_grad()
        (len(nets) * F.cross_entropy(out.flatten(0, 1), y[rows].repeat(len(nets)))).backward()
        adam.step()
    with torch.no_grad():
        for name, stacks in zip(names, (weights, biases), strict=True):
            for same, stack in zip(alike, stacks, strict=True):
                for layer, one in zip(same, stack, strict=True):
                    getattr(layer, name).copy_(one)


@claim(
    control=[
        Control({"hidden": 0}, ["longest gradient / first"], "no hidden layer: a convex loss"),
        Control({"lr": 2.0}, ["steps up before that"], "steps too long to fall at each"),
    ],
    source="Goodfellow et al. 2016, fig. 8.1",
)
def gradient_norm_can_grow(
    seed: Seed, *, width: Annotated[int, Range(16, 64)] = 32,
    scale: Annotated[float, Range(0.25, 0.4)] = 0.3, lr: Annotated[float, Range(0.1, 2)] = 0.2,
    hidden: Annotated[int, Range(0, 2)] = 2,
) -> Evidence:
    r"""While the loss of a network falls, step by step, its gradient may become much longer."""
    steps, (x, y, _, _) = int(80 / lr), _digits(200, torch.float64)
    net = MLP([64, *[width] * hidden, 10], activation="tanh", rng=seed.torch()).double()
    net.load_state_dict({name: scale * one for name, one in net.state_dict().items()})
    path = list(_gradient_descent(net, F.cross_entropy, x, y, lr, steps))
    loss, norm = torch.tensor(path, dtype=torch.float64).T
    longest = int(norm.argmax())
    when = range(len(norm))
    return every({
        "longest gradient / first": at_least(
            norm.max() / norm[0], 2, why="measured 3 and more; of a convex loss it is 1"
        ).drawn(
            Series("length of the gradient / first", when, norm / norm[0], style="line"),
            Series("loss / first", when, loss / loss[0], "other"),
            Series("a convex loss stays below", [0, steps], [1, 1], "bound"),
            x="step of gradient descent", y="relative to the start", log="y",
        ),
        "steps up before that": never(
            loss[: longest + 1].diff() > 0, of=max(longest, 1), why="it falls at every step"
        ),
    })


def _gradient_descent(
    net: nn.Module, loss: Loss, x: Tensor, y: Tensor, lr: float, steps: int
) -> Iterator[tuple[float, float]]:
    """Go down on all data; before each step, and at the end, give the loss and its slope."""
    sgd = torch.optim.SGD(net.parameters(), lr)
    for _ in range(steps + 1):
        sgd.zero_grad()
        value = loss(net(x), y)
        value.backward()
        slopes = [one.grad for one in net.parameters() if one.grad is not None]
        yield value.item(), nn.utils.get_total_norm(slopes).item()
        sgd.step()


@claim(
    control={"train_steps": 0}, refutes=["barrier of the curve"],
    source="Garipov et al. 2018, sec. 3",
)
def modes_are_connected(
    seed: Seed, *, width: Annotated[int, Range(32, 80)] = 64,
    train_steps: Annotated[int, Range(0, 1000)] = 500,
) -> Evidence:
    r"""Between two trained networks the straight line has a barrier, a trained curve has none."""
    x, y, _, _ = _digits()
    ends = [MLP([64, width, width, 10], rng=seed.child(one).torch()) for one in "ab"]
    _train(ends, x, y, 200, seed.child("ends"))
    path, rng = BezierPath(*ends), seed.child("path").torch()
    straight, t = barrier(path, F.cross_entropy, x, y), torch.linspace(0, 1, 21)
    line = path.losses(F.cross_entropy, x, y, t)
    objective = path.objective(F.cross_entropy)
    adam = torch.optim.Adam(path.parameters(), 0.005)
    for _ in range(train_steps):
        rows = torch.randint(len(x), (64,), generator=rng)
        adam.zero_grad()
        objective(path, (x[rows], y[rows]), rng).backward()
        adam.step()
    pulled = [p.grad is not None for one in ends for p in one.parameters()]
    curve = path.losses(F.cross_entropy, x, y, t)
    at_ends = torch.stack([F.cross_entropy(one(x), y) for one in ends])
    return every({
        "barrier of the curve": at_most(
            barrier(path, F.cross_entropy, x, y), 0.03, why="measured 0 to 0.01"
        ).drawn(
            Series("curve", t, curve, style="line"), Series("straight line", t, line, "other"),
            Series("chord", [0, 1], at_ends.detach(), "bound"), x="t", y="loss",
        ),
        "barrier of the straight line": at_least(straight, 0.3, why="measured 0.5 and more"),
        "training of the ends": never(pulled, why="only the middle of the path is trained"),
        "points of a path, by hand": _along_a_path(seed.child("toys").torch()),
        "t is uniform": _times_drawn(seed.child("times").torch()),
    })


def _along_a_path(rng: torch.Generator) -> Evidence:
    """Compute the losses of a small network with batch normalization by matrix products."""
    x, y, found, expected = randn(rng, 30, 3), randn(rng, 30, 2), [], []
    line = functools.partial(nn.utils.skip_init, nn.Linear)
    a, b, c = (nn.Sequential(line(3, 4), nn.BatchNorm1d(4), line(4, 2)).double() for _ in range(3))
    for size, one in ((1, a), (1, b), (3, c)):
        for p in one.parameters():
            p.data.copy_(size * randn(rng, *p.shape))
    ways, times = {"straight": BezierPath(a, b), "bent": BezierPath(a, b)}, np.linspace(0, 1, 21)
    ways["bent"].middle.load_state_dict(c.state_dict())
    for name, path in ways.items():
        found += path.losses(F.mse_loss, x, y, torch.from_numpy(times)).tolist()
        found += [F.mse_loss(path(x, t), y).item() for t in times]
        found.append(barrier(path, F.mse_loss, x, y))
        for correction, t in itertools.product((1, 0), times):  # running variances have n - 1
            parts = zip(*(one.parameters() for one in (a, b, c)), strict=True)
            W, u, gamma, beta, V, v = (
                (1 - t) * p + t * q if name == "straight" else
                (1 - t) ** 2 * p + 2 * t * (1 - t) * r + t**2 * q for p, q, r in parts
            )
            z = x @ W.mT + u
            z = (z - z.mean(dim=0)) / (z.var(dim=0, correction=correction) + 1e-5).sqrt()
            expected.append(F.mse_loss((z * gamma + beta) @ V.mT + v, y).item())
        heights = np.array(expected[-42:-21])
        expected.append((heights - heights[0] - times * (heights[-1] - heights[0])).max())
    return equal(found, expected, tol=1e-5 * max(expected), why="a barrier takes t in float32")


def _times_drawn(rng: torch.Generator) -> Evidence:
    """Look which t were drawn on a path whose output is t itself."""
    zero, one = nn.utils.skip_init(nn.Linear, 1, 1, bias=False), torch.ones(1, 1)
    path = BezierPath(zero.requires_grad_(False), copy.deepcopy(zero))
    path.start[:], path.end[:], next(path.parameters()).data[:] = 0, 1, 0.5
    t = [path.objective(F.l1_loss)(path, (one, 0 * one), rng).item() for _ in range(500)]
    return follows(t, uniform(), why="independent draws of a uniform t")


@claim(control={"alpha": 1.0}, refutes=["sharpness / before"], source="Dinh et al. 2017, sec. 4")
def sharpness_is_not_invariant(
    seed: Seed, *, alpha: Annotated[float, Range(1, 100)] = 10.0,
    layer: Annotated[int, Range(1, 2)] = 1, width: Annotated[int, Range(8, 24)] = 12,
) -> Evidence:
    r"""Scaling ReLU layers by $\alpha$ and $1/\alpha$ keeps $f$ and changes $\lambda_{\max}$."""
    x, y, _, _ = _digits(150, torch.float64)
    net = MLP([64, width, width, 10], rng=seed.torch()).double()
    _train([net], x, y, 150, seed.child("batches"))
    units = net.activations(x)[layer].detach()
    factors = [alpha**share for share in (0, 0.5, 1)]
    nets, first = [rescale_relu(net, one, layer) for one in factors], rescale_relu(net, alpha)
    found = torch.tensor([sharpness(one, F.cross_entropy, x, y) for one in nets])
    name = f"layers.{layer}.weight"  # of the next layer, whose curvature grows by alpha squared
    weight = {name: dict(net.named_parameters())[name]}
    block = float(hessian_extremes(risk_of(net, F.cross_entropy, x, y), weight)[1][0])
    lowest = block * torch.tensor(factors) ** 2
    rng, rises = seed.child("directions").torch(), []
    for sides, directions in (([1.0] * width, 100), ([1.0, 3.0], 500)):  # two parabolas
        axes = len(sides) ** 0.5 * torch.tensor(sides).double().diag()  # as many rows
        flat = MLP([len(sides), 1], bias=False, rng=rng).double().requires_grad_(False)
        rises.append(perturbation_sharpness(
            flat, _half_square, axes, flat(axes), rho=0.1, directions=directions, rng=rng))
    rises.append(perturbation_sharpness(
        flat, lambda z, y: (y - z).sum(), axes, flat(axes), rho=0.1, directions=500, rng=rng
    ))
    targets = 3 * randn(rng, 8, 2, 1)  # in as many directions
    hundred = [[perturbation_sharpness(
        flat, _half_square, axes, target, rho=0.1, rng=seed.child("ways").torch(), **options
    ) for target in targets] for options in ({}, {"directions": 100})]
    return every({
        "sharpness / before": at_least(
            found[-1] / found[0], 10, why="the next layer's curvature grows by the factor squared"
        ).drawn(
            Series("sharpness", factors, found),
            Series("that of the next layer, times α²", factors, lowest, "bound"),
            x="α", y="largest eigenvalue of the Hessian", log="xy",
        ),
        "outputs": equal_to_rounding(
            torch.stack([nets[-1](x), first(x), rescale_relu(net, alpha, 2)(x)]),
            net(x).expand(3, -1, -1),
        ),
        "units": equal_to_rounding(
            torch.stack([nets[-1].activations(x)[layer], first.activations(x)[1]]),
            alpha * torch.stack([units, net.activations(x)[1]]),
        ),
        "at least the next layer's": at_least(
            found, lowest, slack=1e-3 * lowest, why="a block of the Hessian; Lanczos to 1e-4"
        ),
        "rise of a round parabola": equal_to_rounding(rises[0], 0.1**2 / 2),
        "of 500 ways from one that is not, and of a plane": equal(
            rises[1:], [9 * 0.1**2 / 2, 0.1 * 20**0.5], tol=[1e-3 * 0.045, 5e-3 * 0.447],
            why="some way is nearly the steepest",
        ),
        "100 ways by default": equal(*hundred, tol=0, why="the same directions"),
    })


def _half_square(outputs: Tensor, target: Tensor) -> Tensor:
    return (outputs - target).square().sum(dim=-1).mean() / 2


@claim(
    control=[
        Control({"noise": 0.0}, ["end"], "labels without noise"),
        Control({"spread": False}, ["slide"], "E[r²] = s², as if uv stayed at 1"),
    ],
    source="Blanc et al. 2020, sec. 3",
)
def label_noise_finds_flat_minima(
    seed: Seed, *, u: Annotated[float, Range(2, 3)] = 3.0,
    noise: Annotated[float, Range(0, 0.3)] = 0.25, rows: Annotated[int, Range(200, 1000)] = 400,
    steps: Annotated[int, Range(2500, 10_000)] = 2500, spread: bool = True,
) -> Evidence:
    r"""Noise $s$ of $y$ drives SGD on $\frac12(uv-y)^2$ along $uv=1$ to the flattest point, 2."""
    lr, rng = 0.15, seed.torch()
    net = ScalarNet(label_noise=noise, rng=rng).at(torch.tensor([[u, 1 / u]]).expand(rows, 2))
    at, sgd = torch.linspace(0, steps, 101).long(), torch.optim.SGD(net.parameters(), lr=lr)
    squares = descend(net, sgd, steps, record=("theta",), at=at)["theta"].square()  # (T, rows, 2)
    flatness = squares.sum(dim=-1).median(dim=1).values
    skew, law = (squares[..., 0] - squares[..., 1]).median(dim=1).values, [u**2 - u**-2]
    for _ in range(steps):  # E r² = 2s² / (2 - ηλ) around the valley, where λ² = (u² - v²)² + 4
        share = 2 / (2 - lr * math.hypot(law[-1], 2)) if spread else 1.0
        law.append(law[-1] * math.exp(-share * (lr * noise) ** 2))
    slide = torch.tensor(law)[at]
    return every({
        "end": equal(
            flatness[-1], 2, tol=0.1,
            why="median of the rows: uv itself fluctuates by the root of the step size",
        ).drawn(
            Series("median sharpness", at, flatness, style="line"),
            Series("u² − v² decays by η²E[r²]", at, (4 + slide**2).sqrt(), "predicted"),
            Series("flattest minimum", [0, steps], [2, 2], "bound"),
            x="step", y="u² + v², the sharpness", log="y",
        ),
        "slide": equal(
            skew, slide, tol=0.05 * slide, why="η²r² adds up to 5 in all; 400 rows know it to 1 %"
        ),
    })


@claim(control={"rewind": "random"}, source="Frankle and Carbin 2019, sec. 2")
def ticket_beats_reinitialization(
    seed: Seed, *, networks: Annotated[int, Range(6, 12)] = 10,
    rounds: Annotated[int, Range(3, 5)] = 3, steps: Annotated[int, Range(40, 70)] = 50,
    rewind: Literal["start", "random"] = "start",
) -> Evidence:
    r"""A pruned network trains better from its own start than from another random one."""
    x, y, x_test, y_test = _digits()

    def start(name: object) -> MLP:
        return MLP([64, 128, 64, 10], rng=seed.child(name).torch())

    share = 1 - 0.17 ** (1 / rounds)  # 17 % of the weights are left in the end
    lotteries = [iter(LotteryTicket(lambda one=one: start(one), rounds, prune=share))
                 for one in range(networks)]
    nets: list[Any] = []
    tickets: list[Ticket] = []
    for number in range(rounds + 1):
        tickets = [next(one) for one in lotteries]
        nets = [one.model for one in tickets]
        if number == rounds:
            if rewind == "random":
                nets = [one.on(start(f"own {k}")) for k, one in enumerate(tickets)]
            nets += [one.on(start(f"new {k}")) for k, one in enumerate(tickets)]
        _train(nets, x, y, steps, seed.child(f"batches {number}"))
    scores = torch.stack([accuracy(one(x_test), y_test) for one in nets]).view(2, networks)
    own, new = scores
    gain = own - new
    return at_least(
        gain.mean(), 3 * standard_error(gain),
        why="3 standard errors of the mean of pairs with one mask",
        detail=f"{own.mean():.3f} against {new.mean():.3f} at "
        f"{1 - tickets[0].sparsity:.0%} of the weights",
    ).named("mean gain in accuracy").drawn(
        Series(f"rewound to: {rewind}", range(networks), own),
        Series("new start", range(networks), new, "other", "points"),
        x="network", y="test accuracy of the pruned network",
    )


@claim(
    control={"rewind": "late"}, refutes=["weights that are left"],
    source="Frankle and Carbin 2019, sec. 1",
)
def rewind_is_exact(
    seed: Seed, *, share: Annotated[float, Range(0.1, 0.6)] = 0.37,
    rounds: Annotated[int, Range(1, 5)] = 3, rewind: Literal["start", "late"] = "start",
) -> Evidence:
    r"""Weights that are left begin at their initial values; the others are 0 and stay 0."""
    x, y, _, _ = _digits(300)
    first, other = (MLP([64, 12, 10], rng=seed.child(one).torch()) for one in range(2))
    begin, start = copy.deepcopy(first), _weights(first)
    if rewind == "late":
        _train([begin], x, y, 100, seed.child("early"))
    moved, stayed, found, expected, curves = [], [], [], [], []
    own: dict[str, Any] = {"rounds": rounds, "prune": share, "scope": "global"}
    for options in (own, {**own, "scope": "layer"}, {}):  # the last one by default
        left, counts, part = np.ones(len(start)), [], options.get("prune", 0.3)
        for ticket in LotteryTicket(lambda: begin, **options):
            moved.append(_weights(ticket.model) - left * start)
            layers: Any = ticket.on(other).layers
            found += [*ticket.masks.values(), torch.tensor(ticket.sparsity)]
            found += [*ticket.initial.values(), *(one.weight for one in layers)]
            expected += [left, 1 - left.mean(keepdims=True)]
            expected += [one.flatten() for one in begin.state_dict().values()]
            expected.append(left * _weights(other))
            counts.append(left.sum())
            _train([ticket.model], x, y, 20, seed.child("batches"))
            ticket.model(x[:1])
            trained, left = _weights(ticket.model), left.copy()
            stayed.append(trained[left == 0])
            for here in np.split(np.flatnonzero(left >= 0), [768] * ("layer" in options.values())):
                here = here[left[here] > 0]
                order = here[np.argsort(abs(trained[here]))]
                left[order[: round(part * len(order))]] = 0
        found.append(torch.tensor(len(counts)))
        expected.append([options.get("rounds", 5) + 1])
        curves.append(counts)
    got, k = torch.cat([one.detach().flatten() for one in found]), np.arange(rounds + 1)
    return every({
        "weights that are left": equal(np.stack(moved), 0, tol=0, why="copied bit by bit"),
        "the others after training": equal(
            np.concatenate(stayed), 0, tol=0, why="a product with a mask of 0"
        ),
        "the smallest go": equal(
            got, np.concatenate(expected), tol=1e-6, why="NumPy's order of the same sizes; float32"
        ),
    }).drawn(
        Series("weights left", k, curves[0]),
        Series("(1 − p)^k", k, curves[0][0] * (1 - share) ** k, "predicted"),
        x="round k", y="weights", log="y",
    )


def _weights(net: Any) -> np.ndarray:
    return torch.cat([one.weight.detach().flatten() for one in net.layers]).numpy().copy()


@claim(control={"lr": 0.02}, source="Cohen et al. 2021, sec. 3")
def edge_of_stability(
    seed: Seed, *, lr: Annotated[float, Range(0.02, 0.3)] = 0.2,
    steps: Annotated[int, Range(2000, 6000)] = 2000, width: Annotated[int, Range(16, 32)] = 16,
) -> Evidence:
    r"""Gradient descent raises the sharpness to $2/\eta$, and there it stays."""
    x, y, _, _ = _digits(150, torch.float64)
    target = F.one_hot(y, 10).double()
    net = MLP([64, width, width, 10], activation="tanh", rng=seed.torch()).double()
    when, found, losses = range(0, steps + 1, steps // 10), [], []
    for step, (loss, _) in enumerate(_gradient_descent(net, _half_square, x, target, lr, steps)):
        if step in when:
            losses.append(loss)
            found.append(lr * sharpness(net, _half_square, x, target))
    return equal(
        np.mean(found[-5:]), 2, tol=0.1, why="it swings around 2 by some percent, first from above"
    ).named("learning rate times sharpness").drawn(
        Series("η times the sharpness", when, found),
        Series("loss", when, losses, "other"),
        Series("2: the edge of stability", [0, steps], [2, 2], "bound"),
        x="step of gradient descent", y="ηλmax, loss", log="y",
    )

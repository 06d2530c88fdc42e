r"""Landscape: what is true of it, and what would refute it."""

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

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
    never,
    standard_error,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training import accuracy
from principia.networks.mlp import MLP
from principia.optimization.gradient_descent import descend
from principia.optimization.landscape import (
    BezierPath,
    LotteryTicket,
    Ticket,
    above_chord,
    barrier,
    perturbation_sharpness,
    rescale_relu,
    sharpness,
)
from principia.optimization.problems import ScalarNet, log_spaced
from principia.optimization.smoothness import Loss, hessian_extremes, risk_of

Networks = Annotated[int, Range(4, 12)]


@claim(control={"wide": 3}, source="Choromanska et al. 2015, sec. 5")
def wide_nets_end_alike(
    seed: Seed, *, wide: Annotated[int, Range(3, 100)] = 64,
    narrow: Annotated[int, Range(3, 4)] = 3, networks: Networks = 8,
    steps: Annotated[int, Range(300, 600)] = 400,
) -> Evidence:
    r"""Wide nets end within 0.002 of one loss from every start; narrow ones, 20 times as far."""
    x, y, _, _ = _digits(400)
    found = []
    for width in (narrow, wide):
        rngs = [seed.child(number).torch() for number in range(networks)]
        nets = [MLP([64, width, 10], activation="tanh", rng=rng) for rng in rngs]
        _train(nets, x, y, steps, seed.child("batches"), lr=0.02)
        found.append(torch.stack([F.cross_entropy(net(x), y) for net in nets]).detach())
    few, many = found
    return every({
        "spread of the wide": at_most(
            many.std(), 0.002, why="measured 1e-4 or less, from ln 10 at the start"
        ),
        "wide over narrow": at_most(
            many.std() / few.std(), 0.05,
            why="measured 0.002 or less; 8 networks give a deviation to about 30 %",
        ),
    }).drawn(
        Series(f"width {narrow}", ["narrow"] * networks, few, "other", "points"),
        Series(f"width {wide}", ["wide"] * networks, many, "measured", "points"),
        x="width of the hidden layer", y="final loss, a point a start", log="y",
    )


def _digits(
    count: int | None = None, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Load the first so many digits to train with, flat, and all to test with."""
    x, y, x_test, y_test = digits()
    return x[:count].flatten(1).to(dtype), y[:count], x_test.flatten(1).to(dtype), y_test


def _train(
    nets: Sequence[Any], x: Tensor, y: Tensor, steps: int, seed: Seed, *, lr: float = 0.01,
    size: int = 64,
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
        rows = torch.randint(len(x), (size,), generator=rng)
        out = x[rows].expand(len(nets), -1, -1)
        for k, (W, b, mask) in enumerate(zip(weights, biases, masks, strict=True)):
            W = W * mask if mask.ndim > 1 else W
            out = torch.baddbmm(b[:, None], out if k == 0 else nets[0].phi(out), W.mT)
        adam.zero_grad()
        mean = F.cross_entropy(out.flatten(0, 1), y[rows].repeat(len(nets)))
        (len(nets) * mean).backward()
        adam.step()
    with torch.no_grad():
        for name, stacks in zip(names, (weights, biases), strict=True):
            for same, stack in zip(alike, stacks, strict=True):
                for layer, one in zip(same, stack, strict=True):
                    getattr(layer, name).copy_(one)


@claim(
    controls=[
        Control({"problem": "convex quadratic"}, ["longest gradient / first"], "a convex loss"),
        Control({"lr": 2.0}, ["steps up before that"], "steps too long to fall at each"),
    ],
    source="Goodfellow et al. 2016, fig. 8.1",
)
def gradient_norm_can_grow(
    seed: Seed, *, width: Annotated[int, Range(16, 64)] = 32,
    scale: Annotated[float, Range(0.25, 0.4)] = 0.3, lr: Annotated[float, Range(0.1, 2)] = 0.2,
    problem: Literal["network", "convex quadratic"] = "network",
) -> Evidence:
    r"""While the loss of a network falls, step by step, its gradient may become much longer."""
    steps = int(80 / lr)
    if problem == "network":
        x, y, _, _ = _digits(200, torch.float64)
        net = MLP([64, width, width, 10], activation="tanh", rng=seed.torch()).double()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter *= scale
        path = list(_gradient_descent(net, F.cross_entropy, x, y, lr, steps))
        loss, norm = torch.tensor(path, dtype=torch.float64).T
    else:
        bowl = log_spaced(100).at(randn(seed.torch(), 1, 100))
        sgd = torch.optim.SGD(bowl.parameters(), lr=lr)
        trace = descend(bowl, sgd, steps, record=("value", "gradient_norm"))
        loss, norm = trace["value"][:, 0], trace["gradient_norm"][:, 0]
    longest = int(norm.argmax())
    when = range(len(norm))
    return every({
        "longest gradient / first": at_least(
            norm.max() / norm[0], 2, why="measured 3 and more; on a convex bowl it never exceeds 1"
        ).drawn(
            Series("length of the gradient / first", when, norm / norm[0], style="line"),
            Series("loss / first", when, loss / loss[0], "other"),
            Series("a convex bowl stays below", [0, steps], [1, 1], "bound"),
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
    control={"train_steps": 0},
    refutes=["barrier of the curve"],
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
    straight, t = barrier(path, F.cross_entropy, x, y), torch.linspace(0, 1, 41)
    line = path.losses(F.cross_entropy, x, y, t)
    objective = path.objective(F.cross_entropy)
    adam = torch.optim.Adam(path.parameters(), 0.005)
    for _ in range(train_steps):
        rows = torch.randint(len(x), (64,), generator=rng)
        adam.zero_grad()
        objective(path, (x[rows], y[rows]), rng).backward()
        adam.step()
    curve = path.losses(F.cross_entropy, x, y, t)
    at_ends = torch.stack([F.cross_entropy(one(x), y) for one in ends])
    halfway = copy.deepcopy(ends[0])
    with torch.no_grad():
        for one, other in zip(halfway.parameters(), ends[1].parameters(), strict=True):
            one.add_(other).div_(2)
    return every({
        "barrier of the curve": at_most(
            barrier(path, F.cross_entropy, x, y), 0.03, why="measured 0 to 0.01"
        ).drawn(
            Series("curve", t, curve, style="line"), Series("straight line", t, line, "other"),
            Series("chord", [0, 1], at_ends.detach(), "bound"), x="t", y="loss",
        ),
        "barrier of the straight line": at_least(straight, 0.3, why="measured 0.5 and more"),
        "its height above the chord": equal(
            straight, above_chord(line, t)[::2].max(), tol=1e-6, why="float32 rounding"
        ),
        "the ends are the networks": equal(
            curve[[0, -1]], at_ends, tol=1e-5, why="float32 rounding"
        ),
        "the line goes through the mean": equal(
            line[20], F.cross_entropy(halfway(x), y), tol=1e-5, why="float32 rounding"
        ),
    })


@claim(
    control={"alpha": 1.0},
    refutes=["sharpness / before", "rise in random directions"],
    source="Dinh et al. 2017, sec. 4",
)
def sharpness_is_not_invariant(
    seed: Seed, *, alpha: Annotated[float, Range(1, 100)] = 10.0,
    layer: Annotated[int, Range(1, 2)] = 1, width: Annotated[int, Range(8, 24)] = 12,
) -> Evidence:
    r"""Scaling ReLU layers by $\alpha$ and $1/\alpha$ keeps $f$ and changes $\lambda_{\max}$."""
    x, y, _, _ = _digits(150, torch.float64)
    net = MLP([64, width, width, 10], rng=seed.torch()).double()
    _train([net], x, y, 150, seed.child("batches"))
    factors = [alpha**share for share in (0, 0.5, 1)]
    nets = [rescale_relu(net, factor, layer) for factor in factors]
    found = torch.tensor([sharpness(one, F.cross_entropy, x, y) for one in nets])
    name = f"layers.{layer}.weight"  # of the next layer, whose curvature grows by alpha squared
    weight = {name: dict(net.named_parameters())[name]}
    block = float(hessian_extremes(risk_of(net, F.cross_entropy, x, y), weight)[1][0])
    lowest = block * torch.tensor(factors) ** 2
    rng = seed.child("directions").torch()
    random = [
        perturbation_sharpness(one, F.cross_entropy, x, y, rho=0.1, rng=rng)
        - F.cross_entropy(one(x), y).item() for one in nets
    ]
    flat, axes = MLP([width, width], bias=False, rng=rng).double(), torch.eye(width).double()
    known = perturbation_sharpness(  # a parabola with the curvature 1 in every direction
        flat, lambda out, y: (out - y).square().sum() / 2, axes, flat(axes), rho=0.1, rng=rng
    )
    return every({
        "sharpness / before": at_least(
            found[-1] / found[0], 10, why="the next layer's curvature grows by the factor squared"
        ).drawn(
            Series("sharpness", factors, found),
            Series("that of the next layer, times α²", factors, lowest, "bound"),
            x="α", y="largest eigenvalue of the Hessian", log="xy",
        ),
        "outputs": equal_to_rounding(nets[-1](x), net(x)),
        "at least the next layer's": at_least(
            found, lowest, slack=1e-3 * lowest, why="a block of the Hessian; Lanczos to 1e-4"
        ),
        "rise in random directions": at_least(
            random[-1], 2 * random[0], why="most directions touch the sharp layer; measured 10"
        ),
        "rise of a round parabola": equal_to_rounding(known, 0.1**2 / 2),
    })


@claim(
    controls=[
        Control({"noise": 0.0}, ["end"], "labels without noise"),
        Control({"spread": False}, ["slide"], "E[r²] = s², as if uv stayed at 1"),
    ],
    source="Blanc et al. 2020, sec. 3",
)
def label_noise_finds_flat_minima(
    seed: Seed, *, u: Annotated[float, Range(2, 3)] = 3.0,
    noise: Annotated[float, Range(0, 0.3)] = 0.25, steps: Annotated[int, Range(2500, 10_000)] = 2500,
    rows: Annotated[int, Range(200, 1000)] = 400, spread: bool = True,
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
    slide, two = torch.tensor(law)[at], MLP([1, 1, 1], activation="identity", bias=False).double()
    with torch.no_grad():
        for layer, weight in zip(two.layers, (1 / u, u), strict=True):
            layer.weight.fill_(weight)
    one = torch.ones(1, 1, dtype=torch.float64)
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
        "u² + v² is the sharpness": equal_to_rounding(
            sharpness(two, _half_square, one, one), u**2 + u**-2
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
    lotteries = [
        iter(LotteryTicket(lambda one=one: start(one), rounds, prune=share))
        for one in range(networks)
    ]
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
    ).drawn(
        Series(f"rewound to: {rewind}", range(networks), own),
        Series("new start", range(networks), new, "other", "points"),
        x="network", y="test accuracy of the pruned network",
    )


@claim(
    control={"rewind": "late"},
    refutes=["surviving weights that differ"],
    source="Frankle and Carbin 2019, sec. 1",
)
def rewind_is_exact(
    seed: Seed, *, share: Annotated[float, Range(0.1, 0.6)] = 0.3,
    rounds: Annotated[int, Range(1, 5)] = 3, scope: Literal["global", "layer"] = "global",
    rewind: Literal["start", "late"] = "start",
) -> Evidence:
    r"""Weights that are left begin at their initial values; the others are 0 and stay 0."""
    x, y, _, _ = _digits(300)
    first = MLP([64, 32, 10], rng=seed.torch())
    begin = copy.deepcopy(first)
    if rewind == "late":
        _train([begin], x, y, 100, seed.child("early"))
    moved, stayed, largest, smallest, counts = [], [], [], [], []
    weights, before = [], []
    for ticket in LotteryTicket(lambda: begin, rounds, prune=share, scope=scope):
        net: Any = ticket.model
        masks = [one.bool() for one in ticket.masks.values()]
        for layer, own, mask in zip(net.layers, first.layers, masks, strict=True):
            moved.append(int((layer.weight != torch.where(mask, own.weight, 0)).sum()))
        counts.append([float(one.sum()) for one in masks])
        if weights:  # by what the training before this round left
            for trained, old, mask in zip(weights, before, masks, strict=True):
                largest.append(trained[old & ~mask].max())
                smallest.append(trained[mask].min())
        _train([net], x, y, 60, seed.child("batches"))
        net(x[:1])
        stayed += [int(one.weight[~mask].count_nonzero()) for one, mask in
                   zip(net.layers, masks, strict=True)]
        weights, before = [one.weight.detach().abs() for one in net.layers], masks
    left = torch.tensor(counts)
    whole = left if scope == "layer" else left.sum(dim=1, keepdim=True)
    expected = whole[0] * (1 - share) ** torch.arange(rounds + 1.0)[:, None]
    gone = torch.tensor(largest).view(rounds, -1)
    kept = torch.tensor(smallest).view(rounds, -1)
    if scope == "global":
        gone, kept = gone.max(dim=1).values, kept.min(dim=1).values
    return every({
        "surviving weights that differ": never(sum(moved), of=len(moved), why="copied bit by bit"),
        "pruned weights not 0 after training": never(
            sum(stayed), of=len(stayed), why="a product with a mask of 0"
        ),
        "weights left": equal(
            whole, expected, tol=rounds, why="each round rounds to a whole number"
        ).drawn(
            Series("weights left", range(rounds + 1), left.sum(dim=1)),
            Series("(1 − p)^k", range(rounds + 1), left[0].sum() * (1 - share)
                   ** torch.arange(rounds + 1.0), "predicted"),
            x="round k", y="weights", log="y",
        ),
        "the smallest went": at_most(gone, kept, why="sorted by size, without rounding"),
    })


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
    late = torch.tensor(found[-5:])
    return equal(
        late.mean(), 2, tol=0.1, why="it swings around 2 by some percent, from above at first"
    ).drawn(
        Series("η times the sharpness", when, found),
        Series("loss", when, losses, "other"),
        Series("2: the edge of stability", [0, steps], [2, 2], "bound"),
        x="step of gradient descent", y="ηλmax, loss", log="y",
    )


def _half_square(outputs: Tensor, target: Tensor) -> Tensor:
    return (outputs - target).square().sum(dim=-1).mean() / 2

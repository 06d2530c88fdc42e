r"""Landscape: what it reaches on data."""

import functools
import math
from typing import Annotated, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series, standard_error
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Label, Panels, Role, Rule
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import Callback, Supervised, accuracy, evaluate, fit
from principia.networks.mlp import MLP
from principia.optimization.gradient_descent import descend
from principia.optimization.landscape import BezierPath, LotteryTicket, Ticket, sharpness
from principia.optimization.problems import ScalarNet

MOMENTS, EACH = 29, 3  # steps of a moment of the moving picture
FAR = 30.0  # where a path that was thrown out of the valley ends


@hero(moves="time", frames=MOMENTS + 1)
def flat_disc(
    seed: Seed, *, lr: Annotated[float, Range(0.05, 0.6)] = 0.25,
    start: Annotated[float, Range(1.5, 3.5)] = 3.0,
    label_noise: Annotated[float, Range(0, 0.4)] = 0.1,
    time: Annotated[int, Range(0, MOMENTS)] = 10,
) -> Panels:
    """Minima outside the disc cannot hold steps this long, so long steps end in flat minima.

    Args:
        lr: The step size: the disc holds the minima of sharpness below 2 / lr.
        start: The first weight u at the start, beside the valley; steps much too long fly off.
        label_noise: Size of the noise of the label, which drives on to flatter minima.
        time: How many steps are taken, in threes.
    """
    path, edge = _bounces(seed, lr, start, label_noise), 2 / lr
    sharp, steps = path.square().sum(dim=1), range(min(time * EACH + 1, len(path)))
    out = len(steps) == len(path) <= MOMENTS * EACH  # it has left the plane
    color: Role = "red" if out else "blue"
    (u, v), now = path[: len(steps)].T, steps[-1]
    around = torch.linspace(0, 2 * math.pi, 61)
    holds = math.acosh(edge / 2) / 2  # where the valley (e^t, e^-t) leaves the disc
    ends: dict[Role, float] = {"orange": 1.5, "green": min(holds, 1.5)}
    valley = []
    for shade, end in ends.items():
        along = torch.linspace(-end, end, 61).exp()
        valley.append(Series("", along, 1 / along, shade, "line"))
    return Panels((
        Plot((
            Series("", edge**0.5 * around.cos(), edge**0.5 * around.sin(), "green", "line"),
            *valley, Series("", u, v, color, "line"), Series("", u[-1:], v[-1:], color, "points"),
            Label("flat enough", 0.75, 1.6, "green", side="right"),
            Label("too sharp" if holds < 1.3 else "", 0.35, 3.7, "orange", side="right"),
        ), x="u", y="v", title="minima: uv = 1", x_range=(-1.5, 4),
            y_range=(-1.5, 4), square=True),
        Plot((
            Series("", steps, sharp[: len(steps)], color, "line"),
            Series("", [now], sharp[now : now + 1], color, "points"),
            Rule("rim: 2 / step size", y=edge, role="green"),
            Rule("flattest", y=2, role="gray"),
            Label("thrown out" if out else "", MOMENTS * EACH / 2, 10, "red", size=22),
        ), x="step", y="u² + v²", title="sharpness",
            x_range=(0, MOMENTS * EACH), y_range=(0, 14)),
    ))


@functools.lru_cache(maxsize=4)  # all frames are moments of one path
def _bounces(seed: Seed, lr: float, start: float, label_noise: float) -> Tensor:
    """Descend from beside the valley, until a point is far out; give all points (T, 2)."""
    beside = torch.tensor([[start, 1 / start + 0.05]])
    net = ScalarNet(label_noise=label_noise, rng=seed.torch()).at(beside)

    def stay() -> None:
        net.theta.clamp_(-FAR, FAR)

    path = descend(
        net, torch.optim.SGD(net.parameters(), lr=lr), MOMENTS * EACH, record=("theta",),
        after=stay,
    )["theta"][:, 0]
    out = (path.abs() >= FAR).any(dim=1).nonzero()
    return path[: int(out[0]) + 1] if len(out) else path


@experiment(
    reaches={
        "below_dense": at_most_goal(0.003), "advantage_in_errors": at_least_goal(2.0),
        "weights_left": Range(0.1, 0.15),
    },
    floor={"advantage_in_errors": at_least_goal(2.0), "weights_left": Range(0.1, 0.2)},
    source="Frankle and Carbin (2019), sec. 2: tickets of LeNet-300-100 at this size train as well "
    "as the whole network; to beat is the same mask with a new start",
)
def lottery(
    run: Run, *, networks: Annotated[int, Range(2, 10)] = 3,
    epochs: Annotated[int, Range(1, 20)] = 3, images: Annotated[int, Range(500, 60_000)] = 10_000,
    rounds: Annotated[int, Range(1, 20)] = 10, share: Annotated[float, Range(0.1, 0.5)] = 0.283,
) -> None:
    """Prunes LeNet-300-100 round by round; each mask is trained from its start and a new one.

    Args:
        networks: Lotteries, each with its own start.
        epochs: Times through the images in each round.
        images: Pictures at full budget.
        rounds: How often weights are removed.
        share: Share of the weights left that is removed in a round.
    """
    x, y, x_test, y_test = handwriting(run)
    x, y, held = x[:images].flatten(1), y[:images], (x_test.flatten(1), y_test)
    hidden, rate, size = ([300, 100], 0.002, 100) if run.full else ([128, 64], 0.005, 50)
    rounds = rounds if run.full else (rounds + 1) // 2
    compared = list(range(rounds, 0, -2))[::-1]  # every other round, the last included
    chosen = min(compared, key=lambda k: abs((1 - share) ** k - (0.13 if run.full else 0)))

    def start(name: str) -> MLP:
        return MLP([x.shape[1], *hidden, 10], rng=run.seed.child(name).torch())

    def train(model: nn.Module, name: str, number: int) -> float:
        return fit(
            model, (x, y), Supervised(F.cross_entropy),
            torch.optim.Adam(model.parameters(), rate), epochs=epochs, batch_size=size,
            validation=held, metrics={"accuracy": accuracy},
            seed=run.seed.child(f"batches {number}"), run=run, name=f"{name}-{number}",
        ).history[-1]["validation_accuracy"]

    own, new = torch.zeros(2, networks, rounds + 1, dtype=torch.float64)
    left: list[float] = []
    for number in range(networks):
        tickets = LotteryTicket(lambda one=number: start(f"start {one}"), rounds, prune=share)
        left = []
        for k, ticket in enumerate(tickets):
            left.append(1 - ticket.sparsity)
            own[number, k] = train(ticket.model, f"round-{k}", number)
            if k in compared:
                other = ticket.on(start(f"new {k} {number}"))
                new[number, k] = train(other, f"new-{k}", number)
            if (number, k) == (0, chosen):
                run.keep(_unmasked(ticket, start("kept")))
    gain = own[:, chosen] - new[:, chosen]
    dense, ticket_accuracy = own[:, [0, chosen]].mean(dim=0).tolist()
    run.record(
        dense_accuracy=dense, ticket_accuracy=ticket_accuracy, below_dense=dense - ticket_accuracy,
        new_start_accuracy=float(new[:, chosen].mean()), weights_left=left[chosen],
        advantage_in_errors=float(gain.mean() / standard_error(gain)),
    )
    some = [left[k] for k in compared]
    curves = (
        Series("ticket, its own start", left, own.mean(dim=0), "measured", "line"),
        Series("same mask, new start", some, new[:, compared].mean(dim=0), "other"),
        Series("whole network", [left[-1], 1.0], [dense] * 2, "bound"),
        Series("each ticket", left * networks, own.flatten()),
        Series("each new start", some * networks, new[:, compared].flatten(), "other", "points"),
    )
    picture = Plot(curves, "share of the weights that is left", "test accuracy", log="x")
    run.figure("accuracy", figures.draw(picture))


def _unmasked(ticket: Ticket, like: MLP) -> MLP:
    """Give a ticket's network as an ordinary one, in which the pruned weights are 0."""
    state = ticket.model.state_dict()
    plain = {name: state[f"{name}_orig"] * mask for name, mask in ticket.masks.items()}
    like.load_state_dict({name: plain.get(name, state.get(name)) for name in like.state_dict()})
    return like


@experiment(
    reaches={"loss_small": at_most_goal(0.05), "loss_large": at_most_goal(0.05)},
    floor={"loss_small": at_most_goal(0.05), "loss_large": at_most_goal(0.05)},
    source="Keskar et al. (2017), sec. 2: batches of either size reach the training loss; what "
    "they differ in, sharpness and test loss, is reported",
)
def small_vs_large_batch(
    run: Run, *, batch: Annotated[int, Range(2, 64)] = 8,
    images: Annotated[int, Range(200, 5000)] = 1000,
    loss: Annotated[float, Range(0.02, 0.05)] = 0.05,
) -> None:
    """Trains one start in small batches and in one large one, to the same training loss.

    Args:
        batch: Size of the small batches.
        images: Pictures to train with; the large batch has all of them.
        loss: Training loss at which both end.
    """
    x, y, x_test, y_test = handwriting(run)
    x, y, held = x[:images].flatten(1), y[:images], (x_test.flatten(1), y_test)
    nets, error = {}, {"loss": F.cross_entropy, "accuracy": accuracy}
    for name, size, lr in (("small", batch, 0.05), ("large", len(x), 0.5)):
        nets[name] = MLP([x.shape[1], 50, 10], rng=run.seed.child("init").torch())
        sgd = torch.optim.SGD(nets[name].parameters(), lr)
        fit(
            nets[name], (x, y), Supervised(F.cross_entropy), sgd, steps=20_000, batch_size=size,
            callbacks=[_Until(loss, x, y)], seed=run.seed.child(name), run=run, name=name,
        )
        train, test = evaluate(nets[name], (x, y), error), evaluate(nets[name], held, error)
        run.record(**{
            f"loss_{name}": train["loss"], f"test_loss_{name}": test["loss"],
            f"test_accuracy_{name}": test["accuracy"], f"gap_{name}": test["loss"] - train["loss"],
            f"sharpness_{name}": sharpness(nets[name], F.cross_entropy, x, y),
        })
    run.keep(nets["small"])
    path, t = BezierPath(nets["small"], nets["large"]), torch.linspace(0, 1, 41)
    series, sets = [], {"train": ((x, y), "line"), "test": (held, "points")}
    for name in ("straight line", "Bezier curve"):
        if name == "Bezier curve":
            adam = torch.optim.Adam(path.parameters(), 0.002)
            objective = path.objective(F.cross_entropy)
            fit(path, (x, y), objective, adam, steps=300, run=run, name="path")
        for which, (data, style) in sets.items():
            losses, kind = path.losses(F.cross_entropy, *data, t), "measured"
            kind = kind if name == "Bezier curve" else "other"
            series.append(Series(f"{name}, {which}", t, losses, kind, style))  # type: ignore[arg-type]
    picture = Plot(tuple(series), "t, from small batches (0) to the large one (1)", "loss")
    run.figure("between", figures.draw(picture))


@final
class _Until(Callback):
    """Ends a training as soon as the loss of all its data is low enough."""

    def __init__(self, loss: float, x: Tensor, y: Tensor) -> None:
        self.loss, self.data = loss, (x, y)

    def after_epoch(self, model: nn.Module, row: dict[str, float]) -> str:
        """Measure the loss where the epoch ended; that of the row is of all its steps."""
        found = evaluate(model, self.data, {"loss": F.cross_entropy})["loss"]
        return f"the loss is {found:.4f}" if found <= self.loss else ""

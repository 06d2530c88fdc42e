r"""Dropout: what it reaches on data."""

import functools
import math
from collections.abc import Mapping
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.data.synthetic import circles
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import PositiveInt, Range
from principia.lab.pictures import Image, Panels
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Supervised, accuracy, evaluate, fit, learner
from principia.lab.training.pairs import paired
from principia.regularization.claims.dropout import COURSE, PLAIN, cut_accuracy
from principia.regularization.dropout import (
    ClassicDropout,
    Keep,
    arithmetic_ensemble,
    enumerate_subnets,
    scale_weights,
    with_dropout,
)
from principia.regularization.norm_constraint import MaxNorm

SCORE = {"accuracy": accuracy}
STEPS = 40  # of the training for the maps
LARGE, REACH = 24, 1.6  # pixels of a large map a side, and how far it reaches from 0


@hero(moves="keep", frames=17)
def vote(
    seed: Seed, *, keep: Annotated[float, Range(0.1, 0.9)] = 0.7, scaled: bool = True,
    boldness: Annotated[float, Range(0.2, 12)] = 1.0,
) -> Panels:
    """One network with its weights times the keep probability nearly gives the vote of all 16.

    Args:
        keep: Probability of keeping each of four hidden units, which fence a disc; a small map is
            as strong as the probability of its subnetwork.
        scaled: Whether the weights are multiplied by it; if not, the one network is too sure.
        boldness: Factor of the last weights; subnetworks that are sure vote unlike their mean.
    """
    net = _network([*_fence(seed)[:2], *(boldness * one for one in _fence(seed)[2:])], keep)
    middles = (torch.arange(LARGE) + 0.5) * 2 * REACH / LARGE - REACH
    x = torch.cartesian_prod(-middles, middles).flip(1)  # the rows of a picture begin above
    with torch.no_grad():
        logits, chances = enumerate_subnets(net, x)
        one = (scale_weights(net) if scaled else nn.Sequential(net[0], net[1], net[3])).eval()(x)
    order = sorted(range(16), key=lambda mask: (mask.bit_count(), mask))  # few units first
    maps = logits.softmax(dim=-1)[order, :, 1].view(16, LARGE, LARGE)[:, 1::3, 1::3]
    strength = (chances[order] / chances.max()).sqrt()[:, None, None]
    tiles = nn.functional.pad(_colored(maps, strength), (0, 0, 1, 1, 1, 1), value=1.0)
    wall = tiles.unflatten(0, (4, 4)).transpose(1, 2).flatten(2, 3).flatten(0, 1)
    voted, single = arithmetic_ensemble(logits, chances)[:, 1], one.softmax(dim=-1)[:, 1]
    apart = float((voted - single).abs().mean())
    both = [_colored(chance.view(LARGE, LARGE)) for chance in (voted, single)]
    frame = torch.tensor([0.86, 0.15, 0.15] if apart > 0.08 else [0.1, 0.6, 0.3])
    framed = frame.expand(LARGE + 4, LARGE + 4, 3).clone()
    framed[2:-2, 2:-2] = both[1]
    weights = f"weights × {keep:.2g}" if scaled else "unscaled"
    shown = {
        "16 networks in one: no unit ... all 4": wall, "their vote": both[0],
        f"one network, {weights}: {apart:.0%} off": framed,
    }
    return Panels(tuple(
        Plot((Image(pixels),), title=title, square=True, bare=True)
        for title, pixels in shown.items()
    ))


def _colored(chance: Tensor, strength: Tensor | float = 1.0) -> Tensor:
    """Paint a chance above 1/2 orange, below blue, and white what is even or has no weight."""
    sure = ((2 * chance - 1) * strength)[..., None]
    paint = torch.where(sure > 0, *torch.tensor([[0.93, 0.5, 0.1], [0.15, 0.4, 0.8]]))
    return (100 - 100 * sure.abs() * (1 - paint)).round() / 100


@functools.lru_cache(maxsize=4)  # all frames show one network
def _fence(seed: Seed) -> list[Tensor]:
    """Train four units to fence a disc, on the mean loss of all their subnetworks."""
    rng = seed.torch()
    x, y = circles(rng, 60, 0.05)
    turn = torch.arange(4) * math.pi / 2 + math.pi * torch.rand((), generator=rng)
    walls = torch.stack([turn.cos(), turn.sin()], dim=1)
    against = torch.tensor([[1.0], [-1.0]])  # what fires tells that it is outside
    start = [6 * walls, torch.full((4,), -4.5), against.expand(2, 4), -against[:, 0]]
    net = _network(start, 0.7)
    adam = torch.optim.Adam(net.parameters(), lr=0.05, weight_decay=0.003)
    for _ in range(STEPS):
        logits, chances = enumerate_subnets(net, x)
        losses = F.cross_entropy(logits.flatten(0, 1), y.repeat(len(logits)), reduction="none")
        adam.zero_grad()
        (chances @ losses.view(len(logits), -1).mean(dim=1)).backward()
        adam.step()
    return [one.detach() for one in net.parameters()]


def _network(weights: list[Tensor], keep: float) -> nn.Sequential:
    """Build the network of four units that may be dropped."""
    first, last = (nn.utils.skip_init(nn.Linear, n, m) for n, m in ((2, 4), (4, 2)))
    net = nn.Sequential(first, nn.Sigmoid(), ClassicDropout(keep), last)
    for parameter, one in zip(net.parameters(), weights, strict=True):
        parameter.data.copy_(one)
    return net


@learner
def network(
    inputs: PositiveInt, outputs: PositiveInt, rng: torch.Generator, *,
    hidden: tuple[PositiveInt, ...] = (128, 128), keep_input: Keep = 0.8, keep_hidden: Keep = 0.5,
) -> nn.Module:
    """Builds an MLP with dropout for any table.

    Args:
        hidden: Widths of the hidden layers.
        keep_input: Probability of keeping an input.
        keep_hidden: Probability of keeping a hidden unit.
    """
    sizes = [inputs, *hidden, outputs]
    return with_dropout(sizes, keep_input=keep_input, keep_hidden=keep_hidden, rng=rng)


@experiment(
    reaches={"mnist_error": at_most_goal(0.016), "gain_low": at_least_goal(0.0)},
    floor={"digits_accuracy": at_least_goal(0.95)},
    source="Simard et al. (2003), two layers of 800 units without dropout: 1.6 %, as listed in "
    "Srivastava et al. (2014), table 2; to beat besides are our own networks without dropout, "
    "trained on 5,000 pictures",
)
def mnist_dropout(
    run: Run, *, units: Annotated[int, Range(16, 1024)] = 800,
    epochs: Annotated[int, Range(1, 40)] = 16, few: Annotated[int, Range(100, 60_000)] = 5000,
    few_epochs: Annotated[int, Range(1, 200)] = 40,
    pairs: Annotated[int, Range(2, 10)] | None = None,
) -> None:
    """Reads digits with dropout, and compares with runs without it on 5,000 pictures.

    Dropout learns slowly: after sixteen epochs of all 60,000 pictures, where the papers take
    hundreds, a plain network makes no more errors, and neither after sixteen epochs of 5,000. The
    pairs show what dropout is for with forty epochs of 5,000 pictures, which a plain network learns
    by heart.

    Args:
        units: Width of both hidden layers; a quarter of it for the small digits of a quick run.
        epochs: How often the training on all pictures goes through them.
        few: Pictures of a training of a pair.
        few_epochs: How often a training of a pair goes through them; a quick run takes `epochs`.
        pairs: How many pairs, each of other pictures and other first weights; none is 5, in a
            quick run 3.
    """
    x, y, x_test, y_test = handwriting(run)
    x, test = x.flatten(1), (x_test.flatten(1), y_test)
    width, peak = (units, 0.002) if run.full else (math.ceil(units / 4), 0.01)
    pairs = pairs or (5 if run.full else 3)

    def trained(name: str, seed: Seed, rows: Tensor, keeps: tuple[float, float]) -> nn.Sequential:
        sizes, rng = [x.shape[1], width, width, 10], seed.child("init").torch()
        net = with_dropout(sizes, keep_input=keeps[0], keep_hidden=keeps[1], rng=rng)
        fit(
            net, (x[rows], y[rows]), Supervised(F.cross_entropy),
            torch.optim.Adam(net.parameters(), fused=True),
            epochs=few_epochs if run.full and len(rows) < len(x) else epochs,
            batch_size=min(200, max(48, len(rows) // 50)), callbacks=[OneCycle(peak), MaxNorm(3.0)],
            validation=tuple(one[:1000] for one in test), metrics=SCORE, seed=seed, run=run,
            name=name,
        )
        return net

    nets: dict[str, list[nn.Sequential]] = {"dropout": [], "plain": []}
    for pair in range(1, pairs + 1):
        seed = run.seed.child(f"pair {pair}")
        rows = torch.randperm(len(x), generator=seed.child("rows").torch())[:few]
        for arm, keeps in (("dropout", COURSE), ("plain", PLAIN)):
            nets[arm].append(trained(f"{arm}-{pair}", seed, rows, keeps))
    best = nets["dropout"][0]
    if few < len(x):
        best = trained("all", run.seed.child("all"), torch.arange(len(x)), COURSE)
    run.keep(best)
    ours, theirs = (
        [evaluate(one, test, SCORE)["accuracy"] for one in nets[arm]] for arm in nets
    )
    right, gain = evaluate(best, test, SCORE)["accuracy"], paired(ours, theirs)
    run.record(**({"mnist_error": 1 - right} if run.full else {"digits_accuracy": right}))
    run.record(accuracy_of_pairs=sum(ours) / pairs, accuracy_without=sum(theirs) / pairs)
    run.record(**gain.metrics("gain"))
    run.figure("pairs", gain.figure("test accuracy", ("without dropout", "with dropout")))
    run.figure("errors", _errors({arm: run.curves[f"{arm}-1"] for arm in nets}))
    first = {arm: those[0] for arm, those in nets.items()}
    run.figure("cuts", _cuts(first, test[0][:1000], y_test[:1000], run.seed.child("cuts")))


def _errors(curves: Mapping[str, list[dict[str, float]]]) -> Any:
    """Draw losses of training beside those of test pictures, of the first pair."""
    series = [
        Series(f"{arm}, {what}", [row["epoch"] for row in rows], [row[name] for row in rows], role,
               "line")
        for (arm, rows), role in zip(curves.items(), ("measured", "other"), strict=True)
        for what, name in (("in training", "loss"), ("1,000 test pictures", "validation_loss"))
    ]
    return figures.draw(Plot(tuple(series), "epoch", "cross entropy", log="y"))  # type: ignore[arg-type]


def _cuts(nets: Mapping[str, nn.Sequential], x: Tensor, y: Tensor, seed: Seed) -> Any:
    """Draw how networks fare when more and more of their hidden units are cut."""
    shares = [k / 10 for k in range(10)]
    series = [
        Series(f"training: {arm}", shares, [
            cut_accuracy(net.cpu(), x, y, share, 5, seed.torch()).mean() for share in shares
        ], "measured" if arm == "dropout" else "other", "line")
        for arm, net in nets.items()
    ]
    picture = Plot(tuple(series), "share of hidden units that is cut", "test accuracy")
    return figures.draw(picture)

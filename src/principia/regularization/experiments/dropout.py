r"""Dropout: what it reaches on data."""

import math
from collections.abc import Mapping
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import PositiveInt, Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Supervised, accuracy, evaluate, fit, learner
from principia.lab.training.pairs import paired
from principia.regularization.claims.dropout import COURSE, PLAIN, cut_accuracy
from principia.regularization.dropout import Keep, with_dropout
from principia.regularization.norm_constraint import MaxNorm

SCORE = {"accuracy": accuracy}


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

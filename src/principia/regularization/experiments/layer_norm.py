r"""Layer normalization: what it reaches on data."""

import itertools
from collections.abc import Mapping
from typing import Annotated

import plotly.graph_objects as go
import torch
from torch import nn
from torch.nn import functional

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.evidence import Plot, Series
from principia.lab.params import PositiveInt, Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.training import OneCycle, Supervised, accuracy, fit, learner
from principia.lab.training.pairs import paired
from principia.regularization.claims.layer_norm import NORMS, NormName
from principia.regularization.initialization import he_mlp

NAMES: Mapping[NormName, str] = {"batch": "batch norm", "layer": "layer norm", "none": "no norm"}
BATCHES = (2, 8, 64)


@learner
def network(
    inputs: PositiveInt, outputs: PositiveInt, rng: torch.Generator, *,
    hidden: tuple[Annotated[int, Range(2, 10_000)], ...] = (64, 64), norm: NormName = "layer",
) -> nn.Module:
    """Builds a network with normalized hidden layers for any table.

    Args:
        hidden: Widths of the hidden layers.
        norm: What is done to the sums of a hidden layer before they are bent.
    """
    return he_mlp([inputs, *hidden, outputs], norm=NORMS[norm], rng=rng)


@experiment(
    reaches={"layer_norm_spread": at_most_goal(0.01), "batch_norm_loss_low": at_least_goal(0.01)},
    floor={"layer_norm_at_2": at_least_goal(0.94), "batch_norm_loss_low": at_least_goal(0.01)},
    source="Wu and He 2018, fig. 1 and table 2: batch norm loses accuracy with small batches, "
    "which norms over one sample keep",
)
def ln_small_batch(
    run: Run, *, pairs: Annotated[int, Range(3, 10)] = 3,
    width: Annotated[int, Range(16, 512)] = 100, lr: Annotated[float, Range(0.01, 1)] = 0.1,
) -> None:
    """Trains nets with batch norm, layer norm and (full budget) none on batches of 2, 8 and 64.

    Each network learns from 6,016 pictures of clothes, since steps on batches of 2 take long, or
    from 1,024 small digits in a quick run.

    Args:
        pairs: How many starts and subsets of the data, each shared by all networks.
        width: Units of each of the two hidden layers.
        lr: Largest step size on batches of 64; on smaller ones it is as much smaller.
    """
    # rows of which none is left over by a batch, since batch norm cannot learn from one
    x, y, x_test, y_test = digits()
    rows, epochs, norms = 16 * 64, 2, list(NAMES)[:2]
    if run.full:
        x, y = fashion("train", data_dir=run.data_dir)
        x_test, y_test = fashion("test", data_dir=run.data_dir)
        rows, epochs, norms = 94 * 64, 5, list(NAMES)
    x, x_test = x.flatten(1), x_test.flatten(1)
    found: dict[tuple[NormName, int], list[float]] = {}
    for pair, norm, batch in itertools.product(range(pairs), norms, BATCHES):
        seed = run.seed.child(f"pair {pair}")
        some = torch.randperm(len(x), generator=seed.child("rows").torch())[:rows]
        rng = seed.child("start").torch()
        net = he_mlp([x.shape[1], width, width, 10], norm=NORMS[norm], rng=rng)
        peak = lr * batch / max(BATCHES)
        history = fit(
            net, (x[some], y[some]), Supervised(functional.cross_entropy),
            torch.optim.SGD(net.parameters(), lr=peak, momentum=0.9, fused=True), epochs=epochs,
            batch_size=batch, callbacks=[OneCycle(peak)], validation=(x_test, y_test),
            metrics={"accuracy": accuracy}, seed=seed.child("batches"), run=run,
            name=f"{norm}-{batch}-{pair}",
        ).history
        found.setdefault((norm, batch), []).append(history[-1]["validation_accuracy"])
        if (pair, norm, batch) == (0, "layer", min(BATCHES)):
            run.keep(net)
    means = {arm: sum(ones) / pairs for arm, ones in found.items()}
    run.record(**{
        f"{NAMES[norm].replace(' ', '_')}_at_{batch}": one for (norm, batch), one in means.items()
    })
    layer = [means["layer", batch] for batch in BATCHES]
    loss = paired(found["batch", max(BATCHES)], found["batch", min(BATCHES)])
    gain = paired(found["layer", min(BATCHES)], found["batch", min(BATCHES)])
    run.record(layer_norm_spread=max(layer) - min(layer), **loss.metrics("batch_norm_loss"))
    run.record(**gain.metrics("layer_norm_gain"))
    run.figure("batch_sizes", _accuracy_against_batch_size(found))
    arms = "batch norm, batches of 2", "layer norm, batches of 2"
    run.figure("pairs", gain.figure("test accuracy", arms))


def _accuracy_against_batch_size(found: Mapping[tuple[NormName, int], list[float]]) -> go.Figure:
    """Draw the mean of the pairs as a line for each norm, and every network as a point."""
    places, nets = zip(*(
        (batch, score) for (_, batch), scores in found.items() for score in scores
    ), strict=True)
    curves = [
        Series(name, BATCHES, [sum(found[norm, one]) / len(found[norm, one]) for one in BATCHES],
               "other", "line")
        for norm, name in NAMES.items() if (norm, BATCHES[0]) in found
    ]
    every_net = Series("single networks", places, nets, style="points")
    picture = Plot((*curves, every_net), "samples in a batch", "test accuracy", "x")
    return figures.draw(picture).update_xaxes(tickvals=BATCHES)

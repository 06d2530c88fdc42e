r"""Label smoothing: what it reaches on data."""

from typing import Annotated

import plotly.graph_objects as go
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Adam

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.evidence import Plot, Series
from principia.lab.params import PositiveInt, Range
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.training import Callback, OneCycle, Supervised, callback, fit, outputs_of
from principia.lab.training.pairs import paired
from principia.networks.mlp import MLP
from principia.regularization.label_smoothing import (
    LabelSmoothing,
    Rate,
    expected_calibration_error,
    reliability,
)

RATES = (0.0, 0.05, 0.1, 0.2)  # arms of the experiment


@callback()
def label_smoothing(run: Run, *, eps: Rate = 0.1) -> Callback:
    """Takes some of the probability of each label and spreads it over all classes.

    Args:
        eps: How much is taken from the label.
    """
    return LabelSmoothing(eps)


@experiment(
    reaches={
        "gain_in_errors": at_least_goal(2.0), "accuracy_change": at_least_goal(-0.005),
    },
    floor={"accuracy": at_least_goal(0.9)},
    source="Müller, Kornblith and Hinton (2019), table 3: smoothing calibrates; to beat is the "
    "same network with labels, by two standard errors over five pairs",
)
def calibration(
    run: Run, *, pairs: Annotated[int, Range(2, 20)] = 5, epochs: PositiveInt = 40,
    hidden: tuple[PositiveInt, ...] = (256, 256),
) -> None:
    """Trains networks on 1000 pictures until they know them by heart, and asks how sure they are.

    Args:
        pairs: How many draws of the pictures and of the first weights.
        epochs: How often a network goes through them.
        hidden: Widths of its hidden layers.
    """
    if run.full:
        (x, y), test = (fashion(split, data_dir=run.data_dir) for split in ("train", "test"))
        rates, peak = RATES, 2e-3
    else:
        x, y, *test = digits()
        rates, peak, pairs, epochs = (0.0, 0.1), 1e-2, min(pairs, 2), min(epochs, 15)
    x, test = x.flatten(1), (test[0].flatten(1), test[1])
    seen: dict[tuple[float, int], dict[str, Tensor]] = {}
    for number in range(pairs):
        own = run.seed.child(f"pair {number}")
        order = torch.randperm(len(x), generator=own.child("data").torch())
        train, held = order[:1000], order[1000:4000]
        for eps in rates:
            model = MLP([x.shape[1], *hidden, 10], rng=own.child("init").torch())
            fit(
                model, (x[train], y[train]), Supervised(F.cross_entropy),
                Adam(model.parameters(), lr=1e-3), epochs=epochs, batch_size=50,
                callbacks=[OneCycle(peak), *([LabelSmoothing(eps)] if eps else [])],
                validation=(x[held], y[held]), seed=own, run=run, name=f"eps-{eps}-{number}",
            )
            model.cpu()
            seen[eps, number] = {
                "held": outputs_of(model, x[held]).softmax(dim=1),
                "held_y": y[held], "test": outputs_of(model, test[0]).softmax(dim=1),
            }
            if (eps, number) == (0.1, 0):
                run.keep(model)

    def errors(eps: float, of: str) -> Tensor:
        truth = [seen[eps, k]["held_y"] if of == "held" else test[1] for k in range(pairs)]
        found = [seen[eps, k][of] for k in range(pairs)]
        return torch.stack(list(map(expected_calibration_error, found, truth)))

    def right(eps: float) -> Tensor:
        found = [(seen[eps, k]["test"].argmax(1) == test[1]).double().mean() for k in range(pairs)]
        return torch.stack(found)

    best = min(rates[1:], key=lambda eps: float(errors(eps, "held").mean()))
    gain = paired(errors(0.0, "test"), errors(best, "test"))
    change = paired(right(best), right(0.0))
    run.record(
        eps=best, ece=float(errors(best, "test").mean()),
        ece_of_labels=float(errors(0.0, "test").mean()), accuracy=float(right(best).mean()),
        **gain.metrics("gain"), accuracy_change=change.mean, accuracy_change_low=change.low,
        accuracy_change_high=change.high,
    )
    lowered = paired(errors(best, "test"), errors(0.0, "test"))
    run.figure("pairs", lowered.figure("calibration error", ("labels", f"ε = {best:g}")))
    run.figure("reliability", _diagram({
        eps: reliability(
            torch.cat([seen[eps, k]["test"] for k in range(pairs)]), test[1].repeat(pairs), 10
        )
        for eps in rates
    }))


def _diagram(found: dict[float, tuple[Tensor, Tensor, Tensor]]) -> go.Figure:
    """Draw accuracy against confidence for every rate of smoothing."""
    series = [Series("as sure as right", [0, 1], [0, 1], "predicted", "line")]
    for eps, (confidence, accuracy, count) in found.items():
        filled = count >= 20  # a mean over fewer says nothing
        series.append(
            Series(f"ε = {eps:g}", confidence[filled], accuracy[filled], "other", "line")
        )
    return figures.draw(Plot(tuple(series), "confidence", "accuracy"))

r"""Early stopping: what it reaches on data."""

from typing import Annotated, Any, Literal

import plotly.graph_objects as go
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Adam

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.evidence import Plot, Series
from principia.lab.params import NonNegativeFloat, PositiveInt, Range
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import (
    Callback,
    EarlyStopping,
    Supervised,
    Trained,
    accuracy,
    callback,
    evaluate,
    fit,
)
from principia.lab.training.pairs import paired
from principia.networks.mlp import MLP
from principia.regularization.noise import flip_labels

FLIPPED = 0.2  # share of the labels that are wrong
LONGER = 5  # times as many epochs as until the stop


@callback()
def early_stopping_callback(
    run: Run, *, patience: PositiveInt = 5, min_delta: NonNegativeFloat = 0.0,
    metric: Literal["validation_loss", "validation_accuracy"] = "validation_loss",
) -> Callback:
    """Stops when the validation data no longer improve, and ends with the best weights.

    Args:
        patience: Epochs without improvement before it stops.
        min_delta: By how much a number must be better to count as an improvement.
        metric: Which number decides.
    """
    better: Any = "lower" if metric == "validation_loss" else "higher"
    return EarlyStopping(metric, better=better, patience=patience, min_delta=min_delta)


@experiment(
    reaches={
        "gain": at_least_goal(0.02), "gain_low": at_least_goal(0.0),
        "stopped_share": at_least_goal(1.0),
    },
    floor={"gain": at_least_goal(0.0), "stopped_share": at_least_goal(1.0)},
    source="Li, Soltanolkotabi and Oymak (2020): stopped early, a net is robust to wrong labels; "
    "to beat is the same net after 5 times as many epochs, by 2 points",
)
def stop_the_mlp(
    run: Run, *, pairs: Annotated[int, Range(2, 20)] = 3, patience: PositiveInt = 3,
    hidden: Annotated[int, Range(8, 2000)] = 512, most: Annotated[int, Range(1, 500)] = 60,
) -> None:
    """Trains on pictures of which a fifth has a wrong label, until the stop and far beyond.

    Every pair must have stopped by itself, before the last epoch that it may take.

    Args:
        pairs: How many draws of pictures, wrong labels and first weights.
        patience: Epochs without improvement on held-out data, whose labels are as wrong.
        hidden: Width of the hidden layer.
        most: Epochs of a training that does not stop by itself.
    """
    if run.full:
        (x, y), test = (fashion(split, data_dir=run.data_dir) for split in ("train", "test"))
        shown, judged, lr = 5000, 1000, 1e-3
    else:
        x, y, *test = digits()
        shown, judged, lr = 1000, 400, 3e-3  # few steps an epoch
    x, test = x.flatten(1), (test[0].flatten(1), test[1])
    scores: dict[str, list[float]] = {"stopped": [], "long": []}
    epochs, ended = [], []
    for number in range(pairs):
        own = run.seed.child(f"pair {number}")
        order = torch.randperm(len(x), generator=own.child("data").torch())
        train, held = order[:shown], order[shown : shown + judged]
        labels = flip_labels(y, FLIPPED, 10, own.child("labels").torch())

        def trained(
            name: str, length: int, callbacks: list[Callback], own: Seed = own,
            train: Tensor = train, held: Tensor = held, labels: Tensor = labels,
        ) -> Trained:
            model = MLP([x.shape[1], hidden, 10], rng=own.child("init").torch())
            done = fit(
                model, (x[train], labels[train]), Supervised(F.cross_entropy),
                Adam(model.parameters(), lr=lr), epochs=length, batch_size=50, callbacks=callbacks,
                validation=(x[held], labels[held]), metrics={"accuracy": accuracy}, seed=own,
                run=run, name=name,
            )
            score = evaluate(model.cpu(), test, {"accuracy": accuracy})["accuracy"]
            scores[name.split("-")[0]].append(score)
            return done

        stopped = trained(f"stopped-{number}", most, [EarlyStopping(patience=patience)])
        epochs.append(len(stopped.history))
        ended.append(bool(stopped.stopped))
        long = trained(f"long-{number}", LONGER * epochs[-1], [])
        if number == 0:
            run.keep(stopped.model)
            run.figure("curves", _curves(stopped, long))
    gain = paired(scores["stopped"], scores["long"])
    run.record(
        accuracy=sum(scores["stopped"]) / pairs, accuracy_long=sum(scores["long"]) / pairs,
        epochs_until_the_stop=sum(epochs) / pairs, stopped_share=sum(ended) / pairs,
        **gain.metrics("gain"),
    )
    run.figure("pairs", gain.figure("test accuracy", ("5 times as long", "stopped")))


def _curves(stopped: Trained, long: Trained) -> go.Figure:
    """Draw the losses of the long training, and where the stopped one had its best weights."""
    epochs = [row["epoch"] for row in long.history]
    best = min(stopped.history, key=lambda row: row["validation_loss"])
    return figures.draw(Plot((
        Series("training data, wrong labels learned by heart", epochs,
               [row["loss"] for row in long.history], "other", "line"),
        Series("held-out data", epochs, [row["validation_loss"] for row in long.history],
               "measured", "line"),
        Series("weights of the stop", [best["epoch"]], [best["validation_loss"]], "predicted",
               "points"),
    ), "epoch", "cross-entropy", log="x"))

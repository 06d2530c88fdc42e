r"""Early stopping: what it reaches on data."""

import functools
import math
from typing import Annotated, Any, Literal

import plotly.graph_objects as go
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Adam

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import NonNegativeFloat, PositiveInt, Range
from principia.lab.pictures import Image, Label, Panels
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
from principia.regularization.early_stopping import stopped_shrinkage
from principia.regularization.noise import flip_labels

FLIPPED = 0.2  # share of the labels that are wrong
LONGER = 5  # times as many epochs as until the stop
CHECKS = 24  # of the moving picture
SIDE = 40  # of the picture that is learned, in pixels


@hero(moves="time", frames=CHECKS + 1)
def shapes_before_grain(
    seed: Seed, *, noise: Annotated[float, Range(0, 1)] = 0.3,
    patience: Annotated[int, Range(1, 12)] = 3, time: Annotated[int, Range(0, CHECKS)] = 13,
) -> Panels:
    """What is true is learned before the noise, so the best picture comes midway.

    Args:
        noise: Standard deviation of the noise on the copy that it learns from; black to white is 1.
        patience: Checks without a better one after which it stops; with too many it learns grain.
        time: Check number; from one to the next the steps grow by a factor of 1.7.
    """
    copy, learned, errors, (best, stop) = _lesson(seed, noise, patience)
    to_copy, to_clean = errors
    late = time > best and float(to_clean[time]) > 1.3 * float(to_clean[best])
    stage = "blank" if time == 0 else "shapes" if time < 8 else "detail"
    stage = "grain" if time > best + 2 else stage
    color, checks, top = "red" if late else "green", range(CHECKS + 1), float(errors.max())
    stopped = ([stop, stop], [0, top]) if stop < CHECKS else ([], [])
    return Panels((
        Plot((Image(copy, low=-0.2, high=1.2),), title="all that it sees", square=True, bare=True),
        Plot((Image(learned[time], low=-0.2, high=1.2),), title=f"learned: {stage}",
             square=True, bare=True),
        Plot((
            Series("distance to the noisy copy", checks, to_copy, "gray", "line"),
            Series("distance to the clean picture", checks, to_clean, "blue", "line"),
            Series("best", [best], to_clean[[best]], "green", "points"),
            Label("best", best, to_clean[best] + 0.05 * top, "green"),
            Series("stop", *stopped, "ink", "line"),
            Label("it stops" if stop < CHECKS else "it does not stop", min(stop, CHECKS - 5),
                  1.05 * top, "ink"),
            Series("now", [time], to_clean[[time]], color, "points"),
            Label("the noisy copy", 3, to_copy[3] + 0.06 * top, "gray", side="right"),
            Label("the clean cat", 1, to_clean[9] - 0.06 * top, "blue", side="right"),
        ), x="check", y="distance to", title="too late" if late else "how far it is",
            x_range=(0, CHECKS), y_range=(0, 1.1 * top)),
    ))


@functools.lru_cache(maxsize=4)  # all frames are moments of one descent
def _lesson(
    seed: Seed, noise: float, patience: int
) -> tuple[Tensor, Tensor, Tensor, tuple[int, int]]:
    """Learn a picture by descent; give the copy, its states, distances, best check and stop."""
    clean = _cat()
    copy, other = (clean + noise * torch.randn(SIDE, SIDE, generator=seed.child(name).torch())
                   for name in ("copy", "held out"))
    # weights pass a blur, so the Hessian is diagonal in waves, and fine waves are weak
    k, i = torch.arange(SIDE), torch.arange(SIDE) + 0.5
    waves = (2 / SIDE) ** 0.5 * torch.cos(math.pi * k[:, None] * i / SIDE)
    waves[0] /= 2**0.5
    lam = (1 + (k[:, None] ** 2 + k**2) / 4) ** -1.5
    steps = [0, *(round(1.7 ** (check - 1)) for check in range(1, CHECKS + 1))]
    shares = torch.stack([stopped_shrinkage(lam, 1.0, t) for t in steps])
    learned = waves.T @ (shares * (waves @ copy @ waves.T)) @ waves
    errors = torch.stack([(learned - one).square().mean((1, 2)).sqrt() for one in (copy, clean)])
    judged = (learned - other).square()[:, ::2, ::2].mean((1, 2))  # a few pixels seen once more
    model: Any = nn.utils.skip_init(nn.Linear, 1, 1, bias=False)
    stopping = EarlyStopping(patience=patience)
    stopping.begin(model, {}, CHECKS)
    stop = next((check for check, loss in enumerate(judged.tolist())
                 if stopping.after_epoch(model, {"validation_loss": loss})), CHECKS)
    return copy, learned, errors, (int(errors[1].argmin()), stop)


def _cat() -> Tensor:
    """Draw a cat: a head, ears, eyes, and whiskers one pixel wide."""
    y, x = torch.meshgrid(*[torch.linspace(-1, 1, SIDE)] * 2, indexing="ij")
    left = x.abs()
    picture = ((x / 0.78) ** 2 + ((y - 0.2) / 0.66) ** 2 < 1).float() * 0.75
    picture[(y > -0.95) & (y < 0) & (left > 0.15 - 0.65 * y) & (left < 0.8)] = 0.75
    picture[(left - 0.32) ** 2 + (y - 0.05) ** 2 < 0.03] = 1.0
    picture[((left - 0.32) / 0.06) ** 2 + ((y - 0.05) / 0.14) ** 2 < 1] = 0.0
    picture[(left < 0.12 - 0.6 * (y - 0.35)) & (y > 0.35) & (y < 0.52)] = 0.1
    for tilt in (-0.12, 0.0, 0.12):
        whisker = (y - 0.5 - tilt * (left - 0.2) * 2).abs() < 0.026
        picture[whisker & (left > 0.25) & (left < 0.97)] = 0.0
        picture[whisker & (left > 0.75) & (left < 0.97)] = 0.6
    return picture


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

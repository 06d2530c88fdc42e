r"""Weight normalization: what it reaches on data."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import Callback, Diverged, Supervised, accuracy, evaluate, fit
from principia.lab.training.pairs import paired
from principia.networks.mlp import MLP
from principia.regularization.initialization import he_mlp
from principia.regularization.weight_norm import (
    data_dependent_init,
    halves,
    merge,
    normalize_weights,
    normalized_layers,
)

Arm = Literal["plain", "weight_norm", "weight_norm_init", "batch_norm"]
Rate = Annotated[float, Range(0.001, 10)]
ARMS: tuple[Arm, ...] = ("plain", "weight_norm", "weight_norm_init", "batch_norm")


@experiment(
    reaches={"share_of_steps": at_most_goal(0.7), "steps_saved_low": at_least_goal(0)},
    floor={"share_of_steps": at_most_goal(0.9)},
    source="Salimans and Kingma 2016, fig. 1: with its start by data, weight normalization trains "
    "faster than the plain network; here to its last training loss in 0.7 of its steps",
)
def wn_vs_bn(
    run: Run, *, pairs: Annotated[int, Range(2, 10)] | None = None,
    epochs: Annotated[int, Range(3, 30)] = 6, width: Annotated[int, Range(16, 512)] | None = None,
    lrs: tuple[Rate, ...] | None = None,
) -> None:
    """Counts the steps to the plain network's last training loss, each at its best rate.

    Pixels stay in [0, 1] and are not centered: with centered ones He's start is better and leaves
    less to gain. Of clothes each network sees 10,000.

    Args:
        pairs: Starts and orders of the data, each shared by all networks; none is 3, of clothes 5.
        epochs: How often each network sees the data.
        width: Units of each of the two hidden layers; none is 64, of clothes 256.
        lrs: Rates, of which each kind takes that with the lowest loss from one more start.
    """
    x, y, *test = digits()
    rows, size, units, rates = len(x), 32, width or 64, lrs or (0.1, 0.3, 1.0)
    pairs = pairs or (5 if run.full else 3)
    if run.full:
        (x, y), test = (fashion(split, data_dir=run.data_dir) for split in ("train", "test"))
        rows, size, units, rates = 10_000, 100, width or 256, lrs or (0.02, 0.05, 0.1, 0.3, 1.0)
    x, tested = x.flatten(1), (test[0].flatten(1), test[1])
    watch = _Lengths(looks=50)

    def train(arm: Arm, pair: str, rate: float, *callbacks: Callback) -> tuple[
        nn.Module, list[float]
    ]:
        """Train one network, and give the mean loss of each epoch."""
        seed = run.seed.child(pair)
        some = torch.randperm(len(x), generator=seed.child("rows").torch())[:rows]
        net = _started(arm, [x.shape[1], units, units, 10], seed.child("start"), x[some[:500]])
        name = f"{arm}-{rate:g}-{pair}"
        try:
            fit(
                net, (x[some], y[some]), Supervised(F.cross_entropy),
                torch.optim.SGD(net.parameters(), lr=rate, fused=True), epochs=epochs,
                batch_size=size, callbacks=callbacks, seed=seed.child("batches"), run=run,
                name=name,
            )
        except Diverged:
            return net, [math.inf] * epochs
        return net, [row["loss"] for row in run.curves[name]]

    found: dict[Arm, list[list[float]]] = {arm: [] for arm in ARMS}
    right: dict[Arm, list[float]] = {arm: [] for arm in ARMS}
    for arm in ARMS:
        best = min(dict.fromkeys(rates), key=lambda rate, arm=arm: train(arm, "first", rate)[1][-1])
        for pair in range(pairs):
            shown = arm == "weight_norm_init" and pair == 0
            net, losses = train(arm, f"pair{pair}", best, *([watch] if shown else []))
            found[arm].append(losses)
            right[arm].append(evaluate(net, tested, {"accuracy": accuracy})["accuracy"])
            if shown:
                run.keep(merge(net))
        last = statistics.fmean(losses[-1] for losses in found[arm])
        run.record(**{f"{arm}_rate": best, f"{arm}_loss": last})
    shares = {
        arm: [_epochs_to(plain[-1], one) / epochs
              for one, plain in zip(found[arm], found["plain"], strict=True)]
        for arm in ARMS[1:]
    }
    ours, *others = ARMS[2], ARMS[1], ARMS[3]
    run.record(**{f"{arm}_share_of_steps": statistics.fmean(shares[arm]) for arm in others})
    share, correct = (statistics.fmean(one[ours]) for one in (shares, right))
    run.record(share_of_steps=share, accuracy=correct)
    gain, saved = paired(right[ours], right["plain"]), paired([1.0] * pairs, shares[ours])
    run.record(**saved.metrics("steps_saved"), **gain.metrics("accuracy_gain"))
    run.figure("lengths", _lengths_and_rates(watch.seen))
    run.figure("pairs", saved.figure(
        "share of the plain network's steps", ("weight norm and start", "plain")
    ))


@final
class _Lengths(Callback):
    """Measures the lengths of the directions, layer by layer, at evenly spaced steps."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def begin(self, model: nn.Module, optimizers: Mapping[str, Any], steps: int) -> None:
        """Look at the start."""
        self._step, self._every, self._seen = 0, max(steps // self.looks, 1), []
        self.look(model)

    @torch.no_grad()
    def look(self, model: nn.Module) -> None:
        """Take the root mean square of the lengths of a layer's units."""
        lengths = [
            float(halves(layer)[1].square().sum(dim=1).mean().sqrt())
            for layer in normalized_layers("_Lengths", model).values()
        ]
        self._seen.append([float(self._step), *lengths])

    def after_step(self, model: nn.Module) -> None:
        """Look, if it is time."""
        self._step += 1
        if self._step % self._every == 0:
            self.look(model)

    @property
    def seen(self) -> Tensor:
        """A row for each look: the step, and the length in every layer."""
        return torch.tensor(self._seen, dtype=torch.float64)

    def state_dict(self) -> dict[str, Any]:
        """Give what was seen."""
        return {"step": self._step, "seen": self._seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what was seen."""
        self._step, self._seen = state["step"], state["seen"]


def _started(arm: Arm, sizes: list[int], seed: Seed, batch: Tensor) -> MLP:
    """Make a network by He's rule, the same weights for all kinds, and normalize it its way."""
    norm = nn.BatchNorm1d if arm == "batch_norm" else None
    net = he_mlp(sizes, norm=norm, rng=seed.torch())
    if arm.startswith("weight_norm"):
        normalize_weights(net)
    return data_dependent_init(net, batch) if arm == "weight_norm_init" else net


def _epochs_to(goal: float, losses: Sequence[float]) -> float:
    """Find where a curve of losses falls to a goal, between epochs by its logarithm."""
    if not math.isfinite(goal):  # of a network that diverged: to beat it saves nothing
        return float(len(losses))
    for epoch, loss in enumerate(losses, start=1):
        if loss <= goal:
            if epoch == 1:
                return 1.0
            before = math.log(losses[epoch - 2])
            return epoch - (math.log(goal) - math.log(loss)) / (before - math.log(loss))
    return len(losses) + 1.0  # one more at least


def _lengths_and_rates(seen: Tensor) -> Any:
    """Draw the lengths, and the rates that they leave, both as multiples of those at the start."""
    steps, *lengths = seen.T
    series = []
    for number, length in enumerate(lengths, start=1):
        ratio = length / length[0]
        series += [
            Series(f"layer {number}: |v|", steps, ratio, "other", "line"),
            Series(f"layer {number}: η/|v|²", steps, 1 / ratio**2, "other", "line"),
        ]
    return figures.draw(Plot(tuple(series), "training step", "multiple of the start"))

r"""Batch normalization: what it reaches on data."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, final

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.training import EMA, Callback, Diverged, Supervised, accuracy, evaluate, fit
from principia.lab.training.pairs import paired
from principia.regularization.batch_norm import ConvNet

Rate = Annotated[float, Range(0.01, 2)]
Kind = Literal["bn", "plain"]
KINDS: tuple[Kind, ...] = ("bn", "plain")
QUICK_RATES, FULL_RATES = (0.2, 0.5), (0.05, 0.1, 0.2, 0.5)


@experiment(
    reaches={"accuracy": at_least_goal(0.903), "speedup": at_least_goal(2)},
    floor={"steep_accuracy": at_least_goal(0.95), "plain_steep_accuracy": at_most_goal(0.95)},
    source="table of submitted benchmarks of Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): two "
    "convolutions with max pooling and ELU, 0.903 (0.916 without ELU, after more than 300 epochs); "
    "to be reached in half the epochs of the plain network, both at their best rates",
)
def bn_speed(
    run: Run, *, lrs: tuple[Rate, ...] | None = None, epochs: Annotated[int, Range(2, 30)] = 10,
    pairs: Annotated[int, Range(2, 10)] | None = None,
) -> None:
    """Counts the epochs to a test accuracy with batch normalization and without.

    Every rate is tried from one start; then both networks learn at their best ones from others.
    `steep_accuracy` is that at the largest rate, of the plain network after as many epochs.

    Args:
        lrs: Learning rates; none is 0.2 and 0.5, of clothes 0.05 to 0.5: at 1 both networks stay at
            chance.
        epochs: Of each training of a pair, and at most of a trial; a network that is not there yet
            counts as one epoch more.
        pairs: Starts and orders of the data, each with and without; by default 3 at full budget,
            else 2.
    """
    goal, size, rates = (0.903, 50, FULL_RATES) if run.full else (0.95, 32, QUICK_RATES)
    rates, pairs = sorted({*(lrs or rates)}), pairs or (3 if run.full else 2)
    if run.full:
        (x, y), test = (fashion(split, data_dir=run.data_dir) for split in ("train", "test"))
    else:
        x, y, *test = digits()
    x, test = x[:, None], (test[0][:, None], test[1])
    batches, looks = len(x) // size, {}

    def train(kind: Kind, start: str, rate: float, *, stop: bool) -> list[float]:
        """Give the test accuracy after each epoch."""
        own, name = run.seed.child(start), f"{kind}-{rate:g}-{start}"
        net = ConvNet([1, 16, 32], side=x.shape[-1], batch_norm=kind == "bn", rng=own.torch())
        callbacks: list[Callback] = [EMA(1 - 3 / batches), _Tested(goal if stop else None, *test)]
        if rate == rates[-1] and kind not in looks:
            looks[kind] = _Along(every=max(batches // 10, 1))
            callbacks.append(looks[kind])
        try:
            fit(
                net, (x, y), Supervised(F.cross_entropy), torch.optim.SGD(net.parameters(), rate),
                epochs=epochs, batch_size=size, callbacks=callbacks, seed=own, run=run, name=name,
            )
        except Diverged:
            lost = epochs - len(run.curves[name])
            return [row["test_accuracy"] for row in run.curves[name]] + lost * [0.0]
        if (kind, start) == ("bn", "pair0"):
            run.keep(net, example=x[:1])
        return [row["test_accuracy"] for row in run.curves[name]]

    def needed(curve: list[float]) -> int:
        """Count the epochs to the goal; a curve that ends below it needs one more at least."""
        return next((k for k, one in enumerate(curve, 1) if one >= goal), len(curve) + 1)

    trials = {kind: [train(kind, "trial", rate, stop=True) for rate in rates] for kind in KINDS}
    counts = {kind: [needed(curve) for curve in curves] for kind, curves in trials.items()}
    steep, plain_steep = (trials[kind][-1] for kind in KINDS)
    run.record(steep_accuracy=max(steep), plain_steep_accuracy=max(plain_steep[: len(steep)]))
    run.record(steep_epochs=needed(steep), plain_steep_epochs=needed(plain_steep))
    found = {}
    for kind in KINDS:
        best = rates[counts[kind].index(min(counts[kind]))]
        found[kind] = [train(kind, f"pair{pair}", best, stop=False) for pair in range(pairs)]
        run.record(**{f"{kind}_rate": best})
    (right, plain_right), (spent, plain_spent) = (
        [[what(curve) for curve in found[kind]] for kind in KINDS] for what in (max, needed)
    )
    gain, saved = paired(right, plain_right), paired(plain_spent, spent)
    run.record(
        accuracy=sum(right) / pairs, speedup=sum(plain_spent) / sum(spent),
        epochs=sum(spent) / pairs, plain_epochs=sum(plain_spent) / pairs,
        **saved.metrics("epochs_saved"), **gain.metrics("gain"),
    )
    run.figure("pairs", gain.figure("best test accuracy", ("plain", "BN")))
    run.figure("rates", figures.draw(Plot(tuple(
        Series(kind, rates, counts[kind], role, "line")
        for kind, role in zip(KINDS, ("measured", "other"), strict=True)
    ), "learning rate", f"epochs to a test accuracy of {goal:g}", log="x")))
    shown = {kind: looks[kind].seen[: len(looks["bn"].seen)] for kind in ("plain", "bn")}
    for kind, seen in shown.items():
        _, low, high, turn = seen.mean(dim=0).tolist()
        run.record(**{f"{kind}_loss_range": high - low, f"{kind}_gradient_change": turn})
    run.figure("landscape", _landscape(shown))


@final
class _Tested(Callback):
    """Measures the test accuracy after each epoch; it ends a training that has reached a goal."""

    def __init__(self, goal: float | None, x: Tensor, y: Tensor) -> None:
        self.goal, self.data = goal, (x, y)

    def after_epoch(self, model: nn.Module, row: dict[str, float]) -> str:
        """Measure the model as it is shown: the average of its weights."""
        row["test_accuracy"] = evaluate(model, self.data, {"accuracy": accuracy})["accuracy"]
        there = self.goal is not None and row["test_accuracy"] >= self.goal
        return "the accuracy is reached" if there else ""


@final
class _Along(Callback):
    """Looks along the gradient at some steps: what loss and gradient are farther that way."""

    def __init__(self, every: int) -> None:
        self.every, self.ways = every, (0.05, 0.1, 0.2, 0.4)

    def begin(self, model: nn.Module, optimizers: Mapping[str, Any], steps: int) -> None:
        """Forget an earlier training."""
        self._step, self._seen = 0, torch.zeros(0, 4, dtype=torch.float64)

    def prepare(self, batch: tuple[Tensor, ...], rng: torch.Generator) -> tuple[Tensor, ...]:
        """Keep the batch of the step."""
        self._batch = batch
        return batch

    def before_step(self, model: nn.Module) -> None:
        """Move copies of the weights against the gradient, and measure there."""
        if self._step % self.every == 0:
            x, y = self._batch
            slopes = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
            here, losses, changes = torch.cat([one.flatten() for one in slopes.values()]), [], []
            for way in self.ways:
                moved = {name: (p.detach() - way * slopes[name]).requires_grad_()
                         for name, p in model.named_parameters()}
                buffers = {name: one.clone() for name, one in model.named_buffers()}
                loss = F.cross_entropy(functional_call(model, {**moved, **buffers}, (x,)), y)
                there = torch.cat([one.flatten() for one in torch.autograd.grad(
                    loss, list(moved.values()))])
                losses.append(loss.item())
                changes.append(float((there - here).norm() / here.norm().clamp_min(1e-12)))
            row = [[self._step, min(losses), max(losses), max(changes)]]
            self._seen = torch.cat([self._seen, torch.tensor(row, dtype=torch.float64)])
        self._step += 1

    @property
    def seen(self) -> Tensor:
        """A row for each look: step, lowest and highest loss, largest change of the gradient."""
        return self._seen

    def state_dict(self) -> dict[str, Any]:
        """Give what was seen."""
        return {"step": self._step, "seen": self._seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what was seen."""
        self._step, self._seen = state["step"], state["seen"]


def _landscape(looks: Mapping[str, Tensor]) -> Any:
    """Draw between which losses the way against the gradient leads, look by look."""
    series = []
    for (kind, seen), role in zip(looks.items(), ("bound", "measured"), strict=True):
        step, low, high, _ = seen.T
        series += [Series(f"{kind}, {what}", step, one, role, "line")  # type: ignore[arg-type]
                   for what, one in (("highest", high), ("lowest", low))]
    picture = Plot(tuple(series), "training step", "loss along the gradient", log="y")
    figure = figures.draw(picture)
    for lowest in figure.data[1::2]:
        lowest.fill = "tonexty"
    return figure

r"""One loop that trains everything, and that can be killed at any instant and resumed exactly.

All randomness comes from the seed: each epoch takes the data in the order of a permutation of its
own, objectives and callbacks get one generator, and layers such as dropout draw from a fork of
torch's global generator. The state of a training is the model, the optimizers, the callbacks, both
generators and the position in the data; saved and loaded, the rest of the training is the same to
the bit.
"""

from __future__ import annotations

import functools
import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from principia.lab.params import Failure, PositiveInt, UsageError, checked, usage_error
from principia.lab.runs.experiments import Run
from principia.lab.seeds import Seed
from principia.lab.training import checkpoints
from principia.lab.training.batches import Batch, each, row_count, rows_at_once, slices, tensors_of
from principia.lab.training.callbacks import Callback
from principia.lab.training.fingerprints import check_sums, described, difference
from principia.lab.training.generators import (
    generator_state,
    seeded_generators,
    set_generator_state,
)
from principia.lab.training.metrics import Metric, outputs_of
from principia.lab.training.objectives import Objective

__all__ = ["Diverged", "Trained", "fit"]

REFRESH = 0.1  # seconds between two looks at the progress bar


class Diverged(Failure):
    """The loss was no longer a finite number; the model holds the last finite weights."""


@final
@dataclass(frozen=True)
class Trained:
    """What a training leaves: the model, the numbers of every epoch, and why it ended."""

    model: nn.Module
    history: list[dict[str, float]]
    steps: int
    stopped: str


@checked
def fit(
    model: nn.Module,
    data: Tensor | Batch,
    objective: Objective | Mapping[str, Objective],
    optimizer: Optimizer | Mapping[str, Optimizer],
    *,
    epochs: PositiveInt | None = None,
    steps: PositiveInt | None = None,
    batch_size: PositiveInt = 64,
    callbacks: Sequence[Callback] = (),
    validation: Tensor | Batch | None = None,
    metrics: Mapping[str, Metric] | None = None,
    seed: Seed | None = None,
    run: Run | None = None,
    name: str = "",
    device: str | None = None,
    compile: bool = False,
) -> Trained:
    """Train a model on tensors in memory, batch by batch.

    Args:
        model: What is trained; it is changed in place.
        data: Tensors with one row a sample; a batch has the same rows of each. The first is the
            input: vectors, pictures, sequences, or a tuple of tensors for a model that takes
            several.
        objective: Gives the loss of a batch. Several by name take turns on each batch, each with
            the optimizer of its name.
        optimizer: Any optimizer of torch, also one that needs to evaluate the loss several times.
        epochs: How often to go through the data; 10 if steps are not given either.
        steps: How many batches to take instead.
        batch_size: Rows of a batch; the last one of an epoch may be smaller.
        callbacks: Schedules, clipping, averages, early stopping; the run may add more.
        validation: Data like `data` that is measured after every epoch, a part at a time: a loss is
            the mean over samples, metrics get all outputs.
        metrics: Numbers of the outputs and targets of the validation data, by name.
        seed: Where all randomness comes from; the run's seed by default.
        run: Shows progress, keeps curves, and saves the state so that it can resume.
        name: Distinguishes the trainings of one run.
        device: Where to compute; the run's device by default.
        compile: Let torch compile the model first.

    Example:
        >>> x = torch.linspace(-1, 1, 64)[:, None]
        >>> model = nn.Linear(1, 1)
        >>> from principia.lab.training import Supervised
        >>> sgd = torch.optim.SGD(model.parameters(), lr=0.5)
        >>> trained = fit(model, (x, 3 * x), Supervised(nn.functional.mse_loss), sgd, epochs=40)
        >>> round(model.weight.item(), 3)
        3.0
    """
    run = run or Run()
    objectives, optimizers = _paired(objective, optimizer)
    seed = run.seed if seed is None else seed
    where = torch.device(device or run.device)
    data = _checked_data("data", data, where)
    rows = row_count(data)
    batches = math.ceil(rows / batch_size)
    total = _total(epochs, steps, batches)
    callbacks = [*callbacks, *run.more_callbacks()]
    model.to(where)
    for callback in callbacks:
        callback.begin(model, optimizers, total)
    held = None if validation is None else _checked_data("validation", validation, where)
    training = _Training(
        model, objectives, optimizers, callbacks, seed.child("steps").torch(), where,
        torch.compile(model) if compile else model,
    )
    folder = run.training_folder(name)
    if folder is not None:
        settings = {
            "run": run.origin,
            "batch_size": batch_size, "steps": total, "seed": int(seed), "device": where.type,
            "data": check_sums(tensors_of(data)), "validation": check_sums(tensors_of(held or ())),
            "metrics": sorted(metrics or ()),
        }
        training.keep_in(folder, settings, run)

    with seeded_generators(seed, where), run.watch(total, name or "training") as advance:
        training.resume(run, name)
        watched = _Watch(advance, batch_size, training.step)
        while training.unfinished_of(total):
            model.train()
            training.remember_good_weights()
            order = _permutation(rows, seed, training.epoch, where).split(batch_size)
            for few in order[training.batch : training.batch + total - training.step]:
                training.take(_rows_of(data, few))
                watched.look(training)
                training.save_if_due()
            row = training.numbers(held, metrics or {}, seed, batch_size)
            run.log(name, row)
        training.finish()
    return Trained(model, training.history, training.step, training.stopped)


@dataclass
class _Training:
    """Everything that changes while a model is trained."""

    model: nn.Module
    objectives: Mapping[str, Objective]
    optimizers: Mapping[str, Optimizer]
    callbacks: list[Callback]
    rng: torch.Generator
    device: torch.device
    forward: Callable[..., Any]
    epoch: int = 0
    batch: int = 0
    step: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    rows: int = 0
    stopped: str = ""
    history: list[dict[str, float]] = field(default_factory=list)
    folder: Path | None = None
    finished: bool = False
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sums = dict.fromkeys(self.objectives, 0.0)
        self.wrapped = {
            name: _wrapped(objective, self.callbacks)
            for name, objective in self.objectives.items()
        }
        self.preparing, self.clipping, self.stepping = (
            [callback for callback in self.callbacks if _overrides(callback, hook)]
            for hook in ("prepare", "before_step", "after_step")
        )
        self.searching = {
            name for name, one in self.optimizers.items()
            if inspect.signature(one.step).parameters["closure"].default is inspect.Parameter.empty
        }
        self.good: tuple[int, dict[str, Tensor]] = (0, {})

    def unfinished_of(self, total: int) -> bool:
        """Whether steps are left, or an epoch whose numbers were not taken when it was saved."""
        return not self.stopped and (self.step < total or self.rows > 0)

    def take(self, batch: Batch) -> None:
        """Take one batch: one step of every optimizer."""
        for callback in self.preparing:
            batch = callback.prepare(batch, self.rng)
        rows = row_count(batch)
        for name, optimizer in self.optimizers.items():
            if name in self.searching:  # its step asks for the loss as often as it needs
                value = optimizer.step(functools.partial(self.loss, name, batch))
            else:
                value = self.loss(name, batch)
                optimizer.step()
            self.sums[name] += float(value) * rows
        for callback in self.stepping:
            callback.after_step(self.model)
        self.rows += rows
        self.batch += 1
        self.step += 1

    def loss(self, name: str, batch: Batch) -> float:
        """Compute a loss and its gradients; stop at one that is not finite."""
        self.optimizers[name].zero_grad()
        try:
            loss = self.wrapped[name](self.forward, batch, self.rng)
            value = loss.item()
            if math.isfinite(value) and loss.requires_grad:
                loss.backward()
        except BaseException:
            self.abandon()
            raise
        if not math.isfinite(value):
            self.abandon()
            self.diverged(name, value)
        for callback in self.clipping:
            callback.before_step(self.model)
        return value

    def abandon(self) -> None:
        """Let the callbacks undo what they changed for a loss that no step will follow."""
        for callback in self.callbacks:
            callback.abandon(self.model)

    def numbers(
        self, held: Batch | None, metrics: Mapping[str, Metric], seed: Seed, batch_size: int
    ) -> dict[str, float]:
        """End an epoch: measure the model, ask the callbacks, and move to the next one."""
        row: dict[str, float] = {"epoch": self.epoch + 1, "step": self.step}
        row |= {name: total / self.rows for name, total in self.sums.items()}
        with ExitStack() as stack:
            for callback in self.callbacks:
                stack.enter_context(callback.shown(self.model))
            if held is not None:
                rng = seed.child(f"validation {self.epoch}").torch()
                row |= self.validated(held, metrics, rng, batch_size)
            reasons = [callback.after_epoch(self.model, row) for callback in self.callbacks]
        self.stopped = "; ".join(filter(None, reasons))
        self.history.append(row)
        self.epoch, self.batch, self.rows = self.epoch + 1, 0, 0
        self.sums = dict.fromkeys(self.objectives, 0.0)
        return row

    def validated(
        self, held: Batch, metrics: Mapping[str, Metric], rng: torch.Generator, batch_size: int
    ) -> dict[str, float]:
        """Measure losses and metrics of the validation data, the model in evaluation mode."""
        self.model.eval()
        size = rows_at_once(held[0], batch_size)
        found = dict.fromkeys((f"validation_{name}" for name in self.objectives), 0.0)
        with torch.no_grad():
            for part in slices(held, size):
                share = row_count(part) / row_count(held)
                for name, objective in self.objectives.items():
                    loss = float(objective(self.model, part, rng))
                    found[f"validation_{name}"] += share * loss
            if metrics:
                outputs, targets = outputs_of(self.model, held[0], size), tensors_of(held[-1])[0]
                found |= {
                    f"validation_{name}": float(metric(outputs, targets))
                    for name, metric in metrics.items()
                }
        return found

    def remember_good_weights(self) -> None:
        """Copy the weights, if they are finite, to have them when a step spoils them."""
        weights = self.model.state_dict()
        if _finite(weights):
            self.good = self.epoch + 1, {name: one.clone() for name, one in weights.items()}

    def diverged(self, name: str, value: float) -> None:
        """Stop with finite weights, and say where it happened."""
        here = "the step before"
        if not _finite(self.model.state_dict()) and self.good[1]:
            self.model.load_state_dict(self.good[1])
            here = f"the beginning of epoch {self.good[0]}"
        raise Diverged(
            f"fit: the {name.replace('_', ' ')} is {value} at step {self.step + 1} (epoch "
            f"{self.epoch + 1}, batch {self.batch + 1}). The model holds its weights of {here}. "
            "Lower the learning rate, clip the gradients, or look at the data."
        )

    def finish(self) -> None:
        """Give the model its last weights; an average goes first, the best weights over it."""
        if self.finished:  # it was resumed from its end
            return
        for callback in sorted(
            self.callbacks, key=lambda callback: not _overrides(callback, "shown")
        ):
            callback.finish(self.model)
        self.finished = True
        if self.folder:
            self.save()

    # How a training outlives its process

    def keep_in(self, folder: Path, settings: dict[str, Any], run: Run) -> None:
        """Save the state into a folder every so many seconds."""
        self.folder, self.save_every, self.asked_to_stop = folder, run.save_every, run.asked_to_stop
        self.settings = {
            **settings,
            "model": described(self.model),
            "objectives": {name: described(one) for name, one in self.objectives.items()},
            "optimizers": {name: described(one) for name, one in self.optimizers.items()},
            "callbacks": [described(one) for one in self.callbacks],
        }
        self.saved_at = time.monotonic()

    def save_if_due(self) -> None:
        """Save, if the last time is long enough ago or the user wants to stop."""
        if self.folder is None:
            return
        stop = self.asked_to_stop()
        if stop or time.monotonic() - self.saved_at >= self.save_every:
            self.save()
        if stop:
            raise KeyboardInterrupt

    def save(self) -> None:
        """Write everything that the rest of the training depends on."""
        assert self.folder is not None  # noqa: S101
        state = {
            "settings": self.settings,
            "finished": self.finished,
            "epoch": self.epoch, "batch": self.batch, "step": self.step,
            "sums": self.sums, "rows": self.rows,
            "stopped": self.stopped, "history": self.history,
            "model": dict(self.model.state_dict()),
            "modes": [one.training for one in self.model.modules()],
            # also what they saw on the way
            "callbacks": [callback.state_dict() for callback in self.callbacks],
        }
        if not self.finished:
            state |= {
                "optimizers": {name: one.state_dict() for name, one in self.optimizers.items()},
                "rng": self.rng.get_state(),
                "generators": generator_state(self.device),
            }
        # the end comes after a save of the same step, and makes all earlier ones superfluous
        number = 2 * self.step + self.finished
        checkpoints.save(self.folder, number, state, keep=1 if self.finished else 2)
        self.saved_at = time.monotonic()

    def resume(self, run: Run, name: str) -> None:
        """Take back the newest saved state, if there is one; refuse one of another training."""
        if self.folder is None or (found := checkpoints.latest(self.folder)) is None:
            return
        _, state = found
        if reason := difference(state["settings"], self.settings):
            raise UsageError(
                f"fit: the saved state of {name or 'the training'} must be of the same training; "
                f"{reason}. Remove {self.folder} if it was copied here, or start a new run."
            )
        self.model.load_state_dict(state["model"])
        for module, training in zip(self.model.modules(), state["modes"], strict=True):
            module.training = training  # as the last epoch left it, for what follows a training
        self.finished = state["finished"]
        self.epoch, self.batch, self.step = state["epoch"], state["batch"], state["step"]
        self.sums, self.rows = state["sums"], state["rows"]
        self.stopped, self.history = state["stopped"], state["history"]
        for callback, its in zip(self.callbacks, state["callbacks"], strict=True):
            callback.load_state_dict(its)
        if self.finished:
            checkpoints.prune(self.folder, keep=1)  # the kill may have come before that was done
        else:
            for key, one in self.optimizers.items():
                one.load_state_dict(state["optimizers"][key])
            self.rng.set_state(state["rng"])
            set_generator_state(self.device, state["generators"])
        for row in self.history:
            run.log(name, row)


@dataclass
class _Watch:
    """Tells the progress bar how far it is and how fast, a few times a second."""

    advance: Callable[..., None]
    batch_size: int
    told: int

    def __post_init__(self) -> None:
        self.first, self.begun = self.told, time.monotonic()
        self.looked = self.begun
        if self.told:
            self.advance("resumed", self.told)

    def look(self, training: _Training) -> None:
        now = time.monotonic()
        if now - self.looked < REFRESH:
            return
        speed = (training.step - self.first) * self.batch_size / (now - self.begun)
        self.advance(f"{speed:,.0f} samples/s", training.step - self.told)
        self.looked, self.told = now, training.step


def _paired(objective: Any, optimizer: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give objectives and optimizers by name; a single one is called `loss`."""
    several = isinstance(objective, Mapping), isinstance(optimizer, Mapping)
    if several == (False, False):
        return {"loss": objective}, {"loss": optimizer}
    if several != (True, True) or set(objective) != set(optimizer) or not objective:
        names = [sorted(one) if isinstance(one, Mapping) else one for one in (optimizer, objective)]
        raise usage_error("fit", "optimizer", f"a mapping with the names {names[1]}", names[0])
    return dict(objective), {name: optimizer[name] for name in objective}


def _checked_data(what: str, data: Tensor | Batch, device: torch.device) -> Batch:
    data = (data,) if isinstance(data, Tensor) else data
    lengths = [len(one) for one in tensors_of(data)]
    if not lengths or min(lengths) != max(lengths) or not lengths[0]:
        raise usage_error(
            "fit", what, "tensors with the same number of rows, at least one", lengths
        )
    return each(lambda one: one.to(device), data)


def _rows_of(data: Batch, rows: Tensor) -> Batch:
    return each(lambda one: one.index_select(0, rows), data)


def _total(epochs: int | None, steps: int | None, batches: int) -> int:
    if epochs is not None and steps is not None:
        raise UsageError("fit: epochs and steps must not both be given. Leave one out.")
    return steps if steps is not None else (epochs or 10) * batches


def _permutation(rows: int, seed: Seed, epoch: int, device: torch.device) -> Tensor:
    return torch.randperm(rows, generator=seed.child(f"epoch {epoch}").torch()).to(device)


def _finite(weights: Mapping[str, Tensor]) -> bool:
    floats = [one for one in weights.values() if one.is_floating_point() and one.numel()]
    largest = torch._foreach_norm(floats, math.inf) if floats else ()
    return all(math.isfinite(one.item()) for one in largest)


def _wrapped(objective: Objective, callbacks: Sequence[Callback]) -> Objective:
    for callback in sorted(callbacks, key=lambda callback: callback.wraps_last):
        objective = callback.wrap(objective)
    return objective


def _overrides(callback: Callback, hook: str) -> bool:
    return getattr(type(callback), hook) is not getattr(Callback, hook)

r"""Callbacks of the training loop: schedules, clipping, averages, early stopping.

A callback overrides the hooks that it needs; the loop calls no others. What it remembers goes into
every checkpoint through `state_dict`, so that a run resumes exactly. Pages have callbacks of their
own.
"""

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal, final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from principia.lab.params import (
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Range,
    UnitInterval,
    UsageError,
    checked,
)
from principia.lab.training.batches import Batch
from principia.lab.training.objectives import Objective

__all__ = ["EMA", "SWA", "ClipNorm", "EarlyStopping", "OneCycle", "Callback", "Schedule"]

Row = dict[str, float]


class Callback:
    """Something that the loop asks at fixed moments. Every hook does nothing unless overridden."""

    wraps_last = False  # whether its `wrap` goes around those of all others

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        """Prepare for a training of so many steps; called once, before any state is loaded."""

    def wrap(self, objective: Objective) -> Objective:
        """Change what the training makes smaller; validation measures the objective unchanged."""
        return objective

    def prepare(self, batch: Batch, rng: torch.Generator) -> Batch:
        """Change a batch before the model sees it."""
        return batch

    def before_step(self, model: nn.Module) -> None:
        """Look at the gradients, or change them, before an optimizer steps."""

    def abandon(self, model: nn.Module) -> None:
        """Undo what was changed for a loss, when an exception has ended its computation."""

    def after_step(self, model: nn.Module) -> None:
        """Look at the weights, or change them, after all optimizers have stepped."""

    @contextmanager
    def shown(self, model: nn.Module) -> Iterator[None]:
        """Give the model other weights for as long as it is evaluated."""
        yield

    def after_epoch(self, model: nn.Module, row: Row) -> str:
        """Look at the numbers of an epoch, or add to them; return a reason to stop, or nothing."""
        return ""

    def finish(self, model: nn.Module) -> None:
        """Give the model its last weights."""

    def state_dict(self) -> dict[str, Any]:
        """Give what is remembered from step to step, as tensors and plain values."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""


@final
class Schedule(Callback):
    """Moves the learning rate by any scheduler of torch, one move a step.

    Args:
        make: Builds the scheduler from an optimizer and the number of steps.

    Example:
        >>> from torch.optim.lr_scheduler import CosineAnnealingLR
        >>> callback = Schedule(CosineAnnealingLR)  # its second argument is the number of steps
    """

    def __init__(self, make: Callable[[Optimizer, int], LRScheduler]) -> None:
        self.make = make
        self._schedulers: dict[str, LRScheduler] = {}

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        """Build one scheduler for each optimizer."""
        self._schedulers = {name: self.make(one, steps) for name, one in optimizers.items()}

    def after_step(self, model: nn.Module) -> None:
        """Move every learning rate."""
        for scheduler in self._schedulers.values():
            scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        """Give the state of the schedulers."""
        return {name: one.state_dict() for name, one in self._schedulers.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back the state of the schedulers."""
        for name, one in self._schedulers.items():
            one.load_state_dict(state[name])


@final
class OneCycle(Callback):
    """Raises the learning rate to a peak and lets it fall to nearly 0 (Smith and Topin 2019).

    Momentum, or the first beta of Adam, falls and rises against it, where the optimizer has one.

    Args:
        peak: The largest learning rate.
        rise: Share of the steps during which it rises.
    """

    @checked
    def __init__(self, peak: PositiveFloat, *, rise: UnitInterval = 0.3) -> None:
        self.peak, self.rise = peak, rise
        self._schedule = Schedule(self._make)

    def _make(self, optimizer: Optimizer, steps: int) -> LRScheduler:
        # torch would give a momentum to plain gradient descent
        heavy = "betas" in optimizer.defaults or optimizer.defaults.get("momentum", 0) > 0
        # its schedule needs two phases, and one step more than it is moved
        return OneCycleLR(
            optimizer, self.peak, total_steps=max(steps, 3) + 1, pct_start=self.rise,
            cycle_momentum=heavy,
        )

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        """Build the schedule."""
        self._schedule.begin(model, optimizers, steps)

    def after_step(self, model: nn.Module) -> None:
        """Move the learning rate."""
        self._schedule.after_step(model)

    def state_dict(self) -> dict[str, Any]:
        """Give the state of the schedule."""
        return self._schedule.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back the state of the schedule."""
        self._schedule.load_state_dict(state)


@final
class ClipNorm(Callback):
    """Shortens the gradient of all parameters together to a norm of at most `norm`."""

    @checked
    def __init__(self, norm: PositiveFloat) -> None:
        self.norm = norm

    def before_step(self, model: nn.Module) -> None:
        """Shorten the gradient if it is too long."""
        torch.nn.utils.clip_grad_norm_(model.parameters(), self.norm)


@final
class EMA(Callback):
    """Averages the weights of all steps, older ones less: a <- decay a + (1 - decay) w.

    The model is evaluated with the average, and ends with it.
    """

    @checked
    def __init__(self, decay: Annotated[float, Range(0, 1, open="high")] = 0.999) -> None:
        self.decay = decay

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        """Start the average at the first weights."""
        average = get_ema_multi_avg_fn(self.decay)
        self._average = AveragedModel(model, multi_avg_fn=average, use_buffers=True)

    def after_step(self, model: nn.Module) -> None:
        """Take the new weights into the average."""
        self._average.update_parameters(model)

    @contextmanager
    def shown(self, model: nn.Module) -> Iterator[None]:
        """Show the average."""
        with _lent(model, self._average.module):
            yield

    def finish(self, model: nn.Module) -> None:
        """Leave the average in the model."""
        model.load_state_dict(self._average.module.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Give the average."""
        return {"average": self._average.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back the average."""
        self._average.load_state_dict(state["average"])


@final
class SWA(Callback):
    """Averages the weights at the ends of the last epochs, all alike (Izmailov et al. 2018).

    Args:
        start: Share of the steps after which the averaging begins.
    """

    @checked
    def __init__(self, start: Annotated[float, Range(0, 1, open="high")] = 0.75) -> None:
        self.start = start
        self._step = 0

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        """Make room for the average."""
        self._average = AveragedModel(model, use_buffers=True)
        self._step, self._first = 0, math.ceil(self.start * steps)

    def after_step(self, model: nn.Module) -> None:
        """Count the steps."""
        self._step += 1

    def after_epoch(self, model: nn.Module, row: Row) -> str:
        """Take the weights into the average, if it is time."""
        if self._step >= self._first:
            self._average.update_parameters(model)
        return ""

    def finish(self, model: nn.Module) -> None:
        """Leave the average in the model, if anything was averaged."""
        if int(self._average.n_averaged):
            model.load_state_dict(self._average.module.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Give the average and the count."""
        return {"average": self._average.state_dict(), "step": self._step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back the average and the count."""
        self._average.load_state_dict(state["average"])
        self._step = state["step"]


@final
class EarlyStopping(Callback):
    """Keeps the best weights by a number of the epoch, and stops when it no longer improves.

    A number that is not finite counts as no improvement, and is reported: in the reason to stop, or
    else by a warning at the end.

    Args:
        metric: Which number decides: `validation_loss`, `validation_accuracy`, ...
        better: Whether lower or higher is better.
        patience: Epochs without improvement before it stops; none never stops.
        min_delta: By how much a number must be better to count as an improvement.
        restore_best: Whether the model ends with its best weights instead of its last.

    Example:
        >>> callback, model = EarlyStopping(patience=2), nn.Linear(1, 1)
        >>> callback.begin(model, {}, steps=4)
        >>> losses = (3.0, 1.0, 2.0, 1.5)
        >>> [callback.after_epoch(model, {"validation_loss": loss}) for loss in losses]
        ['', '', '', 'validation_loss did not improve for 2 epochs']
    """

    @checked
    def __init__(
        self, metric: str = "validation_loss", *, better: Literal["lower", "higher"] = "lower",
        patience: PositiveInt | None = 5, min_delta: NonNegativeFloat = 0.0,
        restore_best: bool = True,
    ) -> None:
        self.metric, self.better, self.patience = metric, better, patience
        self.min_delta, self.restore_best = min_delta, restore_best

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        """Forget the best of an earlier training."""
        self._best, self._waited, self._weights = math.inf, 0, {}
        self._undefined = self._untold = 0  # numbers that are not finite, since the best; in all

    def after_epoch(self, model: nn.Module, row: Row) -> str:
        """Compare with the best so far."""
        if self.metric not in row:
            unheld = self.metric.startswith("validation_") and "validation_loss" not in row
            hint = " Give fit validation data." if unheld else ""
            raise UsageError(
                f"EarlyStopping: metric must be one of {', '.join(row)}; got {self.metric!r}.{hint}"
            )
        value = row[self.metric] if self.better == "lower" else -row[self.metric]
        if math.isfinite(value) and value < self._best - self.min_delta:
            self._best, self._waited, self._undefined = value, 0, 0
            if self.restore_best:
                self._weights = copy.deepcopy(dict(model.state_dict()))
            return ""
        self._waited += 1
        if not math.isfinite(value):
            self._undefined, self._untold = self._undefined + 1, self._untold + 1
        if self.patience is None or self._waited < self.patience:
            return ""
        self._untold -= self._undefined
        also = f", and was not finite in {self._undefined} of them" if self._undefined else ""
        return f"{self.metric} did not improve for {self._waited} epochs{also}"

    def finish(self, model: nn.Module) -> None:
        """Leave the best weights in the model; warn of numbers that no reason has told of."""
        if self._weights:
            model.load_state_dict(self._weights)
        if self._untold:
            warnings.warn(
                f"EarlyStopping: {self.metric} was not finite in {self._untold} epochs, which "
                "count as no improvement. Lower the learning rate, or look at the validation data.",
                stacklevel=2,
            )

    def state_dict(self) -> dict[str, Any]:
        """Give the best weights and how long it has waited."""
        return {
            "best": self._best, "waited": self._waited, "undefined": self._undefined,
            "untold": self._untold, "weights": self._weights,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back the best weights and the waiting."""
        self._best, self._waited = state["best"], state["waited"]
        self._undefined, self._untold = state["undefined"], state["untold"]
        self._weights = dict(state["weights"])


@contextmanager
def _lent(model: nn.Module, other: nn.Module) -> Iterator[None]:
    """Exchange the tensors of two models of one kind for a while, without copying them."""
    pairs = list(zip(_tensors(model), _tensors(other), strict=True))
    _exchange(pairs)
    try:
        yield
    finally:
        _exchange(pairs)


def _tensors(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def _exchange(pairs: list[tuple[Tensor, Tensor]]) -> None:
    for one, other in pairs:
        one.data, other.data = other.data, one.data

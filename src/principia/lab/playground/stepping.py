"""Training that can be walked: the steps of `fit`, one at a time, forwards and exactly backwards.

Going back loads the nearest state that was kept before, and takes the rest of the steps again; all
randomness comes from the seed, so that they are the same steps. States are kept densely near the
present and ever more thinly before it: what is far back is seldom wanted, and then a few more steps
do not matter.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from principia.lab.playground.recipes import Penalty
from principia.lab.seeds import Seed
from principia.lab.training.generators import (
    generator_state,
    seeded_generators,
    set_generator_state,
)

__all__ = ["KEPT", "Stepper"]

KEPT = 64  # states in memory
STRIDE = 16  # steps between two of them where they are dense
CPU = torch.device("cpu")


@final
@dataclass(frozen=True)
class _State:
    """Everything that the next steps depend on."""

    model: dict[str, Tensor]
    optimizer: dict[str, Any]
    generators: dict[str, Tensor]


@final
class Stepper:
    """Trains a module on tensors in memory as `fit` does, but stops wherever it is asked to.

    Args:
        model: What is trained, in place.
        data: Inputs and targets, one row a sample.
        loss: Compares outputs and targets.
        optimizer: Takes the steps.
        batch_size: Rows of a step; the last one of an epoch may be smaller.
        seed: Where the order of the rows and the random numbers of the layers come from.
        penalty: A price of weights (tensors with two axes or more), and how strong it is.

    Example:
        >>> x = torch.linspace(-1, 1, 64)[:, None]
        >>> model = nn.Linear(1, 1)
        >>> sgd = torch.optim.SGD(model.parameters(), lr=0.5)
        >>> steps = Stepper(model, (x, 3 * x), nn.functional.mse_loss, sgd, batch_size=32)
        >>> begun = model.weight.item()
        >>> steps.advance(80)
        >>> steps.step, round(model.weight.item(), 3)
        (80, 3.0)
        >>> steps.back(80)
        >>> steps.step, model.weight.item() == begun
        (0, True)
    """

    def __init__(
        self, model: nn.Module, data: tuple[Tensor, Tensor],
        loss: Callable[[Tensor, Tensor], Tensor], optimizer: Optimizer, *, batch_size: int,
        seed: Seed = Seed(0), penalty: tuple[Penalty, float] | None = None,  # noqa: B008
    ) -> None:
        self.model, self.data, self.loss, self.optimizer = model, data, loss, optimizer
        self.batch_size, self.seed, self.penalty = batch_size, seed, penalty
        self.step, self.diverged = 0, ""
        self._order: tuple[int, Sequence[Tensor]] = (-1, ())
        with seeded_generators(seed, CPU):
            self._generators = generator_state(CPU)
        self._kept: dict[int, _State] = {}
        self._keep()

    @property
    def steps_per_epoch(self) -> int:
        """How many steps go once through the data."""
        return math.ceil(len(self.data[0]) / self.batch_size)

    @property
    def weights(self) -> dict[str, Tensor]:
        """The parameters with two axes or more, which multiply something."""
        return {name: one for name, one in self.model.named_parameters() if one.ndim >= 2}

    @property
    def price(self) -> float:
        """What the weights cost."""
        if self.penalty is None:
            return 0.0
        penalty, strength = self.penalty
        with torch.no_grad():
            return strength * sum(float(penalty.value(one)) for one in self.weights.values())

    def advance(self, steps: int) -> None:
        """Take steps; a loss that is not finite ends them, at the last finite weights."""
        self._walk(self.step + steps)
        sentence = self.diverged
        while self.step and not self._finite():
            self._return_to(self.step - 1)
        self.diverged = sentence
        self._keep()

    def back(self, steps: int) -> None:
        """Return to what was so many steps ago, or to the beginning."""
        self._return_to(max(0, self.step - steps))
        self._keep()

    def _walk(self, until: int) -> None:
        self.model.train()
        with torch.random.fork_rng([]):
            set_generator_state(CPU, self._generators)
            while self.step < until and not self.diverged:
                self._take()
                if self.step % STRIDE == 0:
                    self._generators = generator_state(CPU)
                    self._keep()
            self._generators = generator_state(CPU)

    def _take(self) -> None:
        x, y = (one.index_select(0, self._rows()) for one in self.data)
        self.optimizer.zero_grad()
        loss = self.loss(self.model(x), y)
        value = loss.item()
        if not math.isfinite(value):
            self.diverged = (
                f"The loss is {value} at step {self.step + 1}: training has diverged, and stays at "
                "the last finite weights. Step back, lower the learning rate, or begin otherwise."
            )
            return
        loss.backward()
        if self.penalty is not None:
            penalty, strength = self.penalty
            with torch.no_grad():
                for one in self.weights.values():
                    if one.grad is not None:
                        one.grad.add_(penalty.gradient(one), alpha=strength)
        self.optimizer.step()
        self.step += 1

    def _rows(self) -> Tensor:
        """Name the rows of the next step: each epoch has a permutation of its own."""
        epoch, batch = divmod(self.step, self.steps_per_epoch)
        if self._order[0] != epoch:
            rng = self.seed.child(f"epoch {epoch}").torch()
            order = torch.randperm(len(self.data[0]), generator=rng)
            self._order = epoch, order.split(self.batch_size)
        return self._order[1][batch]

    def _finite(self) -> bool:
        values = self.model.state_dict().values()
        return all(bool(one.isfinite().all()) for one in values if one.is_floating_point())

    def _keep(self) -> None:
        self._kept[self.step] = _State(
            {name: one.clone() for name, one in self.model.state_dict().items()},
            copy.deepcopy(self.optimizer.state_dict()), self._generators,
        )
        if len(self._kept) > KEPT:
            del self._kept[_least_missed(sorted(self._kept))]

    def _return_to(self, step: int) -> None:
        nearest = max(one for one in self._kept if one <= step)
        self._kept = {one: state for one, state in self._kept.items() if one <= nearest}
        state = self._kept[nearest]
        self.model.load_state_dict(state.model)
        # the optimizer would go on with the very tensors that it is given
        self.optimizer.load_state_dict(copy.deepcopy(state.optimizer))
        self._generators, self.step, self.diverged = state.generators, nearest, ""
        self._walk(step)


def _least_missed(steps: list[int]) -> int:
    """Find the kept step, neither first nor last, that leaves the smallest gap for its age."""
    now = steps[-1]
    inner = range(1, len(steps) - 1)
    return steps[min(
        inner, key=lambda at: (steps[at + 1] - steps[at - 1]) / (now - steps[at - 1])
    )]

"""What a step makes smaller: a scalar of the model, one batch, and a generator for its own dice."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import torch
from torch import Tensor

__all__ = ["Objective", "Reconstruction", "Supervised"]

Loss = Callable[[Tensor, Tensor], Tensor]
Batch = tuple[Tensor, ...]


@runtime_checkable
class Objective(Protocol):
    """Anything that can be called like this is an objective, a plain function too.

    A loss without a graph means that the objective has set the gradients itself.
    """

    def __call__(self, model: Any, batch: Batch, rng: torch.Generator, /) -> Tensor:
        """Give the loss of one batch, as a scalar tensor."""
        ...


@final
@dataclass(frozen=True)
class Supervised:
    """Compares the outputs for x with the targets y of a batch (x, y).

    Example:
        >>> objective = Supervised(torch.nn.functional.mse_loss)
        >>> batch = torch.ones(2, 3), torch.zeros(2, 3)
        >>> objective(torch.nn.Identity(), batch, torch.Generator())
        tensor(1.)
    """

    loss: Loss

    def __call__(self, model: Any, batch: Batch, rng: torch.Generator, /) -> Tensor:
        """Give the loss of one batch."""
        x, y = batch
        return self.loss(model(x), y)


@final
@dataclass(frozen=True)
class Reconstruction:
    """Compares the outputs for x with x itself; there are no targets."""

    loss: Loss

    def __call__(self, model: Any, batch: Batch, rng: torch.Generator, /) -> Tensor:
        """Give the loss of one batch."""
        x = batch[0]
        return self.loss(model(x), x)

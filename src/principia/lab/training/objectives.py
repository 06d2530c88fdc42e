"""What a step makes smaller: a scalar of the model, one batch, and a generator of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import torch
from torch import Tensor

from principia.lab.training.batches import Batch, answer

__all__ = ["Objective", "Once", "Reconstruction", "Supervised"]

Loss = Callable[[Tensor, Tensor], Tensor]


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
    """Compares the outputs for x with the targets y of a batch (x, y); x may be several inputs.

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
        return self.loss(answer(model, x), y)


@final
@dataclass(frozen=True)
class Reconstruction:
    """Compares the outputs for x with x itself; there are no targets."""

    loss: Loss

    def __call__(self, model: Any, batch: Batch, rng: torch.Generator, /) -> Tensor:
        """Give the loss of one batch."""
        x = batch[0]
        return self.loss(model(x), x)


@final
class Once:
    """A model that computes its outputs for an input once, however many losses ask for them.

    Example:
        >>> model = Once(torch.nn.Linear(3, 2))
        >>> x = torch.ones(4, 3)
        >>> model(x) is model(x)
        True
    """

    def __init__(self, model: Any) -> None:
        self._model, self._asked, self._given = model, None, None

    def __call__(self, x: Any, *rest: Any, **words: Any) -> Any:
        """Answer as before if asked the same as before, else compute."""
        if rest or words:
            return self._model(x, *rest, **words)
        if x is not self._asked:
            self._asked, self._given = x, self._model(x)
        return self._given

    def __getattr__(self, name: str) -> Any:
        """Give whatever else the model has."""
        return getattr(self._model, name)

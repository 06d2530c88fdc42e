r"""What optimizers of the course share: closures, groups, memory; and how to look at any of them.

A method of ours writes `move` alone. `fed` and `steps_along` show what an optimizer, torch's or
ours, makes of given gradients.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

__all__ = ["GroupOptimizer", "fed", "steps_along"]


class GroupOptimizer(Optimizer):
    """Moves all parameters of a group at once, with torch's foreach operations.

    A group counts its steps in `group["taken"]`. It and the memories are part of `state_dict`, so
    that a run goes on exactly where it was interrupted.
    """

    @abstractmethod
    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Change the parameters in place; gradients are theirs, and none is missing."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Move every parameter that has a gradient; a closure computes them, and the loss, first.

        Args:
            closure: Clears the gradients, computes the loss, calls backward, returns the loss.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if params:
                group["taken"] = group.get("taken", 0) + 1
                self.move(group, params, [p.grad for p in params])
        return loss

    def memory(
        self, params: list[Tensor], name: str, first: Callable[[Tensor], Tensor] = torch.zeros_like
    ) -> list[Tensor]:
        """Give what is remembered of each parameter under a name; at first, what `first` makes."""
        kept = [self.state[p] for p in params]
        for p, state in zip(params, kept, strict=True):
            if name not in state:
                state[name] = first(p)
        return [state[name] for state in kept]

    def remember(self, params: list[Tensor], name: str, values: Iterable[Tensor]) -> None:
        """Put something else into the memory; what `memory` gave before is left as it is."""
        for p, value in zip(params, values, strict=True):
            self.state[p][name] = value


def fed(kind: Any, gradients: Tensor, **options: Any) -> Iterator[tuple[Optimizer, Tensor]]:
    """Let an optimizer step from 0 along given gradients; show it and the point every time."""
    p = nn.Parameter(torch.zeros_like(gradients[0]))
    optimizer = kind([p], **options)
    for gradient in gradients:
        p.grad = gradient
        optimizer.step()
        yield optimizer, p


def steps_along(kind: Any, gradients: Tensor, **options: Any) -> Tensor:
    """Give the steps that an optimizer takes along given gradients, one a row."""
    points = torch.stack([p.detach().clone() for _, p in fed(kind, gradients, **options)])
    return points.diff(dim=0, prepend=torch.zeros_like(points[:1]))

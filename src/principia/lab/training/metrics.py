"""Metrics: numbers about outputs and targets, computed over a whole data set at once.

The outputs are computed batch by batch, and put together: a root of a mean is no mean of roots.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from principia.lab.training.batches import Input, answer, each, rows_at_once, slices

__all__ = ["Metric", "accuracy", "evaluate", "evaluated", "outputs_of", "rmse"]

Metric = Callable[[Tensor, Tensor], Tensor]


def accuracy(outputs: Tensor, target: Tensor) -> Tensor:
    """Give the share of rows whose largest output is the target class.

    Example:
        >>> accuracy(torch.tensor([[0.1, 2.0], [3.0, 1.0]]), torch.tensor([1, 1]))
        tensor(0.5000, dtype=torch.float64)
    """
    right = outputs.argmax(-1) == target
    # in float32, 342 of 360 would be less than a goal of 0.95
    return torch.tensor(right.sum().item() / right.numel(), dtype=torch.float64)


def rmse(outputs: Tensor, target: Tensor) -> Tensor:
    """Give the root mean squared error.

    Example:
        >>> rmse(torch.tensor([[1.0], [2.0]]), torch.tensor([[1.0], [4.0]]))
        tensor(1.4142)
    """
    return (outputs - target).square().mean().sqrt()


@torch.no_grad()
def evaluate(
    model: nn.Module, data: tuple[Input, Tensor], metrics: Mapping[str, Metric], *,
    batch_size: int | None = None,
) -> dict[str, float]:
    """Compute metrics of a model in evaluation mode; its mode afterwards is that of before."""
    x, y = data
    device = next(iter(model.parameters()), y).device
    outputs = outputs_of(model, each(lambda one: one.to(device), x), batch_size)
    return {name: float(metric(outputs, y.to(device))) for name, metric in metrics.items()}


@torch.no_grad()
def outputs_of(model: nn.Module, x: Input, batch_size: int | None = None) -> Tensor:
    """Compute the outputs of a model in evaluation mode, a slice of the data at a time."""
    size = batch_size or rows_at_once(x, 1)
    with evaluated(model):
        return torch.cat([answer(model, part) for part in slices(x, size)])


@contextmanager
def evaluated(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode, and every module back into its own mode afterwards.

    Example:
        >>> model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2).eval())
        >>> with evaluated(model):
        ...     [one.training for one in model]
        [False, False]
        >>> [one.training for one in model]
        [True, False]
    """
    modes = {one: one.training for one in model.modules()}
    try:
        for one in modes:
            one.training = False
        yield
    finally:
        for one, training in modes.items():
            one.training = training

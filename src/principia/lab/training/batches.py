"""Batches: tensors with one row a sample, or tuples of them for a model of several inputs."""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor

__all__ = ["Batch", "Input", "answer", "each", "row_count", "rows_at_once", "slices", "tensors_of"]

Input = Tensor | tuple[Tensor, ...]
Batch = tuple[Any, ...]  # of inputs; mostly they are tensors, which is what one reads there
ROWS, NUMBERS = 4096, 2**22  # that a model is asked for at once where no gradients are kept
MAPS = 8  # times more numbers than a picture has are in the maps of its first layers


def each(function: Callable[[Tensor], Tensor], data: Any) -> Any:
    """Apply a function to every tensor of a batch."""
    if isinstance(data, Tensor):
        return function(data)
    return tuple(each(function, one) for one in data)


def tensors_of(data: Any) -> tuple[Tensor, ...]:
    """List the tensors of a batch."""
    if isinstance(data, Tensor):
        return (data,)
    return tuple(tensor for one in data for tensor in tensors_of(one))


def row_count(data: Any) -> int:
    """Count the samples of a batch."""
    return len(tensors_of(data)[0])


def slices(data: Any, size: int) -> Iterator[Any]:
    """Cut a batch into ones of so many rows; the last may be smaller.

    Example:
        >>> import torch
        >>> [part[1].tolist() for part in slices((torch.zeros(5, 2), torch.arange(5)), 2)]
        [[0, 1], [2, 3], [4]]
    """
    for start in range(0, row_count(data), size):
        yield each(lambda one, start=start: one[start : start + size], data)


def rows_at_once(x: Input, at_least: int) -> int:
    """Choose how many rows to ask a model for: thousands of points, but few large pictures.

    Example:
        >>> import torch
        >>> rows_at_once(torch.zeros(1, 784), 64), rows_at_once(torch.zeros(1, 3, 512, 512), 64)
        (4096, 64)
    """
    numbers = sum(one[0].numel() * (MAPS if one.ndim > 3 else 1) for one in tensors_of(x))
    return max(at_least, min(ROWS, NUMBERS // max(1, numbers)))


def answer(model: Callable[..., Any], x: Input) -> Any:
    """Ask a model; one with several inputs takes them in their order."""
    return model(*x) if isinstance(x, tuple) else model(x)

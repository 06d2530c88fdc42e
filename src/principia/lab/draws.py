"""Random tensors in float64, from a generator that is handed in."""

import torch
from torch import Tensor

__all__ = ["rand", "randn"]


def randn(rng: torch.Generator, *shape: int) -> Tensor:
    """Draw standard normal numbers.

    Example:
        >>> randn(torch.Generator().manual_seed(0), 2, 3).dtype
        torch.float64
    """
    return torch.randn(shape, generator=rng, dtype=torch.float64)


def rand(rng: torch.Generator, *shape: int) -> Tensor:
    """Draw numbers that are uniform in [0, 1).

    Example:
        >>> bool((rand(torch.Generator().manual_seed(0), 100) < 1).all())
        True
    """
    return torch.rand(shape, generator=rng, dtype=torch.float64)

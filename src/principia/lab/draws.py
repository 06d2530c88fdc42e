"""Random tensors in float64, from a generator that is handed in."""

from typing import TypeVar

import torch
from torch import Tensor, nn

__all__ = ["drawn_anew", "rand", "randn"]

Module = TypeVar("Module", bound=nn.Module)


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


def drawn_anew(module: Module, rng: torch.Generator) -> Module:
    """Give a module normal parameters, so that none of them is a trivial 0 or 1.

    Example:
        >>> norm = drawn_anew(nn.LayerNorm(3), torch.Generator().manual_seed(0))
        >>> norm.weight.dtype, bool((norm.bias != 0).all())
        (torch.float64, True)
    """
    module.double()
    for parameter in module.parameters():
        parameter.data = randn(rng, *parameter.shape)
    return module

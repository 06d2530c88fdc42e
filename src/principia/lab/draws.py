"""Random tensors in float64, from a generator that is handed in; layers that wait for theirs."""

from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

__all__ = ["drawn_anew", "rand", "randn", "undrawn"]

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


def undrawn(kind: type[nn.Module], *sizes: Any, **settings: Any) -> Any:
    """Make a layer whose weights nobody has drawn yet, where torch makes tensors now.

    Example:
        >>> with torch.device("meta"):
        ...     undrawn(nn.Linear, 3, 2, bias=False).weight.device
        device(type='meta')
    """
    made: Any = skip_init
    return made(kind, *sizes, device=torch.get_default_device(), **settings)

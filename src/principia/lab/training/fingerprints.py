"""What makes a training the same training: its settings as plain values, compared by name."""

import zlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

__all__ = ["check_sums", "described", "difference"]


def check_sums(data: tuple[Tensor, ...]) -> list[Any]:
    """Identify tensors by kind, shape and check sum."""
    return [[str(one.dtype), *one.shape, zlib.crc32(_bytes(one))] for one in data]


def _bytes(tensor: Tensor) -> memoryview:
    flat = tensor.detach().cpu().contiguous().flatten()
    return flat.view(torch.uint8).numpy().data  # NumPy does not know every kind


def described(thing: Any) -> Any:
    """Describe an objective, an optimizer or a callback by its class and its plain settings."""
    if isinstance(thing, (bool, int, float, str, type(None))):
        return thing
    if isinstance(thing, Tensor):
        return check_sums((thing,))
    if isinstance(thing, nn.Module):
        kinds = [type(one).__qualname__ for one in thing.modules()]
        return {"modules": kinds, "state": described(thing.state_dict())}
    if isinstance(thing, (list, tuple)):
        return [described(one) for one in thing]
    if isinstance(thing, Mapping):
        return {str(name): described(one) for name, one in thing.items()}
    if isinstance(thing, Optimizer):
        return [type(thing).__qualname__, described(thing.defaults)]
    if hasattr(thing, "__qualname__"):
        return f"{thing.__module__}.{thing.__qualname__}"
    settings = {
        name: described(one) for name, one in vars(thing).items() if not name.startswith("_")
    }
    return [type(thing).__qualname__, settings]


def difference(saved: Any, now: Any, place: str = "") -> str:
    """Say in which setting two trainings differ first, or nothing."""
    if isinstance(saved, dict) and isinstance(now, dict):
        for name in dict.fromkeys([*saved, *now]):
            inside = f"{place}.{name}".lstrip(".")
            if name not in saved or name not in now:
                return f"only one of the two has {inside}"
            if found := difference(saved[name], now[name], inside):
                return found
        return ""
    return "" if saved == now else f"{place} was {saved!r}, now it is {now!r}"

r"""Packing: nested values as JSON beside tensors, sealed so that no bit of it changes unnoticed.

Dicts, lists, tuples, tensors and plain values come back as exactly what they were; what else there
is, its owner describes or refuses. Nothing is ever pickled.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["packed", "sealed", "unpacked", "unsealed"]

PLAIN = (bool, int, str, type(None))
SEAL = "seal"  # under this name a record holds the SHA-256 of the rest


def packed(
    value: Any, tensors: dict[str, torch.Tensor], name: str, other: Callable[[Any, str], Any]
) -> Any:
    """Turn a value into JSON and put its tensors aside; every kind but the plain has a label.

    Args:
        value: Nested dicts, lists, tuples, tensors and plain values.
        tensors: Where its tensors go, by their place in it.
        name: How the value is called.
        other: Gives a labeled description, `{label: JSON}`, of whatever else is in there, from the
            thing and its name; or refuses it.

    Example:
        >>> tensors = {}
        >>> packed({"w": torch.ones(2), "sizes": (2, 3)}, tensors, "state", repr)
        {'dict': [['w', {'tensor': 'state.w'}], ['sizes', {'tuple': [2, 3]}]]}
        >>> tensors
        {'state.w': tensor([1., 1.])}
    """
    if isinstance(value, torch.Tensor):
        while name in tensors:  # {"a.b": ...} beside {"a": {"b": ...}}
            name += "'"
        tensors[name] = value.detach().cpu().contiguous().clone()  # clone: shared memory is refused
        return {"tensor": name}
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, dict):
        pairs = [
            [packed(key, tensors, name, other), packed(one, tensors, f"{name}.{key}", other)]
            for key, one in value.items()
        ]
        return {"dict": pairs}
    if isinstance(value, (list, tuple)):
        items = [
            packed(one, tensors, f"{name}.{place}", other) for place, one in enumerate(value)
        ]
        return items if isinstance(value, list) else {"tuple": items}
    return other(value, name)


def unpacked(
    tree: Any, tensors: dict[str, torch.Tensor], other: Callable[[str, Any], Any]
) -> Any:
    """Turn JSON back into a value; a tensor is taken out of those that are left.

    Args:
        tree: What `packed` gave.
        tensors: What it put aside.
        other: Makes what else there was from its label and its description; or refuses it.
    """
    if isinstance(tree, list):
        return [unpacked(one, tensors, other) for one in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, inner),) = tree.items()
    if kind == "tensor":
        return tensors.pop(inner)
    if kind == "float":
        return float(inner)
    if kind == "tuple":
        return tuple(unpacked(one, tensors, other) for one in inner)
    if kind == "dict":
        return {
            unpacked(key, tensors, other): unpacked(one, tensors, other) for key, one in inner
        }
    return other(kind, inner)


def sealed(record: dict[str, Any], indent: int | None = None) -> bytes:
    """Write a record as JSON under its own SHA-256."""
    text = json.dumps(record, allow_nan=False)
    seal = {SEAL: hashlib.sha256(text.encode()).hexdigest()}
    return f"{json.dumps({**record, **seal}, indent=indent)}\n".encode()


def unsealed(body: bytes, indent: int | None = None) -> dict[str, Any]:
    """Read a sealed record; a `ValueError` where one bit is not what was written.

    Example:
        >>> body = sealed({"epoch": 7})
        >>> unsealed(body)
        {'epoch': 7}
        >>> unsealed(body.replace(b"7", b"9", 1))
        Traceback (most recent call last):
        ValueError: it does not have its check sum
    """
    record = json.loads(body)
    if not isinstance(record, dict):
        raise ValueError("it holds no record")
    record.pop(SEAL, None)
    if sealed(record, indent) != body:  # every byte, also one that means the same
        raise ValueError("it does not have its check sum")
    return record

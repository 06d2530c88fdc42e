"""Weights that others trained: read from safetensors, renamed, and held against a model of ours.

Pickles are refused: to read one is to run it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from principia.lab.params import UsageError, usage_error

__all__ = ["read_weights", "sizes_in", "take_weights"]

Model = TypeVar("Model", bound=nn.Module)


def read_weights(owner: str, source: Mapping[str, Tensor] | Path | str) -> dict[str, Tensor]:
    """Give tensors by name: those of a safetensors file, or a `state_dict` as it is."""
    if isinstance(source, Mapping):
        return dict(source)
    path = Path(source)
    if path.suffix != ".safetensors":
        hint = "Other formats are pickles, which can run anything: convert it where you trust it."
        raise usage_error(owner, "weights", "a .safetensors file", path.name, hint)
    if not path.is_file():
        raise UsageError(f"{owner}: {path} must be a file; there is none.")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UsageError(f"{owner}: {path.name} cannot be read: {error}. Get it again.") from error


def sizes_in(weights: Mapping[str, Tensor], **places: tuple[str, int]) -> dict[str, Any]:
    """Read the sizes of a model off its weights, each off an axis of a tensor, if that is there.

    Example:
        >>> sizes_in({"fc.weight": torch.zeros(5, 8)}, classes=("fc.weight", 0), depth=("no", 0))
        {'classes': 5}
    """
    return {
        name: weights[key].shape[axis] for name, (key, axis) in places.items() if key in weights
    }


@torch.no_grad()
def take_weights(
    owner: str, model: Model, source: Mapping[str, Tensor] | Path | str,
    rename: Callable[[str], str] = str,
) -> Model:
    """Copy weights into a model, all of them or none; what is missing or left over is named.

    Args:
        owner: Who asks, for the sentence of a refusal.
        model: What takes them.
        source: A safetensors file, or a `state_dict`.
        rename: Gives our name of one of theirs.
    """
    given = {rename(name): one for name, one in read_weights(owner, source).items()}
    own = model.state_dict()
    for what, names in (("missing", own.keys() - given), ("left over", given.keys() - own)):
        # a count of batches was no part of older files, and decides nothing in evaluation
        if names := {one for one in names if not one.endswith("num_batches_tracked")}:
            got = f"{len(names)} {what}, first {min(names)}"
            raise usage_error(owner, "weights", f"the {len(own)} tensors of the model", got)
    for name in own.keys() & given.keys():
        if own[name].shape != given[name].shape:
            shapes = [tuple(one.shape) for one in (own[name], given[name])]
            raise usage_error(owner, name, f"of shape {shapes[0]}", shapes[1])
    for name in own.keys() & given.keys():
        own[name].copy_(given[name])
    return model

r"""Checkpoints: the whole state of a run, written so that one good copy survives everything.

A state is any nesting of dicts, lists, tuples, tensors and plain values, such as the `state_dict`
of a model or an optimizer. Tensors go into one safetensors file, the rest into a JSON manifest with
the size and SHA-256 of that file, under a SHA-256 of its own; nothing is ever pickled. Both are
written into a folder under a temporary name, synced, and renamed; only then are older checkpoints
removed. A kill, a full disk or a torn write leaves the last good checkpoint; where a single bit
differs from what was written, a checkpoint is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes

from principia.lab.packing import packed, sealed, unpacked, unsealed
from principia.lab.params import NonNegativeInt, Range, UsageError, checked

__all__ = ["checkpoints", "latest", "load", "prune", "save"]

FORMAT = 2
MANIFEST, TENSORS = "manifest.json", "tensors.safetensors"
NAME = re.compile(r"step-(\d{12})")


@checked
def save(
    folder: Path, step: NonNegativeInt, state: Any, *, keep: Annotated[int, Range(1, 1000)] = 2
) -> Path:
    """Write the state of a step as the newest checkpoint, then remove all but the last `keep`.

    Args:
        folder: Where the checkpoints of the run are; it is made if it is not there.
        step: Number of the step, which orders checkpoints.
        state: Nested dicts, lists, tuples, tensors and plain values.
        keep: How many checkpoints to leave; two, so that one is whole if the disk tears the other.

    Example:
        >>> folder = Path(tempfile.mkdtemp())
        >>> path = save(folder, 3, {"weights": torch.ones(2), "loss": 0.5})
        >>> latest(folder)
        (3, {'weights': tensor([1., 1.]), 'loss': 0.5})
    """
    tensors: dict[str, torch.Tensor] = {}
    tree = packed(state, tensors, "state", _refused)
    body = tensors_to_bytes(tensors)
    manifest = {
        "format": FORMAT,
        "step": step,
        "tensors": {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()},
        "state": tree,
    }
    folder.mkdir(parents=True, exist_ok=True)
    _clear_leftovers(folder)
    final = folder / _name(step)
    temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".writing-"))
    try:
        _write(temporary / TENSORS, body)
        _write(temporary / MANIFEST, sealed(manifest))
        _sync_folder(temporary)
        if final.exists():  # the same step again, after a resume: the old one goes first
            shutil.rmtree(final)
        os.rename(temporary, final)
        _sync_folder(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    prune(folder, keep)
    return final


def _name(step: int) -> str:
    return f"step-{step:012d}"


def prune(folder: Path, keep: int) -> None:
    """Remove all checkpoints but the last `keep`."""
    for _, old in list(checkpoints(folder))[:-keep]:
        shutil.rmtree(old, ignore_errors=True)


def checkpoints(folder: Path) -> Iterator[tuple[int, Path]]:
    """List the checkpoints of a run, oldest first, whether they can be read or not."""
    names = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
    for name in names:
        if found := NAME.fullmatch(name):
            yield int(found.group(1)), folder / name


def latest(folder: Path) -> tuple[int, Any] | None:
    """Read the newest checkpoint that is whole; None if there is none at all."""
    refused = []
    for _, path in reversed(list(checkpoints(folder))):
        try:
            return load(path)
        except UsageError as error:
            refused.append(str(error))
    if refused:
        raise UsageError(
            f"{refused[0]} There is no other in {folder}: remove that folder to train again from "
            "the beginning."
        )
    return None


def load(path: Path) -> tuple[int, Any]:
    """Read one checkpoint: its step and its state; refuse whatever does not match its manifest."""
    try:
        manifest = unsealed((path / MANIFEST).read_bytes())
        body = (path / TENSORS).read_bytes()
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"checkpoint: {path.name} cannot be used: {error}.") from error
    try:
        if manifest["format"] != FORMAT:
            raise UsageError(
                f"checkpoint: {path.name} must have format {FORMAT}; got {manifest['format']!r}. "
                "It was written by another version of Principia."
            )
        said = manifest["tensors"]
        if len(body) != said["bytes"] or hashlib.sha256(body).hexdigest() != said["sha256"]:
            raise UsageError(
                f"checkpoint: {path.name} must hold the {said['bytes']} bytes of its manifest; it "
                "does not. The write was torn, or the file was changed."
            )
        tensors = tensors_from_bytes(body)  # refuses overlaps, holes and extra bytes itself
        state = unpacked(manifest["state"], tensors, _unknown)
        if tensors:
            raise UsageError(f"checkpoint: {path.name} has tensors that its state does not name.")
        if path.name != (name := _name(manifest["step"])):
            raise UsageError(f"checkpoint: {path.name} must have its own name; it was {name}.")
        return manifest["step"], state
    except (SafetensorError, LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"checkpoint: {path.name} does not have its form: {error!r}.") from error


def _refused(value: Any, name: str) -> Any:
    raise UsageError(
        f"checkpoint: {name} must be made of dicts, lists, tensors and plain values; got "
        f"{type(value).__name__}."
    )


def _unknown(kind: str, _: Any) -> Any:
    raise ValueError(f"unknown kind {kind!r}")


def _write(path: Path, body: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(body)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    """Make names durable, not only contents."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _clear_leftovers(folder: Path) -> None:
    """Remove what an earlier process was writing when it was killed."""
    for one in folder.glob(".writing-*"):
        shutil.rmtree(one, ignore_errors=True)

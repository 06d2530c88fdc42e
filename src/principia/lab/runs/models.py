r"""Trained models on disk: which component of which page, its settings, and its weights.

`model.json` names a component of the course and plain settings, never code; `model.safetensors`
holds the weights of a module, or what a scikit-learn estimator has learned. Whoever loads it gets
the class from the catalog, so that a file from elsewhere can run nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from sklearn.base import BaseEstimator
from torch import nn

from principia.lab.course import catalog
from principia.lab.course.rooms import page_key
from principia.lab.params import MADE_WITH, UsageError
from principia.lab.storage import write_bytes, write_text

__all__ = ["describe", "load_model", "save_model", "weights_hash"]

DESCRIPTION, WEIGHTS = "model.json", "model.safetensors"


def describe(model: Any, page: str = "") -> dict[str, Any]:
    """Name the component that a model is made of, and its settings.

    Args:
        model: A component of a page, or an estimator of scikit-learn that a page uses.
        page: The key of the page that uses it; by default that of the component.

    Example:
        >>> from principia.connectionism import Perceptron
        >>> describe(Perceptron(average=True))["component"]
        'connectionism/perceptron:Perceptron'
    """
    name, home = type(model).__name__, type(model).__module__
    if isinstance(model, BaseEstimator):
        settings = model.get_params(deep=False)
    else:
        settings = getattr(model, MADE_WITH, None)
    if not home.startswith("sklearn.") or not page:
        page = page_key(home)
    component = f"{page}:{name}"
    if settings is None or _class(page, name) is not type(model):
        raise UsageError(
            f"keep: model must be a component of a page with a checked constructor; got "
            f"{type(model).__name__}."
        )
    plain = {name: value for name, value in settings.items() if _is_plain(value)}
    return {"component": component, "settings": json.loads(json.dumps(plain))}


def save_model(folder: Path, model: Any, extra: Mapping[str, Any], page: str = "") -> str:
    """Write a model with more plain data about it; return the SHA-256 of its weights."""
    described = describe(model, page)
    tensors, learned = _state(model)
    body = tensors_to_bytes(tensors)
    digest = hashlib.sha256(body).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / WEIGHTS, body)
    text = json.dumps({**described, "learned": learned, "sha256": digest, **extra}, indent=1)
    write_text(folder / DESCRIPTION, f"{text}\n")
    return digest


def weights_hash(model: Any) -> str:
    """Give the SHA-256 of the weights as they would be saved."""
    return hashlib.sha256(tensors_to_bytes(_state(model)[0])).hexdigest()


def load_model(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Build a saved model again: the model, and its description."""
    try:
        described = json.loads((folder / DESCRIPTION).read_bytes())
        body = (folder / WEIGHTS).read_bytes()
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"model: {folder} holds no trained model: {error}.") from error
    try:
        if hashlib.sha256(body).hexdigest() != described["sha256"]:
            raise UsageError(f"model: {WEIGHTS} of {folder} was changed after it was written.")
        key, _, name = described["component"].partition(":")
        kind = _class(key, name)
        if kind is None:
            raise UsageError(f"model: {key} has no component {name!r}. See principia show {key}.")
        settings = {
            one: tuple(value) if isinstance(value, list) else value
            for one, value in described["settings"].items()
        }
        model = kind(**settings)
        tensors = tensors_from_bytes(body)
        _restore(model, tensors, described["learned"])
    except (SafetensorError, LookupError, TypeError, ValueError, ArithmeticError, RuntimeError,
            AttributeError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"model: {folder} does not have its form: {error!r}.") from error
    return model, described


def _class(key: str, name: str) -> type | None:
    """Find a component of a page, or an estimator of scikit-learn that it uses; nothing else."""
    try:
        page = catalog.page(key)
    except UsageError:
        return None
    found = getattr(page.load(), name, None) or getattr(page.load("experiments"), name, None)
    theirs = getattr(found, "__module__", "").startswith("sklearn.")
    if isinstance(found, type) and (
        name in page.exports or (theirs and issubclass(found, BaseEstimator))
    ):
        return found
    return None


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(one) for one in value)
    return isinstance(value, (bool, int, float, str, type(None)))


def _state(model: Any) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Give the tensors of a model, and the plain values that an estimator has learned."""
    if isinstance(model, nn.Module):
        state = model.state_dict()
        return {name: one.detach().cpu().contiguous().clone() for name, one in state.items()}, {}
    tensors, learned = {}, {}
    for name, value in vars(model).items():
        if not name.endswith("_") or name.startswith("_"):
            continue  # scikit-learn's mark of what was learned
        if isinstance(value, torch.Tensor):
            tensors[name] = value.detach().cpu().contiguous().clone()
        elif isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            tensors[name] = torch.tensor(value)
        elif _is_plain(value):
            learned[name] = value
        elif isinstance(value, np.generic):
            learned[name] = value.item()
    return tensors, learned


def _restore(model: Any, tensors: dict[str, torch.Tensor], learned: Mapping[str, Any]) -> None:
    if isinstance(model, nn.Module):
        double = any(one.dtype == torch.float64 for one in tensors.values())
        model.to(torch.float64 if double else torch.float32)
        model.load_state_dict(tensors)
        model.eval()
        return
    for name, value in {**learned, **{key: one.numpy() for key, one in tensors.items()}}.items():
        setattr(model, name, value)

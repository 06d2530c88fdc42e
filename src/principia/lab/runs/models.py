r"""Trained models on disk: which component of which page, its settings, and its weights.

`model.json` names components of the course and plain settings, never code. A setting may itself be
a component, a module of torch, a class or activation by name, or a class of modules with some of
its arguments (`functools.partial`); names resolve within the course and a short list of torch's.
`model.safetensors` holds the tensors. Whoever loads a model builds it anew, through the same
constructors with the same domains, so that a file from elsewhere can run nothing. What would not
come back as it is, is refused when it is kept.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
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
from torch import Tensor, nn

from principia.lab.course import catalog
from principia.lab.course.rooms import page_key
from principia.lab.packing import packed, sealed, unpacked, unsealed
from principia.lab.params import MADE_WITH, UsageError
from principia.lab.runs.torch_parts import constructor_settings, torch_parts
from principia.lab.storage import write_bytes
from principia.lab.training.fingerprints import check_sums

__all__ = ["check_keepable", "load_model", "save_model", "weights_of"]

FORMAT = 2
DESCRIPTION, WEIGHTS = "model.json", "model.safetensors"
_WRONG = (
    SafetensorError, LookupError, TypeError, ValueError, ArithmeticError, RuntimeError,
    AttributeError,
)
INDENT = 1  # of model.json, which people read


def check_keepable(model: Any, page: str = "") -> None:
    """Refuse a model that would not come back from disk as it is.

    Args:
        model: A component of a page, or an estimator of scikit-learn that a page uses.
        page: The key of the page that uses it.

    Example:
        >>> from principia.connectionism import OneHidden
        >>> check_keepable(OneHidden(2, 3, phi=torch.tanh))
        >>> check_keepable(OneHidden(2, 3, phi=lambda z: z))
        Traceback (most recent call last):
        principia.lab.params.errors.UsageError: keep: model.phi must be made of plain values, \
tensors, components of the course and modules or activations of torch; got <lambda>. Pass one of \
those.
    """
    packing = _Packing(page)
    described = packing.component(model)
    try:
        again = _Unpacking(dict(packing.tensors)).component(described)
    except _WRONG as error:
        name = type(model).__name__
        raise UsageError(f"keep: {name} cannot be built again of its settings: {error}.") from error
    if place := _difference(model, again, "model", set()):
        raise UsageError(
            f"keep: {place} must be what the constructor makes of its settings; it was changed "
            "afterwards. Pass it to the constructor."
        )


def save_model(
    folder: Path, model: Any, extra: Mapping[str, Any], page: str = "", example: Any = None
) -> str:
    """Write a model with more plain data about it; return the SHA-256 of its weights.

    Args:
        folder: Where to; it is made if it is not there.
        model: What `check_keepable` accepts.
        extra: Plain data that `load_model` gives back.
        page: The key of the page that uses it.
        example: An input of the model: a batch of one.
    """
    check_keepable(model, page)
    packing = _Packing(page)
    record = {
        "format": FORMAT, **packing.component(model),
        "example": packing.value(example, "/example"), **extra,
    }
    body = tensors_to_bytes(packing.tensors)
    digest = hashlib.sha256(body).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / WEIGHTS, body)
    write_bytes(folder / DESCRIPTION, sealed({**record, "sha256": digest}, INDENT))
    return digest


def load_model(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Build a saved model again: the model, and what else was said about it."""
    try:
        text, body = (folder / DESCRIPTION).read_bytes(), (folder / WEIGHTS).read_bytes()
        record = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"model: {folder} holds no trained model: {error}.") from error
    try:
        if record["format"] != FORMAT:
            raise UsageError(
                f"model: {folder} must have format {FORMAT}; got {record['format']!r}. "
                "It was written by another version of Principia."
            )
        record = unsealed(text, INDENT)
        if hashlib.sha256(body).hexdigest() != record["sha256"]:
            raise ValueError(f"{WEIGHTS} does not have its check sum")
        unpacking = _Unpacking(tensors_from_bytes(body))
        model, example = unpacking.component(record), unpacking.value(record["example"])
        if unpacking.tensors:
            raise ValueError(f"{min(unpacking.tensors)} is named nowhere")
    except _WRONG as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            f"model: {folder} does not have its form: {error}. It was changed after it was written."
        ) from error
    return model, {**record, "example": example}


def weights_of(model: Any, page: str = "") -> dict[str, Tensor]:
    """Give by name what a model has learned, as other programs want it."""
    packing = _Packing(page)
    packing.component(model)
    return {name: one for name, one in packing.tensors.items() if not name.startswith("settings/")}


class _Packing:
    """Describes components, and puts tensors aside."""

    def __init__(self, page: str = "") -> None:
        self.page, self.tensors = page, dict[str, Tensor]()
        self.numbers: dict[int, int] = {}  # of components that are described already
        self.inside: set[int] = set()  # modules whose state their parent has

    def component(self, thing: Any, name: str = "") -> dict[str, Any]:
        """Describe a component with its settings and its state."""
        if id(thing) in self.numbers:  # one thing in two places stays one thing
            return {"again": self.numbers[id(thing)]}
        self.numbers[id(thing)] = len(self.numbers)
        key, settings = _key(type(thing), self.page), _settings(thing)
        if key is None or settings is None:
            raise UsageError(
                f"keep: {_words(name)} must be a component of a page with a checked constructor, "
                f"or a module of torch; got {type(thing).__name__}."
            )
        state = self.state(thing, name) if isinstance(thing, nn.Module) else {
            "learned": self.values(_learned(thing, settings), name)
        }
        return {"component": key, "settings": self.values(settings, f"{name}/settings"), **state}

    def state(self, module: nn.Module, name: str) -> dict[str, Any]:
        """Describe what training changes in a module, unless it is part of another's state."""
        if id(module) in self.inside:
            return {}
        self.inside |= {id(one) for one in module.modules()}
        tensors = _tensors(module)
        if unknown := module.state_dict().keys() - tensors.keys():
            raise UsageError(f"keep: {_words(name)} must have tensors only; got {min(unknown)}.")
        return {
            "state": self.values(tensors, name),
            "frozen": [one for one, its in module.named_parameters() if not its.requires_grad],
            "training": [one for one, its in module.named_modules() if its.training],
        }

    def values(self, named: Mapping[str, Any], name: str) -> dict[str, Any]:
        """Describe values by name."""
        return {one: self.value(its, f"{name}/{one}".lstrip("/")) for one, its in named.items()}

    def value(self, value: Any, name: str) -> Any:
        """Describe a value."""
        return packed(value, self.tensors, name, self.other)

    def other(self, thing: Any, name: str) -> dict[str, Any]:
        """Describe what is neither plain nor a tensor, or refuse it."""
        if isinstance(thing, (nn.Module, BaseEstimator)):
            return {"component": self.component(thing, name)}
        if isinstance(thing, torch.Generator):  # drew first weights, which are known by now
            return {"generator": thing.initial_seed()}
        if isinstance(thing, np.random.RandomState):
            return {"random state": self.value(thing.get_state(legacy=False), name)}
        if isinstance(thing, np.generic):
            return {"scalar": self.value(np.asarray(thing), name)}
        if isinstance(thing, np.ndarray) and thing.dtype.kind in "fiub":
            return {"array": self.value(torch.tensor(thing), name)}
        if isinstance(thing, np.ndarray) and thing.dtype.kind in "UO":
            return {"objects": [thing.dtype.str, self.value(thing.tolist(), name)]}
        if (found := _name(thing)) is not None:
            return {"named": found}
        if isinstance(thing, functools.partial) and _makes_modules(thing.func):
            given = (thing.args, thing.keywords)
            return {"partial": [self.value(one, name) for one in (thing.func, *given)]}
        raise UsageError(
            f"keep: {_words(name)} must be made of plain values, tensors, components of the course "
            f"and modules or activations of torch; got "
            f"{getattr(thing, '__qualname__', type(thing).__name__)}. Pass one of those."
        )


def _words(name: str) -> str:
    """Say where in a model something is."""
    return f"model.{name.replace('settings/', '').replace('/', '.')}" if name else "model"


class _Unpacking:
    """Builds components of their descriptions; takes tensors out of those that are left."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.tensors = tensors
        self.made: list[Any] = []

    def component(self, described: Mapping[str, Any]) -> Any:
        """Build a component and give it its state."""
        if "again" in described:
            return self.made[described["again"]]
        self.made.append(None)
        number = len(self.made) - 1
        kind = _thing(described["component"])
        if not (isinstance(kind, type) and issubclass(kind, (nn.Module, BaseEstimator))):
            raise ValueError(f"{described['component']} makes no model")
        # in the order in which they were described
        state, learned = (self.values(described.get(one, {})) for one in ("state", "learned"))
        self.made[number] = model = _built(kind, self.values(described["settings"]))
        if "state" in described:
            _restore(model, state, described)
        for name, value in learned.items():
            if name.startswith("__"):
                raise ValueError(f"{name} is nothing that is learned")
            setattr(model, name, value)
        return model

    def values(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """Build values by name."""
        return {name: self.value(tree) for name, tree in described.items()}

    def value(self, tree: Any) -> Any:
        """Build a value."""
        return unpacked(tree, self.tensors, self.other)

    def other(self, kind: str, inner: Any) -> Any:
        """Build what is neither plain nor a tensor."""
        if kind == "component":
            return self.component(inner)
        if kind == "generator":
            return torch.Generator().manual_seed(inner)
        if kind == "random state":
            state = np.random.RandomState()
            state.set_state(self.value(inner))
            return state
        if kind == "scalar":
            return self.value(inner)[()]
        if kind == "array":
            return self.value(inner).numpy()
        if kind == "objects":
            return np.array(self.value(inner[1]), dtype=inner[0])
        if kind == "named":
            return _thing(inner)
        if kind == "partial":
            function, args, keywords = map(self.value, inner)
            if not _makes_modules(function):
                raise ValueError(f"{function} makes no module")
            return functools.partial(function, *args, **keywords)
        raise ValueError(f"unknown kind {kind!r}")


def _settings(thing: Any) -> dict[str, Any] | None:
    """Give what a component was made with; None where nobody knows."""
    if isinstance(thing, BaseEstimator):
        return thing.get_params(deep=False)
    if type(thing) in torch_parts().values():
        return constructor_settings(thing)
    parameters = list(inspect.signature(type(thing).__init__).parameters)
    nothing = type(thing).__init__ is nn.Module.__init__ or parameters == ["self"]
    return {} if nothing else vars(thing).get(MADE_WITH)


def _learned(estimator: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in vars(estimator).items() if name not in settings}


def _makes_modules(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, nn.Module)


def _built(kind: type, settings: Mapping[str, Any]) -> Any:
    """Call a constructor with settings by name; torch's own generator stays as it is."""
    signature = inspect.signature(kind.__init__)
    bound = signature.bind_partial()
    bound.arguments.update({"self": None, **settings})
    if unknown := settings.keys() - signature.parameters.keys():
        raise ValueError(f"{kind.__name__} has no parameter {min(unknown)}")
    with torch.random.fork_rng([]):
        return kind(*bound.args[1:], **bound.kwargs)


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Give parameters and buffers by name, also those buffers that `state_dict` leaves out."""
    named = module.named_parameters, module.named_buffers
    return {name: one for give in named for name, one in give(remove_duplicate=False)}


def _restore(module: nn.Module, state: Mapping[str, Tensor], described: Mapping[str, Any]) -> None:
    own = _tensors(module)
    if own.keys() != state.keys():
        raise ValueError(f"{min(own.keys() ^ state.keys())} is not a tensor of both")
    for name, one in own.items():
        one.data = state[name]  # of its kind and shape, whatever those of the first weights are
    frozen, training = set(described["frozen"]), set(described["training"])
    for name, one in module.named_parameters():
        one.requires_grad_(name not in frozen)
    for name, one in module.named_modules():
        one.training = name in training


def _key(kind: type, page: str) -> str | None:
    """Name a class as `chapter/page:Class`, or as torch does; None if it may not be named."""
    if kind.__module__.startswith("sklearn.") and page:
        key = f"{page}:{kind.__name__}"
        return key if _of_the_course(key) is kind else None
    return _name(kind)


def _name(thing: Any) -> str | None:
    """Name a class or a function of the course or of torch; None if it may not be named."""
    for name, one in torch_parts().items():
        if one is thing:
            return name
    home, own = getattr(thing, "__module__", None), getattr(thing, "__name__", None)
    if not isinstance(home, str) or not isinstance(own, str) or "." not in home:
        return None
    key = f"{page_key(home)}:{own}"
    return key if _of_the_course(key) is thing else None


def _thing(name: str) -> Any:
    """Find what a name means, within torch's parts and the course."""
    found = torch_parts().get(name) or _of_the_course(name)
    if found is None:
        key, _, own = name.partition(":")
        raise UsageError(f"model: {key} has no component {own!r}. See principia show {key}.")
    return found


def _of_the_course(key: str) -> Any:
    """Find a component of a page, or an estimator of scikit-learn that it uses; or None."""
    place, _, name = key.partition(":")
    try:
        page = catalog.page(place)
    except UsageError:
        return None
    if name in page.exports:
        return getattr(page.load(), name)
    found = getattr(page.load(), name, None) or getattr(page.load("experiments"), name, None)
    if not isinstance(found, type) or not issubclass(found, BaseEstimator):
        return None
    return found if found.__module__.startswith("sklearn.") else None


def _difference(one: Any, other: Any, place: str, seen: set[int]) -> str:
    """Say where two models differ first in what they hold, or nothing."""
    if isinstance(one, (bool, int, float, str)):  # those of NumPy come back as Python's
        return "" if str(one) == str(other) else place
    if type(one) is not type(other):
        return place
    if isinstance(one, Tensor):
        return "" if check_sums((one,)) == check_sums((other,)) else place
    if isinstance(one, (nn.Module, BaseEstimator)):
        if id(one) in seen:
            return ""
        seen.add(id(one))
        one, other = _held(one), _held(other)
    if isinstance(one, (list, tuple)):
        one, other = dict(enumerate(one)), dict(enumerate(other))
    if isinstance(one, Mapping):
        for name in {**one, **other}:
            if name not in one or name not in other:
                return f"{place}.{name}"
            if found := _difference(one[name], other[name], f"{place}.{name}", seen):
                return found
        return ""
    names = [getattr(each, "__qualname__", "") for each in (one, other)]
    return "" if names[0] == names[1] else place


def _held(thing: Any) -> dict[str, Any]:
    """Give all that a module or an estimator holds, by name."""
    if not isinstance(thing, nn.Module):
        return dict(vars(thing))
    held = {name: one for name, one in vars(thing).items() if name not in _OF_EVERY_MODULE}
    inner = {**thing._parameters, **thing._buffers, **thing._modules}
    hooks = len(thing._forward_hooks) + len(thing._forward_pre_hooks)
    return {**held, **inner, "hooks": hooks, "training": thing.training}


_OF_EVERY_MODULE = {*vars(nn.Module()), MADE_WITH}

r"""Knobs: the domain of a parameter lives in its annotation and nowhere else.

From `rate: UnitInterval = 0.5` come the validation, the error sentence, the command-line flag with
its help, the JSON schema of a form field and the negative test. Components validate with
`@checked`; scikit-learn estimators, which must not validate in their constructor, call
`check_params(self)` at the beginning of `fit`.
"""

import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, final

from principia.lab.params.domains import Domain, Maybe, Range, domain_of
from principia.lab.params.errors import UsageError, shown, suggestion, usage_error

__all__ = [
    "MADE_WITH", "REQUIRED", "Knob", "check_params", "checked", "knobs_of", "meanings",
    "settings", "text_of",
]

MADE_WITH = "_made_with"  # what a checked constructor was given is kept under this name
REQUIRED: Any = object()  # the default of a parameter that has none
Function = TypeVar("Function", bound=Callable[..., Any])


@final
@dataclass(frozen=True)
class Knob:
    """A parameter with a domain: its name, its default (or `REQUIRED`) and its help."""

    name: str
    domain: Domain
    default: Any = REQUIRED
    help: str = ""

    def accept(self, owner: str, value: Any) -> Any:
        """Convert a value, or refuse it with the house sentence."""
        try:
            return self.domain.accept(value)
        except (ValueError, TypeError, OverflowError):
            hint = self.domain.hint(value)
            raise usage_error(owner, self.name, self.domain.text, value, hint) from None

    def parse(self, owner: str, text: str) -> Any:
        """Read a value typed on the command line, or refuse it with the house sentence."""
        try:
            return self.domain.parse(text)
        except (ValueError, TypeError, OverflowError):
            inner = self.domain.inner if isinstance(self.domain, Maybe) else self.domain
            got = _Bare(text) if isinstance(inner, Range) else text
            raise usage_error(
                owner, self.name, self.domain.text, got, self.domain.hint(text)
            ) from None

    def schema(self) -> dict[str, Any] | None:
        """Describe the knob as one property of a JSON schema."""
        described = self.domain.schema()
        if described is None:
            return None
        if self.help:
            described = {**described, "description": self.help}
        if self.default is not REQUIRED:
            described = {**described, "default": self.default}
        return described


class _Bare(str):
    """Text that an error shows without quotation marks: numbers as they were typed."""

    __slots__ = ()
    __repr__ = str.__str__


@functools.cache
def knobs_of(function: Callable[..., Any]) -> Mapping[str, Knob]:
    """Collect the parameters of a function that have a domain, with their help."""
    hints = typing.get_type_hints(function, include_extras=True)
    helps = _described_arguments(function)
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        domain = domain_of(hints.get(name))
        if domain is not None and parameter.kind not in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        ):
            default = REQUIRED if parameter.default is parameter.empty else parameter.default
            found[name] = Knob(name, domain, default, helps.get(name, ""))
    return types.MappingProxyType(found)


def _described_arguments(function: Callable[..., Any]) -> dict[str, str]:
    """Read `name: text` from the Args section; a constructor is documented on its class."""
    documented: Any = function
    if function.__name__ == "__init__":
        documented = sys.modules[function.__module__]
        for part in function.__qualname__.split(".")[:-1]:
            documented = getattr(documented, part, None)
    return dict(meanings(inspect.getdoc(documented) or "", "Args"))


@functools.cache
def meanings(doc: str, title: str) -> Mapping[str, str]:
    r"""Read `name: text` from a section of a docstring.

    Example:
        >>> dict(meanings("What it is.\n\nKnobs:\n    n: Units\n        of a layer.", "Knobs"))
        {'n': 'Units of a layer.'}
    """
    section = re.search(rf"^{title}:\n((?:[ \t]+.*\n?|\n)+)", doc, re.MULTILINE)
    if not section:
        return {}
    body = inspect.cleandoc(section.group(1))
    parts = re.split(r"^(\w+):[ \t]*", body, flags=re.MULTILINE)[1:]
    return {name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2])}  # noqa: B905


def checked(function: Function) -> Function:
    """Validate the annotated parameters of a function or constructor before its body runs.

    Example:
        >>> from principia.lab.params import UnitInterval
        >>> @checked
        ... def halve(*, rate: UnitInterval): return rate / 2
        >>> halve(rate=3)
        Traceback (most recent call last):
        principia.lab.params.errors.UsageError: halve: rate must be in [0, 1]; got 3.
    """
    signature = inspect.signature(function)
    owner = function.__qualname__.rsplit("<locals>.", 1)[-1]
    owner = re.sub(r"\.(__init__|__call__|forward)$", "", owner)  # the class speaks for them

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in signature.parameters and not _takes_anything(signature):
                known = [one for one in signature.parameters if one != "self"]
                hint = suggestion(name, known)
                raise UsageError(f"{owner}: there is no parameter {shown(name)}. {hint}")
        bound = signature.bind(*args, **kwargs)
        for name, knob in knobs_of(function).items():
            if name in bound.arguments:
                bound.arguments[name] = knob.accept(owner, bound.arguments[name])
        if function.__name__ == "__init__":  # so that a trained model can be built again
            made = bound.args[0]
            if type(made).__init__ is wrapper:  # not one that a constructor above calls
                bound.apply_defaults()
                object.__setattr__(made, MADE_WITH, dict(list(bound.arguments.items())[1:]))
        return function(*bound.args, **bound.kwargs)

    # for `help`: what each parameter is; its domain stands in its own words below
    wrapper.__signature__ = signature.replace(parameters=[  # type: ignore[attr-defined]
        one.replace(annotation=_type_alone(one.annotation))
        for one in signature.parameters.values()
    ])
    return typing.cast(Function, wrapper)


def _type_alone(annotation: Any) -> Any:
    """Leave the domain out of an annotation."""
    if typing.get_origin(annotation) is typing.Annotated:
        return annotation.__origin__
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.Union[tuple(map(_type_alone, typing.get_args(annotation)))]  # noqa: UP007
    return annotation


def _takes_anything(signature: inspect.Signature) -> bool:
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    return inspect.Parameter.VAR_KEYWORD in kinds


def check_params(estimator: Any) -> None:
    """Validate the parameters of a scikit-learn estimator; call it first thing in `fit`."""
    owner = type(estimator).__name__
    values = estimator.get_params(deep=False)
    for name, knob in knobs_of(type(estimator).__init__).items():
        knob.accept(owner, values[name])


def settings(owner: str, knobs: Mapping[str, Knob], pairs: Mapping[str, Any]) -> dict[str, Any]:
    """Read `--set` pairs: texts are parsed, values are checked, unknown names are refused."""
    chosen = {}
    for name, value in pairs.items():
        if name not in knobs:
            raise UsageError(
                f"{owner}: there is no knob {shown(name)}. {suggestion(name, list(knobs))}"
            )
        knob = knobs[name]
        take = knob.parse if isinstance(value, str) else knob.accept
        chosen[name] = take(owner, value)
    return chosen


def text_of(value: Any) -> str:
    """Write a value as one would type it after --set.

    Example:
        >>> text_of((64, 64)), text_of(None), text_of(0.12)
        ('64,64', 'none', '0.12')
    """
    if isinstance(value, (tuple, list)):
        return ",".join(map(text_of, value))
    return "none" if value is None else str(value)

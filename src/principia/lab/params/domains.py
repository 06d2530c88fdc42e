r"""Domains: sets of allowed values that describe themselves.

A domain stands in an annotation and gives everything that depends on it: the words of the error and
of the help, the conversion, the JSON schema of a form field, and a value for the negative test.
"""

import functools
import math
import re
import types
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Union, final, get_args, get_origin

from principia.lab.params.errors import suggestion

__all__ = [
    "Bits", "Choice", "PositiveInt", "Domain", "Each", "Entries", "UnitInterval", "Jobs", "Maybe",
    "NonNegativeInt",
    "NonNegativeFloat", "OrPart", "Outside", "PositiveFloat", "Range", "SeedNumber", "Seeds",
    "Signs", "Switch", "Text", "domain_of",
]


class Outside(ValueError):
    """The value does not belong to the domain."""


class Domain(ABC):
    """A set of allowed values that can describe itself, convert, and show a value it refuses."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What stands behind `must be` in an error and in the help."""

    @abstractmethod
    def accept(self, value: Any) -> Any:
        """Return the value as the domain's own type; raise `Outside` if it is not inside."""

    @abstractmethod
    def good(self) -> Any:
        """Return some value inside."""

    @abstractmethod
    def bad(self) -> Any:
        """Return some value outside, for the negative tests."""

    def parse(self, text: str) -> Any:
        """Read a value from the command line."""
        return self.accept(text)

    def schema(self) -> dict[str, Any] | None:
        """Describe the domain as JSON schema; None for what no form field can hold."""
        return None

    def hint(self, value: Any) -> str:
        """Say what to do about a refused value."""
        return ""

    def __repr__(self) -> str:
        """Give the words, which `help` shows among annotations."""
        return self.text


@final
@dataclass(frozen=True, repr=False)
class Range(Domain):
    """Numbers between two ends; `open` names the ends that do not belong to it.

    Example:
        >>> Range(0, 1, open="high").text
        'in [0, 1)'
    """

    low: float = -math.inf
    high: float = math.inf
    open: Literal["", "low", "high", "both"] = ""
    kind: type = float

    @property
    def text(self) -> str:
        """The interval in the usual brackets."""
        article = "an integer" if self.kind is int else "a finite number"
        if math.isinf(self.low) and math.isinf(self.high):
            return article
        left = "(" if self.open in ("low", "both") or math.isinf(self.low) else "["
        right = ")" if self.open in ("high", "both") or math.isinf(self.high) else "]"
        interval = f"in {left}{self.low:g}, {self.high:g}{right}"
        return f"an integer {interval}" if self.kind is int else interval

    @property
    def goal(self) -> str:
        """The range as something to reach: `>= 0.9`, `<= 5`, `= 22`, or the interval.

        Example:
            >>> Range(0.9).goal, Range(22, 22).goal
            ('>= 0.9', '= 22')
        """
        if self.low == self.high:
            return f"= {self.low:g}"
        if math.isinf(self.high):
            return f">= {self.low:g}"
        return f"<= {self.high:g}" if math.isinf(self.low) else self.text

    def __contains__(self, value: float) -> bool:
        above = value > self.low or (value == self.low and self.open not in ("low", "both"))
        below = value < self.high or (value == self.high and self.open not in ("high", "both"))
        return math.isfinite(value) and above and below

    def accept(self, value: Any) -> Any:
        """Take a number of the right kind that lies inside."""
        number = Integral if self.kind is int else Real
        if isinstance(value, bool) or not isinstance(value, number):
            raise Outside
        converted = self.kind(value)  # type: ignore[arg-type]
        if converted not in self:
            raise Outside
        return converted

    def parse(self, text: str) -> Any:
        """Read `1000`, `1e3` or, where the kind allows it, `0.5`."""
        number = float(text)
        exact = int(text) if re.fullmatch(r"[+-]?\d+", text.strip()) else number
        return self.accept(int(exact) if self.kind is int and number == int(number) else exact)

    def good(self) -> Any:
        """Return a value near the lower end, or near zero where there is none."""
        if self.kind is int:
            return int(max(self.low, min(1, self.high)))
        low, high = max(self.low, -1.0), min(self.high, max(self.low, 0.0) + 1.0)
        return (low + high) / 2

    def bad(self) -> Any:
        """Return a value beyond a finite end; a number line has none, so a word."""
        if math.isfinite(self.low):
            return self.kind(self.low - 1)
        return self.kind(self.high + 1) if math.isfinite(self.high) else "many"

    def schema(self) -> dict[str, Any]:
        """Describe the ends with (exclusive) minimum and maximum."""
        described: dict[str, Any] = {"type": "integer" if self.kind is int else "number"}
        if math.isfinite(self.low):
            key = "exclusiveMinimum" if self.open in ("low", "both") else "minimum"
            described[key] = self.low
        if math.isfinite(self.high):
            key = "exclusiveMaximum" if self.open in ("high", "both") else "maximum"
            described[key] = self.high
        return described


PositiveFloat = Annotated[float, Range(0, math.inf, open="low")]
NonNegativeFloat = Annotated[float, Range(0, math.inf)]
UnitInterval = Annotated[float, Range(0, 1)]
PositiveInt = Annotated[int, Range(1, math.inf)]
NonNegativeInt = Annotated[int, Range(0, math.inf)]
SeedNumber = Annotated[int, Range(0, 2**32 - 1)]
Seeds = Annotated[int, Range(1, 1000)]
Jobs = Annotated[int, Range(1, 256)]


@final
@dataclass(frozen=True, repr=False)
class Choice(Domain):
    """One of a few words; written as `Literal["a", "b"]`."""

    options: tuple[Any, ...]

    @property
    def text(self) -> str:
        """List the words."""
        return f"one of {', '.join(repr(option) for option in self.options)}"

    def accept(self, value: Any) -> Any:
        """Take exactly one of the words."""
        for option in self.options:
            if type(option) is type(value) and option == value:
                return option
        raise Outside

    def parse(self, text: str) -> Any:
        """Find the option that prints as the text."""
        return self.accept(next((option for option in self.options if str(option) == text), text))

    def good(self) -> Any:
        """Return the first word."""
        return self.options[0]

    def bad(self) -> Any:
        """Return a word that nobody would choose."""
        return "no-such-option"

    def schema(self) -> dict[str, Any]:
        """Enumerate the words."""
        return {"enum": list(self.options)}

    def hint(self, value: Any) -> str:
        """Suggest the word that is close; the text lists them all already."""
        guess = suggestion(str(value), [str(option) for option in self.options])
        return guess if guess.startswith("Did") else ""


@final
@dataclass(frozen=True, repr=False)
class Switch(Domain):
    """True or false; written as `bool`."""

    @property
    def text(self) -> str:
        """Say it in words."""
        return "true or false"

    def accept(self, value: Any) -> bool:
        """Take a Boolean, nothing that merely looks like one."""
        if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
            return bool(value)
        raise Outside

    def parse(self, text: str) -> bool:
        """Read the usual words for yes and no."""
        words = {"true": True, "yes": True, "on": True, "1": True}
        words |= {"false": False, "no": False, "off": False, "0": False}
        return self.accept(words.get(text.strip().lower(), text))

    def good(self) -> bool:
        """Return true."""
        return True

    def bad(self) -> Any:
        """Return a word that is no Boolean."""
        return "perhaps"

    def schema(self) -> dict[str, Any]:
        """Describe a check box."""
        return {"type": "boolean"}


@final
@dataclass(frozen=True, repr=False)
class Text(Domain):
    """Any text; written as `str`."""

    @property
    def text(self) -> str:
        """Say it in words."""
        return "a text"

    def accept(self, value: Any) -> str:
        """Take a string."""
        if not isinstance(value, str):
            raise Outside
        return value

    def good(self) -> str:
        """Return a word."""
        return "word"

    def bad(self) -> Any:
        """Return a number."""
        return 0

    def schema(self) -> dict[str, Any]:
        """Describe a text field."""
        return {"type": "string"}


@final
@dataclass(frozen=True, repr=False)
class Maybe(Domain):
    """A domain or nothing; written as `X | None`."""

    inner: Domain

    @property
    def text(self) -> str:
        """Say what it is, or none."""
        return f"{self.inner.text}, or none"

    def accept(self, value: Any) -> Any:
        """Take None or what the inner domain takes."""
        return None if value is None else self.inner.accept(value)

    def parse(self, text: str) -> Any:
        """Read the word none, or an inner value."""
        return None if text.strip().lower() == "none" else self.inner.parse(text)

    def good(self) -> Any:
        """Return an inner value."""
        return self.inner.good()

    def bad(self) -> Any:
        """Return what the inner domain refuses."""
        return self.inner.bad()

    def schema(self) -> dict[str, Any] | None:
        """Allow null beside the inner description."""
        inner = self.inner.schema()
        return None if inner is None else {"anyOf": [inner, {"type": "null"}]}


@final
@dataclass(frozen=True, repr=False)
class OrPart(Domain):
    """A domain, or an object of a class that is passed in instead and taken as it is.

    Example:
        >>> either = OrPart(Range(0, 1), slice)
        >>> either.text, either.accept(0.5), either.accept(slice(3))
        ('in [0, 1], or a slice', 0.5, slice(None, 3, None))
    """

    inner: Domain
    part: type

    @property
    def text(self) -> str:
        """Say what it is, or which part."""
        return f"{self.inner.text}, or a {self.part.__name__}"

    def accept(self, value: Any) -> Any:
        """Take such a part or what the inner domain takes."""
        return value if isinstance(value, self.part) else self.inner.accept(value)

    def parse(self, text: str) -> Any:
        """Read an inner value: a part cannot be typed."""
        return self.inner.parse(text)

    def good(self) -> Any:
        """Return an inner value."""
        return self.inner.good()

    def bad(self) -> Any:
        """Return what the inner domain refuses."""
        return self.inner.bad()

    def schema(self) -> dict[str, Any] | None:
        """Describe an inner value: a part has no form field."""
        return self.inner.schema()

    def hint(self, value: Any) -> str:
        """Say what the inner domain says."""
        return self.inner.hint(value)


@final
@dataclass(frozen=True, repr=False)
class Each(Domain):
    """Several values of one domain; written as `tuple[X, ...]`, typed as `1,2,3`."""

    item: Domain

    @property
    def text(self) -> str:
        """Say what each value is."""
        return f"one or more values, each {self.item.text}"

    def accept(self, value: Any) -> tuple[Any, ...]:
        """Take a sequence whose values all belong."""
        if isinstance(value, str) or not isinstance(value, (list, tuple)) or not value:
            raise Outside
        return tuple(self.item.accept(one) for one in value)

    def parse(self, text: str) -> tuple[Any, ...]:
        """Read values apart by commas."""
        return self.accept([self.item.parse(part.strip()) for part in text.split(",")])

    def good(self) -> tuple[Any, ...]:
        """Return one value inside."""
        return (self.item.good(),)

    def bad(self) -> tuple[Any, ...]:
        """Return one value outside."""
        return (self.item.bad(),)

    def schema(self) -> dict[str, Any] | None:
        """Describe a list."""
        inner = self.item.schema()
        return None if inner is None else {"type": "array", "items": inner, "minItems": 1}


@final
@dataclass(frozen=True, repr=False)
class Entries(Domain):
    """Arrays or tensors, of any shape but empty, whose entries come from a few numbers."""

    allowed: tuple[float, ...]

    @property
    def text(self) -> str:
        """Name the numbers."""
        return f"an array of {' and '.join(f'{number:+g}' for number in self.allowed)} only"

    def accept(self, value: Any) -> Any:
        """Take an array all of whose entries are allowed."""
        if not isinstance(getattr(value, "shape", None), tuple) or 0 in value.shape:
            raise Outside
        inside = functools.reduce(lambda a, b: a | b, [value == number for number in self.allowed])
        if not bool(inside.all()):
            raise Outside
        return value

    def good(self) -> Any:
        """Return a small matrix with every allowed entry."""
        import torch

        return torch.tensor([self.allowed, self.allowed[::-1]], dtype=torch.float64)

    def bad(self) -> Any:
        """Return a matrix with one entry that does not belong."""
        values = self.good()
        values[0, 0] = 0.5
        return values


Signs = Entries((-1, 1))
Bits = Entries((0, 1))


def domain_of(annotation: Any) -> Domain | None:
    """Read the domain off an annotation; None where it names none.

    Example:
        >>> domain_of(PositiveFloat).text, domain_of(Literal["sync", "async"]).text
        ('in (0, inf)', "one of 'sync', 'async'")
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        base, *notes = arguments
        for note in notes:
            if isinstance(note, Range):
                return replace(note, kind=int) if base is int else note
            if isinstance(note, Domain):
                return note
        return domain_of(base)
    if origin is Literal:
        return Choice(arguments)
    if origin in (Union, types.UnionType) and type(None) in arguments and len(arguments) == 2:
        inner = domain_of(next(one for one in arguments if one is not type(None)))
        return None if inner is None else Maybe(inner)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        inner = domain_of(arguments[0])
        return None if inner is None else Each(inner)
    plain = {bool: Switch(), int: Range(kind=int), float: Range(), str: Text()}
    try:
        return plain.get(annotation)
    except TypeError:  # an unhashable annotation names no domain
        return None

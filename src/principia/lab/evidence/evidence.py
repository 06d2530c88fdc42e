r"""Evidence: what was measured, what was expected, how they relate, and how much slack and why.

Evidence is made by the relations beside this module. It has three verdicts: it `holds`, it is
`refuted`, or it is `undecided` (a NaN, a confidence interval too wide to tell): an undecided
measure does not pass, and an undecided control does not count as refuted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np

__all__ = ["Evidence", "Plot", "Relation", "Role", "Series", "Verdict", "short"]

Verdict = Literal["holds", "refuted", "undecided"]
Relation = Literal["=", "<=", ">=", "slope", "->", "law", "all"]
Role = Literal["measured", "predicted", "bound", "other"]
Style = Literal["points", "line", "steps", "bars"]

_SIGNS = {  # words before, sign when it holds, sign when it is refuted, sign of the slack
    "=": ("", "=", "≠", "±"),
    "<=": ("", "≤", ">", "+"),
    ">=": ("", "≥", "<", "−"),
    "slope": ("slope ", "=", "≠", "±"),
    "->": ("", "→", "↛", "±"),
    "law": ("p = ", "≥", "<", "±"),
}


@final
@dataclass(frozen=True)
class Series:
    """One curve or cloud of a plot.

    Args:
        name: What the legend says.
        x: Where: a sequence of numbers or words.
        y: What: a sequence of numbers, an array or a tensor.
        role: Decides the color: measured, predicted, bound or other.
        style: Points, line, steps or bars; by default points if measured, else a line.
        error: Half-lengths of error bars, if any.
    """

    name: str
    x: Any
    y: Any
    role: Role = "measured"
    style: Style | None = None
    error: Any = None

    def __post_init__(self) -> None:
        """Cut tensors off their graph, which can neither be written nor sent elsewhere."""
        for name in ("x", "y", "error"):
            object.__setattr__(self, name, _detached(getattr(self, name)))

    def to_json(self) -> dict[str, Any]:
        """Give the series as plain lists."""
        described: dict[str, Any] = {"name": self.name, "role": self.role}
        described["style"] = self.style or ("points" if self.role == "measured" else "line")
        described["x"] = [one if isinstance(one, str) else _plain(one) for one in self.x]
        described["y"] = _plain_list(self.y)
        if self.error is not None:
            described["error"] = _plain_list(self.error)
        return described

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Series:
        """Take the series back from plain data."""
        numbers = {name: _numbers(plain[name]) for name in ("y", "error") if name in plain}
        x = [one if isinstance(one, str) else float(one) for one in plain["x"]]
        return cls(plain["name"], x, role=plain["role"], style=plain["style"], **numbers)


@final
@dataclass(frozen=True)
class Plot:
    """What a figure needs: series, axis titles and which axes are logarithmic."""

    series: tuple[Series, ...]
    x: str = ""
    y: str = ""
    log: Literal["", "x", "y", "xy"] = ""

    def to_json(self) -> dict[str, Any]:
        """Give the plot as plain data."""
        series = [one.to_json() for one in self.series]
        return {"x": self.x, "y": self.y, "log": self.log, "series": series}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Plot:
        """Take the plot back from plain data."""
        series = tuple(Series.from_json(one) for one in plain["series"])
        return cls(series, plain["x"], plain["y"], plain["log"])


@final
@dataclass(frozen=True, repr=False)
class Evidence:
    """What one check of one claim found."""

    relation: Relation
    measured: float
    expected: float
    tolerance: float
    why: str
    verdict: Verdict
    detail: str = ""
    interval: tuple[float, float] | None = None
    parts: tuple[tuple[str, Evidence], ...] = ()
    plot: Plot | None = None
    speaker: str = ""  # the part whose numbers stand for all, where that is not the loudest
    name: str = ""  # what the number is, in words; a part has its name from the whole

    def __repr__(self) -> str:
        """Give the verdict and the numbers."""
        return f"<Evidence: {self.verdict}: {self.summary}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Draw it in a notebook."""
        from principia.lab.notebooks import evidence_bundle

        return evidence_bundle(self)

    @property
    def holds(self) -> bool:
        """Whether the statement was confirmed."""
        return self.verdict == "holds"

    @property
    def refuted(self) -> bool:
        """Whether the statement was shown to be false."""
        return self.verdict == "refuted"

    @property
    def leaves(self) -> tuple[tuple[str, Evidence], ...]:
        """The parts with their names; a simple evidence is its own only part, without a name."""
        if not self.parts:
            return (("", self),)
        return tuple(
            (f"{name}, {inner}" if inner else name, leaf)
            for name, part in self.parts
            for inner, leaf in part.leaves
        )

    @property
    def decisive(self) -> tuple[str, Evidence]:
        """The part that decides: the one told to speak, else the first that does not hold."""
        told = [pair for pair in self.leaves if self.speaker and pair[0] == self.speaker]
        failing = [pair for pair in self.leaves if not pair[1].holds]
        return [*told, *failing, self.leaves[0]][0]

    @property
    def summary(self) -> str:
        """The numbers on one line."""
        if self.parts:
            name, leaf = self.decisive
            return f"{name}: {leaf.summary}"
        before, sign, against, plus = _SIGNS[self.relation]
        sign = against if self.refuted else sign
        slack = f" {plus} {short(self.tolerance)}" if self.tolerance else ""
        called = f"{self.name}: " if self.name else ""
        text = f"{called}{before}{short(self.measured)} {sign} {short(self.expected)}{slack}"
        return f"{text} ({self.detail})" if self.detail else text

    def speaking(self, name: str) -> Evidence:
        """Return the same evidence with the numbers of the part of a name in front."""
        told = replace(self, speaker=name)
        leaf = told.decisive[1]
        return replace(
            told, measured=leaf.measured, expected=leaf.expected, tolerance=leaf.tolerance
        )

    def named(self, name: str) -> Evidence:
        """Return the same evidence with a name for its number: `at_least(...).named("overlap")`."""
        return replace(self, name=name)

    def drawn(
        self, *series: Series, x: str, y: str, log: Literal["", "x", "y", "xy"] = ""
    ) -> Evidence:
        """Return the same evidence with the series behind it as its plot."""
        return replace(self, plot=Plot(series, x, y, log))

    def to_json(self) -> dict[str, Any]:
        """Give the evidence as plain data: no NaN, no infinity (both become words)."""
        described: dict[str, Any] = {
            "relation": self.relation,
            "measured": _plain(self.measured),
            "expected": _plain(self.expected),
            "tolerance": _plain(self.tolerance),
            "why": self.why,
            "verdict": self.verdict,
            "detail": self.detail,
        }
        if self.name:
            described["name"] = self.name
        if self.interval is not None:
            described["interval"] = [_plain(end) for end in self.interval]
        if self.speaker:
            described["speaker"] = self.speaker
        if self.parts:
            described["parts"] = [{**part.to_json(), "name": name} for name, part in self.parts]
        if self.plot is not None:
            described["picture"] = self.plot.to_json()
        return described

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Evidence:
        """Take the evidence back from plain data."""
        parts = tuple(
            (one["name"], replace(cls.from_json(one), name="")) for one in plain.get("parts", ())
        )
        interval = plain.get("interval")
        return cls(
            relation=plain["relation"],
            measured=float(plain["measured"]),
            expected=float(plain["expected"]),
            tolerance=float(plain["tolerance"]),
            why=plain["why"],
            verdict=plain["verdict"],
            detail=plain["detail"],
            interval=(float(interval[0]), float(interval[1])) if interval else None,
            parts=parts,
            plot=Plot.from_json(plain["picture"]) if "picture" in plain else None,
            speaker=plain.get("speaker", ""),
            name=plain.get("name", ""),
        )


def _numbers(values: Iterable[Any]) -> list[float]:
    return [float(one) for one in values]  # words such as nan and inf, too


def short(value: float) -> str:
    """Print a number with five significant digits; integers in full."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.5g}"


def _plain(value: Any) -> float | int | str:
    number = _plain_number(value)
    return number if math.isfinite(number) else str(number)


def _plain_number(value: Any) -> float | int:
    number = float(value)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _detached(values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        return [_detached(one) for one in values]
    return values.detach() if hasattr(values, "detach") else values


def _plain_list(values: Any) -> list[float | int | str]:
    return [_plain(one) for one in np.asarray(values, dtype=np.float64).ravel()]

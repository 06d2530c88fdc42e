r"""Evidence: what was measured, what was expected, how they relate, and how much slack and why.

Evidence is made by the relations beside this module. It has three verdicts: it `holds`, it is
`refuted`, or it is `undecided` (a NaN, a confidence interval too wide to tell): an undecided
measure does not pass, and an undecided control does not count as refuted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, final

from principia.lab.pictures.marks import Mark, Role, Series, plain_number
from principia.lab.pictures.picture import Picture, Plot, picture_from_json

__all__ = ["Evidence", "Plot", "Relation", "Role", "Series", "Verdict", "short"]

Verdict = Literal["holds", "refuted", "undecided"]
Relation = Literal["=", "<=", ">=", "slope", "->", "law", "all"]

_SIGNS = {  # words before, sign when it holds, sign when it is refuted, sign of the slack
    "=": ("", "=", "≠", "±"),
    "<=": ("", "≤", ">", "+"),
    ">=": ("", "≥", "<", "−"),
    "slope": ("slope ", "=", "≠", "±"),
    "->": ("", "→", "↛", "±"),
    "law": ("p = ", "≥", "<", "±"),
}


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
    plot: Picture | None = None
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
        self, *marks: Mark, x: str, y: str, log: Literal["", "x", "y", "xy"] = ""
    ) -> Evidence:
        """Return the same evidence with what is behind it as its plot, on axes with titles."""
        return replace(self, plot=Plot(marks, x, y, log))

    def pictured(self, picture: Picture) -> Evidence:
        """Return the same evidence with a picture of what is behind it, be it still or moving."""
        return replace(self, plot=picture)

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
            plot=picture_from_json(plain["picture"]) if "picture" in plain else None,
            speaker=plain.get("speaker", ""),
            name=plain.get("name", ""),
        )


def short(value: float) -> str:
    """Print a number with five significant digits; integers in full."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.5g}"


def _plain(value: Any) -> float | int | str:
    number = plain_number(value)
    return number if math.isfinite(number) else str(number)

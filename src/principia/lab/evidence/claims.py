r"""Claims: statements that a computer can test, each with controls that must fail.

A claim is a function of a seed and bounded knobs that returns Evidence. A control names knob values
under which a hypothesis of the statement is broken, and the parts of the evidence that it refutes.
The claim passes only if the measure holds on every seed AND every control refutes its parts on
every seed: a check that cannot fail is no check, and neither is a part of one.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, final

from principia.lab.course.rooms import page_key
from principia.lab.evidence.evidence import Evidence
from principia.lab.params import Knob, UsageError, knobs_of, meanings, settings, usage_error
from principia.lab.seeds import Seed

__all__ = ["Claim", "Control", "Finding", "Findings", "Observation", "claim"]


@final
@dataclass(frozen=True)
class Control:
    """Knob values under which a claim is broken, and the parts of its evidence that this refutes.

    Args:
        knobs: The values; the other knobs stay as they are.
        refutes: Names of the parts that must be refuted; a group stands for all that is in it. The
            first is the one that speaks: its number decides where a misprint is shown.
        words: What is broken, in a few words; by default the values of the knobs.
    """

    knobs: Mapping[str, Any]
    refutes: Sequence[str] | Literal["all"] = "all"
    words: str = ""

    def __post_init__(self) -> None:
        """Take the knobs for itself, and lists of names, too."""
        object.__setattr__(self, "knobs", dict(self.knobs))
        if self.refutes != "all":
            object.__setattr__(self, "refutes", tuple(self.refutes))

    @property
    def said(self) -> str:
        """What is broken, in words."""
        return self.words or ", ".join(f"{name}={value}" for name, value in self.knobs.items())

    def parts_of(self, evidence: Evidence) -> tuple[str, ...]:
        """Name the parts of some evidence that must be refuted; evidence in one piece has none."""
        if not evidence.parts:
            return ()
        found = [name for name, _ in evidence.leaves]
        if self.refutes == "all":
            return tuple(found)
        return tuple(
            leaf for name in self.refutes for leaf in found
            if leaf == name or leaf.startswith(f"{name}, ")
        )


@final
@dataclass(frozen=True)
class Observation:
    """What one run of a claim's function gave: evidence, or the error that stopped it."""

    seed: int
    knobs: Mapping[str, Any]
    evidence: Evidence | None = None
    error: str = ""
    trace: str = field(default="", compare=False)
    refutes: tuple[str, ...] = ()  # of a control: the parts that must be refuted

    @property
    def verdict(self) -> str:
        """`holds`, `refuted`, `undecided` or `error`."""
        return self.evidence.verdict if self.evidence else "error"

    @property
    def summary(self) -> str:
        """The numbers, or the error, on one line."""
        return self.evidence.summary if self.evidence else self.error

    @property
    def spared(self) -> tuple[tuple[str, Evidence], ...]:
        """The parts that must be refuted, and are not."""
        leaves = self.evidence.leaves if self.evidence else ()
        return tuple(pair for pair in leaves if pair[0] in self.refutes and not pair[1].refuted)

    def under(self, control: Control) -> Observation:
        """Take this for what a control gave: the first part that it names speaks, or one spared."""
        if self.evidence is None:
            return self
        of_control = replace(self, refutes=control.parts_of(self.evidence))
        speaking = [name for name, _ in of_control.spared] or of_control.refutes
        if not speaking:
            return of_control
        return replace(of_control, evidence=self.evidence.speaking(speaking[0]))

    def to_json(self) -> dict[str, Any]:
        """Give the observation as plain data."""
        described: dict[str, Any] = {"seed": self.seed, "knobs": dict(self.knobs)}
        if self.refutes:
            described["refutes"] = list(self.refutes)
        if self.evidence is None:
            return {**described, "verdict": "error", "error": self.error}
        return {**described, **self.evidence.to_json()}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Observation:
        """Take the observation back from plain data."""
        evidence = None if "error" in plain else Evidence.from_json(plain)
        refutes = tuple(plain.get("refutes", ()))
        return cls(plain["seed"], plain["knobs"], evidence, plain.get("error", ""), refutes=refutes)


@final
@dataclass(frozen=True, repr=False)
class Finding:
    """Everything one check of a claim found: its measures and its controls, seed by seed.

    A claim of several controls has as many observations of them for each seed, in their order.
    """

    page: str
    claim: str
    measures: tuple[Observation, ...]
    controls: tuple[Observation, ...]
    code: str = ""  # the fingerprint of what measured it, where that is known
    meanings: Mapping[str, str] = field(default_factory=dict)  # what each knob is
    sees: str = ""  # of a headline, what one sees in its figure

    def __repr__(self) -> str:
        """Say whether it passed, and why not."""
        said = "holds, and its controls are refuted" if self.passed else "; ".join(self.complaints)
        return f"<Finding {self.key}: {said or 'nothing was measured'}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Draw it in a notebook."""
        from principia.lab.notebooks import finding_bundle

        return finding_bundle(self)

    @property
    def key(self) -> str:
        """The claim's key."""
        return f"{self.page}:{self.claim}"

    @property
    def passed(self) -> bool:
        """Whether every measure holds and every control is refuted in all its parts."""
        return (
            bool(self.measures)
            and bool(self.controls)
            and all(one.verdict == "holds" for one in self.measures)
            and all(one.verdict == "refuted" and not one.spared for one in self.controls)
        )

    @property
    def complaints(self) -> tuple[str, ...]:
        """What went wrong, in sentences; a control that holds is as loud as a claim that fails."""
        measured = {"refuted": "REFUTED", "undecided": "UNDECIDED", "error": "ERROR"}
        control = {
            "holds": "CONTROL HOLDS, so the check cannot fail",
            "undecided": "CONTROL UNDECIDED",
            "error": "CONTROL ERROR",
        }
        whole = tuple(
            f"{words[one.verdict]} (seed {one.seed}): {one.summary}"
            for words, observations in ((measured, self.measures), (control, self.controls))
            for one in observations
            if one.verdict in words
        )
        return whole + tuple(
            f"CONTROL SPARES A PART, so that part cannot fail (seed {one.seed}): "
            f"{name}: {part.summary}"
            for one in self.controls
            if one.verdict == "refuted"
            for name, part in one.spared
        )

    def to_json(self) -> dict[str, Any]:
        """Give the finding in the documented form."""
        return {
            "page": self.page,
            "claim": self.claim,
            "passed": self.passed,
            **({"sees": self.sees} if self.sees else {}),
            "knobs": dict(self.meanings),
            "measures": [one.to_json() for one in self.measures],
            "controls": [one.to_json() for one in self.controls],
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Finding:
        """Take the finding back from plain data."""
        measures, controls = (
            tuple(Observation.from_json(one) for one in plain[what])
            for what in ("measures", "controls")
        )
        told = {name: plain[name] for name in ("code", "sees") if name in plain}
        meanings = plain.get("knobs", {})
        return cls(
            plain["page"], plain["claim"], measures, controls, meanings=meanings, **told
        )


@final
class Findings(tuple[Finding, ...]):
    """What a check of several claims found, in the order of the course."""

    __slots__ = ()

    @property
    def passed(self) -> bool:
        """Whether every claim passed."""
        return all(one.passed for one in self)

    def __repr__(self) -> str:
        """Say how many passed, and which did not."""
        if len(self) == 1:
            return repr(self[0])
        failed = [one for one in self if not one.passed]
        lines = [f"<Findings: {len(self) - len(failed)} of {len(self)} claims pass>"]
        return "\n".join(lines + [f"  {one!r}" for one in failed])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Draw one, or list several, in a notebook."""
        from principia.lab.notebooks import findings_bundle

        return findings_bundle(self)


@final
@dataclass(frozen=True, repr=False)
class Claim:
    """A statement of a page, the function that measures it, and the controls that must fail."""

    function: Callable[..., Evidence]
    controls: tuple[Control, ...]
    source: str
    misprint: str = ""
    headline: bool = False
    no_component: str = ""
    sees: str = ""
    no_figure: str = ""

    def __post_init__(self) -> None:
        """Let `help` tell what it states."""
        object.__setattr__(self, "__doc__", inspect.getdoc(self.function))

    def __repr__(self) -> str:
        """Give the key."""
        return f"<Claim {self.key}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """State it in a notebook."""
        from principia.lab.notebooks import claim_bundle

        return claim_bundle(self)

    @property
    def name(self) -> str:
        """The name in the course; `_claim` only keeps it apart from a component."""
        return self.function.__name__.removesuffix("_claim")

    @property
    def page(self) -> str:
        """The key of the page that states it."""
        return page_key(self.function.__module__)

    @property
    def key(self) -> str:
        """Page and name: `connectionism/perceptron:mistake_bound`."""
        return f"{self.page}:{self.name}"

    @property
    def statement(self) -> str:
        """The statement in words: the first paragraph of the docstring."""
        return " ".join((inspect.getdoc(self.function) or "").split("\n\n")[0].split())

    @property
    def knobs(self) -> Mapping[str, Knob]:
        """What can be turned, by name; what its own `Args:` leave out, the room's `Knobs:` tell."""
        shared = meanings(sys.modules[self.function.__module__].__doc__ or "", "Knobs")
        return {
            name: knob if knob.help else replace(knob, help=shared.get(name, ""))
            for name, knob in knobs_of(self.function).items()
        }

    def defaults(self) -> dict[str, Any]:
        """Give the value of every knob when nobody turns it."""
        return {name: knob.default for name, knob in self.knobs.items()}

    def chosen(self, knobs: Mapping[str, Any]) -> dict[str, Any]:
        """Give the value of every knob where some are turned; bad ones are refused."""
        return {**self.defaults(), **settings(self.key, self.knobs, knobs)}

    def measure(self, seed: int = 0, /, **knobs: Any) -> Evidence:
        """Run the measurement with these knobs."""
        return self._measured(seed, self.chosen(knobs))

    def _measured(self, seed: int, chosen: Mapping[str, Any]) -> Evidence:
        evidence = self.function(Seed(seed), **chosen)
        if not isinstance(evidence, Evidence):
            raise usage_error(self.key, "its result", "Evidence", evidence, "Return a relation.")
        return evidence

    def observe(self, seed: int, knobs: Mapping[str, Any], *, turned: bool = False) -> Observation:
        """Run the measurement; a crash becomes an observation.

        Args:
            seed: The seed.
            knobs: Knob values.
            turned: Whether a user chose them. Values that are fine one by one may not be together;
                that is then the user's mistake, to be told as one, and else a bug of the page.
        """
        chosen = self.chosen(knobs)
        try:
            return Observation(seed, chosen, self._measured(seed, chosen))
        except Exception as error:
            if turned and isinstance(error, UsageError):
                raise
            message = " ".join(f"{type(error).__name__}: {error}".split())
            return Observation(seed, chosen, error=message, trace=traceback.format_exc())

    def check(self, seeds: Iterable[int] = (0,), **knobs: Any) -> Finding:
        """Run measure and controls on every seed; a control overrides the given knobs."""
        seeds, turned = tuple(seeds), bool(knobs)
        measures = tuple(self.observe(seed, knobs, turned=turned) for seed in seeds)
        controls = tuple(
            self.observe(seed, {**knobs, **one.knobs}, turned=turned).under(one)
            for seed in seeds
            for one in self.controls
        )
        meanings = {name: knob.help for name, knob in self.knobs.items()}
        return Finding(
            self.page, self.name, measures, controls, meanings=meanings, sees=self.sees
        )

    def __call__(self, seed: int = 0, /, **knobs: Any) -> Evidence:
        """Measure, as a plain call."""
        return self.measure(seed, **knobs)


def claim(
    *,
    source: str,
    control: Mapping[str, Any] | Sequence[Control] = (),
    refutes: Sequence[str] | Literal["all"] = "all",
    misprint: str = "",
    headline: bool = False,
    no_component: str = "",
    sees: str = "",
    no_figure: str = "",
) -> Callable[[Callable[..., Evidence]], Claim]:
    """Declare the decorated function as a claim of its page.

    Args:
        source: Who proved or first stated it.
        control: Knob values that break a hypothesis, so that the check must be refuted; or a list
            of controls, where one is not enough.
        refutes: The parts of the evidence that a single control refutes; all, unless some are
            named. Those of a list name theirs themselves.
        misprint: How the formula is often printed wrongly, if the first control is that misprint.
        headline: Whether the tour shows this claim for its chapter; one a chapter.
        no_component: Why it runs no component of the course, if it does not: in one clause, that it
            is about mathematics itself, or whose component it runs.
        sees: Of a headline, what one sees in its figure, in one sentence.
        no_figure: Why measured values beside expected ones are all that there is to see, if it
            declares no figure of its own.
    """
    if isinstance(control, Mapping):
        listed = (Control(control, "all" if refutes == "all" else tuple(refutes)),)
    else:
        listed = tuple(control)

    def declare(function: Callable[..., Evidence]) -> Claim:
        if not listed or not all(one.knobs for one in listed) or not source:
            raise UsageError(
                f"claim: {function.__name__} must have a control and a source; "
                f"got control={control!r} and source={source!r}."
            )
        if refutes != "all" and not isinstance(control, Mapping):
            raise UsageError(
                f"claim: {function.__name__} must say in each of its controls what it refutes; got "
                f"refutes={list(refutes)} beside a list."
            )
        return Claim(
            function, listed, source, misprint, headline, no_component, sees, no_figure
        )

    return declare

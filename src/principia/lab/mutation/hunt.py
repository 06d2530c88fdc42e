r"""The hunt: which claims notice a bug, and how.

A claim notices by refutation if its measure does not hold, or a control is not refuted in all parts
that it names; by crash if it raises, takes more time or memory than it may, or kills its process.
Those that reach the line of the bug are asked, the cheapest first, until one refutes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from principia.lab.mutation.children import Answer, Pool, Report, limit_cpu
from principia.lab.mutation.places import Bug
from principia.lab.mutation.planting import Ground
from principia.lab.mutation.sound import Sound, allowed, checked, claims_of

if TYPE_CHECKING:
    from principia.lab.evidence.claims import Finding

__all__ = ["CRASH", "REFUTATION", "TESTS", "Verdict", "ending", "hunt", "word_of"]

REFUTATION, CRASH, TESTS = "refutation", "crash", "tests"
IMPORT = 30.0  # CPU seconds in which a page must be imported
AFTER_CRASH = 1.0  # CPU seconds of further claims that are asked for the better word
UNREACHED = "no claim runs this line"
MOST = 200  # letters of what a claim said


@final
@dataclass(frozen=True)
class Verdict:
    """What became of a bug: who noticed it and how, or that nobody did."""

    bug: Bug
    by: str = ""  # refutation, crash or nothing; tests, where these were asked
    claim: str = ""
    how: str = ""  # error, timeout, or the signal; what the claim said

    def to_json(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {**self.bug.to_json(), "by": self.by, "claim": self.claim, "how": self.how}


def hunt(
    ground: Ground, bug: Bug, sound: Sequence[Sound], pool: Pool, then: Callable[[Verdict], None]
) -> None:
    """Let claims look for a bug; `then` takes the verdict."""
    asked = [one for one in sound if one.reaches(bug)]
    if not asked:
        then(Verdict(bug, how=UNREACHED))
        return
    crashes: list[Verdict] = []

    def ask(left: Sequence[Sound]) -> None:
        pool.submit(
            lambda report: _check(ground, bug, left, bool(crashes), report),
            IMPORT + sum(allowed(one.seconds) for one in left),
            lambda answer: heard(left, answer), next_=True,
        )

    def heard(left: Sequence[Sound], answer: Answer) -> None:
        for told in answer.told:
            if told.get("word") == REFUTATION:
                then(Verdict(bug, REFUTATION, told["claim"], told["how"]))
                return
            if told.get("word") == CRASH:
                crashes.append(Verdict(bug, CRASH, told["claim"], f"error: {told['how']}"))
        began = [told["began"] for told in answer.told if "began" in told]
        if answer.ended != "done" or (answer.told and "error" in answer.told[-1]):
            how = answer.told[-1].get("error", "") if answer.ended == "done" else ""
            where = began[-1] if began else ""
            how = f"error: {how}" if how else ending(answer.ended)
            crashes.append(Verdict(bug, CRASH, where, how))
            names = [one.claim for one in left]
            rest = left[names.index(where) + 1 :] if where else []
            if rest and _worth(rest):
                ask(rest)
                return
        then(crashes[0] if crashes else Verdict(bug))

    ask(asked)


def ending(ended: str) -> str:
    """Say how a process ended that did not come to its end."""
    return "timeout: it took more than its time" if ended == "timeout" else f"killed: {ended}"


def _worth(left: Sequence[Sound]) -> bool:
    """Tell whether the next claim is cheap enough to be asked though another has crashed."""
    return left[0].seconds <= AFTER_CRASH


def _check(
    ground: Ground, bug: Bug, left: Sequence[Sound], crashed: bool, report: Report
) -> None:
    """Check claims until one refutes; in a child."""
    limit_cpu(IMPORT)
    claims = claims_of(ground, bug)
    spent = 0.0
    for one in left:
        if crashed and (spent := spent + one.seconds) > AFTER_CRASH:
            break
        report({"began": one.claim})
        limit_cpu(allowed(one.seconds))
        finding = checked(claims[one.claim])
        limit_cpu(0)
        word, how = word_of(finding)
        report({"claim": one.claim, "word": word, "how": how})
        if word == REFUTATION:
            break
        crashed = crashed or word == CRASH


def word_of(finding: Finding) -> tuple[str, str]:
    """Say how a finding notices a bug, and what it says; nothing, where it passes.

    What refutes goes before what raises: a claim that raises under a control, and whose measure
    does not hold either, has said more than that something is wrong.
    """
    refuting = [
        *(("" if one.verdict == "refuted" else f"{one.verdict}: ") + one.summary
          for one in finding.measures if one.verdict in ("refuted", "undecided")),
        *(f"a control {one.verdict if one.verdict == 'holds' else 'is undecided'}: {one.summary}"
          for one in finding.controls if one.verdict in ("holds", "undecided")),
        *(f"a control spares {name}: {part.summary}" for one in finding.controls
          if one.verdict == "refuted" for name, part in one.spared),
    ]
    raising = [one.summary for one in (*finding.measures, *finding.controls)
               if one.verdict == "error"]
    if finding.passed:
        return "", ""
    if refuting:
        return REFUTATION, refuting[0][:MOST]
    return CRASH, (raising or ["it measures nothing"])[0][:MOST]

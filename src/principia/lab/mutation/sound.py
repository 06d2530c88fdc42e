r"""What the claims of a page do without a bug: whether they hold, what they cost, where they go."""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, final

from principia.lab.mutation.children import Answer, Pool, Report, limit_cpu
from principia.lab.mutation.planting import Ground, planted
from principia.lab.params import UsageError

if TYPE_CHECKING:
    from principia.lab.evidence.claims import Claim, Finding
    from principia.lab.mutation.places import Bug

__all__ = ["Sound", "checked", "claims_of", "measure"]

PATIENCE = 3600.0  # CPU seconds for a claim that nobody has measured


@final
@dataclass(frozen=True)
class Sound:
    """A claim without a bug: its CPU time, and the lines that it runs, by module."""

    claim: str
    seconds: float
    lines: dict[str, frozenset[int]]

    def reaches(self, bug: Bug) -> bool:
        """Tell whether it runs a statement of the lines of a bug."""
        if bug.reach is None:
            return True
        first, last = bug.reach
        return any(first <= line <= last for line in self.lines.get(bug.module, ()))


def measure(
    ground: Ground, pool: Pool, then: Callable[[list[Sound]], None],
    advance: Callable[[str], None],
) -> None:
    """Measure every claim of a page twice: its time, and the lines to which it leads.

    Args:
        ground: The page.
        pool: Runs it.
        then: Takes what was found, the cheapest first.
        advance: Is called after each half.
    """
    times: dict[str, float] = {}
    lines: dict[str, dict[str, frozenset[int]]] = {}
    names = ground.page.claim_names

    def timed(name: str, answer: Answer) -> None:
        found = answer.told[-1] if answer.told else {}
        if answer.ended != "done" or found.get("complaint", "") or "seconds" not in found:
            said = found.get("complaint") or found.get("error") or f"its process ended: {answer.ended}"
            raise UsageError(
                f"mutate: {ground.page.key}:{name} does not hold without any bug; {said}. "
                f"Mend it first: principia check {ground.page.key}:{name}."
            )
        times[name] = found["seconds"]
        finish()

    def traced(name: str, answer: Answer) -> None:
        found = answer.told[-1] if answer.told else {}
        everywhere = {module: frozenset(range(source.count(b"\n") + 2))
                      for module, source in ground.sources.items()}
        told = found.get("lines")  # without an answer, it may lead anywhere
        lines[name] = {module: frozenset(some) for module, some in told.items()} if (
            told is not None) else everywhere
        finish()

    def finish() -> None:
        advance(ground.page.key)
        if len(times) == len(lines) == len(names):
            found = [Sound(name, times[name], lines[name]) for name in names]
            then(sorted(found, key=lambda one: one.seconds))

    for name in names:
        pool.submit(lambda report, name=name: _time(ground, name, report), PATIENCE,
                    lambda answer, name=name: timed(name, answer))
        pool.submit(lambda report, name=name: _trace(ground, name, report), PATIENCE,
                    lambda answer, name=name: traced(name, answer))


def claims_of(ground: Ground, bug: Bug | None) -> dict[str, Claim]:
    """Let a bug stand in for the page, and give the claims that run it."""
    planted(ground, bug)
    return ground.page.claims()


def checked(claim: Claim) -> Finding:
    """Check a claim on seed 0, from the same state of the global generators."""
    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    return claim.check([0])


def _time(ground: Ground, name: str, report: Report) -> None:
    limit_cpu(PATIENCE)
    claim = claims_of(ground, None)[name]
    began = time.process_time()
    finding = checked(claim)
    complaint = "" if finding.passed else "; ".join(finding.complaints)[:500] or "it does not pass"
    report({"seconds": time.process_time() - began, "complaint": complaint})


def _trace(ground: Ground, name: str, report: Report) -> None:
    limit_cpu(PATIENCE)
    claim = claims_of(ground, None)[name]
    modules = {str(path): module for module, path in ground.paths.items()}
    with _watching(frozenset(modules)) as seen:
        checked(claim)
    lines: dict[str, list[int]] = {module: [] for module in modules.values()}
    for code, some in seen.items():
        lines[modules[code.co_filename]] += some
    report({"lines": lines})


@contextlib.contextmanager
def _watching(files: frozenset[str]) -> Iterator[dict[CodeType, set[int]]]:
    """Note which lines of some files run; a function of which all are known costs nothing more."""
    seen: dict[CodeType, set[int]] = {}
    all_of: dict[CodeType, set[int]] = {}

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in files:
            return None
        if code not in seen:
            seen[code] = {code.co_firstlineno}
            all_of[code] = {line for *_, line in code.co_lines() if line is not None}
        return None if seen[code] >= all_of[code] else stepped

    def stepped(frame: FrameType, event: str, argument: Any) -> Any:
        seen[frame.f_code].add(frame.f_lineno)
        return stepped

    sys.settrace(entered)
    try:
        yield seen
    finally:
        sys.settrace(None)

r"""What the claims of a page do without a bug: whether they hold, what they cost, where they go.

Before they are measured they are run once to learn which modules they import on their way: these
are then imported here, so that no child does it again.
"""

from __future__ import annotations

import contextlib
import importlib
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, final

from principia.lab.mutation.children import Answer, Pool, Report, limit_cpu
from principia.lab.mutation.planting import Ground, planted
from principia.lab.params import UsageError

if TYPE_CHECKING:
    from principia.lab.evidence.claims import Claim, Finding
    from principia.lab.mutation.places import Bug

__all__ = ["Sound", "allowed", "bring", "brought", "checked", "claims_of", "measure", "prepare"]

PATIENCE = 3600.0  # CPU seconds for a claim that nobody has measured
TIMES, MORE = 5.0, 2.0  # with a bug it has so many times what it took, and so many seconds


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


def prepare(ground: Ground, pool: Pool, advance: Callable[[str], None]) -> None:
    """Import what the claims of a page import while they run; `advance` is called after each."""
    wanted: dict[str, None] = {}

    def heard(answer: Answer) -> None:
        for told in answer.told:
            wanted.update(dict.fromkeys(told.get("imported", ())))
        advance(ground.page.key)

    for name in ground.page.claim_names:
        pool.submit(lambda report, name=name: _scout(ground, name, report), PATIENCE, heard)
    pool.run()
    bring(wanted)


def bring(modules: Iterable[str]) -> None:
    """Import modules, so that children have them."""
    for module in modules:
        with contextlib.suppress(Exception):  # one that only its importer knows how to make
            importlib.import_module(module)


def brought(before: Set[str]) -> dict[str, str]:
    """Name the modules that this process has imported since, each with its file."""
    specs = {name: getattr(module, "__spec__", None) for name, module in list(sys.modules.items())
             if name not in before}
    return {name: str(spec.origin) for name, spec in specs.items()
            if spec is not None and spec.name == name and spec.has_location}


def _scout(ground: Ground, name: str, report: Report) -> None:
    limit_cpu(PATIENCE)
    claim = ground.page.claims()[name]
    before = set(sys.modules)
    checked(claim)
    report({"imported": [*brought(before)]})


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
            said = found.get("complaint") or found.get("error")
            said = said or f"its process ended: {answer.ended}"
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


def allowed(seconds: float) -> float:
    """Give the CPU time that something has with a bug, from what it took without one."""
    return TIMES * seconds + MORE


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

    threading.settrace(entered)
    sys.settrace(entered)
    try:
        yield seen
        if sys.gettrace() is not entered:
            raise RuntimeError("somebody else watches lines")  # so that it may lead anywhere
    finally:
        sys.settrace(None)

"""What runs inside a worker: plain functions with plain arguments that give plain data."""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from principia.lab.course import catalog
from principia.lab.course.fingerprint import loaded, note, of_claims, of_run
from principia.lab.evidence.kept import remember
from principia.lab.params import Knob, SeedNumber, domain_of, usage_error
from principia.lab.web.processes.failures import lacks_memory

if TYPE_CHECKING:
    from principia.lab.evidence.claims import Claim, Observation
    from principia.lab.runs.experiments import Advance
    from principia.lab.web.processes.child_main import Tell

__all__ = ["check", "do_run", "hero", "measure", "shown"]


def measure(page_key: str, claim_name: str, seed: Any, knobs: Any) -> dict[str, Any]:
    """Measure a claim once, with knobs as they come from JSON."""
    claim, code = _claim(page_key, claim_name)
    if not isinstance(knobs, dict):
        raise usage_error(claim.key, "knobs", "an object of knobs and values", knobs)
    return _seen(claim.observe(_seed(claim, seed), knobs, turned=bool(knobs)), code)


def check(page_key: str, claim_name: str, seed: Any) -> dict[str, Any]:
    """Measure a claim and its controls as they stand, and keep what was found for `show`."""
    claim, code = _claim(page_key, claim_name)
    finding = replace(claim.check([_seed(claim, seed)]), code=code)
    seen = {  # first, because it refuses what only the limits have spoiled
        "finding": finding.to_json(),
        "measure": _seen(finding.measures[0], code),
        "controls": [_seen(one, code) for one in finding.controls],
    }
    with contextlib.suppress(OSError):  # a cache that cannot be written is no fault of the claim
        remember(finding)
    return seen


def _seen(observation: "Observation", code: str) -> dict[str, Any]:
    """Give an observation with its figure and with the code that this process measured."""
    return {**shown(observation), "code": code}


def shown(observation: "Observation") -> dict[str, Any]:
    """Give an observation with its figure."""
    if observation.evidence is None and lacks_memory(observation.error):
        raise MemoryError  # a fault of the limits, which the claim took for one of its own
    figure = None
    if observation.evidence is not None:
        from principia.lab.figures import drawn, observation_picture

        figure = drawn(observation_picture(observation))
    return {
        "observation": observation.to_json(),
        "summary": observation.summary,
        "figure": figure,
    }


def hero(page_key: str, seed: Any, knobs: Any, recorded: bool) -> dict[str, Any]:
    """Draw the hero of a page, once or for every value of the knob that moves it."""
    from principia.lab.figures import drawn

    page = catalog.page(page_key, "hero")
    note(page)
    one = page.hero()
    picture = one.recording(seed, **knobs) if recorded else one.picture(seed, **knobs)
    return {"figure": drawn(picture), "code": of_run(page, loaded())}


def do_run(tell: "Tell", runs_dir: str, name: str) -> dict[str, Any]:
    """Run what a run folder asks, or go on with it; the folder itself has the numbers.

    Args:
        tell: Gets `{"say": text}` and `{"progress": {"what", "done", "total"}}`.
        runs_dir: Folder of the run folders.
        name: Name of the run.
    """
    from principia.lab.runs.execution import execute
    from principia.lab.runs.folders import find_run

    @contextmanager
    def watch(total: int, what: str) -> "Iterator[Advance]":
        done = 0

        def advance(text: str, by: int = 1) -> None:
            nonlocal done
            done += by
            words = f"{what} {text}".strip()
            tell({"progress": {"what": words, "done": done, "total": total}})

        advance("", 0)
        yield advance

    def say(text: str) -> None:
        tell({"say": text}, always=True)

    folder = find_run(Path(runs_dir), name, "run")
    outcome = execute(folder, say=say, watch=watch)
    return {**outcome.to_json(), "missed": list(outcome.missed)}


def _claim(page_key: str, claim_name: str) -> "tuple[Claim, str]":
    """Find a claim, and the fingerprint of its code."""
    page = catalog.page(page_key, "check")
    catalog.select([f"{page.key}:{claim_name or ' '}"], "check")  # which refuses an unknown one
    note(page)
    return page.claim(claim_name), of_claims(page, loaded())


def _seed(claim: "Claim", seed: Any) -> int:
    domain = domain_of(SeedNumber)
    assert domain is not None  # noqa: S101
    return Knob("seed", domain).accept(claim.key, seed)

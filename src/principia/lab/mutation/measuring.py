r"""Measuring: gives pages to a foreman, a fresh process, and makes rows of what it answers.

This module imports no torch, so that the command line starts at once.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from principia.lab.course import catalog
from principia.lab.course.catalog import Page
from principia.lab.course.fingerprint import Sources
from principia.lab.environment import cores, environment
from principia.lab.mutation.hunt import CRASH, REFUTATION, TESTS
from principia.lab.mutation.scores import Row, code_of
from principia.lab.params import Failure, UsageError, suggestion, usage_error

__all__ = ["measured", "pages"]

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def pages(keys: Sequence[str], *, everything: bool = False) -> list[Page]:
    """Find the pages that keys name: a chapter, or a page."""
    if everything == bool(keys):
        raise UsageError(
            "mutate: name a chapter or a page, or give --all. "
            "Try principia mutate connectionism/hopfield."
        )
    chapters = {chapter.name: chapter for chapter in catalog.chapters()}
    known = {page.key: page for chapter in chapters.values() for page in chapter.pages}
    found: dict[str, Page] = {}
    for key in known if everything else keys:
        if key not in known and key not in chapters:
            hint = suggestion(key, [*chapters, *known])
            raise usage_error("mutate", "KEY", "a chapter or a page", key, hint)
        chosen = [known[key]] if key in known else chapters[key].pages
        # a chapter may have pages that state nothing yet; who names one is told
        found |= {one.key: one for one in chosen if one.claim_names or key in known}
    for one in found.values():
        if not one.path.is_file():
            raise UsageError(
                f"mutate: {one.key} has no source, which bugs are planted in. Install its chapter "
                "with it."
            )
        if not one.claim_names and not everything:
            raise UsageError(f"mutate: {one.key} has no claims. Bugs would find nobody.")
    if not found:
        raise UsageError(f"mutate: {', '.join(keys)} has no claims. See principia ls.")
    return [one for one in found.values() if one.claim_names]


def measured(
    chosen: Sequence[Page], *, bugs: int = 40, seed: int = 0, tests: bool = False,
    jobs: int | None = None, advance: Callable[[int], None] = lambda steps: None,
) -> Generator[tuple[Page, Row | str], None, None]:
    """Yield each page with its row, or with the sentence that says why it has none.

    Args:
        chosen: The pages.
        bugs: How many bugs to plant in each.
        seed: Which ones.
        tests: Whether the tests look for what no claim notices.
        jobs: Number of processes; by default one a core.
        advance: Is called with the number of steps that are done; a page has three for each claim
            and one for each bug, two with tests, done at once where nothing is to do.
    """
    sources = Sources()
    codes = {page.key: code_of(page, sources) for page in chosen}  # before they are imported
    order = {"pages": [*codes], "bugs": bugs, "seed": seed, "tests": tests, "jobs": jobs or cores()}
    known = {page.key: page for page in chosen}
    for told in _told(order):
        if "skipped" in told:
            advance(told["skipped"])
        elif "done" in told:
            advance(1)
        elif "refused" in told:
            yield known[told["page"]], told["refused"]
        elif "verdicts" in told:
            page = known[told["page"]]
            same = code_of(page, Sources()) == codes[page.key]
            yield page, {
                **_counted(told["verdicts"]),
                "possible": told["possible"], "seed": seed, "with_tests": tests,
                "seconds": told["seconds"], "verdicts": told["verdicts"],
                "code": codes[page.key] if same else "",  # it was edited while it was measured
                "measured": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
                "environment": environment(),
            }


def _counted(verdicts: Sequence[dict[str, Any]]) -> dict[str, int]:
    count = {word: sum(one["by"] == word for one in verdicts)
             for word in (REFUTATION, CRASH, TESTS)}
    return {"bugs": len(verdicts), **count}


def _told(order: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Start a foreman and read what it tells, until it has done its order."""
    environ = {**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONHASHSEED": "0"}
    foreman = subprocess.Popen(
        [sys.executable, "-m", "principia.lab.mutation.foreman"], env=environ, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
    )
    assert foreman.stdin is not None  # noqa: S101 - for the type checker
    assert foreman.stdout is not None  # noqa: S101
    try:
        foreman.stdin.write(json.dumps(order) + "\n")
        foreman.stdin.close()
        for line in foreman.stdout:
            yield json.loads(line)
        if (code := foreman.wait()) < 0:
            raise Failure(
                "mutate: the process that plants the bugs was killed, probably for want of "
                "memory. Try --jobs 1."
            )
        if code:
            raise Failure("mutate: the process that plants the bugs has failed, as it says above.")
    finally:
        foreman.stdout.close()
        foreman.terminate()  # it takes its children with it
        foreman.wait()

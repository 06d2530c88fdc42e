r"""The foreman: a fresh process of one thread that loads pages once and forks a child for each bug.

It takes its order as one line of JSON, and answers in lines of JSON as it goes.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from principia.lab.course import catalog
from principia.lab.environment import use_threads
from principia.lab.mutation import hunt, sound
from principia.lab.mutation.children import Pool
from principia.lab.mutation.choosing import chosen
from principia.lab.mutation.planting import Ground, possible
from principia.lab.mutation.suite import ask_tests
from principia.lab.params import UsageError

if TYPE_CHECKING:
    from principia.lab.course.catalog import Page
    from principia.lab.mutation.hunt import Verdict

__all__ = ["main", "verdicts"]

Told = Callable[[Mapping[str, Any]], None]


def main() -> None:
    """Take the order, do it, and answer."""
    order = json.loads(sys.stdin.readline())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what an import prints is no answer

    def told(plain: Mapping[str, Any]) -> None:
        answers.write(json.dumps(plain) + "\n")
        answers.flush()

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the business of who gave the order
    signal.signal(signal.SIGTERM, _end)
    use_threads(1)
    for key in order["pages"]:
        try:
            told({"page": key, **verdicts(
                catalog.page(key), order["bugs"], order["seed"], order["jobs"], told,
                tests=order["tests"],
            )})
        except UsageError as error:
            told({"page": key, "refused": str(error)})
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # all is told: let it end as programs do


def _end(*_: Any) -> None:
    """End, and let no child stay behind; who cannot wait is not heard twice."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def verdicts(
    page: Page, number: int, seed: int, jobs: int, told: Told, *, tests: bool = False
) -> dict[str, Any]:
    """Plant bugs in a page, and say what became of each.

    Args:
        page: The page.
        number: How many bugs.
        seed: Which ones.
        jobs: How many processes at a time.
        told: Is told how far it is.
        tests: Whether the tests look for what no claim notices.
    """
    _load(page)
    before = os.times()
    pool = Pool(jobs)
    sound.prepare(Ground.of(page), pool, lambda _: told({"done": page.key}))
    ground = Ground.of(page)  # again, because claims may import other pages on their way
    bugs = possible(page)
    planted = chosen(bugs, ground.sources, number, seed, page.key)
    told({"skipped": number - len(planted)})
    gc.collect()
    gc.freeze()  # so that a child does not write on what it shares
    claims: list[sound.Sound] = []
    sound.measure(ground, pool, claims.extend, lambda _: told({"done": page.key}))
    pool.run()
    found: dict[int, Verdict] = {}

    def keep(place: int, verdict: Verdict) -> None:
        found[place] = verdict
        told({"done": page.key})

    for place, bug in enumerate(planted):
        hunt.hunt(ground, bug, claims, pool, lambda one, place=place: keep(place, one))
    pool.run()
    if tests:
        ask_tests(ground, found, pool, told)
    after = os.times()
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    return {
        "possible": len(bugs), "seconds": round(spent, 1),
        "verdicts": [found[place].to_json() for place in range(len(planted))],
    }


def _load(page: Page) -> None:
    """Import a page with its claims, and what a child would else import anew each time."""
    try:
        page.claims()
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"mutate: {page.key} cannot be imported: {said}.") from error


if __name__ == "__main__":
    main()

r"""The fingerprint of code: one notion of "the same code", for all that was ever measured with it.

A fingerprint is the hash of the sources of some modules and of all modules of the course, the lab
and third parties' chapters that these import, as `imports` finds them: of every byte, so that a
comment counts, too. What a question is about decides where it begins:

    evidence of a claim     the page and its claims
    a run, a ledger row     the page, its experiments, the training, the pages whose callbacks are
                            added; with a table of one's own, what reads it
    a race                  its file in `benchmarks/` and the clock; a file that times commands
                            also the command line and the whole course

So a claim is measured again when a component, its claims or what they compute with has changed,
not when an experiment or the server has. The version of Principia is no part of it, nor are those
of packages: they stand beside it, in the environment.

Whoever shows something compares it with the sources as they are now. Whoever measures notes them
before they are imported (`loaded`), because that is what will run, whatever is written since.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from principia.lab.course import catalog
from principia.lab.course.imports import Sources
from principia.lab.course.rooms import room_module

if TYPE_CHECKING:
    from principia.lab.course.catalog import Page

__all__ = [
    "EARLIER", "SHOWING", "Sources", "fingerprint", "loaded", "note", "of_claims", "of_race",
    "of_run", "roots_of_claims", "roots_of_run",
]

EARLIER = "measured on an earlier version"  # what is said of all that has another fingerprint
TRAINING = ("principia.lab.training.loop", "principia.lab.training.learners")
OWN_DATA = ("principia.lab.data.own",)
CLOCK = ("principia.lab.racing.clock",)
COMMANDS = ("principia.lab.cli.app",)
STORY = "principia"  # its own file holds the story of the course and the version
SHOWING = frozenset({"principia.lab.notebooks"})  # who only shows what others have measured


def fingerprint(modules: Iterable[str], sources: Sources | None = None) -> str:
    """Hash the sources of modules and of all that they import.

    Args:
        modules: Where to begin.
        sources: The look at the sources to take; by default a new one.

    Example:
        >>> one, other = (fingerprint([f"principia.connectionism.{name}"])
        ...               for name in ("hopfield", "margin"))
        >>> len(one), one == other
        (64, False)
    """
    sources = sources or Sources()
    digest = hashlib.sha256()
    for module in sorted(sources.needed(modules, SHOWING) - {STORY}):
        digest.update(f"{module} {sources.sha256(module)}\n".encode())
    return digest.hexdigest()


def of_claims(page: Page, sources: Sources | None = None) -> str:
    """Give the fingerprint of what a page's claims measure."""
    return fingerprint(roots_of_claims(page), sources)


def of_run(page: Page, sources: Sources | None = None) -> str:
    """Give the fingerprint of what a page's experiments run, without callbacks added to them."""
    return fingerprint(roots_of_run(page), sources)


def roots_of_claims(page: Page) -> list[str]:
    """Name the modules where the fingerprint of a page's claims begins."""
    return [page.module, room_module(page.module, "claims")]


def roots_of_run(page: Page, added: Iterable[str] = (), *, own_data: bool = False) -> list[str]:
    """Name the modules where the fingerprint of a run begins.

    Args:
        page: The page that runs.
        added: The modules of the callbacks that are added to its training.
        own_data: Whether it learns from a table that the user names.
    """
    rooms = [page.module, room_module(page.module, "experiments")]
    return [*rooms, *TRAINING, *added, *(OWN_DATA if own_data else ())]


def of_race(file: Path, sources: Sources | None = None) -> str:
    """Give the fingerprint of the races in a file."""
    file = file.resolve()
    package = file.parent.name
    sources = sources or Sources({package: file.parent})
    race = f"{package}.{file.stem}"
    roots = [race, *CLOCK]
    if "command" in sources.names_taken(race):  # which may run anything
        roots += [*COMMANDS, *_course()]
    return fingerprint(roots, sources)


def _course() -> list[str]:
    pages = [page for chapter in catalog.chapters() for page in chapter.pages]
    return [module for page in pages for module in page.modules]


@functools.cache
def loaded() -> Sources:
    """Give the look at the sources that this process took before it imported them."""
    return Sources()


def note(*pages: Page) -> None:
    """Look at all that pages need before they are imported, so that `loaded` knows what runs."""
    loaded().needed([*TRAINING, *(module for page in pages for module in page.modules)])

r"""Equivalents: bugs that are none, because the page does the same with them.

Each chapter lists its own in `equivalents.json`, with the reason. An entry names a function and the
text of the line before and after, so that it stays true when the line moves; one that matches no
bug any more is told.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from principia.lab.mutation.places import Bug
from principia.lab.params import UsageError

if TYPE_CHECKING:
    from principia.lab.course.catalog import Page

__all__ = ["NAME", "Equivalent", "equivalents", "outdated"]

NAME = "equivalents.json"


@final
@dataclass(frozen=True)
class Equivalent:
    """One bug that is none."""

    page: str  # its name in the chapter
    function: str  # nothing, where it stands outside of all functions
    line: str
    becomes: str
    reason: str

    @property
    def known_by(self) -> tuple[str, str, str]:
        """What a bug is known by, too."""
        return self.function, self.line, self.becomes


def equivalents(page: Page) -> dict[tuple[str, str, str], Equivalent]:
    """Read what a chapter lists of a page."""
    file = page.path.with_name(NAME)
    found = [one for one in _read(file) if one.page == page.name]
    return {one.known_by: one for one in found}


def outdated(page: Page, bugs: Iterable[Bug]) -> list[Equivalent]:
    """List entries of a page that match none of the bugs that can be planted in it."""
    known = {bug.known_by for bug in bugs}
    return [one for key, one in equivalents(page).items() if key not in known]


def _read(file: Path) -> list[Equivalent]:
    if not file.is_file():
        return []
    try:
        listed: list[Any] = json.loads(file.read_bytes())["equivalents"]
        found = [Equivalent(**one) for one in listed]
        for one in found:
            empty = [name for name, text in asdict(one).items()
                     if not isinstance(text, str) or not (text.strip() or name == "function")]
            if empty:
                raise ValueError(f"{one.page} {one.line!r} lacks {', '.join(empty)}")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(
            f"mutate: {file} must list bugs by page, function, line, becomes and reason; got "
            f"{error}. Mend it."
        ) from error
    return found

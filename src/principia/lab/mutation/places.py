r"""Places: the exact positions in a source where it can be changed, and a bug as such a change.

A bug replaces the text between two positions, so that what is shown is what runs.
"""

from __future__ import annotations

import ast
import re
from dataclasses import asdict, dataclass
from typing import Any, final

__all__ = ["Bug", "Change", "Script"]

COMMENT = re.compile(rb"#[^\n]*")


@final
@dataclass(frozen=True)
class Change:
    """Another text for what stands between two bytes of a source; `kind` names the operator."""

    kind: str
    start: int
    end: int
    new: str


@final
@dataclass(frozen=True)
class Bug:
    """A change with all that is said of it.

    `text` and `becomes` are its line, or lines, before and after on one line; `reach` are the lines
    of its statement, one of which runs when it does: none, where it runs on import.
    """

    module: str
    function: str
    kind: str
    line: int
    old: str
    new: str
    text: str
    becomes: str
    start: int
    end: int
    reach: tuple[int, int] | None

    @property
    def known_by(self) -> tuple[str, str, str]:
        """What tells it from others, wherever its line has moved."""
        return self.function, self.text, self.becomes

    def planted(self, source: bytes) -> bytes:
        """Give the source with this bug."""
        return source[: self.start] + self.new.encode() + source[self.end :]

    def to_json(self) -> dict[str, Any]:
        """Give what is said of it as plain data."""
        plain = asdict(self)
        return {name: plain[name] for name in SAID}


SAID = ("module", "function", "kind", "line", "old", "new", "text", "becomes")


@final
class Script:
    """A source with its syntax tree, where nodes have positions in bytes."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.tree = ast.parse(source)
        self._lines = [0, *(place.end() for place in re.finditer(rb"\r\n|\r|\n", source))]

    def start(self, node: Any) -> int:
        """Name the byte where a node begins."""
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: Any) -> int:
        """Name the byte behind a node."""
        return self._lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: Any) -> str:
        """Give the text of a node."""
        return self.between(self.start(node), self.end(node))

    def between(self, start: int, end: int) -> str:
        """Give the text between two bytes."""
        return self.source[start:end].decode()

    def sign(self, before: Any, behind: Any, sign: str) -> tuple[int, int]:
        """Find an operator between two nodes, where nothing but brackets and comments stands.

        Args:
            before: The node before it; or the byte, where the search begins.
            behind: The node behind it.
            sign: The operator.
        """
        start = before if isinstance(before, int) else self.end(before)
        gap = self.source[start : self.start(behind)]
        gap = COMMENT.sub(lambda one: b" " * len(one[0]), gap)
        words = rb"\s+".join(map(re.escape, sign.encode().split()))  # `not in` may have a break
        found = re.search(words, gap)
        if found is None:
            raise ValueError(f"no {sign!r} between {start} and {self.start(behind)}")
        return start + found.start(), start + found.end()

    def bug(
        self, change: Change, module: str, function: str, reach: tuple[int, int] | None
    ) -> Bug:
        """Say everything of a change."""
        first = self.source.rfind(b"\n", 0, change.start) + 1
        last = self.source.find(b"\n", change.end)
        last = len(self.source) if last < 0 else last
        head, tail = self.between(first, change.start), self.between(change.end, last)
        old = self.between(change.start, change.end)
        return Bug(
            module, function, change.kind, self.source.count(b"\n", 0, change.start) + 1,
            _one_line(old), _one_line(change.new), _one_line(head + old + tail),
            _one_line(head + change.new + tail), change.start, change.end, reach,
        )


def _one_line(text: str) -> str:
    return " ".join(text.split())

"""Follows a run for one listener: tells what is new since the listener was last served.

Each listener has its own place in the file of numbers. So there is nothing to store up for one that
reads slowly, nothing to tidy up after one that vanishes, and nothing is lost or sent twice to one
that comes back: its place is in the last event that it got.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, final

from principia.lab.runs.folders import RunFolder

__all__ = ["Event", "Seen", "Tail", "curves_of", "figure_paths", "follow", "thinned"]

LOOKS = 0.25  # seconds between two looks into the folder
HEARTBEAT = 10.0  # seconds after which a silent stream shows that it lives
CHUNK = 256 * 1024  # bytes read at a time
CHECKED = 64  # bytes before the place that tell whether the file is still the same
MOST_ROWS = 2000  # of a training; a screen has no more points
Item = TypeVar("Item")


class Event(NamedTuple):
    """A server-sent event; without a kind it is a sign of life that no listener notices."""

    kind: str = ""
    data: Any = None
    id: str = ""

    def encode(self) -> bytes:
        """Write it as it crosses the wire."""
        if not self.kind:
            return b": still here\n\n"
        mark = f"id: {self.id}\n" if self.id else ""
        body = json.dumps(self.data, allow_nan=False)
        return f"event: {self.kind}\n{mark}data: {body}\n\n".encode()


@final
@dataclass
class Tail:
    """A place in a file of numbers, behind the rows that were read already."""

    path: Path
    position: int = 0
    count: int = 0
    check: int = 0

    @classmethod
    def at(cls, path: Path, mark: str) -> Tail:
        """Go to the place of a mark; anything else means the beginning."""
        if not re.fullmatch(r"[0-9]{1,15}\.[0-9]{1,15}\.[0-9a-f]{1,8}", mark):
            return cls(path)
        position, count, check = mark.split(".")
        return cls(path, int(position), int(count), int(check, 16))

    @property
    def mark(self) -> str:
        """The place as a word."""
        return f"{self.position}.{self.count}.{self.check:x}"

    def read(self) -> tuple[bool, list[dict[str, Any]], bool]:
        """Read on: whether the file began anew, the rows that are new, and whether there is more.

        A line that is not whole yet waits. A run that is resumed writes its file anew; what stands
        before the place tells whether it is another one.
        """
        known, new = self._bytes()
        anew = zlib.crc32(known) != self.check or len(known) < min(self.position, CHECKED)
        if anew:
            self.position = self.count = self.check = 0
            known, new = self._bytes()
        whole = new[: new.rfind(b"\n") + 1]
        rows = [row for line in whole.split(b"\n") if (row := _row(line)) is not None]
        if whole:
            self.check = zlib.crc32((known + whole)[-CHECKED:])
            self.position += len(whole)
            self.count += len(rows)
        return anew, rows, bool(whole) and len(new) == CHUNK

    def _bytes(self) -> tuple[bytes, bytes]:
        before = min(self.position, CHECKED)
        try:
            with self.path.open("rb") as stream:
                stream.seek(self.position - before)
                found = stream.read(before + CHUNK)
        except OSError:  # it has logged nothing yet
            return b"", b""
        return found[:before], found[before:]


def _row(line: bytes) -> dict[str, Any] | None:
    """Read a line of numbers, as JSON that a browser takes; None if it is something else."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or not isinstance(row.get("training"), str):
        return None
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, (int, float)) and not math.isfinite(value):
        return None  # NaN is no JSON
    return value if isinstance(value, (int, float, str)) else None


def curves_of(folder: RunFolder) -> dict[str, list[dict[str, Any]]]:
    """Read the numbers of each training of a run folder, also while it is written."""
    tail, more = Tail(folder.metrics_file), True
    found: dict[str, list[dict[str, Any]]] = {}
    while more:
        _, rows, more = tail.read()
        for row in rows:
            found.setdefault(row.pop("training"), []).append(row)
    return {training: thinned(rows) for training, rows in found.items()}


def thinned(rows: Sequence[Item], most: int = MOST_ROWS) -> list[Item]:
    """Keep at most so many, evenly spread, with the first and the last.

    Example:
        >>> thinned(range(9), 3)
        [0, 4, 8]
    """
    if len(rows) <= most:
        return list(rows)
    return [rows[place * (len(rows) - 1) // (most - 1)] for place in range(most)]


def figure_paths(folder: RunFolder) -> dict[str, Path]:
    """Find the figures of a run folder by name, oldest first."""
    try:
        found = [(one.stat().st_mtime_ns, one.stem, one) for one in folder.figure_files()]
    except OSError:
        return {}
    return {name: one for _, name, one in sorted(found) if not name.startswith(".")}


class Seen(NamedTuple):
    """How a run stands: its state, what it said so far (from which line on), and if it is over."""

    state: dict[str, Any]
    said: Sequence[str] = ()
    said_from: int = 0
    over: bool = False


async def follow(
    folder: RunFolder, look: Callable[[], Awaitable[Seen]], mark: str
) -> AsyncGenerator[Event, None]:
    """Tell what happens in a run folder until the run is over.

    Args:
        folder: The run folder.
        look: Asks how the run stands.
        mark: The id of the last event that the listener got, or nothing.
    """
    tail, state = Tail.at(folder.metrics_file, mark), {}
    drawn: dict[str, int] = {}
    said, told = 0, time.monotonic()
    while True:
        seen = await look()  # before the files: what is written up to the end is told, too
        news = [Event("state", seen.state)] if seen.state != state else []
        state = seen.state
        if seen.said_from + len(seen.said) < said:
            said = 0  # it was resumed
        for place, text in enumerate(seen.said, seen.said_from):
            if place >= said:
                news.append(Event("say", {"at": place, "text": text}))
                said = place + 1
        more = True
        while more:
            first = tail.count
            anew, rows, more = await asyncio.to_thread(tail.read)
            if anew:
                first = 0
                news.append(Event("restart", {}, tail.mark if not rows else "0.0.0"))
            if rows:
                news.append(Event("rows", {"from": first, "rows": rows}, tail.mark))
            for event in news:
                yield event
                told = time.monotonic()
            news = []
        stamps = await asyncio.to_thread(_stamps, folder)
        for name, stamp in stamps.items():
            if drawn.get(name) != stamp:
                yield Event("figure", {"name": name})
                told = time.monotonic()
        drawn = stamps
        if seen.over:
            yield Event("end", {})
            return
        if time.monotonic() - told >= HEARTBEAT:
            yield Event()
            told = time.monotonic()
        await asyncio.sleep(LOOKS)


def _stamps(folder: RunFolder) -> dict[str, int]:
    stamps = {}
    for name, one in figure_paths(folder).items():
        try:
            stamps[name] = one.stat().st_mtime_ns
        except OSError:  # it has just been replaced: the next look finds it
            continue
    return stamps

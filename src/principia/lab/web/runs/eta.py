"""How far a bar is, and how long the rest of it will take."""

from __future__ import annotations

import time
from typing import Any, final

__all__ = ["Eta"]

SETTLED = 0.3  # seconds in which a resumed training jumps to where it was
ENOUGH = 1.0  # seconds of work before its speed means something


@final
class Eta:
    """The present bar of a run; an experiment has one for each of its trainings and loops."""

    def __init__(self) -> None:
        self.what, self.done, self.total = "", 0, 0
        self._begun, self._first, self._last = 0.0, (0.0, 0), 0.0

    def hear(self, plain: Any, now: float | None = None) -> None:
        """Take what a worker told; what is no progress is not heard."""
        if not isinstance(plain, dict):
            return
        what, done, total = plain.get("what"), plain.get("done"), plain.get("total")
        if not (isinstance(what, str) and isinstance(done, int) and isinstance(total, int)):
            return
        if done < 0 or total <= 0:
            return
        now = time.monotonic() if now is None else now
        another = total != self.total or done < self.done
        if another or what.split(" ")[0] != self.what.split(" ")[0]:
            self._begun = now
        if now - self._begun <= SETTLED:
            self._first = now, done
        self.what, self.done, self.total, self._last = what[:200], min(done, total), total, now

    @property
    def seconds_left(self) -> int | None:
        """How long this bar will still take, as fast as it was so far."""
        since, before = self._first
        worked, made = self._last - since, self.done - before
        if worked < ENOUGH or made <= 0:
            return None
        return round((self.total - self.done) * worked / made)

    def to_json(self) -> dict[str, Any] | None:
        """Give it as plain data, with words for people; None before the first bar."""
        if not self.total:
            return None
        left = self.seconds_left
        words = f"{self.what}: {self.done:,} of {self.total:,}"
        return {
            "what": self.what, "done": self.done, "total": self.total,
            "fraction": round(self.done / self.total, 4), "seconds_left": left,
            "words": words if left is None else f"{words}, {_duration(left)} left",
        }


def _duration(seconds: int) -> str:
    """Say how long in words, no more exactly than it is known.

    Example:
        >>> _duration(8), _duration(200), _duration(8000)
        ('8 s', 'about 3 min', 'about 2.2 h')
    """
    if seconds < 60:
        return f"{max(1, seconds)} s"
    return f"about {seconds / 60:.0f} min" if seconds < 3600 else f"about {seconds / 3600:.1f} h"

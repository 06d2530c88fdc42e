"""Commands that race as whole processes, and the memory that they need."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from principia.lab.params import Failure

__all__ = ["command", "watched_commands"]

_watched: list[int] | None = None  # bytes that commands needed, while somebody asks


def command(*words: str, **variables: str) -> str:
    """Run a command of this Python to its end and give what it printed; a race may time it.

    Args:
        words: What follows `python`.
        variables: Of the environment, beside those of this process.
    """
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, *words], stdout=said, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, **variables},
        )
        while _watched is not None and process.poll() is None:
            _watched.append(_memory_of(process.pid))
            time.sleep(0.005)
        code = process.wait()
        said.seek(0)
        text = said.read()
    if code:
        raise Failure(f"race: python {' '.join(words)} failed: {text.strip()[-300:]}")
    return text


@contextlib.contextmanager
def watched_commands() -> Iterator[list[int]]:
    """Collect, again and again, the bytes that commands and their children have; it slows them."""
    global _watched
    _watched = []
    try:
        yield _watched
    finally:
        _watched = None


def _memory_of(process: int) -> int:
    """Add up the memory of a process and its descendants; 0 where that is not known."""
    home = Path("/proc", str(process))
    try:
        pages = int((home / "statm").read_text().split()[1])
        children = (home / "task" / str(process) / "children").read_text().split()
    except (OSError, IndexError):  # it has ended, or there is no such file on this system
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(_memory_of(int(one)) for one in children)

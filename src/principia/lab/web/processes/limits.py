"""How much a process of the lab may use, so that no visitor can take the machine from the others.

The kernel holds a child to its memory and its computing time, the server to the time on the clock.
"""

import contextlib
import math
import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import final

__all__ = ["LARGEST", "LAST_WORDS", "Limits"]

LARGEST = 32 * 2**20  # bytes of one answer: a page cannot draw more
LAST_WORDS = 64 * 2**20  # bytes beyond its memory for a child to say that it has run out of it
FIRST_TO_GO = "500"  # of 1000, in the kernel's order of whom to kill
NEXT = "Turn the knobs down, or use the command line, which has no such limits."


@final
@dataclass(frozen=True)
class Limits:
    """What one child may use; infinity is no limit.

    Args:
        memory: Bytes beyond what a fresh child has.
        cpu: Seconds of computing.
        wall: Seconds from its start to its end.
    """

    memory: float
    cpu: float
    wall: float

    def impose(self) -> None:
        """Hold this process to them for the rest of its life, but for its last words."""
        _lower(resource.RLIMIT_CORE, 0, 0)  # a dump of torch would fill the disk
        with contextlib.suppress(OSError):  # if memory runs out: this one, rather than the server
            Path("/proc/self/oom_score_adj").write_text(FIRST_TO_GO)
        if math.isfinite(self.cpu):
            seconds = max(1, math.ceil(self.cpu))
            _lower(resource.RLIMIT_CPU, seconds, seconds + 1)
        own = _address_space()
        if own and math.isfinite(self.memory):
            most = own + int(self.memory)
            _lower(resource.RLIMIT_AS, most, most + LAST_WORDS)

    @staticmethod
    def make_room() -> None:
        """Let this process, which may have no memory left, say why it ends."""
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))

    @property
    def needs_memory(self) -> str:
        """Say that the memory is not enough."""
        return f"This needs more than {self.memory / 2**30:.3g} GB of memory. {NEXT}"

    @property
    def needs_computing(self) -> str:
        """Say that the computing time is not enough."""
        return f"This needs more than {self.cpu:g} s of computing. {NEXT}"

    @property
    def needs_time(self) -> str:
        """Say that the time on the clock is not enough."""
        return f"This takes longer than {self.wall:g} s. {NEXT}"


def _address_space() -> int:
    """Give the bytes that this process has mapped; 0 where the system does not tell."""
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def _lower(what: int, soft: int, hard: int) -> None:
    """Set a limit, or keep the one of the system where that is lower already."""
    highest = resource.getrlimit(what)[1]
    if highest != resource.RLIM_INFINITY:
        soft, hard = min(soft, highest), min(hard, highest)
    resource.setrlimit(what, (soft, hard))

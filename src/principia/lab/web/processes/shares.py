"""How the memory of the machine is shared, so that all limits together fit into it.

A limit that is larger than its share would only be a wish: the kernel would end somebody else's
work, or the server.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import final

from principia.lab.params import UsageError
from principia.lab.web.processes.limits import LAST_WORDS, Limits

__all__ = ["SERVER", "Share", "Shares", "machine_memory"]

GIGABYTE = 2**30
SERVER = 2 * GIGABYTE  # the server with its answers, and the forkserver with all that it has loaded
LEAST = 4 * GIGABYTE  # with less, a share would be too small to do anything in
CONTROLS = Path("/sys/fs/cgroup")


@final
@dataclass(frozen=True)
class Share:
    """What the processes of one kind may use: so many at once, so much memory each."""

    count: int
    memory: int

    @property
    def together(self) -> int:
        """The bytes of all of them."""
        return self.count * (self.memory + LAST_WORDS)


@final
@dataclass(frozen=True)
class Shares:
    """Half of the memory is for runs, a quarter for measurements, a quarter for playgrounds."""

    runs: Share
    measurements: Share
    playgrounds: Share

    @classmethod
    def of(cls, memory: int, cores: int) -> Shares:
        """Share a machine with so many bytes of memory and so many cores."""
        if memory < LEAST:
            raise UsageError(
                f"serve: the memory must be at least {LEAST / GIGABYTE:g} GB; got "
                f"{memory / GIGABYTE:.2g} GB. Use the command line, which needs less."
            )
        left = memory - SERVER
        return cls(
            # the largest data set of the course, several times
            _share(left // 2, 2, 4 * GIGABYTE, 12 * GIGABYTE),
            _share(left // 4, cores, GIGABYTE, 3 * GIGABYTE),
            # a network of 200,000 parameters with its snapshots
            _share(left // 4, 6, 3 * GIGABYTE // 4, 2 * GIGABYTE),
        )

    def measuring(self) -> Limits:
        """Give the limits of one measurement of a claim."""
        return Limits(self.measurements.memory, cpu=60, wall=90)

    def playing(self) -> Limits:
        """Give the limits of one playground: half an hour of computing is a long play."""
        return Limits(self.playgrounds.memory, cpu=30 * 60, wall=math.inf)


def _share(bytes_: int, wanted: int, least: int, most: int) -> Share:
    """Let as many processes as are wanted share, or fewer, so that each has enough."""
    count = max(1, min(wanted, bytes_ // (least + LAST_WORDS)))
    return Share(count, min(most, bytes_ // count - LAST_WORDS))


def machine_memory() -> int:
    """Give the bytes that this process may use: those of the machine, or of its control group."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for folder, file in ((CONTROLS, "memory.max"), (CONTROLS / "memory", "memory.limit_in_bytes")):
        for group in ("", *_groups()):
            try:
                found.append(int((folder / group / file).read_text()))
            except (OSError, ValueError):  # there is no such group here, or it has no limit
                continue
    return min(found)


def _groups() -> list[str]:
    """Name the control groups of this process and those above them."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    paths = [Path(line.split(":", 2)[2].lstrip("/")) for line in lines]
    return [str(one) for path in paths for one in (path, *path.parents)]

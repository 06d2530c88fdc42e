r"""Children: forked processes with limits, each of which tells what it found, line by line.

The process that forks has one thread. A child has a session of its own, so that what it starts ends
with it; it can neither read nor print; its memory, its CPU time and its time on the clock are
limited, whatever becomes of its parent; and it answers in JSON through a pipe, so that nothing that
it made is ever unpickled or run here.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

__all__ = ["GIBIBYTE", "Answer", "Pool", "limit_cpu"]

GIBIBYTE = 2**30
MOST_SAID = 2**26  # bytes that one child may answer
LOOK = 0.1  # seconds between looks at children that do not close their pipe
SOON = 0.002  # seconds after which a child that has closed it has ended
SLACK = 60.0  # seconds on the clock that a child may wait, beside what it computes
IDLE = 60.0  # seconds on the clock in which a child that is not stuck computes something

Report = Callable[[dict[str, Any]], None]


@final
@dataclass(frozen=True)
class Answer:
    """What a child told, and how it ended: `done`, `timeout`, or the signal that killed it."""

    told: list[dict[str, Any]]
    ended: str


@final
@dataclass
class _Child:
    pid: int
    pipe: int
    until: float
    then: Callable[[Answer], None]
    said: bytearray = field(default_factory=bytearray)
    late: bool = False
    computed: float | None = None  # CPU seconds at the last look
    looked: float = field(default_factory=time.monotonic)
    since: float = field(default_factory=time.monotonic)  # when it was last seen to compute


@final
class Pool:
    """Runs works in forked children, a few at a time.

    Args:
        jobs: How many at a time.
        memory: Bytes that each may take beside what it has from the start.
    """

    def __init__(self, jobs: int, memory: int = 4 * GIBIBYTE) -> None:
        self._jobs, self._memory = jobs, memory
        self._parent = os.getppid()
        self._waiting: deque[tuple[Callable[[Report], None], float, Callable]] = deque()
        self._running: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()

    def submit(
        self, work: Callable[[Report], None], seconds: float, then: Callable[[Answer], None], *,
        next_: bool = False,
    ) -> None:
        """Let a child do some work; `then` takes its answer, and may submit more.

        Args:
            work: Is called with a function that reports.
            seconds: About how much CPU time it may need; it has several times that on the clock.
            then: Takes the answer.
            next_: Whether it comes before all that wait.
        """
        add = self._waiting.appendleft if next_ else self._waiting.append
        add((work, seconds, then))

    def run(self) -> None:
        """Run until nothing waits; whatever happens, no child stays behind."""
        try:
            while self._waiting or self._running:
                while self._waiting and len(self._running) < self._jobs:
                    self._start(*self._waiting.popleft())
                self._listen()
        finally:
            for child in self._running.values():
                _kill(child.pid)
                os.waitpid(child.pid, 0)
                os.close(child.pipe)
            self._running.clear()
            self._waiting.clear()
            self._selector.close()
            self._selector = selectors.DefaultSelector()

    def _start(self, work: Callable[[Report], None], seconds: float, then: Callable) -> None:
        ours, theirs = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        lasts = SLACK + 10 * self._jobs * seconds
        pid = os.fork()
        if pid == 0:
            os.close(ours)
            _live(work, theirs, self._memory, lasts)
        os.close(theirs)
        os.set_blocking(ours, False)
        self._selector.register(ours, selectors.EVENT_READ, pid)
        self._running[pid] = _Child(pid, ours, time.monotonic() + lasts, then)

    def _listen(self) -> None:
        closed = len(self._selector.get_map()) < len(self._running)
        for key, _ in self._selector.select(SOON if closed else LOOK):
            self._hear(self._running[key.data])
        if os.getppid() != self._parent:
            raise SystemExit(1)  # whoever wanted the answers is there no more
        for child in list(self._running.values()):
            if time.monotonic() > child.until or _is_stuck(child):
                child.late = True
                _kill(child.pid)
            if _has_ended(child.pid):
                self._end(child)

    def _hear(self, child: _Child) -> None:
        with contextlib.suppress(BlockingIOError):
            while part := os.read(child.pipe, 2**16):
                child.said += part
                if len(child.said) > MOST_SAID:
                    _kill(child.pid)
                    return
            if child.pipe in self._selector.get_map():  # it has closed the pipe, and will end
                self._selector.unregister(child.pipe)

    def _end(self, child: _Child) -> None:
        _kill(child.pid)  # and all that it has started; it is not yet forgotten, so the id is its
        self._hear(child)
        _, status = os.waitpid(child.pid, 0)
        if child.pipe in self._selector.get_map():
            self._selector.unregister(child.pipe)
        os.close(child.pipe)
        del self._running[child.pid]
        child.then(Answer(_parsed(bytes(child.said)), _ending(status, late=child.late)))


def _is_stuck(child: _Child) -> bool:
    """Tell whether a child waits for something that never comes: a lock, say, that a fork took."""
    now = time.monotonic()
    if now < child.looked + IDLE / 4:
        return False
    before, child.computed, child.looked = child.computed, _computed(child.pid), now
    if child.computed != before or child.computed is None:
        child.since = now
    return now > child.since + IDLE


def _computed(session: int) -> float | None:
    """Sum the CPU time of a session, up to now; None where the system does not tell."""
    ticks: list[int] = []
    for process in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            numbers = process.read_text().rpartition(")")[2].split()
            if int(numbers[3]) == session:
                ticks += map(int, numbers[11:15])
    return sum(ticks) / os.sysconf("SC_CLK_TCK") if ticks else None


def limit_cpu(seconds: float) -> None:
    """Let this process live for so much more CPU time; 0 takes the limit away."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _live(work: Callable[[Report], None], pipe: int, memory: int, lasts: float) -> None:
    """Do the work of a child, from its first to its last instant."""
    code = 1
    try:
        os.setsid()
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGPROF, signal.SIGALRM):
            signal.signal(one, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, lasts + 1)  # if the parent is there no more
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        _limit(resource.RLIMIT_CORE, 0)
        if taken := _address_space():
            _limit(resource.RLIMIT_AS, taken + memory)

        def report(plain: dict[str, Any]) -> None:
            left = memoryview(json.dumps(plain).encode() + b"\n")
            while left:
                left = left[os.write(pipe, left) :]

        try:
            work(report)
        except BaseException as error:
            report({"error": " ".join(f"{type(error).__name__}: {error}".split())[:500]})
        code = 0
    finally:
        os._exit(code)


def _limit(what: int, most: int) -> None:
    """Set a limit, unless there is a lower one."""
    with contextlib.suppress(ValueError, OSError):
        _, hard = resource.getrlimit(what)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, hard))


def _address_space() -> int:
    """Count the bytes of addresses that this process has; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as stream:
            return int(stream.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _kill(pid: int) -> None:
    """Kill a child and what it has started."""
    for kill in (os.killpg, os.kill):  # the group is there a moment after the child
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _has_ended(pid: int) -> bool:
    """Tell whether a child has ended, and leave it to be waited for."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _ending(status: int, *, late: bool) -> str:
    number = os.waitstatus_to_exitcode(status)
    if late or -number in (signal.SIGPROF, signal.SIGXCPU, signal.SIGALRM):
        return "timeout"
    return "done" if number == 0 else signal.Signals(-number).name if number < 0 else "exit"


def _parsed(said: bytes) -> list[dict[str, Any]]:
    """Read the whole lines of what a child said."""
    found = []
    for line in said.split(b"\n")[:-1]:
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found

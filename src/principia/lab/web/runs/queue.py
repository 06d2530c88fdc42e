"""The experiments that this server runs: one or two at a time, one a session, others in a queue."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any, final

from principia.lab.params import Failure, UsageError
from principia.lab.runs.folders import RunFolder, discard_if_empty
from principia.lab.web.gate.answers import Conflict
from principia.lab.web.gate.sessions import Visitor
from principia.lab.web.processes.shares import Share
from principia.lab.web.processes.workers import Busy, Job, Limits, Workers
from principia.lab.web.runs import run_store
from principia.lab.web.runs.eta import Eta
from principia.lab.web.runs.worker import attempt

__all__ = ["QueuedRun", "RunQueue"]

WAITING = 8  # who comes later would wait for hours
GRACE = 10.0  # seconds to end a step and save, which takes far less for every model of the course
CLOSING = 3.0  # the same when the server ends, where somebody waits at a terminal
SECONDS = 6 * 3600.0  # on the clock and on each core; what takes longer is for the command line
REMEMBERED = 64  # ended runs whose last words are kept
LINES = 200  # of what a run says
log = logging.getLogger("principia.web")


@final
@dataclass(eq=False)
class QueuedRun:
    """A run of this server: waiting, at work, or over with its last words."""

    session: str
    folder: RunFolder
    resumed: bool = False
    job: Job | None = None
    begun: bool = False
    stopping: bool = False
    eta: Eta = field(default_factory=Eta)
    said: deque[str] = field(default_factory=lambda: deque(maxlen=LINES))
    lines: int = 0
    problem: str = ""
    discarded: bool = False

    @property
    def status(self) -> str:
        """Whether it waits, runs, or was asked to stop."""
        return "stopping" if self.stopping else "running" if self.begun else "waiting"

    def obeys(self, visitor: Visitor) -> bool:
        """Whether this visitor may stop it: who started it, or who owns the server."""
        return visitor.owner or visitor.session == self.session

    def hear(self, message: dict[str, Any]) -> None:
        """Take what the worker tells."""
        self.eta.hear(message.get("progress"))
        if isinstance(text := message.get("say"), str):
            self.said.append(text[:1000])
            self.lines += 1

    def stop(self, grace: float) -> None:
        """Ask it to save and stop."""
        self.stopping = True
        if self.job is not None:  # else as soon as there is one
            self.job.stop(grace)


@final
class RunQueue:
    """Works on runs.

    Args:
        workers: Where experiments run.
        share: How many at once, and the memory of each.
    """

    def __init__(self, workers: Workers, share: Share) -> None:
        self._workers, self._share = workers, share
        self._active: dict[str, QueuedRun] = {}
        self._waiting: deque[QueuedRun] = deque()
        self._past: OrderedDict[str, QueuedRun] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        # to look at a resting run takes the lock of its folder for a moment; if a worker came just
        # then, it would find the folder locked
        self._looking = threading.Lock()
        self.closed = False

    def queued(self, name: str) -> QueuedRun | None:
        """Give the run of this name, if it waits or runs here."""
        return self._active.get(name)

    def last_words(self, name: str) -> QueuedRun | None:
        """Give the run of this name, also if it is over."""
        return self._active.get(name) or self._past.get(name)

    def place(self, queued: QueuedRun) -> int:
        """Tell the place of a run in the queue."""
        return self._waiting.index(queued) + 1 if queued in self._waiting else 1

    def status(self, folder: RunFolder) -> str:
        """Tell how a run stands, whoever runs it."""
        with self._looking:
            queued = self._active.get(folder.name)
            return queued.status if queued else run_store.resting_status(folder)

    def need_place(self, session: str) -> None:
        """Refuse a session that has a run already, and everybody when too many wait."""
        if self.closed:
            raise Failure("The lab is closing. Start it again.")
        for name, queued in self._active.items():
            if queued.session == session:
                raise Conflict(
                    f"run: {name} of yours is {queued.status} already. Cancel it, or wait for its "
                    "end."
                )
        if len(self._waiting) >= WAITING:
            running = len(self._active) - len(self._waiting)
            raise Busy(
                f"The lab is busy: {running} experiments run and {WAITING} wait. Try again later."
            )

    def admit(self, queued: QueuedRun) -> None:
        """Begin a run, or let it wait for its turn."""
        with self._looking:
            self._active[queued.folder.name] = queued
        self._past.pop(queued.folder.name, None)
        self._waiting.append(queued)
        self._fill()

    def cancel(self, queued: QueuedRun) -> None:
        """Stop a run after its present step, or take it out of the queue."""
        if queued.begun:
            queued.stop(GRACE)
        else:
            self._waiting.remove(queued)
            self._bury(queued)

    async def close(self) -> None:
        """Ask all to stop, wait a little, and end those that do not."""
        self.closed = True
        for queued in tuple(self._waiting):
            self.cancel(queued)
        for queued in tuple(self._active.values()):
            queued.stop(CLOSING)
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _fill(self) -> None:
        """Begin what waits, as far as there is room."""
        while self._waiting and sum(one.begun for one in self._active.values()) < self._share.count:
            queued = self._waiting.popleft()
            queued.begun = True
            task = asyncio.create_task(self._work(queued))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self, queued: QueuedRun) -> None:
        """Stay with a run until its process has gone."""
        refused = ""
        try:
            # the kernel adds up the time of all threads
            limits = Limits(
                self._share.memory, SECONDS * queued.folder.config.threads, SECONDS
            )
            path = str(queued.folder.path)
            queued.job = await self._workers.listen(attempt, path, limits=limits, heard=queued.hear)
            if queued.stopping:
                queued.job.stop(CLOSING if self.closed else GRACE)
            how, found = await queued.job.ended
            refused = str(found["refused"]) if how == "ended" else ""
            queued.problem = refused or (found if how == "failed" else "")
        except (Failure, UsageError) as error:
            queued.problem = str(error)
        except Exception:
            log.exception("the run %s was lost", queued.folder.name)
            queued.problem = "The run was lost; the log of the server has the reason."
        if refused and not queued.resumed:
            queued.discarded = await asyncio.to_thread(_discard, queued.folder)
        self._bury(queued)
        self._fill()

    def _bury(self, queued: QueuedRun) -> None:
        """Keep the last words of a run, and let its folder tell the rest."""
        queued.job = None
        self._past[queued.folder.name] = queued
        with self._looking:
            self._active.pop(queued.folder.name, None)
        while len(self._past) > REMEMBERED:
            self._past.popitem(last=False)


def _discard(folder: RunFolder) -> bool:
    """Remove a run that never began; tell whether it has gone."""
    try:
        discard_if_empty(folder)
    except (OSError, UsageError):
        log.exception("the empty run %s cannot be removed", folder.name)
    return not folder.path.exists()

"""Processes for all work of the server: limited, queued, replaced and killed, one for each job.

The server itself never computes, so that it always answers. A visitor has one job at a time; a
newer request for the same thing takes the place of the older one, because nobody looks at what the
older one would give.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, final

from principia.lab.params import Failure, UsageError
from principia.lab.web.processes import child_main
from principia.lab.web.processes.children import Child, packed
from principia.lab.web.processes.conversations import Conversation, Job
from principia.lab.web.processes.failures import Busy, Crashed, Superseded, result_of
from principia.lab.web.processes.limits import Limits

__all__ = [
    "Busy", "Conversation", "Crashed", "Job", "Limits", "Superseded", "Workers",
]

MOST_WAITING = 8  # jobs of one session
CLOSING = "The lab is closing. Start it again."
log = logging.getLogger("principia.web")


@dataclass(eq=False)
class _Queued:
    session: str
    topic: str
    work: bytes
    answer: asyncio.Future[Any]
    child: Child | None = None

    def drop(self, why: Exception) -> None:
        """Tell whoever waits why there will be no answer, and end the work."""
        if not self.answer.done():
            self.answer.set_exception(why)
        if self.child is not None:
            self.child.kill()


@final
class Workers:
    """Runs functions in processes of their own.

    Functions must be at the top of a module, and give plain data; arguments are pickled.

    Args:
        slots: How many jobs run at once.
        waiting: How many may wait, of all sessions together.
        limits: What each job may use.
    """

    def __init__(self, *, slots: int, waiting: int, limits: Limits) -> None:
        self._slots, self._waiting, self._limits = slots, waiting, limits
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="principia-starter")
        self._queue: list[_Queued] = []
        self._running: dict[str, _Queued] = {}  # by session, which has one at a time
        self._living: set[Conversation | Job] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    async def warm_up(self) -> None:
        """Start the forkserver, which takes seconds, before somebody waits for it."""
        try:
            found = await self.run("", "warm up", child_main.ready)
        except Failure as error:
            log.warning("the forkserver does not warm up: %s", error)
            return
        if not found["warm"]:
            log.warning("the forkserver cannot load the pages: every job will be slow")
        for page, why in found["broken"].items():
            log.warning("%s cannot be loaded: %s", page, why)

    async def run(
        self, session: str, topic: str, function: Callable[..., Any], *args: Any
    ) -> Any:
        """Run a function in a worker and give what it returns.

        Args:
            session: Whose job it is; its other jobs wait until this one has ended.
            topic: What it is about; an older job of the session on the same topic is dropped.
            function: What to run.
            *args: What to give it.

        Raises:
            UsageError: What the function refused.
            Superseded: A newer job has the same session and topic.
            Busy: Too many jobs wait.
            Crashed: The function raised what it should not.
            Failure: The function could not do it, or not within the limits.
        """
        self._need_open()
        answer = asyncio.get_running_loop().create_future()
        queued = _Queued(session, topic, packed(function, args), answer)
        self._admit(queued)
        self._start_what_can()
        try:
            return await answer
        finally:  # also if nobody waits any more
            if queued in self._queue:
                self._queue.remove(queued)
            if queued.child is not None:
                queued.child.kill()

    async def converse(
        self, function: Callable[..., Any], *args: Any, limits: Limits
    ) -> Conversation:
        """Start a child that answers: `function(connection, *args)` reads and writes bytes."""
        self._need_open()
        child = Child(self._starter, child_main.converse, limits, packed(function, args))
        conversation = Conversation(child)
        await self._begin(conversation, child)
        return conversation

    async def listen(
        self, function: Callable[..., Any], *args: Any, limits: Limits,
        heard: Callable[[dict[str, Any]], None],
    ) -> Job:
        """Start a child that tells: `function(tell, *args)` calls `tell({...})` as it goes on.

        Args:
            function: What to run.
            *args: What to give it.
            limits: What it may use.
            heard: Called in the event loop with each message.
        """
        self._need_open()
        child = Child(self._starter, child_main.do_job, limits, packed(function, args))
        job = Job(child, heard)
        await self._begin(job, child)
        return job

    async def close(self, grace: float = 5.0) -> None:
        """End everything at once, but long jobs after they saved what they did."""
        self._closed = True
        for queued in (*self._queue, *self._running.values()):
            queued.drop(Failure(CLOSING))
        self._queue.clear()
        for one in self._living:
            one.stop(grace) if isinstance(one, Job) else one.close()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._starter.shutdown()

    def _need_open(self) -> None:
        if self._closed:
            raise Failure(CLOSING)

    def _admit(self, queued: _Queued) -> None:
        """Queue a job: in the place of an older one on its topic, or at the end if there is room.

        What takes the place of another job is never refused: there is no more to do than before.
        """
        replaced = [
            one
            for one in (*self._queue, *self._running.values())
            if (one.session, one.topic) == (queued.session, queued.topic) and not one.answer.done()
        ]
        if not replaced and not self._can_start(queued):
            if len(self._queue) >= self._waiting:
                raise Busy("The lab is busy: many jobs wait. Try again in a moment.")
            if sum(one.session == queued.session for one in self._queue) >= MOST_WAITING:
                raise Busy("The lab is busy: many jobs of yours wait. Try again in a moment.")
        for one in replaced:
            one.drop(Superseded("A newer request has taken the place of this one."))
        waiting = [one for one in replaced if one in self._queue]
        if waiting:
            self._queue[self._queue.index(waiting[0])] = queued
        else:
            self._queue.append(queued)

    def _can_start(self, queued: _Queued) -> bool:
        return len(self._running) < self._slots and queued.session not in self._running

    def _start_what_can(self) -> None:
        for queued in tuple(self._queue):
            if self._can_start(queued) and not queued.answer.done():
                self._queue.remove(queued)
                self._running[queued.session] = queued
                entry = child_main.answer_once
                queued.child = Child(self._starter, entry, self._limits, queued.work)
                self._keep(self._finish(queued, queued.child))

    async def _finish(self, queued: _Queued, child: Child) -> None:
        """Wait for the answer, hand it over, and let the next one in when the process has gone."""
        frame = await child.receive()
        if frame is not None and not queued.answer.done():
            try:
                queued.answer.set_result(result_of(frame))
            except (Failure, UsageError) as error:
                queued.answer.set_exception(error)
        failure = await child.end()
        if not queued.answer.done():
            queued.answer.set_exception(failure)
        del self._running[queued.session]
        self._start_what_can()

    async def _begin(self, one: Conversation | Job, child: Child) -> None:
        self._living.add(one)
        self._keep(one.keep()).add_done_callback(lambda task: self._living.discard(one))
        try:
            await child.started()
        except asyncio.CancelledError:
            child.kill()
            raise

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

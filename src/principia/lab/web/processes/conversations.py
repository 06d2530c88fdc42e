"""Children that live on: one answers whenever it is asked, another tells how far it is."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, final

from principia.lab.params import Failure, UsageError
from principia.lab.web.processes.children import Child
from principia.lab.web.processes.failures import (
    RAISED,
    RESULT,
    TOLD,
    UNREADABLE,
    Busy,
    Crashed,
    Stopped,
    read_json,
    result_of,
)
from principia.lab.web.processes.limits import NEXT

__all__ = ["Conversation", "Job"]

MOST_ASKING = 8  # who may wait for the answers of one child
log = logging.getLogger("principia.web")


@final
class Conversation:
    """A child that lives and answers, one question at a time."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._turn = asyncio.Lock()
        self._hearing = False
        self._exchanges: set[asyncio.Task[dict[str, Any]]] = set()
        self._end: Exception | None = None
        self._ended = asyncio.Event()

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._child.alive

    async def ask(self, message: dict[str, Any], wall: float) -> dict[str, Any]:
        """Send a message and wait for its answer.

        An asker who does not wait until the end changes nothing for the child: it finishes its
        answer, which nobody reads, and is ready for the next.

        Args:
            message: Plain data.
            wall: Seconds after which the child counts as lost, and is killed.
        """
        if len(self._exchanges) > MOST_ASKING:
            raise Busy("The lab is busy: this has many questions to answer. Try again in a moment.")
        exchange = asyncio.create_task(self._exchange(json.dumps(message).encode(), wall))
        self._exchanges.add(exchange)
        exchange.add_done_callback(self._forget)
        return await asyncio.shield(exchange)

    def close(self) -> None:
        """End the child."""
        self._child.kill(Failure("This was closed. Begin again."))

    async def keep(self) -> None:
        """Stay with the child until its end, whoever ends it."""
        await self._child.ended()
        if not self._hearing:  # nobody waits for an answer, and might hear its last words
            await self._hear_last_words()
        failure = await self._child.end()
        self._end = self._end or failure
        self._ended.set()

    async def _hear_last_words(self) -> None:
        frame = await self._child.receive()
        if frame is not None:
            try:
                _answer(frame)
            except (Failure, UsageError) as error:
                self._end = error

    def _forget(self, exchange: asyncio.Task[dict[str, Any]]) -> None:
        self._exchanges.discard(exchange)
        if not exchange.cancelled():
            exchange.exception()  # which the asker has heard, if he is still there

    async def _exchange(self, message: bytes, wall: float) -> dict[str, Any]:
        async with self._turn:
            if not self.alive:
                raise await self._reason()
            late = Failure(f"The answer takes longer than {wall:g} s. {NEXT}")
            timer = asyncio.get_running_loop().call_later(wall, self._child.kill, late)
            self._hearing = True
            try:
                await self._child.send(message)
                frame = await self._child.receive()
            finally:
                self._hearing = False
                timer.cancel()
            if frame is not None:
                try:
                    return _answer(frame)
                except (Failure, UsageError) as error:
                    self._end = error
                    self._child.kill()
            raise await self._reason()

    async def _reason(self) -> Exception:
        await self._ended.wait()
        end = self._end
        return type(end)(str(end)) if end is not None else Crashed(UNREADABLE)


def _answer(frame: bytes) -> dict[str, Any]:
    if frame[:1] == RESULT:
        raise Failure("This has ended. Begin again.")
    answer = result_of(frame) if frame[:1] == RAISED else read_json(frame)
    if not isinstance(answer, dict):
        raise Crashed(UNREADABLE)
    return answer


@final
class Job:
    """A child that works for long and tells how far it is."""

    def __init__(self, child: Child, heard: Callable[[dict[str, Any]], None]) -> None:
        self._child, self._heard = child, heard
        self._end: asyncio.Future[tuple[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked_to_stop = False
        self._last_call: asyncio.TimerHandle | None = None

    @property
    def ended(self) -> Awaitable[tuple[str, Any]]:
        """How it ends: `("ended", result)`, `("failed", sentence)` or `("stopped", "")`."""
        return asyncio.shield(self._end)  # whoever stops waiting does not end it for the others

    @property
    def alive(self) -> bool:
        """Whether it still works."""
        return not self._end.done()

    def stop(self, grace: float = 10.0) -> None:
        """Ask it to stop; kill it if it has not within some seconds.

        Only the first call asks, because being asked twice means to stop without saving. A later
        one changes the time that is left.
        """
        if self._end.done():
            return
        if not self._asked_to_stop:
            self._asked_to_stop = True
            self._child.ask_to_stop()
        if self._last_call is not None:
            self._last_call.cancel()
        self._last_call = asyncio.get_running_loop().call_later(grace, self._child.kill)

    async def keep(self) -> None:
        """Listen until the end."""
        frame = await self._child.receive()
        while frame is not None and frame[:1] == TOLD:
            self._hear(frame[1:])
            await asyncio.sleep(0)  # a child that tells without a pause must not stop the server
            frame = await self._child.receive()
        failure = await self._child.end()
        if self._last_call is not None:
            self._last_call.cancel()
        silent = ("stopped", "") if self._asked_to_stop else ("failed", str(failure))
        self._end.set_result(silent if frame is None else _outcome(frame))

    def _hear(self, body: bytes) -> None:
        try:
            message = read_json(body)
            if isinstance(message, dict):
                self._heard(message)
        except Exception:  # one message that nobody can use is no reason to lose the work
            log.exception("a message of a worker was not heard")


def _outcome(frame: bytes) -> tuple[str, Any]:
    try:
        return "ended", result_of(frame)
    except Stopped:
        return "stopped", ""
    except (Failure, UsageError) as error:
        return "failed", str(error)

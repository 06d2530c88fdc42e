"""Playgrounds of all visitors: one each, in a child process that lives while it is used."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, final

from principia.lab.params import Failure, UsageError
from principia.lab.web.gate.answers import Conflict
from principia.lab.web.pages import playground_worker
from principia.lab.web.processes.workers import Busy, Conversation, Limits, Superseded, Workers

__all__ = ["Playgrounds"]

# seconds that an idle one is left to its visitor while another visitor waits; one that was closed
# is made again, and taken to the same step, as soon as its visitor moves it
SPARED = 5.0
IDLE = 600.0  # seconds after which it is closed in any case
ANSWER = 20.0  # seconds for one answer: nobody watches longer
STRIDE = 500  # steps of one message, so that a long way is many short answers
CLOSED = "The playground has been closed. Set it up again."
REPLACED = "Another window has taken over the playground, of which you have one. Set it up again."


@dataclass(eq=False)
class _Place:
    """The playground of one visitor."""

    child: Conversation
    used: float
    asking: int = 0  # requests under way
    number: int = 0  # of the playground in the child; 0 if there is none
    newest: int = 0  # of the one that was asked for last
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@final
class Playgrounds:
    """Holds the playgrounds of all visitors, each in a child process.

    Args:
        workers: Where children come from.
        most: How many there may be; each is a process with torch.
        limits: What each may use.
        spared: Seconds for which an idle one is not closed for another visitor.
        idle: Seconds after which an idle one is closed.
    """

    def __init__(
        self, workers: Workers, *, most: int, limits: Limits, spared: float = SPARED,
        idle: float = IDLE,
    ) -> None:
        self._workers, self._most, self._limits = workers, most, limits
        self._spared, self._idle = spared, idle
        self._places: dict[str, _Place] = {}
        self._starting: dict[str, asyncio.Task[_Place]] = {}
        self._numbers = itertools.count(1)
        self._sweeper: asyncio.Task[None] | None = None
        self._offer: dict[str, Any] = {}
        self._offering = asyncio.Lock()

    async def offer(self) -> dict[str, Any]:
        """List what can be chosen; that is found once, in a worker."""
        async with self._offering:
            if not self._offer:
                work = self._workers.run("", "playground choices", playground_worker.offer)
                self._offer = await work
        return self._offer

    async def make(
        self, session: str, setup: dict[str, Any], steps: int, window: list[float] | None
    ) -> dict[str, Any]:
        """Set up the playground of a visitor anew, and take it to a step."""
        number = next(self._numbers)
        place = await self._place(session)
        place.newest = number

        def need_newest() -> None:
            if place.newest != number:
                raise Superseded("A newer request has taken the place of this one.")

        async def work() -> dict[str, Any]:
            need_newest()
            place.number = 0
            message = {"setup": setup, "window": window, "steps": min(steps, STRIDE)}
            given = await self._ask(session, place, message)
            for before in range(STRIDE, steps, STRIDE):
                need_newest()
                await self._ask(session, place, {"steps": min(STRIDE, steps - before)})
            given |= await self._ask(session, place, {"units": True})
            place.number = number
            return {**given, "number": number}

        return await self._in_turn(place, work)

    async def step(
        self, session: str, steps: int, units: bool, number: int | None
    ) -> dict[str, Any]:
        """Move the playground of a visitor, and show it."""
        place = self._places.get(session)
        if place is None or not place.child.alive:
            raise Conflict(CLOSED)

        async def work() -> dict[str, Any]:
            if not place.number:
                raise Conflict(CLOSED)
            if number not in (None, place.number):
                raise Conflict(REPLACED)
            return await self._ask(session, place, {"steps": steps, "units": units})

        return await self._in_turn(place, work)

    async def close(self) -> None:
        """Close all playgrounds, and leave nothing behind."""
        tasks = [*self._starting.values(), *([self._sweeper] if self._sweeper else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for session in tuple(self._places):
            self._close(session)

    async def _place(self, session: str) -> _Place:
        """Give the place of a visitor, with a child that lives; start one if there is none."""
        for other, place in tuple(self._places.items()):
            if not place.child.alive:
                self._close(other)
        if session in self._places:
            return self._places[session]
        if session not in self._starting:
            if len(self._places) + len(self._starting) >= self._most:
                self._make_room()
            self._starting[session] = asyncio.create_task(self._start(session))
        return await asyncio.shield(self._starting[session])

    def _make_room(self) -> None:
        """Close the playground that has been idle the longest, if that is long enough."""
        idle = [(one.used, session) for session, one in self._places.items() if not one.asking]
        since, session = min(idle, default=(math.inf, ""))
        if _now() - since <= self._spared:
            raise Busy("The lab is busy: all playgrounds are in use. Try again in a moment.")
        self._close(session)

    async def _start(self, session: str) -> _Place:
        try:
            child = await self._workers.converse(playground_worker.playground, limits=self._limits)
            self._places[session] = _Place(child, _now())
        finally:
            del self._starting[session]
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.create_task(self._sweep())
        return self._places[session]

    def _close(self, session: str) -> None:
        self._places.pop(session).child.close()

    async def _sweep(self) -> None:
        """Close what nobody has used for long, as long as there is anything."""
        while self._places:
            await asyncio.sleep(self._idle / 20)
            for session, place in tuple(self._places.items()):
                if not place.asking and _now() - place.used > self._idle:
                    self._close(session)

    async def _in_turn(
        self, place: _Place, work: Callable[[], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        place.asking += 1
        try:
            async with place.turn:
                return await work()
        finally:
            place.asking -= 1
            place.used = _now()

    async def _ask(
        self, session: str, place: _Place, message: dict[str, Any]
    ) -> dict[str, Any]:
        try:
            answer = await place.child.ask(message, ANSWER)
        except Failure:
            if not place.child.alive and self._places.get(session) is place:
                self._close(session)
            raise
        if sentence := answer.get("error"):
            raise UsageError(sentence) if "mended" in answer else Failure(sentence)
        return answer


def _now() -> float:
    return asyncio.get_running_loop().time()

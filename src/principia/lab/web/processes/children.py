"""One child process, seen from the server: started, heard, killed and buried without a wait.

A child comes out of a forkserver that has everything loaded. Starting and burying happen in one
thread for all children, because `multiprocessing` looks after all of them whenever it starts one;
everything else happens in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import multiprocessing
import os
import pickle
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, final

from principia.lab.params import Failure
from principia.lab.web.processes.failures import UNREADABLE, Crashed, failure_of
from principia.lab.web.processes.limits import LARGEST, Limits

__all__ = ["Child", "Entry", "packed"]

PRELOAD = "principia.lab.web.processes.preload"
SAFE_PATH = "PYTHONSAFEPATH"
TRIES = 4  # to start a process: the forkserver may have died just now
LINGER = 1.0  # seconds after the end of a child until its pipe, should others hold it, is cut

Entry = Callable[[Connection, Limits, bytes], None]
log = logging.getLogger("principia.web")


@final
class Child:
    """A process that runs `entry` with one end of a pipe; make it within the event loop.

    Args:
        starter: Where processes are started and buried: an executor with one thread.
        entry: A function of `principia.lab.web.processes.child_main`.
        limits: What the process may use.
        work: What to do, from `packed`.
    """

    def __init__(self, starter: Executor, entry: Entry, limits: Limits, work: bytes) -> None:
        self.limits = limits
        self._failure: Failure | None = None
        self._unwanted = self._gone = False
        self._pid = 0
        self._socket: socket.socket | None = None
        self._cut: asyncio.TimerHandle | None = None
        self._started = asyncio.Event()
        self._using = asyncio.Lock()  # the socket: nobody may close it under a reader
        self._life = asyncio.create_task(self._live(starter, entry, work))

    @property
    def alive(self) -> bool:
        """Whether it runs, or will."""
        return not self._gone and not self._unwanted

    async def started(self) -> None:
        """Wait until it runs, or will never."""
        await self._started.wait()

    async def send(self, body: bytes) -> None:
        """Send it a message; one that it does not take is lost with it."""
        async with self._using:
            if self._socket is not None:
                loop = asyncio.get_running_loop()
                with contextlib.suppress(OSError):
                    await loop.sock_sendall(self._socket, struct.pack("!i", len(body)) + body)

    async def receive(self) -> bytes | None:
        """Wait for a message from it; None if none will come any more."""
        await self._started.wait()
        async with self._using:
            head = await self._read(4)
            if head is None:
                return None
            (size,) = struct.unpack("!i", head)
            if 0 <= size <= LARGEST:
                return await self._read(size)
            self.kill(Crashed(UNREADABLE))
            return None

    def kill(self, why: Failure | None = None) -> None:
        """End it now; the first reason given is the one that its user hears."""
        if not self._gone:
            self._failure = self._failure or why
            self._unwanted = True
            self._signal(signal.SIGKILL)

    def ask_to_stop(self) -> None:
        """Send SIGTERM; a child that does not run yet will not run."""
        if self._pid and not self._gone:
            self._signal(signal.SIGTERM)
        else:
            self.kill()

    async def end(self) -> Failure:
        """Kill it, wait until nothing of it is left, and say why it ended."""
        self.kill()
        await self._life
        async with self._using:
            if self._cut is not None:
                self._cut.cancel()
            if self._socket is not None:
                self._socket.close()
                self._socket = None
        return self._failure or Crashed(UNREADABLE)

    async def ended(self) -> None:
        """Wait for its end without asking for it."""
        await asyncio.wait({self._life})

    async def _live(self, starter: Executor, entry: Entry, work: bytes) -> None:
        loop = asyncio.get_running_loop()
        try:
            process, self._socket = await loop.run_in_executor(
                starter, _start, entry, self.limits, work
            )
        except Exception as error:  # whatever it is, somebody waits for this child
            log.error("a worker cannot be started: %s: %s", type(error).__name__, error)
            self._gone = True
            self._failure = Failure("The lab cannot start a worker. Try again in a moment.")
            self._started.set()
            return
        self._pid = process.pid or 0
        gone = asyncio.Event()
        loop.add_reader(process.sentinel, gone.set)
        timer = None
        if math.isfinite(self.limits.wall):
            timer = loop.call_later(self.limits.wall, self.kill, Failure(self.limits.needs_time))
        if self._unwanted:
            self._signal(signal.SIGKILL)
        self._started.set()
        await gone.wait()
        loop.remove_reader(process.sentinel)
        if timer is not None:
            timer.cancel()
        # what it started goes with it, and so does itself if only the forkserver has died
        self._signal(signal.SIGKILL)
        self._gone = True
        self._cut = loop.call_later(LINGER, self._hang_up)
        code = await loop.run_in_executor(starter, _bury, process)
        self._failure = self._failure or failure_of(code, self.limits)

    def _signal(self, number: signal.Signals) -> None:
        if self._pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, number)
            if number == signal.SIGKILL:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._pid, number)  # which exists once the child has come so far

    def _hang_up(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    async def _read(self, size: int) -> bytes | None:
        """Read exactly so many bytes; None if the pipe ends before."""
        loop = asyncio.get_running_loop()
        body, filled = bytearray(size), 0
        while filled < size:
            if self._socket is None:
                return None
            try:
                count = await loop.sock_recv_into(self._socket, memoryview(body)[filled:])
            except OSError:
                return None
            if count == 0:
                return None
            filled += count
        return bytes(body)


def packed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """Write down what a child has to do; the function must be at the top of a module."""
    return pickle.dumps((function, arguments))


def _start(entry: Entry, limits: Limits, work: bytes) -> tuple[BaseProcess, socket.socket]:
    """Start a process; the forkserver is started again should it have died."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOAD])
    for more in reversed(range(TRIES)):
        ours, theirs = socket.socketpair()
        with Connection(theirs.detach()) as connection:
            process = context.Process(target=entry, args=(connection, limits, work), daemon=True)
            try:
                with _without_here():
                    process.start()
            except (OSError, EOFError):
                ours.close()
                if not more:
                    raise
                time.sleep(0.1)  # until the kernel has buried it, which starts a new one
                continue
        ours.setblocking(False)
        return process, ours
    raise OSError  # never comes here


@contextlib.contextmanager
def _without_here() -> Iterator[None]:
    """Let a forkserver import nothing from the current folder: a `random.py` there would end it."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        del os.environ[SAFE_PATH]
        if before is not None:
            os.environ[SAFE_PATH] = before


def _bury(process: BaseProcess) -> int:
    """Give the exit code of a process that has ended, and free what it held."""
    process.join()
    code = process.exitcode
    process.close()
    return 255 if code is None else code

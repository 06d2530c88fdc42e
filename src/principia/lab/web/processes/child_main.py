"""What a child does: it takes its limits, does its work, and tells the server how it went.

Every child is the first of its own process group, so that whatever it starts ends with it, and it
looks out for the server: work that nobody waits for any more must not go on.
"""

import contextlib
import json
import multiprocessing
import os
import pickle
import select
import signal
import struct
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, final

from principia.lab.web.processes import preload
from principia.lab.web.processes.failures import TOLD, as_result, describe
from principia.lab.web.processes.limits import Limits

__all__ = ["Tell", "answer_once", "converse", "do_job", "ready"]

OFTEN = 20  # messages a second; eyes do not follow more
PATIENCE = 5.0  # seconds that an important message waits for a listener
LAST_PATIENCE = 30.0  # the same for the result
ORPHAN_GRACE = 3.0  # seconds to save what was done, once the server has gone


def ready() -> dict[str, Any]:
    """Tell whether the forkserver had everything loaded, and what could not be."""
    return {"warm": preload.loaded_in not in (0, os.getpid()), "broken": preload.broken}


def answer_once(connection: Connection, limits: Limits, work: bytes) -> None:
    """Do one piece of work and send what it gives."""
    _prepare(limits, _vanish)
    answer = _answer(limits, work)
    with contextlib.suppress(OSError):  # nobody waits for it any more
        connection.send_bytes(answer)


def converse(connection: Connection, limits: Limits, work: bytes) -> None:
    """Let a function talk with the server until it returns; send how it ended."""
    _prepare(limits, _vanish)
    answer = _answer(limits, work, connection)
    with contextlib.suppress(OSError):  # the server has hung up, which is how it usually ends
        connection.send_bytes(answer)


def do_job(connection: Connection, limits: Limits, work: bytes) -> None:
    """Do a long work that tells how far it is; send what it gives."""
    wish = _Wish()
    _prepare(limits, wish.orphaned)
    tell = Tell(connection, wish.stop)
    tell.finish(_answer(limits, work, tell))


def _prepare(limits: Limits, orphaned: Callable[[], None]) -> None:
    with contextlib.suppress(OSError):
        os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's business
    if not preload.loaded_in:
        from principia.lab.environment import use_threads

        use_threads(1)
    threading.Thread(target=_look_out, args=(orphaned,), daemon=True).start()
    limits.impose()


def _look_out(orphaned: Callable[[], None]) -> None:
    """Wait for the end of the server."""
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
        orphaned()


def _vanish() -> None:
    os.killpg(0, signal.SIGKILL)


def _answer(limits: Limits, work: bytes, *before: Any) -> bytes:
    try:
        function, arguments = pickle.loads(work)  # written by the server, which is trusted
        return as_result(function(*before, *arguments))
    except BaseException as error:  # whatever it is, the server must hear of it
        return describe(error, limits)


@final
class _Wish:
    """The wish that this process ends: told once, because the second time means at once."""

    def __init__(self) -> None:
        self._told = threading.Lock()

    def stop(self) -> None:
        """Ask as whoever stops a run from outside would."""
        if self._told.acquire(blocking=False):
            os.kill(os.getpid(), signal.SIGTERM)

    def orphaned(self) -> None:
        """Ask, wait a little, and end."""
        self.stop()
        time.sleep(ORPHAN_GRACE)
        _vanish()


@final
class Tell:
    """Sends messages to a listener who may be slow, without ever waiting long for him."""

    def __init__(self, connection: Connection, hung_up: Callable[[], None]) -> None:
        self._connection, self._hung_up = connection, hung_up
        self._left = memoryview(b"")  # of the last message: what did not fit into the pipe
        self._next = 0.0
        os.set_blocking(connection.fileno(), False)

    def __call__(self, message: dict[str, Any], *, always: bool = False) -> None:
        """Send a message, unless there were too many or the listener is behind.

        Args:
            message: Plain data.
            always: Send it even so, if the listener catches up within seconds.
        """
        now = time.monotonic()
        if always or now >= self._next:
            self._next = now + 1 / OFTEN
            body = TOLD + json.dumps(message, allow_nan=False).encode()
            self._send(body, PATIENCE if always else 0.0, 0.0)

    def finish(self, body: bytes) -> None:
        """Send the last word and wait until it has gone."""
        self._send(body, LAST_PATIENCE, LAST_PATIENCE)

    def _send(self, body: bytes, before: float, after: float) -> None:
        if self._empty_within(before):
            self._left = memoryview(struct.pack("!i", len(body)) + body)
            self._empty_within(after)

    def _empty_within(self, seconds: float) -> bool:
        """Write what is left, as far as the pipe takes it in this time; tell if it took all."""
        until = time.monotonic() + seconds
        pipe = self._connection.fileno()
        while self._left:
            try:
                self._left = self._left[os.write(pipe, self._left) :]
            except BlockingIOError:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                waiting = select.poll()
                waiting.register(pipe, select.POLLOUT)
                waiting.poll(left * 1000)
            except OSError:  # nobody listens any more
                self._left = memoryview(b"")
                self._hung_up()
        return True

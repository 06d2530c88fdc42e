"""How long and how much: what a client may take of the server before it is sent away.

A server that waits for everybody can be stopped by anybody: by heads that come one byte a second,
by bodies without an end, by answers that nobody reads, by tokens tried all day. uvicorn limits
only how long a connection may be idle; the rest is here. Plug it in with
`uvicorn.Config(app, http=PatientProtocol, **SETTINGS)`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Any, Final, final

import h11
from starlette.types import Message, Receive
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = [
    "SETTINGS", "Instead", "PatientProtocol", "UnderWay", "WrongTokens", "raise_file_limit",
    "replayed", "whole_body",
]

SETTINGS: Final[Mapping[str, Any]] = {
    "ws": "none", "lifespan": "on", "log_level": "warning", "access_log": False,
    "server_header": False,
    "proxy_headers": False,  # else a client could say that it has another address
    "h11_max_incomplete_event_size": 16 * 1024, "timeout_keep_alive": 5,
}
BODY, LARGE_BODY = 64 * 1024, 2 * 1024 * 1024  # bytes; a table for the playground is large
MOST_UNDER_WAY = 256 * 1024 * 1024  # bytes of answers that were not read yet
WRONG_TOKENS, WINDOW, ADDRESSES = 20, 60.0, 4096  # so many in so many seconds; addresses kept
MOST_FILES = 65536
_PLAIN = [
    (b"content-type", b"text/plain; charset=utf-8"), (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'"), (b"cache-control", b"no-store"),
    (b"connection", b"close"),
]


class Instead(Exception):
    """An answer that is given instead of the application's: a status, a sentence, headers."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = [(n.replace("_", "-").encode(), v.encode()) for n, v in headers.items()]


async def whole_body(
    receive: Receive, path: str, headers: Mapping[str, list[str]], seconds: float
) -> bytes | None:
    """Read a body that is JSON, not too large and not too slow; None if the client went away.

    It is whole before the application starts, so that no slow sender holds a place in there.
    """
    limit = LARGE_BODY if path.startswith("/api/playground") else BODY
    too_large = Instead(413, f"A body must have at most {limit} bytes here.")
    lengths = headers.get("content-length", [])
    if any(not length.isdecimal() for length in lengths):
        raise Instead(400, "The content-length must be a number.", connection="close")
    # by digits first: Python refuses to read numbers of thousands of digits
    if any(len(length.lstrip("0")) > 9 or int(length) > limit for length in lengths):
        raise too_large
    kinds = [kind.partition(";")[0].strip().lower() for kind in headers.get("content-type", [])]
    declared = "transfer-encoding" in headers or any(int(length) for length in lengths)
    not_json = Instead(415, "A body must be JSON, with content-type application/json.")
    # a form of a foreign page cannot send JSON, and its script would have to ask us first
    if declared and kinds != ["application/json"]:
        raise not_json

    async def read() -> bytes | None:
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > limit:
                raise too_large
            more = message.get("more_body", False)
        return bytes(body)

    try:
        return await asyncio.wait_for(read(), seconds)
    except asyncio.TimeoutError:
        raise Instead(
            408, f"A body must come within {seconds:g} seconds.", connection="close"
        ) from None


def replayed(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read already once more, then whatever comes after it."""
    waiting = [body]

    async def again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return again


@final
class UnderWay:
    """Counts the bytes of answers on their way; an answer that goes to many is there once.

    Args:
        most: How many bytes may be on their way.
    """

    def __init__(self, most: int = MOST_UNDER_WAY) -> None:
        self._most, self._readers, self._size = most, Counter[int](), 0

    def begin(self, body: bytes) -> bool:
        """Count a body from now on; refuse one for which there is no room."""
        new = 0 if id(body) in self._readers else len(body)
        if self._size + new > self._most:
            return False
        self._size += new
        self._readers[id(body)] += 1
        return True

    def end(self, body: bytes) -> None:
        """Count it no more."""
        self._readers[id(body)] -= 1
        if not self._readers[id(body)]:
            del self._readers[id(body)]
            self._size -= len(body)


@final
class WrongTokens:
    """Counts wrong tokens by address, in bounded memory."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def too_many(self, address: str) -> bool:
        """Tell whether this address has been wrong too often in the last minute."""
        times = self._times.get(_household(address), ())
        return len(times) == WRONG_TOKENS and self._clock() - times[0] < WINDOW

    def count(self, address: str, wrong: int) -> None:
        """Remember so many wrong tokens; the address that was wrong longest ago is forgotten."""
        if wrong:
            times = self._times.setdefault(_household(address), deque(maxlen=WRONG_TOKENS))
            times.extend([self._clock()] * wrong)
            self._times.move_to_end(_household(address))
            if len(self._times) > ADDRESSES:
                self._times.popitem(last=False)


def _household(address: str) -> str:
    """Name who stands behind an address: in IPv6 everybody has 2^64 of them."""
    try:
        network = ipaddress.IPv6Network((address.partition("%")[0], 64), strict=False)
    except ValueError:
        return address
    return str(network)


class _Quiet(logging.Filter):
    """Counts what is no HTTP instead of telling of each: anybody could fill the log with it."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the first, the tenth, the hundredth through, and everything else."""
        if record.msg != "Invalid HTTP request received.":
            return True
        self.count += 1
        record.msg, record.args = "%d invalid requests so far", (self.count,)
        return str(self.count).strip("0") == "1"


_quiet = _Quiet()


class PatientProtocol(H11Protocol):
    """Speaks HTTP with one client, as long as the client keeps going.

    The numbers are attributes of the class: a subclass has other ones.
    """

    head_seconds: float = 10.0  # for a whole head, from the start or the end of the last answer
    unread_seconds: float = 30.0  # in which all that was written, or unread_bytes of it, must go
    unread_bytes: int = 64 * 1024
    most_connections: int = 2000
    most_of_one_address: int = 1500

    _head: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock, or close at once when there are too many already."""
        full = len(self.connections) >= self.most_connections
        super().connection_made(transport)
        self.logger.addFilter(_quiet)  # which adds it once
        mine = self.client and self.client[0]
        alike = sum(
            isinstance(other, H11Protocol) and other.client is not None and other.client[0] == mine
            for other in self.connections
        )
        if full or alike > self.most_of_one_address:
            transport.abort()
            return
        # then pausing means that something is left unread, and resuming that all of it has gone
        transport.set_write_buffer_limits(high=0)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._stop_waiting_for_head()
        self._stop_waiting_for_reader()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn keeps it when there was an error

    def handle_events(self) -> None:
        """Stop the clock when a head is there; its bytes alone do not."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop_waiting_for_head()

    def on_response_complete(self) -> None:
        """Wait for the next head; the rest of a body that was refused counts as waiting."""
        if not self.transport.is_closing():
            self._wait_for_head()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not read."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """End that waiting: all has gone."""
        super().resume_writing()
        self._stop_waiting_for_reader()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, if an answer can still be given; the application may not."""
        if self.cycle is not None:  # the head was good, and the body is not
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        events = (
            h11.Response(status_code=400, headers=_PLAIN, reason=b"Bad Request"),
            h11.Data(data=msg.encode("ascii")), h11.EndOfMessage(),
        )
        for event in events:
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: anybody could fill the log with it."""

    def _wait_for_head(self) -> None:
        self._stop_waiting_for_head()
        # closing lets an answer that is still on its way arrive; the other clock watches that
        self._head = self.loop.call_later(self.head_seconds, self.timeout_keep_alive_handler)

    def _stop_waiting_for_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _wait_for_reader(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self.unread_seconds, self._look_at_reader, left)

    def _look_at_reader(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < self.unread_bytes:
            self.transport.abort()
        else:
            self._wait_for_reader()

    def _stop_waiting_for_reader(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def raise_file_limit() -> int:
    """Let this process open as many files as it may, at most 65536, and say how many."""
    import resource  # not on every system

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft

"""Who may ask: checks every request before the application sees it, and dresses every answer.

A server on one's own machine is within reach of every page that one's browser opens, and of every
other user of the machine. So a request must name this server as its host, must not come from a page
of another site, must bring a token or a session that the server gave out for one, and must be
small; and an answer says what a browser may do.
"""

from __future__ import annotations

import html
import ipaddress
import json
import logging
import re
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import final
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from principia.lab.params import usage_error
from principia.lab.web.gate.sessions import Keys, Visitor
from principia.lab.web.gate.slow_clients import Instead, UnderWay, WrongTokens, replayed, whole_body

__all__ = ["POLICY", "Doors", "Safety", "is_loopback"]

METHODS = "GET, HEAD, POST, DELETE, OPTIONS"
PIECE = 64 * 1024  # bytes of an answer that are handed to the connection at a time
LONGEST_URL = 8 * 1024  # bytes of path and query
# Plotly adds two style elements, an empty one that it fills by rules and the one of its maps, and
# writes style attributes on the texts and pictures of figures; no attribute can load anything
_ELEMENTS = (
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=' "
    "'sha256-ji27qzEtxXZW+7dun6UwjHXJ18e6WAin1VvNtkzIE/o='"
)
POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self' {_ELEMENTS}; "
    "style-src-attr 'unsafe-inline'; img-src 'self' data: blob:; media-src data:; "
    "connect-src 'self'; font-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), microphone=(), geolocation=()",
}
# no honest client encodes a dot or a slash, nor encodes the percent sign of such a code again
_TRICKS = re.compile(r"[\x00-\x1f\x7f\\]|\.\.|//|%(?:25)*(?:00|2e|2f|5c)", re.IGNORECASE)
_NAME = re.compile(r"\[[0-9a-f:.]+\]|[0-9a-z_.-]+")
_log = logging.getLogger("principia.web")


def is_loopback(host: str) -> bool:
    """Tell whether a bind address can be reached from this machine only.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@final
@dataclass(frozen=True)
class Doors:
    """Says where the server listens and what opens it: the token of its owner, and its names."""

    host: str
    port: int
    token: str = field(repr=False)
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.port < 65536:
            raise usage_error("Doors", "port", "an integer in [1, 65535]", self.port)
        for name in self.names:
            if not _NAME.fullmatch(_bracketed(name)):
                raise usage_error("Doors", "names", "host names without scheme and port", name)
        if not self.token:
            raise usage_error("Doors", "token", "a secret", self.token)

    @property
    def local(self) -> bool:
        """Whether only this machine reaches the server."""
        return is_loopback(self.host)

    @cached_property
    def keys(self) -> Keys:
        """What opens the doors."""
        return Keys(self.token)

    def url(self, token: str = "") -> str:
        """Write the address for a browser, with this token."""
        name = "127.0.0.1" if self.host in ("", "0.0.0.0", "::") else self.host
        query = f"?token={token}" if token else ""
        return f"http://{_bracketed(name)}:{self.port}/{query}"

    @cached_property
    def _known(self) -> frozenset[str]:
        own = [self.host] if self.local else [socket.gethostname()]
        return frozenset(map(_bracketed, ("localhost", "127.0.0.1", "::1", *own, *self.names)))

    def answers_to(self, host: str) -> bool:
        """Tell whether a Host header means this server.

        This is against DNS rebinding: a foreign page whose name suddenly means our address has
        the same origin as we for the browser, and only the Host header still tells its name.
        An IP literal was asked of no name server; where others come in, it is one more name.
        """
        split = re.fullmatch(r"(.+):([0-9]+)", host)
        name, port = split.groups() if split else (host, "80")
        known = name.lower() in self._known or (not self.local and _is_address(name.lower()))
        return known and port == str(self.port)


def _bracketed(host: str) -> str:
    return f"[{host}]".lower() if ":" in host else host.lower()


def _is_address(name: str) -> bool:
    try:
        return bool(_NAME.fullmatch(name) and ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return False


@final
class Safety:
    """Stands before an ASGI application: refuses, counts, and dresses its answers.

    Args:
        app: The application; `scope["state"]["visitor"]` tells it who asks.
        doors: Where the server listens and what opens it.
        policy: The Content-Security-Policy of answers that bring none of their own.
        body_seconds: How long a whole body may take to come.
        clock: Seconds that only grow, for counting wrong tokens.
        under_way: Counts the answers that were not read yet.
    """

    def __init__(
        self, app: ASGIApp, doors: Doors, *, policy: str = POLICY, body_seconds: float = 15.0,
        clock: Callable[[], float] = time.monotonic, under_way: UnderWay | None = None,
    ) -> None:
        self.app, self.doors, self.policy, self.body_seconds = app, doors, policy, body_seconds
        self._wrong, self._under_way = WrongTokens(clock), under_way or UnderWay()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request in, or answer it here."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        asked = _Asked(scope)
        answer = _Answer(asked, send, self.policy, self._under_way)

        async def heard() -> Message:
            message = await receive()
            answer.unwanted = answer.unwanted or message["type"] == "http.disconnect"
            return message

        try:
            self._admit(asked)
            visitor = self._unlock(asked)
            body = await whole_body(heard, asked.path, asked.headers, self.body_seconds)
            if body is not None:  # else the client has gone
                await self.app(asked.inner(visitor), replayed(body, heard), answer.send)
                if not (answer.begun or answer.unwanted):
                    raise RuntimeError("the application gave no answer")
        except Instead as instead:
            await answer.give(instead)
        except Exception:
            _log.exception("%s %r failed", asked.method, asked.path)
            if not answer.begun:  # one that has begun and does not end is cut off by the server
                await answer.give(Instead(500, "Something broke in the server; its log has it."))

    def _admit(self, asked: _Asked) -> None:
        """Refuse what no page of ours would send."""
        hosts = asked.headers.get("host", [])
        if len(hosts) != 1 or not self.doors.answers_to(hosts[0]):
            where = self.doors.url() if self.doors.local else "its IP address"
            raise Instead(421, f"This server does not go by that name. Open {where}.")
        if len(asked.raw_path) + len(asked.query) > LONGEST_URL:
            raise Instead(414, f"The address is longer than {LONGEST_URL} bytes. Shorten it.")
        if asked.path[:1] != "/" or _TRICKS.search(asked.path) or _TRICKS.search(asked.raw_path):
            raise Instead(404, "There is no such page.")
        if asked.method not in METHODS.split(", "):
            raise Instead(405, f"The method must be one of {METHODS}.", allow=METHODS)
        reads = asked.method in ("GET", "HEAD", "OPTIONS")
        # same-site is foreign too: another server of this machine, whose pages have our cookies
        sites = set(asked.headers.get("sec-fetch-site", [])) - {"same-origin", "none"}
        own = f"{asked.scheme}://{hosts[0].lower()}".removesuffix(":80")
        origins = {origin.lower() for origin in asked.headers.get("origin", [])} - {own}
        if (sites and (asked.api or not reads)) or (origins and not reads):
            raise Instead(403, "A page of another site may not ask this.")

    def _unlock(self, asked: _Asked) -> Visitor:
        """Say who asks: whoever has a session of ours, or a token."""
        keys, name = self.doors.keys, f"principia_session_{self.doors.port}"  # cookies know no port
        cookies = asked.cookies(name)[:1]
        known = keys.visitor(cookies[0]) if cookies else None
        pairs = asked.query.split("&") if asked.method == "GET" and not asked.api else []
        given = [pair for pair in pairs if pair.partition("=")[0] == "token"]
        bearer = re.findall(r"(?i)^bearer (\S+)", "".join(asked.headers.get("authorization", [])))
        # one of each kind: who sends a hundred tokens does not get a hundred tries
        brought = [*bearer, *(pair.partition("=")[2] for pair in given[:1])]
        who = max(map(keys.opens, brought), default="")  # "owner" before "guest" before nobody
        if not who and known is None:
            # an old cookie is taken back; it is no wrong token, because nobody can guess one
            forget = {"set_cookie": asked.cookie(name, "", "; Max-Age=0")} if cookies else {}
            raise self._refused(asked.address, len(brought), forget)
        owner = who == "owner" or (known is not None and known.owner)
        if given:  # out of the address bar, the history and the screen of a lecture hall
            rest = "&".join(pair for pair in pairs if pair not in given)
            session = keys.session(owner=owner, name=known.session if known else "")
            raise Instead(303, "The token is now in a cookie.",
                          location=asked.raw_path + (f"?{rest}" if rest else ""),
                          set_cookie=asked.cookie(name, session))
        return Visitor(known.session if known else f"{who} at {asked.address}", owner)

    def _refused(self, address: str, wrong: int, headers: dict[str, str]) -> Instead:
        """Refuse who has no right token; who tries many is told to wait, and nobody else is."""
        if wrong and self._wrong.too_many(address):
            return Instead(429, "Too many wrong tokens came from your address. Wait a minute.",
                           retry_after="60", **headers)
        self._wrong.count(address, wrong)
        return Instead(401, "The token is missing or wrong. Paste the whole address that the "
                       "server printed into the address bar.", www_authenticate="Bearer",
                       **headers)


class _Asked:
    """What a request says, read once."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.method, self.path, self.scheme = scope["method"], scope["path"], scope["scheme"]
        raw: bytes = scope.get("raw_path") or quote(self.path).encode()
        self.raw_path, self.query = raw.decode("latin-1"), scope["query_string"].decode("latin-1")
        self.headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            self.headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        self.api = f"{self.path}/".startswith("/api/")
        self.address: str = (scope.get("client") or ("unknown", 0))[0]

    def cookies(self, name: str) -> list[str]:
        """List the values of a cookie."""
        pairs = ";".join(self.headers.get("cookie", [])).split(";")
        split = (pair.strip().partition("=") for pair in pairs)
        return [value for key, _, value in split if key == name]

    def cookie(self, name: str, value: str, more: str = "") -> str:
        """Write a Set-Cookie header that no script can read, and no foreign page can use.

        Lax, because a browser would not send a strict cookie after the file that leads it here,
        nor after a link in a mail; what more a foreign page may not do, `_admit` refuses.
        """
        more += "; Secure" if self.scheme == "https" else ""
        return f"{name}={value}; HttpOnly; SameSite=Lax; Path=/{more}"

    def inner(self, visitor: Visitor) -> Scope:
        """Give the scope for the application: with who asks, and HEAD asked as GET."""
        state = {**self.scope.get("state", {}), "visitor": visitor}
        # the server's own scope still says HEAD, by which it leaves the body out
        return {**self.scope, "state": state, "method": self.method.replace("HEAD", "GET")}


class _Answer:
    """The way of an answer out, where it gets its headers."""

    def __init__(self, asked: _Asked, send: Send, policy: str, under_way: UnderWay) -> None:
        self._asked, self._send, self._policy = asked, send, policy
        self._under_way = under_way
        self._start: Message | None = None
        self.begun = self._over = False
        self.unwanted = False  # the client has gone

    async def send(self, message: Message) -> None:
        """Pass a message of the application on, in pieces; HEAD gets the headers only.

        The next piece goes when the client has read the one before, so that an answer is in memory
        once, whoever reads it slowly.
        """
        if self._over:
            return
        if message["type"] == "http.response.start":
            self._start = {**message, "headers": self._dressed(message.get("headers", []))}
            if self._asked.method == "HEAD":  # also of a stream that has no end
                await self._begin()
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                self._over = True
            return
        body: bytes = message.get("body", b"")
        if len(body) <= PIECE:
            await self._begin()
            await self._send(message)
        elif self._under_way.begin(body):
            try:
                await self._begin()
                for place in range(0, len(body), PIECE):
                    more = place + PIECE < len(body) or message.get("more_body", False)
                    piece = body[place : place + PIECE]
                    await self._send({**message, "body": piece, "more_body": more})
            finally:
                self._under_way.end(body)
        elif not self.begun:
            await self.give(Instead(503, "The lab is busy: many large answers are on their way. "
                                    "Try again in a moment.", retry_after="2"))
            self._over = True
        else:
            raise RuntimeError("there is no room for the rest of an answer")

    async def _begin(self) -> None:
        """Send the head, if it has not gone."""
        if self._start is not None:
            self.begun, start, self._start = True, self._start, None
            await self._send(start)

    async def give(self, instead: Instead) -> None:
        """Say one sentence, as JSON or as a page."""
        if self._asked.api or "text/html" not in "".join(self._asked.headers.get("accept", [])):
            kind, body = b"application/json", json.dumps({"error": str(instead)}).encode()
        else:
            kind = b"text/html; charset=utf-8"
            body = (f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Principia</title>'
                    f'<p>{html.escape(str(instead))}</p></html>').encode()
        own = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *instead.headers]
        await self.send({"type": "http.response.start", "status": instead.status, "headers": own})
        await self.send({"type": "http.response.body", "body": body})

    def _dressed(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        ours = {*_HEADERS, b"server", *([b"cache-control"] if self._asked.api else [])}
        kept = [(name.lower(), value) for name, value in headers if name.lower() not in ours]
        there = dict(kept)
        more = {b"content-security-policy": self._policy.encode(),
                b"cache-control": b"no-store" if self._asked.api else b"no-cache", **_HEADERS}
        return kept + [(name, value) for name, value in more.items() if name not in there]

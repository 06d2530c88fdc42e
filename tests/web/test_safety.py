"""Nobody gets in by another door, and nobody holds the server up by being slow."""

import asyncio
import contextlib
import functools
import http.client
import itertools
import json
import re
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import unquote

import httpx
import pytest
import uvicorn
from hypothesis import example, given, settings
from hypothesis import strategies as st

from principia.lab.params import UsageError
from principia.lab.web.gate import slow_clients
from principia.lab.web.gate.safety import Doors, Safety, is_loopback
from principia.lab.web.gate.slow_clients import (
    SETTINGS,
    PatientProtocol,
    UnderWay,
    WrongTokens,
    raise_file_limit,
)
from web.doors import BEARER, TOKEN

PORT = 8123
HOST = f"localhost:{PORT}"
OPEN = Doors("127.0.0.1", PORT, TOKEN)
LOCKED = Doors("0.0.0.0", PORT, TOKEN, ("Lab.example.org",))
COOKIE = f"principia_session_{PORT}"
PAGE, JSON = {"accept": "text/html"}, {"content-type": "application/json"}
DRESSED = {
    "content-security-policy", "x-content-type-options", "referrer-policy",
    "cross-origin-opener-policy", "cross-origin-resource-policy", "permissions-policy",
    "cache-control",
}
KILOBYTE = 1024
BIG = bytes(8_000_000)


class Lab:
    """A tiny application that remembers what reached it."""

    def __init__(self):
        self.reached = []

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            for _ in range(2):
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
            return
        path = scope["path"]
        self.reached.append(path)
        assert scope["method"] in ("GET", "POST", "DELETE"), "no route is made for HEAD"
        body = (await receive())["body"]
        if path == "/boom":
            raise RuntimeError("a secret of the server")
        headers, answer = [(b"content-type", b"text/html"), (b"Server", b"Lab/1.0")], b"<p>SECRET"
        if path.startswith("/api/"):
            headers = [(b"content-type", b"application/json"), (b"cache-control", b"public")]
            told = {**scope["state"]["visitor"]._asdict(), "length": len(body)}
            answer = json.dumps(told).encode()
        elif path in ("/big", "/middle", "/new"):
            answer = BIG[:60_000] if path == "/middle" else BIG
            answer = bytes(bytearray(answer)) if path == "/new" else answer
        elif path == "/own":
            headers += [(b"Content-Security-Policy", b"img-src 'none'"),
                        (b"Cache-Control", b"max-age=9"), (b"Referrer-Policy", b"unsafe-url")]
        if path not in ("/stream", "/late"):
            headers.append((b"content-length", str(len(answer)).encode()))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if path == "/late":
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
            raise RuntimeError("too late for a 500")
        for event in (b"first", b"second") if path == "/stream" else ():
            await send({"type": "http.response.body", "body": event, "more_body": True})
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(receive(), 1.5)
        await send({"type": "http.response.body", "body": answer})


def asked(
    app, method="GET", path="/", headers=(), *, hosts=(HOST,), client="127.0.0.1", bearer=TOKEN,
    **more,
):
    """Send one request in this process, with any number of Host headers and perhaps a token."""
    app = app if isinstance(app, Safety) else Safety(app, OPEN)
    headers = httpx.Headers(headers)
    if bearer:
        headers["authorization"] = f"Bearer {bearer}"

    async def ask():
        transport = httpx.ASGITransport(app, client=(client, 5))
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as browser:
            request = browser.build_request(method, path, headers=headers, **more)
            own = [pair for pair in request.headers.raw if pair[0].lower() != b"host"]
            request.headers = httpx.Headers(own + [(b"host", host.encode()) for host in hosts])
            return await browser.send(request)

    return asyncio.run(ask())


def called(app, *later, **scope):
    """Call an ASGI application with a scope of our own; give what it sent.

    It hears of an empty body, and later of these kinds of messages.
    """
    sent, kinds = [], iter(later)
    own = {"host": HOST, **BEARER}
    whole = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "scheme": "http",
             "headers": [(name.encode(), value.encode()) for name, value in own.items()],
             "client": ("127.0.0.1", 5), **scope}

    async def receive():
        return {"type": next(kinds, "http.request"), "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(app(whole, receive, send))
    return sent


@contextlib.contextmanager
def serving(app=None, *, keep_alive=5, options=(), **numbers):
    """Run a real server in a thread; `numbers` are those of its protocol."""
    app = app or Lab()
    protocol = type("Hurried", (PatientProtocol,), numbers)
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * KILOBYTE)
        port = listener.getsockname()[1]
        safety = Safety(app, Doors("127.0.0.1", port, TOKEN), **dict(options))
        chosen = {**SETTINGS, "timeout_keep_alive": keep_alive, "timeout_graceful_shutdown": 1}
        server = uvicorn.Server(uvicorn.Config(safety, http=protocol, log_config=None, **chosen))
        server.lab, server.port = app, port
        server.open = lambda: len(server.server_state.connections)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            assert soon(lambda: server.started)
            yield server
        finally:
            server.should_exit = True
            thread.join(20)
        assert not thread.is_alive()


def soon(condition, seconds=5.0):
    """Wait until something is so; tell whether it came to be."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def connected(server, small=False):
    client = socket.socket()
    if small:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KILOBYTE)
    client.settimeout(10)
    client.connect(("127.0.0.1", server.port))
    return client


def head(server, line="GET / HTTP/1.1", *headers):
    own = (f"Host: localhost:{server.port}", f"Authorization: Bearer {TOKEN}")
    return "\r\n".join([line, *own, *headers, "", ""]).encode()


def rest_of(client):
    """Read until the server closes."""
    read = b""
    with contextlib.suppress(ConnectionError):
        while more := client.recv(1 << 16):
            read += more
    return read


def read_until(client, end):
    read = b""
    while not read.endswith(end) and (more := client.recv(1 << 16)):
        read += more
    return read.endswith(end)


def said(server, request):
    with connected(server) as client:
        client.sendall(request)
        return rest_of(client)


def is_closed(client):
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def dribbled(client, seconds, byte=b"a", pause=0.05):
    """Send a byte again and again; give the seconds until the server had enough, or all of them."""
    start = time.monotonic()
    with contextlib.suppress(ConnectionError):
        while time.monotonic() < start + seconds:
            client.sendall(byte)
            time.sleep(pause)
    return time.monotonic() - start


# doors


def test_loopback_is_what_only_this_machine_reaches():
    for host in ("localhost", "LOCALHOST", "127.0.0.1", "127.9.8.7", "::1"):
        assert is_loopback(host)
    for host in ("", "0.0.0.0", "::", "192.168.1.2", "example.org", "127.evil.org", "localhost."):
        assert not is_loopback(host)


def test_doors_refuse_what_is_no_port_no_name_and_no_token():
    for port in (0, -1, 65536):
        with pytest.raises(UsageError, match="Doors: port must be"):
            Doors("::1", port, TOKEN)
    for host in ("127.0.0.1", "0.0.0.0"):
        with pytest.raises(UsageError, match="Doors: token must be a secret"):
            Doors(host, PORT, "")
    assert TOKEN not in repr(LOCKED)
    with pytest.raises(UsageError, match="Doors: names must be"):
        Doors("0.0.0.0", PORT, TOKEN, ("http://lab.example.org",))


@pytest.mark.parametrize("doors", [
    OPEN, Doors("::1", 80, TOKEN), Doors("127.0.0.7", 80, TOKEN), LOCKED,
])
def test_the_address_that_is_shown_opens_the_door(doors):
    url = httpx.URL(doors.url(doors.token))
    assert doors.answers_to(url.netloc.decode())
    assert url.params["token"] == TOKEN
    assert "token" not in doors.url()


@pytest.mark.parametrize(("hosts", "opened", "locked"), [
    ([HOST], 200, 200),
    ([HOST.upper()], 200, 200),
    ([f"127.0.0.1:{PORT}"], 200, 200),
    ([f"[::1]:{PORT}"], 200, 200),
    ([f"192.168.1.2:{PORT}"], 421, 200),
    ([f"[fe80::1]:{PORT}"], 421, 200),
    ([f"lab.Example.org:{PORT}"], 421, 200),
    ([f"{socket.gethostname()}:{PORT}"], 421, 200),
    ([], 421, 421),
    ([HOST, HOST], 421, 421),
    ([HOST, "evil.org"], 421, 421),
    (["localhost"], 421, 421),
    (["localhost:"], 421, 421),
    ([f"localhost:0{PORT}"], 421, 421),
    ([f"localhost:{PORT + 1}"], 421, 421),
    ([f"localhost.:{PORT}"], 421, 421),
    ([f"evil.org:{PORT}"], 421, 421),
    ([f"localhost.evil.org:{PORT}"], 421, 421),
    ([f"127.0.0.1.evil.org:{PORT}"], 421, 421),
    ([f"127.1:{PORT}"], 421, 421),
    ([f"::1:{PORT}"], 421, 421),
    ([f"[::1%evil.org]:{PORT}"], 421, 421),
    ([f"{HOST}:{PORT}"], 421, 421),
    ([f"user@{HOST}"], 421, 421),
    ([f"{HOST}, evil.org"], 421, 421),
    ([""], 421, 421),
])
def test_only_the_names_of_this_server_are_answered(hosts, opened, locked):
    assert asked(Lab(), hosts=hosts).status_code == opened
    assert asked(Safety(Lab(), LOCKED), hosts=hosts).status_code == locked


def test_port_80_needs_no_port():
    app = Safety(Lab(), Doors("127.0.0.1", 80, TOKEN))
    for host, origin in (("localhost", "http://localhost"), ("localhost:80", "http://localhost")):
        answer = asked(app, "POST", "/api/x", {"origin": origin}, hosts=[host])
        assert answer.status_code == 200
    assert asked(app, hosts=["localhost:8080"]).status_code == 421


@given(st.text(max_size=30) | st.from_regex(r"[a-z0-9.\[\]:]{1,30}", fullmatch=True))
@example(HOST + "\n")
def test_no_other_host_is_local(host):
    local = {f"{name}:{PORT}" for name in ("localhost", "127.0.0.1", "[::1]")}
    assert OPEN.answers_to(host) == (host.lower() in local)


# origins


@pytest.mark.parametrize(("headers", "status"), [
    ({}, 200),
    ({"origin": f"http://{HOST}"}, 200),
    ({"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}, 200),
    ({"sec-fetch-site": "none"}, 200),
    ({"origin": "null"}, 403),
    ({"origin": ""}, 403),
    ({"origin": "http://evil.org"}, 403),
    ({"origin": f"http://localhost:{PORT + 1}"}, 403),
    ({"origin": "http://localhost"}, 403),
    ({"origin": f"https://{HOST}"}, 403),
    ({"origin": f"http://127.0.0.1:{PORT}"}, 403),
    ({"origin": f"http://{HOST}.evil.org"}, 403),
    ({"origin": f"http://{HOST}", "sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "same-site"}, 403),
    ({"sec-fetch-site": "cross-site"}, 403),
    ([("origin", f"http://{HOST}"), ("origin", "http://evil.org")], 403),
])
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_pages_of_other_sites_change_nothing(method, headers, status):
    lab = Lab()
    assert asked(lab, method, "/api/x", headers).status_code == status
    assert lab.reached == ["/api/x"] * (status == 200)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_sites_may_link_to_pages_but_not_read_the_api(site):
    assert asked(Lab(), path="/", headers={"sec-fetch-site": site}).status_code == 200
    assert asked(Lab(), path="/api/x", headers={"sec-fetch-site": site}).status_code == 403
    assert asked(Lab(), path="/api/x", headers={"sec-fetch-site": "same-origin"}).is_success


@pytest.mark.parametrize("kind", [
    "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain",
    "text/plain; application/json", "application/jsonp", "", None,
])
def test_forms_are_not_taken(kind):
    lab = Lab()
    headers = {} if kind is None else {"content-type": kind}
    assert asked(lab, "POST", "/api/x", headers, content=b"{}").status_code == 415
    assert lab.reached == []
    good = {"content-type": "Application/JSON; charset=utf-8"}
    assert asked(lab, "POST", "/api/x", good, content=b"{}").json()["length"] == 2


# tokens


@pytest.mark.parametrize("doors", [OPEN, LOCKED])
def test_the_token_opens_by_header_and_once_by_address(doors):
    ask = functools.partial(asked, Safety(Lab(), doors), bearer="")
    assert ask().status_code == ask(path="/api/x").status_code == 401
    assert ask(headers={"authorization": f"bearer {TOKEN}"}).status_code == 200
    moved = ask(path=f"/a/b?x=1&token={TOKEN}&y=%20")
    assert (moved.status_code, moved.headers["location"]) == (303, "/a/b?x=1&y=%20")
    name, value, flags = re.split("; |=", moved.headers["set-cookie"], maxsplit=2)
    assert (name, str(PORT) in name) == (COOKIE, True)
    assert set(flags.split("; ")) == {"HttpOnly", "SameSite=Lax", "Path=/"}
    assert TOKEN not in value
    assert ask(headers={"cookie": f"other=1; {name}={value}"}).status_code == 200
    for path in (f"/api/x?token={TOKEN}", "/?token=", "/?token=wrong", f"/?Token={TOKEN}"):
        assert ask(path=path).status_code == 401
    assert ask("POST", f"/?token={TOKEN}").status_code == 401


@pytest.mark.parametrize("wrong", [
    "", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "é", f"{TOKEN},{TOKEN}",
])
def test_a_wrong_token_opens_nothing(wrong):
    lab = Lab()
    app = Safety(lab, LOCKED)
    for headers in ({"authorization": f"Bearer {wrong}".encode()}, {"authorization": TOKEN},
                    {"cookie": f"{COOKIE}={wrong}".encode()}, {"cookie": f"{COOKIE}={TOKEN}"}):
        assert asked(app, headers=headers, bearer="").status_code == 401
    assert lab.reached == []


def test_wrong_tokens_slow_down_who_sends_them_and_nobody_else_at_the_address():
    """Behind one proxy, or on one machine, all visitors have the same address."""
    now = [0.0]
    app = Safety(Lab(), LOCKED, clock=lambda: now[0])
    ask = functools.partial(asked, app, client="10.0.0.1")
    honest = {"cookie": entered(app)}
    for _ in range(20):
        assert ask(bearer="wrong").status_code == 401
        now[0] += 1
    late = ask(bearer="wrong")
    assert (late.status_code, late.headers["retry-after"]) == (429, "60")
    assert ask(headers=honest, bearer="").status_code == 200
    assert ask().status_code == 200  # who has the right token does not guess
    assert ask(bearer="").status_code == 401
    assert asked(app, bearer="wrong", client="10.0.0.2").status_code == 401
    now[0] = 60.5
    assert ask(bearer="wrong").status_code == 401


def test_many_addresses_do_not_fill_the_memory_and_one_household_is_one():
    wrong = WrongTokens(lambda: 0.0)
    for number in range(20_000):
        wrong.count(f"10.0.{number // 256}.{number % 256}", 1)
    assert len(wrong._times) < 5000
    for number in range(20):
        wrong.count(f"2001:db8::{number:x}", 1)
    assert wrong.too_many("2001:db8::ffff")
    assert not wrong.too_many("2001:db8:0:1::1")


# sessions


def entered(app, token=TOKEN, cookie=""):
    """Come in with a token by the address; give the cookie with which one goes on."""
    headers = {"cookie": cookie} if cookie else {}
    moved = asked(app, path=f"/?token={token}", headers=headers, bearer="")
    assert moved.status_code == 303
    return moved.headers["set-cookie"].partition(";")[0]


def who(app, bearer="", **headers):
    told = asked(app, path="/api/x", headers=headers, bearer=bearer).json()
    return told["session"], told["owner"]


def test_the_server_gives_out_sessions_and_knows_them_again():
    app = Safety(Lab(), LOCKED)
    cookies = [entered(app) for _ in range(3)]
    visitors = [who(app, cookie=one) for one in cookies]
    assert len({session for session, _ in visitors}) == 3
    assert all(owner and re.fullmatch("[0-9a-f]{32}", session) for session, owner in visitors)
    assert "set-cookie" not in asked(app, headers={"cookie": cookies[0]}, bearer="").headers
    assert entered(app, cookie=cookies[0]) == cookies[0]
    # and so does the next server with the same token, but none with another one
    assert who(Safety(Lab(), LOCKED), cookie=cookies[0]) == visitors[0]
    other = Safety(Lab(), Doors("0.0.0.0", PORT, TOKEN[::-1]))
    assert asked(other, headers={"cookie": cookies[0]}, bearer="").status_code == 401


def test_nobody_chooses_a_session():
    """Else one client were many visitors, who together take the places of all others."""
    lab = Lab()
    app = Safety(lab, LOCKED)
    value = entered(app, LOCKED.keys.guest).partition("=")[2]
    session, role, signature = value.split(".")
    made_up = [f"{number:032x}" for number in range(70)]
    for bad in (*made_up, "", f"{session}.owner.{signature}", f"{made_up[0]}.{role}.{signature}",
                f"{session}.{role}", value + "x", value.upper(), f"{session}.{role}.{'A' * 32}"):
        answer = asked(app, headers={"cookie": f"{COOKIE}={bad}"}, bearer="")
        assert answer.status_code == 401, bad
        # taken back, and not counted: a page left open since the last start is no attack
        assert "Max-Age=0" in answer.headers["set-cookie"]
    assert lab.reached == []
    # who has the token but no session is one visitor, whatever its cookies say
    visitors = {who(app, TOKEN, cookie=f"{COOKIE}={bad}.owner.{signature}") for bad in made_up}
    assert visitors == {("owner at 127.0.0.1", True)}


def test_guests_have_a_token_of_their_own_and_it_makes_no_owner():
    app, keys = Safety(Lab(), LOCKED), LOCKED.keys
    assert len(keys.guest) == 32
    assert keys.guest != TOKEN
    guest = entered(app, keys.guest)
    session, owner = who(app, cookie=guest)
    assert not owner
    assert who(app, keys.guest) == ("guest at 127.0.0.1", False)
    # the owner's token makes the same visitor the owner, and that does not wear off
    risen = entered(app, TOKEN, guest)
    assert who(app, cookie=risen) == (session, True)
    assert entered(app, keys.guest, risen) == risen
    assert who(app, TOKEN, cookie=guest) == (session, True)


# sizes, paths, methods


@pytest.mark.parametrize(("path", "limit"), [
    ("/api/x", 64 * KILOBYTE), ("/api/playground/x", 2048 * KILOBYTE),
])
@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_have_a_limit(path, limit, chunked):
    async def chunks(size):
        for start in range(0, size, 1000):
            yield bytes(min(1000, size - start))

    for size, status in ((limit, 200), (limit + 1, 413)):
        content = chunks(size) if chunked else bytes(size)
        answer = asked(Lab(), "POST", path, JSON, content=content)
        assert answer.status_code == status
        assert answer.json().get("length", limit) == limit


@pytest.mark.parametrize("length", [str(64 * KILOBYTE + 1), "9" * 30, "9" * 5000])
def test_a_declared_length_is_refused_before_a_byte_is_read(length):
    async def unread():
        raise AssertionError("the body was read")
        yield b""

    headers = {**JSON, "content-length": length}
    assert asked(Lab(), "POST", "/api/x", headers, content=unread()).status_code == 413


def test_long_addresses_are_refused():
    assert asked(Lab(), path="/" + "a" * 8000).status_code == 200
    for path in ("/" + "a" * 8200, "/?" + "a" * 8200):
        assert asked(Lab(), path=path).status_code == 414


tricky = st.lists(st.sampled_from([
    "/", ".", "..", "\\", "a", "%2e", "%2E", "%2f", "%5C", "%00", "%25", "25", "2e", "2f", "%0a",
    "%",
]), max_size=8).map("".join)


@given(tricky)
@settings(max_examples=500, deadline=None)
@example("%252e%252e%252fsecret")
@example("%25252e%25252e")
@example("%2%65%2%65/")
def test_what_reaches_the_application_never_climbs(tail):
    lab, raw = Lab(), f"/{tail}"
    sent = called(Safety(lab, OPEN), path=unquote(raw), raw_path=raw.encode())
    assert sent[0]["status"] == (200 if lab.reached else 404)
    path = raw if lab.reached else ""
    for _ in range(10):
        assert not re.search(r"\.\.|//|\\|[\x00-\x1f]", path)
        path = unquote(path)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "TRACE", "CONNECT", "BREW", "get"])
def test_other_methods_are_not_there(method):
    lab = Lab()
    (start, _) = called(Safety(lab, OPEN), method=method)
    assert start["status"] == 405
    assert b"GET" in dict(start["headers"])[b"allow"]
    assert lab.reached == []


# answers


@pytest.mark.parametrize(("status", "request_"), [
    (200, {}), (200, {"path": "/api/x"}), (500, {"path": "/boom"}), (405, {"method": "PUT"}),
    (421, {"hosts": []}), (403, {"method": "POST", "headers": {"origin": "null"}}),
    (415, {"method": "POST", "content": b"x"}), (414, {"path": "/" + "a" * 9000}),
    (404, {"path": "/a//b"}), (413, {"method": "POST", "headers": JSON, "content": BIG}),
])
def test_every_answer_is_dressed(status, request_):
    answer = asked(Lab(), **request_)
    assert answer.status_code == status
    assert answer.headers.keys() >= DRESSED
    assert "server" not in answer.headers
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy.replace("style-src-attr 'unsafe-inline'", "")
    api = request_.get("path", "").startswith("/api")
    assert answer.headers["cache-control"] == ("no-store" if api else "no-cache")


def test_the_application_may_have_its_own_policy_and_cache_but_no_more():
    headers = asked(Lab(), path="/own").headers
    assert headers.get_list("content-security-policy") == ["img-src 'none'"]
    assert headers.get_list("cache-control") == ["max-age=9"]
    assert headers.get_list("referrer-policy") == ["no-referrer"]
    assert asked(Safety(Lab(), OPEN, policy="x")).headers["content-security-policy"] == "x"


def test_errors_are_one_sentence_for_people_and_for_programs():
    path = "/<script>alert(1)</script>/a//b"
    page = asked(Lab(), path=path, headers=PAGE)
    assert page.headers["content-type"].startswith("text/html")
    assert "alert" not in page.text
    for answer in (asked(Lab(), path=path), asked(Lab(), path="/api//x", headers=PAGE)):
        assert list(answer.json()) == ["error"]
        assert answer.json()["error"] in page.text


@pytest.mark.parametrize("left", [True, False])
def test_no_answer_is_a_mistake_unless_the_client_has_left(caplog, left):
    async def silent(scope, receive, send):
        await receive()
        await receive()

    messages = ("http.request", "http.disconnect" if left else "http.request")
    sent = called(Safety(silent, OPEN), *messages)
    assert bool(sent) == ("gave no answer" in caplog.text) == (not left)


def test_what_breaks_is_logged_and_not_told(caplog):
    answer = asked(Lab(), path="/boom", headers=PAGE)
    assert answer.status_code == 500
    assert "secret of the server" not in answer.text
    assert "RuntimeError" not in answer.text
    assert "a secret of the server" in caplog.text
    assert {record.name for record in caplog.records} == {"principia.web"}


@pytest.mark.parametrize("path", ["/", "/api/x", "/own", "/a//b", "/boom"])
def test_head_is_get_without_a_body(path):
    got, only = (asked(Lab(), method, path) for method in ("GET", "HEAD"))
    assert only.content == b""
    assert only.status_code == got.status_code
    one, other = ({**answer.headers, "set-cookie": ""} for answer in (got, only))
    assert one == other


def test_no_websockets_but_the_lifespan():
    lab = Lab()
    assert called(Safety(lab, OPEN), type="websocket")[0]["type"] == "websocket.close"
    assert lab.reached == []


# a real server


@pytest.fixture(scope="module")
def guarded():
    hours = itertools.count(0, 3600)  # so many wrong tokens would be too many in less time
    with serving(head_seconds=1, options={"clock": hours.__next__}) as server:
        yield server


def unlocked(server, line, *headers):
    return head(server, line, "Connection: close", *headers)


def test_a_real_server_says_no_more_than_it_must(guarded):
    answer = said(guarded, unlocked(guarded, "HEAD / HTTP/1.1"))
    lines = answer.decode().lower().split("\r\n")
    names = [line.partition(":")[0] for line in lines]
    assert lines[0] == "http/1.1 200 ok"
    assert {*names} >= DRESSED
    assert "server" not in names
    assert "content-length: 9" in lines
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("target", [
    "/../secret", "/a/../../secret", "/..", "//evil.org/", "/a//b", "/%2e%2e/secret",
    "/%2E./secret", "/..%2fsecret", "/%2fsecret", "/..%5csecret", "/\\secret", "/a%00b",
    "/%252e%252e/secret", "/a%2fb", "/a%2Eb", "http://localhost/secret", "*", "secret",
    "/%c0%ae%c0%ae/..",
])
def test_raw_paths_do_not_climb(guarded, target):
    before = len(guarded.lab.reached)
    answer = said(guarded, unlocked(guarded, f"GET {target} HTTP/1.1"))
    assert re.match(rb"HTTP/1.1 40[04] ", answer)
    assert len(guarded.lab.reached) == before


def test_one_host_is_wanted_on_the_wire_too(guarded):
    token = f"Authorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    for hosts in ("", f"Host: localhost:{guarded.port}\r\n" * 2, "Host: evil.org\r\n"):
        for version in ("1.0", "1.1"):
            answer = said(guarded, f"GET / HTTP/{version}\r\n{hosts}{token}".encode())
            assert re.match(rb"HTTP/1.1 4(00|21) ", answer)


lines = st.sampled_from([
    b"Content-Length: 3", b"Content-Length: -1", b"Transfer-Encoding: chunked", b"Host: evil.org",
    b"Authorization: Bearer x", b"Cookie: principia_token_1=x", b"Upgrade: websocket", b": x",
    b"Expect: 100-continue", b"Connection: keep-alive, Upgrade", b"X-Forwarded-For: 1.2.3.4",
]) | st.binary(max_size=20)
requests = st.builds(
    lambda method, target, version, more, body: (b"%s %s HTTP/%s" % (method, target, version),
                                                 more, body),
    st.sampled_from([b"GET", b"HEAD", b"POST", b"OPTIONS", b"PRI"]) | st.binary(max_size=5),
    st.sampled_from([b"/", b"/?token=x", b"*", b"//", b"/api/x"]) | st.binary(max_size=20),
    st.sampled_from([b"1.1", b"1.0", b"2.0", b""]), st.lists(lines, max_size=4),
    st.binary(max_size=30),
)


@given(requests | st.binary(max_size=200))
@settings(max_examples=150, deadline=None)
def test_no_bytes_kill_the_server_or_open_the_door(guarded, noise):
    whole = isinstance(noise, tuple)
    if whole:
        first, more, body = noise
        host = b"Host: localhost:%d" % guarded.port
        noise = b"\r\n".join([first, host, b"Connection: close", *more, b"", body])
    with connected(guarded) as client:
        client.sendall(noise)
        if not whole:
            client.shutdown(socket.SHUT_WR)
        answer = rest_of(client)
    assert b"SECRET" not in answer
    assert re.match(rb"HTTP/1.1 4" if whole else rb"HTTP/1.1 4|$", answer)
    assert said(guarded, unlocked(guarded, "GET / HTTP/1.1")).endswith(b"SECRET")


def test_what_is_no_http_is_counted_and_not_told_each_time(caplog, monkeypatch):
    monkeypatch.setattr(slow_clients._quiet, "count", 0)
    with serving() as server, caplog.at_level("WARNING"):
        for _ in range(120):
            assert said(server, b"this is no HTTP\r\n\r\n").startswith(b"HTTP/1.1 400")
    told = [record.getMessage() for record in caplog.records]
    assert told == [f"{number} invalid requests so far" for number in (1, 10, 100)]


@pytest.mark.parametrize("right", [True, False])
def test_a_head_with_a_broken_body_is_answered_once_and_logs_nothing(caplog, right):
    """Both come at once: the head is good, so that the application is asked; the rest is none."""
    chunked = ("Transfer-Encoding: chunked", "Content-Type: application/json")
    with serving() as server, caplog.at_level("WARNING"):
        first = head(server, "POST /api/x HTTP/1.1", *chunked)
        if not right:  # refused by the head alone
            first = first.replace(TOKEN.encode(), b"a wrong one")
        answer = said(server, first + b"this is no length of a chunk\r\n")
        assert answer.startswith(b"HTTP/1.1 400")
        assert answer.count(b"HTTP/1.1") == 1
        assert said(server, head(server, "GET / HTTP/1.1", "Connection: close")).endswith(b"SECRET")
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


def test_half_an_answer_is_cut_off_and_the_next_is_whole():
    with serving() as server:
        browser = http.client.HTTPConnection("localhost", server.port, timeout=5)
        with contextlib.closing(browser):
            browser.request("GET", "/late", headers=BEARER)
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                browser.getresponse().read()
        assert said(server, head(server, "GET / HTTP/1.1", "Connection: close")).endswith(b"SECRET")


def test_head_of_a_stream_ends(guarded):
    start = time.monotonic()
    assert said(guarded, unlocked(guarded, "HEAD /stream HTTP/1.1")).startswith(b"HTTP/1.1 200")
    assert time.monotonic() - start < 10  # the stream itself has no end


# slow clients


def test_a_thousand_slow_heads_do_not_stop_the_others():
    assert raise_file_limit() >= 4096
    with serving(head_seconds=4.0) as server, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(server)) for _ in range(1000)]
        text = iter(head(server, "GET / HTTP/1.1", "X: " + "a" * 1000))
        assert soon(lambda: server.open() == 1000)
        last, crowded = time.monotonic(), 0  # the server has now seen them all
        while time.monotonic() < last + 2.5:
            byte = bytes([next(text)])
            for client in slow:
                with contextlib.suppress(ConnectionError):
                    client.send(byte)
            start = time.monotonic()
            answer = said(server, head(server, "GET / HTTP/1.1", "Connection: close"))
            assert answer.endswith(b"SECRET")
            assert time.monotonic() - start < 10
            crowded += server.open() > 500
        assert crowded
        time.sleep(max(0.0, last + 4.0 - time.monotonic()))
        assert soon(lambda: server.open() == 0, 5)
        assert all(is_closed(client) for client in slow)


def test_a_slow_second_head_is_not_waited_for_either():
    with serving(head_seconds=0.6, keep_alive=1) as server, connected(server) as client:
        for _ in range(2):
            client.sendall(head(server))
            assert read_until(client, b"SECRET")
        assert 0.5 < dribbled(client, 5) < 2


def test_an_idle_connection_stays_as_long_as_keep_alive_says():
    with serving(head_seconds=5, keep_alive=1) as server, connected(server) as client:
        client.sendall(head(server) * 2)  # pipelined
        start = time.monotonic()
        assert rest_of(client).count(b"SECRET") == 2
        assert 0.8 < time.monotonic() - start < 4.5  # the limit of a head would be 5


def test_a_slow_body_is_not_waited_for():
    lab = Lab()
    with serving(lab, options={"body_seconds": 0.5}) as server, connected(server) as client:
        client.sendall(head(server, "POST /api/x HTTP/1.1", "Content-Length: 1000",
                            "Content-Type: application/json"))
        assert 0.4 < dribbled(client, 5) < 2
        client.close()
        with connected(server) as patient:
            patient.sendall(head(server, "POST /api/x HTTP/1.1", "Content-Length: 1000",
                                 "Content-Type: application/json"))
            assert rest_of(patient).startswith(b"HTTP/1.1 408 ")
    assert lab.reached == []


def test_a_body_without_end_is_answered_and_cut_off():
    with serving(head_seconds=0.6) as server, connected(server) as client:
        client.sendall(head(server, "POST /api/x HTTP/1.1", "Transfer-Encoding: chunked",
                            "Content-Type: application/json"))
        for _ in range(70):
            client.sendall(b"400\r\n" + bytes(1024) + b"\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 413 ")
        assert dribbled(client, 5, b"1\r\na\r\n") < 2


def test_nonsense_after_the_answer_only_ends_the_connection(caplog):
    with serving() as server, connected(server) as client:
        client.sendall(head(server, "POST /api/x HTTP/1.1", "Transfer-Encoding: chunked"))
        assert read_until(client, b"}")  # refused: it is not JSON
        client.sendall(b"this is no chunk\r\n")
        assert rest_of(client) == b""
    assert "asyncio" not in {record.name for record in caplog.records}


def test_an_answer_that_was_read_late_is_forgiven():
    with serving(unread_seconds=0.5) as server, connected(server, small=True) as client:
        for _ in range(2):
            client.sendall(head(server, "GET /middle HTTP/1.1"))
            time.sleep(0.2)
            assert read_until(client, BIG[:60_000])
            time.sleep(0.6)


@pytest.mark.parametrize("path", ["/big", "/middle"])
@pytest.mark.parametrize("connection", ["close", "keep-alive"])
def test_an_answer_that_nobody_reads_is_dropped(path, connection):
    with serving(unread_seconds=0.5) as server, connected(server, small=True) as client:
        client.sendall(head(server, f"GET {path} HTTP/1.1", f"Connection: {connection}"))
        assert soon(lambda: server.open() == 1, 1)
        time.sleep(0.3)
        assert server.open() == 1
        assert soon(lambda: server.open() == 0, 1.5)


def test_answers_that_nobody_reads_take_a_bounded_memory():
    """What is kept for all is counted once; what was made for one is refused beyond the bound."""
    room = {"under_way": UnderWay(3 * len(BIG))}
    with serving(options=room) as server, contextlib.ExitStack() as stack:
        def ask(path):
            client = stack.enter_context(connected(server, small=True))
            client.sendall(head(server, f"GET {path} HTTP/1.1", "Connection: close"))
            return client, client.recv(12)

        same = [ask("/big") for _ in range(10)]
        own = [ask("/new") for _ in range(3)]
        assert [status for _, status in same] == [b"HTTP/1.1 200"] * 10
        assert [status for _, status in own] == [b"HTTP/1.1 200"] * 2 + [b"HTTP/1.1 503"]
        assert b"many large answers" in rest_of(own[2][0])
        own[0][0].close()
        assert soon(lambda: server.open() == 11)
        assert ask("/new")[1] == b"HTTP/1.1 200"


@pytest.mark.parametrize("sip", [1, 4 * KILOBYTE])
def test_reading_a_sip_now_and_then_is_not_reading(sip):
    hurry = {"unread_seconds": 0.5, "unread_bytes": 1_000_000}
    with serving(**hurry) as server, connected(server, small=True) as client:
        client.sendall(head(server, "GET /big HTTP/1.1"))
        assert client.recv(1)
        start = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while server.open() and time.monotonic() < start + 5:
                client.recv(sip)
                time.sleep(0.02)
        assert time.monotonic() - start < 4.5


def test_a_slow_reader_who_goes_on_gets_everything():
    with serving(unread_seconds=0.5, keep_alive=1) as server, connected(server) as client:
        client.sendall(head(server, "GET /big HTTP/1.1", "Connection: close"))
        start, read = time.monotonic(), 0
        while more := client.recv(1 << 16):
            read += len(more)
            time.sleep(0.01)
        assert read > len(BIG)
        assert time.monotonic() - start > 1  # twice as long as an unread answer may stay


def test_a_stream_with_nothing_to_say_is_left_alone():
    hurry = {"unread_seconds": 0.3, "head_seconds": 0.3, "options": {"body_seconds": 0.3}}
    with serving(**hurry) as server, connected(server) as client:
        client.sendall(head(server, "GET /stream HTTP/1.1", "Connection: close"))
        assert re.search(rb"first.*second.*SECRET", rest_of(client), re.DOTALL)


@pytest.mark.parametrize("bound", ["most_connections", "most_of_one_address"])
def test_connections_are_bounded(bound):
    with serving(**{bound: 5}) as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connected(server)) for _ in range(5)]
        assert soon(lambda: server.open() == 5)
        assert said(server, b"") == b""
        assert not any(is_closed(client) for client in clients)
        clients[0].close()
        assert soon(lambda: server.open() == 4)
        assert said(server, head(server, "GET / HTTP/1.1", "Connection: close")).endswith(b"SECRET")


def test_the_file_limit_goes_as_high_as_it_may():
    code = (
        "import resource as r;"
        "from principia.lab.web.gate.slow_clients import raise_file_limit as f;"
        "hard = r.getrlimit(r.RLIMIT_NOFILE)[1]; r.setrlimit(r.RLIMIT_NOFILE, (128, hard));"
        "n = f(); assert f() == n; assert r.getrlimit(r.RLIMIT_NOFILE)[0] == n;"
        "assert n == (65536 if hard == r.RLIM_INFINITY else min(hard, 65536))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

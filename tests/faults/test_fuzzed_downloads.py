"""Whatever a server answers, a download is whole and right, or nothing is kept and a sentence."""

import hashlib
import io
import socket
import threading
import zipfile

import numpy as np
import pytest

from fuzzing import damaged, guarded
from principia.lab.data import files
from principia.lab.data.files import Remote, RemoteFolder, find, find_folder
from principia.lab.params import UsageError

CASES = 100  # of a chunk
BODY = bytes(range(256)) * 20
LINES = (
    b"HTTP/1.1 200 OK", b"HTTP/1.0 200", b"HTTP/1.1 204 No Content", b"HTTP/1.1 206 Part",
    b"HTTP/1.1 302 Found", b"HTTP/1.1 301 ", b"HTTP/1.1 404 Not\tFound", b"HTTP/1.1 500 \xff\xfe",
    b"HTTP/1.1 200 " + b"x" * 70_000, b"HTTP/9.9 200 OK", b"HTTP/1.1 999 Hm", b"HTTP/1.1 abc", b"",
    b"ICY 200 OK", b"\x00\x01\x02", b"HTTP/1.1 100 Continue", b"HTTP/1.1 401 No", b"HTTP/1.1 -1 No",
)
HEADERS = (
    b"Content-Length: 3", b"Content-Length: -1", b"Content-Length: many", b"Content-Length: 9" * 3,
    b"Content-Length: " + b"9" * 40, b"Transfer-Encoding: chunked", b"Content-Encoding: gzip",
    b"Location: ftp://127.0.0.1:1/a", b"Location: file:///etc/hostname", b"Location: //",
    b"Location:", b"Location: http://[::1", b"Location: https://127.0.0.1:1/", b"Location: /moved",
    b"Location: \xff", b"no colon", b": nothing", b"A: " + b"x" * 70_000, b"A: b\r\n" * 120,
    b"WWW-Authenticate: Digest", b"Connection: close", b"Content-Type: \xff; charset=\xff",
)
CHUNKS = (
    b"5\r\nabcde\r\n0\r\n\r\n", b"zz\r\nabc", b"-1\r\nabc", b"f" * 16 + b"\r\nabc", b"5\r\nab",
)
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)


def one_of(rng, things):
    return things[int(rng.integers(0, len(things)))]


@pytest.fixture(scope="module")
def server():
    """A server that says what it is told to, byte by byte, and hangs up."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.listen(64)
    answers = {"now": b""}

    def serve():
        while True:
            try:
                caller, _ = listening.accept()
            except OSError:
                return
            with caller:
                caller.settimeout(5)
                try:
                    caller.recv(65_536)
                    caller.sendall(answers["now"])
                    caller.shutdown(socket.SHUT_WR)
                    while caller.recv(65_536):
                        pass
                except OSError:  # the other side has read enough
                    pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", answers
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("PRINCIPIA_OFFLINE", "PRINCIPIA_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PRINCIPIA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(files, "SCHEMES", ("https", "http"))  # the server of the tests
    return tmp_path / "cache/data"


def answer(body, rng):
    """Write what a server says: right, odd, or damaged."""
    line, headers = LINES[0], [b"Content-Length: %d" % len(body)]
    how = rng.random()
    if how < 0.4:
        line = one_of(rng, LINES)
    if 0.2 < how < 0.6:
        headers = [one_of(rng, HEADERS) for _ in range(rng.integers(0, 4))]
        if rng.random() < 0.3:
            body = one_of(rng, CHUNKS)
    said = b"\r\n".join([line, *headers, b"", body])
    if how > 0.7:
        said = damaged(said[:400], rng) + said[400:]
    return said[:int(rng.integers(0, len(said)))] if rng.random() < 0.2 else said


def zipped(body, rng):
    """Pack a body; a damaged archive is one that inflates to something else, or not at all."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", one_of(rng, PACKINGS)) as archive:
        archive.writestr("text", body)
    return damaged(stream.getvalue(), rng) if rng.random() < 0.7 else stream.getvalue()


def found(server, rng):
    """Ask for a file, a file of an archive, or a folder; give the bytes that were kept."""
    url, answers = server
    digest = hashlib.sha256(BODY).hexdigest()
    kind = rng.integers(0, 3)
    if kind == 0:
        answers["now"] = answer(BODY, rng)
        return find("set/file", remote=Remote(url, len(BODY), digest)).read_bytes()
    if kind == 1:
        body = zipped(BODY + b"more", rng)
        answers["now"] = answer(body, rng) if rng.random() < 0.3 else (
            b"HTTP/1.1 200 OK\r\n\r\n" + body)
        remote = Remote(url, len(BODY), digest, zipped=len(body))
        return find("set/file", remote=remote).read_bytes()
    answers["now"] = answer(BODY, rng)
    sums = "".join(f"{digest}  {name}\n" for name in "ab")
    remote = RemoteFolder(url, "ab", hashlib.sha256(sums.encode()).hexdigest())
    return (find_folder("set", remote) / "a").read_bytes()


def forget(home):
    for one in home.glob("set/*"):
        one.unlink()
    if (home / "set").exists():
        (home / "set").rmdir()


@pytest.mark.sampled(8)
@pytest.mark.parametrize("chunk", range(80))
def test_any_answer_gives_the_right_bytes_or_a_sentence(server, home, chunk):
    refusals = []
    for place in range(CASES):
        with guarded():
            try:
                body = found(server, np.random.default_rng([chunk, place]))
            except UsageError as error:
                refusals.append(str(error))
                body = None
        assert body in (None, BODY)
        assert bool(body) == bool(list(home.glob("set/*")))
        assert not list(home.glob(".incoming-*"))
        forget(home)
    assert 0 < len(refusals) < CASES, "a fuzzer whose answers are all alike proves nothing"
    assert not [one for one in refusals if "\n" in one]


def test_a_server_that_falls_silent_is_not_waited_for(server, home, monkeypatch):
    monkeypatch.setattr(files, "TIMEOUT", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UsageError, match="timed out"):
            find("set/file", remote=Remote(url, 9, "0"))

"""`principia serve` as a process: its messages, its doors, its end, and how hard it is to kill."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from commands import principia
from principia.lab.params import UsageError
from principia.lab.web import server
from web.doors import BEARER, SERVE, TOKEN, environment, program, root_of

CLAIM = "/api/claims/connectionism/hopfield/energy_never_rises"


@pytest.fixture
def started(tmp_path):
    """Starts servers, and sees to it that none is left."""
    processes = []

    def start(*flags):
        process = subprocess.Popen(
            [sys.executable, *SERVE, *flags], cwd=tmp_path, env=environment(tmp_path), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        processes.append(process)
        for line in process.stdout:
            if line.startswith("The course is at "):
                return process, line.split()[-1]
        raise AssertionError("it ended before it began")

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def descendants(pid):
    """All processes below one, as the kernel knows them."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            found += [int(child), *descendants(child)]
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_server_for_others_lets_in_who_has_a_token_and_ctrl_c_ends_all_below_it(started):
    """Not even the forkserver is left alive; the next measurement starts another."""
    process, address = started("--host", "0.0.0.0")
    root, token = address.split("?token=")
    nobody_comes_in_without_the_token(root.rstrip("/"), token)
    assert token.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    guests = [process.stdout.readline() for _ in range(2)][1]
    assert guests.startswith("Guests come in at ")
    with httpx.Client(follow_redirects=True) as guest:
        assert guest.get(guests.split()[-1]).status_code == 200

    with program(root_of(address)) as inside:
        before = inside.post(CLAIM, json={"knobs": {"nets": 2}}).json()
        for pid in descendants(process.pid):
            os.kill(pid, signal.SIGKILL)
        assert inside.get("/").status_code == 200
        after = inside.post(CLAIM, json={"knobs": {"nets": 2}, "seed": 1}, timeout=90)
    assert after.status_code == 200
    assert after.json()["observation"]["verdict"] == before["observation"]["verdict"] == "holds"

    below = descendants(process.pid)
    assert below
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    rest = process.stdout.read()
    assert "Stopped." in rest
    assert "Traceback" not in rest
    deadline = time.monotonic() + 15
    while any(alive(one) for one in below) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [one for one in below if alive(one)]


def test_nobody_comes_in_without_the_token(server):
    nobody_comes_in_without_the_token(server, TOKEN)


def nobody_comes_in_without_the_token(root, token):
    assert token == TOKEN
    for where in ("/", "/networks/mlp", "/api/runs"):
        answer = httpx.get(root + where)
        assert answer.status_code == 401, where
        assert "token" in answer.json()["error"]
    assert httpx.get(f"{root}/?token=wrong").status_code == 401
    with httpx.Client() as browser:
        first = browser.get(f"{root}/?token={token}")
        assert (first.status_code, first.headers["location"]) == (303, "/")
        assert browser.get(root).status_code == 200
        assert browser.get(f"{root}/api/runs").is_success
    assert httpx.get(f"{root}/api/runs", headers=BEARER).is_success


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """Serves without serving: gives what a browser was asked to open, and what was there then."""

    def serve(**options):
        seen = []

        def browse(address):
            page = Path(address.removeprefix("file://"))
            modes = [oct(one.stat().st_mode & 0o777) for one in (page.parent, page)]
            seen.append((address, modes, page.read_text(), page))

        monkeypatch.setattr(server.webbrowser, "open", browse)
        monkeypatch.setattr(server, "create_app", lambda *_, **__: None)
        monkeypatch.setattr(server.uvicorn.Server, "run", lambda *_: None)
        said = []
        given = {"host": "127.0.0.1", "port": 0, "names": (), "data_dir": None, "browser": True,
                 "allow_root": True, **options}
        server.serve(**given, runs_dir=tmp_path, say=said.append)
        return seen, said

    return serve


def test_the_browser_gets_the_token_through_a_file_that_only_its_user_reads(opened, monkeypatch):
    monkeypatch.delenv("PRINCIPIA_TOKEN", raising=False)
    ((address, modes, text, page),), said = opened()
    token = said[1].partition("?token=")[2]
    assert len(token) == 32
    assert address.startswith("file:///")
    assert token not in address
    assert modes == ["0o700", "0o600"]
    assert f"?token={token}" in text
    assert not page.parent.exists()
    assert opened(browser=False)[0] == []


def test_the_token_may_be_set_but_not_to_a_weak_one(opened, monkeypatch):
    monkeypatch.setenv("PRINCIPIA_TOKEN", TOKEN)
    assert opened()[1][1].endswith(f"?token={TOKEN}")
    assert "PRINCIPIA_TOKEN" not in os.environ  # where every process below would find it
    for weak in ("short", "x" * 31, "x" * 32 + "&"):
        monkeypatch.setenv("PRINCIPIA_TOKEN", weak)
        with pytest.raises(UsageError, match="serve: PRINCIPIA_TOKEN must be 32 to 256") as refused:
            opened()
        assert weak not in str(refused.value)


def test_root_does_not_serve_by_accident(opened, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(UsageError, match=r"serve: the user must not be root.*--allow-root"):
        opened(allow_root=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert opened(allow_root=False)[0]


@pytest.mark.parametrize("header", [
    {"host": "evil.example"}, {"host": "localhost.evil.example"}, {"host": "127.0.0.1:1"},
])
def test_a_foreign_host_is_refused(inside, header):
    answer = inside.get("/networks/mlp", headers=header)
    assert answer.status_code == 421
    assert "Multilayer" not in answer.text


@pytest.mark.parametrize("header", [
    {"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"},
    {"origin": "http://127.0.0.1:1"},
])
def test_a_foreign_origin_starts_no_work(inside, header):
    before = inside.get("/api/runs").json()
    for where, body in ((CLAIM, {}), ("/api/runs", {"key": "networks/mlp:hidden_300"})):
        answer = inside.post(where, json=body, headers=header)
        assert answer.status_code == 403, where
    assert inside.get("/api/runs").json() == before


def test_what_is_too_large_is_refused_and_forms_of_other_pages_too(inside):
    assert inside.post(CLAIM, json={"knobs": {"x": "1" * 70_000}}).status_code == 413
    table = {"csv": "x,y\n" + "1,2\n" * 600_000}
    assert inside.post("/api/playground/columns", json=table).status_code == 413
    form = inside.post(CLAIM, data={"seed": "0"})
    assert form.status_code == 415


def test_every_answer_carries_the_policy(inside):
    for where in ("/", "/networks/mlp", "/no/page", "/assets/base.js", "/api/runs", "/api/none"):
        headers = inside.get(where).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_a_missing_page_is_told_as_a_page_to_people(inside):
    answer = inside.get("/no/page", headers={"accept": "text/html"})
    assert answer.status_code == 404
    assert "<h1>Not found</h1>" in answer.text
    assert "error" in inside.get("/no/page").json()


def test_a_vanished_client_frees_its_worker(server, inside):
    """Many clients hang up in the middle of a long measurement; the next one is served."""
    where = urlsplit(server)
    body = b'{"knobs": {"n": 3000, "load": 0.2, "recalled": 50}}'
    address = "/api/claims/connectionism/hopfield/phase_transition"
    for _ in range(12):
        with socket.create_connection((where.hostname, where.port), timeout=10) as line:
            line.sendall(
                f"POST {address} HTTP/1.1\r\nHost: {where.netloc}\r\n"
                f"Authorization: {BEARER['authorization']}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            time.sleep(0.05)
    answer = inside.post(CLAIM, json={"knobs": {"nets": 1}})
    assert answer.status_code == 200


def test_a_taken_port_and_a_wrong_address_get_a_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = principia("serve", "--no-browser", "--allow-root", "--port", port, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        f"serve: --port must be free; {port} is in use. Try --port {port + 1}.\n"
    )
    done = principia("serve", "--no-browser", "--allow-root", "--host", "256.1.1.1", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("serve: --host must be an address of this machine; got")

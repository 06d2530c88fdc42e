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

SERVE = [sys.executable, "-m", "principia", "serve", "--no-browser"]
CLAIM = "/api/claims/connectionism/hopfield/energy_never_rises"


@pytest.fixture
def started(tmp_path):
    """Starts servers, and sees to it that none is left."""
    processes = []

    def start(*flags):
        environment = {**os.environ, "PRINCIPIA_CACHE": str(tmp_path / "cache")}
        process = subprocess.Popen(
            [*SERVE, "--port", "0", *flags], cwd=tmp_path, env=environment, text=True,
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


def test_it_survives_its_workers_and_ctrl_c_ends_everything_below_it(started):
    """Not even the forkserver is left alive; the next measurement starts another."""
    process, address = started()
    root = address.rstrip("/")
    before = httpx.post(root + CLAIM, json={"knobs": {"nets": 2}}, timeout=60).json()
    for pid in descendants(process.pid):
        os.kill(pid, signal.SIGKILL)
    assert httpx.get(root).status_code == 200
    after = httpx.post(root + CLAIM, json={"knobs": {"nets": 2}, "seed": 1}, timeout=90)
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


def test_strangers_need_the_token(started):
    _, address = started("--host", "0.0.0.0")
    root, token = address.split("?token=")
    root = root.rstrip("/")
    for where in ("/", "/networks/mlp", "/api/runs"):
        answer = httpx.get(root + where)
        assert answer.status_code == 401, where
        assert "token" in answer.json()["error"]
    assert httpx.get(f"{root}/?token=wrong").status_code == 401
    with httpx.Client() as browser:
        first = browser.get(f"{root}/?token={token}")
        assert (first.status_code, first.headers["location"]) == (303, "/")
        assert browser.get(root).status_code == 200
        assert browser.get(f"{root}/api/runs").json() == []
    assert httpx.get(f"{root}/api/runs", headers={"authorization": f"Bearer {token}"}).json() == []


@pytest.mark.parametrize("header", [
    {"host": "evil.example"}, {"host": "localhost.evil.example"}, {"host": "127.0.0.1:1"},
])
def test_a_foreign_host_is_refused(server, header):
    answer = httpx.get(f"{server}/networks/mlp", headers=header)
    assert answer.status_code == 421
    assert "Multilayer" not in answer.text


@pytest.mark.parametrize("header", [
    {"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"},
    {"origin": "http://127.0.0.1:1"},
])
def test_a_foreign_origin_starts_no_work(server, header):
    before = httpx.get(f"{server}/api/runs").json()
    for where, body in ((CLAIM, {}), ("/api/runs", {"key": "networks/mlp:hidden_300"})):
        answer = httpx.post(server + where, json=body, headers=header)
        assert answer.status_code == 403, where
    assert httpx.get(f"{server}/api/runs").json() == before


def test_what_is_too_large_is_refused_and_forms_of_other_pages_too(server):
    assert httpx.post(server + CLAIM, json={"knobs": {"x": "1" * 70_000}}).status_code == 413
    table = {"csv": "x,y\n" + "1,2\n" * 600_000}
    assert httpx.post(f"{server}/api/playground/columns", json=table).status_code == 413
    form = httpx.post(server + CLAIM, data={"seed": "0"})
    assert form.status_code == 415


def test_every_answer_carries_the_policy(server):
    for where in ("/", "/networks/mlp", "/no/page", "/assets/base.js", "/api/runs", "/api/none"):
        headers = httpx.get(server + where).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_a_missing_page_is_told_as_a_page_to_people(server):
    answer = httpx.get(f"{server}/no/page", headers={"accept": "text/html"})
    assert answer.status_code == 404
    assert "<h1>Not found</h1>" in answer.text
    assert "error" in httpx.get(f"{server}/no/page").json()


def test_a_vanished_client_frees_its_worker(server):
    """Many clients hang up in the middle of a long measurement; the next one is served."""
    where = urlsplit(server)
    body = b'{"knobs": {"n": 3000, "load": 0.2, "recalled": 50}}'
    address = "/api/claims/connectionism/hopfield/phase_transition"
    for _ in range(12):
        with socket.create_connection((where.hostname, where.port), timeout=10) as line:
            line.sendall(
                f"POST {address} HTTP/1.1\r\nHost: {where.netloc}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            time.sleep(0.05)
    answer = httpx.post(server + CLAIM, json={"knobs": {"nets": 1}}, timeout=60)
    assert answer.status_code == 200


def test_a_taken_port_and_a_wrong_address_get_a_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = principia("serve", "--no-browser", "--port", port, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        f"serve: --port must be free; {port} is in use. Try --port {port + 1}.\n"
    )
    done = principia("serve", "--no-browser", "--host", "256.1.1.1", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("serve: --host must be an address of this machine; got")

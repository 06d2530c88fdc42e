"""A small application with the routes of runs and real workers, and what its tests share."""

import asyncio
import contextlib
import json
import os
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import uvicorn
from fastapi import FastAPI

from principia.lab.runs.folders import RunFolder
from principia.lab.web.gate.answers import answer_errors
from principia.lab.web.gate.sessions import Visitor
from principia.lab.web.processes.shares import Share
from principia.lab.web.processes.workers import Limits, Workers
from principia.lab.web.runs import api, views

SHORT = "gradients/backprop:train_digits"  # a second, with three trainings and two figures
TRAINED = "networks/mlp:hidden_300"  # some seconds, with four trainings
ENDLESS = {"key": TRAINED, "knobs": {"epochs": "50", "units": "1000"}}  # as far as tests go


@contextlib.asynccontextmanager
async def laboratory(folder, data_dir=None):
    """A small application with the routes of runs; x-session says who asks, somebody owns it."""
    workers = Workers(slots=1, waiting=4, limits=Limits(2**30, 30, 30))
    app = FastAPI()
    answer_errors(app)
    app.include_router(api.router)
    app.include_router(views.router)
    app.state.runs = api.Runs(folder, workers, data_dir, share=Share(2, 4 * 2**30))

    async def with_session(scope, receive, send):
        if scope["type"] == "http":
            name = dict(scope["headers"]).get(b"x-session", b"somebody").decode()
            visitor = Visitor(name, owner=name == "somebody")
            scope = {**scope, "state": {**scope.get("state", {}), "visitor": visitor}}
        await app(scope, receive, send)

    transport = httpx.ASGITransport(with_session)
    async with httpx.AsyncClient(transport=transport, base_url="http://lab", timeout=60) as client:
        try:
            yield SimpleNamespace(client=client, runs=app.state.runs, app=with_session)
        finally:
            await app.state.runs.close()
            await workers.close(grace=0.5)


def tell(story, folder, **options):
    """Tell a story in a laboratory; whatever happens, it ends within some minutes."""

    async def whole():
        async with laboratory(folder, **options) as lab:
            return await asyncio.wait_for(story(lab), 180)

    return asyncio.run(whole())


async def begin(lab, body, session="somebody"):
    answer = await lab.client.post("/api/runs", json=body, headers={"x-session": session})
    assert answer.status_code == 202, answer.text
    return answer.json()["name"]


async def until(condition, seconds=60.0):
    """Wait for something that must become true, and give it."""
    end = time.monotonic() + seconds
    while not (found := await condition()):
        assert time.monotonic() < end, "it never became true"
        await asyncio.sleep(0.01)
    return found


async def at_work(lab, name, rows=1):
    """Wait until a run has logged some rows."""

    async def logged():
        described = (await lab.client.get(f"/api/runs/{name}")).json()
        assert described["status"] in ("waiting", "running"), described
        return sum(map(len, described["curves"].values())) >= rows

    await until(logged)


async def over(lab, name):
    """Wait until a run is over, and describe it."""

    async def ended():
        found = (await lab.client.get(f"/api/runs/{name}")).json()
        return found if found["status"] not in ("waiting", "running", "stopping") else None

    return await until(ended)


def events_of(text):
    """Read server-sent events as a browser would: kind, data, id."""
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if "event" in fields:
            yield fields["event"], json.loads(fields["data"]), fields.get("id", "")


def rows_of(events):
    """Put rows together as the page does; whatever is lost or comes twice shows."""
    rows = []
    for kind, data, _ in events:
        if kind == "restart":
            rows = []
        if kind == "rows":
            assert data["from"] == len(rows)
            rows += data["rows"]
    return rows


def logged(folder, name):
    text = (folder / name / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def holders(path):
    """The processes that hold the lock of a run folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            opened = {os.readlink(one) for one in (process / "fd").iterdir()}
            if str(RunFolder(path).lock_file) in opened:
                found.append(int(process.name))
    return found


@contextlib.asynccontextmanager
async def served(lab):
    """The laboratory behind a real socket."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # so that it fills up soon
    settings = uvicorn.Config(lab.app, lifespan="off", log_level="error", ws="none")
    server = uvicorn.Server(settings)
    task = asyncio.create_task(server._serve([listener]))
    try:
        yield listener.getsockname()
    finally:
        server.should_exit = server.force_exit = True
        await task
        listener.close()


async def opened(address, name, size=0):
    """Ask for events over a socket; with a size, one that has only so much room."""
    one = socket.socket()
    if size:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    one.setblocking(False)
    await asyncio.get_running_loop().sock_connect(one, address)
    reader, writer = await asyncio.open_connection(sock=one, limit=max(size, 2**16))
    writer.write(f"GET /api/runs/{name}/events HTTP/1.0\r\nhost: lab\r\n\r\n".encode())
    await writer.drain()
    return reader, writer

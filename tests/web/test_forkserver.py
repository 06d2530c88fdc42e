"""The process that all workers come from, and the server that they work for, may be killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from principia.lab.params import Failure
from principia.lab.web.processes import child_main
from web import jobs
from web.stories import alive, forkserver, pid_in, until, use


def test_the_next_job_works_after_the_forkserver_was_killed_and_the_server_goes_on(tmp_path):
    async def tick(gaps):
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - before)

    async def story(workers):
        await workers.warm_up()
        running = asyncio.create_task(workers.run("a", "nap", jobs.nap, 60, tmp_path / "pid"))
        pid = await pid_in(tmp_path / "pid")
        old = forkserver()
        os.kill(old, signal.SIGKILL)
        gaps = []
        ticking = asyncio.create_task(tick(gaps))
        with pytest.raises(Failure):
            await running
        await until(lambda: not alive(pid))
        assert await workers.run("b", "ready", child_main.ready) == {"warm": True, "broken": {}}
        assert forkserver() != old
        ticking.cancel()
        assert max(gaps) < 3, "the server waited for the forkserver, which takes longer"

    use(story)


SERVER = """
import asyncio, json, sys, os, time
sys.path.insert(0, {tests!r})
from web import jobs
from principia.lab.web.processes import child_main
from principia.lab.web.processes.workers import Limits, Workers

with open({starts!r}, "a") as stream:
    stream.write("start\\n")

async def serve():
    limits = Limits(memory=2**30, cpu=60, wall=60)
    workers = Workers(slots=1, waiting=1, limits=limits)
    facts = await workers.run("me", "ready", child_main.ready)
    facts["loaded"] = await workers.run("me", "loaded", jobs.loaded)
    pids = []
    for politely in (True, False):
        told = asyncio.get_running_loop().create_future()
        heard = lambda message, told=told: told.done() or told.set_result(message["pid"])
        await workers.listen(
            jobs.work_until_stopped, {marks!r} + str(politely), politely, limits=limits, heard=heard
        )
        pids.append(await told)
    chat = await workers.converse(jobs.echo, "me", limits=limits)
    pids.append((await chat.ask({{}}, 10))["pid"])
    job = asyncio.create_task(workers.run("me", "nap", jobs.nap, 60, {marks!r} + "job"))
    while not os.path.exists({marks!r} + "job"):
        await asyncio.sleep(0.01)
    time.sleep(0.05)
    pids.append(int(open({marks!r} + "job").read()))
    print(json.dumps([facts, pids]), flush=True)
    await asyncio.sleep(60)

asyncio.run(serve())
"""


@pytest.fixture(scope="module")
def dead_server(tmp_path_factory):
    """A server without a guarded main, with a broken chapter, in a bad place, killed at work."""
    home = tmp_path_factory.mktemp("server")
    chapter = home / "weeds"
    chapter.mkdir()
    (chapter / "__init__.py").write_text('"""Weeds: `bad` and `worse` come before `good`."""\n')
    (chapter / "bad.py").write_text('"""Bad."""\n1 / 0\n')
    (chapter / "worse.py").write_text('"""Worse."""\nraise SystemExit("weeds")\n')
    (chapter / "good.py").write_text('"""Good."""\n')
    info = home / "weeds-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weeds\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[principia.chapters]\nweeds = weeds\n")
    trap = home / "trap"
    trap.mkdir()
    if sys.version_info >= (3, 11):  # earlier ones always import from the current folder
        (trap / "random.py").write_text("raise SystemExit('the wrong random')\n")
    script = home / "server.py"
    names = {"tests": str(Path(__file__).parents[1]), "starts": str(home / "starts")}
    script.write_text(textwrap.dedent(SERVER).format(**names, marks=str(home / "mark-")))
    paths = [str(home), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, env=environment, cwd=trap
    ) as server:
        try:
            facts, pids = json.loads(server.stdout.readline())
            living = [alive(one) for one in pids]
        finally:
            server.kill()
    killed = time.monotonic()
    return {"facts": facts, "pids": pids, "living": living, "home": home, "killed": killed}


def test_children_do_not_outlive_a_killed_server(dead_server):
    assert dead_server["living"] == [True] * 4
    while any(alive(one) for one in dead_server["pids"]):
        assert time.monotonic() < dead_server["killed"] + 10
        time.sleep(0.05)
    assert (dead_server["home"] / "mark-True").read_text() == "saved"


def test_the_main_script_of_the_server_runs_once(dead_server):
    assert (dead_server["home"] / "starts").read_text() == "start\n"


def test_broken_pages_do_not_stop_the_others_from_being_loaded(dead_server):
    facts = dead_server["facts"]
    assert facts["warm"] is True
    assert facts["broken"]["weeds/bad"] == "ZeroDivisionError: division by zero"
    assert facts["broken"]["weeds/worse"] == "SystemExit: weeds"
    assert facts["loaded"] == {
        "torch": True, "weeds.good": True, "weeds.bad": False, "principia.networks.mlp": True,
    }

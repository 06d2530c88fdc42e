"""Tells stories with workers, and looks at the processes behind them."""

import asyncio
import multiprocessing.forkserver
import time
from pathlib import Path

from principia.lab.web.processes.workers import Limits, Workers

LIMITS = Limits(memory=2**30, cpu=30, wall=30)


def use(story, *, slots=2, waiting=100, limits=LIMITS):
    """Tell a story with workers; whatever happens, it ends within a minute."""

    async def whole():
        workers = Workers(slots=slots, waiting=waiting, limits=limits)
        try:
            return await asyncio.wait_for(story(workers), 60)
        finally:
            await workers.close(grace=0.5)

    return asyncio.run(whole())


def alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


async def until(condition, seconds=60.0):
    """Wait for something that must become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never became true"
        await asyncio.sleep(0.005)


async def pid_in(mark):
    await until(lambda: mark.exists() and mark.read_text())
    return int(mark.read_text())


def forkserver():
    return multiprocessing.forkserver._forkserver._forkserver_pid


def processes():
    """The children of the forkserver, zombies included."""
    return Path(f"/proc/{forkserver()}/task/{forkserver()}/children").read_text().split()


async def listen(workers, function, *args, limits=LIMITS):
    heard = []
    job = await workers.listen(function, *args, limits=limits, heard=heard.append)
    return job, heard

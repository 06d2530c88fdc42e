"""Workers under trouble: killed, greedy, endless and rude, all with real processes."""

import asyncio
import logging
import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

from principia.lab.params import Failure, UsageError
from principia.lab.web.processes import child_main
from principia.lab.web.processes.workers import Crashed, Limits
from web import jobs
from web.stories import LIMITS, alive, pid_in, processes, until, use


def test_the_server_itself_loads_nothing_that_computes():
    loads = "import sys; from principia.lab.web.processes import work, workers"
    program = f"{loads}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n"


def test_a_result_comes_back_from_a_process_of_its_own_that_has_everything_loaded():
    async def story(workers):
        assert await workers.run("me", "sum", jobs.add, [1.5], ["é"]) == [1.5, "é"]
        assert await workers.run("me", "pid", jobs.nap, 0) != os.getpid()
        assert await workers.run("me", "ready", child_main.ready) == {"warm": True, "broken": {}}
        assert await workers.run("me", "program", jobs.run_program) == "hello\n"

    use(story)


def test_a_job_begins_many_times_sooner_than_a_new_process_could():
    """Measured side by side; the least of several times, since the machine may be busy."""
    async def story(workers):
        warm, cold = [], []
        await workers.warm_up()
        for _ in range(3):
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", "import torch"], check=True)
            cold.append(time.perf_counter() - begun)
            for _ in range(5):
                begun = time.perf_counter()
                await workers.run("me", "nothing", jobs.add, 1, 1)
                warm.append(time.perf_counter() - begun)
        return min(warm), min(cold)

    warm, cold = use(story)
    assert warm < cold / 4


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("usage", UsageError), ("failure", Failure), ("zero", Crashed), ("exit", Crashed)],
)
def test_what_a_function_raises_comes_back(kind, expected, caplog):
    async def story(workers):
        with pytest.raises(expected) as caught:
            await workers.run("me", "raise", jobs.refuse, kind)
        return caught.value

    with caplog.at_level(logging.ERROR, "principia.web"):
        error = use(story)
    assert type(error) is expected
    if expected is Crashed:
        names = {"zero": "ZeroDivisionError", "exit": "SystemExit"}
        assert str(error) == f"{names[kind]}: {kind}: no and no."
        assert "Traceback" in caplog.text
        assert "in refuse" in caplog.text
    else:
        assert str(error) == f"{kind}: no\nand\tno."
        assert not caplog.records


def test_only_plain_results_of_a_sensible_size_cross():
    async def story(workers):
        assert len(await workers.run("me", "large", jobs.repeated, "x", 30 * 2**20)) == 30 * 2**20
        with pytest.raises(Failure, match="40 MB; a page takes 32 MB"):
            await workers.run("me", "larger", jobs.repeated, "x", 40 * 2**20)
        with pytest.raises(Crashed, match="not JSON"):
            await workers.run("me", "nan", jobs.give, "[NaN]")
        with pytest.raises(Crashed, match="TypeError"):
            await workers.run("me", "object", jobs.not_plain)
        with pytest.raises((pickle.PicklingError, AttributeError)):
            await workers.run("me", "lambda", lambda: 1)
        assert await workers.run("me", "sum", jobs.add, 1, 2) == 3

    use(story, slots=1)


class Exploit:
    """What a child must never make the server unpickle."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize(
    ("body", "framed"),
    [
        (b"\xff" * 64, False),
        (b"\x7f\xff\xff\xff" + b"x" * 100, False),
        (b"\xff\xff\xff\xff\x00\x00\x00\xff\x00\x00\x00\x00", False),
        (b"", True),
        (b"=\xff\xfe", True),
        (b"=NaN", True),
        (b"=" + b"[" * 100_000, True),
        (b"!7", True),
        (b"!{}", True),
        (b'!{"kind": ["usage"], "text": {}}', True),
        ("pickle", True),
    ],
)
def test_rubbish_in_the_pipe_is_refused(body, framed, tmp_path):
    if body == "pickle":
        body = pickle.dumps(Exploit(str(tmp_path / "owned")))

    async def story(workers):
        begun = time.monotonic()
        with pytest.raises(Crashed):
            await workers.run("me", "rubbish", jobs.write_rubbish, body, framed)
        assert time.monotonic() - begun < 8, "the liar was not ended at once"
        assert await workers.run("me", "sum", jobs.add, 1, 2) == 3

    use(story)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("how", [
    "python", "numpy", "torch", "pieces", "mapped", "threads", "wrapped",
])
def test_too_much_memory_is_refused_and_a_little_is_not(how):
    async def story(workers):
        with pytest.raises(Failure, match=r"more than 0\.5 GB of memory.*command line") as caught:
            await workers.run("me", "memory", jobs.allocate, how, 100)
        assert type(caught.value) is Failure

    use(story, limits=Limits(memory=2**29, cpu=30, wall=30))


def test_the_memory_of_a_fresh_child_does_not_count():
    async def story(workers):
        assert await workers.run("me", "memory", jobs.repeated, "x", 20 * 2**20)

    use(story, limits=Limits(memory=200 * 2**20, cpu=30, wall=30))


def test_a_claim_that_needs_too_much_memory_is_not_taken_for_a_broken_one():
    async def story(workers):
        with pytest.raises(Failure, match="needs more than 1 GB"):
            await workers.run("me", "hungry", jobs.observe_hungry)

    use(story)


@pytest.mark.parametrize(
    ("limits", "function", "arguments", "sentence"),
    [
        (Limits(2**30, 1, 20), jobs.spin, (), "more than 1 s of computing.*command line"),
        (Limits(2**30, 20, 0.5), jobs.nap, (60,), "longer than 0.5 s.*command line"),
        (LIMITS, jobs.end_by, (signal.SIGKILL,), "killed from outside.*command line"),
        (LIMITS, jobs.end_by, (signal.SIGSEGV,), "SIGSEGV"),
        (LIMITS, jobs.end_by, (signal.SIGRTMIN + 3,), "without an answer"),
        (LIMITS, jobs.vanish, (0,), "exit code 0"),
    ],
)
def test_each_end_has_its_sentence(limits, function, arguments, sentence):
    async def story(workers):
        begun = time.monotonic()
        with pytest.raises(Failure, match=sentence):
            await workers.run("me", "end", function, *arguments)
        assert time.monotonic() - begun < 8
        assert processes() == []

    use(story, limits=limits)


def test_a_worker_killed_from_outside_while_it_works_is_told_and_replaced(tmp_path):
    async def story(workers):
        job = asyncio.create_task(workers.run("me", "nap", jobs.nap, 60, tmp_path / "pid"))
        os.kill(await pid_in(tmp_path / "pid"), signal.SIGKILL)
        with pytest.raises(Failure, match="killed from outside"):
            await job
        assert await workers.run("me", "sum", jobs.add, 1, 2) == 3

    use(story, slots=1)


def test_what_a_worker_starts_ends_with_it(tmp_path):
    async def story(workers):
        assert await workers.run("me", "leave", jobs.leave_a_child, tmp_path / "left") == "left"
        left = int((tmp_path / "left").read_text())
        await until(lambda: not alive(left))
        with pytest.raises(Crashed, match="exit code 3"):  # although somebody holds its pipe
            await workers.run("me", "hold", jobs.hold_the_pipe, tmp_path / "held")
        os.kill(int((tmp_path / "held").read_text()), signal.SIGKILL)

    use(story, slots=1)

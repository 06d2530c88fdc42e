"""Children that work for long and tell how far they are, heard or not, until they are stopped."""

import asyncio
import contextlib
import time

import pytest

from principia.lab.web.processes.workers import Limits
from web import jobs
from web.stories import LIMITS, alive, listen, pid_in, until, use


def test_a_talk_thins_what_it_tells_and_keeps_what_matters():
    async def story(workers):
        job, heard = await listen(workers, jobs.count_up, 400, False, 0.001)
        kind, result = await job.ended
        assert kind == "ended"
        assert 2 <= len(heard) <= 20 * result["seconds"] + 2
        numbers = [one["number"] for one in heard]
        assert numbers == sorted(numbers)
        job, heard = await listen(workers, jobs.count_up, 500, True, 0)
        assert (await job.ended)[0] == "ended"
        assert [one["number"] for one in heard] == list(range(500))
        await until(lambda: not alive(result["pid"]))

    use(story)


def test_a_listener_who_does_not_listen_does_not_hold_the_work():
    async def story(workers):
        job, heard = await listen(workers, jobs.tell_much, 1.0, 300_000)
        await until(lambda: heard)
        time.sleep(1.5)  # the whole server hangs
        kind, longest = await job.ended
        assert kind == "ended"
        assert longest < 1
        assert all(one == {"much": "x" * 300_000} for one in heard)

    use(story)


def test_what_cannot_be_heard_does_not_end_the_work(caplog):
    async def story(workers):
        def stumble(message):
            raise ZeroDivisionError

        job, heard = await listen(workers, jobs.tell_rubbish)
        assert await job.ended == ("ended", "done")
        assert heard == [{"fine": True}]
        job = await workers.listen(jobs.count_up, 3, True, 0, limits=LIMITS, heard=stumble)
        assert (await job.ended)[0] == "ended"

    use(story)
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    ("function", "arguments", "limits", "sentence"),
    [
        (jobs.fail_telling, (), LIMITS, "fail: this must be so; it is not."),
        (jobs.work_until_stopped, ("/dev/null", True), Limits(2**30, 30, 0.5), "longer than 0.5 s"),
        (jobs.count_up, (10, True, "x"), LIMITS, "TypeError"),
    ],
)
def test_a_talk_that_fails_says_why(function, arguments, limits, sentence):
    async def story(workers):
        job, _ = await listen(workers, function, *arguments, limits=limits)
        kind, why = await job.ended
        assert kind == "failed"
        assert sentence in why
        job.stop()  # which is too late, and harmless
        assert not job.alive

    use(story)


def test_a_talk_that_is_asked_to_stop_may_finish_its_step(tmp_path):
    async def story(workers):
        mark = tmp_path / "mark"
        job, _ = await listen(workers, jobs.work_until_stopped, mark, True)
        await pid_in(mark)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(job.ended, 0.05)  # who stops waiting ends nothing
        assert job.alive
        job.stop(grace=20)
        await asyncio.sleep(0.05)
        job.stop(grace=10)  # which does not ask again: the second time means at once
        assert await job.ended == ("stopped", "")
        assert mark.read_text() == "saved"

    use(story)


def test_a_talk_that_does_not_want_to_stop_is_killed_after_its_grace(tmp_path):
    async def story(workers):
        job, _ = await listen(workers, jobs.work_until_stopped, tmp_path / "pid", False)
        pid = await pid_in(tmp_path / "pid")
        begun = time.monotonic()
        job.stop(grace=0.6)
        assert await job.ended == ("stopped", "")
        assert 0.5 < time.monotonic() - begun < 5
        assert not alive(pid)

    use(story)

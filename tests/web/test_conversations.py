"""Children that live and answer, whoever asks, goes, or kills them."""

import asyncio
import os
import signal

import pytest

from principia.lab.params import Failure, UsageError
from principia.lab.web.processes.workers import Busy, Crashed, Limits
from web import jobs
from web.stories import LIMITS, alive, pid_in, processes, until, use


def test_a_conversation_remembers_and_answers_in_order_and_takes_no_slot(tmp_path):
    async def story(workers):
        chat = await workers.converse(jobs.echo, "me", limits=LIMITS)
        job = asyncio.create_task(workers.run("me", "nap", jobs.nap, 60, tmp_path / "pid"))
        await pid_in(tmp_path / "pid")
        answers = await asyncio.gather(*(chat.ask({"n": n}, 5) for n in range(5)))
        assert [(one["count"], one["asked"]) for one in answers] == [
            (n + 1, {"n": n}) for n in range(5)
        ]
        large = "x" * 2**20
        assert (await chat.ask({"large": large}, 5))["asked"]["large"] == large
        assert not job.done()
        chat.close()
        assert not chat.alive
        with pytest.raises(Failure, match="closed"):
            await chat.ask({}, 5)
        await until(lambda: not alive(answers[0]["pid"]))

    use(story, slots=1)


@pytest.mark.parametrize(
    ("message", "kind", "sentence"),
    [
        ({"sleep": 60}, Failure, "longer than 0.5 s"),
        ({"allocate": 100}, Failure, "more than 0.5 GB of memory"),
        ({"spin": True}, Failure, "more than 1 s of computing"),
        ({"raw": "no JSON"}, Crashed, "cannot be read"),
        ({"raw": "[1]"}, Crashed, "cannot be read"),
        ({"raw": "="}, Failure, "ended"),
        ({"leave": True}, Failure, "ended"),
    ],
)
def test_a_conversation_that_fails_says_why_each_time(message, kind, sentence):
    async def story(workers):
        limits = Limits(memory=2**29, cpu=1, wall=30)
        chat = await workers.converse(jobs.echo, "me", limits=limits)
        pid = (await chat.ask({}, 5))["pid"]
        assert chat.alive
        wall = 0.5 if "sleep" in message else 8
        asked = asyncio.gather(
            chat.ask(message, wall), chat.ask({}, 5), chat.ask({}, 5), return_exceptions=True
        )
        errors = await asked
        assert not chat.alive
        with pytest.raises(kind) as caught:
            await chat.ask({}, 5)
        for error in (*errors, caught.value):
            assert type(error) is kind
            assert sentence in str(error)
        assert not alive(pid)

    use(story)


def test_a_conversation_notices_that_its_child_was_killed_while_nobody_asked():
    async def story(workers):
        chat = await workers.converse(jobs.echo, "me", limits=LIMITS)
        os.kill((await chat.ask({}, 5))["pid"], signal.SIGKILL)
        await until(lambda: not chat.alive)
        with pytest.raises(Failure, match="killed from outside"):
            await chat.ask({}, 5)

    use(story)


def test_a_conversation_ends_when_its_time_is_over():
    async def story(workers):
        chat = await workers.converse(jobs.echo, "me", limits=Limits(2**30, 20, 0.4))
        await until(lambda: not chat.alive)
        with pytest.raises(Failure, match=r"longer than 0\.4 s"):
            await chat.ask({}, 5)

    use(story)


def test_a_refusal_at_the_beginning_of_a_conversation_comes_back():
    async def story(workers):
        sentence = "playground: lr must be in (0, 1000]; got -1."
        soon = await workers.converse(jobs.refuse_to_talk, sentence, limits=LIMITS)
        late = await workers.converse(jobs.refuse_to_talk, sentence, limits=LIMITS)
        await until(lambda: not late.alive)  # before anybody asked
        for chat in (soon, soon, late, late):
            with pytest.raises(UsageError) as caught:
                await chat.ask({}, 5)
            assert str(caught.value) == sentence

    use(story)


def test_who_goes_before_a_conversation_begins_leaves_no_child():
    async def story(workers):
        await workers.warm_up()
        begun = asyncio.create_task(workers.converse(jobs.echo, "me", limits=LIMITS))
        await asyncio.sleep(0.001)
        begun.cancel()
        with pytest.raises(asyncio.CancelledError):
            await begun
        await asyncio.sleep(0.1)
        await until(lambda: not processes())

    use(story)


def test_an_asker_who_goes_does_not_confuse_the_next():
    async def story(workers):
        chat = await workers.converse(jobs.echo, "me", limits=LIMITS)
        gone = asyncio.create_task(chat.ask({"sleep": 0.3}, 5))
        await asyncio.sleep(0.1)
        gone.cancel()
        assert (await chat.ask({"mine": True}, 5))["asked"] == {"mine": True}
        slow = [asyncio.create_task(chat.ask({"sleep": 0.02}, 5)) for _ in range(30)]
        answers = await asyncio.gather(*slow, return_exceptions=True)
        assert {type(one) for one in answers} == {dict, Busy}

    use(story)

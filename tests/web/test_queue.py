"""Who comes when: turns, slots, newer requests, visitors who go, and nothing left behind."""

import asyncio
import multiprocessing
import os
import threading
import time

import pytest

from principia.lab.params import Failure
from principia.lab.web.processes.workers import Busy, Superseded
from web import jobs
from web.stories import LIMITS, alive, pid_in, processes, until, use


def test_jobs_of_a_session_come_one_after_the_other_in_order(tmp_path):
    async def story(workers):
        names = [f"{number}" for number in range(6)]
        book = tmp_path / "book"
        await asyncio.gather(*(workers.run("me", one, jobs.note, book, one) for one in names))
        return [f"{one} {word}" for one in names for word in ("begins", "ends")]

    expected = use(story, slots=4)
    assert (tmp_path / "book").read_text().splitlines() == expected


def test_jobs_of_different_sessions_run_at_the_same_time(tmp_path):
    async def story(workers):
        here, there = tmp_path / "here", tmp_path / "there"
        return await asyncio.gather(
            workers.run("me", "meet", jobs.meet, here, there),
            workers.run("you", "meet", jobs.meet, there, here),
        )

    assert use(story) == [True, True]


def test_the_last_of_fifty_requests_wins_and_processes_stay_within_their_slots():
    most, ended = [0], threading.Event()

    def count():
        while not ended.wait(0.0005):
            most[0] = max(most[0], len(processes()))

    async def story(workers):
        await workers.warm_up()
        counter = threading.Thread(target=count)
        counter.start()
        others = [
            asyncio.create_task(workers.run(f"other {number}", "nap", jobs.nap, 0.2))
            for number in range(6)
        ]
        burst = []
        for number in range(50):
            burst.append(asyncio.create_task(workers.run("me", "drag", jobs.add, number, 0)))
            await asyncio.sleep(0.01 if number % 3 else 0)
        results = await asyncio.gather(*burst, return_exceptions=True)
        assert len(await asyncio.gather(*others)) == 6
        ended.set()
        counter.join()
        return results

    *early, last = use(story, slots=3)
    assert last == 49
    # all but the last; one that had its answer before the next request came has lost nothing
    for number, one in enumerate(early):
        assert isinstance(one, Superseded) or one == number
    assert sum(isinstance(one, Superseded) for one in early) > 25
    assert 1 <= most[0] <= 3


def test_in_a_burst_without_a_pause_only_the_last_gets_a_result():
    async def story(workers):
        burst = [workers.run("me", "drag", jobs.add, number, 0) for number in range(50)]
        return await asyncio.gather(*burst, return_exceptions=True)

    *early, last = use(story)
    assert last == 49
    assert [type(one) for one in early] == [Superseded] * 49


def test_who_drags_does_not_lose_his_place(tmp_path):
    async def story(workers):
        book = tmp_path / "book"
        first = asyncio.create_task(workers.run("other", "nap", jobs.nap, 0.3, tmp_path / "pid"))
        await pid_in(tmp_path / "pid")
        old = asyncio.create_task(workers.run("me", "drag", jobs.note, book, "old"))
        await asyncio.sleep(0)
        late = asyncio.create_task(workers.run("late", "drag", jobs.note, book, "late"))
        await asyncio.sleep(0)
        new = workers.run("me", "drag", jobs.note, book, "new")
        await asyncio.gather(first, late, new)
        with pytest.raises(Superseded):
            await old

    use(story, slots=1)
    assert (tmp_path / "book").read_text().split() == [
        "new", "begins", "new", "ends", "late", "begins", "late", "ends",
    ]


def test_a_busy_lab_says_so_and_works_on(tmp_path):
    async def story(workers):
        first = asyncio.create_task(workers.run("a", "nap", jobs.nap, 60, tmp_path / "pid"))
        await pid_in(tmp_path / "pid")
        mine = [asyncio.create_task(workers.run("a", f"{n}", jobs.add, n, 0)) for n in range(8)]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match=r"busy: many jobs of yours wait\. Try again"):
            await workers.run("a", "one more", jobs.add, 1, 1)
        other = [asyncio.create_task(workers.run("b", f"{n}", jobs.add, n, 0)) for n in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match=r"busy: many jobs wait\. Try again"):
            await workers.run("c", "one more", jobs.add, 1, 1)
        again = asyncio.create_task(workers.run("b", "1", jobs.add, 10, 0))  # in its old place
        await asyncio.sleep(0)
        first.cancel()
        results = await asyncio.gather(*mine, *other, again, return_exceptions=True)
        assert results[:9] == [*range(8), 0]
        assert isinstance(results[9], Superseded)
        assert results[10] == 10

    use(story, slots=1, waiting=10)


def test_who_goes_frees_his_slot_and_his_turn(tmp_path):
    async def story(workers):
        running = asyncio.create_task(workers.run("me", "a", jobs.nap, 60, tmp_path / "a"))
        waiting = asyncio.create_task(workers.run("me", "b", jobs.nap, 60, tmp_path / "b"))
        pid = await pid_in(tmp_path / "a")
        waiting.cancel()
        running.cancel()
        begun = time.monotonic()
        assert await workers.run("me", "sum", jobs.add, 1, 2) == 3
        assert time.monotonic() - begun < 20  # the naps would take 60
        assert not alive(pid)
        assert running.cancelled()
        assert waiting.cancelled()
        assert not (tmp_path / "b").exists()
        soon = asyncio.create_task(workers.run("me", "c", jobs.nap, 60))
        await asyncio.sleep(0.001)  # while it is being started
        soon.cancel()
        assert await workers.run("you", "sum", jobs.add, 1, 2) == 3

    use(story, slots=1)


def test_closing_ends_everything(tmp_path):
    async def story(workers):
        running = asyncio.create_task(workers.run("me", "a", jobs.nap, 60, tmp_path / "a"))
        waiting = asyncio.create_task(workers.run("me", "b", jobs.nap, 60))
        chat = await workers.converse(jobs.echo, "me", limits=LIMITS)
        job = await workers.listen(
            jobs.work_until_stopped, tmp_path / "job", True, limits=LIMITS, heard=lambda _: None
        )
        pids = [await pid_in(tmp_path / one) for one in ("a", "job")]
        await workers.close()
        for one in (running, waiting, chat.ask({}, 1), workers.run("me", "c", jobs.add, 1, 1)):
            with pytest.raises(Failure, match="clos"):
                await one
        assert await job.ended == ("stopped", "")
        assert (tmp_path / "job").read_text() == "saved"
        assert not any(alive(one) for one in pids)

    use(story)


def test_two_hundred_jobs_leave_nothing_behind():
    def held():
        descriptors = len(os.listdir("/proc/self/fd"))
        return descriptors, threading.active_count(), len(multiprocessing.active_children())

    async def story(workers):
        await workers.warm_up()
        await until(lambda: not processes())
        await asyncio.sleep(0.2)  # until it is buried, too
        before = held()
        for round_ in range(10):
            tasks = []
            for number in range(20):
                session = f"{number % 5}"
                function = (jobs.add, jobs.add, jobs.vanish, jobs.nap)[number % 4]
                arguments = ((1, 2), (3, 4), (1,), (60,))[number % 4]
                job = workers.run(session, f"{number % 17}", function, *arguments)
                tasks.append(asyncio.create_task(job))
                if number % 7 == 0:
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.02 * (round_ % 4))
            for one in tasks[3::4]:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: not processes())
        await until(lambda: held() == before)

    use(story, slots=2)

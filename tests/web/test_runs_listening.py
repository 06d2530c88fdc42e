"""Those who follow a run: some vanish, some do not read, some come back; none loses a row."""

import asyncio
import contextlib
import fcntl
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from principia.lab.runs.config import RunConfig
from principia.lab.runs.execution import create
from principia.lab.web.gate.sessions import Visitor
from principia.lab.web.runs import following, running
from principia.lab.web.runs.eta import Eta
from principia.lab.web.runs.following import Tail
from web.laboratory import (
    ENDLESS,
    TRAINED,
    begin,
    events_of,
    logged,
    opened,
    rows_of,
    served,
    tell,
    until,
)

OWNER = Visitor("somebody", owner=True)


def test_a_listener_that_vanishes_costs_the_others_nothing(tmp_path):
    async def story(lab):
        async with served(lab) as address:
            name = await begin(lab, {"key": TRAINED, "knobs": {"epochs": "3"}})
            vanishing = await opened(address, name)
            attentive = asyncio.create_task(lab.client.get(f"/api/runs/{name}/events"))
            await vanishing[0].readuntil(b"event: state")
            vanishing[1].transport.abort()
            heard = list(events_of((await attentive).text))
            assert heard[-1][0] == "end"
            assert rows_of(heard) == logged(tmp_path, name) != []
            await until(listening(lab, 0))

    tell(story, tmp_path)


def listening(lab, count):
    async def so_many():
        return lab.runs.listeners == count

    return so_many


def test_a_listener_that_does_not_read_is_sent_no_more_than_it_takes(tmp_path):
    folder = create(tmp_path, RunConfig("networks/mlp", "hidden_300"))
    rows = [{"training": "long", "epoch": epoch, "loss": 0.5} for epoch in range(20_000)]
    (folder.path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    async def story(lab):
        async with served(lab) as address:
            with folder.lock_file.open("w") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX)
                reader, writer = await opened(address, folder.name, size=2048)
                attentive = asyncio.create_task(lab.client.get(f"/api/runs/{folder.name}/events"))
                await until(listening(lab, 2))
            heard = list(events_of((await attentive).text))
            assert heard[-1][0] == "end"
            assert rows_of(heard) == rows
            # the run has ended, but the other has not read that yet
            await until(listening(lab, 1))
            text = (await asyncio.wait_for(reader.read(), 30)).decode()
            writer.close()
            assert rows_of(events_of(text.partition("\r\n\r\n")[2])) == rows
            await until(listening(lab, 0))

    tell(story, tmp_path)


def test_listeners_beyond_the_limit_are_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "LISTENERS", 2)

    async def story(lab):
        async with served(lab) as address:
            name = await begin(lab, ENDLESS)
            two = [await opened(address, name) for _ in range(2)]
            for reader, _ in two:
                assert b" 200 " in await reader.readline()
                await reader.readuntil(b"event: state")
            answer = await lab.client.get(f"/api/runs/{name}/events")
            assert answer.status_code == 503
            two[0][1].transport.abort()

            async def room():
                third = await opened(address, name)
                line = await third[0].readline()
                third[1].transport.abort()
                return b" 200 " in line

            await until(room)
            two[1][1].transport.abort()

    tell(story, tmp_path)


def test_a_silent_stream_shows_that_it_lives(tmp_path, monkeypatch):
    monkeypatch.setattr(following, "HEARTBEAT", 0.3)

    async def story(lab):
        folder = create(tmp_path, RunConfig("networks/mlp", "hidden_300"))
        with folder.lock_file.open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            signs = 0
            async with contextlib.aclosing(lab.runs.events(OWNER, folder.name)) as events:
                async for event in events:
                    signs += event.encode().startswith(b":")
                    if signs == 2:
                        return

    tell(story, tmp_path)


# the place in a file, and the speed


ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 90)),  # bytes, so that lines are torn
        st.tuples(st.just("look"), st.just(0)), st.tuples(st.just("return"), st.just(0)),
        st.tuples(st.just("begin anew"), st.booleans()),
    ),
    max_size=40,
)


@given(acts=ACTS)
def test_whatever_happens_to_the_file_the_listener_ends_with_its_rows(tmp_path_factory, acts):
    """Torn lines, lost connections, and runs that are resumed and write their file anew."""
    path = tmp_path_factory.mktemp("tail") / "metrics.jsonl"
    tail, view = Tail(path), []

    def look():
        anew, rows, _ = tail.read()
        if anew:
            view.clear()
        view.extend(rows)
        assert tail.count == len(view)

    other, text = 0, b""
    for act, value in (*acts, ("write", 10_000), ("look", 0)):
        if act == "write":
            lines = [json.dumps({"training": "a", "n": n, "v": other}) for n in range(40)]
            whole = ("\n".join(lines) + "\n").encode()
            text = whole[: len(text) + value]
            path.write_bytes(text)
        elif act == "begin anew":  # with the same numbers, as a resumed run has, or with others
            other, text = other + value, b""
            path.write_bytes(text)
        elif act == "return":
            tail = Tail.at(path, tail.mark)
        else:
            look()
    assert view == [json.loads(line) for line in path.read_bytes().splitlines()]


@given(done=st.integers(0, 10_000), speed=st.floats(1.0, 1000.0))
def test_the_time_left_is_right_at_constant_speed_also_after_a_jump_to_where_it_was(done, speed):
    eta, total = Eta(), 200_000
    eta.hear({"what": "relu", "done": 0, "total": total}, 100.0)
    eta.hear({"what": "relu resumed", "done": done, "total": total}, 100.01)
    for tick in range(1, 60):
        made = done + int(speed * tick / 4)
        eta.hear({"what": "relu 5 samples/s", "done": made, "total": total}, 100.01 + tick / 4)
    left = (total - eta.done) / speed
    assert eta.seconds_left == pytest.approx(left, rel=0.1)


@pytest.mark.parametrize(
    "plain",
    [None, 3, {}, {"what": 1, "done": 1, "total": 2}, {"what": "a", "done": -1, "total": 2},
     {"what": "a", "done": 1, "total": 0}, {"what": "a", "done": "1", "total": 2}],
)
def test_what_is_no_progress_is_not_heard(plain):
    eta = Eta()
    eta.hear(plain)
    assert eta.to_json() is None

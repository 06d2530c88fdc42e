"""The playground over HTTP: it moves exactly, each visitor has one, nothing kills the server."""

import asyncio
import contextlib
import json
import math
import os
import signal
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI

from principia.lab.params import UsageError
from principia.lab.playground import Playground, Setup, choices, read_text
from principia.lab.web.gate.answers import answer_errors
from principia.lab.web.gate.sessions import Visitor
from principia.lab.web.pages import playground_api, playgrounds
from principia.lab.web.processes.workers import Limits, Workers

SMALL = {"data": "moons", "knobs": {"hidden": "4", "activation": "tanh"}, "seed": 3}


@contextlib.asynccontextmanager
async def laboratory(**options):
    """A small application with the routes of the playground; x-session says who asks."""
    before = set(children())
    workers = Workers(slots=1, waiting=4, limits=Limits(2**30, 30, 30))
    app = FastAPI()
    answer_errors(app)
    app.include_router(playground_api.router)
    app.state.workers = workers
    given = {"most": 6, "limits": Limits(2**30, 1800, math.inf), **options}
    app.state.playgrounds = playgrounds.Playgrounds(workers, **given)

    async def with_session(scope, receive, send):
        name = dict(scope["headers"]).get(b"x-session", b"somebody").decode()
        await app({**scope, "state": {"visitor": Visitor(name, False)}}, receive, send)

    transport = httpx.ASGITransport(with_session)
    async with httpx.AsyncClient(transport=transport, base_url="http://lab", timeout=60) as client:
        try:
            yield SimpleNamespace(client=client, playgrounds=app.state.playgrounds)
        finally:
            await app.state.playgrounds.close()
            await workers.close()
            # the test itself is one task, and what it waits with is the other
            names = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}
            assert not any("Playgrounds" in name for name in names), names
    assert set(children()) <= before


def tell(story, **options):
    """Tell a story in a laboratory; whatever happens, it ends."""

    async def whole():
        async with laboratory(**options) as lab:
            return await asyncio.wait_for(story(lab), 60)

    return asyncio.run(whole())


def children():
    """The processes that came from the forkserver and live: they have everything loaded."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent = (one / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            command = (Path("/proc") / parent / "cmdline").read_bytes()
            mine = (Path("/proc") / parent / "stat").read_text().rsplit(")", 1)[1].split()[1]
            if b"forkserver" in command and int(mine) == os.getpid() and state != "Z":
                found.append(int(one.name))
    return found


async def make(lab, setup=SMALL, session="somebody", status=200, **more):
    answer = await lab.client.post(
        "/api/playground", json={"setup": setup, **more}, headers={"x-session": session}
    )
    assert answer.status_code == status, answer.text
    return answer.json()


async def step(lab, steps, session="somebody", status=200, **more):
    answer = await lab.client.post(
        "/api/playground/step", json={"steps": steps, **more}, headers={"x-session": session}
    )
    assert answer.status_code == status, answer.text
    return answer.json()


async def until(condition, seconds=60.0):
    """Wait for something that must become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never became true"
        await asyncio.sleep(0.01)


def child_of(lab, session="somebody"):
    return lab.playgrounds._places[session].child._child._pid


@pytest.mark.parametrize("csv", ["x,y\n1,2\n3,4\n", "x,y\n1,\n", "\ud800,y\n1,2\n", ""])
def test_a_pasted_table_becomes_no_file(monkeypatch, csv):
    """One would be left behind by a process that is killed, as when its visitor has gone."""
    def refused(*_, **__):
        raise AssertionError("a file is made")

    for name in ("mkdtemp", "mkstemp", "TemporaryFile", "TemporaryDirectory"):
        monkeypatch.setattr(tempfile, name, refused)
    with contextlib.suppress(UsageError):
        assert read_text(csv)["x"].tolist() == [1, 3]


# moving


def test_choices_name_every_model_with_its_knobs_and_a_setup_that_works():
    async def story(lab):
        offer = (await lab.client.get("/api/playground/choices")).json()
        assert [one["key"] for one in offer["models"]] == list(choices().models)
        assert {one["name"] for one in offer["numbers"]} >= {"lr", "batch_size", "seed"}
        made = await make(lab, offer["setup"])
        assert made["frame"]["classes"] == ["0", "1"]

    tell(story)


def test_frames_are_those_of_the_engine_and_a_step_back_undoes_a_step():
    async def story(lab):
        made = await make(lab)
        own = Playground(Setup.from_json(SMALL))
        same = json.loads(json.dumps({"points": own.points(), "frame": own.frame()}))
        assert {name: made[name] for name in same} == same
        five = (await step(lab, 5))["frame"]
        own.advance(5)
        assert five == json.loads(json.dumps(own.frame()))
        assert (await step(lab, 30))["frame"]["step"] == 35
        assert (await step(lab, -30))["frame"] == five
        assert (await step(lab, 0))["frame"] == five
        assert (await step(lab, -1000))["frame"] == made["frame"]
        bare = (await step(lab, 5, units=False))["frame"]
        assert bare == {**five, "layers": []}

    tell(story)


def test_an_address_with_a_step_gives_the_same_as_steps_taken_one_by_one(monkeypatch):
    monkeypatch.setattr(playgrounds, "STRIDE", 50)  # several messages for the way

    async def story(lab):
        at_once = await make(lab, steps=120)
        assert at_once["frame"]["step"] == 120
        slowly = await make(lab)
        assert slowly["number"] != at_once["number"]
        assert (await step(lab, 60))["frame"]["step"] == 60
        assert (await step(lab, 60))["frame"] == at_once["frame"]

    tell(story)


def test_a_window_of_the_plane_stands_still_while_points_are_drawn():
    rows = [[x / 10, (x % 3) / 3, x % 2] for x in range(12)]

    async def story(lab):
        frames = []
        for more in ([], [[0.9, 0.9, 1]]):
            drawn = {**SMALL, "data": {"name": "drawn", "points": rows + more}}
            frames.append((await make(lab, drawn, window=[-1, 2, -3, 4]))["frame"])
        assert frames[0]["bounds"] == frames[1]["bounds"] == [-1, 2, -3, 4]
        refused = await make(lab, SMALL, window=[1, 0, 0, 1], status=422)
        assert "window must be x0 < x1" in refused["error"]

    tell(story)


def test_a_table_tells_its_columns_and_is_learned():
    rows = [f"{n},{('red', 'blue')[n % 2]},{n * n}" for n in range(40)]
    csv = "\n".join(["size,color,weight", *rows])

    async def story(lab):
        answer = await lab.client.post("/api/playground/columns", json={"csv": csv})
        assert answer.json() == {
            "rows": 40,
            "columns": [
                {"name": "size", "kind": "number", "values": 40},
                {"name": "color", "kind": "text", "values": 2},
                {"name": "weight", "kind": "number", "values": 40},
            ],
        }
        table = {"name": "table", "csv": csv, "features": ["size", "weight"], "target": "color"}
        frame = (await make(lab, {**SMALL, "data": table}))["frame"]
        assert frame["classes"] == ["blue", "red"]
        assert frame["features"] == ["size", "weight"]
        torn = await lab.client.post("/api/playground/columns", json={"csv": "a,b\n1\n"})
        assert torn.status_code == 422
        assert torn.json()["error"] == (
            "data: line 2 of your table must have 2 cells like the header; got 1."
        )

    tell(story)


# visitors


def test_visitors_do_not_see_each_other_and_two_windows_are_told_apart():
    async def story(lab):
        mine = await make(lab, session="me")
        yours = await make(lab, {**SMALL, "data": "circles"}, session="you")
        await step(lab, 7, session="you", number=yours["number"])
        assert (await step(lab, 0, session="me", number=mine["number"]))["frame"] == mine["frame"]
        other = await make(lab, {**SMALL, "seed": 4}, session="me")
        refused = await step(lab, 1, session="me", status=409, number=mine["number"])
        assert "Another window" in refused["error"]
        assert (await step(lab, 0, session="me", number=other["number"]))["frame"] == other["frame"]
        assert child_of(lab, "me") != child_of(lab, "you")

    tell(story)


def test_of_many_setups_at_once_the_last_one_stays():
    async def story(lab):
        await make(lab)
        child = child_of(lab)
        answers = await asyncio.gather(
            *(
                lab.client.post(
                    "/api/playground", json={"setup": {**SMALL, "seed": seed}, "steps": 1500}
                )
                for seed in range(6)
            )
        )
        codes = [one.status_code for one in answers]
        assert codes == [409] * 5 + [200]
        assert "newer" in answers[0].json()["error"]
        last = await make(lab, {**SMALL, "seed": 5}, steps=1500)
        assert answers[-1].json()["frame"] == last["frame"]
        assert child_of(lab) == child

    tell(story)


def test_without_a_playground_a_step_is_refused_with_what_to_do():
    async def story(lab):
        refused = await step(lab, 1, status=409)
        assert refused["error"].startswith("The playground has been closed.")
        await make(lab, {**SMALL, "lr": -1}, status=422)
        await step(lab, 1, status=409)  # one that was refused is none

    tell(story)


def test_a_killed_child_is_told_in_a_sentence_and_a_new_setup_works():
    async def story(lab):
        made = await make(lab)
        os.kill(child_of(lab), signal.SIGSTOP)
        asked = asyncio.create_task(step(lab, 1, status=500))
        await asyncio.sleep(0.2)
        os.kill(child_of(lab), signal.SIGKILL)
        assert "killed" in (await asked)["error"]
        await step(lab, 1, status=409)
        again = await make(lab)
        assert again["frame"] == made["frame"]
        os.kill(child_of(lab), signal.SIGKILL)  # while nobody asks
        place = lab.playgrounds._places["somebody"]
        await until(lambda: not place.child.alive)
        await step(lab, 1, status=409)
        assert (await make(lab))["frame"] == made["frame"]

    tell(story)


def test_one_that_answers_too_late_is_closed(monkeypatch):
    async def story(lab):
        await make(lab)
        monkeypatch.setattr(playgrounds, "ANSWER", 0.5)
        child = child_of(lab)
        os.kill(child, signal.SIGSTOP)
        late = await step(lab, 1, status=500)
        assert "longer than 0.5 s" in late["error"]
        await until(lambda: child not in children())

    tell(story)


def test_idle_ones_are_closed_and_the_visitor_begins_again():
    async def story(lab):
        made = await make(lab)
        for _ in range(5):
            await asyncio.sleep(0.2)
            await step(lab, 1)  # what is used stays, also beyond the time
        child = child_of(lab)
        assert child in children()
        await until(lambda: not lab.playgrounds._places)
        await until(lambda: child not in children())
        await step(lab, 1, status=409)
        assert (await make(lab))["frame"] == made["frame"]

    tell(story, idle=0.8)


def test_a_new_visitor_takes_the_place_of_the_one_idle_the_longest():
    async def story(lab):
        for name in ("first", "second"):
            await make(lab, session=name)
            await asyncio.sleep(0.1)
        await step(lab, 1, session="first")
        await asyncio.sleep(0.6)
        await make(lab, session="third")
        assert set(lab.playgrounds._places) == {"first", "third"}
        await step(lab, 1, session="second", status=409)

    tell(story, most=2, spared=0.5)


def test_when_all_are_in_use_the_lab_is_busy():
    async def story(lab):
        names = [f"visitor {number}" for number in range(3)]
        together = [
            lab.client.post("/api/playground", json={"setup": SMALL}, headers={"x-session": name})
            for name in names
        ]
        codes = sorted([one.status_code for one in await asyncio.gather(*together)])
        assert codes == [200, 200, 503]  # also if they come while none has begun
        refused = await make(lab, session="late", status=503)
        assert "busy" in refused["error"]
        assert len(lab.playgrounds._places) == 2
        here = next(iter(lab.playgrounds._places))
        assert (await make(lab, session=here))["frame"]["step"] == 0  # who has one may go on

    tell(story, most=2)


def test_closing_leaves_no_process_even_while_one_starts():
    async def story(lab):
        await make(lab)
        starting = asyncio.create_task(lab.playgrounds._place("another"))
        await asyncio.sleep(0)
        await lab.playgrounds.close()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        assert not lab.playgrounds._places
        await until(lambda: not children())

    tell(story)


# hostile requests


def nested(depth):
    return "[" * depth + "]" * depth


def drawn(*points):
    return {"setup": {**SMALL, "data": {"name": "drawn", "points": points}}}


@pytest.mark.parametrize(
    ("path", "body", "codes"),
    [
        ("", {}, {422}),
        ("", {"setup": SMALL, "steps": 20_001}, {422}),
        ("", {"setup": SMALL, "extra": 1}, {422}),
        ("", {"setup": {**SMALL, "more": 1}}, {422}),
        ("", {"setup": {**SMALL, "page": "no/page"}}, {422}),
        ("", {"setup": {**SMALL, "data": "../../etc/passwd"}}, {422}),
        ("", {"setup": {**SMALL, "knobs": {"hidden": "64,64,64,64,64,64,64"}}}, {422}),
        ("", {"setup": {**SMALL, "knobs": {"\ud800": 1}}}, {422}),
        ("", {"setup": {**SMALL, "lr": None}}, {422}),
        ("", {"setup": {**SMALL, "lr": 10**400}}, {422}),
        ("", drawn(*[[10**400, 0, 1]] * 12), {422}),
        ("", drawn(*[[0, 0, 1]] * 2001), {422}),
        ("", drawn(*[[1, 1, 0]] * 12), {422}),  # one class
        ("", drawn(*[[1, 1, 0], [1, 1, 1]] * 6), {422}),  # nothing varies
        ("", '{"setup": {"lr": NaN}}', {400, 422}),
        ("", '{"setup": {"data": {"name": "drawn", "points": [[Infinity, 0, 1]]}}}', {400, 422}),
        ("", f'{{"setup": {{"knobs": {{"hidden": {nested(500)}}}}}}}', {422}),
        ("", f'{{"setup": {nested(100_000)}}}', {400, 422}),
        ("", "\0", {400, 422}),
        ("/step", {"steps": 1001}, {422}),
        ("/step", {"steps": True}, {422}),
        ("/step", {"steps": 1.5}, {422}),
        ("/columns", {"csv": ""}, {422}),
        ("/columns", {"csv": "a,b\0\n1,2\n"}, {422}),
        ("/columns", {"csv": "\ud800,b\n1,2\n"}, {422}),
        ("/columns", {"csv": "x" * 2_000_001}, {422}),
        ("/columns", {"csv": "x" * 2_000_000}, {422}),
        ("/columns", {"csv": "a,b\n" + "1,2\n" * 499_000}, {200}),
        ("/columns", {"csv": "," * 30_000}, {422}),
    ],
)
def test_hostile_bodies_get_a_sentence(hostile_lab, path, body, codes):
    text = body if isinstance(body, str) else json.dumps(body)
    answer = hostile_lab(f"/api/playground{path}", text)
    assert answer.status_code in codes, answer.text
    if answer.status_code != 200:
        sentence = answer.json()["error"]
        assert sentence.endswith((".", "?", "!"))
        assert len(sentence) < 400
        assert "/tmp" not in sentence
        assert "Traceback" not in sentence


@pytest.fixture(scope="module")
def hostile_lab():
    """One laboratory for all of them: what one request breaks, the next one meets."""
    room = laboratory()
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        lab = loop.run_until_complete(room.__aenter__())

        def ask(path, text):
            head = {"content-type": "application/json"}
            asked = lab.client.post(path, content=text.encode(), headers=head)
            return loop.run_until_complete(asked)

        yield ask
        good = ask("/api/playground", json.dumps({"setup": SMALL, "steps": 2}))
        assert good.json()["frame"]["step"] == 2
        loop.run_until_complete(room.__aexit__(None, None, None))
        loop.run_until_complete(loop.shutdown_default_executor())

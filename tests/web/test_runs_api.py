"""Experiments in the browser, with real workers: started, followed, stopped, killed, resumed."""

import asyncio
import json
import os
import re
import shlex
import signal
import time
from pathlib import Path

import pytest

from principia.lab.cli.app import app as command_line
from principia.lab.params import UsageError
from principia.lab.web.runs import queue
from web.laboratory import (
    ENDLESS,
    SHORT,
    TRAINED,
    at_work,
    begin,
    events_of,
    holders,
    logged,
    over,
    rows_of,
    tell,
)

# from the start to the end


def test_a_run_streams_its_rows_and_figures_and_ends_with_its_goals_reached(tmp_path):
    """A broken neighbor changes nothing, and the command gives the same on the command line."""
    (tmp_path / "runs" / "broken").mkdir(parents=True)
    (tmp_path / "runs" / "broken" / "config.json").write_text("{")

    async def story(lab):
        name = await begin(lab, {"key": SHORT, "seed": 3})
        heard = list(events_of((await lab.client.get(f"/api/runs/{name}/events")).text))
        assert rows_of(heard) == logged(tmp_path / "runs", name) != []
        kinds = [kind for kind, _, _ in heard]
        assert kinds[0] == "state"
        assert kinds[-1] == "end"
        assert kinds.count("end") == 1
        states = [data for kind, data, _ in heard if kind == "state"]
        assert states[-1]["status"] == "reached"
        assert any(one["progress"] and 0 < one["progress"]["fraction"] <= 1 for one in states)
        said = [data["at"] for kind, data, _ in heard if kind == "say"]
        assert said == list(range(len(said))) != []
        described = (await lab.client.get(f"/api/runs/{name}")).json()
        drawn = {data["name"] for kind, data, _ in heard if kind == "figure"}
        assert drawn == set(described["figures"]) != set()
        for figure in drawn:
            answer = await lab.client.get(f"/api/runs/{name}/figures/{figure}")
            assert answer.json()["data"]
        curves = (await lab.client.get(f"/api/runs/{name}/curves")).json()["figure"]
        assert {trace["name"] for trace in curves["data"]} == set(described["curves"])
        aimed = [one for one in described["numbers"] if one["goal"]]
        assert all(one["reached"] for one in aimed)
        assert aimed
        return name, described["command"]

    name, command = tell(story, tmp_path / "runs")
    elsewhere = tmp_path / "elsewhere"
    words = [*shlex.split(command)[1:], "--runs-dir", str(elsewhere)]
    assert command_line(words, standalone_mode=False) == 0
    theirs, ours = elsewhere / name, tmp_path / "runs" / name
    assert (theirs / "result.json").read_bytes() == (ours / "result.json").read_bytes()
    asked = [json.loads((one / "config.json").read_text()) for one in (theirs, ours)]
    assert asked[0]["asked"] == asked[1]["asked"]
    assert asked[0]["code"] == asked[1]["code"]


def test_cancel_ends_the_process_and_resume_ends_as_if_nothing_had_happened(tmp_path):
    body = {"key": TRAINED, "knobs": {"epochs": "4"}, "seed": 1}

    async def story(lab):
        whole = await begin(lab, body)
        await over(lab, whole)
        name = await begin(lab, body)
        await at_work(lab, name, rows=2)
        (pid,) = holders(tmp_path / name)
        answer = await lab.client.post(f"/api/runs/{name}/cancel")
        assert (answer.status_code, answer.json()["status"]) == (202, "stopping")
        stopped = await over(lab, name)
        assert (stopped["status"], stopped["problem"]) == ("interrupted", "")
        assert stopped["resumable"]
        assert holders(tmp_path / name) == []
        assert not Path(f"/proc/{pid}").exists()
        assert list((tmp_path / name / "checkpoints").rglob("*.safetensors"))
        early = list(events_of((await lab.client.get(f"/api/runs/{name}/events")).text))
        mark = [identity for _, _, identity in early if identity][-1]
        answer = await lab.client.post(f"/api/runs/{name}/resume")
        assert answer.status_code == 202
        # who listened before goes on where it was: the numbers are written anew, and are the same
        late = await lab.client.get(f"/api/runs/{name}/events", headers={"last-event-id": mark})
        assert rows_of([*early, *events_of(late.text)]) == logged(tmp_path, name)
        for file in ("result.json", "model/model.safetensors", "metrics.jsonl"):
            assert (tmp_path / name / file).read_bytes() == (tmp_path / whole / file).read_bytes()
        answer = await lab.client.post(f"/api/runs/{name}/resume")
        assert answer.status_code == 409
        assert "has ended already" in answer.json()["error"]

    tell(story, tmp_path)


def test_a_killed_worker_leaves_an_interrupted_run_with_a_sentence_that_can_be_resumed(tmp_path):
    async def story(lab):
        name = await begin(lab, ENDLESS)
        await at_work(lab, name)
        (pid,) = holders(tmp_path / name)
        following = asyncio.create_task(lab.client.get(f"/api/runs/{name}/events"))
        await asyncio.sleep(0.5)
        os.kill(pid, signal.SIGKILL)
        heard = list(events_of((await following).text))
        assert heard[-1][0] == "end"
        last = [data for kind, data, _ in heard if kind == "state"][-1]
        assert last["status"] == "interrupted"
        assert "killed" in last["problem"]
        assert (await over(lab, name))["problem"] == last["problem"]
        page = (await lab.client.get(f"/runs/{name}")).text
        assert last["problem"].replace("'", "&#39;") in page
        assert (await lab.client.post(f"/api/runs/{name}/resume")).status_code == 202
        await at_work(lab, name)
        assert (await lab.client.get(f"/api/runs/{name}")).json()["problem"] == ""

    tell(story, tmp_path)


def test_what_is_refused_at_the_start_is_told_and_leaves_no_folder(tmp_path):
    data = tmp_path / "data"
    (data / "mnist").mkdir(parents=True)
    for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (data / "mnist" / f"{part}-ubyte.gz").write_bytes(b"rubbish")

    async def story(lab):
        name = await begin(lab, {"key": TRAINED, "budget": "full"})
        heard = list(events_of((await lab.client.get(f"/api/runs/{name}/events")).text))
        state = [data for kind, data, _ in heard if kind == "state"][-1]
        assert state["status"] == "failed"
        assert re.match(r"\w+: .*ubyte", state["problem"])
        assert not (tmp_path / "runs" / name).exists()
        assert "ubyte" in (await lab.client.get(f"/runs/{name}")).text
        assert (await lab.client.get("/api/runs")).json() == []
        answer = await lab.client.post(f"/api/runs/{name}/resume")
        assert answer.status_code == 409
        command = (await lab.client.get(f"/api/runs/{name}")).json()["command"]
        return command, state["problem"]

    command, problem = tell(story, tmp_path / "runs", data_dir=str(data))
    words = [*shlex.split(command)[1:], "--runs-dir", str(tmp_path / "elsewhere")]
    with pytest.raises(UsageError) as refused:
        command_line(words, standalone_mode=False)
    assert str(refused.value) == problem


# many at once


def test_one_run_a_session_two_at_once_eight_in_the_queue(tmp_path):
    async def story(lab):
        names = [await begin(lab, ENDLESS, f"s{one}") for one in range(2 + queue.WAITING)]
        again = await lab.client.post("/api/runs", json=ENDLESS, headers={"x-session": "s0"})
        assert again.status_code == 409
        assert names[0] in again.json()["error"]
        waits = await lab.client.post("/api/runs", json=ENDLESS, headers={"x-session": "s5"})
        assert waits.status_code == 409
        assert names[5] in waits.json()["error"]
        full = await lab.client.post("/api/runs", json=ENDLESS, headers={"x-session": "s99"})
        assert full.status_code == 503
        assert "busy" in full.json()["error"]
        assert len(list(tmp_path.iterdir())) == len(names)
        places = {one["name"]: one["place"] for one in (await lab.client.get("/api/runs")).json()}
        assert [places[one] for one in names] == [None, None, *range(1, queue.WAITING + 1)]
        assert "place 3 in the queue" in (await lab.client.get(f"/runs/{names[4]}")).text
        # one that waits can be cancelled, and one that runs makes room for the next
        assert (await lab.client.post(f"/api/runs/{names[2]}/cancel")).json()["status"] == (
            "interrupted"
        )
        await at_work(lab, names[0])
        await lab.client.post(f"/api/runs/{names[0]}/cancel")
        await over(lab, names[0])
        now = {one["name"]: one for one in (await lab.client.get("/api/runs")).json()}
        states = [now[one]["status"] for one in names]
        assert states[:4] == ["interrupted", "running", "interrupted", "running"]
        assert set(states[4:]) == {"waiting"}
        await at_work(lab, names[3])
        begun = time.monotonic()
        await lab.runs.close()
        assert time.monotonic() - begun < 10
        assert [pid for one in names for pid in holders(tmp_path / one)] == []

    tell(story, tmp_path)


def test_a_run_is_stopped_by_who_began_it_and_by_the_owner_alone(tmp_path):
    async def story(lab):
        async def cancel(name, visitor):
            where, who = f"/api/runs/{name}/cancel", {"x-session": visitor}
            return await lab.client.post(where, headers=who)

        async def cancellable(name, visitor):
            found = await lab.client.get(f"/api/runs/{name}", headers={"x-session": visitor})
            return found.json()["cancellable"]

        first, second = [await begin(lab, ENDLESS, one) for one in ("guest", "another")]
        refused = await cancel(first, "another")
        assert refused.status_code == 403
        assert refused.json()["error"].startswith(f"run: {first} was started by another visitor")
        offered = [await cancellable(first, one) for one in ("guest", "another", "somebody")]
        assert offered == [True, False, True]
        assert (await cancel(first, "guest")).status_code == 202
        assert (await cancel(second, "somebody")).status_code == 202  # who owns the laboratory

    tell(story, tmp_path)


def test_two_starts_at_the_same_moment_are_one_run(tmp_path):
    async def story(lab):
        wanted = [lab.client.post("/api/runs", json=ENDLESS) for _ in range(5)]
        answers = await asyncio.gather(*wanted)
        assert sorted(one.status_code for one in answers) == [202, 409, 409, 409, 409]
        assert len(list(tmp_path.iterdir())) == 1

    tell(story, tmp_path)

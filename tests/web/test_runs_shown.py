"""What is shown of runs: those of others, broken ones, strange names, reports and comparisons."""

import asyncio
import fcntl
import itertools
import json
import re
from urllib.parse import quote

import pytest

from principia.lab.cli.app import app as command_line
from principia.lab.params import UsageError
from principia.lab.runs.config import RunConfig
from principia.lab.runs.execution import create
from principia.lab.web.runs import following
from web.laboratory import TRAINED, events_of, rows_of, tell

# runs of others, and names


def test_a_run_of_the_command_line_is_followed_but_not_stopped(tmp_path):
    async def story(lab):
        folder = create(tmp_path, RunConfig("networks/mlp", "hidden_300"))
        with folder.lock_file.open("w") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            described = (await lab.client.get(f"/api/runs/{folder.name}")).json()
            assert (described["status"], described["cancellable"]) == ("running", False)
            for what in ("cancel", "resume"):
                answer = await lab.client.post(f"/api/runs/{folder.name}/{what}")
                assert answer.status_code == 409
            assert "started elsewhere" in described["note"]
            following = asyncio.create_task(lab.client.get(f"/api/runs/{folder.name}/events"))
            await asyncio.sleep(0.5)
            with (folder.path / "metrics.jsonl").open("a") as numbers:
                numbers.write('{"training": "a", "epoch": 1, "loss": NaN}\n{"training": "a", "ep')
                numbers.flush()
                await asyncio.sleep(0.5)
                numbers.write('och": 2, "loss": 1.5}\n')
        heard = list(events_of((await following).text))
        assert rows_of(heard) == [
            {"training": "a", "epoch": 1, "loss": None}, {"training": "a", "epoch": 2, "loss": 1.5},
        ]
        assert [data for kind, data, _ in heard if kind == "state"][-1]["resumable"]

    tell(story, tmp_path)


def test_names_are_looked_up_and_never_become_paths(tmp_path):
    runs = tmp_path / "runs"
    secret = tmp_path / "secret"
    secret.mkdir()
    for file in ("config.json", "report.html", "result.json"):
        (secret / file).write_text('{"hush": 1}')
    folder = create(runs, RunConfig("networks/mlp", "hidden_300"))
    (folder.path / "figures").mkdir()
    (folder.path / "figures" / "one.json").write_text("{}")

    async def story(lab):
        foreign = (
            "nothing", "..", "%2e%2e", "%2e%2e%2fsecret", "..%2fsecret", str(secret), "last", "*",
            f"{folder.name}%00", "%5c..%5csecret", "a" * 5000,
        )
        for name in foreign:
            for rest in ("", "/curves", "/figures/one", "/events"):
                answer = await lab.client.get(f"/api/runs/{name}{rest}")
                assert (answer.status_code, "hush" in answer.text) == (404, False), name + rest
            for rest in ("", "/report"):
                answer = await lab.client.get(f"/runs/{name}{rest}")
                assert (answer.status_code, "hush" in answer.text) == (404, False), name + rest
            for what in ("cancel", "resume"):
                answer = await lab.client.post(f"/api/runs/{name}/{what}")
                assert answer.status_code == 404, name + what
            answer = await lab.client.get("/api/runs/compare", params={"names": name})
            assert answer.status_code in (404, 422)
        own = f"/api/runs/{folder.name}/figures"
        assert (await lab.client.get(f"{own}/one")).status_code == 200
        for figure in ("..%2fconfig", "%2e%2e%2fsecret%2fresult", "two", "one.json", "%2e%2e"):
            assert (await lab.client.get(f"{own}/{figure}")).status_code == 404, figure

    tell(story, runs)


def test_broken_folders_and_strange_names_do_not_break_the_lists(tmp_path):
    texts = ("", "[]", "{}", '{"asked": {"page": 5}}', "\0", "[" * 10_000)
    for place, text in enumerate(texts):
        (tmp_path / f"broken-{place}").mkdir()
        (tmp_path / f"broken-{place}" / "config.json").write_text(text)
    good = create(tmp_path, RunConfig("networks/mlp", "hidden_300", knobs={"epochs": 3}))
    half = create(tmp_path, RunConfig("networks/mlp", "hidden_300"))
    (half.path / "result.json").write_text('{"reached"')
    (half.path / "metrics.jsonl").write_text('x\n{"training": 3}\n{"training": "a", "loss": []}\n')
    strange = tmp_path / '<b>"run" #1 &?%'
    good.path.rename(strange)

    async def story(lab):
        listed = {one["name"]: one for one in (await lab.client.get("/api/runs")).json()}
        assert listed[strange.name]["status"] == "interrupted"
        broken = {half.name, *(f"broken-{place}" for place in range(len(texts)))}
        assert {name for name in listed if listed[name]["status"] == "broken"} == broken
        for name in listed:
            assert (await lab.client.get(f"/api/runs/{quote(name)}")).json()["name"] == name
        pages = [await lab.client.get("/runs")]
        links = re.findall(r'href="(/runs/[^"]+)"', pages[0].text)
        assert len(links) == len(listed)
        pages += [await lab.client.get(link) for link in links]
        for page in pages:
            assert page.status_code == 200
            assert "<b>\"run\"" not in page.text
            assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", page.text)
        assert any("&lt;b&gt;" in page.text and "epochs" in page.text for page in pages[1:])
        of_page = lab.runs.of_page("networks/mlp")
        assert {one["name"] for one in of_page} == {strange.name, half.name}
        for name in broken:
            assert (await lab.client.post(f"/api/runs/{name}/resume")).status_code == 409

    tell(story, tmp_path)


# what is asked, and what is shown


@pytest.mark.parametrize(
    "pairs", [{"epochs": "400"}, {"epochs": "many"}, {"epochz": "3"}, {"units": "1e400"}, {"": ""}]
)
def test_a_bad_knob_gets_the_sentence_of_the_command_line(tmp_path, pairs):
    flags = [word for name, text in pairs.items() for word in ("--set", f"{name}={text}")]
    with pytest.raises(UsageError) as refused:
        command_line(["run", TRAINED, *flags, "--runs-dir", str(tmp_path)], standalone_mode=False)

    async def story(lab):
        answer = await lab.client.post("/api/runs", json={"key": TRAINED, "knobs": pairs})
        assert answer.status_code == 422
        if all(pairs):
            assert answer.json()["error"] == str(refused.value)
        assert list(tmp_path.iterdir()) == []

    tell(story, tmp_path)


@pytest.mark.parametrize("key", ["networks/mpl", "networks/mlp:hidden_30", "", "../secret", ":"])
def test_an_unknown_experiment_gets_the_sentence_of_the_command_line(tmp_path, key):
    with pytest.raises(UsageError) as refused:
        command_line(["run", key, "--runs-dir", str(tmp_path)], standalone_mode=False)

    async def story(lab):
        answer = await lab.client.post("/api/runs", json={"key": key})
        assert (answer.status_code, answer.json()["error"]) == (404, str(refused.value))

    tell(story, tmp_path)


def test_the_report_is_shut_off_from_the_server(tmp_path):
    folder = create(tmp_path, RunConfig("networks/mlp", "hidden_300"))

    async def story(lab):
        answer = await lab.client.get(f"/runs/{folder.name}/report")
        assert answer.status_code == 404
        assert "no report yet" in answer.json()["error"]
        (folder.path / "report.html").write_text("<script>draw()</script>")
        answer = await lab.client.get(f"/runs/{folder.name}/report")
        assert answer.text == "<script>draw()</script>"
        policy = {one.split()[0]: one.split()[1:] for one in
                  answer.headers["content-security-policy"].split("; ")}
        assert policy["sandbox"] == ["allow-scripts"]  # no origin of its own, no forms, no windows
        assert policy["default-src"] == ["'none'"]
        assert "connect-src" not in policy

    tell(story, tmp_path)


def test_a_comparison_shows_curves_numbers_and_what_differs(tmp_path):
    named = []
    for place, knobs in enumerate(({}, {"epochs": 3}, {"epochs": 8})):
        folder = create(tmp_path, RunConfig("networks/mlp", "hidden_300", seed=place, knobs=knobs))
        rows = [{"training": "relu", "epoch": one, "loss": 1 / one} for one in (1, 2, 3)]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder.path / "metrics.jsonl").write_text(text)
        named.append(folder.name)
    result = {"metrics": {"digits_accuracy": 0.5}, "goals": {"digits_accuracy": ">= 0.95"}}
    (tmp_path / named[1] / "result.json").write_text(json.dumps({**result, "reached": False}))

    async def story(lab):
        query = {"names": ",".join(named)}
        found = (await lab.client.get("/api/runs/compare", params=query)).json()
        assert {one["name"] for one in found["figure"]["data"]} == {f"{one} relu" for one in named}
        # a knob that nobody turned has its default, which is 8
        assert {one["name"]: one["values"] for one in found["differences"]} == {
            "seed": ["0", "1", "2"], "epochs": ["8", "3", "8"],
        }
        assert found["numbers"] == [
            {"name": "digits_accuracy", "goals": [">= 0.95"], "values": [None, 0.5, None]}
        ]
        (number,) = (await lab.client.get(f"/api/runs/{named[1]}")).json()["numbers"]
        assert number == {**number, "value": 0.5, "goal": ">= 0.95", "reached": False}
        answer = await lab.client.get("/api/runs/compare", params={"names": f"{named[0]},nobody"})
        assert answer.status_code == 404

    tell(story, tmp_path)


def test_long_curves_are_thinned_and_keep_their_ends(tmp_path):
    folder = create(tmp_path, RunConfig("networks/mlp", "hidden_300"))
    with (folder.path / "metrics.jsonl").open("w") as stream:
        for epoch in range(30_000):
            stream.write(json.dumps({"training": "long", "epoch": epoch, "loss": 1.0}) + "\n")

    async def story(lab):
        curves = (await lab.client.get(f"/api/runs/{folder.name}")).json()["curves"]
        epochs = [row["epoch"] for row in curves["long"]]
        assert len(epochs) == following.MOST_ROWS
        assert (epochs[0], epochs[-1]) == (0, 29_999)
        gaps = {after - before for before, after in itertools.pairwise(epochs)}
        assert max(gaps) - min(gaps) <= 1
        heard = events_of((await lab.client.get(f"/api/runs/{folder.name}/events")).text)
        assert len(rows_of(heard)) == 30_000

    tell(story, tmp_path)

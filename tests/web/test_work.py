"""What workers do for the pages: measurements, refusals and runs."""

import pytest

from principia.lab.course import catalog
from principia.lab.course.fingerprint import of_claims
from principia.lab.evidence.kept import fresh_finding
from principia.lab.params import UsageError
from principia.lab.runs.folders import RunFolder
from principia.lab.web.pages import claims_api
from principia.lab.web.processes import work
from web import jobs
from web.stories import listen, until, use


def test_a_measurement_has_numbers_a_sentence_and_a_figure():
    async def story(workers):
        key, name = "connectionism/neuron", "logic_gates"
        seen = await workers.run("me", "check", work.check, key, name, 0)
        assert seen["finding"]["passed"] is True
        assert seen["finding"]["measures"] == [seen["measure"]["observation"]]
        assert seen["finding"]["controls"] == [one["observation"] for one in seen["controls"]]
        assert all(one["observation"]["verdict"] == "refuted" for one in seen["controls"])
        assert seen["measure"]["figure"]["data"]
        assert fresh_finding(catalog.page(key), name).to_json() == seen["finding"]
        alone = await workers.run("me", "measure", work.measure, key, name, 0, {})
        assert alone == seen["measure"]
        now = of_claims(catalog.page(key))
        assert alone["code"] == now, "the code that the worker has loaded"
        assert [claims_api._told(alone, one)["stale"] for one in (now, "edited")] == [False, True]

    use(story)


def test_what_is_refused_is_refused_with_the_sentence_of_the_command_line():
    key, name = "connectionism/perceptron", "mistake_bound"

    async def refused(workers, *arguments):
        with pytest.raises(UsageError) as caught:
            await workers.run("me", "measure", work.measure, *arguments)
        return str(caught.value)

    async def story(workers):
        for knobs in ({"points": -3}, {"points": "many"}, {"pionts": 30}, {"points": [30]},
                      {"points": None}, {"points": True}, {"points": 1e400}):
            sentence = await workers.run("me", "settings", jobs.refusal, key, name, knobs)
            assert sentence.startswith(f"{key}:{name}: ")
            assert await refused(workers, key, name, 0, knobs) == sentence
        for seed in (-1, "0", 1.5, 2**32, None, True):
            assert "seed must be an integer in" in await refused(workers, key, name, seed, {})
        assert "knobs must be an object" in await refused(workers, key, name, 0, [1])
        assert "Did you mean 'mistake_bound'" in await refused(workers, key, "mistake", 0, {})
        assert "must be a claim of" in await refused(workers, key, "", 0, {})
        assert "must be the key of a page" in await refused(workers, "no/page", "x", 0, {})

    use(story)


def test_texts_and_values_of_a_knob_mean_the_same():
    async def story(workers):
        key, name = "connectionism/perceptron", "mistake_bound"
        typed = await workers.run("a", "m", work.measure, key, name, 3, {"points": "40"})
        given = await workers.run("b", "m", work.measure, key, name, 3, {"points": 40})
        assert typed == given
        assert typed["observation"]["knobs"]["points"] == 40

    use(story)


def test_a_run_can_be_stopped_and_goes_on_and_tells_how_far_it_is(tmp_path):
    async def story(workers):
        name = await workers.run("me", "new", jobs.new_run, tmp_path, "networks/mlp", "hidden_300")
        folder = RunFolder(tmp_path / name)
        arguments = (work.do_run, str(tmp_path), folder.name)
        job, heard = await listen(workers, *arguments)
        await until(lambda: any("progress" in one for one in heard), 30)
        job.stop()
        assert await job.ended == ("stopped", "")
        assert folder.status == "interrupted"
        assert list(folder.checkpoints.rglob("*.safetensors"))
        job, heard = await listen(workers, *arguments)
        kind, result = await job.ended
        progress = [one["progress"] for one in heard if "progress" in one]
        assert any(0 < one["done"] <= one["total"] for one in progress)
        assert kind == "ended"
        assert result["reached"] is True
        assert result["missed"] == []
        assert folder.status == "reached"
        assert any("accuracy" in one.get("say", "") for one in heard)

    use(story)

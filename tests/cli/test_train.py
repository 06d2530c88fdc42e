"""Runs as a user makes them: own data, reports, predictions, exports, interruptions."""

import csv
import json
import os

import numpy as np
import pytest
import safetensors.torch
import torch

import commands
from killing import interrupted_run, run_killed_while_it_writes
from principia.lab.packing import sealed, unsealed
from principia.lab.runs.folders import RunFolder
from principia.lab.runs.models import load_model

QUICK = ("--threads", "1", "--set", "epochs=15")


def principia(folder, *words):
    return commands.principia(*words, cwd=folder)


def write_houses(path, rows=200, *, price=True):
    """Houses whose price depends on their size and their town."""
    rng = np.random.default_rng(0)
    size, town = rng.uniform(30, 200, rows), rng.choice(["Aa", "Brück", "Čáslav"], rows)
    worth = 1000 * size + 50_000 * (town == "Brück") + rng.normal(0, 5000, rows)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter=";")
        writer.writerow(["id", "size", "town", *(["price"] if price else [])])
        for row in zip((f"h{k}" for k in range(rows)), size, town, worth, strict=True):
            writer.writerow(row if price else row[:-1])


def test_a_table_nobody_here_wrote_is_learned_predicted_and_exported(tmp_path):
    write_houses(tmp_path / "houses.csv")
    words = ("run", "networks/mlp", "--data", "houses.csv", "--target", "price", *QUICK)
    refused = principia(tmp_path, *words)
    assert refused.returncode == 2
    assert "leave it out with --drop id" in refused.stderr
    done = principia(tmp_path, *words, "--drop", "id", "--set", "hidden=32,16")
    assert done.returncode == 0, done.stderr
    folder = RunFolder(tmp_path / "runs/networks-mlp-1")
    metrics = folder.result["metrics"]
    assert metrics["test_rmse"] < 0.5 * metrics["rmse_of_the_mean"]
    assert folder.config.knobs == {"epochs": 15, "hidden": [32, 16]}
    page = (folder.path / "report.html").read_text()
    assert "learning curves" in page
    assert "<script src" not in page

    write_houses(tmp_path / "new.csv", 30, price=False)
    done = principia(tmp_path, "predict", "last", "--data", "new.csv", "--out", "answers.csv")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "answers.csv").open(encoding="utf-8") as stream:
        answers = list(csv.DictReader(stream))
    assert len(answers) == 30
    error = [float(one["predicted_price"]) - 1000 * float(one["size"]) for one in answers]
    assert np.std(error) < 40_000
    printed = principia(tmp_path, "predict", "last", "--data", "new.csv")
    assert printed.stdout.splitlines()[1:] == [one["predicted_price"] for one in answers]

    done = principia(tmp_path, "export", "last", "--to", "onnx", "--out", "model.onnx")
    assert done.returncode == 0, done.stderr
    onnxruntime = pytest.importorskip("onnxruntime")
    model, described = load_model(folder.path / "model")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    for rows in (1, 7):
        x = torch.randn(rows, len(described["schema"]["features"]) - 1 + 3)
        (y,) = session.run(None, {"x": x.numpy()})
        assert torch.allclose(torch.from_numpy(y), model(x).detach(), atol=1e-5)
    done = principia(tmp_path, "export", "last", "--to", "safetensors", "--out", "model.st")
    weights, state = safetensors.torch.load_file(tmp_path / "model.st"), model.state_dict()
    assert weights.keys() == state.keys()
    assert all(torch.equal(weights[name], state[name]) for name in state)


@pytest.mark.parametrize(("page", "data", "least"), [
    ("networks/mlp", "spirals", 0.9),
    ("regression/softmax", "iris", 0.9),
    ("networks/maxout", "moons", 0.9),
    ("networks/residual", "wine", 0.9),
    ("connectionism/perceptron", "breast_cancer", 0.9),
    ("regression/logistic", "breast_cancer", 0.9),
    ("connectionism/delta_rule", "iris", 0.8),
])
def test_classes_are_learned(tmp_path, page, data, least):
    done = principia(tmp_path, "run", page, "--data", data, "--threads", "1")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert RunFolder(folder).result["metrics"]["test_accuracy"] >= least
    done = principia(tmp_path, "predict", "last", "--data", data)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "page", ["regression/least_squares", "regression/ridge", "regression/lasso", "networks/mlp"])
def test_numbers_are_learned(tmp_path, page):
    done = principia(tmp_path, "run", page, "--data", "diabetes", "--threads", "1")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    metrics = RunFolder(folder).result["metrics"]
    assert metrics["test_rmse"] < 0.85 * metrics["rmse_of_the_mean"]


def test_parts_are_added_and_a_run_can_teach(tmp_path):
    page = ("run", "networks/mlp", "--data", "iris", *QUICK)
    plain = principia(tmp_path, *page)
    assert plain.returncode == 0, plain.stderr
    (tmp_path / "runs/broken").mkdir()
    (tmp_path / "runs/broken/config.json").write_text("{")  # a neighbor that changes nothing
    taught = principia(
        tmp_path, *page, "--set", "distillation.teacher=networks-mlp-1",
        "--set", "label_smoothing.eps=0.05", "--set", "max_norm.bound=2",
    )
    assert taught.returncode == 0, taught.stderr
    folder = RunFolder(tmp_path / "runs/networks-mlp-2")
    assert folder.result["knobs"] == {
        "epochs": 15, "distillation.teacher": "networks-mlp-1", "label_smoothing.eps": 0.05,
        "max_norm.bound": 2.0,
    }
    model, _ = load_model(folder.path / "model")
    rows = torch.cat([one.weight.norm(dim=1) for one in model.layers])
    assert rows.max() <= 2 * (1 + 1e-6)
    assert "max_norm.bound" in (folder.path / "report.html").read_text()
    listed = principia(tmp_path, "parts").stdout
    assert "--set max_norm.bound=" in listed
    assert "--set distillation.teacher=" in listed


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        ("max_norm.bound=-1", "max_norm.bound must be in (0, inf), or none; got -1."),
        ("max_nrom.bound=1", "there is no knob 'max_nrom.bound'. Did you mean 'max_norm.bound'?"),
        ("distillation.teacher=nobody", "teacher must be the name of a run in runs; got 'nobody'."),
        ("distillation.teacher=../networks-mlp-1", "teacher must be the name of a run in runs;"),
    ],
)
def test_parts_that_cannot_be_added_leave_no_run(tmp_path, pair, sentence):
    done = principia(tmp_path, "run", "networks/mlp", "--data", "iris", *QUICK, "--set", pair)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_parts_need_a_training(tmp_path):
    done = principia(tmp_path, "run", "connectionism/neuron", "--set", "max_norm.bound=1")
    assert done.returncode == 2
    assert "trains nothing by the training loop" in done.stderr
    assert "Leave out max_norm.bound." in done.stderr
    assert not (tmp_path / "runs").exists(), "it is refused before the run"
    done = principia(tmp_path, "run", "regression/ridge", "--data", "diabetes", "--set",
                     "max_norm.bound=1")
    assert done.returncode == 2
    assert "regression/ridge trains nothing" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_runs_are_listed_reported_and_not_run_twice(tmp_path):
    done = principia(tmp_path, "runs")
    assert "There are no runs in runs" in done.stdout
    for seed in "01":
        principia(tmp_path, "run", "networks/mlp", "--data", "moons", "--seed", seed, *QUICK)
    done = principia(tmp_path, "runs")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[:3] for line in lines] == [
        [f"networks-mlp-{number}", "reached", "networks/mlp on moons"] for number in (1, 2)]
    report = tmp_path / "runs/networks-mlp-1/report.html"
    before = report.read_bytes()
    report.unlink()
    assert principia(tmp_path, "report", "networks-mlp-1").returncode == 0
    assert report.read_bytes() == before
    done = principia(tmp_path, "run", "--resume", "last")
    assert "networks-mlp-2 has ended already" in done.stdout


LONG = ("networks/mlp", "--data", "digits", "--threads", "1", "--set", "epochs=40")


def test_ctrl_c_says_how_to_go_on(tmp_path):
    said, code = interrupted_run(tmp_path, *LONG)
    assert code == 130
    assert said.splitlines() == [
        "run: stopping after this step; once more stops at once.",
        "run: interrupted. Go on with: principia run --resume networks-mlp-1",
    ]
    assert RunFolder(tmp_path / "runs/networks-mlp-1").status == "interrupted"
    done = principia(tmp_path, "run", "--resume", "networks-mlp-1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("file", ["model.safetensors", "result.json"])
def test_a_kill_while_a_file_is_written_leaves_nothing_behind(tmp_path, file):
    run_killed_while_it_writes(tmp_path, file, "networks/mlp", "--data", "moons", *QUICK)
    folder = tmp_path / "runs/networks-mlp-1"
    assert [*folder.rglob(f".{file}.*.writing")]
    assert principia(tmp_path, "run", "--resume", "last").returncode == 0
    assert [one for one in folder.rglob(file) if one.is_file()]
    assert [one.name for one in folder.rglob(".*")] == [".lock"]


def test_what_has_changed_since_is_refused(tmp_path):
    """Fail closed: other code, other versions or other data cannot end the same run."""
    write_houses(tmp_path / "houses.csv", 2000)
    words = ("networks/mlp", "--data", "houses.csv", "--target", "price", "--drop", "id")
    interrupted_run(tmp_path, *words, "--threads", "1", "--set", "epochs=200")
    config = tmp_path / "runs/networks-mlp-1/config.json"
    text = config.read_text()
    plain = json.loads(text)

    def refused(change, sentence):
        changed = json.loads(text)
        change(changed)
        config.write_text(json.dumps(changed))
        done = principia(tmp_path, "run", "--resume", "last")
        assert done.returncode == 2
        assert sentence in done.stderr, done.stderr
        config.write_text(text)

    refused(lambda one: one.update(code="0"), "must be resumed with the code that it began with")
    refused(lambda one: one["environment"].update(torch="1.0"), "must be resumed with torch 1.0")
    refused(lambda one: one["asked"].update(seed=1), "must be of the same training")
    refused(lambda one: one["asked"].update(extra=1), "does not have its form")
    refused(lambda one: one.update(format=7), "must be 1; got 7")
    write_houses(tmp_path / "houses.csv", 2001)
    refused(lambda one: None, "has changed since the run began")
    assert plain == json.loads(config.read_text())


def test_two_processes_cannot_work_in_one_run(tmp_path):
    assert principia(tmp_path, "run", "networks/mlp", "--data", "moons", *QUICK).returncode == 0
    folder = RunFolder(tmp_path / "runs/networks-mlp-1")
    folder.result_file.unlink()
    with folder.locked():
        done = principia(tmp_path, "run", "--resume", "last")
        assert "networks-mlp-1 is running in another process" in done.stderr
        assert done.returncode == 2


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    done = principia(tmp_path, "run", "networks/mlp", "--runs-dir", "file/runs")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "--runs-dir" in done.stderr


def test_a_changed_model_is_not_loaded(tmp_path):
    principia(tmp_path, "run", "networks/mlp", "--data", "moons", *QUICK)
    folder = tmp_path / "runs/networks-mlp-1/model"
    described = unsealed((folder / "model.json").read_bytes(), 1)
    weights = (folder / "model.safetensors").read_bytes()
    changes = [
        ("model.safetensors", weights[:-1] + b"\x01", "was changed after it was written"),
        ("model.json", sealed({**described, "component": "networks/mlp:os"}, 1),
         "has no component 'os'"),
        ("model.json", sealed({**described, "settings": {"sizes": [2, 3]}}, 1),
         "does not have its form"),
        ("model.json", json.dumps({**described, "settings": {}}).encode(),
         "does not have its form: it does not have its check sum"),
        ("model.json", b"{", "holds no trained model"),
    ]
    for name, body, sentence in changes:
        before = (folder / name).read_bytes()
        (folder / name).write_bytes(body)
        done = principia(tmp_path, "predict", "last", "--data", "moons")
        assert done.returncode == 2, done.stderr
        assert sentence in done.stderr
        (folder / name).write_bytes(before)


def test_the_ledger_is_written_from_real_runs(tmp_path):
    """With a data folder of its own the cheapest experiment is measured, and only then is a row."""
    file = tmp_path / "ledger.json"
    key = "connectionism/neuron"
    done = principia(tmp_path, "ledger", key, "--file", file)
    assert done.returncode == 1
    assert "not measured" in done.stdout
    done = principia(tmp_path, "ledger", key, "--file", file, "--update", "--threads", "1")
    assert done.returncode == 0, done.stderr
    done = principia(tmp_path, "ledger", key, "--file", file, "--json")
    (row,) = json.loads(done.stdout).values()
    assert row["verdict"] == "reached"
    assert row["seeds"] == [0]
    assert set(row["goals"]) <= set(row["metrics"])
    assert row["stale"] is False
    rows = json.loads(file.read_text())
    goal = next(iter(row["goals"]))
    (only,) = rows["rows"].values()
    only["metrics"][goal] = [-1e9]
    file.write_text(json.dumps(rows))
    done = principia(tmp_path, "ledger", key, "--file", file)
    assert done.returncode == 1
    assert "falls short" in done.stdout
    only.update(row, code="of an earlier version")
    file.write_text(json.dumps(rows))
    done = principia(tmp_path, "ledger", key, "--file", file)
    assert done.returncode == 1, "nobody knows whether this code reaches it"
    assert "measured on an earlier version: reached" in done.stdout
    assert os.listdir(tmp_path / "runs")

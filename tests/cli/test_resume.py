"""A run that goes on is the run that began: other flags, other code, other processors are told."""

import json
import shlex
import subprocess
import sys

import pytest

import commands
from principia.lab import environment
from principia.lab.course.imports import Sources
from principia.lab.environment import kernels
from principia.lab.runs import execution
from principia.lab.runs.folders import RunFolder

PAGE = ("networks/mlp", "--data", "iris", "--drop", "petal_width", "--set", "epochs=2")
ALL = (*PAGE, "--target", "species", "--seed", "3", "--threads", "1", "--budget", "quick")
RUN = "networks-mlp-1"


def run(folder, *words):
    return commands.principia("run", *words, cwd=folder)


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Gives a function that begins a run, which is interrupted at once; it is in `tmp_path`."""

    def begin(*words):
        with monkeypatch.context() as patch:

            def interrupted(*_, **__):
                raise KeyboardInterrupt

            patch.setattr(execution, "execute", interrupted)
            assert run(tmp_path, *words).returncode == 130
        return tmp_path

    return begin


@pytest.mark.parametrize(("words", "has"), [
    ("--seed 7", "3"),
    ("--set epochs=9", "epochs=2"),
    ("--set hidden=8", "hidden=64,64"),
    ("--set max_norm.bound=2", "max_norm.bound=none"),
    ("--budget full", "quick"),
    ("--threads 2", "1"),
    ("--data wine", "iris"),
    ("--target petal_length", "species"),
    ("--drop sepal_width", "petal_width"),
    ("--device nonsense", "cpu"),
    ("--data-dir .", "none"),
])
def test_a_flag_that_contradicts_the_run_is_refused(begun, words, has):
    folder = begun(*ALL)
    done = run(folder, "--resume", "last", *words.split())
    name, value = words.split()
    assert done.returncode == 2
    sentence = f"run: {name} must be what {RUN} has, {has}; got {value}. Leave it out, or start a "
    assert done.stderr.startswith(f"{sentence}new run: principia run networks/mlp ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr.split("new run: ")[1]
    assert RunFolder(folder / "runs" / RUN).status == "interrupted"


def test_the_command_of_a_new_run_is_what_this_one_was_asked_with_the_change(begun):
    said = run(begun(*ALL), "--resume", RUN, "--seed", "7", "--set", "hidden=8").stderr
    assert shlex.split(said.split("new run: ")[1]) == shlex.split(
        "principia run networks/mlp --seed 7 --threads 1 --data iris --target species "
        "--drop petal_width --set epochs=2 --set hidden=8")


def test_flags_that_say_what_the_run_has_are_accepted(begun):
    same = (*ALL[1:], "--device", "cpu", "--set", "hidden=64,64")  # which is the default
    folder = begun(*ALL)
    done = run(folder, "--resume", "last", *same)
    assert done.returncode in (0, 1), done.stderr
    assert "went on with another processor" not in done.stdout
    assert run(folder, "--resume", "last", *same).returncode == done.returncode
    again = run(folder, "--resume", "last", "--seed", "7")
    assert "--seed must be what" in again.stderr, "also when the run has ended"
    assert "needs no KEY" in run(folder, "networks/mlp", "--resume", "last").stderr


@pytest.mark.parametrize(("words", "changed", "refused"), [
    (("regularization/dropout",), "principia.regularization.norm_constraint", True),
    (("regularization/dropout",), "principia.lab.training.callbacks", True),
    (("regularization/dropout",), "principia.lab.params.domains", True),
    (("connectionism/neuron",), "principia.regularization.norm_constraint", False),
    (("connectionism/neuron",), "principia.connectionism.claims.neuron", False),
    ((*PAGE, "--set", "max_norm.bound=2"), "principia.regularization.norm_constraint", True),
    ((*PAGE, "--set", "max_norm.bound=2"),
     "principia.regularization.experiments.norm_constraint", True),
    (PAGE, "principia.lab.data.own", True),
])
def test_a_run_does_not_go_on_with_other_code(begun, monkeypatch, words, changed, refused):
    folder, original = begun(*words), Sources.sha256
    monkeypatch.setattr(
        Sources, "sha256",
        lambda self, module: "changed" if module == changed else original(self, module))
    (found,) = (folder / "runs").iterdir()
    code = json.loads((found / "config.json").read_text())["code"]
    assert (execution._code(RunFolder(found).config) != code) == refused
    if refused:
        done = run(folder, "--resume", "last")
        assert done.returncode == 2
        assert "must be resumed with the code that it began with" in done.stderr


def test_another_processor_is_refused_or_told(begun):
    folder = begun(*PAGE)
    found = RunFolder(folder / "runs" / RUN)
    record = json.loads(found.config_file.read_text())
    here = record["kernels"]["capability"]
    record["kernels"]["capability"] = "ABACUS"
    found.config_file.write_text(json.dumps(record))
    done = run(folder, "--resume", "last")
    assert done.returncode == 2
    difference = f"capability {here} instead of ABACUS"
    assert done.stderr == (
        f"run: {RUN} must be resumed on a processor like its first, which gives the same bits; "
        f"this is {difference}. Start a new run, or accept other bits with "
        "--allow-other-processor.\n")
    told = f"It went on with another processor, {difference}: its bits are not those of a run "
    for _ in range(2):  # and when it is asked again
        done = run(folder, "--resume", "last", "--allow-other-processor")
        assert done.returncode in (0, 1), done.stderr
        assert told in done.stdout
    assert found.result["other_processors"] == [difference]
    assert difference in found.report_file.read_text()


def test_a_run_on_one_processor_says_nothing_of_others(tmp_path):
    assert run(tmp_path, *PAGE).returncode in (0, 1)
    found = RunFolder(tmp_path / "runs" / RUN)
    assert "other_processors" not in found.result
    assert not found.processors_file.exists()
    assert found.record["kernels"] == kernels()
    done = run(tmp_path, *PAGE, "--allow-other-processor")
    assert done.returncode == 2
    assert "--allow-other-processor needs --resume" in done.stderr


def test_kernels_follow_what_chooses_them(monkeypatch):
    before = kernels()
    assert {"vendor", "capability", "instructions"} <= set(before)
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert kernels() == {**before, "MKL_CBWR": "COMPATIBLE"}
    code = "from principia.lab.environment import kernels; print(kernels()['capability'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**environment.os.environ, "ATEN_CPU_CAPABILITY":
        "default"}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("DEFAULT", "NO AVX", before["capability"])
    assert before["capability"] not in ("AVX2", "AVX512") or "AVX" not in done.stdout


def test_what_evidence_needs_of_the_environment_loads_no_torch():
    code = (
        "import sys; from principia.lab.environment import environment; environment();"
        "from principia.lab.course import catalog, fingerprint;"
        "fingerprint.of_claims(catalog.page('networks/mlp')); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"

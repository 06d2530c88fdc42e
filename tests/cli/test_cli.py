"""The command line as a user meets it: in a pipe, in a terminal, with mistakes, interrupted."""

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import COMMAND, principia, process
from principia.lab.course import catalog

CLAIM = "connectionism/perceptron:bound_is_attained"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("check conectionism", "Did you mean 'connectionism'?"),
        ("check perceptron", "Did you mean 'connectionism/perceptron'?"),
        ("check connectionism/perceptron:mistake_bond", "Did you mean 'mistake_bound'?"),
        ("check", "name a chapter, a page or page:claim, or give --all"),
        ("check connectionism --all", "or give --all"),
        ("check connectionism --seeds 0", "check: seeds must be an integer in [1, 1000]; got 0."),
        ("check connectionism --seeds x", "check: seeds must be an integer in [1, 1000]; got x."),
        ("check connectionism --jobs -3", "check: jobs must be an integer in [1, 256], or none"),
        ("check connectionism --sedes 2", "No such option: --sedes"),
        (f"check {CLAIM} --set dim=0", f"{CLAIM}: dim must be an integer in [1, 1000]; got 0."),
        (f"check {CLAIM} --set dmi=3", "there is no knob 'dmi'. Did you mean 'dim'?"),
        (f"check {CLAIM} --set dim", "check: --set must be knob=value; got 'dim'."),
        ("check connectionism --set dim=3", "--set needs one claim"),
        (f"check {CLAIM} --figure a.png", "--figure must be a file that ends in .html or .json"),
        (f"check {CLAIM} --figure no/where.html", "folder no does not exist"),
        ("check connectionism/nothing", "check: KEY must be the key of a page"),
        ("show", "Missing argument 'KEY'"),
        ("show connectionism/hopfeild", "Did you mean 'connectionism/hopfield'?"),
        ("cite connectionism/hopfeild", "Did you mean 'connectionism/hopfield'?"),
        ("ls conectionism", "ls: CHAPTER must be the name of a chapter; got 'conectionism'."),
        ("run connectionism/perceptron:digit", "Did you mean 'digits'?"),
        ("run connectionism/perceptron --budget ful", "run: budget must be one of 'quick', 'full'"),
        ("run connectionism/perceptron --set epochs=0", "epochs must be an integer in [1, inf)"),
        ("run connectionism/perceptron --seed -1", "run: seed must be an integer in [0, 4.29"),
        ("run", "run: KEY must be the key of a page"),
        ("run --resume nothing", "RUN must be the name of a run in runs, or last; got 'nothing'."),
        ("run networks/mlp --device abacus", "run: --device must be a device of this machine"),
        ("run networks/mlp --target y", "run: --target and --drop need --data."),
        ("run networks/mlp --data nothing.csv --target y", "data: nothing.csv must be a file, or"),
        ("run networks/mlp --data iris --target color", "data: column must be one of the table"),
        ("run networks/mlp --data iris --set hiden=3", "networks/mlp: there is no knob 'hiden'."),
        ("run regression/lasso --data iris", "regression/lasso learns regression; the target asks"),
        ("run connectionism/cover --data iris", "connectionism/cover does not learn from a table"),
        ("runs --runs-dir", "--runs-dir"),
        ("report last", "report: RUN must be the name of a run in runs, or last; got 'last'."),
        ("predict last --data iris", "predict: RUN must be the name of a run"),
        ("export last --to onnx", "export: RUN must be the name of a run"),
        ("export last --to pickle", "export: to must be one of 'onnx', 'safetensors'"),
        ("ledger networks/nothing", "ledger: no experiment is called networks/nothing."),
        ("run connectionism/perceptron --data-dir nowhere", "folder 'nowhere' does not exist"),
        ("tour --out no/where.html", "/no does not exist. Create it, or name another."),
        ("tour --out .", "is a folder. Name a file."),
        ("chek connectionism", "Did you mean 'check'?"),
    ],
)
def test_mistakes_end_in_one_sentence(arguments, sentence, tmp_path):
    done = principia(*arguments.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1, "one sentence, no traceback"
    assert list(tmp_path.iterdir()) == []


def test_a_process_says_the_same_with_its_exit_code(tmp_path):
    words = ("check", "conectionism")
    real, here = process(*words, cwd=tmp_path), principia(*words, cwd=tmp_path)
    assert (real.returncode, real.stdout, real.stderr) == (2, here.stdout, here.stderr)


def test_python_without_docstrings_is_refused():
    """They are the text of the course; -O alone leaves them."""
    for option, code in (("-OO", 2), ("-O", 0)):
        command = [sys.executable, option, "-m", "principia", "--version"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert done.stderr.count("\n") == bool(code)
        assert ("Leave out -OO, or unset PYTHONOPTIMIZE" in done.stderr) == bool(code)


@pytest.mark.parametrize("error", [
    MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
])
def test_too_little_memory_is_told_in_a_sentence(monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr("principia.lab.cli._run", fail)
    done = principia("ls")
    assert done.returncode == 2
    assert done.stderr == (
        "principia: this needs more memory than there is. Make something smaller.\n"
    )


def test_missing_data_say_what_to_put_where(tmp_path):
    nowhere = {"PRINCIPIA_CACHE": tmp_path, "PRINCIPIA_DATA": tmp_path}
    words = ("run", "connectionism/perceptron", "--budget", "full", "--runs-dir")
    done = principia(*words, tmp_path / "runs", env=nowhere)
    assert done.returncode == 2
    assert not (tmp_path / "runs").exists()
    assert "mnist/train-images-idx3-ubyte.gz must be in a data folder" in done.stderr


def test_check_in_a_pipe_is_plain_and_exits_with_the_verdict(tmp_path):
    done = principia("check", CLAIM, "--figure", str(tmp_path / "figures.html"))
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0].split("\t")
    assert first == ["holds", CLAIM, "mistakes: 1 = 1", "refuted: mistakes: 1 > 0"]
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    page = (tmp_path / "figures.html").read_text()
    assert "Plotly.newPlot" in page
    assert "<script src" not in page
    assert '<link rel="stylesheet"' not in page


def test_the_control_asked_for_is_refuted_with_exit_code_1():
    done = principia("check", CLAIM, "--set", "strict=true")
    assert done.returncode == 1
    assert f"{CLAIM} REFUTED (seed 0): mistakes: 1 > 0" in done.stdout


def test_json_has_the_documented_form_and_is_the_same_with_any_number_of_processes():
    keys = ["connectionism/perceptron:weights_in_span", CLAIM]
    words = ("check", *keys, "--seeds", "2", "--json", "--jobs")
    one, two = principia(*words, 1), process(*words, 2)
    assert one.returncode == two.returncode == 0, one.stderr + two.stderr
    assert one.stdout == two.stdout
    document = json.loads(one.stdout)
    assert set(document) == {"claims", "environment"}
    assert document["environment"]["threads"] == 1
    first = document["claims"][0]
    assert set(first) == {"page", "claim", "passed", "knobs", "measures", "controls"}
    assert first["knobs"]["dim"].endswith(".")
    assert [measure["seed"] for measure in first["measures"]] == [0, 1]
    evidence = first["measures"][0]
    needed = {"seed", "knobs", "relation", "measured", "expected", "tolerance", "why", "verdict"}
    assert needed <= set(evidence)
    assert evidence["knobs"]["dim"] == 60


def test_figures_can_be_had_as_plotly_json(tmp_path):
    path = tmp_path / "figures.json"
    assert principia("check", CLAIM, "--figure", str(path)).returncode == 0
    assert "data" in json.loads(path.read_text())[CLAIM]


def test_show_tells_the_last_evidence():
    key = "connectionism/perceptron"
    principia("check", CLAIM)
    done = principia("show", key)
    assert done.returncode == 0
    last = "bound_is_attained: holds, control refuted on 1 seed (measured 1, expected 1)"
    assert last in done.stdout
    for words in ("Components", "Claims", "Experiments", "References", "⌊R²/γ²⌋", "--set dim=10"):
        assert words in done.stdout


def test_cite_prints_bibtex():
    done = principia("cite", "connectionism/perceptron")
    assert done.returncode == 0
    assert done.stdout.count("@misc{") == 3
    assert "@software{principia," in done.stdout
    assert "author = {Freund and Schapire}" in done.stdout


def test_errata_gives_the_number_that_decides():
    done = principia("errata", "connectionism/perceptron", "--jobs", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    misprints = catalog.page("connectionism/perceptron").misprint_names
    assert [row[0].split(":")[1] for row in rows] == list(misprints)
    assert all(len(row) == 5 for row in rows), "claim, often printed, right, measured, misprint"
    assert all(row[3].startswith("holds: ") and row[4].startswith("refuted: ") for row in rows)


def test_doctor_finds_the_data(tmp_path):
    (tmp_path / "mnist").mkdir()
    done = principia("doctor", env={"PRINCIPIA_DATA": tmp_path})
    assert done.returncode == 0
    assert f"data in {tmp_path}\tmnist" in done.stdout
    assert "torch\t" in done.stdout


def test_a_closed_pipe_is_silent():
    shell = f"{sys.executable} -m principia show connectionism/perceptron | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {shell}"],
        capture_output=True, text=True, timeout=120, check=False,
    )
    assert done.stderr == ""
    assert done.stdout.startswith("The perceptron")
    gone = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m principia ls | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True, timeout=120, check=False,
    )
    assert gone.stderr == ""
    assert gone.stdout in ("141\n", "0\n"), "never 1, which would mean refuted"
    closed = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m principia ls >&-"],
        capture_output=True, text=True, timeout=120, check=False,
    )
    assert (closed.returncode, closed.stderr) == (0, "")


def test_output_on_a_full_disk_is_told():
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "ls"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("whom", ["all, as a terminal does", "the parent alone"])
@pytest.mark.skipif(shutil.which("ps") is None, reason="no ps: install procps")
def test_a_check_that_is_stopped_leaves_no_process(tmp_path, whom):
    process = subprocess.Popen(
        [*COMMAND, "check", "connectionism", "--seeds", "50", "--jobs", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PRINCIPIA_CACHE": str(tmp_path)},
        # tests that a shell started in the background inherit that Ctrl-C is ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        until(lambda: len(members(process.pid)) == 4)  # itself, two workers, their bookkeeper
        if whom == "the parent alone":
            process.kill()
            process.communicate(timeout=60)
        else:
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 130
            assert errors == "principia: interrupted; nothing was left half-written.\n"
        until(lambda: not members(process.pid))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def members(group):
    listed = subprocess.run(
        ["ps", "-e", "-o", "pgid=,stat="], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [one for one in map(str.split, listed) if one[0] == str(group) and "Z" not in one[1]]


def until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it took more than two minutes"
        time.sleep(0.1)


def test_debug_shows_the_traceback():
    done = process("--debug", "show", "connectionism/nothing")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert "KEY must be the key of a page" in done.stderr


def test_on_a_terminal_there_are_tables_and_colors():
    output = in_terminal("ls", "connectionism")
    assert "what it is about" in output
    assert "─" in output
    checked = in_terminal("check", CLAIM)
    assert "\x1b[32mholds" in checked
    assert "1 of 1 claims hold" in checked


def in_terminal(*arguments):
    """Run in a pseudo-terminal and return what the screen got."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=follower, stderr=follower, env=environment, close_fds=True
    )
    os.close(follower)
    pieces = []
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # the other side has closed
            break
        if not piece:
            break
        pieces.append(piece)
    process.wait(timeout=60)
    os.close(leader)
    return b"".join(pieces).decode()


def test_completion_knows_the_keys():
    environment = {
        **os.environ, "_PRINCIPIA_COMPLETE": "complete_bash",
        "COMP_WORDS": "principia show connectionism/perc", "COMP_CWORD": "2",
    }
    script = "import sys; sys.argv = ['principia']; from principia.lab.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=60,
        check=False,
    )
    assert "connectionism/perceptron" in done.stdout


def test_help_names_domains_and_defaults():
    done = principia("check", "--help", env={"COLUMNS": "160", "TERM": "dumb"})
    assert done.returncode == 0
    assert "an integer in [1, 1000]; default 1" in done.stdout

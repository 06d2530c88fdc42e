"""Adding a page is one command: the skeleton, copied under a new name, is a page everywhere."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commands import process, processed

ROOT = Path(__file__).parents[2]
ROOMS = ("", "claims", "experiments")
IGNORED = shutil.ignore_patterns("__pycache__", "*.egg-info")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Copy the package and the skeleton, where a page can be added."""
    home = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src", home / "src", ignore=IGNORED)
    shutil.copytree(ROOT / "docs/skeleton", home / "docs/skeleton", ignore=IGNORED)
    return home


@pytest.fixture(scope="module")
def copied(home):
    """Add the skeleton as a page, and give the environment that sees it."""
    environment = {
        **os.environ, "PYTHONPATH": str(home / "src"), "PRINCIPIA_CACHE": str(home / "cache"),
    }
    made = principia(environment, "new", "connectionism/my_idea")
    assert made.returncode == 0, made.stderr
    for room in ROOMS:
        file = home / "src/principia/connectionism" / room / "my_idea.py"
        assert file.is_file()
        assert str(file) in made.stdout
    assert "principia check connectionism/my_idea" in made.stdout
    return environment


def principia(environment, *arguments):
    return process(*arguments, env=environment)


def test_it_is_listed_shown_checked_and_run(copied, home):
    key, runs = "connectionism/my_idea", str(home / "runs")
    listed, shown, checked, ran = processed(
        ("ls", "connectionism"), ("show", key), ("check", key, "--seeds", "3", "--jobs", "1"),
        ("run", key, "--budget", "full", "--runs-dir", runs, "--threads", "1"), env=copied,
    )
    assert "connectionism/my_idea\t2\t1\tThe running average" in listed.stdout
    assert shown.returncode == 0, shown.stderr
    assert "mₜ = β mₜ₋₁ + (1 − β) xₜ" in shown.stdout
    assert "running_average(x, *, decay=0.9, corrected=True)" in shown.stdout
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "2 of 2 claims hold" in checked.stdout
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_story_names_it_last_and_the_stub_its_component(copied, home):
    chapter = home / "src/principia/connectionism"
    source = (chapter / "__init__.py").read_text()
    assert ast.get_docstring(ast.parse(source)).endswith("Then comes `my_idea`.")
    assert max(map(len, source.splitlines())) <= 100
    listed = principia(copied, "ls", "connectionism").stdout.splitlines()
    keys = [line.split("\t")[0] for line in listed]
    assert keys[-2:] == ["connectionism/dense_memory", "connectionism/my_idea"]
    stub = (chapter / "__init__.pyi").read_text()
    assert "from .my_idea import running_average as running_average\n" in stub
    code = "from principia.connectionism import running_average as a; print(a.__module__)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=copied, check=True
    )
    assert done.stdout == "principia.connectionism.my_idea\n"


@pytest.mark.parametrize("chapter", ["connectionism", "regularization"])
def test_it_has_the_style_of_the_house(copied, home, chapter):
    """In a chapter before the lab in the alphabet, and in one behind it."""
    if chapter != "connectionism":
        assert principia(copied, "new", f"{chapter}/my_idea").returncode == 0
    files = [home / "src/principia" / chapter / room / "my_idea.py" for room in ROOMS]
    command = [sys.executable, "-m", "ruff", "check", "--config", "pyproject.toml", *files]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_goes_through_the_contract_tests(copied):
    files = [f"tests/contract/test_{name}.py" for name in ("pages", "experiments")]
    command = [sys.executable, "-m", "pytest", *files, "-k", "connectionism/my_idea", "-q"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", "-c", "pyproject.toml"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=copied, cwd=ROOT, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


REFUSED = {
    "connectionism/my_idea": "my_idea.py already; take another name.",
    "connectionism/crosstalk": "There is crosstalk in ",
    "connectionism/My_Idea": "with PAGE a lowercase Python name",
    "connectionism/lambda": "neither a keyword nor",
    "connectionism/_idea": "Try connectionism/my_idea.",
    "connectionism/claims": "nor claims nor experiments",
    "connectionism/../idea": "with PAGE a lowercase Python name",
    "connectionism": "must be CHAPTER/PAGE",
    "conectionism/my_idea": "Did you mean 'connectionism'?",
    "lab/my_idea": "with a CHAPTER that is there",
}


def test_what_cannot_be_made_is_refused_and_nothing_changes(copied, home):
    def contents():
        files = [one for one in home.rglob("*") if one.suffix != ".pyc" and one.is_file()]
        return {file: file.read_bytes() for file in files}

    before = contents()
    answers = processed(*(("new", key) for key in REFUSED), env=copied)
    assert contents() == before
    for (key, sentence), done in zip(REFUSED.items(), answers, strict=True):
        assert done.returncode == 2, key
        assert done.stdout == "", key
        assert done.stderr.startswith("new: KEY must be ")
        assert f"; got {key!r}. " in done.stderr
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1, "one sentence"


def announce(home, name, package):
    """Install a package that announces itself as a chapter, and give the environment with it."""
    info = home / "guest-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guest\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[principia.chapters]\n{name} = {package}\n")
    paths = os.pathsep.join([str(home), str(ROOT / "src")])
    return {**os.environ, "PYTHONPATH": paths, "PRINCIPIA_CACHE": str(home / "cache")}


def test_a_third_party_adds_a_chapter(tmp_path):
    package = tmp_path / "guest"
    package.mkdir()
    (package / "__init__.py").write_text('"""Guests: a chapter from elsewhere."""\n')
    environment = announce(tmp_path, "guest", "guest")
    made = principia(environment, "new", "guest/my_idea")
    assert made.returncode == 0, made.stderr
    assert all((package / room / "my_idea.py").is_file() for room in ROOMS)
    listed, checked = processed(("ls", "guest"), ("check", "guest", "--jobs", "1"), env=environment)
    assert "guest/my_idea\t2\t1\t" in listed.stdout
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("name", "package", "sentence"),
    [
        ("guest", "no_such_package", "cannot be found"),
        ("guest", "guest_chapter", "must have the name of its package"),
    ],
)
def test_a_broken_announcement_is_told(tmp_path, name, package, sentence):
    (tmp_path / "guest_chapter").mkdir()
    (tmp_path / "guest_chapter/__init__.py").write_text('"""Guests."""\n')
    done = principia(announce(tmp_path, name, package), "ls")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr

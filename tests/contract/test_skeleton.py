"""Adding a page is one file: the skeleton, copied under a new name, is a page everywhere."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """Copy the package, add the skeleton as a page, and give the environment that sees it."""
    home = tmp_path_factory.mktemp("copy")
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", home / "src", ignore=ignore)
    shutil.copy(ROOT / "docs/skeleton.py", home / "src/principia/connectionism/my_idea.py")
    return {**os.environ, "PYTHONPATH": str(home / "src"), "PRINCIPIA_CACHE": str(home / "cache")}


def principia(environment, *arguments):
    command = [sys.executable, "-m", "principia", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, check=False
    )


def test_it_is_listed_shown_and_checked(copied):
    listed = principia(copied, "ls", "connectionism")
    assert "connectionism/my_idea\t2\t1\tThe running average" in listed.stdout
    shown = principia(copied, "show", "connectionism/my_idea")
    assert shown.returncode == 0, shown.stderr
    assert "mₜ = β mₜ₋₁ + (1 − β) xₜ" in shown.stdout
    assert "running_average(x, *, decay=0.9, corrected=True)" in shown.stdout
    checked = principia(copied, "check", "connectionism/my_idea", "--seeds", "3")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "2 of 2 claims hold" in checked.stdout
    ran = principia(copied, "run", "connectionism/my_idea", "--budget", "full")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_it_goes_through_the_contract_tests(copied):
    files = [f"tests/contract/test_{name}.py" for name in ("pages", "experiments")]
    command = [sys.executable, "-m", "pytest", *files, "-k", "my_idea", "-q"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", "-c", "pyproject.toml"]
    done = subprocess.run(
        command, capture_output=True, text=True, env=copied, cwd=ROOT, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def announce(home, name, package):
    """Install a package that announces itself as a chapter."""
    info = home / "guest-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guest\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[principia.chapters]\n{name} = {package}\n")


def test_a_third_party_adds_a_chapter(tmp_path):
    package = tmp_path / "guest"
    package.mkdir()
    (package / "__init__.py").write_text('"""Guests: a chapter from elsewhere."""\n')
    shutil.copy(ROOT / "docs/skeleton.py", package / "my_idea.py")
    announce(tmp_path, "guest", "guest")
    environment = {
        **os.environ, "PYTHONPATH": str(tmp_path), "PRINCIPIA_CACHE": str(tmp_path / "cache"),
    }
    assert "guest/my_idea\t2\t1\t" in principia(environment, "ls", "guest").stdout
    checked = principia(environment, "check", "guest")
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
    announce(tmp_path, name, package)
    done = principia({**os.environ, "PYTHONPATH": str(tmp_path)}, "ls")
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr

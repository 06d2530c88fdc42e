"""The Makefile on a fresh machine: no data folder, no browser, no network, an empty home.

What needs a thing that is not there is skipped with a sentence; where it is required, the same
sentence is a failure.
"""

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("LICENSE", "Makefile", "README.md", "benchmarks", "conftest.py", "constraints.txt", "docs",
         "locks", "pyproject.toml", "src", "tests")
IGNORED = shutil.ignore_patterns("__pycache__", "*.egg-info", ".pytest_cache")
# Python reads this at its start: whoever asks for another machine is told that there is none
NO_NETWORK = """
import socket
connect, resolve = socket.socket.connect, socket.getaddrinfo
HERE = ("127.0.0.1", "::1", "localhost")
def connected(self, address):
    if self.family != socket.AF_UNIX and address[0] not in HERE:
        raise OSError(101, "Network is unreachable")
    return connect(self, address)
def resolved(host, *rest, **options):
    if host not in HERE and not str(host)[:1].isdigit():
        raise socket.gaierror(-3, "Temporary failure in name resolution")
    return resolve(host, *rest, **options)
socket.socket.connect, socket.getaddrinfo = connected, resolved
"""
NEEDY = [
    "tests/lab/test_data.py",
    "tests/lab/test_downloads.py",
    "tests/web/test_browser.py::test_search_as_you_type_by_keyboard_alone",
    "tests/contract/test_races.py::test_all_sides_do_the_same_work[lab:fit_fashion]",
]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The sources alone, as git would bring them."""
    if not (Path(sys.prefix) / ".dev").exists():
        pytest.skip("this Python was not set up by make")
    home = tmp_path_factory.mktemp("fresh")
    (home / "clone").mkdir()
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, home / "clone" / name, ignore=IGNORED)
        else:
            shutil.copy2(ROOT / name, home / "clone" / name)
    (home / "python").mkdir()
    (home / "python/sitecustomize.py").write_text(NO_NETWORK)
    (home / "empty").mkdir()
    return home


def make(clone, *words, **variables):
    """Run a target with the packages that are installed already: nothing can be fetched."""
    stamps = [word for name in (".core", ".dev") for word in ("-o", f"{sys.prefix}/{name}")]
    environment = {
        "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(clone / "empty"),
        "PYTHONPATH": os.pathsep.join([str(clone / "python"), str(clone / "clone/src")]),
        "PRINCIPIA_CHROMIUM": "nowhere", "PYTHONDONTWRITEBYTECODE": "1", **variables,
    }
    return subprocess.run(
        ["make", *stamps, f"VENV={sys.prefix}", *words], cwd=clone / "clone", env=environment,
        capture_output=True, text=True, timeout=1200, check=False,
    )


def test_the_bill_of_materials_lists_what_is_installed(clone):
    done = make(clone, "sbom", f"OF={sys.executable}", "VALIDATE=--no-validate")
    assert done.returncode == 0, done.stdout + done.stderr
    bill = json.loads((clone / "clone/dist/principia.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    product = bill["metadata"]["component"]
    assert (product["name"], product["type"]) == ("principia", "library")
    listed = {one["name"].lower(): one for one in bill["components"]}
    for name in ("torch", "safetensors", "fastapi", "numpy", "scikit-learn"):
        assert listed[name]["version"] == metadata.version(name)
        assert listed[name]["licenses"]
    needs = {one["ref"]: one.get("dependsOn", []) for one in bill["dependencies"]}
    assert any("fastapi" in one for one in needs[product["bom-ref"]])


@pytest.mark.parametrize(
    ("host", "sentence"),
    [("93.184.215.14", "Network is unreachable"), ("example.org", "failure in name resolution")],
)
def test_there_is_no_network_here(clone, host, sentence):
    asked = f"import urllib.request as one; one.urlopen('http://{host}', timeout=5)"
    environment = {**os.environ, "PYTHONPATH": str(clone / "python")}
    done = subprocess.run(
        [sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=False
    )
    assert sentence in done.stderr


def test_the_tour_needs_nothing_but_the_packages(clone):
    done = make(clone, "run")
    assert done.returncode == 0, done.stdout + done.stderr
    report = clone / "clone/principia-tour.html"
    assert str(report) in done.stdout
    assert "Try next:" in done.stdout
    page = report.read_text()
    assert "<math" in page
    assert "Plotly.newPlot" in page
    assert "<script src" not in page


def test_what_needs_more_is_skipped_and_counted(clone):
    done = make(clone, "test", "JOBS=0", f"TESTS={' '.join(NEEDY)}", PYTEST_ADDOPTS="-q")
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    for sentence in (
        "no browser: install Chromium by make browser, or name it in PRINCIPIA_CHROMIUM",
        "no data: name a folder that has the data set mnist in PRINCIPIA_DATA",
        "no data: name a folder that has the data set fashion-mnist in PRINCIPIA_DATA",
    ):
        assert [line for line in told if line.endswith(sentence)], done.stdout
    assert "seconds of the workers, by folder" in done.stdout


def test_where_everything_is_required_the_tests_fail(clone):
    test = "tests/lab/test_data.py::test_mnist_has_its_published_statistics"  # needs no server
    done = make(clone, "test", "JOBS=0", f"TESTS={test}", CI="true")
    assert done.returncode != 0
    assert "Failed: no data: name a folder that has the data set mnist" in done.stdout

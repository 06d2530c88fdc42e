"""What the course as a whole must fulfil."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import principia
from principia.lab.course import catalog

ROOT = Path(__file__).parents[2]
CHAPTERS = catalog.chapters()
every_chapter = pytest.mark.parametrize(
    "chapter", [pytest.param(chapter, id=chapter.name) for chapter in CHAPTERS]
)


@every_chapter
def test_chapter_has_one_headline_claim(chapter):
    headlines = [(page.key, name) for page in chapter.pages for name in page.headline_names]
    assert len(headlines) == 1


@every_chapter
def test_story_of_a_chapter_names_only_pages_that_exist(chapter):
    assert chapter.title.endswith(".")
    named = re.findall(r"`(\w+)`", chapter.docstring)
    assert set(named) <= {page.name for page in chapter.pages}
    assert [page.name for page in chapter.pages][: len(named)] == named, "the story is the order"


@every_chapter
def test_chapter_exports_the_components_of_its_pages(chapter):
    package = __import__(chapter.package, fromlist=["_"])
    names = [name for page in chapter.pages for name in page.exports]
    assert len(names) == len(set(names)), "two pages export one name"
    assert sorted(names) == dir(package)
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchThing'"):
        _ = package.NoSuchThing


def test_import_contract_has_the_order_of_the_course():
    tomllib = pytest.importorskip("tomllib")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [layer.strip("()") for layer in contracts["contracts"][0]["layers"]]
    story = list(dict.fromkeys(re.findall(r"`(\w+)`", principia.__doc__)))
    assert layers[::-1] == ["lab", *story]


def run_python(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_importing_pages_does_nothing():
    """Neither prints nor draws random numbers, warns, changes threads or writes files."""
    modules = [page.module for chapter in CHAPTERS for page in chapter.pages]
    same = run_python(
        "import json, random, warnings, importlib, numpy, torch, sklearn.svm, scipy.optimize\n"
        "def state(): return [torch.get_rng_state().tolist(), str(numpy.random.get_state()),"
        " str(random.getstate()), torch.get_num_threads(), str(torch.get_default_dtype()),"
        " str(warnings.filters), str(numpy.geterr())]\n"
        "before = state()\n"
        f"for module in {modules!r}: importlib.import_module(module)\n"
        "after = state()\n"
        "print(json.dumps([a == b for a, b in zip(before, after)]))"
    )
    assert all(same), same


@pytest.mark.parametrize("command", [["ls"], ["--help"], ["check", "--help"], ["--version"]])
def test_browsing_imports_no_torch(command):
    loaded = run_python(
        "import sys, json, io, contextlib\n"
        f"sys.argv = ['principia', *{command!r}]\n"
        "from principia.lab.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()\n"
        "heavy = ('torch', 'numpy', 'scipy', 'sklearn', 'plotly')\n"
        "print(json.dumps([name for name in heavy if name in sys.modules]))"
    )
    assert loaded == []


def test_a_component_loads_its_own_page_only():
    loaded = run_python(
        "import sys, json\n"
        "from principia.connectionism import Perceptron\n"
        "print(json.dumps([m for m in sys.modules if m.startswith('principia.connectionism.')]))"
    )
    beside = "principia.connectionism._perceptron_fast"  # its fast form is no other page
    assert loaded == [beside, "principia.connectionism.perceptron"]

"""The import graph is what Python imports, read from the sources."""

import json
import os
import subprocess
import sys

import pytest

from principia.lab.course import catalog, imports
from principia.lab.course.imports import Sources, module_of, needed, source_of


@pytest.mark.parametrize("key", ["connectionism/perceptron", "regularization/dropout"])
def test_it_names_all_that_is_loaded(key):
    """What a page and its rooms load is in the graph; the graph may have what runs later only."""
    modules = list(catalog.page(key).modules)
    code = (
        "import sys, json, importlib\n"
        f"for one in {modules!r}: importlib.import_module(one)\n"
        "print(json.dumps([one for one in sys.modules if one.startswith('principia')]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    lazily = needed(["principia.lab.course.catalog"])  # what lazy packages load to be lazy
    assert loaded - lazily <= needed(modules)


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """A package with lazy ones inside: one with a stub, one without."""
    files = {
        "__init__.py": "SCALE = 2\n",
        "a.py": "from typing import TYPE_CHECKING\nfrom guest.lazy import thing\n"
                "if TYPE_CHECKING:\n    from guest import typed\nelse:\n    import guest.d\n",
        "b.py": "def late():\n    from . import c\n    import guest.d as d\n    return c, d\n",
        "c.py": "from .lazy.home import thing\n", "d.py": "import torch\n", "typed.py": "",
        "e.py": "from guest import SCALE\nimport importlib\n"
                "importlib.import_module('guest.d')\nimportlib.import_module('.typed', 'guest')\n",
        "f.py": "import guest.lazy\n", "g.py": "from guest.lazy import unknown\n",
        "h.py": "from guest.open import *\n", "i.py": "from guest.plain.deep import one\n",
        "j.py": "half written (\n",
        "lazy/__init__.py": "from guest.d import attach\n__getattr__, __dir__ = attach()\n",
        "lazy/__init__.pyi": "from .home import thing as thing\n",
        "lazy/home.py": "thing = 1\n", "lazy/away.py": "",
        "open/__init__.py": "def __getattr__(name): ...\n", "open/x.py": "", "open/y.py": "",
        "plain/deep.py": "one = 1\n",
    }
    for name, text in files.items():
        (tmp_path / "guest" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "guest" / name).write_text(text)
    monkeypatch.setattr(imports, "_homes", lambda: {"guest": tmp_path / "guest"})
    return tmp_path / "guest"


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("a", "lazy lazy.home d"),  # by the stub; what only a type checker reads does not count
        ("b", "c d lazy lazy.home"),  # inside a function, relative, by another name
        ("d", ""),  # torch is not ours
        ("e", "d typed"),  # a constant, and modules that are named when it runs
        ("f", "lazy lazy.home lazy.away d"),  # there is no telling what is taken from it
        ("g", "lazy lazy.home lazy.away d"),  # nor where this name is
        ("h", "open open.x open.y"),  # nor what a package without a stub gives
        ("i", "plain.deep"),  # a folder can be a package without a file
        ("j", ""),
    ],
)
def test_imports_are_found_wherever_they_stand(guest, module, expected):
    found = needed([f"guest.{module}"])
    assert found == {"guest", f"guest.{module}", *(f"guest.{one}" for one in expected.split())}


def test_a_file_and_its_module_know_each_other(guest):
    assert module_of(guest / "lazy/home.py") == "guest.lazy.home"
    assert module_of(guest / "lazy/__init__.py") == "guest.lazy"
    assert source_of("guest.lazy") == guest / "lazy/__init__.py"
    assert source_of("guest.nothing") is None
    assert module_of(guest.parent / "elsewhere.py") is None


def test_an_edit_is_seen_by_the_next_look_whatever_the_clock_says(guest):
    file, before = guest / "d.py", Sources()
    found = before.needed(["guest.d"])
    then, hash_then = file.stat(), before.sha256("guest.d")
    file.write_text("import  guest")  # as long as it was
    os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))
    assert file.stat().st_size == then.st_size
    now = Sources()
    assert now.needed(["guest.d"]) == found | {"guest"}
    assert now.sha256("guest.d") != hash_then
    assert before.sha256("guest.d") == hash_then, "one look sees one state"


def test_the_story_of_a_package_does_not_count(guest):
    def hashes():
        return [Sources().sha256(f"guest{one}") for one in ("", ".d")]

    before = hashes()
    for name in ("__init__.py", "d.py"):
        (guest / name).write_text('"""A story of\nmany lines."""\n' + (guest / name).read_text())
    package, module = hashes()
    assert package == before[0]
    assert module != before[1]
    (guest / "__init__.py").write_text("SCALE = 3\n")
    assert hashes()[0] != before[0]


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": 1}', "\x00"])
def test_a_cache_that_cannot_be_read_is_none(guest, tmp_path, monkeypatch, text):
    monkeypatch.setenv("PRINCIPIA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(imports, "_known", {})
    expected = needed(["guest.a"])
    (cache,) = (tmp_path / "cache").iterdir()
    imports._known.clear()
    imports._recalled.cache_clear()
    cache.write_text(text)
    assert needed(["guest.a"]) == expected
    assert json.loads(cache.read_text()), "it is written anew"

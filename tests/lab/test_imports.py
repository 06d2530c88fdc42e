"""The import graph is what Python imports, read from the sources."""

import json
import subprocess
import sys

import pytest

from principia.lab.course import catalog, imports
from principia.lab.course.imports import module_of, needed, source_of


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
    packages = {one for one in loaded if source_of(one).name == "__init__.py"}
    # packages are loaded on the way to their modules; the lazy ones load the catalog
    way = packages | needed(["principia.lab.course.catalog"])
    assert loaded - way <= needed(modules)


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """A package with a lazy one inside."""
    files = {
        "__init__.py": "",
        "a.py": "from typing import TYPE_CHECKING\nfrom guest.lazy import thing\n"
                "if TYPE_CHECKING:\n    from guest import typed\n",
        "b.py": "def late():\n    from . import c\n    import guest.d as d\n    return c, d\n",
        "c.py": "from .lazy.home import thing\n", "d.py": "import torch\n", "typed.py": "",
        "lazy/__init__.py": "", "lazy/__init__.pyi": "from .home import thing as thing\n",
        "lazy/home.py": "thing = 1\n",
    }
    for name, text in files.items():
        (tmp_path / "guest" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "guest" / name).write_text(text)
    monkeypatch.setattr(imports, "_homes", lambda: {"guest": tmp_path / "guest"})
    caches = (imports._imported_by, imports._stub, imports.source_of)
    for one in caches:
        one.cache_clear()
    yield tmp_path / "guest"
    for one in caches:
        one.cache_clear()


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("a", {"a", "lazy.home"}),  # by the stub; what only a type checker reads does not count
        ("b", {"b", "c", "d", "lazy.home"}),  # inside a function, relative, by another name
        ("d", {"d"}),  # torch is not ours
    ],
)
def test_imports_are_found_wherever_they_stand(guest, module, expected):
    assert needed([f"guest.{module}"]) == {f"guest.{one}" for one in expected}


def test_a_file_and_its_module_know_each_other(guest):
    assert module_of(guest / "lazy/home.py") == "guest.lazy.home"
    assert module_of(guest / "lazy/__init__.py") == "guest.lazy"
    assert source_of("guest.lazy") == guest / "lazy/__init__.py"
    assert source_of("guest.nothing") is None
    assert module_of(guest.parent / "elsewhere.py") is None

"""What the rooms of every page must fulfil: who may know whom, in which order, at what cost."""

import ast
import functools
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

from principia.lab.course import catalog
from principia.lab.course.rooms import ROOMS
from principia.lab.course.stubs import stub_of

ROOT = Path(__file__).parents[2]
CHAPTERS = catalog.chapters()
PAGES = [page for chapter in CHAPTERS for page in chapter.pages]
LONGEST = {"": 450, "claims": 450, "experiments": 300}  # lines of a file below its docstring
DECLARES = {"claim": "claims", "experiment": "experiments", "callback": "experiments"}
FILES = [
    pytest.param(page, room, id=f"{page.key}, {room or 'page'}")
    for page in PAGES
    for room in ("", *ROOMS)
    if (page.room(room) if room else page.path).is_file()
]
every_page = pytest.mark.parametrize("page", [pytest.param(page, id=page.key) for page in PAGES])
every_file = pytest.mark.parametrize(("page", "room"), FILES)
every_chapter = pytest.mark.parametrize(
    "chapter", [pytest.param(chapter, id=chapter.name) for chapter in CHAPTERS]
)


def source(page, room):
    return (page.room(room) if room else page.path).read_text(encoding="utf-8")


@functools.lru_cache(maxsize=8)
def tree_of(page, room):
    return ast.parse(source(page, room))


def decorators(node):
    """Name the decorators of a function: `claim` for `@claim(...)`."""
    called = [one.func if isinstance(one, ast.Call) else one for one in node.decorator_list]
    return {getattr(one, "id", getattr(one, "attr", "")) for one in called}


@every_file
def test_a_file_can_be_read_in_a_sitting(page, room):
    body = tree_of(page, room).body
    above = body[0].end_lineno if room else 0  # of claims, what the knobs are
    assert len(source(page, room).splitlines()) - above <= LONGEST[room]


@every_file
def test_a_file_has_its_docstring_and_declares_what_belongs_to_its_room(page, room):
    tree = tree_of(page, room)
    assert ast.get_docstring(tree), "a file says what is in it"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            for kind in decorators(node) & set(DECLARES):
                assert DECLARES[kind] == room, f"{node.name} belongs into {DECLARES[kind]}"


@every_file
def test_nobody_imports_private_names_or_hides_an_import(page, room):
    tree = tree_of(page, room)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("principia."):
            private = [one.name for one in node.names if one.name.startswith("_")]
            assert not private, f"line {node.lineno}: {private} of {node.module}"
            course = not node.module.startswith("principia.lab.")
            assert node in tree.body or not course or allowed(node, page), (
                f"line {node.lineno} hides the import of {node.module}"
            )


def allowed(node, page):
    """Whether an import may stand in a function: of an estimator's page, which loads a library."""
    return node.module != page.module and has_estimators(catalog.page(key_of(node.module)))


def key_of(module):
    return "/".join(module.split(".")[-2:])


@every_file
def test_a_private_helper_stands_right_below_its_first_user(page, room):
    body = tree_of(page, room).body
    places = {one.name: place for place, one in enumerate(body) if hasattr(one, "name")}
    for name, place in places.items():
        users = [
            other for other, node in enumerate(body)
            if other != place
            and any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))
        ]
        if not name.startswith("_") or not users or min(users) > place:
            continue  # used above all by what comes behind it, such as a base class
        between = [getattr(one, "name", "_") for one in body[min(users) + 1 : place]]
        assert all(one.startswith("_") for one in between), f"{name} stands behind {between}"


@every_chapter
def test_every_file_in_a_room_belongs_to_a_page(chapter):
    names = {page.name for page in chapter.pages}
    for room in ROOMS:
        found = {file.stem for file in (chapter.path / room).glob("[!_]*.py")}
        assert found <= names, f"{room} of no page: {found - names}"


@every_chapter
def test_the_stub_of_a_chapter_is_fresh(chapter):
    stub = (chapter.path / "__init__.pyi").read_text(encoding="utf-8")
    assert stub == stub_of(chapter), "make stubs"


def test_the_import_contracts_know_every_chapter():
    tomllib = pytest.importorskip("tomllib")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    rooms = next(one for one in settings["contracts"] if one["name"].startswith("a page knows"))
    own = {chapter.package for chapter in CHAPTERS if chapter.package.startswith("principia.")}
    assert {one.removesuffix(".*") for one in rooms["source_modules"]} == own


LOADING = """
import importlib, json, sys
import torch, numpy
found, before = {}, set(sys.modules)
for module in sys.argv[1:]:
    importlib.import_module(module)
    found[module] = sorted(set(sys.modules) - before)
    before = set(sys.modules)
print(json.dumps(found))
"""


def loaded_by(pages):
    """Name what each page loads beyond those before it, torch and NumPy."""
    words = [sys.executable, "-c", LOADING, *(page.module for page in pages)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
    return json.loads(done.stdout)


def has_estimators(page):
    """Whether a component is an estimator of scikit-learn."""
    return any(
        inspect.isclass(one.thing) and issubclass(one.thing, BaseEstimator)
        for one in page.components()
    )


def test_components_cost_what_they_need():
    """No plots, no tables, no claims; scikit-learn only where a component is an estimator."""
    loaded = loaded_by(sorted(PAGES, key=has_estimators))  # the first to load a thing is told
    for page in PAGES:
        roots = {one.split(".")[0] for one in loaded[page.module]}
        assert "plotly" not in roots, page.key
        assert has_estimators(page) or not roots & {"sklearn", "pandas"}, page.key
        ours = [one for one in loaded[page.module] if one.startswith("principia.")]
        assert [one for one in ours if set(one.split(".")[2:3]) & set(ROOMS)] == [], page.key
        lab = {f"principia.lab.{one}" for one in ("evidence", "figures", "cli")}
        assert not lab & set(ours), page.key


def test_a_network_costs_little_more_than_torch():
    (loaded,) = loaded_by([catalog.page("networks/mlp")]).values()
    beside = [one for one in loaded if not one.startswith("principia.")]
    assert {one.split(".")[0] for one in beside} <= {"jaxtyping", "numpy", "principia"}
    assert len(loaded) < 60


SCRIPT = '''
from principia.connectionism import Hopfield
from principia.lab.evidence import at_most
from principia.lab.training import fit
from principia.networks import MLP

reveal_type(Hopfield)
reveal_type(MLP([2, 3]))
reveal_type(at_most(1, 2, why="for show"))
MLP([2, 3], activation=7)
fit(MLP([2, 3]), nonsense=1)
'''


def test_components_have_their_types_where_users_import_them(tmp_path):
    """Pyright, as a user's editor runs it, knows the classes and finds two mistakes."""
    script = tmp_path / "user.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=600,
        check=False,
    )
    told = json.loads(done.stdout)["generalDiagnostics"]
    types = [one["message"] for one in told if one["severity"] == "information"]
    assert [one.split(" is ")[1] for one in types] == ['"type[Hopfield]"', '"MLP"', '"Evidence"']
    wrong = {one["range"]["start"]["line"] for one in told if one["severity"] == "error"}
    bad = ("activation=7", "nonsense=1")
    lines = enumerate(SCRIPT.splitlines())
    assert wrong == {number for number, line in lines if any(word in line for word in bad)}

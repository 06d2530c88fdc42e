r"""The import graph: which modules of the course and the lab a module needs, read from its source.

Nothing is imported to know it. Imports inside functions count, those for type checkers only do not.
A name that a lazy package gives (`from principia.networks import MLP`) leads to the module where
its stub says that it is.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Iterable, Iterator
from pathlib import Path

from principia.lab.course import catalog

__all__ = ["module_of", "needed", "source_of"]


def needed(modules: Iterable[str]) -> frozenset[str]:
    """Name all modules that these need, directly or through others, and these themselves.

    Example:
        >>> found = needed(["principia.connectionism.margin"])
        >>> "principia.connectionism.margin" in found, "principia.lab.params.knobs" in found
        (True, True)
    """
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting.extend(_imported_by(module))
    return frozenset(found)


@functools.cache
def _imported_by(module: str) -> frozenset[str]:
    path = source_of(module)
    if path is None:
        return frozenset()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found: set[str] = set()
    for node in _executed(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            found.update(one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            place = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            found.update(_home(place, one.name) for one in node.names)
    return frozenset(one for one in found if source_of(one) is not None)


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk through what is executed: not through what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        yield node
        yield from _executed(node)


def _home(place: str, name: str) -> str:
    """Name the module from which `from place import name` takes what it takes."""
    if source_of(f"{place}.{name}") is not None:
        return f"{place}.{name}"
    return _stub(place).get(name, place)


@functools.cache
def _stub(package: str) -> dict[str, str]:
    """Read where a lazy package has its names."""
    path = source_of(package)
    if path is None or not (stub := path.with_suffix(".pyi")).is_file():
        return {}
    tree = ast.parse(stub.read_text(encoding="utf-8"), str(stub))
    return {
        one.asname or one.name: f"{package}.{node.module}"
        for node in tree.body if isinstance(node, ast.ImportFrom) and node.level == 1
        for one in node.names
    }


@functools.cache
def source_of(module: str) -> Path | None:
    """Find the source of a module of the course, of the lab or of a third party's chapter."""
    top, *rest = module.split(".")
    home = _homes().get(top)
    if home is None:
        return None
    package = home.joinpath(*rest, "__init__.py")
    file = home.joinpath(*rest).with_suffix(".py")
    return next((one for one in (package, file) if one.is_file()), None)


@functools.cache
def _homes() -> dict[str, Path]:
    """Find the folders of the packages at the top that have chapters."""
    found = {}
    for chapter in catalog.chapters():
        top = chapter.package.split(".")[0]
        spec = importlib.util.find_spec(top)
        if spec and spec.submodule_search_locations:
            found[top] = Path(next(iter(spec.submodule_search_locations)))
    return found


def module_of(path: Path) -> str | None:
    """Name the module that a file is, if it is one of the course, the lab or a third party."""
    for top, home in _homes().items():
        if path.suffix == ".py" and path.is_relative_to(home):
            *folders, name = path.relative_to(home).with_suffix("").parts
            return ".".join([top, *folders, *([] if name == "__init__" else [name])])
    return None

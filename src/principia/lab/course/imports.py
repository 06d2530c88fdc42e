r"""The import graph: which modules of the course and the lab a module needs, read from its source.

Nothing is imported to know it. Imports inside functions count, those for type checkers only do not.
A package on the way to a module counts, too, because Python runs it. A name that a lazy package
gives (`from principia.networks import MLP`) leads to the module where its stub says that it is;
where that cannot be told, to all modules of the package.

Files are read again for each look; what is found in them is kept in the cache folder under the hash
of what they hold, so that neither an edit nor a clock that was set back can go unseen.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.util
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import final

from principia.lab.course import catalog
from principia.lab.storage import cache_folder, write_text

__all__ = ["Sources", "module_of", "needed", "source_of"]

Import = tuple[int, str, tuple[str, ...]]  # dots before the place, the place, the names from there
INIT = "__init__.py"


def needed(modules: Iterable[str]) -> frozenset[str]:
    """Name all modules that these need, directly or through others, and these themselves.

    Example:
        >>> found = needed(["principia.connectionism.margin"])
        >>> "principia.connectionism.margin" in found, "principia.lab.params.knobs" in found
        (True, True)
    """
    return Sources().needed(modules)


def source_of(module: str) -> Path | None:
    """Find the source of a module of the course, of the lab or of a third party's chapter."""
    return Sources().path(module)


def module_of(path: Path) -> str | None:
    """Name the module that a file is, if it is one of the course, the lab or a third party."""
    for package, home in _homes().items():
        if path.suffix == ".py" and path.is_relative_to(home):
            *folders, name = path.relative_to(home).with_suffix("").parts
            return ".".join([package, *folders, *([] if name == "__init__" else [name])])
    return None


@final
@dataclass(frozen=True)
class _Source:
    """What the file of a module holds."""

    sha256: str  # of all of it; of a package, without the docstring that tells its story
    imports: tuple[Import, ...]
    lazy: bool  # whether it gives names that it does not have yet


@final
class Sources:
    """One look at the sources: whatever is asked of it is read once; the next look reads anew.

    Args:
        more: Folders of packages besides those at the top that have chapters, by name.
    """

    def __init__(self, more: Mapping[str, Path] = MappingProxyType({})) -> None:
        self._homes = {**_homes(), **more}
        self._folders: dict[str, frozenset[str]] = {}
        self._paths: dict[str, Path | None] = {}
        self._read: dict[Path, _Source] = {}
        self._next: dict[str, frozenset[str]] = {}

    def needed(
        self, modules: Iterable[str], but: frozenset[str] = frozenset()
    ) -> frozenset[str]:
        """Name all modules that these need, directly or through others, and these themselves.

        Args:
            modules: Where to begin.
            but: Modules that do not count, and lead to no others.
        """
        found: set[str] = set()
        waiting = list(modules)
        while waiting:
            module = waiting.pop()
            if module not in found and module not in but:
                found.add(module)
                if module not in self._next:
                    self._next[module] = frozenset(self._needed_by(module))
                waiting.extend(self._next[module])
        _keep()
        return frozenset(found)

    def path(self, module: str) -> Path | None:
        """Find the source of a module, if it is one of ours or of a third party's chapter."""
        if module not in self._paths:
            self._paths[module] = self._find(module)
        return self._paths[module]

    def sha256(self, module: str) -> str:
        """Give the hash of a module's source; none, where it has none."""
        path = self.path(module)
        return "" if path is None else self._source(path).sha256

    def names_taken(self, module: str) -> frozenset[str]:
        """Give the names that a module imports from others."""
        path = self.path(module)
        taken = () if path is None else self._source(path).imports
        return frozenset(name for _, _, names in taken for name in names)

    def _find(self, module: str) -> Path | None:
        above, rest = module, []
        while above not in self._homes:
            above, _, last = above.rpartition(".")
            if not last:
                return None
            rest.insert(0, last)
        folder = os.path.join(self._homes[above], *rest)
        if INIT in self._inside(folder):
            return Path(folder, INIT)
        if rest and f"{rest[-1]}.py" in self._inside(os.path.dirname(folder)):
            return Path(f"{folder}.py")
        return None

    def _inside(self, folder: str) -> frozenset[str]:
        if folder not in self._folders:
            try:
                self._folders[folder] = frozenset(os.listdir(folder))
            except OSError:
                self._folders[folder] = frozenset()
        return self._folders[folder]

    def _source(self, path: Path) -> _Source:
        if path not in self._read:
            try:
                body = path.read_bytes()
            except OSError:  # it has just been removed
                body = b""
            self._read[path] = _parsed(body, package=path.name == INIT)
        return self._read[path]

    def _needed_by(self, module: str) -> set[str]:
        path = self.path(module)
        if path is None:
            return set()
        parts = module.split(".")
        on_the_way = {".".join(parts[:depth]) for depth in range(1, len(parts))}
        found = {one for one in on_the_way if self.path(one) is not None}
        # what a lazy package imports, it imports to be lazy; what is taken from it leads further
        return found if self._source(path).lazy else found | self._imported_by(module, path)

    def _imported_by(self, module: str, path: Path) -> set[str]:
        package = module.split(".") if path.name == INIT else module.split(".")[:-1]
        found: set[str] = set()
        for dots, place, names in self._source(path).imports:
            above = package[: len(package) - dots + 1] if dots else []
            found |= self._led_to(".".join(filter(None, [*above, place])), names)
        return found

    def _led_to(self, place: str, names: tuple[str, ...]) -> set[str]:
        """Name the modules that run for `import place`, or for `from place import names`."""
        path = self.path(place)
        found = {place} if path is not None else set()
        if path is not None and path.name != INIT:
            return found
        inside = {name: f"{place}.{name}" for name in names}
        found |= {one for one in inside.values() if self.path(one) is not None}
        if path is None or not self._source(path).lazy or not (names or "." in place):
            return found  # whoever imports all of the course wants its version, or its folder
        stub = _stub(path.with_suffix(".pyi"), place)
        rest = [name for name, one in inside.items() if self.path(one) is None]
        if names and all(name in stub for name in rest):
            return found | {stub[name] for name in rest}
        files = [one.removesuffix(".py") for one in self._inside(str(path.parent))
                 if one.endswith(".py") and one not in (INIT, "__main__.py")]
        return found | {f"{place}.{one}" for one in files} | self._imported_by(place, path)


def _homes() -> dict[str, Path]:
    """Find the folders of the chapters, and of the packages at the top that have them."""
    found = {}
    for chapter in catalog.chapters():
        top, *below = chapter.package.split(".")
        spec = importlib.util.find_spec(top) if top not in found else None
        if spec and spec.submodule_search_locations:
            found[top] = Path(next(iter(spec.submodule_search_locations)))
        if below and found.get(top, Path()).joinpath(*below) != chapter.path:
            found[chapter.package] = chapter.path  # a package at the top may have many folders
    return found


def _stub(path: Path, package: str) -> dict[str, str]:
    """Read where a lazy package has its names."""
    try:
        return dict(_names_in(path.read_bytes(), package))
    except OSError:
        return {}


@functools.cache
def _names_in(stub: bytes, package: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (one.asname or one.name, f"{package}.{node.module}")
        for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom) and node.level == 1
        for one in node.names
    )


# What is known of files, by the hash of what they hold: reading a file takes microseconds, and its
# syntax tree a thousand times as long.

_Known = tuple[tuple[Import, ...], bool, str]  # imports, whether it is lazy, hash without docstring
_known: dict[str, _Known] = {}
_new: set[str] = set()
MOST = 4096  # files in the cache


def _parsed(body: bytes, *, package: bool) -> _Source:
    key = hashlib.sha256(body).hexdigest()
    if key not in _known:
        _recall()
    if key not in _known:
        _known[key] = _look_into(body)
        _new.add(key)
    imports, lazy, rest = _known[key]
    return _Source(rest if package else key, imports, lazy)


def _look_into(body: bytes) -> _Known:
    try:
        tree = ast.parse(body)
    except (SyntaxError, ValueError):  # half written; it imports nothing, and cannot be imported
        tree = ast.Module([], [])
    rest = body
    if ast.get_docstring(tree, clean=False) is not None:
        lines, story = body.splitlines(keepends=True), tree.body[0]
        rest = b"".join([*lines[: story.lineno - 1], *lines[story.end_lineno :]])
    imports = tuple(dict.fromkeys(_imports(tree)))
    lazy = any(name == "__getattr__" for node in tree.body for name in _defined(node))
    return imports, lazy, hashlib.sha256(rest).hexdigest()


def _imports(tree: ast.AST) -> Iterator[Import]:
    for node in _executed(tree):
        if isinstance(node, ast.Import):
            yield from ((0, one.name, ()) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or "", tuple(one.name for one in node.names)
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            named = node.args[0]
            if called in ("import_module", "__import__") and isinstance(named, ast.Constant):
                place = str(named.value).lstrip(".")
                yield len(str(named.value)) - len(place), place, ()


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk through what is executed: not through what only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            for one in node.orelse:
                yield one
                yield from _executed(one)
            continue
        yield node
        yield from _executed(node)


def _defined(node: ast.stmt) -> Iterator[str]:
    """Name what a statement at the top of a module defines."""
    if isinstance(node, ast.FunctionDef):
        yield node.name
    for target in node.targets if isinstance(node, ast.Assign) else ():
        yield from (one.id for one in ast.walk(target) if isinstance(one, ast.Name))


def _cache_file() -> Path:
    """Name the cache: another for each way of looking into files."""
    return cache_folder() / f"imports-{_way_of_looking()}.json"


@functools.cache
def _way_of_looking() -> str:
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]


@functools.lru_cache(maxsize=1)
def _recalled(file: Path) -> Mapping[str, _Known]:
    try:
        document = json.loads(file.read_bytes())
        return {
            key: (tuple((dots, place, tuple(names)) for dots, place, names in found), lazy, rest)
            for key, (found, lazy, rest) in document.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):  # none yet, or none that can be read
        return {}


def _recall() -> None:
    for key, found in _recalled(_cache_file()).items():
        _known.setdefault(key, found)


def _keep() -> None:
    """Keep what was found for the next process; a cache that cannot be written is none."""
    if not _new:
        return
    _new.clear()
    if len(_known) > MOST:  # what was found first is likely the oldest
        for key in list(_known)[: len(_known) - MOST // 2]:
            del _known[key]
    file = _cache_file()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps(_known))

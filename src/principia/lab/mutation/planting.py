r"""Planting: a changed source stands in for a module of a page, in this process and for good.

Whatever had imported the module is forgotten, too, and imports what stands in when it is asked for
again: components that a page takes from another are as broken there. The loader that would have
read the file compiles what stands in, so that what others do to a module on import, as the tests
do, is done to this one. Only a process that has been forked for it may plant.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, final

from principia.lab.course.fingerprint import Sources
from principia.lab.course.rooms import ROOMS
from principia.lab.mutation.statements import bugs_in

if TYPE_CHECKING:
    from principia.lab.course.catalog import Page
    from principia.lab.mutation.places import Bug

__all__ = ["Ground", "planted", "possible"]


@final
@dataclass(frozen=True)
class Ground:
    """Where bugs of a page are planted: its modules with components, their files and sources."""

    page: Page
    paths: Mapping[str, Path]
    sources: Mapping[str, bytes]
    above: tuple[str, ...]  # all modules that are loaded and need one of those

    @classmethod
    def of(cls, page: Page) -> Ground:
        """Find the modules of a page: its own, and that of the fast form where it has one."""
        paths = _components(page)
        sources = {module: path.read_bytes() for module, path in paths.items()}
        return cls(page, paths, sources, _above(paths))

    def with_bug(self, bug: Bug | None) -> dict[str, bytes]:
        """Give the sources, one of them with a bug."""
        return {
            module: bug.planted(source) if bug is not None and bug.module == module else source
            for module, source in self.sources.items()
        }


def possible(page: Page) -> list[Bug]:
    """List all bugs that can be planted in the components of a page."""
    return [bug for module, path in _components(page).items()
            for bug in bugs_in(path.read_bytes(), module)]


def _components(page: Page) -> dict[str, Path]:
    """Name the modules with the components of a page, and where they are."""
    package, _, name = page.module.rpartition(".")
    beside = page.path.with_name(f"_{name}_fast.py")
    fast = {f"{package}.{beside.stem}": beside} if beside.is_file() else {}
    return {page.module: page.path, **fast}


def _above(modules: Mapping[str, Path]) -> tuple[str, ...]:
    """Name the loaded modules of chapters that need any of these, the packages on the way too."""
    sources = Sources()
    ours = [one for one in sys.modules if sources.path(one) is not None]
    ours = [one for one in ours if not one.startswith("principia.lab")]
    return tuple(one for one in ours if not sources.needed([one]).isdisjoint(modules))


def planted(ground: Ground, bug: Bug | None) -> ModuleType:
    """Let modules with a bug stand in for those of a page; give its claims as they import these."""
    sys.meta_path.insert(0, _Finder(ground.with_bug(bug)))
    for module in ground.above:
        sys.modules.pop(module, None)
        package, _, name = module.rpartition(".")
        vars(sys.modules.get(package, ModuleType(package))).pop(name, None)
    importlib.invalidate_caches()
    importlib.import_module(ground.page.module)
    return ground.page.load(ROOMS[0])


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that stand in, before anybody finds the real ones."""

    def __init__(self, sources: Mapping[str, bytes]) -> None:
        self._sources = sources

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module that stands in, as the next finder finds the real one."""
        if name not in self._sources:
            return None
        later = sys.meta_path[sys.meta_path.index(self) + 1 :]
        for finder in later:
            found = finder.find_spec(name, path, target)
            if found is not None and isinstance(found.loader, importlib.machinery.SourceFileLoader):
                found.loader = _Loader(found.loader, self._sources[name])
                return found
        return None


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a source in the place of that in the file, as the loader of the file compiles it."""

    def __init__(self, real: importlib.machinery.SourceFileLoader, source: bytes) -> None:
        super().__init__(real.name, real.path)
        self._real, self._source = real, source

    def get_code(self, fullname: str) -> CodeType:
        """Give the code of the source that stands in; nobody keeps it."""
        return self._real.source_to_code(self._source, self.path)

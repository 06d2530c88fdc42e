r"""Declares and finds races, as claims are: the work, ours, theirs, and a check that both did it.

    @race(rows=(1_000, 1_000_000), agree=within(1e-8, why="one linear system, float64"))
    def ridge(rows):
        '''Fit ridge regression on 50 columns.'''
        return make_problem(rows)          # a tuple: the arguments of every side

    @ridge.ours
    def _(X, y):
        return Ridge(alpha=1.0).fit(X, y).coef_

    @ridge.peer("sklearn.linear_model.Ridge", package="scikit-learn")
    def _(X, y):
        ...

Races stand in `benchmarks/`, one file a chapter, and this module imports none of the peers.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, final

import principia
from principia.lab.params import Failure, UsageError, suggestion, usage_error

if TYPE_CHECKING:
    from principia.lab.evidence.evidence import Evidence

__all__ = ["OURS", "Race", "Side", "find", "folder_of_races", "load", "race", "within"]

OURS = "Principia"
Agreement = Callable[[Any, Any], "Evidence"]


@final
@dataclass(frozen=True)
class Side:
    """One way to do the work of a race: a function of its problem, and where it comes from."""

    name: str
    run: Callable[..., Any]
    package: str = "principia"
    up_to: float = float("inf")
    fresh: bool = False
    slower: str = ""

    @property
    def version(self) -> str | None:
        """The version of its package that is installed; None if it is missing."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None


@final
@dataclass(frozen=True)
class Race:
    """A piece of work in several sizes, our way to do it, and those of the peers."""

    problem: Callable[[int], tuple[Any, ...]]
    unit: str
    sizes: tuple[int, ...]
    agree: Agreement
    sides: dict[str, Side] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the function that makes the problem."""
        return self.problem.__name__

    @property
    def chapter(self) -> str:
        """The file that it stands in."""
        return self.problem.__module__.rsplit(".", 1)[-1]

    @property
    def key(self) -> str:
        """Chapter and name: `regression:ridge`."""
        return f"{self.chapter}:{self.name}"

    @property
    def work(self) -> str:
        """What is done, in words: the docstring."""
        return " ".join((inspect.getdoc(self.problem) or "").split())

    @property
    def peers(self) -> dict[str, Side]:
        """The sides that are not ours."""
        return {name: side for name, side in self.sides.items() if name != OURS}

    def missing(self) -> dict[str, str]:
        """Name the peers whose package is not installed, with the package."""
        return {name: one.package for name, one in self.peers.items() if one.version is None}

    def present(self, size: int) -> dict[str, Side]:
        """Give the sides that can run at this size; ours is the first."""
        sides = {OURS: self.sides[OURS], **self.peers}
        return {
            name: one for name, one in sides.items()
            if size <= one.up_to and (name == OURS or one.version is not None)
        }

    def ours(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Declare the decorated function as our way."""
        self.sides[OURS] = Side(OURS, run)
        return run

    def peer(
        self, name: str, *, package: str, up_to: float = float("inf"), fresh: bool = False,
        slower: str = "",
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare the decorated function as a peer's way.

        Args:
            name: What races against us, as its users call it.
            package: The distribution that must be installed for it.
            up_to: The largest size that it can do in reasonable time.
            fresh: Whether it needs a process of its own, because its import changes the others.
            slower: Where we lose: the reason, in one sentence.
        """

        def declare(run: Callable[..., Any]) -> Callable[..., Any]:
            self.sides[name] = Side(name, run, package, up_to, fresh, slower)
            return run

        return declare


def race(*, agree: Agreement, **sizes: Sequence[int]) -> Callable[[Callable[..., Any]], Race]:
    """Declare the decorated function, which makes the problem of a size, as a race.

    Args:
        agree: Compares our result with a peer's, and gives Evidence.
        sizes: One keyword: what the size counts, and its values from small to large.
    """

    def declare(problem: Callable[..., Any]) -> Race:
        if len(sizes) != 1:
            raise UsageError(
                f"race: {problem.__name__} must have one size, as rows=(1_000, 100_000); got "
                f"{', '.join(sizes) or 'none'}."
            )
        ((unit, values),) = sizes.items()
        if not values or list(values) != sorted(set(values)) or min(values) < 1:
            raise usage_error(
                "race", unit, "sizes of at least 1, from small to large", tuple(values)
            )
        return Race(problem, unit.replace("_", " "), tuple(values), agree)

    return declare


def within(tol: float, *, why: str) -> Agreement:
    """Let results agree if they differ by at most `tol` of the largest entry.

    Example:
        >>> within(1e-3, why="float32")([1.0, 2.0], [1.0, 2.001]).verdict
        'holds'
    """

    def agree(ours: Any, theirs: Any) -> Evidence:
        import numpy as np

        from principia.lab.evidence.relations import equal

        ours, theirs = (np.asarray(one, dtype=np.float64) for one in (ours, theirs))
        if ours.shape != theirs.shape:
            raise Failure(
                f"race: results must have one shape; ours has {ours.shape}, theirs {theirs.shape}."
            )
        largest = float(np.abs(theirs).max(initial=0.0))
        return equal(ours, theirs, tol=tol * largest, why=why)

    return agree


def folder_of_races(named: str | None = None) -> Path:
    """Find the folder of races: the one that was named, or the one beside our source code."""
    folder = Path(named) if named else Path(principia.__path__[0]).parents[1] / "benchmarks"
    if folder.is_dir():
        return folder
    if named:
        raise usage_error("bench", "races", "a folder with races", named)
    raise UsageError(
        "bench: the races come with the source code of Principia, and it is not here. Get it, or "
        "name a folder of races with --races."
    )


def find(keys: Sequence[str], folder: Path) -> list[Race]:
    """Find races by chapter or as chapter:race; all of them without a key."""
    chapters = [path.stem for path in sorted(folder.glob("[!_]*.py"))]
    wanted = keys or chapters
    found: dict[str, Race] = {}
    for key in wanted:
        chapter, _, name = key.partition(":")
        if chapter not in chapters:
            hint = suggestion(chapter, chapters)
            raise usage_error("bench", "KEY", "a chapter with races, or chapter:race", key, hint)
        races = load(folder / f"{chapter}.py")
        if name and name not in races:
            hint = suggestion(name, races)
            raise usage_error("bench", "KEY", f"a race of {chapter}", name, hint)
        chosen = [races[name]] if name else races.values()
        found |= {one.key: one for one in chosen}
    return list(found.values())


@functools.cache
def load(path: Path) -> Mapping[str, Race]:
    """Import a file of races, and give them by name."""
    module = _imported(path)
    races = {one.name: one for one in vars(module).values() if isinstance(one, Race)}
    for one in races.values():
        if OURS not in one.sides or not one.peers:
            raise UsageError(f"bench: race {one.key} must have our side and a peer's.")
    return races


def _imported(path: Path) -> ModuleType:
    """Import a file of a folder that need not be a package; files may share what _names hold."""
    package = ModuleType(path.parent.name)
    package.__path__ = [str(path.parent)]
    sys.modules[package.__name__] = package
    name = f"{package.__name__}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # noqa: S101
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module

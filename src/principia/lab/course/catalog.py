r"""The catalog: finds chapters and pages by walking packages, and reads titles without importing.

Chapters are the packages beside `lab`, and those that third parties announce in the entry-point
group `principia.chapters`. Pages are the modules of a chapter. Nobody keeps a list: the order of
the course is the order in which the prose of a package's docstring names its parts (`like this`).
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, final

import principia
from principia.lab.course.docstrings import Text
from principia.lab.course.rooms import ROOMS, room_module
from principia.lab.params import UsageError, suggestion, usage_error

if TYPE_CHECKING:
    from principia.lab.evidence.claims import Claim
    from principia.lab.heroes import Hero
    from principia.lab.runs.experiments import Experiment

__all__ = [
    "Chapter", "Component", "Page", "chapters", "experiment", "lazy_exports", "page",
    "select",
]

GROUP = "principia.chapters"
# a function or class of a module with everything below it: what is indented, blank or a bracket
BODY = re.compile(r"^(?:async )?(?:(def) |class )(\w+)[^\n]*\n(?:[ \t)][^\n]*\n|\n)*", re.MULTILINE)


@final
@dataclass(frozen=True)
class Component:
    """A public part of a page: a class or a function, with its signature and docstring."""

    name: str
    thing: Any

    @property
    def signature(self) -> str:
        """How it is called, on one line, without annotations' inner workings."""
        try:
            parameters = inspect.signature(self.thing).parameters.values()
        except (TypeError, ValueError):
            return self.name
        shown, starred = [], False
        for one in parameters:
            if one.kind is one.KEYWORD_ONLY and not starred:
                shown.append("*")
                starred = True
            text = {one.VAR_POSITIONAL: f"*{one.name}", one.VAR_KEYWORD: f"**{one.name}"}
            starred = starred or one.kind is one.VAR_POSITIONAL
            default = "" if one.default is one.empty else f"={_default(one.default)}"
            shown.append(text.get(one.kind, one.name) + default)
        return f"{self.name}({', '.join(shown)})"

    @property
    def doc(self) -> str:
        """The docstring, unindented."""
        return inspect.getdoc(self.thing) or ""

    @property
    def purpose(self) -> str:
        """The first line of the docstring."""
        return self.doc.split("\n", 1)[0]


def _default(value: Any) -> str:
    return getattr(value, "__name__", None) or repr(value)


@final
@dataclass(frozen=True, repr=False)
class Page:
    """One idea of the course: one name. What is static is read from the source as text.

    `path` and `module` are those of the components; `room` and `load` lead to the claims and to the
    experiments, which have the same name in folders of their own.
    """

    key: str
    module: str
    path: Path

    def __repr__(self) -> str:
        """Give key and title."""
        return f"<Page {self.key}: {self.title}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Tell the story in a notebook."""
        from principia.lab.notebooks import page_bundle

        return page_bundle(self)

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.split("/")[1]

    @functools.cached_property
    def _tree(self) -> ast.Module:
        return _outline(self.path.read_text(encoding="utf-8"), str(self.path))

    @functools.cached_property
    def text(self) -> Text:
        """The parts of the docstring."""
        return Text.of(ast.get_docstring(self._tree, clean=False) or "")

    @property
    def title(self) -> str:
        """The title line."""
        return self.text.title

    @functools.cached_property
    def exports(self) -> tuple[str, ...]:
        """The names in `__all__`; the headline first."""
        for node in self._tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets):
                return tuple(ast.literal_eval(node.value))  # type: ignore[union-attr]
        return ()

    def room(self, name: str) -> Path:
        """Where the claims or the experiments of the page are, if it has any."""
        return self.path.parent / name / self.path.name

    @property
    def files(self) -> tuple[Path, ...]:
        """The page's own file and those of its rooms that there are."""
        return (self.path, *(one for one in map(self.room, ROOMS) if one.is_file()))

    @property
    def modules(self) -> tuple[str, ...]:
        """The names of the modules in those files."""
        rooms = [room for room in ROOMS if self.room(room).is_file()]
        return (self.module, *(room_module(self.module, room) for room in rooms))

    @functools.cached_property
    def _room_trees(self) -> dict[str, ast.Module]:
        found = {name: self.room(name) for name in ROOMS}
        return {
            name: _outline(path.read_text(encoding="utf-8"), str(path))
            for name, path in found.items()
            if path.is_file()
        }

    def _decorated(
        self, room: str, decorator: str
    ) -> Iterable[tuple[str, dict[str, ast.expr]]]:
        tree = self._room_trees.get(room)
        for node in tree.body if tree else ():
            if not isinstance(node, ast.FunctionDef):
                continue
            for one in node.decorator_list:
                called = one.func if isinstance(one, ast.Call) else None
                name = getattr(called, "id", getattr(called, "attr", ""))  # claim, claims.claim
                if isinstance(one, ast.Call) and name == decorator:
                    keywords = {word.arg or "": word.value for word in one.keywords}
                    yield node.name.removesuffix(f"_{decorator}"), keywords

    @functools.cached_property
    def claim_names(self) -> tuple[str, ...]:
        """The claims, in the order of the file."""
        return tuple(name for name, _ in self._decorated("claims", "claim"))

    @functools.cached_property
    def experiment_names(self) -> tuple[str, ...]:
        """The experiments, in the order of the file."""
        return tuple(name for name, _ in self._decorated("experiments", "experiment"))

    @functools.cached_property
    def callback_names(self) -> tuple[str, ...]:
        """The callbacks that it offers to every training, in the order of the file."""
        return tuple(name for name, _ in self._decorated("experiments", "callback"))

    @functools.cached_property
    def hero_name(self) -> str:
        """The picture that opens the page; "" without one."""
        return next((name for name, _ in self._decorated("experiments", "hero")), "")

    @functools.cached_property
    def misprint_names(self) -> tuple[str, ...]:
        """The claims whose control is a misprint."""
        found = self._decorated("claims", "claim")
        return tuple(name for name, words in found if "misprint" in words)

    @functools.cached_property
    def headline_names(self) -> tuple[str, ...]:
        """The claims that stand for the chapter."""
        found = self._decorated("claims", "claim")
        return tuple(name for name, words in found if "headline" in words)

    def load(self, room: str = "") -> ModuleType:
        """Import the page, or a room of it; a room that it does not have is an empty module."""
        if not room:
            return importlib.import_module(self.module)
        name = room_module(self.module, room)
        return importlib.import_module(name) if self.room(room).is_file() else ModuleType(name)

    def load_all(self) -> None:
        """Import the page and its rooms."""
        for room in ("", *ROOMS):
            self.load(room)

    def components(self) -> tuple[Component, ...]:
        """Import the page and give its public parts."""
        module = self.load()
        return tuple(Component(name, getattr(module, name)) for name in self.exports)

    def claims(self) -> dict[str, Claim]:
        """Import the claims and give them by name."""
        from principia.lab.evidence.claims import Claim

        return {one.name: one for one in _declared(self.load("claims"), Claim)}

    def claim(self, name: str) -> Claim:
        """Import the claims and give one."""
        return self.claims()[name]

    def experiments(self) -> dict[str, Experiment]:
        """Import the experiments and give them by name."""
        from principia.lab.runs.experiments import Experiment

        return {one.name: one for one in _declared(self.load("experiments"), Experiment)}

    def hero(self) -> Hero:
        """Import the experiments and give the picture that opens the page."""
        from principia.lab.heroes import Hero

        found = _declared(self.load("experiments"), Hero)
        if not found:
            raise usage_error("hero", "KEY", "a page with a moving picture", self.key,
                              "principia ls marks them.")
        return found[0]


def _outline(source: str, filename: str) -> ast.Module:
    """Parse what stands at the top of a module; bodies are most of a page, and not wanted here."""
    bare = BODY.sub(lambda one: f"{'def' if one[1] else 'class'} {one[2]}(): ...\n", source)
    try:
        return ast.parse(bare)
    except SyntaxError:  # a text that begins at the margin inside a body; or a real mistake
        return ast.parse(source, filename=filename)


def _declared(module: ModuleType, kind: type) -> list[Any]:
    """Collect what a room itself declares, not what it imports from another page."""
    things = vars(module).values()
    return [
        one
        for one in things
        if isinstance(one, kind) and one.function.__module__ == module.__name__  # type: ignore[attr-defined]
    ]


@final
@dataclass(frozen=True)
class Chapter:
    """One folder of the course."""

    name: str
    package: str
    path: Path

    @functools.cached_property
    def docstring(self) -> str:
        """The docstring of the package."""
        source = (self.path / "__init__.py").read_text(encoding="utf-8")
        return ast.get_docstring(ast.parse(source)) or ""

    @property
    def title(self) -> str:
        """The title line."""
        return self.docstring.split("\n", 1)[0]

    @property
    def story(self) -> str:
        """What follows the title line."""
        return self.docstring.partition("\n")[2].strip()

    @functools.cached_property
    def pages(self) -> tuple[Page, ...]:
        """The pages, in the order in which the chapter's story names them, then by name."""
        names = [
            one.name
            for one in pkgutil.iter_modules([str(self.path)])
            if not one.ispkg and not one.name.startswith("_")
        ]
        return tuple(
            Page(f"{self.name}/{name}", f"{self.package}.{name}", self.path / f"{name}.py")
            for name in _in_order_of_mention(names, self.docstring)
        )

    @property
    def headline(self) -> tuple[Page, str] | None:
        """The claim that stands for the chapter: the declared one, else the first there is."""
        claimed = [(page, name) for page in self.pages for name in page.claim_names]
        declared = [(page, name) for page, name in claimed if name in page.headline_names]
        return next(iter(declared or claimed), None)


def _in_order_of_mention(names: Iterable[str], prose: str) -> list[str]:
    mentioned = list(dict.fromkeys(re.findall(r"`([\w/]+)`", prose)))
    rank = {name: position for position, name in enumerate(mentioned)}
    return sorted(names, key=lambda name: (rank.get(name, len(rank)), name))


@functools.cache
def chapters() -> tuple[Chapter, ...]:
    """Find all chapters, in the order in which the story of the course names them."""
    home = Path(principia.__path__[0])
    own = [
        one.name
        for one in pkgutil.iter_modules([str(home)])
        if one.ispkg and one.name != "lab" and not one.name.startswith("_")
    ]
    found = [
        Chapter(name, f"principia.{name}", home / name)
        for name in _in_order_of_mention(own, principia.__doc__ or "")
    ]
    for point in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda one: one.name):
        spec = importlib.util.find_spec(point.value)
        if spec is None or not spec.submodule_search_locations:
            raise UsageError(
                f"principia: chapter {point.name!r} is announced as package {point.value!r}, "
                "which cannot be found. Install it again or remove it."
            )
        if point.value.split(".")[-1] != point.name:  # one name opens every door
            raise UsageError(
                f"principia: chapter {point.name!r} must have the name of its package; got "
                f"{point.value!r}. Rename one of them."
            )
        if point.name not in {chapter.name for chapter in found}:
            home = Path(spec.submodule_search_locations[0])
            found.append(Chapter(point.name, point.value, home))
    return tuple(found)


def page(key: str, owner: str = "principia") -> Page:
    """Find one page by its key.

    Example:
        >>> page("connectionism/hopfield").title.split(":")[0]
        'The Hopfield network'
    """
    known = {one.key: one for chapter in chapters() for one in chapter.pages}
    if key not in known:
        raise usage_error(owner, "KEY", "the key of a page", key, suggestion(key, known))
    return known[key]


def experiment(key: str, owner: str = "principia") -> Experiment:
    """Find an experiment by its key, `page:experiment`; a page alone means its first."""
    place, _, name = key.partition(":")
    found = page(place, owner)
    names = found.experiment_names
    if not names:
        raise UsageError(f"{owner}: {found.key} has no experiment. See principia ls.")
    if name and name not in names:
        domain = f"an experiment of {found.key}"
        raise usage_error(owner, "KEY", domain, name, suggestion(name, names))
    return found.experiments()[name or names[0]]


def select(keys: Iterable[str], owner: str = "principia") -> list[tuple[Page, str]]:
    """Find the claims that keys name: a chapter, a page, or one claim as `page:claim`."""
    by_name = {chapter.name: chapter for chapter in chapters()}
    found: list[tuple[Page, str]] = []
    for key in keys:
        place, _, claim = key.partition(":")
        if "/" not in place and not claim:
            if place not in by_name:
                known = [*by_name, *(one.key for chapter in chapters() for one in chapter.pages)]
                domain = "a chapter, a page or page:claim"
                raise usage_error(owner, "KEY", domain, key, suggestion(key, known))
            found += [(one, name) for one in by_name[place].pages for name in one.claim_names]
            continue
        one = page(place, owner)
        if claim and claim not in one.claim_names:
            domain = f"a claim of {one.key}"
            raise usage_error(owner, "KEY", domain, claim, suggestion(claim, one.claim_names))
        found += [(one, name) for name in ([claim] if claim else one.claim_names)]
    return list(dict.fromkeys(found))


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make `__getattr__` and `__dir__` for a chapter: a component loads its own page only.

    Example:
        >>> from principia.connectionism import Hopfield
        >>> Hopfield.__module__
        'principia.connectionism.hopfield'
    """

    @functools.cache
    def homes() -> dict[str, str]:
        spec = importlib.util.find_spec(package)
        where = spec.submodule_search_locations if spec else None
        if not where:
            return {}
        chapter = Chapter(package.rsplit(".", 1)[-1], package, Path(where[0]))
        return {name: page.module for page in chapter.pages for name in page.exports}

    def __getattr__(name: str) -> Any:
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes()[name]), name)

    def __dir__() -> list[str]:
        return sorted(homes())

    return __getattr__, __dir__

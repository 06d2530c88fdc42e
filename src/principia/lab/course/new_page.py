"""New pages: the skeleton, copied into the three rooms of a chapter under the name of an idea.

Everything is checked before anything is written, and what fails halfway is taken back, so that a
chapter has the whole page or nothing of it.
"""

import ast
import contextlib
import dataclasses
import keyword
import re
import tempfile
from pathlib import Path

import principia
from principia.lab.course.catalog import Chapter, Page, chapters, page
from principia.lab.course.rooms import ROOMS
from principia.lab.course.stubs import write_stub
from principia.lab.params import UsageError, suggestion, usage_error
from principia.lab.storage import write_bytes, write_text

__all__ = ["new_page"]

ABOUT = {
    "claims": '"""What is true in this chapter, and what would refute it: one file a page."""\n',
    "experiments": '"""What the components of this chapter reach on data: one file a page."""\n',
}
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")  # longer ones make imports of more than 100 columns
PLACEHOLDER = "chapter.idea"  # what the rooms of the skeleton call the page that they belong to
IMPORTS = re.compile(r"^(?:from .+\n)*from chapter\.idea .+\n(?:from .+\n)*", re.MULTILINE)
COLUMNS = 100


def new_page(key: str) -> Page:
    """Make a page of the skeleton, and name it at the end of its chapter's story.

    Args:
        key: CHAPTER/PAGE, of which the chapter is there and the page is not.
    """
    chapter, name = _free_place(key)
    story = chapter.path / "__init__.py"
    told = _mentioned(key, story.read_text(encoding="utf-8"), name)
    texts = {chapter.path / room / "__init__.py": about for room, about in ABOUT.items()}
    texts = {file: about for file, about in texts.items() if not file.is_file()}
    for room, text in _skeleton(f"{chapter.package}.{name}").items():
        texts[chapter.path / room / f"{name}.py"] = text
    _need_writable(key, chapter)
    with contextlib.ExitStack() as undo:
        for room in ROOMS:
            if not (chapter.path / room).is_dir():
                (chapter.path / room).mkdir()
                undo.callback((chapter.path / room).rmdir)
        for file, text in texts.items():
            _restore_later(undo, file)
            write_text(file, text)
        if "lazy_exports" in told:  # other chapters say themselves what they export
            _restore_later(undo, chapter.path / "__init__.pyi")
            write_stub(dataclasses.replace(chapter))  # a copy, which has not seen its pages yet
        _restore_later(undo, story)
        write_text(story, told)
        undo.pop_all()
    chapters.cache_clear()
    return page(key, "new")


def _free_place(key: str) -> tuple[Chapter, str]:
    """Find the chapter, and refuse a name that no page can have or that something has already."""
    place, _, name = key.partition("/")
    known = {one.name: one for one in chapters()}
    if place not in known:
        hint = suggestion(place, known)
        raise usage_error("new", "KEY", "CHAPTER/PAGE, with a CHAPTER that is there", key, hint)
    if not NAME.fullmatch(name) or keyword.iskeyword(name) or name in ROOMS:
        domain = (
            "CHAPTER/PAGE, with PAGE a lowercase Python name of at most 40 letters that is neither "
            f"a keyword nor {' nor '.join(ROOMS)}"
        )
        raise usage_error("new", "KEY", domain, key, f"Try {place}/my_idea.")
    chapter = known[place]
    rooms = [chapter.path / room for room in ("", *ROOMS)]
    taken = [str(file) for room in rooms for file in (room / f"{name}.py", room / name)]
    taken = [file for file in taken if Path(file).exists()]
    taken += [f"{name} in {one.path}" for one in chapter.pages if name in one.exports]
    if taken:
        hint = f"There is {taken[0]} already; take another name."
        raise usage_error("new", "KEY", "CHAPTER/PAGE, with a PAGE that is not there", key, hint)
    return chapter, name


def _mentioned(key: str, source: str, name: str) -> str:
    """Let the docstring of a chapter name the page, at its end unless it does so already."""
    docstring = ast.get_docstring(ast.parse(source))
    if f"`{name}`" in (docstring or ""):
        return source
    first = ast.parse(source).body[0] if docstring else None
    literal = first and ast.get_source_segment(source, first)
    if not literal or not literal.endswith(('"""', "'''")):
        domain = "CHAPTER/PAGE, with a CHAPTER whose story is a docstring in three quotes"
        raise usage_error("new", "KEY", domain, key, "Tell the story of the chapter first.")
    body, quotes, sentence = literal[:-3].rstrip(), literal[-3:], f"Then comes `{name}`."
    last = body.rpartition("\n")[2]
    if "\n" not in body or last[:1].isspace():  # a title alone, or a list
        joint = "\n\n"
    else:
        joint = " " if len(f"{last} {sentence}") <= COLUMNS else "\n"
    return source.replace(literal, f"{body}{joint}{sentence}\n{quotes}", 1)


def _skeleton(module: str) -> dict[str, str]:
    """Read the skeleton, room by room, as it is when its page is this module."""
    home = Path(principia.__path__[0]).parents[1] / "docs/skeleton"
    if not home.is_dir():
        raise UsageError(
            "new: the skeleton of a page comes with the source code of Principia, and it is not "
            "here. Clone its repository and install Principia from there."
        )

    def renamed(imports: re.Match[str]) -> str:  # and in order again
        lines = imports[0].replace(PLACEHOLDER, module).splitlines(keepends=True)
        return "".join(sorted(lines))

    texts = {room: (home / room / "idea.py").read_text(encoding="utf-8") for room in ("", *ROOMS)}
    return {room: IMPORTS.sub(renamed, text) for room, text in texts.items()}


def _need_writable(key: str, chapter: Chapter) -> None:
    """Refuse a chapter whose folders cannot be written, before anything is."""
    rooms = [chapter.path / room for room in ROOMS]
    for folder in (chapter.path, *(room for room in rooms if room.exists())):
        try:
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            domain = "CHAPTER/PAGE, with a CHAPTER that can be written"
            hint = f"Mend {folder}: {error.strerror or error}."
            raise usage_error("new", "KEY", domain, key, hint) from error


def _restore_later(undo: contextlib.ExitStack, file: Path) -> None:
    """If something fails from now on, let the file be again what it is now."""
    before = file.read_bytes() if file.is_file() else None

    def restore() -> None:
        if before is None:
            file.unlink(missing_ok=True)
        elif file.read_bytes() != before:
            write_bytes(file, before)

    undo.callback(restore)

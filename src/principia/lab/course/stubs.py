"""Stubs: what `from principia.connectionism import Hopfield` means, for type checkers and editors.

A chapter finds its components when one is asked for, which no type checker can follow. Beside each
`__init__.py` therefore stands an `__init__.pyi` made from the pages' `__all__`. Nobody writes it:
`python -m principia.lab.course.stubs` (or `make stubs`) does, and a test tells when one is stale.
"""

import sys

from principia.lab.course.catalog import Chapter, chapters
from principia.lab.storage import write_text

__all__ = ["stub_of", "write_stub"]

HEAD = "# Made by `make stubs` from the pages' __all__; do not edit.\n"


def stub_of(chapter: Chapter) -> str:
    """Write down what a chapter exports: every component of every page, from its page.

    Example:
        >>> from principia.lab.course.catalog import chapters
        >>> connectionism = next(one for one in chapters() if one.name == "connectionism")
        >>> "from .hopfield import Hopfield as Hopfield" in stub_of(connectionism)
        True
    """
    lines = [
        f"from .{page.name} import {name} as {name}"
        for page in sorted(chapter.pages, key=lambda page: page.name)
        for name in sorted(page.exports)
    ]
    return HEAD + "".join(f"{line}\n" for line in lines)


def write_stub(chapter: Chapter) -> bool:
    """Bring the stub of a chapter up to date; tell whether it was stale."""
    path, text = chapter.path / "__init__.pyi", stub_of(chapter)
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    write_text(path, text)
    return True


if __name__ == "__main__":
    for chapter in chapters():
        if write_stub(chapter):
            sys.stdout.write(f"{chapter.path / '__init__.pyi'}\n")

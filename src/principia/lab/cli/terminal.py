"""What people see: rich tables and a progress bar on a terminal, plain lines in a pipe."""

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from principia.lab.progress import progress

__all__ = [
    "command_name", "counted", "debug", "debugging", "fancy", "progress", "record", "say",
    "shorten", "table",
]

DEBUG = "PRINCIPIA_DEBUG"
VERDICTS = {"holds": "green", "refuted": "red", "undecided": "yellow", "error": "red"}


def debug() -> None:
    """Show tracebacks from now on, in processes that this one starts, too."""
    os.environ[DEBUG] = "1"


def debugging() -> bool:
    """Whether tracebacks are wanted: by --debug, or by the environment."""
    return bool(os.environ.get(DEBUG))


def fancy() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def say(text: str = "", style: str = "") -> None:
    """Print a paragraph; on a terminal it is wrapped and may have a style."""
    if not fancy():
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()  # whoever reads the pipe of a long command waits for each line
        return
    from rich.console import Console
    from rich.text import Text

    Console().print(Text(text, style=style))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table; in a pipe, one line a row with tabs between the cells."""
    if not fancy():
        for row in rows:
            sys.stdout.write("\t".join(" ".join(cell.split()) for cell in row) + "\n")
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        drawn.add_column(column, overflow="fold", no_wrap=place < 2)  # keys stay in one piece
    for row in rows:
        drawn.add_row(*(Text(cell, style=_style(cell)) for cell in row))
    Console().print(drawn)


def record(title: str, fields: Mapping[str, str]) -> None:
    """Print something with several fields: below each other, or in a pipe on one line."""
    if not fancy():
        cells = [title, *fields.values()]
        sys.stdout.write("\t".join(" ".join(cell.split()) for cell in cells) + "\n")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    say(title, style="bold")
    grid = Table.grid(padding=(0, 2))
    for name, text in fields.items():
        grid.add_row(Text(f"  {name}", style="dim"), Text(text, style=_style(text)))
    Console().print(grid)
    say()


def _style(cell: str) -> str:
    return VERDICTS.get(re.split(r"\W", cell, maxsplit=1)[0].lower(), "")


def command_name() -> str:
    """Name this command as the user can type it: `principia`, or the path in its environment."""
    called = Path(sys.argv[0])
    found = shutil.which("principia")
    if called.name != "principia":
        return "python -m principia"
    if found is not None and Path(found).resolve() == called.resolve():
        return "principia"
    return os.path.relpath(called)


def counted(number: int, noun: str) -> str:
    """Say how many: `1 chapter`, `2 chapters`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shorten(text: str, width: int = 88) -> str:
    """Cut a text to one line of a given width."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 1]}…"

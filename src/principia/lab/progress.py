"""A progress bar for whoever sits at a terminal, and nothing for whoever does not."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress"]


@contextmanager
def progress(total: int, what: str) -> Iterator[Callable[..., None]]:
    """Show a bar with the time left on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda text, by=1: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Left())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)

        def advance(text: str, by: int = 1) -> None:
            bar.update(task, advance=by, description=f"{what} {text}".strip())

        yield advance

"""A progress bar for whoever sits at a terminal, and nothing for whoever does not."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress"]


@contextmanager
def progress(total: int, what: str, *, alive: bool = True) -> Iterator[Callable[..., None]]:
    """Show a bar with the time left on standard error, if that is a terminal.

    Args:
        total: How often it advances.
        what: Stands before the bar.
        alive: Whether a thread draws it again and again; else it is drawn when it advances.
    """
    if not sys.stderr.isatty():
        yield lambda text, by=1: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Left())
    shown = Progress(
        *columns, console=Console(stderr=True), transient=True, auto_refresh=alive
    )
    with shown as bar:
        task = bar.add_task(what, total=total)

        def advance(text: str, by: int = 1) -> None:
            bar.update(task, advance=by, description=f"{what} {text}".strip(), refresh=not alive)

        yield advance

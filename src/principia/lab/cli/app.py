"""Puts the commands together."""

from typing import Annotated

import typer

import principia
from principia.lab.cli import browse, measure, terminal, train, web
from principia.lab.cli.bench import bench
from principia.lab.cli.flags import command
from principia.lab.cli.ledger import ledger
from principia.lab.cli.mutate import mutate
from principia.lab.cli.new import new
from principia.lab.cli.tour import tour
from principia.lab.course import catalog

__all__ = ["app"]

app = typer.Typer(
    name="principia",
    help="Deep learning you can check: a course as running code, every theorem measured.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> bool:
    if asked:
        typer.echo(f"principia {principia.__version__}")
        raise typer.Exit
    return asked


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks instead of sentences.")
    ] = False,
) -> None:
    """Take the options that all commands share."""
    if debug:
        terminal.debug()


def _chapters(typed: str) -> list[str]:
    return [one.name for one in catalog.chapters() if one.name.startswith(typed)]


def _pages(typed: str) -> list[str]:
    keys = [page.key for chapter in catalog.chapters() for page in chapter.pages]
    return [key for key in keys if key.startswith(typed)]


def _places(typed: str) -> list[str]:
    return [*_chapters(typed), *_pages(typed)]


def _claims(typed: str) -> list[str]:
    pages = [page for chapter in catalog.chapters() for page in chapter.pages]
    claims = [f"{page.key}:{name}" for page in pages for name in page.claim_names]
    return [*_places(typed), *(key for key in claims if ":" in typed and key.startswith(typed))]


command(app, browse.ls, _chapters)
command(app, browse.show, _pages)
command(app, browse.callbacks)
command(app, browse.callbacks, name="parts", hidden=True)  # what it was called before
command(app, measure.check, _claims)
command(app, mutate, _places)
command(app, train.run, _pages)
command(app, train.runs)
command(app, train.report)
command(app, train.predict)
command(app, train.export)
command(app, ledger)
command(app, bench)
command(app, web.serve)
command(app, web.site)
command(app, measure.errata, _claims)
command(app, browse.cite, _pages)
command(app, browse.doctor)
command(app, new, _chapters)
command(app, tour)

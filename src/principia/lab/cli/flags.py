r"""Makes commands of annotated functions: the flag, its help and its check come from the knob.

Positional parameters become arguments, keyword-only ones flags; `tuple[str, ...]` means several.
Values reach the function through its knobs, so that a bad one gets the house sentence.
"""

import functools
import inspect
import sys
import typing
from collections.abc import Callable
from typing import Any

import typer

from principia.lab.params import REQUIRED, Each, Knob, Maybe, Range, Switch, Text, knobs_of

__all__ = ["command"]

Completion = Callable[[str], list[str]]


def command(
    app: typer.Typer, function: Callable[..., int | None], complete: Completion | None = None, *,
    name: str = "", hidden: bool = False,
) -> None:
    """Register a function as a command, by default of its own name.

    Args:
        app: The program.
        function: What the command does.
        complete: Completes what was typed of its argument.
        name: Another name.
        hidden: Whether the help leaves it out.
    """
    name = name or function.__name__.rstrip("_")
    knobs = knobs_of(function)
    parameters = inspect.signature(function).parameters
    shapes = {
        one: _declared(knobs[one], parameters[one].kind, complete) for one in parameters
    }

    @functools.wraps(function)
    def run(**texts: Any) -> None:
        values = {one: _value(name, knobs[one], text) for one, text in texts.items()}
        positional = [
            values.pop(one)
            for one, parameter in parameters.items()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        raise typer.Exit(function(*positional, **values) or 0)

    run.__annotations__ = {one: shape for one, (shape, _) in shapes.items()}
    keyword = inspect.Parameter.KEYWORD_ONLY
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(one, keyword, annotation=shape, default=default)
            for one, (shape, default) in shapes.items()
        ]
    )
    app.command(name, help=_help(function), hidden=hidden)(run)


def _declared(knob: Knob, kind: Any, complete: Completion | None) -> tuple[Any, Any]:
    """Give the annotation and the default that typer needs for one parameter."""
    several = isinstance(knob.domain, Each)
    required = knob.default is REQUIRED
    shape: Any = list[str] if several else str
    if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
        note = typer.Argument(
            metavar=knob.name.upper().removesuffix("S") if several else knob.name.upper(),
            help=knob.help,
            autocompletion=complete,
            show_default=False,
        )
        default = inspect.Parameter.empty if required else ([] if several else None)
        shape = shape if required or several else typing.Optional[str]  # noqa: UP045
        return typing.Annotated[shape, note], default
    flag = f"--{knob.name.rstrip('_').replace('_', '-')}"
    if isinstance(knob.domain, Switch):
        return typing.Annotated[bool, typer.Option(flag, help=knob.help)], knob.default
    domain = knob.domain.inner if isinstance(knob.domain, Maybe) else knob.domain
    free = several or isinstance(domain, Text)  # any text will do: nothing to explain
    words = knob.help if free else f"{knob.help} ({_domain(knob)})"
    metavar = "N" if isinstance(domain, Range) and domain.kind is int else "TEXT"
    note = typer.Option(flag, help=words, metavar=metavar, show_default=False)
    if several:
        return typing.Annotated[list[str], note], []
    return typing.Annotated[typing.Optional[str], note], None  # noqa: UP045


def _domain(knob: Knob) -> str:
    default = "" if knob.default is None else f"; default {knob.default}"
    return f"{knob.domain.text.removesuffix(', or none')}{default}"


def _value(owner: str, knob: Knob, text: Any) -> Any:
    """Turn what typer hands over into the value of the knob."""
    if text is None or text == []:
        return () if text == [] else knob.default
    if isinstance(text, bool):
        return text
    if isinstance(text, list):
        return tuple(text)
    return Knob(knob.name.rstrip("_"), knob.domain).parse(owner, text)


def _help(function: Callable[..., Any]) -> str:
    text = inspect.getdoc(function) or ""
    story = text.split("\nArgs:")[0].strip()
    return story if sys.stdout.isatty() else story.replace("`", "")

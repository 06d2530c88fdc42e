"""The command line: `principia ls`, `show`, `check`, `run`, `ledger`, `tour` and more.

Exit codes: 0 all is well, 1 something was refuted or a goal missed, 2 wrong use, 130 interrupted,
70 a bug of Principia.
"""

import contextlib
import io
import os
import sys

from principia.lab.cli.terminal import debugging
from principia.lab.params import Failure, UsageError

__all__ = ["main"]


def main() -> None:
    """Run the command line; a user's mistake ends in one sentence, never in a traceback."""
    for name in ("stdout", "stderr"):  # closed by the caller, as in >&-
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    if sys.flags.optimize > 1:
        sentence = "Python must keep docstrings, which are the text of the course; it drops them."
        sys.exit(_tell(f"principia: {sentence} Leave out -OO, or unset PYTHONOPTIMIZE.", 2))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without the letters of mathematics
    # threads that wait must not spin: on a busy machine they would take the time of those at work
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        code = _run()
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()  # the reader has gone, as in `| head`: that is nobody's error
        code = 141
    except KeyboardInterrupt:
        code = _tell("principia: interrupted; nothing was left half-written.", 130)
    except UsageError as error:
        code = _tell(error, 2)
    except OSError as error:
        _drop_output()
        code = _tell(f"principia: {error}.", 2)
    except Failure as error:
        code = _tell(error, 1)
    except Exception as error:
        hint = "This is a bug of Principia: run again with --debug and report what it prints."
        message = " ".join(str(error).split())[:200]
        code, sentence = 70, f"{type(error).__name__}: {message}. {hint}"
        if _lacks_memory(error):
            code, sentence = 2, "this needs more memory than there is. Make something smaller."
        code = _tell(f"principia: {sentence}", code)
    sys.exit(code)


def _lacks_memory(error: Exception) -> bool:
    """Tell whether an error is about memory: torch has none of its own for that of the machine."""
    marks = ("can't allocate memory", "out of memory")
    told = isinstance(error, RuntimeError) and any(mark in str(error) for mark in marks)
    return told or isinstance(error, MemoryError)


def _drop_output() -> None:
    """Send what is still buffered nowhere: Python would try to write it again at its exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run() -> int:
    import typer

    from principia.lab.cli.app import app

    try:
        code = app(standalone_mode=False, prog_name="principia") or 0
    except typer.Abort:
        raise KeyboardInterrupt from None
    except SystemExit as stopped:
        if isinstance(stopped.__context__, BrokenPipeError):  # which typer turns into a bare 1
            raise stopped.__context__ from None
        raise
    except typer.TyperException as error:  # an unknown option, a missing argument
        raise UsageError(_sentence(error)) from error
    if code == 130:  # typer's answer to Ctrl-C
        raise KeyboardInterrupt
    return code


def _sentence(error: Exception) -> str:
    message = getattr(error, "format_message", lambda: str(error))()
    context = getattr(error, "ctx", None)
    owner = getattr(context, "command_path", "principia") or "principia"
    message = " ".join(str(message).split()).rstrip(".")
    stop = "" if message.endswith("?") else "."
    return f"{owner}: {message}{stop} Try {owner} --help."


def _tell(error: object, code: int) -> int:
    """Print the sentence on standard error (with the traceback when debugging)."""
    if debugging() and not isinstance(sys.exc_info()[1], KeyboardInterrupt):
        import traceback

        traceback.print_exc()
    sys.stderr.write(f"{error}\n")
    return code

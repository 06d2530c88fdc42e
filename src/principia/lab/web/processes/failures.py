"""Why a child gave no result, on both sides of the pipe: told in it, believed with care here.

What comes from a child is JSON bytes behind one letter that says what they are. Nothing of it is
ever unpickled: a child computes with what strangers typed.
"""

import errno
import json
import logging
import signal
import traceback
from typing import Any

from principia.lab.params import Failure, UsageError
from principia.lab.web.processes.limits import LARGEST, NEXT, Limits

__all__ = [
    "RAISED", "RESULT", "TOLD", "Busy", "Crashed", "Stopped", "Superseded", "as_result",
    "describe", "failure_of", "lacks_memory", "read_json", "result_of",
]

RESULT, RAISED, TOLD = b"=", b"!", b"+"  # no JSON text begins with one of them
UNREADABLE = "The worker's answer cannot be read. Try again."
LONGEST_TRACE = 20_000
LONGEST_SENTENCE = 2_000
log = logging.getLogger("principia.web")


class Busy(Failure):
    """There is too much to do already."""


class Superseded(Failure):
    """A newer request for the same thing has come."""


class Crashed(Failure):
    """The work ended in a way that nobody foresaw."""


class Stopped(Failure):
    """The work was asked to stop, and did."""


_KINDS = {"usage": UsageError, "failure": Failure, "stopped": Stopped, "crashed": Crashed}


def lacks_memory(text: str) -> bool:
    """Tell whether an error is about memory: torch has no exception of its own for it."""
    marks = (
        "MemoryError", "can't allocate memory", "Cannot allocate memory", "DefaultCPUAllocator",
        "bad_alloc", "can't start new thread",
    )
    return any(mark in text for mark in marks)


def _about_memory(error: BaseException | None) -> bool:
    """Tell whether an error, or what led to it, is about memory."""
    while error is not None:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if isinstance(error, (RuntimeError, ImportError)) and lacks_memory(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def as_result(value: Any) -> bytes:
    """Write a result; one that is too large for a page is refused."""
    body = RESULT + json.dumps(value, allow_nan=False).encode()
    if len(body) > LARGEST:
        size, most = len(body) / 2**20, LARGEST / 2**20
        raise Failure(f"The result has {size:.0f} MB; a page takes {most:.0f} MB. {NEXT}")
    return body


def describe(error: BaseException, limits: Limits) -> bytes:
    """Write why there is no result; called while the error is handled."""
    limits.make_room()
    line = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, KeyboardInterrupt):
        kind, text = "stopped", "The work was stopped."
    elif isinstance(error, UsageError):
        kind, text = "usage", str(error)
    elif isinstance(error, Failure):
        kind, text = "failure", str(error)
    elif _about_memory(error):
        kind, text = "failure", limits.needs_memory
    else:
        kind, text = "crashed", line
    trace = traceback.format_exc()[-LONGEST_TRACE:] if kind == "crashed" else ""
    plain = {"kind": kind, "text": text[:LONGEST_SENTENCE], "trace": trace}
    return RAISED + json.dumps(plain).encode()


def result_of(frame: bytes) -> Any:
    """Read what a child gave, or raise what it raised; the trace of a crash goes to the log."""
    kind, body = frame[:1], frame[1:]
    if kind == RESULT:
        return read_json(body)
    plain = read_json(body) if kind == RAISED else None
    if not isinstance(plain, dict):
        raise Crashed(UNREADABLE)
    text = str(plain.get("text"))[:LONGEST_SENTENCE]
    if plain.get("kind") == "crashed":
        log.error("a worker crashed: %s\n%s", text, str(plain.get("trace"))[-LONGEST_TRACE:])
    raise _KINDS.get(str(plain.get("kind")), Crashed)(text)


def read_json(body: bytes) -> Any:
    """Read JSON that a child wrote, or say that it cannot be read."""
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Crashed(UNREADABLE) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)  # NaN is no JSON: browsers cannot read it


def failure_of(code: int, limits: Limits) -> Failure:
    """Say why a child ended that gave no answer, from its exit code."""
    if code == -signal.SIGXCPU:
        return Failure(limits.needs_computing)
    if code == -signal.SIGKILL:
        return Failure(
            "The worker was killed from outside, probably because the machine has no memory left. "
            + NEXT
        )
    names = {-one.value: one.name for one in signal.Signals}
    how = names.get(code, f"exit code {code}")
    return Crashed(f"The worker ended without an answer ({how}). Try again.")

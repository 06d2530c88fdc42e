"""What runs inside the worker of an experiment; apart from the rest, so that it loads fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from principia.lab.params import UsageError
from principia.lab.web.processes import work

if TYPE_CHECKING:
    from principia.lab.web.processes.child_main import Tell

__all__ = ["attempt"]


def attempt(tell: Tell, path: str) -> dict[str, Any]:
    """Do the run of a folder; what it refuses is told apart from what fails.

    Args:
        tell: Gets what is said, and how far it is.
        path: The run folder. Its neighbors are not looked at: one of them may be broken.
    """
    try:
        work.do_run(tell, path, path)
    except UsageError as error:
        return {"refused": str(error)}
    return {"refused": ""}

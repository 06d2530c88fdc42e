"""What runs in children for the playground: itself, its choices, the columns of a table."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from principia.lab.course.formula import prose_to_unicode
from principia.lab.params import Failure, UsageError
from principia.lab.playground import Playground, Setup, choices, default_setup, read_text
from principia.lab.web.processes.failures import lacks_memory

__all__ = ["columns", "offer", "playground"]

log = logging.getLogger("principia.web")


def playground(connection: Connection) -> None:
    """Answer until the server hangs up.

    A message with a `setup` makes a playground anew; `steps` moves it, backwards if negative. The
    answer holds the `points` of a new one and, if the message asks for it, the `frame`.
    """
    room = _Room()
    while True:
        try:
            message = json.loads(connection.recv_bytes())
        except EOFError:
            return
        answer = _sentence_or(room.answer, message)
        connection.send_bytes(json.dumps(answer, allow_nan=False).encode())


def _sentence_or(answer: Any, message: dict[str, Any]) -> dict[str, Any]:
    try:
        return answer(message)
    except UsageError as error:
        return {"error": str(error), "mended": "by the user"}
    except Failure as error:
        return {"error": str(error)}
    except Exception as error:
        line = " ".join(f"{type(error).__name__}: {error}".split())
        if isinstance(error, MemoryError) or lacks_memory(line):
            raise  # the child ends, and with it what it holds; the server says why
        log.exception("the playground failed")
        return {"error": f"The playground failed: {line[:300]}. Choose something else."}


class _Room:
    """The place of one playground at a time."""

    def __init__(self) -> None:
        self.playground: Playground | None = None

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Do what a message asks for."""
        given: dict[str, Any] = {}
        if "setup" in message:
            self.playground = None  # of two, one is enough to hold in memory
            self.playground = Playground(Setup.from_json(message["setup"]))
            if message.get("window"):
                self.playground.look_at(message["window"])
            given["points"] = self.playground.points()
        if self.playground is None:
            raise UsageError("The playground has no setup. Choose one.")
        steps = message.get("steps", 0)
        if steps > 0:
            self.playground.advance(steps)
        elif steps < 0:
            self.playground.back(-steps)
        if "units" in message:
            given["frame"] = self.playground.frame(units=message["units"])
        return given


def offer() -> dict[str, Any]:
    """List what can be chosen, the setup to begin with, and the numbers that can be turned."""
    found = choices().to_json()
    for model in found["models"]:
        model["title"] = prose_to_unicode(model["title"])
        for way in model["tasks"].values():
            for knob in way["knobs"]:
                knob["help"] = prose_to_unicode(knob["help"])
    return {**found, "setup": default_setup().to_json(), "numbers": Setup.form()}


def columns(csv: str) -> dict[str, Any]:
    """Describe the columns of a table, for a choice among them."""
    table = read_text(csv)
    described = [
        {
            "name": name, "kind": "number" if cells.dtype.kind == "f" else "text",
            "values": len(np.unique(cells)),
        }
        for name, cells in table.items()
    ]
    return {"columns": described, "rows": len(next(iter(table.values())))}

"""How answers are given: errors as one sentence with the right status, and no work for nobody."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar, final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from principia.lab.params import Failure, UsageError
from principia.lab.web.pages.rendering import Place, render
from principia.lab.web.processes.workers import Busy, Superseded

__all__ = [
    "PROBLEMS", "Conflict", "Forbidden", "KeptAnswers", "Missing", "Problem", "answer_errors",
    "until_gone",
]

Result = TypeVar("Result")
KEPT = 64 * 2**20  # bytes of answers that are not made again
LOOKED = 0.25  # seconds between two looks whether the client is still there


class Problem(BaseModel):
    """What went wrong, in one sentence that says what to do."""

    error: str


class Missing(UsageError):
    """What was asked for does not exist."""


class Conflict(UsageError):
    """It cannot be done now."""


class Forbidden(UsageError):
    """Others may do it."""


_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (Missing, 404), (Conflict, 409), (Forbidden, 403), (Superseded, 409), (Busy, 503),
    (UsageError, 422), (Failure, 500),
)
_WORDS = {
    400: "not a request that this server understands",
    401: "no token", 403: "from another origin, or not yours", 404: "there is no such thing",
    405: "this method is not for this address", 408: "too slow",
    409: "not now, or replaced by a newer request", 413: "too large", 415: "not JSON",
    422: "a value outside of its domain", 500: "the work failed",
    503: "the lab is busy",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": words} for status, words in _WORDS.items()
}


def answer_errors(app: FastAPI) -> None:
    """Turn errors into sentences."""

    async def known(request: Request, error: Exception) -> Response:
        status = next(status for kind, status in _STATUS if isinstance(error, kind))
        wait = {"retry-after": "2"} if status == 503 else None
        return _told(request, str(error), status, wait)

    async def malformed(request: Request, error: Exception) -> Response:
        return _told(request, _sentence(error), 422)  # type: ignore[arg-type]

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101
        words = _WORDS.get(error.status_code, str(error.detail))
        return _told(request, f"{words.capitalize()}.", error.status_code, error.headers)

    async def bug(request: Request, error: Exception) -> Response:
        return _told(request, "Something broke in the server; its log has it.", 500)

    app.add_exception_handler(Exception, bug)
    app.add_exception_handler(UsageError, known)
    app.add_exception_handler(Failure, known)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(HTTPException, http)


def _told(
    request: Request, sentence: str, status: int, headers: Mapping[str, str] | None = None
) -> Response:
    """Say a sentence: as a page to whoever looks for one, else as JSON."""
    sentence = sentence.encode(errors="replace").decode()  # it may repeat half a character
    wants_page = "text/html" in request.headers.get("accept", "")
    if wants_page and not request.url.path.startswith("/api/"):
        page = render("problem.html.jinja", Place(), sentence=sentence, status=status)
        return HTMLResponse(page, status, headers)
    return JSONResponse({"error": sentence}, status, headers)


def _sentence(error: RequestValidationError) -> str:
    """Say the first thing that is wrong with a request."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or "the body"
    return f"request: {place[:100]} is not what it must be: {first['msg'].lower()[:200]}."


@final
class KeptAnswers:
    """Keeps the bytes of answers that were asked for last, up to so many in all.

    Args:
        most: How many bytes, of questions and answers together.
    """

    def __init__(self, most: int = KEPT) -> None:
        self._most, self._answers = most, OrderedDict[str, bytes]()
        self.size = 0

    def find(self, question: str) -> bytes | None:
        """Give the answer, if it is there."""
        answer = self._answers.get(question)
        if answer is not None:
            self._answers.move_to_end(question)
        return answer

    def keep(self, question: str, answer: bytes) -> None:
        """Keep an answer as long as there is room; what was asked for longest ago goes first."""
        self._forget(question)
        size = len(question) + len(answer)
        if size > self._most:
            return
        while self.size + size > self._most:
            self._forget(next(iter(self._answers)))
        self._answers[question] = answer
        self.size += size

    def _forget(self, question: str) -> None:
        answer = self._answers.pop(question, None)
        if answer is not None:
            self.size -= len(question) + len(answer)


async def until_gone(request: Request, work: Awaitable[Result]) -> Result:
    """Wait for work as long as the client does; work that nobody waits for is stopped."""
    task = asyncio.ensure_future(work)
    try:
        while True:
            done, _ = await asyncio.wait({task}, timeout=LOOKED)
            if done:
                return task.result()
            if await request.is_disconnected():
                task.cancel()
                raise Superseded("The client has gone.")
    finally:
        if not task.done():
            task.cancel()

"""JSON for experiments: start, watch, cancel, resume and compare runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, HTTPException, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from principia.lab.web.gate.answers import PROBLEMS, Missing
from principia.lab.web.gate.sessions import Visitor
from principia.lab.web.runs import run_store
from principia.lab.web.runs.running import RunRequest, Runs

__all__ = ["Runs", "router"]

router = APIRouter(prefix="/api/runs", tags=["runs"], responses=PROBLEMS)

Status = Literal[
    "waiting", "running", "stopping", "reached", "missed", "interrupted", "unfinished", "failed",
    "broken",
]
# up to 12: more curves in one figure cannot be told apart
Several = Annotated[str, Query(pattern="^[^,]+(,[^,]+){0,11}$", max_length=600)]


class Begun(BaseModel):
    """The name of a new run."""

    name: str


class Named(Begun):
    """The name of a run, and how it stands now."""

    status: Status


class Measured(BaseModel):
    """A number of a run beside its goal; not finite ones are texts, and none is there before."""

    name: str
    value: float | str | None
    goal: str
    reached: bool | None


class Progress(BaseModel):
    """How far the present bar of a run is; a run has one for each of its trainings and loops."""

    what: str
    done: int
    total: int
    fraction: float
    seconds_left: int | None
    words: str


class Listed(BaseModel):
    """What a run was asked, and how it stands."""

    name: str
    key: str
    page: str
    experiment: str
    data: str
    budget: str
    seed: int
    device: str
    threads: int
    knobs: dict[str, str]
    began: str
    command: str
    numbers: list[Measured]
    status: Status
    place: int | None
    note: str
    progress: Progress | None
    problem: str
    cancellable: bool
    resumable: bool
    report: bool


class Described(Listed):
    """All about a run; curves have at most 2000 rows a training."""

    said: list[str]
    curves: dict[str, list[dict[str, Any]]]
    figures: list[str]


class Curves(BaseModel):
    """Learning curves as a figure, if there are any yet."""

    figure: dict[str, Any] | None


class Compared(BaseModel):
    """A number of several runs, in their order."""

    name: str
    goals: list[str]
    values: list[float | str | None]


class Difference(BaseModel):
    """A setting in which runs differ, in their order."""

    name: str
    values: list[str]


class Comparison(BaseModel):
    """Runs beside each other."""

    names: list[str]
    figure: dict[str, Any] | None
    numbers: list[Compared]
    differences: list[Difference]


@router.get("", response_model=list[Listed])
def listed(request: Request) -> Any:
    """List all runs, newest first."""
    return _runs(request).listed(_visitor(request))


@router.post("", response_model=Begun, status_code=202)
async def start(request: Request, wanted: RunRequest) -> Any:
    """Start an experiment; one of a session runs at a time."""
    return {"name": await _runs(request).start(_visitor(request), wanted)}


@router.api_route("", methods=["DELETE", "OPTIONS"], include_in_schema=False)
def refused() -> None:
    """Say what can be done here; by itself, each of the two routes would name its own method."""
    raise HTTPException(405, headers={"allow": "GET, POST"})


@router.get("/compare", response_model=Comparison)
def compare(request: Request, names: Several) -> Any:
    """Compare runs, named with commas between them."""
    runs = _runs(request)
    return run_store.comparison([runs.folder(one) for one in dict.fromkeys(names.split(","))])


@router.get("/{name}", response_model=Described)
def describe(request: Request, name: str) -> Any:
    """Tell all about a run."""
    return _runs(request).describe(_visitor(request), name)


@router.get("/{name}/curves", response_model=Curves)
def curves(request: Request, name: str) -> Any:
    """Draw the learning curves of a run as far as they are."""
    return {"figure": run_store.curves_figure([("", _runs(request).folder(name))])}


@router.get("/{name}/figures/{figure}", response_model=dict[str, Any])
def figure(request: Request, name: str, figure: str) -> Any:
    """Give a figure of a run, in Plotly's own form."""
    found = run_store.figure(_runs(request).folder(name), figure)
    if found is None:
        raise Missing("The run has no such figure, or not yet.")
    return found


@router.post("/{name}/cancel", response_model=Named, status_code=202)
async def cancel(request: Request, name: str) -> Any:
    """Stop a run of yours after its present step; it can be resumed. The owner stops any."""
    return {"name": name, "status": await _runs(request).cancel(_visitor(request), name)}


@router.post("/{name}/resume", response_model=Named, status_code=202)
async def resume(request: Request, name: str) -> Any:
    """Go on with a run that was interrupted; it ends as if nothing had happened."""
    return {"name": name, "status": await _runs(request).resume(_visitor(request), name)}


@router.get(
    "/{name}/events", response_class=StreamingResponse,
    responses={200: {"description": "Events.", "content": {"text/event-stream": {}}}},
)
async def events(
    request: Request, name: str,
    last_event_id: Annotated[str, Header(max_length=100)] = "",
) -> StreamingResponse:
    """Follow a run: server-sent events until it is over.

    `state` is how it stands; `rows` are new lines of its numbers, `from` the place of the first;
    `restart` says that the numbers begin anew; `figure` names one that is new or has changed;
    `say` is a line that it said, `at` its place; after `end` nothing comes.
    """
    runs, visitor = _runs(request), _visitor(request)
    found = await asyncio.to_thread(runs.events, visitor, name, last_event_id)

    async def encoded() -> AsyncIterator[bytes]:
        yield b"retry: 2000\n\n"
        async with aclosing(found):
            async for event in found:
                yield event.encode()

    return StreamingResponse(encoded(), media_type="text/event-stream")


def _runs(request: Request) -> Runs:
    return request.app.state.runs


def _visitor(request: Request) -> Visitor:
    return request.state.visitor

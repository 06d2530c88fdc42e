"""JSON for the playground: what can be chosen, set it up, take steps, and read a table."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from principia.lab.params import usage_error
from principia.lab.playground import Data, Setup
from principia.lab.web.gate.answers import PROBLEMS, until_gone
from principia.lab.web.pages import playground_worker
from principia.lab.web.pages.playgrounds import Playgrounds

__all__ = ["Playgrounds", "router"]

router = APIRouter(prefix="/api/playground", tags=["playground"], responses=PROBLEMS)

Number = (
    Annotated[int, Field(ge=-(10**30), le=10**30)]  # one without ends would not fit a float
    | Annotated[float, Field(ge=-1e30, le=1e30, allow_inf_nan=False)]
)
# in JSON, 3.0 is the integer 3
Whole = BeforeValidator(lambda one: int(one) if type(one) is float and one.is_integer() else one)
Name = Annotated[str, Field(max_length=1000)]
Value = bool | Number | Name | None
Csv = Annotated[str, Field(max_length=2_000_000)]


class _Exact(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Source(_Exact):
    """Points to learn from: an embedded set by its name, a drawing, or a table as text."""

    name: Name
    points: Annotated[
        list[Annotated[list[Number], Field(min_length=2, max_length=3)]], Field(max_length=2000)
    ] = []
    csv: Csv = ""
    features: Annotated[list[Name], Field(max_length=2)] = []
    target: Name = ""


class Chosen(_Exact):
    """Everything that determines a playground; what is missing has its default.

    Only the kinds of the values are checked here: the playground itself refuses what is outside of
    a domain, with the sentence that the command line would give.
    """

    data: Name | Source = Data.name
    page: Name = Setup.page
    knobs: Annotated[dict[str, Value | list[Value]], Field(max_length=50)] = {}
    optimizer: Name = Setup.optimizer
    lr: Number | Name = Setup.lr
    batch_size: Number | Name = Setup.batch_size
    initialization: Name = Setup.initialization
    regularization: Name = Setup.regularization
    strength: Number | Name = Setup.strength
    seed: Number | Name = Setup.seed


class NewPlayground(_Exact):
    """A playground, the step to take it to, and the part of the plane to show."""

    setup: Chosen
    steps: Annotated[int, Field(ge=0, le=20_000), Whole] = 0
    window: Annotated[list[Number], Field(min_length=4, max_length=4)] | None = None


class Made(BaseModel):
    """A new playground: its number, its points, and what it shows."""

    number: int
    points: dict[str, Any]
    frame: dict[str, Any]


class Moved(_Exact):
    """How many steps to take, or to take back; the number tells apart two windows of a visitor."""

    steps: Annotated[int, Field(ge=-1000, le=1000), Whole]
    units: bool = True
    number: Annotated[int, Whole] | None = None


class Shown(BaseModel):
    """What a playground shows."""

    frame: dict[str, Any]


class Pasted(_Exact):
    """A table as text, its first line the names of its columns."""

    csv: Annotated[Csv, Field(min_length=1)]


class Column(BaseModel):
    """A column: its name, whether it holds numbers or texts, and how many different ones."""

    name: str
    kind: str
    values: int


class Columns(BaseModel):
    """The columns of a table."""

    columns: list[Column]
    rows: int


class Offer(BaseModel):
    """What can be chosen, the setup to begin with, and the numbers that can be turned."""

    data: list[dict[str, Any]]
    models: list[dict[str, Any]]
    optimizers: list[dict[str, Any]]
    initializations: list[dict[str, Any]]
    regularizations: list[dict[str, Any]]
    setup: dict[str, Any]
    numbers: list[dict[str, Any]]


@router.get("/choices", response_model=Offer)
async def offer(request: Request) -> Any:
    """List what can be chosen."""
    playgrounds: Playgrounds = request.app.state.playgrounds
    return await playgrounds.offer()


@router.post("", response_model=Made)
async def make(request: Request, asked: NewPlayground) -> Any:
    """Set up the playground of this visitor anew, and take it to a step."""
    if asked.window is not None:
        x0, x1, y0, y1 = asked.window
        if not (x0 < x1 and y0 < y1):
            raise usage_error("Playground", "window", "x0 < x1 and y0 < y1", asked.window)
    setup = asked.setup.model_dump(exclude_unset=True)
    playgrounds: Playgrounds = request.app.state.playgrounds
    work = playgrounds.make(request.state.visitor.session, setup, asked.steps, asked.window)
    return await until_gone(request, work)


@router.get("", include_in_schema=False)
async def nothing_to_get() -> None:
    """Refuse: else the address would be taken for a page of the course."""
    raise HTTPException(405, headers={"allow": "POST"})


@router.post("/step", response_model=Shown)
async def step(request: Request, moved: Moved) -> Any:
    """Take steps, or take them back, and show what has become of it."""
    playgrounds: Playgrounds = request.app.state.playgrounds
    session = request.state.visitor.session
    return await playgrounds.step(session, moved.steps, moved.units, moved.number)


@router.post("/columns", response_model=Columns)
async def columns(request: Request, pasted: Pasted) -> Any:
    """Describe the columns of a table, for a choice among them."""
    job = request.app.state.workers.run(
        request.state.visitor.session, "playground columns", playground_worker.columns, pasted.csv
    )
    return await until_gone(request, job)

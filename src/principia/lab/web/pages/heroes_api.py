"""JSON for heroes: the moving picture of a page, with these knobs, once or as a recording."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from principia.lab.course import catalog
from principia.lab.course.fingerprint import of_run
from principia.lab.params import UsageError, settings
from principia.lab.web.gate.answers import PROBLEMS, KeptAnswers, Missing, until_gone
from principia.lab.web.pages.claims_api import Name, Value
from principia.lab.web.processes import work

__all__ = ["router"]

router = APIRouter(prefix="/api/heroes", tags=["heroes"], responses=PROBLEMS)


class Wanted(BaseModel):
    """A seed, the knobs that differ from their defaults, and whether to turn the moving one."""

    model_config = ConfigDict(extra="forbid", strict=True)

    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    knobs: dict[str, Value | list[Value]] = {}
    recorded: bool = False


class Drawn(BaseModel):
    """A figure in Plotly's own form; a recording has frames."""

    figure: dict[str, Any]
    stale: bool  # whether the sources have changed since the server loaded what it draws


@router.post("/{chapter}/{page}", response_model=Drawn)
async def draw(request: Request, chapter: Name, page: Name, wanted: Wanted) -> Any:
    """Draw the hero of a page."""
    try:
        where = catalog.page(f"{chapter}/{page}", "hero")
        one = where.hero()
    except UsageError as error:
        raise Missing(str(error)) from None
    knobs = settings(one.key, one.knobs, wanted.knobs)  # refused here, before a worker is asked
    kept: KeptAnswers = request.app.state.measured
    now = of_run(where)
    asked = ["hero", one.key, now, wanted.seed, knobs, wanted.recorded]
    question = json.dumps(asked, sort_keys=True, default=list)
    answer = kept.find(question)  # a picture is the same each time
    if answer is None:
        job = request.app.state.workers.run(
            request.state.visitor.session, f"hero {where.key}", work.hero, where.key, wanted.seed,
            knobs, wanted.recorded,
        )
        found = await until_gone(request, job)
        told = {"figure": found["figure"], "stale": found["code"] != now}
        answer = json.dumps(told, allow_nan=False).encode()
        kept.keep(question, answer)
    return Response(answer, media_type="application/json")

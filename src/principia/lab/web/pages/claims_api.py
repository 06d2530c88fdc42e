"""JSON for claims: measure one with these knobs, or check it with its controls."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from principia.lab.course import catalog
from principia.lab.course.fingerprint import of_claims
from principia.lab.evidence.kept import fresh_finding
from principia.lab.params import UsageError, settings
from principia.lab.web.gate.answers import PROBLEMS, KeptAnswers, Missing, until_gone
from principia.lab.web.processes import work

__all__ = ["router"]

router = APIRouter(prefix="/api/claims", tags=["claims"], responses=PROBLEMS)

Name = Annotated[str, Path(pattern=r"^\w+$", max_length=100)]
Whole = Annotated[int, Field(ge=-(10**15), le=10**15)]
Real = Annotated[float, Field(allow_inf_nan=False)]
Value = bool | Whole | Real | Annotated[str, Field(max_length=1000)] | None


class Turned(BaseModel):
    """A seed, and the knobs that differ from their defaults; texts as typed after --set."""

    model_config = ConfigDict(extra="forbid", strict=True)

    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    knobs: dict[str, Value | list[Value]] = {}


class Measured(BaseModel):
    """What one measurement found, with its figure in Plotly's own form."""

    observation: dict[str, Any]
    summary: str
    figure: dict[str, Any] | None
    stale: bool  # whether the sources have changed since the server loaded what it measured


class Checked(BaseModel):
    """What a check found: the measure, its controls, and all in the documented form."""

    finding: dict[str, Any]
    measure: Measured
    controls: list[Measured]


@router.post("/{chapter}/{page}/{claim}", response_model=Measured)
async def measure(request: Request, chapter: Name, page: Name, claim: Name, turned: Turned) -> Any:
    """Measure a claim with these knobs."""
    where, one = _find(chapter, page, claim)
    knobs = settings(one.key, one.knobs, turned.knobs)  # refused here, before a worker is asked
    kept: KeptAnswers = request.app.state.measured
    now = of_claims(where)
    question = json.dumps([one.key, now, turned.seed, knobs], sort_keys=True, default=list)
    answer = kept.find(question)  # a measurement is the same each time
    if answer is None:
        job = request.app.state.workers.run(
            request.state.visitor.session, one.key, work.measure, where.key, claim, turned.seed,
            turned.knobs,
        )
        answer = json.dumps(_told(await until_gone(request, job), now), allow_nan=False).encode()
        kept.keep(question, answer)
    return Response(answer, media_type="application/json")


class Seeded(BaseModel):
    """A seed; a check has the knobs that the claim declares."""

    model_config = ConfigDict(extra="forbid", strict=True)

    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0


@router.post("/{chapter}/{page}/{claim}/check", response_model=Checked)
async def check(request: Request, chapter: Name, page: Name, claim: Name, seeded: Seeded) -> Any:
    """Check a claim as it stands: its measure must hold, and its controls must be refuted."""
    where, one = _find(chapter, page, claim)
    finding = fresh_finding(where, claim) if seeded.seed == 0 else None
    if finding is not None:
        return {
            "finding": finding.to_json(),
            "measure": {**work.shown(finding.measures[0]), "stale": False},
            "controls": [{**work.shown(one), "stale": False} for one in finding.controls],
        }
    job = request.app.state.workers.run(
        request.state.visitor.session, one.key, work.check, where.key, claim, seeded.seed
    )
    found, now = await until_gone(request, job), of_claims(where)
    return {
        "finding": found["finding"],
        "measure": _told(found["measure"], now),
        "controls": [_told(one, now) for one in found["controls"]],
    }


def _told(seen: dict[str, Any], now: str) -> dict[str, Any]:
    """Say of what a worker saw whether it is of the code that there is now."""
    told = {name: one for name, one in seen.items() if name != "code"}
    return {**told, "stale": seen["code"] != now}


def _find(chapter: str, page: str, claim: str) -> tuple[catalog.Page, Any]:
    try:
        ((where, name),) = catalog.select([f"{chapter}/{page}:{claim}"], "check")
        return where, where.claim(name)
    except UsageError as error:
        raise Missing(str(error)) from None

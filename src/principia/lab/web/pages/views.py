"""Pages for people: HTML, rendered from content."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, Response

from principia.lab.course import catalog
from principia.lab.course.typeface import font_css
from principia.lab.web.gate.answers import Missing
from principia.lab.web.pages.content import page_views
from principia.lab.web.pages.rendering import (
    STATIC,
    Place,
    errata_html,
    evidence_now,
    index_html,
    ledger_html,
    page_html,
    races_html,
    render,
)

__all__ = ["router"]

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
HERE = Place()
DAY = {"cache-control": "max-age=86400"}  # large, and tied to a version: Plotly and the font


@router.get("/")
def index() -> str:
    """Show the table of contents."""
    return index_html(HERE, evidence_now())


@router.get("/assets/{name}")
def asset(request: Request, name: str) -> Response:
    """Give a style sheet or a script: one of those that are there, never a path."""
    if name == "plotly.min.js":
        return Response(request.app.state.plotly, media_type="text/javascript", headers=DAY)
    if name == "search-index.js":
        return Response(request.app.state.index, media_type="text/javascript")
    if name == "formulas.css":
        return Response(font_css(), media_type="text/css", headers=DAY)
    known = {path.name: path for path in STATIC.iterdir()}
    if name not in known:
        raise Missing("There is no such file.")
    return FileResponse(known[name])


@router.get("/ledger")
def ledger() -> str:
    """Show published figures beside ours."""
    return ledger_html(HERE)


@router.get("/races")
def races() -> str:
    """Show the races against specialist libraries."""
    return races_html(HERE)


@router.get("/errata")
def errata() -> str:
    """Show what is often misprinted."""
    return errata_html(HERE, evidence_now())


@router.get("/playground")
def playground() -> str:
    """Show the playground."""
    return render("playground.html.jinja", HERE)


@router.get("/{chapter}/{page}")
def page(request: Request, chapter: str, page: str) -> str:
    """Show a page of the course."""
    key = f"{chapter}/{page}"
    if key not in {one.key for one in page_views()}:
        raise Missing("There is no such page, or it cannot be loaded. See principia doctor.")
    findings = evidence_now(catalog.page(key))
    return page_html(HERE, key, findings, request.app.state.runs.of_page(key))

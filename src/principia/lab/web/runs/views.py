"""Pages for people about runs: all of them, one of them, and its report."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse, Response

from principia.lab.course.formula import prose_to_unicode
from principia.lab.params import UsageError
from principia.lab.web.gate.answers import Missing
from principia.lab.web.pages.content import ExperimentView, PageView, page_view
from principia.lab.web.pages.rendering import Place, render
from principia.lab.web.runs.running import Runs

__all__ = ["router"]

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
HERE = Place()
# a report has its scripts inside; in a sandbox they can draw, and can ask this server for nothing
ALONE = {
    "content-security-policy": "sandbox allow-scripts; default-src 'none'; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
}


@router.get("/runs")
def runs(request: Request) -> str:
    """Show all runs."""
    found = _runs(request).listed(request.state.visitor)
    listed = [{**one, "url": _address(one["name"])} for one in found]
    return render("runs.html.jinja", HERE, runs=listed)


@router.get("/runs/{name}")
def run(request: Request, name: str) -> str:
    """Show one run."""
    found = _runs(request).describe(request.state.visitor, name)
    page, experiment = _experiment(found["page"], found["experiment"])
    return render(
        "run.html.jinja", HERE, run=found, url=_address(name), page=page, experiment=experiment,
        settings=_settings(found, experiment), again=_again(found) if experiment else "",
    )


@router.get("/runs/{name}/report")
def report(request: Request, name: str) -> Response:
    """Give the report of a run, which the run has written itself."""
    path = _runs(request).folder(name).report_file
    if not path.is_file():
        raise Missing("This run has no report yet. It is written when the run ends.")
    return FileResponse(path, media_type="text/html; charset=utf-8", headers=ALONE)


def _runs(request: Request) -> Runs:
    return request.app.state.runs


def _address(name: str) -> str:
    return HERE.page(f"runs/{quote(name, safe='')}")


def _experiment(key: str, name: str) -> tuple[PageView | None, ExperimentView | None]:
    """Find what the run is about, as far as this course still has it."""
    try:
        page = page_view(key)
    except UsageError:
        return None, None
    return page, next((one for one in page.experiments if one.name == name), None)


def _settings(found: dict[str, Any], experiment: ExperimentView | None) -> list[dict[str, Any]]:
    """List every knob with what it was, and whether somebody turned it."""
    knobs = dict(found["knobs"])
    rows = []
    for one in experiment.fields if experiment else ():
        value = knobs.pop(one.name, one.default)
        help = prose_to_unicode(one.help)
        rows.append(
            {"name": one.label, "value": value, "turned": value != one.default, "help": help}
        )
    rows += [{"name": n, "value": v, "turned": True, "help": ""} for n, v in knobs.items()]
    for name in ("budget", "seed", "device", "threads", "data"):
        if found[name] not in ("", None):
            rows.append({"name": name, "value": str(found[name]), "turned": False, "help": ""})
    return rows


def _again(found: dict[str, Any]) -> str:
    """Give the address of the form with which the same run could be started once more."""
    form = f"run-{found['experiment']}"
    chosen = {**found["knobs"], "budget": found["budget"], "seed": str(found["seed"])}
    query = urlencode({f"{form}.{name}": value for name, value in chosen.items()})
    return f"{HERE.page(found['page'])}?{query}#{form}"

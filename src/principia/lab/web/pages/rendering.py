"""Turns content into HTML, for the server and for the static site: they differ in addresses."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

import principia
from principia.lab.course import catalog
from principia.lab.course.fingerprint import Sources, roots_of_claims
from principia.lab.course.formula import prose_to_html
from principia.lab.evidence.claims import Finding
from principia.lab.evidence.kept import Kept, last_finding
from principia.lab.mutation.scores import last_score
from principia.lab.params import UsageError
from principia.lab.runs import ledger
from principia.lab.web.pages.content import ScoreView, page_view, page_views, score_view
from principia.lab.web.processes.work import shown

__all__ = [
    "STATIC", "Place", "errata_html", "evidence_now", "index_html", "ledger_html", "page_html",
    "races_html", "render",
]

WEB = Path(__file__).parents[1]
STATIC = WEB / "static"
log = logging.getLogger("principia.web")


@final
@dataclass(frozen=True)
class Place:
    """Where a page will be read: from the server, or from a file so many folders deep.

    Example:
        >>> Place(live=False, depth=1).page("networks/mlp", "capacity")
        '../networks/mlp.html#capacity'
    """

    live: bool = True
    depth: int = 0

    @property
    def root(self) -> str:
        """What leads to the index."""
        return "/" if self.live else "../" * self.depth

    def page(self, key: str, anchor: str = "") -> str:
        """Give the address of a page, or of one of the named pages such as playground."""
        name = key if self.live else f"{key or 'index'}.html"
        return f"{self.root}{name}{'#' if anchor else ''}{anchor}"

    def asset(self, name: str) -> str:
        """Give the address of a style sheet, a script or a picture."""
        return f"{self.root}assets/{name}"


Findings = Mapping[str, Kept]  # by the keys of claims


def evidence_now(*only: catalog.Page) -> Findings:
    """Give what was measured before on this machine; what no longer stands is marked as stale.

    Args:
        only: The pages whose claims are asked for; by default all.
    """
    pages = only or [page for chapter in catalog.chapters() for page in chapter.pages]
    sources = Sources()
    sources.needed(module for page in pages for module in roots_of_claims(page))  # all at once
    found = {
        f"{page.key}:{name}": last_finding(page, name, sources)
        for page in pages
        for name in page.claim_names
    }
    return {key: finding for key, finding in found.items() if finding is not None}


def index_html(place: Place, findings: Findings) -> str:
    """Write the table of contents, with what holds and what does not."""
    chapters = [
        {
            "name": chapter.name,
            "title": chapter.title.rstrip("."),
            "pages": [_listed(page, findings) for page in chapter.pages],
        }
        for chapter in catalog.chapters()
        if chapter.pages
    ]
    pages = [page for chapter in chapters for page in chapter["pages"]]
    states = [claim["state"] for page in pages for claim in page["claims"]]
    return render(
        "index.html.jinja", place, chapters=chapters, pages=len(pages), claims=len(states),
        holding=states.count("holds"), failing=states.count("fails"), stale=states.count("stale"),
    )


def _listed(page: catalog.Page, findings: Findings) -> dict[str, Any]:
    name, _, about = page.title.partition(": ")
    claims = [
        {"name": one, "state": _state(findings.get(f"{page.key}:{one}"))}
        for one in page.claim_names
    ]
    return {
        "key": page.key, "name": name.rstrip("."), "about": prose_to_html(about), "claims": claims,
        "hero": page.hero_name,
        "holding": sum(one["state"] == "holds" for one in claims),
    }


def _state(kept: Kept | None) -> str:
    return "unchecked" if kept is None else kept.state


def page_html(place: Place, key: str, findings: Findings, runs: Any = ()) -> str:
    """Write a page of the course.

    Args:
        place: Where it will be read.
        key: Which page.
        findings: What was measured; a file has it inside, a server's page asks for the figures.
        runs: For the server, the runs of the page's experiments.
    """
    page = catalog.page(key, "page")
    order = [one.key for one in page_views()]
    here = order.index(key)
    own = {one: findings.get(f"{key}:{one}") for one in page.claim_names}
    return render(
        "page.html.jinja", place, page=page_view(key), findings=own, runs=runs, score=_score(page),
        before=page_view(order[here - 1]) if here else None,
        after=page_view(order[here + 1]) if here + 1 < len(order) else None,
    )


def _score(page: catalog.Page) -> ScoreView | None:
    """Describe what the claims of a page notice, if that is kept."""
    try:
        score = last_score(page)
    except UsageError as error:  # a file of somebody else; the page is worth seeing without it
        log.warning("%s", error)
        return None
    return None if score is None else score_view(score)


def ledger_html(place: Place) -> str:
    """Write the ledger: published figures beside ours."""
    rows, chosen = ledger.read(), ledger.experiments()
    listed, old = [], ledger.stale(chosen, rows)
    for one in chosen:
        row = rows.get(one.key)
        goals = [f"{name.replace('_', ' ')} {goal.goal}" for name, goal in one.reaches.items()]
        listed.append(
            {
                "key": one.key, "address": place.page(one.page, f"run-{one.name}"),
                "published": one.source, "goals": goals,
                "ours": ledger.ours(one, row).split("; ") if row else [],
                "effects": ledger.effects(row) if row else [],
                "seeds": len(row["seeds"]) if row else 0,
                "verdict": ledger.verdict(one, row), "stale": one.key in old,
            }
        )
    return render("ledger.html.jinja", place, rows=listed)


def races_html(place: Place) -> str:
    """Write the races: ratios to the best specialist libraries, and how cost grows."""
    from principia.lab.racing import results
    from principia.lab.racing.pictures import ratio_table, scaling, standing

    rows = results.read()
    listed, verdicts, old = [], [], results.stale(rows)
    for key, row in rows.items():
        columns, lines = ratio_table(key, row)
        drawn = scaling(row)
        found = [one.verdict for one in results.ratios(key, row)]
        verdicts += found
        listed.append(
            {
                "key": key, "anchor": key.replace(":", "-"), "work": row["work"],
                "stale": key in old,
                "columns": columns,
                "rows": list(zip(found, lines, strict=True)),
                "reasons": [(one, row["slower"].get(one, "")) for one in results.lost(key, row)],
                "standing": standing(key, row), "notes": list(results.notes(row)),
                "figure": Markup(drawn.to_json().replace("<", "\\u003c")) if drawn else None,
                "place": results.place_of(row),
            }
        )
    counts = {word: verdicts.count(word) for word in ("faster", "even", "slower")}
    return render(
        "races.html.jinja", place, races=listed, ratios=len(verdicts), counts=counts, old=len(old),
    )


def errata_html(place: Place, findings: Findings) -> str:
    """Write what is often misprinted: the misprint, what is right, and the number that decides."""
    listed = [
        {
            "claim": claim, "page": view, "address": place.page(view.key, claim.name),
            "kept": findings.get(claim.key),
        }
        for view in page_views()
        for claim in view.claims
        if claim.misprint
    ]
    return render("errata.html.jinja", place, errata=listed)


def render(template: str, place: Place, **content: Any) -> str:
    """Fill a template."""
    return _environment().get_template(template).render(
        place=place, version=principia.__version__, **content
    )


@functools.cache
def _environment() -> Environment:
    options: dict[str, Any] = {
        "undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True,
    }
    made = Environment(
        loader=FileSystemLoader(WEB / "templates"), autoescape=True, **options
    )
    made.filters["prose"] = prose_to_html
    made.filters["embedded"] = _embedded
    return made


def _embedded(finding: Finding) -> Markup:
    """Give what a card shows of a finding as JSON that can stand inside an HTML page."""
    controls = [shown(one) for one in finding.controls]
    both = {"measure": shown(finding.measures[0]), "controls": controls}
    text = json.dumps(both, ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))  # which could end the script element

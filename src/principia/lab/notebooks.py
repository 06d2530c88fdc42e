r"""What a notebook draws: findings, evidence, pages and runs as figures and numbers.

Each gives a bundle of forms, of which the notebook takes the richest that it knows. Figures are
Plotly's, with the numbers as their title, so that whatever is shown shows both.
"""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from principia.lab.course.catalog import Page
    from principia.lab.evidence.claims import Claim, Finding
    from principia.lab.evidence.evidence import Evidence
    from principia.lab.heroes import Hero
    from principia.lab.runs.folders import RunFolder

__all__ = ["claim_bundle", "evidence_bundle", "finding_bundle", "findings_bundle", "hero_bundle",
           "page_bundle", "run_bundle"]

Bundle = dict[str, Any]
WIDTH = 100  # letters of a line above a figure


def finding_bundle(finding: Finding) -> Bundle:
    """Draw measure and control side by side, under the statement and the numbers."""
    from principia.lab.course import catalog
    from principia.lab.course.formula import prose_to_unicode
    from principia.lab.figures import finding_figure

    statement = catalog.page(finding.page).claim(finding.claim).statement
    lines = [f"<b>{finding.key}</b>", *_wrapped(prose_to_unicode(statement))]
    for what, observations in (("measure", finding.measures), ("control", finding.controls)):
        lines += _wrapped(f"{what}: {observations[0].verdict}: {observations[0].summary}")
    return _figure_bundle(finding_figure(finding), lines, repr(finding))


def findings_bundle(findings: Sequence[Finding]) -> Bundle:
    """Show one finding as a figure, and several as a table."""
    if len(findings) == 1:
        return finding_bundle(findings[0])
    rows = "".join(
        f"<tr><td>{'holds' if one.passed else 'fails'}</td><td><code>{html.escape(one.key)}</code>"
        f"</td><td>{html.escape(one.measures[0].summary)}</td>"
        f"<td>{one.controls[0].verdict}: {html.escape(one.controls[0].summary)}</td></tr>"
        for one in findings
    )
    head = "<tr><th></th><th>claim</th><th>measured</th><th>control</th></tr>"
    return {"text/plain": repr(findings), "text/html": f"<table>{head}{rows}</table>"}


def evidence_bundle(evidence: Evidence) -> Bundle:
    """Draw evidence under its numbers."""
    from principia.lab.evidence.claims import Observation
    from principia.lab.figures import observation_figure

    figure = observation_figure(Observation(0, {}, evidence))
    return _figure_bundle(figure, _wrapped(f"{evidence.verdict}: {evidence.summary}"),
                          repr(evidence))


def page_bundle(page: Page) -> Bundle:
    """Tell a page's story as Markdown, whose mathematics the notebook sets."""
    text, parts = page.text, [f"### {page.text.title}", page.text.story]
    parts += [f"$$ {one} $$" for one in text.formulas]
    if text.symbols:
        parts.append("\n".join(f"- {symbol}: {meaning}" for symbol, meaning in text.symbols))
    claims = "\n".join(f"- `{one.key}`: {one.statement}" for one in page.claims().values())
    parts += ["**Claims**", claims] if claims else []
    experiments = "\n".join(
        f"- `{one.key}`: {one.statement}" for one in page.experiments().values())
    parts += ["**Experiments**", experiments] if experiments else []
    parts += ["**References**", "\n".join(f"- {one.text}" for one in text.references)]
    return {"text/plain": repr(page), "text/markdown": "\n\n".join(parts)}


def claim_bundle(claim: Claim) -> Bundle:
    """State a claim as Markdown, with its knobs."""
    from principia.lab.params import text_of

    knobs = "\n".join(f"- `{name}={text_of(one.default)}` ({one.domain.text})"
                      for name, one in claim.knobs.items())
    parts = [f"**{claim.key}** ({claim.source})", claim.statement, knobs]
    return {"text/plain": repr(claim), "text/markdown": "\n\n".join(filter(None, parts))}


def hero_bundle(hero: Hero) -> Bundle:
    """Play the moving picture of a page."""
    from principia.lab.figures import hero_figure

    return _forms(hero_figure(hero), repr(hero))


def run_bundle(folder: RunFolder) -> Bundle:
    """Draw the first figure of a run under its numbers and goals; the others are in `figures()`."""
    result = folder.result or {}
    goals, drawings = result.get("goals", {}), folder.figures()
    lines = [f"<b>{html.escape(folder.config.key)}</b>: {folder.status}"]
    for name, value in result.get("metrics", {}).items():
        goal = f" (goal {goals[name]})" if name in goals else ""
        lines.append(html.escape(f"{name.replace('_', ' ')}: {value:.6g}{goal}"))
    names = [one for one in result.get("figures", ()) if one in drawings]
    if not names:
        return {"text/plain": repr(folder), "text/html": "<br>".join(lines)}
    return _figure_bundle(drawings[names[0]], lines, repr(folder))


def _wrapped(text: str) -> list[str]:
    return [html.escape(line, quote=False) for line in textwrap.wrap(text, WIDTH)]


def _figure_bundle(figure: Any, lines: Sequence[str], brief: str) -> Bundle:
    """Put lines above a figure, and give it in Plotly's own form and in that of its renderer."""
    import plotly.graph_objects as go

    drawn = go.Figure(figure)
    room = 22 * len(lines)
    drawn.update_layout(
        title={"text": "<br>".join(lines), "font": {"size": 13}, "x": 0, "xref": "container",
               "y": 1, "yref": "container", "yanchor": "top", "pad": {"t": 12, "l": 12},
               "automargin": False},
        margin={"t": 50 + room}, height=(drawn.layout.height or 380) + room,
    )
    return _forms(drawn, brief)


def _forms(drawn: go.Figure, brief: str) -> Bundle:
    renderers = dict(drawn._repr_mimebundle_() or {})
    for name, address in (drawn.layout.meta or {}).get("sounds", ()):
        player = f'<audio controls src="{address}" aria-label="{html.escape(name)}"></audio>'
        renderers["text/html"] = renderers.get("text/html", "") + player
    return {"application/vnd.plotly.v1+json": json.loads(drawn.to_json()), **renderers,
            "text/plain": brief}

"""Reports: one HTML file with everything inside, which opens without a network.

What a user wrote, such as the header of a table, is text in it, never HTML or mathematics. And the
report itself says which scripts may run: Plotly and the one that hands the figures to it.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from principia.lab.course.catalog import Page, chapters, page
from principia.lab.course.catalog import experiment as experiment_of
from principia.lab.course.formula import prose_to_html, to_mathml
from principia.lab.course.typeface import font_css
from principia.lab.environment import environment
from principia.lab.evidence.claims import Finding
from principia.lab.figures import curves, finding_figure
from principia.lab.params import UsageError, shown
from principia.lab.runs.folders import RunFolder

__all__ = ["claims_report", "races_report", "run_report", "tour_report"]

OF_CLAIMS = ("verdict", "claim", "measured", "control")
DRAW = """
for (const place of document.querySelectorAll(".figure")) {
  const figure = JSON.parse(place.nextElementSibling.textContent);
  const config = {
    responsive: true, displaylogo: false, plotlyServerURL: "",
    modeBarButtonsToRemove: ["sendChartToCloud", "sendDataToCloud"],
  };
  Plotly.newPlot(place, { ...figure, config });
  for (const [name, address] of figure.layout?.meta?.sounds ?? []) {
    const audio = Object.assign(document.createElement("audio"), { controls: true, src: address });
    audio.ariaLabel = name;
    place.after(audio);
  }
}
"""
OF_RACES = ("we are", "race", "closest peer, smallest size", "closest peer, largest size")


@final
@dataclass
class Section:
    """One part of a report."""

    key: str
    title: str
    verdict: str
    measured: str = ""
    control: str = ""
    story: list[Markup] = field(default_factory=list)
    formulas: list[Markup] = field(default_factory=list)
    label: str = "Claim."
    statement: Markup = field(default_factory=Markup)
    columns: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    details: list[tuple[str, str]] = field(default_factory=list)
    command: str = ""


def tour_report(
    selection: Sequence[tuple[Page, str]], findings: Sequence[Finding], seconds: float
) -> str:
    """Write the tour: each chapter's headline claim with its story, formula, numbers and figure."""
    sections = []
    for (one, name), finding in zip(selection, findings, strict=True):
        section = _claim_section(one, name, finding)
        section.story = [prose_to_html(part) for part in re.split(r"\n[ \t]*\n", one.text.story)]
        section.formulas = [Markup(to_mathml(each, block=True)) for each in one.text.formulas]
        sections.append(section)
    course = chapters()
    pages = [one for chapter in course for one in chapter.pages]
    claims = sum(len(one.claim_names) for one in pages)
    lead = (
        f"One headline claim of each chapter, measured on this machine in {seconds:.0f} s. So far "
        f"the course has {len(pages)} pages and {claims} claims, each with a control that fails."
    )
    listing = [(one.key, one.title, len(one.claim_names)) for one in pages]
    return _render("The tour", lead, findings, sections, listing)


def claims_report(title: str, findings: Sequence[Finding]) -> str:
    """Write the findings of a check, one section a claim."""
    sections = [_claim_section(page(one.page), one.claim, one) for one in findings]
    for section in sections:
        section.title = section.key
    return _render(title, "", findings, sections)


def run_report(folder: RunFolder, result: Mapping[str, Any] | None = None) -> str:
    """Write what a run found, beside its goals, with its curves and figures, from its files.

    Args:
        folder: The run.
        result: Its outcome, where that is not in the folder yet.
    """
    config, record, result = folder.config, folder.record, result or folder.result or {}
    own = config.data is not None
    experiment = None if own else experiment_of(config.key, "report")
    goals, reached = result.get("goals", {}), bool(result.get("reached"))
    drawings = folder.figures()
    order = result.get("figures", sorted(drawings))
    if missing := set(order) - set(drawings):
        raise UsageError(f"report: {folder.name} lacks its figure {shown(min(missing))}.")
    figures = {name.replace("_", " "): drawings[name] for name in order}
    if (drawn := curves(folder.curves())) is not None:
        figures = {"learning curves": drawn, **figures}
    section = Section(
        key=config.key,
        title=page(config.page).title.rstrip("."),
        verdict="holds" if reached else "refuted",
        label="Own data." if experiment is None else "Experiment.",
        statement=(
            Markup("<code>{}</code>, predicting <code>{}</code>.").format(
                config.data.source, config.data.target or "the class"
            )
            if config.data else prose_to_html(experiment.statement if experiment else "")
        ),
        columns=("metric", "measured", "goal"),
        rows=[
            (name.replace("_", " "), _number(value), goals.get(name, ""))
            for name, value in result.get("metrics", {}).items()
        ],
        figures=[_figure(f"f{place}", one, name) for place, (name, one) in
                 enumerate(figures.items())],
        details=[
            ("budget", config.budget), ("seed", str(config.seed)), ("device", config.device),
            *((name, str(value)) for name, value in config.knobs.items()),
            *(("went on with another processor", one) for one in folder.other_processors),
            ("git revision", record["git"] or "none"),
            ("SHA-256 of the weights", result.get("weights") or "no model was kept"),
        ],
        command=record["command"],
    )
    verdict = {True: "every goal reached", False: "NOT every goal reached"}[reached]
    if not result:
        verdict = "not finished"
    lead = f"Published: {experiment.source}" if experiment else "A model of your own data"
    return _fill(config.key, lead, reached, verdict, [section], threads=config.threads)


def races_report(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Write what races measured: a table of ratios and the scaling curves of each."""
    from principia.lab.racing.pictures import ratio_table, scaling, standing
    from principia.lab.racing.results import lost, notes, places

    sections = []
    for place, (key, row) in enumerate(rows.items()):
        first, last, verdict = standing(key, row)
        columns, lines = ratio_table(key, row)
        drawn = scaling(row)
        reasons = [f"{one} is faster. {row['slower'].get(one, '')}" for one in lost(key, row)]
        reasons += [f"{one}, {text}." for one, text in notes(row)]
        sections.append(Section(
            key=key, title=key, verdict=verdict, measured=first, control=last, label="Work.",
            statement=Markup.escape(" ".join([row["work"], *reasons])), columns=columns, rows=lines,
            figures=[] if drawn is None else [_figure(f"f{place}", drawn)],
            command=f"principia bench {key}",
        ))
    lead = (
        "Their time over ours, median of rounds in which the sides take turns, with its 95 % "
        "interval: above 1 we are faster. Memory is the peak beyond what was there before."
    )
    same = all(one.verdict != "other work" for one in sections)
    words = "all sides did the same work" if same else "NOT all sides did the same work"
    where = " ".join(places(rows))
    return _fill("Races", lead, same, words, sections, heads=OF_RACES, described=where)


def _number(value: float | str) -> str:
    return f"{value:.5g}" if isinstance(value, (int, float)) else value


def _claim_section(one: Page, name: str, finding: Finding) -> Section:
    claim = one.claim(name)
    observations = [("measure", each) for each in finding.measures]
    said = itertools.cycle(control.said for control in claim.controls)
    observations += [(f"control {words}", each) for words, each in zip(said, finding.controls)]  # noqa: B905
    rows = []
    for what, each in observations:
        why = each.evidence.decisive[1].why if each.evidence else ""
        rows.append((what, str(each.seed), each.verdict, each.summary, why))
    broken = [
        " ".join(f"--set {knob}={value}" for knob, value in control.knobs.items())
        for control in claim.controls
    ]
    anchor = re.sub(r"\W", "-", finding.key)
    drawn = finding.measures[0].evidence is not None
    return Section(
        key=finding.key,
        title=one.title.rstrip("."),
        verdict="holds" if finding.passed else "refuted",
        measured=finding.measures[0].summary,
        control="; ".join(
            f"{one.verdict}: {one.summary}" for one in finding.controls[: len(claim.controls)]
        ),
        statement=prose_to_html(claim.statement),
        columns=("what", "seed", "verdict", "numbers", "tolerance because"),
        rows=rows,
        figures=[_figure(anchor, finding_figure(finding))] if drawn else [],
        command="\n".join(f"principia check {finding.key} {one}".strip() for one in ("", *broken)),
    )


def _figure(anchor: str, figure: Any, name: str = "") -> dict[str, Any]:
    # "</" would end the element early, and "<!--" would let it go on
    data = figure.to_json().replace("<", "\\u003c")
    return {"id": anchor, "name": name, "data": Markup(data), "height": figure.layout.height}


def _render(
    title: str, lead: str, findings: Iterable[Finding], sections: list[Section], listing: Any = ()
) -> str:
    passed = [finding.passed for finding in findings]
    words = f"{sum(passed)} of {len(passed)} claims hold, with their controls refuted"
    return _fill(title, lead, all(passed), words, sections, listing)


def _fill(
    title: str, lead: str, passed: bool, verdict: str, sections: list[Section], listing: Any = (),
    threads: int = 1, heads: tuple[str, ...] = OF_CLAIMS, described: str = "",
) -> str:
    described = described or ", ".join(
        f"{name} {value}" for name, value in environment(threads).items()
    )
    plotly = Markup(get_plotlyjs())
    return _template().render(
        policy=_policy(plotly, DRAW), draw=Markup(DRAW), title=title, lead=lead, passed=passed,
        verdict=verdict, sections=sections, listing=listing, heads=heads, environment=described,
        plotly=plotly, font=Markup(font_css()),
    )


def _policy(*scripts: str) -> str:
    """Write a Content-Security-Policy for a file: these scripts, and nothing from anywhere."""
    digests = [hashlib.sha256(one.encode()).digest() for one in scripts]
    hashes = " ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; media-src data:; font-src data:; base-uri 'none'; form-action 'none'"
    )


@functools.cache
def _template() -> Any:
    loader = FileSystemLoader(Path(__file__).parent)
    options: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True}
    return Environment(loader=loader, autoescape=True, **options).get_template("report.html.jinja")

"""`check`, `errata`: claims, measured now."""

import itertools
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from principia.lab.cli.terminal import (
    counted,
    debugging,
    fancy,
    progress,
    record,
    say,
    shorten,
    table,
)
from principia.lab.course import catalog
from principia.lab.course.formula import prose_to_unicode
from principia.lab.evidence.checking import Selection, check_all, to_json
from principia.lab.evidence.kept import remember
from principia.lab.params import Jobs, SeedNumber, Seeds, UsageError, usage_error
from principia.lab.storage import need_writable, write_text

if TYPE_CHECKING:
    from principia.lab.evidence import Observation

__all__ = ["check", "errata", "pair"]


def check(
    keys: tuple[str, ...] = (),
    *,
    all_: bool = False,
    seeds: Seeds = 1,
    seed: SeedNumber = 0,
    set_: tuple[str, ...] = (),
    jobs: Jobs | None = None,
    json_: bool = False,
    figure: str | None = None,
) -> int:
    """Measure claims now: each must hold, and its controls must be refuted, on every seed.

    Exit code 0 if all pass, 1 if not, 2 for wrong use.

    Args:
        keys: Chapters, pages, or single claims as page:claim.
        all_: Check the whole course.
        seeds: How many seeds.
        seed: The first of them.
        set_: Turn a knob of the claim, as knob=value; may be repeated.
        jobs: Number of processes; by default one a core.
        json_: Print the evidence as JSON instead of a table.
        figure: File for the figures: .html, or .json for Plotly's own format.
    """
    selection = _selected(keys, all_)
    knobs = _knobs(selection, set_)
    target = None if figure is None else _figure_path(figure)
    with progress(len(selection) * seeds, "checking") as advance:
        findings = check_all(
            selection, seeds=range(seed, seed + seeds), knobs=knobs, jobs=jobs,
            done=lambda key: advance(key),
        )
    if not knobs and seed == 0:
        _remember(findings)
    if target is not None:
        _write_figures(target, findings)
    if json_:
        sys.stdout.write(to_json(findings) + "\n")
    else:
        _report(findings, seeds, seed)
        if target is not None:
            say(f"Figures: {target}")
    return 0 if all(finding.passed for finding in findings) else 1


def _selected(keys: Iterable[str], everything: bool) -> Selection:
    keys = list(keys)
    if everything == bool(keys):
        raise UsageError(
            "check: name a chapter, a page or page:claim, or give --all. "
            "Try principia check connectionism."
        )
    chosen = [chapter.name for chapter in catalog.chapters()] if everything else keys
    selection = catalog.select(chosen, "check")
    if not selection:
        raise UsageError(f"check: {', '.join(keys)} has no claims. See principia ls.")
    return selection


def _knobs(selection: Selection, pairs: Iterable[str]) -> dict[str, str]:
    """Read knob=value pairs and let the claims refuse them before any work is done."""
    knobs = dict(pair("check", text) for text in pairs)
    if not knobs:
        return {}
    if len(selection) > 1:
        raise UsageError("check: --set needs one claim. Name it as page:claim.")
    from principia.lab.params import settings

    page, name = selection[0]
    claim = page.claim(name)
    settings(claim.key, claim.knobs, knobs)
    return knobs


def pair(owner: str, text: str) -> tuple[str, str]:
    """Read knob=value."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise usage_error(owner, "--set", "knob=value", text)
    return name.strip(), value.strip()


def _figure_path(text: str) -> Path:
    path = Path(text)
    if path.suffix not in (".html", ".json"):
        raise usage_error("check", "--figure", "a file that ends in .html or .json", text)
    need_writable("check", path)
    return path


def _write_figures(path: Path, findings: list) -> None:
    from principia.lab.runs.report import claims_report

    if path.suffix == ".html":
        write_text(path, claims_report("What was checked", findings))
        return
    from principia.lab.figures import finding_figure

    drawn = [f'"{one.key}": {finding_figure(one).to_json()}' for one in findings]
    write_text(path, "{" + ",\n".join(drawn) + "}\n")


def _remember(findings: list) -> None:
    try:
        for finding in findings:
            remember(finding)
    except OSError as error:
        sys.stderr.write(f"check: the evidence could not be kept for `show`: {error}.\n")


def _report(findings: list, seeds: int, seed: int) -> None:
    columns = ("verdict", "claim", f"measured (seed {seed})", f"control (seed {seed})")
    for page, group in itertools.groupby(findings, key=lambda finding: finding.page):
        rows = []
        for finding in group:
            measure, control = finding.measures[0], _telling(finding.controls)
            verdict = "holds" if finding.passed else "REFUTED"
            name = finding.claim if fancy() else finding.key  # the table's title has the page
            numbers = shorten(measure.summary, 60), shorten(control.summary, 60)
            more = len(finding.controls) // seeds - 1
            broken = f"{control.verdict}: {numbers[1]}" + (f" (and {more} more)" if more else "")
            rows.append((verdict, name, numbers[0], broken))
        table(columns, rows, title=page)
    failed = [finding for finding in findings if not finding.passed]
    for finding in failed:
        for complaint in finding.complaints:
            say(f"{finding.key} {complaint}", style="bold red")
        for one in (*finding.measures, *finding.controls):
            if one.trace and debugging():
                sys.stderr.write(one.trace)
    count = len(findings) - len(failed)
    where = counted(seeds, "seed")
    say(
        f"{count} of {len(findings)} claims hold with their controls refuted, on {where}.",
        style="bold green" if not failed else "bold red",
    )


def _telling(controls: Sequence["Observation"]) -> "Observation":
    """Choose the control to show: the first that does not do what it must, else the first."""
    return next((one for one in controls if one.spared or one.verdict != "refuted"), controls[0])


def errata(keys: tuple[str, ...] = (), *, jobs: Jobs | None = None) -> int:
    """List what is often misprinted: the misprint, what is right, and the number that decides.

    The misprinted formula is the control of its claim, so that the number is measured now.

    Args:
        keys: Chapters, pages, or single claims as page:claim; by default the whole course.
        jobs: Number of processes; by default one a core.
    """
    chosen = keys or [chapter.name for chapter in catalog.chapters()]
    selected = catalog.select(chosen, "errata")
    selection = [(page, name) for page, name in selected if name in page.misprint_names]
    if not selection:
        raise UsageError(f"errata: {', '.join(keys)} has no misprints. Try principia errata.")
    with progress(len(selection), "measuring") as advance:
        findings = check_all(selection, jobs=jobs, done=lambda key: advance(key))
    for (page, name), finding in zip(selection, findings, strict=True):
        claim = page.claim(name)
        right, wrong = finding.measures[0], finding.controls[0]
        record(
            finding.key,
            {
                "often printed": prose_to_unicode(claim.misprint),
                "what is right": prose_to_unicode(claim.statement),
                "measured": f"{right.verdict}: {right.summary}",
                "misprint": f"{wrong.verdict}: {wrong.summary}",
            },
        )
    return 0 if all(finding.passed for finding in findings) else 1

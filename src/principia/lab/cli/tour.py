"""`tour`: one headline claim of every chapter, measured, drawn and written into one report."""

import contextlib
import time
from pathlib import Path

from principia.lab.cli.terminal import command_name, counted, progress, say, shorten, table
from principia.lab.course import catalog
from principia.lab.course.formula import prose_to_unicode
from principia.lab.evidence.checking import check_all
from principia.lab.evidence.kept import remember
from principia.lab.params import Jobs, Seeds
from principia.lab.storage import need_writable, write_text

__all__ = ["tour"]

TRY_NEXT = (
    ("serve", "the course in a browser: turn knobs until a theorem breaks, draw and train"),
    ("ls", "every page of the course"),
    ("show {page}", "its story, formula, API and evidence"),
    ("check {page} --seeds 5", "all its claims, on five seeds"),
    ("check {claim} --set {knob}", "break the theorem yourself"),
    ("errata", "what textbooks often print wrongly"),
    ("run networks/mlp", "train a network, and look at its report"),
)


def tour(*, out: str = "principia-tour.html", seeds: Seeds = 1, jobs: Jobs | None = None) -> int:
    """Walk the chapters: check one headline claim of each, and write a report with its figure.

    Args:
        out: File for the report, one HTML page that needs no network.
        seeds: How many seeds for each claim.
        jobs: Number of processes; by default one a core.
    """
    started = time.monotonic()
    path = Path(out).absolute()
    need_writable("tour", path)
    walked = [chapter for chapter in catalog.chapters() if chapter.headline is not None]
    selection = [chapter.headline for chapter in walked if chapter.headline is not None]
    pages = [page for chapter in walked for page in chapter.pages]
    claims = sum(len(page.claim_names) for page in pages)
    say("Principia: deep learning you can check.", style="bold")
    parts = counted(len(walked), "chapter"), counted(len(pages), "page"), counted(claims, "claim")
    say(f"The course so far: {', '.join(parts)}.")
    with progress(len(selection) * seeds, "checking") as advance:
        findings = check_all(
            selection, seeds=range(seeds), jobs=jobs, done=lambda key: advance(key)
        )
    for chapter, (page, name), finding in zip(walked, selection, findings, strict=True):
        claim = page.claim(name)
        say()
        say(chapter.title, style="bold")
        say(f"  {page.title}")
        say(f"  {prose_to_unicode(claim.statement)}")
        measure = finding.measures[0]
        rows = [(measure.verdict, "measured", shorten(measure.summary))]
        rows += [
            (found.verdict, f"control, {one.said}", shorten(found.summary))
            for one, found in zip(claim.controls, finding.controls)  # noqa: B905 - one seed's
        ]
        table(("verdict", "what", "numbers"), rows)
        for complaint in finding.complaints:
            say(f"{finding.key} {complaint}", style="bold red")
    passed = all(finding.passed for finding in findings)
    from principia.lab.runs.report import tour_report

    seconds = time.monotonic() - started
    write_text(path, tour_report(selection, findings, seconds))
    with contextlib.suppress(OSError):  # the report has it all; the cache is a convenience
        for finding in findings:
            remember(finding)
    if passed:
        say("All headline claims hold, and every control is refuted.", style="bold green")
    else:
        say("NOT all headline claims pass.", style="bold red")
    say(f"Measured in {seconds:.0f} s.")
    say()
    say(f"Report: {path}")
    say("Try next:")
    page, name = selection[-1]
    knob, value = next(iter(page.claim(name).controls[0].knobs.items()))
    words = {"page": page.key, "claim": f"{page.key}:{name}", "knob": f"{knob}={value}"}
    for command, meaning in TRY_NEXT:
        say(f"  {command_name()} {command.format(**words)}")
        say(f"      {meaning}", style="dim")
    return 0 if passed else 1



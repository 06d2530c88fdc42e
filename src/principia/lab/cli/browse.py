"""`ls`, `show`, `callbacks`, `cite`, `doctor`: what there is, without measuring anything."""

import inspect
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import principia
from principia.lab.cli.measure import pair
from principia.lab.cli.terminal import counted, fancy, say, table
from principia.lab.course import catalog
from principia.lab.course.formula import prose_to_unicode, to_unicode
from principia.lab.params import UsageError, suggestion, text_of, usage_error
from principia.lab.storage import need_writable, write_text

if TYPE_CHECKING:
    from principia.lab.course.catalog import Page
    from principia.lab.course.fingerprint import Sources
    from principia.lab.evidence.kept import Kept

__all__ = ["callbacks", "cite", "doctor", "ls", "show"]


def ls(chapter: str | None = None) -> None:
    """List the chapters, or the pages of one chapter.

    Args:
        chapter: Name of a chapter.
    """
    known = {one.name: one for one in catalog.chapters()}
    if chapter is not None and chapter not in known:
        raise usage_error(
            "ls", "CHAPTER", "the name of a chapter", chapter, suggestion(chapter, known)
        )
    chosen = [known[chapter]] if chapter else [one for one in known.values() if one.pages]
    for one in chosen:
        rows = [
            (page.key, str(len(page.claim_names)), str(len(page.experiment_names)), page.title)
            for page in one.pages
        ]
        table(("page", "claims", "experiments", "what it is about"), rows, title=one.title)
    if fancy():
        say("Look at a page with: principia show KEY", style="dim")


def show(key: str, *, hero: str | None = None, set_: tuple[str, ...] = ()) -> None:
    """Show a page: story, formula, API, claims with their last evidence, experiments.

    Args:
        key: Key of a page, such as connectionism/hopfield.
        hero: Write its moving picture to a file: .html, which plays, or .png, which does not.
        set_: Turn a knob of the moving picture, as knob=value; may be repeated.
    """
    if hero is not None:
        _write_hero(catalog.page(key, "show"), Path(hero), set_)
        return
    if set_:
        raise UsageError("show: --set turns a knob of the moving picture. Add --hero FILE.html.")
    from principia.lab.course.fingerprint import Sources
    from principia.lab.evidence.kept import last_finding
    from principia.lab.training.factories import callback_factories

    page = catalog.page(key, "show")
    sources, text = Sources(), page.text
    say(text.title, style="bold")
    for file in page.files:
        say(f"    {file}", style="dim")
    say()
    say(prose_to_unicode(_unwrapped(text.story)))
    for formula in text.formulas:
        say()
        say(f"    {to_unicode(formula)}", style="cyan")
    if text.symbols:
        say()
        for symbol, meaning in text.symbols:
            say(f"    {prose_to_unicode(symbol)}: {prose_to_unicode(meaning)}")
    if page.hero_name:
        _heading("Moving picture")
        say(prose_to_unicode(page.hero().statement))
        say(f"    principia show {page.key} --hero {page.hero_name}.html", style="dim")
    _heading("Components")
    for component in page.components():
        say(component.signature, style="bold")
        say(f"    {prose_to_unicode(component.purpose)}")
    _heading("Claims")
    for name, claim in page.claims().items():
        found = last_finding(page, name, sources)
        say(f"{name}: {_status(found)}", style="yellow" if found and found.stale else "bold")
        say(f"    {prose_to_unicode(claim.statement)}")
        if claim.sees:
            say(f"    {prose_to_unicode(claim.sees)}")
        for control in claim.controls:
            say(f"    control {control.said}")
        say(f"    source: {claim.source}")
        for knob in claim.knobs.values():
            help_text = f": {prose_to_unicode(knob.help)}" if knob.help else ""
            say(f"    --set {knob.name}={text_of(knob.default)}   ({knob.domain.text}{help_text})")
        if claim.misprint:
            say(f"    often misprinted: {prose_to_unicode(claim.misprint)}")
    if page.claim_names:
        _heading("Planted bugs")
        _show_score(page, sources)
    if page.experiment_names:
        _heading("Experiments")
        for name, experiment in page.experiments().items():
            say(name, style="bold")
            say(f"    {prose_to_unicode(experiment.statement)}")
            for budget in ("quick", "full"):
                goals = experiment.goals(budget).items()
                words = [f"{metric.replace('_', ' ')} {goal.goal}" for metric, goal in goals]
                say(f"    {budget}: {'; '.join(words)}")
            say(f"    published: {experiment.source}")
    if page.callback_names:
        _heading("For any training")
        for factory in callback_factories().values():
            if factory.page == page.key:
                _show_callback(factory)
    _heading("References")
    for reference in text.references:
        say(reference.text)
    say()
    say(f"principia check {page.key}", style="dim")


def _write_hero(page: "Page", path: Path, pairs: tuple[str, ...]) -> None:
    if path.suffix not in (".html", ".png"):
        raise usage_error("show", "--hero", "a file that ends in .html or .png", str(path))
    need_writable("show", path)
    one = page.hero()
    knobs = one.chosen(dict(pair("show", text) for text in pairs))
    from principia.lab.figures import hero_figure
    from principia.lab.figures.drawing import FRAME, pace

    moving = path.suffix == ".html"
    figure = hero_figure(one, recorded=moving, **knobs)
    redraw = (figure.layout.meta or {}).get("redraw", True)
    shown = figure.to_html(
        include_plotlyjs=True, auto_play=moving, animation_opts=pace(FRAME, redraw=redraw),
        config={"displaylogo": False, "plotlyServerURL": "", "displayModeBar": moving},
    )
    if moving:
        write_text(path, shown)
    else:
        from principia.lab.browser import screenshot

        with tempfile.TemporaryDirectory() as folder:
            drawn = Path(folder) / "hero.html"
            write_text(drawn, shown)
            screenshot(drawn, path, width=1000, height=figure.layout.height + 20, owner="show")
    say(f"{prose_to_unicode(one.statement)}")
    say(f"Picture: {path}")


def callbacks() -> None:
    """List the callbacks that can be added to every training, with their knobs."""
    from principia.lab.training.factories import callback_factories

    for factory in callback_factories().values():
        _show_callback(factory)
    say()
    say("Add one, to any run that trains: principia run networks/mlp --set CALLBACK.KNOB=VALUE")


def _show_callback(factory: Any) -> None:
    say(factory.name, style="bold")
    say(f"    {prose_to_unicode(factory.statement)} ({factory.page})")
    for knob in factory.knobs.values():
        say(f"    --set {knob.name}=...   ({knob.domain.text}: {prose_to_unicode(knob.help)})")


def _show_score(page: "Page", sources: "Sources") -> None:
    from principia.lab.cli.mutate import show_bugs
    from principia.lab.mutation.scores import last_score

    score = last_score(page, sources)
    if score is None:
        say(f"not measured yet: principia mutate {page.key}")
        return
    say(f"{score.sentence}.", style="yellow" if score.stale else "bold")
    show_bugs(score)


def _status(found: "Kept | None") -> str:
    if found is None:
        return "not checked yet on this machine"
    deciding = found.finding.measures[0]
    verdict = found.said("holds, control refuted" if found.finding.passed else "DOES NOT PASS")
    if deciding.evidence is None:
        return f"{verdict}: {deciding.error}"
    plain = deciding.evidence.to_json()
    numbers = [f"{float(plain[word]):.5g}" for word in ("measured", "expected")]
    where = f"on {counted(len(found.finding.measures), 'seed')}"
    return f"{verdict} {where} (measured {numbers[0]}, expected {numbers[1]})"


def _heading(text: str) -> None:
    say()
    say(text, style="bold underline")


def _unwrapped(text: str) -> str:
    """Join the lines of each paragraph: the terminal has its own width."""
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n[ \t]*\n", text))


def cite(key: str) -> None:
    """Print BibTeX for a page: its references, and Principia itself.

    Args:
        key: Key of a page, such as connectionism/hopfield.
    """
    page = catalog.page(key, "cite")
    for reference in page.text.references:
        sys.stdout.write(reference.bibtex + "\n\n")
    sys.stdout.write(
        inspect.cleandoc(f"""
        @software{{principia,
          author = {{The Principia authors}},
          title = {{Principia: deep learning you can check}},
          version = {{{principia.__version__}}},
          note = {{page {page.key}: {page.title.rstrip(".")}}}
        }}""")
        + "\n"
    )


def doctor() -> int:
    """Tell versions, threads and which data sets are found; exit 1 if something is missing."""
    from principia.lab.data.files import folders
    from principia.lab.environment import cores, environment
    from principia.lab.storage import cache_folder

    rows = [(name, str(value)) for name, value in environment().items() if name != "threads"]
    rows.append(("cores", f"{cores()} (check runs one process a core, one thread each)"))
    pages = [page for chapter in catalog.chapters() for page in chapter.pages]
    claims = sum(len(page.claim_names) for page in pages)
    numbers = (len(catalog.chapters()), "chapter"), (len(pages), "page"), (claims, "claim")
    rows.append(("course", ", ".join(counted(*one) for one in numbers)))
    broken = 0
    for page in pages:
        try:
            page.load_all()
        except Exception as error:
            broken += 1
            rows.append((page.key, f"cannot be imported: {type(error).__name__}: {error}"))
    rows.append(("evidence kept in", str(cache_folder())))
    for folder in folders():
        inside = folder.iterdir() if folder.is_dir() else ()
        sets = sorted(one.name for one in inside if one.is_dir())
        rows.append((f"data in {folder}", ", ".join(sets) or "nothing"))
    table(("what", "found"), rows)
    return 1 if broken else 0

"""The static site: the whole course as HTML files that open without a server.

Pages, evidence and interactive figures are the ones of the server; what needs a process behind it
(turning knobs, experiments, the playground) is not there, and the commands for it are.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from principia.lab.course import catalog
from principia.lab.course.typeface import font_css
from principia.lab.evidence.claims import Finding
from principia.lab.evidence.kept import Kept
from principia.lab.figures import drawn
from principia.lab.params import UsageError
from principia.lab.web.pages.content import page_views, search_index
from principia.lab.web.pages.rendering import (
    STATIC,
    Place,
    errata_html,
    index_html,
    ledger_html,
    page_html,
    races_html,
)

__all__ = ["need_site_folder", "write_site"]

MARK = ".principia-site"  # stands in a folder that we wrote, and may write again
SCRIPTS = ("base.js", "evidence.js", "races.js", "theme.js", "thumbnails.js")


def need_site_folder(folder: Path) -> None:
    """Refuse a folder whose files are not ours, before the work is done."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"site: OUT must be a folder; {folder} is a file. Name another.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise UsageError(
            f"site: OUT must be a new folder, or one of an earlier site; {folder} holds other "
            "files. Name another."
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder.parent).close()
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"site: {folder} cannot be written: {reason}. Name another.") from error


def write_site(folder: Path, findings: Mapping[str, Finding]) -> int:
    """Write the site beside its place, then put it there at once; return the number of files.

    Args:
        folder: A new folder, or one of an earlier site, which is replaced.
        findings: Evidence that stands now, by the keys of claims; a claim without any is shown as
            not measured.
    """
    need_site_folder(folder)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        temporary.chmod(0o755)  # mkdtemp makes it private; a site is not
        for name, text in _files({key: Kept(one) for key, one in findings.items()}):
            path = temporary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        written = sum(path.is_file() for path in temporary.rglob("*"))
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return written


def _files(findings: Mapping[str, Kept]) -> Any:
    yield MARK, "Written by `principia site`, which may replace everything in this folder.\n"
    top = Place(live=False)
    yield "index.html", index_html(top, findings)
    yield "ledger.html", ledger_html(top)
    yield "races.html", races_html(top)
    yield "errata.html", errata_html(top, findings)
    for page in page_views():
        yield f"{page.key}.html", page_html(Place(live=False, depth=1), page.key, findings)
        if page.hero is not None:
            yield f"assets/heroes/{page.key.replace('/', '-')}.js", _recorded(page.key)
    yield "assets/search-index.js", search_index(top.page)
    yield "assets/plotly.min.js", get_plotlyjs()
    yield "assets/formulas.css", font_css()
    for path in STATIC.iterdir():
        if path.suffix in (".css", ".svg") or path.name in SCRIPTS:
            yield f"assets/{path.name}", path.read_text(encoding="utf-8")



def _recorded(key: str) -> str:
    """Record the hero of a page as a script, which browsers load also from the file system."""
    figure = json.dumps(drawn(catalog.page(key).hero().recording())).replace("</", "<\\/")
    return f"(globalThis.principiaHeroes ??= {{}})[{json.dumps(key)}] = {figure};\n"

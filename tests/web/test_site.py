"""The static site: no broken link, opens from the file system, is written whole or not at all."""

import html.parser
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import expect

from principia.lab.course import catalog
from principia.lab.course.fingerprint import EARLIER
from principia.lab.evidence.kept import Kept
from principia.lab.mutation.scores import Score
from principia.lab.params import UsageError
from principia.lab.web.pages import content, rendering
from principia.lab.web.pages import site as writing
from principia.lab.web.pages.rendering import Place, errata_html, page_html
from principia.lab.web.pages.site import write_site

CITED = ("doi.org", "arxiv.org")


CHOSEN = ("connectionism/hopfield", "regression/ridge")


@pytest.fixture(scope="module")
def site(tmp_path_factory, request):
    """The whole course, with the evidence of the first claims of two pages, and their heroes.

    The heroes of the others are recorded where their pages are tested; here, with --whole.
    """
    chosen, record = [], writing._recorded
    for key in CHOSEN:
        page = catalog.page(key)
        chosen += [page.claim(name).check([0]) for name in page.claim_names[:1]]
    folder = tmp_path_factory.mktemp("out") / "site"
    with pytest.MonkeyPatch.context() as patch:
        if not request.config.getoption("--whole"):
            patch.setattr(writing, "_recorded", lambda key: record(key) if key in CHOSEN else "")
        write_site(folder, {finding.key: finding for finding in chosen})
    return folder


@pytest.fixture
def small_course(monkeypatch):
    """Two pages are all that there are to write."""
    few = tuple(content.page_view(key) for key in CHOSEN)
    monkeypatch.setattr(writing, "page_views", lambda: few)


class Links(html.parser.HTMLParser):
    """Collects links, and what they can lead to."""

    def __init__(self, text):
        super().__init__()
        self.links, self.names = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and tag != "math":
                self.links.append(value)
            if name == "id":
                assert value not in self.names, f"two elements have the id {value}"
                self.names.add(value)


def test_no_link_is_broken(site):
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert len(pages) == 4 + sum(len(chapter.pages) for chapter in catalog.chapters())
    followed = 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.netloc in CITED:  # nothing is fetched from there; a reader may go
                assert parts.scheme == "https"
                continue
            assert (parts.scheme, parts.netloc, link[:1] == "/") == ("", "", False), link
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{path}: {link}"
            assert target.is_relative_to(site)
            if parts.fragment:
                assert unquote(parts.fragment) in pages[target].names, f"{path}: {link}"
            followed += 1
    claims = sum(len(page.claim_names) for each in catalog.chapters() for page in each.pages)
    assert followed > 2 * claims


def test_the_search_index_leads_somewhere(site):
    text = (site / "assets" / "search-index.js").read_text(encoding="utf-8")
    addresses = re.findall(r'"url": "([^"]+)"', text)
    names = {path: Links(path.read_text(encoding="utf-8")).names for path in site.rglob("*.html")}
    for one in addresses:
        path, _, anchor = one.partition("#")
        assert (site / path) in names, one
        assert not anchor or anchor in names[site / path], one
    claims = sum(len(page.claim_names) for each in catalog.chapters() for page in each.pages)
    assert len(addresses) > claims


def test_stale_evidence_is_not_green_on_a_page():
    page = catalog.page("connectionism/hopfield")
    name = page.claim_names[0]
    finding = page.claim(name).check([0])
    for stale in (False, True):
        shown = page_html(Place(), page.key, {f"{page.key}:{name}": Kept(finding, stale)})
        assert (f'<p class="verdict stale" role="status">{EARLIER}: holds</p>' in shown) == stale
        assert ('<p class="verdict holds"' not in shown) == stale
        assert (f"{EARLIER}: refuted, " in shown) == stale


def test_a_page_tells_which_planted_bugs_its_claims_do_not_notice(monkeypatch):
    page = catalog.page("connectionism/perceptron")
    bug = {"module": page.module, "function": "fit", "line": 7, "text": "a < b", "becomes": "b",
           "kind": "boundary", "old": "<", "new": "<=", "how": "", "by": ""}
    row = {"bugs": 40, "refutation": 30, "crash": 8, "tests": 0, "possible": 90, "seed": 0,
           "measured": "2026-11-19", "survivors": [bug]}
    equal = {**bug, "equivalent": "They are never <b>equal</b>."}
    for stale in (False, True):
        score = Score(page.key, row, (bug,), (equal,), stale)
        monkeypatch.setattr(rendering, "last_score", lambda page, score=score: score)
        for place in (Place(), Place(live=False, depth=1)):
            shown = page_html(place, page.key, {})
            assert "38 of 39 planted bugs are noticed; this one is not." in shown
            assert (f"{EARLIER}: 38 of 39" in shown) == stale
            assert ('<p class="verdict stale">38 of 39</p>' in shown) == stale
            assert '<del>a &lt; b</del>' in shown
            assert "perceptron.py, line 7, fit: They are never &lt;b&gt;equal&lt;/b&gt;." in shown
    monkeypatch.setattr(rendering, "last_score", lambda page: None)
    assert "principia mutate connectionism/perceptron" in page_html(Place(), page.key, {})

    def broken(page):
        raise UsageError("mutate: equivalents.json must list bugs.")

    monkeypatch.setattr(rendering, "last_score", broken)
    assert "not measured yet" in page_html(Place(), page.key, {})


def test_stale_evidence_decides_no_erratum():
    page = catalog.page("connectionism/perceptron")
    name = page.misprint_names[0]
    finding = page.claim(name).check([0])
    for stale in (False, True):
        known = {f"{page.key}:{name}": Kept(finding, stale)}
        shown = errata_html(Place(), known)
        assert (f"{EARLIER}: holds: " in shown, f"{EARLIER}: refuted: " in shown) == (stale, stale)


def test_from_the_file_system_figures_are_drawn_and_break_it_breaks(tab, site):
    tab.goto((site / "connectionism" / "hopfield.html").as_uri())
    card = tab.locator(".claim").first
    expect(card.locator(".verdict")).to_have_text("holds")
    card.scroll_into_view_if_needed()  # a figure is drawn when its card comes into view
    expect(card.locator(".figure .main-svg").first).to_be_visible()
    card.locator(".break").click()
    expect(card.locator(".verdict")).to_have_text("refuted")
    tab.locator("#search").fill("perceptron")
    tab.locator("#found a").first.click()
    expect(tab.locator("h1")).to_have_text("The perceptron")
    expect(tab.locator(".claim").first.locator(".verdict")).to_have_text("not measured yet")
    assert tab.complaints == []
    assert all(one.startswith("file://") for one in tab.asked)


def test_the_index_of_the_site_tells_what_was_measured(tab, site):
    tab.goto((site / "index.html").as_uri())
    assert tab.locator("#holding").inner_text() == "2"
    expect(tab.locator(".dot.holds[data-claim]")).to_have_count(2)


def test_a_folder_with_other_files_is_refused_and_stays_as_it_is(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="holds other files"):
        write_site(tmp_path / "mine", {})
    assert [one.name for one in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        write_site(tmp_path / "file", {})


@pytest.mark.usefixtures("small_course")
def test_an_earlier_site_is_replaced_and_a_failure_leaves_it(tmp_path, monkeypatch):
    out = tmp_path / "site"
    write_site(out, {})
    (out / "old.html").write_text("from an earlier version")
    write_site(out, {})
    assert not (out / "old.html").exists()

    def broken(*_):
        raise RuntimeError("in the middle")

    monkeypatch.setattr(writing, "ledger_html", broken)
    with pytest.raises(RuntimeError):
        write_site(out, {})
    assert (out / "ledger.html").is_file()
    assert [one.name for one in tmp_path.iterdir()] == ["site"]


def test_the_command_refuses_before_it_measures(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    done = subprocess.run(
        [sys.executable, "-m", "principia", "site", str(tmp_path)], capture_output=True, text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "site: OUT must be a new folder" in done.stderr
    assert Path(tmp_path / "notes.txt").read_text() == "mine"


def test_a_page_that_cannot_be_loaded_does_not_keep_the_others_away(monkeypatch, caplog):
    """It is left out of what is shown, and the log says why."""
    whole, real = content.page_views(), content.page_view

    def broken(key):
        if key == "regression/ridge":
            raise ImportError("no module named quux")
        return real(key)

    monkeypatch.setattr(content, "page_view", broken)
    left = content.page_views.__wrapped__()
    assert {one.key for one in whole} - {one.key for one in left} == {"regression/ridge"}
    assert "regression/ridge cannot be loaded: ImportError: no module named quux" in caplog.text

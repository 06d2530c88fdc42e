"""Formulas as people see them, in a Chromium on a machine that has one font without mathematics."""

import os
from pathlib import Path

import matplotlib
import pytest

import needs
from principia.lab.course import catalog
from principia.lab.course.formula import to_mathml
from principia.lab.course.typeface import RANGES
from principia.lab.runs.report import claims_report
from principia.lab.web.pages import site
from principia.lab.web.pages.content import page_view
from web.conftest import CHROMIUM
from web.doors import visiting

HOPFIELD = "connectionism/hopfield"  # its formula has erf(m/√(2αr))
PLAIN = Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"
FONTS = """<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}</dir><cachedir>{folder}/cache</cachedir></fontconfig>"""
# the overhang of a radical, and the widths of ≠ and of italic letters, in units of the font's size;
# `family` is the font of all formulas, if it is not the page's own
LOOKED = """async (family) => {
  await document.fonts.ready;
  const place = document.body.appendChild(document.createElement("div"));
  place.innerHTML = `<math style="font-size: 100px"><msqrt><mi>x</mi></msqrt><mo>≠</mo>
    <mi>α</mi><mo lspace="0" rspace="0" stretchy="false">∑</mo></math>`;
  if (family) place.querySelector("math").style.fontFamily = family;
  await document.fonts.ready;
  const wide = (one) => one.getBoundingClientRect().width / 100;
  const [root, x, ne, alpha, sum] =
    ["msqrt", "msqrt mi", "mo", "msqrt ~ mi", "mo ~ mo"].map((name) => place.querySelector(name));
  const found = {
    radical: wide(root) - wide(x), ne: wide(ne), alpha: wide(alpha), sum: wide(sum),
    formulas: [...document.querySelectorAll("msqrt")].map((one) =>
      one.getBoundingClientRect().width - one.firstElementChild.getBoundingClientRect().width),
    fonts: [...document.fonts].map((one) => `${one.family}: ${one.status}`),
  };
  place.remove();
  return found;
}"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Chromium where the system knows a single font, which has no table for mathematics."""
    from playwright.sync_api import sync_playwright

    folder = tmp_path_factory.mktemp("fonts")
    (folder / PLAIN.name).symlink_to(PLAIN)
    (folder / "fonts.conf").write_text(FONTS.format(folder=folder))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=needs.browser(driver), args=list(CHROMIUM),
            env={**os.environ, "FONTCONFIG_FILE": str(folder / "fonts.conf")},
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def addresses(tmp_path_factory, server):
    """The same page of the server and of the static site, and a report."""
    folder = tmp_path_factory.mktemp("written")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "page_views", lambda: (page_view(HOPFIELD),))
        site.write_site(folder / "site", {})
    finding = catalog.page(HOPFIELD).claim("phase_transition").check([0])
    text = claims_report("A report", [finding])
    formula = catalog.page(HOPFIELD).text.formulas[1]
    (folder / "report.html").write_text(
        text.replace("</main>", f"{to_mathml(formula, block=True)}</main>"), encoding="utf-8")
    return {
        "server": f"{server}/{HOPFIELD}",
        "site": (folder / "site" / f"{HOPFIELD}.html").as_uri(),
        "report": (folder / "report.html").as_uri(),
    }


@pytest.mark.parametrize("place", ["server", "site", "report"])
def test_radicals_are_drawn_and_signs_are_those_of_the_font(bare, server, addresses, place):
    context = visiting(bare, server)
    page = context.new_page()
    complaints = []
    page.on("console", lambda said: complaints.append(said.text))
    page.goto(addresses[place])
    own, without = page.evaluate(LOOKED), page.evaluate(LOOKED, "'DejaVu Sans'")
    context.close()
    assert own["fonts"] == ["Principia Math: loaded"]
    assert own["radical"] > 0.3
    assert own["formulas"]
    assert min(own["formulas"]) > 4  # pixels
    # without its own font ≠ and Greek letters are others, or none at all
    assert 0.5 < own["ne"] < 1.5
    for sign in ("ne", "alpha", "sum"):
        assert abs(own[sign] - without[sign]) > 0.005, sign
    assert complaints == []


def test_the_font_has_every_sign_of_the_course():
    """The file has what stands in RANGES, from which it was made."""
    ranges = [one.removeprefix("U+").split("-") for one in RANGES.split(",")]
    known = {code for first, last in ranges for code in range(int(first, 16), int(last, 16) + 1)}
    texts = [formula for chapter in catalog.chapters() for page in chapter.pages
             for formula in page.text.formulas]
    signs = {sign for formula in texts for sign in to_mathml(formula)}
    assert {sign for sign in signs if ord(sign) not in known} == set()

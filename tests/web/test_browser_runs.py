"""Experiments in a real Chromium: start, watch, cancel, resume, compare, read the report."""

import re

import pytest
from playwright.sync_api import expect

from web.doors import visiting

KEY, NAME = "networks/mlp", "hidden_300"


def start(tab, server, **knobs):
    tab.goto(f"{server}/{KEY}#run-{NAME}")
    card = tab.locator(f"#run-{NAME}")
    for name, value in knobs.items():
        card.locator(f"[name={name}]").fill(value)
    card.locator(".start").click()
    tab.wait_for_url(re.compile("/runs/networks-mlp"))
    return tab.url


def status(tab, *wanted, seconds=180):
    choice = re.compile("|".join(f"^{one}$" for one in wanted))
    expect(tab.locator("#run")).to_have_attribute("data-status", choice, timeout=1000 * seconds)


@pytest.fixture(scope="module")
def shared(chromium, server):
    """One visitor with a run that has ended: a visitor has one experiment at a time."""
    context = visiting(chromium, server, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(f"error: {error}"))
    page.on("console", lambda said: said.type == "error" and page.complaints.append(said.text))
    start(page, server, units="20", epochs="1")
    status(page, "reached", "missed")
    page.ended = page.url
    yield page
    context.close()


def test_an_experiment_streams_is_cancelled_and_ends_when_resumed(shared, server):
    tab = shared
    start(tab, server, epochs="50")
    status(tab, "running")
    expect(tab.locator("#run")).to_have_attribute("data-rows", re.compile("[1-9]"), timeout=90_000)
    expect(tab.locator("#curves .main-svg").first).to_be_visible(timeout=60_000)
    assert float(tab.locator("#progress").get_attribute("value") or 0) >= 0
    tab.locator("#cancel").click()
    status(tab, "interrupted")
    tab.locator("#resume").click()
    status(tab, "running", "reached", "missed")
    status(tab, "reached", "missed", seconds=300)
    expect(tab.locator("#numbers")).to_contain_text("digits accuracy")
    tab.locator("#figures").scroll_into_view_if_needed()
    expect(tab.locator("#figures .main-svg").first).to_be_visible(timeout=30_000)
    assert tab.complaints == []


def test_the_report_opens_and_cannot_touch_the_server(shared):
    tab = shared
    tab.goto(tab.ended)
    with tab.context.expect_page() as opened:
        tab.locator("#report").evaluate("(link) => { link.target = '_blank'; link.click(); }")
    report = opened.value
    report.wait_for_load_state()
    expect(report.locator("h1")).to_contain_text(KEY)
    expect(report.locator(".main-svg").first).to_be_visible()
    reached = report.evaluate("fetch('/api/runs').then(() => 'in').catch(() => 'out')")
    assert reached == "out"
    report.close()


def test_two_runs_are_compared(shared, server):
    tab = shared
    start(tab, server, units="30", epochs="1")
    status(tab, "reached", "missed")
    names = [address.rpartition("/")[2] for address in (tab.ended, tab.url)]
    tab.goto(f"{server}/runs")
    for name in names:
        tab.locator(f"input[name=compare][value={name}]").check()
    tab.get_by_role("button", name="Compare").click()
    expect(tab.locator("#compared .main-svg").first).to_be_visible(timeout=30_000)
    expect(tab.locator("#compared")).to_contain_text("units")
    assert "compare=" in tab.url
    tab.reload()
    expect(tab.locator("#compared .main-svg").first).to_be_visible(timeout=30_000)


def test_a_bad_knob_gets_the_sentence_of_the_terminal(tab, server):
    tab.goto(f"{server}/{KEY}#run-{NAME}")
    card = tab.locator(f"#run-{NAME}")
    card.locator("[name=units]").fill("5")
    card.locator(".start").click()
    sentence = f"{KEY}:{NAME}: units must be an integer in [10, 1000]; got 5."
    expect(card.locator(".problem")).to_have_text(sentence)


def test_parts_are_added_to_a_training(shared, server):
    """Fields of parts are part of the form: they reach the command, the run and the next form."""
    tab = shared
    tab.goto(f"{server}/{KEY}#run-{NAME}")
    card = tab.locator(f"#run-{NAME}")
    card.locator(".parts summary").click()
    card.locator("[name='max_norm.bound']").fill("-3")
    card.locator(".start").click()
    sentence = f"{KEY}:{NAME}: max_norm.bound must be in (0, inf), or none; got -3."
    expect(card.locator(".problem")).to_have_text(sentence)
    expect(card.locator(".field.wrong label")).to_have_text("max norm: bound")
    card.locator("[name='max_norm.bound']").fill("3")
    card.locator("[name='epochs']").fill("1")
    command = f"principia run {KEY}:{NAME} --set epochs=1 --set max_norm.bound=3"
    expect(card.locator(".command code")).to_have_text(command)
    card.locator(".start").click()
    tab.wait_for_url(re.compile("/runs/networks-mlp"))
    status(tab, "reached", "missed")
    expect(tab.locator("body")).to_contain_text("max_norm.bound")
    tab.get_by_role("link", name=re.compile("another like it")).click()
    expect(tab.locator(f"#run-{NAME} .parts")).to_have_attribute("open", "")
    expect(tab.locator(f"#run-{NAME} [name='max_norm.bound']")).to_have_value("3.0")

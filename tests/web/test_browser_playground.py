"""The playground in a real Chromium: draw, play, step back, upload, share."""

import re

import pytest
from playwright.sync_api import expect

from web.doors import visiting

PERCENT = re.compile(r"([\d.]+) %")


@pytest.fixture
def playground(tab, server):
    def go(query=""):
        tab.goto(f"{server}/playground{query}")
        ready(tab)
        return tab

    return go


def ready(tab):
    """Wait until the first frame is drawn."""
    expect(tab.locator("#now-step")).to_have_text(re.compile(r"^\d"), timeout=60_000)


def step_of(tab):
    return int(tab.locator("#now-step").inner_text().replace(",", ""))


def accuracy(tab):
    return float(PERCENT.search(tab.locator("#train-score").inner_text()).group(1))


def play_until(tab, good, frames=300):
    tab.locator("#speed").select_option("20")
    if tab.locator("#play").get_attribute("aria-label") == "Play":  # drawing plays by itself
        tab.locator("#play").click()
    for _ in range(frames):
        if good():
            break
        tab.wait_for_timeout(200)
    tab.locator("#play").click()
    expect(tab.locator("#play")).to_have_attribute("aria-label", "Play")
    tab.wait_for_timeout(500)


def picture(tab):
    """The plane as it is on the screen."""
    return tab.locator("#plane").evaluate("(canvas) => canvas.toDataURL()")


def test_the_network_separates_two_spirals_while_one_watches(playground):
    tab = playground("?data=spirals")
    before = picture(tab)
    assert accuracy(tab) < 90
    play_until(tab, lambda: accuracy(tab) >= 97)
    assert accuracy(tab) >= 97
    assert picture(tab) != before
    assert tab.locator("#layers canvas").count() >= 16
    assert tab.locator("#gradients tr").count() == 3
    label = tab.locator("#plane").get_attribute("aria-label")
    assert f"{step_of(tab)}" in label.replace(",", "")
    assert tab.complaints == []


def test_a_linear_model_cannot(playground):
    tab = playground("?page=regression/softmax&data=spirals")
    play_until(tab, lambda: step_of(tab) >= 400)
    assert accuracy(tab) < 80


def test_stepping_back_returns_to_the_same_picture(playground):
    tab = playground()
    tab.locator("#ten").click()
    expect(tab.locator("#now-step")).to_have_text("10")
    tab.wait_for_timeout(300)
    numbers, seen = tab.locator("#train-loss").inner_text(), picture(tab)
    tab.locator("#step").click()
    expect(tab.locator("#now-step")).to_have_text("11")
    tab.wait_for_timeout(300)
    assert picture(tab) != seen
    tab.locator("#back").click()
    expect(tab.locator("#now-step")).to_have_text("10")
    tab.wait_for_timeout(300)
    assert (tab.locator("#train-loss").inner_text(), picture(tab)) == (numbers, seen)
    tab.locator("#restart").click()
    expect(tab.locator("#now-step")).to_have_text("0")


def draw(tab, tool, places):
    tab.locator(f"#tool-{tool}").click()
    box = tab.locator("#plane").bounding_box()
    for x, y in places:
        tab.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])


def test_two_drawn_classes_are_learned_and_shared_by_the_address(tab, server, chromium):
    tab.goto(f"{server}/playground?data=drawn")
    expect(tab.locator("#message")).not_to_have_text("Loading …", timeout=60_000)
    draw(tab, 1, [(0.3 + 0.03 * i, 0.3 + 0.05 * (i % 3)) for i in range(8)])
    draw(tab, 2, [(0.5 + 0.04 * i, 0.7 + 0.05 * (i % 3)) for i in range(8)])
    expect(tab.locator("#train-score")).to_have_text(PERCENT, timeout=30_000)
    play_until(tab, lambda: accuracy(tab) == 100)
    assert accuracy(tab) == 100
    expect(tab).to_have_url(re.compile("step=|steps="))
    other = visiting(chromium, server, viewport={"width": 1280, "height": 900})
    page = other.new_page()
    page.goto(tab.url)
    ready(page)
    expect(page.locator("#now-step")).to_have_text(tab.locator("#now-step").inner_text())
    expect(page.locator("#train-loss")).to_have_text(tab.locator("#train-loss").inner_text())
    other.close()
    assert tab.complaints == []


def test_settings_are_in_the_address_and_survive_a_reload(playground):
    tab = playground()
    tab.locator("#data-form select").first.select_option("moons")
    expect(tab).to_have_url(re.compile("data=moons"))
    ready(tab)
    tab.locator("#knobs-form [name=activation]").select_option("relu")
    expect(tab).to_have_url(re.compile("knob.activation=relu"))
    tab.reload()
    ready(tab)
    assert tab.locator("#knobs-form [name=activation]").input_value() == "relu"
    assert tab.locator("#data-form select").first.input_value() == "moons"


def flowers(tmp_path):
    from sklearn.datasets import load_iris

    raw = load_iris()
    pairs = zip(raw.data, raw.target, strict=True)
    rows = [f"{row[2]},{row[3]},{raw.target_names[kind]}" for row, kind in pairs]
    path = tmp_path / "flowers.csv"
    path.write_text("\n".join(["length,width,species", *rows]))
    return path


def test_a_table_is_uploaded_and_learned(playground, tmp_path):
    tab = playground()
    tab.locator("#data-form select").first.select_option("table")
    tab.locator("#table-file").set_input_files(flowers(tmp_path))
    expect(tab.locator("#table-columns")).to_be_visible(timeout=30_000)
    for place, column in (("x", "length"), ("y", "width"), ("target", "species")):
        tab.locator(f"#table-{place}").select_option(column)
    expect(tab.locator("#legend")).to_contain_text("setosa", timeout=30_000)
    play_until(tab, lambda: accuracy(tab) >= 94)
    assert accuracy(tab) >= 94
    assert tab.complaints == []


def test_a_table_with_a_mistake_gets_a_sentence(playground):
    tab = playground()
    tab.locator("#data-form select").first.select_option("table")
    tab.locator("#table-text").fill("a,b,y\n1,2,x\n3,,z\n")
    expect(tab.locator("#table-problem")).to_be_visible(timeout=30_000)
    assert "row" in tab.locator("#table-problem").inner_text()
    assert "/tmp" not in tab.locator("#table-problem").inner_text()


def test_the_keyboard_plays_and_steps(playground):
    tab = playground()
    tab.locator("#plane").scroll_into_view_if_needed()
    tab.locator("h1").click()
    tab.keyboard.press("ArrowRight")
    expect(tab.locator("#now-step")).to_have_text("1")
    tab.keyboard.press("ArrowLeft")
    expect(tab.locator("#now-step")).to_have_text("0")
    tab.keyboard.press("Space")
    expect(tab.locator("#now-step")).not_to_have_text("0")
    tab.keyboard.press("Space")
    expect(tab.locator("#play")).to_have_attribute("aria-label", "Play")


def test_too_large_a_step_is_told(playground):
    tab = playground("?data=sine&optimizer=SGD&lr=1000")
    tab.locator("#speed").select_option("100")
    tab.locator("#play").click()
    expect(tab.locator("#message")).to_contain_text("diverged", timeout=30_000)
    tab.locator("#back").click()
    expect(tab.locator("#message")).not_to_contain_text("diverged")

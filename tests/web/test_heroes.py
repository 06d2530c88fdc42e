"""The moving picture of a page: from the server, in a real Chromium, and on the static site."""

import itertools
import re

import pytest
from playwright.sync_api import expect

HOPFIELD = "connectionism/hopfield"


def test_the_server_draws_it_once_or_as_a_recording(inside):
    still = inside.post(f"/api/heroes/{HOPFIELD}", json={"knobs": {"stored": "50"}}).json()
    assert not still["stale"]
    assert "frames" not in still["figure"]
    moving = inside.post(f"/api/heroes/{HOPFIELD}", json={"recorded": True}).json()
    assert len(moving["figure"]["frames"]) > 4


@pytest.mark.parametrize(("address", "body", "status", "sentence"), [
    (HOPFIELD, {"knobs": {"stored": "900"}}, 422, "stored must be an integer in [1, 60]; got 900."),
    (HOPFIELD, {"knobs": {"stord": "9"}}, 422, "there is no knob 'stord'"),
    ("connectionism/nothing", {}, 404, "connectionism/nothing"),
])
def test_the_server_refuses_in_a_sentence(inside, address, body, status, sentence):
    answer = inside.post(f"/api/heroes/{address}", json=body)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]


def hero_of(tab, server, key=HOPFIELD):
    tab.goto(f"{server}/{key}")
    hero = tab.locator("#hero")
    expect(hero.locator(".figure .main-svg").first).to_be_visible(timeout=60_000)
    return hero


def test_it_plays_by_itself_until_somebody_stops_it(tab, server):
    hero = hero_of(tab, server)
    button, moment = hero.locator(".play"), hero.locator("[name=time]")
    expect(button).to_have_text("Pause", timeout=60_000)
    first = moment.input_value()
    expect(moment).not_to_have_value(first)
    button.click()
    expect(button).to_have_text("Play")
    stopped = moment.input_value()
    tab.wait_for_timeout(500)
    assert moment.input_value() == stopped
    assert tab.complaints == []


def test_turning_a_knob_draws_it_anew(tab, server):
    hero = hero_of(tab, server)
    hero.locator(".play").click()
    figure = hero.locator(".figure")
    with tab.expect_response("**/api/heroes/**") as answered:
        hero.locator("[name=stored]").fill("50")
    assert answered.value.request.post_data_json["knobs"]["stored"] == "50"
    expect(figure).to_contain_text("50 patterns", timeout=60_000)
    hero.locator("[name=stored]").fill("500")
    expect(hero.locator(".problem")).to_contain_text("stored must be an integer in [1, 60]")
    hero.locator(".reset").click()
    expect(figure).to_contain_text("12 patterns", timeout=60_000)
    assert [one for one in tab.complaints if "422" not in one] == []


def test_titles_and_still_maps_stay_while_it_moves(tab, server):
    tab.emulate_media(reduced_motion="reduce")
    hero = hero_of(tab, server, "optimization/momentum")
    expect(hero.locator(".play")).to_be_enabled()
    figure = hero.locator(".figure")
    for moment in ("5", "20"):
        hero.locator("[name=time]").fill(moment)
        expect(figure.locator(".heatmaplayer image")).to_have_count(1)
        expect(figure).to_contain_text("the ball; in gray, without momentum")
    hero = hero_of(tab, server, "connectionism/perceptron")
    for moment in ("1", "3"):
        hero.locator("[name=mistakes]").fill(moment)
        expect(hero.locator(".figure")).to_contain_text(f"mistake {moment}")
    assert tab.complaints == []


def test_who_wants_no_motion_gets_none(tab, server):
    tab.emulate_media(reduced_motion="reduce")
    hero = hero_of(tab, server)
    expect(hero.locator(".play")).to_have_text("Play")
    hero.locator(".play").click()
    expect(hero.locator(".play")).to_have_text("Pause")


def test_on_a_phone_panels_stand_below_each_other_and_nothing_overflows(tab, server):
    tab.set_viewport_size({"width": 390, "height": 844})
    hero = hero_of(tab, server)
    panels = hero.locator(".figure .cartesianlayer > .subplot > .gridlayer")
    shown = [box for box in (one.bounding_box() for one in panels.all()) if box]
    assert all(one["x"] >= 0 and one["x"] + one["width"] <= 390 for one in shown)
    tops = sorted(one["y"] for one in shown)
    assert all(later - earlier > 60 for earlier, later in itertools.pairwise(tops))
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_index_has_thumbnails(tab, server):
    tab.goto(server)
    place = tab.locator(f"[data-hero='{HOPFIELD}']")
    place.scroll_into_view_if_needed()
    expect(place.locator("img")).to_be_visible(timeout=120_000)
    assert re.match("data:image/png|blob:", place.locator("img").get_attribute("src"))
    slow = ("willReadFrequently", "GPU stall")  # what drawing in space takes without a GPU
    assert [one for one in tab.complaints if not any(word in one for word in slow)] == []


def test_legends_titles_and_axes_do_not_overlap(tab, server):
    """At the width of a screen and of a phone, on a card whose figure has a legend."""
    for width in (1280, 390):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.goto(f"{server}/{HOPFIELD}#phase_transition")
        card = tab.locator("#phase_transition")
        expect(card.locator(".figure .legend").first).to_be_visible(timeout=60_000)
        words = card.locator(".figure").locator(".legend, .xtitle, .ytitle, .xaxislayer-above")
        boxes = [box for box in (one.bounding_box() for one in words.all()) if box and box["width"]]
        assert len(boxes) >= 3
        for place, one in enumerate(boxes):
            for other in boxes[:place]:
                apart = (
                    one["x"] >= other["x"] + other["width"] - 1
                    or other["x"] >= one["x"] + one["width"] - 1
                    or one["y"] >= other["y"] + other["height"] - 1
                    or other["y"] >= one["y"] + one["height"] - 1
                )
                assert apart, f"{one} overlaps {other} at {width} pixels"

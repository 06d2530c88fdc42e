"""What people see, in a real Chromium: pages, knobs, addresses, the theme and the keyboard."""

import functools
import re
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from choosing import in_sample
from principia.lab.course import catalog
from web.doors import visiting

KEYS = [page.key for chapter in catalog.chapters() for page in chapter.pages]
NAMED = ["", "ledger", "races", "errata", "runs", "playground"]
HOPFIELD = "connectionism/hopfield"
VISITED, LOOKED_AT = 8, 3  # of the pages, and of the pages where a person looks closely
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


def measured(card):
    """Wait until a card shows a measurement."""
    expect(card.locator(".result")).not_to_have_class(re.compile("busy"), timeout=60_000)
    expect(card.locator(".verdict")).to_have_text(re.compile("^(holds|refuted|undecided)$"))
    return card.locator(".verdict").inner_text()


def open_card(tab, server, claim, query=""):
    tab.goto(f"{server}/{HOPFIELD}{query}#{claim}")
    card = tab.locator(f"#{claim}")
    card.scroll_into_view_if_needed()
    return card


def answered_with(told, route):
    route.fulfill(json=told)


@pytest.fixture
def chosen(request):
    """Choose some of many addresses, others with each commit; all of them with --whole."""

    def choose(addresses, size):
        whole = request.config.getoption("--whole")
        return [one for one in addresses if whole or in_sample(one, addresses, size)]

    return choose


def test_every_page_loads_without_a_complaint_and_asks_no_other_host(tab, server, inside, chosen):
    """No error, no warning of the console, and nothing leaves the host."""
    one = inside.post(f"/api/claims/{HOPFIELD}/energy_never_rises", json={}).json()
    hero = inside.post(f"/api/heroes/{HOPFIELD}", json={"recorded": True}).json()
    for what, told in (("claims", one), ("heroes", hero)):  # what all are told here
        tab.route(f"**/api/{what}/**", functools.partial(answered_with, told))
    wrong = {}
    for address in (*NAMED, *chosen(KEYS, VISITED)):
        tab.goto(f"{server}/{address}")  # its scripts have run; nobody waits for measurements
        if tab.locator("h1").count() != 1 or tab.complaints:
            wrong[address] = list(tab.complaints)
            tab.complaints.clear()
    assert wrong == {}
    hosts = {urlsplit(one).netloc for one in tab.asked if not one.startswith(("data:", "blob:"))}
    assert hosts == {urlsplit(server).netloc}


def test_pages_show_every_claim_component_and_experiment(tab, server):
    for key in (HOPFIELD, "networks/mlp"):
        page = catalog.page(key)
        tab.goto(f"{server}/{key}")
        for name in (*page.claim_names, *(f"api-{one}" for one in page.exports)):
            expect(tab.locator(f"[id='{name}']")).to_have_count(1)
        for name in page.experiment_names:
            expect(tab.locator(f"#run-{name}")).to_have_count(1)
        assert tab.locator(".formula math").count() == len(page.text.formulas)


def test_races_show_their_ratios_and_curves(tab, server):
    tab.goto(f"{server}/races")
    race = tab.locator("#regression-ridge")
    race.scroll_into_view_if_needed()
    expect(race.locator(".figure .main-svg").first).to_be_visible()
    expect(race.locator("tbody tr")).to_have_count(4)
    assert "[" in race.locator("td.ratio").first.inner_text()  # with its interval
    assert tab.complaints == []


def test_dragging_a_hopfield_net_past_its_capacity_refutes_the_theorem(tab, server):
    """The verdict, the numbers, the figure and the address follow the slider."""
    card = open_card(tab, server, "phase_transition")
    assert measured(card) == "holds"
    expect(card.locator(".figure .main-svg").first).to_be_visible()
    expect(card.locator(".figure [data-title*='Share']")).to_have_count(0)  # it would upload
    numbers = card.locator(".numbers").inner_text()
    slider = card.locator(".field[data-name=load] input[type=range]")
    slider.focus()
    for _ in range(40):  # the keyboard drags, too: each key is a step of the slider
        slider.press("PageUp")
        if float(card.locator("[name=load]").input_value()) > 0.17:
            break
    expect(card.locator(".verdict")).to_have_text("refuted", timeout=60_000)
    assert card.locator(".numbers").inner_text() != numbers
    load = card.locator("[name=load]").input_value()
    assert f"phase_transition.load={load}" in tab.url
    command = f"principia check {HOPFIELD}:phase_transition --set load={load}"
    assert card.locator(".command code").inner_text() == command
    assert tab.complaints == []


def test_while_one_drags_the_last_request_wins(tab, server):
    card = open_card(tab, server, "phase_transition")
    measured(card)
    field = card.locator("[name=load]")
    for load in ("0.05", "0.2", "0.06", "0.21", "0.07", "0.22", "0.1"):
        field.fill(load)
        tab.wait_for_timeout(150)  # longer than the pause, so that each is sent
    expect(card.locator(".result")).not_to_have_class(re.compile("busy"), timeout=60_000)
    expect(card.locator(".verdict")).to_have_text("holds")
    assert "phase_transition.load=0.1" in tab.url


def test_break_it_refutes_and_mend_it_holds_again(tab, server):
    card = open_card(tab, server, "energy_never_rises")
    assert measured(card) == "holds"
    expect(card.locator(".misprint .decides")).not_to_have_text("not measured yet")
    button = card.locator(".break")
    button.click()
    expect(card.locator(".verdict")).to_have_text("refuted", timeout=60_000)
    expect(card.locator("[name=order]")).to_have_value("sync")
    expect(button).to_have_text("Mend it")
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    expect(card.locator(".verdict")).to_have_text("holds", timeout=60_000)
    assert "order" not in tab.url


def test_the_address_holds_the_state_through_a_reload_and_a_visit_by_others(tab, server):
    card = open_card(tab, server, "energy_never_rises")
    measured(card)
    card.locator("[name=nets]").fill("3")
    card.locator("[name=seed]").fill("2")
    expect(card.locator(".command code")).to_have_text(re.compile("--set nets=3 --seed 2"))
    tab.wait_for_url(re.compile(r"seed=2"))
    measured(card)
    numbers, address = card.locator(".numbers").inner_text(), tab.url
    for go in (tab.reload, lambda: tab.goto(address)):
        go()
        card.scroll_into_view_if_needed()
        measured(card)
        assert card.locator("[name=nets]").input_value() == "3"
        assert card.locator(".numbers").inner_text() == numbers


def test_a_bad_value_gets_the_sentence_of_the_terminal_under_its_form(tab, server):
    card = open_card(tab, server, "phase_transition")
    measured(card)
    card.locator("[name=load]").fill("3")
    sentence = f"{HOPFIELD}:phase_transition: load must be in [0.02, 0.25]; got 3."
    expect(card.locator(".problem")).to_have_text(sentence)
    expect(card.locator("[name=load]")).to_have_attribute("aria-invalid", "true")
    card.locator(".reset").click()
    expect(card.locator(".problem")).to_be_hidden()
    expect(card.locator(".verdict")).to_have_text("holds")


def test_errata_show_every_misprint_with_the_numbers_that_decide(tab, server):
    measured(open_card(tab, server, "energy_never_rises"))
    tab.goto(f"{server}/errata")
    pages = [page for chapter in catalog.chapters() for page in chapter.pages]
    expect(tab.locator("article")).to_have_count(sum(len(one.misprint_names) for one in pages))
    card = tab.locator("article", has_text="energy never rises")
    expect(card).to_contain_text("synchronously or asynchronously")
    expect(card).to_contain_text("holds")
    expect(card).to_contain_text("refuted")


def test_search_as_you_type_by_keyboard_alone(tab, server):
    tab.goto(server)
    tab.keyboard.press("/")
    expect(tab.locator("#search")).to_be_focused()
    tab.keyboard.type("hopfield capac")
    expect(tab.locator("#found li").first).to_contain_text(re.compile("capacity", re.IGNORECASE))
    tab.keyboard.press("ArrowDown")
    chosen = tab.locator("#found [aria-selected=true] a")
    expect(chosen).to_have_count(1)
    address = chosen.get_attribute("href")
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"{server}{address}")
    tab.keyboard.press("/")
    tab.keyboard.type("xyzzy nothing")
    expect(tab.locator("#found")).to_contain_text("Nothing has these words.")
    tab.keyboard.press("Escape")
    expect(tab.locator("#found")).to_be_hidden()


def test_the_index_tells_what_holds(tab, server):
    """A claim that was measured on its page shows on the index."""
    measured(open_card(tab, server, "energy_never_rises"))
    tab.goto(server)
    dot = tab.locator(f"[data-claim='{HOPFIELD}:energy_never_rises']")
    expect(dot).to_have_class(re.compile("holds"))
    assert int(tab.locator("#holding").inner_text()) >= 1
    tab.locator("#check-all").click()
    before = int(tab.locator("#unchecked").inner_text())
    expect(tab.locator("#unchecked")).not_to_have_text(str(before), timeout=60_000)
    tab.locator("#check-all").click()
    expect(tab.locator("#check-all")).to_have_text("Check what is not checked now")


def test_the_theme_is_kept_and_figures_follow_it(tab, server):
    card = open_card(tab, server, "energy_never_rises")
    measured(card)
    figure = card.locator(".figure")
    expect(figure).to_have_attribute("data-drawn", re.compile(r"\d"))
    before = int(figure.get_attribute("data-drawn"))
    tab.locator("#theme").click()
    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    expect(figure).not_to_have_attribute("data-drawn", str(before))
    tab.reload()
    expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    ink = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", ink)[:3])) < 60


@pytest.mark.sampled(4)
@pytest.mark.parametrize("address", [*NAMED, HOPFIELD, "networks/mlp", "gradients/backprop"])
def test_axe_finds_nothing_serious(chromium, server, address):
    context = visiting(chromium, server, bypass_csp=True)  # axe brings its script
    page = context.new_page()
    page.goto(f"{server}/{address}")
    for one in page.locator("#planted-bugs summary").all():
        one.click()
    serious = []
    for theme in ("light", "dark"):
        if theme == "dark":
            page.locator("#theme").click()
        assert page.locator("html").get_attribute("data-theme") == theme
        serious += [
            f"{theme}, {one['id']}: {node['html'][:200]}"
            for one in Axe().run(page).response["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]
    context.close()
    assert serious == []


def test_nothing_is_wider_than_a_phone_and_nothing_jumps(chromium, server, chosen):
    context = visiting(chromium, server, **PHONE)
    page = context.new_page()
    page.add_init_script(
        "globalThis.jumped = 0; new PerformanceObserver((list) => list.getEntries().forEach("
        "(one) => { if (!one.hadRecentInput) globalThis.jumped += one.value; }))"
        ".observe({ type: 'layout-shift', buffered: true });"
    )
    for address in chosen([*NAMED, HOPFIELD, "networks/mlp", "regression/lasso"], LOOKED_AT):
        page.goto(f"{server}/{address}", wait_until="networkidle")
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, (address, wide)
        assert page.evaluate("globalThis.jumped") < 0.1, address
    context.close()


def test_the_first_paint_waits_for_nothing_large(inside):
    """Only the theme, of some lines, is loaded before the page is drawn."""
    for address in ("", HOPFIELD, "playground"):
        text = inside.get(f"/{address}").text
        scripts = re.findall(r"<script[^>]*src=[^>]*>", text)
        blocking = [one for one in scripts if "defer" not in one and "module" not in one]
        assert len(scripts) > 1
        assert [re.findall(r'src="([^"]*)"', one)[0] for one in blocking] == ["/assets/theme.js"]
        assert len(inside.get("/assets/theme.js").content) < 1000
        assert "plotly" not in text

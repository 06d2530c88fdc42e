"""Heroes: a function of knobs becomes a picture, a recording, a file."""

import json
from typing import Annotated, Literal

import pytest

import needs
from commands import principia
from principia.lab.browser import screenshot
from principia.lab.course import catalog
from principia.lab.figures import draw, hero_figure
from principia.lab.heroes import MOST_FRAMES, hero
from principia.lab.params import Range, UsageError
from principia.lab.pictures import Plot, Series
from principia.lab.seeds import Seed

HOPFIELD = "connectionism/hopfield"


def ball(
    seed: Seed, *, time: Annotated[int, Range(0, 4)] = 2,
    height: Annotated[float, Range(1, 3)] = 1.0, width: Annotated[float, Range(0.01, 10)] = 1.0,
    side: Literal["left", "right"] = "left", heavy: bool = False,
) -> Plot:
    """A ball falls.

    It falls downwards.

    Args:
        time: When.
    """
    return Plot((Series("ball", [width], [height - time]),), x=f"{side}, {heavy}", y="height")


def test_a_hero_says_what_it_is():
    made = hero(moves="time")(ball)
    assert (made.name, made.statement) == ("ball", "A ball falls.")
    assert made.knobs["time"].help == "When."
    assert made.__doc__.startswith("A ball falls.")


@pytest.mark.parametrize(("moves", "path"), [
    ("time", (0, 1, 2, 3, 4)), ("side", ("left", "right")), ("heavy", (False, True)),
])
def test_the_moving_knob_goes_from_end_to_end(moves, path):
    made = hero(moves=moves)(ball)
    assert made.path() == path
    recording = made.recording(height=3.0)
    assert recording.parameter == moves
    assert recording.pictures == tuple(made.picture(height=3.0, **{moves: one}) for one in path)


def test_real_knobs_move_evenly_and_ratios_in_ratios():
    even = hero(moves="height", frames=5)(ball).path()
    assert even == (1.0, 1.5, 2.0, 2.5, 3.0)
    ratios = hero(moves="width", frames=4)(ball).path()
    assert ratios == (0.01, 0.1, 1.0, 10.0)
    assert len(hero(moves="height")(ball).path()) == MOST_FRAMES


def test_mistakes_get_a_sentence():
    with pytest.raises(UsageError, match="moves must be a knob of ball; got 'speed'"):
        hero(moves="speed")(ball)
    made = hero(moves="time")(ball)
    with pytest.raises(UsageError, match=r"height must be in \[1, 3\]; got 7"):
        made.picture(height=7)
    with pytest.raises(UsageError, match=r"there is no knob 'hight'\. Did you mean 'height'"):
        made.picture(hight=2)

    def nothing(seed: Seed, *, time: Annotated[int, Range(0, 4)] = 2) -> str:
        return "no picture"

    with pytest.raises(UsageError, match="its result must be a Plot or Panels; got 'no picture'"):
        hero(moves="time")(nothing).picture()

    def endless(seed: Seed, *, time: Annotated[float, Range(0)] = 2.0) -> Plot:
        return Plot(())

    with pytest.raises(UsageError, match="moves must be a knob with two ends"):
        hero(moves="time")(endless).path()


def test_the_sentence_stands_above_the_figure():
    figure = hero_figure(hero(moves="time")(ball))
    assert figure.layout.title.text == "A ball falls."
    assert len(figure.frames) == 5
    assert not hero_figure(hero(moves="time")(ball), recorded=False).frames


def test_a_notebook_plays_it():
    bundle = catalog.page(HOPFIELD).hero()._repr_mimebundle_()
    figure = bundle["application/vnd.plotly.v1+json"]
    assert len(figure["frames"]) > 4
    assert bundle["text/plain"] == f"<Hero {HOPFIELD}:valleys>"


def test_show_writes_one_that_plays(tmp_path):
    path = tmp_path / "valleys.html"
    ended = principia("show", HOPFIELD, "--hero", path, "--set", "stored=50")
    assert ended.returncode == 0, ended.stderr
    assert "valleys vanish" in ended.stdout
    text = path.read_text(encoding="utf-8")
    assert "addFrames" in text
    assert "50 patterns" in text
    assert '<script src="' not in text  # all of it is inside


def test_show_writes_a_still_one(tmp_path):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = needs.browser(driver)
    path = tmp_path / "valleys.png"
    ended = principia("show", HOPFIELD, "--hero", path, env={"PRINCIPIA_CHROMIUM": chromium})
    assert ended.returncode == 0, ended.stderr
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [one.name for one in tmp_path.iterdir()] == ["valleys.png"]


def test_without_a_browser_a_sentence_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PRINCIPIA_CHROMIUM", raising=False)
    ended = principia("show", HOPFIELD, "--hero", tmp_path / "x.png")
    assert ended.returncode == 2
    assert "a PNG file needs Chromium" in ended.stderr
    monkeypatch.setenv("PRINCIPIA_CHROMIUM", "/bin/false")
    with pytest.raises(UsageError, match="took no picture"):
        screenshot(tmp_path / "a.html", tmp_path / "a.png", width=10, height=10, owner="show")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("words", "sentence"), [
    (("--hero", "x.jpg"), "--hero must be a file that ends in .html or .png; got 'x.jpg'."),
    (("--hero", "x.html", "--set", "stored=900"), "stored must be an integer in [1, 60]; got 900."),
    (("--set", "stored=9"), "show: --set turns a knob of the moving picture."),
])
def test_show_refuses_what_it_cannot_do(words, sentence, tmp_path):
    ended = principia("show", HOPFIELD, *words, cwd=tmp_path)
    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert not list(tmp_path.iterdir())


def test_a_page_without_a_hero_says_so(tmp_path):
    pages = [one for chapter in catalog.chapters() for one in chapter.pages if not one.hero_name]
    if pages:
        with pytest.raises(UsageError, match="a page with a moving picture"):
            pages[0].hero()


def test_a_recording_is_json_that_plotly_takes():
    recording = catalog.page(HOPFIELD).hero().recording()
    assert len(draw(recording).frames) == len(recording.values)
    json.dumps(recording.to_json(), allow_nan=False)

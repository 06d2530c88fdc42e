"""Pictures: every kind of mark is drawn, comes back from JSON, and says what it is given."""

import base64
import io
import json
import pickle
import wave

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from PIL import Image as pillow
from scipy.integrate import trapezoid

from drawings import unpacked
from principia.lab.evidence import Evidence, at_most, equal, every
from principia.lab.figures import draw, drawn, finding_figure, observation_figure
from principia.lab.params import UsageError
from principia.lab.pictures import (
    Arrows,
    Cloud,
    Field,
    Frames,
    Graph,
    Histogram,
    Image,
    Label,
    Matrix,
    Panels,
    Plot,
    Regions,
    Rule,
    Series,
    Sound,
    Surface,
    Words,
    grid,
    picture_from_json,
    tree,
)

RNG = np.random.default_rng(0)
TIMES = np.linspace(-2, 2, 30)
X, Y = np.meshgrid(TIMES, TIMES)
WAVE = np.sin(np.arange(4000) * 0.3) * np.linspace(0, 1, 4000)
SENTENCE = "the quick brown fox jumps over the lazy dog and runs away from it all".split()  # noqa: SIM905
MARKS = {
    "series": Series("points", [1.0, 2.0], torch.tensor([1.0, 3.0]), error=[0.1, 0.2]),
    "gray image": Image(RNG.random((5, 7))),
    "colored image": Image(RNG.random((5, 7, 3)), place=(0, 0, 14, 10)),
    "heat": Field(TIMES, TIMES, X * Y, signed=True, scale=True),
    "contours": Field(TIMES, TIMES, X**2 + Y**2, style="contours"),
    "filled contours": Field(TIMES, TIMES, X**2 + Y**2, style="filled"),
    "classes": Field(TIMES, TIMES, (X > 0) + 2 * (Y > 0), style="classes"),
    "matrix": Matrix([[1.0, -2.0], [np.nan, 3.0]], ["a", "b"], ["c", "d"], written=True),
    "regions": Regions([[(0, 0), (1, 0), (0, 1)], [(1, 0), (1, 1), (0, 1)]]),
    "graph": Graph([(0, 0), (1, 1)], [(0, 1)], ["in", "out"], [-1, 1], [0.5], directed=True),
    "tree": tree([-1, 0, 0, 1]),
    "histogram": Histogram("draws", RNG.normal(size=500), bins=30),
    "cloud": Cloud("cloud", RNG.normal(size=(50, 3)), values=RNG.random(50)),
    "surface": Surface(TIMES, TIMES, np.sin(X) * Y),
    "arrows": Arrows([(0, 0), (1, 1)], [(1, 0), (1, 2)], "steps"),
    "label": Label(["here", "there"], [0, 1], [1, 0], size=[10, 20]),
    "rule": Rule("threshold", y=0.5),
    "words": Words(SENTENCE, RNG.random(len(SENTENCE)), width=20),
    "sound": Sound(WAVE, 8000, "chirp"),
}
every_mark = pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS.keys())
SPATIAL = (Cloud, Surface)


@every_mark
def test_every_mark_is_drawn_and_comes_back_from_json(mark):
    spatial = isinstance(mark, SPATIAL)
    more = Cloud("beside", [(0, 0, 1)]) if spatial else Series("beside", [0, 1], [0, 1])
    plot = Plot((mark, more), x="across", y="up", title="a mark")
    figure = draw(plot)  # Plotly refuses what it does not know
    assert len(figure.data) >= 2
    plain = json.dumps(plot.to_json(), allow_nan=False)
    back = picture_from_json(json.loads(plain))
    assert json.dumps(back.to_json()) == plain
    same = [one["type"] for one in drawn(back)["data"]]
    assert same == [one["type"] for one in drawn(plot)["data"]] == [one.type for one in figure.data]


@every_mark
def test_evidence_shows_any_mark(mark):
    found = at_most([1.0, 2.0], 3.0, why="for the test").drawn(mark, x="across", y="up")
    plain = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert Evidence.from_json(plain).to_json() == plain


@pytest.mark.parametrize("name", [name for name in MARKS if name not in ("series", "rule")])
def test_marks_move_on_axes_that_stand_still(name):
    ball = [Series("ball", [x], [x * x]) for x in (2.0, 1.0, -3.0)]
    stills = [Panels((Plot((MARKS[name],)), Plot((one,), x="x", y="y"))) for one in ball]
    figure = draw(Frames("time", (0, 1, 2), stills))
    (ball,) = {frame.traces for frame in figure.frames}  # what stands still does not travel again
    assert [figure.data[number].name for number in ball] == ["ball"]
    assert [frame.data[0].x for frame in figure.frames] == [(2,), (1,), (-3,)]
    others = {one.type for one in figure.data} - {"scatter"}
    assert figure.layout.meta["redraw"] == bool(others)  # a partial update would lose them
    assert [step.label for step in figure.layout.sliders[0].steps] == ["0", "1", "2"]
    low, high = figure.layout["xaxis2"].range
    assert low < -3
    assert high > 2


def test_frames_that_do_not_fit_are_refused():
    one, other = Plot((Series("a", [1], [1]),)), Plot((Label("a", 1, 1),))
    with pytest.raises(UsageError, match="same kinds of marks in each frame"):
        Frames("time", (0, 1), (one, other))
    with pytest.raises(UsageError, match="one length >= 1; got 1 and 2"):
        Frames("time", (0,), (one, one))
    with pytest.raises(UsageError, match="one plot or more"):
        Panels(())
    with pytest.raises(UsageError, match="one of x and y must be given"):
        Rule("nothing")
    with pytest.raises(UsageError, match="all in space or all on paper; got Series"):
        Plot((MARKS["cloud"], MARKS["series"]))


def test_the_first_row_of_an_image_and_of_a_matrix_is_above():
    pixels = np.array([[1.0, 2.0], [3.0, 4.0]])
    (shown,) = draw(Plot((Image(pixels),))).data
    heights = np.array([shown.y0 + k * shown.dy for k in range(2)])
    assert np.asarray(shown.z)[heights.argmax()].tolist() == [1.0, 2.0]
    colored = Image(np.stack([pixels / 4] * 3, axis=-1), place=(0, 0, 4, 4))
    figure = draw(Plot((colored,)))
    assert (figure.data[0].dy, figure.data[0].y0) == (2, 1)
    assert figure.layout.yaxis.range == (0, 4), "upwards, not as Plotly has images"
    file = io.BytesIO(base64.b64decode(figure.data[0].source.partition(",")[2]))
    assert np.asarray(pillow.open(file))[:, 0, 0].tolist() == [191, 64]  # the lowest row first
    (shown,) = draw(Plot((Matrix(pixels, ["first", "second"]),))).data
    assert list(shown.y) == ["second", "first"]
    assert list(draw(Plot((Matrix(pixels),))).data[0].y) == ["1", "0"]
    assert np.asarray(shown.z)[1].tolist() == [1.0, 2.0]


def test_a_histogram_is_a_density():
    edges, heights = MARKS["histogram"].densities()
    assert (heights * np.diff(edges)).sum() == pytest.approx(1)
    law = np.exp(-(TIMES**2) / 2) / np.sqrt(2 * np.pi)
    drawn_law = np.interp(TIMES, (edges[1:] + edges[:-1]) / 2, heights)
    assert abs(trapezoid(drawn_law - law, TIMES)) < 0.1
    (empty,) = draw(Plot((Histogram("none", []),))).data
    assert np.asarray(empty.y).tolist() == [0.0]


def test_parents_stand_above_the_middle_of_their_children():
    parents = [-1, 0, 0, 1, 1, 2]
    places = tree(parents).places
    for node, parent in enumerate(parents):
        if parent >= 0:
            below = [places[child, 0] for child, one in enumerate(parents) if one == parent]
            assert places[parent, 0] == pytest.approx(np.mean(below))
            assert places[parent, 1] == places[node, 1] + 1
    leaves = [places[node, 0] for node in (3, 4, 5)]
    assert leaves == sorted(set(leaves))
    for wrong, said in (([1, 0], "got a circle"), ([5], "the number of a node; got 5")):
        with pytest.raises(UsageError, match=said):
            tree(wrong)


def test_words_keep_their_order_and_their_weights():
    lines, weights = MARKS["words"].lines()
    assert " ".join(line.strip() for line in lines) == " ".join(SENTENCE)
    assert {len(line) for line in lines} == {20} == {row.size for row in weights}
    begins = [
        (row, column) for row, line in enumerate(lines) for column, letter in enumerate(line)
        if letter != " " and line[:column].endswith((" ", "")[column == 0])
    ]
    found = [weights[row][column] for row, column in begins]
    assert found == MARKS["words"].weights.tolist()


def test_a_sound_is_what_was_given():
    figure = draw(Plot((MARKS["sound"],), x="seconds", y="wave"))
    ((name, address),) = figure.layout.meta["sounds"]
    assert name == "chirp"
    with wave.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))) as heard:
        assert (heard.getframerate(), heard.getnchannels()) == (8000, 1)
        samples = np.frombuffer(heard.readframes(heard.getnframes()), "<i2") / 32767
    assert np.abs(samples - WAVE).max() < 1e-4
    assert np.max(figure.data[0].y) == pytest.approx(WAVE.max(), abs=1e-6)  # what is loud stays so


def test_polygons_keep_their_corners_and_colors():
    corners = [[(0, 0), (1, 0), (0, 1)], [(1, 0), (1, 1), (0, 1)], [(2, 2), (3, 2), (2, 3)]]
    figure = draw(Plot((Regions(corners, groups=[0, 1, 0]),)))
    shown = [one for one in figure.data if one.x]
    assert len(shown) == 2
    assert shown[0].fillcolor != shown[1].fillcolor
    assert list(shown[0].x) == [0, 1, 0, 0, None, 2, 3, 2, 2, None]


def test_edges_are_as_thick_as_their_weights_and_colored_by_sign():
    edges = [(0, 1), (1, 2), (0, 2)]
    figure = draw(Plot((Graph([(0, 0), (1, 0), (0, 1)], edges, weights=[4.0, -1.0, 0.0]),)))
    edges = [one for one in figure.data if one.mode == "lines" and len(one.x)]
    widths = {(one.line.color, one.line.width) for one in edges}
    assert widths == {("#dc2626", 5.0), ("#2563eb", 0.75)}  # and none of weight 0


def test_what_travels_packed_is_what_plotly_unpacks():
    values = np.linspace(0, 1, 100)
    packed = drawn(Plot((Histogram("h", RNG.random(500), bins=values),)))["data"][0]
    assert np.diff(unpacked(packed["x"])) == pytest.approx(0.0101, rel=0.01)
    figure = go.Figure(data=[packed])
    assert np.asarray(unpacked(figure.data[0].y)).size == 99


def test_axes_do_not_zoom_into_rounding():
    plot = Plot((Series("almost", [0, 1, 2], [1.0, 1 + 1e-13, 1 - 1e-13]),), x="x", y="loss")
    axis = draw(plot).layout.yaxis
    assert axis.range[0] <= 0.5 < 1.5 <= axis.range[1]
    assert axis.title.text == "loss (constant to 2e-13)"
    zero = draw(Plot((Series("zero", [0, 1], [0.0, 0.0]),), x="x", y="y"))
    assert zero.layout.yaxis.range == (-1, 1)
    tiny = Series("small", [0, 1], [1e-15, 3e-15])
    small = draw(Plot((tiny,), x="x", y="y", log="y")).layout.yaxis
    assert (small.type, small.exponentformat) == ("log", "power")


def test_words_on_an_axis_stay_words():
    bars = Series("sizes", ["1e-12", "2"], [1.0, 2.0], style="bars")
    figure = draw(Plot((bars,), x="tolerance", y="steps"))
    assert figure.layout.xaxis.type == "category"
    _, rule = draw(Plot((bars, Rule("at most", y=1.5)), x="tolerance", y="steps")).data
    assert list(rule.x) == ["1e-12", "2"]


def test_a_number_that_is_none_leaves_a_gap():
    line = Series("line", [0, float("nan"), 2], [1.0, float("inf"), float("nan")], style="line")
    figure = draw(Plot((line,), x="x", y="y"))
    assert (list(figure.data[0].x), list(figure.data[0].y)) == ([0, None, 2], [1, None, None])
    assert figure.layout.yaxis.type is None


def test_what_has_no_name_is_in_no_legend():
    marks = [Series(name, [0, 1], [k, 1]) for k, name in enumerate(("one", "", "two"))]
    figure = draw(Plot(marks, x="x", y="y"))
    assert [one.showlegend for one in figure.data] == [True, False, True]


def test_pictures_that_are_more_than_lines_are_drawn_anew():
    def moving(mark, titles=("", "")):
        stills = [Plot((mark(k),), x="x", y="y", title=titles[k]) for k in range(2)]
        return draw(Frames("time", (0, 1), stills)).layout.meta["redraw"]

    assert not moving(lambda k: Series("ball", [k], [k]))
    assert moving(lambda k: Series("ball", [k], [k]), ("before", "after"))
    assert moving(lambda k: Image(np.eye(3) * (k + 1)))
    still = Field(TIMES, TIMES, X * Y)  # which a partial update would lose
    both = [Plot((still, Series("ball", [k], [k])), x="x", y="y") for k in range(2)]
    figure = draw(Frames("time", (0, 1), both))
    assert figure.layout.meta["redraw"]
    assert [frame.traces for frame in figure.frames] == [(1,), (1,)]


def test_a_rule_crosses_the_whole_plot():
    marks = (Series("line", [-1.0, 3.0], [2.0, 5.0]), Rule("here", x=1.0), Rule("at most", y=4.0))
    _, upright, level = draw(Plot(marks, x="x", y="y")).data
    assert (list(upright.x), list(upright.y)) == ([1, 1], [2, 5])
    assert (list(level.x), list(level.y)) == ([-1, 3], [4, 4])
    assert "here" in upright.text


def test_panels_share_out_the_room():
    figure = draw(grid([RNG.random((4, 4)) for _ in range(5)], list("abcde"), columns=3))
    boxes = [(tuple(figure.layout[f"xaxis{k}"].domain), tuple(figure.layout[f"yaxis{k}"].domain))
             for k in ("", 2, 3, 4, 5)]
    for place, (across, up) in enumerate(boxes):
        for other, above in boxes[:place]:
            apart = across[0] >= other[1] or across[1] <= other[0]
            assert apart or up[1] <= above[0] or up[0] >= above[1], "two panels overlap"
    assert [one.text for one in figure.layout.annotations] == list("abcde")


def test_the_picture_that_was_declared_stands_for_all_parts():
    own = at_most([1.0, 2.0], 3.0, why="x").drawn(Series("a", [0, 1], [1, 2]), x="x", y="y")
    both = every({"plain": equal([1.0, 2.0], [1.0, 2.0], tol=0, why="x"), "own": own})
    assert both.plot == own.plot
    assert every({"plain": equal([1.0, 2.0], [1.0, 2.0], tol=0, why="x")}).plot.generic
    picture = Frames("t", (0, 1), (Plot(()), Plot(())))
    assert both.pictured(picture).plot is picture


def test_a_run_takes_pictures_as_figures():
    from principia.lab.runs import Run

    run, still = Run(), Plot((Series("a", [0, 1], [1, 2]),), x="x", y="y")
    run.figure("still", still)
    run.figure("moving", Frames("time", (0, 1), (still, still)))
    assert len(run.figures["still"].data) == 1
    assert len(run.figures["moving"].frames) == 2


def test_measure_and_control_move_together():
    from principia.lab.evidence import Finding, Observation

    def moving(shift):
        stills = [Plot((Series("ball", [k + shift], [k]),), x="x", y="y") for k in range(3)]
        return at_most(shift, 1.0, why="for the test").pictured(Frames("time", (0, 1, 2), stills))

    seen = [Observation(0, {}, moving(shift)) for shift in (0.0, 5.0)]
    figure = finding_figure(Finding("a/b", "c", (seen[0],), (seen[1],)))
    assert len(figure.frames) == 3
    assert {one.xaxis for one in figure.data} == {"x", "x2"}
    assert len(observation_figure(seen[0]).frames) == 3


@pytest.mark.parametrize("large", [torch.zeros(10**6, 2), np.zeros((10**6, 2))])
def test_a_series_keeps_no_more_than_it_draws(large):
    """A slice of a tensor would be sent with all of the tensor, and kept with it."""
    few = [large[k, 1] for k in range(50)]
    one = Series("few of many", large[:50, 0], few, error=large[:50, 1])
    assert len(pickle.dumps(one)) < 20_000
    large[0] = 7
    assert float(one.x[0]) == float(one.y[0]) == float(one.error[0]) == 0

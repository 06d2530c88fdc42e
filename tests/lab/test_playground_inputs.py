"""What comes to the playground from outside: taken right, or refused with a sentence."""

import json
import string
import tempfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from principia.lab.params import UsageError
from principia.lab.playground import Playground, Setup, choices, default_setup
from principia.lab.seeds import Seed

QUICK = settings(deadline=None, suppress_health_check=list(HealthCheck))


def table(csv, features=("a", "b"), target="c", **more):
    data = {"name": "table", "csv": csv, "features": list(features), "target": target}
    return {"data": data, **more}


def rows(count, cell=lambda i: "yes" if i % 3 else "no"):
    return "a,b,c\n" + "".join(f"{i},{i * i % 11},{cell(i)}\n" for i in range(count))


def shown(plain, steps=3):
    """Build a playground from JSON, as the web will, and look at it."""
    one = Playground(Setup.from_json(json.loads(json.dumps(plain))))
    one.advance(steps)
    frame = one.frame()
    json.dumps([frame, one.points()], allow_nan=False)
    return frame


def sentence(plain):
    with pytest.raises(UsageError) as caught:
        Playground(Setup.from_json(plain))
    text = str(caught.value)
    assert tempfile.gettempdir() not in text
    assert ".csv" not in text
    assert "\n" not in text
    return text


# Setups


@pytest.mark.parametrize(("plain", "said"), [
    ([], "Playground: the setup must be an object with names and values; got []."),
    ({"learning": 1}, "Playground: the setup has no field 'learning'."),
    ({"data": {"nam": "moons"}}, "Playground: data has no field 'nam'. Did you mean 'name'?"),
    ({"data": "moon"}, "Did you mean 'moons'?"),
    ({"data": "iris"}, "Playground: data must be one of 'moons'"),
    ({"data": 3}, "Playground: data must be an object with names and values; got 3."),
    ({"page": "networks/mpl"}, "Did you mean 'networks/mlp'?"),
    ({"page": "connectionism/hopfield"}, "Playground: page must be one of"),
    ({"page": "../../etc/passwd"}, "Playground: page must be one of"),
    ({"optimizer": "adam"}, "Did you mean 'Adam'?"),
    ({"optimizer": "LBFGS"}, "Playground: optimizer must be one of"),
    ({"lr": 0}, "Playground: lr must be in (0, 1000]; got 0."),
    ({"lr": "0.1"}, "Playground: lr must be in (0, 1000]; got '0.1'."),
    ({"lr": float("nan")}, "Playground: lr must be in (0, 1000]; got nan."),
    ({"batch_size": 2001}, "Playground: batch_size must be an integer in [1, 2000]; got 2001."),
    ({"batch_size": True}, "Playground: batch_size must be an integer in [1, 2000]; got True."),
    ({"strength": -1}, "Playground: strength must be in [0, 100]; got -1."),
    ({"seed": 2**32}, "Playground: seed must be an integer in [0, 4.29497e+09]; got 4294967296."),
    ({"initialization": "ones"}, "Playground: initialization must be one of 'as declared'"),
    ({"regularization": ["l2"]}, "Playground: regularization must be"),
    ({"knobs": [1]}, "Playground: knobs must be an object with names and values; got [1]."),
    ({"knobs": {"hiden": [4]}}, "networks/mlp: there is no knob 'hiden'. Did you mean 'hidden'?"),
    ({"knobs": {"hidden": [65]}}, "networks/mlp: hidden must be 1 to 6 values, each an integer in "
                                  "[1, 64]; got [65]."),
    ({"knobs": {"hidden": [4] * 7}}, "networks/mlp: hidden must be 1 to 6 values"),
    ({"knobs": {"activation": "rleu"}}, "Did you mean 'relu'?"),
    ({"knobs": {"epochs": 3}}, "networks/mlp: there is no knob 'epochs'."),
    ({"page": "networks/maxout", "knobs": {"hidden": [64, 64], "pieces": 64}},
     "Playground: networks/maxout must be a network of at most 200,000 parameters here; got "),
    ({"page": "regression/ridge"}, "Playground: regression/ridge learns regression; the data asks "
                                   "for classification. Choose another model, or other data."),
    ({"data": "sine", "page": "regression/softmax"}, "Playground: regression/softmax learns class"),
])
def test_a_wrong_setup_is_refused_with_a_sentence(plain, said):
    assert said in sentence(plain)


def test_a_setup_is_plain_data_and_back():
    drawn = {"name": "drawn", "points": [[i, i % 3, i % 2] for i in range(20)]}
    for plain in ({}, {"data": drawn, "knobs": {"hidden": "8,8"}}, table(rows(20), seed=7),
                  default_setup().to_json()):
        setup = Setup.from_json(plain)
        assert Setup.from_json(json.loads(json.dumps(setup.to_json()))) == setup
    assert Setup.from_json({"knobs": {"hidden": "8,8"}}).knobs == {"hidden": (8, 8)}


def test_the_form_has_the_domains_that_are_checked():
    for field in Setup.form():
        schema = field["schema"]
        assert getattr(Setup(), field["name"]) == field["default"]
        assert field["help"]
        beyond = {"minimum": -1, "exclusiveMinimum": 0, "maximum": 1}
        for end, step in beyond.items():
            if end in schema:
                assert "must be" in sentence({field["name"]: schema[end] + step})


def test_knobs_have_the_bounds_that_their_schema_says():
    hidden = choices().models["networks/mlp"].to_json()["tasks"]["classification"]["knobs"][0]
    assert (hidden["name"], hidden["default"]) == ("hidden", [64, 64])
    assert hidden["schema"]["maxItems"] == 6
    assert hidden["schema"]["items"]["maximum"] == 64
    assert shown({"knobs": {"hidden": [64] * 6}})["step"] == 3


leaves = (st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.integers()
          | st.text(max_size=5))
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.text(max_size=5), inner, max_size=3), max_leaves=8)


def some(names, **right):
    """Objects with the right names, some with the right values."""
    return st.fixed_dictionaries(
        {}, optional={name: anything | right.get(name, anything) for name in names})


points = st.lists(st.lists(st.floats(-9, 9) | st.integers(0, 3), min_size=2, max_size=3)
                  | anything, max_size=30)
csvs = st.text(alphabet="ab,\n0123.-e\"", max_size=200) | st.just(rows(20))
data = some(
    ["name", "points", "csv", "features", "target"],
    name=st.sampled_from(["drawn", "table", "moons", "sine"]), points=points, csv=csvs,
    features=st.lists(st.sampled_from("abc"), max_size=3), target=st.sampled_from("abc"))
setups = some(
    ["data", "page", "knobs", "optimizer", "lr", "batch_size", "initialization", "regularization",
     "strength", "seed"],
    data=data, page=st.sampled_from(["networks/mlp", "connectionism/delta_rule"]),
    knobs=st.fixed_dictionaries({}, optional={
        "hidden": anything | st.lists(st.integers(0, 70), max_size=8), "lr": anything,
        "activation": st.text() | st.just("gelu"), "phi": st.text() | st.just("tanh")}),
    optimizer=st.sampled_from(["Adam", "SGD"]), lr=st.floats(0, 1), batch_size=st.integers(0, 64),
    initialization=st.just("zeros"), regularization=st.just("l1"), strength=st.floats(0, 1),
    seed=st.integers(0, 9))


@settings(QUICK, max_examples=400)
@given(anything | setups)
def test_any_json_gives_a_playground_or_a_sentence(plain):
    try:
        one = Playground(Setup.from_json(plain))
    except UsageError:
        sentence(plain)
        return
    one.advance(1)
    json.dumps(one.frame(), allow_nan=False)


def test_deep_nesting_is_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for plain in ({"knobs": {"hidden": deep}}, {"lr": deep}, {"data": {"points": deep}}):
        assert "nested too deeply" in sentence(plain)
    while deep:  # or freeing it would recurse as deeply
        deep = deep[0]


# Drawings


def drawn(points):
    return {"data": {"name": "drawn", "points": points}}


@pytest.mark.parametrize(("points", "said"), [
    ([], "points must be at least 10; got 0. 10 more, please"),
    ([[0, 0, 0], [1, 1, 1], [2, 2, 1]], "points must be at least 10; got 3. 7 more, please"),
    ([[i, i, 1] for i in range(12)], "points must be of two classes or more; got 'one class'."),
    ([[i, 0, i % 2] for i in range(11)] + [[1, 2]], "all [x, value]; got"),
    ([[0, 0, 8]], "classes 0 to 7, or all [x, value]; got [[0, 0, 8]]. Row 1 is [0, 0, 8]."),
    ([[0, 0, 0], [0, 0, 0.5]], "Row 2 is [0, 0, 0.5]."),
    ([[0, 0, -1]], "Row 1 is"),
    ([[0, 0, True]], "Row 1 is"),
    ([[0, float("inf"), 1]], "Row 1 is [0, inf, 1]."),
    ([[0, 1e31, 1]], "Row 1 is [0, 1e+31, 1]."),
    ([["0", 0, 1]], "Row 1 is ['0', 0, 1]."),
    ([[0, 0, 0, 0]], "Row 1 is"),
    ([[0, 0, 0]] * 2001, "points must be at most 2000 rows"),
    ([[5, 5, i % 2] for i in range(20)], "at least one feature must vary"),
])
def test_a_wrong_drawing_is_refused(points, said):
    assert said in sentence(drawn(points))


def test_a_drawing_is_learned_with_few_points_of_many_classes():
    frame = shown(drawn([[i, i * i % 5, i % 8] for i in range(16)]))
    assert (frame["task"], frame["classes"]) == ("classification", list("01234567"))
    frame = shown(drawn([[i / 9, (i / 9) ** 2] for i in range(30)]))
    assert (frame["task"], frame["features"], frame["target"]) == ("regression", ["x"], "value")
    frame = shown(drawn([[i, 5, i % 2] for i in range(20)]))
    assert frame["features"] == ["x"]
    assert "Only x varies" in frame["note"]
    assert len(frame["curve"]["probabilities"]) == 2


def test_points_are_given_back_where_they_were_drawn():
    points = [[1000 + i, -3 + i * i % 5, i % 2] for i in range(40)]
    one = Playground(Setup.from_json(drawn(points)))
    found = one.points()
    assert len(found["test"]) == 8
    back = np.array(sorted(found["train"] + found["test"]))
    assert np.allclose(back, points, atol=1e-4)
    x0, x1, y0, y1 = one.frame()["bounds"]
    assert (x0, x1, y0, y1) == pytest.approx((1000 - 3.9, 1039 + 3.9, -3.4, 1.4), abs=1e-3)


# Tables


def test_a_table_with_texts_as_classes():
    frame = shown(table(rows(30)))
    assert frame["classes"] == ["no", "yes"]
    assert (frame["features"], frame["target"], frame["note"]) == (["a", "b"], "c", "")
    frame = shown(table(rows(30), features=["b"], target="c"))
    assert len(frame["curve"]["x"]) == 200
    assert np.allclose(np.sum(frame["curve"]["probabilities"], 0), 1)
    frame = shown(table(rows(30), features=["b"], target="a"))
    assert frame["task"] == "regression"
    assert shown(table(rows(60, lambda i: i % 3), page="regression/softmax"))["classes"] == [
        "0", "1", "2"]


@pytest.mark.parametrize(("plain", "said"), [
    (table(""), "Playground: csv must be given with data 'table'; got ''."),
    (table(rows(30), features=[]), "features must be given with data 'table'; got (). Choose one"),
    (table(rows(30), features=["a", "b", "c"]), "the names of at most 2 different columns"),
    (table(rows(30), features=["a", "a"]), "the names of at most 2 different columns"),
    (table(rows(30), target="a"), "target must be another column than the features; got 'a'."),
    (table(rows(30), target="d"), "Playground: column must be one of the table; got 'd'."),
    (table(rows(30), features=["c"], target="a"), "column 'c' must be numbers; got 'no'."),
    (table(rows(3)), "your table must be of at least 10 rows; got 3."),
    (table(rows(30, lambda i: "one")), "the target must be a column that varies; got 'one'."),
    (table(rows(30, lambda i: "" if i == 4 else "x")),
     "data: row 5, column 'c' of your table must have a value; got ''."),
    (table(rows(30, lambda i: "1e999")), "column 'c' of your table must be a finite number"),
    (table(rows(30, lambda i: f"{i}e300")), "column 'c' must be in [-1e+30, 1e+30]; got 1e+300."),
    (table(rows(40, lambda i: string.ascii_letters[i % 9])),
     "the target must be of at most 8 classes; got 9. Join some of them"),
    (table(rows(30, lambda i: f"name {i}")), "numbers, or few classes; got '30 texts'."),
    (table(rows(20_001)), "your table must be of at most 20000 rows; got 20001. Remove some."),
    (table("a,b,c\n1,2\n"), "data: line 2 of your table must have 3 cells like the header; got 2."),
    (table("1,2,3\n1,2,3\n"), "the first line of your table must name the columns"),
    (table("a,a,c\n1,2,3\n"), "your table must name its columns differently; got 'a' twice."),
    (table("a,b,c\n"), "your table must have a column and a row; it has none."),
    (table("a,b,c\n\ud800,1,2\n"), "your table must be text in UTF-8"),
    (table("a,b,c\n\0,1,2\n"), "your table must be text; got 'a zero byte'."),
    (table('a,b,c\n"1,2,3\n'), "your table is not a table of cells"),
    (table("x" * 2_000_001), "csv must be at most 2000000 characters; got 2000001."),
])
def test_a_wrong_table_is_refused(plain, said):
    assert said in sentence(plain)


def test_a_large_number_is_drawn_and_one_beyond_all_others_is_refused():
    frame = shown(table(rows(40).replace("\n7,", "\n7e20,")))
    assert frame["bounds"][1] > 7e20
    told = []
    for seed in range(40):  # whether it is a training row or a test row, the seed decides
        plain = table(rows(40).replace("\n7,", "\n7e29,"), seed=seed)
        try:
            Playground(Setup.from_json(plain)).frame()
        except UsageError:
            told.append(sentence(plain))
    assert 0 < len(told) < 40
    assert all("within 1e+09 standard deviations of the training rows" in one for one in told)


def test_a_target_of_any_size_is_learned():
    for factor in (1e-25, 1e28):
        cells = Seed(0).numpy().normal(size=60) * factor
        frame = shown(table(rows(60, lambda i, cells=cells: repr(float(cells[i])))))
        assert (frame["task"], frame["diverged"]) == ("regression", "")
        assert 0.1 * factor < frame["train_rmse"] < 10 * factor
        assert frame["range"][1] == pytest.approx(1.1 * cells.max() - 0.1 * cells.min(), rel=1e-5)


def test_a_long_table_is_thinned_by_the_seed_and_says_so():
    def used(seed):
        one = Playground(Setup.from_json(table(rows(5000), seed=seed)))
        assert one.note == "The seed has chosen 2000 of the 5000 rows of the table."
        assert one.frame()["note"] == one.note
        found = one.points()
        assert (len(found["train"]), len(found["test"])) == (1600, 400)
        return {round(row[0]) for row in found["train"] + found["test"]}

    assert used(1) == used(1)
    assert used(1) != used(2)
    assert used(1) <= set(range(5000))

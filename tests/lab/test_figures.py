"""Figures of runs: curves that can be read, confusions that add up."""

import numpy as np

from principia.lab.figures import confusion, curves, predicted


def history(epochs, **numbers):
    return [{"epoch": epoch + 1, "step": epoch, **numbers} for epoch in range(epochs)]


def test_curves_have_a_panel_for_each_number_and_a_label_for_each_training():
    figure = curves({
        "one": history(3, loss=0.5, validation_loss=0.6, validation_accuracy=0.9),
        "two": history(4, loss=0.4),
        "short": history(1, loss=9.0),
    })
    titles = [one.text for one in figure.layout.annotations]
    assert titles == ["loss (dotted: validation)", "accuracy (dotted: validation)"]
    assert [one.name for one in figure.data if one.showlegend] == ["one", "two"]
    dotted = {(one.name, one.xaxis) for one in figure.data if one.line.dash == "dot" and one.x}
    assert dotted == {("one", "x"), ("one", "x2")}
    assert all(9.0 not in one.y for one in figure.data)
    assert figure.layout.showlegend


def test_many_curves_have_no_legend_and_none_no_figure():
    assert not curves({str(k): history(2, loss=1.0) for k in range(20)}).layout.showlegend
    assert curves({"a": history(1, loss=1.0)}) is None
    assert curves({}) is None


def test_a_confusion_counts_every_answer_once():
    truth, found = [0, 0, 1, 2, 2, 2], [0, 1, 1, 2, 2, 0]
    figure = confusion(truth, found, ["a", "b", "c"])
    total = np.nansum([np.asarray(one.z, dtype=float) for one in figure.data], axis=0)
    assert total.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 2]]


def test_predictions_are_drawn_against_the_truth():
    points, line = predicted([1.0, 3.0], [1.5, 2.0], "price").data
    assert (list(points.x), list(points.y)) == ([1.0, 3.0], [1.5, 2.0])
    assert list(line.x) == list(line.y) == [1.0, 3.0]


def test_names_that_users_give_are_neither_html_nor_mathematics():
    name, written = "<b>$x$</b> &amp;", "&lt;b&gt;&#36;x&#36;&lt;/b&gt; &amp;amp;"
    drawn = predicted([0.0, 1.0], [0.0, 1.0], name)
    assert drawn.layout.xaxis.title.text == f"{written}, true"
    assert confusion([0, 1], [0, 1], [name, "b"]).data[0].x == (written, "b")

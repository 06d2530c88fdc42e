"""The laws of every domain, and what annotations and flags make of them."""

import math
from typing import Annotated, Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from principia.lab.params import (
    Bits,
    Choice,
    Each,
    Knob,
    Maybe,
    NonNegativeFloat,
    NonNegativeInt,
    Outside,
    PositiveFloat,
    PositiveInt,
    Range,
    SeedNumber,
    Signs,
    Switch,
    Text,
    UnitInterval,
    UsageError,
    check_params,
    checked,
    domain_of,
    knobs_of,
    settings,
)

ANNOTATIONS = [
    PositiveFloat, NonNegativeFloat, UnitInterval, PositiveInt, NonNegativeInt, SeedNumber, bool,
    int, float, str,
    Literal["a", "b"], Literal[1, 2], int | None, PositiveFloat | None, tuple[int, ...],
    tuple[UnitInterval, ...], Annotated[int, Range(20, 2000)],
    Annotated[float, Range(-1, 1, open="both")],
    Annotated[float, Range(-math.inf, 3)], Annotated[torch.Tensor, Signs], Annotated[object, Bits],
]


@pytest.mark.parametrize("annotation", ANNOTATIONS, ids=str)
def test_laws_of_a_domain(annotation):
    domain = domain_of(annotation)
    domain.accept(domain.good())
    assert domain.text
    with pytest.raises(Outside):
        domain.accept(domain.bad())
    knob = Knob("knob", domain)
    with pytest.raises(UsageError, match="Owner: knob must be "):
        knob.accept("Owner", domain.bad())


@pytest.mark.parametrize("annotation", ANNOTATIONS[:18], ids=str)
def test_what_is_typed_is_what_is_meant(annotation):
    domain = domain_of(annotation)
    good = domain.good()
    typed = ",".join(map(str, good)) if isinstance(good, tuple) else str(good)
    assert domain.parse(typed) == good
    assert domain.schema() is not None


@given(st.floats(), st.floats(-5, 5), st.floats(0.1, 5))
def test_a_range_takes_exactly_what_lies_inside(value, low, width):
    high = low + width
    closed, open_ = Range(low, high), Range(low, high, open="both")
    for domain, inside in ((closed, low <= value <= high), (open_, low < value < high)):
        if inside:
            assert domain.accept(value) == value
        else:
            with pytest.raises(Outside):
                domain.accept(value)


@given(st.integers(-(10**30), 10**30))
def test_integers_are_read_exactly(value):
    assert Range(kind=int).parse(str(value)) == value


@pytest.mark.parametrize(
    ("domain", "text", "value"),
    [
        (Range(kind=int), "1e3", 1000), (Range(), "1e-3", 0.001), (Switch(), "Yes", True),
        (Switch(), "off", False), (Maybe(Range(kind=int)), "none", None), (Text(), "x y", "x y"),
        (Each(Range(kind=int)), "3, 4", (3, 4)), (Choice((1, 2)), "2", 2),
    ],
)
def test_parsing(domain, text, value):
    assert domain.parse(text) == value


@pytest.mark.parametrize("text", ["1.5", "nan", "inf", "ten", "", "0x10", "1e400"])
def test_bad_integers_get_the_sentence(text):
    with pytest.raises(UsageError, match=r"^check: seeds must be an integer in \[1, inf\); got"):
        Knob("seeds", domain_of(PositiveInt)).parse("check", text)


def test_values_keep_their_kind():
    assert type(domain_of(PositiveInt).accept(np.int64(3))) is int
    assert type(domain_of(PositiveFloat).accept(3)) is float
    for wrong in (True, 3.0, "3", None, np.float64(3)):
        with pytest.raises(Outside):
            domain_of(PositiveInt).accept(wrong)


def test_a_close_word_is_suggested():
    knob = Knob("order", domain_of(Literal["async", "sync"]))
    with pytest.raises(UsageError) as caught:
        knob.accept("Hopfield", "asnyc")
    sentence = "Hopfield: order must be one of 'async', 'sync'; got 'asnyc'. Did you mean 'async'?"
    assert str(caught.value) == sentence


@checked
def build(
    patterns: Annotated[torch.Tensor, Signs], *, rate: UnitInterval = 0.5, name: object = None
):
    """Builds.

    Args:
        patterns: Stored.
        rate: How much
            of it.
    """
    return rate


def test_checked_functions_convert_refuse_and_suggest():
    signs = torch.tensor([1.0, -1.0])
    assert type(build(signs, rate=1)) is float
    with pytest.raises(UsageError, match=r"build: patterns must be an array of -1 and \+1 only"):
        build(torch.zeros(3))
    with pytest.raises(UsageError, match=r"build: there is no parameter 'rat'\. Did you mean"):
        build(signs, rat=0.1)
    with pytest.raises(TypeError, match="missing a required argument: 'patterns'"):
        build()


def test_a_knob_carries_help_default_and_schema():
    knob = knobs_of(build.__wrapped__)["rate"]
    assert knob.help == "How much of it."
    assert knob.schema() == {
        "type": "number", "minimum": 0, "maximum": 1, "description": "How much of it.",
        "default": 0.5,
    }


def test_a_constructor_is_documented_on_its_class():
    from principia.connectionism import Perceptron

    help_text = knobs_of(Perceptron.__init__)["max_epochs"].help
    assert help_text == "Passes over the data before giving up."


def test_settings_refuse_unknown_knobs():
    knobs = knobs_of(build.__wrapped__)
    assert settings("page:claim", knobs, {"rate": "0.25"}) == {"rate": 0.25}
    with pytest.raises(UsageError, match=r"page:claim: there is no knob 'rte'\. Did you"):
        settings("page:claim", knobs, {"rte": "1"})


def test_estimators_are_checked_by_their_annotations():
    from principia.connectionism import Perceptron

    check_params(Perceptron())
    with pytest.raises(UsageError, match="Perceptron: max_epochs must be an integer in"):
        check_params(Perceptron(max_epochs=0))

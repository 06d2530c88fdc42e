"""Annotations are looked at while the tests run: shapes, types, of functions in functions too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
import torch
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from principia.lab.evidence import at_most
from principia.networks import MLP
from typechecking import NESTED, annotated

if TYPE_CHECKING:
    from nowhere import Thing

Rows = Float[Tensor, "N D"]


def test_the_package_is_checked():
    with pytest.raises(BeartypeCallHintViolation):
        at_most(1, 2, why=3)
    with pytest.raises(TypeCheckError):
        MLP([2, 3])(torch.zeros(4, 2, dtype=torch.int64))


def test_shapes_of_arguments_agree_with_each_other_and_with_the_result():
    @annotated
    def added(one: Rows, other: Rows, turned: bool = False) -> list[Rows]:
        return [(one + other).mT if turned else one + other]

    x = torch.zeros(3, 2)
    assert added(x, x)[0].shape == (3, 2)
    for bad in (lambda: added(x, x.mT), lambda: added(x, x, turned=True), lambda: added(x, x, 2)):
        with pytest.raises(TypeCheckError):
            bad()


def test_types_are_checked_where_no_annotation_has_a_shape():
    @annotated
    def joined(parts: tuple[str, ...], scale: float = 1.0, unknown: Thing = None) -> str:
        return parts if scale < 0 else "".join(parts)

    @annotated
    def counted(n: int) -> Iterator[int]:
        yield from range(n)

    assert joined(("a", "b"), 2) == "ab"  # an int is a float
    assert list(counted(2)) == [0, 1]
    for bad in (lambda: joined("ab"), lambda: joined(("a",), -1), lambda: list(counted(1.0))):
        with pytest.raises(BeartypeCallHintViolation):
            bad()


def test_a_function_made_by_another_is_checked_each_time_it_is_made():
    def scaled(by: float) -> Callable[[float], float]:
        @annotated
        def times(x: float) -> float:
            """Multiply."""
            return x * by if x else None

        return times

    two, three = scaled(2.0), scaled(3.0)
    assert two.__wrapped__.__code__ in NESTED
    assert (two(2.0), three(2.0)) == (4.0, 6.0)
    assert (three.__name__, three.__doc__) == ("times", "Multiply.")
    for bad in ("x", 0.0):
        for times in (two, three):
            with pytest.raises(BeartypeCallHintViolation):
                times(bad)


def test_constructors_refuse_with_sentences_of_their_own():
    class Strict:
        @annotated
        def __init__(self, size: int) -> None:
            self.size = size

    assert Strict("large").size == "large"

r"""The tests: what no claim notices, perhaps they do; from a checkout of the source code only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from principia.lab.mutation.children import Pool
from principia.lab.mutation.planting import Ground

if TYPE_CHECKING:
    from principia.lab.mutation.hunt import Verdict

__all__ = ["ask_tests"]


def ask_tests(
    ground: Ground, found: dict[int, Verdict], pool: Pool, told: Callable[[Mapping[str, Any]], None]
) -> None:
    """Let the tests of a page look for the bugs that no claim has noticed."""
    raise NotImplementedError

r"""Draws some bugs of all that there are: every function gets its share, no kind dominates.

The same seed gives the same bugs, and more of them begin with the fewer.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from principia.lab.mutation.places import Bug

__all__ = ["chosen", "drawn"]


def chosen(
    bugs: Sequence[Bug], sources: Mapping[str, bytes], number: int, seed: int, owner: str = ""
) -> list[Bug]:
    """Draw bugs without replacement; those that compile to what is there, or were drawn, are none.

    Args:
        bugs: All that can be planted.
        sources: The sources, by module.
        number: How many, if there are so many.
        seed: Which ones.
        owner: Whose bugs they are, which others are drawn for than another's.
    """
    known = {module: {_essence(compile(body, module, "exec"))} for module, body in sources.items()}
    found: list[Bug] = []
    for one in drawn(bugs, random.Random(f"{owner} {seed}")):
        if len(found) == number:
            break
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # as of `is not 0`
                code = compile(one.planted(sources[one.module]), one.module, "exec")
        except SyntaxError:  # as of a name that is both global and local
            continue
        essence = _essence(code)
        if essence not in known[one.module]:
            known[one.module].add(essence)
            found.append(one)
    return found


def drawn(bugs: Sequence[Bug], rng: random.Random) -> Iterator[Bug]:
    """Yield all bugs in a random order of which every beginning is balanced."""
    left: dict[tuple[str, str], dict[str, list[Bug]]] = defaultdict(lambda: defaultdict(list))
    for one in rng.sample(bugs, len(bugs)):
        left[one.module, one.function][one.kind].append(one)
    sizes = {place: sum(map(len, kinds.values())) for place, kinds in left.items()}
    places = rng.sample(sorted(left), len(left))
    taken: Counter[Any] = Counter()
    lines: Counter[tuple[str, int]] = Counter()
    for _ in bugs:
        # as seats go to parties by their votes; by the root of them, so that the small get some
        place = max((one for one in places if left[one]),
                    key=lambda one: sizes[one] ** 0.5 / (1 + 2 * taken[one]))
        kinds = left[place]
        kind = min(kinds, key=lambda one: taken[one])
        one = min(kinds[kind], key=lambda bug: lines[bug.module, bug.line])
        kinds[kind].remove(one)
        if not kinds[kind]:
            del kinds[kind]
        taken.update([place, kind])
        lines[one.module, one.line] += 1
        yield one


def _essence(code: CodeType) -> tuple[Any, ...]:
    """Give what a code does, without the positions from which it comes."""
    constants = tuple(
        _essence(one) if isinstance(one, CodeType) else (type(one).__name__, repr(one))
        for one in code.co_consts
    )
    return (
        code.co_name, code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars,
        code.co_cellvars, code.co_argcount, code.co_kwonlyargcount, code.co_flags,
        getattr(code, "co_exceptiontable", b""),
    )

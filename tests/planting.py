"""Plants a bug in the components of a page and looks whether a claim catches it.

The source of the page is changed in one place and stands in for the page while its claims are read
again: they run the broken component, as users would, and the named one must not pass. A bug may
name the parts of the claim that it refutes: a part that guards the component, which no broken
hypothesis can refute, is shown able to fail in this way.
"""

import ast
import contextlib
import os
import sys
import types

from principia.lab.course.catalog import page
from principia.lab.course.rooms import room_module
from principia.lab.evidence import Claim, Control

SOUND = None  # the folder where all processes of a run keep which claims pass; see conftest.py


def passes_with_bug(key, old, new, claim, fast=False):
    """Check `claim` of a page in the source of whose components `old` is replaced by `new`.

    With `fast` it is the source of the fast form beside the page, `_page_fast.py`.
    """
    with claim_with_bug(key, old, new, claim, fast=fast) as broken:
        return passes(broken)


@contextlib.contextmanager
def claim_with_bug(key, old, new, claim, fast=False):
    """Give a claim that runs the components of its page with a bug, within the context."""
    original = page(key)
    original.load_all()  # so that nobody else first meets the page while it is broken
    parts = {original.module: original.path}
    if fast:
        chapter, _, name = original.module.rpartition(".")
        beside = f"_{name}_fast"
        parts = {f"{chapter}.{beside}": original.path.with_name(f"{beside}.py"), **parts}
    broken = next(iter(parts))
    sources = {module: path.read_text(encoding="utf-8") for module, path in parts.items()}
    assert sources[broken].count(old) == 1, f"{broken} must have {old!r} exactly once"
    sources[broken] = sources[broken].replace(old, new)
    whole = {module: sys.modules[module] for module in parts}
    claims_name = f"planted.{room_module(key.replace('/', '.'), 'claims')}"
    try:
        for module, path in parts.items():
            executed(module, path, sources[module])
        path = original.room("claims")
        module = executed(claims_name, path, path.read_text(encoding="utf-8"))
        claims = {one.name: one for one in vars(module).values() if isinstance(one, Claim)}
        yield claims[claim]
    finally:
        sys.modules.update(whole)
        sys.modules.pop(claims_name, None)


def passes(claim):
    """Check a claim on seed 0; where it does not hold, nobody asks its controls."""
    if claim.observe(0, {}).verdict != "holds":
        return False
    controls = (claim.observe(0, one.knobs).under(one) for one in claim.controls)
    return all(one.verdict == "refuted" and not one.spared for one in controls)


def executed(name, path, source):
    """Run a source as the module of a name, in the place of the one that has it."""
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(source, str(path), "exec"), vars(module))
    return module


def assert_caught(key, old, new, claim, fast=False, parts=()):
    """Assert that the claim passes on the page as it is, and does not with the bug.

    With `parts` the bug must refute each of these in the measure: it shows that they can fail. A
    group of parts stands for all that is in it.
    """
    assert passes_on_sound_page(key, claim), f"{key}:{claim} fails without any bug"
    if not parts:
        caught = not passes_with_bug(key, old, new, claim, fast=fast)
        assert caught, f"{key}:{claim} does not notice {old!r} -> {new!r}"
        return
    with claim_with_bug(key, old, new, claim, fast=fast) as broken:
        observation = broken.observe(0, {})
    assert observation.evidence, f"{key}:{claim} ends in {observation.error} before {parts}"
    leaves = dict(observation.evidence.leaves)
    for part in parts:
        named = Control({}, [part]).parts_of(observation.evidence)
        assert named, f"{key}:{claim} has no part {part!r}, but {list(leaves)}"
        for leaf in named:
            noticed = leaves[leaf].refuted
            assert noticed, f"{leaf!r} of {key}:{claim} does not notice {old!r} -> {new!r}"


def guarded(tests):
    """Find the parts that planted bugs of a test file name, as pairs of a claim and its part.

    They stand in the rows of `parametrize` over "claim" and "parts", as plain text.
    """
    if not tests.is_file():
        return set()
    found = set()
    for node in ast.walk(ast.parse(tests.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".parametrize")):
            continue
        with contextlib.suppress(ValueError):  # something else than plain text is no such table
            names, rows = map(ast.literal_eval, node.args[:2])
            if {"claim", "parts"} <= set(names):
                table = [dict(zip(names, row, strict=True)) for row in rows]
                found |= {(row["claim"], part) for row in table for part in row["parts"]}
    return found


def passes_on_sound_page(key, claim):
    """Check a claim once for all its bugs and all processes: the answer is kept."""
    kept = SOUND / f"{key.replace('/', '-')}-{claim}"
    if not kept.exists():
        remember_sound(key, claim, passes(page(key).claim(claim)))
    return kept.read_text() == "passes"


def remember_sound(key, claim, passed):
    """Keep whether a claim passes on its page as it is, on seed 0."""
    temporary = SOUND / f".{os.getpid()}"
    temporary.write_text("passes" if passed else "fails")
    temporary.rename(SOUND / f"{key.replace('/', '-')}-{claim}")

"""Plants a bug in the components of a page and looks whether a claim catches it.

The source of the page is changed in one place and stands in for the page while its claims are read
again: they run the broken component, as users would, and the named one must not pass.
"""

import os
import sys
import types

from principia.lab.course.catalog import page
from principia.lab.course.rooms import room_module
from principia.lab.evidence import Claim

SOUND = None  # the folder where all processes of a run keep which claims pass; see conftest.py


def passes_with_bug(key, old, new, claim, fast=False):
    """Check `claim` of a page in the source of whose components `old` is replaced by `new`.

    With `fast` it is the source of the fast form beside the page, `_page_fast.py`.
    """
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
        return passes(claims[claim])
    finally:
        sys.modules.update(whole)
        sys.modules.pop(claims_name, None)


def passes(claim):
    """Check a claim on seed 0; where it does not hold, nobody asks its control."""
    if claim.observe(0, {}).verdict != "holds":
        return False
    return claim.observe(0, claim.control).verdict == "refuted"


def executed(name, path, source):
    """Run a source as the module of a name, in the place of the one that has it."""
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(source, str(path), "exec"), vars(module))
    return module


def assert_caught(key, old, new, claim, fast=False):
    """Assert that the claim passes on the page as it is, and does not with the bug."""
    assert passes_on_sound_page(key, claim), f"{key}:{claim} fails without any bug"
    caught = not passes_with_bug(key, old, new, claim, fast=fast)
    assert caught, f"{key}:{claim} does not notice {old!r} -> {new!r}"


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

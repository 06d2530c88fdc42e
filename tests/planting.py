"""Plants a bug in the components of a page and looks whether a claim catches it.

The source of the page is changed in one place and stands in for the page while its claims are read
again: they run the broken component, as users would, and the named one must not pass.
"""

import functools
import sys
import types

from principia.lab.course.catalog import page
from principia.lab.course.rooms import room_module
from principia.lab.evidence import Claim


def finding_with_bug(key, old, new, claim, seed=0, fast=False):
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
        return claims[claim].check([seed])
    finally:
        sys.modules.update(whole)
        sys.modules.pop(claims_name, None)


def executed(name, path, source):
    """Run a source as the module of a name, in the place of the one that has it."""
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    exec(compile(source, str(path), "exec"), vars(module))
    return module


def assert_caught(key, old, new, claim, fast=False):
    """Assert that the claim passes on the page as it is, and does not with the bug."""
    assert _passes(key, claim), f"{key}:{claim} fails without any bug"
    finding = finding_with_bug(key, old, new, claim, fast=fast)
    assert not finding.passed, f"{key}:{claim} does not notice {old!r} -> {new!r}"


@functools.cache  # the same for all bugs that a claim must notice
def _passes(key, claim):
    return page(key).claim(claim).check([0]).passed

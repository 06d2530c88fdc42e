"""Plants a bug in a page and looks whether a claim catches it.

The page's source is changed in one place, loaded as a module of its own, and the named claim is
checked against it: the claim runs the broken component, and must not pass.
"""

import importlib.util
import sys

from principia.lab.catalog import page
from principia.lab.claims import Claim


def finding_with_bug(key, old, new, claim, seed=0):
    """Check `claim` of a page in whose source `old` is replaced by `new`."""
    original = page(key)
    source = original.path.read_text(encoding="utf-8")
    assert source.count(old) == 1, f"{key} must have {old!r} exactly once"
    name = f"planted.{key.replace('/', '.')}"
    spec = importlib.util.spec_from_loader(name, loader=None)
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(original.path)
    sys.modules[name] = module
    try:
        exec(compile(source.replace(old, new), str(original.path), "exec"), vars(module))
        claims = {one.name: one for one in vars(module).values() if isinstance(one, Claim)}
        return claims[claim].check([seed])
    finally:
        del sys.modules[name]


def assert_caught(key, old, new, claim):
    """Assert that the claim passes on the page as it is, and does not with the bug."""
    assert page(key).claim(claim).check([0]).passed, f"{key}:{claim} fails without any bug"
    finding = finding_with_bug(key, old, new, claim)
    assert not finding.passed, f"{key}:{claim} does not notice {old!r} -> {new!r}"

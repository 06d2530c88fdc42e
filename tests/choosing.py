"""Which tests run: all of them, a sample of the expensive ones, or what a change can break.

- `make test` takes a sample where a test says so: `@pytest.mark.sampled(12)` keeps twelve of its
  cases. Of the bugs that tests plant in a page it takes a third, and all where a file of the page
  has changed since a revision of git (--since, by default HEAD). Which ones is decided by a hash of
  the commit, so that other commits look at other cases, and a failure can be repeated.
- `make test-all` (--whole) takes everything.
- `make test-quick` (--quick) takes the lab, one page of each kind, and the pages whose files have
  changed since that revision, or that import what has changed.
"""

import functools
import hashlib
import inspect
import math
import subprocess
from pathlib import Path

import pytest
import torch
from sklearn.base import BaseEstimator

from principia.lab.course import catalog
from principia.lab.course.imports import module_of, needed
from principia.lab.course.rooms import ROOMS, page_key
from principia.lab.training import Callback

ROOT = Path(__file__).parents[1]
# slow tests of the lab by the beginning of their place, with the modules that they are about
SLOW = {
    "tests/web/": ("principia.lab.web",),
    "tests/faults/": ("principia.lab.data", "principia.lab.runs", "principia.lab.training"),
    "tests/cli/": ("principia.lab.cli", "principia.lab.runs"),
    "tests/lab/test_fingerprint.py": ("principia.lab.course",),
    "tests/lab/test_imports.py": ("principia.lab.course",),
    "tests/lab/test_models.py": ("principia.lab.runs",),
    "tests/lab/test_mutation.py": ("principia.lab.mutation",),
    "tests/lab/test_racing.py": ("principia.lab.racing",),
    "tests/contract/test_callbacks.py": ("principia.lab.training",),
    "tests/contract/test_makefile.py": (),
    "tests/contract/test_optimizers.py": ("principia.lab.training",),
    "tests/contract/test_races.py": ("principia.lab.racing",),
    "tests/contract/test_skeleton.py": ("principia.lab.course",),
}
PLANTED, FEWEST = 3, 4  # of the bugs that tests plant in a page, one in three; no fewer than four
KINDS = (torch.nn.Module, torch.optim.Optimizer, BaseEstimator, Callback)


def in_sample(name, names, size):
    """Whether a name is among those that this commit looks at more closely."""
    return name in sorted(names, key=_dice)[:size]


def sampled(items, touched=()):
    """Leave out the cases of sampled tests that this commit does not look at.

    Of the pages that somebody has touched, every planted bug is looked at.
    """
    groups = {}
    for item in items:
        if planted(item):
            if page_of(item) not in touched:
                groups.setdefault(item.path, []).append(item)
        elif item.get_closest_marker("sampled"):
            groups.setdefault(item.nodeid.split("[")[0], []).append(item)
    left_out = set()
    for name, group in groups.items():
        size = max(FEWEST, math.ceil(len(group) / PLANTED))
        if name != group[0].path:
            (size,) = group[0].get_closest_marker("sampled").args
        left_out.update(sorted(group, key=lambda item: _dice(item.nodeid))[size:])
    return [item for item in items if item not in left_out]


def planted(item):
    """Whether a test plants a bug in a page: it is a row of old and new source."""
    params = item.callspec.params if getattr(item, "callspec", None) else {}
    return {"old", "new"} <= params.keys()


def touched(since):
    """Name the pages that have a file of their own, or its tests, that differs from a revision."""
    return {_named(file) for file in _changed_if_known(since)} & _keys()


@functools.cache
def concerned_since(since):
    """Name the pages that have or need a file that differs from a revision."""
    return frozenset(concerned(files)) if (files := _changed_if_known(since)) else frozenset()


def _changed_if_known(since):
    try:
        return changed(since)
    except (OSError, pytest.UsageError):  # an archive of the sources
        return set()


def _named(file):
    """Name the page whose room, fast form or tests a file would be."""
    folder = file.parent.parent if file.parent.name in ROOMS else file.parent
    name = file.stem.removeprefix("test_").removeprefix("_").removesuffix("_fast")
    return f"{folder.name}/{name}"


def by_page(items):
    """Put the tests of the lab first, then those of each page together, its contract first.

    A page is then loaded by one process, which need not ask again what its claims give where no
    bug is planted. The lab goes first because its servers start once and wait much.
    """
    order = {page.key: place for place, page in enumerate(every_page(), start=1)}
    return sorted(items, key=lambda item: (order.get(_belongs_to(item), 0), planted(item)))


def _belongs_to(item):
    folder = item.path.parent
    of_pages = folder == ROOT / "tests/contract" or _named(item.path) in _keys()
    return page_of(item) if of_pages else None


def _dice(name):
    return hashlib.sha256(f"{_commit()} {name}".encode()).digest()


@functools.cache
def _commit():
    try:
        return _git("rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError):  # an archive of the sources
        return "no git here"


def _git(*words):
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def quick(items, since):
    """Keep the tests of the lab, of one page of each kind, and of what changed since a revision."""
    files = changed(since)
    pages = {*one_of_each_kind(), *concerned(files)}
    return [
        item for item in items
        if (page_of(item) in pages if page_of(item) else not left_out(item, files))
    ]


def changed(since):
    """Find the files that differ from a revision, with those that git does not know yet."""
    try:
        known = _git("diff", "--name-only", since, "--")
        new = _git("ls-files", "--others", "--exclude-standard")
    except subprocess.CalledProcessError:
        sentence = f"--since must be a revision of git; got {since}. Try git log."
        raise pytest.UsageError(sentence) from None
    return {ROOT / line for line in (known + new).splitlines()}


def concerned(files):
    """Name the pages that have or need a changed file; the lab's have tests of their own."""
    modules = {module_of(file) for file in files} - {None}
    course = {one for one in modules if not one.startswith("principia.lab")}
    return [page.key for page in every_page() if needed(page.modules) & course]


def one_of_each_kind():
    """Name the first page with a network, an optimizer, an estimator, a callback, a function."""
    found = {}
    for page in every_page():
        things = [one.thing for one in page.components() if inspect.isclass(one.thing)]
        kinds = [kind for kind in KINDS if any(issubclass(one, kind) for one in things)]
        for kind in kinds or [None]:
            found.setdefault(kind, page.key)
    return found.values()


def every_page():
    return [page for chapter in catalog.chapters() for page in chapter.pages]


def page_of(item):
    """Name the page that a test is about, if it is about one."""
    for value in (getattr(item, "callspec", None) and item.callspec.params.values()) or ():
        if isinstance(value, catalog.Page):
            return value.key
        if isinstance(value, str) and value.split(":")[0] in _keys():
            return value.split(":")[0]
    key = f"{item.path.parent.name}/{item.path.stem.removeprefix('test_')}"
    if item.path.is_relative_to(ROOT / "src"):
        key = page_key(module_of(item.path))
    return key if key in _keys() else None


@functools.cache
def _keys():
    return {page.key for page in every_page()}


def left_out(item, files):
    """Whether a test of the lab is slow, and about nothing that has changed."""
    place = item.path.relative_to(ROOT).as_posix()
    about = next((its for start, its in SLOW.items() if place.startswith(start)), None)
    if about is None or item.path in files:
        return False
    modules = [module for module in map(module_of, files) if module is not None]
    return not any(f"{module}.".startswith(f"{one}.") for module in modules for one in about)

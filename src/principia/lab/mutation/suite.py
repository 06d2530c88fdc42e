r"""The tests: what no claim notices, perhaps they do; from a checkout of the source code only.

Of a page these are the file with its own tests, the examples in its docstrings, and what every page
must fulfill. Two kinds are left out. Tests of claims, because the claims have been asked. And tests
that plant bugs themselves: they ask claims, too, and change the text of the page that they find in
its file, which is not the text that runs here; their failure would say nothing of this bug.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from principia.lab.mutation.children import Answer, Pool, Report, limit_cpu
from principia.lab.mutation.hunt import TESTS, Verdict, ending
from principia.lab.mutation.planting import Ground, planted
from principia.lab.mutation.sound import allowed, bring, brought
from principia.lab.params import UsageError

if TYPE_CHECKING:
    from principia.lab.course.catalog import Page
    from principia.lab.mutation.places import Bug

__all__ = ["Suite", "ask_tests"]

PATIENCE = 3600.0  # CPU seconds for tests that nobody has measured
CONTRACT = "tests/contract/test_pages.py"
CLAIM, PLANTED = "claim", "planted"  # what stands in the names of tests that are left out
ALL_PASS, NO_TESTS = 0, 5  # pytest's exit codes; any other says that something is wrong
# nothing is kept, the order is that of the file, and plugins may have been imported by pages
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly",
           "-W", "ignore::pytest.PytestAssertRewriteWarning")
MOST = 200  # letters of what a test said
LIBRARIES = {sysconfig.get_path(one) for one in ("stdlib", "platstdlib", "purelib", "platlib")}


@final
@dataclass(frozen=True)
class Suite:
    """The tests of a page: where its source code is checked out, and the files."""

    page: Page
    root: Path
    files: tuple[Path, ...]

    @classmethod
    def of(cls, page: Page) -> Suite:
        """Find the tests of a page beside its source code."""
        chapter = page.key.split("/")[0]
        for root in page.path.parents:
            if (root / "pyproject.toml").is_file() and (root / "tests").is_dir():
                beside = page.path.with_name(f"_{page.name}_fast.py")
                tests = (root / "tests" / chapter / f"test_{page.name}.py", page.path, beside,
                         root / CONTRACT)
                return cls(page, root, tuple(one for one in tests if one.is_file()))
        raise UsageError(
            f"mutate: --tests needs the tests, which stand in a checkout of the source code; "
            f"{page.key} is in {page.path.parent}. Leave it out, or clone the repository and "
            "install it with pip install --editable."
        )

    def is_about(self, item: Any) -> bool:
        """Tell whether a test is about the page, and says more than its claims have said."""
        name = item.name.split("[")[0]
        if item.path != self.root / CONTRACT:
            return PLANTED not in name
        given = item.callspec.params.values() if hasattr(item, "callspec") else ()
        ours = any(getattr(one, "key", None) == self.page.key for one in given)
        return ours and CLAIM not in name


def ask_tests(
    ground: Ground, found: dict[int, Verdict], pool: Pool, told: Callable[[Mapping[str, Any]], None]
) -> None:
    """Let the tests of a page look for the bugs that no claim has noticed.

    Args:
        ground: The page.
        found: What the claims say of each bug; what the tests notice is put in its place.
        pool: Runs the tests.
        told: Is told how far it is.
    """
    suite = Suite.of(ground.page)
    left = [place for place, verdict in found.items() if not verdict.by]
    if not left:
        return
    took: list[float] = []

    def sound(answer: Answer) -> None:
        last = answer.told[-1] if answer.told else {}
        if answer.ended != "done" or last.get("code") != ALL_PASS:
            said = _complaint(answer) or f"pytest ended with {last.get('code', answer.ended)}"
            if last.get("code") == NO_TESTS:
                said = f"there are none in {suite.root / 'tests'}"
            raise UsageError(
                f"mutate: the tests of {ground.page.key} do not pass without any bug; {said}. "
                "Mend them first, or leave out --tests."
            )
        bring(last["imported"])
        took.append(last["seconds"])

    def heard(place: int, answer: Answer) -> None:
        told({"done": ground.page.key})
        last = answer.told[-1] if answer.told else {}
        if answer.ended == "done" and last.get("code") in (ALL_PASS, NO_TESTS):
            return
        said = _complaint(answer) or f"pytest ended with {last.get('code', 'an error')}"
        how = said if answer.ended == "done" else ending(answer.ended)
        found[place] = replace(found[place], by=TESTS, how=how)

    with tempfile.TemporaryDirectory() as folder:
        pool.submit(lambda report: _test(suite, ground, None, f"{folder}/sound", PATIENCE, report),
                    PATIENCE, sound)
        pool.run()
        for place in left:
            bug, most = found[place].bug, allowed(took[0])
            pool.submit(
                lambda report, bug=bug, most=most, place=place: _test(
                    suite, ground, bug, f"{folder}/{place}", most, report),
                most, lambda answer, place=place: heard(place, answer),
            )
        pool.run()


def _complaint(answer: Answer) -> str:
    """Give what a test said that failed, or the error that ended the tests."""
    said = [told.get("failed") or told.get("error") for told in answer.told]
    return next((one for one in said if one), "")


def _test(
    suite: Suite, ground: Ground, bug: Bug | None, folder: str, seconds: float, report: Report
) -> None:
    """Run the tests with a bug; in a child."""
    before = set(sys.modules)
    try:
        import pytest
    except ImportError as error:
        raise UsageError(
            "mutate: --tests needs pytest, which is not installed. Install it with pip install "
            "--editable '.[dev]'."
        ) from error
    limit_cpu(seconds)
    began = os.times()
    os.chdir(suite.root)
    os.environ.pop("PYTEST_ADDOPTS", None)
    sys.dont_write_bytecode = True
    words = [*OPTIONS, f"--rootdir={suite.root}", f"--basetemp={folder}", *map(str, suite.files)]
    code = pytest.main(words, plugins=[_Plugin(suite, ground, bug, report)])
    ended = os.times()
    others = [name for name, file in brought(before).items()
              if any(Path(file).is_relative_to(one) for one in LIBRARIES)]
    report({"code": int(code), "seconds": sum(ended[:2]) - sum(began[:2]), "imported": others})


@final
class _Plugin:
    """Plants the bug once the tests have prepared imports, chooses tests, tells which one fails."""

    def __init__(self, suite: Suite, ground: Ground, bug: Bug | None, report: Report) -> None:
        self._suite, self._ground, self._bug, self._report = suite, ground, bug, report

    def pytest_configure(self) -> None:
        """Plant: every `conftest.py` at the top has been read, and no test."""
        planted(self._ground, self._bug)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Keep the tests that are about the page."""
        items[:] = [one for one in items if self._suite.is_about(one)]

    def pytest_collectreport(self, report: Any) -> None:
        """Tell of a file that cannot be read."""
        self.pytest_runtest_logreport(report)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Tell of a test that fails."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            lines = str(report.longrepr).strip().splitlines() or ["it fails"]
            said = getattr(crash, "message", "") or lines[-1]
            self._report({"failed": f"{report.nodeid}: {' '.join(said.split())}"[:MOST]})

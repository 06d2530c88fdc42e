"""What tests may need beyond Python, make and a compiler: a browser, large data sets.

Where it is missing, a test is skipped with a sentence that says how to get it, and the summary
counts how often. Where it is required (`--require=browser,data`; everything with CI=true) the test
fails with the same sentence.
"""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from principia.lab.data.files import MissingData

KINDS = ("browser", "data")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
REQUIRED = set()  # the kinds without which tests fail; conftest.py fills it in


def require(text):
    """Remember which kinds are required: their names with commas, or what CI says."""
    told = ",".join(KINDS) if text is None and os.environ.get("CI") else text or ""
    kinds = {kind.strip() for kind in told.split(",")} - {""}
    if unknown := kinds - {*KINDS}:
        raise pytest.UsageError(
            f"--require: kinds must be among {', '.join(KINDS)}; got {', '.join(sorted(unknown))}."
        )
    REQUIRED.update(kinds)


def lacking(kind, sentence):
    """End a test that cannot be done here: as skipped, or as failed if its kind is required."""
    (pytest.fail if kind in REQUIRED else pytest.skip)(f"no {kind}: {sentence}")


def browser(driver):
    """Find Chromium: the one that is named, the system's, or the one that Playwright brought."""
    named = os.environ.get("PRINCIPIA_CHROMIUM")
    system = filter(None, map(shutil.which, BROWSERS))
    for path in [named] if named else [*system, driver.chromium.executable_path]:
        if Path(path).is_file():
            return path
    return lacking("browser", "install Chromium by make browser, or name it in PRINCIPIA_CHROMIUM")


@contextmanager
def data():
    """Do what needs a data set that is not part of a package; tests never download it."""
    try:
        yield
    except MissingData as error:
        name = error.relative.split("/")[0]
        lacking("data", f"name a folder that has the data set {name} in PRINCIPIA_DATA")

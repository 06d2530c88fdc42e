"""A browser without a window, where this machine has one: it takes pictures of pages."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from principia.lab.params import UsageError
from principia.lab.storage import write_bytes

__all__ = ["screenshot"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "microsoft-edge")
QUIET = (
    "--headless", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--enable-unsafe-swiftshader",
)
SECONDS = 60  # more than any picture takes


def screenshot(page: Path, picture: Path, *, width: int, height: int, owner: str) -> None:
    """Write what a page looks like as a PNG file.

    Args:
        page: An HTML file.
        picture: The file to write.
        width: Of the window, in pixels.
        height: Of the window.
        owner: Who asks, for errors.
    """
    named = os.environ.get("PRINCIPIA_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise UsageError(
            f"{owner}: a PNG file needs Chromium, which is not on this machine. Install it (make "
            "browser does), or name a file that ends in .html."
        )
    with tempfile.TemporaryDirectory() as home:
        drawn = Path(home) / "drawn.png"
        root = hasattr(os, "geteuid") and os.geteuid() == 0  # whom Chromium refuses a sandbox
        command = [
            found, *QUIET, *(["--no-sandbox"] if root else []), f"--user-data-dir={home}/profile",
            f"--window-size={width},{height}", "--virtual-time-budget=10000",
            f"--screenshot={drawn}", page.resolve().as_uri(),
        ]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
            content = drawn.read_bytes()
        except (OSError, subprocess.SubprocessError) as error:
            raise UsageError(
                f"{owner}: {Path(found).name} took no picture: {type(error).__name__}. Name a file "
                "that ends in .html."
            ) from error
    write_bytes(picture, content)

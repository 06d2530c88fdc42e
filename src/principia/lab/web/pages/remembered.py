"""Evidence that was measured before on this machine, as long as it still speaks of this code."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from principia.lab.course.catalog import Page
from principia.lab.environment import environment
from principia.lab.evidence.claims import Finding
from principia.lab.storage import cache_folder

__all__ = ["remembered"]


def remembered(page: Page, claim: str) -> Finding | None:
    """Give the last finding of a claim; None if there is none, or if its page has changed since."""
    path = cache_folder() / "evidence" / page.key / f"{claim}.json"
    try:
        written = path.stat().st_mtime_ns
        changed = max(one.stat().st_mtime_ns for one in page.files)
    except OSError:
        return None
    return _read(path, written) if written > changed else None


@functools.lru_cache(maxsize=4096)
def _read(path: Path, written: int) -> Finding | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        finding = Finding.from_json(document["claims"][0])
        same = document["environment"] == environment()
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return finding if same else None

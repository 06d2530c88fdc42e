"""Kept findings: the last evidence of each claim on this machine, in the user's cache folder."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from principia.lab.environment import environment
from principia.lab.evidence.checking import to_json
from principia.lab.storage import cache_folder, write_text

if TYPE_CHECKING:
    from principia.lab.course.catalog import Page
    from principia.lab.evidence.claims import Finding

__all__ = ["fresh_finding", "last_finding", "remember"]


def remember(finding: Finding) -> None:
    """Keep a finding as the last evidence of its claim."""
    path = _path(finding.page, finding.claim)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, to_json([finding]))


def last_finding(page: str, claim: str) -> dict[str, Any] | None:
    """Read the last evidence of a claim; None if there is none, or none that can be read."""
    try:
        document = json.loads(_path(page, claim).read_text(encoding="utf-8"))
        return {**document["claims"][0], "environment": document["environment"]}
    except (OSError, ValueError, LookupError, TypeError):
        return None


def fresh_finding(page: Page, claim: str) -> Finding | None:
    """Give the last finding of a claim; None if there is none, or if its page has changed since."""
    path = _path(page.key, claim)
    try:
        written = path.stat().st_mtime_ns
        changed = max(file.stat().st_mtime_ns for file in page.files)
    except OSError:
        return None
    return _read(path, written) if written > changed else None


@functools.lru_cache(maxsize=4096)
def _read(path: Path, written: int) -> Finding | None:
    from principia.lab.evidence.claims import Finding

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        finding = Finding.from_json(document["claims"][0])
        same = document["environment"] == environment()
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return finding if same else None


def _path(page: str, claim: str) -> Path:
    return cache_folder() / "evidence" / page / f"{claim}.json"

"""Kept findings: the last evidence of each claim on this machine, in the user's cache folder.

Each is kept with the fingerprint of the code that measured it: once that code has changed, or the
versions that it ran with, it is stale, and whoever shows it says so.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from principia.lab.course.fingerprint import EARLIER, Sources, of_claims
from principia.lab.environment import environment
from principia.lab.evidence.checking import document
from principia.lab.storage import cache_folder, write_text

if TYPE_CHECKING:
    from principia.lab.course.catalog import Page
    from principia.lab.evidence.claims import Finding

__all__ = ["Kept", "fresh_finding", "last_finding", "remember"]


@final
@dataclass(frozen=True)
class Kept:
    """A finding, and whether it was measured on other code, or with other versions, than now."""

    finding: Finding
    stale: bool = False

    @property
    def state(self) -> str:
        """`stale`, `holds` or `fails`."""
        return "stale" if self.stale else "holds" if self.finding.passed else "fails"

    def said(self, words: str) -> str:
        """Put before some words that they are of an earlier version, where they are."""
        return f"{EARLIER}: {words}" if self.stale else words


def remember(finding: Finding) -> None:
    """Keep a finding as the last evidence of its claim."""
    path = _path(finding.page, finding.claim)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, _text(finding))


def _text(finding: Finding) -> str:
    plain = {**document([finding]), "code": finding.code}
    return json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False)


def last_finding(page: Page, claim: str, sources: Sources | None = None) -> Kept | None:
    """Give the last evidence of a claim; None if there is none, or none that can be read.

    Args:
        page: The page of the claim.
        claim: Its name.
        sources: The look at the sources that tells whether they have changed; by default a new one.
    """
    path = _path(page.key, claim)
    try:
        stat = path.stat()
    except OSError:
        return None
    found = _read(path, (stat.st_ino, stat.st_mtime_ns, stat.st_size))
    if found is None:
        return None
    finding, same_versions = found
    return Kept(finding, not same_versions or finding.code != of_claims(page, sources))


def fresh_finding(page: Page, claim: str, sources: Sources | None = None) -> Finding | None:
    """Give the last finding of a claim; None if there is none, or if it is stale."""
    found = last_finding(page, claim, sources)
    return None if found is None or found.stale else found.finding


@functools.lru_cache(maxsize=4096)
def _read(path: Path, written: Any) -> tuple[Finding, bool] | None:
    """Read a file once for each time that it was written: it is put there whole."""
    from principia.lab.evidence.claims import Finding

    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        finding = Finding.from_json({**plain["claims"][0], "code": plain.get("code", "")})
        return finding, plain["environment"] == environment()
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _path(page: str, claim: str) -> Path:
    return cache_folder() / "evidence" / page / f"{claim}.json"

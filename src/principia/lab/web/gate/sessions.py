"""Who a visitor is: what tokens open, and the sessions that the server signs.

The token of the owner is the one secret. The token of guests and the key that signs sessions are
derived from it, so that nothing is stored, and sessions outlive a server that is started again with
the same token.
"""

from __future__ import annotations

import base64
import hmac
import os
import re
import secrets
from typing import NamedTuple, final

from principia.lab.params import UsageError

__all__ = ["Keys", "Visitor", "token_of_owner"]

VARIABLE = "PRINCIPIA_TOKEN"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32,256}")  # 32 of these letters are 192 random bits
_SESSION = re.compile(r"([0-9a-f]{32})\.(owner|guest)\.([A-Za-z0-9_-]{32})")


class Visitor(NamedTuple):
    """Who asks: a session that the server gave out, and whether it has the owner's token.

    A visitor may end what the visitor began; the owner may end everything.
    """

    session: str
    owner: bool


def token_of_owner() -> str:
    """Take the token from the environment, where no list of processes shows it, or make one."""
    # worker processes inherit what stays there
    token = os.environ.pop(VARIABLE, "") or secrets.token_urlsafe(24)
    if not _TOKEN.fullmatch(token):
        raise UsageError(
            f"serve: {VARIABLE} must be 32 to 256 letters, digits, - and _; got {len(token)} "
            "characters. Leave it out, and the server makes one."
        )
    return token


@final
class Keys:
    """What opens the server: the token of its owner, and all that follows from it."""

    def __init__(self, token: str) -> None:
        self.owner, self._secret = token, token.encode()
        self.guest = self._signed("guests")

    def opens(self, token: str) -> str:
        """Name whose token this is, "owner" or "guest"; nothing if it is nobody's."""
        given = token.encode()
        if secrets.compare_digest(given, self._secret):
            return "owner"
        return "guest" if secrets.compare_digest(given, self.guest.encode()) else ""

    def session(self, *, owner: bool, name: str = "") -> str:
        """Write a session for a cookie: of this name, else a new one."""
        name, who = name or secrets.token_hex(16), "owner" if owner else "guest"
        return f"{name}.{who}.{self._signed(f'session {name} {who}')}"

    def visitor(self, session: str) -> Visitor | None:
        """Read a session; None unless it was signed here."""
        found = _SESSION.fullmatch(session)
        if found is None:
            return None
        name, who, signature = found.groups()
        if not secrets.compare_digest(signature, self._signed(f"session {name} {who}")):
            return None
        return Visitor(name, who == "owner")

    def _signed(self, text: str) -> str:
        digest = hmac.digest(self._secret, f"principia {text}".encode(), "sha256")
        return base64.urlsafe_b64encode(digest[:24]).decode()

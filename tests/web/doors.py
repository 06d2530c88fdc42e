"""The way into the servers of the tests: their token, for programs and for browsers."""

import os
from urllib.parse import urlsplit

import httpx

from principia.lab.web.gate.sessions import Keys

TOKEN = "the-right-token-of-all-the-tests"
BEARER = {"authorization": f"Bearer {TOKEN}"}
SERVE = ("-m", "principia", "serve", "--no-browser", "--allow-root", "--port", "0")


def environment(home):
    """What a server of the tests gets: folders of its own, and the token."""
    own = {"PRINCIPIA_CACHE": str(home / "cache"), "PRINCIPIA_TOKEN": TOKEN}
    return {**os.environ, **own, "PYTHONUNBUFFERED": "1"}


def root_of(line):
    """The address in what a server says, without the token."""
    return line.split()[-1].partition("?")[0].rstrip("/")


def program(server):
    """A client with the token of the owner, but no session."""
    return httpx.Client(base_url=server, headers=BEARER, timeout=60)


def visiting(chromium, server, **options):
    """A visitor's part of a browser, who has come in as the owner."""
    context = chromium.new_context(**options)
    name = f"principia_session_{urlsplit(server).port}"
    context.add_cookies([{"name": name, "value": Keys(TOKEN).session(owner=True), "url": server}])
    return context

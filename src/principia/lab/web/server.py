"""Opens the doors: a socket, a browser, and messages about both."""

from __future__ import annotations

import contextlib
import errno
import html
import os
import socket
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from principia.lab.params import UsageError, usage_error
from principia.lab.web.app import create_app
from principia.lab.web.gate.safety import Doors, Safety
from principia.lab.web.gate.sessions import token_of_owner
from principia.lab.web.gate.slow_clients import SETTINGS, PatientProtocol, raise_file_limit

__all__ = ["serve"]


def serve(
    *, host: str, port: int, names: tuple[str, ...], runs_dir: Path, data_dir: str | None,
    browser: bool, allow_root: bool, say: Callable[[str], None],
) -> None:
    """Serve the course until Ctrl-C.

    Args:
        host: Address to listen at.
        port: Port to listen at; 0 takes any free one.
        names: Further names under which the server is reached.
        runs_dir: Folder of the run folders.
        data_dir: Folder with the data sets.
        browser: Whether to open a browser.
        allow_root: Whether root may serve.
        say: Tells the user where it is.
    """
    if os.geteuid() == 0 and not allow_root:
        raise UsageError(
            "serve: the user must not be root, whose server could change everything here; got "
            "root. Serve as another user or, in a container that holds nothing else, add "
            "--allow-root."
        )
    token = token_of_owner()
    with _listening(host, port) as listener, contextlib.ExitStack() as stack:
        doors = Doors(host, listener.getsockname()[1], token, names)
        say("Loading the course …")
        app = create_app(runs_dir, data_dir=data_dir)
        raise_file_limit()
        settings = uvicorn.Config(
            Safety(app, doors), http=PatientProtocol, timeout_graceful_shutdown=3, **SETTINGS
        )
        say(f"The course is at {doors.url(token)}")
        say("Whoever has this address can start work on this machine, and end all work there.")
        if not doors.local:
            say(f"Guests come in at {doors.url(doors.keys.guest)}")
            say("They can start work, too, and end their own.")
        say("Ctrl-C stops it.")
        if browser:
            webbrowser.open(stack.enter_context(_leading_to(doors.url(token))))
        uvicorn.Server(settings).run([listener])


@contextlib.contextmanager
def _leading_to(address: str) -> Iterator[str]:
    """Write a page that leads a browser to an address, and give the page's own, while it is there.

    Every user of the machine sees how a browser was called, but only this user reads the page.
    """
    with tempfile.TemporaryDirectory(prefix="principia-") as folder:  # which is private
        page = Path(folder) / "open.html"
        page.touch(0o600)
        page.write_text(
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Principia</title>'
            f'<meta http-equiv="refresh" content="0;url={html.escape(address)}">'
            f'<p><a href="{html.escape(address)}">Open the course</a></p></html>\n'
        )
        yield page.as_uri()


def _listening(host: str, port: int) -> socket.socket:
    """Open the socket before anything is loaded, so that a taken port is told at once."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror:
        raise usage_error("serve", "--host", "an address of this machine", host) from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()  # so that nobody who is told the address is refused before it is served
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"serve: --port must be free; {port} is in use. Try --port {port + 1}."
            ) from None
        reason = error.strerror or error
        raise UsageError(f"serve: {host}, port {port} cannot be opened: {reason}.") from None
    return listener

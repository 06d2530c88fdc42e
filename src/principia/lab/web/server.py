"""Opens the doors: a socket, a browser, and messages about both."""

from __future__ import annotations

import errno
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from principia.lab.params import UsageError, usage_error
from principia.lab.web.app import create_app
from principia.lab.web.gate.safety import Doors, Safety, is_loopback
from principia.lab.web.gate.slow_clients import SETTINGS, PatientProtocol, raise_file_limit

__all__ = ["serve"]


def serve(
    *, host: str, port: int, names: tuple[str, ...], runs_dir: Path, data_dir: str | None,
    browser: bool, say: Callable[[str], None],
) -> None:
    """Serve the course until Ctrl-C.

    Args:
        host: Address to listen at.
        port: Port to listen at; 0 takes any free one.
        names: Further names under which the server is reached.
        runs_dir: Folder of the run folders.
        data_dir: Folder with the data sets.
        browser: Whether to open a browser.
        say: Tells the user where it is.
    """
    with _listening(host, port) as listener:
        port = listener.getsockname()[1]
        doors = Doors(host, port) if is_loopback(host) else Doors.locked(host, port, names)
        say("Loading the course …")
        app = create_app(runs_dir, data_dir=data_dir)
        raise_file_limit()
        settings = uvicorn.Config(
            Safety(app, doors), http=PatientProtocol, timeout_graceful_shutdown=3, **SETTINGS
        )
        say(f"The course is at {doors.url()}")
        if doors.token:
            say("Whoever has this address can start work on this machine.")
        say("Ctrl-C stops it.")
        if browser:
            webbrowser.open(doors.url())
        uvicorn.Server(settings).run([listener])


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
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(
                f"serve: --port must be free; {port} is in use. Try --port {port + 1}."
            ) from None
        reason = error.strerror or error
        raise UsageError(f"serve: {host}, port {port} cannot be opened: {reason}.") from None
    return listener

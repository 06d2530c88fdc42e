"""A real server in a process of its own, and a real browser."""

import subprocess
import sys
import threading

import pytest

import needs
from web.doors import SERVE, environment, program, root_of, visiting

CHROMIUM = (
    "--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of `principia serve`, started as a user would, with folders of its own."""
    home = tmp_path_factory.mktemp("server")
    process = subprocess.Popen(
        [sys.executable, *SERVE], cwd=home, env=environment(home), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("The course is at "):
            break
    else:
        pytest.fail(f"principia serve ended: {''.join(said)}")
    address = root_of(said.pop())
    said.clear()
    reader = threading.Thread(target=said.extend, args=(process.stdout,), daemon=True)
    reader.start()
    yield address
    ended = process.poll()
    process.terminate()
    code = process.wait(30)
    reader.join()
    process.stdout.close()
    rest = "".join(said)
    assert ended is None, f"the server ended by itself with {ended}: {rest}"
    assert code in (0, -15, 130), rest
    assert "Traceback" not in rest, rest


@pytest.fixture(scope="module")
def inside(server):
    """A program that has the token of the server."""
    with program(server) as client:
        yield client


@pytest.fixture(scope="module")  # while it is open, no other test can run an event loop
def chromium():
    """Chromium, driven by Playwright."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=30_000)  # the machine may be busy; nobody waits where all is well
    with sync_playwright() as driver:
        found = needs.browser(driver)
        browser = driver.chromium.launch(executable_path=found, args=list(CHROMIUM))
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium, server, request):
    """A page in a context of its own, which collects what must not happen."""
    options = getattr(request, "param", {})
    context = visiting(chromium, server, viewport={"width": 1280, "height": 900}, **options)
    page = context.new_page()
    page.complaints = []
    page.asked = []
    page.on("pageerror", lambda error: page.complaints.append(f"error: {error}"))
    page.on(
        "console",
        lambda said: said.type in ("error", "warning") and page.complaints.append(said.text),
    )
    page.on("request", lambda one: page.asked.append(one.url))
    yield page
    context.close()

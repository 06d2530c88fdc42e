"""What the end of a run of the tests tells: how many seconds each folder has taken.

The slowest tests are told by pytest itself (--durations). Growth is seen where it happens. What a
sample has left out is told, too.
"""

from collections import Counter
from pathlib import PurePosixPath

import pytest

LEFT_OUT = pytest.StashKey()  # how many cases of sampled tests this commit does not look at
BEGUN = pytest.StashKey()  # how many experiments only began


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # a worker, whose words nobody sees
        stash = session.config.stash
        session.config.workeroutput["sampled"] = stash.get(LEFT_OUT, 0), stash.get(BEGUN, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    left_out, begun = getattr(node, "workeroutput", {}).get("sampled", (0, 0))
    stash = node.config.stash
    stash[LEFT_OUT] = max(left_out, stash.get(LEFT_OUT, 0))  # which is the same for all workers
    stash[BEGUN] = begun + stash.get(BEGUN, 0)


def place_of(nodeid):
    """Name the row of a test: its folder, or its file where a folder has many subjects."""
    path = PurePosixPath(nodeid.split("::")[0])
    if path.parts[:2] == ("tests", "contract"):
        return str(path)
    return str(PurePosixPath(*path.parts[:-1][:3])) or "."


def pytest_terminal_summary(terminalreporter):
    seconds, tests = Counter(), Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[place_of(report.nodeid)] += report.duration
                tests[place_of(report.nodeid)] += report.when == "call"
    if not seconds:
        return
    terminalreporter.section("seconds of the workers, by folder")
    for place, taken in seconds.most_common():
        terminalreporter.line(f"{taken:8.1f} s  {tests[place]:6,} tests  {place}")
    terminalreporter.line(f"{seconds.total():8.1f} s  {tests.total():6,} tests  together")
    stash = terminalreporter.config.stash
    for key, words in ((LEFT_OUT, "cases of sampled tests are left out"),
                       (BEGUN, "experiments begin only")):
        if many := stash.get(key, 0):
            terminalreporter.line(f"{many:19,} {words} at this commit; --whole takes all")

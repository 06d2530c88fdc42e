"""What the fuzzers share: damage of bytes and of JSON, and a guard against hangs and memory.

A chunk is a seed and so many cases; `make test` takes a sample of the chunks, `--whole` all.
"""

import contextlib
import json
import resource
import signal
from pathlib import Path

ROOM = 2 << 30  # bytes that no case may take
LONGEST = 120  # seconds after which a case hangs, however busy the machine is
OTHERS = (
    None, True, False, 0, -1, 3, 2**70, -2.5, 1e308, float("nan"), float("inf"), "", "x", "1",
    "\ud800", "../..", [], [1, "x"], {}, {"": None}, "9" * 400, [[]],
)


@contextlib.contextmanager
def guarded():
    """Let a MemoryError come where a case takes too much, and an error where it does not end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    status = Path("/proc/self/status").read_text()
    used = int(status.partition("VmData:")[2].split()[0]) << 10
    before = signal.signal(signal.SIGALRM, _hangs)
    resource.setrlimit(resource.RLIMIT_DATA, (used + ROOM, hard))
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _hangs(*_):
    raise AssertionError(f"it has not ended after {LONGEST} s")


def damaged(body, rng):
    """Change, cut off or put in some bytes, at one to five places."""
    body = bytearray(body)
    for _ in range(rng.integers(1, 6)):
        place, change = int(rng.integers(0, len(body) + 1)), rng.integers(0, 5)
        if change == 0:
            body[place:place + 1] = rng.bytes(1)
        elif change == 1 and place < len(body):
            body[place] ^= 1 << int(rng.integers(0, 8))
        elif change == 2:
            body[place:place] = rng.bytes(int(rng.integers(1, 9)))
        elif change == 3:
            body[place:place + int(rng.integers(1, 50))] = b""
        elif rng.random() < 0.3:
            body[place:] = b""
    return bytes(body)


def of_other_kind(text, rng):
    """Replace a value somewhere in a JSON text by one of another kind."""
    tree = {"": json.loads(text)}
    here, name = tree, ""
    while isinstance(inner := here[name], (dict, list)) and inner:
        if here is not tree and rng.random() < 0.2:
            break
        here = inner
        names = list(here) if isinstance(here, dict) else range(len(here))
        name = names[int(rng.integers(0, len(names)))]
    if rng.random() < 0.2 and here is not tree:
        del here[name]
    else:
        here[name] = OTHERS[int(rng.integers(0, len(OTHERS)))]
    return json.dumps(tree[""])


def need_sentence(done):
    """Refuse anything but an end with a result, or with a sentence."""
    said = done.stderr
    assert done.returncode in (0, 1, 2), said
    assert "Traceback" not in said
    assert "more memory" not in said
    if done.returncode == 2:
        assert said.strip().count("\n") == 0, said
        assert said.strip()

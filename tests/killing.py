"""Runs that are killed with SIGKILL at random moments and resumed, beside uninterrupted ones.

Both must leave the same bytes: weights, metrics, figures and report.
"""

import os
import random
import signal
import subprocess
import sys
import time

VARYING = {"config.json", ".lock"}  # the time at which a run began; the lock
KILLS = 2
EARLIEST = 0.5  # seconds: before that, nothing but imports happens


def principia(folder, *words):
    """Start `principia run` in a folder, with checkpoints as often as possible."""
    return subprocess.Popen(
        [sys.executable, "-m", "principia", "run", *words, "--threads", "1",
         "--save-every", "0.05"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def whole_run(place, *words, codes=(0,)):
    """Run to the end and give the seconds that it took; it must end with one of the codes."""
    place.mkdir(exist_ok=True)
    began = time.monotonic()
    process = principia(place, *words)
    said, complained = process.communicate()
    assert process.returncode in codes, said + complained
    return time.monotonic() - began


def killed_run(place, *words, took, kills=KILLS, codes=(0,)):
    """Run, kill and resume again and again, then let it end."""
    place.mkdir(exist_ok=True)
    before = set(place.glob("runs/[!.]*"))
    dice = random.Random(" ".join(words))

    def going_on():
        return ["--resume", "last"] if set(place.glob("runs/[!.]*")) - before else words

    for _ in range(kills):
        process = principia(place, *going_on())
        try:
            process.communicate(timeout=dice.uniform(EARLIEST, max(took, 1.0)))
            break  # it was done before it could be killed
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
    whole_run(place, *going_on(), codes=codes)


def run_folder(place, besides=()):
    """Find the only run of a folder, besides some that are known."""
    # a kill may leave one that has no name yet
    (found,) = (one for one in (place / "runs").glob("[!.]*") if one.name not in besides)
    return found


def contents(folder):
    """Read all that two equal runs must have in common, by file."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in VARYING
    }

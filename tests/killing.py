"""Runs that are killed with SIGKILL and resumed, beside uninterrupted ones.

Kills come at random moments, or right before a chosen change of a file.

Both must leave the same bytes: weights, metrics, figures and report. The uninterrupted one runs in
the process of the tests, with types and shapes checked; those that are killed are forked from a
process that has everything loaded, so that a kill hits the work and no import. Their hash seeds
differ: what depends on the order of a set shows.
"""

import itertools
import multiprocessing
import os
import random
import signal
import sys
import time

import pytest
import torch

from principia.lab.cli import main
from principia.lab.training import checkpoints

VARYING = {"config.json", ".lock"}  # the time at which a run began; the lock
KILLS = 2
SAID = "said.txt"  # what a killed run printed
COUNTED = "changes.txt"
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
OPTIONS = ("--threads", "1", "--save-every", "0.05")  # checkpoints as often as possible


def whole_run(place, *words, codes=(0,)):
    """Run to the end, which must come with one of the codes, and give the seconds that it took."""
    place.mkdir(exist_ok=True)
    began = time.monotonic()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        _run(place, words, patch)
    assert ended.value.code in codes
    return time.monotonic() - began


def killed_run(place, *words, took, kills=KILLS, codes=(0,)):
    """Run, kill and resume again and again within the seconds of its work, then let it end."""
    place.mkdir(exist_ok=True)
    before = set(place.glob("runs/[!.]*"))
    dice = random.Random(" ".join(words))
    for _ in range(kills):
        process = _forked(place, _going_on(place, words, before))
        process.join(dice.uniform(0, took))
        if process.exitcode is not None:
            break  # it was done before it could be killed
        process.kill()
        process.join()
    _let_it_end(place, _going_on(place, words, before), codes)


def _going_on(place, words, before):
    return ("--resume", "last") if set(place.glob("runs/[!.]*")) - before else words


def changes_of(place, *words, codes=(0,)):
    """Run to the end and count how often the run changes something in its folder."""
    place.mkdir()
    _let_it_end(place, words, codes)
    return int((place / COUNTED).read_text())


def run_killed_at(place, *words, changes, codes=(0,)):
    """Run, kill and resume: each time right before the change of that number; then let it end."""
    place.mkdir()
    for number in changes:
        process = _forked(place, _going_on(place, words, set()), kill_at=number)
        process.join()
        assert process.exitcode in (-signal.SIGKILL, *codes), (place / SAID).read_text()
    _let_it_end(place, _going_on(place, words, set()), codes)


def interrupted_run(place, *words):
    """Run until it saves, and press Ctrl-C; give what it said and its exit code."""
    process = _forked(place, words)
    deadline = time.monotonic() + 120
    while not [*place.glob("runs/*/checkpoints/*/step-*")]:
        assert time.monotonic() < deadline
        assert process.is_alive(), (place / SAID).read_text()
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    process.join()
    return (place / SAID).read_text(), process.exitcode


def run_killed_while_it_writes(place, file, *words):
    """Run, and die right before a file of that name gets it."""
    process = _forked(place, words, kill_at=file)
    process.join()
    assert process.exitcode == -signal.SIGKILL, (place / SAID).read_text()


def save_forever(folder, begun):
    """Save one checkpoint after the other, from the last one on; tell when it begins."""
    step = (checkpoints.latest(folder) or (0, None))[0]
    begun.touch()
    while True:
        step += 1
        state = {"w": torch.full((20000,), float(step)), "step": step}
        checkpoints.save(folder, step, state)


def _let_it_end(place, words, codes):
    process = _forked(place, words)
    process.join()
    assert process.exitcode in codes, (place / SAID).read_text()


def _forked(place, words, kill_at=0):
    """Run in a process that starts with everything loaded, and writes down what it says.

    It dies right before the change of that number, or before a file of that name is renamed.
    """
    return forked(_run_quietly, place, words, dict(os.environ), kill_at)


def forked(function, *arguments):
    """Call a function in a process that starts with everything loaded, and give the process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["principia.lab.web.processes.preload"])
    process = context.Process(target=function, args=arguments)
    process.start()
    return process


def _run_quietly(place, words, environment, kill_at):
    os.environ.clear()
    os.environ.update(environment)
    with (place / SAID).open("w") as said:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(said.fileno(), stream.fileno())
    seen = itertools.count(1)

    def look(event, arguments):
        file = os.path.basename(arguments[1]) if event == "os.rename" else ""
        if kill_at in (next(seen), file):
            os.kill(os.getpid(), signal.SIGKILL)

    _look_at_changes(place, look)
    try:
        _run(place, words, pytest.MonkeyPatch())
    finally:
        (place / COUNTED).write_text(str(next(seen) - 1))


def _look_at_changes(folder, look):
    """Call a function right before a file or folder in there is made, renamed or removed."""

    def hear(event, arguments):
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
        if (writes or event in CHANGES) and isinstance(arguments[0], (str, bytes, os.PathLike)):
            path = os.path.abspath(os.fsdecode(arguments[0]))  # a run names its files from there
            if path.startswith(str(folder)):
                look(event, arguments)

    sys.addaudithook(hear)


def _run(place, words, patch):
    """Do what the command `principia run` does in a folder, and exit."""
    patch.chdir(place)
    patch.setattr(sys, "argv", ["principia", "run", *words, *OPTIONS])
    main()


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

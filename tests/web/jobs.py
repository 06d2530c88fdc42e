"""What the tests of the workers let them do: honest work, and every kind of trouble."""

import json
import mmap
import os
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import torch

from principia.lab.course.catalog import page
from principia.lab.evidence import at_least, claim
from principia.lab.params import Failure, UsageError, settings
from principia.lab.runs.config import RunConfig
from principia.lab.runs.execution import create
from principia.lab.web.processes import work


def add(a, b):
    return a + b


def give(text):
    return json.loads(text)


def repeated(text, times):
    return text * times


def nap(seconds, mark=None):
    """Sleep, after having left its process number in a file."""
    if mark is not None:
        Path(mark).write_text(str(os.getpid()))
    time.sleep(seconds)
    return os.getpid()


def note(path, name):
    """Write down when it begins and when it ends."""
    for word in ("begins", "ends"):
        with Path(path).open("a") as stream:
            stream.write(f"{name} {word}\n")
        time.sleep(0.05)


def meet(mine, theirs):
    """Wait until the other one is there: nobody comes to an end alone."""
    Path(mine).touch()
    until = time.monotonic() + 8
    while not Path(theirs).exists():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def spin():
    while True:
        pass


def allocate(how, gigabytes):
    size = gigabytes * 2**30
    if how == "python":
        return len(bytearray(size))
    if how == "numpy":
        return np.ones(size // 8).size
    if how == "torch":
        return torch.ones(size // 8, dtype=torch.float64).numel()
    if how == "mapped":  # of which the system tells, not Python
        return len(mmap.mmap(-1, size))
    if how == "threads":  # each has a stack
        while True:
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    if how == "wrapped":
        try:
            bytearray(size)
        except MemoryError as error:
            raise ValueError("the library does not say why") from error
    pieces = []
    while len(pieces) < 100 * gigabytes:
        pieces.append(bytearray(10 * 2**20))
    return len(pieces)


def refuse(kind):
    raise {"usage": UsageError, "failure": Failure, "zero": ZeroDivisionError, "exit": SystemExit}[
        kind
    ](f"{kind}: no\nand\tno.")


def vanish(code):
    os._exit(code)


def end_by(number):
    os.kill(os.getpid(), number)
    time.sleep(60)


def not_plain():
    return object()


def write_rubbish(body, framed):
    """Write into its own pipe, behind the back of whoever reads it, and go on as if nothing was."""
    _into_the_pipe(struct.pack("!i", len(body)) + body if framed else body)
    time.sleep(60)


def _into_the_pipe(body):
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        try:
            if number > 2 and stat.S_ISSOCK(os.fstat(number).st_mode):
                os.write(number, body)
        except OSError:
            continue


def leave_a_child(mark):
    """Start a process that outlives it, and that holds its pipe."""
    number = os.fork()
    if number == 0:
        time.sleep(60)
        os._exit(0)
    Path(mark).write_text(str(number))
    return "left"


def hold_the_pipe(mark):
    """The same with a process that leaves the group, and die without a word."""
    number = os.fork()
    if number == 0:
        os.setsid()
        Path(mark).write_text(str(os.getpid()))
        time.sleep(60)
        os._exit(0)
    while not Path(mark).exists():
        time.sleep(0.01)
    os._exit(3)


def run_program():
    return subprocess.run(["echo", "hello"], capture_output=True, text=True, timeout=5).stdout


@claim(control={"gigabytes": 200}, source="by construction")
def hungry(seed, *, gigabytes: int = 100):
    """Takes much memory."""
    return at_least(len(bytearray(gigabytes * 2**30)), 1, why="no slack")


def observe_hungry():
    return work.shown(hungry.observe(0, {}))


def refusal(key, name, knobs):
    """Say what the settings of a claim, which the command line reads, have against these."""
    one = page(key).claim(name)
    try:
        return settings(one.key, one.knobs, knobs)
    except UsageError as error:
        return str(error)


def new_run(folder, key, experiment):
    return create(folder, RunConfig(key, experiment)).name


# children that answer


def echo(connection, name):
    """Answer with the number of the question; do what the question asks for."""
    count = 0
    while True:
        asked = json.loads(connection.recv_bytes())
        count += 1
        if "sleep" in asked:
            time.sleep(asked["sleep"])
        if "allocate" in asked:
            allocate("python", asked["allocate"])
        if "spin" in asked:
            spin()
        if "raw" in asked:
            connection.send_bytes(asked["raw"].encode())
            continue
        if "leave" in asked:
            return
        answer = {"name": name, "count": count, "asked": asked, "pid": os.getpid()}
        connection.send_bytes(json.dumps(answer).encode())


def refuse_to_talk(connection, sentence):
    raise UsageError(sentence)


# children that tell


def count_up(tell, times, always, pause):
    begun = time.monotonic()
    for number in range(times):
        tell({"number": number}, always=always)
        time.sleep(pause)
    return {"seconds": time.monotonic() - begun, "pid": os.getpid()}


def tell_much(tell, seconds, size):
    """Tell large things for some seconds; give the longest time that one telling took."""
    until, longest = time.monotonic() + seconds, 0.0
    while time.monotonic() < until:
        before = time.monotonic()
        tell({"much": "x" * size})
        longest = max(longest, time.monotonic() - before)
        time.sleep(0.01)
    return longest


def tell_rubbish(tell):
    body = b"+\xff not JSON"
    _into_the_pipe(struct.pack("!i", len(body)) + body)
    tell({"fine": True}, always=True)
    return "done"


def fail_telling(tell):
    raise UsageError("fail: this must be so; it is not.")


def work_until_stopped(tell, mark, politely):
    """Go on for ever; end in order when asked to, or never."""
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1) if politely else None)
    Path(mark).write_text(str(os.getpid()))
    while not asked:
        tell({"pid": os.getpid()})
        time.sleep(0.01)
    time.sleep(0.2)
    Path(mark).write_text("saved" if len(asked) == 1 else "asked twice")
    raise KeyboardInterrupt


def loaded():
    """Say what is loaded in a fresh worker of a server with a chapter that has a broken page."""
    names = ("torch", "weeds.good", "weeds.bad", "principia.networks.mlp")
    return {name: name in sys.modules for name in names}

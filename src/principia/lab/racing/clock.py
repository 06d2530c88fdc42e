r"""Measures a race: the sides take turns, and every round gives one ratio.

The first call of a side warms it up and gives the result that is compared. Then come rounds; in
each every side runs once (or many times in a row, if it is short), in random order, on the same
number of threads, and the ratios of a round are those of neighbors in time. The ratio that is
reported is the median of the rounds, its interval that of the ordered ratios in which the true
median lies with 95 %, whatever their law. CPU time counts all threads and all child processes, so
that another program on the machine does not count.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from scipy.stats import binom

from principia.lab.environment import use_threads
from principia.lab.params import Failure
from principia.lab.racing.commands import watched_commands
from principia.lab.racing.races import OURS, Race, Side, load

__all__ = ["Reading", "growth", "interval", "measure", "runners_of"]

ROUNDS = (6, 40)  # at least, for an interval of 95 %; at most, because more say nothing new
SHORTEST = 0.01  # seconds of one reading: what is shorter is repeated in a row
LONG = 2.0  # seconds of a call that needs no warming up; where no peer races, it is read once
CONFIDENCE = 0.95
FITTED = 3  # sizes at least: a slope through two is none


@final
@dataclass(frozen=True)
class Reading:
    """The cost of one call, in seconds."""

    cpu: float
    wall: float


@final
class Here:
    """A side in this process."""

    def __init__(self, job: Callable[[], Any]) -> None:
        self.job = job

    def result(self) -> Any:
        """Run once and give what came out."""
        value = self.job()
        gc.freeze()  # all is imported: collecting between readings need not walk through modules
        return value

    def read(self, calls: int) -> Reading:
        """Run several times in a row and give the cost of a call."""
        gc.collect()
        gc.disable()  # a collection belongs to nobody's work
        try:
            if calls > 1:
                self.job()  # the first of a row is slower: caches have seen the other side
            cpu, wall = _cpu(), time.perf_counter()
            for _ in range(calls):
                self.job()
            wall, cpu = time.perf_counter() - wall, _cpu() - cpu
        finally:
            gc.enable()
        return Reading(cpu / calls, wall / calls)

    def peak(self) -> tuple[int | None, float]:
        """Run once; give the bytes that it needed beyond those before, and its seconds."""
        gc.collect()
        before = None
        with contextlib.suppress(OSError, AttributeError):  # not on every system
            ctypes.CDLL(None).malloc_trim(0)  # what is free but kept would hide what is taken
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            before = _resident("VmRSS")
        with watched_commands() as of_commands:
            began = time.perf_counter()
            self.job()
            seconds = time.perf_counter() - began
        if before is None:
            return None, seconds
        return max(0, _resident("VmHWM") - before, *of_commands), seconds


@final
class Elsewhere:
    """A side in a process of its own, which imports what would change this one."""

    def __init__(self, race: Race, side: Side, size: int, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        file = race.problem.__code__.co_filename
        self.process = context.Process(
            target=_serve, args=(other, file, race.name, side.name, size, threads), daemon=True
        )
        self.process.start()
        other.close()

    def _ask(self, what: str, *values: Any) -> Any:
        try:
            self.pipe.send((what, values))
            answer = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise Failure(
                "bench: the process of a peer has died, perhaps for want of memory."
            ) from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def result(self) -> Any:
        """Run once there and give what came out."""
        return self._ask("result")

    def read(self, calls: int) -> Reading:
        """Run several times in a row there and give the cost of a call."""
        return self._ask("read", calls)

    def peak(self) -> tuple[int | None, float]:
        """Run once there; give the bytes that it needed, and its seconds."""
        return self._ask("peak")

    def end(self) -> None:
        """End the process."""
        self.pipe.close()
        self.process.join(5)
        self.process.kill()


Runner = Here | Elsewhere


def _serve(pipe: Any, file: str, race: str, side: str, size: int, threads: int) -> None:
    """Answer for one side until the pipe is closed."""
    use_threads(threads)
    chosen = load(Path(file))[race]
    runner = Here(_job(chosen.sides[side], chosen.problem(size)))
    while True:
        try:
            what, values = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(getattr(runner, what)(*values))
        except Exception as error:
            pipe.send(Failure(f"bench: {side}: {type(error).__name__}: {error}"))


def _job(side: Side, problem: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: side.run(*problem)


@contextlib.contextmanager
def runners_of(race: Race, size: int, threads: int) -> Iterator[dict[str, Runner]]:
    """Make the problem and give every side that is there; processes of their own end with it."""
    problem, sides = race.problem(size), race.present(size)
    away: dict[str, Elsewhere] = {}
    try:
        for name, side in sides.items():
            if side.fresh:
                away[name] = Elsewhere(race, side, size, threads)
        yield {name: away.get(name) or Here(_job(side, problem)) for name, side in sides.items()}
    finally:
        for one in away.values():
            one.end()


def measure(
    race: Race, size: int, *, threads: int, seconds: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Race all sides that are there at one size, and give what was measured as plain data.

    Args:
        race: The race.
        size: One of its sizes.
        threads: How many threads every side may use.
        seconds: About how long to measure; six rounds are made in any case.
        rng: Draws the order within a round.
    """
    use_threads(threads)
    with runners_of(race, size, threads) as runners:
        if [*runners] == [OURS]:
            only = runners[OURS].read(1)
            if only.wall > LONG:
                return {"size": size, "rounds": 1, "sides": {OURS: asdict(only)}}
        sides: dict[str, dict[str, Any]] = {name: {} for name in runners}
        ours = runners[OURS].result()
        for name, runner in runners.items():
            if name != OURS:
                sides[name] |= _agreement(race, ours, runner)
        ready = {
            name: one for name, one in runners.items() if sides[name].get("agrees", True)
        }
        guesses = {}
        for name, runner in ready.items():
            sides[name]["memory"], guesses[name] = runner.peak()
        readings = _rounds(ready, guesses, seconds, rng)
    gc.unfreeze()
    for name in ready:
        for clock in ("cpu", "wall"):
            sides[name][clock] = float(np.median([getattr(one, clock) for one in readings[name]]))
            if name != OURS:
                ratios = [
                    getattr(theirs, clock) / max(getattr(mine, clock), 1e-9)
                    for theirs, mine in zip(readings[name], readings[OURS], strict=True)
                ]
                sides[name][f"{clock}_ratio"] = interval(ratios)
    return {"size": size, "rounds": len(readings[OURS]), "sides": sides}


def _agreement(race: Race, ours: Any, runner: Runner) -> dict[str, Any]:
    """Compare results; a peer that fails has done other work, and the race goes on without it."""
    try:
        evidence = race.agree(ours, runner.result())
    except Exception as error:
        message = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return {"agrees": False, "agreement": message, "why": ""}
    return {
        "agrees": evidence.verdict == "holds", "agreement": evidence.summary, "why": evidence.why,
    }


def _rounds(
    runners: Mapping[str, Runner], guesses: Mapping[str, float], seconds: float,
    rng: np.random.Generator,
) -> dict[str, list[Reading]]:
    """Let all sides take turns until the time is over; long calls are guessed, short ones read."""
    calls = {name: 1 if guesses[name] > 10 * SHORTEST else _calls(runner)
             for name, runner in runners.items()}
    readings: dict[str, list[Reading]] = {name: [] for name in runners}
    least, most = ROUNDS
    began = time.perf_counter()
    for turn in range(most):
        if turn >= least and time.perf_counter() - began > seconds:
            break
        for place in rng.permutation(len(runners)):
            name = list(runners)[place]
            readings[name].append(runners[name].read(calls[name]))
    return readings


def _calls(runner: Runner) -> int:
    """Count the calls that make one reading long enough; the shortest of a few tells how many."""
    shortest = min(runner.read(calls).wall for calls in (1, 2, 2))
    return max(1, math.ceil(SHORTEST / max(shortest, 1e-7)))


def interval(ratios: Sequence[float]) -> dict[str, float]:
    """Give the median of ratios with its interval: so many ratios lie below it by chance alone.

    Each ratio is below the true median with probability 1/2, so that how many are is binomial. Of
    fewer than six ratios, the interval from the smallest to the largest has less than 95 %.

    Example:
        >>> interval([3.0, 1.0, 2.0, 5.0, 4.0, 6.0, 7.0, 8.0, 9.0])
        {'ratio': 5.0, 'low': 2.0, 'high': 8.0}
    """
    ordered, count = sorted(ratios), len(ratios)
    below = max(int(binom.ppf((1 - CONFIDENCE) / 2, count, 0.5)), 1)
    return {
        "ratio": float(np.median(ordered)), "low": float(ordered[below - 1]),
        "high": float(ordered[count - below]),
    }


def growth(sizes: Sequence[float], seconds: Sequence[float]) -> float | None:
    """Fit the exponent with which cost grows with size, over the larger sizes.

    At small sizes the fixed cost of a call hides it; the larger half counts, but at least three,
    and fewer tell nothing.

    Example:
        >>> round(growth([10, 100, 1000, 10000], [5.0, 5.0, 50.0, 500.0]), 2)
        1.0
    """
    if len(sizes) < FITTED:
        return None
    kept = slice(-max(FITTED, math.ceil(len(sizes) / 2)), None)
    return float(np.polyfit(np.log(sizes)[kept], np.log(seconds)[kept], 1)[0])


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _resident(what: str) -> int:
    """Read a line of this process's status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{what} is not known here")


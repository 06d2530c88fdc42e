"""Checks many claims at once: one process a core, one thread a process, one task a claim and seed.

This module imports neither torch nor numpy, so that the command line starts at once: the workers
load the pages.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import json
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from principia.lab.course import catalog
from principia.lab.course.catalog import Page
from principia.lab.course.fingerprint import loaded, note, of_claims
from principia.lab.environment import cores, environment, use_threads
from principia.lab.params import Failure

if TYPE_CHECKING:
    from principia.lab.evidence.claims import Finding

__all__ = ["check_all", "document", "to_json"]

Selection = Sequence[tuple[Page, str]]


def check_all(
    selection: Selection,
    *,
    seeds: Sequence[int] = (0,),
    knobs: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    done: Callable[[str], None] = lambda key: None,
) -> list[Finding]:
    """Check claims on seeds, in parallel; the result does not depend on the number of processes.

    Args:
        selection: Pages and the names of their claims.
        seeds: Every claim runs on each of them.
        knobs: Values that differ from the defaults; texts are parsed.
        jobs: Number of processes; by default one a core, and never more than there is work.
        done: Called with the key of a claim whenever one of its seeds is finished.
    """
    tasks = [
        (page.key, claim, seed, dict(knobs or {})) for page, claim in selection for seed in seeds
    ]
    workers = min(jobs or cores(), len(tasks))
    results: dict[tuple[str, str, int], Finding] = {}
    for (key, claim, seed, _), found in _run(tasks, workers):
        results[key, claim, seed] = found
        done(f"{key.split('/')[-1]}:{claim}")
    return [
        _joined([results[page.key, claim, seed] for seed in seeds]) for page, claim in selection
    ]


def _joined(found: Sequence[Finding]) -> Finding:
    """Put the findings of one claim on several seeds together."""
    codes = {one.code for one in found}
    return replace(
        found[0],
        measures=tuple(itertools.chain(*(one.measures for one in found))),
        controls=tuple(itertools.chain(*(one.controls for one in found))),
        code=codes.pop() if len(codes) == 1 else "",  # it was edited while it was measured
    )


def document(findings: Sequence[Finding]) -> dict[str, Any]:
    """Give findings as plain data, in the documented form."""
    return {"claims": [finding.to_json() for finding in findings], "environment": environment()}


def to_json(findings: Sequence[Finding]) -> str:
    """Give findings in the documented, stable form."""
    return json.dumps(document(findings), indent=1, ensure_ascii=False, allow_nan=False)


Task = tuple[str, str, int, dict[str, Any]]


def _run(tasks: Sequence[Task], workers: int) -> Iterator[tuple[Task, Finding]]:
    """Yield every task with its result, in the order in which they finish."""
    if workers <= 1:
        use_threads(1)
        yield from ((task, _work(task)) for task in tasks)
        return
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    pool = concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=context, initializer=_prepare_worker
    )
    try:
        with _no_interrupt():
            waiting = {pool.submit(_packed, task): task for task in tasks}
        for future in concurrent.futures.as_completed(waiting):
            yield waiting.pop(future), pickle.loads(future.result())
    except BrokenProcessPool:
        raise Failure(
            "check: a worker process was killed, probably for want of memory. Try --jobs 1."
        ) from None
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)  # first, so that no worker is started again
        for process in multiprocessing.active_children():
            process.kill()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def _no_interrupt() -> Iterator[None]:
    """Let Ctrl-C wait while workers are started: they would tell of it in tracebacks of their own.

    What is blocked here stays blocked in the processes that are started, from their first moment.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    use_threads(1)
    threading.Thread(target=_outlive_nobody, daemon=True).start()


def _outlive_nobody() -> None:
    """End with the parent, however it ends: a worker without one would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _packed(task: Task) -> bytes:
    """Give a finding as bytes: torch would open a file for each tensor that it sends as it is.

    The parent keeps all findings, and so many files no system allows.
    """
    return pickle.dumps(_work(task))


def _work(task: Task) -> Finding:
    key, name, seed, knobs = task
    from principia.lab.evidence.claims import Finding, Observation

    page = catalog.page(key)
    note(page)
    code = of_claims(page, loaded())
    try:
        claims = page.claims()
    except Exception as error:  # a page under construction: its neighbors are checked all the same
        message = " ".join(f"{key} cannot be imported: {type(error).__name__}: {error}".split())
        broken = Observation(seed, {}, error=message, trace=traceback.format_exc())
        return Finding(key, name, (broken,), (broken,), code)
    return replace(claims[name].check([seed], **knobs), code=code)

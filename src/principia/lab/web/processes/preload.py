"""What the forkserver loads before it forks: torch and every page, so that a job starts at once.

Elsewhere importing this does nothing. In the forkserver nothing may escape: an `ImportError` would
be swallowed there, and any other error would end it.
"""

import functools
import gc
import importlib
import multiprocessing.spawn
import os
import signal
import sys
from collections.abc import Callable

__all__ = ["broken", "loaded_in"]

loaded_in = 0  # the process that loaded the pages; in a child that starts warm, another one
broken: dict[str, str] = {}  # what cannot be loaded, and why
WORK = (  # what a child needs beside the pages
    "principia.lab.runs.models",
    "principia.lab.runs.report",
    "principia.lab.web.processes.child_main",
    "principia.lab.web.pages.playground_worker",
    "principia.lab.web.runs.worker",
)


def _preload() -> None:
    global loaded_in
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's business
    for fixup in ("_fixup_main_from_name", "_fixup_main_from_path"):
        # a child would import the server's main script anew: slow, and endless without a guard
        setattr(multiprocessing.spawn, fixup, _leave_alone)
    _try("the sources", _note_pages)  # before they are imported: an edit after that is not in here
    _try("torch", _compute)
    _try("the catalog", _import_pages)
    _try("figures", _draw)
    for module in WORK:
        _try(module, functools.partial(importlib.import_module, module))
    _try("the playground", _play)
    gc.collect()
    gc.freeze()  # what is here stays shared: a collection in a child would copy every page
    loaded_in = os.getpid()


def _leave_alone(main: str) -> None:
    """Do not import the main module: what a child is asked to do is in a module of its own."""


def _try(what: str, load: Callable[[], object]) -> None:
    try:
        load()
    except BaseException as error:  # also SystemExit, which a page's import may raise
        broken[what] = " ".join(f"{type(error).__name__}: {error}".split())


def _compute() -> None:
    from principia.lab.environment import use_threads

    use_threads(1)
    import torch

    # the first optimizer of a process loads much of torch
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)


def _note_pages() -> None:
    from principia.lab.course import catalog, fingerprint

    fingerprint.note(*(page for chapter in catalog.chapters() for page in chapter.pages))


def _import_pages() -> None:
    from principia.lab.course import catalog

    for chapter in catalog.chapters():
        for page in chapter.pages:
            _try(page.key, page.load_all)


def _draw() -> None:
    from principia.lab import figures
    from principia.lab.evidence.evidence import Plot, Series

    figures.draw(Plot((Series("measured", [0.0], [0.0]),))).to_json()  # its parts load lazily


def _play() -> None:
    from principia.lab.playground import choices

    choices()  # which every playground asks for


if any("multiprocessing.forkserver" in argument for argument in sys.orig_argv):
    _preload()

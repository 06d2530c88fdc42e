r"""The calls of a notebook or a script: `principia.check`, `principia.run`, `principia.page`.

They do what the commands of the same names do, and give back what a notebook draws.

    principia.check("connectionism/hopfield:phase_transition", load=0.18)
    principia.run("networks/mlp", budget="full", epochs=5).figures()
    principia.page("connectionism/hopfield")
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from principia.lab.course import catalog
from principia.lab.params import UsageError
from principia.lab.progress import progress

if TYPE_CHECKING:
    from principia.lab.course.catalog import Page
    from principia.lab.evidence.claims import Findings
    from principia.lab.runs.folders import RunFolder

__all__ = ["check", "page", "run"]


def page(key: str) -> Page:
    """Give a page of the course by its key, such as `connectionism/hopfield`."""
    return catalog.page(key, "page")


def check(
    *keys: str, seeds: int = 1, seed: int = 0, jobs: int | None = None, **knobs: Any
) -> Findings:
    """Measure claims now, with their controls.

    Args:
        keys: Chapters, pages, or single claims as page:claim.
        seeds: How many seeds.
        seed: The first of them.
        jobs: Number of processes; by default one a core.
        knobs: Values of knobs that differ from their defaults; of a single claim only.
    """
    from principia.lab.evidence.checking import check_all
    from principia.lab.evidence.claims import Findings
    from principia.lab.params import settings

    selection = catalog.select(keys, "check")
    if not selection:
        raise UsageError("check: name a chapter, a page or page:claim, as one of its claims.")
    if knobs:
        if len(selection) > 1:
            raise UsageError("check: knobs need one claim. Name it as page:claim.")
        claim = selection[0][0].claim(selection[0][1])
        settings(claim.key, claim.knobs, knobs)
    with _threads_as_before(), progress(len(selection) * seeds, "checking") as advance:
        return Findings(check_all(
            selection, seeds=range(seed, seed + seeds), knobs=knobs, jobs=jobs,
            done=lambda key: advance(key),
        ))


def run(
    key: str, *, budget: Literal["quick", "full"] = "quick", seed: int = 0,
    data: str | None = None, target: str | None = None, drop: Sequence[str] = (),
    runs_dir: str = "runs", data_dir: str | None = None, device: str = "cpu",
    threads: int | None = None, **knobs: Any,
) -> RunFolder:
    """Run an experiment, or train a page's model on a table; all of it goes to a run folder.

    Args:
        key: Key of a page, or page:experiment.
        budget: `quick` runs on embedded data in seconds; `full` must reach the published figure.
        seed: Seed of everything random.
        data: Your own table (.csv, .tsv, .npz, .parquet), or an embedded one such as iris.
        target: Column of the table to predict.
        drop: Columns of the table to leave out.
        runs_dir: Folder of the run folders.
        data_dir: Folder with the data sets; searched before PRINCIPIA_DATA.
        device: Where to compute, as torch names it.
        threads: Threads to compute with; by default one a core at full budget, else one.
        knobs: Values of knobs that differ from their defaults; of a callback as
            `**{"max_norm.bound": 3.0}`.
    """
    from pathlib import Path

    from principia.lab.runs.config import config_of
    from principia.lab.runs.execution import create, execute
    from principia.lab.runs.folders import discard_if_empty

    config = config_of(
        key, knobs, budget=budget, seed=seed, data=data, target=target, drop=drop,
        data_dir=data_dir, device=device, threads=threads,
    )
    folder = create(Path(runs_dir), config, config.command)
    with _threads_as_before():
        try:
            execute(folder, say=lambda sentence: None, watch=progress)
        except UsageError:
            discard_if_empty(folder)
            raise
    return folder


@contextmanager
def _threads_as_before() -> Iterator[None]:
    """Let evidence and runs have their own number of threads, and the caller's stay as it is."""
    import torch

    from principia.lab.environment import use_threads

    before = torch.get_num_threads()
    try:
        yield
    finally:
        use_threads(before)

r"""The ledger: every experiment with its published figure, and what we measured at full budget.

Rows come from real runs only. A row holds the numbers of each seed, the goals, the command, the
environment, the fingerprint of the code and the hashes of the trained weights; it stands there
whether the goals were reached or not. Once the code has changed, the row is stale, and every table
says so.
"""

from __future__ import annotations

import fcntl
import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from principia.lab.course import catalog
from principia.lab.course.fingerprint import EARLIER, Sources, of_run
from principia.lab.params import UsageError
from principia.lab.runs.experiments import Experiment
from principia.lab.storage import write_text

__all__ = [
    "FILE", "effects", "experiments", "measure", "ours", "read", "spread", "stale", "to_markdown",
    "update", "verdict",
]

FILE = Path(__file__).with_name("ledger.json")

Row = dict[str, Any]


def experiments(keys: Sequence[str] = ()) -> list[Experiment]:
    """Select experiments by chapter, page or page:experiment; all of them without a key."""
    found = []
    for page in [one for chapter in catalog.chapters() for one in chapter.pages]:
        for name in page.experiment_names:
            names = (page.key.split("/")[0], page.key, f"{page.key}:{name}")
            if not keys or any(key in names for key in keys):
                found.append(page.experiments()[name])
    if not found:
        raise UsageError(f"ledger: no experiment is called {', '.join(keys)}. See principia ls.")
    return found


def read(file: Path = FILE) -> dict[str, Row]:
    """Read the measured rows, by the keys of their experiments."""
    if not file.is_file():
        return {}
    try:
        return json.loads(file.read_bytes())["rows"]
    except (ValueError, LookupError, TypeError) as error:
        raise UsageError(f"ledger: {file} does not have its form: {error!r}.") from error


def spread(values: Sequence[float]) -> str:
    """Write values as their mean ± standard error.

    Example:
        >>> spread([0.92, 0.94, 0.93])
        '0.93 ± 0.0058'
    """
    if len(values) == 1:
        return f"{values[0]:.5g}"
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.mean(values):.5g} ± {error:.2g}"


def verdict(experiment: Experiment, row: Row | None) -> str:
    """Compare the means of a row with the goals as they are declared now."""
    if row is None:
        return "not measured"
    for name, goal in experiment.reaches.items():
        values = row["metrics"].get(name)
        if not values or statistics.mean(values) not in goal:
            return "falls short"
    return "reached"


def stale(chosen: Sequence[Experiment], rows: Mapping[str, Row]) -> frozenset[str]:
    """Name the experiments whose rows were measured on other code than there is now."""
    sources = Sources()
    found = [one.key for one in chosen if one.key in rows
             and rows[one.key].get("code") != of_run(catalog.page(one.page), sources)]
    return frozenset(found)


def ours(experiment: Experiment, row: Row) -> str:
    """Write what we measured of the numbers that have a goal."""
    return "; ".join(
        f"{name.replace('_', ' ')} {spread(row['metrics'][name])}"
        for name in experiment.reaches
        if name in row["metrics"]
    )


def effects(row: Row) -> list[str]:
    """Write every paired difference of a row with its interval, whether it has a goal or not.

    Over several seeds the ends are averaged, which is no narrower than one interval of them all.

    Example:
        >>> effects({"metrics": {"gain": [0.2], "gain_low": [-0.1], "gain_high": [0.5]}})
        ['gain 0.2 [-0.1, 0.5], not found']
    """
    found = []
    for name in row["metrics"]:
        names = (name, f"{name}_low", f"{name}_high")
        if all(one in row["metrics"] for one in names):
            mean, low, high = (statistics.mean(row["metrics"][one]) for one in names)
            missed = ", not found" if low <= 0 <= high else ""
            found.append(f"{name.replace('_', ' ')} {mean:.3g} [{low:.3g}, {high:.3g}]{missed}")
    return found


def to_markdown(chosen: Sequence[Experiment], rows: Mapping[str, Row]) -> str:
    """Write the ledger as a Markdown document."""
    lines = [
        "# The ledger", "",
        "Every experiment of the course with what was published and what we measured at full "
        "budget, as mean ± standard error over the seeds. Effects are differences between pairs "
        "of trainings with and without a method, with their 95 % intervals; one whose interval "
        "holds 0 is not found. Written by `principia ledger --markdown`; `principia ledger KEY "
        "--update` measures again.", "",
        "| experiment | published | goal | ours | effects | seeds | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    old = stale(chosen, rows)
    for one in chosen:
        row = rows.get(one.key)
        goals = "; ".join(f"{name.replace('_', ' ')} {goal.goal}" for name, goal
                          in one.reaches.items())
        cells = [f"`{one.key}`", one.source, goals, ours(one, row) if row else "",
                 "; ".join(effects(row)) if row else "",
                 str(len(row["seeds"])) if row else "",
                 verdict(one, row) + (" †" if one.key in old else "")]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    legend = ["", f"† {EARLIER} of the code"] if old else []
    return "\n".join([*lines, *legend]) + "\n"


def measure(
    experiment: Experiment, seeds: Sequence[int], runs_dir: Path, threads: int,
    say: Callable[[str], None], watch: Any, data_dir: str | None = None,
) -> Row:
    """Run an experiment at full budget on every seed, and make its row."""
    from principia.lab.runs.config import RunConfig
    from principia.lab.runs.execution import create, execute

    metrics: dict[str, list[float]] = {}
    weights, folders = [], []
    for seed in seeds:
        config = RunConfig(
            experiment.page, experiment.name, "full", seed, threads=threads, data_dir=data_dir
        )
        folder = create(runs_dir, config)
        outcome = execute(folder, say=say, watch=watch)
        for name, value in outcome.metrics.items():
            metrics.setdefault(name, []).append(value)
        weights.append((folder.result or {}).get("weights", ""))
        folders.append(folder)
    record = folders[-1].record
    codes = {one.record["code"] for one in folders}
    return {
        "published": experiment.source,
        "goals": {name: goal.goal for name, goal in experiment.reaches.items()},
        "seeds": list(seeds),
        "metrics": {name: values for name, values in metrics.items() if all(map(_finite, values))},
        "command": f"principia run {experiment.key} --budget full --seed {seeds[0]} "
        f"--threads {threads}",
        "environment": record["environment"],
        "git": record["git"],
        "code": codes.pop() if len(codes) == 1 else "",
        "measured": record["began"][:10],
        "weights": weights,
    }


def _finite(value: float) -> bool:
    return math.isfinite(value)


def update(key: str, row: Row, file: Path = FILE) -> None:
    """Put a row into the file; other processes may do the same at the same time."""
    lock = file.with_name(f".{file.name}.lock")
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        rows = {**read(file), key: row}
        text = json.dumps({"rows": dict(sorted(rows.items()))}, indent=1)
        write_text(file, f"{text}\n")
    lock.unlink(missing_ok=True)

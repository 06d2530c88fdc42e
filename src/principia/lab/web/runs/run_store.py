"""The runs on disk, as plain data for pages; a broken folder shows as such and breaks nothing."""

from __future__ import annotations

import contextlib
import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from principia.lab.course import catalog
from principia.lab.figures import curves
from principia.lab.params import Failure, UsageError, text_of
from principia.lab.runs.config import RunConfig
from principia.lab.runs.experiments import Experiment
from principia.lab.runs.folders import RunFolder, names_of_runs
from principia.lab.web.runs.following import curves_of, figure_paths

__all__ = [
    "BROKEN", "comparison", "curves_figure", "experiment_of", "facts", "figure", "folders",
    "numbers", "resting_status",
]

BROKEN = "broken"  # the status of a run whose files do not have their form
_BROKEN = (
    UsageError, OSError, LookupError, TypeError, ValueError, AttributeError, RecursionError,
)


def folders(runs_dir: Path) -> list[RunFolder]:
    """List the runs of a folder, newest first; broken ones last."""
    found = []
    with contextlib.suppress(OSError):  # all of them have just been removed
        for name in names_of_runs(runs_dir):
            with contextlib.suppress(OSError):  # this one has
                file = RunFolder(runs_dir / name).config_file
                found.append(_opened(runs_dir / name, file.stat().st_mtime_ns))
    return sorted(found, key=lambda one: one.age, reverse=True)


@functools.lru_cache(maxsize=4096)
def _opened(path: Path, written: int) -> RunFolder:
    """Open a run folder; what it was asked is read once, since that never changes."""
    return RunFolder(path)


def resting_status(folder: RunFolder) -> str:
    """Tell how a run stands that this server does not run itself."""
    try:
        return folder.status
    except _BROKEN:
        return BROKEN


def facts(folder: RunFolder) -> dict[str, Any]:
    """Tell what a run was asked and what came out."""
    try:
        config, record = folder.config, folder.record
        return {
            "key": str(config.key), "page": str(config.page), "experiment": str(config.experiment),
            "data": Path(config.data.source).name if config.data else "",
            "budget": str(config.budget), "seed": int(config.seed), "device": str(config.device),
            "threads": int(config.threads),
            "knobs": {str(name): text_of(value) for name, value in config.knobs.items()},
            "began": str(record["began"]), "command": str(record["command"]), "broken": "",
        }
    except _BROKEN as error:
        return {
            "key": "", "page": "", "experiment": "", "data": "", "budget": "", "seed": 0,
            "device": "", "threads": 1, "knobs": {}, "began": "", "command": "",
            "broken": str(error) if isinstance(error, UsageError)
            else f"run: {folder.config_file.name} of {folder.name} does not have its form.",
        }


def experiment_of(config: RunConfig) -> Experiment | None:
    """Find the experiment of a run, if this course still has it."""
    try:
        return catalog.page(config.page).experiments().get(config.experiment)
    except _BROKEN:
        return None


def numbers(folder: RunFolder) -> list[dict[str, Any]]:
    """List the numbers of a run beside their goals; before its end, the goals alone."""
    try:
        experiment, result = experiment_of(folder.config), folder.result
        ranges = experiment.goals(folder.config.budget) if experiment else {}
        if result is None:
            goals: Mapping[str, str] = {name: one.goal for name, one in ranges.items()}
            metrics: Mapping[str, Any] = {}
        else:
            goals, metrics = dict(result["goals"]), dict(result["metrics"])
    except _BROKEN:
        return []
    listed = []
    for name in dict.fromkeys((*goals, *metrics)):
        value, goal = _number(metrics.get(name)), str(goals.get(name, ""))
        known = name in ranges and ranges[name].goal == goal and result is not None
        reached = isinstance(value, float) and value in ranges[name] if known else None
        listed.append({"name": str(name), "value": value, "goal": goal, "reached": reached})
    return listed


def _number(value: Any) -> float | str | None:
    if isinstance(value, (int, float)):
        return float(value) if math.isfinite(value) else str(value)
    return None if value is None else str(value)


def figure(folder: RunFolder, name: str) -> dict[str, Any] | None:
    """Read a figure by its name; None if there is none."""
    path = figure_paths(folder).get(name)
    if path is None:
        return None
    try:
        found = json.loads(path.read_bytes(), parse_constant=lambda constant: None)
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Failure(f"run: the figure {name} of {folder.name} cannot be read.")
    return found


def curves_figure(named: Sequence[tuple[str, RunFolder]]) -> dict[str, Any] | None:
    """Draw the learning curves of runs in one figure, each under its name; None without any."""
    return _curves(tuple((name, one.path, _stamp(one.metrics_file)) for name, one in named))


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@functools.lru_cache(maxsize=32)  # many look at the same run
def _curves(
    stamped: tuple[tuple[str, Path, tuple[int, int]], ...],
) -> dict[str, Any] | None:
    trainings = {
        " ".join(filter(None, (name, training))): rows
        for name, path, _ in stamped
        for training, rows in curves_of(RunFolder(path)).items()
    }
    try:
        drawn = curves(trainings)
    except _BROKEN:  # rows of another form
        return None
    return None if drawn is None else json.loads(str(drawn.to_json()))


def comparison(chosen: Sequence[RunFolder]) -> dict[str, Any]:
    """Put runs beside each other: curves in one figure, numbers in one table, what differs."""
    measured = [{one["name"]: one for one in numbers(folder)} for folder in chosen]
    names = dict.fromkeys(name for one in measured for name in one)
    return {
        "names": [one.name for one in chosen],
        "figure": curves_figure([(one.name, one) for one in chosen]),
        "numbers": [
            {
                "name": name,
                "goals": list(dict.fromkeys(
                    one[name]["goal"] for one in measured if name in one and one[name]["goal"]
                )),
                "values": [one[name]["value"] if name in one else None for one in measured],
            }
            for name in names
        ],
        "differences": _differences(chosen),
    }


def _differences(chosen: Iterable[RunFolder]) -> list[dict[str, Any]]:
    columns = [_settings(one) for one in chosen]
    names = dict.fromkeys(name for one in columns for name in one)
    rows = [(name, [one.get(name, "") for one in columns]) for name in names]
    return [{"name": name, "values": row} for name, row in rows if len(set(row)) > 1]


def _settings(folder: RunFolder) -> dict[str, str]:
    """List all that was chosen for a run, the knobs that nobody turned included."""
    found = facts(folder)
    if found["broken"]:
        return {}
    experiment = experiment_of(folder.config)
    defaults = experiment.knobs.values() if experiment else ()
    chosen = ("data", "budget", "seed", "threads", "device")
    return {
        "experiment": found["key"],
        **{name: str(found[name]) for name in chosen},
        **{one.name: text_of(one.default) for one in defaults},
        **found["knobs"],
    }

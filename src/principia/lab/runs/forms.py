r"""What the files of a run folder must look like: read as plain data, or refused with their name.

A disk that was full, a copy that was cut off or an editor may have changed them; what uses them
need not think of that.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from principia.lab.params import UsageError

__all__ = ["read_figure", "read_json", "read_others", "read_record", "read_result", "read_rows"]

LARGEST = 2**63  # of whole numbers: beyond it they are no numbers of a run


def read_record(path: Path) -> dict[str, Any]:
    """Read what a run was asked, when, by which command, and on what it depends."""
    found = read_json(path)
    kinds = {"asked": dict, "environment": dict, "command": str, "began": str, "git": str}
    _need(path, all(isinstance(found.get(name), kind) for name, kind in kinds.items()))
    kernels = found.get("kernels", {})
    _need(path, isinstance(kernels, dict) and all(isinstance(one, str) for one in kernels.values()))
    _need(path, "code" in found and isinstance(found.get("began_ns", 0), int))
    try:
        datetime.datetime.fromisoformat(found["began"]).timestamp()
    except (ValueError, OverflowError):
        _need(path, False)
    return found


def read_result(path: Path) -> dict[str, Any]:
    """Read the outcome of a run."""
    found = read_json(path)
    metrics, goals, figures = (
        found.get(name, kind()) for name, kind in
        (("metrics", dict), ("goals", dict), ("figures", list))
    )
    _need(path, isinstance(found.get("reached"), bool))
    _need(path, isinstance(found.get("weights", ""), str))
    _need(path, isinstance(metrics, dict) and all(map(_is_measured, metrics.values())))
    _need(path, isinstance(goals, dict) and all(isinstance(one, str) for one in goals.values()))
    _need(path, isinstance(figures, list) and all(isinstance(one, str) for one in figures))
    return found


def read_others(path: Path) -> list[str]:
    """Read in what other processors that were accepted differ from the first."""
    others = read_json(path).get("other", ())
    _need(path, isinstance(others, list) and all(isinstance(one, str) for one in others))
    return list(others)


def read_rows(path: Path) -> list[tuple[str, dict[str, float]]]:
    """Read the numbers of epochs with the names of their trainings; a line may be still growing."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise UsageError(f"run: {path} cannot be read: {error.strerror}.") from error
    rows = []
    for place, line in enumerate(lines, 1):
        row = _parsed(path, line, f"line {place} of ")
        training = row.pop("training", None)
        _need(path, isinstance(training, str) and "epoch" in row, f"line {place} of ")
        _need(path, all(map(_is_number, row.values())), f"line {place} of ")
        rows.append((training, row))
    return rows


def read_figure(path: Path) -> Any:
    """Read a figure of Plotly's."""
    import plotly.graph_objects as go
    from plotly.exceptions import PlotlyError

    found = read_json(path)
    try:
        return go.Figure(found)
    except (PlotlyError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise UsageError(f"run: {path} must be a figure of Plotly's; it is not.") from error


def read_json(path: Path) -> dict[str, Any]:
    """Read an object of JSON."""
    try:
        body = path.read_bytes()
    except OSError as error:
        raise UsageError(f"run: {path} cannot be read: {error.strerror}.") from error
    return _parsed(path, body)


def _parsed(path: Path, body: bytes, where: str = "") -> dict[str, Any]:
    try:
        found = json.loads(body)
        json.dumps(found, ensure_ascii=False).encode()  # a text that cannot be written is refused
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"run: {where}{path} cannot be read: {reason}.") from error
    _need(path, isinstance(found, dict), where)
    return found


def _need(path: Path, right: bool, where: str = "") -> None:
    if not right:
        raise UsageError(f"run: {where}{path} does not have its form. Was it changed, or cut off?")


def _is_measured(value: Any) -> bool:
    return isinstance(value, str) or _is_number(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return isinstance(value, float) or abs(value) < LARGEST

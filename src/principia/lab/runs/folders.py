r"""Run folders: everything about one run, so that it can be resumed, reported and used.

`config.json` says what was asked (page, experiment, knobs, seed, data) and on what it depends
(versions, threads, processor, fingerprint of the code); it names nothing that could be executed.
`metrics.jsonl` has a line an epoch, `checkpoints/` the state of each training, `figures/` Plotly's
own format, `model/` the trained model, `result.json` the outcome and `report.html` all of it to
look at. `processors.json` is there only if the run went on with another processor.
Nothing that depends on the clock is in there but the time at which the run began. Only this module
knows these names.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, final

from principia.lab.params import UsageError, shown
from principia.lab.storage import write_text

__all__ = [
    "OwnData", "RunConfig", "RunFolder", "discard_if_empty", "find_run", "list_runs",
    "names_of_runs",
]

CONFIG = "config.json"


@final
@dataclass(frozen=True)
class OwnData:
    """The user's table: a file or the name of an embedded one, its target, and columns left out."""

    source: str
    target: str
    drop: tuple[str, ...] = ()
    sha256: str = ""


@final
@dataclass(frozen=True)
class RunConfig:
    """What a run was asked to do, in plain values."""

    page: str
    experiment: str  # empty with own data
    budget: Any = "quick"
    seed: int = 0
    knobs: Mapping[str, Any] = field(default_factory=dict)
    data: OwnData | None = None
    data_dir: str | None = None
    device: str = "cpu"
    threads: int = 1

    @property
    def key(self) -> str:
        """Page and experiment."""
        return f"{self.page}:{self.experiment}" if self.experiment else self.page

    def to_json(self) -> dict[str, Any]:
        """Give it as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> RunConfig:
        """Take it back from plain data."""
        own = plain["data"]
        data = OwnData(**{**own, "drop": tuple(own["drop"])}) if own else None
        return cls(**{**plain, "data": data})


@final
@dataclass(frozen=True)
class RunFolder:
    """A run on disk."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.name

    @property
    def config_file(self) -> Path:
        """What was asked, and on what it depends."""
        return self.path / CONFIG

    @property
    def metrics_file(self) -> Path:
        """A line for every epoch of every training."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The folder with the state of each training."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """The folder of the trained model."""
        return self.path / "model"

    @property
    def report_file(self) -> Path:
        """All of it, to look at."""
        return self.path / "report.html"

    @property
    def result_file(self) -> Path:
        """The outcome, written last of all."""
        return self.path / "result.json"

    @property
    def processors_file(self) -> Path:
        """On what other processors it went on, if somebody accepted that."""
        return self.path / "processors.json"

    @property
    def other_processors(self) -> list[str]:
        """In what other processors on which it went on differ from the first."""
        return _read_json(self.processors_file)["other"] if self.processors_file.is_file() else []

    def accept_processor(self, difference: str) -> None:
        """Write down that the run goes on with a processor that differs from the first."""
        other = list(dict.fromkeys([*self.other_processors, difference]))
        write_text(self.processors_file, json.dumps({"other": other}, indent=1) + "\n")

    @property
    def lock_file(self) -> Path:
        """Held by the process that works here."""
        return self.path / ".lock"

    @cached_property
    def record(self) -> dict[str, Any]:
        """What the run was asked, when, by which command, and on what it depends."""
        return _read_json(self.config_file)

    @cached_property
    def config(self) -> RunConfig:
        """What the run was asked."""
        try:
            return RunConfig.from_json(self.record["asked"])
        except (LookupError, TypeError) as error:
            raise UsageError(f"run: {CONFIG} of {self.name} does not have its form.") from error

    @property
    def origin(self) -> dict[str, Any] | None:
        """What was asked, of which code, with which versions: equal in runs that end the same."""
        if not self.config_file.is_file():
            return None
        return {name: self.record.get(name) for name in ("asked", "code", "environment")}

    @property
    def result(self) -> dict[str, Any] | None:
        """The outcome as plain data, if the run has ended."""
        return _read_json(self.result_file) if self.result_file.is_file() else None

    @property
    def status(self) -> str:
        """Whether it reached its goals, missed them, runs now, or was interrupted."""
        if (result := self.result) is not None:
            return "reached" if result["reached"] else "missed"
        try:
            with self.locked():
                return "interrupted"
        except UsageError:
            return "running"
        except OSError:  # somebody else's folder, which cannot be locked
            return "unfinished"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process at a time work in the folder; the lock ends with the process."""
        with self.lock_file.open("w") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise UsageError(f"run: {self.name} is running in another process.") from error
            yield

    def log(self, training: str, row: Mapping[str, float]) -> None:
        """Add the numbers of one epoch of a training."""
        line = json.dumps({"training": training, **row})
        with self.metrics_file.open("a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")

    def curves(self) -> dict[str, list[dict[str, float]]]:
        """Read the numbers of every epoch of every training."""
        found: dict[str, list[dict[str, float]]] = {}
        if self.metrics_file.is_file():
            for line in self.metrics_file.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                found.setdefault(row.pop("training"), []).append(row)
        return found

    def keep_figure(self, name: str, plotly_json: str) -> None:
        """Write a figure."""
        (self.path / "figures").mkdir(exist_ok=True)
        write_text(self.path / "figures" / f"{name}.json", plotly_json)

    def figure_files(self) -> list[Path]:
        """Find the files of the figures, in the order of the alphabet."""
        return sorted((self.path / "figures").glob("*.json"))

    def figures(self) -> dict[str, Any]:
        """Read the figures by name, in the order of the alphabet."""
        import plotly.io

        return {
            file.stem: plotly.io.from_json(file.read_text(encoding="utf-8"))
            for file in self.figure_files()
        }


def discard_if_empty(folder: RunFolder) -> None:
    """Remove a run folder in which nothing was trained; one without its folder of runs goes too."""
    if not folder.checkpoints.exists() and folder.result is None:
        shutil.rmtree(folder.path)
        with contextlib.suppress(OSError):  # other runs are in there
            folder.path.parent.rmdir()


def list_runs(runs_dir: Path) -> list[RunFolder]:
    """List the runs of a folder, oldest first."""
    found = [RunFolder(file.parent) for file in runs_dir.glob(f"[!.]*/{CONFIG}")]
    return sorted(found, key=lambda folder: (str(folder.record.get("began")), folder.name))


def names_of_runs(runs_dir: Path) -> list[str]:
    """Name the runs of a folder, also those that cannot be read."""
    return sorted(file.parent.name for file in runs_dir.glob(f"[!.]*/{CONFIG}"))


def find_run(runs_dir: Path, name: str, owner: str) -> RunFolder:
    """Find a run by its name, by its path, or as `last`."""
    known = list_runs(runs_dir)
    if name == "last" and known:
        return known[-1]
    for folder in (RunFolder(runs_dir / name), RunFolder(Path(name))):
        if folder.config_file.is_file():
            return folder
    names = ", ".join(folder.name for folder in known[-5:]) or "none yet"
    raise UsageError(
        f"{owner}: RUN must be the name of a run in {runs_dir}, or last; got {shown(name)}. "
        f"There is {names}."
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"run: {path} cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise UsageError(f"run: {path} must hold an object; it does not.")
    return found

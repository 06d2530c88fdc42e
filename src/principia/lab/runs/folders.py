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
import datetime
import errno
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, final

from principia.lab.params import UsageError, shown
from principia.lab.runs.config import RunConfig
from principia.lab.runs.forms import read_figure, read_others, read_record, read_result, read_rows
from principia.lab.storage import write_text

__all__ = [
    "RunFolder", "discard_if_empty", "find_run", "list_runs", "names_of_runs", "new_folder",
]

CONFIG = "config.json"
UNNAMED = ".new-"  # the beginning of the name of a folder that is just being made


@final
@dataclass(frozen=True, repr=False)
class RunFolder:
    """A run on disk."""

    path: Path

    def __repr__(self) -> str:
        """Say which run it is, and what became of it."""
        return f"<Run {self.name}: {self.broken or self.status}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Draw it in a notebook."""
        from principia.lab.notebooks import run_bundle

        return run_bundle(self)

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
        return read_others(self.processors_file) if self.processors_file.is_file() else []

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
        return read_record(self.config_file)

    @property
    def age(self) -> tuple[int, int, str]:
        """What orders runs: the nanosecond of their begin, then their number; broken ones first."""
        try:
            record = self.record
        except UsageError:
            return -1, 0, self.name
        began = datetime.datetime.fromisoformat(record["began"])  # all that older records have
        number = self.name.rpartition("-")[2]
        return (
            record.get("began_ns", int(began.timestamp()) * 10**9),
            int(number) if number.isdecimal() else 0, self.name,
        )

    @cached_property
    def config(self) -> RunConfig:
        """What the run was asked."""
        record = self.record  # a file that cannot be read says so itself
        try:
            return RunConfig.from_json(record["asked"])
        except (LookupError, TypeError, AttributeError) as error:
            reason = f": {error}" if isinstance(error, UsageError) else "."
            raise UsageError(
                f"run: {CONFIG} of {self.name} does not have its form{reason}"
            ) from error

    @property
    def origin(self) -> dict[str, Any] | None:
        """What was asked, of which code, with which versions: equal in runs that end the same."""
        if not self.config_file.is_file():
            return None
        return {name: self.record.get(name) for name in ("asked", "code", "environment")}

    @property
    def result(self) -> dict[str, Any] | None:
        """The outcome as plain data, if the run has ended."""
        return read_result(self.result_file) if self.result_file.exists() else None

    @property
    def broken(self) -> str:
        """Why its files cannot be used, in a sentence; empty if they can."""
        try:
            _ = self.config, self.result
        except UsageError as error:
            return str(error)
        return ""

    @property
    def status(self) -> str:
        """Whether it reached its goals, missed them, runs now, or was interrupted."""
        running = False
        if (result := self.result) is None:
            try:
                running = self._is_running()
            except OSError:  # somebody else's folder, which cannot be looked into
                return "unfinished"
            result = None if running else self.result  # it may have ended between the two looks
        if result is None:
            return "running" if running else "interrupted"
        return "reached" if result["reached"] else "missed"

    def _is_running(self) -> bool:
        """Look whether a process works here, without what would keep one from beginning to."""
        try:
            with self.lock_file.open("rb") as stream:
                return not _flock(stream, fcntl.LOCK_SH)
        except FileNotFoundError:
            return False

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process at a time work in the folder; the lock ends with the process.

        Who works here holds the lock alone. Who looks shares it for a moment with all that look, so
        that whoever can share it too was in the way of nobody who works, and tries again.
        """
        with self.lock_file.open("ab") as stream:
            while not _flock(stream, fcntl.LOCK_EX):
                if not _flock(stream, fcntl.LOCK_SH):
                    raise UsageError(f"run: {self.name} is running in another process.")
                fcntl.flock(stream, fcntl.LOCK_UN)  # or two that begin would wait for each other
                time.sleep(0.001)
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
            for training, row in read_rows(self.metrics_file):
                found.setdefault(training, []).append(row)
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
        return {file.stem: read_figure(file) for file in self.figure_files()}


def _flock(stream: IO[bytes], kind: int) -> bool:
    """Take a lock on a file, if nobody has another one that forbids it."""
    try:
        fcntl.flock(stream, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def new_folder(runs_dir: Path, stem: str, record: dict[str, Any]) -> RunFolder:
    """Make a run folder with its record under the next free name; never one without the other.

    Args:
        runs_dir: Folder of the run folders.
        stem: The name without its number.
        record: What `config.json` says; the time of the beginning is added.
    """
    runs_dir.mkdir(parents=True, exist_ok=True)
    with _alone(runs_dir) as alone:
        if alone:  # nobody makes one now: those that are there were left by processes that died
            for one in runs_dir.glob(f"{UNNAMED}*"):
                shutil.rmtree(one, ignore_errors=True)
        latest = max((one.age[0] for one in list_runs(runs_dir)), default=0)
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        order = max(time.time_ns(), latest + 1)  # also where the clock was set back
        temporary = Path(tempfile.mkdtemp(dir=runs_dir, prefix=UNNAMED))
        temporary.chmod(0o755)  # mkdtemp makes it private; a run is not
        record = {**record, "began": now, "began_ns": order}
        write_text(temporary / CONFIG, json.dumps(record, indent=1) + "\n")
        return RunFolder(_named(temporary, stem))


@contextmanager
def _alone(runs_dir: Path) -> Iterator[bool]:
    """Make runs one after the other; False where the file system cannot lock a folder."""
    handle = os.open(runs_dir, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            alone = True
        except OSError:
            alone = False
        yield alone
    finally:
        os.close(handle)


def _named(temporary: Path, stem: str) -> Path:
    """Give a new folder the next free name."""
    runs_dir = temporary.parent
    tails = [one.name.removeprefix(f"{stem}-") for one in runs_dir.glob(f"{stem}-*")]
    number = max((int(tail) for tail in tails if tail.isdigit()), default=0) + 1
    while True:
        try:
            return temporary.rename(runs_dir / f"{stem}-{number}")
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
            number += 1  # somebody else was faster


def discard_if_empty(folder: RunFolder) -> None:
    """Remove a run folder in which nothing was trained; one without its folder of runs goes too."""
    if not folder.checkpoints.exists() and folder.result is None:
        shutil.rmtree(folder.path)
        with contextlib.suppress(OSError):  # other runs are in there
            folder.path.parent.rmdir()


def list_runs(runs_dir: Path) -> list[RunFolder]:
    """List the runs of a folder, oldest first; before them those that cannot be read."""
    return sorted(
        (RunFolder(runs_dir / name) for name in names_of_runs(runs_dir)), key=lambda one: one.age
    )


def names_of_runs(runs_dir: Path) -> list[str]:
    """Name the runs of a folder, also those that cannot be read."""
    return sorted(file.parent.name for file in runs_dir.glob(f"[!.]*/{CONFIG}"))


def find_run(runs_dir: Path, name: str, owner: str) -> RunFolder:
    """Find a run by its name, by its path, or as `last`."""
    if name == "last" and (known := list_runs(runs_dir)):
        return known[-1]
    for folder in (RunFolder(runs_dir / name), RunFolder(Path(name))):
        if folder.config_file.is_file():
            return folder
    names = ", ".join(folder.name for folder in list_runs(runs_dir)[-5:]) or "none yet"
    raise UsageError(
        f"{owner}: RUN must be the name of a run in {runs_dir}, or last; got {shown(name)}. "
        f"There is {names}."
    )


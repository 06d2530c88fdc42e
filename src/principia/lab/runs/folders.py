r"""Run folders: everything about one run, so that it can be resumed, reported and used.

`config.json` says what was asked (page, experiment, knobs, seed, data) and on what it depends
(versions, threads, a hash of the code); it names nothing that could be executed. `metrics.jsonl`
has a line an epoch, `checkpoints/` the state of each training, `figures/` Plotly's own format,
`model/` the trained model, `result.json` the outcome and `report.html` all of it to look at.
Nothing that depends on the clock is in there but the time at which the run began.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import hashlib
import importlib
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, final

import principia
from principia.lab.course import catalog
from principia.lab.environment import environment, use_threads
from principia.lab.params import UsageError, shown, usage_error
from principia.lab.runs.experiments import Advance, CHECKPOINTS, FIGURES, METRICS, Outcome, Run
from principia.lab.seeds import Seed
from principia.lab.storage import clear_leftovers, write_text

__all__ = [
    "Asked", "OwnData", "RunFolder", "create", "discard_if_empty", "execute", "find_run",
    "list_runs",
]

CONFIG, RESULT, REPORT, MODEL, LOCK = "config.json", "result.json", "report.html", "model", ".lock"
FORMAT = 1


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
class Asked:
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


@final
@dataclass(frozen=True)
class RunFolder:
    """A run on disk."""

    path: Path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.name

    @cached_property
    def config(self) -> dict[str, Any]:
        """What the run was asked, and on what it depends."""
        return _read_json(self.path / CONFIG)

    @cached_property
    def asked(self) -> Asked:
        """What the run was asked."""
        try:
            plain = dict(self.config["asked"])
            own = plain.pop("data")
            data = OwnData(**{**own, "drop": tuple(own["drop"])}) if own else None
            return Asked(**plain, data=data)
        except (LookupError, TypeError) as error:
            raise UsageError(f"run: {CONFIG} of {self.name} does not have its form.") from error

    @property
    def result(self) -> dict[str, Any] | None:
        """The outcome as plain data, if the run has ended."""
        return _read_json(self.path / RESULT) if (self.path / RESULT).is_file() else None

    @property
    def status(self) -> str:
        """Whether it reached its goals, missed them, runs now, or was interrupted."""
        if (result := self.result) is not None:
            return "reached" if result["reached"] else "missed"
        try:
            with _locked(self.path):
                return "interrupted"
        except UsageError:
            return "running"
        except OSError:  # somebody else's folder, which cannot be locked
            return "unfinished"

    def curves(self) -> dict[str, list[dict[str, float]]]:
        """Read the numbers of every epoch of every training."""
        found: dict[str, list[dict[str, float]]] = {}
        if (self.path / METRICS).is_file():
            for line in (self.path / METRICS).read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                found.setdefault(row.pop("training"), []).append(row)
        return found

    def figures(self) -> dict[str, Any]:
        """Read the figures by name, in the order of the alphabet."""
        import plotly.io

        return {
            path.stem: plotly.io.from_json(path.read_text(encoding="utf-8"))
            for path in sorted((self.path / FIGURES).glob("*.json"))
        }


def create(runs_dir: Path, asked: Asked, command: str | None = None) -> RunFolder:
    """Make a new run folder with its configuration; there is never one without the other.

    Args:
        runs_dir: Folder of the run folders.
        asked: What the run has to do.
        command: How one asks for it on the command line; by default, how this program was called.
    """
    config = {
        "format": FORMAT,
        "asked": asdict(asked),
        "command": shlex.join(["principia", *sys.argv[1:]]) if command is None else command,
        "began": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "environment": environment(asked.threads),
        "code": _code_hash(asked),
        "git": _revision(),
    }
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=runs_dir, prefix=".new-"))
        temporary.chmod(0o755)  # mkdtemp makes it private; a run is not
        write_text(temporary / CONFIG, json.dumps(config, indent=1) + "\n")
        return RunFolder(_named(temporary, re.sub(r"\W+", "-", asked.key)))
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(
            f"run: {runs_dir} cannot be written: {reason}. Name another with --runs-dir."
        ) from error


def _named(temporary: Path, stem: str) -> Path:
    """Give a new folder the next free name."""
    runs_dir = temporary.parent
    tails = [one.name.removeprefix(f"{stem}-") for one in runs_dir.glob(f"{stem}-*")]
    number = max((int(tail) for tail in tails if tail.isdigit()), default=0) + 1
    while True:
        try:
            return temporary.rename(runs_dir / f"{stem}-{number}")
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            number += 1  # somebody else was faster


def discard_if_empty(folder: RunFolder) -> None:
    """Remove a run folder in which nothing was trained; one without its folder of runs goes too."""
    if not (folder.path / CHECKPOINTS).exists() and folder.result is None:
        shutil.rmtree(folder.path)
        with contextlib.suppress(OSError):  # other runs are in there
            folder.path.parent.rmdir()


def list_runs(runs_dir: Path) -> list[RunFolder]:
    """List the runs of a folder, oldest first."""
    found = [RunFolder(one.parent) for one in runs_dir.glob(f"[!.]*/{CONFIG}")]
    return sorted(found, key=lambda one: (str(one.config.get("began")), one.name))


def find_run(runs_dir: Path, name: str, owner: str) -> RunFolder:
    """Find a run by its name, by its path, or as `last`."""
    known = list_runs(runs_dir)
    if name == "last" and known:
        return known[-1]
    for one in (runs_dir / name, Path(name)):
        if (one / CONFIG).is_file():
            return RunFolder(one)
    names = ", ".join(one.name for one in known[-5:]) or "none yet"
    raise UsageError(
        f"{owner}: RUN must be the name of a run in {runs_dir}, or last; got {shown(name)}. "
        f"There is {names}."
    )


Watch = Callable[[int, str], AbstractContextManager[Advance]]


def execute(
    folder: RunFolder, *, say: Callable[[str], None], watch: Watch, save_every: float = 30.0
) -> Outcome:
    """Run what the folder's configuration asks, from its last checkpoints, and write the rest."""
    from principia.lab.runs.models import save_model
    from principia.lab.runs.report import run_report

    asked = folder.asked
    _same_code(folder)
    with _locked(folder.path), _asking_to_stop() as asked_to_stop:
        clear_leftovers(folder.path)
        use_threads(asked.threads)
        (folder.path / METRICS).write_text("", encoding="utf-8")  # trainings log their past again
        run = Run(
            Seed(asked.seed), asked.budget, Path(asked.data_dir) if asked.data_dir else None,
            say, watch, asked.device, folder.path, save_every, asked_to_stop,
        )
        outcome, schema = _outcome(run, asked)
        digest = ""
        if run.model is not None:
            extra = {"schema": schema} if schema else {}
            digest = save_model(folder.path / MODEL, run.model, extra, asked.page)
        result = {**outcome.to_json(), "figures": list(run.figures), "weights": digest}
        write_text(folder.path / REPORT, run_report(folder, result))
        # last, because it says that the run has ended
        write_text(folder.path / RESULT, json.dumps(result, indent=1) + "\n")
    return outcome


def _outcome(run: Run, asked: Asked) -> tuple[Outcome, dict[str, Any] | None]:
    from principia.lab.training.factories import added_callbacks, callback_knobs

    page = catalog.page(asked.page, "run")
    run.more_callbacks = added_callbacks(run, asked.knobs)
    own = {name: value for name, value in asked.knobs.items() if "." not in name}
    if asked.data is None:
        outcome, schema = page.experiments()[asked.experiment](run, **own), None
    else:
        outcome, schema = _learned(run, page, asked, own)
    if callback_knobs(asked.knobs) and not run.curves:
        raise UsageError(
            f"run: {asked.key} trains nothing by the training loop, so that callbacks change nothing. "
            f"Leave out {', '.join(name for name in asked.knobs if name not in own)}."
        )
    return replace(outcome, knobs=dict(asked.knobs)), schema


def _learned(
    run: Run, page: catalog.Page, asked: Asked, knobs: Mapping[str, Any]
) -> tuple[Outcome, dict[str, Any]]:
    """Train the page's model on the user's own table."""
    from principia.lab.data.own import load
    from principia.lab.data.schema import examples
    from principia.lab.training.learners import learn

    assert asked.data is not None  # noqa: S101
    table, sha256 = load(asked.data.source)
    if sha256 != asked.data.sha256:
        raise UsageError(f"run: {asked.data.source} has changed since the run began. Start a new.")
    ready = examples(table, asked.data.target, seed=run.seed, drop=asked.data.drop)
    goals = learn(run, page, ready, knobs)
    outcome = Outcome(
        asked.page, "", asked.budget, asked.seed, knobs, dict(run.metrics), goals,
        dict(run.figures),
    )
    return outcome, ready.schema.to_json()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time work in a run folder; the lock ends with the process."""
    with (path / LOCK).open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"run: {path.name} is running in another process.") from error
        yield


@contextmanager
def _asking_to_stop() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C or SIGTERM into a question that the loop answers after its step."""
    asked: list[int] = []
    before = {}

    def ask(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt  # the second time it is meant at once
        asked.append(number)
        sys.stderr.write("run: stopping after this step; once more stops at once.\n")

    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(ValueError):  # only the main thread may
            before[number] = signal.signal(number, ask)
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _same_code(folder: RunFolder) -> None:
    """Refuse to go on with other code than the run began with: it could not be the same run."""
    config = folder.config
    if config.get("format") != FORMAT:
        raise usage_error("run", f"format of {folder.name}", str(FORMAT), config.get("format"))
    if config["code"] != _code_hash(folder.asked):
        raise UsageError(
            f"run: {folder.name} must be resumed with the code that it began with; "
            f"{folder.asked.page} or what it uses has changed since. Start a new run."
        )
    now = environment(folder.asked.threads)
    for name, version in config["environment"].items():
        if now.get(name) != version:
            raise UsageError(
                f"run: {folder.name} must be resumed with {name} {version}; this is "
                f"{now.get(name)}. Start a new run."
            )


def _code_hash(asked: Asked) -> str:
    """Hash the source of a page, of the callbacks that are added, and of all that they use."""
    importlib.import_module("principia.lab.training.learners")  # which loads the training, too
    from principia.lab.training.factories import callback_factories, callback_knobs

    page = catalog.page(asked.page, "run")
    rooms = [page.load().__name__, page.load("experiments").__name__]
    added = [callback_factories()[name].function.__module__ for name in callback_knobs(asked.knobs)]
    digest = hashlib.sha256()
    for name in sorted(_used([*rooms, *added])):
        module = sys.modules[name]
        if module.__file__:
            digest.update(f"{name}\n".encode())
            digest.update(Path(module.__file__).read_bytes())
    return digest.hexdigest()


def _used(modules: list[str]) -> set[str]:
    """Name the modules that some use, directly or not, beside the training itself."""
    todo = [*modules, "principia.lab.training.loop", "principia.lab.training.learners"]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        module = sys.modules.get(name)
        if module is None or name in found:
            continue
        found.add(name)
        homes = {getattr(one, "__module__", None) for one in vars(module).values()}
        homes |= {getattr(one, "__name__", None) for one in vars(module).values()}
        todo += [one for one in homes if isinstance(one, str) and one.startswith("principia.")]
    return found


def _revision() -> str:
    """Give the git revision of the source, if it is a clone."""
    home = Path(principia.__file__).parent
    try:
        done = subprocess.run(
            ["git", "-C", str(home), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"run: {path} cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise UsageError(f"run: {path} must hold an object; it does not.")
    return found

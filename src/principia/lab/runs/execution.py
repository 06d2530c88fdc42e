r"""Execution: makes run folders, and runs what they ask from where it was left."""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import importlib
import json
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import principia
from principia.lab.course import catalog
from principia.lab.environment import environment, use_threads
from principia.lab.params import UsageError, usage_error
from principia.lab.runs.experiments import Advance, Outcome, Run
from principia.lab.runs.folders import RunConfig, RunFolder
from principia.lab.seeds import Seed
from principia.lab.storage import clear_leftovers, write_text

__all__ = ["create", "execute"]

FORMAT = 1  # of config.json


def create(runs_dir: Path, config: RunConfig, command: str | None = None) -> RunFolder:
    """Make a new run folder with its configuration; there is never one without the other.

    Args:
        runs_dir: Folder of the run folders.
        config: What the run has to do.
        command: How one asks for it on the command line; by default, how this program was called.
    """
    record = {
        "format": FORMAT,
        "asked": config.to_json(),
        "command": shlex.join(["principia", *sys.argv[1:]]) if command is None else command,
        "began": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "environment": environment(config.threads),
        "code": _code_hash(config),
        "git": _revision(),
    }
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=runs_dir, prefix=".new-"))
        temporary.chmod(0o755)  # mkdtemp makes it private; a run is not
        write_text(RunFolder(temporary).config_file, json.dumps(record, indent=1) + "\n")
        return RunFolder(_named(temporary, re.sub(r"\W+", "-", config.key)))
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


Watch = Callable[[int, str], AbstractContextManager[Advance]]


def execute(
    folder: RunFolder, *, say: Callable[[str], None], watch: Watch, save_every: float = 30.0
) -> Outcome:
    """Run what the folder's configuration asks, from its last checkpoints, and write the rest."""
    from principia.lab.runs.models import save_model

    config = folder.config
    _same_code(folder)
    with folder.locked(), _asking_to_stop() as asked_to_stop:
        clear_leftovers(folder.path)
        use_threads(config.threads)
        folder.metrics_file.write_text("", encoding="utf-8")  # trainings log their past again
        run = Run(
            Seed(config.seed), config.budget, Path(config.data_dir) if config.data_dir else None,
            say, watch, config.device, folder.path, save_every, asked_to_stop,
        )
        outcome, schema = _outcome(run, config)
        digest = ""
        if run.model is not None:
            extra = {"schema": schema} if schema else {}
            digest = save_model(folder.model, run.model, extra, config.page)
        result = {**outcome.to_json(), "figures": list(run.figures), "weights": digest}
        _write_report(folder, result, say)
        # last, because it says that the run has ended
        write_text(folder.result_file, json.dumps(result, indent=1) + "\n")
    return outcome


def _write_report(
    folder: RunFolder, result: Mapping[str, Any], say: Callable[[str], None]
) -> None:
    """Write the report; a report that cannot be drawn costs nobody the result of a training."""
    from principia.lab.runs.report import run_report

    try:
        report = run_report(folder, result)
    except Exception as error:
        line = " ".join(f"{type(error).__name__}: {error}".split())
        say(f"The report cannot be drawn: {line}. Mended, principia report {folder.name} does it.")
    else:
        write_text(folder.report_file, report)


def _outcome(run: Run, config: RunConfig) -> tuple[Outcome, dict[str, Any] | None]:
    from principia.lab.training.factories import added_callbacks, callback_knobs

    page = catalog.page(config.page, "run")
    run.more_callbacks = added_callbacks(run, config.knobs)
    own = {name: value for name, value in config.knobs.items() if "." not in name}
    if config.data is None:
        outcome, schema = page.experiments()[config.experiment](run, **own), None
    else:
        outcome, schema = _learned(run, page, config, own)
    if callback_knobs(config.knobs) and not run.curves:
        raise UsageError(
            f"run: {config.key} trains nothing by the training loop, so that callbacks change "
            f"nothing. Leave out {', '.join(name for name in config.knobs if name not in own)}."
        )
    return replace(outcome, knobs=dict(config.knobs)), schema


def _learned(
    run: Run, page: catalog.Page, config: RunConfig, knobs: Mapping[str, Any]
) -> tuple[Outcome, dict[str, Any]]:
    """Train the page's model on the user's own table."""
    from principia.lab.data.own import load
    from principia.lab.data.schema import examples
    from principia.lab.training.learners import learn

    assert config.data is not None  # noqa: S101
    table, sha256 = load(config.data.source)
    if sha256 != config.data.sha256:
        raise UsageError(f"run: {config.data.source} has changed since the run began. Start a new.")
    ready = examples(table, config.data.target, seed=run.seed, drop=config.data.drop)
    goals = learn(run, page, ready, knobs)
    outcome = Outcome(
        config.page, "", config.budget, config.seed, knobs, dict(run.metrics), goals,
        dict(run.figures),
    )
    return outcome, ready.schema.to_json()


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
    record = folder.record
    if record.get("format") != FORMAT:
        raise usage_error("run", f"format of {folder.name}", str(FORMAT), record.get("format"))
    if record["code"] != _code_hash(folder.config):
        raise UsageError(
            f"run: {folder.name} must be resumed with the code that it began with; "
            f"{folder.config.page} or what it uses has changed since. Start a new run."
        )
    now = environment(folder.config.threads)
    for name, version in record["environment"].items():
        if now.get(name) != version:
            raise UsageError(
                f"run: {folder.name} must be resumed with {name} {version}; this is "
                f"{now.get(name)}. Start a new run."
            )


def _code_hash(config: RunConfig) -> str:
    """Hash the source of a page, of the callbacks that are added, and of all that they use."""
    importlib.import_module("principia.lab.training.learners")  # which loads the training, too
    from principia.lab.training.factories import callback_factories, callback_knobs

    page = catalog.page(config.page, "run")
    rooms = [page.load().__name__, page.load("experiments").__name__]
    factories = callback_factories()
    added = [factories[name].function.__module__ for name in callback_knobs(config.knobs)]
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

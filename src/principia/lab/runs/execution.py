r"""Execution: makes run folders, and runs what they ask from where it was left."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import principia
from principia.lab.course import catalog
from principia.lab.course.fingerprint import fingerprint, loaded, roots_of_run
from principia.lab.environment import environment, kernels, need_device, other_kernels, use_threads
from principia.lab.params import UsageError, usage_error
from principia.lab.runs.config import RunConfig
from principia.lab.runs.experiments import Advance, Outcome, Run
from principia.lab.runs.folders import RunFolder, new_folder
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
        "environment": environment(config.threads),
        "kernels": kernels(),
        "code": _code(config),
        "git": _revision(),
    }
    try:
        return new_folder(runs_dir, re.sub(r"\W+", "-", config.key), record)
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(
            f"run: {runs_dir} cannot be written: {reason}. Name another with --runs-dir."
        ) from error


Watch = Callable[[int, str], AbstractContextManager[Advance]]


def execute(
    folder: RunFolder, *, say: Callable[[str], None], watch: Watch, save_every: float = 30.0,
    other_processor: bool = False,
) -> Outcome:
    """Run what the folder's configuration asks, from its last checkpoints, and write the rest.

    Args:
        folder: The run.
        say: Gets each sentence that it says.
        watch: Gets how far it is.
        save_every: Seconds between two checkpoints.
        other_processor: Whether it may go on with another processor than it began with; the result
            then says so.
    """
    from principia.lab.runs.models import save_model

    config = folder.config
    _same_code(folder)
    difference = other_kernels(folder.record.get("kernels", {}), kernels())
    if difference and not other_processor:
        raise UsageError(
            f"run: {folder.name} must be resumed on a processor like its first, which gives the "
            f"same bits; this is {difference}. Start a new run, or accept other bits with "
            "--allow-other-processor."
        )
    with folder.locked(), _asking_to_stop() as asked_to_stop:
        clear_leftovers(folder.path)
        need_device("run", config.device)
        if difference:
            folder.accept_processor(difference)
        use_threads(config.threads)
        folder.metrics_file.write_text("", encoding="utf-8")  # trainings log their past again
        run = Run(
            Seed(config.seed), config.budget, Path(config.data_dir) if config.data_dir else None,
            say, watch, config.device, folder.path, save_every, asked_to_stop, page=config.page,
        )
        outcome, schema = _outcome(run, config)
        digest = ""
        if run.model is not None:
            extra = {"schema": schema} if schema else {}
            digest = save_model(folder.model, run.model, extra, config.page, run.example)
        result = {**outcome.to_json(), "figures": list(run.figures), "weights": digest}
        if others := folder.other_processors:
            result["other_processors"] = others
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
    from principia.lab.training.factories import added_callbacks

    page = catalog.page(config.page, "run")
    run.more_callbacks = added_callbacks(run, config.knobs)
    own = {name: value for name, value in config.knobs.items() if "." not in name}
    if config.data is None:
        outcome, schema = catalog.experiment(config.key, "run")(run, **own), None
    else:
        outcome, schema = _learned(run, page, config, own)
    return replace(outcome, knobs=dict(config.knobs)), schema


def _learned(
    run: Run, page: catalog.Page, config: RunConfig, knobs: Mapping[str, Any]
) -> tuple[Outcome, dict[str, Any]]:
    """Train the page's model on the user's own table or pictures."""
    from principia.lab.data.own import load_examples
    from principia.lab.training.learners import learn

    assert config.data is not None  # noqa: S101
    own = config.data
    ready, sha256 = load_examples(
        own.source, own.target, seed=run.seed, drop=own.drop, knobs=knobs
    )
    if sha256 != own.sha256:
        raise UsageError(f"run: {own.source} has changed since the run began. Start a new.")
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
    if record.get("code") != _code(folder.config):
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


def _code(config: RunConfig) -> str:
    """Give the fingerprint of what runs here: the page, its training, the callbacks added to it."""
    from principia.lab.training.factories import callback_factories, callback_knobs

    page = catalog.page(config.page, "run")
    names = callback_knobs(config.knobs)
    added = [callback_factories()[name].function.__module__ for name in names]
    roots = roots_of_run(page, added, own_data=config.data is not None)
    return fingerprint(roots, loaded())


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

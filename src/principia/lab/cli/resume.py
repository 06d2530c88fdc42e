"""What may be said beside --resume: only what the run has been asked already."""

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from principia.lab.cli.measure import pair
from principia.lab.course import catalog
from principia.lab.params import REQUIRED, Knob, UsageError

if TYPE_CHECKING:
    from principia.lab.runs.config import RunConfig
    from principia.lab.runs.folders import RunFolder

__all__ = ["need_same"]

Flags = Mapping[str, Any]  # their values by their names; none, or an empty one, was not given


def need_same(folder: "RunFolder", given: Flags) -> None:
    """Refuse a flag that contradicts what a run was asked: a run that goes on stays what it was."""
    config = folder.config
    given = {name: value for name, value in given.items() if value not in (None, ())}
    for name, value in given.items():
        has, same = _CHECKS[name](config, value)
        if not same:
            raise UsageError(
                f"run: --{name} must be what {folder.name} has, {has}; got {_words(value)}. Leave "
                f"it out, or start a new run: {_new_run(config, given)}"
            )


def _plain(name: str) -> Callable[["RunConfig", Any], tuple[str, bool]]:
    return lambda config, value: (str(getattr(config, name)), getattr(config, name) == value)


def _data(config: "RunConfig", source: str) -> tuple[str, bool]:
    has = config.data.source if config.data else None
    return str(has or "its own"), has in (source, str(Path(source).resolve()))


def _target(config: "RunConfig", target: str) -> tuple[str, bool]:
    has = config.data.target if config.data else None
    return str(has or "none"), has == target


def _drop(config: "RunConfig", drop: tuple[str, ...]) -> tuple[str, bool]:
    has = config.data.drop if config.data else ()
    return ", ".join(has) or "none", set(has) == set(drop)


def _data_dir(config: "RunConfig", folder: str) -> tuple[str, bool]:
    return str(config.data_dir or "none"), config.data_dir == str(Path(folder).resolve())


def _set(config: "RunConfig", pairs: tuple[str, ...]) -> tuple[str, bool]:
    from principia.lab.training.factories import callback_factories, settings_with_callbacks

    knobs = dict(_knobs(config))
    turned = settings_with_callbacks(config.key, knobs, dict(pair("run", one) for one in pairs))
    for factory in callback_factories().values():
        knobs |= factory.knobs
    for name, value in turned.items():
        has = config.knobs.get(name, knobs[name].default)
        if json.dumps(has, default=repr) != json.dumps(value, default=repr):
            return f"{name}={'no default' if has is REQUIRED else _words(has)}", False
    return "", True


def _knobs(config: "RunConfig") -> Mapping[str, Knob]:
    """Give what could be turned when the run began."""
    if config.data is None:
        return catalog.page(config.page, "run").experiments()[config.experiment].knobs
    from principia.lab.data.own import load_examples
    from principia.lab.seeds import Seed
    from principia.lab.training.learners import knobs_for, learner_of, picture_learner

    own, page = config.data, catalog.page(config.page, "run")
    if not own.target:  # a folder of pictures
        return knobs_for(picture_learner(page))
    ready, _ = load_examples(own.source, own.target, seed=Seed(config.seed), drop=own.drop)
    return knobs_for(learner_of(page, ready.schema))


_CHECKS: Mapping[str, Callable[["RunConfig", Any], tuple[str, bool]]] = {
    **{name: _plain(name) for name in ("budget", "seed", "device", "threads")},
    "set": _set, "data": _data, "target": _target, "drop": _drop, "data-dir": _data_dir,
}


def _words(value: Any) -> str:
    """Write a value as one would type it."""
    if isinstance(value, (tuple, list)):
        return ",".join(map(_words, value))
    return "none" if value is None else str(value)


def _new_run(config: "RunConfig", given: Flags) -> str:
    """Write the command of a new run: what this one was asked, with what is given now."""
    own = None if "data" in given else config.data  # another table has other columns
    usual = type(config)(config.page, config.experiment)  # what need not be said
    plain = {name: getattr(config, name) for name in ("budget", "seed", "device")}
    asked = {
        **{name: value for name, value in plain.items() if value != getattr(usual, name)},
        "threads": config.threads, "data-dir": config.data_dir,
        **({"data": own.source, "target": own.target or None, "drop": own.drop} if own else {}),
        **{name: value for name, value in given.items() if name != "set"},
    }
    knobs = {name: _words(value) for name, value in config.knobs.items()}
    knobs |= dict(pair("run", one) for one in given.get("set", ()))
    # a table is learned by a page, not by an experiment
    words = ["principia", "run", config.page if "data" in asked else config.key]
    for name, value in asked.items():
        for one in value if isinstance(value, tuple) else () if value is None else (value,):
            words += [f"--{name}", str(one)]
    for name, value in knobs.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)

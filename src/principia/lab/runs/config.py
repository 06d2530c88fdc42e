r"""What a run is asked to do, in plain values; everything is checked before anything is written."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, final

from principia.lab.course import catalog
from principia.lab.course.fingerprint import note
from principia.lab.environment import cores, need_device
from principia.lab.params import Range, SeedNumber, UsageError, knobs_of, shown, suggestion, text_of

__all__ = ["OwnData", "RunConfig", "config_of"]


@final
@dataclass(frozen=True)
class OwnData:
    """The user's data: a table with its target and the columns left out, or a picture folder."""

    source: str
    target: str
    drop: tuple[str, ...] = ()
    sha256: str = ""

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> OwnData:
        """Take it back from plain data, whose values are checked."""
        texts = (plain["source"], plain["target"], plain["sha256"], *plain["drop"])
        if not all(isinstance(one, str) for one in texts):
            raise TypeError("data are named by texts")
        return cls(**{**plain, "drop": tuple(plain["drop"])})


def _usual_threads(budget: str) -> int:
    """How many threads compute unless somebody says so: one a core at full budget."""
    return cores() if budget == "full" else 1


@final
@dataclass(frozen=True)
class RunConfig:
    """What a run was asked to do, in plain values."""

    page: str
    experiment: str  # empty with own data
    budget: Literal["quick", "full"] = "quick"
    seed: SeedNumber = 0
    knobs: Mapping[str, Any] = field(default_factory=dict)
    data: OwnData | None = None
    data_dir: str | None = None
    device: str = "cpu"
    threads: Annotated[int, Range(1, 1024)] = 1

    @property
    def key(self) -> str:
        """Page and experiment."""
        return f"{self.page}:{self.experiment}" if self.experiment else self.page

    @property
    def command(self) -> str:
        """How one asks for it on the command line."""
        words = ["principia", "run", self.key]
        if self.data is not None:
            words += ["--data", self.data.source]
            words += ["--target", self.data.target] if self.data.target else []
            words += [word for column in self.data.drop for word in ("--drop", column)]
        words += ["--budget", self.budget, "--seed", str(self.seed)]
        for knob, value in self.knobs.items():
            words += ["--set", f"{knob}={text_of(value)}"]
        words += ["--data-dir", self.data_dir] if self.data_dir else []
        words += ["--device", self.device] if self.device != "cpu" else []
        if self.threads != _usual_threads(self.budget):
            words += ["--threads", str(self.threads)]
        return shlex.join(words)

    def to_json(self) -> dict[str, Any]:
        """Give it as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> RunConfig:
        """Take it back from plain data, whose values are checked."""
        data = None if plain["data"] is None else OwnData.from_json(plain["data"])
        found = cls(**{**_accepted(cls, plain), "data": data})
        if not isinstance(found.knobs, Mapping) or (data is None and not found.experiment):
            raise TypeError("neither an experiment nor a table")
        return found


def _accepted(kind: type, plain: Mapping[str, Any]) -> dict[str, Any]:
    """Check the values that have a domain."""
    known = knobs_of(kind.__init__)
    return {
        name: known[name].accept("run", value) if name in known else value
        for name, value in plain.items()
    }


def config_of(
    key: str, knobs: Mapping[str, Any], *, budget: Any = "quick", seed: int = 0,
    data: str | None = None, target: str | None = None, drop: Sequence[str] = (),
    data_dir: str | None = None, device: str = "cpu", threads: int | None = None,
) -> RunConfig:
    """Say what a run has to do, or refuse it in a sentence.

    Args:
        key: Key of a page, or page:experiment.
        knobs: Values or texts of knobs, and of callbacks as `callback.knob`.
        budget: `quick` or `full`.
        seed: Seed of everything random.
        data: The user's own table, an embedded one, or a folder of pictures.
        target: Column of the table to predict.
        drop: Columns of the table to leave out.
        data_dir: Folder with the data sets.
        device: Where to compute.
        threads: Threads to compute with; by default one a core at full budget, else one.
    """
    from principia.lab.training.factories import settings_with_callbacks

    threads = threads or _usual_threads(budget)
    place, _, name = key.partition(":")
    page = catalog.page(place, "run")
    note(page)
    if data_dir is not None and not Path(data_dir).is_dir():
        raise UsageError(f"run: folder {shown(data_dir)} does not exist. Name the data folder.")
    need_device("run", device)
    where = str(Path(data_dir).resolve()) if data_dir else None
    if data is not None:
        if name:
            raise UsageError(f"run: --data needs a page; got the experiment {key}. Use {place}.")
        own, chosen = _own_data(page, data, target, tuple(drop), knobs, seed)
        return RunConfig(page.key, "", budget, seed, chosen, own, where, device, threads)
    if target is not None or drop:
        raise UsageError("run: --target and --drop need --data. Name your table with it.")
    experiment = catalog.experiment(key, "run")
    chosen = settings_with_callbacks(
        experiment.key, experiment.knobs, knobs, trains=experiment.trains
    )
    return RunConfig(page.key, experiment.name, budget, seed, chosen, None, where, device, threads)


def _own_data(
    page: catalog.Page, data: str, target: str | None, drop: tuple[str, ...],
    knobs: Mapping[str, Any], seed: int,
) -> tuple[OwnData, dict[str, Any]]:
    """Read the data once now, so that whatever is wrong with it is said before the run begins."""
    from principia.lab.data.embedded import TABLES
    from principia.lab.data.own import default_target, load, load_examples
    from principia.lab.seeds import Seed
    from principia.lab.training.factories import settings_with_callbacks
    from principia.lab.training.learners import knobs_for, learner_of, picture_learner, trains

    folder = data not in TABLES and Path(data).is_dir()
    if folder and (target is not None or drop):
        raise UsageError(
            f"run: --target and --drop are for tables; {data} is a folder, whose subfolders name "
            "the classes. Leave them out."
        )
    target = "" if folder else target or default_target(data)
    if target is None:
        hint = suggestion("", load(data)[0])
        raise UsageError(f"run: --data {data} needs --target COLUMN. {hint}")
    if folder:  # the knobs say how its pictures are read
        kind = picture_learner(page)
    else:
        kind = learner_of(page, load_examples(data, target, seed=Seed(seed), drop=drop)[0].schema)
    chosen = settings_with_callbacks(page.key, knobs_for(kind), knobs, trains=trains(kind))
    _, sha256 = load_examples(data, target, seed=Seed(seed), drop=drop, knobs=chosen)
    source = data if sha256 == data else str(Path(data).resolve())
    return OwnData(source, target, drop, sha256), chosen

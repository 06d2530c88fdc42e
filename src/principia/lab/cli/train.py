"""`run`, `runs`, `report`, `predict`, `export`: everything about runs and what they trained."""

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from principia.lab.cli.measure import pair
from principia.lab.cli.resume import need_same
from principia.lab.cli.terminal import progress, say, table
from principia.lab.course import catalog
from principia.lab.course.fingerprint import note
from principia.lab.params import NonNegativeFloat, Range, SeedNumber, UsageError
from principia.lab.storage import need_writable, write_bytes, write_text

if TYPE_CHECKING:
    from principia.lab.runs.folders import RunFolder

__all__ = ["export", "predict", "report", "run", "runs"]

RUNS = "runs"  # the folder of runs, in the folder where one is


def run(
    key: str = "",
    *,
    budget: Literal["quick", "full"] | None = None,
    seed: SeedNumber | None = None,
    set_: tuple[str, ...] = (),
    data: str | None = None,
    target: str | None = None,
    drop: tuple[str, ...] = (),
    resume: str | None = None,
    runs_dir: str = RUNS,
    data_dir: str | None = None,
    device: str | None = None,
    threads: Annotated[int, Range(1, 1024)] | None = None,
    save_every: NonNegativeFloat = 30.0,
    allow_other_processor: bool = False,
) -> int:
    """Run an experiment, or train a page's model on your own data; all of it goes to a run folder.

    Exit code 0 if every goal is reached, 1 if not, 2 for wrong use. A run that was interrupted goes
    on with --resume, and ends as if nothing had happened.

    Args:
        key: Key of a page, or page:experiment.
        budget: quick runs on embedded data in seconds; full must reach the published figure. By
            default quick.
        seed: Seed of everything random, by default 0.
        set_: Turn a knob, as knob=value, or add a callback to the training, as callback.knob=value
            (see principia callbacks); may be repeated.
        data: Your own table (.csv, .tsv, .npz, .parquet), an embedded one such as iris, or a folder
            of pictures with one subfolder a class.
        target: Column of your table to predict.
        drop: Column of your table to leave out; may be repeated.
        resume: Go on with an interrupted run: its name, or last. What it was asked, it keeps.
        runs_dir: Folder of the run folders.
        data_dir: Folder with the data sets; searched before PRINCIPIA_DATA.
        device: Where to compute, as torch names it: cpu, cuda, mps; by default cpu.
        threads: Threads to compute with; by default one a core at full budget, else one.
        save_every: Seconds between two checkpoints.
        allow_other_processor: Go on with another processor than the run began with, which gives
            other bits; the result says so.
    """
    from principia.lab.runs.config import config_of
    from principia.lab.runs.execution import create, execute
    from principia.lab.runs.folders import discard_if_empty, find_run

    if resume is not None:
        if key:
            raise UsageError("run: --resume needs no KEY; the run folder says what it was.")
        folder = find_run(Path(runs_dir), resume, "run")
        note(catalog.page(folder.config.page, "run"))
        need_same(folder, {
            "budget": budget, "seed": seed, "set": set_, "data": data, "target": target,
            "drop": drop, "data-dir": data_dir, "device": device, "threads": threads,
        })
        if (result := folder.result) is not None:
            say(f"{folder.name} has ended already. Its report: {folder.report_file}")
            _tell_processors(folder)
            return 0 if result["reached"] else 1
    else:
        if allow_other_processor:
            raise UsageError("run: --allow-other-processor needs --resume. Name the run with it.")
        config = config_of(
            key, dict(pair("run", one) for one in set_), budget=budget or "quick", seed=seed or 0,
            data=data, target=target, drop=drop, data_dir=data_dir, device=device or "cpu",
            threads=threads,
        )
        folder = create(Path(runs_dir), config)
    try:
        outcome = execute(
            folder, say=say, watch=progress, save_every=save_every,
            other_processor=allow_other_processor,
        )
    except KeyboardInterrupt:
        sys.stderr.write(f"run: interrupted. Go on with: {_again(folder.name, runs_dir)}\n")
        raise SystemExit(130) from None
    except UsageError:
        if resume is None:
            discard_if_empty(folder)
        raise
    if folder.report_file.is_file():
        say(f"Report: {folder.report_file}")
    for sentence in outcome.missed:
        say(f"NOT REACHED: {sentence}", style="bold red")
    if outcome.reached:
        goals = f"reaches its {folder.config.budget} goals"
        what = goals if outcome.experiment else "is no worse than a guess"
        say(f"{folder.config.key} {what}.", style="bold green")
    _tell_processors(folder)
    return 0 if outcome.reached else 1


def _tell_processors(folder: "RunFolder") -> None:
    for difference in folder.other_processors:
        say(
            f"It went on with another processor, {difference}: its bits are not those of a run "
            "that was left alone.", style="yellow",
        )


def _again(name: str, runs_dir: str) -> str:
    where = "" if runs_dir == RUNS else f" --runs-dir {runs_dir}"
    return f"principia run --resume {name}{where}"


def runs(*, runs_dir: str = RUNS) -> int:
    """List the runs of a folder: what they were, and how they ended.

    Args:
        runs_dir: Folder of the run folders.
    """
    from principia.lab.runs.folders import list_runs

    rows = []
    for one in list_runs(Path(runs_dir)):
        if one.broken:
            rows.append((one.name, "broken", one.broken, "", "", ""))
            continue
        result = one.result or {}
        goals = result.get("goals", {})
        numbers = [
            f"{name.replace('_', ' ')} {value:.4g}"
            for name, value in result.get("metrics", {}).items()
            if name in goals and isinstance(value, float)
        ]
        config = one.config
        what = f"{config.key} on {Path(config.data.source).name}" if config.data else config.key
        began = one.record["began"][:16].replace("T", " ")
        rows.append((one.name, one.status, what, config.budget, ", ".join(numbers), began))
    if rows:
        table(("run", "status", "what", "budget", "numbers", "began (UTC)"), rows)
    else:
        say(f"There are no runs in {runs_dir}. Try principia run networks/mlp.")
    return 0


def report(run: str, *, runs_dir: str = RUNS) -> int:
    """Write the report of a run again, from what its folder holds.

    Args:
        run: Name of a run, or last.
        runs_dir: Folder of the run folders.
    """
    from principia.lab.runs.folders import find_run
    from principia.lab.runs.report import run_report

    folder = find_run(Path(runs_dir), run, "report")
    path = folder.report_file
    need_writable("report", path)
    write_text(path, run_report(folder))
    say(f"Report: {path}")
    return 0


def predict(
    run: str, *, data: str, out: str | None = None, runs_dir: str = RUNS
) -> int:
    """Predict with the model of a run that learned from your own data: rows, or pictures.

    Args:
        run: Name of a run, or last.
        data: Table with the columns that the model learned from; or a picture, or a folder of them.
        out: CSV file for the table with its predictions; without it they are printed.
        runs_dir: Folder of the run folders.
    """
    from principia.lab.data.own import load
    from principia.lab.data.schema import Schema
    from principia.lab.runs.folders import find_run
    from principia.lab.runs.models import load_model
    from principia.lab.training.learners import predictions

    folder = find_run(Path(runs_dir), run, "predict")
    if out is not None:
        need_writable("predict", Path(out))
    model, described = load_model(folder.model)
    if "schema" not in described:
        raise UsageError(
            f"predict: {folder.name} learned from its own data set, not from a table. "
            f"Train with principia run {folder.config.page} --data mine.csv --target y."
        )
    if "pictures" in described["schema"]:
        rows = _of_pictures(model, described["schema"], Path(data))
    else:
        schema = Schema.from_json(described["schema"])
        cells, _ = load(data)
        found = predictions(model, schema, schema.encode(cells)).answers.tolist()
        if schema.task == "classification":
            found = [schema.target.values[place] for place in found]
        named = f"predicted_{schema.target.name}"
        columns = [] if out is None else [[name, *cells.as_given(name)] for name in cells]
        rows = list(zip(*columns, [named, *found], strict=True))
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([_cell(one) for one in row] for row in rows)
    if out is None:
        sys.stdout.write(stream.getvalue())
        return 0
    write_text(Path(out), stream.getvalue())
    say(f"{len(rows) - 1} predictions: {out}")
    return 0


def _of_pictures(model: Any, described: dict[str, Any], where: Path) -> list[tuple[Any, ...]]:
    """Predict a picture, or all of a folder: rows of a table with its head."""
    from principia.lab.data.own_pictures import PictureSchema, pictures_in
    from principia.lab.training.learners import predictions

    schema = PictureSchema.from_json(described)
    files = pictures_in(where) if where.is_dir() else [where]
    if not files or not all(one.is_file() for one in files):
        raise UsageError(
            f"predict: --data must be a PNG or JPEG picture, or a folder of them; got {where}. The "
            "model learned from pictures."
        )
    found = predictions(model, schema, schema.encode(files))
    rows = zip(files, found.answers.tolist(), found.sure.tolist(), strict=True)
    return [
        ("picture", "predicted_class", "probability"),
        *((str(file), schema.classes[place], f"{share:.4f}") for file, place, share in rows),
    ]


def _cell(value: Any) -> Any:
    """Write whole numbers without a point: classes come back as they were given."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return int(value) if whole else value


def export(
    run: str, *, to: Literal["onnx", "safetensors"], out: str | None = None, runs_dir: str = RUNS
) -> int:
    """Write the model of a run for other programs.

    Args:
        run: Name of a run, or last.
        to: onnx takes a batch of any size and gives outputs; safetensors holds the weights alone.
        out: File to write; by default the run's name with the format's ending.
        runs_dir: Folder of the run folders.
    """
    from safetensors.torch import save

    from principia.lab.runs.exporting import onnx_bytes
    from principia.lab.runs.folders import find_run
    from principia.lab.runs.models import load_model, weights_of

    folder = find_run(Path(runs_dir), run, "export")
    path = Path(out or f"{folder.name}.{to}")
    need_writable("export", path)
    model, described = load_model(folder.model)
    if to == "onnx":
        write_bytes(path, onnx_bytes(model, described["example"]))
    else:
        write_bytes(path, save(weights_of(model, folder.config.page)))
    say(f"Exported: {path}")
    return 0

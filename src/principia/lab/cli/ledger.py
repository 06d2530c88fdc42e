"""`ledger`: what was published, beside what we measured."""

import json as plain
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from principia.lab.cli.terminal import counted, fancy, progress, record, say
from principia.lab.cli.train import RUNS
from principia.lab.course.fingerprint import EARLIER
from principia.lab.environment import cores
from principia.lab.params import Jobs, Seeds

if TYPE_CHECKING:
    from principia.lab.runs.experiments import Experiment

__all__ = ["ledger"]


def ledger(
    keys: tuple[str, ...] = (),
    *,
    update: bool = False,
    seeds: Seeds = 1,
    runs_dir: str = RUNS,
    data_dir: str | None = None,
    threads: Jobs | None = None,
    file: str | None = None,
    json_: bool = False,
    markdown: bool = False,
) -> int:
    """Show every experiment with its published figure and ours; measure again with --update.

    Exit code 0 if every figure shown is reached by the code as it is now, 1 if not.

    Args:
        keys: Chapters, pages, or single experiments as page:experiment; all of them by default.
        update: Run the experiments at full budget, and write what they give into the ledger.
        seeds: How many seeds to measure, 0 and up.
        runs_dir: Folder of the run folders.
        data_dir: Folder with the data sets; searched before PRINCIPIA_DATA.
        threads: Threads to compute with; by default one a core.
        file: The ledger's file; by default the one that comes with Principia.
        json_: Print the rows as JSON.
        markdown: Print the table as Markdown.
    """
    from principia.lab.runs import ledger as book

    path = Path(file) if file else book.FILE
    chosen = book.experiments(keys)
    if update:
        for one in chosen:
            say(f"Measuring {one.key} on {counted(seeds, 'seed')}.", style="bold")
            row = book.measure(
                one, range(seeds), Path(runs_dir), threads or cores(), say, progress, data_dir
            )
            book.update(one.key, row, path)
    rows = book.read(path)
    verdicts = {one.key: book.verdict(one, rows.get(one.key)) for one in chosen}
    old = book.stale(chosen, rows)
    reached = [key for key, found in verdicts.items() if found == "reached" and key not in old]
    if json_:
        shown = {key: {**rows.get(key, {}), "verdict": found, "stale": key in old}
                 for key, found in verdicts.items()}
        sys.stdout.write(plain.dumps(shown, indent=1) + "\n")
    elif markdown:
        sys.stdout.write(book.to_markdown(chosen, rows))
    else:
        for one in chosen:
            found = verdicts[one.key]
            said = f"{EARLIER}: {found}" if one.key in old else found
            record(one.key, _fields(one, rows.get(one.key), said))
        if fancy():
            rest = f"; {counted(len(old), 'row')} {EARLIER}" if old else ""
            say(f"{len(reached)} of {len(chosen)} published figures are reached{rest}.", "bold")
    return 0 if len(reached) == len(chosen) else 1


def _fields(experiment: "Experiment", row: dict | None, verdict: str) -> dict[str, str]:
    from principia.lab.runs import ledger as book

    goals = experiment.reaches
    fields = {
        "published": experiment.source,
        "goal": "; ".join(f"{name.replace('_', ' ')} {goal.goal}" for name, goal in goals.items()),
        "verdict": verdict,
    }
    if row is None:
        return fields
    where = row["environment"]
    weights = [one[:12] for one in row["weights"] if one]
    paired = book.effects(row)
    return {
        **fields,
        "ours": book.ours(experiment, row),
        **({"effects": "; ".join(paired)} if paired else {}),
        "seeds": ", ".join(map(str, row["seeds"])),
        "command": row["command"],
        "measured": f"{row['measured']}, {where['platform']}, torch {where['torch']}, "
        f"{counted(where['threads'], 'thread')}",
        "weights": ", ".join(weights) or "none kept",
    }

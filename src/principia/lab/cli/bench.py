"""`bench`: races against specialist libraries."""

import json as plain
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from principia.lab.cli.terminal import counted, fancy, progress, say, table
from principia.lab.params import Jobs, Range, suggestion, usage_error
from principia.lab.storage import need_writable, write_text

if TYPE_CHECKING:
    from principia.lab.racing.races import Race

__all__ = ["bench"]

REPORT = "principia-races.html"


def bench(
    keys: tuple[str, ...] = (),
    *,
    threads: Jobs = 1,
    seconds: Annotated[float, Range(0.0, 3600.0)] = 2.0,
    against: str | None = None,
    json_: bool = False,
    markdown: bool = False,
    report: str = REPORT,
    file: str | None = None,
    races: str | None = None,
) -> int:
    """Race the same work by us and by specialist libraries, as ratios: above 1 we are faster.

    Exit code 0 if all sides did the same work, 1 if a result differs.

    Args:
        keys: Chapters, or single races as chapter:race; all of them by default.
        threads: Threads of every side.
        seconds: About how long to measure each size of each race.
        against: Compare with kept results instead of keeping these: last, or a file.
        json_: Print the results as JSON instead of tables; a comparison goes to standard error.
        markdown: Race nothing; print the kept results as Markdown.
        report: File for the report with the scaling curves.
        file: The file that keeps results; by default the one that comes with Principia.
        races: Folder with the races, one file a chapter; by default the one beside the source code.
    """
    from principia.lab.racing import results

    path = Path(file) if file else results.FILE
    if markdown:
        named = Path(races) if races else None
        sys.stdout.write(results.to_markdown(_chosen(_kept("file", path), keys), named))
        return 0
    from principia.lab.course.fingerprint import of_race
    from principia.lab.racing.races import find, folder_of_races

    before = None
    if against is None:
        need_writable("bench", path)
    else:
        before = _kept("against", path if against == "last" else Path(against))
    need_writable("bench", Path(report))
    folder = folder_of_races(races)
    # before they are imported: what is edited after that does not race
    codes = {file.stem: of_race(file) for file in folder.glob("[!_]*.py")}
    chosen = find(keys, folder)
    rows = {}
    for place, race in enumerate(chosen, start=1):
        what = f"race {place} of {len(chosen)}, {race.key}"
        rows[race.key] = _measured(race, what, threads, seconds, codes[race.chapter])
        if before is None:  # what is measured is not lost, whatever happens to the next race
            results.store({race.key: rows[race.key]}, path)
        if not json_:
            _show(race.key, rows[race.key])
    from principia.lab.runs.report import races_report

    write_text(Path(report), races_report(rows))
    if json_:
        sys.stdout.write(plain.dumps(rows, indent=1) + "\n")
        if before is not None:
            sys.stderr.writelines(f"{line}\n" for _, line in _compared(before, rows))
    else:
        _tell(rows)
        if before is not None:
            for style, line in _compared(before, rows):
                say(line, style=style)
        say(f"Report: {report}")
    same = all(side.get("agrees", True) for row in rows.values() for one in row["sizes"]
               for side in one["sides"].values())
    return 0 if same else 1


def _chosen(rows: Mapping[str, Any], keys: tuple[str, ...]) -> Mapping[str, Any]:
    known = {*rows, *(key.split(":")[0] for key in rows)}
    for key in keys:
        if key not in known:
            hint = suggestion(key, sorted(known))
            raise usage_error("bench", "KEY", "a chapter or race that is kept", key, hint)
    return {
        key: row for key, row in rows.items()
        if not keys or key in keys or key.split(":")[0] in keys
    }


def _kept(name: str, path: Path) -> Mapping[str, Any]:
    from principia.lab.racing.results import read

    if not path.is_file():
        raise usage_error(
            "bench", name, "a file with kept results", str(path), "Race once without it."
        )
    return read(path)


def _measured(
    race: "Race", what: str, threads: int, seconds: float, code: str
) -> Mapping[str, Any]:
    """Measure a race at all its sizes; missing peers are named at once."""
    import numpy as np

    from principia.lab.racing.clock import measure
    from principia.lab.racing.results import row_of

    for name, package in race.missing().items():
        sys.stderr.write(
            f"bench: {name} does not race in {race.key}: {package} is not installed. "
            "Install it with pip install 'principia[peers]'.\n"
        )
    rng = np.random.default_rng(0)
    measured = []
    with progress(len(race.sizes), what, alive=False) as advance:  # its thread would cost CPU time
        for size in race.sizes:
            measured.append(measure(race, size, threads=threads, seconds=seconds, rng=rng))
            advance("")
    return row_of(race, measured, threads, code)


def _show(key: str, row: Mapping[str, Any]) -> None:
    from principia.lab.racing.pictures import ratio_table

    columns, rows = ratio_table(key, row)
    if fancy():  # the title has the race, and the report how well results agree
        table(columns[:-1], [cells[:-1] for cells in rows], title=f"{key}: {row['work']}")
    else:
        table(("race", *columns), [(key, *cells) for cells in rows])


def _tell(rows: Mapping[str, Any]) -> None:
    """Say where we lose, and why."""
    from principia.lab.racing import results

    for key, row in rows.items():
        for name, text in results.notes(row):
            say(f"{key}: {name}, {text}.", style="bold red" if "other work" in text else "")
        for name in results.lost(key, row):
            reason = row["slower"].get(name, "no reason is known yet.")
            say(f"{key}: {name} is faster. {reason}", style="yellow")
    found = [one for key, row in rows.items() for one in results.ratios(key, row)]
    count = {word: sum(one.verdict == word for one in found)
             for word in ("faster", "even", "slower")}
    say(
        f"{counted(len(rows), 'race')}, {counted(len(found), 'ratio')}: faster in "
        f"{count['faster']}, even in {count['even']}, slower in {count['slower']}.",
        style="bold",
    )


def _compared(before: Mapping[str, Any], rows: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name what became slower, or faster, beyond its interval; each line with its style."""
    from principia.lab.racing import results

    found = list(results.changes(before, rows))
    for word, was, now in found:
        where = results.size_text(now.size, rows[now.key]["unit"])
        yield "yellow" if word == "slower" else "green", (
            f"{now.key} has become {word} against {now.peer} at {where}: "
            f"{results.spread_text(was.cpu)}, now {results.spread_text(now.cpu)}."
        )
    new = [key for key in rows if key not in before]
    if new:
        yield "", f"Nothing is kept of {', '.join(new)}."
    kept, measured = (
        {name: value for key in rows if key in before
         for name, value in some[key]["environment"].items()} for some in (before, rows)
    )
    other = [f"{name} {value}, now {measured[name]}" for name, value in kept.items()
             if measured.get(name, value) != value]
    if other:
        yield "yellow", f"The kept results are from another place: {'; '.join(other)}."
    if not any(word == "slower" for word, _, _ in found):
        yield "bold green", "Nothing has become slower beyond its interval."


r"""Keeps what races measured in one file, compares it with what was kept, and writes it down.

A row is one race: for every size the cost of every side and the ratios of the peers to ours, with
the environment in which they were measured together and the fingerprint of the code. Above 1 we are
faster. Once the code has changed, the row is stale, and every table says so.
"""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from principia.lab.course.fingerprint import EARLIER, Sources, of_race
from principia.lab.environment import cores, environment, processor
from principia.lab.params import UsageError
from principia.lab.racing.races import OURS, Race, folder_of_races
from principia.lab.storage import write_text

__all__ = [
    "FILE", "Ratio", "changes", "exponents", "growth_text", "lost", "memory_text", "notes",
    "place_of", "places", "ratios", "read", "row_of", "size_text", "spread_text", "stale",
    "store", "to_markdown",
]

FILE = Path(__file__).with_name("races.json")
FORMAT = 1
BETWEEN_RUNS = 1.1  # by so much ratios of the same code differ between processes, measured
PARTS = {"work", "unit", "sizes", "growth", "slower", "missing", "measured", "environment"}

Row = Mapping[str, Any]


def row_of(race: Race, measured: Sequence[Mapping[str, Any]], threads: int, code: str) -> Row:
    """Put together what was measured of a race at its sizes.

    Args:
        race: The race.
        measured: What was measured at each size.
        threads: Of every side.
        code: The fingerprint of what raced.
    """
    versions = {one.package: one.version for one in race.peers.values() if one.version}
    return {
        "work": race.work,
        "unit": race.unit,
        "sizes": list(measured),
        "growth": {name: exponents(measured, name)[0] for name in (OURS, *race.peers)},
        "slower": {name: one.slower for name, one in race.peers.items() if one.slower},
        "missing": race.missing(),
        "code": code,
        "measured": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "environment": {
            **environment(threads), "processor": processor(), "cores": cores(), **versions,
        },
    }


def exponents(measured: Sequence[Mapping[str, Any]], *names: str) -> list[float | None]:
    """Fit how the cost of sides grows, over the sizes that all of them raced."""
    from principia.lab.racing.clock import growth

    costs = {
        one["size"]: [one["sides"][name]["cpu"] for name in names] for one in measured
        if all("cpu" in one["sides"].get(name, {}) for name in names)
    }
    return [growth([*costs], [one[place] for one in costs.values()]) for place in range(len(names))]


def read(file: Path = FILE) -> dict[str, Row]:
    """Read the rows, by the keys of their races."""
    if not file.is_file():
        return {}
    try:
        document = json.loads(file.read_bytes())
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']} is not {FORMAT}")
        for key, row in document["races"].items():
            if not row.keys() >= PARTS:
                raise ValueError(f"{key} lacks {', '.join(sorted(PARTS - row.keys()))}")
        return document["races"]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(
            f"bench: file must be one that principia bench has written; got {file}, where {error}. "
            "Name another, and it is written anew."
        ) from error


def store(rows: Mapping[str, Row], file: Path = FILE) -> None:
    """Put rows into the file; those of other races stay."""
    kept = {**read(file), **rows}
    text = json.dumps({"format": FORMAT, "races": dict(sorted(kept.items()))}, indent=1)
    write_text(file, f"{text}\n")


def stale(rows: Mapping[str, Row], folder: Path | None = None) -> frozenset[str]:
    """Name the races whose rows were measured on other code than there is now.

    Args:
        rows: What was measured.
        folder: Where the races are; by default beside the source code.
    """
    try:
        folder = (folder or folder_of_races()).resolve()
    except UsageError:  # they are not here, and nobody can tell
        return frozenset(rows)
    sources = Sources({folder.name: folder})
    chapters = {key.split(":")[0] for key in rows}
    now = {one: of_race(folder / f"{one}.py", sources) for one in chapters}
    return frozenset(key for key, row in rows.items() if row.get("code") != now[key.split(":")[0]])


@final
@dataclass(frozen=True)
class Ratio:
    """One peer at one size: how many times our cost its cost is."""

    key: str
    peer: str
    size: int
    cpu: Mapping[str, float]
    wall: Mapping[str, float]
    ours: Mapping[str, Any]
    theirs: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """`faster`, `slower`, or `even` where the interval holds 1."""
        return "faster" if self.cpu["low"] > 1 else "slower" if self.cpu["high"] < 1 else "even"


def ratios(key: str, row: Row) -> Iterator[Ratio]:
    """List the ratios of a row, size by size."""
    for one in row["sizes"]:
        for name, side in one["sides"].items():
            if name != OURS and "cpu_ratio" in side:
                yield Ratio(
                    key, name, one["size"], side["cpu_ratio"], side["wall_ratio"],
                    one["sides"][OURS], side,
                )


def lost(key: str, row: Row) -> list[str]:
    """Name the peers that were faster than we are at some size."""
    return list(dict.fromkeys(one.peer for one in ratios(key, row) if one.verdict == "slower"))


def changes(old: Mapping[str, Row], new: Mapping[str, Row]) -> Iterator[tuple[str, Ratio, Ratio]]:
    """Compare rows: what became `slower` or `faster` beyond its interval, before and after.

    An interval tells of the rounds of one process; another differs by some percent more.
    """
    before = {(one.key, one.peer, one.size): one for key in old for one in ratios(key, old[key])}
    for key in new:
        for one in ratios(key, new[key]):
            was = before.get((one.key, one.peer, one.size))
            if was is not None and one.cpu["high"] * BETWEEN_RUNS < was.cpu["low"]:
                yield "slower", was, one
            elif was is not None and one.cpu["low"] > was.cpu["high"] * BETWEEN_RUNS:
                yield "faster", was, one


def spread_text(ratio: Mapping[str, float]) -> str:
    """Write a ratio with its interval.

    Example:
        >>> spread_text({"ratio": 1.234, "low": 1.1, "high": 12.0})
        '1.23 [1.1, 12]'
    """
    return f"{_three(ratio['ratio'])} [{_three(ratio['low'])}, {_three(ratio['high'])}]"


def _three(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def size_text(size: int, unit: str) -> str:
    """Write a size with its unit.

    Example:
        >>> size_text(100000, "rows")
        '100,000 rows'
    """
    return f"{size:,} {unit}"


def to_markdown(rows: Mapping[str, Row], folder: Path | None = None) -> str:
    """Write the rows as a Markdown document.

    Args:
        rows: What was measured.
        folder: Where the races are; by default beside the source code.
    """
    old = stale(rows, folder)
    lines = [
        "# Races", "",
        "The same work by us and by the best specialist library for it. A ratio is their CPU time "
        "over ours, median of rounds in which the sides take turns, with its 95 % interval: above "
        "1 we are faster, and an interval that holds 1 is no loss. Growth is the exponent with "
        "which CPU time grows with the size, ours / theirs, over the larger of the sizes that both "
        "raced, if they are three. Memory is the peak beyond what was there before, theirs / ours, "
        "at the largest size that both raced. Written by `principia bench --markdown`; `make "
        "bench` measures again.", "",
    ]
    for chapter, keys in itertools.groupby(rows, key=lambda key: key.split(":")[0]):
        lines += [
            f"## {chapter}", "",
            "| race | against | size: ratio of CPU time | growth | memory | where we lose, why |",
            "| --- | --- | --- | --- | --- | --- |",
            *(f"| {' | '.join(cells)} |" for key in keys
              for cells in _cells(key, rows[key], "† " if key in old else "")), "",
        ]
    legend = [f"† {EARLIER} of the code", ""] if old else []
    return "\n".join([*lines, *legend, *places(rows)]) + "\n"


def _cells(key: str, row: Row, mark: str) -> Iterator[list[str]]:
    """Give one line for every peer of a race."""
    title = f"`{key}` {mark}{row['work']}"
    for peer in [*row["growth"]][1:]:
        found = [one for one in ratios(key, row) if one.peer == peer]
        numbers = [f"{one.size:,}: {spread_text(one.cpu)}" for one in found]
        about = (OURS, peer) if title else (peer,)
        numbers = "<br>".join([*numbers, *(text for name, text in notes(row) if name in about)])
        reason = row["slower"].get(peer, "") if peer in lost(key, row) else ""
        memory = memory_text(found[-1]) if found else ""
        yield [title, peer, numbers, growth_text(row, peer), memory, reason]
        title = ""


def growth_text(row: Row, peer: str) -> str:
    """Write how our cost and that of a peer grow."""
    both = exponents(row["sizes"], OURS, peer)
    return " / ".join("–" if one is None else f"{one:.2f}" for one in both)


def notes(row: Row) -> Iterator[tuple[str, str]]:
    """Say what no ratio tells, each with the side that it is about.

    Peers that are missing, results that differ, and our cost where no peer raced.
    """
    for name, package in row["missing"].items():
        yield name, f"not measured: {package} is not installed"
    for one in row["sizes"]:
        where = size_text(one["size"], row["unit"])
        for name, side in one["sides"].items():
            if not side.get("agrees", True):
                yield name, f"other work at {where}: {side['agreement']}"
        if [*one["sides"]] == [OURS]:
            speed = _three(one["size"] / one["sides"][OURS]["cpu"])
            yield OURS, f"{one['size']:,}: alone, {speed} {row['unit']} a CPU second"


def memory_text(one: Ratio) -> str:
    """Write the peaks of both sides in megabytes."""
    peaks = [side.get("memory") for side in (one.theirs, one.ours)]
    return " / ".join(
        "–" if peak is None else "< 1" if peak < 2**20 else f"{peak / 2**20:,.0f}"
        for peak in peaks
    ) + " MB"


def place_of(row: Row) -> str:
    """Say when and with which versions a row was measured."""
    where = ", ".join(f"{name} {value}" for name, value in row["environment"].items())
    return f"Measured on {row['measured']}: {where}."


def places(rows: Mapping[str, Row]) -> list[str]:
    """Say the same of all rows; those of one day, machine and number of threads have one line."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows.values():
        where = row["environment"]
        key = row["measured"], where["threads"], where.get("processor")
        place = found.setdefault(key, {"measured": row["measured"], "environment": {}})
        place["environment"] |= where
    return [place_of(place) for place in found.values()]

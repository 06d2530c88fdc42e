"""`mutate`: plants bugs in pages, and counts those that their claims notice."""

import contextlib
import json as plain
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from principia.lab.cli.terminal import counted, progress, say
from principia.lab.params import Jobs, Range, SeedNumber, UsageError
from principia.lab.storage import need_writable

if TYPE_CHECKING:
    from principia.lab.course.catalog import Page
    from principia.lab.mutation.scores import Row, Score

__all__ = ["mutate", "show_bugs"]


def mutate(
    keys: tuple[str, ...] = (),
    *,
    all_: bool = False,
    bugs: Annotated[int, Range(1, 10_000)] = 40,
    seed: SeedNumber = 0,
    tests: bool = False,
    jobs: Jobs | None = None,
    update: bool = False,
    file: str | None = None,
    json_: bool = False,
    markdown: bool = False,
) -> int:
    """Plant bugs in the components of pages, and count those that the claims notice.

    Exit code 0 if the score was measured, however high it is; 2 if a claim fails without any bug.

    Args:
        keys: Chapters or pages.
        all_: Take the whole course.
        bugs: How many bugs to plant in each page.
        seed: Which ones.
        tests: Let the tests look for what no claim notices; from a checkout of the source code.
        jobs: Number of processes; by default one a core.
        update: Keep the scores, which show and the page in the browser tell.
        file: The file that keeps scores; by default the one that comes with Principia.
        json_: Print every bug and what became of it as JSON.
        markdown: Plant nothing; print the kept scores as Markdown.
    """
    from principia.lab.mutation import measuring, scores

    path = Path(file) if file else scores.FILE
    if markdown:
        from principia.lab.mutation.document import to_markdown

        sys.stdout.write(to_markdown(scores.read(path), keys))
        return 0
    if update and tests:
        raise UsageError(
            "mutate: --update keeps what the claims notice, without the tests. Leave out --tests."
        )
    chosen = measuring.pages(keys, everything=all_)
    if update:
        need_writable("mutate", path)
        scores.read(path)  # one that cannot be read is told before the work
    found: list[Score] = []
    refused: list[str] = []
    for page, row in _measured(chosen, bugs=bugs, seed=seed, tests=tests, jobs=jobs):
        if isinstance(row, str):
            refused.append(row)
            continue
        if update:  # what is measured is not lost, whatever happens to the next page
            scores.store(page.key, row, path)
        found.append(scores.Score.of(page, row))
        if not json_:
            _show(found[-1])
        _tell_outdated(page, row)
    if json_:
        described = [_described(one) for one in found]
        sys.stdout.write(plain.dumps({"pages": described}, indent=1, ensure_ascii=False) + "\n")
    elif len(found) > 1:
        noticed, real = (sum(getattr(one, name) for one in found) for name in ("noticed", "real"))
        say(f"{noticed} of {counted(real, 'bug')} in {counted(len(found), 'page')} are noticed.",
            style="bold")
    if refused:
        raise UsageError("\n".join(refused))
    return 0


def _measured(
    chosen: Sequence["Page"], *, bugs: int, **how: Any
) -> Iterator[tuple["Page", "Row | str"]]:
    """Measure page by page, each with a bar of its own, and all in one process."""
    from principia.lab.mutation.measuring import measured

    bar: list[Callable[..., None]] = []
    stream = measured(chosen, bugs=bugs, advance=lambda steps: bar[-1]("", steps), **how)
    with contextlib.closing(stream):
        for place, page in enumerate(chosen, start=1):
            where = f", page {place} of {len(chosen)}" if len(chosen) > 1 else ""
            steps = 3 * len(page.claim_names) + (2 if how["tests"] else 1) * bugs
            with progress(steps, f"planting bugs in {page.key}{where}") as advance:
                bar.append(advance)
                result = next(stream)
            yield result


def _show(score: "Score") -> None:
    """Print the score of a page and the bugs that nobody noticed."""
    row = score.row
    words = {"refutation": "by refutation", "crash": "by crash", "tests": "by tests alone"}
    ways = ", ".join(f"{row[name]} {how}" for name, how in words.items()
                     if row[name] or name != "tests")
    cost = f"{row['bugs']} of {row['possible']} possible bugs, {row['seconds']:g} CPU seconds"
    say(f"{score.page}: {score.sentence} ({ways}; {cost}).", style="bold")
    show_bugs(score)


def show_bugs(score: "Score") -> None:
    """Print the bugs that nobody noticed, and those that are none."""
    for one in score.survivors:
        _show_bug(one, one.get("how") or "not noticed", "yellow")
    for one in score.equivalent:
        _show_bug(one, f"equivalent: {one['equivalent']}", "dim")


def _show_bug(one: Mapping[str, Any], said: str, style: str) -> None:
    place = f"{one['module'].rpartition('.')[2]}.py:{one['line']}"
    say(f"    {place} in {one['function'] or 'the module'}: {said}", style=style)
    say(f"        - {one['text']}")
    say(f"        + {one['becomes']}")


def _described(score: "Score") -> dict[str, Any]:
    """Give a score with all its bugs as plain data."""
    reasons = {_place(one): one["equivalent"] for one in score.equivalent}
    verdicts = [{**one, "equivalent": reasons.get(_place(one), "")}
                for one in score.row["verdicts"]]
    return {"page": score.page, "noticed": score.noticed, "real": score.real,
            "score": score.ratio, **score.row, "verdicts": verdicts}


def _place(one: Mapping[str, Any]) -> tuple[Any, ...]:
    return one["by"], one["module"], one["line"], one["function"], one["text"], one["becomes"]


def _tell_outdated(page: "Page", row: "Row") -> None:
    """Tell of bugs that were said to be equivalent, and are noticed, or cannot be planted."""
    from principia.lab.mutation.equivalents import equivalents, outdated
    from principia.lab.mutation.planting import possible

    wrong = [(one, "cannot be planted any more") for one in outdated(page, possible(page))]
    known = equivalents(page)
    for bug in row["verdicts"]:
        same = known.get((bug["function"], bug["text"], bug["becomes"]))
        if bug["by"] and same is not None:
            wrong.append((same, f"{bug['claim'] or bug['how']} notices"))
    for one, why in wrong:
        sys.stderr.write(
            f"mutate: equivalents.json lists a bug of {page.key} that {why}: "
            f"{one.line!r} -> {one.becomes!r}. Remove it, or mend it.\n"
        )

"""Races measure what they say: ratios, intervals, exponents, memory; they tell what is amiss."""

import json
from pathlib import Path

import numpy as np
import pytest

import commands
import principia
from principia.lab.params import Failure, UsageError
from principia.lab.racing import command, results
from principia.lab.racing.clock import Here, growth, interval, measure
from principia.lab.racing.pictures import standing
from principia.lab.racing.races import OURS, find, folder_of_races, race, within

RACES = '''
"""Races whose ratios are known, because a side burns as much CPU time as it is told."""
import os
import time

from principia.lab.racing import race, within
from principia.lab.evidence.relations import equal


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@race(milliseconds=(2, 4, 8), agree=within(0, why="a count"))
def known(milliseconds):
    """Burn CPU time, theirs three times as much."""
    return (milliseconds / 1000,)


@known.ours
def _(seconds):
    burn(seconds)
    return [1.0, 2.0]


@known.peer("thrice", package="numpy")
def _(seconds):
    burn(3 * seconds)
    return [1.0, 2.0]


@known.peer("half, for small ones", package="numpy", up_to=4, slower="It burns half as much.")
def _(seconds):
    burn(seconds / 2)
    return [1.0, 2.0]


@known.peer("nowhere", package="no-such-package")
def _(seconds):
    raise ImportError


@race(processes=(1,), agree=lambda ours, theirs: equal(ours != theirs, True, tol=0, why="pids"))
def apart(processes):
    """Tell the process."""
    return ()


@apart.ours
def _():
    return os.getpid()


@apart.peer("another process", package="numpy", fresh=True)
def _():
    return os.getpid()
'''
WRONG = '''
from principia.lab.racing import race, within


@race(rows=(1,), agree=within(1e-3, why="for show"))
def unlike(rows):
    """Give a number."""
    return (rows,)


@unlike.ours
def _(rows):
    return [1.0]


@unlike.peer("another number", package="numpy")
def _(rows):
    return [1.1]


@unlike.peer("two numbers", package="numpy")
def _(rows):
    return [1.0, 1.0]


@unlike.peer("a crash", package="numpy")
def _(rows):
    raise AttributeError("no such solver")
'''
QUICK = {"threads": 1, "seconds": 0.0}


@pytest.fixture
def folder(tmp_path):
    home = tmp_path / "races"
    home.mkdir()
    (home / "burning.py").write_text(RACES)
    return home


def bench(folder, *words):
    own = ("--races", "races", "--file", "kept.json", "--seconds", "0")
    return commands.principia("bench", *own, *words, cwd=folder.parent)


def test_a_known_ratio_is_found(folder):
    (known,) = find(["burning:known"], folder)
    found = measure(known, 8, **QUICK, rng=np.random.default_rng(0))
    ratio = found["sides"]["thrice"]["cpu_ratio"]
    assert ratio["low"] <= ratio["ratio"] <= ratio["high"]
    assert ratio["ratio"] == pytest.approx(3, rel=0.1)  # a clock's tick in 8 ms
    assert set(found["sides"]) == {OURS, "thrice"}  # one is for small sizes, one is not there
    assert found["sides"][OURS]["cpu"] == pytest.approx(0.008, rel=0.1)
    assert set(measure(known, 4, **QUICK, rng=np.random.default_rng(0))["sides"]) == {
        OURS, "thrice", "half, for small ones"}
    assert known.missing() == {"nowhere": "no-such-package"}


def test_a_peer_can_have_a_process_of_its_own(folder):
    (apart,) = find(["burning:apart"], folder)
    found = measure(apart, 1, **QUICK, rng=np.random.default_rng(0))
    assert found["sides"]["another process"]["agrees"]


@pytest.mark.parametrize("rounds", [6, 7, 8, 15, 40])
def test_the_interval_covers_the_median(rounds):
    """A law: at least 95 % of the intervals hold the true median, however skewed the ratios."""
    rng, draws = np.random.default_rng(0), 4000
    ordered = np.exp(rng.normal(0, 0.3, size=(draws, rounds)) ** 3)
    found = [interval(one.tolist()) for one in ordered]
    covered = np.mean([one["low"] <= 1 <= one["high"] for one in found])
    assert covered >= 0.95 - 4 * (0.95 * 0.05 / draws) ** 0.5  # four standard errors
    assert covered < 0.995  # and they are no wider than they must


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_the_exponent_is_found_under_a_fixed_cost(exponent):
    sizes = [10, 10**4, 10**6, 10**8]
    costs = [1e-6 * size**exponent + 1e-5 for size in sizes]
    assert growth(sizes, costs) == pytest.approx(exponent, abs=0.05)
    assert growth([7, 70], [1.0, 2.0]) is None  # a slope through two points is no fit


def test_memory_is_the_peak_beyond_what_was_there():
    kept = np.ones(2**23)  # 64 MB that are not the job's
    peak, _ = Here(lambda: np.ones(2**22).sum() + kept[0]).peak()
    assert peak == pytest.approx(2**25, rel=0.1)  # 32 MB
    assert Here(lambda: None).peak()[0] < 2**21


def test_commands_count_with_their_time_and_memory():
    job = Here(lambda: command("-c", "x = bytearray(2**26); sum(range(10**6))"))
    assert job.peak()[0] > 2**26
    assert job.read(1).cpu > 0.01
    with pytest.raises(Failure, match=r"(?s)failed: .*SyntaxError"):
        command("-c", "this is no Python")


def test_results_of_another_shape_are_no_agreement():
    agree = within(0.1, why="for show")
    assert agree([1.0, 2.0], [1.0, 2.15]).verdict == "holds"
    assert agree([1.0, 2.0], [1.0, 2.3]).verdict == "refuted"
    with pytest.raises(Failure, match="must have one shape"):
        agree([1.0], [1.0, 2.0])


@pytest.mark.parametrize(("sizes", "sentence"), [
    ({}, "must have one size"),
    ({"rows": (1,), "columns": (1,)}, "must have one size"),
    ({"rows": (10, 1)}, "from small to large; got"),
    ({"rows": (0, 1)}, "at least 1"),
])
def test_a_race_without_proper_sizes_is_refused(sizes, sentence):
    with pytest.raises(UsageError, match=sentence):
        race(agree=within(0, why="for show"), **sizes)(lambda rows: ())


def test_a_race_needs_two(tmp_path):
    (tmp_path / "lonely.py").write_text(WRONG.split("@unlike.peer")[0])
    with pytest.raises(UsageError, match="lonely:unlike must have our side and a peer's"):
        find([], tmp_path)


def test_the_races_of_the_course_are_beside_its_source(monkeypatch, tmp_path):
    assert (folder_of_races() / "connectionism.py").is_file()
    monkeypatch.setattr(principia, "__path__", [str(tmp_path / "site-packages" / "principia")])
    with pytest.raises(UsageError, match="the races come with the source code"):
        folder_of_races()


def test_the_command_prints_a_table_and_writes_a_report_and_the_file(folder):
    done = bench(folder, "burning:known")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "bench: nowhere does not race in burning:known: no-such-package is not installed. "
        "Install it with pip install 'principia[peers]'."]
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[:3] for line in lines if line[0] == "burning:known"] == [
        ["burning:known", peer, size] for size in "248"
        for peer in ("thrice", "half, for small ones") if peer == "thrice" or size != "8"]
    assert "burning:known: half, for small ones is faster. It burns half as much." in done.stdout
    row = results.read(folder.parent / "kept.json")["burning:known"]
    assert row["growth"][OURS] == pytest.approx(1, abs=0.1)
    assert row["missing"] == {"nowhere": "no-such-package"}
    assert row["environment"]["threads"] == 1
    report = (folder.parent / "principia-races.html").read_text()
    for text in ("burning:known", "Burn CPU time", "exponent", "milliseconds", "thrice",
                 "half, for small ones is faster. It burns half as much."):
        assert text in report
    told = bench(folder, "--markdown").stdout
    assert "| `burning:known` Burn CPU time, theirs three times as much. | thrice | 2: " in told
    assert "not measured: no-such-package is not installed" in told


def test_a_row_is_marked_when_its_race_has_changed_since(folder):
    bench(folder, "burning:apart")
    assert "†" not in bench(folder, "--markdown").stdout
    (folder / "burning.py").write_text(RACES + "\n# another way to burn\n")
    told = bench(folder, "--markdown").stdout
    assert "| `burning:apart` † " in told
    assert "† measured on an earlier version of the code" in told


def test_the_guard_names_what_became_slower_and_keeps_what_was_kept(folder):
    kept = folder.parent / "kept.json"
    bench(folder, "burning:known")
    before = json.loads(kept.read_text())
    said = bench(folder, "burning:known", "--against", "last")
    assert said.returncode == 0
    assert json.loads(kept.read_text()) == before
    for one in before["races"]["burning:known"]["sizes"]:
        ratio = one["sides"]["thrice"]["cpu_ratio"]
        ratio.update({name: 10 * value for name, value in ratio.items()})
    kept.write_text(json.dumps(before))
    said = bench(folder, "burning:known", "--against", "last")
    assert said.returncode == 0  # a report, not a test
    for size in "248":
        assert f"burning:known has become slower against thrice at {size} milliseconds" in (
            said.stdout)
    assert json.loads(kept.read_text()) == before


def test_the_guard_is_quiet_when_nothing_changed():
    rows = {"a:b": {"sizes": [{"size": 1, "sides": {OURS: {}, "peer": {
        "cpu_ratio": {"ratio": 1.0, "low": 0.9, "high": 1.1}, "wall_ratio": {}}}}]}}
    assert list(results.changes(rows, rows)) == []
    side = rows["a:b"]["sizes"][0]["sides"]["peer"]
    now = {"a:b": {"sizes": [{"size": 1, "sides": {OURS: {}, "peer": {
        **side, "cpu_ratio": {"ratio": 0.85, "low": 0.84, "high": 0.86}}}}]}}
    assert list(results.changes(rows, now)) == []  # as far apart as two runs of the same code
    now["a:b"]["sizes"][0]["sides"]["peer"]["cpu_ratio"] = {"ratio": 0.7, "low": 0.69, "high": 0.71}
    assert [word for word, _, _ in results.changes(rows, now)] == ["slower"]


def test_growth_is_compared_over_the_sizes_that_both_raced():
    """Ours is flat at first and linear then; a peer that raced the small sizes saw the flat."""
    sizes = []
    for size in (1, 10, 100, 1000, 10000):
        peer = {"peer": {"cpu": float(size)}} if size <= 100 else {}
        sizes.append({"size": size, "sides": {OURS: {"cpu": max(100.0, size)}, **peer}})
    assert results.exponents(sizes, OURS) == [pytest.approx(1, abs=0.01)]
    assert results.exponents(sizes, OURS, "peer") == [pytest.approx(0), pytest.approx(1)]


@pytest.mark.parametrize(("intervals", "word"), [
    ([(1.1, 1.2), (1.3, 1.4)], "faster"),
    ([(1.1, 1.2), (0.9, 1.1)], "even"),
    ([(0.8, 0.9), (0.9, 1.1)], "slower"),
    ([(0.8, 0.9), (1.1, 1.2)], "mixed"),
])
def test_how_we_stand_in_all(intervals, word):
    sides = [
        {OURS: {}, "peer": {"cpu_ratio": {"ratio": low, "low": low, "high": high},
                            "wall_ratio": {}, "agrees": True}}
        for low, high in intervals
    ]
    row = {"sizes": [{"size": place, "sides": one} for place, one in enumerate(sides, 1)]}
    assert standing("a:b", row)[2] == word


def test_other_work_is_told_and_is_a_failure(folder):
    (folder / "wrong.py").write_text(WRONG)
    done = bench(folder, "wrong")
    assert done.returncode == 1
    for words in (
        "another number, other work at 1 rows: 1 ≠ 1.1",
        "two numbers, other work at 1 rows: Failure: race: results must have one shape",
        "a crash, other work at 1 rows: AttributeError: no such solver",
    ):
        assert f"wrong:unlike: {words}" in done.stdout
        assert words.split(": ")[0] in (folder.parent / "principia-races.html").read_text()
    assert "other work at 1 rows: 1 ≠ 1.1" in bench(folder, "--markdown").stdout


def test_json_is_json_and_nothing_else(folder):
    done = bench(folder, "burning:apart", "--json")
    assert set(json.loads(done.stdout)) == {"burning:apart"}
    (folder.parent / "kept.json").chmod(0o444)  # a comparison writes nothing there
    done = bench(folder, "burning:apart", "--json", "--against", "last")
    assert set(json.loads(done.stdout)) == {"burning:apart"}
    assert "Nothing has become slower beyond its interval." in done.stderr


@pytest.mark.parametrize(("words", "sentence"), [
    (["burnin"], "bench: KEY must be a chapter with races, or chapter:race; got 'burnin'."),
    (["burning:knowm"], "bench: KEY must be a race of burning; got 'knowm'."),
    (["--threads", "0"], "bench: threads must be an integer in [1, 256]; got 0."),
    (["--against", "last"], "bench: against must be a file with kept results; got 'kept.json'."),
    (["--markdown"], "bench: file must be a file with kept results; got 'kept.json'."),
    (["--races", "nowhere"], "bench: races must be a folder with races; got 'nowhere'."),
    (["--report", "no/where.html"], "bench: folder no does not exist."),
])
def test_wrong_use_is_one_sentence(folder, words, sentence):
    done = bench(folder, *words)
    assert done.returncode == 2
    assert done.stderr.startswith(sentence)
    assert done.stderr.count("\n") == 1
    assert not (folder.parent / "kept.json").exists()


@pytest.mark.parametrize("text", [
    "", '{"format": 7}', '{"format": 1, "races": {"a:b": {}}}', '{"format": 1, "races": [1]}',
])
def test_a_file_that_is_not_ours_is_refused(folder, text):
    Path(folder.parent, "kept.json").write_text(text)
    done = bench(folder, "--markdown")
    assert done.returncode == 2
    assert "bench: file must be one that principia bench has written; got kept.json" in done.stderr


def test_only_what_is_kept_can_be_printed(folder):
    bench(folder, "burning:apart")
    assert "burning:apart" in bench(folder, "burning", "--markdown").stdout
    done = bench(folder, "burning:apar", "--markdown")
    assert done.returncode == 2
    assert "KEY must be a chapter or race that is kept; got 'burning:apar'. Did you" in done.stderr

"""Everything that may be used at once fits the machine, and what is kept is counted in bytes."""

import json
import os
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from principia.lab.params import UsageError
from principia.lab.web.app import create_app
from principia.lab.web.gate.answers import KeptAnswers
from principia.lab.web.processes import shares
from principia.lab.web.processes.shares import SERVER, Shares, machine_memory

GIGABYTE = 2**30


@given(st.integers(4 * GIGABYTE, 4096 * GIGABYTE), st.integers(1, 512))
def test_all_limits_together_fit_the_machine(memory, cores):
    shared = Shares.of(memory, cores)
    kinds = (shared.runs, shared.measurements, shared.playgrounds)
    assert sum(one.together for one in kinds) + SERVER <= memory
    assert all(one.count >= 1 and one.memory > GIGABYTE // 4 for one in kinds)
    assert shared.measurements.count <= cores


def test_a_large_machine_gives_all_that_is_wanted_and_a_tiny_one_is_refused():
    large = Shares.of(64 * GIGABYTE, 8)
    assert [large.runs.count, large.measurements.count, large.playgrounds.count] == [2, 8, 6]
    assert large.runs.memory == 12 * GIGABYTE
    with pytest.raises(UsageError, match="serve: the memory must be at least 4 GB; got 1 GB"):
        Shares.of(GIGABYTE, 2)


def test_the_application_has_these_limits(tmp_path, monkeypatch):
    monkeypatch.setattr("principia.lab.web.app.machine_memory", lambda: 8 * GIGABYTE)
    monkeypatch.setattr("principia.lab.web.app.cores", lambda: 64)
    monkeypatch.setattr("principia.lab.web.app.search_index", lambda _: [])  # reads every page
    state, shared = create_app(tmp_path).state, Shares.of(8 * GIGABYTE, 64)
    assert state.workers._slots == shared.measurements.count == 1
    assert state.workers._limits.memory == shared.measurements.memory
    assert state.runs._queue._share == shared.runs
    assert state.playgrounds._most == shared.playgrounds.count
    assert state.playgrounds._limits.memory == shared.playgrounds.memory


def test_a_control_group_counts_where_it_allows_less(tmp_path, monkeypatch):
    monkeypatch.setattr(shares, "CONTROLS", tmp_path)
    machine = machine_memory()
    assert machine == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    monkeypatch.setattr(shares, "_groups", lambda: ["a/b", "a", "."])
    for folder, file, text in (("a/b", "memory.max", "max"), ("a", "memory.max", str(2**32)),
                               ("memory", "memory.limit_in_bytes", str(2**63 - 4096))):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / file).write_text(f"{text}\n")
    assert machine_memory() == min(machine, 2**32)
    (tmp_path / "memory/memory.limit_in_bytes").write_text(f"{2**31}\n")
    assert machine_memory() == min(machine, 2**31)


def test_kept_answers_are_counted_in_bytes_and_the_least_used_goes_first():
    kept = KeptAnswers(100)
    for name in "abc":
        kept.keep(name, b"x" * 29)
    assert kept.size == 90
    assert kept.find("a") == b"x" * 29
    kept.keep("d", b"y" * 29)  # "b" was asked for longest ago
    assert [kept.find(name) is not None for name in "abcd"] == [True, False, True, True]
    kept.keep("d", b"z")
    assert (kept.find("d"), kept.size) == (b"z", 62)
    kept.keep("larger than all", b"x" * 100)
    assert kept.find("larger than all") is None
    assert kept.size == 62  # and it drove nothing out


def test_many_large_answers_take_no_more_memory_than_was_said():
    kept, answer = KeptAnswers(2**20), json.dumps([[0.5] * 1000] * 20).encode()
    tracemalloc.start()
    for number in range(300):
        kept.keep(f"question {number}", bytes(bytearray(answer)))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 300 * len(answer) > 20 * 2**20
    assert size < 1.1 * 2**20

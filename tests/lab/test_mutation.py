"""Planted bugs: which there are, which are drawn, who notices them, and how children end."""

import ast
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import commands
from announcing import announced
from principia.lab.course import catalog
from principia.lab.course.fingerprint import EARLIER
from principia.lab.evidence import claim, equal, every
from principia.lab.mutation import equivalents, scores
from principia.lab.mutation.choosing import chosen, drawn
from principia.lab.mutation.document import to_markdown
from principia.lab.mutation.hunt import word_of
from principia.lab.mutation.places import Bug
from principia.lab.mutation.planting import Ground, possible
from principia.lab.mutation.scores import Score
from principia.lab.mutation.statements import bugs_in
from principia.lab.mutation.suite import Suite
from principia.lab.params import UsageError

ROOT = Path(__file__).parents[2]


def changes(source, *kinds):
    """List what becomes of a small function, or only of some kinds of bugs."""
    source = f"def f(*words):\n    {source}\n"
    return [one.becomes for one in bugs_in(source.encode(), "page")
            if not kinds or one.kind in kinds]


@pytest.mark.parametrize(
    ("source", "kinds", "becomes"),
    [
        ("return a + b", ["operator"], ["return a - b"]),
        ("return a @ b", ["operator"], ["return a * b"]),
        ("return (a) // (b)", ["operator"], ["return (a) / (b)"]),
        ("a **= 2", ["operator"], ["a *= 2"]),
        ("return -a", [], ["return a"]),
        ("return x[-1]", [], ["return x[-2]"]),
        ("return 0.5", [], ["return 1.0"]),
        ("return 1", [], ["return 2", "return 0"]),
        ("return 1000", [], ["return 500"]),
        ("return a < b", [], ["return a >= b", "return a <= b"]),
        ("return a not  in b", [], ["return a in b"]),
        ("return a is not b", [], ["return a is b"]),
        ("return a and not b", ["logic"], ["return a or not b", "return a and b"]),
        ("return a if b else c", [], ["return a if True else c", "return a if False else c"]),
        ("while a: b()", ["condition"], ["while False: b()"]),
        ("return x.sum(1)", ["axis"], ["return x.sum(0)"]),
        ("return x.sum(dim=-1)", ["axis"], ["return x.sum(dim=0)"]),
        ("return x.sum(dim=0)", ["function"], ["return x.mean(dim=0)"]),
        ("return x.mT", [], ["return x"]),
        ("return x.abs()", [], ["return x"]),
        ("return x[a:b]", [], ["return x[:b]", "return x[a:]"]),
        ("return a * b", ["term"], ["return a", "return b"]),
        ("return (a + b) - c", ["term"], ["return (a + b)", "return (a) - c", "return (b) - c"]),
        ("x[0] = a", ["statement"], ["pass"]),
        ("x.add_(a)", ["statement"], ["pass"]),
        ("return g(a, b)", [], ["return g(b, a)"]),
        ("return g(a, b, c)", [], ["return g(a, c, b)"]),
        ("return a, b", [], ["return b, a"]),
        ("return min(a, b)", [], ["return max(a, b)"]),  # the order says nothing
        # where no claim could look
        ("return 'text' + 'more'", [], []),
        ("return f'{a + 1}'", [], []),
        ("return g(f'{a + 1}')", [], []),
        ("if a < 1: raise ValueError(a + 1)", [], []),
        ("_need_floats(a + 1)", [], []),
        ("warnings.warn(a + 1)", [], []),
        ("super().__init__()", [], []),
        ("a: Float[Tensor, 2] = b", [], []),
        ("from a import b", [], []),
    ],
)
def test_a_small_source_has_these_bugs(source, kinds, becomes):
    assert changes(source, *kinds) == becomes


def test_some_places_of_a_page_are_left_out():
    source = b'''
"""A page: 1 + 1."""
__all__ = ["f"]
Sizes = tuple[int, 1]
def _check(x: int = 1) -> None:
    for one in x:
        if one > 2:
            raise ValueError(one + 1)
@decorated(1)
class A:
    """It has 1 + 1."""
    size: int = 3
    def __repr__(self): return "A" * 3
    def f(self, x=4):
        _check(x + 5)
        return g(x, dtype=6)
'''
    assert sorted({one.text for one in bugs_in(source, "page")}) == [
        "def f(self, x=4):", "size: int = 3"]


PAGES = ["gradients/modes", "connectionism/perceptron", "regularization/multitask"]


@pytest.mark.parametrize("key", PAGES)
def test_every_bug_that_is_drawn_changes_what_the_page_does(key):
    page = catalog.page(key)
    sources = Ground.of(page).sources
    bugs = possible(page)
    before = {module: ast.dump(ast.parse(source)) for module, source in sources.items()}
    seen = {*before.items()}
    for one in chosen(bugs, sources, 60, 0):
        planted = one.planted(sources[one.module])
        tree = ast.dump(ast.parse(planted))
        assert (one.module, tree) not in seen, f"{one} is no bug, or the same as another"
        seen.add((one.module, tree))
        assert one.text != one.becomes
        for text, source in ((one.text, sources[one.module]), (one.becomes, planted)):
            assert text in " ".join(source.decode().split()), "what is shown is what runs"
    assert len(seen) == 60 + len(sources)


def test_all_bugs_that_differ_can_be_drawn():
    page = catalog.page("gradients/depth")
    sources, bugs = Ground.of(page).sources, possible(page)
    found = chosen(bugs, sources, len(bugs), 0)
    assert len(bugs) / 2 < len(found) <= len(bugs)
    assert set(found) <= set(bugs)


@pytest.mark.parametrize("key", PAGES)
def test_bugs_are_drawn_by_the_seed_and_fewer_are_the_first_of_more(key):
    page = catalog.page(key)
    sources, bugs = Ground.of(page).sources, possible(page)
    many = chosen(bugs, sources, 40, 1, key)
    assert chosen(bugs, sources, 40, 1, key) == many
    assert chosen(bugs, sources, 15, 1, key) == many[:15]
    assert chosen(bugs, sources, 40, 2, key) != many
    functions = {one.function for one in bugs}
    assert len({one.function for one in many}) >= min(len(functions), 20) / 2


def test_no_kind_and_no_line_dominates_what_is_drawn():
    import random

    def bug(kind, line):
        return Bug("page", "f", kind, line, "", "", f"{kind} {line}", "", 0, 0, None)

    bugs = [bug("number", line % 5) for line in range(90)] + [bug("sign", 9)] + [bug("axis", 9)]
    first = list(drawn(bugs, random.Random(0)))[:7]
    assert {one.kind for one in first} == {"number", "sign", "axis"}
    assert len({one.line for one in first if one.kind == "number"}) == 5


# how findings notice

def counted(*, right=1.0, broken=1.0, other=0.0, error=False):
    """A claim of two parts, of which a control breaks the one and may spare the other."""

    @claim(source="a test", control={"wrong": True}, refutes=["one", "two"])
    def about(seed, *, wrong: bool = False):
        """Ones are one."""
        if error and not wrong:
            raise ZeroDivisionError("by zero")
        one, two = (right + broken, 1 + other) if wrong else (right, 1.0)
        parts = {"one": one, "two": two}
        return every({name: equal(x, 1.0, tol=0, why="exact") for name, x in parts.items()})

    return about.check([0])


@pytest.mark.parametrize(
    ("words", "word", "said"),
    [
        ({"other": 1.0}, "", ""),
        ({"right": 2.0, "other": 1.0}, "refutation", "one: 2 ≠ 1"),
        ({"broken": 0.0}, "refutation", "a control holds: one: 1 = 1"),
        ({}, "refutation", "a control spares two: 1 = 1"),
        ({"right": float("nan"), "other": 1.0}, "refutation", "undecided: one: nan"),
        ({"error": True, "other": 1.0}, "crash", "ZeroDivisionError: by zero"),
        ({"error": True}, "refutation", "a control spares two"),
    ],
)
def test_a_finding_notices_by_refutation_or_by_crash(words, word, said):
    found = word_of(counted(**words))
    assert found[0] == word, found
    assert found[1].startswith(said)
    assert bool(found[1]) == bool(word)


# children

CHILDREN = '''
import json, os, signal, sys, time
from principia.lab.mutation import children

children.SLACK = 0.3
children.MOST_SAID = 1000
answers = {}

def forks(report):
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    report({"pid": pid})

def loops(report):
    children.limit_cpu(0.05)
    while True:
        pass

def eats(report):
    bytearray(2**40)

def talks(report):
    while True:
        report({"word": 1})

def prints(report):
    print("loud", flush=True)
    os.write(1, b"loud")
    report({"read": sys.stdin.read()})

works = {
    "loops": loops, "eats": eats, "forks": forks, "talks": talks, "prints": prints,
    "sleeps": lambda report: time.sleep(600),
    "kills": lambda report: os.kill(os.getpid(), signal.SIGKILL),
    "segfaults": lambda report: os.kill(os.getpid(), signal.SIGSEGV),
    "leaves": lambda report: os._exit(3),
    "exits": lambda report: sys.exit(4),
    "closes": lambda report: os.closerange(0, 100),
    "reports": lambda report: [report({"number": one}) for one in range(3)],
}
pool = children.Pool(2, memory=2**28)
for name, work in works.items():
    pool.submit(work, 0.05, lambda one, name=name: answers.update(
        {name: [one.ended, one.told[-1] if one.told else None]}))
pool.run()
print(json.dumps(answers))
'''


def test_children_end_in_the_right_word_and_never_hang_their_parent():
    done = subprocess.run([sys.executable, "-c", CHILDREN], capture_output=True, text=True,
                          timeout=120, check=True, stdin=subprocess.DEVNULL)
    answers = json.loads(done.stdout)  # what they print goes nowhere
    assert done.stderr == ""
    grandchild = answers["forks"][1].pop("pid")
    until(lambda: gone(grandchild))
    assert answers == {
        "loops": ["timeout", None], "sleeps": ["timeout", None],
        "eats": ["done", {"error": "MemoryError:"}],
        "forks": ["done", {}], "prints": ["done", {"read": ""}],
        "talks": ["SIGKILL", {"word": 1}],
        "kills": ["SIGKILL", None], "segfaults": ["SIGSEGV", None],
        "leaves": ["exit", None], "exits": ["done", {"error": "SystemExit: 4"}],
        "closes": ["done", None], "reports": ["done", {"number": 2}],
    }


def test_a_child_that_computes_nothing_is_not_waited_for():
    """What it has started may compute for it; a lock that never opens may not keep it."""
    asked = CHILDREN[: CHILDREN.index("works = {")] + '''
def waits(report):
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 2: pass"])

children.IDLE = 1.0
pool = children.Pool(2)
for name, work in {"sleeps": lambda report: time.sleep(600), "waits": waits}.items():
    pool.submit(work, 60.0, lambda one, name=name: answers.update({name: one.ended}))
pool.run()
print(json.dumps(answers))
'''
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True,
                          timeout=120, check=True, stdin=subprocess.DEVNULL)
    assert json.loads(done.stdout) == {"sleeps": "timeout", "waits": "done"}


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it took more than two minutes"
        time.sleep(0.05)


# a chapter whose score is known

IDEA = '''"""An idea: for a test."""

__all__ = ["area", "first"]


def area(a, b):
    return a * b


def first(xs):
    return xs[0]


def unused(a):
    return -a
'''
CLAIMS = '''"""Claims: for a test."""

from principia.lab.evidence import claim, equal

from planted_chapter.{name} import area, first


@claim(source="a test", control={{"other": 1}})
def of_rectangles(seed, *, other: int = 0):
    """A rectangle of 3 by 1 has an area of 3."""
    return equal(float(area(3, 1) + other), {area}.0, tol=0, why="exact")


@claim(source="a test", control={{"other": 1}})
def of_lists(seed, *, other: int = 0):
    """A list begins with its first entry."""
    return equal(float(first([7]) + other), 7.0, tol=0, why="exact")
'''
SURVIVORS = {("return a * b", "return a / b", ""), ("return a * b", "return a", ""),
             ("return -a", "return a", "no claim runs this line")}
TESTS = '''"""Tests of the idea."""

from planted_chapter.{name} import area


def test_areas():
    assert area(3, 2) == {area}


def test_claims_catch_planted_bugs():
    assert False, "it reads the file, in which there is no bug"
'''


@pytest.fixture(scope="module")
def chapter(tmp_path_factory):
    """A chapter of a third party in a checkout; besides the idea a false claim and a false test."""
    folder = tmp_path_factory.mktemp("checkout")
    with pytest.MonkeyPatch.context() as patch:
        page = announced(folder, patch, "planted_chapter", "")
        tests = folder / "tests/planted_chapter"
        tests.mkdir(parents=True)
        for name, area, tested in (("idea", 3, 6), ("wrong", 4, 6), ("failing", 3, 7)):
            text = CLAIMS.format(name=name, area=area)
            (page.path.parent / f"{name}.py").write_text(IDEA)
            (page.path.parent / f"claims/{name}.py").write_text(text)
            (tests / f"test_{name}.py").write_text(TESTS.format(name=name, area=tested))
        (folder / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
        yield page


@pytest.fixture(scope="module")
def measured(chapter, tmp_path_factory):
    """What the command says of the chapter, and the file in which it has kept the score."""
    kept = tmp_path_factory.mktemp("kept") / "scores.json"
    words = ("mutate", "planted_chapter/idea", "planted_chapter/wrong", "--jobs", 1, "--json",
             "--update", "--file", kept)
    return commands.principia(*words), kept


def test_the_score_of_a_small_page_is_exact(chapter, measured):
    done, kept = measured
    (described,) = json.loads(done.stdout)["pages"]
    assert described["page"] == "planted_chapter/idea"
    assert (described["noticed"], described["real"], described["score"]) == (2, 5, 0.4)
    assert (described["refutation"], described["crash"], described["tests"]) == (1, 1, 0)
    assert (described["bugs"], described["possible"]) == (5, 5)
    by = {one["becomes"]: one for one in described["verdicts"]}
    assert by["return b"]["by"] == "refutation"
    assert (by["return b"]["claim"], by["return b"]["how"]) == ("of_rectangles", "1 ≠ 3")
    assert by["return xs[1]"]["by"] == "crash"
    assert by["return xs[1]"]["how"].startswith("error: IndexError")
    left = {(one["text"], one["becomes"], one["how"]) for one in described["verdicts"]
            if not one["by"]}
    assert left == SURVIVORS
    score = scores.last_score(chapter, file=kept)
    assert {(one["text"], one["becomes"], one["how"]) for one in score.survivors} == SURVIVORS
    assert score.sentence == "2 of 5 planted bugs are noticed; these three are not"
    assert not score.stale


def test_a_page_whose_claims_do_not_hold_is_refused_and_others_are_measured(measured):
    done, _ = measured
    assert done.returncode == 2
    assert "mutate: planted_chapter/wrong:of_rectangles does not hold without any bug" in (
        done.stderr)
    assert "principia check planted_chapter/wrong:of_rectangles" in done.stderr


def test_a_kept_score_is_shown_with_its_survivors_and_goes_stale(chapter, measured, monkeypatch):
    _, kept = measured
    real = scores.last_score
    monkeypatch.setattr(scores, "last_score", lambda page, sources: real(page, sources, kept))
    shown = commands.principia("show", chapter.key).stdout
    assert "2 of 5 planted bugs are noticed; these three are not.\n" in shown
    assert "idea.py:7 in area: not noticed\n        - return a * b\n        + return a" in shown
    rows = {chapter.key: {**scores.read(kept)[chapter.key], "code": "another"}}
    stale = Score.of(chapter, rows[chapter.key], stale=True)
    assert stale.sentence == f"{EARLIER}: 2 of 5 planted bugs are noticed; these three are not"
    text = to_markdown(rows, [chapter.key])
    assert "| `planted_chapter/idea` † | 2 of 5 (40 %) | 1 | 1 | 3 | 0 | 5 |" in text
    assert "- `idea.py:15` in `unused`: `return -a` becomes `return a`. No claim runs this" in text
    assert f"† {EARLIER}" in text


def test_equivalent_bugs_do_not_count_and_are_shown_with_their_reason(chapter, measured):
    _, kept = measured
    file = chapter.path.with_name(equivalents.NAME)
    entry = {"page": "idea", "function": "area", "line": "return a * b", "becomes": "return a",
             "reason": "Every rectangle is thin."}
    gone = {**entry, "line": "return b * a"}
    noticed = {**entry, "becomes": "return b"}
    file.write_text(json.dumps({"equivalents": [entry, gone, noticed]}))
    try:
        score = scores.last_score(chapter, file=kept)
        assert (score.noticed, score.real, len(score.survivors)) == (2, 4, 2)
        assert [one["equivalent"] for one in score.equivalent] == [entry["reason"]]
        assert "`return a`. Every rectangle is thin.\n" in to_markdown(scores.read(kept),
                                                                     [chapter.key])
        assert [one.line for one in equivalents.outdated(chapter, possible(chapter))] == [
            "return b * a"]
    finally:
        file.unlink()


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"equivalents": [{"page": "idea"}]}', '{"equivalents": 3}',
     '{"equivalents": [{"page": "idea", "function": "f", "line": "a", "becomes": "b", '
     '"reason": " "}]}'],
)
def test_a_bad_list_of_equivalents_is_told_in_a_sentence(chapter, text):
    file = chapter.path.with_name(equivalents.NAME)
    file.write_text(text)
    try:
        with pytest.raises(UsageError, match=r"mutate: .*equivalents\.json must list bugs by page"):
            equivalents.equivalents(chapter)
    finally:
        file.unlink()


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 2, "pages": {}}',
                                  '{"format": 1, "pages": {"a/b": {}}}'])
def test_a_bad_file_of_scores_is_told_in_a_sentence(tmp_path, text):
    (tmp_path / "scores.json").write_text(text)
    with pytest.raises(UsageError, match="mutate: file must be one that principia mutate has"):
        scores.read(tmp_path / "scores.json")


def test_tests_look_for_what_no_claim_notices(chapter):
    file = chapter.path.with_name(equivalents.NAME)
    unused = {"page": "idea", "function": "unused", "line": "return -a", "becomes": "return a",
              "reason": "Nobody calls it."}
    untrue = {**unused, "function": "area", "line": "return a * b"}
    file.write_text(json.dumps({"equivalents": [unused, untrue, {**unused, "line": "return +a"}]}))
    try:
        done = commands.principia(
            "mutate", "planted_chapter/idea", "planted_chapter/failing", "--jobs", 1, "--tests")
    finally:
        file.unlink()
    assert "idea: 4 of 4 planted bugs are noticed (1 by refutation, 1 by crash, 2 by tests" in (
        done.stdout)
    assert "idea.py:15 in unused: equivalent: Nobody calls it.\n" in done.stdout
    assert "that cannot be planted any more: 'return +a' -> 'return a'" in done.stderr
    assert re.search(r"that .*test_idea.py::test_areas: .* notices: 'return a \* b' -> 'return a'",
                     done.stderr)
    assert done.returncode == 2
    assert "mutate: the tests of planted_chapter/failing do not pass without any bug; " in (
        done.stderr)
    assert "test_failing.py::test_areas: assert " in done.stderr


def test_the_tests_of_a_page_are_found_in_a_checkout_alone(chapter, tmp_path, monkeypatch):
    suite = Suite.of(catalog.page("gradients/modes"))
    assert suite.root == ROOT
    assert [one.relative_to(ROOT).as_posix() for one in suite.files] == [
        "tests/gradients/test_modes.py", "src/principia/gradients/modes.py",
        "tests/contract/test_pages.py"]
    elsewhere = announced(tmp_path, monkeypatch, "elsewhere", "")
    with pytest.raises(UsageError, match="mutate: --tests needs the tests, which stand in a check"):
        Suite.of(elsewhere)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "mutate: name a chapter or a page, or give --all. Try principia mutate conn"),
        (["--all", "gradients"], "mutate: name a chapter or a page, or give --all."),
        (["gradients/mode"], "mutate: KEY must be a chapter or a page; got 'gradients/mode'. Did"),
        (["gradients", "--bugs", "0"], "mutate: bugs must be an integer in [1, 10000]; got 0."),
        (["gradients", "--update", "--tests"], "mutate: --update keeps what the claims notice"),
        (["gradients", "--update", "--file", "no/s.json"], "mutate: folder no does not exist."),
    ],
)
def test_wrong_use_is_told_in_a_sentence(words, sentence):
    done = commands.principia("mutate", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(sentence)
    assert done.stdout == ""


SLOW = '''"""Claims: for a test."""

import os
from pathlib import Path

from principia.lab.evidence import claim, equal


@claim(source="a test", control={"other": 1})
def forever(seed, *, other: int = 0):
    """It takes for ever."""
    with open(os.environ["PIDS"], "a") as stream:
        stream.write(f"{os.getpid()} {os.getppid()}\\n")
    while True:
        pass
'''


@pytest.mark.parametrize("how", ["ctrl-c", "killed"])
def test_no_process_stays_behind(tmp_path, monkeypatch, how):
    page = announced(tmp_path, monkeypatch, "slow_chapter", SLOW)
    pids = tmp_path / "pids"
    pids.write_text("")
    process = subprocess.Popen(
        [*commands.COMMAND, "mutate", page.key, "--jobs", "1"], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        env={**os.environ, "PIDS": str(pids)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        until(lambda: len(pids.read_text().split()) >= 2 or process.poll() is not None)
        assert process.poll() is None, process.communicate()
        started = [int(one) for one in pids.read_text().split()]
        assert not any(map(gone, started))
        if how == "ctrl-c":
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 130
            assert errors == "principia: interrupted; nothing was left half-written.\n"
        else:
            process.kill()
        until(lambda: all(map(gone, started)))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_the_docs_tell_every_word_of_the_json(measured):
    done, _ = measured
    (described,) = json.loads(done.stdout)["pages"]
    text = (ROOT / "docs/EVIDENCE.md").read_text().partition("principia mutate --json")[2]
    told = set(re.findall(r"`(\w+)`", text))
    assert {*described, *described["verdicts"][0]} <= told


def test_two_that_store_at_once_lose_nothing(measured, tmp_path):
    row = scores.read(measured[1])["planted_chapter/idea"]
    file = tmp_path / "scores.json"
    code = ("import json, sys; from pathlib import Path; from principia.lab.mutation import scores;"
            "row = json.loads(sys.argv[2]);"
            "[scores.store(f'{sys.argv[3]}/{n}', row, Path(sys.argv[1])) for n in range(20)]")
    processes = [subprocess.Popen([sys.executable, "-c", code, str(file), json.dumps(row), name])
                 for name in "ab"]
    assert [one.wait() for one in processes] == [0, 0]
    assert len(scores.read(file)) == 40
    assert [one.name for one in tmp_path.iterdir()] == ["scores.json"]

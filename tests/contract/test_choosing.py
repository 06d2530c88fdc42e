"""The sizes of the suite: a sample that a commit decides, and the tests that a change concerns."""

import itertools
from types import SimpleNamespace

import pytest

import choosing
from principia.lab.course import catalog

ROOT = choosing.ROOT


class Case:
    """A test as pytest has collected it."""

    def __init__(self, nodeid, size=None, **params):
        self.nodeid, self.path = nodeid, ROOT / nodeid.split("::")[0]
        self.mark = size and SimpleNamespace(args=(size,))
        self.callspec = params and SimpleNamespace(params=params)

    def get_closest_marker(self, name):
        return self.mark if name == "sampled" else None


def test_a_sample_has_its_size_and_other_commits_take_others(monkeypatch):
    items = [Case(f"tests/test_x.py::test_y[{number}]", 12) for number in range(60)]
    plain = [Case("tests/test_x.py::test_z")]
    seen, samples = set(), []
    for commit in "abcdefghijklmnopqrst":
        monkeypatch.setattr(choosing, "_commit", lambda commit=commit: commit)
        kept = choosing.sampled([*items, *plain])
        assert kept == choosing.sampled([*items, *plain]), "a failure can be repeated"
        assert kept[-1] is plain[0]
        assert len(kept) == 13
        samples.append(frozenset(one.nodeid for one in kept))
        seen |= samples[-1]
    assert len(set(samples)) == 20
    assert len(seen) == 61, "twenty commits have looked at everything"


def test_every_page_has_a_third_of_its_planted_bugs_and_one_that_is_touched_has_all():
    def bugs(page, many):
        # of two tests in turn, which count together
        return [Case(f"tests/{page}.py::test_{one % 2}[{one}]", old=one, new="x")
                for one in range(many)]

    mlp, maxout = bugs("networks/test_mlp", 14), bugs("networks/test_maxout", 6)
    plain = [Case(f"tests/networks/test_mlp.py::test_z[{one}]", old=one) for one in range(5)]
    kept = choosing.sampled([*mlp, *plain, *maxout])
    assert [len([one for one in kept if one in group]) for group in (mlp, plain, maxout)] == [
        5, 5, 4]
    assert choosing.sampled([*mlp, *maxout], {"networks/mlp", "networks/maxout"}) == mlp + maxout


def test_a_page_is_touched_by_its_rooms_its_fast_form_and_its_tests(monkeypatch):
    rooms = ("mlp", "claims/maxout", "experiments/residual", "_nothing_fast")
    files = {ROOT / f"src/principia/networks/{one}.py" for one in rooms}
    files |= {ROOT / "src/principia/connectionism/_perceptron_fast.py", ROOT / "README.md",
              ROOT / "tests/regression/test_ridge.py", ROOT / "tests/lab/test_fit.py"}
    monkeypatch.setattr(choosing, "changed", lambda since: files)
    assert choosing.touched("HEAD") == {
        "networks/mlp", "networks/maxout", "networks/residual", "connectionism/perceptron",
        "regression/ridge",
    }


def test_tests_of_a_page_stand_together_behind_those_of_the_lab(request):
    items = choosing.by_page(request.session.items)
    assert sorted(items, key=id) == sorted(request.session.items, key=id)
    subjects = [one for one, _ in itertools.groupby(items, choosing._belongs_to)]
    assert len(subjects) == len(set(subjects)), "no page begins twice"
    assert None not in subjects[1:]
    for _, group in itertools.groupby(items, choosing._belongs_to):
        bugs = [choosing.planted(one) for one in group]
        assert bugs == sorted(bugs), "claims first, so that they need not be asked again"


def test_a_changed_page_concerns_those_that_import_it():
    found = choosing.concerned({ROOT / "src/principia/networks/mlp.py"})
    assert {"networks/mlp", "regularization/dropout"} <= set(found)
    assert "mathematics/group" not in found
    room = choosing.concerned({ROOT / "src/principia/networks/claims/mlp.py"})
    assert room == ["networks/mlp"]
    lab = choosing.concerned({ROOT / "src/principia/lab/seeds.py", ROOT / "README.md"})
    assert lab == [], "the lab has tests of its own"


def test_there_is_one_page_of_each_kind():
    pages = [catalog.page(key) for key in choosing.one_of_each_kind()]
    assert 3 <= len(pages) <= len(choosing.KINDS) + 1
    assert "connectionism/perceptron" in {page.key for page in pages}, "the first estimator"


def test_every_test_of_a_page_is_known_as_one(request):
    """By its parameters, its file in the tests or its file in the sources."""
    found = {choosing.page_of(item) for item in request.session.items}
    pages = {page.key for page in choosing.every_page()}
    assert found <= {None, *pages}
    if len(request.session.items) > 5000:  # the suite as a whole
        assert found == {None, *pages}


def test_slow_tests_of_the_lab_run_where_what_they_are_about_has_changed():
    def left_out(place, *changed):
        files = {ROOT / one for one in changed}
        return choosing.left_out(SimpleNamespace(path=ROOT / place), files)

    server = "tests/web/test_server.py"
    assert all((ROOT / place).exists() for place in choosing.SLOW)
    assert left_out(server)
    assert left_out(server, "src/principia/lab/runs/models.py", "README.md")
    assert not left_out(server, "src/principia/lab/web/app.py")
    assert not left_out(server, server)
    assert not left_out("tests/lab/test_fit.py")


def test_a_revision_that_is_not_there_is_told():
    with pytest.raises(pytest.UsageError, match="--since must be a revision of git; got nowhere"):
        choosing.changed("nowhere")

"""One notion of the same code: what changes it, who notices, and that it misses nothing."""

import importlib
import os
import sys
from dataclasses import replace

import pytest

import commands
from announcing import announced
from principia.lab.course import catalog, fingerprint, imports
from principia.lab.course.fingerprint import (
    EARLIER,
    SHOWING,
    Sources,
    loaded,
    of_claims,
    of_race,
    of_run,
    roots_of_claims,
    roots_of_run,
)
from principia.lab.course.rooms import room_module
from principia.lab.evidence import kept
from principia.lab.evidence.kept import Kept
from principia.lab.racing import results
from principia.lab.racing.races import folder_of_races
from principia.lab.runs import ledger
from principia.lab.web.pages.rendering import Place, index_html, ledger_html, races_html

PAGES = [page for chapter in catalog.chapters() for page in chapter.pages]
HOPFIELD = catalog.page("connectionism/hopfield")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.key)
def test_all_that_a_run_uses_is_in_its_hash(page):
    """Told by Python itself: where the things come from that its modules have when it is loaded."""
    roots = roots_of_run(page)
    inside = Sources().needed(roots)
    assert {page.module, room_module(page.module, "experiments")} <= inside
    for one in roots:
        if one != room_module(page.module, "experiments") or page.room("experiments").is_file():
            importlib.import_module(one)
    used = {home for one in inside & sys.modules.keys() for home in _homes(sys.modules[one])}
    assert len(used) > 5
    assert used <= inside


def _homes(module):
    """Name the modules of ours from which a module has what it has."""
    if getattr(module, "__getattr__", None) is not None:  # a lazy package has what others took
        return
    for name, one in vars(module).items():
        if sys.modules.get(f"{module.__name__}.{name}") is one:
            continue  # whoever imports a module puts it into its package
        for home in (getattr(one, "__module__", None), getattr(one, "__name__", None)):
            if isinstance(home, str) and home.startswith("principia.") and home in sys.modules:
                yield home


def test_the_callback_of_another_page_is_in_the_hash_of_a_run():
    """What a training takes from another page by a lazy package, or is given as a callback."""
    dropout, bound = (f"principia.regularization.{one}" for one in ("dropout", "norm_constraint"))
    assert bound in Sources().needed(roots_of_run(catalog.page("regularization/dropout")))
    added = [bound.replace("regularization.", "regularization.experiments.")]
    inside = Sources().needed(roots_of_run(HOPFIELD, added))
    assert {bound, *added} <= inside
    assert dropout not in Sources().needed(roots_of_run(HOPFIELD))


GUEST = {
    "__init__.py": '"""A chapter: of somebody else."""\n',
    "claims/__init__.py": "", "experiments/__init__.py": "",
    "idea.py": '"""An idea: for a test."""\n__all__ = ["double"]\n'
               "from guest._sign import SIGN\ndef double(x): return 2 * SIGN * x\n",
    "_sign.py": "SIGN = +1\n",
    "claims/idea.py": """
from principia.lab.evidence import claim, equal
from principia.lab.evidence.evidence import Evidence
from principia.lab.seeds import Seed

@claim(control={"x": 2.0}, source="arithmetic")
def doubles(seed: Seed, *, x: float = 1.0) -> Evidence:
    '''Twice 1 is 2.'''
    from guest.idea import double

    return equal(double(x), 2.0, tol=0.0, why="small integers")
""",
    "experiments/idea.py": "from guest.late import STEPS\n", "late.py": "STEPS = 3\n",
}


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """A chapter of a third party, with a helper and a constant of its own; its page."""
    page = announced(tmp_path, monkeypatch, "guest", "")
    for name, text in GUEST.items():
        (tmp_path / "guest" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "guest" / name).write_text(text)
    monkeypatch.setenv("PRINCIPIA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # which Python judges by the clock
    begin_anew()
    yield page
    begin_anew()


def begin_anew():
    """Forget what a new process would not know."""
    loaded.cache_clear()
    for one in [name for name in sys.modules if name.split(".")[0] == "guest"]:
        del sys.modules[one]


def edit(page, name, old="+1", new="-1"):
    """Change a file of a page's chapter, as long as it was, and turn back its clock."""
    file = page.path.parent / name
    then = file.stat()
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    os.utime(file, ns=(then.st_atime_ns, then.st_mtime_ns))


def test_claims_and_runs_have_the_hashes_of_what_they_are_about(guest):
    def changed(name, old, new):
        before = of_claims(guest), of_run(guest)
        edit(guest, name, old, new)
        after = of_claims(guest), of_run(guest)
        return tuple(one != other for one, other in zip(before, after, strict=True))

    assert changed("_sign.py", "+1", "-1") == (True, True)
    assert changed("idea.py", "2 *", "3 *") == (True, True)
    assert changed("claims/idea.py", "2.0", "3.0") == (True, False)
    assert changed("experiments/idea.py", "STEPS", "START") == (False, True)
    assert changed("late.py", "3", "4") == (False, True)
    assert changed("__init__.py", "chapter", "CHAPTER") == (False, False)
    assert changed("idea.py", "for a test", "FOR A TEST") == (True, True)


def test_who_only_shows_evidence_does_not_make_it_stale():
    showing = ("principia.lab.cli", "principia.lab.web", "principia.lab.notebooks")
    sources = Sources()
    for page in [page for chapter in catalog.chapters() for page in chapter.pages]:
        needed = sources.needed(roots_of_claims(page), SHOWING)
        assert not [one for one in needed if one.startswith(showing)], page.key
        assert {page.module, "principia.lab.evidence.relations"} <= needed


def test_a_flipped_sign_makes_evidence_stale_whatever_the_clock_says(guest):
    key, words = "guest/idea", ("--jobs", "1")

    def status():
        said = commands.principia("show", key).stdout.splitlines()
        return next(line for line in said if line.startswith("doubles: "))

    assert commands.principia("check", key, *words).returncode == 0
    assert status() == "doubles: holds, control refuted on 1 seed (measured 2, expected 2)"
    assert kept.fresh_finding(guest, "doubles").passed
    edit(guest, "_sign.py")
    assert status().startswith(f"doubles: {EARLIER}: holds, control refuted")
    assert kept.fresh_finding(guest, "doubles") is None
    # this process still has the old sign in its memory: what it measures is not of the new code
    assert commands.principia("check", key, *words).returncode == 0
    assert status().startswith(f"doubles: {EARLIER}: holds")
    begin_anew()
    assert commands.principia("check", key, *words).returncode == 1
    assert status() == "doubles: DOES NOT PASS on 1 seed (measured -2, expected 2)"
    edit(guest, "_sign.py", "-1", "+1")
    assert status().startswith(f"doubles: {EARLIER}: DOES NOT PASS")


def test_evidence_from_before_there_were_fingerprints_is_stale(tmp_path, monkeypatch):
    monkeypatch.setenv("PRINCIPIA_CACHE", str(tmp_path))
    kept.remember(HOPFIELD.claim("energy_never_rises").check([0]))
    assert kept.last_finding(HOPFIELD, "energy_never_rises").stale
    assert kept.fresh_finding(HOPFIELD, "energy_never_rises") is None


def test_stale_evidence_is_not_green_in_the_index():
    name = "energy_never_rises"
    finding = HOPFIELD.claim(name).check([0])
    for stale in (False, True):
        index = index_html(Place(), {f"{HOPFIELD.key}:{name}": Kept(finding, stale)})
        assert (f'<b id="holding">{0 if stale else 1}</b>' in index)
        assert (f'<b id="stale">{1 if stale else 0}</b>' in index)
        assert (f'class="dot holds" href="/{HOPFIELD.key}' not in index) == stale


def test_a_stale_row_is_not_green_in_the_browser(monkeypatch):
    for table, book, green in (
        (ledger_html, ledger, '"reached"'), (races_html, results, '"faster"'),
    ):
        monkeypatch.setattr(book, "stale", lambda chosen, *_: frozenset())
        now = table(Place())
        assert f"class={green}" in now
        assert EARLIER not in now
        monkeypatch.setattr(
            book, "stale", lambda chosen, *_: {getattr(one, "key", one) for one in chosen})
        then = table(Place())
        assert f"class={green}" not in then
        assert 'class="stale"' in then
        assert EARLIER in then


def test_a_row_of_unknown_code_is_stale():
    """As all are that were measured before there were fingerprints; new ones bring theirs."""
    chosen = ledger.experiments(["connectionism/neuron"])
    row = ledger.read()[chosen[0].key]
    fresh = {**row, "code": of_run(catalog.page("connectionism/neuron"))}
    for one, expected in ((fresh, False), ({**row, "code": ""}, True), (
            {name: value for name, value in row.items() if name != "code"}, True)):
        rows = {chosen[0].key: one}
        assert bool(ledger.stale(chosen, rows)) == expected
        text = ledger.to_markdown(chosen, rows)
        assert ("| reached † |" in text, f"† {EARLIER} of the code" in text) == (expected, expected)


def test_a_site_takes_no_stale_evidence(tmp_path, monkeypatch):
    name = "energy_never_rises"
    finding = replace(HOPFIELD.claim(name).check([0]), code=of_claims(HOPFIELD))
    monkeypatch.setenv("PRINCIPIA_CACHE", str(tmp_path))
    asked = []

    def checked(selection, **_):
        asked.append({f"{page.key}:{claim}" for page, claim in selection})
        return []

    monkeypatch.setattr("principia.lab.evidence.checking.check_all", checked)
    monkeypatch.setattr("principia.lab.web.pages.site.write_site", lambda folder, known: 0)
    for code in (finding.code, "of something else"):
        kept.remember(replace(finding, code=code))
        commands.principia("site", tmp_path / "out", "--remembered")
    first, second = asked
    assert second - first == {f"{HOPFIELD.key}:{name}"}


def test_a_race_has_the_hash_of_its_file_and_of_what_it_races(tmp_path):
    home = tmp_path / "races"
    home.mkdir()
    (home / "burning.py").write_text("from races._fuel import FUEL\nimport principia.lab.seeds\n")
    (home / "_fuel.py").write_text("FUEL = 1\n")
    before = of_race(home / "burning.py")
    assert before == of_race(home / "burning.py")
    (home / "_fuel.py").write_text("FUEL = 2\n")
    after = of_race(home / "burning.py")
    assert after != before
    (home / "burning.py").write_text("from races._fuel import FUEL\nimport principia.lab.draws\n")
    assert of_race(home / "burning.py") != after


def test_a_race_of_commands_is_about_all_that_they_may_run(monkeypatch):
    changed, original = "principia.networks.claims.mlp", Sources.sha256
    files = [folder_of_races() / f"{name}.py" for name in ("lab", "connectionism")]
    before = [of_race(file) for file in files]
    monkeypatch.setattr(
        Sources, "sha256",
        lambda self, module: "changed" if module == changed else original(self, module))
    assert [of_race(file) == one for file, one in zip(files, before, strict=True)] == [False, True]


def test_only_what_is_new_is_parsed(monkeypatch):
    """The cache is kept by what files hold, so that all fingerprints come without a syntax tree."""
    fingerprint.fingerprint(fingerprint._course())
    monkeypatch.setattr(imports, "_known", {})  # a new process
    imports._recalled.cache_clear()
    monkeypatch.setattr(imports, "_look_into", None)
    for page in PAGES:
        assert of_claims(page) != of_run(page)

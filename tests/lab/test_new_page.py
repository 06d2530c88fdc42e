"""A new page is there as a whole or not at all, and its chapter's story stays a story."""

import ast

import pytest

from principia.lab.course import catalog, new_page, stubs
from principia.lab.params import UsageError

ROOMS = ("", "claims", "experiments")
LAZY = (
    "\n\nfrom principia.lab.course.catalog import lazy_exports\n\n"
    "__getattr__, __dir__ = lazy_exports(__name__)\n"
)
STORY = '"""Guests: a chapter from elsewhere.\n\nThey bring one idea (`first`).\n"""'
LIST = '"""Guests: a chapter.\n\nThey bring:\n    one idea\n"""'
FILLED = f'"""Guests: a chapter.\n\nThey {"come and " * 9}go.\n"""'  # a last line of 90 columns


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """Announce a chapter in this very process."""
    package, info = tmp_path / "guest", tmp_path / "guest-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text(STORY + LAZY)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guest\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[principia.chapters]\nguest = guest\n")
    monkeypatch.syspath_prepend(tmp_path)
    catalog.chapters.cache_clear()
    yield package
    catalog.chapters.cache_clear()


def contents(folder):
    return {file: file.read_bytes() if file.is_file() else None for file in folder.rglob("*")}


def test_a_new_page_fills_every_room(guest):
    page = new_page.new_page("guest/my_idea")
    assert page == catalog.page("guest/my_idea"), "the catalog of this process knows it"
    assert page.files == tuple(guest / room / "my_idea.py" for room in ROOMS)
    assert "from guest.my_idea import Decay, running_average\n" in page.room("claims").read_text()
    for room in ROOMS[1:]:
        assert ast.get_docstring(ast.parse((guest / room / "__init__.py").read_text()))
    assert "from .my_idea import running_average" in (guest / "__init__.pyi").read_text()


def test_a_chapter_that_exports_by_itself_gets_no_stub(guest):
    (guest / "__init__.py").write_text(STORY + "\n")
    new_page.new_page("guest/my_idea")
    assert not (guest / "__init__.pyi").exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""Guests."""', '"""Guests.\n\nThen comes `my_idea`.\n"""'),
        ("r'''Guests.'''", "r'''Guests.\n\nThen comes `my_idea`.\n'''"),
        (STORY, STORY.replace("(`first`).", "(`first`). Then comes `my_idea`.")),
        (FILLED, FILLED.replace("go.", "go.\nThen comes `my_idea`.")),
        (LIST, LIST.replace("one idea", "one idea\n\nThen comes `my_idea`.")),
        ('"""Guests, and `my_idea`."""', '"""Guests, and `my_idea`."""'),
    ],
)
def test_the_story_goes_on(guest, before, after):
    (guest / "__init__.py").write_text(before + LAZY)
    new_page.new_page("guest/my_idea")
    assert (guest / "__init__.py").read_text() == after + LAZY
    assert all(len(line) <= 100 for line in after.splitlines())


@pytest.mark.parametrize("source", ["", "x = 1\n", '"Guests."\n'])
def test_a_chapter_without_a_story_is_told_to_have_one(guest, source):
    (guest / "__init__.py").write_text(source)
    before = contents(guest)
    with pytest.raises(UsageError, match=r"^new: KEY must be .* three quotes; got 'guest/my_idea'"):
        new_page.new_page("guest/my_idea")
    assert contents(guest) == before


@pytest.mark.parametrize("room", ROOMS)
def test_a_name_that_is_taken_in_any_room_is_refused(guest, room):
    (guest / room).mkdir(exist_ok=True)
    (guest / room / "my_idea.py").write_text("")
    before = contents(guest)
    with pytest.raises(UsageError, match=r"There is .*my_idea.py already; take another name"):
        new_page.new_page("guest/my_idea")
    assert contents(guest) == before


def test_a_name_that_a_component_has_is_refused(guest):
    new_page.new_page("guest/my_idea")
    with pytest.raises(UsageError, match=r"There is running_average in .*my_idea.py already"):
        new_page.new_page("guest/running_average")


def test_a_room_that_cannot_be_written_is_told(guest):
    (guest / "claims").write_text("a file where a folder should be")
    before = contents(guest)
    with pytest.raises(UsageError, match=r"can be written; got .*\. Mend .*claims: Not"):
        new_page.new_page("guest/my_idea")
    assert contents(guest) == before


def test_it_needs_the_source_code(guest, tmp_path, monkeypatch):
    before = contents(guest)
    monkeypatch.setattr("principia.__path__", [str(tmp_path / "lib/site-packages/principia")])
    with pytest.raises(UsageError, match="Clone its repository"):
        new_page.new_page("guest/my_idea")
    assert contents(guest) == before


@pytest.mark.parametrize("writing", range(7))
@pytest.mark.parametrize("rooms", [True, False], ids=["rooms", "no rooms"])
def test_what_fails_halfway_is_taken_back(guest, writing, rooms, monkeypatch):
    if rooms:
        new_page.new_page("guest/first")
    before = contents(guest)
    left = [writing]

    def full(path, text, write=new_page.write_text):
        if not left[0]:
            raise OSError("No space left on device")
        left[0] -= 1
        write(path, text)

    for module in (new_page, stubs):
        monkeypatch.setattr(module, "write_text", full)
    try:
        new_page.new_page("guest/my_idea")
    except OSError:
        assert contents(guest) == before
    else:
        assert rooms
        assert writing >= 5, "three files, the stub and the story"

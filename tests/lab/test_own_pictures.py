import numpy as np
import pytest
import torch
from PIL import Image

from principia.lab.data.own import load_examples
from principia.lab.data.own_pictures import (
    PictureSchema,
    find_pictures,
    picture_examples,
    pictures_in,
)
from principia.lab.params import UsageError
from principia.lab.seeds import Seed

SHAPE = (1, 12, 12)


def paint(path, color=120, size=(12, 12), mode="L"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, color).save(path)
    return path


@pytest.fixture
def folder(tmp_path):
    """Two classes of gray pictures, which are as bright as their number."""
    for name, count in (("cats", 7), ("dogs", 5)):
        for number in range(count):
            paint(tmp_path / "pets" / name / f"{number}.png", 10 * number)
    return tmp_path / "pets"


def test_every_class_is_learned_and_tested(folder):
    ready = picture_examples(find_pictures(folder), seed=Seed(0))
    assert ready.schema == PictureSchema(SHAPE, ("cats", "dogs"))
    assert len(ready.x) + len(ready.x_test) == 12
    assert ready.x.shape[1:] == SHAPE
    assert set(ready.y.tolist()) == set(ready.y_test.tolist()) == {0, 1}
    seen = sorted(torch.cat([ready.x, ready.x_test])[:, 0, 0, 0].mul(255).round().int().tolist())
    assert seen == sorted([*range(0, 70, 10), *range(0, 50, 10)])


def test_the_seed_draws_the_split_and_nothing_else(folder):
    found = find_pictures(folder)
    first, again, other = (
        torch.cat([one.x, one.x_test]) for one in (
            picture_examples(found, seed=Seed(seed)) for seed in (0, 0, 1)
        )
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_hash_notices_a_changed_and_a_moved_picture(folder):
    before = load_examples(str(folder), "", seed=Seed(0))[1]
    paint(folder / "cats" / "3.png", 31)
    changed = load_examples(str(folder), "", seed=Seed(0))[1]
    (folder / "cats" / "3.png").rename(folder / "dogs" / "9.png")
    assert len({before, changed, load_examples(str(folder), "", seed=Seed(0))[1]}) == 3


@pytest.mark.parametrize(("mode", "color", "expected"), [
    ("L", 51, [0.2]), ("I;16", 51 * 257, [0.2]), ("RGB", (255, 51, 0), [1.0, 0.2, 0.0]),
    ("RGBA", (255, 51, 0, 0), [1.0, 1.0, 1.0]), ("LA", (51, 255), [0.2]), ("1", 1, [1.0]),
])
def test_pixels_keep_their_values(tmp_path, mode, color, expected):
    path = paint(tmp_path / "one.png", color, mode=mode)
    read = PictureSchema((len(expected), 6, 6), ("a", "b")).encode([path])
    torch.testing.assert_close(
        read[0].mean(dim=(1, 2)), torch.tensor(expected), atol=0.5 / 255, rtol=0
    )


def test_a_wide_picture_is_cut_to_its_middle(tmp_path):
    wide = np.zeros((8, 24), np.uint8)
    wide[:, 8:16] = 255
    Image.fromarray(wide).save(tmp_path / "wide.png")
    read = PictureSchema((1, 8, 8), ("a", "b")).encode([tmp_path / "wide.png"])
    assert read.min() == 1


def test_a_turned_photograph_is_read_upright(tmp_path):
    pixels = np.zeros((16, 16), np.uint8)
    pixels[:8] = 255  # bright above
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    Image.fromarray(pixels).save(tmp_path / "turned.jpg", exif=exif)
    read = PictureSchema((1, 16, 16), ("a", "b")).encode([tmp_path / "turned.jpg"])
    assert read[0, 0, 12:].mean() > 0.9 > 0.1 > read[0, 0, :4].mean()


def test_the_side_is_the_smallest_one_within_bounds(tmp_path):
    for number, size in enumerate([(90, 70), (200, 80), (100, 100), (300, 300), (72, 71)]):
        for name in "ab":
            paint(tmp_path / name / f"{number}.png", size=size)
    found = find_pictures(tmp_path)
    assert picture_examples(found, seed=Seed(0)).schema.shape == (1, 64, 64)
    paint(tmp_path / "a" / "0.png", size=(33, 50))
    assert picture_examples(found, seed=Seed(0)).schema.shape == (1, 33, 33)
    paint(tmp_path / "a" / "1.png", size=(3, 50))
    assert picture_examples(found, seed=Seed(0)).schema.shape == (1, 8, 8)
    paint(tmp_path / "b" / "1.png", (9, 9, 9), size=(9, 9), mode="RGB")
    assert picture_examples(found, seed=Seed(0), side=20).schema.shape == (3, 20, 20)


def test_too_many_numbers_are_refused(folder):
    with pytest.raises(UsageError, match=r"side must be small enough that 12 pictures fit into 2"):
        picture_examples(find_pictures(folder), seed=Seed(0), side=10_000)


def test_hidden_files_and_other_files_are_left_out(folder):
    paint(folder / "cats" / ".thumb.png")
    paint(folder / "cats" / "kittens" / "deep.JPG")
    paint(folder / ".cache" / "x.png")
    (folder / "cats" / "notes.txt").write_text("seen on Monday", encoding="utf-8")
    found = find_pictures(folder)
    assert found.classes == ("cats", "dogs")
    assert len(found.files) == 13
    assert [one.name for one in pictures_in(folder / "cats" / "kittens")] == ["deep.JPG"]


@pytest.mark.parametrize("body", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n" + 40 * b"\0"])
def test_a_broken_picture_is_named(folder, body):
    (folder / "dogs" / "3.png").write_bytes(body)
    with pytest.raises(UsageError, match=r"^data: dogs/3.png must be a whole PNG or JPEG picture"):
        picture_examples(find_pictures(folder), seed=Seed(0))


def test_a_picture_that_ends_early_is_named(folder):
    noise = np.random.default_rng(0).integers(0, 256, (40, 40), np.uint8)
    Image.fromarray(noise).save(folder / "dogs" / "3.png")
    whole = (folder / "dogs" / "3.png").read_bytes()
    (folder / "dogs" / "3.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match=r"dogs/3.png must be a whole PNG or JPEG picture; "):
        picture_examples(find_pictures(folder), seed=Seed(0))


def empty(folder):
    for one in folder.glob("dogs/*.png"):
        one.unlink()


@pytest.mark.parametrize(("change", "sentence"), [
    (empty, "class 'dogs' must have 2 pictures or more, .*; got 0"),
    (lambda folder: paint(folder / "loose.png"), "loose.png lies beside them"),
    (lambda folder: (folder / "dogs").rename(folder.parent / "dogs"),
     r"of two classes or more; got \['cats'\]"),
])
def test_a_folder_of_another_form_is_refused(folder, change, sentence):
    change(folder)
    with pytest.raises(UsageError, match=sentence):
        find_pictures(folder)


def test_few_pictures_are_refused(tmp_path):
    for name in ("a/1", "a/2", "b/1", "b/2"):
        paint(tmp_path / f"{name}.png")
    with pytest.raises(UsageError, match="the folder must be of 10 pictures or more; got 4"):
        find_pictures(tmp_path)


def test_a_schema_comes_back_and_a_broken_one_is_refused():
    schema = PictureSchema((3, 8, 9), ("cat", "dog"))
    assert PictureSchema.from_json(schema.to_json()) == schema
    for change in ({"pictures": [3, 8]}, {"pictures": [2, 8, 8]}, {"classes": ["cat", "cat"]},
                   {"classes": ["cat", 3]}, {"pictures": "3"}, {"pictures": [3, 0, 8]}):
        with pytest.raises(UsageError, match="does not have its form"):
            PictureSchema.from_json({**schema.to_json(), **change})

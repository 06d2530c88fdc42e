"""Every page that learns pictures does so from a folder with one subfolder a class."""

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image

from commands import principia
from principia.lab.course.catalog import chapters
from principia.lab.data.own_pictures import PictureSchema, pictures_in
from principia.lab.runs.models import load_model
from principia.lab.training.learners import Learner

LEARNERS = {
    page.key: one for chapter in chapters() for page in chapter.pages
    for one in vars(page.load("experiments")).values()
    if isinstance(one, Learner) and one.page == page.key and one.takes_pictures
}


def paint(folder, colored, side=32):
    """Write stripes that lie and stripes that stand, each with noise of its own."""
    rng = np.random.default_rng(0)
    for name, axis in (("lying", 0), ("standing", 1)):
        (folder / name).mkdir(parents=True)
        for number in range(8):
            wave = np.sin(np.arange(side) + number)
            stripes = np.expand_dims(wave, 1 - axis) + 0.1 * rng.normal(size=(side, side))
            gray = np.clip(120 + 90 * stripes, 0, 255).astype(np.uint8)
            image = Image.fromarray(gray)
            (image.convert("RGB") if colored else image).save(folder / name / f"{number}.png")


@pytest.mark.sampled(2)  # an export takes seconds
@pytest.mark.parametrize("key", LEARNERS)
def test_a_page_learns_a_folder_predicts_a_picture_and_leaves_as_onnx(key, tmp_path):
    colored = len(key) % 2 == 0  # some pages see gray pictures, others colored ones
    paint(tmp_path / "stripes", colored)
    words = ("--data", "stripes", "--set", "epochs=1", "--set", "batch_size=5")
    done = principia("run", key, *words, cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    assert "test accuracy" in done.stdout
    home = tmp_path / "runs" / f"{key.replace('/', '-')}-1"
    model, described = load_model(home / "model")
    schema = PictureSchema.from_json(described["schema"])
    assert schema == PictureSchema((3 if colored else 1, 32, 32), ("lying", "standing"))

    files = pictures_in(tmp_path / "stripes")
    x = schema.encode(files)
    with torch.no_grad():
        answers = model.eval()(x)
    one = principia("predict", "last", "--data", "stripes/lying/3.png", cwd=tmp_path)
    assert one.stdout.splitlines()[1].split(",")[0] == "stripes/lying/3.png"
    assert principia(
        "predict", "last", "--data", "stripes", "--out", "all.csv", cwd=tmp_path
    ).returncode == 0
    rows = (tmp_path / "all.csv").read_text(encoding="utf-8").splitlines()[1:]
    expected = [schema.classes[place] for place in answers.argmax(1).tolist()]
    assert [row.split(",")[1] for row in rows] == expected

    done = principia("export", "last", "--to", "onnx", "--out", "net.onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    (y,) = session.run(None, {"x": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(y), answers, atol=1e-4, rtol=1e-4)

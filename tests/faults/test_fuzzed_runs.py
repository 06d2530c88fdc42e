"""A run folder that was damaged is used as far as it is right, or refused in a sentence."""

import shutil

import numpy as np
import pytest

import commands
from fuzzing import damaged, guarded, need_sentence, of_other_kind
from principia.lab.training.loop import _Training

CASES = 25  # of a chunk
NAME = "networks-mlp-1"
WORDS = ("run", "networks/mlp", "--data", "iris", "--set", "epochs=2", "--set", "hidden=2",
         "--threads", "1", "--save-every", "0")
USES = (
    ("report", NAME), ("predict", NAME, "--data", "iris"), ("run", "--resume", NAME),
    ("export", NAME, "--to", "safetensors", "--out", "weights"), ("report", "last"),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two folders: a run that has ended, and one that was interrupted in the middle."""
    places = tmp_path_factory.mktemp("ended"), tmp_path_factory.mktemp("interrupted")
    with pytest.MonkeyPatch.context() as patch:
        for place, code in zip(places, (0, 130), strict=True):
            done = commands.principia(*WORDS, cwd=place)
            assert done.returncode in (code, code + 1), done.stderr
            patch.setattr(_Training, "finish", _interrupt)
    for report in places[0].glob("runs/*/report.html"):
        report.unlink()  # large, and nothing reads it
    return places


def _interrupt(_):
    raise KeyboardInterrupt


def damage(folder, rng):
    """Change a file of a run; none, now and then."""
    files = sorted(one for one in folder.rglob("*") if one.is_file())
    file = files[int(rng.integers(0, len(files)))]
    how = rng.random()
    if file.suffix == ".json" and how < 0.6:
        file.write_text(of_other_kind(file.read_text(), rng))
    elif file.suffix == ".jsonl" and how < 0.5:
        lines = file.read_text().splitlines()
        place = int(rng.integers(0, len(lines)))
        lines[place] = of_other_kind(lines[place], rng)
        file.write_text("\n".join(lines) + "\n")
    elif how < 0.9:
        file.write_bytes(damaged(file.read_bytes(), rng))
    else:
        file.unlink()
        if rng.random() < 0.5:
            file.mkdir()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("chunk", range(80))
def test_any_run_folder_is_used_or_refused(whole, tmp_path, chunk):
    codes = []
    for place in range(CASES):
        rng = np.random.default_rng([chunk, place])
        home = tmp_path / str(place)
        shutil.copytree(whole[place % 2], home)
        damage(home / "runs" / NAME, rng)
        with guarded():
            done = commands.principia("runs", cwd=home)
            assert (done.returncode, done.stderr) == (0, "")
            assert NAME in done.stdout or not (home / "runs" / NAME / "config.json").exists()
            done = commands.principia(*USES[int(rng.integers(0, len(USES)))], cwd=home)
            need_sentence(done)
        codes.append(done.returncode)
        shutil.rmtree(home)
    assert {0, 2} <= set(codes)

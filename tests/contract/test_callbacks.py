"""Every callback that a page offers: documented, exact when resumed, and a kill changes nothing."""

import itertools
import json
import shutil

import pytest
import torch
import torch.nn.functional as F

from killing import contents, killed_run, run_folder, whole_run
from principia.lab.params import UsageError, knobs_of, text_of
from principia.lab.runs import Run
from principia.lab.seeds import Seed
from principia.lab.training import Callback, Supervised, accuracy, fit
from principia.lab.training.factories import (
    added_callbacks,
    callback_factories,
    settings_with_callbacks,
)
from principia.networks.mlp import MLP

TEACHER = "regularization-early_stopping-stop_the_mlp-1"
# four trainings on pictures with labels and validation data: all callbacks can be added to them
SMALL = {"pairs": 2, "hidden": 64, "most": 8}
TRAINED = (
    "regularization/early_stopping", *(word for name, value in SMALL.items()
                                       for word in ("--set", f"{name}={value}")),
)


def turned(name, teacher=TEACHER):
    """Give a knob of a callback that switches it on, as it would be typed."""
    first = next(iter(knobs_of(callback_factories()[name].function).values()))
    value = teacher if first.name == "teacher" else text_of(first.default)
    return f"{name}.{first.name}", value


def test_the_callbacks_of_a_training_are_offered():
    wanted = {
        "label_smoothing", "distillation", "augmentation", "input_noise", "weight_noise",
        "early_stopping", "max_norm", "exponential_average", "weight_average",
    }
    assert wanted <= set(callback_factories())


@pytest.mark.parametrize("name", callback_factories())
def test_it_explains_itself(name):
    offer = callback_factories()[name]
    assert offer.statement.endswith(".")
    assert offer.knobs
    for knob in knobs_of(offer.function).values():
        assert knob.help, f"{name}: {knob.name} needs a line under Args"
        bad = knob.domain.bad()
        with pytest.raises(UsageError, match=f"{name}.{knob.name} must be"):
            settings_with_callbacks("run", {}, {f"{name}.{knob.name}": bad})


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A folder with one run that can teach, made as a user makes it."""
    place = tmp_path_factory.mktemp("teacher")
    whole_run(place, *TRAINED, codes=(0, 1))
    return place


def train(folder, name, *, stop_after=10**9):
    """Train a network on 8x8 images with one part; stop as a kill would after so many steps."""
    rng = torch.Generator().manual_seed(3)
    x = torch.rand(60, 64, generator=rng)
    y = (x[:, :3].argmax(1)).long()
    model = MLP((64, 8, 10), rng=torch.Generator().manual_seed(0))
    taken = itertools.count(1)
    run = Run(Seed(1), folder=folder, save_every=0.0)
    run.asked_to_stop = lambda: next(taken) >= stop_after
    run.more_callbacks = added_callbacks(
        run, settings_with_callbacks("run", {}, dict([turned(name)]))
    )
    return fit(
        model, (x, y), Supervised(F.cross_entropy), torch.optim.Adam(model.parameters(), lr=0.05),
        epochs=4, batch_size=16, validation=(x, y), metrics={"accuracy": accuracy}, run=run,
        name="model",
    )


@pytest.mark.parametrize("name", callback_factories())
def test_it_resumes_exactly(name, teacher, tmp_path):
    def place(what):
        folder = tmp_path / what / "runs"
        shutil.copytree(teacher / "runs", folder)
        (folder / "student").mkdir()
        return folder / "student"

    whole = train(place("whole"), name)
    resumed = place("resumed")
    for stop_after in (1, 3, 4, 2):
        with pytest.raises(KeyboardInterrupt):
            train(resumed, name, stop_after=stop_after)
    again = train(resumed, name)
    weights = [dict(one.model.state_dict()) for one in (whole, again)]
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    assert whole.history == again.history


def test_a_killed_run_with_every_part_ends_like_a_whole_one(teacher, tmp_path):
    pairs = [f"{knob}={value}" for knob, value in map(turned, callback_factories())]
    words = [*TRAINED, *(word for pair in pairs for word in ("--set", pair))]
    for name in ("whole", "killed"):
        shutil.copytree(teacher / "runs", tmp_path / name / "runs")
    # how good it becomes with everything at once does not matter here
    took = whole_run(tmp_path / "whole", *words, codes=(0, 1))
    killed_run(tmp_path / "killed", *words, took=took, kills=4, codes=(0, 1))
    first, second = (run_folder(tmp_path / one, [TEACHER]) for one in ("whole", "killed"))
    assert set(json.loads((first / "result.json").read_text())["knobs"]) == {
        *SMALL, *(pair.split("=")[0] for pair in pairs)
    }
    found = contents(first), contents(second)
    assert found[0].keys() == found[1].keys()
    assert [file for file in found[0] if found[0][file] != found[1][file]] == []


def test_a_part_says_what_it_is():
    for offer in callback_factories().values():
        if offer.name != "distillation":  # which wants a teacher
            assert isinstance(offer.build(Run(), {}), Callback)

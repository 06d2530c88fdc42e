"""Whatever is registered can be chosen: it builds, moves, shows, and leaves the others alone."""

import inspect
import itertools
import json

import numpy as np
import pytest
import torch

from principia.lab.course import catalog
from principia.lab.playground import Playground, Setup, choices
from principia.lab.seeds import Seed

SMALL = {"hidden": (8, 8), "activation": "tanh"}


def playground(**plain):
    return Playground(Setup.from_json({"data": "moons", "knobs": SMALL, "lr": 0.05, **plain}))


def blobs(classes=2):
    """Points drawn in clouds that do not overlap."""
    rng = Seed(4).numpy()
    return {"name": "drawn", "points": [
        [*(rng.normal(size=2) / 4 + [3 * (k % 2), 3 * (k // 2)]).tolist(), k]
        for k in range(classes) for _ in range(12)]}


def state(one):
    return {name: value.clone() for name, value in one.model.state_dict().items()}


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def test_every_choice_builds_moves_and_shows():
    known = choices()
    json.dumps(known.to_json(), allow_nan=False)
    csv = "a,b,c\n" + "\n".join(f"{i},{i * i % 7},{'yes' if i > 9 else 'no'}" for i in range(20))
    own = {"drawn": blobs(),
           "table": {"name": "table", "csv": csv, "features": ["a", "b"], "target": "c"}}
    setups = [{"data": own.get(name, name)} for name in known.data]
    setups += [{"optimizer": name} for name in known.optimizers]
    setups += [{"initialization": name} for name in known.initializations]
    setups += [{"regularization": name, "strength": 0.1} for name in known.regularizations]
    activations = known.models["networks/mlp"].tasks["classification"].knobs["activation"].domain
    setups += [{"knobs": {"hidden": [4], "activation": name}} for name in activations.options]
    for plain, features in itertools.product(setups, (1, 2)):
        if features == 1 and "data" not in plain:
            plain = {**plain, "data": "sine"}
        one = playground(**plain)
        one.advance(3)
        frame = one.frame()
        json.dumps([frame, one.points()], allow_nan=False)
        assert frame["step"] == 3, plain
        assert (frame["curve"] is None) == (len(frame["features"]) == 2), plain
        assert frame["train_loss"] is not None, plain


def test_every_model_learns_what_it_says_and_leaves_the_global_generators_alone():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    tasks = {"classification": [blobs(), "gaussians"], "regression": ["sine"]}
    for key, model in choices().models.items():
        for task, way in model.tasks.items():
            for number, data in enumerate(tasks[task]):
                one, again = (playground(page=key, knobs={}, data=data) for _ in range(2))
                for each in (one, again):
                    each.advance(3)
                frame = one.frame()
                assert json.dumps(frame, allow_nan=False) == json.dumps(again.frame()), key
                assert (frame["stepwise"], frame["task"]) == (way.stepwise, task), key
                learned = 3 if way.stepwise else 1
                # two clouds are learned by all; what cannot be learned is told
                assert frame["step"] == learned or (number and frame["diverged"]), key
                one.back(5)
                assert (one.step, one.frame()["diverged"]) == (0, "")
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])


def test_optimizers_are_all_that_step_on_dense_gradients():
    names = set(choices().optimizers)
    torchs = {name for name, one in vars(torch.optim).items()
              if inspect.isclass(one) and issubclass(one, torch.optim.Optimizer)}
    assert torchs - names == {"Optimizer", "LBFGS", "SparseAdam"} | ({"Muon"} & torchs)
    assert "regression/lasso:ProximalSGD" in names


PLANTED = itertools.count()


def plant(folder, monkeypatch, **pages):
    """Add a chapter with these pages to the catalog."""
    name = f"planted_{next(PLANTED)}"  # another package each time, for Python remembers them
    chapter = folder / name
    chapter.mkdir()
    (chapter / "__init__.py").write_text('"""A chapter."""')
    (chapter / "experiments").mkdir()
    (chapter / "experiments/__init__.py").write_text('"""Experiments."""')
    for page, sources in pages.items():
        own, _, experiments = sources.partition("# experiments\n")
        (chapter / f"{page}.py").write_text(own)
        if experiments:
            room = chapter / f"experiments/{page}.py"
            room.write_text(f"from {name}.{page} import *\n{experiments}")
    monkeypatch.syspath_prepend(folder)
    planted = catalog.Chapter(name, name, chapter)
    whole = planted, *catalog.chapters()
    monkeypatch.setattr(catalog, "chapters", lambda: whole)
    return planted


def test_a_broken_page_is_left_out(tmp_path, monkeypatch):
    before = choices().to_json()
    planted = plant(tmp_path, monkeypatch, broken='"""A page."""\n1 / 0', wrong="def (")
    with pytest.raises(ZeroDivisionError):
        planted.pages[0].load()
    assert choices.__wrapped__().to_json() == before


CARELESS = '''"""A page whose model uses the global generator, to begin and even to answer."""
__all__ = ["Noisy"]
import torch
from torch import nn

class Noisy(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 0.1 * torch.randn(len(x), 1)

# experiments
from torch import nn
from principia.lab.training.learners import learner

@learner
def noisy(inputs, outputs, rng) -> nn.Module:
    """Builds it."""
    return Noisy(inputs, outputs)
'''


def test_a_page_with_dice_of_its_own_is_as_exact_and_disturbs_nobody(tmp_path, monkeypatch):
    page = plant(tmp_path, monkeypatch, careless=CARELESS).pages[0].key
    choices.cache_clear()
    try:
        torch.manual_seed(1)
        before = torch.get_rng_state()
        one = playground(page=page, knobs={})
        begun = state(one)
        one.advance(20)
        frame = one.frame()
        assert torch.equal(before, torch.get_rng_state())
        torch.manual_seed(2)
        again = playground(page=page, knobs={})
        assert same(begun, state(again))
        again.advance(31)
        again.back(11)
        assert again.frame() == frame
    finally:
        choices.cache_clear()

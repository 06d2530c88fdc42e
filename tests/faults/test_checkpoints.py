"""A checkpoint is exact, and one good copy survives kills, full disks and torn writes."""

import errno
import itertools
import math
import os
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from killing import forked, save_forever
from principia.lab.packing import sealed, unsealed
from principia.lab.params import UsageError
from principia.lab.training import checkpoints as module
from principia.lab.training.checkpoints import checkpoints, latest, load, save

DTYPES = [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.bfloat16]
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
keys = st.text() | st.integers()
trees = st.recursive(
    plain | st.sampled_from(DTYPES).map(lambda dtype: torch.arange(6).to(dtype).view(2, 3)),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner),
    max_leaves=12,
)


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(one, two) for one, two in zip(a, b, strict=True))
    return a == b


@given(trees)
@settings(max_examples=150, deadline=None)
def test_every_state_comes_back_as_it_was(tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("run")
    step, back = load(save(folder, 7, tree))
    assert step == 7
    assert same(back, tree)


def test_a_model_and_its_optimizer_come_back_bit_for_bit(tmp_path):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), amsgrad=True)
    generator = torch.Generator().manual_seed(5)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.rand(4, 3, generator=generator)).square().sum().backward()
        optimizer.step()
    state = {"model": dict(model.state_dict()), "optimizer": optimizer.state_dict(),
             "generator": generator.get_state()}
    save(tmp_path, 3, state)
    _, back = latest(tmp_path)
    assert same(back["optimizer"], state["optimizer"])
    other = torch.optim.Adam(torch.nn.Linear(3, 2).parameters(), amsgrad=True)
    other.load_state_dict(back["optimizer"])
    again = torch.Generator()
    again.set_state(back["generator"])
    assert torch.equal(torch.rand(5, generator=again), torch.rand(5, generator=generator))


def test_old_checkpoints_go_and_the_newest_stays(tmp_path):
    for step in (1, 2, 3, 10):
        save(tmp_path, step, {"step": step}, keep=2)
    assert [step for step, _ in checkpoints(tmp_path)] == [3, 10]
    assert latest(tmp_path) == (10, {"step": 10})
    save(tmp_path, 10, {"step": "again"})
    assert latest(tmp_path) == (10, {"step": "again"})
    assert latest(tmp_path / "nothing") is None


def flip(path, place):
    body = bytearray(path.read_bytes())
    body[place % len(body)] ^= 1
    path.write_bytes(bytes(body))


@pytest.mark.parametrize("file", ["manifest.json", "tensors.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "empty", "missing", "extra", "flip"])
def test_a_torn_write_is_refused_and_the_one_before_is_used(tmp_path, file, damage):
    save(tmp_path, 1, {"w": torch.arange(100.0)})
    path = save(tmp_path, 2, {"w": torch.ones(100)}) / file
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-9])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "missing":
        path.unlink()
    elif damage == "extra":
        path.write_bytes(path.read_bytes() + b"0")
    else:
        flip(path, 12)
    with pytest.raises(UsageError, match="checkpoint: step-000000000002"):
        load(path.parent)
    step, state = latest(tmp_path)
    assert step == 1
    assert torch.equal(state["w"], torch.arange(100.0))


def test_if_nothing_is_whole_it_says_so(tmp_path):
    path = save(tmp_path, 1, {"w": torch.ones(3)})
    flip(path / "tensors.safetensors", -1)
    with pytest.raises(UsageError, match=r"There is no other in .*: remove that folder"):
        latest(tmp_path)


def test_every_bit_of_a_manifest_counts(tmp_path):
    history = [{"epoch": 7, "accuracy": 0.9625}]
    path = save(tmp_path, 1, {"epoch": 7, "finished": False, "history": history}) / "manifest.json"
    whole = path.read_bytes()
    for place, bit in itertools.product(range(len(whole)), range(8)):
        body = bytearray(whole)
        body[place] ^= 1 << bit
        with pytest.raises(ValueError):  # noqa: PT011 - JSON has its own words
            unsealed(bytes(body))
    for said, meant in [(b"0.9625", b"0.9725"), (b"false", b"true"), (b"[[", b"[ ["), (b"", b"\n")]:
        path.write_bytes(whole.replace(said, meant, 1))
        with pytest.raises(UsageError, match="step-000000000001 cannot be used: it does not have"):
            load(path.parent)
    path.write_bytes(whole)
    assert load(path.parent)[1]["history"] == history


def test_equal_paths_of_two_tensors_are_kept_apart(tmp_path):
    state = {"a.b": torch.zeros(2), "a": {"b": torch.ones(2)}}
    assert same(load(save(tmp_path, 1, state))[1], state)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda m: m.update(format=1), "must have format 2; got 1"),
        (lambda m: m.update(state={"dict": []}), "tensors that its state does not name"),
        (lambda m: m.update(state={"code": "print()"}), "does not have its form"),
        (lambda m: m.update(state={"tensor": "other"}), "does not have its form"),
        (lambda m: m.pop("step"), "does not have its form"),
        (lambda m: m.update(step=2), "step-000000000001 must have its own name"),
        (lambda m: m.update(state={"a": 1, "b": 2}), "does not have its form"),
    ],
)
def test_a_manifest_of_another_form_is_refused(tmp_path, change, sentence):
    path = save(tmp_path, 1, {"w": torch.ones(3)}) / "manifest.json"
    manifest = unsealed(path.read_bytes())
    change(manifest)
    path.write_bytes(sealed(manifest))
    with pytest.raises(UsageError, match=sentence):
        load(path.parent)


def test_code_cannot_be_saved(tmp_path):
    with pytest.raises(UsageError, match=r"state\.f must be made of dicts.*got function"):
        save(tmp_path, 1, {"f": test_code_cannot_be_saved})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["fsync", "rename"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_refuses_costs_nothing_that_was_there(tmp_path, monkeypatch, call, code):
    save(tmp_path, 1, {"w": torch.arange(4)})

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(module.os, call, refuse)
        with pytest.raises(OSError, match=os.strerror(code)):
            save(tmp_path, 2, {"w": torch.ones(4)})
    assert [one.name for one in tmp_path.iterdir()] == ["step-000000000001"]
    assert latest(tmp_path)[0] == 1


def test_a_run_that_is_killed_while_saving_keeps_a_whole_checkpoint(tmp_path):
    rng, last = torch.Generator().manual_seed(0), 0
    for _ in range(6):
        begun = tmp_path / "begun"
        process = forked(save_forever, tmp_path / "run", begun)
        while not begun.exists():
            time.sleep(0.01)
        time.sleep(float(torch.rand((), generator=rng)) * 0.3)
        process.kill()
        process.join()
        begun.unlink()
        found = latest(tmp_path / "run")
        if found is None:  # killed before its first checkpoint
            continue
        step, state = found
        assert step >= last, "a checkpoint was lost"
        assert state["step"] == step
        assert torch.equal(state["w"], torch.full((20000,), float(step)))
        last = step
    assert last > 0

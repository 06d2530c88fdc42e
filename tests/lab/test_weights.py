import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from principia.lab.params import UsageError
from principia.lab.weights import read_weights, take_weights


def net():
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def theirs(model):
    return {f"net.{name}": one.clone() + 1 for name, one in model.state_dict().items()}


def ours(name):
    return name.removeprefix("net.")


def test_weights_come_back_under_our_names(tmp_path):
    model = net()
    given = theirs(model)
    save_file(given, tmp_path / "w.safetensors")
    taken = take_weights("Net", model, tmp_path / "w.safetensors", ours)
    assert taken is model
    for name, one in model.state_dict().items():
        torch.testing.assert_close(one, given[f"net.{name}"])


def test_a_count_of_batches_may_be_absent():
    given = {name: one for name, one in theirs(net()).items() if "num_batches" not in name}
    taken = take_weights("Net", net(), given, ours)
    torch.testing.assert_close(taken[0].weight, given["net.0.weight"])


@pytest.mark.parametrize(("change", "sentence"), [
    (lambda given: given.pop("net.0.bias"), "1 missing, first 0.bias"),
    (lambda given: given.update({"net.7": torch.ones(1)}), "1 left over, first 7"),
    (lambda given: given.update({"net.0.weight": torch.ones(2, 4)}), r"\(2, 3\); got \(2, 4\)"),
])
def test_what_does_not_fit_is_named_and_nothing_is_taken(change, sentence):
    model = net()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    given = theirs(model)
    change(given)
    with pytest.raises(UsageError, match=sentence):
        take_weights("Net", model, given, ours)
    for name, one in model.state_dict().items():
        assert torch.equal(one, before[name])


def test_pickles_and_broken_files_are_refused(tmp_path):
    torch.save(net().state_dict(), tmp_path / "w.pth")
    with pytest.raises(UsageError, match="pickles"):
        read_weights("Net", tmp_path / "w.pth")
    (tmp_path / "w.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(UsageError, match="cannot be read"):
        read_weights("Net", tmp_path / "w.safetensors")
    with pytest.raises(UsageError, match="there is none"):
        read_weights("Net", tmp_path / "none.safetensors")

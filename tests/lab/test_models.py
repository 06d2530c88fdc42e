"""Kept models come back whole or are refused at once; files from elsewhere run nothing."""

import copy
import functools

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import nn

from principia.connectionism import OneHidden, Perceptron
from principia.lab.packing import sealed, unsealed
from principia.lab.params import MADE_WITH, UsageError, checked
from principia.lab.runs import Run
from principia.lab.runs.exporting import onnx_bytes
from principia.lab.runs.models import load_model, save_model, weights_of
from principia.networks import MLP, SkipNetwork, widen
from principia.optimization import BezierPath
from principia.regression import LMS
from principia.regularization import ClassicDropout, ConvNet, DistillationLoss, SharedTrunk

X = torch.linspace(-2, 2, 12).view(6, 2)


def rng():
    return torch.Generator().manual_seed(0)


def back(folder, model, **extra):
    save_model(folder, model, {}, **extra)
    return load_model(folder)[0]


@pytest.mark.parametrize("phi", ["tanh", torch.tanh, nn.functional.gelu, torch.sin])
def test_a_function_of_torch_comes_back_by_its_name(tmp_path, phi):
    model = OneHidden(2, 5, phi=phi, rng=rng())
    again = back(tmp_path, model)
    assert again.phi is model.phi
    assert torch.equal(again(X), model(X))
    other = OneHidden(2, 5, rng=rng())
    assert not torch.allclose(again(X), other(X))


def test_components_in_components_come_back(tmp_path):
    branches = [MLP([2, 3, 2], activation="tanh", rng=rng()), nn.Linear(2, 2, bias=False),
                nn.Sequential(nn.LayerNorm(2), nn.Linear(2, 2), nn.GELU(approximate="tanh"))]
    net = SkipNetwork(branches, alpha=0.3)
    assert torch.equal(back(tmp_path, net)(X), net(X))
    trunk = SharedTrunk(net, {"one": nn.Linear(2, 1), "two": nn.Identity()}).double()
    again = back(tmp_path, trunk)
    assert list(again.heads) == ["one", "two"]
    answers = [model(X.double()) for model in (trunk, again)]
    assert all(torch.equal(answers[0][name], answers[1][name]) for name in again.heads)


@pytest.mark.parametrize(
    "norm", [None, nn.LayerNorm, nn.BatchNorm1d, functools.partial(nn.GroupNorm, 2, eps=1e-3)])
@pytest.mark.parametrize("dropout", [0.0, 0.4, ClassicDropout(0.7), nn.AlphaDropout(0.2)])
def test_parts_that_are_passed_in_come_back(tmp_path, norm, dropout):
    model = MLP([2, 4, 6, 1], norm=norm, dropout=dropout, rng=rng())
    model(X)  # batch norm keeps what it saw
    again = back(tmp_path, model)
    assert [repr(one) for one in again.modules()] == [repr(one) for one in model.modules()]
    assert again.state_dict().keys() == model.state_dict().keys()
    for training in (True, False):
        answers = []
        for one in (model, again):
            torch.manual_seed(0)  # of the masks
            answers.append(one.train(training)(X))
        assert torch.equal(*answers)


def test_a_network_that_was_widened_comes_back(tmp_path):
    wider = widen(widen(MLP([2, 3, 4, 1], dropout=0.1, rng=rng()), 1), 2, "split")
    again = back(tmp_path, wider.eval())
    assert again.sizes == wider.sizes == (2, 4, 5, 1)
    assert torch.equal(again(X), wider(X))


def test_one_thing_in_two_places_stays_one_thing(tmp_path):
    layer = MLP([2, 3, 2])
    again = back(tmp_path, SkipNetwork([layer, layer, copy.deepcopy(layer)]))
    first, second, third = again.branches
    assert first is second
    assert third is not first


def test_parts_that_no_parent_registers_keep_their_weights(tmp_path):
    path = BezierPath(MLP([2, 3, 1], rng=rng()), MLP([2, 3, 1]))
    nn.init.ones_(path.middle.layers[0].weight)
    again = back(tmp_path, path)
    for t in (0.0, 0.3, 1.0):
        assert torch.equal(again(X, t), path(X, t))


def test_all_that_is_state_comes_back(tmp_path):
    model = nn.Sequential(
        nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.4), nn.Linear(3, 1).bfloat16())
    model[0].weight.requires_grad_(False)
    for _ in range(3):
        model[:2](X)
    model[1].eval()
    again = back(tmp_path, model)
    for name, one in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], one)
        assert again.state_dict()[name].dtype == one.dtype
    for one, other in zip(model.modules(), again.modules(), strict=True):
        assert one.training == other.training
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert one.requires_grad == other.requires_grad
    assert again[2].p == 0.4


def test_buffers_that_a_state_dict_leaves_out_come_back(tmp_path):
    model = SkipNetwork([nn.Sequential(nn.BatchNorm1d(2, track_running_stats=True))])
    norm = model.branches[0][0]
    norm._non_persistent_buffers_set.add("running_mean")
    norm.running_mean.fill_(7.0)
    assert "branches.0.0.running_mean" not in model.state_dict()
    assert back(tmp_path, model).branches[0][0].running_mean.tolist() == [7.0, 7.0]


def test_estimators_come_back_with_what_they_learned(tmp_path):
    x, names = X.numpy(), np.array(["up", "down"]).repeat(3)
    model = Perceptron(max_epochs=5, random_state=3).fit(x, names)
    again = back(tmp_path, model)
    assert again.classes_.dtype == model.classes_.dtype
    assert again.predict(x).tolist() == model.predict(x).tolist()
    theirs = Ridge(alpha=2.0).fit(x, x[:, 0])
    again = back(tmp_path, theirs, page="regression/ridge")
    assert np.array_equal(again.predict(x), theirs.predict(x))
    half = LMS(random_state=0, epochs=1).fit(x, x[:, 0])
    back(tmp_path, half)  # its generator, too


def test_what_a_constructor_was_given_survives_constructors_above(tmp_path):
    class Above:
        @checked
        def __init__(self, width: int, *rest: int, flag: bool = True) -> None: ...

    class Below(Above):
        @checked
        def __init__(self, first: int, second: float = 0.5) -> None:
            super().__init__(first + 1, 7, 8)

    assert vars(Above(3, 4, 5))[MADE_WITH] == {"width": 3, "rest": (4, 5), "flag": True}
    assert vars(Below(3))[MADE_WITH] == {"first": 3, "second": 0.5}


class Own(nn.Module):
    """Of nobody's course."""


def changed():
    model = MLP([2, 3, 1])
    model.phi = nn.Tanh()
    return model


def made_by_a_function(scale, width):
    return nn.LayerNorm(width)


def hooked():
    model = MLP([2, 3, 1])
    model.register_forward_hook(lambda module, inputs, output: 2 * output)
    return model


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: OneHidden(2, 3, phi=lambda z: z), r"model\.phi must be made of .*got .*<lambda>"),
        (lambda: OneHidden(2, 3, phi=torch.cumsum), r"model\.phi must be made of .*got .*cumsum"),
        (Own, r"model must be a component of a page .*got Own"),
        (lambda: SkipNetwork([Own()]), r"model\.branches\.0 must be a component .*got Own"),
        (lambda: SkipNetwork([nn.LSTM(2, 2)]), r"model\.branches\.0 must be .*got LSTM"),
        (lambda: MLP([2, 3, 1], norm=lambda width: nn.LayerNorm(width)),
         r"model\.norm must be made of .*got .*<lambda>"),
        (lambda: MLP([2, 3, 1], norm=functools.partial(made_by_a_function, 1.0)),
         r"model\.norm must be made of .*got partial"),
        (lambda: MLP([2, 3, 1], dropout=Own()), r"model\.dropout must be a component .*got Own"),
        (changed, r"model\.phi must be what the constructor makes .*Pass it to the constructor"),
        (hooked, r"model\.hooks must be what the constructor makes"),
        (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 1)),
         r"model must be .*got ParametrizedLinear"),
    ],
)
def test_what_would_not_come_back_is_refused_when_it_is_kept(make, sentence):
    run = Run()
    with pytest.raises(UsageError, match=f"^keep: {sentence}"):
        run.keep(make())
    assert run.model is None


NAMED = ["torch.load", "torch.nn.Module", "torch.nn.functional.cross_entropy", "os:system",
         "builtins.eval", "networks/mlp:torch", "networks/mlp:HALVINGS", "networks/nothing:MLP"]


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("place", ["component", "argument"])
def test_a_file_names_only_what_it_may(tmp_path, name, place):
    save_model(tmp_path, OneHidden(2, 3, phi=torch.tanh), {})
    file = tmp_path / "model.json"
    record = unsealed(file.read_bytes(), 1)
    if place == "component":
        record["component"] = name
    else:
        record["settings"]["phi"] = {"named": name}
    file.write_bytes(sealed(record, 1))
    with pytest.raises(UsageError, match=r"^model: .*has no component"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n": 0}, r"OneHidden: n must be an integer in \[1, inf\); got 0"),
        ({"depth": 3}, "OneHidden has no parameter depth"),
        ({"phi": {"code": "print()"}}, "unknown kind 'code'"),
        ({"phi": {"again": 4}}, "unknown kind 'again'"),
        ({"phi": {"component": {"again": 4}}}, "list index out of range"),
        ({"phi": {"tensor": "other"}}, "other"),
        ({"phi": {"partial": [{"named": "torch.tanh"}, {"tuple": []}, {"dict": []}]}},
         "makes no module"),
    ],
)
def test_settings_are_checked_like_those_that_are_typed(tmp_path, settings, sentence):
    save_model(tmp_path, OneHidden(2, 3), {})
    record = unsealed((tmp_path / "model.json").read_bytes(), 1)
    record["settings"] |= settings
    (tmp_path / "model.json").write_bytes(sealed(record, 1))
    with pytest.raises(UsageError, match=sentence):
        load_model(tmp_path)


def test_every_byte_of_the_description_counts(tmp_path):
    save_model(tmp_path, DistillationLoss(4.0), {})
    file = tmp_path / "model.json"
    file.write_bytes(file.read_bytes().replace(b"4.0", b"5.0"))
    with pytest.raises(UsageError, match=r"does not have its check sum.*was changed"):
        load_model(tmp_path)


def test_loading_leaves_torchs_generator_alone(tmp_path):
    save_model(tmp_path, MLP([2, 3, 1]), {})
    before = torch.get_rng_state()
    load_model(tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_example_tells_what_the_input_is(tmp_path):
    run, x = Run(), torch.randn(5, 3, 8, 8, generator=rng())
    model = ConvNet([3, 4], side=8, rng=rng())
    model(x)
    model.eval()
    run.keep(model, example=x[:1])
    save_model(tmp_path, run.model, {}, example=run.example)
    again, described = load_model(tmp_path)
    assert torch.equal(described["example"], x[:1])
    assert weights_of(again).keys() == model.state_dict().keys()
    with pytest.raises(UsageError, match=r"export: --to onnx must know an input of ConvNet"):
        onnx_bytes(again)
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(onnx_bytes(again, described["example"]))
    for rows in (1, 5):
        (y,) = session.run(None, {"x": x[:rows].numpy()})
        torch.testing.assert_close(torch.from_numpy(y), model(x[:rows]).detach())


class AsksForRows(nn.Module):
    def forward(self, x):
        return x.sum(1) if len(x) == 2 else 2 * x.sum(1)


def test_a_network_that_asks_how_many_rows_it_gets_is_not_exported():
    pytest.importorskip("onnxscript")
    with pytest.raises(UsageError, match=r"^export: AsksForRows must not ask how many rows it"):
        onnx_bytes(AsksForRows(), torch.zeros(1, 3))

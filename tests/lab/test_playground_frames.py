"""What a playground shows is what it is: surfaces, units, gradients and numbers of its model."""

import base64
import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from principia.lab.course import catalog
from principia.lab.playground import Playground, Setup, default_setup
from principia.lab.playground.pictures import hidden_layers
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit
from principia.lab.training.estimators import fit_quietly
from principia.lab.training.learners import learner_of, predictions

SMALL = {"hidden": (8, 8), "activation": "tanh"}
LEVEL = 1 / 255  # a byte tells no more


def playground(**plain):
    return Playground(Setup.from_json({"data": "moons", "knobs": SMALL, "lr": 0.05, **plain}))


def decoded(text):
    return np.frombuffer(base64.b64decode(text), np.uint8) / 255


def lattice(frame, schema, count):
    """The inputs of the model on the lattice, from the lowest y upwards, written down again."""
    x0, x1, y0, y1 = frame["bounds"]
    rows = [(x, y) for y in np.linspace(y0, y1, count) for x in np.linspace(x0, x1, count)]
    columns = zip(np.transpose(rows), schema.features, strict=True)
    scaled = [(cells - one.mean) / one.scale for cells, one in columns]
    return torch.tensor(np.stack(scaled, 1), dtype=torch.float32)


# What is learned


@pytest.mark.parametrize("seed", range(3))
def test_the_default_separates_the_spirals(seed):
    one = Playground(Setup.from_json({**default_setup().to_json(), "seed": seed}))
    assert one.frame()["train_accuracy"] < 0.8
    one.advance(400)
    assert one.frame()["train_accuracy"] >= 0.97


@pytest.mark.parametrize(("initialization", "equal"), [("zeros", True), ("xavier_normal", False)])
def test_zeros_keep_the_units_of_a_layer_equal(initialization, equal):
    one = playground(initialization=initialization, knobs={"hidden": [8, 8],
                                                           "activation": "sigmoid"})
    one.advance(60)
    for layer, shown in zip(one.model.layers, one.frame()["layers"], strict=False):
        weight = layer.weight.detach()
        assert weight.abs().max() > 0.01  # they have moved
        assert torch.allclose(weight, weight[:1], rtol=1e-4) == equal
        assert (len(set(shown["low"])) < 8 and np.ptp(shown["low"]) < 1e-4) == equal


@pytest.mark.parametrize("name", ["xavier_uniform", "xavier_normal", "kaiming_uniform",
                                  "kaiming_normal", "orthogonal"])
def test_initializations_have_the_variance_that_they_say(name):
    one = playground(initialization=name, knobs={"hidden": [64, 64]})
    weight, bias = one.model.layers[1].weight.detach(), one.model.layers[1].bias
    expected = {"x": 2 / 128, "k": 2 / 64, "o": 1 / 64}[name[0]]
    # five standard errors of a variance of 4096 draws, the widest kind being normal
    assert abs(float(weight.var()) / expected - 1) < 5 * (2 / 4096) ** 0.5
    assert not bias.any()


def test_l2_is_the_weight_decay_of_torch_on_weights():
    one = playground(regularization="l2", strength=0.3, optimizer="SGD with momentum")
    one.advance(25)
    seed, ready = Seed(0), one.ready
    model = learner_of(catalog.page("networks/mlp"), ready.schema).function(
        2, 2, seed.child("init").torch(), **SMALL)
    groups = [{"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": 0.3},
              {"params": [p for p in model.parameters() if p.ndim < 2]}]
    fit(model, (ready.x, ready.y), Supervised(F.cross_entropy),
        torch.optim.SGD(groups, lr=0.05, momentum=0.9), steps=25, batch_size=32, seed=seed)
    for ours, theirs in zip(one.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_l2_shrinks_weights_and_l1_clears_them():
    def weights(**plain):
        one = playground(optimizer="SGD with momentum", lr=0.02, **plain)
        one.advance(600)
        found = [layer.weight.detach().flatten() for layer in one.model.layers]
        return torch.cat(found), one.frame()["price"]

    (free, nothing), (ridge, squares), (lasso, sums) = (
        weights(regularization=name, strength=0.02) for name in ("none", "l2", "l1"))
    assert ridge.norm() < 0.8 * free.norm()
    small = [float((one.abs() < 0.01).double().mean()) for one in (free, ridge, lasso)]
    assert small[2] > 2 * small[1]
    assert nothing == 0
    assert squares == pytest.approx(0.02 * float(ridge.square().sum()) / 2, rel=1e-5)
    assert sums == pytest.approx(0.02 * float(lasso.abs().sum()), rel=1e-5)


# What is shown


def test_gradients_are_those_of_the_whole_training_loss():
    one = playground(data="gaussians")
    one.advance(20)

    def everything():
        found = one.model.state_dict(), one._learner.steps.optimizer.state_dict()
        return copy.deepcopy([*found, [parameter.grad for parameter in one.model.parameters()]])

    before = everything()
    frame = one.frame()
    torch.testing.assert_close(before, everything(), rtol=0, atol=0)
    model = copy.deepcopy(one.model)
    model.zero_grad()
    loss = F.cross_entropy(model(one.ready.x), one.ready.y)
    loss.backward()
    assert frame["train_loss"] == pytest.approx(loss.item(), rel=1e-5)
    weights = {name: p for name, p in model.named_parameters() if p.ndim >= 2}
    assert [row["name"] for row in frame["gradients"]] == list(weights)
    for row in frame["gradients"]:
        weight = weights[row["name"]]
        assert row["gradient"] == pytest.approx(float(weight.grad.norm()), rel=1e-4)
        assert row["weight"] == pytest.approx(float(weight.detach().abs().mean()), rel=1e-5)


def test_numbers_are_taken_without_dropout():
    one = playground(page="networks/maxout", knobs={"dropout": 0.6}, data="circles")
    one.advance(20)
    frame = one.frame()
    model, ready = one.model.eval(), one.ready
    with torch.no_grad():
        for part, x, y in (("train", ready.x, ready.y), ("test", ready.x_test, ready.y_test)):
            outputs = model(x)
            right = float((outputs.argmax(1) == y).double().mean())
            loss = F.cross_entropy(outputs, y).item()
            assert frame[f"{part}_loss"] == pytest.approx(loss, rel=1e-5)
            assert frame[f"{part}_accuracy"] == pytest.approx(right)


def test_the_surface_and_the_units_are_those_of_the_model():
    one = playground(data="gaussians", knobs={"hidden": [5, 20], "activation": "tanh"})
    one.advance(20)
    frame, schema = one.frame(), one.schema
    with torch.no_grad():
        chances = one.model(lattice(frame, schema, 48)).softmax(1).T.numpy()
        hidden = one.model.activations(lattice(frame, schema, 20))[1:-1]
    found = decoded(frame["surface"]).reshape(3, 48 * 48)
    assert np.abs(found - chances).max() <= LEVEL
    assert [(one["name"], one["width"], len(one["units"])) for one in frame["layers"]] == [
        ("layers.0", 5, 5), ("layers.1", 20, 16)]
    for layer, activity in zip(frame["layers"], hidden, strict=True):
        assert layer["shape"] == [20, 20]
        rows = zip(layer["units"], layer["low"], layer["high"], activity.T.numpy(), strict=False)
        for unit, low, high, expected in rows:
            shown = low + decoded(unit) * (high - low)
            assert np.abs(shown - expected).max() <= LEVEL * (high - low) + 1e-6
            assert (low, high) == pytest.approx((expected.min(), expected.max()), abs=1e-6)
    assert one.frame(units=False)["layers"] == []


def test_layers_are_found_in_every_network():
    def widths(page, **knobs):
        one = playground(page=page, knobs=knobs)
        frame = one.frame()
        return one, frame, [layer["width"] for layer in frame["layers"]]

    assert widths("networks/residual", width=7, depth=3)[2] == [7, 7, 7, 7]  # enter, and 3 layers
    assert widths("regression/softmax")[2] == []
    one, frame, found = widths("networks/maxout", hidden=[6], pieces=3, dropout=0.5)
    assert found == [6]
    with torch.no_grad():
        units = one.model.hidden[0](lattice(frame, one.schema, 20)).T.numpy()
    layer = frame["layers"][0]
    assert layer["high"] == pytest.approx(units.max(1).tolist(), rel=1e-5)


class Gated(nn.Module):
    """Two maps that hear the same layer, and one that hears the input again."""

    def __init__(self):
        super().__init__()
        self.enter, self.value, self.gate = nn.Linear(2, 5), nn.Linear(5, 3), nn.Linear(5, 3)
        self.skip, self.leave = nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x):
        hidden = self.enter(x).tanh()
        return self.leave(self.value(hidden) * self.gate(hidden).sigmoid() + self.skip(x))


def test_maps_side_by_side_are_one_layer():
    model, x = Gated(), torch.ones(4, 2)
    (_, first), (_, second) = hidden_layers(model, x)
    assert torch.equal(first, model.enter(x).tanh())
    assert torch.allclose(model.leave(second), model(x))


def test_regression_is_in_the_units_of_the_table():
    rng = Seed(1).numpy()
    x = rng.uniform(100, 300, (200, 2))
    y = 5000 + 20 * x[:, 0] - 7 * x[:, 1]
    csv = "u,v,price\n" + "\n".join(f"{a},{b},{c}" for (a, b), c in zip(x, y, strict=True))
    data = {"name": "table", "csv": csv, "features": ["u", "v"], "target": "price"}
    for page in ("networks/mlp", "regression/ridge"):
        one = playground(page=page, data=data, knobs={})
        one.advance(200)
        frame = one.frame()
        ready = one.ready
        for part, inputs, targets in (("train", ready.x, ready.y),
                                      ("test", ready.x_test, ready.y_test)):
            error = predictions(one.model, ready.schema, inputs).answers - targets
            expected = float(error.double().square().mean().sqrt())
            assert frame[f"{part}_rmse"] == pytest.approx(expected, rel=1e-3)
        low, high = frame["range"]
        assert low < y.min() < y.max() < high
        assert frame["bounds"][0] < x[:, 0].min() < x[:, 0].max() < frame["bounds"][1]
        found = low + decoded(frame["surface"]) * (high - low)
        places = lattice(frame, ready.schema, 48)
        shown = predictions(one.model, ready.schema, places).answers.numpy()
        assert np.abs(found - np.clip(shown, low, high)).max() <= LEVEL * (high - low)
        points = np.array(one.points()["train"] + one.points()["test"])
        rows = np.column_stack([x, y])
        assert np.allclose(points[points[:, 0].argsort()], rows[rows[:, 0].argsort()], rtol=1e-5)


def test_a_curve_is_that_of_the_model():
    one = playground(data="sine", lr=0.02)
    one.advance(300)
    frame = one.frame()
    x = (torch.tensor(frame["curve"]["x"]) - one.schema.features[0].mean)
    x = (x / one.schema.features[0].scale)[:, None].float()
    expected = predictions(one.model, one.schema, x).answers.tolist()
    assert frame["curve"]["y"] == pytest.approx(expected, abs=1e-5)
    assert frame["layers"][0]["shape"] == [1, 50]
    assert frame["test_rmse"] < 0.3  # the noise is 0.1


# Estimators


def test_an_estimator_learns_at_once_and_forgets():
    one = playground(page="regression/logistic", knobs={"l2": 0.1})
    assert (one.frame()["trained"], one.frame()["surface"]) == (False, None)
    one.advance(50)
    frame, ready = one.frame(), one.ready
    theirs = learner_of(catalog.page("regression/logistic"), ready.schema)(l2=0.1)
    fit_quietly(theirs, ready.x.double().numpy(), ready.y.numpy())
    grid = lattice(frame, ready.schema, 48).double().numpy()
    found = decoded(frame["surface"]).reshape(2, -1).T
    assert np.abs(found - theirs.predict_proba(grid)).max() <= LEVEL
    right = (theirs.predict(ready.x_test.double().numpy()) == ready.y_test.numpy()).mean()
    assert (frame["step"], frame["test_accuracy"]) == (1, pytest.approx(right))
    one.back(1)
    assert (one.step, one.frame()["surface"]) == (0, None)


def test_what_knows_no_probabilities_answers_yes_or_no():
    one = playground(page="connectionism/perceptron", knobs={}, data="gaussians")
    one.advance(1)
    frame = one.frame()
    found = decoded(frame["surface"]).reshape(3, -1)
    assert set(np.unique(found)) == {0, 1}
    assert (found.sum(0) == 1).all()
    assert frame["train_loss"] is None
    assert frame["train_accuracy"] > 0.8


def test_what_cannot_be_learned_is_told():
    one = playground(page="connectionism/margin", knobs={}, data="circles")
    one.advance(1)
    frame = one.frame()
    assert (frame["step"], frame["surface"]) == (0, None)
    assert "separ" in frame["diverged"]


def test_a_class_without_training_rows_has_no_chance():
    points = [[i / 10, i % 3, int(i > 14)] for i in range(29)] + [[9, 9, 2]]
    for seed in range(20):  # until the lone point is kept for testing
        one = playground(page="regression/softmax", knobs={}, seed=seed,
                         data={"name": "drawn", "points": points})
        if 2 not in one.ready.y:
            break
    assert 2 not in one.ready.y
    for page in ("regression/logistic", "connectionism/perceptron", "networks/mlp"):
        one = playground(page=page, knobs={}, seed=seed, data={"name": "drawn", "points": points})
        one.advance(1)
        frame = one.frame()
        found = decoded(frame["surface"]).reshape(3, -1)
        assert (frame["classes"], frame["step"]) == (["0", "1", "2"], 1)
        assert np.abs(found.sum(0) - 1).max() <= 2 * LEVEL
        assert found[2].any() == frame["stepwise"]  # a network gives every class some

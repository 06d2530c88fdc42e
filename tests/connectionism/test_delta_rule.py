import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, SGDRegressor
from sklearn.utils import check_random_state
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

from planting import assert_caught, passes, passes_on_sound_page
from principia.connectionism import (
    DeltaLayer,
    DeltaRegressor,
    OneHidden,
    delta_step,
    generalized_delta,
    layer_transfer,
)
from principia.connectionism.neuron import ACTIVATIONS
from principia.lab.course.catalog import page
from principia.lab.data.digits import digits
from principia.lab.params import UsageError

KEY = "connectionism/delta_rule"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("(y - phi.value(z)) * phi.slope(z)", "y - phi.value(z)", "saturation"),
        ("rate = lr / len(x)", "rate = lr", "delta_is_gradient"),
        ("phi.slope(z), x, lr)", "phi.slope(-z.exp()), x, lr)", "update_along_inputs"),
        ("phi)(F.linear(x, W, b))", "phi)(F.linear(x, W))", "layer_transfer"),
        ("delta = signal @ W", "delta = delta @ W", "generalized_delta_sign"),
        ("inputs.pop(), -lr)", "inputs.pop(), lr)", "generalized_delta_sign"),
        ("self.phi(self.hidden(x))", "self.hidden(x)", "hidden_layer_solves_xor"),
        ("max(phi.low, -1.0)", "-1.0", "delta_is_gradient"),
        ("t[rows], phi, lr)", "t[rows], phi, -lr)", "delta_is_gradient"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("(y - phi.value(z)) * phi.slope(z)", "(phi.value(z) - y) * phi.slope(z)",
         "delta_is_gradient",
         ["identity", "DeltaLayer, identity", "DeltaRegressor, identity", "DeltaLayer, sigmoid",
          "DeltaRegressor, sigmoid", "DeltaLayer, tanh", "DeltaRegressor, tanh"]),
        ("self.phi(self.hidden(x))", "self.hidden(x)", "layer_transfer", ["one hidden layer"]),
        ("uniform_(parameter, -(n**-0.5)", "uniform_(parameter, -0.5 * (n**-0.5)",
         "layer_transfer", ["first weights"]),
        ("X @ self.coef_.T + self.intercept_\n", "X @ self.coef_.T\n", "epochs_of_batches",
         ["outputs"]),
        ("self.classes_[best]", "self.classes_[best - 1]", "epochs_of_batches", ["classes"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(
    ("name", "part", "wrong", "claim"),
    [
        ("tanh", "slope", lambda z: z.cosh() ** -1, "update_along_inputs"),
        ("sign", "value", lambda z: 2 * (z > 0).to(z) - 1, "layer_transfer"),
    ],
)
def test_claims_catch_bugs_in_the_table_of_activations(monkeypatch, name, part, wrong, claim):
    assert passes_on_sound_page(KEY, claim)
    monkeypatch.setitem(ACTIVATIONS, name, ACTIVATIONS[name]._replace(**{part: wrong}))
    assert not passes(page(KEY).claim(claim))


def test_linear_classifier_with_the_safe_rate_is_a_scikit_learn_citizen():
    check_estimator(DeltaLayer(phi="identity", lr=None), on_skip=None)


@pytest.mark.parametrize("name", [name for name, phi in ACTIVATIONS.items() if phi.slope])
def test_slopes_are_derivatives(name):
    z = torch.linspace(-40, 40, 400, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(ACTIVATIONS[name].value(z).sum(), z)
    torch.testing.assert_close(ACTIVATIONS[name].slope(z.detach()), expected)


def test_one_sample_at_a_time_is_sklearns_sgd():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(200, 5)), rng.normal(size=200)
    ours = DeltaRegressor(lr=0.03, batch=1, epochs=1, random_state=7).fit(X, y)
    order = check_random_state(7).permutation(200)
    theirs = SGDRegressor(
        penalty=None, learning_rate="constant", eta0=0.03, shuffle=False, max_iter=1, tol=None
    ).fit(X[order], y[order])
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_, rtol=1e-10)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-10)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-9)


def test_linear_units_reach_least_squares():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(60, 4)), rng.normal(size=(60, 3))
    for fit_intercept in (True, False):
        ours = DeltaRegressor(
            lr=0.5, batch=60, epochs=500, fit_intercept=fit_intercept, random_state=0
        ).fit(X, Y)
        exact = LinearRegression(fit_intercept=fit_intercept).fit(X, Y)
        np.testing.assert_allclose(ours.coef_, exact.coef_, atol=1e-9)
        np.testing.assert_allclose(ours.predict(X), exact.predict(X), atol=1e-9)
        assert (np.diff(ours.loss_curve_) <= 1e-12).all()


@pytest.mark.parametrize("phi", ["sigmoid", "tanh", "identity"])
@pytest.mark.parametrize("kinds", [2, 10])
def test_prediction_is_the_most_active_unit(phi, kinds):
    x, y, x_test, y_test = digits()
    chosen, chosen_test = y < kinds, y_test < kinds
    X, X_test = (x[chosen].flatten(1).numpy(), x_test[chosen_test].flatten(1))
    model = DeltaLayer(phi=phi, lr=0.05, random_state=0).fit(X, y[chosen].numpy())
    assert model.coef_.shape == (1 if kinds == 2 else kinds, 64)
    outputs = layer_transfer(
        torch.tensor(model.coef_), torch.tensor(model.intercept_), X_test, phi
    )
    middle = 0.5 if phi == "sigmoid" else 0.0
    best = (outputs[:, 0] >= middle).long() if kinds == 2 else outputs.argmax(dim=1)
    np.testing.assert_array_equal(model.predict(X_test.numpy()), best.numpy())
    assert model.score(X_test.numpy(), y_test[chosen_test].numpy()) > 0.85


def test_one_hidden_is_linear_activation_linear():
    model = OneHidden(3, 5, phi="tanh", rng=torch.Generator().manual_seed(0)).double()
    x = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = nn.Sequential(model.hidden, nn.Tanh(), model.output)(x)[..., 0]
    torch.testing.assert_close(model(x), expected)
    assert torch.autograd.gradcheck(model, x.requires_grad_())
    bare = OneHidden(3, 5, phi=torch.cos, bias=False, output_bias=False)
    assert sorted(dict(bare.named_parameters())) == ["hidden.weight", "output.weight"]
    again = OneHidden(3, 5, phi="tanh", rng=torch.Generator().manual_seed(0)).double()
    assert all(map(torch.equal, model.parameters(), again.parameters()))


def test_steps_leave_their_arguments_alone():
    W = nn.Parameter(torch.ones(1, 2))
    x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5]])
    stepped, bias = delta_step(W, None, x, y, "tanh", 1.0)
    ((layered, _, name),) = generalized_delta([(W, None, "tanh")], x, y, lr=1.0)
    torch.testing.assert_close(stepped, layered)
    assert bias is None
    assert name == "tanh"
    assert torch.equal(W, torch.ones(1, 2))
    assert not stepped.requires_grad


def test_quick_experiment_beats_its_floor():
    outcome = page(KEY).experiments()["one_layer"]()
    assert outcome.reached, outcome.missed
    assert set(outcome.figures) == {"weights", "sign"}
    assert outcome.metrics["wrong_sign_loss"] > 2 * outcome.metrics["right_sign_loss"]


def test_bad_input_is_told_in_one_sentence():
    W, x, y = torch.zeros(1, 2), torch.ones(3, 2), torch.ones(3, 1)
    flat = r"phi must be one of 'identity', 'sigmoid', 'tanh'.*; got 'sign'"
    with pytest.raises(UsageError, match=rf"delta_step: {flat}"):
        delta_step(W, None, x, y, "sign", 0.1)
    with pytest.raises(UsageError, match=rf"generalized_delta: {flat}"):
        generalized_delta([(W, None, "sign")], x, y)
    with pytest.raises(UsageError, match="phi must be one of 'sigmoid', 'tanh', 'identity'"):
        DeltaLayer(phi="sign").fit(x.numpy(), [0, 1, 1])
    with pytest.raises(UsageError, match=r"lr must be in \(0, inf\); got -1"):
        delta_step(W, None, x, y, "tanh", -1)
    with pytest.raises(UsageError, match="layers must be one layer or more"):
        generalized_delta([], x, y)
    with pytest.raises(UsageError, match=r"y must be of shape \(3, 1\).*got \(3, 2\)"):
        generalized_delta([(W, None, "tanh")], x, torch.ones(3, 2))
    with pytest.raises(UsageError, match="y must be of two classes or more; got 'one class'"):
        DeltaLayer().fit(x.numpy(), [1, 1, 1])
    with pytest.raises(UsageError, match=r"lr must be small enough .* Standardize X, or lower lr"):
        DeltaRegressor(lr=1.0, epochs=1000).fit(10 * np.eye(3), [1.0, 2.0, 3.0])


def test_targets_that_no_unit_reaches_give_a_warning():
    x, y = torch.ones(2, 2), torch.tensor([[-1.0], [2.0]])
    message = r"y must be in \[0, 1\], the range of sigmoid; got values from -1 to 2"
    with pytest.warns(UserWarning, match=message):
        delta_step(torch.zeros(1, 2), None, x, y, "sigmoid", 0.1)
    with pytest.warns(UserWarning, match=message):
        DeltaRegressor(phi="sigmoid").fit(x.numpy(), y[:, 0].numpy())

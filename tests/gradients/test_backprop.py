import copy
import functools

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPRegressor
from torch import nn
from torch.nn import functional as F

from planting import assert_caught
from principia.connectionism.delta_rule import generalized_delta
from principia.gradients.backprop import BackpropTrainer, backprop, error_signals, layer_jacobian
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.training import ClipNorm, Supervised, fit
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import MLP

KEY = "gradients/backprop"


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=rng(seed), dtype=torch.float64)


def net(*sizes, **options):
    return MLP(sizes, rng=rng(1), **options).double()


def by_torch(mlp, x, y, loss):
    value = loss(mlp(x), y)
    names, parameters = zip(*mlp.named_parameters(), strict=True)
    return value, dict(zip(names, torch.autograd.grad(value, parameters), strict=True))


def assert_same(mlp, x, y, loss):
    value, grads = backprop(mlp, x, y, loss)
    torch_value, torch_grads = by_torch(mlp, x, y, loss)
    torch.testing.assert_close(value, torch_value.detach())
    assert list(grads) == list(torch_grads)
    for name, one in grads.items():
        torch.testing.assert_close(one, torch_grads[name], rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("deltas[-1] * slopes[number - 1]", "deltas[-1]", "transpose_needed"),
        ("[mlp.phi] * (len(layers) - 1) + [mlp.out_phi]", "[mlp.phi] * len(layers)",
         "batch_gradient_is_mean"),
        ("signal.mT @ x", "signal.mT @ x.abs()", "batch_gradient_is_mean"),
        ("= signal.sum(dim=0)", "= signal.mean(dim=0)", "batch_gradient_is_mean"),
        ("* counted / counted.sum()", "* counted", "batch_gradient_is_mean"),
        # a mean in single precision
        ("* counted / counted.sum()", "* (counted / counted.sum())", "batch_gradient_is_mean"),
        ("2 * (outputs - y) / y.numel()", "(outputs - y) / y.numel()", "batch_gradient_is_mean"),
        ("mlp.layers[number - 1].weight)  #", "mlp.layers[number - 1].weight.mT)  #",
         "transpose_needed"),
        ("delta, last=0)[0]", "delta, last=0)[1]", "transpose_needed"),
        ("F.linear(x, W, b))[..., None] * W", "F.linear(x, W, b))[..., None, :] * W", "one_layout"),
        ("F.linear(x, W, b))[..., None] * W", "F.linear(x, W))[..., None] * W", "layer_jacobian"),
        ("torch.optim.SGD(mlp.parameters(), lr=lr)", "torch.optim.SGD(mlp.parameters(), lr=lr / 2)",
         "equals_autograd"),
        ("        self.optimizer.zero_grad()\n", "", "equals_autograd"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("        self.optimizer.zero_grad()\n", "", "equals_autograd", ["BackpropTrainer"]),
        ("F.nll_loss(log_p, y)", "F.nll_loss(p, y)", "equals_autograd", ["losses"]),
        ("signal.mT @ x", "signal.mT @ x.abs()", "transpose_needed", ["[∂F/∂θ]ᵀδ, weights"]),
        ("deltas[-1] * slopes[number - 1]", "deltas[-1]", "transpose_needed", ["error_signals"]),
        ("F.linear(x, W, b))[..., None] * W", "F.linear(x, W, b))[..., None, :] * W", "one_layout",
         ["numerator layout and autograd", "one is the other transposed"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_gradients_of_every_activation_are_those_of_torch(activation, bias):
    mlp = net(4, 6, 5, 3, activation=activation, out_activation=activation, bias=bias)
    assert_same(mlp, normal(7, 4), normal(7, 3, seed=2), F.mse_loss)
    mlp = net(4, 6, 3, activation=activation, bias=bias)
    assert_same(mlp, normal(7, 4), torch.arange(7) % 3, F.cross_entropy)


@pytest.mark.parametrize(
    ("loss", "y"),
    [
        (F.cross_entropy, torch.tensor([0, 2, -100, 1, -100])),  # torch leaves -100 out
        (F.cross_entropy, 2 * normal(5, 3, seed=3).softmax(dim=1)),
        (functools.partial(F.cross_entropy, reduction="sum"), torch.arange(5) % 3),
        (nn.SmoothL1Loss(), normal(5, 3, seed=4)),
        (lambda outputs, y: (outputs - y).abs().max(), normal(5, 3, seed=4)),
    ],
)
def test_losses_in_the_table_and_any_other(loss, y):
    assert_same(net(4, 6, 3, activation="tanh"), normal(5, 4), y, loss)


def test_gradients_are_those_of_scikit_learn():
    x, y = normal(20, 4).numpy(), normal(20, 2, seed=2).numpy()
    model = MLPRegressor(hidden_layer_sizes=(5, 3), activation="tanh", solver="sgd", alpha=0,
                         momentum=0, max_iter=1, learning_rate_init=0.1, batch_size=20,
                         random_state=0, shuffle=False)
    with pytest.warns(UserWarning, match="converged"):
        model.fit(x, y)
    mlp = net(4, 5, 3, 2, activation="tanh")
    for layer, W, b in zip(mlp.layers, model.coefs_, model.intercepts_, strict=True):
        layer.weight.data, layer.bias.data = torch.tensor(W.T), torch.tensor(b)
    before = [one.copy() for one in model.coefs_]
    with pytest.warns(UserWarning, match="converged"):
        model.set_params(warm_start=True).fit(x, y)
    # half the sum over the outputs of the mean over the samples: with two outputs, the mean of all
    grads = backprop(mlp, torch.tensor(x), torch.tensor(y), F.mse_loss)[1]
    for place, (old, new) in enumerate(zip(before, model.coefs_, strict=True)):
        np.testing.assert_allclose(
            grads[f"layers.{place}.weight"].T, (old - new) / 0.1, rtol=1e-9, atol=1e-12
        )


def test_a_step_is_the_generalized_delta_rule():
    mlp, x = net(3, 4, 2, activation="sigmoid", out_activation="sigmoid"), normal(6, 3)
    y = normal(6, 2, seed=2).sigmoid()
    layers = [(one.weight.detach().clone(), one.bias.detach().clone(), "sigmoid")
              for one in mlp.layers]
    # half the sum over the outputs of the mean over the samples: with two outputs, the mean of all
    moved = generalized_delta(layers, x, y, lr=0.7)
    BackpropTrainer(mlp, lr=0.7, loss=F.mse_loss).step(x, y)
    for one, (W, b, _) in zip(mlp.layers, moved, strict=True):
        torch.testing.assert_close(one.weight.detach(), W)
        torch.testing.assert_close(one.bias.detach(), b)


def test_error_signals_are_finite_differences_of_the_loss():
    mlp, x, y = net(3, 5, 4, 2, activation="gelu"), normal(4, 3), torch.tensor([0, 1, 1, 0])
    signals = error_signals(mlp, x, y)
    for place, (signal, h) in enumerate(zip(signals, mlp.activations(x), strict=True)):
        def rest(h, place=place):
            for number in range(place, 3):
                h = mlp.layers[number](h)
                h = mlp.phi(h) if number < 2 else h
            return float(F.cross_entropy(h, y).detach())
        for b, i in ((0, 0), (3, h.shape[1] - 1)):
            e = torch.zeros_like(h)
            e[b, i] = 1e-5
            quotient = (rest(h + e) - rest(h - e)) / 2e-5
            assert quotient == pytest.approx(float(signal[b, i]), abs=1e-9)


def test_jacobian_takes_any_batch_axes():
    W, b = normal(4, 3), normal(4, seed=1)
    for lead in ((), (5,), (2, 5)):
        found = layer_jacobian(W, b, normal(*lead, 3, seed=2), "softplus")
        assert found.shape == (*lead, 4, 3)
    exact = torch.autograd.functional.jacobian(lambda x: F.softplus(F.linear(x, W, b)), normal(3))
    torch.testing.assert_close(layer_jacobian(W, b, normal(3), "softplus"), exact)


def test_no_graph_is_made_and_the_network_is_left_alone():
    mlp, x, y = net(4, 6, 3), normal(5, 4).requires_grad_(), torch.arange(5) % 3
    before = copy.deepcopy(mlp.state_dict())
    value, grads = backprop(mlp, x, y)
    assert not value.requires_grad
    assert not any(one.requires_grad for one in (*grads.values(), *error_signals(mlp, x, y)))
    assert all(one.grad is None for one in (x, *mlp.parameters()))
    assert all(torch.equal(before[name], one) for name, one in mlp.state_dict().items())
    with torch.inference_mode():
        assert torch.equal(backprop(mlp, x, y)[0], value)


def test_per_sample_gradients_by_vmap():
    mlp, x, y = net(4, 6, 3), normal(5, 4), torch.arange(5) % 3
    each = torch.func.vmap(lambda x, y: backprop(mlp, x[None], y[None])[1])(x, y)
    whole = backprop(mlp, x, y)[1]
    for name, one in each.items():
        torch.testing.assert_close(one.mean(dim=0), whole[name])


def test_trainer_is_an_objective_like_any_other():
    x, y = normal(60, 4), torch.arange(60) % 3
    ends = []
    for kind in ("ours", "theirs"):
        mlp = net(4, 8, 3, activation="tanh")
        trainer = BackpropTrainer(mlp)
        objective = trainer if kind == "ours" else Supervised(F.cross_entropy)
        adam = torch.optim.Adam(mlp.parameters(), lr=0.01)
        trained = fit(mlp, (x, y), objective, adam, epochs=4, batch_size=16,
                      callbacks=[ClipNorm(0.05)], validation=(x, y))
        ends.append((nn.utils.parameters_to_vector(mlp.parameters()), trained.history))
    torch.testing.assert_close(ends[0][0], ends[1][0], rtol=1e-9, atol=1e-12)
    for ours, theirs in zip(ends[0][1], ends[1][1], strict=True):
        assert ours == pytest.approx(theirs)
        assert "validation_loss" in ours


def test_trainer_adds_gradients_skips_frozen_weights_and_sums_shared_ones():
    x, y = normal(5, 4), normal(5, 4, seed=2)
    mlp = net(4, 4, 4, activation="tanh")
    mlp.layers[1].weight = mlp.layers[0].weight
    mlp.layers[0].bias.requires_grad_(False)
    (2 * F.mse_loss(mlp(x), y)).backward()
    theirs = {name: one.grad for name, one in mlp.named_parameters()}
    mlp.zero_grad()
    trainer = BackpropTrainer(mlp, loss=F.mse_loss)
    for _ in range(2):
        trainer(mlp, (x, y), rng())
    assert mlp.layers[0].bias.grad is None is theirs.pop("layers.0.bias")
    for name, one in theirs.items():
        torch.testing.assert_close(mlp.get_parameter(name).grad, one)
    mlp.zero_grad()
    with torch.no_grad():
        assert float(trainer(mlp, (x, y))) == pytest.approx(float(F.mse_loss(mlp(x), y)))
        assert mlp.layers[0].weight.grad is None
        before = mlp.layers[0].weight.clone()
        trainer.step(x, y)
    assert not torch.equal(before, mlp.layers[0].weight)


def test_quick_experiment_reaches_its_floor_and_draws():
    outcome = page(KEY).experiments()["train_digits"]()
    assert outcome.reached, outcome.missed
    assert outcome.metrics["trajectory_difference"] < 1e-12
    assert set(outcome.figures) == {"error_signals_at_first", "error_signals"}
    first, trained = (
        [np.abs(np.array(trace.z)).mean() for trace in outcome.figures[name].data]
        for name in ("error_signals_at_first", "error_signals")
    )
    assert len(first) == 30  # ten classes, three layers
    assert np.mean(trained) < np.mean(first) / 3


def test_bad_input_is_told_in_one_sentence():
    mlp, x, y = net(4, 6, 3), normal(5, 4), torch.arange(5) % 3
    unknown = r"mlp must be an MLP whose layers are nn.Linear; got .*\. The page gradients/graph"
    for other in (nn.Sequential(nn.Linear(4, 3)), nn.Linear(4, 3).double()):
        with pytest.raises(UsageError, match=f"backprop: {unknown}"):
            backprop(other, x, y)
    mixed = net(4, 6, 3)
    mixed.layers[1] = nn.Sequential(mixed.layers[1])
    with pytest.raises(UsageError, match=f"error_signals: {unknown}"):
        error_signals(mixed, x, y)
    for phi in (nn.SELU(), nn.LeakyReLU(0.2), nn.GELU("tanh")):
        bent = net(4, 6, 3)
        bent.phi = phi
        told = r"the activation must be one with a derivative in ACTIVATIONS \(identity, .*; got "
        with pytest.raises(UsageError, match=told + type(phi).__name__):
            backprop(bent, x, y)
    per_sample = functools.partial(F.cross_entropy, reduction="none")
    told = r"backprop: loss must be reduced to a scalar, of shape \(\); got \(5,\)\. Take the mean"
    with pytest.raises(UsageError, match=told):
        backprop(mlp, x, y, per_sample)
    with pytest.raises(UsageError, match=r"x must be of width 4; got \(5, 3\)"):
        backprop(mlp, normal(5, 3), y)
    told = r"y must be of the shape of the outputs, \(5, 3\); got \(5,\)\. A broadcast would mix"
    with pytest.raises(UsageError, match=told):
        backprop(mlp, x, normal(5), F.mse_loss)
    with pytest.raises(UsageError, match=r"layer_jacobian: phi must be one of .*; got 'selu'"):
        layer_jacobian(normal(2, 2), normal(2), normal(2), "selu")
    with pytest.raises(UsageError, match=r"BackpropTrainer: lr must be in \(0, inf\); got 0"):
        BackpropTrainer(mlp, lr=0)
    with pytest.raises(UsageError, match="BackpropTrainer: model must be the one it was made for"):
        BackpropTrainer(mlp)(net(4, 6, 3), (x, y), rng())

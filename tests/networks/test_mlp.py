import functools
import itertools

import jaxtyping
import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from sklearn.neural_network import MLPClassifier
from torch import nn

from planting import assert_caught
from principia.gradients.backprop import backprop
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.networks import difference_of_maxes, regions_1d, tanh_to_sigmoid
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import (
    MLP,
    as_linear_functional,
    flip_signs,
    level_set_points,
    permute_hidden,
    rescale_unit,
    ridge,
    widen,
)
from principia.optimization import pretrain, rescale_relu, transfer
from principia.regularization import ClassicDropout

KEY = "networks/mlp"


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=rng(seed), dtype=torch.float64)


def net(*sizes, **options):
    return MLP(sizes, rng=rng(1), **options).double()


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("skip_init(nn.Linear, n, m, bias=its)", "skip_init(nn.Linear, n, m, bias=n < m)",
         "parameter_count"),
        ("x = self.phi(z) if hidden", "x = self.phi(z) if True", "composition"),
        ("z = _normalized(self.norms[number - 1], z)", "pass", "parts_in_order"),
        ("z = _normalized(self.norms[number - 1], z)",
         "z = _normalized(self.norms[number - 1], self.phi(z))", "parts_in_order"),
        ("x = self.drops[number - 1](x)", "x = self.drops[number - 1](layer(x))", "parts_in_order"),
        ("x = self.drops[number - 1](x)", "pass", "parts_in_order"),
        ("else nn.Dropout(dropout)", "else nn.Dropout(1 - dropout / 2)", "parts_in_order"),
        ("return norm(rows).view_as(z)",
         "return norm(z.mT).mT if isinstance(norm, _BatchNorm) else norm(z)", "parts_in_order"),
        ("outputs = [x]", "outputs = [0 * x]", "composition"),
        ("return f(torch.eye(n,", "return -f(torch.eye(n,", "linear_functional"),
        ("derivative[..., None] * w", "value[..., None] * w", "ridge_invariance"),
        ("grid[:, :-1][columns]])", "grid[:, 1:][columns]])", "ridge_invariance"),
        ("outgoing[:, order])", "outgoing)", "permutation_symmetry"),
        ("outgoing / factors)", "outgoing * factors)", "sign_and_scale_symmetry"),
        ("factors[i] = c", "factors[0] = c", "sign_and_scale_symmetry"),
        ("before.out_features = after.in_features = len(incoming)", "pass", "nesting"),
        ("z, hidden = layer(x)", "z, hidden = layer(x.detach() + 0 * x)",
         "gradient_normal_to_level_set"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("x = self.phi(z) if hidden", "x = z if hidden", "parts_in_order",
         ["dropout, evaluation"]),
        ("vjp(sigma, x @ w + b)", "vjp(sigma, x @ w.abs() + b)", "ridge_invariance",
         ["gradient", "gradient along w", "value on all hyperplanes"]),
        ("torch.where(same, middle, start)", "torch.where(same, start, middle)",
         "ridge_invariance", ["level set in the plane"]),
        ("rebuilt_with(mlp, layer, incoming[order],", "rebuilt_with(mlp, layer, incoming,",
         "permutation_symmetry", ["units of layer 1", "units of layer 2", "one function"]),
        ("else self.out_phi(z)", "else self.out_phi(z[..., 1:])", "layer_cost", ["counts"]),
        ("nn.Parameter(incoming[:, n].clone())", "nn.Parameter(incoming[:, 0].clone())",
         "sign_and_scale_symmetry", ["scale, layer 1", "unit, layer 1", "scale, layer 2"]),
        ("incoming[i], (1 - alpha) *", "incoming[i], alpha *", "nesting",
         ["tanh, split", "relu, split", "sigmoid, split"]),
        ("_draw(row, mlp.sizes", "_draw(column, mlp.sizes", "nesting", ["sigmoid, zero"]),
        ("-(n**-0.5)", "(n**-0.5)", "permutation_symmetry", ["m! parameter vectors"]),
        ("before.out_features = after.in_features =", "after.in_features =", "nesting",
         ["widths, tanh, zero", "widths, tanh, split", "widths, tanh, dead", "widths, relu, zero",
          "widths, relu, split", "widths, relu, dead", "widths, sigmoid, zero",
         "widths, sigmoid, split"]),
        ("z, hidden = layer(x)", "z, hidden = layer(x.abs())", "gradient_normal_to_level_set",
         ["where the gradient is 0"]),
        ("= torch.zeros_like", "= torch.ones_like", "nesting", ["tanh, dead", "relu, dead"]),
        ("(f(grid.flatten(0, 1)) > c)", "(f(grid.flatten(0, 1)) >= c)", "ridge_invariance",
         ["points of corners"]),
        ("incoming[order], outgoing[:, order]", "incoming[order], outgoing",
         "permutation_symmetry", ["without biases"]),
        (":, None] *", ":, None] /", "sign_and_scale_symmetry", ["unit, layer 2"]),
        (", torch.zeros_like", ", torch.ones_like", "nesting", ["tanh, zero", "relu, zero"]),
        ("bias and not isinstance(one, _BatchNorm)", "bias and isinstance(one, _BatchNorm)",
         "parameter_count", ["layers with a bias"]),
        ("-(n**-0.5), n**-0.5", "-(n**-0.6), n**-0.5", "composition", ["weights as drawn"]),
        ('activation: ActivationName = "relu"', 'activation: ActivationName = "tanh"',
         "composition", ["torch's chain"]),
        ("(self.layers[0].in_features, *", "(self.layers[-1].in_features, *", "composition",
         ["widths"]),
        ("return copy.deepcopy(dropout) if", "return dropout if", "parts_in_order",
         ["modules that drop"]),
        ("cells: PositiveInt = 100", "cells: PositiveInt = 90", "ridge_invariance",
         ["points of a circle"]),
        ("side = f(start) > c", "side = f(start) >= c", "ridge_invariance",
         ["corners of the grid"]),
        ("return (start + end) / 2", "return (start + end) / 3", "ridge_invariance",
         ["radius of a circle"]),
        ("_draw(row, mlp.sizes[layer - 1], rng)", "pass", "nesting", ["new weights, into it"]),
        ("_draw(column, len(incoming), rng)", "_draw(column, 2, rng)", "nesting",
         ["new weights, out of it"]),
        ("_draw(row, mlp.sizes[layer - 1], rng)", "_draw(column, mlp.sizes[layer - 1], rng)",
         "nesting", ["new weights, zeros"]),
        ("alpha: float = 0.5", "alpha: float = 0.4", "nesting",
         ["new weights, halves of the first"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_network_is_torchs_sequential_to_the_bit(activation, bias):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        theirs = nn.Sequential(
            nn.Linear(5, 7, bias=bias), ACTIVATIONS[activation].module(),
            nn.Linear(7, 2, bias=bias),
        )
        torch.manual_seed(3)
        ours = MLP([5, 7, 2], activation=activation, bias=bias)
    x = torch.randn(3, 4, 5, generator=rng())
    assert torch.equal(ours(x), theirs(x))
    assert torch.equal(MLP((5, 7), rng=rng())(x[0]), MLP([5, 7], rng=rng())(x[0]))


def test_network_is_scikit_learns_with_its_weights():
    x, y = normal(200, 6).numpy(), (normal(200, seed=1) > 0).long().numpy()
    theirs = MLPClassifier((8, 5), activation="tanh", max_iter=3, tol=10.0, random_state=0)
    theirs.set_params(n_iter_no_change=100)
    with pytest.warns(UserWarning, match="Maximum iterations"):
        theirs.fit(x, y)
    ours = net(6, 8, 5, 1, activation="tanh", out_activation="sigmoid")
    with torch.no_grad():
        for layer, W, b in zip(ours.layers, theirs.coefs_, theirs.intercepts_, strict=True):
            layer.weight.copy_(torch.tensor(W.T))
            layer.bias.copy_(torch.tensor(b))
    probability = ours(torch.tensor(x))[:, 0].detach()
    np.testing.assert_allclose(probability, theirs.predict_proba(x)[:, 1], atol=1e-12)


@pytest.mark.parametrize("lead", [(), (4,), (2, 3), (0,)])
def test_leading_axes_pass_through(lead):
    mlp = net(5, 4, 3, activation="gelu")
    x = normal(*lead, 5)
    assert mlp(x).shape == (*lead, 3)
    flat = mlp(x.reshape(-1, 5)).reshape(*lead, 3)
    torch.testing.assert_close(mlp(x), flat, rtol=0, atol=1e-14)
    assert [tuple(one.shape) for one in mlp.activations(x)] == [(*lead, k) for k in (5, 4, 3)]


def test_gradients_and_transforms_of_torch():
    mlp = net(3, 4, 2, activation="tanh")
    parameters = dict(mlp.named_parameters())

    def value(x, *given):
        return torch.func.functional_call(mlp, dict(zip(parameters, given, strict=True)), x)

    assert torch.autograd.gradcheck(value, (normal(5, 3).requires_grad_(), *parameters.values()))
    rows = torch.func.vmap(torch.func.jacrev(mlp))(normal(6, 3))
    assert rows.shape == (6, 2, 3)


def test_network_is_compiled_and_exported_whole(monkeypatch):
    mlp = MLP([6, 5, 2], rng=rng())
    x = torch.randn(4, 6, generator=rng())
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it breaks the graph itself
    # eager: one graph without a break is what matters, not which compiler is installed
    compiled = torch.compile(mlp, fullgraph=True, backend="eager")
    assert torch.equal(compiled(x), mlp(x))
    program = torch.export.export(mlp, (x,), dynamic_shapes=({0: torch.export.Dim("B")},))
    other = torch.randn(9, 6, generator=rng(1))
    torch.testing.assert_close(program.module()(other), mlp(other))


@pytest.mark.parametrize("lead", [(), (1,), (6,), (3, 2), (0,)])
def test_norms_take_all_leading_axes_for_samples(lead):
    mlp = net(5, 4, 4, 3, norm=nn.BatchNorm1d, dropout=0.3)
    mlp(normal(50, 5))  # so that running statistics differ from 0 and 1
    mlp.eval()
    x = normal(*lead, 5)
    assert mlp(x).shape == (*lead, 3)
    torch.testing.assert_close(mlp(x), mlp(x.reshape(-1, 5)).reshape(*lead, 3))


def test_parts_are_exported_whole(monkeypatch):
    mlp = MLP([6, 5, 2], norm=nn.LayerNorm, dropout=0.2, rng=rng()).eval()
    x = torch.randn(4, 6, generator=rng())
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it breaks the graph itself
    program = torch.export.export(mlp, (x,), dynamic_shapes=({0: torch.export.Dim("B")},))
    other = torch.randn(9, 6, generator=rng(1))
    torch.testing.assert_close(program.module()(other), mlp(other))


def test_each_hidden_layer_has_parts_of_its_own():
    factory = functools.partial(nn.GroupNorm, 2, eps=1e-3)
    mlp = net(3, 4, 6, 2, norm=factory, dropout=ClassicDropout(0.7))
    assert [(one.num_channels, one.num_groups, one.eps) for one in mlp.norms] == [
        (4, 2, 1e-3), (6, 2, 1e-3)]
    assert [one.keep for one in mlp.drops] == [0.7, 0.7]
    assert mlp.drops[0] is not mlp.drops[1]
    assert not net(3, 2, norm=nn.LayerNorm, dropout=0.5).norms  # no hidden layer, no parts
    biased = [one.bias is not None for one in net(3, 4, 4, 2, norm=nn.BatchNorm1d).layers]
    assert biased == [False, False, True]
    assert all(one.bias is None for one in net(3, 4, 2, norm=nn.LayerNorm, bias=False).layers)


SYMMETRIES = {
    "permute_hidden": lambda mlp: permute_hidden(mlp, 1, [1, 0, 2, 3]),
    "flip_signs": lambda mlp: flip_signs(mlp, 1, torch.tensor([1, -1, 1, 1])),
    "rescale_unit": lambda mlp: rescale_unit(mlp, 1, 0, 3.0),
    "widen": lambda mlp: widen(mlp, 1, "split", alpha=0.3),
    "rescale_relu": lambda mlp: rescale_relu(mlp, 3.0),
}


@pytest.mark.parametrize("name", SYMMETRIES)
def test_symmetries_hold_with_dropout_and_refuse_what_looks_at_all_units(name):
    options = {"activation": "tanh" if name == "flip_signs" else "relu"}
    mlp, x = net(3, 4, 2, dropout=0.4, **options).eval(), normal(20, 3)
    other = SYMMETRIES[name](mlp)
    assert not other.training
    assert other.drops[0].p == 0.4
    torch.testing.assert_close(other(x), mlp(x))
    for bad in ({"norm": nn.LayerNorm}, {"norm": nn.BatchNorm1d}, {"dropout": ClassicDropout()}):
        told = rf"^{name}: (mlp|model) must be an MLP whose hidden units hear their own sum alone"
        with pytest.raises(UsageError, match=told):
            SYMMETRIES[name](net(3, 4, 2, **bad, **options))


def test_who_reads_layers_alone_refuses_parts_between_them():
    x, y = normal(5, 3), torch.zeros(5, dtype=torch.long)
    for bad in ({"norm": nn.LayerNorm}, {"dropout": 0.5}):
        mlp = net(3, 4, 1, **bad)
        with pytest.raises(UsageError, match=r"^backprop: mlp must be an MLP of linear layers and"):
            backprop(mlp, x, y)
        with pytest.raises(UsageError, match=r"^regions_1d: net must be of linear layers and ReLU"):
            regions_1d(mlp, x[0], x[1])
        with pytest.raises(UsageError, match=r"^tanh_to_sigmoid: mlp must be .*without norm"):
            tanh_to_sigmoid(net(3, 4, 1, activation="tanh", **bad))
    normed, told = net(3, 4, 1, norm=nn.RMSNorm), "must be .* hear their own sum alone"
    with pytest.raises(UsageError, match=f"^difference_of_maxes: net {told}"):
        difference_of_maxes(normed)
    with pytest.raises(UsageError, match=f"^pretrain: encoder {told}"):
        pretrain(normed, x.sigmoid())
    with pytest.raises(UsageError, match=f"^transfer: encoder {told}"):
        transfer(normed, net(3, 4, 1))


def test_bad_parts_are_told_in_one_sentence():
    for bad in (nn.LayerNorm(4), "layer", lambda width: width):
        told = r"^MLP: norm must be a class or function that makes a module for a .*; got .*\. Pass"
        with pytest.raises(UsageError, match=told):
            MLP([3, 4, 2], norm=bad)
    with pytest.raises(UsageError, match=r"GroupNorm.*For width 4 it said: .*num_channels"):
        MLP([3, 4, 2], norm=nn.GroupNorm)
    with pytest.raises(UsageError, match=r"sizes must be 2 or more for every hidden layer; got 1\. "
                       r".*variance is 0"):
        MLP([3, 1, 2], norm=nn.LayerNorm)
    for bad in (1.0, -0.1, "half", True):
        with pytest.raises(UsageError, match=r"MLP: dropout must be in \[0, 1\), or a Module; got"):
            MLP([3, 4, 2], dropout=bad)
    mlp, x = net(3, 4, 2, norm=nn.BatchNorm1d), normal(4, 3)
    with pytest.raises(UsageError, match=r"x must be 2 or more rows .*got 1\. .*=nn\.LayerNorm"):
        mlp(x[:1])
    assert mlp.eval()(x[:1]).shape == (1, 2)


def test_copies_leave_the_original_alone():
    mlp = net(4, 5, 3, 2)
    before = {name: one.clone() for name, one in mlp.state_dict().items()}
    x, draws = normal(50, 4), rng(2)
    copies = [permute_hidden(mlp, 1, torch.arange(5).flip(0)), rescale_unit(mlp, 2, 1, 3.0)]
    copies += [widen(mlp, 2, how, i=2, alpha=-1.5, rng=draws) for how in ("zero", "split", "dead")]
    for one in copies:
        torch.testing.assert_close(one(x), mlp(x), rtol=0, atol=1e-13)
        nn.init.zeros_(one.layers[0].weight)
        nn.init.zeros_(one.layers[2].bias)
    assert all(torch.equal(before[name], one) for name, one in mlp.state_dict().items())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_symmetries_without_bias_and_in_single_precision(bias, dtype):
    mlp = MLP([4, 6, 5, 2], activation="identity", bias=bias, rng=rng()).to(dtype)
    x = normal(20, 4).to(dtype)
    signs = torch.tensor([1, -1, -1, 1, 1, -1])
    for other in (flip_signs(mlp, 1, signs), permute_hidden(mlp, 2, [4, 3, 2, 1, 0]),
                  rescale_unit(mlp, 1, 5, 0.25), widen(mlp, 1, "dead", rng=rng())):
        assert {one.dtype for one in other.parameters()} == {dtype}
        torch.testing.assert_close(other(x), mlp(x), rtol=1e-5, atol=1e-6)


def test_level_set_points_are_where_scipy_finds_the_roots():
    mlp = net(2, 20, 1, activation="tanh")

    def f(x):
        return 5 * mlp(x)[:, 0] + x[:, 0] - x[:, 1] ** 2

    found = level_set_points(f, 0.3, low=-2, high=2, cells=16).detach()
    crossings = []
    for tick, (a, b) in itertools.product(
        np.linspace(-2, 2, 17), itertools.pairwise(np.linspace(-2, 2, 17))
    ):
        for line in (lambda t, s=tick: [s, t], lambda t, s=tick: [t, s]):
            def gap(t, line=line):
                return float(f(torch.tensor([line(t)], dtype=torch.float64)).detach()) - 0.3
            if gap(a) * gap(b) < 0:
                crossings.append(line(brentq(gap, a, b, xtol=1e-15)))
    order = np.lexsort(np.round(found.numpy().T, 8)), np.lexsort(np.round(np.array(crossings).T, 8))
    assert len(found) == len(crossings) > 10
    np.testing.assert_allclose(found[order[0]], np.array(crossings)[order[1]], atol=1e-12)
    assert level_set_points(f, 1e6).shape == (0, 2)


def test_ridge_of_every_activation_has_the_gradient_of_autograd():
    w = normal(4, seed=2)
    for activation in ACTIVATIONS.values():
        x = normal(30, 4).requires_grad_()
        value, gradient = ridge(x, w, 0.3, activation.module())
        torch.testing.assert_close(gradient, torch.autograd.grad(value.sum(), x)[0])


def test_linear_functional_of_an_integral():
    nodes, weights = np.polynomial.legendre.leggauss(8)
    powers = torch.tensor(nodes[:, None] ** np.arange(6))

    def integral(coefficients):  # of a polynomial over [-1, 1]
        return (coefficients @ powers.T) @ torch.tensor(weights)

    exact = [2 / (k + 1) if k % 2 == 0 else 0.0 for k in range(6)]
    np.testing.assert_allclose(as_linear_functional(integral, 6), exact, atol=1e-14)


def test_quick_experiment_draws_all_its_pictures():
    outcome = page(KEY).experiments()["hidden_300"](epochs=4)
    assert set(outcome.figures) == {"first_layer", "confusion", "level_sets"}
    drawn = [np.array(one.z, dtype=float) for one in outcome.figures["confusion"].data]
    confusion = np.nansum(drawn, axis=0)
    assert confusion.sum() == 360
    assert np.trace(confusion) / 360 == pytest.approx(outcome.metrics["digits_accuracy"])


def test_bad_input_is_told_in_one_sentence():
    mlp = net(784, 300, 10)
    width = r"MLP: x must have width 784 at layer 1; got width "
    with pytest.raises(UsageError, match=width + r"10, shape \(64, 10\)\.$"):
        mlp(normal(64, 10))
    with pytest.raises(UsageError, match=width + r"28, shape \(2, 28, 28\)\. Flatten .*flatten\(1"):
        mlp(normal(2, 28, 28))
    mlp.layers[1] = nn.Linear(200, 10)
    with pytest.raises(UsageError, match="must have width 200 at layer 2; got width 300"):
        mlp(normal(3, 784))
    for sizes, told in (((3,), r"two or more values; got \(3,\)"), ((), "one or more values"),
                        ((3, 0), r".* each an integer in \[1, inf\); got \(3, 0\)")):
        with pytest.raises(UsageError, match=f"MLP: sizes must be {told}"):
            MLP(sizes)
    with pytest.raises(UsageError, match=r"one of 'identity', .*; got 'rellu'\. Did you mean 're"):
        MLP([2, 2], activation="rellu")


def test_bad_symmetries_are_told_in_one_sentence():
    mlp, sigmoid = net(3, 4, 2), net(3, 4, 2, activation="sigmoid")
    for perm in ([0, 1, 2], [0, 1, 2, 2], [1, 2, 3, 4]):
        told = r"perm must be a permutation of the 4 units of layer 1, 0 to 3; got \["
        with pytest.raises(UsageError, match=told):
            permute_hidden(mlp, 1, perm)
    with pytest.raises(UsageError, match="layer must be one of the 1 hidden layers, from 1; got 2"):
        widen(mlp, 2)
    with pytest.raises(UsageError, match="flip_signs: the activation must be odd; got 'relu'"):
        flip_signs(mlp, 1, torch.ones(4))
    with pytest.raises(UsageError, match=r"signs must be one for each of the 4 units .*; got \(3,"):
        flip_signs(net(3, 4, 2, activation="tanh"), 1, torch.ones(3))
    with pytest.raises(UsageError, match="positively homogeneous; got 'sigmoid'"):
        rescale_unit(sigmoid, 1, 0, 2.0)
    with pytest.raises(UsageError, match=r"rescale_unit: i must be an integer in \[0, 3\]; got 4"):
        rescale_unit(mlp, 1, 4, 2.0)
    with pytest.raises(UsageError, match=r"how must be 'zero' or 'split' with sigmoid; got 'dead'"):
        widen(sigmoid, 1, "dead")
    with pytest.raises(UsageError, match="low must be below high, which is 1; got 2"):
        level_set_points(lambda x: x[:, 0], 0.0, low=2)

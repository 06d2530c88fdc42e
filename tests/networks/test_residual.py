import itertools
import math

import jaxtyping
import pytest
import torch
from torch import nn

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs.models import load_model, save_model
from principia.lab.training import Supervised, fit
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import MLP
from principia.networks.residual import (
    DenseBlock,
    ResidualLayer,
    ResidualMLP,
    SkipNetwork,
    path_expansion,
    skip_jacobian,
)

KEY = "networks/residual"


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=rng(seed), dtype=torch.float64)


def skips(dim, depth, alpha=1.0):
    draws = rng(1)
    branches = [MLP([dim, 2 * dim, dim], activation="tanh", rng=draws) for _ in range(depth)]
    return SkipNetwork(branches, alpha=alpha).double()


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("return outputs - self.at_zero if self.at_zero else outputs", "return outputs",
         "identity_at_zero"),
        ("nn.init.eye_(self.shortcut.weight)", "nn.init.ones_(self.shortcut.weight)",
         "identity_at_zero"),
        ("self.phi(self.linear(x))", "self.linear(self.phi(x))", "projected_residual"),
        ("torch.cat([paths, W @ paths])", "torch.cat([paths, paths @ W])", "path_count"),
        ("torch.add(y, step, alpha=self.alpha)", "torch.add(states[0], step, alpha=self.alpha)",
         "path_count"),
        ("torch.add(y, step, alpha=self.alpha)", "self.alpha * step",
         "gradient_survives_depth"),
        ("(identity + net.alpha * rows.transpose(0, 1)) @ product",
         "product @ (identity + net.alpha * rows.transpose(0, 1))", "skip_gradient_product"),
        ("net.alpha * rows.transpose(0, 1)", "net.alpha * rows.permute(1, 2, 0)",
         "skip_gradient_product"),
        ("strict=True))[since:]", "strict=True))[: len(states) - 1 - since]",
         "skip_gradient_product"),
        ("n + number * growth for number", "n + number * depth for number", "dense_width"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("nn.init.zeros_(self.branch.linear.weight)", "pass", "identity_at_zero",
         ["identity", "tanh", "relu", "leaky_relu", "hardtanh", "gelu", "avu"]),
        ("self.leave(self.body(self.enter(x)))",
         "self.leave(self.enter(x) + self.body(self.enter(x)))", "identity_at_zero",
         ["branches times α = 0"]),
        ("alpha=self.alpha)", "alpha=2 * self.alpha)", "projected_residual",
         ["networks, and defaults"]),
        ('nonlinearity="relu"', 'nonlinearity="linear"', "projected_residual",
         ["variance of the weights"]),
        ("nn.init.zeros_(linear.bias)", "nn.init.ones_(linear.bias)", "projected_residual",
         ["biases, and parameters"]),
        ("self.phi(layer(x)), x], dim=-1)", "self.phi(layer(x)), x.abs()], dim=-1)",
         "dense_width", ["a batch"]),
        ("(x if self.shortcut is None else self.shortcut(x)) + self.branch(x)",
         "x[..., :1] + self.branch(x)", "projected_residual",
         ["identity", "tanh", "relu", "leaky_relu", "hardtanh", "gelu", "avu"]),
        ("torch.cat([paths, W @ paths])", "torch.cat([W @ paths, W @ paths])", "path_count",
         ["paths of each length", "product = sum of products"]),
        ("torch.add(y, step, alpha=self.alpha)", "torch.add(y, step, alpha=self.alpha**2)",
         "skip_gradient_product", ["skip_jacobian since the input"]),
        ("torch.cat([self.phi(layer(x)), x], dim=-1)",
         "torch.cat([x, self.phi(layer(x))], dim=-1)", "dense_width", ["recursion"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_layer_is_the_identity_in_single_precision_too(activation):
    x = torch.randn(7, 5, generator=rng())
    layer = ResidualLayer(5, activation=activation, zero=True, rng=rng())
    assert torch.equal(layer(x), x)
    projected = ResidualLayer(5, m=3, activation=activation, project=True, zero=True, rng=rng())
    assert torch.equal(projected(x), x[:, :3])


def test_network_is_its_layers_written_with_torch():
    net, x = ResidualMLP(6, width=4, depth=3, n_out=2, alpha=0.3, rng=rng()).double(), normal(9, 6)
    first, *inner, last = net.layers
    y = nn.functional.linear(x, first.weight, first.bias)
    for layer in inner:
        y = y + 0.3 * torch.relu(y @ layer.weight.T + layer.bias)
    torch.testing.assert_close(net(x), y @ last.weight.T + last.bias, rtol=0, atol=1e-13)
    # alpha = 1 is a chain of residual layers
    chain = ResidualMLP(4, width=4, depth=1, n_out=4, activation="sigmoid", rng=rng()).double()
    layer = ResidualLayer(4, activation="sigmoid", rng=rng()).double()
    layer.branch = chain.body.branches[0]
    torch.testing.assert_close(chain.body(x[:, :4]), layer(x[:, :4]), rtol=0, atol=1e-15)


def test_weights_have_the_variance_of_he():
    net = ResidualMLP(500, width=400, depth=1, n_out=300, rng=rng())
    for layer in net.layers:
        spread = float(layer.weight.detach().var()) * layer.in_features / 2
        assert spread == pytest.approx(1, abs=5 * (2 / layer.weight.numel()) ** 0.5)
        assert not layer.bias.any()


def test_the_same_generator_gives_the_same_network_and_the_global_one_is_left_alone():
    before = torch.get_rng_state()
    made = [ResidualMLP(5, width=8, depth=4, n_out=2, rng=rng(3)).state_dict() for _ in range(2)]
    assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])
    ResidualLayer(3, m=4, project=True, rng=rng())
    DenseBlock(3, growth=2, depth=2, rng=rng())
    assert torch.equal(torch.get_rng_state(), before)


def test_paths_are_the_subsets_multiplied_by_brute_force():
    Ws = normal(4, 3, 3)
    paths = path_expansion(Ws)
    for number, bits in enumerate(itertools.product([0, 1], repeat=4)):
        product = torch.eye(3, dtype=torch.float64)
        for W, taken in zip(Ws, bits[::-1], strict=True):  # bit 0 is the first layer
            product = W @ product if taken else product
        torch.testing.assert_close(paths[number], product)
    assert torch.equal(path_expansion(Ws[:0]), torch.eye(3, dtype=torch.float64)[None])
    assert path_expansion(torch.ones(20, 1, 1)).shape == (2**20, 1, 1)


@pytest.mark.parametrize("lead", [(), (4,), (2, 3)])
def test_jacobian_is_that_of_torch_func(lead):
    net, x = skips(3, 4, alpha=0.6), normal(*lead, 3)
    flat = torch.func.vmap(torch.func.jacrev(net))(x.reshape(-1, 3))
    with torch.no_grad():
        torch.testing.assert_close(skip_jacobian(net, x), flat.reshape(*lead, 3, 3))
    after = SkipNetwork([*net.branches[2:]], alpha=0.6)
    later = torch.func.vmap(torch.func.jacrev(after))(net.states(x.reshape(-1, 3))[2])
    torch.testing.assert_close(skip_jacobian(net, x, since=2), later.reshape(*lead, 3, 3))
    last = skip_jacobian(net, x, since=4)
    torch.testing.assert_close(last, torch.eye(3, dtype=x.dtype).expand(*lead, 3, 3))


def test_gradients_are_right():
    for net in (skips(3, 2, 0.5), DenseBlock(3, growth=2, depth=3, activation="tanh").double()):
        assert torch.autograd.gradcheck(net, normal(2, 3).requires_grad_())


def test_size_of_the_states_stays_with_the_scale_that_the_docs_name():
    x, growth = normal(200, 64), {}
    kinds = itertools.product(("tanh", "relu"), (25, 100, 400), (0.5, 0))
    for activation, depth, power in kinds:
        net = ResidualMLP(
            64, width=64, depth=depth, n_out=1, alpha=depth**-power, activation=activation,
            rng=rng(),
        ).double()
        states = net.body.states(net.enter(x))
        growth[activation, depth, power] = (states[-1].norm() / states[0].norm()).item()
    assert all(growth["tanh", depth, 0.5] < 1.5 for depth in (25, 100, 400))
    # rectifiers: log of the growth is linear in the root of the depth, or in the depth
    tame, wild = ([math.log(growth["relu", one, p]) for one in (25, 100, 400)] for p in (0.5, 0))
    assert tame[2] / tame[1] == pytest.approx(2, rel=0.2)
    assert wild[2] / wild[1] == pytest.approx(4, rel=0.2)


def test_network_is_compiled_and_exported_whole(monkeypatch):
    net = ResidualMLP(6, width=5, depth=2, n_out=2, rng=rng())
    x = torch.randn(4, 6, generator=rng())
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it breaks the graph itself
    compiled = torch.compile(net, fullgraph=True, backend="eager")
    assert torch.equal(compiled(x), net(x))
    program = torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("B")},))
    other = torch.randn(9, 6, generator=rng(1))
    torch.testing.assert_close(program.module()(other), net(other))


def test_trained_network_survives_the_disk(tmp_path):
    x = torch.randn(64, 3, generator=rng())
    net = page(KEY).load("experiments").network.function(3, 1, rng(2), width=8, depth=3)
    assert net.body.alpha == pytest.approx(3**-0.5)
    adam = torch.optim.Adam(net.parameters(), lr=0.01)
    target = x.sum(dim=1, keepdim=True).sin()
    history = fit(net, (x, target), Supervised(nn.functional.mse_loss), adam, epochs=30).history
    assert history[-1]["loss"] < 0.3 * history[0]["loss"]
    save_model(tmp_path, net, {})
    assert torch.equal(load_model(tmp_path)[0](x), net(x))


def test_experiment_compares_networks_of_equal_size_and_removes_one_layer():
    module = page(KEY).load("experiments")
    nets = [module._reader(kind, 6, 4, 50, rng()) for kind in ("plain", "residual")]
    counts = [sum(one.numel() for one in net.parameters()) for net in nets]
    assert counts[0] == counts[1] == 7 * 4 + 49 * 5 * 4 + 5 * 10
    plain, net = nets
    x, y = torch.randn(200, 6, generator=rng()), torch.randint(10, (200,), generator=rng())
    for place in (1, 30, 49):
        state, other = net.enter(x), x
        for number, branch in enumerate(net.body.branches, start=1):
            state = state + (number != place) * net.body.alpha * branch(state)
        for number, layer in enumerate(plain.layers):
            if number != place:
                other = layer(other).relu() if number < 50 else layer(other)
        for model, logits in ((net, net.leave(state)), (plain, other)):
            right = (logits.argmax(dim=1) == y).double().mean().item()
            assert module._lesions(model, (x, y), [place]) == {place: right}
    assert len(net.body.branches) == 49


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(UsageError, match=r"project must be true from width 3 to 5; got False\. "):
        ResidualLayer(3, m=5)
    with pytest.raises(UsageError, match=r"SkipNetwork: alpha must be in \[0, inf\); got -1"):
        SkipNetwork([nn.Tanh()], alpha=-1)
    with pytest.raises(UsageError, match=r"SkipNetwork: branches must be one module or more"):
        SkipNetwork([])
    with pytest.raises(UsageError, match=r"ResidualMLP: alpha must be in \[0, inf\); got -0.5"):
        ResidualMLP(3, width=2, depth=2, n_out=1, alpha=-0.5)
    narrow = SkipNetwork([nn.Linear(4, 1), nn.Linear(4, 1)])
    with pytest.raises(UsageError, match=r"branches must be of shape \(7, 4\) behind branch 1, "
                       r"like its input; got \(7, 1\)\. .*project=True"):
        narrow(torch.zeros(7, 4))
    with pytest.raises(UsageError, match=r"path_expansion: L must be at most 20; got 21\. .*2\^L"):
        path_expansion(torch.zeros(21, 2, 2))
    with pytest.raises(UsageError, match="since must be one of the states, 0 to 2; got 3"):
        skip_jacobian(skips(3, 2), normal(3), since=3)
    pictures = torch.zeros(5, 2, 2)
    for net in (ResidualMLP(4, width=3, depth=1, n_out=2), ResidualLayer(4),
                DenseBlock(4, growth=1, depth=1)):
        with pytest.raises(UsageError, match=r"x must be of width 4; got .*5, 2, 2.* Flatten pict"):
            net(pictures)
    for name in ("", "sigmoied"):
        with pytest.raises(UsageError, match="DenseBlock: activation must be one of"):
            DenseBlock(3, growth=1, depth=1, activation=name)

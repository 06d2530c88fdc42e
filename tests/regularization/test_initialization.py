import math

import pytest
import torch
from scipy.integrate import quad
from torch import nn

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Trained
from principia.networks.mlp import MLP
from principia.regularization.claims.initialization import _log_averaged
from principia.regularization.initialization import (
    depth_profile,
    initialize_,
    lsuv_,
    product_uniform_logpdf,
)

KEY = "regularization/initialization"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def conv_net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 5), nn.ReLU(), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 16, 10)
    )


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("weight.uniform_(-math.sqrt(3) * sigma, math.sqrt(3)", "weight.uniform_(-sigma, 1",
         "uniform_and_gaussian_agree"),
        (".get(scheme, n))", ".get(scheme, m))", "uniform_and_gaussian_agree"),
        ('"glorot": (n + m) / 2', '"glorot": max(n, m)', "glorot_compromise"),
        ('math.sqrt(2) if scheme == "he"', '1.5 if scheme == "he"', "he_keeps_second_moment"),
        ("gradients = torch.autograd.grad(output, seen, cotangent)", "gradients = seen[::-1]",
         "glorot_compromise"),
        ("one.mean() for one in seen", "one.abs().mean() for one in seen",
         "tanh_fits_the_assumption"),
        ("return output / spread", "return output", "lsuv_unit_variance"),
        ("output.std(correction=0)", "output.square().mean().sqrt()", "lsuv_unit_variance"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("weight.normal_(0, sigma,", "weight.normal_(0, sigma**2,", "uniform_and_gaussian_agree",
         ["variance / σ², normal"]),
        ("n, m = weight[0].numel(), ", "n, m = weight.shape[1], ", "torch_default_variance",
         ["initialize_ is torch's start"]),
        ("nn.init.orthogonal_(weight, gain,", "nn.init.xavier_normal_(weight, gain,",
         "orthogonal_spectrum", ["singular values", "real ones of a matrix"]),
        ("density, -math.inf)", "density, 0.0)", "product_of_uniforms", ["nothing beyond"]),
        ("one.mean() for one in seen", "one.sum() for one in seen", "tanh_fits_the_assumption",
         ["profile, by autograd"]),
        ("weight[:, 0].numel()", "len(weight)", "uniform_and_gaussian_agree",
         ["all schemes are torch's"]),
        ("model(x.detach().requires_grad_())", "model(x.requires_grad_())",
         "tanh_fits_the_assumption", ["it only looks"]),
        ('initialize_(model, "orthogonal",', 'initialize_(model, "he",', "lsuv_unit_variance",
         ["singular values are alike"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(
    ("scheme", "law", "theirs"),
    [
        ("lecun", "normal", lambda w, g: nn.init.kaiming_normal_(
            w, nonlinearity="linear", generator=g)),
        ("lecun", "uniform", lambda w, g: nn.init.kaiming_uniform_(
            w, nonlinearity="linear", generator=g)),
        ("glorot", "normal", lambda w, g: nn.init.xavier_normal_(w, generator=g)),
        ("glorot", "uniform", lambda w, g: nn.init.xavier_uniform_(w, generator=g)),
        ("he", "normal", lambda w, g: nn.init.kaiming_normal_(
            w, nonlinearity="relu", generator=g)),
        ("he", "uniform", lambda w, g: nn.init.kaiming_uniform_(
            w, nonlinearity="relu", generator=g)),
        ("orthogonal", "normal", lambda w, g: nn.init.orthogonal_(w, generator=g)),
    ],
)
@pytest.mark.parametrize("shape", [(7, 20), (20, 7), (8, 4, 3), (8, 4, 3, 5), (4, 3, 2, 2, 2)])
def test_every_scheme_is_torchs_with_its_fans(scheme, law, theirs, shape):
    ours = initialize_(torch.empty(shape, dtype=torch.float64), scheme, law=law, rng=generator())
    expected = theirs(torch.empty(shape, dtype=torch.float64), generator())
    torch.testing.assert_close(ours, expected)


def test_the_default_is_the_start_of_torch_and_of_the_mlp():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        theirs = conv_net()
    ours = initialize_(conv_net(), "default", rng=generator(3))
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    mlp = MLP([5, 7, 2], rng=generator(4))
    again = initialize_(MLP([5, 7, 2], rng=generator()), "default", rng=generator(4))
    for one, other in zip(mlp.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_other_schemes_zero_the_biases_and_leave_other_layers_alone():
    net = conv_net()
    nn.init.constant_(net[2].weight, 5.0)
    assert initialize_(net, "glorot", rng=generator()) is net
    assert not net[0].bias.any()
    assert not net[4].bias.any()
    assert (net[2].weight == 5).all()


def test_a_gain_replaces_that_of_the_scheme():
    he, lecun = (
        initialize_(torch.empty(9, 9), scheme, gain=gain, rng=generator())
        for scheme, gain in (("he", None), ("lecun", math.sqrt(2)))
    )
    torch.testing.assert_close(he, lecun)
    W = initialize_(torch.empty(6, 6, dtype=torch.float64), "orthogonal", gain=3, rng=generator())
    torch.testing.assert_close(W.mT @ W, 9 * torch.eye(6, dtype=torch.float64))


def test_the_profile_is_that_of_the_activations_and_of_autograd():
    mlp = MLP([6, 9, 7, 4], activation="tanh", rng=generator()).double()
    x = torch.randn(11, 6, generator=generator(1), dtype=torch.float64)
    mean, forward, backward = depth_profile(mlp, x, rng=generator(2))
    states = mlp.activations(x.requires_grad_())
    v = torch.randn(11, 4, generator=generator(2), dtype=torch.float64)
    gradients = torch.autograd.grad((states[-1] * v).sum(), states)
    for place in range(4):
        torch.testing.assert_close(mean[place], states[place].detach().mean())
        torch.testing.assert_close(forward[place], states[place].detach().square().mean())
        torch.testing.assert_close(backward[place], gradients[place].square().mean())


def test_a_profile_leaves_no_trace():
    net = conv_net().eval()
    before = {name: one.clone() for name, one in net.state_dict().items()}
    with torch.no_grad():
        profile = depth_profile(net, x := torch.randn(3, 3, 8, 8), rng=generator())
    assert not any(one.requires_grad for one in (x, *profile))
    assert [len(one) for one in profile] == [3, 3, 3]
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in net.modules())
    assert all(one.grad is None for one in net.parameters())
    assert all(torch.equal(one, before[name]) for name, one in net.state_dict().items())


def test_lsuv_gives_unit_variance_to_convolutions_and_shared_layers():
    net = conv_net().double()
    x = 7 + torch.randn(40, 3, 8, 8, generator=generator(), dtype=torch.float64)
    seen = []
    lsuv_(net, x, rng=generator(1))
    for layer in (net[0], net[4]):
        layer.register_forward_hook(lambda *given: seen.append(given[-1].var(correction=0).item()))
    net(x)
    assert seen == pytest.approx([1, 1])
    shared = nn.Linear(5, 5)
    twice = nn.Sequential(shared, nn.ReLU(), shared)
    batch = torch.randn(100, 5, generator=generator())
    lsuv_(twice, batch, rng=generator())
    assert shared(batch).var(correction=0).item() == pytest.approx(1, rel=1e-5)
    assert not shared._forward_hooks


def test_the_mean_of_log_normal_draws_is_found_without_failures_by_chance():
    z = 0.75 * torch.randn(50, 20_000, generator=generator(), dtype=torch.float64)
    draws = (z - 0.75**2 / 2).exp()  # of mean 1: what 20 layers of width 256 make, and a bit more
    estimate, error = _log_averaged(draws)
    assert float((estimate / error).std()) == pytest.approx(1, abs=0.05)
    assert int((estimate.abs() > 5 * error).sum()) <= 2  # Student's t expects 0.2 of them
    plain = (draws.mean(dim=0) - 1) / draws.std(dim=0) * 50**0.5
    assert int((plain.abs() > 5).sum()) >= 10  # the mean of the draws themselves is too low


@pytest.mark.parametrize(
    ("name", "draws"),
    [("lecun_preserves_variance", 50), ("torch_default_variance", 50), ("glorot_compromise", 200),
     ("he_keeps_second_moment", 50), ("tanh_fits_the_assumption", 100),
     ("output_variance_is_input_variance", 200)],
)
def test_standard_errors_come_from_enough_draws(name, draws):
    knob = page(KEY).claim(name).knobs["draws"]
    assert (knob.domain.low, knob.default) == (50, draws)


def test_every_length_is_kept_not_only_their_mean():
    seen = page(KEY).claim("orthogonal_preserves_norm").observe(0, {"depth": 4})
    parts = dict(seen.evidence.parts)
    assert [parts[one].detail for one in ("forward", "back")] == ["worst of 80"] * 2  # 5 x 16


@pytest.mark.parametrize(
    ("budget", "starts", "epochs", "parts"),
    [("quick", ("he", "default", "orthogonal"), 12, []),
     ("full", ("he", "default", "orthogonal", "glorot"), 3, [OneCycle])],
)
def test_every_start_is_trained_in_every_pair(budget, starts, epochs, parts, monkeypatch):
    seen, x = [], torch.rand(90, 1, 8, 8, generator=generator())

    def fit(model, data, objective, optimizer, **options):
        kinds = [type(one) for one in options["callbacks"]]
        rate = optimizer.param_groups[0]["lr"]
        seen.append((options["name"], type(optimizer), rate, options["epochs"], kinds))
        return Trained(model, [{"validation_accuracy": 0.5}], 0, "")

    module = page(KEY).load("experiments")
    monkeypatch.setattr(module, "fit", fit)
    monkeypatch.setattr(module, "handwriting", lambda run: (x, None, x, None))
    outcome = page(KEY).experiments()["deep_relu"](Run(Seed(0), budget), pairs=2)
    assert seen == [(f"{start}_{pair}", torch.optim.SGD, 0.01, epochs, parts)
                    for pair in range(2) for start in starts]
    assert {f"{start}_accuracy" for start in starts} <= set(outcome.metrics)
    assert "glorot_accuracy" not in outcome.goals


@pytest.mark.parametrize("D", [1, 2, 3, 7])
def test_the_density_of_a_product_integrates_to_one(D):
    def density(t):  # of -log z
        z = torch.tensor(math.exp(-t), dtype=torch.float64)
        return float(product_uniform_logpdf(z, D).exp()) * math.exp(-t)

    assert quad(density, 1e-12, 60)[0] == pytest.approx(1, abs=1e-8)
    outside = product_uniform_logpdf(torch.tensor([-1.0, 0.0, 1.0, 2.0]), D)
    assert (outside == -math.inf).all()


def test_the_misprinted_density_has_the_wrong_sign():
    found = product_uniform_logpdf(torch.tensor(0.205, dtype=torch.float64), 3).exp().item()
    assert found == pytest.approx(1.256, abs=5e-4)
    assert found == pytest.approx(math.log(0.205) ** 2 / 2)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: initialize_(nn.Linear(2, 2), "xavier"),
         "initialize_: scheme must be one of 'default', 'lecun', 'glorot', 'he', 'orthogonal'; "
         "got 'xavier'."),
        (lambda: initialize_(nn.Linear(2, 2), "glorott"), "initialize_: scheme must be one of"),
        (lambda: initialize_(torch.empty(5), "orthogonal"),
         "initialize_: model must be weights of 2 or more dimensions with the scheme "
         "'orthogonal'; got 'shape (5,)'. A vector has no fan-in"),
        (lambda: initialize_(nn.Linear(2, 2), "he", gain=0.0),
         "initialize_: gain must be in (0, inf), or none; got 0.0."),
        (lambda: initialize_(nn.Linear(2, 2), "he", gain=-1.0),
         "initialize_: gain must be in (0, inf), or none; got -1.0."),
        (lambda: initialize_(nn.Linear(2, 2), "he", law="cauchy"),
         "initialize_: law must be one of 'normal', 'uniform'; got 'cauchy'."),
        (lambda: initialize_(nn.ReLU(), "he"),
         "initialize_: model must be a network with a linear or convolution layer; got ReLU()."),
        (lambda: initialize_(nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)), "he"),
         "initialize_: model must be one whose weights are parameters; got "),
        (lambda: lsuv_(nn.Linear(2, 3), torch.zeros(4, 2)),
         "lsuv_: x must be a batch that varies at Linear(in_features=2, out_features=3, "),
        (lambda: depth_profile(nn.ReLU(), torch.zeros(4, 2)),
         "depth_profile: model must be a network with a linear or convolution layer; got ReLU()."),
        (lambda: product_uniform_logpdf(torch.tensor(0.5), 0),
         "product_uniform_logpdf: D must be an integer in [1, inf); got 0."),
    ],
)
def test_bad_input_gives_its_sentence(call, sentence):
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value).startswith(sentence)

"""What is special about curricula, continuation and pretraining; the contract tests do the rest."""

import copy
import math

import pytest
import torch
from scipy.integrate import quad
from torch import nn

from planting import assert_caught
from principia.lab.params import UsageError
from principia.lab.seeds import Seed
from principia.networks.mlp import MLP
from principia.optimization.curriculum import (
    Ackley,
    Continuation,
    Curriculum,
    DenoisingAutoencoder,
    Rastrigin,
    pretrain,
    ramp,
    smoothed,
    transfer,
)
from principia.optimization.sgd import ParallelMLP

PAGE = "optimization/curriculum"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("self.h(at - self.steps)) / 2", "self.h(at - self.steps))", "smoothing_closed_form"),
        ("for sigma, problem in self.stages:\n            problem = problem.at(at)",
         "for sigma, problem in self.stages:\n            problem = problem.at(start)",
         "continuation_finds_the_global_minimum"),
        ("problem.theta.detach())", "problem.theta)", "continuation_finds_the_global_minimum"),
        ("(-0.2 * r).exp()", "(+0.2 * r).exp()", "continuation_finds_the_global_minimum"),
        ("torch.searchsorted(below, u, right=True)",
         "torch.searchsorted(below, u**2, right=True)", "curriculum_ends_uniform"),
        ("scatter(-1, self._order, shares)", "scatter(-1, self._order, shares.cumsum(-1))",
         "curriculum_ends_uniform"),
        ("target.load_state_dict(source.state_dict())", "pass",
         "pretraining_opens_deep_sigmoid_nets"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(PAGE, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("samples // 2", "samples // 1", "smoothing_convexifies",
         ["what the problems say of themselves"]),
        ("if weight.ndim > 2", "if weight.ndim > 1", "pretraining_opens_deep_sigmoid_nets",
         ["holes and defaults"]),
        ("math.exp(-2 * math.pi**2 * sigma**2)\n        self.smoothness",
         "math.exp(-math.pi**2 * sigma**2)\n        self.smoothness", "smoothing_convexifies",
         ["where it becomes convex", "strong convexity"]),
        ("sigma=math.hypot(h.sigma, sigma)", "sigma=h.sigma + sigma", "smoothing_closed_form",
         ["smoothing twice"]),
        ("return self.pairs(theta).mean(dim=-1)", "return self.pairs(theta).median(dim=-1).values",
         "smoothing_closed_form", ["sampled value"]),
        ("self.minimum = dim * (", "self.minimum = (", "smoothing_convexifies",
         ["what the problems say of themselves"]),
        ("mean(dim=(-2, -1)).sum()", "mean(dim=(-2, -1)).mean()",
         "pretraining_opens_deep_sigmoid_nets", ["holes and defaults"]),
        ("steps: PositiveInt = 50", "steps: PositiveInt = 40",
         "continuation_finds_the_global_minimum", ["by hand"]),
        ("start: Share = 0.15", "start: Share = 0.25", "curriculum_ends_uniform",
         ["probabilities on the way", "draws on the way"]),
        ("return self.encode(x) @", "return 2 * self.encode(x) @",
         "pretraining_opens_deep_sigmoid_nets", ["layer by layer, by hand", "holes and defaults"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(PAGE, old, new, claim, parts=parts)


@pytest.mark.parametrize("sigma", [0.1, 0.4, 0.8])
@pytest.mark.parametrize("at", [-0.7, 0.0, 2.3])
def test_closed_form_is_the_integral(sigma, at):
    def integrand(z):
        value = (at + sigma * z) ** 2 - 10 * math.cos(2 * math.pi * (at + sigma * z)) + 10
        return value * math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)

    exact, _ = quad(integrand, -9, 9, limit=200)
    found = smoothed(Rastrigin(1), sigma).value(torch.tensor([at], dtype=torch.float64))
    assert float(found) == pytest.approx(exact, abs=1e-8)


def test_declared_constants_are_those_of_the_smoothing():
    x = torch.linspace(-3, 3, 6001, dtype=torch.float64)[:, None].requires_grad_()
    for sigma in (0.0, 0.3, 0.6):
        problem = Rastrigin(1, sigma=sigma)
        values = problem.value(x)
        (slope,) = torch.autograd.grad(values.sum(), x, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), x)
        assert float(values.detach().min()) == pytest.approx(problem.minimum, abs=1e-9)
        assert float(bend.abs().max()) == pytest.approx(problem.smoothness, rel=1e-9)
        assert problem.strong_convexity == (
            pytest.approx(float(bend.min())) if bend.min() > 0 else None
        )


def test_sampled_smoothing_is_the_mean_over_its_cloud_and_stays_the_same():
    x = torch.randn(7, 2, generator=Seed(1).torch(), dtype=torch.float64)
    cloud = smoothed(Ackley(), 0.5, 200_000, Seed(2).torch())
    steps = 0.5 * torch.randn(200_000, 2, generator=Seed(3).torch(), dtype=torch.float64)
    draws = Ackley().value(x[:, None] + steps)
    assert torch.equal(cloud.value(x), cloud.value(x))
    error = draws.std(dim=1) / 200_000**0.5
    assert ((cloud.value(x) - draws.mean(dim=1)).abs() < 7 * error).all()  # both are means


def test_ackley_is_smallest_at_zero_and_has_a_gradient_there():
    funnel = Ackley(3).at(torch.zeros(1, 3))
    assert float(funnel().detach()) == pytest.approx(0, abs=1e-12)
    assert funnel.gradient(funnel.theta).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("kind", ["easiest", "soft"])
def test_draws_follow_the_probabilities(kind):
    d = torch.rand(3, 40, generator=Seed(0).torch())
    pace = ramp(0.3) if kind == "easiest" else lambda p: 0.3 / (1 - p) if p < 1 else math.inf
    lesson = Curriculum(d, pace, kind=kind)
    p = lesson.probabilities(0.4)
    drawn = lesson.sample(100_000, 0.4, Seed(1).torch())
    counts = torch.stack([one.bincount(minlength=40) for one in drawn])
    assert ((counts / 1e5 - p).abs() <= 5 * (p * (1 - p) / 1e5).sqrt() + 1e-7).all()
    if kind == "soft":
        torch.testing.assert_close(p, (-d * 0.6 / 0.3).softmax(dim=1))
    else:
        shown = d <= d.kthvalue(math.ceil(0.58 * 40), dim=1, keepdim=True).values
        torch.testing.assert_close(p, shown / shown.sum(dim=1, keepdim=True))


def test_parallel_networks_are_networks():
    nets = ParallelMLP([4, 6, 3], copies=5, activation="tanh", rng=Seed(0).torch())
    x = torch.randn(7, 4, generator=Seed(1).torch())
    for number, outputs in enumerate(nets(x)):
        one = MLP([4, 6, 3], activation="tanh", rng=Seed(2).torch())
        for layer, stacked in zip(one.layers, nets.layers, strict=True):
            layer.weight.data = stacked.weight.data[number]
            layer.bias.data = stacked.bias.data[number, 0]
        torch.testing.assert_close(outputs, one(x))


def test_pretraining_one_net_lowers_its_loss_and_repeats_to_the_bit():
    x = torch.rand(200, 16, generator=Seed(0).torch()).round()
    x = torch.cat([x[:, :8], x[:, :8]], dim=1)  # what is missing can be known
    encoder = MLP([16, 12, 12], activation="sigmoid", rng=Seed(1).torch())
    twin = copy.deepcopy(encoder)
    trained = pretrain(encoder, x, steps=200, seed=Seed(2))
    pretrain(twin, x, steps=200, seed=Seed(2))
    assert trained[0].history[-1]["loss"] < 0.7 * trained[0].history[0]["loss"]
    for one, other in zip(encoder.parameters(), twin.parameters(), strict=True):
        assert torch.equal(one, other)


def test_transfer_leaves_the_layers_above():
    encoder, net = MLP([4, 3, 3], rng=Seed(0).torch()), MLP([4, 3, 3, 2], rng=Seed(1).torch())
    top = net.layers[2].weight.clone()
    assert transfer(encoder, net) is net
    assert torch.equal(net.layers[0].weight, encoder.layers[0].weight)
    assert torch.equal(net.layers[2].weight, top)
    assert net.layers[0].weight is not encoder.layers[0].weight


def test_continuation_stays_at_the_first_minimum_without_a_cloud():
    start = torch.tensor([[2.1]], dtype=torch.float64)
    stuck = Continuation(Rastrigin(1), (0.0,)).minimize(start)
    free = Continuation(Rastrigin(1)).minimize(start)
    assert float(stuck[-1]) == pytest.approx(1.9899, abs=1e-3)
    assert float(free[-1]) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: Curriculum(torch.ones(3), lambda p: 0.8),
         "Curriculum: pace must be a function that is 1 at progress 1; got 0.8. A curriculum"),
        (lambda: Curriculum(torch.ones(3), ramp(), kind="soft"),
         "Curriculum: pace must be a function that is inf at progress 1; got 1.0."),
        (lambda: Curriculum(torch.tensor([1.0, math.nan]), ramp()),
         "Curriculum: difficulty must be finite numbers"),
        (lambda: Curriculum(torch.ones(3), lambda p: p).sample(2, 0.0, Seed(0).torch()),
         r"Curriculum: pace at progress 0 must be in \(0, 1\]; got 0.0"),
        (lambda: ramp(0.0), r"ramp: start must be in \(0, 1\]; got 0.0"),
        (lambda: Continuation(Rastrigin(), (0.1, 1.0)),
         r"Continuation: sigmas must be falling .* got \(0.1, 1.0\). Wide clouds"),
        (lambda: Continuation(Ackley(), (1.0, 0.0), samples=4, rng=Seed(0).torch()),
         "Continuation: lr must be given"),
        (lambda: smoothed(Ackley(), 0.5), "smoothed: h, samples and rng must be an even number"),
        (lambda: smoothed(Rastrigin(), 0.5, 3, Seed(0).torch()), "must be an even number"),
        (lambda: pretrain(MLP([2, 2]), torch.full((3, 2), 2.0)),
         r"pretrain: x must be in \[0, 1\]; got \(2.0, 2.0\)"),
        (lambda: transfer(MLP([4, 3]), MLP([5, 3, 2])), "transfer: classifier must be a network"),
        (lambda: transfer(MLP([4, 3]), nn.Linear(4, 3)), "transfer: classifier must be a network"),
        (lambda: DenoisingAutoencoder(nn.Linear(2, 2), corruption=1.0),
         r"DenoisingAutoencoder: corruption must be in \[0, 1\)"),
    ],
)
def test_bad_input_gets_a_sentence(wrong, sentence):
    with pytest.raises(UsageError, match=sentence):
        wrong()

import copy
import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import stats
from sklearn.linear_model import LinearRegression, Ridge
from torch import nn
from torch.autograd.functional import hessian
from torch.func import functional_call

from planting import assert_caught
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.seeds import Seed
from principia.lab.training import EMA, Callback, ClipNorm, Diverged, OneCycle, Supervised, fit
from principia.networks.mlp import MLP
from principia.regularization.experiments.noise import input_noise, weight_noise
from principia.regularization.noise import (
    GaussianNoise,
    InputNoise,
    NoisyWeights,
    WeightNoise,
    flip_labels,
    noisy_targets,
    tikhonov_penalty,
)

KEY = "regularization/noise"
LOSS = Supervised(F.mse_loss)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def data(rows=20, dtype=torch.float32):
    x = torch.randn(rows, 3, generator=generator(), dtype=dtype)
    return x, x.prod(dim=1, keepdim=True)


def network(dtype=torch.float32):
    return MLP([3, 8, 1], activation="tanh", rng=generator(1)).to(dtype)


def weights_of(model):
    return {name: one.detach().clone() for name, one in model.named_parameters()}


def same(first, second):
    return first.keys() == second.keys() and all(map(torch.equal, first.values(), second.values()))


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("batch[0], self.sigma, rng)", "batch[0], 2 * self.sigma, rng)", "input_noise_is_ridge"),
        ("return x + sigma * noise", "return x + sigma**2 * noise", "input_noise_is_ridge"),
        ("return sigma**2 * (slopes", "return sigma * (slopes", "input_noise_second_order"),
        ("(2 * signs - 1) / math.sqrt(probes)", "(2 * signs - 1)", "input_noise_second_order"),
        ("WeightNoise(self._model, self.sigma,", "WeightNoise(self._model, 0,",
         "weight_noise_flattens"),
        ("self._noise.close()", "self._noise.pop_all()", "weight_noise_flattens"),
        ('"y", y, sigma, rng,', '"y", y, 1.2 * sigma, rng,', "target_noise_keeps_the_mean"),
        ("torch.randint(1, classes, y.shape", "torch.randint(0, classes, y.shape",
         "label_flips_are_smoothing"),
        ("device=where) < eps", "device=where) > eps", "label_flips_are_smoothing"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("wraps_last = True", "wraps_last = False", "weight_noise_penalizes_curvature",
         ["other parts see it"]),
        ("self.sigma, None) if self.training else x", "self.sigma, None)", "input_noise_is_ridge",
         ["no noise when evaluated"]),
        ("(value - y) * laplacian", "(y - value) * laplacian", "input_noise_second_order",
         ["Laplacian by random signs"]),
        ("one.copy_(before)", "one.mul_(1)", "weight_noise_penalizes_curvature",
         ["restored to the bit"]),
        ("laplacian = torch.zeros_like", "laplacian = torch.ones_like",
         "input_noise_second_order", ["of a linear function"]),
        ("+ (value - y) * laplacian", "+ (value.detach() - y) * laplacian",
         "input_noise_second_order", ["its gradient by the weights"]),
        ("x = x.detach().requires_grad_()", "x = x.requires_grad_()", "input_noise_second_order",
         ["inputs left alone"]),
        ("x + sigma * noise.to", "x - sigma * noise.to", "target_noise_keeps_the_mean",
         ["drawn where it is said"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


# Noise on inputs and targets


def from_a_layer(x, sigma, rng):
    """Send x through a layer, with torch's global generator in the state of `rng`."""
    with torch.random.fork_rng([]):
        torch.set_rng_state(rng.get_state())
        return GaussianNoise(sigma)(x)


@pytest.mark.parametrize("add", [
    lambda x, rng: from_a_layer(x, 0.5, rng),
    lambda x, rng: InputNoise(0.5).prepare((x, x), rng)[0],
    lambda x, rng: noisy_targets(x, 0.5, rng),
])
def test_noise_is_gaussian_and_reproducible(add):
    x = torch.linspace(-5, 5, 20_000, dtype=torch.float64)
    noise = add(x, generator()) - x
    assert torch.equal(add(x, generator()) - x, noise)
    assert stats.kstest(noise.numpy(), stats.norm(0, 0.5).cdf).pvalue > 1e-6
    assert abs(float(torch.corrcoef(torch.stack([x, noise]))[0, 1])) < 5 / len(x) ** 0.5


def test_a_layer_draws_like_dropout():
    """From the global generator, which a training saves; one of its own would not be resumed."""
    layer, x = GaussianNoise(1.0), torch.zeros(5)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        first = layer(x)
        torch.manual_seed(0)
        assert torch.equal(first, torch.randn(5))
    assert layer.eval()(x) is x
    with pytest.raises(UsageError, match="there is no parameter 'rng'"):
        GaussianNoise(1.0, rng=generator())


def test_noisy_copies_lead_scikit_learn_to_ridge():
    (x, y), draws = data(10, torch.float64), 50_000
    copies = from_a_layer(x.expand(draws, 10, 3), 0.7, generator())
    many = LinearRegression(fit_intercept=False).fit(
        copies.reshape(-1, 3).numpy(), y.repeat(draws, 1).numpy()
    )
    ridge = Ridge(alpha=10 * 0.7**2, fit_intercept=False).fit(x.numpy(), y.numpy())
    # a root of the mean of independent gradients, one a copy: 5 standard errors
    pulls = (copies.mT @ (y - copies @ torch.from_numpy(ridge.coef_).view(3, 1)))[..., 0]
    steps = torch.linalg.solve((copies.mT @ copies).mean(dim=0), pulls.mT)
    error = steps.std(dim=1).numpy() / draws**0.5
    assert (np.abs(many.coef_[0] - ridge.coef_.ravel()) < 5 * error).all()


def test_penalty_is_that_of_the_hessian_and_of_many_noisy_inputs():
    x, y = data(6, torch.float64)
    net = network(torch.float64)
    for one in net.parameters():
        one.data.mul_(2)

    def f(x):
        return net(x)[..., 0]

    found = tikhonov_penalty(f, x, y[:, 0], 0.3)
    for row, at in enumerate(x):
        curved = hessian(lambda point: net(point)[0], at).trace()
        slope = torch.autograd.functional.jacobian(lambda point: net(point)[0], at)
        expected = 0.09 * (slope @ slope + (net(at)[0] - y[row, 0]) * curved)
        torch.testing.assert_close(found[row], expected)
    sigma, draws = 0.05, 50_000
    noise = torch.randn(draws, 1, 3, generator=generator(5), dtype=x.dtype)


    @torch.no_grad()
    def excess(sigma):
        both = torch.stack([f(x + sign * sigma * noise) for sign in (1, -1)])
        return ((both - y[:, 0]) ** 2).mean(dim=0) - (f(x) - y[:, 0]) ** 2

    one, two = excess(sigma), excess(2 * sigma)
    error = one.std(dim=0) / draws**0.5
    # one is a σ² + b σ⁴ and two 4 a σ² + 16 b σ⁴: the next term, twice for those behind it
    bias = 2 * (two - 4 * one).mean(dim=0).abs() / 12
    charged = tikhonov_penalty(f, x, y[:, 0], sigma).detach()
    assert bool(((one.mean(dim=0) - charged).abs() < 5 * error + bias).all())
    assert float(bias.max()) < float(charged.abs().max()) / 10  # or it would excuse anything


def test_signs_are_drawn_where_the_generator_is():
    """Not on torch's default device; a device without numbers stands for one that is not here."""
    (x, y), rngs = data(4, torch.float64), [generator(), generator()]

    def penalty(rng):
        return tikhonov_penalty(lambda x: x.prod(dim=1) ** 2, x, y[:, 0], 1.0, probes=3, rng=rng)

    here = penalty(rngs[0])
    with torch.device("meta"):
        there = penalty(rngs[1])
    assert torch.equal(here, there)


def test_noise_is_drawn_where_the_generator_is():
    rngs = generator(), generator()
    noisy = noisy_targets(torch.empty(3, device="meta"), 0.1, rngs[0])
    assert noisy.device.type == "meta"
    torch.randn(3, generator=rngs[1])
    assert torch.equal(rngs[0].get_state(), rngs[1].get_state())


def test_penalty_can_be_trained_with():
    x, y = data(4, torch.float64)
    a = torch.randn(3, generator=generator(), dtype=x.dtype, requires_grad=True)

    def penalty(a, probes=None):
        return tikhonov_penalty(lambda x: torch.tanh(x @ a), x, y[:, 0], 1.0, probes=probes,
                                rng=generator())

    assert torch.autograd.gradcheck(penalty, a)
    assert torch.autograd.gradcheck(lambda a: penalty(a, probes=3), a)


def test_penalty_of_functions_without_curvature_is_their_steepness():
    x, y = data(5)
    a = torch.tensor([3.0, 0.0, 4.0])
    torch.testing.assert_close(tikhonov_penalty(lambda x: x @ a, x, y[:, 0], 2.0),
                               torch.full((5,), 100.0))
    net = MLP([3, 8, 1], rng=generator())  # rectified: its Laplacian is 0 almost everywhere
    (slopes,) = torch.autograd.grad(net(x.requires_grad_()).sum(), x)
    for probes in (None, 2):
        found = tikhonov_penalty(lambda x: net(x)[:, 0], x, y[:, 0], 1.0, probes=probes,
                                 rng=generator())
        torch.testing.assert_close(found, (slopes**2).sum(dim=1))


# Labels


def test_flips_never_keep_the_class_and_reach_all_others_alike():
    y = torch.arange(5).repeat(4000)
    flipped = flip_labels(y, 0.999999, 5, generator())
    away = (flipped - y) % 5
    assert float((away == 0).double().mean()) < 1e-3
    assert stats.chisquare(torch.bincount(away, minlength=5)[1:].numpy()).pvalue > 1e-6
    assert torch.equal(flip_labels(y, 0.0, 5, generator()), y)


def test_more_flips_contain_the_fewer():
    y = torch.arange(300) % 10
    few, many = (flip_labels(y, eps, 10, generator(3)) for eps in (0.2, 0.5))
    moved = few != y
    assert 0 < int(moved.sum()) < int((many != y).sum())
    assert torch.equal(few[moved], many[moved])


def test_labels_keep_their_type_and_shape():
    y = torch.randint(0, 250, (7, 5), generator=generator()).to(torch.uint8)
    flipped = flip_labels(y, 0.9, 250, generator())
    assert flipped.dtype == torch.uint8
    assert flipped.shape == y.shape
    assert torch.equal(flip_labels(y.long(), 0.9, 250, generator()), flipped.long())
    assert flip_labels(y[:0], 0.5, 3).shape == (0, 5)


def test_flips_are_torchs_smoothing_of_a_larger_share():
    eps, K, N = 0.3, 4, 400_000
    logits = torch.randn(1, K, generator=generator(), dtype=torch.float64)
    flipped = flip_labels(torch.full((N,), 2), eps, K, generator())
    mean = F.cross_entropy(logits.expand(N, K), flipped)
    smooth = F.cross_entropy(logits, torch.tensor([2]), label_smoothing=eps * K / (K - 1))
    spread = float(logits.std()) / N**0.5
    assert float(mean) == pytest.approx(float(smooth), abs=5 * spread)


# Noise on weights


def test_weights_come_back_to_the_bit_whatever_happens():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).bfloat16()
    model[2].bias.requires_grad_(False)
    before = weights_of(model)
    noise = WeightNoise(model, 0.3, generator())
    seen = []

    def fail():
        with noise:
            seen.append(weights_of(model))
            raise ZeroDivisionError

    with noise:
        once = weights_of(model)
        with pytest.raises(ZeroDivisionError):
            fail()  # inside the noise, with more noise on top
        assert same(weights_of(model), once)
    assert same(weights_of(model), before)
    for name in before:
        assert torch.equal(once[name], before[name]) == (name == "2.bias")
        assert torch.equal(seen[0][name], once[name]) == (name == "2.bias")


def test_a_gradient_outside_the_noise_is_noticed():
    model, (x, y) = network(), data()
    with WeightNoise(model, 0.1, generator()):
        loss = F.mse_loss(model(x), y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_shared_weights_are_moved_once():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    before = model[0].weight.detach().clone()
    with WeightNoise(model, 1.0, generator()):
        moved = model[0].weight - before
    torch.testing.assert_close(moved, torch.randn(4, 4, generator=generator()))


def test_gradients_are_those_of_the_perturbed_weights():
    """The part in the loop against a loop written down, with the noise in the graph instead."""
    x, y = data(16, torch.float64)
    ours, theirs, seed, sigma = network(x.dtype), network(x.dtype), Seed(4), 0.1
    fit(ours, (x, y), LOSS, torch.optim.Adam(ours.parameters(), lr=0.01), epochs=5, batch_size=4,
        callbacks=[NoisyWeights(sigma)], seed=seed)
    adam, rng = torch.optim.Adam(theirs.parameters(), lr=0.01), seed.child("steps").torch()
    for epoch in range(5):
        order = torch.randperm(16, generator=seed.child(f"epoch {epoch}").torch())
        for rows in order.split(4):
            noisy = {name: one + sigma * torch.randn(one.shape, generator=rng, dtype=x.dtype)
                     for name, one in theirs.named_parameters()}
            adam.zero_grad()
            F.mse_loss(functional_call(theirs, noisy, (x[rows],)), y[rows]).backward()
            adam.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


class Witness(Callback):
    """Looks at the weights when the loss is computed and when the step is made."""

    def __init__(self):
        self.at_loss, self.at_step = [], []

    def begin(self, model, optimizers, steps):
        self.start = weights_of(model)

    def wrap(self, objective):
        def seen(model, batch, rng):
            self.at_loss.append(weights_of(model))
            return objective(model, batch, rng)

        return seen

    def before_step(self, model):
        self.at_step.append(weights_of(model))


@pytest.mark.parametrize("optimizer", [
    lambda model: torch.optim.SGD(model.parameters(), lr=0.0),
    lambda model: torch.optim.LBFGS(model.parameters(), lr=0.0, max_iter=7, tolerance_change=-1),
])
def test_every_evaluation_has_its_noise_and_every_step_the_weights(optimizer):
    model, look = network(), Witness()
    callbacks = [look, NoisyWeights(0.1), ClipNorm(1.0)]
    fit(model, data(), LOSS, optimizer(model), steps=4, callbacks=callbacks)
    assert len(look.at_loss) >= 4
    for one, other in itertools.combinations([look.start, *look.at_loss], 2):
        assert not same(one, other)
    assert same(weights_of(model), look.start)
    seen = Witness()  # behind the noise, it sees the restored weights
    fit(model, data(), LOSS, optimizer(model), steps=4, callbacks=[NoisyWeights(0.1), seen])
    assert all(same(one, seen.start) for one in seen.at_step)


def test_two_objectives_take_turns_with_a_noise_each():
    model = nn.ParameterDict({"a": torch.zeros(1), "b": torch.zeros(1)})
    objectives = {name: lambda model, batch, rng, name=name: ((model[name] - 3) ** 2).sum()
                  for name in "ab"}
    sgd = {name: torch.optim.SGD([model[name]], lr=0.1) for name in "ab"}
    fit(model, torch.zeros(8, 1), objectives, sgd, steps=300, callbacks=[NoisyWeights(0.05)])
    assert all(abs(one.item() - 3) < 0.2 for one in model.values())


def test_parts_without_noise_change_nothing():
    plain, silent = network(), network()
    for model, callbacks in ((plain, []), (silent, [InputNoise(0.0), NoisyWeights(0.0)])):
        fit(
            model, data(), LOSS, torch.optim.Adam(model.parameters()), epochs=3, callbacks=callbacks
        )
    assert same(weights_of(plain), weights_of(silent))


@pytest.mark.parametrize("fault", ["loss", "exception"])
def test_weights_are_restored_when_the_loss_is_not_finite_or_fails(fault):
    model, calls, kept = network(), itertools.count(1), []

    def objective(model, batch, rng):
        loss = LOSS(model, batch, rng)
        if next(calls) < 4:
            return loss
        if fault == "exception":
            raise ZeroDivisionError
        return loss * math.nan

    class Keep(Callback):
        def after_step(self, model):
            kept.append(weights_of(model))

    with pytest.raises((Diverged, ZeroDivisionError)):
        fit(model, data(), objective, torch.optim.SGD(model.parameters(), lr=0.1), steps=9,
            callbacks=[NoisyWeights(0.1), Keep()])
    assert len(kept) == 3
    assert same(weights_of(model), kept[-1])


def test_validation_sees_neither_noise():
    model, (x, y) = network(), data()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    noises = [InputNoise(3.0), NoisyWeights(3.0)]
    trained = fit(
        model, (x, y), LOSS, sgd, epochs=2, callbacks=noises, validation=(x, y)
    )
    clean = F.mse_loss(model(x), y).item()
    assert trained.history[-1]["validation_loss"] == pytest.approx(clean)
    assert trained.history[-1]["loss"] > 2 * clean


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.LBFGS])
@pytest.mark.parametrize("stop_after", [1, 4, 7, 10])
def test_a_resumed_training_is_the_same_to_the_bit(tmp_path, kind, stop_after):
    def go(folder, stop_after=math.inf):
        model = nn.Sequential(network(), GaussianNoise(0.01))
        taken = itertools.count(1)
        run = Run(Seed(1), folder=folder, save_every=0.0)
        run.asked_to_stop = lambda: next(taken) >= stop_after
        callbacks = [InputNoise(0.1), NoisyWeights(0.02), OneCycle(0.01), EMA(0.9)]
        trained = fit(model, data(), LOSS, kind(model.parameters(), lr=0.01), epochs=4, run=run,
                      batch_size=8, callbacks=callbacks, validation=data(), name="model")
        return weights_of(model), trained.history

    with pytest.raises(KeyboardInterrupt):
        go(tmp_path, stop_after)
    (resumed, curves), (whole, expected) = go(tmp_path), go(None)
    assert same(resumed, whole)
    assert curves == expected


def test_another_noise_is_another_training(tmp_path):
    def go(sigma):
        model = network()
        fit(model, data(), LOSS, torch.optim.SGD(model.parameters(), lr=0.1), steps=2,
            callbacks=[NoisyWeights(sigma)], run=Run(Seed(1), folder=tmp_path))

    go(0.1)
    with pytest.raises(UsageError, match="must be of the same training"):
        go(0.2)


def test_both_parts_are_offered_to_every_run():
    for offer, kind in ((input_noise, InputNoise), (weight_noise, NoisyWeights)):
        built = offer.build(Run(), {"sigma": 0.25})
        assert isinstance(built, kind)
        assert built.sigma == 0.25
        assert list(offer.knobs) == [f"{offer.name}.sigma"]


def test_a_layer_is_copied_with_its_model():
    model = nn.Sequential(GaussianNoise(0.1), nn.Linear(2, 1))
    twin = copy.deepcopy(model)
    assert twin[0].sigma == 0.1


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: GaussianNoise(-0.1), "GaussianNoise: sigma must be in [0, inf); got -0.1."),
        (lambda: InputNoise(-1), "InputNoise: sigma must be in [0, inf); got -1."),
        (lambda: NoisyWeights(math.nan), "NoisyWeights: sigma must be in [0, inf); got nan."),
        (lambda: WeightNoise(network(), -1), "WeightNoise: sigma must be in [0, inf); got -1."),
        (lambda: noisy_targets(torch.zeros(2), -1), "noisy_targets: sigma must be in [0, inf)"),
        (lambda: InputNoise(1).prepare((torch.arange(3),), generator()),
         "InputNoise: batch[0] must be floating point; got 'torch.int64'."),
        (lambda: flip_labels(torch.tensor([0]), 1.0, 2),
         "flip_labels: eps must be in [0, 1); got 1.0."),
        (lambda: flip_labels(torch.tensor([0]), -0.1, 2), "flip_labels: eps must be in [0, 1)"),
        (lambda: flip_labels(torch.tensor([0]), 0.1, 1),
         "flip_labels: classes must be an integer in [2, inf); got 1."),
        (lambda: flip_labels(torch.tensor([0, 3]), 0.1, 3),
         "flip_labels: y must be integers in [0, 2]; got 'labels from 0 to 3'."),
        (lambda: tikhonov_penalty(network(), data()[0], data()[1][:, 0], 1.0),
         "tikhonov_penalty: f must be a function with one number a row, (20,); got (20, 1)."),
        (lambda: tikhonov_penalty(network(), data()[0], data()[1][:, 0], -1.0),
         "tikhonov_penalty: sigma must be in [0, inf); got -1.0."),
        (lambda: tikhonov_penalty(network(), data()[0], data()[1][:, 0], 1.0, probes=0),
         "tikhonov_penalty: probes must be"),
    ],
)
def test_bad_input_gives_its_sentence(call, sentence):
    with pytest.raises(UsageError) as caught:
        call()
    assert str(caught.value).startswith(sentence)

import math

import pytest
import torch
from torch import nn

from planting import assert_caught
from principia.convolution import (
    CausalConv1d,
    GatedUnit,
    SpeechClassifier,
    WaveNet,
    generate,
    mu_law_decode,
    mu_law_encode,
)
from principia.convolution.experiments.wavenet import _bits_of, _bits_of_chain, _bits_of_linear
from principia.lab.params import UsageError

KEY = "convolution/wavenet"


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def waves(*shape, classes=16, seed=1):
    return torch.randint(classes, shape, generator=rng(seed))


def net(**knobs):
    return WaveNet(**{"channels": 6, "layers": 3, "classes": 16, "rng": rng(), **knobs}).double()


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("(self.reach, 0)))", "(self.reach - 1, 1)))", "causal", ["a layer", "the network"]),
        ("(self.reach, 0)))", "(self.reach + 1, -1)))", "causal",
         ["a layer hears the present", "the network hears the present"]),
        ("self.conv(F.pad(x, (self.reach, 0)))", "1.5 * self.conv(F.pad(x, (self.reach, 0)))",
         "causal", ["the formula"]),
        ("what.tanh() * gate.sigmoid()", "what.tanh() * gate.tanh()", "causal", ["the gate"]),
        (".mean(dim=2)", ".amax(dim=2)", "causal",
         ["words are told from the mean over time"]),
        ("[2**layer for", "[2 * layer + 1 for", "field_is_1024", ["ten layers"]),
        ("(kernel - 1) * sum(dilations)", "sum(dilations)", "field_is_1024",
         ["three taps, three blocks"]),
        ("1 + (kernel - 1) *", "2 + (kernel - 1) *", "field_is_1024", ["what it says of itself"]),
        ("queue[:, :, time % size] = x", "queue[:, :, (time + 1) % size] = x",
         "incremental_equals_parallel", ["step by step"]),
        ("past.roll(x.shape[2], dims=2)", "past", "incremental_equals_parallel",
         ["after a long prompt"]),
        ("model.step(said[-1], state)", "model.step(said[0], state)",
         "incremental_equals_parallel", ["what it says"]),
        ("logits / temperature", "logits * temperature", "incremental_equals_parallel",
         ["it draws from the softmax"]),
        ("return logits.argmax(dim=1)", "return logits.argmin(dim=1)",
         "incremental_equals_parallel", ["without temperature the likeliest"]),
        ("model.classes // 2)", "model.classes - 1)", "incremental_equals_parallel",
         ["it begins with silence"]),
        ("h = self._handed_on(place, h, heard[-1])\n        return self.head(",
         "h = self._handed_on(place, h, heard[-1])\n        self._said(heard)\n"
         "        return self.head(", "incremental_cost_is_flat", ["each weight is used once"]),
        ("if place and cache", "if False", "incremental_cost_is_flat", ["one sample more to say"]),
        ("(mu * x.abs()).log1p() / math.log1p(mu)", "x.abs() ** 0.5",
         "mu_law_favors_small_amplitudes", ["the law", "with 16 levels"]),
        ("+ 0.5).long()", ").long()", "mu_law_favors_small_amplitudes",
         ["and back", "and back with 16"]),
        (".expm1() / mu", ".expm1() / (mu + 1)", "mu_law_favors_small_amplitudes",
         ["the inverse law"]),
        ("            h = self._handed_on(place, h, heard[-1])\n        return self._said(heard)",
         "            for _ in range(h.shape[2]):\n                h = h * 1\n"
         "            h = self._handed_on(place, h, heard[-1])\n        return self._said(heard)",
         "convolutions_run_in_parallel", ["a WaveNet does not see the length"]),
        ("return what.tanh() * gate.sigmoid()",
         "return what.tanh().sin().sin().sin().sin() * gate.sigmoid()",
         "convolutions_run_in_parallel", ["a layer adds as much as the others"]),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(("kernel", "dilation"), [(2, 1), (3, 4), (4, 2)])
def test_a_causal_convolution_is_torchs_cut_at_the_end(kernel, dilation):
    conv = CausalConv1d(2, 3, kernel=kernel, dilation=dilation, rng=rng())
    wide = nn.Conv1d(2, 3, kernel, dilation=dilation, padding=conv.reach)
    wide.load_state_dict(conv.conv.state_dict())
    x = torch.randn(2, 2, 20, generator=rng())
    torch.testing.assert_close(conv(x), wide(x)[:, :, :20])


def test_a_network_is_the_sum_of_the_paper():
    model, x = net(), waves(2, 30)
    h, said = model.embed(x).mT, 0.0
    blocks = model.out.weight.split(6, dim=1)
    for place, (unit, W) in enumerate(zip(model.units, blocks, strict=True)):
        what, gate = unit.conv(h).chunk(2, dim=1)
        z = torch.tanh(what) * torch.sigmoid(gate)
        said = said + nn.functional.conv1d(z, W)
        if place < 2:
            h = h + model.on[place](z)
    said = said + model.out.bias[:, None]
    torch.testing.assert_close(model(x), model.head(said))


def test_every_parameter_gets_a_gradient():
    for residual in (True, False):
        model = net(residual=residual)
        model(waves(2, 20)).square().sum().backward()
        assert all(one.grad is not None and one.grad.any() for one in model.parameters())


def test_the_same_seed_gives_the_same_network_and_the_global_generator_stays():
    before = torch.get_rng_state()
    first, again, other = net(), net(), net(rng=rng(7))
    assert torch.equal(torch.get_rng_state(), before)
    for name, one in first.state_dict().items():
        assert torch.equal(one, again.state_dict()[name])
        assert not torch.equal(one, other.state_dict()[name])


@pytest.mark.parametrize("knobs", [{}, {"blocks": 2, "kernel": 3}, {"layers": 1},
                                   {"residual": False}])
@pytest.mark.parametrize("begun", [1, 3, 40])
def test_a_prompt_of_any_length_can_be_continued(knobs, begun):
    model, x = net(**knobs), waves(3, 60)
    logits, state = model.init(x[:, :begun])
    for t in range(begun, 60):
        logits, state = model.step(x[:, t], state)
    torch.testing.assert_close(logits, model(x)[:, :, -1])
    assert state.time == 60


def test_waves_of_a_batch_are_said_as_each_alone():
    model, x = net(), waves(3, 12)
    both = generate(model, 9, prompt=x, temperature=0.0)
    alone = torch.cat([generate(model, 9, prompt=one[None], temperature=0.0) for one in x])
    assert torch.equal(both, alone)


def test_the_classifier_hears_every_length_and_learns():
    model = SpeechClassifier(net(), classes=3, rng=rng()).double()
    assert model(waves(2, 5)).shape == model(waves(2, 50)).shape == (2, 3)
    model(waves(2, 20)).square().sum().backward()
    assert all(one.grad is not None for one in model.parameters())


def test_levels_are_those_that_the_standard_compands():
    x = torch.tensor([0.0, 1 / 255, 0.1, -0.1, 1.0], dtype=torch.float64)
    law = x.sign() * torch.log1p(255 * x.abs()) / math.log(256)
    torch.testing.assert_close(mu_law_decode(mu_law_encode(x)).double(), x, atol=0.003, rtol=0)
    assert (mu_law_encode(x) - 127.5 * (law + 1)).abs().max() <= 0.5


def test_bits_of_chains_are_their_entropies():
    codes = torch.tensor([0, 1] * 3000)
    assert _bits_of_chain(codes, codes, order=0) == pytest.approx(1.0, abs=0.07)
    assert _bits_of_chain(codes, codes, order=1) == pytest.approx(0.0, abs=0.01)
    noise = waves(60_000, classes=256)
    assert _bits_of_chain(noise, waves(20_000, classes=256, seed=2), order=0) == pytest.approx(
        8.0, abs=0.02)


def test_bits_of_the_linear_predictor_are_those_of_its_residual():
    step = torch.randn(40_000, generator=rng(), dtype=torch.float64) * 0.02
    wave = torch.zeros(40_000, dtype=torch.float64)
    for t in range(1, 40_000):  # an autoregression, whose residual is known
        wave[t] = 0.9 * wave[t - 1] + step[t]
    wave = wave.clamp(-1, 1)
    slope = 255 / math.log(256) / (1 + 255 * wave.abs())  # of the law: how much finer it is
    entropy = 0.5 * math.log2(2 * math.pi * math.e * 0.02**2)
    expected = entropy + float((slope * 255 / 2).log2().mean())
    found = _bits_of_linear(wave[:30_000], wave[30_000:])
    assert found == pytest.approx(expected, abs=0.1)


def test_bits_of_a_network_do_not_depend_on_the_pieces():
    model, codes = net(classes=256), waves(9000, classes=256)
    with torch.no_grad():
        logits = model(codes[None])[0, :, :-1]
    whole = float(nn.functional.cross_entropy(logits.mT, codes[1:])) / math.log(2)
    assert _bits_of(model, codes) == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize(("call", "sentence"), [
    (lambda: mu_law_encode(torch.tensor([0.5, -1.5])),
     r"^mu_law_encode: x must be in \[-1, 1\]; got 1.5. Divide by the largest swing.$"),
    (lambda: mu_law_encode(torch.tensor([float("nan")])), r"x must be in \[-1, 1\]; got nan"),
    (lambda: mu_law_decode(torch.tensor([3, 256])),
     r"^mu_law_decode: codes must be integers from 0 to 255; got 256"),
    (lambda: net()(torch.tensor([[0, 16]])),
     r"^WaveNet: x must be integers from 0 to 15; got 16"),
    (lambda: net()(torch.tensor([[-1, 3]])), r"integers from 0 to 15; got -1"),
    (lambda: WaveNet(layers=0), r"^WaveNet: layers must be an integer in \[1, 20\]; got 0"),
    (lambda: GatedUnit(2, 3, kernel=1), r"^GatedUnit: kernel must be"),
    (lambda: generate(net(), 3, temperature=-1.0), r"^generate: temperature must be"),
])
def test_bad_input_gets_a_sentence(call, sentence):
    with pytest.raises(UsageError, match=sentence):
        call()

r"""Causal dilated convolution: what is true of it, and what would refute it.

Knobs:
    padding: Where zeros are added: before the first sample, or on both sides alike.
    layers: Layers of a block; their dilations double.
    blocks: How often the dilations begin anew.
    kernel: Taps of a kernel.
    steps: Samples that are said one by one.
    short: Places that are missing in every queue.
    cache: Whether layers remember their inputs.
    amplitude: Of the wave whose samples are rounded.
    depth: Layers of the network whose first one is looked at.
    residual: Whether a layer adds to its input and speaks to the end itself.
    longest: The longest sequence; with a single sample there is nothing to do in parallel.
"""

import math
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from principia.convolution.wavenet import (
    CausalConv1d,
    GatedUnit,
    SpeechClassifier,
    WaveNet,
    generate,
    mu_law_decode,
    mu_law_encode,
)
from principia.lab.draws import drawn_anew, rand, randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    slope,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.pictures import Matrix, Rule
from principia.lab.seeds import Seed

Taps = Annotated[int, Range(2, 4)]
Depth = Annotated[int, Range(1, 10)]
EXACT = "a theorem: no slack"


@claim(control={"padding": "symmetric"}, refutes=["a layer", "the network"],
       source="van den Oord et al. 2016, sec. 2.1")
def causal(
    seed: Seed, *, padding: Literal["causal", "symmetric"] = "causal", kernel: Taps = 3,
) -> Evidence:
    r"""With all zeros before the first sample, no output depends on a later input.

    Args:
        kernel: Taps of a kernel; three look to both sides if zeros stand on both.
    """
    T, rng = 14, seed.torch()
    conv = drawn_anew(CausalConv1d(2, 3, kernel=kernel, dilation=2, rng=rng), rng)
    net = WaveNet(channels=4, layers=2, kernel=kernel, classes=8, rng=rng).double()
    ahead = 0 if padding == "causal" else (net.field - 1) // 2

    def layer(x: Tensor) -> Tensor:
        if padding == "causal":
            return conv(x)
        both = conv.reach // 2, conv.reach - conv.reach // 2
        return F.conv1d(F.pad(x, both), conv.conv.weight, conv.conv.bias, dilation=2)

    def network(h: Tensor) -> Tensor:  # zeros on both sides move every output to the left
        return net.head(net.answer(F.pad(h, (0, ahead))))[:, :, ahead:]

    parts, maps = {}, {}
    for name, function, x in (("a layer", layer, randn(rng, 1, 2, T)),
                              ("the network", network, net.embedded(torch.arange(T)[None] % 8))):
        jacobian: Any = torch.func.jacrev(function)(x.detach())  # (1, out, T, 1, in, T)
        maps[name] = felt = jacobian.abs().amax(dim=(0, 1, 3, 4)).detach()
        parts[name] = equal(felt.triu(1), 0.0, tol=0, why="nothing is computed of what comes later")
        parts[f"{name} hears the present"] = at_least(
            felt.diagonal(), 1e-9, why="the last tap stands at the sample itself")
    x, taps = randn(rng, 2, 2, T), range(kernel)
    by_hand = sum(
        torch.einsum("oi,bit->bot", conv.conv.weight[:, :, j],
                     F.pad(x, (2 * (kernel - 1 - j), 0))[:, :, :T]) for j in taps)
    parts["the formula"] = equal_to_rounding(
        conv(x).detach(), (by_hand + conv.conv.bias[:, None]).detach())
    unit = drawn_anew(GatedUnit(2, 3, kernel=kernel, dilation=2, rng=rng), rng)
    what, gate = unit.conv(x)[:, :3], unit.conv(x)[:, 3:]
    parts["the gate"] = equal_to_rounding(
        unit(x).detach(), (what.tanh() / (1 + (-gate).exp())).detach())
    classifier, waves = SpeechClassifier(net, classes=3, rng=rng), torch.arange(24).view(2, 12) % 8
    said = net(waves).sum(dim=2) / 12
    parts["words are told from the mean over time"] = equal_to_rounding(
        classifier.double()(waves).detach(), classifier.last(said).detach())
    return every(parts).drawn(Matrix(maps["the network"], name="how much it is felt", low=0.0),
                              x="input sample", y="output sample")


@claim(control={"layers": 1, "blocks": 10}, refutes=["ten layers"],
       source="van den Oord et al. 2016, sec. 2.1")
def field_is_1024(seed: Seed, *, layers: Depth = 10, blocks: Annotated[int, Range(1, 10)] = 1,
                  kernel: Annotated[int, Range(2, 3)] = 2) -> Evidence:
    """Ten layers with dilations 1, 2, 4, ..., 512 hear 1,024 samples, the last of them the present.

    Args:
        layers: Layers of a block; the other way to ten is ten blocks of one, all dilations 1.
    """
    net = WaveNet(channels=2, layers=layers, blocks=blocks, kernel=kernel, classes=4,
                  rng=seed.torch()).double()
    first, felt = _heard(net, 1100 if kernel == 2 else 2100)
    shown = [float(one) for one in felt.clamp_min(1e-30)]
    few = WaveNet(channels=2, layers=2, blocks=3, kernel=3, classes=4,
                  rng=seed.torch()).double()
    return every({
        "ten layers": equal(len(felt) - first, 1024, tol=0, why="counts of samples"),
        "what it says of itself": equal(net.field, len(felt) - first, tol=0, why="counts"),
        "three taps, three blocks": equal(
            [few.field, 40 - _heard(few, 40)[0]], 1 + 2 * 3 * (1 + 2), tol=0, why="counts"),
    }).drawn(
        Series("felt at the end", range(len(felt)), shown, style="points"),
        Rule("1,024 samples back", x=len(felt) - 1024), x="input sample", y="gradient", log="y")


def _heard(net: WaveNet, T: int) -> tuple[int, Tensor]:
    """Give the first sample on which the last logits depend, and how much they do on each."""
    h = net.embedded(torch.zeros(1, T, dtype=torch.long)).detach().requires_grad_()
    logits = net.head(net.answer(h))[0, :, -1]
    (gradient,) = torch.autograd.grad(logits.square().sum(), h)
    felt = gradient[0].abs().amax(dim=0)
    return int((felt > 0).nonzero()[0]), felt


@claim(control={"short": 1}, refutes=["step by step", "after a long prompt"],
       source="Le Paine et al. 2016")
def incremental_equals_parallel(
    seed: Seed, *, steps: Annotated[int, Range(10, 2000)] = 160, kernel: Taps = 3,
    short: Annotated[int, Range(0, 1)] = 0,
) -> Evidence:
    """Sample by sample, from queues, a network says what it says of the whole wave at once."""
    rng = seed.torch()
    net = WaveNet(channels=6, layers=4, blocks=2, kernel=kernel, classes=16, rng=rng)
    net = drawn_anew(net, rng)
    x = torch.randint(16, (2, steps), generator=rng)
    whole, parts = net(x).detach(), {}
    for name, begun in (("step by step", 1), ("after a long prompt", steps // 2 | 1)):
        logits, state = net.init(x[:, :begun])
        state.queues = [one[:, :, : max(1, one.shape[2] - short)] for one in state.queues]
        found = [logits]
        for t in range(begun, steps):
            logits, state = net.step(x[:, t], state)
            found.append(logits)
        parts[name] = equal_to_rounding(torch.stack(found, dim=2), whole[:, :, begun - 1:])
        gap = (torch.stack(found, dim=2) - whole[:, :, begun - 1:]).abs().amax(dim=(0, 1))
        parts[name] = parts[name].drawn(
            Series("largest difference", range(begun, steps + 1), gap.clamp_min(1e-18)),
            x="sample", y="difference of the logits", log="y")
    cached, again = (
        generate(net, 30, rng=seed.child("draws").torch(), prompt=x, cache=cache)
        for cache in (True, False)
    )
    parts["what it says"] = never(cached != again, why="equal logits and equal draws")
    logits, _ = net.init(x)
    drawn = generate(net, 1, rng=seed.torch(), prompt=x[:1].expand(4000, -1), temperature=9.0)
    odds = (logits[0] / 9).softmax(dim=0)
    counts = F.one_hot(drawn[:, 0], 16).double()
    parts["it draws from the softmax"] = within_errors(
        counts.mean(dim=0), odds, error=(odds * (1 - odds) / 4000).sqrt(),
        why="4,000 independent draws at temperature 9")
    cold = generate(net, 1, prompt=x, temperature=0.0)[:, 0]
    parts["without temperature the likeliest"] = never(
        cold != logits.argmax(dim=1), why="a maximum")
    silent = generate(net, 6, rng=seed.torch())
    same = generate(net, 6, rng=seed.torch(), prompt=torch.full((1, 1), 8))
    parts["it begins with silence"] = never(silent != same, why="the level in the middle of 16")
    return every(parts)


@claim(control={"cache": False}, refutes=["a step"], source="Le Paine et al. 2016")
def incremental_cost_is_flat(
    seed: Seed, *, cache: bool = True, longest: Annotated[int, Range(100, 4000)] = 1600,
    layers: Depth = 6,
) -> Evidence:
    """With queues, a sample costs the same after any past; without them, as much as all the past.

    Multiplications are counted, not seconds: those of every operator that torch runs.

    Args:
        longest: Samples that were said before the last step.
    """
    net = WaveNet(channels=8, layers=layers, classes=16, rng=seed.torch())
    x = torch.randint(16, (1, longest), generator=seed.child("wave").torch())
    pasts, costs = [longest // 2**power for power in range(5, -1, -1)], []
    for past in pasts:
        _, state = net.init(x[:, :past])
        step = (lambda state=state: net.step(x[:, -1], state)) if cache else (
            lambda past=past: net(x[:, :past]))
        costs.append(_multiplications(step))
    whole = _multiplications(lambda: net(x)) / longest
    two = [_multiplications(lambda more=more: generate(
        net, 5 + more, rng=seed.torch(), prompt=x[:, :3]))
           for more in (0, 1)]
    weights = sum(one.numel() for one in net.parameters() if one.ndim > 2)
    return every({
        "a step": slope(pasts, costs, 0.0, tol=1e-9, why="a count: no slack beyond rounding",
                        labels=("samples before", "multiplications of the next")).drawn(
            Series("multiplications of one more sample", pasts, costs),
            Series("of all samples so far", pasts, [whole * past for past in pasts], "other"),
            x="samples before", y="multiplications", log="xy"),
        "each weight is used once": equal(
            _multiplications(lambda: net.step(x[:, 0], net.init(x[:, :1])[1]))
            - _multiplications(lambda: net.init(x[:, :1])), weights, tol=0, why="counts"),
        "one sample more to say": equal(two[1] - two[0], weights, tol=0, why="counts"),
    })


def _multiplications(run: Any) -> float:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops() / 2  # torch counts the additions, too


@claim(control={"amplitude": 1.0}, refutes=["gain at low amplitude"],
       source="ITU-T recommendation G.711 (1988)")
def mu_law_favors_small_amplitudes(
    seed: Seed, *, amplitude: Annotated[float, Range(0.002, 1)] = 0.01
) -> Evidence:
    r"""Of a soft wave, 256 levels of the $\mu$-law keep 15 dB more than 256 equal steps."""
    rng, levels = seed.torch(), torch.arange(256)
    noise = 2 * rand(rng, 100_000) - 1
    loud = torch.logspace(-2.5, 0, 26, dtype=torch.float64)
    gains = [_kept(one * noise) - _kept_by_equal_steps(one * noise) for one in loud]
    wave = amplitude * noise
    gain = _kept(wave) - _kept_by_equal_steps(wave)
    x = torch.linspace(-1, 1, 4001, dtype=torch.float64)
    swing = x.sign() * torch.log(1 + 255 * x.abs()) / math.log(256)
    place = 2 * levels.double() / 255 - 1
    few = torch.linspace(-1, 1, 401, dtype=torch.float64)
    narrow = few.sign() * torch.log(1 + 15 * few.abs()) / math.log(16)
    return every({
        "gain at low amplitude": at_least(
            gain, 15.0, why="the slope of the law there; the stated 15 dB").drawn(
            Series("mu-law over equal steps", loud, gains),
            Rule("15 dB", y=15.0), Rule("this wave", x=amplitude, role="other"),
            x="amplitude", y="gain, in dB", log="x"),
        "the law": equal(mu_law_encode(x), torch.floor(255 * (swing + 1) / 2 + 0.5), tol=0,
                         why="the same levels"),
        "with 16 levels": equal(
            mu_law_encode(few, classes=16), torch.floor(15 * (narrow + 1) / 2 + 0.5), tol=0,
            why="the same levels"),
        "and back": never(mu_law_encode(mu_law_decode(levels)) != levels,
                          why="the middle of a level is in it"),
        "and back with 16": never(
            mu_law_encode(mu_law_decode(levels[:16], classes=16), classes=16) != levels[:16],
            why="the middle of a level is in it"),
        "the inverse law": equal(
            mu_law_decode(levels), place.sign() * (256 ** place.abs() - 1) / 255, tol=2e-6,
            why="float32 rounding of numbers up to 1"),
    })


def _kept(wave: Tensor) -> float:
    return _decibels(wave, mu_law_decode(mu_law_encode(wave)).double())


def _kept_by_equal_steps(wave: Tensor) -> float:
    return _decibels(wave, (wave * 127.5).round() / 127.5)


def _decibels(wave: Tensor, heard: Tensor) -> float:
    return float(10 * (wave.square().mean() / (wave - heard).square().mean()).log10())


@claim(control={"residual": False}, source="van den Oord et al. 2016, sec. 2.4")
def skips_speed_the_first_layer(
    seed: Seed, *, residual: bool = True, depth: Annotated[int, Range(5, 20)] = 20,
    draws: Annotated[int, Range(5, 40)] = 10,
) -> Evidence:
    """Sums and direct ways to the end give the first layer a gradient ten times that of a chain.

    Args:
        draws: Networks and waves of each kind.
    """
    norms = {kind: torch.stack([
        _first_gradients(seed.child(draw), depth, residual=kind) for draw in range(draws)
    ]) for kind in (residual, False)}
    ratios = (norms[residual] / norms[False])[:, 0]
    along = {name: norms[kind].log().mean(dim=0).exp()
             for name, kind in (("with sums and direct ways", residual), ("a chain", False))}
    return at_least(ratios.log().mean().exp(), 10.0, why=f"the mean over {draws} draws; as stated",
                    detail=f"smallest of {draws} ratios: {float(ratios.min()):.3g}"
                    ).named("ratio of the gradients").drawn(
        *(Series(name, range(1, depth + 1), values, role, "line") for (name, values), role in
          zip(along.items(), ("measured", "other"), strict=True)),
        x="layer", y="norm of the gradient", log="y")


def _first_gradients(seed: Seed, depth: int, *, residual: bool) -> Tensor:
    """Give the norm of the gradient of each layer of a fresh network on a wave."""
    net = WaveNet(channels=8, layers=5, blocks=-(-depth // 5), classes=16, residual=residual,
                  rng=seed.torch()).double()
    x = torch.randint(16, (4, 80), generator=seed.child("wave").torch())
    loss = F.cross_entropy(net(x)[:, :, :-1], x[:, 1:])
    weights = [unit.conv.conv.weight for unit in net.units][:depth]
    return torch.stack([one.norm() for one in torch.autograd.grad(loss, weights)])


@claim(
    control=[
        Control({"longest": 1}, ["the gap grows"], "a single sample leaves nothing to do at once"),
    ],
    source="van den Oord et al. 2016, sec. 1",
)
def convolutions_run_in_parallel(
    seed: Seed, *, longest: Annotated[int, Range(1, 2048)] = 512, layers: Depth = 6
) -> Evidence:
    """A recurrent network needs a step after the other for every sample; a WaveNet, one a layer.

    Counted is the longest chain of operations of which each needs the result of the one before:
    what no number of processors can shorten.

    Args:
        longest: Samples of the longest wave.
    """
    rng = seed.torch()
    net = WaveNet(channels=4, layers=layers, classes=8, rng=rng)
    with torch.random.fork_rng([]):  # its weights do not matter
        cell = nn.RNN(4, 4, batch_first=True)
    lengths = [max(1, longest // 2**power) for power in (3, 2, 1, 0)]
    chains, walks = [], []
    for T in lengths:
        h = torch.zeros(1, 4, T, requires_grad=True)
        chains.append(_longest_chain(net.head(net.answer(h))))
        walks.append(_longest_chain(cell(h.mT)[0]))
    deeper = WaveNet(channels=4, layers=layers, blocks=2, classes=8, rng=rng)
    h = torch.zeros(1, 4, 16, requires_grad=True)
    each = [_longest_chain(one.answer(h)) for one in (net, deeper)]
    return every({
        "a WaveNet does not see the length": equal(
            chains, chains[0], tol=0, why="counts").drawn(
            Series("WaveNet", lengths, chains),
            Series("recurrent network", lengths, walks, "other"),
            x="samples", y="operations one after the other", log="xy"),
        "the gap grows": at_least(
            walks[-1] - chains[-1], longest, why="a recurrent step is one operation or more"),
        "a layer adds as much as the others": at_most(
            each[1] - each[0], 8 * layers, why="padding, convolution, gate, sum: under eight"),
    })


def _longest_chain(y: Tensor) -> int:
    """Count the operations on the longest way through the graph that autograd has recorded."""
    ends: dict[Any, int] = {}
    stack = [(y.grad_fn, False)]
    while stack:
        node, below_known = stack.pop()
        if node is None or node in ends:
            continue
        below = [one for one, _ in node.next_functions if one is not None]
        if below_known:
            ends[node] = 1 + max((ends[one] for one in below), default=0)
        else:
            stack += [(node, True), *((one, False) for one in below)]
    return ends[y.grad_fn]

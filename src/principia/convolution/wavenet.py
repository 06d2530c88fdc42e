r"""Causal dilated convolution: a network that hears the past, and speaks a sample at a time.

A wave has thousands of samples a second, and each depends on the ones before it, far back. A
convolution that looks only to the left cannot peek at what it has to predict; one whose taps stand
2, 4, 8, ... apart sees twice as far with every layer, 1,024 samples with ten. So all predictions of
a recording are computed at once when it learns, where a recurrent network would walk through it.
Each layer is gated, a tanh says what and a sigmoid how much; a sum carries its input on, and its
part of the answer goes straight to the end, so that gradients find every layer. To speak, the
network needs one step a sample: a queue in each layer holds the few inputs that its taps will ask
for, and no work is done twice. Samples are one of 256 levels, finer where the wave is soft.

$$ z = \tanh(W_f*x)\odot\sigma(W_g*x), \quad x\leftarrow x+W_rz, \quad s = \sum_lW_s^lz^l $$

$$ (W*x)_t = \sum_{j=0}^{k-1}W_jx_{t-(k-1-j)d}, \quad
\mathrm{field} = 1+(k-1)\sum_ld_l, \quad d_l = 1,2,4,\dots $$

$$ f(x) = \mathrm{sgn}(x)\,\frac{\ln(1+\mu\vert x\vert)}{\ln(1+\mu)}, \quad \mu = 255 $$

Symbols:
    $W_f, W_g$: filter and gate, the halves of the `conv` of a `GatedUnit`
    $W_r, W_s$: what goes on to the next layer and to the answer, `mix`
    $k, d_l$: taps of a kernel, `kernel`, and the distance between them, `dilation`
    $\mu$: the levels of a sample less one, `mu_law_encode` and `mu_law_decode`

References:
    van den Oord, Dieleman, Zen, Simonyan, Vinyals, Graves, Kalchbrenner, Senior and Kavukcuoglu
        (2016), WaveNet: a generative model for raw audio. arXiv:1609.03499
    Le Paine, Khorrami, Chang, Zhang, Ramachandran, Hasegawa-Johnson and Huang (2016), Fast WaveNet
        generation algorithm. arXiv:1611.09482
"""

__all__ = [
    "WaveNet", "CausalConv1d", "GatedUnit", "SpeechClassifier", "generate", "mu_law_encode",
    "mu_law_decode",
]

import math
from dataclasses import dataclass
from typing import Annotated, Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.draws import undrawn
from principia.lab.params import NonNegativeFloat, PositiveInt, Range, checked, usage_error
from principia.regularization.initialization import initialize_

Levels = Annotated[int, Range(2, 65536)]
Taps = Annotated[int, Range(2, 64)]
Layers = Annotated[int, Range(1, 20)]


@checked
def mu_law_encode(x: Float[Tensor, "..."], *, classes: Levels = 256) -> Int[Tensor, "..."]:
    r"""Rounds samples to levels that are close together around 0.

    Shapes:
        x: (...); returns (...), integers from 0 to classes - 1

    Args:
        x: Samples in [-1, 1].
        classes: Number of levels, $\mu+1$.

    Example:
        >>> mu_law_encode(torch.tensor([-1.0, -0.01, 0.0, 0.01, 1.0])).tolist()
        [0, 98, 128, 157, 255]
    """
    if x.numel() and not float(x.abs().amax()) <= 1:
        hint = "Divide by the largest swing."
        raise usage_error("mu_law_encode", "x", "in [-1, 1]", float(x.abs().amax()), hint)
    mu = classes - 1
    swing = x.sign() * (mu * x.abs()).log1p() / math.log1p(mu)  # f(x)
    return ((swing + 1) / 2 * mu + 0.5).long()


@checked
def mu_law_decode(codes: Int[Tensor, "..."], *, classes: Levels = 256) -> Float[Tensor, "..."]:
    r"""Gives the sample in the middle of each level, $f^{-1}$.

    Shapes:
        codes: (...); returns (...)

    Args:
        codes: Levels from 0 to classes - 1.
        classes: Number of levels.

    Example:
        >>> mu_law_decode(torch.tensor([0, 255])).tolist()
        [-1.0, 1.0]
    """
    _need_codes("mu_law_decode", "codes", codes, classes)
    mu = classes - 1
    swing = 2 * codes.to(torch.get_default_dtype()) / mu - 1
    return swing.sign() * (swing.abs() * math.log1p(mu)).expm1() / mu


def _need_codes(owner: str, name: str, codes: Tensor, classes: int) -> None:
    if codes.numel() and not 0 <= int(codes.min()) <= int(codes.max()) < classes:
        low, high = int(codes.min()), int(codes.max())
        got = low if low < 0 else high
        raise usage_error(owner, name, f"integers from 0 to {classes - 1}", got)


@final
class CausalConv1d(nn.Module):
    r"""Convolves a sequence with taps on the left alone: $y_t$ sees $x_t,x_{t-d},x_{t-2d},\dots$.

    Shapes:
        x: (B, cin, T); returns (B, cout, T)

    Args:
        cin: Channels of the input.
        cout: Channels of the output.
        kernel: Number of taps $k$.
        dilation: Samples from one tap to the next, $d$.
        rng: Draws the weights; by default torch's global generator.

    Example:
        >>> conv = CausalConv1d(1, 1, kernel=2, dilation=3)
        >>> y = conv(torch.rand(2, 1, 5))
        >>> y.shape
        torch.Size([2, 1, 5])
    """

    @checked
    def __init__(
        self, cin: PositiveInt, cout: PositiveInt, *, kernel: Taps = 2,
        dilation: PositiveInt = 1, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.conv: Any = undrawn(nn.Conv1d, cin, cout, kernel, dilation=dilation)
        self.dilation, self.reach = dilation, (kernel - 1) * dilation
        initialize_(self, "default", rng=rng)

    def forward(self, x: Float[Tensor, "B cin T"]) -> Float[Tensor, "B cout T"]:
        """Convolve; before the first sample there is silence, which is 0."""
        return self.conv(F.pad(x, (self.reach, 0)))

    def queue(self, x: Float[Tensor, "B cin T"]) -> Float[Tensor, "B cin reach"]:
        """Give the inputs that later taps ask for, as a ring: time t is at place t mod reach."""
        past = F.pad(x, (max(0, self.reach - x.shape[2]), 0))[:, :, -self.reach :]
        return past.roll(x.shape[2], dims=2)

    def step(
        self, x: Float[Tensor, "B cin"], queue: Float[Tensor, "B cin reach"], time: int
    ) -> Float[Tensor, "B cout"]:
        """Convolve at one sample, and let it take the place of the oldest one in the queue.

        Args:
            x: The sample.
            queue: What `queue` gave or the step before left; it is changed in place.
            time: How many samples came before.
        """
        size = queue.shape[2]
        back = range(self.reach, 0, -self.dilation)  # of all taps but the last, which is x
        taps = torch.stack([*(queue[:, :, (time - one) % size] for one in back), x], dim=2)
        queue[:, :, time % size] = x
        return F.linear(taps.flatten(1), self.conv.weight.flatten(1), self.conv.bias)


@final
class GatedUnit(nn.Module):
    r"""Lets a sigmoid decide how much of a tanh passes: $\tanh(W_f*x)\odot\sigma(W_g*x)$.

    Shapes:
        x: (B, cin, T); returns (B, cout, T)

    Args:
        cin: Channels of the input.
        cout: Channels of the output.
        kernel: Number of taps.
        dilation: Samples from one tap to the next.
        rng: Draws the weights; by default torch's global generator.

    Example:
        >>> unit = GatedUnit(2, 3, dilation=4)
        >>> z = unit(torch.rand(1, 2, 9))
        >>> z.shape
        torch.Size([1, 3, 9])
    """

    @checked
    def __init__(
        self, cin: PositiveInt, cout: PositiveInt, *, kernel: Taps = 2,
        dilation: PositiveInt = 1, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.conv = CausalConv1d(cin, 2 * cout, kernel=kernel, dilation=dilation, rng=rng)

    def forward(self, x: Float[Tensor, "B cin T"]) -> Float[Tensor, "B cout T"]:
        """Convolve both, and multiply."""
        return _gated(self.conv(x))

    def step(
        self, x: Float[Tensor, "B cin"], queue: Float[Tensor, "B cin reach"], time: int
    ) -> Float[Tensor, "B cout"]:
        """Do so at one sample."""
        return _gated(self.conv.step(x, queue, time))


def _gated(both: Tensor) -> Tensor:
    what, gate = both.chunk(2, dim=1)
    return what.tanh() * gate.sigmoid()


@final
@dataclass
class WaveState:
    """What the next sample depends on: a ring of past inputs in each layer, and the time."""

    queues: list[Tensor]
    time: int


@final
class WaveNet(nn.Module):
    r"""Predicts every sample of a wave from the ones before it.

    The logits at time t are those of sample t + 1.

    Shapes:
        x: (B, T), integers from 0 to classes - 1; returns (B, classes, T)

    Args:
        channels: Width of a layer.
        layers: Layers of a block, with dilations 1, 2, 4, ...
        blocks: How often the dilations begin anew.
        kernel: Number of taps.
        classes: Levels of a sample.
        skips: Width of the answer before its last two layers; by default twice the channels.
        residual: Whether a layer adds to its input, and speaks to the end itself; if not, the
            layers are a chain.
        rng: Draws the weights; by default torch's global generator.

    Example:
        >>> net = WaveNet(channels=8, layers=4)
        >>> logits = net(torch.randint(256, (2, 50)))
        >>> net.field, logits.shape
        (16, torch.Size([2, 256, 50]))
    """

    @checked
    def __init__(
        self, *, channels: PositiveInt = 32, layers: Layers = 10, blocks: PositiveInt = 1,
        kernel: Taps = 2, classes: Levels = 256, skips: PositiveInt | None = None,
        residual: bool = True, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        dilations = [2**layer for layer in range(layers)] * blocks
        skips, heard = skips or 2 * channels, channels * (len(dilations) if residual else 1)
        self.classes, self.residual = classes, residual
        self.field = 1 + (kernel - 1) * sum(dilations)  # samples that one logit depends on
        self.embed = undrawn(nn.Embedding, classes, channels)  # a 1 x 1 convolution of one-hots
        self.embed.weight.data = torch.randn(classes, channels, generator=rng)
        self.units: Any = nn.ModuleList(
            GatedUnit(channels, channels, kernel=kernel, dilation=one, rng=rng) for one in dilations
        )
        self.on = nn.ModuleList(  # W_r; the last layer has nobody to hand on to
            undrawn(nn.Conv1d, channels, channels, 1) for _ in dilations[1:]
        )
        self.out = undrawn(nn.Conv1d, heard, skips, 1)  # W_s of all layers, side by side
        self.head = nn.Sequential(
            nn.ReLU(), undrawn(nn.Conv1d, skips, skips, 1),
            nn.ReLU(), undrawn(nn.Conv1d, skips, classes, 1),
        )
        for part in (*self.on, self.out, self.head):
            initialize_(part, "default", rng=rng)

    def forward(self, x: Int[Tensor, "B T"]) -> Float[Tensor, "B classes T"]:
        """Compute the logits of the sample after each."""
        return self.head(self.answer(self.embedded(x)))

    def embedded(self, x: Int[Tensor, "B T"]) -> Float[Tensor, "B channels T"]:
        """Give each level its vector."""
        _need_codes("WaveNet", "x", x, self.classes)
        return self.embed(x).mT

    def answer(
        self, h: Float[Tensor, "B channels T"], queues: list[Tensor] | None = None
    ) -> Float[Tensor, "B skips T"]:
        """Add up what the layers say.

        Args:
            h: The vectors of the samples.
            queues: Gets what each layer has to remember of its inputs, if there is a list.
        """
        heard = []
        for place, unit in enumerate(self.units):
            if queues is not None:
                queues.append(unit.conv.queue(h))
            heard.append(unit(h))
            h = self._handed_on(place, h, heard[-1])
        return self._said(heard)

    def _handed_on(self, place: int, h: Tensor, z: Tensor) -> Tensor:
        if place == len(self.on):
            return h
        return self.on[place](z) + h if self.residual else self.on[place](z)

    def _said(self, heard: list[Tensor]) -> Tensor:
        return self.out(torch.cat(heard if self.residual else heard[-1:], dim=1))

    @torch.no_grad()
    def init(self, x: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B classes"], WaveState]:
        """Hear the beginning of some waves at once; give the logits of what comes next.

        Args:
            x: The beginnings, of one sample or more.
        """
        queues: list[Tensor] = []
        said = self.answer(self.embedded(x), queues)
        return self.head(said[:, :, -1:])[:, :, 0], WaveState(queues, x.shape[1])

    @torch.no_grad()
    def step(
        self, x: Int[Tensor, " B"], state: WaveState
    ) -> tuple[Float[Tensor, "B classes"], WaveState]:
        """Hear one sample more: the work of one sample, however long the past is.

        Args:
            x: The sample of each wave.
            state: What `init` or the step before gave; its queues are changed in place.
        """
        h, heard = self.embed(x)[:, :, None], []
        for place, unit in enumerate(self.units):
            heard.append(unit.step(h[:, :, 0], state.queues[place], state.time)[:, :, None])
            h = self._handed_on(place, h, heard[-1])
        return self.head(self._said(heard))[:, :, 0], WaveState(state.queues, state.time + 1)


@final
class SpeechClassifier(nn.Module):
    r"""Tells what is said from what a WaveNet expects, averaged over time.

    Shapes:
        x: (B, T), integers; returns (B, classes)

    Args:
        body: The WaveNet, fresh or trained to predict.
        classes: Number of words.
        rng: Draws the weights of the last layer; by default torch's global generator.

    Example:
        >>> listener = SpeechClassifier(WaveNet(channels=8, layers=4))
        >>> scores = listener(torch.randint(256, (3, 99)))
        >>> scores.shape
        torch.Size([3, 10])
    """

    @checked
    def __init__(
        self, body: WaveNet, *, classes: PositiveInt = 10, rng: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.body = body
        self.last = undrawn(nn.Linear, body.classes, classes)
        initialize_(self.last, "default", rng=rng)

    def forward(self, x: Int[Tensor, "B T"]) -> Float[Tensor, "B classes"]:
        """Compute the scores of the words."""
        return self.last(self.body(x).mean(dim=2))


@checked
@torch.no_grad()
def generate(
    model: WaveNet, steps: PositiveInt, *, rng: torch.Generator | None = None,
    prompt: Int[Tensor, "B T"] | None = None, temperature: NonNegativeFloat = 1.0,
    cache: bool = True,
) -> Int[Tensor, "B steps"]:
    """Lets a WaveNet speak, one sample after the other.

    Args:
        model: The network.
        steps: How many samples.
        rng: Draws the samples; by default torch's global generator.
        prompt: What it has said so far, (B, T); by default one sample of silence.
        temperature: Divides the logits: below 1 it dares less; at 0 it takes the likeliest sample.
        cache: Whether layers remember their inputs; if not, all the past is computed again for
            each sample.

    Example:
        >>> net = WaveNet(channels=8, layers=4)
        >>> generate(net, 20).shape
        torch.Size([1, 20])
    """
    if prompt is None:
        prompt = torch.full((1, 1), model.classes // 2)
    logits, state = model.init(prompt)
    said, past = [], prompt
    for place in range(steps):
        if place and cache:
            logits, state = model.step(said[-1], state)
        elif place:
            past = torch.cat([past, said[-1][:, None]], dim=1)
            logits = model(past)[:, :, -1]
        said.append(_drawn(logits, temperature, rng))
    return torch.stack(said, dim=1)


def _drawn(logits: Tensor, temperature: float, rng: torch.Generator | None) -> Tensor:
    if not temperature:
        return logits.argmax(dim=1)
    odds = (logits / temperature).softmax(dim=1)
    return torch.multinomial(odds, 1, generator=rng)[:, 0]

r"""Curriculum: easy problems first, or how to begin where descent finds its way.

A hard problem is often the last of a row of easier ones. A curriculum shows easy samples first and
lets the others in at some pace; what decides whether it may do so is that it ends with all of them,
so that the minimizer is the one of the whole problem. Continuation blurs the objective: the mean
over a cloud of points has no small dents, wide clouds make it convex, and its minimum, followed
while the cloud shrinks, leads to a deep minimum of the objective itself. Pretraining solves an
easier task first, to repair spoiled inputs, layer by layer, and starts from its weights: deep nets
of sigmoids, whose gradients vanish at a random start, then learn. Better starts and rectified units
do the same for less; it was this that opened depth.

$$ p_i(t) \propto 1[\mathrm{rank}_i\le a(t)\,N] \ \text{or}\ e^{-d_i/\tau(t)}, \quad
a(1) = 1, \quad \tau(1) = \infty $$

$$ h_\sigma(x) = E[h(x+\sigma\xi)], \quad \xi\sim N(0,I), \quad
x_{k+1} = \text{the minimum of}\ h_{\sigma_{k+1}}\ \text{below}\ x_k, \quad
\sigma_1>\sigma_2>\dots $$

$$ h(x) = \sum_i x_i^2-10\cos2\pi x_i+10 \implies
h_\sigma(x) = \sum_i x_i^2+\sigma^2-10e^{-2\pi^2\sigma^2}\cos2\pi x_i+10 $$

Symbols:
    $d_i, N$: difficulty of sample $i$ and number of samples, `difficulty` of `Curriculum`
    $t$: progress, from 0 to 1
    $a, \tau$: share of the samples that is shown and temperature, `pace` of the two kinds
    $h, h_\sigma$: objective and its smoothing, a `Problem` and what `smoothed` makes of it
    $\sigma_k, x_k$: widths of the cloud, `sigmas` of `Continuation`, and the tracked minima

References:
    Bengio, Louradour, Collobert and Weston (2009), Curriculum learning. International Conference on
        Machine Learning. doi:10.1145/1553374.1553380
    Wu, Dyer and Neyshabur (2021), When do curricula work? International Conference on Learning
        Representations. arXiv:2012.03107
    Mobahi and Fisher (2015), A theoretical analysis of optimization by Gaussian continuation. AAAI
        Conference on Artificial Intelligence.
    Hinton, Osindero and Teh (2006), A fast learning algorithm for deep belief nets. Neural
        Computation 18(7). doi:10.1162/neco.2006.18.7.1527
    Vincent, Larochelle, Lajoie, Bengio and Manzagol (2010), Stacked denoising autoencoders. Journal
        of Machine Learning Research 11.
    Erhan, Bengio, Courville, Manzagol, Vincent and Bengio (2010), Why does unsupervised
        pre-training help deep learning? Journal of Machine Learning Research 11.
"""

__all__ = [
    "Curriculum", "ramp", "Continuation", "smoothed", "Rastrigin", "Ackley", "pretrain",
    "transfer", "DenoisingAutoencoder",
]

import itertools
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Adam

from principia.lab.draws import rand, randn
from principia.lab.params import (
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Range,
    UnitInterval,
    checked,
    usage_error,
)
from principia.lab.seeds import Seed
from principia.lab.training import Trained, fit
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import MLP, need_plain_units
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Problem
from principia.optimization.sgd import ActivationName, ParallelMLP

Share = Annotated[float, Range(0, 1, open="low")]
Chance = Annotated[float, Range(0, 1, open="high")]
WAVE = 40 * math.pi**2  # curvature of 10 cos 2πx
SIGMAS = (1.0, 0.6, 0.4, 0.25, 0.1, 0.0)


@final
class Curriculum:
    r"""Draws samples by difficulty: only easy ones at first, all alike in the end.

    Rows of difficulties are independent curricula. Two that draw from generators of one state draw
    samples of the same ranks, which makes them comparable.

    Shapes:
        difficulty: (..., N)

    Args:
        difficulty: How hard each sample is; only with "soft" does more than the order count.
        pace: From progress in [0, 1] to the share of samples that is drawn from, 1 at the end;
            with "soft", to the temperature, infinite at the end.
        kind: "easiest" draws uniformly from the easiest share; "soft" by $e^{-d_i/\tau}$.

    Example:
        >>> lesson = Curriculum(torch.tensor([3.0, 1.0, 2.0, 4.0]), ramp(0.5))
        >>> lesson.probabilities(0.0), lesson.probabilities(1.0)
        (tensor([0.0000, 0.5000, 0.5000, 0.0000]), tensor([0.2500, 0.2500, 0.2500, 0.2500]))
        >>> lesson.sample(3, 0.0, torch.Generator().manual_seed(0)).shape
        torch.Size([3])
    """

    @checked
    def __init__(
        self, difficulty: Float[Tensor, "*R N"], pace: Callable[[float], float], *,
        kind: Literal["easiest", "soft"] = "easiest",
    ) -> None:
        if not difficulty.isfinite().all():
            raise usage_error("Curriculum", "difficulty", "finite numbers", difficulty.tolist())
        self.pace, self.kind, self._full = pace, kind, 1.0 if kind == "easiest" else math.inf
        self._sorted, self._order = difficulty.sort(dim=-1, stable=True)
        if pace(1.0) != self._full:
            hint = "A curriculum that does not end with all samples solves another problem."
            domain = f"a function that is {self._full:g} at progress 1"
            raise usage_error("Curriculum", "pace", domain, pace(1.0), hint)

    @checked
    def probabilities(self, progress: UnitInterval) -> Float[Tensor, "*R N"]:
        """Computes how likely each sample is drawn."""
        weights = self._weights(progress)
        shares = weights / weights.sum(dim=-1, keepdim=True)
        return torch.zeros_like(shares).scatter(-1, self._order, shares)

    @checked
    def sample(
        self, count: PositiveInt, progress: UnitInterval, rng: torch.Generator
    ) -> Int[Tensor, "*R count"]:
        """Draws indices of samples, with replacement."""
        below = self._weights(progress).double().cumsum(dim=-1)
        below /= below[..., -1:].clone()
        u = rand(rng, *below.shape[:-1], count)
        return self._order.gather(-1, torch.searchsorted(below, u, right=True))

    def _weights(self, progress: float) -> Tensor:
        """Weigh the samples in the order of their difficulty."""
        pace, d = self.pace(progress), self._sorted
        if not 0 < pace <= self._full:
            name = f"pace at progress {progress:g}"
            raise usage_error("Curriculum", name, f"in (0, {self._full:g}]", pace)
        if self.kind == "soft":
            return ((d[..., :1] - d) / pace).exp()
        shown = math.ceil(round(pace * d.shape[-1], 9))  # 0.15 * 20 is above 3
        return (torch.arange(d.shape[-1]) < shown).to(d.dtype).expand(d.shape)


@checked
def ramp(start: Share = 0.15, until: Share = 1.0) -> Callable[[float], float]:
    """Builds the pace that rises evenly from a share of the samples to all of them.

    Args:
        start: Share at the beginning.
        until: Progress from which all are shown.

    Example:
        >>> pace = ramp(0.5, until=0.5)
        >>> pace(0.0), pace(0.25), pace(1.0)
        (0.5, 0.75, 1.0)
    """
    return lambda progress: min(1.0, start + (1 - start) * progress / until)


@final
class Rastrigin(Problem):
    r"""Measures $\sum_ix_i^2-10\cos2\pi x_i+10$, a bowl full of dents, or its smoothing.

    Args:
        dim: Number of coordinates.
        sigma: Width of the Gaussian cloud over which it is averaged, in closed form.

    Example:
        >>> dents = Rastrigin(1).at(torch.tensor([[0.0], [1.0], [1.5]]))
        >>> values = dents()
        >>> values.tolist()
        [0.0, 1.0, 22.25]
    """

    @checked
    def __init__(self, dim: PositiveInt = 2, *, sigma: NonNegativeFloat = 0.0) -> None:
        super().__init__(torch.full((1, dim), 2.5))
        self.sigma, self.fading = sigma, math.exp(-2 * math.pi**2 * sigma**2)
        self.smoothness = 2 + WAVE * self.fading
        self.minimum = dim * (sigma**2 + 10 - 10 * self.fading)
        self.minimizer = torch.zeros(dim, dtype=torch.float64)
        if WAVE * self.fading < 2:
            self.strong_convexity = self.pl = 2 - WAVE * self.fading

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the bowl and its dents, as deep as the cloud leaves them."""
        waves = 10 * self.fading * (2 * math.pi * theta).cos()
        return (theta**2 + self.sigma**2 - waves + 10).sum(dim=-1)


@final
class Ackley(Problem):
    r"""Measures $20(1-e^{-0.2r})+e-e^{\overline{\cos2\pi x}}$, a funnel with dents.

    $r$ is the root mean square of the coordinates, the bar a mean over them.

    Example:
        >>> funnel = Ackley(2).at(torch.tensor([[0.0, 0.0], [5.0, 5.0]]))
        >>> values = funnel()
        >>> [round(abs(one), 3) for one in values.tolist()]
        [0.0, 12.642]
    """

    minimum = 0.0

    @checked
    def __init__(self, dim: PositiveInt = 2) -> None:
        super().__init__(torch.full((1, dim), 2.5))
        self.minimizer = torch.zeros(dim, dtype=torch.float64)

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the funnel and its dents."""
        r = theta.norm(dim=-1) / math.sqrt(theta.shape[-1])
        dents = (2 * math.pi * theta).cos().mean(dim=-1).exp()
        return 20 * (1 - (-0.2 * r).exp()) + math.e - dents


@checked
def smoothed(
    h: Problem, sigma: NonNegativeFloat, samples: PositiveInt | None = None,
    rng: torch.Generator | None = None
) -> Problem:
    r"""Averages a problem over a Gaussian cloud around each point: $h_\sigma(x)=E[h(x+\sigma\xi)]$.

    Sampled clouds have their points in pairs $\pm\xi$, the same at every call and for every row, so
    that the smoothing is a fixed function, which descent can follow.

    Args:
        h: The problem; its `theta` is kept.
        sigma: Width of the cloud.
        samples: Points of the cloud, an even number; by default the closed form of `Rastrigin`.
        rng: Draws the cloud; needed with samples.

    Example:
        >>> smoothed(Rastrigin(1), 0.5).value(torch.zeros(1)).item()
        10.178...
    """
    if sigma == 0:
        return h
    if samples is None:
        if not isinstance(h, Rastrigin):
            raise _without_cloud(h, samples, rng)
        return Rastrigin(h.theta.shape[1], sigma=math.hypot(h.sigma, sigma)).at(h.theta)
    if samples % 2 or rng is None:
        raise _without_cloud(h, samples, rng)
    return _Sampled(h, sigma, samples, rng)


def _without_cloud(h: Problem, samples: int | None, rng: torch.Generator | None) -> Exception:
    domain = "an even number of points and a generator, or a problem with a closed form"
    got, hint = (type(h).__name__, samples, rng), "Only Rastrigin has one."
    return usage_error("smoothed", "h, samples and rng", domain, got, hint)


@final
class _Sampled(Problem):
    """A problem averaged over a cloud of fixed points."""

    def __init__(self, h: Problem, sigma: float, samples: int, rng: torch.Generator) -> None:
        super().__init__(h.theta)
        self.h, self.steps = h.value, sigma * randn(rng, samples // 2, h.theta.shape[1])

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the mean over the cloud."""
        return self.pairs(theta).mean(dim=-1)

    def pairs(self, theta: Tensor) -> Tensor:
        """Compute the mean over each pair of opposite points."""
        at = theta[..., None, :]
        return (self.h(at + self.steps) + self.h(at - self.steps)) / 2


@final
class Continuation:
    r"""Follows a minimum from wide clouds to narrow ones, to a deep minimum of the objective.

    Args:
        objective: What is to be minimized.
        sigmas: Widths of the cloud, falling; 0 is the objective itself.
        lr: From a width to the step size of gradient descent; by default $1/L$, where known.
        steps: Steps at each width.
        samples: Points of the cloud; by default closed form.
        rng: Draws the clouds.

    Example:
        >>> track = Continuation(Rastrigin(1), (1.0, 0.3, 0.1, 0.0))
        >>> path = track.minimize(torch.tensor([[4.2]]))
        >>> path.shape, bool(path[-1].abs() < 1e-6)
        (torch.Size([4, 1, 1]), True)
    """

    @checked
    def __init__(
        self, objective: Problem, sigmas: tuple[NonNegativeFloat, ...] = SIGMAS, *,
        lr: Callable[[float], float] | None = None, steps: PositiveInt = 50,
        samples: PositiveInt | None = None, rng: torch.Generator | None = None,
    ) -> None:
        if any(low >= high for high, low in itertools.pairwise(sigmas)):
            hint = "Wide clouds come first: they show where the deep minima are."
            raise usage_error(
                "Continuation", "sigmas", "falling from one to the next", sigmas, hint
            )
        self.stages = [(sigma, smoothed(objective, sigma, samples, rng)) for sigma in sigmas]
        self.lr, self.steps = lr, steps
        if lr is None and any(problem.smoothness is None for _, problem in self.stages):
            domain = "given where the smoothness of the objective is not known"
            raise usage_error("Continuation", "lr", domain, lr)

    def minimize(self, start: Shaped[Tensor, "B D"]) -> Float[Tensor, "K B D"]:
        """Find the minimum at each width, each from the last one."""
        path, at = [], start
        for sigma, problem in self.stages:
            problem = problem.at(at)
            lr = self.lr(sigma) if self.lr else 1 / float(problem.smoothness or math.nan)
            descend(problem, SGD(problem.parameters(), lr=lr), self.steps, at=[self.steps])
            path.append(at := problem.theta.detach())
        return torch.stack(path)


@final
class DenoisingAutoencoder(nn.Module):
    """Learns to repair inputs some of whose entries were set to 0, by one layer and its transpose.

    Shapes:
        x: (..., n); returns the repaired inputs, logits of them if the layer is one of sigmoids

    Args:
        layer: The layer that learns: an `nn.Linear`, or a layer of `ParallelMLP`.
        activation: Name of the function behind it.
        corruption: Chance of an entry to be set to 0.

    Example:
        >>> repair = DenoisingAutoencoder(nn.Linear(4, 3))
        >>> logits = repair(torch.rand(5, 4))
        >>> logits.shape
        torch.Size([5, 4])
    """

    @checked
    def __init__(
        self, layer: nn.Module, *, activation: ActivationName = "sigmoid", corruption: Chance = 0.2
    ) -> None:
        super().__init__()
        self.layer, self.phi = layer, ACTIVATIONS[activation].module()
        self.activation, self.corruption = activation, corruption
        weight: Any = layer.weight
        shape = (*weight.shape[:-2], 1, weight.shape[-1]) if weight.ndim > 2 else weight.shape[-1]
        self.bias = nn.Parameter(torch.zeros(shape))

    def encode(self, x: Float[Tensor, "... n"]) -> Float[Tensor, "... m"]:
        """Compute the code: the outputs of the layer."""
        return self.phi(self.layer(x))

    def forward(self, x: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        """Compute the inputs from their code."""
        return self.encode(x) @ self.layer.weight + self.bias  # type: ignore[operator]

    def loss(self, x: Float[Tensor, "... n"], rng: torch.Generator) -> Float[Tensor, ""]:
        """Spoil inputs and compare what is made of them with the whole ones, summed over nets."""
        x = x.expand(*self.bias.shape[:-2], *x.shape[-2:])  # every net has its own holes
        kept = torch.rand(x.shape, generator=rng, device=x.device) >= self.corruption
        repaired = self(x * kept)
        compare = F.binary_cross_entropy_with_logits if self.activation == "sigmoid" else F.mse_loss
        return compare(repaired, x, reduction="none").mean(dim=(-2, -1)).sum()


@checked
def pretrain(
    encoder: MLP | ParallelMLP, x: Float[Tensor, "*R N n"], *, steps: PositiveInt = 100,
    lr: PositiveFloat = 0.01, corruption: Chance = 0.2, seed: Seed | None = None, run: Any = None,
    name: str = "pretraining",
) -> list[Trained]:
    """Trains the layers of a network one after the other to repair their inputs, without labels.

    Each layer is a `DenoisingAutoencoder` of what the layers below it make of the data.

    Args:
        encoder: The network, without norms; all of its layers are trained, in place.
        x: Samples, with entries in [0, 1].
        steps: Steps of Adam for each layer, with batches of 64.
        lr: Step size.
        corruption: Chance of an entry to be set to 0.
        seed: Where batches and corruption come from; 0 by default.
        run: Resumes and shows the trainings, as in `fit`.
        name: Begins the names of its trainings.

    Example:
        >>> net = MLP([4, 3, 2], activation="sigmoid", rng=torch.Generator().manual_seed(0))
        >>> trained = pretrain(net, torch.rand(50, 4), steps=2)
        >>> [len(one.history) for one in trained]
        [2, 2]
    """
    if isinstance(encoder, MLP):
        need_plain_units("pretrain", "encoder", encoder)
    if not ((x >= 0) & (x <= 1)).all():
        raise usage_error("pretrain", "x", "in [0, 1]", (float(x.min()), float(x.max())))
    rows, done = torch.arange(x.shape[-2]), []  # fit takes rows of the first axis, maybe the nets
    for number, layer in enumerate(encoder.layers, start=1):
        coder = DenoisingAutoencoder(layer, activation=encoder.activation, corruption=corruption)
        done.append(fit(
            coder, rows, _Repair(x), Adam(coder.parameters(), lr=lr), steps=steps, batch_size=64,
            seed=(seed or Seed(0)).child(number), run=run, name=f"{name}-{number}",
        ))
        with torch.no_grad():
            x = coder.encode(x.to(coder.bias.device))
    return done


@final
class _Repair:
    """The loss of an autoencoder on rows of its data."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __call__(self, model: Any, batch: tuple[Tensor, ...], rng: torch.Generator, /) -> Tensor:
        return model.loss(self.x.to(batch[0].device)[..., batch[0], :], rng)


def transfer(encoder: MLP | ParallelMLP, classifier: nn.Module) -> nn.Module:
    """Copies the layers of a network to the first layers of another, in place, as its start.

    Args:
        encoder: Where the weights come from, without norms.
        classifier: Where they go, an MLP or ParallelMLP; layers above keep their own.

    Example:
        >>> encoder, classifier = MLP([4, 3, 3]), MLP([4, 3, 3, 2])
        >>> started = transfer(encoder, classifier)
        >>> torch.equal(started.layers[1].weight, encoder.layers[1].weight)
        True
    """
    if isinstance(encoder, MLP):
        need_plain_units("transfer", "encoder", encoder)
    layers: Any = getattr(classifier, "layers", ())
    shapes = [[tuple(one.weight.shape) for one in some] for some in (encoder.layers, layers)]
    if shapes[0] != shapes[1][: len(shapes[0])]:
        domain = f"a network whose first layers have weights of shape {shapes[0]}"
        raise usage_error("transfer", "classifier", domain, shapes[1])
    for source, target in zip(encoder.layers, layers, strict=False):
        target.load_state_dict(source.state_dict())
    return classifier

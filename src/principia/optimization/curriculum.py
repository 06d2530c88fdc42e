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
    "transfer", "DenoisingAutoencoder", "ParallelMLP",
]

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, final

import plotly.graph_objects as go
import torch
from jaxtyping import Float, Int, Shaped
from scipy.stats import chisquare
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Adam, Optimizer

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Choice, Count, Each, Fraction, NonNegative, Positive, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_least, equal, estimates, every, identical
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, Trained, accuracy, fit
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import MLP
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Problem

ActivationName = Annotated[str, Choice(tuple(ACTIVATIONS))]
Sizes = Annotated[Sequence[int], Each(Range(1, math.inf, kind=int))]
Sigmas = tuple[Annotated[float, Range(0, 10)], ...]
WAVE = 40 * math.pi**2  # curvature of 10 cos 2πx
SIGMAS = (1.0, 0.6, 0.4, 0.25, 0.1, 0.0)
CONVEX = math.sqrt(math.log(WAVE / 2) / (2 * math.pi**2))  # where the smoothing of Rastrigin is

ARMS = (  # of the experiment
    *(("sigmoid", start) for start in ("random", "lecun", "orthogonal", "pretrained")),
    ("relu", "random"), ("relu", "pretrained"),
)


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
            raise refuse("Curriculum", "difficulty", "finite numbers", difficulty.tolist())
        self.pace, self.kind = pace, kind
        self._sorted, self._order = difficulty.sort(dim=-1, stable=True)
        full = 1.0 if kind == "easiest" else math.inf
        if pace(1.0) != full:
            hint = "A curriculum that does not end with all samples solves another problem."
            domain = f"a function that is {full:g} at progress 1"
            raise refuse("Curriculum", "pace", domain, pace(1.0), hint)

    @checked
    def probabilities(self, progress: Fraction) -> Float[Tensor, "*R N"]:
        """Computes how likely each sample is drawn."""
        weights = self._weights(progress)
        shares = weights / weights.sum(dim=-1, keepdim=True)
        return torch.zeros_like(shares).scatter(-1, self._order, shares)

    @checked
    def sample(
        self, count: Count, progress: Fraction, rng: torch.Generator
    ) -> Int[Tensor, "*R count"]:
        """Draws indices of samples, with replacement."""
        below = self._weights(progress).double().cumsum(dim=-1)
        below /= below[..., -1:].clone()
        u = torch.rand(*below.shape[:-1], count, generator=rng, dtype=below.dtype)
        return self._order.gather(-1, torch.searchsorted(below, u, right=True))

    def _weights(self, progress: float) -> Tensor:
        """Weigh the samples in the order of their difficulty."""
        pace, d = self.pace(progress), self._sorted
        if not 0 < pace <= (1 if self.kind == "easiest" else math.inf):
            domain = "in (0, 1]" if self.kind == "easiest" else "in (0, inf]"
            raise refuse("Curriculum", f"pace at progress {progress:g}", domain, pace)
        if self.kind == "soft":
            return ((d[..., :1] - d) / pace).exp()
        shown = math.ceil(round(pace * d.shape[-1], 9))  # 0.15 * 20 is above 3
        return (torch.arange(d.shape[-1]) < shown).to(d.dtype).expand(d.shape)


@checked
def ramp(
    start: Annotated[float, Range(0, 1, open="low")] = 0.15,
    until: Annotated[float, Range(0, 1, open="low")] = 1.0,
) -> Callable[[float], float]:
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
    def __init__(self, dim: Count = 2, *, sigma: NonNegative = 0.0) -> None:
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
    def __init__(self, dim: Count = 2) -> None:
        super().__init__(torch.full((1, dim), 2.5))
        self.minimizer = torch.zeros(dim, dtype=torch.float64)

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the funnel and its dents."""
        r = theta.norm(dim=-1) / math.sqrt(theta.shape[-1])
        dents = (2 * math.pi * theta).cos().mean(dim=-1).exp()
        return 20 * (1 - (-0.2 * r).exp()) + math.e - dents


@checked
def smoothed(
    h: Problem, sigma: NonNegative, samples: Count | None = None, rng: torch.Generator | None = None
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
    if samples is not None and samples % 2 == 0 and rng is not None:
        return _Sampled(h, sigma, samples, rng)
    if samples is None and isinstance(h, Rastrigin):
        return Rastrigin(h.theta.shape[1], sigma=math.hypot(h.sigma, sigma)).at(h.theta)
    domain = "an even number of points and a generator, or a problem with a closed form"
    got = (type(h).__name__, samples, rng)
    raise refuse("smoothed", "h, samples and rng", domain, got, "Only Rastrigin has one.")


@final
class _Sampled(Problem):
    """A problem averaged over a cloud of fixed points."""

    def __init__(self, h: Problem, sigma: float, samples: int, rng: torch.Generator) -> None:
        super().__init__(h.theta)
        self.h = h.value
        shape = samples // 2, h.theta.shape[1]
        self.steps = sigma * torch.randn(shape, generator=rng, dtype=torch.float64)

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
        self, objective: Problem, sigmas: tuple[NonNegative, ...] = SIGMAS, *,
        lr: Callable[[float], float] | None = None, steps: Count = 50,
        samples: Count | None = None, rng: torch.Generator | None = None,
    ) -> None:
        if any(low >= high for high, low in itertools.pairwise(sigmas)):
            hint = "Wide clouds come first: they show where the deep minima are."
            raise refuse("Continuation", "sigmas", "falling from one to the next", sigmas, hint)
        self.stages = [(sigma, smoothed(objective, sigma, samples, rng)) for sigma in sigmas]
        self.lr, self.steps = lr, steps
        if lr is None and any(one.smoothness is None for _, one in self.stages):
            domain = "given where the smoothness of the objective is not known"
            raise refuse("Continuation", "lr", domain, lr)

    def minimize(self, start: Shaped[Tensor, "B D"]) -> Float[Tensor, "K B D"]:
        """Find the minimum at each width, each from the last one."""
        path, at = [], start
        for sigma, problem in self.stages:
            problem = problem.at(at)
            lr = self.lr(sigma) if self.lr else 1 / float(problem.smoothness or math.nan)
            descend(problem, SGD(problem.parameters(), lr=lr), self.steps, at=[self.steps])
            at = problem.theta.detach()
            path.append(at)
        return torch.stack(path)


@final
class ParallelMLP(nn.Module):
    """Runs several MLPs of one shape side by side, by products of stacked matrices.

    Shapes:
        x: (B, n), the same for all, or (R, B, n); returns (R, B, m)

    Args:
        sizes: Width of the input, of each hidden layer, of the output.
        copies: Number of networks, R.
        activation: Name of the function behind every layer but the last.
        rng: Draws weights and biases like those of `MLP`.

    Example:
        >>> nets = ParallelMLP([4, 8, 2], copies=3, rng=torch.Generator().manual_seed(0))
        >>> outputs = nets(torch.ones(5, 4))
        >>> outputs.shape
        torch.Size([3, 5, 2])
    """

    @checked
    def __init__(
        self, sizes: Sizes, *, copies: Count, activation: ActivationName = "relu",
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.phi = ACTIVATIONS[activation].module()
        self.activation = activation
        self.layers: Sequence[_ParallelLinear] = nn.ModuleList(  # type: ignore[assignment]
            _ParallelLinear(n, m, copies, rng) for n, m in itertools.pairwise(sizes)
        )

    def forward(self, x: Float[Tensor, "*R B n"]) -> Float[Tensor, "_ B m"]:
        """Compute the outputs of every network."""
        for layer in self.layers[:-1]:
            x = self.phi(layer(x))
        return self.layers[-1](x)


class _ParallelLinear(nn.Module):
    """Several linear layers of one shape."""

    def __init__(self, n: int, m: int, copies: int, rng: torch.Generator | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(copies, m, n))
        self.bias = nn.Parameter(torch.empty(copies, 1, m))
        for one in self.parameters():
            nn.init.uniform_(one, -(n**-0.5), n**-0.5, generator=rng)

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x.expand(len(self.weight), -1, -1), self.weight.mT)


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
        self, layer: nn.Module, *, activation: ActivationName = "sigmoid",
        corruption: Annotated[float, Range(0, 1, open="high")] = 0.2,
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
        weight: Any = self.layer.weight
        return self.encode(x) @ weight + self.bias

    def loss(self, x: Float[Tensor, "... n"], rng: torch.Generator) -> Float[Tensor, ""]:
        """Spoil inputs and compare what is made of them with the whole ones, summed over nets."""
        x = x.expand(*self.bias.shape[:-2], *x.shape[-2:])  # every net has its own holes
        kept = torch.rand(x.shape, generator=rng, device=x.device) >= self.corruption
        repaired = self(x * kept)
        if self.activation == "sigmoid":
            errors = F.binary_cross_entropy_with_logits(repaired, x, reduction="none")
        else:
            errors = (repaired - x).square()
        return errors.mean(dim=(-2, -1)).sum()


@checked
def pretrain(
    encoder: MLP | ParallelMLP, x: Float[Tensor, "*R N n"], *, steps: Count = 100,
    lr: Positive = 0.01, corruption: Annotated[float, Range(0, 1, open="high")] = 0.2,
    seed: Seed | None = None, run: Run | None = None, name: str = "pretraining",
) -> list[Trained]:
    """Trains the layers of a network one after the other to repair their inputs, without labels.

    Each layer is a `DenoisingAutoencoder` of what the layers below it make of the data.

    Args:
        encoder: The network; all of its layers are trained, in place.
        x: Samples, with entries in [0, 1].
        steps: Steps of Adam for each layer, with batches of 64.
        lr: Step size.
        corruption: Chance of an entry to be set to 0.
        seed: Where batches and corruption come from.
        run: The run that resumes and shows it.
        name: Begins the names of its trainings.

    Example:
        >>> net = MLP([4, 3, 2], activation="sigmoid", rng=torch.Generator().manual_seed(0))
        >>> trained = pretrain(net, torch.rand(50, 4), steps=2)
        >>> [len(one.history) for one in trained]
        [2, 2]
    """
    if not ((x >= 0) & (x <= 1)).all():
        raise refuse("pretrain", "x", "in [0, 1]", (float(x.min()), float(x.max())))
    seed, done = seed or (run or Run()).seed, []
    for number, layer in enumerate(encoder.layers, start=1):
        coder = DenoisingAutoencoder(layer, activation=encoder.activation, corruption=corruption)
        rows = torch.arange(x.shape[-2])  # fit takes rows of the first axis, which may be the nets
        done.append(fit(
            coder, rows, _Repair(x), Adam(coder.parameters(), lr=lr), steps=steps,
            batch_size=64, seed=seed.child(number), run=run, name=f"{name}-{number}",
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
        encoder: Where the weights come from.
        classifier: Where they go, an MLP or ParallelMLP; layers above keep their own.

    Example:
        >>> encoder, classifier = MLP([4, 3, 3]), MLP([4, 3, 3, 2])
        >>> started = transfer(encoder, classifier)
        >>> torch.equal(started.layers[1].weight, encoder.layers[1].weight)
        True
    """
    layers: Any = getattr(classifier, "layers", ())
    shapes = [[tuple(one.weight.shape) for one in some] for some in (encoder.layers, layers)]
    if shapes[0] != shapes[1][: len(shapes[0])]:
        domain = f"a network whose first layers have weights of shape {shapes[0]}"
        raise refuse("transfer", "classifier", domain, shapes[1])
    for source, target in zip(encoder.layers, layers, strict=False):
        target.load_state_dict(source.state_dict())
    return classifier


@claim(control={"exponent": "2π²σ"}, source="Mobahi and Fisher 2015; characteristic function")
def smoothing_closed_form(
    seed: Seed, *, sigma: Annotated[float, Range(0.05, 0.9)] = 0.3,
    dim: Annotated[int, Range(1, 4)] = 2, samples: Annotated[int, Range(1000, 200_000)] = 100_000,
    exponent: Literal["2π²σ²", "2π²σ"] = "2π²σ²",
) -> Evidence:
    r"""$E[h(x+\sigma\xi)]=\sum x_i^2+\sigma^2-10e^{-2\pi^2\sigma^2}\cos2\pi x_i+10$, Rastrigin."""
    rng = seed.torch()
    x = 5 * (2 * torch.rand(50, dim, generator=rng, dtype=torch.float64) - 1)
    cloud = smoothed(Rastrigin(dim), sigma, samples + samples % 2, rng)
    exact = smoothed(Rastrigin(dim), sigma)
    if exponent == "2π²σ":
        exact.fading = math.exp(-2 * math.pi**2 * sigma)  # type: ignore[assignment]
    pairs = torch.cat([cloud.pairs(some) for some in x.split(5)])  # type: ignore[operator]
    line = torch.linspace(-2, 2, 161, dtype=torch.float64)
    along = torch.cat([line[:, None], torch.zeros(len(line), dim - 1)], dim=1)
    few = smoothed(Rastrigin(dim), sigma, 2000, seed.child("picture").torch())
    return every({
        "mean over the cloud": estimates(
            pairs.mean(dim=1), exact.value(x), error=pairs.std(dim=1) / pairs.shape[1] ** 0.5, k=4,
            why="of the mean over independent pairs of opposite points",
        ).drawn(
            Series("h", line, Rastrigin(dim).value(along), "other"),
            Series("mean over 2,000 points", line[::4], few.value(along[::4])),
            Series("closed form", line, exact.value(along), "predicted"),
            x="x₁, the others 0", y="objective and its smoothing",
        ),
        "sampled value": identical(cloud.value(x[:5]), pairs[:5].mean(dim=1)),
        "smoothing twice": identical(
            smoothed(smoothed(Rastrigin(dim), 0.6 * sigma), 0.8 * sigma).value(x),
            smoothed(Rastrigin(dim), sigma).value(x),
        ),
    })


@claim(control={"sigma": 0.4}, source="Mobahi and Fisher 2015, by the second derivative")
def smoothing_convexifies(
    seed: Seed, *, sigma: Annotated[float, Range(0.3, 2)] = 0.52,
    grid: Annotated[int, Range(100, 10_000)] = 1000,
) -> Evidence:
    r"""Rastrigin's $h_\sigma$ is convex iff $\sigma\ge\sqrt{\ln(20\pi^2)/2\pi^2}\approx0.517$."""
    x = torch.linspace(0, 1, 2 * grid + 1, dtype=torch.float64)  # a period, with its middle
    low, high = 0.1, 2.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if float(_curvature(middle, x).min()) >= 0 else (middle, high)
    here = _curvature(sigma, x)
    drawn = [
        Series(f"σ = {one:g}", x, _curvature(one, x), "other", "line")
        for one in (0.4, 0.45, 0.5, 0.6)
    ]
    return every({
        "smallest second derivative": at_least(
            here.min(), 0, slack=1e-9, why="float64 rounding of derivatives of size 400"
        ).drawn(
            *drawn, Series(f"σ = {sigma:g}, by autograd", x[:: max(1, grid // 25)],
                           here[:: max(1, grid // 25)]),
            Series("convex above", [0, 1], [0, 0], "bound"), x="x", y="second derivative of h_σ",
        ),
        "where it becomes convex": equal(
            high, CONVEX, tol=1e-3, why="bisection to 1e-6; the grid holds the least convex point"
        ),
        "strong convexity": identical(
            here.min(), 2 - WAVE * math.exp(-2 * math.pi**2 * sigma**2)
        ),
    })


@claim(control={"sigmas": (0.0,)}, source="Mobahi and Fisher 2015")
def continuation_finds_the_global_minimum(
    seed: Seed, *, starts: Annotated[int, Range(100, 1000)] = 500,
    samples: Annotated[int, Range(200, 400)] = 256, sigmas: Sigmas = SIGMAS,
) -> Evidence:
    r"""Falling $\sigma$: the tracked minimum ends as the global one (of Rastrigin and Ackley)."""
    rng = seed.torch()
    start = 5 * (2 * torch.rand(starts, 2, generator=rng, dtype=torch.float64) - 1)
    exact = Continuation(Rastrigin(), sigmas)
    sampled = Continuation(
        Ackley(), sigmas, lr=lambda sigma: max(sigma, 0.02) / 2, steps=8,
        samples=samples + samples % 2, rng=rng,
    )
    parts = {}
    for name, method, share in (("Rastrigin", exact, 0.95), ("Ackley", sampled, 0.9)):
        path = torch.cat([start[None], method.minimize(start)])
        found = path[-1].abs().amax(dim=1) < 0.05
        some = path[:, :12].norm(dim=2)
        parts[name] = at_least(
            found.double().mean(), share, why="almost every start; plain descent has 1 or 2 in 100",
            detail=f"share of {starts} starts",
        ).drawn(
            *(Series(f"start {k + 1}", range(len(path)), some[:, k], "other", "line")
              for k in range(some.shape[1])),
            x="stage: 0 is the start, then the widths σ in their order",
            y="distance from the global minimum",
        )
    return every(parts)


@claim(control={"reached": 0.8}, source="Bengio, Louradour, Collobert and Weston 2009, sec. 3")
def curriculum_ends_uniform(
    seed: Seed, *, samples: Annotated[int, Range(20, 2000)] = 500,
    draws: Annotated[int, Range(50_000, 200_000)] = 100_000,
    start: Annotated[float, Range(0.05, 0.5)] = 0.15,
    reached: Annotated[float, Range(0.5, 1)] = 1.0,
) -> Evidence:
    r"""At full pace all samples are equally likely, so that the minimizer is that of the whole."""
    rng = seed.torch()
    X, d, y = (torch.randn(samples, n, generator=rng, dtype=torch.float64) for n in (3, 1, 1))
    y = y + d * X[:, :1]  # hard samples have another slope
    whole = torch.linalg.lstsq(X, y, driver="gelsd").solution
    kinds: dict[Literal["easiest", "soft"], Callable[[float], float]] = {
        "easiest": ramp(start), "soft": lambda p: 2 * start / (1 - p) if p < 1 else math.inf,
    }
    parts = {}
    for kind, pace in kinds.items():
        lesson = Curriculum(d[:, 0], pace, kind=kind)
        p = (reached - start) / (1 - start) if kind == "easiest" else reached
        counts = lesson.sample(draws, p, rng).bincount(minlength=samples)
        root = lesson.probabilities(p).sqrt()[:, None]
        ranks = torch.linspace(0, 1, 20, dtype=torch.float64)
        binned = torch.stack([one.double().mean() for one in counts[d[:, 0].argsort()].chunk(20)])
        parts[f"{kind}, chi-square"] = at_least(
            chisquare(counts.numpy()).pvalue, 1e-6, why="a correct sampler fails once in a million",
            detail=f"p-value of {draws} draws",
        ).drawn(
            Series("drawn", ranks[: len(binned)], binned * samples / draws, style="bars"),
            Series("uniform", [0, 1], [1, 1], "predicted"),
            x="difficulty, from the easiest twentieth to the hardest",
            y="draws over those of a uniform sampler",
        )
        parts[f"{kind}, minimizer"] = identical(
            torch.linalg.lstsq(root * X, root * y, driver="gelsd").solution, whole
        )
    return every(parts)


@claim(control={"difficulty": "random"}, source="Bengio et al. 2009; Wu, Dyer and Neyshabur 2021")
def curriculum_speeds_noisy_digits(
    seed: Seed, *, pairs: Annotated[int, Range(20, 40)] = 20,
    noise: Annotated[float, Range(1.2, 1.8)] = 1.5,
    target: Annotated[float, Range(0.8, 0.87)] = 0.85,
    difficulty: Literal["noise", "random"] = "noise",
) -> Evidence:
    r"""At one pacing, clean digits before noisy ones learn faster than random before random."""
    rng, (x, y, x_test, y_test) = seed.torch(), digits()
    levels = noise * torch.rand(pairs, len(x), generator=rng)
    shown = x.flatten(1) + levels[..., None] * torch.randn(pairs, len(x), 64, generator=rng)
    first, second = torch.rand(2, pairs, len(x), generator=rng)
    hard = torch.cat([levels if difficulty == "noise" else first, second])  # (2 pairs, N)
    arms = [Curriculum(one, ramp(0.15)) for one in hard.chunk(2)]
    dice = [seed.child("batches").torch() for _ in arms]  # samples of the same ranks for both
    net = ParallelMLP([64, 64, 64, 10], copies=pairs, rng=rng)
    nets = _joined(net, net)  # one start for both arms of a pair
    sgd = SGD(nets.parameters(), lr=0.1)
    row, steps, seen = torch.arange(pairs)[:, None], 750, []
    for step in range(steps):
        drawn = [arm.sample(32, step / steps, rng) for arm, rng in zip(arms, dice, strict=True)]
        inputs, labels = torch.cat([shown[row, one] for one in drawn]), y[torch.cat(drawn)]
        _learn(nets, sgd, inputs, labels)
        if (step + 1) % 10 == 0:
            seen.append(_accuracies(nets, x_test.flatten(1), y_test))
            if (torch.stack(seen).amax(dim=0) >= target).all():
                break
    curves, at = torch.stack(seen), 10 * torch.arange(1, len(seen) + 1)
    times = torch.where(curves.cummax(dim=0).values >= target, 0, 10).sum(dim=0) + 10.0
    ordered, random = times.view(2, pairs)
    gain = (random - ordered).double()
    error = float(gain.std()) / pairs**0.5
    both = curves.view(len(seen), 2, pairs).mean(dim=2)
    return at_least(
        gain.mean(), 3 * error, why="three standard errors of the mean of paired differences",
        detail=f"steps gained: {float(ordered.mean()):.0f} against {float(random.mean()):.0f}",
    ).drawn(
        Series(f"by {difficulty}", at, both[:, 0]), Series("random", at, both[:, 1], "other"),
        Series("target", [0, int(at[-1])], [target] * 2, "bound"),
        x="step", y="accuracy on clean digits, mean of the nets",
    )


@claim(
    control={"pretrain_steps": 0},
    source="Hinton, Osindero and Teh 2006; Vincent et al. 2010; Erhan et al. 2010",
)
def pretraining_opens_deep_sigmoid_nets(
    seed: Seed, *, depth: Annotated[int, Range(5, 8)] = 5,
    pretrain_steps: Annotated[int, Range(0, 200)] = 100,
    steps: Annotated[int, Range(200, 400)] = 400, copies: Annotated[int, Range(3, 6)] = 3,
) -> Evidence:
    r"""Greedy pretraining makes a deep sigmoid net learn where its random start stalls."""
    rng, (x, y, x_test, y_test) = seed.torch(), digits()
    encoder = ParallelMLP([64] * (depth + 1), copies=copies, activation="sigmoid", rng=rng)
    net = ParallelMLP([64] * (depth + 1) + [10], copies=copies, activation="sigmoid", rng=rng)
    plain = transfer(encoder, copy.deepcopy(net))
    if pretrain_steps:
        pretrain(encoder, x.flatten(1), steps=pretrain_steps, seed=seed.child("pretraining"))
    both = _joined(transfer(encoder, net), plain)
    adam, seen = Adam(both.parameters(), lr=3e-3), []
    for step in range(steps + 1):
        if step % 50 == 0:
            seen.append(_accuracies(both, x_test.flatten(1), y_test))
        rows = torch.randint(len(x), (64,), generator=rng)
        _learn(both, adam, x[rows].flatten(1), y[rows].expand(2 * copies, -1))
    pretrained, random = torch.stack(seen).view(-1, 2, copies).mean(dim=2).unbind(dim=1)
    at = 50 * torch.arange(len(seen))
    return at_least(
        pretrained[-1] - random[-1], 0.2, why="a gap, far beyond the spread of nets, 0.1",
        detail=f"mean accuracy {float(pretrained[-1]):.3f} against {float(random[-1]):.3f}",
    ).drawn(
        Series("pretrained", at, pretrained), Series("random start", at, random, "other", "line"),
        x="step of supervised training", y="test accuracy, mean of the nets",
    )


@experiment(
    reaches={"gain": at_least_goal(0.1)}, floor={"gain": at_least_goal(0.2)},
    source="Erhan et al. 2010, Why does unsupervised pre-training help deep learning?: the "
    "random start of the same net, after one epoch on 20,000 digits of MNIST",
)
def deep_sigmoid(
    run: Run, *, layers: Annotated[int, Range(3, 8)] = 6,
    width: Annotated[int, Range(32, 256)] = 64,
) -> None:
    """Starts deep sigmoid nets at random, by LeCun's rule, orthogonally, and from pretraining.

    Args:
        layers: Hidden layers.
        width: Units of each.
    """
    x, y, x_test, y_test = (one[:20_000] for one in handwriting(run))
    x, x_test = x.flatten(1), x_test.flatten(1)
    # epochs of fine-tuning, epochs of pretraining for each layer, step size
    tuning, before, lr = (1, 1, 1e-3) if run.full else (10, 3, 3e-3)
    later = layers * before  # the other starts train for as many steps in all
    reached, curves = {}, []
    for phi, start in ARMS:
        name, rng = f"{phi}-{start}", run.seed.child(phi).torch()
        sizes = [x.shape[1], *[width] * layers]
        encoder = MLP(sizes, activation=phi, rng=rng)
        net = MLP([*sizes, 10], activation=phi, rng=rng)
        if start == "pretrained":
            pretrain(
                encoder, x, steps=before * math.ceil(len(x) / 64),
                lr=0.01 if phi == "sigmoid" else 1e-3, seed=run.seed.child(f"{phi} layers"),
                run=run, name=f"{name}-layer",
            )
        transfer(encoder, net)  # without pretraining, the random start of all
        if start in ("lecun", "orthogonal"):
            _restart(net, start, rng)
        longer = later if phi == "sigmoid" and start != "pretrained" else 0
        history = fit(
            net, (x, y), Supervised(F.cross_entropy), Adam(net.parameters(), lr=lr),
            epochs=tuning + longer, batch_size=64, validation=(x_test, y_test),
            metrics={"accuracy": accuracy}, seed=run.seed.child("batches"), run=run, name=name,
        ).history
        scores = [row["validation_accuracy"] for row in history]
        reached[name] = scores[tuning - 1], scores[-1]
        if phi == "sigmoid":
            epochs = torch.arange(1, len(scores) + 1) + later - longer
            curves.append(Series(start, epochs, scores, "other", "line" if longer else "points"))
        if name == "sigmoid-pretrained":
            run.keep(net)
    (pretrained, _), (early, late) = reached["sigmoid-pretrained"], reached["sigmoid-random"]
    relu = reached["relu-pretrained"][0] - reached["relu-random"][0]
    run.record(gain=pretrained - early, gain_at_equal_steps=pretrained - late, relu_gain=relu)
    run.record(**{f"{name.replace('-', '_')}_accuracy": one for name, (one, _) in reached.items()})
    names = "epoch, those of pretraining counted", "test accuracy"
    run.figure("starts", figures.draw(Picture(tuple(curves), *names)))
    run.figure("continuation", _continuation_figure())


def _curvature(sigma: float, x: Tensor) -> Tensor:
    """Differentiate the smoothing of Rastrigin's function of one variable twice."""
    at = x[:, None].clone().requires_grad_()
    value = Rastrigin(1, sigma=sigma).value(at).sum()
    (slopes,) = torch.autograd.grad(value, at, create_graph=True)
    return torch.autograd.grad(slopes.sum(), at)[0][:, 0]


def _joined(first: nn.Module, second: nn.Module) -> nn.Module:
    """Put parallel nets beside parallel nets."""
    both = copy.deepcopy(first)
    for one, other in zip(both.parameters(), second.parameters(), strict=True):
        one.data = torch.cat([one.data, other.data])
    return both


def _learn(nets: nn.Module, optimizer: Optimizer, x: Tensor, labels: Tensor) -> None:
    """Take a step of all the parallel nets."""
    optimizer.zero_grad()
    F.cross_entropy(nets(x).mT, labels, reduction="none").mean(dim=1).sum().backward()
    optimizer.step()


@torch.no_grad()
def _accuracies(nets: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Measure the accuracy of each of the parallel nets."""
    return (nets(x).argmax(dim=-1) == y).double().mean(dim=-1)


def _restart(net: MLP, start: str, rng: torch.Generator) -> None:
    """Draw weights anew, with outputs of the size of the inputs, and no biases."""
    for layer in net.layers:
        nn.init.zeros_(layer.bias)
        if start == "lecun":
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5, generator=rng)
        else:
            nn.init.orthogonal_(layer.weight, generator=rng)


def _continuation_figure() -> go.Figure:
    """Draw Rastrigin's function, its smoothings, and the minimum that is tracked through them."""
    sigmas = (0.6, 0.45, 0.35, 0.25, 0.15, 0.0)
    start = torch.full((1, 1), 3.3, dtype=torch.float64)
    path = torch.cat([start[None], Continuation(Rastrigin(1), sigmas, steps=200).minimize(start)])
    x = torch.linspace(-4, 4, 401, dtype=torch.float64)
    curves = [
        Series("h" if sigma == 0 else f"σ = {sigma:g}", x,
               Rastrigin(1, sigma=sigma).value(x[:, None]), "predicted" if sigma == 0 else "other")
        for sigma in sigmas
    ]
    heights = [
        float(Rastrigin(1, sigma=sigma).value(one))
        for sigma, one in zip((sigmas[0], *sigmas), path[:, 0], strict=True)
    ]
    tracked = Series("tracked minimum", path.flatten(), heights, style="points")
    return figures.draw(Picture((*curves, tracked), "x", "objective and its smoothings"))

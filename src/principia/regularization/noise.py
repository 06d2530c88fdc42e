r"""Noise on inputs, weights, targets: what a perturbation does to the loss that is descended.

Add Gaussian noise to whatever enters the loss, new at every step, and descent follows the mean
over the noise. The mean of a curve over a small cloud is the curve plus half the variance times its
curvature: noise is a penalty. On inputs it charges for steep and bent functions, for a linear model
it is exactly ridge regression; on weights it charges for the curvature of the loss, so that a net
drifts along its valley of minima to where it is flat; on the targets of a regression it charges
nothing. Flipped labels are smoothed labels, $\varepsilon/(K-1)$ for each wrong class.

$$ E\Vert y-(X+\sigma\Xi)w\Vert^2 = \Vert y-Xw\Vert^2+s\sigma^2\Vert w\Vert^2 $$

$$ E\big(f(x+\sigma\xi)-y\big)^2 = (f-y)^2+\sigma^2\big(\Vert\nabla f\Vert^2+(f-y)\Delta f\big)
+O(\sigma^4) $$

$$ E\,L(w+\sigma\xi) = L(w)+\frac{\sigma^2}2\mathrm{tr}\,H(w)+O(\sigma^4), \quad
e_y \mapsto (1-\varepsilon)e_y+\frac\varepsilon{K-1}(1-e_y) $$

Symbols:
    $\xi, \Xi$: standard Gaussian noise, a vector and a matrix; $\sigma$ its size, `sigma`
    $X, y, s$: samples, their targets and their number
    $f, \Delta f$: a function of the input and its Laplacian, both in `tikhonov_penalty`
    $L, H$: loss as a function of the weights $w$ and its Hessian; `WeightNoise` moves $w$
    $\varepsilon, K$: probability that a label is flipped and number of classes, `eps`, `classes`

References:
    Bishop (1995), Training with noise is equivalent to Tikhonov regularization. Neural Computation
        7(1). doi:10.1162/neco.1995.7.1.108
    An (1996), The effects of adding noise during backpropagation training on a generalization
        performance. Neural Computation 8(3). doi:10.1162/neco.1996.8.3.643
    Webb (1994), Functional approximation by feed-forward networks: a least-squares approach to
        generalization. IEEE Transactions on Neural Networks 5(3).
    Murray and Edwards (1994), Enhanced MLP performance and fault tolerance resulting from synaptic
        weight noise during training. IEEE Transactions on Neural Networks 5(5).
        doi:10.1109/72.317730
    Hutchinson (1990), A stochastic estimator of the trace of the influence matrix for Laplacian
        smoothing splines. Communications in Statistics 19(2). doi:10.1080/03610919008812866
    Orvieto, Raj, Kersting and Bach (2023), Explicit regularization in overparametrized models via
        noise injection. Artificial Intelligence and Statistics. arXiv:2206.04613
    Goodfellow, Bengio and Courville (2016), Deep learning, sec. 7.5. MIT Press.
"""

__all__ = [
    "GaussianNoise", "InputNoise", "WeightNoise", "NoisyWeights", "noisy_targets", "flip_labels",
    "tikhonov_penalty",
]

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Annotated, Any, Literal, final

import numpy as np
import plotly.graph_objects as go
import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn
from torch.autograd import grad
from torch.autograd.functional import hessian
from torch.func import vmap
from torch.nn import functional as F
from torch.optim import SGD, Adam, Optimizer

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.data.synthetic import sine
from principia.lab.domains import Count, NonNegative, Range
from principia.lab.draws import randn
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, experiment
from principia.lab.knobs import checked
from principia.lab.pairs import Paired, paired
from principia.lab.relations import at_most, equal, estimates, every, identical, never, slope
from principia.lab.seeds import Seed
from principia.lab.training import Objective, OneCycle, Part, Supervised, accuracy, fit, part
from principia.lab.training.dice import own_dice
from principia.lab.training.metrics import evaluate, outputs_of
from principia.networks.mlp import MLP
from principia.optimization.problems import Problem, ScalarNet
from principia.regression.ridge import ridge_path

Batch = tuple[Tensor, ...]
Rate = Annotated[float, Range(0, 1, open="high")]
Classes = Annotated[int, Range(2)]
COPIES = 10_000  # of the data, each with noise of its own
PAIRED_DRAWS = 4000  # of weights, each with its mirror image
Arm = tuple[str, float]  # of the experiment: what is disturbed, and σ
NONE: Arm = ("none", 0.0)
INPUTS: tuple[Arm, ...] = tuple(("inputs", sigma) for sigma in (0.05, 0.1, 0.2, 0.4))
WEIGHTS: tuple[Arm, ...] = tuple(("weights", sigma) for sigma in (0.003, 0.01, 0.03))
NODES = 40  # of a Gauss-Hermite rule: exact to rounding for functions as smooth as these


@final
class GaussianNoise(nn.Module):
    r"""Adds Gaussian noise to its input while it is trained, and nothing when it is evaluated.

    It draws from torch's global generator, as dropout does: `fit` seeds that, and saves its state.

    Args:
        sigma: Standard deviation of the noise.

    Example:
        >>> layer = GaussianNoise(0.1)
        >>> with torch.random.fork_rng([]):
        ...     rng = torch.manual_seed(0)
        ...     layer(torch.zeros(3)), layer.eval()(torch.zeros(3))
        (tensor([ 0.1541, -0.0293, -0.2179]), tensor([0., 0., 0.]))
    """

    @checked
    def __init__(self, sigma: NonNegative) -> None:
        super().__init__()
        self.sigma = sigma

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Add noise in training mode."""
        return _perturbed("GaussianNoise", "x", x, self.sigma, None) if self.training else x


@final
class InputNoise(Part):
    """Adds Gaussian noise to the inputs of every batch, new each time they are shown.

    Args:
        sigma: Standard deviation of the noise.

    Example:
        >>> part, rng = InputNoise(0.1), torch.Generator().manual_seed(0)
        >>> part.prepare((torch.zeros(3), torch.arange(3)), rng)
        (tensor([ 0.1541, -0.0293, -0.2179]), tensor([0, 1, 2]))
    """

    @checked
    def __init__(self, sigma: NonNegative) -> None:
        self.sigma = sigma

    def prepare(self, batch: Batch, rng: torch.Generator) -> Batch:
        """Add noise to the first tensor of the batch."""
        return _perturbed("InputNoise", "batch[0]", batch[0], self.sigma, rng), *batch[1:]


@final
class WeightNoise(AbstractContextManager["WeightNoise"]):
    """Perturbs the trainable weights of a model, and restores them to the bit.

    Loss and backward belong inside: the gradient is then that of the perturbed weights. A backward
    pass outside would mix both, which torch notices.

    Args:
        model: Whose weights are perturbed, in place.
        sigma: Standard deviation of the noise on every weight.
        rng: Where the draws come from; torch's global generator by default.

    Example:
        >>> line = nn.Linear(1, 1, bias=False)
        >>> before = line.weight.item()
        >>> with WeightNoise(line, 0.1):
        ...     moved = line.weight.item() != before
        >>> moved, line.weight.item() == before
        (True, True)
    """

    @checked
    def __init__(
        self, model: nn.Module, sigma: NonNegative, rng: torch.Generator | None = None
    ) -> None:
        self.model, self.sigma, self.rng = model, sigma, rng
        self._before: list[list[tuple[nn.Parameter, Tensor]]] = []  # one list for each entry

    @torch.no_grad()
    def __enter__(self) -> "WeightNoise":
        """Move every trainable weight."""
        moved = [one for one in self.model.parameters() if one.requires_grad]
        self._before.append([(one, one.detach().clone()) for one in moved])
        for one in moved:
            one.copy_(_perturbed("WeightNoise", "weights", one, self.sigma, self.rng))
        return self

    @torch.no_grad()
    def __exit__(self, *exception: object) -> None:
        """Put every weight back."""
        for one, before in self._before.pop():
            one.copy_(before)


@final
class NoisyWeights(Part):
    """Computes every loss and its gradient at perturbed weights; the step is made from the others.

    Each evaluation of the loss has a noise of its own, also with optimizers that ask for several a
    step. It belongs before parts that look at weights and gradients together.

    Args:
        sigma: Standard deviation of the noise on every weight.

    Example:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> x, sgd = torch.ones(4, 1), SGD(model.parameters(), lr=0.5)
        >>> trained = fit(model, (x, 3 * x), Supervised(F.mse_loss), sgd, parts=[NoisyWeights(0.1)])
    """

    wraps_last = True  # what other parts compute before the loss must be of these weights, too

    @checked
    def __init__(self, sigma: NonNegative) -> None:
        self.sigma = sigma
        self._noise = ExitStack()  # what is to be undone before the step

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        """Take the model; an objective may be handed something else in its place."""
        self._model = model

    def wrap(self, objective: Objective) -> Objective:
        """Perturb the weights before the loss is computed, and leave them so for its gradient."""

        def noisy(model: Any, batch: Batch, rng: torch.Generator, /) -> Tensor:
            self._noise.enter_context(WeightNoise(self._model, self.sigma, rng))
            return objective(model, batch, rng)

        return noisy

    def before_step(self, model: nn.Module) -> None:
        """Restore the weights: the gradients have been computed."""
        self._noise.close()

    def abandon(self, model: nn.Module) -> None:
        """Restore the weights: there will be no step."""
        self.before_step(model)


@checked
def noisy_targets(
    y: Float[Tensor, "*shape"], sigma: NonNegative, rng: torch.Generator | None = None
) -> Float[Tensor, "*shape"]:
    """Adds Gaussian noise to the targets of a regression.

    Args:
        y: Targets.
        sigma: Standard deviation of the noise.
        rng: Where the draws come from; torch's global generator by default.

    Example:
        >>> noisy_targets(torch.zeros(3), 0.1, torch.Generator().manual_seed(0))
        tensor([ 0.1541, -0.0293, -0.2179])
    """
    return _perturbed("noisy_targets", "y", y, sigma, rng, "Classes are flipped by flip_labels.")


@checked
def flip_labels(
    y: Integer[Tensor, "*shape"], eps: Rate, classes: Classes, rng: torch.Generator | None = None
) -> Integer[Tensor, "*shape"]:
    r"""Replaces each label with probability eps by one of the other classes, all equally likely.

    The same generator flips more labels for a larger eps, never others instead.

    Args:
        y: Labels from 0 to K - 1.
        eps: Probability $\varepsilon$ of a flip.
        classes: Number K of classes.
        rng: Where the draws come from; torch's global generator by default.

    Example:
        >>> flip_labels(torch.tensor([0, 1, 2, 0, 1, 2]), 0.5, 3, torch.Generator().manual_seed(0))
        tensor([2, 1, 1, 2, 0, 2])
    """
    if y.numel() and not (y.min() >= 0 and y.max() < classes):
        got = f"labels from {int(y.min())} to {int(y.max())}"
        raise refuse("flip_labels", "y", f"integers in [0, {classes - 1}]", got)
    where = y.device if rng is None else rng.device
    flipped = torch.rand(y.shape, generator=rng, device=where) < eps
    others = torch.randint(1, classes, y.shape, generator=rng, device=where)
    return ((y + (flipped * others).to(y.device)) % classes).to(y)  # uint8 would overflow before it


@checked
def tikhonov_penalty(
    f: Callable[[Tensor], Tensor], x: Float[Tensor, "B D"], y: Float[Tensor, " B"],
    sigma: NonNegative, *, probes: Count | None = None, rng: torch.Generator | None = None,
) -> Float[Tensor, " B"]:
    r"""Computes $\sigma^2(\Vert\nabla f\Vert^2+(f-y)\Delta f)$, what small input noise charges.

    It can be differentiated again, by the weights of f, and so be trained with.

    Args:
        f: From inputs (B, D) to one number a row, each from its own row.
        x: Inputs.
        y: Targets.
        sigma: Standard deviation of the noise that is replaced.
        probes: How many random signs estimate the Laplacian (Hutchinson); none computes it exactly
            from D products with the Hessian.
        rng: Where the signs come from; torch's global generator by default.

    Example:
        >>> x = torch.tensor([[1.0, 2.0]])
        >>> tikhonov_penalty(lambda x: (x**2).sum(dim=1), x, torch.tensor([4.0]), 1.0)  # 20 + 1 * 4
        tensor([24.], grad_fn=<MulBackward0>)
    """
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        value = f(x)
        if value.shape != y.shape:
            domain, got = f"a function with one number a row, {tuple(y.shape)}", tuple(value.shape)
            raise refuse("tikhonov_penalty", "f", domain, got, "Sum or squeeze its outputs.")
        (slopes,) = grad(value.sum(), x, create_graph=True)
        laplacian = torch.zeros_like(value)
        if slopes.requires_grad:  # not of a linear function
            B, D = x.shape
            directions = torch.eye(D, dtype=x.dtype, device=x.device)[:, None].expand(D, B, D)
            if probes is not None:
                where = x.device if rng is None else rng.device
                signs = torch.randint(0, 2, (probes, B, D), generator=rng, device=where).to(x)
                directions = (2 * signs - 1) / math.sqrt(probes)
            (products,) = grad(
                slopes, x, directions, create_graph=True, is_grads_batched=True,
                materialize_grads=True,
            )
            laplacian = (directions * products).sum(dim=(0, 2))
        return sigma**2 * (slopes.square().sum(dim=1) + (value - y) * laplacian)


NOISES = {"none": InputNoise, "inputs": InputNoise, "weights": NoisyWeights}


@part()
def input_noise(run: Run, *, sigma: NonNegative = 0.1) -> Part:
    """Adds Gaussian noise to the inputs of every batch.

    Args:
        sigma: Standard deviation of the noise on inputs.
    """
    return InputNoise(sigma)


@part()
def weight_noise(run: Run, *, sigma: NonNegative = 0.01) -> Part:
    """Computes every gradient at randomly perturbed weights.

    Args:
        sigma: Standard deviation of the noise on weights.
    """
    return NoisyWeights(sigma)


@claim(control={"price": "σ²"}, source="Bishop 1995; Webb 1994")
def input_noise_is_ridge(
    seed: Seed, *, samples: Annotated[int, Range(10, 100)] = 40,
    dim: Annotated[int, Range(1, 8)] = 5, sigma: Annotated[float, Range(0.1, 2)] = 0.5,
    price: Literal["s σ²", "σ²"] = "s σ²",
) -> Evidence:
    r"""Linear: $E\Vert y-(X+\sigma\Xi)w\Vert^2=\Vert y-Xw\Vert^2+s\sigma^2\Vert w\Vert^2$."""
    rng = seed.torch()
    X, w = randn(rng, samples, dim), randn(rng, dim)
    y = X @ w + 0.3 * randn(rng, samples)
    charge = sigma**2 * (samples if price == "s σ²" else 1)
    ridge = ridge_path(X, y, torch.tensor([charge]))[0]

    layer, clean = GaussianNoise(sigma), X.expand(COPIES // 2, -1, -1)
    with own_dice(seed, X.device):
        drawn = layer(clean)
    noisy = torch.cat([drawn, InputNoise(sigma).prepare((clean, y), rng)[0]])
    gram = (noisy.mT @ noisy).mean(dim=0)
    found = torch.linalg.solve(gram, (noisy.mT @ y).mean(dim=0))
    steps = torch.linalg.solve(gram, (noisy.mT @ (y - noisy @ ridge)[..., None])[..., 0].mT)

    W = torch.stack([w, ridge, *randn(rng, 3, dim)], dim=1)  # (d, 5)
    moved = X + sigma * _cubature(samples * dim).view(-1, samples, dim)
    expected = (y[:, None] - moved @ W).square().sum(dim=1).mean(dim=0)
    penalized = (y[:, None] - X @ W).square().sum(dim=0) + charge * W.square().sum(dim=0)
    error = steps.std(dim=1) / COPIES**0.5
    axis = range(1, dim + 1)
    return every({
        "minimizer over noisy copies": estimates(
            found, ridge, error=error, k=4, why="a root of the mean of independent gradients",
        ).drawn(
            Series("least squares on noisy copies", axis, found, error=4 * error, style="points"),
            Series(f"ridge, {price}", axis, ridge, "predicted", "points"),
            Series("least squares without noise", axis, ridge_path(X, y, torch.zeros(1))[0],
                   "other", "points"),
            x="coordinate", y="weight",
        ),
        "expectation": identical(
            expected, penalized, why="float64 rounding: the cubature is exact for quadratics"
        ),
        "no noise when evaluated": identical(layer.eval()(X), X),
    })


@claim(control={"penalty": "gradient"}, source="Bishop 1995, for finite data; Taylor's formula")
def input_noise_second_order(
    seed: Seed, *, dim: Annotated[int, Range(1, 20)] = 5,
    steepness: Annotated[float, Range(0.3, 3)] = 1.0,
    largest: Annotated[float, Range(0.05, 0.15)] = 0.1,
    penalty: Literal["both terms", "gradient"] = "both terms",
) -> Evidence:
    r"""$E(f(x+\sigma\xi)-y)^2$ is $(f-y)^2$ and `tikhonov_penalty`, up to $O(\sigma^4)$."""
    rng, points, probes = seed.torch(), 64, 2000
    a, x, y = randn(rng, dim), randn(rng, points, dim), randn(rng, points)
    a *= steepness / a.norm()

    def f(x: Tensor) -> Tensor:
        return torch.tanh(x @ a)

    nodes, weights = _hermite()
    sigmas = largest / steepness * torch.logspace(-1, 0, 8, dtype=torch.float64)
    around = (x @ a)[:, None] + steepness * sigmas[:, None, None] * nodes  # a.ξ is |a| N(0, 1)
    noisy = (torch.tanh(around) - y[:, None]).square() @ weights  # (sigmas, points)
    first, second = 1 - f(x) ** 2, -2 * f(x) * (1 - f(x) ** 2)  # derivatives of tanh
    charged = torch.stack([
        tikhonov_penalty(f, x, y, float(one)) if penalty == "both terms"
        else (one * steepness * first) ** 2 for one in sigmas
    ])
    left = (noisy - (f(x) - y) ** 2 - charged).square().mean(dim=1).sqrt()
    signs = tikhonov_penalty(f, x, y, 1.0, probes=probes, rng=rng)
    exact = (steepness * first) ** 2 + (f(x) - y) * second * steepness**2
    spread = (2 * (steepness**4 - a.pow(4).sum()).clamp_min(0) / probes).sqrt()
    return every({
        "order of what is left": slope(
            sigmas, left, 4, tol=0.2, why="the term of sixth order bends the line by 1 or 2 %",
            labels=("σ", "root mean square of what the penalty leaves"),
        ),
        "Laplacian by random signs": estimates(
            signs, exact, error=((f(x) - y) * second).abs() * spread, k=5, bias=1e-12,
            why="mean over the signs, whose variance is known; rounding",
        ),
    })


@claim(control={"coefficient": "1"}, source="An 1996; Taylor's formula")
def weight_noise_penalizes_curvature(
    seed: Seed, *, units: Annotated[int, Range(1, 20)] = 5,
    sigma: Annotated[float, Range(0.01, 0.1)] = 0.05,
    coefficient: Literal["1/2", "1"] = "1/2",
) -> Evidence:
    r"""$E\,L(w+\sigma\xi)=L(w)+\frac{\sigma^2}2\mathrm{tr}H(w)+O(\sigma^4)$."""
    rng, share = seed.torch(), 0.5 if coefficient == "1/2" else 1.0
    net = _TanhNet(randn(rng, 1, 2 * units), rng)
    start, charge = net.theta.detach().clone(), share * _curvature(net)
    cloud = net.at(start.expand(PAIRED_DRAWS, -1))
    with WeightNoise(cloud, sigma, rng):
        moves = cloud.theta.detach() - start

    def excess(times: float) -> Tensor:
        mirrored = torch.stack([start + times * moves, start - times * moves])
        return net.value(mirrored).mean(dim=0) - net.value(start)

    one, two = excess(1), excess(2)
    next_term = (two.mean() - 4 * one.mean()).abs() / 12  # one is a σ² + b σ⁴, two 4 a σ² + 16 b σ⁴

    pair = _TanhNet(randn(rng, 1, 2), rng)
    nodes, weights = _hermite()
    grid, mass = torch.cartesian_prod(nodes, nodes), torch.outer(weights, weights).flatten()
    sigmas = torch.logspace(-2.3, -1.3, 8, dtype=torch.float64)
    heights = pair.value(pair.theta.detach() + sigmas[:, None, None] * grid) @ mass
    left = heights - pair.value(pair.theta.detach()) - share * sigmas**2 * _curvature(pair)
    return every({
        "order of what is left": slope(
            sigmas, left.abs(), 4, tol=0.2, why="the term of sixth order bends the line a little",
            labels=("σ", "mean loss - loss - penalty, two weights"),
        ),
        "cloud of weights": estimates(
            one.mean(), sigma**2 * charge, error=one.std() / PAIRED_DRAWS**0.5, k=4,
            bias=2 * next_term, why="pairs of mirrored draws; the next term, by doubling the noise",
        ),
        "restored to the bit": never(cloud.theta != start, why="the very numbers are put back"),
    })


@claim(control={"noise": "none"}, source="An 1996; Orvieto, Raj, Kersting and Bach 2023")
def weight_noise_flattens(
    seed: Seed, *, sigma: Annotated[float, Range(0.22, 0.3)] = 0.25,
    steps: Annotated[int, Range(800, 3000)] = 800, runs: Annotated[int, Range(50, 1000)] = 200,
    noise: Literal["weights", "none"] = "weights",
) -> Evidence:
    r"""On $\frac12(uv-1)^2$ from (6, 1/6), weight noise ends at $\lambda_{\max}\le4$, from 36."""
    lr, rng = 0.03, seed.torch()
    net = ScalarNet().at(torch.tensor([[6.0, 1 / 6]]).expand(runs, 2))
    disturb, sgd = NoisyWeights(sigma if noise == "weights" else 0.0), SGD(net.parameters(), lr=lr)
    disturb.begin(net, {}, steps)
    objective = disturb.wrap(lambda model, batch, rng: model().sum())
    at, seen = [steps * k // 40 for k in range(41)], []
    for step in range(steps + 1):
        if step in at:
            seen.append(_sharpness(net.theta.detach()).mean())
        sgd.zero_grad()
        objective(net, (), rng).backward()
        disturb.before_step(net)
        sgd.step()
    sharpness = torch.stack(seen)
    # the flow of the penalized loss shrinks u² - v² at the rate 2 σ², along uv = 1
    apart = (6**2 - 6**-2) * torch.exp(-2 * sigma**2 * lr * torch.tensor(at).double())
    return at_most(sharpness[-1], 4.0, why="the statement").drawn(
        Series("largest curvature, mean over runs", at, sharpness, style="line"),
        Series("flow with penalty σ² tr H / 2", at, (apart**2 + 4).sqrt(), "predicted", "line"),
        Series("flattest minimum", [0, steps], [2.0, 2.0], "bound"),
        x="step", y="largest eigenvalue of H", log="y",
    )


@claim(control={"law": "mean 0.3"}, source="An 1996: noise on outputs only adds a constant")
def target_noise_keeps_the_mean(
    seed: Seed, *, samples: Annotated[int, Range(10, 200)] = 40,
    dim: Annotated[int, Range(1, 8)] = 4, sigma: Annotated[float, Range(0.1, 3)] = 1.0,
    law: Literal["mean 0", "mean 0.3"] = "mean 0",
) -> Evidence:
    r"""Noise on the targets: the mean squared loss rises by $\sigma^2$, its minimizer stays."""
    rng, draws = seed.torch(), 2000
    X = torch.cat([torch.ones(samples, 1), randn(rng, samples, dim)], dim=1)
    w = randn(rng, dim + 1)
    y = X @ w + 0.3 * randn(rng, samples)
    shifted = y + (0.3 if law == "mean 0.3" else 0.0)
    noisy = noisy_targets(shifted.expand(draws, -1), sigma, rng)
    inverse = torch.linalg.pinv(X)  # (d + 1, s)
    exact, fits = inverse @ y, noisy @ inverse.mT
    left = y - X @ w
    losses = (noisy - X @ w).square().mean(dim=1)
    all_targets = shifted + sigma * _cubature(samples)
    expected = (all_targets - X @ w).square().mean()
    axis = range(dim + 1)
    error = sigma * inverse.norm(dim=1) / draws**0.5
    return every({
        "minimizer": estimates(
            fits.mean(dim=0), exact, error=error, k=4, why="mean of least-squares fits",
        ).drawn(
            Series("mean fit to noisy targets", axis, fits.mean(dim=0), error=4 * error,
                   style="points"),
            Series("fit to the targets", axis, exact, "predicted", "points"),
            *(Series("one fit", axis, one, "other", "points") for one in fits[:5]),
            x="coordinate (0 is the intercept)", y="weight",
        ),
        "loss": estimates(
            losses.mean(), left.square().mean() + sigma**2, k=4, error=(
                (4 * sigma**2 * left.square().mean() + 2 * sigma**4) / (samples * draws)
            ).sqrt(), why="mean loss at fixed weights, whose variance is known",
        ),
        "expected loss": identical(
            expected, left.square().mean() + sigma**2,
            why="float64 rounding: the cubature is exact for quadratics",
        ),
    })


@claim(control={"share": "ε / K"}, source="Goodfellow, Bengio and Courville 2016, sec. 7.5.1")
def label_flips_are_smoothing(
    seed: Seed, *, classes: Annotated[int, Range(2, 6)] = 4,
    eps: Annotated[float, Range(0.02, 0.9)] = 0.2,
    share: Literal["ε / (K - 1)", "ε / K"] = "ε / (K - 1)",
) -> Evidence:
    r"""The mean gradient of flips is that of $(1-\varepsilon)e_y+\frac\varepsilon{K-1}(1-e_y)$."""
    rng, samples, flips, K = seed.torch(), 4, 40_000, classes
    X, W = randn(rng, samples, 3), randn(rng, 3, K)
    y = torch.randint(0, K, (samples,), generator=rng)
    every_labeling = torch.cartesian_prod(*[torch.arange(K)] * samples)  # (K^samples, samples)
    chances = torch.where(every_labeling == y, 1 - eps, X.new_tensor(eps / (K - 1))).prod(dim=1)

    def gradient(labels: Tensor) -> Tensor:
        """Differentiate the mean cross-entropy by W; labels may be soft."""
        return torch.func.grad(lambda W: F.cross_entropy(X @ W, labels))(W)

    averaged = torch.einsum("c,cdk->dk", chances, vmap(gradient)(every_labeling))
    one_hot = torch.eye(K, dtype=W.dtype)
    wrong = eps / (K - 1) * (1 - one_hot) if share == "ε / (K - 1)" else eps / K
    targets = (1 - eps) * one_hot + wrong
    labels = torch.arange(K).repeat_interleave(flips)
    found = F.one_hot(flip_labels(labels, eps, K, rng), K).view(K, flips, K).double().mean(dim=1)
    return every({
        "gradient": equal(averaged, gradient(targets[y]), tol=1e-12, why="float64 rounding").drawn(
            Series("labels of class 0 after flips", range(K), found[0], style="bars"),
            Series(f"soft target, {share}", range(K), targets[0], "predicted", "points"),
            x="label", y="share",
        ),
        "frequencies": estimates(
            found, targets, error=(targets * (1 - targets) / flips).sqrt(), k=5,
            why="shares of independent flips",
        ),
    })


@experiment(
    reaches={"gain_in_errors": at_least_goal(2.0)}, floor={"gain": at_least_goal(0.0)},
    source="Bishop (1995): noise is a regularizer; to beat is the same network without noise, by "
    "two standard errors over five pairs; σ is chosen on validation data",
)
def noise_sweep(
    run: Run, *, pairs: Annotated[int, Range(2, 20)] = 5,
    hidden: Annotated[int, Range(8, 1000)] = 128, epochs: Annotated[int, Range(1, 200)] = 30,
) -> None:
    """Trains a network on few pictures with noise of many sizes on its inputs or its weights."""
    if run.full:
        (x, y), test = (fashion(split, data_dir=run.data_dir) for split in ("train", "test"))
        shown, judged, batch, arms = 2000, 5000, 100, (NONE, *INPUTS, *WEIGHTS)
    else:
        x, y, *test = digits()
        shown, judged, batch, arms = 300, 1000, 50, (NONE, *INPUTS[1:3], *WEIGHTS[1:])
        pairs = min(pairs, 3)
    x, test = x.flatten(1), (test[0].flatten(1), test[1])
    models: dict[Arm, list[MLP]] = {arm: [] for arm in arms}
    scores: dict[Arm, list[list[float]]] = {arm: [] for arm in arms}
    for number in range(pairs):
        own = run.seed.child(f"pair {number}")
        order = torch.randperm(len(x), generator=own.child("data").torch())
        train, held = order[:shown], order[shown : shown + judged]
        for kind, sigma in arms:
            model = MLP([x.shape[1], hidden, hidden, 10], rng=own.child("init").torch())
            fit(
                model, (x[train], y[train]), Supervised(F.cross_entropy),
                Adam(model.parameters()), epochs=epochs, batch_size=batch,
                parts=[NOISES[kind](sigma), OneCycle(0.01)], seed=own, run=run,
                name=f"{kind}-{sigma}-{number}",
            )
            models[kind, sigma].append(model)
            scores[kind, sigma].append([
                evaluate(model, data, {"accuracy": accuracy})["accuracy"]
                for data in ((x[held], y[held]), test)
            ])
    validated, tested = (
        {arm: torch.tensor(found, dtype=torch.float64)[:, of] for arm, found in scores.items()}
        for of in (0, 1)
    )
    gains = {arm: paired(tested[arm], tested[NONE]) for arm in arms}
    best, best_weights = (
        max((arm for arm in arms if arm[0] == kind), key=lambda arm: float(validated[arm].mean()))
        for kind in ("inputs", "weights")
    )
    run.record(accuracy=float(tested[best].mean()), accuracy_without=float(tested[NONE].mean()))
    run.record(sigma=best[1], **gains[best].metrics("gain"))
    run.record(weight_sigma=best_weights[1], **gains[best_weights].metrics("weight_gain"))
    run.figure("pairs", gains[best].figure("test accuracy", ("without", "with input noise")))
    run.figure("sweep", _sweep(gains))
    run.figure("functions", _functions(run))
    run.keep(models[best][0])


def _sweep(gains: Mapping[Arm, Paired]) -> go.Figure:
    """Draw what noise of each size gains, with 95 % intervals."""
    series = []
    for kind in ("inputs", "weights"):
        found = {arm[1]: one for arm, one in gains.items() if arm[0] == kind}
        means = [one.mean for one in found.values()]
        halves = [one.high - one.mean for one in found.values()]
        series.append(Series(f"noise on {kind}", list(found), means, "other", "line", halves))
    return figures.draw(Picture(tuple(series), "σ", "gain of test accuracy", log="x"))


def _functions(run: Run) -> go.Figure:
    """Fit a function of one variable with ever more noise on it, and draw what is learned."""
    x, y = sine(run.seed.child("sine").torch(), 20, noise=0.3)
    at = torch.linspace(-1, 1, 201)[:, None]
    series, sigma = [Series("data", x[:, 0], y, "measured", "points")], 0.0
    for sigma in (0.0, 0.05, 0.15, 0.4):
        model = MLP([1, 64, 64, 1], activation="tanh", rng=run.seed.child("1-D").torch())
        fit(
            model, (x, y[:, None]), Supervised(F.mse_loss), Adam(model.parameters()),
            steps=2000 if run.full else 300, batch_size=len(x),
            parts=[InputNoise(sigma), OneCycle(0.01)], seed=run.seed.child("1-D"), run=run,
            name=f"function-{sigma}",
        )
        curve = outputs_of(model.cpu(), at)[:, 0]
        series.append(Series(f"σ = {sigma:g}", at[:, 0], curve, "other", "line"))
    # of all functions, the mean of the targets near by has the least loss under this noise
    near = torch.softmax(-((at - x[:, 0]) ** 2) / (2 * sigma**2), dim=1)
    series.append(Series(f"least loss at σ = {sigma:g}", at[:, 0], near @ y, "predicted", "line"))
    return figures.draw(Picture(tuple(series), "x", "y"))


@final
class _TanhNet(Problem):
    """The squared error of v.tanh(u x) on eight points; theta is u, then v."""

    def __init__(self, start: Tensor, rng: torch.Generator) -> None:
        super().__init__(start)
        self.x, self.y = randn(rng, 2, 8)

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        u, v = theta.chunk(2, dim=-1)
        outputs = (v[..., None] * torch.tanh(u[..., None] * self.x)).sum(dim=-2)
        return (outputs - self.y).square().mean(dim=-1) / 2


def _curvature(net: Problem) -> Tensor:
    """Compute the trace of the Hessian at the first point."""
    return hessian(net.value, net.theta.detach()[0]).trace()  # type: ignore[union-attr]


def _sharpness(theta: Tensor) -> Tensor:
    """Compute the largest eigenvalue of the Hessian of (uv - 1)²/2."""
    u, v = theta.unbind(dim=-1)
    return (u**2 + v**2) / 2 + torch.hypot((u**2 - v**2) / 2, 2 * u * v - 1)


def _cubature(n: int) -> Tensor:
    """Give 2n points (2n, n) over which the mean of a cubic is that over a standard Gaussian."""
    axes = math.sqrt(n) * torch.eye(n, dtype=torch.float64)
    return torch.cat([axes, -axes])


def _hermite() -> tuple[Tensor, Tensor]:
    """Give nodes and weights for means over a standard Gaussian."""
    nodes, weights = map(torch.from_numpy, np.polynomial.hermite_e.hermegauss(NODES))
    return nodes, weights / weights.sum()


def _perturbed(
    owner: str, name: str, x: Tensor, sigma: float, rng: torch.Generator | None, hint: str = ""
) -> Tensor:
    """Add Gaussian noise, drawn where the generator is."""
    if not x.is_floating_point():
        raise refuse(owner, name, "floating point", str(x.dtype), hint)
    where = x.device if rng is None else rng.device
    noise = torch.randn(x.shape, generator=rng, dtype=x.dtype, device=where)
    return x + sigma * noise.to(x.device)

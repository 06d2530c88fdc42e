r"""Noise on inputs, weights, targets: what is true of it, and what would refute it.

Knobs:
    samples: Points of the data.
    dim: Number of inputs.
    sigma: Standard deviation σ of the noise.
    price: What a weight's square costs; without the number s of samples it is too little.
    steepness: How steeply the function rises with its inputs.
    largest: The largest σ that is tried, for a steepness of 1.
    penalty: What is charged; the gradient alone leaves a term of second order.
    units: Hidden units.
    coefficient: The factor of σ² tr H; only a half is right.
    steps: Steps of training.
    runs: Runs that are averaged, each with noise of its own.
    noise: What is noisy; without noise the end is as sharp as the start.
    law: The law of the noise; one with a mean moves the minimizer.
    classes: Number K of classes.
    eps: Share ε of labels that are flipped.
    share: What each other class gets; divided by K, the labels do not add up to 1.
"""

import math
from typing import Annotated, Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.functional import hessian
from torch.func import vmap
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector
from torch.optim import SGD

from principia.lab.draws import drawn_anew, randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    mean_is,
    never,
    slope,
    standard_error,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training import Callback, Objective, Supervised, fit, seeded_generators
from principia.optimization.problems import Problem, ScalarNet
from principia.regression.ridge import ridge_path
from principia.regularization.noise import (
    GaussianNoise,
    InputNoise,
    NoisyWeights,
    WeightNoise,
    flip_labels,
    noisy_targets,
    tikhonov_penalty,
)

COPIES = 10_000  # of the data, each with noise of its own
PAIRED_DRAWS = 4000  # of weights, each with its mirror image
NODES = 40  # of a Gauss-Hermite rule: exact to rounding for functions as smooth as these


@claim(
    control={"price": "σ²"},
    refutes=["minimizer over noisy copies", "expectation"],
    source="Bishop 1995; Webb 1994",
)
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
    with seeded_generators(seed, X.device):
        drawn = layer(clean)
    more, targets = InputNoise(sigma).prepare((clean, y), rng)
    noisy = torch.cat([drawn, more])
    gram = (noisy.mT @ noisy).mean(dim=0)
    found = torch.linalg.solve(gram, (noisy.mT @ targets).mean(dim=0))
    steps = torch.linalg.solve(gram, (noisy.mT @ (y - noisy @ ridge)[..., None])[..., 0].mT)

    W = torch.stack([w, ridge, *randn(rng, 3, dim)], dim=1)  # (d, 5)
    moved = X + sigma * _cubature(samples * dim).view(-1, samples, dim)
    expected = (y[:, None] - moved @ W).square().sum(dim=1).mean(dim=0)
    penalized = (y[:, None] - X @ W).square().sum(dim=0) + charge * W.square().sum(dim=0)
    error, axis = standard_error(steps, axis=1), range(1, dim + 1)
    return every({
        "minimizer over noisy copies": within_errors(
            found, ridge, error=error, k=4, why="a root of the mean of independent gradients",
        ).drawn(
            Series("least squares on noisy copies", axis, found, error=4 * error, style="points"),
            Series(f"ridge, {price}", axis, ridge, "predicted", "points"),
            Series("least squares without noise", axis, ridge_path(X, y, torch.zeros(1))[0],
                   "other", "points"),
            x="coordinate", y="weight",
        ),
        "expectation": equal_to_rounding(
            expected, penalized, why="float64 rounding: the cubature is exact for quadratics"
        ),
        "no noise when evaluated": equal_to_rounding(layer.eval()(X), X),
    })


def _cubature(n: int) -> Tensor:
    """Give 2n points (2n, n) over which the mean of a cubic is that over a standard Gaussian."""
    axes = math.sqrt(n) * torch.eye(n, dtype=torch.float64)
    return torch.cat([axes, -axes])


@claim(
    control={"penalty": "gradient"},
    refutes=["order of what is left"],
    source="Bishop 1995, for finite data; Taylor's formula",
)
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
    with seeded_generators(seed, x.device):
        signs = tikhonov_penalty(f, x, y, 1.0, probes=probes)
    exact = (steepness * first) ** 2 + (f(x) - y) * second * steepness**2

    free = a.clone().requires_grad_()
    straight = [tikhonov_penalty(lambda x, by=by: x @ by, x, y, 0.7) for by in (a, free)]
    trained = torch.autograd.grad(
        tikhonov_penalty(lambda x: torch.tanh(x @ free), x, y, 0.7).sum(), free
    )[0]

    def by_hand(a: Tensor) -> Tensor:
        value = torch.tanh(x @ a)
        bend = 1 - value**2
        return 0.49 * (a @ a) * (bend**2 - 2 * (value - y) * value * bend).sum()

    spread = (2 * (steepness**4 - a.pow(4).sum()).clamp_min(0) / probes).sqrt()
    return every({
        "order of what is left": slope(
            sigmas, left, 4, tol=0.2, why="the term of sixth order bends the line by 1 or 2 %",
            labels=("σ", "root mean square of what the penalty leaves"),
        ),
        "Laplacian by random signs": within_errors(
            signs, exact, error=((f(x) - y) * second).abs() * spread, k=5, bias=1e-12,
            why="mean over the signs, whose variance is known; rounding",
        ),
        "of a linear function": equal_to_rounding(
            torch.stack(straight), (0.49 * a @ a).expand(2, points)
        ),
        "inputs left alone": equal(float(x.requires_grad), 0, tol=0, why="a copy is asked"),
        "its gradient by the weights": equal_to_rounding(trained, torch.func.grad(by_hand)(a)),
    })


def _hermite() -> tuple[Tensor, Tensor]:
    """Give nodes and weights for means over a standard Gaussian."""
    nodes, weights = map(torch.from_numpy, np.polynomial.hermite_e.hermegauss(NODES))
    return nodes, weights / weights.sum()


@claim(
    control={"coefficient": "1"},
    refutes=["order of what is left", "cloud of weights"],
    source="An 1996; Taylor's formula",
)
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
    given_up, disturb = net.at(start.expand(PAIRED_DRAWS, -1)), NoisyWeights(sigma)
    disturb.begin(given_up, {}, 1)
    disturb.wrap(lambda model, batch, rng: model().sum())(given_up, (), rng)
    disturb.abandon(given_up)

    def excess(times: float) -> Tensor:
        mirrored = torch.stack([start + times * moves, start - times * moves])
        return net.value(mirrored).mean(dim=0) - net.value(start)

    one, two = excess(1), excess(2)
    next_term = (two.mean() - 4 * one.mean()).abs() / 12  # one is a σ² + b σ⁴, two 4 a σ² + 16 b σ⁴

    line = drawn_anew(nn.utils.skip_init(nn.Linear, 3, 1), rng)
    look = _Look()
    parts = [NoisyWeights(sigma), look]  # the noise comes before any other part, in any order
    plain = SGD(line.parameters(), lr=0.1)
    fit(line, (randn(rng, 8, 3), randn(rng, 8, 1)), Supervised(F.mse_loss), plain, steps=3,
        callbacks=parts, seed=seed)

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
        "cloud of weights": mean_is(
            one, sigma**2 * charge, k=4, bias=2 * next_term,
            why="pairs of mirrored draws; the next term, by doubling the noise",
        ),
        "restored to the bit": never(
            torch.stack([cloud.theta != start, given_up.theta != start]),
            why="the very numbers are put back",
        ),
        "other parts see it": equal_to_rounding(
            torch.stack(look.before), torch.stack(look.after), why="one noise for each loss"
        ),
    })


@final
class _Look(Callback):
    """Looks at the weights before and after a loss is computed."""

    def __init__(self) -> None:
        self.before: list[Tensor] = []
        self.after: list[Tensor] = []

    def wrap(self, objective: Objective) -> Objective:
        """Look around the objective."""

        def seen(model: Any, batch: tuple[Tensor, ...], rng: torch.Generator, /) -> Tensor:
            self.before.append(parameters_to_vector(model.parameters()).detach())
            loss = objective(model, batch, rng)
            self.after.append(parameters_to_vector(model.parameters()).detach())
            return loss

        return seen


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
    objective = disturb.wrap(lambda model, batch, rng: batch[0] @ model())
    ones = net.theta.new_ones(runs)
    at, seen = [steps * k // 40 for k in range(41)], []
    for step in range(steps + 1):
        if step in at:
            seen.append(_sharpness(net.theta.detach()).mean())
        sgd.zero_grad()
        objective(net, (ones,), rng).backward()
        disturb.before_step(net)
        sgd.step()
    sharpness = torch.stack(seen)
    # the flow of the penalized loss shrinks u² - v² at the rate 2 σ², along uv = 1
    apart = (6**2 - 6**-2) * torch.exp(-2 * sigma**2 * lr * torch.tensor(at).double())
    ended = at_most(sharpness[-1], 4.0, why="the statement")
    return ended.named("largest curvature, mean over runs").drawn(
        Series("largest curvature, mean over runs", at, sharpness, style="line"),
        Series("flow with penalty σ² tr H / 2", at, (apart**2 + 4).sqrt(), "predicted", "line"),
        Series("flattest minimum", [0, steps], [2.0, 2.0], "bound"),
        x="step", y="largest eigenvalue of H", log="y",
    )


def _sharpness(theta: Tensor) -> Tensor:
    """Compute the largest eigenvalue of the Hessian of (uv - 1)²/2."""
    u, v = theta.unbind(dim=-1)
    return (u**2 + v**2) / 2 + torch.hypot((u**2 - v**2) / 2, 2 * u * v - 1)


@claim(
    control={"law": "mean 0.3"}, refutes=["minimizer", "loss", "expected loss"],
    source="An 1996: noise on outputs only adds a constant",
)
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
    state = rng.get_state()
    noisy = noisy_targets(shifted.expand(draws, -1), sigma, rng)
    again = randn(rng.set_state(state), draws, samples)
    inverse = torch.linalg.pinv(X)  # (d + 1, s)
    exact, fits = inverse @ y, noisy @ inverse.mT
    left = y - X @ w
    losses = (noisy - X @ w).square().mean(dim=1)
    all_targets = shifted + sigma * _cubature(samples)
    expected = (all_targets - X @ w).square().mean()
    axis = range(dim + 1)
    error = sigma * inverse.norm(dim=1) / draws**0.5
    return every({
        "minimizer": within_errors(
            fits.mean(dim=0), exact, error=error, k=4, why="mean of least-squares fits",
        ).drawn(
            Series("mean fit to noisy targets", axis, fits.mean(dim=0), error=4 * error,
                   style="points"),
            Series("fit to the targets", axis, exact, "predicted", "points"),
            *(Series("one fit", axis, one, "other", "points") for one in fits[:5]),
            x="coordinate (0 is the intercept)", y="weight",
        ),
        "loss": within_errors(
            losses.mean(), left.square().mean() + sigma**2, k=4, error=(
                (4 * sigma**2 * left.square().mean() + 2 * sigma**4) / (samples * draws)
            ).sqrt(), why="mean loss at fixed weights, whose variance is known",
        ),
        "drawn where it is said": equal_to_rounding(noisy, shifted + sigma * again),
        "expected loss": equal_to_rounding(
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
    labels = torch.arange(K).expand(flips // 2, K)
    with seeded_generators(seed, X.device):
        flipped = torch.cat([flip_labels(labels, eps, K, rng), flip_labels(labels, eps, K)])
    found = F.one_hot(flipped, K).double().mean(dim=0)
    return every({
        "gradient": equal(averaged, gradient(targets[y]), tol=1e-12, why="float64 rounding").drawn(
            Series("labels of class 0 after flips", range(K), found[0], style="bars"),
            Series(f"soft target, {share}", range(K), targets[0], "predicted", "points"),
            x="label", y="share",
        ),
        "frequencies": within_errors(
            found, targets, error=(targets * (1 - targets) / flips).sqrt(), k=5,
            why="shares of independent flips",
        ),
    })

r"""Saddle points: what is true of it, and what would refute it."""

import math
from collections.abc import Callable
from typing import Annotated, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import SGD, Optimizer

from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    claim,
    equal,
    every,
    never,
    slope,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import DoubleWell, Problem, Quadratic, Saddle, ScalarNet
from principia.optimization.saddles import NoisyGD, exit_times, goe, hessian_index, langevin_scale

Rows = Annotated[int, Range(100, 5000)]
Step = Annotated[float, Range(0.02, 0.5)]
NOISE_GROWS = "noise grows by a factor a step; so many leave a chance of 1e-6 to stay"
SAMPLES = 16  # of the saddle that is a mean


@claim(control={"sigma": 1e-8}, source="Lee et al. 2016, sec. 1")
def gd_stalls_on_the_stable_manifold(
    seed: Seed, *, dim: Annotated[int, Range(2, 20)] = 2, lr: Step = 0.1,
    steps: Annotated[int, Range(300, 10_000)] = 1000, sigma: Annotated[float, Range(0, 1e-2)] = 0.0,
) -> Evidence:
    r"""Started exactly on its stable manifold, gradient descent never leaves a saddle."""
    start = torch.randn(50, dim, generator=seed.torch(), dtype=torch.float64)
    start[:, -1] = 0.0
    saddle = Saddle(dim).at(start)
    optimizer = NoisyGD(saddle.parameters(), lr, sigma, rng=seed.child("noise").torch())
    times, _ = exit_times(saddle, optimizer, lambda theta: theta[:, -1].abs() >= 0.5, steps)
    shown = torch.zeros(3, dim, dtype=torch.float64)
    shown[:, 0], shown[:, -1] = 1.0, torch.tensor([1e-3, 0.0, -1e-3])
    paths = Saddle(dim).at(shown)
    walk = descend(paths, SGD(paths.parameters(), lr=lr), 200, record=("theta",))["theta"]
    names = "from y = 0.001", "from y = 0", "from y = −0.001"
    return every({
        "distance from the manifold": equal(
            saddle.theta[:, -1], 0, tol=0, why="its gradient is 0 there, without rounding"
        ).drawn(
            *(Series(name, walk[:, k, 0], walk[:, k, -1], "other") for k, name in enumerate(names)),
            Series("minima", [0, 0], [-1, 1]), x="x₁", y="y",
        ),
        "rows that left": never(times.isfinite(), why="the same"),
    })


@claim(
    control={"point": "minimum"},
    refutes=["rows that stayed"],
    source="Ge et al. 2015, sec. 3, in one dimension",
)
def escape_time_is_logarithmic(
    seed: Seed, *, curvature: Annotated[float, Range(0.5, 2)] = 1.0,
    lr: Annotated[float, Range(0.05, 0.3)] = 0.1, rows: Annotated[int, Range(1000, 5000)] = 1000,
    point: Literal["saddle", "minimum"] = "saddle",
) -> Evidence:
    r"""Mean exit times grow by $1/\ln(1+\eta\vert\lambda\vert)$ per unit of $\ln(1/\sigma)$."""
    sigmas = torch.logspace(-2, -8, 7, dtype=torch.float64)
    bent = -curvature if point == "saddle" else curvature
    saddle = Quadratic([1.0, bent]).at(torch.zeros(len(sigmas) * rows, 2))
    sigma = sigmas.repeat_interleave(rows)[:, None]
    optimizer = NoisyGD(saddle.parameters(), lr, sigma, rng=seed.torch())
    expected = 1 / math.log1p(lr * curvature)
    limit = math.ceil(expected * math.log(1e16))  # 1e-8, the least noise, would become 1e8
    times, stayed = exit_times(saddle, optimizer, lambda theta: theta[:, 1].abs() >= 1, limit)
    means = times.view(len(sigmas), rows).mean(dim=1)
    return every({
        "steps against noise": slope(
            1 / sigmas, means, expected, tol=0.02 * expected, log="x", level=0.95,
            why="four standard errors of the slope, and rounding up to whole steps",
            labels=("1/σ", "mean steps until the saddle is left"),
        ),
        "rows that stayed": never(stayed, of=len(times), why="a chance of 1e-8 a row"),
    })


@claim(control={"shift": 3.0}, source="Dean and Majumdar 2006; Dauphin et al. 2014, sec. 2")
def minima_are_rare(
    seed: Seed, *, matrices: Annotated[int, Range(100_000, 400_000)] = 200_000,
    shift: Annotated[float, Range(0, 3)] = 0.0,
) -> Evidence:
    r"""A GOE Hessian is positive definite with chance 1/2, 0.146, 0.0249, like $e^{-cn^2}$."""
    rng, sizes = seed.torch(), range(1, 5)
    found = torch.stack([_share_definite(n, matrices, shift, rng) for n in sizes])
    exact = torch.tensor(
        [0.5, (2 - math.sqrt(2)) / 4, (math.pi - 2 * math.sqrt(2)) / (4 * math.pi)],
        dtype=torch.float64,
    )
    error = (exact * (1 - exact) / matrices).sqrt()
    height = -found.log()
    bend = height.diff().diff()[-1]  # of c n² it is 2c, whatever is linear in n
    noise = 4 * float((1 / (found[1:] * matrices) * torch.tensor([1, 4, 1])).sum().sqrt())
    C = torch.randn(20, 20, generator=rng, dtype=torch.float64)
    signs = torch.ones(20, dtype=torch.float64)
    signs[:7] = -1
    bowl = (C * (signs + shift)) @ C.mT  # Sylvester: congruent matrices have the same signs
    return every({
        "positive definite": within_errors(
            found[:3], exact, error=error, k=4, why="of a share of independent draws"
        ).drawn(
            Series("measured", sizes, found), Series("exact", sizes[:3], exact, "predicted"),
            x="number of parameters n", y="share of minima", log="y",
        ),
        "exponent": equal(
            bend, math.log(3) / 2, tol=0.1 + noise,
            why="0.1 for n as small as 2 to 4, and four standard errors of logarithms of shares",
        ),
        "index": equal(
            hessian_index(lambda x: x @ bowl @ x, torch.zeros(20, dtype=torch.float64)), 7, tol=0,
            why="an integer, by the law of inertia",
        ),
    })


def _share_definite(n: int, matrices: int, shift: float, rng: torch.Generator) -> Tensor:
    """Measure how often all pivots of Gauss' elimination are above 0: of definite ones alone."""
    H = goe(n, matrices, rng) + shift * math.sqrt(n) * torch.eye(n, dtype=torch.float64)
    definite = torch.ones(matrices, dtype=torch.bool)
    for _ in range(n):
        pivot, row = H[:, :1, :1], H[:, :1, 1:]
        definite &= pivot.flatten() > 0
        H = H[:, 1:, 1:] - row.mT * (row / pivot)
    return definite.double().mean()


@claim(control={"batch": SAMPLES}, source="Ge et al. 2015, sec. 1")
def sgd_noise_escapes(
    seed: Seed, *, batch: Annotated[int, Range(1, SAMPLES)] = 4, rows: Rows = 500,
    lr: Annotated[float, Range(0.05, 0.3)] = 0.1,
) -> Evidence:
    r"""Minibatch noise along the escape direction leaves a saddle that gradient descent cannot."""
    problem = _SampledSaddle(batch, seed.torch()).at(torch.tensor([[1.0, 0.0]]).expand(rows, 2))
    limit = math.ceil(30 / lr)
    optimizer = SGD(problem.parameters(), lr=lr)
    times, _ = exit_times(problem, optimizer, lambda theta: theta[:, 1].abs() >= 0.5, limit)
    steps = torch.arange(limit + 1)
    share = (times <= steps[:, None]).double().mean(dim=1)
    return never(times.isinf(), why=NOISE_GROWS).drawn(
        Series(f"batches of {batch} out of {SAMPLES}", steps, share, style="steps"),
        Series("gradient descent", [0, limit], [0, 0], "predicted"),
        x="step", y="share of runs that have left",
    )


@final
class _SampledSaddle(Problem):
    """The saddle as a mean of samples that pull at y, half of them one way, half the other."""

    def __init__(self, batch: int, rng: torch.Generator) -> None:
        super().__init__(torch.ones(1, 2))
        self.saddle, self.batch, self.rng = Saddle(2).value, batch, rng
        # integers over 64, whose sums have no rounding: that would be noise, too
        half = torch.arange(1, SAMPLES // 2 + 1, dtype=torch.float64) / 64
        self.pulls = torch.cat([half, -half])

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the mean over all samples."""
        return self.saddle(theta)

    def forward(self) -> Float[Tensor, " B"]:
        """Compute the mean over a fresh batch in every row."""
        drawn = torch.rand(len(self.theta), SAMPLES, generator=self.rng).argsort(dim=1)
        pull = self.pulls[drawn[:, :self.batch]].mean(dim=1)
        return self.saddle(self.theta) + pull * self.theta[:, -1]


@claim(
    controls=[
        Control({"optimizer": "SGD"}, ["rows that stayed"], "no noise but that of the labels"),
        Control({"start": 0.1}, ["gradients of samples"], "a start beside the saddle"),
    ],
    source="by the chain rule",
)
def sgd_noise_can_vanish(
    seed: Seed, *, optimizer: Literal["NoisyGD", "SGD"] = "NoisyGD", rows: Rows = 500,
    label_noise: Annotated[float, Range(0, 1)] = 0.5,
    sigma: Annotated[float, Range(1e-6, 0.1)] = 0.01, start: Annotated[float, Range(0, 1)] = 0.0,
) -> Evidence:
    r"""At $u=v=0$ of $\frac12(uv-y_i)^2$ each sample's gradient is 0: SGD stays, noise escapes."""
    net = ScalarNet(label_noise=label_noise, rng=seed.child("labels").torch())
    net = net.at(torch.full((rows, 2), start))
    net().sum().backward()
    slopes = net.theta.grad
    kinds: dict[str, Callable[..., Optimizer]] = {
        "NoisyGD": lambda params: NoisyGD(params, 0.1, sigma, rng=seed.torch()),
        "SGD": lambda params: SGD(params, lr=0.1),
    }
    limit = math.ceil((math.log(1 / sigma) + 35) / math.log(1.1))
    times, _ = exit_times(net, kinds[optimizer](net.parameters()), _fitted, limit)
    steps = torch.arange(limit + 1)
    return every({
        "rows that stayed": never(times.isinf(), why=NOISE_GROWS).drawn(
            Series(optimizer, steps, (times <= steps[:, None]).double().mean(dim=1), style="steps"),
            x="step", y="share of runs that have left",
        ),
        "gradients of samples": equal(slopes, 0, tol=0, why="multiples of u and v, which are 0"),
    })


def _fitted(theta: Tensor) -> Tensor:
    """Tell which scalar nets are more than half way to the label 1."""
    return theta.prod(dim=-1) >= 0.5


@claim(control={"barrier": 0.5}, source="Kramers 1940, eq. 17 (large viscosity)")
def shallow_minimum_exit_time(
    seed: Seed, *, exits: Annotated[int, Range(400, 1000)] = 400,
    lr: Annotated[float, Range(0.02, 0.06)] = 0.05,
    barrier: Annotated[float, Range(0.2, 0.5)] = 0.25,
) -> Evidence:
    r"""Kramers: $\ln E[\tau]$ is linear in $1/T$; its slope is the height of the rim, here 1/4."""
    temperatures = torch.linspace(0.05, 0.1, 11, dtype=torch.float64)
    settle, wait = round(5 / lr), round(25 / lr)
    # as many rows as lead to the same number of exits at every temperature
    rows = (exits / 25 * _kramers(temperatures, 0.25)).long()
    scale = torch.tensor([langevin_scale(lr, float(T)) for T in temperatures], dtype=torch.float64)
    wells = DoubleWell().at(torch.full((int(rows.sum()), 1), -1.0))
    sigma = scale.repeat_interleave(rows)[:, None]
    optimizer = NoisyGD(wells.parameters(), lr, sigma, rng=seed.torch())
    times, _ = exit_times(wells, optimizer, lambda theta: theta[:, 0] >= 0.5, settle + wait)
    # once settled, leaving has no memory: the mean is all time waited over the number of exits
    waited, counted = (times - settle).clamp(0, wait), (times > settle) & times.isfinite()
    each = list(zip(waited.split(rows.tolist()), counted.split(rows.tolist()), strict=True))
    means = lr * torch.stack([time.sum() / out.sum() for time, out in each])
    error = torch.stack([out.sum() for _, out in each]).double().rsqrt()
    law = _kramers(temperatures, barrier)
    return every({
        "height of the rim": slope(
            1 / temperatures, means, barrier, tol=0.1 * barrier, log="y", level=0.95,
            why="four standard errors; at these temperatures the exact slope is 0.2487",
            labels=("1/T", "mean time until the minimum is left"),
        ),
        "Kramers' law": within_errors(
            means.log(), law.log(), error=error, k=4, bias=1.5 * temperatures + 2 * lr,
            why="of a mean of exponential times; the law is the limit of low T and small steps",
        ),
    })


def _kramers(temperatures: Tensor, barrier: float) -> Tensor:
    """Compute the mean time to leave a well of curvature 2 over a rim of curvature -1."""
    return 2 * math.pi / math.sqrt(2) * (barrier / temperatures).exp()

r"""Saddle points: what is true of it, and what would refute it.

Knobs:
    dim: Coordinates of a point.
    lr: The step size.
    steps: Steps of a run.
    sigma: Size of the noise that is added to a step; the least noise leads off the ridge.
    curvature: How strongly the function bends down at the saddle.
    rows: Independent runs.
    point: What the runs start at; a minimum keeps them.
    matrices: Random matrices that are drawn.
    shift: How far all curvatures are moved up; then minima are common.
    time: Whether the law counts whole steps, or time that flows, in which growth is faster.
    temperature: The temperature whose noise is added.
    scale: Size of the noise at a temperature $T$; without the 2 it is too small.
    batch: Samples of a minibatch; all 16 together have no noise.
    optimizer: Who steps; SGD has only the noise of the samples, which is none at this saddle.
    label_noise: Size of the noise of the labels.
    start: Where both weights start; beside the saddle, samples have gradients.
    exits: How many exits are expected at each temperature.
    barrier: Height of the rim that the law is told; in truth it is 1/4.
"""

import math
from collections.abc import Callable
from typing import Annotated, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import norm
from torch import Tensor
from torch.optim import SGD, Optimizer

from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    claim,
    equal,
    equal_to_rounding,
    every,
    follows,
    mean_is,
    never,
    slope,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.pictures import Field, Histogram, Rule
from principia.lab.seeds import Seed
from principia.lab.training.optimizers import steps_along
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
    axes = torch.linspace(-0.3, 1.1, 30).double(), torch.linspace(-1.4, 1.4, 30).double()
    plane = torch.stack(torch.meshgrid(*axes, indexing="xy"), dim=-1)
    return every({
        "distance from the manifold": equal(
            saddle.theta[:, -1], 0, tol=0, why="its gradient is 0 there, without rounding"
        ).drawn(
            Field(*axes, Saddle(2).value(plane), "contours"),
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


@claim(
    control={"shift": 3.0}, refutes=["positive definite", "exponent", "index"],
    source="Dean and Majumdar 2006; Dauphin et al. 2014, sec. 2",
)
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
    many = torch.ones(2100).double() + 10 * shift  # too many for all eigenvalues
    many[:11] = shift - torch.linspace(0.2, 1, 11, dtype=many.dtype)
    few = torch.randn(60, 3, generator=rng, dtype=many.dtype)
    named = {"a": many.new_zeros(2000), "b": many.new_zeros(100)}
    indices = [
        *(hessian_index(lambda x: x @ bowl.to(x.dtype) @ x, torch.zeros(20, dtype=kind))
          for kind in (torch.float64, torch.float32)),
        *(hessian_index(lambda p: (many * torch.cat([p["a"], p["b"]]) ** 2).sum(), named, tol=tol)
          for tol in (None, 0.5 / (1 + 10 * shift))),
        hessian_index(lambda x: x[0] ** 2 * (1 + shift) - x[1] ** 2, many.new_zeros(3), tol=0.0),
        # all below 0; of those below 0 only the lowest counts; none but for rounding
        hessian_index(lambda x: -(x**2).sum(), many.new_zeros(3)),
        hessian_index(lambda x: -(x**2).sum(), many.new_zeros(1)),
        hessian_index(lambda x: (x**2 * x.new_tensor([-1, -0.3, 0.2])).sum(), many.new_zeros(3),
                      tol=0.5),
        hessian_index(lambda x: ((x @ few) ** 2).sum(), many.new_zeros(60)),
    ]
    entries = goe(3, matrices, rng)
    spread = 0.5 + 0.5 * torch.eye(3, dtype=torch.float64)  # twice on the diagonal
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
            indices, [7, 7, 11, 7, 1, 3, 1, 1, 0], tol=0, why="integers, by the law of inertia"
        ),
        "entries": within_errors(
            entries.var(dim=0), spread, error=spread * (2 / matrices) ** 0.5,
            why="variances of normal numbers",
        ),
        "symmetry": equal(entries, entries.mT, tol=0, why="by construction"),
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


@claim(
    control={"time": "continuous"}, refutes=["counts"], source="a geometric sequence",
)
def exit_times_count_steps(
    seed: Seed, *, lr: Annotated[float, Range(0.05, 0.5)] = 0.3,
    time: Literal["discrete", "continuous"] = "discrete",
) -> Evidence:
    r"""A hill takes $\lceil\ln(1/\vert y\vert)/\ln(1+\eta\vert\lambda\vert)\rceil$ steps."""
    rng, limits = seed.torch(), (30, 60)
    y = torch.logspace(-8, 0.5, 40, dtype=torch.float64) * torch.randn(
        40, generator=rng, dtype=torch.float64).sign()
    y[:2] = 0.0  # which never leave
    rate = math.log1p(lr) if time == "discrete" else lr
    exact = (-y.abs().log() / rate).clamp(min=0).ceil()

    def left(theta: Tensor) -> Tensor:  # by NumPy, which takes constants only
        return torch.from_numpy(abs(theta.numpy()[:, 0]) >= 1)

    found, stayed, ends, expected = [], [], [], []
    for limit in limits:
        hill = Quadratic([-1.0, 2.0]).at(torch.stack([y, torch.ones(40)], dim=1))
        optimizer = NoisyGD(hill.parameters(), lr, torch.zeros(40, 1), rng=rng)
        times, count = exit_times(hill, optimizer, left, limit)
        steps = times.clamp(max=limit)
        found.append(times)
        stayed.append(count)
        ends.append(hill.theta.detach())
        expected.append(torch.stack([y * (1 + lr) ** steps, (1 - 2 * lr) ** steps], dim=1))
    times = torch.stack(found)
    limited = torch.stack([exact.where(exact <= limit, math.inf) for limit in limits])
    return every({
        "counts": equal(times, limited, tol=0, why="whole numbers").drawn(
            Series("steps until |y| is 1", y[2:].abs(), times[1, 2:]),
            Series(f"⌈ln(1/|y|) / {'ln(1 + η)' if time == 'discrete' else 'η'}⌉", y[2:].abs(),
                   exact[2:], "predicted", "steps"),
            Rule("the limit", y=limits[1]), x="|y| at the start", y="steps", log="x",
        ),
        "how many stayed": equal(stayed, times.isinf().sum(dim=1), tol=0, why="a count"),
        "where they are": equal_to_rounding(
            torch.stack(ends), torch.stack(expected),
            why="rows that have left stay where they were; rounding of a power",
        ),
    })


@claim(
    control={"scale": "√(ηT)"}, refutes=["law", "variance"], source="Langevin 1908",
    misprint=r"$\sigma=\sqrt{\eta T}$, without the 2",
)
def noise_of_a_temperature(
    seed: Seed, *, temperature: Annotated[float, Range(0.01, 10)] = 0.7,
    lr: Annotated[float, Range(0.01, 0.5)] = 0.1, scale: Literal["√(2ηT)", "√(ηT)"] = "√(2ηT)",
) -> Evidence:
    r"""With $\sigma=\sqrt{2\eta T}$ a bowl is visited like $e^{-h/T}$, but for $O(\eta)$."""
    rows, lam = 4000, torch.tensor([2.0, 0.5], dtype=torch.float64)
    bowl, rng = Quadratic(lam).at(torch.zeros(rows, 2)), seed.torch()
    sigma = langevin_scale(lr, temperature) / (1 if scale == "√(2ηT)" else math.sqrt(2))
    # so many steps forget the start, to 1e-4
    steps = math.ceil(10 / (lr * 0.5))
    optimizer = NoisyGD(bowl.parameters(), lr, sigma, rng=rng)
    descend(bowl, optimizer, steps, at=[0])
    spread = temperature / lam / (1 - lr * lam / 2)  # of e^(-h/T), with the step that is left
    # a run that is saved and resumed, and one that is not, see the same noise
    ends, sizes = [], torch.tensor([[0.5], [2.0], [0.0]])
    for resumed in (False, True):
        twin = Quadratic(lam).at(torch.ones(3, 2))
        part = NoisyGD(twin.parameters(), 0.2, sizes, rng=seed.child("dice").torch())
        descend(twin, part, 3, at=[0])
        if resumed:
            kept, part = part.state_dict(), NoisyGD(twin.parameters(), rng=torch.Generator())
            part.load_state_dict(kept)
        descend(twin, part, 4, at=[0])
        ends.append(twin.theta.detach())
    shared = NoisyGD([torch.nn.Parameter(torch.ones(1))], lr=0.3)  # has no generator of its own
    owner = NoisyGD([torch.nn.Parameter(torch.ones(1))], rng=torch.Generator())
    for one in (shared, owner):
        one.load_state_dict(shared.state_dict())
    ends.append(ends[0] + (owner.param_groups[0]["lr"] - 0.3))
    usual = steps_along(NoisyGD, torch.ones(1, 100_000).double(), rng=rng)
    quiet = (1 - 0.2 * lam) ** 7  # of the row without noise
    around = np.linspace(-4, 4, 81) * (temperature / 0.5) ** 0.5
    return every({
        "law": every({
            f"λ = {float(one):g}": follows(
                bowl.theta[:, k], norm(scale=float(spread[k]) ** 0.5), why="independent rows"
            ) for k, one in enumerate(lam)
        }),
        "variance": within_errors(
            bowl.theta.var(dim=0), spread, error=spread * (2 / rows) ** 0.5, bias=1e-3 * spread,
            why="variances of normal numbers; the start is forgotten to 1e-4",
        ),
        "a resumed run": equal(
            torch.stack(ends[1:]), torch.stack([ends[0]] * 2), tol=0, why="the generator is kept"
        ),
        "the row without noise": equal_to_rounding(ends[0][2], quiet),
        "as it comes: a step of 0.1 and noise of 0.01": every({
            "mean": mean_is(usual[0], -0.1, why="independent coordinates"),
            "variance": mean_is((usual[0] + 0.1) ** 2, 1e-4, why="independent coordinates"),
        }),
    }).drawn(
        Histogram("where the runs are", bowl.theta[:, 1]),
        Series("e^(−h/T)", around, norm.pdf(around, scale=(temperature / 0.5) ** 0.5), "predicted"),
        x="place along the flat direction, of curvature 1/2", y="density",
    )


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
    return never(times.isinf(), why=NOISE_GROWS).named("runs that stayed").drawn(
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
    control=[
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

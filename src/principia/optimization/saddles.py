r"""Saddle points: where descent slows down, and how noise gets away.

A critical point of many variables is a minimum only if every one of its curvatures is above 0.
Curvatures that fell at random would almost never do so, the less the more there are: flat places of
high loss are saddles. Gradient descent avoids them from nearly every start but may dwell: what
counts is how far it is off the ridge, and that grows only by a factor a step. Noise of any size
puts it off the ridge, and the wait is the logarithm of how small the noise is. Minibatches are such
a noise where the samples disagree; where every sample's gradient is 0, they are none. The same
noise leaves a minimum, too, but has to climb for it, and the wait is the exponential of how high
the rim is: shallow minima are left, deep ones are kept.

$$ \theta^{t+1} = \theta^t-\eta\nabla h(\theta^t)+\sigma\xi^t, \quad \xi^t\sim N(0,I), \quad
\sigma = \sqrt{2\eta T} $$

$$ E[\tau_{saddle}] \approx \frac{\ln(1/\sigma)}{\ln(1+\eta\vert\lambda\vert)}+\mathrm{const},
\quad E[\tau_{minimum}] \approx
\frac{2\pi}{\sqrt{h''(a)\,\vert h''(b)\vert}}\,e^{(h(b)-h(a))/T} $$

$$ P(\text{a random symmetric}\ H\succ0) = \frac12,\ \frac{2-\sqrt2}4,
\ \frac{\pi-2\sqrt2}{4\pi}\ (n=1,2,3), \quad \approx e^{-n^2\ln(3)/4}\ \text{for many} $$

Symbols:
    $h, \theta$: function and points, a `Problem` and its `theta`
    $\eta, \sigma, \xi$: step size, size of the noise and the noise of `NoisyGD`
    $T$: temperature, which `langevin_scale` turns into $\sigma$
    $\tau$: number of steps until a point has left, `exit_times`; times $\eta$ in Kramers' law
    $\lambda$: the curvature below 0 at a saddle; `hessian_index` counts such curvatures
    $a, b$: the minimum that is left and the top of the rim, where $h''$ is above and below 0
    $H$: Hessian (n, n) of Gaussian numbers, `goe`

References:
    Kramers (1940), Brownian motion in a field of force and the diffusion model of chemical
        reactions. Physica 7(4). doi:10.1016/S0031-8914(40)90098-2
    Dean and Majumdar (2006), Large deviations of extreme eigenvalues of random matrices. Physical
        Review Letters 97. arXiv:cond-mat/0609651
    Dauphin, Pascanu, Gulcehre, Cho, Ganguli and Bengio (2014), Identifying and attacking the saddle
        point problem in high-dimensional non-convex optimization. NeurIPS. arXiv:1406.2572
    Ge, Huang, Jin and Yuan (2015), Escaping from saddle points: online stochastic gradient for
        tensor decomposition. COLT. arXiv:1503.02101
    Lee, Simchowitz, Jordan and Recht (2016), Gradient descent only converges to minimizers. COLT.
        arXiv:1602.04915
    Saxe, McClelland and Ganguli (2014), Exact solutions to the nonlinear dynamics of learning in
        deep linear neural networks. ICLR. arXiv:1312.6120
"""

__all__ = ["NoisyGD", "langevin_scale", "exit_times", "hessian_index", "goe"]

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, final

import plotly.graph_objects as go
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from torch.optim import SGD, Optimizer

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.domains import Count, NonNegative, Positive, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.optimizers import GroupOptimizer
from principia.lab.relations import equal, estimates, every, never, slope
from principia.lab.seeds import Seed
from principia.networks.linear_dynamics import Whitener
from principia.networks.linear_network import LinearNetwork
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import DoubleWell, Problem, Quadratic, Saddle, ScalarNet
from principia.optimization.smoothness import hessian_extremes

Rows = Annotated[int, Range(100, 5000)]
Step = Annotated[float, Range(0.02, 0.5)]
NOISE_GROWS = "noise grows by a factor a step; so many leave a chance of 1e-6 to stay"
AT_ONCE = 50  # steps from one look to the next whether all rows have left
DENSE = 2000  # parameters up to which all eigenvalues of a Hessian are computed
SAMPLES = 16  # of the saddle that is a mean
LAYERS = (16, 20), (16, 16), (10, 16)  # shapes of the weights of the experiment's net
METHODS = {"gd": "gradient descent", "noisy": "with noise", "sgd": "minibatches"}


@final
class NoisyGD(GroupOptimizer):
    r"""Steps against the gradient and adds Gaussian noise: $\theta-\eta\nabla h+\sigma\xi$.

    The state of its generator is part of `state_dict`, so that a run resumes with the same noise.

    Args:
        params: Parameters, or groups of them.
        lr: $\eta$.
        sigma: $\sigma$, the size of the noise of a step; or a tensor of sizes that fits every
            parameter, such as (B, 1) for runs of a test problem that differ in it.
        rng: Draws the noise; by default torch's global generator.

    Example:
        >>> x = torch.nn.Parameter(torch.ones(1))
        >>> x.grad = torch.tensor([5.0])
        >>> NoisyGD([x], lr=0.1, sigma=0.0).step()  # without noise it is gradient descent
        >>> x.item()
        0.5
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: Positive = 0.1, sigma: float | Tensor = 0.01, *,
        rng: torch.Generator | None = None,
    ) -> None:
        size = torch.as_tensor(sigma)
        if not ((size >= 0) & size.isfinite()).all():
            raise refuse("NoisyGD", "sigma", "in [0, inf), one number or a tensor of them", sigma)
        super().__init__(params, {"lr": lr, "sigma": sigma})
        self.rng = rng

    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Step against the gradient, then anywhere."""
        torch._foreach_add_(params, gradients, alpha=-group["lr"])
        for p in params:
            noise = torch.randn(p.shape, generator=self.rng, dtype=p.dtype, device=p.device)
            if isinstance(group["sigma"], Tensor):
                p.add_(group["sigma"] * noise)
            else:
                p.add_(noise, alpha=group["sigma"])

    def state_dict(self) -> dict[str, Any]:
        """Give the settings, and the state of the generator if it is its own."""
        dice = None if self.rng is None else self.rng.get_state()
        return {**super().state_dict(), "dice": dice}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back the settings and the state of the generator."""
        super().load_state_dict(state_dict)
        if self.rng is not None and state_dict["dice"] is not None:
            self.rng.set_state(state_dict["dice"])


@checked
def langevin_scale(lr: Positive, temperature: NonNegative) -> float:
    r"""Gives the noise $\sigma=\sqrt{2\eta T}$ with which `NoisyGD` visits $h$ like $e^{-h/T}$.

    Example:
        >>> langevin_scale(0.02, 1.0)
        0.2
    """
    return math.sqrt(2 * lr * temperature)


@checked
def exit_times(
    problem: Problem, optimizer: Optimizer, predicate: Callable[[Tensor], Tensor], limit: Count
) -> tuple[Float[Tensor, " B"], int]:
    r"""Counts the steps until each row has left; a row that has left stays where it is.

    Returns the counts, infinity for rows that are still there at the limit, and how many those are.

    Args:
        problem: What is minimized; `problem.theta` holds the last points afterwards.
        optimizer: Any optimizer of `problem.parameters()`.
        predicate: Tells from points (B, D) which of them have left.
        limit: Steps after which the waiting ends.

    Example:
        >>> hill = Quadratic([-1.0]).at(torch.tensor([[0.5], [0.0]]))
        >>> sgd = torch.optim.SGD(hill.parameters(), lr=1.0)
        >>> exit_times(hill, sgd, lambda theta: theta[:, 0] >= 4, limit=10)
        (tensor([3., inf], dtype=torch.float64), 1)
    """
    theta, taken = problem.theta, 0
    kept = theta.detach().clone()
    out = predicate(kept)
    if out.shape != (len(kept),) or out.dtype != torch.bool:
        got = f"{out.dtype} of shape {tuple(out.shape)}"
        raise refuse("exit_times", "predicate", f"a function to {len(kept)} Booleans", got)
    times = torch.where(out, 0.0, math.inf).double()

    def look() -> None:
        nonlocal taken
        taken += 1
        left = times.isfinite()
        theta.copy_(torch.where(left[:, None], kept, theta))
        kept.copy_(theta)
        times[predicate(kept) & ~left] = taken

    while taken < limit and times.isinf().any():
        descend(problem, optimizer, min(AT_ONCE, limit - taken), record=(), after=look)
    return times, int(times.isinf().sum())


@checked
def hessian_index(
    loss_fn: Callable[..., Tensor], params: Tensor | Mapping[str, Tensor], *,
    tol: Annotated[float, Range(0, 1, open="high")] | None = None,
) -> int:
    r"""Counts the eigenvalues of a Hessian that are below 0: 0 at a minimum, more at a saddle.

    Beyond 2,000 parameters the lowest eigenvalues come from Lanczos' method, more and more of them
    until one is not below 0.

    Args:
        loss_fn: Computes the loss, one number, from the parameters.
        params: A tensor, or the named parameters of a module.
        tol: How far below 0 counts, as a share of the largest $\vert\lambda\vert$; by default
            farther than rounding explains, or 1e-4 with Lanczos' method: see `hessian_extremes`.

    Example:
        >>> hessian_index(lambda x: x[0] ** 2 - x[1] ** 2 - 3 * x[2] ** 2, torch.zeros(3))
        2
    """
    tensors = [params] if isinstance(params, Tensor) else list(params.values())
    size = sum(one.numel() for one in tensors)
    rounding = size * torch.finfo(tensors[0].dtype).eps
    wanted, slack = (size, rounding) if size <= DENSE else (8, 1e-4)
    slack = slack if tol is None else tol
    while True:
        lowest, highest = hessian_extremes(loss_fn, params, wanted)
        below = lowest < -slack * max(-float(lowest[0]), float(highest[0]))
        if not below[-1] or len(lowest) >= size:
            return int(below.sum())
        wanted = min(4 * wanted, size)


@checked
def goe(n: Count, size: Count, rng: torch.Generator) -> Float[Tensor, "size n n"]:
    r"""Draws matrices of the Gaussian orthogonal ensemble: $(A+A^\top)/2$, A standard Gaussian.

    Example:
        >>> H = goe(3, 5, torch.Generator().manual_seed(0))
        >>> H.shape, torch.equal(H, H.mT)
        (torch.Size([5, 3, 3]), True)
    """
    A = torch.randn(size, n, n, generator=rng, dtype=torch.float64)
    return (A + A.mT) / 2


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


@claim(control={"point": "minimum"}, source="Ge et al. 2015, sec. 3, in one dimension")
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
        "positive definite": estimates(
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


@claim(control={"optimizer": "SGD"}, source="by the chain rule")
def sgd_noise_can_vanish(
    seed: Seed, *, optimizer: Literal["NoisyGD", "SGD"] = "NoisyGD", rows: Rows = 500,
    label_noise: Annotated[float, Range(0, 1)] = 0.5,
    sigma: Annotated[float, Range(1e-6, 0.1)] = 0.01,
) -> Evidence:
    r"""At $u=v=0$ of $\frac12(uv-y_i)^2$ each sample's gradient is 0: SGD stays, noise escapes."""
    net = ScalarNet(label_noise=label_noise, rng=seed.child("labels").torch())
    net = net.at(torch.zeros(rows, 2))
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
        "Kramers' law": estimates(
            means.log(), law.log(), error=error, k=4, bias=1.5 * temperatures + 2 * lr,
            why="of a mean of exponential times; the law is the limit of low T and small steps",
        ),
    })


@experiment(
    reaches={"noisy_over_gd": at_most_goal(0.7)},
    floor={"noisy_over_gd": Range(0, 1, open="high")},
    source="gradient descent from the same starts; the staircase of Saxe, McClelland and Ganguli "
    "(2014), Exact solutions to the nonlinear dynamics of learning in deep linear neural networks",
)
def escape(
    run: Run, *, starts: Annotated[int, Range(3, 50)] = 15,
    scale: Annotated[float, Range(0.005, 0.05)] = 0.01, lr: Annotated[float, Range(0.1, 0.7)] = 0.5,
    sigma: Annotated[float, Range(1e-4, 3e-3)] = 2e-3, batch: Annotated[int, Range(32, 500)] = 128,
) -> None:
    """Learns whitened digits by a deep linear net, plateau by plateau, with noise and without.

    Args:
        starts: Near-zero starts at full budget.
        scale: Standard deviation of the weights at the start.
        lr: Step size of all methods.
        sigma: Noise of a step of `NoisyGD`.
        batch: Samples of a step of `SGD`.
    """
    X, Y = _whitened_digits()
    start, full = run.seed.torch(), _DeepLinear(X, Y)
    levels, shape = full.halfway(), (starts if run.full else 3, full.theta.shape[1])
    near = scale * torch.randn(*shape, generator=start, dtype=torch.float64)
    limit, total, paths, curves, plateaus = math.ceil(15 / (lr * scale)), {}, {}, [], []
    for name, label in run.steps(METHODS.items(), "method"):
        rng, noise = run.seed.child(name).torch(), sigma if name == "noisy" else 0.0
        problem = _DeepLinear(X, Y, batch if name == "sgd" else None, rng).at(near)
        optimizer = NoisyGD(problem.parameters(), lr, noise, rng=rng)
        total[name], losses, paths[name] = _learn(problem, optimizer, float(levels[-1]), limit)
        crossed = (losses[:, :, None] >= levels).sum(dim=0).double()  # steps above each level
        waits = crossed.diff(dim=1, prepend=torch.zeros_like(crossed[:, :1])).median(dim=0).values
        plateaus.append(Series(label, range(1, len(levels) + 1), waits, "other", "bars"))
        curves.append(Series(label, range(len(losses)), losses[:, 0], "other"))
        found = {"steps": total[name].median(), "first": waits[0]}
        run.record(**{f"{name}_{key}": float(value) for key, value in found.items()})
    gd = total["gd"].clamp(max=limit)  # who never arrives counts as arriving at the end
    for name in ("noisy", "sgd"):
        run.record(**{f"{name}_over_gd": float(total[name].median() / gd.median())})

    path = paths["gd"]
    at = torch.linspace(0, int(gd[0]), 24 if run.full else 6).long().tolist()
    index = [hessian_index(full.value, path[t], tol=0.01) for t in run.steps(at, "Hessian index")]
    run.record(index_at_start=index[0], index_at_end=index[-1])
    staircase = figures.draw(Picture(tuple(curves), "step", "loss above its minimum"))
    staircase.add_trace(go.Scatter(
        x=at, y=[float(full.value(path[t])) for t in at], text=[str(one) for one in index],
        mode="markers+text", textposition="top right", name="number of negative curvatures",
        marker={"color": "#111827"},
    ))
    run.figure("staircase", staircase)
    names = "plateau", "steps on it, median of the starts"
    run.figure("plateaus", figures.draw(Picture(tuple(plateaus), *names)))
    run.figure("saddle", _saddle_figure(run.seed.child("paths").torch()))
    net = LinearNetwork((*(columns for _, columns in LAYERS), LAYERS[-1][0]), rng=start)
    with torch.no_grad():
        for layer, weight in zip(net.layers, _layers(paths["noisy"][-1]), strict=True):
            layer.weight.copy_(weight)
    run.keep(net)


def _share_definite(n: int, matrices: int, shift: float, rng: torch.Generator) -> Tensor:
    """Measure how often all pivots of Gauss' elimination are above 0: of definite ones alone."""
    H = goe(n, matrices, rng) + shift * math.sqrt(n) * torch.eye(n, dtype=torch.float64)
    definite = torch.ones(matrices, dtype=torch.bool)
    for _ in range(n):
        pivot, row = H[:, :1, :1], H[:, :1, 1:]
        definite &= pivot.flatten() > 0
        H = H[:, 1:, 1:] - row.mT * (row / pivot)
    return definite.double().mean()


def _fitted(theta: Tensor) -> Tensor:
    """Tell which scalar nets are more than half way to the label 1."""
    return theta.prod(dim=-1) >= 0.5


def _kramers(temperatures: Tensor, barrier: float) -> Tensor:
    """Compute the mean time to leave a well of curvature 2 over a rim of curvature -1."""
    return 2 * math.pi / math.sqrt(2) * (barrier / temperatures).exp()


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


@final
class _DeepLinear(Problem):
    """The squared error of a deep linear net on whitened inputs, above its minimum."""

    minimum = 0.0

    def __init__(
        self, X: Tensor, Y: Tensor, batch: int | None = None, rng: torch.Generator | None = None
    ) -> None:
        super().__init__(torch.zeros(1, sum(rows * columns for rows, columns in LAYERS)))
        self.X, self.Y, self.batch, self.rng = X, Y, batch, rng
        self.best = Y.mT @ X / len(X)  # of white inputs the regression is the cross moment

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute half the squared distance of the product of the layers to the regression."""
        first, second, third = _layers(theta)
        return (third @ second @ first - self.best).square().sum(dim=(-2, -1)) / 2

    def forward(self) -> Float[Tensor, " B"]:
        """Compute the loss; with a batch, the error of fresh samples in every row."""
        if self.batch is None:
            return self.value(self.theta)
        drawn = torch.randint(len(self.X), (len(self.theta), self.batch), generator=self.rng)
        first, second, third = _layers(self.theta)
        missed = self.X[drawn] @ (third @ second @ first).mT - self.Y[drawn]  # (B, batch, 10)
        return missed.square().sum(dim=-1).mean(dim=-1) / 2

    def halfway(self) -> Tensor:
        """Give the losses in the middle between one plateau and the next, falling."""
        modes = torch.linalg.svdvals(self.best).square() / 2
        modes = modes[modes > 1e-12 * modes[0]]  # classes are centered: one has no mode
        return modes.flip(0).cumsum(0).flip(0) - modes / 2


def _learn(
    problem: Problem, optimizer: Optimizer, level: float, limit: int
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Count steps until the loss is below a level; keep all losses (T, B) and the first path."""
    losses, path = [], []

    def learned(theta: Tensor) -> Tensor:
        losses.append(problem.value(theta))
        path.append(theta[0].clone())
        return losses[-1] < level

    times, _ = exit_times(problem, optimizer, learned, limit)
    return times, torch.stack(losses), path


def _layers(theta: Tensor) -> list[Tensor]:
    """Cut weights (..., D) into the matrices of the layers."""
    pieces = theta.split([rows * columns for rows, columns in LAYERS], dim=-1)
    return [one.unflatten(-1, shape) for one, shape in zip(pieces, LAYERS, strict=True)]


def _whitened_digits() -> tuple[Tensor, Tensor]:
    """Load the embedded digits in their first 20 principal directions, and centered classes."""
    x, y, x_more, y_more = digits()
    pixels = torch.cat([x, x_more]).flatten(1).double().numpy()
    classes = F.one_hot(torch.cat([y, y_more]), LAYERS[-1][0]).double()
    white = torch.from_numpy(Whitener().fit(pixels).transform(pixels)[:, :LAYERS[0][1]])
    return white, classes - classes.mean(dim=0)


def _saddle_figure(rng: torch.Generator) -> go.Figure:
    """Draw paths of `NoisyGD` from the ridge on the contours of the saddle."""
    axis = torch.linspace(-1.5, 1.5, 61, dtype=torch.float64)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    heights = Saddle(2).value(torch.stack([x, y], dim=-1))
    saddle = Saddle(2).at(torch.tensor([[1.4, 0.0], [-1.4, 0.0]]).repeat(3, 1))
    optimizer = NoisyGD(saddle.parameters(), 0.1, 0.01, rng=rng)
    paths = descend(saddle, optimizer, 120, record=("theta",))["theta"]
    series = tuple(
        Series(f"path {k + 1}", paths[:, k, 0], paths[:, k, 1], "other") for k in range(6)
    )
    figure = figures.draw(Picture(series, "x", "y"))
    figure.add_trace(go.Contour(
        x=axis.tolist(), y=axis.tolist(), z=heights.tolist(), ncontours=25, showscale=False,
        contours={"coloring": "lines"}, line={"width": 1}, colorscale="Greys", hoverinfo="skip",
    ))
    return figure

r"""Momentum: a heavy ball rolls on where the last steps agreed.

Gradient descent zigzags across a ravine and creeps along it. A ball with momentum adds a share
$\beta$ of its last move to the next: moves across cancel, moves along add up to $\frac1{1-\beta}$
times a plain step. On quadratics the tuned ball needs $\sqrt\kappa$ steps where descent needs
$\kappa$. It is `torch.optim.SGD(momentum=...)` for a constant step. Off quadratics it promises
nothing: on a function as smooth and as convex it can run in a circle for ever. Written as a moving
average of gradients, the average must be corrected for its start at 0, and by the right power.

$$ \theta^{t+1} = \theta^t-\eta\nabla h(\theta^t)+\beta(\theta^t-\theta^{t-1}) $$

$$ m^t = \alpha m^{t-1}-(1-\alpha)\nabla h(\theta^t), \quad
\hat m^t = \frac{m^t}{1-\alpha^t}, \quad \theta^{t+1} = \theta^t+\eta\hat m^t $$

$$ \eta = \frac4{(\sqrt L+\sqrt\mu)^2}, \quad
\beta = \Big(\frac{\sqrt\kappa-1}{\sqrt\kappa+1}\Big)^2, \quad \kappa = \frac L\mu $$

Symbols:
    $\theta^t, h$: parameters after $t$ steps, and what is minimized
    $\eta, \beta$: `lr` and `beta` of `HeavyBall`, or as `tuned_heavy_ball` sets them
    $m, \alpha$: average of the gradients and weight of its past, in `EMAMomentum`
    $L, \mu, \kappa$: largest and smallest curvature, and their ratio

References:
    Polyak (1964), Some methods of speeding up the convergence of iteration methods. USSR
        Computational Mathematics and Mathematical Physics 4(5). doi:10.1016/0041-5553(64)90137-5
    Qian (1999), On the momentum term in gradient descent learning algorithms. Neural Networks
        12(1). doi:10.1016/S0893-6080(98)00116-6
    Sutskever, Martens, Dahl and Hinton (2013), On the importance of initialization and momentum in
        deep learning. International Conference on Machine Learning.
    Lessard, Recht and Packard (2016), Analysis and design of optimization algorithms via integral
        quadratic constraints. SIAM Journal on Optimization 26(1). arXiv:1408.3595
"""

__all__ = ["HeavyBall", "EMAMomentum", "tuned_heavy_ball"]

import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal, final

import numpy as np
import plotly.graph_objects as go
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.mnist import mnist
from principia.lab.domains import Count, Fraction, Positive, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.optimizers import GroupOptimizer
from principia.lab.relations import at_least, at_most, equal, every, identical, slope
from principia.lab.seeds import Seed
from principia.lab.training import Diverged, Supervised, Trained, fit
from principia.networks.mlp import MLP
from principia.optimization.gradient_descent import best_fixed_lr, descend
from principia.optimization.problems import Lessard, Problem, Quadratic, noisy_logistic

BelowOne = Annotated[float, Range(0, 1, open="high")]
STEPS = 1000  # of gradient descent in the experiment
GRID = 0.03 * 3.0 ** np.arange(5)  # learning rates of momentum; descent has 3 times as much


@final
class HeavyBall(GroupOptimizer):
    r"""Steps against the gradient and repeats a share of the last move.

    It remembers the last point, not a velocity, so that it is the formula also while `lr` changes;
    torch's velocity has the old `lr` in it no more.

    Args:
        params: Parameters, or groups of them.
        lr: $\eta$.
        beta: $\beta$, the share of the last move that is repeated.

    Example:
        >>> x = nn.Parameter(torch.ones(1))
        >>> ball = HeavyBall([x], lr=0.1, beta=0.5)
        >>> for _ in range(2):
        ...     loss = ball.step(lambda: (ball.zero_grad(), x.square().sum().backward()))
        >>> x  # 1 - 0.2 = 0.8, then 0.8 - 0.16 - 0.5 * 0.2
        Parameter containing:
        tensor([0.5400], requires_grad=True)
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: Positive = 0.1, beta: BelowOne = 0.9
    ) -> None:
        super().__init__(params, {"lr": lr, "beta": beta})

    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Add a share of the last move to a step against the gradient."""
        last = self.memory(params, "last", torch.clone)
        self.remember(params, "last", map(torch.clone, params))
        torch._foreach_lerp_(params, last, -group["beta"])  # away from the last point
        torch._foreach_add_(params, gradients, alpha=-group["lr"])


@final
class EMAMomentum(GroupOptimizer):
    r"""Steps along a moving average of the gradients, corrected for its start at 0.

    Args:
        params: Parameters, or groups of them.
        lr: $\eta$.
        alpha: $\alpha$, the weight of the past; or two, between which it moves evenly.
        rise: Steps that the way from the first to the second weight takes.

    Example:
        >>> x = nn.Parameter(torch.ones(1))
        >>> x.grad = torch.tensor([5.0])
        >>> EMAMomentum([x], lr=0.1).step()  # the first step is that of gradient descent
        >>> x.item()
        0.5
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: Positive = 0.1,
        alpha: BelowOne | tuple[BelowOne, BelowOne] = 0.9, *, rise: Count = 1000,
    ) -> None:
        first, last = alpha if isinstance(alpha, tuple) else (alpha, alpha)
        for one in (first, last):
            if not 0 <= one < 1:
                raise refuse("EMAMomentum", "alpha", "in [0, 1), one number or two", alpha)
        super().__init__(params, {"lr": lr, "alpha": first, "last": last, "rise": rise})

    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Average the gradients and step along what the average would be without its start."""
        passed = min((group["taken"] - 1) / group["rise"], 1.0)
        alpha = group["alpha"] + passed * (group["last"] - group["alpha"])
        group["start"] = group.get("start", 1.0) * alpha  # weight that the start at 0 still has
        average = self.memory(params, "average")
        torch._foreach_mul_(average, alpha)
        torch._foreach_add_(average, gradients, alpha=alpha - 1)
        torch._foreach_add_(params, average, alpha=group["lr"] / (1 - group["start"]))


@checked
def tuned_heavy_ball(L: Positive, mu: Positive) -> dict[str, float]:
    r"""Gives the `lr` and `beta` that are best for all quadratics with curvatures in $[\mu,L]$.

    Example:
        >>> tuned_heavy_ball(9.0, 1.0)
        {'lr': 0.25, 'beta': 0.25}
    """
    if mu > L:
        hint = "It is the smallest curvature, L the largest."
        raise refuse("tuned_heavy_ball", "mu", f"at most L = {L:g}", mu, hint)
    root = math.sqrt(L / mu)
    return {"lr": 4 / (math.sqrt(L) + math.sqrt(mu)) ** 2, "beta": ((root - 1) / (root + 1)) ** 2}


@claim(control={"dampening": 0.5}, source="Sutskever et al. 2013, sec. 2")
def torch_momentum_is_heavy_ball(
    seed: Seed, *, dim: Annotated[int, Range(1, 50)] = 8,
    beta: Annotated[float, Range(0, 0.99)] = 0.9, dampening: Fraction = 0.0,
) -> Evidence:
    r"""For a constant step `torch.optim.SGD(momentum)` is the two-point form of the heavy ball."""
    risk = noisy_logistic(seed.torch(), dim=dim)
    lr = 1 / float(risk.smoothness or 1)
    ours = _run(risk, HeavyBall, 200, lr=lr, beta=beta)
    torchs = _run(risk, torch.optim.SGD, 200, lr=lr, momentum=beta, dampening=dampening)
    gap = ours["value"] - risk.minimum
    theirs = torchs["value"] - risk.minimum
    return equal(
        torchs["theta"], ours["theta"], tol=1e-12, why="rounding of 200 steps of numbers below 10"
    ).drawn(
        Series("torch.optim.SGD", torchs.step[::4], theirs[::4, 0].clamp(min=1e-17)),
        Series("HeavyBall", ours.step, gap[:, 0].clamp(min=1e-17), "predicted"),
        x="step t", y="h above its minimum", log="y",
    )


@claim(
    control={"form": "printed"}, source="Polyak 1964; a geometric sum",
    misprint=r"$-\eta(\sum_{\tau=1}^{t-1}\beta^\tau)\nabla h$; the sum starts at 0",
)
def constant_gradient_step(
    seed: Seed, *, beta: Annotated[float, Range(0.3, 0.95)] = 0.9,
    lr: Annotated[float, Range(0.01, 1)] = 0.1, form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""If the gradient stays, step $t$ is $-\eta\frac{1-\beta^t}{1-\beta}\nabla h$."""
    gradient = torch.randn(5, generator=seed.torch(), dtype=torch.float64)
    x = nn.Parameter(torch.zeros_like(gradient))
    ball, points, steps = HeavyBall([x], lr=lr, beta=beta), [x.detach().clone()], 1000
    for _ in range(steps):
        x.grad = gradient
        ball.step()
        points.append(x.detach().clone())
    t = torch.arange(1, steps + 1, dtype=gradient.dtype)
    factor, missing = torch.stack(points).diff(dim=0) / gradient, int(form == "printed")
    formula = -lr * ((1 - beta**t) / (1 - beta) - missing)
    shown = slice(0, math.ceil(6 / (1 - beta)))
    return every({
        "finite t": identical(factor, formula[:, None].expand_as(factor)).drawn(
            Series("step / gradient", t[shown], factor[shown, 0]),
            Series("formula", t[shown], formula[shown], "predicted"),
            x="step t", y="move, in units of the gradient",
        ),
        "limit": equal(
            factor[-1], -lr * (1 / (1 - beta) - missing), tol=1e-9, why="rounding of a sum; β^1000"
        ),
    })


@claim(
    control={"beta": 1.0}, source="Polyak 1964", misprint=r"$\beta\in[0,1]$; at 1 nothing is damped"
)
def beta_below_one(
    seed: Seed, *, beta: Annotated[float, Range(0, 1)] = 0.99,
    curvature: Annotated[float, Range(0.1, 100)] = 1.0,
) -> Evidence:
    r"""On a quadratic it converges for every $\beta\in[0,1)$, if $\eta<2(1+\beta)/L$."""
    start = 1 + torch.rand(1, 2, generator=seed.torch(), dtype=torch.float64)
    below, above, curves = {}, {}, []
    for momentum in dict.fromkeys((0.0, 0.5, 0.9, beta)):
        steps = min(math.ceil(33 / (1 - momentum + 1e-9)), 3300) + 300
        # two curvatures side by side, such that one lr is 0.95 and 1.05 of their limits
        bowl = Quadratic([0.95 * curvature, 1.05 * curvature])
        lr = 2 * (1 + momentum) / curvature
        # torch's, which takes a momentum of 1
        trace = _run(bowl.at(start), torch.optim.SGD, steps, lr=lr, momentum=momentum)
        trace = trace["theta"][:, 0].abs()
        below[momentum] = trace[-100:, 0].max()  # an amplitude, whatever the phase
        above[momentum] = trace[100, 1] / trace[0, 1]
        shown = range(0, steps + 1, math.ceil(steps / 200))
        curves.append(Series(f"β = {momentum:g}", shown, trace[list(shown), 0], "other"))
    return every({
        "below the limit": at_most(
            torch.stack(list(below.values())), 1e-6, why="√β to the power of 33 / (1 - β) is 7e-8"
        ).drawn(*curves, x="step t", y="|θ| at 0.95 of the limit", log="y"),
        "above the limit": at_least(
            torch.stack(list(above.values())), 1e3, why="a root beyond 1.1 to the power of 100"
        ),
    })


@claim(
    control={"form": "printed"}, source="Kingma and Ba 2015, sec. 3, for the correction",
    misprint=r"$\hat m=m/(1-\alpha)^t$ and $\theta\leftarrow\theta-\eta\hat m$",
)
def ema_momentum_bias_correction(
    seed: Seed, *, alpha: Annotated[float, Range(0.5, 0.92)] = 0.9,
    dim: Annotated[int, Range(1, 50)] = 5, form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""With $\hat m=m/(1-\alpha^t)$ the first step is $-\eta\nabla h$, and the method descends."""
    rng, lr, steps = seed.torch(), 0.5, 200
    bowl = Quadratic(torch.linspace(0.5, 1, dim)).at(torch.randn(1, dim, generator=rng))
    start, gradient = bowl.theta.detach().clone(), bowl.gradient(bowl.theta)
    if form == "printed":
        points, m = [start], torch.zeros_like(start)
        for t in range(1, 7):
            m = alpha * m - (1 - alpha) * bowl.gradient(points[-1])
            points.append(points[-1] - lr * m / (1 - alpha) ** t)
        theta = torch.stack(points)
    else:
        theta = _run(bowl, EMAMomentum, steps, lr=lr, alpha=alpha)["theta"]
    values = bowl.value(theta)[:, 0]
    moving = _run(bowl, EMAMomentum, 1, lr=lr, alpha=(0.5, 0.99))["theta"][1]
    return every({
        "first step": equal(theta[1], start - lr * gradient, tol=1e-14, why="rounding of one step"),
        "first step, moving α": equal(moving, start - lr * gradient, tol=1e-14, why="the same"),
        "last value": at_most(
            values[-1], 1e-6, why="the amplitude falls by about √α a step, √0.92^200 = 2e-4"
        ),
    }).drawn(
        Series("EMAMomentum" if form == "correct" else "as printed", range(len(values)), values),
        x="step t", y="h", log="y",
    )


@claim(control={"momentum": False}, source="Polyak 1964, thm. 9")
def root_kappa_iterations(
    seed: Seed, *, largest: Annotated[float, Range(300, 3000)] = 1000.0,
    dim: Annotated[int, Range(2, 200)] = 50, momentum: bool = True,
) -> Evidence:
    r"""Tuned, a quadratic shrinks by $\frac{\sqrt\kappa-1}{\sqrt\kappa+1}$: $\sqrt\kappa$ steps."""
    kappas = np.geomspace(10, largest, 5)
    start = 1 + torch.rand(1, dim, generator=seed.torch(), dtype=torch.float64)
    counts, curves, rates, expected, bias = [], [], [], [], []
    for kappa in kappas:
        bowl = Quadratic(torch.logspace(-math.log10(kappa), 0, dim)).at(start)
        L, mu = float(bowl.smoothness or 1), 1 / float(kappa)
        tuned = tuned_heavy_ball(L, mu) if momentum else {"lr": best_fixed_lr(L, mu), "beta": 0.0}
        steps = math.ceil(16 * math.sqrt(kappa) if momentum else 6 * kappa)
        trace = _run(bowl, HeavyBall, steps, **tuned)
        relative = trace["value"][:, 0] / trace["value"][0, 0]
        counts.append(int((relative > 1e-8).sum()))
        t, lengths = steps // 2, trace["theta"][:, 0].norm(dim=1)
        rates.append(float((lengths[2 * t] / lengths[t]) ** (1 / t)))
        expected.append((math.sqrt(kappa) - 1) / (math.sqrt(kappa) + 1))
        bias.append(expected[-1] * (2 ** (1 / t) - 1))
        curves.append(Series(f"κ = {kappa:.0f}", range(steps + 1), relative, "other"))
    return every({
        "steps to 1e-8": slope(
            kappas, counts, 0.5, tol=0.1,
            why="1/2 in the limit; a double root adds the logarithm of the number of steps",
            labels=("condition number κ", "steps to a gap of 1e-8"),
        ),
        "contraction": equal(
            rates, expected, tol=np.multiply(bias, 1.5),
            why="double roots at both ends of the spectrum: t ρ^t, which is 2^(1/t) above ρ",
        ).drawn(*curves, x="step t", y="gap, as a share of the first", log="y"),
    })


@claim(
    control={"problem": "Lessard"}, source="Lessard, Recht and Packard 2016, sec. 4.6",
    headline=True,
    misprint="momentum converges best of all first-order methods; that is so on quadratics",
)
def heavy_ball_needs_a_quadratic(
    seed: Seed, *, steps: Annotated[int, Range(200, 5000)] = 1000,
    problem: Literal["quadratic", "Lessard"] = "quadratic",
) -> Evidence:
    r"""Tuned for curvatures in $[1,25]$ it converges on quadratics, but not on all functions."""
    starts = torch.linspace(3.07, 3.46, 20, dtype=torch.float64)[:, None]
    if problem == "Lessard":
        bowl: Problem = Lessard().at(starts)
    else:
        inner = 1 + 24 * torch.rand(3, generator=seed.torch(), dtype=torch.float64)
        ends = torch.tensor([1.0, 25.0], dtype=torch.float64)
        bowl = Quadratic(torch.cat([ends, inner])).at(starts.expand(-1, 5))
    trace = _run(bowl, HeavyBall, steps, **tuned_heavy_ball(25.0, 1.0))["theta"]
    return at_most(
        trace[-3:].abs().amax(dim=(0, 2)), 1e-12, why="t (2/3)^t, and then rounding"
    ).drawn(
        Series("from 3.07", range(41), trace[:41, 0, 0], style="line"),
        Series("from 3.46", range(41), trace[:41, -1, 0], "other"),
        Series("minimum", [0, 40], [0, 0], "predicted"), x="step t", y="θ",
    )


@experiment(
    reaches={"steps": at_most_goal(400)},
    floor={"share": at_most_goal(0.6)},
    source="Sutskever et al. (2013) find momentum decisive; to beat are 1000 steps of gradient "
    "descent on the same data, each with its best learning rate",
)
def ravine(
    run: Run, *, beta: Annotated[float, Range(0, 0.99)] = 0.9,
    samples: Annotated[int, Range(200, 60_000)] = 1000,
) -> None:
    """Counts the steps in which momentum reaches the training loss of gradient descent."""
    if run.full:
        x, y = mnist("train", data_dir=run.data_dir)
        x, y, sizes = x[:samples].flatten(1), y[:samples], [784, 128, 10]
    else:
        x, y, *_ = digits()
        x, sizes = x.flatten(1), [64, 10]
        x = x * torch.logspace(0, -3, 64)  # features over three decades: a ravine
    # a linear model of small features has less curvature than a network
    steps, gentle = (STEPS, 1.0) if run.full else (200, 10.0)

    def trained(name: str, lr: float, momentum: float) -> list[float]:
        model = MLP(sizes, rng=run.seed.child("init").torch())
        sgd = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
        try:
            found: Trained = fit(
                model, (x, y), Supervised(F.cross_entropy), sgd, steps=steps, batch_size=len(x),
                seed=run.seed.child("order"), run=run, name=f"{name}-{lr:.3g}",
            )
        except Diverged:
            return [math.inf] * steps
        return [row["loss"] for row in found.history]

    plain, heavy = (
        {lr: trained(name, lr, momentum) for lr in GRID * scale}
        for name, momentum, scale in (("descent", 0.0, 3 * gentle), ("momentum", beta, gentle))
    )
    target = min(losses[-1] for losses in plain.values())
    first = {
        lr: next((t for t, loss in enumerate(losses) if loss <= target), steps)
        for lr, losses in heavy.items()
    }
    best = min(first, key=first.__getitem__)
    run.record(steps=first[best], share=first[best] / steps, target_loss=target, lr=best)
    descent = min(plain, key=lambda lr: plain[lr][-1])
    run.record(descent_lr=descent)
    run.figure("losses", figures.draw(Picture((
        Series(f"descent, lr {descent:.2g}", range(1, steps + 1), plain[descent], "other"),
        Series(f"momentum, lr {best:.2g}", range(1, steps + 1), heavy[best], style="line"),
        Series("where descent ends", [1, steps], [target] * 2, "bound"),
    ), "step", "training loss", "xy")))
    run.figure("ravine", _ravine_figure())


def _run(problem: Problem, kind: Any, steps: int, **options: Any) -> Any:
    """Run an optimizer from where the problem is, on a copy of it."""
    twin = problem.at(problem.theta)
    record = ("value", "theta")
    return descend(twin, kind(twin.parameters(), **options), steps, record=record)


def _ravine_figure() -> go.Figure:
    """Draw the paths of both methods in two dimensions, over the contours of a quadratic."""
    bowl = Quadratic([0.05, 1.0]).at(torch.tensor([[-9.0, 1.5]]))
    paths = {
        "gradient descent": _run(bowl, torch.optim.SGD, 40, lr=1.8),
        "heavy ball": _run(bowl, HeavyBall, 40, **tuned_heavy_ball(1.0, 0.05)),
    }
    x, y = np.linspace(-10, 3, 80), np.linspace(-2, 2, 60)
    heights = bowl.value(torch.tensor(np.stack(np.meshgrid(x, y), axis=-1)))
    figure = figures.draw(Picture((), "θ₁", "θ₂"))
    figure.add_trace(go.Contour(
        x=x, y=y, z=heights.sqrt().numpy(), showscale=False, colorscale="Greys", opacity=0.4,
        contours={"coloring": "lines"}, name="√h", hoverinfo="skip",
    ))
    for name, trace in paths.items():
        first, second = trace["theta"][:, 0].mT.tolist()
        figure.add_scatter(x=first, y=second, mode="lines+markers", name=name)
    return figure

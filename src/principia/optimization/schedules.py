r"""Schedules: how long each step is, from the first one to the last.

With noisy gradients a constant step ends in a ball around the minimum, and a shorter one in a
smaller ball: long steps go far, short steps arrive. A schedule has both, one after the other. It
may fall like a power of time, down to a floor (and then no further does the error), in stairs, or
along a cosine. At the start the loss may be too sharp for the step that will do later: a warm-up
grows into it while the path finds flatter ground. And where the loss has cliffs, one gradient can
undo a training: clipping keeps its direction and limits its length.

$$ \eta_t = Ct^{-\alpha}, \quad \eta_t = \max\Big(\eta_{\min}, \frac1t\Big), \quad
\eta_t = \eta\min\Big(1, \frac t{t_w}\Big) $$

$$ \mathrm{Var}[\theta^\infty] = \frac{\eta\sigma^2}{\lambda(2-\eta\lambda)}, \quad
\sum_t\eta_t = \infty\ \text{and}\ \sum_t\eta_t^2 < \infty \iff \frac12 < \alpha \le 1 $$

$$ g \leftarrow g\min\Big(1, \frac c{\Vert g\Vert}\Big) $$

Symbols:
    $\eta_t$: rate of step $t=1, 2, \dots$, the `lr` of every group of an optimizer
    $C, \alpha$: first rate and exponent of `power_decay`; `robbins_monro` judges the exponent
    $\eta_{\min}$: lowest rate, `floor` of `floor_decay`
    $t_w$: length of a `warmup`, `steps`
    $g, c$: gradient of all parameters together, and its longest length, in `clip_gradients`
    $\lambda, \sigma^2$: curvature, and variance of the noise of the gradient

References:
    Robbins and Monro (1951), A stochastic approximation method. Annals of Mathematical Statistics
        22(3). doi:10.1214/aoms/1177729586
    Pascanu, Mikolov and Bengio (2013), On the difficulty of training recurrent neural networks.
        International Conference on Machine Learning. arXiv:1211.5063
    Loshchilov and Hutter (2017), SGDR: stochastic gradient descent with warm restarts.
        International Conference on Learning Representations. arXiv:1608.03983
    Goyal et al. (2017), Accurate, large minibatch SGD: training ImageNet in 1 hour.
        arXiv:1706.02677
    Smith and Topin (2019), Super-convergence: very fast training of neural networks using large
        learning rates. SPIE Artificial Intelligence and Machine Learning. arXiv:1708.07120
    Lewkowycz, Bahri, Dyer, Sohl-Dickstein and Gur-Ari (2020), The large learning rate phase of deep
        learning: the catapult mechanism. arXiv:2003.02218
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine
        learning algorithms. arXiv:1708.07747
"""

__all__ = ["power_decay", "floor_decay", "warmup", "clip_gradients", "robbins_monro"]

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

import plotly.graph_objects as go
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, skip_init
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LambdaLR,
    LRScheduler,
    MultiStepLR,
    OneCycleLR,
    ReduceLROnPlateau,
    SequentialLR,
)
from torch.utils.hooks import RemovableHandle

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.domains import Natural, NonNegative, Positive, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_least, at_most, equal, estimates, every, never
from principia.lab.seeds import Seed
from principia.lab.training import (
    ClipNorm,
    Diverged,
    Part,
    Schedule,
    Supervised,
    accuracy,
    evaluate,
    fit,
    part,
)
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Problem, Quadratic, ScalarNet, noisy

Exponent = Annotated[float, Range(0, 1, open="low")]
Clip = Annotated[float, Range(0.5, 2)] | None
LOST = 1e9  # a loss from which nothing comes back
HIDDEN, SEQUENCES = 128, 16  # of the recurrent network: its units, and the sequences of a step
SEEDS = ("first", "second", "third")  # of the race


@checked
def power_decay(
    optimizer: Optimizer, alpha: Exponent = 0.5, C: Positive | None = None
) -> LambdaLR:
    r"""Lets the rate fall as $\eta_t=Ct^{-\alpha}$, $t=1$ being the first step.

    Args:
        optimizer: Whose rates are moved.
        alpha: $\alpha$; beyond 1 the steps would have a finite sum, and might not get there.
        C: The first rate; by default that of each group.

    Example:
        >>> sgd = SGD([nn.Parameter(torch.ones(1))], lr=0.4)
        >>> falling = power_decay(sgd, 0.5)
        >>> for _ in range(3):
        ...     sgd.step()
        ...     falling.step()
        >>> sgd.param_groups[0]["lr"]  # at the fourth step
        0.2
    """
    tops = _bases(optimizer) if C is None else [C] * len(optimizer.param_groups)
    return _scheduled(optimizer, tops, lambda t: t**-alpha)


@checked
def floor_decay(optimizer: Optimizer, floor: NonNegative = 1e-3) -> LambdaLR:
    r"""Lets the rate fall as $\eta_t=\max(\eta_{\min},1/t)$, whatever the optimizer's own was.

    Example:
        >>> sgd = SGD([nn.Parameter(torch.ones(1))], lr=0.1)
        >>> schedule, rates = floor_decay(sgd, 0.3), []
        >>> for _ in range(4):
        ...     sgd.step()
        ...     rates += schedule.get_last_lr()
        ...     schedule.step()
        >>> [round(rate, 3) for rate in rates]
        [1.0, 0.5, 0.333, 0.3]
    """
    tops = [1.0] * len(optimizer.param_groups)
    return _scheduled(optimizer, tops, lambda t: max(floor, 1 / t))


@checked
def warmup(
    optimizer: Optimizer, steps: Natural, then: LRScheduler | None = None
) -> LRScheduler:
    """Raises the rate evenly to where another schedule begins, and lets that one go on.

    Args:
        optimizer: Whose rates are moved.
        steps: How many steps the rise takes; the last of them has the full rate. After 0 steps
            there is nothing but the other schedule.
        then: Schedule of the same optimizer, as it was made; by default the rate stays.

    Example:
        >>> sgd = SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        >>> schedule, rates = warmup(sgd, 4, CosineAnnealingLR(sgd, 2)), []
        >>> for _ in range(7):
        ...     sgd.step()
        ...     rates += schedule.get_last_lr()
        ...     schedule.step()
        >>> [round(rate, 3) for rate in rates]
        [0.25, 0.5, 0.75, 1.0, 1.0, 0.5, 0.0]
    """
    then = LambdaLR(optimizer, lambda t: 1.0) if then is None else then
    composed = isinstance(then, (SequentialLR, ReduceLROnPlateau))  # torch cannot put them behind
    if composed or then.optimizer is not optimizer or then.last_epoch:
        domain = "a single schedule of the same optimizer that has not moved yet"
        raise refuse("warmup", "then", domain, f"{type(then).__name__} at step {then.last_epoch}")
    if not steps:
        return then
    tops = [float(rate) for rate in then.get_last_lr()]
    rise = _scheduled(optimizer, tops, lambda t: min(1.0, t / steps))
    return SequentialLR(optimizer, [rise, then], [steps])


@checked
def clip_gradients(
    optimizer: Optimizer, c: Positive, *, by: Literal["norm", "value"] = "norm"
) -> RemovableHandle:
    r"""Makes an optimizer clip its gradients before every step, by torch's own functions.

    Whoever clips by hand may do it after the step, which is too late. This is called once and does
    it at the right time, also where a closure computes the gradients within the step.

    Args:
        optimizer: What is made to clip; `.remove()` of what is returned ends it.
        c: The longest norm of all gradients together, $g\min(1,c/\Vert g\Vert)$ (torch adds 1e-6 to
            the norm), or the largest value of each entry.
        by: Whether norm or values are limited; the second turns the gradient.

    Example:
        >>> p = nn.Parameter(torch.zeros(2))
        >>> sgd = SGD([p], lr=1.0)
        >>> handle = clip_gradients(sgd, 1.0)
        >>> p.grad = torch.tensor([-30.0, -40.0])
        >>> sgd.step()
        >>> p.detach()
        tensor([0.6000, 0.8000])
    """
    for one in optimizer._optimizer_step_pre_hooks.values():
        if isinstance(one, _Clipping):
            hint = "Call it once, before training: it clips before every step(), not after it."
            got = f"{type(optimizer).__name__} clipped at {one.c:g}"
            raise refuse("clip_gradients", "optimizer", "one that does not clip yet", got, hint)
    return optimizer.register_step_pre_hook(_Clipping(c, by))


@checked
def robbins_monro(alpha: Positive) -> tuple[bool, bool]:
    r"""Tells of $\eta_t=Ct^{-\alpha}$ whether the sum diverges, and that of squares converges.

    If both, the steps reach any minimum and come to rest there, however noisy the gradients.

    Example:
        >>> robbins_monro(0.5), robbins_monro(0.75), robbins_monro(1.5)
        ((True, False), (True, True), (False, True))
    """
    return alpha <= 1, alpha > 0.5


@part()
def clipping(run: Run, *, norm: Positive = 1.0) -> Part:
    """Shortens the gradient of all parameters together whenever it is too long.

    Args:
        norm: Largest norm of the gradient.
    """
    return ClipNorm(norm)


def _bases(optimizer: Optimizer) -> list[float]:
    """Give the rate of every group from before all schedules."""
    return [float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups]


def _scheduled(
    optimizer: Optimizer, tops: Sequence[float], shape: Callable[[int], float]
) -> LambdaLR:
    """Give each group its own top times the shape at step t = 1, 2, ..., both absolute."""
    scales = [top / base for top, base in zip(tops, _bases(optimizer), strict=True)]
    return LambdaLR(
        optimizer, [lambda t, scale=scale: scale * shape(t + 1) for scale in scales]
    )


@final
@dataclass(frozen=True)
class _Clipping:
    """Clips when a step begins, or behind the closure that computes the gradients within it."""

    c: float
    by: str

    def __call__(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        clip = clip_grad_norm_ if self.by == "norm" else clip_grad_value_
        params = [p for group in optimizer.param_groups for p in group["params"]]
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            clip(params, self.c)
            return None

        def clipped() -> Any:
            loss = closure()
            clip(params, self.c)
            return loss

        return (optimizer, clipped), {}  # a step has no other argument


@claim(control={"noise": 0.0}, source="the variance of a linear recursion; Robbins and Monro 1951")
def decay_shrinks_the_ball(
    seed: Seed, *, lr: Annotated[float, Range(0.05, 0.5)] = 0.3,
    curvature: Annotated[float, Range(0.5, 1.5)] = 1.0,
    divide: Annotated[float, Range(2, 20)] = 10.0, noise: Annotated[float, Range(0, 10)] = 1.5,
    runs: Annotated[int, Range(1000, 20_000)] = 20_000,
) -> Evidence:
    r"""Dividing $\eta$ by 10 divides the variance by $10\frac{2-\eta\lambda/10}{2-\eta\lambda}$."""
    low = lr / divide
    first, second = (math.ceil(8 / (rate * curvature)) for rate in (lr, low))
    # the last step before the change, and the last of all; some more for the picture
    at = {*range(0, first, max(1, first // 40)), first, first + second}
    at |= {*range(first, first + second, max(1, second // 60))}
    t, variance = _variances(
        seed, curvature, noise, runs, lr, sorted(at),
        lambda sgd: MultiStepLR(sgd, [first], gamma=1 / divide),
    )
    _, falling = _variances(
        seed.child("power"), curvature, noise, runs, lr, [first],
        lambda sgd: power_decay(sgd, 1.0, C=1 / curvature),
    )
    balls = {rate: rate * noise**2 / (curvature * (2 - rate * curvature)) for rate in (lr, low)}
    exact = divide * (2 - low * curvature) / (2 - lr * curvature)
    long, short, mean = variance[t == first][0], variance[-1], noise**2 / (curvature**2 * first)
    spread, why = (2 / runs) ** 0.5, "of variances of independent Gaussian rows"
    alphas = (0.25, 0.5, 0.75, 1.0, 1.25)
    return every({
        "ratio": estimates(
            long / short, exact, k=4, error=2**0.5 * spread * exact, why=why
        ).drawn(
            Series("measured", t, variance.clamp(min=1e-300)),
            Series(f"ball of η = {lr:g}", [0, first], [balls[lr]] * 2, "predicted"),
            Series(f"ball of η = {low:g}", [first, t[-1]], [balls[low]] * 2, "predicted"),
            x="step t", y="variance of θ", log="y",
        ),
        "before": estimates(
            long, balls[lr], k=4, error=spread * balls[lr], bias=math.exp(-16),
            why=f"{why}; what is left of the start at 1",
        ),
        "no ball under 1/λt": estimates(falling[0], mean, k=4, error=spread * mean, why=why),
        "who comes to rest": equal(
            [robbins_monro(alpha) for alpha in alphas], [_sums(alpha) for alpha in alphas], tol=0,
            why="yes or no",
        ),
    })


@claim(control={"floor": 0.0}, source="the variance of a linear recursion; Robbins and Monro 1951")
def floor_stops_the_descent(
    seed: Seed, *, floor: Annotated[float, Range(0, 0.1)] = 1e-3,
    steps: Annotated[int, Range(4000, 20_000)] = 4000,
    runs: Annotated[int, Range(500, 4000)] = 2000,
) -> Evidence:
    r"""Under $\max(\eta_{\min},1/t)$ the variance stays at $\frac\eta{2-\eta}$; under $1/t$ not."""
    at = sorted({round(t) for t in torch.logspace(0, math.log10(steps), 41).tolist()} | {steps})
    t, variance = _variances(
        seed, 1.0, 1.0, runs, 0.5, at, lambda sgd: floor_decay(sgd, floor)
    )
    ball, error = floor / (2 - floor), (2 / runs) ** 0.5 * variance[-1]
    limit = [Series("η / (2 − η)", [1, steps], [ball] * 2, "bound")] if floor else []
    return estimates(
        variance[-1], ball, k=4, error=error, bias=math.exp(-6) * ball,
        why="of a variance of independent Gaussian rows; 3000 steps of 1e-3 leave e^-6 of the rest",
    ).drawn(
        Series("measured", t, variance), Series("under 1/t alone", t, 1 / t, "predicted"), *limit,
        x="step t", y="variance of θ", log="xy",
    )


@claim(control={"by": "value"}, source="Pascanu, Mikolov and Bengio 2013, algorithm 1")
def clipping_keeps_direction(
    seed: Seed, *, c: Annotated[float, Range(0.1, 10)] = 1.0,
    tensors: Annotated[int, Range(1, 6)] = 3, draws: Annotated[int, Range(100, 3000)] = 1000,
    by: Literal["norm", "value"] = "norm",
) -> Evidence:
    r"""$g\min(1,c/\Vert g\Vert)$ has the direction of $g$ and is no longer than $c$."""
    rng, entries = seed.torch(), 4
    lengths = 10 ** (4 * torch.rand(draws, generator=rng, dtype=torch.float64) - 2)
    g = torch.randn(draws, tensors, entries, generator=rng, dtype=torch.float64)
    g *= (c * lengths / g.flatten(1).norm(dim=1))[:, None, None]
    params = [nn.Parameter(torch.zeros(entries, dtype=g.dtype)) for _ in range(tensors)]
    sgd, moved = SGD(params, lr=1.0), torch.empty_like(g)
    clip_gradients(sgd, c, by=by)
    for place, gradient in enumerate(g.clone()):  # torch clips in place
        for p, one in zip(params, gradient, strict=True):
            p.data.zero_()
            p.grad = one
        sgd.step()
        moved[place] = -torch.stack([p.detach() for p in params])
    before, after = g.flatten(1), moved.flatten(1)
    long, short = before.norm(dim=1), after.norm(dim=1)
    cosine, expected = (before * after).sum(dim=1) / (long * short), long.clamp(max=c)
    order = long.argsort()[:: max(1, draws // 200)]
    return every({
        "cosine": at_least(cosine, 1.0, slack=1e-12, why="a positive multiple; rounding").drawn(
            Series("after", long[order], short[order]),
            Series("min(‖g‖, c)", long[order], expected[order], "predicted"),
            Series("c", long[order][[0, -1]], [c, c], "bound"),
            x="norm of the gradient", y="norm after clipping", log="xy",
        ),
        "norm": at_most(short, c, slack=1e-12 * c, why="rounding"),
        "length": equal(short, expected, tol=2e-6, why="torch adds 1e-6 to the norm it divides by"),
    })


@claim(control={"clip": None}, source="Pascanu, Mikolov and Bengio 2013, fig. 6")
def clipping_survives_the_cliff(
    seed: Seed, *, start: Annotated[float, Range(6, 15)] = 8.0,
    lr: Annotated[float, Range(0.05, 1)] = 0.1, clip: Clip = 1.0,
    steps: Annotated[int, Range(1000, 4000)] = 2000,
) -> Evidence:
    r"""On $\cosh x$ from $x=8$ clipped steps converge; without clipping they leave all bounds."""
    def path(c: float | None, count: int) -> tuple[Tensor, Tensor]:
        cliff = _Cliff().at(torch.tensor([[start]]))
        sgd = SGD(cliff.parameters(), lr=lr)
        if c is not None:
            clip_gradients(sgd, c)
        trace = descend(
            cliff, sgd, count, record=("theta",), at=[*range(0, count, count // 250 + 1), count]
        )
        x = trace["theta"].flatten().abs()
        return trace.step, torch.where(x.isfinite(), x, math.inf)

    (t, x), (early, free) = path(clip, steps), path(None, 6)
    straight = start - lr * (clip or math.inf) * t
    return at_most(x[-1], 1e-6, why="the last stretch shrinks by 1 - η a step").drawn(
        Series("clipped" if clip else "not clipped", t, x.clamp(1e-16, 1e20)),
        Series("without clipping", early, free.clamp(1e-16, 1e20), "other"),
        Series("start − ηct", t[straight > 1], straight[straight > 1], "predicted"),
        x="step t", y="distance |x| from the minimum", log="y",
    )


@claim(control={"clip": None}, source="Pascanu, Mikolov and Bengio 2013, sec. 3.2")
def clipped_rnn_survives(
    seed: Seed, *, length: Annotated[int, Range(30, 60)] = 50,
    steps: Annotated[int, Range(100, 400)] = 200, nets: Annotated[int, Range(1, 4)] = 3,
    clip: Clip = 1.0,
) -> Evidence:
    r"""With recurrent weights twice orthogonal SGD explodes; clipped at 1 the loss stays low."""
    losses = _recurrent_losses(seed, length, steps, nets, clip)
    largest = losses.amax(dim=0)
    t = range(1, len(losses) + 1)
    why = "a sum has variance 1, and a mean over 16 of them seldom is as much as 3 times that"
    return at_most(largest, 5.0, why=why).drawn(
        *(Series(f"network {k + 1}", t, losses[:, k].clamp(max=1e30), "other")
          for k in range(nets)),
        Series("range", [1, len(losses)], [5, 5], "bound"), x="step", y="loss", log="y",
    )


@claim(control={"warmup_steps": 0}, source="Goyal et al. 2017, sec. 2.2; Lewkowycz et al. 2020")
def warmup_passes_a_sharp_start(
    seed: Seed, *, warmup_steps: Annotated[int, Range(0, 1000)] = 500,
    peak: Annotated[float, Range(7, 10)] = 8.0, runs: Annotated[int, Range(50, 1000)] = 500,
    steps: Annotated[int, Range(3000, 5000)] = 3000,
) -> Evidence:
    r"""At $\eta=8/\lambda$ a sharp start diverges; grown into, it leads to a flat minimum."""
    begin = torch.tensor([[6.0, 0.3]], dtype=torch.float64)
    lr = peak / float((begin**2).sum())
    net = ScalarNet(label_noise=0.1, rng=seed.torch()).at(begin.expand(runs, 2))
    sgd = SGD(net.parameters(), lr=lr)
    schedule, at = warmup(sgd, warmup_steps), [*range(0, steps, 20), steps]
    trace = descend(net, sgd, steps, schedule=schedule, record=("theta",), at=at)
    sharpness = trace["theta"].square().sum(dim=-1)  # at a minimum it is the largest curvature
    lost = ~sharpness[-1].isfinite()
    median = sharpness.nan_to_num(math.inf, posinf=math.inf).median(dim=1).values
    kept = median.isfinite()
    edge = 2 / lr * torch.clamp(warmup_steps / trace.step.clamp(min=1), min=1)
    return every({
        "lost": never(lost, why="below 2/λ for as long as the ground is sharp"),
        "flat": at_most(median[-1], 3.0, why="label noise drifts toward the flattest minimum, 2"),
    }).drawn(
        Series("median of u² + v²", trace.step[kept], median[kept]),
        Series("stable below: 2 / η_t", trace.step[1:], edge[1:], "bound"),
        Series("flattest minimum", [0, steps], [2, 2], "predicted"),
        x="step t", y="sharpness", log="y",
    )


Make = Callable[[Optimizer, int], LRScheduler]
RACE: Mapping[str, tuple[Make, tuple[float, ...]]] = {  # and the peaks that each may choose from
    "constant": (lambda one, steps: LambdaLR(one, lambda t: 1.0), (0.003, 0.01, 0.03)),
    "step": (lambda one, steps: MultiStepLR(one, [steps // 2, 3 * steps // 4]), (0.02, 0.06)),
    "power": (lambda one, steps: power_decay(one), (0.1, 0.3)),  # soon far below the first
    "cosine": (CosineAnnealingLR, (0.02, 0.06)),
    "warmup_cosine": (
        lambda one, steps: warmup(one, steps // 10, CosineAnnealingLR(one, steps - steps // 10)),
        (0.02, 0.06),
    ),
    "one_cycle": (
        lambda one, steps: OneCycleLR(one, _bases(one), total_steps=steps + 1), (0.03, 0.1)
    ),
}


@experiment(
    reaches={"gain_in_errors": at_least_goal(1.0)},
    floor={"worst_accuracy": at_least_goal(0.9)},
    source="Loshchilov and Hutter (2017), sec. 4.1: cosine against other schedules; to beat is the "
    "best constant rate on the same data, by one standard error of the difference of means",
)
def schedule_race(
    run: Run, *, clip: Positive = 2.0, epochs: Annotated[int, Range(2, 30)] = 6,
    samples: Annotated[int, Range(500, 55_000)] = 6000,
) -> None:
    """Races six schedules on one small convolutional network, each with its best peak rate."""
    if run.full:
        (x, y), test = (fashion(part, data_dir=run.data_dir) for part in ("train", "test"))
        parts = (x[:samples], y[:samples]), (x[-5000:], y[-5000:]), test
    else:
        x, y, *test = digits()
        parts = (x[:-300], y[:-300]), (x[-300:], y[-300:]), test
    data, held, test = ((x[:, None], y) for x, y in parts)

    def errors(name: str, peak: float, seed: str) -> tuple[float, float, list[dict[str, float]]]:
        """Train; give the shares of errors on held-out and on test data, and the history."""
        own = run.seed.child(seed)
        model = _network(data[0].shape[-1], own.child("init").torch())
        sgd = SGD(model.parameters(), lr=peak, momentum=0.9)
        try:
            trained = fit(
                model, data, Supervised(F.cross_entropy), sgd, epochs=epochs, batch_size=32,
                parts=[_ClipAndLook(clip), Schedule(RACE[name][0])], seed=own, run=run,
                name=f"{name}-{peak:g}-{seed}",
            )
        except Diverged:
            return 1.0, 1.0, []
        scores = [evaluate(model, one, {"accuracy": accuracy}) for one in (held, test)]
        return 1 - scores[0]["accuracy"], 1 - scores[1]["accuracy"], trained.history

    best, histories, found = {}, {}, {}
    for name, (_, peaks) in RACE.items():
        chosen, seeds = (peaks, SEEDS) if run.full else (peaks[-1:], SEEDS[:1])
        tried = {peak: [errors(name, peak, seed) for seed in seeds] for peak in chosen}
        best[name] = min(tried, key=lambda peak: sum(one[0] for one in tried[peak]))
        histories[name] = tried[best[name]][0][2]
        found[name] = torch.tensor([one[1] for one in tried[best[name]]], dtype=torch.float64)
    mean = {name: float(one.mean()) for name, one in found.items()}
    run.record(worst_accuracy=1 - max(mean.values()))
    for name, one in mean.items():
        run.record(**{f"{name}_error": one, f"{name}_peak": best[name]})
    if run.full:
        pair = torch.stack([found["constant"], found["warmup_cosine"]])
        error = float(pair.var(dim=1).sum() / len(SEEDS)) ** 0.5
        gain = mean["constant"] - mean["warmup_cosine"]
        run.record(gain=gain, standard_error=error, gain_in_errors=gain / max(error, 1e-6))
    run.figure("schedules", _rates_figure(best, epochs * math.ceil(len(data[0]) / 32)))
    limit = Series("clipping threshold", [1, epochs], [clip, clip], "bound")
    for name, key, title, more in (
        ("losses", "loss", "training loss", ()),
        ("gradient_norms", "gradient_norm", "norm of the gradient, mean of an epoch", (limit,)),
    ):
        series = [
            Series(name, [row["epoch"] for row in one], [row[key] for row in one], "other")
            for name, one in histories.items()
        ]
        run.figure(name, figures.draw(Picture((*series, *more), "epoch", title, "y")))


@final
class _Cliff(Problem):
    """Measures cosh x: walls that are steeper than any step can bear."""

    minimum = 1.0

    def __init__(self) -> None:
        super().__init__(torch.full((1, 1), 8.0))

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        return theta.cosh().sum(dim=-1)


def _variances(
    seed: Seed, curvature: float, noise: float, runs: int, lr: float, at: Sequence[int],
    schedule: Callable[[Optimizer], LRScheduler],
) -> tuple[Tensor, Tensor]:
    """Run SGD on a noisy parabola from 1; give the steps, and the mean of the squares there."""
    bowl = noisy(Quadratic([curvature]).at(torch.ones(runs, 1)), noise, seed.torch())
    sgd = SGD(bowl.parameters(), lr=lr)
    trace = descend(bowl, sgd, at[-1], schedule=schedule(sgd), at=at)
    return trace.step, 2 / curvature * trace["value"].mean(dim=1)  # h is half of λθ²


def _sums(alpha: float) -> tuple[bool, bool]:
    """Add up steps over decades: a sum that diverges gets no less from the next than from one."""
    t = torch.arange(1, 10**5, dtype=torch.float64)

    def diverges(terms: Tensor) -> bool:
        one, two = terms[10**3 - 1 : 10**4 - 1].sum(), terms[10**4 - 1 :].sum()
        return bool(two > 0.999 * one)  # 1/t gives 0.9998; t^-1.25, the nearest other, 0.56

    return diverges(t**-alpha), not diverges(t ** (-2 * alpha))


def _recurrent_losses(
    seed: Seed, length: int, steps: int, nets: int, clip: float | None
) -> Tensor:
    """Let recurrent networks learn the sum of a sequence side by side; give losses (T, nets)."""
    rng = seed.torch()

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=rng, dtype=torch.float64)

    weights = [
        [nn.Parameter(2 * torch.linalg.qr(normal(HIDDEN, HIDDEN))[0]),
         nn.Parameter(0.1 * normal(1, HIDDEN)),
         nn.Parameter(0.3 * HIDDEN**-0.5 * normal(HIDDEN, 1))]
        for _ in range(nets)
    ]
    optimizers = [SGD(one, lr=0.05) for one in weights]
    if clip is not None:
        for one in optimizers:
            clip_gradients(one, clip)
    losses = []
    for _ in range(steps):
        x = normal(length, nets, SEQUENCES, 1)
        W, into, out = (torch.stack(one) for one in zip(*weights, strict=True))
        h = torch.zeros(nets, SEQUENCES, HIDDEN, dtype=x.dtype)
        for now in x:
            h = torch.tanh(torch.baddbmm(now * into, h, W))
        loss = (h @ out - x.sum(dim=0) / length**0.5).square().mean(dim=(1, 2))
        losses.append(loss.detach().nan_to_num(math.inf, posinf=math.inf))
        if bool((losses[-1] > LOST).all()):
            break
        for one in optimizers:
            one.zero_grad()
        loss.sum().backward()
        for one in optimizers:
            one.step()
    return torch.stack(losses)


def _network(side: int, rng: torch.Generator) -> nn.Sequential:
    """Build two convolutions with stride 2 and a linear layer; all weights are of the generator."""
    model = nn.Sequential(
        skip_init(nn.Conv2d, 1, 8, 5, stride=2, padding=2), nn.ReLU(),
        skip_init(nn.Conv2d, 8, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        skip_init(nn.Linear, 16 * math.ceil(side / 4) ** 2, 10),
    )
    with torch.no_grad():
        for p in model.parameters():
            scale = (2 / p[0].numel()) ** 0.5 if p.ndim > 1 else 0.0
            p.copy_(scale * torch.randn(p.shape, generator=rng))
    return model


@final
class _ClipAndLook(Part):
    """Clips the norm of the gradient and tells, for every epoch, the mean norm before that."""

    def __init__(self, c: float) -> None:
        self.c = c

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        self._norms: list[float] = []

    def before_step(self, model: nn.Module) -> None:
        self._norms.append(float(clip_grad_norm_(model.parameters(), self.c)))

    def after_epoch(self, model: nn.Module, row: dict[str, float]) -> str:
        row["gradient_norm"] = sum(self._norms) / len(self._norms)
        self._norms = []
        return ""

    def state_dict(self) -> dict[str, Any]:
        return {"norms": self._norms}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._norms = list(state["norms"])


def _rates_figure(peaks: Mapping[str, float], steps: int) -> go.Figure:
    """Draw the rates of all schedules over a training."""
    series = []
    for name, peak in peaks.items():
        sgd = SGD([nn.Parameter(torch.zeros(1))], lr=peak, momentum=0.9)
        schedule, rates = RACE[name][0](sgd, steps), []
        for _ in range(steps):
            rates.append(float(schedule.get_last_lr()[0]))
            sgd.step()
            schedule.step()
        thin = slice(None, None, math.ceil(steps / 300))
        series.append(Series(name, range(1, steps + 1)[thin], rates[thin], "other"))
    return figures.draw(Picture(tuple(series), "step", "learning rate"))

r"""Schedules: what is true of it, and what would refute it.

Knobs:
    lr: The learning rate at the beginning.
    curvature: Curvature of the bowl.
    divide: What the learning rate is divided by.
    noise: Size of the noise in a gradient.
    runs: Independent runs.
    form: Which variance is expected; the one for short steps is too small for long ones.
    floor: The rate below which a schedule does not fall; without one, the error goes on
        falling.
    steps: Steps of a run.
    c: The length, or the largest entry, to which gradients are cut.
    tensors: How many tensors a gradient consists of.
    draws: Random gradients that are clipped.
    by: Whether the length of a gradient is limited, or every entry, which turns it.
    start: Distance from the minimum at the start.
    clip: The length to which gradients are cut; without, a single one throws the training out.
    length: Length of a sequence.
    nets: Networks that learn side by side.
    warmup_steps: Steps in which the rate rises; without, the sharp start diverges.
    peak: The full rate times the curvature at the start, of which 2 is the most that is stable.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, MultiStepLR

from principia.lab.draws import randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Problem, Quadratic, ScalarNet, noisy
from principia.optimization.schedules import (
    clip_gradients,
    floor_decay,
    power_decay,
    robbins_monro,
    warmup,
)

Clip = Annotated[float, Range(0.5, 2)] | None
LOST = 1e9  # a loss from which nothing comes back
HIDDEN, SEQUENCES = 128, 16  # of the recurrent network: its units, and the sequences of a step


@claim(
    control={"form": "for short steps"},
    refutes=["ratio", "before"],
    source="the variance of a linear recursion; Robbins and Monro 1951",
    misprint=r"a ball of $\eta\sigma^2/2\lambda$, which is ten times smaller at a tenth of $\eta$",
)
def decay_shrinks_the_ball(
    seed: Seed, *, lr: Annotated[float, Range(0.05, 0.5)] = 0.3,
    curvature: Annotated[float, Range(0.5, 1.5)] = 1.0,
    divide: Annotated[float, Range(2, 20)] = 10.0, noise: Annotated[float, Range(0.1, 10)] = 1.5,
    runs: Annotated[int, Range(1000, 20_000)] = 20_000,
    form: Literal["exact", "for short steps"] = "exact",
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
    balls = {
        rate: rate * noise**2 / (curvature * (2 - rate * curvature * (form == "exact")))
        for rate in (lr, low)
    }
    exact = balls[lr] / balls[low]
    long, short, mean = variance[t == first][0], variance[-1], noise**2 / (curvature**2 * first)
    spread, why = (2 / runs) ** 0.5, "of variances of independent Gaussian rows"
    alphas = (0.25, 0.5, 0.75, 1.0, 1.25)
    return every({
        "ratio": within_errors(
            long / short, exact, k=4, error=2**0.5 * spread * exact, why=why
        ).drawn(
            Series("measured", t, variance.clamp(min=1e-300)),
            Series(f"ball of η = {lr:g}", [0, first], [balls[lr]] * 2, "predicted"),
            Series(f"ball of η = {low:g}", [first, t[-1]], [balls[low]] * 2, "predicted"),
            x="step t", y="variance of θ", log="y",
        ),
        "before": within_errors(
            long, balls[lr], k=4, error=spread * balls[lr], bias=math.exp(-16),
            why=f"{why}; what is left of the start at 1",
        ),
        "no ball under 1/λt": within_errors(falling[0], mean, k=4, error=spread * mean, why=why),
        "who comes to rest": equal(
            [robbins_monro(alpha) for alpha in alphas], [_sums(alpha) for alpha in alphas], tol=0,
            why="yes or no",
        ),
        "rates of two groups": _rates_as_printed(),
    })


def _rates_as_printed() -> Evidence:
    """Compare the rates of two groups with the formulas."""
    tops, found, expected = (0.7, 0.2), [], []

    def look(
        schedule: LRScheduler, formula: Callable[[int, float], float], steps: int = 9
    ) -> None:
        for t in range(1, steps + 1):
            found.append([group["lr"] for group in schedule.optimizer.param_groups])
            expected.append([formula(t, top) for top in tops])
            schedule.optimizer.step()
            schedule.step()

    def made() -> SGD:
        return SGD([{"params": [nn.Parameter(torch.ones(1))], "lr": top} for top in tops])

    def risen(t: int, top: float) -> float:
        return top * t / 4 if t < 5 else top * (1 + math.cos(math.pi * (t - 5) / 7)) / 2

    one, other = made(), made()
    look(power_decay(one), lambda t, top: top * t**-0.5)
    look(floor_decay(one, 0.3), lambda t, top: max(0.3, 1 / t))
    look(power_decay(one, 0.8), lambda t, top: top * t**-0.8)  # of the rates before all schedules
    look(power_decay(made(), 1.0, 3.0), lambda t, top: 3.0 / t)
    look(floor_decay(made()), lambda t, top: max(1e-3, 1 / t), 1003)
    look(warmup(made(), 4), lambda t, top: top * min(1.0, t / 4))
    look(warmup(other, 4, CosineAnnealingLR(other, 7)), risen)
    look(warmup(made(), 0), lambda t, top: top)
    return equal_to_rounding(found, expected)


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
    return within_errors(
        variance[-1], ball, k=4, error=error, bias=math.exp(-6) * ball,
        why="of a variance of independent Gaussian rows; 3000 steps of 1e-3 leave e^-6 of the rest",
    ).named("variance of θ at the end").drawn(
        Series("measured", t, variance), Series("under 1/t alone", t, 1 / t, "predicted"), *limit,
        x="step t", y="variance of θ", log="xy",
    )


@claim(
    control={"by": "value"}, refutes=["cosine", "norm", "length"],
    source="Pascanu, Mikolov and Bengio 2013, algorithm 1",
)
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
        "length": equal(
            short, expected, tol=2e-6, why="torch adds 1e-6 to the norm it divides by"
        ),
        "at the right time": _clipped_by_hand(seed.child("by hand").torch(), c),
    })


def _clipped_by_hand(rng: torch.Generator, c: float) -> Evidence:
    """Compare with torch's functions between backward and step, for every way to call a step."""
    x, found, expected = 5 * c * randn(rng, 6, 4), [], []
    norm, value = clip_grad_norm_, clip_grad_value_
    ways: list[tuple[Any, dict[str, Any]]] = [
        (norm, {}), (norm, {"by": "norm"}), (value, {"by": "value"})
    ]
    for (torchs, options), call in itertools.product(ways, ("plain", "closure", "named closure")):
        params = [nn.Parameter(torch.zeros(n, dtype=x.dtype)) for n in (3, 1)]
        sgd = SGD([{"params": [p]} for p in params], lr=0.5)
        handle, point = clip_gradients(sgd, c, **options), torch.zeros(4, dtype=x.dtype)
        for number, row in enumerate(x):

            def closure(row: Tensor = row, params: list[nn.Parameter] = params) -> Tensor:
                for p, g in zip(params, row.split([3, 1]), strict=True):
                    p.grad = g + p.detach()
                return row.sum()

            if number == 4:
                handle.remove()
            if call == "plain":
                loss = closure()
                sgd.step()
            else:
                loss = sgd.step(closure) if call == "closure" else sgd.step(closure=closure)
            by_hand = nn.Parameter(torch.zeros_like(point))
            by_hand.grad = row + point
            if number < 4:
                torchs([by_hand], c)
            point = point - 0.5 * by_hand.grad
            found += [loss, *torch.cat([p.detach() for p in params])]
            expected += [row.sum(), *point]
    return equal_to_rounding(torch.stack(found), torch.stack(expected))


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
    return at_most(
        x[-1], 1e-6, why="the last stretch shrinks by 1 - η a step"
    ).named("distance from the minimum at the end").drawn(
        Series("clipped" if clip else "not clipped", t, x.clamp(1e-16, 1e20)),
        Series("without clipping", early, free.clamp(1e-16, 1e20), "other"),
        Series("start − ηct", t[straight > 1], straight[straight > 1], "predicted"),
        x="step t", y="distance |x| from the minimum", log="y",
    )


@final
class _Cliff(Problem):
    """Measures cosh x: walls that are steeper than any step can bear."""

    minimum = 1.0

    def __init__(self) -> None:
        super().__init__(torch.full((1, 1), 8.0))

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        return theta.cosh().sum(dim=-1)


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
    return at_most(largest, 5.0, why=why).named("largest loss of each network").drawn(
        *(Series(f"network {k + 1}", t, losses[:, k].clamp(max=1e30), "other")
          for k in range(nets)),
        Series("range", [1, len(losses)], [5, 5], "bound"), x="step", y="loss", log="y",
    )


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

r"""Averaging the iterates: what is true of it, and what would refute it.

Knobs:
    updates: How many points are averaged.
    beta: Weight of the newest point in the average.
    fraction: Share of the points that counts, the last ones.
    decay: What torch is given as its decay, the weight of the past; $\beta$ is that of the new.
    taken: When a point is taken into the average; before the step it is one step too old.
    alpha: How fast steps get shorter, as $t^{-\alpha}$.
    sigma: Size of the noise in a gradient.
    curvature: The least curvature of the bowl.
    steps: Steps of a run.
    evaluate: What is judged; the last iterate comes nearer more slowly than the average.
    steps_fall: Whether steps get shorter; at one length the last iterate comes no nearer.
    longest: The largest number of steps for which a run is planned.
    runs: Independent runs.
    form: Whether the rate is $T^{-1/2}$ or, as misprinted, $T^{-1}$, which needs strong
        convexity.
    method: Whether long steps are averaged, or the last of steps like $1/t$ is taken, which is
        worse.
    rho: Correlation of an iterate with the next.
    formula: The share of the variance that an average should keep; β alone is too large.
    hidden: Hidden units of a network.
    lr: The learning rate.
    of: Which points are averaged; between those of two runs there is a hill.
    second: Where the second run starts; from the first one's start on, there is no hill.
    rows: Samples of the data.
    renew: Whether `update_bn` measures the statistics; without it they are those of the last
        point.
"""

import math
import warnings
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector, skip_init, vector_to_parameters
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

from principia.lab.data.digits import digits
from principia.lab.draws import randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    every,
    slope,
    standard_error,
    within_errors,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.networks.mlp import MLP
from principia.optimization.averaging import Averaged, WeightAverage, exponential, tail
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Quadratic, noisy
from principia.optimization.sgd import Slopes, batches

Sigma = Annotated[float, Range(0.1, 10)]


@claim(
    control=[
        Control(
            {"decay": "β"}, ["exponential", "exponential, here", "exponential of a problem"],
            "β for the decay",
        ),
        Control(
            {"taken": "before the step"},
            ["running mean", "running mean, here", "running mean of a problem", "tail"],
            "points that are taken a step too early",
        ),
    ],
    source="by construction; torch.optim.swa_utils",
)
def torch_average_is_the_formula(
    seed: Seed, *, updates: Annotated[int, Range(5, 200)] = 50,
    beta: Annotated[float, Range(0.01, 0.99)] = 0.1,
    fraction: Annotated[float, Range(0.05, 1)] = 0.4,
    decay: Literal["1 - β", "β"] = "1 - β",
    taken: Literal["after the step", "before the step"] = "after the step",
) -> Evidence:
    r"""`AveragedModel` is both recursions, with decay $1-\beta$: $\beta$ weighs the new point."""
    rng, model = seed.torch(), skip_init(nn.Linear, 3, 2, dtype=torch.float64)
    walk = torch.randn(updates + 1, 8, generator=rng, dtype=torch.float64).cumsum(dim=0)
    points, given = walk[1:], walk[1:] if taken == "after the step" else walk[:-1]
    bowl = Quadratic(torch.ones(4)).at(points[0].view(2, 4))
    kept = 1 - beta if decay == "1 - β" else beta
    averages: dict[str, AveragedModel | Averaged] = {
        "running mean": AveragedModel(model),
        "running mean, here": WeightAverage(model),
        "running mean of a problem": Averaged(bowl),
        "exponential": AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(kept)),
        "exponential, here": WeightAverage(model, exponential(1 - kept)),
        "exponential of a problem": Averaged(bowl, exponential(1 - kept)),
        "tail": WeightAverage(model, tail(fraction, steps=updates)),
        "tail, its default": WeightAverage(model, tail(steps=updates)),
        "tail of one": WeightAverage(model, tail(0.1 / updates, steps=updates)),
    }
    seen: dict[str, list[Tensor]] = {name: [] for name in averages}
    rules = {"exponential": exponential(1 - kept), "tail": tail(fraction, steps=updates)}
    seen |= {f"{name}, its rule alone": [given[0]] for name in rules}
    for number, point in enumerate(given):
        vector_to_parameters(point, model.parameters())
        bowl.theta.data.copy_(point.view(2, 4))
        for name, rule in rules.items():
            hand = seen[f"{name}, its rule alone"]
            hand += [rule(hand[-1], point, number)] * (number > 0)
        for name, one in averages.items():
            if isinstance(one, Averaged):
                one.update()
                seen[name].append(torch.from_numpy(one.theta.numpy().flatten()))
            else:
                one.update_parameters(model)
                seen[name].append(parameters_to_vector(one.parameters()).detach())
    t = torch.arange(1, updates + 1)
    mean = points.cumsum(dim=0) / t[:, None]
    fading = [points[0]]
    for point in points[1:]:
        fading.append((1 - beta) * fading[-1] + beta * point)
    late = {
        "tail": fraction, "tail, its rule alone": fraction, "tail, its default": 0.5,
        "tail of one": 0.0,
    }
    exact = {"running": mean, "exponential": torch.stack(fading)} | {
        name: points[-max(round(share * updates), 1) :].mean(dim=0)[None]
        for name, share in late.items()
    }
    parts = {}
    for name, found in seen.items():
        expected = exact[name if name in exact else name.split()[0].rstrip(",")]
        got = torch.stack(found)[-len(expected) :]
        why = "float64 rounding of sums of entries below 100"
        parts[name] = equal(got, expected, tol=1e-12, why=why).drawn(
            Series("points", t, points[:, 0], "other", "points"),
            Series(name, t[-len(got) :], got[:, 0]),
            Series("formula", t[-len(got) :], expected[:, 0], "predicted", "line"),
            x="update t", y="first entry of the weights",
        )
    return every(parts)


@claim(
    control=[
        Control({"evaluate": "last"}, ["average"], "the last iterate in place of the average"),
        Control({"steps_fall": False}, ["last iterate"], "steps that stay as long"),
    ],
    source="Polyak and Juditsky 1992; Ruppert 1988",
)
def averaging_reaches_one_over_t(
    seed: Seed, *, alpha: Annotated[float, Range(0.4, 0.55)] = 0.5, sigma: Sigma = 1.0,
    curvature: Annotated[float, Range(0.1, 10)] = 1.0,
    steps: Annotated[int, Range(2000, 10_000)] = 2000,
    evaluate: Literal["average", "last"] = "average", steps_fall: bool = True,
) -> Evidence:
    r"""Strongly convex, slow steps $t^{-\alpha}$: the average's gap is $O(1/t)$, not the last's."""
    runs = 4000
    bowl = noisy(Quadratic([curvature]).at(torch.ones(runs, 1)), sigma, seed.torch())
    optimizer = SGD(bowl.parameters(), lr=1 / curvature)
    falling = LambdaLR(optimizer, lambda t: (t + 1) ** -alpha if steps_fall else 1.0)
    at, mean = _times(100, steps), Averaged(bowl)
    both = descend(
        bowl, optimizer, steps, schedule=falling, at=at, record=("theta",), after=mean.update,
        iterate=lambda: torch.cat([mean.theta, bowl.theta], dim=1),
    )["theta"]
    t, (average, last) = at.double(), bowl.value(both[..., None]).mean(dim=1).unbind(dim=1)
    judged = average if evaluate == "average" else last
    level = sigma**2 / (2 * curvature)
    why = "each mean over the runs is known to 2 %, and the first steps are still felt"
    return every({
        "average": slope(t, judged, -1, tol=0.04, why=why).drawn(
            Series(evaluate, t, judged), Series("average, predicted", t, level / t, "predicted"),
            Series("last iterate", t, last, "other", "points"),
            Series("last, predicted", t, level / 2 * t**-alpha, "other"),
            x="step t", y="mean of h - h*", log="xy",
        ),
        "last iterate": slope(t, last, -alpha, tol=0.04, why=why),
    })


def _times(first: float, last: int) -> Tensor:
    """Space whole steps evenly on a logarithmic axis."""
    return torch.logspace(math.log10(first), math.log10(last), 21).round().long().unique()


@claim(
    control={"form": "printed"}, source="Agarwal et al. 2012; Nemirovski and Yudin 1983",
    misprint=r"averaging gives the optimal $O(1/t)$ for convex objectives",
)
def averaging_without_strong_convexity(
    seed: Seed, *, longest: Annotated[int, Range(1000, 10_000)] = 1000,
    runs: Annotated[int, Range(400, 1000)] = 400, form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""Convex only: the average is $\Theta(1/\sqrt T)$, on $x/\sqrt T$, the worst for $T$ steps."""
    at = _times(longest / 20, longest)
    T = at.double()
    # column by column another horizon T, in u = x √T: steps of T^(-1/2) in x are steps of 1 in u
    walk = noisy(Slopes(T**-0.5).at(T.sqrt().expand(runs, -1)), 1.0, seed.torch())  # from x = 1
    mean = Averaged(walk)

    def project_and_average() -> None:
        torch.clamp(walk.theta, -T.sqrt(), T.sqrt(), out=walk.theta.data)
        mean.update()

    averages = descend(
        walk, SGD(walk.parameters(), lr=1.0), longest, at=at, record=("theta",),
        iterate=lambda: mean.theta, after=project_and_average,
    )["theta"]  # (times, runs, horizons): each horizon has its average at its own time
    u = averages.diagonal(dim1=0, dim2=2)
    gaps = (u / T.sqrt() + 1).mean(dim=0) / T.sqrt()
    rate = -0.5 if form == "correct" else -1
    return slope(
        T, gaps, rate, tol=0.03, labels=("steps T", "mean of h - h* of the average"),
        why="each mean of the runs is known to 2 or 3 %, and the wall is met at whole steps only",
    ).named("exponent of the average's gap")


@claim(control={"method": "last"}, source="Polyak and Juditsky 1992, theorem 1")
def averaging_is_efficient(
    seed: Seed, *, curvature: Annotated[float, Range(0.7, 1.5)] = 1.0, sigma: Sigma = 1.0,
    steps: Annotated[int, Range(1000, 5000)] = 1000,
    method: Literal["average", "last"] = "average",
) -> Evidence:
    r"""$t\,E\Vert\bar\theta_t-\theta^*\Vert^2\to\mathrm{tr}(H^{-1}\Sigma H^{-1})$, the least."""
    lam, runs = torch.tensor([curvature, 2 * curvature], dtype=torch.float64), 4000
    bowl = noisy(Quadratic(lam).at(sigma * torch.ones(runs, 2)), sigma, seed.torch())
    averaged = method == "average"
    optimizer = SGD(bowl.parameters(), lr=1.0 if averaged else 0.3 / curvature)
    falling = LambdaLR(optimizer, lambda t: (t + 1) ** (-0.5 if averaged else -1.0))
    mean, at = Averaged(bowl), _times(10, steps)
    theta = descend(
        bowl, optimizer, steps, schedule=falling, at=at, record=("theta",), after=mean.update,
        iterate=(lambda: mean.theta) if averaged else None,
    )["theta"]
    errors = at[:, None] * theta.square().sum(dim=-1)
    limit = float((sigma / lam).square().sum())
    exact = _exact(lam, sigma, steps)[at - 1]
    found, error = errors.mean(dim=1), standard_error(errors, 1)
    return within_errors(
        found[-1], limit, error=error[-1], k=4, bias=(exact[-1] - limit).abs(),
        why="mean over the runs; the limit is not reached after so many steps, by the recursion "
        "of the second moments",
    ).named("t times the mean squared error").drawn(
        Series(f"{method}: t E|θ - θ*|²", at, found, error=4 * error),
        Series("average, exact", at, exact, "predicted"),
        Series("tr(H⁻¹ΣH⁻¹)", at[[0, -1]], [limit, limit], "bound"),
        x="step t", y="t times the mean squared error", log="x",
    )


def _exact(lam: Tensor, sigma: float, steps: int) -> Tensor:
    """Compute t times the average's expected squared error, steps t^(-1/2) from σ, by recursion."""
    point, cross, total = sigma**2 * torch.ones_like(lam), torch.zeros_like(lam), 0 * lam
    errors = []
    for t in range(1, steps + 1):
        lr = t**-0.5
        shrunk = 1 - lr * lam
        point = shrunk**2 * point + (lr * sigma) ** 2  # E θ²
        total = total + 2 * shrunk * cross + point  # E (sum of all θ)²
        cross = shrunk * cross + point  # E θ (sum of all θ)
        errors.append((total / t).sum())
    return torch.stack(errors)


@claim(control={"formula": "s² β"}, source="stationary AR(1) process; Box and Jenkins 1970, ch. 3")
def ema_variance_factor(
    seed: Seed, *, beta: Annotated[float, Range(0.03, 1)] = 0.05,
    rho: Annotated[float, Range(-0.8, 0.9)] = 0.5, sigma: Sigma = 1.0,
    formula: Literal["s² β / (2 - β)", "s² β"] = "s² β / (2 - β)",
) -> Evidence:
    r"""EMA: $s^2\frac\beta{2-\beta}\frac{1+\rho(1-\beta)}{1-\rho(1-\beta)}$, iterates $s^2$."""
    # steps of 1 on curvature 1 - ρ are an AR(1) chain: θ' = ρ θ + noise
    runs, chain = 20_000, torch.tensor([0.0, rho], dtype=torch.float64)
    steps = math.ceil(max(8 / beta, 8 / (1 - abs(rho))))
    bowl = noisy(Quadratic(1 - chain).at(torch.zeros(runs, 2)), sigma, seed.torch())
    mean, at = Averaged(bowl, exponential(beta)), _times(1, steps)
    both = descend(
        bowl, SGD(bowl.parameters(), lr=1.0), steps, at=at, record=("theta",), after=mean.update,
        iterate=lambda: torch.cat([mean.theta, bowl.theta], dim=1),
    )["theta"]
    variance = both.square().mean(dim=1)  # (times, 4); every mean is 0
    share = beta if formula == "s² β" else beta / (2 - beta)
    bonus = (1 + chain * (1 - beta)) / (1 - chain * (1 - beta))
    s2 = sigma**2 / (1 - chain**2)
    expected = torch.cat([s2 * share * bonus, s2])
    error = (2 / runs) ** 0.5 * variance[-1]
    return within_errors(
        variance[-1], expected, error=error, k=4, bias=1e-5 * expected,
        why="variances of independent Gaussian runs; the start is forgotten but for e⁻¹⁶",
    ).named("variances of averages and iterates").drawn(
        *(Series(name, at, variance[:, k], "measured" if k < 2 else "other", "points")
          for k, name in enumerate([
              "average, ρ = 0", f"average, ρ = {rho:g}", "iterate, ρ = 0", f"iterate, ρ = {rho:g}",
          ])),
        *(Series("predicted", at[[0, -1]], one.expand(2), "predicted") for one in expected),
        x="step t", y="variance", log="xy",
    )


@claim(
    control=[
        Control({"of": "two runs"}, ["loss of the mean"], "points of two runs"),
        Control(
            {"second": "the first one's start"}, ["hill between two runs"],
            "two runs of one start",
        ),
    ],
    source="Izmailov et al. 2018, sec. 3; Frankle et al. 2020",
)
def average_needs_one_basin(
    seed: Seed, *, hidden: Annotated[int, Range(16, 64)] = 32,
    lr: Annotated[float, Range(0.3, 0.6)] = 0.5, steps: Annotated[int, Range(300, 1000)] = 400,
    of: Literal["one run", "two runs"] = "one run",
    second: Literal["its own start", "the first one's start"] = "its own start",
) -> Evidence:
    """The mean of iterates of one run has a lower loss than they have; that of two runs has not."""
    x, y, *_ = digits()
    x = x.flatten(1)
    starts = ("first", "second" if second == "its own start" else "first")
    models = [MLP([64, hidden, 10], rng=seed.child(name).torch()) for name in starts]
    weights, _ = stack_module_state(models)  # type: ignore[arg-type]
    optimizer, rngs = SGD(weights.values(), lr=lr), [seed.child(k).torch() for k in range(2)]

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(models[0], weights, (x,)), y)

    late: list[dict[str, Tensor]] = []
    while len(late) < 50:
        for pair in zip(*(batches(len(x), 16, rng=rng) for rng in rngs), strict=True):
            optimizer.zero_grad()
            rows = torch.stack(pair)  # each run has batches of its own
            vmap(loss)(weights, x[rows], y[rows]).sum().backward()
            optimizer.step()
            steps -= 1
            if steps < 50 and len(late) < 50:
                late.append({name: one.detach().clone() for name, one in weights.items()})
    one_run = {name: torch.stack([now[name][0] for now in late]) for name in weights}
    two_runs = {name: one.clone() for name, one in late[-1].items()}
    points = one_run if of == "one run" else two_runs

    def losses(points: dict[str, Tensor]) -> Tensor:
        with torch.no_grad():
            return vmap(loss, in_dims=(0, None, None))(points, x, y).double()

    def means(points: dict[str, Tensor]) -> dict[str, Tensor]:
        """Average the points, one after the other; give the average after each of them."""
        carrier, seen = MLP([64, hidden, 10], rng=seed.torch()), []
        average = WeightAverage(carrier)
        for number in range(len(next(iter(points.values())))):
            carrier.load_state_dict({name: one[number] for name, one in points.items()})
            average.update_parameters(carrier)
            seen.append({name: p.detach().clone() for name, p in average.module.named_parameters()})
        return {name: torch.stack([one[name] for one in seen]) for name in points}

    at, averaged = losses(points), losses(means(points))
    ends, middle = losses(two_runs), losses(means(two_runs))[-1]
    k = range(1, len(at) + 1)
    return every({
        "loss of the mean": at_most(
            averaged[-1], at.mean(), why="noise of the steps, averaged away"
        ).drawn(
            Series("loss of each point", k, at, "other", "points"),
            Series("mean of these losses", k, at.mean().expand(len(at)), "bound"),
            Series("loss of the average so far", k, averaged, style="line"),
            x="point", y="training loss", log="y",
        ),
        "hill between two runs": at_least(
            middle, 2 * ends.mean(), why="a hill, not a wave: at least as high again"
        ),
    })


@claim(
    control={"renew": False}, refutes=["statistics"],
    source="Izmailov et al. 2018, sec. 3.2; torch.optim.swa_utils",
)
def average_needs_statistics_of_its_own(
    seed: Seed, *, updates: Annotated[int, Range(2, 50)] = 10,
    rows: Annotated[int, Range(20, 500)] = 60, renew: bool = True,
) -> Evidence:
    """After an update batch normalization has other inputs: a warning comes until `update_bn`."""
    rng = seed.torch()
    x = 5 + randn(rng, rows, 3)
    model = nn.Sequential(skip_init(nn.Linear, 3, 4), nn.BatchNorm1d(4)).double()
    average, heard = WeightAverage(model), []
    plain = WeightAverage(skip_init(nn.Linear, 3, 4, dtype=torch.float64))

    def listen(one: nn.Module, *, training: bool = False) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            one.train(training)(x)
        heard.append(len(caught))

    weights = [(randn(rng, 4, 3), randn(rng, 4)) for _ in range(updates)]
    listen(average)
    for W, b in weights:
        for p, value in zip(model[0].parameters(), (W, b), strict=True):
            p.data.copy_(value)
        model.train()(x)  # whose statistics are those of its own last point
        average.update_parameters(model)
        plain.update_parameters(model[0])
    again = WeightAverage(model)
    again.load_state_dict(average.state_dict())
    for one in (average, again, plain):
        listen(one)
    held: Any = average.module
    stale, units = held[1].running_mean.clone(), range(1, 5)
    if renew:
        update_bn(x.split(10), average)
    listen(average)
    means = held[1].running_mean.clone()
    listen(again, training=True)
    listen(again)
    average.update_parameters(model)
    listen(average)
    W, b = (torch.stack(some).mean(dim=0) for some in zip(*weights, strict=True))
    parts = (x @ W.mT + b).split(10)
    exact = torch.stack([one.mean(dim=0) for one in parts]).mean(dim=0)
    return every({
        "statistics": equal(
            means, exact, tol=1e-9, why="rounding; update_bn gives all batches one weight"
        ).drawn(
            Series("what the averaged weights give", units, exact, "gray", "bars"),
            Series("kept, after update_bn" if renew else "kept, never renewed", units, means),
            Series("kept before update_bn", units, stale, "red", "points"),
            x="unit", y="mean of what batch normalization gets",
        ),
        "when it warns": equal(heard, [0, 1, 1, 0, 0 if renew else 1, 0, 0, 1], tol=0, why="so"),
    })

r"""Gradient descent: what is true of it, and what would refute it.

Knobs:
    samples: Samples of the logistic regression.
    dim: Parameters of the problem; twice as many where half the directions are flat.
    steps: Steps of the method.
    weight_decay: How much SGD shrinks the weights as well; with any, it is not plain descent.
    scheduled: When the schedule lowers the step size; before a step, each is too short.
    points: Points from which a step is taken.
    kappa: The condition number of the bowl: its largest curvature over its smallest.
    understated: How many times too small an L the bound gets; it then promises too much.
    form: Which formula is checked: the right one, its misprint, or a bound taken for an equality.
    sizes: Step sizes on the grid among which the best is looked for.
    starts: Starting points.
    lr_scale: The step size in units of 1/L; at 2, descent on a bowl never comes to rest.
    largest: The largest condition number.
    gap: The share of the first height at which a run counts as done.
    momentum: Whether a tuned heavy ball runs instead, which needs the root of as many steps.
    hidden: Hidden units of a network.
    networks: Random networks whose next loss is predicted.
    half: Whether the curvature term has its factor 1/2; without it the second order is wrong.
    search: Whether each step is searched for; if not, nobody looks at how far a loss falls.
    lam: How strongly a long step is penalized, in units of L; below 1/2 steps may climb.
    stretch: How many times one coordinate of the step is shortened, which turns its direction.
"""

import math
from typing import Annotated, Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import LBFGS, SGD, Adam
from torch.optim.lr_scheduler import ExponentialLR

from principia.lab.draws import rand, randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    slope,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training import fit
from principia.networks.mlp import MLP
from principia.optimization.claims.problems import BOWL, classes, landscapes, steps_map, turned_bowl
from principia.optimization.gradient_descent import (
    PredictedChange,
    Trace,
    best_fixed_lr,
    critical_budget,
    descend,
    proximal_step,
    taylor_prediction,
)
from principia.optimization.momentum import tuned_heavy_ball
from principia.optimization.problems import (
    LogisticRisk,
    Problem,
    Quadratic,
    ScalarNet,
    SineBowl,
    log_spaced,
    noisy,
)
from principia.optimization.smoothness import NetworkRisk

Form = Literal["correct", "printed"]
Dim = Annotated[int, Range(2, 50)]
Points = Annotated[int, Range(20, 2000)]
Cloud = Annotated[int, Range(20, 5000)]
Kappa = Annotated[float, Range(2, 1000)]
LOOK: Any = ("theta", "gradient_norm", "value")
EXACT = "a theorem; rounding of values of this size"


@claim(
    control=[
        Control({"weight_decay": 0.1}, words="a decay of the weights"),
        Control({"scheduled": "before"}, words="the schedule moves before the step"),
    ], source="Cauchy 1847", no_figure="a loop written out gives the same numbers, to rounding",
)
def torch_sgd_is_gd(
    seed: Seed, *, samples: Annotated[int, Range(20, 500)] = 100, dim: Dim = 5,
    steps: Annotated[int, Range(5, 200)] = 30, weight_decay: Annotated[float, Range(0, 1)] = 0.0,
    scheduled: Literal["after", "before"] = "after",
) -> Evidence:
    r"""`torch.optim.SGD` without momentum makes exactly the step $\theta-\eta\nabla h(\theta)$."""
    risk, dice, wall = classes(seed, samples, dim), seed.child("noise").torch(), 1.0
    lr, start, loop = 4 / cast("float", risk.smoothness), randn(seed.torch(), 3, dim), []
    theta, ahead, found, expected = start, int(scheduled == "before"), [], []
    for t in range(steps + 1):  # the gradient is written out, not asked of autograd
        margins = theta @ risk.signed.mT
        slopes = -torch.sigmoid(-margins) @ risk.signed / samples + 0.1 * randn(dice, 3, dim)
        heights = [torch.logaddexp(-c * margins, 0 * margins).mean(dim=1) for c in (1, 2)]
        loop.append([theta, slopes.norm(dim=1), *heights])
        theta = (theta - 0.9 ** (t + ahead) * lr * slopes).clamp(-wall, wall)
    points, lengths, *values = (torch.stack(one) for one in zip(*loop, strict=True))
    for share, at in ((1, list(range(steps + 1))), (2, [0, 2, steps])):
        problem: Any = noisy(risk.at(start), 0.1, seed.child("noise").torch())
        sgd = SGD(problem.parameters(), lr=lr, weight_decay=weight_decay)
        trace = descend(
            problem, sgd, steps, schedule=ExponentialLR(sgd, 0.9), record=LOOK,
            at=None if share == 1 else [*at, 2][::-1],
            iterate=None if share == 1 else lambda p=problem: 2 * p.theta,
            after=lambda p=problem: p.theta.clamp_(-wall, wall),
        )
        found += [trace.step, *(trace[name] for name in LOOK)]
        expected += [torch.tensor(at), share * points[at], lengths[at], values[share - 1][at]]
    both = (torch.cat([x.flatten() for x in one]).numpy() for one in (found, expected))
    return equal_to_rounding(*both).named("number farthest from that of a loop written out")


def _descent(problem: Problem, lr: float, steps: int, *record: Any, **options: Any) -> Trace:
    return descend(problem, SGD(problem.parameters(), lr=lr, **options), steps,
                   record=record or ("value",))


@claim(control={"understated": 4.0}, refutes=["a bowl"], source="Nesterov 2018, sec. 1.2.3")
def descent_lemma(
    seed: Seed, *, points: Points = 200, dim: Dim = 10, kappa: Kappa = 100.0,
    understated: Annotated[float, Range(1, 10)] = 1.0,
) -> Evidence:
    r"""$h(\theta-\eta\nabla h)-h(\theta)\le-\eta(1-\frac{L\eta}2)\Vert\nabla h\Vert^2$."""
    share, parts = torch.linspace(0.1, 1.9, 19, dtype=torch.float64), {}
    for name, (problem, theta) in landscapes(seed, points, dim, kappa).items():
        L, g = cast("float", problem.smoothness) / understated, problem.gradient(theta)
        steps = torch.stack([proximal_step(g, L / float(one)) for one in share])
        after = problem.value(theta + steps)  # (steps, points)
        unit = (g * g).sum(dim=-1) / L
        change, bound = after - problem.value(theta), -share * (1 - share / 2)
        slack = 1e-12 * (1 + float(after.abs().max()))
        curves = [Series(f"point {k}", share, (change / unit)[:, k], "other") for k in range(4)]
        found = at_most(change, bound[:, None] * unit, slack=slack, why=EXACT)
        parts[name] = found.drawn(*curves, x="step size times L", y="change of h, in ‖∇h‖²/L")
    return every(parts)


@claim(
    control=[
        Control({"form": "printed"}, words="the square of the value, not of the gradient"),
        Control({"form": "equality"}, ["along the axes", "a bowl", "logistic risk"], "an equality"),
    ], source="Nesterov 2018, sec. 1.2.3",
    misprint=r"$h(\theta^{t+1})=h(\theta^t)-\frac1{2L}\Vert h(\theta^t)\Vert^2$",
)
def sufficient_decrease_is_a_bound(
    seed: Seed, *, points: Cloud = 1000, dim: Dim = 10,
    form: Literal["correct", "printed", "equality"] = "correct",
) -> Evidence:
    r"""At $\eta=1/L$ it is $h(\theta^+)\le h(\theta)-\Vert\nabla h\Vert^2/2L$, not equality."""
    curvature = torch.linspace(0, 1, 2 * dim + 1, dtype=torch.float64)[1:]  # L = 1; one is 1/2
    bowl, axes, parts = Quadratic(curvature), torch.eye(2 * dim, dtype=torch.float64), {}
    problems = {"along the axes": (bowl, axes), **landscapes(seed, points, dim, 100.0)}
    for name, (problem, theta) in problems.items():
        L, g = cast("float", problem.smoothness), problem.gradient(theta)
        new, height = problem.value(theta + proximal_step(g, L)), problem.value(theta)
        promised = height - (height**2 if form == "printed" else (g * g).sum(dim=-1)) / (2 * L)
        tol = 1e-12 * (1 + float(promised.abs().max()))
        parts[name] = at_most(new, promised, slack=tol, why=EXACT)
        if form != "correct":
            parts[name] = equal(new, promised, tol=tol, why=EXACT)
        if problem is bowl:
            parts["stiffest axis: equality"] = equal_to_rounding(new[-1], promised[-1])
            least, most = ((height - one) / curvature**2 for one in (promised, new))
            parts[name] = parts[name].drawn(
                Series("measured", curvature, most), Series("promised", curvature, least, "bound"),
                x="curvature of the axis, in units of L", y="decrease of h, in ‖∇h‖²/L")
    return every(parts)


@claim(
    control={"form": "printed"}, refutes=["below 2/L it converges"],
    source="Polyak 1987, Introduction to optimization, sec. 1.4.1",
    misprint=r"the step is $\eta=1/L$ or $2/L$",
)
def stable_iff_below_two_over_smoothness(
    seed: Seed, *, kappa: Annotated[float, Range(1, 30)] = 10.0, dim: Dim = 10,
    steps: Annotated[int, Range(500, 2000)] = 500, form: Form = "correct",
) -> Evidence:
    r"""On a quadratic gradient descent converges if and only if $\eta<2/L$."""
    bowl, times, found, theory = turned_bowl(seed, dim, kappa), torch.arange(steps + 1), [], []
    shares = [0.5, 1.0, 1.9, 2.0, 2.02]
    for share in shares:
        lr = float(share / bowl.eigenvalues.max())
        found.append(_largest_left(bowl, lr, steps))
        theory.append((1 - lr * bowl.eigenvalues).abs().max() ** times)
    last, many = torch.stack(found)[:, -1], 4 if form == "printed" else 3
    why = "the slowest factor is 1 - 1/60 at most, to the power 500 or more"
    return every({
        "below 2/L it converges": at_most(last[:many], 1e-3, why=why),
        "from 2/L on it does not": at_least(last[3:], 1, slack=1e-10, why="rounding of a power"),
        "the theory": equal_to_rounding(torch.stack(found), torch.stack(theory)),
    }).drawn(*(Series(f"η = {share:g}/L", times[::10], one[::10], "other") for share, one in
               zip(shares, found, strict=True)), x="t", y="largest coordinate", log="y")


def _largest_left(bowl: Quadratic, lr: float, steps: int) -> Tensor:
    basis = cast("Tensor", bowl.rotation)  # start with 1 along every one
    path = _descent(bowl.at(basis.sum(dim=1)[None]), lr, steps, "theta")["theta"][:, 0]
    return (path @ basis).abs().amax(dim=1)


@claim(
    control={"form": "printed"}, source="Polyak 1987, Introduction to optimization, sec. 1.4.2",
    misprint=r"a fixed step $\eta\le1/L$ is optimal",
)
def best_fixed_step(
    seed: Seed, *, kappa: Kappa = 10.0, dim: Dim = 10, sizes: Annotated[int, Range(50, 2000)] = 400,
    form: Form = "correct",
) -> Evidence:
    r"""The best fixed step is $2/(L+\mu)$: it contracts by $(\kappa-1)/(\kappa+1)$ a step."""
    bowl = turned_bowl(seed, dim, kappa)
    axes = cast("Tensor", bowl.rotation).mT  # unit eigenvectors, one a row
    L, mu = float(bowl.eigenvalues.max()), float(bowl.eigenvalues.min())
    lr = best_fixed_lr(L, mu) if form == "correct" else 1 / L
    grid = 2 / L * torch.linspace(0, 1, sizes + 1, dtype=torch.float64)
    factor = (axes - grid[:, None, None] * bowl.gradient(axes)).norm(dim=-1).amax(dim=-1)
    promised = ((kappa - 1) / (kappa + 1)) ** torch.arange(31.0, dtype=torch.float64)
    return every({
        "best of the grid": equal(grid[factor.argmin()], lr, tol=2 / L / sizes, why="the grid"),
        "30 steps": equal_to_rounding(_largest_left(bowl, lr, 30), promised),
    }).drawn(Series("slowest direction", grid, factor, style="line"),
             Series("formula", [lr, lr], [0, 1], "predicted"), x="step size η", y="factor a step")


@claim(control={"lr_scale": 2.0}, refutes=["a bowl"], source="Nesterov 2018, sec. 1.2.3")
def critical_point_within_budget(
    seed: Seed, *, starts: Points = 500, steps: Annotated[int, Range(200, 2000)] = 200,
    lr_scale: Annotated[float, Range(1, 2)] = 1.0,
) -> Evidence:
    r"""$\eta=1/L$ makes $\Vert\nabla h\Vert\le\epsilon$ within $2L(h(\theta^0)-h^*)/\epsilon^2$."""
    spread, parts, tols = rand(seed.torch(), starts, 1), {}, torch.tensor([0.9, 0.3, 0.1]).double()
    slide = LogisticRisk(torch.ones(1, 1), torch.ones(1))  # falls for ever: its infimum is 0
    problems = {BOWL: Quadratic([1.0]).at(0.3 + spread), "a slide": slide.at(-20 - 20 * spread),
                "ripples": SineBowl().at(20 * spread - 10)}
    for name, problem in problems.items():
        L, gaps = cast("float", problem.smoothness), problem().tolist()  # all have infimum 0
        norms = _descent(problem, lr_scale / L, steps, "gradient_norm")["gradient_norm"]
        short = norms <= tols[:, None, None]  # (tols, steps + 1, starts)
        budget = torch.tensor([[critical_budget(gap, L, float(tol)) for gap in gaps]
                               for tol in tols], dtype=norms.dtype)
        never_yet = torch.where(budget <= steps, math.inf, math.nan)  # NaN: it may still happen
        first = short.double().argmax(dim=1).where(short.any(dim=1), never_yet)
        parts[name] = at_most(first, budget, why="a theorem: no slack").drawn(
            Series("needed", gaps, first[2].clamp(1, steps).nan_to_num(steps)),
            Series("budget", gaps, budget[2], "bound", "points"),
            x="height at the start, above h*", y="steps to a gradient of 0.1", log="xy")
        exact = (2 * L * norms.new_tensor(gaps) / tols[:, None] ** 2).ceil()
        parts[f"{name}: whole steps"] = equal(budget, exact, tol=0, why="rounded up")
    return every(parts)


@claim(
    control={"form": "printed"}, source="Polyak 1963; Karimi, Nutini and Schmidt 2016, theorem 1",
    misprint=r"$h(\theta^T)-h^*\le(1-\frac\mu L)(h(\theta^T)-h^*)$, one index on both sides",
)
def pl_linear_rate(
    seed: Seed, *, starts: Points = 200, steps: Annotated[int, Range(20, 1000)] = 200,
    kappa: Kappa = 10.0, dim: Dim = 10, form: Form = "correct",
) -> Evidence:
    r"""$\mu$-PL and $\eta=1/L$: $h(\theta^t)-h^*\le(1-\mu/L)^t(h(\theta^0)-h^*)$, convex or not."""
    curvature = torch.cat([torch.zeros(dim), torch.logspace(-math.log10(kappa), 0, dim)])
    rng, times, parts = seed.torch(), torch.arange(steps + 1), {}
    Q = torch.linalg.qr(randn(seed.child("rotation").torch(), 2 * dim, 2 * dim)).Q
    flat = Quadratic(curvature.double(), rotation=Q)
    for name, problem in {"ripples": SineBowl(), "half the directions flat": flat}.items():
        problem = problem.at(5 * randn(rng, starts, problem.theta.shape[1]))
        L, mu = cast("float", problem.smoothness), cast("float", problem.pl)
        gap, factor = _descent(problem, 1 / L, steps)["value"], 1 - mu / L  # both have minimum 0
        bound = factor * gap if form == "printed" else factor ** times.double()[:, None] * gap[0]
        why = "a theorem; coordinates are rounded to 1e-14 of their size, and then squared"
        left, promised = ((one / gap[0]).clamp(1e-16)[:50] for one in (gap, bound))
        curves = [Series(f"start {k}", times[:50], left[:, k], "other") for k in range(4)]
        found = at_most(gap, bound, slack=1e-9 * bound + 1e-27 * gap[0], why=why)
        parts[name] = found.drawn(*curves, Series("bound", times[:50], promised[:, 0], "bound"),
                                  x="t", y="h − h*, as a share of the first", log="y")
    return every(parts)


@claim(
    control={"form": "printed"}, source="Nesterov 2018, corollary 2.1.2",
    misprint=r"the rate $O(1/t)$ is called linear, which is $O(c^t)$ with $c<1$",
)
def convex_rate_is_sublinear(
    seed: Seed, *, steps: Annotated[int, Range(2000, 20_000)] = 5000,
    dim: Annotated[int, Range(100, 1000)] = 400, form: Form = "correct",
) -> Evidence:
    r"""Convex, $\eta=1/L$: the gap is at most $2L\Vert\theta^0-\theta^*\Vert^2/(t+1)$, slope -1."""
    gap, half = _descent(log_spaced(dim), 1.0, steps)["value"][:, 0], steps // 2
    times = torch.logspace(math.log10(30), math.log10(steps), 40).round().long().clamp(max=steps)
    if form == "printed":
        rate, fall = (gap[100] / gap[1]).log() / 99, gap[2 * half] / gap[half]
        why = "a linear rate goes on at the factor of the first 100 steps, up to 10"
        return at_most(fall, 10 * (rate * half).exp(), why=why).named("fall of the second half")
    bound = 2 / torch.arange(1, steps + 2, dtype=torch.float64)  # from a distance of 1
    return every({
        "slope": slope(times, gap[times], -1.0, tol=0.03, labels=("t", "h − h*"),
                       why="the sum over a discrete spectrum stands for an integral"),
        "bound": at_most(gap, bound, why="a theorem: no slack"),
    })


@claim(control={"momentum": True}, source="Nesterov 2018, theorem 2.1.15; Polyak 1964")
def iterations_grow_with_condition_number(
    seed: Seed, *, largest: Annotated[float, Range(300, 10_000)] = 1000.0,
    gap: Annotated[float, Range(1e-12, 1e-6)] = 1e-8, momentum: bool = False,
) -> Evidence:
    r"""Strongly convex: the steps to a given relative gap grow like the condition number."""
    kappas, needed = torch.logspace(1, math.log10(largest), 5, dtype=torch.float64).tolist(), []
    for kappa in kappas:
        bowl = Quadratic(torch.logspace(-math.log10(kappa), 0, 20, dtype=torch.float64))
        best = {"lr": best_fixed_lr(1.0, 1 / kappa), "beta": 0.0}
        best = tuned_heavy_ball(1.0, 1 / kappa) if momentum else best
        enough = math.ceil(-math.log(gap) * (3 * kappa**0.5 if momentum else kappa / 4)) + 20
        value = _descent(bowl, best["lr"], enough, momentum=best["beta"])["value"][:, 0]
        needed.append(int((value > gap * value[0]).nonzero().max()) + 1)
    why = "a constant number of steps beside those that grow with the condition number"
    return slope(kappas, needed, 1.0, tol=0.05, why=why, labels=("κ", "steps")).named("power of κ")


@claim(control={"half": False}, refutes=["order of the error"], source="Taylor's theorem")
def second_order_prediction(
    seed: Seed, *, hidden: Annotated[int, Range(1, 50)] = 8,
    networks: Annotated[int, Range(20, 500)] = 50, half: bool = True,
) -> Evidence:
    r"""$-\eta\Vert g\Vert^2+\frac{\eta^2}2g^\top Hg$ is the loss's change up to $O(\eta^3)$."""
    rng = seed.torch()
    x, y = randn(rng, 30, 3), randn(rng, 30, 1)
    net = MLP([3, hidden, 1], activation="tanh", rng=rng).double()
    walk = NetworkRisk(net, lambda out, y: (out - y).square().mean(), x, y)
    spread = (4 + 4 * hidden) ** -0.5  # else 0.1 is no short step for a wide network
    problem = walk.at(spread * randn(rng, networks, walk.theta.shape[1]))
    cloud = problem.theta.detach()
    g, before = problem.gradient(cloud), problem.value(cloud)
    lrs, errors = torch.logspace(-3, -1, 9, dtype=torch.float64), []
    for lr in lrs.tolist():
        predicted, _ = taylor_prediction(problem, lr)
        if not half:  # the second term once more
            predicted = 2 * predicted + lr * (g * g).sum(dim=-1)
        errors.append((problem.value(cloud - lr * g) - before - predicted).abs().mean())
    why = "the fourth order bends the line at the long steps"
    axes, lr = ("step size η", "error of the prediction"), 2.0
    starts = torch.cat([torch.eye(3), torch.randn(networks, 3, generator=rng)])
    bowl = Quadratic([2.0, 1.0, 0.125]).at(starts)  # along axis 1 it changes nothing: too long
    shift = bowl.value(bowl.theta - lr * bowl.gradient(bowl.theta)) - bowl()
    change, too_long = taylor_prediction(bowl, lr)
    return every({
        "order of the error": slope(lrs, torch.stack(errors), 3.0, tol=0.15, why=why, labels=axes),
        "a quadratic": equal_to_rounding(change.numpy(), shift),
        "too long": never(too_long != (shift >= 0), why="of a parabola the prediction is exact"),
        **_logged(seed, x, y),
    })


def _logged(seed: Seed, x: Tensor, y: Tensor) -> dict[str, Evidence]:
    def rough(model: Any, batch: Any, rng: torch.Generator) -> Tensor:
        return F.mse_loss(model(batch[0]), batch[1] + randn(rng, *y.shape))

    def slanted(model: Any, batch: Any, rng: torch.Generator) -> Tensor:
        return nn.utils.parameters_to_vector(model.parameters()).sum()

    def trained(kind: Any, loss: Any, options: Any, every: int, parts: int = 1) -> Any:
        told = []  # last of all, the loss at the last step's start: at its first evaluation, too
        def objective(*given: Any) -> Tensor:
            told.append(loss(*given))
            return told[-1]
        layers = nn.BatchNorm1d(3, affine=False), nn.Dropout(0.3), MLP([3, 1], rng=seed.torch())
        model = nn.Sequential(*layers).double()  # linear, so that the loss is a parabola
        model.register_parameter("unused", nn.Parameter(torch.ones(2)))
        watches = {1: PredictedChange(objective), 3: PredictedChange(objective, every=3)}
        optimizer = kind(model.parameters(), **options)
        history = fit(model, (x, y), objective, optimizer, epochs=7, batch_size=len(x) // parts,
                      seed=seed, callbacks=[watches[every]] if every else []).history
        names = "predicted_change", "actual_change", "long_steps"
        rows = [[row[name] for name in names] for row in history if names[0] in row]
        end = [one.double().flatten() for one in model.state_dict().values()]
        end += [told[-1].detach()[None] - history[-1]["loss"]] if every else [x.new_zeros(1)]
        return torch.tensor(rows, dtype=x.dtype), torch.cat(end)

    pairs, rest = [], []
    for how in (
        (SGD, rough, {"lr": 0.6, "momentum": 0.9}), (Adam, rough, {"lr": 0.3}),
        (LBFGS, rough, {"max_iter": 3, "line_search_fn": "strong_wolfe"}), (SGD, slanted, {}),
    ):
        (rows, end), (some, other_end), (_, alone) = (trained(*how, every) for every in (1, 3, 0))
        pairs.append(rows[:, :2])
        rest += [rows[:, 2] - (rows[:, 0] >= 0).double(), (some - rows[::3]).flatten()]
        rest += [end - alone, other_end - alone]
    rest += [(trained(*how, 1, 3)[0] - rows).flatten()]  # on a slope all steps of an epoch are one
    return {
        "logged predictions": equal_to_rounding(*torch.cat(pairs).T),
        "logged every third step, and the training": equal(
            torch.cat(rest), 0, tol=1e-12, why="the same dice, watched or not"),
    }


@claim(control={"search": "none"}, refutes=["falls enough", "flattens enough"], source="Wolfe 1969")
def line_search_needs_no_smoothness(
    seed: Seed, *, steps: Annotated[int, Range(3, 20)] = 6,
    search: Literal["strong Wolfe", "none"] = "strong Wolfe",
) -> Evidence:
    r"""A line search finds steps that fall and flatten enough, be $L$ small or large."""
    rng, falls, flattens, seen, curves = seed.torch(), [], [], [], []
    options: Any = {"max_iter": 1, "max_eval": 50, "tolerance_grad": 0.0, "tolerance_change": 0.0}
    options["line_search_fn"] = None if search == "none" else "strong_wolfe"
    for kind in (Quadratic([1e-3, 3e-4]), Quadratic([1e3, 2e2]), SineBowl(), classes(seed, 50, 4)):
        problem = kind.at(0.1 * randn(rng, 3, kind.theta.shape[1]))  # searched all at once
        trace = descend(problem, LBFGS(problem.parameters(), **options), steps, record=LOOK)
        theta = trace["theta"]
        g, h, moves = problem.gradient(theta), problem.value(theta), theta.diff(dim=0)
        before, after = ((one * moves).sum(dim=(1, 2)) / h[0].sum() for one in (g[:-1], g[1:]))
        falls.append(h.sum(dim=1).diff() / h[0].sum() - 1e-4 * before)
        flattens.append(after.abs() - 0.9 * before.abs())
        left, name = h.sum(dim=1) / h[0].sum(), f"L = {problem.smoothness:.4g}"
        curves.append(Series(name, trace.step, left, "other"))
        seen += [trace["value"] - h, trace["gradient_norm"] - g.norm(dim=-1),
                 theta.new_tensor([len(theta) - 1 - steps])]
    net = ScalarNet(label_noise=1.0, rng=rng).at(torch.ones(3, 2))  # whose minimum is 0
    seen.append((_descent(net, 1e-9, 1)["value"] <= 0).double())
    gaps, why = torch.cat([one.flatten() for one in seen]), "rounding of sums"
    return every({
        "falls enough": at_most(torch.cat(falls), 0, slack=1e-12, why="Armijo's condition"),
        "flattens enough": at_most(torch.cat(flattens), 0, slack=1e-12, why="Wolfe's condition"),
        "each search is one step": equal(gaps, 0, tol=1e-12, why=why),
    }).drawn(*curves, x="step", y="h, as a share of the first", log="y")


@claim(control={"lam": 0.25}, refutes=["a bowl: no increase"], source="Nesterov 2018, sec. 2.2.3")
def proximal_view(
    seed: Seed, *, points: Cloud = 1000, dim: Dim = 10, kappa: Kappa = 100.0,
    lam: Annotated[float, Range(0.1, 10)] = 0.51,
) -> Evidence:
    r"""$-\nabla h/\lambda$ minimizes $s\cdot\nabla h+\frac\lambda2s^2$; safe if $\lambda>L/2$."""
    parts = {}
    for name, (problem, theta) in landscapes(seed, points, dim, kappa).items():
        before, g, L = problem.value(theta), problem.gradient(theta), problem.smoothness
        step, slack = proximal_step(g, lam * L), 1e-12 * (1 + float(before.abs().max()))
        after, aside = problem.value(theta + step), randn(seed.child(name).torch(), *step.shape)
        u = torch.linspace(0, 2, 41, dtype=torch.float64)[:, None]
        way, found = u * step[0], at_most(after, before, slack=slack, why=EXACT)
        model = before[0] + way @ g[0] + lam * L / 2 * way.square().sum(dim=1)
        parts[f"{name}: no increase"] = found.drawn(
            Series("h", u[:, 0], problem.value(theta[0] + way), style="line"),
            Series("slope and price", u[:, 0], model, "predicted"), x="share of the step", y="h")
        least, more = ((g * s + lam * L / 2 * s * s).sum(dim=-1) for s in (step, step + aside))
        # a parabola has its least value where it rises by the square of the distance, all round
        risen = lam * L / 2 * aside.square().sum(dim=-1)
        parts[f"{name}: argmin"] = equal_to_rounding(more - least, risen)
    return every(parts)


@claim(control={"stretch": 4.0}, source="implicit function theorem")
def step_is_normal_to_level_set(
    seed: Seed, *, points: Points = 200, stretch: Annotated[float, Range(1, 10)] = 1.0,
) -> Evidence:
    r"""The step is orthogonal to the level set $\{h=c\}$ through its point."""
    parts, p, r = {}, 1 + 2 * rand(seed.torch(), points, 2), 1e-5
    for name, problem in {"ripples": SineBowl(), BOWL: turned_bowl(seed, 2, 4.0)}.items():
        g, wide = problem.gradient(p), torch.tensor([1.0, stretch], dtype=torch.float64)
        step = proximal_step(g, cast("float", problem.smoothness)) / wide
        across = F.normalize(step.flip(1) * torch.tensor([-1.0, 1.0]), dim=1)
        # the height changes at the rate of the slope times the sine of the angle that is missing
        rise = (problem.value(p + r * across) - problem.value(p - r * across)) / (2 * r)
        why = "1e-10 times a third derivative, and rounding of h over 1e-5 of its slope"
        found = equal(rise / g.norm(dim=1), 0, tol=1e-8, why=why)
        parts[name] = found.pictured(steps_map(problem, p[:20], p[:20] + step[:20]))
    return every(parts)

r"""Adam: what is true of it, and what would refute it.

Knobs:
    dim: Parameters of the problem.
    beta1: Weight of the past in the average of gradients.
    beta2: Weight of the past in the average of squared gradients.
    lr: The learning rate.
    form: Whether the formula is right or misprinted; the misprint leads elsewhere.
    bias_correction: Whether averages are corrected for their start at 0; without, the first
        step is too long.
    sigma: Size of the noise in a gradient.
    rows: Independent runs, each with gradients of its own.
    gradient: The gradient, which stays as it is.
    steps: Steps that are taken.
    target: What the average of squares is compared with; it is not the variance, which is 0
        here.
    mean: Mean of the gradients.
    corrected: Whether averages are corrected for their start at 0; without, they are too small.
    accumulate: Whether squares are averaged or added up; a sum is Adagrad's, and steps fade.
    bound: Which bound is asked about; one that is often quoted is too low, another too high.
    C: Slope of every third loss; the others have -1.
    amsgrad: Whether to divide by the largest average so far; without, it is Adam, which goes
        astray.
"""

import functools
import math
from typing import Annotated, Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from principia.lab.draws import randn
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
    mean_is,
    slope,
    standard_error,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training.optimizers import fed, steps_along
from principia.optimization.adam import DEFAULTS, Adam, alternating_losses, moments
from principia.optimization.gradient_descent import descend
from principia.optimization.momentum import EMAMomentum
from principia.optimization.problems import Problem, Quadratic, noisy, noisy_logistic

Form = Literal["correct", "printed"]
Beta1 = Annotated[float, Range(0.5, 0.95)]
Dim = Annotated[int, Range(1, 50)]


@claim(
    control={"form": "printed"}, refutes=["torch", "ours", "AMSGrad", "loss"],
    source="Kingma and Ba 2015, alg. 1; Reddi et al. 2018, alg. 2",
    misprint=r"$\hat m=m(1-\beta_1^t)$, $\hat v=v(1-\beta_2^t)$, "
    r"$\theta\leftarrow\theta+\eta\hat m/\sqrt{\hat v}$",
)
def torch_is_the_formula(
    seed: Seed, *, dim: Dim = 8, beta1: Annotated[float, Range(0.85, 0.95)] = 0.9,
    form: Form = "correct",
) -> Evidence:
    r"""`torch.optim.Adam` and `Adam` are the formula, step for step, and the loss falls."""
    risk, betas, parts = noisy_logistic(seed.torch(), dim=dim), (beta1, 0.999), {}
    amsgrad = functools.partial(torch.optim.Adam, amsgrad=True)
    formula = _formula(risk, 200, 0.01, betas, form)
    for name, kind in {"torch": torch.optim.Adam, "ours": Adam, "AMSGrad": amsgrad}.items():
        twin = risk.at(risk.theta)
        optimizer = kind(twin.parameters(), lr=0.01, betas=betas)
        theta = descend(twin, optimizer, 200, record=("theta",))["theta"]
        if kind is amsgrad:
            formula = _formula(risk, 200, 0.01, betas, form, amsgrad=True)
        parts[name] = equal(theta, formula, tol=1e-12, why="rounding of 200 stable steps")
    bowl = Quadratic([1.0, 40.0])
    values = bowl.value(_formula(bowl, 300, 0.01, betas, form))[:, 0]
    adam = torch.optim.Adam(bowl.parameters(), lr=0.01, betas=betas)
    trace = descend(bowl, adam, 300, at=range(0, 301, 5))
    why = f"down from {float(values[0]):g}: 100 steps of lr lead to the minimum"
    parts["loss"] = at_most(values[-1], 1e-3, why=why)
    parts["defaults, groups and gradients that come late"] = equal_to_rounding(
        *(_in_groups(kind, seed.child("groups").torch()) for kind in (Adam, torch.optim.Adam))
    )
    return every(parts).drawn(
        Series("torch.optim.Adam", trace.step, trace["value"]),
        Series(f"formula, {form}", range(301), values, "predicted"), x="step t", y="h", log="y",
    )


def _formula(
    problem: Problem, steps: int, lr: float, betas: tuple[float, float], form: Form, *,
    amsgrad: bool = False, eps: float = 1e-8,
) -> Tensor:
    """Compute the points of Adam as it is written, or misprinted, one after the other."""
    theta = problem.theta.detach().clone()
    m, v, largest, points = *torch.zeros(3, *theta.shape, dtype=theta.dtype), [theta]
    for t in range(1, steps + 1):
        g, (one, two) = problem.gradient(theta), (1 - beta**t for beta in betas)
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g**2
        largest = largest.maximum(v) if amsgrad else v
        if form == "printed":
            theta = theta + lr * (m * one) / (largest * two).sqrt()
        else:
            theta = theta - lr * (m / one) / ((largest / two).sqrt() + eps)
        points.append(theta)
    return torch.stack(points)


def _in_groups(kind: Any, rng: torch.Generator) -> Tensor:
    """Let an optimizer of this kind step two groups, one with the defaults; give all points."""
    params = [nn.Parameter(randn(rng, *shape)) for shape in ((3,), (2, 4), ())]
    optimizer, points = kind([{"params": params[:2]}, {"params": params[2:], "lr": 0.3}]), []
    for t in range(8):
        for p in params:
            g = 10 ** float(-4 * torch.rand((), generator=rng)) * randn(rng, *p.shape)
            late = p is params[1] and t < 3
            p.grad = None if late else 1e-4 * g  # eps counts beside such small ones
        optimizer.step()
        points += [p.detach().clone().flatten() for p in params]
    return torch.cat(points)


@claim(
    control={"bias_correction": False},
    refutes=["start at 0"],
    source="Kingma and Ba 2015, sec. 2.1 and 3",
    misprint=r"$\hat m,\hat v$ used but never defined: a start at 0 that is not corrected",
)
def first_step_is_lr(
    seed: Seed, *, beta1: Beta1 = 0.9, beta2: Annotated[float, Range(0.998, 0.9999)] = 0.999,
    lr: Annotated[float, Range(1e-4, 1)] = 1e-3, bias_correction: bool = True,
) -> Evidence:
    r"""Corrected, or started at the gradient, the first step is $\pm\eta$ in every coordinate."""
    size = torch.logspace(-3, 3, 200, dtype=torch.float64)
    sign = torch.randint(0, 2, (200,), generator=seed.torch()) * 2.0 - 1
    beginnings: dict[str, dict[str, Any]] = {
        "start at 0": {"bias_correction": bias_correction},
        "start at the gradient": {"bias_correction": False, "start": "gradient"},
    }
    parts, curves = {}, []
    for name, options in beginnings.items():
        shared = {"lr": lr, "betas": (beta1, beta2), "eps": 1e-12}
        step = steps_along(Adam, (sign * size)[None], **shared, **options)[0]
        why = "eps over the smallest gradient is 1e-9"
        parts[name] = equal(step, -lr * sign, tol=1e-6 * lr, why=why)
        curves.append(Series(name, size[::10], step[::10].abs() / lr))
    raw, ends = (1 - beta1) / math.sqrt(1 - beta2), [1e-3, 1e3]
    return every(parts).drawn(
        *curves, Series("predicted", ends, [1, 1], "predicted"),
        Series("from 0, not corrected: (1 − β₁)/√(1 − β₂)", ends, [raw] * 2, "other"),
        x="size of the gradient", y="first step, in units of lr", log="x",
    )


@claim(
    control={"form": "printed"}, source="Kingma and Ba 2015, sec. 2.1; variance of an AR(1) chain",
    misprint=r"$\eta_t=1/(\sqrt{\gamma_t}+\delta)$: the learning rate is dropped",
)
def lr_scales_the_step(
    seed: Seed, *, sigma: Annotated[float, Range(0.3, 1)] = 0.4,
    rows: Annotated[int, Range(500, 5000)] = 1000, form: Form = "correct",
) -> Evidence:
    r"""Steps are proportional to $\eta$: a noisy quadratic ends in a ball of size $\sqrt\eta$.

    Args:
        form: Whether steps are multiplied by the learning rate; as misprinted, they are not.
    """
    bowl = noisy(Quadratic([1.0]).at(torch.full((rows, 1), 0.5)), sigma, seed.torch())
    rates, each = np.geomspace(0.1, 0.01, 6), 250  # one run; the rate falls in stairs
    adam = torch.optim.Adam(bowl.parameters(), lr=1.0)
    stairs = LambdaLR(
        adam, lambda t: 1.0 if form == "printed" else float(rates[min(t // each, 5)])
    )
    late = [t for t in range(1, 6 * each + 1) if t % 5 == 0 and (t - 1) % each >= each // 2]
    theta = descend(bowl, adam, 6 * each, schedule=stairs, record=("theta",), at=late)["theta"]
    rms = theta.reshape(6, -1).square().mean(dim=1).sqrt()
    why = "at the longest steps averages lag behind, and the ball itself adds to v"
    return every({
        "ball at lr 0.01": at_most(rms[-1], 0.1, why="√(ησ/2) is at most 0.071"),
        "√η": slope(rates, rms, 0.5, tol=0.06, why=why),
    }).drawn(
        Series("measured", rates, rms),
        Series("predicted: √(ησ/2)", rates, np.sqrt(rates * sigma / 2), "predicted"),
        x="learning rate η", y="root mean square of θ", log="xy",
    )


@claim(
    control={"target": "variance"}, source="Kingma and Ba 2015, sec. 2",
    misprint="estimates of the mean and the variance of the gradient; v is not centered",
)
def second_moment_is_uncentered(
    seed: Seed, *, gradient: Annotated[float, Range(0.1, 100)] = 3.0,
    steps: Annotated[int, Range(2, 1000)] = 100,
    target: Literal["second moment", "variance"] = "second moment",
) -> Evidence:
    r"""$\hat v$ estimates $E[g^2]$, not the variance: of a constant gradient it is $g^2$."""
    constant = torch.full((steps, 1), gradient, dtype=torch.float64)
    expected = gradient**2 if target == "second moment" else 0.0
    parts, t = {}, torch.arange(1, steps + 1)
    for name, kind in {"torch": torch.optim.Adam, "ours": Adam}.items():
        square = torch.cat([moments(*one)[1] for one in fed(kind, constant)])
        why = "rounding of an average of equal numbers"
        parts[name] = equal(square, expected, tol=1e-12 * (1 + gradient**2), why=why).drawn(
            Series("corrected", t, square),
            Series("not corrected", t, square * (1 - DEFAULTS[1] ** t), "other"),
            Series("E[g²]", [1, steps], [gradient**2] * 2, "predicted"),
            Series("Var(g)", [1, steps], [0, 0], "other"), x="step t", y="average of g²",
        )
    return every(parts)


@claim(control={"corrected": False}, source="Kingma and Ba 2015, sec. 3")
def corrected_moments_are_unbiased(
    seed: Seed, *, mean: Annotated[float, Range(0.5, 5)] = 1.0,
    sigma: Annotated[float, Range(0.1, 5)] = 1.0, beta1: Beta1 = 0.9,
    rows: Annotated[int, Range(10_000, 200_000)] = 100_000, corrected: bool = True,
) -> Evidence:
    r"""Of stationary gradients $E\hat m^t=E[g]$ and $E\hat v^t=E[g^2]$ for every $t$."""
    g = mean + sigma * torch.randn(10, rows, generator=seed.torch(), dtype=torch.float64)
    betas, truths = (beta1, 0.999), {"E[g]": mean, "E[g²]": mean**2 + sigma**2}
    times = enumerate(fed(Adam, g, betas=betas), start=1)
    found = {t: moments(*one, corrected=corrected) for t, one in times if t in (1, 3, 10)}
    parts = {}
    for place, (name, truth) in enumerate(truths.items()):
        draws = torch.stack([pair[place] for pair in found.values()])
        error, raw = standard_error(draws, 1), 1 - betas[place] ** np.arange(1, 11)
        parts[name] = mean_is(
            draws, torch.full((3,), truth), axis=1, k=4, why="mean of the rows"
        ).drawn(
            Series("measured", list(found), draws.mean(dim=1) / truth, error=4 * error / truth),
            Series("corrected", [1, 10], [1, 1], "predicted"),
            Series("not corrected: 1 − βᵗ", range(1, 11), raw, "other"),
            x="step t", y=f"mean of the estimates, as a share of {name}",
        )
    return every(parts)


@claim(
    control={"accumulate": "sum"}, source="Kingma and Ba 2015, sec. 5",
    misprint="Adam = Adagrad + momentum; its v is an average, not a sum",
)
def is_rmsprop_with_momentum(
    seed: Seed, *, dim: Dim = 8, beta1: Beta1 = 0.9, steps: Annotated[int, Range(20, 500)] = 200,
    accumulate: Literal["average", "sum"] = "average",
) -> Evidence:
    r"""Adam is averaged momentum over RMSprop's root: $v$ is an average, not Adagrad's sum."""
    risk, lr, (_, beta2), eps = noisy_logistic(seed.torch(), dim=dim), 0.05, DEFAULTS, 1e-8
    adam = torch.optim.Adam(risk.parameters(), lr=lr, betas=(beta1, beta2), eps=eps)
    theta = descend(risk, adam, steps, record=("theta",))["theta"][:, 0]
    g, moved = risk.gradient(theta[:-1]), theta.diff(dim=0)
    direction = steps_along(EMAMomentum, g, lr=1.0, alpha=beta1)
    rmsprop, adagrad = fed(torch.optim.RMSprop, g, alpha=beta2), fed(torch.optim.Adagrad, g)
    average = [one.state[p]["square_avg"].clone() for one, p in rmsprop]
    total = [one.state[p]["sum"].clone() for one, p in adagrad]
    t = torch.arange(1, steps + 1, dtype=g.dtype)[:, None]
    composed = {
        "average": lr * direction / ((torch.stack(average) / (1 - beta2**t)).sqrt() + eps),
        "sum": lr * direction / (torch.stack(total).sqrt() + eps),
    }
    longest = {name: one.abs().amax(dim=1) for name, one in composed.items()}
    return equal(
        moved, composed[accumulate], tol=1e-13, why="rounding of single steps of about 0.1"
    ).named("steps of Adam").drawn(
        Series("Adam", t[::4, 0], moved[::4].abs().amax(dim=1)),
        Series("momentum over RMSprop's root", t[:, 0], longest["average"], "predicted"),
        Series("momentum over Adagrad's root", t[:, 0], longest["sum"], "other"),
        x="step t", y="longest move of a coordinate", log="y",
    )


@claim(
    control=[
        Control({"bound": "two_case"}, ["bound"], "often quoted: max(1, (1 − β₁)/√(1 − β₂))"),
        Control({"bound": "term_by_term"}, ["sharp"], "each gradient of the average by itself"),
    ],
    source="the inequality of Cauchy and Schwarz; Kingma and Ba 2015, sec. 2.1, for two cases",
)
def steps_are_bounded(
    seed: Seed, *, beta1: Annotated[float, Range(0.5, 0.98)] = 0.9,
    beta2: Annotated[float, Range(0.99, 0.9995)] = 0.999,
    rows: Annotated[int, Range(10, 1000)] = 300,
    bound: Literal["cauchy_schwarz", "two_case", "term_by_term"] = "cauchy_schwarz",
) -> Evidence:
    r"""No step is above $\eta\frac{1-\beta_1}{\sqrt{(1-\beta_2)(1-\beta_1^2/\beta_2)}}$. Sharp."""
    silence, growth = math.ceil(4.5 / (1 - beta2)), 200
    g = torch.empty(silence + growth, 1 + rows, dtype=torch.float64).cauchy_(generator=seed.torch())
    g[:silence, 0] = 0.0  # the worst that can happen: nothing for long, then growing gradients
    g[silence:, 0] = (beta2 / beta1) ** torch.arange(growth, dtype=g.dtype)
    steps = steps_along(Adam, g, lr=1.0, betas=(beta1, beta2)).abs()
    one = (1 - beta1) / math.sqrt(1 - beta2)
    bounds = {
        "two_case": max(1.0, one), "cauchy_schwarz": one / math.sqrt(1 - beta1**2 / beta2),
        "term_by_term": one / (1 - beta1 / math.sqrt(beta2)),  # no g is above √(v/((1 - β₂)β₂ᵏ))
    }
    limit, longest, shown = bounds[bound], steps.amax(dim=0), steps[silence - 50 :]
    t, ends = range(-50, growth), [-50, growth]
    return every({
        "bound": at_most(
            longest, limit, slack=1e-10,
            why="a theorem; rounding of θ, of which steps are differences",
        ),
        "sharp": at_least(longest[0], 0.99 * limit, why="v has not settled: √(1 - e^-4.5) = 0.994"),
    }).drawn(
        Series("gradients that grow after silence", t, shown[:, 0], style="line"),
        Series("Cauchy gradients", t, shown[:, 1], "other"),
        Series("bound", ends, [bounds["cauchy_schwarz"]] * 2, "bound"),
        Series("often quoted: max(1, (1 − β₁)/√(1 − β₂))", ends, [bounds["two_case"]] * 2, "other"),
        x="steps after the silence", y="length of a step, in units of lr",
    )


@claim(
    control={"amsgrad": False}, refutes=["end"],
    source="Reddi, Kale and Kumar 2018, thm. 1 and sec. 5",
)
def adam_can_fail_to_converge(
    seed: Seed, *, C: Annotated[float, Range(2.5, 10)] = 3.0,
    steps: Annotated[int, Range(2000, 5000)] = 3000, amsgrad: bool = True,
) -> Evidence:
    r"""On `alternating_losses` AMSGrad ends at the optimum -1; Adam, at the worst point 1."""
    starts = torch.linspace(-1, 1, 5, dtype=torch.float64)
    problem, betas = alternating_losses(C).at(starts[:, None]), (0.0, 1 / (1 + C**2))
    adam = torch.optim.Adam(problem.parameters(), lr=0.5, betas=betas, amsgrad=amsgrad)

    def clamp() -> None:
        problem.theta.clamp_(-1, 1)

    trace = descend(
        problem, adam, steps, schedule=LambdaLR(adam, lambda t: (t + 1) ** -0.5), after=clamp,
        record=("theta",), at=[*range(100), *range(100, steps, 10), steps],
    )
    paths = trace["theta"][..., 0].mT
    why = "after two steps of lr/√v up, the third comes back to the bound"
    parts = {
        "end": equal(paths[:, -1], torch.full((5,), -1.0), tol=0.02, why=why).drawn(
            *(Series(f"from {one[0]:g}", trace.step, one, "other") for one in paths),
            Series("optimum", [0, steps], [-1, -1], "predicted"), x="step t", y="x",
        )
    }
    parts["losses"] = _as_stated(alternating_losses(C + 1), C + 1, starts)
    parts["default losses"] = _as_stated(alternating_losses(), 3.0, starts)
    return every(parts)


def _as_stated(losses: Problem, C: float, starts: Tensor) -> Evidence:
    """Compare values, slopes, the mean and its minimum with what the problem says they are."""
    found, expected = losses().tolist(), [0.0]  # it begins in the middle
    losses, x, mean = losses.at(starts[:, None]), starts.numpy(), (C - 2) / 3
    for t in range(1, 8):
        slope_ = C if t % 3 == 1 else -1.0
        with torch.no_grad():
            found += losses().tolist()  # a look costs no time
        losses.zero_grad()
        losses().sum().backward()
        found += cast("Tensor", losses.theta.grad).flatten().tolist()
        expected += [*slope_ * x, *[slope_] * len(x)]
    found += [*losses.value(losses.theta).tolist(), losses.minimum]
    return equal_to_rounding(
        [*found, *cast("Tensor", losses.minimizer).tolist()], [*expected, *mean * x, -mean, -1.0]
    )

r"""Taylor expansion: what it reaches on data."""

import functools
import math
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor
from torch.func import grad
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Field, Label, Panels, Rule
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.mathematics.taylor import (
    Method,
    TaylorPolynomial,
    finite_difference,
    taylor_coefficients,
)

IMAGES = 100  # digits whose mean loss is differentiated
GOALS = {  # of the experiment, whatever its budget
    "best_central_error": at_most_goal(1e-9), "forward_order": Range(0.9, 1.1),
    "central_order": Range(1.9, 2.1), "forward_rounding_order": Range(-1.15, -0.85),
    "central_rounding_order": Range(-1.15, -0.85),
}
MOST = 10  # derivatives of the moving picture
NEAR = 0.05  # an error that the eye does not see
CURVES = {  # with half the width of the window
    "sin x": (torch.sin, 6.0), "1/(1 + x²)": (lambda x: 1 / (1 + x * x), 3.0),
}


@hero(moves="degree")
def trusted_stretch(
    seed: Seed, *, degree: Annotated[int, Range(0, MOST)] = 6,
    point: Annotated[float, Range(-1.5, 1.5)] = 0.5,
    curve: Literal["sin x", "1/(1 + x²)"] = "1/(1 + x²)",
) -> Panels:
    """Each derivative at one point lets you trust a longer stretch, until a wall stops it.

    Args:
        degree: How many derivatives the polynomial shares with the curve.
        point: Where it touches the curve.
        curve: Of sin x every stretch is reached at last; 1/(1 + x²) has a wall.
    """
    x, y, sums = _polynomials(curve, point)
    at, width = int((x - point).abs().argmin()), float(x[-1])
    errors = (sums - y).abs()
    worst = torch.cat([  # from the point on, to both sides
        errors[:, :at].flip(1).cummax(1).values.flip(1), errors[:, at:].cummax(1).values
    ], dim=1)
    digits = -worst[:, 1::3].clamp(1e-6, 1).log10()
    digits[degree + 1 :] = math.nan
    seen = sums[degree].where(sums[degree].abs() < 5, math.nan)
    wall = (1 + point**2) ** 0.5  # as far as the poles of 1/(1 + x²), which are i and -i
    walls = [] if curve == "sin x" else [Rule("wall", x=point + one) for one in (-wall, wall)]
    known = f"{degree} derivative{'s' * (degree != 1)} known at the dot"
    return Panels((
        Plot((
            Series("", x, y, "gray", "line"), Series("", x, seen, "red", "line"),
            Series("", x, seen.where(worst[degree] < NEAR, math.nan), "green", "line"),
            Series("", [point], y[[at]], "ink", "points"), Label(known, point, -1.2), *walls,
        ), y=curve, title="green: where you can trust it",
            x_range=(-width, width), y_range=(-1.6, 1.9)),
        Plot((
            Field(x[1::3], range(MOST + 1), digits, name="correct digits", low=0, high=6), *walls,
        ), x="x", y="degree", title="correct digits, from none (white) to six (dark)",
            x_range=(-width, width), y_range=(-0.5, MOST + 0.5)),
    ), columns=1)


@functools.lru_cache(maxsize=4)  # all frames are sums of the same terms
def _polynomials(curve: str, point: float) -> tuple[Tensor, Tensor, Tensor]:
    """Give places, a curve there, and its polynomials of each degree."""
    f, width = CURVES[curve]
    x = torch.linspace(-width, width, 241, dtype=torch.float64)
    coefficients = taylor_coefficients(f, point, MOST)
    sums = [TaylorPolynomial(coefficients[: m + 1], point)(x) for m in range(MOST + 1)]
    return x, f(x), torch.stack(sums)


@experiment(
    reaches=GOALS, floor=GOALS,
    source="Nocedal and Wright 2006, sec. 8.1: orders 1 and 2, and -1 by rounding; errors are ours",
)
def gradient_check_experiment(
    run: Run, *, hidden: Annotated[int, Range(4, 64)] = 32,
    coordinates: Annotated[int, Range(20, 500)] = 200,
) -> None:
    """Checks backpropagation through a tanh network on digits by differences with every step."""
    images, labels, *_ = digits()
    images, labels = (one[:IMAGES] for one in (images.flatten(1), labels))
    rng, sizes = run.seed.torch(), [(hidden, 64), (hidden,), (10, hidden), (10,)]
    counts = [math.prod(one) for one in sizes]
    fans = [64, 64, hidden, hidden]
    weights = torch.cat([
        (2 * torch.rand(count, generator=rng, dtype=torch.float64) - 1) / fan**0.5
        for count, fan in zip(counts, fans, strict=True)
    ])
    chosen = torch.randperm(len(weights), generator=rng)[:coordinates]
    steps, errors = torch.logspace(-14, -1, 53 if run.full else 27, dtype=torch.float64), {}

    def loss(theta: Tensor) -> Tensor:
        W, b, V, c = (p.view(s) for p, s in zip(theta.split(counts), sizes, strict=True))
        return F.cross_entropy((images.to(theta) @ W.mT + b).tanh() @ V.mT + c, labels)

    for dtype in run.steps((torch.float64, torch.float32), "precisions"):
        theta = weights.to(dtype)
        exact = grad(loss)(theta)[chosen]
        methods: tuple[Method, ...] = ("forward", "central")
        for method in methods:
            gaps = [finite_difference(loss, theta, float(eps), method, coordinates=chosen) - exact
                    for eps in steps]
            errors[method, dtype] = np.array([float(gap.norm() / exact.norm()) for gap in gaps])
    run.record(**{
        f"best_{method}_error{'' if dtype == torch.float64 else '_float32'}": float(one.min())
        for (method, dtype), one in errors.items()
    })
    double = {method: errors[method, torch.float64] for method in ("forward", "central")}
    windows = {"forward_order": (1e-5, 1e-2), "central_order": (1e-3, 1e-1),
               "forward_rounding_order": (1e-13, 1e-9), "central_rounding_order": (1e-13, 1e-7)}
    for name, (low, high) in windows.items():
        inside = ((steps > 0.9 * low) & (steps < 1.1 * high)).numpy()
        x, y = (np.log(one[inside]) for one in (steps.numpy(), double[name.split("_")[0]]))
        run.record(**{name: float(np.polyfit(x, y, 1)[0])})
    run.figure("steps", figures.draw(Plot(
        tuple(Series(f"{method}, {str(dtype)[6:]}", steps, one, "other", "line")
              for (method, dtype), one in errors.items()),
        "step ε", "relative error of the gradient", "xy",
    )))

r"""Taylor expansion: what it reaches on data."""

import math
from typing import Annotated

import numpy as np
import torch
from torch import Tensor
from torch.func import grad
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.mathematics.taylor import Method, finite_difference

IMAGES = 100  # digits whose mean loss is differentiated
GOALS = {  # of the experiment, whatever its budget
    "best_central_error": at_most_goal(1e-9), "forward_order": Range(0.9, 1.1),
    "central_order": Range(1.9, 2.1), "forward_rounding_order": Range(-1.15, -0.85),
    "central_rounding_order": Range(-1.15, -0.85),
}


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

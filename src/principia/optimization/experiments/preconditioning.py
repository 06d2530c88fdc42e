r"""Preconditioning: what it reaches on data."""

from collections.abc import Mapping
from typing import Annotated, Any, cast

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn import functional as F
from torch.optim import LBFGS, SGD

from principia.lab import figures
from principia.lab.data.mnist import mnist
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.optimization.gradient_descent import descend
from principia.optimization.nesterov import Nesterov
from principia.optimization.preconditioning import Newton
from principia.optimization.problems import LogisticRisk

RACERS = ("descent", "nesterov", "lbfgs", "newton")
FLAT = 1e-8  # gradient norm at which a method of the experiment has arrived


@experiment(
    reaches={"newton_steps": at_most_goal(15), "coefficient_error": at_most_goal(1e-4)},
    floor={"newton_steps": at_most_goal(15), "coefficient_error": at_most_goal(1e-4)},
    source="Pedregosa et al. (2011), scikit-learn: the coefficients of LogisticRegression; "
    "15 steps to a gradient of 1e-8 are what Newton's quadratic rate promises",
)
def second_order(
    run: Run, *, images: Annotated[int, Range(500, 11_000)] = 3000,
    l2: Annotated[float, Range(1e-3, 1)] = 0.01, most: Annotated[int, Range(100, 20_000)] = 2000,
) -> None:
    """Races descent, Nesterov, L-BFGS and Newton to a gradient of 1e-8 on logistic regression.

    Args:
        images: Pictures of a 3 or an 8 at full budget.
        l2: Price of the squared weights.
        most: Steps after which the first-order methods are given up.
    """
    most, tumors = most if run.full else min(most, 400), cast("Any", load_breast_cancer())
    sets = {"breast_cancer": (tumors.data - tumors.data.mean(0)) / tumors.data.std(0)}
    labels = {"breast_cancer": torch.from_numpy(tumors.target)}
    if run.full:
        x, y = mnist("train", data_dir=run.data_dir)
        chosen = ((y == 3) | (y == 8)).nonzero()[:images, 0]
        sets["mnist"], labels["mnist"] = x[chosen].flatten(1).double().numpy(), y[chosen] // 8
    needed, gaps = [], []
    for name in run.steps(sets, "data sets"):
        X, y = F.pad(torch.from_numpy(sets[name]), (0, 1), value=1.0), labels[name]
        risk = LogisticRisk(X, y, l2=l2)
        races = {method: _race(risk, method, most) for method in RACERS}
        for method, (lengths, _, passes) in races.items():
            run.record(**{f"{name}_{method}_gradient": float(lengths.min())})
            if bool((lengths <= FLAT).any()):
                first = int((lengths <= FLAT).nonzero()[0])
                run.record(**{f"{name}_{method}_steps": first})
                run.record(**{f"{name}_{method}_passes": float(passes[first])})
        theirs = LogisticRegression(
            C=1 / (l2 * len(X)), fit_intercept=False, solver="newton-cholesky", tol=1e-10
        ).fit(X.numpy(), y.numpy())
        lengths, thetas, _ = races["newton"]
        needed.append(int((lengths > FLAT).sum()))
        gaps.append(float(np.abs(thetas[-1].numpy() - theirs.coef_).max()))
        _draw_race(run, name, races, cast("Tensor", risk.minimizer))
    run.record(newton_steps=max(needed), coefficient_error=max(gaps))


def _race(risk: LogisticRisk, method: str, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Run a method from 0: gradient norms, iterates, and backward passes before each step."""
    risk = risk.at(torch.zeros_like(risk.theta))
    lr, passes = 1 / cast("float", risk.smoothness), [0]
    kinds: dict[str, tuple[int, Any, dict[str, Any]]] = {
        "descent": (most, SGD, {"lr": lr}),
        "nesterov": (most, Nesterov, {"lr": lr, "beta": ("strong", 1 / (lr * risk.l2))}),
        "lbfgs": (150, LBFGS, {"max_iter": 1, "max_eval": 25, "tolerance_grad": 1e-14,
                               "tolerance_change": 0.0, "line_search_fn": "strong_wolfe"}),
        "newton": (15, Newton, {"dense": 0, "inner": 1000, "search": True}),
    }
    steps, kind, options = kinds[method]

    def count(gradient: Tensor) -> None:
        passes[-1] += 1

    risk.theta.register_hook(count)  # of every product with the Hessian, too
    trace = descend(
        risk, kind(risk.parameters(), **options), steps, record=("gradient_norm", "theta"),
        after=lambda: passes.append(passes[-1]),
    )
    return trace["gradient_norm"][:, 0], trace["theta"][:, 0], torch.tensor([0, *passes[:-1]])


def _draw_race(run: Run, name: str, races: Mapping[str, Any], best: Tensor) -> None:
    """Draw the distances from the minimum against steps and against backward passes."""
    by_step, by_pass = [], []
    for method, (_, thetas, passes) in races.items():
        errors = (thetas - best).norm(dim=1)
        seen, role = errors > 1e-13, "measured" if method == "newton" else "other"  # else rounding
        for series, x in ((by_step, torch.arange(len(errors))), (by_pass, passes)):
            series.append(Series(method, x[seen] + 1, errors[seen], role, "line"))
    for what, series in (("steps", by_step), ("backward passes", by_pass)):
        picture = Plot(tuple(series), f"{what} + 1", "distance from the minimum", "xy")
        run.figure(f"{name}_{what.split()[-1]}", figures.draw(picture))

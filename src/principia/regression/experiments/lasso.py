r"""Lasso: what it reaches on data."""

import functools
import itertools
import math
from typing import Annotated, Literal

import numpy as np
import torch
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Lasso, lars_path
from sklearn.metrics import f1_score
from torch import Tensor

from principia.lab import figures
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import PositiveFloat, PositiveInt, Range
from principia.lab.pictures import Field, Label, Panels
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import learner
from principia.regression.claims.lasso import sparse_data
from principia.regression.lasso import fista, lambda_max
from principia.regression.ridge import ridge_path

FAR = 2.0  # from the origin to the point of least squares in the moving picture
SIDE = torch.linspace(-3, 3, 37, dtype=torch.float64)
TURN = torch.linspace(0, 360, 145, dtype=torch.float64)
MAP = {"w₁ = 0": 1, "w₂ = 0": 0, "both 0": 3}  # colors of the regions; gray is the rest


@hero(moves="angle", frames=25)
def corner(
    seed: Seed, *, angle: Annotated[float, Range(0, 360)] = 75.0,
    price: Annotated[float, Range(0, 1.5)] = 0.7,
    correlation: Annotated[float, Range(-0.8, 0.8)] = 0.3,
    kind: Literal["absolute", "squared"] = "absolute",
) -> Panels:
    """Corners catch whole regions, so an absolute price sets weights exactly to 0.

    Args:
        angle: Where the point of least squares lies, in degrees around the origin.
        price: Price of the weights.
        correlation: Correlation of the two inputs.
        kind: Whether the absolute sizes or the squares of the weights cost; squares have no corner.
    """
    zeros, path = _caught(price, correlation, kind)
    where = math.radians(angle)
    best = FAR * torch.tensor([math.cos(where), math.sin(where)], dtype=torch.float64)
    w = _solved(best[None], price, correlation, kind)[0]
    caught = bool((w == 0).any())
    color = "green" if caught else "red" if kind == "squared" else "blue"
    turn = torch.linspace(0, 2 * math.pi, 97, dtype=torch.float64)
    circle = torch.stack([turn.cos(), turn.sin()], dim=1)
    size = 2 - (kind == "absolute")  # the norm in which the price is
    ball = circle / circle.abs().pow(size).sum(1, keepdim=True) ** (1 / size)
    ball = ball * w.abs().pow(size).sum() ** (1 / size)
    factor = _factor(correlation)
    miss = (factor @ (w - best)).norm()  # the root of the loss, but for a constant
    rings = [
        best + part * miss * torch.linalg.solve_triangular(factor, circle.mT, upper=True).mT
        for part in (1, 0.6, 0.25)
    ]
    aside = price * correlation / (1 - correlation**2)  # where the middles of the strips stand
    named = price > 0.3 and kind == "absolute"
    return Panels((
        Plot((
            Field(SIDE, SIDE, zeros, "classes"),
            *(Series("", ring[:, 0], ring[:, 1], "gray", "line") for ring in rings),
            Series("", ball[:, 0], ball[:, 1], "ink", "line"),
            Series("", best[:1], best[1:], "gray", "points"),
            Series("", w[:1], w[1:], color, "points"),
            Label(list(MAP) if named else "", (-aside, 2.3, 0), (2.75, -aside, 0), size=12),
            Label("least squares", best[0], best[1], side="right", size=12),
            Label("corner" if caught else "", w[0], w[1], color, side="below"),
        ), x="w₁", y="w₂", title="the price pulls the point in", square=True, x_range=(-3, 3),
            y_range=(-3, 3)),
        Plot((
            Series("", TURN, path[:, 0], "orange", "line"),
            Series("", TURN, path[:, 1], "blue", "line"),
            Series("", TURN, torch.where((path == 0).any(1), 0.0, torch.nan), "green", "points"),
            Series("", [angle, angle], w, color, "points"),
            Label(("w₁", "w₂"), (angle, angle), w, side="above"),
        ), x="angle of the least squares point", y="weight",
            title="never 0" if kind == "squared" else "one weight is exactly 0 where it is green",
            x_range=(0, 360), y_range=(-2.2, 2.2)),
    ))


@functools.lru_cache(maxsize=4)  # the map and the curves are those of all angles
def _caught(price: float, correlation: float, kind: str) -> tuple[Tensor, Tensor]:
    """Map which weights become 0 by the point of least squares; solve along its circle."""
    plane = torch.stack(torch.meshgrid(SIDE, SIDE, indexing="xy"), dim=-1).flatten(0, 1)
    around = FAR * torch.stack([TURN.deg2rad().cos(), TURN.deg2rad().sin()], dim=1)
    found = _solved(torch.cat([plane, around]), price, correlation, kind)
    gone = (found[: len(plane)] == 0).double() @ torch.tensor([1.0, 2.0], dtype=torch.float64)
    numbers = torch.tensor([9, *MAP.values()])[gone.long()]
    return numbers.view(len(SIDE), len(SIDE)), found[len(plane):]


def _solved(best: Tensor, price: float, correlation: float, kind: str) -> Tensor:
    """Find the weights at a price, for many points (B, 2) of least squares."""
    X = 2**0.5 * _factor(correlation)  # X'X/2 is the correlation matrix
    y = best @ X.mT
    if kind == "squared":
        return ridge_path(X, y.mT, torch.tensor([2 * price], dtype=X.dtype))[0].mT
    return best if price == 0 else fista(X.expand(len(y), 2, 2), y, price)


def _factor(correlation: float) -> Tensor:
    """Factor the correlation matrix of two inputs as R'R."""
    C = torch.tensor([[1, correlation], [correlation, 1]], dtype=torch.float64)
    return torch.linalg.cholesky(C, upper=True)


PUBLISHED = (3, 9, 4, 7, 2, 10, 5, 8, 6, 1, -7, 7)  # Efron et al. 2004; -7 is 7 leaving
FOLLOWED = {"order_errors": at_most_goal(0), "knot_error": at_most_goal(1e-6)}


@learner
def estimator(
    inputs: PositiveInt, outputs: PositiveInt, rng: torch.Generator, *, alpha: PositiveFloat = 0.1
) -> Lasso:
    """Builds scikit-learn's lasso for any table with a number to predict.

    Args:
        alpha: Price of the weights, in scikit-learn's convention.
    """
    return Lasso(alpha=alpha, max_iter=10_000)


@experiment(
    reaches={**FOLLOWED, "support_f1": Range(0.8, 1)}, floor=FOLLOWED,
    source="Efron, Hastie, Johnstone, Tibshirani (2004), Least angle regression: diabetes data",
)
def diabetes_path(run: Run, *, grid: Annotated[int, Range(50, 2000)] = 200) -> None:
    """Follows the lasso on the diabetes data as the price falls: who enters, and when."""
    data, target = load_diabetes(return_X_y=True)  # columns are centered, of length 1
    X, y = torch.as_tensor(data), torch.as_tensor(target - target.mean())
    theirs, _, _ = lars_path(data, y.numpy(), method="lasso")
    top = float(lambda_max(X, y))
    alphas = top * torch.logspace(0.001, -4, grid, dtype=torch.float64)
    w = fista(X, y, alphas)
    events, knots = _events(X, y, alphas, w)
    pairs = itertools.zip_longest(events, PUBLISHED)
    run.record(order_errors=sum(ours != published for ours, published in pairs))
    same = len(knots) == len(theirs) - 1  # their last is 0, where the path ends
    run.record(knot_error=np.abs(knots - theirs[:-1]).max() if same else np.inf)
    run.say("order: " + ", ".join(str(one) for one in events))
    sizes = w.abs().sum(-1)
    lines = [Series(f"{j + 1}", sizes, w[:, j], "other") for j in range(10)]
    run.figure("path", figures.draw(Plot(tuple(lines), "sum of |w|", "coefficient")))
    if run.full:
        X, y, truth = sparse_data(run.seed, 200, 1000, 20)
        found = fista(X, y, 0.3)
        run.record(support_f1=f1_score(truth != 0, found != 0), found=int((found != 0).sum()))


def _events(X: Tensor, y: Tensor, alphas: Tensor, w: Tensor) -> tuple[list[int], np.ndarray]:
    """Find who enters (+) or leaves (-) along falling prices, and the price of each event."""
    while True:
        changed = ((w[1:] != 0) != (w[:-1] != 0)).any(-1)
        high, low = alphas[:-1][changed], alphas[1:][changed]
        if float((high - low).max()) < 1e-7:
            break
        parts = torch.linspace(0, 1, 9, dtype=alphas.dtype)
        alphas = (high[:, None] + (low - high)[:, None] * parts).flatten()
        w = fista(X, y, alphas)
    entered = (w[1:] != 0).int() - (w[:-1] != 0).int()
    who = entered[changed].nonzero()
    events = [int((j + 1) * entered[changed][row, j]) for row, j in who]
    return events, ((high + low) / 2)[who[:, 0]].numpy()

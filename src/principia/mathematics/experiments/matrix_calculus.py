r"""Matrix calculus: what it reaches on data."""

import itertools
import math
from typing import Annotated

import plotly.graph_objects as go
import torch
from sklearn.datasets import load_iris, load_wine
from torch import Tensor

from principia.lab import figures
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.mathematics.matrix_calculus import RULES, jacobian

GOALS = {"relative_error": at_most_goal(1e-6), "gradient_error": at_most_goal(1e-10)}


@experiment(
    reaches=GOALS, floor=GOALS,
    source="Dempster (1972), Covariance selection: without zeros in K the maximum is the inverse",
)
def precision_ascent(
    run: Run, *, shown: Annotated[float, Range(0, 1)] = 0.15,
    most_steps: Annotated[int, Range(20, 1000)] = 100,
) -> None:
    """Climbs log det K - Tr(SK) to the inverse correlations of wines, or of irises when quick.

    Args:
        shown: Smallest partial correlation that is drawn.
        most_steps: After so many steps it gives up.
    """
    data = load_wine() if run.full else load_iris()
    X = torch.as_tensor(data.data, dtype=torch.float64)
    Z = (X - X.mean(dim=0)) / X.std(dim=0, correction=0)
    S = Z.mT @ Z / len(Z)
    path, gaps = _ascend(S, most_steps)
    K, target, steps = path[-1], torch.linalg.inv(S), range(len(path))
    errors = (path - target).norm(dim=(1, 2)) / target.norm()
    smallest = float(torch.linalg.eigvalsh(path).min())
    run.record(relative_error=float(errors[-1]), gradient_error=max(gaps), steps=steps[-1])
    run.record(smallest_eigenvalue=smallest)
    curve = Series("relative error", steps, errors, style="line")
    run.figure("ascent", figures.draw(Plot((curve,), "step", "distance to the inverse", "y")))
    spread = K.diagonal().sqrt()
    names = [name.removesuffix(" (cm)").replace("_", " ") for name in data.feature_names]
    run.figure("partial_correlations", _graph(-K / torch.outer(spread, spread), names, shown))


def _ascend(S: Tensor, most_steps: int) -> tuple[Tensor, list[float]]:
    """Climb by the gradient K^-1 - S; give the path, and how far autograd disagrees."""

    def height(K: Tensor) -> float:
        factor, failed = torch.linalg.cholesky_ex(K)
        return -math.inf if failed else float(2 * factor.diagonal().log().sum() - (S * K).sum())

    path, gaps = [torch.eye(len(S)).to(S)], []
    for _ in range(most_steps):
        K = path[-1]
        gradient = RULES["log_determinant"].derivative(K) - RULES["trace_inner"].derivative(K, S)
        exact = jacobian(lambda K: torch.logdet(K) - (S @ K).trace(), K)
        gaps.append(float((gradient - exact).abs().max() / (1 + exact.abs().max())))
        uphill = K @ gradient @ K  # of second derivative -K^-1 V K^-1: Newton's direction
        if uphill.norm() <= 1e-8 * K.norm():  # to first order, what is still missing
            break
        uphill, step, start = (uphill + uphill.mT) / 2, 1.0, height(K)
        noise = 1e-14 * (1 + abs(start))  # heights are no more exact than this
        rise = 1e-4 * float((gradient * uphill).sum())  # Armijo's, for a step of 1
        while height(K + step * uphill) < start + step * rise - noise:
            step /= 2  # also where K would not stay positive definite
        path.append(K + step * uphill)
    return torch.stack(path), gaps


def _graph(correlations: Tensor, names: list[str], shown: float) -> go.Figure:
    """Draw names on a circle and a line for each partial correlation, red where negative."""
    angles = 2 * math.pi * torch.arange(len(names)) / len(names)
    x, y = angles.sin().tolist(), angles.cos().tolist()
    figure = figures.draw(Plot(()))
    for i, j in itertools.combinations(range(len(names)), 2):
        value = float(correlations[i, j])
        if abs(value) >= shown:
            line = {"width": 1 + 8 * abs(value), "color": "#2563eb" if value > 0 else "#dc2626"}
            label = f"{names[i]}, {names[j]}: {value:.2f}"
            figure.add_scatter(x=[x[i], x[j]], y=[y[i], y[j]], mode="lines", line=line, name=label)
    dots = {"size": 12, "color": "#111827"}
    figure.add_scatter(
        x=x, y=y, text=names, mode="markers+text", textposition="top center", marker=dots)
    figure.update_xaxes(visible=False, range=[-1.5, 1.5])
    figure.update_yaxes(visible=False, range=[-1.3, 1.3], scaleanchor="x")
    return figure.update_layout(height=560, showlegend=False)

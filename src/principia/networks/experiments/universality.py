r"""Universal approximation: what it reaches on data."""

from typing import Annotated

import numpy as np
import torch
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.data.photographs import photographs
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.networks.universality import RidgeSpan, cube_grid

IMAGE_GOALS = {
    "relu_ratio": at_most_goal(0.8), "tanh_ratio": at_most_goal(0.8),
    "idle_doublings": at_most_goal(0), "square_drift": at_most_goal(1e-6),
}


@experiment(
    reaches=IMAGE_GOALS, floor={"relu_rmse": at_most_goal(0.087), **IMAGE_GOALS},
    source="Leshno et al. (1993), theorem 1: with ridges that are no polynomials the error falls "
    "with every doubling; squares stay where their six monomials are",
)
def fit_image(run: Run, *, scale: Annotated[float, Range(3, 10)] = 5.0) -> None:
    """Fits a photograph as a function of two variables by ever more ridges of each shape."""
    side, widths = (64, 2 ** np.arange(4, 12)) if run.full else (32, 2 ** np.arange(4, 10))
    photo = torch.tensor(photographs()["china"]).double().mean(dim=2) / 255
    left = (photo.shape[1] - len(photo)) // 2
    crop = photo[:, left : left + len(photo)]
    y, x = F.adaptive_avg_pool2d(crop[None], side).reshape(-1, 1), cube_grid(side, 2)
    pictures = {"photograph": y}

    def rmse(shape: str, width: int) -> float:
        rng = run.seed.child((shape, width)).torch()
        span = RidgeSpan(2, phi=shape, width=width, scale=scale, rng=rng).fit(x, y)
        if shape in ("relu", "square") and width in (16, 128, widths[-1]):
            pictures[f"{shape}, {width}"] = span(x)
        if shape == "relu" and width == widths[-1]:
            run.keep(span)
        return float((span(x) - y).square().mean().sqrt())

    errors = {
        shape: np.array([rmse(shape, int(width)) for width in widths])
        for shape in run.steps(("relu", "tanh", "softplus", "gaussian", "square"), "shapes")
    }
    for shape in ("relu", "tanh"):
        ratio = errors[shape][-1] / errors[shape][widths == 128].item()
        run.record(**{f"{shape}_rmse": errors[shape][-1], f"{shape}_ratio": ratio})
    run.record(
        square_rmse=errors["square"][-1],
        square_drift=np.abs(errors["square"] - rmse("square", 6)).max(),  # from the six monomials
        idle_doublings=float((np.diff([errors["relu"], errors["tanh"]]) >= 0).sum()),
    )
    shown = [one.reshape(side, side).clamp(0, 1) for one in pictures.values()]
    run.figure("reconstructions", figures.images(shown, list(pictures), columns=4))
    curves = tuple(Series(shape, widths, one, "other") for shape, one in errors.items())
    run.figure("errors", figures.draw(Plot(curves, "ridges", "RMSE", log="xy")))

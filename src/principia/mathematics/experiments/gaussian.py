r"""Gaussian: what it reaches on data."""

from typing import Annotated

import torch
from sklearn.linear_model import Ridge

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.draws import randn
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.mathematics.gaussian import condition, fit_gaussian


@experiment(
    reaches={"ratio": at_most_goal(0.81), "ridge_gap": at_most_goal(1e-6)},
    floor={"ratio": at_most_goal(0.87), "ridge_gap": at_most_goal(1e-6)},
    source="scikit-learn's Ridge on the same halves of MNIST: RMSE 0.215, the mean image's 0.267",
)
def inpainting(
    run: Run, *, shrinkage: Annotated[float, Range(1e-4, 0.5)] = 0.01,
    observed: Annotated[float, Range(0.15, 0.85)] = 0.5,
) -> None:
    """Fills in the rest of digits whose upper part is seen, by the conditional mean.

    Args:
        shrinkage: Share of the covariance that is replaced by a multiple of the identity.
        observed: Share of the rows that is seen.
    """
    images, _, tests, _ = handwriting(run)
    side, width = images.shape[1:]
    k = round(observed * side) * width
    X, x = images.flatten(1).double(), tests.flatten(1).double()
    law = fit_gaussian(X, shrinkage)
    given = condition(law, range(k), x[:, :k])
    eigenvalue = float(X.var(dim=0, correction=0).mean())
    penalty = len(X) * shrinkage * eigenvalue / (1 - shrinkage)
    ridge = Ridge(alpha=penalty, solver="cholesky").fit(X[:, :k].numpy(), X[:, k:].numpy())
    theirs = torch.from_numpy(ridge.predict(x[:, :k].numpy()))
    rmse, baseline = (
        float((guess - x[:, k:]).square().mean().sqrt()) for guess in (given.mean, law.mean[k:])
    )
    run.record(rmse=rmse, ratio=rmse / baseline, ridge_gap=float((given.mean - theirs).abs().max()))
    shown, noise = torch.arange(5) * (len(x) // 5), randn(run.seed.torch(), 3, 5, x.shape[1] - k)
    seen, factor = x[shown, :k], condition(law, range(k), x[0, :k]).scale_tril
    guesses = given.mean[shown]
    fills = [torch.zeros_like(guesses), guesses, *(guesses + noise @ factor.mT), x[shown, k:]]
    whole = torch.stack([torch.cat([seen, fill.clamp(0, 1)], dim=1) for fill in fills], dim=1)
    names = ["observed", "conditional mean", "sample 1", "sample 2", "sample 3", "truth"]
    run.figure("inpainting", figures.images(
        list(whole.reshape(-1, side, width)), names + [""] * 24, columns=6
    ))

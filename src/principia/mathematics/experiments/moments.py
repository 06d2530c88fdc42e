r"""Moments: what it reaches on data."""

from typing import Annotated

import numpy as np
import torch

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.mathematics.moments import RunningMoments, affine_cov


@experiment(
    reaches={
        "mean": Range(0.13065, 0.13075), "deviation": Range(0.30805, 0.30815),
        "covariance_error": at_most_goal(1e-10),
    },
    floor={"covariance_error": at_most_goal(1e-10)},
    source="PyTorch's MNIST example normalizes by mean 0.1307 and standard deviation 0.3081; "
    "covariances are compared with np.cov",
)
def pixel_statistics(run: Run, *, chunk: Annotated[int, Range(64, 4096)] = 512) -> None:
    """Streams pictures of digits in float32 chunks: mean, deviation and covariance of pixels."""
    pictures = handwriting(run)[0].float()
    rows, side = pictures.flatten(1), pictures.shape[-1]
    moments = RunningMoments(rows.shape[1])
    for start in run.steps(range(0, len(rows), chunk), "chunks"):
        moments.update(rows[start : start + chunk])
    within, between = moments.var().mean(), moments.mean.var(correction=0)
    cov = moments.cov(ddof=1)
    reference = torch.from_numpy(np.cov(rows.numpy(), rowvar=False, dtype=np.float64))
    run.record(
        mean=float(moments.mean.mean()), deviation=float((within + between).sqrt()),
        covariance_error=float((cov - reference).abs().max()),
    )

    step = max(1, side // 14)  # larger pictures are shrunk, and their covariance with them
    shrink = torch.eye(side // step).to(cov).repeat_interleave(step, dim=1) / step
    heat = figures.images(
        [affine_cov(torch.kron(shrink, shrink), cov)], ["covariance of pixels, row by row"],
        signed=True,
    )
    run.figure("covariance", heat.update_layout(height=560))
    offsets, naive, streamed = torch.logspace(-1, 4, 16), [], []
    for offset in offsets:
        x = rows[:chunk].flatten()[:, None] + offset
        exact = float(x.double().var(correction=0))
        stream = RunningMoments(1)
        for part in x.split(4096):
            stream.update(part)
        textbook = x.square().mean() - x.mean() ** 2
        for errors, value in ((naive, textbook), (streamed, stream.var())):
            errors.append(max(1e-17, abs(float(value) / exact - 1)))
    run.figure("cancellation", figures.draw(Plot(
        (Series("mean of squares minus square of mean, float32", offsets, naive),
         Series("RunningMoments on the same float32 numbers", offsets, streamed, role="predicted")),
        "offset added to the pixels", "relative error of the variance", "xy",
    )))

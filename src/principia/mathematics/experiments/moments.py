r"""Moments: what it reaches on data."""

import functools
import statistics
from typing import Annotated, Literal, NamedTuple

import numpy as np
import torch

from principia.lab import figures
from principia.lab.data.handwriting import handwriting
from principia.lab.draws import randn
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Label, Panels, Role
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.mathematics.moments import RunningMoments, affine_cov

OFFSETS = (1.0, 1e7)  # least and largest
PLACES = 6  # digits behind the point
Precision = Literal["float32", "float64"]


@hero(moves="offset")
def digits(
    seed: Seed, *, offset: Annotated[float, Range(*OFFSETS)] = 1000.0,
    precision: Precision = "float32", spread: Annotated[float, Range(0.5, 10)] = 1.5,
) -> Panels:
    """To subtract two huge numbers eats every digit; to center first keeps them.

    Args:
        offset: What is added to all numbers; it does not change their variance.
        precision: How the numbers are stored.
        spread: Their standard deviation before they are stored.
    """
    found = _variances(seed, offset, precision, spread)
    rows = {name: f"{value:.{PLACES}f}" for name, value in zip(ROWS, found, strict=True)}
    squares, square, textbook, merged, truth = rows.values()
    same = [_agreeing(squares, square), _agreeing(square, squares), _agreeing(textbook, truth),
            _agreeing(merged, truth), len(truth)]
    shades: list[tuple[Role, Role]] = [
        ("gray", "ink"), ("gray", "ink"), ("green", "red"), ("green", "red"), ("ink", "ink"),
    ]
    letters: dict[Role, list[tuple[str, float, float]]] = {
        "gray": [], "ink": [], "green": [], "red": []
    }
    for row, (text, kept, (good, bad)) in enumerate(zip(rows.values(), same, shades, strict=True)):
        for place, letter in enumerate(text):
            letters[good if place < kept else bad].append((letter, place - len(text), -row))
    right = {
        name: [_digits(one, name) for one in _curve(seed, precision, spread)]
        for name in ("textbook", "merged")
    }
    now = {name: _digits(found, name) for name in right}
    color = "red" if now["textbook"] < 1 else "orange"
    return Panels((
        Plot((
            *(Label([one[0] for one in some], [one[1] for one in some], [one[2] for one in some],
                    shade, 16) for shade, some in letters.items()),
            *(Label(name, 0.0, 0.42 - row, shade, 12, "left")
              for row, (name, shade) in enumerate(ROWS.items())),
        ), title="a subtraction, digit by digit", bare=True,
            x_range=(-23, 0.5), y_range=(-4.5, 0.8)),
        Plot((
            Series("", WHERE, right["textbook"], "orange", "line"),
            Series("", WHERE, right["merged"], "green", "line"),
            Series("", [offset], [now["textbook"]], color, "points"),
            Series("", [offset], [now["merged"]], "green", "points"),
            Label("textbook", offset, now["textbook"] + 0.8, color),
            Label("centered", offset, now["merged"] + 0.8, "green"),
        ), x="offset of the numbers", y="correct digits of the variance", log="x",
            title="digits that are left", x_range=(0.5, 1e8), y_range=(-0.5, 18)),
    ))


ROWS: dict[str, Role] = {
    "mean of the squares": "gray", "minus square of the mean": "gray",
    "textbook variance": "orange", "centered, then merged from batches": "green", "truth": "ink",
}
WHERE = np.geomspace(*OFFSETS, 29)


class _Variances(NamedTuple):
    squares: float
    square: float
    textbook: float
    merged: float
    truth: float


def _variances(seed: Seed, offset: float, precision: Precision, spread: float) -> _Variances:
    """Compute a variance three ways, from the same stored numbers."""
    x = (offset + spread * randn(seed.torch(), 200)).to(getattr(torch, precision))
    squares, square = (x * x).mean(), x.mean() ** 2
    moments = RunningMoments(1)
    for batch in x[:, None].split(25):
        moments.update(batch)
    exact = statistics.pvariance(x.double().tolist())  # in fractions, without rounding
    return _Variances(*map(float, (squares, square, squares - square, moments.var(), exact)))


@functools.lru_cache(maxsize=4)  # all frames stand on one curve
def _curve(seed: Seed, precision: Precision, spread: float) -> list[_Variances]:
    return [_variances(seed, float(offset), precision, spread) for offset in WHERE]


def _digits(found: _Variances, name: str) -> float:
    """Count the correct digits of a variance."""
    error = abs(getattr(found, name) / found.truth - 1)
    return float(np.clip(-np.log10(max(1e-17, error)), 0, 16))


def _agreeing(text: str, other: str) -> int:
    """Count the letters with which two numbers begin alike; zeros alone are no digits."""
    pairs = enumerate(zip(text, other, strict=False))
    kept = next((k for k, (a, b) in pairs if a != b), len(text))
    same_length = len(text) == len(other)
    return kept if same_length and text[:kept].strip("0.") else 0


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

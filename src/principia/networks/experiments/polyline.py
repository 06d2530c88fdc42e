r"""Polylines: what it reaches on data."""

from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from principia.lab import figures
from principia.lab.data.photographs import photographs
from principia.lab.data.speech import spoken_digit
from principia.lab.evidence import Plot, Series
from principia.lab.params import Range
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.training import Supervised, fit, rmse
from principia.networks.claims.polyline import Pieces
from principia.networks.polyline import (
    Polyline,
    PolylineNetwork,
    best_knots,
    fit_values,
    interpolate,
)


@experiment(
    reaches={"rmse_ratio": at_most_goal(0.7), "speech_ratio": at_most_goal(0.7)},
    floor={"rmse_ratio": at_most_goal(0.85)},
    source="Bellman and Roth (1969), Curve fitting by segmented straight lines; to beat is the "
    "least-squares polyline on equal pieces",
)
def scanline(
    run: Run, *, row: Annotated[int, Range(0, 426)] = 200, pieces: Pieces | None = None
) -> None:
    """Follows a row of pixels, in full also a spoken word, with few pieces at the best places."""
    m = pieces or (40 if run.full else 20)
    pixels = torch.from_numpy(photographs()["china"][row].mean(axis=1) / 255)
    x, best, even = _two_fits(run, "scanline", pixels, m)
    fits = best, even, fit_values(x, pixels, best.knots)
    a, b, c = (float(rmse(one(x), pixels)) for one in fits)
    run.record(best_rmse=a, equal_rmse=b, rmse_ratio=a / b, refitted_rmse=c)
    run.keep(best.module("relu"), example=x[:1, None].float())
    network = PolylineNetwork(m, rng=run.seed.child("init").torch())
    data = x.float()[:, None], pixels.float()[:, None]
    fit(
        network, data, Supervised(F.mse_loss), torch.optim.Adam(network.parameters(), lr=1e-2),
        steps=4000 if run.full else 400, batch_size=len(x), seed=run.seed.child("relu"), run=run,
        name="relu",
    )
    run.record(trained_rmse=float(rmse(network(data[0]).detach(), data[1])))
    if not run.full:
        return
    wave = spoken_digit(data_dir=run.data_dir)
    middle = len(wave) // 2
    speech = wave[middle - 320 : middle + 320]
    x, best, even = _two_fits(run, "speech", speech, m)
    run.record(speech_ratio=float(rmse(best(x), speech) / rmse(even(x), speech)))


def _two_fits(run: Run, name: str, y: Tensor, m: int) -> tuple[Tensor, Polyline, Polyline]:
    """Fit a signal with m pieces, at the best knots among its samples and at equal distances."""
    x = torch.linspace(-1, 1, len(y), dtype=y.dtype)
    best = interpolate(Polyline(x, y), best_knots(x, y, m))
    even = fit_values(x, y, torch.linspace(-1, 1, m + 1, dtype=y.dtype))
    series = (
        Series("signal", x, y, role="other"),
        Series("best knots", best.knots, best.values, style="line"),
        Series("the knots", best.knots, best.values),
        Series("equal knots", even.knots, even.values, role="bound"),
    )
    run.figure(name, figures.draw(Plot(series, "place", "signal")))
    return x, best, even

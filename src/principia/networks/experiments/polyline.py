r"""Polylines: what it reaches on data."""

import functools
import math
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from principia.lab import figures
from principia.lab.data.photographs import photographs
from principia.lab.data.speech import spoken_digit
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import Range, UnitInterval
from principia.lab.pictures import Label, Panels
from principia.lab.pictures.marks import Color
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit, rmse
from principia.networks.claims.polyline import Pieces
from principia.networks.polyline import (
    Polyline,
    PolylineNetwork,
    best_knots,
    fit_values,
    interpolate,
)

COLORS: tuple[Color, ...] = ("blue", "green", "orange", "purple", "teal", "pink", "lime")
FAR = 0.12  # from the curve: what is drawn red


@hero(moves="walker", frames=25)
def one_bend_one_unit(
    seed: Seed, *, pieces: Annotated[int, Range(2, 16)] = 10,
    knots: Literal["best", "equal"] = "best", walker: UnitInterval = 0.6,
) -> Panels:
    """Every bend of a polyline is one rectifier that wakes up there and stays awake.

    Args:
        pieces: Straight pieces, one more than there are rectifiers; two are too few.
        knots: Whether the bends are at the best places or at equal distances.
        walker: How far a walker has come; rectifiers behind it are awake.
    """
    x, y, fit = _fitted(seed, pieces, knots)
    net = fit.module("relu")
    units = (net.c * net.phi(net.w * x[:, None] + net.biases)).detach()  # (n, pieces - 1)
    first = (net.a * x + net.b).detach()
    bends, heights = fit.knots[1:-1], fit.values[1:-1]
    awake, behind = bends <= walker, x <= walker
    so_far = first + units[:, awake].sum(dim=1)
    wrong = behind & ((so_far - y).abs() > FAR)
    now = so_far[behind][-1]
    colors: list[Color] = [COLORS[unit % len(COLORS)] for unit in range(pieces - 1)]
    shown = [behind & (x >= bend) for bend in bends]
    walk = (
        Series("", x, y, "gray", "line"),
        Series("", x[~behind][::4], so_far[~behind][::4], "gray", "points"),
        Series("", x[behind], so_far[behind], "ink", "line"),
        Series("", x, torch.where(wrong, so_far, math.nan), "red", "line"),
        *(Series("", bends[[k]][awake[[k]]], heights[[k]][awake[[k]]], color, "points")
          for k, color in enumerate(colors)),
        Series("", x[behind][-1:], now[None], "ink", "points"),
        Label("walker", x[behind][-1:], now[None], "ink", side="left"),
    )
    ramps = (
        Series("", x[behind], first[behind], "ink", "line"),
        *(Series("", x[one], units[one, k], color, "line")
          for k, (one, color) in enumerate(zip(shown, colors, strict=True))),
        *(Series("", bends[[k]][awake[[k]]], [0.0] * int(awake[k]), color, "points")
          for k, color in enumerate(colors)),
    )
    low, high = float(units.min()), float(units.max())
    return Panels((
        Plot(walk, x="place", y="height", x_range=(0, 1), y_range=(-2.7, 2.7),
             title="their sum: the polyline; beyond the walker it would go straight on"),
        Plot(ramps, x="place", y="height", x_range=(0, 1),
             y_range=(1.1 * min(low, -1.0), 1.1 * max(high, 1.0)),
             title=f"{int(awake.sum())} of {pieces - 1} rectifiers are awake"),
    ), columns=1)


@functools.lru_cache(maxsize=4)
def _fitted(
    seed: Seed, pieces: int, knots: Literal["best", "equal"]
) -> tuple[Tensor, Tensor, Polyline]:
    """Draw hills with a cliff, and fit a polyline to them."""
    phases = 2 * math.pi * torch.rand(3, generator=seed.torch()).double()
    x = torch.linspace(0, 1, 121).double()
    waves = 2 * math.pi * torch.tensor([[1.0], [2.0], [4.0]]) * x + phases[:, None]
    y = 0.5 * waves.sin().sum(dim=0) + torch.tanh(20 * (x - 0.5))
    if knots == "equal":
        return x, y, fit_values(x, y, torch.linspace(0, 1, pieces + 1).double())
    return x, y, fit_values(x, y, best_knots(x, y, pieces))


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

r"""Linear dynamics: what it reaches on data."""

import functools
from typing import Annotated

import numpy as np
import torch
from scipy.stats import kendalltau
from torch import Tensor
from torch.nn.functional import one_hot

from principia.lab import figures
from principia.lab.data.digits import digits
from principia.lab.data.mnist import mnist
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Label, Matrix, Panels
from principia.lab.runs import Run, at_least_goal, at_most_goal, experiment
from principia.lab.seeds import Seed
from principia.networks.claims.linear_dynamics import (
    STEP,
    crossings,
    frame,
    half_time,
    mode_curves,
    normal,
)
from principia.networks.linear_dynamics import (
    TwoLayerLinear,
    Whitener,
    aligned_init,
    cross_moment,
    linear_flow,
    mode_flow,
    mode_strengths,
)

TINY_START = 1e-6  # scale of the weights that know nothing of the modes
CHUNKS = 50  # of a long descent, between which its progress is told

THINGS = ("canary", "robin", "salmon", "sole", "oak", "pine", "rose", "daisy")
TRAITS = ("grows", "moves", "roots", "flies", "swims", "bark", "petals", "yellow", "red", "pink",
          "flat", "acorns", "needles", "thorns", "white")  # of all, halves, pairs and single things
LEVELS = {"that all grow": "blue", "animal or plant": "green", "bird or fish": "orange",
          "canary or robin": "purple"}
SIZES = (1, 1, 2, 4)  # modes of each level
MOMENTS, LONG = 24, 8.0  # frames, and the time that they take
UNKNOWN = 0.4  # a trait that is off by more counts as wrong


@hero(moves="time", frames=MOMENTS + 1)
def broad_before_fine(
    seed: Seed, *, start: Annotated[float, Range(0.003, 0.4)] = 0.01,
    hidden: Annotated[int, Range(1, 16)] = 8, time: Annotated[int, Range(0, MOMENTS)] = 10,
) -> Panels:
    """One layer learns everything at once; two wait, then learn broad distinctions before fine.

    Args:
        start: Size of the random weights at time 0; large ones leave no stages.
        hidden: Units between the two layers; with few, fine distinctions are never learned.
        time: How long both have learned, in thirds.
    """
    truth, times, tables, strengths = _taught(seed, start, hidden)
    at = round(time / MOMENTS * (len(times) - 1))
    plots, curves = [], []
    for name, table, shares in zip(("one layer", "two layers"), tables, strengths, strict=True):
        off = (table[at] - truth).abs()
        cells = torch.where(off > UNKNOWN, off, -table[at].clamp(0, 1))
        plots.append(Plot(
            (Matrix(cells, THINGS, TRAITS, signed=True, low=-1, high=1),),
            title=f"{name}: {int((off > UNKNOWN).sum())} traits still wrong (red)",
            x_range=(-0.5, 14.5), y_range=(-0.5, 7.5),
        ))
        level = [color for color, size in zip(LEVELS.values(), SIZES, strict=True)
                 for _ in range(size)]
        lines = [Series("", times[::6], share[::6], color, "line")  # type: ignore[arg-type]
                 for share, color in zip(shares.T, level, strict=True)]
        now = Series("", [times[at]] * len(level), shares[at], "ink", "points")
        curves.append((*lines, now))
    words = [Label(words, 4.5, 0.7 - 0.2 * k, color)  # type: ignore[arg-type]
             for k, (words, color) in enumerate(LEVELS.items())]
    for marks in ((*curves[0], *words), curves[1]):
        plots.append(Plot(
            marks, x="time", y="share learned", x_range=(0, LONG), y_range=(-0.2, 1.3),
        ))
    return Panels(tuple(plots), columns=2)


@functools.lru_cache(maxsize=4)  # all frames are moments of one lesson
def _taught(
    seed: Seed, start: float, hidden: int
) -> tuple[Tensor, Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Teach one layer and two; give the truth, times, the tables and the strengths of the modes."""
    n = len(THINGS)
    groups = (torch.ones(n, 1), *(torch.eye(k).repeat_interleave(n // k, dim=0) for k in (2, 4, n)))
    truth = torch.cat(groups, dim=1).double()  # (things, traits)
    Gamma = cross_moment(n**0.5 * torch.eye(n).double(), truth)
    U, s, Vh = torch.linalg.svd(Gamma, full_matrices=False)
    Q, W = (start * normal(seed.child(side), *shape)
            for side, shape in {"Q": (len(Gamma), hidden), "W": (hidden, n)}.items())
    lr = LONG / 240
    Qs, Ws = TwoLayerLinear(Q, W).descend(Gamma, lr=lr, steps=240)
    times = lr * torch.arange(len(Qs)).double()
    one = linear_flow(Q @ W, Gamma, times)
    eye = torch.eye(n).double().expand(len(times), n, n)
    strengths = mode_strengths(one, eye, U, Vh.mT) / s, mode_strengths(Qs, Ws, U, Vh.mT) / s
    tables = tuple(n**0.5 * A.mT for A in (one, Qs @ Ws))
    return truth, times, tables, strengths


@experiment(
    reaches={
        "deviation": at_most_goal(0.01), "order": at_least_goal(0.9),
        "mnist_deviation": at_most_goal(0.01), "mnist_order": at_least_goal(0.9),
    },
    floor={"deviation": at_most_goal(0.01), "order": at_least_goal(0.9)},
    source="Saxe, McClelland and Ganguli (2014), Exact solutions to the nonlinear dynamics of "
    "learning in deep linear neural networks, sec. 1, here on handwritten digits",
)
def digit_modes(
    run: Run, *, a0: Annotated[float, Range(1e-5, 0.05)] = 0.001,
    hidden: Annotated[int, Range(10, 50)] = 20, starts: Annotated[int, Range(1, 20)] = 5,
    lr: Annotated[float, Range(0.001, 0.05)] = STEP,
) -> None:
    """Learns classes of whitened digits mode by mode, from aligned and from tiny random weights."""
    x, labels, x_more, labels_more = digits()
    problems: dict[str, tuple[Tensor, Tensor, int | None]] = {
        "": (torch.cat([x, x_more]), torch.cat([labels, labels_more]), None)
    }
    if run.full:
        problems["mnist_"] = (*mnist("train", data_dir=run.data_dir), 50)
    for name, (pictures, classes, directions) in problems.items():
        # no layer has a bias, so that the second moment counts and not the covariance
        whitener = Whitener(center=False).fit(pixels := pictures.flatten(1).double().numpy())
        X, Y = torch.from_numpy(whitener.transform(pixels)[:, :directions]), one_hot(classes)
        Gamma = cross_moment(X, Y - Y.double().mean(dim=0))
        U, s, Vh = torch.linalg.svd(Gamma, full_matrices=False)
        r = int((s > 1e-8 * s[0]).sum())  # centered classes add up to 0, which costs one mode
        U, s, V = U[:, :r], s[:r], Vh[:r].mT

        R = frame(run.seed.child(f"{name}R"), hidden, len(Gamma))
        model, end = aligned_init(Gamma, a0, R), 2 * float(half_time(s[-1], a0))
        times, measured = _descent(run, model, Gamma, U, V, end, lr, f"{name}aligned start")
        predicted = mode_flow(s, a0, times)
        picture = Plot(mode_curves(times, measured, predicted), "time", "strength of the modes")
        run.figure(f"{name}modes", figures.draw(picture))

        shapes = {"Q": (len(Gamma), hidden), "W": (hidden, X.shape[1])}
        end, orders, curves = 1.3 * float(half_time(s[-1], TINY_START**2)), [], ()
        for start in range(1, starts + 1):  # chance may swap two modes of nearly one strength
            seeds = run.seed.child(f"{name}{start}")
            model = TwoLayerLinear(*(TINY_START * normal(seeds.child(side), *shape)
                                     for side, shape in shapes.items()))
            what = f"{name}random start {start}"  # an order needs no fine steps
            times, found = _descent(run, model, Gamma, U, V, end, 5 * lr, what)
            halves = crossings(found, s / 2, float(times[1]))
            orders.append(kendalltau(s, -halves).statistic)  # type: ignore[attr-defined]
            curves = tuple(Series(f"s = {s[k]:.3f}", times, found[:, k], "other") for k in range(r))
        run.figure(f"{name}random_start", figures.draw(Plot(curves, "time", picture.y)))
        run.record(**{
            f"{name}modes": r, f"{name}dropped": whitener.dropped_,
            f"{name}strongest": float(s[0]), f"{name}weakest": float(s[-1]),
            f"{name}deviation": float(((measured - predicted).abs() / s).max()),
            f"{name}order": float(np.mean(orders)),
        })


def _descent(
    run: Run, model: TwoLayerLinear, Gamma: Tensor, U: Tensor, V: Tensor, end: float, lr: float,
    what: str,
) -> tuple[Tensor, Tensor]:
    """Descend up to a time, and give times and strengths, some 400 of them."""
    every = max(1, round(end / lr / CHUNKS / 8))
    found = [mode_strengths(model.Q, model.W, U, V)[None].detach()]
    for _ in run.steps(range(CHUNKS), what):
        Qs, Ws = model.descend(Gamma, lr=lr, steps=8 * every, every=every)
        found.append(mode_strengths(Qs, Ws, U, V)[1:])
        model = TwoLayerLinear(Qs[-1], Ws[-1])
    strengths = torch.cat(found)
    return lr * every * torch.arange(len(strengths), dtype=Gamma.dtype), strengths

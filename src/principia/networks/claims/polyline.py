r"""Polylines: what is true of it, and what would refute it.

Knobs:
    polylines: Random polylines that are compared.
    pieces: Pieces of a polyline; where many are drawn, the most.
    kept: Whether the sum has all its units; without one it is another function.
    halved: Whether absolute values have half the coefficients of rectifiers.
    frequency: How fast the sine swings; its bend grows with the square.
    target: The function to interpolate; a step has no second derivative.
    width: Hidden units of a network, one less than pieces; two are too few.
    free: How many numbers a polyline of $m$ pieces is said to have.
    signals: Random signals whose knots are looked for.
    samples: Points of a signal, among which the knots are chosen.
    knots: Whether the best knots are taken, or some at equal distances.
"""

import itertools
from collections.abc import Callable
from typing import Annotated, Literal, get_args

import numpy as np
import torch
from scipy import stats
from scipy.interpolate import make_interp_spline
from torch import Tensor

from principia.lab.evidence import (
    Evidence,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    follows,
    slope,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.networks.activations import ACTIVATIONS
from principia.networks.polyline import (
    Kind,
    Polyline,
    PolylineNetwork,
    best_knots,
    fit_values,
    hat_functions,
    interpolate,
)

Pieces = Annotated[int, Range(2, 200)]
Polylines = Annotated[int, Range(1, 500)]
Frequency = Annotated[int, Range(4, 20)]  # 4 > π: an interval of length 1 has a full swing
PIECES = 2.0 ** torch.arange(3, 9, dtype=torch.float64)  # 8 to 256: how many the claims try
STEP = 0.5**0.5  # where the step function jumps: no knot at equal distances falls there


@claim(control={"kept": "all but one"}, refutes=["sum of units"], source="Lebesgue 1898")
def lebesgue_form(
    seed: Seed, *, polylines: Polylines = 200, pieces: Pieces = 12,
    kept: Literal["all", "all but one"] = "all",
) -> Evidence:
    r"""A polyline of $m$ pieces is $ax+b+\sum_{i<m}c_i(x-x_i)_+$, also beyond its ends."""
    return _same_function(seed, polylines, pieces, "relu", drop=kept == "all but one")


def _same_function(
    seed: Seed, polylines: int, pieces: int, kind: Kind, *, drop: bool = False, scale: float = 1
) -> Evidence:
    """Compare polylines and their form with SciPy's linear spline, far beyond the ends too."""
    rng, phi = seed.torch(), ACTIVATIONS[kind].module()
    x, formed, called, exact = torch.empty(0), [], [], []
    for m in torch.randint(1, pieces + 1, (polylines,), generator=rng).tolist():
        polyline = _random(rng, m)
        x = torch.linspace(-m, 2.0 * m, 400, dtype=torch.float64)
        a, b, c = polyline.to_relu() if kind == "relu" else polyline.to_avu()
        c = scale * c * (torch.arange(m - 1) != ((m - 1) // 2 if drop else -1))
        formed.append(a * x + b + phi(x[:, None] - polyline.knots[1:-1]) @ c)
        called.append(polyline(x))
        exact.append(make_interp_spline(polyline.knots, polyline.values, k=1)(x))
    units = equal_to_rounding(torch.stack(formed), exact).drawn(
        Series("sum of units", x, formed[-1]), Series("polyline", x, exact[-1], role="predicted"),
        x="x", y="g(x)",
    )
    return every({"sum of units": units, "Polyline": equal_to_rounding(torch.stack(called), exact)})


def _random(rng: torch.Generator, pieces: int) -> Polyline:
    """Draw a polyline whose pieces have lengths from 0.1 to 1.1."""
    lengths, values = torch.rand(2, pieces + 1, generator=rng, dtype=torch.float64)
    return Polyline((0.1 + lengths).cumsum(dim=0) - pieces / 4, 2 * values - 1)


@claim(control={"halved": False}, refutes=["sum of units"], source="Lebesgue 1898")
def avu_form(
    seed: Seed, *, polylines: Polylines = 200, pieces: Pieces = 12, halved: bool = True
) -> Evidence:
    r"""It is also $a'x+b'+\sum_{i<m}c_i'|x-x_i|$ with $c_i'=\frac12c_i$."""
    return _same_function(seed, polylines, pieces, "avu", scale=1 if halved else 2)


@claim(control={"target": "step"}, source="de Boor 1978, ch. 3")
def polylines_dense(
    seed: Seed, *, frequency: Frequency = 6, target: Literal["sine", "step"] = "sine"
) -> Evidence:
    r"""Interpolation on $m$ equal pieces of $[0,1]$ errs by at most $\max|f''|/(8m^2)$."""
    f, bend = _sine(seed, frequency), frequency**2
    if target == "step":  # no second derivative where it jumps, 0 elsewhere
        f, bend = lambda x: (x > STEP).to(x), 0
    pieces = frequency * PIECES / 4  # a wave of the sine has 12 pieces or more
    errors = _sup_errors(f, pieces, lambda polyline, x: polyline(x))
    bound = bend / 8 / pieces**2
    return every({
        "bound": at_most(errors, bound, slack=1e-14, why="a theorem; rounding").drawn(
            Series("sup error", pieces, errors),
            Series("max|f''|/(8m²)", pieces, bound, role="bound"),
            x="pieces m", y="sup error", log="xy",
        ),
        "order": slope(
            pieces, errors, -2.0, tol=0.05, labels=("pieces m", "sup error"),
            why="the largest |f''| may lie up to half a piece, 0.25 of a radian, off its middle",
        ),
    })


def _sine(seed: Seed, frequency: int) -> Callable[[Tensor], Tensor]:
    phase = float(seed.numpy().uniform(0, 2 * np.pi))
    return lambda x: torch.sin(frequency * x + phase)


def _sup_errors(
    f: Callable[[Tensor], Tensor], pieces: Tensor, evaluate: Callable[[Polyline, Tensor], Tensor]
) -> Tensor:
    """Measure the largest error on [0, 1] of the interpolation on each number of equal pieces."""
    errors = []
    for m in pieces.long().tolist():
        knots = torch.linspace(0, 1, m + 1, dtype=torch.float64)
        x = _within(knots, 32)
        errors.append((evaluate(interpolate(f, knots), x) - f(x)).abs().max())
    return torch.stack(errors).detach()


def _within(knots: Tensor, each: int) -> Tensor:
    """Place points in each piece, its start first, at equal distances; the last knot ends them."""
    shares = torch.arange(each).to(knots) / each
    inner = knots[:-1, None] + knots.diff()[:, None] * shares
    return torch.cat([inner.flatten(), knots[-1:]])


@claim(
    control={"width": "2"},
    refutes=["sine, relu", "sine, avu", "root, relu", "root, avu", "units"],
    source="Lebesgue 1898; de Boor 1978, ch. 3",
)
def one_layer_universal(
    seed: Seed, *, frequency: Frequency = 6, width: Literal["m - 1", "2"] = "m - 1"
) -> Evidence:
    r"""One hidden layer of $m-1$ ReLUs or AVUs errs by at most $\max|f''|/(8m^2)$ on $[0,1]$."""
    built = PIECES if width == "m - 1" else torch.full_like(PIECES, 3)
    bounds = {  # the root bends without bound at 0; over a distance h it changes by at most √h
        "sine": (_sine(seed, frequency), frequency**2 / 8 / PIECES**2),
        "root": (torch.sqrt, PIECES**-0.5),
    }
    parts: dict[str, Evidence] = {}
    units = []
    for (name, (function, bound)), kind in itertools.product(bounds.items(), get_args(Kind)):
        def network(polyline: Polyline, x: Tensor, kind: Kind = kind) -> Tensor:
            return polyline.module(kind)(x[:, None])[:, 0]

        errors = _sup_errors(function, built, network)
        room = at_most(errors, bound, slack=1e-12, why="a theorem; rounding")
        parts[f"{name}, {kind}"] = room.drawn(
            Series("sup error", PIECES, errors), Series("bound", PIECES, bound, role="bound"),
            x="pieces m, one more than hidden units", y="sup error", log="xy",
        )
        knots = torch.linspace(0, 1, int(built[-1]) + 1)
        units.append(len(interpolate(function, knots).module(kind).c))
    parts["units"] = equal(units, int(PIECES[-1]) - 1, tol=0, why="a count: a kink between pieces")
    return every({**parts, "as drawn": _drawn(seed.child("drawn"))})


def _drawn(seed: Seed) -> Evidence:
    """Look at networks as they are drawn: their weights, and what they make of batches."""
    nets: list[tuple[Callable[[Tensor], Tensor], PolylineNetwork]] = [
        (torch.relu, PolylineNetwork(5, rng=seed.torch())),
        (torch.abs, PolylineNetwork(3, kind="avu", rng=seed.torch())),
        (torch.relu, PolylineNetwork(0, rng=seed.torch())),
    ]
    x, found, exact = torch.linspace(-3, 3, 14, dtype=torch.float64).view(2, 7, 1), [], []
    for phi, net in nets:
        a, b, w, biases, c = (one.double() for one in (net.a, net.b, net.w, net.biases, net.c))
        found.append(net.double()(x))
        units = torch.einsum("i,...i->...", c, phi(x * w + biases))
        exact.append(a * x + b + units[..., None])
    wide, uniform = PolylineNetwork(2000, rng=seed.torch()), stats.uniform(-1, 2)
    ends = [PolylineNetwork(1, rng=seed.child(k).torch()) for k in range(500)]
    why = "independent draws"
    return every({
        "formula": equal_to_rounding(torch.stack(found), torch.stack(exact)),
        "w and biases": follows(torch.cat([wide.w, wide.biases]), uniform, why=why),
        "c": follows(wide.c * 2000**0.5, uniform, why=why),
        "a, b and a single c": follows(
            torch.cat([torch.cat([one.a, one.b, one.c]) for one in ends]), uniform, why=why),
    })


@claim(
    control={"free": "m"},
    refutes=["rank of the evaluation map", "numbers in a form"],
    source="Lebesgue 1898",
)
def parameter_count(
    seed: Seed, *, pieces: Annotated[int, Range(1, 100)] = 20,
    free: Literal["m + 1", "m"] = "m + 1",
) -> Evidence:
    r"""Polylines of $m$ pieces with given knots form a space of dimension $m+1$."""
    polyline = _random(seed.torch(), pieces)
    knots, x = polyline.knots, _within(polyline.knots, 4)
    affine, ramp = torch.stack([x, torch.ones_like(x)], dim=1), x[:, None] - knots[1:-1]
    spans = {
        "values at the knots": hat_functions(knots, x),
        "rectifiers": torch.cat([affine, ramp.relu()], dim=1),
        "absolute values": torch.cat([affine, ramp.abs()], dim=1),
    }
    spans["all together"] = torch.cat(list(spans.values()), dim=1)
    size = pieces + (free == "m + 1")
    ranks = [int(torch.linalg.matrix_rank(span)) for span in spans.values()]
    noise, order = torch.randn(2, len(x), generator=seed.torch(), dtype=torch.float64)
    order = order.argsort()
    fitted = fit_values(x[order], noise[order], knots)(x)
    theirs = torch.linalg.lstsq(spans["rectifiers"], noise, driver="gelsd").solution
    numbers = [2 + len(c) for *_, c in (polyline.to_relu(), polyline.to_avu())]
    return every({
        "rank of the evaluation map": equal(ranks, size, tol=0, why="an integer").drawn(
            Series("rank", list(spans), ranks, style="bars"),
            Series(free, list(spans), [size] * len(spans), role="predicted"),
            x="functions that span", y="dimension",
        ),
        "numbers in a form": equal(numbers, size, tol=0, why="a count"),
        "values found again": equal_to_rounding(
            fit_values(x, polyline(x), knots).values, polyline.values
        ),
        "nearest to noise": equal_to_rounding(fitted, spans["rectifiers"] @ theirs),
    })


@claim(control={"knots": "equal"}, source="Bellman and Roth 1969")
def best_knots_claim(
    seed: Seed, *, signals: Annotated[int, Range(10, 50)] = 20,
    samples: Annotated[int, Range(7, 16)] = 12, pieces: Annotated[int, Range(2, 5)] = 4,
    knots: Literal["best", "equal"] = "best",
) -> Evidence:
    r"""No other knots among the samples interpolate them with a smaller squared error."""
    rng, found, least = seed.torch(), [], []
    shown: list[Series] = []
    even = torch.linspace(0, samples - 1, pieces + 1).round().long()
    choices = list(itertools.combinations(range(1, samples - 1), pieces - 1))
    for _ in range(signals):
        x = torch.rand(samples, generator=rng, dtype=torch.float64).add(0.1).cumsum(dim=0)
        y = torch.randn(samples, generator=rng, dtype=torch.float64).cumsum(dim=0)
        chosen = x[even]
        if knots == "best":
            chosen = best_knots(x, y, pieces)
            far = best_knots(x + 2.0**20, y - 2.0**22, pieces)  # where squares have 13 digits
            chosen = torch.stack([chosen, x[torch.searchsorted(x, far - 2.0**20 - 1e-3)]])
        ours = torch.searchsorted(x, chosen.view(-1, pieces + 1))
        places = [*ours, *([0, *inner, samples - 1] for inner in choices)]
        fits = np.stack([np.interp(x, x[place], y[place]) for place in places])
        errors = ((fits - y.numpy()) ** 2).sum(axis=1)
        shown = [
            Series("one of the signals", x, y),
            Series(f"{knots} knots", x[ours[0]], y[ours[0]], "blue", "line"),
            Series("knots at equal distances", x[even], y[even], "bound"),
        ]
        found += errors[: len(ours)].tolist()
        least += [errors[len(ours) :].min()] * len(ours)
    return equal_to_rounding(found, least).named("squared error of the best knots").drawn(
        *shown, x="place", y="height"
    )

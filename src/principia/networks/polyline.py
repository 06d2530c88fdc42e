r"""Polylines: piecewise-linear functions of one number, and the one-layer networks that they are.

A polyline follows straight lines between its knots and goes on straight beyond the ends. Walking
from left to right, it changes its slope at every inner knot, and a rectifier that wakes up there is
exactly such a change: a polyline is an affine function plus one rectifier an inner knot, or one
absolute value with half its weight. Polylines come as close to a continuous function as one likes,
with an error that falls like $1/m^2$ in the number of pieces where the function is smooth; so do
networks with one hidden layer, by weights that are written down, not learned. Where the signal is
rough, what counts is the place of the knots, and dynamic programming finds the best ones.

$$ g(x) = ax+b+\sum_{i=1}^{m-1}c_i(x-x_i)_+ = a'x+b'+\sum_{i=1}^{m-1}c_i'|x-x_i| $$

$$ a = s_1, \quad b = g(x_0)-ax_0, \quad c_i = s_{i+1}-s_i, \quad
c_i' = \tfrac12c_i, \quad a' = a+\tfrac12\sum_ic_i, \quad b' = b-\tfrac12\sum_ic_ix_i $$

$$ \sup_{[x_0,x_m]}|f-g| \le \frac{(x_m-x_0)^2}{8m^2}\sup|f''| \quad
\text{for } g(x_i)=f(x_i) \text{ at equal distances} $$

Symbols:
    $x_0, \dots, x_m$: knots in increasing order, `Polyline.knots`; the inner ones are the kinks
    $g$: polyline of $m$ pieces, `Polyline`; $g(x_i)$ are its `values`
    $s_i$: slope of piece $i$, `Polyline.slopes`
    $a, b, c_i$: rectifier form, `Polyline.to_relu`; with a prime the other, `Polyline.to_avu`
    $f$: function that is approximated, `interpolate`

References:
    Lebesgue (1898), Sur l'approximation des fonctions. Bulletin des Sciences Mathématiques 22.
    Bellman and Roth (1969), Curve fitting by segmented straight lines. Journal of the American
        Statistical Association 64(327). doi:10.1080/01621459.1969.10501038
    de Boor (1978), A practical guide to splines, ch. 3. Springer. doi:10.1007/978-1-4612-6333-3
"""

__all__ = ["Polyline", "PolylineNetwork", "interpolate", "fit_values", "best_knots"]

import itertools
from collections.abc import Callable
from typing import Annotated, Literal, final, get_args

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from scipy.interpolate import make_interp_spline
from torch import Tensor, nn

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.photographs import photographs
from principia.lab.data.speech import spoken_digit
from principia.lab.domains import Count, Natural, Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_most, equal, every, identical, slope
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit, rmse
from principia.networks.activations import ACTIVATIONS

Kind = Literal["relu", "avu"]
Pieces = Annotated[int, Range(2, 200)]
Polylines = Annotated[int, Range(1, 500)]
Frequency = Annotated[int, Range(4, 20)]  # 4 > π: an interval of length 1 has a full swing
Form = tuple[Float[Tensor, ""], Float[Tensor, ""], Float[Tensor, " kinks"]]
LONGEST = 2000  # samples: the dynamic program keeps a few n x n matrices, 32 megabytes each
PIECES = 2.0 ** torch.arange(3, 9, dtype=torch.float64)  # 8 to 256: how many the claims try
STEP = 0.5**0.5  # where the step function jumps: no knot at equal distances falls there


@final
class PolylineNetwork(nn.Module):
    r"""Computes $ax+b+\sum_ic_i\varphi(w_ix+b_i)$: an affine map beside one hidden layer.

    Shapes:
        x: (..., 1); returns (..., 1)

    Args:
        units: Number of hidden units; each makes one kink.
        kind: Whether the units are rectifiers or absolute values.
        rng: Draws the weights, uniform in $\pm1/\sqrt n$ over $n$ terms of a sum like those of
            `nn.Linear`; by default torch's global generator.

    Example:
        >>> network = PolylineNetwork(5, rng=torch.Generator().manual_seed(0))
        >>> output = network(torch.zeros(7, 1))
        >>> output.shape, sum(one.numel() for one in network.parameters())
        (torch.Size([7, 1]), 17)
    """

    @checked
    def __init__(
        self, units: Natural, *, kind: Kind = "relu", rng: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.phi = ACTIVATIONS[kind].module()

        def drawn(size: int, bound: float = 1.0) -> nn.Parameter:
            return nn.Parameter(torch.empty(size).uniform_(-bound, bound, generator=rng))

        self.a, self.b = drawn(1), drawn(1)
        self.w, self.biases = drawn(units), drawn(units)
        self.c = drawn(units, max(units, 1) ** -0.5)

    def forward(self, x: Float[Tensor, "*B 1"]) -> Float[Tensor, "*B 1"]:
        """Compute the output of every input."""
        return self.a * x + self.b + (self.phi(self.w * x + self.biases) @ self.c)[..., None]


@final
class Polyline:
    r"""Follows straight lines through the points (knot, value), and beyond the ends goes on.

    Shapes:
        knots, values: (m + 1,) for m pieces; x: any shape, kept

    Args:
        knots: Where the points are, in increasing order.
        values: How high they are.

    Example:
        >>> hat = Polyline(torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.0, 1.0, 0.0]))
        >>> hat(torch.tensor([-1.0, 0.5, 3.0])), hat.to_relu()[2], hat.to_avu()[2]
        (tensor([-1.0000,  0.5000, -1.0000]), tensor([-2.]), tensor([-1.]))
        >>> hat.module("avu")(torch.tensor([[0.5]])).item()
        0.5
    """

    def __init__(self, knots: Float[Tensor, " points"], values: Float[Tensor, " points"]) -> None:
        self.knots, self.values = _increasing("Polyline", "knots", knots), values
        if values.shape != knots.shape or not bool(values.isfinite().all()):
            domain = f"{len(knots)} finite numbers, one a knot"
            raise refuse("Polyline", "values", domain, values.tolist())

    @property
    def slopes(self) -> Float[Tensor, " pieces"]:
        """The slope of each piece."""
        return self.values.diff() / self.knots.diff()

    def __call__(self, x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
        """Evaluate the polyline."""
        piece = torch.searchsorted(self.knots[1:-1].contiguous(), x.contiguous(), right=True)
        return self.values[piece] + self.slopes[piece] * (x - self.knots[piece])

    def to_relu(self) -> Form:
        r"""Give $a$, $b$ and $c$ of $ax+b+\sum_ic_i(x-x_i)_+$ over the inner knots."""
        a = self.slopes[0]
        return a, self.values[0] - a * self.knots[0], self.slopes.diff()

    def to_avu(self) -> Form:
        r"""Give $a'$, $b'$ and $c'$ of $a'x+b'+\sum_ic_i'|x-x_i|$ over the inner knots."""
        a, b, c = self.to_relu()
        return a + c.sum() / 2, b - c @ self.knots[1:-1] / 2, c / 2

    @checked
    def module(self, kind: Kind = "relu") -> PolylineNetwork:
        """Build the network with one hidden unit an inner knot that computes the polyline."""
        a, b, c = self.to_relu() if kind == "relu" else self.to_avu()
        unused = torch.Generator()  # every weight is set below; the global generator stays
        network = PolylineNetwork(len(c), kind=kind, rng=unused).to(self.knots)
        weights = {"a": a[None], "b": b[None], "w": torch.ones_like(c), "c": c}
        network.load_state_dict({**weights, "biases": -self.knots[1:-1]})
        return network

    def __repr__(self) -> str:
        start, end = float(self.knots[0]), float(self.knots[-1])
        return f"Polyline({len(self.knots) - 1} pieces from {start:g} to {end:g})"


def interpolate(f: Callable[[Tensor], Tensor], knots: Float[Tensor, " points"]) -> Polyline:
    """Builds the polyline that agrees with a function at its knots.

    Example:
        >>> interpolate(torch.sin, torch.linspace(0, 3, 7))
        Polyline(6 pieces from 0 to 3)
    """
    return Polyline(knots, f(_increasing("interpolate", "knots", knots)))


def fit_values(
    x: Float[Tensor, " n"], y: Float[Tensor, " n"], knots: Float[Tensor, " points"]
) -> Polyline:
    """Finds the polyline with given knots that is nearest to samples, by least squares.

    Args:
        x: Where the samples are, in any order.
        y: The samples.
        knots: Knots; where no sample tells a value, the smallest values fit.

    Example:
        >>> x = torch.tensor([0.0, 1.0, 2.0, 3.0])
        >>> fit_values(x, torch.tensor([0.0, 2.0, 0.0, 2.0]), x[[0, -1]]).slopes
        tensor([0.4000])
    """
    if x.shape != y.shape or not bool(x.isfinite().all() & y.isfinite().all()):
        raise refuse("fit_values", "x and y", "finite, of one length", f"{len(x)} and {len(y)}")
    hats = _hats(_increasing("fit_values", "knots", knots), x)
    return Polyline(knots, torch.linalg.lstsq(hats, y[:, None], driver="gelsd").solution[:, 0])


@checked
def best_knots(
    x: Float[Tensor, " n"], y: Float[Tensor, " n"], m: Count
) -> Float[Tensor, " points"]:
    r"""Chooses the m + 1 samples whose polyline is nearest to all of them, by dynamic programming.

    The first and the last sample are knots. With the cost of every possible piece in a matrix,
    each further piece takes one minimum over its start: $O(n^2m)$ in all.

    Args:
        x: Where the samples are, in increasing order; at most 2000.
        y: The samples.
        m: Number of pieces.

    Example:
        >>> x = torch.arange(6.0)
        >>> best_knots(x, torch.tensor([0.0, 1.0, 2.0, 3.0, 1.0, -1.0]), 2)
        tensor([0., 3., 5.])
    """
    _increasing("best_knots", "x", x)
    if y.shape != x.shape or not bool(y.isfinite().all()):
        raise refuse("best_knots", "y", f"{len(x)} finite numbers, one a place", y.tolist())
    if len(x) > LONGEST:
        hint = "Keep every k-th sample, or cut the signal into parts."
        raise refuse("best_knots", "x", f"of at most {LONGEST} samples", len(x), hint)
    if m >= len(x):
        hint = "Every piece needs a sample of its own."
        raise refuse("best_knots", "m", f"in [1, {len(x) - 1}] for {len(x)} samples", m, hint)
    cost = _piece_costs(x.double(), y.double())
    best, starts = cost[0], []  # least cost of a polyline that ends at each sample
    for _ in range(m - 1):
        best, start = (best[:, None] + cost).min(dim=0)
        starts.append(start)
    chosen = [len(x) - 1]
    for start in reversed(starts):
        chosen.append(int(start[chosen[-1]]))
    return x[[0, *reversed(chosen)]]


def _piece_costs(x: Tensor, y: Tensor) -> Tensor:
    """Sum the squared errors (n, n) of the line from each sample to each later one; else inf."""
    x, y = x - x.mean(), y - y.mean()  # sums of squares then lose no digits
    x0, y0 = x[:, None], y[:, None]
    totals = torch.stack([torch.ones_like(x), x, y, x * x, x * y, y * y]).cumsum(dim=1)
    count, sx, sy, sxx, sxy, syy = totals[:, None] - totals[:, :, None]  # over start < k <= end
    xx = sxx - 2 * x0 * sx + count * x0**2
    xy = sxy - x0 * sy - y0 * sx + count * x0 * y0
    yy = syy - 2 * y0 * sy + count * y0**2
    tilt = (y - y0) / (x - x0)  # 0 / 0 where start = end, which the mask removes
    return (yy - 2 * tilt * xy + tilt**2 * xx).clamp(min=0).masked_fill(count <= 0, torch.inf)


def _increasing(owner: str, name: str, x: Tensor) -> Tensor:
    """Refuse what are no two or more finite numbers in strictly increasing order."""
    listed = x.ndim == 1 and len(x) >= 2 and x.is_floating_point()
    if not listed or not bool(x.isfinite().all() & (x.diff() > 0).all()):
        domain = "two or more finite numbers, each larger than the one before"
        raise refuse(owner, name, domain, x.tolist(), f"torch.unique({name}) sorts them.")
    return x


def _hats(knots: Tensor, x: Tensor) -> Tensor:
    """Evaluate at x the polylines whose value is 1 at one knot and 0 at the others: (n, m + 1)."""
    return torch.stack([Polyline(knots, unit)(x) for unit in torch.eye(len(knots)).to(knots)], 1)


@claim(control={"kept": "all but one"}, source="Lebesgue 1898")
def lebesgue_form(
    seed: Seed, *, polylines: Polylines = 200, pieces: Pieces = 12,
    kept: Literal["all", "all but one"] = "all",
) -> Evidence:
    r"""A polyline of $m$ pieces is $ax+b+\sum_{i<m}c_i(x-x_i)_+$, also beyond its ends."""
    return _same_function(seed, polylines, pieces, "relu", drop=kept == "all but one")


@claim(control={"halved": False}, source="Lebesgue 1898")
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


@claim(control={"width": "2"}, source="Lebesgue 1898; de Boor 1978, ch. 3")
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
    for (name, (function, bound)), kind in itertools.product(bounds.items(), get_args(Kind)):
        def network(polyline: Polyline, x: Tensor, kind: Kind = kind) -> Tensor:
            return polyline.module(kind)(x[:, None])[:, 0]

        errors = _sup_errors(function, built, network)
        room = at_most(errors, bound, slack=1e-12, why="a theorem; rounding")
        parts[f"{name}, {kind}"] = room.drawn(
            Series("sup error", PIECES, errors), Series("bound", PIECES, bound, role="bound"),
            x="pieces m, one more than hidden units", y="sup error", log="xy",
        )
        units = len(interpolate(function, torch.linspace(0, 1, 9)).module(kind).c)
        parts[f"{name}, {kind}, units"] = equal(units, 7, tol=0, why="a count: 8 pieces, 7 kinks")
    return every(parts)


@claim(control={"free": "m"}, source="Lebesgue 1898")
def parameter_count(
    seed: Seed, *, pieces: Annotated[int, Range(1, 100)] = 20,
    free: Literal["m + 1", "m"] = "m + 1",
) -> Evidence:
    r"""Polylines of $m$ pieces with given knots form a space of dimension $m+1$."""
    polyline = _random(seed.torch(), pieces)
    knots, x = polyline.knots, _within(polyline.knots, 4)
    affine, ramp = torch.stack([x, torch.ones_like(x)], dim=1), x[:, None] - knots[1:-1]
    spans = {
        "values at the knots": _hats(knots, x),
        "rectifiers": torch.cat([affine, ramp.relu()], dim=1),
        "absolute values": torch.cat([affine, ramp.abs()], dim=1),
    }
    spans["all together"] = torch.cat(list(spans.values()), dim=1)
    size = pieces + (free == "m + 1")
    ranks = [int(torch.linalg.matrix_rank(span)) for span in spans.values()]
    numbers = [2 + len(c) for *_, c in (polyline.to_relu(), polyline.to_avu())]
    return every({
        "rank of the evaluation map": equal(ranks, size, tol=0, why="an integer").drawn(
            Series("rank", list(spans), ranks, style="bars"),
            Series(free, list(spans), [size] * len(spans), role="predicted"),
            x="functions that span", y="dimension",
        ),
        "numbers in a form": equal(numbers, size, tol=0, why="a count"),
        "values found again": identical(fit_values(x, polyline(x), knots).values, polyline.values),
    })


@claim(control={"knots": "equal"}, source="Bellman and Roth 1969")
def best_knots_claim(
    seed: Seed, *, signals: Annotated[int, Range(10, 50)] = 20,
    samples: Annotated[int, Range(7, 16)] = 12, pieces: Annotated[int, Range(2, 5)] = 4,
    knots: Literal["best", "equal"] = "best",
) -> Evidence:
    r"""No other knots among the samples interpolate them with a smaller squared error."""
    rng, found, least = seed.torch(), [], []
    choices = list(itertools.combinations(range(1, samples - 1), pieces - 1))
    for _ in range(signals):
        x = torch.rand(samples, generator=rng, dtype=torch.float64).add(0.1).cumsum(dim=0)
        y = torch.randn(samples, generator=rng, dtype=torch.float64).cumsum(dim=0)
        chosen = x[torch.linspace(0, samples - 1, pieces + 1).round().long()]
        if knots == "best":
            chosen = best_knots(x, y, pieces)
        places = [torch.searchsorted(x, chosen), *([0, *inner, samples - 1] for inner in choices)]
        fits = np.stack([np.interp(x, x[place], y[place]) for place in places])
        first, *errors = ((fits - y.numpy()) ** 2).sum(axis=1)
        found, least = [*found, first], [*least, min(errors)]
    return identical(found, least)


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
    run.keep(best.module("relu"))
    if not run.full:
        return
    network = PolylineNetwork(m, rng=run.seed.child("init").torch())
    data = x.float()[:, None], pixels.float()[:, None]
    fit(
        network, data, Supervised(F.mse_loss), torch.optim.Adam(network.parameters(), lr=1e-2),
        steps=4000, batch_size=len(x), seed=run.seed.child("relu"), run=run, name="relu",
    )
    run.record(trained_rmse=float(rmse(network(data[0]).detach(), data[1])))
    wave = spoken_digit(data_dir=run.data_dir)
    middle = len(wave) // 2
    speech = wave[middle - 320 : middle + 320]
    x, best, even = _two_fits(run, "speech", speech, m)
    run.record(speech_ratio=float(rmse(best(x), speech) / rmse(even(x), speech)))


def _random(rng: torch.Generator, pieces: int) -> Polyline:
    """Draw a polyline whose pieces have lengths from 0.1 to 1.1."""
    lengths, values = torch.rand(2, pieces + 1, generator=rng, dtype=torch.float64)
    return Polyline((0.1 + lengths).cumsum(dim=0) - pieces / 4, 2 * values - 1)


def _within(knots: Tensor, each: int) -> Tensor:
    """Place points in each piece, its start first, at equal distances; the last knot ends them."""
    shares = torch.arange(each).to(knots) / each
    inner = knots[:-1, None] + knots.diff()[:, None] * shares
    return torch.cat([inner.flatten(), knots[-1:]])


def _same_function(
    seed: Seed, polylines: int, pieces: int, kind: Kind, *, drop: bool = False, scale: float = 1
) -> Evidence:
    """Compare polylines and their form with SciPy's linear spline, far beyond the ends too."""
    rng, phi = seed.torch(), ACTIVATIONS[kind].module()
    x, formed, called, exact = torch.empty(0), [], [], []
    for m in torch.randint(2, pieces + 1, (polylines,), generator=rng).tolist():
        polyline = _random(rng, m)
        x = torch.linspace(-m, 2.0 * m, 400, dtype=torch.float64)
        a, b, c = polyline.to_relu() if kind == "relu" else polyline.to_avu()
        c = scale * c * (torch.arange(m - 1) != ((m - 1) // 2 if drop else -1))
        formed.append(a * x + b + phi(x[:, None] - polyline.knots[1:-1]) @ c)
        called.append(polyline(x))
        exact.append(make_interp_spline(polyline.knots, polyline.values, k=1)(x))
    units = identical(torch.stack(formed), exact).drawn(
        Series("sum of units", x, formed[-1]), Series("polyline", x, exact[-1], role="predicted"),
        x="x", y="g(x)",
    )
    return every({"sum of units": units, "Polyline": identical(torch.stack(called), exact)})


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
    run.figure(name, figures.draw(Picture(series, "place", "signal")))
    return x, best, even

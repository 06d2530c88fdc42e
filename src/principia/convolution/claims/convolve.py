r"""Convolution: what is true of it, and what would refute it.

Knobs:
    cases: Random shapes that are tried along so many axes.
    op: What slides: the flipped kernel, or the kernel as it is.
    length: Places of the signal.
    taps: Entries of the kernel.
    form: The formula as it is, or as it is misprinted.
    pooled: Whether the largest value and the mean of all places are taken behind the filter.
    room: Whether zeros make room for what a circle would wrap round.
    matrix: What has the answer to a pulse in its first column: rows that go round, or end.
    longest: Length of the longest signal.
    kernel: What is special about the kernel.
    map: A map of signals in a circle.
    flipped: Whether the kernel of the convolution is flipped.
    exponent: The bell $e^{-\pi t^2}$, or the bell $e^{-t^2/2}$.
    adds: What is said to add up: variances, or standard deviations.
    long: How long the kernels are that should favor the transform.
    short: How long the kernels are that should favor the sums.
    operator: The integral of a kernel, or the square of the function.
"""

import itertools
import math
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import scipy.linalg
import scipy.signal
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional as F

import principia.convolution.claims._convolved as measured
import principia.lab.evidence as said
from principia.convolution.convolve import (
    circulant,
    convolution_cost,
    convolve,
    correlate,
    fourier,
    impulse_response,
    integral_operator,
    inverse_fourier,
    is_linear,
    rot180,
    shift_error,
    toeplitz,
)
from principia.lab.draws import rand, randn
from principia.lab.evidence import Control, Evidence, Series, claim, equal, equal_to_rounding, every
from principia.lab.params import Range
from principia.lab.pictures import Matrix, Panels, Plot, Rule
from principia.lab.seeds import Seed

Length = Annotated[int, Range(8, 200)]
Taps = Annotated[int, Range(3, 8)]
Op = Literal["convolve", "correlate"]
Form = Literal["correct", "printed"]
AXES = ("along 1 axis", "along 2 axes", "along 3 axes")
MODES: Any = ("full", "same", "valid", "circular")
FADES = "sums over a fine grid are exact to rounding for smooth functions that fade"


@claim(control={"op": "correlate"}, source="definition; SciPy")
def matches_reference(
    seed: Seed, *, cases: Annotated[int, Range(5, 100)] = 11, op: Op = "convolve"
) -> Evidence:
    r"""Both methods agree with SciPy along 1, 2 and 3 axes, for batches and complex numbers."""
    rng, parts = seed.torch(), {}
    slide: Any = convolve if op == "convolve" else lambda f, h, **how: correlate(h, f, **how)
    for dims, name in enumerate(AXES, start=1):
        pairs = [
            (slide(f, h, mode=mode, method=by, dims=dims), measured.by_scipy(f, h, mode, dims))
            for f, h in measured.problems(rng, dims, cases)
            for mode, by in itertools.product(MODES, measured.METHODS)
        ]
        parts[name] = measured.same(pairs, 1e-10)
        if dims == 1:
            one, exact = (torch.as_tensor(side).flatten()[:80] for side in pairs[0])
            parts[name] = measured.over_places(parts[name], **{op: one}, SciPy=exact)
    return every({
        **parts, "gradients": measured.same(measured.gradients(rng, slide)),
        "types, empty batches": said.never(
            measured.wrong_types(slide), why="whole numbers fit into all types"),
    })


@claim(control={"op": "correlate"}, source="Bracewell 1978, ch. 3")
def commutative_and_associative(
    seed: Seed, *, length: Length = 40, taps: Taps = 7, op: Op = "convolve"
) -> Evidence:
    r"""$f*h=h*f$ and $(f*g)*h=f*(g*h)$."""
    rng, commuting, nested = seed.torch(), [], []
    slide: Any = convolve if op == "convolve" else correlate
    for shapes in (
        ((length,), (taps,), (taps + 3,)), ((9, length), (4, 3), (2, taps)),
        ((5, 3, 6), (2, 3, 4), (3, 1, 2)),
    ):
        for cplx, method in itertools.product((False, True), measured.METHODS):
            f, h, g = (measured.drawn(rng, shape, cplx) for shape in shapes)
            by = partial(slide, method=method)
            commuting.append((by(f, h), by(h, f)))
            nested.append((by(by(f, g), h), by(f, by(g, h))))
    one, other = commuting[0]
    return every({
        "f*h = h*f": measured.over_places(
            measured.same(commuting), **{"f * h": one, "h * f": other}),
        "(f*g)*h = f*(g*h)": measured.same(nested),
    })


@claim(
    control={"form": "printed"}, refutes=["every shift, in a circle", "integral"],
    source="Oppenheim and Schafer 2009, sec. 2.2",
    misprint=r"$\int f(t-\Delta)h(u-t)dt$ as the convolution of $f_\Delta(t)=f(t+\Delta)$",
)
def shift_equivariant(
    seed: Seed, *, length: Length = 48, taps: Taps = 7, form: Form = "correct"
) -> Evidence:
    r"""With $f_\Delta(t)=f(t+\Delta)$: $f_\Delta*h=(f*h)_\Delta$."""
    rng, sign = seed.torch(), 1 if form == "correct" else -1
    f, h, places = randn(rng, 2, length), randn(rng, taps), torch.arange(length)
    T = lambda x, h=h: convolve(x, h, mode="circular")  # noqa: E731
    ahead = [((places + k) % length, (places + sign * k) % length) for k in range(length)]
    # integrals of smooth functions that fade, by the trapezoidal rule
    a, b, c = (float(one) for one in rand(rng, 3))
    t = torch.linspace(-12, 12, 1201, dtype=torch.float64)
    u, delta = torch.linspace(-2, 2, 41, dtype=torch.float64), 0.4 + a
    bell = lambda t: (1 + b * t) * torch.exp(-((t - c) ** 2))  # noqa: E731
    at, later = (integral_operator(lambda u, t: torch.exp(-2 * (u - t - b) ** 2), t, u=u + k)
                 for k in (0, delta))
    x, stamp = randn(rng, 3, 12, length), randn(rng, 4, taps)
    return every({
        "every shift, in a circle": measured.same(
            [(T(f[:, other]), T(f)[:, k]) for k, other in ahead], 1e-12),
        "integral": equal(at @ bell(t + sign * delta), later @ bell(t), tol=1e-9, why=FADES).drawn(
            Series("f * h", u, at @ bell(t), "gray"),
            Series("f * h, then shifted", u, later @ bell(t), "predicted"),
            Series(f"f shifted, then * h ({form})", u, at @ bell(t + sign * delta)),
            x="u", y="height of the function"),
        "shift_error of a filter": said.at_most(
            [shift_error(T, x, 3), shift_error(partial(T, h=stamp), x, (-2, 5)),
             shift_error(torch.zeros_like, x, 3)], 1e-14, why=measured.ROUNDING),
        "shift_error of sums": equal(
            shift_error(lambda x: x.cumsum(-1), torch.tensor([1.0, 2.0, 4.0]).double(), 1),
            (38 / 59) ** 0.5, tol=1e-12, why="by hand: (2 6 7) instead of (3 7 1), of (1 3 7)"),
    })


@claim(
    control={"pooled": False}, refutes=["invariance"],
    source="Goodfellow, Bengio and Courville 2016, sec. 9.3",
    misprint="convolutions are shift-invariant",
)
def pooling_makes_it_invariant(
    seed: Seed, *, length: Length = 32, taps: Taps = 5, pooled: bool = True
) -> Evidence:
    r"""A filter alone moves along with its input; what pools all its places is invariant."""
    rng = seed.torch()
    x, kernels = randn(rng, length, length + 3), randn(rng, 6, taps, taps - 1)
    shifts: Any = [(3, -5), (1, 0), (0, 1), *torch.randint(-9, 10, (9, 2), generator=rng).tolist()]
    maps = lambda x: convolve(x, kernels, mode="circular", dims=2)  # noqa: E731

    def features(x: Tensor) -> Tensor:
        return torch.stack([maps(x).amax((1, 2)), maps(x).mean((1, 2))]) if pooled else maps(x)

    def change(of: Any) -> list[float]:
        return [float((of(x.roll(by, (0, 1))) - of(x)).norm() / of(x).norm()) for by in shifts]

    cases, found = range(1, len(shifts) + 1), change(features)
    return every({
        "invariance": said.at_most(found, 1e-12, why=measured.ROUNDING).drawn(
            Series("pooled" if pooled else "not pooled", cases, found),
            Series("maps of the filters", cases, change(maps), "orange", "points"),
            x="shift", y="relative change under the shift"),
        "a filter commutes": said.at_most(
            [shift_error(maps, x, tuple(by)) for by in shifts], 1e-12, why=measured.ROUNDING),
    })


@claim(
    control={"room": False}, source="Bracewell 1978, ch. 6; Stockham 1966", headline=True,
    sees="The product of two spectra comes back as f * h; without room its tail wraps round.",
)
def convolution_theorem(
    seed: Seed, *, length: Length = 60, taps: Taps = 8, room: bool = True
) -> Evidence:
    r"""$\mathcal F(f*h)=\mathcal F(f)\,\mathcal F(h)$, with zeros up to $n+m-1$ places."""
    rng, products, ours, shown = seed.torch(), [], [], {}
    for f, h in measured.along_axes(rng, length, taps):
        sizes = [a + b - 1 if room else a for a, b in zip(f.shape, h.shape, strict=True)]
        exact = scipy.signal.convolve(f.numpy(), h.numpy(), method="direct")
        begun, mode = exact[tuple(map(slice, sizes))], "full" if room else "circular"
        found = torch.fft.fftn(f, sizes) * torch.fft.fftn(h, sizes)
        products.append((found, np.fft.fftn(begun)))
        ours.append((convolve(f, h, method="fft", mode=mode), begun))
        shown = shown or {
            "the product, taken back": torch.fft.ifftn(found).real, "f * h": exact, "f": f}
    return every({
        "products of spectra": measured.over_places(measured.same(products), **shown),
        "convolve": measured.same(ours),
    })


@claim(control={"matrix": "toeplitz"}, source="Gray 2006, sec. 3.1")
def circulant_is_diagonal_in_fourier(
    seed: Seed, *, length: Annotated[int, Range(8, 64)] = 24, taps: Taps = 6,
    matrix: Literal["circulant", "toeplitz"] = "circulant",
) -> Evidence:
    r"""The eigenvalues of a circulant matrix are the Fourier transform of its kernel."""
    rng = seed.torch()
    h, x = randn(rng, taps), randn(rng, length)
    C = circulant(h, length) if matrix == "circulant" else toeplitz(h, length)[:length]
    exact, found = np.fft.fft(h, length), np.linalg.eigvals(C) + 0j
    mine, theirs = linear_sum_assignment(np.abs(found[:, None] - exact))  # no order of their own
    waves, curve = scipy.linalg.dft(length), np.fft.fft(h, 40 * length)
    return every({
        "eigenvalues": measured.same([(found[mine], exact[theirs])], 1e-10).drawn(
            Series("transform of h, between", curve.real, curve.imag, "gray", "line"),
            Series("transform of h", exact.real, exact.imag, "predicted", "points"),
            Series(f"eigenvalues, {matrix}", found.real, found.imag), x="real", y="imaginary"),
        "diagonal between waves": measured.same(
            [(waves @ C.numpy() @ waves.conj() / length, np.diag(exact))]),
        "product with it": measured.same([(C @ x, convolve(x, h, mode="circular"))]),
    })


@claim(
    control=[
        Control({"long": "log2 n"}, ["at m = n/4", "direct: growth"], "a kernel of log2 n places"),
        Control({"short": "n/4"}, ["at m = log2 n"], "a kernel of n/4 places"),
    ],
    source="Cooley and Tukey 1965; Stockham 1966",
    misprint="a kernel of 16 places on 65,536 samples favors the Fourier transform",
)
def fft_cost_pays_for_long_kernels(
    seed: Seed, *, longest: Annotated[int, Range(2**12, 2**16)] = 2**16,
    long: Literal["n/4", "log2 n"] = "n/4", short: Literal["log2 n", "n/4"] = "log2 n",
) -> Evidence:
    r"""Direct takes $nm$ multiplications, FFT $(n+m)\log(n+m)$: 20 times fewer at $m=n/4$.

    They are counted where torch is called, $N\log_2N$ for a real transform of length $N$.
    """
    ns = [longest // 4**k for k in (3, 2, 1, 0)]
    taps: Any = {"n/4": lambda n: n // 4, "log2 n": lambda n: round(math.log2(n))}
    work = {
        (kind, by): np.array([
            measured.multiplications(convolve, (n,), (taps[kind](n),), "full", by) for n in ns])
        for kind in {long, short} for by in ("direct", "fft")
    }
    many, few = (work[kind, "direct"] / work[kind, "fft"] for kind in (long, short))
    logs = np.array([math.log2(n + taps[long](n)) for n in ns])
    told, seen, auto = measured.counts(convolve, convolution_cost)
    return every({
        "at m = n/4": said.at_least(many[-1], 20, why="it grows like n / log n; here to some 320"
                                    ).drawn(
            Rule("as many", y=1.0, role="gray"), Rule("20 times fewer", y=20.0),
            Series(f"m = {long}", ns, many), Series(f"m = {short}", ns, few, "orange", "points"),
            x="length of the signal", y="multiplications, direct / FFT", log="xy"),
        "at m = log2 n": said.at_most(few, 1, why="a count"),
        "direct: growth": said.slope(
            ns, work[long, "direct"], 2, tol=0.01, why="places times entries of the kernel"),
        "FFT: growth": said.slope(
            ns, work[long, "fft"] / logs, 1, tol=0.05, why="lengths are rounded up a little"),
        "convolution_cost": equal(told, seen, tol=1e-9 * seen, why="the same count"),
        "auto takes the cheaper": equal(auto, seen.min(axis=1), tol=0, why="one of the two"),
    })


@claim(
    control=[
        Control({"map": "ReLU of a convolution"}, ["from its answer to a pulse", "is_linear"],
                "not linear"),
        Control({"map": "any matrix"}, ["from its answer to a pulse", "commutes with shifts"],
                "linear, but not the same everywhere"),
    ],
    source="Oppenheim and Schafer 2009, sec. 2.3",
    misprint="any translation-equivariant operator is a convolution",
)
def linear_equivariant_is_convolution(
    seed: Seed, *, length: Annotated[int, Range(8, 64)] = 20,
    map: Literal["mean over all shifts", "ReLU of a convolution", "any matrix"]
    = "mean over all shifts",
) -> Evidence:
    r"""A linear map that commutes with shifts is the convolution with its answer to a pulse."""
    rng, n = seed.torch(), length
    A, x = randn(rng, n, n), randn(rng, 5, n)
    mean = torch.stack([A.roll((k, k), (0, 1)) for k in range(n)]).mean(dim=0)
    T: Any = {
        "mean over all shifts": lambda x: x @ mean.mT, "any matrix": lambda x: x @ A.mT,
        "ReLU of a convolution": lambda x: convolve(x, A[0], mode="circular", dims=1).relu(),
    }[map]
    answer = impulse_response(T, n)
    linear: Any = [lambda x: 1e12 * x.diff(n=2), lambda x: 0 * x, lambda x: x.sum(-1),
                   lambda x: x[:, :, None] * x.new_tensor([1.0, -2.0])]
    others: Any = [torch.tanh, lambda x: 1e-12 * x.abs(), lambda x: x + 1,
                   lambda x: x + 1e-5 * x**2]
    found = convolve(x, answer, mode="circular", dims=1)
    return every({
        "from its answer to a pulse": measured.over_places(
            measured.same([(found, T(x))]), **{"f * answer": found[0], "Tf": T(x)[0]},
            answer=answer),
        "commutes with shifts": said.at_most(
            [shift_error(T, x, delta) for delta in range(1, n)], 1e-12, why=measured.ROUNDING),
        "is_linear": equal(is_linear(T, n, rng=rng), 1, tol=0, why="yes or no"),
        "is_linear of others": equal(
            [is_linear(one, n, rng=rng) for one in linear + others], [1] * 4 + [0] * 4, tol=0,
            why="yes or no"),
    })


@claim(
    control=[
        Control({"flipped": False}, ["convolution", "in a circle"], "the kernel as it is"),
        Control({"kernel": "the signal"}, ["not commutative"], "a signal with itself"),
    ],
    source="Goodfellow, Bengio and Courville 2016, sec. 9.1; PyTorch",
)
def correlation_is_flipped_convolution(
    seed: Seed, *, length: Length = 30, taps: Taps = 5, flipped: bool = True,
    kernel: Literal["drawn", "the signal"] = "drawn",
) -> Evidence:
    r"""$(h\star f)[u]=(\bar h*f)[u]$ with $\bar h[t]=h[-t]$; torch's convolutions are this one."""
    rng, n, flip = seed.torch(), length, rot180 if flipped else torch.clone
    drawn = measured.along_axes(rng, n, taps)
    f, h = drawn[0]
    pairs = [(correlate(h, f, mode=mode), convolve(f, flip(h), mode=mode))
             for f, h in drawn for mode in MODES[:3]]
    bank = randn(rng, 2, taps)
    theirs = [(F.conv1d(f[None], bank[:, None]), correlate(bank, f, mode="valid", dims=1))]
    theirs += [(conv(f[None, None], h[None, None])[0, 0], correlate(h, f, mode="valid"))
              for (f, h), conv in zip(drawn, (F.conv1d, F.conv2d, F.conv3d), strict=True)]
    circle = correlate(h, f, mode="circular")
    sums = [sum(h[t] * f[u + t] for t in range(taps) if 0 <= u + t < n)
            for u in range(1 - taps, n)]
    sums += [sum(h[t] * f[(u + t) % n] for t in range(taps)) for u in range(n)]
    turned = F.pad(flip(h), (n - taps, 0)).roll(1)  # h[-t] in a circle
    wide = F.pad(h, (0, n - taps)) if kernel == "drawn" else f
    return every({
        "convolution": measured.over_places(
            measured.same(pairs, 1e-12), convolution=pairs[0][1], correlation=pairs[0][0]),
        "in a circle": measured.same([(circle, convolve(f, turned, mode="circular"))]),
        "by the sums": measured.same([(torch.cat([correlate(h, f), circle]), sums)]),
        "torch's": measured.same(theirs),
        "not commutative": said.at_least(
            (correlate(wide, f) - correlate(f, wide)).norm(), 0.1, why="far from rounding"),
    })


@claim(control={"kernel": "asymmetric"}, source="Bracewell 1978, ch. 3")
def symmetric_kernel_is_both(
    seed: Seed, *, length: Length = 30, taps: Taps = 5,
    kernel: Literal["symmetric", "asymmetric"] = "symmetric",
) -> Evidence:
    r"""With a kernel that is its own mirror image, correlation and convolution are the same."""
    rng, n, even, parts = seed.torch(), length, kernel == "symmetric", {}
    for name, (f, h) in zip(AXES, measured.along_axes(rng, n, taps), strict=True):
        h = h + rot180(h) if even else h
        pairs = [(correlate(h, f, mode=one), convolve(f, h, mode=one)) for one in MODES[:3]]
        parts[name] = measured.over_places(
            measured.same(pairs, 1e-12), correlation=pairs[0][0].flatten()[:60],
            convolution=pairs[0][1].flatten()[:60])
    f, h = randn(rng, 2, n)
    h = h + h[-torch.arange(n)] if even else h
    circle = [(correlate(h, f, mode="circular"), convolve(f, h, mode="circular"))]
    return every({**parts, "in a circle": measured.same(circle)})


@claim(
    control={"form": "printed"}, refutes=["product with a signal"], source="Gray 2006, sec. 1",
    misprint=r"$f, h$ on $1..n$, $1..m$ and $f*h=Hf$ with the same index",
)
def toeplitz_is_convolution(
    seed: Seed, *, length: Annotated[int, Range(8, 100)] = 12, taps: Taps = 5,
    form: Form = "correct",
) -> Evidence:
    r"""Counted from 0, $(Hf)_k=(f*h)[k]$; counted from 1, $(Hf)_k=(f*h)[k+1]$."""
    rng, size, first = seed.torch(), length + taps - 1, int(form == "printed")
    f, h, v = (randn(rng, one) for one in (length, taps, size))
    H, column, row = toeplitz(h, length), F.pad(h, (0, length - 1)), F.pad(h[:1], (0, length - 1))
    on_line = convolve(*(F.pad(one, (first, 1 - first)) for one in (f, h)))  # at 0, 1, ...
    k = torch.arange(first, first + size)
    marks = Series("(f * h)[k]", k, on_line[k], "predicted"), Series("(Hf) at k", k, H @ f)
    return every({
        "product with a signal": measured.same([(H @ f, on_line[k])]).pictured(Panels((
            Plot((Matrix(H, signed=True),), title="H: a number on each diagonal"),
            Plot(marks, x="k", y="entry", title=f"counted from {first}"),
        ), legend=True)),
        "entries": equal(H, scipy.linalg.toeplitz(column, row), tol=0, why="copies"),
        "transposed": measured.same([(H.mT @ v, correlate(h, v, mode="valid"))]),
    })


@claim(
    control=[
        Control({"exponent": "t²/2"}, ["its own transform", "back again"], "another width"),
        Control({"adds": "standard deviations"}, ["width of a sum"], "1 + 2, squared"),
    ],
    source="Bracewell 1978, ch. 2 and 8",
)
def gaussians(
    seed: Seed, *, exponent: Literal["π t²", "t²/2"] = "π t²",
    adds: Literal["variances", "standard deviations"] = "variances",
) -> Evidence:
    r"""$e^{-\pi t^2}$ is its own Fourier transform; convolution adds variances."""
    rng, scale = seed.torch(), math.pi if exponent == "π t²" else 0.5
    t = torch.linspace(-16, 16, 4097, dtype=torch.float64)[:-1]
    late, away, few = t[1001:] + 0.3, 2 * float(rand(rng, 1)) - 1, randn(rng, 2, 7)  # odd, too
    bell = lambda t, scale=math.pi: torch.exp(-scale * t**2)  # noqa: E731
    (u, found), (v, turned) = fourier(bell(t, scale), t), fourier(bell(late - away), late)
    normal = [torch.exp(-(t**2) / (2 * s**2)) / (s * (2 * math.pi) ** 0.5) for s in (1, 2)]
    both, places = convolve(*normal) / 128, torch.arange(8191) / 128 - 32
    weight, place, variance = ((both * places**k).sum() / 128 for k in range(3))
    near = (u.abs() <= 2).nonzero().flatten()[::2]
    return every({
        "its own transform": equal(found, bell(u, scale) + 0j, tol=1e-8, why=FADES).drawn(
            Series(f"exp(-{exponent}) at u", u[near], bell(u[near], scale), "predicted"),
            Series("its transform", u[near], found.real[near]), x="u", y="height"),
        "back again": equal(
            inverse_fourier(bell(u, scale), t), bell(t, scale) + 0j, tol=1e-8, why=FADES),
        "width of a sum": equal(variance, 5 if adds == "variances" else 9, tol=1e-6, why=FADES),
        "weight and place of a sum": equal([weight, place], [1, 0], tol=1e-6, why=FADES),
        "a shift turns the phase": equal(
            turned, bell(v) * torch.exp(-2j * math.pi * v * away), tol=1e-8, why=FADES),
        "there and back": measured.same([
            (inverse_fourier(fourier(one, at)[1], at), one)
            for one, at in ((bell(late), late), (few, late[:7]), (few[:, 1:], t[:6]))]),
    })


@claim(
    control={"operator": "the square"}, refutes=["linear", "is_linear"],
    source="Bracewell 1978, ch. 9",
)
def integral_operators_are_linear(
    seed: Seed, *, length: Annotated[int, Range(20, 200)] = 60,
    operator: Literal["an integral", "the square"] = "an integral",
) -> Evidence:
    r"""$T(\alpha f+\beta g)=\alpha Tf+\beta Tg$ for $(Tf)(u)=\int G(u,t)f(t)dt$, whatever $G$."""
    rng, n = seed.torch(), length
    t, u, mix = rand(rng, n).sort().values * 3 - 1, rand(rng, 9), randn(rng, 4, 4)
    powers = lambda t: torch.stack([t**k for k in range(4)], dim=-1)  # noqa: E731
    G = lambda u, t: (powers(u) @ mix * powers(t)).sum(-1)  # noqa: E731
    matrix = integral_operator(G, t)
    T = (lambda f: f @ matrix.mT) if operator == "an integral" else torch.square
    f, g, (a, b) = randn(rng, n), randn(rng, n), randn(rng, 2)
    together, apart = T(a * f + b * g), a * T(f) + b * T(g)
    nodes, weights = map(torch.as_tensor, np.polynomial.legendre.leggauss(8))
    moments = torch.tensor([0, 2 / 5, 0, 2 / 7], dtype=t.dtype)  # of t³ times powers, -1 to 1
    by_gauss = integral_operator(G, nodes, weights, u=u) @ nodes**3
    lines = integral_operator(lambda u, t: u + 0 * t, t) @ (3 * t + 1)
    grid, even = torch.arange(n).double() / 8 - 2, torch.full((n,), 0.125).double()
    at, transform = fourier(f, grid)
    waves = integral_operator(lambda u, t: torch.exp(-2j * math.pi * u * t), grid, even, u=at)
    bell = lambda t: torch.exp(t - t**2)  # noqa: E731
    bells = integral_operator(lambda u, t: bell(u - t), grid, even)
    folded = 0.125 * convolve(f, bell(torch.arange(1 - n, n).double() / 8))[n - 1 : 2 * n - 1]
    return every({
        "linear": equal_to_rounding(together, apart).drawn(
            Series("α Tf + β Tg", t, apart, "predicted"), Series("T(α f + β g)", t, together),
            x="u", y="height of the function"),
        "is_linear": equal(is_linear(T, n, rng=rng), 1, tol=0, why="yes or no"),
        "polynomials, by Gauss": measured.same([(by_gauss, powers(u) @ mix @ moments)]),
        "lines, by trapezia": measured.same(
            [(lines, t * (1.5 * (t[-1] ** 2 - t[0] ** 2) + t[-1] - t[0]))]),
        "the Fourier transform": measured.same([(waves @ (f + 0j), transform)]),
        "a convolution": measured.same([(bells @ f, folded)]),
    })

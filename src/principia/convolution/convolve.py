r"""Convolution: one small pattern slides over everything, and every place is treated alike.

Put a stamp with the shape of a kernel on every sample of a signal, as strong as the sample is, and
add up: that is convolution. It blurs a photograph, makes an echo, adds two dice. It is linear, and
it does the same everywhere: if the signal moves, the result moves along. No other map does both:
whatever is linear and commutes with shifts is the convolution with its answer to a single pulse.
Waves pass through it with their frequency and only become stronger or weaker, so that in the
spectrum it is a product, and the fast Fourier transform does it in $n\log n$ steps. As a matrix it
has a single number on each diagonal. Layers of networks compute the correlation, which is the same
with the kernel flipped; since they learn the kernel, nobody notices.

$$ (f*h)[u] = \sum_tf[t]\,h[u-t], \quad (h\star f)[u] = \sum_th[t]\,f[u+t], \quad
(F*G)[i,j] = \sum_{k,l}F[i-k,j-l]\,G[k,l] $$

$$ T(\alpha f+\beta g) = \alpha Tf+\beta Tg, \quad Tf_\Delta = (Tf)_\Delta, \quad
f_\Delta(t) = f(t+\Delta) \quad\iff\quad Tf = f*T\delta $$

$$ (Tf)(u) = \int G(u,t)\,f(t)\,dt, \quad \hat f(u) = \int f(t)\,e^{-2\pi iut}\,dt, \quad
\widehat{f*h} = \hat f\,\hat h $$

Symbols:
    $f, F$: signals, along one axis or more, `f`
    $h, G[k,l]$: kernels, `h`
    $*, \star$: `convolve` and `correlate`, which is what torch's `conv1d`, ... compute
    $u, t$: places in the result and in the signal; in $\hat f(u)$ a frequency
    $T$: a map of signals; $G(u,t)$ is the kernel of an `integral_operator`
    $f_\Delta$: the signal shifted by $\Delta$; `shift_error` compares both sides
    $\delta, T\delta$: a single pulse, and the answer to it, `impulse_response`
    $\hat f$: Fourier transform, `fourier`; back again by `inverse_fourier`

References:
    Cooley and Tukey (1965), An algorithm for the machine calculation of complex Fourier series.
        Mathematics of Computation 19. doi:10.1090/S0025-5718-1965-0178586-1
    Stockham (1966), High-speed convolution and correlation. AFIPS Spring Joint Computer Conference.
        doi:10.1145/1464182.1464209
    Bracewell (1978), The Fourier transform and its applications, 2nd edition. McGraw-Hill.
    Gray (2006), Toeplitz and circulant matrices: a review. Foundations and Trends in Communications
        and Information Theory 2(3). doi:10.1561/0100000006
    Oppenheim and Schafer (2009), Discrete-time signal processing, 3rd edition, ch. 2 and 8.
        Prentice Hall.
    Goodfellow, Bengio and Courville (2016), Deep learning, sec. 9.1. MIT Press.
        https://www.deeplearningbook.org
"""

__all__ = [
    "convolve", "correlate", "rot180", "convolution_cost", "toeplitz", "circulant",
    "integral_operator", "fourier", "inverse_fourier", "is_linear", "shift_error",
    "impulse_response",
]

import functools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Complex, Float, Inexact, Shaped
from torch import Tensor
from torch.nn import functional as F

from principia.convolution._convolve_fast import (
    Mode,
    by_spectra,
    direct,
    kept,
    multiplications,
    plan,
)
from principia.lab.params import PositiveInt, Range, checked, usage_error

Method = Literal["auto", "direct", "fft"]
Dims = Annotated[int, Range(1, 3)] | None
Lengths = tuple[PositiveInt, ...]
Map = Callable[[Tensor], Tensor]


@checked
def convolve(
    f: Shaped[Tensor, "..."], h: Shaped[Tensor, "..."], *, mode: Mode = "full",
    method: Method = "auto", dims: Dims = None,
) -> Inexact[Tensor, "..."]:
    r"""Convolves signals with kernels along the last axes, $\sum_tf[t]\,h[u-t]$; axes before align.

    Integers are computed as floats, and a real signal with a complex kernel gives complex numbers.
    Gradients pass through to both.

    Shapes:
        f: (..., n), (..., n, n') or (..., n, n', n''); h: the same with m; returns (..., k, ...)

    Args:
        f: Signals.
        h: Kernels; their leading axes broadcast with those of the signals.
        mode: What is kept along an axis: all $k=n+m-1$ places that the kernel touches (full), the
            middle $n$ of them (same), the $n-m+1$ at which it lies wholly inside (valid), or the
            signal goes round in a circle of $n$ places (circular).
        method: Sums of products (direct) or a product of spectra (fft); by default whichever
            takes fewer multiplications, see `convolution_cost`.
        dims: Along how many axes, 1 to 3; by default all axes of that which has fewer.

    Example:
        >>> convolve(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 10.0]))
        tensor([ 1., 12., 23., 30.])
        >>> photographs, blur = torch.ones(8, 3, 32, 48), torch.ones(5, 5) / 25
        >>> convolve(photographs, blur, mode="same").shape
        torch.Size([8, 3, 32, 48])
    """
    return _convolved("convolve", f, h, mode, method, _axes("convolve", f, h, dims))


def _axes(owner: str, f: Tensor, h: Tensor, dims: int | None) -> int:
    """Say along how many axes to convolve, where signals and kernels fit each other."""
    found = min(f.ndim, h.ndim) if dims is None else dims
    for name, one in (("f", f), ("h", h)):
        got = f"shape {tuple(one.shape)}"
        if not 1 <= found <= min(3, one.ndim):
            domain = f"a tensor with the {found} axes to convolve along" if dims else (
                "a tensor of 1 to 3 axes, unless dims says along how many to convolve")
            raise usage_error(owner, name, domain, got)
        if 0 in one.shape[-found:]:
            raise usage_error(owner, name, "one entry or more along each convolved axis", got)
    try:
        torch.broadcast_shapes(f.shape[:-found], h.shape[:-found])
    except RuntimeError:
        domain = f"of leading axes that broadcast with {tuple(f.shape[:-found])}, those of f"
        hint = "Insert axes of length 1 with h[:, None], or say dims=."
        raise usage_error(owner, "h", domain, f"shape {tuple(h.shape)}", hint) from None
    return found


def _convolved(owner: str, f: Tensor, h: Tensor, mode: Mode, method: Method, dims: int) -> Tensor:
    n, m = f.shape[-dims:], h.shape[-dims:]
    _need_shorter(owner, n, m, mode)
    dtype = torch.promote_types(f.dtype, h.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.get_default_dtype()
    work = torch.promote_types(dtype, torch.float32)  # half precision is for keeping numbers
    chosen = _cheaper(n, m, mode) if method == "auto" else method
    if not (f.numel() and h.numel()):
        chosen = "direct"  # there is no transform of an empty batch
    by = direct if chosen == "direct" else by_spectra
    return by(f.to(work), h.to(work), mode, dims).to(dtype)


@functools.lru_cache(maxsize=256)
def _cheaper(n: tuple[int, ...], m: tuple[int, ...], mode: Mode) -> str:
    cost = convolution_cost(n, m, mode=mode)
    return "direct" if cost["direct"] <= cost["fft"] else "fft"


def _need_shorter(owner: str, n: Sequence[int], m: Sequence[int], mode: Mode) -> None:
    if mode in ("valid", "circular") and any(a < b for a, b in zip(n, m, strict=True)):
        domain = f"at most as long as the signal, {tuple(n)}, where the mode is {mode}"
        hint = "Take mode='full', or exchange the two."
        raise usage_error(owner, "the kernel", domain, tuple(m), hint)


@checked
def correlate(
    h: Shaped[Tensor, "..."], f: Shaped[Tensor, "..."], *, mode: Mode = "full",
    method: Method = "auto", dims: Dims = None,
) -> Inexact[Tensor, "..."]:
    r"""Slides a kernel over signals as it is, $\sum_th[t]\,f[u+t]$; nothing is conjugated.

    The full result begins at $u=1-m$, where the last entry of the kernel meets the first sample,
    the circular one at $u=0$. With "valid" it is what torch's convolutions compute.

    Args:
        h: Kernels.
        f: Signals.
        mode: What is kept; see `convolve`.
        method: How it is computed; see `convolve`.
        dims: Along how many axes; see `convolve`.

    Example:
        >>> correlate(torch.tensor([1.0, 10.0]), torch.tensor([1.0, 2.0, 3.0]))
        tensor([10., 21., 32.,  3.])
    """
    dims = _axes("correlate", f, h, dims)
    y = _convolved("correlate", f, rot180(h, dims), mode, method, dims)
    if mode != "circular":
        return y
    back = [1 - m for m in h.shape[-dims:]]  # the flipped kernel ends at 0, not at m - 1
    return y.roll(back, dims=tuple(range(-dims, 0)))


@checked
def rot180(x: Shaped[Tensor, "*size"], dims: Dims = None) -> Shaped[Tensor, "*size"]:
    """Turns a kernel round: flips its last axes, by default all of them.

    Args:
        x: The kernel, or many.
        dims: How many of the last axes.

    Example:
        >>> rot180(torch.tensor([[1, 2], [3, 4]])).tolist()
        [[4, 3], [2, 1]]
    """
    return x.flip(tuple(range(-(x.ndim if dims is None else dims), 0)))


@checked
def convolution_cost(n: Lengths, m: Lengths, *, mode: Mode = "full") -> dict[str, float]:
    r"""Counts the multiplications of real numbers that both methods of `convolve` take.

    The direct one multiplies every kept place with every entry of the kernel, zeros outside of the
    signal among them. A real transform of length $N$ counts $N\log_2N$; there are three, and a
    product of spectra. A long signal is cut into blocks, so that the logarithm is that of the
    kernel's length, not of the signal's.

    Args:
        n: Length of the signal along each convolved axis.
        m: Length of the kernel along each.
        mode: What is kept; see `convolve`.

    Example:
        >>> convolution_cost((1000,), (5,), mode="same")["direct"]
        5000.0
        >>> cost = convolution_cost((65536,), (16384,))
        >>> cost["direct"] > 200 * cost["fft"]
        True
    """
    if len(n) != len(m):
        raise usage_error("convolution_cost", "m", f"a length for each of {len(n)} axes", m)
    _need_shorter("convolution_cost", n, m, mode)
    outputs = [kept(a, b, mode)[1] for a, b in zip(n, m, strict=True)]
    spectra = multiplications(plan(tuple(n), tuple(m), mode))
    return {"direct": float(math.prod(outputs) * math.prod(m)), "fft": spectra}


@checked
def toeplitz(h: Shaped[Tensor, " m"], n: PositiveInt) -> Shaped[Tensor, "k n"]:
    r"""Writes the full convolution with a kernel as a matrix $(n+m-1, n)$, $H_{ij}=h[i-j]$.

    Each diagonal has a single number: $h[i]$ stands on the $i$-th one below the main diagonal.
    The product with it is `convolve`, which is faster and needs no matrix.

    Args:
        h: The kernel.
        n: Length of the signals.

    Example:
        >>> toeplitz(torch.tensor([1, 2]), 3).tolist()
        [[1, 0, 0], [2, 1, 0], [0, 2, 1], [0, 0, 2]]
    """
    i, j = torch.arange(n + len(h) - 1, device=h.device), torch.arange(n, device=h.device)
    return F.pad(h, (n - 1, n - 1))[n - 1 + i[:, None] - j]


@checked
def circulant(h: Shaped[Tensor, " m"], n: PositiveInt) -> Shaped[Tensor, "n n"]:
    r"""Writes the convolution in a circle of $n$ places as a matrix, $C_{ij}=h[(i-j)\bmod n]$.

    Waves are its eigenvectors, and the Fourier transform of the kernel its eigenvalues.

    Args:
        h: The kernel, of at most $n$ entries.
        n: Length of the signals.

    Example:
        >>> circulant(torch.tensor([1, 2]), 3).tolist()
        [[1, 0, 2], [2, 1, 0], [0, 2, 1]]
    """
    _need_shorter("circulant", (n,), h.shape, "circular")
    i = torch.arange(n, device=h.device)
    return F.pad(h, (0, n - len(h)))[(i[:, None] - i) % n]


def integral_operator(
    kernel: Callable[[Tensor, Tensor], Tensor], t: Float[Tensor, " n"],
    weights: Float[Tensor, " n"] | None = None, *, u: Float[Tensor, " k"] | None = None,
) -> Inexact[Tensor, "k n"]:
    r"""Approximates $(Tf)(u)=\int G(u,t)f(t)\,dt$ by a matrix, which multiplies samples of $f$.

    $e^{-2\pi iut}$ is the kernel of the Fourier transform, $g(u-t)$ that of a convolution.

    Args:
        kernel: $G$, a function of tensors that broadcast.
        t: Places of the samples, increasing.
        weights: Weights of the quadrature; by default those of the trapezoidal rule.
        u: Places of the result; by default those of the samples.

    Example:
        >>> t = torch.linspace(0, 1, 101)
        >>> T = integral_operator(lambda u, t: (t < u).float(), t, u=torch.tensor([0.5]))
        >>> round(float(T @ (2 * t)), 2)  # the integral of 2t from 0 to 1/2
        0.25
    """
    if weights is None:
        if len(t) < 2 or not bool((t.diff() > 0).all()):
            hint = "Sort them, or pass the weights of a quadrature."
            raise usage_error("integral_operator", "t", "increasing places, two or more", t, hint)
        steps = t.diff()
        weights = (F.pad(steps, (0, 1)) + F.pad(steps, (1, 0))) / 2
    values = kernel((t if u is None else u)[:, None], t)
    return values * weights


def fourier(
    f: Inexact[Tensor, "*B n"], t: Float[Tensor, " n"]
) -> tuple[Float[Tensor, " n"], Complex[Tensor, "*B n"]]:
    r"""Approximates the Fourier transform $\int f(t)\,e^{-2\pi iut}\,dt$ from samples.

    It is the sum over the samples times their distance. It is accurate where the function fades
    before the samples end, and its transform before $\pm1/(2\,dt)$.

    Args:
        f: Samples of functions.
        t: Their places, at equal distances; they may begin anywhere.

    Returns:
        Frequencies $u$, increasing, in cycles for a unit of $t$; and the transform at each.

    Example:
        >>> t = torch.arange(-4, 4, 0.25)
        >>> u, transform = fourier(torch.exp(-torch.pi * t**2), t)
        >>> torch.allclose(transform.real, torch.exp(-torch.pi * u**2), atol=1e-4)
        True
    """
    step = _distance("fourier", t)
    u = _frequencies(t, step)
    spectrum = torch.fft.fftshift(torch.fft.fft(f), dim=-1)
    return u, step * torch.exp(-2j * math.pi * u * t[0]) * spectrum  # t[0]: where f begins


def _distance(owner: str, t: Tensor) -> float:
    steps = t.diff()
    if len(t) < 2 or not bool(steps[0] > 0) or not torch.allclose(
        steps, (t[-1] - t[0]) / (len(t) - 1), rtol=1e-3, atol=0
    ):
        raise usage_error(owner, "t", "increasing places at equal distances", t,
                          "Take torch.linspace.")
    return float(t[-1] - t[0]) / (len(t) - 1)


def _frequencies(t: Tensor, step: float) -> Tensor:
    return torch.fft.fftshift(torch.fft.fftfreq(len(t), step, dtype=t.dtype, device=t.device))


def inverse_fourier(
    transform: Inexact[Tensor, "*B n"], t: Float[Tensor, " n"]
) -> Complex[Tensor, "*B n"]:
    r"""Takes functions back from their transforms, $\int\hat f(u)\,e^{2\pi iut}\,du$.

    Args:
        transform: What `fourier` gave, at increasing frequencies.
        t: Places at which the functions were sampled.

    Example:
        >>> t = torch.linspace(-1, 1, 5)
        >>> torch.allclose(inverse_fourier(fourier(t**3, t)[1], t).real, t**3, atol=1e-6)
        True
    """
    step = _distance("inverse_fourier", t)
    waves = torch.exp(2j * math.pi * _frequencies(t, step) * t[0])
    return torch.fft.ifft(torch.fft.ifftshift(transform * waves, dim=-1)) / step


@checked
def is_linear(
    T: Map, n: PositiveInt, *, rng: torch.Generator | None = None, dtype: Any = torch.float64
) -> bool:
    r"""Asks a map of signals whether $T(\alpha f+\beta g)=\alpha Tf+\beta Tg$, for random ones.

    Args:
        T: Maps signals (B, n), each row by itself.
        n: Length of the signals.
        rng: Draws the signals; by default torch's global generator.
        dtype: Of the signals; the square root of its precision is allowed.

    Example:
        >>> is_linear(lambda f: f.diff(), 9), is_linear(torch.abs, 9), is_linear(lambda f: f + 1, 9)
        (True, False, False)
    """
    f, g = torch.randn(2, 8, n, generator=rng, dtype=dtype)
    alpha, beta = torch.randn(2, 8, 1, generator=rng, dtype=dtype)
    Tf, Tg, together = T(f), T(g), T(alpha * f + beta * g)
    a, b = (one.view(8, *[1] * (Tf.ndim - 1)) for one in (alpha, beta))
    gap, size = (together - a * Tf - b * Tg).abs().max(), (a * Tf).abs().max()
    return bool(gap <= torch.finfo(dtype).eps ** 0.5 * size)


def shift_error(T: Map, x: Inexact[Tensor, "..."], delta: int | tuple[int, ...]) -> float:
    r"""Measures $\Vert Tx_\Delta-(Tx)_\Delta\Vert/\Vert Tx\Vert$: 0 if $T$ commutes with a shift.

    Signals go round in a circle: what leaves at one end comes in at the other.

    Args:
        T: Maps signals to signals of the same length.
        x: Signals (..., n).
        delta: By how many places to shift along the last axis, or along each of the last axes.

    Example:
        >>> x = torch.tensor([1.0, 2.0, 4.0])
        >>> shift_error(torch.relu, x, 1), shift_error(lambda x: x.cumsum(0), x, 1) > 0.5
        (0.0, True)
    """
    by = [-one for one in ([delta] if isinstance(delta, int) else delta)]  # x(t + Δ) at t
    axes = tuple(range(-len(by), 0))
    y, moved = T(x), T(x.roll(by, axes))
    if y.shape[-len(by):] != x.shape[-len(by):]:
        domain = f"a map to signals of the same length, {tuple(x.shape[-len(by):])}"
        hint = "Convolve with mode='circular'."
        raise usage_error("shift_error", "T", domain, f"shape {tuple(y.shape)}", hint)
    gap, size = (
        torch.linalg.vector_norm(one).item() for one in (moved - y.roll(by, axes), y))
    return gap / size if gap else 0.0


@checked
def impulse_response(
    T: Map, n: PositiveInt, *, dtype: Any = torch.float64
) -> Inexact[Tensor, " k"]:
    r"""Asks a map of signals for its answer $T\delta$ to a pulse at place 0.

    If the map is linear and commutes with shifts, this answer is all there is to know about it.

    Args:
        T: Maps signals (n,).
        n: Length of the signals.
        dtype: Of the pulse.

    Example:
        >>> impulse_response(lambda f: f + f.roll(1) / 2, 4).tolist()
        [1.0, 0.5, 0.0, 0.0]
    """
    pulse = torch.zeros(n, dtype=dtype)
    pulse[0] = 1
    return T(pulse)

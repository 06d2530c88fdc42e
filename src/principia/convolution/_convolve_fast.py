r"""Both ways of `convolve`: sums of products in pieces, and products of spectra in blocks.

A convolution of torch lays out the products of a long signal with a long kernel in memory; taken
piece by piece they fit a cache. A transform need not be longer than a few kernels: a long signal is
cut into blocks, and the end of each is added to the next one.
"""

import functools
import math
from collections.abc import Sequence
from typing import Literal

import scipy.fft
import torch
from torch import Tensor
from torch.nn import functional as F

Mode = Literal["full", "same", "valid", "circular"]
PIECE, MOST = 2**17, 2**25  # products that torch lays out at once: for a sample, and for all


def kept(n: int, m: int, mode: Mode) -> tuple[int, int]:
    """Say which part of the full convolution along an axis is kept: its start, its length."""
    starts = {"same": ((m - 1) // 2, n), "valid": (m - 1, n - m + 1), "circular": (0, n)}
    return starts.get(mode, (0, n + m - 1))


def direct(f: Tensor, h: Tensor, mode: Mode, dims: int) -> Tensor:
    """Sum products by torch's convolutions, with the kernel flipped, in pieces that fit a cache."""
    n, m, pads = f.shape[-dims:], h.shape[-dims:], []
    batch = torch.broadcast_shapes(f.shape[:-dims], h.shape[:-dims])
    kernels = 1 if math.prod(h.shape[:-dims]) == 1 else math.prod(batch)  # one for all, or each
    for a, b in zip(reversed(n), reversed(m), strict=True):
        start, length = kept(a, b, mode)
        pads += [b - 1 - start, start + length - a]
    x = f.expand(*batch, *n).reshape(math.prod(batch) // max(kernels, 1), kernels, *n)
    x = F.pad(x, pads, mode="circular" if mode == "circular" else "constant")
    if not x.numel():
        return x.new_zeros(*batch, *(kept(a, b, mode)[1] for a, b in zip(n, m, strict=True)))
    w = h.flip(tuple(range(-dims, 0)))
    w = (w if kernels == 1 else w.expand(*batch, *m)).reshape(kernels, 1, *m)
    outputs = [a - b + 1 for a, b in zip(x.shape[2:], m, strict=True)]
    rows = min(PIECE, MOST // len(x)) // (math.prod(m) * math.prod(outputs[1:])) or 1
    conv = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    pieces = [
        conv(x[:, :, at : at + rows + m[0] - 1], w, groups=kernels)
        for at in range(0, outputs[0], rows)
    ]
    return torch.cat(pieces, dim=2).reshape(*batch, *outputs)


def by_spectra(f: Tensor, h: Tensor, mode: Mode, dims: int) -> Tensor:
    """Multiply spectra, after zeros have made room for the ends, or for those of each block."""
    n, m = f.shape[-dims:], h.shape[-dims:]
    sizes, blocks = plan(n, m, mode)
    if blocks == 1:
        y = _product_of_spectra(f, h, sizes)
    else:
        step = sizes[0] - m[0] + 1  # as many new samples a block: the rest is room for its end
        parts = F.pad(f, (0, blocks * step - n[0])).unflatten(-1, (blocks, step))
        parts = _product_of_spectra(parts, h[..., None, :], sizes)
        ends = F.pad(parts[..., step:], (0, 2 * step - sizes[0], 1, 0))  # reach into the next block
        y = (F.pad(parts[..., :step], (0, 0, 0, 1)) + ends).flatten(-2)
    for axis, (a, b) in enumerate(zip(n, m, strict=True), start=-dims):
        y = y.narrow(axis, *kept(a, b, mode))
    return y


def _product_of_spectra(f: Tensor, h: Tensor, sizes: Sequence[int]) -> Tensor:
    """Convolve in a circle of a size, by a real transform where both are real."""
    real, axes = not f.is_complex(), tuple(range(-len(sizes), 0))
    there, back = (torch.fft.rfftn, torch.fft.irfftn) if real else (torch.fft.fftn, torch.fft.ifftn)
    return back(there(f, sizes, axes) * there(h, sizes, axes), sizes, axes)


@functools.lru_cache(maxsize=256)
def plan(n: Sequence[int], m: Sequence[int], mode: Mode) -> tuple[tuple[int, ...], int]:
    """Choose the lengths of the transforms, and into how many blocks a long signal is cut."""
    if mode == "circular":
        return tuple(n), 1
    sizes = []
    for a, b in zip(n, m, strict=True):
        need = a + b - 1 - kept(a, b, mode)[0]  # what wraps round falls on what is not kept
        sizes.append(scipy.fft.next_fast_len(need, real=True))
    plans: list[tuple[tuple[int, ...], int]] = [(tuple(sizes), 1)]
    if len(n) == 1:
        for size in (2**k for k in range((2 * m[0]).bit_length(), sizes[0].bit_length())):
            plans.append(((size,), math.ceil(n[0] / (size - m[0] + 1))))
    return min(plans, key=multiplications)


def multiplications(plan: tuple[Sequence[int], int]) -> float:
    """Count for transforms of N real numbers N log N each, and 4 for a product of two complex."""
    sizes, blocks = plan
    N = math.prod(sizes)
    return (2 * blocks + 1) * N * math.log2(N) + blocks * 4 * math.prod(sizes[:-1]) * (
        sizes[-1] // 2 + 1)

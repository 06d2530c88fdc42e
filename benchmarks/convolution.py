"""Races of the convolution chapter."""

import scipy.signal
import torch
from torch.nn import functional as F

from principia.convolution.convolve import convolve as ours
from principia.lab.racing import race, within

TAPS = 500


@race(
    samples=(1_000, 10_000, 100_000, 1_000_000),
    agree=within(1e-4, why="sums of 500 products in float32"),
)
def convolve(samples):
    """Convolve a signal in float32 with a kernel of 500 places."""
    rng = torch.Generator().manual_seed(0)
    return torch.randn(samples, generator=rng), torch.randn(TAPS, generator=rng)


convolve.ours(ours)


@convolve.peer("scipy.signal.oaconvolve", package="scipy")
def _(f, h):
    return scipy.signal.oaconvolve(f.numpy(), h.numpy())


@convolve.peer("scipy.signal.fftconvolve", package="scipy")
def _(f, h):
    return scipy.signal.fftconvolve(f.numpy(), h.numpy())


@convolve.peer("torch.nn.functional.conv1d", package="torch", up_to=100_000)
def _(f, h):
    return F.conv1d(f.view(1, 1, -1), h.flip(0).view(1, 1, -1), padding=len(h) - 1).flatten()

"""What several claims on convolution measure with: SciPy's answers, a count of multiplications."""

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.signal
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from principia.lab.evidence import Evidence, Series, equal

__all__ = [
    "METHODS", "ROUNDING", "along_axes", "by_scipy", "counts", "drawn", "gradients",
    "multiplications", "over_places", "problems", "same", "wrong_types",
]

SHAPES = (
    ((500,), (3,)), ((500,), (90,)), ((3000,), (70,)), ((100_000,), (30,)), ((77,), (70,)),
    ((40, 50), (3, 4)), ((40, 50), (20, 9)), ((9, 8, 10), (2, 2, 2)), ((16, 20, 12), (7, 5, 6)),
)
ROOM = 3 * 2048 * 11 + 4 * 64 * 17  # of 64 x 32 places: three transforms and a product
BY_HAND = (  # what the transform takes: no place more than the result needs, or blocks of 16 places
    ((60, 30), (5, 3), "full", ROOM), ((64, 32), (5, 3), "valid", ROOM),
    ((62, 31), (5, 3), "same", ROOM), ((64, 32), (5, 3), "circular", ROOM),
    ((73, 30), (5, 3), "full", 3 * 2560 * math.log2(2560) + 4 * 80 * 17),  # 77 is no fast length
    ((60,), (5,), "full", (1 + 2 * 5) * 16 * 4 + 5 * 4 * 9),
)
METHODS = ("auto", "direct", "fft")
ROUNDING = "sums of products in float64, which may be added in another order"


def same(pairs: Iterable[tuple[Any, Any]], tol: float = 1e-11) -> Evidence:
    """State that both sides of all pairs agree, be they real or complex."""
    sides = zip(*pairs, strict=True)
    one, other = (torch.cat([torch.as_tensor(x).flatten() + 0j for x in side]) for side in sides)
    return equal(one, other, tol=tol * (1 + float(other.abs().max())), why=ROUNDING)


def over_places(evidence: Evidence, **rows: Any) -> Evidence:
    """Draw what was measured, what was predicted, and others, over the places of a signal."""
    roles: Any = itertools.chain(["measured", "predicted"], itertools.repeat("other"))
    marks = [
        Series(name, range(len(row)), row, role, None)
        for (name, row), role in zip(rows.items(), roles, strict=False)
    ]
    return evidence.drawn(*marks[1:], marks[0], x="place", y="height of the signal")


def drawn(rng: torch.Generator, shape: Sequence[int], cplx: bool) -> Tensor:
    """Draw normal numbers, real or complex."""
    kind = torch.complex128 if cplx else torch.float64
    return torch.randn(tuple(shape), generator=rng, dtype=kind)


def problems(rng: torch.Generator, dims: int, cases: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Draw signals and kernels of many shapes, two of them long; batches, complex numbers."""
    long: Any = [((2500,), (41,)), ((2001,), (300,))], [((60, 50), (9, 11))], [
        ((6, 30, 25), (3, 4, 5))]
    shapes = long[dims - 1]
    for _ in range(cases):
        m, more = torch.randint(1, (30, 8, 4)[dims - 1], (2, dims), generator=rng)
        shapes.append(((m + more).tolist(), m.tolist()))
    for case, (n, m) in enumerate(shapes, start=2):
        f, h = drawn(rng, (2, *n), case % 3 == 1), drawn(rng, (3, 1, *m), case % 4 == 1)
        yield ((f, h), (f, h[0, 0]), (f[0], h), (f[0], h[0, 0]))[case % 4]


def along_axes(rng: torch.Generator, n: int, m: int) -> list[tuple[Tensor, Tensor]]:
    """Draw a signal and a kernel along one axis, along two and along three."""
    shapes = ((n,), (m,)), ((9, n), (3, m)), ((5, 6, 7), (2, 3, 4))
    return [(drawn(rng, one, cplx=False), drawn(rng, other, cplx=False)) for one, other in shapes]


@functools.lru_cache(maxsize=2)
def by_scipy(f: Any, h: Any, mode: str, dims: int) -> np.ndarray:
    """Convolve every signal with every kernel by SciPy; a circle is a longer signal."""
    f, h = f.numpy(), h.numpy()
    batch = np.broadcast_shapes(f.shape[:-dims], h.shape[:-dims])
    if mode == "circular":
        wrap = [(0, 0)] * len(batch) + [(k - 1, 0) for k in h.shape[-dims:]]
        f, mode = np.pad(np.broadcast_to(f, (*batch, *f.shape[-dims:])), wrap, "wrap"), "valid"
    rows = (np.broadcast_to(one, (*batch, *one.shape[-dims:])).reshape(-1, *one.shape[-dims:])
            for one in (f, h))
    each = [
        scipy.signal.convolve(one, kernel, mode=mode, method="direct")
        for one, kernel in zip(*rows, strict=True)
    ]
    return np.stack(each).reshape(*batch, *each[0].shape)


def gradients(rng: torch.Generator, slide: Any) -> Iterator[tuple[Tensor, np.ndarray]]:
    """Pair gradients of v (f * h) by f and h with the correlations of v with the other one."""
    f, h, v = (torch.randn(k, generator=rng, dtype=torch.float64) for k in (30, 5, 34))
    for method in METHODS:
        def loss(f: Tensor, h: Tensor, by: str = method) -> Tensor:
            return (v * slide(f, h, method=by)).sum()

        for found, other in zip(torch.func.grad(loss, (0, 1))(f, h), (h, f), strict=True):
            yield found, np.correlate(v.numpy(), other.numpy(), mode="valid")


def wrong_types(slide: Any) -> list[bool]:
    """Tell for pairs of types, and empty batches, whether something is wrong with the result."""
    half, single, double = torch.bfloat16, torch.float32, torch.float64
    f, h, wrong = torch.tensor([1, 2, -3, 5]), torch.tensor([2, 0, 1]), []
    for first, second, kind in (
        (torch.int64, torch.int64, single), (torch.int64, double, double), (half, half, half),
        (single, double, double), (single, torch.complex64, torch.complex64),
    ):
        for method in METHODS:
            y = slide(f.to(first), h.to(second), method=method)
            exact = torch.as_tensor(np.convolve(f.numpy(), h.numpy()))
            wrong.append(y.dtype != kind or float((y - exact).abs().max()) > 1e-4)
    for method, ones in itertools.product(METHODS, (torch.ones(4, 3), torch.ones(1, 3))):
        y = slide(torch.ones(0, 1, 5), ones, method=method, mode="valid", dims=1)
        wrong.append(y.shape != (0, len(ones), 3))
    return wrong


@functools.lru_cache(maxsize=1024)
def multiplications(slide: Any, n: Sequence[int], m: Sequence[int], mode: Any, by: Any) -> float:
    """Count the multiplications that torch is asked for, on tensors that hold no numbers."""
    f, h = torch.empty(n, device="meta"), torch.empty(m, device="meta")
    with _Counted() as work:
        slide(f, h, mode=mode, method=by)
    return work.total


class _Counted(TorchDispatchMode):
    total = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out, name = func(*args, **(kwargs or {})), func.overloadpacket.__name__
        if name == "convolution":
            self.total += out.numel() * args[1][0].numel()
        elif name == "mul" and out.is_complex():
            self.total += 4 * out.numel()
        elif name in ("_fft_r2c", "_fft_c2r"):
            real = args[0] if name == "_fft_r2c" else out
            self.total += real.numel() * math.log2(math.prod(real.shape[k] for k in args[1]))
        return out


def counts(slide: Any, cost: Any) -> tuple[Any, ...]:
    """Give what is said to be multiplied by both methods, what is, and what is by default."""
    told, seen, auto = [], [], []
    for n, m, mode, by_hand in BY_HAND:
        told.append([cost(n, m, mode=mode)["direct"], by_hand])
        seen.append([multiplications(slide, n, m, mode, by) for by in ("direct", "fft")])
        auto.append(min(seen[-1]))
    for (n, m), mode in itertools.product(SHAPES, ("full", "same", "valid", "circular")):
        told.append([*cost(n, m, mode=mode).values()])
        *both, chosen = (multiplications(slide, n, m, mode, by) for by in ("direct", "fft", "auto"))
        seen.append(both)
        auto.append(chosen)
    return told, np.array(seen), auto

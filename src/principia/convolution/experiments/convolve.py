r"""Convolution: what it reaches on data."""

import functools
import math
from typing import Annotated, Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from principia.convolution.convolve import convolution_cost, convolve, impulse_response, rot180
from principia.lab.data.photographs import photographs
from principia.lab.draws import randn
from principia.lab.evidence import Plot, Series
from principia.lab.heroes import hero
from principia.lab.params import Range
from principia.lab.pictures import Image, Label, Panels, Rule
from principia.lab.runs import Run, at_most_goal, experiment
from principia.lab.seeds import Seed

Photograph = Literal["china", "flower"]
ROWS, COLUMNS = 64, 96  # of the photographs of the moving picture
UP, LEFT = 10, 15  # how far its kernels reach from their middle
TAPS = 7  # places of a learned kernel a side
DECADES = 3.5  # that a picture of a spectrum shows, from black to white


@hero(moves="width", frames=13)
def spectra(
    seed: Seed, *, width: Annotated[int, Range(0, 12)] = 6,
    kernel: Literal["streak", "blur", "edge", "sharpen", "echo", "largest value"] = "streak",
    angle: Annotated[int, Range(0, 165)] = 30, photograph: Photograph = "china",
) -> Panels:
    """Sliding a kernel over pixels multiplies their spectrum: a blur is only a darkened rim.

    Args:
        width: How wide the kernel is, in pixels of the 64 x 96.
        kernel: What slides over the photograph; the largest value in a window is no convolution,
            because it is not linear, and its spectrum is no product.
        angle: Direction of the kernel, in degrees.
        photograph: Which photograph.
    """
    photo = _small_photo(photograph)
    h = _kernel(kernel, width, angle)
    y = convolve(photo, h, mode="circular", dims=2).roll((-UP, -LEFT), (1, 2))
    if kernel == "largest value":  # of the places under the window
        places = (h > 0).nonzero() - torch.tensor([UP, LEFT])
        shifts = [(int(down), int(right)) for down, right in places]
        y = torch.stack([photo.roll(one, (1, 2)) for one in shifts]).amax(dim=0)
    before, factor = _spectrum(photo), torch.fft.fft2(h, (ROWS, COLUMNS)).abs()
    after = _spectrum(y)
    gap = float((after - before * factor).norm() / after.norm())
    broken = gap > 1e-9
    shown = f"no product: {gap:.0%} off" if broken else f"= product, to {_power(gap)}"
    pixels = (y + 0.5 if kernel == "edge" else y).clamp(0, 1).movedim(0, 2)
    limit = float(before[1:, 1:].max())
    top = [
        Plot((Image(photo.movedim(0, 2)),), title="photograph", bare=True, square=True),
        Plot((Image(_gray((h / h.abs().max() + 1) / 2 if h.min() < 0 else h / h.max())),),
             title=f"{'window' if broken else '* kernel'}: {kernel}", bare=True, square=True),
        Plot((Image(pixels),), title="= filtered photograph", bare=True, square=True),
    ]
    result = _framed(_log(after, limit), [0.86, 0.15, 0.15] if broken else [0.1, 0.6, 0.3])
    below = [
        Plot((Image(one),), title=title, bare=True, square=True)
        for one, title in (
            (_log(before, limit), "its spectrum (log)"),
            (_log(factor, 1.0), "× spectrum of the kernel"), (result, shown),
        )
    ]
    return Panels((*top, *below), columns=3)


def _framed(pixels: Tensor, color: list[float]) -> Tensor:
    framed = pixels.new_tensor(color).expand(ROWS + 4, COLUMNS + 6, 3).clone()
    framed[2:-2, 3:-3] = pixels
    return framed


@functools.lru_cache(maxsize=2)
def _small_photo(name: str) -> Tensor:
    pixels = torch.tensor(photographs()[name]).double().movedim(2, 0) / 255
    return F.adaptive_avg_pool2d(pixels, (ROWS, COLUMNS))


def _kernel(name: str, width: int, angle: int) -> Tensor:
    """Make a kernel whose middle is at (UP, LEFT), turned counterclockwise; width 0 is a pulse."""
    down, right = torch.meshgrid(
        torch.arange(-UP, UP + 1.0).double(), torch.arange(-LEFT, LEFT + 1.0).double(),
        indexing="ij")
    turn = math.radians(angle)
    along = right * math.cos(turn) - down * math.sin(turn)
    across = right * math.sin(turn) + down * math.cos(turn)
    long, thin = max(width / 2, 0.2), max(min(width / 2, 0.5), 0.2)
    pulse = ((down == 0) & (right == 0)).double()
    if name in ("streak", "largest value"):
        h = ((along.abs() <= width / 2 + 0.1) * torch.exp(-(across**2) / (2 * thin**2)))
        h = (h > 0.3).double() if name == "largest value" else h
        return h / h.sum()
    if name == "echo":
        shift = round(width / 2 * math.cos(turn)), -round(width / 2 * math.sin(turn))
        moved = [pulse.roll((way * shift[1], way * shift[0]), (0, 1)) for way in (-1, 1)]
        return torch.stack(moved).mean(dim=0)
    bell = torch.exp(-(along**2 + across**2) / (2 * (long / 1.5) ** 2))
    if name == "edge":
        slope = along * bell
        return 2 * slope / slope.abs().sum().clamp(min=1e-9)
    return 2.5 * pulse - 1.5 * bell / bell.sum() if name == "sharpen" else bell / bell.sum()


def _spectrum(pixels: Tensor) -> Tensor:
    """Give the strengths of the waves in the mean of the colors."""
    return torch.fft.fft2(pixels.mean(dim=0)).abs()


def _log(strengths: Tensor, most: float) -> Tensor:
    """Paint strengths on a logarithmic scale, with long waves in the middle."""
    level = 1 + torch.log10(strengths.clamp(min=1e-12) / most) / DECADES
    return _gray(torch.fft.fftshift(level.clamp(0, 1)))


def _gray(level: Tensor) -> Tensor:
    """Make pixels of three equal colors, in steps that are small on disk."""
    return ((63 * level).round() / 63)[..., None].expand(*level.shape, 3)


def _power(gap: float) -> str:
    return f"1e{math.ceil(math.log10(max(gap, 1e-16)))}"


@experiment(
    reaches={
        "kernel_error": at_most_goal(1e-6), "noisy_kernel_error": at_most_goal(1e-2),
        "fft_difference": at_most_goal(1e-4),
    },
    floor={
        "kernel_error": at_most_goal(1e-6), "noisy_kernel_error": at_most_goal(1e-2),
        "fft_difference": at_most_goal(1e-4),
    },
    source="Oppenheim and Schafer (2009), ch. 2: a linear map that commutes with shifts is its "
    "answer to a pulse, so that least squares must find it, to rounding where nothing else is in "
    "the data, and with an error in proportion to the noise",
)
def filters_on_a_photograph(
    run: Run, *, photograph: Photograph = "china",
    noise: Annotated[float, Range(0, 0.2)] = 0.01,
) -> None:
    """Filters a photograph, and learns the kernels back from the photograph and its filtered copy.

    Args:
        photograph: Which photograph; a quick run takes 128 x 128 pixels of it.
        noise: Added to the filtered copy, as a share of its standard deviation.
    """
    photo = torch.tensor(photographs()[photograph]).double().movedim(2, 0) / 255
    if not run.full:
        photo = photo[:, 150:278, 250:378]
    kernels = _kernels(run.seed)
    names, hidden = [*kernels], torch.stack([*kernels.values()])
    filtered = convolve(photo[:, None], hidden, mode="valid", dims=2)  # (3, kernels, H, W)
    learned = learned_kernels(photo, filtered)
    rng, levels, found = run.seed.child("noise").torch(), (0.001, 0.003, noise, 0.03, 0.1), {}
    drawn, spread = randn(rng, *filtered.shape), filtered.std((0, 2, 3), keepdim=True)
    for level in run.steps(sorted({*levels}), "noise"):
        found[level] = learned_kernels(photo, filtered + level * spread * drawn)
    errors = {level: _errors(one, hidden) for level, one in found.items()}
    single = photo.float()
    direct, fft = (
        convolve(single[:, None], hidden.float(), dims=2, method=method)
        for method in ("direct", "fft"))
    run.record(
        kernel_error=float(_errors(learned, hidden).max()),
        noisy_kernel_error=float(errors[noise].max()),
        fft_difference=float((direct - fft).abs().max() / direct.abs().max()),
    )
    for name, error in zip(names, errors[noise], strict=True):
        run.record(**{f"noisy_{name}_error": float(error)})
    run.figure("filters", _filters(photo, filtered, kernels))
    run.figure("learned", _learned(names, hidden, learned, found[noise], noise))
    curves = [
        Series(name, [*errors], [float(one[place]) for one in errors.values()], "other")
        for place, name in enumerate(names)
    ]
    run.figure("noise", Plot((
        *curves, Rule("asked of it", x=noise, role="gray"), Rule("goal", y=0.01),
    ), "noise, share of the standard deviation", "relative error of the kernel", "xy"))
    run.figure("cost", _cost(photo.shape[-2:]))


def _kernels(seed: Seed) -> dict[str, Tensor]:
    """Make three kernels of the trade, and one that nobody would guess."""
    place = torch.arange(TAPS).double() - TAPS // 2
    bell = torch.exp(-(place**2) / 3)
    blur = torch.outer(bell, bell) / bell.sum() ** 2
    pulse = impulse_response(lambda f: f.roll(TAPS**2 // 2), TAPS**2).view(TAPS, TAPS)
    edge = torch.outer(bell, -place * bell)
    return {
        "blur": blur, "edge": edge / edge.abs().sum(), "sharpen": 2 * pulse - blur,
        "random": randn(seed.child("kernel").torch(), TAPS, TAPS) / TAPS,
    }


def _errors(found: Tensor, hidden: Tensor) -> Tensor:
    """Compare kernels, each relative to its own length."""
    return (found - hidden).flatten(1).norm(dim=1) / hidden.flatten(1).norm(dim=1)


def _filters(photo: Tensor, filtered: Tensor, kernels: dict[str, Tensor]) -> Panels:
    """Show each kernel, its spectrum and what it makes of the photograph."""
    plots = []
    for place, (name, h) in enumerate(kernels.items()):
        y = filtered[:, place, ::2, ::2]
        low, high = (0.0, 1.0) if name in ("blur", "sharpen") else (float(y.min()), float(y.max()))
        factor = torch.fft.fftshift(torch.fft.fft2(h, (48, 48)).abs())
        plots += [
            Plot((Image(h, signed=True),), title=name, bare=True, square=True),
            Plot((Image(factor),), title="spectrum", bare=True, square=True),
            Plot((Image(((y - low) / (high - low)).clamp(0, 1).movedim(0, 2)),),
                 title="filtered", bare=True, square=True),
        ]
    whole = Plot((Image(photo[:, ::2, ::2].movedim(0, 2)),), title="photograph", bare=True,
                 square=True)
    empty = Plot((Label("", 0, 0),), bare=True)
    return Panels((empty, empty, whole, *plots), columns=3)


def _learned(names: list[str], hidden: Tensor, learned: Tensor, noisy: Tensor, noise: float) -> Any:
    """Show the kernels that were hidden, those that were found, and what is wrong with them."""
    plots = []
    for place, name in enumerate(names):
        most = float(hidden[place].abs().max())
        for kernel, title in (
            (hidden[place], f"{name}, hidden"), (learned[place], "learned"),
            (noisy[place], f"with {noise:.2g} noise"),
            (10 * (noisy[place] - hidden[place]), "error, 10 times"),
        ):
            image = Image(kernel, signed=True, low=-most, high=most)
            plots.append(Plot((image,), title=title, bare=True, square=True))
    return Panels(tuple(plots), columns=4)


def _cost(size: Any) -> Plot:
    """Draw the multiplications of both methods over the width of the kernel."""
    taps = range(1, 32)
    costs = [convolution_cost(tuple(size), (m, m), mode="same") for m in taps]
    direct, fft = ([one[method] / math.prod(size) for one in costs] for method in ("direct", "fft"))
    cross = next(m for m, a, b in zip(taps, direct, fft, strict=True) if a > b)
    return Plot((
        Series("direct", taps, direct, "blue", "line"), Series("FFT", taps, fft, "orange", "line"),
        Rule(f"auto changes at {cross} x {cross}", x=cross - 0.5, role="gray"),
    ), "width of a square kernel", "multiplications a pixel", "y")


def learned_kernels(photo: Tensor, filtered: Tensor, taps: int = TAPS) -> Tensor:
    r"""Find kernels (K, taps, taps) by least squares from a photograph and its filtered copies.

    Every place is an equation: its neighborhood times the flipped kernel is the filtered value. The
    normal equations have the same bits in every process; torch's least squares works in memory
    whose place decides the last bits.

    Args:
        photo: (C, H, W).
        filtered: What kernels made of it with "valid" (C, K, H - taps + 1, W - taps + 1).
        taps: Places of the kernels a side.
    """
    gram = photo.new_zeros(taps**2, taps**2)
    right = photo.new_zeros(taps**2, filtered.shape[1])
    for color, copies in zip(photo, filtered, strict=True):
        patches = color.unfold(0, taps, 1).unfold(1, taps, 1).reshape(-1, taps**2)
        gram, right = gram + patches.mT @ patches, right + patches.mT @ copies.flatten(1).mT
    factor = torch.linalg.cholesky(gram)
    solution = torch.cholesky_solve(right, factor)
    # what is left over is solved for again: squaring the equations has cost half of the digits
    solution = solution + torch.cholesky_solve(right - gram @ solution, factor)
    return rot180(solution.mT.unflatten(1, (taps, taps)), 2)

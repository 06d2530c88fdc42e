r"""The convolutional layer: what is true of it, and what would refute it.

Knobs:
    rounding: Where the last window does not fit, it is left out, not counted.
    groups: In how many groups of channels each kernel sees one only.
    both: Whether channels change places in the kernels as well as in the picture.
    op: What the layer computes; torch's is a correlation, and has another gradient.
    form: The formula as it is, or as it is misprinted.
    gathered: What becomes of the gradients at all places.
    flipped: Whether kernels are turned by 180 degrees where gradients are sent back.
    offset: Which of the places is the first that is kept.
    pool: What is kept of a window.
    cold: The temperature that should give the maximum.
    hot: The temperature that should give the average.
    largest: Side of the largest window of pooling; a window of 1 pools nothing.
    changed: Whether one place gets other kernels than the rest.
    noisy: Whether the signal is white noise, which is made of waves of all lengths.
    reused: Whether each weight is counted as often as it is used, or once.
"""

import itertools
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from scipy import signal as scipy_signal
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import skip_init
from torch.utils.flop_counter import FlopCounterMode

from principia.convolution.layer import (
    LocallyConnected2d,
    MinPool2d,
    Operation,
    SoftmaxPool2d,
    aliased_share,
    input_gradient,
    kernel_gradient,
    multiply_adds,
    output_size,
    padding_for,
    parameter_counts,
)
from principia.lab.data.digits import digits
from principia.lab.draws import drawn_anew, randn
from principia.lab.evidence import Evidence, Series, at_most, claim, equal, equal_to_rounding, every
from principia.lab.params import PositiveFloat
from principia.lab.pictures import Rule
from principia.lab.seeds import Seed
from principia.regularization.augmentation import invariance_error

EXACT = "whole numbers"
COURSE = "Goodfellow, Bengio and Courville 2016, chap. 9"
Printed = Literal["correct", "printed"]


@claim(control={"rounding": "up"}, refutes=["torch"], source="Dumoulin and Visin 2016")
def output_sizes(seed: Seed, *, rounding: Literal["down", "up"] = "down") -> Evidence:
    r"""A window has $\lfloor(n+2p_0-d(p-1)-1)/s\rfloor+1$ places along an axis."""
    ends, rng = [(1, 60), (1, 8), (1, 6), (0, 5), (1, 4)], seed.torch()
    drawn = torch.stack([torch.randint(*two, (500,), generator=rng) for two in ends]).T
    drawn = torch.cat([drawn, torch.tensor([[n, 3, 4, 0, 1] for n in range(3, 41)])]).tolist()
    fit = [(n, k, s, p, d) for n, k, s, p, d in drawn if n + 2 * p > d * (k - 1)]
    theirs = [_places(n, k, stride=s, padding=p, dilation=d) for n, k, s, p, d in fit]
    ours = [output_size(n, k, stride=s, padding=p, dilation=d) for n, k, s, p, d in fit]
    if rounding == "up":
        ours = [-(-(n + 2 * p - d * (k - 1) - 1) // s) + 1 for n, k, s, p, d in fit]
    named = [(9, 1, 1), (9, 5, 1), (20, 3, 2), (9, 2, 2), (20, 4, 4)]
    kinds = [[output_size(n, k, padding=padding_for(kind, k, dilation=d), dilation=d)
              for n, k, d in named] for kind in ("valid", "same", "full")]
    kinds += [[padding_for("same", k) for k in (1, 3, 5, 7, 9)]]
    grown = [[n + by * d * (k - 1) for n, k, d in named] for by in (-1, 0, 1)] + [[*range(5)]]
    return every({
        "torch": equal(ours, theirs, tol=0, why=EXACT).drawn(
            Series("torch", range(3, 41), theirs[-38:]),
            Series("formula", range(3, 41), ours[-38:], "predicted", "steps"),
            x="pixels along the axis (kernel 3, stride 4)", y="places of the window"),
        "valid, same and full": equal(kinds, grown, tol=0, why=EXACT),
    })


def _places(n: int, k: int, **options: Any) -> int:
    row, kernel = (torch.empty(1, 1, one, device="meta") for one in (n, k))
    return F.conv1d(row, kernel, **options).shape[-1]


@claim(control={"groups": 3}, refutes=["torch"], source=COURSE)
def channels_are_summed(seed: Seed, *, groups: Literal[1, 3] = 1) -> Evidence:
    r"""A map is $b_k+\sum_cw_{k,c}\star x_c$, correlations in the plane, summed over channels."""
    rng = seed.torch()
    x, w = randn(rng, 4, 3, 9, 8), randn(rng, 6, 3, 3, 2)
    conv = _layer(rng, 3, 6, (3, 2), stride=2, groups=groups)
    conv.weight.data = w[:, : 3 // groups]
    one = torch.tensor(np.array([[[
        scipy_signal.correlate2d(x_c, w_c, mode="valid")[::2, ::2]
        for x_c, w_c in zip(picture, kernel, strict=True)] for kernel in w] for picture in x]))
    local = drawn_anew(LocallyConnected2d(3, 6, (3, 2), (9, 8), stride=2, rng=rng), rng)
    own = local.bias.permute(2, 0, 1).expand(4, 6, 4, 4).clone()  # type: ignore[union-attr]
    for i, j in itertools.product(range(4), range(4)):
        window = x[:, None, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 2]
        own[..., i, j] += (window * local.weight[i, j]).sum((2, 3, 4))
    worked = skip_init(nn.Conv2d, 3, 2, 3, stride=2)(torch.zeros(1, 3, 7, 7)).shape[1:]
    return every({
        "torch": _agree(
            conv(x), one.sum(dim=2) + conv.bias[:, None, None], ("torch", "sum over channels"),
            *(Series(f"channel {c + 1}", range(4), one[0, 0, c, 0], "other") for c in range(3)),
        ),
        "locally connected": equal_to_rounding(local(x), own),
        "7 x 7 x 3": equal([output_size(7, 3, stride=2)] * 2, worked[1:], tol=0, why=EXACT),
    })


def _layer(rng: torch.Generator, *sizes: Any, **options: Any) -> Any:
    return drawn_anew(skip_init(nn.Conv2d, *sizes, **options), rng)


def _agree(
    found: Tensor, expected: Tensor, names: tuple[str, str], *more: Series,
    x: str = "place along a row", y: str = "map",
) -> Evidence:
    """State that two computations agree, and draw the first row of both."""
    rows = [one.detach().flatten(0, -2)[0] for one in (found, expected)]
    places = range(len(rows[0]))
    ours, theirs = Series(names[0], places, rows[0]), Series(names[1], places, rows[1], "predicted")
    return equal_to_rounding(found, expected).drawn(ours, theirs, *more, x=x, y=y)


@claim(control={"both": False}, source="by construction")
def channel_order_is_irrelevant(seed: Seed, *, both: bool = True) -> Evidence:
    """Channels have no order: exchange them in picture and kernels, and nothing changes."""
    rng, parts = seed.torch(), {}
    x, order = randn(rng, 2, 5, 7, 12), torch.tensor([3, 0, 4, 1, 2])  # no channel stays
    for name, layer in [
        ("convolution", _layer(rng, 5, 3, (3, 2))),
        ("locally connected", drawn_anew(LocallyConnected2d(5, 3, (3, 2), (7, 12), rng=rng), rng)),
    ]:
        before = layer(x)
        if both:
            layer.weight.data = layer.weight.data[..., order, :, :]
        parts[name] = _agree(layer(x[:, order]), before, ("exchanged", "as it was"))
    return every(parts)


@claim(control={"op": "correlation"}, refutes=["kernel", "v"], source="LeCun et al. 1998")
def kernel_gradient_of_convolution(seed: Seed, *, op: Operation = "convolution") -> Evidence:
    r"""Of $L=v^\top\mathrm{vec}\,\sigma(x*w)$ it is $\mathrm{rot}_\pi(x)*(v\odot\sigma')$."""
    rng = seed.torch()
    x, w, v = randn(rng, 2, 3, 8, 6), randn(rng, 4, 3, 3, 2) / 4, randn(rng, 2, 4, 6, 5)
    def loss(w: Tensor, v: Tensor, op: str) -> Tensor:
        return (v * F.conv2d(x, w.flip(-2, -1) if op == "convolution" else w).sigmoid()).sum()

    of_w, of_v = torch.func.grad(loss, (0, 1))(w, v, op)
    s, plain = (F.conv2d(x, one).sigmoid() for one in (w.flip(-2, -1), w))
    found = kernel_gradient(x, v * s * (1 - s), op="convolution")
    torchs = kernel_gradient(x, v * plain * (1 - plain))
    return every({
        "kernel": _agree(
            found.flatten(2), of_w.flatten(2), ("rot(x) * B", "autograd"),
            Series("x ⋆ B, of torch's layer", range(6), torchs[0, 0].flatten(), "other"),
            x="weight of a kernel", y="gradient"),
        "v": equal_to_rounding(s, of_v),
        "kernel of a correlation": equal_to_rounding(
            torchs, torch.func.grad(loss)(w, v, "correlation")),
    })


@claim(
    control={"form": "printed"}, refutes=["sum"], source="by the chain rule",
    misprint=r"$y_{k-i}=y_{-(k-i)}=\mathrm{rot180}(y)_{k-i}$",
)
def kernel_gradient_index(seed: Seed, *, form: Printed = "correct") -> Evidence:
    r"""$\partial R/\partial w_i=\sum_k\delta_ky_{k-i}=(\delta*\mathrm{rot180}(y))_i$ of $w*y$."""
    rng, n, m = seed.torch(), 6, 3
    y, w, delta = randn(rng, n), randn(rng, m).requires_grad_(), randn(rng, n + m - 1)
    padded = F.pad(y, (m - 1, m - 1)).view(1, 1, 1, -1)
    z = F.conv2d(padded, w.flip(-1).view(1, 1, 1, -1)).flatten()  # all of w * y
    by_torch = torch.autograd.grad(z, w, delta)[0]
    sign = 1 if form == "correct" else -1
    summed = torch.stack([sum(
        (delta[k] * y[sign * (k - i)] for k in range(n + m - 1) if 0 <= sign * (k - i) < n),
        torch.zeros(())) for i in range(m)])
    turned = np.convolve(delta, y.flip(0))[n - 1 : n + m - 1]  # rot180(y) begins at 1 - n
    ours = kernel_gradient(padded, delta.view(1, 1, 1, -1), op="convolution").flatten()
    return every({
        "sum": _agree(summed[None], by_torch[None], (f"sum, {form}", "autograd"), x="i",
                      y="gradient of the kernel"),
        "kernel_gradient": equal_to_rounding([ours, turned], [by_torch, by_torch]),
    })


@claim(control={"gathered": "mean"}, source="LeCun 1989")
def shared_gradient_is_a_sum(seed: Seed, *, gathered: Literal["sum", "mean"] = "sum") -> Evidence:
    r"""The gradient of a shared weight is the sum of those that it has at all places."""
    rng, size, over = seed.torch(), (6, 9), torch.mean if gathered == "mean" else torch.sum
    conv = _layer(rng, 3, 4, (3, 2), stride=(2, 1), padding=(1, 0))
    local = LocallyConnected2d.from_convolution(conv, size)
    x, delta = randn(rng, 2, 3, *size), randn(rng, 2, 4, 3, 8)
    shared, apart = (
        torch.autograd.grad((net(x).tanh() * delta).sum(), [*net.parameters()])
        for net in (conv, local)
    )
    steps = apart[0][..., 0, 0, 0, 0].flatten()
    sums = steps.cumsum(0) / (len(steps) if gathered == "mean" else 1)
    return every({
        "weights": equal_to_rounding(over(apart[0], dim=(0, 1)), shared[0]).drawn(
            Series("at each place", range(len(steps)), steps, "other", "points"),
            Series("gathered so far", range(len(steps)), sums, style="line"),
            Rule("of the shared weight", y=float(shared[0][0, 0, 0, 0]), role="predicted"),
            x="place", y="gradient of one weight"),
        "biases": equal_to_rounding(over(apart[1], dim=(0, 1)), shared[1]),
    })


@claim(control={"flipped": False}, source=COURSE + "; Dumoulin and Visin 2016")
def input_gradient_is_transposed_convolution(seed: Seed, *, flipped: bool = True) -> Evidence:
    r"""$\nabla_xL$ is the full convolution of $\delta$ with $w$, torch's `conv_transpose2d`."""
    rng, parts = seed.torch(), {}
    w = randn(rng, 4, 3, 3, 2)
    shown = w if flipped else w.flip(-2, -1)
    for stride, size in (1, (7, 9)), (2, (7, 11)), (3, (8, 10)):
        x = randn(rng, 2, 3, *size).requires_grad_()
        z = F.conv2d(x, w, stride=stride)
        delta = randn(rng, *z.shape)
        by_torch = torch.autograd.grad(z, x, delta)[0]
        ours = input_gradient(delta, shown, stride=stride, size=size)
        transposed = F.conv_transpose2d(delta, w, stride=stride)
        parts[f"stride {stride}: autograd"] = _agree(
            ours, by_torch, ("δ * w", "autograd"), x="pixel", y="gradient of the picture")
        parts[f"stride {stride}: conv_transpose2d"] = equal_to_rounding(torch.stack([
            input_gradient(delta, shown, stride=stride),
            input_gradient(delta, shown.flip(-2, -1), op="convolution", stride=stride),
        ]), torch.stack([transposed] * 2))
    return every(parts)


@claim(control={"offset": 1}, source=COURSE)
def stride_is_decimation(seed: Seed, *, offset: Literal[0, 1] = 0) -> Evidence:
    """A stride of s computes every s-th place of what stride 1 computes."""
    rng, size = seed.torch(), (14, 11)
    options: dict[str, Any] = {"padding": (0, 1)}
    x, steps = randn(rng, 2, 3, *size), (1, 2)
    conv, leaping = _layer(rng, 3, 4, (3, 2), **options), _layer(
        rng, 3, 4, (3, 2), stride=steps, **options)
    leaping.load_state_dict(conv.state_dict())
    local, other = (drawn_anew(LocallyConnected2d(
        3, 4, (3, 2), size, stride=one, rng=rng, **options), rng) for one in (1, steps))
    other.weight.data, other.bias.data = (  # type: ignore[union-attr]
        one.data[:, ::2] for one in local.parameters())
    kept = [layer(x).roll(-offset, 3)[..., ::2] for layer in (conv, local, nn.MaxPool2d(2, 1))]
    return every({
        "convolution": _agree(leaping(x), kept[0], ("stride 2", "every second of stride 1")),
        "locally connected": equal_to_rounding(other(x), kept[1]),
        "pooling": equal(nn.MaxPool2d(2, steps)(x), kept[2], tol=0, why="copies"),
    })


@claim(control={"pool": "average"}, source="Zhou and Chellappa 1988; " + COURSE)
def max_pool_is_the_formula(seed: Seed, *, pool: Literal["max", "average"] = "max") -> Evidence:
    r"""It gives $\max_{k,l<r}x_{i+k,j+l}$, and its gradient goes to the largest pixel alone."""
    r, parts, x = 3, {}, randn(seed.torch(), 2, 3, 8, 11).requires_grad_()
    for name, layer, stride in [
        ("max", nn.MaxPool2d(r, 2), 2), ("min", MinPool2d(r, stride=2), 2),
        ("min, side by side", MinPool2d(r), r),
    ]:
        windows = F.unfold(x.flatten(0, 1)[:, None], r, stride=stride).detach()  # (6, 9, places)
        best = windows.max(dim=1) if name == "max" else windows.min(dim=1)
        y = F.avg_pool2d(x, r, stride) if pool == "average" else layer(x)
        delta = randn(seed.child(name).torch(), *y.shape)
        hot = F.one_hot(best.indices, r * r).mT * delta.view(6, 1, -1)
        sent = F.fold(hot, (8, 11), r, stride=stride)[:, 0].view(x.shape)
        parts[name] = _agree(y, best.values.view(y.shape), (pool, name))
        parts[f"{name}: gradient"] = equal_to_rounding(torch.autograd.grad(y, x, delta)[0], sent)
    return every(parts)


@claim(
    control={"cold": 1.0, "hot": 1.0}, refutes=["T → 0", "T → ∞"],
    source="Boureau, Ponce and LeCun 2010",
)
def softmax_pool_limits(
    seed: Seed, *, cold: PositiveFloat = 1e-4, hot: PositiveFloat = 1e6
) -> Evidence:
    r"""$\sum xe^{x/T}/\sum e^{x/T}$ tends to the maximum as $T\to0$, to the average for large T."""
    order = torch.randperm(2 * 3 * 7 * 9, generator=seed.torch()).double()
    x = (0.005 * order - 1).view(2, 3, 7, 9)  # no two values are nearer than 50 cold
    windows = F.unfold(x.flatten(0, 1)[:, None], 3, stride=2)
    e, Ts = (windows / 0.7).exp(), np.geomspace(1e-3, 1e3, 61)
    return every({
        "T → 0": equal(
            SoftmaxPool2d(3, cold, stride=2)(x), F.max_pool2d(x, 3, 2), tol=1e-6,
            why="another value of the window has at most a weight of exp(-50)",
        ).drawn(
            Series("pooled", Ts, [SoftmaxPool2d(3, float(T))(x)[0, 0, 0, 0] for T in Ts],
                   style="line"),
            Rule("maximum", y=float(x[0, 0, :3, :3].max())),
            Rule("average", y=float(x[0, 0, :3, :3].mean()), role="predicted"),
            x="temperature T", y="value of a window", log="x"),
        "T → ∞": equal(
            SoftmaxPool2d(3, hot)(x), F.avg_pool2d(x, 3), tol=1e-6,
            why="the derivative by 1/T is a variance, at most a quarter of the range, 1.9, squared",
        ),
        "formula": equal_to_rounding(
            SoftmaxPool2d(3, 0.7, stride=2)(x).flatten(),
            ((windows * e).sum(dim=1) / e.sum(dim=1)).flatten()),
        "T = 1 by default": equal_to_rounding(SoftmaxPool2d(2)(x[0]), SoftmaxPool2d(2, 1.0)(x)[0]),
    })


@claim(control={"largest": 1}, source="Azulay and Weiss 2019; Zhang 2019")
def max_pool_damps_small_shifts(seed: Seed, *, largest: Literal[1, 2, 4] = 4) -> Evidence:
    """Pooled features change less when the picture moves by a pixel: the less, the larger r."""
    x = F.pad(digits()[2][:100, None], (4, 4, 4, 4)).double()
    conv = _layer(seed.torch(), 1, 32, 3, padding=1, bias=False).requires_grad_(False)
    pools = [nn.MaxPool2d(min(r, largest)) for r in (1, 2, 4)]
    change = torch.tensor([[
        invariance_error(nn.Sequential(conv, nn.ReLU(), one), x, lambda x, by=by: x.roll(by, -1))
        for one in pools] for by in (1, 2, 3, 4)])
    return every({
        "falls": at_most(change[0].diff(), -0.05, why="the drop is several times as large"),
        "windows of 4 against none": at_most(change[0, 2] / change[0, 0], 0.6, why="about half"),
    }).drawn(
        *(Series(f"windows of {one.kernel_size}", (1, 2, 3, 4), column, "other", "line")
          for one, column in zip(pools, change.T, strict=True)),
        x="shift in pixels", y="relative change of the features")


@claim(
    control={"form": "printed"}, source="by counting",
    misprint=r"$mnc\,((m-p+1)(n-q+1)+1)K$, one bias for each input",
)
def dense_parameter_count(seed: Seed, *, form: Printed = "correct") -> Evidence:
    r"""A dense layer with the units of a convolution has $(mnc+1)(m-p+1)(n-q+1)K$ parameters."""
    return _same_counts(
        seed, "dense", 30_420,
        lambda m, n, c, p, q, K: nn.Linear(m * n * c, K * (m - p + 1) * (n - q + 1), device="meta"),
        form == "printed" and (
            lambda m, n, c, p, q, K: m * n * c * ((m - p + 1) * (n - q + 1) + 1) * K),
    )


def _same_counts(
    seed: Seed, kind: str, known: int, make: Callable[..., nn.Module], printed: Any = None
) -> Evidence:
    """State that a formula counts what layers have, the first of which is known."""
    drawn = torch.randint(1, 6, (12, 6), generator=seed.torch())
    drawn[:, :2] += drawn[:, 3:5]  # pictures are larger than windows
    sizes = [[8, 7, 3, 3, 2, 5], *drawn.tolist()]
    found = [printed(*one) if printed else parameter_counts(*one)[kind] for one in sizes]
    counts = [sum(one.numel() for one in make(*size).parameters()) for size in sizes]
    order = np.argsort(counts)
    return every({
        "8 x 7 x 3, windows of 3 x 2, 5 maps": equal(found[0], known, tol=0, why=EXACT),
        "layers": equal(found, counts, tol=0, why=EXACT).drawn(
            Series("formula", range(len(order)), np.array(found)[order]),
            Series("layer", range(len(order)), np.array(counts)[order], "predicted"),
            x="setting, by its size", y="weights and biases", log="y"),
    })


@claim(
    control={"form": "printed"}, refutes=["locally connected"], source="by counting",
    misprint=r"$pqc\,((m-p+1)(n-q+1)+1)K$, one bias for each weight of a window",
)
def local_parameter_count(seed: Seed, *, form: Printed = "correct") -> Evidence:
    r"""A local layer has $(pqc+1)(m-p+1)(n-q+1)K$ parameters, a convolution $K(pqc+1)$."""
    def printed(m: int, n: int, c: int, p: int, q: int, K: int) -> int:
        return p * q * c * ((m - p + 1) * (n - q + 1) + 1) * K

    return every({
        "locally connected": _same_counts(
            seed, "local", 3420,
            lambda m, n, c, p, q, K: LocallyConnected2d(c, K, (p, q), (m, n), rng=seed.torch()),
            form == "printed" and printed,
        ),
        "convolution": _same_counts(
            seed, "shared", 95, lambda m, n, c, p, q, K: nn.Conv2d(c, K, (p, q), device="meta")),
    })


@claim(control={"changed": True}, source="LeCun 1989")
def tied_local_is_conv(seed: Seed, *, changed: bool = False) -> Evidence:
    """With the same kernels at all places a locally connected layer is a convolution."""
    rng, parts = seed.torch(), {}
    settings: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "plain": ((3, 2), (8, 7), {}),
        "stride and padding": ((2, 3), (7, 10), {"stride": (2, 3), "padding": (0, 2)}),
        "one number for both axes": (3, 9, {"stride": 2, "padding": 1}),
        "without biases": ((2, 3), (5, 9), {"bias": False, "padding": (1, 0)}),
    }
    for name, (kernel, size, options) in settings.items():
        x = randn(rng, 3, 4, *((size, size) if isinstance(size, int) else size))
        conv = _layer(rng, 4, 5, kernel, **options)
        tied = LocallyConnected2d(4, 5, kernel, size, rng=rng, **options).double()
        for ours, theirs in zip(tied.parameters(), conv.parameters(), strict=True):
            ours.data[:] = theirs
        copied = LocallyConnected2d.from_convolution(conv, size)
        for made, layer in (("tied", tied), ("from_convolution", copied)):
            if changed:
                layer.weight.data[0, 0] += 1
            parts[f"{made}, {name}"] = _agree(
                layer(x), conv(x), ("locally connected", "convolution"))
    return every(parts)


@claim(control={"noisy": True}, refutes=["long waves"], source="Shannon 1949; Zhang 2019")
def decimation_loses_the_high_band(seed: Seed, *, noisy: bool = False) -> Evidence:
    """Every second sample tells all if there are no waves under 4 samples, else aliases remain."""
    rng, n = seed.torch(), 2 * 63
    noise = randn(rng, 20, n)
    cycles = torch.fft.rfftfreq(n).double()
    limits = torch.linspace(0.1, 0.5, 41).double()
    bands = torch.fft.irfft(torch.fft.rfft(noise) * (cycles <= limits[:, None, None]), n)
    long = noise if noisy else bands[14]  # of waves below 0.24 cycles a sample
    errors, shares = _lost(bands, bands[..., ::2]), 2 * aliased_share(bands, axes=1)
    plane = randn(rng, 3, 3 * 9, 3 * 15)
    back = plane.numpy()
    for axis, places in (1, 9), (2, 15), (1, 27), (2, 45):  # smoothed and decimated, and restored
        back = scipy_signal.resample(back, places, axis=axis)
    limit = torch.tensor([[0.0, 1, 0, -1] * 3, [1.0, -1, 1, -1] * 3, [1.0] * 12]).double()
    return every({
        "long waves": at_most(
            _lost(long, long[:, ::2]), 1e-16, why="an error of 1e-8, far above rounding"),
        "the error is the loss and its aliases": equal_to_rounding(errors, shares).drawn(
            Series("from every second sample", limits, errors[:, 0]),
            Series("twice the share of short waves", limits, shares[:, 0], "predicted"),
            Rule("half of the rate", x=0.25),
            x="highest frequency of the signal, cycles a sample", y="error / energy"),
        "smoothed before, a picture": equal_to_rounding(
            _share(plane - torch.tensor(back), plane, (1, 2)), aliased_share(plane, stride=3)),
        "at the limit": equal_to_rounding(aliased_share(limit, axes=1), [1, 1, 0]),
    })


def _lost(x: Tensor, samples: Tensor) -> Tensor:
    """Restore signals from fewer samples by Fourier, and give the share that is missed."""
    restored = torch.tensor(scipy_signal.resample(samples.numpy(), x.shape[-1], axis=-1))
    return _share(x - restored, x, -1)


def _share(part: Tensor, whole: Tensor, axes: Any) -> Tensor:
    return part.square().sum(dim=axes) / whole.square().sum(dim=axes)


@claim(control={"reused": False}, source="Sze, Chen, Yang and Emer 2017")
def weights_are_used_at_every_place(seed: Seed, *, reused: bool = True) -> Evidence:
    """A layer multiplies as often as it has weights, times the places at which each is used."""
    twice = skip_init(nn.Conv2d, 4, 4, 3, padding=1)
    kinds = {
        "convolution": skip_init(nn.Conv2d, 4, 6, (3, 2), stride=2, padding=1, groups=2),
        "transposed": skip_init(nn.ConvTranspose2d, 4, 6, (3, 2), stride=2),
        "dense on the last axis": skip_init(nn.Linear, 10, 7),
        "locally connected": LocallyConnected2d(4, 6, (3, 2), (12, 10), rng=seed.torch()),
        "used twice": nn.Sequential(twice, nn.BatchNorm2d(4), nn.ReLU(), twice),
    }
    found, flops = [sum(multiply_adds(net, (4, 12, 10)).values()) for net in kinds.values()], []
    if not reused:
        found = [sum(p.numel() for p in net.parameters() if p.ndim > 1) for net in kinds.values()]
    for net in kinds.values():
        with FlopCounterMode(display=False) as counter:
            net(torch.zeros(1, 4, 12, 10))
        flops.append(counter.get_total_flops())
    return every({  # torch counts additions, too
        name: equal(2 * found[k], flops[k], tol=0, why=EXACT) for k, name in enumerate(kinds)
    }).drawn(
        Series("counted", [*kinds], found, style="bars"),
        Series("half of torch's", [*kinds], [one / 2 for one in flops], "predicted", "points"),
        x="layer", y="multiplications", log="y")

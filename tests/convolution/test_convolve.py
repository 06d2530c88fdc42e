import itertools
import math

import numpy as np
import pytest
import scipy.linalg
import scipy.signal
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from planting import assert_caught
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
from principia.convolution.experiments.convolve import learned_kernels
from principia.lab.course.catalog import page
from principia.lab.params import UsageError

KEY = "convolution/convolve"
MODES = ("full", "same", "valid", "circular")


def drawn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("moved - y.roll(by, axes), y", "moved - y, y", "shift_equivariant",
         ["shift_error of a filter"]),
        ("by = [-one for one in", "by = [one for one in", "shift_equivariant",
         ["shift_error of sums"]),
        ("moved - y.roll(by, axes), y", "moved - y, y", "pooling_makes_it_invariant",
         ["a filter commutes"]),
        ('by = direct if chosen == "direct" else by_spectra', "by = direct",
         "fft_cost_pays_for_long_kernels", ["FFT: growth"]),
        ("math.prod(outputs) * math.prod(m)", "math.prod(n) * math.prod(m)",
         "fft_cost_pays_for_long_kernels", ["convolution_cost"]),
        ('cost["direct"] <= cost["fft"]', 'cost["direct"] >= cost["fft"]',
         "fft_cost_pays_for_long_kernels", ["auto takes the cheaper"]),
        ("return bool(gap <= torch.finfo(dtype).eps ** 0.5 * size)", "return True",
         "linear_equivariant_is_convolution", ["is_linear of others"]),
        ("back = [1 - m for", "back = [m - 1 for", "correlation_is_flipped_convolution",
         ["by the sums"]),
        ('"correlate", f, rot180(h, dims), mode', '"correlate", f, h, mode',
         "correlation_is_flipped_convolution", ["torch's"]),
        ("[n - 1 + i[:, None] - j]", "[n - 1 - i[:, None] + j]", "toeplitz_is_convolution",
         ["entries", "transposed"]),
        ("torch.exp(-2j * math.pi * u", "torch.exp(2j * math.pi * u", "gaussians",
         ["a shift turns the phase"]),
        ("torch.fft.ifftshift(transform", "torch.fft.fftshift(transform", "gaussians",
         ["there and back"]),
        ("return values * weights", "return values * weights / 2", "integral_operators_are_linear",
         ["polynomials, by Gauss", "lines, by trapezia", "the Fourier transform",
          "a convolution"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("there(f, sizes, axes) *", "there(f, sizes, axes).conj() *", "gaussians",
         ["weight and place of a sum"]),
        ("ends).flatten(-2)", "0 * ends).flatten(-2)", "matches_reference", ["along 1 axis"]),
    ],
)
def test_parts_catch_bugs_in_the_fast_forms(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, fast=True, parts=parts)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("w = h.flip(", "w = h.roll(1, ", "commutative_and_associative"),
        ("[b - 1 - start, start + length - a]", "[b - 1 - start, start + length - a - 1]",
         "matches_reference"),
        ("pads += [b", "pads = [b", "matches_reference"),
        ('"same": ((m - 1) // 2, n)', '"same": (m // 2, n)', "matches_reference"),
        ("a + b - 1 - kept(a", "a + b - 2 - kept(a", "matches_reference"),
        ('mode="circular" if mode == "circular" else "constant"', 'mode="constant"',
         "shift_equivariant"),
        ("groups=kernels", "groups=1", "matches_reference"),
        ("return tuple(n), 1", "return tuple(m), 1", "matches_reference"),
        ("at + rows + m[0] - 1", "at + rows + m[0]", "matches_reference"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim, fast=True)


def test_two_axes_are_the_double_sum():
    f, h = drawn(4, 6), drawn(3, 2, seed=1)
    whole = np.zeros((6, 7))
    for i, j, k, l in np.ndindex(6, 7, 3, 2):  # noqa: E741
        if 0 <= i - k < 4 and 0 <= j - l < 6:
            whole[i, j] += float(f[i - k, j - l] * h[k, l])
    for method in ("auto", "direct", "fft"):
        np.testing.assert_allclose(convolve(f, h, method=method), whole, atol=1e-12)


@pytest.mark.parametrize(("n", "m"), [((5,), (9,)), ((3, 8), (4, 2)), ((1,), (1,)), ((1,), (4,))])
@pytest.mark.parametrize("mode", ["full", "same"])
def test_kernels_may_be_longer_than_signals(n, m, mode):
    f, h = drawn(*n), drawn(*m, seed=1)
    full = scipy.signal.convolve(f, h, method="direct")
    cut = tuple(slice((b - 1) // 2, (b - 1) // 2 + a) for a, b in zip(n, m, strict=True))
    for method in ("direct", "fft"):
        found = convolve(f, h, mode=mode, method=method)
        np.testing.assert_allclose(found, full if mode == "full" else full[cut], atol=1e-12)


def test_batches_broadcast_and_dims_decide_what_is_a_batch():
    f, h = drawn(5, 1, 30), drawn(4, 7, seed=1)
    y = convolve(f, h, dims=1, mode="valid")
    assert y.shape == (5, 4, 24)
    theirs = np.convolve(f[3, 0].numpy(), h[2].numpy(), "valid")
    np.testing.assert_allclose(y[3, 2], theirs, atol=1e-12)
    assert convolve(f, h).shape == (5, 4, 36)  # all axes of h, which has fewer
    assert convolve(drawn(2, 3, 8, 9), drawn(3, 1, 2), dims=1).shape == (2, 3, 8, 10)
    assert convolve(torch.zeros(0, 8), torch.ones(3)).shape == (0, 10)
    assert convolve(torch.ones(1, 8), torch.ones(0, 3), dims=1, method="direct").shape == (0, 10)


@pytest.mark.parametrize("method", ["direct", "fft"])
@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_those_of_finite_differences(method, mode):
    for n, m, dims in (((2, 9), (3, 1, 4), 1), ((1, 5, 4), (2, 3), 2), ((3, 3, 4), (2, 2, 2), 3)):
        f, h = drawn(*n).requires_grad_(), drawn(*m, seed=1).requires_grad_()
        assert torch.autograd.gradcheck(
            lambda f, h, k=dims: convolve(f, h, mode=mode, method=method, dims=k), (f, h))
    f = drawn(6, dtype=torch.complex128).requires_grad_()
    h = drawn(3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda *fh: convolve(*fh, mode=mode, method=method), (f, h))


def test_gradients_pass_through_blocks_and_pieces_twice():
    f, h = drawn(400), drawn(3, seed=1)
    for method in ("direct", "fft"):
        def loss(h, by=method):
            return convolve(f, h, method=by).square().sum()

        # the square of a linear map: its Hessian is twice the Gram matrix of the signal's shifts
        shifted = toeplitz(f, 3)
        hessian = torch.func.jacrev(torch.func.jacrev(loss))(h)
        torch.testing.assert_close(hessian, 2 * shifted.mT @ shifted)


class Largest(TorchDispatchMode):
    """Notes the largest tensor that torch makes, and the products that a convolution lays out."""

    def __init__(self):
        super().__init__()
        self.numbers = self.products = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.numbers = max(self.numbers, out.numel())
            if func.overloadpacket.__name__ == "convolution":
                self.products = max(self.products, out.numel() * args[1][0].numel())
        return out


@pytest.mark.parametrize("m", [16, 1000])
def test_a_long_signal_needs_little_memory(m):
    n = 500_000
    f, h = torch.empty(n, device="meta"), torch.empty(m, device="meta")
    for method in ("direct", "fft"):
        with Largest() as seen:
            assert convolve(f, h, method=method).shape == (n + m - 1,)
        assert seen.numbers < 2.5 * n  # spectra and blocks among them
        assert seen.products < 2**18


def test_auto_is_one_of_both_and_counts_decide():
    for n, m in (((300,), (4,)), ((300,), (150,)), ((30, 40), (3, 3)), ((30, 40), (15, 20))):
        f, h = drawn(*n), drawn(*m, seed=1)
        cost = convolution_cost(n, m)
        expected = convolve(f, h, method=min(cost, key=cost.get))
        assert torch.equal(convolve(f, h), expected)
    big = convolution_cost((427, 640), (31, 31), mode="same")
    assert big["direct"] == 427 * 640 * 31 * 31
    assert 10 < big["direct"] / big["fft"] < 100
    # a signal twice as long takes twice the work: it is cut into blocks
    short, long = (convolution_cost((n,), (100,))["fft"] for n in (2**20, 2**21))
    assert long / short == pytest.approx(2, rel=0.01)


def test_half_precision_and_integers():
    f, h = drawn(50).half(), drawn(6, seed=1).half()
    exact = np.convolve(f.double().numpy(), h.double().numpy())
    for method in ("direct", "fft"):
        y = convolve(f, h, method=method)
        assert y.dtype == torch.float16
        np.testing.assert_allclose(y, exact, rtol=2e-3, atol=2e-3)
    y = convolve(torch.tensor([True, True]), torch.tensor([1, 2, 3]))
    assert y.dtype == torch.float32
    assert y.tolist() == [1, 3, 5, 3]


def test_correlation_in_numpys_and_scipys_words():
    f, h = drawn(20), drawn(6, seed=1)
    fh = f.numpy(), h.numpy()
    for mode in ("full", "valid"):
        np.testing.assert_allclose(correlate(h, f, mode=mode), np.correlate(*fh, mode), atol=1e-12)
    F, H = drawn(9, 8, dtype=torch.complex128), drawn(3, 4, seed=1, dtype=torch.complex128)
    conjugate = np.conj(H.numpy())  # SciPy conjugates its second
    theirs = scipy.signal.correlate(F, conjugate, method="direct")
    np.testing.assert_allclose(correlate(H, F), theirs, atol=1e-12)
    assert torch.equal(rot180(torch.arange(6).view(1, 2, 3), 2)[0],
                       torch.tensor([[5, 4, 3], [2, 1, 0]]))


def test_matrices_in_scipys_words():
    h, x = drawn(7), drawn(2000, seed=1)
    np.testing.assert_array_equal(
        circulant(h, 9), scipy.linalg.circulant(np.r_[h, np.zeros(2)]))
    column, row = np.r_[h, np.zeros(1999)], np.r_[h[:1], np.zeros(1999)]
    np.testing.assert_array_equal(toeplitz(h, 2000), scipy.linalg.toeplitz(column, row))
    np.testing.assert_allclose(
        convolve(x, h), scipy.linalg.matmul_toeplitz((column, row), x), atol=1e-11)
    assert torch.autograd.gradcheck(lambda h: (toeplitz(h, 5), circulant(h, 8)), h.requires_grad_())


def test_the_fourier_transform_of_a_box_is_a_sinc():
    t = torch.arange(-4000, 4001).double() / 100
    box = ((t.abs() < 0.5).double() + (t.abs() <= 0.5).double()) / 2  # the mean at its ends
    u, transform = fourier(box, t)
    near = u.abs() < 5
    assert torch.allclose(transform[near].real, torch.sinc(u[near]), atol=2e-3)
    assert float(transform.imag.abs().max()) < 1e-10
    assert [float(u[0]), float(u[-1])] == pytest.approx([-50, 50], rel=1e-3)
    batch = torch.stack([box, box * t]).float()
    spectrum = fourier(batch, t.float())[1]
    assert spectrum.dtype == torch.complex64
    back = inverse_fourier(spectrum, t.float())
    assert torch.allclose(back.real, batch, atol=1e-4)


def test_an_integral_in_scipys_words():
    t = torch.tensor([0.0, 0.5, 0.7, 2.0], dtype=torch.float64)
    f = drawn(4)
    whole = integral_operator(lambda u, t: torch.ones_like(u * t), t, u=t[:1]) @ f
    assert float(whole) == pytest.approx(float(np.trapezoid(f, t)))


def test_questions_to_maps_draw_from_their_generator_alone():
    before = torch.get_rng_state()
    rng = torch.Generator().manual_seed(3)
    assert is_linear(lambda f: f.cumsum(-1), 7, rng=rng, dtype=torch.float32)
    assert not is_linear(lambda f: f.cumsum(-1).relu(), 7, rng=rng)
    assert torch.equal(torch.get_rng_state(), before)
    state = torch.Generator().manual_seed(3)
    assert not torch.equal(rng.get_state(), state.get_state())
    layer = nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular", bias=False).double()
    answer = impulse_response(lambda f: layer(f[None, None])[0, 0], 8)
    weights = layer.weight[0, 0].detach()
    assert answer[[7, 0, 1]].tolist() == weights.flip(0).tolist()
    x = drawn(2, 1, 8)
    assert shift_error(layer, x, 3) < 1e-15
    assert shift_error(torch.zeros_like, x, 3) == 0


def test_learned_kernels_are_those_of_a_layer_turned_round():
    photo = drawn(2, 20, 17)
    layer = nn.Conv2d(1, 3, 4, bias=False).double()
    with torch.no_grad():
        filtered = layer(photo[:, None])
    learned = learned_kernels(photo, filtered, 4)
    torch.testing.assert_close(learned, rot180(layer.weight[:, 0].detach(), 2))


@pytest.mark.parametrize("kernel", ["streak", "blur", "edge", "sharpen", "echo", "largest value"])
def test_the_hero_breaks_only_where_the_map_is_not_linear(kernel):
    hero = page(KEY).hero()
    for knobs in ({"width": 0, "angle": 165}, {"width": 12, "photograph": "flower"}):
        title = hero.picture(**{"kernel": kernel, **knobs}).plots[-1].title
        trivial = kernel == "largest value" and knobs["width"] == 0  # of a single pixel
        broken = kernel == "largest value" and not trivial
        assert title.startswith("no product") == broken, title


def test_bad_input_is_refused_in_a_sentence():
    f, h = torch.ones(2, 5), torch.ones(3, 8)
    sentence = (
        r"convolve: the kernel must be at most as long as the signal, \(5,\), where the mode is "
        r"{}; got \(8,\)\. Take mode='full', or exchange the two\.")
    for mode in ("valid", "circular"):
        with pytest.raises(UsageError, match=sentence.format(mode)):
            convolve(f[0], h[0], mode=mode)
    with pytest.raises(UsageError, match=r"^correlate: the kernel must be at most as long"):
        correlate(h[0], f[0], mode="valid")
    with pytest.raises(UsageError, match=(
        r"^convolve: h must be of leading axes that broadcast with \(2,\), those of f; got "
        r"'shape \(3, 8\)'\. Insert axes of length 1 with h\[:, None\], or say dims=\.$"
    )):
        convolve(f, h, dims=1)
    with pytest.raises(UsageError, match=(
        r"^convolve: f must be a tensor with the 3 axes to convolve along; got 'shape \(2, 5\)'\.$"
    )):
        convolve(f, torch.ones(2, 2, 2), dims=3)
    with pytest.raises(UsageError, match=(
        r"^convolve: f must be a tensor of 1 to 3 axes, unless dims says along how many to "
        r"convolve; got 'shape \(1, 1, 1, 1\)'\.$"
    )):
        convolve(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1))
    with pytest.raises(UsageError, match=r"convolve: f must be a tensor of 1 to 3 axes"):
        convolve(torch.tensor(1.0), f)
    with pytest.raises(UsageError, match=(
        r"^convolve: h must be one entry or more along each convolved axis; got 'shape \(0,\)'\.$"
    )):
        convolve(f, torch.ones(0))
    with pytest.raises(UsageError, match=r"mode must be one of 'full', 'same', "):
        convolve(f, h, mode="wrap")
    with pytest.raises(UsageError, match=r"_cost: m must be a length for each of 2 axes"):
        convolution_cost((4, 4), (2,))
    with pytest.raises(UsageError, match=r"circulant: the kernel must be at most as long"):
        circulant(torch.ones(5), 4)
    t = torch.tensor([0.0, 1.0, 3.0])
    for owner, call in (("fourier", lambda: fourier(t, t)),
                        ("inverse_fourier", lambda: inverse_fourier(t, -t))):
        with pytest.raises(UsageError, match=(
            rf"^{owner}: t must be increasing places at equal distances; got tensor\(.*\)\. Take "
            r"torch\.linspace\.$"
        )):
            call()
    with pytest.raises(UsageError, match=r"integral_operator: t must be increasing places, two or"):
        integral_operator(torch.mul, -t)
    with pytest.raises(UsageError, match=(
        r"^shift_error: T must be a map to signals of the same length, \(3,\); got "
        r"'shape \(2,\)'\. Convolve with mode='circular'\.$"
    )):
        shift_error(torch.diff, t, 1)


def test_all_methods_agree_on_what_a_student_would_try():
    for n, m in itertools.product((1, 2, 3, 10), (1, 2, 3)):
        f, h = drawn(n), drawn(m, seed=1)
        for mode in MODES:
            if mode in ("valid", "circular") and m > n:
                continue
            direct, fft = (convolve(f, h, mode=mode, method=one) for one in ("direct", "fft"))
            assert direct.shape == fft.shape
            assert float((direct - fft).abs().max()) < 1e-13 * math.sqrt(m)

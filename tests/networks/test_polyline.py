import itertools

import numpy as np
import pytest
import torch
from scipy.interpolate import make_lsq_spline
from torch import nn

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.networks import Polyline, PolylineNetwork, best_knots, fit_values, interpolate

KEY = "networks/polyline"


def random_polyline(pieces, seed=0):
    rng = torch.Generator().manual_seed(seed)
    knots, values = torch.rand(2, pieces + 1, generator=rng, dtype=torch.float64)
    return Polyline((0.1 + knots).cumsum(0), values)


def signal(n, seed=0):
    rng = torch.Generator().manual_seed(seed)
    x = torch.rand(n, generator=rng, dtype=torch.float64).add(0.1).cumsum(0)
    return x, torch.randn(n, generator=rng, dtype=torch.float64).cumsum(0)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("self.values[0] - a * self.knots[0]", "self.values[0]", "lebesgue_form"),
        ("c @ self.knots[1:-1] / 2", "c @ self.knots[1:-1]", "avu_form"),
        ("return a + c.sum() / 2", "return a", "avu_form"),
        ("f(_increasing(", "0.99 * f(_increasing(", "polylines_dense"),
        ('"biases": -self', '"biases": self', "one_layer_universal"),
        ("if kind == \"relu\" else self.to_avu()\n        unused",
         "if kind == \"avu\" else self.to_avu()\n        unused", "one_layer_universal"),
        ("self.a * x + self.b", "self.b", "one_layer_universal"),
        ("right=True)", "right=True).clamp(max=len(self.knots) - 3)", "parameter_count"),
        ("- y0 * sx + count", "+ count", "best_knots"),
        ("best[:, None] + cost).min", "cost).min", "best_knots"),
        ("x, y = x - x.mean(), y - y.mean()", "x, y = x, y", "best_knots"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("self.slopes[piece] * (x - self.knots[piece])", "self.slopes[piece] * x", "lebesgue_form",
         ["Polyline"]),
        ("torch.linalg.lstsq(hats, y", "torch.linalg.lstsq(hats, y.abs()", "parameter_count",
         ["values found again"]),
        ("diff() /", "diff() *", "avu_form", ["Polyline"]),
        ("self.phi(self.w * x + self.biases)", "self.phi(self.w + x + self.biases)",
         "one_layer_universal", ["as drawn, formula"]),
        ("uniform_(-bound, bound,", "uniform_(-bound, 1.2 * bound,", "one_layer_universal",
         ["as drawn, w and biases", "as drawn, c", "as drawn, a, b and a single c"]),
        ("lstsq(hats, y[:, None]", "lstsq(hats, y[:, None].sort(dim=0)[0]", "parameter_count",
         ["nearest to noise"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("pieces", [1, 2, 7, 60])
def test_networks_and_forms_are_the_polyline_everywhere(pieces):
    polyline = random_polyline(pieces)
    x = torch.linspace(-20, 60, 1001, dtype=torch.float64)
    inside = (x > polyline.knots[0]) & (x < polyline.knots[-1])
    interp = np.interp(x[inside], polyline.knots, polyline.values)
    np.testing.assert_allclose(polyline(x)[inside], interp, atol=1e-12)
    ends = torch.tensor([-1e3, -1e2, 1e2, 1e3], dtype=torch.float64)
    steep = polyline(ends).diff()[::2] / ends.diff()[::2]
    torch.testing.assert_close(steep, polyline.slopes[[0, -1]])
    for kind in ("relu", "avu"):
        network = polyline.module(kind)
        assert len(network.c) == pieces - 1
        torch.testing.assert_close(network(x[:, None])[:, 0], polyline(x), atol=1e-9, rtol=0)


def test_a_network_has_as_many_kinks_as_units():
    network = random_polyline(6).module("relu")
    x = torch.linspace(0, 7, 5001, dtype=torch.float64)
    second = network(x[:, None])[:, 0].diff().diff().abs() > 1e-9
    starts = second & ~torch.cat([torch.tensor([False]), second[:-1]])  # a kink may show twice
    assert int(starts.sum()) == 5


def test_a_shallow_relu_network_is_a_polyline():
    rng = torch.Generator().manual_seed(3)
    network = PolylineNetwork(9, rng=rng).double()
    w, b = network.w.detach(), network.biases.detach()
    kinks = (-b / w).sort().values
    knots = torch.cat([kinks[:1] - 1, kinks, kinks[-1:] + 1])
    polyline = interpolate(lambda x: network(x[:, None])[:, 0].detach(), knots)
    x = torch.linspace(-50, 50, 999, dtype=torch.float64)
    torch.testing.assert_close(polyline(x), network(x[:, None])[:, 0].detach(), atol=1e-8, rtol=0)


def test_gradients_reach_values_and_places():
    polyline = random_polyline(5)
    x = torch.linspace(0.3, 2.0, 11, dtype=torch.float64, requires_grad=True)
    values = polyline.values.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, v: Polyline(polyline.knots, v)(x), (x, values))


def test_least_squares_values_are_scipys_spline():
    x, y = signal(200)
    knots = torch.linspace(float(x[0]), float(x[-1]), 12, dtype=torch.float64)
    theirs = make_lsq_spline(x, y, np.r_[knots[0], knots, knots[-1]], k=1)
    np.testing.assert_allclose(fit_values(x, y, knots).values, theirs.c, atol=1e-8)


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_best_knots_are_those_of_a_search_through_all(pieces):
    for seed in range(10):
        x, y = signal(9, seed)

        def error(knots, x=x, y=y):
            return float((interpolate(Polyline(x, y), knots)(x) - y).square().sum())

        inner = itertools.combinations(range(1, 8), pieces - 1)
        least = min(error(x[[0, *one, 8]]) for one in inner)
        assert error(best_knots(x, y, pieces)) == pytest.approx(least, abs=1e-12)


def test_best_knots_find_the_kinks_of_a_polyline_and_take_the_longest_signal():
    x = torch.linspace(0, 1, 800, dtype=torch.float64)
    kinks = x[[0, 120, 121, 600, 799]]
    y = Polyline(kinks, torch.tensor([0.0, 1.0, -1.0, 0.5, 0.0], dtype=torch.float64))(x)
    assert torch.equal(best_knots(x, 1e6 + y, 4), kinks)
    assert torch.equal(best_knots(x[:5], y[:5], 4), x[:5])


def test_single_precision_stays_single():
    polyline = Polyline(torch.tensor([0.0, 1.0, 3.0]), torch.tensor([1.0, 0.0, 2.0]))
    assert polyline(torch.tensor(2.0)).dtype == polyline.module().c.dtype
    assert polyline(torch.tensor(2.0)).item() == 1
    assert isinstance(polyline.module("avu"), nn.Module)
    assert repr(polyline) == "Polyline(2 pieces from 0 to 3)"


def test_networks_do_not_touch_the_global_generator():
    before = torch.get_rng_state()
    random_polyline(4).module("relu")
    PolylineNetwork(3, rng=torch.Generator().manual_seed(0))
    assert torch.equal(before, torch.get_rng_state())


def test_quick_experiment_reaches_the_figure_that_was_measured_before():
    outcome = page(KEY).experiments()["scanline"](pieces=40)
    assert outcome.reached, outcome.missed
    assert outcome.metrics["best_rmse"] == pytest.approx(0.0657, abs=1e-4)
    assert outcome.metrics["equal_rmse"] == pytest.approx(0.1253, abs=1e-4)
    assert outcome.metrics["refitted_rmse"] < outcome.metrics["best_rmse"]


def test_bad_input_is_told_in_one_sentence():
    one, two = torch.tensor([0.0]), torch.tensor([0.0, 1.0])
    order = "knots must be two or more finite numbers, each larger than the one before; got "
    for bad in (one, two.flip(0), torch.zeros(2), two / 0):
        with pytest.raises(UsageError, match=f"^Polyline: {order}"):
            Polyline(bad, bad)
        with pytest.raises(UsageError, match=f"^interpolate: {order}"):
            interpolate(torch.sin, bad)
        with pytest.raises(UsageError, match=f"^fit_values: {order}"):
            fit_values(two, two, bad)
        with pytest.raises(UsageError, match=r"^best_knots: x must be two or more finite numbers"):
            best_knots(bad, bad, 1)
    with pytest.raises(UsageError, match=r"each larger .* torch.unique\(knots\) sorts them\.$"):
        Polyline(two.flip(0), two)
    with pytest.raises(UsageError, match="values must be 2 finite numbers, one a knot; got "):
        Polyline(two, one)
    with pytest.raises(UsageError, match="x and y must be finite, of one length; got "):
        fit_values(two, two / 0, two)
    with pytest.raises(UsageError, match="y must be 2 finite numbers, one a place; got "):
        best_knots(two, two / 0, 1)
    with pytest.raises(UsageError, match=r"m must be in \[1, 1\] for 2 samples; got 2\. Every"):
        best_knots(two, two, 2)
    with pytest.raises(UsageError, match=r"m must be an integer in \[1, inf\); got 0"):
        best_knots(two, two, 0)
    with pytest.raises(UsageError, match=r"of at most 2000 samples; got 2001\. Keep every k-th"):
        best_knots(torch.arange(2001.0), torch.arange(2001.0), 3)
    with pytest.raises(UsageError, match="kind must be one of 'relu', 'avu'; got 'tanh'"):
        Polyline(two, two).module("tanh")
    with pytest.raises(UsageError, match="PolylineNetwork: units must be an integer in"):
        PolylineNetwork(-1)

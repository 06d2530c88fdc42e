import numpy as np
import pytest
import torch
from numpy.polynomial import chebyshev
from scipy.interpolate import BPoly
from scipy.optimize import minimize
from scipy.stats import qmc
from torch import nn

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.networks.universality import (
    SHAPES,
    RidgeSpan,
    bernstein,
    chebyshev_fit,
    distance_to_span,
    lift,
    minimax_fit,
    sup_distance,
)

KEY = "networks/universality"
LINE = torch.linspace(-1, 1, 401, dtype=torch.float64)


def powers(degree):
    return LINE[:, None] ** torch.arange(degree + 1)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("values = f(k / degree)", "values = f(1 - k / degree)", "weierstrass"),
        (".reshape(-1) - g(x)", ".reshape(-1) + g(x)", "weierstrass"),
        ("[-basis, -height]", "[basis, -height]", "best_polynomial_rate"),
        (") + 0.5) / (degree + 1)", ")) / (degree + 1)", "best_polynomial_rate"),
        ("scale * directions)", "directions.sign())", "ridge_functions_dense"),
        ("along = x @ directions.mT", "along = x @ directions.mT * 1.01", "lifting"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("torch.xlogy(degree - k, 1 - t)", "torch.xlogy(degree - k, t)", "weierstrass",
         ["x³ becomes a binomial moment"]),
        ("weights[0] /= 2", "weights[0] /= 1", "best_polynomial_rate", ["and nearly as good"]),
        ("x @ self.directions.mT - bias", "x @ self.directions.mT", "nonpolynomial_is_universal",
         ["falls with the width"]),
        ("rcond=RCOND\n", "rcond=0.1\n", "ridge_functions_dense", ["falls with the width"]),
        ("residual = f - (", "residual = f + (", "boundedness_not_needed",
         ["error of ReLU and softplus"]),
        (".square().mean().sqrt()), float(residual", ".square().sum().sqrt()), float(residual",
         "polynomial_activation_fails",
         ["L = 1, and its mean below", "L = 2, and its mean below"]),
        (".reshape(along.shape) @ coeffs", ".reshape(along.shape) @ coeffs.abs()", "lifting",
         ["lift of exp itself"]),
        ("len(K), points", "points, len(K)", "best_polynomial_rate",
         ["interpolation is no better"]),
        ("kept = d >", "kept = d <=", "polynomial_activation_fails",
         ["L = 1, least squares is above", "L = 2, least squares is above"]),
        ('"cube": lambda z: z**3', '"cube": lambda z: z**2', "ridge_functions_dense",
         ["ridges, other shapes"]),
        ("x.acos()[..., None]).cos()", "x.acos()[..., None]).sin()", "best_polynomial_rate",
         ["Chebyshev's polynomials", "interpolation by NumPy"]),
        ("- target).max())", "- target).mean())", "best_polynomial_rate",
         ["x³ by a parabola", "without functions, and with them twice"]),
        ("x @ self.directions.mT - bias", "x @ self.directions.mT + bias", "ridge_functions_dense",
         ["ridges, formula", "ridges, 64 rectifiers by default"]),
        ("torch.randn(width", "torch.rand(width", "ridge_functions_dense",
         ["ridges, directions", "ridges, and by default"]),
        ("argsort(dim=0)", "argsort(dim=1)", "ridge_functions_dense", ["ridges, centers"]),
        ("torch.zeros(width, n_out", "torch.ones(width, n_out", "ridge_functions_dense",
         ["ridges, taken over"]),
        ("max(coarse, fine)", "coarse + fine", "lifting", ["sup on a box, distances"]),
        ("if n < 3", "if n < 4", "lifting", ["sup on a box, points"]),
        ("(high - low) * unit", "high * unit", "lifting",
         ["sup on a box, outside of it", "sup on a box, from end to end"]),
        ("line = torch.linspace(-1, 1", "line = torch.linspace(-1, 0", "boundedness_not_needed",
         ["neither is bounded"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_bernstein_polynomials_are_scipys():
    x = np.linspace(0, 1, 101)
    theirs = BPoly(np.exp(np.arange(13) / 12)[:, None], [0, 1])(x)
    np.testing.assert_allclose(bernstein(torch.exp, 12)(torch.tensor(x)), theirs, rtol=1e-12)
    at_ends = bernstein(torch.exp, 5000)(torch.tensor([0.0, 1.0], dtype=torch.float64))
    torch.testing.assert_close(at_ends, torch.tensor([1.0, np.e], dtype=torch.float64))


def test_chebyshev_fit_is_numpys_interpolation():
    theirs = chebyshev.chebval(LINE.numpy(), chebyshev.chebinterpolate(np.tanh, 14))
    np.testing.assert_allclose(chebyshev_fit(torch.tanh, 14)(LINE), theirs, atol=1e-13)


def test_minimax_fit_is_what_a_direct_search_finds_and_alternates():
    f, features = LINE.exp(), powers(2)
    weights, distance = minimax_fit(f, features)
    residual = (features @ weights - f).numpy()
    assert distance == pytest.approx(np.abs(residual).max(), rel=1e-9)
    found = minimize(
        lambda w: np.abs(features.numpy() @ w - f.numpy()).max(), weights.numpy() + 0.05,
        method="Nelder-Mead", options={"maxiter": 20_000, "xatol": 1e-9, "fatol": 1e-12},
    )
    assert distance <= found.fun + 1e-9
    assert found.fun == pytest.approx(distance, rel=1e-2)  # it stalls on the edges of the max
    extremes = residual[np.abs(residual) > distance * (1 - 1e-4)]
    signs = np.sign(extremes)
    assert (np.diff(signs) != 0).sum() + 1 == 4  # Chebyshev: degree + 2 alternations


def test_minimax_weights_are_right_for_dependent_columns():
    features = torch.cat([powers(2), powers(2)], dim=1)
    weights, distance = minimax_fit(LINE.abs(), features)
    assert distance == pytest.approx(0.125, abs=1e-4)
    assert float((features @ weights - LINE.abs()).abs().max()) == pytest.approx(distance)


def test_least_squares_bounds_are_numpys_residual_and_bracket_the_distance():
    for f in (LINE.abs(), LINE.exp(), torch.sin(9 * LINE)):
        below, above = distance_to_span(f, powers(4))
        weights, *_ = np.linalg.lstsq(powers(4).numpy(), f.numpy(), rcond=None)
        residual = powers(4).numpy() @ weights - f.numpy()
        assert below == pytest.approx(np.sqrt((residual**2).mean()), rel=1e-9)
        assert above == pytest.approx(np.abs(residual).max(), rel=1e-9)
        assert below <= minimax_fit(f, powers(4))[1] <= above + 1e-9
    single = distance_to_span(LINE.abs().float(), powers(4).float())
    assert single == pytest.approx(distance_to_span(LINE.abs(), powers(4)), rel=1e-3)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_sup_distance_is_that_of_a_known_pair(n):
    def cone(x):
        return x.abs().sum(dim=1)

    found = sup_distance(cone, lambda x: 0 * cone(x), [(-1, 2)] * n, points=4000)
    assert found == pytest.approx(2 * n, rel=0.0 if n < 3 else 0.2)
    assert found <= 2 * n


def test_a_grid_that_is_too_coarse_gives_a_warning():
    with pytest.warns(UserWarning, match=r"sup_distance: 9 points are too few .* Raise points\."):
        sup_distance(lambda x: torch.exp(-1e3 * (x - 0.11) ** 2), torch.zeros_like, [(-1, 1)],
                     points=9)


def test_ridge_span_is_a_network_with_one_hidden_layer():
    span = RidgeSpan(3, phi="tanh", width=20, scale=2.0, n_out=2, rng=rng())
    x = torch.rand(50, 3, generator=rng(1), dtype=torch.float64)
    y = torch.stack([x.sum(dim=1).sin(), x.prod(dim=1)], dim=1)
    span.fit(x, y)
    hidden, out = nn.Linear(3, 20).double(), nn.Linear(20, 2, bias=False).double()
    hidden.load_state_dict({
        "weight": span.directions, "bias": -(span.directions * span.centers).sum(dim=1),
    })
    out.load_state_dict({"weight": span.weights.mT})
    torch.testing.assert_close(nn.Sequential(hidden, nn.Tanh(), out)(x), span(x))
    weights, *_ = np.linalg.lstsq(span.features(x).numpy(), y.numpy(), rcond=1e-12)
    np.testing.assert_allclose(span(x), span.features(x).numpy() @ weights, atol=1e-9)
    assert torch.allclose(span.float()(x.float()).double(), span.double()(x), atol=1e-3)


def test_centers_are_a_latin_hypercube_in_a_new_order_each_time():
    first, other = (RidgeSpan(2, width=64, rng=rng(seed)).centers for seed in (0, 1))
    cells = ((first + 1) / 2 * 64).floor().sort(dim=0).values
    assert (cells == torch.arange(64)[:, None]).all()
    assert not torch.equal(first, other)
    random = torch.rand(64, 2, generator=rng(), dtype=torch.float64)
    assert qmc.discrepancy((first + 1) / 2) < qmc.discrepancy(random)


def test_same_generator_same_span_and_no_other_is_touched():
    before = torch.get_rng_state()
    one, two = (RidgeSpan(2, rng=rng(7)) for _ in range(2))
    assert torch.equal(one.directions, two.directions)
    assert torch.equal(one.centers, two.centers)
    assert torch.equal(torch.get_rng_state(), before)


def test_lifted_fit_is_the_sum_over_directions():
    W, c = (torch.randn(4, *k, generator=rng(2), dtype=torch.float64) for k in ((3,), ()))
    x = torch.randn(30, 3, generator=rng(3), dtype=torch.float64)
    expected = sum(c[j] * torch.sin(x @ W[j]) for j in range(4))
    torch.testing.assert_close(lift(torch.sin, W, c)(x), expected)
    flat = lift(lambda t: torch.sin(t)[:, 0], W, c)  # a fit may return (N,) as well
    torch.testing.assert_close(flat(x), expected)


def test_quick_experiment_beats_its_floor_and_keeps_its_model():
    run = Run()
    outcome = page(KEY).experiments()["fit_image"](run)
    assert outcome.reached, outcome.missed
    assert set(outcome.figures) == {"reconstructions", "errors"}
    assert isinstance(run.model, RidgeSpan)
    assert outcome.metrics["square_rmse"] > 4 * outcome.metrics["relu_rmse"]


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(UsageError, match=r"RidgeSpan: width must be an integer in \[1, inf\); got"):
        RidgeSpan(1, width=0)
    with pytest.raises(UsageError, match=r"phi must be one of 'identity', .*; got 'relo'. Did"):
        RidgeSpan(1, phi="relo")
    span = RidgeSpan(2, rng=rng())
    with pytest.raises(UsageError, match=r"x must be of shape \(N, 2\); got \(5, 3\)\. Each point"):
        span(torch.zeros(5, 3, dtype=torch.float64))
    with pytest.raises(UsageError, match=r"y must be of shape \(5, 1\); got \(5, 2\)"):
        span.fit(torch.zeros(5, 2).double(), torch.zeros(5, 2).double())
    for K in ([], [(1, -1)], [(0, float("inf"))]):
        with pytest.raises(UsageError, match="K must be one or more intervals"):
            sup_distance(torch.abs, torch.square, K)
    for solve in (distance_to_span, minimax_fit):
        with pytest.raises(UsageError, match=r"f and features must be finite, with one number"):
            solve(LINE / 0, powers(2))
    with pytest.raises(UsageError, match=r"bernstein: degree must be an integer in \[1, inf\)"):
        bernstein(torch.exp, 0)
    assert {"tanh", "relu", "softplus", "sigmoid", "gaussian", "square", "cube"} <= set(SHAPES)

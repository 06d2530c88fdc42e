import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import jensenshannon

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.mathematics.inequalities import (
    bernstein_bound,
    cantelli_bound,
    cauchy_schwarz_gap,
    chebyshev_bound,
    chernoff_bound,
    hoeffding_bound,
    jensen_gap,
    markov_bound,
)

KEY = "mathematics/inequalities"
EPS = torch.linspace(0.1, 4, 9, dtype=torch.float64)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=rng(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("return mean / _numbers(", "return 0.99 * mean / _numbers(", "markov"),
        ("return mean / _numbers(", "return 1.01 * mean / _numbers(", "markov_tight"),
        ('"eps", eps, POSITIVE) ** 2\n\n\ndef cantelli', '"eps", eps, POSITIVE)\n\n\ndef cantelli',
         "chebyshev"),
        ("return variance / (variance + ", "return variance / (2 * variance + ", "cantelli"),
        ("log_mgf(t) - t * thresholds", "log_mgf(t) - 1.1 * t * thresholds", "bounded_means"),
        ("return (-2 * count *", "return (-2.5 * count *", "bounded_means"),
        ("return (-2 * count *", "return (-1 * count *", "bounded_means"),
        ("(deviation / width) ** 2", "deviation ** 2 / width", "bounded_means"),
        ("most * deviation / 3", "most * deviation / 2", "bounded_means"),
        ("(y * y).sum(dim=-1) - (x * y)", "(y * y).mean(dim=-1) - (x * y)", "cauchy_schwarz"),
        ("* x).sum(dim=axes - 1)", "* x).mean(dim=axes - 1)", "jensen"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("GRID, ZOOMS = 65, 6", "GRID, ZOOMS = 65, 2", "bounded_means",
         ["Chernoff <= Hoeffding", "Chernoff's exponent is a divergence",
          "exponents of a coin over Hoeffding's, of a Poisson law over Bernstein's",
          "normal laws of all sizes, an exponential one"]),
        ("numbers if numbers.is_floating_point() else numbers.double()", "numbers.half()",
         "cantelli", ["whole numbers, and a constant", "bytes of a number"]),
        ("most * deviation / 3", "most * deviation / 4", "bounded_means",
         ["Chernoff <= Bernstein"]),
        ("- (x * y).sum(dim=-1) ** 2\n", "- (x * y).sum(dim=-1).abs()\n",
         "cauchy_schwarz_equality", ["squared sine"]),
        ("return (weights * values).sum(dim=-1) -", "return values.mean(dim=-1) -", "jensen",
         ["sums", "sums of vectors", "jensen_gap"]),
        ("* x).sum(dim=axes - 1)", "* x).sum(dim=axes - 1) + 0.001", "jensen_gap",
         ["mean of a lognormal law"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_chernoff_is_what_scipy_minimizes_also_where_the_generating_function_ends():
    log_mgf = lambda t: -2.5 * torch.log1p(-0.7 * t)  # noqa: E731  a gamma law, up to t = 1 / 0.7
    eps = torch.linspace(1.8, 30, 12, dtype=torch.float64)
    for bound, at in zip(chernoff_bound(log_mgf, eps), eps.tolist(), strict=True):
        best = minimize_scalar(lambda t, at=at: -2.5 * math.log1p(-0.7 * t) - t * at,
                               bounds=(0, 1 / 0.7), method="bounded", options={"xatol": 1e-10})
        assert float(bound) == pytest.approx(math.exp(best.fun), rel=1e-9)
        assert float(bound) >= stats.gamma(2.5, scale=0.7).sf(at)
    assert chernoff_bound(log_mgf, eps - 1.8).tolist()[:1] == [1]  # below the mean, 1.75


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_chernoff_of_normal_and_poisson_laws_has_closed_forms(scale):
    found = chernoff_bound(lambda t: (scale * t) ** 2 / 2, scale * EPS)
    torch.testing.assert_close(found, (-(EPS**2) / 2).exp())
    counts = torch.tensor([[3.0, 4.0], [8.0, 20.0]], dtype=torch.float64)
    exact = (counts - 3 - counts * (counts / 3).log()).exp()
    torch.testing.assert_close(chernoff_bound(lambda t: 3 * t.expm1(), counts), exact)
    assert float(chernoff_bound(lambda t: 3 * t.expm1(), 8)) == pytest.approx(float(exact[1, 0]))
    beyond_a_bit = chernoff_bound(lambda t: torch.log1p(0.5 * t.expm1()), 1.5)
    assert float(beyond_a_bit) < 1e-100


def test_chernoff_can_be_differentiated_by_the_threshold():
    eps = EPS.clone().requires_grad_()
    (slope,) = torch.autograd.grad(chernoff_bound(lambda t: t**2 / 2, eps).sum(), eps)
    torch.testing.assert_close(slope, -EPS * (-(EPS**2) / 2).exp(), rtol=1e-5, atol=0)


def test_bounds_hold_for_means_of_beta_variables_and_order_as_they_should():
    n, law = 40, stats.beta(1, 9)
    draws = law.rvs((100_000, n), random_state=np.random.default_rng(0)).mean(axis=1) - law.mean()
    for eps in (0.02, 0.04, 0.06):
        share = (draws >= eps).mean()
        bounds = [hoeffding_bound(n, eps), bernstein_bound(n, eps, law.var(), 0.9),
                  cantelli_bound(law.var() / n, eps), chebyshev_bound(law.var() / n, eps)]
        noise = 5 * (share * (1 - share) / len(draws)) ** 0.5
        assert all(share - noise <= float(bound) for bound in bounds)
        assert bounds[1] < bounds[0]  # a small variance is worth more than a small range
        assert bounds[2] < bounds[3]
    assert hoeffding_bound(n, 0.1, range=3.0) == pytest.approx(math.exp(-2 * n * 0.01 / 9))


def test_bounds_broadcast_keep_their_precision_and_their_gradients():
    variances = torch.tensor([[0.5], [2.0]])
    assert chebyshev_bound(variances, EPS.float()).shape == (2, 9)
    assert chebyshev_bound(variances, EPS.float()).dtype == torch.float32
    assert markov_bound(1, torch.tensor([1, 2])).tolist() == [1, 0.5]
    assert cantelli_bound(0.0, 1.0) == 0
    for bound in (markov_bound, chebyshev_bound, cantelli_bound,
                  lambda var, eps: bernstein_bound(5, eps, var)):
        given = (variances.double().requires_grad_(), EPS.clone().requires_grad_())
        assert torch.autograd.gradcheck(bound, given)


def test_cauchy_schwarz_gap_is_lagranges_sum_of_squared_determinants():
    x, y = normal(3, 4, 6), normal(3, 4, 6, seed=1)
    minors = x[..., :, None] * y[..., None, :] - x[..., None, :] * y[..., :, None]
    torch.testing.assert_close(cauchy_schwarz_gap(x, y), (minors**2).sum(dim=(-1, -2)) / 2)
    a, b = normal(5, 3), normal(5, 3, seed=1)
    area = torch.linalg.cross(a, b).square().sum(dim=-1)
    torch.testing.assert_close(cauchy_schwarz_gap(a, b), area)


def test_jensen_gap_of_entropy_is_the_jensen_shannon_divergence_of_scipy():
    p = torch.softmax(normal(7, 2, 5), dim=-1)
    half = torch.full((7, 2), 0.5, dtype=torch.float64)
    gap = jensen_gap(lambda q: torch.xlogy(q, q).sum(), p, half)
    np.testing.assert_allclose(gap, jensenshannon(p[:, 0], p[:, 1], axis=1) ** 2, rtol=1e-9)


def test_jensen_gap_is_the_variance_of_squares_and_the_ratio_of_two_means():
    weights, x = torch.softmax(normal(4, 3, 6), dim=-1), normal(4, 3, 6, seed=1)
    variance = np.array([[np.cov(a, aweights=w, ddof=0) for a, w in zip(one, two, strict=True)]
                         for one, two in zip(x.numpy(), weights.numpy(), strict=True)])
    np.testing.assert_allclose(jensen_gap(torch.square, x, weights), variance)
    even = torch.full((4, 3, 6), 1 / 6, dtype=torch.float64)
    y = x.exp()
    ratio = y.numpy().mean(axis=-1) / stats.gmean(y.numpy(), axis=-1)  # of arithmetic to geometric
    np.testing.assert_allclose(jensen_gap(lambda y: -y.log(), y, even), np.log(ratio), atol=1e-12)
    assert jensen_gap(torch.exp, x[0, 0].float(), weights[0, 0].float()).dtype == torch.float32


def test_tails_of_a_sample_are_counted_at_every_jump():
    module = page(KEY).load("experiments")
    column = normal(50).round(decimals=1)  # with ties
    z = ((column - column.mean()) / column.std(correction=0)).numpy()
    found = module._tails(column)
    for bound, values in (("Chebyshev", np.abs(z)), ("Cantelli", z)):
        eps, tail, _ = (one.numpy() for one in found[bound])
        np.testing.assert_array_equal(eps, np.unique(values[values > 0]))
        np.testing.assert_allclose(tail, [(values >= at).mean() for at in eps])


def test_quick_experiment_finds_no_violation_but_of_the_normal_law():
    outcome = page(KEY).experiments()["tail_bounds"](feature=0)
    assert outcome.reached, outcome.missed
    assert set(outcome.figures) == {"cells", "ink"}
    assert "mean radius" in outcome.figures["cells"].layout.xaxis.title.text
    assert all(value > 0 for name, value in outcome.metrics.items() if "looseness" in name)


def test_bad_input_is_told_in_one_sentence():
    half = torch.tensor([0.5, 0.5])
    for call, sentence in (
        (lambda: markov_bound(1.0, 0.0),
         r"markov_bound: phi_eps must be in \(0, inf\); got 0\.0\. Raise eps, or take a phi"),
        (lambda: markov_bound(1.0, torch.tensor([1.0, -1.0])), r"got tensor\(\[ 1\., -1\.\]\)"),
        (lambda: markov_bound(-1.0, 1.0), r"mean_phi must be in \[0, inf\); got -1\.0"),
        (lambda: chebyshev_bound(-0.1, 1.0),
         r"^chebyshev_bound: var must be in \[0, inf\); got -0\.1\.$"),
        (lambda: chebyshev_bound(1.0, 0), r"chebyshev_bound: eps must be in \(0, inf\); got 0\.$"),
        (lambda: cantelli_bound(math.nan, 1.0), r"cantelli_bound: var must be .* got nan"),
        (lambda: cantelli_bound(1.0, -1.0), r"cantelli_bound: eps must be .* got -1\.0"),
        (lambda: chernoff_bound(torch.square, math.inf), r"eps must be a finite number; got inf"),
        (lambda: hoeffding_bound(0, 0.1), r"hoeffding_bound: n must be in \(0, inf\); got 0"),
        (lambda: hoeffding_bound(5, 0.1, 0.0), r"hoeffding_bound: range must be .* got 0\.0"),
        (lambda: bernstein_bound(5, 0.1, -1.0), r"bernstein_bound: var must be in \[0, inf\)"),
        (lambda: bernstein_bound(5, 0.1, 1.0, 0.0), r"bernstein_bound: bound must be in \(0, inf"),
        (lambda: jensen_gap(torch.exp, half, 2 * half),
         r"weights must be >= 0 with sum 1 along the last axis; got 'sums from 2 to 2, smallest"),
        (lambda: jensen_gap(torch.exp, half, torch.tensor([1.5, -0.5])), r"smallest entry -0\.5'"),
        (lambda: jensen_gap(torch.exp, torch.zeros(3, 2), half),
         r"shape of the weights, \(2,\).*got 'shape \(3, 2\)'\. Weights that many sets share must"),
    ):
        with pytest.raises(UsageError, match=sentence):
            call()

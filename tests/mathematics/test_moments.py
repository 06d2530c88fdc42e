import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import (
    Bernoulli,
    Binomial,
    Chi2,
    Gamma,
    Laplace,
    MultivariateNormal,
    Normal,
    Poisson,
)

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.data.digits import digits
from principia.lab.params import UsageError
from principia.mathematics.moments import (
    RunningMoments,
    affine_cov,
    empirical_mgf,
    log_mgf,
    mgf,
    raw_moment,
    variance_of_sum,
)

KEY = "mathematics/moments"


def normal(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def number(value):
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("self.count * count / total * torch.outer", "torch.outer", "streaming_moments"),
        ("rows = batch.detach().to(self._mean)", "rows = batch.detach()", "streaming_moments"),
        ("return self._add(len(batch), mean, centered.mT @ centered)", "return self._add("
         "len(batch), mean, rows.mT @ rows - len(batch) * torch.outer(mean, mean))",
         "streaming_moments"),
        ("self._scatter / (self.count - ddof)", "self._scatter / self.count", "streaming_moments"),
        ("other.count, other._mean, other._scatter)", "other.count, other._mean, self._scatter)",
         "streaming_moments"),
        ("between = self.count", "between = -self.count", "covariance_psd"),
        ("return A @ cov @ A.mT", "return A.mT @ cov @ A", "affine_variance"),
        ("weights[..., None, :], cov)[..., 0, 0]", "weights[..., None, :].abs(), cov)[..., 0, 0]",
         "variance_of_a_sum"),
        ("law.total_count * _log_coin", "_log_coin", "mgf_closed_forms"),
        ("(law.scale * t) ** 2 / 2", "law.scale * t**2 / 2", "mgf_moments"),
        ("law.rate * t.expm1()", "law.rate * t.exp()", "mgf_moments"),
        ("(-safe / law.rate).log1p()", "(-safe * law.rate).log1p()", "gamma_mgf"),
        ("-law.concentration * (", "-2 * law.concentration * (", "mgf_uniqueness"),
        ("spread / n**0.5", "spread / n", "gamma_mgf"),
        ("value = slopes[axis]", "value = slopes[0]", "mgf_moments"),
        ("for _ in range(order):", "for _ in range(min(order, 3)):", "mgf_moments"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("+ count / total * delta", "+ delta / 2", "streaming_moments",
         ["mean", "covariance", "covariance of float32 rows"]),
        ("self._scatter / (self.count - ddof)", "self._scatter / (self.count / 2)",
         "variance_identity", ["draws"]),
        ("law.scale_tril.mT @", "law.scale_tril @", "mgf_closed_forms", ["two normal variables"]),
        ("probs.log() + t, (-probs).log1p()", "probs.log(), (-probs).log1p() + t",
         "mgf_closed_forms", ["Bernoulli", "binomial"]),
        ("return A @ cov @ A.mT", "return A @ cov.diagonal().diag_embed() @ A.mT",
         "affine_variance", ["square matrices", "twice as many rows"]),
        ("law.rate * t.expm1()", "law.rate * t.exp()", "mgf_closed_forms", ["Poisson"]),
        ("(law.scale * t) ** 2 / 2", "law.scale * t**2 / 2", "mgf_closed_forms", ["normal"]),
        ("torch.where(outside, math.inf,", "torch.where(outside, 0,", "gamma_mgf",
         ["from 1/β on"]),
        ("outside = t >= law.rate", "outside = t > law.rate", "gamma_mgf", ["slopes from 1/β on"]),
        ("- math.log(n)", "- math.log(n - 1)", "gamma_mgf", ["ten draws"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("kind", [torch.float16, torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("ddof", [0, 1, 3])
def test_running_moments_are_numpys(kind, ddof):
    x = (10 * normal(101, 4)).to(kind)
    moments = RunningMoments(4)
    for part in x.split(7):
        assert moments.update(part) is moments
    rows = x.double().numpy()
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.cov(ddof=ddof), np.cov(rows, rowvar=False, ddof=ddof),
                               rtol=1e-12)
    np.testing.assert_allclose(moments.var(ddof=ddof), rows.var(axis=0, ddof=ddof), rtol=1e-12)
    assert moments.count == 101
    assert moments.mean.dtype == torch.float64


def test_merging_is_associative_and_leaves_the_other_alone():
    x = 1e6 + normal(90, 3)
    a, b, c = (RunningMoments(3).update(part) for part in x.split(30))
    kept = b.cov()
    left = RunningMoments(3).merge(a).merge(b).merge(c)
    right = RunningMoments(3).merge(c).merge(RunningMoments(3).merge(b).merge(a))
    torch.testing.assert_close(left.cov(), right.cov(), rtol=1e-9, atol=1e-9)
    assert torch.equal(b.cov(), kept)
    empty = RunningMoments(3).merge(RunningMoments(3)).update(x[:0])
    assert empty.count == 0
    assert torch.equal(RunningMoments(3).merge(b).merge(empty).cov(), kept)
    twice = RunningMoments(3).merge(b)
    twice.merge(twice)
    torch.testing.assert_close(twice.cov(), kept)
    assert twice.count == 60
    b.mean.zero_()
    b.cov().zero_()
    assert torch.equal(b.cov(), kept)
    assert float(b.mean[0]) > 1


def test_covariances_of_maps_are_those_of_the_mapped_law():
    A, b, root = normal(5, 2, 3), normal(5, 2, seed=1), normal(3, 3, seed=2)
    cov = root @ root.mT
    # a law of six points with exactly this covariance, mapped point by point
    points = math.sqrt(3) * torch.cat([root.mT, -root.mT])
    mapped = points @ A.mT + b[:, None]
    centered = mapped - mapped.mean(dim=1, keepdim=True)
    torch.testing.assert_close(affine_cov(A, cov), centered.mT @ centered / 6)
    each = torch.stack([cov, 2 * cov, cov, cov, cov])
    torch.testing.assert_close(affine_cov(A, each)[1], 2 * affine_cov(A[1], cov))
    rows = A[:, 0]
    brute = [sum(a[i] * a[j] * cov[i, j] for i in range(3) for j in range(3)) for a in rows]
    torch.testing.assert_close(variance_of_sum(rows, cov), torch.stack(brute))
    torch.testing.assert_close(variance_of_sum(rows, each)[2:], torch.stack(brute)[2:])
    assert torch.autograd.gradcheck(variance_of_sum, (rows[0].clone().requires_grad_(), cov))


@pytest.mark.parametrize(
    ("law", "theirs"),
    [
        (Bernoulli(number(0.3)), stats.bernoulli(0.3)),
        (Binomial(6, number(0.7)), stats.binom(6, 0.7)),
        (Poisson(number(2.5)), stats.poisson(2.5)),
        (Normal(number(-1.0), number(0.5)), stats.norm(-1, 0.5)),
        (Gamma(number(1.5), number(2.0)), stats.gamma(1.5, scale=0.5)),
        (Chi2(number(3.0)), stats.chi2(3)),
        (Bernoulli(number(0.0)), stats.bernoulli(0.0)),
        (Bernoulli(number(1.0)), stats.bernoulli(1.0)),
    ],
)
def test_generating_functions_and_their_moments_are_scipys(law, theirs):
    ends = {} if hasattr(theirs.dist, "pmf") else {"lb": theirs.ppf(1e-16), "ub": theirs.isf(1e-16)}
    for t in (-2.0, -0.3, 0.1, 0.2):
        expected = float(theirs.expect(lambda x, t=t: np.exp(t * x), **ends))
        assert float(mgf(law)(number(t))) == pytest.approx(expected, rel=1e-6)
        assert float(log_mgf(law)(number(t))) == pytest.approx(math.log(expected), abs=1e-6)
    for k in range(1, 5):
        assert float(raw_moment(mgf(law), (k,))) == pytest.approx(float(theirs.moment(k)), rel=1e-9)
    mean, variance = (raw_moment(log_mgf(law), (k,)) for k in (1, 2))  # cumulants
    torch.testing.assert_close(mean, law.mean)
    torch.testing.assert_close(variance, law.variance)


def test_logarithms_stay_finite_where_the_function_overflows():
    far = number([-5000.0, 5000.0])
    np.testing.assert_allclose(log_mgf(Bernoulli(number(0.3)))(far),
                               [math.log(0.7), 5000 + math.log(0.3)])
    np.testing.assert_allclose(log_mgf(Normal(number(1.0), number(1.0)))(far),
                               [12_495_000.0, 12_505_000.0])
    t = number([0.5, 1.0, 3.0]).requires_grad_()
    inside = log_mgf(Gamma(number(2.0), number(1.0)))(t)
    assert inside.tolist() == [pytest.approx(2 * math.log(2)), math.inf, math.inf]
    inside[0].backward()
    assert t.grad.tolist() == [4.0, 0.0, 0.0]


def test_laws_and_arguments_broadcast():
    rates = number([1.0, 2.0, 4.0])
    grid = log_mgf(Gamma(number(2.0), rates))(number([[0.5], [1.5]]))
    assert grid.shape == (2, 3)
    assert grid[1].isinf().tolist() == [True, False, False]
    assert mgf(Bernoulli(rates / 8))(number([[0.5], [1.5]])).shape == (2, 3)
    law = MultivariateNormal(normal(3), torch.eye(3, dtype=torch.float64))
    assert mgf(law)(normal(7, 2, 3)).shape == (7, 2)
    batch = MultivariateNormal(normal(4, 3), torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(
        log_mgf(batch)(normal(3)), batch.loc @ normal(3) + normal(3).square().sum() / 2
    )


def test_mixed_moments_are_those_of_draws():
    root = number([[1.0, 0.0], [0.6, 0.8]])
    law = MultivariateNormal(number([0.5, -0.2]), scale_tril=root)
    x = law.loc + normal(400_000, 2) @ root.mT
    for orders in ((1, 1), (2, 1), (2, 2), (0, 3)):
        products = x[:, 0] ** orders[0] * x[:, 1] ** orders[1]
        error = float(products.std()) / len(x) ** 0.5
        exact = float(raw_moment(mgf(law), orders))
        assert float(products.mean()) == pytest.approx(exact, abs=5 * error)
    value, error = empirical_mgf(x, number([[0.3, 0.2], [-0.5, 0.1]]))
    assert ((value - mgf(law)(number([[0.3, 0.2], [-0.5, 0.1]]))).abs() < 5 * error).all()


def test_moments_of_a_polynomial_end():
    assert [float(raw_moment(lambda t: 1 + 2 * t, (k,))) for k in range(4)] == [1, 2, 0, 0]
    with torch.no_grad():
        assert float(raw_moment(lambda t: t[0] * t[1] ** 2, [1, 2])) == 2


def test_empirical_function_is_the_mean_and_does_not_overflow():
    x, t = normal(1000), number([-1.0, 0.0, 2.0])
    value, error = empirical_mgf(x, t)
    terms = np.exp(np.outer(t.numpy(), x.numpy()))
    np.testing.assert_allclose(value, terms.mean(axis=1))
    np.testing.assert_allclose(error, stats.sem(terms, axis=1), atol=1e-15)
    big = empirical_mgf(torch.tensor([80.0, 88.0]), torch.tensor(1.0))[0]  # their sum overflows
    assert float(big) == pytest.approx(math.exp(88) * (1 + math.exp(-8)) / 2, rel=1e-4)


def test_quick_experiment_is_numpys_and_draws():
    outcome = page(KEY).experiments()["pixel_statistics"](chunk=100)
    assert outcome.reached, outcome.missed
    assert set(outcome.figures) == {"covariance", "cancellation"}
    pixels = digits()[0].double()
    assert outcome.metrics["mean"] == pytest.approx(float(pixels.mean()), rel=1e-12)
    assert outcome.metrics["deviation"] == pytest.approx(float(pixels.std(correction=0)), rel=1e-12)
    naive, streamed = (np.array(trace.y) for trace in outcome.figures["cancellation"].data)
    assert naive[-1] > 0.01
    assert streamed.max() < 1e-9


def test_bad_input_is_told_in_one_sentence():
    gamma, one = Gamma(number(2.5), number(2.0)), number([[1.0, 2.0]])
    for call, sentence in (
        (lambda: RunningMoments(0), r"RunningMoments: dim must be an integer in \[1, inf\); got 0"),
        (lambda: RunningMoments(2).mean, r"rows must be 1 or more for a mean; got 0\. Update it"),
        (lambda: RunningMoments(2).update(one).cov(),
         r"rows must be 2 or more for a covariance with ddof=0; got 1\."),
        (lambda: RunningMoments(2).update(one).update(one).var(ddof=2), r"rows must be 3 or more"),
        (lambda: RunningMoments(2).update(one).cov(ddof=-1), r"ddof must be an integer in \[0"),
        (lambda: RunningMoments(3).update(one), r"batch must be of shape \(B, 3\); got \(1, 2\)"),
        (lambda: RunningMoments(2).update(one / 0), r"batch must be finite; got tensor\(\[\[inf"),
        (lambda: RunningMoments(2).merge(RunningMoments(3)), r"other must be of dim 2; got 3"),
        (lambda: affine_cov(normal(2, 3), normal(2, 2)),
         r"affine_cov: cov must be of shape \(\.\.\., 3, 3\); got \(2, 2\)"),
        (lambda: variance_of_sum(normal(3), normal(2, 2)), r"variance_of_sum: cov must be of sha"),
        (lambda: mgf(Laplace(0.0, 1.0)), r"dist must be a Bernoulli.*got Laplace.*empirical_mgf"),
        (lambda: log_mgf(gamma, strict=True)(number(2.0)), r"below the rate, 2, .*; got 2\.0"),
        (lambda: log_mgf(gamma, strict=True)(number([1.0, 2.5])),
         r"log_mgf: t must be below the rate, 2, where the expectation is finite; got 2\.5"),
        (lambda: empirical_mgf(number([1.0]), number(1.0)), r"two or more numbers.*got \(1,\)"),
        (lambda: empirical_mgf(normal(5, 2), normal(3)), r"t must be of shape \(\.\.\., 2\); got"),
        (lambda: raw_moment(mgf(gamma), (-1,)), r"orders must be one or more values, each an int"),
        (lambda: raw_moment(mgf(Poisson(number([1.0, 2.0]))), (1,)), r"mgf must be of one value"),
    ):
        with pytest.raises(UsageError, match=sentence):
            call()

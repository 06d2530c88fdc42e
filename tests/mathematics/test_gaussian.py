import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from sklearn.covariance import ledoit_wolf, shrunk_covariance
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LinearRegression
from torch.distributions import MultivariateNormal

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.mathematics import condition, fit_gaussian, from_canonical, log_normal, marginal
from principia.mathematics.gaussian import to_canonical

KEY = "mathematics/gaussian"


def normal(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def law_of(*shape, seed=0):
    W = normal(*shape, 2 * shape[-1], seed=seed)
    return MultivariateNormal(normal(*shape, seed=seed + 1), W @ W.mT / shape[-1])


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("columns = solve_triangular(L, columns, upper=False)", "columns = columns / 2", "density"),
        ("return mvn.precision_matrix, solved", "return mvn.covariance_matrix, solved",
         "canonical_form"),
        ("MultivariateNormal(mvn.mean[..., kept], cov)",
         "MultivariateNormal(mvn.mean[..., sorted(kept)], cov)", "conditioning"),
        ("...k->...r\", gain, offset)", "...k->...r\", gain, -offset)",
         "conditional_covariance_constant"),
        ("share * cov.trace() / size", "share * cov.trace()", "maximum_likelihood"),
        ("ledoit_wolf(X.numpy(force=True))", "ledoit_wolf(X.numpy(force=True), "
         "assume_centered=True)", "maximum_likelihood"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("-squares / 2 - log_det -", "-squares / 2 + log_det -", "density",
         ["from the Cholesky factor", "broadcast"]),
        ("log_det = diagonal.log()", "log_det = diagonal.clamp(1e-9, 1e9).log()", "density",
         ["in other units"]),
        ("columns, log_det = L.mT @ columns", "columns, log_det = L @ columns", "precision_form",
         ["log_normal"]),
        ("movedim(-1, 0).reshape(shape)", "reshape(shape)", "maximum_likelihood",
         ["likelihood of multiples"]),
        ("mean = torch.cholesky_solve(m[..., None]", "mean = torch.cholesky_solve(-m[..., None]",
         "canonical_form", ["to_canonical"]),
        ("torch.cholesky_solve(mvn.mean[..., None]", "(lambda m, L: m)(mvn.mean[..., None]",
         "affine_closure", ["log E exp(s'(AX + b))"]),
        ("MultivariateNormal(mean, scale_tril=L[..., k:, k:]",
         "MultivariateNormal(mean, cov[..., k:, k:]", "blocks", ["condition"]),
        ("return mvn.precision_matrix, solved", "return mvn.covariance_matrix, solved", "blocks",
         ["block of the precision"]),
        ('kept = _coordinates("marginal", index, mvn)',
         'kept = sorted(_coordinates("marginal", index, mvn))',
         "affine_closure", ["mean of a marginal", "covariance of a marginal"]),
        ("order = seen + rest", "order = sorted(seen) + rest", "conditioning",
         ["slopes of a regression"]),
        ("centered.mT @ centered / n", "centered.mT @ centered / (n - 1)", "maximum_likelihood",
         ["shrinkage", "Ledoit and Wolf"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("dim", [1, 2, 7, 30])
def test_log_density_is_scipys_in_all_three_forms(dim):
    law, x = law_of(dim), 3 * normal(40, dim, seed=5)
    mean, cov = law.mean, law.covariance_matrix
    expected = stats.multivariate_normal(mean.numpy(), cov.numpy()).logpdf(x.numpy())
    for form in ({"cov": cov}, {"precision": cov.inverse()}, {"scale_tril": law.scale_tril}):
        np.testing.assert_allclose(log_normal(x, mean, **form), expected.reshape(-1), rtol=1e-9)


@pytest.mark.parametrize(
    ("points", "means", "matrices"),
    [((), (), ()), ((6,), (), ()), ((6, 1), (), (4,)), ((4,), (6, 4), (4,)), ((), (), (5, 4)),
     ((3, 6, 4), (4,), (6, 1)), ((2, 1, 1), (3, 1), (1, 5))],
)
def test_leading_axes_broadcast_as_in_torch(points, means, matrices):
    x, mean, law = normal(*points, 3), normal(*means, 3, seed=1), law_of(*matrices, 3, seed=2)
    expected = MultivariateNormal(mean, law.covariance_matrix).log_prob(x)
    precision = law.covariance_matrix.inverse()
    for form in ({"cov": law.covariance_matrix}, {"precision": (precision + precision.mT) / 2}):
        torch.testing.assert_close(log_normal(x, mean, **form), expected)


def test_log_density_can_be_differentiated_and_keeps_single_precision():
    law, x = law_of(3), normal(5, 3, seed=3)
    W = law.scale_tril.clone().requires_grad_()
    mean = law.mean.clone().requires_grad_()
    for name in ("cov", "precision"):
        call = lambda mean, W, name=name: log_normal(x, mean, **{name: W @ W.mT})  # noqa: E731
        assert torch.autograd.gradcheck(call, (mean, W))
    single = log_normal(x.float(), law.mean.float(), cov=law.covariance_matrix.float())
    assert single.dtype == torch.float32
    assert log_normal(x[:0], law.mean, cov=law.covariance_matrix).shape == (0,)
    torch.testing.assert_close(single, law.log_prob(x).float(), rtol=1e-4, atol=1e-4)


def test_canonical_parameters_add_up_in_a_product_of_densities():
    one, two, z = law_of(3), law_of(3, seed=7), normal(100, 3, seed=9)
    (Q, m), (R, n) = to_canonical(one), to_canonical(two)
    gap = one.log_prob(z) + two.log_prob(z) - from_canonical(Q + R, m + n).log_prob(z)
    assert float(gap.std()) < 1e-10
    many = from_canonical(Q, normal(4, 3))  # many exponents with one matrix
    assert many.batch_shape == (4,)
    torch.testing.assert_close(many.mean @ Q, normal(4, 3))
    batch = law_of(6, 3)
    again = from_canonical(*to_canonical(batch))
    torch.testing.assert_close(again.mean, batch.mean)
    torch.testing.assert_close(again.covariance_matrix, batch.covariance_matrix)


def test_conditional_law_is_what_the_joint_density_says_along_a_line():
    law, seen = law_of(2), 1.3
    joint = lambda b: math.exp(law.log_prob(torch.tensor([b, seen]).double()))  # noqa: E731
    total, mean, square = (
        integrate.quad(lambda b, p=power: b**p * joint(b), -30, 30, limit=200)[0]
        for power in range(3)
    )
    given = condition(law, [1], torch.tensor([seen]).double())
    assert float(given.mean) == pytest.approx(mean / total)
    assert float(given.variance) == pytest.approx(square / total - (mean / total) ** 2)
    alone = marginal(law, [1]).log_prob(torch.tensor([seen]).double()).exp()
    assert float(alone) == pytest.approx(total)


def test_conditioning_in_steps_is_conditioning_at_once():
    law, x = law_of(6), normal(6, seed=4)
    at_once = condition(law, [4, 0, 3], x[[4, 0, 3]])  # leaves 1, 2, 5
    first = condition(law, [3, 4], x[[3, 4]])  # leaves 0, 1, 2, 5
    then = condition(first, [0], x[[0]])
    torch.testing.assert_close(then.mean, at_once.mean)
    torch.testing.assert_close(then.covariance_matrix, at_once.covariance_matrix)
    torch.testing.assert_close(
        marginal(at_once, [2, 0]).mean, condition(marginal(law, [5, 1, 0, 3, 4]), [2, 3, 4],
                                                  x[[0, 3, 4]]).mean
    )


def test_one_factor_serves_all_values_and_batches_of_laws():
    law, values = law_of(60), normal(20_000, 30, seed=6)
    given = condition(law, range(0, 60, 2), values)
    assert given.mean.shape == (20_000, 30)
    assert given._unbroadcasted_scale_tril.shape == (30, 30)
    batch, value = law_of(5, 4), normal(7, 5, 2, seed=8)
    many = condition(batch, [3, 1], value)
    assert many.batch_shape == (7, 5)
    single = MultivariateNormal(batch.mean[2], batch.covariance_matrix[2])
    alone = condition(single, [3, 1], value[4, 2])
    torch.testing.assert_close(many.mean[4, 2], alone.mean)
    torch.testing.assert_close(many.covariance_matrix[4, 2], alone.covariance_matrix)


def test_conditional_of_a_fit_is_linear_regression():
    X = normal(200, 6) @ normal(6, 6, seed=1) + 3
    given = condition(fit_gaussian(X), [0, 1, 2, 3], X[:, :4])
    model = LinearRegression().fit(X[:, :4].numpy(), X[:, 4:].numpy())
    np.testing.assert_allclose(given.mean, model.predict(X[:, :4].numpy()), atol=1e-9)
    residual = X[:, 4:].numpy() - model.predict(X[:, :4].numpy())
    np.testing.assert_allclose(given.covariance_matrix[0], residual.T @ residual / 200, atol=1e-9)


def test_conditioning_is_gaussian_process_regression():
    x = np.linspace(0, 5, 12)[:, None]
    kernel, y = RBF(0.7), np.sin(x[:5, 0])
    model = GaussianProcessRegressor(kernel, alpha=1e-6, optimizer=None).fit(x[:5], y)
    mean, cov = model.predict(x[5:], return_cov=True)
    prior = MultivariateNormal(torch.zeros(12).double(),
                               torch.from_numpy(kernel(x) + 1e-6 * np.eye(12)))
    given = condition(prior, range(5), torch.from_numpy(y))
    np.testing.assert_allclose(given.mean, mean, atol=1e-8)
    np.testing.assert_allclose(given.covariance_matrix, cov + 1e-6 * np.eye(7), atol=1e-8)


def test_fit_is_numpys_covariance_and_scikit_learns_shrinkage():
    X = 5 + normal(30, 4) @ normal(4, 4, seed=1)
    law = fit_gaussian(X)
    np.testing.assert_allclose(law.covariance_matrix, np.cov(X.numpy().T, bias=True))
    np.testing.assert_allclose(law.mean, X.numpy().mean(axis=0))
    best = float(law.log_prob(X).mean())
    for seed in range(20):
        other = law_of(4, seed=seed)
        near = MultivariateNormal(law.mean + 0.01 * other.mean,
                                  law.covariance_matrix + 0.01 * other.covariance_matrix)
        assert float(near.log_prob(X).mean()) < best
    few = normal(5, 12)
    for X in (few, few.float()):
        shrunk = fit_gaussian(X, shrinkage=0.2).covariance_matrix
        np.testing.assert_allclose(
            shrunk, shrunk_covariance(np.cov(X.numpy().T, bias=True), 0.2), atol=1e-5
        )
        assert shrunk.dtype == X.dtype
    np.testing.assert_allclose(
        fit_gaussian(few, "ledoit-wolf").covariance_matrix, ledoit_wolf(few.numpy())[0], atol=1e-12
    )


def test_quick_experiment_fills_in_digits():
    outcome = page(KEY).experiments()["inpainting"]()
    assert outcome.reached, outcome.missed
    assert len(outcome.figures["inpainting"].data) == 30
    more = page(KEY).experiments()["inpainting"](observed=0.75)
    assert more.metrics["ratio"] < outcome.metrics["ratio"]
    assert more.metrics["ridge_gap"] < 1e-6


def test_bad_input_is_told_in_one_sentence():
    zero, law = torch.zeros(2).double(), law_of(3)
    bad = torch.tensor([[1.0, 2.0], [2.0, 1.0]]).double()
    skew = torch.tensor([[2.0, 1.0], [0.0, 2.0]]).double()
    with pytest.raises(UsageError) as caught:
        log_normal(zero, zero, cov=bad)
    assert str(caught.value) == (
        "log_normal: cov must be positive definite; got least eigenvalue -1. "
        "Shrink it toward I, as fit_gaussian(X, shrinkage=0.1) does."
    )
    column = normal(9, 1)
    for call, sentence in (
        (lambda: log_normal(zero, zero, precision=bad), r"precision must be positive definite"),
        (lambda: log_normal(zero, zero, cov=torch.ones(2, 2).double()), r"positive definite; got"),
        (lambda: log_normal(zero, zero, cov=skew), r"cov must be symmetric .* by 1\. Pass"),
        (lambda: log_normal(zero, zero, cov=math.nan * skew), r"symmetric and finite; got .* nan"),
        (lambda: log_normal(zero, zero, scale_tril=skew), r"scale_tril must be lower triangular"),
        (lambda: log_normal(zero, zero, scale_tril=-skew.mT), r"with a positive diagonal"),
        (lambda: log_normal(zero, zero), r"exactly one of cov, precision and scale_tril; got \[\]"),
        (lambda: log_normal(zero, zero, cov=bad, precision=bad), r"got \['cov', 'precision'\]"),
        (lambda: log_normal(zero, torch.zeros(3).double(), cov=bad), r"of shapes .*\(2,\), \(3,\)"),
        (lambda: log_normal(zero, zero, cov=bad[:1]), r"x, mean and cov must be of shapes"),
        (lambda: from_canonical(bad, zero), r"from_canonical: Q must be positive definite; got le"),
        (lambda: from_canonical(bad, zero[:1]), r"Q and m must be of shapes"),
        (lambda: marginal(law, [0, 3]), r"marginal: index must be .* in \[0, 2\]; got \[0, 3\]"),
        (lambda: marginal(law, [-1]), r"different integers in \[0, 2\]; got \[-1\]"),
        (lambda: marginal(law, []), r"one or more different integers"),
        (lambda: condition(law, [1, 1], zero), r"condition: index must be .* got \[1, 1\]"),
        (lambda: condition(law, [0, 1, 2], zero), r"some of the 3 coordinates, not all; got"),
        (lambda: condition(law, [0], zero), r"value must be of shape \(\.\.\., 1\).*got \(2,\)"),
        (lambda: fit_gaussian(normal(4, 4)), r"of 5 rows or more; got 4\..*shrinkage=0.1"),
        (lambda: fit_gaussian(torch.cat([column, column], 1)), r"covariance of X must be positive"),
        (lambda: fit_gaussian(column / 0), r"X must be one or more rows of finite numbers"),
        (lambda: fit_gaussian(column, 1.5), r"shrinkage must be in \[0, 1\] or 'ledoit-wolf'; got"),
        (lambda: fit_gaussian(column, "lw"), r"'ledoit-wolf'; got 'lw'"),
    ):
        with pytest.raises(UsageError, match=sentence):
            call()

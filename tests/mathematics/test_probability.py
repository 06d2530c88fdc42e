import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from sklearn.naive_bayes import BernoulliNB
from torch.distributions import Gamma, MultivariateNormal, Normal, Uniform

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.mathematics import EmpiricalDistribution, JointTable, affine, bayes
from principia.mathematics.probability import density_of_sum, score_gradient

KEY = "mathematics/probability"


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def table(*shape, seed=0):
    weights = torch.rand(*shape, generator=rng(seed), dtype=torch.float64)
    return JointTable(weights, tuple("abcd"[: len(shape)]), normalize=True)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("self.probs, list(range(self.probs.ndim)), axes)",
         "self.probs, list(range(self.probs.ndim)), sorted(axes))", "sum_and_product_rules"),
        ("joint / torch.where(total > 0, total, 1)", "joint / total", "sum_and_product_rules"),
        ("total = joint.sum(dim=tuple(range(len(names))))",
         "total = joint.sum(dim=0)", "conditional_independence"),
        ("torch.multinomial(self.probs.flatten()", "torch.multinomial(self.probs.flatten().sqrt()",
         "bayes_rule"),
        ("joint = log_prior + log_likelihood", "joint = log_prior - log_likelihood", "bayes_rule"),
        ("F.log_softmax(joint, dim=-1)", "F.log_softmax(joint, dim=0)", "bayes_rule"),
        ("value.to(kind).contiguous(), right=True)", "value.to(kind).contiguous(), right=False)",
         "empirical_expectation"),
        ("var(dim=0, correction=0)", "var(dim=0, correction=1)", "empirical_expectation"),
        ("counts[group[n:]] / n", "counts[group[n:]].clamp(max=1) / n", "empirical_expectation"),
        ("torch.randint(len(self.samples),", "torch.randint(len(self.samples) // 2,",
         "empirical_expectation"),
        ("AffineTransform(b, a)", "AffineTransform(-b, abs(a))", "affine_density"),
        ("torch.from_numpy(step * total)", "torch.from_numpy(total)", "sum_is_convolution"),
        ("terms.std(dim=0) / n**0.5", "terms.std(dim=0) / n", "log_derivative_trick"),
        ("vmap(grad(log_prob_fn), in_dims=(None, 0))(theta, samples)",
         "vmap(grad(lambda t, x: log_prob_fn(t, x).exp()), in_dims=(None, 0))(theta, samples)",
         "log_derivative_trick"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("where[axis] = int(value)", "where[axis] = int(value) - 1", "sum_and_product_rules",
         ["variables that are known"]),
        ("(values.sum() - values) / (n - 1)", "values.sum() / (n - 1)", "log_derivative_trick",
         ["leave-one-out is a covariance"]),
        ("torch.einsum(self.probs, list(range(self.probs.ndim)), axes), names)",
         "torch.einsum(self.probs**2, list(range(self.probs.ndim)), axes), names, normalize=True)",
         "sum_and_product_rules", ["sum rule"]),
        ("self.probs, self.names = probs / probs.sum(), names",
         "self.probs, self.names = (probs / probs.sum()).half(), names",
         "sum_and_product_rules", ["bytes of a number"]),
        ("self._numbers.var(dim=0, correction=0)", "self._numbers.double().var(dim=0) * 2",
         "empirical_expectation", ["pairs in single precision", "bytes of a number"]),
        ("return joint / torch.where(total > 0, total, 1)",
         "return (joint + 1e-9) / torch.where(total > 0, total, 1)", "sum_and_product_rules",
         ["what never happens"]),
        ("surprise = torch.xlogy(both, both) - ", "surprise = torch.xlogy(both, both).abs() - ",
         "conditional_independence", ["by SciPy"]),
        ("AffineTransform(b, a)", "AffineTransform(b, 1.1 * a)", "affine_density",
         ["distance of the distribution functions"]),
        ("torch.from_numpy(step * total)", "torch.from_numpy(1.01 * step * total)",
         "sum_is_convolution", ["closed form"]),
        (".to(f).clamp(min=0)", ".to(f)", "sum_is_convolution", ["no negative density"]),
        ("value.to(kind).contiguous(), right=True)", "value.to(kind).contiguous(), right=False)",
         "empirical_cdf_rate", ["EmpiricalDistribution"]),
        ("math.sqrt(math.log(2 / delta)", "math.sqrt(math.log(1 / delta)", "empirical_cdf_rate",
         ["dkw_radius"]),
        ("terms.mean(dim=0)", "terms.median(dim=0).values", "log_derivative_trick",
         ["the density as f"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_marginals_and_conditionals_are_those_of_numpy():
    joint = table(3, 4, 2, 5)
    probs = joint.probs.numpy()
    np.testing.assert_allclose(joint.marginal("d", "b").probs, probs.sum(axis=(0, 2)).T)
    given = joint.conditional("c", "a", given=["d"])
    np.testing.assert_allclose(given[1, 2, 3], probs[2, :, 1, 3].sum() / probs[..., 3].sum())
    torch.testing.assert_close(given.sum(dim=(0, 1)), torch.ones(5, dtype=torch.float64))
    known = joint.condition(d=3, b=0)
    assert known.names == ("a", "c")
    np.testing.assert_allclose(known.probs, probs[:, 0, :, 3] / probs[:, 0, :, 3].sum())
    np.testing.assert_allclose(known.condition(a=1).probs, joint.condition(a=1, b=0, d=3).probs)


def test_samples_of_a_table_follow_it():
    joint = table(3, 4)
    draws = joint.sample(100_000, rng())
    assert draws.shape == (100_000, 2)
    counts = torch.zeros(3, 4).index_put_(tuple(draws.T), torch.ones(len(draws)), accumulate=True)
    assert stats.chisquare(counts.flatten(), joint.probs.flatten() * len(draws)).pvalue > 1e-4


def test_table_of_counts_is_normalized_and_differentiable():
    counts = JointTable(torch.tensor([[1, 3], [0, 0]]), ["x", "y"], normalize=True)
    assert counts.probs.tolist() == [[0.25, 0.75], [0, 0]]
    weights = torch.rand(2, 3, generator=rng(), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda w: JointTable(w, ("x", "y"), normalize=True).conditional("x", given="y"), weights
    )


def test_bayes_is_the_formula_and_survives_tiny_likelihoods():
    prior, likelihood = table(5).probs, table(7, 5, seed=1).probs
    expected = likelihood * prior / (likelihood @ prior)[:, None]
    torch.testing.assert_close(bayes(prior.log(), likelihood.log()).exp(), expected)
    torch.testing.assert_close(  # where every likelihood underflows
        bayes(prior.log(), likelihood.log() - 5000).exp(), expected
    )
    assert bayes(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.0, -math.inf])).tolist() == [
        0, -math.inf
    ]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int64])
def test_empirical_distribution_agrees_with_scipy_and_numpy(kind):
    x = (3 * torch.randn(200, generator=rng(), dtype=torch.float64)).round().to(kind)
    law, at = EmpiricalDistribution(x), torch.linspace(-8, 8, 65, dtype=torch.float64)
    expected = stats.ecdf(x.numpy()).cdf.evaluate(at.numpy())
    np.testing.assert_allclose(law.cdf(at), expected, atol=1e-6)
    np.testing.assert_allclose(law.mean, x.double().mean(), atol=1e-6)
    np.testing.assert_allclose(law.stddev, np.std(x.double().numpy()), rtol=1e-5)
    shares = [(x == t).double().mean() for t in at]
    np.testing.assert_allclose(law.log_prob(at).exp(), shares, atol=1e-6)
    assert law.sample((4, 3), rng()).dtype == kind
    assert law.sample((4, 3), rng()).shape == (4, 3)


def test_empirical_distribution_of_vectors():
    x = torch.randint(3, (500, 2), generator=rng())
    law = EmpiricalDistribution(x)
    grid = torch.cartesian_prod(torch.arange(4), torch.arange(4)).reshape(4, 4, 2)
    probs = law.log_prob(grid).exp()
    assert probs.shape == (4, 4)
    assert float(probs.sum()) == pytest.approx(1)
    hits = (x == torch.tensor([1, 2])).all(dim=1)
    assert float(probs[1, 2]) == pytest.approx(float(hits.sum()) / 500)
    assert probs[3].tolist() == [0] * 4
    assert law.sample((7,), rng()).shape == (7, 2)
    torch.testing.assert_close(law.expectation(lambda x: x.prod(dim=1)), x.double().prod(1).mean())
    assert float(EmpiricalDistribution(torch.tensor([0.0])).log_prob(torch.tensor(-0.0))) == 0


@pytest.mark.parametrize("a", [-2.5, -0.3, 0.7, 4.0])
def test_affine_laws_integrate_to_one_and_match_scipy(a):
    law = affine(Gamma(torch.tensor(3.0).double(), torch.tensor(2.0).double()), a, 1.5)
    density = lambda z: float(law.log_prob(torch.tensor(z).double()).exp())  # noqa: E731
    ends = sorted((1.5, 1.5 + 25 * a))
    assert integrate.quad(density, *ends, points=[1.5 + a], limit=200)[0] == pytest.approx(1)
    z = 1.5 + a * 1.2
    below = stats.gamma(3, scale=0.5).cdf(1.2)
    assert float(law.cdf(torch.tensor(z).double())) == pytest.approx(below if a > 0 else 1 - below)
    normal = affine(Normal(1.0, 2.0), a, 3.0)
    at = torch.linspace(-5, 5, 11)
    torch.testing.assert_close(normal.log_prob(at), Normal(a + 3, 2 * abs(a)).log_prob(at))
    plane = affine(MultivariateNormal(torch.zeros(2), torch.eye(2)), a)
    wide = MultivariateNormal(torch.zeros(2), a**2 * torch.eye(2))
    torch.testing.assert_close(plane.log_prob(torch.ones(3, 2)), wide.log_prob(torch.ones(3, 2)))


def test_sums_of_normals_and_of_three_uniforms_have_known_densities():
    step = 0.01
    x = torch.arange(-1000, 1001, dtype=torch.float64) * step
    total = density_of_sum(
        Normal(0.0, 1.0).log_prob(x).exp(), Normal(0.0, 0.5).log_prob(x).exp(), step
    )
    z = torch.arange(-2000, 2001, dtype=torch.float64) * step
    exact = stats.norm(0, 1.25**0.5).pdf(z.numpy())
    np.testing.assert_allclose(total, exact, atol=1e-8)
    one = torch.ones(1000, dtype=torch.float64)
    three = density_of_sum(density_of_sum(one, one, 0.001), one, 0.001)
    z = 0.0015 + 0.001 * np.arange(len(three))
    np.testing.assert_allclose(three, stats.irwinhall(3).pdf(z), atol=1e-5)
    assert density_of_sum(one.float(), one[:5].float(), 0.1).dtype == torch.float32


def test_score_gradient_is_unbiased_over_many_small_samples():
    theta = torch.tensor([0.5, 1.5], dtype=torch.float64)
    log_prob = lambda t, x: Normal(t[0], t[1], validate_args=False).log_prob(x).sum()  # noqa: E731
    x = 0.5 + 1.5 * torch.randn(2000, 5, 3, generator=rng(), dtype=torch.float64)
    f = lambda x: x.sum() + x[0] ** 2 + 10  # noqa: E731
    truth = torch.tensor([3 + 2 * 0.5, 2 * 1.5], dtype=torch.float64)  # E f = 3 m + m² + s² + 10
    spread = {}
    for baseline in ("none", "leave-one-out"):
        found = torch.stack([score_gradient(log_prob, f, theta, one, baseline=baseline)[0]
                             for one in x[:200]])
        error = found.std(dim=0) / len(found) ** 0.5
        assert ((found.mean(dim=0) - truth).abs() < 5 * error).all()
        spread[baseline] = score_gradient(
            log_prob, f, theta, x.reshape(-1, 3), baseline=baseline
        )[1]
    assert (spread["leave-one-out"] < 0.7 * spread["none"]).all()  # the baseline takes the 10 away
    deep, _ = score_gradient(lambda t, x: -((x - t.sum()) ** 2), lambda x: x.sum() * 0 + 1,
                             torch.zeros(2, 3, 4), torch.zeros(6))
    assert deep.shape == (2, 3, 4)


def test_quick_experiment_is_scikit_learns_and_sees_dependent_neighbors():
    outcome = page(KEY).experiments()["naive_bayes"](smoothing=0.5)
    assert outcome.reached, outcome.missed
    assert set(outcome.figures) == {"pixels", "reliability"}
    assert outcome.metrics["overconfidence"] > 0
    module = page(KEY).load("experiments")
    noise = (torch.rand(20_000, 3, 3, generator=rng()) < 0.4).float()
    members = torch.nn.functional.one_hot(torch.arange(20_000) % 2).float().mT
    information = module.mutual_nats(module._neighbors(noise, members), "a", "b", "place", "class")
    assert 0 <= information < 3 * 2 / (2 * 20_000)  # chi square, one degree of freedom a class
    model = BernoulliNB(alpha=0.5, binarize=0.5)
    from principia.lab.data.digits import digits

    x, y, x_test, y_test = (part.flatten(1) if part.ndim > 2 else part for part in digits())
    assert model.fit(x, y).score(x_test, y_test) == pytest.approx(outcome.metrics["accuracy"])


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(UsageError) as caught:
        JointTable(torch.tensor([0.6, 0.7]), ("x",))
    assert str(caught.value) == (
        "JointTable: probs must be >= 0 and sum to 1; got sum 1.3. Pass normalize=True."
    )
    for normalize in (False, True):
        with pytest.raises(UsageError, match=r"probs must be >= 0 .*; got an entry -0\.5\.$"):
            JointTable(torch.tensor([1.5, -0.5]), ("x",), normalize=normalize)
    nothing = torch.zeros(3), torch.zeros(0), *torch.tensor([[math.nan, 1], [math.inf, 1]])
    for empty in nothing:
        with pytest.raises(UsageError, match=r"finite sum > 0; got sum (0|nan|inf)\.$"):
            JointTable(empty, ("x",), normalize=True)
    with pytest.raises(ValueError, match=r"right-most size of value must match"):
        EmpiricalDistribution(torch.zeros(4, 2)).log_prob(torch.zeros(5, 3))
    with pytest.raises(UsageError, match=r"names must be 2 different names, one for each axis"):
        JointTable(torch.eye(2) / 2, ("x", "x"))
    joint = JointTable(torch.tensor([[0.5, 0.5], [0, 0]]), ("x", "y"))
    for call, sentence in (
        (lambda: joint.marginal("z"), r"name must be one of x, y; got 'z'"),
        (lambda: joint.conditional("x", given="x"), r"one or more different variables; got \('x'"),
        (lambda: joint.marginal(), r"names must be one or more different variables"),
        (lambda: joint.condition(x=1), r"an event of positive probability; got \{'x': 1\}\. Noth"),
        (lambda: joint.condition(x=2), r"x must be an integer in \[0, 1\]; got 2"),
        (lambda: joint.condition(x=0, y=0), r"of some variables, not of all"),
        (lambda: joint.sample(0), r"n must be an integer in \[1, inf\); got 0"),
        (lambda: bayes(torch.zeros(2), torch.zeros(4, 3)), r"of shape \(\.\.\., 2\).*got \(4, 3\)"),
        (lambda: bayes(torch.zeros(2), torch.full((4, 2), -math.inf)), r"got -inf\..*smooth the"),
        (lambda: EmpiricalDistribution(torch.zeros(0)), r"one or more observations without NaN"),
        (lambda: EmpiricalDistribution(torch.tensor([math.nan])), r"without NaN.*got tensor\(\[na"),
        (lambda: EmpiricalDistribution(torch.zeros(4, 2)).cdf(torch.zeros(2)), r"got \(4, 2\)"),
        (lambda: affine(Uniform(0.0, 1.0), 0), r"affine: a must be a finite number other than 0;"),
        (lambda: affine(Uniform(0.0, 1.0), math.inf), r"a must be a finite number; got inf"),
        (lambda: density_of_sum(-torch.ones(2), torch.ones(2), 1), r"f must be a density, finite"),
        (lambda: density_of_sum(torch.ones(2), torch.ones(2), 0), r"step must be in \(0, inf\)"),
        (lambda: score_gradient(torch.mul, torch.square, torch.ones(()), torch.ones(1)),
         r"samples must be two or more, for a standard error; got 1"),
    ):
        with pytest.raises(UsageError, match=sentence):
            call()

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from planting import assert_caught
from principia.lab.params import UsageError
from principia.optimization import (
    DoubleWell,
    Lessard,
    LogisticRisk,
    Quadratic,
    Quartic,
    Saddle,
    ScalarNet,
    SineBowl,
    log_spaced,
    noisy,
    pl_ratio,
    smoothness_ratio,
)

KEY = "optimization/problems"
DOUBLE = torch.float64


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def logistic(l2=0.0):
    X = normal(60, 4)
    return X, (X[:, 0] + normal(60, seed=1) > 0).long(), l2


def zoo():
    X, y, _ = logistic()
    rotation = torch.linalg.qr(normal(4, 4))[0]
    return [
        Quadratic([1.0, 2.0, 5.0, -3.0], rotation=rotation, minimizer=0.5), log_spaced(6),
        SineBowl(), Quartic(), Lessard(), ScalarNet(), DoubleWell(), Saddle(3),
        LogisticRisk(X, y, l2=0.1),
    ]


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("self.strong_convexity, self.minimizer = float(lam.min())",
         "self.strong_convexity, self.minimizer = float(lam.max())", "declared_constants"),
        ("pl = 0.1755309", "pl = 0.18", "declared_constants"),
        ("24 * x - 12, 12.5 * x**2 - 24 * x", "24 * x - 12, 12.5 * x**2 - 20 * x", "known_places"),
        ("ord=2)) ** 2 / (4 * len(X))", "ord=2)) ** 2 / (40 * len(X))", "declared_constants"),
        ("(theta**4).sum(dim=-1) / 4", "(theta**4).sum(dim=-1) / 2", "known_places"),
        ("((theta**2 - 1) ** 2)", "((theta**2 + 1) ** 2)", "known_places"),
        ("- y**2 / 2 + y**4 / 4", "+ y**2 / 2 + y**4 / 4", "known_places"),
        (" = -0.25", " = 0.25", "known_places"),
        ("self.label_noise * noise) ** 2", "self.label_noise * noise**2) ** 2",
         "label_noise_is_scaled_by_the_slope"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        (", torch.where(x <", ", torch.where(x >=", "declared_constants", ["PL, Lessard"]),
        ("return (theta**4).sum(dim=-1) / 4", "return (theta**4).sum(dim=-1) / 4 + theta.mean()",
         "rows_are_independent_runs", ["values"]),
        ("self.value(at).sum(), at)", "self.value(at).mean(), at)", "rows_are_independent_runs",
         ["slopes by gradient"]),
        ("twin.theta = nn.Parameter(start.to(torch.float64, copy=True))",
         "twin.theta = nn.Parameter(start)", "rows_are_independent_runs",
         ["starts, and points that others hold"]),
        ("(X[:, 0] + noise > 0)", "(X[:, 1] + noise > 0)", "logistic_risk_is_cross_entropy",
         ["other inputs"]),
        ("samples: PositiveInt = 100,", "samples: PositiveInt = 200,",
         "logistic_risk_is_cross_entropy", ["100 samples, 8 inputs, a price of 0.1"]),
        ("self.label_noise * noise) ** 2", "self.label_noise * noise - 0.1) ** 2",
         "label_noise_is_scaled_by_the_slope", ["mean gradient"]),
        ("return (theta.prod(dim=-1) - 1) ** 2", "return (theta.prod(dim=-1) - 2) ** 2",
         "label_noise_is_scaled_by_the_slope", ["value"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("problem", zoo(), ids=lambda one: type(one).__name__)
def test_rows_are_independent_and_gradients_are_right(problem):
    D = problem.theta.shape[1]
    points = 2 * normal(5, D, seed=2)
    here = problem.at(points)
    assert here().shape == (5,)
    torch.testing.assert_close(here()[3], problem.value(points[3]))
    assert torch.autograd.gradcheck(problem.value, points.requires_grad_())
    here().sum().backward()
    torch.testing.assert_close(here.theta.grad, problem.gradient(points))
    with torch.no_grad():
        torch.testing.assert_close(here.theta.grad, problem.gradient(points))
        if problem.minimum is not None:
            pl_ratio(here)
    assert not torch.equal(problem.theta, here.theta[:1])  # the original stays where it was
    assert len(list(here.parameters())) == 1


@pytest.mark.parametrize("problem", zoo(), ids=lambda one: type(one).__name__)
def test_constants_are_what_scipy_and_sampling_find(problem):
    D = problem.theta.shape[1]
    points = 4 * normal(4000, D, seed=3)
    if problem.minimum is not None:
        starts = points[:20].numpy()
        best = min(minimize(
            lambda at: float(problem.value(torch.from_numpy(at))), start,
            jac=lambda at: problem.gradient(torch.from_numpy(at)).numpy(),
            options={"gtol": 1e-9},
        ).fun for start in starts)
        assert best == pytest.approx(problem.minimum, abs=1e-8)
    if problem.minimizer is not None:
        assert float(problem.value(problem.minimizer)) == pytest.approx(problem.minimum, abs=1e-12)
        assert float(problem.gradient(problem.minimizer).norm()) < 1e-9
    if problem.pl is not None:
        assert float(pl_ratio(problem.at(points)).min()) >= problem.pl * (1 - 1e-6)
    if problem.smoothness is not None:
        slope = smoothness_ratio(problem, points[:2000], points[2000:])
        assert slope <= problem.smoothness * (1 + 1e-9)


def test_quadratic_has_the_hessian_it_is_asked_for():
    lam, rotation = torch.tensor([4.0, -2.0, 0.0], dtype=DOUBLE), torch.linalg.qr(normal(3, 3))[0]
    problem = Quadratic(lam, rotation=rotation, minimizer=normal(3))
    found = torch.autograd.functional.hessian(problem.value, normal(3, seed=1))
    torch.testing.assert_close(found, rotation @ lam.diag() @ rotation.mT)
    assert (problem.minimum, problem.pl, problem.strong_convexity) == (None, None, None)
    flat = Quadratic([0.0, 3.0, 2.0])
    assert (flat.minimum, flat.pl, flat.strong_convexity, flat.minimizer) == (0.0, 2.0, None, None)


def test_log_spaced_is_uniform_on_a_logarithmic_axis():
    problem = log_spaced(101, low=1e-4)
    steps = problem.eigenvalues.log10().diff()
    torch.testing.assert_close(steps, torch.full_like(steps, 0.04))
    assert problem.smoothness == 1.0
    assert float(problem.theta.detach().norm()) == pytest.approx(1)
    assert problem.theta.unique().numel() == 1


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_logistic_risk_is_scikit_learns(l2):
    X, y, _ = logistic()
    problem, theta = LogisticRisk(X, y, l2=l2), normal(4, seed=4)
    loss = log_loss(y.numpy(), torch.sigmoid(X @ theta).numpy())
    assert float(problem.value(theta)) == pytest.approx(loss + l2 / 2 * float(theta @ theta))
    if l2:
        model = LogisticRegression(C=1 / (l2 * len(X)), fit_intercept=False, tol=1e-10)
        model.fit(X.numpy(), y.numpy())
        np.testing.assert_allclose(problem.minimizer, model.coef_[0], atol=1e-6)


def test_noise_is_gaussian_and_leaves_values_alone():
    bowl = Quadratic([1.0, 4.0]).at(torch.ones(50_000, 2))
    rough = noisy(bowl, 0.3, torch.Generator().manual_seed(0))
    assert torch.equal(rough(), bowl())
    assert torch.equal(rough.gradient(rough.theta), bowl.gradient(bowl.theta))
    rough().sum().backward()
    noise = rough.theta.grad - bowl.gradient(bowl.theta)
    error = 0.3 / noise.numel() ** 0.5
    assert abs(float(noise.mean())) < 5 * error
    assert float(noise.std()) == pytest.approx(0.3, abs=5 * error)
    rough.theta.grad = None
    rough().sum().backward()
    assert not torch.allclose(rough.theta.grad, noise + bowl.gradient(bowl.theta))
    bowl().sum().backward()
    assert torch.equal(bowl.theta.grad, bowl.gradient(bowl.theta))  # only the twin is noisy


def test_label_noise_adds_half_its_variance():
    rng = torch.Generator().manual_seed(0)
    net = ScalarNet(label_noise=0.5, rng=rng).at(torch.tensor([[2.0, 0.5]]).expand(100_000, 2))
    losses = net().detach()  # half the squared noise
    error = float(losses.std()) / len(losses) ** 0.5
    assert float(losses.mean()) == pytest.approx(0.125, abs=5 * error)
    assert (net.value(net.theta) == 0).all()


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(UsageError, match=r"Quadratic: eigenvalues must be a list of finite"):
        Quadratic([1.0, math.nan])
    with pytest.raises(UsageError, match=r"rotation must be an orthogonal matrix; .*linalg\.qr"):
        Quadratic([1.0, 2.0], rotation=torch.ones(2, 2, dtype=DOUBLE))
    with pytest.raises(UsageError, match=r"Quadratic: start must be of shape \(B, 2\); got \(1, 3"):
        Quadratic([1.0, 2.0]).at(torch.ones(1, 3))
    with pytest.raises(UsageError, match=r"LogisticRisk: y must be an array of 0 and 1 only"):
        LogisticRisk(normal(3, 2), torch.tensor([0, 1, 2]))
    with pytest.raises(UsageError, match=r"ScalarNet: rng must be a generator with label noise"):
        ScalarNet(label_noise=0.1)
    with pytest.raises(UsageError, match=r"log_spaced: low must be in \(0, inf\); got 0"):
        log_spaced(3, low=0)
    with pytest.raises(UsageError, match=r"noisy: sigma must be in \[0, inf\); got -1"):
        noisy(SineBowl(), -1.0, torch.Generator())

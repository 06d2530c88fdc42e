import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit
from principia.optimization.problems import LogisticRisk, Quadratic, Quartic, noisy_logistic
from principia.regularization import MaxNorm, ProjectedSGD, kkt_residual, project_ball
from principia.regularization import norm_constraint as the_page
from principia.regularization.claims.norm_constraint import _radius_slopes
from principia.regularization.experiments.norm_constraint import (
    LOOSEST,
    _contours,
    _standardized,
    max_norm,
)

KEY = "regularization/norm_constraint"
ROWS, NEAREST, MATCH = "max_norm_rows_hold", "projection_is_nearest", "penalty_matches_a_radius"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("layer.weight.renorm_(2, self.dim, self.bound)",
         "layer.weight.renorm_(1, self.dim, self.bound)", ROWS),
        ("layer.weight.renorm_(2, self.dim, self.bound)",
         "layer.weight.renorm_(2, 1, self.bound)", ROWS),
        ("UNITS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)", "UNITS = (nn.Linear,)", ROWS),
        ("not bool(((prices >= 0) & prices.isfinite()).all())", "(prices := prices**2) is None",
         MATCH),
        ("return v * (radius / length).clamp(max=1)", "return v * (radius / length)", NEAREST),
        ("return v * (radius / length).clamp(max=1)", "return v.clamp(-radius, radius)", NEAREST),
        ('gradients, alpha=-group["lr"])', 'gradients, alpha=-0.01 * group["lr"])',
         "kkt_at_the_solution"),
        ('if length > group["radius"]:', "if False:", "kkt_at_the_solution"),
        ("multiplier[:, None] * theta).norm", "2 * multiplier[:, None] * theta).norm",
         "kkt_at_the_solution"),
        ("(-(gradient * theta).sum(dim=-1) / squared)",
         "(-(gradient * theta).sum(dim=-1) / squared.sqrt())", MATCH),
        ("return v / (1 + lr * mus[at, None])", "return v / (1 + 2 * lr * mus[at, None])", MATCH),
        ("return penalized_at(problem, prices).norm(dim=-1)",
         "return penalized_at(problem, prices).norm(dim=-1).round(decimals=1)",
         "nonconvex_breaks_the_match"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ('if length > group["radius"]:', 'if length > 2 * group["radius"]:',
         "projection_is_nearest", ["steps of several weights"]),
        ("return v * (radius / length)", "return 1.1 * v * (radius / length)",
         "projection_is_nearest", ["inside, the identity"]),
        ("multiplier * beyond.abs()", "multiplier * beyond", "kkt_at_the_solution",
         ["anywhere, by least squares"]),
        ("UNITS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)",
         "UNITS = (nn.Linear, nn.Conv2d, nn.Conv3d)", "max_norm_rows_hold",
         ["layers of any kind, either axis"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_projection_is_what_a_solver_finds_and_keeps_zero():
    for v, r in itertools.product(2 * normal(3, 4), (0.5, 2.0, 100.0)):
        found = minimize(
            lambda x, v: ((x - v) ** 2).sum(), np.zeros(4), args=(v.numpy(),), method="SLSQP",
            jac=lambda x, v: 2 * (x - v), tol=1e-14,
            constraints={"type": "ineq", "fun": lambda x, r=r: r**2 - (x**2).sum()},
        ).x
        np.testing.assert_allclose(project_ball(v, r), found, atol=1e-6)
    v = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    project_ball(v, 1.0).sum().backward()
    torch.testing.assert_close(v.grad, torch.ones_like(v))  # no NaN, also not in the gradient


def test_radii_are_for_each_row_and_infinite_ones_do_nothing():
    v, r = normal(4, 3), torch.tensor([0.1, 1.0, 50.0, float("inf")])
    rows = torch.stack([project_ball(one, float(its)) for one, its in zip(v, r, strict=True)])
    torch.testing.assert_close(project_ball(v, r.double()), rows)
    assert torch.equal(project_ball(v, float("inf")), v)


def test_constrained_minimum_is_that_of_scipy():
    risk = noisy_logistic(generator(), dim=4, l2=0.0)
    radius = 0.5 * float(the_page.matching_radius(risk, [0.0]))
    start = np.full(4, 0.1)
    theirs = minimize(
        lambda x: float(risk.value(torch.from_numpy(x))), start, method="SLSQP", tol=1e-14,
        jac=lambda x: risk.gradient(torch.from_numpy(x)).numpy(),
        constraints={"type": "ineq", "fun": lambda x: radius**2 - (x**2).sum()},
    ).x
    optimizer = ProjectedSGD(risk.parameters(), lr=1 / risk.smoothness, radius=radius)
    for _ in range(300):
        optimizer.step(lambda: (optimizer.zero_grad(), risk().sum().backward()))
    np.testing.assert_allclose(risk.theta.detach()[0], theirs, atol=1e-6)
    assert float(kkt_residual(risk, risk.theta.detach(), radius)[0]) < 1e-12
    inside, beyond = 0.5 * risk.theta.detach(), 2 * risk.theta.detach()
    assert float(kkt_residual(risk, inside, radius)[0]) > 0.01
    assert float(kkt_residual(risk, beyond, radius)[0]) >= radius * (1 - 1e-12)
    zero = torch.zeros(1, 4, dtype=torch.float64)
    residual, multiplier = kkt_residual(risk, zero, radius)
    torch.testing.assert_close(residual, risk.gradient(zero).norm(dim=1))
    assert float(multiplier) == 0


def test_the_group_is_one_vector():
    weights = [nn.Parameter(normal(3, 2)), nn.Parameter(normal(5, seed=1))]
    alone = nn.Parameter(torch.full((2,), 10.0, dtype=torch.float64))
    together = torch.cat([one.detach().flatten() for one in weights])
    groups = [{"params": weights}, {"params": [alone], "radius": 30.0}]
    optimizer = ProjectedSGD(groups, lr=0.5, radius=1.0)
    weights[0].grad, alone.grad = normal(3, 2, seed=2), torch.ones_like(alone)
    step = torch.cat([weights[0].grad.flatten(), torch.zeros(5, dtype=torch.float64)])
    optimizer.step()
    found = torch.cat([one.detach().flatten() for one in weights])
    torch.testing.assert_close(found, project_ball(together - 0.5 * step, 1.0))
    assert alone.tolist() == [9.5, 9.5]


@pytest.mark.parametrize("options", [{"radius": -2.0}, {"radius": float("nan")}, {"lr": 0.0}])
def test_groups_are_checked_like_the_defaults(options):
    p, q = nn.Parameter(normal(3)), nn.Parameter(normal(3))
    sentence = rf"ProjectedSGD: {next(iter(options))} must be in \(0, inf\); got "
    with pytest.raises(UsageError, match=sentence):
        ProjectedSGD([{"params": [p], **options}])
    optimizer = ProjectedSGD([p])
    with pytest.raises(UsageError, match=sentence):
        optimizer.add_param_group({"params": [q], **options})
    assert len(optimizer.param_groups) == 1
    optimizer.add_param_group({"params": [q], "radius": 0.5})
    assert [group["radius"] for group in optimizer.param_groups] == [1.0, 0.5]


def test_no_radius_is_given_that_was_not_found(monkeypatch):
    X = normal(60, 3)
    separable = LogisticRisk(X, (X[:, 0] - 0.3 * X[:, 1] > 0).long())
    assert float(the_page.matching_radius(separable, [1e-3])) < 20
    monkeypatch.setattr(the_page, "STEPS", 500)  # as many as you like: the risk falls forever
    sentence = "matching_radius: mus must be prices at which 500 steps find the solution; got 0.0. "
    with pytest.raises(UsageError, match=sentence + "Where the risk has no minimum, as with class"):
        the_page.matching_radius(separable, [1.0, 0.0, 0.1])
    with pytest.raises(UsageError, match=r"radii must be radii in which 500 steps .* got 100\.0\."):
        the_page.in_balls(separable, torch.tensor([1.0, 100.0], dtype=torch.float64))


def test_the_loosest_ball_of_the_path_has_a_solution_that_is_found():
    cancer = load_breast_cancer()
    X, mu = torch.from_numpy(cancer.data), torch.tensor([LOOSEST["quick"]])
    risk = LogisticRisk(_standardized(X, X), torch.from_numpy(cancer.target))
    radius = the_page.penalized_at(risk, mu.double(), tol=1e-8).norm(dim=1)
    residual, multiplier = kkt_residual(risk, the_page.in_balls(risk, radius, tol=1e-8), radius)
    assert float(residual) < 1e-6
    assert float(multiplier) == pytest.approx(float(mu), rel=1e-2)


def test_the_path_of_radii_is_drawn_at_its_own_prices():
    seen = page(KEY).claim("nonconvex_breaks_the_match").observe(0, {"grid": 1000}).evidence
    drawn = seen.plot.series[0]
    risk = noisy_logistic(Seed(0).torch(), dim=5, samples=200, l2=0.0)
    places = [0, len(drawn.x) // 2, len(drawn.x) - 1]
    expected = the_page.matching_radius(risk, [float(drawn.x[one]) for one in places])
    assert [float(drawn.y[one]) for one in places] == pytest.approx(expected.tolist(), rel=1e-9)
    assert "steps of ln μ 0.0184, slope at most 0.3" in seen.detail


def test_the_slope_of_the_radius_is_its_derivative():
    risk, mus = noisy_logistic(generator(), dim=4, l2=0.0), torch.tensor([0.003, 0.1, 5.0]).double()
    above, below = (the_page.matching_radius(risk, mus * factor) for factor in (1.001, 0.999))
    slopes = (below - above) / np.log(1.001 / 0.999)
    torch.testing.assert_close(_radius_slopes(risk, mus), slopes, rtol=1e-4, atol=0)


def test_matching_radius_is_that_of_scikit_learn():
    X, mus = normal(150, 5), [0.003, 0.1, 2.0]
    y = (X[:, 0] + normal(150, seed=1) > 0).long()
    for mu, radius in zip(mus, the_page.matching_radius(LogisticRisk(X, y), mus), strict=True):
        model = LogisticRegression(C=1 / (150 * mu), fit_intercept=False, tol=1e-12, max_iter=1000)
        theirs = np.linalg.norm(model.fit(X.numpy(), y.numpy()).coef_)
        assert float(radius) == pytest.approx(theirs, rel=1e-5)
    bowl = Quadratic([1.0, 4.0], minimizer=torch.tensor([3.0, 4.0]))
    expected = torch.tensor([[3.0 / 2, 16.0 / 5]], dtype=torch.float64).norm()
    assert float(the_page.matching_radius(bowl, [1.0])) == pytest.approx(float(expected))


@pytest.mark.parametrize("make", [
    lambda: nn.Linear(6, 4), lambda: nn.Conv1d(2, 4, 3), lambda: nn.Conv2d(2, 4, 3),
    lambda: nn.Conv3d(2, 4, 2), lambda: weight_norm(nn.Linear(6, 4)),
])
def test_every_kind_of_layer_is_cut_to_the_nearest_rows(make):
    torch.manual_seed(0)
    layer = make().double()
    with torch.no_grad():
        for one in layer.parameters():
            one.mul_(torch.linspace(0.1, 3, len(one)).reshape(-1, *[1] * (one.ndim - 1)))
    old, bias = layer.weight.detach().flatten(1).clone(), layer.bias.detach().clone()
    bound = float(old.norm(dim=1).median())
    model = nn.Sequential(nn.ReLU(), nn.Sequential(layer))
    assert MaxNorm(bound)(model) is model
    rows = layer.weight.detach().flatten(1)
    torch.testing.assert_close(rows, project_ball(old, bound), rtol=1e-5, atol=1e-6)
    assert torch.equal(layer.bias, bias)


def test_outgoing_weights_and_rows_of_zeros():
    layer = nn.Linear(3, 2)
    layer.weight.data = torch.tensor([[3.0, 0.0, 0.3], [4.0, 0.0, 0.4]])
    MaxNorm(1.0, dim=1)(layer)
    torch.testing.assert_close(layer.weight.data.norm(dim=0), torch.tensor([1.0, 0.0, 0.5]))
    layer.weight.data.zero_()
    MaxNorm(1.0)(layer)
    assert torch.equal(layer.weight, torch.zeros(2, 3))


def test_the_part_holds_the_rows_in_a_training_and_the_offer_builds_it():
    model, x = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), torch.ones(20, 4)
    offered = max_norm.build(Run(), {"bound": 0.5})
    assert (offered.bound, offered.dim) == (0.5, 0)
    sgd = torch.optim.SGD(model.parameters(), lr=5.0)
    fit(model, (x, torch.arange(20) % 2), Supervised(F.cross_entropy), sgd, steps=20,
        callbacks=[offered])
    for layer in (model[0], model[2]):
        assert float(layer.weight.data.norm(dim=1).max()) <= 0.5 * (1 + 1e-6)


def test_in_the_picture_ball_and_prices_meet():
    X = normal(200, 2)
    figure = _contours(X, (X[:, 0] - X[:, 1] + 0.3 * normal(200, seed=1) > 0).long())
    circle, path, ball = figure.data[1:4]
    radius = np.hypot(circle.x, circle.y)
    np.testing.assert_allclose(radius, radius[0], rtol=1e-5)
    assert np.hypot(*ball.x, *ball.y) == pytest.approx(radius[0], rel=1e-5)
    gaps = np.hypot(np.subtract(path.x, ball.x[0]), np.subtract(path.y, ball.y[0]))
    assert gaps.min() < 0.1  # of a path of 61 points


def test_bad_input_is_told_in_one_sentence():
    v, bowl = normal(2, 3), Quadratic([1.0, 2.0, 3.0])
    for r in (0.0, -1.0, float("nan")):
        with pytest.raises(UsageError, match=rf"project_ball: r must be in \(0, inf\]; got {r}"):
            project_ball(v, r)
    for r in (0.0, float("inf")):
        with pytest.raises(UsageError, match=rf"kkt_residual: r must be in \(0, inf\); got {r}"):
            kkt_residual(bowl, v, r)
    with pytest.raises(UsageError, match=r"MaxNorm: bound must be in \(0, inf\); got 0"):
        MaxNorm(0)
    with pytest.raises(UsageError, match="MaxNorm: dim must be one of 0, 1; got 2"):
        MaxNorm(1.0, dim=2)
    with pytest.raises(UsageError, match="model must be one with Linear or Conv layers; got 'R"):
        MaxNorm(1.0)(nn.ReLU())
    with pytest.raises(UsageError, match=r"ProjectedSGD: radius must be in \(0, inf\); got -2"):
        ProjectedSGD([nn.Parameter(v)], radius=-2.0)
    for bad in ([], [-1.0], [float("nan")]):
        with pytest.raises(UsageError, match=r"mus must be one or more values, each in \[0, inf\)"):
            the_page.matching_radius(bowl, bad)
    with pytest.raises(UsageError, match=r"Quartic: smoothness must be in \(0, inf\); got None"):
        the_page.matching_radius(Quartic(), [1.0])

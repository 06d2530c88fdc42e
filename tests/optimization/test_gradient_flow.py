import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from planting import assert_caught
from principia.lab.params import UsageError
from principia.optimization import (
    GradientFlow,
    Quadratic,
    Quartic,
    SineBowl,
    heun,
    modified_objective,
)

KEY = "optimization/gradient_flow"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("return -self.problem.gradient(theta)", "return self.problem.gradient(theta)",
         "flow_dissipates_energy"),
        ("(-times[:, None, None] * problem.eigenvalues)", "(-2 * times[:, None, None] * "
         "problem.eigenvalues)", "quadratic_closed_form"),
        ("@ Q * shrink) @ Q.mT", "@ Q * shrink) @ Q", "quadratic_closed_form"),
        ("return problem.center + ((start", "return ((start", "quadratic_closed_form"),
        ("self.weight * (slopes**2)", "self.weight * 2 * (slopes**2)", "gd_follows_modified_flow"),
        ("problem.gradient(path[-1] - lr * slope_here)", "problem.gradient(path[-1])",
         "gd_is_euler"),
        ("(-times[:, None, None] * problem.eigenvalues)", "(-times[:, None, None] / 100 * "
         "problem.eigenvalues)", "flow_convex_rate"),
        ("return -self.problem.gradient(theta)", "return -0.05 * self.problem.gradient(theta)",
         "flow_pl_rate"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("torch.from_numpy(found.y.T.copy())", "2 * torch.from_numpy(found.y.T.copy())",
         "flow_solves_its_equation", ["no time"]),
        ("theta.requires_grad else theta.detach()", "theta.requires_grad else theta",
         "gd_follows_modified_flow", ["points that are looked at"]),
        ("path[-1] - lr / 2 * (slope_here", "path[-1] + lr / 2 * (slope_here",
         "heun_is_of_order_two", ["on a quadratic"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_the_flow_is_scipys_on_a_handwritten_field():
    bowl, t = SineBowl().at(torch.tensor([[2.5]])), [0.0, 0.3, 1.0]
    theirs = solve_ivp(
        lambda _, x: -(2 * x + 3 * np.sin(2 * x)), (0, 1), [2.5], t_eval=t, rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(GradientFlow(bowl).solve(t)[:, 0, 0], theirs.y[0], atol=1e-8)


def test_the_flow_of_a_quartic_is_known():
    starts = torch.tensor([[1.0], [2.0], [-3.0]], dtype=torch.float64)
    t = torch.linspace(0, 5, 11, dtype=torch.float64)
    exact = starts / (1 + 2 * starts**2 * t[:, None, None]).sqrt()
    found = GradientFlow(Quartic().at(starts)).solve(t)
    torch.testing.assert_close(found, exact, atol=1e-8, rtol=0)


def test_heun_is_the_second_order_taylor_polynomial_on_a_quadratic():
    z = 0.3 * 2.0
    assert heun(Quadratic([2.0]), 0.3, 3)[-1].item() == pytest.approx((1 - z + z * z / 2) ** 3)


def test_the_modified_objective_has_the_gradient_of_both_terms():
    bowl = modified_objective(Quadratic([2.0, 5.0]), 0.1)
    theta = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    lam = torch.tensor([2.0, 5.0], dtype=torch.float64)
    torch.testing.assert_close(bowl.gradient(theta), lam * theta + 0.05 * lam**2 * theta)
    with torch.no_grad():
        assert bowl.value(theta).item() == pytest.approx(1 + 10 + 0.025 * (4 + 100))


def test_time_may_stand_still():
    bowl = SineBowl().at(torch.tensor([[2.5]]))
    assert GradientFlow(bowl).solve([0.0]).item() == 2.5
    assert GradientFlow(bowl).solve([0.0, 0.0, 1.0]).shape == (3, 1, 1)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: GradientFlow(SineBowl()).solve([1.0, 0.5]), "never decrease; got"),
        (lambda: GradientFlow(SineBowl()).solve([-1.0]), "GradientFlow: t must be one or more"),
        (lambda: GradientFlow(SineBowl()).solve([]), "GradientFlow: t must be one or more"),
        (lambda: GradientFlow(SineBowl(), method="exact"), "GradientFlow: method must be RK45"),
        (lambda: GradientFlow(SineBowl().float()), "of float64 for tolerances below 1e-6"),
        (lambda: heun(SineBowl(), -1.0, 3), "heun: lr must be"),
    ],
)
def test_bad_input_gets_a_sentence(wrong, sentence):
    with pytest.raises(UsageError, match=sentence):
        wrong()

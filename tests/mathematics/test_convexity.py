import math

import numpy as np
import pytest
import torch
from scipy.optimize import fixed_point as scipy_fixed_point
from scipy.optimize import minimize
from torch.func import grad

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.mathematics.convexity import (
    chord_violation,
    condition_number,
    fixed_point,
    hessian_min_eig,
    in_epigraph,
    is_convex_set,
    lagrange,
    lipschitz,
    strong_convexity,
    tangent_violation,
)

KEY = "mathematics/convexity"


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def square(x):
    return x.square().sum()


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("at_x + (slopes * (y - x))", "at_x + (slopes * (x - y))", "strong_convexity"),
        ('"its Hessian"))[:, 0]', '"its Hessian"))[:, -1]', "strong_convexity"),
        ("    return _batched(member, middle)", "    return _batched(member, x)", "convex_set"),
        ("return values <= t + tol", "return values >= t - tol", "convex_function"),
        ("return quotients.min(), hess", "return quotients.max(), hess", "strong_convexity"),
        ("    size = vmap(norm)\n", "    size = vmap(torch.linalg.vector_norm)\n",
         "lipschitz_is_sup_slope"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("return weight[:, None] * x + (1 - weight[:, None]) * y, weight",
         "return (1 - weight[:, None]) * x + weight[:, None] * y, weight", "convex_set", ["gap"]),
        ("inside - weight * at_x - (1 - weight) * at_y", "inside - at_x - at_y",
         "strong_convexity", ["chords"]),
        ("inside - weight * at_x - (1 - weight) * at_y",
         "weight * at_x + (1 - weight) * at_y - inside", "strict_not_strong", ["strictly convex"]),
        ("at_x + (slopes * (y - x))", "at_x + (slopes * (x - y))", "strong_convexity",
         ["tangents"]),
        ("size(y - x)).max()", "size(y - x)).mean()", "lipschitz_is_sup_slope",
         ["closer pairs", "x ↦ Wx in the 1-norm", "x ↦ Wx in the 2-norm",
          "x ↦ Wx in the inf-norm"]),
        ("large / small, math.inf)", "(large / small) ** 2, math.inf)", "condition_number",
         ["H, with other signs, H², L/μ"]),
        ("large / small, math.inf)", "large - small, math.inf)", "condition_number", ["A'A"]),
        ("large / small, math.inf)", "small / large, math.inf)", "condition_number",
         ["at least 1"]),
        ("small > rounding * large", "small > rounding", "condition_number",
         ["singular, of any size"]),
        ("rounding = max(H.shape[-2:])", "rounding = min(H.shape[-2:])", "condition_number",
         ["where rounding begins"]),
        ("factor**powers * first", "factor**powers * sizes[0]", "contraction", ["its bounds"]),
        ("(1 + float(last.norm()))", "float(last.norm())", "contraction", ["ends at rounding"]),
        ("return values <= t + tol * (1 + t.abs())", "return values <= t + tol * (1 + t)",
         "convex_set", ["epigraph"]),
        ("seen = max(seen, ", "seen = min(seen or 1, ", "contraction",
         ["stops as soon as it may"]),
        ("f(z[:count]) - z[count:] @", "f(z[:count]) + z[count:] @", "lagrangian", ["γ"]),
        ("return z[:count], z[count:]", "return x0, z[count:]", "lagrangian", ["x*"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_testers_are_their_formulas_row_by_row():
    x, y, lam = normal(40, 3), normal(40, 3, seed=1), normal(40, seed=2).sigmoid()

    def f(x):
        return x.sin().exp().sum() + x[0] * x[1]

    for k in range(40):
        a, b, t = x[k], y[k], float(lam[k])
        chord = f(t * a + (1 - t) * b) - t * f(a) - (1 - t) * f(b)
        torch.testing.assert_close(chord_violation(f, x, y, lam)[k], chord)
        tangent = f(a) + grad(f)(a) @ (b - a) - f(b)
        torch.testing.assert_close(tangent_violation(f, x, y)[k], tangent)
        H = torch.autograd.functional.hessian(f, a)
        torch.testing.assert_close(hessian_min_eig(f, x)[k], torch.linalg.eigvalsh(H)[0])
    one = chord_violation(f, x, y, 0.25)
    torch.testing.assert_close(one, chord_violation(f, x, y, torch.full((40,), 0.25).double()))
    assert chord_violation(f, x, y, 0.0).abs().max() == 0


def test_chunks_do_not_change_values_and_no_graph_is_left():
    x, y = normal(300, 2000), normal(300, 2000, seed=1)  # more than one chunk
    w = normal(2000, seed=2).requires_grad_()
    found = chord_violation(lambda x: (w * x).square().sum(), x, y, 0.5)
    exact = -((w * (x - y)).square().sum(dim=1) / 4).detach()
    torch.testing.assert_close(found, exact)
    assert not found.requires_grad


def test_single_precision_stays_single():
    x, y = normal(5, 2).float(), normal(5, 2, seed=1).float()
    assert chord_violation(square, x, y, 0.5).dtype == torch.float32
    assert lipschitz(square, x, y).dtype == torch.float32
    assert lagrange(square, torch.sum, 1.0, x[0])[0].dtype == torch.float32


def test_epigraph_of_one_point_and_of_many():
    x = normal(6, 3)
    heights = x.square().sum(dim=1)
    assert in_epigraph(square, x, heights, tol=1e-12).all()
    assert not in_epigraph(square, x, heights - 0.1).any()
    assert in_epigraph(square, x[0], heights[0] + 0.1)


def test_members_of_a_union_of_intervals_show_the_gap():
    x, y = torch.tensor([[0.5], [0.5]]), torch.tensor([[0.9], [2.5]])
    found = is_convex_set(lambda p: ((p > 0) & (p < 1) | (p > 2)).all(), x, y, 0.5)
    assert found.tolist() == [True, False]


@pytest.mark.parametrize("order", [1, 2, math.inf])
def test_slopes_of_linear_maps_never_exceed_the_operator_norm(order):
    W, x, y = normal(4, 3), normal(5000, 3, seed=1), normal(5000, 3, seed=2)
    found = lipschitz(lambda x: W @ x, x, y, norm=lambda v: torch.linalg.vector_norm(v, order))
    exact = torch.linalg.matrix_norm(W, order)
    assert 0.8 * exact < found <= exact * (1 + 1e-12)


def test_smoothness_of_a_quadratic_also_where_it_is_indefinite():
    H = torch.diag(torch.tensor([-10.0, 1.0], dtype=torch.float64))
    x, way = normal(1, 2), torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    assert lipschitz(grad(lambda x: x @ H @ x / 2), x, x + way) == pytest.approx(10)
    assert float(strong_convexity(lambda x: x @ H @ x / 2, x, x + way)[0]) == pytest.approx(-10)


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6), (2, 5, 4, 4)])
def test_condition_number_is_torchs_and_numpys(shape):
    A = normal(*shape)
    torch.testing.assert_close(condition_number(A), torch.linalg.cond(A))
    np.testing.assert_allclose(condition_number(A), np.linalg.cond(A.numpy()))
    assert condition_number(torch.zeros(2, 2)) == math.inf
    assert condition_number(torch.ones(3, 3)) == math.inf


def test_fixed_point_is_scipys():
    start = torch.tensor([1.2, 1.3], dtype=torch.float64)
    a, b = torch.tensor([10.0, 12.0]).double(), torch.tensor([3.0, 5.0]).double()

    def f(x):
        return (a / (x + b)).sqrt()

    theirs = scipy_fixed_point(lambda x: np.sqrt(a.numpy() / (x + b.numpy())), start.numpy())
    trace, bounds = fixed_point(f, start, 1e-12)
    np.testing.assert_allclose(trace[-1], theirs, atol=1e-7)
    assert trace.shape[0] == bounds.shape[0]
    assert torch.equal(trace[0], start)
    still, _ = fixed_point(lambda x: 0 * x + 2, start)
    assert still[-1].tolist() == [2, 2]


def test_several_constraints_and_prices_against_slsqp():
    H, A, c = normal(5, 5), normal(2, 5, seed=1), torch.tensor([1.0, -0.5]).double()
    H = H @ H.mT + torch.eye(5)

    def f(x):
        return x @ H @ x / 2 + x.exp().sum()

    x, prices = lagrange(f, lambda x: A @ x, c, torch.zeros(5, dtype=torch.float64))
    theirs = minimize(
        lambda x: float(f(torch.tensor(x))), np.zeros(5), method="SLSQP",
        jac=lambda x: grad(f)(torch.tensor(x)).numpy(), options={"ftol": 1e-14, "maxiter": 500},
        constraints={"type": "eq", "fun": lambda x: A.numpy() @ x - c.numpy()},
    )
    np.testing.assert_allclose(x, theirs.x, atol=1e-5)
    torch.testing.assert_close(grad(f)(x), A.mT @ prices)
    torch.testing.assert_close(A @ x, c)
    assert prices.shape == (2,)


def test_solutions_carry_no_graph():
    w, start = normal(3).requires_grad_(), normal(3, seed=1).requires_grad_()
    for at in (start, start.detach()):
        x, price = lagrange(lambda x: (x - w) @ (x - w), lambda x: w @ x, 1.0, at)
        assert not x.requires_grad
        assert not price.requires_grad
        assert float(w.detach() @ x) == pytest.approx(1)


def test_newton_is_damped_where_the_whole_step_leads_astray():
    start = torch.tensor([3.0, -2.0], dtype=torch.float64)
    x, price = lagrange(lambda x: x[0] + x[1], lambda x: (x**4).sum(), 2.0, start)
    assert (x**4).sum() == pytest.approx(2)
    torch.testing.assert_close(torch.ones(2).double(), 4 * price * x**3)


def test_the_numbers_of_the_misprint_about_compositions():
    one, two = torch.tensor([[1.0]]).double(), torch.tensor([[2.0]]).double()
    rise = chord_violation(lambda x: x.square().sum().tanh(), one, two, 0.5)
    assert math.tanh(2.25) == pytest.approx(0.978, abs=5e-4)
    assert float(rise) == pytest.approx(0.978 - 0.880, abs=1e-3)


def test_experiment_draws_slices_and_surface_and_permuting_changes_no_loss():
    outcome = page(KEY).experiments()["loss_slices"](networks=10, pairs=400, hidden=4)
    assert set(outcome.figures) == {"slices", "surface"}
    surface = np.array(outcome.figures["surface"].data[0].z)
    corner, first, second = surface[7, 7], surface[7, 33], surface[33, 7]
    assert outcome.metrics["logistic_violations"] == 0
    assert max(first, second) - corner < 0.7  # log10, a little beside the three minima


def test_bad_input_is_told_in_one_sentence():
    x, y = normal(3, 2), normal(3, 2, seed=1)
    for lam in (1.5, -0.1, math.nan, torch.tensor([0.5, 0.5, 2.0])):
        for call in (lambda lam: chord_violation(square, x, y, lam),
                     lambda lam: is_convex_set(lambda p: p.norm() < 99, x, y, lam)):
            with pytest.raises(UsageError, match=r"lam must be in \[0, 1\]; got"):
                call(lam)
    away = torch.cat([x.abs() + 1, torch.tensor([[1.0, -3.0]])])
    sentence = r"inside the domain of f, .*; got '.* not finite at \[1.0, -3.0\]'"
    for call in (lambda f: chord_violation(f, away, away.abs(), 0.5),
                 lambda f: tangent_violation(f, away, away.abs()),
                 lambda f: hessian_min_eig(f, away),
                 lambda f: strong_convexity(f, away, away + 1),
                 lambda f: lipschitz(f, away, away + 1)):
        with pytest.raises(UsageError, match=sentence):
            call(lambda x: x.sqrt().sum())
    with pytest.raises(UsageError, match=r"inside the domain of f.* not finite at \[0.0, 0.0\]"):
        chord_violation(lambda x: 1 / x @ x, x[:1], -x[:1], 0.5)
    for call in (strong_convexity, lipschitz):
        with pytest.raises(UsageError, match="y must be another point than x in every row"):
            call(square, x, torch.cat([y[:2], x[2:]]))
    with pytest.raises(UsageError, match="f must be a function with one number as value"):
        chord_violation(torch.sin, x, y, 0.5)
    with pytest.raises(UsageError, match="f must be a function with one number as value"):
        hessian_min_eig(torch.sin, x)
    with pytest.raises(UsageError, match="x must be members of the set"):
        is_convex_set(lambda p: p.norm() < 0, x, y, 0.5)
    with pytest.raises(UsageError, match="H must be finite and not empty"):
        condition_number(torch.tensor([[math.nan]]))


def test_steps_of_equal_size_are_no_contraction_and_bounds_are_never_negative():
    start = torch.tensor([1.0], dtype=torch.float64)
    for f in (lambda x: x + 1, lambda x: -x):
        with pytest.raises(UsageError, match="steps must be enough to come within"):
            fixed_point(f, start, steps=20)
    moves = iter([5.0, 3.0, 3 + 2e-15, 3.0, 3 - 8e-15, 3 + 4e-15, 3.0, 3.0])  # as rounding might
    _, bounds = fixed_point(lambda x: 0 * x + next(moves), start, 1e-20)
    assert (bounds >= 0).all()
    found, _ = fixed_point(torch.cos, start, 1e-20)  # nearer than rounding lets it come
    assert float(found[-1].cos() - found[-1]) == pytest.approx(0, abs=1e-14)


def test_maps_that_are_no_contractions_are_refused():
    start = torch.tensor([1.0], dtype=torch.float64)
    with pytest.raises(UsageError, match="f must be a contraction; got 'a step 2 times"):
        fixed_point(lambda x: 2 * x, start)
    with pytest.raises(UsageError, match=r"f must be a contraction with rate 0\.5; got"):
        fixed_point(lambda x: 0.9 * x, start, rate=0.5)
    with pytest.raises(UsageError, match="steps must be enough to come within 1e-08; got 5"):
        fixed_point(lambda x: 0.9 * x, start, steps=5)


@pytest.mark.parametrize(
    ("g", "c"), [(square, 1.0), (lambda x: torch.stack([x.sum(), 2 * x.sum()]), 0.0)]
)
def test_a_singular_kkt_matrix_is_refused(g, c):
    with pytest.raises(UsageError, match=r"nonsingular KKT matrix; .* Drop repeated constraints"):
        lagrange(lambda x: x[0], g, c, torch.zeros(2, dtype=torch.float64))


def test_constraints_that_nothing_meets_are_refused():
    with pytest.raises(UsageError, match="a start that leads to a stationary point"):
        lagrange(lambda x: x @ x + x[0], lambda x: x.exp().sum(), -1.0, normal(2))

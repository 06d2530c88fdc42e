import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import approx_fprime, minimize, rosen, rosen_der
from torch import nn
from torch.func import grad, hessian, jacrev, jvp

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.mathematics.taylor import (
    TaylorPolynomial,
    finite_difference,
    gradient_check,
    integral_remainder,
    newton,
    quadratic_model,
    remainder,
    taylor_coefficients,
)

KEY = "mathematics/taylor"


def rosenbrock(x):
    return 100 * (x[1:] - x[:-1] ** 2).square().sum() + (1 - x[:-1]).square().sum()


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("torch.as_tensor(weights / 2)", "torch.as_tensor(weights)", "line_integral"),
        ('"x", x) - self.a', '"x", x)', "taylor_coefficients"),
        ("self.coefficients.flip(0)", "self.coefficients", "taylor_coefficients"),
        ("TaylorPolynomial(taylor_coefficients(f, a, m), a)(x)",
         "TaylorPolynomial(taylor_coefficients(f, a, m)[:-1], a)(x)", "lagrange_remainder"),
        ("lambda gap: gap**m / math.factorial(m)", "lambda gap: gap**m", "integral_remainder"),
        ("(2 * eps if method", "(eps if method", "finite_difference_orders"),
        ('-eps if method == "central" else 0.0', "-eps", "finite_difference_orders"),
        ("(places == place).to(flat)", "(places == place)", "finite_difference_floor"),
        ("float((exact - measured).abs()", "float((exact + measured).abs()",
         "finite_difference_floor"),
        ("(d * products.view(d.shape))", "(d * d)", "second_order_model"),
        ("_factor(H, damping)", "_factor(H, 0.0)", "newton_on_quadratic"),
        ("g, H = gradient(x), hessian(x)", "g, H = gradient(x), hessian(x0)",
         "newton_quadratic_convergence"),
        ("step = -torch.cholesky_solve(g[:, None], _factor(H, damping))[:, 0]",
         "_factor(H, damping); step = -g", "newton_affine_invariant"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("if line_search else 1.0", "if True else 1.0", "newton_quadratic_convergence",
         ["halved until it is worth it"]),
        ("one.detach() / math.factorial(k)", "one.detach() / max(k, 1)", "taylor_coefficients",
         ["sin: coefficients", "exp: coefficients", "log(1+x): coefficients",
          "1/(1-x): coefficients", "of polynomials"]),
        ('(1 / 2 if method == "forward" else 1 / 3)', '(1 / 3 if method == "forward" else 1 / 2)',
         "finite_difference_floor",
         ["forward: distance to the best step", "central: distance to the best step"]),
        ('(1 / 2 if method == "forward" else 1 / 3)', '(1 / 3 if method == "forward" else 1 / 2)',
         "finite_difference_orders", ["steps by default"]),
        ('(eps, -eps if method == "central" else 0.0)', "(eps, eps)", "finite_difference_floor",
         ["forward: rounding", "central: rounding"]),
        ("float((exact - measured).abs()", "float((exact + measured).abs()",
         "finite_difference_floor", ["forward: wrong gradients", "central: wrong gradients",
                                     "forward: modules", "central: modules"]),
        ("(places == place).to(flat)", "(places <= place).to(flat)", "finite_difference_orders",
         ["of tensors"]),
        ("H = H + damping * eye", "H = H + (damping + 1e-9) * eye", "newton_on_quadratic",
         ["in other units"]),
        ("for _ in range(steps):", "for _ in range(min(steps, 2)):", "newton_quadratic_convergence",
         ["gradient at the minimum"]),
        ("ARMIJO, HALVINGS = 1e-4", "ARMIJO, HALVINGS = 2e-4", "newton_quadratic_convergence",
         ["halved until it is worth it"]),
        (".sum(dim=-1) / 2", ".sum(dim=-1)", "second_order_model", ["log-sum-exp"]),
        ("H - 2 * eigenvalues[0] * eye", "H - 3 * eigenvalues[0] * eye", "newton_on_quadratic",
         ["indefinite"]),
        ('raise usage_error("newton", "f", "a function with a nonsingular Hessian", got, hint)',
         "return eye", "newton_on_quadratic", ["singular, refused"]),
        ("if split is not None and math.isfinite(error):", "if False:", "finite_difference_floor",
         ["restless gradients, refused"]),
        ('"x0")\n    x0 = x0.detach()', '"x0")', "second_order_model", ["no graph to x0"]),
        ("            return length\n", "            return length / 2\n", "newton_on_quadratic",
         ["with line search", "damped"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("f", [torch.tanh, lambda x: (x.sin().exp() * x).sigmoid(), torch.erf])
def test_coefficients_are_those_of_nested_forward_mode(f):
    points = normal(4)
    derivative, expected = f, []
    with warnings.catch_warnings():  # torch loads its formulas by torch.jit, which it deprecates
        warnings.simplefilter("ignore", DeprecationWarning)
        for k in range(5):
            expected.append(derivative(points) / math.factorial(k))
            derivative = (lambda g: lambda t: jvp(g, (t,), (torch.ones_like(t),))[1])(derivative)
    torch.testing.assert_close(taylor_coefficients(f, points, 4), torch.stack(expected))


def test_polynomials_are_their_own_expansion_around_every_point():
    ours = np.polynomial.Polynomial([3.0, -1.0, 0.0, 2.0, 0.5])

    def f(x):
        return 3 - x + 2 * x**3 + 0.5 * x**4

    a, x = normal(6), normal(9, 1, seed=1)
    coefficients = taylor_coefficients(f, a, 6)
    for k in range(7):
        exact = (ours.deriv(k) if k else ours)(a.numpy()) / math.factorial(k)
        np.testing.assert_allclose(coefficients[k], exact, atol=1e-12)
    np.testing.assert_allclose(TaylorPolynomial(coefficients, a)(x), (f(x) + 0 * a), atol=1e-11)
    assert taylor_coefficients(lambda x: 0 * x + 7, 1.0, 3).tolist() == [7, 0, 0, 0]
    assert taylor_coefficients(torch.ones_like, 1.0, 2).tolist() == [1, 0, 0]
    assert TaylorPolynomial(coefficients[:1, 0], a[0])(x).shape == x.shape


def test_constants_that_learn_are_constants():
    w = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    assert taylor_coefficients(lambda x: w * x, 1.0, 3).tolist() == [2, 2, 0, 0]


def test_points_that_learn_leave_no_graph():
    x = normal(4).requires_grad_()
    assert gradient_check(lambda x: x.sin().sum(), x) < 1e-9
    assert not quadratic_model(lambda x: x.sin().sum(), x)(normal(4)).requires_grad
    assert not newton(lambda x: x.cosh().sum(), x, 2).requires_grad


def test_coefficients_need_no_grad_mode_and_leave_no_graph():
    with torch.no_grad():
        found = taylor_coefficients(torch.exp, normal(3).requires_grad_(), 2)
    assert not found.requires_grad


@pytest.mark.parametrize("m", [0, 2, 5, 9])
def test_integral_is_that_of_scipy_and_keeps_digits_that_the_difference_loses(m):
    def integrand(t):
        return math.exp(t) * (0.7 - t) ** m / math.factorial(m)

    expected = quad(integrand, -0.2, 0.7, epsabs=1e-14)[0]
    assert float(integral_remainder(torch.exp, -0.2, 0.7, m)) == pytest.approx(expected, rel=1e-12)
    x = torch.tensor([0.01, -0.01], dtype=torch.float64)
    series = sum(x**k / math.factorial(k) for k in range(m + 1, m + 12))
    torch.testing.assert_close(integral_remainder(torch.exp, 0.0, x, m), series, rtol=1e-13, atol=0)
    assert (remainder(torch.exp, 0.0, x, m) - series).abs().max() < 1e-15


def test_differences_are_scipys_and_jacobians_have_the_numerator_layout():
    x, A = normal(5), normal(3, 5, seed=1)
    theirs = approx_fprime(x.numpy(), rosen, 1.5e-8)
    ours = finite_difference(rosenbrock, x, 1.5e-8, "forward")
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)

    def f(x):
        return (A @ x).tanh()

    torch.testing.assert_close(finite_difference(f, x), jacrev(f)(x), atol=1e-9, rtol=0)
    some = finite_difference(f, x, coordinates=torch.tensor([3, 0]))
    torch.testing.assert_close(some, jacrev(f)(x)[:, [3, 0]], atol=1e-9, rtol=0)
    X = normal(2, 3)
    assert finite_difference(lambda X: X @ X.mT, X).shape == (2, 2, 2, 3)
    assert finite_difference(torch.sin, X[0, 0]).shape == ()
    many = normal(700)  # more than one chunk
    torch.testing.assert_close(finite_difference(lambda x: x.sin().sum(), many), many.cos(),
                               atol=1e-7, rtol=0)


class Wrong(torch.autograd.Function):
    """The square, with 2.2 x for a derivative."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, sent):
        return 2.2 * ctx.saved_tensors[0] * sent


class WrongLayer(nn.Linear):
    def forward(self, input):
        return Wrong.apply(input @ self.weight.mT)


def test_gradient_check_finds_wrong_derivatives_of_functions_and_modules():
    x = normal(4)
    assert gradient_check(lambda x: Wrong.apply(x).sum(), x) == pytest.approx(0.1 / 1.1, rel=1e-6)
    assert gradient_check(lambda x: x.square().sum(), x) < 1e-9
    assert gradient_check(lambda x: x.square().sum(), x, method="forward") < 1e-7
    assert gradient_check(lambda x: x.square().sum(), x.float()) < 1e-2
    assert gradient_check(lambda x: 0 * x, x) == 0
    rng_state = torch.get_rng_state()
    layer = nn.utils.skip_init(WrongLayer, 3, 2, bias=False).double()
    layer.weight.data = normal(2, 3)
    assert gradient_check(layer, normal(5, 3)) == pytest.approx(0.1 / 1.1, rel=1e-6)
    net = nn.utils.skip_init(nn.Linear, 3, 2).double()
    net.weight.data, net.bias.data = normal(2, 3), normal(2)
    net = nn.Sequential(net, nn.Tanh(), nn.Softmax(dim=-1), nn.Dropout(0.5)).eval()
    assert gradient_check(net, normal(5, 3)) < 1e-9
    assert torch.equal(torch.get_rng_state(), rng_state)
    with pytest.raises(UsageError, match=r"f must be a function without dice; .* call .eval\(\)"):
        gradient_check(net.train(), normal(5, 3))


def test_complaints_of_gradcheck_about_a_module_are_raised():
    class Restless(torch.autograd.Function):
        generate_vmap_rule = True
        calls = 0

        @staticmethod
        def forward(x):
            return 1 * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, sent):
            Restless.calls += 1
            return sent * (1 + 1e-9 * Restless.calls)

    class Layer(nn.Module):
        def forward(self, x):
            return Restless.apply(x)

    with pytest.raises(RuntimeError, match="not reentrant"):
        gradient_check(Layer(), normal(2))


def test_quadratic_model_is_the_dense_formula_and_batches():
    A, x0, d = normal(6, 4), normal(4, seed=1), normal(2, 3, 4, seed=2)

    def f(x):
        return (A @ x).sin().exp().sum()

    H = hessian_of(f, x0)
    dense = f(x0) + d @ grad(f)(x0) + torch.einsum("abi,ij,abj->ab", d, H, d) / 2
    torch.testing.assert_close(quadratic_model(f, x0)(d), dense)
    torch.testing.assert_close(quadratic_model(f, x0)(d[0, 0]), dense[0, 0])


def hessian_of(f, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return hessian(f)(x)


@pytest.mark.parametrize("start", [[-1.2, 1.0], [0.0, 3.0], [2.0, -1.0, 0.5, 4.0]])
def test_newton_finds_scipys_minimum_also_through_indefinite_hessians(start):
    trace = newton(rosenbrock, torch.tensor(start, dtype=torch.float64), 60)
    theirs = minimize(rosen, start, jac=rosen_der, method="BFGS").x
    np.testing.assert_allclose(trace[-1], theirs, atol=1e-4)
    heights = [float(rosenbrock(x)) for x in trace]
    assert all(after <= before for before, after in itertools.pairwise(heights))
    assert heights[-1] < 1e-20


def test_line_search_saves_newton_where_the_full_step_diverges():
    def f(x):  # from 1.1 on, plain steps overshoot more and more
        return (1 + x * x).sqrt().sum()

    start = torch.tensor([1.1], dtype=torch.float64)
    assert newton(f, start, 3, line_search=False)[-1].abs() > 1.5
    assert newton(f, start, 12)[-1].abs() < 1e-8


def test_newton_in_single_precision_and_beyond_the_minimum():
    trace = newton(lambda x: (x.exp() - x).sum(), torch.tensor([1.0, -2.0]), 40)
    assert trace.dtype == torch.float32
    assert trace.shape == (41, 2)
    assert trace[-1].abs().max() < 1e-3


def test_quick_experiment_draws_both_arms_of_the_curves():
    outcome = page(KEY).experiments()["gradient_check"](hidden=4, coordinates=20)
    assert len(outcome.figures["steps"].data) == 4
    assert outcome.metrics["best_central_error"] < outcome.metrics["best_forward_error"]


def test_bad_input_is_told_in_one_sentence():
    ones = torch.ones(3)
    for points in (ones, ones.long()):
        for call in (lambda x: taylor_coefficients(torch.exp, x, 2),
                     lambda x: remainder(torch.exp, x, 1.0, 2),
                     lambda x: integral_remainder(torch.exp, 0.0, x, 2)):
            sentence = r"must be a number or a float64 tensor; got torch.* with .double\(\)"
            with pytest.raises(UsageError, match=sentence):
                call(points)
    with pytest.raises(UsageError, match=r"order must be an integer in \[0, 10\]; got 11"):
        taylor_coefficients(torch.exp, 0.0, 11)
    with pytest.raises(UsageError, match=r"m must be an integer in \[0, 9\]; got 10"):
        integral_remainder(torch.exp, 0.0, 1.0, 10)
    with pytest.raises(UsageError, match="f must be a function of each entry; got 'shape"):
        taylor_coefficients(torch.sum, ones.double(), 2)
    calls = {"x": (finite_difference, gradient_check), "x0": (quadratic_model,)}
    for name, function in ((name, one) for name, some in calls.items() for one in some):
        with pytest.raises(UsageError, match=rf": {name} must be a tensor of floats, not empty"):
            function(torch.sin, ones.long())
    with pytest.raises(UsageError, match=r"newton: x0 must be a tensor of floats"):
        newton(torch.sum, ones.long(), 1)
    with pytest.raises(UsageError, match=r"coordinates must be each in \[0, 2\]"):
        finite_difference(torch.sum, ones, coordinates=torch.tensor([3]))
    with pytest.raises(UsageError, match=r"eps must be in \(0, inf\), or none; got 0"):
        finite_difference(torch.sum, ones, 0)
    with pytest.raises(UsageError, match="f and x must be a module and its input in float64"):
        gradient_check(nn.Tanh(), ones)
    for function in (quadratic_model, lambda f, x: newton(f, x, 1)):
        with pytest.raises(UsageError, match="f must be a function with one number as value"):
            function(torch.sin, ones)


@pytest.mark.parametrize("f", [
    lambda x: x.sum(), lambda x: x.sum() ** 2, lambda x: (x[0] - x[1]).exp() + x[2] ** 2,
    lambda x: (x @ torch.tensor([1.0, 1 / 3, 1 / 7], dtype=x.dtype)) ** 2,
])
def test_a_singular_hessian_is_refused_and_damping_helps(f):
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    with pytest.raises(UsageError, match=r"nonsingular Hessian; .* Pass a positive damping"):
        newton(f, x, 1)
    assert f(newton(f, x, 1, damping=1e-3)[-1]) < f(x)


def test_infinite_derivatives_are_refused():
    with pytest.raises(UsageError, match="finite derivatives at every iterate"):
        newton(lambda x: x.sqrt().sum(), torch.zeros(2), 1)

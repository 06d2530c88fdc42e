import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime
from sklearn.covariance import EmpiricalCovariance
from sklearn.datasets import load_wine

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.course.formula import to_unicode
from principia.lab.params import UsageError
from principia.mathematics import contract, in_subdifferential, jacobian, tensor_chain
from principia.mathematics.matrix_calculus import RULES, Rule, subgradient_method

KEY = "mathematics/matrix_calculus"


def normal(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("J.permute(*range(y.ndim, J.ndim), *range(y.ndim))", "J", "layouts"),
        ("+ jacobian(g, x).mT @ A.mT @ f(x)),", "+ jacobian(g, x) @ A @ f(x)),",
         "inner_product_rule"),
        ('einsum("ik,l->ikl"', 'einsum("ik,l->ilk"', "vector_by_matrix"),
        ("== x.argmax()", "== x.argmin()", "max_gradient"),
        ("torch.kron(A1, A2.mT.contiguous())", "torch.kron(A1, A2)", "kronecker_derivative"),
        ("contract(dL_dy, dy_dW, axes=len(y))", "contract(dL_dy.mT, dy_dW, axes=len(y))",
         "tensor_chain_rule"),
        ("torch.tensordot(P, Q, dims=axes)", "torch.tensordot(Q, P, dims=axes)", "chain_rule"),
        ("planes = f(x) + g", "planes = f(x) + 2 * g", "subdifferential"),
        ("lambda x, A: (A + A.mT) @ x", "lambda x, A: (A + A) @ x", "scalar_rules"),
        ("2 * jacobian(f, x).mT @ f(x)", "jacobian(f, x).mT @ f(x)", "scalar_rules"),
        ("torch.outer(f(x), jacobian(u, x))", "f(x)[:, None]", "vector_rules"),
        ("lambda X, A, B: B @ A)", "lambda X, A, B: (B @ A).flip(0))", "matrix_rules"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("J.permute(*range(y.ndim, J.ndim), *range(y.ndim))",
         "J.permute(*range(y.ndim, J.ndim), *range(y.ndim)) / 2", "layouts", ["values"]),
        ("torch.tensordot(P, Q, dims=axes)", "2 * torch.tensordot(P, Q, dims=axes)",
         "contraction_is_matmul", ["sum by indices"]),
        ("-X.inverse().mT @ S.mT", "-X.inverse().mT @ S", "inverse_and_logdet", ["trace, any X"]),
        ("slogdet(X).logabsdet, lambda X: X.inverse().mT",
         "slogdet(X).logabsdet, lambda X: X.inverse()", "inverse_and_logdet",
         ["log determinant, any X"]),
        ("- vmap(f)(points)).amax", "- vmap(f)(points)).amin", "subdifferential",
         ["|x|", "ReLU", "max, along an edge", "max, towards an inactive gradient", "largest rise",
          "the rest fails"]),
        ("g @ (points - x).mT", "g @ points.mT", "subdifferential", ["the hull passes"]),
        ("x.detach() - step(t) * g", "x.detach() - step(1) * g", "subgradient_method",
         ["bound", "10 - (1 + 1/2 + ... + 1/t)"]),
        (".detach().cummin(dim=0).values", ".detach()", "subgradient_method",
         ["the best never rises"]),
        ("x, values = x0.detach(), []", "x, values = x0, []", "subgradient_method",
         ["a start is kept"]),
        ("x.numel() < y.numel()", "x.numel() > y.numel()", "layouts", ["in reverse"]),
        ("(b @ x > 0) * b", "(b @ x >= 0) * b", "max_gradient", ["0 at a kink"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(("n", "m"), [(2, 7), (7, 2), (4, 4)])
def test_jacobian_is_torchs_and_that_of_differences(n, m):
    W, x = normal(m, n), normal(n, seed=1)

    def f(x):
        return (W @ x).tanh()

    J = jacobian(f, x)
    torch.testing.assert_close(J, torch.autograd.functional.jacobian(f, x))
    differences = approx_fprime(x.numpy(), lambda at: f(torch.as_tensor(at)).numpy())
    np.testing.assert_allclose(J, differences.reshape(m, n), atol=1e-6)
    torch.testing.assert_close(jacobian(f, x, "denominator"), J.mT)


@pytest.mark.parametrize(("n", "m", "slow"), [(7, 2, "jacfwd"), (2, 7, "jacrev")])
def test_jacobian_takes_the_mode_of_fewer_passes(monkeypatch, n, m, slow):
    W, x = normal(m, n), normal(n, seed=1)
    monkeypatch.setattr(f"{page(KEY).module}.{slow}", None)  # nobody can call it
    torch.testing.assert_close(jacobian(lambda x: W @ x, x), W)


def test_jacobian_of_any_shapes():
    X = normal(3, 4)
    torch.testing.assert_close(jacobian(lambda X: X.square().sum(), X), 2 * X)
    assert jacobian(lambda X: X @ X.mT, X).shape == (3, 3, 3, 4)
    assert jacobian(lambda X: X @ X.mT, X, "denominator").shape == (3, 4, 3, 3)
    assert (jacobian(lambda X: X.new_ones(5), X) == torch.zeros(5, 3, 4)).all()
    hessian = jacobian(lambda x: jacobian(lambda x: x.prod(), x), normal(3))
    torch.testing.assert_close(hessian, hessian.mT)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_agrees_with_differences(name):
    rule = RULES[name]
    sizes = {"n": 2, "m": 3, "k": 4, "p": 2, "q": 3}
    variable, *rest = page(KEY).load("claims")._drawn(rule, sizes, torch.Generator().manual_seed(3))
    closed = rule.derivative(variable, *rest)
    step, columns = 1e-6, []
    for direction in torch.eye(variable.numel()).to(variable).reshape(-1, *variable.shape):
        ends = (rule.function(variable + sign * step * direction, *rest) for sign in (1, -1))
        columns.append((next(ends) - next(ends)) / (2 * step))
    differences = torch.stack(columns, dim=-1).reshape(closed.shape)
    torch.testing.assert_close(closed, differences, atol=1e-7, rtol=1e-6)
    assert "∂" in to_unicode(rule.formula)


def test_contraction_is_numpys():
    P, Q = normal(2, 3, 4, 5), normal(4, 5, 6)
    np.testing.assert_allclose(contract(P, Q, axes=2), np.tensordot(P, Q, axes=2))
    assert contract(P, Q, axes=0).shape == (2, 3, 4, 5, 4, 5, 6)
    assert contract(Q, Q, axes=0).equal(Q[..., None, None, None] * Q)


def test_tensor_chain_is_backpropagation():
    W, X = normal(3, 4).requires_grad_(), normal(4, 5)
    y = (W @ X).sin()
    y.square().sum().backward()
    chained = tensor_chain(2 * y.detach(), jacobian(lambda W: (W @ X).sin(), W.detach()))
    torch.testing.assert_close(chained, W.grad)


def test_gradients_of_convex_functions_pass_and_no_other_slope_does():
    A, x = normal(6, 3), normal(3, seed=1)

    def f(x):
        return torch.logsumexp(A @ x, dim=0)

    g = jacobian(f, x)
    points = torch.cat([x + 1e-3 * normal(500, 3, seed=2), 3 * normal(500, 3, seed=3)])
    rises = in_subdifferential(f, x, torch.stack([g, g + 0.01, g - 0.01]), points)
    assert rises[0] <= 1e-12
    assert (rises[1:] > 1e-7).all()


def test_subgradient_method_by_hand():
    x, best, expected = np.array([2.0, -0.7]), np.inf, []
    for t in range(1, 22):
        best = min(best, np.abs(x).sum())
        expected.append(best)
        x = x - np.sign(x) / np.sqrt(t)
    start = torch.tensor([2.0, -0.7], dtype=torch.float64)
    trace = subgradient_method(lambda x: x.abs().sum(-1), start, lambda t: t**-0.5, 20)
    np.testing.assert_allclose(trace, expected)
    assert start.tolist() == [2.0, -0.7]
    assert not start.requires_grad


def test_ascent_ends_at_scikit_learns_precision():
    outcome = page(KEY).experiments()["precision_ascent"]()
    assert outcome.reached, outcome.missed
    assert set(outcome.figures) == {"ascent", "partial_correlations"}
    X = load_wine().data
    model = EmpiricalCovariance().fit((X - X.mean(axis=0)) / X.std(axis=0))
    path, _ = page(KEY).load("experiments")._ascend(torch.as_tensor(model.covariance_), 100)
    np.testing.assert_allclose(path[-1], model.precision_, rtol=1e-4, atol=1e-6)


def test_bad_input_is_told_in_one_sentence():
    with pytest.raises(UsageError, match=r"x must be a tensor of floats; got torch\.int64"):
        jacobian(torch.sum, torch.arange(3))
    with pytest.raises(UsageError, match="layout must be one of 'numerator', 'denominator'"):
        jacobian(torch.sum, torch.ones(3), layout="mixed")
    with pytest.raises(
        UsageError, match=r"last 2 axes of P must be \(4, 3\), like the first of Q; got \(3, 4\)"
    ):
        contract(torch.ones(2, 3, 4), torch.ones(4, 3, 5), axes=2)
    with pytest.raises(UsageError, match="axes must be at most 1, as both have; got 2"):
        contract(torch.ones(2, 2), torch.ones(2), axes=2)
    W, X = normal(2, 3), normal(3, 5)
    mixed = jacobian(lambda W: W @ X, W, layout="denominator")
    with pytest.raises(
        UsageError, match=r"in numerator layout, .*\(2, 5\) of y first; got \(2, 3, 2, 5\).*denomin"
    ):
        tensor_chain(torch.ones(2, 5), mixed)
    with pytest.raises(UsageError, match=r"steps must be an integer in \[1, inf\); got 0"):
        subgradient_method(torch.sum, torch.ones(3), lambda t: 0.1, 0)
    with pytest.raises(UsageError, match="Rule: shapes must be a text; got 3"):
        Rule("x", 3, torch.sum, torch.ones_like)

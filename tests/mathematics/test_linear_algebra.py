import itertools

import numpy as np
import pytest
import scipy.linalg
import torch
from jaxtyping import config
from sklearn.covariance import empirical_covariance
from torch.overrides import TorchFunctionMode

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.mathematics import (
    definiteness,
    frobenius_norm,
    is_psd,
    kron_matvec,
    leading_minors,
    principal_minors,
    psd_factor,
    ridge_pinv,
    spectral_norm,
    woodbury_solve,
)

KEY = "mathematics/linear_algebra"
METHODS = ("eigh", "cholesky", "minors")


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def unchecked_shapes():
    """Let wrong shapes through to the component, as outside the tests."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        (").all(dim=-1)", ").any(dim=-1)", "sylvester_semidefinite"),
        ("itertools.combinations(range(n), k)", "[tuple(range(k))]", "sylvester_semidefinite"),
        ("(A.mT @ A).diagonal", "(A.mT @ A.abs()).diagonal", "frobenius"),
        ("columns / diagonal[:, None]", "columns * diagonal[:, None]", "woodbury"),
        ('tall = W if side == "left" else W.mT', "tall = W", "pseudoinverse_limits"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("eigvalsh(A)[..., 0] >= -slack", "eigvalsh(A)[..., -1] >= -slack",
         "psd_characterizations", ["eigenvalues"]),
        ("raised = slack.clamp", "raised = 0 * slack.clamp", "psd_characterizations", ["A = LL'"]),
        ("A[..., :k, :k] for k", "A[..., -k:, -k:] for k", "cholesky", ["roots of the pivots"]),
        ("        return L\n    values", "        return L.mT\n    values", "cholesky",
         ["above the diagonal", "singular, with jitter"]),
        ("share = max(tol, 10 * rows", "share = max(tol, 40 * rows", "psd_characterizations",
         ["what counts as 0"]),
        ("itertools.combinations(range(n), k)", "itertools.combinations(range(n)[::-1], k)",
         "sylvester_semidefinite", ["of a diagonal matrix"]),
        ("torch.cat(dets, dim=-1)", "torch.cat(dets, dim=-1).abs()", "trace_rules",
         ["eigenvalues"]),
        ('return "PSD" if least >= -slack else "NSD"', 'return "PSD"', "psd_characterizations",
         ["names"]),
        ("values.clamp(min=0).sqrt()", "values.clamp(min=0)", "cholesky",
         ["singular, from eigenvectors"]),
        ("x = back(y / y.norm(", "x = back(y.abs() / y.norm(", "spectral_norm",
         ["power iteration", "slow ones", "by products"]),
        ("clamp(min=tiny)).norm(dim=-1)", "clamp(min=tiny)).norm(dim=-1) + tiny", "spectral_norm",
         ["of nothing"]),
        ("return parts.square().sum(dim=-1).sqrt()", "return parts.abs().sum(dim=-1)", "frobenius",
         ["entries", "singular values"]),
        ("(A.mT @ A).diagonal(dim1=-2, dim2=-1).sum", "(A.mT @ A).diagonal(dim1=-2, dim2=-1).mean",
         "frobenius", ["trace"]),
        ("core = torch.eye(k).to(U) + C @ (V @ Y)", "core = torch.eye(k).to(U) + C.abs() @ (V @ Y)",
         "woodbury", ["woodbury_solve, general A", "woodbury_solve, A = I", "a diagonal"]),
        ("gram = tall.mT @ tall + sigma2 *", "gram = tall.mT @ tall + sigma2**0.5 *",
         "pseudoinverse_limits", ["left, closed form", "right, closed form"]),
        ("core = torch.eye(k).to(U) + C @ (V @ Y)", "core = torch.eye(k).to(U) - C @ (V @ Y)",
         "push_through", ["small system", "inverse"]),
        ("return torch.linalg.pinv(W)", "return W.mT", "pseudoinverse_limits",
         ["Penrose's equations"]),
        ("return torch.linalg.pinv(W)", "return W.mT", "one_sided_inverses",
         ["right inverse is pinv", "left inverse is pinv"]),
        ("x.unflatten(-1, (n, q)) @", "x.unflatten(-1, (q, n)).mT @", "kronecker",
         ["kron_matvec", "product"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("method", METHODS)
def test_methods_agree_with_what_is_known(method):
    hilbert = torch.from_numpy(scipy.linalg.hilbert(6))  # PD, with a condition of 1e7
    n, d = 5, 9
    covariance = torch.from_numpy(empirical_covariance(normal(n, d).numpy()))  # singular
    laplacian = torch.tensor([[1.0, -1, 0], [-1, 2, -1], [0, -1, 1]])
    adjacency = torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=torch.float64)
    for A in (hilbert, covariance, laplacian, torch.zeros(3, 3), 1e-200 * hilbert, 1e20 * hilbert):
        assert bool(is_psd(A, method=method))
    for A in (adjacency, -hilbert, laplacian - 0.01 * torch.eye(3), 1e-200 * adjacency):
        assert not bool(is_psd(A, method=method))


@pytest.mark.parametrize("method", METHODS)
def test_batches_and_single_precision(method):
    A = normal(4, 3, 5, 5)
    A = A + A.mT + torch.linspace(-4, 8, 3, dtype=A.dtype)[:, None, None] * torch.eye(5)
    expected = torch.linalg.eigvalsh(A)[..., 0] >= 0
    assert expected.any()
    assert not expected.all()
    assert torch.equal(is_psd(A, method=method), expected)
    low = normal(5, 2).float()
    assert bool(is_psd(low @ low.mT, method=method))  # singular up to the rounding of float32
    assert bool(is_psd(A @ A.mT, method=method, tol=0.0).all())


def test_minors_are_determinants_of_blocks():
    A = normal(2, 5, 5)
    minors, place = principal_minors(A), 0
    assert minors.shape == (2, 31)
    for k in range(1, 6):
        for rows in itertools.combinations(range(5), k):
            for one in range(2):
                block = A[one].numpy()[np.ix_(rows, rows)]
                assert float(minors[one, place]) == pytest.approx(scipy.linalg.det(block))
            if rows == tuple(range(k)):
                torch.testing.assert_close(leading_minors(A)[:, k - 1], minors[:, place])
            place += 1
    # the coefficients of the characteristic polynomial are sums of principal minors
    sizes = torch.tensor([len(r) for k in range(1, 6) for r in itertools.combinations(range(5), k)])
    for k, coefficient in enumerate(np.poly(A[0].numpy())[1:], start=1):
        assert float(minors[0, sizes == k].sum()) * (-1) ** k == pytest.approx(coefficient)
    assert principal_minors(torch.eye(12)).shape == (4095,)


def test_kinds_have_the_names_of_their_signs():
    for signs, kind in (
        ((1, 2), "PD"), ((0, 2), "PSD"), ((0, 0), "PSD"), ((-1, 0), "NSD"), ((-2, -1), "ND"),
        ((-1, 1), "indefinite"),
    ):
        assert definiteness(torch.diag(torch.tensor(signs, dtype=torch.float64))) == kind


def test_factors_are_those_of_lapack_and_reproduce_singular_matrices_in_a_batch():
    half = normal(6, 6)
    A = half @ half.mT
    np.testing.assert_allclose(psd_factor(A), scipy.linalg.cholesky(A.numpy(), lower=True))
    low = half[:, :2] @ half[:, :2].mT
    both = psd_factor(torch.stack([A, low]))
    torch.testing.assert_close(both @ both.mT, torch.stack([A, low]))
    torch.testing.assert_close(both[0], psd_factor(A))  # a singular neighbor changes nothing


@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
def test_spectral_norm_is_scipys(scale):
    A = scale * normal(3, 7, 4)
    ours = spectral_norm(A, steps=2000, rng=torch.Generator().manual_seed(0))
    theirs = [scipy.linalg.norm(one.numpy(), 2) for one in A]
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_spectral_norm_of_nothing_of_float32_and_of_a_convolution():
    rng = torch.Generator().manual_seed(0)
    assert float(spectral_norm(torch.zeros(3, 2), rng=rng)) == 0
    assert spectral_norm(torch.ones(3, 2), rng=rng).dtype == torch.float32
    kernel = torch.tensor([[[1.0, 2.0, -1.0]]], dtype=torch.float64)

    def along(x):
        return torch.nn.functional.conv1d(x[None, None], kernel, padding=1)[0, 0]

    def against(y):
        return torch.nn.functional.conv_transpose1d(y[None, None], kernel, padding=1)[0, 0]

    matrix = torch.stack([along(one) for one in torch.eye(9, dtype=torch.float64)], dim=1)
    ours = spectral_norm((along, against, 9), steps=3000, rng=rng)
    torch.testing.assert_close(ours, torch.linalg.matrix_norm(matrix, ord=2))


def test_frobenius_norms_agree_on_batches_and_each_goes_its_way():
    class Calls(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            called.add(getattr(function, "__name__", ""))
            return function(*args, **(kwargs or {}))

    A, called = normal(2, 3, 6, 4), set()
    for method in ("entries", "trace", "singular values"):
        called.clear()
        with Calls():
            norms = frobenius_norm(A, method=method)
        assert ("linalg_svdvals" in called) == (method == "singular values")
        assert any("matmul" in one for one in called) == (method == "trace")
        torch.testing.assert_close(norms, torch.linalg.matrix_norm(A))


def test_zero_is_semidefinite_and_has_no_sign_and_no_norm():
    zero = torch.zeros(2, 3, 3)
    for method in METHODS:
        assert is_psd(zero, method=method).all()
    assert definiteness(zero[0]) == "PSD"
    assert spectral_norm(zero, rng=torch.Generator().manual_seed(0)).tolist() == [0, 0]
    products = zero[0].mv, zero[0].mv, 3
    assert spectral_norm(products, dtype=torch.float32).dtype == torch.float32


@pytest.mark.parametrize("rows", [1, 3, 6])
def test_woodbury_takes_cores_that_have_no_inverse(rows):
    n, k = 12, 3
    diagonal, U, V, b = 2 + normal(n).abs(), normal(n, k), normal(rows, n), normal(n, 2)
    for C in (normal(k, rows), torch.zeros(k, rows, dtype=torch.float64)):
        x = torch.linalg.solve(diagonal.diag() + U @ C @ V, b)
        torch.testing.assert_close(woodbury_solve(diagonal, U, C, V, b), x)
        factor = torch.linalg.cholesky(diagonal.diag())
        solver = lambda Y, L=factor: torch.cholesky_solve(Y, L)  # noqa: E731
        torch.testing.assert_close(woodbury_solve(solver, U, C, V, b[:, 0]), x[:, 0])
    asked = []
    woodbury_solve(lambda Y: asked.append(Y.shape) or Y, U, normal(k, rows), V, b)
    assert asked == [(n, 2 + k)]  # one call for all right-hand sides


@pytest.mark.parametrize("shape", [(4, 7), (7, 4), (5, 5)])
def test_ridge_is_the_solution_of_the_augmented_least_squares_problem(shape):
    W = normal(*shape)
    W[-1] = W[0]  # of lower rank, where it is square or wide
    m, n = shape
    rows = np.vstack([W.numpy(), 0.3 * np.eye(n)])
    found = scipy.linalg.lstsq(rows, np.vstack([np.eye(m), np.zeros((n, m))]))[0]
    for side in ("left", "right"):
        np.testing.assert_allclose(ridge_pinv(W, 0.09, side), found, atol=1e-12)
        np.testing.assert_allclose(ridge_pinv(W, 0.0, side), scipy.linalg.pinv(W.numpy()),
                                   atol=1e-12)
    torch.testing.assert_close(ridge_pinv(W.expand(3, m, n), 0.09)[1], ridge_pinv(W, 0.09))


def test_kronecker_product_is_numpys():
    A, B, x = normal(3, 4), normal(2, 5), normal(7, 2, 20)
    big = torch.from_numpy(np.kron(A.numpy(), B.numpy()))
    torch.testing.assert_close(kron_matvec(A, B, x), x @ big.mT)


def test_gradients():
    A, x = normal(3, 3).requires_grad_(), normal(9)
    assert torch.autograd.gradcheck(lambda A: kron_matvec(A, A, x), A)
    assert torch.autograd.gradcheck(lambda A: ridge_pinv(A, 0.1, "left"), A)
    assert torch.autograd.gradcheck(leading_minors, A)
    factored = normal(5, 3)
    assert torch.autograd.gradcheck(
        lambda d: woodbury_solve(d, factored, torch.eye(3).double(), factored.mT, factored[:, 0]),
        (1 + normal(5).square()).requires_grad_(),
    )


def test_leading_minors_that_are_not_negative_prove_nothing_either():
    assert page(KEY).claim("sylvester_semidefinite")(0, minors="leading ≥ 0").refuted


def test_photograph_is_drawn_at_every_rank():
    outcome = page(KEY).experiments()["photograph_rank"]()
    assert outcome.reached, outcome.missed
    assert set(outcome.figures) == {"photographs", "spectrum"}
    assert len(outcome.figures["photographs"].data) == 5


def test_bad_input_is_told_in_one_sentence():
    tilted = torch.tensor([[1.0, 4.0], [0.0, 1.0]])
    for judge in (is_psd, definiteness, psd_factor):
        owner = judge.__name__
        with pytest.raises(UsageError, match=rf"{owner}: A must be square and symmetric.*A\.mT"):
            judge(tilted)
        with pytest.raises(UsageError, match="of finite numbers; got"):
            judge(torch.full((2, 2), float("nan")))
    with pytest.raises(UsageError, match=r"A must be of 12 rows or fewer; got 13\..*8191 minors"):
        is_psd(torch.eye(13), method="minors")
    with pytest.raises(UsageError, match=r"without an eigenvalue below 0; got -1.*shrinkage"):
        psd_factor(-torch.eye(2))
    one = torch.ones(1, 1)
    with pytest.raises(UsageError, match=r"A \+ U C V must be invertible"):
        woodbury_solve(torch.ones(1), one, -one, one, torch.ones(1))
    with pytest.raises(UsageError, match=r"solve_A must be a function, or .* 1 entries without"):
        woodbury_solve(torch.zeros(1), one, one, one, torch.ones(1))
    with pytest.raises(UsageError, match=r"ridge_pinv: sigma2 must be in \[0, inf\); got -1"):
        ridge_pinv(one, -1.0)
    with pytest.raises(UsageError, match=r"is_psd: method must be one of 'eigh'"):
        is_psd(one, method="minor")


def test_shapes_that_do_not_chain(unchecked_shapes):
    A, b = torch.ones(3, 2), torch.ones(3)
    with pytest.raises(UsageError, match=r"U, C, V, b must be of shapes \(n, k\), \(k, l\)"):
        woodbury_solve(b, A, torch.eye(3), A.mT, b)
    with pytest.raises(UsageError, match=r"U, C, V, b must be of shapes"):
        woodbury_solve(b, A, torch.eye(2), A.mT, torch.ones(4))
    with pytest.raises(UsageError, match=r"a diagonal of 3 entries without a 0; got \[1.0, 1.0\]"):
        woodbury_solve(b[:2], A, torch.eye(2), A.mT, b)
    with pytest.raises(UsageError, match=r"x must be of width 4; got \(3,\).*2 rows of X, 2"):
        kron_matvec(A, A, b)
    with pytest.raises(UsageError, match="A must be square and symmetric"):
        is_psd(A)

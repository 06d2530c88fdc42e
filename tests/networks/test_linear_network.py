import itertools

import numpy as np
import pytest
import torch
from scipy.linalg import orth, subspace_angles
from scipy.optimize import minimize
from sklearn.decomposition import PCA, TruncatedSVD
from torch import nn

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.networks import (
    LinearNetwork,
    autoencoder_from_svd,
    critical_points,
    principal_angles,
    truncated_svd,
)

KEY = "networks/linear_network"


def normal(*shape, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def centered(samples, dim, seed=0):
    X = normal(samples, dim, seed=seed) * torch.linspace(3, 1, dim, dtype=torch.float64)
    return X - X.mean(dim=0)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("            x = layer(x)\n", "            x = layer(x).relu()\n", "depth_collapse"),
        ("return U[:, :k], s[:k]", "return U[:, :k], s[:k] ** 2", "eckart_young"),
        ("torch.linalg.solve(gauge, directions.mT)", "gauge @ directions.mT", "gauge_freedom"),
        ("subspace_angles(*(one", "0.01 * subspace_angles(*(one", "gauge_freedom"),
        ("subspace_angles(*(one", "1 + subspace_angles(*(one", "autoencoder_is_pca"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("torch.linalg.multi_dot(factors) if", "2 * torch.linalg.multi_dot(factors) if",
         "depth_collapse", ["units between the layers: identity", "layer by layer"]),
        ("else factors[0]", "else factors[0].sign()", "rank_bottleneck", ["factors of low rank"]),
        ("U[:, :k], s[:k], Vh[:k]", "U[:, -k:], s[-k:], Vh[-k:]", "eckart_young",
         ["X of lower rank is kept"]),
        ("truncated_svd(X, m)[2].mT", "torch.eye(n, m).to(X)", "gauge_freedom",
         ["angle of the decoder to a tilted span"]),
        ("(rest @ S * rest)", "(rest @ S)", "separately_convex", ["in D", "in E"]),
        (".eigenvectors.flip(1)", ".eigenvectors", "no_bad_minima",
         ["curvature at the saddles", "curvature at the best",
                            "losses are sums of the others"]),
        ("return U[:, :k], s[:k]", "return U[:, :k], 2 * s[:k]", "eckart_young",
         ["factors", "no cut"]),
        ("gauge = torch.eye(m)", "gauge = 2 * torch.eye(m)", "gauge_freedom",
         ["principal components by default"]),
        ("centered: bool = True", "centered: bool = False", "gauge_freedom",
         ["data off the center"]),
        ("return subsets, D, D.mT", "return subsets, D, 2 * D.mT", "no_bad_minima",
         ["gradient at the critical points"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("bias", [False, True])
def test_network_is_torchs_chain_of_linear_layers(bias):
    rng = torch.Generator().manual_seed(0)
    net = LinearNetwork([4, 7, 2, 5], bias=bias, rng=rng).double()
    pairs = itertools.pairwise([4, 7, 2, 5])
    chain = nn.Sequential(*(nn.Linear(n, m, bias=bias) for n, m in pairs)).double()
    chain.load_state_dict(dict(zip(chain.state_dict(), net.state_dict().values(), strict=True)))
    x = normal(3, 2, 4)
    torch.testing.assert_close(net(x), chain(x))
    jacobian = torch.autograd.functional.jacobian(chain, x[0, 0])
    torch.testing.assert_close(net.matrix(), jacobian)
    x.requires_grad_()
    assert torch.autograd.gradcheck(net, x)


def test_weights_come_from_the_generator_alone():
    before = torch.get_rng_state()
    one, two = (LinearNetwork((9, 4), rng=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one.matrix(), two.matrix())
    assert torch.equal(torch.get_rng_state(), before)
    assert float(one.matrix().detach().abs().max()) <= 1 / 3


def test_truncated_svd_is_scikit_learns_and_keeps_what_there_is():
    X = normal(30, 12)
    U, s, Vh = truncated_svd(X, 5)
    theirs = TruncatedSVD(5, algorithm="arpack", random_state=0).fit(X.numpy())
    np.testing.assert_allclose(s, theirs.singular_values_, rtol=1e-10)
    approximation = theirs.inverse_transform(theirs.transform(X.numpy()))
    np.testing.assert_allclose((U * s) @ Vh, approximation, atol=1e-9)
    assert [part.shape for part in truncated_svd(X, 99)] == [(30, 12), (12,), (12, 12)]
    assert truncated_svd(X, 0)[1].shape == (0,)


@pytest.mark.parametrize("m", [1, 3, 6])
def test_autoencoder_reconstructs_like_pca(m):
    X = centered(40, 6)
    net, pca = autoencoder_from_svd(X, m), PCA(m).fit(X.numpy())
    theirs = pca.inverse_transform(pca.transform(X.numpy()))
    np.testing.assert_allclose(net(X).detach(), theirs, atol=1e-10)
    code = net.layers[0](X).detach()
    np.testing.assert_allclose(code.abs(), np.abs(pca.transform(X.numpy())), atol=1e-10)


def test_no_other_autoencoder_found_by_scipy_is_better():
    X = centered(30, 4, seed=1)

    def loss(point):
        D, E = point[:8].reshape(4, 2), point[8:].reshape(2, 4)
        return ((X.numpy() @ E.T @ D.T - X.numpy()) ** 2).sum(axis=1).mean()

    rng = np.random.default_rng(0)
    found = min(minimize(loss, rng.normal(size=16)).fun for _ in range(3))
    net = autoencoder_from_svd(X, 2, gauge=normal(2, 2))
    assert float((net(X) - X).square().sum(dim=1).mean().detach()) == pytest.approx(found, rel=1e-6)


def test_principal_angles_do_not_depend_on_the_basis():
    A, B = normal(8, 3), normal(8, 2, seed=1)
    angles = principal_angles(A, B)
    np.testing.assert_allclose(angles, subspace_angles(A.numpy(), B.numpy()))
    cosines = np.linalg.svd(orth(A.numpy()).T @ orth(B.numpy()), compute_uv=False)
    np.testing.assert_allclose(angles.cos(), cosines[::-1], atol=1e-12)
    torch.testing.assert_close(principal_angles(A @ normal(3, 3, seed=2), B), angles)
    assert float(principal_angles(A, A[:, :1]).max()) < 1e-7
    assert principal_angles(A.float(), B.float()).dtype == torch.float32


def test_critical_points_are_where_descent_stands_still():
    X = centered(50, 4)
    S = X.mT @ X / len(X)
    values = torch.linalg.eigvalsh(S).flip(0)
    for m, rank in [(2, None), (2, 1), (3, 0), (4, 4)]:
        subsets, D, E = critical_points(S, m, rank=rank)
        D.requires_grad_()
        losses = (X @ E.mT @ D.mT - X).square().sum(dim=2).mean(dim=1)  # from samples, not from S
        (gradient,) = torch.autograd.grad(losses.sum(), D)
        assert float(gradient.abs().max()) < 1e-12
        expected = values.sum() - values[subsets].sum(dim=1)
        torch.testing.assert_close(losses.detach(), expected)
        assert int(losses.argmin()) == 0


def test_quick_experiment_reaches_pca_and_draws():
    outcome = page(KEY).experiments()["pca_by_gradient"]()
    assert outcome.reached, outcome.missed
    assert outcome.metrics["error_over_pca"] > 1 - 1e-6  # nothing linear is better
    assert set(outcome.figures) == {"loss", "directions"}


def test_bad_input_is_told_in_one_sentence():
    X = centered(20, 3)
    with pytest.raises(UsageError, match=r"LinearNetwork: sizes must be two or more values; got"):
        LinearNetwork([3])
    with pytest.raises(UsageError, match=r"LinearNetwork: sizes must be one or more values, each"):
        LinearNetwork([3, 0])
    with pytest.raises(UsageError, match=r"X must be centered; got 'a mean .* X.mean\(dim=0\), or"):
        autoencoder_from_svd(X + 1, 2)
    autoencoder_from_svd(X + 1, 2, centered=False)
    singular = torch.ones(2, 2, dtype=torch.float64)
    with pytest.raises(UsageError, match=r"gauge must be invertible, \(2, 2\); got .*rank 1"):
        autoencoder_from_svd(X, 2, gauge=singular)
    with pytest.raises(UsageError, match=r"gauge must be invertible, \(2, 2\); got .*\(3, 3\)"):
        autoencoder_from_svd(X, 2, gauge=torch.eye(3, dtype=torch.float64))
    with pytest.raises(UsageError, match=r"A and B must be nonzero, of equal height"):
        principal_angles(X, torch.zeros_like(X))
    with pytest.raises(UsageError, match=r"S must be square and symmetric"):
        critical_points(normal(3, 3), 1)
    with pytest.raises(UsageError, match=r"rank must be at most m = 4 and n = 3.*; got 4\. Take"):
        critical_points(torch.eye(3), 4)
    with pytest.raises(UsageError, match=r"with at most 10000 subsets; got 15"):
        critical_points(torch.eye(30), 15)


def test_no_bottleneck_gives_a_warning_and_a_copy():
    X = centered(20, 3)
    with pytest.warns(UserWarning, match="m = 5 hidden units for n = 3 inputs are no bottleneck"):
        net = autoencoder_from_svd(X, 5, gauge=normal(5, 5))
    torch.testing.assert_close(net(X), X)

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.networks.linear_dynamics import (
    TwoLayerLinear,
    Whitener,
    aligned_init,
    cross_moment,
    linear_flow,
    mode_flow,
    mode_strengths,
)

KEY = "networks/linear_dynamics"


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("scores @ self.directions_ if", "scores @ self.directions_.T if", "whitening"),
        ("scores * np.sqrt(self.moments_) @", "scores * self.moments_ @", "whitening"),
        ("return Y.mT @ X / len(X)", "return Y.mT @ X / (len(X) - 1)", "least_squares_solution"),
        ("torch.exp(-2 * lr * t)", "torch.exp(-lr * t)", "exponential_flow"),
        ("return x @ self.W.mT @ self.Q.mT", "return -x @ self.W.mT @ self.Q.mT",
         "svd_coordinates"),
        ("A @ moment) - Gamma", "A @ moment) - 2 * Gamma", "modes_decouple"),
        ("start / (torch.exp(-4 * s * t)", "start / (torch.exp(-2 * s * t)", "modes_decouple"),
        ("W - lr * by_W\n", "W - 0.9 * lr * by_W\n", "stronger_modes_first"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("/ np.sqrt(self.moments_)\n", "/ self.moments_\n", "whitening",
         ["pca, centered: and back", "pca, as it is: and back", "zca, centered: and back",
          "zca, as it is: and back", "zca is the inverse root"]),
        ("scores = (X - self.mean_) @", "scores = X @", "whitening", ["distances of new inputs"]),
        ("max(self.eps * moments[0], rounding)", "max(self.eps * moments[0] / 2, rounding)",
         "whitening", ["what is dropped, how many"]),
        ("= moments[kept], directions", "= 2 * moments[kept], directions", "whitening",
         ["what is dropped, moments of the others", "what is dropped, of few samples"]),
        ("return start / (torch.exp(", "return 2 * start / (torch.exp(", "modes_decouple",
         ["equation of motion"]),
        ("return 2 * half @ W.mT, 2 * Q.mT @ half", "return 2 * half @ W.mT, Q.mT @ half",
         "two_layer_gradients", ["not, by W"]),
        ("((U.mT @ Q) * (W @ V).mT).sum(dim=-1)", "((U.mT @ Q) * (W @ V).mT).mean(dim=-1)",
         "svd_coordinates", ["strengths"]),
        ("(U * root) @ R.mT, (R * root) @ Vh", "(U * root**2) @ R.mT, R @ Vh", "modes_decouple",
         ["balance at the start", "layers at the start"]),
        ("(A if moment is None else A @ moment) - Gamma", "(A if moment is None else A @ moment)",
         "two_layer_gradients", ["square, by Q", "not, by Q"]),
        ("Q - lr * by_Q, W - lr * by_W", "Q - 2 * lr * by_Q, W - 2 * lr * by_W", "modes_decouple",
         ["the longest step, no mode overshoots", "the longest step, all arrive"]),
        ("- int(kept.sum", "- int(kept.mean", "whitening", ["a dependent column is dropped"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_whitening_by_pca_is_scikit_learns():
    X = (normal(200, 5) @ normal(5, 5, seed=1)).numpy()
    theirs = PCA(whiten=True).fit_transform(X) * (200 / 199) ** 0.5  # it divides by N - 1
    np.testing.assert_allclose(np.abs(Whitener().fit_transform(X)), np.abs(theirs), atol=1e-9)


def test_zca_moves_the_inputs_less_than_any_other_whitening():
    X = (normal(200, 4) @ normal(4, 4, seed=1)).numpy()
    Z = Whitener(kind="zca", center=False).fit_transform(X)
    moved = ((Z - X) ** 2).sum()
    for seed in range(50):
        turn = torch.linalg.qr(normal(4, 4, seed=seed)).Q.numpy()
        assert ((Z @ turn - X) ** 2).sum() > moved


@pytest.mark.parametrize("kind", ["pca", "zca"])
def test_null_directions_are_dropped_and_counted(kind):
    X = (normal(100, 3) @ normal(3, 6, seed=1) + 5).numpy()
    model = Whitener(kind=kind).fit(X)
    Z = model.transform(X)
    assert (model.dropped_, Z.shape[1]) == (3, 3 if kind == "pca" else 6)
    assert len(model.get_feature_names_out()) == Z.shape[1]
    np.testing.assert_allclose(np.linalg.eigvalsh(Z.T @ Z / 100)[-3:], 1)
    np.testing.assert_allclose(model.inverse_transform(Z), X)


def test_cross_moment_is_the_regression_of_whitened_inputs():
    X = Whitener().fit_transform(normal(80, 4) @ normal(4, 4, seed=1))
    Y = normal(80, 3, seed=2).numpy()
    slopes = LinearRegression().fit(X, Y).coef_
    np.testing.assert_allclose(cross_moment(torch.tensor(X), torch.tensor(Y)), slopes, atol=1e-12)


def test_flows_solve_their_differential_equations():
    s, t = torch.tensor([2.0, 1.0, 0.3, 0.0]).double(), torch.linspace(0, 3, 7).double()
    exact = solve_ivp(lambda _, a: 4 * a * (s.numpy() - a), (0, 3), [0.01, 0.01, 1.5, 0.5],
                      t_eval=t.numpy(), rtol=1e-10, atol=1e-13)
    start = torch.tensor([0.01, 0.01, 1.5, 0.5]).double()
    np.testing.assert_allclose(mode_flow(s, start, t), exact.y.T, rtol=1e-7)
    Gamma, A0 = normal(2, 3), normal(2, 3, seed=1)
    goal = Gamma.flatten().numpy()
    exact = solve_ivp(lambda _, a: 2 * 0.7 * (goal - a), (0, 3), A0.flatten(), t_eval=t.numpy(),
                      rtol=1e-10, atol=1e-12)
    flow = linear_flow(A0, Gamma, t, lr=0.7).flatten(1)
    np.testing.assert_allclose(flow, exact.y.T, atol=1e-8)


def test_mode_flow_is_the_printed_formula_and_neither_overflows_nor_jumps_at_0():
    s, t, a0 = torch.tensor([1.5, 0.2]).double(), torch.linspace(0, 4, 9).double()[:, None], 0.03
    growth = torch.exp(4 * s * t)
    torch.testing.assert_close(mode_flow(s, a0, t[:, 0]), s * growth / (growth - 1 + s / a0))
    assert mode_flow(s, a0, torch.tensor([1e6]).double())[0].tolist() == pytest.approx([1.5, 0.2])
    near, at = mode_flow(torch.tensor([1e-12, 0.0]).double(), a0, torch.tensor([2.0]).double())[0]
    assert float(near) == pytest.approx(float(at)) == a0 / (1 + 4 * a0 * 2)


def test_descent_is_torchs_own_on_the_data():
    X = torch.tensor(Whitener(kind="zca").fit_transform(normal(60, 4)))
    Y = normal(60, 3, seed=1)
    model = TwoLayerLinear(0.3 * normal(3, 5, seed=2), 0.3 * normal(5, 4, seed=3))
    Qs, Ws = model.descend(cross_moment(X, Y), lr=0.01, steps=30, every=10)
    assert (Qs.shape, Ws.shape) == ((4, 3, 5), (4, 5, 4))
    assert torch.equal(Qs[0], model.Q)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(30):
        optimizer.zero_grad()
        ((model(X) - Y) ** 2).sum(dim=1).mean().backward()
        optimizer.step()
    torch.testing.assert_close((Qs[-1], Ws[-1]), (model.Q.data, model.W.data))


def test_strengths_of_a_trajectory_are_those_of_its_networks():
    Gamma = normal(3, 4)
    U, _, Vh = torch.linalg.svd(Gamma, full_matrices=False)
    Q, W = normal(6, 3, 5), normal(6, 5, 4, seed=1)
    each = [(U.mT @ q @ w @ Vh.mT).diagonal() for q, w in zip(Q, W, strict=True)]
    torch.testing.assert_close(mode_strengths(Q, W, U, Vh.mT), torch.stack(each))
    strengths = torch.tensor([3.0, 2.0, 1.0]).double()
    model = aligned_init(Gamma, strengths, torch.linalg.qr(normal(7, 3)).Q)
    torch.testing.assert_close(mode_strengths(model.Q, model.W, U, Vh.mT).detach(), strengths)


def test_half_times_that_are_never_reached_are_nan():
    crossings = page(KEY).load("claims").crossings
    curves = torch.tensor([[0.0, 0.0], [1.0, 0.2], [2.0, 0.4]])
    found = crossings(curves, torch.tensor([0.5, 1.0]), 2.0)
    assert found[0] == 1
    assert found[1].isnan()


def test_bad_input_is_told_in_one_sentence():
    X, Gamma = normal(50, 3), torch.diag(torch.tensor([2.0, 1.0]))
    with pytest.raises(UsageError, match=r"X must be whitened, .*; got \d.*Whitener\(\)\.fit"):
        cross_moment(X, X)
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(UsageError, match=r"mode_flow: a0 must be in \(0, inf.* never learned"):
            mode_flow(torch.ones(2), bad, torch.ones(3))
        with pytest.raises(UsageError, match=r"aligned_init: a0 must be in \(0, inf\)"):
            aligned_init(Gamma, bad)
    with pytest.raises(UsageError, match=r"a0 must be in \(0, inf\), one value or 2; got \[1.0, 1"):
        aligned_init(Gamma, torch.ones(3))
    with pytest.raises(UsageError, match=r"rotation must be orthonormal columns.* 2 modes; got"):
        aligned_init(Gamma, 0.1, 2 * torch.eye(2))
    model = aligned_init(Gamma, 0.1)
    model.descend(Gamma, lr=0.125, steps=1)
    with pytest.raises(UsageError, match=r"lr must be in \(0, 1/\(4σ₁\)\] = \(0, 0.125\]; got"):
        model.descend(Gamma, lr=0.13, steps=1)
    with pytest.raises(UsageError, match=r"TwoLayerLinear: Q and W must be .*; got \(\(2, 3\), \("):
        TwoLayerLinear(torch.ones(2, 3), torch.ones(2, 3))
    for center, value in ((True, 0.1), (False, 0.0)):
        with pytest.raises(UsageError, match="X must be inputs that vary; got"):
            Whitener(center=center).fit(np.full((7, 3), value))
    with pytest.raises(UsageError, match=r"Whitener: eps must be in \(0, 1\); got 0"):
        Whitener(eps=0).fit(X)


def test_quick_experiment_draws_nine_modes():
    outcome = page(KEY).experiments()["digit_modes"](starts=1)
    assert outcome.metrics["modes"] == 9
    assert outcome.metrics["dropped"] == 3
    assert outcome.metrics["strongest"] == pytest.approx(0.298, abs=5e-4)
    assert outcome.metrics["weakest"] == pytest.approx(0.186, abs=5e-4)
    assert set(outcome.figures) == {"modes", "random_start"}
    assert len(outcome.figures["modes"].data) == 18

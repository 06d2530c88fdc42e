import pytest
import torch
from torch.func import functional_call
from torch.nn import functional as F

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.data.digits import digits
from principia.lab.params import UsageError
from principia.networks import MLP
from principia.optimization import (
    Quadratic,
    hessian_extremes,
    pl_ratio,
    smoothness_ratio,
    spectral_smoothness,
)

KEY = "optimization/smoothness"
DOUBLE = torch.float64


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("max(abs(float(lowest[0])), abs(float(highest[0])))", "abs(float(highest[0]))",
         "gradient_lipschitz_is_spectral_norm"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("float((change / distance).max())", "float((change / distance).mean())",
         "gradient_lipschitz_is_spectral_norm", ["L that the test problems state"]),
        ("return_eigenvectors=False, **options) - by",
         "return_eigenvectors=False, **options) + by", "gradient_lipschitz_is_spectral_norm",
         ["ends of the spectrum", "max |λ|"]),
        ("(gradient**2).sum(dim=-1) / 2", "(gradient**2).sum(dim=-1)",
         "strong_convexity_implies_pl", ["x² + 3 sin² x: PL constant"]),
        ("found = torch.linalg.eigvalsh(hessian(loss)(flat)",
         "found = 1 + torch.linalg.eigvalsh(hessian(loss)(flat)", "strong_convexity_implies_pl",
         ["κ = L/μ"]),
        ("else part.reshape(", "else 2 * part.reshape(", "curvature_term_sign",
         ["products with the Hessian"]),
        ("else part.reshape(", "else 2 * part.reshape(", "ends_of_the_spectrum", ["products"]),
        ("(gradient**2).sum(dim=-1) / 2", "(1 + gradient**2).sum(dim=-1) / 2",
         "pl_holds_only_locally", ["at critical points with a positive loss"]),
        ("return (gradient**2).sum(dim=-1) / 2 / (values.detach()",
         "return (gradient**2).sum(dim=-1) / 2 / (values", "ends_of_the_spectrum",
         ["graphs that are left"]),
        ("return torch.zeros(wanted", "return torch.ones(wanted", "ends_of_the_spectrum",
         ["a linear loss"]),
        ("lifted(start, 0.0).any()", "lifted(start, 0.0).all()", "ends_of_the_spectrum",
         ["matrices"]),
        ("at = point.detach().requires_grad_()", "at = point.requires_grad_()",
         "ends_of_the_spectrum", ["graphs that are left"]),
        ("risk = risk_of(model, loss, x, y)", "risk = risk_of(model, loss, x.flip(0), y)",
         "ends_of_the_spectrum", ["losses of networks in rows"]),
        ("return max", "return min", "gradient_lipschitz_is_spectral_norm",
         ["curvature of the test problems"]),
        ("return max", "return min", "quadratic_upper_bound",
         ["logistic: L is the curvature at 0"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("k", [1, 3])
def test_lanczos_finds_the_ends_that_the_dense_hessian_has(k):
    mlp = MLP([3, 12, 4], activation="tanh", rng=torch.Generator().manual_seed(0)).double()
    x, y = normal(30, 3), torch.arange(30) % 4
    params = dict(mlp.named_parameters())

    def loss(params):
        return F.cross_entropy(functional_call(mlp, params, (x,)), y)

    def flat_loss(*values):
        return loss(dict(zip(params, values, strict=True)))

    blocks = torch.autograd.functional.hessian(flat_loss, tuple(params.values()))
    sizes = [one.numel() for one in params.values()]
    dense = torch.cat([
        torch.cat([block.reshape(n, m) for block, m in zip(row, sizes, strict=True)], 1)
        for row, n in zip(blocks, sizes, strict=True)
    ])
    exact = torch.linalg.eigvalsh(dense)
    assert len(exact) == 100  # beyond what is solved densely
    lowest, highest = hessian_extremes(loss, params, k=k)
    norm = float(exact.abs().max())
    torch.testing.assert_close(lowest, exact[:k], atol=1e-4 * norm, rtol=0)
    torch.testing.assert_close(highest, exact.flip(0)[:k], atol=1e-8 * norm, rtol=0)
    assert spectral_smoothness(loss, params) == pytest.approx(norm)
    single = {name: one.detach().float() for name, one in params.items()}
    mlp.float()
    x = x.float()
    found = hessian_extremes(loss, single, k=k)[1]
    torch.testing.assert_close(found, exact.flip(0)[:k], atol=1e-4 * norm, rtol=0)


def test_a_singular_hessian_does_not_keep_lanczos_busy():
    x, y, _, _ = digits()
    x, calls = x[:200].flatten(1).double(), []
    scores = torch.zeros(10, 64, dtype=DOUBLE)

    def loss(W):
        calls.append(1)
        return F.cross_entropy(x @ W.mT, y[:200])

    lowest, highest = hessian_extremes(loss, scores)
    # with equal probabilities the Hessian is X'X/s times diag(1/10) - 1/100
    exact = float(torch.linalg.matrix_norm(x, ord=2)) ** 2 / 200 / 10
    assert float(highest) == pytest.approx(exact, rel=1e-6)
    assert float(lowest) == pytest.approx(0, abs=1e-4 * exact)
    assert len(calls) == 2  # the graph of the gradient is recorded once
    low, high = hessian_extremes(lambda at: at.sum(), torch.ones(200), k=2)
    assert low.tolist() == high.tolist() == [0.0, 0.0]


def test_quick_experiment_finds_the_threshold_and_draws():
    outcome = page(KEY).experiments()["stable_step"](images=500, steps=40)
    assert outcome.reached, outcome.missed
    assert set(outcome.figures) == {"spectrum", "descent"}
    assert outcome.metrics["growth_above"] == pytest.approx(1.6)  # |1 - 1.3 * 2|


def test_bad_input_is_told_in_one_sentence():
    a = normal(3, 2)
    with pytest.raises(UsageError, match=r"^pl_ratio: minimum must be a number; got None\. Pass m"):
        pl_ratio(Quadratic([1.0, -1.0]))
    with pytest.raises(UsageError, match=r"smoothness_ratio: a and b must be different in every"):
        smoothness_ratio(Quadratic([1.0, 2.0]), a, a.clone())
    with pytest.raises(UsageError, match=r"hessian_extremes: loss_fn must be a function with one"):
        hessian_extremes(lambda x: x**2, torch.ones(3))
    with pytest.raises(UsageError, match=r"hessian_extremes: k must be .* got 0"):
        hessian_extremes(lambda x: x.sum(), torch.ones(3), k=0)

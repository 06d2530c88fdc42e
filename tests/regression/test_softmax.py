import math

import numpy as np
import pytest
import torch
from scipy import special
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_score
from torch.nn import functional as F

from planting import assert_caught
from principia.lab.params import UsageError
from principia.regression import (
    SoftmaxRegression,
    cross_entropy,
    cross_entropy_bits,
    cross_validated_risk,
    empirical_risk,
    probability_cross_entropy,
    softmax_jacobian,
    squared_loss,
    temperature,
)

KEY = "regression/softmax"


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("cross_entropy(z, y) / math.log(2)", "cross_entropy(z, y) * math.log(2)",
         "cross_entropy_from_logits"),
        ("-torch.special.xlogy(p, q).sum(-1)", "-torch.special.xlogy(q, p).sum(-1)",
         "cross_entropy_from_logits"),
        (".square().sum(-1) / 2", ".square().sum(-1)", "gradient"),
        ("(z / T).softmax(-1)", "(z * z / T).softmax(-1)", "simplex_and_shift"),
        ("F.linear(x, self.weight, self.bias)", "F.linear(x, self.weight.abs(), self.bias)",
         "two_classes_is_logistic"),
        ("rest[held] = False", "rest[held[:1]] = False", "held_out_risk"),
        ("cross_entropy(model(x), y).mean(-1)", "cross_entropy(model(x), y).mean(-1) / 2",
         "held_out_risk"),
        ("cross_entropy(model(x), y).mean() + ", "squared_loss(model(x), F.one_hot("
         "y, model(x).shape[1]).to(x)).mean() + ", "maximum_likelihood"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("torch.logsumexp(z, -1) - z.gather", "torch.logsumexp(z, -1) + z.gather",
         "cross_entropy_from_logits", ["torch", "probabilities"]),
        ("torch.logsumexp(z, -1) - z.gather", "z.amax(-1) - z.gather", "gradient",
         ["cross-entropy"]),
        ("torch.diag_embed(p) - p[..., :, None]", "torch.diag_embed(p * p) - p[..., :, None]",
         "jacobian", ["least eigenvalue"]),
        ("self.l2 / 2 * self.weight.square().sum()", "0.0", "redundant_parameters",
         ["rows of the best weights"]),
        ("self.l2 / 2 * self.weight", "self.l2 * self.weight", "fast_form_finds_the_minimum",
         ["risk"]),
        ("rest[held] = False", "pass", "held_out_risk", ["every problem and fold by itself"]),
        ("(z / T).softmax(-1)", "(z / T).exp()", "simplex_and_shift", ["sums", "by hand"]),
        ("(z / T).softmax(-1)", "(z / T).softmax(-1) - 0.1", "simplex_and_shift", ["positive"]),
        ("* p[..., None, :]\n", "* p[..., None, :].sqrt()\n", "jacobian", ["symmetric"]),
        ("torch.logsumexp(z, -1) - z.gather", "z.mean(-1) - z.gather", "log_sum_exp",
         ["not below the largest"]),
        ("torch.logsumexp(z, -1) - z.gather", "z.abs().sum(-1) - z.gather", "log_sum_exp",
         ["not above it by more"]),
        ("torch.logsumexp(z, -1) - z.gather", "z.amin(-1) - z.gather", "log_sum_exp", ["convex"]),
        ("return torch.logsumexp(z, -1) - z", "return torch.logsumexp(z, -1) - 2 * z",
         "maximum_likelihood", ["loss is minus log-likelihood"]),
        ("    return cross_entropy(model(x), y).mean(-1)",
         "    return -cross_entropy(model(x), y).mean(-1)", "held_out_risk",
         ["training data flatter"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("/ s, x.mean(0)", "/ s, x.sum(0)", "fast_form_finds_the_minimum", ["first move"]),
        ("else since + 1, new", "else 1, new", "fast_form_finds_the_minimum",
         ["looks at the loss"]),
        ("rate /= 2", "rate /= 3", "fast_form_finds_the_minimum",
         ["half a step where the loss is higher"]),
        ("FLAT = 1e-9", "FLAT = 1e-3", "fast_form_finds_the_minimum",
         ["gradient", "dependent columns"]),
    ],
)
def test_parts_catch_planted_bugs_of_the_fast_form(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, fast=True, parts=parts)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FLAT = 1e-9", "FLAT = 1e-4"),
        ("MOST_STEPS, HISTORY = 500", "MOST_STEPS, HISTORY = 3"),
        ("STUCK = 10", "STUCK = 0"),
        ("bias.copy_(at[:, -1])", "bias.copy_(0 * at[:, -1])"),
        ("at = start + move.view_as(start)", "at = start - move.view_as(start)"),
        ("- u[:, 0] @ HY", "+ u[:, 0] @ HY"),
    ],
)
def test_a_claim_catches_bugs_planted_in_the_fast_form(old, new):
    assert_caught(KEY, old, new, "fast_form_finds_the_minimum", fast=True)


def test_functions_are_those_of_scipy():
    rng = np.random.default_rng(0)
    z = 30 * rng.normal(size=(50, 7))
    p = special.softmax(z / 3, axis=1)
    np.testing.assert_allclose(temperature(torch.tensor(z), 3.0), p, rtol=1e-12)
    y = rng.integers(0, 7, 50)
    theirs = special.logsumexp(z, axis=1) - z[np.arange(50), y]
    np.testing.assert_allclose(cross_entropy(torch.tensor(z), torch.tensor(y)), theirs, rtol=1e-12)
    q = special.softmax(rng.normal(size=(50, 7)), axis=1)
    ours = probability_cross_entropy(torch.tensor(p), torch.tensor(q))
    np.testing.assert_allclose(ours, special.entr(p).sum(1) + special.rel_entr(p, q).sum(1))
    half = squared_loss(torch.tensor(p), torch.tensor(q))
    np.testing.assert_allclose(half, F.mse_loss(
        torch.tensor(p), torch.tensor(q), reduction="none").sum(1) / 2)


def test_derivatives_pass_gradcheck():
    z = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z.requires_grad_()
    y = torch.tensor([0, 4, 2, 2])
    assert torch.autograd.gradcheck(lambda u: cross_entropy(u, y), z)
    assert torch.autograd.gradcheck(lambda u: cross_entropy_bits(u, y), z)
    assert torch.autograd.gradcheck(softmax_jacobian, z)


@pytest.mark.parametrize("l2", [0.3, 0.01, 0.001])
def test_fit_is_that_of_scikit_learn(l2):
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    theirs = LogisticRegression(C=1 / (l2 * len(X)), tol=1e-10, max_iter=10_000).fit(X, y)
    model = SoftmaxRegression(4, 3, l2=l2).double()
    model.fit(torch.tensor(X), torch.tensor(y))
    np.testing.assert_allclose(model.weight.detach(), theirs.coef_, atol=2e-6)
    probabilities = model(torch.tensor(X)).softmax(-1).detach()
    np.testing.assert_allclose(probabilities, theirs.predict_proba(X), atol=1e-6)


def test_both_solvers_find_the_same_minimum():
    X, y = (torch.tensor(part) for part in load_iris(return_X_y=True))
    X = ((X - X.mean(0)) / X.std(0)).double()
    exact, batches = (
        SoftmaxRegression(4, 3, l2=0.05, solver=solver, batch_size=150).double()
        for solver in ("lbfgs", "adam"))
    exact.fit(X, y)
    batches.fit(X, y, epochs=800, lr=0.1)
    assert torch.allclose(exact.weight, batches.weight, atol=1e-4)


def test_cross_validation_is_that_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    X, y = X[order], y[order]

    def make(x, labels):
        fitted = LogisticRegression(C=1.0, max_iter=1000).fit(x, labels)
        return lambda new: torch.tensor(fitted.decision_function(new))

    ours = cross_validated_risk(make, torch.tensor(X), torch.tensor(y), folds=5)
    theirs = -cross_val_score(
        LogisticRegression(C=1.0, max_iter=1000), X, y, cv=KFold(5), scoring="neg_log_loss").mean()
    assert float(ours) == pytest.approx(theirs, rel=1e-9)


def test_risk_keeps_leading_axes():
    x, y = torch.zeros(3, 2, 8, 4), torch.zeros(3, 2, 8, dtype=torch.long)
    assert empirical_risk(lambda x: x, x, y).tolist() == [[pytest.approx(math.log(4))] * 2] * 3


def test_bad_input_gets_a_sentence():
    with pytest.warns(UserWarning, match="z looks like probabilities; it wants scores"):
        cross_entropy(torch.tensor([[0.25, 0.75]]), torch.tensor([0]))
    with pytest.raises(UsageError, match="cross_entropy: y must be classes from 0 to 1; got 2"):
        cross_entropy(torch.zeros(1, 2), torch.tensor([2]))
    with pytest.raises(UsageError, match=r"temperature: T must be in \(0, inf\); got 0"):
        temperature(torch.zeros(2), 0)
    with pytest.raises(UsageError, match="folds must be at most 4, the samples; got 5"):
        cross_validated_risk(lambda x, y: lambda x: x, torch.zeros(4, 2), torch.zeros(4).long(),
                             folds=5)
    with pytest.raises(UsageError, match="x must be at most 1000000 rows"):
        SoftmaxRegression(1, 2).fit(torch.zeros(1_000_001, 1), torch.zeros(1_000_001).long())

import math
import re

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy as scipy_entropy
from sklearn.metrics import mutual_info_score
from torch.distributions import Normal, kl_divergence

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.mathematics import (
    cross_entropy,
    entropy,
    jsd,
    kl,
    mutual_information,
    plug_in_mi,
    total_variation,
)

KEY = "mathematics/information"


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def laws(*shape, seed=0, zeros=False):
    weights = torch.rand(*shape, generator=rng(seed), dtype=torch.float64)
    if zeros:
        weights = (weights - 0.3).clamp(min=0)
    return weights / weights.sum(dim=-1, keepdim=True)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("return entropy_in_nats(p) / math.log(base)", "return entropy_in_nats(p) * math.log(base)",
         "entropy_bounds"),
        ("return (-_p_log_q(p, q)).sum(dim=-1)", "return (-_p_log_q(p, q.detach())).sum(dim=-1)",
         "cross_entropy_minimizer"),
        ("q.masked_fill((p == 0) & (q == 0), 1)", "q.masked_fill(q == 0, 1)", "kl_nonnegative"),
        ("return (p - q).abs().sum(dim=-1) / 2", "return (p - q).abs().sum(dim=-1)", "pinsker"),
        ("return (p - q).abs().sum(dim=-1) / 2", "return (p - q).abs().sum(dim=-1)",
         "posterior_total_variation"),
        ("return kl_in_nats(p, q) / math.log(base)",
         "return 2 * kl_in_nats(p, q) / math.log(base) + 0.01",
         "good_density_poor_classifier"),
        ("joint.movedim(given, -3)", "joint.movedim(0, -3)", "mutual_information_zero"),
        ("(K + M - pairs - 1)", "(K + M - pairs + 1)", "mutual_information_zero"),
        ("found = of_x + of_y - of_both", "found = of_x - of_both + of_x",
         "mutual_information_zero"),
        ("counts.double() / n", "counts.double() / (n - 1)", "mutual_information_zero"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("return (-_p_log_q(p, p)).sum(dim=-1)", "return (-_p_log_q(p, p)).sum(dim=-1) + p.amin()",
         "entropy_bounds", ["all are equally likely", "bits"]),
        ("return (-_p_log_q(p, q)).sum(dim=-1)", "return (-_p_log_q(q, p)).sum(dim=-1)",
         "cross_entropy_splits", ["torch, from logits"]),
        ("return kl_in_nats(p, q) / math.log(base)", "return kl_in_nats(q, p) / math.log(base)",
         "kl_nonnegative", ["outside the support", "inside it", "not symmetric", "torch"]),
        ("torch.xlogy(p, q.masked_fill", "torch.mul(p, 1 + q.masked_fill",
         "maximum_likelihood_is_cross_entropy", ["samples, by torch"]),
        ("(kl_in_nats(p, middle) + kl_in_nats(q, middle))",
         "(kl_in_nats(p, middle) + kl_in_nats(p, middle))", "jsd_bounded", ["symmetric"]),
        ("return (p - q).abs().sum(dim=-1) / 2", "return (p - q).abs().sum(dim=-1)",
         "total_variation", ["total_variation"]),
        ("torch.xlogy(p, q.masked_fill", "torch.xlogy(2 * p, q.masked_fill", "cross_entropy_splits",
         ["slopes"]),
        ("/ (2 * math.log(base))", "/ (2 * math.log(3))", "jsd_bounded", ["SciPy, in bits"]),
        ("keys, counts = torch.unique(codes, return_counts=True)",
         "keys, counts = torch.unique(codes // 4000, return_counts=True)",
         "mutual_information_zero", ["frequencies, in bits"]),
        ("(K + M - pairs - 1)", "(K + M - pairs)", "mutual_information_zero", ["correction"]),
        ("/ (2 * math.log(base))", "/ (4 * math.log(base))", "jsd_bounded", ["0 only if equal"]),
        ("return kl_in_nats(p, q) / math.log(base)", "return kl_in_nats(p, q) + 0.01",
         "posterior_total_variation", ["chain rule"]),
        ("return kl_in_nats(table.flatten(-3), independent.flatten(-3))",
         "return 0.2 * kl_in_nats(table.flatten(-3), independent.flatten(-3))",
         "mutual_information_zero", ["entropies", "0 only if independent"]),
        ("x * y / torch.where(z > 0, z, 1)", "x * y", "mutual_information_zero",
         ["entropies, given a third variable"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize("base", [math.e, 2, 10])
def test_scipy_gives_the_same(base):
    p, q = laws(5, 4, 7, zeros=True), laws(5, 4, 7, seed=1)
    np.testing.assert_allclose(entropy(p, base=base), scipy_entropy(p, base=base, axis=-1))
    np.testing.assert_allclose(kl(p, q, base=base), scipy_entropy(p, q, base=base, axis=-1))
    other = laws(5, 4, 7, seed=1, zeros=True)
    expected = jensenshannon(p.numpy(), other.numpy(), base=base, axis=-1) ** 2
    np.testing.assert_allclose(jsd(p, other, base=base), expected)
    np.testing.assert_allclose(
        cross_entropy(p, q, base=base), -(p * q.log()).sum(dim=-1) / math.log(base)
    )
    infinite = kl(p, other).isinf()
    assert torch.equal(infinite, ((p > 0) & (other == 0)).any(dim=-1))
    assert infinite.any()


def test_divergence_of_normals_is_the_limit_of_fine_cells():
    """torch's closed form, which is used for laws with parameters, is the same formula."""
    edges = torch.linspace(-12, 12, 4801, dtype=torch.float64)
    first, second = Normal(0.3, 1.0), Normal(-0.5, 1.6)
    cells = [law.cdf(edges).diff() for law in (first, second)]
    p, q = (one / one.sum() for one in cells)
    assert float(kl(p, q)) == pytest.approx(float(kl_divergence(first, second)), abs=1e-5)


def test_total_variation_is_the_chance_that_the_best_coupling_fails():
    p, q = laws(30, 6), laws(30, 6, seed=1)
    torch.testing.assert_close(total_variation(p, q), 1 - torch.minimum(p, q).sum(dim=-1))


def test_conditional_information_is_the_average_over_what_is_given():
    joint = laws(2, 60).reshape(2, 3, 4, 5)  # (batch, x, z, y)
    z = joint.sum(dim=(1, 3))
    parts = [mutual_information(joint[:, :, k] / z[:, k, None, None]) for k in range(4)]
    expected = (z * torch.stack(parts, dim=-1)).sum(dim=-1)
    for axis in (2, -2):
        torch.testing.assert_close(mutual_information(joint, given=axis), expected)
    impossible = torch.cat([joint, torch.zeros(2, 3, 1, 5, dtype=torch.float64)], dim=2)
    torch.testing.assert_close(mutual_information(impossible, given=2), expected)
    assert mutual_information(torch.eye(8) / 8, base=2) == pytest.approx(3)


@pytest.mark.parametrize("values", [torch.arange(4), torch.tensor([-(2**62), 0, 3, 2**62])])
def test_plug_in_is_scikit_learns_for_any_integers(values):
    labels = torch.randint(4, (3, 200), generator=rng())
    x, y = values[labels], (labels + torch.randint(2, (3, 200), generator=rng(1))).to(torch.int8)
    expected = [mutual_info_score(a.numpy(), b.numpy()) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(plug_in_mi(x, y), expected)
    np.testing.assert_allclose(plug_in_mi(x[1], y[1], base=2), expected[1] / math.log(2))
    many = torch.randperm(5000, generator=rng())  # 25 million cells, 5000 of them in use
    assert float(plug_in_mi(many, many.flip(0))) == pytest.approx(math.log(5000))


def test_corrected_estimate_subtracts_the_bias_where_all_pairs_occur():
    x, y = (torch.randint(3, (2000,), generator=rng(seed)) for seed in (0, 1))
    bias = plug_in_mi(x, y) - plug_in_mi(x, y, correction="miller-madow")
    assert float(bias) == pytest.approx(2 * 2 / (2 * 2000))


def test_gradients_are_right_and_finite_at_zero():
    z = torch.randn(2, 4, 3, generator=rng(), dtype=torch.float64).requires_grad_()
    for one in (kl, cross_entropy, jsd):
        assert torch.autograd.gradcheck(lambda z, one=one: one(*z.softmax(dim=-1)), z)
    assert torch.autograd.gradcheck(lambda z: entropy(z.softmax(dim=-1)), z)
    p, q = (torch.tensor(one, requires_grad=True) for one in ([0.5, 0.5, 0.0], [0.2, 0.8, 0.0]))
    (entropy(p) + kl(p, q) + jsd(p, q)).backward()
    assert p.grad.isfinite().all()
    assert q.grad.isfinite().all()


def test_single_precision_softmax_counts_as_normalized():
    q = torch.randn(8, 50_000, generator=rng()).softmax(dim=-1)
    assert entropy(q).dtype == torch.float32
    assert float(kl(q, q).abs().max()) == 0
    assert entropy(torch.zeros(0, 3)).shape == (0,)


def test_quick_experiment_counts_letters():
    letter_bits = page(KEY).load("experiments")._letter_bits
    outcome = page(KEY).experiments()["english_entropy"](longest=3)
    assert outcome.reached, outcome.missed
    assert set(outcome.figures) == {"letters"}
    assert outcome.metrics["F3"] < outcome.metrics["F2"] < outcome.metrics["F1"] < math.log2(27)
    assert outcome.metrics["lost_by_halving"] > 0  # fewer letters, more bias
    text = re.sub("[^a-z]+", " ", "It was the best of times, it was the worst of times".lower())
    letters = torch.tensor([max(ord(one) - 96, 0) for one in text])
    blocks = [np.unique([text[i : i + n] for i in range(len(text) - n + 1)], return_counts=True)[1]
              for n in (1, 2, 3)]
    expected = np.diff([0, *(scipy_entropy(counts, base=2) for counts in blocks)])
    np.testing.assert_allclose(letter_bits(letters, 3, 1), expected)
    always = torch.tensor([1, 2] * 500)
    np.testing.assert_allclose(letter_bits(always, 2, 2), [1, 0], atol=1e-5)


def test_bad_input_is_told_in_one_sentence():
    good, joint = torch.tensor([0.5, 0.5]), torch.eye(2) / 2
    for one in (cross_entropy, kl, jsd, total_variation):
        name = one.__name__
        for p, q, sentence in (
            (good * 1.3, good, r"p must be of sum 1 along the last axis; got 1\.3\. Divide by the"),
            (good, good * 2, r"q must be of sum 1 along the last axis; got 2\.0\. Divide by the s"),
            (good, torch.tensor([1.5, -0.5]), r"q must be >= 0 everywhere; got -0\.5\.$"),
            (good, laws(3).float(), r"q must be of the shape of p, \(2,\); got \(3,\)\. torch\.br"),
            (good * math.nan, good, r"p must be of sum 1 along the last axis; got nan"),
        ):
            with pytest.raises(UsageError, match=f"^{name}: {sentence}"):
                one(p, q)
    whole = torch.arange(4)
    for call, sentence in (
        (lambda: entropy(torch.tensor([3.0, 1.0])), r"entropy: p must be of sum 1 .*; got 4\.0"),
        (lambda: entropy(torch.zeros(3, 0)), r"p must be of a shape \(\.\.\., n\).*got \(3, 0\)"),
        (lambda: entropy(good, base=1), r"entropy: base must be in \(1, inf\); got 1"),
        (lambda: mutual_information(torch.eye(2)), r"joint must be of sum 1; got 2\.0\. Divide by"),
        (lambda: mutual_information(-joint), r"joint must be >= 0 everywhere; got -0\.5"),
        (lambda: mutual_information(good), r"axes for x and y.*shape \(2,\), given=None"),
        (lambda: mutual_information(joint, given=0), r"joint must be a table with axes for x and"),
        (lambda: mutual_information(joint[None], given=3), r"shape \(1, 2, 2\), given=3"),
        (lambda: plug_in_mi(whole, whole[:3]), r"samples of one shape.*\(4,\) and \(3,\)"),
        (lambda: plug_in_mi(whole[:0], whole[:0]), r"one or more; got 'shapes \(0,\) and \(0,\)"),
        (lambda: plug_in_mi(whole, whole, correction="jackknife"), r"one of 'none', 'miller-madow"),
    ):
        with pytest.raises(UsageError, match=sentence):
            call()

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit
from principia.networks.mlp import MLP
from principia.regularization import (
    LabelSmoothing,
    SoftCrossEntropy,
    expected_calibration_error,
    forward_correction,
    reliability,
    uniform_confusion,
)

KEY = "regularization/label_smoothing"
NOISE = torch.tensor([[0.8, 0.1, 0.3], [0.2, 0.7, 0.0], [0.0, 0.2, 0.7]], dtype=torch.float64)


def outputs(rows=200, classes=4, seed=0):
    rng = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(rows, classes, generator=rng, dtype=torch.float64)
    return logits, torch.randint(classes, (rows,), generator=rng)


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("torch.eye(classes, dtype=torch.float64) + eps / classes",
         "torch.eye(classes, dtype=torch.float64) + eps / (classes + 1)", "loss_decomposes"),
        ("F.cross_entropy(logits, self.Pi.mT[target]", "F.cross_entropy(logits, self.Pi[target]",
         "minimizer_is_smoothed_posterior"),
        ("log_Pi + logits", "log_Pi.mT + logits", "forward_correction_recovers"),
        ("+ logits.log_softmax(dim=-1)[", "+ logits[", "forward_correction_recovers"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("(1 - self.eps) * soft + self.eps / classes", "(1 - self.eps) * soft",
         "torch_is_the_uniform_case",
         ["as a part", "as a part, distributions", "as a part, several places"]),
        ("eps: Rate = 0.1) -> None", "eps: Rate = 0.2) -> None", "torch_is_the_uniform_case",
         ["as a part, by default"]),
        ("bool(((sums - 1).abs() <= 1e-5).all()):\n        return", "False:\n        return",
         "targets_are_distributions", ["distributions are taken"]),
        ("bool((Pi < 0).any()):", "bool((Pi > 0).any()):", "targets_are_distributions",
         ["what is told"]),
        ("worst = int((sums - 1).abs().argmax())", "worst = int((sums - 1).abs().argmin())",
         "targets_are_distributions", ["what is told"]),
        ("            proven = True", "            proven = False", "targets_are_distributions",
         ["other errors are their own"]),
        ("log_Pi + logits", "log_Pi.flip(0) + logits", "forward_correction_recovers", ["product"]),
        ("log_Pi = Pi.clamp_min(torch.finfo(Pi.dtype).tiny).log()", "log_Pi = Pi.log()",
         "forward_correction_recovers", ["no gradient of a class that is never seen"]),
        ("y: Int[Tensor, \" N\"], bins: PositiveInt = 15\n) -> tuple",
         "y: Int[Tensor, \" N\"], bins: PositiveInt = 16\n) -> tuple",
         "calibrated_is_as_sure_as_right", ["15 bins, by default"]),
        ("clamp_max(bins - 1)", "clamp_max(bins - 2)", "calibrated_is_as_sure_as_right",
         ["by SciPy"]),
        ("(accuracy - confidence).abs()).sum()", "(accuracy - confidence)).sum()",
         "calibrated_is_as_sure_as_right", ["expected calibration error"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


@pytest.mark.parametrize(
    ("claim", "tol"),
    [("minimizer_is_smoothed_posterior", 1e-8), ("forward_correction_recovers", 1e-6)],
)
def test_minimizers_are_found_to_rounding(claim, tol):
    """Far below the tolerance, also for the most classes, as its reason says."""
    evidence = page(KEY).claim(claim).function(Seed(0), classes=8)
    evidence = dict(evidence.parts).get("clean posterior", evidence)
    assert evidence.tolerance == tol
    assert abs(evidence.measured - evidence.expected) < 1e-14  # some roundings of numbers below 1


@pytest.mark.parametrize("eps", [0.0, 0.1, 0.7])
def test_the_part_is_torchs_label_smoothing_in_any_training(eps):
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(60, 5, generator=rng), torch.randint(3, (60,), generator=rng)
    found = []
    for loss, callbacks in [
        (F.cross_entropy, [LabelSmoothing(eps)]), (nn.CrossEntropyLoss(label_smoothing=eps), []),
    ]:
        model = MLP([5, 8, 3], rng=torch.Generator().manual_seed(1))
        adam = torch.optim.Adam(model.parameters(), lr=0.01)
        fit(model, (x, y), Supervised(loss), adam, epochs=3, callbacks=callbacks, seed=Seed(0))
        found.append(model(x))
    torch.testing.assert_close(*found)


def test_smoothing_twice_and_validation_with_labels():
    """Two parts, one after the other, and numbers of validation that stay comparable."""
    logits, y = outputs()
    x = logits.float()
    twice = fit(
        nn.Linear(4, 4), (x, y), Supervised(F.cross_entropy), torch.optim.SGD([torch.zeros(1)], 1),
        epochs=1, callbacks=[LabelSmoothing(0.5), LabelSmoothing(0.5)], validation=(x, y),
        batch_size=200, seed=Seed(0),
    )
    model, row = twice.model, twice.history[0]
    expected = F.cross_entropy(model(x), y, label_smoothing=0.75).item()
    assert row["loss"] == pytest.approx(expected, rel=1e-5)
    assert row["validation_loss"] == pytest.approx(F.cross_entropy(model(x), y).item(), rel=1e-5)


def test_a_matrix_of_confusions_is_the_mean_over_corrupted_labels():
    logits, y = outputs(classes=3)
    every = torch.stack([F.cross_entropy(logits, torch.full_like(y, k), reduction="none")
                         for k in range(3)])
    expected = (NOISE[:, y] * every).sum(0).mean()
    torch.testing.assert_close(SoftCrossEntropy(NOISE)(logits, y), expected)


def test_forward_correction_is_a_product_and_safe():
    logits, _ = outputs(classes=3)
    torch.testing.assert_close(
        forward_correction(logits, NOISE).exp(), logits.softmax(1) @ NOISE.mT
    )
    extreme = torch.tensor([[1e4, 0.0, -1e4]], dtype=torch.float64)
    never = torch.tensor([[0.7, 0.5, 0.2], [0.3, 0.5, 0.8], [0, 0, 0]], dtype=torch.float64)
    for Pi in (NOISE, never):  # no label is turned into the last class of the second
        for start in (extreme, torch.zeros_like(extreme)):
            for dtype in (torch.float64, torch.float32):
                one = start.detach().to(dtype).requires_grad_()
                said = forward_correction(one, Pi)
                assert said.isfinite().all()
                torch.testing.assert_close(said.exp(), one.softmax(1) @ Pi.mT.to(dtype))
                for label in range(3):
                    (slopes,) = torch.autograd.grad(
                        F.nll_loss(said, torch.tensor([label])), one, retain_graph=True
                    )
                    assert slopes.isfinite().all()


@pytest.mark.parametrize("bins", [1, 10, 15])
def test_calibration_error_is_the_sum_over_bins(bins):
    logits, y = outputs(rows=500)
    p = logits.softmax(1)
    confidence, right = p.max(1).values.numpy(), (p.argmax(1) == y).numpy()
    total = 0.0
    places = np.digitize(confidence, np.linspace(0, 1, bins + 1)[1:-1])
    for place in range(bins):
        inside = places == place
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    found = expected_calibration_error(p, y, bins).item()
    assert found == pytest.approx(total, rel=1e-9)


def test_who_is_as_sure_as_right_has_no_error():
    rng = torch.Generator().manual_seed(0)
    p = torch.randn(200_000, 3, generator=rng, dtype=torch.float64).softmax(1)
    y = torch.multinomial(p, 1, generator=rng)[:, 0]
    assert expected_calibration_error(p, y) < 0.01
    sure = F.one_hot(p.argmax(1), 3).double()
    assert expected_calibration_error(sure, y) == pytest.approx(
        1 - (p.argmax(1) == y).double().mean().item()
    )
    assert reliability(sure, y)[2].tolist() == [0] * 14 + [200_000]


@pytest.mark.parametrize(
    ("Pi", "words"),
    [
        (NOISE.mT.contiguous(), "'column 0 with the sum 1.2'. Its rows do: pass its transpose."),
        (NOISE * torch.tensor([1, 1.5, 1]),
         "'column 1 with the sum 1.5'. Divide each column by its sum."),
        (NOISE * torch.tensor([0.9, 1, 1.5]),
         "'column 2 with the sum 1.5'. Divide each column by its sum."),
        (NOISE * torch.tensor([1, 0, 1]), "'column 1 with the sum 0'."),
        (NOISE + torch.tensor([[-0.9], [0.9], [0]]), "'a negative entry'."),
        (NOISE.mT - 0.1, "'a negative entry'."),
        (NOISE * torch.nan, "'column 0 with the sum nan'."),
        (NOISE * torch.tensor([1, 1, torch.nan]), "'column 2 with the sum nan'."),
        (NOISE + torch.tensor([0, torch.inf, 0]), "'column 1 with the sum inf'."),
    ],
)
def test_matrices_that_are_no_confusions(Pi, words):
    domain = "Pi must be nonnegative with columns that sum to 1; got "
    for make in (SoftCrossEntropy, lambda Pi: forward_correction(torch.zeros(1, 3), Pi)):
        with pytest.raises(UsageError) as caught:
            make(Pi)
        assert str(caught.value).endswith(f": {domain}{words}")


@pytest.mark.parametrize("eps", [-0.1, 1.0])
def test_rates_outside(eps):
    for make in (LabelSmoothing, lambda eps: uniform_confusion(3, eps)):
        with pytest.raises(UsageError, match=r"eps must be in \[0, 1\); got"):
            make(eps)


def test_regression_and_logits_are_refused():
    smoothed = LabelSmoothing(0.1).wrap(Supervised(F.mse_loss))
    x = torch.zeros(4, 2)
    with pytest.raises(UsageError, match="targets must be labels of classes; got"):
        smoothed(nn.Linear(2, 1), (x, torch.zeros(4)), torch.Generator())
    with pytest.raises(UsageError, match=r"p must be probabilities .* Apply softmax to logits"):
        reliability(3 + x.double(), torch.zeros(4, dtype=torch.long))
    for measure in (reliability, expected_calibration_error):
        for p in (x.double() * torch.nan, torch.tensor([[0.5, 0.5], [torch.nan, 1.0]])):
            with pytest.raises(UsageError, match=r"p must be probabilities .*; got 'NaN'\.$"):
                measure(p, torch.zeros(len(p), dtype=torch.long))


def test_losses_that_want_labels_are_told():
    smoothed = LabelSmoothing(0.1).wrap(Supervised(lambda logits, y: F.nll_loss(logits, y)))
    batch = torch.zeros(4, 2), torch.zeros(4, dtype=torch.long)
    with pytest.raises(UsageError, match="the loss must take probabilities as targets"):
        smoothed(nn.Linear(2, 3), batch, torch.Generator())


def test_other_errors_of_the_loss_are_its_own():
    """Those that labels would meet too, and those of a loss that has taken soft targets before."""
    batch, calls = (torch.zeros(4, 2), torch.zeros(4, dtype=torch.long)), []

    def breaks_later(model, batch, rng):
        calls.append(batch)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return F.cross_entropy(model(batch[0]), batch[1])

    def breaks(model, batch, rng):
        raise IndexError("no such row")

    smoothed = LabelSmoothing(0.1).wrap(breaks_later)
    assert smoothed(nn.Linear(2, 3), batch, torch.Generator()).isfinite()
    with pytest.raises(RuntimeError, match="out of memory"):
        smoothed(nn.Linear(2, 3), batch, torch.Generator())
    with pytest.raises(IndexError, match="no such row"):
        LabelSmoothing(0.1).wrap(breaks)(nn.Linear(2, 3), batch, torch.Generator())


@pytest.mark.parametrize(
    ("labels", "words"),
    [([0, -100], "'labels from -100 to 0'. Leave out samples without a label."),
     ([0, 3], "'labels from 0 to 3'.")],
)
def test_labels_of_no_class(labels, words):
    smoothed = LabelSmoothing(0.1).wrap(Supervised(F.cross_entropy))
    with pytest.raises(UsageError) as caught:
        smoothed(nn.Linear(2, 3), (torch.zeros(2, 2), torch.tensor(labels)), torch.Generator())
    assert str(caught.value) == f"LabelSmoothing: targets must be in [0, 2]; got {words}"

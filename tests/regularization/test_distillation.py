import itertools

import pytest
import torch
from jaxtyping import config
from scipy.special import log_softmax, softmax
from torch import nn
from torch.nn import functional as F

from planting import assert_caught
from principia.lab.course.catalog import page
from principia.lab.params import UsageError
from principia.lab.runs import Run
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Supervised, fit
from principia.networks.mlp import MLP
from principia.regularization import (
    Distillation,
    DistillationLoss,
    distill,
    soft_targets,
    softened_cross_entropy,
)

KEY = "regularization/distillation"


@pytest.fixture
def lesson():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(64, 5, generator=rng)
    teacher = MLP([5, 8, 4], rng=rng).eval()
    return teacher, x, torch.randint(0, 4, (64,), generator=rng)


@pytest.fixture
def unchecked_shapes():
    """Let wrong shapes through to the component, as outside the tests."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def student(seed=1):
    return MLP([5, 6, 4], rng=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("old", "new", "claim"),
    [
        ("return (logits / temperature).softmax(dim=-1)", "return logits.softmax(dim=-1)",
         "low_temperature_is_hard_labels"),
        ("found = (student / temperature)", "found = (student / 1)", "gradient_formula"),
        ('reduction="none") + torch', 'reduction="none") - torch', "loss_has_a_minus"),
        ("self.temperature**2 * soft", "self.temperature * soft", "t_squared_keeps_scale"),
        ("per_row.sum(dim=-1).mean()", "per_row.mean()", "gradient_formula"),
    ],
)
def test_claims_catch_planted_bugs(old, new, claim):
    assert_caught(KEY, old, new, claim)


@pytest.mark.parametrize(
    ("old", "new", "claim", "parts"),
    [
        ("taught = self.alpha * self", "taught = (self.alpha + 0.1) * self",
         "student_descends_the_weighted_sum", ["one of the two alone"]),
        ("return F.cross_entropy(found, target)", "return 2 * F.cross_entropy(found, target)",
         "student_descends_the_weighted_sum", ["losses that are shown"]),
        ("soft_targets(teacher.detach(), temperature)", "soft_targets(teacher, temperature)",
         "student_descends_the_weighted_sum", ["the teacher"]),
        ("teacher_answers(_ready(teacher), x[:1].to(where))", "teacher_answers(teacher, x)",
         "student_descends_the_weighted_sum", ["a teacher in training"]),
    ],
)
def test_parts_catch_planted_bugs(old, new, claim, parts):
    assert_caught(KEY, old, new, claim, parts=parts)


def test_the_teacher_comes_to_where_its_student_is():
    teacher = nn.Linear(2, 3).eval()
    Distillation(teacher).begin(nn.Linear(2, 3, device="meta"), {}, 1)
    assert {one.device.type for one in teacher.parameters()} == {"meta"}


def test_labels_remain_where_the_knobs_leave_most_doubt():
    claim = page(KEY).claim("low_temperature_is_hard_labels")
    worst = claim.function(Seed(0), classes=50, temperature=0.01, gap=0.2)
    assert worst.verdict == "holds"
    assert [one.tolerance for _, one in worst.parts] == [1e-6, 1e-5]


def test_both_halves_of_the_misprint_are_told():
    misprint = page(KEY).claim("loss_has_a_minus").misprint
    assert "used as a loss" in misprint
    assert "at $T=1$, printed with $T$" in misprint


def test_the_loss_is_scipys_cross_entropy():
    rng = torch.Generator().manual_seed(0)
    student, teacher = 3 * torch.randn(2, 6, 5, generator=rng, dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 3, 4, 0])
    soft = -(softmax(teacher / 7, axis=1) * log_softmax(student / 7, axis=1)).sum(1).mean()
    hard = -log_softmax(student, axis=1)[range(6), y].mean()
    assert softened_cross_entropy(student, teacher, 7.0).item() == pytest.approx(soft, rel=1e-12)
    found = DistillationLoss(7.0, 0.3)(student, teacher, y).item()
    assert found == pytest.approx(0.3 * 49 * soft + 0.7 * hard, rel=1e-12)


def test_the_gradient_checks_and_stops_at_the_teacher():
    rng = torch.Generator().manual_seed(0)
    student, teacher = torch.randn(2, 3, 4, generator=rng, dtype=torch.float64)
    student.requires_grad_()
    loss = DistillationLoss(3.0, 0.6)
    y = torch.tensor([0, 3, 1])
    assert torch.autograd.gradcheck(lambda one: loss(one, teacher, y), (student,))
    teacher.requires_grad_()
    loss(student, teacher, y).backward()
    assert teacher.grad is None


def test_extreme_logits_stay_finite():
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    loss = softened_cross_entropy(logits, -logits.detach(), 0.5)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def test_the_part_and_the_recipe_are_one_training(lesson):
    """Asked once before, or about each batch: on fixed inputs the student becomes the same."""
    teacher, x, y = lesson
    ours, theirs = student(), student()
    words = {"epochs": 3, "batch_size": 16, "seed": Seed(2)}
    adam = torch.optim.Adam(ours.parameters(), lr=0.01)
    distill(teacher, ours, (x, y), adam, temperature=5.0, alpha=0.4, **words)
    fit(
        theirs, (x, y), Supervised(F.cross_entropy),
        torch.optim.Adam(theirs.parameters(), lr=0.01),
        callbacks=[Distillation(teacher, temperature=5.0, alpha=0.4)], **words,
    )
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_with_weight_0_the_teacher_does_not_matter(lesson):
    teacher, x, y = lesson
    found = []
    for callbacks in ([Distillation(teacher, alpha=0.0)], []):
        net = student()
        sgd = torch.optim.SGD(net.parameters(), lr=0.1)
        fit(
            net, (x, y), Supervised(F.cross_entropy), sgd, epochs=2, callbacks=callbacks,
            seed=Seed(0)
        )
        found.append(net(x))
    torch.testing.assert_close(*found)


def test_with_weight_1_the_labels_do_not_matter(lesson):
    """Not even missing ones, of which a cross-entropy is NaN."""
    teacher, x, y = lesson
    logits, said, missing = student()(x), teacher(x), torch.full_like(y, -100)
    loss = DistillationLoss(3.0, 1.0)
    assert F.cross_entropy(logits, missing).isnan()
    assert torch.equal(loss(logits, said, missing), loss(logits, said))
    assert torch.equal(loss.mixed(logits, said, torch.tensor(torch.nan)), loss(logits, said))
    with pytest.raises(UsageError, match="hard must be a loss when alpha < 1; got None"):
        DistillationLoss(3.0, 0.9).mixed(logits, said, None)
    found = []
    for labels in (y, missing):
        for recipe in (True, False):
            net = student()
            sgd = torch.optim.SGD(net.parameters(), lr=0.1)
            if recipe:
                distill(teacher, net, (x, labels), sgd, alpha=1.0, epochs=2, seed=Seed(0))
            else:
                fit(net, (x, labels), Supervised(F.cross_entropy), sgd, epochs=2, seed=Seed(0),
                    callbacks=[Distillation(teacher, alpha=1.0)])
            found.append(net(x))
    for other in found[1:]:
        torch.testing.assert_close(found[0], other)


def test_a_student_of_the_same_kind_becomes_its_teacher(lesson):
    teacher, x, y = lesson
    net = MLP([5, 32, 4], rng=torch.Generator().manual_seed(3))
    adam = torch.optim.Adam(net.parameters(), lr=0.01)
    distill(teacher, net, (x, y), adam, temperature=2.0, alpha=1.0, epochs=300, batch_size=64,
            callbacks=[OneCycle(0.03)], seed=Seed(0))
    with torch.no_grad():
        assert (soft_targets(net(x), 1.0) - soft_targets(teacher(x), 1.0)).abs().max() < 0.02


def test_resume_is_exact(lesson, tmp_path):
    teacher, x, y = lesson

    def train(folder, stop_after=10**9):
        net, taken = student(), itertools.count(1)
        run = Run(Seed(1), folder=folder, save_every=0.0)
        run.asked_to_stop = lambda: next(taken) >= stop_after
        adam = torch.optim.Adam(net.parameters(), lr=0.01)
        distill(teacher, net, (x, y), adam, epochs=3, batch_size=16, run=run, name="student")
        return net

    whole = train(None)
    for stop_after in (2, 3, 5):
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, stop_after)
    again = train(tmp_path)
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("other", [{"temperature": 1.0}, {"alpha": 0.1}])
def test_other_settings_are_another_training(lesson, tmp_path, other):
    teacher, x, y = lesson

    def train(**settings):
        net = student()
        adam = torch.optim.Adam(net.parameters(), lr=0.01)
        distill(teacher, net, (x, y), adam, epochs=2, run=Run(Seed(1), folder=tmp_path), **settings)

    train(temperature=20.0, alpha=0.9)
    train(temperature=20.0, alpha=0.9)  # from its end
    with pytest.raises(UsageError, match="must be of the same training") as caught:
        train(**{"temperature": 20.0, "alpha": 0.9, **other})
    assert next(iter(other)) in str(caught.value)


def test_a_teacher_that_still_trains_is_told(lesson):
    teacher, *_ = lesson
    with pytest.warns(UserWarning, match="teacher must be in evaluation mode"):
        Distillation(teacher.train())
    assert not teacher.training


@pytest.mark.parametrize("temperature", [0.0, -1.0])
def test_temperatures_are_positive(temperature):
    with pytest.raises(UsageError, match=r"temperature must be in \(0, inf\); got"):
        DistillationLoss(temperature)


def test_teachers_that_do_not_fit(lesson, unchecked_shapes):
    _, x, y = lesson
    sgd = torch.optim.SGD(student().parameters(), lr=0.1)
    for teacher, words in [
        (nn.Linear(5, 3), "teacher must be logits of the student's 4 classes"),
        (nn.Linear(7, 4), r"teacher must take inputs of shape \(\d+, 5\); it says: mat1"),
        (nn.BatchNorm2d(5), r"teacher must take inputs of shape \(\d+, 5\); it says: expected 4D"),
    ]:
        with pytest.raises(UsageError, match=words):
            fit(student(), (x, y), Supervised(F.cross_entropy), sgd, epochs=1,
                callbacks=[Distillation(teacher.eval())])
        with pytest.raises(UsageError, match=words):
            distill(teacher.eval(), student(), (x, y), sgd, epochs=1)
    with pytest.raises(UsageError, match="target must be labels when alpha < 1; got None"):
        DistillationLoss(2.0, 0.5)(torch.zeros(1, 2), torch.zeros(1, 2))


def test_logits_of_other_shapes_are_not_broadcast(unchecked_shapes):
    words = r"teacher must be logits of the student's 3 classes, \(2, 3\); got \(2, 1\)"
    for loss in (lambda *both: softened_cross_entropy(*both, 1.0), DistillationLoss(1.0, 1.0)):
        with pytest.raises(UsageError, match=words):
            loss(torch.zeros(2, 3), torch.zeros(2, 1))

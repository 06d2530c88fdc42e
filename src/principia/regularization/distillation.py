r"""Distillation: a small network learns what a large one would answer, doubts included.

A label says that this is a 2; a trained network says that it is a 2, perhaps a 7, hardly a 4. At a
high temperature the doubts become visible, and a student that is asked for the same soft answers
learns from each of them, even about classes that it is never shown. The loss is a cross-entropy: at
least the entropy of the teacher, which it reaches where both answer alike. Its gradient falls like
$1/T^2$, so it is multiplied by $T^2$, and then tends to plain regression on the logits; at a
temperature near 0 the teacher gives labels and nothing else.

$$ \ell_T = -\sum_y\mathrm{softmax}(F/T)_y\Big(\frac{G_y}T-\log\sum_{y'}e^{G_{y'}/T}\Big), \quad
\frac{\partial\ell_T}{\partial G} = \frac1T\big(\mathrm{softmax}(G/T)-\mathrm{softmax}(F/T)\big) $$

$$ \alpha T^2\ell_T+(1-\alpha)\,\ell, \quad
T^2\frac{\partial\ell_T}{\partial G}\to\frac{G-F}K \quad(T\to\infty,\ \textstyle\sum F=\sum G=0) $$

Symbols:
    $F, G$: logits of the teacher and of the student, (B, K)
    $T$: temperature, `temperature`; $\mathrm{softmax}(F/T)$ are the `soft_targets`
    $\ell_T$: `softened_cross_entropy`, mean over the batch; $\ell$ the cross-entropy of the labels
    $\alpha$: weight of the teacher against the labels, `alpha`
    $K$: number of classes

References:
    Hinton, Vinyals and Dean (2015), Distilling the knowledge in a neural network. arXiv:1503.02531
    Bucila, Caruana and Niculescu-Mizil (2006), Model compression. Knowledge Discovery and Data
        Mining. doi:10.1145/1150402.1150464
    Ba and Caruana (2014), Do deep nets really need to be deep? Advances in Neural Information
        Processing Systems 27. arXiv:1312.6184
"""

__all__ = ["DistillationLoss", "Distillation", "distill", "soft_targets", "softened_cross_entropy"]

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from principia.lab.params import PositiveFloat, UnitInterval, UsageError, checked, usage_error
from principia.lab.training import Callback, Objective, Once, Trained, fit, outputs_of

Batch = tuple[Tensor, ...]


@checked
def soft_targets(logits: Float[Tensor, "*B K"], temperature: PositiveFloat) -> Float[
    Tensor, "*B K"
]:
    r"""Computes $\mathrm{softmax}(F/T)$: the answers of a teacher, doubts enlarged by $T$.

    Example:
        >>> soft_targets(torch.tensor([4.0, 2.0, 0.0]), 1.0)
        tensor([0.8668, 0.1173, 0.0159])
        >>> soft_targets(torch.tensor([4.0, 2.0, 0.0]), 10.0)
        tensor([0.4018, 0.3289, 0.2693])
    """
    return (logits / temperature).softmax(dim=-1)


@checked
def softened_cross_entropy(
    student: Float[Tensor, "*B K"], teacher: Float[Tensor, "*B K"], temperature: PositiveFloat
) -> Float[Tensor, ""]:
    r"""Computes $\ell_T$ between the logits of a student and those of its teacher.

    Args:
        student: Logits $G$.
        teacher: Logits $F$; no gradient reaches them.
        temperature: Divides both.

    Example:
        >>> F_ = torch.tensor([[2.0, 0.0]])
        >>> softened_cross_entropy(F_, F_, 1.0), softened_cross_entropy(-F_, F_, 1.0)
        (tensor(0.3653), tensor(1.8885))
    """
    _need_same_shape("softened_cross_entropy", student, teacher)
    targets = soft_targets(teacher.detach(), temperature)
    found = (student / temperature).log_softmax(dim=-1)
    # the divergence and the entropy of the targets, which no student can change
    per_row = F.kl_div(found, targets, reduction="none") + torch.special.entr(targets)
    return per_row.sum(dim=-1).mean()


def _need_same_shape(owner: str, student: Tensor, teacher: Tensor) -> None:
    if student.shape != teacher.shape:
        domain = f"logits of the student's {student.shape[-1]} classes, {tuple(student.shape)}"
        hint = "Both must tell the same classes apart."
        raise usage_error(owner, "teacher", domain, tuple(teacher.shape), hint)


@final
class DistillationLoss(nn.Module):
    r"""Weighs the answers of a teacher against the labels: $\alpha T^2\ell_T+(1-\alpha)\ell$.

    Args:
        temperature: $T$ of the soft answers; a student is used at 1.
        alpha: Weight of the teacher; at 1 no labels are needed, and none are looked at.

    Example:
        >>> loss = DistillationLoss(2.0, 0.5)
        >>> student, teacher = torch.zeros(1, 2), torch.tensor([[2.0, -2.0]])
        >>> loss(student, teacher, torch.tensor([0]))  # (4 + 1) log(2) / 2
        tensor(1.7329)
    """

    @checked
    def __init__(self, temperature: PositiveFloat = 20.0, alpha: UnitInterval = 0.9) -> None:
        super().__init__()
        self.temperature, self.alpha = temperature, alpha

    def forward(
        self, student: Float[Tensor, "B K"], teacher: Float[Tensor, "B K"],
        target: Int[Tensor, " B"] | Float[Tensor, "B K"] | None = None,
    ) -> Float[Tensor, ""]:
        """Compute the loss of a batch of logits."""
        if self.alpha == 1:
            return self.mixed(student, teacher, None)
        if target is None:
            raise usage_error("DistillationLoss", "target", "labels when alpha < 1", target)
        return self.mixed(student, teacher, F.cross_entropy(student, target))

    def mixed(self, student: Tensor, teacher: Tensor, hard: Tensor | None) -> Tensor:
        """Weigh the soft loss against any other one, which is not looked at when alpha is 1."""
        _need_same_shape("DistillationLoss", student, teacher)
        soft = softened_cross_entropy(student, teacher, self.temperature)
        taught = self.alpha * self.temperature**2 * soft
        if self.alpha == 1:  # 0 times the loss of missing labels, NaN, would be NaN
            return taught
        if hard is None:
            raise usage_error("DistillationLoss", "hard", "a loss when alpha < 1", hard)
        return taught + (1 - self.alpha) * hard

    def extra_repr(self) -> str:
        """Show the settings."""
        return f"temperature={self.temperature}, alpha={self.alpha}"


@final
class Distillation(Callback):
    """Lets any training learn from a teacher too, who is asked about every batch as it is shown.

    Args:
        teacher: A trained network with the same inputs and classes; it stays as it is.
        temperature: Of the soft answers.
        alpha: Weight of the teacher against the loss of the training itself; at 1 that loss is
            not computed.

    Example:
        >>> teacher, student = nn.Linear(2, 3).eval(), nn.Linear(2, 3)
        >>> x, y = torch.randn(8, 2), torch.zeros(8, dtype=torch.long)
        >>> sgd = torch.optim.SGD(student.parameters(), lr=0.1)
        >>> lesson = [Distillation(teacher, temperature=4.0)]
        >>> from principia.lab.training import Supervised
        >>> trained = fit(student, (x, y), Supervised(F.cross_entropy), sgd, callbacks=lesson)
    """

    @checked
    def __init__(
        self, teacher: nn.Module, *, temperature: PositiveFloat = 20.0, alpha: UnitInterval = 0.9
    ) -> None:
        self.teacher = _ready(teacher)
        self.loss = DistillationLoss(temperature, alpha)
        self.temperature, self.alpha = temperature, alpha

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        """Bring the teacher to where the student is."""
        self.teacher.to(next(model.parameters()).device)

    def wrap(self, objective: Objective) -> Objective:
        """Add the teacher's opinion to what the training makes smaller."""

        def taught(model: Any, batch: Batch, rng: torch.Generator, /) -> Tensor:
            once = Once(model)
            hard = objective(once, batch, rng) if self.alpha < 1 else None
            return self.loss.mixed(once(batch[0]), teacher_answers(self.teacher, batch[0]), hard)

        return taught


def _ready(teacher: nn.Module) -> nn.Module:
    """Put a teacher into evaluation mode; one that was still training gets a warning."""
    if teacher.training:
        warnings.warn(
            "Distillation: teacher must be in evaluation mode; it was in training mode, and has "
            "been changed. Call teacher.eval().", stacklevel=3,
        )
    return teacher.eval()


@torch.no_grad()
def teacher_answers(teacher: nn.Module, x: Tensor) -> Tensor:
    """Ask the teacher; one that takes other inputs is refused with a sentence."""
    try:
        return teacher(x)
    except (RuntimeError, ValueError) as error:  # the latter from normalization
        reason = str(error).splitlines()[0].rstrip(".")
        raise UsageError(
            f"Distillation: teacher must take inputs of shape {tuple(x.shape)}; it says: {reason}. "
            "Take a network, or name a run, with the same data."
        ) from error


@checked
def distill(
    teacher: nn.Module, student: nn.Module, data: tuple[Tensor, Tensor], optimizer: Optimizer, *,
    temperature: PositiveFloat = 20.0, alpha: UnitInterval = 0.9, **training: Any,
) -> Trained:
    """Trains a student on a teacher's answers, which are asked for once, before the training.

    With inputs that change from epoch to epoch (augmentation, noise) use `Distillation` instead.

    Args:
        teacher: A trained network; it stays as it is.
        student: What is trained, in place.
        data: Inputs and labels; with alpha = 1 the labels do not matter.
        optimizer: Of the student.
        temperature: Of the soft answers.
        alpha: Weight of the teacher against the labels.
        training: Whatever else `fit` takes: epochs, parts, validation, ...

    Example:
        >>> teacher, student = nn.Linear(2, 3).eval(), nn.Linear(2, 3)
        >>> x, y = torch.randn(64, 2), torch.zeros(64, dtype=torch.long)
        >>> adam = torch.optim.Adam(student.parameters(), lr=0.3)
        >>> trained = distill(teacher, student, (x, y), adam, temperature=1.0, alpha=1.0, epochs=90)
        >>> bool((student(x).softmax(1) - teacher(x).softmax(1)).abs().max() < 0.05)
        True
    """
    x, y = data
    where = next(iter(teacher.parameters()), x).device
    teacher_answers(_ready(teacher), x[:1].to(where))  # so that a teacher of something else is told
    answers = outputs_of(teacher, x.to(where)).to(x.device)
    return fit(student, (x, y, answers), _Lesson(temperature, alpha), optimizer, **training)


@final
@dataclass(frozen=True)
class _Lesson:
    """What `distill` makes smaller; a resumed training is known by its settings."""

    temperature: float
    alpha: float

    def __call__(self, model: Any, batch: Batch, rng: torch.Generator, /) -> Tensor:
        inputs, target, *said = batch
        found = model(inputs)
        if not said:  # validation data come without answers: there, the labels count
            return F.cross_entropy(found, target)
        return DistillationLoss(self.temperature, self.alpha)(found, *said, target)

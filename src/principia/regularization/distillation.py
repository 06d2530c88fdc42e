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

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

import plotly.graph_objects as go
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Adam, Optimizer

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Count, Fraction, Positive, Range
from principia.lab.draws import randn
from principia.lab.errors import UsageError, refuse
from principia.lab.evidence import Evidence, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.pairs import paired
from principia.lab.relations import at_least, equal, every, slope
from principia.lab.seeds import Seed
from principia.lab.teachers import teacher_of
from principia.lab.training import (
    Objective,
    Once,
    OneCycle,
    Part,
    Supervised,
    Trained,
    accuracy,
    evaluate,
    fit,
    part,
)
from principia.lab.training.metrics import outputs_of
from principia.networks.mlp import MLP
from principia.regularization.batch_norm import ConvNet

Batch = tuple[Tensor, ...]
Classes = Annotated[int, Range(2, 50)]
Spread = Annotated[float, Range(0.1, 3)]  # of random logits: larger ones are all but labels
LEFT_OUT = 3  # the class that a student is never shown


@checked
def soft_targets(logits: Float[Tensor, "*B K"], temperature: Positive) -> Float[Tensor, "*B K"]:
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
    student: Float[Tensor, "*B K"], teacher: Float[Tensor, "*B K"], temperature: Positive
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
    def __init__(self, temperature: Positive = 20.0, alpha: Fraction = 0.9) -> None:
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
            raise refuse("DistillationLoss", "target", "labels when alpha < 1", target)
        return self.mixed(student, teacher, F.cross_entropy(student, target))

    def mixed(self, student: Tensor, teacher: Tensor, hard: Tensor | None) -> Tensor:
        """Weigh the soft loss against any other one, which is not looked at when alpha is 1."""
        _need_same_shape("DistillationLoss", student, teacher)
        soft = softened_cross_entropy(student, teacher, self.temperature)
        taught = self.alpha * self.temperature**2 * soft
        if self.alpha == 1:  # 0 times the loss of missing labels, NaN, would be NaN
            return taught
        if hard is None:
            raise refuse("DistillationLoss", "hard", "a loss when alpha < 1", hard)
        return taught + (1 - self.alpha) * hard

    def extra_repr(self) -> str:
        """Show the settings."""
        return f"temperature={self.temperature}, alpha={self.alpha}"


@final
class Distillation(Part):
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
        >>> trained = fit(student, (x, y), Supervised(F.cross_entropy), sgd, parts=lesson)
    """

    @checked
    def __init__(
        self, teacher: nn.Module, *, temperature: Positive = 20.0, alpha: Fraction = 0.9
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
            return self.loss.mixed(once(batch[0]), _answers(self.teacher, batch[0]), hard)

        return taught


@checked
def distill(
    teacher: nn.Module, student: nn.Module, data: tuple[Tensor, Tensor], optimizer: Optimizer, *,
    temperature: Positive = 20.0, alpha: Fraction = 0.9, **training: Any,
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
        >>> adam = Adam(student.parameters(), lr=0.3)
        >>> trained = distill(teacher, student, (x, y), adam, temperature=1.0, alpha=1.0, epochs=90)
        >>> bool((student(x).softmax(1) - teacher(x).softmax(1)).abs().max() < 0.05)
        True
    """
    x, y = data
    where = next(iter(teacher.parameters()), x).device
    _answers(_ready(teacher), x[:1].to(where))  # so that a teacher of something else is told
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


@part()
def distillation(
    run: Run, *, teacher: str = "", temperature: Positive = 4.0, alpha: Fraction = 0.9
) -> Part:
    """Lets the training learn from the network that an earlier run has trained, too.

    Args:
        teacher: Name of the run whose network teaches.
        temperature: Temperature of the soft answers.
        alpha: Weight of the teacher against the loss of the training itself.
    """
    return Distillation(teacher_of(run, teacher), temperature=temperature, alpha=alpha)


@claim(
    control={"form": "printed"}, source="Hinton, Vinyals and Dean 2015, sec. 2; Gibbs' inequality",
    misprint=r"$\ell=+\sum_y\mathrm{softmax}(F/T)_y\log\mathrm{softmax}(G/T)_y$ used as a loss, "
    "and the term of the labels, which is at $T=1$, printed with $T$",
)
def loss_has_a_minus(
    seed: Seed, *, classes: Annotated[int, Range(2, 20)] = 10,
    temperature: Annotated[float, Range(3, 50)] = 4.0,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""$\ell_T\ge H(\mathrm{softmax}(F/T))$; descent reaches it, at $G=F$ up to a constant."""
    rng, rows, steps = seed.torch(), 20, 2000
    teacher, student = 2 * randn(rng, 2, rows, classes)
    targets = soft_targets(teacher, temperature)
    entropy = torch.special.entr(targets).sum(dim=1).mean()
    sign = 1 if form == "correct" else -1
    # each row has curvature at most 1/(2T²), and the printed sign would run away at any step
    lr, values = rows * 2 * temperature**2, []
    student.requires_grad_()
    for _ in range(steps):
        value = sign * softened_cross_entropy(student, teacher, temperature)
        (slopes,) = torch.autograd.grad(value, student)
        student.data.sub_(lr * slopes)
        values.append(value.detach())
    path = torch.stack(values)
    apart = _centered(student.detach()) - _centered(teacher)
    shown = sorted({min(steps - 1, round(1.3**k)) - 1 for k in range(1, 30)})
    return every({
        "never below": at_least(path, entropy, slack=1e-12, why="Gibbs' inequality; rounding"),
        "value": equal(
            path[-1], entropy, tol=1e-6, why="the statement: descent has converged to this"
        ).drawn(
            Series("loss", [step + 1 for step in shown], path[shown], style="line"),
            Series("entropy of the teacher", [1, steps], [float(entropy)] * 2, "bound"),
            x="step", y="loss", log="x",
        ),
        # a value within 1e-6 leaves the square root of it open, over the least probability
        "logits": equal(
            apart / temperature, 0.0, tol=float(2e-3 / targets.min().sqrt()),
            why="where the loss is that near its minimum, by its curvature",
        ),
    })


@claim(control={"factor": "1"}, source="Hinton, Vinyals and Dean 2015, eq. 2")
def gradient_formula(
    seed: Seed, *, classes: Classes = 10, temperature: Annotated[float, Range(0.5, 50)] = 4.0,
    factor: Literal["1 / T", "1"] = "1 / T",
) -> Evidence:
    r"""$\partial\ell_T/\partial G=\frac1T(\mathrm{softmax}(G/T)-\mathrm{softmax}(F/T))$."""
    rng = seed.torch()
    teacher, student = 3 * randn(rng, 2, 50, classes)
    student.requires_grad_()
    (found,) = torch.autograd.grad(
        len(student) * softened_cross_entropy(student, teacher, temperature), student
    )
    difference = soft_targets(student, temperature) - soft_targets(teacher, temperature)
    expected = difference.detach() / (temperature if factor == "1 / T" else 1)
    return equal(found, expected, tol=1e-14, why="float64 rounding of numbers below 2").drawn(
        Series("autograd", range(classes), found[0], style="points"),
        Series("formula", range(classes), expected[0], "predicted", "bars"),
        x="class", y="gradient of one row",
    )


@claim(control={"centered": False}, source="Hinton, Vinyals and Dean 2015, eq. 3 and 4")
def high_temperature_matches_logits(
    seed: Seed, *, classes: Annotated[int, Range(3, 50)] = 10, spread: Spread = 1.0,
    centered: bool = True,
) -> Evidence:
    r"""Zero-mean logits: $T^2\partial\ell_T/\partial G\to(G-F)/K$, with an error $O(1/T)$."""
    # the next order must be small against the first at the lowest temperature, too
    temperatures = 10 * spread * torch.logspace(0, 2, 9, dtype=torch.float64)
    teacher, student = spread * randn(seed.torch(), 2, 100, classes)
    if centered:
        teacher, student = _centered(teacher), _centered(student)
    limit = (student - teacher) / classes
    errors = torch.stack([
        (_slopes(student, teacher, float(T)) * T**2 - limit).square().mean().sqrt()
        for T in temperatures
    ])
    return slope(
        temperatures, errors, -1, tol=0.05, why="the error of second order bends the line by 1 %",
        labels=("T", "root mean square distance to (G - F) / K"),
    )


@claim(control={"factor": "1"}, source="Hinton, Vinyals and Dean 2015, sec. 2")
def t_squared_keeps_scale(
    seed: Seed, *, classes: Classes = 10, spread: Spread = 1.0,
    factor: Literal["T²", "1"] = "T²",
) -> Evidence:
    r"""The gradient of $T^2\ell_T$ tends to a finite one: $\alpha$ means the same at all $T$."""
    temperatures = torch.logspace(0, 2.5, 11, dtype=torch.float64) * spread
    teacher, student = (_centered(one) for one in spread * randn(seed.torch(), 2, 100, classes))

    def norm(T: float) -> float:
        times = DistillationLoss(T, 1.0)  # its own factor is T²
        student.requires_grad_()
        (slopes,) = torch.autograd.grad(times(student, teacher), student)
        return float(slopes.norm()) / (1 if factor == "T²" else T**2)

    limit = float((student - teacher).norm()) / classes / len(student)
    return equal(
        norm(20 * spread) / norm(200 * spread), 1.0, tol=0.1, why="the statement: within 10 %"
    ).drawn(
        Series("norm of the gradient", temperatures, [norm(float(T)) for T in temperatures],
               style="line"),
        Series("|G - F| / K", temperatures, [limit] * len(temperatures), "predicted", "line"),
        x="T", y="norm of the gradient", log="xy",
    )


@claim(control={"tie": True}, source="Hinton, Vinyals and Dean 2015, sec. 2")
def low_temperature_is_hard_labels(
    seed: Seed, *, classes: Classes = 10, temperature: Annotated[float, Range(0.001, 0.01)] = 0.01,
    gap: Annotated[float, Range(0.2, 3)] = 0.5, tie: bool = False,
) -> Evidence:
    r"""As $T\to0$ the soft targets become the label with the largest logit, and nothing else."""
    rng, rows = seed.torch(), 200
    teacher, student = randn(rng, 2, rows, classes)
    first, second = teacher.topk(2, dim=1).indices.T
    labels = second if tie else first
    # the winner leads by a known gap, or not at all
    lead = 0.0 if tie else gap
    teacher.scatter_(1, first[:, None], teacher.gather(1, second[:, None]) + lead)
    targets = soft_targets(teacher, temperature)
    wanted = F.one_hot(labels, classes).double()
    shown = torch.logspace(-2, 1, 31, dtype=torch.float64)
    return every({
        "targets": equal(
            targets, wanted, tol=1e-6,
            why="at most 49 other classes, each behind by 20 T or more: 49 exp(-20) is 1e-7",
        ).drawn(
            Series("probability of the winner", shown,
                   [soft_targets(teacher, float(T)).max(dim=1).values.mean() for T in shown],
                   style="line"),
            Series("label", shown, [1.0] * len(shown), "predicted", "line"),
            x="T of the teacher", y="mean probability", log="x",
        ),
        "loss of a student at T = 1": equal(
            F.cross_entropy(student, targets), F.cross_entropy(student, labels), tol=1e-5,
            why="the distance of the targets, times differences of logits, which are below 10",
        ),
    })


@experiment(
    reaches={
        "teacher_accuracy": at_least_goal(0.988), "errors_in_10000": at_most_goal(146),
        "saved": at_least_goal(1),
    },
    floor={"saved": at_least_goal(0)},
    source="Hinton, Vinyals and Dean (2015), sec. 3: a net with two layers of 800 units makes 146 "
    "errors by itself and 74 after distillation; its teacher makes 67",
)
def mnist_distill(
    run: Run, *, teacher: str = "", temperature: Positive | None = None, alpha: Fraction = 0.9,
    pairs: Annotated[int, Range(2, 20)] = 3, epochs: Count = 7,
) -> None:
    """Teaches a small network with a large one's answers, and beside it one with labels alone.

    Args:
        teacher: Name of a run whose network teaches; by default a convolutional net is trained.
        temperature: Temperature of the soft answers; by default 20 at full budget, as published,
            and 4 for the student of 16 units, since small ones want lower temperatures.
        alpha: Weight of the teacher against the labels.
        pairs: How many students of each kind.
        epochs: How often a student goes through the pictures.
    """
    x, y, x_test, y_test = handwriting(run)
    x, x_test, classes = x.flatten(1), x_test.flatten(1), 10
    test = x_test, y_test
    hidden, usual = ([800, 800], 20.0) if run.full else ([16], 4.0)
    temperature = usual if temperature is None else temperature
    epochs = epochs if run.full else 5 * epochs  # of far fewer pictures
    batch_size = 128 if run.full else 32
    master = teacher_of(run, teacher) if teacher else _teacher(run, (x, y), test)
    answers = _answers(master, x_test[:1])  # so that a teacher of something else is told early
    if answers.shape[1] != classes:
        raise refuse("mnist_distill", "teacher", f"of {classes} classes", answers.shape[1])
    run.record(teacher_accuracy=evaluate(master, test, {"accuracy": accuracy})["accuracy"])

    def student(own: Seed, name: str, data: tuple[Tensor, Tensor], weight: float) -> MLP:
        net = MLP([x.shape[1], *hidden, classes], rng=own.child("init").torch())
        distill(
            master, net, data, Adam(net.parameters(), lr=1e-3), temperature=temperature,
            alpha=weight, epochs=epochs, batch_size=batch_size,
            parts=[OneCycle(2e-3 if run.full else 1e-2)], validation=test,
            metrics={"accuracy": accuracy}, seed=own, run=run, name=name,
        )
        return net.cpu()

    wrong: dict[str, list[float]] = {"distilled": [], "alone": []}
    for number in range(pairs):
        own = run.seed.child(f"pair {number}")
        for name, weight in (("distilled", alpha), ("alone", 0.0)):
            net = student(own, f"{name}-{number}", (x, y), weight)
            wrong[name].append(float((outputs_of(net, x_test).argmax(1) != y_test).sum()))
            if (name, number) == ("distilled", 0):
                run.keep(net)
    errors = {name: torch.tensor(one) * 10_000 / len(y_test) for name, one in wrong.items()}
    saved = paired(errors["alone"], errors["distilled"])
    run.record(
        errors_in_10000=float(errors["distilled"].mean()),
        errors_alone=float(errors["alone"].mean()),
        **saved.metrics("saved"),
    )
    figure = paired(errors["distilled"], errors["alone"]).figure(
        "test errors in 10,000", ("labels alone", "distilled")
    )
    run.figure("pairs", figure)
    run.figure("soft_targets", _confusable(master, test, temperature))

    # a student that is never shown a 3 knows them from the teacher's doubts about other digits
    unseen = student(run.seed.child("unseen"), "without-3", _without(x, y, LEFT_OUT), 1.0)
    before, after = _corrected(unseen, (x, y), test, run.seed.child("bias").torch())
    run.record(right_3s_unseen=before, right_3s_unseen_corrected=after)


def _teacher(run: Run, data: Batch, test: Batch) -> nn.Module:
    """Train a small convolutional net, which sees the flat pictures as pictures."""
    side = math.isqrt(data[0].shape[1])
    net = nn.Sequential(
        nn.Unflatten(1, (1, side, side)),
        ConvNet([1, 16, 32], side=side, rng=run.seed.child("teacher").torch()),
    )
    fit(
        net, data, Supervised(F.cross_entropy), Adam(net.parameters(), lr=1e-3),
        epochs=6 if run.full else 12, batch_size=128 if run.full else 64, parts=[OneCycle(5e-3)],
        validation=test, metrics={"accuracy": accuracy}, seed=run.seed.child("teacher"), run=run,
        name="teacher",
    )
    return net.cpu().eval()


def _without(x: Tensor, y: Tensor, left_out: int) -> tuple[Tensor, Tensor]:
    kept = y != left_out
    return x[kept], y[kept]


def _corrected(
    net: MLP, data: Batch, test: Batch, rng: torch.Generator
) -> tuple[float, float]:
    """Give the share of unseen digits that are known before and after their bias is corrected.

    The bias is the one that is best on 2000 training pictures, not on the test pictures.
    """
    some = torch.randperm(len(data[0]), generator=rng)[:2000]
    held, truth = outputs_of(net, data[0][some]), data[1][some]
    logits, y = outputs_of(net, test[0]), test[1]
    scale = held.std()  # of the logits, which depends on the temperature

    def share(logits: Tensor, y: Tensor, bias: Tensor, of: Tensor) -> Tensor:
        moved = logits.clone()
        moved[:, LEFT_OUT] += bias
        return (moved.argmax(1) == y)[of].double().mean()

    tried = scale * torch.linspace(0, 5, 101)
    best = max(tried, key=lambda bias: float(share(held, truth, bias, truth >= 0)))
    unseen = y == LEFT_OUT
    return float(share(logits, y, tried[0], unseen)), float(share(logits, y, best, unseen))


def _confusable(teacher: nn.Module, test: Batch, temperature: float) -> go.Figure:
    """Draw the answers of a teacher about the digits that it doubts most."""
    x, y = test
    logits = outputs_of(teacher, x)
    doubt = logits.topk(2, dim=1).values.diff(dim=1)[:, 0]
    rows = doubt.argsort(descending=True)[:12]
    side = math.isqrt(x.shape[1])
    answers = soft_targets(logits[rows], temperature)
    titles = []
    for row, answer in zip(rows.tolist(), answers, strict=True):
        best = answer.topk(3)
        said = ", ".join(f"{i}: {p:.2f}" for p, i in zip(*map(Tensor.tolist, best), strict=True))
        titles.append(f"{int(y[row])}<br><sub>{said}</sub>")
    return figures.images(list(x[rows].view(-1, side, side)), titles, columns=4)


def _ready(teacher: nn.Module) -> nn.Module:
    """Put a teacher into evaluation mode; one that was still training gets a warning."""
    if teacher.training:
        warnings.warn(
            "Distillation: teacher must be in evaluation mode; it was in training mode, and has "
            "been changed. Call teacher.eval().", stacklevel=3,
        )
    return teacher.eval()


@torch.no_grad()
def _answers(teacher: nn.Module, x: Tensor) -> Tensor:
    try:
        return teacher(x)
    except (RuntimeError, ValueError) as error:  # the latter from normalization
        reason = str(error).splitlines()[0].rstrip(".")
        raise UsageError(
            f"Distillation: teacher must take inputs of shape {tuple(x.shape)}; it says: {reason}. "
            "Take a network, or name a run, with the same data."
        ) from error


def _need_same_shape(owner: str, student: Tensor, teacher: Tensor) -> None:
    if student.shape != teacher.shape:
        domain = f"logits of the student's {student.shape[-1]} classes, {tuple(student.shape)}"
        hint = "Both must tell the same classes apart."
        raise refuse(owner, "teacher", domain, tuple(teacher.shape), hint)


def _centered(logits: Tensor) -> Tensor:
    return logits - logits.mean(dim=-1, keepdim=True)


def _slopes(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Give the gradient of the loss of every row by its own logits."""
    student = student.detach().requires_grad_()
    loss = len(student) * softened_cross_entropy(student, teacher, temperature)
    return torch.autograd.grad(loss, student)[0]

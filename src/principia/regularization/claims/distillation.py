r"""Distillation: what is true of it, and what would refute it.

Knobs:
    classes: Number K of classes.
    temperature: Temperature T by which logits are divided.
    form: The loss with its minus, or, as misprinted, without it.
    factor: The factor that is checked; 1 leaves out what the temperature does.
    spread: Standard deviation of the random logits.
    centered: Whether logits have mean 0; if not, the limit is another.
    gap: How far the winner's logit is ahead of the next.
    tie: Whether the two largest logits are equal; then both stay likely at any temperature.
    alpha: Weight α of the teacher's part of the loss.
    alpha_weighs: What α weighs; on the labels it is the other mixture.
"""

import copy
import warnings
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.draws import drawn_anew, randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    slope,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training import Supervised, fit
from principia.regularization.distillation import (
    Distillation,
    DistillationLoss,
    distill,
    soft_targets,
    softened_cross_entropy,
)

Classes = Annotated[int, Range(2, 50)]
Spread = Annotated[float, Range(0.1, 3)]  # of random logits: larger ones are all but labels


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


def _centered(logits: Tensor) -> Tensor:
    return logits - logits.mean(dim=-1, keepdim=True)


@claim(control={"factor": "1"}, source="Hinton, Vinyals and Dean 2015, eq. 2")
def gradient_formula(
    seed: Seed, *, classes: Classes = 10, temperature: Annotated[float, Range(0.5, 50)] = 4.0,
    factor: Literal["1 / T", "1"] = "1 / T",
) -> Evidence:
    r"""$\partial\ell_T/\partial G=\frac1T(\mathrm{softmax}(G/T)-\mathrm{softmax}(F/T))$.

    Args:
        factor: What the difference is multiplied by; 1 forgets that logits are divided by T.
    """
    rng = seed.torch()
    teacher, student = 3 * randn(rng, 2, 10, 5, classes)  # the mean is over all axes in front
    student.requires_grad_()
    (found,) = torch.autograd.grad(
        50 * softened_cross_entropy(student, teacher, temperature), student
    )
    difference = soft_targets(student, temperature) - soft_targets(teacher, temperature)
    expected = difference.detach() / (temperature if factor == "1 / T" else 1)
    why = "float64 rounding of numbers below 2"
    return equal(found, expected, tol=1e-14, why=why).named("gradient of the loss").drawn(
        Series("autograd", range(classes), found[0, 0], style="points"),
        Series("formula", range(classes), expected[0, 0], "predicted", "bars"),
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
    ).named("order of the distance to the limit")


def _slopes(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Give the gradient of the loss of every row by its own logits."""
    student = student.detach().requires_grad_()
    loss = len(student) * softened_cross_entropy(student, teacher, temperature)
    return torch.autograd.grad(loss, student)[0]


@claim(control={"factor": "1"}, source="Hinton, Vinyals and Dean 2015, sec. 2")
def t_squared_keeps_scale(
    seed: Seed, *, classes: Classes = 10, spread: Spread = 1.0,
    factor: Literal["T²", "1"] = "T²",
) -> Evidence:
    r"""The gradient of $T^2\ell_T$ tends to a finite one: $\alpha$ means the same at all $T$.

    Args:
        factor: What the loss is multiplied by; without T² its gradient vanishes with T.
    """
    temperatures = torch.logspace(0, 2.5, 11, dtype=torch.float64) * spread
    teacher, student = (_centered(one) for one in spread * randn(seed.torch(), 2, 100, classes))

    def norm(T: float) -> float:
        times = DistillationLoss(T, 1.0)  # its own factor is T²
        student.requires_grad_()
        (slopes,) = torch.autograd.grad(times(student, teacher), student)
        return float(slopes.norm()) / (1 if factor == "T²" else T**2)

    limit = float((student - teacher).norm()) / classes / len(student)
    return equal(
        [norm(20 * spread) / limit, norm(200 * spread) / limit], 1.0, tol=0.1,
        why="the next order is a share spread / T of the limit, times numbers around 1",
    ).named("norm of the gradient over its limit").drawn(
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


@claim(
    control={"alpha_weighs": "the labels"},
    refutes=["loss", "gradient", "distill", "Distillation", "by default"],
    source="Hinton, Vinyals and Dean 2015, sec. 2",
)
def student_descends_the_weighted_sum(
    seed: Seed, *, classes: Annotated[int, Range(3, 10)] = 4,
    temperature: Annotated[float, Range(1, 30)] = 5.0,
    alpha: Annotated[float, Range(0.1, 0.4)] = 0.3,
    alpha_weighs: Literal["the teacher", "the labels"] = "the teacher",
) -> Evidence:
    r"""A student descends $\alpha T^2\ell_T+(1-\alpha)\ell$; its teacher stays as it is."""
    rng, rows, lr = seed.torch(), 30, 0.1
    x, y = randn(rng, rows, 5), torch.randint(classes, (rows,), generator=rng)
    linear: nn.Linear = nn.utils.skip_init(nn.Linear, 5, classes)  # type: ignore[assignment]
    teacher = nn.Sequential(drawn_anew(linear, rng), nn.Dropout(0.5)).eval()
    start = drawn_anew(copy.deepcopy(linear), rng)
    before, said = linear.weight.clone(), linear(x).detach()
    logits = start(x).detach().requires_grad_()

    def by_hand(student: Tensor, T: float, a: float) -> Tensor:
        """Weigh torch's divergence, and the entropy of the teacher, against its cross-entropy."""
        a = a if alpha_weighs == "the teacher" else 1 - a
        p = (said / T).softmax(dim=1)
        apart = F.kl_div((student / T).log_softmax(dim=1), p, reduction="batchmean")
        soft = apart + torch.special.entr(p).sum() / rows
        return a * T**2 * soft + (1 - a) * F.cross_entropy(student, y)

    def stepped(T: float, a: float) -> Tensor:
        net = copy.deepcopy(start)
        slopes = torch.autograd.grad(by_hand(net(x), T, a), [*net.parameters()])
        return _flat([p - lr * g for p, g in zip(net.parameters(), slopes, strict=True)])

    def trained(
        way: str, teacher: nn.Module = teacher, /, **settings: float
    ) -> tuple[Tensor, dict[str, Any]]:
        net = copy.deepcopy(start)
        sgd = torch.optim.SGD(net.parameters(), lr)
        words: dict[str, Any] = {
            "epochs": 1, "batch_size": rows, "validation": (x, y), "seed": seed.child("order"),
        }
        if way == "distill":
            done = distill(teacher, net, (x, y), sgd, **settings, **words)
        else:
            part = Distillation(teacher, **settings)
            done = fit(net, (x, y), Supervised(F.cross_entropy), sgd, callbacks=[part], **words)
        return _flat([*net.parameters()]), {**done.history[0], "labels": F.cross_entropy(net(x), y)}

    chosen = {"temperature": temperature, "alpha": alpha}
    loss, seen = DistillationLoss(temperature, alpha), (said.clone().requires_grad_(), y)
    pair = [loss(logits, *seen), by_hand(logits, temperature, alpha)]
    slopes = [torch.autograd.grad(one, logits)[0] for one in (loss(logits, *seen), pair[1])]
    (once, row), (always, other) = trained("distill", **chosen), trained("Distillation", **chosen)
    standard = [trained(way)[0] for way in ("distill", "Distillation")]
    first, nothing = DistillationLoss()(logits, *seen), DistillationLoss(temperature, 0.0)
    missing = torch.full_like(y, -100)  # whose cross-entropy is NaN
    alone = DistillationLoss(temperature, 1.0)(logits, said, missing)
    taught = Distillation(teacher, temperature=temperature, alpha=1.0).wrap(_must_not_run)
    within = taught(start, (x, missing), torch.Generator())
    ends = torch.stack([alone, within, nothing(logits, *seen)])
    soft = by_hand(logits, temperature, 1.0 if alpha_weighs == "the teacher" else 0.0)
    wanted = [soft, soft, F.cross_entropy(logits, y)]
    reached = torch.autograd.grad(pair[0], seen[0], allow_unused=True)[0] is not None
    awake = nn.Sequential(linear, nn.Dropout(0.5))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        woken = trained("distill", awake, **chosen)[0]
    kept = [reached, not torch.equal(linear.weight, before), teacher.training]
    calmed = [awake.training, len(told) != 1, not torch.equal(woken, once)]
    return every({
        "loss": equal_to_rounding(*pair),
        "gradient": equal_to_rounding(*slopes),
        "distill": equal_to_rounding(once, stepped(temperature, alpha)),
        "Distillation": equal_to_rounding(always, stepped(temperature, alpha)),
        "by default": equal_to_rounding(
            torch.cat([first[None], *standard]),
            torch.cat([by_hand(logits, 20, 0.9)[None], *[stepped(20, 0.9)] * 2]),
        ),
        "one of the two alone": equal_to_rounding(ends, torch.stack(wanted)),
        "losses that are shown": equal_to_rounding(
            [row["validation_loss"], other["validation_loss"], row["loss"], other["loss"]],
            torch.stack([row["labels"], other["labels"], pair[0], pair[0]]),
        ),
        "the teacher": never(kept, why="no gradient, no step and no change of mode"),
        "a teacher in training": never(calmed, why="is told of, and answers in evaluation mode"),
    }).drawn(
        Series("the teacher's part", range(classes), _slope(alpha * soft, logits), "orange",
               "bars"),
        Series("the labels' part", range(classes), _slope((1 - alpha) * wanted[2], logits), "teal",
               "bars"),
        Series("DistillationLoss", range(classes), rows * slopes[0][0]),
        Series("their sum by hand", range(classes), rows * slopes[1][0], "predicted", "line"),
        x="class", y="slope of a sample's loss in its logit",
    )


def _slope(loss: Tensor, logits: Tensor) -> Tensor:
    """Give the slopes of the first sample's loss, where a loss is a mean over samples."""
    return len(logits) * torch.autograd.grad(loss, logits)[0][0]


def _must_not_run(*_: Any) -> Tensor:
    """Be the loss of labels that nobody has."""
    raise AssertionError("with alpha = 1 the loss of the training is not computed")


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([one.detach().flatten() for one in tensors])

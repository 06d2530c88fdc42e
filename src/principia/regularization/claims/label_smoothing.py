r"""Label smoothing: what is true of it, and what would refute it.

Knobs:
    classes: Number K of classes.
    eps: Share ε of the label that is spread over the classes.
    over: Over which classes it is spread; torch counts the label's own among them.
    weights: How labels and the uniform law are weighed in the sum.
    labels: Whether labels are smoothed; with hard ones the gap grows without end.
    minimizer: Where the loss is said to be least: at the smoothed posterior, or at the clean one.
    correction: Whether predictions are corrupted as labels are; if not, corruption is learned.
    bins: Bins of confidence.
    samples: Labels that are drawn.
    confidence: Whether the model is as sure as it should be.
    repaired: Whether what is wrong is repaired first; then nothing is left to refuse.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn
from torch.autograd.functional import hessian
from torch.func import grad
from torch.nn import functional as F
from torch.optim import LBFGS

from principia.lab.draws import rand, randn
from principia.lab.evidence import (
    Evidence,
    Series,
    claim,
    equal,
    equal_to_rounding,
    every,
    never,
    within_errors,
)
from principia.lab.params import Range, UsageError
from principia.lab.seeds import Seed
from principia.lab.training import Supervised
from principia.regularization.label_smoothing import (
    LabelSmoothing,
    SoftCrossEntropy,
    expected_calibration_error,
    forward_correction,
    reliability,
    uniform_confusion,
)

Smoothed = Annotated[float, Range(0.05, 0.9)]  # for claims: neither hard labels nor none at all
FewClasses = Annotated[int, Range(2, 20)]


@claim(
    control={"over": "the others"},
    refutes=["value", "gradient", "in single precision"],
    source="Szegedy et al. 2016, sec. 7",
)
def torch_is_the_uniform_case(
    seed: Seed, *, classes: FewClasses = 10, eps: Smoothed = 0.1,
    over: Literal["all classes", "the others"] = "all classes",
) -> Evidence:
    r"""Torch's `label_smoothing` is $\Pi=(1-\varepsilon)I+\frac\varepsilon K11^\top$."""
    rng, rows = seed.torch(), 50
    logits, y = 3 * randn(rng, rows, classes), torch.randint(classes, (rows,), generator=rng)
    Pi = uniform_confusion(classes, eps)
    if over == "the others":
        label = torch.eye(classes, dtype=torch.float64)
        Pi = (1 - eps) * label + eps / (classes - 1) * (1 - label)
    ours, theirs = SoftCrossEntropy(Pi), nn.CrossEntropyLoss(label_smoothing=eps)
    logits.requires_grad_()
    pairs = [[loss(logits, y), torch.autograd.grad(loss(logits, y), logits)[0]]
             for loss in (ours, theirs)]
    # as a part of any training it is the same targets, of labels and of distributions
    by_labels = Supervised(F.cross_entropy)
    within = LabelSmoothing(eps).wrap(by_labels)(nn.Identity(), (logits, y), rng)
    default = LabelSmoothing().wrap(by_labels)(nn.Identity(), (logits, y), rng)
    soft, two = randn(rng, rows, classes).softmax(dim=1), (logits[:48, :2], y[:48] % 2)
    spread = LabelSmoothing(eps).wrap(by_labels)(nn.Identity(), (logits, soft), rng)
    places = LabelSmoothing(eps).wrap(Supervised(lambda found, wanted: F.cross_entropy(
        found.movedim(-1, 1), wanted.movedim(-1, 1))))
    many = places(nn.Identity(), (two[0].view(6, 8, 2), two[1].view(6, 8)), rng)
    single = logits.detach().float()
    hard = (logits.softmax(dim=1) - F.one_hot(y, classes))[0]  # the slope without smoothing
    return every({
        name: equal(one.detach(), other.detach(), tol=1e-12, why="float64 rounding")
        for name, one, other in [
            ("value", pairs[0][0], pairs[1][0]), ("gradient", pairs[0][1], pairs[1][1]),
            ("as a part", within, pairs[1][0]),
            ("as a part, by default", default, F.cross_entropy(logits, y, label_smoothing=0.1)),
            ("as a part, distributions", spread,
             F.cross_entropy(logits, soft, label_smoothing=eps)),
            ("as a part, several places", many, theirs(*two)),
        ]
    } | {"in single precision": equal(
        ours(single, y), theirs(single, y), tol=1e-5, why="float32 rounding of numbers below 50"
    )}).drawn(
        Series("label_smoothing of torch", range(classes), rows * pairs[1][1][0] - hard),
        Series("confusion Π", range(classes), rows * pairs[0][1][0] - hard, "predicted", "line"),
        Series("hard label", [0, classes - 1], [0, 0], "gray", "line"),
        x="class", y="slope of the loss, less that of a hard label",
    )


@claim(control={"weights": "swapped"}, source="Szegedy et al. 2016, sec. 7")
def loss_decomposes(
    seed: Seed, *, classes: FewClasses = 10, eps: Annotated[float, Range(0.01, 0.45)] = 0.1,
    weights: Literal["1-ε, ε", "swapped"] = "1-ε, ε",
) -> Evidence:
    r"""$CE(\Pi e_y,q)=(1-\varepsilon)\,CE(e_y,q)+\varepsilon\,CE(u,q)$, with the uniform $u$."""
    rng, rows = seed.torch(), 50
    logits, y = 3 * randn(rng, rows, classes), torch.randint(classes, (rows,), generator=rng)
    of_labels = F.cross_entropy(logits, y)
    of_uniform = -logits.log_softmax(dim=1).mean()
    a, b = (1 - eps, eps) if weights == "1-ε, ε" else (eps, 1 - eps)
    smoothed = SoftCrossEntropy(uniform_confusion(classes, eps))(logits, y)
    rates = torch.linspace(0, 0.95, 20, dtype=torch.float64)
    seen = [SoftCrossEntropy(uniform_confusion(classes, float(one)))(logits, y) for one in rates]
    found = equal(smoothed, a * of_labels + b * of_uniform, tol=1e-12, why="rounding")
    return found.named("smoothed cross-entropy").drawn(
        Series("smoothed cross-entropy", rates, seen, style="points"),
        Series("between labels and uniform", [0, 1], [float(of_labels), float(of_uniform)],
               "predicted", "line"),
        x="ε", y="cross-entropy",
    )


@claim(control={"labels": "hard"}, source="Szegedy et al. 2016, sec. 7; Soudry et al. 2018")
def logit_gap_is_finite(
    seed: Seed, *, classes: FewClasses = 10, eps: Smoothed = 0.1,
    labels: Literal["smoothed", "hard"] = "smoothed",
) -> Evidence:
    r"""The best gap between logits is $\ln\frac{1-\varepsilon+\varepsilon/K}{\varepsilon/K}$."""
    lr = 2.0  # 1 over the largest curvature of a softmax; the least near the minimum is about ε/K
    steps = 200 + round(10 * classes / eps)
    loss = SoftCrossEntropy(uniform_confusion(classes, eps if labels == "smoothed" else 0.0))
    y = torch.randint(classes, (1,), generator=seed.torch())
    logits = (0.1 * randn(seed.child("start").torch(), 1, classes)).requires_grad_()
    at = sorted({min(steps, round(1.25**k)) for k in range(40)})
    seen = []
    for step in range(1, steps + 1):
        (slopes,) = torch.autograd.grad(loss(logits, y), logits)
        logits.data.sub_(lr * slopes)
        if step in at:
            seen.append(_gaps(logits, y).mean())
    gap = math.log((1 - eps + eps / classes) / (eps / classes))
    return equal(
        _gaps(logits, y), gap, tol=1e-6, why="the statement: descent has converged to this"
    ).named("gap between logits").drawn(
        Series("gap of the logits", at, seen, style="line"),
        Series("finite gap", [1, steps], [gap, gap], "predicted"),
        Series("ln t", at, [math.log(one) for one in at], "other"),
        x="step t of gradient descent", y="true logit - other logits", log="x",
    )


def _gaps(logits: Tensor, y: Tensor) -> Tensor:
    """Give how far the true logit is above each other one."""
    others = torch.ones(logits.shape[1], dtype=torch.bool)
    others[y] = False
    return (logits[0, y] - logits[0, others]).detach()


@claim(control={"minimizer": "p"}, source="Gibbs' inequality; Szegedy et al. 2016, sec. 7")
def minimizer_is_smoothed_posterior(
    seed: Seed, *, classes: Annotated[int, Range(2, 8)] = 3,
    minimizer: Literal["Π p", "p"] = "Π p",
) -> Evidence:
    r"""The expected smoothed loss is least at the smoothed posterior $\Pi p(\cdot\mid x)$."""
    Pi, posterior = _confused(seed, classes)
    loss, labels = SoftCrossEntropy(Pi), torch.arange(classes)
    of_label = torch.vmap(lambda row, label: loss(row[None], label[None]), in_dims=(None, 0))

    def expected(logits: Tensor) -> Tensor:
        """Weigh the losses of all labels by their probability, and add over inputs."""
        return (posterior * torch.vmap(of_label, in_dims=(0, None))(logits, labels)).sum()

    found = _minimized(expected, posterior.shape).softmax(dim=1)
    wanted = posterior @ Pi.mT if minimizer == "Π p" else posterior
    return equal(
        found, wanted, tol=1e-8, why="the statement; Newton's last step ends at rounding"
    ).named("probabilities of the minimizer").drawn(
        Series("minimizer", range(classes), found[0], style="bars"),
        Series("Π p", range(classes), (posterior @ Pi.mT)[0], "predicted", "points"),
        Series("p", range(classes), posterior[0], "other", "points"),
        x="class", y="probability, at one input",
    )


def _confused(seed: Seed, classes: int) -> tuple[Tensor, Tensor]:
    """Draw an invertible confusion matrix and the posteriors of five inputs."""
    rng = seed.torch()
    other = rand(rng, classes, classes) + 0.1
    Pi = 0.6 * torch.eye(classes, dtype=torch.float64) + 0.4 * other / other.sum(dim=0)
    return Pi, randn(rng, 5, classes).softmax(dim=1)


def _minimized(function: Any, shape: torch.Size) -> Tensor:
    """Minimize a convex function of logits from 0, until its gradient is rounding."""
    logits = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
    lbfgs = LBFGS([logits], max_iter=500, tolerance_grad=1e-11, tolerance_change=1e-16,
                  line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        lbfgs.zero_grad()
        value = function(logits)
        value.backward()
        return value

    lbfgs.step(closure)  # type: ignore[arg-type]
    found = logits.detach()
    # a line search stops where differences of values are rounding, Newton's steps only where
    # gradients are; a constant added to a row of logits changes nothing, hence the pseudoinverse
    for _ in range(2):
        slopes = grad(function)(found).flatten()
        curvature: Any = hessian(lambda flat: function(flat.view(shape)), found.flatten())
        inverse = torch.linalg.pinv(curvature, rtol=1e-9, hermitian=True)
        found = found - (inverse @ slopes).view(shape)
    return found


@claim(
    control={"correction": False}, refutes=["clean posterior"],
    source="Patrini et al. 2017, theorem 2",
)
def forward_correction_recovers(
    seed: Seed, *, classes: Annotated[int, Range(2, 8)] = 3, correction: bool = True
) -> Evidence:
    r"""Labels corrupted by $\Pi$: the cross-entropy of $\Pi q$ is least at the clean posterior."""
    Pi, posterior = _confused(seed, classes)
    noisy = posterior @ Pi.mT  # of the labels that are seen

    def expected(logits: Tensor) -> Tensor:
        if correction:  # of rows that have more axes in front
            said = forward_correction(logits.view(5, 1, classes), Pi)[:, 0]
        else:
            said = logits.log_softmax(dim=1)
        return -(noisy * said).sum()

    found = _minimized(expected, posterior.shape).softmax(dim=1)
    never_seen = torch.cat([Pi[:-2], Pi[-2:].sum(dim=0, keepdim=True), 0 * Pi[:1]])
    logits = posterior.log().requires_grad_()
    said = forward_correction(logits, never_seen)
    (slopes,) = torch.autograd.grad(said[:, -1].sum(), logits)
    return every({
        "clean posterior": equal(
            found, posterior, tol=1e-6,
            why="the statement; Newton's last step ends at rounding, through Π's inverse",
        ).drawn(
            Series("trained on noisy labels", range(classes), found[0], style="bars"),
            Series("clean posterior", range(classes), posterior[0], "predicted", "points"),
            Series("posterior of the noisy labels", range(classes), noisy[0], "other", "points"),
            x="class", y="probability, at one input",
        ),
        "product": equal_to_rounding(said.exp(), posterior @ never_seen.mT),
        "no gradient of a class that is never seen": never(
            ~(slopes.abs() < 1e-10), why="NaN would be one; rounding of numbers below 1"
        ),
    })


@claim(control={"confidence": "too large"}, refutes=["accuracy"], source="Guo et al. 2017, sec. 2")
def calibrated_is_as_sure_as_right(
    seed: Seed, *, classes: Annotated[int, Range(2, 10)] = 3,
    bins: Annotated[int, Range(2, 20)] = 7, samples: Annotated[int, Range(5000, 50_000)] = 20_000,
    confidence: Literal["right", "too large"] = "right",
) -> Evidence:
    r"""Labels drawn from the model's own $p$: in each bin, $\mathrm{acc}_b=\mathrm{conf}_b$."""
    rng = seed.torch()
    logits = torch.cat([1.5 * randn(rng, samples, classes), torch.zeros(9, classes)])
    logits[-9:, 1] = 1000.0  # confidences of 1
    y = torch.multinomial(logits.softmax(dim=1), 1, generator=rng)[:, 0]
    p = (logits if confidence == "right" else 2 * logits).softmax(dim=1)
    sure, right, count = reliability(p, y, bins)
    full = count > 100  # enough for a standard error, whatever is drawn
    error = (sure * (1 - sure) / count.clamp_min(1)).clamp_min(1e-8).sqrt()
    largest, found = p.max(dim=1)
    ours, by_scipy, few = [], [], slice(0, 12)  # of which some are alone in their bins
    for its, rows in ((sure, right, count), slice(None)), (reliability(p[few], y[few]), few):
        once = torch.ones_like(largest[rows]) / samples  # so that counts are no large numbers
        for statistic, values in [
            ("mean", largest[rows]), ("mean", (found == y)[rows]), ("sum", once)
        ]:
            by_scipy.append(stats.binned_statistic(
                largest[rows], values, statistic, len(its[0]), (0, 1)).statistic)
        ours += [its[0], its[1], its[2].double() / samples]
    rounded = equal_to_rounding(torch.cat(ours), np.nan_to_num(np.concatenate(by_scipy)))
    mean_gap = []
    for many in (bins, 15):  # the latter by default
        gaps = largest - (found == y).double()
        sums = stats.binned_statistic(largest, gaps, "sum", many, (0, 1)).statistic
        mean_gap.append(abs(sums).sum() / len(p))
    ece = [expected_calibration_error(p, y, bins), expected_calibration_error(p, y)]
    return every({
        "accuracy": within_errors(
            right[full], sure[full], error=error[full], why="a share of independent labels"
        ).drawn(
            Series("accuracy", sure[full], right[full], error=error[full]),
            Series("as sure as right", [0, 1], [0, 1], "predicted", "line"),
            x="mean confidence of a bin", y="accuracy",
        ),
        "by SciPy": rounded,
        "15 bins, by default": equal(len(ours[-1]), 15, tol=0, why="a number"),
        "expected calibration error": equal_to_rounding(ece, mean_gap),
    })


@claim(
    control={"repaired": True}, source="by construction",
    refutes=["others are refused", "others are no predictions", "others are no labels"],
)
def targets_are_distributions(
    seed: Seed, *, classes: Annotated[int, Range(3, 10)] = 4, repaired: bool = False,
) -> Evidence:
    r"""Columns of $\Pi$ are distributions; what has other columns is refused, and so are logits."""
    rng, K = seed.torch(), classes
    Pi, posterior = _confused(seed, K)
    some, one = int(torch.randint(K, (1,), generator=rng)), torch.eye(K, dtype=torch.float64)
    moved = Pi[0, some] + 0.1  # below 0 in the first row, the sum as before
    negative = Pi - moved * one[:, [0]] * one[some] + moved * one[:, [1]] * one[some]
    spoiled = torch.where(one.bool() & (one[some] > 0), torch.nan, Pi)
    ways = turn, divide, below = "pass its transpose", "Divide each column", "a negative entry"
    wrong, told = zip(
        (Pi.mT, [turn]), (negative, [below]), (negative.mT, [below]), (spoiled, []),
        (Pi * (1 + one[some]), [divide]), (Pi * (1 - 1e-4 * one[some]), [divide]),
        (Pi * (1 + 1e-4 * one[some]), [divide]), (0 * Pi, []), (torch.inf * Pi, []), strict=True,
    )
    y, logits = torch.arange(5) % K, randn(rng, 5, K)
    unlikely = [logits, 1.01 * posterior, 0.99 * posterior, posterior * torch.nan,
                posterior - one[some] + one[some - 1]]
    if repaired:
        wrong = [(each.nan_to_num(0.0, 1.0).abs() + 1e-3) for each in wrong]
        wrong = [each / each.sum(dim=0) for each in wrong]
        unlikely = [each.nan_to_num(0.0).softmax(dim=1) for each in unlikely]

    def taken(made: Iterable[Any], *uses: Callable[[Any], Any]) -> list[bool]:
        return [not _told(use, each) for each in made for use in uses]

    uses = SoftCrossEntropy, lambda Pi: forward_correction(logits, Pi)
    right = [Pi, Pi.float(), one, one[torch.randperm(K, generator=rng)], Pi @ Pi,
             Pi * (1 + 5e-6), Pi * (1 - 5e-6)]
    measures = lambda p: reliability(p, y), lambda p: expected_calibration_error(p, y)
    soft, bare = one[y], torch.zeros(5, 1)
    others = [(logits, y + K), (logits, y - 1), (bare, 0 * y), (bare, soft[:, 0]),
              (logits, soft.long())]
    if repaired:
        others = [(logits, labels) for labels in (y, y.int(), y, soft, soft)]
    by_labels, by_classes = Supervised(F.cross_entropy), Supervised(
        lambda found, wanted: (F.cross_entropy if repaired else F.nll_loss)(found, wanted))
    failing = [Supervised(lambda found, wanted: found @ found[0, :1]), Supervised(_failing_later())]
    losses = by_labels, by_classes, *failing
    smoothed = [LabelSmoothing(0.1).wrap(one) for one in losses]
    smoothed[3](nn.Identity(), (logits, y), rng)  # takes distributions, at first
    own = [_own_error(partial(one, nn.Identity(), (logits, y), rng)) for one in smoothed[2:]]
    said = [_told(SoftCrossEntropy, each) for each in wrong]
    misled = [[way for way in ways if way in one] != its
              for one, its in zip(said, told, strict=True)]
    misled += [f"column {some} with" not in one for one in said[3:7]]
    why = "a column that is no distribution is no target, one that is one is a target"
    return every({
        "others are refused": never(taken(wrong, *uses), why=why),
        "distributions are taken": never(
            [not it for it in taken(right, *uses) + taken([posterior, one[y]], *measures)], why=why
        ),
        "others are no predictions": never(taken(unlikely, *measures), why=why),
        "others are no labels": never(
            [*taken(others, lambda batch: smoothed[0](nn.Identity(), batch, rng)),
             *taken([(logits, y)], lambda batch: smoothed[1](nn.Identity(), batch, rng))],
            why="they are no classes, or the loss takes no distributions",
        ),
        "what is told": never(misled, why="which column, and the way out that there is"),
        "other errors are their own": never(
            [not one for one in own], why="labels do no better, or distributions were taken before"
        ),
    })


def _failing_later() -> Callable[[Tensor, Tensor], Tensor]:
    """Make a loss that computes with distributions only once, and with labels always."""
    times = itertools.count()

    def loss(found: Tensor, wanted: Tensor) -> Tensor:
        if wanted.is_floating_point() and next(times):
            raise RuntimeError("something else")
        return found.sum()

    return loss


def _own_error(use: Callable[[], Any]) -> bool:
    """Tell whether an error comes as it was raised, and not as a sentence of ours."""
    try:
        use()
    except UsageError:
        return False
    except RuntimeError:
        return True
    return False


def _told(use: Callable[[Any], Any], given: Any) -> str:
    """Give the words with which something is refused; none if it is taken."""
    try:
        use(given)
    except UsageError as error:
        return str(error)
    return ""

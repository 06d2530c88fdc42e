r"""Label smoothing: what is true of it, and what would refute it."""

import math
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.functional import hessian
from torch.func import grad
from torch.nn import functional as F
from torch.optim import LBFGS

from principia.lab.draws import rand, randn
from principia.lab.evidence import Evidence, Series, claim, equal, every
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.lab.training import Supervised
from principia.regularization.label_smoothing import (
    LabelSmoothing,
    SoftCrossEntropy,
    forward_correction,
    uniform_confusion,
)

Smoothed = Annotated[float, Range(0.05, 0.9)]  # for claims: neither hard labels nor none at all
FewClasses = Annotated[int, Range(2, 20)]


@claim(
    control={"over": "the others"},
    refutes=["value", "gradient"],
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
    # as a part of any training it is the same targets
    asked = LabelSmoothing(eps).wrap(Supervised(F.cross_entropy))
    within = asked(nn.Identity(), (logits, y), rng)
    return every({
        name: equal(one.detach(), other.detach(), tol=1e-12, why="float64 rounding")
        for name, one, other in [
            ("value", pairs[0][0], pairs[1][0]), ("gradient", pairs[0][1], pairs[1][1]),
            ("as a part", within, pairs[1][0]),
        ]
    })


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
    return equal(smoothed, a * of_labels + b * of_uniform, tol=1e-12, why="rounding").drawn(
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
    ).drawn(
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
    ).drawn(
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


@claim(control={"correction": False}, source="Patrini et al. 2017, theorem 2")
def forward_correction_recovers(
    seed: Seed, *, classes: Annotated[int, Range(2, 8)] = 3, correction: bool = True
) -> Evidence:
    r"""Labels corrupted by $\Pi$: the cross-entropy of $\Pi q$ is least at the clean posterior."""
    Pi, posterior = _confused(seed, classes)
    noisy = posterior @ Pi.mT  # of the labels that are seen

    def expected(logits: Tensor) -> Tensor:
        said = forward_correction(logits, Pi) if correction else logits.log_softmax(dim=1)
        return -(noisy * said).sum()

    found = _minimized(expected, posterior.shape).softmax(dim=1)
    return equal(
        found, posterior, tol=1e-6,
        why="the statement; Newton's last step ends at rounding, through Π's inverse",
    ).drawn(
        Series("trained on noisy labels", range(classes), found[0], style="bars"),
        Series("clean posterior", range(classes), posterior[0], "predicted", "points"),
        Series("posterior of the noisy labels", range(classes), noisy[0], "other", "points"),
        x="class", y="probability, at one input",
    )

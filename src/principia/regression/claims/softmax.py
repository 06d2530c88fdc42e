r"""Softmax regression: what is true of it, and what would refute it.

Knobs:
    classes: Classes, each with its score.
    shift: What is added to all scores.
    factor: By what scores are multiplied besides; this changes probabilities, a shift does not.
    inner: The sign inside of the Jacobian; a plus is wrong.
    width: How far scores spread.
    convert: Whether the loss is converted from nats to bits.
    through: Whether the squared loss sees the scores or a softmax of them.
    size: How large scores are that float32 has to bear.
    method: How the logarithm is taken; naively, the sum of exponentials overflows.
    dim: Features of a sample.
    reference: The direction of the logistic function; both classes have a say in it.
    l2: The price on the squared weights; it decides what the data leave open.
    rows: Whether all rows of $W$ move by the vector or only one, which changes the scores.
    solver: How the minimum is sought; Adam comes only near it.
    samples: Samples from which is learned.
    loss: What is minimized; weights of the least squared error are no logits.
    folds: Parts of the data, each held out once.
    repetitions: Independent data sets.
    estimator: What estimates the risk; the training data flatter.
"""

import copy
import itertools
import math
from typing import Annotated, Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    mean_is,
    never,
)
from principia.lab.params import Range
from principia.lab.pictures import Histogram, Image, Label, Plot, Rule
from principia.lab.seeds import Seed
from principia.lab.training import fit
from principia.regression._softmax_fast import LBFGS
from principia.regression.softmax import (
    Model,
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

Classes = Annotated[int, Range(2, 50)]
GRADIENT_STEPS = 40  # of the small fits in a study of risks


Way = list[tuple[Tensor, float]]  # places that were looked at, and the loss there


@claim(control={"factor": 2.0}, refutes=["shifted"], source="Bridle 1990")
def simplex_and_shift(
    seed: Seed, *, classes: Classes = 7, shift: Annotated[float, Range(-1000, 1000)] = 13.0,
    factor: Annotated[float, Range(0.1, 10)] = 1.0,
) -> Evidence:
    r"""Probabilities are positive, add up to 1, and do not change under $z+c\mathbf1$."""
    z, T = _scores(seed, 500, classes), 3.0
    p, moved = temperature(z, T), temperature(factor * (z + shift), T)
    return every({
        "sums": equal_to_rounding(p.sum(-1), torch.ones(len(z))),
        "positive": never(p <= 0, why="an exponential is positive"),
        "shifted": equal_to_rounding(moved, p).drawn(
            Series("p(z)", range(classes), p[0], style="bars"),
            Series(f"p({factor:g}(z + {shift:g}))", range(classes), moved[0], "predicted",
                   "points"), x="class", y="probability, of one sample"),
        "by hand": equal_to_rounding(p, (z / T).exp() / (z / T).exp().sum(-1, keepdim=True)),
    })


def _scores(seed: Seed, rows: int, columns: int) -> Tensor:
    return torch.randn(rows, columns, generator=seed.torch(), dtype=torch.float64)


@claim(control={"inner": "δ + p"}, refutes=["autograd", "null vector"], source="by differentiation")
def jacobian(
    seed: Seed, *, classes: Classes = 5, inner: Literal["δ - p", "δ + p"] = "δ - p"
) -> Evidence:
    r"""$\partial p_i/\partial z_j=p_i(\delta_{ij}-p_j)$: symmetric, semidefinite, null along 1."""
    z = _scores(seed, 50, classes)
    ours, p = softmax_jacobian(z.view(5, 10, -1)).flatten(0, 1), z.softmax(-1)
    if inner == "δ + p":
        ours = torch.diag_embed(p) + p[:, :, None] * p[:, None, :]
    exact = torch.func.vmap(torch.func.jacrev(lambda one: one.softmax(-1)))(z)
    why = "eigenvalues in float64 err by a few units of 1e-16"
    return every({
        "autograd": equal_to_rounding(ours, exact).pictured(Plot((
            *(Image(one[0], signed=True, low=-0.25, high=0.25, place=(x, 0, x + classes, classes))
              for x, one in ((0, ours), (classes + 1, exact))),
            Label((f"p({inner})", "by autograd"), (classes / 2, 1.5 * classes + 1), (classes,) * 2,
                  side="above"),
        ), bare=True, square=True)),
        "symmetric": equal_to_rounding(ours, ours.mT),
        "least eigenvalue": at_least(torch.linalg.eigvalsh(ours)[:, 0], 0, slack=1e-14, why=why),
        "null vector": equal_to_rounding(ours.sum(-1), torch.zeros_like(z)),
    })


@claim(control={"convert": False}, refutes=["bits"], source="by definition; one nat is 1/ln 2 bits")
def cross_entropy_from_logits(
    seed: Seed, *, classes: Classes = 6, width: Annotated[float, Range(0.1, 50)] = 5.0,
    convert: bool = True,
) -> Evidence:
    r"""The loss is $-z_y+\ln\sum_je^{z_j}$, torch's own; in bits it is divided by $\ln2$."""
    z, y = width * _scores(seed, 300, classes), _labels(seed, 300, classes)
    grid, small = z.view(3, 100, classes), y.view(3, 100).int()  # labels of another type
    bits = (cross_entropy_bits if convert else cross_entropy)(grid, small).flatten()
    truth = F.one_hot(y, classes).double()
    log2 = torch.special.xlogy(truth, z.double().softmax(-1)).sum(-1) / -math.log(2)
    probable = probability_cross_entropy(truth, z.softmax(-1))
    seen = log2 < 900  # beyond, the probability itself is below the smallest double
    return every({
        "torch": equal_to_rounding(cross_entropy(z, y), F.cross_entropy(z, y, reduction="none")),
        "probabilities": equal_to_rounding(probable[seen], cross_entropy(z, y)[seen]),
        "bits": equal_to_rounding(bits[seen], log2[seen]).drawn(
            Series("loss", 2 ** -log2[seen], bits[seen]),
            Series("-log₂ p", 2 ** -log2[seen].sort().values, log2[seen].sort().values,
                   "predicted"), x="probability p of the label", y="bits", log="x"),
    })


def _labels(seed: Seed, rows: int, classes: int) -> Tensor:
    return torch.randint(classes, (rows,), generator=seed.child("labels").torch())


@claim(control={"through": "softmax"}, refutes=["squared"], source="by differentiation")
def gradient(
    seed: Seed, *, classes: Classes = 6, through: Literal["identity", "softmax"] = "identity"
) -> Evidence:
    r"""$\partial\ell/\partial z=p-e_y$ of the cross-entropy; of the squared loss, $\hat y-y$."""
    z, y = _scores(seed, 200, classes).requires_grad_(), _labels(seed, 200, classes)
    truth = F.one_hot(y, classes).double()
    (by_entropy,) = torch.autograd.grad(cross_entropy(z, y).sum(), z)
    outputs = z if through == "identity" else z.softmax(-1)
    (by_square,) = torch.autograd.grad(squared_loss(outputs, truth).sum(), z)
    p, ends = z.detach().softmax(-1), (-1, 1)
    return every({
        "cross-entropy": equal_to_rounding(by_entropy, z.softmax(-1) - truth),
        "squared": equal_to_rounding(by_square, outputs - truth),
    }).drawn(
        Series("cross-entropy", (p - truth).flatten(), by_entropy.flatten()),
        Series(f"squared loss, {through}", (outputs.detach() - truth).flatten(),
               by_square.flatten(), "orange", "points"),
        Series("output - truth", ends, ends, "predicted"),
        x="output - truth", y="gradient by the score")


@claim(
    control={"method": "naive"},
    refutes=["finite in float32"],
    source="Boyd and Vandenberghe 2004, sec. 3.1.5",
)
def log_sum_exp(
    seed: Seed, *, classes: Classes = 8, size: Annotated[float, Range(100, 1e4)] = 1e4,
    method: Literal["stable", "naive"] = "stable",
) -> Evidence:
    r"""$\max_jz_j\le\ln\sum_je^{z_j}\le\max_jz_j+\ln K$; convex, and finite for large scores."""
    def exact(z: Tensor) -> Tensor:  # from the surprise, -z_y + ln sum e^z, at each label in turn
        if method == "naive":
            return z.exp().sum(-1).log()
        y = torch.arange(len(z)) % classes
        return cross_entropy(z, y) + z[torch.arange(len(z)), y]

    z, w = (10 * _scores(seed.child(name), 100_000, classes) for name in "zw")
    t = torch.rand(100_000, 1, generator=seed.child("t").torch(), dtype=z.dtype)
    value, most = exact(z), z.amax(-1)
    chord = (t[:, 0] * value + (1 - t[:, 0]) * exact(w)) - exact(t * z + (1 - t) * w)
    rounding = 1e-12 * (1 + most.abs())
    large = size * _scores(seed, 100, classes).float().sign()
    far = exact(large).double() - large.double().amax(-1)
    ulp = 2 * float(torch.finfo(torch.float32).eps) * size
    ahead, ahead_far = (
        (one[:, 0] - one[:, 1]) for one in (z[:2000].topk(2).values, large.topk(2).values))
    return every({
        "not below the largest": never(value < most - rounding, why="0 of 100,000, but rounding"),
        "not above it by more": never(
            value > most + math.log(classes) + rounding, why="0 of 100,000, but rounding"),
        "convex": never(chord < -1e-12 * (1 + value.abs()), why="0 of 100,000 chords"),
        "finite in float32": at_most(far.nan_to_num(nan=math.inf), math.log(classes), slack=ulp,
                                     why="float32 rounds scores of this size, twice"),
    }).drawn(
        Series("scores of size 10", ahead, (value - most)[:2000]),
        Series(f"±{size:g} in float32", ahead_far[ahead_far == 0], far[ahead_far == 0], "orange",
               "points"),
        Rule("0", y=0), Rule("ln K", y=math.log(classes)),
        x="how far the largest score is ahead of the second", y="ln Σ exp, above the largest")


@claim(control={"reference": "w₁"}, source="by definition")
def two_classes_is_logistic(
    seed: Seed, *, dim: Annotated[int, Range(1, 50)] = 5,
    reference: Literal["w₁ - w₀", "w₁"] = "w₁ - w₀",
) -> Evidence:
    r"""With two classes the softmax is the logistic function: $p_1=\sigma((w_1-w_0)^\top x)$."""
    model = SoftmaxRegression(dim, 2).double()
    with torch.no_grad():
        model.weight.copy_(_scores(seed, 2, dim))
    x = _scores(seed.child("x"), 300, dim)
    w0, w1 = model.weight.detach()
    direction = w1 - w0 if reference == "w₁ - w₀" else w1
    ours = model(x).softmax(-1)[:, 1]
    found = equal_to_rounding(ours, (x @ direction).sigmoid()).named("probability of class 1")
    field = (x @ direction).sort().values
    return found.drawn(
        Series("softmax", x @ direction, ours), Series("σ", field, field.sigmoid(), "predicted"),
        x=f"({reference})ᵀx", y="probability of class 1")


@claim(control={"rows": "one"}, refutes=["probabilities"], source="by definition; Bridle 1990")
def redundant_parameters(
    seed: Seed, *, dim: Annotated[int, Range(1, 30)] = 6, classes: Annotated[int, Range(2, 10)] = 4,
    l2: Annotated[float, Range(0.01, 1)] = 0.1, rows: Literal["all", "one"] = "all",
) -> Evidence:
    r"""One vector added to all rows of $W$ changes nothing; a price picks rows that sum to 0."""
    x, y = _scores(seed, 200, dim), _labels(seed, 200, classes)
    model = SoftmaxRegression(dim, classes, l2=l2).double()
    with torch.no_grad():  # rows that do not sum to 0: the fit has to bring them there
        model.weight.copy_(_scores(seed.child("W"), classes, dim))
        before = model(x).softmax(-1)
        direction = _scores(seed.child("u"), 1, dim)
        model.weight[: classes if rows == "all" else 1] += direction
        after = model(x).softmax(-1)
    model.fit(x, y)
    slack = "the gradient is below 1e-9, and the price alone holds the sum"
    return every({
        "probabilities": equal_to_rounding(after, before).drawn(
            Series(f"vector added to {rows}", range(classes), after[0], style="bars"),
            Series("before", range(classes), before[0], "predicted", "points"),
            x="class", y="probability, of one sample"),
        "rows of the best weights": equal(
            model.weight.detach().sum(0), torch.zeros(dim).double(), tol=1e-5, why=slack),
    })


@claim(
    control={"solver": "adam"}, refutes=["gradient", "probabilities"],
    source="Byrd, Nocedal and Schnabel 1994",
)
def fast_form_finds_the_minimum(
    seed: Seed, *, dim: Annotated[int, Range(2, 30)] = 8, classes: Annotated[int, Range(2, 10)] = 4,
    l2: Annotated[float, Range(0.01, 1)] = 0.1, solver: Literal["lbfgs", "adam"] = "lbfgs",
) -> Evidence:
    r"""L-BFGS from the curvature at $W=0$ ends where $\nabla h=0$, as torch's own does."""
    sizes = torch.logspace(-1, 1, dim, dtype=torch.float64)  # which a good start makes equal
    x, y = sizes * _scores(seed, 200, dim), _labels(seed, 200, classes)
    fast = SoftmaxRegression(dim, classes, l2=l2, solver=solver).double()
    slow = SoftmaxRegression(dim, classes, l2=l2).double()
    fast.fit(x, y)
    _descend_all(slow, x, y, max_iter=5000, tolerance_grad=1e-8, tolerance_change=0.0)
    risk = fast.risk(fast, (x, y), seed.torch())
    by_hand = F.cross_entropy(fast(x), y) + l2 / 2 * fast.weight.square().sum()
    gradient = torch.cat([one.flatten() for one in torch.autograd.grad(risk, [*fast.parameters()])])
    fresh = SoftmaxRegression(dim, classes, l2=l2)
    ways = [_way(copy.deepcopy(fresh).to(kind), x.to(kind), y) for kind in (x.dtype, torch.float32)]
    far, eight = SoftmaxRegression(8, 4, l2=0.1).double(), torch.logspace(-1, 1, 8).double()
    with torch.no_grad():  # where the curvature is not that at 0, and steps overshoot
        far.weight.copy_(3 * _scores(seed.child("far"), 4, 8))
    ways.append(_way(far, eight * _scores(seed.child("eight"), 200, 8), _labels(seed, 200, 4)))
    lost = SoftmaxRegression(2, 2, l2=1e-3).double()
    with torch.no_grad():  # so far away that the loss is straight, and steps far too long
        lost.weight.copy_(20 * _scores(seed.child("lost"), 2, 2))
    back = _way(lost, _scores(seed, 40, 2), _labels(seed, 40, 2))
    tried, middle = _tried_again(back)
    same = torch.cat([x, x[:, :1], 0 * x[:, :1]], 1)  # columns that depend on each other
    free = SoftmaxRegression(dim + 2, classes).double()
    free.fit(same, y)
    free_risk = free.risk(free, (same, y), torch.Generator())
    free_gradient = torch.cat(
        [one.flatten() for one in torch.autograd.grad(free_risk, [*free.parameters()])])
    inputs = torch.cat([x, torch.ones(200, 1)], 1)
    curvature = inputs.mT @ inputs / (200 * classes)
    curvature[:dim, :dim] += l2 * torch.eye(dim)
    pull = (F.one_hot(y, classes).to(x) - 1 / classes).mT @ inputs / 200
    newton = torch.linalg.solve(curvature, pull.mT).mT
    gradient_at_0 = torch.cat([pull[:, :dim].flatten(), pull[:, dim]]).abs() + 1e-17
    return every({
        "risk": equal_to_rounding(risk.detach(), by_hand.detach()),
        "gradient": at_most(
            gradient.abs(), 1e-9, why="it stops there; rounding is below 1e-14"
        ).drawn(
            Series(f"at the end of {solver}", range(len(gradient)), gradient.abs() + 1e-17),
            Series("at the start", range(len(gradient)), gradient_at_0, "gray", "points"),
            Rule("allowed", y=1e-9), x="weight", y="size of the gradient", log="y"),
        "probabilities": equal(
            fast(x).softmax(-1), slow(x).softmax(-1), tol=1e-4,
            why="torch's stops at a gradient of 1e-8: with l2 >= 0.01, weights to 1e-6, scores to "
            "1e-4"),
        "first move": equal(
            ways[0][1][0], newton, tol=1e-6 * (1 + float(newton.abs().max())),
            why="Newton's, but for 1.5e-8 of the diagonal that dependent columns need"),
        "looks at the loss": at_most(
            [*map(len, ways), len(back)], [40, 100, 100, 100],
            why="every step gains more than the last; float32 ends 10 steps after its last digit"),
        "half a step where the loss is higher": equal_to_rounding(tried, middle),
        "dependent columns": at_most(
            free_gradient.abs(), 1e-8, why="it stops at 1e-9 of them all; rounding is below"),
    })


def _tried_again(way: Way) -> tuple[Tensor, Tensor]:
    """Give where a way went on after a loss that was higher, and the middle of that step."""
    base, tried, middle = way[0], [torch.zeros(0)], [torch.zeros(0)]
    for now, after in itertools.pairwise(way[1:]):
        if now[1] > base[1] + 1e-9:
            tried.append(after[0].flatten())
            middle.append((base[0] + now[0]).flatten() / 2)
        else:
            base = now
    return torch.cat(tried), torch.cat(middle)


def _way(model: SoftmaxRegression, x: Tensor, y: Tensor) -> Way:
    """Fit by the fast form; list where it has looked at the loss, and how high that was."""
    optimizer, seen = LBFGS(model.weight, model.bias, x, l2=model.l2), []

    def look() -> float:
        if len(seen) > 1000:
            raise RuntimeError("it comes to no end")
        optimizer.zero_grad()
        loss = model.risk(model, (x, y), torch.Generator())
        loss.backward()
        place = torch.cat([model.weight, model.bias[:, None]], 1).detach()
        seen.append((place, float(loss.detach())))
        return seen[-1][1]

    optimizer.step(look)
    return seen


def _descend_all(
    model: SoftmaxRegression, x: Tensor, y: Tensor, *, max_iter: int = 100, **settings: Any
) -> None:
    """Fit to all samples at once, with torch's own L-BFGS."""
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=max_iter, line_search_fn="strong_wolfe", **settings)
    fit(model, (x, y), model.risk, optimizer, steps=1, batch_size=len(x))


@claim(
    control={"loss": "squared"},
    refutes=["distance from the posterior"],
    source="Bridle 1990; Gibbs' inequality",
)
def maximum_likelihood(
    seed: Seed, *, samples: Annotated[int, Range(50_000, 300_000)] = 100_000,
    loss: Literal["cross-entropy", "squared"] = "cross-entropy",
) -> Evidence:
    r"""The least cross-entropy is the largest likelihood, and in the limit the true posterior."""
    x, truth = _scores(seed, samples, 2), 1.5 * _scores(seed.child("W"), 3, 3)
    posterior = (x @ truth[:, :2].mT + truth[:, 2]).softmax(-1)
    y = torch.multinomial(posterior, 1, generator=seed.child("y").torch())[:, 0]
    model = SoftmaxRegression(2, 3, solver="lbfgs").double()
    if loss == "cross-entropy":
        _descend_all(model, x, y)
        scores = model(x).detach()
    else:
        inputs = torch.cat([x, torch.ones(samples, 1)], 1)
        scores = inputs @ torch.linalg.lstsq(
            inputs, F.one_hot(y, 3).double(), driver="gelsd").solution
    likelihood = torch.distributions.Categorical(logits=scores).log_prob(y).sum()
    gap = (scores.softmax(-1) - posterior).abs().sum(-1).mean()
    why = "6 free weights: a standard error of about sqrt(6 / samples), 0.008, and room"
    return every({
        "loss is minus log-likelihood": equal_to_rounding(
            cross_entropy(scores, y).sum(), -likelihood
        ),
        "distance from the posterior": at_most(gap, 0.02, why=why),
    })


@claim(control={"estimator": "training"}, refutes=["estimate minus risk"], source="Stone 1974")
def held_out_risk(
    seed: Seed, *, samples: Annotated[int, Range(100, 400)] = 200,
    dim: Annotated[int, Range(10, 40)] = 30, folds: Annotated[int, Range(2, 10)] = 5,
    repetitions: Annotated[int, Range(100, 300)] = 200,
    estimator: Literal["cross-validation", "training"] = "cross-validation",
) -> Evidence:
    r"""Cross-validation estimates the risk on new samples without bias; training data flatter."""
    fresh = 500  # new samples, to measure each risk
    x = _scores(seed, repetitions * (samples + fresh), dim).view(repetitions, -1, dim)
    truth = _scores(seed.child("W"), 3, dim) / dim**0.5 * 1.5
    posterior = (x @ truth.mT).softmax(-1)
    y = torch.multinomial(posterior.flatten(0, 1), 1, generator=seed.child("y").torch())
    y = y.view(repetitions, -1)
    x, new, y, new_y = x[:, :samples], x[:, samples:], y[:, :samples], y[:, samples:]
    whole = _descend(x, y)
    training = empirical_risk(whole, x, y)
    if estimator == "training":
        guess, target = training, empirical_risk(whole, new, new_y)
    else:
        guess = cross_validated_risk(_descend, x, y, folds=folds)
        # what it estimates: the risk of models that have seen one fold less
        kept = samples - samples // folds
        target = empirical_risk(_descend(x[:, :kept], y[:, :kept]), new, new_y)
    lower = float((training - empirical_risk(whole, new, new_y)).mean())
    few, few_y = _scores(seed, 264, 2).view(8, 3, 11, 2), _labels(seed, 264, 3).view(8, 3, 11)
    held = [(torch.arange(11) // 3 == fold).nonzero()[:, 0] for fold in range(4)]  # 3 + 3 + 3 + 2
    others = [torch.tensor([k for k in range(11) if k not in one]) for one in held]
    alone = torch.stack([
        torch.cat([
            F.cross_entropy(_means(a[rest], b[rest])(a[one]), b[one], reduction="none")
            for one, rest in zip(held, others, strict=True)
        ]).mean()
        for a, b in zip(few.flatten(0, 1), few_y.flatten(0, 1), strict=True)
    ])
    return every({
        "estimate minus risk": mean_is(
            guess - target, 0, why="standard error over independent repetitions"),
        "training data flatter": at_most(lower, 0, why="the fit has minimized this very number"),
        "every problem and fold by itself": equal_to_rounding(
            cross_validated_risk(_means, few, few_y).flatten(), alone),
    }).drawn(
        Histogram("estimated", guess), Histogram("risk on new data", target, role="predicted"),
        x="risk, of independent data sets", y="density",
    )


def _means(x: Tensor, y: Tensor) -> Model:
    """Score by the sums of each class; leading axes are problems of their own."""
    sums = F.one_hot(y, 3).to(x).mT @ x
    return lambda new: new @ sums.mT


def _descend(x: Tensor, y: Tensor) -> Model:
    """Fit many problems at once (R, N, D) by a fixed number of gradient steps."""
    W = x.new_zeros(len(x), int(y.max()) + 1, x.shape[-1])
    truth = F.one_hot(y, W.shape[1]).to(x)
    for _ in range(GRADIENT_STEPS):
        W = W + 1.5 * (truth - (x @ W.mT).softmax(-1)).mT @ x / x.shape[1]
    return lambda new: new @ W.mT

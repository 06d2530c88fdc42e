r"""Information: what is true of it, and what would refute it.

Knobs:
    outcomes: Outcomes of a law.
    concentration: How even the random laws are; far below 1, one outcome has nearly all.
    mass: The sum of what is taken for probabilities; what does not sum to 1 is no law.
    p_1: The first probability of the coin whose curve is drawn.
    divergence: The divergence in the claim; the second has the wrong order, or no middle.
    objective: What is minimized; H(q, p) is least for a law that is sure of one outcome.
    samples: Samples that are drawn.
    product: What the product runs over; over samples, each outcome is counted too often.
    maximum: What is called the largest value; it does not grow with the outcomes.
    constant: The factor of the divergence under the root; with less than 1/2 it is no bound.
    inputs: Inputs x, each with a law of its label.
    labels: Labels that an input may have.
    posteriors: Whether posteriors are compared on average or at the worst input.
    eps: The most that the divergence of the two laws may be.
    posterior: How sure the truth is of its labels; where it is sure, a flip costs much.
    flips: Whether the model prefers the other label everywhere.
    rows: Values of x.
    columns: Values of y.
    repetitions: Samples that are drawn anew.
    coupling: How much x tells about y; they are independent at 0.
"""

import math
from collections.abc import Callable
from typing import Annotated, Literal

import torch
from scipy.spatial.distance import jensenshannon
from torch import Tensor
from torch.distributions import Categorical, kl_divergence
from torch.nn import functional as F

from principia.lab.draws import randn
from principia.lab.evidence import (
    Control,
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
    tends_to,
)
from principia.lab.params import Range
from principia.lab.pictures import Rule
from principia.lab.seeds import Seed
from principia.mathematics.information import (
    cross_entropy,
    entropy,
    entropy_in_nats,
    jsd,
    kl,
    kl_in_nats,
    mutual_information,
    plug_in_mi,
    total_variation,
)
from principia.mathematics.probability import JointTable

Outcomes = Annotated[int, Range(2, 50)]
Concentration = Annotated[float, Range(0.05, 20)]
DRAWS = 100_000
ROUNDING = 1e-12
SUMMED = 1e-14  # rounding of a divergence: of its two halves, each a few nats
SUMS, THEOREM = "a theorem: 1e-14 for rounding of sums", "a theorem: 1e-12 for rounding only"
PINSKER, LIN = (f"{name}'s inequality, {THEOREM}" for name in ("Pinsker", "Lin"))


@claim(
    control={"mass": 1.5}, source="Cover and Thomas 2006, th. 2.6.4",
    refutes=["below log n", "above 0", "one outcome is sure", "all are equally likely"],
)
def entropy_bounds(
    seed: Seed, *, outcomes: Outcomes = 8, concentration: Concentration = 0.7,
    mass: Annotated[float, Range(1, 4)] = 1.0,
) -> Evidence:
    r"""$0\le H(p)\le\log n$: 0 iff one outcome is sure, $\log n$ iff all are equally likely."""
    p = _draw(seed, DRAWS, outcomes, concentration)
    most, sure, even = math.log(outcomes), torch.eye(outcomes).double(), _even(outcomes)
    measured = entropy if mass == 1 else lambda law: entropy_in_nats(mass * law)
    values, largest, few = measured(p), p.amax(dim=-1), slice(0, 400)
    return every({
        "below log n": at_least(
            most - values, 2 * total_variation(p, even.expand_as(p)) ** 2, slack=ROUNDING,
            why=f"Pinsker's inequality for the even law, {THEOREM}",
        ).drawn(
            Series("draws of p", largest[few], values[few]),
            Series("log n", [1 / outcomes, 1], [most, most], role="bound"),
            x="largest probability", y="entropy H(p), nats",
        ),
        "above 0": at_least(
            values, 1 - largest, slack=ROUNDING,
            why=f"each outcome costs -log p >= 1 - max p, {THEOREM}",
        ),
        "one outcome is sure": equal_to_rounding(measured(sure), torch.zeros(outcomes)),
        "all are equally likely": equal_to_rounding(measured(even), most),
        "bits": equal_to_rounding(entropy(p, base=2), torch.special.entr(p).sum(-1) / math.log(2)),
    })


def _draw(seed: Seed, draws: int, outcomes: int, concentration: float) -> Tensor:
    """Draw laws from a Dirichlet: nearly sure below a concentration of 1, nearly even above."""
    return torch.from_numpy(seed.numpy().dirichlet([concentration] * outcomes, size=draws))


def _even(outcomes: int) -> Tensor:
    return torch.full((outcomes,), 1 / outcomes, dtype=torch.float64)


@claim(
    control={"divergence": "KL(q, p)"}, refutes=["two outcomes", "draws, in bits"],
    source="Cover and Thomas 2006, th. 5.4.3",
)
def cross_entropy_splits(
    seed: Seed, *, outcomes: Outcomes = 8, p_1: Annotated[float, Range(0.01, 0.99)] = 0.2,
    divergence: Literal["KL(p, q)", "KL(q, p)"] = "KL(p, q)",
) -> Evidence:
    r"""$H(p,q)=H(p)+KL(p\Vert q)$: the surplus of coding p as if it were q is a divergence."""
    def split(p: Tensor, q: Tensor, base: float = math.e) -> Tensor:
        first, second = (p, q) if divergence == "KL(p, q)" else (q, p)
        return entropy(p, base=base) + kl(first, second, base=base)

    # with exact zeros, which in the wrong order are an infinite surplus
    p = (_draw(seed, 1000, outcomes, 1.0) - 0.3 / outcomes).clamp(min=0)
    p = p / p.sum(dim=-1, keepdim=True)
    logits = randn(seed.torch(), 1000, outcomes)
    two, there = [p.clone().requires_grad_() for _ in range(2)], (p > 0).double()  # same zeros
    slopes = torch.autograd.grad(cross_entropy(*two).sum(), two)
    q, x = logits.softmax(dim=-1), torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    coin, coins = _coin(torch.full_like(x, p_1)), _coin(x)
    by_torch = F.cross_entropy(logits, p, reduction="none")
    return every({
        "two outcomes": equal_to_rounding(cross_entropy(coin, coins), split(coin, coins)).drawn(
            Series("H(p, q)", x, cross_entropy(coin, coins)),
            Series(f"H(p) + {divergence}", x, split(coin, coins), role="predicted"),
            x=f"q of the outcome with p = {p_1:g}", y="nats",
        ),
        "draws, in bits": equal_to_rounding(cross_entropy(p, q, base=2), split(p, q, 2)),
        "torch, from logits": equal_to_rounding(by_torch, cross_entropy(p, q)),
        "slopes": equal_to_rounding(torch.cat(slopes), -torch.cat([there.xlogy(p), there])),
    })


def _coin(heads: Tensor | float) -> Tensor:
    """Give the laws of two outcomes of which the first has these probabilities."""
    heads = torch.as_tensor(heads, dtype=torch.float64)
    return torch.stack([heads, 1 - heads], dim=-1)


@claim(control={"objective": "H(q, p)"}, source="Cover and Thomas 2006, th. 2.6.3")
def cross_entropy_minimizer(
    seed: Seed, *, outcomes: Annotated[int, Range(2, 20)] = 8,
    objective: Literal["H(p, q)", "H(q, p)"] = "H(p, q)",
) -> Evidence:
    r"""$\operatorname{argmin}_qH(p,q)=p$: no other law codes p as cheaply."""
    p = _likely(seed, outcomes)

    def cost(q: Tensor) -> Tensor:
        p_too = p.expand_as(q)
        return cross_entropy(p_too, q) if objective == "H(p, q)" else cross_entropy(q, p_too)

    others, found = _draw(seed.child("others"), 10_000, outcomes, 1.0), _descend(cost, outcomes)
    return every({
        "minimizer": equal(found, p, tol=1e-6, why="500 steps with rate 1 - 2 min p at worst"),
        "other laws": never(cost(others) < cost(p) - ROUNDING, why=THEOREM),
    }).drawn(
        Series("other laws", total_variation(p.expand(400, -1), others[:400]), cost(others[:400])),
        Rule("the cost of p itself", y=float(cost(p))),
        x="total variation between q and p", y=f"cost {objective} of q, nats",
    )


def _likely(seed: Seed, outcomes: int) -> Tensor:
    """Draw one law of which no outcome is rare."""
    return (_draw(seed, 1, outcomes, 1.0)[0] + _even(outcomes)) / 2


def _descend(loss: Callable[[Tensor], Tensor], outcomes: int) -> Tensor:
    """Minimize over laws by 500 steps of gradient descent on logits, and give the last law."""
    logits = torch.zeros(outcomes, dtype=torch.float64, requires_grad=True)
    for _ in range(500):
        (gradient,) = torch.autograd.grad(loss(logits.softmax(dim=-1)), logits)
        logits = (logits - 2.0 * gradient).detach().requires_grad_()  # the Hessian is 1/2 at most
    return logits.softmax(dim=-1).detach()


@claim(
    control={"mass": 2.0}, refutes=["0 only if equal", "equal laws"],
    source="Kullback and Leibler 1951, sec. 3",
)
def kl_nonnegative(
    seed: Seed, *, outcomes: Outcomes = 8, concentration: Concentration = 1.0,
    p_1: Annotated[float, Range(0.05, 0.95)] = 0.3, mass: Annotated[float, Range(1, 4)] = 1.0,
) -> Evidence:
    r"""$KL(p\Vert q)\ge0$; 0 iff $p=q$, infinite off the support of q, and not symmetric."""
    p, q = _pairs(seed, DRAWS, outcomes, concentration)
    measured = kl if mass == 1 else lambda p, q: kl_in_nats(p, mass * q)  # which kl refuses
    values = measured(p, q)
    x = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    coin, coins = _coin(torch.full_like(x, p_1)), mass * _coin(x)
    sure, even = torch.eye(outcomes).double(), _even(outcomes).expand(outcomes, -1)
    return every({
        "0 only if equal": at_least(
            values, 2 * total_variation(p, q) ** 2, slack=ROUNDING, why=PINSKER
        ).drawn(
            Series("KL(p, q)", x, kl_in_nats(coin, coins), style="line"),
            Series("KL(q, p)", x, kl_in_nats(coins, coin), role="other"),
            x=f"q of the outcome with p = {p_1:g}", y="nats",
        ),
        "equal laws": equal_to_rounding(measured(p, p), torch.zeros(DRAWS)),
        "outside the support": never(~kl(even, sure).isposinf(), why="a logarithm of 0"),
        "inside it": equal_to_rounding(kl(sure, even), -even[0].log()),
        "not symmetric": at_least(
            kl(_coin(0.5), _coin(0.9)) - kl(_coin(0.9), _coin(0.5)), 0.1, why="0.51 and 0.37 nats"
        ),
        "torch": equal_to_rounding(kl_divergence(*map(Categorical, (p, q))), kl(p, q)),
    })


def _pairs(seed: Seed, draws: int, outcomes: int, concentration: float) -> tuple[Tensor, Tensor]:
    """Draw pairs of laws at all distances, from near ones to such as have nothing in common."""
    p, q = (_draw(seed.child(name), draws, outcomes, concentration) for name in "pq")
    share = torch.logspace(-3, 0, draws, dtype=torch.float64)[:, None]
    return p, share * q + (1 - share) * p


@claim(
    control={"product": "samples"}, refutes=["log of the product"],
    source="Kullback and Leibler 1951",
    misprint=r"$\prod_{i=1}^nq_i^{np_i}$: n for the samples and for the outcomes",
)
def maximum_likelihood_is_cross_entropy(
    seed: Seed, *, outcomes: Annotated[int, Range(2, 8)] = 5,
    samples: Annotated[int, Range(200, 20_000)] = 500,
    product: Literal["outcomes", "samples"] = "outcomes",
) -> Evidence:
    r"""$\frac1n\log\prod_{k=1}^Kq_k^{n\hat p_k}=-H(\hat p,q)$, with $\hat p$ from n samples."""
    x = JointTable(_likely(seed, outcomes), ("x",)).sample(samples, seed.torch())[:, 0]
    q = _draw(seed.child("models"), 200, outcomes, 1.0)
    shares = x.bincount(minlength=outcomes).double() / samples
    powers = (samples * shares) ** (2 if product == "samples" else 1)  # one for each sample
    product_log, costs = q.log() @ powers / samples, cross_entropy(shares.expand_as(q), q)
    far, by_torch = total_variation(shares.expand_as(q), q), Categorical(q[:, None]).log_prob(x)
    return every({
        "log of the product": equal_to_rounding(product_log, -costs),
        "samples, by torch": equal_to_rounding(by_torch.mean(dim=-1), -costs),
    }).drawn(
        Series("−H(p̂, q)", far, -costs, "predicted", "points"),
        Series("log of the product", far, product_log),
        Rule("−H(p̂), where q = p̂", y=-float(entropy(shares))),
        x="total variation between q and the frequencies p̂", y="log likelihood a sample",
    )


@claim(
    control=[
        Control({"maximum": "log n"}, ["disjoint supports"], "the misprint"),
        Control({"divergence": "KL(p, q)"}, ["symmetric", "log 2 only if disjoint"], "no middle"),
    ],
    source="Lin 1991",
    misprint=r"the range $[0,\log n]$; it is $[0,\log2]$ for every n",
)
def jsd_bounded(
    seed: Seed, *, outcomes: Annotated[int, Range(3, 50)] = 8, concentration: Concentration = 0.3,
    maximum: Literal["log 2", "log n"] = "log 2",
    divergence: Literal["JSD(p, q)", "KL(p, q)"] = "JSD(p, q)",
) -> Evidence:
    r"""$0\le JSD\le\log2$ for any number of outcomes, symmetric; $\log2$ iff disjoint supports."""
    most = math.log(outcomes if maximum == "log n" else 2)
    pairs = [_pairs(seed.child(n), DRAWS // 20, n, concentration) for n in (2, 3, 5, 13, 50)]
    measured = jsd if divergence == "JSD(p, q)" else kl
    values, distance = (torch.cat([f(p, q) for p, q in pairs]) for f in (measured, total_variation))
    half, far = outcomes // 2, [law[-100:] for law in pairs[-1]]
    left = F.pad(_draw(seed, 100, half, concentration), (0, outcomes - half))
    apart = jsd(left, F.pad(_draw(seed, 100, outcomes - half, concentration), (half, 0)))
    few = slice(0, len(values), len(values) // 400)
    theirs = jensenshannon(*(one.mT.numpy() for one in far), base=2) ** 2
    return every({
        "disjoint supports": equal_to_rounding(apart, torch.full_like(apart, most)).drawn(
            Series("draws", distance[few], values[few]),
            Series(f"maximum {maximum}", [0, 1], [most, most], role="bound"),
            x="total variation", y="Jensen-Shannon divergence, nats",
        ),
        "symmetric": equal_to_rounding(values, torch.cat([measured(q, p) for p, q in pairs])),
        "SciPy, in bits": equal_to_rounding(jsd(*far, base=2), theirs),
        "log 2 only if disjoint": at_most(values, math.log(2) * distance, slack=ROUNDING, why=LIN),
        "0 only if equal": at_least(values, distance**2 / 2, slack=ROUNDING, why=PINSKER),
    })


@claim(
    control={"mass": 1.5}, refutes=["formula", "the event p > q"],
    source="Cover and Thomas 2006, sec. 11.6",
)
def total_variation_claim(
    seed: Seed, *, outcomes: Annotated[int, Range(2, 12)] = 8,
    concentration: Concentration = 1.0, mass: Annotated[float, Range(1, 2)] = 1.0,
) -> Evidence:
    r"""$\sup_\Omega|P(\Omega)-Q(\Omega)|=\frac12\Vert p-q\Vert_1$ over all $2^n$ events."""
    p, q = (_draw(seed.child(name), 50, outcomes, concentration) for name in "pq")
    events = (torch.arange(2**outcomes)[:, None] >> torch.arange(outcomes) & 1).double()
    found, largest = total_variation(p, q), (events @ (p - q).mT).abs().amax(dim=0)
    q = mass * q
    gaps = (events @ (p - q).mT).abs()  # (events, draws)
    return every({
        "formula": equal_to_rounding(gaps.amax(dim=0), (p - q).abs().sum(dim=-1) / 2),
        "total_variation": equal_to_rounding(found, largest),
        "the event p > q": equal_to_rounding(((p - q) * (p > q)).sum(dim=-1), gaps.amax(dim=0)),
    }).drawn(
        Series("all events", torch.arange(len(gaps)), gaps[:, 0].sort().values, style="steps"),
        Rule("½‖p − q‖₁", y=float((p - q)[0].abs().sum()) / 2),
        x="events Ω, sorted", y="|P(Ω) − Q(Ω)| of one pair",
    )


@claim(control={"constant": 0.4}, source="Cover and Thomas 2006, lemma 11.6.1")
def pinsker(
    seed: Seed, *, outcomes: Outcomes = 3, concentration: Concentration = 2.0,
    constant: Annotated[float, Range(0.1, 1)] = 0.5,
) -> Evidence:
    r"""$TV\le\sqrt{KL/2}$, and no constant below $\frac12$ will do."""
    p, q = _pairs(seed, DRAWS, outcomes, concentration)
    distance, divergence = total_variation(p, q), kl(p, q)
    delta = torch.logspace(-0.4, -3, 14, dtype=torch.float64)
    left, right = _coin(0.5 + delta), _coin(0.5 - delta)
    ratio = total_variation(left, right) / (constant * kl(left, right)).sqrt()
    few, ends = slice(0, DRAWS, DRAWS // 400), distance.new_tensor([1e-6, 10])
    return every({
        "draws": never(distance**2 > constant * divergence + SUMMED, why=SUMS).drawn(
            Series("draws", divergence[few], distance[few]),
            Series(f"√({constant:g} KL)", ends, (constant * ends).sqrt(), role="bound"),
            x="KL(p, q), nats", y="total variation", log="xy",
        ),
        "sharp for coins 1/2 ± δ": tends_to(
            delta, ratio, 1.0, tol=1e-6, why="1 - 2δ²/3 at δ = 0.001",
            labels=("δ", "total variation / bound"),
        ),
    })


@claim(
    control={"posteriors": "at worst"}, refutes=["posteriors"],
    source="Pinsker and Jensen, by the chain rule",
)
def posterior_total_variation(
    seed: Seed, *, inputs: Annotated[int, Range(2, 20)] = 8,
    labels: Annotated[int, Range(2, 10)] = 3,
    posteriors: Literal["on average", "at worst"] = "on average",
) -> Evidence:
    r"""$KL(Q\Vert P)\le\epsilon$: $E_QTV(Q(\cdot\mid x),P(\cdot\mid x))\le\sqrt{\epsilon/2}$."""
    draws, rng = 10_000, seed.child("noise").torch()
    Q = _draw(seed, draws, inputs * labels, 1.0)
    scale = torch.logspace(-2, 1, draws, dtype=torch.float64)[:, None]
    P = Q * (scale * randn(rng, *Q.shape)).exp()  # laws at all distances
    P = P / P.sum(dim=-1, keepdim=True)
    eps = kl(Q, P)
    Q, P = (law.reshape(draws, inputs, labels) for law in (Q, P))
    seen_Q, seen_P = Q.sum(dim=-1), P.sum(dim=-1)
    given_Q, given_P = Q / seen_Q[..., None], P / seen_P[..., None]
    shown = total_variation(given_Q, given_P)  # (draws, inputs)
    shown = (seen_Q * shown).sum(-1) if posteriors == "on average" else shown.amax(dim=-1)
    bound, few = (eps / 2).sqrt(), slice(0, draws, draws // 400)
    chain = kl(seen_Q, seen_P) + (seen_Q * kl(given_Q, given_P)).sum(dim=-1)
    return every({
        "posteriors": never(shown**2 > eps / 2 + SUMMED, why=SUMS).drawn(
            Series(f"total variation, {posteriors}", bound[few], shown[few]),
            Series("√(ε/2)", bound[few], bound[few], role="bound"),
            x="√(ε/2), ε = KL(Q, P)", y="total variation of posteriors", log="xy",
        ),
        "chain rule": equal_to_rounding(chain, eps),
    })


@claim(
    control=[
        Control({"posterior": "0.9 / 0.1"}, ["divergence", "average total variation"], "no doubts"),
        Control({"flips": False}, ["inputs with the same label"], "a model on the right side"),
    ],
    source="by construction, sharp up to a constant",
)
def good_density_poor_classifier(
    seed: Seed, *, eps: Annotated[float, Range(1e-6, 0.3)] = 0.01,
    inputs: Annotated[int, Range(2, 50)] = 12,
    posterior: Literal["1/2 ± δ", "0.9 / 0.1"] = "1/2 ± δ", flips: bool = True,
) -> Evidence:
    r"""$KL\le\epsilon$ lets all labels flip, with posteriors $\frac12\pm\frac14\sqrt\epsilon$."""
    rng, delta = seed.torch(), math.sqrt(eps) / 4
    seen = _draw(seed.child("inputs"), 1, inputs, 1.0)[0]
    side = 2 * torch.randint(2, (inputs,), generator=rng).double() - 1
    margin = delta if posterior == "1/2 ± δ" else 0.4
    own = -side if flips else side
    true, model = _coin(0.5 + side * margin), _coin(0.5 + own * delta)  # barely on the other side
    Q, P = ((seen[:, None] * given).flatten() for given in (true, model))
    apart = seen @ total_variation(true, model)
    same = true.argmax(dim=-1) == model.argmax(dim=-1)
    return every({
        "divergence": at_most(kl(Q, P), eps, why="8δ² = ε/2 to first order: no slack").drawn(
            Series("truth Q", range(inputs), true[:, 0]),
            Series("model P", range(inputs), model[:, 0], "other", "points"),
            x="input x", y="probability of the first label, given x",
        ),
        "inputs with the same label": never(same, why="by construction, all flip"),
        "average total variation": at_most(apart, math.sqrt(eps / 2), why="a theorem: no slack"),
    })


@claim(
    control={"coupling": 0.3}, refutes=["independent table", "mean of the plug-in estimate"],
    source="Cover and Thomas 2006, ch. 2; Paninski 2003",
)
def mutual_information_zero(
    seed: Seed, *, rows: Annotated[int, Range(2, 5)] = 4, columns: Annotated[int, Range(2, 5)] = 5,
    samples: Annotated[int, Range(500, 4000)] = 1000,
    repetitions: Annotated[int, Range(200, 1000)] = 500,
    coupling: Annotated[float, Range(0, 0.9)] = 0.0,
) -> Evidence:
    r"""$I=H(X)+H(Y)-H(X,Y)\ge0$, 0 iff independent; a sample of n shows $(K-1)(M-1)/2n$ more."""
    tables = _draw(seed, 10_000, rows * columns * 2, 0.5).reshape(-1, rows, columns, 2)
    tables[:100, ..., 0] = 0  # one value of the third variable never occurs
    tables = tables / tables.sum(dim=(1, 2, 3), keepdim=True)
    joint = tables.sum(dim=-1)
    information = mutual_information(joint)

    def H(of: str) -> Tensor:
        return entropy(torch.einsum(f"bxyz->b{of}", tables).flatten(1))

    product = joint.sum(dim=2, keepdim=True) * joint.sum(dim=1, keepdim=True)
    apart = total_variation(joint.flatten(1), product.flatten(1))
    x, y = (_likely(seed.child(name), size) for name, size in (("x", rows), ("y", columns)))
    diagonal = F.one_hot(torch.arange(rows) % columns, columns).double() / rows
    table = (1 - coupling) * x[:, None] * y + coupling * diagonal
    draws = JointTable(table, ("x", "y")).sample(samples * repetitions, seed.child("n").torch())
    a, b = draws.reshape(repetitions, samples, 2).unbind(dim=-1)
    sizes = [samples // 4, samples // 2, samples]
    found = torch.stack([plug_in_mi(a[:, :n], b[:, :n]) for n in sizes], dim=1)
    bias = (rows - 1) * (columns - 1) / (2 * torch.tensor(sizes, dtype=torch.float64))
    # an entropy's next term is (1 - sum 1/p) / 12n²; of three entropies, this, and once more of it
    law = Series("(K−1)(M−1) / 2n", sizes, bias, "predicted")
    rest = 2 * ((1 / x).sum() - 1) * ((1 / y).sum() - 1) / (12 * bias.new_tensor(sizes) ** 2)
    a, b, ranks = a[:20], b[:20], torch.randperm(samples, generator=seed.torch())
    counts = F.one_hot(a * columns + b, rows * columns).double().mean(dim=1)
    cells = counts.view(-1, rows, columns)
    K, M, pairs = ((one > 0).sum(dim=-1) for one in (cells.sum(dim=2), cells.sum(dim=1), counts))
    far = torch.tensor([[-(2**62), 0, 3, 2**62, 7], [-(2**62), 0, 3, -1, 4]])  # for no table
    unlike = plug_in_mi(ranks, ranks.flip(0), base=2)  # each value occurs once
    added = plug_in_mi(a, b, correction="miller-madow") - found[:20, -1]
    return every({
        "independent table": equal_to_rounding(mutual_information(table), 0.0),
        "mean of the plug-in estimate": mean_is(
            found, bias, bias=rest, why="the mean, and twice the next term of the bias, in 1/n²"
        ).drawn(
            Series("mean ± deviation", sizes, found.mean(0), error=found.std(0)), law,
            x="samples n", y="mutual information found, nats", log="xy",
        ),
        "frequencies, in bits": equal_to_rounding(
            torch.cat([plug_in_mi(far[0, a], far[1, b], base=2), plug_in_mi(a - 3, b - 2, base=2),
                       unlike[None] / math.log2(samples)]),
            torch.cat([mutual_information(cells, base=2).repeat(2), unlike.new_ones(1)]),
        ),
        "correction": equal_to_rounding(added, (K + M - pairs - 1) / (2 * samples)),
        "entropies": equal_to_rounding(information, H("x") + H("y") - H("xy")),
        "entropies, given a third variable": equal_to_rounding(
            mutual_information(tables, given=-1), H("xz") + H("yz") - H("xyz") - H("z")
        ),
        "0 only if independent": at_least(information, 2 * apart**2, slack=ROUNDING, why=PINSKER),
    })

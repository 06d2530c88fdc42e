r"""Information: what a law does not tell, and how far one law is from another.

Entropy is the mean number of nats, or of bits, that an outcome costs in the best code for its law.
With the code of another law it costs the cross-entropy; the surplus is the Kullback-Leibler
divergence, never negative, not symmetric, and infinite where the other law excludes what happens.
So fitting a model by maximum likelihood is minimizing a cross-entropy. The Jensen-Shannon
divergence measures both laws against their middle: it is symmetric and at most $\log2$, however
many outcomes there are. Total variation is the largest difference of probabilities that any event
can show; Pinsker's inequality bounds it by the root of half the divergence. A model that is close
to the truth therefore has good posteriors on average, yet may be wrong in every decision that is
close. Mutual information is the divergence of a joint law from independence; measured on counts it
is too large, by about $(K-1)(M-1)/2n$.

$$ H(p) = -\sum_kp_k\log p_k, \quad H(p,q) = -\sum_kp_k\log q_k = H(p)+KL(p\Vert q), \quad
KL(p\Vert q) = \sum_kp_k\log\frac{p_k}{q_k} $$

$$ JSD(p,q) = \frac12KL(p\Vert m)+\frac12KL(q\Vert m), \quad m = \frac{p+q}2, \quad
TV(p,q) = \sup_\Omega|P(\Omega)-Q(\Omega)| = \frac12\Vert p-q\Vert_1\le\sqrt{\frac12KL(p\Vert q)} $$

$$ I(X;Y) = KL(p_{xy}\Vert p_xp_y) = H(X)+H(Y)-H(X,Y), \quad
I(X;Y\mid Z) = \sum_zp_z\,KL(p_{xy\mid z}\Vert p_{x\mid z}p_{y\mid z}) $$

Symbols:
    $p, q$: probabilities of outcomes $k$, along the last axis; of an event, $P(\Omega)$
    $H(p)$: `entropy`; with two arguments, $H(p,q)$, `cross_entropy`
    $KL$: `kl`, the divergence of q from p; $JSD$ is `jsd`
    $TV$: `total_variation`
    $I$: `mutual_information` of a table, given a third variable or not; `plug_in_mi` of samples
    $K, M, n$: different values of x and of y, and the number of samples

References:
    Shannon (1948), A mathematical theory of communication. Bell System Technical Journal 27(3).
        doi:10.1002/j.1538-7305.1948.tb01338.x
    Kullback and Leibler (1951), On information and sufficiency. Annals of Mathematical Statistics
        22(1). doi:10.1214/aoms/1177729694
    Shannon (1951), Prediction and entropy of printed English. Bell System Technical Journal 30(1).
        doi:10.1002/j.1538-7305.1951.tb01366.x
    Lin (1991), Divergence measures based on the Shannon entropy. IEEE Transactions on Information
        Theory 37(1). doi:10.1109/18.61115
    Paninski (2003), Estimation of entropy and mutual information. Neural Computation 15(6).
        doi:10.1162/089976603321780272
    Cover and Thomas (2006), Elements of information theory. Wiley. doi:10.1002/047174882X
"""

__all__ = [
    "entropy", "cross_entropy", "kl", "jsd", "total_variation", "mutual_information", "plug_in_mi",
]

import math
import re
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.distributions import Categorical, kl_divergence
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.documentation import documentation
from principia.lab.data.text8 import text8
from principia.lab.domains import Range
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, experiment
from principia.lab.knobs import checked
from principia.lab.relations import at_least, at_most, estimates, every, identical, never, tends_to
from principia.lab.seeds import Seed
from principia.mathematics.probability import JointTable

Base = Annotated[float, Range(1, math.inf, open="low")]
Outcomes = Annotated[int, Range(2, 50)]
Concentration = Annotated[float, Range(0.05, 20)]
DRAWS = 100_000
ROUNDING = 1e-12
SUMMED = 1e-14  # rounding of a divergence: of its two halves, each a few nats
THEOREM = "a theorem: 1e-12 for rounding only"
SYMBOLS = 27  # a to z and blank
SHANNON = {0: 4.76, 1: 4.03, 2: 3.32}  # bits a letter, the table's row for 27 letters


@checked
def entropy(p: Float[Tensor, "*batch n"], *, base: Base = math.e) -> Float[Tensor, "*batch"]:
    r"""Measures how uncertain outcomes are: $-\sum_kp_k\log p_k$.

    Args:
        p: Laws, probabilities along the last axis.
        base: Of the logarithm: e for nats, 2 for bits.

    Example:
        >>> entropy(torch.tensor([[0.5, 0.25, 0.25, 0.0], [1.0, 0.0, 0.0, 0.0]]), base=2)
        tensor([1.5000, 0.0000])
    """
    _check("entropy", p=p)
    return _entropy(p) / math.log(base)


@checked
def cross_entropy(
    p: Float[Tensor, "*batch n"], q: Float[Tensor, "*other m"], *, base: Base = math.e
) -> Float[Tensor, "*batch"]:
    r"""Measures what outcomes of p cost in the best code for q: $-\sum_kp_k\log q_k$.

    For logits instead of q, and classes instead of p, it is torch's `F.cross_entropy`.

    Args:
        p: Laws of what happens, probabilities along the last axis.
        q: Laws that are believed, of the same shape; infinite cost where q is 0 and p is not.
        base: Of the logarithm.

    Example:
        >>> p, q = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.5, 0.25, 0.25])
        >>> cross_entropy(p, q, base=2), cross_entropy(q, p)
        (tensor(1.5000), tensor(inf))
    """
    _check("cross_entropy", p=p, q=q)
    return (-_p_log_q(p, q)).sum(dim=-1) / math.log(base)


@checked
def kl(
    p: Float[Tensor, "*batch n"], q: Float[Tensor, "*other m"], *, base: Base = math.e
) -> Float[Tensor, "*batch"]:
    r"""Measures the Kullback-Leibler divergence of q from p: $\sum_kp_k\log(p_k/q_k)$.

    For laws with parameters there is `torch.distributions.kl_divergence`.

    Args:
        p: Laws of what happens, probabilities along the last axis.
        q: Laws that are believed, of the same shape; infinite where q is 0 and p is not.
        base: Of the logarithm.

    Example:
        >>> p, q = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.5, 0.25, 0.25])
        >>> kl(p, q, base=2), kl(q, p)
        (tensor(0.5000), tensor(inf))
    """
    _check("kl", p=p, q=q)
    return _kl(p, q) / math.log(base)


@checked
def jsd(
    p: Float[Tensor, "*batch n"], q: Float[Tensor, "*other m"], *, base: Base = math.e
) -> Float[Tensor, "*batch"]:
    r"""Measures the Jensen-Shannon divergence: the mean of both laws' from their middle.

    Args:
        p: Laws, probabilities along the last axis.
        q: Laws of the same shape.
        base: Of the logarithm; with 2 the largest value is 1.

    Example:
        >>> p, q = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.0, 0.0, 1.0])
        >>> jsd(p, q, base=2), jsd(p, p)
        (tensor(1.), tensor(0.))
    """
    _check("jsd", p=p, q=q)
    middle = (p + q) / 2
    return (_kl(p, middle) + _kl(q, middle)) / (2 * math.log(base))


def total_variation(
    p: Float[Tensor, "*batch n"], q: Float[Tensor, "*other m"]
) -> Float[Tensor, "*batch"]:
    r"""Measures the largest difference of the probabilities of any event: half the $L_1$ distance.

    Args:
        p: Laws, probabilities along the last axis.
        q: Laws of the same shape.

    Example:
        >>> total_variation(torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.5, 0.25]))
        tensor(0.2500)
    """
    _check("total_variation", p=p, q=q)
    return (p - q).abs().sum(dim=-1) / 2


@checked
def mutual_information(
    joint: Float[Tensor, "..."], *, given: int | None = None, base: Base = math.e
) -> Float[Tensor, "..."]:
    r"""Measures what x tells about y: the divergence of their joint law from independence.

    Shapes:
        joint: (*batch, K, M), with one more axis where something is given; returns (*batch)

    Args:
        joint: Joint probabilities; x and y are the last two axes that are not given.
        given: The axis of a third variable that is known: $I(X;Y\mid Z)$, averaged over it.
        base: Of the logarithm.

    Example:
        >>> mutual_information(torch.eye(2) / 2, base=2), mutual_information(torch.ones(2, 2) / 4)
        (tensor(1.), tensor(0.))
        >>> xor = torch.tensor([[[0.25, 0.0], [0.0, 0.25]], [[0.0, 0.25], [0.25, 0.0]]])
        >>> mutual_information(xor.sum(0)), mutual_information(xor, given=0, base=2)
        (tensor(0.), tensor(1.))
    """
    axes = joint.ndim - (given is not None)
    if axes < 2 or (given is not None and not -joint.ndim <= given < joint.ndim):
        domain = "a table with axes for x and y, and for what is given"
        got = f"shape {tuple(joint.shape)}, given={given}"
        raise refuse("mutual_information", "joint", domain, got)
    table = joint[..., None, :, :] if given is None else joint.movedim(given, -3)  # (*batch, z,x,y)
    _check("mutual_information", joint=table.flatten(-3))
    x, y = table.sum(dim=-1, keepdim=True), table.sum(dim=-2, keepdim=True)
    z = x.sum(dim=-2, keepdim=True)
    independent = x * y / torch.where(z > 0, z, 1)
    return _kl(table.flatten(-3), independent.flatten(-3)) / math.log(base)


@checked
def plug_in_mi(
    x: Int[Tensor, "*batch n"], y: Int[Tensor, "*other m"], *,
    correction: Literal["none", "miller-madow"] = "none", base: Base = math.e,
) -> Float[Tensor, "*batch"]:
    r"""Estimates the mutual information of two discrete variables from how often values occur.

    Frequencies in place of probabilities find information even where there is none, on average
    $(K-1)(M-1)/2n$ nats. Miller's and Madow's correction takes that away, with K, M and the number
    of pairs as they occur.

    Args:
        x: Values of the first variable, any integers, n samples along the last axis.
        y: Values of the second, of the same shape.
        correction: What to do about the bias.
        base: Of the logarithm.

    Example:
        >>> x, y = torch.tensor([0, 0, 7, 7]), torch.tensor([3, 3, -1, -1])
        >>> plug_in_mi(x, y, base=2), plug_in_mi(x, y, correction="miller-madow", base=2)
        (tensor(1., dtype=torch.float64), tensor(1.1803, dtype=torch.float64))
    """
    if x.shape != y.shape or not x.ndim or not x.numel():
        got = f"shapes {tuple(x.shape)} and {tuple(y.shape)}"
        raise refuse("plug_in_mi", "x and y", "samples of one shape, one or more", got)
    n = x.shape[-1]
    a, b = (_labels(one).reshape(-1, n) for one in (x, y))
    (of_x, K), (of_y, M), (of_both, pairs) = map(_plug_in, (a, b, a * (int(b.max()) + 1) + b))
    found = of_x + of_y - of_both
    if correction == "miller-madow":  # each entropy lacks (values - 1) / 2n on average
        found = found + (K + M - pairs - 1) / (2 * n)
    return found.reshape(x.shape[:-1]) / math.log(base)


def _check(owner: str, **laws: Tensor) -> None:
    """Refuse what is no probabilities along the last axis, or not of the shape of the first."""
    first = next(iter(laws.values()))
    for name, law in laws.items():
        if not law.ndim or not law.shape[-1]:
            domain = "of a shape (..., n), probabilities along the last axis"
            raise refuse(owner, name, domain, tuple(law.shape))
        if law.shape != first.shape:
            domain = f"of the shape of {next(iter(laws))}, {tuple(first.shape)}"
            hint = "torch.broadcast_tensors gives both one shape."
            raise refuse(owner, name, domain, tuple(law.shape), hint)
        if not law.numel():
            continue
        total, lowest = law.detach().sum(dim=-1).flatten(), float(law.detach().min())
        if lowest < 0:
            raise refuse(owner, name, ">= 0 everywhere", lowest)
        allowed = 1e-6 + torch.finfo(law.dtype).eps * law.shape[-1] ** 0.5  # of a rounded softmax
        gap = (total - 1).abs()
        if not bool((gap <= allowed).all()):
            where = "" if name == "joint" else " along the last axis"
            worst = float(f"{float(total[gap.argmax()]):.7g}")
            raise refuse(owner, name, f"of sum 1{where}", worst, f"Divide by the sum{where}.")


def _p_log_q(p: Tensor, q: Tensor) -> Tensor:
    """Multiply p and log q; 0 where p is, with a finite gradient also where q is 0 as well."""
    return torch.xlogy(p, q.masked_fill((p == 0) & (q == 0), 1))


def _entropy(p: Tensor) -> Tensor:
    return (-_p_log_q(p, p)).sum(dim=-1)


def _kl(p: Tensor, q: Tensor) -> Tensor:
    return (_p_log_q(p, p) - _p_log_q(p, q)).sum(dim=-1)


def _labels(values: Tensor) -> Tensor:
    """Number integers from 0, without gaps where those would be wide."""
    low, high = int(values.min()), int(values.max())
    if high - low < values.numel():
        return values.long() - low
    return torch.unique(values, return_inverse=True)[1]


def _plug_in(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Give the entropy in nats and the number of different values of each row of codes >= 0."""
    rows, n = codes.shape
    span = int(codes.max()) + 1
    codes = (codes + span * torch.arange(rows, device=codes.device)[:, None]).flatten()
    if rows * span <= len(codes):  # counting in a table is faster than sorting
        counts = codes.bincount()
        keys = counts.nonzero()[:, 0]
        counts = counts[keys]
    else:
        keys, counts = torch.unique(codes, return_counts=True)
    row, share = keys // span, counts.double() / n
    return row.bincount(-torch.xlogy(share, share), minlength=rows), row.bincount(minlength=rows)


@claim(control={"normalized": False}, source="Cover and Thomas 2006, th. 2.6.4")
def entropy_bounds(
    seed: Seed, *, outcomes: Outcomes = 8, concentration: Concentration = 0.7,
    normalized: bool = True,
) -> Evidence:
    r"""$0\le H(p)\le\log n$: 0 iff one outcome is sure, $\log n$ iff all are equally likely."""
    p = _draw(seed, DRAWS, outcomes, concentration)
    most, sure, even = math.log(outcomes), torch.eye(outcomes).double(), _even(outcomes)
    right, largest, few = entropy(p), p.amax(dim=-1), slice(0, 400)
    values = right if normalized else _entropy((100 * p).round())  # as of 100 counts
    return every({
        "draws": never(
            (values < -ROUNDING) | (values > most * (1 + ROUNDING)), why=THEOREM
        ).drawn(
            Series("draws of p", largest[few], values[few]),
            Series("log n", [1 / outcomes, 1], [most, most], role="bound"),
            Series("0", [1 / outcomes, 1], [0, 0], role="bound"),
            x="largest probability", y="entropy H(p), nats",
        ),
        "one outcome is sure": identical(entropy(sure), torch.zeros(outcomes)),
        "all are equally likely": identical(entropy(even), most),
        "in bits": identical(entropy(p[few], base=2), math.log2(math.e) * right[few]),
        # between the ends: log n is lost by as much as p differs from even, and nothing is free
        "less than log n elsewhere": at_least(
            most - right, 2 * total_variation(p, even.expand_as(p)) ** 2, slack=ROUNDING,
            why=f"Pinsker's inequality for the even law, {THEOREM}",
        ),
        "more than 0 elsewhere": at_least(
            right, 1 - largest, slack=ROUNDING,
            why=f"each outcome costs -log p >= 1 - max p, {THEOREM}",
        ),
    })


@claim(control={"divergence": "KL(q, p)"}, source="Cover and Thomas 2006, th. 5.4.3")
def cross_entropy_splits(
    seed: Seed, *, outcomes: Outcomes = 8, p_1: Annotated[float, Range(0.01, 0.99)] = 0.2,
    divergence: Literal["KL(p, q)", "KL(q, p)"] = "KL(p, q)",
) -> Evidence:
    r"""$H(p,q)=H(p)+KL(p\Vert q)$: the surplus of coding p as if it were q is a divergence."""
    def split(p: Tensor, q: Tensor) -> Tensor:
        return entropy(p) + (kl(p, q) if divergence == "KL(p, q)" else kl(q, p))

    # with exact zeros, which in the wrong order are an infinite surplus
    p = (_draw(seed, 1000, outcomes, 1.0) - 0.3 / outcomes).clamp(min=0)
    p = p / p.sum(dim=-1, keepdim=True)
    logits = torch.randn(1000, outcomes, generator=seed.torch(), dtype=torch.float64)
    q, x = logits.softmax(dim=-1), torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    coin, coins = _coin(torch.full_like(x, p_1)), _coin(x)
    return every({
        "two outcomes": identical(cross_entropy(coin, coins), split(coin, coins)).drawn(
            Series("H(p, q)", x, cross_entropy(coin, coins)),
            Series(f"H(p) + {divergence}", x, split(coin, coins), role="predicted"),
            Series("H(p)", x, entropy(coin), role="bound"),
            x=f"q of the outcome with p = {p_1:g}", y="nats",
        ),
        "draws": identical(cross_entropy(p, q), split(p, q)),
        "torch, from logits": identical(
            F.cross_entropy(logits, p, reduction="none"), cross_entropy(p, q)
        ),
        "in bits": identical(
            cross_entropy(p, q, base=2), entropy(p, base=2) + kl(p, q, base=2)
        ),
    })


@claim(control={"objective": "H(q, p)"}, source="Cover and Thomas 2006, th. 2.6.3")
def cross_entropy_minimizer(
    seed: Seed, *, outcomes: Annotated[int, Range(2, 20)] = 8,
    objective: Literal["H(p, q)", "H(q, p)"] = "H(p, q)",
) -> Evidence:
    r"""$\operatorname{argmin}_qH(p,q)=p$: no other law codes p as cheaply."""
    p = (_draw(seed, 1, outcomes, 1.0)[0] + _even(outcomes)) / 2

    def cost(q: Tensor) -> Tensor:
        p_too = p.expand_as(q)
        return cross_entropy(p_too, q) if objective == "H(p, q)" else cross_entropy(q, p_too)

    found, places = _descend(cost, outcomes), range(1, outcomes + 1)
    others = _draw(seed.child("others"), 10_000, outcomes, 1.0)
    return every({
        "distance of the minimizer": at_most(
            (found - p).abs().sum(), 1e-5, why="500 steps with rate 1 - 2 min p at worst"
        ).drawn(
            Series("minimizer q", places, found, style="bars"),
            Series("p", places, p, "predicted", "points"), x="outcome", y="probability",
        ),
        "other laws": never(cost(others) < cost(p) - ROUNDING, why=THEOREM),
    })


@claim(control={"mass": 2.0}, source="Kullback and Leibler 1951, sec. 3")
def kl_nonnegative(
    seed: Seed, *, outcomes: Outcomes = 8, concentration: Concentration = 1.0,
    p_1: Annotated[float, Range(0.05, 0.95)] = 0.3, mass: Annotated[float, Range(1, 4)] = 1.0,
) -> Evidence:
    r"""$KL(p\Vert q)\ge0$; 0 iff $p=q$, infinite off the support of q, and not symmetric."""
    p, q = _pairs(seed, DRAWS, outcomes, concentration)
    values = _kl(p, mass * q)  # `kl` refuses a mass other than 1
    x = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    coin, coins = _coin(torch.full_like(x, p_1)), mass * _coin(x)
    sure, even = torch.eye(outcomes).double(), _even(outcomes).expand(outcomes, -1)
    few = slice(0, DRAWS, 100)
    theirs = kl_divergence(*(Categorical(logits=law[few].log()) for law in (p, q)))
    return every({
        "draws": never(values < -ROUNDING, why=THEOREM).drawn(
            Series("KL(p, q)", x, _kl(coin, coins), style="line"),
            Series("KL(q, p)", x, _kl(coins, coin), role="other"),
            Series("0", [0, 1], [0, 0], role="bound"),
            x=f"q of the outcome with p = {p_1:g}", y="nats",
        ),
        "equal laws": identical(kl(p, p), torch.zeros(DRAWS)),
        "unequal laws": never(
            (kl(p, q) < ROUNDING) & (total_variation(p, q) > 1e-5),
            why="a theorem, and Pinsker's inequality: 2e-10 or more",
        ),
        "outside the support": never(~kl(even, sure).isposinf(), why="a logarithm of 0"),
        "inside it": identical(kl(sure, even), -even[0].log()),
        "not symmetric": at_least(
            kl(_coin(0.5), _coin(0.9)) - kl(_coin(0.9), _coin(0.5)), 0.1, why="0.51 and 0.37 nats"
        ),
        "torch": identical(theirs, kl(p[few], q[few])),
    })


@claim(
    control={"product": "samples"}, source="Kullback and Leibler 1951",
    misprint=r"$\prod_{i=1}^nq_i^{np_i}$: n for the samples and for the outcomes",
)
def maximum_likelihood_is_cross_entropy(
    seed: Seed, *, outcomes: Annotated[int, Range(2, 8)] = 5,
    samples: Annotated[int, Range(200, 20_000)] = 500,
    product: Literal["outcomes", "samples"] = "outcomes",
) -> Evidence:
    r"""$\frac1n\log\prod_{k=1}^Kq_k^{n\hat p_k}=-H(\hat p,q)$, with $\hat p$ from n samples."""
    truth = (_draw(seed, 1, outcomes, 1.0)[0] + _even(outcomes)) / 2
    x = JointTable(truth, ("x",)).sample(samples, seed.torch())[:, 0]
    q = _draw(seed.child("models"), 200, outcomes, 1.0)
    shares = x.bincount(minlength=outcomes).double() / samples
    powers = samples * shares
    if product == "samples":  # each sample brings the power of its outcome: that enters squared
        powers = powers * samples * shares
    weights, both = powers / powers.sum(), shares.expand_as(q)  # the scale moves no minimum
    likeliest = _descend(lambda law: -(weights * law.log()).sum(), outcomes)
    cheapest = _descend(lambda law: cross_entropy(shares, law), outcomes)
    places, close = range(1, outcomes + 1), "500 steps with rate 1 - 2 min p at worst"
    return every({
        "log of the product": identical(q.log() @ powers / samples, -cross_entropy(both, q)),
        "minimizers": at_most((likeliest - cheapest).abs(), 1e-6, why=close).drawn(
            Series("likeliest q", places, likeliest, style="bars"),
            Series("frequencies", places, shares, "predicted", "points"),
            x="outcome", y="probability",
        ),
        "samples, by torch": identical(
            Categorical(q[:, None]).log_prob(x).mean(dim=-1), -cross_entropy(both, q)
        ),
        "frequencies are cheapest": at_most((cheapest - shares).abs(), 1e-6, why=close),
    })


@claim(
    control={"maximum": "log n"}, source="Lin 1991",
    misprint=r"the range $[0,\log n]$; it is $[0,\log2]$ for every n",
)
def jsd_bounded(
    seed: Seed, *, outcomes: Annotated[int, Range(3, 50)] = 8, concentration: Concentration = 0.3,
    maximum: Literal["log 2", "log n"] = "log 2",
) -> Evidence:
    r"""$0\le JSD\le\log2$ for any number of outcomes, symmetric; $\log2$ iff disjoint supports."""
    most = math.log(outcomes if maximum == "log n" else 2)
    sizes, found, back, distances = (2, 3, 5, 8, 13, 21, 34, 50), [], [], []
    for n in sizes:
        p, q = _pairs(seed.child(n), DRAWS // len(sizes), n, concentration)
        found.append(jsd(p, q))
        back.append(jsd(q, p))
        distances.append(total_variation(p, q))
    values, distance = torch.cat(found), torch.cat(distances)
    half = outcomes // 2
    left = F.pad(_draw(seed, 100, half, concentration), (0, outcomes - half))
    apart = jsd(left, F.pad(_draw(seed, 100, outcomes - half, concentration), (half, 0)))
    few = slice(0, len(values), len(values) // 400)
    return every({
        "disjoint supports": identical(apart, torch.full_like(apart, most)).drawn(
            Series("draws", distance[few], values[few]),
            Series("disjoint supports", torch.ones(100), apart, "other", "points"),
            Series(f"maximum {maximum}", [0, 1], [most, most], role="bound"),
            Series("log 2 times total variation", [0, 1], [0, math.log(2)], role="bound"),
            x="total variation", y="Jensen-Shannon divergence, nats",
        ),
        "draws": never((values < -ROUNDING) | (values > most + ROUNDING), why=THEOREM),
        "symmetric": identical(values, torch.cat(back)),
        "log 2 only if disjoint": at_most(
            values, math.log(2) * distance, slack=ROUNDING, why=f"Lin's inequality, {THEOREM}"
        ),
        "0 only if equal": at_least(
            values, distance**2 / 2, slack=ROUNDING, why=f"Pinsker's inequality, {THEOREM}"
        ),
    })


@claim(control={"factor": 1.0}, source="Cover and Thomas 2006, sec. 11.6")
def total_variation_claim(
    seed: Seed, *, outcomes: Annotated[int, Range(2, 12)] = 8,
    concentration: Concentration = 1.0, factor: Annotated[float, Range(0.1, 2)] = 0.5,
) -> Evidence:
    r"""$\sup_\Omega|P(\Omega)-Q(\Omega)|=\frac12\Vert p-q\Vert_1$ over all $2^n$ events."""
    p, q = (_draw(seed.child(name), 50, outcomes, concentration) for name in "pq")
    events = (torch.arange(2**outcomes)[:, None] >> torch.arange(outcomes) & 1).double()
    gaps = (events @ (p - q).mT).abs()  # (events, draws)
    formula = factor * (p - q).abs().sum(dim=-1)
    ranked = gaps[:, 0].sort().values
    few = torch.linspace(0, len(ranked) - 1, min(len(ranked), 300)).long()
    return every({
        "formula": identical(gaps.amax(dim=0), formula).drawn(
            Series("events", few + 1, ranked[few]),
            Series("factor times L1 distance", [1, len(ranked)], [formula[0]] * 2, "predicted"),
            x="events, by their difference", y="|P - Q| of an event",
        ),
        "total_variation": identical(total_variation(p, q), gaps.amax(dim=0)),
        "the event p > q": identical(((p - q) * (p > q)).sum(dim=-1), gaps.amax(dim=0)),
    })


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
    few = slice(0, DRAWS, DRAWS // 400)
    curve = torch.logspace(-6, 1, 50, dtype=torch.float64)
    return every({
        "draws": never(
            distance**2 > constant * divergence + SUMMED, why="a theorem: 1e-14 rounding of sums"
        ).drawn(
            Series("draws", divergence[few], distance[few]),
            Series("coins 1/2 ± δ", kl(left, right), total_variation(left, right), "other",
                   "points"),
            Series(f"√({constant:g} KL)", curve, (constant * curve).sqrt(), role="bound"),
            x="KL(p, q), nats", y="total variation", log="xy",
        ),
        "sharp for coins 1/2 ± δ": tends_to(
            delta, ratio, 1.0, tol=1e-6, why="1 - 2δ²/3 at δ = 0.001",
            labels=("δ", "total variation / bound"),
        ),
    })


@claim(control={"posteriors": "at worst"}, source="Pinsker and Jensen, by the chain rule")
def posterior_total_variation(
    seed: Seed, *, inputs: Annotated[int, Range(2, 20)] = 8,
    labels: Annotated[int, Range(2, 10)] = 3,
    posteriors: Literal["on average", "at worst"] = "on average",
) -> Evidence:
    r"""$KL(Q\Vert P)\le\epsilon$: $E_QTV(Q(\cdot\mid x),P(\cdot\mid x))\le\sqrt{\epsilon/2}$."""
    draws, rng = 10_000, seed.child("noise").torch()
    Q = _draw(seed, draws, inputs * labels, 1.0)
    noise = torch.randn(Q.shape, generator=rng, dtype=torch.float64)
    scale = torch.logspace(-2, 1, draws, dtype=torch.float64)[:, None]
    P = Q * (scale * noise).exp()  # laws at all distances
    P = P / P.sum(dim=-1, keepdim=True)
    eps = kl(Q, P)
    Q, P = (law.reshape(draws, inputs, labels) for law in (Q, P))
    seen_Q, seen_P = Q.sum(dim=-1), P.sum(dim=-1)
    given_Q, given_P = Q / seen_Q[..., None], P / seen_P[..., None]
    distances = total_variation(given_Q, given_P)  # (draws, inputs)
    shown = (seen_Q * distances).sum(dim=-1)
    if posteriors == "at worst":
        shown = distances.amax(dim=-1)
    bound, few = (eps / 2).sqrt(), slice(0, draws, draws // 400)
    chain = kl(seen_Q, seen_P) + (seen_Q * kl(given_Q, given_P)).sum(dim=-1)
    return every({
        "posteriors": never(
            shown**2 > eps / 2 + SUMMED, why="a theorem: 1e-14 for rounding of sums"
        ).drawn(
            Series(f"total variation, {posteriors}", bound[few], shown[few]),
            Series("√(ε/2)", bound[few], bound[few], role="bound"),
            x="√(ε/2), ε = KL(Q, P)", y="total variation of posteriors", log="xy",
        ),
        "chain rule": identical(chain, eps),
    })


@claim(control={"posterior": "0.9 / 0.1"}, source="by construction, sharp up to a constant")
def good_density_poor_classifier(
    seed: Seed, *, eps: Annotated[float, Range(1e-6, 0.3)] = 0.01,
    inputs: Annotated[int, Range(2, 50)] = 12,
    posterior: Literal["1/2 ± δ", "0.9 / 0.1"] = "1/2 ± δ",
) -> Evidence:
    r"""$KL\le\epsilon$ lets all labels flip, with posteriors $\frac12\pm\frac14\sqrt\epsilon$."""
    rng, delta = seed.torch(), math.sqrt(eps) / 4
    seen = _draw(seed.child("inputs"), 1, inputs, 1.0)[0]
    side = 2 * torch.randint(2, (inputs,), generator=rng).double() - 1
    margin = delta if posterior == "1/2 ± δ" else 0.4
    true, model = _coin(0.5 + side * margin), _coin(0.5 - side * delta)  # barely on the other side
    Q, P = ((seen[:, None] * given).flatten() for given in (true, model))
    places = range(1, inputs + 1)
    return every({
        "divergence": at_most(kl(Q, P), eps, why="8δ² = ε/2 to first order: no slack").drawn(
            Series("truth Q", places, true[:, 0]),
            Series("model P", places, model[:, 0], "other", "points"),
            Series("decision", [1, inputs], [0.5, 0.5], role="bound"),
            x="input x", y="probability of the first label, given x",
        ),
        "inputs with the same label": never(
            true.argmax(dim=-1) == model.argmax(dim=-1), why="by construction, all flip"
        ),
        "average total variation": at_most(
            seen @ total_variation(true, model), math.sqrt(eps / 2), why="a theorem: no slack"
        ),
    })


@claim(control={"coupling": 0.3}, source="Cover and Thomas 2006, ch. 2; Paninski 2003")
def mutual_information_zero(
    seed: Seed, *, rows: Annotated[int, Range(2, 5)] = 4, columns: Annotated[int, Range(2, 5)] = 5,
    samples: Annotated[int, Range(500, 4000)] = 1000,
    repetitions: Annotated[int, Range(200, 1000)] = 500,
    coupling: Annotated[float, Range(0, 0.9)] = 0.0,
) -> Evidence:
    r"""$I=H(X)+H(Y)-H(X,Y)\ge0$, 0 iff independent; a sample of n shows $(K-1)(M-1)/2n$ more."""
    tables = _draw(seed, 10_000, rows * columns * 2, 0.5).reshape(-1, rows, columns, 2)
    joint = tables.sum(dim=-1)
    information = mutual_information(joint)
    product = joint.sum(dim=2)[:, :, None] * joint.sum(dim=1)[:, None]
    apart = total_variation(joint.flatten(1), product.flatten(1))
    x, y = (
        (_draw(seed.child(name), 1, size, 1.0)[0] + _even(size)) / 2
        for name, size in (("x", rows), ("y", columns))
    )
    diagonal = F.one_hot(torch.arange(rows) % columns, columns).double() / rows
    table = (1 - coupling) * x[:, None] * y + coupling * diagonal
    draws = JointTable(table, ("x", "y")).sample(samples * repetitions, seed.child("n").torch())
    a, b = draws.reshape(repetitions, samples, 2).unbind(dim=-1)
    sizes = [samples // 8, samples // 4, samples // 2, samples]
    found = [plug_in_mi(a[:, :n], b[:, :n]) for n in sizes]
    mended = plug_in_mi(a, b, correction="miller-madow")
    errors = [float(one.std()) / repetitions**0.5 for one in (*found, mended)]
    bias = (rows - 1) * (columns - 1) / (2 * torch.tensor(sizes, dtype=torch.float64))
    # an entropy's next term is (1 - sum 1/p) / 12n²; of three entropies, this, and once more of it
    rest = 2 * float(((1 / x).sum() - 1) * ((1 / y).sum() - 1)) / (12 * samples**2)
    why = "the mean over repetitions, and twice the next term of the bias, in 1/n²"
    return every({
        "independent table": identical(mutual_information(table), 0.0),
        "mean of the plug-in estimate": estimates(
            found[-1].mean(), bias[-1], error=errors[3], bias=rest, why=why
        ).drawn(
            Series("mean plug-in estimate", sizes, [float(one.mean()) for one in found],
                   error=[5 * one for one in errors[:4]]),
            Series("(K - 1)(M - 1) / 2n", sizes, bias, role="predicted"),
            x="samples n", y="mutual information, nats", log="xy",
        ),
        "mean of the corrected estimate": estimates(
            mended.mean(), 0.0, error=errors[4], bias=rest, why=why
        ),
        "entropies": identical(
            information,
            entropy(joint.sum(dim=2)) + entropy(joint.sum(dim=1)) - entropy(joint.flatten(1)),
        ),
        "entropies, given a third variable": identical(
            mutual_information(tables, given=-1),
            entropy(tables.sum(dim=2).flatten(1)) + entropy(tables.sum(dim=1).flatten(1))
            - entropy(tables.flatten(1)) - entropy(tables.sum(dim=(1, 2))),
        ),
        "0 only if independent": at_least(
            information, 2 * apart**2, slack=ROUNDING, why=f"Pinsker's inequality, {THEOREM}"
        ),
    })


@experiment(
    reaches={"F1": Range(3.88, 4.18), "F2": Range(3.17, 3.47)}, floor={"F1": Range(4.0, 4.2)},
    source="Shannon 1951, the row of 27 letters: F1 4.03 and F2 3.32 bits, each within 0.15",
)
def english_entropy(run: Run, *, longest: Annotated[int, Range(2, 8)] = 6) -> None:
    """Measures how many bits a letter of English carries once the N - 1 letters before are known.

    Args:
        longest: The largest N, letters of a block that is counted.
    """
    text = text8(data_dir=run.data_dir) if run.full else documentation()
    plain = re.sub("[^a-z]+", " ", text.lower()).encode("ascii")
    letters = (torch.frombuffer(bytearray(plain), dtype=torch.uint8).long() - 96).clamp(min=0)
    orders, curves = range(1, longest + 1), {}
    for parts in run.steps((1, 2, 8), "parts of the text"):
        curves[parts] = _letter_bits(letters, longest, parts)
    whole, halves = curves[1], curves[2]
    run.record(**{f"F{order}": bits for order, bits in zip(orders, whole, strict=True)})
    run.record(lost_by_halving=whole[-1] - halves[-1])
    shown = {1: "whole text", 2: "mean of its halves", 8: "mean of its eighths"}
    run.figure("letters", figures.draw(Picture(
        (*(Series(shown[parts], orders, bits, "measured" if parts == 1 else "other", "points")
           for parts, bits in curves.items()),
         Series("Shannon 1951", list(SHANNON), list(SHANNON.values()), "predicted", "points"),
         Series("log₂ 27", [0, longest], [math.log2(SYMBOLS)] * 2, role="bound")),
        "letters N", "F_N, bits a letter given the N - 1 before it",
    )))


def _letter_bits(letters: Tensor, longest: int, parts: int) -> list[float]:
    """Give F_1 to F_longest, each the growth of the entropy of blocks, averaged over the parts."""
    codes, entropies = torch.zeros_like(letters), [0.0]
    for order in range(longest):
        codes = SYMBOLS * codes[: len(letters) - order] + letters[order:]
        each = len(codes) // parts
        of_parts = _plug_in(codes[: each * parts].reshape(parts, each))[0]
        entropies.append(float(of_parts.mean()) / math.log(2))
    return np.diff(entropies).tolist()


def _draw(seed: Seed, draws: int, outcomes: int, concentration: float) -> Tensor:
    """Draw laws from a Dirichlet: nearly sure below a concentration of 1, nearly even above."""
    return torch.from_numpy(seed.numpy().dirichlet([concentration] * outcomes, size=draws))


def _pairs(
    seed: Seed, draws: int, outcomes: int, concentration: float
) -> tuple[Tensor, Tensor]:
    """Draw pairs of laws at all distances, from near ones to such as have nothing in common."""
    p, q = (_draw(seed.child(name), draws, outcomes, concentration) for name in "pq")
    share = torch.logspace(-3, 0, draws, dtype=torch.float64)[:, None]
    return p, share * q + (1 - share) * p


def _even(outcomes: int) -> Tensor:
    return torch.full((outcomes,), 1 / outcomes, dtype=torch.float64)


def _coin(heads: Tensor | float) -> Tensor:
    """Give the laws of two outcomes of which the first has these probabilities."""
    heads = torch.as_tensor(heads, dtype=torch.float64)
    return torch.stack([heads, 1 - heads], dim=-1)


def _descend(loss: Callable[[Tensor], Tensor], outcomes: int) -> Tensor:
    """Minimize over laws by 500 steps of gradient descent on logits, and give the last law."""
    logits = torch.zeros(outcomes, dtype=torch.float64, requires_grad=True)
    for _ in range(500):
        (gradient,) = torch.autograd.grad(loss(logits.softmax(dim=-1)), logits)
        logits = (logits - 2.0 * gradient).detach().requires_grad_()  # the Hessian is 1/2 at most
    return logits.softmax(dim=-1).detach()

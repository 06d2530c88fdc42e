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
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from principia.lab.params import Range, checked, usage_error

Base = Annotated[float, Range(1, math.inf, open="low")]


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
    return entropy_in_nats(p) / math.log(base)


def _check(owner: str, **laws: Tensor) -> None:
    """Refuse what is no probabilities along the last axis, or not of the shape of the first."""
    first = next(iter(laws.values()))
    for name, law in laws.items():
        if not law.ndim or not law.shape[-1]:
            domain = "of a shape (..., n), probabilities along the last axis"
            raise usage_error(owner, name, domain, tuple(law.shape))
        if law.shape != first.shape:
            domain = f"of the shape of {next(iter(laws))}, {tuple(first.shape)}"
            hint = "torch.broadcast_tensors gives both one shape."
            raise usage_error(owner, name, domain, tuple(law.shape), hint)
        if not law.numel():
            continue
        total, lowest = law.detach().sum(dim=-1).flatten(), float(law.detach().min())
        if lowest < 0:
            raise usage_error(owner, name, ">= 0 everywhere", lowest)
        allowed = 1e-6 + torch.finfo(law.dtype).eps * law.shape[-1] ** 0.5  # of a rounded softmax
        gap = (total - 1).abs()
        if not bool((gap <= allowed).all()):
            where = "" if name == "joint" else " along the last axis"
            worst = float(f"{float(total[gap.argmax()]):.7g}")
            raise usage_error(owner, name, f"of sum 1{where}", worst, f"Divide by the sum{where}.")


def entropy_in_nats(p: Tensor) -> Tensor:
    """Compute the entropy of rows that are known to be distributions."""
    return (-_p_log_q(p, p)).sum(dim=-1)


def _p_log_q(p: Tensor, q: Tensor) -> Tensor:
    """Multiply p and log q; 0 where p is, with a finite gradient also where q is 0 as well."""
    return torch.xlogy(p, q.masked_fill((p == 0) & (q == 0), 1))


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
    return kl_in_nats(p, q) / math.log(base)


def kl_in_nats(p: Tensor, q: Tensor) -> Tensor:
    """Compute the divergence of rows that are known to be distributions."""
    return (_p_log_q(p, p) - _p_log_q(p, q)).sum(dim=-1)


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
    return (kl_in_nats(p, middle) + kl_in_nats(q, middle)) / (2 * math.log(base))


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
        raise usage_error("mutual_information", "joint", domain, got)
    table = joint[..., None, :, :] if given is None else joint.movedim(given, -3)  # (*batch, z,x,y)
    _check("mutual_information", joint=table.flatten(-3))
    x, y = table.sum(dim=-1, keepdim=True), table.sum(dim=-2, keepdim=True)
    z = x.sum(dim=-2, keepdim=True)
    independent = x * y / torch.where(z > 0, z, 1)
    return kl_in_nats(table.flatten(-3), independent.flatten(-3)) / math.log(base)


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
        raise usage_error("plug_in_mi", "x and y", "samples of one shape, one or more", got)
    n = x.shape[-1]
    a, b = (_labels(one).reshape(-1, n) for one in (x, y))
    (of_x, K), (of_y, M), (of_both, pairs) = map(plug_in, (a, b, a * (int(b.max()) + 1) + b))
    found = of_x + of_y - of_both
    if correction == "miller-madow":  # each entropy lacks (values - 1) / 2n on average
        found = found + (K + M - pairs - 1) / (2 * n)
    return found.reshape(x.shape[:-1]) / math.log(base)


def _labels(values: Tensor) -> Tensor:
    """Number integers from 0, without gaps where those would be wide."""
    low, high = int(values.min()), int(values.max())
    if high - low < values.numel():
        return values.long() - low
    return torch.unique(values, return_inverse=True)[1]


def plug_in(codes: Tensor) -> tuple[Tensor, Tensor]:
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

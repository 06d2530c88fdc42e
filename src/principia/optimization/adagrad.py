r"""Adagrad: a step for every coordinate, the smaller the more its gradients have added up to.

A word that occurs once in a thousand sentences moves its weight once in a thousand steps, and then
it should move far. Adagrad divides each coordinate by the root of the sum of its squared gradients:
rare coordinates keep long steps, frequent ones settle. Rates only fall, by themselves, like
$1/\sqrt t$, which gives a regret of $O(\sqrt T)$ against any fixed point, whoever chooses the
losses; an average that forgets, as RMSprop's, does not. The path does not change if coordinates are
rescaled, so that a diagonal condition number costs nothing; a rotated one costs what it always did.

$$ \gamma_i^t = \gamma_i^{t-1}+(g_i^t)^2, \quad
\theta_i^t = \theta_i^{t-1}-\frac\eta{\sqrt{\gamma_i^t}+\delta}\,g_i^t $$

$$ R_T = \sum_{t\le T}h_t(\theta^{t-1})-h_t(u) \le
\Big(\frac{D_\infty^2}{2\eta}+\eta\Big)\sum_i\sqrt{\gamma_i^T} $$

Symbols:
    $g^t$: gradient at $\theta^{t-1}$; $g_i$ is its coordinate $i$, not the whole gradient
    $\gamma$: sum of squared gradients, `sum` in the state of `torch.optim.Adagrad`
    $\eta/(\sqrt\gamma+\delta)$: `effective_lr`, with $\eta$ and $\delta$ as `lr` and `eps` of torch
    $R_T$: `online_regret` against a `comparator` $u$ in a box of width $D_\infty$

References:
    Duchi, Hazan and Singer (2011), Adaptive subgradient methods for online learning and stochastic
        optimization. Journal of Machine Learning Research 12(61).
    Zinkevich (2003), Online convex programming and generalized infinitesimal gradient ascent.
        International Conference on Machine Learning.
    Reddi, Kale and Kumar (2018), On the convergence of Adam and beyond. International Conference on
        Learning Representations. arXiv:1904.09237
    Pang and Lee (2005), Seeing stars: exploiting class relationships for sentiment categorization
        with respect to rating scales. Association for Computational Linguistics.
        doi:10.3115/1219840.1219855
"""

__all__ = ["effective_lr", "online_regret"]

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Optimizer

from principia.lab.params import usage_error

ACCUMULATORS = ("sum", "square_avg")  # in the states of Adagrad and of RMSprop


def effective_lr(optimizer: Optimizer) -> list[Float[Tensor, "..."]]:
    r"""Gives $\eta/(\sqrt\gamma+\delta)$ for every coordinate of every parameter, as it is now.

    Args:
        optimizer: An Adagrad or RMSprop of torch that has stepped.

    Example:
        >>> p = torch.nn.Parameter(torch.zeros(2))
        >>> adagrad = torch.optim.Adagrad([p], lr=0.1)
        >>> p.grad = torch.tensor([1.0, 2.0])
        >>> adagrad.step()
        >>> effective_lr(adagrad)
        [tensor([0.1000, 0.0500])]
    """
    found = []
    for group in optimizer.param_groups:
        for p in group["params"]:
            state = optimizer.state.get(p, {})
            name = next((one for one in ACCUMULATORS if one in state), None)
            if name is None:
                domain = "an Adagrad or RMSprop that has stepped"
                raise usage_error("effective_lr", "optimizer", domain, type(optimizer).__name__)
            lr = group["lr"]
            if decay := group.get("lr_decay", 0):
                lr = lr / (1 + (float(state["step"]) - 1) * decay)
            found.append(lr / (state[name].sqrt() + group["eps"]))
    return found


def online_regret(
    optimizer: Optimizer, losses: Float[Tensor, " T *shape"], comparator: Float[Tensor, "*shape"],
    box: tuple[float, float] | None = None,
) -> Float[Tensor, " T *shape"]:
    r"""Plays linear losses $g_t\cdot\theta$ one after the other, and sums up what was lost.

    Convex losses are bounded by linear ones with their gradients, so that these are the worst.

    Args:
        optimizer: Any, of one parameter, which is changed; where it is now is its first move.
        losses: The slopes $g_t$ of every round, of the shape of the parameter.
        comparator: The fixed point $u$ to compare with.
        box: Ends between which every coordinate is put back after each step.

    Returns:
        $\sum_{s\le t}g_s(\theta_s-u)$ for every round t, coordinate by coordinate.

    Example:
        >>> p = torch.nn.Parameter(torch.zeros(1))
        >>> slopes = torch.tensor([[1.0], [1.0]])
        >>> sgd = torch.optim.SGD([p], lr=0.5)
        >>> online_regret(sgd, slopes, torch.tensor([-1.0]), (-1.0, 1.0)).flatten()
        tensor([1.0000, 1.5000])
    """
    params = [p for group in optimizer.param_groups for p in group["params"]]
    if len(params) != 1 or params[0].shape != losses.shape[1:]:
        got = [tuple(p.shape) for p in params]
        domain = f"of one parameter of the shape of a loss, {tuple(losses.shape[1:])}"
        raise usage_error("online_regret", "optimizer", domain, got)
    p, lost = params[0], torch.empty_like(losses)
    for t, slopes in enumerate(losses):
        lost[t] = slopes * (p.detach() - comparator)
        p.grad = slopes
        optimizer.step()
        if box is not None:
            p.detach().clamp_(*box)
    return lost.cumsum(dim=0)

r"""Momentum: a heavy ball rolls on where the last steps agreed.

Gradient descent zigzags across a ravine and creeps along it. A ball with momentum adds a share
$\beta$ of its last move to the next: moves across cancel, moves along add up to $\frac1{1-\beta}$
times a plain step. On quadratics the tuned ball needs $\sqrt\kappa$ steps where descent needs
$\kappa$. It is `torch.optim.SGD(momentum=...)` for a constant step. Off quadratics it promises
nothing: on a function as smooth and as convex it can run in a circle for ever. Written as a moving
average of gradients, the average must be corrected for its start at 0, and by the right power.

$$ \theta^{t+1} = \theta^t-\eta\nabla h(\theta^t)+\beta(\theta^t-\theta^{t-1}) $$

$$ m^t = \alpha m^{t-1}-(1-\alpha)\nabla h(\theta^t), \quad
\hat m^t = \frac{m^t}{1-\alpha^t}, \quad \theta^{t+1} = \theta^t+\eta\hat m^t $$

$$ \eta = \frac4{(\sqrt L+\sqrt\mu)^2}, \quad
\beta = \Big(\frac{\sqrt\kappa-1}{\sqrt\kappa+1}\Big)^2, \quad \kappa = \frac L\mu $$

Symbols:
    $\theta^t, h$: parameters after $t$ steps, and what is minimized
    $\eta, \beta$: `lr` and `beta` of `HeavyBall`, or as `tuned_heavy_ball` sets them
    $m, \alpha$: average of the gradients and weight of its past, in `EMAMomentum`
    $L, \mu, \kappa$: largest and smallest curvature, and their ratio

References:
    Polyak (1964), Some methods of speeding up the convergence of iteration methods. USSR
        Computational Mathematics and Mathematical Physics 4(5). doi:10.1016/0041-5553(64)90137-5
    Qian (1999), On the momentum term in gradient descent learning algorithms. Neural Networks
        12(1). doi:10.1016/S0893-6080(98)00116-6
    Sutskever, Martens, Dahl and Hinton (2013), On the importance of initialization and momentum in
        deep learning. International Conference on Machine Learning.
    Lessard, Recht and Packard (2016), Analysis and design of optimization algorithms via integral
        quadratic constraints. SIAM Journal on Optimization 26(1). arXiv:1408.3595
"""

__all__ = ["HeavyBall", "EMAMomentum", "tuned_heavy_ball"]

import math
from collections.abc import Iterable
from typing import Annotated, Any, final

import torch
from torch import Tensor

from principia.lab.params import PositiveFloat, PositiveInt, Range, checked, usage_error
from principia.lab.training import GroupOptimizer

BelowOne = Annotated[float, Range(0, 1, open="high")]


@final
class HeavyBall(GroupOptimizer):
    r"""Steps against the gradient and repeats a share of the last move.

    It remembers the last point, not a velocity, so that it is the formula also while `lr` changes;
    torch's velocity has the old `lr` in it no more.

    Args:
        params: Parameters, or groups of them.
        lr: $\eta$.
        beta: $\beta$, the share of the last move that is repeated.

    Example:
        >>> x = torch.nn.Parameter(torch.ones(1))
        >>> ball = HeavyBall([x], lr=0.1, beta=0.5)
        >>> for _ in range(2):
        ...     loss = ball.step(lambda: (ball.zero_grad(), x.square().sum().backward()))
        >>> x  # 1 - 0.2 = 0.8, then 0.8 - 0.16 - 0.5 * 0.2
        Parameter containing:
        tensor([0.5400], requires_grad=True)
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: PositiveFloat = 0.1, beta: BelowOne = 0.9
    ) -> None:
        super().__init__(params, {"lr": lr, "beta": beta})

    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Add a share of the last move to a step against the gradient."""
        last = self.memory(params, "last", torch.clone)
        self.remember(params, "last", map(torch.clone, params))
        torch._foreach_lerp_(params, last, -group["beta"])  # away from the last point
        torch._foreach_add_(params, gradients, alpha=-group["lr"])


@final
class EMAMomentum(GroupOptimizer):
    r"""Steps along a moving average of the gradients, corrected for its start at 0.

    Args:
        params: Parameters, or groups of them.
        lr: $\eta$.
        alpha: $\alpha$, the weight of the past; or two, between which it moves evenly.
        rise: Steps that the way from the first to the second weight takes.

    Example:
        >>> x = torch.nn.Parameter(torch.ones(1))
        >>> x.grad = torch.tensor([5.0])
        >>> EMAMomentum([x], lr=0.1).step()  # the first step is that of gradient descent
        >>> x.item()
        0.5
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: PositiveFloat = 0.1,
        alpha: BelowOne | tuple[BelowOne, BelowOne] = 0.9, *, rise: PositiveInt = 1000,
    ) -> None:
        first, last = alpha if isinstance(alpha, tuple) else (alpha, alpha)
        for one in (first, last):
            if not 0 <= one < 1:
                raise usage_error("EMAMomentum", "alpha", "in [0, 1), one number or two", alpha)
        super().__init__(params, {"lr": lr, "alpha": first, "last": last, "rise": rise})

    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Average the gradients and step along what the average would be without its start."""
        passed = min((group["taken"] - 1) / group["rise"], 1.0)
        alpha = group["alpha"] + passed * (group["last"] - group["alpha"])
        group["start"] = group.get("start", 1.0) * alpha  # weight that the start at 0 still has
        average = self.memory(params, "average")
        torch._foreach_mul_(average, alpha)
        torch._foreach_add_(average, gradients, alpha=alpha - 1)
        torch._foreach_add_(params, average, alpha=group["lr"] / (1 - group["start"]))


@checked
def tuned_heavy_ball(L: PositiveFloat, mu: PositiveFloat) -> dict[str, float]:
    r"""Gives the `lr` and `beta` that are best for all quadratics with curvatures in $[\mu,L]$.

    Example:
        >>> tuned_heavy_ball(9.0, 1.0)
        {'lr': 0.25, 'beta': 0.25}
    """
    if mu > L:
        hint = "It is the smallest curvature, L the largest."
        raise usage_error("tuned_heavy_ball", "mu", f"at most L = {L:g}", mu, hint)
    root = math.sqrt(L / mu)
    return {"lr": 4 / (math.sqrt(L) + math.sqrt(mu)) ** 2, "beta": ((root - 1) / (root + 1)) ** 2}

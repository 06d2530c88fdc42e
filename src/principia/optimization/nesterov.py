r"""Nesterov acceleration: look ahead along the last move, and ask for the gradient there.

The heavy ball corrects itself a step too late: it asks for the gradient where it is, then rolls on.
Nesterov's method rolls first, to the look-ahead point, and takes the gradient of that place. The
change is small and decides all: the method converges on every smooth convex function, not only on
quadratics, at rates that no method using gradients alone can beat by more than a constant. Without
strong convexity the share of the last move grows towards 1 and the gap falls like $1/t^2$, where
gradient descent has $1/t$; with it a fixed share needs $\sqrt\kappa$ steps where descent needs
$\kappa$. If the curvature $\mu$ is not known, starting anew whenever the method runs uphill brings
the linear rate back, as a rule and not by a theorem. `torch.optim.SGD(nesterov=True)` is the method
with a fixed share; its parameters are the look-ahead points.

$$ \nu^{t+1} = \theta^t+\beta_t(\theta^t-\theta^{t-1}), \quad
\theta^{t+1} = \nu^{t+1}-\eta\nabla h(\nu^{t+1}) $$

$$ \beta_t = \frac{t-1}{t+2}: \quad
h(\theta^t)-h^* \le \frac{2L}{(t+1)^2}\Vert\theta^0-\theta^*\Vert^2 $$

$$ \beta_t = \frac{\sqrt\kappa-1}{\sqrt\kappa+1}: \quad h(\theta^t)-h^* \le
\Big(1-\sqrt{\frac\mu L}\Big)^t\Big(h(\theta^0)-h^*+\frac\mu2\Vert\theta^0-\theta^*\Vert^2\Big) $$

Symbols:
    $\theta^t$: point after $t$ steps, `Nesterov.iterate()`
    $\nu^{t+1}$: look-ahead point, which the parameters hold between steps
    $\eta, \beta_t$: `lr`, $1/L$ in both bounds, and `beta`: a number, "convex" or ("strong", κ)
    $h, h^*, \theta^*$: what is minimized, its smallest value, and where that is
    $L, \mu, \kappa$: largest and smallest curvature, and their ratio

References:
    Nesterov (1983), A method of solving a convex programming problem with convergence rate
        $O(1/k^2)$. Soviet Mathematics Doklady 27(2).
    Nesterov (2018), Lectures on convex optimization, sec. 2.2. Springer.
        doi:10.1007/978-3-319-91578-4
    Su, Boyd and Candès (2016), A differential equation for modeling Nesterov's accelerated gradient
        method. Journal of Machine Learning Research 17(153). arXiv:1503.01243
    Sutskever, Martens, Dahl and Hinton (2013), On the importance of initialization and momentum in
        deep learning. International Conference on Machine Learning.
    O'Donoghue and Candès (2015), Adaptive restart for accelerated gradient schemes. Foundations of
        Computational Mathematics 15(3). arXiv:1204.3982
    Lessard, Recht and Packard (2016), Analysis and design of optimization algorithms via integral
        quadratic constraints. SIAM Journal on Optimization 26(1). arXiv:1408.3595
"""

__all__ = ["Nesterov"]

import math
from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor

from principia.lab.params import PositiveFloat, checked, usage_error
from principia.lab.training import GroupOptimizer
from principia.optimization.gradient_descent import Trace, descend
from principia.optimization.problems import Problem

Beta = float | str | tuple[str, float]


@final
class Nesterov(GroupOptimizer):
    r"""Steps from a point ahead on the line of the last move, against the gradient there.

    The parameters hold the look-ahead point $\nu$, so that an ordinary backward pass takes the
    gradient where the method wants it. The rates are those of $\theta$, which `iterate` gives.

    Args:
        params: Parameters, or groups of them.
        lr: $\eta$; $1/L$ for the rates.
        beta: $\beta_t$: a number in [0, 1); "convex", $\frac{t-1}{t+2}$; or ("strong", κ),
            $\frac{\sqrt\kappa-1}{\sqrt\kappa+1}$.
        restart: Whether to start anew from $\theta^{t+1}$ when the last move went uphill,
            $\nabla h(\nu^{t+1})^\top(\theta^{t+1}-\theta^t)>0$. As in the paper it is one test for
            one run: all parameters of a group start anew together, and so do the rows of a test
            problem; give it one row.

    Example:
        >>> x = torch.nn.Parameter(torch.ones(1))
        >>> optimizer = Nesterov([x], lr=0.1, beta=0.5)
        >>> for _ in range(2):
        ...     loss = optimizer.step(lambda: (optimizer.zero_grad(), x.square().sum().backward()))
        >>> optimizer.iterate()  # 1 - 0.2 = 0.8; ahead of it 0.7, and 0.7 - 0.14
        [tensor([0.5600])]
        >>> x  # 0.56 - 0.5 * 0.24
        Parameter containing:
        tensor([0.4400], requires_grad=True)
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: PositiveFloat = 0.1, beta: Beta = 0.9, *,
        restart: bool = False
    ) -> None:
        _share(beta, 1)  # refuses what is none
        super().__init__(params, {"lr": lr, "beta": beta, "restart": restart})

    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Step down from the look-ahead points, then look ahead from where that leads."""
        iterates = self.memory(params, "iterate", torch.clone)
        torch._foreach_add_(params, gradients, alpha=-group["lr"])
        self.remember(params, "iterate", map(torch.clone, params))
        if group["restart"] and _dot(gradients, torch._foreach_sub(params, iterates)) > 0:
            group["taken"] = 0  # the next step is a first one, from where the parameters now are
        else:
            beta = _share(group["beta"], group["taken"])
            torch._foreach_lerp_(params, iterates, -beta)  # away from the last iterate

    def iterate(self) -> list[Tensor]:
        r"""Give $\theta$ of every parameter as it is now; before its first step, the parameter."""
        params = [p for group in self.param_groups for p in group["params"]]
        return [self.state.get(p, {}).get("iterate", p.detach()) for p in params]


def _share(beta: Any, t: int) -> float:
    """Give the share of the last move after t steps."""
    if beta == "convex":
        return (t - 1) / (t + 2)
    if isinstance(beta, (int, float)) and 0 <= beta < 1:
        return beta
    match beta:
        case ("strong", float() | int() as kappa) if 1 <= kappa < math.inf:
            return (math.sqrt(kappa) - 1) / (math.sqrt(kappa) + 1)
    domain = 'in [0, 1), "convex", or ("strong", κ) with κ in [1, inf)'
    raise usage_error("Nesterov", "beta", domain, beta)


def _dot(first: Any, second: Any) -> Tensor:
    """Multiply two lists of tensors as if each were one vector."""
    return torch.stack([one.sum() for one in torch._foreach_mul(first, second)]).sum()


def run_copy(problem: Problem, kind: Any, steps: int, *, at: Any = None, **options: Any) -> Trace:
    """Run an optimizer on a copy of the problem."""
    twin = problem.at(problem.theta)
    return recorded(twin, kind(twin.parameters(), **options), steps, at=at)


def recorded(problem: Problem, optimizer: Any, steps: int, *, at: Any = None) -> Trace:
    """Go down and record the iterates, which of `Nesterov` are not the parameters."""
    iterate = (lambda: optimizer.iterate()[0]) if isinstance(optimizer, Nesterov) else None
    return descend(problem, optimizer, steps, record=("value", "theta"), at=at, iterate=iterate)

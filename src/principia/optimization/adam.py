r"""Adam: a moving average of the gradient over the root of that of its square.

Momentum averages gradients, RMSprop divides each coordinate by the size its gradients lately had;
Adam does both. Both averages start at 0 and are too small at first, by a factor that is known and
divided out: so the first step is as long as the learning rate in every coordinate, whatever the
gradient. What is divided by is the raw second moment, not the variance, and an average, not
Adagrad's sum. The learning rate scales all steps, and no step is more than a few of them long. The
average can also forget too fast: where rare large gradients tell the truth, Adam may walk the wrong
way for ever. AMSGrad, which divides by the largest average so far, does not. `torch.optim.Adam` is
the one to use, with `amsgrad=True` for AMSGrad; `Adam` here has other beginnings, to compare.

$$ m^t = \beta_1m^{t-1}+(1-\beta_1)g^t, \quad v^t = \beta_2v^{t-1}+(1-\beta_2)(g^t)^2, \quad
m^0 = v^0 = 0 $$

$$ \hat m^t = \frac{m^t}{1-\beta_1^t}, \quad \hat v^t = \frac{v^t}{1-\beta_2^t}, \quad
\theta^t = \theta^{t-1}-\eta\frac{\hat m^t}{\sqrt{\hat v^t}+\varepsilon} $$

$$ \vert\theta^t_i-\theta^{t-1}_i\vert \le
\eta\,\frac{1-\beta_1}{\sqrt{(1-\beta_2)(1-\beta_1^2/\beta_2)}} \quad\text{if}\quad
\beta_1^2<\beta_2 $$

Symbols:
    $g^t$: gradient at $\theta^{t-1}$; squares, roots and quotients are taken in each coordinate $i$
    $m, v$: averages of gradient and squared gradient, `exp_avg` and `exp_avg_sq` of the state
    $\hat m, \hat v$: what they would be without their start at 0, with `bias_correction`
    $\eta, \beta_1, \beta_2, \varepsilon$: `lr`, `betas` and `eps`

References:
    Kingma and Ba (2015), Adam: a method for stochastic optimization. International Conference on
        Learning Representations. arXiv:1412.6980
    Reddi, Kale and Kumar (2018), On the convergence of Adam and beyond. International Conference on
        Learning Representations. arXiv:1904.09237
    Tieleman and Hinton (2012), Lecture 6.5: RMSprop. Coursera, Neural Networks for Machine
        Learning.
"""

__all__ = ["Adam", "alternating_losses"]

import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Optimizer

from principia.lab.params import NonNegativeFloat, PositiveFloat, Range, checked, usage_error
from principia.lab.training import GroupOptimizer
from principia.optimization.problems import Problem

DEFAULTS = (0.9, 0.999)


@final
class Adam(GroupOptimizer):
    r"""Steps along averaged gradients, each coordinate over the root of its averaged square.

    With the defaults it is `torch.optim.Adam`, which is the one to use; here the beginning can be
    another one.

    Args:
        params: Parameters, or groups of them.
        lr: $\eta$.
        betas: $\beta_1$ and $\beta_2$, the weights of the past in both averages.
        eps: $\varepsilon$, keeps the quotient finite.
        bias_correction: Whether the averages are divided by $1-\beta^t$; without, and from 0, the
            first step is $\frac{1-\beta_1}{\sqrt{1-\beta_2}}$ times too long.
        start: Where the averages start: at "zero", or at the first "gradient" and its square,
            which leaves no bias to correct.

    Example:
        >>> x = torch.nn.Parameter(torch.zeros(2))
        >>> x.grad = torch.tensor([500.0, -0.002])
        >>> Adam([x], lr=0.1).step()  # the first step has the length lr in every coordinate
        >>> x
        Parameter containing:
        tensor([-0.1000,  0.1000], requires_grad=True)
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: PositiveFloat = 1e-3,
        betas: tuple[float, float] = DEFAULTS,
        eps: NonNegativeFloat = 1e-8, *, bias_correction: bool = True,
        start: Literal["zero", "gradient"] = "zero",
    ) -> None:
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise usage_error("Adam", "betas", "two numbers in [0, 1)", betas)
        if bias_correction and start == "gradient":
            hint = "Averages that start at the gradient have no bias."
            domain = "False with start='gradient'"
            raise usage_error("Adam", "bias_correction", domain, bias_correction, hint)
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "bias_correction": bias_correction,
            "start": start,
        })

    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Average, correct, divide, step."""
        first = dict(zip(params, gradients, strict=True))
        zero = group["start"] == "zero"
        mean = self.memory(params, "exp_avg", torch.zeros_like if zero else lambda p: +first[p])
        square = self.memory(
            params, "exp_avg_sq", torch.zeros_like if zero else lambda p: first[p].square()
        )
        steps = self.memory(params, "step", lambda p: torch.zeros(()))  # some gradients come late
        torch._foreach_add_(steps, 1)
        beta1, beta2 = group["betas"]
        torch._foreach_lerp_(mean, gradients, 1 - beta1)
        torch._foreach_mul_(square, beta2)
        torch._foreach_addcmul_(square, gradients, gradients, 1 - beta2)

        def weights(beta: float) -> list[float]:
            return [1 - beta**t if group["bias_correction"] else 1.0 for t in map(float, steps)]

        # numbers are divided in place of tensors: m / w1 over sqrt(v / w2) + eps
        roots = [math.sqrt(w2) for w2 in weights(beta2)]
        scale = torch._foreach_sqrt(square)
        torch._foreach_add_(scale, [group["eps"] * root for root in roots])
        lengths = [-group["lr"] * root / w1 for root, w1 in zip(roots, weights(beta1), strict=True)]
        torch._foreach_addcdiv_(params, mean, scale, lengths)


def moments(optimizer: Optimizer, p: Tensor, *, corrected: bool = True) -> tuple[Tensor, Tensor]:
    """Read both averages from the state of Adam, torch's or ours."""
    state = optimizer.state[p]
    one, two = (
        1 - beta ** float(state["step"]) if corrected else 1.0
        for beta in optimizer.param_groups[0]["betas"]
    )
    return state["exp_avg"] / one, state["exp_avg_sq"] / two


@checked
def alternating_losses(C: Annotated[float, Range(2, math.inf, open="low")] = 3.0) -> Problem:
    r"""Builds losses $h_t(x)=Cx$ if $t\bmod3=1$, else $-x$, on which Adam goes the wrong way.

    Their mean is $\frac{C-2}3x$, and on $[-1,1]$ the best is -1. Every backward pass moves on to
    the next loss; who descends clamps `theta`, at first 0, after each step. `value` is the mean.

    Args:
        C: Slope of every third loss.

    Example:
        >>> problem, slopes = alternating_losses(3.0), []
        >>> for _ in range(4):
        ...     problem.zero_grad()
        ...     problem().sum().backward()
        ...     slopes.append(problem.theta.grad.item())
        >>> slopes
        [3.0, -1.0, -1.0, 3.0]
    """
    return _Alternating(C)


@final
class _Alternating(Problem):
    """Losses that change with time; the time goes on with every backward pass."""

    def __init__(self, C: float) -> None:
        super().__init__(torch.zeros(1, 1))
        self.C, self.t, self.minimum = C, 1, -(C - 2) / 3
        self.minimizer = torch.full((1,), -1.0, dtype=torch.float64)

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        return (self.C - 2) / 3 * theta.sum(dim=-1)

    def forward(self) -> Float[Tensor, " B"]:
        losses = (self.C if self.t % 3 == 1 else -1.0) * self.theta.sum(dim=-1)
        if losses.requires_grad:
            losses.register_hook(self._go_on)
        return losses

    def _go_on(self, gradient: Tensor) -> None:
        self.t += 1

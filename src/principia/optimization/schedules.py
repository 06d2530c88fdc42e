r"""Schedules: how long each step is, from the first one to the last.

With noisy gradients a constant step ends in a ball around the minimum, and a shorter one in a
smaller ball: long steps go far, short steps arrive. A schedule has both, one after the other. It
may fall like a power of time, down to a floor (and then no further does the error), in stairs, or
along a cosine. At the start the loss may be too sharp for the step that will do later: a warm-up
grows into it while the path finds flatter ground. And where the loss has cliffs, one gradient can
undo a training: clipping keeps its direction and limits its length.

$$ \eta_t = Ct^{-\alpha}, \quad \eta_t = \max\Big(\eta_{\min}, \frac1t\Big), \quad
\eta_t = \eta\min\Big(1, \frac t{t_w}\Big) $$

$$ \mathrm{Var}[\theta^\infty] = \frac{\eta\sigma^2}{\lambda(2-\eta\lambda)}, \quad
\sum_t\eta_t = \infty\ \text{and}\ \sum_t\eta_t^2 < \infty \iff \frac12 < \alpha \le 1 $$

$$ g \leftarrow g\min\Big(1, \frac c{\Vert g\Vert}\Big) $$

Symbols:
    $\eta_t$: rate of step $t=1, 2, \dots$, the `lr` of every group of an optimizer
    $C, \alpha$: first rate and exponent of `power_decay`; `robbins_monro` judges the exponent
    $\eta_{\min}$: lowest rate, `floor` of `floor_decay`
    $t_w$: length of a `warmup`, `steps`
    $g, c$: gradient of all parameters together, and its longest length, in `clip_gradients`
    $\lambda, \sigma^2$: curvature, and variance of the noise of the gradient

References:
    Robbins and Monro (1951), A stochastic approximation method. Annals of Mathematical Statistics
        22(3). doi:10.1214/aoms/1177729586
    Pascanu, Mikolov and Bengio (2013), On the difficulty of training recurrent neural networks.
        International Conference on Machine Learning. arXiv:1211.5063
    Loshchilov and Hutter (2017), SGDR: stochastic gradient descent with warm restarts.
        International Conference on Learning Representations. arXiv:1608.03983
    Goyal et al. (2017), Accurate, large minibatch SGD: training ImageNet in 1 hour.
        arXiv:1706.02677
    Smith and Topin (2019), Super-convergence: very fast training of neural networks using large
        learning rates. SPIE Artificial Intelligence and Machine Learning. arXiv:1708.07120
    Lewkowycz, Bahri, Dyer, Sohl-Dickstein and Gur-Ari (2020), The large learning rate phase of deep
        learning: the catapult mechanism. arXiv:2003.02218
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine
        learning algorithms. arXiv:1708.07747
"""

__all__ = ["power_decay", "floor_decay", "warmup", "clip_gradients", "robbins_monro"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau, SequentialLR
from torch.utils.hooks import RemovableHandle

from principia.lab.params import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    Range,
    checked,
    usage_error,
)

Exponent = Annotated[float, Range(0, 1, open="low")]


@checked
def power_decay(
    optimizer: Optimizer, alpha: Exponent = 0.5, C: PositiveFloat | None = None
) -> LambdaLR:
    r"""Lets the rate fall as $\eta_t=Ct^{-\alpha}$, $t=1$ being the first step.

    Args:
        optimizer: Whose rates are moved.
        alpha: $\alpha$; beyond 1 the steps would have a finite sum, and might not get there.
        C: The first rate; by default that of each group.

    Example:
        >>> import torch
        >>> sgd = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.4)
        >>> falling = power_decay(sgd, 0.5)
        >>> for _ in range(3):
        ...     sgd.step()
        ...     falling.step()
        >>> sgd.param_groups[0]["lr"]  # at the fourth step
        0.2
    """
    tops = base_rates(optimizer) if C is None else [C] * len(optimizer.param_groups)
    return _scheduled(optimizer, tops, lambda t: t**-alpha)


def _scheduled(
    optimizer: Optimizer, tops: Sequence[float], shape: Callable[[int], float]
) -> LambdaLR:
    """Give each group its own top times the shape at step t = 1, 2, ..., both absolute."""
    scales = [top / base for top, base in zip(tops, base_rates(optimizer), strict=True)]
    return LambdaLR(
        optimizer, [lambda t, scale=scale: scale * shape(t + 1) for scale in scales]
    )


def base_rates(optimizer: Optimizer) -> list[float]:
    """Give the rate of every group from before all schedules."""
    return [float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups]


@checked
def floor_decay(optimizer: Optimizer, floor: NonNegativeFloat = 1e-3) -> LambdaLR:
    r"""Lets the rate fall as $\eta_t=\max(\eta_{\min},1/t)$, whatever the optimizer's own was.

    Example:
        >>> import torch
        >>> sgd = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
        >>> schedule, rates = floor_decay(sgd, 0.3), []
        >>> for _ in range(4):
        ...     sgd.step()
        ...     rates += schedule.get_last_lr()
        ...     schedule.step()
        >>> [round(rate, 3) for rate in rates]
        [1.0, 0.5, 0.333, 0.3]
    """
    tops = [1.0] * len(optimizer.param_groups)
    return _scheduled(optimizer, tops, lambda t: max(floor, 1 / t))


@checked
def warmup(
    optimizer: Optimizer, steps: NonNegativeInt, then: LRScheduler | None = None
) -> LRScheduler:
    """Raises the rate evenly to where another schedule begins, and lets that one go on.

    Args:
        optimizer: Whose rates are moved.
        steps: How many steps the rise takes; the last of them has the full rate. After 0 steps
            there is nothing but the other schedule.
        then: Schedule of the same optimizer, as it was made; by default the rate stays.

    Example:
        >>> import torch
        >>> sgd = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
        >>> cosine = torch.optim.lr_scheduler.CosineAnnealingLR(sgd, 2)
        >>> schedule, rates = warmup(sgd, 4, cosine), []
        >>> for _ in range(7):
        ...     sgd.step()
        ...     rates += schedule.get_last_lr()
        ...     schedule.step()
        >>> [round(rate, 3) for rate in rates]
        [0.25, 0.5, 0.75, 1.0, 1.0, 0.5, 0.0]
    """
    then = LambdaLR(optimizer, lambda t: 1.0) if then is None else then
    composed = isinstance(then, (SequentialLR, ReduceLROnPlateau))  # torch cannot put them behind
    if composed or then.optimizer is not optimizer or then.last_epoch:
        domain = "a single schedule of the same optimizer that has not moved yet"
        raise usage_error(
            "warmup", "then", domain, f"{type(then).__name__} at step {then.last_epoch}"
        )
    if not steps:
        return then
    tops = [float(rate) for rate in then.get_last_lr()]
    rise = _scheduled(optimizer, tops, lambda t: t / steps)
    return SequentialLR(optimizer, [rise, then], [steps])


@checked
def clip_gradients(
    optimizer: Optimizer, c: PositiveFloat, *, by: Literal["norm", "value"] = "norm"
) -> RemovableHandle:
    r"""Makes an optimizer clip its gradients before every step, by torch's own functions.

    Whoever clips by hand may do it after the step, which is too late. This is called once and does
    it at the right time, also where a closure computes the gradients within the step.

    Args:
        optimizer: What is made to clip; `.remove()` of what is returned ends it.
        c: The longest norm of all gradients together, $g\min(1,c/\Vert g\Vert)$ (torch adds 1e-6 to
            the norm), or the largest value of each entry.
        by: Whether norm or values are limited; the second turns the gradient.

    Example:
        >>> import torch
        >>> p = torch.nn.Parameter(torch.zeros(2))
        >>> sgd = torch.optim.SGD([p], lr=1.0)
        >>> handle = clip_gradients(sgd, 1.0)
        >>> p.grad = torch.tensor([-30.0, -40.0])
        >>> sgd.step()
        >>> p.detach()
        tensor([0.6000, 0.8000])
    """
    for one in optimizer._optimizer_step_pre_hooks.values():
        if isinstance(one, _Clipping):
            hint = "Call it once, before training: it clips before every step(), not after it."
            got = f"{type(optimizer).__name__} clipped at {one.c:g}"
            raise usage_error(
                "clip_gradients", "optimizer", "one that does not clip yet", got, hint
            )
    return optimizer.register_step_pre_hook(_Clipping(c, by))


@final
@dataclass(frozen=True)
class _Clipping:
    """Clips when a step begins, or behind the closure that computes the gradients within it."""

    c: float
    by: str

    def __call__(
        self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        clip = clip_grad_norm_ if self.by == "norm" else clip_grad_value_
        params = [p for group in optimizer.param_groups for p in group["params"]]
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            clip(params, self.c)
            return None

        def clipped() -> Any:
            loss = closure()
            clip(params, self.c)
            return loss

        return (optimizer, clipped), {}  # a step has no other argument


@checked
def robbins_monro(alpha: PositiveFloat) -> tuple[bool, bool]:
    r"""Tells of $\eta_t=Ct^{-\alpha}$ whether the sum diverges, and that of squares converges.

    If both, the steps reach any minimum and come to rest there, however noisy the gradients.

    Example:
        >>> robbins_monro(0.5), robbins_monro(0.75), robbins_monro(1.5)
        ((True, False), (True, True), (False, True))
    """
    return alpha <= 1, alpha > 0.5

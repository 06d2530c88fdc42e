r"""Saddle points: where descent slows down, and how noise gets away.

A critical point of many variables is a minimum only if every one of its curvatures is above 0.
Curvatures that fell at random would almost never do so, the less the more there are: flat places of
high loss are saddles. Gradient descent avoids them from nearly every start but may dwell: what
counts is how far it is off the ridge, and that grows only by a factor a step. Noise of any size
puts it off the ridge, and the wait is the logarithm of how small the noise is. Minibatches are such
a noise where the samples disagree; where every sample's gradient is 0, they are none. The same
noise leaves a minimum, too, but has to climb for it, and the wait is the exponential of how high
the rim is: shallow minima are left, deep ones are kept.

$$ \theta^{t+1} = \theta^t-\eta\nabla h(\theta^t)+\sigma\xi^t, \quad \xi^t\sim N(0,I), \quad
\sigma = \sqrt{2\eta T} $$

$$ E[\tau_{saddle}] \approx \frac{\ln(1/\sigma)}{\ln(1+\eta\vert\lambda\vert)}+\mathrm{const},
\quad E[\tau_{minimum}] \approx
\frac{2\pi}{\sqrt{h''(a)\,\vert h''(b)\vert}}\,e^{(h(b)-h(a))/T} $$

$$ P(\text{a random symmetric}\ H\succ0) = \frac12,\ \frac{2-\sqrt2}4,
\ \frac{\pi-2\sqrt2}{4\pi}\ (n=1,2,3), \quad \approx e^{-n^2\ln(3)/4}\ \text{for many} $$

Symbols:
    $h, \theta$: function and points, a `Problem` and its `theta`
    $\eta, \sigma, \xi$: step size, size of the noise and the noise of `NoisyGD`
    $T$: temperature, which `langevin_scale` turns into $\sigma$
    $\tau$: number of steps until a point has left, `exit_times`; times $\eta$ in Kramers' law
    $\lambda$: the curvature below 0 at a saddle; `hessian_index` counts such curvatures
    $a, b$: the minimum that is left and the top of the rim, where $h''$ is above and below 0
    $H$: Hessian (n, n) of Gaussian numbers, `goe`

References:
    Kramers (1940), Brownian motion in a field of force and the diffusion model of chemical
        reactions. Physica 7(4). doi:10.1016/S0031-8914(40)90098-2
    Dean and Majumdar (2006), Large deviations of extreme eigenvalues of random matrices. Physical
        Review Letters 97. arXiv:cond-mat/0609651
    Dauphin, Pascanu, Gulcehre, Cho, Ganguli and Bengio (2014), Identifying and attacking the saddle
        point problem in high-dimensional non-convex optimization. NeurIPS. arXiv:1406.2572
    Ge, Huang, Jin and Yuan (2015), Escaping from saddle points: online stochastic gradient for
        tensor decomposition. COLT. arXiv:1503.02101
    Lee, Simchowitz, Jordan and Recht (2016), Gradient descent only converges to minimizers. COLT.
        arXiv:1602.04915
    Saxe, McClelland and Ganguli (2014), Exact solutions to the nonlinear dynamics of learning in
        deep linear neural networks. ICLR. arXiv:1312.6120
"""

__all__ = ["NoisyGD", "langevin_scale", "exit_times", "hessian_index", "goe"]

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import Optimizer

from principia.lab.params import (
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Range,
    checked,
    usage_error,
)
from principia.lab.training import GroupOptimizer
from principia.optimization.gradient_descent import descend
from principia.optimization.problems import Problem
from principia.optimization.smoothness import hessian_extremes

AT_ONCE = 50  # steps from one look to the next whether all rows have left
DENSE = 2000  # parameters up to which all eigenvalues of a Hessian are computed


@final
class NoisyGD(GroupOptimizer):
    r"""Steps against the gradient and adds Gaussian noise: $\theta-\eta\nabla h+\sigma\xi$.

    The state of its generator is part of `state_dict`, so that a run resumes with the same noise.

    Args:
        params: Parameters, or groups of them.
        lr: $\eta$.
        sigma: $\sigma$, the size of the noise of a step; or a tensor of sizes that fits every
            parameter, such as (B, 1) for runs of a test problem that differ in it.
        rng: Draws the noise; by default torch's global generator.

    Example:
        >>> x = torch.nn.Parameter(torch.ones(1))
        >>> x.grad = torch.tensor([5.0])
        >>> NoisyGD([x], lr=0.1, sigma=0.0).step()  # without noise it is gradient descent
        >>> x.item()
        0.5
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: PositiveFloat = 0.1, sigma: float | Tensor = 0.01, *,
        rng: torch.Generator | None = None,
    ) -> None:
        size = torch.as_tensor(sigma)
        if not ((size >= 0) & size.isfinite()).all():
            raise usage_error(
                "NoisyGD", "sigma", "in [0, inf), one number or a tensor of them", sigma
            )
        super().__init__(params, {"lr": lr, "sigma": sigma})
        self.rng = rng

    def move(self, group: dict[str, Any], params: list[Tensor], gradients: list[Tensor]) -> None:
        """Step against the gradient, then anywhere."""
        torch._foreach_add_(params, gradients, alpha=-group["lr"])
        for p in params:
            noise = torch.randn(p.shape, generator=self.rng, dtype=p.dtype, device=p.device)
            if isinstance(group["sigma"], Tensor):
                p.add_(group["sigma"] * noise)
            else:
                p.add_(noise, alpha=group["sigma"])

    def state_dict(self) -> dict[str, Any]:
        """Give the settings, and the state of the generator if it is its own."""
        generator = None if self.rng is None else self.rng.get_state()
        return {**super().state_dict(), "generator": generator}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back the settings and the state of the generator."""
        super().load_state_dict(state_dict)
        if self.rng is not None and state_dict["generator"] is not None:
            self.rng.set_state(state_dict["generator"])


@checked
def langevin_scale(lr: PositiveFloat, temperature: NonNegativeFloat) -> float:
    r"""Gives the noise $\sigma=\sqrt{2\eta T}$ with which `NoisyGD` visits $h$ like $e^{-h/T}$.

    Example:
        >>> langevin_scale(0.02, 1.0)
        0.2
    """
    return math.sqrt(2 * lr * temperature)


@checked
def exit_times(
    problem: Problem, optimizer: Optimizer, predicate: Callable[[Tensor], Tensor],
    limit: PositiveInt
) -> tuple[Float[Tensor, " B"], int]:
    r"""Counts the steps until each row has left; a row that has left stays where it is.

    Returns the counts, infinity for rows that are still there at the limit, and how many those are.

    Args:
        problem: What is minimized; `problem.theta` holds the last points afterwards.
        optimizer: Any optimizer of `problem.parameters()`.
        predicate: Tells from points (B, D) which of them have left.
        limit: Steps after which the waiting ends.

    Example:
        >>> from principia.optimization import Quadratic
        >>> hill = Quadratic([-1.0]).at(torch.tensor([[0.5], [0.0]]))
        >>> sgd = torch.optim.SGD(hill.parameters(), lr=1.0)
        >>> exit_times(hill, sgd, lambda theta: theta[:, 0] >= 4, limit=10)
        (tensor([3., inf], dtype=torch.float64), 1)
    """
    theta, taken = problem.theta, 0
    kept = theta.detach().clone()
    out = predicate(kept)
    if out.shape != (len(kept),) or out.dtype != torch.bool:
        got = f"{out.dtype} of shape {tuple(out.shape)}"
        raise usage_error("exit_times", "predicate", f"a function to {len(kept)} Booleans", got)
    times = torch.where(out, 0.0, math.inf).double()

    def look() -> None:
        nonlocal taken
        taken += 1
        left = times.isfinite()
        theta.copy_(torch.where(left[:, None], kept, theta))
        kept.copy_(theta)
        times[predicate(kept) & ~left] = taken

    while taken < limit and times.isinf().any():
        descend(problem, optimizer, min(AT_ONCE, limit - taken), record=(), after=look)
    return times, int(times.isinf().sum())


@checked
def hessian_index(
    loss_fn: Callable[..., Tensor], params: Tensor | Mapping[str, Tensor], *,
    tol: Annotated[float, Range(0, 1, open="high")] | None = None,
) -> int:
    r"""Counts the eigenvalues of a Hessian that are below 0: 0 at a minimum, more at a saddle.

    Beyond 2,000 parameters the lowest eigenvalues come from Lanczos' method, more and more of them
    until one is not below 0.

    Args:
        loss_fn: Computes the loss, one number, from the parameters.
        params: A tensor, or the named parameters of a module.
        tol: How far below 0 counts, as a share of the largest $\vert\lambda\vert$; by default
            farther than rounding explains, or 1e-4 with Lanczos' method: see `hessian_extremes`.

    Example:
        >>> hessian_index(lambda x: x[0] ** 2 - x[1] ** 2 - 3 * x[2] ** 2, torch.zeros(3))
        2
    """
    tensors = [params] if isinstance(params, Tensor) else list(params.values())
    size = sum(one.numel() for one in tensors)
    rounding = size * torch.finfo(tensors[0].dtype).eps
    wanted, slack = (size, rounding) if size <= DENSE else (8, 1e-4)
    slack = slack if tol is None else tol
    while True:
        lowest, highest = hessian_extremes(loss_fn, params, wanted)
        below = lowest < -slack * max(-float(lowest[0]), float(highest[0]))
        if not below[-1] or len(lowest) >= size:
            return int(below.sum())
        wanted = min(4 * wanted, size)


@checked
def goe(n: PositiveInt, size: PositiveInt, rng: torch.Generator) -> Float[Tensor, "size n n"]:
    r"""Draws matrices of the Gaussian orthogonal ensemble: $(A+A^\top)/2$, A standard Gaussian.

    Example:
        >>> H = goe(3, 5, torch.Generator().manual_seed(0))
        >>> H.shape, torch.equal(H, H.mT)
        (torch.Size([5, 3, 3]), True)
    """
    A = torch.randn(size, n, n, generator=rng, dtype=torch.float64)
    return (A + A.mT) / 2

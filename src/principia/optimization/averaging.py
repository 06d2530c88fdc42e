r"""Averaging the iterates: noise that a short step would remove, a mean removes too.

Noisy steps carry the iterates around the minimum. Their mean is nearer to it than any of them:
steps may stay long, much longer than $1/t$, and the mean of the path still has an error that no
method beats, without knowing the curvature. That is a gift of strong convexity: where the function
is merely convex, the mean falls as slowly as anything else. Forgetting the start helps, by a weight
that fades with age or by leaving the first part out. With networks, the mean of the weights at the
ends of some epochs, at a constant rate, does what a falling rate does; all of them have to lie in
one basin, for between two basins there is a hill.

$$ \bar\theta_t = \frac1t\sum_{i\le t}\theta_i, \quad
\bar\theta_t = (1-\beta)\bar\theta_{t-1}+\beta\theta_t, \quad
\bar\theta_T = \frac1{fT}\sum_{i>(1-f)T}\theta_i $$

$$ t\,E\Vert\bar\theta_t-\theta^*\Vert^2 \to \mathrm{tr}(H^{-1}\Sigma H^{-1}), \quad
\mathrm{Var}[\bar\theta] = s^2\,\frac\beta{2-\beta}\,\frac{1+\rho(1-\beta)}{1-\rho(1-\beta)} $$

Symbols:
    $\theta_i$: the iterate after $i$ steps; `WeightAverage` and `Averaged` take one an update
    $\bar\theta_t$: their average: the mean of all by default, or by one of the two rules
    $\beta$: weight of the newest iterate, `beta` of `exponential`; torch's decay is $1-\beta$
    $f, T$: share of the updates that is averaged and their number, `fraction`, `steps` of `tail`
    $H, \Sigma$: Hessian at the minimizer $\theta^*$ and covariance of the noise of the gradient
    $s^2, \rho$: variance of an iterate, and correlation of an iterate with the next

References:
    Polyak and Juditsky (1992), Acceleration of stochastic approximation by averaging. SIAM Journal
        on Control and Optimization 30(4). doi:10.1137/0330046
    Ruppert (1988), Efficient estimations from a slowly convergent Robbins-Monro process. Cornell
        University, technical report 781.
    Agarwal, Bartlett, Ravikumar and Wainwright (2012), Information-theoretic lower bounds on the
        oracle complexity of stochastic convex optimization. IEEE Transactions on Information Theory
        58(5). doi:10.1109/TIT.2011.2182178
    Rakhlin, Shamir and Sridharan (2012), Making gradient descent optimal for strongly convex
        stochastic optimization. International Conference on Machine Learning. arXiv:1109.5647
    Izmailov, Podoprikhin, Garipov, Vetrov and Wilson (2018), Averaging weights leads to wider
        optima and better generalization. Uncertainty in Artificial Intelligence. arXiv:1803.05407
    Frankle, Dziugaite, Roy and Carbin (2020), Linear mode connectivity and the lottery ticket
        hypothesis. International Conference on Machine Learning. arXiv:1912.05671
"""

__all__ = ["WeightAverage", "Averaged", "exponential", "tail"]

import warnings
from collections.abc import Callable
from typing import Annotated, Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.swa_utils import AveragedModel

from principia.lab.params import PositiveInt, Range, checked
from principia.optimization.problems import Problem

Rule = Callable[[Tensor, Tensor, Tensor | int], Tensor]
Share = Annotated[float, Range(0, 1, open="low")]


@final
class WeightAverage(AveragedModel):
    r"""Holds a model with the average of the weights that another one had at each update.

    torch's `AveragedModel`, which also notices when the running statistics of batch normalization
    are still those of the last iterate: the averaged network has others, and
    `torch.optim.swa_utils.update_bn` finds them by a pass over the data.

    Args:
        model: The model that is trained; the average starts at its first update.
        rule: `exponential` or `tail`; by default all updates count alike.

    Example:
        >>> line = nn.Linear(1, 1)
        >>> average = WeightAverage(line)
        >>> for weight in (1.0, 2.0, 6.0):
        ...     line.weight.data.fill_(weight), line.bias.data.fill_(0.0)
        ...     average.update_parameters(line)
        (tensor([[1.]]), tensor([0.]))
        (tensor([[2.]]), tensor([0.]))
        (tensor([[6.]]), tensor([0.]))
        >>> output = average(torch.ones(1, 1))
        >>> output.item()
        3.0
    """

    stale: Tensor

    @checked
    def __init__(self, model: nn.Module, rule: Rule | None = None) -> None:
        if isinstance(rule, _Toward):
            super().__init__(model, multi_avg_fn=rule.all_at_once)
        else:
            super().__init__(model, avg_fn=rule)
        self.register_buffer("stale", torch.tensor(False))
        self._has_statistics = any(isinstance(one, _BatchNorm) for one in model.modules())

    def update_parameters(self, model: nn.Module) -> None:
        """Take the present weights of the model into the average."""
        super().update_parameters(model)
        if self._has_statistics:
            self.stale.fill_(True)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs of the averaged model."""
        if self.training:  # what a pass over the data in update_bn does
            self.stale.fill_(False)
        elif self.stale:
            warnings.warn(
                "WeightAverage: the statistics of batch normalization are those of the last "
                "iterate, not of the average. Call torch.optim.swa_utils.update_bn(batches, "
                "average) first.", stacklevel=2,
            )
        return super().forward(*args, **kwargs)


@final
class _Toward:
    """Moves an average a share of the way to the newest point; the share may change with `n`."""

    def __init__(self, share: Callable[[int], float]) -> None:
        self.share = share

    def __call__(self, averaged: Tensor, current: Tensor, n: Tensor | int) -> Tensor:
        return torch.lerp(averaged, current, self.share(int(n)))

    def all_at_once(self, averaged: Any, current: Any, n: Tensor | int) -> None:
        """Do the same to lists of tensors, in place."""
        torch._foreach_lerp_(averaged, current, self.share(int(n)))


@final
class Averaged:
    """Averages the points of a test problem, every row for itself.

    Args:
        problem: The problem whose `theta` moves.
        rule: `exponential` or `tail`; by default all updates count alike.

    Example:
        >>> from principia.optimization import Quadratic, descend
        >>> bowl = Quadratic([1.0])
        >>> mean = Averaged(bowl)
        >>> trace = descend(bowl, torch.optim.SGD(bowl.parameters(), lr=0.5), 2, after=mean.update)
        >>> mean.theta  # of 0.5 and 0.25
        tensor([[0.3750]], dtype=torch.float64)
    """

    def __init__(self, problem: Problem, rule: Rule | None = None) -> None:
        self._points = nn.ParameterList([problem.theta])
        self._average = WeightAverage(self._points, rule)

    def update(self) -> None:
        """Take the present points into the average; `descend` calls it after every step."""
        self._average.update_parameters(self._points)

    @property
    def theta(self) -> Float[Tensor, "B D"]:
        """The average of each row; the starting points before the first update."""
        return next(self._average.parameters()).detach()


@checked
def exponential(beta: Share) -> Rule:
    r"""Builds the rule $\bar\theta_t=(1-\beta)\bar\theta_{t-1}+\beta\theta_t$.

    Args:
        beta: Weight of the newest point, $\beta$; its memory is about $1/\beta$ updates long.

    Example:
        >>> exponential(0.25)(torch.tensor(0.0), torch.tensor(8.0), 1)
        tensor(2.)
    """
    return _Toward(lambda n: beta)


@checked
def tail(fraction: Share = 0.5, *, steps: PositiveInt) -> Rule:
    r"""Builds the rule that averages only the last part of so many updates, all alike.

    Before that part begins the average is the newest point.

    Args:
        fraction: Share of the updates that counts, $f$.
        steps: Number of all updates, $T$.

    Example:
        >>> mean, rule = torch.tensor(1.0), tail(0.5, steps=4)
        >>> for n, point in enumerate((2.0, 4.0, 8.0), start=1):
        ...     mean = rule(mean, torch.tensor(point), n)
        >>> mean
        tensor(6.)
    """
    first = steps - round(fraction * steps)
    return _Toward(lambda n: 1 / max(n - first + 1, 1))

r"""Stochastic gradient descent: step against the gradient of a few samples, drawn at random.

A risk is a mean over samples, and its gradient a mean of gradients: a few samples, drawn at random,
have the right one on average, at a fraction of the price. What is wrong with theirs is a variance
that falls as one over their number. A fixed step therefore ends in a ball around the minimum, whose
size is that of the step, unless every sample is fitted and nothing varies; steps that fall end in
the minimum, if they fall neither too fast to get there nor too slowly to come to rest. What is
minimized is twice a stand-in: the sample for the population, and a smooth loss for the errors.

$$ \theta^{t+1} = \theta^t-\eta_t\frac1K\sum_{i\in S_t}\nabla\ell_i(\theta^t), \quad
E[\nabla h(S_K)] = \nabla h(S_N) $$

$$ V[\theta] = \frac1N\sum_i\Vert\nabla h(S_N)-\nabla\ell_i\Vert^2, \quad
E\Vert\nabla h(S_K)-\nabla h(S_N)\Vert^2 = \frac VK\,\frac{N-K}{N-1} $$

$$ \sum_t\eta_t = \infty,\ \sum_t\eta_t^2 < \infty, \quad
\mathrm{Var}[\theta^\infty] = \frac{\eta\sigma^2}{\lambda(2-\eta\lambda)} $$

Symbols:
    $\theta^t, \eta_t$: parameters after $t$ steps of `torch.optim.SGD`, and its `lr` at step $t$
    $S_t, K$: the samples of a step, entries of `batches`, and their number, `size`
    $\ell_i$: loss of sample $i$; its gradient is a row of `per_sample_gradients`
    $h(S)$: mean loss of a set of samples, `empirical_risk`; $N$ is the number of all samples
    $V[\theta]$: variance of the gradient of one sample, drawn at random: `gradient_variance`
    $\lambda, \sigma^2$: curvature of the risk along an eigenvector, variance of the gradient there

References:
    Robbins and Monro (1951), A stochastic approximation method. Annals of Mathematical Statistics
        22(3). doi:10.1214/aoms/1177729586
    Breiman and Freedman (1983), How many variables should be entered in a regression equation?
        Journal of the American Statistical Association 78(381).
        doi:10.1080/01621459.1983.10477941
    McCloskey and Cohen (1989), Catastrophic interference in connectionist networks. Psychology of
        Learning and Motivation 24. doi:10.1016/S0079-7421(08)60536-8
    LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document
        recognition. Proceedings of the IEEE 86(11). doi:10.1109/5.726791
    Strohmer and Vershynin (2009), A randomized Kaczmarz algorithm with exponential convergence.
        Journal of Fourier Analysis and Applications 15. doi:10.1007/s00041-008-9030-4
    Agarwal, Bartlett, Ravikumar and Wainwright (2012), Information-theoretic lower bounds on the
        oracle complexity of stochastic convex optimization. IEEE Transactions on Information Theory
        58(5). doi:10.1109/TIT.2011.2182178
    Bottou, Curtis and Nocedal (2018), Optimization methods for large-scale machine learning. SIAM
        Review 60(2). doi:10.1137/16M1080173
"""

__all__ = [
    "batches", "per_sample_gradients", "gradient_variance", "empirical_risk", "zero_one_risk",
    "ParallelMLP",
]

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal, final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.modules.batchnorm import _BatchNorm

from principia.lab.params import Choice, Each, PositiveInt, Range, UsageError, checked, usage_error
from principia.lab.training import outputs_of
from principia.networks.activations import ACTIVATIONS
from principia.optimization.problems import Problem

Order = Literal["permutation", "replacement", "fixed", "sorted"]
Loss = Callable[[Tensor, Tensor], Tensor]
ActivationName = Annotated[str, Choice(tuple(ACTIVATIONS))]
Sizes = Annotated[Sequence[int], Each(Range(1, math.inf, kind=int))]


@checked
def batches(
    n: PositiveInt, size: PositiveInt, *, order: Order = "permutation",
    rng: torch.Generator | None = None, labels: Shaped[Tensor, " n"] | None = None,
) -> Iterator[Int[Tensor, " _"]]:
    """Deals the samples of one epoch into batches of indices; the last one may be smaller.

    Args:
        n: Number of samples.
        size: Samples of a batch. Powers of two are a habit of hardware, not of theory.
        order: A fresh random partition ("permutation"); n draws, each of any sample
            ("replacement"); 0 to n - 1 ("fixed"); class by class ("sorted").
        rng: Draws the order; by default torch's global generator.
        labels: The classes, for the sorted order.

    Example:
        >>> [rows.tolist() for rows in batches(5, 2, order="fixed")]
        [[0, 1], [2, 3], [4]]
    """
    if size > n:
        domain, hint = f"an integer in [1, {n}]", "An epoch has no more samples."
        raise usage_error("batches", "size", domain, size, hint)
    if order == "sorted":
        if labels is None or len(labels) != n:
            got = None if labels is None else tuple(labels.shape)
            raise usage_error("batches", "labels", f"of shape ({n},) for the sorted order", got)
        rows = labels.argsort(stable=True)
    elif order == "fixed":
        rows = torch.arange(n)
    elif order == "replacement":
        rows = torch.randint(n, (n,), generator=rng)
    else:
        rows = torch.randperm(n, generator=rng)
    return iter(rows.split(size))


def per_sample_gradients(
    model: nn.Module, loss: Loss, x: Shaped[Tensor, "N ..."], y: Shaped[Tensor, "N ..."]
) -> Float[Tensor, "N P"]:
    r"""Computes every $\nabla\ell_i$, one a row: all parameters of the model, in their order.

    Args:
        model: Any module that treats its samples one by one.
        loss: Compares outputs with targets, as `torch.nn.functional.cross_entropy` does.
        x: Inputs.
        y: Targets.

    Example:
        >>> line = nn.Linear(1, 1)
        >>> x = torch.tensor([[1.0], [2.0]])
        >>> per_sample_gradients(line, lambda outputs, y: (outputs - y).sum(), x, x)
        tensor([[1., 1.],
                [2., 1.]])
    """
    for one in model.modules():
        if isinstance(one, _BatchNorm) and (one.training or one.running_mean is None):
            how = "in train mode. Call .eval()."
            if not one.training:
                how = "without running statistics. Build it with track_running_stats=True."
            need = "sgd: per-sample gradients need independent samples"
            raise UsageError(f"{need}; got {type(one).__name__} {how}")
    parameters = {name: one.detach() for name, one in model.named_parameters()}

    def one_loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return loss(functional_call(model, parameters, (x[None],)), y[None]).sum()

    gradients = vmap(grad(one_loss), in_dims=(None, 0, 0))(parameters, x, y)
    return torch.cat([one.flatten(1) for one in gradients.values()], dim=1)


def gradient_variance(gradients: Float[Tensor, "*R N P"]) -> Float[Tensor, "*R"]:
    r"""Measures $V=\frac1N\sum_i\Vert\nabla h-\nabla\ell_i\Vert^2$ of per-sample gradients.

    Example:
        >>> gradient_variance(torch.tensor([[1.0, 3.0], [1.0, -1.0]]))
        tensor(4.)
    """
    rest = gradients - gradients.mean(dim=-2, keepdim=True)
    return (rest**2).sum(dim=-1).mean(dim=-1)


def empirical_risk(model: nn.Module, data: tuple[Tensor, Tensor], loss: Loss) -> float:
    """Measures the loss of a model, in evaluation mode, over all samples of (x, y) at once.

    Example:
        >>> x = torch.tensor([[1.0], [3.0]])
        >>> empirical_risk(nn.Identity(), (x, 0 * x), torch.nn.functional.mse_loss)
        5.0
    """
    x, y = data
    return float(loss(outputs_of(model, x), y))


def zero_one_risk(model: nn.Module, data: tuple[Tensor, Tensor]) -> float:
    """Counts the share of wrong answers: what a classifier is for, and what has no gradient.

    Example:
        >>> zero_one_risk(nn.Identity(), (torch.eye(4), torch.tensor([0, 1, 2, 2])))
        0.25
    """
    x, y = data
    return int((outputs_of(model, x).argmax(dim=-1) != y).sum()) / len(y)


@final
class ParallelMLP(nn.Module):
    """Runs several MLPs of one shape side by side, by products of stacked matrices.

    What a random method does is seen over many runs; so they cost little more than one.

    Shapes:
        x: (B, n), the same for all, or (R, B, n); returns (R, B, m)

    Args:
        sizes: Width of the input, of each hidden layer, of the output.
        copies: Number of networks, R.
        activation: Name of the function behind every layer but the last.
        rng: Draws weights and biases like those of `MLP`.

    Example:
        >>> nets = ParallelMLP([4, 8, 2], copies=3, rng=torch.Generator().manual_seed(0))
        >>> outputs = nets(torch.ones(5, 4))
        >>> outputs.shape
        torch.Size([3, 5, 2])
    """

    @checked
    def __init__(
        self, sizes: Sizes, *, copies: PositiveInt, activation: ActivationName = "relu",
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.phi = ACTIVATIONS[activation].module()
        self.activation = activation
        self.layers: Sequence[_ParallelLinear] = nn.ModuleList(  # type: ignore[assignment]
            _ParallelLinear(n, m, copies, rng) for n, m in itertools.pairwise(sizes)
        )

    def forward(self, x: Float[Tensor, "*R B n"]) -> Float[Tensor, "_ B m"]:
        """Compute the outputs of every network."""
        for layer in self.layers[:-1]:
            x = self.phi(layer(x))
        return self.layers[-1](x)


class _ParallelLinear(nn.Module):
    """Several linear layers of one shape."""

    def __init__(self, n: int, m: int, copies: int, rng: torch.Generator | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(copies, m, n))
        self.bias = nn.Parameter(torch.empty(copies, 1, m))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(n**-0.5), n**-0.5, generator=rng)

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x.expand(len(self.weight), -1, -1), self.weight.mT)


@final
class Slopes(Problem):
    """A slope in every coordinate: convex, and nothing more."""

    def __init__(self, slopes: Float[Tensor, " D"]) -> None:
        super().__init__(torch.zeros(1, len(slopes)))
        self.slopes = slopes

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Compute the height on the slope."""
        return (theta * self.slopes).sum(dim=-1)


@final
class SampledSquares(Problem):
    """Half the mean squared error of a linear fit; a call sees other samples in every row.

    Args:
        X: Inputs.
        y: Targets.
        batch: How many samples, drawn with replacement, a call sees; without it, all.
        label_noise: Standard deviation of what is added to the targets at every call.
        rng: Draws samples and noise; needed with a batch.
    """

    def __init__(
        self, X: Float[Tensor, "N D"], y: Float[Tensor, " N"], batch: int | None = None, *,
        label_noise: float = 0.0, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__(torch.zeros(1, X.shape[1]))
        self.X, self.y, self.batch, self.label_noise, self.rng = X, y, batch, label_noise, rng

    def value(self, theta: Float[Tensor, "*B D"]) -> Float[Tensor, "*B"]:
        """Average the squared residuals of all samples."""
        return (theta @ self.X.mT - self.y).square().mean(dim=-1) / 2

    def forward(self) -> Float[Tensor, " B"]:
        """Average the squared residuals of fresh samples in every row."""
        if self.batch is None:
            return self.value(self.theta)
        rows = torch.randint(len(self.X), (len(self.theta), self.batch), generator=self.rng)
        noise = torch.randn(rows.shape, generator=self.rng, dtype=self.y.dtype)
        fit = (self.X[rows] @ self.theta[..., None])[..., 0]
        return (fit - (self.y[rows] + self.label_noise * noise)).square().mean(dim=1) / 2

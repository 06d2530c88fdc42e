r"""Noise on inputs, weights, targets: what a perturbation does to the loss that is descended.

Add Gaussian noise to whatever enters the loss, new at every step, and descent follows the mean
over the noise. The mean of a curve over a small cloud is the curve plus half the variance times its
curvature: noise is a penalty. On inputs it charges for steep and bent functions, for a linear model
it is exactly ridge regression; on weights it charges for the curvature of the loss, so that a net
drifts along its valley of minima to where it is flat; on the targets of a regression it charges
nothing. Flipped labels are smoothed labels, $\varepsilon/(K-1)$ for each wrong class.

$$ E\Vert y-(X+\sigma\Xi)w\Vert^2 = \Vert y-Xw\Vert^2+s\sigma^2\Vert w\Vert^2 $$

$$ E\big(f(x+\sigma\xi)-y\big)^2 = (f-y)^2+\sigma^2\big(\Vert\nabla f\Vert^2+(f-y)\Delta f\big)
+O(\sigma^4) $$

$$ E\,L(w+\sigma\xi) = L(w)+\frac{\sigma^2}2\mathrm{tr}\,H(w)+O(\sigma^4), \quad
e_y \mapsto (1-\varepsilon)e_y+\frac\varepsilon{K-1}(1-e_y) $$

Symbols:
    $\xi, \Xi$: standard Gaussian noise, a vector and a matrix; $\sigma$ its size, `sigma`
    $X, y, s$: samples, their targets and their number
    $f, \Delta f$: a function of the input and its Laplacian, both in `tikhonov_penalty`
    $L, H$: loss as a function of the weights $w$ and its Hessian; `WeightNoise` moves $w$
    $\varepsilon, K$: probability that a label is flipped and number of classes, `eps`, `classes`

References:
    Bishop (1995), Training with noise is equivalent to Tikhonov regularization. Neural Computation
        7(1). doi:10.1162/neco.1995.7.1.108
    An (1996), The effects of adding noise during backpropagation training on a generalization
        performance. Neural Computation 8(3). doi:10.1162/neco.1996.8.3.643
    Webb (1994), Functional approximation by feed-forward networks: a least-squares approach to
        generalization. IEEE Transactions on Neural Networks 5(3).
    Murray and Edwards (1994), Enhanced MLP performance and fault tolerance resulting from synaptic
        weight noise during training. IEEE Transactions on Neural Networks 5(5).
        doi:10.1109/72.317730
    Hutchinson (1990), A stochastic estimator of the trace of the influence matrix for Laplacian
        smoothing splines. Communications in Statistics 19(2). doi:10.1080/03610919008812866
    Orvieto, Raj, Kersting and Bach (2023), Explicit regularization in overparametrized models via
        noise injection. Artificial Intelligence and Statistics. arXiv:2206.04613
    Goodfellow, Bengio and Courville (2016), Deep learning, sec. 7.5. MIT Press.
"""

__all__ = [
    "GaussianNoise", "InputNoise", "WeightNoise", "NoisyWeights", "noisy_targets", "flip_labels",
    "tikhonov_penalty",
]

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Annotated, Any, final

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn
from torch.autograd import grad
from torch.optim import Optimizer

from principia.lab.params import NonNegativeFloat, PositiveInt, Range, checked, usage_error
from principia.lab.training import Callback, Objective

Batch = tuple[Tensor, ...]
Rate = Annotated[float, Range(0, 1, open="high")]
Classes = Annotated[int, Range(2)]


@final
class GaussianNoise(nn.Module):
    r"""Adds Gaussian noise to its input while it is trained, and nothing when it is evaluated.

    It draws from torch's global generator, as dropout does: `fit` seeds that, and saves its state.

    Args:
        sigma: Standard deviation of the noise.

    Example:
        >>> layer = GaussianNoise(0.1)
        >>> with torch.random.fork_rng([]):
        ...     rng = torch.manual_seed(0)
        ...     layer(torch.zeros(3)), layer.eval()(torch.zeros(3))
        (tensor([ 0.1541, -0.0293, -0.2179]), tensor([0., 0., 0.]))
    """

    @checked
    def __init__(self, sigma: NonNegativeFloat) -> None:
        super().__init__()
        self.sigma = sigma

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Add noise in training mode."""
        return _perturbed("GaussianNoise", "x", x, self.sigma, None) if self.training else x


def _perturbed(
    owner: str, name: str, x: Tensor, sigma: float, rng: torch.Generator | None, hint: str = ""
) -> Tensor:
    """Add Gaussian noise, drawn where the generator is."""
    if not x.is_floating_point():
        raise usage_error(owner, name, "floating point", str(x.dtype), hint)
    where = x.device if rng is None else rng.device
    noise = torch.randn(x.shape, generator=rng, dtype=x.dtype, device=where)
    return x + sigma * noise.to(x.device)


@final
class InputNoise(Callback):
    """Adds Gaussian noise to the inputs of every batch, new each time they are shown.

    Args:
        sigma: Standard deviation of the noise.

    Example:
        >>> part, rng = InputNoise(0.1), torch.Generator().manual_seed(0)
        >>> part.prepare((torch.zeros(3), torch.arange(3)), rng)
        (tensor([ 0.1541, -0.0293, -0.2179]), tensor([0, 1, 2]))
    """

    @checked
    def __init__(self, sigma: NonNegativeFloat) -> None:
        self.sigma = sigma

    def prepare(self, batch: Batch, rng: torch.Generator) -> Batch:
        """Add noise to the first tensor of the batch."""
        return _perturbed("InputNoise", "batch[0]", batch[0], self.sigma, rng), *batch[1:]


@final
class WeightNoise(AbstractContextManager["WeightNoise"]):
    """Perturbs the trainable weights of a model, and restores them to the bit.

    Loss and backward belong inside: the gradient is then that of the perturbed weights. A backward
    pass outside would mix both, which torch notices.

    Args:
        model: Whose weights are perturbed, in place.
        sigma: Standard deviation of the noise on every weight.
        rng: Where the draws come from; torch's global generator by default.

    Example:
        >>> line = nn.Linear(1, 1, bias=False)
        >>> before = line.weight.item()
        >>> with WeightNoise(line, 0.1):
        ...     moved = line.weight.item() != before
        >>> moved, line.weight.item() == before
        (True, True)
    """

    @checked
    def __init__(
        self, model: nn.Module, sigma: NonNegativeFloat, rng: torch.Generator | None = None
    ) -> None:
        self.model, self.sigma, self.rng = model, sigma, rng
        self._before: list[list[tuple[nn.Parameter, Tensor]]] = []  # one list for each entry

    @torch.no_grad()
    def __enter__(self) -> "WeightNoise":
        """Move every trainable weight."""
        moved = [one for one in self.model.parameters() if one.requires_grad]
        self._before.append([(one, one.clone()) for one in moved])
        for one in moved:
            one.copy_(_perturbed("WeightNoise", "weights", one, self.sigma, self.rng))
        return self

    @torch.no_grad()
    def __exit__(self, *exception: object) -> None:
        """Put every weight back."""
        for one, before in self._before.pop():
            one.copy_(before)


@final
class NoisyWeights(Callback):
    """Computes every loss and its gradient at perturbed weights; the step is made from the others.

    Each evaluation of the loss has a noise of its own, also with optimizers that ask for several a
    step. It belongs before parts that look at weights and gradients together.

    Args:
        sigma: Standard deviation of the noise on every weight.

    Example:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> x, sgd = torch.ones(4, 1), torch.optim.SGD(model.parameters(), lr=0.5)
        >>> from principia.lab.training import Supervised, fit
        >>> loss = Supervised(nn.functional.mse_loss)
        >>> trained = fit(model, (x, 3 * x), loss, sgd, callbacks=[NoisyWeights(0.1)])
    """

    wraps_last = True  # what other parts compute before the loss must be of these weights, too

    @checked
    def __init__(self, sigma: NonNegativeFloat) -> None:
        self.sigma = sigma
        self._noise = ExitStack()  # what is to be undone before the step

    def begin(self, model: nn.Module, optimizers: Mapping[str, Optimizer], steps: int) -> None:
        """Take the model; an objective may be handed something else in its place."""
        self._model = model

    def wrap(self, objective: Objective) -> Objective:
        """Perturb the weights before the loss is computed, and leave them so for its gradient."""

        def noisy(model: Any, batch: Batch, rng: torch.Generator, /) -> Tensor:
            self._noise.enter_context(WeightNoise(self._model, self.sigma, rng))
            return objective(model, batch, rng)

        return noisy

    def before_step(self, model: nn.Module) -> None:
        """Restore the weights: the gradients have been computed."""
        self._noise.close()

    def abandon(self, model: nn.Module) -> None:
        """Restore the weights: there will be no step."""
        self.before_step(model)


@checked
def noisy_targets(
    y: Float[Tensor, "*shape"], sigma: NonNegativeFloat, rng: torch.Generator | None = None
) -> Float[Tensor, "*shape"]:
    """Adds Gaussian noise to the targets of a regression.

    Args:
        y: Targets.
        sigma: Standard deviation of the noise.
        rng: Where the draws come from; torch's global generator by default.

    Example:
        >>> noisy_targets(torch.zeros(3), 0.1, torch.Generator().manual_seed(0))
        tensor([ 0.1541, -0.0293, -0.2179])
    """
    return _perturbed("noisy_targets", "y", y, sigma, rng, "Classes are flipped by flip_labels.")


@checked
def flip_labels(
    y: Integer[Tensor, "*shape"], eps: Rate, classes: Classes, rng: torch.Generator | None = None
) -> Integer[Tensor, "*shape"]:
    r"""Replaces each label with probability eps by one of the other classes, all equally likely.

    The same generator flips more labels for a larger eps, never others instead.

    Args:
        y: Labels from 0 to K - 1.
        eps: Probability $\varepsilon$ of a flip.
        classes: Number K of classes.
        rng: Where the draws come from; torch's global generator by default.

    Example:
        >>> flip_labels(torch.tensor([0, 1, 2, 0, 1, 2]), 0.5, 3, torch.Generator().manual_seed(0))
        tensor([2, 1, 1, 2, 0, 2])
    """
    if y.numel() and not (y.min() >= 0 and y.max() < classes):
        got = f"labels from {int(y.min())} to {int(y.max())}"
        raise usage_error("flip_labels", "y", f"integers in [0, {classes - 1}]", got)
    where = y.device if rng is None else rng.device
    flipped = torch.rand(y.shape, generator=rng, device=where) < eps
    others = torch.randint(1, classes, y.shape, generator=rng, device=where)
    return ((y + (flipped * others).to(y.device)) % classes).to(y)  # uint8 would overflow before it


@checked
def tikhonov_penalty(
    f: Callable[[Tensor], Tensor], x: Float[Tensor, "B D"], y: Float[Tensor, " B"],
    sigma: NonNegativeFloat, *, probes: PositiveInt | None = None,
    rng: torch.Generator | None = None,
) -> Float[Tensor, " B"]:
    r"""Computes $\sigma^2(\Vert\nabla f\Vert^2+(f-y)\Delta f)$, what small input noise charges.

    It can be differentiated again, by the weights of f, and so be trained with.

    Args:
        f: From inputs (B, D) to one number a row, each from its own row.
        x: Inputs.
        y: Targets.
        sigma: Standard deviation of the noise that is replaced.
        probes: How many random signs estimate the Laplacian (Hutchinson); none computes it exactly
            from D products with the Hessian.
        rng: Where the signs come from; torch's global generator by default.

    Example:
        >>> x = torch.tensor([[1.0, 2.0]])
        >>> tikhonov_penalty(lambda x: (x**2).sum(dim=1), x, torch.tensor([4.0]), 1.0)  # 20 + 1 * 4
        tensor([24.], grad_fn=<MulBackward0>)
    """
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        value = f(x)
        if value.shape != y.shape:
            domain, got = f"a function with one number a row, {tuple(y.shape)}", tuple(value.shape)
            raise usage_error("tikhonov_penalty", "f", domain, got, "Sum or squeeze its outputs.")
        (slopes,) = grad(value.sum(), x, create_graph=True)
        laplacian = torch.zeros_like(value)
        if slopes.requires_grad:  # not of a linear function
            B, D = x.shape
            directions = torch.eye(D, dtype=x.dtype, device=x.device)[:, None].expand(D, B, D)
            if probes is not None:
                where = x.device if rng is None else rng.device
                signs = torch.randint(0, 2, (probes, B, D), generator=rng, device=where).to(x)
                directions = (2 * signs - 1) / math.sqrt(probes)
            (products,) = grad(
                slopes, x, directions, create_graph=True, is_grads_batched=True,
                materialize_grads=True,
            )
            laplacian = (directions * products).sum(dim=(0, 2))
        return sigma**2 * (slopes.square().sum(dim=1) + (value - y) * laplacian)

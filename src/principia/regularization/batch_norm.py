r"""Batch normalization: every feature gets mean 0 and variance 1 over the batch.

One step changes all layers of a network at once, and each was meant for what the others were
before: the output moves by products of all the changes. Normalizing what enters each layer takes
two of its ways to go wrong away, its level and its scale: a bias in front has no effect, nor has
the length of the weights, and the gradient loses its components along both. Training then bears
steps that would throw the plain network off. The statistics are part of the function, and gradients
flow through them; the price is that a sample's output depends on its batch, until averages over the
training data take their place. Then the whole thing is affine, and folds into the layer before it.

$$ \mu = \frac1m\sum_ix_i, \quad \sigma = \sqrt{\delta+\frac1m\sum_i(x_i-\mu)^2}, \quad
\tilde x = \frac{x-\mu}\sigma, \quad y = \alpha\tilde x+\beta $$

$$ \mathrm{BN}(w^\top x) = \beta+\alpha\,\frac{w^\top(x-\mathrm E\,x)}{\Vert w\Vert_S}, \quad
S = \mathrm{Cov}(x), \quad \mathrm{BN}\big((cw)^\top x+b\big) = \mathrm{BN}(w^\top x), \quad c>0 $$

$$ \Vert\nabla_xL\Vert^2 = \frac{\alpha^2}{\sigma^2}\Big(\Vert g\Vert^2-\frac1m(1^\top g)^2
-\frac1m(\tilde x^\top g)^2\Big), \quad g = \nabla_yL $$

$$ y_{new} = \prod_l\Big(w_l-\eta\frac{\partial R}{\partial w_l}\Big)\,x
= y+\sum_{S\subsetneq W}(-\eta)^{\vert W\setminus S\vert}
\prod_{w\in S}w\prod_{w\notin S}\frac{\partial R}{\partial w}\;x $$

Symbols:
    $x, y$: values of one feature in a batch of $m$, and outputs, `batch_norm_reference`
    $\mu, \sigma$: their mean and root of the biased variance; of all data, `population_statistics`
    $\delta$: keeps the root from 0, `eps`
    $\alpha, \beta$: scale and level that are learned instead, torch's `weight` and `bias`
    $w, b$: weights and bias of the layer in front; `fold_batch_norm` joins the two layers
    $\Vert w\Vert_S$: $\sqrt{w^\top Sw}$, the standard deviation of $w^\top x$
    $W, R, \eta$: weights of a chain of scalar layers, its risk, and the length of the step

References:
    Ioffe and Szegedy (2015), Batch normalization: accelerating deep network training by reducing
        internal covariate shift. ICML. arXiv:1502.03167
    Goodfellow, Bengio and Courville (2016), Deep learning, sec. 8.7.1. MIT Press.
        https://www.deeplearningbook.org
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine
        learning algorithms. arXiv:1708.07747
    Santurkar, Tsipras, Ilyas and Madry (2018), How does batch normalization help optimization?
        NeurIPS. arXiv:1805.11604
    Kohler, Daneshmand, Lucchi, Zhou, Neymeyr and Hofmann (2019), Exponential convergence rates for
        batch normalization: the power of length-direction decoupling in non-convex optimization.
        AISTATS. arXiv:1805.10694
"""

__all__ = ["ConvNet", "batch_norm_reference", "population_statistics", "fold_batch_norm", "invert"]

import copy
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import skip_init
from torch.nn.utils.fusion import fuse_conv_bn_eval

from principia.lab.params import PositiveFloat, PositiveInt, checked, usage_error
from principia.lab.training import evaluated
from principia.networks.mlp import Sizes
from principia.regularization.initialization import initialize_
from principia.regularization.layer_norm import normalize

Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d
SEVERAL = "a batch with 2 or more values of each feature"
LARGER = "The variance of one value is 0: take larger batches, or leave a last one of 1 out."


@checked
def batch_norm_reference(
    x: Float[Tensor, "B n ..."], alpha: Float[Tensor, " n"], beta: Float[Tensor, " n"], *,
    eps: PositiveFloat = 1e-5,
) -> Float[Tensor, "B n ..."]:
    r"""Computes $\alpha\tilde x+\beta$, for each feature over the batch and all places.

    Args:
        x: Rows of features (B, n), or pictures (B, n, H, W) with n channels.
        alpha: Standard deviations that the features get.
        beta: Means that they get.
        eps: $\delta$, added to the variance.

    Example:
        >>> x = torch.tensor([[1.0, 10.0], [3.0, 90.0]])
        >>> batch_norm_reference(x, torch.ones(2), torch.tensor([0.0, 5.0]))
        tensor([[-1.0000,  4.0000],
                [ 1.0000,  6.0000]])
    """
    if x.numel() < 2 * x.shape[1]:
        raise usage_error("batch_norm_reference", "x", SEVERAL, tuple(x.shape), LARGER)
    over = [axis for axis in range(x.ndim) if axis != 1]
    return along(alpha, x) * normalize(x, over, eps=eps) + along(beta, x)


def along(one: Tensor, x: Tensor) -> Tensor:
    """Give one number a feature the axes of x, whose features are axis 1."""
    return one.view(-1, *(1,) * (x.ndim - 2))


@torch.no_grad()
def population_statistics(model: nn.Module, loader: Iterable[Any]) -> nn.Module:
    """Gives every batch normalization of a model the exact mean and variance of all data.

    Running averages are noisy and late. Here two passes over the data for each layer, one after
    the other, find what training mode would with all data in a single batch, variances biased.

    Args:
        model: The model; its running statistics are changed in place.
        loader: Batches x or (x, ...), which are gone through several times.

    Example:
        >>> bn = nn.BatchNorm1d(2, affine=False)
        >>> population_statistics(bn, torch.tensor([[1.0, 0.0], [3.0, 0.0]]).split(1)).running_mean
        tensor([2., 0.])
    """
    if isinstance(loader, Iterator):
        hint = "Pass a list or a DataLoader."
        raise usage_error("population_statistics", "loader", "open to several passes", loader, hint)
    norms, order = [one for one in norm_layers(model) if one.track_running_stats], []
    if not norms:
        hint = "There is nothing to compute for it."
        raise usage_error(
            "population_statistics", "model", "one with running statistics", model, hint
        )
    with evaluated(model):
        _pass(model, itertools.islice(loader, 1), norms, lambda norm, _: order.append(norm))
        if not order:
            hint = "Its model must also use a layer with running statistics."
            raise usage_error(
                "population_statistics", "loader", "one or more batches", loader, hint
            )
        for layer in dict.fromkeys(order):  # each sees what the exact ones before it make
            mean = layer.running_mean.copy_(_mean_input(model, layer, loader)).double()
            layer.running_var.copy_(_mean_input(model, layer, loader, around=mean))
    return model


def _pass(
    model: nn.Module, loader: Iterable[Any], layers: Iterable[nn.Module], look: Callable[..., None]
) -> None:
    """Go through the data, and look at what enters some layers."""
    with ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.register_forward_pre_hook(look))
        for batch in loader:
            model(batch if isinstance(batch, Tensor) else batch[0])


def _mean_input(
    model: nn.Module, layer: nn.Module, loader: Iterable[Any], around: Tensor | None = None
) -> Tensor:
    """Average what enters a layer, or its squared distance from a point, for each feature."""
    sums, counts = [], []

    def look(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        values = inputs[0].transpose(0, 1).flatten(1).double()  # (n, B and places)
        sums.append((values if around is None else (values.mT - around).square().mT).sum(dim=1))
        counts.append(values.shape[1])

    _pass(model, loader, [layer], look)
    return torch.stack(sums).sum(dim=0) / sum(counts)


def norm_layers(model: nn.Module) -> list[_BatchNorm]:
    """List the batch normalizations of a model."""
    return [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]


@checked
def fold_batch_norm(layer: nn.Linear | Conv, bn: _BatchNorm) -> nn.Linear | Conv:
    r"""Joins a layer and the batch normalization behind it into one affine layer, for inference.

    Its weights are $W\alpha/\sigma$, its bias $\beta+(b-\mu)\alpha/\sigma$, with the running
    statistics.

    Args:
        layer: A linear or convolution layer.
        bn: The batch normalization of its outputs, in evaluation mode.

    Example:
        >>> layer, bn = nn.Linear(3, 2), nn.BatchNorm1d(2)
        >>> outputs = bn(layer(torch.randn(8, 3)))  # a training batch
        >>> folded, x = fold_batch_norm(layer, bn.eval()), torch.ones(1, 3)
        >>> torch.allclose(folded(x), bn(layer(x)), atol=1e-6)
        True
    """
    if bn.running_mean is None:
        hint = "Make it with track_running_stats=True: batches have statistics of their own."
        raise usage_error("fold_batch_norm", "bn", "a layer with running statistics", bn, hint)
    if bn.training:
        hint = "Call bn.eval(): only running statistics are the same for every batch."
        raise usage_error("fold_batch_norm", "bn", "in evaluation mode", "training mode", hint)
    if not isinstance(layer, nn.Linear | Conv) or layer.weight.shape[0] != bn.num_features:
        domain = f"a linear or convolution layer with {bn.num_features} outputs"
        raise usage_error("fold_batch_norm", "layer", domain, layer)
    _warn_if_fresh("fold_batch_norm", bn)
    fold: Any = fuse_conv_bn_eval  # it scales the rows of any weights
    return fold(copy.deepcopy(layer).eval(), bn)


def _warn_if_fresh(owner: str, bn: _BatchNorm) -> None:
    if bool((bn.running_mean == 0).all() & (bn.running_var == 1).all()):  # type: ignore[union-attr]
        warnings.warn(
            f"{owner}: batch normalization in evaluation mode has seen no training batch; its "
            "means are still 0, its variances 1. Train first, or call population_statistics.",
            stacklevel=3,
        )


def invert(
    bn: _BatchNorm, y: Float[Tensor, "B n ..."], mu: Float[Tensor, " n"],
    sigma: Float[Tensor, " n"],
) -> Float[Tensor, "B n ..."]:
    r"""Recovers what entered a batch normalization: $x=\mu+\sigma\,(y-\beta)/\alpha$.

    Args:
        bn: The layer, with its $\alpha$ and $\beta$.
        y: Its outputs.
        mu: Means of the batch.
        sigma: Roots of its variances, biased and with `eps`.

    Example:
        >>> x, bn = torch.tensor([[1.0], [2.0], [6.0]]), nn.BatchNorm1d(1)
        >>> sigma = (bn.eps + x.var(dim=0, correction=0)).sqrt()
        >>> invert(bn, bn(x), x.mean(dim=0), sigma).flatten().detach()
        tensor([1.0000, 2.0000, 6.0000])
    """
    if bn.weight is not None:
        if not bool((bn.weight != 0).all()):
            hint = "A feature times 0 is gone."
            raise usage_error(
                "invert", "bn", "a layer without a weight of 0", bn.weight.tolist(), hint
            )
        y = (y - along(bn.bias, y)) / along(bn.weight, y)
    return along(mu, y) + along(sigma, y) * y


@final
class ConvNet(nn.Module):
    r"""Classifies pictures by blocks of convolution, pooling, normalization and ReLU.

    Convolutions are 3 x 3. The pooling halves the sides first: it commutes with ReLU, and the rest
    has a quarter of the work. With batch normalization convolutions have no bias; behind a pooling
    it folds into its convolution only where all $\alpha>0$, since others turn largest to smallest.

    Shapes:
        x: (B, channels[0], side, side); returns (B, classes)

    Args:
        channels: Of the pictures and of each convolution.
        side: Height and width of the pictures.
        classes: Number of outputs.
        batch_norm: Whether to normalize.
        rng: Draws the weights by He's rule, the same ones with and without normalization; by
            default torch's global generator.

    Example:
        >>> net = ConvNet([1, 16, 32], side=28)
        >>> logits = net(torch.rand(5, 1, 28, 28))
        >>> logits.shape
        torch.Size([5, 10])
    """

    @checked
    def __init__(
        self, channels: Sizes, *, side: PositiveInt, classes: PositiveInt = 10,
        batch_norm: bool = True, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        blocks = len(channels) - 1
        if not blocks:
            hint = "Name the channels of the pictures and of each convolution."
            raise usage_error("ConvNet", "channels", "two or more values", channels, hint)
        if not side >> blocks:
            raise usage_error("ConvNet", "side", f"{2**blocks} or more for {blocks} halvings", side)
        self.shape, self.smallest = (channels[0], side, side), side >> blocks
        self.blocks = nn.Sequential(*(
            nn.Sequential(
                skip_init(nn.Conv2d, n, m, 3, padding=1, bias=not batch_norm), nn.MaxPool2d(2),
                nn.BatchNorm2d(m) if batch_norm else nn.Identity(), nn.ReLU(),
            ) for n, m in itertools.pairwise(channels)
        ))
        self.head = skip_init(nn.Linear, channels[-1] * self.smallest**2, classes)
        initialize_(self, "he", rng=rng)

    def forward(self, x: Float[Tensor, "B c h w"]) -> Float[Tensor, "B classes"]:
        """Compute the scores of the classes."""
        if x.shape[1:] != self.shape:
            domain = f"of shape (B, {', '.join(map(str, self.shape))})"
            raise usage_error("ConvNet", "x", domain, tuple(x.shape))
        if self.training and len(x) < 2 and self.smallest < 2 and norm_layers(self):
            raise usage_error("ConvNet", "x", SEVERAL, tuple(x.shape), LARGER)
        x = x.to(memory_format=torch.channels_last)  # twice as fast on a CPU
        return self.head(self.blocks(x).flatten(1))

    def train(self, mode: bool = True) -> "ConvNet":
        """Switch between training and evaluation; warn of statistics that never saw a batch."""
        if not mode:
            for norm in norm_layers(self):
                _warn_if_fresh("ConvNet", norm)
        return super().train(mode)

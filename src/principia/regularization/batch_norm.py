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
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import skip_init
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.domains import Count, Positive, Range
from principia.lab.draws import rand, randn
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.pairs import paired
from principia.lab.relations import equal, estimates, every, identical
from principia.lab.seeds import Seed
from principia.lab.training import EMA, Diverged, Part, Supervised, accuracy, evaluate, fit
from principia.lab.training.metrics import evaluated
from principia.networks.mlp import Sizes
from principia.regularization.initialization import initialize_
from principia.regularization.layer_norm import normalize

Batch = Annotated[int, Range(4, 1000)]
Features = Annotated[int, Range(1, 50)]
Rate = Annotated[float, Range(0.01, 2)]
Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d
Kind = Literal["bn", "plain"]
KINDS: tuple[Kind, ...] = ("bn", "plain")
QUICK_RATES, FULL_RATES = (0.2, 0.5), (0.05, 0.1, 0.2, 0.5)
SEVERAL = "a batch with 2 or more values of each feature"
LARGER = "The variance of one value is 0: take larger batches, or leave a last one of 1 out."
TINY = 1e-12  # δ of claims that hold for δ = 0; torch wants it above 0


@checked
def batch_norm_reference(
    x: Float[Tensor, "B n ..."], alpha: Float[Tensor, " n"], beta: Float[Tensor, " n"], *,
    eps: Positive = 1e-5,
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
        raise refuse("batch_norm_reference", "x", SEVERAL, tuple(x.shape), LARGER)
    over = [axis for axis in range(x.ndim) if axis != 1]
    return _along(alpha, x) * normalize(x, over, eps=eps) + _along(beta, x)


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
        raise refuse("population_statistics", "loader", "open to several passes", loader, hint)
    norms, order = [one for one in _norms(model) if one.track_running_stats], []
    if not norms:
        hint = "There is nothing to compute for it."
        raise refuse("population_statistics", "model", "one with running statistics", model, hint)
    with evaluated(model):
        _pass(model, itertools.islice(loader, 1), norms, lambda norm, _: order.append(norm))
        if not order:
            hint = "Its model must also use a layer with running statistics."
            raise refuse("population_statistics", "loader", "one or more batches", loader, hint)
        for layer in dict.fromkeys(order):  # each sees what the exact ones before it make
            mean = layer.running_mean.copy_(_mean_input(model, layer, loader)).double()
            layer.running_var.copy_(_mean_input(model, layer, loader, around=mean))
    return model


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


def _pass(
    model: nn.Module, loader: Iterable[Any], layers: Iterable[nn.Module], look: Callable[..., None]
) -> None:
    """Go through the data, and look at what enters some layers."""
    hooks = [one.register_forward_pre_hook(look) for one in layers]
    try:
        for batch in loader:
            model(batch if isinstance(batch, Tensor) else batch[0])
    finally:
        for hook in hooks:
            hook.remove()


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
        raise refuse("fold_batch_norm", "bn", "a layer with running statistics", bn, hint)
    if bn.training:
        hint = "Call bn.eval(): only running statistics are the same for every batch."
        raise refuse("fold_batch_norm", "bn", "in evaluation mode", "training mode", hint)
    if not isinstance(layer, nn.Linear | Conv) or layer.weight.shape[0] != bn.num_features:
        domain = f"a linear or convolution layer with {bn.num_features} outputs"
        raise refuse("fold_batch_norm", "layer", domain, layer)
    _warn_if_fresh("fold_batch_norm", bn)
    if bn.weight is None:  # torch joins linear layers only with an α and a β
        level = torch.zeros_like(bn.running_mean)
        bn = copy.deepcopy(bn)
        bn.weight, bn.bias = nn.Parameter(level + 1), nn.Parameter(level)
    fold: Any = fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fuse_conv_bn_eval
    return fold(copy.deepcopy(layer).eval(), bn)


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
        >>> invert(bn, bn(x), x.mean(dim=0), (bn.eps + x.var(dim=0, correction=0)).sqrt())
        tensor([[1.0000],
                [2.0000],
                [6.0000]], grad_fn=<AddBackward0>)
    """
    if bn.weight is not None:
        if not bool((bn.weight != 0).all()):
            hint = "A feature times 0 is gone."
            raise refuse("invert", "bn", "a layer without a weight of 0", bn.weight.tolist(), hint)
        y = (y - _along(bn.bias, y)) / _along(bn.weight, y)
    return _along(mu, y) + _along(sigma, y) * y


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
        self, channels: Sizes, *, side: Count, classes: Count = 10, batch_norm: bool = True,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        blocks = len(channels) - 1
        if not blocks:
            hint = "Name the channels of the pictures and of each convolution."
            raise refuse("ConvNet", "channels", "two or more values", channels, hint)
        if not side >> blocks:
            raise refuse("ConvNet", "side", f"{2**blocks} or more for {blocks} halvings", side)
        self.shape, self.smallest = (channels[0], side, side), side >> blocks
        self.blocks = nn.Sequential(*(
            nn.Sequential(
                skip_init(nn.Conv2d, n, m, 3, padding=1, bias=not batch_norm), nn.MaxPool2d(2),
                nn.BatchNorm2d(m) if batch_norm else nn.Identity(), nn.ReLU(),
            ) for n, m in itertools.pairwise(channels)
        ))
        self.head = skip_init(nn.Linear, channels[-1] * self.smallest**2, classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                initialize_(layer.weight, "he", rng=rng)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "B c h w"]) -> Float[Tensor, "B classes"]:
        """Compute the scores of the classes."""
        if x.shape[1:] != self.shape:
            domain = f"of shape (B, {', '.join(map(str, self.shape))})"
            raise refuse("ConvNet", "x", domain, tuple(x.shape))
        if self.training and len(x) < 2 and self.smallest < 2 and _norms(self):
            raise refuse("ConvNet", "x", SEVERAL, tuple(x.shape), LARGER)
        x = x.to(memory_format=torch.channels_last)  # twice as fast on a CPU
        return self.head(self.blocks(x).flatten(1))

    def train(self, mode: bool = True) -> "ConvNet":
        """Switch between training and evaluation; warn of statistics that never saw a batch."""
        if not mode:
            for norm in _norms(self):
                _warn_if_fresh("ConvNet", norm)
        return super().train(mode)


def _along(one: Tensor, x: Tensor) -> Tensor:
    """Give one number a feature the axes of x, whose features are axis 1."""
    return one.view(-1, *(1,) * (x.ndim - 2))


def _norms(model: nn.Module) -> list[_BatchNorm]:
    return [one for one in model.modules() if isinstance(one, _BatchNorm)]


def _warn_if_fresh(owner: str, bn: _BatchNorm) -> None:
    if bool((bn.running_mean == 0).all() & (bn.running_var == 1).all()):  # type: ignore[union-attr]
        warnings.warn(
            f"{owner}: batch normalization in evaluation mode has seen no training batch; its "
            "means are still 0, its variances 1. Train first, or call population_statistics.",
            stacklevel=3,
        )


@claim(control={"variance": "unbiased"}, source="Ioffe and Szegedy 2015, algorithm 1")
def torch_is_the_formula(
    seed: Seed, *, batch: Batch = 8, features: Features = 5,
    variance: Literal["biased", "unbiased"] = "biased",
) -> Evidence:
    r"""`nn.BatchNorm1d` and `2d` are $\alpha(x-\mu)/\sigma+\beta$, forward and backward."""
    rng, parts = seed.torch(), {}
    for bn, places in (nn.BatchNorm1d(features), ()), (nn.BatchNorm2d(features), (3, 2)):
        x = 3 + 2 * randn(rng, batch, features, *places)
        _draw_affine(bn, rng)
        leaves = [x.requires_grad_(), bn.weight, bn.bias]
        ours = batch_norm_reference(*leaves)
        if variance == "unbiased":
            var, mean = torch.var_mean(x, [axis for axis in range(x.ndim) if axis != 1],
                                       keepdim=True)
            ours = _along(bn.weight, x) * (x - mean) / (bn.eps + var).sqrt() + _along(bn.bias, x)
        theirs, g = bn(x), randn(rng, *x.shape)
        parts[f"{type(bn).__name__}, outputs"] = identical(ours, theirs)
        slopes = [torch.autograd.grad(one, leaves, g) for one in (ours, theirs)]
        for name, *both in zip(("x", "alpha", "beta"), *slopes, strict=True):
            parts[f"{type(bn).__name__}, gradient of {name}"] = identical(*both)
    return every(parts)


@claim(
    control={"statistics": "running", "momentum": 1.0, "batch": 4},
    source="Ioffe and Szegedy 2015, algorithm 2",
)
def running_statistics_converge(
    seed: Seed, *, samples: Annotated[int, Range(10_000, 200_000)] = 100_000,
    batch: Annotated[int, Range(2, 100)] = 50, momentum: Annotated[float, Range(0.01, 1)] = 0.1,
    statistics: Literal["population", "running"] = "population",
) -> Evidence:
    """A sample alone, by the statistics of all data, gets what it gets in a huge training batch."""
    rng, n, updates = seed.torch(), 3, 100
    mix = randn(rng, n, n)
    data, others = 3 + randn(rng, 2, samples, n) @ mix
    layer: Any = initialize_(skip_init(nn.Linear, n, n), "he", rng=rng)
    bn = nn.BatchNorm1d(n, momentum=momentum)
    net = nn.Sequential(layer, bn).double()
    _draw_affine(bn, rng)
    with torch.no_grad():
        expected = net(torch.cat([data[:1], others]))[0]
        bn.reset_running_stats()
        average, alone = torch.zeros(n).double(), []
        for rows in data[:updates * batch].split(batch):
            average = (1 - momentum) * average + momentum * layer(rows).mean(dim=0)
            net.train()(rows)
            alone.append(net.eval()(data[:1])[0])
        running = bn.running_mean.clone()  # type: ignore[union-attr]
        if statistics == "population":
            population_statistics(net, data.split(3000))
        found = net.eval()(data[:1])[0]
        folded = fold_batch_norm(layer, bn)(data[:1])[0]
        pictures = rand(rng, 100, 1, 4, 4)
        deep = ConvNet([1, 3, 4], side=4, rng=rng).double()
        single, whole = (
            population_statistics(deep, pictures.split(size)).eval()(pictures) for size in (30, 7)
        )
        together = deep.train()(pictures)
    spread = ((expected - bn.bias) / bn.weight).square()  # a Gaussian's sigma is known to 1/√(2N)
    error = bn.weight.abs() * ((2 + spread) / samples).sqrt()
    return every({
        "alone and in a batch": estimates(
            found, expected, error=error, k=4, why="means and variances of two sets of Gaussians",
        ).drawn(
            Series("alone, running statistics", range(1, updates + 1), torch.stack(alone)[:, 0]),
            Series(f"alone, {statistics} statistics", [1, updates], found[:1].expand(2), "other"),
            Series("in a huge batch", [1, updates], expected[:1].expand(2), "predicted"),
            x="updates of the running statistics", y="output of one sample",
        ),
        "running mean": equal(
            running, average, tol=1e-12 * (1 + float(average.abs().max())),
            why="an identity of averages: float64 rounding",
        ),
        "folded": identical(folded, found),
        "two layers, all data": identical(single, together),
        "two layers, in other batches": identical(whole, together),
    })


@claim(control={"mode": "eval"}, source="Ioffe and Szegedy 2015, sec. 3.2")
def bias_before_bn_is_dead(
    seed: Seed, *, batch: Batch = 32, features: Features = 5,
    bias: Annotated[float, Range(0.1, 100)] = 2.0, mode: Literal["train", "eval"] = "train",
) -> Evidence:
    r"""A bias in front of batch normalization has no effect, and its gradient is 0."""
    rng = seed.torch()
    bn, x, g = nn.BatchNorm1d(features), randn(rng, batch, features), randn(rng, batch, features)
    _draw_affine(bn, rng)
    population_statistics(bn, [x]).train(mode == "train")
    b = torch.zeros(features).double().requires_grad_()
    (slope,) = torch.autograd.grad(bn(x + b), b, g)
    why = "sums of a batch that cancel: float64 rounding"
    biases = torch.linspace(-bias, bias, 21).double()
    with torch.no_grad():
        before, after = bn(x), bn(x + bias)
        first = torch.stack([bn(x + one)[0, 0] for one in biases])
    return every({
        "output": equal(after - before, 0, tol=1e-12 * (1 + bias), why=why).drawn(
            Series(f"{mode} mode", biases, first),
            Series("no bias", biases, before[0, 0].expand(21), "predicted"),
            x="bias", y="output of the first sample",
        ),
        "gradient": equal(slope, 0, tol=1e-12 * batch, why=why),
    })


@claim(control={"norm": "none"}, source="Ioffe and Szegedy 2015, sec. 3.3")
def invariant_to_weight_scale(
    seed: Seed, *, batch: Batch = 32, dim: Annotated[int, Range(2, 50)] = 6,
    c: Annotated[float, Range(2, 100)] = 5.0, norm: Literal["batch", "none"] = "batch",
) -> Evidence:
    r"""$w\to cw$, $c>0$: the same output, and a gradient orthogonal to $w$ and $1/c$ as long."""
    rng = seed.torch()
    bn = nn.BatchNorm1d(1, eps=TINY) if norm == "batch" else nn.Identity()
    x, target, w = randn(rng, batch, dim), randn(rng, batch, 1), randn(rng, dim, 1)
    bn.double()

    def at(scale: float) -> tuple[Tensor, Tensor]:
        v = (scale * w).requires_grad_()
        outputs = bn(x @ v)
        return outputs.detach(), torch.autograd.grad(F.mse_loss(outputs, target), v)[0]

    (outputs, slope), (scaled, flat) = at(1.0), at(c)
    net = ConvNet([1, 2, 3], side=8, batch_norm=norm == "batch", rng=rng).double()
    pictures = rand(rng, 20, 1, 8, 8)
    for one in _norms(net):
        one.eps = TINY
    with torch.no_grad():
        logits = net(pictures)
        for name, weight in net.blocks.named_parameters():
            if name.endswith("0.weight"):
                weight *= c
        larger = net(pictures)
    scales = torch.logspace(0, 2, 13).double()
    lengths = torch.stack([at(float(one))[1].norm() for one in scales])
    return every({
        "output": identical(scaled, outputs),
        "gradient": identical(c * flat, slope).drawn(
            Series("gradient", scales, lengths),
            Series("1 / c", scales, slope.norm() / scales, "predicted"),
            x="factor c of the weights", y="length of the gradient", log="xy",
        ),
        "along the weights": identical((slope * w).sum(), 0.0),
        "all convolutions of a network": identical(larger, logits),
    })


@claim(control={"mode": "eval"}, source="Ioffe and Szegedy 2015, algorithm 1")
def removes_constant_shift(
    seed: Seed, *, shift: Annotated[float, Range(0.1, 10)] = 1.0,
    hidden: Annotated[int, Range(8, 64)] = 32, mode: Literal["train", "eval"] = "train",
) -> Evidence:
    """A constant that is added to all inputs of a batch changes neither scores nor accuracy."""
    x, y, x_test, y_test = digits()
    x, x_test = x.flatten(1).double(), x_test.flatten(1).double()
    layers = skip_init(nn.Linear, 64, hidden), skip_init(nn.Linear, hidden, 10)
    net = nn.Sequential(layers[0], nn.BatchNorm1d(hidden), nn.ReLU(), layers[1])
    initialize_(net, "he", rng=seed.torch()).double()
    adam = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(40):
        adam.zero_grad()
        F.cross_entropy(net(x), y).backward()
        adam.step()
    net.train(mode == "train")
    shifts = torch.linspace(0, shift, 9).double()
    with torch.no_grad():
        scores = torch.stack([net(x_test + one) for one in shifts])
    right = [float(accuracy(one, y_test)) for one in scores]
    return every({
        "accuracy": equal(right[-1], right[0], tol=0, why="no score moves but by rounding").drawn(
            Series(f"{mode} mode", shifts, right),
            Series("without a shift", shifts, right[:1] * 9, "predicted"),
            x="shift of all pixels", y="test accuracy, digits",
        ),
        "scores": identical(scores[-1], scores[0]),
    })


@claim(
    control={"form": "printed"}, source="Kohler et al. 2019, sec. 2",
    misprint=r"$\Vert w\Vert_\Sigma$, $\Sigma=\mathrm E[xx^\top]$, for inputs not centered",
)
def bn_is_reparametrization(
    seed: Seed, *, batch: Annotated[int, Range(100, 10_000)] = 2000,
    dim: Annotated[int, Range(2, 50)] = 5, mean: Annotated[float, Range(0.5, 10)] = 3.0,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""$\mathrm{BN}(w^\top x)=\beta+\alpha\,w^\top(x-\mathrm Ex)/\Vert w\Vert_S$, $S$ centered."""
    rng, bn = seed.torch(), nn.BatchNorm1d(1, eps=TINY)
    _draw_affine(bn, rng)
    x, w = mean + randn(rng, batch, dim) @ randn(rng, dim, dim) / dim**0.5, randn(rng, dim)
    alpha, beta = bn.weight.detach(), bn.bias.detach()
    centered = x - x.mean(dim=0)
    S = (centered if form == "correct" else x).mT @ (centered if form == "correct" else x) / batch
    length = (w @ S @ w).sqrt()
    measured = bn((x @ w)[:, None])[:, 0].detach()
    line = beta + alpha * (centered @ w) / length
    # length times direction: α is the length, w only a direction, measured by S instead of I
    decoupled = beta + alpha * centered @ (w / w.norm()) * (w.norm() / length)
    some = (x @ w).argsort()[:: max(1, batch // 100)]
    return every({
        "scale of w'x": identical((x @ w).std(correction=0), length),
        "outputs": identical(measured, line).drawn(
            Series("batch normalization", (x @ w)[some], measured[some]),
            Series("formula", (x @ w)[some], line[some], "predicted"), x="w'x", y="output",
        ),
        "length and direction": identical(measured, decoupled),
        "centered inputs": identical(bn((centered @ w)[:, None])[:, 0], measured),
    })


@claim(control={"statistics": "constants"}, source="Santurkar et al. 2018, theorem 4.1")
def gradient_is_projected(
    seed: Seed, *, batch: Batch = 16, batches: Annotated[int, Range(2, 500)] = 50,
    statistics: Literal["functions", "constants"] = "functions",
) -> Evidence:
    r"""$\frac{\sigma^2}{\alpha^2}|\nabla_xL|^2=|g|^2-\frac{(1^\top g)^2+(\tilde x^\top g)^2}m$."""
    rng, bn = seed.torch(), nn.BatchNorm1d(batches, eps=TINY)  # a batch is a column
    _draw_affine(bn, rng)
    spreads = 0.5 + 2 * rand(rng, batches)
    x = (3 + spreads * randn(rng, batch, batches)).requires_grad_()
    sigma = x.detach().std(dim=0, correction=0)
    if statistics == "constants":
        population_statistics(bn, [x.detach()]).eval()
    y = bn(x)
    (g,) = torch.autograd.grad(F.softplus(y + randn(rng, *x.shape)).sum(), y, retain_graph=True)
    (slope,) = torch.autograd.grad(y, x, g)
    normal = normalize(x.detach(), 0, eps=TINY)
    scale = (bn.weight.detach() / sigma).square()
    whole = g.square().sum(dim=0)
    lost = g.sum(dim=0).square() / batch, (normal * g).sum(dim=0).square() / batch
    number = range(1, batches + 1)
    order = whole.argsort()
    return identical(slope.square().sum(dim=0), scale * (whole - sum(lost))).drawn(
        Series("measured", number, (slope.square().sum(dim=0) / scale)[order]),
        Series("projected", number, (whole - sum(lost))[order], "predicted"),
        Series("gradient behind it", number, whole[order], "bound"),
        x="batch, sorted", y="squared length of the gradient, times σ²/α²", log="y",
    )


@claim(
    control={"feature": "constant", "precision": "float32"}, source="Ioffe and Szegedy 2015, sec. 3"
)
def activations_are_recoverable(
    seed: Seed, *, batch: Batch = 64, features: Features = 5,
    feature: Literal["varying", "constant"] = "varying",
    precision: Literal["float64", "float32"] = "float64",
) -> Evidence:
    r"""Given $\mu$ and $\sigma$ the map is invertible: nothing is lost of features that vary."""
    rng, dtype = seed.torch(), getattr(torch, precision)
    bn = nn.BatchNorm1d(features)
    _draw_affine(bn, rng)
    spread = 1.0 if feature == "varying" else 1e-10  # far below √δ: σ is √δ, and all outputs β
    x = (spread * (3 + randn(rng, batch, features))).to(dtype)
    bn.to(dtype)
    var, mu = torch.var_mean(x, 0, correction=0)
    again = invert(bn, bn(x), mu, (bn.eps + var).sqrt()).detach()
    before, after = ((one - mu).double() / spread for one in (x, again))
    unit = torch.finfo(dtype).eps
    return equal(
        after, before, tol=100 * unit,
        why="rounding of y, whose level is below 5, divided by α ≥ 1/2, in units of the spread",
    ).drawn(
        Series("recovered", before[:, 0], after[:, 0]),
        Series("what was there", before[:, 0], before[:, 0], "predicted"),
        x="value - mean, in units of the spread", y="recovered",
    )


@claim(
    control={"form": "printed"}, source="Goodfellow, Bengio and Courville 2016, sec. 8.7.1",
    misprint=r"the sum over all subsets $S\in\mathcal P(W)$, added to $y$, which counts $y$ twice",
)
def chain_update_has_all_orders(
    seed: Seed, *, depth: Annotated[int, Range(2, 10)] = 4,
    lr: Annotated[float, Range(0.001, 1)] = 0.1, chains: Annotated[int, Range(1, 200)] = 50,
    form: Literal["correct", "printed"] = "correct",
) -> Evidence:
    r"""One step on $y=\prod_lw_lx$ adds a term for each set $S\subsetneq W$ of weights kept."""
    rng = seed.torch()
    w = (0.5 + rand(rng, chains, depth)).requires_grad_()
    x, target = 0.5 + rand(rng, chains), randn(rng, chains)
    y = w.prod(dim=1) * x
    (slope,) = torch.autograd.grad((y - target).square().sum() / 2, w)
    subsets = torch.cartesian_prod(*[torch.tensor([0.0, 1.0]).double()] * depth)  # 1: in S
    factors = subsets * w.detach()[:, None] - (1 - subsets) * lr * slope[:, None]
    terms = factors.prod(dim=2) * x[:, None]  # (chains, 2^depth), the last S is W
    orders = depth - subsets.sum(dim=1)
    y, new = y.detach(), ((w - lr * slope).prod(dim=1) * x).detach()
    added = terms if form == "printed" else terms[:, :-1]
    by_order = torch.stack([terms[0, orders == k].sum() for k in range(1, depth + 1)])
    size = 1 + terms.abs().sum(dim=1)
    return equal(
        y + added.sum(dim=1), new, tol=1e-12 * size, why="an identity: rounding of the sum's terms"
    ).drawn(
        Series("terms up to this order", range(1, depth + 1),
               by_order.cumsum(dim=0) + (y[0] if form == "printed" else 0)),
        Series("change of y", [1, depth], (new - y)[0].expand(2), "predicted"),
        x="layers that change together, at most", y="change of the output, first chain",
    )


@experiment(
    reaches={"accuracy": at_least_goal(0.903), "speedup": at_least_goal(2)},
    floor={"steep_accuracy": at_least_goal(0.95), "plain_steep_accuracy": at_most_goal(0.95)},
    source="table of submitted benchmarks of Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): two "
    "convolutions with max pooling and ELU, 0.903 (0.916 without ELU, after more than 300 epochs); "
    "to be reached in half the epochs of the plain network, both at their best rates",
)
def bn_speed(
    run: Run, *, lrs: tuple[Rate, ...] | None = None, epochs: Annotated[int, Range(2, 30)] = 10,
    pairs: Annotated[int, Range(2, 10)] = 3,
) -> None:
    """Counts the epochs to a test accuracy with batch normalization and without.

    Every rate is tried from one start; then both networks learn at their best ones from others.
    `steep_accuracy` is that at the largest rate, of the plain network after as many epochs.

    Args:
        lrs: Learning rates; none is 0.2 and 0.5, of clothes 0.05 to 0.5: at 1 both networks stay at
            chance.
        epochs: Of each training of a pair, and at most of a trial; a network that is not there yet
            counts as one epoch more.
        pairs: Starts and orders of the data, each with and without.
    """
    goal, size, rates = (0.903, 50, FULL_RATES) if run.full else (0.95, 32, QUICK_RATES)
    rates = sorted({*(lrs or rates)})
    if run.full:
        (x, y), test = (fashion(split, data_dir=run.data_dir) for split in ("train", "test"))
    else:
        x, y, *test = digits()
    x, test = x[:, None], (test[0][:, None], test[1])
    batches, looks = len(x) // size, {}

    def train(kind: Kind, start: str, rate: float, *, stop: bool) -> list[float]:
        """Give the test accuracy after each epoch."""
        own, name = run.seed.child(start), f"{kind}-{rate:g}-{start}"
        net = ConvNet([1, 16, 32], side=x.shape[-1], batch_norm=kind == "bn", rng=own.torch())
        parts: list[Part] = [EMA(1 - 3 / batches), _Tested(goal if stop else None, *test)]
        if rate == rates[-1] and kind not in looks:
            looks[kind] = _Along(every=max(batches // 10, 1))
            parts.append(looks[kind])
        try:
            fit(
                net, (x, y), Supervised(F.cross_entropy), torch.optim.SGD(net.parameters(), rate),
                epochs=epochs, batch_size=size, parts=parts, seed=own, run=run, name=name,
            )
        except Diverged:
            lost = epochs - len(run.curves[name])
            return [row["test_accuracy"] for row in run.curves[name]] + lost * [0.0]
        if (kind, start) == ("bn", "pair0"):
            run.keep(net)
        return [row["test_accuracy"] for row in run.curves[name]]

    def needed(curve: list[float]) -> int:
        """Count the epochs to the goal; a curve that ends below it needs one more at least."""
        return next((k for k, one in enumerate(curve, 1) if one >= goal), len(curve) + 1)

    trials = {kind: [train(kind, "trial", rate, stop=True) for rate in rates] for kind in KINDS}
    counts = {kind: [needed(curve) for curve in curves] for kind, curves in trials.items()}
    steep, plain_steep = (trials[kind][-1] for kind in KINDS)
    run.record(steep_accuracy=max(steep), plain_steep_accuracy=max(plain_steep[: len(steep)]))
    run.record(steep_epochs=needed(steep), plain_steep_epochs=needed(plain_steep))
    found = {}
    for kind in KINDS:
        best = rates[counts[kind].index(min(counts[kind]))]
        found[kind] = [train(kind, f"pair{pair}", best, stop=False) for pair in range(pairs)]
        run.record(**{f"{kind}_rate": best})
    (right, plain_right), (spent, plain_spent) = (
        [[what(curve) for curve in found[kind]] for kind in KINDS] for what in (max, needed)
    )
    gain, saved = paired(right, plain_right), paired(plain_spent, spent)
    run.record(
        accuracy=sum(right) / pairs, speedup=sum(plain_spent) / sum(spent),
        epochs=sum(spent) / pairs, plain_epochs=sum(plain_spent) / pairs,
        **saved.metrics("epochs_saved"), **gain.metrics("gain"),
    )
    run.figure("pairs", gain.figure("best test accuracy", ("plain", "BN")))
    run.figure("rates", figures.draw(Picture(tuple(
        Series(kind, rates, counts[kind], role, "line")
        for kind, role in zip(KINDS, ("measured", "other"), strict=True)
    ), "learning rate", f"epochs to a test accuracy of {goal:g}", log="x")))
    shown = {kind: looks[kind].seen[: len(looks["bn"].seen)] for kind in ("plain", "bn")}
    for kind, seen in shown.items():
        _, low, high, turn = seen.mean(dim=0).tolist()
        run.record(**{f"{kind}_loss_range": high - low, f"{kind}_gradient_change": turn})
    run.figure("landscape", _landscape(shown))


@final
class _Tested(Part):
    """Measures the test accuracy after each epoch; it ends a training that has reached a goal."""

    def __init__(self, goal: float | None, x: Tensor, y: Tensor) -> None:
        self.goal, self.data = goal, (x, y)

    def after_epoch(self, model: nn.Module, row: dict[str, float]) -> str:
        """Measure the model as it is shown: the average of its weights."""
        row["test_accuracy"] = evaluate(model, self.data, {"accuracy": accuracy})["accuracy"]
        there = self.goal is not None and row["test_accuracy"] >= self.goal
        return "the accuracy is reached" if there else ""


@final
class _Along(Part):
    """Looks along the gradient at some steps: what loss and gradient are farther that way."""

    def __init__(self, every: int) -> None:
        self.every, self.ways = every, (0.05, 0.1, 0.2, 0.4)

    def begin(self, model: nn.Module, optimizers: Mapping[str, Any], steps: int) -> None:
        """Forget an earlier training."""
        self._step, self._seen = 0, torch.zeros(0, 4, dtype=torch.float64)

    def prepare(self, batch: tuple[Tensor, ...], rng: torch.Generator) -> tuple[Tensor, ...]:
        """Keep the batch of the step."""
        self._batch = batch
        return batch

    def before_step(self, model: nn.Module) -> None:
        """Move copies of the weights against the gradient, and measure there."""
        if self._step % self.every == 0:
            x, y = self._batch
            slopes = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
            here, losses, changes = torch.cat([one.flatten() for one in slopes.values()]), [], []
            for way in self.ways:
                moved = {name: (p.detach() - way * slopes[name]).requires_grad_()
                         for name, p in model.named_parameters()}
                buffers = {name: one.clone() for name, one in model.named_buffers()}
                loss = F.cross_entropy(functional_call(model, {**moved, **buffers}, (x,)), y)
                there = torch.cat([one.flatten() for one in torch.autograd.grad(
                    loss, list(moved.values()))])
                losses.append(loss.item())
                changes.append(float((there - here).norm() / here.norm().clamp_min(1e-12)))
            row = [[self._step, min(losses), max(losses), max(changes)]]
            self._seen = torch.cat([self._seen, torch.tensor(row, dtype=torch.float64)])
        self._step += 1

    @property
    def seen(self) -> Tensor:
        """A row for each look: step, lowest and highest loss, largest change of the gradient."""
        return self._seen

    def state_dict(self) -> dict[str, Any]:
        """Give what was seen."""
        return {"step": self._step, "seen": self._seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what was seen."""
        self._step, self._seen = state["step"], state["seen"]


def _landscape(looks: Mapping[str, Tensor]) -> Any:
    """Draw between which losses the way against the gradient leads, look by look."""
    series = []
    for (kind, seen), role in zip(looks.items(), ("bound", "measured"), strict=True):
        step, low, high, _ = seen.T
        series += [Series(f"{kind}, {what}", step, one, role, "line")  # type: ignore[arg-type]
                   for what, one in (("highest", high), ("lowest", low))]
    picture = Picture(tuple(series), "training step", "loss along the gradient", log="y")
    figure = figures.draw(picture)
    for lowest in figure.data[1::2]:
        lowest.fill = "tonexty"
    return figure


def _draw_affine(bn: _BatchNorm, rng: torch.Generator) -> None:
    """Make a layer double, with scales in [1/2, 3/2] and normal levels."""
    bn.double()
    with torch.no_grad():
        bn.weight.copy_(0.5 + rand(rng, bn.num_features))
        bn.bias.copy_(randn(rng, bn.num_features))

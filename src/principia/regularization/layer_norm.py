r"""Layer normalization: every sample is centered and scaled by its own features.

To normalize is to subtract a mean and to divide by a standard deviation; what differs is over which
entries they are taken. Batch normalization takes them over the samples of a batch, for each
feature: a sample's output then depends on its company, and with two samples it is little more than
a sign. Layer normalization takes them over the features of one sample. It needs no company, works
alike in training and in use, and puts every sample on the same sphere, of radius $\sqrt d$ in the
hyperplane of sum 0. The length of a sample, and a change of all weights in common, are forgotten;
the length of a single row of the weights is not. RMS normalization leaves the centering out.

$$ \bar f = \frac{f-\mathbb E f}{\sqrt{\mathrm{Var}\,f}}, \quad f\mapsto\mu+\gamma\bar f, \quad
\mathrm{LN}(x)_i = \beta_i+\gamma_i\,\frac{x_i-m}{\sqrt{\delta+s^2}}, \quad
m = \frac1d\sum_ix_i,\ s^2 = \frac1d\sum_i(x_i-m)^2 $$

$$ \mathrm{LN}\big((aW+1v^\top)\,cx\big) = \mathrm{LN}(Wx),\ a,c>0, \quad
\Vert\mathrm{LN}(x)\Vert = \sqrt d,\ 1^\top\mathrm{LN}(x) = 0, \quad
\mathrm{LN}(x) = \mathrm{RMS}(x-m) $$

Symbols:
    $f, \bar f$: values to normalize, and what `normalize` makes of them, over the axes `dims`
    $\mu, \gamma$: mean and scale that the values get instead, learned
    $\mathrm{LN}$: layer normalization, `nn.LayerNorm`; $\gamma, \beta$ are its `weight` and `bias`
    $m, s^2$: mean and biased variance over the $d$ features of one sample
    $\delta$: a small number inside the root, `eps`; the laws below it are those of $\delta=0$,
        $\gamma_i=1$, $\beta_i=0$
    $a, c, v$: factors of all weights and of a sample, a shift of all rows: `invariance_table`
    $\mathrm{RMS}$: $x_i\mapsto x_i/\sqrt{\delta+\frac1d\sum_jx_j^2}$, `nn.RMSNorm`

References:
    Ioffe and Szegedy (2015), Batch normalization: accelerating deep network training by reducing
        internal covariate shift. ICML. arXiv:1502.03167
    Ba, Kiros and Hinton (2016), Layer normalization. arXiv:1607.06450
    Wu and He (2018), Group normalization. ECCV. arXiv:1803.08494
    Zhang and Sennrich (2019), Root mean square layer normalization. NeurIPS. arXiv:1910.07467
"""

__all__ = ["normalize", "NormMLP", "invariance_table"]

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, final

import plotly.graph_objects as go
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.domains import Count, NonNegative, Positive, Range
from principia.lab.draws import drawn_anew, randn
from principia.lab.errors import UsageError, refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import checked
from principia.lab.learners import learner
from principia.lab.pairs import paired
from principia.lab.relations import at_least, at_most, equal, every, identical
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, Supervised, accuracy, fit
from principia.networks.activations import ACTIVATIONS
from principia.networks.mlp import ActivationName, Sizes
from principia.regularization.initialization import initialize_

NormName = Literal["none", "batch", "layer"]
Samples = Annotated[int, Range(2, 200)]
Dim = Annotated[int, Range(2, 300)]
Several = Annotated[int, Range(8, 300)]  # enough that neither few units nor few samples hide it
TINY = 1e-12  # torch's batch norm refuses 0
INVARIANT: Mapping[str, set[str]] = {  # Ba, Kiros and Hinton 2016, table 1
    "layer": {
        "all weights scaled", "all rows shifted", "all samples scaled", "one sample scaled",
    },
    "batch": {
        "all weights scaled", "one row scaled", "all samples scaled", "all samples shifted",
    },
}
NAMES: Mapping[NormName, str] = {"batch": "batch norm", "layer": "layer norm", "none": "no norm"}
BATCHES = (2, 8, 64)


@checked
def normalize(
    x: Float[Tensor, "..."], dims: int | Sequence[int], *, eps: NonNegative = 1e-5
) -> Float[Tensor, "..."]:
    r"""Subtracts the mean over some axes and divides by $\sqrt{\delta+s^2}$, $s^2$ their variance.

    The variance is the biased one, a mean of squares. Over the last axis this is layer
    normalization, over the first batch normalization, over (2, 3) of pictures (B, C, H, W) instance
    normalization.

    Args:
        x: Values.
        dims: The axis, or the axes, over which mean and variance are taken.
        eps: What is added to the variance; 0 only where no variance is 0.

    Example:
        >>> normalize(torch.tensor([[1.0, 3.0], [0.0, 100.0]]), -1)
        tensor([[-1.0000,  1.0000],
                [-1.0000,  1.0000]])
    """
    axes = (dims,) if isinstance(dims, int) else tuple(dims)
    here = {axis % x.ndim for axis in axes if -x.ndim <= axis < x.ndim}
    if not axes or len(here) < len(axes):
        raise refuse("normalize", "dims", f"different axes of the {x.ndim} of x", dims)
    entries = torch.Size(x.shape[axis] for axis in here).numel()
    if entries < 2:
        hint = "The variance of a single entry is 0: name more axes, or give x more features."
        raise refuse("normalize", "dims", "axes with 2 or more entries together", dims, hint)
    variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
    return (x - mean) / (eps + variance).sqrt()


@final
class NormMLP(nn.Module):
    r"""Composes layers $x\mapsto\varphi(\mathrm{norm}(Wx+b))$; the last one is affine.

    Before batch normalization there is no $b$, which would have no effect.

    Shapes:
        x: (..., sizes[0]); returns (..., sizes[-1])

    Args:
        sizes: Width of the input, of each hidden layer, of the output.
        norm: What stands between a hidden layer and $\varphi$: `nn.LayerNorm`, `nn.BatchNorm1d`, or
            nothing.
        activation: Name of $\varphi$ in `ACTIVATIONS`.
        rng: Draws the weights by He's rule, the same ones for every norm; by default torch's
            global generator.

    Example:
        >>> net = NormMLP([784, 100, 100, 10], rng=torch.Generator().manual_seed(0))
        >>> logits = net(torch.rand(64, 784))
        >>> logits.shape, net.norms[0].normalized_shape
        (torch.Size([64, 10]), (100,))
    """

    @checked
    def __init__(
        self, sizes: Sizes, *, norm: NormName = "layer", activation: ActivationName = "relu",
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if len(sizes) < 2:
            hint = "Name the width of the input and that of the output."
            raise refuse("NormMLP", "sizes", "two or more values", sizes, hint)
        if norm == "layer" and 1 in sizes[1:-1]:
            hint = "Layer normalization makes 0 of a single feature, whose variance is 0."
            raise refuse("NormMLP", "sizes", "2 or more for every hidden layer", sizes, hint)
        self.norm, self.activation = norm, activation
        self.phi = ACTIVATIONS[activation].module()
        made = {"none": lambda m: nn.Identity(), "batch": nn.BatchNorm1d, "layer": nn.LayerNorm}
        # what a list of modules gives back, its type does not tell
        self.layers: Sequence[nn.Linear] = nn.ModuleList(  # type: ignore[assignment]
            nn.utils.skip_init(nn.Linear, n, m, bias=norm != "batch" or number == len(sizes) - 1)
            for number, (n, m) in enumerate(itertools.pairwise(sizes), start=1)
        )
        self.norms = nn.ModuleList(made[norm](m) for m in sizes[1:-1])
        for layer in self.layers:
            initialize_(layer.weight, "he", rng=rng)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "*B n"]) -> Float[Tensor, "*B m"]:
        """Compute the output of the last layer."""
        if x.shape[-1:] != (self.layers[0].in_features,):
            n, shape = self.layers[0].in_features, tuple(x.shape)
            raise UsageError(f"NormMLP: x must have {n} features in its last axis; got {shape}.")
        rows = x.shape[:-1].numel()
        if self.norm == "batch" and self.training and rows == 1:
            hint = "A batch of one has variance 0: choose another batch size, or norm='layer'."
            raise refuse("NormMLP", "x", "2 or more rows while batch norm is trained", rows, hint)
        for layer, norm in zip(self.layers, self.norms, strict=False):  # the last has no norm
            z = layer(x)
            x = self.phi(norm(z.reshape(rows, layer.out_features)).view_as(z))
        return self.layers[-1](x)


@checked
@torch.no_grad()
def invariance_table(
    norm: Callable[[Tensor], Tensor], units: Count, *, inputs: Count = 20, rows: Count = 32,
    factor: Positive = 3.0, rng: torch.Generator | None = None,
) -> dict[str, float]:
    r"""Measures by how much changes of weights or data change the normalized sums $xW^\top$.

    Args:
        norm: A layer, or any function of sums (rows, units) in float64; it is left as it is.
        units: Rows of the weights.
        inputs: Features of a sample.
        rows: Samples.
        factor: By what all weights, a row of them, all samples or one of them are multiplied.
        rng: Draws weights, samples and shifts; by default torch's global generator.

    Returns:
        For each change the largest difference of an output, in units of their root mean square.

    Example:
        >>> layer = invariance_table(nn.LayerNorm(50, eps=1e-12), 50)
        >>> [name for name, residual in layer.items() if residual < 1e-8]
        ['all weights scaled', 'all rows shifted', 'all samples scaled', 'one sample scaled']
    """
    if isinstance(norm, nn.Module):  # one that counts its batches must not count these
        norm = copy.deepcopy(norm).double()
    draws = (rows, inputs), (units, inputs), (2, inputs)
    x, W, (v, u) = (torch.randn(one, generator=rng, dtype=torch.float64) for one in draws)
    first_row, first_sample = (torch.ones(n, 1, dtype=torch.float64) for n in (units, rows))
    first_row[0] = first_sample[0] = factor
    try:
        before = norm(x @ W.mT)
    except (RuntimeError, ValueError) as error:
        domain = f"a function of tensors of shape ({rows}, {units})"
        raise refuse("invariance_table", "norm", domain, norm, f"It said: {error}") from None
    changes = {
        "all weights scaled": (x, factor * W), "all rows shifted": (x, W + v),
        "one row scaled": (x, first_row * W), "all samples scaled": (factor * x, W),
        "all samples shifted": (x + u, W), "one sample scaled": (first_sample * x, W),
    }
    size = before.square().mean().sqrt()
    return {
        name: float((norm(x @ W.mT) - before).abs().max() / size)
        for name, (x, W) in changes.items()
    }


@learner
def network(
    inputs: Count, outputs: Count, rng: torch.Generator, *,
    hidden: tuple[Annotated[int, Range(2, 10_000)], ...] = (64, 64), norm: NormName = "layer",
) -> nn.Module:
    """Builds a network with normalized hidden layers for any table.

    Args:
        hidden: Widths of the hidden layers.
        norm: What is done to the sums of a hidden layer before they are bent.
    """
    return NormMLP([inputs, *hidden, outputs], norm=norm, rng=rng)


@claim(control={"over": "samples"}, source="Ba, Kiros and Hinton 2016, eqs. 3 and 4; PyTorch")
def torch_is_the_formula(
    seed: Seed, *, samples: Samples = 16, dim: Dim = 32,
    eps: Annotated[float, Range(1e-6, 1)] = 1e-5, over: Literal["features", "samples"] = "features",
) -> Evidence:
    r"""`nn.LayerNorm` is $\beta+\gamma\,(x-m)/\sqrt{\delta+s^2}$, with $m,s^2$ of each sample."""
    rng, axis = seed.torch(), -1 if over == "features" else 0
    x, weights = (3 + 2 * randn(rng, samples, dim)).requires_grad_(), randn(rng, samples, dim)
    layer = drawn_anew(nn.LayerNorm(dim, eps=eps), rng)
    plain = normalize(x, axis, eps=eps)

    def with_gradients(y: Tensor) -> tuple[Tensor, ...]:
        return y, *torch.autograd.grad((weights * y).sum(), (x, layer.weight, layer.bias))

    theirs, ours = map(with_gradients, (layer(x), layer.bias + layer.weight * plain))
    net, batch_net = (
        drawn_anew(NormMLP([dim, 8, 8, 3], norm=norm, rng=rng), rng)
        for norm in ("layer", "batch")
    )
    pictures = randn(rng, samples, 6, 4, 4)
    plain, variance = plain.detach(), x.detach().var(dim=-1, correction=0)
    return every({
        **{
            name: identical(*pair) for name, *pair in
            zip(("values", "gradient of x", "of γ", "of β"), theirs, ours, strict=True)
        },
        "mean": equal(plain.mean(dim=-1), 0, tol=1e-12, why="rounding of sums of numbers around 1"),
        "variance": equal(
            plain.var(dim=-1, correction=0), variance / (eps + variance), tol=1e-12,
            why="s²/(δ+s²), 1 but for δ; rounding of sums of numbers around 1",
        ),
        "NormMLP": identical(net(x), _by_hand(net, x, axis)),
        "NormMLP with batch norm": identical(batch_net(x), _by_hand(batch_net, x, 0)),
        "one group": identical(functional.group_norm(pictures, 1), normalize(pictures, (1, 2, 3))),
        "instances": identical(functional.instance_norm(pictures), normalize(pictures, (-2, -1))),
    })


@claim(control={"norm": "batch"}, source="Ba, Kiros and Hinton 2016, sec. 3")
def independent_of_batch(
    seed: Seed, *, dim: Dim = 16, units: Several = 32, others: Several = 63,
    norm: Literal["layer", "batch"] = "layer",
) -> Evidence:
    r"""Layer norm gives a sample the same output alone, in any batch, in training and in use."""
    rng = seed.torch()
    net = NormMLP([dim, units, units, 4], norm=norm, rng=rng).double().requires_grad_(False)
    x = randn(rng, others + 1, dim)
    alone, among = net.eval()(x[:1]), net(x)[:1]
    fewest = 2 if norm == "batch" else 1  # a batch of one has no variance
    sizes = sorted({fewest, 2, 3, 5, 7, (others + 1) // 2, others + 1})
    trained = torch.stack([net.train()(x[:size])[0] for size in sizes])
    return every({
        "among others": identical(trained[1:], trained[:1].expand_as(trained[1:])),
        "in training": identical(trained, alone.expand_as(trained)).drawn(
            Series("in a batch, training mode", sizes, trained[:, 0]),
            Series("alone, evaluation mode", [1, others + 1], alone[0, :1].repeat(2), "predicted"),
            x="samples in the batch", y="first output of the first sample", log="x",
        ),
        "in evaluation": identical(among, alone),
    })


@claim(control={"norm": "batch"}, source="Ba, Kiros and Hinton 2016, table 1")
def invariances(
    seed: Seed, *, units: Several = 40, samples: Several = 32,
    factor: Annotated[float, Range(2, 10)] = 3.0, norm: Literal["layer", "batch"] = "layer",
) -> Evidence:
    r"""Layer norm ignores scales of $x$ and $W$ and shifts of $W$, not scales of rows; BN does."""
    layers = {"layer": nn.LayerNorm(units, eps=TINY), "batch": nn.BatchNorm1d(units, eps=TINY)}
    tables = {
        name: invariance_table(
            layer, units, inputs=20, rows=samples, factor=factor, rng=seed.child("draw").torch()
        )
        for name, layer in layers.items()
    }
    parts = {
        f"{expected} norm, {change}": (
            at_most(residual, 1e-8, why="δ = 1e-12 against variances around 20, and rounding")
            if change in INVARIANT[expected] else
            at_least(residual, 0.1, why="a change that is seen, of outputs around 1")
        )
        for expected, measured in (("layer", norm), ("batch", "batch"))
        for change, residual in tables[measured].items()
    }
    floor = 1e-17  # so that no change at all has a place on a logarithmic axis
    across, up = tables["batch"], tables[norm]
    return every(parts).drawn(
        *(
            Series(name, [max(across[name], floor)], [max(up[name], floor)], "other", "points")
            for name in up
        ),
        Series("unchanged: below", [floor, 100], [1e-8, 1e-8], "bound"),
        Series("unchanged: left", [1e-8, 1e-8], [floor, 100], "bound"),
        x="change with batch norm", y=f"change with {norm} norm", log="xy",
    )


@claim(control={"norm": "rms"}, source="Ba, Kiros and Hinton 2016, eq. 4: norm and sum of it")
def lives_on_a_sphere(
    seed: Seed, *, samples: Annotated[int, Range(10, 1000)] = 200, dim: Dim = 16,
    norm: Literal["layer", "rms"] = "layer",
) -> Evidence:
    r"""A layer-normalized sample has $\Vert y\Vert=\sqrt d$ and $\sum_iy_i=0$."""
    x = 1 + 2 * randn(seed.torch(), samples, dim)
    made = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}[norm]
    y = made(dim, eps=0.0, elementwise_affine=False)(x)
    radius, rounding = dim**0.5, "rounding, of d numbers around 1; δ = 0"
    angles = torch.linspace(0, torch.pi, 100, dtype=torch.float64)
    return every({
        "norm": equal(y.norm(dim=1), radius, tol=1e-8, why=rounding).drawn(
            Series("before", *_along_and_across(x), "other", "points"),
            Series("after", *_along_and_across(y), "measured", "points"),
            Series("radius √d", radius * angles.cos(), radius * angles.sin(), "predicted", "line"),
            x="sum of the features / √d", y="length of what is left",
        ),
        "sum": equal(y.sum(dim=1), 0, tol=1e-8, why=rounding),
        "normalize": identical(normalize(x, -1, eps=0.0), y),
    })


@claim(control={"center": False}, source="Zhang and Sennrich 2019, sec. 3")
def rms_norm_is_ln_on_centered(
    seed: Seed, *, samples: Samples = 32, dim: Dim = 16,
    largest_mean: Annotated[float, Range(0.1, 100)] = 3.0, center: bool = True,
) -> Evidence:
    r"""Layer norm is RMS norm of the centered sample: $\mathrm{LN}(x)=\mathrm{RMS}(x-m)$."""
    means = torch.linspace(0, largest_mean, 13, dtype=torch.float64)
    x = means[:, None, None] + randn(seed.torch(), samples, dim)
    layer_norm, rms_norm = (
        made(dim, eps=1e-5, elementwise_affine=False) for made in (nn.LayerNorm, nn.RMSNorm)
    )
    layer, plain = layer_norm(x), rms_norm(x)
    rms = rms_norm(x - x.mean(dim=-1, keepdim=True)) if center else plain
    gaps, plain_gaps = ((one - layer).square().mean(dim=(1, 2)).sqrt() for one in (rms, plain))
    return identical(rms, layer).drawn(
        Series("RMSNorm, centered" if center else "RMSNorm", means, gaps),
        Series("RMSNorm, not centered", means, plain_gaps, "other", "line"),
        x="mean of the features, whose variance is 1", y="root mean square gap to LayerNorm",
    )


@experiment(
    reaches={"layer_norm_spread": at_most_goal(0.01), "batch_norm_loss_low": at_least_goal(0.01)},
    floor={"layer_norm_at_2": at_least_goal(0.94), "batch_norm_loss_low": at_least_goal(0.01)},
    source="Wu and He 2018, fig. 1 and table 2: batch norm loses accuracy with small batches, "
    "which norms over one sample keep",
)
def ln_small_batch(
    run: Run, *, pairs: Annotated[int, Range(3, 10)] = 3,
    width: Annotated[int, Range(16, 512)] = 100, lr: Annotated[float, Range(0.01, 1)] = 0.1,
) -> None:
    """Trains nets with batch norm, layer norm and (full budget) none on batches of 2, 8 and 64.

    Each network learns from 6,016 pictures of clothes, since steps on batches of 2 take long, or
    from 1,024 small digits in a quick run.

    Args:
        pairs: How many starts and subsets of the data, each shared by all networks.
        width: Units of each of the two hidden layers.
        lr: Largest step size on batches of 64; on smaller ones it is as much smaller.
    """
    # rows of which none is left over by a batch, since batch norm cannot learn from one
    x, y, x_test, y_test = digits()
    rows, epochs, norms = 16 * 64, 2, list(NAMES)[:2]
    if run.full:
        x, y = fashion("train", data_dir=run.data_dir)
        x_test, y_test = fashion("test", data_dir=run.data_dir)
        rows, epochs, norms = 94 * 64, 5, list(NAMES)
    x, x_test = x.flatten(1), x_test.flatten(1)
    found: dict[tuple[NormName, int], list[float]] = {}
    for pair, norm, batch in itertools.product(range(pairs), norms, BATCHES):
        seed = run.seed.child(f"pair {pair}")
        some = torch.randperm(len(x), generator=seed.child("rows").torch())[:rows]
        net = NormMLP([x.shape[1], width, width, 10], norm=norm, rng=seed.child("start").torch())
        peak = lr * batch / max(BATCHES)
        history = fit(
            net, (x[some], y[some]), Supervised(functional.cross_entropy),
            torch.optim.SGD(net.parameters(), lr=peak, momentum=0.9, fused=True), epochs=epochs,
            batch_size=batch, parts=[OneCycle(peak)], validation=(x_test, y_test),
            metrics={"accuracy": accuracy}, seed=seed.child("batches"), run=run,
            name=f"{norm}-{batch}-{pair}",
        ).history
        found.setdefault((norm, batch), []).append(history[-1]["validation_accuracy"])
        if (pair, norm, batch) == (0, "layer", min(BATCHES)):
            run.keep(net)
    means = {arm: sum(ones) / pairs for arm, ones in found.items()}
    run.record(**{
        f"{NAMES[norm].replace(' ', '_')}_at_{batch}": one for (norm, batch), one in means.items()
    })
    layer = [means["layer", batch] for batch in BATCHES]
    loss = paired(found["batch", max(BATCHES)], found["batch", min(BATCHES)])
    gain = paired(found["layer", min(BATCHES)], found["batch", min(BATCHES)])
    run.record(layer_norm_spread=max(layer) - min(layer), **loss.metrics("batch_norm_loss"))
    run.record(**gain.metrics("layer_norm_gain"))
    run.figure("batch_sizes", _accuracy_against_batch_size(found))
    arms = "batch norm, batches of 2", "layer norm, batches of 2"
    run.figure("pairs", gain.figure("test accuracy", arms))


def _accuracy_against_batch_size(found: Mapping[tuple[NormName, int], list[float]]) -> go.Figure:
    """Draw the mean of the pairs as a line for each norm, and every network as a point."""
    places, nets = zip(*(
        (batch, score) for (_, batch), scores in found.items() for score in scores
    ), strict=True)
    curves = [
        Series(name, BATCHES, [sum(found[norm, one]) / len(found[norm, one]) for one in BATCHES],
               "other", "line")
        for norm, name in NAMES.items() if (norm, BATCHES[0]) in found
    ]
    every_net = Series("single networks", places, nets, style="points")
    picture = Picture((*curves, every_net), "samples in a batch", "test accuracy", "x")
    return figures.draw(picture).update_xaxes(tickvals=BATCHES)


def _by_hand(net: Any, x: Tensor, axis: int) -> Tensor:
    """Compute a network with the formula instead of its norms, over an axis of choice."""
    for layer, norm in zip(net.layers, net.norms, strict=False):
        x = (norm.bias + norm.weight * normalize(layer(x), axis)).relu()
    return net.layers[-1](x)


def _along_and_across(x: Tensor) -> tuple[Tensor, Tensor]:
    """Give the component along (1, ..., 1) and the length of the rest."""
    return x.mean(dim=1) * x.shape[1] ** 0.5, (x - x.mean(dim=1, keepdim=True)).norm(dim=1)

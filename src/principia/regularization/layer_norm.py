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

__all__ = ["normalize", "invariance_table"]

import copy
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from principia.lab.params import NonNegativeFloat, PositiveFloat, PositiveInt, checked, usage_error


@checked
def normalize(
    x: Float[Tensor, "..."], dims: int | Sequence[int], *, eps: NonNegativeFloat = 1e-5
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
        raise usage_error("normalize", "dims", f"different axes of the {x.ndim} of x", dims)
    entries = torch.Size(x.shape[axis] for axis in here).numel()
    if entries < 2:
        hint = "The variance of a single entry is 0: name more axes, or give x more features."
        raise usage_error("normalize", "dims", "axes with 2 or more entries together", dims, hint)
    variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
    return (x - mean) / (eps + variance).sqrt()


@checked
@torch.no_grad()
def invariance_table(
    norm: Callable[[Tensor], Tensor], units: PositiveInt, *, inputs: PositiveInt = 20,
    rows: PositiveInt = 32, factor: PositiveFloat = 3.0, rng: torch.Generator | None = None,
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
        raise usage_error("invariance_table", "norm", domain, norm, f"It said: {error}") from None
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

r"""Many tasks, few labels: what a network learns from other questions, or from none.

A trunk that several heads read must find features that serve them all: each task adds its gradient
to the trunk, and none touches the head of another. Where the tasks have a subspace in common, their
samples are pooled to find it; where they have nothing in common, the trunk is a bottleneck and does
harm. Labels may be missing, one task here and another there: a sample counts for the tasks that it
is labelled for. Inputs without any label teach as well: to repair spoiled inputs is a task too, and
the code that it leaves needs few labels, as long as what the labels ask for is what the inputs vary
by; a direction of little variance is lost in the code, with the labels that depend on it.

$$ L(\theta,\theta_1,\dots,\theta_K) = \sum_kw_k\ell_k, \quad
\ell_k = \frac1{\lvert S_k\rvert}\sum_{i\in S_k}\ell\big(h_k(t(x_i)),y_{ik}\big) $$

$$ \nabla_\theta L = \sum_kw_k\nabla_\theta\ell_k, \quad
\nabla_{\theta_k}L = w_k\nabla_{\theta_k}\ell_k $$

$$ L = \sum_k\frac1{2\sigma_k^2}\ell_k+\ln\sigma_k, \quad
\frac{\partial L}{\partial\ln\sigma_k} = 1-\frac{\ell_k}{\sigma_k^2} $$

$$ L = \frac1{\lvert S\rvert}\sum_{i\in S}\ell\big(h(e(x_i)),y_i\big)
+\alpha\,\frac1{ND}\sum_{i=1}^N\Vert d(e(m_i\odot x_i))-x_i\Vert^2 $$

Symbols:
    $t, \theta$: trunk of `SharedTrunk` and its parameters
    $h_k, \theta_k$: head of task $k$, of $K$ tasks, and its parameters
    $\ell_k, w_k$: loss of task $k$ and its weight, `losses` and `weights` of `JointLoss`
    $S_k$: samples that have a label for task $k$, `labelled`
    $\sigma_k$: learned weights, the exponentials of `SharedTrunk.log_sigma`
    $e, d, h$: encoder, decoder and head of `SemiSupervised`
    $N, D$: samples and entries of an input; the squared error is a mean over both
    $m_i$: 0 where an entry of the input is spoiled, else 1; spoiled is a share `corruption`
    $\alpha$: weight of the reconstruction, `alpha` of `SemiSupervisedLoss`

References:
    Baldi and Hornik (1989), Neural networks and principal component analysis: learning from
        examples without local minima. Neural Networks 2(1). doi:10.1016/0893-6080(89)90014-2
    Caruana (1997), Multitask learning. Machine Learning 28(1). doi:10.1023/A:1007379606734
    Vincent, Larochelle, Bengio and Manzagol (2008), Extracting and composing robust features with
        denoising autoencoders. International Conference on Machine Learning.
        doi:10.1145/1390156.1390294
    Kendall, Gal and Cipolla (2018), Multi-task learning using uncertainty to weigh losses for scene
        geometry and semantics. Computer Vision and Pattern Recognition. arXiv:1705.07115
    Tripuraneni, Jin and Jordan (2021), Provable meta-learning of linear representations.
        International Conference on Machine Learning. arXiv:2002.11684
"""

__all__ = [
    "SharedTrunk", "JointLoss", "SemiSupervised", "SemiSupervisedLoss", "masked_loss", "labelled",
    "shared_subspace",
]

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, final

import torch
from jaxtyping import Bool, Float, Num, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.params import (
    NonNegativeFloat,
    PositiveInt,
    Range,
    checked,
    suggestion,
    usage_error,
)

Loss = Callable[[Tensor, Tensor], Tensor]
Batch = tuple[Tensor, ...]
MISSING = -100  # torch's own mark of a class that nobody knows, its `ignore_index`


@final
class SharedTrunk(nn.Module):
    """Answers several questions about an input from the same features.

    Shapes:
        x: (B, ...); returns what each head makes of the features, by its name

    Args:
        trunk: Makes features of inputs.
        heads: Make outputs of the features, one a task. Torch keeps them by name as attributes, so
            that a name has no dot and is not one of its own, such as "type".
        learn_weights: Whether the weights of the tasks are learned too.

    Example:
        >>> model = SharedTrunk(nn.Linear(4, 8), {"kind": nn.Linear(8, 3), "size": nn.Linear(8, 1)})
        >>> {name: tuple(one.shape) for name, one in model(torch.ones(5, 4)).items()}
        {'kind': (5, 3), 'size': (5, 1)}
        >>> objective = JointLoss({"kind": F.cross_entropy, "size": F.mse_loss})
        >>> batch = torch.ones(2, 4), torch.tensor([2, -100]), torch.tensor([[0.5], [1.0]])
        >>> loss = objective(model, batch, torch.Generator())  # ready for fit
        >>> loss.shape
        torch.Size([])
    """

    @checked
    def __init__(
        self, trunk: nn.Module, heads: Mapping[str, nn.Module], *, learn_weights: bool = False
    ) -> None:
        super().__init__()
        if not heads:
            raise usage_error("SharedTrunk", "heads", "one or more modules by name", dict(heads))
        taken = {"", *dir(nn.ModuleDict()), *dir(nn.ParameterDict())}
        for name in heads:
            if name in taken or "." in name:
                domain = "modules by names without a dot that torch's modules have not taken"
                hint = f"Call it {name.replace('.', '_')}_task."
                raise usage_error("SharedTrunk", "heads", domain, name, hint)
        self.trunk, self.heads = trunk, nn.ModuleDict(heads)
        scales = {name: nn.Parameter(torch.zeros(())) for name in heads} if learn_weights else {}
        self.log_sigma = nn.ParameterDict(scales)

    def forward(self, x: Shaped[Tensor, "B ..."]) -> dict[str, Shaped[Tensor, "..."]]:
        """Compute the outputs of all heads."""
        features = self.trunk(x)
        return {name: head(features) for name, head in self.heads.items()}


@final
class JointLoss:
    r"""Adds the losses of several tasks, $\sum_kw_k\ell_k$, each over the samples labelled for it.

    An objective for `fit`: a batch is x and the labels of each task, in the order of `losses`. A
    task without a label in the batch adds 0, and so does its $\ln\sigma_k$ if weights are learned.

    Args:
        losses: Mean loss of outputs and labels, by the names of the heads.
        weights: $w_k$ by name; 1 where none is given.

    Example:
        >>> joint = JointLoss({"a": F.mse_loss, "b": F.mse_loss}, weights={"b": 10.0})
        >>> outputs = {"a": torch.zeros(2), "b": torch.zeros(2)}
        >>> labels = {"a": torch.tensor([1.0, 3.0]), "b": torch.tensor([1.0, torch.nan])}
        >>> joint.terms(outputs, labels)
        {'a': tensor(5.), 'b': tensor(1.)}
    """

    @checked
    def __init__(
        self, losses: Mapping[str, Loss], *, weights: Mapping[str, float] | None = None
    ) -> None:
        self.losses, self.weights = dict(losses), dict(weights or {})
        _need_names("weights", self.weights, self.losses, some=True)
        for name, weight in self.weights.items():
            if not 0 <= weight < math.inf:
                raise usage_error("JointLoss", f"weights[{name!r}]", "in [0, inf)", weight)

    def __call__(self, model: Any, batch: Batch, rng: torch.Generator, /) -> Float[Tensor, ""]:
        """Give the weighted sum for one batch."""
        x, *labels = batch
        if len(labels) != len(self.losses):
            domain = f"x and labels of {len(self.losses)} tasks, {', '.join(self.losses)}"
            raise usage_error("JointLoss", "batch", domain, f"{len(batch)} tensors")
        named = dict(zip(self.losses, labels, strict=True))
        terms = self.terms(model(x), named)
        for name, s in model.log_sigma.items():
            terms[name] = (-2 * s).exp() / 2 * terms[name] + s * labelled(named[name]).any()
        return torch.stack([self.weights.get(k, 1.0) * term for k, term in terms.items()]).sum()

    def terms(
        self, outputs: Mapping[str, Tensor], labels: Mapping[str, Tensor]
    ) -> dict[str, Float[Tensor, ""]]:
        r"""Give each $\ell_k$, before any weight."""
        _need_names("heads", outputs, self.losses)
        _need_names("labels", labels, self.losses)
        return {k: masked_loss(loss, outputs[k], labels[k]) for k, loss in self.losses.items()}


def _need_names(
    what: str, given: Mapping[str, Any], known: Mapping[str, Any], *, some: bool = False
) -> None:
    """Refuse names that are not known, and, unless some are enough, missing ones."""
    odd = next((one for one in given if one not in known), None)
    if odd is not None or not (some or given.keys() == known.keys()):
        hint = suggestion(odd, known) if odd else ""
        domain = f"named like the losses, {', '.join(known)}"
        raise usage_error("JointLoss", what, domain, list(given), hint)


def labelled(y: Num[Tensor, " B *m"]) -> Bool[Tensor, " B"]:
    """Tells which samples have a label: a class that is not -100, or numbers of which none is NaN.

    Example:
        >>> labelled(torch.tensor([3, -100])), labelled(torch.tensor([[0.5, torch.nan], [0, 1]]))
        (tensor([ True, False]), tensor([False,  True]))
    """
    missing = y.isnan() if y.is_floating_point() else y == MISSING
    return ~missing.reshape(len(y), math.prod(y.shape[1:])).any(dim=1)


def masked_loss(
    loss: Loss, outputs: Shaped[Tensor, " B *n"], labels: Num[Tensor, " B *m"]
) -> Float[Tensor, ""]:
    """Measures a loss on the samples that have a label; without any it is 0, and so its gradient.

    Example:
        >>> masked_loss(F.mse_loss, torch.zeros(3), torch.tensor([2.0, torch.nan, 4.0]))
        tensor(10.)
        >>> masked_loss(F.cross_entropy, torch.zeros(2, 5), torch.tensor([-100, -100]))
        tensor(0.)
    """
    known = labelled(labels)
    # selecting, not multiplying by 0: that would turn NaN into NaN
    return loss(outputs[known], labels[known]) if known.any() else outputs[known].sum()


@final
class SemiSupervised(nn.Module):
    """Reads labels off a code from which the inputs can be made again.

    Train all of it by `SemiSupervisedLoss`, or first encoder and decoder by that without labels,
    then the head alone on the codes of the few inputs that have labels.

    Shapes:
        x: (..., n); returns what the head makes of its code

    Args:
        encoder: Makes codes of inputs.
        decoder: Makes inputs of codes.
        head: Makes outputs of codes.

    Example:
        >>> model = SemiSupervised(nn.Linear(4, 2), nn.Linear(2, 4), nn.Linear(2, 3))
        >>> objective = SemiSupervisedLoss(alpha=0.5)
        >>> batch = torch.ones(3, 4), torch.tensor([2, -100, -100])  # one label, three inputs
        >>> loss = objective(model, batch, torch.Generator())
        >>> model(batch[0]).shape, model.reconstruct(batch[0]).shape
        (torch.Size([3, 3]), torch.Size([3, 4]))
    """

    @checked
    def __init__(self, encoder: nn.Module, decoder: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder, self.head = encoder, decoder, head

    def forward(self, x: Float[Tensor, "... n"]) -> Float[Tensor, "..."]:
        """Compute the outputs of the head."""
        return self.head(self.encoder(x))

    def reconstruct(self, x: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        """Compute the inputs from their codes."""
        return self.decoder(self.encoder(x))


@final
class SemiSupervisedLoss:
    r"""Adds $\alpha$ times the loss of repaired inputs to the loss of the labels that there are.

    An objective for `fit`: a batch is x and labels, missing ones marked as in `labelled`, or x
    alone. The head sees whole inputs.

    Args:
        alpha: Weight of the reconstruction.
        corruption: Chance of an entry to be set to 0 before it is encoded.
        supervised: Mean loss of outputs and labels.
        reconstruction: Mean loss of repaired inputs and the whole ones.

    Example:
        >>> model = SemiSupervised(nn.Identity(), nn.Identity(), nn.Flatten(0))
        >>> objective = SemiSupervisedLoss(alpha=2.0, supervised=F.mse_loss)
        >>> x, y = torch.ones(1000, 1), torch.full((1000,), torch.nan)
        >>> round(objective(model, (x, y), torch.Generator().manual_seed(0)).item(), 1)
        1.0
    """

    @checked
    def __init__(
        self, *, alpha: NonNegativeFloat = 1.0,
        corruption: Annotated[float, Range(0, 1, open="high")] = 0.5,
        supervised: Loss = F.cross_entropy, reconstruction: Loss = F.mse_loss,
    ) -> None:
        self.alpha, self.corruption = alpha, corruption
        self.supervised, self.reconstruction = supervised, reconstruction

    def __call__(self, model: Any, batch: Batch, rng: torch.Generator, /) -> Float[Tensor, ""]:
        """Give the loss of one batch; the generator spoils it."""
        x, *labels = batch
        kept = torch.rand(x.shape, generator=rng).to(x.device) >= self.corruption
        total = self.alpha * self.reconstruction(model.reconstruct(x * kept), x)
        for y in labels:
            total = total + masked_loss(self.supervised, model(x), y)
        return total


@checked
def shared_subspace(
    X: Float[Tensor, "*R T n d"], y: Float[Tensor, "*R T n"], k: PositiveInt, *,
    sweeps: PositiveInt = 20
) -> Float[Tensor, "*R T d"]:
    r"""Fits linear tasks $y_t\approx X_tBa_t$ that share $B$: a linear trunk with a head a task.

    Alternating least squares, from the leading directions of the separate fits: the heads given the
    trunk, then the trunk given the heads.

    Args:
        X: Inputs of each task.
        y: Their targets.
        k: Features of the trunk, the rank of all weights together.
        sweeps: How often to alternate.

    Example:
        >>> X = torch.randn(30, 6, 8)  # fewer samples than inputs, but thirty tasks
        >>> w = torch.randn(30, 1) * torch.randn(8)
        >>> found = shared_subspace(X, (X @ w[..., None])[..., 0], k=1)
        >>> torch.allclose(found, w, atol=1e-3)
        True
    """
    T, n, d = X.shape[-3:]
    r = min(k, T, d)
    if n < r or T * n < r * (d + T - r):
        domain = f"{r} or more samples of each task, {r * (d + T - r)} of all, as rank {r} needs"
        raise usage_error("shared_subspace", "X", domain, (T, n), "Lower k or add samples.")
    gram, rhs = X.mT @ X, (X.mT @ y[..., None])[..., 0]  # (*R, T, d, d), (*R, T, d)
    B = torch.linalg.svd(separate_fits(X, y), full_matrices=False)[2][..., :r, :].mT  # (*R, d, r)
    for sweep in range(sweeps + 1):
        inner = B.mT[..., None, :, :] @ gram @ B[..., None, :, :]
        a = torch.linalg.solve(inner, (rhs @ B)[..., None])[..., 0]  # (*R, T, r)
        if sweep < sweeps:  # the trunk: sum_t (X_t' X_t) B a_t a_t' = sum_t X_t' y_t a_t'
            left = torch.einsum("...tij,...tp,...tq->...ipjq", gram, a, a)
            right = torch.einsum("...ti,...tp->...ip", rhs, a)
            B = torch.linalg.solve(left.flatten(-2).flatten(-3, -2), right.flatten(-2)[..., None])
            B = torch.linalg.qr(B.view(right.shape))[0]
    return a @ B.mT  # type: ignore[reportPossiblyUnbound]


def separate_fits(X: Tensor, y: Tensor) -> Tensor:
    """Fit each task alone by least squares, the shortest weights where several fit."""
    return torch.linalg.lstsq(X, y[..., None], driver="gelsd").solution[..., 0]

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

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, final

import torch
from jaxtyping import Bool, Float, Num, Shaped
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import LBFGS, Adam

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.mnist import embedded_mnist, mnist
from principia.lab.domains import Count, NonNegative, Range
from principia.lab.draws import rand, randn
from principia.lab.errors import refuse, suggestion
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, experiment
from principia.lab.knobs import checked
from principia.lab.pairs import paired
from principia.lab.relations import at_least, at_most, equal, estimates, every, identical, never
from principia.lab.seeds import Seed
from principia.lab.training import OneCycle, fit
from principia.networks.mlp import MLP
from principia.optimization.curriculum import ParallelMLP

Loss = Callable[[Tensor, Tensor], Tensor]
Batch = tuple[Tensor, ...]
MISSING = -100  # torch's own mark of a class that nobody knows, its `ignore_index`
INPUTS = 20  # of the linear tasks
NOISY, DRAWS = 200, 30  # of the claim about unlabelled data: inputs, and draws of everything
SPAN = 10_000  # pictures without labels, at full budget


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
            raise refuse("SharedTrunk", "heads", "one or more modules by name", dict(heads))
        taken = {"", *dir(nn.ModuleDict()), *dir(nn.ParameterDict())}
        for name in heads:
            if name in taken or "." in name:
                domain = "modules by names without a dot that torch's modules have not taken"
                hint = f"Call it {name.replace('.', '_')}_task."
                raise refuse("SharedTrunk", "heads", domain, name, hint)
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
                raise refuse("JointLoss", f"weights[{name!r}]", "in [0, inf)", weight)

    def __call__(self, model: Any, batch: Batch, rng: torch.Generator, /) -> Float[Tensor, ""]:
        """Give the weighted sum for one batch."""
        x, *labels = batch
        if len(labels) != len(self.losses):
            domain = f"x and labels of {len(self.losses)} tasks, {', '.join(self.losses)}"
            raise refuse("JointLoss", "batch", domain, f"{len(batch)} tensors")
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
        self, *, alpha: NonNegative = 1.0,
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
    X: Float[Tensor, "*R T n d"], y: Float[Tensor, "*R T n"], k: Count, *, sweeps: Count = 20
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
        >>> X = torch.randn(10, 6, 8)  # fewer samples than inputs, but ten tasks
        >>> w = torch.randn(10, 1) * torch.randn(8)
        >>> found = shared_subspace(X, (X @ w[..., None])[..., 0], k=1)
        >>> torch.allclose(found, w, atol=1e-3)
        True
    """
    T, n, d = X.shape[-3:]
    r = min(k, T, d)
    if n < r or T * n < r * (d + T - r):
        domain = f"{r} or more samples of each task, {r * (d + T - r)} of all, as rank {r} needs"
        raise refuse("shared_subspace", "X", domain, (T, n), "Lower k or add samples.")
    gram, rhs = X.mT @ X, (X.mT @ y[..., None])[..., 0]  # (*R, T, d, d), (*R, T, d)
    B = torch.linalg.svd(_separate(X, y), full_matrices=False)[2][..., :r, :].mT  # (*R, d, r)
    for sweep in range(sweeps + 1):
        inner = B.mT[..., None, :, :] @ gram @ B[..., None, :, :]
        a = torch.linalg.solve(inner, (rhs @ B)[..., None])[..., 0]  # (*R, T, r)
        if sweep < sweeps:  # the trunk: sum_t (X_t' X_t) B a_t a_t' = sum_t X_t' y_t a_t'
            left = torch.einsum("...tij,...tp,...tq->...ipjq", gram, a, a)
            right = torch.einsum("...ti,...tp->...ip", rhs, a)
            B = torch.linalg.solve(left.flatten(-2).flatten(-3, -2), right.flatten(-2)[..., None])
            B = torch.linalg.qr(B.view(right.shape))[0]
    return a @ B.mT  # type: ignore[reportPossiblyUnbound]


def _separate(X: Tensor, y: Tensor) -> Tensor:
    """Fit each task alone by least squares, the shortest weights where several fit."""
    return torch.linalg.lstsq(X, y[..., None], driver="gelsd").solution[..., 0]


def _need_names(
    what: str, given: Mapping[str, Any], known: Mapping[str, Any], *, some: bool = False
) -> None:
    """Refuse names that are not known, and, unless some are enough, missing ones."""
    odd = next((one for one in given if one not in known), None)
    if odd is not None or not (some or given.keys() == known.keys()):
        hint = suggestion(odd, known) if odd else ""
        domain = f"named like the losses, {', '.join(known)}"
        raise refuse("JointLoss", what, domain, list(given), hint)


@claim(control={"heads": "shared"}, source="Caruana 1997; Kendall, Gal and Cipolla 2018")
def trunk_gradient_adds(
    seed: Seed, *, tasks: Annotated[int, Range(2, 8)] = 3,
    width: Annotated[int, Range(2, 200)] = 20, samples: Annotated[int, Range(1, 200)] = 50,
    heads: Literal["own", "shared"] = "own",
) -> Evidence:
    r"""$\nabla_\theta\sum_kw_k\ell_k=\sum_kw_k\nabla_\theta\ell_k$; heads see only their own."""
    rng, parts = seed.torch(), {}
    trunk = MLP([8, width, width], activation="tanh", out_activation="tanh", rng=rng).double()
    own = [MLP([width, 4], rng=rng).double() for _ in range(tasks)]
    nets = {f"task {k}": one if heads == "own" else own[0] for k, one in enumerate(own)}
    x, values = randn(rng, samples, 8), randn(rng, tasks, samples, 4)
    labels = [v if k % 2 else v.argmax(dim=1) for k, v in enumerate(values)]
    losses = {name: (F.cross_entropy, F.mse_loss)[k % 2] for k, name in enumerate(nets)}
    w, s = 0.5 + rand(rng, tasks), randn(rng, tasks) / 2
    joint = JointLoss(losses, weights=dict(zip(nets, w.tolist(), strict=True)))
    each_alone = zip(losses.values(), nets.values(), labels, strict=True)
    alone = [loss(net(trunk(x)), y) for loss, net, y in each_alone]
    apart, heads_apart = (
        torch.stack([_gradient(*pair) for pair in zip(alone, modules, strict=True)])
        for modules in ([trunk] * tasks, nets.values())
    )
    for learned in (False, True):
        model = SharedTrunk(trunk, nets, learn_weights=learned).double()
        for number, one in enumerate(model.log_sigma.values()):
            one.data.copy_(s[number])
        loss = joint(model, (x, *labels), rng)
        each = w * (-2 * s).exp() / 2 if learned else w
        together, added, kind = _gradient(loss, trunk), each @ apart, ("fixed", "learned")[learned]
        ends = [added.min(), added.max()]
        parts[f"trunk, {kind} weights"] = _exact(together, added).drawn(
            Series("entries of the trunk", added, together),
            Series("equal", ends, ends, "predicted"),
            x="weighted sum of the gradients of single tasks", y="gradient of the joint loss",
        )
        found = torch.stack([_gradient(loss, net) for net in nets.values()])
        parts[f"heads, {kind} weights"] = _exact(found, each[:, None] * heads_apart)
    slopes = torch.stack(torch.autograd.grad(loss, [*model.log_sigma.values()]))
    parts["ln σ"] = _exact(slopes, w * (1 - torch.stack(alone) / (2 * s).exp()))
    return every(parts)


@claim(control={"tasks_are": "unrelated"}, source="Tripuraneni, Jin and Jordan 2021")
def shared_subspace_helps(
    seed: Seed, *, tasks: Annotated[int, Range(20, 60)] = 30,
    samples: Annotated[int, Range(25, 35)] = 25, k: Annotated[int, Range(1, 3)] = 2,
    noise: Annotated[float, Range(0.05, 0.5)] = 0.3,
    tasks_are: Literal["related", "unrelated"] = "related",
) -> Evidence:
    r"""Tasks $w_t\in$ one $k$-dimensional subspace: fit together they err far less than alone."""
    rng, draws, n = seed.torch(), 20, samples
    basis = torch.linalg.qr(randn(rng, draws, INPUTS, k if tasks_are == "related" else INPUTS))[0]
    w = F.normalize(randn(rng, draws, tasks, basis.shape[-1]) @ basis.mT, dim=-1)
    X = randn(rng, draws, tasks, n, INPUTS)
    y = (X @ w[..., None])[..., 0] + noise * randn(rng, draws, tasks, n)
    few = sorted({1, 2, 4, 8, 16, tasks})
    pooled = torch.stack([
        (shared_subspace(X[:, :T], y[:, :T], k) - w[:, :T]).square().sum(dim=-1).mean(dim=1)
        for T in few
    ])  # (counts, draws)
    alone = (_separate(X, y) - w).square().sum(dim=-1).mean(dim=1)
    ratio = pooled[-1] / alone
    mean, error = float(ratio.mean()), _standard_error(ratio)
    # the mean of an inverse Wishart matrix
    theory, known = (noise**2 * r / (n - r - 1) for r in (INPUTS, k))
    return every({
        "joint error over separate, and 3 standard errors": at_most(
            mean + 3 * error, 0.2, why="a fifth: the pooled samples fit few weights a task"
        ).drawn(
            Series("joint fit", few, pooled.mean(dim=1), error=_standard_error(pooled)),
            Series("separate fits", few, alone.mean().expand(len(few)), "other", "line"),
            Series("separate, predicted", few, [theory] * len(few), "predicted"),
            Series("subspace known", few, [known] * len(few), "bound"),
            x="tasks", y="squared error of the weights of a task", log="xy",
        ),
        "error of separate fits": estimates(
            alone.mean(), theory, error=_standard_error(alone), why="mean of independent draws"
        ),
    })


@claim(control={"mask": "off"}, source="by construction")
def masked_tasks_are_ignored(
    seed: Seed, *, missing: Annotated[float, Range(0.05, 0.95)] = 0.4,
    samples: Annotated[int, Range(20, 500)] = 40, width: Annotated[int, Range(2, 100)] = 16,
    alpha: Annotated[float, Range(0, 10)] = 2.0, mask: Literal["on", "off"] = "on",
) -> Evidence:
    r"""Missing labels give neither loss nor gradient; a task without any label adds 0, not NaN."""
    rng, losses = seed.torch(), {"kind": F.cross_entropy, "size": F.mse_loss}
    nets = {"kind": MLP([width, 3], rng=rng).double(), "size": MLP([width, 2], rng=rng).double()}
    trunk = MLP([6, width], out_activation="tanh", rng=rng).double()
    model, joint = SharedTrunk(trunk, nets, learn_weights=True).double(), JointLoss(losses)
    x, y = randn(rng, samples, 6).requires_grad_(), randn(rng, samples, 5)
    gone = torch.rand(2, samples, generator=rng) < missing
    gone[:, 0], gone[:, 1] = True, False  # one of each at least
    kinds, sizes = y[:, :3].argmax(dim=1), y[:, 3:]
    labels = {
        "kind": kinds.masked_fill(gone[0], MISSING),
        "size": sizes.masked_fill(gone[1][:, None], torch.nan),
    }
    empty = {"kind": torch.full_like(kinds, MISSING), "size": sizes * torch.nan}

    def terms(labels: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if mask == "on":
            return joint.terms(model(x), labels)
        return {name: losses[name](out, labels[name]) for name, out in model(x).items()}

    parts, place = {}, torch.arange(samples)
    for (name, loss), lost in zip(terms(labels).items(), gone, strict=True):
        (influence,) = torch.autograd.grad(loss, x, retain_graph=True)
        size = influence.norm(dim=1)
        rest = losses[name](nets[name](trunk(x[~lost])), labels[name][~lost])
        ours, theirs, zeros = (
            torch.cat([one[None], _gradient(one, trunk, nets[name])])
            for one in (loss, rest, terms(empty)[name])
        )
        parts |= {
            f"{name}: influence of its sample": never(
                ~(influence[lost] == 0).all(dim=1), of=int(lost.sum()), why="0 is exact"
            ).drawn(
                Series("label there", place[~lost], size[~lost]),
                Series("label missing", place[lost], size[lost], "other", "points"),
                x="sample", y=f"length of the gradient of the loss of {name} by the input",
            ),
            f"{name}: loss and gradient of the others": _agree(ours, theirs),
            f"{name}: no label at all": never(~(zeros == 0), why="0 is exact"),
        }
    total, want = joint(model, (x, labels["kind"], empty["size"]), rng), terms(labels)["kind"]
    slopes = torch.autograd.grad(total, [*model.log_sigma.values()])
    coder = SemiSupervised(trunk, MLP([width, 6], rng=rng).double(), nets["kind"])
    both = SemiSupervisedLoss(alpha=alpha, corruption=0.0)(coder, (x, labels["kind"]), rng)
    return every({
        **parts,
        "learned weights": _agree(
            torch.stack([total, *slopes]), torch.stack([want / 2, 1 - want, 0 * want])
        ),
        "few labels, all inputs": _agree(
            both, want + alpha * F.mse_loss(coder.decoder(trunk(x)), x)
        ),
    })


@claim(control={"labels_from": "another direction"}, source="Baldi and Hornik 1989")
def unlabelled_data_finds_the_subspace(
    seed: Seed, *, labels: Annotated[int, Range(20, 60)] = 30,
    k: Annotated[int, Range(2, 5)] = 5, unlabelled: Annotated[int, Range(1000, 3000)] = 2000,
    leading: Annotated[float, Range(2, 4)] = 3.0,
    labels_from: Literal["leading directions", "another direction"] = "leading directions",
) -> Evidence:
    r"""Labels that depend on the leading directions of $x$: a code learned without labels helps."""
    rng, most, tests = seed.torch(), 60, 200
    x = randn(rng, DRAWS, unlabelled + most + tests, NOISY)
    x[..., :k] *= leading  # no step below depends on how the axes are turned
    normal = randn(rng, DRAWS, NOISY, 1)
    normal[:, slice(k, None) if labels_from == "leading directions" else slice(k)] = 0
    pool, seen, unseen = x.split([unlabelled, most, tests], dim=1)

    # linear autoencoders at their minimum, which is unique up to the basis of the code
    mean = pool.mean(dim=1, keepdim=True)
    spread, axes = torch.linalg.eigh(pool.mT @ pool / unlabelled - mean.mT @ mean)
    model = _linear_autoencoders(axes[..., -k:], mean, rng)
    few, mean, V = 3, mean[:3], axes[:3, :, -k:]
    some, several, A = pool[:few, :100], _linear_autoencoders(V, mean, rng), V @ V.mT
    loss = SemiSupervisedLoss(corruption=0.0)(several, (pool[:few],), rng)
    slopes = _gradient(loss, several.encoder, several.decoder)
    with torch.no_grad():
        spoiled = torch.stack([SemiSupervisedLoss()(several, (some,), rng) for _ in range(200)])
    # half of the entries are 0: the inputs are halved, and each entry adds a variance x²/4
    shrunk = some - ((some / 2 - mean) @ A + mean)
    mended = shrunk.square().mean() + (some.square() @ A.square().mean(dim=1)[..., None]).mean() / 4

    counts, codes, raw = sorted({5, 10, 20, 40, most, labels}), [], []
    for n in counts:
        for found, encode in ((codes, model.encoder), (raw, nn.Identity())):
            z = encode(seen[:, :n]).detach()
            ridge = z @ z.mT + torch.eye(n, dtype=z.dtype)  # the same head, at a small price
            weight = z.mT @ torch.linalg.solve(ridge, (seen[:, :n] @ normal).sign())
            if found is codes:
                _put(model.head, weight.mT, 0.0)
            answers = model(unseen) if found is codes else unseen @ weight
            right = answers.sign() == (unseen @ normal).sign()
            found.append(right.double().mean(dim=(1, 2)))
    codes, raw, here = torch.stack(codes), torch.stack(raw), counts.index(labels)
    gain = codes[here] - raw[here]  # one a draw
    return every({
        "gain in accuracy": at_least(
            gain.mean(), 3 * _standard_error(gain), why="3 standard errors of paired draws",
            detail=f"{float(codes[here].mean()):.3f} against {float(raw[here].mean()):.3f}",
        ).drawn(
            Series("head on codes", counts, codes.mean(dim=1), error=_standard_error(codes)),
            Series("head on inputs", counts, raw.mean(dim=1), "other", error=_standard_error(raw)),
            x="labels", y=f"test accuracy, mean of {DRAWS} draws", log="x",
        ),
        "loss that is left": identical(loss, spread[:few, :-k].sum() / (few * NOISY)),
        "gradient": equal(slopes, 0, tol=1e-12, why="rounding of means of squares"),
        "loss with holes": estimates(
            spoiled.mean(), mended, error=_standard_error(spoiled), why="mean over masks"
        ),
    })


@experiment(
    reaches={"gain_in_errors": at_least_goal(2.0), "gain_over_random": at_least_goal(0.05)},
    floor={"gain_over_random": at_least_goal(0.0)},
    source="Vincent et al. 2008: codes of a denoising autoencoder against what they are made of; "
    "to beat are the same head on pixels, by two paired errors, and on random features, by 0.05",
)
def hundred_labels(
    run: Run, *, labels: Annotated[int, Range(20, 1000)] = 100,
    units: Annotated[int, Range(16, 512)] = 256,
    corruption: Annotated[float, Range(0, 0.9)] = 0.5,
    pairs: Annotated[int, Range(2, 20)] | None = None,
) -> None:
    """Reads digits from few labels: on the codes of a denoising autoencoder, pixels, random units.

    Args:
        labels: Pictures that have a label.
        units: Rectified units of the code.
        corruption: Share of the pixels that is spoiled.
        pairs: Draws of the labelled pictures; by default 3 when quick, 10 at full budget.
    """
    pairs = pairs or (10 if run.full else 3)
    (x, y), (x_test, y_test) = _digits(run)
    x, y, test, side = x[:SPAN].flatten(1), y[:SPAN], x_test.flatten(1), x.shape[-1]
    rng = run.seed.child("init").torch()
    encoder = MLP([side**2, units], out_activation="relu", rng=rng)
    head = ParallelMLP([units, 10], copies=pairs, rng=rng)
    model = SemiSupervised(encoder, MLP([units, side**2], rng=rng), head)
    features = {"pixels": (x, test), "random units": _codes(encoder, x, test)}
    repair = SemiSupervisedLoss(
        corruption=corruption, reconstruction=F.binary_cross_entropy_with_logits
    )
    fit(
        model, x, repair, Adam(model.parameters()), epochs=20 if run.full else 3, batch_size=100,
        parts=[OneCycle(0.01)], seed=run.seed.child("repair"), run=run, name="autoencoder",
    )
    features["codes"] = _codes(encoder, x, test)
    counts, most = ((20, 50, 100, 200, 500), 100) if run.full else ((30,), 50)
    counts = sorted({labels, *counts})
    draw = run.seed.child("labels").torch()
    rows = torch.stack([torch.randperm(len(x), generator=draw) for _ in range(pairs)], dim=1)
    found: dict[str, list[Tensor]] = {name: [] for name in features}
    for count, (name, (seen, unseen)) in itertools.product(counts, features.items()):
        ours = name == "codes" and count == labels
        reader = head if ours else ParallelMLP([seen.shape[1], 10], copies=pairs, rng=rng)
        search = LBFGS(reader.parameters(), max_iter=most, line_search_fn="strong_wolfe")
        fit(
            reader, (seen[rows[:count]], y[rows[:count]]), _Read(), search, steps=1,
            batch_size=count, run=run, name=f"{name.split()[0]}-{count}",
        )
        with torch.no_grad():
            answers = reader.cpu()(unseen).argmax(dim=-1)
        found[name].append((answers == y_test).double().mean(dim=1))
    pixels, random, codes = (found[name][counts.index(labels)] for name in features)
    gain = paired(codes, pixels)
    run.record(accuracy=float(codes.mean()), pixels_accuracy=float(pixels.mean()))
    run.record(random_accuracy=float(random.mean()), **gain.metrics("gain"))
    run.record(**paired(codes, random).metrics("gain_over_random"))
    curves = {name: torch.stack(one) for name, one in found.items()}  # (counts, pairs)
    run.figure("labels", figures.draw(Picture(
        tuple(
            Series(name, counts, one.mean(dim=1), "other", error=_standard_error(one))
            for name, one in curves.items()
        ), "labels", f"test accuracy, mean of {pairs} draws", "x",
    )))
    run.figure("pairs", gain.figure("test accuracy", ("head on pixels", "head on codes")))
    weight = encoder.layers[0].weight.detach().cpu()
    long = weight.norm(dim=1).argsort(descending=True)[:40]
    run.figure("filters", figures.images(
        list(weight[long].view(-1, side, side)), columns=10, signed=True
    ))
    run.keep(_joined(encoder, head.layers[0].weight[0], head.layers[0].bias[0, 0]))


@experiment(
    reaches={"digit_gain_in_errors": at_least_goal(2.0)},
    floor={"digit_score": at_least_goal(0.75)},
    source="Caruana 1997, sec. 2: one net for related tasks against a net for each; to beat is the "
    "net for digits alone, by two paired errors",
)
def two_tasks(
    run: Run, *, second: Literal["parity", "balance"] = "parity",
    labels: Annotated[int, Range(50, 2000)] = 200,
    units: Annotated[int, Range(16, 512)] = 128, learn_weights: bool = False,
    pairs: Annotated[int, Range(2, 10)] | None = None,
) -> None:
    """Learns two tasks from one trunk, each on pictures of its own, against a net for each.

    Args:
        second: Beside which digit it is: is it odd, or how far right is its ink?
        labels: Pictures that are labelled for the first task; as many others are for the second.
        units: Rectified units of the trunk.
        learn_weights: Whether the joint net learns the weights of its tasks.
        pairs: Draws of the pictures; by default 3 when quick, 10 at full budget.
    """
    (x, y), (x_test, y_test) = _digits(run)
    losses = {"digit": F.cross_entropy, second: F.cross_entropy if second == "parity" else _squared}
    arms = {"joint": [*losses], "digit": ["digit"], second: [second]}
    scores: dict[str, list[Tensor]] = {name: [] for name in arms}
    for pair in range(pairs or (10 if run.full else 3)):
        own = run.seed.child(f"pair {pair}")
        rows = torch.randperm(len(x), generator=own.child("pictures").torch())[: 2 * labels]
        digit, other = y[rows].clone(), _second_labels(second, x[rows], y[rows])
        digit[labels:], other[:labels] = MISSING, MISSING if second == "parity" else torch.nan
        data = {"digit": digit, second: other}
        for arm, names in arms.items():
            rng = own.child("init").torch()
            trunk = MLP([x[0].numel(), units], out_activation="relu", rng=rng)
            outputs = {"digit": 10, second: 2 if second == "parity" else 1}
            heads = {name: MLP([units, outputs[name]], rng=rng) for name in outputs}
            model = SharedTrunk(
                trunk, {name: heads[name] for name in names},
                learn_weights=learn_weights and arm == "joint",
            )
            fit(
                model, (x[rows].flatten(1), *(data[name] for name in names)),
                JointLoss({name: losses[name] for name in names}), Adam(model.parameters()),
                epochs=60 if run.full else 20, batch_size=50, parts=[OneCycle(0.003)],
                seed=own.child("batches"), run=run, name=f"{arm}-{pair}",
            )
            scores[arm].append(_scores(model, x_test, y_test, second))
            if arm == "joint" and pair == 0:
                run.keep(_joined(trunk, *heads["digit"].layers[0].parameters()))
    together = torch.stack(scores["joint"])  # (pairs, 2)
    gains = {
        "digit": paired(together[:, 0], torch.cat(scores["digit"])),
        "second": paired(together[:, 1], torch.cat(scores[second])),
    }
    for name, gain in gains.items():
        score = float(gain.with_method.mean())
        run.record(**{f"{name}_score": score}, **gain.metrics(f"{name}_gain"))
        what = second if name == "second" else name
        run.figure(name, gain.figure(f"test score, {what}", ("a net for each", "one trunk")))


def _gradient(loss: Tensor, *modules: nn.Module) -> Tensor:
    """Give the gradient of the parameters of modules as one vector."""
    over = [p for one in modules for p in one.parameters()]
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, over, retain_graph=True)])


def _exact(measured: Tensor, expected: Tensor) -> Evidence:
    tol = 1e-12 * (1 + float(expected.detach().abs().max()))
    return equal(measured, expected, tol=tol, why="rounding of one backward pass")


def _agree(measured: Tensor, expected: Tensor) -> Evidence:
    """State equality up to rounding, in a way that NaN refutes."""
    near = torch.isclose(measured.detach(), expected.detach(), rtol=1e-10, atol=1e-10)
    return never(~near, of=near.numel(), why="an identity: float64 rounding")


def _standard_error(draws: Tensor) -> Any:
    """Give the standard error of the mean over the last axis."""
    return draws.std(dim=-1) / draws.shape[-1] ** 0.5


def _linear_autoencoders(V: Tensor, mean: Tensor, rng: torch.Generator) -> SemiSupervised:
    """Build nets side by side that project onto the columns of V (R, D, k) around the means."""
    copies, D, k = V.shape
    sizes = [[D, k], [k, D], [k, 1]]
    parts = [ParallelMLP(one, copies=copies, rng=rng).double() for one in sizes]
    _put(parts[0], V.mT, -mean @ V)
    _put(parts[1], V, mean)
    return SemiSupervised(*parts)


@torch.no_grad()
def _put(net: nn.Module, weight: Any, bias: Any) -> None:
    """Give all copies of a single layer their weights."""
    layer: Any = net.layers[0]  # type: ignore[index]
    layer.weight.copy_(torch.as_tensor(weight))
    layer.bias.copy_(torch.as_tensor(bias))


def _digits(run: Run) -> tuple[Batch, Batch]:
    """Load pictures and labels to learn from, and others to test on."""
    if run.full:
        return mnist("train", data_dir=run.data_dir), mnist("test", data_dir=run.data_dir)
    x, y = embedded_mnist()
    order = torch.randperm(len(x), generator=run.seed.child("split").torch())
    return (x[order[:4000]], y[order[:4000]]), (x[order[4000:]], y[order[4000:]])


@torch.no_grad()
def _codes(encoder: MLP, *inputs: Tensor) -> Batch:
    device = encoder.layers[0].weight.device
    return tuple(encoder(one.to(device)).cpu() for one in inputs)


@final
class _Read:
    """Cross-entropy of several linear heads, with a price that does not depend on the scale."""

    price = 3e-5  # chosen on other pictures, where a factor 10 changes accuracy by half a point

    def __call__(self, model: Any, batch: Batch, rng: torch.Generator, /) -> Tensor:
        z, y = batch  # (n, copies, features), (n, copies)
        logits = model(z.transpose(0, 1)).permute(1, 2, 0)  # (n, classes, copies)
        loss = F.cross_entropy(logits, y) * y.shape[1]
        length = z.square().sum(dim=-1).mean()
        return loss + self.price / 2 * length * model.layers[0].weight.square().sum()


@torch.no_grad()
def _joined(encoder: MLP, weight: Tensor, bias: Tensor) -> MLP:
    """Make one network of an encoder and a linear head."""
    net = MLP([*encoder.sizes, len(bias)], rng=torch.Generator())  # all weights are replaced
    for name, value in zip(("weight", "bias"), (weight, bias), strict=True):
        getattr(net.layers[0], name).copy_(getattr(encoder.layers[0], name))
        getattr(net.layers[1], name).copy_(value)
    return net


def _squared(outputs: Tensor, y: Tensor) -> Tensor:
    return F.mse_loss(outputs[:, 0], y)


def _second_labels(second: str, x: Tensor, y: Tensor) -> Tensor:
    """Tell whether digits are odd, or how much more of their ink is right than left."""
    if second == "parity":
        return y % 2
    left, right = (half.sum(dim=(1, 2)) for half in x.chunk(2, dim=2))
    return 5 * (right - left) / (right + left)  # of order 1


@torch.no_grad()
def _scores(model: SharedTrunk, x: Tensor, y: Tensor, second: str) -> Tensor:
    """Give the accuracy of each task; of a number, the share of its variance that is explained."""
    outputs, truth = model.cpu()(x.flatten(1)), {"digit": y, second: _second_labels(second, x, y)}
    return torch.stack([
        1 - (out[:, 0] - truth[name]).double().square().mean() / truth[name].double().var()
        if truth[name].is_floating_point() else (out.argmax(dim=1) == truth[name]).double().mean()
        for name, out in outputs.items()
    ])

r"""Many tasks, few labels: what is true of it, and what would refute it.

Knobs:
    tasks: Number of tasks.
    width: Units of the trunk.
    samples: Samples of the data.
    heads: Whether each task has a head of its own; a shared one sees all losses.
    k: Dimensions that the tasks share.
    noise: Standard deviation of the noise on the targets.
    tasks_are: Whether weights of all tasks lie in one subspace; if not, sharing is no help.
    missing: Share of labels that are missing.
    alpha: Weight of the reconstruction beside the labels.
    mask: Whether missing labels are left out; else their filling counts as labels.
    labels: Samples with a label.
    unlabelled: Samples without any.
    leading: How much longer the leading directions of the inputs are than the others.
    labels_from: What labels depend on; the code leaves out every other direction.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.lab.draws import rand, randn
from principia.lab.evidence import (
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    mean_is,
    never,
    standard_error,
)
from principia.lab.params import Range
from principia.lab.seeds import Seed
from principia.networks.mlp import MLP
from principia.optimization.sgd import ParallelMLP
from principia.regularization.multitask import (
    MISSING,
    JointLoss,
    SemiSupervised,
    SemiSupervisedLoss,
    SharedTrunk,
    separate_fits,
    shared_subspace,
)

INPUTS = 20  # of the linear tasks
NOISY, DRAWS = 200, 30  # of the claim about unlabelled data: inputs, and draws of everything


@claim(
    control={"heads": "shared"},
    refutes=["heads, fixed weights", "heads, learned weights"],
    source="Caruana 1997; Kendall, Gal and Cipolla 2018",
)
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
        model = SharedTrunk(trunk, nets, **({"learn_weights": True} if learned else {})).double()
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


def _gradient(loss: Tensor, *modules: nn.Module) -> Tensor:
    """Give the gradient of the parameters of modules as one vector."""
    over = [p for one in modules for p in one.parameters()]
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, over, retain_graph=True)])


def _exact(measured: Tensor, expected: Tensor) -> Evidence:
    tol = 1e-12 * (1 + float(expected.detach().abs().max()))
    return equal(measured, expected, tol=tol, why="rounding of one backward pass")


@claim(
    control={"tasks_are": "unrelated"},
    refutes=["joint error over separate, and 3 standard errors"],
    source="Tripuraneni, Jin and Jordan 2021",
)
def shared_subspace_helps(
    seed: Seed, *, tasks: Annotated[int, Range(20, 60)] = 30,
    samples: Annotated[int, Range(25, 35)] = 25, k: Annotated[int, Range(1, 3)] = 2,
    noise: Annotated[float, Range(0.05, 0.5)] = 0.3,
    tasks_are: Literal["related", "unrelated"] = "related",
) -> Evidence:
    r"""Tasks $w_t\in$ one $k$-dimensional subspace: fit together they err far less than alone.

    Args:
        samples: Samples of each task.
    """
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
    alone = (separate_fits(X, y) - w).square().sum(dim=-1).mean(dim=1)
    ratio = pooled[-1] / alone
    mean, error = float(ratio.mean()), standard_error(ratio)
    # the mean of an inverse Wishart matrix
    theory, known = (noise**2 * r / (n - r - 1) for r in (INPUTS, k))
    return every({
        "joint error over separate, and 3 standard errors": at_most(
            mean + 3 * error, 0.2, why="a fifth: the pooled samples fit few weights a task"
        ).drawn(
            Series("joint fit", few, pooled.mean(dim=1), error=standard_error(pooled, axis=1)),
            Series("separate fits", few, alone.mean().expand(len(few)), "other", "line"),
            Series("separate, predicted", few, [theory] * len(few), "predicted"),
            Series("subspace known", few, [known] * len(few), "bound"),
            x="tasks", y="squared error of the weights of a task", log="xy",
        ),
        "error of separate fits": mean_is(alone, theory, why="mean of independent draws"),
        "least squares by hand": _agree(*_alternated(rng)),
    })


def _agree(measured: Tensor, expected: Tensor) -> Evidence:
    """State equality up to rounding, in a way that NaN refutes."""
    near = torch.isclose(measured.detach(), expected.detach(), rtol=1e-10, atol=1e-10)
    return never(~near, of=near.numel(), why="an identity: float64 rounding")


def _alternated(rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Fit small tasks, with one sweep and as many as by default; then the same by hand."""
    (R, S, T, n, d, k), by_hand = (2, 3, 6, 9, 4, 2), []
    X, y = randn(rng, R, S, T, n, d), randn(rng, R, S, T, n)
    for Xs, ys in zip(X.flatten(0, 1), y.flatten(0, 1), strict=True):
        rows = [torch.linalg.pinv(one) @ goal for one, goal in zip(Xs, ys, strict=True)]
        B, found = torch.linalg.svd(torch.stack(rows)).Vh[:k].mT, []
        for _ in range(21):
            a = torch.linalg.lstsq(Xs @ B, ys[..., None]).solution[..., 0]  # (T, k)
            found.append(a @ B.mT)
            design = torch.einsum("tni,tk->tnik", Xs, a).reshape(T * n, d * k)
            B = torch.linalg.lstsq(design, ys.reshape(-1, 1)).solution.view(d, k)
        by_hand.append(torch.stack([found[1], found[20]]))
    wanted = torch.stack(by_hand, dim=1).view(2, R, S, T, d)
    once = torch.stack([  # with no axes in front, too
        torch.stack([shared_subspace(X[r, s], y[r, s], k, sweeps=1) for s in range(S)])
        if r else shared_subspace(X[r], y[r], k, sweeps=1) for r in range(R)
    ])
    return torch.stack([once, shared_subspace(X, y, k)]), wanted


@claim(
    control={"mask": "off"},
    refutes=[
        f"{name}: {what}" for name in ("kind", "size") for what in
        ("influence of its sample", "loss and gradient of the others", "no label at all")
    ],
    source="by construction",
)
def masked_tasks_are_ignored(
    seed: Seed, *, missing: Annotated[float, Range(0.05, 0.95)] = 0.4,
    samples: Annotated[int, Range(20, 500)] = 40, width: Annotated[int, Range(2, 100)] = 16,
    alpha: Annotated[float, Range(0, 10)] = 2.0, mask: Literal["on", "off"] = "on",
) -> Evidence:
    r"""Missing labels give neither loss nor gradient; a task without any label adds 0, not NaN."""
    rng, losses = seed.torch(), {"kind": _brier, "size": F.mse_loss}
    nets = {"kind": MLP([width, 3], rng=rng).double(), "size": MLP([width, 2], rng=rng).double()}
    trunk = MLP([6, width], out_activation="tanh", rng=rng).double()
    model, joint = SharedTrunk(trunk, nets, learn_weights=True).double(), JointLoss(losses)
    x, y = randn(rng, samples, 6).requires_grad_(), randn(rng, samples, 5)
    gone = torch.rand(2, samples, generator=rng) < missing
    gone[:, 0], gone[:, 1] = True, False  # one of each at least
    kinds, sizes = y[:, :3].argmax(dim=1), y[:, 3:]
    labels = {
        "kind": kinds.masked_fill(gone[0], MISSING),
        # here and there a single number of the two is missing
        "size": sizes.masked_fill(gone[1][:, None] & (sizes > sizes.amin(1, True)), torch.nan),
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
    objective = SemiSupervisedLoss(alpha=alpha, corruption=0.0, supervised=_brier)
    both = objective(coder, (x, labels["kind"]), rng)
    usual = SemiSupervisedLoss(corruption=0.0)(coder, (x, labels["kind"]), rng)
    repaired = F.mse_loss(coder.decoder(trunk(x)), x)
    plain = F.cross_entropy(nets["kind"](trunk(x)), labels["kind"])  # which ignores -100
    return every({
        **parts,
        "learned weights": _agree(
            torch.stack([total, *slopes]), torch.stack([want / 2, 1 - want, 0 * want])
        ),
        "few labels, all inputs": _agree(
            torch.stack([both, usual]), torch.stack([want + alpha * repaired, plain + repaired])
        ),
    })


def _brier(outputs: Tensor, y: Tensor) -> Tensor:
    """Measure by a loss that takes -100 for class 0, unlike torch's cross-entropy."""
    p = outputs.softmax(dim=1)
    return (p - F.one_hot(y.clamp_min(0), 3)).square().sum(dim=1).mean()


@claim(
    control={"labels_from": "another direction"},
    refutes=["gain in accuracy"],
    source="Baldi and Hornik 1989",
)
def unlabelled_data_finds_the_subspace(
    seed: Seed, *, labels: Annotated[int, Range(20, 60)] = 30,
    k: Annotated[int, Range(2, 5)] = 5, unlabelled: Annotated[int, Range(1000, 3000)] = 2000,
    leading: Annotated[float, Range(2, 4)] = 3.0,
    labels_from: Literal["leading directions", "another direction"] = "leading directions",
) -> Evidence:
    r"""Labels that depend on the leading directions of $x$: a code learned without labels helps.

    Args:
        k: Leading directions, and entries of the code.
    """
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
            gain.mean(), 3 * standard_error(gain), why="3 standard errors of paired draws",
            detail=f"{float(codes[here].mean()):.3f} against {float(raw[here].mean()):.3f}",
        ).drawn(
            Series("head on codes", counts, codes.mean(dim=1), error=standard_error(codes, axis=1)),
            Series("head on inputs", counts, raw.mean(dim=1), "other",
                   error=standard_error(raw, axis=1)),
            x="labels", y=f"test accuracy, mean of {DRAWS} draws", log="x",
        ),
        "loss that is left": equal_to_rounding(loss, spread[:few, :-k].sum() / (few * NOISY)),
        "gradient": equal(slopes, 0, tol=1e-12, why="rounding of means of squares"),
        "loss with holes": mean_is(spoiled, mended, why="mean over masks"),
    })


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

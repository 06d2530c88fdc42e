r"""Many tasks, few labels: what it reaches on data."""

import itertools
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import LBFGS, Adam

from principia.lab import figures
from principia.lab.data.mnist import embedded_mnist, mnist
from principia.lab.evidence import Plot, Series, standard_error
from principia.lab.params import Range
from principia.lab.runs import Run, at_least_goal, experiment
from principia.lab.training import OneCycle, fit
from principia.lab.training.pairs import paired
from principia.networks.mlp import MLP
from principia.optimization.sgd import ParallelMLP
from principia.regularization.multitask import (
    MISSING,
    Batch,
    JointLoss,
    SemiSupervised,
    SemiSupervisedLoss,
    SharedTrunk,
)

SPAN = 10_000  # pictures without labels, at full budget
SECOND = {"parity": (F.cross_entropy, 2, MISSING), "balance": (F.mse_loss, 1, torch.nan)}
PRICE = 3e-5  # of a head; chosen on other pictures, where a factor 10 changes half a point


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
    features = {"pixels": (x, test), "random units": _outputs(encoder, x, test)}
    repair = SemiSupervisedLoss(
        corruption=corruption, reconstruction=F.binary_cross_entropy_with_logits
    )
    fit(
        model, x, repair, Adam(model.parameters()), epochs=20 if run.full else 3, batch_size=100,
        callbacks=[OneCycle(0.01)], seed=run.seed.child("repair"), run=run, name="autoencoder",
    )
    features["codes"] = _outputs(encoder, x, test)
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
            reader, (seen[rows[:count]], y[rows[:count]]), _read, search, steps=1,
            batch_size=count, run=run, name=f"{name.split()[0]}-{count}",
        )
        (logits,) = _outputs(reader, unseen)
        found[name].append((logits.argmax(dim=-1) == y_test).double().mean(dim=1))
    pixels, random, codes = (found[name][counts.index(labels)] for name in features)
    gain = paired(codes, pixels)
    run.record(accuracy=float(codes.mean()), pixels_accuracy=float(pixels.mean()))
    run.record(random_accuracy=float(random.mean()), **gain.metrics("gain"))
    run.record(**paired(codes, random).metrics("gain_over_random"))
    curves = {name: torch.stack(shares) for name, shares in found.items()}  # (counts, pairs)
    run.figure("labels", figures.draw(Plot(tuple(
        Series(name, counts, curve.mean(dim=1), "other", error=standard_error(curve, axis=1))
        for name, curve in curves.items()
    ), "labels", f"test accuracy, mean of {pairs} draws", "x")))
    run.figure("pairs", gain.figure("test accuracy", ("head on pixels", "head on codes")))
    long = sorted(encoder.layers[0].weight.data.view(-1, side, side), key=Tensor.norm, reverse=True)
    run.figure("filters", figures.images(long[:40], columns=10, signed=True))
    run.keep(_joined(encoder, head.layers[0].weight[0], head.layers[0].bias[0, 0]))


def _digits(run: Run) -> tuple[Batch, Batch]:
    """Load pictures and labels to learn from, and others to test on."""
    if run.full:
        return mnist("train", data_dir=run.data_dir), mnist("test", data_dir=run.data_dir)
    x, y = embedded_mnist()
    order = torch.randperm(len(x), generator=run.seed.child("split").torch())
    return (x[order[:4000]], y[order[:4000]]), (x[order[4000:]], y[order[4000:]])


@torch.no_grad()
def _outputs(net: nn.Module, *inputs: Tensor) -> Batch:
    return tuple(net.cpu()(x) for x in inputs)


def _read(model: Any, batch: Batch, rng: torch.Generator, /) -> Tensor:
    """Add cross-entropies of linear heads, with a price that does not depend on the scale."""
    z, y = batch  # (n, copies, features), (n, copies)
    logits = model(z.transpose(0, 1)).permute(1, 2, 0)  # (n, classes, copies)
    price = PRICE / 2 * z.square().sum(dim=-1).mean() * model.layers[0].weight.square().sum()
    return F.cross_entropy(logits, y) * y.shape[1] + price


@torch.no_grad()
def _joined(encoder: MLP, weight: Tensor, bias: Tensor) -> MLP:
    """Make one network of an encoder and a linear head."""
    net = MLP([*encoder.sizes, len(bias)], rng=torch.Generator())  # all weights are replaced
    for p, value in zip(net.parameters(), (*encoder.parameters(), weight, bias), strict=True):
        p.copy_(value)
    return net


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
    loss, outputs, missing = SECOND[second]
    losses = {"digit": F.cross_entropy, second: loss}
    scores: dict[str, list[Tensor]] = {"joint": [], "digit": [], second: []}
    for pair, arm in itertools.product(range(pairs or (10 if run.full else 3)), scores):
        own, tasks = run.seed.child(f"pair {pair}"), [*losses] if arm == "joint" else [arm]
        rows = torch.randperm(len(x), generator=own.child("pictures").torch())[: 2 * labels]
        data = {"digit": y[rows], second: _second_labels(second, x[rows], y[rows])}
        data["digit"][labels:], data[second][:labels] = MISSING, missing
        rng = own.child("init").torch()
        trunk = MLP([x[0].numel(), units], out_activation="relu", rng=rng)
        heads = {task: MLP([units, 10 if task == "digit" else outputs], rng=rng) for task in losses}
        chosen = {task: heads[task] for task in tasks}
        model = SharedTrunk(trunk, chosen, learn_weights=learn_weights and arm == "joint")
        fit(
            model, (x[rows].flatten(1), *(data[task] for task in tasks)),
            JointLoss({task: losses[task] for task in tasks}), Adam(model.parameters()),
            epochs=60 if run.full else 20, batch_size=50, callbacks=[OneCycle(0.003)],
            seed=own.child("batches"), run=run, name=f"{arm}-{pair}",
        )
        scores[arm].append(_scores(model, x_test, y_test, second))
        if arm == "joint" and pair == 0:
            run.keep(_joined(trunk, *heads["digit"].layers[0].parameters()))
    together = torch.stack(scores["joint"]).unbind(dim=1)  # of each task, one a pair
    for name, task, joint in zip(("digit", "second"), losses, together, strict=True):
        gain = paired(joint, torch.cat(scores[task]))
        run.record(**{f"{name}_score": float(joint.mean())}, **gain.metrics(f"{name}_gain"))
        run.figure(name, gain.figure(f"test score, {task}", ("a net for each", "one trunk")))


def _second_labels(second: str, x: Tensor, y: Tensor) -> Tensor:
    """Tell whether digits are odd, or how much more of their ink is right than left."""
    if second == "parity":
        return y % 2
    left, right = (half.sum(dim=(1, 2)) for half in x.chunk(2, dim=2))
    return (5 * (right - left) / (right + left))[:, None]  # of order 1


@torch.no_grad()
def _scores(model: SharedTrunk, x: Tensor, y: Tensor, second: str) -> Tensor:
    """Give the accuracy of each task; of a number, the share of its variance that is explained."""
    outputs, truth = model.cpu()(x.flatten(1)), {"digit": y, second: _second_labels(second, x, y)}
    return torch.stack([
        1 - (out - truth[name]).double().square().mean() / truth[name].double().var()
        if truth[name].is_floating_point() else (out.argmax(dim=1) == truth[name]).double().mean()
        for name, out in outputs.items()
    ])

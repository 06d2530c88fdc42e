r"""Local gradients of layers: what is true of it, and what would refute it.

Knobs:
    layer: The kind of layer, or all of them.
    over_batch: Whether a layer adds over the batch or averages, which only the loss may do.
    batch: Samples in a batch.
    width: Units of a layer.
    weights: Which of signal and input makes the rows of the weight gradient.
    f: The activation of the layer.
    at: Where the slope is taken: at the field $z$, or wrongly at the output $h$.
    classes: Classes, each with its logit.
    reach: How far logits lie from 0; beyond 52 the probability of float32 runs out of digits.
    rule: Whether softmax and logarithm are one layer or two, of which the second sees 0.
    steps: Time steps of a sample.
    over_axes: How the gradients of repeated numbers are joined; their mean is too small.
    value: The slope of ReLU at 0; those beyond 1 are no subgradients.
    samples: Samples in a batch.
    data: Whether inputs are drawn or put every hidden unit on its kink.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from principia.gradients.layers import (
    CHECKED,
    LAYERS,
    BroadcastAddFn,
    ElementwiseFn,
    LayeredClassifier,
    LinearFn,
    ResidualFn,
    SoftmaxCrossEntropyFn,
    SquaredLossFn,
    check,
    drawn_operands,
)
from principia.lab.draws import randn
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    mean_is,
    never,
)
from principia.lab.params import Choice, Range
from principia.lab.pictures import Image, Label, Plot
from principia.lab.seeds import Seed
from principia.networks.activations import ACTIVATIONS, Activation
from principia.networks.mlp import MLP, ActivationName

Batch = Annotated[int, Range(1, 64)]
Width = Annotated[int, Range(2, 64)]


@claim(
    control={"over_batch": "mean"},
    refutes=["gradients of torch", "x + sin x", *(f"{one}: gradcheck fails" for one in LAYERS)],
    source="Griewank and Walther 2008, ch. 3, layer by layer",
)
def every_layer(
    seed: Seed, *, layer: Annotated[str, Choice(("all", *LAYERS))] = "all",
    over_batch: Literal["sum", "mean"] = "sum",
) -> Evidence:
    r"""The backward of each layer, with no average of its own, is the derivative of its forward.

    So it is for a network of such layers, for each sample alone, too.
    """
    rng, ours, theirs, failed, gaps = seed.torch(), [], [], {}, []
    for name in LAYERS if layer == "all" else (layer,):
        row = LAYERS[name]
        tried = row
        if over_batch == "mean":
            tried = replace(row, apply=lambda *given, row=row: _averaging(row.apply(*given)))
        sizes = [(1, 1, 1), (2, 3, 4), (2, 5, 1), (3, 3, 3), (4, 1, 2)]
        failed[name] = [not check(tried, row.shapes(*one), seed.child(one)) for one in sizes]
        operands = drawn_operands(row, rng, row.shapes(5, 4, 3))
        delta = randn(rng, *row.reference(*operands).shape)
        ours.append(_pulled(tried.apply, operands, delta))
        theirs.append(_pulled(row.reference, operands, delta))
        gaps.append(float((ours[-1] - theirs[-1]).abs().max()) + 1e-17)
        if name == "hardtanh":  # torch takes 0 on the kinks, too
            ends = [torch.tensor([[-1.0, 1.0], [0.5, -3.0]]).double().requires_grad_()]
            ours.append(_pulled(tried.apply, ends, delta[:2, :2]))
            theirs.append(_pulled(row.reference, ends, delta[:2, :2]))
    parts = {"gradients of torch": equal_to_rounding(torch.cat(ours), torch.cat(theirs)).drawn(
        Series("largest difference", [*failed], gaps),
        Series("a few roundings", [*failed], [1e-15] * len(failed), "bound"),
        x="layer", y="largest difference from torch", log="y")}
    if layer in ("all", "residual"):
        x, delta = randn(rng, 2, 5, 4)
        add = ResidualFn.apply
        if over_batch == "mean":
            add = lambda x, h: _averaging(ResidualFn.apply(x, h))  # noqa: E731
        through = _pulled(lambda x: add(x, x.sin()), [x.requires_grad_()], delta)
        parts["x + sin x"] = equal_to_rounding(through, (delta + delta * x.cos()).flatten())
    if layer == "all":
        parts |= _of_a_network(rng)
    why = f"finite differences of step {CHECKED:g} in float64 are exact to far less than that"
    return every(parts | {f"{one}: gradcheck fails": never(fails, why=why)
                          for one, fails in failed.items()})


def _of_a_network(rng: torch.Generator) -> dict[str, Evidence]:
    """Compare a network of rows with torch's layers, as a batch and sample by sample."""
    net = LayeredClassifier(7, n_out=5, rng=rng)
    first = torch.cat([(3 * one.shape[1]) ** 0.5 * one.flatten() for one in net.parameters()
                       if one.ndim == 2]).detach()  # uniform of variance 1
    weights: dict[str, Tensor] = dict(net.double().named_parameters())
    x, y = randn(rng, 9, 7), torch.arange(9) % 5

    def loss(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        logits = torch.func.functional_call(net, weights, (x[None],))
        return SoftmaxCrossEntropyFn.apply(logits, y[None]).sum()

    h = torch.tanh(F.linear(x, weights["W1"], weights["b1"]))
    h = h + F.hardtanh(F.linear(h, weights["W2"], weights["b2"]))
    logits = F.linear(h, weights["W3"], weights["b3"]).view(9, 5, 2).amax(dim=2)
    exact = torch.autograd.grad(F.cross_entropy(logits, y, reduction="sum"), [*weights.values()])
    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(weights, x, y)
    whole = _pulled(lambda *_: SoftmaxCrossEntropyFn.apply(net(x), y), [*weights.values()],
                    x.new_ones(9))
    drawn = drawn_operands(LAYERS["hardtanh"], rng, ((200, 500),))[0]
    return {
        "a network": equal_to_rounding(
            _flat([net(x), net(x, by="reference"), whole, *(one.sum(0) for one in each.values())]),
            _flat([logits, logits, *exact, *exact])),
        "its first weights": every({
            "variance": mean_is(first.square(), 1.0, why="of the mean square"),
            "range": at_most(first.abs(), 3**0.5 * (1 + 1e-6), why="float32 rounding"),
        }),
        "draws on a kink": never((drawn.abs() - 1).abs() < 500 * CHECKED, why="they are moved"),
    }


def _averaging(z: Tensor) -> Tensor:
    """Leave rows as they are, and divide what comes back by their number, as a mean would."""
    share = 1 / len(z)
    return share * z + (1 - share) * z.detach()


def _pulled(
    function: Callable[..., Tensor], operands: Sequence[Tensor], delta: Tensor, *fixed: Tensor
) -> Tensor:
    """Pull a gradient back through a function to its operands, as one vector."""
    leaves = [one for one in operands if one.requires_grad]
    return _flat(torch.autograd.grad(function(*operands, *fixed), leaves, delta))


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([one.flatten() for one in tensors])


@claim(
    control={"weights": "Σ x δᵀ"},
    refutes=["W, a batch", "W, one sample", "x"],
    source="Rumelhart, Hinton and Williams 1986",
)
def linear_layer(
    seed: Seed, *, batch: Batch = 16, width: Width = 8,
    weights: Literal["Σ δ xᵀ", "Σ x δᵀ"] = "Σ δ xᵀ",
) -> Evidence:
    r"""$z=Wx$: $\partial L/\partial W=(\partial L/\partial z)x^\top$, summed over a batch."""
    rng = seed.torch()
    W, b, c = randn(rng, width, width), randn(rng, width), randn(rng, width)  # square
    x = randn(rng, batch, width)
    operands = [one.requires_grad_() for one in (x, W, b)]
    delta = c * torch.cos(F.linear(*operands)).detach()  # of L, the sum of c sin z
    by_torch = _pulled(F.linear, operands, delta).split([one.numel() for one in operands])
    by_rule = _pulled(LinearFn.apply, operands, delta).split([one.numel() for one in operands])
    order = "bi,bj->ij" if weights == "Σ δ xᵀ" else "bj,bi->ij"
    outer, one = torch.einsum(order, delta, x), torch.einsum(order, delta[:1], x[:1])
    back = W if weights == "Σ δ xᵀ" else W.mT  # Wᵀδ, samples in rows
    single = _pulled(lambda W: F.linear(x[:1].detach(), W), [W], delta[:1])
    plain = [randn(rng, width + 1, width).requires_grad_(), operands[0]]  # from n to n + 1, no bias
    ends = randn(rng, batch, width + 1)
    of_plain = [_pulled(lambda W, x, f=f: f(x, W), plain, ends) for f in (LinearFn.apply, F.linear)]
    return every({
        "W, a batch": equal_to_rounding(outer.flatten(), by_torch[1]).pictured(Plot((
            Image(outer, signed=True, place=(0, 0, width, width)),
            Image(by_torch[1].view_as(W), signed=True, place=(width + 1, 0, 2 * width + 1, width)),
            Label((weights, "gradient of torch by W"), (width / 2, 1.5 * width + 1), (width, width),
                  side="above"),
        ), bare=True, square=True)),
        "W, one sample": equal_to_rounding(one.flatten(), single),
        "x": equal_to_rounding((delta @ back).flatten(), by_rule[0]),
        "b": equal_to_rounding(delta.sum(dim=0), by_rule[2]),
        "LinearFn": equal_to_rounding(
            torch.cat([*by_rule, of_plain[0]]), torch.cat([*by_torch, of_plain[1]])),
    })


@claim(control={"at": "h"}, refutes=["δ ⊙ f′(z)"], source="the chain rule")
def elementwise_layer(
    seed: Seed, *, batch: Batch = 16, width: Width = 8, f: ActivationName = "tanh",
    at: Literal["z", "h"] = "z",
) -> Evidence:
    r"""$h=f(z)$: $\partial L/\partial z=\partial L/\partial h\odot f'(z)$, at the field $z$."""
    rng, row = seed.torch(), ACTIVATIONS[f]
    z, delta = 2 * randn(rng, batch, width), randn(rng, batch, width)
    slope, leaf = row.derivative(z if at == "z" else row.module()(z)), [z.clone().requires_grad_()]
    by_torch = {name: _pulled(one.module(), leaf, delta) for name, one in ACTIVATIONS.items()}
    by_rule = [
        _pulled(lambda z, one=one: ElementwiseFn.apply(z, one), leaf, delta)
        for one in ACTIVATIONS.values()
    ]
    return every({
        "δ ⊙ f′(z)": equal_to_rounding((delta * slope).flatten(), by_torch[f]).drawn(
            Series("gradient of torch / δ", z.flatten(), by_torch[f] / delta.flatten()),
            Series(f"f′({at})", z.flatten().sort().values, slope.flatten()[z.flatten().argsort()],
                   "predicted"), x="field z", y="slope",
        ),
        "every activation": equal_to_rounding(torch.cat(by_rule), torch.cat([*by_torch.values()])),
    })


@claim(
    control={"rule": "log of softmax"},
    refutes=["logits ± reach, float32"],
    source="Bridle 1990",
)
def fused_softmax(
    seed: Seed, *, classes: Annotated[int, Range(2, 100)] = 10,
    reach: Annotated[float, Range(10, 80)] = 60.0,
    rule: Literal["fused", "log of softmax"] = "fused",
) -> Evidence:
    r"""Softmax and logarithm cancel to $p-e_y$, exact in float32 also where $p_y$ vanishes."""
    rng, samples = seed.torch(), 32
    z, y = randn(rng, samples, classes), torch.randint(classes, (samples,), generator=rng)
    leaf, ones = z.clone().requires_grad_(), z.new_ones(samples)
    separate = _pulled(lambda z: _unfused(z, y), [leaf], ones)
    fused = _pulled(lambda z: SoftmaxCrossEntropyFn.apply(z, y), [leaf], ones)
    exact = z.softmax(dim=1) - F.one_hot(y, classes)
    loss = SoftmaxCrossEntropyFn.apply if rule == "fused" else _unfused
    reaches, errors = torch.linspace(1, reach, 30).tolist(), []
    for far in reaches:
        hard = far * (2 * torch.rand(samples, classes, generator=rng) - 1)  # float32
        hard[torch.arange(samples), (y + 1) % classes] = far
        hard[torch.arange(samples), y] = -far
        truth = hard.double().softmax(dim=1) - F.one_hot(y, classes)
        values = loss(hard.requires_grad_(), y)
        (found,) = torch.autograd.grad(values, hard, torch.ones(samples))
        gap = (found - truth).abs().amax(dim=1) / truth.abs().amax(dim=1)
        right = F.cross_entropy(hard.detach().double(), y, reduction="none")
        gap = torch.maximum(gap, (values.detach() / right - 1).abs())
        errors.append(float(gap.nan_to_num(nan=math.inf).max()))  # 0 / 0 has no digit right
    why = "rounding of float32, 6e-8, times an exponent of up to 160"
    return every({
        "logits ± reach, float32": at_most(errors, 1e-5, why=why).drawn(
            Series(rule, reaches, errors), Series("allowed", [1, reach], [1e-5, 1e-5], "bound"),
            x="logits ±", y="relative error of loss and gradient", log="y",
        ),
        "p - e_y": equal_to_rounding(fused, exact.flatten()),
        "both steps, one after the other": equal_to_rounding(fused, separate),
    })


def _unfused(z: Tensor, y: Tensor) -> Tensor:
    return -z.softmax(dim=1).log().gather(1, y[:, None])[:, 0]


@claim(
    control={"over_axes": "mean"},
    refutes=["a bias", "a number", "a column", "a row a sample", "once and for all"],
    source="the chain rule: a repeated number is used many times",
)
def broadcasting_sums(
    seed: Seed, *, batch: Annotated[int, Range(2, 32)] = 6, steps: Annotated[int, Range(2, 32)] = 5,
    width: Annotated[int, Range(2, 32)] = 4, over_axes: Literal["sum", "mean"] = "sum",
) -> Evidence:
    r"""The gradient of a broadcast operand is the sum over the axes along which it is repeated."""
    rng, parts, ours, theirs = seed.torch(), {}, [], []
    x = randn(rng, batch, steps, width)
    places = {
        "a bias": ((width,), (0, 1)), "a number": ((), (0, 1, 2)), "a column": ((steps, 1), (0, 2)),
        "a row a sample": ((batch, 1, width), (1,)), "once and for all": ((1, 1, 1), (0, 1, 2)),
    }
    for name, (shape, axes) in places.items():
        a = randn(rng, *shape).requires_grad_()
        copies = a.detach().expand_as(x).clone().requires_grad_()  # every use has its own number
        delta = torch.cos(x + copies).detach()  # of L, the sum of sin(x + a)
        of_copies = _pulled(torch.add, [copies], delta, x).view_as(x)
        joined = of_copies.sum(dim=axes) if over_axes == "sum" else of_copies.mean(dim=axes)
        by_torch = _pulled(torch.add, [a], delta, x)
        entries = range(len(by_torch))
        parts[name] = equal_to_rounding(joined.flatten(), by_torch).drawn(
            Series(f"{over_axes} over its uses", entries, joined.flatten(), style="bars"),
            Series("torch", entries, by_torch, "predicted", "points"),
            x=f"entry of {name}", y="gradient")
        ours.append(_pulled(lambda a, x: BroadcastAddFn.apply(x, a), [a], delta, x))
        theirs.append(by_torch)
    return every(parts | {"BroadcastAddFn": equal_to_rounding(_flat(ours), _flat(theirs))})


@claim(
    control=[
        Control({"value": 2.0}, ["lines above ReLU"], "a slope outside of [0, 1]"),
        Control(
            {"data": "on the kinks"}, ["fields that are 0", "gradients with 1 for 0"],
            "data that put every hidden unit on its kink",
        ),
    ],
    source="Rockafellar 1970, sec. 23",
)
def relu_at_zero(
    seed: Seed, *, value: Annotated[float, Range(0, 2)] = 0.5, samples: Width = 32,
    width: Width = 16, data: Literal["continuous", "on the kinks"] = "continuous",
) -> Evidence:
    r"""At $z=0$ each of $[0,1]$ is a subgradient of ReLU; torch takes 0; elsewhere none shows."""
    rng, relu = seed.torch(), ACTIVATIONS["relu"]
    chosen = {one: replace(relu, derivative=_with_slope(one)) for one in (0.0, value, 1.0)}
    grid, zeros = torch.linspace(-3, 3, 601, dtype=torch.float64), torch.zeros(width).double()
    delta, leaf = randn(rng, width), [zeros.requires_grad_()]
    seen = [_pulled(lambda z, f=f: ElementwiseFn.apply(z, f), leaf, delta) for f in chosen.values()]
    mlp = MLP([5, width, width, 3], rng=rng).double()
    x, y, fields = randn(rng, samples, 5), randn(rng, samples, 3), []
    if data == "on the kinks":
        x = torch.zeros_like(x)
        for layer in mlp.layers:
            nn.init.zeros_(layer.bias)
    gradients = {one: _of_net(mlp, f, x, y, fields) for one, f in chosen.items()}
    by_torch = torch.autograd.grad((mlp(x) - y).square().sum() / 2, [*mlp.parameters()])
    above = torch.stack([grid.relu() < one * grid - 1e-12 for one in (value, 0.0, 1.0)])
    of_table = _pulled(lambda z: ElementwiseFn.apply(z, relu), leaf, delta)
    exact = "the same operations on the same numbers"
    return every({
        "lines above ReLU": never(above, why="a line below a convex function: a definition").drawn(
            Series("ReLU", grid, grid.relu(), style="line"),
            Series(f"slope {value:g}", grid, value * grid, "bound"),
            x="field z", y="output, and a line through 0",
        ),
        "torch and the table at 0": equal(
            torch.cat([_pulled(torch.relu, leaf, delta), of_table]), 0, tol=0, why="a choice"
        ),
        "at 0 the choice shows": equal_to_rounding(
            torch.cat(seen), torch.cat([one * delta for one in chosen])
        ),
        "fields that are 0": never(torch.cat(fields) == 0, why="of continuous data, almost surely"),
        "gradients with 1 for 0": equal(gradients[1.0], gradients[0.0], tol=0, why=exact),
        "gradients of torch": equal_to_rounding(gradients[0.0], _flat(by_torch)),
    })


def _with_slope(value: float) -> Callable[[Tensor], Tensor]:
    """Give the derivative of ReLU with a chosen value at 0."""
    return lambda z: torch.where(z == 0, value, (z > 0).to(z))


def _of_net(mlp: MLP, relu: Activation, x: Tensor, y: Tensor, fields: list[Tensor]) -> Tensor:
    """Compute the gradient of a network by the rules, with a ReLU; note the hidden fields."""
    for layer in mlp.layers[:-1]:
        fields.append(LinearFn.apply(x, layer.weight, layer.bias))
        x = ElementwiseFn.apply(fields[-1], relu)
    last = mlp.layers[-1]
    loss = SquaredLossFn.apply(LinearFn.apply(x, last.weight, last.bias), y).sum()
    return _flat(torch.autograd.grad(loss, [*mlp.parameters()]))

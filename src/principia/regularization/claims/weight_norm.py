r"""Weight normalization: what is true of it, and what would refute it.

Knobs:
    units: Units of a layer.
    inputs: Inputs of a layer.
    samples: Samples of a batch.
    axis: What has a length of its own: the rows, which are the units, or the columns.
    projector: Whether the gradient is projected at right angles to v; without, it is too long.
    lr: Step size η.
    steps: Steps of gradient descent.
    decay: Weight decay of the directions, which shortens them.
    factor: The largest factor c of the directions.
    tied: Whether lengths are scaled with the directions; then outputs change.
    white: Whether inputs have covariance I; if not, the two norms differ.
    workers: Workers that share a batch.
    norm: What normalizes; batch norm makes the samples of a batch depend on each other.
    depth: Layers of the network.
    width: Units of each layer.
    batch: On which batch the sums are looked at; on another one they are standard by chance only.
    length: What is left of the unit's weights and of the spread of its sums; 0 is refused.
"""

import copy
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize

from principia.lab.draws import drawn_anew, randn
from principia.lab.evidence import Evidence, Series, claim, equal, equal_to_rounding, every, never
from principia.lab.params import Range, UsageError
from principia.lab.seeds import Seed
from principia.networks.mlp import MLP
from principia.regularization.initialization import he_mlp
from principia.regularization.weight_norm import (
    data_dependent_init,
    halves,
    merge,
    normalize_weights,
    weight_norm_gradient,
)

Units = Annotated[int, Range(1, 200)]
Dim = Annotated[int, Range(2, 200)]
Samples = Annotated[int, Range(10, 500)]


@claim(
    control={"axis": "columns"},
    refutes=[
        "weights, linear", "gradient of γ, linear", "gradient of v, linear", "weights, convolution",
        "gradient of γ, convolution", "gradient of v, convolution",
    ],
    source="Salimans and Kingma 2016, eq. 2; PyTorch",
)
def torch_is_the_formula(
    seed: Seed, *, units: Dim = 8, inputs: Dim = 20, samples: Samples = 32,
    axis: Literal["rows", "columns"] = "rows",
) -> Evidence:
    r"""`weight_norm` of torch is $w=\gamma v/\Vert v\Vert$ for each unit, as are its gradients."""
    rng, parts, drawn = seed.torch(), {}, []
    for kind, (layer, x, apply) in _layers(units, inputs, samples, rng).items():
        gamma, v = halves(layer)
        length = v.flatten(1).norm(dim=1).view_as(gamma)
        w = gamma * v / (length if axis == "rows" else v.norm(dim=0, keepdim=True))
        theirs, ours = (
            (weight, *torch.autograd.grad(_loss(apply(x, weight)), (gamma, v)))
            for weight in (layer.weight, w)
        )
        names = "weights", "gradient of γ", "gradient of v"
        for name, *pair in zip(names, theirs, ours, strict=True):
            parts[f"{name}, {kind}"] = equal_to_rounding(*pair)
        if kind == "linear":
            of, order = gamma.abs().flatten(), gamma.abs().flatten().argsort()
            drawn = [
                Series("weight_norm of torch", of, layer.weight.norm(dim=1), style="points"),
                Series("γ v / ‖v‖", of[order], w.norm(dim=1)[order], "predicted", "line"),
                Series("v alone", of, v.norm(dim=1), "gray", "points"),
            ]
    net = he_mlp([inputs, units, units, 3], rng=rng).double()
    x, before = randn(rng, samples, inputs), [layer.weight.clone() for layer in net.layers]
    outputs = net(x)
    parts["the start changes nothing"] = equal_to_rounding(normalize_weights(net)(x), outputs)
    kept = [torch.equal(halves(one)[1], w) for one, w in zip(net.layers, before, strict=True)]
    outputs = drawn_anew(net, rng)(x)
    parts["merged"] = equal_to_rounding(merge(net)(x), outputs)
    linear = drawn_anew(nn.utils.skip_init(nn.Linear, 3, 3), rng)
    others = nn.Sequential(copy.deepcopy(linear), normalize_weights(linear))
    parametrizations.orthogonal(others[0])
    plain = [not parametrize.is_parametrized(one) for one in [*net.layers, merge(others)[1]]]
    plain.append(parametrize.is_parametrized(others[0]))
    why = "the weights become the directions; merging leaves plain layers, and other kinds alone"
    parts["in place"] = never([not one for one in kept + plain], why=why)
    return every(parts).drawn(*drawn, x="size of γ of a unit", y="length of its weights")


def _layers(
    units: int, inputs: int, samples: int, rng: torch.Generator
) -> dict[str, tuple[Any, Tensor, Any]]:
    """Make normalized layers of both kinds, with inputs and their map by weights of choice."""
    made = {
        "linear": (nn.utils.skip_init(nn.Linear, inputs, units), (samples, inputs), F.linear),
        "convolution": (nn.utils.skip_init(nn.Conv2d, 2, units, 3), (4, 2, 6, 6), F.conv2d),
    }
    return {
        kind: (drawn_anew(normalize_weights(drawn_anew(layer, rng)), rng), randn(rng, *shape), f)
        for kind, (layer, shape, f) in made.items()
    }


def _loss(outputs: Tensor) -> Tensor:
    """Sum a loss of outputs whose gradient is neither constant nor large."""
    return outputs.cos().sum()


@claim(
    control={"projector": False},
    refutes=["v, linear", "v, convolution"],
    source="Salimans and Kingma 2016, eqs. 3 and 4",
)
def gradient_formulas(
    seed: Seed, *, units: Units = 8, inputs: Dim = 20, samples: Samples = 32,
    projector: bool = True,
) -> Evidence:
    r"""$\ell_\gamma=v^\top\ell_w/|v|$, $\ell_v=\gamma(\ell_w-v\,v^\top\ell_w/|v|^2)/|v|$."""
    parts, drawn = {}, []
    for kind, (layer, x, apply) in _layers(units, inputs, samples, seed.torch()).items():
        gamma, v = halves(layer)
        w = layer.weight.detach().requires_grad_()
        (grad_w,) = torch.autograd.grad(_loss(apply(x, w)), w)
        of_gamma, of_v = weight_norm_gradient(grad_w, gamma.flatten(), v)
        if not projector:
            of_v = gamma / v.flatten(1).norm(dim=1).view_as(gamma) * grad_w
        theirs = torch.autograd.grad(_loss(apply(x, layer.weight)), (gamma, v))
        parts[f"γ, {kind}"] = equal_to_rounding(theirs[0].flatten(), of_gamma)
        parts[f"v, {kind}"] = equal_to_rounding(theirs[1], of_v)
        across, up = (one.detach().flatten()[:200] for one in (of_v, theirs[1]))
        drawn.append(Series(f"{kind} layer", across, up, "other", "points"))
    ends = [float(torch.cat([one.x for one in drawn]).aminmax()[end]) for end in (0, 1)]
    return every(parts).drawn(
        *drawn, Series("equal", ends, ends, "predicted"), x="∂ℓ/∂v by the formula",
        y="∂ℓ/∂v by automatic differentiation",
    )


@claim(control={"decay": 0.1}, source="Salimans and Kingma 2016, sec. 2.1")
def gradient_is_orthogonal(
    seed: Seed, *, units: Units = 10, inputs: Dim = 20, lr: Annotated[float, Range(0.01, 2)] = 0.5,
    steps: Annotated[int, Range(10, 500)] = 100, decay: Annotated[float, Range(0, 0.5)] = 0.0,
) -> Evidence:
    r"""$v^\top\ell_v=0$, so $\Vert v^+\Vert^2=\Vert v\Vert^2+\eta^2\Vert\ell_v\Vert^2$: no less."""
    rng = seed.torch()
    layer = normalize_weights(drawn_anew(nn.utils.skip_init(nn.Linear, inputs, units), rng))
    x, y = randn(rng, 100, inputs), randn(rng, 100, units).tanh()
    gamma, v = halves(layer)
    optimizer = torch.optim.SGD(
        [{"params": [v], "weight_decay": decay}, {"params": [gamma, layer.bias]}], lr=lr
    )
    vs, gradients = [v.detach().clone()], []
    for _ in range(steps):
        optimizer.zero_grad()
        (layer(x).tanh() - y).square().sum(dim=1).mean().backward()
        gradients.append(torch.as_tensor(v.grad).clone())
        optimizer.step()
        vs.append(v.detach().clone())
    path, slopes = torch.stack(vs), torch.stack(gradients)  # steps (+ 1), units, inputs
    squares, growth = path.square().sum(dim=2), lr**2 * slopes.square().sum(dim=2)
    predicted = squares[0] + F.pad(growth.cumsum(dim=0), (0, 0, 1, 0))
    along = (path[:-1] * path.diff(dim=0) / lr).sum(dim=2)  # of what the step really was
    before, after = squares[:-1], squares[1:]
    rounding = "rounding of sums of squares, relative to them"
    return every({
        "length": equal((after - before - growth) / before, 0, tol=1e-12, why=rounding).drawn(
            Series("measured", range(steps + 1), squares.mean(dim=1), style="line"),
            Series("|v₀|² + η² Σ |∂ℓ/∂v|²", range(steps + 1), predicted.mean(dim=1), "predicted"),
            x="step", y="|v|², mean of the units",
        ),
        "right angle": equal(
            along / before, 0, tol=1e-12 * (1 + 1 / lr),
            why="rounding of v, whose step is divided by η, and of gradients around 1",
        ),
        "never shorter": never(after < before * (1 - 1e-12), why="a theorem; rounding"),
    })


@claim(control={"tied": True}, source="Salimans and Kingma 2016, sec. 2.1; van Laarhoven 2017")
def scale_free(
    seed: Seed, *, units: Units = 16, inputs: Dim = 20, samples: Samples = 32,
    factor: Annotated[float, Range(1.1, 1000)] = 10.0, tied: bool = False,
) -> Evidence:
    r"""$v\to cv$, $c>0$, leaves the output as it is and divides the gradient $\ell_v$ by $c$."""
    rng = seed.torch()
    # tanh, because a single unit that is bent by ReLU may be silent on all samples
    net = he_mlp([inputs, units, units, 3], activation="tanh", rng=rng)
    drawn_anew(normalize_weights(net), rng)
    x = randn(rng, samples, inputs)

    def scaled(c: float) -> tuple[Tensor, Tensor]:
        """Give outputs, and the gradients of all directions, with all of them times c."""
        changed = ("original0", "original1") if tied else ("original1",)
        params = {
            name: (one.detach() * (c if name.endswith(changed) else 1)).requires_grad_()
            for name, one in net.named_parameters()
        }
        outputs = functional_call(net, params, (x,))
        directions = [one for name, one in params.items() if name.endswith("original1")]
        slopes = torch.autograd.grad(_loss(outputs), directions)
        return outputs.detach(), torch.cat([one.flatten() for one in slopes])

    factors = [factor ** (k / 6) for k in range(-6, 7)]
    outputs, slopes = map(torch.stack, zip(*map(scaled, factors), strict=True))
    (before, slope), scale = scaled(1.0), torch.tensor(factors, dtype=torch.float64)[:, None]
    why, sizes = "rounding, relative to the largest", (before.abs().max(), slope.abs().max())
    changes = (outputs - before).flatten(1).norm(dim=1) / before.norm()
    lengths = slopes.norm(dim=1)
    return every({
        "output": equal((outputs - before) / sizes[0], 0, tol=1e-12, why=why).drawn(
            Series("change of the output", factors, changes.clamp(min=1e-17)),
            Series("length of the gradient", factors, lengths, "other", "points"),
            Series("1/c", factors, slope.norm() / scale[:, 0], "predicted"),
            x="factor c of all directions", y="relative change; length", log="xy",
        ),
        "gradient": equal((slopes * scale - slope) / sizes[1], 0, tol=1e-11, why=why),
    })


@claim(control={"white": False}, source="Salimans and Kingma 2016, sec. 2.2")
def wn_is_bn_on_white_inputs(
    seed: Seed, *, units: Units = 8, inputs: Annotated[int, Range(2, 50)] = 10,
    samples: Annotated[int, Range(100, 1000)] = 200, white: bool = True,
) -> Evidence:
    r"""On centered inputs with covariance $I$, weight norm is batch norm with $\alpha=\gamma$."""
    rng = seed.torch()
    raw = randn(rng, samples, inputs)
    x = samples**0.5 * torch.linalg.svd(raw - raw.mean(dim=0), full_matrices=False).U
    if not white:  # still centered
        x = x * torch.linspace(0.5, 2, inputs, dtype=x.dtype)
    layer = _layers(units, inputs, samples, rng)["linear"][0]
    gamma, v = halves(layer)
    weight = layer(x)
    batch = F.batch_norm(
        x @ v.mT, None, None, gamma.flatten(), layer.bias, training=True, eps=1e-14
    )
    ours, theirs = (
        (y.detach(), *torch.autograd.grad(_loss(y), (gamma, v))) for y in (weight, batch)
    )
    why = "rounding of the factors of the SVD, and δ = 1e-14 of batch norm"
    parts = {
        name: equal(*pair, tol=1e-8 * (1 + float(pair[1].abs().max())), why=why) for name, *pair
        in zip(("outputs", "gradient of γ", "gradient of v"), ours, theirs, strict=True)
    }
    wn, bn = (one[0].flatten()[:: max(one[0].numel() // 400, 1)] for one in (ours, theirs))
    ends = [float(bn.min()), float(bn.max())]
    return every(parts).drawn(
        Series("one unit, one sample", bn, wn), Series("equal", ends, ends, "predicted"),
        x="with batch norm", y="with weight norm",
    )


@claim(control={"norm": "batch"}, source="Salimans and Kingma 2016, sec. 2.2")
def no_batch_coupling(
    seed: Seed, *, units: Annotated[int, Range(8, 200)] = 32, inputs: Dim = 20,
    samples: Annotated[int, Range(16, 256)] = 64, workers: Annotated[int, Range(2, 8)] = 4,
    norm: Literal["weight", "batch"] = "weight",
) -> Evidence:
    r"""A sample in training has one output, alone or in a batch; workers just add gradients."""
    rng = seed.torch()
    between = nn.BatchNorm1d if norm == "batch" else None
    net = he_mlp([inputs, units, units, 4], norm=between, rng=rng).double().train()
    if norm == "weight":
        drawn_anew(normalize_weights(net), rng)
    x = randn(rng, samples, inputs)
    fewest = 2 if norm == "batch" else 1  # a batch of one has no variance
    sizes = sorted({fewest, 2, 3, 5, 8, samples // 2, samples})
    found = torch.stack([net(x[:size])[0] for size in sizes]).detach()

    def gradient(rows: Tensor) -> Tensor:
        """Sum the gradients of the rows' losses."""
        slopes = torch.autograd.grad(_loss(net(rows)), list(net.parameters()))
        return torch.cat([one.flatten() for one in slopes])

    whole, shared = gradient(x), sum(map(gradient, x.tensor_split(workers)))
    smallest = sum(map(gradient, x.split(fewest)))
    return every({
        "outputs": equal_to_rounding(found[1:], found[:1].expand_as(found[1:])).drawn(
            Series(f"{norm} norm, training mode", sizes, found[:, 0]),
            Series("in the smallest batch", [1, samples], found[:1, 0].repeat(2), "predicted"),
            x="samples in the batch", y="first output of the first sample", log="x",
        ),
        "one at a time": equal_to_rounding(smallest, whole),
        "workers": equal_to_rounding(shared, whole),
    })


@claim(
    control={"batch": "another"},
    refutes=["variance", "mean", "places of pictures and of sequences"],
    source="Salimans and Kingma 2016, sec. 3",
)
def data_dependent_start(
    seed: Seed, *, depth: Annotated[int, Range(1, 10)] = 5, width: Dim = 64, inputs: Dim = 20,
    samples: Samples = 100, batch: Literal["same", "another"] = "same",
) -> Evidence:
    r"""After $\gamma=1/\sigma,\ b=-\mu/\sigma$ all sums have mean 0 and variance 1 on the batch."""
    rng = seed.torch()
    x, other = 1 + randn(rng, 2, samples, inputs)
    net = he_mlp([inputs, *[width] * depth], rng=rng).double()
    before = _sums(normalize_weights(net), x)
    sums = _sums(data_dependent_init(net, x), x if batch == "same" else other)
    variance, mean = torch.var_mean(sums, 1, correction=0)  # of each layer and unit
    first = net.layers[0]
    v = halves(first)[1]
    places, standard = _at_many_places(rng, batch)
    sigma, mu = torch.std_mean(x @ (v / v.norm(dim=1, keepdim=True)).mT, 0, correction=0)
    why, numbers = "rounding, of numbers around 1", range(1, depth + 1)
    spreads = (one.std(dim=1, correction=0).mean(dim=1).detach() for one in (before, sums))
    return every({
        "variance": equal(variance, 1, tol=1e-6, why=why).drawn(
            *(Series(name, numbers, one, role) for name, one, role in zip(
                ("He's start", f"data-dependent, {batch} batch"), spreads,
                ("other", "measured"), strict=True)),  # type: ignore[arg-type]
            Series("1", [1, depth], [1, 1], "predicted"),
            x="layer", y="standard deviation of the sums, mean of the units",
        ),
        "mean": equal(mean, 0, tol=1e-6, why=why),
        "places of pictures and of sequences": equal_to_rounding(places, standard),
        "γ": equal_to_rounding(halves(first)[0].flatten() * sigma, torch.ones_like(sigma)),
        "b": equal_to_rounding(first.bias * sigma, -mu),
    })


def _at_many_places(rng: torch.Generator, batch: str) -> tuple[Tensor, Tensor]:
    """Give variances and means of units that are used at many places, and the numbers 1 and 0."""
    skip, found = nn.utils.skip_init, []
    for layer, shape, over in [
        (skip(nn.Conv2d, 2, 3, (3, 2)), (5, 2, 6, 7), (0, 2, 3)),
        (skip(nn.Conv1d, 3, 4, 2), (9, 3, 5), (0, 2)),
        (skip(nn.Linear, 4, 3), (5, 6, 4), (0, 1)),
    ]:
        plain = drawn_anew(skip(nn.Linear, shape[-1], shape[-1]), rng)  # and left as it is
        net = nn.Sequential(plain, normalize_weights(drawn_anew(layer, rng)))
        x, other = 1 + randn(rng, 2, *shape)
        sums = data_dependent_init(net, x)(x if batch == "same" else other)
        found.append(torch.stack(torch.var_mean(sums, over, correction=0)))
    return torch.cat(found, dim=1), torch.tensor([[1.0], [0.0]]).expand(2, 10)


def _sums(net: MLP, x: Tensor) -> Float[Tensor, "L B m"]:
    """Compute the sums of all units of layers of one width."""
    found = []
    for layer in net.layers:
        found.append(layer(x))
        x = found[-1].relu()
    return torch.stack(found)


@claim(
    control={"length": 1e-3}, source="by construction",
    refutes=["normalize_weights", "weight_norm_gradient", "data_dependent_init"],
)
def zero_has_no_direction(
    seed: Seed, *, units: Annotated[int, Range(4, 50)] = 7, inputs: Dim = 5,
    length: Annotated[float, Range(0, 1)] = 0.0,
) -> Evidence:
    r"""A unit with weights 0 has no direction, one of constant sums no scale: both are refused."""
    rng = seed.torch()
    number = int(torch.randint(2, units, (1,), generator=rng))  # neither the first nor the last
    plain: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, units)  # type: ignore[assignment]
    normal = normalize_weights(copy.deepcopy(drawn_anew(plain, rng)))
    gamma, v = (one.detach().clone() for one in halves(normal))
    grad_w, one = randn(rng, units, inputs), number - 1
    v[one] *= length
    plain.weight.data[one] *= length
    halves(normal)[1].data[one] = torch.eye(inputs)[0]  # sees the first input alone
    x = randn(rng, 20, inputs)
    x[:, 0] = 3 + length * x[:, 0]
    wrong = {
        "normalize_weights": _unit_refused(lambda: normalize_weights(nn.Sequential(plain))),
        "weight_norm_gradient": _unit_refused(
            lambda: weight_norm_gradient(grad_w, gamma.flatten(), v)
        ),
        "data_dependent_init": _unit_refused(lambda: data_dependent_init(normal, x)),
    }
    nothing = drawn_anew(copy.deepcopy(plain), rng)
    nothing.weight.data.zero_()
    square = drawn_anew(nn.utils.skip_init(nn.Linear, 3, 3), rng)
    turned = parametrizations.orthogonal(square)  # others it completes from a global generator
    told = [
        words.format(name) in _refusal(lambda model=model: normalize_weights(model))
        for layer, words in [
            (nothing, "Unit 1 of {} has none"), (normal, "weights of {} are split already"),
            (turned, "Those of {} have another parametrization"),
        ]
        for name, model in [(type(layer).__name__, layer), ("0", nn.Sequential(layer))]
    ]
    why = "the number of the unit; 0 if nothing is refused"
    found = {name: equal(found, number, tol=0, why=why) for name, found in wrong.items()}
    return every({
        **found, "the layer and what it lacks": never([not it for it in told], why="it is named"),
    })


def _refusal(call: Callable[[], Any]) -> str:
    """Give the sentence with which something is refused; none if it is not."""
    try:
        call()
    except UsageError as error:
        return str(error)
    return ""


def _unit_refused(call: Callable[[], Any]) -> int:
    """Give the number of the unit that is told to be wrong."""
    refusal = _refusal(call)
    named = re.search(r"Unit (\d+)", refusal)
    return int(named[1]) if named else -bool(refusal)

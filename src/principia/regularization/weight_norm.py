r"""Weight normalization: every unit learns the length and the direction of its weights apart.

A weight vector is written as a length times a direction, and both are learned. The direction is
kept as a vector of any length, of which the output knows nothing: so its gradient stands at right
angles to it, every step makes it longer, never shorter, and the longer it is, the less a step turns
it. A learning rate that is too large thus lowers itself. Batch normalization divides by the spread
of the sums over a batch; where the inputs are white that spread is the length of the weights, and
the two are one. But weight normalization needs no batch: a sample's output does not depend on its
company, workers need not tell each other statistics, and in use the two factors are multiplied
once and for all. What it lacks is the right scale of the data; one batch at the start gives that.

$$ w = \gamma\,\frac v{\Vert v\Vert}, \quad
\frac{\partial\ell}{\partial\gamma} = \frac{v^\top}{\Vert v\Vert}\frac{\partial\ell}{\partial w},
\quad \frac{\partial\ell}{\partial v} = \frac\gamma{\Vert v\Vert}
\Big(I-\frac{ww^\top}{\Vert w\Vert^2}\Big)\frac{\partial\ell}{\partial w} $$

$$ v^\top\ell_v = 0, \quad v^+ = v-\eta\,\ell_v, \quad
\Vert v^+\Vert^2 = \Vert v\Vert^2+\eta^2\Vert\ell_v\Vert^2, \quad
\ell_v = \frac{\partial\ell}{\partial v} $$

$$ \mathrm E\,x = 0,\ \mathrm{Cov}(x) = I: \quad
\gamma\,\frac{v^\top x}{\Vert v\Vert}+b = \mathrm{BN}(v^\top x); \quad
\gamma_0 = \frac1\sigma,\ b_0 = -\frac\mu\sigma $$

Symbols:
    $w, b$: weights of one unit, a row of `layer.weight`, and its bias
    $\gamma, v$: length and direction, torch's `original0` and `original1` of `normalize_weights`
    $\ell_\gamma, \ell_v, \ell_w$: gradients of the loss with respect to each of them; the first two
        come from the third by `weight_norm_gradient`
    $\eta$: learning rate; what turns the direction is $\eta/\Vert v\Vert^2$
    $\mathrm{BN}$: batch normalization with scale $\gamma$ and level $b$
    $\gamma_0, b_0$: where `data_dependent_init` starts; $\mu, \sigma$ are mean and standard
        deviation of $v^\top x/\Vert v\Vert$ over a batch

References:
    Ioffe and Szegedy (2015), Batch normalization: accelerating deep network training by reducing
        internal covariate shift. ICML. arXiv:1502.03167
    Salimans and Kingma (2016), Weight normalization: a simple reparameterization to accelerate
        training of deep neural networks. NeurIPS. arXiv:1602.07868
    van Laarhoven (2017), L2 regularization versus batch and weight normalization. arXiv:1706.05350
    Xiao, Rasul and Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine
        learning algorithms. arXiv:1708.07747
"""

__all__ = ["normalize_weights", "data_dependent_init", "merge", "weight_norm_gradient"]

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.fashion import fashion
from principia.lab.domains import Range
from principia.lab.draws import drawn_anew, randn
from principia.lab.errors import refuse
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.pairs import paired
from principia.lab.relations import equal, every, identical, never
from principia.lab.seeds import Seed
from principia.lab.training import Diverged, Part, Supervised, evaluate, fit
from principia.lab.training.metrics import accuracy
from principia.regularization.layer_norm import NormMLP
from principia.regularization.norm_constraint import UNITS

Model = TypeVar("Model", bound=nn.Module)
Arm = Literal["plain", "weight_norm", "weight_norm_init", "batch_norm"]
Rate = Annotated[float, Range(0.001, 10)]
Units = Annotated[int, Range(1, 200)]
Dim = Annotated[int, Range(2, 200)]
Samples = Annotated[int, Range(10, 500)]
ARMS: tuple[Arm, ...] = ("plain", "weight_norm", "weight_norm_init", "batch_norm")


def normalize_weights(model: Model) -> Model:
    r"""Splits the weights of all Linear and Conv layers, in place, into length and direction.

    The function stays what it is: $\gamma=\Vert v\Vert$ at first. The optimizer must be made
    afterwards, since the parameters are new ones. For a single layer this is torch's own
    `weight_norm`, with one length for each unit.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, 4.0]]))
        >>> sorted(name for name, _ in normalize_weights(layer).named_parameters())[1:]
        ['parametrizations.weight.original0', 'parametrizations.weight.original1']
        >>> layer.parametrizations.weight.original0.data
        tensor([[5.]])
    """
    layers = {name: one for name, one in model.named_modules() if isinstance(one, UNITS)}
    owner = "normalize_weights"
    if not layers:
        raise refuse(owner, "model", "one with Linear or Conv layers", type(model).__name__)
    for name, layer in layers.items():
        where = name or type(layer).__name__
        if parametrize.is_parametrized(layer, "weight"):
            hint = f"Those of {where} have another parametrization: remove it first."
            if _is_split(layer):
                hint = f"The weights of {where} are split already: merge(model) first."
            raise refuse(owner, "model", "one with plain weights", type(layer).__name__, hint)
        if unit := _first(~layer.weight.detach().flatten(1).any(dim=1)):
            hint = f"Unit {unit} of {where} has none, and no direction: start it at random."
            raise refuse(owner, "model", "one without zero weight vectors", 0, hint)
    for layer in layers.values():
        parametrizations.weight_norm(layer)
    return model


@torch.no_grad()
def data_dependent_init(model: Model, x: Float[Tensor, "B ..."]) -> Model:
    r"""Gives every unit sums of mean 0 and variance 1 on a batch.

    That is $\gamma=1/\sigma$ and $b=-\mu/\sigma$, set in place and in one pass, layer after layer:
    each sees what those before it now give. The directions stay as they are.

    Args:
        model: Network whose weights are normalized, with biases; no layer is used twice.
        x: Batch of inputs.

    Example:
        >>> rng = torch.Generator().manual_seed(0)
        >>> net = normalize_weights(NormMLP([20, 50, 3], norm="none", rng=rng))
        >>> x = torch.rand(100, 20, generator=rng)
        >>> data_dependent_init(net, x)(x).detach().var(dim=0, correction=0)
        tensor([1.0000, 1.0000, 1.0000])
    """
    owner, layers = "data_dependent_init", _normalized("data_dependent_init", model)
    if bare := [name for name, layer in layers.items() if layer.bias is None]:
        hint = "Only a bias can give a unit mean 0."
        raise refuse(owner, "model", "one with biases", f"{bare[0] or 'a layer'} without", hint)
    unseen = {layer: name or type(layer).__name__ for name, layer in layers.items()}

    def start(layer: Any, inputs: tuple[Tensor, ...], sums: Tensor) -> Tensor:
        name = unseen.pop(layer, "")
        if not name:
            hint = "The second use would undo what the first has set."
            raise refuse(owner, "model", "one that uses each layer once", "one used twice", hint)
        axis = -1 if isinstance(layer, nn.Linear) else 1
        variance, mean = torch.var_mean(sums.movedim(axis, 0).flatten(1), 1, correction=0)
        sigma = variance.sqrt()
        if unit := _first(sigma <= 1e-6 * mean.abs()):  # what rounding leaves of a constant
            hint = f"Unit {unit} of {name} gives one sum for all: take a larger batch."
            raise refuse(owner, "x", "a batch on which every unit varies", tuple(x.shape), hint)
        gamma, _ = _halves(layer)
        gamma.div_(sigma.view_as(gamma))
        layer.bias.sub_(mean).div_(sigma)
        return layer.forward(*inputs)

    hooks = [layer.register_forward_hook(start) for layer in layers.values()]
    try:
        model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return model


def merge(model: Model) -> Model:
    r"""Multiplies lengths and directions, in place, into the plain weights that are used later.

    Example:
        >>> net = normalize_weights(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))
        >>> [name for name, _ in merge(net).named_parameters()]
        ['0.bias', '0.weight', '2.bias', '2.weight']
    """
    for layer in _normalized("merge", model).values():
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
    return model


def weight_norm_gradient(
    grad_w: Float[Tensor, " m *n"], gamma: Float[Tensor, " m"], v: Float[Tensor, " m *n"]
) -> tuple[Float[Tensor, " m"], Float[Tensor, " m *n"]]:
    r"""Turns the gradient of the weights into those of lengths and directions, unit by unit.

    Args:
        grad_w: Gradient of the loss with respect to $w=\gamma v/\Vert v\Vert$, one row a unit.
        gamma: Lengths.
        v: Directions, of any length but 0.

    Returns:
        Gradient with respect to $\gamma$, and that with respect to $v$.

    Example:
        >>> grad_w, v = torch.tensor([[1.0, 1.0]]), torch.tensor([[0.0, 2.0]])
        >>> weight_norm_gradient(grad_w, torch.tensor([6.0]), v)
        (tensor([1.]), tensor([[3., 0.]]))
    """
    owner, shapes = "weight_norm_gradient", (grad_w.shape, gamma.shape, v.shape)
    if grad_w.shape != v.shape or gamma.shape != v.shape[:1]:
        got, domain = tuple(map(tuple, shapes)), "of shapes (m, ...), (m,) and (m, ...)"
        raise refuse(owner, "grad_w, gamma, v", domain, got)
    length = v.flatten(1).norm(dim=1, keepdim=True)
    if unit := _first(length == 0):
        raise refuse(owner, "v", "rows other than 0", 0, f"Unit {unit} has no direction.")
    direction, slope = v.flatten(1) / length, grad_w.flatten(1)
    along = (direction * slope).sum(dim=1, keepdim=True)
    across = slope - along * direction  # (I - ww^T / |w|^2) grad_w, also where gamma is 0
    return along[:, 0], (gamma[:, None] / length * across).view_as(v)


def _first(wrong: Tensor) -> int:
    """Count from 1 to the first unit with which something is wrong; 0 where there is none."""
    return int(wrong.int().argmax()) + 1 if bool(wrong.any()) else 0


def _normalized(owner: str, model: nn.Module) -> dict[str, Any]:
    """Find the layers with normalized weights; a model without is refused."""
    layers = {
        name: layer for name, layer in model.named_modules()
        if isinstance(layer, UNITS) and _is_split(layer)
    }
    if not layers:
        hint, domain = "Call normalize_weights(model) first.", "one with normalized weights"
        raise refuse(owner, "model", domain, type(model).__name__, hint)
    return layers


def _is_split(layer: Any) -> bool:
    return parametrize.is_parametrized(layer, "weight") and isinstance(
        layer.parametrizations["weight"][0], parametrizations._WeightNorm
    )


def _halves(layer: Any) -> tuple[Tensor, Tensor]:
    """Give the parameters of a normalized layer: the lengths (m, 1, ...) and the directions."""
    weight = layer.parametrizations.weight
    return weight.original0, weight.original1


@claim(control={"axis": "columns"}, source="Salimans and Kingma 2016, eq. 2; PyTorch")
def torch_is_the_formula(
    seed: Seed, *, units: Dim = 8, inputs: Dim = 20, samples: Samples = 32,
    axis: Literal["rows", "columns"] = "rows",
) -> Evidence:
    r"""`weight_norm` of torch is $w=\gamma v/\Vert v\Vert$ for each unit, as are its gradients."""
    rng, parts = seed.torch(), {}
    for kind, (layer, x, apply) in _layers(units, inputs, samples, rng).items():
        gamma, v = _halves(layer)
        length = v.flatten(1).norm(dim=1).view_as(gamma)
        w = gamma * v / (length if axis == "rows" else v.norm(dim=0, keepdim=True))
        theirs, ours = (
            (weight, *torch.autograd.grad(_loss(apply(x, weight)), (gamma, v)))
            for weight in (layer.weight, w)
        )
        names = "weights", "gradient of γ", "gradient of v"
        for name, *pair in zip(names, theirs, ours, strict=True):
            parts[f"{name}, {kind}"] = identical(*pair)
    net = NormMLP([inputs, units, units, 3], norm="none", rng=rng).double()
    x, before = randn(rng, samples, inputs), [layer.weight.clone() for layer in net.layers]
    outputs = net(x)
    parts["the start changes nothing"] = identical(normalize_weights(net)(x), outputs)
    kept = [torch.equal(_halves(one)[1], w) for one, w in zip(net.layers, before, strict=True)]
    outputs = drawn_anew(net, rng)(x)
    parts["merged"] = identical(merge(net)(x), outputs)
    plain = [not parametrize.is_parametrized(layer) for layer in net.layers]
    why = "the weights become the directions; merging leaves plain layers"
    return every({**parts, "in place": never([not one for one in kept + plain], why=why)})


@claim(control={"projector": False}, source="Salimans and Kingma 2016, eqs. 3 and 4")
def gradient_formulas(
    seed: Seed, *, units: Units = 8, inputs: Dim = 20, samples: Samples = 32,
    projector: bool = True,
) -> Evidence:
    r"""$\ell_\gamma=v^\top\ell_w/|v|$, $\ell_v=\gamma(\ell_w-v\,v^\top\ell_w/|v|^2)/|v|$."""
    parts, drawn = {}, []
    for kind, (layer, x, apply) in _layers(units, inputs, samples, seed.torch()).items():
        gamma, v = _halves(layer)
        w = layer.weight.detach().requires_grad_()
        (grad_w,) = torch.autograd.grad(_loss(apply(x, w)), w)
        of_gamma, of_v = weight_norm_gradient(grad_w, gamma.flatten(), v)
        if not projector:
            of_v = gamma / v.flatten(1).norm(dim=1).view_as(gamma) * grad_w
        theirs = torch.autograd.grad(_loss(apply(x, layer.weight)), (gamma, v))
        parts[f"γ, {kind}"] = identical(theirs[0].flatten(), of_gamma)
        parts[f"v, {kind}"] = identical(theirs[1], of_v)
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
    gamma, v = _halves(layer)
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
    along, before, after = (path[:-1] * slopes).sum(dim=2), squares[:-1], squares[1:]
    rounding = "rounding of sums of squares, relative to them"
    return every({
        "length": equal((after - before - growth) / before, 0, tol=1e-12, why=rounding).drawn(
            Series("measured", range(steps + 1), squares.mean(dim=1), style="line"),
            Series("|v₀|² + η² Σ |∂ℓ/∂v|²", range(steps + 1), predicted.mean(dim=1), "predicted"),
            x="step", y="|v|², mean of the units",
        ),
        "right angle": equal(
            along / before.sqrt(), 0, tol=1e-12, why="rounding, of gradients around 1"
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
    net = NormMLP([inputs, units, units, 3], norm="none", activation="tanh", rng=rng)
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
    gamma, v = _halves(layer)
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
    net = NormMLP([inputs, units, units, 4], norm="batch" if norm == "batch" else "none", rng=rng)
    net = net.double().train()
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
    parts = {"outputs": identical(found[1:], found[:1].expand_as(found[1:])).drawn(
        Series(f"{norm} norm, training mode", sizes, found[:, 0]),
        Series("in the smallest batch", [1, samples], found[:1, 0].repeat(2), "predicted"),
        x="samples in the batch", y="first output of the first sample", log="x",
    )}
    if norm == "weight":
        parts["one at a time"] = identical(sum(map(gradient, x.split(1))), whole)
    return every({**parts, "workers": identical(shared, whole)})


@claim(control={"batch": "another"}, source="Salimans and Kingma 2016, sec. 3")
def data_dependent_start(
    seed: Seed, *, depth: Annotated[int, Range(1, 10)] = 5, width: Dim = 64, inputs: Dim = 20,
    samples: Samples = 100, batch: Literal["same", "another"] = "same",
) -> Evidence:
    r"""After $\gamma=1/\sigma,\ b=-\mu/\sigma$ all sums have mean 0 and variance 1 on the batch."""
    rng = seed.torch()
    x, other = 1 + randn(rng, 2, samples, inputs)
    net = NormMLP([inputs, *[width] * (depth - 1), width], norm="none", rng=rng).double()
    before = _sums(normalize_weights(net), x)
    sums = _sums(data_dependent_init(net, x), x if batch == "same" else other)
    variance, mean = torch.var_mean(sums, 1, correction=0)  # of each layer and unit
    first = net.layers[0]
    v = _halves(first)[1]
    sigma, mu = torch.std_mean(x @ (v / v.norm(dim=1, keepdim=True)).mT, 0, correction=0)
    why, places = "rounding, of numbers around 1", range(1, depth + 1)
    spreads = (one.std(dim=1, correction=0).mean(dim=1).detach() for one in (before, sums))
    return every({
        "variance": equal(variance, 1, tol=1e-6, why=why).drawn(
            *(Series(name, places, one, role) for name, one, role in zip(
                ("He's start", f"data-dependent, {batch} batch"), spreads,
                ("other", "measured"), strict=True)),  # type: ignore[arg-type]
            Series("1", [1, depth], [1, 1], "predicted"),
            x="layer", y="standard deviation of the sums, mean of the units",
        ),
        "mean": equal(mean, 0, tol=1e-6, why=why),
        "γ": identical(_halves(first)[0].flatten() * sigma, torch.ones_like(sigma)),
        "b": identical(first.bias * sigma, -mu),
    })


@experiment(
    reaches={"share_of_steps": at_most_goal(0.7), "steps_saved_low": at_least_goal(0)},
    floor={"share_of_steps": at_most_goal(0.9)},
    source="Salimans and Kingma 2016, fig. 1: with its start by data, weight normalization trains "
    "faster than the plain network; here to its last training loss in 0.7 of its steps",
)
def wn_vs_bn(
    run: Run, *, pairs: Annotated[int, Range(2, 10)] | None = None,
    epochs: Annotated[int, Range(3, 30)] = 6, width: Annotated[int, Range(16, 512)] | None = None,
    lrs: tuple[Rate, ...] | None = None,
) -> None:
    """Counts the steps to the plain network's last training loss, each at its best rate.

    Pixels stay in [0, 1] and are not centered: with centered ones He's start is better and leaves
    less to gain. Of clothes each network sees 10,000.

    Args:
        pairs: Starts and orders of the data, each shared by all networks; none is 3, of clothes 5.
        epochs: How often each network sees the data.
        width: Units of each of the two hidden layers; none is 64, of clothes 256.
        lrs: Rates, of which each kind takes that with the lowest loss from one more start.
    """
    x, y, *test = digits()
    rows, size, units, rates = len(x), 32, width or 64, lrs or (0.1, 0.3, 1.0)
    pairs = pairs or (5 if run.full else 3)
    if run.full:
        (x, y), test = (fashion(split, data_dir=run.data_dir) for split in ("train", "test"))
        rows, size, units, rates = 10_000, 100, width or 256, lrs or (0.02, 0.05, 0.1, 0.3, 1.0)
    x, tested = x.flatten(1), (test[0].flatten(1), test[1])
    watch = _Lengths(looks=50)

    def train(arm: Arm, pair: str, rate: float, *parts: Part) -> tuple[nn.Module, list[float]]:
        """Train one network, and give the mean loss of each epoch."""
        seed = run.seed.child(pair)
        some = torch.randperm(len(x), generator=seed.child("rows").torch())[:rows]
        net = _started(arm, [x.shape[1], units, units, 10], seed.child("start"), x[some[:500]])
        name = f"{arm}-{rate:g}-{pair}"
        try:
            fit(
                net, (x[some], y[some]), Supervised(F.cross_entropy),
                torch.optim.SGD(net.parameters(), lr=rate, fused=True), epochs=epochs,
                batch_size=size, parts=parts, seed=seed.child("batches"), run=run, name=name,
            )
        except Diverged:
            return net, [math.inf] * epochs
        return net, [row["loss"] for row in run.curves[name]]

    found: dict[Arm, list[list[float]]] = {arm: [] for arm in ARMS}
    right: dict[Arm, list[float]] = {arm: [] for arm in ARMS}
    for arm in ARMS:
        best = min(dict.fromkeys(rates), key=lambda rate, arm=arm: train(arm, "first", rate)[1][-1])
        for pair in range(pairs):
            shown = arm == "weight_norm_init" and pair == 0
            net, losses = train(arm, f"pair{pair}", best, *([watch] if shown else []))
            found[arm].append(losses)
            right[arm].append(evaluate(net, tested, {"accuracy": accuracy})["accuracy"])
            if shown:
                run.keep(merge(net))
        last = statistics.fmean(losses[-1] for losses in found[arm])
        run.record(**{f"{arm}_rate": best, f"{arm}_loss": last})
    shares = {
        arm: [_epochs_to(plain[-1], one) / epochs
              for one, plain in zip(found[arm], found["plain"], strict=True)]
        for arm in ARMS[1:]
    }
    ours, *others = ARMS[2], ARMS[1], ARMS[3]
    run.record(**{f"{arm}_share_of_steps": statistics.fmean(shares[arm]) for arm in others})
    share, correct = (statistics.fmean(one[ours]) for one in (shares, right))
    run.record(share_of_steps=share, accuracy=correct)
    gain, saved = paired(right[ours], right["plain"]), paired([1.0] * pairs, shares[ours])
    run.record(**saved.metrics("steps_saved"), **gain.metrics("accuracy_gain"))
    run.figure("lengths", _lengths_and_rates(watch.seen))
    run.figure("pairs", saved.figure(
        "share of the plain network's steps", ("weight norm and start", "plain")
    ))


@final
class _Lengths(Part):
    """Measures the lengths of the directions, layer by layer, at evenly spaced steps."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def begin(self, model: nn.Module, optimizers: Mapping[str, Any], steps: int) -> None:
        """Look at the start."""
        self._step, self._every, self._seen = 0, max(steps // self.looks, 1), []
        self.look(model)

    @torch.no_grad()
    def look(self, model: nn.Module) -> None:
        """Take the root mean square of the lengths of a layer's units."""
        lengths = [
            float(_halves(layer)[1].square().sum(dim=1).mean().sqrt())
            for layer in _normalized("_Lengths", model).values()
        ]
        self._seen.append([float(self._step), *lengths])

    def after_step(self, model: nn.Module) -> None:
        """Look, if it is time."""
        self._step += 1
        if self._step % self._every == 0:
            self.look(model)

    @property
    def seen(self) -> Tensor:
        """A row for each look: the step, and the length in every layer."""
        return torch.tensor(self._seen, dtype=torch.float64)

    def state_dict(self) -> dict[str, Any]:
        """Give what was seen."""
        return {"step": self._step, "seen": self._seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what was seen."""
        self._step, self._seen = state["step"], state["seen"]


def _lengths_and_rates(seen: Tensor) -> Any:
    """Draw the lengths, and the rates that they leave, both as multiples of those at the start."""
    steps, *lengths = seen.T
    series = []
    for number, length in enumerate(lengths, start=1):
        ratio = length / length[0]
        series += [
            Series(f"layer {number}: |v|", steps, ratio, "other", "line"),
            Series(f"layer {number}: η/|v|²", steps, 1 / ratio**2, "other", "line"),
        ]
    return figures.draw(Picture(tuple(series), "training step", "multiple of the start"))


def _started(arm: Arm, sizes: list[int], seed: Seed, batch: Tensor) -> NormMLP:
    """Make a network by He's rule, the same weights for all kinds, and normalize it its way."""
    net = NormMLP(sizes, norm="batch" if arm == "batch_norm" else "none", rng=seed.torch())
    if arm.startswith("weight_norm"):
        normalize_weights(net)
    return data_dependent_init(net, batch) if arm == "weight_norm_init" else net


def _epochs_to(goal: float, losses: Sequence[float]) -> float:
    """Find where a curve of losses falls to a goal, between epochs by its logarithm."""
    if not math.isfinite(goal):  # of a network that diverged: to beat it saves nothing
        return float(len(losses))
    for epoch, loss in enumerate(losses, start=1):
        if loss <= goal:
            if epoch == 1:
                return 1.0
            before = math.log(losses[epoch - 2])
            return epoch - (math.log(goal) - math.log(loss)) / (before - math.log(loss))
    return len(losses) + 1.0  # one more at least


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


def _sums(net: NormMLP, x: Tensor) -> Float[Tensor, "L B m"]:
    """Compute the sums of all units of layers of one width."""
    found = []
    for layer in net.layers:
        found.append(layer(x))
        x = found[-1].relu()
    return torch.stack(found)

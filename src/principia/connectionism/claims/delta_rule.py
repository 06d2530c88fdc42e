r"""The delta rule: what is true of it, and what would refute it.

Knobs:
    size: Inputs and units of the layer.
    transposed: Whether the weights are transposed, which sends inputs to the wrong units.
    inputs: Inputs of the layer.
    units: Units of the layer.
    batch: Samples over which a step is averaged.
    lr: The learning rate: how far a step goes.
    derivative: Whether the rule has the slope of the unit; without it, it is no gradient.
    points: Points that are learned.
    dim: Dimension of the points.
    order: In which order an epoch visits the points; as given, batches are other ones.
    rule: Who makes the step; Adam scales every weight by itself, and so leaves the input's
        direction.
    steps: Steps of the training.
    sign: The sign of the step; with + it climbs the loss.
    nets: Networks that are trained, each from its own start.
    hidden: Whether there is a hidden layer; without it no net solves XOR.
    target: The function to learn; AND needs no hidden layer.
    depth: The largest distance of the field from 0.
    phi: The function of the unit; only the sigmoid saturates.
    side: On which side of 0 the field lies; on the right one there is nothing left to teach.
"""

import functools
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
import torch
from scipy import stats
from sklearn.utils import check_random_state
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from principia.connectionism.delta_rule import (
    DeltaLayer,
    DeltaRegressor,
    Layer,
    OneHidden,
    delta_move,
    delta_step,
    generalized_delta,
    layer_transfer,
    uniform_linear,
)
from principia.connectionism.neuron import EXACT
from principia.lab.evidence import (
    Control,
    Evidence,
    Series,
    at_least,
    at_most,
    claim,
    equal,
    equal_to_rounding,
    every,
    follows,
    never,
)
from principia.lab.params import Range
from principia.lab.pictures import Matrix, Plot
from principia.lab.seeds import Seed

TORCH_UNITS = {
    "identity": nn.Identity(), "sigmoid": nn.Sigmoid(), "tanh": nn.Tanh(), "relu": nn.ReLU(),
    "softplus": nn.Softplus(threshold=EXACT),
}  # what the claims compare with


@claim(
    control={"transposed": True}, refutes=[*TORCH_UNITS, "sign"],
    source="Rumelhart, Hinton and Williams 1986",
)
def layer_transfer_claim(
    seed: Seed, *, size: Annotated[int, Range(10, 1000)] = 20, transposed: bool = False
) -> Evidence:
    r"""$\Phi(Wx+b)$ is `nn.Linear` with a torch activation; the sign makes threshold units."""
    rng = seed.torch()
    # integers: some fields are exactly 0, where the sign must say +1
    W, x, shifts = (torch.randint(-2, 3, (size, size), generator=rng).double() for _ in range(3))
    b, x = shifts[0], x[: size // 2].expand(2, -1, -1)  # batches of any shape
    linear = nn.utils.skip_init(nn.Linear, size, size, dtype=torch.float64)
    linear.load_state_dict({"weight": W, "bias": b})
    fields = linear(x).detach()
    expected = {name: unit(fields) for name, unit in TORCH_UNITS.items()}
    expected["sign"] = torch.where(fields >= 0, 1.0, -1.0)
    sums = OneHidden(size, 100, phi=torch.cos, rng=rng).double()  # a function of one's own
    hidden: nn.Linear = sums.hidden  # type: ignore[assignment]
    output: nn.Linear = sums.output  # type: ignore[assignment]
    kept = hidden.weight, hidden.bias, output.weight, output.bias
    by_hand = (x @ kept[0].mT + kept[1]).cos() @ kept[2][0] + kept[3]
    first = torch.cat([one.detach().flatten() * fan**0.5 for one, fan in zip(
        kept, (size, size, 100, 100), strict=True)])
    used: Any = W.T if transposed else W
    return every(
        {
            name: equal_to_rounding(layer_transfer(used, b, x, name), values)  # type: ignore[arg-type]
            for name, values in expected.items()
        }
        | {
            "one hidden layer": equal_to_rounding(sums(x), by_hand),
            "first weights": follows(
                first, stats.uniform(-1, 2), why="uniform within one over the root of the fan-in"
            ),
        }
    )


@claim(
    control={"derivative": False},
    refutes=["sigmoid", "tanh", "relu", "softplus"],
    source="Rumelhart, Hinton and Williams 1986",
)
def delta_is_gradient(
    seed: Seed, *, inputs: Annotated[int, Range(1, 500)] = 7,
    units: Annotated[int, Range(1, 500)] = 5, batch: Annotated[int, Range(3, 1000)] = 11,
    lr: Annotated[float, Range(0.01, 10)] = 0.5, derivative: bool = True,
) -> Evidence:
    r"""The delta rule is $-\eta\,\partial\ell/\partial W$, $\ell=\frac12\Vert\varphi-y\Vert^2$."""
    draw = functools.partial(torch.randn, generator=seed.torch(), dtype=torch.float64)
    W, b, x = draw(units, inputs), draw(units), draw(batch, inputs)
    parts, shown = {}, {}
    for name, unit in TORCH_UNITS.items():
        y = unit(draw(batch, units))
        moved = delta_step(W, b, x, y, name, lr)  # type: ignore[arg-type]
        if not derivative:
            moved = delta_move(W, b, y - unit(F.linear(x, W, b)), x, lr)
        taken = torch.column_stack([moved[0] - W, moved[1] - b])  # type: ignore[operator]
        shown[name] = taken, _descent(unit, W, b, x, y, lr)
        parts[name] = equal_to_rounding(*shown[name])
    labels = torch.arange(batch) % 3
    lows: dict[Any, float] = {"identity": -1.0, "sigmoid": 0.0, "tanh": -1.0}
    for name, low in lows.items():
        y = torch.where(F.one_hot(labels, 3) == 1, 1.0, low).double()
        step = _descent(TORCH_UNITS[name], W.new_zeros(3, inputs), W.new_zeros(3), x, y, lr)
        for kind, targets in ((DeltaLayer, labels), (DeltaRegressor, y)):
            model = kind(phi=name, lr=lr, batch=batch, epochs=1, random_state=int(seed))
            model.fit(x.numpy(), targets.numpy())
            taken = np.column_stack([model.coef_, model.intercept_])
            parts[f"{kind.__name__}, {name}"] = equal_to_rounding(taken, step)
    few, ways = range(min(units, 4)), ("rule", "autograd")
    return every(parts).pictured(Plot((Matrix(
        torch.stack(shown["tanh"], dim=1).flatten(0, 1)[: 2 * len(few), -12:],
        [f"{way} {k + 1}" for k in few for way in ways], signed=True,
    ),), "input (the last is the bias)", "step of tanh units", title="two ways"))


def _descent(unit: nn.Module, W: Tensor, b: Tensor, x: Tensor, y: Tensor, lr: float) -> Tensor:
    """Take the step of gradient descent by autograd, weights and biases side by side."""
    leaves = W.clone().requires_grad_(), b.clone().requires_grad_()
    loss = (unit(F.linear(x, *leaves)) - y).square().sum() / (2 * len(x))
    return torch.column_stack([-lr * one for one in torch.autograd.grad(loss, leaves)])


@claim(
    control={"order": "as given"}, refutes=["weights and losses"],
    source="Widrow and Hoff 1960; Rumelhart, Hinton and Williams 1986",
)
def epochs_of_batches(
    seed: Seed, *, points: Annotated[int, Range(40, 1000)] = 70,
    dim: Annotated[int, Range(1, 50)] = 3, order: Literal["drawn", "as given"] = "drawn",
) -> Evidence:
    r"""The estimators take delta steps, batch by batch, and predict by the fields $Wx+b$."""
    rng = seed.numpy()
    X = rng.normal(size=(points, dim)) * [1.5, *[0.5] * (dim - 1)]
    Y = 0.5 + 0.4 * np.tanh(X @ rng.normal(size=(dim, 2)))
    numbers = rng.integers(3, size=points)
    names, hot = np.array(["a", "b", "c"]), np.eye(3)[numbers]
    safe = 1 / float(((X**2).sum(axis=1) + 1).max())  # never overshoots
    few = {"epochs": 3}  # else 100, and 32 points in a batch
    cases: list[tuple[Any, Any, Any, dict[str, Any], str, float]] = [
        (DeltaRegressor, Y, Y, {}, "identity", safe),
        (DeltaRegressor, Y[:, 0], Y[:, :1], {"phi": "sigmoid", "lr": 2.0, **few}, "sigmoid", 2.0),
        (DeltaRegressor, Y, Y, {"fit_intercept": False, "batch": 9, **few}, "identity", safe),
        (DeltaLayer, names[numbers], hot, {}, "sigmoid", 0.5),
        (DeltaLayer, names[numbers], 2 * hot - 1, {"phi": "tanh", **few}, "tanh", 0.5),
        (DeltaLayer, numbers > 0, 1 - 2 * hot[:, :1], {"phi": "identity", "lr": None, **few},
         "identity", safe),
    ]
    learned, answers, wrong = ([], []), ([], []), []  # each by the model, and by hand
    for kind, y, targets, settings, name, lr in cases:
        model = kind(random_state=int(seed), **settings).fit(X, y)
        shuffle = check_random_state(int(seed)).permutation if order == "drawn" else np.arange
        chosen = {"batch": 32, "epochs": 100, "fit_intercept": True, **settings}
        W, b, losses = _by_hand(X, targets, TORCH_UNITS[name], lr, shuffle, chosen)
        fields = X @ model.coef_.T + model.intercept_
        for place, ends in enumerate([(model.coef_, model.intercept_, model.loss_curve_),
                                      (W, b, losses)]):
            learned[place].extend(np.ravel(one) for one in ends)
        if kind is DeltaRegressor:
            answers[0].append(model.predict(X).ravel())
            answers[1].append(TORCH_UNITS[name](torch.tensor(fields)).numpy().ravel())
            wrong.append([model.predict(X).shape != y.shape])
        else:
            answers[0].append(model.decision_function(X).ravel())
            answers[1].append(fields.ravel())
            best = fields.argmax(axis=1) if len(W) > 1 else (fields[:, 0] >= 0).astype(int)
            wrong.append(model.predict(X) != np.unique(y)[best])
    even = DeltaLayer(random_state=int(seed)).fit([[1.0], [1.0]], [0, 1])
    wrong.append(even.predict([[2.0]]) != 1)  # a score of 0
    return every(
        {
            "weights and losses": equal_to_rounding(*map(np.concatenate, learned)).drawn(
                *(Series(name, range(1, 1 + len(learned[0][place])), learned[0][place], "other",
                         "points") for name, place in (("DeltaRegressor", 2), ("DeltaLayer", 11))),
                *(Series("by hand", range(1, 1 + len(learned[1][place])), learned[1][place],
                         "predicted") for place in (2, 11)), x="epoch", y="loss", log="y",
            ),
            "outputs": equal_to_rounding(*map(np.concatenate, answers)),
            "classes": never(np.concatenate(wrong), why="the unit with the largest field"),
        }
    )


def _by_hand(
    X: Any, y: Any, unit: nn.Module, lr: float, shuffle: Any, chosen: dict[str, Any]
) -> tuple[Any, Any, list[float]]:
    """Descend from 0 by autograd on batches; give weights, biases and the loss of each epoch."""
    x, y = torch.tensor(X), torch.tensor(y, dtype=torch.float64)
    W, b, losses = x.new_zeros(y.shape[1], x.shape[1]), x.new_zeros(y.shape[1]), []
    for _ in range(chosen["epochs"]):
        for rows in torch.tensor(shuffle(len(x))).split(chosen["batch"]):
            step = _descent(unit, W, b, x[rows], y[rows], lr)
            W, b = W + step[:, :-1], b + step[:, -1] * chosen["fit_intercept"]
        error = unit(x @ W.mT + b) - y
        losses.append(float((error**2).sum() / (2 * len(x))))
    return W.numpy(), b.numpy(), losses


@claim(control={"rule": "adam"}, source="by construction")
def update_along_inputs(
    seed: Seed, *, inputs: Annotated[int, Range(2, 1000)] = 30,
    units: Annotated[int, Range(2, 500)] = 10, rule: Literal["delta", "adam"] = "delta",
) -> Evidence:
    r"""One sample moves each row of $W$ along the input: residual times sensitivity times $x$."""
    rng = seed.torch()
    W = torch.randn(units, inputs, generator=rng, dtype=torch.float64) / inputs**0.5
    x = torch.randn(1, inputs, generator=rng, dtype=torch.float64)
    y = 2 * torch.rand(1, units, generator=rng, dtype=torch.float64) - 1
    output = torch.tanh(x @ W.T)
    if rule == "delta":
        moved = delta_step(W, None, x, y, "tanh", 1.0)[0] - W
    else:
        leaf = W.clone().requires_grad_()
        ((torch.tanh(x @ leaf.T) - y).square().sum() / 2).backward()
        torch.optim.Adam([leaf], lr=1.0).step()
        moved = leaf.detach() - W
    values = torch.linalg.svdvals(moved)
    rounding = "float64: changes of weights of size 1 carry errors of 1e-16"
    return every(
        {
            "cosine with the input": equal(
                F.cosine_similarity(moved, x).abs(), 1.0, tol=1e-12, why=rounding
            ).drawn(
                *(Series(f"unit {k}", x[0], moved[k], "other", "points") for k in range(2)),
                *(Series("along x", x[0], moved[k] @ x[0] / (x @ x[0]) * x[0], "predicted")
                  for k in range(2)), x="input xⱼ", y="change of the weight wᵢⱼ",
            ),
            "rank one": at_most(values[1] / values[0], 1e-12, why=rounding),
            "residual times sensitivity": equal_to_rounding(
                moved @ x[0] / x.square().sum(), ((y - output) * (1 - output**2))[0]
            ),
        }
    )


@claim(
    control={"sign": "+"},
    source="Rumelhart, Hinton and Williams 1986",
    misprint=r"keeps $\Delta w=+\eta\delta\varphi'x$ with $\delta=\partial\ell/\partial\varphi$",
)
def generalized_delta_sign(
    seed: Seed, *, steps: Annotated[int, Range(2, 200)] = 50,
    lr: Annotated[float, Range(0.001, 0.1)] = 0.1, sign: Literal["-", "+"] = "-",
) -> Evidence:
    r"""With $\delta=\partial\ell/\partial\varphi=\varphi-y$ the step is $-\eta\delta\varphi'x$."""
    rng = seed.torch()
    sizes, units = (4, 8, 6, 2), ("sigmoid", "tanh", "identity")
    draw = functools.partial(torch.randn, generator=rng, dtype=torch.float64)
    x, y = draw(32, sizes[0]), draw(32, sizes[-1])
    layers: list[Layer] = [
        (draw(m, n) / n**0.5, draw(m), name)
        for n, m, name in zip(sizes[:-1], sizes[1:], units, strict=True)
    ]
    losses, forecast, taken, gradients = [], [], [], []
    for _ in range(steps + 1):
        leaves = [one.clone().requires_grad_() for one in _weights(layers)]
        output = x
        for place, name in enumerate(units):
            output = TORCH_UNITS[name](F.linear(output, *leaves[2 * place : 2 * place + 2]))
        loss = F.mse_loss(output, y, reduction="sum") / (2 * len(x))
        gradient = nn.utils.parameters_to_vector(torch.autograd.grad(loss, leaves))
        moved = generalized_delta(layers, x, y, lr=lr)
        moved = moved if sign == "-" else mirrored(layers, moved)
        pairs = zip(_weights(moved), _weights(layers), strict=True)
        taken.append(nn.utils.parameters_to_vector([new - old for new, old in pairs]))
        gradients.append(gradient)
        losses.append(float(loss.detach()))
        forecast.append(losses[-1] - lr * float(gradient.square().sum()))
        layers = moved
    return every(
        {
            "steps that do not lower the loss": never(
                np.greater_equal(losses[1:], losses[:-1]),
                why="descent: the curvature is below 2 / lr along the way",
            ).drawn(
                Series("loss", range(steps + 1), losses),
                Series("first-order forecast", range(1, steps + 1), forecast[:-1], "predicted"),
                x="steps", y="loss",
            ),
            "steps by autograd": equal_to_rounding(
                torch.stack(taken), -lr * torch.stack(gradients)
            ),
        }
    )


def _weights(layers: Sequence[Layer]) -> list[Tensor]:
    return [one for W, b, _ in layers for one in (W, b) if one is not None]


def mirrored(layers: Sequence[Layer], moved: Sequence[Layer]) -> list[Layer]:
    """Go as far from the layers as they moved, in the opposite direction."""
    pairs = zip(layers, moved, strict=True)
    return [(2 * W - V, 2 * b - c, name) for (W, b, name), (V, c, _) in pairs]  # type: ignore[operator]


@claim(
    control=[
        Control({"hidden": False}, ["share with all four right"], "no hidden layer"),
        Control({"target": "and"}, ["single layers with all four right"], "a line separates AND"),
    ],
    source="Minsky and Papert 1969; Rumelhart et al. 1986",
)
def hidden_layer_solves_xor(
    seed: Seed, *, nets: Annotated[int, Range(20, 1000)] = 100,
    units: Annotated[int, Range(3, 64)] = 4, steps: Annotated[int, Range(300, 2000)] = 500,
    hidden: bool = True, target: Literal["xor", "and"] = "xor",
) -> Evidence:
    r"""One hidden layer of four sigmoid units mostly learns XOR; a single layer never does."""
    rng = seed.torch()
    y = torch.tensor([0.0, 1.0, 1.0, 0.0] if target == "xor" else [0.0, 0.0, 0.0, 1.0])
    share = single = _share_solving(y, [uniform_linear(2, 1, rng) for _ in range(nets)], steps)
    if hidden:
        share = _share_solving(y, [OneHidden(2, units, rng=rng) for _ in range(nets)], steps)
    return every(
        {
            "share with all four right": at_least(
                share, 0.7,
                why="some starts end in local minima; 0.9 of many nets do not, less 6 SE of 100",
            ),
            "single layers with all four right": equal(
                single, 0.0, tol=0, why="a theorem: no line separates XOR"
            ),
        }
    )


def _share_solving(y: Tensor, nets: Sequence[nn.Module], steps: int) -> float:
    """Train all nets at once by Adam on cross-entropy; return the share with all four right."""
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = y.expand(len(nets), 4)
    weights, _ = stack_module_state(list(nets))  # type: ignore[arg-type]
    adam = torch.optim.Adam(weights.values(), lr=0.1, fused=True)

    def scores() -> Tensor:
        call = vmap(lambda one: functional_call(nets[0], one, (x,)))
        return call(weights).reshape(len(nets), 4)

    for _ in range(steps):
        adam.zero_grad()
        F.binary_cross_entropy_with_logits(scores(), y, reduction="sum").backward()
        adam.step()
    return float(((scores() > 0) == (y > 0)).all(dim=1).double().mean())


@claim(
    control=[
        Control({"phi": "identity"}, ["squared loss", "below the derivative"], "a linear unit"),
        Control({"side": "right"}, ["squared loss", "cross-entropy"], "the unit is right already"),
    ],
    source="by construction",
)
def saturation(
    seed: Seed, *, depth: Annotated[int, Range(2, 300)] = 10,
    phi: Literal["sigmoid", "identity"] = "sigmoid", side: Literal["wrong", "right"] = "wrong",
) -> Evidence:
    r"""Deep in the wrong, at $z\ll0$, squared loss teaches by $e^{-|z|}$, cross-entropy by 1."""
    z = torch.arange(1, depth + 1, dtype=torch.float64) * (-1 if side == "wrong" else 1)
    one = torch.ones(1, 1, dtype=torch.float64)
    # weights 0 with the field in the bias: small steps are not rounded away
    moved, _ = delta_step(torch.zeros(depth, 1).double(), z, one, one.expand(1, depth), phi, 1.0)
    squared = moved[:, 0]
    leaf = z.clone().requires_grad_()
    F.binary_cross_entropy_with_logits(leaf, torch.ones_like(z), reduction="sum").backward()
    entropy, decay = -leaf.grad, (-z.abs()).exp()  # type: ignore[operator]
    places = z.abs().tolist()
    return every(
        {
            "squared loss": equal(
                squared, decay, tol=3 * decay**2 + 1e-13 * decay,
                why="exactly e^-|z| (1 + e^-|z|)^-3, within 3 e^-2|z| of e^-|z|; rounding",
            ).drawn(
                Series("squared loss", places, squared),
                Series("cross-entropy", places, entropy, role="other"),
                Series("e^-|z|", places, decay, role="predicted"),
                x="|z|", y="size of the gradient", log="y",
            ),
            "below the derivative": at_most(
                squared, z.sigmoid() * (-z).sigmoid(), why="the residual is below 1: no slack"
            ),
            "cross-entropy": equal(
                entropy, 1.0, tol=decay + 1e-15, why="exactly 1 / (1 + e^-|z|); rounding"
            ),
        }
    )

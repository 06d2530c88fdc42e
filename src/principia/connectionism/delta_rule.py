r"""The delta rule: the perceptron's update for smooth units, which is a gradient step.

A layer sends $x$ to $\Phi(Wx+b)$. Each weight moves by residual times sensitivity times input,
which is steepest descent of half the squared error. One layer of such units draws only straight
lines; with hidden layers between, the same rule holds once $\delta$ means the derivative of the
loss by the unit's output, sent back through the weights. Then the sign changes: $\delta=\varphi-y$
points uphill. Where a unit is saturated, $\varphi'\approx 0$ and the rule does not learn.

$$ \Delta w_{ij} = \eta\,\delta_i\,\varphi'(z_i)\,x_j, \quad \delta_i = y_i-\varphi(z_i), \quad
z = Wx+b $$

$$ \Delta w_{ij} = -\eta\,\frac{\partial\ell}{\partial\varphi_i}\,\varphi'(z_i)\,x_j, \quad
\frac{\partial\ell}{\partial x_j} = \sum_i\frac{\partial\ell}{\partial\varphi_i}\,\varphi'(z_i)\,
w_{ij} $$

$$ \sigma' = \sigma(1-\sigma), \quad \tanh' = 1-\tanh^2, \quad \mathrm{softplus}' = \sigma, \quad
\mathrm{relu}'(z) = 1\{z>0\}, \quad \mathrm{sign}' = 0 $$

Symbols:
    $W, b$: weights (m, n) and biases (m,) of a layer
    $x, y$: inputs (B, n) and targets (B, m)
    $\varphi, \varphi'$: activation `phi` and its derivative, `ACTIVATIONS[phi]`
    $\delta$: residual of a unit; in the deep rule the loss's derivative by its output
    $\eta$: learning rate, `lr`
    $\ell$: half the squared error, averaged over the batch

References:
    Widrow and Hoff (1960), Adaptive switching circuits. IRE WESCON Convention Record 4.
    Rumelhart, Hinton and Williams (1986), Learning representations by back-propagating errors.
        Nature 323. doi:10.1038/323533a0
    LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document
        recognition. Proceedings of the IEEE 86(11). doi:10.1109/5.726791
"""

__all__ = [
    "DeltaLayer", "DeltaRegressor", "OneHidden", "delta_step", "generalized_delta",
    "layer_transfer",
]

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, final, get_args

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.handwriting import handwriting
from principia.lab.domains import Count, Positive, Range
from principia.lab.errors import refuse
from principia.lab.estimators import class_codes
from principia.lab.evidence import Evidence, Picture, Series
from principia.lab.experiments import Run, at_least_goal, at_most_goal, experiment
from principia.lab.knobs import check_params, checked
from principia.lab.relations import at_least, at_most, equal, every, identical, never
from principia.lab.seeds import Seed

Array = np.ndarray
Layer = tuple[Tensor, Tensor | None, Any]  # weights (m, n), biases (m,) or none, name of phi
Smooth = Literal["identity", "sigmoid", "tanh", "relu", "softplus"]
Name = Literal["identity", "sigmoid", "tanh", "relu", "softplus", "sign"]


EXACT = 40  # where torch takes softplus for the identity: e^-40 is below rounding


class Activation(NamedTuple):
    """A function of the field of a unit, its derivative (none: nothing to learn by), its range."""

    value: Callable[[Tensor], Tensor]
    slope: Any = None
    low: float = -math.inf
    high: float = math.inf


ACTIVATIONS = {
    "identity": Activation(lambda z: z, torch.ones_like),
    "sigmoid": Activation(torch.sigmoid, lambda z: z.sigmoid() * (-z).sigmoid(), 0, 1),
    "tanh": Activation(torch.tanh, lambda z: z.cosh() ** -2, -1, 1),
    "relu": Activation(torch.relu, lambda z: z.sign().clamp(min=0), low=0),
    "softplus": Activation(functools.partial(F.softplus, threshold=EXACT), torch.sigmoid, low=0),
    "sign": Activation(lambda z: 2 * (z >= 0).to(z) - 1, low=-1, high=1),  # 0 counts as +1
}
TORCH_UNITS = {
    "identity": nn.Identity(), "sigmoid": nn.Sigmoid(), "tanh": nn.Tanh(), "relu": nn.ReLU(),
    "softplus": nn.Softplus(threshold=EXACT),
}  # what the claims compare with


def layer_transfer(
    W: Float[Tensor, "m n"], b: Float[Tensor, " m"] | None, x: Float[Tensor, "... n"],
    phi: Name | Callable[[Tensor], Tensor],
) -> Float[Tensor, "... m"]:
    r"""Sends inputs through a layer, $\Phi(Wx+b)$; with the sign it is a bank of threshold units.

    Example:
        >>> layer_transfer(torch.tensor([[1.0, -1.0]]), None, torch.tensor([2.0, 3.0]), "sign")
        tensor([-1.])
    """
    return _function("layer_transfer", phi)(F.linear(x, W, b))


def _function(owner: str, phi: Any) -> Any:
    """Look a name up; a function of tensors stands for itself."""
    return phi if callable(phi) else _look_up(owner, phi, get_args(Name)).value


def _look_up(owner: str, name: Any, known: tuple[str, ...]) -> Activation:
    if name not in known:
        raise refuse(owner, "phi", f"one of {', '.join(map(repr, known))}", name)
    return ACTIVATIONS[name]


@checked
@torch.no_grad()
def delta_step(
    W: Float[Tensor, "m n"], b: Float[Tensor, " m"] | None, x: Float[Tensor, "B n"],
    y: Float[Tensor, "B m"], phi: Smooth, lr: Positive,
) -> tuple[Float[Tensor, "m n"], Float[Tensor, " m"] | None]:
    r"""Moves weights and biases by the delta rule, averaged over a batch; returns the new ones.

    Args:
        W: Weights.
        b: Biases, or none.
        x: Inputs.
        y: Targets; a warning tells when they are outside the range of `phi`.
        phi: Name of an activation with a derivative.
        lr: Learning rate $\eta$.

    Example:
        >>> x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]])
        >>> delta_step(torch.zeros(1, 2), None, x, y, "identity", 0.1)
        (tensor([[0.3000, 0.6000]]), None)
    """
    _check_targets("delta_step", phi, y, (len(x), len(W)), stacklevel=5)
    return _step(W, b, x, y, ACTIVATIONS[phi], lr)


def _step(
    W: Tensor, b: Tensor | None, x: Tensor, y: Tensor, phi: Activation, lr: float
) -> tuple[Tensor, Tensor | None]:
    z = F.linear(x, W, b)
    return _move(W, b, (y - phi.value(z)) * phi.slope(z), x, lr)


def _move(
    W: Tensor, b: Tensor | None, signal: Tensor, x: Tensor, lr: float
) -> tuple[Tensor, Tensor | None]:
    """Add `lr` times the mean outer product of signal (B, m) and input (B, n)."""
    rate = lr / len(x)
    W = torch.einsum("bi,bj->ij", signal, x).mul_(rate).add_(W)  # in place, on the new tensor only
    return W, None if b is None else signal.sum(0).mul_(rate).add_(b)


def _check_targets(
    owner: str, name: str, y: Tensor, shape: tuple[int, ...], stacklevel: int = 3
) -> None:
    """Refuse targets that would be broadcast; warn about targets that no output can equal."""
    if y.shape != shape or not y.numel():
        raise refuse(owner, "y", f"of shape {shape}, with one row or more", tuple(y.shape))
    low, high, phi = float(y.min()), float(y.max()), ACTIVATIONS[name]
    if low < phi.low or high > phi.high:
        warnings.warn(
            f"{owner}: y must be in [{phi.low:g}, {phi.high:g}], the range of {name}; got values "
            f"from {low:g} to {high:g}. No weights reach them: scale y or use another phi.",
            stacklevel=stacklevel,
        )


@checked
@torch.no_grad()
def generalized_delta(
    layers: Sequence[Layer], x: Float[Tensor, "B n"], y: Float[Tensor, "B m"], *,
    lr: Positive = 0.5,
) -> list[Layer]:
    r"""Moves all layers by the generalized delta rule, from the last to the first.

    Args:
        layers: Weights, biases (or none) and activation of each layer, the first one first.
        x: Inputs.
        y: Targets.
        lr: Learning rate $\eta$.

    Example:
        >>> one, two = torch.ones(1, 1), 2 * torch.ones(1, 1)
        >>> layers = generalized_delta([(one, None, "identity"), (two, None, "identity")], one, one)
        >>> [float(W) for W, _, _ in layers]  # the output 2 is 1 too high
        [0.0, 1.5]
    """
    if not layers:
        raise refuse("generalized_delta", "layers", "one layer or more", layers)
    phis = [_look_up("generalized_delta", name, get_args(Smooth)) for _, _, name in layers]
    last, _, name = layers[-1]
    _check_targets("generalized_delta", name, y, (len(x), len(last)), stacklevel=5)
    inputs, fields = [x], []
    for (W, b, _), phi in zip(layers, phis, strict=True):
        fields.append(F.linear(inputs[-1], W, b))
        inputs.append(phi.value(fields[-1]))
    delta = inputs.pop() - y  # dl/dphi of the last layer, for each sample
    moved: list[Layer] = []
    for (W, b, name), phi in zip(layers[::-1], phis[::-1], strict=True):
        signal = delta * phi.slope(fields.pop())  # dl/dz
        moved.append((*_move(W, b, signal, inputs.pop(), -lr), name))
        delta = signal @ W  # dl/dphi of the layer below
    return moved[::-1]


@final
class OneHidden(nn.Module):
    r"""Adds up hidden units: $f(x)=\sum_i v_i\,\varphi(w_i\cdot x+b_i)+c$.

    Shapes:
        x: (..., n); returns (...)

    Args:
        n: Inputs.
        m: Hidden units.
        phi: Activation of the hidden units, by name or as a function.
        bias: Whether hidden units have biases $b_i$.
        output_bias: Whether the output has a bias $c$.
        rng: Generator of the first weights, uniform within one over the root of the fan-in.

    Example:
        >>> model = OneHidden(2, 4, rng=torch.Generator().manual_seed(0))
        >>> values = model(torch.zeros(3, 2))
        >>> values.shape
        torch.Size([3])
    """

    @checked
    def __init__(
        self, n: Count, m: Count, *, phi: Name | Callable[[Tensor], Tensor] = "sigmoid",
        bias: bool = True, output_bias: bool = True, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.phi = _function("OneHidden", phi)
        self.hidden = _linear(n, m, rng, bias)
        self.output = _linear(m, 1, rng, output_bias)

    def forward(self, x: Float[Tensor, "... n"]) -> Float[Tensor, "..."]:
        """Compute the sum for each input."""
        return self.output(self.phi(self.hidden(x))).squeeze(-1)


def _linear(n: int, m: int, rng: torch.Generator | None, bias: bool = True) -> nn.Module:
    """Make a layer whose numbers are uniform within one over the root of its inputs."""
    layer = nn.utils.skip_init(nn.Linear, n, m, bias=bias)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -(n**-0.5), n**-0.5, generator=rng)
    return layer


@final
class DeltaLayer(ClassifierMixin, BaseEstimator):
    r"""Classifies with one layer of units, trained by the delta rule on mini-batches.

    Targets are the ends of the range of `phi` (-1 and +1 for the identity): two classes share one
    unit, more have one unit each. Weights start at 0; a score is the field $Wx+b$ of a unit.

    Shapes:
        X: (N, D); y: (N,); predict returns (N,)

    Args:
        phi: Activation of the units.
        lr: Learning rate; none means the one of `DeltaRegressor`.
        batch: Points in a mini-batch.
        epochs: Passes over the data.
        fit_intercept: Whether to learn biases.
        random_state: Seed of the order of the points, new in every epoch.

    Example:
        >>> model = DeltaLayer().fit([[0, 1], [1, 0], [0, 2], [2, 0]], ["up", "down"] * 2)
        >>> model.predict([[0, 3]]).tolist()
        ['up']
    """

    def __init__(
        self, *, phi: Literal["sigmoid", "tanh", "identity"] = "sigmoid",
        lr: Positive | None = 0.5, batch: Count = 32, epochs: Count = 100,
        fit_intercept: bool = True, random_state: Any = None,
    ) -> None:
        self.phi = phi
        self.lr = lr
        self.batch = batch
        self.epochs = epochs
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "DeltaLayer":
        """Learn for `epochs` passes; `loss_curve_` is half the squared error after each."""
        check_params(self)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], order="C")
        self.classes_, codes = class_codes("DeltaLayer", y)
        kinds = len(self.classes_)
        hot = codes[:, None] == (np.arange(kinds) if kinds > 2 else 1)
        phi = ACTIVATIONS[self.phi]
        self.coef_, self.intercept_, self.loss_curve_ = _train(
            self, X, np.where(hot, min(phi.high, 1.0), max(phi.low, -1.0))
        )
        return self

    def decision_function(self, X: Any) -> Array:
        """Score points by the fields of the units: (N,) for two classes, else (N, K)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        scores = X @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """Name the class of each point; a score of 0 is the second class."""
        scores = self.decision_function(X)
        best = (scores >= 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[best]


@final
class DeltaRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    r"""Predicts numbers with one layer of units, trained by the delta rule on mini-batches.

    With the identity it is the rule of Widrow and Hoff: least squares, one step at a time.

    Shapes:
        X: (N, D); y: (N,) or (N, m); predict returns the shape of y

    Args:
        phi: Activation of the units; a warning tells when `y` is outside its range.
        lr: Learning rate; none means $1/R^2$, R the largest norm of the points (x, 1), with which
            a linear unit never overshoots.
        batch, epochs, fit_intercept, random_state: As for `DeltaLayer`.

    Example:
        >>> model = DeltaRegressor().fit([[-1.0], [0.0], [1.0]], [1.0, 3.0, 5.0])
        >>> model.predict([[2.0]]).round(3).tolist()
        [7.0]
    """

    def __init__(
        self, *, phi: Literal["identity", "sigmoid", "tanh"] = "identity",
        lr: Positive | None = None, batch: Count = 32, epochs: Count = 100,
        fit_intercept: bool = True, random_state: Any = None,
    ) -> None:
        self.phi = phi
        self.lr = lr
        self.batch = batch
        self.epochs = epochs
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "DeltaRegressor":
        """Learn for `epochs` passes; `loss_curve_` is half the squared error after each."""
        check_params(self)
        X, y = validate_data(
            self, X, y, dtype=[np.float64, np.float32], order="C", multi_output=True, y_numeric=True
        )
        self.output_shape_ = y.shape[1:]
        targets = y.reshape(len(y), -1)
        _check_targets("DeltaRegressor", self.phi, torch.tensor(targets), targets.shape)
        self.coef_, self.intercept_, self.loss_curve_ = _train(self, X, targets)
        return self

    def predict(self, X: Any) -> Array:
        """Compute the outputs of the units."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        fields = torch.tensor(X @ self.coef_.T + self.intercept_)
        return ACTIVATIONS[self.phi].value(fields).numpy().reshape(len(X), *self.output_shape_)


@claim(control={"transposed": True}, source="Rumelhart, Hinton and Williams 1986")
def layer_transfer_claim(
    seed: Seed, *, size: Annotated[int, Range(10, 1000)] = 20, transposed: bool = False
) -> Evidence:
    r"""$\Phi(Wx+b)$ is `nn.Linear` with a torch activation; the sign makes threshold units."""
    rng = seed.torch()
    # integers: some fields are exactly 0, where the sign must say +1
    W, x, shifts = (torch.randint(-2, 3, (size, size), generator=rng).double() for _ in range(3))
    b = shifts[0]
    linear = nn.utils.skip_init(nn.Linear, size, size, dtype=torch.float64)
    linear.load_state_dict({"weight": W, "bias": b})
    fields = linear(x).detach()
    expected = {name: unit(fields) for name, unit in TORCH_UNITS.items()}
    expected["sign"] = torch.where(fields >= 0, 1.0, -1.0)
    used: Any = W.T if transposed else W
    return every(
        {
            name: identical(layer_transfer(used, b, x, name), values)  # type: ignore[arg-type]
            for name, values in expected.items()
        }
    )


@claim(control={"derivative": False}, source="Rumelhart, Hinton and Williams 1986")
def delta_is_gradient(
    seed: Seed, *, inputs: Annotated[int, Range(1, 500)] = 7,
    units: Annotated[int, Range(1, 500)] = 5, batch: Annotated[int, Range(3, 1000)] = 11,
    lr: Annotated[float, Range(0.01, 10)] = 0.5, derivative: bool = True,
) -> Evidence:
    r"""The delta rule is $-\eta\,\partial\ell/\partial W$, $\ell=\frac12\Vert\varphi-y\Vert^2$."""
    draw = functools.partial(torch.randn, generator=seed.torch(), dtype=torch.float64)
    W, b, x = draw(units, inputs), draw(units), draw(batch, inputs)
    parts = {}
    for name, unit in TORCH_UNITS.items():
        y = unit(draw(batch, units))
        moved = delta_step(W, b, x, y, name, lr)  # type: ignore[arg-type]
        if not derivative:
            moved = _move(W, b, y - unit(F.linear(x, W, b)), x, lr)
        taken = torch.column_stack([moved[0] - W, moved[1] - b])  # type: ignore[operator]
        parts[name] = identical(taken, _descent(unit, W, b, x, y, lr))
    labels = torch.arange(batch) % 3
    lows: dict[Any, float] = {"identity": -1.0, "sigmoid": 0.0, "tanh": -1.0}
    for name, low in lows.items():
        y = torch.where(F.one_hot(labels, 3) == 1, 1.0, low).double()
        step = _descent(TORCH_UNITS[name], W.new_zeros(3, inputs), W.new_zeros(3), x, y, lr)
        for kind, targets in ((DeltaLayer, labels), (DeltaRegressor, y)):
            model = kind(phi=name, lr=lr, batch=batch, epochs=1, random_state=int(seed))
            model.fit(x.numpy(), targets.numpy())
            taken = np.column_stack([model.coef_, model.intercept_])
            parts[f"{kind.__name__}, {name}"] = identical(taken, step)
    return every(parts)


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
            ),
            "rank one": at_most(values[1] / values[0], 1e-12, why=rounding),
            "residual times sensitivity": identical(
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
        moved = moved if sign == "-" else _mirrored(layers, moved)
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
            "steps by autograd": identical(torch.stack(taken), -lr * torch.stack(gradients)),
        }
    )


@claim(control={"hidden": False}, source="Minsky and Papert 1969; Rumelhart et al. 1986")
def hidden_layer_solves_xor(
    seed: Seed, *, nets: Annotated[int, Range(20, 1000)] = 100,
    units: Annotated[int, Range(3, 64)] = 4, steps: Annotated[int, Range(300, 2000)] = 500,
    hidden: bool = True,
) -> Evidence:
    r"""One hidden layer of four sigmoid units mostly learns XOR; a single layer never does."""
    rng = seed.torch()
    share = single = _share_solving_xor([_linear(2, 1, rng) for _ in range(nets)], steps)
    if hidden:
        share = _share_solving_xor([OneHidden(2, units, rng=rng) for _ in range(nets)], steps)
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


@claim(control={"phi": "identity"}, source="by construction")
def saturation(
    seed: Seed, *, depth: Annotated[int, Range(2, 300)] = 10,
    phi: Literal["sigmoid", "identity"] = "sigmoid",
) -> Evidence:
    r"""Deep in the wrong, at $z\ll0$, squared loss teaches by $e^{-|z|}$, cross-entropy by 1."""
    z = -torch.arange(1, depth + 1, dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64)
    # weights 0 with the field in the bias: small steps are not rounded away
    moved, _ = delta_step(torch.zeros(depth, 1).double(), z, one, one.expand(1, depth), phi, 1.0)
    squared = moved[:, 0]
    leaf = z.clone().requires_grad_()
    F.binary_cross_entropy_with_logits(leaf, torch.ones_like(z), reduction="sum").backward()
    entropy, decay = -leaf.grad, z.exp()  # type: ignore[operator]
    places = (-z).tolist()
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


@experiment(
    reaches={"test_error": at_most_goal(0.12)},
    floor={"test_accuracy": at_least_goal(0.88)},
    source="LeCun, Bottou, Bengio and Haffner (1998), Fig. 9: linear classifier, 12.0 % error",
)
def one_layer(
    run: Run, *, epochs: Count = 3, batch: Count = 32, lr: Annotated[float, Range(0.01, 5)] = 0.5
) -> None:
    """Reads digits with ten sigmoid units: MNIST, or 8 x 8 digits in ten times the epochs."""
    x, y, x_test, y_test = handwriting(run)
    side = x.shape[-1]
    x, x_test = x.flatten(1), x_test.flatten(1)
    model = DeltaLayer(
        lr=lr, batch=batch, random_state=int(run.seed),
        epochs=epochs if run.full else 10 * epochs,  # 40 times fewer pictures than MNIST has
    ).fit(x.numpy(), y.numpy())
    accuracy = model.score(x_test.numpy(), y_test.numpy())
    run.record(test_accuracy=accuracy, test_error=1 - accuracy)
    run.keep(model)

    weights = [row.reshape(side, side) for row in model.coef_]
    run.figure("weights", figures.images(weights, [str(k) for k in range(10)], signed=True))
    few, targets = x[:1000], F.one_hot(y[:1000], 10).to(x)
    right, wrong = (_losses(few, targets, lr, mirror) for mirror in (False, True))
    run.record(right_sign_loss=right[-1], wrong_sign_loss=wrong[-1])
    series = (
        Series("step -ηδφ'x, downhill", range(len(right)), right, style="line"),
        Series("step +ηδφ'x, uphill", range(len(wrong)), wrong, role="bound"),
    )
    run.figure("sign", figures.draw(Picture(series, "steps", "loss of 1000 pictures")))


def _train(model: Any, X: Array, y: Array) -> tuple[Array, Array, Array]:
    """Run the delta rule from weights 0; return weights (m, n), biases (m,), loss of each epoch."""
    phi, rng = ACTIVATIONS[model.phi], check_random_state(model.random_state)
    x = torch.tensor(X)
    t = torch.tensor(y).to(x)
    W, b = x.new_zeros(t.shape[1], x.shape[1]), x.new_zeros(t.shape[1])
    lr = model.lr or 1 / float((x.square().sum(1) + 1).max())
    bias, losses = b if model.fit_intercept else None, []
    for _ in range(model.epochs):
        for rows in torch.tensor(rng.permutation(len(x))).split(model.batch):
            W, bias = _step(W, bias, x[rows], t[rows], phi, lr)
        losses.append(_loss(phi.value(F.linear(x, W, bias)), t))
    if not np.isfinite(losses[-1]):
        hint = "Standardize X, or lower lr."
        domain = "small enough that the weights stay finite"
        raise refuse(type(model).__name__, "lr", domain, model.lr, hint)
    return W.numpy(), (b if bias is None else bias).numpy(), np.array(losses)


def _loss(output: Tensor, y: Tensor) -> float:
    """Average half the squared error over the batch."""
    return float((output - y).square().sum(1).mean() / 2)


def _descent(unit: nn.Module, W: Tensor, b: Tensor, x: Tensor, y: Tensor, lr: float) -> Tensor:
    """Take the step of gradient descent by autograd, weights and biases side by side."""
    leaves = W.clone().requires_grad_(), b.clone().requires_grad_()
    loss = (unit(F.linear(x, *leaves)) - y).square().sum() / (2 * len(x))
    return torch.column_stack([-lr * one for one in torch.autograd.grad(loss, leaves)])


def _weights(layers: Sequence[Layer]) -> list[Tensor]:
    return [one for W, b, _ in layers for one in (W, b) if one is not None]


def _mirrored(layers: Sequence[Layer], moved: Sequence[Layer]) -> list[Layer]:
    """Go as far from the layers as they moved, in the opposite direction."""
    pairs = zip(layers, moved, strict=True)
    return [(2 * W - V, 2 * b - c, name) for (W, b, name), (V, c, _) in pairs]  # type: ignore[operator]


def _losses(x: Tensor, y: Tensor, lr: float, mirror: bool) -> list[float]:
    """Trace the loss along 60 steps of a sigmoid layer on the whole batch, with either sign."""
    m = y.shape[1]
    layers: list[Layer] = [(x.new_zeros(m, x.shape[1]), x.new_zeros(m), "sigmoid")]
    losses = []
    for _ in range(60):
        losses.append(_loss(layer_transfer(*layers[0][:2], x, "sigmoid"), y))
        moved = generalized_delta(layers, x, y, lr=lr)
        layers = _mirrored(layers, moved) if mirror else moved
    return losses


def _share_solving_xor(nets: Sequence[nn.Module], steps: int) -> float:
    """Train all nets at once by Adam on cross-entropy; return the share with all four right."""
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = torch.tensor([0.0, 1.0, 1.0, 0.0]).expand(len(nets), 4)
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

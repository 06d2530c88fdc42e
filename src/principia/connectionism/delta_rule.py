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
    $\varphi, \varphi'$: activation `phi` and its derivative, `Activation.value` and `.slope`
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
    "DeltaLayer", "DeltaRegressor", "delta_step", "generalized_delta", "OneHidden",
    "layer_transfer", "Activation",
]

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F

from principia.lab import figures
from principia.lab.claims import claim
from principia.lab.data.digits import digits
from principia.lab.data.mnist import mnist
from principia.lab.errors import refuse, suggestion
from principia.lab.evidence import (
    Evidence,
    Picture,
    Series,
    at_least,
    at_most,
    equal,
    every,
    identical,
    never,
)
from principia.lab.experiments import Run, experiment
from principia.lab.knobs import (
    Count,
    Domain,
    Knob,
    Positive,
    Range,
    at_least_goal,
    at_most_goal,
    check_params,
    checked,
)
from principia.lab.seeds import Seed

Array = np.ndarray
Layer = tuple[Tensor, Tensor | None, Any]  # weights (m, n), biases (m,) or none, activation


@final
@dataclass(frozen=True)
class Activation:
    r"""Squashes the field of a unit, and knows its own derivative.

    Args:
        value: The function $\varphi$, entry by entry.
        slope: Its derivative $\varphi'$; none where it has none to learn with.
        low: Infimum of its values.
        high: Supremum of its values.

    Example:
        >>> square = Activation(torch.square, lambda z: 2 * z, low=0)
        >>> square(torch.tensor([3.0])), square.slope(torch.tensor([3.0]))
        (tensor([9.]), tensor([6.]))
    """

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor] | None = None
    low: float = -math.inf
    high: float = math.inf

    def __call__(self, z: Tensor) -> Tensor:
        """Apply the function."""
        return self.value(z)


ACTIVATIONS = {
    "identity": Activation(lambda z: z, torch.ones_like),
    "sigmoid": Activation(torch.sigmoid, lambda z: z.sigmoid() * (-z).sigmoid(), 0, 1),
    "tanh": Activation(torch.tanh, lambda z: z.cosh() ** -2, -1, 1),
    "relu": Activation(torch.relu, lambda z: (z > 0).to(z), low=0),
    "softplus": Activation(F.softplus, torch.sigmoid, low=0),
    "sign": Activation(lambda z: 2 * (z >= 0).to(z) - 1, low=-1, high=1),  # 0 counts as +1
}

TORCH_UNITS = {
    "identity": nn.Identity(), "sigmoid": nn.Sigmoid(), "tanh": nn.Tanh(), "relu": nn.ReLU(),
    "softplus": nn.Softplus(),
}


@final
@dataclass(frozen=True)
class Phi(Domain):
    """Activations by name or as an `Activation`; to look at only, any function of tensors.

    Example:
        >>> Phi(learns=True).text
        "'identity', 'sigmoid', 'tanh', 'relu', 'softplus' or an Activation with a slope"
    """

    learns: bool = False

    @property
    def _names(self) -> list[str]:
        return [name for name, one in ACTIVATIONS.items() if one.slope or not self.learns]

    @property
    def text(self) -> str:
        """List the names."""
        other = "an Activation with a slope" if self.learns else "a function of tensors"
        return f"{', '.join(map(repr, self._names))} or {other}"

    def accept(self, value: Any) -> Activation:
        """Look a name up; wrap a bare function."""
        if isinstance(value, str):
            value = ACTIVATIONS.get(value)
        if not isinstance(value, Activation) and callable(value):
            value = Activation(value)
        if value is None or not isinstance(value, Activation) or (self.learns and not value.slope):
            raise ValueError
        return value

    def good(self) -> Any:
        """Return the name of a smooth one."""
        return "tanh"

    def bad(self) -> Any:
        """Return a word that names none."""
        return "no-such-activation"

    def schema(self) -> dict[str, Any]:
        """Enumerate the names."""
        return {"enum": self._names}

    def hint(self, value: Any) -> str:
        """Say what to do without a derivative, or which name is close."""
        if value == "sign":
            return "Its derivative is 0 wherever it exists: learn with Perceptron, or use 'tanh'."
        guess = suggestion(value, self._names) if isinstance(value, str) else ""
        return guess if guess.startswith("Did") else ""


@checked
def layer_transfer(
    W: Float[Tensor, "m n"], b: Float[Tensor, " m"] | None, x: Float[Tensor, "... n"],
    phi: Annotated[Any, Phi()],
) -> Float[Tensor, "... m"]:
    r"""Sends inputs through a layer, $\Phi(Wx+b)$; with the sign it is a bank of threshold units.

    Example:
        >>> layer_transfer(torch.tensor([[1.0, -1.0]]), None, torch.tensor([2.0, 3.0]), "sign")
        tensor([-1.])
    """
    return phi(F.linear(x, W, b))


@checked
@torch.no_grad()
def delta_step(
    W: Float[Tensor, "m n"], b: Float[Tensor, " m"] | None, x: Float[Tensor, "B n"],
    y: Float[Tensor, "B m"], phi: Annotated[Any, Phi(learns=True)], lr: Positive,
) -> tuple[Float[Tensor, "m n"], Float[Tensor, " m"] | None]:
    r"""Moves weights and biases by the delta rule, averaged over a batch; returns the new ones.

    Args:
        W: Weights.
        b: Biases, or none.
        x: Inputs.
        y: Targets; a warning tells when they are outside the range of `phi`.
        phi: Activation with a derivative.
        lr: Learning rate $\eta$.

    Example:
        >>> x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]])
        >>> delta_step(torch.zeros(1, 2), None, x, y, "identity", 0.1)
        (tensor([[0.3000, 0.6000]]), None)
    """
    _warn_outside("delta_step", phi, y)
    return _step(W, b, x, y, phi, lr)


def _step(
    W: Tensor, b: Tensor | None, x: Tensor, y: Tensor, phi: Any, lr: float
) -> tuple[Tensor, Tensor | None]:
    z = F.linear(x, W, b)
    return _move(W, b, (y - phi(z)) * phi.slope(z), x, lr)


def _move(
    W: Tensor, b: Tensor | None, signal: Tensor, x: Tensor, lr: float
) -> tuple[Tensor, Tensor | None]:
    """Add `lr` times the mean outer product of signal (B, m) and input (B, n)."""
    rate = lr / len(x)
    W = torch.einsum("bi,bj->ij", signal, x).mul_(rate).add_(W)  # in place, on the new tensor only
    return W, None if b is None else signal.sum(0).mul_(rate).add_(b)


def _warn_outside(owner: str, phi: Activation, y: Tensor) -> None:
    low, high = float(y.min()), float(y.max())
    if low < phi.low or high > phi.high:
        warnings.warn(
            f"{owner}: y must be in the range [{phi.low:g}, {phi.high:g}] of phi; got values from "
            f"{low:g} to {high:g}. No weights reach them: scale y, or choose another phi.",
            stacklevel=4,
        )


@checked
@torch.no_grad()
def generalized_delta(
    layers: Sequence[Layer], x: Float[Tensor, "B n"], y: Float[Tensor, "B m"], *,
    lr: Positive = 0.1,
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
        [0.800000011920929, 1.899999976158142]
    """
    if not layers:
        raise refuse("generalized_delta", "layers", "one layer or more", layers)
    knob = Knob("phi", Phi(learns=True))
    phis = [knob.accept("generalized_delta", phi) for _, _, phi in layers]
    inputs, fields = [x], []
    for (W, b, _), phi in zip(layers, phis, strict=True):
        fields.append(F.linear(inputs[-1], W, b))
        inputs.append(phi(fields[-1]))
    delta = inputs.pop() - y  # dl/dphi of the last layer, for each sample
    moved: list[Layer] = []
    for (W, b, named), phi in zip(layers[::-1], phis[::-1], strict=True):
        signal = delta * phi.slope(fields.pop())  # dl/dz
        moved.append((*_move(W, b, signal, inputs.pop(), -lr), named))
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
        phi: Activation of the hidden units.
        bias: Whether hidden units have biases $b_i$.
        output_bias: Whether the output has a bias $c$.
        rng: Generator of the first weights, uniform within one over the root of the fan-in.

    Example:
        >>> OneHidden(2, 4)(torch.zeros(3, 2)).shape
        torch.Size([3])
    """

    @checked
    def __init__(
        self, n: Count, m: Count, *, phi: Annotated[Any, Phi()] = "sigmoid", bias: bool = True,
        output_bias: bool = True, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.phi = Phi().accept(phi)
        self.hidden = nn.utils.skip_init(nn.Linear, n, m, bias=bias)
        self.output = nn.utils.skip_init(nn.Linear, m, 1, bias=output_bias)
        for parameter, fan_in in [*((p, n) for p in self.hidden.parameters()),
                                  *((p, m) for p in self.output.parameters())]:
            nn.init.uniform_(parameter, -(fan_in**-0.5), fan_in**-0.5, generator=rng)

    def forward(self, x: Float[Tensor, "... n"]) -> Float[Tensor, "..."]:
        """Compute the sum for each input."""
        return self.output(self.phi(self.hidden(x))).squeeze(-1)


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
        shuffle: Whether to visit the points in a new order every epoch.
        random_state: Seed of the shuffling.

    Example:
        >>> model = DeltaLayer().fit([[0, 1], [1, 0], [0, 2], [2, 0]], ["up", "down"] * 2)
        >>> model.predict([[0, 3]]).tolist()
        ['up']
    """

    def __init__(
        self, *, phi: Literal["sigmoid", "tanh", "identity"] = "sigmoid",
        lr: Positive | None = 0.5, batch: Count = 32, epochs: Count = 100,
        fit_intercept: bool = True, shuffle: bool = True, random_state: Any = None,
    ) -> None:
        self.phi = phi
        self.lr = lr
        self.batch = batch
        self.epochs = epochs
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "DeltaLayer":
        """Learn for `epochs` passes; `loss_curve_` is half the squared error after each."""
        check_params(self)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], order="C")
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        kinds = len(self.classes_)
        if kinds < 2:
            raise refuse("DeltaLayer", "y", "of two classes or more", "one class")
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

    With the identity it is the rule of Widrow and Hoff, which goes to the least-squares solution.

    Shapes:
        X: (N, D); y: (N,) or (N, m); predict returns the shape of y

    Args:
        phi: Activation of the units; a warning tells when `y` is outside its range.
        lr: Learning rate; none means $1/R^2$, R the largest norm of the points (x, 1), with which
            a linear unit never overshoots.
        batch: Points in a mini-batch.
        epochs: Passes over the data.
        fit_intercept: Whether to learn biases.
        shuffle: Whether to visit the points in a new order every epoch.
        random_state: Seed of the shuffling.

    Example:
        >>> model = DeltaRegressor().fit([[-1.0], [0.0], [1.0]], [1.0, 3.0, 5.0])
        >>> model.predict([[2.0]]).round(3).tolist()
        [7.0]
    """

    def __init__(
        self, *, phi: Literal["identity", "sigmoid", "tanh"] = "identity",
        lr: Positive | None = None, batch: Count = 32, epochs: Count = 100,
        fit_intercept: bool = True, shuffle: bool = True, random_state: Any = None,
    ) -> None:
        self.phi = phi
        self.lr = lr
        self.batch = batch
        self.epochs = epochs
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "DeltaRegressor":
        """Learn for `epochs` passes; `loss_curve_` is half the squared error after each."""
        check_params(self)
        X, y = validate_data(
            self, X, y, dtype=[np.float64, np.float32], order="C", multi_output=True, y_numeric=True
        )
        self.output_shape_ = y.shape[1:]
        targets = y.reshape(len(y), -1)
        _warn_outside("DeltaRegressor", ACTIVATIONS[self.phi], torch.tensor(targets))
        self.coef_, self.intercept_, self.loss_curve_ = _train(self, X, targets)
        return self

    def predict(self, X: Any) -> Array:
        """Compute the outputs of the units."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        fields = torch.tensor(X @ self.coef_.T + self.intercept_)
        return ACTIVATIONS[self.phi](fields).numpy().reshape(len(X), *self.output_shape_)


@claim(control={"transposed": True}, source="Rumelhart, Hinton and Williams 1986")
def layer_transfer_claim(
    seed: Seed, *, size: Annotated[int, Range(2, 1000)] = 20, transposed: bool = False
) -> Evidence:
    r"""$\Phi(Wx+b)$ is `nn.Linear` with a torch activation; the sign makes threshold units."""
    rng = seed.torch()
    # integers: some fields are exactly 0, where the sign must say +1
    W, x = (torch.randint(-2, 3, (size, size), generator=rng).double() for _ in range(2))
    linear = nn.utils.skip_init(nn.Linear, size, size, dtype=torch.float64)
    linear.weight.data, linear.bias.data = W, torch.randint(-2, 3, (size,), generator=rng).double()
    fields = linear(x).detach()
    expected = {name: unit(fields) for name, unit in TORCH_UNITS.items()}
    expected["sign"] = torch.where(fields >= 0, 1.0, -1.0)
    used = W.T if transposed else W
    return every(
        {
            name: identical(layer_transfer(used, linear.bias.detach(), x, name), values)
            for name, values in expected.items()
        }
    )


@claim(control={"derivative": False}, source="Rumelhart, Hinton and Williams 1986")
def delta_is_gradient(
    seed: Seed, *, inputs: Annotated[int, Range(1, 500)] = 7,
    units: Annotated[int, Range(1, 500)] = 5, batch: Annotated[int, Range(1, 1000)] = 11,
    lr: Annotated[float, Range(0.01, 10)] = 0.5, derivative: bool = True,
) -> Evidence:
    r"""The delta rule is $-\eta\,\partial\ell/\partial w$ for $\ell=\frac12\Vert\varphi-y\Vert^2$."""
    rng = seed.torch()
    parts = {}
    for name, unit in TORCH_UNITS.items():
        W, x, b, z = (
            torch.randn(*shape, generator=rng, dtype=torch.float64)
            for shape in ((units, inputs), (batch, inputs), (units,), (batch, units))
        )
        y = unit(z)
        phi = name if derivative else Activation(unit, torch.ones_like)
        moved = delta_step(W, b, x, y, phi, lr)
        leaves = W.clone().requires_grad_(), b.clone().requires_grad_()
        loss = (unit(F.linear(x, *leaves)) - y).square().sum() / (2 * batch)
        steps = [-lr * one for one in torch.autograd.grad(loss, leaves)]
        parts[name] = identical(
            torch.column_stack([moved[0] - W, moved[1] - b]),  # type: ignore[operator]
            torch.column_stack(steps),
        )
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
    rounding = "rounding of weights of size 1 against their changes, of size 0.01 or more"
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
    seed: Seed, *, steps: Annotated[int, Range(2, 500)] = 50,
    lr: Annotated[float, Range(0.001, 0.2)] = 0.1, sign: Literal["-", "+"] = "-",
) -> Evidence:
    r"""With $\delta=\partial\ell/\partial\varphi=\varphi-y$ the step is $-\eta\delta\varphi'x$."""
    rng = seed.torch()
    sizes, units = (4, 8, 6, 2), ("sigmoid", "tanh", "identity")
    x, y = (torch.randn(32, n, generator=rng, dtype=torch.float64) for n in (4, 2))
    net = nn.Sequential()
    layers: list[Layer] = []
    for n, m, name in zip(sizes, sizes[1:], units):  # noqa: B905
        W = torch.randn(m, n, generator=rng, dtype=torch.float64) / n**0.5
        b = torch.randn(m, generator=rng, dtype=torch.float64)
        linear = nn.utils.skip_init(nn.Linear, n, m, dtype=torch.float64)
        linear.weight.data, linear.bias.data = W.clone(), b.clone()
        net.extend([linear, TORCH_UNITS[name]])
        layers.append((W, b, name))
    descent = torch.optim.SGD(net.parameters(), lr=lr)
    losses, reference = [], []
    for _ in range(steps + 1):
        output = x
        for W, b, name in layers:
            output = layer_transfer(W, b, output, name)
        losses.append(_loss(output, y))
        moved = generalized_delta(layers, x, y, lr=lr)
        layers = moved if sign == "-" else _mirrored(layers, moved)
        descent.zero_grad()
        loss = (net(x) - y).square().sum(1).mean() / 2
        loss.backward()
        descent.step()
        reference.append(float(loss))
    ours = torch.cat([one.flatten() for W, b, _ in layers for one in (W, b)])  # type: ignore[union-attr]
    theirs = torch.cat([one.detach().flatten() for one in net.parameters()])
    return every(
        {
            "steps that do not lower the loss": never(
                np.diff(losses) >= 0, why="steps much shorter than the loss's curvature allows"
            ).drawn(
                Series("delta rule", range(steps + 1), losses),
                Series("autograd", range(steps + 1), reference, role="predicted"),
                x="steps", y="loss",
            ),
            "weights as by autograd and SGD": identical(ours, theirs),
        }
    )


@claim(control={"hidden": False}, source="Rumelhart, Hinton and Williams 1986; Minsky 1969")
def hidden_layer_solves_xor(
    seed: Seed, *, nets: Annotated[int, Range(20, 1000)] = 100,
    units: Annotated[int, Range(3, 64)] = 4, steps: Annotated[int, Range(300, 2000)] = 500,
    hidden: bool = True,
) -> Evidence:
    r"""One hidden layer of four sigmoid units mostly learns XOR; a single layer never does."""
    rng = seed.torch()
    deep = [OneHidden(2, units, rng=rng) if hidden else _single(rng) for _ in range(nets)]
    return every(
        {
            "share with all four right": at_least(
                _share_solving_xor(deep, steps), 0.7,
                why="some starts end in local minima; 0.9 of many nets do not, less 6 SE of 100",
            ),
            "single layers with all four right": equal(
                _share_solving_xor([_single(rng) for _ in range(nets)], steps), 0.0, tol=0,
                why="a theorem: no line separates XOR",
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
            "cross-entropy": equal(entropy, 1.0, tol=decay, why="exactly 1 / (1 + e^-|z|)"),
        }
    )


@experiment(
    reaches={"test_error": at_most_goal(0.12)},
    floor={"test_accuracy": at_least_goal(0.88)},
    source="LeCun, Bottou, Bengio and Haffner (1998), Fig. 9: linear classifier (1-layer NN), 12.0 %",
)
def one_layer(
    run: Run, *, epochs: Count = 3, batch: Count = 32, lr: Positive = 0.5,
    phi: Literal["sigmoid", "tanh", "identity"] = "sigmoid",
) -> None:
    """Reads digits with ten units: MNIST, or 8 x 8 digits (ten times the epochs) when quick."""
    if run.full:
        (x, y), (x_test, y_test) = (
            mnist(part, data_dir=run.data_dir) for part in ("train", "test")
        )
    else:
        x, y, x_test, y_test = digits()
    side = x.shape[-1]
    x, x_test = x.flatten(1), x_test.flatten(1)
    model = DeltaLayer(
        phi=phi, lr=lr, batch=batch, random_state=int(run.seed),
        epochs=epochs if run.full else 10 * epochs,  # 40 times fewer pictures than MNIST has
    ).fit(x.numpy(), y.numpy())
    accuracy = model.score(x_test.numpy(), y_test.numpy())
    run.record(test_accuracy=accuracy, test_error=1 - accuracy)

    weights = [row.reshape(side, side) for row in model.coef_]
    run.figure("weights", figures.images(weights, [str(k) for k in range(10)], signed=True))
    low = max(ACTIVATIONS[phi].low, -1.0)
    few, targets = x[:1000], low + (1 - low) * F.one_hot(y[:1000], 10).to(x)
    curves = {sign: _losses(few, targets, phi, lr, mirror=sign == "+") for sign in "-+"}
    run.record(right_sign_loss=curves["-"][-1], wrong_sign_loss=curves["+"][-1])
    steps = range(len(curves["-"]))
    series = (
        Series("step -ηδφ'x, downhill", steps, curves["-"], style="line"),
        Series("step +ηδφ'x, uphill", steps, curves["+"], role="bound"),
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
        order = rng.permutation(len(x)) if model.shuffle else np.arange(len(x))
        for rows in torch.tensor(order).split(model.batch):
            W, bias = _step(W, bias, x[rows], t[rows], phi, lr)
        losses.append(_loss(phi(F.linear(x, W, bias)), t))
    if not np.isfinite(losses[-1]):
        hint = "Standardize X, or lower lr."
        domain = "small enough that the weights stay finite"
        raise refuse(type(model).__name__, "lr", domain, model.lr, hint)
    return W.numpy(), (b if bias is None else bias).numpy(), np.array(losses)


def _loss(output: Tensor, y: Tensor) -> float:
    """Average half the squared error over the batch."""
    return float((output - y).square().sum(1).mean() / 2)


def _mirrored(layers: Sequence[Layer], moved: Sequence[Layer]) -> list[Layer]:
    """Go as far from the layers as they moved, in the opposite direction."""
    pairs = zip(layers, moved, strict=True)
    return [(2 * W - V, None if b is None else 2 * b - c, phi) for (W, b, phi), (V, c, _) in pairs]


def _losses(x: Tensor, y: Tensor, phi: str, lr: float, mirror: bool, steps: int = 60) -> list[float]:
    """Trace the loss along steps of one layer on the whole batch, with either sign."""
    layers: list[Layer] = [(x.new_zeros(y.shape[1], x.shape[1]), x.new_zeros(y.shape[1]), phi)]
    losses = []
    for _ in range(steps):
        losses.append(_loss(layer_transfer(*layers[0][:2], x, phi), y))
        moved = generalized_delta(layers, x, y, lr=lr)
        layers = _mirrored(layers, moved) if mirror else moved
    return losses


def _single(rng: torch.Generator) -> nn.Module:
    """Make one unit with two inputs and no hidden layer."""
    unit = nn.utils.skip_init(nn.Linear, 2, 1)
    for parameter in unit.parameters():
        nn.init.uniform_(parameter, -(2**-0.5), 2**-0.5, generator=rng)
    return unit


def _share_solving_xor(nets: Sequence[nn.Module], steps: int) -> float:
    """Train all nets at once by Adam on cross-entropy; return the share with all four right."""
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = torch.tensor([0.0, 1.0, 1.0, 0.0]).expand(len(nets), 4)
    weights, _ = stack_module_state(list(nets))  # type: ignore[arg-type]
    adam = torch.optim.Adam(weights.values(), lr=0.1)

    def scores() -> Tensor:
        call = vmap(lambda one: functional_call(nets[0], one, (x,)))
        return call(weights).reshape(len(nets), 4)

    for _ in range(steps):
        adam.zero_grad()
        F.binary_cross_entropy_with_logits(scores(), y, reduction="sum").backward()
        adam.step()
    return float(((scores() > 0) == (y > 0)).all(dim=1).double().mean())

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
    $\varphi, \varphi'$: activation `phi` and derivative, `ACTIVATIONS[phi]` of page `neuron`
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

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, final, get_args

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn
from torch.nn import functional as F

from principia.connectionism.neuron import ACTIVATIONS, Activation
from principia.lab.params import PositiveFloat, PositiveInt, check_params, checked, usage_error
from principia.lab.training.estimators import class_codes

Array = np.ndarray
Layer = tuple[Tensor, Tensor | None, Any]  # weights (m, n), biases (m,) or none, name of phi
Smooth = Literal["identity", "sigmoid", "tanh", "relu", "softplus"]
Name = Literal["identity", "sigmoid", "tanh", "relu", "softplus", "sign"]

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
        raise usage_error(owner, "phi", f"one of {', '.join(map(repr, known))}", name)
    return ACTIVATIONS[name]


@checked
@torch.no_grad()
def delta_step(
    W: Float[Tensor, "m n"], b: Float[Tensor, " m"] | None, x: Float[Tensor, "B n"],
    y: Float[Tensor, "B m"], phi: Smooth, lr: PositiveFloat,
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


def _check_targets(
    owner: str, name: str, y: Tensor, shape: tuple[int, ...], stacklevel: int = 3
) -> None:
    """Refuse targets that would be broadcast; warn about targets that no output can equal."""
    if y.shape != shape or not y.numel():
        raise usage_error(owner, "y", f"of shape {shape}, with one row or more", tuple(y.shape))
    low, high, phi = float(y.min()), float(y.max()), ACTIVATIONS[name]
    if low < phi.low or high > phi.high:
        warnings.warn(
            f"{owner}: y must be in [{phi.low:g}, {phi.high:g}], the range of {name}; got values "
            f"from {low:g} to {high:g}. No weights reach them: scale y or use another phi.",
            stacklevel=stacklevel,
        )


def _step(
    W: Tensor, b: Tensor | None, x: Tensor, y: Tensor, phi: Activation, lr: float
) -> tuple[Tensor, Tensor | None]:
    z = F.linear(x, W, b)
    return delta_move(W, b, (y - phi.value(z)) * phi.slope(z), x, lr)


def delta_move(
    W: Tensor, b: Tensor | None, signal: Tensor, x: Tensor, lr: float
) -> tuple[Tensor, Tensor | None]:
    """Add `lr` times the mean outer product of signal (B, m) and input (B, n)."""
    rate = lr / len(x)
    W = torch.einsum("bi,bj->ij", signal, x).mul_(rate).add_(W)  # in place, on the new tensor only
    return W, None if b is None else signal.sum(0).mul_(rate).add_(b)


@checked
@torch.no_grad()
def generalized_delta(
    layers: Sequence[Layer], x: Float[Tensor, "B n"], y: Float[Tensor, "B m"], *,
    lr: PositiveFloat = 0.5,
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
        raise usage_error("generalized_delta", "layers", "one layer or more", layers)
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
        moved.append((*delta_move(W, b, signal, inputs.pop(), -lr), name))
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
        self, n: PositiveInt, m: PositiveInt, *, phi: Name | Callable[[Tensor], Tensor] = "sigmoid",
        bias: bool = True, output_bias: bool = True, rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.phi = _function("OneHidden", phi)
        self.hidden = uniform_linear(n, m, rng, bias)
        self.output = uniform_linear(m, 1, rng, output_bias)

    def forward(self, x: Float[Tensor, "... n"]) -> Float[Tensor, "..."]:
        """Compute the sum for each input."""
        return self.output(self.phi(self.hidden(x))).squeeze(-1)


def uniform_linear(n: int, m: int, rng: torch.Generator | None, bias: bool = True) -> nn.Module:
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
        lr: PositiveFloat | None = 0.5, batch: PositiveInt = 32, epochs: PositiveInt = 100,
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
        losses.append(half_squared_error(phi.value(F.linear(x, W, bias)), t))
    if not np.isfinite(losses[-1]):
        hint = "Standardize X, or lower lr."
        domain = "small enough that the weights stay finite"
        raise usage_error(type(model).__name__, "lr", domain, model.lr, hint)
    return W.numpy(), (b if bias is None else bias).numpy(), np.array(losses)


def half_squared_error(output: Tensor, y: Tensor) -> float:
    """Average half the squared error over the batch."""
    return float((output - y).square().sum(1).mean() / 2)


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
        lr: PositiveFloat | None = None, batch: PositiveInt = 32, epochs: PositiveInt = 100,
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
